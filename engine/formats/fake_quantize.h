/* fake_quantize.h -- the grid of an endpoint as the limits of a FakeQuantize, and back.
 *
 *     low[c] = (qmin - offset[c]) scale[c],  high[c] = (qmax - offset[c]) scale[c],
 *     levels = qmax - qmin + 1                                 (openvino_fq.h)
 *
 * Reading back takes the nearest code for zero, then the scale that gives both limits
 * again: within one unit in the last place of the one that was written.  Codes have no
 * names in a FakeQuantize, so by convention
 *
 *     2^b levels, zero in the middle          [-2^(b-1), 2^(b-1) - 1] symmetric
 *     2^b - 1 levels, zero in the middle      [-2^(b-1) + 1, 2^(b-1) - 1] symmetric
 *     zero at the low end                     [0, levels - 1] symmetric
 *     otherwise                               [0, levels - 1] asymmetric
 *
 * with the fewest bits b that hold the levels.
 * Source: docs/evidence/openvino.md#conversion. */
#ifndef QG_ENGINE_FORMATS_FAKE_QUANTIZE_H
#define QG_ENGINE_FORMATS_FAKE_QUANTIZE_H

#include "engine/formats/grid_record.h"
#include "engine/number/openvino_fq.h"
#include "engine/quant/fake.h"

/* More levels are no integer grid that OpenVINO computes with. */
enum { QG_OPENVINO_LEVELS = QG_LEVELS };

/* Input limits, which are the output limits too. */
typedef struct qg_openvino_limits {
    int32_t levels;    /* 2 to QG_OPENVINO_LEVELS */
    int axis;          /* along which they differ; -1: n is 1 */
    size_t n;          /* 1, or one per channel */
    float *low, *high; /* [n] the tensor's unit; low <= 0 <= high, low < high */
} qg_openvino_limits;

/* The limits of a linear static grid per tensor or channel (asserted), in the arena.
 * QG_ECONFIG for too many levels; messages contain `what`. */
QG_NODISCARD qg_status qg_openvino_limits_of(qg_ctx *ctx, const char *what,
                                             const qg_scheme *s, const qg_qparam *p,
                                             qg_arena *a, qg_openvino_limits *out);

/* The other way; *p lies in the arena.
 * QG_EUNSUPPORTED when the limits do not form a grid with a code for zero: not finite,
 * in the wrong order, zero outside or more than a hundredth of a step away from every
 * code. */
QG_NODISCARD qg_status qg_openvino_grid_of(qg_ctx *ctx, const char *what,
                                           const qg_openvino_limits *l, qg_arena *a,
                                           qg_scheme *s, qg_qparam *p);

/* A symmetric grid of constants, widened to levels for which OpenVINO has integer
 * kernels: the same step, codes of 4, 8 or 16 bits.  Those that have such levels and
 * grids with offsets stay.  Source: docs/evidence/openvino.md#half-range. */
qg_scheme qg_openvino_widened(const qg_scheme *s);

/* FakeQuantize, by its traits and name. */
bool qg_is_fake_quantize(const qg_op *op);

/* The grid of a FakeQuantize; *why as in qg_grid_of_linear (quantize_linear.h). */
QG_NODISCARD qg_status qg_grid_of_fake(qg_graph *g, const qg_node *n,
                                       qg_grid_record *out, const char **why);

/* Whether low precision transformations round what a FakeQuantize with the levels of t,
 * or n, gives once more, to other values: 15 levels, or 255 whose middle is not 0. */
bool qg_fake_quantize_rounds_twice(const qg_tqc *t);
bool qg_fake_quantize_node_rounds_twice(const qg_node *n);

#endif
