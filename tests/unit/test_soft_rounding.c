/* Up or down of a weight (learn/soft_rounding.h): where it starts, what is stored, and
 * the gradient against differences of the loss. */
#include <math.h>

#include "engine/learn/soft_rounding.h"
#include "tests/support/test.h"

enum { N = 5 };

/* One scale of 0.5, codes -4 to 3; the last weight is beyond them. */
typedef struct fixture {
    qg_tqc root;
    qg_tape_step step;
    qg_tape_weight weight;
    qg_soft_rounding r;
    qg_arena *arena;
    float scale, w[N];
    double v[N];
} fixture;

static int setup(void **state)
{
    static fixture f;
    static const float w[N] = { 0.1f, -0.85f, 1.4f, 0.74f, 2.1f };
    const int64_t n = N;
    f = (fixture){ .scale = 0.5f, .arena = qg_arena_new(qg_alloc_libc) };
    memcpy(f.w, w, sizeof w);
    f.root.up = &f.root;
    f.root.scheme = (qg_scheme){ .qmin = -4, .qmax = 3 };
    f.step = (qg_tape_step){ .root = &f.root, .n = 1, .scale = &f.scale };
    qg_tensor_init(&f.weight.start, QG_F32, 1, &n);
    f.weight.now = f.weight.start;
    f.weight.now.f32 = f.w;
    *state = &f;
    return qg_soft_rounding_of(NULL, f.arena, &f.weight, &f.step, &f.r) != QG_OK;
}

static int teardown(void **state)
{
    qg_arena_free(((fixture *)*state)->arena);
    return 0;
}

static void starts_where_the_weights_are(void **state)
{
    static const double below[N] = { 0, -2, 2, 1, 4 };
    static const float want[N] = { 0.1f, -0.85f, 1.4f, 0.74f, 1.5f };
    fixture *f = *state;
    qg_soft_rounding_start(&f->r, f->v);
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(f->r.below[i], ==, below[i]);
    qg_soft_rounding_store(&f->r, f->v, false);
    for (size_t i = 0; i < N; i++)
        assert_float_equal(f->w[i], want[i], 0.0006);
}

static void ends_on_codes(void **state)
{
    static const double v[N] = { -1, 0, 5, -0.1, 3 };
    static const float want[N] = { 0, -0.5f, 1.5f, 0.5f, 1.5f };
    fixture *f = *state;
    qg_soft_rounding_store(&f->r, v, true);
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(f->w[i], ==, want[i]);
}

/* dL/dw = a w: L = a w^2 / 2, and the penalty as the header has it. */
static double loss(fixture *f, const double *v, size_t i, double part)
{
    const double way = (part - 0.2) / 0.8, a = 3 + (double)i;
    const double h = fmax(0, fmin(1, 1.2 / (1 + exp(-v[i])) - 0.1));
    const double code = fmax(-4, fmin(3, f->r.below[i] + h)), w = 0.5 * code;
    return a * w * w / 2 +
           (part > 0.2
                ? 0.01 * pow(1e6, way) * (1 - pow(fabs(2 * h - 1), 2 + 18 * (1 - way)))
                : 0);
}

static void gradients_are_differences(void **state)
{
    static const double part[] = { 0, 0.1, 0.3, 0.7, 1 };
    static const double start[N] = { 0.3, -1.5, 0.8, 6,
                                     -4 }; /* h of the last: clipped */
    fixture *f = *state;
    for (size_t p = 0; p < sizeof part / sizeof part[0]; p++) {
        double grad[N];
        memcpy(f->v, start, sizeof start);
        qg_soft_rounding_store(&f->r, f->v, false);
        for (size_t i = 0; i < N; i++)
            grad[i] = (3 + (double)i) * (double)f->w[i];
        qg_soft_rounding_gradient(&f->r, part[p], grad);
        for (size_t i = 0; i < N; i++) {
            const double step = 1e-5;
            double up[N], down[N];
            memcpy(up, start, sizeof start);
            memcpy(down, start, sizeof start);
            up[i] += step;
            down[i] -= step;
            const double want =
                (loss(f, up, i, part[p]) - loss(f, down, i, part[p])) / (2 * step);
            assert_float_equal(grad[i], want, 1e-4 + 1e-5 * fabs(want));
        }
        assert_cmp_f64(grad[3], ==, 0);
        assert_cmp_f64(grad[4], ==, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(starts_where_the_weights_are), TEST(ends_on_codes),
             TEST(gradients_are_differences))
