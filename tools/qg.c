/* qg.c -- the command `qg`: parses the command line and runs the verb. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* What other tools, or the words of a verb, call it. */
static const struct {
    const char *word, *verb;
} other_name[] = {
    {"doctor",     "stats doctor" },
    { "collect",   "stats collect"},
    { "derive",    "stats derive" },
    { "merge",     "stats merge"  },
    { "inspect",   "dump"         },
    { "show",      "dump"         },
    { "print",     "dump"         },
    { "calibrate", "quantize"     },
    { "convert",   "export"       },
    { "simulate",  "run"          },
    { "accuracy",  "evaluate"     },
    { "train",     "tune"         },
    { "finetune",  "tune"         },
};
enum { N_OTHER_NAME = sizeof other_name / sizeof other_name[0] };

static int unknown_verb(const char *word)
{
    const char *name[64 + N_OTHER_NAME];
    size_t n = 0;
    for (const cli_verb *v = cli_verbs; v->name && n < 64; v++)
        name[n++] = v->name;
    for (size_t i = 0; i < N_OTHER_NAME; i++)
        name[n++] = other_name[i].word;
    const char *near = qg_nearest(word, name, n);
    for (size_t i = 0; near && i < N_OTHER_NAME; i++)
        if (near == other_name[i].word)
            near = other_name[i].verb;
    return cli_usage(NULL, "no verb '%s'%s%s%s", word, near ? ", did you mean '" : "",
                     near ? near : "", near ? "'" : "");
}

static void say(void *ud, int level, const char *text)
{
    cli_bar_clear(ud);
    (void)fputs(level == 0 ? "qg: warning: " : "qg: ", stderr);
    cli_print(stderr, text);
    (void)fputc('\n', stderr);
}

/* Under a limit, what is freed has to leave the process, since it is no longer counted:
 * one heap for all threads, in place of glibc's heaps per thread, which keep freed
 * blocks; blocks of 1 MB and more outside of it, which costs page faults. */
static void limit_heap(void)
{
#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

/* Fails also where the verb would read nothing from there. */
static int refuse_config_dir(const cli_verb *verb, const char *dir)
{
    char message[1200];
    struct stat is;
    int failed = stat(dir, &is) ? errno : ENOTDIR;
    (void)snprintf(message, sizeof message,
                   "--config-dir '%.1000s': %s, expected a folder", dir,
                   strerror(failed));
    return cli_fail(verb, message);
}

static bool is_folder(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
}

static int run(const cli_verb *verb, const cli_arguments *a)
{
    if (a->config_dir && !is_folder(a->config_dir))
        return refuse_config_dir(verb, a->config_dir);
    if (a->max_mem)
        limit_heap();
    cli_bar bar = { .verbose = a->verbose > 0 };
    cli_call c = { .verb = verb, .args = a, .bar = &bar };
    qg_open_options o;
    qg_open_options_init(&o, sizeof o);
    o.config_dir = a->config_dir;
    o.max_memory = a->max_mem;
    o.max_nodes = a->max_nodes;
    o.max_ratio = a->max_ratio;
    o.log = say;
    o.log_ud = &bar;
    o.log_level = (int)(a->verbose < 2 ? a->verbose : 2);
    qg_status s = qg_open(&o, &c.ctx);
    if (s != QG_OK)
        return cli_fail(verb, qg_status_text(s));
    int status = cli_run(&c);
    cli_bar_clear(&bar);
    qg_close(c.ctx);
    return status;
}

/* Output errors must be reported. */
static int finish(int status)
{
    char message[160];
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout) != 0;
    bool done = status == CLI_OK || status == CLI_FINDINGS;
    if (!lost || !done)
        return status;
    if (!errno) { /* an earlier write failed: one more usually fails for the same */
        clearerr(stdout);
        (void)putchar('\n');
        (void)fflush(stdout);
    }
    (void)snprintf(message, sizeof message, "cannot write to stdout: %s",
                   errno ? strerror(errno) : "an earlier write failed");
    return cli_fail(NULL, message);
}

/* The status of the process. */
static int status_of(const cli_verb *verb, int status)
{
    if (!verb->judges)
        return status;
    return status == CLI_FINDINGS ? 1 : status == CLI_FAILED ? CLI_NOT_JUDGED : status;
}

int main(int argc, char **argv)
{
    cli_arguments a;
    const char *word = argc > 1 ? argv[1] : NULL;
    (void)signal(SIGXFSZ, SIG_IGN); /* a file beyond its limit is a failing write */
    if (!word)
        return cli_usage(NULL, "expected a verb");
    if (strcmp(word, "--version") == 0)
        word = "version";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    const cli_verb *verb = cli_verb_named(word);
    if (!verb)
        return unknown_verb(word);
    int status = cli_parse(verb, argc - 2, argv + 2, &a);
    if (status == CLI_OK && a.help)
        cli_help(verb);
    else if (status == CLI_OK)
        status = run(verb, &a);
    cli_arguments_free(&a);
    return status_of(verb, finish(status));
}
