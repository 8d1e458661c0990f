/* util_copies.h -- removes nodes whose output equals their input; readers of the output
 * then read the input.  A node between an input and an output of the network stays,
 * since both keep their names.  Shared by drop-identity and, under quirk
 * ppq-identity-goes-late, sweep.
 * Source: docs/evidence/ppq-behaviour.md#reading-a-graph, defect D35 is fixed here. */
#ifndef QG_PASSES_UTIL_COPIES_H
#define QG_PASSES_UTIL_COPIES_H

#include "engine/pass/pass.h"

QG_NODISCARD qg_status qg_drop_copies(qg_pass_env *env);

#endif
