/* families.h -- every operator table in the build.  CMake reads families.def too, so
 * one line there compiles the file, links it and lists its operators.
 *
 * To add a family: ops/<name>.c with a table qg_ops_<name>[] that ends with a row
 * whose name is NULL, and a line in families.def.  Operators of one family share
 * code, not opsets: rows of one operator are adjacent, oldest first. */
#ifndef QG_OPS_FAMILIES_H
#define QG_OPS_FAMILIES_H

#include "engine/ir/op.h"

#define FAMILY(f) extern const qg_op qg_ops_##f[];
#include "ops/families.def"
#undef FAMILY

/* Upgrades from one row of an operator to the next; ends with a row without name. */
extern const qg_upgrade qg_ops_upgrades[];

/* All families, for qg_ctx.registry. */
extern const qg_registry qg_ops_registry;

#endif
