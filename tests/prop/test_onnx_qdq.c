/* What onnx-qdq writes is the simulation: random networks under every backend, exported
 * in all ways and read again, give its outputs bit for bit, with the kernels that round
 * (QuantizeLinear, DequantizeLinear) in place of our rounding.  Where the loss report
 * says that something else will be computed, nothing is compared.
 *
 * test_onnx_qdq [N [SEED]]: N graphs from SEED on. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/session/session.h"
#include "engine/formats/formats.h"
#include "engine/onnx/export.h"
#include "engine/ir/text.h"
#include "tests/support/random_graph.h"

enum { MOST_INPUTS = 4, MOST_OUTPUTS = 80 };

static size_t n_graphs = 150, n_compared, n_values;
static uint64_t first_seed = 1;

static const char *const placements[] = { "ort", "trt", "openvino" };
static const char *const weights[] = { "int", "float" };

typedef struct trial {
    uint64_t seed;
    qg_rng rng;
    qg_ctx *ctx;
    qg_model *m;
    const char *backend, *placement, *weights;
    char source[40], file[40];
} trial;

static void complain(const trial *t, const char *what)
{
    static char text[QG_RANDOM_GRAPH_TEXT];
    random_graph(t->seed, text);
    print_error("%s\n", text);
    fail_msg("seed %" PRIu64 ", %s, %s, %s: %s: %s", t->seed, t->backend, t->placement,
             t->weights, what, qg_ctx_message(t->ctx));
}

#define must(t, expr)                                                                  \
    do {                                                                               \
        if ((expr) != QG_OK)                                                           \
            complain((t), #expr);                                                      \
    } while (0)

/* The network of the seed, as a file. */
static void write_source(trial *t)
{
    static char text[QG_RANDOM_GRAPH_TEXT];
    qg_graph *g;
    random_graph(t->seed, text);
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    must(t, qg_text_parse(t->ctx, &source, &g));
    must(t, qg_onnx_export(t->ctx, g, t->source, NULL));
    qg_graph_free(g);
}

/* Any backend, sometimes with other widths; false when an override fits nothing. */
static bool quantize(trial *t)
{
    static const char *const set[] = {
        "slot=weight bits=4 range=-8,7",
        "slot=out0 bits=16 range=-32768,32767",
        "slot=out0 bits=6 range=-31,31",
        "slot=in0 state=fp32",
        "slot=out0 policy=per-tensor,linear,asymmetric range=0,255",
        "slot=bias state=passive-init bits=32 range=-2147483648,2147483647"
    };
    const char *dir = "configs/backends", **name;
    size_t n;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    must(t, qg_config_names(t->ctx, t->ctx->arena, (qg_search){ .dir = &dir, .n = 1 },
                            &name, &n));
    o.backend = t->backend = name[qg_rng_below(&t->rng, n)];
    o.work.data = "random:2";
    o.work.reference_kernels = true;
    o.work.jobs = 1;
    const char *chosen = set[qg_rng_below(&t->rng, sizeof set / sizeof *set)];
    o.set = &chosen;
    o.n_set = qg_rng_below(&t->rng, 2);
    must(t, qg_model_open(t->ctx, t->source, NULL, &t->m));
    qg_status s = qg_model_quantize(t->m, &o, NULL);
    if (s != QG_OK && !(s == QG_ECONFIG && o.n_set))
        complain(t, "quantize");
    return s == QG_OK;
}

/* False when TensorRT is refused what it cannot run. */
static bool export(trial *t, bool *comparable)
{
    const char *option[QG_N_FORMAT_OPTION] = {
        [QG_FORMAT_WEIGHTS] = t->weights, [QG_FORMAT_PLACEMENT] = t->placement
    };
    qg_export e = {
        .ctx = t->ctx, .quant = t->m->quant, .info = &t->m->info, .path = t->file
    };
    must(t, qg_export_begin(&e, "onnx-qdq", option));
    qg_status s = qg_export_run(&e, false);
    *comparable = true;
    for (size_t i = 0; i < e.loss.n; i++)
        *comparable = *comparable && !e.loss.at[i].computes &&
                      !strstr(e.loss.at[i].text, "is rounded to 24 bits");
    qg_export_end(&e);
    bool refused = s == QG_EUNSUPPORTED && *t->placement == 't' &&
                   strstr(qg_ctx_message(t->ctx), "expected a scheme for TensorRT");
    if (s != QG_OK && !refused)
        complain(t, "export");
    return s == QG_OK;
}

static const qg_tensor **inputs(trial *t, const qg_graph *g)
{
    const qg_tensor **in = QG_NEWN(t->ctx->arena, MOST_INPUTS, const qg_tensor *);
    assert_cmp_int(g->input.n, <=, MOST_INPUTS);
    for (size_t i = 0; i < g->input.n; i++) {
        qg_rng rng = { t->seed + i };
        qg_tensor *x = QG_NEW(t->ctx->arena, qg_tensor);
        *x = g->input.at[i]->type;
        must(t, qg_tensor_alloc(t->ctx, t->ctx->arena, x));
        for (int64_t k = 0; k < qg_tensor_count(x); k++)
            x->f32[k] = qg_rng_range(&rng, -1.2f, 1.2f);
        in[i] = x;
    }
    return in;
}

static qg_run *execute(trial *t, qg_model *m, qg_run_mode mode, qg_plan **plan)
{
    qg_run *r = NULL;
    const qg_workload work = { .jobs = 1, .reference_kernels = true };
    must(t, qg_model_plan(m, mode, &work, NULL, NULL, plan));
    must(t, qg_run_new(t->ctx, *plan, &r));
    must(t, qg_run_execute(r, inputs(t, m->graph), NULL, 0, 0));
    return r;
}

static void compare(trial *t)
{
    qg_plan *plan[2];
    qg_model *again = NULL;
    must(t, qg_model_open(t->ctx, t->file, NULL, &again));
    qg_run *a = execute(t, t->m, QG_RUN_SIMULATE, &plan[0]);
    qg_run *b = execute(t, again, QG_RUN_FLOAT, &plan[1]);
    for (size_t i = 0; i < t->m->graph->output.n; i++) {
        const qg_tensor *x = qg_run_output(a, i), *y = qg_run_output(b, i);
        assert_string_equal(t->m->graph->output.at[i]->name,
                            again->graph->output.at[i]->name);
        if (!qg_same_dims(x, y) || x->dtype != y->dtype)
            complain(t, "another shape or type");
        for (int64_t k = 0; x->dtype == QG_F32 && k < qg_tensor_count(x); k++)
            if (x->f32[k] != y->f32[k] && x->f32[k] == x->f32[k]) {
                print_error("%s[%" PRId64 "]: %.9g, simulated %.9g\n",
                            t->m->graph->output.at[i]->name, k, (double)y->f32[k],
                            (double)x->f32[k]);
                complain(t, "another value");
            }
        n_values += (size_t)qg_tensor_count(x);
    }
    n_compared++;
    qg_run_free(a);
    qg_run_free(b);
    qg_plan_free(plan[0]);
    qg_plan_free(plan[1]);
    qg_model_close(again);
}

static void try_one(uint64_t seed)
{
    trial t = { .seed = seed, .rng = { seed } };
    assert_int_equal(qg_open(NULL, &t.ctx), QG_OK);
    (void)snprintf(t.source, sizeof t.source, "/tmp/qg_qdq_%ld.onnx", (long)getpid());
    (void)snprintf(t.file, sizeof t.file, "/tmp/qg_qdq_%ld_2.onnx", (long)getpid());
    t.placement = placements[qg_rng_below(&t.rng, 3)];
    t.weights = weights[qg_rng_below(&t.rng, 2)];
    bool comparable;
    write_source(&t);
    if (quantize(&t) && export(&t, &comparable) && comparable)
        compare(&t);
    unlink(t.source);
    unlink(t.file);
    qg_model_close(t.m);
    qg_close(t.ctx);
}

static void the_file_is_the_simulation(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_graphs; seed++)
        try_one(seed);
    print_message("%zu files, %zu values compared\n", n_compared, n_values);
    assert_cmp_int(n_compared, >, n_graphs / 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_file_is_the_simulation) };
    n_graphs = argc > 1 ? strtoul(argv[1], NULL, 10) : n_graphs;
    first_seed = argc > 2 ? strtoul(argv[2], NULL, 10) : first_seed;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
