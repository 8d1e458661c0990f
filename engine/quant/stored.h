/* stored.h -- in how many bits values are stored.
 *
 * Example  a float32 weight of 100 elements whose record has 4 bits: 400, plain 3200 */
#ifndef QG_ENGINE_QUANT_STORED_H
#define QG_ENGINE_QUANT_STORED_H

#include "engine/ir/graph.h"

/* The bits in which an element of a float32 value is stored: those of the record that
 * rounds it where it is made or, for a constant, first read; 32 without one. */
unsigned qg_stored_bits(const qg_value *v);
/* Of all elements of a constant that a node reads, other types as they are, and without
 * quantization.  Scales are not counted.  0 for any other value. */
double qg_constant_bits(const qg_value *v);
double qg_constant_plain_bits(const qg_value *v);

#endif
