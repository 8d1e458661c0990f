/* kernel_check.h -- compares every kernel of every row that the CPU supports with the
 * definition, bit for bit (except NaN payloads).  Used by
 * tests/unit/test_fake_kernels.c on the sanitized build and by tests/programs/kernels.c
 * on the optimized one, whose loops are vector code. */
#ifndef QG_TESTS_SUPPORT_KERNEL_CHECK_H
#define QG_TESTS_SUPPORT_KERNEL_CHECK_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/rng.h"
#include "engine/number/format.h"
#include "engine/quant/fake_kernel.h"

enum { CHUNK = 4096, PARAMS = 64 };

typedef struct kernel_check {
    qg_rng rng;
    size_t n;           /* elements of this chunk, odd lengths among them */
    uint64_t compared;  /* kernel results so far */
    uint64_t by_row[8]; /* of each row of the table */
    float x[CHUNK], want[CHUNK], got[CHUNK + 8];
    float scale[CHUNK];
    int32_t offset[CHUNK];
    char failure[256]; /* empty: none yet */
} kernel_check;

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* clang-format off */
static const float check_scales[] = {
    1, 0.1f, 0.0078125f, 0.0123456789f, 3.1415927f, 0x1p-100f, 0x1p100f,
    0x1.fffffep-101f, 0x1.000002p100f, 1e-45f, 1.1e-38f, 0x1.8p-140f, 3e38f, 1e30f,
    1e-30f, 0x1.fffffep-8f,
};
static const struct { uint8_t bits; int64_t qmin, qmax; int32_t offset; }
check_grids[] = {
    { 8, -128, 127, 0 }, { 8, 0, 255, 128 }, { 8, -128, 127, -77 }, { 4, -8, 7, 0 },
    { 2, -1, 1, 0 }, { 8, -127, 127, 0 }, { 16, -32768, 32767, 1234 },
    { 16, 0, 65535, 7 },
    { 22, -2097152, 2097151, 0 }, { 8, 0, 255, 4194304 }, { 23, -4194304, 4194303, 0 },
};
static const struct { uint8_t bits, exponent_bits, variant; int64_t top; }
check_floats[] = {
    { 8, 4, 0, 448 }, { 8, 5, 0, 57344 }, { 8, 4, QG_FLOAT_FNUZ, 240 },
    { 8, 5, QG_FLOAT_FNUZ, 57344 }, { 8, 3, 0, INT64_MAX }, { 4, 2, 0, 6 },
    { 6, 2, 0, 7 }, { 16, 5, 0, 65504 }, { 16, 8, 0, INT64_MAX },
    { 19, 8, 0, INT64_MAX },
};
/* clang-format on */
#define CHECK_COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A bit pattern, a value on the grid's scale, or a tie and its neighbours. */
static inline float check_value(qg_rng *rng, float scale, double top)
{
    uint64_t r = qg_rng_next(rng);
    double u = (double)(r >> 11) * 0x1p-53;
    switch (r & 3) {
    case 0:
    case 1:
        return float_of_bits((uint32_t)(r >> 16));
    case 2:
        return (float)((2 * u - 1) * 1.2 * top * (double)scale);
    default: {
        float tie = (float)((floor((2 * u - 1) * top) + 0.5) * (double)scale);
        return float_of_bits(bits_of_float(tie) + (uint32_t)(r >> 2 & 7) - 3);
    }
    }
}

static inline void check_compare(kernel_check *k, size_t row, const char *kernel,
                                 const char *label)
{
    const char *isa = qg_fake_rows(&(size_t){ 0 })[row]->isa;
    for (size_t i = 0; i < k->n; i++)
        if (bits_of_float(k->got[i]) != bits_of_float(k->want[i]) &&
            !(isnan(k->got[i]) && isnan(k->want[i])) && !k->failure[0])
            snprintf(k->failure, sizeof k->failure,
                     "%s %s: x %a scale %a (%s): %a, expected %a", isa, kernel,
                     (double)k->x[i], (double)k->scale[i], label, (double)k->got[i],
                     (double)k->want[i]);
    for (size_t i = k->n; i < k->n + 8; i++)
        if (k->got[i] != 7 && !k->failure[0])
            snprintf(k->failure, sizeof k->failure, "%s %s writes past the end", isa,
                     kernel);
    k->compared += k->n;
    k->by_row[row] += k->n;
}

/* Out of place for even rows, in place for odd ones. */
static inline const float *check_begin(kernel_check *k, size_t row)
{
    for (size_t i = 0; i < k->n + 8; i++)
        k->got[i] = 7;
    if (row % 2 == 0)
        return k->x;
    memcpy(k->got, k->x, k->n * sizeof *k->got);
    return k->got;
}

/* half-even-level is for grids of few levels (policy.h). */
static inline bool check_legal(const qg_scheme *s)
{
    return s->rounding != QG_ROUND_HALF_EVEN_LEVEL || s->qmax - s->qmin < QG_LEVELS;
}

/* All linear kernels on k->x with one scheme and one scale. */
static inline void check_linear(kernel_check *k, const qg_scheme *s, float scale,
                                int32_t offset)
{
    size_t rows;
    char label[96];
    qg_linear p;
    const qg_fake_row *const *row = qg_fake_rows(&rows);
    if (!check_legal(s))
        return;
    qg_linear_init(&p, s, scale, offset);
    snprintf(label, sizeof label, "%s [%lld, %lld] offset %d nan %s",
             qg_rounding_name(p.rounding), (long long)s->qmin, (long long)s->qmax,
             offset, qg_nan_name((qg_nan)s->nan));
    for (size_t i = 0; i < k->n; i++) {
        k->want[i] = qg_linear_define(&p, k->x[i]);
        k->scale[i] = scale;
        k->offset[i] = offset;
    }
    for (size_t r = 0; r < rows; r++) {
        if (!row[r]->supported())
            continue;
        p.run(&p, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "as chosen", label);
        if (!qg_linear_narrow(s, offset))
            continue;
        row[r]->divided[s->rounding](&p, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "divided", label);
        qg_qparam each = { k->n, k->scale, offset ? k->offset : NULL };
        row[r]->each[s->rounding](&p, &each, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "each", label);
        if (!qg_linear_fusable(&p))
            continue;
        row[r]->fused[s->rounding](&p, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "fused", label);
    }
}

/* The kernel of single parameters, with many. */
static inline void check_each(kernel_check *k, const qg_scheme *s)
{
    size_t rows;
    qg_linear p[PARAMS];
    qg_scheme channel = *s;
    const qg_fake_row *const *row = qg_fake_rows(&rows);
    channel.policy = (uint16_t)((s->policy & ~QG_PER_TENSOR) | QG_PER_CHANNEL);
    for (size_t c = 0; c < PARAMS; c++) {
        float scale = ldexpf(1 + qg_rng_float(&k->rng), (int)(c % 40) - 20);
        int32_t offset = (int32_t)qg_rng_below(&k->rng, 300) - 150;
        qg_linear_init(&p[c], &channel, scale, offset);
        for (size_t i = c; i < k->n; i += PARAMS) {
            k->scale[i] = scale;
            k->offset[i] = offset;
            k->want[i] = qg_linear_define(&p[c], k->x[i]);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        if (!row[r]->supported())
            continue;
        qg_qparam each = { k->n, k->scale, k->offset };
        row[r]->each[s->rounding](&p[0], &each, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "each", qg_rounding_name((qg_rounding)s->rounding));
    }
}

static inline void check_floating(kernel_check *k, size_t format, float scale,
                                  uint8_t nan)
{
    size_t rows;
    char label[64];
    qg_floating p;
    const qg_fake_row *const *row = qg_fake_rows(&rows);
    int64_t top = check_floats[format].top;
    qg_scheme s = { .policy =
                        QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2,
                    .bits = check_floats[format].bits,
                    .axis = -1,
                    .qmin = -top,
                    .exponent_bits = check_floats[format].exponent_bits,
                    .nan = nan,
                    .qmax = top,
                    .variant = check_floats[format].variant };
    qg_floating_init(&p, &s, scale);
    snprintf(label, sizeof label, "%d bits, %d of exponent", s.bits, s.exponent_bits);
    for (size_t i = 0; i < k->n; i++) {
        k->want[i] = qg_floating_define(&p, k->x[i]);
        k->scale[i] = scale;
    }
    for (size_t r = 0; r < rows; r++) {
        if (!row[r]->supported() || !qg_floating_quick(&p))
            continue;
        row[r]->floating(&p, check_begin(k, r), k->got, k->n);
        check_compare(k, r, "floating", label);
    }
}

/* One chunk of values through a scheme that depends on `round`.  False on a failure. */
static inline bool check_chunk(kernel_check *k, uint64_t round)
{
    size_t g = (size_t)(round / QG_NROUNDING % CHECK_COUNT(check_grids));
    float scale = check_scales[qg_rng_below(&k->rng, CHECK_COUNT(check_scales))];
    if (round % 3 == 0)
        scale = ldexpf(1 + qg_rng_float(&k->rng), (int)qg_rng_below(&k->rng, 24) - 12);
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                    .bits = check_grids[g].bits,
                    .rounding = (uint8_t)(round % QG_NROUNDING),
                    .nan = (uint8_t)(round % QG_NNAN),
                    .axis = -1,
                    .qmin = check_grids[g].qmin,
                    .qmax = check_grids[g].qmax };
    k->n = CHUNK - (size_t)qg_rng_below(&k->rng, 40);
    for (size_t i = 0; i < k->n; i++)
        k->x[i] = check_value(&k->rng, scale, (double)s.qmax);
    check_linear(k, &s, scale, check_grids[g].offset);
    if (check_legal(&s) && qg_linear_narrow(&s, 150) && qg_linear_narrow(&s, -150))
        check_each(k, &s);
    check_floating(k, (size_t)(round % CHECK_COUNT(check_floats)),
                   round % 2 ? scale : ldexpf(1, (int)(round / 2 % 20) - 10),
                   (uint8_t)(round % QG_NNAN));
    return !k->failure[0];
}

/* Every float16 value, through every grid, rounding and scale. */
static inline bool check_every_half(kernel_check *k)
{
    for (uint32_t first = 0; first < 65536 && !k->failure[0]; first += CHUNK) {
        k->n = CHUNK;
        for (uint32_t i = 0; i < CHUNK; i++)
            k->x[i] = qg_f16_to_f32((uint16_t)(first + i));
        for (size_t g = 0; g < CHECK_COUNT(check_grids); g++)
            for (uint8_t r = 0; r < QG_NROUNDING; r++) {
                qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                                .bits = check_grids[g].bits,
                                .rounding = r,
                                .nan = (uint8_t)((g + r) % QG_NNAN),
                                .axis = -1,
                                .qmin = check_grids[g].qmin,
                                .qmax = check_grids[g].qmax };
                check_linear(k, &s, check_scales[(g + r) % CHECK_COUNT(check_scales)],
                             check_grids[g].offset);
                check_linear(k, &s, 0.1f, check_grids[g].offset);
            }
        for (size_t f = 0; f < CHECK_COUNT(check_floats); f++) {
            check_floating(k, f, 1, QG_NAN_KEEP);
            check_floating(k, f, 0.3f, QG_NAN_ZERO);
        }
    }
    return !k->failure[0];
}

#endif
