/* drop-identity -- removes nodes that only pass their input on (util_copies.h), so that
 * later passes can fuse across them.  PPQ removes them last (quirk
 * ppq-identity-goes-late), which sweep then does. */
#include "passes/passes.h"
#include "passes/util_copies.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    qg_status (*drop)(qg_pass_env *env); /* NULL: not in this pass */
} behaviours;

static const behaviours ordinary = { .drop = qg_drop_copies };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_IDENTITY_LATE, "nothing is fused across an Identity",
            QG_PPQ "api/interface.py format_graph", behaviours, drop, NULL),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    return how.drop ? how.drop(env) : QG_OK;
}

const qg_pass qg_pass_drop_identity = {
    .name = "drop-identity",
    .summary = "remove nodes that only pass their input on",
    .needs = QG_A_TOPO,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};
