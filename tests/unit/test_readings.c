/* The statistics that observers ask for: one entry for a value and an axis, with all
 * that its readers need; those of a file must be of the same graph. */
#include "tests/support/calibration.h"

#include "engine/calib/readings.h"
#include "engine/ir/edit.h"
#include "engine/ir/text.h"
#include "engine/quant/backend.h"
#include "ops/families.h"

enum {
    TENSOR = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
    CHANNEL = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC
};

static qg_quant *quantized(fixture *f)
{
    static const char text[] =
        "graph { opset 17; x = input f32[1,3,4]; s = input f32[4]\n"
        "y = Relu(x); z = Relu(s); output y, z }";
    const qg_text_source source = { .name = "g",
                                    .text = text,
                                    .size = sizeof text - 1 };
    static qg_backend backend;
    backend = (qg_backend){ .name = "mine" };
    qg_graph *g = NULL;
    qg_quant *q;
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &g));
    assert_ok(f->ctx, qg_graph_normalize(g));
    assert_ok(f->ctx, qg_quant_new(g, NULL, &q));
    q->backend = &backend;
    return q;
}

/* An observer of one scheme. */
typedef struct asking {
    const char *observer;
    uint16_t policy;
    int32_t axis;
} asking;

/* The entry for value v; `expected`: it is new. */
static uint32_t want(fixture *f, qg_readings *r, asking a, const qg_value *v,
                     bool expected)
{
    qg_scheme s = {
        .policy = a.policy, .bits = 8, .axis = a.axis, .qmin = -128, .qmax = 127
    };
    const qg_observe o = { .observer = qg_observer_find(f->ctx, a.observer),
                           .scheme = &s };
    uint32_t entry = 99;
    bool first = !expected;
    assert_ok(f->ctx, qg_readings_want(r, &o, v, &entry, &first));
    assert_int_equal(first, expected);
    return entry;
}

static void readers_share_entries(void **state)
{
    fixture *f = *state;
    qg_quant *q = quantized(f);
    const qg_value *x = qg_graph_value(q->graph, "x"),
                   *s = qg_graph_value(q->graph, "s");
    const unsigned all = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM;
    qg_readings r;
    assert_ok(f->ctx, qg_readings_begin(f->ctx, f->arena, q, NULL, &r));
    assert_int_equal(want(f, &r, (asking){ "minmax", TENSOR, 0 }, x, true), 0);
    assert_int_equal(r.wanted.at[0].holds, 0);
    assert_int_equal(r.wanted.at[0].axis, -1);
    assert_int_equal(want(f, &r, (asking){ "percentile", TENSOR, 0 }, x, false), 0);
    assert_int_equal(r.wanted.at[0].holds, QG_STATS_HISTOGRAM);
    assert_int_equal(want(f, &r, (asking){ "minmax", TENSOR, 0 }, s, true), 1);
    /* sums are along the axis that files have: 1, or none */
    assert_int_equal(want(f, &r, (asking){ "aciq-gauss", TENSOR, 0 }, x, true), 2);
    assert_int_equal(r.wanted.at[2].axis, 1);
    assert_int_equal(r.wanted.at[2].holds, all);
    assert_int_equal(want(f, &r, (asking){ "aciq-gauss", TENSOR, 0 }, s, false), 1);
    assert_int_equal(r.wanted.at[1].holds, all);
    /* channels have histograms of their own */
    assert_int_equal(want(f, &r, (asking){ "minmax", CHANNEL, 1 }, x, false), 2);
    assert_int_equal(r.wanted.at[2].holds, all);
    assert_int_equal(want(f, &r, (asking){ "percentile", CHANNEL, 2 }, x, true), 3);
    assert_int_equal(r.wanted.at[3].axis, 2);
    assert_int_equal(r.wanted.at[3].holds, QG_STATS_HISTOGRAM | QG_STATS_BY_CHANNEL);
    assert_ok(f->ctx, qg_readings_open(&r));
    assert_int_equal(r.own->value.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const qg_stats_value *v = r.wanted.at[i].stats;
        assert_ptr_equal(v, r.own->value.at[i]);
        assert_string_equal(v->name, i == 1 ? "s" : "x");
        assert_int_equal(v->axis, r.wanted.at[i].axis);
        assert_int_equal(v->holds, r.wanted.at[i].holds);
    }
    assert_int_equal(r.own->value.at[2]->channels, 3);
    assert_true(r.collector.finite);
    qg_readings_end(&r);
    assert_null(r.own);
    qg_readings_end(&(qg_readings){ 0 });
    qg_graph_free(q->graph);
}

static void statistics_are_of_the_graph(void **state)
{
    fixture *f = *state;
    qg_quant *q = quantized(f);
    const qg_value *x = qg_graph_value(q->graph, "x"),
                   *s = qg_graph_value(q->graph, "s");
    char print[QG_FINGERPRINT_TEXT];
    qg_stats *given;
    qg_stats_value *v;
    qg_readings r;
    assert_ok(f->ctx, qg_stats_new(f->ctx, &given));
    assert_ok(f->ctx, qg_stats_add_value(given, "x", &x->type, 1, 0, &v));
    given->manifest.graph = "0123456789abcdef";
    assert_fails(f->ctx, qg_readings_begin(f->ctx, f->arena, q, given, &r), QG_EDATA,
                 "calibrate: the statistics are of graph 0123456789abcdef, and backend "
                 "mine calibrates graph ");
    q->backend = NULL;
    assert_fails(f->ctx, qg_readings_begin(f->ctx, f->arena, q, given, &r), QG_EDATA,
                 "and backend  calibrates graph ");
    assert_ok(f->ctx, qg_graph_fingerprint(q->graph, f->arena, print));
    given->manifest.graph = print;
    assert_ok(f->ctx, qg_readings_begin(f->ctx, f->arena, q, given, &r));
    assert_int_equal(want(f, &r, (asking){ "minmax", TENSOR, 0 }, x, true), 0);
    assert_ok(f->ctx, qg_readings_open(&r));
    assert_ptr_equal(r.wanted.at[0].stats, v);
    assert_null(r.own);
    assert_int_equal(want(f, &r, (asking){ "minmax", TENSOR, 0 }, s, true), 1);
    assert_fails(
        f->ctx, qg_readings_open(&r), QG_EDATA,
        "calibrate: no statistics of 's', expected those of every value that is "
        "quantized");
    qg_readings_end(&r);
    qg_stats_free(given);
    qg_graph_free(q->graph);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

QG_TEST_MAIN(T(readers_share_entries), T(statistics_are_of_the_graph))
