/* bench_integer MODEL|SNAPSHOT PROFILE [RUNS [BACKEND]] -- one thread, batch 1, random
 * input: plans in mode float, simulate and integer in turns.  Prints best times;
 * QG_STEPS=1 also the steps of the integer plan.
 *
 * A model that is not quantized yet is quantized with BACKEND (tflite-int8) and one
 * random sample.  tests/bench/integer.py runs it in turns with onnxruntime on the same
 * network. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/api/qg.h"
#include "engine/config/profile_yaml.h"
#include "engine/lower/program.h"
#include "engine/session/session.h"
#include "tests/bench/steps.h"

enum { FLOATS, SIMULATED, INTEGERS, MODES, WARM = 3 };
static const char *const modes[MODES] = { "float", "simulate", "integer" };

typedef struct side {
    qg_plan *plan;
    qg_run *run;
} side;

static qg_status open_sides(qg_model *m, const qg_program *p, side s[MODES])
{
    qg_plan_options o = { .mode = QG_MODE_FLOAT };
    QG_TRY(qg_model_plan(m, QG_RUN_FLOAT, NULL, NULL, NULL, &s[FLOATS].plan));
    QG_TRY(qg_model_plan(m, QG_RUN_SIMULATE, NULL, NULL, NULL, &s[SIMULATED].plan));
    QG_TRY(qg_plan_new(m->ctx, p->graph, &o, &s[INTEGERS].plan));
    for (int k = 0; k < MODES; k++)
        QG_TRY(qg_run_new(m->ctx, s[k].plan, &s[k].run));
    return QG_OK;
}

static qg_status compare(qg_model *m, const side s[MODES], int runs)
{
    double best[MODES] = { 0 };
    const qg_tensor **in = QG_NEWN(m->ctx->arena, m->graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(m->ctx);
    QG_TRY(bench_inputs(m->ctx, m->graph, in));
    for (int i = 0; i < MODES * (runs + WARM); i++) {
        int k = (i + i / MODES) % MODES; /* each comes behind each other one */
        double start = bench_now();
        QG_TRY(qg_run_execute(s[k].run, in, NULL, 0, 0));
        double t = bench_now() - start;
        if (i >= MODES * WARM && (best[k] == 0 || t < best[k]))
            best[k] = t;
    }
    for (int k = 0; k < MODES; k++)
        printf("%s_ms %.4f%c", modes[k], 1e3 * best[k], k < MODES - 1 ? ' ' : '\n');
    return getenv("QG_STEPS") ? bench_print_steps(m->ctx, s[INTEGERS].plan,
                                                  s[INTEGERS].run, in, (size_t)runs)
                              : QG_OK;
}

static qg_status bench(qg_ctx *ctx, const char *path, const char *backend,
                       const char *profile, int runs)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    side s[MODES] = { { 0 } };
    const qg_profile *row;
    qg_program *p = NULL;
    qg_search search;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:1";
    QG_TRY(qg_config_search(ctx, ctx->arena, "profiles", &search));
    QG_TRY(qg_profile_load(ctx, ctx->arena, profile, search, &row));
    QG_TRY(qg_model_open(ctx, path, NULL, &m));
    qg_status status =
        qg_model_is_quantized(m) ? QG_OK : qg_model_quantize(m, &o, NULL);
    if (status == QG_OK)
        status = qg_lower_program(m->graph, row, &(qg_lower_options){ 0 }, &p);
    if (status == QG_OK)
        status = open_sides(m, p, s);
    if (status == QG_OK)
        status = compare(m, s, runs);
    for (int k = 0; k < MODES; k++) {
        qg_run_free(s[k].run);
        qg_plan_free(s[k].plan);
    }
    qg_program_free(p);
    qg_model_close(m);
    return status;
}

int main(int argc, char **argv)
{
    int runs = argc > 3 ? atoi(argv[3]) : 50;
    qg_ctx *ctx;
    if (argc < 3 || runs < 1) {
        fprintf(stderr, "usage: bench_integer MODEL PROFILE [RUNS [BACKEND]]\n");
        return 2;
    }
    if (qg_open(NULL, &ctx) != QG_OK)
        return 1;
    qg_status s =
        bench(ctx, argv[1], argc > 4 ? argv[4] : "tflite-int8", argv[2], runs);
    if (s != QG_OK)
        fprintf(stderr, "bench_integer: %s\n", qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}
