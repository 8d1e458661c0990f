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

/* --- what is read is not replaced --- */

/* Whether path is a file of a folder that is read: a sample, or a part of a trace.  No
 * verb replaces a file of a snapshot by another. */
static bool is_file_of(const char *folder, const char *path)
{
    static const char *const end[] = { ".npy", ".npz", ".pb", "trace.json" };
    char above[LONGEST + 1];
    bool read = false;
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        read = read ||
               (n > strlen(end[i]) && strcmp(path + n - strlen(end[i]), end[i]) == 0);
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (!read || n > LONGEST)
        return false;
    (void)snprintf(above, sizeof above, "%.*s", (int)n, path);
    return cli_same_place(n ? above : ".", folder);
}

/* The names of a snapshot; other files of its folder stay. */
static bool is_of_snapshot(const char *folder, const char *path)
{
    static const char *const own[] = { "model.onnx", "model.onnx.data", "quant.json" };
    char file[LONGEST + 32];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        (void)snprintf(file, sizeof file, "%.*s/%s", LONGEST, folder, own[i]);
        if (cli_same_place(file, path))
            return true;
    }
    return false;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether writing `path` replaces the file `read`, or one in the folder `read`.  The
 * names that `run` writes into a folder are those of the network: the library looks. */
static bool replaces(const cli_verb *v, const char *path, const char *read)
{
    if (is_file(path))
        return cli_same_place(path, read) || is_file_of(read, path);
    if (v->use[CLI_O_SNAPSHOT])
        return is_of_snapshot(path, read);
    return v->use[CLI_O_TRACE] &&
           (is_file(read) ? is_file_of(path, read) : cli_same_place(path, read));
}

/* The file or folder that is read and would be replaced; NULL: none.  `fit` and
 * `infer-backend` check --profile and --from; `stats merge` reads before it writes. */
static const char *read_and_replaced(const cli_call *c, const char *path)
{
    const cli_arguments *a = c->args;
    const char *one[] = { a->data,  a->holdout,  a->labels,  a->model,   a->stats,
                          a->names, a->analysis, a->against, a->backend, a->target };
    const bool merges = a->file.n > 0 && strcmp(a->file.at[0], "merge") == 0;
    const cli_words list[] = {
        {one, sizeof one / sizeof *one },
        a->policy,
        a->backends,
        merges ? (cli_words){ 0 }
        : a->file
    };
    for (size_t k = 0; path && k < sizeof list / sizeof *list; k++)
        for (size_t i = 0; i < list[k].n; i++)
            if (list[k].at[i] && replaces(c->verb, path, list[k].at[i]))
                return list[k].at[i];
    return NULL;
}

static int check_written(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const struct {
        const char *option, *path;
    } written[] = {
        {"output",  a->output},
        { "curve",  a->curve },
        { "report", a->report},
        { "sarif",  a->sarif }
    };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const char *path = written[i].path, *lost = read_and_replaced(c, path);
        if (lost && is_file(path) && is_file(lost))
            return cli_usage(c->verb,
                             "--%s '%s': it is the file '%s' that is read, expected "
                             "another file",
                             written[i].option, path, lost);
        if (lost)
            return cli_usage(c->verb,
                             "--%s '%s': it replaces what is read from '%s', expected "
                             "another place",
                             written[i].option, path, lost);
    }
    return CLI_OK;
}

static int run(const cli_call *c)
{
    const int status = check_written(c);
    if (status != CLI_OK)
        return status;
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

/* The length of the character in UTF-8 at s; 0: there is none.  Neither longer than
 * needed, nor a surrogate, nor above U+10FFFF: for these the second byte decides. */
static size_t character(const unsigned char *s)
{
    static const struct {
        unsigned char first, last, low, high; /* first byte, and range of the second */
        unsigned char length;
    } form[] = {
        {0x01,  0x7f, 0,    0,    1},
        { 0xc2, 0xdf, 0x80, 0xbf, 2},
        { 0xe0, 0xe0, 0xa0, 0xbf, 3},
        { 0xe1, 0xec, 0x80, 0xbf, 3},
        { 0xed, 0xed, 0x80, 0x9f, 3},
        { 0xee, 0xef, 0x80, 0xbf, 3},
        { 0xf0, 0xf0, 0x90, 0xbf, 4},
        { 0xf1, 0xf3, 0x80, 0xbf, 4},
        { 0xf4, 0xf4, 0x80, 0x8f, 4}
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        if (s[0] < form[i].first || s[0] > form[i].last)
            continue;
        if (form[i].length > 1 && (s[1] < form[i].low || s[1] > form[i].high))
            return 0;
        for (size_t k = 2; k < form[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return form[i].length;
    }
    return 0;
}

void cli_print(FILE *f, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t n = character(s);
        const bool plain = n > 0 && control(s) == 0;
        for (size_t i = 0; i < (n ? n : 1); i++)
            (void)fprintf(f, plain ? "%c" : "\\x%02x", s[i]);
        s += n ? n : 1;
    }
}

void cli_message(char *text, size_t size, const char *fmt, va_list args)
{
    char limited[512];
    size_t n = 0;
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(text, size, fmt, args);
    for (; length >= 0 && (size_t)length >= size && *fmt && n + 8 < sizeof limited;
         fmt++) {
        limited[n++] = *fmt;
        if (fmt[0] == '%' && fmt[1] == 's')
            n += (size_t)snprintf(limited + n, sizeof limited - n, ".128");
    }
    limited[n] = '\0';
    if (n > 0)
        (void)vsnprintf(text, size, limited, again);
    va_end(again);
}
