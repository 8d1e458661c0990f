/* step_gradient.h -- the gradient of a loss through one rounding: with respect to the
 * value, and to the step size s, whatever the parameter of the published method is.
 *
 *     v = x / s, n and m the lowest and highest code, counted from the zero point
 *
 *     name         inside, dy/ds   below, above   parameter p          dL/ds from dL/dp
 *     ste          0               0              none
 *     lsq          R(v) - v        n, m           s, with its factor   dL/dp
 *     lsq-plus     R(u) - u        n', m'         s, with its factor   dL/dp
 *     tqt          R(v) - v        n, m           log2 of s 2^k        dL/dp / (s ln 2)
 *     pact         0               -m, m          s m                  dL/dp m
 *     nncf         (R(v)-v)/(1-a)  n, m           s m; a = n / m       dL/dp m
 *     nncf-exact   R(v) - v        n, m           s m                  dL/dp m
 *     nncf-        (R(v) - v)      0, L           range = s L          dL/dp L
 *      asymmetric
 *
 * lsq-plus and nncf-asymmetric also learn where a grid with an offset lies, by one of
 * its borders B, the value of code c; the zero point is then the nearest integer to
 * c - B / s, so that zero stays exact:
 *
 *     name               B                    inside, dy/dB   below, above
 *     lsq-plus           b, c = 0             0               1
 *     nncf-asymmetric    input_low, c = n'    0               1
 *
 *     u = (x - b) / s, n' and m' the lowest and highest code as they are stored,
 *     L = m' - n', level_high of NNCF's asymmetric quantizers; its level_low is 0.
 *     Each dy/ds is with B fixed.  Symmetric grids have lsq and nncf in their place
 *
 * Fits     tqt: steps restricted to powers of two, symmetric; all others: linear steps
 *          without that restriction, nncf those of less than 32 bits.  A step that its
 *          gradient does not fit stays, and the gradient of the value is that of lsq
 * Source   quant/gradient.h, quant/nncf.h: the same arithmetic; lsq where y is known:
 *          lsq_row.h, in float32 */
#ifndef QG_ENGINE_LEARN_STEP_GRADIENT_H
#define QG_ENGINE_LEARN_STEP_GRADIENT_H

#include "engine/quant/gradient.h"
#include "engine/quant/tqc.h"

typedef enum qg_step_gradient {
#define GRADIENT(id, name, summary) QG_STEP_GRADIENT_##id,
#include "engine/learn/step_gradient.def"
#undef GRADIENT
    QG_NSTEP_GRADIENT
} qg_step_gradient;

const char *qg_step_gradient_name(qg_step_gradient g);
int qg_step_gradient_named(const char *text); /* -1 when unknown */

/* Whether the step of this root can be learned with the gradient; usual: with lsq or
 * with tqt. */
bool qg_step_gradient_fits(qg_step_gradient g, const qg_tqc *root);

/* Whether the border of the root learns, too; of a root that it fits. */
bool qg_step_gradient_shifts(qg_step_gradient g, const qg_tqc *root);

/* c of the border B, a code as it is stored. */
double qg_step_gradient_anchor(qg_step_gradient g, const qg_scheme *scheme);

/* One rounding of a forward; all borrowed. */
typedef struct qg_step_rounding {
    qg_ctx *ctx;
    qg_arena *scratch;
    qg_step_gradient gradient;
    const qg_tqc *tqc;      /* the endpoint that rounds */
    qg_learned_layer layer; /* of x, without grids */
    const float *scale;     /* [layer.channels] */
    const int32_t *offset;  /* [layer.channels] zero points; NULL: 0 */
    const float *x;         /* before rounding */
    const float *y;         /* after it; NULL: not known, computed where needed */
} qg_step_rounding;

/* g: dL/dy, becomes dL/dx; by_scale [channels]: dL/ds; by_border [channels]: dL/dB
 * where the root's border learns, else untouched.  Both NULL: g alone. */
QG_NODISCARD qg_status qg_step_backward(const qg_step_rounding *r, float *g,
                                        double *by_scale, double *by_border);

#endif
