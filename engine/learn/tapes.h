/* tapes.h -- copies of a tape that work at the same time on different samples.
 *
 *     tape[0] .. tape[n-1]   the same block; weights and learned scales are those of
 *                            tape[0], activations and gradients their own
 *
 * Samples are worked on in rounds of n, in parallel, and are done one after the other:
 *
 *     round        work, at the same time      then, in order     then, together
 *     0, 1         tape 0: 0   tape 1: 1       done 0, done 1     after 0, after 1
 *     2, 3         tape 0: 2   tape 1: 3       done 2, done 3     after 2, after 3
 *
 * Whatever is summed over samples is summed in `done`, so that sums do not depend on
 * the number of tapes.
 *
 * Memory   of one forward and backward per tape
 * Failures the first index that fails is reported, as without threads */
#ifndef QG_ENGINE_LEARN_TAPES_H
#define QG_ENGINE_LEARN_TAPES_H

#include "engine/exec/pool.h"
#include "engine/learn/tape.h"

typedef struct qg_tapes {
    qg_ctx *ctx;
    qg_team *team; /* a thread per tape; NULL: one tape, or dismissed */
    size_t n;
    qg_tape **tape; /* [n] the first leads: parameters are changed there */
    qg_arena *arena;
} qg_tapes;

/* n > 0 tapes of one block; owned by out.  After a failure qg_tapes_free frees
 * what there is. */
QG_NODISCARD qg_status qg_tapes_new(qg_ctx *ctx, qg_graph *g, const qg_quant *q,
                                    const qg_tape_options *o, size_t n, qg_tapes *out);
void qg_tapes_free(qg_tapes *t); /* also of a zeroed one */

/* All but the leader, whose parameters are what is still needed of a block that is
 * done. */
void qg_tapes_dismiss(qg_tapes *t);

/* Work on samples 0 .. n-1, which are numbers of the caller.  done and after may be
 * NULL. */
typedef struct qg_tapes_work {
    size_t n;
    qg_status (*work)(void *ud, qg_tape *tape, size_t i);  /* any thread */
    qg_status (*done)(void *ud, qg_tape *tape, size_t i);  /* the calling thread, in
                                                           * ascending order */
    qg_status (*after)(void *ud, qg_tape *tape, size_t i); /* any thread */
    void *ud;
} qg_tapes_work;
QG_NODISCARD qg_status qg_tapes_run(const qg_tapes *t, const qg_tapes_work *w);

/* Any other job, by the same threads, not during a run; job->workers: 1. */
QG_NODISCARD qg_status qg_tapes_share(const qg_tapes *t, const qg_job *job);

#endif
