/* fuse-late -- fusions that run after passive nodes follow their inputs (`after:
 * passive`): a clamp after a pooling then dominates the whole group
 * (docs/evidence/ppq-behaviour.md#fusion). */
#include "passes/passes.h"
#include "passes/util_fuse.h"

static qg_status run(qg_pass_env *env) { return qg_fuse(env, true); }

const qg_pass qg_pass_fuse_late = {
    .name = "fuse-late",
    .summary = "apply fusions that depend on the groups formed by passive nodes",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
    .quirk = qg_fuse_quirks,
};
