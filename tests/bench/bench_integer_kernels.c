/* bench_integer_kernels MODEL.onnx|SNAPSHOT [BACKEND [PROFILE [RUNS]]] -- one thread,
 * batch 1: the integer program of a model against its simulated and its float forward,
 * in turns.  Prints best times and their ratios; QG_STEPS=1 also the steps of the
 * integer plan.
 *
 * A model that is not quantized yet is quantized with BACKEND (tflite-int8) and one
 * random sample. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/api/qg.h"
#include "engine/config/profile_yaml.h"
#include "engine/lower/program.h"
#include "engine/session/session.h"
#include "tests/bench/steps.h"

typedef struct side {
    qg_plan *plan;
    qg_run *run;
    double best;
} side;

enum { FLOATS, SIMULATED, INTEGERS, DEFINED, SIDES };

static qg_status time_once(side *s, const qg_tensor *const *in)
{
    double start = bench_now();
    QG_TRY(qg_run_execute(s->run, in, NULL, 0, 0));
    double t = bench_now() - start;
    s->best = s->best == 0 || t < s->best ? t : s->best;
    return QG_OK;
}

static qg_status plan_integer(qg_model *m, const qg_program *p, bool reference,
                              qg_plan **out)
{
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .reference = reference };
    return qg_plan_new(m->ctx, p->graph, &o, out);
}

static qg_status compare(qg_model *m, const qg_program *p, side s[SIDES], int runs)
{
    const qg_tensor **in = QG_NEWN(m->ctx->arena, m->graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(m->ctx);
    QG_TRY(bench_inputs(m->ctx, m->graph, in));
    QG_TRY(qg_model_plan(m, QG_RUN_FLOAT, false, NULL, NULL, &s[FLOATS].plan));
    QG_TRY(qg_model_plan(m, QG_RUN_SIMULATE, false, NULL, NULL, &s[SIMULATED].plan));
    QG_TRY(plan_integer(m, p, false, &s[INTEGERS].plan));
    QG_TRY(plan_integer(m, p, true, &s[DEFINED].plan));
    for (int k = 0; k < SIDES; k++)
        QG_TRY(qg_run_new(m->ctx, s[k].plan, &s[k].run));
    for (int i = 0; i < runs; i++)
        for (int k = 0; k < SIDES; k++)
            if (k != DEFINED || i == 0)
                QG_TRY(time_once(&s[k], in));
    printf("float_ms %.4f simulate_ms %.4f integer_ms %.4f definition_ms %.1f "
           "integer/float %.3f kernels %u of %u nodes\n",
           1e3 * s[FLOATS].best, 1e3 * s[SIMULATED].best, 1e3 * s[INTEGERS].best,
           1e3 * s[DEFINED].best, s[INTEGERS].best / s[FLOATS].best,
           s[INTEGERS].plan->report.kernels, s[INTEGERS].plan->report.nodes);
    return getenv("QG_STEPS") ? bench_print_steps(m->ctx, s[INTEGERS].plan,
                                                  s[INTEGERS].run, in, (size_t)runs)
                              : QG_OK;
}

static qg_status bench(qg_ctx *ctx, const char *path, const char *backend,
                       const char *profile, int runs)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    side s[SIDES] = { { 0 } };
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
        status = compare(m, p, s, runs);
    for (int k = 0; k < SIDES; k++) {
        qg_run_free(s[k].run);
        qg_plan_free(s[k].plan);
    }
    qg_program_free(p);
    qg_model_close(m);
    return status;
}

int main(int argc, char **argv)
{
    const char *backend = argc > 2 ? argv[2] : "tflite-int8";
    const char *profile = argc > 3 ? argv[3] : "tflite-reference";
    int runs = argc > 4 ? atoi(argv[4]) : 50;
    qg_ctx *ctx;
    if (argc < 2 || runs < 1) {
        fprintf(stderr, "usage: %s MODEL [BACKEND [PROFILE [RUNS]]]\n", argv[0]);
        return 2;
    }
    if (qg_open(NULL, &ctx) != QG_OK)
        return 1;
    qg_status s = bench(ctx, argv[1], backend, profile, runs);
    if (s != QG_OK)
        fprintf(stderr, "bench_integer: %s\n", qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}
