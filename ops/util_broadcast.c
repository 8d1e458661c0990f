/* util_broadcast.c -- walks: an index over the outer loops and an offset per
 * operand, moved by additions only.  The caller runs the inner loop. */
#include "ops/util_broadcast.h"

#include <assert.h>
#include <math.h>

#include "engine/ir/transpose.h"
#include "ops/util_cast.h"

void qg_walk_init(qg_walk *w, int32_t rank, const int64_t *dim)
{
    assert(rank >= 0 && rank <= QG_WALK_RANK);
    *w = (qg_walk){ .rank = rank };
    for (int32_t i = 0; i < rank; i++)
        w->dim[i] = dim[i];
}

void qg_walk_add(qg_walk *w, const int64_t *stride)
{
    assert(w->n < QG_WALK_OPERANDS);
    for (int32_t i = 0; i < w->rank; i++)
        w->stride[w->n][i] = stride[i];
    w->n++;
}

void qg_walk_add_broadcast(qg_walk *w, const qg_tensor *t)
{
    int64_t stride[QG_WALK_RANK] = { 0 }, step = 1;
    assert(t->rank <= w->rank);
    bool empty = qg_walk_empty(w); /* the product of the dims may overflow */
    for (int32_t i = t->rank - 1, k = w->rank - 1; i >= 0 && !empty; i--, k--) {
        assert(t->dim[i] == w->dim[k] || t->dim[i] == 1);
        stride[k] = t->dim[i] == 1 ? 0 : step;
        step *= t->dim[i];
    }
    qg_walk_add(w, stride);
}

/* Whether the loops `outer` and `inner` can be merged for every operand. */
static bool joins(const qg_walk *w, int32_t outer, int32_t inner)
{
    for (int32_t k = 0; k < w->n; k++)
        if (w->stride[k][outer] != w->stride[k][inner] * w->dim[inner])
            return false;
    return true;
}

/* Loop `from` takes the place of loop `to`, with this many turns. */
static void set_loop(qg_walk *w, int32_t to, int32_t from, int64_t dim)
{
    for (int32_t k = 0; k < w->n; k++)
        w->stride[k][to] = w->stride[k][from];
    w->dim[to] = dim;
}

void qg_walk_collapse(qg_walk *w)
{
    int32_t kept = 0;
    if (qg_walk_empty(w)) { /* the product of the others may overflow */
        w->rank = 1;
        w->dim[0] = 0;
        return;
    }
    for (int32_t i = 0; i < w->rank; i++) {
        if (w->dim[i] == 1)
            continue;
        if (kept > 0 && joins(w, kept - 1, i))
            set_loop(w, kept - 1, i, w->dim[kept - 1] * w->dim[i]);
        else
            set_loop(w, kept++, i, w->dim[i]);
    }
    if (kept == 0) {
        for (int32_t k = 0; k < w->n; k++)
            w->stride[k][0] = 1; /* one turn: any step will do, 1 is the fast path */
        w->dim[kept++] = 1;
    }
    w->rank = kept;
}

void qg_walk_pair(qg_walk *w, int32_t rank, const int64_t *dim, const int64_t *to,
                  const int64_t *from)
{
    qg_walk_init(w, rank, dim);
    qg_walk_add(w, to);
    qg_walk_add(w, from);
    qg_walk_collapse(w);
}

void qg_stretch(const qg_tensor *from, qg_tensor *to)
{
    qg_walk w;
    qg_walk_init(&w, to->rank, to->dim);
    qg_walk_add_broadcast(&w, to);
    qg_walk_add_broadcast(&w, from);
    qg_walk_collapse(&w);
    qg_walk_copy(&w, qg_element_size(to->dtype), to->data, from->data);
}

bool qg_walk_empty(const qg_walk *w)
{
    for (int32_t i = 0; i < w->rank; i++)
        if (w->dim[i] == 0)
            return true;
    return false;
}

/* One step of the loops outside of loop `row`. */
static bool advance(const qg_walk *w, int32_t row, qg_walk_at *at)
{
    for (int32_t i = row - 1; i >= 0; i--) {
        bool more = ++at->index[i] < w->dim[i];
        int64_t step = more ? 1 : 1 - w->dim[i];
        for (int32_t k = 0; k < w->n; k++)
            at->offset[k] += step * w->stride[k][i];
        if (more)
            return true;
        at->index[i] = 0;
    }
    return false;
}

bool qg_walk_next(const qg_walk *w, qg_walk_at *at)
{
    return advance(w, w->rank - 1, at);
}

static inline void copy_items(char *to, int64_t to_step, const char *from,
                              int64_t from_step, size_t bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step, from + i * from_step, bytes);
}

/* A constant size lets the compiler inline memcpy. */
void qg_copy_items(void *to, int64_t to_step, const void *from, int64_t from_step,
                   size_t bytes, int64_t n)
{
    const int64_t dense = (int64_t)bytes;
    if (to_step == dense && from_step == dense) {
        if (n > 0)
            memcpy(to, from, bytes * (size_t)n);
        return;
    }
    switch (bytes) {
/* clang-format off */
#define X(size)                                                                        \
    case size:                                                                         \
        copy_items(to, to_step, from, from_step, size, n);                             \
        return;
    X(1) X(2) X(4) X(8) X(12) X(16) X(20) X(24) X(32)
#undef X
    default:
        copy_items(to, to_step, from, from_step, bytes, n);
    }
    /* clang-format on */
}

/* The loop whose turns are copied at once, and the bytes that each turn copies: a short
 * dense row counts as one item of the enclosing loop. */
static int32_t item_loop(const qg_walk *w, size_t size, size_t *bytes)
{
    const int32_t row = w->rank - 1;
    const bool dense = w->stride[0][row] == 1 && w->stride[1][row] == 1;
    *bytes = size;
    if (row == 0 || !dense || w->dim[row] > 16)
        return row;
    *bytes = size * (size_t)w->dim[row];
    return row - 1;
}

/* Words whose neighbours in `to` are apart in `from`, where those of another loop are
 * neighbours: a transposed matrix for every step of the loops outside of these two.
 * False: not this case. */
static bool copy_transposed(const qg_walk *given, void *to, const void *from)
{
    enum { LEAST = 4 };
    const int32_t row = given->rank - 2, last = given->rank - 1;
    qg_walk w = *given;
    int32_t loop = row;
    qg_walk_at at = { 0 };
    while (loop >= 0 && (w.stride[1][loop] != 1 || w.dim[loop] < LEAST))
        loop--;
    if (loop < 0 || w.stride[0][last] != 1 || w.stride[1][last] == 1 ||
        w.dim[last] < LEAST)
        return false;
    w.dim[loop] = given->dim[row], w.dim[row] = given->dim[loop];
    for (int32_t k = 0; k < 2; k++) {
        w.stride[k][loop] = given->stride[k][row];
        w.stride[k][row] = given->stride[k][loop];
    }
    do
        qg_transpose_words((const uint32_t *)from + at.offset[1], w.stride[1][last],
                           (uint32_t *)to + at.offset[0], w.stride[0][row], w.dim[last],
                           w.dim[row]);
    while (advance(&w, row, &at));
    return true;
}

void qg_walk_copy(const qg_walk *w, size_t size, void *to, const void *from)
{
    const int64_t step = (int64_t)size;
    size_t bytes;
    qg_walk_at at = { 0 };
    assert(w->n == 2 && w->rank >= 1);
    assert(size == 1 || size == 2 || size == 4 || size == 8);
    if (qg_walk_empty(w))
        return;
    if (size == sizeof(uint32_t) && copy_transposed(w, to, from))
        return;
    const int32_t loop = item_loop(w, size, &bytes);
    do {
        qg_copy_items((char *)to + at.offset[0] * step, w->stride[0][loop] * step,
                      (const char *)from + at.offset[1] * step,
                      w->stride[1][loop] * step, bytes, w->dim[loop]);
    } while (advance(w, loop, &at));
}

/* The larger dim of two that broadcast; -2 when they do not. */
int64_t qg_broadcast_dim(int64_t a, int64_t b)
{
    if (a == b || b == 1)
        return a;
    if (a == 1)
        return b;
    if (a < 0 || b < 0)
        return a < 0 ? b : a; /* the unknown extent must be 1 or equal */
    return -2;
}

/* dim[0..*rank) = broadcast of itself with t. */
static qg_status widen(const qg_call *k, size_t slot, int32_t *rank, int64_t *dim)
{
    const qg_tensor *t = k->in[slot];
    const int32_t r = *rank > t->rank ? *rank : t->rank;
    int64_t wide[QG_MAX_RANK];
    for (int32_t i = 0; i < r; i++) {
        int64_t a = i < r - *rank ? 1 : dim[i - (r - *rank)];
        int64_t b = i < r - t->rank ? 1 : t->dim[i - (r - t->rank)];
        wide[i] = qg_broadcast_dim(a, b);
        if (wide[i] == -2)
            return qg_infer_fail(k, QG_EMODEL,
                                 "input %zu has %lld along axis %d, expected %lld or 1",
                                 slot, (long long)b, (int)i, (long long)a);
    }
    memcpy(dim, wide, sizeof *dim * (size_t)r);
    *rank = r;
    return QG_OK;
}

qg_status qg_infer_broadcast(const qg_call *k, size_t first, size_t n, qg_dtype dtype)
{
    int64_t dim[QG_MAX_RANK];
    int32_t rank = 0;
    for (size_t i = first; i < first + n; i++) {
        assert(i < k->n_in && k->in[i]);
        if (k->in[i]->rank < 0)
            return qg_infer_dims(k, dtype, -1, NULL);
        QG_TRY(widen(k, i, &rank, dim));
    }
    return qg_infer_dims(k, dtype, rank, dim);
}

/* Rows shorter than this are worth joining. */
enum { JOIN_BELOW = 256, JOIN_BYTES = 4096 };

/* A short array b that repeats along the loop outside of the last one, where a and y
 * are dense: b is written out several times, and as many rows are computed at once.
 * False: not this case. */
static bool join_rows(qg_row2 f, const qg_walk *w, const size_t size[3],
                      void *const at[3])
{
    _Alignas(64) char copies[JOIN_BYTES];
    const int32_t last = w->rank - 1, row = w->rank - 2;
    const int64_t n = w->dim[last];
    if (row != 0 || n >= JOIN_BELOW || w->stride[2][row] != 0 || w->stride[1][row] != n)
        return false;
    for (int k = 0; k < 3; k++)
        if (w->stride[k][last] != 1)
            return false;
    const int64_t times = (int64_t)(JOIN_BYTES / size[2]) / n;
    for (int64_t i = 0; i < times; i++)
        memcpy(copies + (size_t)(i * n) * size[2], at[2], (size_t)n * size[2]);
    for (int64_t i = 0; i < w->dim[row]; i += times) {
        const int64_t rows = w->dim[row] - i < times ? w->dim[row] - i : times;
        f((const char *)at[1] + (size_t)(i * n) * size[1], 1, copies, 1,
          (char *)at[0] + (size_t)(i * n) * size[0], (size_t)(rows * n));
    }
    return true;
}

void qg_run_row2(qg_row2 f, const qg_tensor *a, const qg_tensor *b, qg_tensor *out)
{
    const size_t size[3] = { qg_element_size(out->dtype), qg_element_size(a->dtype),
                             qg_element_size(b->dtype) };
    void *const data[3] = { out->data, a->data, b->data };
    qg_walk w;
    qg_walk_init(&w, out->rank, out->dim);
    qg_walk_add_broadcast(&w, out);
    qg_walk_add_broadcast(&w, a);
    qg_walk_add_broadcast(&w, b);
    qg_walk_collapse(&w);
    if (qg_walk_empty(&w))
        return;
    if (join_rows(f, &w, size, data))
        return;
    const int32_t last = w.rank - 1;
    qg_walk_at at = { 0 };
    do {
        f((const char *)a->data + at.offset[1] * (int64_t)size[1], w.stride[1][last],
          (const char *)b->data + at.offset[2] * (int64_t)size[2], w.stride[2][last],
          (char *)out->data + at.offset[0] * (int64_t)size[0], (size_t)w.dim[last]);
    } while (qg_walk_next(&w, &at));
}

/* No attributes since opset 7. */
qg_status qg_binary_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    qg_binary_param *p = param;

    if (n->op->since >= 7)
        return QG_OK;
    p->legacy = true;
    p->has_axis = qg_attr_has(n, "axis");
    QG_TRY(qg_attr_flag(ctx, n, "broadcast", false, &p->stretch));

    return qg_attr_int(ctx, n, "axis", 0, &p->axis);
}

uint32_t qg_binary_free_axes(const qg_call *k)
{
    return ((const qg_binary_param *)k->param)->legacy ? 0 : UINT32_MAX;
}

/* *view = input 1 with dims of 1 appended, so that the modern rule aligns it as the
 * legacy attributes specify.  Both ranks are known. */
static qg_status legacy_view(const qg_call *k, const qg_binary_param *p,
                             qg_tensor *view)
{
    const qg_tensor *a = k->in[0], *b = k->in[1];
    int64_t dim[QG_MAX_RANK];
    int32_t axis = a->rank - b->rank;
    if (!p->stretch && !qg_same_dims(a, b) && qg_tensor_known(a) && qg_tensor_known(b))
        return qg_infer_fail(k, QG_EMODEL,
                             "dims of the inputs differ, expected broadcast");
    if (p->stretch && p->has_axis && b->rank > 0)
        QG_TRY(qg_check_axis(k, p->axis, a->rank, &axis));
    if (axis < 0 || axis + b->rank > a->rank)
        return qg_infer_fail(
            k, QG_EMODEL,
            "input 1 of rank %d does not fit input 0 of rank %d at axis "
            "%d",
            (int)b->rank, (int)a->rank, (int)axis);
    for (int32_t i = axis; i < a->rank; i++)
        dim[i - axis] = i - axis < b->rank ? b->dim[i - axis] : 1;
    qg_tensor_init(view, b->dtype, a->rank - axis, dim);
    view->data = b->data;
    return QG_OK;
}

/* Converts legacy shapes by appending dims of 1 to input 1. */
qg_status qg_binary_infer(const qg_call *k, qg_dtype dtype)
{
    const qg_binary_param *p = k->param;
    qg_tensor view;
    if (!p->legacy || k->in[0]->rank < 0 || k->in[1]->rank < 0)
        return qg_infer_broadcast(k, 0, 2, dtype);
    QG_TRY(legacy_view(k, p, &view));
    qg_call with_view = *k;
    with_view.in = (const qg_tensor *const[]){ k->in[0], &view };
    QG_TRY(qg_infer_broadcast(&with_view, 0, 2, dtype));
    if (qg_out(k, 0) && k->in[0]->rank != k->out[0]->rank)
        return qg_infer_fail(k, QG_EMODEL, "input 1 does not fit into input 0");
    return QG_OK;
}

qg_tensor qg_binary_view(const qg_call *k)
{
    const qg_binary_param *p = k->param;
    qg_tensor view = *k->in[1];
    if (p->legacy && legacy_view(k, p, &view) != QG_OK)
        assert(!"infer accepted what run refuses");
    return view;
}

void qg_binary_run(const qg_call *k, qg_row2 f)
{
    const qg_tensor view = qg_binary_view(k);
    qg_run_row2(f, k->in[0], &view, k->out[0]);
}

qg_status qg_binary_run_rows(const qg_call *k, const qg_row2 *rows)
{
    if (QG_DT_HAS(QG_DT_HALVES, k->in[0]->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    qg_binary_run(k, rows[k->in[0]->dtype]);
    return QG_OK;
}
