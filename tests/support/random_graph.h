/* random_graph.h -- small networks of real operators, made from a seed, as text.
 *
 * Two to fourteen steps over tensors of at most 2000 elements: convolutions of all
 * kinds, normalization, activations (swish among them), sums and products of values
 * and constants, Concat, pools, Resize, Split, Pad, Slice, Gather, Reshape by constant
 * and by computed shapes, MatMul and Gemm with and without constant operands, TopK,
 * Where, LayerNormalization, constant sub-graphs; values with many readers, outputs
 * that are read, weights used twice.
 * The same seed gives the same text on every machine. */
#ifndef QG_TESTS_SUPPORT_RANDOM_GRAPH_H
#define QG_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "engine/core/rng.h"

/* The text in `out` (zero-terminated), parsed by qg_text_parse with the registry of the
 * library.  Inputs and values are called v0, v1 ... */
enum { QG_RANDOM_GRAPH_TEXT = 16384 };
void random_graph(uint64_t seed, char out[QG_RANDOM_GRAPH_TEXT]);

#endif
