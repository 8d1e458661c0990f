/* memory.c -- preloaded by tests: counts allocations in every library, from the first
 * one of the program itself on, and number QG_MEMORY_AT fails; with QG_MEMORY=on those
 * after it, too.  Writes the number of allocations to the file QG_MEMORY_COUNT when the
 * process ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static atomic_long calls;
static long at;
static int armed, stays;
static uintptr_t first, end; /* of the program */

/* The program comes first. */
static int find_program(struct dl_phdr_info *info, size_t size, void *ud)
{
    (void)size;
    (void)ud;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        first = info->dlpi_addr + p->p_vaddr;
        end = first + p->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("QG_MEMORY_AT"), *kind = getenv("QG_MEMORY");
    at = number ? atol(number) : 0;
    stays = kind && strcmp(kind, "on") == 0;
    (void)dl_iterate_phdr(find_program, NULL);
}

static int fails(const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    armed = armed || (from >= first && from < end);
    if (!armed)
        return 0;
    long k = atomic_fetch_add(&calls, 1) + 1;
    if (!at || (stays ? k < at : k != at))
        return 0;
    errno = ENOMEM;
    return 1;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n) { return fails(CALLER) ? NULL : __libc_malloc(n); }

void *calloc(size_t n, size_t size)
{
    return fails(CALLER) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) { return fails(CALLER) ? NULL : __libc_realloc(p, n); }

void *memalign(size_t align, size_t n)
{
    return fails(CALLER) ? NULL : __libc_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return fails(CALLER) ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = fails(CALLER) ? NULL : __libc_memalign(align, n);
    if (p)
        *out = p;
    return p ? 0 : ENOMEM;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("QG_MEMORY_COUNT");
    char text[32];
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path,
                                 O_WRONLY | O_CREAT | O_TRUNC, 0644)
                  : -1;
    if (fd >= 0 && write(fd, text, (size_t)sprintf(text, "%ld\n", calls)) > 0)
        (void)close(fd);
}
