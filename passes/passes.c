#include "passes/passes.h"

const qg_pass *const qg_passes[] = {
#define PASS(p) &qg_pass_##p,
#include "passes/passes.def"
#undef PASS
    NULL
};
