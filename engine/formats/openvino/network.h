/* network.h -- a network of OpenVINO IR: layers with numbered ports and edges in XML,
 * constants in a binary next to it.  Private to engine/formats/openvino.
 *
 * Shapes    those of inputs are known; values known to inference (shape arithmetic) are
 *           constants.  Dims that depend on the data, behind NonMaxSuppression, are -1
 * Ports     a layer's inputs are ports 0 .. n_in - 1, its outputs follow
 * Names     a layer has the name of its node; a port carries the name of its value
 * Source    OpenVINO documentation, "Operation sets" and "OpenVINO IR format"
 *
 *     qg_ir_source x, y;
 *     QG_TRY(qg_ir_value(ir, n->in[0], &x));
 *     qg_ir_layer l = { .name = n->name, .type = "ReLU", .opset = "opset1",
 *                       .in = &x, .n_in = 1, .out = &n->out[0]->type, .n_out = 1 };
 *     QG_TRY(qg_ir_add(ir, &l, &y)); */
#ifndef QG_ENGINE_FORMATS_OPENVINO_NETWORK_H
#define QG_ENGINE_FORMATS_OPENVINO_NETWORK_H

#include <stdio.h>

#include "engine/ir/graph.h"

/* An output of a layer. */
typedef struct qg_ir_source {
    uint32_t layer, port; /* port counts outputs from 0 */
} qg_ir_source;

/* All borrowed by qg_ir_add, which copies the arrays into the arena. */
typedef struct qg_ir_layer {
    const char *name, *type, *opset;
    const char *data;          /* attributes of <data>, escaped; NULL: none */
    const qg_tensor *constant; /* Const: its value */
    size_t offset;             /* Const: bytes into the binary */
    const qg_ir_source *in;
    uint32_t n_in, n_out;
    const qg_tensor *out;     /* [n_out] types and dims, known */
    const char *const *named; /* [n_out] tensor names, NULL: none; or NULL */
} qg_ir_layer;

/* A document under construction. */
typedef struct qg_ir {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_graph *g; /* the export's own; nodes and values stay as they are */
    const qg_tensor *const *known; /* [values] values known to inference; NULL:
                                    * unknown */
    qg_ir_source *of_value;        /* [values] layer QG_NONE: not placed yet */
    QG_VEC(qg_ir_layer) layer;     /* every source before its readers */
    size_t bytes;                  /* of the binary so far */
    bool no_memory;                /* of a text for the next layer */
} qg_ir;

/* "f32"; NULL when IR has no such type. */
const char *qg_ir_type_name(qg_dtype d);

/* Appends a layer; *out is its first output.  QG_ENOMEM, also when a text of the layer
 * could not be had (no_memory); QG_EUNSUPPORTED for an output whose rank
 * is not known, or the dims of an input, or whose type IR lacks. */
QG_NODISCARD qg_status qg_ir_add(qg_ir *ir, const qg_ir_layer *l, qg_ir_source *out);

/* Where the value of a slot comes from; constants become layers when first requested.
 * v is not NULL and, unless constant, was bound. */
QG_NODISCARD qg_status qg_ir_value(qg_ir *ir, const qg_value *v, qg_ir_source *out);

/* Readers of v get this. */
void qg_ir_bind(qg_ir *ir, const qg_value *v, qg_ir_source s);

/* t is borrowed until the files are written. */
QG_NODISCARD qg_status qg_ir_constant(qg_ir *ir, const char *name, const qg_tensor *t,
                                      qg_ir_source *out);

/* Constants that ONNX has as attributes: vectors, or scalars when n is 0. */
QG_NODISCARD qg_status qg_ir_i64(qg_ir *ir, const char *name, size_t n,
                                 const int64_t *x, qg_ir_source *out);
QG_NODISCARD qg_status qg_ir_f32(qg_ir *ir, const char *name, size_t n, const float *x,
                                 qg_ir_source *out);

/* The value of a constant slot, known ahead; NULL when it depends on data. */
const qg_tensor *qg_ir_known(const qg_ir *ir, const qg_value *v);

/* An input of the network as a layer; its shape is the one that inference has fixed. */
QG_NODISCARD qg_status qg_ir_input(qg_ir *ir, const qg_value *v);

/* An output of the network: it is a layer, too. */
QG_NODISCARD qg_status qg_ir_result(qg_ir *ir, const qg_value *v);

/* The two files; `backend` is named in the XML.  The opener of the stream checks it for
 * failures; QG_ENOMEM otherwise. */
QG_NODISCARD qg_status qg_ir_put_xml(FILE *f, const qg_ir *ir, const char *backend);
QG_NODISCARD qg_status qg_ir_put_binary(FILE *f, const qg_ir *ir);

#endif
