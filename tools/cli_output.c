/* Checks that results can be written, before the long work begins. */
#define _GNU_SOURCE /* O_TMPFILE */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { LONGEST = 4000 };

static const char *probe_by_folder(const char *folder)
{
    char name[LONGEST + 16];
    (void)snprintf(name, sizeof name, "%s/.qg-XXXXXX", folder);
    if (!mkdtemp(name))
        return strerror(errno);
    return rmdir(name) == 0 ? NULL : strerror(errno);
}

/* Creating something is the only reliable test: permission bits do not cover root or a
 * read-only file system.  A file without a name, so that a process killed here leaves
 * nothing; a folder where the file system has no such files. */
static const char *probe(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        return close(fd) == 0 ? NULL : strerror(errno);
    return probe_by_folder(folder);
}

const char *cli_folder_fault(const char *path)
{
    char folder[LONGEST + 1];
    struct stat st;
    size_t n = strlen(path);
    if (n > LONGEST)
        return "the path is too long";
    memcpy(folder, path, n + 1);
    for (;;) {
        if (stat(folder, &st) == 0)
            return S_ISDIR(st.st_mode) ? probe(folder)
                                       : "it is a file, expected a folder";
        if (errno != ENOENT)
            return strerror(errno);
        if (lstat(folder, &st) == 0)
            return "it is a link to nothing, expected a folder";
        while (n > 0 && folder[n - 1] == '/')
            n--;
        while (n > 0 && folder[n - 1] != '/')
            n--;
        if (n == 0)
            return probe(".");
        folder[n == 1 ? 1 : n - 1] = '\0';
    }
}

static bool exists(const char *folder, const char *name)
{
    char path[LONGEST + 16];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Whether the quant.json of a folder is one of ours, by how it begins. */
static bool is_ours(const char *folder)
{
    char path[LONGEST + 16], head[64] = "";
    (void)snprintf(path, sizeof path, "%s/quant.json", folder);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    head[n] = '\0';
    if (f)
        (void)fclose(f);
    return strstr(head, "\"quantgraph/") != NULL;
}

const char *cli_snapshot_fault(const char *path)
{
    const char *fault = cli_folder_fault(path);
    if (fault)
        return fault;
    if ((exists(path, "model.onnx") || exists(path, "quant.json")) && !is_ours(path))
        return "it contains a model.onnx or quant.json that is not part of a snapshot, "
               "expected a new folder or a snapshot to replace";
    return NULL;
}

bool cli_same_place(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* The file that --output would replace though the verb reads it; NULL: none.  Folders
 * are replaced as a whole, and `stats merge` reads before it writes. */
static const char *read_and_replaced(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const char *const read[] = { a->data, a->holdout, a->labels, a->model };
    struct stat out;
    if (!a->output || stat(a->output, &out) != 0 || !S_ISREG(out.st_mode))
        return NULL;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i] && cli_same_place(read[i], a->output))
            return read[i];
    const bool merges = a->file.n > 0 && strcmp(a->file.at[0], "merge") == 0;
    for (size_t i = 0; !merges && i < a->file.n; i++)
        if (cli_same_place(a->file.at[i], a->output))
            return a->file.at[i];
    return NULL;
}

static int run(const cli_call *c)
{
    const char *lost = read_and_replaced(c);
    if (lost)
        return cli_usage(c->verb,
                         "--output '%s': it is the file '%s' that is read, "
                         "expected another file",
                         c->args->output, lost);
    return c->verb->run ? c->verb->run(c)
                        : cli_ask(c, c->args->file.at[0], c->verb->ask);
}

int cli_run(const cli_call *c)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return cli_fail(c->verb, "out of memory");
    const locale_t before = uselocale(plain);
    const int status = run(c);
    (void)uselocale(before);
    freelocale(plain);
    return status;
}

/* The length of a control character in UTF-8 at s: C0 except newline and tab, DEL, C1,
 * or what reorders or breaks a line (U+200E, U+200F, U+2028 to U+202E, U+2066 to
 * U+2069); 0: another character. */
static size_t control(const unsigned char *s)
{
    if ((s[0] < 0x20 && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f)
        return 1;
    if (s[0] == 0xc2)
        return s[1] >= 0x80 && s[1] < 0xa0 ? 2 : 0;
    bool direction = s[0] == 0xe2 && s[1] == 0x80 &&
                     (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae));
    bool isolate = s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
    return direction || isolate ? 3 : 0;
}

void cli_print(FILE *f, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = control(s);
        for (size_t i = 0; i < n; i++)
            (void)fprintf(f, "\\x%02x", s[i]);
        if (n == 0)
            (void)fputc(*s, f);
        s += n ? n : 1;
    }
}
