/* constant_codes.h -- constants that a file gives to its quantizers by way of other
 * nodes.
 *
 *     scale -> Identity, Mul, ... -> Q, DQ      the result becomes the constant
 *     w -> DQ -> Transpose, Reshape, ... -> r   moved w -> DQ -> r
 *
 * Results of any PURE node that inference evaluates (ir/infer.h); moves of any size.
 * Scales per channel go through Transpose and Identity only. */
#ifndef QG_ENGINE_FORMATS_CONSTANT_CODES_H
#define QG_ENGINE_FORMATS_CONSTANT_CODES_H

#include "engine/ir/graph.h"

/* g: inferred and normalized; afterwards again.  After a failure g is valid. */
QG_NODISCARD qg_status qg_settle_constants(qg_graph *g);

#endif
