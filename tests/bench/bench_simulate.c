/* bench_simulate MODEL.onnx|SNAPSHOT [BACKEND] [RUNS] -- one thread, batch 1: the
 * simulated forward against the float forward of the same graph, in turns.  Prints best
 * times, their ratio and the bytes that one simulated forward rounds.
 *
 * A model that is not quantized yet is quantized with BACKEND (trt-int8) and one random
 * sample. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/session/session.h"
#include "engine/api/qg.h"
#include "tests/bench/steps.h"

typedef struct side {
    qg_plan *plan;
    qg_run *run;
    double best;
} side;

static qg_status time_once(side *s, const qg_tensor *const *in)
{
    double start = bench_thread_now();
    QG_TRY(qg_run_execute(s->run, in, NULL, 0, 0));
    double t = bench_thread_now() - start;
    s->best = s->best == 0 || t < s->best ? t : s->best;
    return QG_OK;
}

static qg_status compare(qg_model *m, side *a, side *b, int runs)
{
    const qg_tensor **in = QG_NEWN(m->ctx->arena, m->graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(m->ctx);
    QG_TRY(bench_inputs(m->ctx, m->graph, in));
    QG_TRY(qg_model_plan(m, QG_RUN_FLOAT, NULL, NULL, NULL, &a->plan));
    QG_TRY(qg_model_plan(m, QG_RUN_SIMULATE, NULL, NULL, NULL, &b->plan));
    QG_TRY(qg_run_new(m->ctx, a->plan, &a->run));
    QG_TRY(qg_run_new(m->ctx, b->plan, &b->run));
    for (int i = 0; i < runs; i++) {
        QG_TRY(time_once(a, in));
        QG_TRY(time_once(b, in));
    }
    printf("float_ms %.4f simulate_ms %.4f ratio %.3f rounds %u rounded_bytes %zu\n",
           1e3 * a->best, 1e3 * b->best, b->best / a->best, b->plan->report.rounds,
           b->plan->report.rounded);
    return getenv("QG_STEPS")
               ? bench_print_steps(m->ctx, b->plan, b->run, in, (size_t)runs)
               : QG_OK;
}

static qg_status bench(qg_ctx *ctx, const char *path, const char *backend, int runs)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    side a = { 0 }, b = { 0 };
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:1";
    QG_TRY(qg_model_open(ctx, path, NULL, &m));
    qg_status s = qg_model_is_quantized(m) ? QG_OK : qg_model_quantize(m, &o, NULL);
    if (s == QG_OK)
        s = compare(m, &a, &b, runs);
    qg_run_free(a.run);
    qg_run_free(b.run);
    qg_plan_free(a.plan);
    qg_plan_free(b.plan);
    qg_model_close(m);
    return s;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 2 ? argv[2] : "trt-int8";
    int runs = argc > 3 ? atoi(argv[3]) : 100;
    qg_ctx *ctx;
    if (argc < 2 || runs < 1) {
        fprintf(stderr, "usage: bench_simulate MODEL [BACKEND] [RUNS]\n");
        return 2;
    }
    if (qg_open(NULL, &ctx) != QG_OK)
        return 1;
    qg_status s = bench(ctx, argv[1], backend, runs);
    if (s != QG_OK)
        fprintf(stderr, "bench_simulate: %s\n", qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}
