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

/* All passes, for qg_pass_run_all; ends with NULL. */
extern const qg_pass *const qg_passes[];

#endif
