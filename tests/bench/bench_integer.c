/* bench_integer SNAPSHOT PROFILE [RUNS] -- one thread, batch 1, random input: sessions
 * in mode float, simulate and integer in turns.  Prints best times.
 *
 * tests/bench/integer.py runs it in turns with onnxruntime on the same network. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/api/qg.h"
#include "engine/session/session.h"
#include "tests/bench/steps.h"

enum { MODES = 3, WARM = 3 };
static const char *const modes[MODES] = { "float", "simulate", "integer" };

static qg_status open_sessions(qg_model *m, const char *profile, qg_session **s)
{
    for (int k = 0; k < MODES; k++) {
        qg_session_options o;
        qg_session_options_init(&o, sizeof o);
        o.mode = modes[k];
        o.profile = k == MODES - 1 ? profile : NULL;
        QG_TRY(qg_session_new(m, &o, &s[k]));
    }
    return QG_OK;
}

static qg_status run_all(qg_model *m, qg_session *const *s, int runs)
{
    double best[MODES] = { 0 };
    const qg_tensor **in = QG_NEWN(m->ctx->arena, m->graph->input.n, const qg_tensor *);
    qg_tensor *x = QG_NEWN(m->ctx->arena, m->graph->input.n, qg_tensor);
    if (!in || !x)
        return qg_nomem(m->ctx);
    QG_TRY(bench_inputs(m->ctx, m->graph, in));
    for (size_t i = 0; i < m->graph->input.n; i++)
        x[i] = *in[i];
    for (int i = 0; i < MODES * (runs + WARM); i++) {
        int k = (i + i / MODES) % MODES; /* each comes behind each other one */
        double start = bench_now();
        QG_TRY(qg_session_run(s[k], x, m->graph->input.n, NULL, 0));
        double t = bench_now() - start;
        if (i >= MODES * WARM && (best[k] == 0 || t < best[k]))
            best[k] = t;
    }
    for (int k = 0; k < MODES; k++)
        printf("%s_ms %.4f%c", modes[k], 1e3 * best[k], k < MODES - 1 ? ' ' : '\n');
    return QG_OK;
}

static qg_status bench(qg_ctx *ctx, const char *path, const char *profile, int runs)
{
    qg_model *m = NULL;
    qg_session *s[MODES] = { NULL };
    QG_TRY(qg_model_open(ctx, path, NULL, &m));
    qg_status status = open_sessions(m, profile, s);
    if (status == QG_OK)
        status = run_all(m, s, runs);
    for (int k = 0; k < MODES; k++)
        qg_session_free(s[k]);
    qg_model_close(m);
    return status;
}

int main(int argc, char **argv)
{
    int runs = argc > 3 ? atoi(argv[3]) : 50;
    qg_ctx *ctx;
    if (argc < 3 || runs < 1) {
        fprintf(stderr, "usage: bench_integer SNAPSHOT PROFILE [RUNS]\n");
        return 2;
    }
    if (qg_open(NULL, &ctx) != QG_OK)
        return 1;
    qg_status s = bench(ctx, argv[1], argv[2], runs);
    if (s != QG_OK)
        fprintf(stderr, "bench_integer: %s\n", qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}
