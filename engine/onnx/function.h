/* function.h -- model-local functions: a call is replaced by the nodes.
 *
 * Inputs and outputs of the function mean the values of the call, everything else
 * inside gets new names, and attribute references take the call's attributes or the
 * function's defaults.  Expansion is bounded in depth, and in number of nodes by the
 * limits of the context; the number is known before anything is expanded.
 *
 *     y = Scaled<by=3>(x)            call "second" in the graph
 *     Scaled<by>(a) -> s {           becomes
 *         k = Constant<value_float=@by>()      second/k, a constant 3
 *         s = Mul(a, k)                        node "second/mul": y = Mul(x, second/k)
 *     }
 *
 * An input that the call leaves out is absent inside; an output that it leaves out is
 * an inner value.  A function that returns an input unchanged is refused: there is no
 * node that could produce the output.
 * Source: "Functions" in docs/IR.md of ONNX. */
#ifndef QG_ENGINE_ONNX_FUNCTION_H
#define QG_ENGINE_ONNX_FUNCTION_H

#include "engine/onnx/scope.h"

enum {
    QG_ONNX_MAX_CALLS = 32, /* functions within functions */
};

/* A function as the file defines it; all borrowed, lives as long as the import. */
struct qg_onnx_function {
    const char *domain, *name, *overload; /* "" where the file has nothing */
    char *const *in, *const *out;
    size_t n_in, n_out;
    const qg_attr *preset; /* defaults of attributes */
    size_t n_preset;
    const qg_opset_import *opset; /* [n_opset] the function's own */
    size_t n_opset;
    size_t n_node;
    size_t total;      /* nodes that a call expands to; 0: none, or calls in it nest too
                   * deep or in a circle, which is refused on the way */
    const void *proto; /* for build->import_nodes */
};

/* Registers *f; QG_EMODEL when there is one with its domain, name and overload. */
QG_NODISCARD qg_status qg_onnx_function_add(qg_onnx_build *b,
                                            const qg_onnx_function *f);

/* *out NULL when the model defines no such function. */
QG_NODISCARD qg_status qg_onnx_function_find(qg_onnx_build *b, const char *domain,
                                             const char *name, const char *overload,
                                             const qg_onnx_function **out);

/* Imports the nodes of f in place of the call d. */
QG_NODISCARD qg_status qg_onnx_inline(const qg_onnx_draft *d,
                                      const qg_onnx_function *f);

/* *out, whose name and type are set, takes the value of the call's attribute
 * `reference`; *present is false when the call has none and there is no default. */
QG_NODISCARD qg_status qg_onnx_refer(const qg_onnx_draft *d, const char *reference,
                                     qg_attr *out, bool *present);

/* The overload in a message; NULL when the proto that was compiled is older (IR 8). */
#ifdef QG_ONNX_OVERLOAD
#define QG_ONNX_OVERLOAD_OF(p) ((p)->overload)
#else
#define QG_ONNX_OVERLOAD_OF(p) NULL
#endif

#endif
