/* qdq.c -- the format onnx-qdq: a float graph with QuantizeLinear and
 * DequantizeLinear exactly where the simulation quantizes.
 *
 *   output that rounds   node -> v_float -> [Clip] -> Q -> DQ -> v -> readers
 *   input that rounds    v -> [Clip] -> Q -> DQ -> this reader; not when the producer
 *                        rounds v to the same grid already: rounding twice is rounding
 *   constant             codes -> DQ; weights also values -> Q -> DQ (float)
 *   bias                 int32 codes -> DQ, scale as derived: input x weight
 *   OVERLAPPED           nothing: the target fuses there
 *   not representable constants as float values on their grid; else nothing, and a
 *                        loss
 *
 * Clip comes before Q where the type has more codes than the scheme: then the codes are
 * those of the scheme.  Endpoints of one group share one scale initializer.
 *
 * Placement: ort gives every reader a DQ of its own (onnxruntime#12860) and is guarded
 * against its optimizer (runtime.h); trt and openvino share a DQ, as OpenVINO
 * makes a FakeQuantize only then; trt refuses schemes that TensorRT refuses.
 *
 * Types     int8 activations become uint8 from opset 21 on (quantize_linear.h), but for
 *           TensorRT, which reads int8 only, and for OpenVINO in any opset where the
 *           network has a Concat of floats: its integer kernels (2026.4.1) lose codes
 *           of a signed grid there.  Without a Concat they stay, since its products of
 *           two activations are integers only with zero point 0.
 *
 * Floats   Q, DQ and what is between them is float32.  In a model of 16-bit floats
 *          (ir/float_type.h) Casts lead to and from them: a scale keeps its 24 bits,
 *          and any opset will do, while 16-bit scales require opset 19.
 *
 * Names    of new values begin with the value they stand for: v_float (before
 *          rounding), v_clipped, v_abs, v_quantized, v_dequantized, v_scale,
 *          v_zero_point; v itself is always the value that the readers of v see.  A
 *          number follows where a name is taken. */
#include <assert.h>

#include "engine/formats/code_grid.h"
#include "engine/formats/explicit_pads.h"
#include "engine/formats/openvino_plugin.h"
#include "engine/formats/qdq/fuse.h"
#include "engine/formats/qdq/qdq.h"
#include "engine/formats/qdq/runtime.h"
#include "engine/formats/quantize_linear.h"
#include "engine/formats/qonnx/quant.h"
#include "engine/formats/quantizers.h"
#include "engine/formats/resize_extent.h"
#include "engine/onnx/export.h"
#include "engine/ir/edit.h"
#include "engine/ir/float_type.h"
#include "engine/ir/upgrade.h"

/* The opset from which on ONNX Runtime refuses files with int8 activations. */
enum { UNSIGNED_SINCE = 21 };

static const char *const weights[] = { "int", "float", NULL };
const char *const qg_qdq_floats[] = { "auto", "model", "float32", NULL };

/* A value on a grid, made once for all readers that need the same. */
typedef struct made {
    const qg_tqc *tqc;
    qg_value *value; /* dequantized */
    struct made *next;
} made;

/* Scale and zero point of a root. */
typedef struct grid_values {
    qg_value *scale, *zero;
    qg_dtype code;
} grid_values;

/* How a rounding is written: Q and DQ, operators on codes where there are some, or
 * QONNX. */
enum form { PAIRS, FUSED, QUANTS };

typedef struct builder {
    qg_export *e;
    qg_ctx *ctx;
    qg_graph *g; /* a copy; its nodes have the ids of the original's */
    const qg_quant *quant;
    enum qg_placement place;
    bool float_weights, is_unsigned; /* the latter: int8 activations */
    enum form form;
    int64_t opset;
    made **made;             /* [values of the original] */
    const qg_tqc **producer; /* [values of the original] its active endpoint; NULL:
                              * none */
    grid_values *grid;       /* [TQCs], of roots */
    QG_VEC(qg_onnx_annotation) annotation;
} builder;

/* --- small parts --- */

/* "<stem><suffix>", followed by a number when that is in use. */
static qg_status add_value(builder *b, const char *stem, const char *suffix,
                           qg_value **out)
{
    const char *name = qg_arena_printf(b->g->arena, "%s%s", stem, suffix);
    if (!name)
        return qg_nomem(b->ctx);
    if (qg_graph_value(b->g, name))
        return qg_graph_add_prefixed(b->g, name, out);
    return qg_graph_add_value(b->g, name, out);
}

static qg_status add_constant(builder *b, const char *stem, const char *suffix,
                              const qg_tensor *t, qg_value **out)
{
    qg_value *v;
    qg_tensor *copy;
    qg_status s = qg_tensor_clone(b->ctx, b->g->arena, t, &copy);
    if (qg_memory_unplaced(b->ctx, s))
        return qg_fail(b->ctx, s, "export: constant '%s%s': %s", stem, suffix,
                       qg_ctx_message(b->ctx));
    QG_TRY(s);
    QG_TRY(add_value(b, stem, suffix, &v));
    QG_TRY(qg_edit_make_constant(b->g, v, copy));
    *out = v;
    return QG_OK;
}

static qg_status add_node(builder *b, const char *op, const qg_node_spec *like)
{
    qg_node *n;
    qg_node_spec spec = *like;
    spec.op = qg_op_find(b->ctx->registry, NULL, op, b->opset);
    spec.opset = b->opset;
    if (!spec.op)
        return qg_fail(b->ctx, QG_EUNSUPPORTED, "export: opset %lld has no %s",
                       (long long)b->opset, op);
    return qg_graph_add_node(b->g, &spec, &n);
}

/* axis and block_size as far as the scheme has them. */
static qg_status grid_attributes(builder *b, const qg_tqc *t, qg_node_spec *spec)
{
    const qg_scheme *s = &t->scheme;
    int64_t *number = QG_NEWN(b->g->arena, 2, int64_t);
    qg_attr *attr = QG_NEWN(b->g->arena, 2, qg_attr);
    const char *axis = qg_intern(b->ctx, "axis"),
               *block = qg_intern(b->ctx, "block_size");
    if (!number || !attr || !axis || !block)
        return qg_nomem(b->ctx);
    number[0] = s->axis;
    number[1] = s->block;
    attr[0] =
        (qg_attr){ .name = axis, .type = QG_ATTR_INT, .count = 1, .ints = number };
    attr[1] =
        (qg_attr){ .name = block, .type = QG_ATTR_INT, .count = 1, .ints = number + 1 };
    spec->attr = attr;
    spec->n_attr = s->policy & QG_BLOCK ? 2 : s->policy & QG_PER_CHANNEL ? 1 : 0;
    return QG_OK;
}

/* --- scales --- */

static qg_status make_grid(builder *b, const qg_tqc *t, qg_dtype code,
                           const qg_tensor *x, grid_values *out)
{
    qg_tensor scale, zero;
    qg_qparam p = qg_tqc_param(t);
    const qg_value *v = qg_tqc_value(qg_tqc_root(t));
    qg_onnx_scale_type(t, x, QG_F32, &scale);
    scale.data = (void *)(uintptr_t)p.scale;
    assert(qg_tensor_count(&scale) == (int64_t)p.n);
    QG_TRY(qg_onnx_zero_points(b->ctx, b->e->arena, t, code, x, &zero));
    QG_TRY(add_constant(b, v->name, "_scale", &scale, &out->scale));
    QG_TRY(add_constant(b, v->name, "_zero_point", &zero, &out->zero));
    out->code = code;
    return QG_OK;
}

/* Members of a group share the initializers of its root, as long as they have its
 * type. */
static qg_status grid_of(builder *b, const qg_tqc *t, qg_dtype code, const qg_tensor *x,
                         grid_values *out)
{
    grid_values *root = &b->grid[qg_tqc_root(t)->id];
    if (!root->scale)
        QG_TRY(make_grid(b, t, code, x, root));
    if (root->code == code) {
        *out = *root;
        return QG_OK;
    }
    return make_grid(b, t, code, x, out);
}

/* --- chains of nodes --- */

static qg_status add_clip(builder *b, const qg_tqc *t, const char *stem, qg_value **x)
{
    float limit[2];
    qg_value *in[3] = { *x }, *out;
    qg_tensor scalar;
    qg_tensor_scalar(&scalar, QG_F32);
    qg_onnx_limits(t, 0, &limit[0], &limit[1]);
    for (size_t i = 0; i < 2; i++) {
        scalar.f32 = &limit[i];
        QG_TRY(add_constant(b, stem, i ? "_high" : "_low", &scalar, &in[i + 1]));
    }
    QG_TRY(add_value(b, stem, "_clipped", &out));
    out->type = (*x)->type;
    *x = out;
    return add_node(b, "Clip",
                    &(qg_node_spec){ .in = in, .n_in = 3, .out = &out, .n_out = 1 });
}

static qg_status add_neutral(builder *b, const char *op, const char *stem, qg_value **x)
{
    qg_value *out;
    QG_TRY(add_value(b, stem, "_kept", &out));
    return qg_onnx_hide(b->g, op, b->opset, out, x);
}

static qg_status add_quantize(builder *b, const qg_tqc *t, const grid_values *grid,
                              const char *stem, qg_value **x)
{
    qg_value *in[] = { *x, grid->scale, grid->zero }, *q;
    QG_TRY(add_value(b, stem, "_quantized", &q));
    q->type = (*x)->type;
    q->type.dtype = grid->code;
    qg_node_spec spec = { .in = in, .n_in = 3, .out = &q, .n_out = 1 };
    QG_TRY(grid_attributes(b, t, &spec));
    assert(grid->code != QG_NODTYPE);
    *x = q;
    return add_node(b, "QuantizeLinear", &spec);
}

static qg_status add_dequantize(builder *b, const qg_tqc *t, const grid_values *grid,
                                qg_value *q, qg_value *out)
{
    qg_value *in[] = { q, grid->scale, grid->zero };
    out->type = q->type;
    out->type.dtype = QG_F32;
    qg_node_spec spec = { .in = in, .n_in = 3, .out = &out, .n_out = 1 };
    QG_TRY(grid_attributes(b, t, &spec));
    return add_node(b, "DequantizeLinear", &spec);
}

/* x -> [Clip] -> [Abs or Max] -> Q -> DQ -> out; stem begins the names of values
 * between. */
static qg_status add_chain(builder *b, const qg_tqc *t, const qg_onnx_grid *how,
                           const char *stem, qg_value *x, qg_value *out)
{
    grid_values grid;
    if (b->form == QUANTS)
        return qg_qonnx_add_quant(b->g, t, x, out);
    const char *neutral =
        b->place == QG_PLACE_ORT ? qg_onnx_neutral(b->ctx, b->quant, t, how, x) : NULL;
    QG_TRY(grid_of(b, t, how->code, &x->type, &grid));
    if (how->clip && !x->constant)
        QG_TRY(add_clip(b, t, stem, &x));
    if (neutral)
        QG_TRY(add_neutral(b, neutral, stem, &x));
    QG_TRY(add_quantize(b, t, &grid, stem, &x));
    return add_dequantize(b, t, &grid, x, out);
}

/* --- losses --- */

static qg_status lose_precision(builder *b, const qg_tqc *t, const qg_onnx_grid *how)
{
    const qg_scheme *s = &t->scheme;
    const char *ties = b->form == QUANTS ? qg_qonnx_ties(t) : NULL;
    if (ties)
        return qg_export_lose(b->e, QG_SAYS_ROUNDING, t, "%s", ties);
    if (t->visibility == QG_EXPORT_INTERNAL || s->policy & QG_FLOATING ||
        b->form == QUANTS)
        return QG_OK;
    if (s->bits != qg_dtype_bits(how->code))
        QG_TRY(qg_export_lose(b->e, QG_SAYS_BITS, t, "%u bits are written as %s",
                              s->bits, qg_dtype_name(how->code)));
    if (qg_onnx_shift(t, how->code))
        QG_TRY(qg_export_lose(b->e, QG_SAYS_RANGE, t,
                              "codes are written as %s, %d higher",
                              qg_dtype_name(how->code), qg_onnx_shift(t, how->code)));
    if (how->clip && qg_tqc_is_constant(t))
        QG_TRY(qg_export_lose(
            b->e, QG_SAYS_RANGE, t,
            "limits [%lld, %lld]: the values keep them, the file does not contain them",
            (long long)s->qmin, (long long)s->qmax));
    return QG_OK;
}

/* TensorRT would not read the file: better no file than one that fails there. */
static qg_status lose_endpoint(builder *b, const qg_tqc *t, const char *why)
{
    char at[QG_ENDPOINT_TEXT];
    bool constant = qg_tqc_is_constant(t);
    if (b->place == QG_PLACE_TRT && !constant)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "export: %s: %s; activation '%s' has %u bits, expected a scheme "
                       "for TensorRT or another --placement",
                       qg_tqc_text(t, at), why, qg_tqc_value(t)->name, t->scheme.bits);
    return qg_export_lose(
        b->e, QG_SAYS_ENDPOINT, t, "%s: %s",
        constant ? "written as float values on its grid" : "stays float", why);
}

/* The type of the codes, or why the file has none. */
static qg_onnx_grid grid_kind(const builder *b, const qg_tqc *t, bool constant)
{
    if (b->form == QUANTS)
        return (qg_onnx_grid){ .fault = qg_qonnx_fault(t) };
    return qg_onnx_grid_of(t, constant, b->place);
}

/* The file of OpenVINO's plugin, not that of QONNX. */
static bool is_for_plugin(const builder *b)
{
    return b->place == QG_PLACE_OPENVINO && b->form == PAIRS;
}

/* --- constants --- */

/* DequantizeLinear multiplies in float32, which holds codes of 24 bits exactly. */
static qg_status lose_last_bits(builder *b, const qg_tqc *t, const qg_tensor *codes)
{
    int64_t n = codes->dtype == QG_I32 ? qg_tensor_count(codes) : 0;
    for (int64_t i = 0; i < n; i++)
        if (codes->i32[i] > 1 << 24 || codes->i32[i] < -(1 << 24))
            return qg_export_lose(b->e, QG_SAYS_BITS, t,
                                  "code %ld of element %ld is rounded to 24 bits by "
                                  "DequantizeLinear",
                                  (long)codes->i32[i], (long)i);
    return QG_OK;
}

static qg_status write_codes(builder *b, const qg_tqc *t, const qg_onnx_grid *how,
                             const qg_value *v, qg_value *out)
{
    grid_values grid;
    qg_tensor codes;
    qg_value *q;
    QG_TRY(grid_of(b, t, how->code, v->constant, &grid));
    qg_tensor_init(&codes, how->code, v->constant->rank, v->constant->dim);
    QG_TRY(qg_onnx_codes(b->ctx, b->e->arena, t, v->constant, &codes));
    QG_TRY(lose_last_bits(b, t, &codes));
    QG_TRY(add_constant(b, v->name, "_quantized", &codes, &q));
    return add_dequantize(b, t, &grid, q, out);
}

/* Q must give our codes: values that it would round or clamp differently are written on
 * the grid. */
static qg_status write_floats(builder *b, const qg_tqc *t, const qg_onnx_grid *how,
                              qg_value *v, qg_value *out)
{
    qg_tensor y;
    const char *stem = v->name;
    if (how->clip || t->scheme.rounding != QG_ROUND_HALF_EVEN) {
        QG_TRY(qg_onnx_rounded(b->ctx, b->e->arena, t, v->constant, &y));
        QG_TRY(add_constant(b, v->name, "_rounded", &y, &v));
    }
    return add_chain(b, t, how, stem, v, out);
}

static qg_status put_constant(builder *b, const qg_tqc *t, qg_value *v, qg_value **out)
{
    qg_onnx_grid how = grid_kind(b, t, true);
    bool internal = t->visibility == QG_EXPORT_INTERNAL;
    bool apart = is_for_plugin(b) && qg_tqc_role(t) == 'w' &&
                 qg_plugin_weight_stays_float(t->node);
    if (how.fault || internal || apart) {
        qg_tensor y;
        if (apart && !internal)
            how.fault = "OpenVINO's plugin has no right kernel for its codes";
        if (!internal)
            QG_TRY(lose_endpoint(b, t, how.fault));
        QG_TRY(qg_onnx_rounded(b->ctx, b->e->arena, t, v->constant, &y));
        return add_constant(b, v->name, "_rounded", &y, out);
    }
    QG_TRY(lose_precision(b, t, &how));
    QG_TRY(add_value(b, v->name, "_dequantized", out));
    bool weight = qg_op_in_role(t->node->op, t->slot) == 'w';
    if (b->form == QUANTS)
        return add_chain(b, t, &how, v->name, v, *out);
    qg_qparam p = qg_tqc_param(t);
    bool turned = b->place == QG_PLACE_OPENVINO && qg_onnx_turns_zero_points(t, &p);
    return (b->float_weights && weight) || turned ? write_floats(b, t, &how, v, *out)
                                                  : write_codes(b, t, &how, v, *out);
}

/* --- endpoints --- */

static bool is_written(const qg_tqc *t, const qg_value *v)
{
    if (!t || !v)
        return false;
    bool baked = qg_tqc_is_baked(t);
    return qg_tqc_rounds(t) || (baked && v->constant);
}

/* An activation that the file cannot represent: QG_OK with *how.fault set. */
static qg_status grid_or_loss(builder *b, const qg_tqc *t, qg_onnx_grid *how)
{
    *how = grid_kind(b, t, false);
    if (b->is_unsigned && how->code == QG_I8)
        how->code = QG_U8;
    if (t->visibility == QG_EXPORT_INTERNAL)
        how->fault = "its visibility is internal: not written for other tools";
    return how->fault ? lose_endpoint(b, t, how->fault) : lose_precision(b, t, how);
}

/* The reader's slot gets v on t's grid; readers that need the same share it. */
static qg_status put_input(builder *b, const qg_tqc *t, qg_value *source)
{
    qg_node *n = b->g->node.at[t->node->id];
    qg_value *v = n->in[t->slot], *out = NULL;
    qg_onnx_grid how;
    assert(v && !t->is_output);
    for (made *m = b->made[source->id]; m && !out; m = m->next)
        out = qg_onnx_same_grid(m->tqc, t) ? m->value : NULL;
    if (out)
        return qg_edit_set_input(b->g, n, t->slot, out);
    if (v->constant) {
        QG_TRY(put_constant(b, t, v, &out));
    } else {
        QG_TRY(grid_or_loss(b, t, &how));
        if (how.fault)
            return QG_OK;
        QG_TRY(add_value(b, v->name, "_dequantized", &out));
        QG_TRY(add_chain(b, t, &how, v->name, v, out));
    }
    made *m = QG_NEW(b->e->arena, made);
    if (!m)
        return qg_nomem(b->ctx);
    *m = (made){ t, out, b->made[source->id] };
    b->made[source->id] = m;
    return qg_edit_set_input(b->g, n, t->slot, out);
}

/* Readers and interface go on with the rounded value, which keeps the name. */
static qg_status put_output(builder *b, const qg_tqc *t, qg_value *source)
{
    qg_value *v = b->g->node.at[t->node->id]->out[t->slot], *rounded;
    qg_onnx_grid how;
    bool output = v->is_output;
    assert(t->is_output && v->def);
    QG_TRY(grid_or_loss(b, t, &how));
    if (how.fault)
        return QG_OK;
    QG_TRY(add_value(b, v->name, "_float", &rounded));
    QG_TRY(qg_edit_replace_value(b->g, v, rounded));
    if (!output)
        qg_value_swap_names(b->g, v, rounded);
    QG_TRY(add_chain(b, t, &how, rounded->name, v, rounded));
    b->producer[source->id] = t;
    return QG_OK;
}

/* The input of a maximum, which OpenVINO computes on codes alone, on the grid of its
 * output: behind the quantizers of that input, and for this reader alone. */
static qg_status put_ahead(builder *b, qg_node *n, const qg_tqc *t)
{
    qg_value *v = n->in[0], *out;
    qg_onnx_grid how;
    QG_TRY(grid_or_loss(b, t, &how));
    if (how.fault)
        return QG_OK;
    QG_TRY(add_value(b, v->name, "_dequantized", &out));
    QG_TRY(add_chain(b, t, &how, v->name, v, out));
    return qg_edit_set_input(b->g, n, 0, out);
}

/* Whether that quantizer stands in front of the maximum that gives v. */
static bool is_moved(const builder *b, const qg_tqc *t, const qg_value *v)
{
    return is_for_plugin(b) && qg_plugin_behind_maximum(v, t);
}

/* Outputs of a node before the inputs of its readers: nodes are in order. */
static qg_status put_node(builder *b, const qg_node *n)
{
    const qg_tqc *ahead = is_for_plugin(b) ? qg_plugin_before_maximum(n) : NULL;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_tqc *t = qg_input_tqc(n, i);
        if (!is_written(t, n->in[i]) || is_moved(b, t, n->in[i]))
            continue;
        const qg_tqc *before = b->producer[n->in[i]->id];
        if (!before || !qg_onnx_same_grid(before, t))
            QG_TRY(put_input(b, t, n->in[i]));
    }
    if (ahead)
        QG_TRY(put_ahead(b, b->g->node.at[n->id], ahead));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (is_written(qg_output_tqc(n, i), n->out[i]) &&
            !is_moved(b, qg_output_tqc(n, i), n->out[i]))
            QG_TRY(put_output(b, qg_output_tqc(n, i), n->out[i]));
    return QG_OK;
}

/* ort: a DQ for every reader.  The first keeps the value, and its place in the
 * interface. */
static qg_status split_readers(builder *b, qg_node *n)
{
    qg_value *v = n->out[0];
    assert(n->n_out == 1);
    while (v->use.n + v->is_output > 1) {
        qg_use u = v->use.at[v->use.n - 1];
        qg_value *own;
        QG_TRY(add_value(b, v->name, "_again", &own));
        own->type = v->type;
        QG_TRY(add_node(b, n->op->name,
                        &(qg_node_spec){ .in = n->in,
                                         .n_in = n->n_in,
                                         .out = &own,
                                         .n_out = 1,
                                         .attr = n->attr,
                                         .n_attr = n->n_attr }));
        QG_TRY(qg_edit_set_input(b->g, u.node, u.slot, own));
    }
    return QG_OK;
}

/* --- the whole graph --- */

/* The least opset that has every type that will be written. */
static int64_t needed_opset(const qg_quant *q, enum qg_placement place)
{
    int64_t need = 13;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        if (!is_written(t, qg_tqc_value(t)) || t->visibility == QG_EXPORT_INTERNAL)
            continue;
        qg_onnx_grid how = qg_onnx_grid_of(t, qg_tqc_is_constant(t), place);
        need = how.opset > need ? how.opset : need;
    }
    return need;
}

int64_t qg_qdq_file_opset(const qg_quant *q)
{
    int64_t own = qg_graph_opset(q->graph, ""), need = needed_opset(q, QG_PLACE_ORT);
    return own > need ? own : need;
}

/* Asked for by name, but Q and DQ there would round where the backend does not. */
static qg_status lose_forced(builder *b)
{
    for (size_t i = 0; i < b->quant->tqc.n; i++) {
        const qg_tqc *t = b->quant->tqc.at[i];
        if (t->visibility == QG_EXPORT_FORCED && t->state == QG_TQC_OVERLAPPED)
            QG_TRY(qg_export_lose(b->e, QG_SAYS_SILENT, t,
                                  "its scale is not written, although its visibility "
                                  "is forced: Q and DQ would quantize here"));
    }
    return QG_OK;
}

static qg_status put_nodes(builder *b)
{
    const qg_graph *from = b->quant->graph;
    for (size_t i = 0; i < from->node.n; i++) {
        assert(b->g->node.at[i]->id == i);
        QG_TRY(put_node(b, from->node.at[i]));
    }
    size_t old = from->node.n, n = b->g->node.n;
    for (size_t i = old; i < n && b->place == QG_PLACE_ORT; i++) {
        qg_node *dq = b->g->node.at[i];
        if (dq->out[0]->type.dtype == QG_F32 && qg_node_has(dq, QG_OP_QUANTIZER))
            QG_TRY(split_readers(b, dq));
    }
    return QG_OK;
}

static bool is_unsigned(const builder *b)
{
    switch (b->place) {
    case QG_PLACE_ORT:
        return b->opset >= UNSIGNED_SINCE;
    case QG_PLACE_OPENVINO:
        return b->opset >= UNSIGNED_SINCE || qg_onnx_has_concat(b->quant->graph);
    case QG_PLACE_TRT:
        break;
    }
    return false;
}

/* docs/evidence/grids.md#nan */
static const uint32_t nan_of_placement[] = {
    [QG_PLACE_ORT] = QG_NAN_BIT(QG_NAN_LOWEST),
    [QG_PLACE_TRT] = QG_NAN_BIT(QG_NAN_ZERO),
    [QG_PLACE_OPENVINO] = QG_NAN_BIT(QG_NAN_LOWEST),
};

/* OpenVINO makes a FakeQuantize of a pair, which rounds levels. */
static const qg_rounding rounding_of_placement[] = {
    [QG_PLACE_ORT] = QG_ROUND_HALF_EVEN,
    [QG_PLACE_TRT] = QG_ROUND_HALF_EVEN,
    [QG_PLACE_OPENVINO] = QG_ROUND_HALF_EVEN_LEVEL,
};

static qg_status begin(builder *b)
{
    const qg_graph *from = b->quant->graph;
    qg_arena *a = b->e->arena;
    const char *place = b->e->option[QG_FORMAT_PLACEMENT];
    b->place = b->form == QUANTS ? QG_PLACE_OPENVINO : QG_PLACE_ORT;
    for (int i = 0; place && qg_placements[i]; i++)
        if (strcmp(qg_placements[i], place) == 0)
            b->place = (enum qg_placement)i;
    if (place) {
        b->e->nan = nan_of_placement[b->place];
        b->e->rounding = rounding_of_placement[b->place];
    }
    const char *weight = b->e->option[QG_FORMAT_WEIGHTS];
    b->float_weights = weight && weight[0] == 'f';
    b->made = QG_NEWN(a, from->value.n, made *);
    b->producer = QG_NEWN(a, from->value.n, const qg_tqc *);
    b->grid = QG_NEWN(a, b->quant->tqc.n, grid_values);
    if (!b->made || !b->producer || !b->grid)
        return qg_nomem(b->ctx);
    QG_TRY(qg_graph_clone(from, &b->e->graph));
    b->g = b->e->graph;
    QG_TRY(qg_export_explicit_pads(b->e, b->g, is_for_plugin(b)));
    int64_t own = qg_graph_opset(from, "");
    int64_t need = b->form == QUANTS ? own : needed_opset(b->quant, b->place);
    b->opset = own > need ? own : need;
    if (is_for_plugin(b))
        b->opset = qg_plugin_opset(from, b->opset);
    b->is_unsigned = is_unsigned(b);
    return QG_OK;
}

static qg_status narrow(builder *b)
{
    QG_TRY(qg_graph_to_float_type(b->g));
    QG_TRY(
        qg_export_lose_result(b->e, QG_SAYS_FLOAT_TYPE, NULL,
                              "values between quantizers are rounded to %s, where the "
                              "simulation has float32 (--float float32 keeps it)",
                              qg_dtype_name(b->quant->graph->float_type)));
    return QG_OK;
}

/* The 16-bit float type of the model, unless asked for float32.  ONNX Runtime's
 * processor has kernels for float16 (through Casts) but for few operators in bfloat16.
 */
static qg_status restore_float_type(builder *b)
{
    const char *word = b->e->option[QG_FORMAT_FLOAT];
    bool no_kernels = b->g->float_type == QG_BF16 && b->place == QG_PLACE_ORT;
    if (b->g->float_type == QG_NODTYPE || word[0] == 'f')
        return QG_OK;
    if (word[0] == 'm' || !no_kernels)
        return narrow(b);
    return qg_export_lose(b->e, QG_SAYS_FLOAT_TYPE, NULL,
                          "values are float32, where the model has bfloat16: ONNX "
                          "Runtime has no kernels for it (--float model keeps it)");
}

/* A file for TensorRT, which has int8 in any opset. */
static bool refuses_int8(const builder *b)
{
    return b->place == QG_PLACE_TRT && b->opset >= UNSIGNED_SINCE;
}

static qg_status build_graph(builder *b)
{
    size_t removed;
    QG_TRY(begin(b));
    QG_TRY(put_nodes(b));
    if (b->place != QG_PLACE_ORT && b->form == PAIRS)
        qg_onnx_warn_of_runtime(b->g, b->quant->graph->node.n,
                                refuses_int8(b) ? b->opset : 0);
    QG_TRY(lose_forced(b));
    if (b->place != QG_PLACE_TRT)
        QG_TRY(qg_export_lose_fractions(b->e));
    if (b->form == FUSED) {
        QG_TRY(qg_graph_upgrade(b->g, b->opset));
        QG_TRY(qg_qdq_fuse(b->e, b->g, b->opset));
    }
    if (is_for_plugin(b)) {
        QG_TRY(qg_plugin_lose(b->e));
        QG_TRY(qg_plugin_obey(b->e, b->g));
    }
    if (b->place == QG_PLACE_ORT)
        QG_TRY(qg_onnx_obey_runtime(b->g, b->quant, b->opset));
    for (size_t i = b->quant->graph->node.n; i < b->g->node.n; i++)
        b->g->node.at[i]->stays_float32 = true; /* they round as the simulation does */
    QG_TRY(qg_graph_upgrade(b->g, b->opset));
    QG_TRY(qg_graph_sweep(b->g, &removed));
    qg_onnx_drop_opsets(b->g);
    return restore_float_type(b);
}

/* --- annotations --- */

/* at[v]: the grid of v, as far as n tells it. */
static void learn_grids(const qg_node *n, qg_code_grid *at)
{
    bool dequantize = qg_is_dequantize_linear(n);
    if (dequantize)
        at[n->in[0]->id] = qg_code_grid_of(n);
    if (dequantize || qg_is_quantize_linear(n))
        at[n->out[0]->id] = qg_code_grid_of(n);
    for (uint32_t k = 0; n->op->codes && k + 2 < n->n_in; k++)
        if (qg_op_code_slot(n->op->codes, k) == 'x')
            at[n->in[k]->id] = (qg_code_grid){ n->in[k + 1], n->in[k + 2] };
    if (n->op->codes)
        at[n->out[0]->id] = qg_code_grid_behind(n);
}

/* Codes, and the floats that they stand for; what moves codes has one grid. */
static qg_status annotate(builder *b)
{
    qg_code_grid *at = QG_NEWN(b->e->arena, b->g->value.n, qg_code_grid);
    if (!at)
        return qg_nomem(b->ctx);
    for (size_t i = b->g->node.n; i-- > 0;) {
        const qg_node *n = b->g->node.at[i];
        learn_grids(n, at);
        if (qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) && n->n_in && n->out[0] &&
            n->in[0] && n->in[0]->type.dtype != QG_F32)
            at[n->in[0]->id] = at[n->out[0]->id];
    }
    for (size_t i = 0; i < b->g->value.n; i++) {
        if (!at[i].scale || !at[i].zero)
            continue;
        qg_onnx_annotation a = {
            b->g->value.at[i]->name,
            {{ "SCALE_TENSOR", at[i].scale->name },
                                    { "ZERO_POINT_TENSOR", at[i].zero->name }}
        };
        QG_TRY(qg_vec_push(b->ctx, b->e->arena, &b->annotation, a));
    }
    return QG_OK;
}

static qg_status build(qg_export *e, enum form form)
{
    builder *b = QG_NEW(e->arena, builder);
    if (!b)
        return qg_nomem(e->ctx);
    *b = (builder){ .e = e, .ctx = e->ctx, .quant = e->quant, .form = form };
    e->built = b;
    QG_TRY(build_graph(b));
    return annotate(b);
}

qg_status qg_qdq_build(qg_export *e) { return build(e, PAIRS); }

qg_status qg_qdq_build_quants(qg_export *e) { return build(e, QUANTS); }

qg_status qg_qdq_build_fused(qg_export *e) { return build(e, FUSED); }

/* One more entry of the metadata; unknown values are left out. */
static void say(qg_export_options *o, qg_onnx_property *list, const char *key,
                const char *value)
{
    if (value)
        list[o->n_metadata++] = (qg_onnx_property){ key, value };
}

qg_status qg_qdq_write(qg_export *e)
{
    const builder *b = e->built;
    const qg_manifest *m = &e->info->manifest;
    qg_onnx_property about[8];
    qg_export_options o = { .metadata = about,
                            .annotation = b->annotation.at,
                            .n_annotation = b->annotation.n };
    say(&o, about, QG_ONNX_FORMAT_KEY, e->format->name);
    say(&o, about, "quantgraph.tool", m->tool);
    assert(e->quant->backend); /* every snapshot names one */
    say(&o, about, "quantgraph.backend", e->quant->backend->name);
    say(&o, about, "quantgraph.model", m->model_file);
    say(&o, about, "quantgraph.model_sha256", m->model_sha256);
    say(&o, about, "quantgraph.weights", e->option[QG_FORMAT_WEIGHTS]);
    say(&o, about, "quantgraph.placement", e->option[QG_FORMAT_PLACEMENT]);
    if (b->quant->graph->float_type != QG_NODTYPE)
        say(&o, about, "quantgraph.float", e->option[QG_FORMAT_FLOAT]);
    assert(o.n_metadata <= sizeof about / sizeof *about);
    QG_TRY(qg_onnx_export(e->ctx, b->g, e->path, &o));
    return qg_export_wrote(e, e->path);
}

static qg_status import(qg_import *i)
{
    return qg_quantizers_import(i, QG_QUANTIZERS_ONNX, "onnx-qdq", NULL);
}

const qg_format qg_format_onnx_qdq = {
    .name = "onnx-qdq",
    .suffix = ".onnx",
    .summary =
        "ONNX with QuantizeLinear and DequantizeLinear pairs; reads QLinear operators",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_BLOCK | QG_SAYS_OFFSET | QG_SAYS_RANGE |
            QG_SAYS_BITS | QG_SAYS_FLOATING | QG_SAYS_SHARING | QG_SAYS_DERIVED |
            QG_SAYS_SILENT,
    .choice = {[QG_FORMAT_WEIGHTS] = weights,
               [QG_FORMAT_PLACEMENT] = qg_placements,
               [QG_FORMAT_FLOAT] = qg_qdq_floats},
    .build = qg_qdq_build,
    .write = qg_qdq_write,
    .import = import,
};
