/* run.h -- executing a plan: one run context per worker.
 *
 * The second run of a context allocates nothing (dynamic shapes excepted: their arena
 * keeps its blocks).
 *
 *     QG_TRY(qg_run_new(ctx, plan, &r));
 *     QG_TRY(qg_run_execute(r, in, NULL, 0, 0));
 *     const qg_tensor *y = qg_run_output(r, 0);
 *     qg_run_free(r); */
#ifndef QG_ENGINE_EXEC_RUN_H
#define QG_ENGINE_EXEC_RUN_H

#include "engine/exec/plan.h"

/* The mutable memory of one worker: activations (plan->report.bytes), scratch of
 * operators, kernels' own state, results of dynamic shape.  Not shared between
 * threads. */
typedef struct qg_run qg_run;

/* ctx is the worker's context (messages, allocator); it and the plan must outlive
 * it. */
QG_NODISCARD qg_status qg_run_new(qg_ctx *ctx, const qg_plan *p, qg_run **out);
/* The same with the activations in `block`: p->report.bytes bytes, aligned to 64,
 * borrowed.  Runs that take turns may share one; outputs of a run are good until
 * another of them executes. */
QG_NODISCARD qg_status qg_run_new_in(qg_ctx *ctx, const qg_plan *p, void *block,
                                     qg_run **out);
void qg_run_free(qg_run *r); /* NULL is fine */

/* in[i]: plain tensor for graph input i, borrowed for the call; type and dims must be
 * the plan's (QG_EDATA names the input).  hooks are called in order at watched
 * nodes.
 * `sample` is only passed to the hooks.  After a failure, of an operator or a hook,
 * outputs are undefined; the next call is not affected. */
QG_NODISCARD qg_status qg_run_execute(qg_run *r, const qg_tensor *const *in,
                                      const qg_hook *hook, size_t n_hook,
                                      size_t sample);

/* The same in pieces, for callers that time or watch single steps: begin, then each
 * step of the plan once, in order. */
QG_NODISCARD qg_status qg_run_begin(qg_run *r, const qg_tensor *const *in,
                                    const qg_hook *hook, size_t n_hook, size_t sample);
QG_NODISCARD qg_status qg_run_step(qg_run *r, size_t i);

/* The same for a plan made with a base: `from` is a run of the base plan that has just
 * executed the sample; its values must stay until this returns.  Kernels of the base
 * run with the state of `from`: one thread at a time. */
QG_NODISCARD qg_status qg_run_execute_from(qg_run *r, const qg_run *from,
                                           const qg_hook *hook, size_t n_hook,
                                           size_t sample);

/* Value k of options.keep as the last run had it, plain; valid until the next one. */
const qg_tensor *qg_run_kept(const qg_run *r, size_t k);

/* Output i of the last run, plain; valid until the next one. */
const qg_tensor *qg_run_output(const qg_run *r, size_t i);

#endif
