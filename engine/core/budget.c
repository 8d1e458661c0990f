/* budget.c -- the size of a block is kept in front of it, since `drop` is not given
 * one. */
#include "engine/core/budget.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRONT = 16 }; /* keeps the alignment of malloc */

struct qg_budget {
    qg_alloc from, own;
    size_t limit;
    atomic_size_t held, request, held_then; /* the latter two: of the last refusal */
};

/* qg_alloc.get.  Counted before it is taken: two threads cannot both pass the limit.
 * NULL when the limit or the allocator below refuses; only the former is recorded, for
 * the message of qg_nomem.  A size whose sum with FRONT wraps is refused. */
static void *get(void *ud, size_t size)
{
    qg_budget *b = ud;
    size_t whole = size + FRONT;
    if (whole < size)
        return NULL;
    size_t held = atomic_fetch_add(&b->held, whole);
    if (held > b->limit || whole > b->limit - held) {
        atomic_fetch_sub(&b->held, whole);
        atomic_store(&b->held_then, held);
        atomic_store(&b->request, size);
        return NULL;
    }
    unsigned char *p = b->from.get(b->from.ud, whole);
    if (!p) {
        atomic_fetch_sub(&b->held, whole);
        return NULL;
    }
    memcpy(p, &whole, sizeof whole);
    return p + FRONT;
}

/* qg_alloc.drop, of a block that get made; NULL: no effect. */
static void drop(void *ud, void *p)
{
    qg_budget *b = ud;
    size_t whole;
    if (!p)
        return;
    unsigned char *front = (unsigned char *)p - FRONT;
    memcpy(&whole, front, sizeof whole);
    atomic_fetch_sub(&b->held, whole);
    b->from.drop(b->from.ud, front);
}

/* The budget itself is not counted: its limit is for what is taken through it. */
qg_budget *qg_budget_new(qg_alloc from, size_t limit)
{
    qg_budget *b = from.get(from.ud, sizeof *b);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    b->from = from;
    b->own = (qg_alloc){ get, drop, b };
    b->limit = limit;
    return b;
}

void qg_budget_free(qg_budget *b)
{
    if (b)
        b->from.drop(b->from.ud, b);
}

qg_alloc qg_budget_alloc(qg_budget *b) { return b->own; }

bool qg_budget_refused(const qg_budget *b, size_t *request, size_t *held)
{
    *request = atomic_load(&b->request);
    *held = atomic_load(&b->held_then);
    return *request > 0;
}

bool qg_budget_fits(const qg_budget *b, size_t bytes)
{
    size_t held = atomic_load(&b->held);
    return held <= b->limit && bytes <= b->limit - held;
}

size_t qg_budget_limit(const qg_budget *b) { return b->limit; }

/* --- the machine --- */

/* The number in a file of one line; SIZE_MAX when there is none ("max"). */
static size_t number_in(const char *path)
{
    char text[64] = "";
    size_t x = 0;
    FILE *f = fopen(path, "re");
    const char *p = f ? fgets(text, sizeof text, f) : NULL;
    if (f)
        (void)fclose(f);
    if (!p || *p < '0' || *p > '9')
        return SIZE_MAX;
    for (; *p >= '0' && *p <= '9'; p++)
        x = x > (SIZE_MAX - 9) / 10 ? SIZE_MAX - 9 : x * 10 + (size_t)(*p - '0');
    return x;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Of a group, named "/a/b" as in /proc/self/cgroup, and of those around it.  `root` is
 * where the controller is mounted, `file` the name of its limit.  Removes the parts of
 * `group` from the end: the last round reads the root. */
static size_t group_limit(const char *root, char *group, const char *file)
{
    char path[1200];
    size_t least = SIZE_MAX;
    for (;;) {
        (void)snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        least = smaller(least, number_in(path));
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* A line is "0::/group" (version 2) or "N:memory:/group".  SIZE_MAX: no limit, or no
 * control groups.  Version 2 names no controller, version 1 has a line for each list of
 * them. */
static size_t groups_limit(void)
{
    char line[1024];
    size_t least = SIZE_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *name = strchr(line, ':'), *group = name ? strchr(name + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!name[1])
            least = smaller(least, group_limit("/sys/fs/cgroup", group, "memory.max"));
        else if (strcmp(name + 1, "memory") == 0)
            least = smaller(least, group_limit("/sys/fs/cgroup/memory", group,
                                               "memory.limit_in_bytes"));
    }
    if (f)
        (void)fclose(f);
    return least;
}

/* A fifth is left for what is not counted, mapped files and other libraries, and for
 * other processes. */
size_t qg_memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    size_t least = smaller(machine, groups_limit());
    return least == SIZE_MAX ? SIZE_MAX : least / 5 * 4;
}
