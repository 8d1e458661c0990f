/* bench_passes [ROUNDS] -- that work on a graph is linear in its nodes: a chain with
 * branches of 10,000 and of 100,000 nodes is imported from an ONNX file, verified, led
 * through every pass up to the last decision and compiled to a plan.  Prints
 * microseconds per node at both sizes (the best of the rounds, sizes in turns) and
 * their ratio: near 1 when linear, 10 when quadratic.  Asserts nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/config/backend_yaml.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/ir/check.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "tests/bench/steps.h"

/* The pipeline's part before calibration, configs/pipelines/default.yaml. */
static const char *const passes[] = { "fold-constants", "fuse-batchnorm", "fuse-bias",
                                      "sweep",          "dispatch",       "rules",
                                      "fuse",           "passive",        "fuse-late",
                                      "simplify" };
enum { N_PASSES = sizeof passes / sizeof *passes };
enum { IMPORT, INFER, VERIFY, FIRST_PASS, PLAN = FIRST_PASS + N_PASSES, TOTAL, N_ROWS };

static const char *row_name(int k)
{
    static const char *const first[] = { "import", "infer", "verify" };
    return k < FIRST_PASS ? first[k]
           : k == PLAN    ? "plan"
           : k == TOTAL   ? "all of it"
                          : passes[k - FIRST_PASS];
}

/* Blocks of five: a Conv whose output feeds a Relu and, past it, an Add. */
static qg_status write_model(qg_ctx *ctx, size_t nodes, const char *path)
{
    size_t room = nodes * 64 + 512, n;
    char *text = qg_arena_get(ctx->arena, 1, room);
    if (!text)
        return qg_nomem(ctx);
    n = (size_t)snprintf(text, room,
                         "graph {\nopset 17\nv0 = input f32[1,4,2,2]\n"
                         "w = const f32[4,4,1,1] seed(1)\n");
    size_t blocks = nodes / 5;
    for (size_t i = 0; i < blocks; i++)
        n += (size_t)snprintf(text + n, room - n,
                              "c%zu = Conv(v%zu, w)\nr%zu = Relu(c%zu)\n"
                              "a%zu = Add(r%zu, c%zu)\nk%zu = Relu(a%zu)\n"
                              "v%zu = MaxPool(k%zu) kernel_shape=[1,1]\n",
                              i, i, i, i, i, i, i, i, i, i + 1, i);
    n += (size_t)snprintf(text + n, room - n, "output v%zu\n}\n", blocks);
    qg_text_source source = { .name = "chain", .text = text, .size = n };
    qg_graph *g;
    QG_TRY(qg_text_parse(ctx, &source, &g));
    qg_status s = qg_onnx_export(ctx, g, path, NULL);
    qg_graph_free(g);
    return s;
}

static void took(double *row, double *since)
{
    double now = bench_now();
    *row = now - *since;
    *since = now;
}

static qg_status lead(qg_pass_env *env, double *seconds)
{
    qg_plan *plan;
    double at = bench_now();
    QG_TRY(qg_infer(env->graph, NULL, 0));
    took(&seconds[INFER], &at);
    QG_TRY(qg_check_graph(env->ctx, env->graph, QG_CHECK_ALL));
    took(&seconds[VERIFY], &at);
    QG_TRY(qg_pass_run_all(env, qg_passes, passes, N_PASSES));
    for (int i = 0; i < N_PASSES; i++)
        seconds[FIRST_PASS + i] = env->result.at[i].seconds;
    at = bench_now();
    qg_plan_options o = { .mode = QG_MODE_SIMULATE, .quant = env->quant };
    QG_TRY(qg_plan_new(env->ctx, env->graph, &o, &plan));
    took(&seconds[PLAN], &at);
    qg_plan_free(plan);
    return QG_OK;
}

/* One life of a model in a context of its own. */
static qg_status measure(const char *path, double *seconds)
{
    static const char *const dir = QG_CONFIG_DIR "/backends";
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_pass_env env = { .ctx = ctx };
    qg_backend *b;
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = &qg_ops_registry;
    ctx->config_dir = QG_CONFIG_DIR;
    qg_status s = qg_backend_load(ctx, ctx->arena, "trt-int8",
                                  (qg_search){ .dir = &dir, .n = 1 }, &b);
    double start = bench_now(), at = start;
    if (s == QG_OK)
        s = qg_onnx_import(ctx, path, NULL, &env.graph);
    took(&seconds[IMPORT], &at);
    env.backend = b;
    if (s == QG_OK)
        s = lead(&env, seconds);
    seconds[TOTAL] = bench_now() - start;
    if (s != QG_OK)
        (void)fprintf(stderr, "bench_passes: %s\n", qg_ctx_message(ctx));
    qg_graph_free(env.graph);
    qg_ctx_free(ctx);
    return s;
}

/* measure in a process of its own, as every command of a user is: in this one the small
 * model would get the pages that earlier rounds have touched, and the large one not.
 * What is paid once per process (code of oneDNN, tables) goes to `tiny`. */
static qg_status measure_apart(const char *tiny, const char *path, double *seconds)
{
    int end[2], status = 0;
    if (pipe(end) != 0)
        return QG_EIO;
    pid_t child = fork();
    if (child == 0) {
        bool good = measure(tiny, seconds) == QG_OK &&
                    measure(path, seconds) == QG_OK &&
                    write(end[1], seconds, N_ROWS * sizeof *seconds) ==
                        (ssize_t)(N_ROWS * sizeof *seconds);
        _exit(good ? 0 : 1);
    }
    (void)close(end[1]);
    bool good = child > 0 && read(end[0], seconds, N_ROWS * sizeof *seconds) ==
                                 (ssize_t)(N_ROWS * sizeof *seconds);
    (void)close(end[0]);
    if (child > 0 && waitpid(child, &status, 0) != child)
        good = false;
    return good && status == 0 ? QG_OK : QG_EIO;
}

static qg_status keep_best(const char *tiny, const char *path, size_t nodes,
                           double *best)
{
    double seconds[N_ROWS];
    QG_TRY(measure_apart(tiny, path, seconds));
    for (int k = 0; k < N_ROWS; k++) {
        double us = 1e6 * seconds[k] / (double)nodes;
        best[k] = best[k] == 0 || us < best[k] ? us : best[k];
    }
    return QG_OK;
}

int main(int argc, char **argv)
{
    enum { TINY = 2, N_SIZES };
    static const size_t size[N_SIZES] = { 10000, 100000, [TINY] = 100 };
    double best[2][N_ROWS] = { 0 };
    char path[N_SIZES][64];
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_status s = ctx && rounds > 0 ? QG_OK : QG_ECONFIG;
    if (ctx)
        ctx->registry = &qg_ops_registry;
    for (int k = 0; k < N_SIZES && s == QG_OK; k++) {
        (void)snprintf(path[k], sizeof path[k], "bench_passes.%ld.%d.onnx",
                       (long)getpid(), k);
        s = write_model(ctx, size[k], path[k]);
    }
    for (int i = 0; i < 2 * rounds && s == QG_OK; i++)
        s = keep_best(path[TINY], path[i % 2], size[i % 2], best[i % 2]);
    for (int k = 0; k < N_SIZES; k++)
        (void)remove(path[k]);
    qg_ctx_free(ctx);
    if (s != QG_OK)
        return 1;
    (void)printf("%-16s %14s %14s %7s\n", "us per node", "10,000 nodes",
                 "100,000 nodes", "ratio");
    for (int k = 0; k < N_ROWS; k++)
        (void)printf("%-16s %14.3f %14.3f %7.2f\n", row_name(k), best[0][k], best[1][k],
                     best[1][k] / best[0][k]);
    return 0;
}
