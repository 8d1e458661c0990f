/* kernel.h -- a kernel of a cut with another arithmetic or other grids, and what the
 * program computed of these beforehand: the bias of a product, the table of a function.
 *
 *     qg_recipe_edit e = { .out = &other };
 *     QG_TRY(qg_kernel_edit(d, c.graph, node, &e)); */
#ifndef QG_ENGINE_DEVICE_KERNEL_H
#define QG_ENGINE_DEVICE_KERNEL_H

#include "engine/device/step.h"

/* qg_recipe_change; then, where n looks its codes up in a table, the table that the
 * operator makes for the edited row and grids, and where it makes none for them (an
 * output grid that the row does not have), the table of the operator in floats between
 * a dequantization and a quantization.  The bias stays: see qg_kernel_read_grid.
 * QG_EUNSUPPORTED: n cannot compute so. */
QG_NODISCARD qg_status qg_kernel_edit(const qg_device *d, qg_graph *g, qg_node *n,
                                      const qg_recipe_edit *e);

/* Input k (0 or 1) of n is read on this grid; the bias of a product, which is in steps
 * of input and weight, is rounded again from the model's floats.  Nothing changes at
 * nodes that move codes, whatever their grid. */
QG_NODISCARD qg_status qg_kernel_read_grid(const qg_device *d, qg_graph *g, qg_node *n,
                                           uint32_t k, const qg_stored *grid);

/* An IntRescale of recipe r behind the output of g. */
QG_NODISCARD qg_status qg_kernel_append(qg_graph *g, const qg_recipe *r);

/* The output of the graph of s on another grid; limits that are not those of the type,
 * or those of a clamp, move with it.  A node that moves codes is followed by a rescale
 * from the grid on which it reads them, unless that is the other one.  QG_EUNSUPPORTED:
 * neither has a grid, or zero is no code of it. */
QG_NODISCARD qg_status qg_kernel_give_grid(const qg_device *d, const qg_cut *c,
                                           const qg_device_step *s, float scale,
                                           int32_t zero);

#endif
