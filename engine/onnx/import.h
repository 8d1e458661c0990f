/* import.h -- an ONNX file becomes a graph.
 *
 * After success   every value has one producer at most and every value that is read
 *                 has one, or is an input or a constant; every operator is known and
 *                 prepared; nodes are in topological order, file order among ready
 *                 ones.  Shapes are those of the file: run qg_infer for the rest.
 * Constants       initializers and `Constant` nodes become constants of the graph; an
 *                 input that has an initializer is a constant too (with one warning
 *                 when the IR version lets callers override it).
 * Functions       calls of model-local functions are replaced by their nodes, named
 *                 "<call>/<node>"; their inner values are "<call>/<value>".
 * Names           nodes without one are called "<Op>_<k>", k counting the nodes without
 *                 name in file order; node->file_unnamed is k + 1.  A name that is
 *                 taken gets "_<n>" appended and a warning.
 * Not supported   strings, sequences, optionals and sparse tensors: QG_EUNSUPPORTED.
 * Hostile files   sizes, nesting, counts and paths are checked before use; external
 *                 data is read only from below the model's folder.
 * Memory          the graph owns everything; the file is closed on return.
 * Source          onnx.proto (IR 14) and docs/IR.md of ONNX.
 *
 * The stages of reading, and the file here that implements each:
 *
 *     bytes --- wire           lengths, depth, field count; a copy without raw data
 *       |
 *     protobuf-c               the message, in scratch memory
 *       |
 *     import                   versions, then initializers, inputs, nodes, outputs and
 *       |                      value_info of the graph, in this order
 *       +-- tensor             TensorProto to qg_tensor; external for files next to
 *       +-- function           a call becomes the nodes of the function
 *       +-- scope              names to values, drafts to nodes, the last checks
 *
 * The result of each construct of the file:
 *
 *     initializer            constant of the graph
 *     node Constant          constant of the graph; no node
 *     node, known operator   node, prepared with its attributes
 *     node, local function   the nodes of the function
 *     attribute GRAPH        body graph; outer values it reads become its inputs
 *     input with initializer constant
 *     value_info             type of the value, if a node produces it; else nothing
 *     dim_value < 0          unknown extent (some writers put -1 for "any")
 *     doc_string, metadata_props, quantization_annotation, training_info,
 *     device configuration   nothing: they change no result */
#ifndef QG_ENGINE_ONNX_IMPORT_H
#define QG_ENGINE_ONNX_IMPORT_H

#include "engine/ir/graph.h"

typedef struct qg_onnx_import_options {
    size_t size_limit; /* bytes of the model file; 0: 2 GiB, the limit of protobuf */
    /* For models from memory: */
    const char *folder; /* where external data lies; NULL: none */
    bool borrow; /* the bytes stay as long as the graph: raw data is read where it
                         * lies, as far as it is aligned */
} qg_onnx_import_options;

/* options NULL: all defaults.  Operators come from ctx->registry, warnings go to
 * ctx->log.  Free *out with qg_graph_free.
 *
 * QG_EIO           the file, or external data, cannot be read
 * QG_EPARSE        the bytes are no ONNX model: cut off, nested too deep, not protobuf
 * QG_EMODEL        the model contradicts itself; the message names node, tensor or
 *                  initializer
 * QG_EUNSUPPORTED  a valid model that needs an operator, type or version that is not
 *                  implemented; the message names it, and for an operator the opsets
 *                  that have it
 * After a failure only the message remains. */
QG_NODISCARD qg_status qg_onnx_import(qg_ctx *ctx, const char *path,
                                      const qg_onnx_import_options *options,
                                      qg_graph **out);

/* The same from memory, which may go away afterwards unless options->borrow. */
QG_NODISCARD qg_status qg_onnx_import_bytes(qg_ctx *ctx, const void *bytes, size_t size,
                                            const qg_onnx_import_options *options,
                                            qg_graph **out);

#endif
