/* What a trace shows of each value (device/seen.h): steps from gaps, kinds and limits
 * of arrays of each form, small elements, means of codes, pairs. */
#include <math.h>
#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/device/seen.h"
#include "tests/support/scratch.h"
#include "tests/support/session.h"

/* --- steps ----------------------------------------------------------------------- */

static double step_of(double *x, size_t n, size_t *levels)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    double step;
    assert_ok(ctx, qg_seen_step(ctx, ctx->arena, x, n, levels, &step));
    qg_ctx_free(ctx);
    return step;
}

/* 1 to n - 1, and `last`, in units of `unit`. */
static double step_with(size_t n, double last, double unit)
{
    static double x[600];
    size_t levels;
    assert_cmp_int(n, <=, 600);
    for (size_t i = 0; i < n; i++)
        x[i] = unit * (i + 1 < n ? (double)(i + 1) : last);
    const double step = step_of(x, n, &levels);
    assert_int_equal(levels, n);
    return step / unit;
}

static bool near(double got, double want) { return fabs(got - want) <= 1e-3 * want; }

/* Fewer than 8 levels tell nothing; up to 15 and above 512 a grid has 2^16 codes, else
 * 2^20, from 0 to the largest. */
static void steps_need_enough_levels(void **state)
{
    static const struct {
        size_t n;
        double last;
        bool found;
    } rows[] = {
        {7,    7,                false},
        { 8,   8,                true },
        { 8,   65535,            true },
        { 8,   65536,            false},
        { 15,  65535,            true },
        { 15,  65536,            false},
        { 16,  65536,            true },
        { 16,  1 << 20,          true },
        { 16,  1.01 * (1 << 20), false},
        { 512, 65536,            true },
        { 513, 65535,            true },
        { 513, 65536,            false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double step = step_with(rows[i].n, rows[i].last, 0.25);
        if (rows[i].found ? !near(step, 1) : step != 0)
            fail_msg("%zu levels to %g: step %g", rows[i].n, rows[i].last, step);
    }
}

/* Within 0.02 of a code, once the step is fitted to all of them. */
static void elements_may_miss_by_little(void **state)
{
    (void)state;
    assert_true(near(step_with(21, 25.019, 1), 1));
    assert_true(near(step_with(21, 24.981, 1), 1));
    assert_cmp_f64(step_with(21, 25.03, 1), ==, 0);
    assert_cmp_f64(step_with(21, 24.97, 1), ==, 0);
}

/* Steps are scales: floats of finite size. */
static void steps_have_the_limits_of_scales(void **state)
{
    const qg_param_limit limit = qg_observer_param_limit(QG_PARAM_STEP);
    (void)state;
    assert_true(near(step_with(16, 16, limit.least * 1.01), 1));
    assert_cmp_f64(step_with(16, 16, limit.least / 2), ==, 0);
    assert_true(near(step_with(16, 16, limit.most / 1.01), 1));
    assert_cmp_f64(step_with(16, 16, limit.most * 2), ==, 0);
}

/* The common divisor of the gaps, 0 included: codes that are all even have twice the
 * step; 6, 10 and 15 have one of 1. */
static void steps_are_what_gaps_have_in_common(void **state)
{
    static const struct {
        double code[12], want;
    } rows[] = {
        {{ 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24 },        2},
        { { 6, 12, 22, 37, 43, 53, 68, 74, 84, 99, 105, 115 },  1},
        { { -6, -12, -22, -37, 6, 12, 22, 37, 10, 15, 30, 60 }, 1},
        { { 9, 18, 27, 36, 45, -9, -18, -27, -36, 6, 12, 24 },  3},
        { { 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 35 },      1},
        { { 1, 1.4142, 1.7321, 2.2361, 2.6458, 3.3166, 3.6056, 4.1231, 4.3589, 4.7958,
            5.3852, 5.5678 },
         0                                                       },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double x[24];
        size_t levels;
        for (size_t k = 0; k < 24; k++) /* each twice, as floats have it */
            x[k] = (double)(float)(0.1 * rows[i].code[k % 12]);
        const double step = step_of(x, 24, &levels);
        assert_int_equal(levels, 12);
        if (fabs(step - 0.1 * rows[i].want) > 1e-7)
            fail_msg("row %zu: step %g", i, step);
    }
}

static void different_elements_come_first(void **state)
{
    double x[10] = { 3, 1, 2, 3, 8, 5, 6, 4, 7, 1 };
    size_t levels;
    (void)state;
    assert_cmp_f64(step_of(x, 10, &levels), ==, 1);
    assert_int_equal(levels, 8);
    for (size_t i = 0; i < 8; i++)
        assert_cmp_f64(x[i], ==, (double)i + 1);
}

/* --- values of a trace ----------------------------------------------------------- */

enum { N = 24, SAMPLES = 2 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_trace *t;
    qg_seen_values o;
    char folder[SCRATCH_PATH], json[2048];
    float x[SAMPLES][N];
    size_t arrays, samples;
} fixture;

static fixture f;

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    qg_tensor *x = QG_NEW(a, qg_tensor);
    (void)ud, (void)ctx;
    *x = f.m.graph->value.at[0]->type;
    x->f32 = f.x[sample];
    in[0] = x;
    return QG_OK;
}

/* Nodes that read x, [1,24], or [1,8,3]. */
static void begin(qg_ctx *ctx, const char *dims, const char *nodes)
{
    char text[1024];
    f = (fixture){ .ctx = ctx, .samples = SAMPLES };
    assert_cmp_int(snprintf(text, sizeof text,
                            "graph {\n x = input f32[%s]\n w = const f32[24,24] "
                            "ramp(-1, 1)\n %s}",
                            dims, nodes),
                   <, sizeof text);
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, text, &f.m);
    qg_rng r = { 4 };
    for (size_t i = 0; i < SAMPLES * (size_t)N; i++)
        f.x[i / N][i % N] = qg_rng_range(&r, -1, 1);
    (void)scratch_path(f.folder, "seen");
    if (qg_is_directory(f.folder)) /* of a test that failed */
        assert_int_equal(scratch_remove(f.folder), 0);
    assert_int_equal(mkdir(f.folder, 0777), 0);
}

/* An array of both samples, as raw bytes; more: further keys. */
static void put(const char *value, const char *type, const char *shape,
                const void *bytes, size_t size, const char *more)
{
    char path[SCRATCH_PATH + 16];
    const size_t used = strlen(f.json);
    (void)snprintf(path, sizeof path, "%s/%zu.bin", f.folder, f.arrays);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, bytes, size));
    (void)snprintf(f.json + used, sizeof f.json - used,
                   "%s{\"value\": \"%s\", \"file\": \"%zu.bin\", \"type\": \"%s\", "
                   "\"shape\": [%s]%s}",
                   f.arrays ? ", " : "", value, f.arrays, type, shape, more);
    f.arrays++;
}

static void put_floats(const char *value, const float x[SAMPLES][N], const char *more)
{
    put(value, "float32", "2, 24", x, SAMPLES * N * sizeof(float), more);
}

static qg_status see(void)
{
    char path[SCRATCH_PATH + 16], text[3000];
    const qg_feed feed = { .n = f.samples, .fetch = fetch };
    (void)snprintf(path, sizeof path, "%s/trace.json", f.folder);
    (void)snprintf(text, sizeof text,
                   "{\"format\": \"quantgraph-trace\", \"version\": 1, \"arrays\": "
                   "[%s]}",
                   f.json);
    assert_ok(f.ctx, qg_file_write(f.ctx, path, text, strlen(text)));
    assert_ok(f.ctx, qg_trace_open(f.ctx, f.folder, &f.t));
    return qg_see_values(&f.m, &feed, f.t, f.ctx->arena, &f.o);
}

static void finish(void)
{
    qg_trace_close(f.t);
    qg_graph_free(f.m.graph);
    assert_int_equal(scratch_remove(f.folder), 0);
}

static const qg_value *named(const char *name)
{
    const qg_value *v = qg_graph_value(f.m.graph, name);
    assert_non_null(v);
    return v;
}

static const qg_seen *seen(const char *name) { return &f.o.at[named(name)->id]; }

static const char PRODUCT[] = "y = MatMul(x, w)\n output y\n";

/* One array of y, whose elements go round through n numbers. */
typedef struct array {
    double code[8];
    size_t n;
    double unit;
    const char *grid;
    qg_seen_kind kind;
    double step, low, high;
    unsigned bits;
    size_t levels;
    uint16_t near[8];
    bool zero_known;
} array;

#define GRID(scale, zero) ", \"grid\": {\"scale\": " scale ", \"zero\": " zero "}"

/* clang-format off */
static const array floats[] = {
    /* The example of the header: 6 channels have each element, whatever the samples. */
    { { 2, 5, 6, -3 }, 4, 0.1, "", QG_SEEN_CODES, 0.1, -3, 6, 3, 4,
      { 0, 0, 6, 6, 0, 6, 6 }, false },
    { { 2, 5, 6 }, 3, 0.1, "", QG_SEEN_UNSURE, 0, 0, 1, 0, 3, { 0 }, false },
    { { 12, 4, 16, 8 }, 4, 0.5, "", QG_SEEN_CODES, 2, 1, 4, 2, 4, /* in steps of 4 */
      { 0, 6, 6, 6, 6 }, false },
    { { 0, 15, 16, 17, -15, -16 }, 6, 1, "", QG_SEEN_CODES, 1, -16, 17, 5, 6,
      { 0 }, false },
    { { 1, 1.41421356, 1.7320508, 2.236068, 2.6457513, 3.3166248, 3.6055513,
        4.1231056 }, 8, 1, "", QG_SEEN_REAL, 0, 1, 4, 0, 8, { 0 }, false },
    /* A grid that is given, and holds all of them, or does not. */
    { { 2, 4, 6, 8 }, 4, 0.1, GRID("0.1", "7"), QG_SEEN_CODES, 0.1, 2, 8, 2, 4, { 0 },
      true },
    { { 2, 4 }, 2, 0.1, GRID("0.1", "0"), QG_SEEN_CODES, 0.1, 2, 4, 1, 2, { 0 }, true },
    { { 2, 4 }, 2, 0.1, GRID("0.3", "0"), QG_SEEN_REAL, 0, 0, 0, 0, 2, { 0 }, false },
    { { 2, 4, 6, 8 }, 4, 0.1, GRID("0.3", "0"), QG_SEEN_CODES, 0.2, 1, 4, 2, 4, { 0 },
      true },
    { { 0 }, 1, 0.1, GRID("0.1", "0"), QG_SEEN_CODES, 0.1, 0, 0, 0, 1, { 0 }, true },
    { { 0, 0, 0 }, 3, 0.1, "", QG_SEEN_UNSURE, 0, 0, 0, 0, 1, { 0 }, false },
    { { 1, 2, 3, INFINITY }, 4, 1, "", QG_SEEN_REAL, 0, 0, 0, 0, 4, { 0 }, false },
    { { -INFINITY, 2, 3, 1 }, 4, 1, GRID("1", "0"), QG_SEEN_REAL, 0, 0, 0, 0, 4, { 0 },
      false },
};

static const array codes[] = {
    { { 2, -5, 6, 3 }, 4, 1, "", QG_SEEN_CODES, 0, -5, 6, 0, 4, { 0 }, false },
    { { 7 }, 1, 1, "", QG_SEEN_CODES, 0, 7, 7, 0, 1, { 0 }, false },
    { { 3, 4, 5, 11 }, 4, 1, GRID("0.5", "3"), QG_SEEN_CODES, 0.5, 0, 8, 1, 4, { 0 },
      true },
};
/* clang-format on */

static void expect(const array *r, int sign)
{
    const qg_seen *v = seen("y");
    assert_ptr_equal(v->value, named("y"));
    assert_int_equal(v->kind, r->kind);
    assert_cmp_f64(fabs(v->step - r->step), <=, 1e-6);
    assert_cmp_f64(v->low, ==, r->low);
    assert_cmp_f64(v->high, ==, r->high);
    assert_int_equal(v->bits, r->bits);
    assert_int_equal(v->levels, r->levels);
    assert_int_equal(v->zero_known, r->zero_known);
    assert_int_equal(v->sign, sign);
    for (size_t k = 0; k < 8; k++)
        assert_int_equal(v->near[k], r->near[k]);
    assert_int_equal(f.o.seen, 1);
    assert_int_equal(seen("x")->kind, QG_SEEN_HIDDEN);
    assert_int_equal(f.o.hidden[v->value->id].kind, QG_SEEN_HIDDEN);
}

static void floats_show_their_grid(void **state)
{
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        const array *r = &floats[i];
        float x[SAMPLES][N];
        begin(*state, "1,24", PRODUCT);
        for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
            x[k / N][k % N] = (float)(r->unit * r->code[k % N % r->n]);
        put_floats("y", x, r->grid);
        assert_ok(f.ctx, see());
        expect(r, 0);
        assert_int_equal(seen("y")->near[15], i == 3 ? 8 : 0);
        finish();
    }
}

static void integers_are_codes(void **state)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const array *r = &codes[i];
        int8_t x[SAMPLES][N];
        begin(*state, "1,24", PRODUCT);
        for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
            x[k / N][k % N] = (int8_t)r->code[k % N % r->n];
        put("y", i == 2 ? "uint8" : "int8", "2, 24", x, sizeof x, r->grid);
        assert_ok(f.ctx, see());
        expect(r, i == 2 ? 1 : -1);
        assert_int_equal(seen("y")->zero, i == 2 ? 3 : 0);
        finish();
    }
}

/* 1 to 8, whose own grid hides that of the device unless it is given; 0.002 more than
 * twice 1025 is half of a step of its last place. */
static void short_floats_show_no_grid(void **state)
{
    static const uint16_t half[8] = { 0x3C00, 0x4000, 0x4200, 0x4400,
                                      0x4500, 0x4600, 0x4700, 0x4800 };
    for (int given = 0; given < 2; given++) {
        uint16_t x[SAMPLES][N];
        begin(*state, "1,24", PRODUCT);
        for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
            x[k / N][k % N] = half[k % 8];
        put("y", "float16", "2, 24", x, sizeof x, given ? GRID("0.9997", "0") : "");
        assert_ok(f.ctx, see());
        assert_int_equal(seen("y")->kind, given ? QG_SEEN_CODES : QG_SEEN_UNSURE);
        assert_cmp_f64(fabs(seen("y")->step - (given ? 0.9997 : 0)), <, 1e-6);
        assert_int_equal(seen("y")->levels, 8);
        finish();
    }
}

/* Different elements of all samples: four of each. */
static void samples_add_up(void **state)
{
    float x[SAMPLES][N];
    begin(*state, "1,24", PRODUCT);
    for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
        x[k / N][k % N] = (float)(k % 4 + 1 + 4 * (k / N));
    put_floats("y", x, "");
    assert_ok(f.ctx, see());
    assert_int_equal(seen("y")->levels, 8);
    assert_cmp_f64(seen("y")->high, ==, 8);
    assert_int_equal(seen("y")->near[8], 6);
    finish();
}

/* Elements on a grid of steps of 1, in each of 24 channels the same. */
static void put_steps(const char *value)
{
    float x[SAMPLES][N];
    for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
        x[k / N][k % N] = (float)(k % 5 + 1);
    put_floats(value, x, "");
}

#define SEVEN                                                                          \
    "b = Neg(a)\n c = Neg(b)\n d = Neg(c)\n e = Neg(d)\n f = Neg(e)\n"                 \
    " g = Neg(f)\n h = Neg(g)\n"

/* Up to eight nodes between a product and a value; none that a trace shows as codes. */
static void small_elements_of_products_are_counted(void **state)
{
    /* clang-format off */
    static const struct {
        const char *nodes;
        bool counted;
        const char *shown;
    } rows[] = {
        { "a = MatMul(x, w)\n y = Neg(a)\n output y\n", true, NULL },
        { "a = MatMul(x, w)\n y = Neg(a)\n output y\n", false, "a" },
        { "y = Neg(x)\n output y\n", false, NULL },
        { "p = Neg(x)\n a = MatMul(x, w)\n y = Add(p, a)\n output y\n", true, NULL },
        { "a = MatMul(x, w)\n" SEVEN "y = Neg(h)\n output y\n", true, NULL },
        { "a = MatMul(x, w)\n" SEVEN "i = Neg(h)\n y = Neg(i)\n output y\n", false,
          NULL },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(*state, "1,24", rows[i].nodes);
        put_steps("y");
        if (rows[i].shown)
            put_steps(rows[i].shown);
        assert_ok(f.ctx, see());
        assert_int_equal(seen("y")->kind, QG_SEEN_CODES);
        if ((seen("y")->near[1] > 0) != rows[i].counted)
            fail_msg("row %zu: %d small elements", i, seen("y")->near[1]);
        finish();
    }
}

/* Of a map, [1,8,3]: channels are along axis 1, and an element counts once in each. */
static void channels_of_maps(void **state)
{
    float x[SAMPLES][N];
    begin(*state, "1,8,3",
          "k = const f32[8,8,1] ramp(-1, 1)\n y = Conv(x, k)\n output y\n");
    for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
        x[k / N][k % N] = (float)(k % N < 6 ? 1 : k % 4 + 2);
    put("y", "float32", "2, 8, 3", x, sizeof x, "");
    assert_ok(f.ctx, see());
    assert_int_equal(seen("y")->near[1], 2);
    finish();
}

/* The mean of three codes, in steps of a third, which more than 2^16 of them hide. */
static void means_of_codes_are_on_a_part(void **state)
{
    for (int off = 0; off < 2; off++) {
        float q[SAMPLES][N], r[SAMPLES][8];
        begin(*state, "1,8,3", "q = Neg(x)\n r = GlobalAveragePool(q)\n output q, r\n");
        for (size_t k = 0; k < SAMPLES * (size_t)N; k++)
            q[k / N][k % N] = (float)(0.5 * (double)(k * k * 97 % 50021 + k));
        for (size_t k = 0; k < SAMPLES * (size_t)8; k++) {
            const float *of = &q[k / 8][k % 8 * 3];
            r[k / 8][k % 8] = (of[0] + of[1] + of[2]) / 3;
        }
        for (size_t k = 8; k < 16; k++)
            r[1][k - 8] = r[0][k - 8];
        r[0][3] += off ? 0.08f : 0;
        r[1][3] = r[0][3];
        put("q", "float32", "2, 8, 3", q, sizeof q, "");
        put("r", "float32", "2, 8, 1", r, sizeof r, "");
        assert_ok(f.ctx, see());
        assert_int_equal(seen("q")->kind, QG_SEEN_CODES);
        assert_cmp_f64(fabs(seen("q")->step - 0.5), <, 1e-6);
        assert_int_equal(seen("r")->kind, off ? QG_SEEN_REAL : QG_SEEN_CODES);
        if (!off)
            assert_cmp_f64(fabs(seen("r")->step - 0.5 / 3), <, 1e-6);
        finish();
    }
}

/* As many elements: a copy of some of them, too few for so many codes. */
static void copies_of_codes_are_on_their_grid(void **state)
{
    float q[SAMPLES][N], r[SAMPLES][N];
    begin(*state, "1,24", "q = Neg(x)\n r = Relu(q)\n output q, r\n");
    for (size_t k = 0; k < SAMPLES * (size_t)N; k++) {
        q[k / N][k % N] = (float)((double)(k * k * 9973 % 100003) - 50001);
        r[k / N][k % N] = k % N < 9 ? q[0][k % N] : 40000;
    }
    put_floats("q", q, "");
    put_floats("r", r, "");
    assert_ok(f.ctx, see());
    assert_cmp_f64(seen("r")->high - seen("r")->low, >, 65535);
    assert_int_equal(seen("r")->kind, QG_SEEN_CODES);
    assert_cmp_f64(fabs(seen("r")->step - 1), <, 1e-6);
    finish();
}

/* --- pairs ----------------------------------------------------------------------- */

static void negated(float y[SAMPLES][N], bool positive)
{
    for (size_t k = 0; k < SAMPLES * (size_t)N; k++) {
        const float v = -f.x[k / N][k % N];
        y[k / N][k % N] = positive && v < 0 ? 0 : v;
    }
}

/* The result of a fused activation can have the name of the value before it. */
static void a_reader_takes_what_is_its_own(void **state)
{
    for (int fused = 0; fused < 2; fused++) {
        float y[SAMPLES][N];
        begin(*state, "1,24", "a = Neg(x)\n b = Relu(a)\n output b\n");
        negated(y, fused);
        put_floats("a", y, "");
        assert_ok(f.ctx, see());
        assert_int_equal(f.o.pair[named("a")->id].array != NULL, !fused);
        assert_int_equal(f.o.pair[named("b")->id].array != NULL, fused);
        assert_int_equal(f.o.compared, 1);
        assert_int_equal(f.o.alike, 1);
        finish();
    }
}

/* By the endpoint where the elements are the value's; else by what they correlate with,
 * or not at all. */
static void unknown_names(void **state)
{
    static const struct {
        const char *more;
        bool own;
        const char *how;
        size_t by_endpoint, unpaired;
    } rows[] = {
        {", \"endpoint\": \"a.out0\"",  true,  "endpoint",    1, 0},
        { ", \"endpoint\": \"a.out0\"", false, NULL,          0, 1},
        { "",                           true,  "correlation", 0, 0},
        { "",                           false, NULL,          0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float y[SAMPLES][N];
        begin(*state, "1,24", "a = Neg(x)\n b = MatMul(x, w)\n output a, b\n");
        negated(y, false);
        for (size_t k = 0; !rows[i].own && k < SAMPLES * (size_t)N; k++)
            y[k / N][k % N] = (float)((k * 7 + k / 5 * 3) % 11) - 5;
        put_floats("nobody", y, rows[i].more);
        put_steps("b");
        assert_ok(f.ctx, see());
        const qg_pair *p = &f.o.pair[named("a")->id];
        assert_int_equal(p->array != NULL, rows[i].how != NULL);
        if (rows[i].how)
            assert_string_equal(p->how, rows[i].how);
        assert_int_equal(f.o.by_endpoint.n, rows[i].by_endpoint);
        assert_int_equal(f.o.unpaired.n, rows[i].unpaired);
        finish();
    }
}

static void refusals(void **state)
{
    float y[SAMPLES][N];
    begin(*state, "1,24", PRODUCT);
    negated(y, false);
    put_floats("nobody", y, "");
    assert_fails(f.ctx, see(), QG_EDATA,
                 "no array is a value of the network, expected names of values or "
                 "endpoints (docs/trace.md)");
    finish();
    begin(*state, "1,24", PRODUCT);
    put("y", "float32", "2, 12", y, sizeof y / 2, "");
    assert_fails(f.ctx, see(), QG_EDATA, "y");
    finish();
    begin(*state, "1,24", PRODUCT);
    put("y", "float32", "1, 24", y, sizeof y / 2, "");
    assert_fails(f.ctx, see(), QG_EDATA, "sample");
    finish();
    begin(*state, "1,24", PRODUCT);
    y[1][5] = NAN;
    put_floats("y", y, "");
    assert_fails(f.ctx, see(), QG_EDATA,
                 "array 'y': element 5 of sample 1 is nan, expected a number");
    finish();
}

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(qg_seen_name(QG_SEEN_HIDDEN), "hidden");
    assert_string_equal(qg_seen_name(QG_SEEN_CODES), "codes");
    assert_string_equal(qg_seen_name(QG_SEEN_REAL), "real");
    assert_string_equal(qg_seen_name(QG_SEEN_UNSURE), "unsure");
}

QG_TEST_MAIN(cmocka_unit_test(steps_need_enough_levels),
             cmocka_unit_test(elements_may_miss_by_little),
             cmocka_unit_test(steps_have_the_limits_of_scales),
             cmocka_unit_test(steps_are_what_gaps_have_in_common),
             cmocka_unit_test(different_elements_come_first),
             WITH_CTX(floats_show_their_grid), WITH_CTX(integers_are_codes),
             WITH_CTX(short_floats_show_no_grid), WITH_CTX(samples_add_up),
             WITH_CTX(small_elements_of_products_are_counted),
             WITH_CTX(channels_of_maps), WITH_CTX(means_of_codes_are_on_a_part),
             WITH_CTX(copies_of_codes_are_on_their_grid),
             WITH_CTX(a_reader_takes_what_is_its_own), WITH_CTX(unknown_names),
             WITH_CTX(refusals), cmocka_unit_test(kinds_have_names))
