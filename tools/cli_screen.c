/* Terminal output other than answers: help pages and the progress bar. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* --- help --- */

static void print_all_verbs(void)
{
    (void)fputs("qg -- simulates a network as quantized by a backend, and explains "
                "the result.\n\nusage: qg VERB ...\n\n",
                stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++)
        (void)printf("  %-16s %s\n", v->name, v->summary);
    (void)fputs("\nA first session:\n"
                "  qg quantize model.onnx -b trt-int8 -d calib.npy -o snapshot\n"
                "  qg analyse snapshot -d calib.npy --by layer --top 10\n"
                "  qg explain snapshot Conv_0.out0\n"
                "\n`qg VERB --help` describes a verb and its options.\n"
                "Exit status: 0 done, 1 failed, 2 wrong usage, 3 differences found,\n"
                "130 interrupted, 143 terminated; of diverge and conformance:\n"
                "1 differences or failed tests, 4 failed.  Wrong usage is an unknown\n"
                "verb, option or word of those that the help of an option lists; a\n"
                "name that `qg list` shows and files may add (backend, observer,\n"
                "format, quirk, profile) is looked up, and fails with 1.\n",
                stdout);
}

static void print_option(const cli_option *o)
{
    char left[64];
    const char letter[] = { '-', o->letter, ',', ' ', '\0' };
    (void)snprintf(left, sizeof left, "%s--%s%s%s", o->letter ? letter : "    ",
                   o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    if (strlen(left) > 28)
        (void)printf("  %s\n  %-28s  %s\n", left, "", o->help);
    else
        (void)printf("  %-28s  %s\n", left, o->help);
}

static void print_usage(const cli_verb *v)
{
    (void)printf("usage: qg %s%s%s", v->name, *v->files ? " " : "", v->files);
    for (int id = 0; id < CLI_N_OPTION; id++) {
        const cli_option *o = &cli_options[id];
        if (cli_use_of(v, id) != CLI_NEEDS)
            continue;
        if (o->letter)
            (void)printf(" -%c %s", o->letter, o->argument);
        else
            (void)printf(" --%s %s", o->name, o->argument);
    }
    (void)fputs(" [options]\n", stdout);
}

void cli_help(const cli_verb *verb)
{
    if (!verb) {
        print_all_verbs();
        return;
    }
    (void)printf("qg %s -- %s\n\n", verb->name, verb->summary);
    print_usage(verb);
    (void)fputc('\n', stdout);
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(verb, id))
            print_option(&cli_options[id]);
    if (verb->about)
        (void)printf("\n%s\n", verb->about);
    (void)printf("\nexample:\n  %s\n", verb->example);
}

/* --- progress --- */

enum { BAR = 30, SECONDS = 10 /* between lines */ };

/* A signal handler can reach nothing else. */
static volatile sig_atomic_t interrupted;

/* A second signal, also of the other kind, ends the process. */
static void interrupt(int signal_number)
{
    if (interrupted)
        _exit(CLI_SIGNAL + signal_number);
    interrupted = signal_number;
}

int cli_interrupted(void) { return interrupted ? CLI_SIGNAL + interrupted : 0; }

/* The handler stays: the default action would end the process without a status. */
static void catch_signal(int number)
{
    struct sigaction old, mine = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
    (void)sigemptyset(&mine.sa_mask);
    if (!interrupted && sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        (void)sigaction(number, &mine, NULL);
}

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What is left of the stage at its speed so far; "" for its first seconds. */
static const char *time_left(const cli_bar *b, size_t done, size_t total, char text[32])
{
    const double spent = seconds_now() - b->since;
    const double left = done > b->first && total > done
                            ? spent / (double)(done - b->first) * (double)(total - done)
                            : 0;
    *text = '\0';
    if (spent >= 2 && left >= 90)
        (void)snprintf(text, 32, "  %.0f min left", left / 60 + 0.5);
    else if (spent >= 2 && left > 0)
        (void)snprintf(text, 32, "  %.0f s left", left + 0.5);
    return text;
}

static void begin_stage(cli_bar *b, const char *stage, size_t done)
{
    if (strncmp(b->stage, stage, sizeof b->stage - 1) == 0 && done >= b->done)
        return;
    (void)snprintf(b->stage, sizeof b->stage, "%s", stage);
    b->first = done;
    b->since = seconds_now();
}

static void draw(cli_bar *b, const char *stage, size_t done, size_t total)
{
    char bar[BAR + 1], left[32];
    size_t filled = total ? (size_t)((double)done / (double)total * BAR) : 0;
    filled = filled > BAR ? BAR : filled;
    memset(bar, '.', BAR);
    memset(bar, '#', filled);
    bar[BAR] = '\0';
    begin_stage(b, stage, done);
    if (total)
        (void)fprintf(stderr, "\r%-12s [%s] %zu / %zu%s\x1b[K", stage, bar, done, total,
                      time_left(b, done, total, left));
    else
        (void)fprintf(stderr, "\r%-12s %zu\x1b[K", stage, done);
    (void)fflush(stderr);
    b->shown = true;
    b->done = done;
    b->total = total;
}

/* Where no bar can be drawn: a line now and then. */
static void tell(cli_bar *b, const char *stage, size_t done, size_t total)
{
    char left[32];
    begin_stage(b, stage, done);
    b->done = done;
    b->total = total;
    const double now = seconds_now();
    if (b->told == 0)
        b->told = now;
    if (!b->verbose || now - b->told < SECONDS)
        return;
    b->told = now;
    if (total)
        (void)fprintf(stderr, "qg: %s %zu / %zu%s\n", stage, done, total,
                      time_left(b, done, total, left));
    else
        (void)fprintf(stderr, "qg: %s %zu\n", stage, done);
}

/* Calls without new progress only check whether to continue. */
static int step(void *ud, const char *stage, size_t done, size_t total)
{
    cli_bar *b = ud;
    bool news = done > 0 && (!b->shown || done != b->done || total != b->total);
    if (news && b->terminal)
        draw(b, stage, done, total);
    else if (news)
        tell(b, stage, done, total);
    return interrupted;
}

qg_progress cli_progress(cli_bar *bar)
{
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    bar->terminal = isatty(STDERR_FILENO);
    return (qg_progress){ step, bar };
}

void cli_bar_clear(cli_bar *bar)
{
    if (bar->shown)
        (void)fputs("\r\x1b[K", stderr);
    bar->shown = false;
}
