/* fake_plain.c -- the kernels for the instruction set that the build targets. */
#define TARGET
#ifdef FP_FAST_FMAF
#define FUSED 1
#else
#define FUSED 0
#endif
#include "engine/quant/fake_body.h"
#include "engine/quant/fake_rows.h"

static bool supported(void) { return true; }

const qg_fake_row qg_fake_row_plain = { "plain C", supported, fused,   once,
                                        divided,   each,      floating };
