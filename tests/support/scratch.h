/* scratch.h -- unique names of files and folders for one run of a test: the same suite
 * may run in several trees at once. */
#ifndef QG_TESTS_SUPPORT_SCRATCH_H
#define QG_TESTS_SUPPORT_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCRATCH_PATH = 96 };

/* "/tmp/qg_<process>_<name>"; returns `path`.  Creates no file. */
static inline const char *scratch_path(char path[SCRATCH_PATH], const char *name)
{
    (void)snprintf(path, SCRATCH_PATH, "/tmp/qg_%ld_%s", (long)getpid(), name);
    return path;
}

/* The same in memory where the machine has a file system for that: for tests that write
 * thousands of files, each of which is flushed to the disk. */
static inline const char *scratch_memory(char path[SCRATCH_PATH], const char *name)
{
    if (access("/dev/shm", W_OK) != 0)
        return scratch_path(path, name);
    (void)snprintf(path, SCRATCH_PATH, "/dev/shm/qg_%ld_%s", (long)getpid(), name);
    return path;
}

/* Removes a folder and its contents; 0 on success. */
static inline int scratch_remove(const char *path)
{
    char command[SCRATCH_PATH + 16];
    (void)snprintf(command, sizeof command, "rm -r '%s'", path);
    return system(command);
}

#endif
