/* record.c -- preloaded by tests: writes the calls that change folders, and syncs, to
 * the file QG_RECORD, a line each: operation, path and second path, separated by
 * tabs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))(size_t)dlsym(RTLD_NEXT, #name))

static void note(const char *operation, const char *a, const char *b)
{
    char line[2 * PATH_MAX + 32];
    const char *path = getenv("QG_RECORD");
    int fd = path ? (int)NEXT(syscall)(SYS_openat, AT_FDCWD, path,
                                       O_WRONLY | O_CREAT | O_APPEND, 0644)
                  : -1;
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\n", operation, a, b);
    if (fd >= 0 && write(fd, line, (size_t)n) == n)
        (void)close(fd);
}

#define WRAP(name, parameters, arguments, a, b)                                        \
    int name parameters                                                                \
    {                                                                                  \
        int status = NEXT(name) arguments;                                             \
        if (status == 0)                                                               \
            note(#name, a, b);                                                         \
        return status;                                                                 \
    }

WRAP(mkdir, (const char *p, mode_t m), (p, m), p, "")
WRAP(rmdir, (const char *p), (p), p, "")
WRAP(unlink, (const char *p), (p), p, "")
WRAP(rename, (const char *a, const char *b), (a, b), a, b)
WRAP(linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), a, b)

int fsync(int fd)
{
    char name[64], path[PATH_MAX] = "";
    int status = NEXT(fsync)(fd);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (status == 0 && readlink(name, path, sizeof path - 1) > 0)
        note("fsync", path, "");
    return status;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    int fd = NEXT(open)(path, flags, mode);
    if (fd >= 0 && flags & O_CREAT)
        note("create", path, "");
    return fd;
}

/* renameat2 is called by its number. */
long syscall(long number, ...)
{
    va_list more;
    long a[6];
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    long status = NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_renameat2 && status == 0)
        note("exchange", (const char *)a[1], (const char *)a[3]);
    return status;
}
