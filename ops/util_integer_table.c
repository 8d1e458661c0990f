#include "ops/util_integer_table.h"

#include <assert.h>

#include "engine/number/integer_array.h"
#include "ops/util_axis.h"
#include "ops/util_broadcast.h"

enum { CODES = 256 };

/* Results by the byte of the code. */
typedef struct table {
    void *result;  /* [256] of the output's type */
    size_t size;   /* bytes of a result: 1, 2 or 4 */
    uint32_t slot; /* of the codes; all other inputs are constants */
} table;

static bool bytes(const qg_tensor *t) { return QG_DT_HAS(QG_DT_BYTES, t->dtype); }

/* An arena for the calls that fill a table; freed at once. */
static qg_status fill(qg_compile *c, const qg_tensor *const *in, qg_tensor *to)
{
    qg_arena *scratch = qg_arena_new(c->ctx->alloc);
    qg_call k = qg_compile_call(c);
    if (!scratch)
        return qg_nomem(c->ctx);
    k.in = in;
    k.out = &to;
    k.scratch = scratch;
    qg_status s = c->node->op->run(&k);
    qg_arena_free(scratch);
    return s;
}

/* The kernel with an empty table. */
static qg_status begin(qg_compile *c, qg_kernel **out)
{
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    table *t = QG_NEW(c->arena, table);
    size_t size = qg_element_size(c->out[0]->dtype);
    void *result = qg_arena_get(c->arena, CODES, size);
    if (!k || !t || !result)
        return qg_nomem(c->ctx);
    t->result = result;
    t->size = size;
    k->state = t;
    k->name = "table of codes";
    *out = k;
    return QG_OK;
}

/* -- one operand ------------------------------------------------------------------- */

#define LOOK_UP(T, index)                                                              \
    do {                                                                               \
        const T *from = t->result;                                                     \
        T *to = y;                                                                     \
        for (size_t i = 0; i < n; i++)                                                 \
            to[i] = from[index];                                                       \
    } while (0)

static qg_status run_codes(const qg_kernel *k, const qg_call *call)
{
    const table *t = k->state;
    const uint8_t *x = call->in[t->slot]->data;
    void *y = call->out[0]->data;
    size_t n = qg_elements(call->out[0]);
    if (t->size == 1)
        qg_look_up_loop()(t->result, x, y, n);
    else if (t->size == 2)
        LOOK_UP(uint16_t, x[i]);
    else
        LOOK_UP(uint32_t, x[i]);
    return QG_OK;
}

/* A table for input `slot`, element by element; the others are constants. */
static qg_status compile_slot(qg_compile *c, uint32_t slot, qg_kernel **out)
{
    const qg_tensor *in[QG_WALK_OPERANDS];
    uint8_t code[CODES];
    qg_tensor x, y;
    QG_TRY(begin(c, out));
    table *t = (*out)->state;
    for (uint32_t i = 0; i < c->node->n_in; i++)
        in[i] = c->in[i];
    for (int i = 0; i < CODES; i++)
        code[i] = (uint8_t)i;
    qg_tensor_init(&x, in[slot]->dtype, 1, (int64_t[]){ CODES });
    qg_tensor_init(&y, c->out[0]->dtype, 1, (int64_t[]){ CODES });
    x.data = code;
    y.data = t->result;
    in[slot] = &x;
    t->slot = slot;
    (*out)->run = run_codes;
    (*out)->in_layout[slot] = (*out)->out_layout = c->in_layout[slot];
    return fill(c, in, &y);
}

qg_status qg_integer_compile_codes(qg_compile *c, qg_kernel **out)
{
    *out = NULL;
    if (!bytes(c->in[0]) || c->node->n_in > QG_WALK_OPERANDS ||
        qg_tensor_count(c->out[0]) < QG_INTEGER_TABLE)
        return QG_OK;
    for (uint32_t i = 1; i < c->node->n_in; i++)
        if (!c->in[i]->data)
            return QG_OK;
    return compile_slot(c, 0, out);
}

/* -- two operands ------------------------------------------------------------------ */

/* An operand of trailing dims, or one per channel of channels-last memory, repeats as a
 * pattern: PIECE elements at least, so that loops are long. */
enum { PIECE = 256 };

typedef struct pairs {
    const uint8_t *result; /* [256][256] by the codes of a, then of b */
    bool by_b;             /* or of b, then of a: when only b is constant, the rows of
                            * its few codes stay in the cache */
    int repeated;          /* the operand that repeats behind `period` elements; -1 */
    size_t period;
    int64_t batch;      /* of the repeated operand */
    qg_int_broadcast w; /* plain memory, repeated -1 */
    qg_near_fn *near;   /* or NULL */
    qg_near_pair pair;
} pairs;

static void look_up_pairs(const pairs *t, const uint8_t *a, const uint8_t *b,
                          uint8_t *y, size_t n)
{
    const uint8_t *row = t->by_b ? b : a, *x = t->by_b ? a : b;
    for (size_t i = 0; i < n; i++)
        y[i] = t->result[(size_t)row[i] << 8 | x[i]];
}

/* A span in pieces; an operand that stands still is spread out. */
static void run_span(const pairs *t, const uint8_t *a, const uint8_t *b, uint8_t *y,
                     const qg_int_span *s)
{
    uint8_t still[PIECE];
    if (s->a_step == 0 || s->b_step == 0)
        memset(still, s->a_step ? *b : *a, PIECE);
    for (size_t at = 0, n; at < s->n; at += n) {
        n = s->n - at < PIECE ? s->n - at : PIECE;
        const uint8_t *from_a = s->a_step ? a + at : still;
        const uint8_t *from_b = s->b_step ? b + at : still;
        if (!t->near || !t->near(&t->pair, from_a, from_b, y + at, n))
            look_up_pairs(t, from_a, from_b, y + at, n);
    }
}

/* The elements of one operand, or of each of its samples, repeat. */
static qg_status run_repeated(const pairs *t, const qg_call *call)
{
    const qg_tensor *full = call->in[!t->repeated], *few = call->in[t->repeated];
    size_t channels = qg_elements(few) / (size_t)t->batch;
    size_t n = qg_elements(full) / (size_t)t->batch;
    uint8_t *pattern = qg_arena_raw(call->scratch, t->period, 1);
    if (!pattern)
        return qg_nomem(call->ctx);
    for (size_t sample = 0; sample < (size_t)t->batch; sample++) {
        const uint8_t *from = few->u8 + sample * channels;
        for (size_t i = 0; i < t->period; i += channels)
            memcpy(pattern + i, from, channels);
        for (size_t at = 0, part; at < n; at += part) {
            const uint8_t *x = full->u8 + sample * n + at;
            part = n - at < t->period ? n - at : t->period;
            qg_int_span s = { 0, 0, 0, part, 1, 1 };
            run_span(t, t->repeated ? x : pattern, t->repeated ? pattern : x,
                     call->out[0]->u8 + sample * n + at, &s);
        }
    }
    return QG_OK;
}

static qg_int_dims dims_of(const qg_tensor *t)
{
    qg_int_dims d = { .rank = t->rank };
    for (int32_t i = 0; i < t->rank; i++)
        d.dim[i] = t->dim[i];
    return d;
}

static qg_status run_pairs(const qg_kernel *k, const qg_call *call)
{
    const pairs *t = k->state;
    const uint8_t *a = call->in[0]->u8, *b = call->in[1]->u8;
    if (t->repeated >= 0)
        return run_repeated(t, call);
    for (size_t i = 0; i < t->w.spans; i++) {
        qg_int_span s = qg_int_broadcast_span(&t->w, i);
        run_span(t, a + s.a, b + s.b, call->out[0]->u8 + s.y, &s);
    }
    return QG_OK;
}

/* All pairs in one call: operand a moves along a row or stands still, as in the real
 * call; some forms depend on it. */
static qg_status fill_pairs(qg_compile *c, uint8_t *result, bool standing)
{
    const int64_t dims[2] = { CODES, CODES }, column[2] = { CODES, 1 };
    uint8_t right[CODES];
    qg_tensor a, b, y;
    const qg_tensor *in[2] = { &a, &b };
    qg_arena *arena = qg_arena_new(c->ctx->alloc);
    uint8_t *left = arena ? qg_arena_raw(arena, CODES, CODES) : NULL;
    if (!left) {
        qg_arena_free(arena);
        return qg_nomem(c->ctx);
    }
    qg_tensor_init(&a, c->in[0]->dtype, 2, standing ? column : dims);
    qg_tensor_init(&b, c->in[1]->dtype, 1, dims);
    qg_tensor_init(&y, c->out[0]->dtype, 2, dims);
    a.data = left;
    b.data = right;
    y.data = result;
    for (int i = 0; i < CODES; i++) {
        right[i] = (uint8_t)i;
        memset(left + i * (standing ? 1 : CODES), i, standing ? 1 : CODES);
    }
    qg_status s = fill(c, in, &y);
    qg_arena_free(arena);
    return s;
}

static void exchange(uint8_t *result)
{
    for (int i = 0; i < CODES; i++)
        for (int j = 0; j < i; j++) {
            uint8_t one = result[i * CODES + j];
            result[i * CODES + j] = result[j * CODES + i];
            result[j * CODES + i] = one;
        }
}

/* float32 replaces the table where it gives every result of it but those near a tie,
 * and ties are rare: pieces with one are looked up.  result by the codes of a, then of
 * b. */
static void try_near(const qg_near_pair *pair, qg_near_fn *near, const uint8_t *result,
                     pairs *t)
{
    uint8_t a[CODES], b[CODES], y[CODES];
    int ties = 0;
    for (int j = 0; j < CODES; j++)
        b[j] = (uint8_t)j;
    for (int i = 0; i < CODES; i++) {
        memset(a, i, sizeof a);
        if (near(pair, a, b, y, CODES)) {
            if (memcmp(y, result + i * CODES, CODES) != 0)
                return;
            continue;
        }
        for (int j = 0; j < CODES; j++)
            if (!near(pair, a + j, b + j, y + j, 1))
                ties++;
            else if (y[j] != result[i * CODES + j])
                return;
    }
    if (ties * 4 > CODES) /* about a fourth of the pieces */
        return;
    t->near = near;
    t->pair = *pair;
}

/* few has the dims of y behind leading ones. */
static bool is_suffix(const qg_tensor *few, const qg_tensor *y)
{
    int32_t skip = 0;
    while (skip < few->rank && few->dim[skip] == 1)
        skip++;
    for (int32_t i = skip; i < few->rank; i++)
        if (few->dim[i] != y->dim[y->rank - few->rank + i])
            return false;
    return true;
}

/* few has one element, or one per channel; and that for each of *batch samples. */
static bool is_channels(const qg_tensor *few, const qg_tensor *y, int64_t *batch)
{
    bool whole = few->rank == y->rank;
    *batch = whole ? few->dim[0] : 1;
    return qg_tensor_count(few) == *batch * (whole ? few->dim[1] : 1);
}

/* Channels-last where an operand is and the other one is too, or repeats. */
static enum qg_layout layout_of(const qg_compile *c, pairs *t)
{
    const qg_tensor *y = c->out[0];
    enum qg_layout layout = QG_LAYOUT_PLAIN;
    t->repeated = -1;
    for (int i = 0; i < 2 && t->repeated < 0; i++) {
        const qg_tensor *full = c->in[i], *few = c->in[!i];
        bool last = c->in_layout[i] == QG_LAYOUT_CHANNELS_LAST && !full->data;
        if (!qg_same_dims(full, y))
            continue;
        if (qg_same_dims(few, y))
            return last && !few->data ? QG_LAYOUT_CHANNELS_LAST : QG_LAYOUT_PLAIN;
        last = last && is_channels(few, y, &t->batch);
        if (!last && !is_suffix(few, y))
            continue;
        if (!last)
            t->batch = 1;
        size_t n = qg_elements(few) / (size_t)t->batch;
        t->repeated = !i;
        t->period = n * (1 + (PIECE - 1) / n);
        layout = last ? QG_LAYOUT_CHANNELS_LAST : QG_LAYOUT_PLAIN;
    }
    return layout;
}

qg_status qg_integer_compile_pairs(qg_compile *c, const qg_near_pair *pair,
                                   bool product, qg_kernel **out)
{
    const qg_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
    qg_int_dims da = dims_of(a), db = dims_of(b);
    *out = NULL;
    if (!bytes(a) || !bytes(b) || !bytes(y) || qg_tensor_count(y) < QG_INTEGER_TABLE)
        return QG_OK;
    for (uint32_t i = 0; i < 2; i++) /* one constant for all */
        if (c->in[!i]->data && qg_elements(c->in[!i]) == 1 && !c->in[i]->data &&
            qg_same_dims(c->in[i], y))
            return compile_slot(c, i, out);
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    pairs *t = QG_NEW(c->arena, pairs);
    uint8_t *result = qg_arena_get(c->arena, CODES, CODES);
    if (!k || !t || !result)
        return qg_nomem(c->ctx);
    enum qg_layout layout = layout_of(c, t);
    QG_TRY(qg_int_broadcast_make(c->ctx, "pairs", &da, &db, &t->w));
    QG_TRY(fill_pairs(c, result, t->w.a_step == 0));
    if (pair && a->dtype == b->dtype && a->dtype == y->dtype)
        try_near(pair, qg_near_loop(product, y->dtype), result, t);
    t->by_b = b->data && !a->data;
    if (t->by_b)
        exchange(result);
    t->result = result;
    *k = (qg_kernel){
        .run = run_pairs,
        .state = t,
        .in_layout = {layout, layout},
        .out_layout = layout,
        .name = t->near ? "pairs by float32" : "table of pairs"
    };
    *out = k;
    return QG_OK;
}

/* -- any number of operands along an axis ------------------------------------------ */

typedef struct concat {
    uint8_t *result; /* [inputs][CODES] */
    size_t *piece;   /* [inputs + 1] elements from the axis on, then those of y */
    qg_look_up_fn *look_up;
} concat;

static qg_status run_concat(const qg_kernel *k, const qg_call *call)
{
    const concat *s = k->state;
    const size_t pitch = s->piece[call->n_in], rows = qg_elements(call->out[0]) / pitch;
    uint8_t *y = call->out[0]->u8;
    for (size_t i = 0; i < call->n_in; y += s->piece[i++]) {
        const uint8_t *x = call->in[i]->u8, *from = s->result + i * CODES;
        const size_t n = s->piece[i];
        for (size_t row = 0; row < rows; row++)
            s->look_up(from, x + row * n, y + row * pitch, n);
    }
    return QG_OK;
}

/* Elements from the axis on, in the order of memory: N, space, C for channels-last. */
static size_t piece_of(const qg_tensor *t, int32_t axis, bool last)
{
    if (last && axis == 1)
        return (size_t)t->dim[1];
    int64_t n = qg_dims_product(t, axis, t->rank);
    return (size_t)(last && axis > 1 ? n * t->dim[1] : n);
}

/* One call with all codes of every input. */
static qg_status fill_concat(qg_compile *c, int32_t axis, uint8_t *result)
{
    uint8_t code[CODES];
    uint32_t n = c->node->n_in;
    int64_t dim[QG_MAX_RANK];
    qg_tensor x, y;
    const qg_tensor **in = QG_NEWN(c->arena, n, const qg_tensor *);
    if (!in)
        return qg_nomem(c->ctx);
    for (int i = 0; i < CODES; i++)
        code[i] = (uint8_t)i;
    for (int32_t i = 0; i < c->out[0]->rank; i++)
        dim[i] = i == axis ? CODES : 1;
    qg_tensor_init(&x, c->in[0]->dtype, c->out[0]->rank, dim);
    dim[axis] *= n;
    qg_tensor_init(&y, c->out[0]->dtype, c->out[0]->rank, dim);
    x.data = code;
    y.data = result;
    for (uint32_t i = 0; i < n; i++)
        in[i] = &x;
    return fill(c, in, &y);
}

qg_status qg_integer_compile_concat(qg_compile *c, int32_t axis, qg_kernel **out)
{
    uint32_t n = c->node->n_in;
    bool last = true, alike = bytes(c->out[0]);
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        alike = alike && bytes(c->in[i]) && c->in[i]->dtype == c->in[0]->dtype;
        last = last && c->in_layout[i] == QG_LAYOUT_CHANNELS_LAST && !c->in[i]->data;
    }
    if (!alike || qg_tensor_count(c->out[0]) < CODES)
        return QG_OK;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    concat *s = QG_NEW(c->arena, concat);
    uint8_t *result = QG_NEWN(c->arena, (size_t)n * CODES, uint8_t);
    size_t *piece = QG_NEWN(c->arena, (size_t)n + 1, size_t);
    if (!k || !s || !result || !piece)
        return qg_nomem(c->ctx);
    for (uint32_t i = 0; i <= n; i++)
        piece[i] = piece_of(i < n ? c->in[i] : c->out[0], axis, last);
    *s = (concat){ result, piece, qg_look_up_loop() };
    enum qg_layout layout = last ? QG_LAYOUT_CHANNELS_LAST : QG_LAYOUT_PLAIN;
    *k = (qg_kernel){ .run = run_concat,
                      .state = s,
                      .in_layout = { layout },
                      .all_in_alike = true,
                      .out_layout = layout,
                      .name = "concat by tables" };
    *out = k;
    return fill_concat(c, axis, result);
}
