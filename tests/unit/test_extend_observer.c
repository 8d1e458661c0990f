/* Observers of a host: one like the built-in minmax gives its bits, in every number of
 * workers; passes, order and faults are as calib/observer.h has them. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/quant/endpoint.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"
#include "tests/support/host.h"

static const char *const MODEL = "graph \"g\" {\n"
                                 "  opset 17\n"
                                 "  x = input f32[1,3,8,8]\n"
                                 "  w = const f32[4,3,3,3] ramp(-1, 2)\n"
                                 "  v = const f32[2,4,3,3] seed(7)\n"
                                 "  c = Conv conv(x, w)\n"
                                 "  a = Sigmoid act(c)\n"
                                 "  y = Conv last(a, v)\n"
                                 "  output y\n"
                                 "}\n";

/* Every observer of weights and activations, per channel and per tensor. */
static const char BACKEND[] =
    "name: %s\n"
    "extends: trt-int8\n"
    "defaults: {observer: %s}\n"
    "rules:\n"
    "  - {id: all, match: {slot: [input, output]}, set: {observer: %s}, why: a test, "
    "source: a test}\n"
    "  - {id: weights, match: {slot: weight}, set: {observer: %s, "
    "policy: [per-channel, linear, asymmetric]}, why: a test, source: a test}\n"
    "  - {id: channels, match: {node: last, slot: in0}, set: "
    "{policy: [per-channel, linear, symmetric], axis: 1}, why: a test, source: a "
    "test}\n";

static void add_backend(host *h, const char *name, const char *observer)
{
    char text[1024], path[64];
    (void)snprintf(text, sizeof text, BACKEND, name, observer, observer, observer);
    (void)snprintf(path, sizeof path, "backends/%s.yaml", name);
    assert_ok(h->ctx, qg_add_config(h->ctx, path, text, strlen(text)));
}

/* --- minmax --- */

typedef struct extent {
    float low, high;
} extent;

static void begin(void *ud, void *state)
{
    (void)ud;
    *(extent *)state = (extent){ INFINITY, -INFINITY };
}

static qg_status see(void *ud, qg_ctx *ctx, void *state, const qg_observed *seen)
{
    extent *e = state;
    (void)ud, (void)ctx;
    for (size_t i = 0; i < seen->n; i++) {
        e->low = fminf(e->low, seen->x[i]);
        e->high = fmaxf(e->high, seen->x[i]);
    }
    return QG_OK;
}

static void merge(void *ud, void *into, const void *from)
{
    extent *e = into;
    const extent *f = from;
    (void)ud;
    e->low = fminf(e->low, f->low);
    e->high = fmaxf(e->high, f->high);
}

static qg_status finish(void *ud, qg_ctx *ctx, const void *state,
                        const qg_scheme *scheme, double *low, double *high)
{
    const extent *e = state;
    (void)ud, (void)ctx, (void)scheme;
    *low = e->low;
    *high = e->high;
    return QG_OK;
}

static qg_host_observer extremes(void)
{
    qg_host_observer o;
    qg_host_observer_init(&o, sizeof o);
    o.name = "extremes";
    o.summary = "smallest and largest element";
    o.state = sizeof(extent);
    o.per_channel = true;
    o.begin = begin;
    o.see = see;
    o.merge = merge;
    o.finish = finish;
    return o;
}

/* Compares every scale and offset. */
static void assert_same_params(const qg_model *a, const qg_model *b)
{
    size_t channels = 0;
    assert_int_equal(a->quant->tqc.n, b->quant->tqc.n);
    for (size_t i = 0; i < a->quant->tqc.n; i++) {
        qg_qparam p = qg_tqc_param(a->quant->tqc.at[i]);
        qg_qparam q = qg_tqc_param(b->quant->tqc.at[i]);
        assert_int_equal(p.n, q.n);
        if (p.n) {
            assert_memory_equal(p.scale, q.scale, p.n * sizeof *p.scale);
            assert_memory_equal(p.offset, q.offset, p.n * sizeof *p.offset);
        }
        channels += p.n > 1;
    }
    assert_cmp_int(channels, >=, 3); /* two weights, one activation */
}

static void equals_the_built_in_one(void **state)
{
    host *h = *state;
    qg_host_observer o = extremes();
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    add_backend(h, "theirs", "minmax");
    add_backend(h, "ours", "extremes");
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *theirs = host_quantize(h, path, "theirs", NULL, 1);
    for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
        qg_model *ours = host_quantize(h, path, "ours", NULL, jobs);
        assert_same_params(ours, theirs);
        assert_string_equal(qg_tqc_named(ours->graph, "conv.in1")->observer.name,
                            "extremes");
        qg_model_close(ours);
    }
    qg_model_close(theirs);
    host_assert_listed(h, "observers", "extremes");
}

/* The option `observer`, --set, and the quantization of one array. */
static void is_good_wherever_one_is_named(void **state)
{
    host *h = *state;
    qg_host_observer o = extremes();
    qg_quantize_options q;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *m = host_quantize(h, path, "trt-int8", "slot=in0 observer=extremes", 1);
    assert_string_equal(qg_tqc_named(m->graph, "conv.in0")->observer.name, "extremes");
    qg_model_close(m);
    m = host_open(h, path);
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = "random:4";
    q.observer = "extremes,min-scale=0.5";
    assert_ok(h->ctx, qg_model_quantize(m, &q, NULL));
    qg_qparam p = qg_tqc_param(qg_tqc_named(m->graph, "conv.in0"));
    assert_cmp_f64(p.scale[0], ==, 0.5);
    qg_model_close(m);
    m = host_open(h, path);
    q.observer = "extreme";
    assert_fails(h->ctx, qg_model_quantize(m, &q, NULL), QG_ECONFIG,
                 "did you mean 'extremes'");
    qg_model_close(m);
}

/* A snapshot shows the name; it need not be known to whoever opens it. */
static void snapshots_keep_the_name_as_data(void **state)
{
    host *h = *state;
    qg_host_observer o = extremes();
    qg_ctx *other;
    qg_model *m;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    add_backend(h, "ours", "extremes");
    m = host_quantize(h, host_model(h, "m.onnx", MODEL), "ours", NULL, 1);
    const char *folder = host_path(h, "snap");
    assert_ok(h->ctx, qg_model_save(m, folder));
    qg_model_close(m);
    assert_int_equal(qg_open(NULL, &other), QG_OK);
    assert_ok(other, qg_model_open(other, folder, NULL, &m));
    assert_string_equal(qg_tqc_named(m->graph, "conv.in0")->observer.name, "extremes");
    qg_model_close(m);
    qg_close(other);
}

/* --- several passes, order --- */

/* Pass 0 counts elements, pass 1 counts what lies above 0.5: with `next` between, a
 * worker that goes on with a copy must not count it again. */
typedef struct counted {
    int64_t seen, learned, above;
} counted;

static qg_status count(void *ud, qg_ctx *ctx, void *state, const qg_observed *seen)
{
    counted *c = state;
    (void)ud, (void)ctx;
    for (size_t i = 0; i < seen->n; i++)
        c->above += seen->pass == 1 && seen->x[i] > 0.5F;
    c->seen += seen->pass == 0 ? (int64_t)seen->n : 0;
    return QG_OK;
}

static void add_counts(void *ud, void *into, const void *from)
{
    counted *c = into;
    const counted *d = from;
    (void)ud;
    c->seen += d->seen;
    c->above += d->above;
}

static qg_status learn(void *ud, qg_ctx *ctx, void *state, unsigned pass)
{
    counted *c = state;
    (void)ud;
    if (pass != 1)
        return qg_fail(ctx, QG_ESTATE, "pass %u", pass);
    *c = (counted){ .learned = c->seen };
    return QG_OK;
}

static qg_status share(void *ud, qg_ctx *ctx, const void *state,
                       const qg_scheme *scheme, double *low, double *high)
{
    const counted *c = state;
    (void)ud, (void)ctx, (void)scheme;
    *high = (double)c->learned + (double)c->above / (double)c->learned;
    *low = -*high;
    return QG_OK;
}

static void passes_learn_from_all_samples(void **state)
{
    host *h = *state;
    float scale[2];
    qg_host_observer o = extremes();
    o.name = "counter";
    o.state = sizeof(counted);
    o.passes = 2;
    o.begin = NULL;
    o.see = count;
    o.merge = add_counts;
    o.next = learn;
    o.finish = share;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    const char *path = host_model(h, "m.onnx", MODEL);
    for (unsigned i = 0; i < 2; i++) {
        qg_model *m = host_quantize(h, path, "trt-int8",
                                    "node=conv slot=in0 observer=counter", 1 + 3 * i);
        scale[i] = qg_tqc_param(qg_tqc_named(m->graph, "conv.in0")).scale[0];
        qg_model_close(m);
    }
    assert_cmp_f64(scale[0], ==, scale[1]);
    assert_cmp_f64(scale[0] * 127.5, >, 8 * 3 * 64); /* all elements of 8 samples */
    assert_cmp_f64(scale[0] * 127.5, <, 8 * 3 * 64 + 1);
}

/* Samples come one after the other, on one state. */
static qg_status in_turn(void *ud, qg_ctx *ctx, void *state, const qg_observed *seen)
{
    counted *c = state;
    (void)ud;
    if (c->seen != (int64_t)seen->sample)
        return qg_fail(ctx, QG_ESTATE, "sample %zu came after %lld", seen->sample,
                       (long long)c->seen);
    c->seen++;
    c->learned = 1;
    return QG_OK;
}

static void ordered_ones_see_samples_in_turn(void **state)
{
    host *h = *state;
    qg_host_observer o = extremes();
    o.name = "turns";
    o.state = sizeof(counted);
    o.ordered = true;
    o.begin = NULL;
    o.see = in_turn;
    o.merge = NULL;
    o.finish = share;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    qg_model_close(host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8",
                                 "node=conv slot=in0 observer=turns", 4));
}

/* --- faults --- */

static qg_status no_range(void *ud, qg_ctx *ctx, const void *state,
                          const qg_scheme *scheme, double *low, double *high)
{
    (void)ctx, (void)state, (void)scheme;
    *low = 1;
    *high = 0;
    return ud ? QG_EDATA : QG_OK;
}

static qg_status not_a_number(void *ud, qg_ctx *ctx, void *state,
                              const qg_observed *seen)
{
    (void)ud, (void)state;
    return qg_fail(ctx, QG_ENUMERIC, "mine: sample %zu is too small", seen->sample);
}

static void faults_name_the_endpoint(void **state)
{
    host *h = *state;
    static const char *const set[] = { "node=conv slot=in0 observer=bad",
                                       "node=conv slot=in0 observer=worse",
                                       "node=conv slot=in0 observer=small" };
    qg_host_observer o = extremes();
    qg_quantize_options q;
    const char *path = host_model(h, "m.onnx", MODEL);
    o.finish = no_range;
    o.name = "bad";
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    o.name = "worse";
    o.ud = &o;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    o.name = "small";
    o.see = not_a_number;
    assert_ok(h->ctx, qg_add_observer(h->ctx, &o));
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = "random:4";
    q.n_set = 1;
    q.set = &set[0];
    qg_model *m = host_open(h, path);
    assert_fails(h->ctx, qg_model_quantize(m, &q, NULL), QG_ENUMERIC,
                 "calibrate: conv.in0: bad: channel 0: the range is 1 to 0");
    qg_model_close(m);
    m = host_open(h, path);
    q.set = &set[1];
    assert_fails(h->ctx, qg_model_quantize(m, &q, NULL), QG_EDATA,
                 "calibrate: conv.in0: worse: observer worse: the host's function");
    qg_model_close(m);
    m = host_open(h, path);
    q.set = &set[2];
    q.work.jobs = 1;
    assert_fails(h->ctx, qg_model_quantize(m, &q, NULL), QG_ENUMERIC,
                 "mine: sample 0 is too small");
    qg_model_close(m);
}

static void what_is_no_observer_is_refused(void **state)
{
    host *h = *state;
    qg_host_observer good = extremes(), o = good;
    o.name = "minmax";
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "the name is in use");
    o = good;
    o.merge = NULL;
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "merge is NULL");
    o = good;
    o.finish = NULL;
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "finish is NULL");
    o = good;
    o.passes = 0;
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "passes is 0");
    o = good;
    o.min_scale = NAN;
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "min_scale");
    o = good;
    o.name = "two words";
    assert_fails(h->ctx, qg_add_observer(h->ctx, &o), QG_ECONFIG, "'two words'");
}

QG_TEST_MAIN(WITH_HOST(equals_the_built_in_one),
             WITH_HOST(is_good_wherever_one_is_named),
             WITH_HOST(snapshots_keep_the_name_as_data),
             WITH_HOST(passes_learn_from_all_samples),
             WITH_HOST(ordered_ones_see_samples_in_turn),
             WITH_HOST(faults_name_the_endpoint),
             WITH_HOST(what_is_no_observer_is_refused))
