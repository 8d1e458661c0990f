/* passes.h -- every pass in the build.  CMake reads passes.def too, so one line there
 * compiles the file, links it and lists the pass.
 *
 * `qg list passes` shows their summaries; configs/pipelines/default.yaml has the order
 * and which are off.
 *
 * Passes before `rules` change the graph, which has no TQCs yet; passes after it change
 * TQCs and keep the topology (bias-correct replaces the data of constants). */
#ifndef QG_PASSES_PASSES_H
#define QG_PASSES_PASSES_H

#include "engine/pass/pass.h"

#define PASS(p) extern const qg_pass qg_pass_##p;
#include "passes/passes.def"
#undef PASS

/* The passes of the build; ends with NULL. */
extern const qg_pass *const qg_passes[];

/* All passes of the context, for qg_pass_run_all: qg_passes, followed by those that a
 * host added, in its order.  Ends with NULL; in a. */
QG_NODISCARD qg_status qg_passes_of(qg_ctx *ctx, qg_arena *a,
                                    const qg_pass *const **out);

#endif
