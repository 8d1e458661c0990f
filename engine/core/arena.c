/* arena.c -- a list of blocks of growing size, filled from the front.
 *
 * Block sizes double from FIRST_BLOCK to LARGEST_BLOCK, so that n bytes cost O(log
 * n) calls of the allocator and at most half of the memory is unused; a larger
 * request gets a block of its own size.  Blocks stay in order of allocation and
 * reset only rewinds them: the same requests find the same places again, which is
 * why a second run of a plan allocates nothing. */
#include "engine/core/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer objects are RED bytes apart, and memory that no object has,
 * or had before the last reset, must not be touched. */
#ifdef __has_feature
#define HAS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif
#if HAS_SANITIZER
#include <sanitizer/asan_interface.h>
enum { RED = 16 };
static void close_memory(const void *p, size_t n) { ASAN_POISON_MEMORY_REGION(p, n); }
static void open_memory(const void *p, size_t n) { ASAN_UNPOISON_MEMORY_REGION(p, n); }
#else
enum { RED = 0 };
static void close_memory(const void *p, size_t n) { (void)p, (void)n; }
static void open_memory(const void *p, size_t n) { (void)p, (void)n; }
#endif

#ifdef QG_HOSTILE /* a block for each object of 64 bytes and more: places differ */
enum { FIRST_BLOCK = 64, LARGEST_BLOCK = 64 };
#else
enum { FIRST_BLOCK = 1 << 12, LARGEST_BLOCK = 1 << 20 };
#endif

typedef struct block {
    struct block *next;
    size_t size, used; /* of data, which begins at the first aligned address */
    unsigned char *data;
} block;

/* Invariant: blocks after `current` are empty, blocks before it are not visited again
 * until reset, even when they have room.  That keeps a request O(1) amortized. */
struct qg_arena {
    qg_alloc alloc;
    block *first, *current;
    size_t next_size, bytes;
};

static void *libc_get(void *ud, size_t size)
{
    (void)ud;
    return malloc(size);
}

static void libc_drop(void *ud, void *p)
{
    (void)ud;
    free(p);
}

const qg_alloc qg_alloc_libc = { libc_get, libc_drop, NULL };

qg_arena *qg_arena_new(qg_alloc alloc)
{
    assert(alloc.get && alloc.drop);
    qg_arena *a = alloc.get(alloc.ud, sizeof *a);
    if (a)
        *a = (qg_arena){ .alloc = alloc, .next_size = FIRST_BLOCK };
    return a;
}

void qg_arena_free(qg_arena *a)
{
    if (!a)
        return;
    for (block *b = a->first, *next; b; b = next) {
        next = b->next;
        open_memory(b->data, b->size);
        a->alloc.drop(a->alloc.ud, b);
    }
    a->alloc.drop(a->alloc.ud, a);
}

void qg_arena_reset(qg_arena *a)
{
    for (block *b = a->first; b; b = b->next) {
        close_memory(b->data, b->used < b->size ? b->used : b->size);
        b->used = 0;
    }
    a->current = a->first;
}

/* A block with room for `need` bytes at an address aligned for tensors, not yet
 * linked. The slack of QG_ARENA_ALIGN pays for aligning by hand: allocators that a
 * test brings along promise max_align_t only. */
static block *block_new(qg_arena *a, size_t need)
{
    size_t size = need > a->next_size ? need : a->next_size;
    size_t room = sizeof(block) + QG_ARENA_ALIGN + size;
    block *b = room < size ? NULL : a->alloc.get(a->alloc.ud, room);
    if (!b)
        return NULL;
    uintptr_t at = (uintptr_t)(b + 1);
    at = (at + QG_ARENA_ALIGN - 1) & ~(uintptr_t)(QG_ARENA_ALIGN - 1);
    *b = (block){ .size = size, .data = (unsigned char *)at };
    close_memory(b->data, size);
    a->bytes += room;
    if (a->next_size < LARGEST_BLOCK)
        a->next_size *= 2;
    return b;
}

/* Where `need` bytes would start in b, or SIZE_MAX when they do not fit. */
static size_t place(const block *b, size_t need, size_t align)
{
    size_t at = (b->used + align - 1) & ~(align - 1);
    return at <= b->size && need <= b->size - at ? at : SIZE_MAX;
}

/* SIZE_MAX / 2 leaves room for the additions below, so one check covers all of them. */
void *qg_arena_raw(qg_arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 2 / size)
        return NULL;
    size_t product = count * size, need = product ? product : 1;
    size_t align = need >= QG_ARENA_ALIGN ? QG_ARENA_ALIGN : 16;
    size_t at = SIZE_MAX;
    while (a->current && (at = place(a->current, need, align)) == SIZE_MAX &&
           a->current->next)
        a->current = a->current->next;
    if (at == SIZE_MAX) {
        block *b = block_new(a, need);
        if (!b)
            return NULL;
        if (a->current)
            a->current->next = b;
        else
            a->first = b;
        a->current = b;
        at = 0;
    }
    a->current->used = at + need + RED;
    open_memory(a->current->data + at, product);
    return a->current->data + at;
}

void *qg_arena_get(qg_arena *a, size_t count, size_t size)
{
    void *p = qg_arena_raw(a, count, size);
    return p ? memset(p, 0, count * size) : NULL;
}

char *qg_arena_strndup(qg_arena *a, const char *s, size_t n)
{
    assert(s || n == 0);
    char *copy = n < SIZE_MAX ? qg_arena_raw(a, n + 1, 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *qg_arena_strdup(qg_arena *a, const char *s)
{
    return qg_arena_strndup(a, s, strlen(s));
}

/* Formats twice: once for the length, once into memory of exactly that size. */
char *qg_arena_printf(qg_arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *s = n < 0 ? NULL : qg_arena_raw(a, (size_t)n + 1, 1);
    if (s)
        (void)vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

size_t qg_arena_bytes(const qg_arena *a) { return a->bytes; }
