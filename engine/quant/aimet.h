/* aimet.h -- the encodings of AIMET, SNPE and QNN: a grid from a range.
 *
 *     q = round_away(clamp(x, min, max) / delta - offset)       x' = delta * (q +
 *     offset)
 *
 * Codes are 0 .. 2^bits - 1 (2^bits - 2 when strict symmetric); offset <= 0 is the code
 * of min, so it is the negated offset of the rest of this project, up to the code of
 * the lowest step.  All arithmetic in double.
 * Units    min, max, delta: the tensor's own; offset, q: steps
 * Source   docs/evidence/grids.md#aimet-encodings (rounding was run, the rest read).
 *
 * Example: 8 bits asymmetric over [-1, 2] has delta = 3 / 255, offset -85; 0 has the
 * code 85, and -1 and 2 are on the grid. */
#ifndef QG_ENGINE_QUANT_AIMET_H
#define QG_ENGINE_QUANT_AIMET_H

#include <stdbool.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The properties requested of the encoding; AIMET's names as in its documentation. */
typedef struct qg_aimet_spec {
    int bits; /* 2..32 */
    bool symmetric;
    bool strict;          /* with symmetric: as many steps below zero as above */
    bool may_be_unsigned; /* with symmetric: min >= 0 uses all codes from zero up */
    double min_range;     /* smallest max - min: QG_AIMET_RANGE or QG_QNN_RANGE */
} qg_aimet_spec;

#define QG_AIMET_RANGE 0.01   /* AIMET and SNPE */
#define QG_QNN_RANGE   0.0001 /* QNN */

/* A grid in AIMET's terms; min and max are on it, min <= 0 <= max. */
typedef struct qg_aimet_encoding {
    double min, max, delta, offset; /* limits, step, and minus the code of zero */
} qg_aimet_encoding;

/* The encoding of a range; it is widened to hold 0.  QG_ENUMERIC for a range that is
 * not finite or reversed, QG_ECONFIG for bits or min_range out of bounds.
 * `what` begins the message. */
QG_NODISCARD QG_API qg_status qg_aimet_encode(qg_ctx *ctx, const char *what,
                                              const qg_aimet_spec *spec, double min,
                                              double max, qg_aimet_encoding *out);

/* The code of x; NaN gives the code of min.
 * Infinities saturate; delta > 0 (asserted). */
QG_API double qg_aimet_quantize(const qg_aimet_encoding *e, double x);

#ifdef __cplusplus
}
#endif

#endif
