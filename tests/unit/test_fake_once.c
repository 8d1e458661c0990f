/* qg_linear_hasten: one correction gives the bits of the definition, on every row that
 * the CPU has and for many scales, nearest to where it could fail. */
#include "engine/quant/fake_kernel.h"
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"

enum { SCALES = 400, NEAR = 8, SEED = 17 };

static void assert_defined(const qg_linear *p, const float *x, size_t n,
                           const char *isa)
{
    float y[2 * NEAR + 1];
    qg_fake_linear(p, x, y, n);
    for (size_t i = 0; i < n; i++)
        if (y[i] != qg_linear_define(p, x[i]) || (y[i] == 0 && signbit(y[i])))
            fail_msg("seed %d: %s: scale %a: %a gives %a, expected %a", SEED, isa,
                     (double)p->scale, (double)x[i], (double)y[i],
                     (double)qg_linear_define(p, x[i]));
}

/* The floats around every half, in steps and times scale. */
static void try_halves(const qg_linear *p, const char *isa)
{
    for (float k = p->low - 2; k <= p->high + 1; k++) {
        float x[2 * NEAR + 1], at = (k + 0.5f) * p->scale;
        for (int i = 0; i < NEAR; i++)
            at = nextafterf(at, -INFINITY);
        for (int i = 0; i < 2 * NEAR + 1; i++, at = nextafterf(at, INFINITY))
            x[i] = at;
        assert_defined(p, x, 2 * NEAR + 1, isa);
    }
}

static qg_scheme int8(int rounding)
{
    return (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                        .bits = 8,
                        .axis = -1,
                        .qmin = -128,
                        .qmax = 127,
                        .rounding = (uint8_t)rounding };
}

static void hastened_equals_division(void **state)
{
    size_t n_rows, fast = 0, all = 0;
    const qg_fake_row *const *row = qg_fake_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    for (int i = 0; i < SCALES; i++) {
        qg_scheme s = int8(i % QG_NROUNDING);
        float scale = ldexpf(1 + qg_rng_float(&rng), (int)qg_rng_below(&rng, 40) - 30);
        int32_t offset = (int32_t)qg_rng_below(&rng, 256) - 128;
        for (size_t r = 0; r < n_rows; r++) {
            qg_linear p;
            if (!row[r]->supported())
                continue;
            qg_linear_init(&p, &s, scale, offset);
            p.row = row[r];
            if (qg_linear_fusable(&p))
                p.run = row[r]->fused[p.rounding];
            qg_linear_hasten(&p);
            all += qg_linear_fusable(&p);
            fast += p.run == row[r]->once[p.rounding];
            try_halves(&p, row[r]->isa);
        }
    }
    assert_cmp_int(fast * 10, >=, all * 9); /* nearly every scale passes */
}

/* Where the argument does not hold, nothing is switched. */
static void others_stay(void **state)
{
    (void)state;
    qg_linear p;
    qg_scheme wide = int8(QG_ROUND_HALF_EVEN);
    wide.bits = 16;
    wide.qmin = -32768;
    wide.qmax = 32767;
    qg_linear_init(&p, &wide, 0.25f, 0);
    qg_linear_fn *before = p.run;
    qg_linear_hasten(&p);
    assert_ptr_equal(p.run, before);
    qg_scheme small = int8(QG_ROUND_HALF_EVEN);
    qg_linear_init(&p, &small, 0x1p-110f, 0);
    qg_linear_hasten(&p);
    assert_ptr_equal(p.run, p.row->divided[QG_ROUND_HALF_EVEN]);
}

QG_TEST_MAIN(cmocka_unit_test(hastened_equals_division), cmocka_unit_test(others_stay))
