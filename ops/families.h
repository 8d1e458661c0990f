/* families.h -- every operator table in the build.  CMake reads families.def too, so
 * one line there compiles the file, links it and lists its operators. */
#ifndef QG_OPS_FAMILIES_H
#define QG_OPS_FAMILIES_H

#include "engine/ir/op.h"

#define FAMILY(f) extern const qg_op qg_ops_##f[];
#include "ops/families.def"
#undef FAMILY

/* All families, for qg_ctx.registry. */
extern const qg_registry qg_ops_registry;

#endif
