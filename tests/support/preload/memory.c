/* memory.c -- preloaded by tests: counts allocations in every library but oneDNN and
 * its C++ library, which do not survive (accel/dnnl_guard.h), from the first one of the
 * program itself on, and number QG_MEMORY_AT fails; with QG_MEMORY=on those
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

#include "count.h"

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static atomic_long calls;
static long at;
static int armed, stays;

typedef struct range {
    uintptr_t first, end;
} range;
static range program, spared[8];
static int n_spared;

static int holds(range r, uintptr_t at) { return at >= r.first && at < r.end; }

/* The code of the program, which comes first, and of the libraries that are spared. */
static int find_code(struct dl_phdr_info *info, size_t size, void *ud)
{
    int spare =
        strstr(info->dlpi_name, "libdnnl") || strstr(info->dlpi_name, "libstdc++");
    (void)size;
    (void)ud;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        range code = { at, at + p->p_memsz };
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        if (!program.end)
            program = code;
        else if (spare && n_spared < 8)
            spared[n_spared++] = code;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("QG_MEMORY_AT"), *kind = getenv("QG_MEMORY");
    at = number ? atol(number) : 0;
    stays = kind && strcmp(kind, "on") == 0;
    (void)dl_iterate_phdr(find_code, NULL);
}

static int fails(const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    armed = armed || holds(program, from);
    if (!armed)
        return 0;
    for (int i = 0; i < n_spared; i++)
        if (holds(spared[i], from))
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
    write_count("QG_MEMORY_COUNT", calls);
}
