/* names.c -- uthash for lookup, an array for ids, an arena for the texts.
 *
 * Entries never move and are never removed: `text` stays valid and unique as long as
 * the table lives, so interned names may be compared by address. */
#include "engine/core/names.h"

#include <assert.h>
#include <string.h>

#define HASH_NONFATAL_OOM      1
#define uthash_nonfatal_oom(e) ((e)->id = QG_NONE)
#define uthash_malloc(size)    heap_get(size)
#define uthash_free(p, size)   heap_drop(p)
/* uthash gives its allocation macros no context: a block carries its allocator. */
#define HASH_FUNCTION(key, length, hash) ((hash) = fnv1a((key), (length)))
static void *heap_get(size_t size);
static void heap_drop(void *p);
static unsigned fnv1a(const void *key, size_t n);
#include <uthash.h>

typedef struct entry {
    UT_hash_handle hh;
    uint32_t id;
    size_t length;
    char text[];
} entry;

struct qg_names {
    qg_alloc alloc;
    qg_arena *arena;
    entry *table, **by_id;
    uint32_t count, room;
};

/* The allocator in force while uthash runs; thread-local because uthash's macros pass
 * nothing along. */
static _Thread_local qg_alloc current;

/* Put before every block of uthash, so that freeing needs no global either. */
typedef struct heap_block {
    qg_alloc alloc;
    max_align_t data[];
} heap_block;

static void *heap_get(size_t size)
{
    heap_block *b = current.get(current.ud, sizeof *b + size);
    if (!b)
        return NULL;
    b->alloc = current;
    return b->data;
}

static void heap_drop(void *p)
{
    heap_block *b = (heap_block *)((char *)p - offsetof(heap_block, data));
    b->alloc.drop(b->alloc.ud, b);
}

/* FNV-1a, 32 bits (Fowler, Noll, Vo).  Only the speed of lookups depends on it,
 * never an order: ids are given by arrival. */
static unsigned fnv1a(const void *key, size_t n)
{
    const unsigned char *p = key;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

qg_names *qg_names_new(qg_alloc alloc)
{
    assert(alloc.get && alloc.drop);
    qg_names *t = alloc.get(alloc.ud, sizeof *t);
    if (!t)
        return NULL;
    *t = (qg_names){ .alloc = alloc, .arena = qg_arena_new(alloc) };
    if (t->arena)
        return t;
    alloc.drop(alloc.ud, t);
    return NULL;
}

void qg_names_free(qg_names *t)
{
    if (!t)
        return;
    HASH_CLEAR(hh, t->table);
    if (t->by_id)
        t->alloc.drop(t->alloc.ud, t->by_id);
    qg_arena_free(t->arena);
    t->alloc.drop(t->alloc.ud, t);
}

/* Keeps count < room, so that adding cannot fail after the hash table has the entry. */
static qg_status make_room(qg_names *t)
{
    if (t->count < t->room)
        return QG_OK;
    uint32_t room = t->room ? 2 * t->room : 64;
    entry **grown = t->alloc.get(t->alloc.ud, room * sizeof *grown);
    if (!grown)
        return QG_ENOMEM;
    if (t->by_id) {
        memcpy(grown, t->by_id, t->count * sizeof *grown);
        t->alloc.drop(t->alloc.ud, t->by_id);
    }
    t->by_id = grown;
    t->room = room;
    return QG_OK;
}

/* HASH_FIND only reads, so workers may search a table that they share. */
static entry *lookup(const qg_names *t, const char *s, size_t n)
{
    entry *e = NULL;
    HASH_FIND(hh, t->table, s, n, e);
    return e;
}

qg_status qg_names_add(qg_names *t, const char *s, size_t n, uint32_t *id)
{
    assert(s || n == 0);
    entry *e = lookup(t, s, n);
    if (!e) {
        QG_TRY(make_room(t));
        e = qg_arena_get(t->arena, 1, sizeof *e + n + 1);
        if (!e)
            return QG_ENOMEM;
        e->id = t->count;
        e->length = n;
        memcpy(e->text, s, n);
        current = t->alloc;
        HASH_ADD_KEYPTR(hh, t->table, e->text, n, e);
        if (e->id == QG_NONE)
            return QG_ENOMEM;
        t->by_id[t->count++] = e;
    }
    *id = e->id;
    return QG_OK;
}

uint32_t qg_names_find(const qg_names *t, const char *s, size_t n)
{
    assert(s || n == 0);
    const entry *e = lookup(t, s, n);
    return e ? e->id : QG_NONE;
}

const char *qg_names_text(const qg_names *t, uint32_t id)
{
    assert(id < t->count);
    return t->by_id[id]->text;
}

uint32_t qg_names_count(const qg_names *t) { return t->count; }
