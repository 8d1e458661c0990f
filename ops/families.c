#include "ops/families.h"

static const qg_op *const family[] = {
#define FAMILY(f) qg_ops_##f,
#include "ops/families.def"
#undef FAMILY
};

const qg_registry qg_ops_registry = {
    .family = family,
    .n_family = sizeof family / sizeof family[0],
    .upgrade = qg_ops_upgrades,
    .made = {[QG_MADE_SUM] = "Add",
             [QG_MADE_PRODUCT] = "MatMul",
             [QG_MADE_CONVOLUTION] = "Conv",
             [QG_MADE_DENSE] = "Gemm",
             [QG_MADE_CAST] = "Cast"},
};
