/* util_constants.h -- scales of constants, from their values; shared by
 * calibrate-parameters and, for constants that PPQ calibrates later,
 * calibrate-activations. */
#ifndef QG_PASSES_UTIL_CONSTANTS_H
#define QG_PASSES_UTIL_CONSTANTS_H

#include "engine/pass/pass.h"

/* Calibrates every constant in INITIAL except those that wait (NULL: none waits).
 * One with a mask of -inf stays in float and is added to env->masked.
 * QG_ENUMERIC names a constant that contains NaN or another infinity. */
QG_NODISCARD qg_status qg_calibrate_constants(qg_pass_env *env,
                                              bool (*waits)(const qg_ctx *ctx,
                                                            const qg_tqc *t));

#endif
