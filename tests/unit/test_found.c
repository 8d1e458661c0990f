/* Steps of floats that are not on the program's grid (device/found.c), of one value
 * that the program stores in steps of 0.1: which are given to its array. */
#include <math.h>
#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/device/step.h"
#include "tests/support/scratch.h"
#include "tests/support/session.h"

enum { N = 100, VALUES = 2 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_device d;
    qg_program program;
    qg_stored stored[VALUES];
    qg_pair pair[VALUES];
    uint8_t is_stored[VALUES], known[VALUES];
    float scale, in_scale, x[N];
    int32_t zero, in_zero;
    char folder[SCRATCH_PATH];
} fixture;

static fixture f;

static int setup(void **state)
{
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc), .scale = 0.1f };
    f.ctx->registry = &qg_ops_registry;
    model_of_text(f.ctx, "graph {\n x = input f32[1,100]\n y = Neg(x)\n output y\n}",
                  &f.m);
    f.stored[1] = (qg_stored){ true, QG_I8, 1, &f.scale, &f.zero, 0, -128, 127 };
    f.program = (qg_program){ .from = f.m.graph, .stored = f.stored };
    f.d = (qg_device){ .ctx = f.ctx, .m = &f.m, .arena = f.ctx->arena, .samples = 1 };
    f.d.exe.program = &f.program;
    f.d.pair = f.pair;
    f.d.stored = f.is_stored;
    f.d.known = f.known;
    f.is_stored[1] = 1;
    (void)scratch_path(f.folder, "found");
    if (qg_is_directory(f.folder)) /* of a test that failed */
        assert_int_equal(scratch_remove(f.folder), 0);
    *state = &f;
    return mkdir(f.folder, 0777);
}

static int teardown(void **state)
{
    (void)state;
    qg_graph_free(f.m.graph);
    qg_ctx_free(f.ctx);
    return scratch_remove(f.folder);
}

/* Looks for the grid of y; the array has it afterwards, or not. */
static qg_trace_array found(void)
{
    static const char json[] =
        "{\"format\": \"quantgraph-trace\", \"version\": 1, \"arrays\": [{\"value\": "
        "\"y\", \"file\": \"y.bin\", \"type\": \"float32\", \"shape\": [1, 100]}]}";
    char path[SCRATCH_PATH + 16];
    (void)snprintf(path, sizeof path, "%s/y.bin", f.folder);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, f.x, sizeof f.x));
    (void)snprintf(path, sizeof path, "%s/trace.json", f.folder);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, json, sizeof json - 1));
    assert_ok(f.ctx, qg_trace_open(f.ctx, f.folder, &f.d.trace));
    const qg_value *y = f.m.graph->output.at[0];
    f.pair[1] = (qg_pair){ .how = "name", .confidence = 1, .array = f.d.trace->array };
    assert_true(qg_pair_fits(f.d.trace->array, &y->type, &f.pair[1]));
    assert_ok(f.ctx, qg_device_find_grids(&f.d));
    const qg_trace_array a = f.d.trace->array[0];
    assert_int_equal(a.found, a.grid);
    qg_trace_close(f.d.trace);
    return a;
}

/* Multiples k of a step, k from `first` on. */
static void put(int first, double step)
{
    for (int i = 0; i < N; i++)
        f.x[i] = (float)(step * (first + i));
}

static void expect(double scale, int32_t zero)
{
    const qg_trace_array a = found();
    assert_int_equal(a.found, scale > 0);
    if (a.found && fabs(a.scale / scale - 1) > 1e-5)
        fail_msg("scale %g, expected %g", a.scale, scale);
    if (a.found)
        assert_int_equal(a.zero, zero);
}

/* The program's own, or a multiple of it that says nothing; another one. */
static void steps_of_all_elements(void **state)
{
    (void)state;
    f.zero = 5;
    put(-50, 0.1);
    expect(0.1, 5);
    put(-50, 0.2);
    expect(0, 0);
    put(-50, 0.13);
    expect(0.13, 5);
    assert_false(f.d.unrounded);
}

/* The program's zero point, or the nearest one with which all are codes. */
static void zero_points_hold_all_codes(void **state)
{
    (void)state;
    f.zero = 5;
    put(-140, 0.13);
    expect(0.13, 12);
    put(31, 0.13); /* up to 130 */
    expect(0.13, -3);
    put(-133, 0.13);
    expect(0.13, 5);
}

/* Of 97 that tell (not 0, no end), 9 are less than a tenth and 10 are more. */
static void a_tenth_must_be_off(void **state)
{
    (void)state;
    for (int off = 9; off <= 10; off++) {
        put(-50, 0.1);
        for (int i = 0; i < off; i++)
            f.x[20 + i] += 0.05f;
        const float first = f.x[20]; /* wherever they are */
        f.x[20] = f.x[0];
        f.x[0] = first;
        expect(off == 10 ? 0.05 : 0, 0);
    }
}

/* By more than a hundredth of a step; a step within 1e-5 of the program's is that. */
static void elements_that_are_off(void **state)
{
    (void)state;
    put(-50, 0.1);
    for (int i = 0; i < N; i++)
        f.x[i] += i == 50 ? 0 : 0.0009f; /* but 0 */
    expect(0.1, 0);
    for (int i = 0; i < N; i++)
        f.x[i] += i == 50 ? 0 : 0.0002f;
    expect(0, 0);
    put(-50, 0.1 * (1 + 2e-5)); /* on the program's codes, which it does not show */
    expect(0, 0);
}

static void steps_need_levels(void **state)
{
    (void)state;
    for (int levels = 11; levels <= 12; levels++) {
        for (int i = 0; i < N; i++)
            f.x[i] = (float)(0.13 * (1 + i % levels));
        expect(levels == 12 ? 0.13 : 0, 0);
        for (int i = 0; i < N; i++)
            f.x[i] = (float)(0.1 * (1 + i % levels));
        expect(levels == 12 ? 0.1 : 0, 0);
    }
}

/* More codes than the type has, or no step: not rounded. */
static void floats_that_are_not_rounded(void **state)
{
    qg_rng r = { 9 };
    (void)state;
    for (int codes = 255; codes <= 256; codes++) {
        put(0, 0.13);
        f.x[N - 1] = (float)(0.13 * codes);
        f.zero = -128;
        expect(codes == 255 ? 0.13 : 0, -128);
        assert_int_equal(f.d.unrounded, codes == 256);
    }
    for (int i = 0; i < N; i++)
        f.x[i] = qg_rng_range(&r, -1, 1);
    expect(0, 0);
    assert_true(f.d.unrounded);
    for (int i = 0; i < N; i++)
        f.x[i] += 2; /* none below 0 */
    expect(0, 0);
    assert_true(f.d.unrounded);
    f.x[5] = INFINITY;
    expect(0, 0);
    assert_false(f.d.unrounded);
}

/* A third of the step of the input is what a mean of three has. */
static void parts_of_an_input_are_no_grid(void **state)
{
    (void)state;
    f.stored[0] = (qg_stored){ true, QG_I8, 1, &f.in_scale, &f.in_zero, 0, -128, 127 };
    put(-50, 0.13);
    f.in_scale = 0.39f;
    expect(0, 0);
    f.in_scale = 0.13f;
    expect(0, 0);
    f.in_scale = 0.4f;
    expect(0.13, 0);
    f.in_scale = 0.39f;
    f.stored[0].codes = false;
    expect(0.13, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(steps_of_all_elements), TEST(zero_points_hold_all_codes),
             TEST(a_tenth_must_be_off), TEST(elements_that_are_off),
             TEST(steps_need_levels), TEST(floats_that_are_not_rounded),
             TEST(parts_of_an_input_are_no_grid))
