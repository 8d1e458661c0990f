/* Random networks through every backend: what must hold of all of them.
 *
 *     every pass keeps the verifier's rules       the driver checks after each one
 *     groups are acyclic                          walked here, with a bound
 *     canonical passes keep the float outputs     1e-3 of the largest
 *     muted is float                              bit for bit, same plan
 *     a partial run by three threads is a         bit for bit, one endpoint rounding
 *     whole run by one
 *     an integer program runs or is refused       any profile, with a message
 *     one without kernels is the simulation       bit for bit, where the profile rounds
 *                                                 as the records do
 *
 * test_random_graphs [N [SEED]]: N graphs from SEED on; a failure prints seed, backend,
 * options and the graph. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/exec/drive.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/override.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/config/profile_yaml.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/lower/program.h"
#include "engine/quant/quirk.h"
#include "engine/quant/tqc_check.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "tests/support/random_graph.h"

enum { MOST_INPUTS = 2, MOST_OUTPUTS = 80, SAMPLES = 2 };

static size_t n_graphs = 500;
/* Outputs that a flip changed; integer programs that ran, their kernels, and those that
 * were the simulation. */
static size_t n_rounded, n_programs, n_kernels, n_simulations, n_compared;
static uint64_t first_seed = 1;

/* One graph and everything around it; a context of its own, so nothing piles up. */
typedef struct trial {
    uint64_t seed;
    qg_rng rng;
    qg_ctx *ctx;
    char text[QG_RANDOM_GRAPH_TEXT], options[256];
    qg_graph *graph, *original;
    qg_backend *backend;
    qg_pass_env env;
    qg_feed feed;
} trial;

static void complain(const trial *t, const char *what)
{
    print_error("%s\n", t->text); /* too long for fail_msg */
    fail_msg("seed %" PRIu64 ", backend %s%s: %s: %s", t->seed,
             t->backend ? t->backend->name : "?", t->options, what,
             qg_ctx_message(t->ctx));
}

#define must(t, expr)                                                                  \
    do {                                                                               \
        if ((expr) != QG_OK)                                                           \
            complain((t), #expr);                                                      \
    } while (0)

/* --- making one --- */

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_graph *g = ud;
    for (size_t i = 0; i < g->input.n; i++) {
        qg_rng rng = { 1 + 1000 * sample + i };
        qg_tensor *t = QG_NEW(a, qg_tensor);
        *t = g->input.at[i]->type;
        QG_TRY(qg_tensor_alloc(ctx, a, t));
        for (int64_t k = 0; k < qg_tensor_count(t); k++)
            t->f32[k] = qg_rng_range(&rng, -1, 1);
        in[i] = t;
    }
    return QG_OK;
}

static void parse(trial *t, qg_graph **out)
{
    qg_text_source source = { NULL, t->text, strlen(t->text), NULL };
    must(t, qg_text_parse(t->ctx, &source, out));
    must(t, qg_infer(*out, NULL, 0));
}

static qg_search folder(const char *const *dir)
{
    return (qg_search){ .dir = dir, .n = 1 };
}

static void note(trial *t, const char *option)
{
    size_t n = strlen(t->options);
    (void)snprintf(t->options + n, sizeof t->options - n, ", %s", option);
}

/* Overrides of all kinds; those that match nothing, or that the backend's formats do
 * not allow, are refused, which is no fault. */
static qg_status choose_overrides(trial *t, bool *any)
{
    static const char *const set[] = {
        "op=Conv platform=fp32",    "op=Relu state=fp32",
        "node=v3 platform=fp32",    "slot=weight bits=4",
        "slot=out0 bits=16",        "node=v4 slot=out0 state=deactivated",
        "slot=in0 observer=minmax", "op=Add,Concat platform=fp32",
        "node=v5 bits=6",           "trait=compute slot=out0 state=fp32",
        "from=v2 platform=fp32",    "to=v4 bits=5",
    };
    *any = qg_rng_below(&t->rng, 3) == 0;
    if (!*any)
        return QG_OK;
    const char *text = set[qg_rng_below(&t->rng, sizeof set / sizeof set[0])];
    note(t, text);
    return qg_backend_set(t->ctx, t->ctx->arena, text, t->backend);
}

static void choose_options(trial *t)
{
    static const char *const dispatcher[] = { "conservative", "aggressive", "pointwise",
                                              "all-in" };
    if (qg_rng_below(&t->rng, 3) == 0) {
        t->env.options.dispatcher = dispatcher[qg_rng_below(&t->rng, 4)];
        note(t, t->env.options.dispatcher);
    }
    if (qg_rng_below(&t->rng, 6) == 0) {
        t->backend->quirks ^= UINT64_C(1) << qg_rng_below(&t->rng, QG_NQUIRK);
        note(t, "a quirk");
    } else if (qg_rng_below(&t->rng, 8) == 0) {
        must(t, qg_quirks_named(t->ctx, "ppq", &t->backend->quirks));
        note(t, "quirks ppq");
    }
    t->env.options.reference = qg_rng_below(&t->rng, 4) != 0;
    t->env.options.jobs = 1;
    if (t->env.options.reference)
        note(t, "reference kernels");
}

/* Any of the backends that there are. */
static void choose_backend(trial *t)
{
    static const char *const dir[] = { "configs/backends" };
    const char **name;
    size_t n;
    must(t, qg_config_names(t->ctx, t->ctx->arena, folder(dir), &name, &n));
    assert_cmp_int(n, >, 0);
    const char *chosen = name[qg_rng_below(&t->rng, n)];
    must(t, qg_backend_load(t->ctx, t->ctx->arena, chosen, folder(dir), &t->backend));
}

/* False when an override matches nothing here. */
static bool quantize(trial *t)
{
    static const char *const dir[] = { "configs/pipelines" };
    qg_pipeline p;
    bool overridden;
    qg_status chosen = choose_overrides(t, &overridden);
    if (chosen == QG_ECONFIG)
        return false;
    must(t, chosen);
    must(t, qg_pipeline_load(t->ctx, t->ctx->arena, t->backend->pipeline, folder(dir),
                             &p));
    for (size_t i = 0; i < t->backend->setting.n;
         i++) /* the backend has the last word */
        must(t,
             qg_vec_push(t->ctx, t->ctx->arena, &p.setting, t->backend->setting.at[i]));
    t->env.options.setting = p.setting.at;
    t->env.options.n_setting = p.setting.n;
    qg_status s = qg_pass_run_all(&t->env, qg_passes, p.pass, p.n);
    bool refused = s == QG_ECONFIG && overridden;
    if (s != QG_OK && !refused)
        complain(t, "the pipeline failed");
    return s == QG_OK;
}

/* --- running --- */

typedef struct outputs {
    qg_run *run;
    const qg_tensor *y[MOST_OUTPUTS];
} outputs;

static void execute(trial *t, const qg_plan *p, outputs *out)
{
    const qg_tensor *in[MOST_INPUTS];
    must(t, fetch(t->graph, t->ctx, t->ctx->arena, 0, in));
    must(t, qg_run_new(t->ctx, p, &out->run));
    must(t, qg_run_execute(out->run, in, NULL, 0, 0));
    assert_cmp_int(p->graph->output.n, <=, MOST_OUTPUTS);
    for (size_t i = 0; i < p->graph->output.n; i++)
        out->y[i] = qg_run_output(out->run, i);
}

static qg_plan *plan_of(trial *t, const qg_graph *g, qg_plan_options o)
{
    qg_plan *p = NULL;
    o.reference = t->env.options.reference;
    must(t, qg_plan_new(t->ctx, g, &o, &p));
    return p;
}

static bool same_bytes(const qg_tensor *a, const qg_tensor *b)
{
    return a->dtype == b->dtype && qg_same_dims(a, b) &&
           memcmp(a->data, b->data,
                  (size_t)qg_tensor_count(a) * (qg_dtype_bits(a->dtype) / 8)) == 0;
}

static void assert_same(const trial *t, const outputs *a, const outputs *b,
                        const char *what)
{
    for (size_t i = 0; i < t->graph->output.n; i++)
        if (!same_bytes(a->y[i], b->y[i]))
            complain(t, what);
}

/* Indices may differ where values are close to each other: they are left out. */
static void assert_close(const trial *t, const outputs *a, const outputs *b)
{
    for (size_t i = 0; i < t->graph->output.n; i++) {
        const qg_tensor *x = a->y[i], *y = b->y[i];
        float largest = 1e-3f;
        if (x->dtype != QG_F32 || y->dtype != QG_F32 || !qg_same_dims(x, y))
            continue;
        for (int64_t k = 0; k < qg_tensor_count(x); k++)
            largest = fmaxf(largest, fabsf(x->f32[k]));
        for (int64_t k = 0; k < qg_tensor_count(x); k++)
            if (!(fabsf(x->f32[k] - y->f32[k]) <= 1e-3f * largest))
                complain(t, "the passes changed a float output");
    }
}

/* --- what must hold --- */

static void check_groups(const trial *t)
{
    const qg_quant *q = t->env.quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *at = q->tqc.at[i];
        size_t steps = 0;
        while (at->up != at && steps++ <= q->tqc.n)
            at = at->up;
        if (at->up != at)
            complain(t, "a group has a circle");
    }
    must(t, qg_check_tqcs(t->ctx, q, QG_CHECK_ALL));
    must(t, qg_check_graph(t->ctx, t->graph, QG_CHECK_ALL));
}

/* Passes that are there to compute something else: the device's own Resize, biases that
 * make up for rounding. */
static bool recomputes(const trial *t)
{
    for (size_t i = 0; i < t->env.result.n; i++) {
        const qg_pass_result *r = &t->env.result.at[i];
        if (r->changed && (strcmp(r->name, "nxp-resize-mode") == 0 ||
                           strcmp(r->name, "bias-correct") == 0))
            return true;
    }
    return false;
}

static void check_float(trial *t, const qg_plan *real, const outputs *want)
{
    outputs before, muted;
    qg_plan *p = plan_of(t, t->original, (qg_plan_options){ .mode = QG_MODE_FLOAT });
    bool chooses = strstr(t->text, "TopK") || strstr(t->text, "Where");
    execute(t, p, &before);
    /* a hair decides which element is taken; some quirks keep faults of float graphs */
    if (!chooses && !t->env.quant->quirks && !recomputes(t))
        assert_close(t, &before, want);
    qg_run_free(before.run);
    qg_plan_free(p);
    uint8_t *mute = QG_NEWN(t->ctx->arena, t->env.quant->tqc.n, uint8_t);
    memset(mute, 1, t->env.quant->tqc.n);
    p = plan_of(t, t->graph,
                (qg_plan_options){
                    .mode = QG_MODE_SIMULATE, .quant = t->env.quant, .mute = mute });
    execute(t, p, &muted);
    assert_int_equal(p->report.steps, real->report.steps);
    assert_same(t, &muted, want, "muted is not float");
    qg_run_free(muted.run);
    qg_plan_free(p);
}

/* Some endpoints, or all but these, against a base that rounds nowhere or
 * everywhere. */
static qg_plan_options flipped(trial *t, bool rounding_base, uint8_t *none)
{
    const qg_quant *q = t->env.quant;
    uint8_t *mute = QG_NEWN(t->ctx->arena, q->tqc.n, uint8_t);
    uint64_t one_in = 1 + qg_rng_below(&t->rng, q->tqc.n + 1);
    memset(none, !rounding_base, q->tqc.n);
    for (size_t i = 0; i < q->tqc.n; i++)
        mute[i] = (qg_rng_below(&t->rng, one_in) == 0) == rounding_base;
    return (qg_plan_options){ .mode = QG_MODE_SIMULATE, .quant = q, .mute = mute };
}

static void check_partial(trial *t, bool rounding_base)
{
    outputs base, whole, part;
    uint8_t *none = QG_NEWN(t->ctx->arena, t->env.quant->tqc.n, uint8_t);
    qg_plan_options o = flipped(t, rounding_base, none), all = o;
    all.mute = none;
    all.keep_all = true;
    all.threads = 3;
    all.split_small = true;
    qg_plan *b = plan_of(t, t->graph, all);
    qg_plan *w = plan_of(t, t->graph, o);
    o.base = b;
    o.threads = all.threads;
    o.split_small = true;
    qg_plan *p = plan_of(t, t->graph, o);
    execute(t, b, &base);
    execute(t, w, &whole);
    must(t, qg_run_new(t->ctx, p, &part.run));
    must(t, qg_run_execute_from(part.run, base.run, NULL, 0, 0));
    for (size_t i = 0; i < t->graph->output.n; i++)
        part.y[i] = qg_run_output(part.run, i);
    assert_same(t, &part, &whole,
                "a partial run by threads differs from the whole one");
    for (size_t i = 0; i < t->graph->output.n; i++)
        n_rounded += !same_bytes(base.y[i], whole.y[i]);
    qg_run_free(part.run);
    qg_run_free(whole.run);
    qg_run_free(base.run);
    qg_plan_free(p);
    qg_plan_free(w);
    qg_plan_free(b);
}

/* --- integer programs --- */

static const qg_profile *some_profile(trial *t)
{
    static const char *const dir[] = { "configs/profiles" };
    const char **name;
    const qg_profile *p;
    size_t n;
    must(t, qg_config_names(t->ctx, t->ctx->arena, folder(dir), &name, &n));
    assert_cmp_int(n, >, 0);
    const char *chosen = name[qg_rng_below(&t->rng, n)];
    must(t, qg_profile_load(t->ctx, t->ctx->arena, chosen, folder(dir), &p));
    note(t, chosen);
    return p;
}

/* NULL: refused by name. */
static qg_plan *integer_plan(trial *t, const qg_profile *profile, qg_program **out)
{
    qg_plan *p = NULL;
    qg_lower_options o = { .codes = qg_rng_below(&t->rng, 2) == 0 };
    t->ctx->message[0] = '\0';
    *out = NULL;
    qg_status s = qg_lower_program(t->graph, profile, &o, out);
    if (s == QG_OK) {
        must(t, qg_check_graph(t->ctx, (*out)->graph, QG_CHECK_ALL));
        s = qg_plan_new(t->ctx, (*out)->graph,
                        &(qg_plan_options){ .reference = t->env.options.reference },
                        &p);
    }
    if (s != QG_OK &&
        ((s != QG_EUNSUPPORTED && s != QG_ENUMERIC) || !t->ctx->message[0]))
        complain(t, "an integer program failed");
    return p;
}

static bool has_floats(const qg_program *p)
{
    return p->count[QG_LOWERED_TAIL] + p->count[QG_LOWERED_ISLAND] +
               p->count[QG_LOWERED_REFUSED] >
           0;
}

/* Integers do not depend on the kernels that compute them. */
static void check_kernels(trial *t, const qg_program *program, const outputs *want)
{
    outputs y;
    t->env.options.reference ^= true;
    qg_plan *p = plan_of(t, program->graph, (qg_plan_options){ 0 });
    execute(t, p, &y);
    for (size_t i = 0; i < program->graph->output.n; i++)
        if (!same_bytes(y.y[i], want->y[i]))
            complain(t, "integers differ between reference and fast kernels");
    t->env.options.reference ^= true;
    n_compared++;
    qg_run_free(y.run);
    qg_plan_free(p);
}

static void check_program(trial *t)
{
    outputs y;
    qg_program *program;
    qg_plan *p = integer_plan(t, some_profile(t), &program);
    if (p) {
        execute(t, p, &y);
        if (program->count[QG_LOWERED_INTEGER] && !has_floats(program))
            check_kernels(t, program, &y);
        n_programs++;
        n_kernels += program->count[QG_LOWERED_INTEGER];
        qg_run_free(y.run);
    }
    qg_plan_free(p);
    qg_program_free(program);
}

/* Passive operators that compute: silent in the simulation, rounded in integers. */
static bool rounds_silently(const trial *t, const qg_program *program)
{
    for (size_t i = 0; i < t->graph->node.n; i++) {
        const qg_node *n = t->graph->node.at[i];
        const qg_tqc *out = n->n_out ? qg_output_tqc(n, 0) : NULL;
        if (out && out->state == QG_TQC_OVERLAPPED &&
            program->stored[n->out[0]->id].codes)
            return true;
    }
    return false;
}

/* Rows of quantize and dequantize alone. */
static void check_islands(trial *t)
{
    const qg_profile_row row[] = {
        {.id = "quantize",
         .uses = QG_USE_BIT(QUANTIZE),
         .ratio_high = INFINITY,
         .form = QG_FORM_DIVIDE,
         .rounding = t->backend->defaults.scheme.rounding },
        { .id = "dequantize",
         .uses = QG_USE_BIT(DEQUANTIZE),
         .ratio_high = INFINITY,
         .form = QG_FORM_MULTIPLY}
    };
    const qg_profile islands = { .name = "islands",
                                 .title = "",
                                 .islands = true,
                                 .activation =
                                     QG_DT(I8) | QG_DT(U8) | QG_DT(I16) | QG_DT(U16),
                                 .weight = QG_DT(I8) | QG_DT(U8),
                                 .bias = QG_F32,
                                 .row = row,
                                 .n_row = 2 };
    outputs integer, simulated;
    qg_program *program;
    qg_status s =
        qg_lower_program(t->graph, &islands, &(qg_lower_options){ 0 }, &program);
    if (s != QG_OK && s != QG_EUNSUPPORTED)
        complain(t, "an integer program failed");
    if (s != QG_OK)
        return;
    if (program->rounding == 0 && row[0].rounding != QG_ROUND_HALF_EVEN_LEVEL &&
        !rounds_silently(t, program)) {
        qg_plan *a = plan_of(t, program->graph, (qg_plan_options){ 0 });
        qg_plan *b = plan_of(
            t, t->graph,
            (qg_plan_options){ .mode = QG_MODE_SIMULATE, .quant = t->env.quant });
        execute(t, a, &integer);
        execute(t, b, &simulated);
        assert_same(t, &integer, &simulated, "islands are not the simulation");
        n_simulations++;
        qg_run_free(integer.run);
        qg_run_free(simulated.run);
        qg_plan_free(a);
        qg_plan_free(b);
    }
    qg_program_free(program);
}

static void check_all(trial *t)
{
    outputs real;
    check_groups(t);
    qg_plan *p = plan_of(
        t, t->graph, (qg_plan_options){ .mode = QG_MODE_FLOAT, .quant = t->env.quant });
    execute(t, p, &real);
    check_float(t, p, &real);
    check_partial(t, false);
    check_partial(t, true);
    check_islands(t);
    check_program(t);
    qg_run_free(real.run);
    qg_plan_free(p);
}

/* True when the graph was checked, false when its override matched nothing. */
static bool try_one(uint64_t seed)
{
    trial t = { .seed = seed,
                .rng = { seed ^ 0x5eed },
                .ctx = qg_ctx_new(qg_alloc_libc) };
    t.ctx->registry = &qg_ops_registry;
    t.ctx->config_dir = QG_CONFIG_DIR;
    random_graph(seed, t.text);
    parse(&t, &t.graph);
    parse(&t, &t.original);
    t.feed = (qg_feed){ .n = SAMPLES, .fetch = fetch, .ud = t.graph };
    choose_backend(&t);
    t.env = (qg_pass_env){
        .ctx = t.ctx, .graph = t.graph, .backend = t.backend, .feed = &t.feed
    };
    choose_options(&t);
    bool checked = quantize(&t);
    if (checked)
        check_all(&t);
    qg_graph_free(t.graph);
    qg_graph_free(t.original);
    qg_ctx_free(t.ctx);
    return checked;
}

static void random_graphs(void **state)
{
    size_t checked = 0;
    (void)state;
    for (size_t i = 0; i < n_graphs; i++)
        checked += try_one(first_seed + i);
    print_message("%zu graphs from seed %" PRIu64 ", %zu quantized and checked\n",
                  n_graphs, first_seed, checked);
    assert_cmp_int(checked, >, n_graphs / 2);
    print_message(
        "%zu integer programs ran with %zu kernels, %zu of islands alone, %zu "
        "by two sets of kernels\n",
        n_programs, n_kernels, n_simulations, n_compared);
    assert_cmp_int(n_rounded, >, n_graphs / 2);
    assert_cmp_int(n_programs, >, n_graphs / 4);
    assert_cmp_int(n_simulations, >, n_graphs / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_graphs) };
    if (getenv("QG_ALL"))
        n_graphs = 5000;
    if (argc > 1)
        n_graphs = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
