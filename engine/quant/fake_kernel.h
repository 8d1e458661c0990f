/* fake_kernel.h -- the inner loops of fake quantization, on arrays without shape.
 *
 * Definition   qg_linear_define and qg_floating_define: one element, plain C, division,
 *              the rounding of number/round.h.  Every kernel must be bit-identical to
 *              it.
 * Kernels      one source (fake_body.h) compiled per instruction set; a row of the
 *              table {isa, functions} each, so that a test can run every row the CPU
 *              has (tests/unit/test_fake_kernels.c, tests/programs/kernels.c).
 * Zeros        a result that is zero is +0: q is an integer
 * NaN          is replaced by the number of the scheme's rule (number/round.h) before
 *              anything else; NaN that is kept has an unspecified payload
 * Infinities   saturate
 * Arrays       x and y are the same array or do not overlap
 *
 * For the executor: qg_linear_init once per plan, qg_fake_linear on cache-sized
 * pieces. */
#ifndef QG_ENGINE_QUANT_FAKE_KERNEL_H
#define QG_ENGINE_QUANT_FAKE_KERNEL_H

#include "engine/quant/fake.h"

typedef struct qg_linear qg_linear;
typedef struct qg_floating qg_floating;
typedef struct qg_fake_row qg_fake_row;

/* n elements at x to y; one grid for all of them. */
typedef void qg_linear_fn(const qg_linear *p, const float *x, float *y, size_t n);

/* Element i has parameter i of `each`; of p only the range counts. */
typedef void qg_linear_each_fn(const qg_linear *p, const qg_qparam *each,
                               const float *x, float *y, size_t n);
typedef void qg_floating_fn(const qg_floating *p, const float *x, float *y, size_t n);

/* A LINEAR scheme with one scale and offset.  Limits are of round(x / scale), that is
 * [qmin - offset, qmax - offset], so no kernel adds an offset.
 *
 * wide: more than 24 bits (or limits beyond 2^24): division and product in double, one
 * rounding to float32 at the end.
 * Read-only once made, so that workers share it. */
struct qg_linear {
    float scale, inverse; /* inverse: 1 / scale, one rounding */
    float low, high;      /* the limits in steps, exact unless wide */
    float x_low, x_high;  /* the limits times scale, one rounding */
    float level, shift;   /* half-even-level: x level + shift counts from the low end */
    double wide_low, wide_high;
    int64_t qmin, qmax; /* of the scheme */
    qg_rounding rounding;
    qg_nan nan;
    bool wide;         /* see above */
    qg_linear_fn *run; /* the kernel chosen, or a loop over the definition */
    const qg_fake_row *row;
};

/* A FLOATING scheme with one scale. */
struct qg_floating {
    float scale;
    float low, high; /* limits of x / scale: the format's and the scheme's */
    int mantissa;    /* bits, 0..23 */
    int least;       /* exponent of the smallest normal number */
    qg_rounding rounding;
    qg_nan nan;
    bool ppq_ties; /* variant QG_FLOAT_PPQ_TIES */
    qg_floating_fn *run;
};

/* s is legal and LINEAR (asserted); scale finite and > 0 (asserted). */
void qg_linear_init(qg_linear *p, const qg_scheme *s, float scale, int32_t offset);
/* The definition, for one element: the value, and before it is multiplied by the scale,
 * code minus offset. */
float qg_linear_define(const qg_linear *p, float x);
double qg_linear_step(const qg_linear *p, float x);
/* Under half-even-level: the limits and the factor of p's range, from its scale. */
void qg_linear_set_level(qg_linear *p, int32_t offset);
/* Under half-even-level: the value on p's range with another scale and offset. */
float qg_linear_at(const qg_linear *p, float scale, int32_t offset, float x);

/* For a p that rounds many elements: switches to the kernel that corrects x * inverse
 * once instead of twice, when that is proven to give the same bits for this scale.
 *
 * Proof    Let u be the distance between floats at x / scale.  x * inverse is at most
 *          1.5 u off and inverse 2^-24 of itself, so that one correction, before it
 *          is rounded, is less than 2^-22 u off: it rounds as division does unless
 *          x / scale is that close to the middle between two floats.  Neighbours of x
 *          are at least u / 2 apart there, so x is then the float next to
 *          scale * middle.  A wrong neighbour changes the result only when one of the
 *          two floats is a half, k + 1/2.  These x are tested, for every half within
 *          the limits.
 * Takes some microseconds; ranges of more than 1024 steps are left unchanged. */
void qg_linear_hasten(qg_linear *p);

/* y[i] = fake quantized x[i]. */
static inline void qg_fake_linear(const qg_linear *p, const float *x, float *y,
                                  size_t n)
{
    p->run(p, x, y, n);
}

/* The largest value of x / scale that a FLOATING scheme holds. */
double qg_floating_top(const qg_scheme *s);

/* s is legal and FLOATING, scale finite and > 0 (asserted). */
void qg_floating_init(qg_floating *p, const qg_scheme *s, float scale);
float qg_floating_define(const qg_floating *p, float x);

/* x / scale rounded to the format, before it is multiplied by scale again. */
float qg_floating_code(const qg_floating *p, float x);

static inline void qg_fake_floating(const qg_floating *p, const float *x, float *y,
                                    size_t n)
{
    p->run(p, x, y, n);
}

/* The kernels of one instruction set.  Their domain:
 * fused    limits within 2^22, scale within [2^-100, 2^100], a rounding to nearest
 * once     that of fused, and scales for which qg_linear_hasten proves it
 * divided  limits within 2^22
 * each     limits within 2^22 for every offset
 * floating half-even without ppq_ties; exponents that qg_floating_quick accepts */
struct qg_fake_row {
    const char *isa;
    bool (*supported)(void);
    qg_linear_fn *const *fused, *const *once, *const *divided; /* by rounding */
    qg_linear_each_fn *const *each;
    qg_floating_fn *floating;
};

/* Rows from the plainest to the fastest; the first is always supported. */
const qg_fake_row *const *qg_fake_rows(size_t *n);
const qg_fake_row *qg_fake_row_best(void); /* the last one that the CPU supports */

/* Whether p is in the domain of a kernel. */
bool qg_linear_narrow(const qg_scheme *s, int32_t offset); /* limits within 2^22 */
bool qg_linear_fusable(const qg_linear *p);
bool qg_floating_quick(const qg_floating *p);

#endif
