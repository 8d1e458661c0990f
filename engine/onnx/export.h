/* export.h -- a graph becomes an ONNX file.
 *
 * What is written   the graph as it is: nodes in id order with their names, attributes
 *                   and bodies; constants as initializers, raw little-endian; types and
 *                   shapes of all values as far as they are known; IR version and opset
 *                   imports of the graph (IR 8 when it has none).  Quantization records
 *                   are not part of it: exporters that need them build a graph with
 *                   quantizing operators and call this.
 * Bytes             depend on the graph and the options only.
 * Round trip        import(export(g)) is g, except that no node is unnamed any more.
 * Atomic            the file appears complete or not at all.  With external data the
 *                   data file is replaced just before the model.
 *
 *     qg_onnx_property p = { "producer", "my tool" };
 *     qg_export_options o = { .metadata = &p, .n_metadata = 1 };
 *     QG_TRY(qg_onnx_export(ctx, g, "out.onnx", &o)); */
#ifndef QG_ENGINE_ONNX_EXPORT_H
#define QG_ENGINE_ONNX_EXPORT_H

#include <stdio.h>

#include "engine/core/hash.h"
#include "engine/core/file.h"
#include "engine/ir/graph.h"

/* Of graphs that came from no file. */
enum { QG_ONNX_DEFAULT_IR = 8 };

/* An entry of metadata_props; UTF-8. */
typedef struct qg_onnx_property {
    const char *key, *value;
} qg_onnx_property;

/* An entry of quantization_annotation: which initializers hold the grid of a tensor.
 * No runtime reads it; Netron shows it next to the tensor.  ONNX has the keys
 * SCALE_TENSOR and ZERO_POINT_TENSOR; limits of a FakeQuantize have LOW_TENSOR and
 * HIGH_TENSOR. */
typedef struct qg_onnx_annotation {
    const char *tensor;            /* name of a value */
    qg_onnx_property parameter[2]; /* value: name of an initializer */
} qg_onnx_annotation;

typedef struct qg_export_options {
    const qg_onnx_property *metadata; /* [n_metadata]: metadata_props of the model */
    size_t n_metadata;
    const qg_onnx_annotation *annotation; /* [n_annotation] of the outermost graph */
    size_t n_annotation;
    /* Bytes of constants above which they go to "<file>.data" next to the model, which
     * must stay below the 2 GiB of protobuf; 0: 1.5 GiB. */
    size_t external_above;
    /* Constants that no node reads are inputs too, with their values as defaults, as
     * tools list facts about a model. */
    bool list_unread;
    /* Float values of learned constants (QG_UNTUNED) are left out: for a file that
     * other tools read, not for a snapshot. */
    bool learned_alone;
    /* Another file, whose contents are written: it is put in place after the model, and
     * none of them when one fails.  NULL: none. */
    qg_writer *beside;
} qg_export_options;

/* Captured values of bodies are written under the name of the outer value, whatever the
 * body calls them; a body that has a value of its own of that name is QG_ESTATE.
 *
 * Before IR 4 initializers are listed among the inputs too, after the real ones: the
 * checkers of that time demand it, and import takes them for constants again.
 *
 * Cost: the message holds pointers into the graph; constants are not copied.
 *
 * options NULL: all defaults.  QG_ESTATE names a node that the imported opsets describe
 * differently from the operator that it holds.
 * QG_EIO when a file cannot be written. */
QG_NODISCARD qg_status qg_onnx_export(qg_ctx *ctx, const qg_graph *g, const char *path,
                                      const qg_export_options *options);

/* Key of the metadata with which a quantized export names its format. */
#define QG_ONNX_FORMAT_KEY "quantgraph.format"

/* Refuses with QG_ECONFIG to replace a file that qg_onnx_export did not write, or that
 * has such a key, for callers that choose the name of a model themselves; `file` is the
 * one that the user named.  No file at path: nothing to refuse. */
QG_NODISCARD qg_status qg_onnx_keep_foreign(qg_ctx *ctx, const char *path,
                                            const char *file);

/* The bytes of such a file into an open stream, whose errors are detected when it is
 * closed.  There is no file next to it: constants above options->external_above are
 * QG_EUNSUPPORTED. */
QG_NODISCARD qg_status qg_onnx_export_stream(qg_ctx *ctx, const qg_graph *g,
                                             FILE *stream,
                                             const qg_export_options *options);

/* SHA-256 of those bytes, of which there may be any number. */
QG_NODISCARD qg_status qg_onnx_hash(qg_ctx *ctx, const qg_graph *g,
                                    char text[QG_HASH_TEXT]);

#endif
