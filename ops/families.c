#include "ops/families.h"

static const qg_op *const family[] = {
#define FAMILY(f) qg_ops_##f,
#include "ops/families.def"
#undef FAMILY
};

const qg_registry qg_ops_registry = { family, sizeof family / sizeof family[0],
                                      qg_ops_upgrades };
