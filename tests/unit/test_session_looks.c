/* What sessions tell of first samples, whether they fit the grids of inputs and which
 * layer knows their scale, and of options that change nothing. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/quant/backend.h"
#include "engine/quant/tqc.h"
#include "engine/session/first_layer.h"
#include "ops/families.h"
#include "tests/support/records.h"

enum { SAMPLES = 5, SIZE = 4 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
    float value[SAMPLES]; /* of sample k: v, 0, -v, 0 where `half` is set, else all v */
    bool half;
    size_t fetched;
    char warned[512];
} fixture;

static void write_log(void *ud, enum qg_log_level level, const char *text)
{
    fixture *f = ud;
    assert_int_equal(level, QG_LOG_WARNING);
    assert_string_equal(f->warned, ""); /* once */
    (void)snprintf(f->warned, sizeof f->warned, "%s", text);
}

static int open_fixture(void **state)
{
    static fixture f;
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    f.ctx->log = (qg_log){ write_log, &f, QG_LOG_WARNING };
    *state = &f;
    return f.ctx == NULL;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
    return 0;
}

static void parse(fixture *f, const char *text)
{
    const qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_graph_free(f->g);
    f->g = NULL;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &f->g));
    assert_ok(f->ctx, qg_graph_normalize(f->g));
    assert_ok(f->ctx, qg_infer(f->g, NULL, 0));
}

/* --- grids of inputs --- */

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    fixture *f = ud;
    f->fetched++;
    for (size_t i = 0; i < f->g->input.n; i++) {
        qg_tensor *t = QG_NEW(a, qg_tensor);
        *t = f->g->input.at[i]->type;
        QG_TRY(qg_tensor_alloc(ctx, a, t));
        for (int k = 0; k < SIZE && t->dtype == QG_F32; k++)
            t->f32[k] = f->half && k % 2 ? 0
                        : f->half && k   ? -f->value[sample]
                                         : f->value[sample];
        in[i] = t;
    }
    return QG_OK;
}

/* The warning about input x, whose record has this scheme; "": there is none. */
static const char *warned(fixture *f, const qg_scheme *s, int32_t offset, size_t n)
{
    float scale = 0.5f;
    qg_model m = { .ctx = f->ctx };
    qg_tqc *t;
    qg_workload work = { .data = NULL };
    parse(f, "graph { i = input i64[4]; x = input f32[4]; y = Relu(x)\n"
             "z = Neg(i); output y, z }");
    m.graph = f->g;
    assert_ok(f->ctx, qg_quant_new(f->g, NULL, &m.quant));
    assert_ok(f->ctx,
              qg_quant_add(m.quant, qg_graph_value(f->g, "y")->def, false, 0, s, &t));
    assert_ok(f->ctx, qg_tqc_set_param(m.quant, t, 1, &scale, &offset));
    assert_ok(f->ctx, qg_tqc_set_state(m.quant, t, QG_TQC_ACTIVATED));
    qg_api_feed feed = {
        .graph = f->g, .feed = {.n = n, .fetch = fetch, .ud = f}
    };
    f->warned[0] = '\0';
    f->fetched = 0;
    assert_ok(f->ctx, qg_feed_warn_scale(&m, &work, &feed));
    return f->warned;
}

static void set_all(fixture *f, float x)
{
    for (size_t k = 0; k < SAMPLES; k++)
        f->value[k] = x;
}

static const qg_scheme u8 = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                              .bits = 8,
                              .axis = -1,
                              .qmax = 255 };

/* Steps of 0.5: below 1 nothing is told apart, beyond 127.5 nothing is held. */
static void samples_beyond_their_grid_are_told(void **state)
{
    static const struct {
        float x;
        int32_t offset, qmax;
        bool half, warned;
    } row[] = {
        {127.5f,   0,   255, false, false},
        { 127.6f,  0,   255, false, true },
        { -127.6f, 0,   255, false, true },
        { 1,       0,   255, false, false},
        { 0.99f,   0,   255, false, true },
        { -0.99f,  0,   255, false, true },
        { 0,       0,   255, false, false}, /* nothing at all is no other scale */
        { 0.99f,   0,   200, false, true },
        { 0.99f,   0,   199, false, false}, /* a coarse grid */
        { 100,     55,  255, false, false}, /* 255 - 55 is the larger end: 100 */
        { 100.1f,  55,  255, false, true },
        { 100,     200, 255, false, false}, /* 0 - 200 */
        { 100.1f,  200, 255, false, true },
        { 180,     0,   255, true,  false}, /* the root of the mean square: 127.3 */
        { 181,     0,   255, true,  true },
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_scheme s = u8;
        s.qmax = row[i].qmax;
        f->half = row[i].half;
        set_all(f, row[i].x);
        if ((*warned(f, &s, row[i].offset, SAMPLES) != 0) != row[i].warned)
            fail_msg("row %zu: '%s'", i, f->warned);
    }
}

/* Four samples are looked at; one that fits is enough. */
static void first_samples_tell(void **state)
{
    fixture *f = *state;
    set_all(f, 200);
    f->value[1] = 300;
    f->value[4] = 10;
    assert_string_equal(warned(f, &u8, 0, SAMPLES),
                        "data 'arrays': input 'x': values up to 300, where its grid "
                        "has steps of 0.5 up to 128, expected the scale of the samples "
                        "that calibrated");
    assert_int_equal(f->fetched, 4);
    assert_string_not_equal(warned(f, &u8, 0, 3), "");
    assert_int_equal(f->fetched, 3);
    for (size_t k = 0; k < 4; k++) {
        set_all(f, 200);
        f->value[k] = 10;
        assert_string_equal(warned(f, &u8, 0, SAMPLES), "");
    }
}

/* Only grids of one scale say what samples should be like. */
static void other_grids_say_nothing(void **state)
{
    static const unsigned other[] = { QG_FLOATING, QG_DYNAMIC, QG_PER_CHANNEL };
    fixture *f = *state;
    set_all(f, 200);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        qg_scheme s = u8;
        s.policy |= (uint16_t)other[i];
        assert_string_equal(warned(f, &s, 0, SAMPLES), "");
        assert_int_equal(f->fetched, 0);
    }
    qg_model m = { .ctx = f->ctx, .graph = f->g };
    const qg_workload work = { .data = NULL };
    qg_api_feed feed = {
        .graph = f->g, .feed = {.n = 1, .fetch = fetch, .ud = f}
    };
    assert_ok(f->ctx, qg_feed_warn_scale(&m, &work, &feed)); /* not quantized */
    assert_int_equal(f->fetched, 0);
}

/* --- the first layer --- */

/* clang-format off */
static const struct {
    const char *body, *value, *layer;
    bool is_bias;
} layer_row[] = {
    { "c = Conv(x, w); n = BatchNormalization(c, s, s, m, v); output n", "c", "n",
      false },
    { "c = Conv(x, w, b); n = BatchNormalization(c, s, s, m, v); output n", "c", "n",
      false },
    { "n = BatchNormalization(x, s, s, m, v); output n", NULL, NULL, false },
    { "n = BatchNormalization(x, s, s, m, v); c = Conv(x, w, b)\noutput n, c", "c", "c",
      true },
    { "c = Conv(x, w, b); output c", "c", "c", true },
    { "r = Relu(x); c = Conv(r, w, b); output c", NULL, NULL, false },
    { "c = Conv(x, w); output c", NULL, NULL, false },
    { "p = input f32[2]; c = Conv(x, w, p); output c", NULL, NULL, false },
    { "r = Relu(x); d = Conv(r, w, b); c = Conv(x, w, b); output c, d", "c", "c",
      true },
    { "p = input f32[2]; c = Conv(x, w)\nn = BatchNormalization(c, s, s, p, v); "
      "output n",
      NULL, NULL, false },
    { "p = input f32[2]; c = Conv(x, w)\nn = BatchNormalization(c, s, s, m, p); "
      "output n",
      NULL, NULL, false },
};
/* clang-format on */

static void first_layers_are_found(void **state)
{
    static const char norm[] =
        "s = const f32[2] [1.0, 1.0]; m = const f32[2] [3.0, 4.0]\n"
        "v = const f32[2] [5.0, 6.0]; w = const f32[2,2,1,1] fill(1.0)\n"
        "b = const f32[2] [7.0, 8.0]\n";
    fixture *f = *state;
    for (size_t i = 0; i < sizeof layer_row / sizeof *layer_row; i++) {
        parse(f,
              qg_arena_printf(f->ctx->arena, "graph { x = input f32[1,2,3,3]; %s%s }",
                              norm, layer_row[i].body));
        const qg_first_layer d = qg_first_layer_of(f->g);
        const char *name = d.value ? d.value->name : "-";
        if (strcmp(name, layer_row[i].value ? layer_row[i].value : "-") != 0)
            fail_msg("row %zu: %s", i, name);
        if (!d.value)
            continue;
        assert_string_equal(d.expected.layer, layer_row[i].layer);
        assert_int_equal(d.expected.n, 2);
        assert_int_equal(d.expected.bias != NULL, layer_row[i].is_bias);
        assert_int_equal(d.expected.mean != NULL, !layer_row[i].is_bias);
        if (layer_row[i].is_bias) {
            assert_cmp_f64(d.expected.bias[1], ==, 8);
            assert_null(d.expected.variance);
        } else {
            assert_cmp_f64(d.expected.mean[1], ==, 4);
            assert_cmp_f64(d.expected.variance[1], ==, 6);
        }
    }
}

/* --- options without effect --- */

enum { ROOT, LED, FLOAT_IN, INITIAL_IN, RECORDS }; /* y.o0, z.in0, y.in0, y.in1 */

/* A change of the journal: of which record, which field, by whom. */
typedef struct change {
    int record;
    const char *field, *by;
} change;

/* The warning about the option "o" after these changes; z.in0 has 4 bits on the grid of
 * y, which has `bits`. */
static const char *no_effect(fixture *f, qg_rule rule, uint8_t bits, const change *c,
                             size_t n)
{
    qg_backend b = {
        .name = "b", .rule = {.at = &rule, .n = 1}
    };
    qg_quant *q;
    qg_tqc *t[RECORDS];
    const float scale = 0.5f;
    qg_scheme s = u8, four = u8;
    s.bits = bits;
    four.bits = 4;
    parse(f, "graph { x = input f32[4]; u = input f32[4]; y = Add(x, u)\n"
             "z = Relu(y); output z }");
    qg_node *y = qg_graph_value(f->g, "y")->def, *z = qg_graph_value(f->g, "z")->def;
    assert_ok(f->ctx, qg_quant_new(f->g, &b, &q));
    assert_ok(f->ctx, qg_quant_add(q, y, true, 0, &s, &t[ROOT]));
    assert_ok(f->ctx, qg_quant_add(q, z, false, 0, &four, &t[LED]));
    assert_ok(f->ctx, qg_quant_add(q, y, false, 0, &s, &t[FLOAT_IN]));
    assert_ok(f->ctx, qg_quant_add(q, y, false, 1, &s, &t[INITIAL_IN]));
    assert_ok(f->ctx, qg_tqc_set_param(q, t[ROOT], 1, &scale, NULL));
    assert_ok(f->ctx, qg_tqc_set_state(q, t[ROOT], QG_TQC_ACTIVATED));
    assert_ok(f->ctx, qg_tqc_join(q, t[LED], t[ROOT]));
    assert_ok(f->ctx, qg_tqc_set_state(q, t[FLOAT_IN], QG_TQC_FP32));
    for (size_t i = 0; i < n; i++)
        assert_ok(f->ctx, qg_vec_push(f->ctx, q->arena, &q->journal,
                                      ((qg_journal_entry){ .tqc = t[c[i].record]->id,
                                                           .field = c[i].field,
                                                           .by = c[i].by })));
    f->warned[0] = '\0';
    qg_warn_no_effect(q);
    return f->warned;
}

static const qg_rule option = {
    .origin = {.id = "o", .why = "its text", .file = "--set", .line = 3}
};
#define CHANGES(...)                                                                   \
    (const change[]){ __VA_ARGS__ },                                                   \
        sizeof((const change[]){ __VA_ARGS__ }) / sizeof(change)

static void options_without_effect_are_told(void **state)
{
    fixture *f = *state;
    const char *const idle = "quantize: --set:3: 'its text' has no effect: no endpoint "
                             "that it changes is quantized, as ";
    assert_string_equal(
        no_effect(f, option, 8, CHANGES({ LED, "bits", "o" })),
        "quantize: --set:3: bits=4 has no effect at 1 endpoint that others dominate, "
        "as "
        "z.in0, which is on the grid of y.out0 with 8 bits; 'value=y bits=4' sets that "
        "one");
    assert_string_equal(no_effect(f, option, 4, CHANGES({ LED, "bits", "o" })), "");
    assert_string_equal(no_effect(f, option, 8, CHANGES({ LED, "bits", "p" })), "");
    assert_string_equal(no_effect(f, option, 8, CHANGES({ LED, "state", "o" })), "");
    assert_string_equal(
        no_effect(f, option, 8, CHANGES({ LED, "bits", "o" }, { LED, "bits", "p" })),
        ""); /* the last one counts */
    assert_non_null(strstr(no_effect(f, option, 8,
                                     CHANGES({ LED, "bits", "p" }, { LED, "bits", "o" },
                                             { LED, "state", "p" })),
                           "bits=4 has no effect"));
    const char *warning = no_effect(
        f, option, 8, CHANGES({ INITIAL_IN, "bits", "o" }, { FLOAT_IN, "bits", "o" }));
    assert_memory_equal(warning, idle, strlen(idle));
    assert_non_null(strstr(warning, "as y.in1, which is INITIAL; `qg explain` tells"));
    warning = no_effect(f, option, 8,
                        CHANGES({ LED, "state", "o" }, { FLOAT_IN, "bits", "o" }));
    assert_non_null(strstr(warning, "as y.in0, which is FP32; "));
    assert_string_equal(
        no_effect(f, option, 8,
                  CHANGES({ FLOAT_IN, "bits", "o" }, { ROOT, "bits", "o" })),
        ""); /* one of them is quantized */
    qg_rule other = option;
    other.set.fields = QG_SET_STATE; /* float is what it asked for */
    assert_string_equal(no_effect(f, other, 8, CHANGES({ FLOAT_IN, "state", "o" })),
                        "");
    other.set.fields = QG_SET_PLATFORM;
    assert_string_equal(no_effect(f, other, 8, CHANGES({ FLOAT_IN, "state", "o" })),
                        "");
    other = option;
    other.origin.file = "policy.yaml";
    assert_string_equal(no_effect(f, other, 8, CHANGES({ FLOAT_IN, "bits", "o" })), "");
    other.origin.file = NULL;
    assert_string_equal(no_effect(f, other, 8, CHANGES({ LED, "bits", "o" })), "");
}

/* --- clamps that only codes have --- */

/* The warning for records "node.slot=type scale/offset" of a graph; "": none. */
static const char *clamped(fixture *f, const char *body, const char *records,
                           const char *backend)
{
    qg_backend b = { .name = backend };
    qg_model m = { .ctx = f->ctx };
    parse(f, qg_arena_printf(f->ctx->arena, "graph { opset 17; %s }", body));
    m.graph = f->g;
    assert_ok(f->ctx, qg_quant_new(f->g, &b, &m.quant));
    add_records(f->ctx, m.quant, records);
    f->warned[0] = '\0';
    assert_ok(f->ctx, qg_model_warn_clamps(&m, "run"));
    assert_ok(f->ctx, qg_model_warn_clamps(&m, "run")); /* once a model */
    return f->warned;
}

static void clamps_of_codes_alone_are_told(void **state)
{
    static const char conv[] =
        "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(1.0)\n"
        "y = Conv(x, w); output y";
    static const char sum[] = "x = input f32[4]; y = Add(x, x); output y";
    static const char sigmoid[] = "x = input f32[4]; y = Sigmoid(x); output y";
    static const char behind[] =
        "x = input f32[4]; r = Relu(x); y = Add(r, r)\noutput y";
    static const struct {
        const char *body, *records;
        bool warned;
    } row[] = {
        {conv,     "y.o0=u0.5/0",             true },
        { conv,    "y.o0=s0.5/-128",          true },
        { conv,    "y.o0=u0.5/1",             false},
        { conv,    "y.o0=s0.5/0",             false},
        { conv,    "",                        false},
        { sum,     "y.o0=u0.5/0",             true },
        { sum,     "y.i0=u0.5/0 y.o0=u0.5/0", false},
        { sum,     "y.i0=u0.5/3 y.o0=u0.5/0", true },
        { sigmoid, "y.o0=u0.5/0",             false},
        { behind,  "y.o0=u0.5/0",             false},
    };
    static const char imported[] = QG_IMPORTED "x";
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if ((*clamped(f, row[i].body, row[i].records, imported) != 0) != row[i].warned)
            fail_msg("row %zu: '%s'", i, f->warned);
    assert_string_equal(clamped(f, conv, "y.o0=u0.5/0", "own"), "");
    assert_memory_equal(
        clamped(f, conv, "y.o0=u0.5/0", imported),
        "run: 1 output has codes for 0 and more alone, as y.out0: ", 55);
    assert_memory_equal(
        clamped(f, "x = input f32[4]; y = Add(x, x); z = Sub(x, y); output z",
                "y.o0=u0.5/3 z.o0=u0.5/0", imported),
        "run: 1 output has codes for 0 and more alone, as z.out0: ", 55);
    assert_memory_equal(
        clamped(f, "x = input f32[4]; y = Add(x, x); z = Add(x, x); output y, z",
                "y.o0=u0.5/0 z.o0=u0.5/0", imported),
        "run: 2 outputs have codes for 0 and more alone, as y.out0: ", 57);
}

#define WITH_FIXTURE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

QG_TEST_MAIN(WITH_FIXTURE(samples_beyond_their_grid_are_told),
             WITH_FIXTURE(first_samples_tell), WITH_FIXTURE(other_grids_say_nothing),
             WITH_FIXTURE(first_layers_are_found),
             WITH_FIXTURE(options_without_effect_are_told),
             WITH_FIXTURE(clamps_of_codes_alone_are_told))
