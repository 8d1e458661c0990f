/* The number of calls that a preloaded library saw, written when the program ends. */
#ifndef QG_TESTS_SUPPORT_PRELOAD_COUNT_H
#define QG_TESTS_SUPPORT_PRELOAD_COUNT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* To the file that the environment variable names, if any; by system calls, since the
 * library replaces the functions of libc. */
static void write_count(const char *variable, long calls)
{
    const char *path = getenv(variable);
    char text[32];
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path,
                                 O_WRONLY | O_CREAT | O_TRUNC, 0644)
                  : -1;
    if (fd < 0)
        return;
    (void)!syscall(SYS_write, fd, text, (size_t)sprintf(text, "%ld\n", calls));
    (void)close(fd);
}

#endif
