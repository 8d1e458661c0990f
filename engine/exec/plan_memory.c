/* plan_memory.c -- lifetimes of storages, reuse of memory in place, and offsets.
 *
 * Two packings are tried on small plans and the tighter one is kept: largest first
 * (Pisarchyk, Lee, "Efficient memory management for deep neural net inference", 2020)
 * and first come first served with best fit, which is O(n log n) and used alone when
 * there are many storages. */
#include <assert.h>
#include <stdlib.h>

#include "engine/exec/plan_part.h"

enum { MANY_STORAGES = 4096, ALIGN = QG_ARENA_ALIGN };

/* The storage whose memory this takes over, over any number of steps. */
static uint32_t root_of(const qg_plan *p, uint32_t s)
{
    assert(s < p->storage.n);
    while (p->storage.at[s].same_as != QG_NONE)
        s = p->storage.at[s].same_as;
    return s;
}

/* Widens the lifetime by one step; tensors outside of the block have none. */
static void use_at(qg_plan *p, uint32_t tensor, uint32_t step)
{
    assert(tensor == QG_NONE || tensor < p->tensor.n);
    if (tensor == QG_NONE || p->tensor.at[tensor].kind != QG_TENSOR_ARENA)
        return;
    qg_storage *s = &p->storage.at[p->tensor.at[tensor].storage];
    if (s->first == UINT32_MAX)
        s->first = step;
    if (s->last < step)
        s->last = step;
}

/* Outputs and kept values are used until the end: the caller reads them after the last
 * step. */
static void find_lifetimes(qg_plan *p)
{
    for (uint32_t i = 0; i < p->step.n; i++) {
        const qg_step *s = &p->step.at[i];
        for (uint32_t k = 0; k < s->n_in + s->n_out; k++)
            use_at(p, p->slot.at[s->first + k], i);
    }
    for (size_t i = 0; i < p->graph->output.n; i++)
        if (p->output[i] != QG_NONE)
            use_at(p, p->output[i], UINT32_MAX);
    for (size_t i = 0; i < p->options.n_keep; i++)
        use_at(p, p->kept[i], UINT32_MAX);
    for (uint32_t i = 0; i < p->tensor.n && p->options.keep_all; i++)
        use_at(p, i, UINT32_MAX);
}

/* Inputs that output 0 may overwrite, by bit. */
static uint32_t in_place_mask(const qg_step *s)
{
    if (s->kind == QG_STEP_ROUND)
        return 1;
    if (s->kind != QG_STEP_NODE || s->dynamic)
        return 0;
    return s->kernel ? s->kernel->in_place : s->node->op->in_place;
}

/* Storage `theirs` is read by step s in a slot that output 0 may not overwrite: with
 * Sum(t, t, t) the third t is read when the first two are already the output. */
static bool read_elsewhere(const qg_plan *p, const qg_step *s, uint32_t mask,
                           uint32_t theirs)
{
    for (uint32_t k = 0; k < s->n_in; k++) {
        uint32_t from = p->slot.at[s->first + k];
        if ((k >= 8 || !(mask >> k & 1)) && from != QG_NONE &&
            p->tensor.at[from].kind == QG_TENSOR_ARENA &&
            root_of(p, p->tensor.at[from].storage) == theirs)
            return true;
    }
    return false;
}

/* Lets the output of step i write over an input that nobody reads afterwards. */
static void share_at(qg_plan *p, uint32_t i)
{
    const qg_step *s = &p->step.at[i];
    uint32_t mask = in_place_mask(s);
    uint32_t to = s->n_out ? p->slot.at[s->first + s->n_in] : QG_NONE;
    if (!mask || to == QG_NONE || p->tensor.at[to].kind != QG_TENSOR_ARENA)
        return;
    uint32_t mine = p->tensor.at[to].storage;
    if (p->storage.at[mine].first != i || p->storage.at[mine].same_as != QG_NONE)
        return;
    for (uint32_t k = 0; k < s->n_in && k < 8; k++) {
        uint32_t from = p->slot.at[s->first + k];
        if (!(mask >> k & 1) || from == QG_NONE ||
            p->tensor.at[from].kind != QG_TENSOR_ARENA)
            continue;
        uint32_t theirs = root_of(p, p->tensor.at[from].storage);
        qg_storage *old = &p->storage.at[theirs];
        if (theirs == mine || old->last != i ||
            old->bytes != p->storage.at[mine].bytes ||
            read_elsewhere(p, s, mask, theirs))
            continue;
        p->storage.at[mine].same_as = theirs;
        old->last = p->storage.at[mine].last;
        return;
    }
}

static size_t align_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* --- largest first --- */

typedef struct item {
    uint32_t storage, first, last;
    size_t bytes, offset;
} item;

/* Ties by id: the packing must not depend on qsort. */
static int larger_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

static int by_offset(const void *a, const void *b)
{
    const item *x = *(const item *const *)a, *y = *(const item *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

/* Each item goes to the lowest gap among those placed before that live at the same
 * time. */
static size_t pack_largest_first(item *it, size_t n, const item **busy)
{
    size_t total = 0;
    qsort(it, n, sizeof *it, larger_first);
    for (size_t i = 0; i < n; i++) {
        size_t m = 0, at = 0;
        for (size_t k = 0; k < i; k++)
            if (it[k].first <= it[i].last && it[i].first <= it[k].last)
                busy[m++] = &it[k];
        qsort(busy, m, sizeof *busy, by_offset);
        for (size_t k = 0; k < m && busy[k]->offset < at + it[i].bytes; k++)
            if (at < busy[k]->offset + busy[k]->bytes)
                at = busy[k]->offset + busy[k]->bytes;
        it[i].offset = at;
        if (total < at + it[i].bytes)
            total = at + it[i].bytes;
    }
    return total;
}

/* --- first come, first served --- */

/* By first use; ties by id. */
static int earlier_first(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

/* busy: storages alive now, in order of offset. */
static size_t best_gap(const item **busy, size_t m, size_t bytes, size_t *position)
{
    size_t at = 0, best = SIZE_MAX, room = SIZE_MAX;
    *position = m;
    for (size_t k = 0; k < m; k++) {
        size_t gap = busy[k]->offset - at;
        if (busy[k]->offset > at && gap >= bytes && gap < room) {
            best = at;
            room = gap;
            *position = k;
        }
        at = busy[k]->offset + busy[k]->bytes;
    }
    return best == SIZE_MAX ? at : best;
}

/* busy stays sorted by offset; ended storages are removed before the next item is
 * placed. */
static size_t pack_in_order(item *it, size_t n, const item **busy)
{
    size_t total = 0, m = 0;
    qsort(it, n, sizeof *it, earlier_first);
    for (size_t i = 0; i < n; i++) {
        size_t kept = 0, position;
        for (size_t k = 0; k < m; k++)
            if (busy[k]->last >= it[i].first)
                busy[kept++] = busy[k];
        m = kept;
        it[i].offset = best_gap(busy, m, it[i].bytes, &position);
        for (size_t k = m++; k > position; k--)
            busy[k] = busy[k - 1];
        busy[position] = &it[i];
        if (total < it[i].offset + it[i].bytes)
            total = it[i].offset + it[i].bytes;
    }
    return total;
}

/* Offsets of the packing that is the better one so far. */
static void keep(qg_plan *p, const item *it, size_t n, size_t total)
{
    for (size_t i = 0; i < n; i++)
        p->storage.at[it[i].storage].offset = it[i].offset;
    p->report.bytes = total;
}

/* The largest sum of bytes alive at one step: no packing can do better. */
static qg_status find_lower_bound(qg_plan *p)
{
    size_t steps = p->step.n + 2, alive = 0;
    int64_t *change = QG_NEWN(p->arena, steps, int64_t);
    if (!change)
        return qg_nomem(p->ctx);
    for (uint32_t i = 0; i < p->storage.n; i++) {
        const qg_storage *s = &p->storage.at[i];
        if (s->same_as != QG_NONE || s->first == UINT32_MAX)
            continue;
        change[s->first] += (int64_t)align_up(s->bytes);
        if (s->last != UINT32_MAX)
            change[s->last + 1] -= (int64_t)align_up(s->bytes);
    }
    for (size_t i = 0; i < steps; i++) {
        alive = (size_t)((int64_t)alive + change[i]);
        if (p->report.lower_bound < alive)
            p->report.lower_bound = alive;
    }
    return QG_OK;
}

/* Both packings on small plans, only the first on large plans. */
static qg_status place_all(qg_plan *p)
{
    item *it = QG_NEWN(p->arena, p->storage.n, item);
    const item **busy = QG_NEWN(p->arena, p->storage.n, const item *);
    size_t n = 0;
    if (!it || !busy)
        return qg_nomem(p->ctx);
    for (uint32_t i = 0; i < p->storage.n; i++) {
        const qg_storage *s = &p->storage.at[i];
        if (s->same_as == QG_NONE && s->first != UINT32_MAX)
            it[n++] = (item){ .storage = i,
                              .first = s->first,
                              .last = s->last,
                              .bytes = align_up(s->bytes) };
    }
    keep(p, it, n, pack_in_order(it, n, busy));
    if (n <= MANY_STORAGES && p->report.bytes > p->report.lower_bound) {
        size_t in_order = p->report.bytes, total = pack_largest_first(it, n, busy);
        if (total < in_order)
            keep(p, it, n, total);
    }
    for (uint32_t i = 0; i < p->storage.n; i++)
        p->storage.at[i].offset = p->storage.at[root_of(p, i)].offset;
    return QG_OK;
}

qg_status qg_plan_pack(qg_plan *p)
{
    assert(p->graph);
    find_lifetimes(p);
    for (uint32_t i = 0; i < p->step.n && !p->options.keep_all; i++)
        share_at(p, i);
    QG_TRY(find_lower_bound(p));
    return place_all(p);
}
