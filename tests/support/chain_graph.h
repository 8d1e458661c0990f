/* chain_graph.h -- networks as devices have them, made from a seed, as text: chains of
 * convolutions with activations, sums with earlier values, joins, pools, and a product
 * behind some of them; every node has integer kernels in most profiles. */
#ifndef QG_TESTS_SUPPORT_CHAIN_GRAPH_H
#define QG_TESTS_SUPPORT_CHAIN_GRAPH_H

#include <stdint.h>

enum { CHAIN_GRAPH_TEXT = 8192 };
void chain_graph(uint64_t seed, char out[CHAIN_GRAPH_TEXT]);

#endif
