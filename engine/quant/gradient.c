#include "engine/quant/gradient.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engine/number/round.h"

static const char *const names[QG_NLEARNED] = {
#define X(id, text) text,
    QG_LEARNED_MAP(X)
#undef X
};

static const double ln2 = 0.69314718055994530942;

const char *qg_learned_name(qg_learned m) { return names[m]; }

int qg_learned_named(const char *text)
{
    for (int m = 0; m < QG_NLEARNED; m++)
        if (strcmp(names[m], text) == 0)
            return m;
    return -1;
}

/* The table in the header, column s. */
double qg_learned_step(const qg_learned_grid *g)
{
    if (g->method == QG_LEARNED_TQT)
        return exp2(ceil(g->parameter)) / fmax(-g->qmin, g->qmax + 1);
    if (g->method == QG_LEARNED_PACT)
        return g->parameter / g->qmax;
    return g->parameter;
}

qg_status qg_learned_check(qg_ctx *ctx, const char *what, const qg_learned_grid *g)
{
    assert(g->method < QG_NLEARNED);
    double step = qg_learned_step(g);
    if (!(g->qmin <= 0 && g->qmax > 0) || !isfinite(g->qmin) || !isfinite(g->qmax))
        return qg_fail(ctx, QG_ENUMERIC,
                       "learned grid: %s: codes [%g, %g], expected finite and around 0",
                       what, g->qmin, g->qmax);
    if (!isfinite(step) || !(step > 0) || !isfinite(g->offset))
        return qg_fail(ctx, QG_ENUMERIC,
                       "learned grid: %s: %s parameter %g, offset %g, expected finite "
                       "and a step above 0",
                       what, names[g->method], g->parameter, g->offset);
    return QG_OK;
}

static double half_even(double v) { return qg_round_f64(QG_ROUND_HALF_EVEN, v); }

static double clip(double v, double lo, double hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* LSQ, LSQ+ and STE with offset 0 of the last. */
static qg_learned_one lsq_at(const qg_learned_grid *g, double x)
{
    double s = g->parameter, b = g->method == QG_LEARNED_LSQ_PLUS ? g->offset : 0;
    double v = (x - b) / s;
    bool inside = v >= g->qmin && v <= g->qmax;
    double rounded = half_even(clip(v, g->qmin, g->qmax));
    return (qg_learned_one){ .y = s * rounded + b,
                             .dx = inside,
                             .dparameter = inside ? rounded - v : rounded,
                             .doffset = !inside };
}

/* A fixed grid: only x has a gradient. */
static qg_learned_one ste_at(const qg_learned_grid *g, double x)
{
    double s = g->parameter, z = g->offset, v = x / s;
    double q = clip(half_even(v) + z, g->qmin, g->qmax);
    bool inside = v + z >= g->qmin && v + z <= g->qmax;
    return (qg_learned_one){ .y = s * (q - z), .dx = inside };
}

/* The chain rule through s = 2^p: ds/dp = s ln 2, with ceil(p) held still. */
static qg_learned_one tqt_at(const qg_learned_grid *g, double x)
{
    double s = qg_learned_step(g), v = x / s, rounded = half_even(v);
    bool inside = rounded >= g->qmin && rounded <= g->qmax;
    double q = clip(rounded, g->qmin, g->qmax);
    return (qg_learned_one){ .y = s * q,
                             .dx = inside,
                             .dparameter = s * ln2 * (inside ? q - v : q) };
}

/* At x == p the gradient goes to the parameter, as in the paper. */
static qg_learned_one pact_at(const qg_learned_grid *g, double x)
{
    double high = g->parameter, low = g->qmin < 0 ? -high : 0;
    double s = qg_learned_step(g), clipped = clip(x, low, high);
    bool above = x >= high, below = x <= low;
    return (qg_learned_one){ .y = half_even(clipped / s) * s,
                             .dx = x > low && x < high,
                             .dparameter = above              ? 1
                                           : below && low < 0 ? -1
                                                              : 0 };
}

qg_learned_one qg_learned_at(const qg_learned_grid *g, double x)
{
    static qg_learned_one (*const at[QG_NLEARNED])(const qg_learned_grid *, double) = {
        [QG_LEARNED_STE] = ste_at,      [QG_LEARNED_LSQ] = lsq_at,
        [QG_LEARNED_LSQ_PLUS] = lsq_at, [QG_LEARNED_TQT] = tqt_at,
        [QG_LEARNED_PACT] = pact_at,
    };
    assert(g->method < QG_NLEARNED);
    return at[g->method](g, x);
}

/* Every channel before any output: a failure leaves the arrays alone. */
static qg_status layer_check(qg_ctx *ctx, const char *what, const qg_learned_layer *l)
{
    for (size_t c = 0; c < l->channels; c++)
        QG_TRY(qg_learned_check(ctx, what, &l->grid[c]));
    return QG_OK;
}

qg_status qg_learned_forward(qg_ctx *ctx, const char *what, const qg_learned_layer *l,
                             const float *x, float *y)
{
    assert(l->channels == 0 || l->grid);
    QG_TRY(layer_check(ctx, what, l));
    size_t at = 0;
    for (size_t o = 0; o < l->outer; o++)
        for (size_t c = 0; c < l->channels; c++)
            for (size_t i = 0; i < l->inner; i++, at++)
                y[at] = (float)qg_learned_at(&l->grid[c], (double)x[at]).y;
    return QG_OK;
}

/* Partial sums: element i of a row belongs to number i % LANES. */
enum { LANES = 8, BLOCK = 16 };

/* Consecutive elements of one channel.  g and dx may be the same array. */
typedef struct row {
    size_t n;
    const float *x, *g;
    float *dx;                              /* NULL: not asked for */
    double parameter[LANES], offset[LANES]; /* sums so far */
} row;

static void row_backward(const qg_learned_grid *grid, row *r)
{
    for (size_t i = 0; i < r->n; i++) {
        double g = (double)r->g[i];
        qg_learned_one e = qg_learned_at(grid, (double)r->x[i]);
        r->parameter[i % LANES] += g * e.dparameter;
        r->offset[i % LANES] += g * e.doffset;
        if (r->dx)
            r->dx[i] = (float)(g * e.dx);
    }
}

/* The bits of row_backward for LSQ: with |v| <= 2^51, (v + 1.5 * 2^52) - 1.5 * 2^52 is
 * v rounded half-even.  x and g of a block; g becomes dx. */
static inline __attribute__((always_inline)) void
lsq_block_backward(const qg_learned_grid *grid, const float *x, float *g, double *sum)
{
    const double s = grid->parameter, low = grid->qmin, high = grid->qmax;
    double ds[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        const double v = (double)x[i] / s, one = (double)g[i];
        const double rounded = (clip(v, low, high) + 0x1.8p52) - 0x1.8p52;
        const double inside = v >= low ? 1 : 0, in = v <= high ? inside : 0;
        ds[i] = one * (rounded - (in != 0 ? v : 0));
        g[i] = (float)(one * in);
    }
    for (size_t i = 0; i < BLOCK; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sum[j] += ds[i + j];
}

/* Blocks are copies, since dx may be g; the last one is filled up with zeros. */
#define LSQ_ROW_BACKWARD(name)                                                         \
    static void name(const qg_learned_grid *grid, row *r)                              \
    {                                                                                  \
        const size_t whole = r->n / BLOCK * BLOCK, rest = r->n - whole;                \
        float x[BLOCK] = { 0 }, g[BLOCK];                                              \
        for (size_t at = 0; at < whole; at += BLOCK) {                                 \
            memcpy(g, r->g + at, sizeof g);                                            \
            lsq_block_backward(grid, r->x + at, g, r->parameter);                      \
            if (r->dx)                                                                 \
                memcpy(r->dx + at, g, sizeof g);                                       \
        }                                                                              \
        if (!rest)                                                                     \
            return;                                                                    \
        memset(g, 0, sizeof g);                                                        \
        for (size_t i = 0; i < rest; i++) {                                            \
            x[i] = r->x[whole + i];                                                    \
            g[i] = r->g[whole + i];                                                    \
        }                                                                              \
        lsq_block_backward(grid, x, g, r->parameter);                                  \
        for (size_t i = 0; r->dx && i < rest; i++)                                     \
            r->dx[whole + i] = g[i];                                                   \
    }

LSQ_ROW_BACKWARD(lsq_row_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) LSQ_ROW_BACKWARD(lsq_row_avx2)
    __attribute__((target("avx512f,avx512dq"))) LSQ_ROW_BACKWARD(lsq_row_avx512)
#endif

    /* The same bits with and without wide vectors. */
    static void lsq_row_backward(const qg_learned_grid *grid, row *r)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        lsq_row_avx512(grid, r);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        lsq_row_avx2(grid, r);
        return;
    }
#endif
    lsq_row_plain(grid, r);
}

static double folded(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Without the step's gradient no quotient is needed: where the step is a float32 number
 * and codes have at most 16 bits, the borders are exact in double, and x / s >= low
 * after rounding where x >= low s: the difference of the two sides is at least a last
 * place of s, far more than the quotient's rounding. */
static bool has_exact_borders(const qg_learned_grid *g)
{
    return g->method == QG_LEARNED_LSQ && (double)(float)g->parameter == g->parameter &&
           g->qmin >= -0x1p16 && g->qmax <= 0x1p16;
}

static void lsq_row_mask(const qg_learned_grid *grid, row *r)
{
    const double low = grid->qmin * grid->parameter;
    const double high = grid->qmax * grid->parameter;
    for (size_t i = 0; i < r->n; i++) {
        const double x = (double)r->x[i];
        const float kept = x >= low ? r->g[i] : 0 * r->g[i];
        r->dx[i] = x <= high ? kept : 0 * r->g[i];
    }
}

/* data holds x and g, which the caller checked to be of the layer's size. */
static void channel_backward(const qg_learned_layer *l, size_t c, const float *data[2],
                             const qg_learned_gradients *out)
{
    const qg_learned_grid *grid = &l->grid[c];
    const bool fast = grid->method == QG_LEARNED_LSQ && grid->qmin >= -0x1p51 &&
                      grid->qmax <= 0x1p51 && !out->offset;
    const bool mask =
        out->x && !out->parameter && !out->offset && has_exact_borders(grid);
    row r = { .n = l->inner };
    for (size_t o = 0; o < l->outer; o++) {
        const size_t at = (o * l->channels + c) * l->inner;
        r.x = data[0] + at;
        r.g = data[1] + at;
        r.dx = out->x ? out->x + at : NULL;
        (mask ? lsq_row_mask : fast ? lsq_row_backward : row_backward)(grid, &r);
    }
    if (out->parameter)
        out->parameter[c] = folded(r.parameter) * out->factor;
    if (out->offset)
        out->offset[c] = folded(r.offset) * out->factor;
}

qg_status qg_learned_backward(qg_ctx *ctx, const char *what, const qg_learned_layer *l,
                              const float *x, const float *g,
                              const qg_learned_gradients *out)
{
    QG_TRY(layer_check(ctx, what, l));
    for (size_t c = 0; c < l->channels; c++)
        channel_backward(l, c, (const float *[2]){ x, g }, out);
    return QG_OK;
}

double qg_lsq_factor(size_t n, double qmax)
{
    assert(n > 0 && qmax > 0);
    return 1 / sqrt((double)n * qmax);
}

double qg_lsq_start(const float *x, size_t n, double qmax)
{
    assert(n > 0 && qmax > 0);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    return 2 * (sum / (double)n) / sqrt(qmax);
}
