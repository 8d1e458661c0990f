/* ahead.h -- samples read ahead of the workers.
 *
 * A separate thread reads the next samples in order of index while the workers compute,
 * and keeps at most as many as there are slots.  A worker that needs a sample whose
 * reading has not begun reads it itself: fast workers all read, slow workers find every
 * sample ready.
 *
 *     QG_TRY(qg_ahead_open(ctx, &feed, n, inputs, workers, &h));
 *     in a worker:  QG_TRY(qg_ahead_take(h, ctx, i, &mine));   // mine.in, mine.arena
 *     qg_ahead_close(h);
 *
 *     reader      0 1 2 3 . . 4 5         slots 2: never more than two ahead of the
 *     worker      .   0 0 0 1 1 1 2       last sample that was taken
 *
 * The result is the feed's sample of that index, whichever thread read it: results,
 * failures and their messages do not depend on timing.  A failure of the reader is
 * discarded; the worker reads again and fails itself.
 *
 * Memory   inputs of `slots` samples, besides those that the workers hold
 * Threads  take may be called from any number of threads, each index once; fetch of the
 *          feed is called by the reader and the workers at the same time
 * Owner    a sample is its worker's; taking swaps its arena with that of a slot */
#ifndef QG_ENGINE_EXEC_AHEAD_H
#define QG_ENGINE_EXEC_AHEAD_H

#include "engine/ir/tensor_memory.h"

/* The source of samples.  fetch sets in[i] for every graph input; the tensors and their
 * data live in `a`, which is reset for the next sample.  Called by many threads, in any
 * order, also twice for one sample. */
typedef struct qg_feed {
    size_t n;
    /* [graph inputs] shapes common to all samples where the graph has dynamic dims:
     * plans are made for them.  NULL: no dynamic dims, or samples differ. */
    const qg_tensor *shape;
    qg_status (*fetch)(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in);
    void *ud;
    const char *from; /* file or folder of the samples, for messages; may be NULL */
} qg_feed;

/* The inputs of one sample; `arena` is the holder's to make and to free. */
typedef struct qg_sample {
    qg_arena *arena;
    const qg_tensor **in; /* [inputs], in arena */
} qg_sample;

typedef struct qg_ahead qg_ahead;

/* Samples 0 .. n-1 of the feed, which must outlive it.  slots: at most 64 are used;
 * 0, or if no thread can be started: nothing is read ahead, results are the same.
 * QG_ENOMEM. */
QG_NODISCARD qg_status qg_ahead_open(qg_ctx *ctx, const qg_feed *feed, size_t n,
                                     size_t inputs, unsigned slots, qg_ahead **out);
void qg_ahead_close(qg_ahead *h); /* waits for the reader; NULL is fine */

/* Sample i into *s; the previous contents of s are lost, also after a failure. */
QG_NODISCARD qg_status qg_ahead_take(qg_ahead *h, qg_ctx *ctx, size_t i, qg_sample *s);

#endif
