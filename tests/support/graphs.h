/* graphs.h -- small graphs for tests: a registry of toy operators and a builder.
 *
 * The toy operators have ONNX names but only the behaviour that tests of the engine
 * need; tests of real operators use qg_ops_registry. */
#ifndef QG_TESTS_SUPPORT_GRAPHS_H
#define QG_TESTS_SUPPORT_GRAPHS_H

#include "engine/ir/graph.h"

/* Conv (d, w, b), Relu, Add and Concat (JOIN), Mul (JOIN), Sigmoid, Shape, Split (any
 * number of outputs), Identity, Gather, If and Loop (CONTROL), Custom (domain "test").
 * Conv has a param: its attribute `group`, at least 1. */
extern const qg_registry toy_registry;

typedef struct toy {
    qg_ctx *ctx; /* knows toy_registry */
    qg_graph *g;
} toy;

toy toy_new(void); /* fails the test when out of memory */
void toy_free(toy *t);

/* All of these fail the running test on error.  Lists are "a, b"; "_" is an absent
 * slot. Values are created when first named. */
qg_value *toy_value(toy *t, const char *name);
qg_value *toy_input(toy *t, const char *name, qg_dtype dtype, int32_t rank,
                    const int64_t *dim);
qg_value *toy_constant(toy *t, const char *name, qg_dtype dtype, int32_t rank,
                       const int64_t *dim, const void *data);
qg_node *toy_node(toy *t, const char *op, const char *name, const char *in,
                  const char *out);
void toy_output(toy *t, const char *name);

/* toy_node that may fail; *out is untouched then. */
qg_status toy_try_node(toy *t, const char *op, const char *name, const char *in,
                       const char *out, qg_node **node);

#endif
