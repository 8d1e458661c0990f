/* layers.h -- the layers of one node: rows of the table of operators, and the parts
 * that layers are made of.  Private to engine/formats/openvino.
 *
 * An operator in full:
 *
 *     static qg_status exp(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
 *     {
 *         qg_ir_source in[1];
 *         QG_TRY(qg_ir_inputs(ir, n, 1, in));
 *         return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 1));
 *     }
 *     ... { "Exp", "Exp", "opset1", NULL, exp }, */
#ifndef QG_ENGINE_FORMATS_OPENVINO_LAYERS_H
#define QG_ENGINE_FORMATS_OPENVINO_LAYERS_H

#include "engine/formats/openvino/network.h"

/* One operator; static and immutable. */
typedef struct qg_ir_row qg_ir_row;
struct qg_ir_row {
    const char *onnx, *type, *opset; /* operator there, layer and operation set here */
    const char *data;                /* attributes that do not depend on the node */
    qg_status (*emit)(qg_ir *ir, const qg_node *n, const qg_ir_row *r);
};

#define QG_IR_NUMPY "auto_broadcast=\"numpy\""

/* QG_EUNSUPPORTED with the node, the operator and why. */
#define qg_ir_refuse(ir, n, ...)                                                       \
    qg_node_fail((ir)->ctx, QG_EUNSUPPORTED, "export to OpenVINO IR", (n), __VA_ARGS__)

/* A layer of the row's type; finish or inner complete it. */
qg_ir_layer qg_ir_layer_of(const qg_ir_row *r, const char *data, const qg_ir_source *in,
                           uint32_t n_in);
extern const qg_ir_row qg_ir_add_row; /* Add, for biases */

/* The layer that gives output 0 of the node, under its names. */
QG_NODISCARD qg_status qg_ir_finish(qg_ir *ir, const qg_node *n, qg_ir_layer l);

/* A layer inside of a node's, "<node>/<suffix>"; l has its outputs. */
QG_NODISCARD qg_status qg_ir_inner(qg_ir *ir, const qg_node *n, const char *suffix,
                                   qg_ir_layer l, qg_ir_source *out);

/* Text in the arena; "" when out of memory, which the next qg_ir_add reports. */
const char *QG_PRINTF(2, 3) qg_ir_text(qg_ir *ir, const char *fmt, ...);

/* "<node>/<suffix>", as by qg_ir_text. */
const char *qg_ir_inner_name(qg_ir *ir, const qg_node *n, const char *suffix);

/* Inputs 0 .. count - 1, which must be there. */
QG_NODISCARD qg_status qg_ir_inputs(qg_ir *ir, const qg_node *n, uint32_t count,
                                    qg_ir_source *in);

/* A constant of int64 that belongs to the node; count 0: a scalar. */
QG_NODISCARD qg_status qg_ir_vector(qg_ir *ir, const qg_node *n, const char *suffix,
                                    size_t count, const int64_t *x, qg_ir_source *out);

/* A scalar of float32 that belongs to the node. */
QG_NODISCARD qg_status qg_ir_number(qg_ir *ir, const qg_node *n, const char *suffix,
                                    float x, qg_ir_source *out);

/* s with the dims of t. */
QG_NODISCARD qg_status qg_ir_reshaped(qg_ir *ir, const qg_node *n, const char *suffix,
                                      qg_ir_source s, const qg_tensor *t,
                                      qg_ir_source *out);

/* "2, 2", as by qg_ir_text. */
const char *qg_ir_list(qg_ir *ir, size_t n, const int64_t *x);

/* The integers of an attribute (NULL: none), or of an input that is known (UINT32_MAX:
 * none); *count is 0 when neither is there.  QG_EUNSUPPORTED for a computed input. */
QG_NODISCARD qg_status qg_ir_ints(qg_ir *ir, const qg_node *n, const char *attr,
                                  uint32_t slot, size_t *count,
                                  int64_t x[2 * QG_MAX_RANK]);

#endif
