/* stream.h -- the values between blocks, of every sample, in several variants: as a
 * block is done its outputs replace what no later block reads.
 *
 * Block k is learned in this order (tune.c):
 *
 *     1  qg_stream_run(FLOAT)    the target; the tape has the constants of the float
 *                                network and does not round
 *     2  qg_stream_run(BEFORE)   for the comparison of whole networks at the end
 *     3  learning                inputs from NOW, targets from FLOAT
 *     4  qg_stream_run(NOW)      the inputs of later blocks
 *     5  qg_stream_done          frees what no later block reads
 *
 * Inputs from NOW let a block compensate the errors of the blocks before it.
 *
 * Every node runs once per sample and variant, with its definition; mixtures
 * (mixup.h) are samples, of which nothing is compared: they have no lane BEFORE.
 * Samples that are equal to an earlier one, byte for byte, are left out: one that
 * judges must not have taught.
 *
 * Memory   values alive between two blocks, for all samples and variants; the results
 *          of a block are freed together, after the last reader of any of them.  Inputs
 *          of the graph are stored once for all variants. */
#ifndef QG_ENGINE_LEARN_STREAM_H
#define QG_ENGINE_LEARN_STREAM_H

#include "engine/core/rng.h"
#include "engine/exec/ahead.h"
#include "engine/learn/block.h"
#include "engine/learn/tapes.h"
#include "engine/learn/verdict.h"

/* FLOAT: without rounding, as it was; BEFORE: quantized, as it was; NOW: quantized, as
 * learned so far. */
enum qg_lane { QG_LANE_FLOAT, QG_LANE_BEFORE, QG_LANE_NOW, QG_NLANE };

/* The caller sets ctx, graph, block, n_block and n_in before qg_stream_fetch, mixtures
 * before qg_stream_open, and rng before qg_stream_mix. */
typedef struct qg_stream {
    qg_ctx *ctx;
    const qg_graph *graph;
    const qg_block *block;
    size_t n_block;
    size_t mixtures; /* at most; those that are made: sample.mixed */
    qg_rng rng;      /* for them */
    qg_tune_samples sample;
    size_t *given;  /* [samples] the number of each among all that were given */
    size_t repeats; /* of them, left out */
    const qg_tensor **input; /* [samples * inputs] */
    size_t room;             /* samples and mixtures, at most */
    uint8_t *failed;         /* [room] mixtures that the network cannot run */
    qg_arena *arena;
    qg_arena **held;  /* [blocks + 1] results of a block; 0: graph inputs */
    qg_arena **mixed; /* [blocks + 1] the same of mixtures */
    size_t *last;     /* [values] the last block that reads it, from 1; n_block + 1: an
                      * output of the graph */
    const qg_tensor **at[QG_NLANE]; /* [values * room] NULL: not computed, or freed */
    const qg_tensor ***in;          /* [tapes][values] of one forward */
    size_t n_in;                    /* tapes that `in` has room for */
} qg_stream;

qg_tune_samples qg_stream_samples(const qg_feed *feed, const qg_feed *holdout);

/* Fetches all samples of the feed, then those of the holdout, NULL: none: then `sample`
 * is what is left without repeats.  After a failure, here or below, qg_stream_close
 * frees what there is. */
QG_NODISCARD qg_status qg_stream_fetch(qg_stream *s, const qg_feed *feed,
                                       const qg_feed *holdout);
/* Bytes of a mixture of the largest samples; 0: nothing can be mixed. */
size_t qg_stream_mixture_bytes(const qg_stream *s);
/* The inputs are in all lanes. */
QG_NODISCARD qg_status qg_stream_open(qg_stream *s);
/* Adds the mixtures, or none where memory lacks for them. */
QG_NODISCARD qg_status qg_stream_mix(qg_stream *s);
/* Leaves out all mixtures, for lack of memory; false: there are none. */
bool qg_stream_unmix(qg_stream *s);
void qg_stream_close(qg_stream *s); /* also of a zeroed one */

/* The inputs of the tape for one sample; in[t->n_in]. */
void qg_stream_inputs(const qg_stream *s, const qg_tape *t, enum qg_lane lane,
                      size_t sample, const qg_tensor **in);

/* Runs block k, whose tapes are t, for the samples of one lane, as the tapes are now.
 * Blocks are run in ascending order, each lane once per block.  Mixtures that fail are
 * no samples any more. */
QG_NODISCARD qg_status qg_stream_run(qg_stream *s, size_t k, const qg_tapes *t,
                                     enum qg_lane lane);

/* Whether a failure is that of a mixture which the network cannot run, such as one that
 * becomes a shape: it is left out. */
bool qg_stream_leaves_out(const qg_stream *s, size_t sample, qg_status why);

/* Block k is done in all lanes: frees what nothing reads any more. */
void qg_stream_done(qg_stream *s, size_t k);

/* Block k, which is not done, is as before its first run: its results are freed. */
QG_NODISCARD qg_status qg_stream_undo(qg_stream *s, size_t k);

/* A value of one sample, borrowed until qg_stream_done frees it; NULL: not computed
 * yet, or freed. */
const qg_tensor *qg_stream_value(const qg_stream *s, const qg_value *v,
                                 enum qg_lane lane, size_t sample);

#endif
