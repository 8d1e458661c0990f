/* stored.h -- in how many bits values are stored.
 *
 * Example  a float32 weight of 100 elements whose record has 4 bits: 400, plain 3200 */
#ifndef QG_ENGINE_QUANT_STORED_H
#define QG_ENGINE_QUANT_STORED_H

#include "engine/ir/graph.h"

/* The record of a float32 value where it is made or, for a constant, first read; NULL:
 * it is not rounded there. */
const qg_tqc *qg_stored_tqc(const qg_value *v);
/* The bits in which an element is stored: those of that record, 32 without one. */
unsigned qg_stored_bits(const qg_value *v);
/* Of all elements of a constant that a node reads, other types as they are, and without
 * quantization.  Scales are not counted.  0 for any other value. */
double qg_constant_bits(const qg_value *v);
double qg_constant_plain_bits(const qg_value *v);

#endif
