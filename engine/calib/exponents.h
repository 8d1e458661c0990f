/* exponents.h -- which powers of two a tensor reaches, and whether the largest of them
 * lie far from all others: an attention mask beside ordinary numbers.
 *
 *     qg_exponents e = { 0 };
 *     qg_exponents_add(&e, x);                  // of every sample
 *     qg_far f = qg_exponents_far(&e);
 *     if (f.exponent) ...                       // |x| >= 2^(f.exponent - 127) or 0, or
 *                                               // below 2^(f.exponent - 127 - f.gap)
 *
 * A set of samples has one result: bits are united.
 *
 * Cost     one table entry per element */
#ifndef QG_ENGINE_CALIB_EXPONENTS_H
#define QG_ENGINE_CALIB_EXPONENTS_H

#include "engine/calib/stats.h"

/* Bit 256 * sign + the exponent field of IEEE 754 binary32: 127 for 1 .. 2, 255 for
 * infinities, 0 for 0 and denormals.  A NaN sets both bits of 255. */
typedef struct qg_exponents {
    uint64_t bit[8];
} qg_exponents;

void qg_exponents_add(qg_exponents *e, const qg_tensor *x); /* float32, any strides */
/* From the bins, where there are some: numbers within the width of a bin (1/4096 of the
 * range) of 0 count as of the least exponent. */
void qg_exponents_add_stats(qg_exponents *e, const qg_stats_value *v);

/* Numbers of one sign and at least 512, with nothing of the next two powers of two
 * below them; the widest gap counts.  exponent 0: there are none. */
typedef struct qg_far {
    unsigned exponent; /* field of the least of them */
    unsigned gap;      /* powers of two without a number */
    bool beside;       /* there are others, besides 0 */
    bool positive;
} qg_far;
qg_far qg_exponents_far(const qg_exponents *e);
bool qg_is_far(const qg_tensor *x); /* whether float32 x alone has some; fast */

#endif
