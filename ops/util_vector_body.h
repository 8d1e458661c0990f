/* util_vector_body.h -- the loops of util_vector.h.  A file that includes it defines
 * TARGET, the attribute of the instruction set, and REGISTER, floats in one of its
 * vectors, and gets the static row VECTOR_ROW's
 * members.  Private to util_vector_*.c. */
#ifndef QG_OPS_UTIL_VECTOR_BODY_H
#define QG_OPS_UTIL_VECTOR_BODY_H

#include "engine/number/vecmath.h"
#include "ops/util_vector.h"

#define INLINE static inline __attribute__((always_inline))

/* No element depends on another one: x and y are equal or apart. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* log(1 + exp(x)) without overflow. */
INLINE float softplus(float x)
{
    return (x > 0 ? x : x != x ? x : 0) + qg_log1p_f32(qg_exp_f32(-fabsf(x)));
}

/* Comparisons are false for NaN, so NaN stays NaN. */
INLINE float unit(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

enum {
    LANES = 16,   /* of a maximum or sum along a row */
    COLUMNS = 64, /* runs that are computed side by side */
    SHORT = 16,   /* runs of fewer elements are turned into columns */
    GROUP = 2048  /* elements that stay in the first cache between two loops */
};

/* Whether qg_exp_near_f32 takes x and -x for all n elements; no NaN among them. */
INLINE bool all_near(const float *x, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = qg_float_bits(x[i]) & 0x7fffffffu;
        most = u > most ? u : most;
    }
    return most <= qg_float_bits(QG_EXP_NEAR);
}

/* clang-format off */
#define X(id, f)                                                                       \
    TARGET static void map_##id(const float *in, float *out, size_t n, float a,        \
                                float b)                                               \
    {                                                                                  \
        (void)a, (void)b;                                                              \
        INDEPENDENT                                                                    \
        for (size_t i = 0; i < n; i++) {                                               \
            const float x = in[i];                                                     \
            out[i] = f;                                                                \
        }                                                                              \
    }
QG_MAP_DIRECT_F32(X)
#undef X

/* Block by block: the short loop where all elements allow it. */
#define X(id, wide_f, near_f)                                                          \
    TARGET static void map_##id(const float *in, float *out, size_t n, float a,        \
                                float b)                                               \
    {                                                                                  \
        (void)a, (void)b;                                                              \
        for (size_t at = 0; at < n; at += GROUP) {                                     \
            const size_t end = n - at < GROUP ? n : at + GROUP;                        \
            if (all_near(in + at, end - at)) {                                         \
                INDEPENDENT                                                            \
                for (size_t i = at; i < end; i++) {                                    \
                    const float x = in[i];                                             \
                    out[i] = near_f;                                                   \
                }                                                                      \
                continue;                                                              \
            }                                                                          \
            INDEPENDENT                                                                \
            for (size_t i = at; i < end; i++) {                                        \
                const float x = in[i];                                                 \
                out[i] = wide_f;                                                       \
            }                                                                          \
        }                                                                              \
    }
X(EXP, qg_exp_f32(x), qg_exp_near_f32(x))
X(SIGMOID, qg_sigmoid_f32(x), qg_sigmoid_near_f32(x))
X(SILU, x * qg_sigmoid_f32(x), x * qg_sigmoid_near_f32(x))
#undef X

#define LOOP(of_a, of_b, f)                                                            \
    INDEPENDENT                                                                        \
    for (size_t i = 0; i < n; i++) {                                                   \
        const float x = of_a, z = of_b;                                                \
        y[i] = f;                                                                      \
    }
#define X(id, f)                                                                       \
    TARGET static void pair_##id(const float *a, int64_t sa, const float *b,           \
                                 int64_t sb, float *y, size_t n)                       \
    {                                                                                  \
        const float a0 = n ? a[0] : 0, b0 = n ? b[0] : 0;                              \
        if (sa && sb) {                                                                \
            LOOP(a[i], b[i], f)                                                        \
        } else if (sa) {                                                               \
            LOOP(a[i], b0, f)                                                          \
        } else if (sb) {                                                               \
            LOOP(a0, b[i], f)                                                          \
        } else {                                                                       \
            LOOP(a0, b0, f)                                                            \
        }                                                                              \
    }
QG_PAIR_F32(X)
#undef X
#undef LOOP
/* clang-format on */

TARGET static void add_clamped(const float *a, const float *b, float *y, size_t n,
                               float low, float high)
{
    INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float v = a[i] + b[i];
        v = v < low ? low : v;
        y[i] = v > high ? high : v;
    }
}

TARGET static void channel_norm(const qg_channel_norm *s, const float *x, float *y,
                                int64_t n)
{
    const float *mean = s->mean, *factor = s->factor, *bias = s->bias;
    const float low = s->low, high = s->high;
    for (int64_t at = 0; at < n; at += s->period) {
        const int64_t some = n - at < s->period ? n - at : s->period;
        INDEPENDENT
        for (int64_t i = 0; i < some; i++) {
            float v = (x[at + i] - mean[i]) * factor[i] + bias[i];
            v = v < low ? low : v;
            y[at + i] = v > high ? high : v;
        }
    }
}

/* w <= COLUMNS runs side by side, elements of a run `step` apart. */
INLINE void softmax_columns(const qg_softmax_shape *s, int64_t step, int64_t w,
                            const float *x, float *y)
{
    float m[COLUMNS], by[COLUMNS];
    double sum[COLUMNS];
    for (int64_t j = 0; j < w; j++) {
        m[j] = x[j];
        sum[j] = 0;
    }
    for (int64_t i = 1; i < s->n; i++)
        for (int64_t j = 0; j < w; j++)
            m[j] = x[i * step + j] > m[j] ? x[i * step + j] : m[j];
    for (int64_t i = 0; i < s->n; i++) {
        INDEPENDENT
        for (int64_t j = 0; j < w; j++) {
            float e = qg_exp_f32(x[i * step + j] - m[j]);
            y[i * step + j] = s->log ? x[i * step + j] : e;
            sum[j] += (double)e;
        }
    }
    for (int64_t j = 0; j < w; j++)
        by[j] = s->log ? qg_log_f32((float)sum[j]) : (float)(1 / sum[j]);
    for (int64_t i = 0; i < s->n; i++) {
        const float *from = x + i * step;
        float *to = y + i * step;
        INDEPENDENT
        for (int64_t j = 0; j < w; j++)
            to[j] = s->log ? from[j] - m[j] - by[j] : to[j] * by[j];
    }
}

/* n >= LANES.  Exact in any order, but for NaN, which the sum finds again: four chains
 * hide the latency of a comparison. */
INLINE float row_max(const float *x, int64_t n)
{
    float lane[4][LANES];
    int64_t i = 0;
    for (int c = 0; c < 4; c++)
        for (int j = 0; j < LANES; j++)
            lane[c][j] = x[j];
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int c = 0; c < 4; c++)
            for (int j = 0; j < LANES; j++)
                lane[c][j] = x[i + c * LANES + j] > lane[c][j] ? x[i + c * LANES + j]
                                                               : lane[c][j];
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[0][j] = x[i + j] > lane[0][j] ? x[i + j] : lane[0][j];
    for (int j = 0; i < n; i++, j++)
        lane[0][j] = x[i] > lane[0][j] ? x[i] : lane[0][j];
    for (int c = 1; c < 4; c++)
        for (int j = 0; j < LANES; j++)
            lane[0][j] = lane[c][j] > lane[0][j] ? lane[c][j] : lane[0][j];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[0][j] =
                lane[0][j + half] > lane[0][j] ? lane[0][j + half] : lane[0][j];
    return lane[0][0];
}

/* Of x, or of its exponentials.
 * Lane j adds elements j, j + LANES, ...; lanes are added pairwise: the order is
 * fixed. */
INLINE double row_sum(bool exps, const float *x, int64_t n)
{
    double lane[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)(exps ? qg_exp_f32(x[i + j]) : x[i + j]);
    for (int j = 0; i < n; i++, j++)
        lane[j] += (double)(exps ? qg_exp_f32(x[i]) : x[i]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* Alone, so that the lanes stay in registers. */
TARGET static __attribute__((noinline)) double sum(const float *x, int64_t n)
{
    return row_sum(false, x, n);
}

/* As row_sum. */
TARGET static double squares(const float *x, int64_t n, double mean)
{
    double lane[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += ((double)x[i + j] - mean) * ((double)x[i + j] - mean);
    for (int j = 0; i < n; i++, j++)
        lane[j] += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

TARGET static void add_scaled(float a, const float *x, float *y, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* With constant flags, so that the loop has no branch. */
INLINE void standardize_row(const qg_standard *s, bool scaled, bool biased,
                            const float *x, float *y, int64_t n)
{
    const float mean = s->mean, factor = s->factor, *scale = s->scale, *bias = s->bias;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float v = (x[i] - mean) * factor;
        v = scaled ? v * scale[i] : v;
        y[i] = biased ? v + bias[i] : v;
    }
}

TARGET static void standardize(const qg_standard *s, const float *x, float *y,
                               int64_t n)
{
    if (s->scale && s->bias)
        standardize_row(s, true, true, x, y, n);
    else if (s->scale)
        standardize_row(s, true, false, x, y, n);
    else
        standardize_row(s, false, s->bias != NULL, x, y, n);
}

/* Some runs of n >= LANES neighbours; exp goes over all of them at once. */
INLINE void softmax_rows(const qg_softmax_shape *s, int64_t rows, const float *x,
                         float *y)
{
    const int64_t n = s->n, all = rows * n;
    for (int64_t at = 0; at < all; at += n) {
        const float m = row_max(x + at, n);
        INDEPENDENT
        for (int64_t i = at; i < at + n; i++)
            y[i] = x[i] - m;
    }
    if (!s->log)
        map_EXP(y, y, (size_t)all, 0, 0);
    for (int64_t at = 0; at < all; at += n) {
        const double total = s->log ? row_sum(true, y + at, n) : sum(y + at, n);
        const float by = s->log ? qg_log_f32((float)total) : (float)(1 / total);
        INDEPENDENT
        for (int64_t i = at; i < at + n; i++)
            y[i] = s->log ? y[i] - by : y[i] * by;
    }
}

/* w <= COLUMNS runs of n < SHORT neighbours, as columns. */
INLINE void softmax_short(const qg_softmax_shape *s, int64_t w, const float *x,
                          float *y)
{
    float from[SHORT * COLUMNS], to[SHORT * COLUMNS];
    for (int64_t j = 0; j < w; j++)
        for (int64_t i = 0; i < s->n; i++)
            from[i * COLUMNS + j] = x[j * s->n + i];
    softmax_columns(s, COLUMNS, w, from, to);
    for (int64_t j = 0; j < w; j++)
        for (int64_t i = 0; i < s->n; i++)
            y[j * s->n + i] = to[i * COLUMNS + j];
}

/* The rest, at most one block. */
INLINE int64_t block_width(int64_t at, int64_t end, int64_t most)
{
    return end - at < most ? end - at : most;
}

/* By shape: few neighbours as columns, many as rows, strided runs side by side. */
TARGET static void softmax(const qg_softmax_shape *s, const float *x, float *y)
{
    const int64_t slab = s->n * s->inner, rows = s->n < GROUP ? GROUP / s->n : 1;
    if (s->inner == 1 && s->n < SHORT)
        for (int64_t o = 0; o < s->outer; o += COLUMNS)
            softmax_short(s, block_width(o, s->outer, COLUMNS), x + o * slab,
                          y + o * slab);
    else if (s->inner == 1)
        for (int64_t o = 0; o < s->outer; o += rows)
            softmax_rows(s, block_width(o, s->outer, rows), x + o * slab, y + o * slab);
    else
        for (int64_t o = 0; o < s->outer; o++)
            for (int64_t j = 0; j < s->inner; j += COLUMNS)
                softmax_columns(s, s->inner, block_width(j, s->inner, COLUMNS),
                                x + o * slab + j, y + o * slab + j);
}

/* In vectors of one register: a wider one does not stay in several. */
typedef float vector
    __attribute__((vector_size(REGISTER * sizeof(float)), aligned(4), may_alias));

/* A panel's sums of one row take VECTORS registers, those of TILES tiles eight. */
enum { VECTORS = QG_PANEL / REGISTER, TILES = 8 / VECTORS };

/* Elements from one tile to the next. */
typedef struct tile_steps {
    int64_t x, w, y;
} tile_steps;

/* TILES tiles of one row by one panel: of as many rows (step.x) or panels (step.w) as
 * there are tiles. */
INLINE void product_tiles(int64_t k, tile_steps step, const float *x, const float *w,
                          float *y)
{
    vector sum[TILES][VECTORS] = { 0 };
    for (int64_t i = 0; i < k; i++)
        for (int t = 0; t < TILES; t++)
            for (int h = 0; h < VECTORS; h++)
                sum[t][h] +=
                    x[t * step.x + i] *
                    *(const vector *)(w + t * step.w + i * QG_PANEL + h * REGISTER);
    for (int t = 0; t < TILES; t++)
        for (int h = 0; h < VECTORS; h++)
            *(vector *)(y + t * step.y + h * REGISTER) = sum[t][h];
}

/* One row by one panel. */
INLINE void product_tile(int64_t k, const float *x, const float *w, float *y)
{
    vector sum[VECTORS] = { 0 };
    for (int64_t i = 0; i < k; i++)
        for (int h = 0; h < VECTORS; h++)
            sum[h] += x[i] * *(const vector *)(w + i * QG_PANEL + h * REGISTER);
    for (int h = 0; h < VECTORS; h++)
        *(vector *)(y + h * REGISTER) = sum[h];
}

/* Panels are the outer loop while there are several rows, since they are larger. */
TARGET static void product(const qg_panels *w, int64_t rows, const float *x, float *y)
{
    const int64_t k = w->k, panel = k * QG_PANEL, few = rows % TILES, many = rows - few;
    for (int64_t j = 0; j < w->n; j += QG_PANEL)
        for (int64_t r = 0; r < many; r += TILES)
            product_tiles(k, (tile_steps){ k, 0, w->n }, x + r * k, w->at + j * k,
                          y + r * w->n + j);
    for (int64_t r = many; r < rows; r++) {
        int64_t j = 0;
        for (; j + TILES * QG_PANEL <= w->n; j += TILES * QG_PANEL)
            product_tiles(k, (tile_steps){ 0, panel, QG_PANEL }, x + r * k,
                          w->at + j * k, y + r * w->n + j);
        for (; j < w->n; j += QG_PANEL)
            product_tile(k, x + r * k, w->at + j * k, y + r * w->n + j);
    }
}

/* Sums of 64 columns, or 32 in short registers, at once. */
TARGET static void strip(int64_t n, int64_t k, const float *w, const float *x, float *y)
{
    enum { PARTS = REGISTER == 16 ? 4 : 8 };
    for (int64_t j = 0; j < n; j++)
        for (int64_t at = 0; at < QG_STRIP; at += PARTS * REGISTER) {
            vector sum[PARTS] = { 0 };
            for (int64_t i = 0; i < k; i++)
                for (int p = 0; p < PARTS; p++)
                    sum[p] += w[j * k + i] *
                              *(const vector *)(x + i * QG_STRIP + at + p * REGISTER);
            for (int p = 0; p < PARTS; p++)
                *(vector *)(y + j * QG_STRIP + at + p * REGISTER) = sum[p];
        }
}

/* LANES elements. */
enum { REGISTERS = LANES / REGISTER };

/* `rows` products; a constant. */
TARGET INLINE void dot_rows(const float *x, const float *y, const int64_t *at, int rows,
                            int64_t n, float *sum)
{
    enum { MOST = 4 };
    vector part[MOST][REGISTERS] = { 0 };
    float lane[LANES];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int r = 0; r < REGISTERS; r++) {
            const vector v = *(const vector *)(x + i + r * REGISTER);
            for (int t = 0; t < rows; t++)
                part[t][r] += v * *(const vector *)(y + at[t] + i + r * REGISTER);
        }
    for (int t = 0; t < rows; t++) {
        for (int r = 0; r < REGISTERS; r++)
            *(vector *)(lane + r * REGISTER) = part[t][r];
        for (int64_t j = i; j < n; j++)
            lane[j - i] += x[j] * y[at[t] + j];
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] += lane[j + half];
        sum[t] += lane[0];
    }
}

TARGET static void dots(const float *x, const float *y, const int64_t *at, int n_at,
                        int64_t n, float *sum)
{
    int t = 0;
    for (; t + 4 <= n_at; t += 4)
        dot_rows(x, y, at + t, 4, n, sum + t);
    for (; t < n_at; t++)
        dot_rows(x, y, at + t, 1, n, sum + t);
}

typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef double eight_sums __attribute__((vector_size(64)));

/* Columns j .. j + PARTS * 8: every sum is in a register. */
INLINE void column_block(int64_t rows, int64_t step, const float *x, float *y)
{
    enum { PARTS = 4 };
    eight_sums sum[PARTS] = { 0 };
    for (int64_t i = 0; i < rows; i++)
        for (int p = 0; p < PARTS; p++)
            sum[p] += __builtin_convertvector(*(const eight *)(x + i * step + p * 8),
                                              eight_sums);
    for (int p = 0; p < PARTS; p++)
        for (int c = 0; c < 8; c++)
            y[p * 8 + c] = (float)(sum[p][c] / (double)rows);
}

TARGET static void column_means(int64_t rows, int64_t n, int64_t step, const float *x,
                                float *y)
{
    int64_t j = 0;
    for (; j + 32 <= n; j += 32)
        column_block(rows, step, x + j, y + j);
    for (; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += (double)x[i * step + j];
        y[j] = (float)(sum / (double)rows);
    }
}

#define X(id, f)  [QG_MAP_##id] = map_##id,
#define XP(id, f) [QG_PAIR_##id] = pair_##id,
#define ROW(isa)                                                                       \
    {                                                                                  \
        isa, supported, { QG_MAP_F32(X) }, { QG_PAIR_F32(XP) }, add_clamped,           \
            channel_norm, softmax, product, strip, column_means, sum, squares,         \
            add_scaled, dots, standardize                                              \
    }

#endif
