/* passes.h -- every pass in the build.  CMake reads passes.def too, so one line there
 * compiles the file, links it and lists the pass.
 *
 * `qg list passes` shows what each does; configs/pipelines/default.yaml has the order
 * and which are off.
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
