/* code_grid.h -- scale and zero point of codes, as values of a graph: slots 1 and 2 of
 * QuantizeLinear, DequantizeLinear and operators on codes.
 *
 *     QuantizeLinear(x, scale, zero) -> c      qg_code_grid_of
 *     DequantizeLinear(c, scale, zero) -> r    qg_code_grid_of
 *     QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias) -> c
 *                                              qg_code_grid_behind: y_scale, y_zero
 *
 * Used in both directions: operators on codes become float operators
 * (formats/qoperator.h), and float operators become operators on codes (qdq/fuse.h).
 * Nothing here allocates or fails. */
#ifndef QG_ENGINE_FORMATS_CODE_GRID_H
#define QG_ENGINE_FORMATS_CODE_GRID_H

#include "engine/ir/graph.h"

/* Both belong to a graph; scale NULL: not known, zero NULL: 0. */
typedef struct qg_code_grid {
    qg_value *scale, *zero;
} qg_code_grid;

/* Inputs 1 and 2 of n, as far as it has them.  n is a Q or a DQ; of an operator on
 * codes these are the grid of its first input. */
qg_code_grid qg_code_grid_of(const qg_node *n);

/* Those of output 0 of n, an operator on codes (asserted); absent ones are NULL. */
qg_code_grid qg_code_grid_behind(const qg_node *n);

/* The same steps: the same values, or constants of equal bits; absent zero points equal
 * constants of 0. */
bool qg_code_grid_same(qg_code_grid a, qg_code_grid b);

/* One constant scale, float32, and a constant zero point or none: the form in which a
 * kernel on codes takes a grid per tensor. */
bool qg_code_grid_is_plain(qg_code_grid q);

/* v is absent, or a constant of zeros. */
bool qg_code_is_zero(const qg_value *v);

/* What n, which moves elements, puts beside them: on codes it is code 0, which is the
 * value 0 only where the zero point is 0.  VALUE: it has an input for it (2), which is
 * absent: Pad of mode constant. */
enum qg_code_fill { QG_FILLS_NOTHING, QG_FILLS_VALUE, QG_FILLS_ZEROS };
enum qg_code_fill qg_code_fill_of(const qg_node *n);

#endif
