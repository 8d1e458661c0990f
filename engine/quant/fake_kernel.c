#include "engine/quant/fake_kernel.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "engine/number/openvino_fq.h"
#include "engine/quant/fake_rows.h"

static const qg_fake_row *const rows[] = {
    &qg_fake_row_plain,
#if defined(__x86_64__)
    &qg_fake_row_avx2,
    &qg_fake_row_avx512,
#endif
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const qg_fake_row *const *qg_fake_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

/* __builtin_cpu_supports is a load: the C library queried the CPU at start-up. */
const qg_fake_row *qg_fake_row_best(void)
{
    size_t i = N_ROWS - 1;
    assert(rows[0]->supported());
    while (!rows[i]->supported())
        i--;
    return rows[i];
}

/* Beyond 2^22 the kernels' way of rounding ends, beyond 2^24 float32 has gaps. */
static bool within(const qg_scheme *s, int32_t offset, int64_t limit)
{
    return s->qmin - offset >= -limit && s->qmax - offset <= limit;
}

bool qg_linear_narrow(const qg_scheme *s, int32_t offset)
{
    return s->bits <= 24 && within(s, offset, INT64_C(1) << 22);
}

/* Rounding to nearest forgives a quotient off by an ulp short of a tie; up and down
 * do not. */
bool qg_linear_fusable(const qg_linear *p)
{
    return p->scale >= 0x1p-100f && p->scale <= 0x1p100f &&
           p->rounding != QG_ROUND_UP && p->rounding != QG_ROUND_DOWN;
}

/* The definition as a kernel: for cases without a fast kernel. */
static void defined(const qg_linear *p, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = qg_linear_define(p, x[i]);
}

/* Chooses the kernel once; the limits are prepared for all of them.  Channels have one
 * rule for NaN: `wrap` is there what it is for zero points from 0 on. */
void qg_linear_init(qg_linear *p, const qg_scheme *s, float scale, int32_t offset)
{
    assert((s->policy & QG_LINEAR) && s->rounding < QG_NROUNDING);
    assert(scale > 0 && isfinite(scale));
    double low = (double)(s->qmin - offset), high = (double)(s->qmax - offset);
    *p = (qg_linear){
        .scale = scale,
        .inverse = 1.0f / scale,
        .low = (float)low,
        .high = (float)high,
        .x_low = (float)low * scale,
        .x_high = (float)high * scale,
        .nan = qg_nan_at((qg_nan)s->nan, s->policy & QG_PER_TENSOR ? offset : 0),
        .wide_low = low,
        .wide_high = high,
        .qmin = s->qmin,
        .qmax = s->qmax,
        .rounding = (qg_rounding)s->rounding,
        .wide = s->bits > 24 || !within(s, offset, INT64_C(1) << 24),
        .run = defined,
        .row = qg_fake_row_best(),
    };
    if (p->rounding == QG_ROUND_HALF_EVEN_LEVEL)
        qg_linear_set_level(p, offset);
    if (qg_linear_narrow(s, offset))
        p->run = (qg_linear_fusable(p) ? p->row->fused : p->row->divided)[p->rounding];
}

enum { MOST_HALVES = 1024, PROBES = 6 };

/* The floats around scale * m for the two middles m next to the float h.  The products
 * are exact in double: 25 bits by 24. */
static void probe(float h, float scale, float x[PROBES])
{
    for (int side = 0; side < 2; side++) {
        float next = nextafterf(h, side ? INFINITY : -INFINITY);
        float at = (float)(((double)h + (double)next) / 2 * (double)scale);
        x[3 * side] = nextafterf(at, -INFINITY);
        x[3 * side + 1] = at;
        x[3 * side + 2] = nextafterf(at, INFINITY);
    }
}

void qg_linear_hasten(qg_linear *p)
{
    qg_linear_fn *once = p->row->once[p->rounding];
    float x[PROBES], y[PROBES];
    if (p->run != p->row->fused[p->rounding] || p->high - p->low > MOST_HALVES)
        return;
    for (float k = p->low - 1; k <= p->high; k++) {
        probe(k + 0.5f, p->scale, x);
        once(p, x, y, PROBES);
        for (int i = 0; i < PROBES; i++)
            if (y[i] != qg_linear_define(p, x[i]))
                return;
    }
    p->run = once;
}
