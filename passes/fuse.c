/* fuse -- quantizes once per fused kernel: applies the backend's fusions, except those
 * that run after `passive`. */
#include "passes/passes.h"
#include "passes/util_fuse.h"

static qg_status run(qg_pass_env *env) { return qg_fuse(env, false); }

const qg_pass qg_pass_fuse = {
    .name = "fuse",
    .summary = "overlap quantizers inside fused kernels of the backend",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
    .quirk = qg_fuse_quirks,
};
