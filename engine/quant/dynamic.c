/* dynamic.c -- scale and offset from the tensor itself.  Source:
 * docs/evidence/grids.md#dynamic.
 *
 * Memory without gaps is [outer][dim of axis][inner]; the elements of one parameter are
 * a slab of it: everything, one channel of each outer index, or one block of one. */
#include "engine/quant/fake_tensor.h"

#include <assert.h>
#include <math.h>

#include "engine/quant/fake_kernel.h"

enum { COLUMNS = 256 }; /* parameters found in one sweep over memory */

/* Rows of `columns` runs of `run` elements; a column has one parameter. */
typedef struct slab {
    size_t rows, stride, columns, run;
} slab;

/* Finite elements only: NaN follows its rule and infinities saturate, whatever the
 * range. */
static void widen(const float *x, size_t n, float *low, float *high)
{
    assert(*low <= 0 && *high >= 0);
    float least = *low, most = *high;
    for (size_t i = 0; i < n; i++) {
        float v = isfinite(x[i]) ? x[i] : 0.0f; /* the range holds 0 anyway */
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    *low = least;
    *high = most;
}

/* One sweep over memory for all columns: reading it column by column would miss the
 * cache. */
static void ranges(const slab *b, const float *x, float *low, float *high)
{
    for (size_t c = 0; c < b->columns; c++)
        low[c] = high[c] = 0;
    for (size_t r = 0; r < b->rows; r++)
        for (size_t c = 0; c < b->columns; c++)
            widen(x + r * b->stride + c * b->run, b->run, &low[c], &high[c]);
}

qg_status qg_tensor_ranges(qg_ctx *ctx, const char *what, const qg_scheme *s,
                           const qg_tensor *x, float *low, float *high)
{
    qg_spans spans;
    qg_span span;
    QG_TRY(qg_fake_check_axis(ctx, what, s, x));
    QG_TRY(qg_fake_check_floats(ctx, what, x, x));
    QG_TRY(qg_fake_check_dense(ctx, what, s, x, &spans));
    for (int64_t c = 0, n = qg_scheme_param_count(s, x); c < n; c++)
        low[c] = high[c] = 0;
    while (qg_spans_next(&spans, &span)) {
        size_t length = span.each ? 1 : span.n;
        for (size_t i = 0; i < span.n; i += length) {
            size_t c = span.param + i;
            widen(x->f32 + span.at + i, length, &low[c], &high[c]);
        }
    }
    return QG_OK;
}

typedef struct columns {
    float scale[COLUMNS];
    int32_t offset[COLUMNS];
    bool narrow; /* all of them */
} columns;

/* Scale and offset of each column; narrow when every one suits the fast kernels. */
static void choose(const qg_scheme *s, const slab *b, const float *x, columns *p)
{
    float low[COLUMNS], high[COLUMNS];
    assert(b->columns <= COLUMNS);
    ranges(b, x, low, high);
    p->narrow = true;
    for (size_t c = 0; c < b->columns; c++) {
        qg_scheme_from_range(s, (qg_range){ low[c], high[c], 0, 0 }, &p->scale[c],
                             &p->offset[c]);
        p->narrow &= qg_linear_narrow(s, p->offset[c]);
    }
}

/* Columns with runs of one element go through the `each` kernel row by row; others
 * get one call per row and column. */
static void apply(const qg_scheme *s, const slab *b, const float *x, float *y)
{
    assert(b->columns > 0 && b->stride >= b->columns * b->run);
    columns p;
    qg_linear one;
    choose(s, b, x, &p);
    for (size_t c = 0; c < b->columns; c++) {
        qg_linear_init(&one, s, p.scale[c], p.offset[c]);
        if (b->run == 1 && p.narrow)
            break;
        for (size_t r = 0; r < b->rows; r++) {
            size_t at = r * b->stride + c * b->run;
            qg_fake_linear(&one, x + at, y + at, b->run);
        }
    }
    qg_qparam each = { b->columns, p.scale, p.offset };
    for (size_t r = 0; b->run == 1 && p.narrow && r < b->rows; r++)
        one.row->each[s->rounding](&one, &each, x + r * b->stride, y + r * b->stride,
                                   b->columns);
}

/* Columns in sweeps of COLUMNS. */
static void sweep(const qg_scheme *s, slab b, const float *x, float *y)
{
    if (b.columns == 1 && b.stride == b.run)
        b = (slab){ 1, b.rows * b.run, 1, b.rows * b.run };
    size_t all = b.columns;
    for (size_t c = 0; c < all; c += COLUMNS) {
        b.columns = all - c < COLUMNS ? all - c : COLUMNS;
        apply(s, &b, x + c * b.run, y + c * b.run);
    }
}

/* BLOCK: a block is `block` slices of inner elements, the last one may be shorter. */
qg_status qg_fake_dynamic(qg_ctx *ctx, const char *what, const qg_scheme *s,
                          const qg_tensor *x, qg_tensor *y)
{
    QG_TRY(qg_fake_check_axis(ctx, what, s, x));
    size_t count = (size_t)qg_tensor_count(x);
    if (count == 0)
        return QG_OK;
    if (s->policy & QG_PER_TENSOR) {
        sweep(s, (slab){ 1, count, 1, count }, x->f32, y->f32);
        return QG_OK;
    }
    size_t dim = (size_t)x->dim[s->axis];
    size_t inner = dim == 1 ? 1 : (size_t)x->stride[s->axis];
    size_t outer = count / dim / inner, slice = dim * inner;
    if (s->policy & QG_PER_CHANNEL) {
        sweep(s, (slab){ outer, slice, dim, inner }, x->f32, y->f32);
        return QG_OK;
    }
    for (size_t o = 0; o < outer; o++)
        for (size_t first = 0; first < dim; first += (size_t)s->block) {
            size_t rows =
                dim - first < (size_t)s->block ? dim - first : (size_t)s->block;
            size_t at = o * slice + first * inner;
            sweep(s, (slab){ rows, inner, inner, 1 }, x->f32 + at, y->f32 + at);
        }
    return QG_OK;
}
