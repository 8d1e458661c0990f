#include "ops/util_integer_table.h"

#include <assert.h>

#include "engine/number/integer_array.h"
#include "ops/util_axis.h"
#include "ops/util_broadcast.h"

enum { CODES = 256 };

/* Results by the bytes of the codes: [256], or [256][256] by the byte of input 0, then
 * that of input 1; exchanged when only input 1 is constant, so that the rows of its few
 * codes stay in the cache. */
typedef struct table {
    void *result; /* of the output's type */
    size_t size;  /* bytes of a result: 1, 2 or 4 */
    bool flat;    /* pairs: both operands have the output's dims */
    bool by_b;    /* pairs: a row for each code of input 1 */
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

/* The kernel with an empty table of n results; its layouts are those of input 0. */
static qg_status begin(qg_compile *c, size_t n, const char *name, qg_kernel **out)
{
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    table *t = QG_NEW(c->arena, table);
    size_t size = qg_element_size(c->out[0]->dtype);
    void *result = qg_arena_get(c->arena, n, size);
    if (!k || !t || !result)
        return qg_nomem(c->ctx);
    t->result = result;
    t->size = size;
    k->state = t;
    k->name = name;
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
    const uint8_t *x = call->in[0]->data;
    void *y = call->out[0]->data;
    size_t n = qg_elements(call->in[0]);
    if (t->size == 1)
        LOOK_UP(uint8_t, x[i]);
    else if (t->size == 2)
        LOOK_UP(uint16_t, x[i]);
    else
        LOOK_UP(uint32_t, x[i]);
    return QG_OK;
}

qg_status qg_integer_compile_codes(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *in[QG_WALK_OPERANDS];
    uint8_t code[CODES];
    qg_tensor x, y;
    *out = NULL;
    if (!bytes(c->in[0]) || c->node->n_in > QG_WALK_OPERANDS ||
        qg_tensor_count(c->out[0]) < CODES)
        return QG_OK;
    for (uint32_t i = 1; i < c->node->n_in; i++) {
        in[i] = c->in[i];
        if (!in[i]->data)
            return QG_OK;
    }
    QG_TRY(begin(c, CODES, "table of codes", out));
    for (int i = 0; i < CODES; i++)
        code[i] = (uint8_t)i;
    qg_tensor_init(&x, c->in[0]->dtype, 1, (int64_t[]){ CODES });
    qg_tensor_init(&y, c->out[0]->dtype, 1, (int64_t[]){ CODES });
    x.data = code;
    y.data = ((table *)(*out)->state)->result;
    in[0] = &x;
    (*out)->run = run_codes;
    (*out)->in_layout[0] = (*out)->out_layout = c->in_layout[0];
    return fill(c, in, &y);
}

/* -- two operands ------------------------------------------------------------------ */

static void look_up_pairs(const table *t, const uint8_t *a, const uint8_t *b,
                          uint8_t *y, const qg_int_span *s)
{
    const uint8_t *from = t->result, *row = t->by_b ? b : a, *x = t->by_b ? a : b;
    size_t row_step = t->by_b ? s->b_step : s->a_step;
    size_t x_step = t->by_b ? s->a_step : s->b_step;
    if (row_step == 0)
        for (size_t i = 0; i < s->n; i++)
            y[i] = from[(size_t)*row << 8 | x[i * x_step]];
    else
        for (size_t i = 0; i < s->n; i++)
            y[i] = from[(size_t)row[i] << 8 | x[i * x_step]];
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
    const table *t = k->state;
    const qg_tensor *a = call->in[0], *b = call->in[1], *y = call->out[0];
    qg_int_dims da = dims_of(a), db = dims_of(b);
    qg_int_broadcast w;
    if (t->flat) {
        qg_int_span s = { 0, 0, 0, qg_elements(y), 1, 1 };
        look_up_pairs(t, a->u8, b->u8, y->u8, &s);
        return QG_OK;
    }
    QG_TRY(qg_int_broadcast_make(call->ctx, "pairs", &da, &db, &w));
    for (size_t i = 0; i < w.spans; i++) {
        qg_int_span s = qg_int_broadcast_span(&w, i);
        look_up_pairs(t, a->u8 + s.a, b->u8 + s.b, y->u8 + s.y, &s);
    }
    return QG_OK;
}

/* All pairs in one call: operand a moves along a row or stands still, as in the real
 * call; some forms depend on it. */
static qg_status fill_pairs(qg_compile *c, const table *t, bool standing)
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
    y.data = t->result;
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

qg_status qg_integer_compile_pairs(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
    qg_int_dims da = dims_of(a), db = dims_of(b);
    qg_int_broadcast w;
    *out = NULL;
    if (!bytes(a) || !bytes(b) || !bytes(y) || qg_tensor_count(y) < QG_INTEGER_PAIRS)
        return QG_OK;
    QG_TRY(qg_int_broadcast_make(c->ctx, "pairs", &da, &db, &w));
    QG_TRY(begin(c, CODES * CODES, "table of pairs", out));
    table *t = (*out)->state;
    t->flat = qg_same_dims(a, y) && qg_same_dims(b, y);
    (*out)->run = run_pairs;
    bool last = c->in_layout[0] == QG_LAYOUT_CHANNELS_LAST ||
                c->in_layout[1] == QG_LAYOUT_CHANNELS_LAST;
    if (t->flat && last && !a->data && !b->data)
        (*out)->in_layout[0] = (*out)->in_layout[1] = (*out)->out_layout =
            QG_LAYOUT_CHANNELS_LAST;
    QG_TRY(fill_pairs(c, t, w.a_step == 0));
    t->by_b = b->data && !a->data;
    if (t->by_b)
        exchange(t->result);
    return QG_OK;
}

/* -- any number of operands along an axis ------------------------------------------ */

typedef struct concat {
    uint8_t *result; /* [inputs][CODES] */
    size_t *piece;   /* [inputs + 1] elements from the axis on, then those of y */
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
            for (size_t j = 0; j < n; j++)
                y[row * pitch + j] = from[x[row * n + j]];
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
    *s = (concat){ result, piece };
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
