/* util_copies.h -- nodes whose output is their input, unchanged, go; who read the
 * output reads the input.  One between an input and an output of the network stays:
 * both keep their names.  Shared by drop-identity and, under quirk
 * ppq-identity-goes-late, sweep.
 * Source: docs/evidence/ppq-behaviour.md#reading-a-graph, defect D35 mended. */
#ifndef QG_PASSES_UTIL_COPIES_H
#define QG_PASSES_UTIL_COPIES_H

#include "engine/pass/pass.h"

QG_NODISCARD qg_status qg_drop_copies(qg_pass_env *env);

#endif
