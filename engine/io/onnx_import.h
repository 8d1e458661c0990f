/* onnx_import.h -- an ONNX file becomes a graph.
 *
 * After success   every value has one producer at most and every value that is read
 *                 has one, or is an input or a constant; every operator is known and
 *                 prepared; nodes are in topological order, file order among ready
 *                 ones.  Shapes are what the file says: run qg_infer for the rest.
 * Constants       initializers and `Constant` nodes become constants of the graph; an
 *                 input that has an initializer is a constant too (said once as a
 *                 warning when the IR version lets callers override it).
 * Functions       calls of model-local functions are replaced by their nodes, named
 *                 "<call>/<node>"; their inner values are "<call>/<value>".
 * Names           nodes without one are called "<Op>_<k>", k counting the nodes without
 *                 name in file order; node->file_unnamed is k + 1.  A name that is
 *                 taken gets "_<n>" appended and a warning.
 * Not supported   strings, sequences, optionals and sparse tensors: QG_EUNSUPPORTED.
 * Hostile files   sizes, nesting, counts and paths are checked before use; external
 *                 data is read only from below the model's folder.
 * Memory          the graph owns everything; the file is closed on return.
 * Source          onnx.proto (IR 14) and docs/IR.md of ONNX. */
#ifndef QG_ENGINE_IO_ONNX_IMPORT_H
#define QG_ENGINE_IO_ONNX_IMPORT_H

#include "engine/ir/graph.h"

enum {
    QG_ONNX_IR_MIN = 3,
    QG_ONNX_IR_MAX = 14,
    QG_ONNX_OPSET_MAX = 28, /* of ai.onnx */
};

typedef struct qg_import_options {
    size_t size_limit; /* bytes of the model file; 0: 2 GiB, what protobuf allows */
    const char
        *folder; /* where external data lies, for models from memory; NULL: none */
} qg_import_options;

/* options NULL: all defaults.  Operators come from ctx->registry.  Free *out with
 * qg_graph_free. */
QG_NODISCARD qg_status qg_onnx_import(qg_ctx *ctx, const char *path,
                                      const qg_import_options *options, qg_graph **out);

/* The same from memory, which may go away afterwards. */
QG_NODISCARD qg_status qg_onnx_import_bytes(qg_ctx *ctx, const void *bytes, size_t size,
                                            const qg_import_options *options,
                                            qg_graph **out);

#endif
