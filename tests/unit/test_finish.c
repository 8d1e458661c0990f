/* The loops of accel/finish.h against engine/number, bit for bit, for every instruction
 * set that the CPU has. */
#include "tests/support/random_requant.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "engine/accel/finish.h"

/* -- loops ------------------------------------------------------------------------- */

enum { CHANNELS = 37, PLACES = 300 };

/* Small sums, any int32, and those next to a tie of this factor. */
static int32_t any_sum(qg_rng *r, double factor)
{
    if (among(r, 0, 2) == 0)
        return (int32_t)(((double)among(r, -130, 130) + 0.5) / factor +
                         (double)among(r, -1, 1));
    int64_t bits = among(r, 1, 32);
    return (int32_t)(qg_rng_next(r) >> (64 - bits) << among(r, 0, 32 - bits));
}

static void loops_equal_the_definition(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { 7 };
    size_t n_rows, compared = 0, loops = 0;
    const qg_finish_row *const *rows = qg_finish_rows(&n_rows);
    static int32_t acc[PLACES * CHANNELS];
    static uint8_t want[PLACES * CHANNELS], got[PLACES * CHANNELS];
    (void)state;
    assert_non_null(ctx);
    for (int round = 0; round < 120; round++) {
        qg_requant_rule rule = rule_of((size_t)round % N_TUPLES);
        qg_dtype type = round & 1 ? QG_I8 : QG_U8;
        qg_code_range range = qg_code_range_of(type, 0);
        qg_requant r[CHANNELS];
        int32_t bias[CHANNELS];
        range.zero = (int32_t)among(&rng, range.lo, range.hi);
        range.lo += (int32_t)among(&rng, 0, 40);
        for (int c = 0; c < CHANNELS; c++) {
            float x = round % 5 ? scale(&rng) : 0x1p-7f,
                  w = round % 5 ? ldexpf(scale(&rng), -(round % 3) * 4) : 1;
            qg_scales s = { x, w, round % 5 ? 0.13f : 0x1p-3f };
            assert_ok(ctx, qg_requant_prepare(ctx, "test", &rule, s, range, &r[c]));
            bias[c] = (int32_t)among(&rng, -100000, 100000);
        }
        for (int i = 0; i < PLACES * CHANNELS; i++) {
            int32_t sum = any_sum(&rng, r[i % CHANNELS].real);
            acc[i] = (int32_t)((uint32_t)sum - (uint32_t)bias[i % CHANNELS]);
            int32_t code = qg_requant_one(&r[i % CHANNELS], sum);
            want[i] = (uint8_t)code;
        }
        qg_finish_spec spec = {
            .channels = CHANNELS, .r = r, .per_channel = true, .bias = bias, .out = type
        };
        for (size_t k = 0; k < n_rows; k++) {
            qg_finish f;
            if (!rows[k]->supported())
                continue;
            assert_ok(ctx, qg_finish_new(ctx, ctx->arena, rows[k], &spec, &f));
            loops += f.kind != QG_NFINISH;
            if (f.kind != QG_NFINISH)
                assert_ptr_equal(f.run,
                                 (type == QG_U8 ? rows[k]->u8 : rows[k]->i8)[f.kind]);
            f.run(&f, acc, got, PLACES);
            for (int i = 0; i < PLACES * CHANNELS; i++)
                if (got[i] != want[i])
                    fail_msg("round %d, %s, element %d: sum %d + %d: %d, expected %d",
                             round, rows[k]->isa, i, (int)acc[i],
                             (int)bias[i % CHANNELS], got[i], want[i]);
            compared += PLACES * CHANNELS;
        }
    }
    printf("%zu codes compared\n", compared);
    assert_cmp_int(compared, >, 1000000);
    assert_cmp_int(loops, >, 100); /* and not the definition with itself */
    qg_ctx_free(ctx);
}

/* Sums times a factor plus a number, of each channel or of all alike; with a fused
 * step, and where channels differ in their limits, by the definition.  All numbers here
 * are exact, so that the steps do not matter. */
static void sums_become_floats(void **state)
{
    enum { N = 3, ROWS = 5 };
    static const float plus[N] = { 1, -2, 4 };
    static const int32_t bias[N] = { 10, 20, 30 };
    qg_ctx *ctx = *state;
    for (int k = 0; k < 16; k++) {
        const bool fma = k & 1, unlike = k & 2, each = k & 4, bare = k & 8;
        qg_requant r[N] = { { .f = 0.5f }, { .f = 0.25f }, { .f = -2 } };
        int32_t acc[N * ROWS];
        float y[N * ROWS];
        qg_finish f;
        r[2].range.lo = unlike;
        const qg_finish_spec spec = { .channels = N,
                                      .r = r,
                                      .per_channel = each,
                                      .bias = bare ? NULL : bias,
                                      .floats = bare ? NULL : plus,
                                      .out = QG_F32,
                                      .fma = fma };
        for (int i = 0; i < N * ROWS; i++)
            acc[i] = 7 * i - 40;
        assert_ok(ctx, qg_finish_new(ctx, ctx->arena, NULL, &spec, &f));
        assert_int_equal(f.kind,
                         fma || (unlike && each) ? QG_NFINISH : QG_FINISH_FLOATS);
        f.run(&f, acc, y, ROWS);
        for (int i = 0; i < N * ROWS; i++) {
            const float sum = (float)(acc[i] + (bare ? 0 : bias[i % N]));
            assert_cmp_f64(y[i], ==,
                           sum * r[each ? i % N : 0].f + (bare ? 0 : plus[i % N]));
        }
    }
}

static void quantize_loops_equal_the_definition(void **state)
{
    qg_ctx *ctx = *state;
    qg_rng rng = { 3 };
    size_t n_rows;
    const qg_finish_row *const *rows = qg_finish_rows(&n_rows);
    static float x[PLACES];
    int32_t want[PLACES];
    uint8_t got[PLACES];
    for (int round = 0; round < 200; round++) {
        qg_dtype type = round & 1 ? QG_I8 : QG_U8;
        qg_code_range range = qg_code_range_of(type, 0);
        qg_profile_row row = { .form = round & 2 ? QG_FORM_DIVIDE : QG_FORM_RECIPROCAL,
                               .rounding =
                                   round & 4 ? QG_ROUND_HALF_AWAY : QG_ROUND_HALF_EVEN,
                               .nan = (qg_nan)(round % QG_NNAN) };
        range.zero = (int32_t)among(&rng, range.lo, range.hi);
        qg_grid y = { type, round % 3 ? scale(&rng) : 0.5f, range.zero };
        qg_affine_quantizer q;
        assert_ok(ctx, qg_affine_quantizer_prepare(ctx, &row, y, range, &q));
        for (int i = 0; i < PLACES; i++)
            x[i] = (float)among(&rng, -1200, 1200) * y.scale *
                   (i % 2 ? 0.25f : 0.25000003f);
        x[0] = NAN;
        x[1] = INFINITY;
        x[2] = -INFINITY;
        x[3] = 0.49999997f * y.scale;
        qg_affine_quantizer_codes(&q, x, want, PLACES);
        for (size_t k = 0; k < n_rows; k++) {
            if (!rows[k]->supported())
                continue;
            qg_quantize_loop(rows[k], &q, type)(&q, x, got, PLACES);
            for (int i = 0; i < PLACES; i++)
                if (got[i] != (uint8_t)want[i])
                    fail_msg("round %d, %s, %g: %d, expected %d", round, rows[k]->isa,
                             (double)x[i], got[i], (int)want[i]);
        }
    }
}

/* Every code, and every length of a rest. */
static void loops_over_codes_equal_the_definition(void **state)
{
    size_t n_rows;
    const qg_finish_row *const *rows = qg_finish_rows(&n_rows);
    uint8_t table[256], x[512], y[512];
    float real[512];
    (void)state;
    for (int i = 0; i < 512; i++)
        x[i] = (uint8_t)(i * 37);
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i * 91 + 5);
    for (size_t k = 0; k < n_rows; k++) {
        if (!rows[k]->supported())
            continue;
        for (size_t n = 0; n < 512; n++) {
            memset(y, 1, sizeof y);
            rows[k]->look_up(table, x, y, n);
            for (size_t i = 0; i < 512; i++)
                assert_cmp_int(y[i], ==, i < n ? table[x[i]] : 1);
        }
        rows[k]->dequantize_u8(200, 0.3f, x, real, 512);
        for (int i = 0; i < 512; i++)
            assert_cmp_f64((double)real[i], ==, (double)((float)(x[i] - 200) * 0.3f));
        rows[k]->dequantize_i8(-7, 0.3f, x, real, 512);
        for (int i = 0; i < 512; i++)
            assert_cmp_f64((double)real[i], ==,
                           (double)((float)((int8_t)x[i] + 7) * 0.3f));
    }
}

QG_TEST_MAIN(WITH_CTX(sums_become_floats),
             cmocka_unit_test(loops_over_codes_equal_the_definition),
             cmocka_unit_test(loops_equal_the_definition),
             WITH_CTX(quantize_loops_equal_the_definition))
