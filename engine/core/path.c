/* path.c -- names of files, and what they lead to; declared in file.h. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/core/file.h"

bool qg_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Of the folder of a path. */
static bool stat_above(const char *path, struct stat *st)
{
    char folder[PATH_MAX];
    size_t n = (size_t)(qg_path_base(path) - path);
    if (n >= sizeof folder)
        return false;
    memcpy(folder, path, n);
    folder[n] = '\0';
    return stat(n ? folder : ".", st) == 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool qg_is_same_file(const char *a, const char *b)
{
    struct stat one, two;
    if (stat(a, &one) == 0 && stat(b, &two) == 0)
        return is_same(&one, &two);
    return strcmp(qg_path_base(a), qg_path_base(b)) == 0 && stat_above(a, &one) &&
           stat_above(b, &two) && is_same(&one, &two);
}

char *qg_path_join(qg_arena *a, const char *directory, const char *name)
{
    size_t n = strlen(directory);
    const char *slash = n == 0 || directory[n - 1] == '/' ? "" : "/";
    return qg_arena_printf(a, "%s%s%s", directory, slash, name);
}

const char *qg_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool qg_path_ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);
    return n > k && strcmp(path + n - k, end) == 0;
}
