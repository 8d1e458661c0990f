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

/* Removes a folder and its contents; 0 on success. */
static inline int scratch_remove(const char *path)
{
    char command[SCRATCH_PATH + 16];
    (void)snprintf(command, sizeof command, "rm -r '%s'", path);
    return system(command);
}

#endif
