/* passes.h -- every pass in the build.  CMake reads passes.def too, so one line there
 * compiles the file, links it and lists the pass.
 *
 * The passes, in the order of the default pipeline:
 *
 *     fold-constants         compute once what does not depend on the inputs
 *     fuse-batchnorm         multiply normalizations into the weights before them
 *     fuse-bias              turn sums with constants behind compute nodes into bias
 *     sweep                  remove dead code
 *     equalize               weights of layers in a row get channels of like size (off)
 *     dispatch               decide per node: quantized, float, or shape and index data
 *     rules                  make the TQCs, by the rules of the backend
 *     fuse                   silence what the backend computes in one kernel
 *     passive                outputs of nodes that only move values follow their input
 *     fuse-late              fusions over groups that passive has made
 *     simplify               inputs that would repeat a rounding keep silent
 *     calibrate-parameters   scales of constants, from their values
 *     calibrate-activations  scales of activations, from samples
 *     align                  operands that must share a scale get one
 *     derive-passive         scales of biases, bounds and pad values
 *     bias-correct           biases take back what rounding adds to means (off)
 *     bake                   constants are put on their grid
 *
 * Those before `rules` change the graph and know no TQCs; those after it change TQCs
 * and leave the topology alone (bias-correct gives constants new numbers). */
#ifndef QG_PASSES_PASSES_H
#define QG_PASSES_PASSES_H

#include "engine/pass/pass.h"

#define PASS(p) extern const qg_pass qg_pass_##p;
#include "passes/passes.def"
#undef PASS

/* The passes of the build; ends with NULL. */
extern const qg_pass *const qg_passes[];

/* All passes that the context knows, for qg_pass_run_all: qg_passes, and behind them
 * what a host added, in its order.  Ends with NULL; in a. */
QG_NODISCARD qg_status qg_passes_of(qg_ctx *ctx, qg_arena *a,
                                    const qg_pass *const **out);

#endif
