#include "engine/number/integer_array.h"

#include <assert.h>
#include <math.h>

#include "engine/core/num.h"
#include "engine/number/requant.h"

qg_status qg_grid_check(qg_ctx *ctx, const char *doing, const char *which, qg_grid g)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(g.dtype);
    unsigned bits = qg_dtype_bits(g.dtype);
    if ((kind != QG_KIND_INT && kind != QG_KIND_UINT) || (bits != 8 && bits != 16))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "%s: %s: type %s, expected int8, uint8, int16 or uint16", doing,
                       which, qg_dtype_name(g.dtype));
    if (!isfinite(g.scale) || !(g.scale > 0))
        return qg_fail(ctx, QG_ENUMERIC,
                       "%s: %s: scale %g, expected a finite number above 0", doing,
                       which, (double)g.scale);
    qg_code_range r = qg_code_range_of(g.dtype, g.zero);
    if (g.zero < r.lo || g.zero > r.hi)
        return qg_fail(ctx, QG_ENUMERIC,
                       "%s: %s: zero point %d, expected within [%d, %d]", doing, which,
                       (int)g.zero, (int)r.lo, (int)r.hi);
    return QG_OK;
}

bool qg_grid_same(qg_grid a, qg_grid b)
{
    return a.dtype == b.dtype && a.scale == b.scale && a.zero == b.zero;
}

#define LOAD(type)                                                                     \
    do {                                                                               \
        const type *from = (const type *)data + first;                                 \
        for (size_t i = 0; i < n; i++)                                                 \
            codes[i] = from[i];                                                        \
    } while (0)

void qg_codes_load(qg_dtype d, const void *data, size_t first, int32_t *codes, size_t n)
{
    assert((data && codes) || n == 0);
    if (d == QG_I8)
        LOAD(int8_t);
    else if (d == QG_U8)
        LOAD(uint8_t);
    else if (d == QG_I16)
        LOAD(int16_t);
    else if (d == QG_U16)
        LOAD(uint16_t);
    else
        assert(!"an 8 or 16-bit integer type");
}

#define STORE(type)                                                                    \
    do {                                                                               \
        type *to = (type *)data + first;                                               \
        for (size_t i = 0; i < n; i++) {                                               \
            assert((type)codes[i] == codes[i]);                                        \
            to[i] = (type)codes[i];                                                    \
        }                                                                              \
    } while (0)

void qg_codes_store(qg_dtype d, const int32_t *codes, void *data, size_t first,
                    size_t n)
{
    assert((data && codes) || n == 0);
    if (d == QG_I8)
        STORE(int8_t);
    else if (d == QG_U8)
        STORE(uint8_t);
    else if (d == QG_I16)
        STORE(int16_t);
    else if (d == QG_U16)
        STORE(uint16_t);
    else
        assert(!"an 8 or 16-bit integer type");
}

/* Extent at position i of `rank` right-aligned dims; 1 where d is shorter. */
static int64_t extent(const qg_int_dims *d, int32_t rank, int32_t i)
{
    int32_t own = i - (rank - d->rank);
    return own < 0 ? 1 : d->dim[own];
}

/* The dims that a and b broadcast to; the number of elements fits int64_t. */
static qg_status output_dims(qg_ctx *ctx, const char *doing, const qg_int_dims *a,
                             const qg_int_dims *b, qg_int_dims *y)
{
    int32_t rank = a->rank > b->rank ? a->rank : b->rank;
    if (a->rank < 0 || b->rank < 0 || rank > QG_INTEGER_RANK)
        return qg_fail(ctx, QG_EMODEL, "%s: rank %d, expected 0 to %d", doing,
                       (int)rank, QG_INTEGER_RANK);
    int64_t count = 1;
    *y = (qg_int_dims){ .rank = rank };
    for (int32_t i = 0; i < rank; i++) {
        int64_t da = extent(a, rank, i), db = extent(b, rank, i);
        if (da < 0 || db < 0 || (da != db && da != 1 && db != 1))
            return qg_fail(ctx, QG_EMODEL,
                           "%s: dims %lld and %lld at axis %d do not broadcast, "
                           "expected equal, or one of them 1",
                           doing, (long long)da, (long long)db, (int)i);
        y->dim[i] = da == 1 ? db : da;
        if (!qg_mul_i64(count, y->dim[i] ? y->dim[i] : 1, &count) || count > INT32_MAX)
            return qg_fail(ctx, QG_EMODEL,
                           "%s: more than 2^31 - 1 elements, expected fewer", doing);
    }
    return QG_OK;
}

/* Strides of d for output position i: 0 where it stands still. */
static void strides_of(const qg_int_dims *d, int32_t rank,
                       size_t stride[QG_INTEGER_RANK])
{
    size_t step = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        int64_t e = extent(d, rank, i);
        stride[i] = e > 1 ? step : 0;
        step *= (size_t)e;
    }
}

/* The span is the longest run of innermost axes over which each operand behaves
 * alike: always moves, or always stands still.  Axes of extent 1 belong to either. */
qg_status qg_int_broadcast_make(qg_ctx *ctx, const char *doing, const qg_int_dims *a,
                                const qg_int_dims *b, qg_int_broadcast *out)
{
    qg_int_broadcast r = { .n = 1, .spans = 1 };
    QG_TRY(output_dims(ctx, doing, a, b, &r.y));
    int32_t rank = r.y.rank, i = rank;
    strides_of(a, rank, r.a_stride);
    strides_of(b, rank, r.b_stride);
    while (i > 0 && r.y.dim[i - 1] == 1)
        i--;
    if (i > 0) { /* the innermost axis that moves decides which operand stands still */
        r.a_step = r.a_stride[i - 1] != 0;
        r.b_step = r.b_stride[i - 1] != 0;
    }
    for (; i > 0; i--) {
        bool one = r.y.dim[i - 1] == 1;
        if (!one && ((r.a_stride[i - 1] != 0) != r.a_step ||
                     (r.b_stride[i - 1] != 0) != r.b_step))
            break;
        r.n *= (size_t)r.y.dim[i - 1];
    }
    r.outer = i;
    while (i > 0)
        r.spans *= (size_t)r.y.dim[--i];
    *out = r;
    return QG_OK;
}

/* Takes i apart into the index of the outer axes, the last of them fastest. */
qg_int_span qg_int_broadcast_span(const qg_int_broadcast *b, size_t i)
{
    assert(i < b->spans);
    qg_int_span s = {
        .y = i * b->n, .n = b->n, .a_step = b->a_step, .b_step = b->b_step
    };
    for (int32_t k = b->outer - 1; k >= 0; k--) {
        size_t at = i % (size_t)b->y.dim[k];
        i /= (size_t)b->y.dim[k];
        s.a += at * b->a_stride[k];
        s.b += at * b->b_stride[k];
    }
    return s;
}
