/* steps.h -- the clock, inputs for any graph, and the time of every step of a plan. */
#ifndef QG_TESTS_BENCH_STEPS_H
#define QG_TESTS_BENCH_STEPS_H

#include <stdio.h>
#include <time.h>

#include "engine/core/rng.h"
#include "engine/exec/run.h"

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of this thread alone: other work on the machine adds less than to the
 * clock. */
static inline double bench_thread_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* in: [graph inputs], seeded uniform in [0, 1) where float32, else zeros, in the arena
 * of the context. */
static inline qg_status bench_inputs(qg_ctx *ctx, const qg_graph *g,
                                     const qg_tensor **in)
{
    qg_rng rng = { 1 };
    for (size_t i = 0; i < g->input.n; i++) {
        qg_tensor *x = QG_NEW(ctx->arena, qg_tensor);
        if (!x)
            return qg_nomem(ctx);
        *x = g->input.at[i]->type;
        QG_TRY(qg_tensor_alloc(ctx, ctx->arena, x));
        for (int64_t k = 0; x->dtype == QG_F32 && k < qg_tensor_count(x); k++)
            x->f32[k] = qg_rng_float(&rng);
        in[i] = x;
    }
    return QG_OK;
}

static inline const char *bench_step_name(const qg_step *s)
{
    static const char *const kinds[] = { "node", "reorder", "round", "watch" };
    return s->kind == QG_STEP_NODE ? s->node->op->name : kinds[s->kind];
}

/* QG_STEPS=1: the best time of every step (microseconds; the clock itself takes some
 * hundredths) and what it writes. */
static inline qg_status bench_print_steps(qg_ctx *ctx, const qg_plan *p, qg_run *r,
                                          const qg_tensor *const *in, size_t n)
{
    double *best = QG_NEWN(ctx->arena, p->step.n, double);
    double (*now)(void) = p->options.threads > 1 ? bench_now : bench_thread_now;
    if (!best)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        QG_TRY(qg_run_begin(r, in, NULL, 0, i));
        for (size_t k = 0; k < p->step.n; k++) {
            double start = now();
            QG_TRY(qg_run_step(r, k));
            double t = now() - start;
            best[k] = i == 0 || t < best[k] ? t : best[k];
        }
    }
    for (size_t k = 0; k < p->step.n; k++) {
        const qg_step *s = &p->step.at[k];
        char shape[QG_SHAPE_TEXT];
        uint32_t to = s->n_out ? p->slot.at[s->first + s->n_in] : QG_NONE;
        fprintf(stderr, "%4zu %9.2f us %2u %-12s %-24s %s\n", k, 1e6 * best[k],
                s->parts, bench_step_name(s),
                to == QG_NONE ? "" : qg_tensor_text(&p->tensor.at[to].type, shape),
                s->kernel ? s->kernel->name : "");
    }
    return QG_OK;
}

#endif
