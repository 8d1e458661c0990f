/* Memory of plans: lifetimes, outputs that overwrite an input, and where storages lie,
 * against the two packings written plainly. */
#include "tests/support/calibration.h"

#include "engine/core/rng.h"
#include "engine/exec/plan_part.h"

enum { UNIT = QG_ARENA_ALIGN, MOST = 12, END = -1 };

/* A plan of steps on hand-made tensors; tensor k has storage k. */
typedef struct bench {
    qg_plan p;
    qg_graph g;
    qg_node node;
    qg_op op;
    qg_value *output[4];
    uint32_t out[4];
} bench;

static void start(bench *b, const fixture *f, uint8_t in_place)
{
    *b = (bench){
        .op = {.name = "Any", .in_place = in_place}
    };
    b->g.ctx = f->ctx;
    b->g.output.at = b->output;
    b->node.op = &b->op;
    b->p.ctx = f->ctx;
    b->p.arena = f->arena;
    b->p.graph = &b->g;
    b->p.output = b->out;
}

static void add_tensor(bench *b, size_t bytes)
{
    qg_plan *p = &b->p;
    qg_plan_tensor t = { .kind = QG_TENSOR_ARENA, .storage = (uint32_t)p->storage.n };
    qg_storage s = { .bytes = bytes, .first = UINT32_MAX, .same_as = QG_NONE };
    assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->storage, s));
    assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->tensor, t));
}

/* Reads up to three tensors (END ends the list, QG_NONE is an absent slot) and writes
 * one. */
static qg_step *add_step(bench *b, enum qg_step_kind kind, const int64_t *in,
                         int64_t out)
{
    qg_plan *p = &b->p;
    qg_step s = { .kind = kind, .node = &b->node, .first = (uint32_t)p->slot.n };
    for (; s.n_in < 3 && in[s.n_in] != END; s.n_in++)
        assert_ok(p->ctx,
                  qg_vec_push(p->ctx, p->arena, &p->slot, (uint32_t)in[s.n_in]));
    s.n_out = out != END;
    if (s.n_out)
        assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->slot, (uint32_t)out));
    assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->step, s));
    return &p->step.at[p->step.n - 1];
}

static void add_output(bench *b, uint32_t tensor) { b->out[b->g.output.n++] = tensor; }

/* --- in place --- */

/* x is tensor 0, written by step 0; step 1 reads it and writes tensor 1. */
static uint32_t shared_with(const bench *b) { return b->p.storage.at[1].same_as; }

/* clang-format off */
static const struct {
    const char *name;
    int64_t in[3];
    uint8_t mask;
    enum qg_step_kind kind;
    size_t bytes[2];
    bool later, kept, dynamic;
    uint32_t want;
} row[] = {
    { "free", { 0, END }, 1, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, 0 },
    { "not allowed", { 0, END }, 0, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, QG_NONE },
    { "another slot", { 0, END }, 2, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, QG_NONE },
    { "slot 1", { 2, 0, END }, 2, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, 0 },
    { "absent slot", { QG_NONE, 0, END }, 3, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, 0 },
    { "twice", { 0, 0, END }, 3, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, 0 },
    { "elsewhere", { 0, 0, END }, 1, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, QG_NONE },
    { "third", { 0, 2, 0 }, 3, QG_STEP_NODE, { 64, 64 }, 0, 0, 0, QG_NONE },
    { "larger", { 0, END }, 1, QG_STEP_NODE, { 64, 65 }, 0, 0, 0, QG_NONE },
    { "smaller", { 0, END }, 1, QG_STEP_NODE, { 65, 64 }, 0, 0, 0, QG_NONE },
    { "read later", { 0, END }, 1, QG_STEP_NODE, { 64, 64 }, 1, 0, 0, QG_NONE },
    { "an output", { 0, END }, 1, QG_STEP_NODE, { 64, 64 }, 0, 1, 0, QG_NONE },
    { "dynamic", { 0, END }, 1, QG_STEP_NODE, { 64, 64 }, 0, 0, 1, QG_NONE },
    { "rounds", { 0, END }, 0, QG_STEP_ROUND, { 64, 64 }, 0, 0, 0, 0 },
    { "copies", { 0, END }, 1, QG_STEP_COPY, { 64, 64 }, 0, 0, 0, QG_NONE },
};
/* clang-format on */

static void outputs_overwrite_what_nobody_reads(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bench b;
        start(&b, f, row[i].mask);
        add_tensor(&b, row[i].bytes[0]);
        add_tensor(&b, row[i].bytes[1]);
        add_tensor(&b, 8);
        add_step(&b, QG_STEP_NODE, (int64_t[]){ END }, 0);
        add_step(&b, row[i].kind, row[i].in, 1)->dynamic = row[i].dynamic;
        if (row[i].later)
            add_step(&b, QG_STEP_NODE, (int64_t[]){ 0, END }, END);
        if (row[i].kept)
            add_output(&b, 0);
        add_output(&b, 1);
        assert_ok(f->ctx, qg_plan_pack(&b.p));
        if (shared_with(&b) != row[i].want)
            fail_msg("%s: %u", row[i].name, shared_with(&b));
        if (row[i].want == 0)
            assert_int_equal(b.p.storage.at[1].offset, b.p.storage.at[0].offset);
    }
}

/* A kernel has its own mask; a chain of steps ends in the first storage, which lives as
 * long as the last of them. */
static void chains_use_one_storage(void **state)
{
    fixture *f = *state;
    bench b;
    const qg_kernel kernel = { .in_place = 1 };
    start(&b, f, 0);
    for (int k = 0; k < 5; k++)
        add_tensor(&b, UNIT);
    add_step(&b, QG_STEP_NODE, (int64_t[]){ END }, 4); /* at 0, until the end */
    add_output(&b, 4);
    add_step(&b, QG_STEP_NODE, (int64_t[]){ END }, 0);
    for (int k = 0; k < 2; k++)
        add_step(&b, QG_STEP_NODE, (int64_t[]){ k, END }, k + 1)->kernel = &kernel;
    add_step(&b, QG_STEP_NODE, (int64_t[]){ END }, 3);
    add_step(&b, QG_STEP_NODE, (int64_t[]){ 2, 3, END }, END);
    assert_ok(f->ctx, qg_plan_pack(&b.p));
    assert_int_equal(b.p.storage.at[1].same_as, 0);
    assert_int_equal(b.p.storage.at[2].same_as, 0);
    assert_int_equal(b.p.storage.at[0].last, 5);
    assert_int_not_equal(b.p.storage.at[0].offset, 0);
    assert_int_equal(b.p.storage.at[1].offset, b.p.storage.at[0].offset);
    assert_int_equal(b.p.storage.at[2].offset, b.p.storage.at[0].offset);
    assert_int_not_equal(b.p.storage.at[3].offset, b.p.storage.at[2].offset);
    assert_int_equal(b.p.report.bytes, 3 * UNIT);
    assert_int_equal(b.p.report.lower_bound, 3 * UNIT);
}

static void everything_is_kept_on_request(void **state)
{
    fixture *f = *state;
    for (int all = 0; all < 2; all++) {
        bench b;
        uint32_t kept[] = { 0 };
        start(&b, f, 1);
        for (int k = 0; k < 3; k++)
            add_tensor(&b, UNIT);
        for (int k = 0; k < 3; k++)
            add_step(&b, QG_STEP_NODE, (int64_t[]){ k ? k - 1 : END, END }, k);
        b.p.options.keep_all = all;
        b.p.options.n_keep = !all;
        b.p.kept = kept;
        b.p.tensor.at[2].kind = QG_TENSOR_INPUT; /* it has no place in the block */
        assert_ok(f->ctx, qg_plan_pack(&b.p));
        assert_int_equal(b.p.storage.at[0].last, UINT32_MAX);
        assert_int_equal(b.p.storage.at[1].last, all ? UINT32_MAX : 2);
        assert_int_equal(b.p.storage.at[1].same_as, QG_NONE);
        assert_int_equal(b.p.storage.at[2].first, UINT32_MAX);
        assert_int_equal(b.p.report.bytes, 2 * UNIT);
    }
}

/* --- packings --- */

typedef struct block {
    size_t id, bytes, first, last, offset;
    bool placed;
} block;

static bool meet(const block *x, const block *y)
{
    return x->first <= y->last && y->first <= x->last;
}

/* Whether x at this offset overlaps one that was placed and lives at the same time. */
static bool fits(const block *all, size_t n, const block *x, size_t at)
{
    for (size_t k = 0; k < n; k++)
        if (all[k].placed && meet(&all[k], x) && at < all[k].offset + all[k].bytes &&
            all[k].offset < at + x->bytes)
            return false;
    return true;
}

static size_t end_of(const block *all, size_t n)
{
    size_t end = 0;
    for (size_t k = 0; k < n; k++)
        if (all[k].placed && all[k].offset + all[k].bytes > end)
            end = all[k].offset + all[k].bytes;
    return end;
}

/* The next one that is not placed: the largest, or the first that is used; ties by
 * id. */
static block *next(block *all, size_t n, bool largest)
{
    block *best = NULL;
    for (size_t k = 0; k < n; k++)
        if (!all[k].placed && (!best || (largest ? all[k].bytes > best->bytes
                                                 : all[k].first < best->first)))
            best = &all[k];
    return best;
}

/* The lowest place; offsets are multiples of UNIT. */
static size_t lowest(const block *all, size_t n, const block *x)
{
    size_t at = 0;
    while (!fits(all, n, x, at))
        at += UNIT;
    return at;
}

/* The smallest gap below a living block that is large enough, the lowest of equals,
 * else behind all that live. */
static size_t best_fit(const block *all, size_t n, const block *x)
{
    size_t best = SIZE_MAX, room = SIZE_MAX, end = 0, gap = 0;
    for (size_t k = 0; k < n; k++)
        if (all[k].placed && meet(&all[k], x) && all[k].offset + all[k].bytes > end)
            end = all[k].offset + all[k].bytes;
    block unit = *x;
    unit.bytes = UNIT;
    for (size_t at = 0; at < end; at += UNIT) {
        gap = fits(all, n, &unit, at) ? gap + UNIT : 0;
        bool ends = gap && !fits(all, n, &unit, at + UNIT);
        if (ends && gap >= x->bytes && gap < room) {
            room = gap;
            best = at + UNIT - gap;
        }
    }
    return best == SIZE_MAX ? end : best;
}

static size_t packed(block *all, size_t n, bool largest)
{
    for (size_t k = 0; k < n; k++)
        all[k].placed = false;
    for (block *x; (x = next(all, n, largest)); x->placed = true)
        x->offset = largest ? lowest(all, n, x) : best_fit(all, n, x);
    return end_of(all, n);
}

static size_t most_alive(const block *all, size_t n, size_t steps)
{
    size_t most = 0;
    for (size_t s = 0; s < steps; s++) {
        size_t sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += all[k].first <= s && s <= all[k].last ? all[k].bytes : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

/* Random lifetimes: block k is written by a step and read by a later one, or kept. */
static void random_plan(bench *b, block *all, size_t n, qg_rng *rng)
{
    enum { STEPS = 9 };
    for (size_t k = 0; k < n; k++) {
        size_t first = qg_rng_below(rng, STEPS), last = qg_rng_below(rng, STEPS);
        all[k] = (block){ .id = k,
                          .bytes = UNIT * (1 + qg_rng_below(rng, 6)),
                          .first = first < last ? first : last,
                          .last = first < last ? last : first };
        add_tensor(b, all[k].bytes - qg_rng_below(rng, 9)); /* rounded up */
    }
    for (size_t s = 0; s < STEPS; s++) { /* one step with all that begins or ends */
        qg_plan *p = &b->p;
        qg_step step = { .kind = QG_STEP_WATCH, .first = (uint32_t)p->slot.n };
        for (uint32_t k = 0; k < n; k++)
            if (all[k].last == s || all[k].first == s) {
                assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->slot, k));
                step.n_in++;
            }
        assert_ok(p->ctx, qg_vec_push(p->ctx, p->arena, &p->step, step));
    }
    if (qg_rng_below(rng, 2)) {
        add_output(b, 0);
        all[0].last = UINT32_MAX;
    }
}

static void the_tighter_packing_is_kept(void **state)
{
    fixture *f = *state;
    size_t in_order_won = 0, largest_won = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        qg_rng rng = { seed };
        bench b;
        block all[MOST], other[MOST];
        size_t n = 1 + qg_rng_below(&rng, MOST);
        start(&b, f, 0);
        random_plan(&b, all, n, &rng);
        memcpy(other, all, sizeof all);
        size_t total = packed(all, n, false), largest = packed(other, n, true);
        size_t bound = most_alive(all, n, 9);
        const block *want = total > bound && largest < total ? other : all;
        in_order_won += largest > total;
        largest_won += largest < total;
        assert_ok(f->ctx, qg_plan_pack(&b.p));
        assert_int_equal(b.p.report.lower_bound, bound);
        assert_int_equal(b.p.report.bytes, want == other ? largest : total);
        for (size_t k = 0; k < n; k++)
            if (b.p.storage.at[k].offset != want[k].offset)
                fail_msg("seed %llu, block %zu: %zu, expected %zu",
                         (unsigned long long)seed, k, b.p.storage.at[k].offset,
                         want[k].offset);
    }
    assert_cmp_int(in_order_won, >, 10);
    assert_cmp_int(largest_won, >, 10);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

QG_TEST_MAIN(T(outputs_overwrite_what_nobody_reads), T(chains_use_one_storage),
             T(everything_is_kept_on_request), T(the_tighter_packing_is_kept))
