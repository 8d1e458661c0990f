/* bench_forward MODEL.onnx [RUNS [THREADS]] -- batch 1, random input: best and median
 * time of a float forward, and the time and memory of its plan.  One thread: CPU time;
 * more: wall time.
 *
 * tests/bench/forward.py runs it in turns with onnxruntime and prints the ratio.
 * With QG_STEPS in the environment the steps of the plan and their times as well. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/onnx/import.h"
#include "engine/ir/infer.h"
#include "ops/families.h"
#include "tests/bench/steps.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static qg_status time_runs(qg_ctx *ctx, const qg_graph *g, const qg_plan *p, size_t n,
                           double made)
{
    qg_run *r;
    double (*now)(void) = p->options.threads > 1 ? bench_now : bench_thread_now;
    const qg_tensor **in = QG_NEWN(ctx->arena, g->input.n, const qg_tensor *);
    double *t = QG_NEWN(ctx->arena, n, double);
    if (!in || !t)
        return qg_nomem(ctx);
    QG_TRY(bench_inputs(ctx, g, in));
    QG_TRY(qg_run_new(ctx, p, &r));
    qg_status s = QG_OK;
    for (size_t i = 0; i < n + 3 && s == QG_OK; i++) {
        double start = now();
        s = qg_run_execute(r, in, NULL, 0, i);
        t[i < 3 ? 0 : i - 3] = now() - start;
    }
    if (s == QG_OK && getenv("QG_STEPS"))
        s = bench_print_steps(ctx, p, r, in, n);
    qg_run_free(r);
    qsort(t, n, sizeof *t, by_value);
    printf("best_ms %.4f median_ms %.4f plan_ms %.2f plan_bytes %zu lower_bound %zu "
           "ratio %.3f "
           "steps %u kernels %u absorbed %u reorders %u split %u\n",
           1e3 * t[0], 1e3 * t[n / 2], 1e3 * made, p->report.bytes,
           p->report.lower_bound,
           (double)p->report.bytes / (double)p->report.lower_bound, p->report.steps,
           p->report.kernels, p->report.absorbed, p->report.reorders, p->report.split);
    return s;
}

static qg_status bench(qg_ctx *ctx, const char *path, size_t n, unsigned threads)
{
    qg_graph *g = NULL;
    qg_plan *p = NULL;
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .threads = threads };
    QG_TRY(qg_onnx_import(ctx, path, NULL, &g));
    qg_status s = qg_infer(g, NULL, 0);
    const double start = bench_thread_now();
    if (s == QG_OK)
        s = qg_plan_new(ctx, g, &o, &p);
    const double made = bench_thread_now() - start;
    if (s == QG_OK)
        s = time_runs(ctx, g, p, n, made);
    qg_plan_free(p);
    qg_graph_free(g);
    return s;
}

int main(int argc, char **argv)
{
    size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 50;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 2 || n == 0 || threads < 1) {
        fprintf(stderr, "usage: bench_forward MODEL.onnx [RUNS [THREADS]]\n");
        return 2;
    }
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 1;
    ctx->registry = &qg_ops_registry;
    qg_status s = bench(ctx, argv[1], n, (unsigned)threads);
    if (s != QG_OK)
        fprintf(stderr, "bench_forward: %s\n", qg_ctx_message(ctx));
    qg_ctx_free(ctx);
    return s != QG_OK;
}
