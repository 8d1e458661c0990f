/* quantizers_grid.h -- what grid a quantizing operator describes.  Private to
 * engine/formats. */
#ifndef QG_ENGINE_FORMATS_QUANTIZERS_GRID_H
#define QG_ENGINE_FORMATS_QUANTIZERS_GRID_H

#include "engine/quant/tqc.h"

/* Parameters lie in the graph's arena. */
typedef struct qg_grid_record {
    qg_scheme scheme;
    qg_qparam param;
} qg_grid_record;

/* Both leave *why NULL when *out was filled; else *why says in a few words why the node
 * must stay an operator ("its scale is not constant"), and *out is untouched.  The node
 * is inferred; QG_ENOMEM is the only failure. */

/* Of a QuantizeLinear or DequantizeLinear whose codes have this type and whose floats
 * have the type and dims of x. */
QG_NODISCARD qg_status qg_grid_of_linear(qg_graph *g, const qg_node *n, qg_dtype codes,
                                         const qg_tensor *x, qg_grid_record *out,
                                         const char **why);

/* Of a FakeQuantize. */
QG_NODISCARD qg_status qg_grid_of_fake(qg_graph *g, const qg_node *n,
                                       qg_grid_record *out, const char **why);

/* Equal schemes and parameters, bit for bit. */
bool qg_grid_record_same(const qg_grid_record *a, const qg_grid_record *b);

#endif
