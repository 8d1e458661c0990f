/* bench_workers MODEL.onnx [RUNS] [ROUNDS] -- throughput of two workers in one process
 * against two processes of one worker each that run at the same time, in turns; float
 * forward, batch 1.  Prints the best samples per second of each and their ratio. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/exec/drive.h"
#include "engine/exec/pool.h"
#include "engine/onnx/import.h"
#include "engine/ir/infer.h"
#include "ops/families.h"
#include "tests/bench/steps.h"

/* One sample for all: the same random tensors, so that fetching costs nothing. */
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_tensor *const *x = ud;
    (void)ctx, (void)a, (void)sample;
    for (size_t i = 0; x[i]; i++)
        in[i] = x[i];
    return QG_OK;
}

/* Seconds for 2 * runs samples by two workers. */
static qg_status time_workers(qg_ctx *ctx, qg_drive d, size_t runs, double *t)
{
    double start = bench_now();
    d.n = 2 * runs;
    d.jobs = 2;
    QG_TRY(qg_drive_run(ctx, &d));
    *t = bench_now() - start;
    return QG_OK;
}

/* Seconds until both of two processes have done `runs` samples each. */
static qg_status time_processes(qg_ctx *ctx, qg_drive d, size_t runs, double *t)
{
    double start = bench_now();
    int failed = 0;
    pid_t child[2];
    d.n = runs;
    d.jobs = 1;
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(qg_drive_run(ctx, &d) != QG_OK);
    }
    for (int i = 0; i < 2; i++) {
        int status = 1;
        if (child[i] < 0 || waitpid(child[i], &status, 0) < 0 || status != 0)
            failed = 1;
    }
    *t = bench_now() - start;
    return failed ? qg_fail(ctx, QG_ESTATE, "a process failed") : QG_OK;
}

static qg_status compare(qg_ctx *ctx, const qg_graph *g, const qg_plan *p, size_t runs,
                         int rounds)
{
    const qg_tensor **in = QG_NEWN(ctx->arena, g->input.n + 1, const qg_tensor *);
    double best[2] = { 0 };
    if (!in)
        return qg_nomem(ctx);
    QG_TRY(bench_inputs(ctx, g, in));
    qg_feed feed = { .n = 2 * runs, .fetch = fetch, .ud = (void *)(uintptr_t)in };
    qg_drive d = { .plan = p, .feed = &feed };
    for (int i = 0; i < rounds; i++) {
        double t[2];
        QG_TRY(time_processes(ctx, d, runs, &t[0])); /* forks before threads exist */
        QG_TRY(time_workers(ctx, d, runs, &t[1]));
        for (int k = 0; k < 2; k++)
            best[k] = best[k] == 0 || t[k] < best[k] ? t[k] : best[k];
    }
    printf("processes_per_s %.1f workers_per_s %.1f ratio %.3f cores %u\n",
           (double)feed.n / best[0], (double)feed.n / best[1], best[0] / best[1],
           qg_cores());
    return QG_OK;
}

static qg_status bench(qg_ctx *ctx, const char *path, size_t runs, int rounds)
{
    qg_graph *g = NULL;
    qg_plan *p = NULL;
    qg_plan_options o = { .mode = QG_MODE_FLOAT };
    QG_TRY(qg_onnx_import(ctx, path, NULL, &g));
    qg_status s = qg_infer(g, NULL, 0);
    if (s == QG_OK)
        s = qg_plan_new(ctx, g, &o, &p);
    if (s == QG_OK)
        s = compare(ctx, g, p, runs, rounds);
    qg_plan_free(p);
    qg_graph_free(g);
    return s;
}

int main(int argc, char **argv)
{
    int runs = argc > 2 ? atoi(argv[2]) : 200, rounds = argc > 3 ? atoi(argv[3]) : 5;
    if (argc < 2 || runs < 1 || rounds < 1) {
        fprintf(stderr, "usage: bench_workers MODEL.onnx [RUNS] [ROUNDS]\n");
        return 2;
    }
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 1;
    ctx->registry = &qg_ops_registry;
    qg_status s = bench(ctx, argv[1], (size_t)runs, rounds);
    if (s != QG_OK)
        fprintf(stderr, "bench_workers: %s\n", qg_ctx_message(ctx));
    qg_ctx_free(ctx);
    return s != QG_OK;
}
