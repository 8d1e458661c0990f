/* faults.c -- preloaded by tests: counts the calls that reach files, and at call number
 * QG_FAULT_AT kills the process (QG_FAULT=kill) or fails, with ENOSPC (QG_FAULT=full)
 * or EIO (QG_FAULT=io).
 * The number of calls is written to the file QG_FAULT_COUNT when the process ends. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "count.h"

static long calls;

static int fails(void)
{
    static long at = -1;
    static const char *kind;
    if (at < 0) {
        at = getenv("QG_FAULT_AT") ? atol(getenv("QG_FAULT_AT")) : 0;
        kind = getenv("QG_FAULT") ? getenv("QG_FAULT") : "";
    }
    if (++calls != at)
        return 0;
    if (strcmp(kind, "kill") == 0)
        (void)kill(getpid(), SIGKILL);
    errno = strcmp(kind, "io") == 0 ? EIO : ENOSPC;
    return 1;
}

__attribute__((destructor)) static void report(void)
{
    write_count("QG_FAULT_COUNT", calls);
}

#define NEXT(name) ((__typeof__(&name))(size_t)dlsym(RTLD_NEXT, #name))
#define WRAP(type, bad, name, parameters, arguments)                                   \
    type name parameters { return fails() ? bad : NEXT(name) arguments; }

WRAP(int, -1, mkdir, (const char *p, mode_t m), (p, m))
WRAP(int, -1, rmdir, (const char *p), (p))
WRAP(int, -1, unlink, (const char *p), (p))
WRAP(int, -1, rename, (const char *a, const char *b), (a, b))
WRAP(int, -1, linkat, (int d, const char *a, int e, const char *b, int f),
     (d, a, e, b, f))
WRAP(int, -1, fsync, (int fd), (fd))
WRAP(ssize_t, -1, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(ssize_t, -1, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, -1, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(FILE *, NULL, fopen, (const char *p, const char *mode), (p, mode))
WRAP(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
WRAP(DIR *, NULL, opendir, (const char *p), (p))
WRAP(int, -1, fstat, (int fd, struct stat *st), (fd, st))

/* Streams in memory are no files. */
static int fails_on(FILE *f) { return f && fileno(f) >= 0 && fails(); }

int fflush(FILE *f) { return fails_on(f) ? EOF : NEXT(fflush)(f); }

/* Of files; malloc takes its memory without this. */
void *mmap(void *p, size_t n, int protect, int flags, int fd, off_t at)
{
    return fd >= 0 && fails() ? MAP_FAILED : NEXT(mmap)(p, n, protect, flags, fd, at);
}

/* Only each 97th of these many calls is counted.  The stream remembers the failure, as
 * when its buffer cannot be written. */
size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
    static int turn;
    if (++turn % 97 != 1 || !fails_on(f))
        return NEXT(fwrite)(p, size, n, f);
    f->_flags |= 0x20; /* glibc's _IO_ERR_SEEN */
    return 0;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return fails() ? -1 : NEXT(open)(path, flags, mode);
}

/* A failed close still closes. */
int fclose(FILE *f)
{
    int failed = fails_on(f), status = NEXT(fclose)(f);
    return failed ? EOF : status;
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
    if (number == SYS_renameat2 && fails())
        return -1;
    return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
