/* rounding.h -- the roundings that are tried on an exact value.
 *
 *     double code[QG_N_ROUNDING_TRIED];
 *     qg_round_each(limits, q, zero, code);
 *     fits[m] += code[m] == theirs;               // in words: qg_rounding_tried[m] */
#ifndef QG_ENGINE_DEVICE_ROUNDING_H
#define QG_ENGINE_DEVICE_ROUNDING_H

#include "engine/ir/recipe.h"

/* To the nearest code, which differ at ties only, and then in one direction. */
enum { QG_N_NEAREST_TRIED = 3, QG_N_ROUNDING_TRIED = 7 };

typedef struct qg_rounding_words {
    const char *name;  /* "half-even", "down" */
    const char *alone; /* the verdict where nothing else is changed, */
    const char
        *with_more; /* and its end where something else is; NULL: to the nearest */
} qg_rounding_words;
extern const qg_rounding_words qg_rounding_tried[QG_N_ROUNDING_TRIED];

/* The roundings of q = v + zero, limited to low and high of `limits`.  Those to the
 * nearest differ only at exact ties.  q contains the zero point, so half to even and
 * half away refer to the code, not to the value v before it: with an odd zero point
 * half to even of v is another rule, which is not tried. */
void qg_round_each(const qg_stored *limits, double q, int32_t zero,
                   double out[QG_N_ROUNDING_TRIED]);

#endif
