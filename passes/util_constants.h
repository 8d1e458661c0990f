/* util_constants.h -- scales of constants, from their values; shared by
 * calibrate-parameters and, for constants that PPQ gets to later,
 * calibrate-activations. */
#ifndef QG_PASSES_UTIL_CONSTANTS_H
#define QG_PASSES_UTIL_CONSTANTS_H

#include "engine/pass/pass.h"

/* Every constant in INITIAL but those that wait (NULL: none does) gets its scale.
 * QG_ENUMERIC names one that holds a NaN or an infinity. */
QG_NODISCARD qg_status qg_calibrate_constants(qg_pass_env *env,
                                              bool (*waits)(const qg_ctx *ctx,
                                                            const qg_tqc *t));

#endif
