/* fuse.c -- from DQ, operator, Q to an operator on codes, one original node at a time.
 * A pattern is complete only if the float result has no other reader and is no output:
 * otherwise the float operator would have to stay beside its counterpart. */
#include "engine/formats/qdq/fuse.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/formats/code_grid.h"
#include "engine/formats/qdq/runtime.h"
#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/number/qdq.h"

static const char microsoft[] = "com.microsoft";

enum { MOST_SLOTS = 9 }; /* of operators that are no lists */

typedef struct fuser {
    qg_export *e;
    qg_ctx *ctx;
    qg_graph *g;
    int64_t opset;
} fuser;

/* The float operator, its operator on codes, and the Q behind it. */
typedef struct pattern {
    qg_node *n;
    const qg_op *op;
    const qg_node *quantize;
    float low, high; /* of the clamps between n and quantize */
    qg_value **in;   /* [n_in] of the operator on codes */
    uint32_t n_in;
} pattern;

/* --- the operator on codes --- */

static bool has_kernel(const qg_op *op)
{
    static const char *const none[] = { "QLinearReduceMean" };
    return !qg_op_is_named(op, none, 1);
}

/* The row for n, that of ai.onnx before others; NULL: none. */
static const qg_op *find_row(const fuser *f, const qg_node *n)
{
    const qg_registry *r = f->ctx->registry;
    const qg_op *found = NULL;
    for (size_t i = 0; i < r->n_family && !n->op->domain; i++)
        for (const qg_op *op = r->family[i]; op->name; op++)
            if (op->codes && qg_op_is_named(n->op, &op->codes->op, 1) &&
                has_kernel(op) && (!found || found->domain))
                found = op;
    if (!found)
        return NULL;
    return qg_op_find(r, found->domain, found->name, found->domain ? 1 : f->opset);
}

/* Its `opset` attribute states the meaning of its axis. */
static bool has_versions(const qg_op *op)
{
    static const char *const names[] = { "QLinearSoftmax" };
    return qg_op_is_named(op, names, 1);
}

/* --- inputs --- */

static bool is_byte(qg_dtype d) { return d == QG_I8 || d == QG_U8; }

static const qg_node *dequantize_of(const qg_value *v)
{
    const qg_node *n = v ? v->def : NULL;
    return n && qg_is_dequantize_linear(n) && !n->op->domain ? n : NULL;
}

/* Whether the scales of dq are one, or one per output channel of a weight. */
static bool has_scales(const qg_node *n, uint32_t slot, const qg_node *dq)
{
    qg_code_grid q = qg_code_grid_of(dq);
    if (qg_attr_has(dq, "block_size") || !q.scale->constant || !q.zero)
        return false;
    if (qg_code_grid_is_plain(q))
        return true;
    if (qg_op_in_role(n->op, slot) != 'w' || !n->op->weight_axis)
        return false;
    const qg_attr *a = qg_attr_find(dq, "axis");
    int64_t axis = a && a->type == QG_ATTR_INT ? a->ints[0] : 1;
    axis += axis < 0 ? dq->in[0]->type.rank : 0;
    return axis == n->op->weight_axis(n) && q.zero->constant;
}

/* Codes that the kernel takes beside results of type `to`. */
static bool takes(const qg_node *n, uint32_t slot, const qg_node *dq, qg_dtype to)
{
    qg_dtype codes = dq->in[0]->type.dtype;
    bool weight = qg_op_in_role(n->op, slot) == 'w';
    return is_byte(codes) && (codes == to || (weight && to == QG_U8)) &&
           has_scales(n, slot, dq);
}

/* --- bias --- */

static float alpha_of(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "alpha");
    return a && a->type == QG_ATTR_FLOAT ? a->floats[0] : 1.0f;
}

/* Step of element c of the bias of n, whose data and weight have a DQ. */
static float bias_step(const qg_node *n, int64_t c)
{
    const qg_tensor *x = n->in[0]->def->in[1]->constant,
                    *w = n->in[1]->def->in[1]->constant;
    return alpha_of(n) * x->f32[0] * w->f32[qg_tensor_count(w) == 1 ? 0 : c];
}

/* A vector with one element per output channel of n. */
static bool is_bias(const qg_node *n, const qg_tensor *t)
{
    const qg_tensor *w = &n->in[1]->def->in[0]->type;
    return t && t->rank == 1 && t->dim[0] == w->dim[n->op->weight_axis(n)];
}

/* int32 codes behind a DQ of exactly these steps; else NULL. */
static qg_value *bias_codes(const qg_node *n, const qg_value *b)
{
    const qg_node *dq = dequantize_of(b);
    if (!dq || dq->in[0]->type.dtype != QG_I32 || !is_bias(n, dq->in[0]->constant))
        return NULL;
    const qg_tensor *s = dq->in[1]->constant;
    int64_t many = s ? qg_tensor_count(s) : 0;
    for (int64_t c = 0; c < qg_tensor_count(dq->in[0]->constant); c++)
        if (!s || s->f32[many == 1 ? 0 : c] != bias_step(n, c))
            return NULL;
    return qg_code_is_zero(qg_code_grid_of(dq).zero) ? dq->in[0] : NULL;
}

/* A float bias in int32 codes; *out NULL: a code exceeds int32. */
static qg_status round_bias(const fuser *f, const qg_node *n, uint32_t slot,
                            qg_value **out)
{
    const qg_tensor *from = n->in[slot]->constant;
    qg_tensor *t = QG_NEW(f->g->arena, qg_tensor);
    *out = NULL;
    if (!is_bias(n, from) || from->dtype != QG_F32)
        return QG_OK;
    if (!t)
        return qg_nomem(f->ctx);
    qg_tensor_init(t, QG_I32, 1, from->dim);
    QG_TRY(qg_tensor_alloc(f->ctx, f->g->arena, t));
    for (int64_t c = 0; c < qg_tensor_count(t); c++) {
        double code = rint((double)from->f32[c] / (double)bias_step(n, c));
        if (!(fabs(code) <= INT32_MAX))
            return QG_OK;
        t->i32[c] = (int32_t)code;
    }
    QG_TRY(qg_edit_add_constant(f->g, n->in[slot]->name, t, out));
    const qg_tqc *own = qg_input_tqc(f->e->quant->graph->node.at[n->id], slot);
    QG_TRY(qg_export_lose_result(f->e, QG_SAYS_ENDPOINT, own,
                                 "bias of %s: rounded to int32 steps of input x weight",
                                 n->name));
    return QG_OK;
}

/* *out: the int32 input, NULL where the bias cannot be one; beta of Gemm is no longer
 * there. */
static qg_status put_bias(const fuser *f, const qg_node *n, uint32_t slot,
                          qg_value **out)
{
    const qg_attr *beta = qg_attr_find(n, "beta");
    *out = NULL;
    if (beta && beta->type == QG_ATTR_FLOAT && beta->floats[0] != 1)
        return QG_OK;
    *out = bias_codes(n, n->in[slot]);
    return *out ? QG_OK : round_bias(f, n, slot, out);
}

/* --- patterns --- */

/* Whether n limits its input to constants; *low and *high narrow. */
static bool narrows(const qg_node *n, float *low, float *high)
{
    const qg_tensor *constant[3] = { NULL };
    float l, h;
    if (!n->op->clamp || n->n_in > 3 || n->n_capture)
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        constant[i] = n->in[i] ? n->in[i]->constant : NULL;
    if (!n->op->clamp(n, constant, &l, &h))
        return false;
    *low = fminf(fmaxf(*low, l), h);
    *high = fminf(fmaxf(*high, l), h);
    return true;
}

/* The Q that alone reads the result of n, through clamps. */
static bool find_quantize(pattern *p)
{
    const qg_value *v = p->n->out[0];
    p->low = -INFINITY;
    p->high = INFINITY;
    while (v && v->use.n == 1 && !v->is_output && v->use.at[0].slot == 0) {
        const qg_node *r = v->use.at[0].node;
        p->quantize = r;
        if (qg_is_quantize_linear(r) && !r->op->domain)
            return is_byte(r->out[0]->type.dtype) &&
                   qg_code_grid_is_plain(qg_code_grid_of(r)) && qg_code_grid_of(r).zero;
        if (!narrows(r, &p->low, &p->high))
            return false;
        v = r->out[0];
    }
    return false;
}

/* Input `at` of the operator on codes, which stands for input `slot` of the float
 * operator; *fits false: it takes no such input. */
static qg_status put_slot(const fuser *f, pattern *p, char what, uint32_t slot,
                          bool *fits)
{
    const qg_node *n = p->n, *dq = dequantize_of(slot < n->n_in ? n->in[slot] : NULL);
    qg_value **to = &p->in[p->n_in];
    qg_dtype type = p->quantize->out[0]->type.dtype;
    *to = slot < n->n_in ? n->in[slot] : NULL;
    if (what == 'x') {
        *fits = dq && takes(n, slot, dq, type);
        *to = dq ? dq->in[0] : NULL;
    } else if (what == 'b' && *to) {
        QG_TRY(put_bias(f, n, slot, to));
        *fits = *to;
    }
    p->n_in++;
    return QG_OK;
}

/* The slots in order; scales and zero points follow their codes. */
static qg_status put_inputs(const fuser *f, pattern *p, bool *fits)
{
    const qg_node *n = p->n;
    const qg_op_codes *codes = p->op->codes;
    qg_code_grid y = qg_code_grid_of(p->quantize), x = { 0 };
    uint32_t slot = 0;
    size_t count = strlen(codes->slots);
    if (qg_op_code_slot(codes, count) == 'x') /* a list of any length */
        count += 3 * ((size_t)n->n_in - 1);
    for (size_t i = 0; *fits && i < count; i++) {
        char what = qg_op_code_slot(codes, i);
        if (strchr("xbv", what)) {
            if (what == 'x' && slot < n->n_in && dequantize_of(n->in[slot]))
                x = qg_code_grid_of(n->in[slot]->def);
            QG_TRY(put_slot(f, p, what, slot++, fits));
            continue;
        }
        p->in[p->n_in++] = what == 's'   ? x.scale
                           : what == 'z' ? x.zero
                           : what == 'S' ? y.scale
                                         : y.zero;
    }
    *fits = *fits && slot >= n->n_in;
    return QG_OK;
}

/* A Softmax on a grid with limits of its own stays float: qdq.c keeps one whose table
 * would give other codes from becoming QLinearSoftmax by Abs, and writes the limits as
 * a Clip instead. */
static bool has_limits(const pattern *p)
{
    return has_versions(p->op) && (p->low > -INFINITY || p->high < INFINITY);
}

/* *fits: n is one. */
static qg_status match(const fuser *f, qg_node *n, pattern *p, bool *fits)
{
    *p = (pattern){ .n = n, .op = find_row(f, n) };
    *fits = p->op && n->n_out == 1 && !qg_onnx_average_differs(n) && find_quantize(p) &&
            !has_limits(p);
    if (!*fits)
        return QG_OK;
    p->in = QG_NEWN(f->g->arena, MOST_SLOTS + 3 * (size_t)n->n_in, qg_value *);
    if (!p->in)
        return qg_nomem(f->ctx);
    return put_inputs(f, p, fits);
}

/* --- nodes on codes --- */

/* All but beta; axis and opset where the operator has versions. */
static qg_status attributes(const fuser *f, const pattern *p, qg_node_spec *spec)
{
    const qg_node *n = p->n;
    qg_attr *to = QG_NEWN(f->g->arena, n->n_attr + 2, qg_attr);
    int64_t *number = QG_NEWN(f->g->arena, 2, int64_t);
    const char *axis = qg_intern(f->ctx, "axis"), *opset = qg_intern(f->ctx, "opset");
    if (!to || !number || !axis || !opset)
        return qg_nomem(f->ctx);
    spec->attr = to;
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, "beta") != 0)
            to[spec->n_attr++] = n->attr[i];
    if (!has_versions(p->op))
        return QG_OK;
    number[0] = -1; /* the default of Softmax */
    number[1] = n->opset;
    if (!qg_attr_has(n, "axis"))
        to[spec->n_attr++] = (qg_attr){ axis, QG_ATTR_INT, 1, { .ints = number } };
    to[spec->n_attr++] = (qg_attr){ opset, QG_ATTR_INT, 1, { .ints = number + 1 } };
    return QG_OK;
}

/* A value like that one, of another type: "<name>_<suffix>", numbered when taken. */
static qg_status like(const fuser *f, const qg_value *v, qg_dtype type,
                      const char *suffix, qg_value **out)
{
    const char *name = qg_arena_printf(f->g->arena, "%s_%s", v->name, suffix);
    if (!name)
        return qg_nomem(f->ctx);
    if (qg_graph_value(f->g, name))
        QG_TRY(qg_graph_add_prefixed(f->g, name, out));
    else
        QG_TRY(qg_graph_add_value(f->g, name, out));
    (*out)->type = v->type;
    (*out)->type.dtype = type;
    return QG_OK;
}

/* The code of a value, as the Q of the pattern computes it. */
static qg_status limit_code(const fuser *f, const qg_node *quantize, float x,
                            qg_value **out)
{
    qg_code_grid q = qg_code_grid_of(quantize);
    qg_tensor *t = QG_NEW(f->g->arena, qg_tensor);
    if (!t)
        return qg_nomem(f->ctx);
    qg_tensor_scalar(t, quantize->out[0]->type.dtype);
    QG_TRY(qg_tensor_alloc(f->ctx, f->g->arena, t));
    qg_quantize_linear(&(qg_qdq){ .type = t->dtype,
                                  .outer = 1,
                                  .dim = 1,
                                  .inner = 1,
                                  .scale = q.scale->constant->f32,
                                  .zero_point = q.zero->constant->data },
                       &x, t->data);
    return qg_edit_add_constant(f->g, quantize->out[0]->name, t, out);
}

/* Whether no code of the type is beyond the limits. */
static bool holds_all(const qg_value *low, const qg_value *high)
{
    bool is_signed = low->constant->dtype == QG_I8;
    return qg_tensor_i64(low->constant, 0) == (is_signed ? -128 : 0) &&
           qg_tensor_i64(high->constant, 0) == (is_signed ? 127 : 255);
}

/* *codes within the limits of p, by a Clip where the type has codes beyond. */
static qg_status clip_codes(const fuser *f, const pattern *p, qg_value **codes)
{
    qg_value *in[3] = { *codes }, *out;
    qg_node *made;
    if (!(p->low > -INFINITY) && !(p->high < INFINITY))
        return QG_OK;
    QG_TRY(limit_code(f, p->quantize, p->low, &in[1]));
    QG_TRY(limit_code(f, p->quantize, p->high, &in[2]));
    if (holds_all(in[1], in[2]))
        return QG_OK;
    QG_TRY(like(f, *codes, (*codes)->type.dtype, "clipped", &out));
    qg_node_spec spec = { .op = qg_op_find(f->ctx->registry, NULL, "Clip", f->opset),
                          .opset = f->opset,
                          .in = in,
                          .n_in = 3,
                          .out = &out,
                          .n_out = 1 };
    assert(spec.op);
    *codes = out;
    return qg_graph_add_node(f->g, &spec, &made);
}

/* Readers of the codes of q read `codes`, which takes the name. */
static qg_status replace_codes(const fuser *f, const qg_node *q, qg_value *codes)
{
    qg_value *old = q->out[0];
    bool interface = old->is_output || codes->is_input;
    QG_TRY(qg_edit_replace_value(f->g, old, codes));
    if (!interface)
        qg_value_swap_names(f->g, old, codes);
    return QG_OK;
}

static qg_status fuse(const fuser *f, const pattern *p)
{
    qg_node *n = p->n;
    qg_value *codes;
    qg_node *made;
    uint32_t n_in = p->n_in;
    while (n_in && !p->in[n_in - 1])
        n_in--;
    qg_node_spec spec = {
        .op = p->op, .in = p->in, .n_in = n_in, .out = &codes, .n_out = 1
    };
    spec.name = qg_arena_printf(f->g->arena, "%s_quantized", n->name);
    if (!spec.name)
        return qg_nomem(f->ctx);
    if (qg_graph_node(f->g, spec.name))
        spec.name = NULL;
    spec.opset = p->op->domain ? 1 : f->opset;
    QG_TRY(attributes(f, p, &spec));
    QG_TRY(like(f, n->out[0], p->quantize->out[0]->type.dtype, "quantized", &codes));
    QG_TRY(qg_graph_add_node(f->g, &spec, &made));
    qg_node_swap_names(f->g, n, made);
    QG_TRY(clip_codes(f, p, &codes));
    return replace_codes(f, p->quantize, codes);
}

/* --- moves --- */

/* Moves that ONNX has for floats only. */
static bool moves_floats(const qg_node *n)
{
    static const char *const names[] = { "Dropout", "GlobalMaxPool", "MaxUnpool" };
    return qg_op_is_named(n->op, names, 3);
}

/* Whether n can put the zero point beside codes: ONNX Runtime's optimizer fails on the
 * Pad of codes that has axes. */
static bool can_fill(const qg_node *n, const qg_node *dq)
{
    const qg_value *zero = qg_code_grid_of(dq).zero;
    enum qg_code_fill fill = qg_code_fill_of(n);
    return fill == QG_FILLS_NOTHING || qg_code_is_zero(zero) ||
           (fill == QG_FILLS_VALUE && n->n_in < 4 && zero->constant->rank == 0);
}

/* The DQ whose codes n moves as they are; NULL: n computes, or reads others. */
static const qg_node *moved(const qg_node *n)
{
    const qg_node *dq = n->n_in ? dequantize_of(n->in[0]) : NULL;
    if (!dq || moves_floats(n) || !qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) ||
        n->n_out != 1 || qg_node_has(n, QG_OP_CONTROL) ||
        !is_byte(dq->in[0]->type.dtype) ||
        !qg_code_grid_is_plain(qg_code_grid_of(dq)) || !can_fill(n, dq))
        return NULL;
    for (uint32_t i = 1; i < n->n_in; i++)
        if (n->in[i] && qg_op_in_role(n->op, i) != 's')
            return NULL;
    return n->out[0] ? dq : NULL;
}

/* Beside codes there is the zero point. */
static qg_status fill(const fuser *f, qg_node *n, qg_code_grid q)
{
    if (qg_code_fill_of(n) != QG_FILLS_VALUE || qg_code_is_zero(q.zero))
        return QG_OK;
    QG_TRY(qg_edit_grow_inputs(f->g, n, 3));
    return qg_edit_set_input(f->g, n, 2, q.zero);
}

/* c -> DQ -> n -> r becomes c -> n -> DQ -> r. */
static qg_status move_codes(const fuser *f, qg_node *n, const qg_node *dq)
{
    qg_value *codes, *r, *old = n->out[0];
    qg_node *made;
    QG_TRY(like(f, old, dq->in[0]->type.dtype, "quantized", &codes));
    QG_TRY(like(f, old, QG_F32, "dequantized", &r));
    bool output = old->is_output;
    QG_TRY(qg_edit_replace_value(f->g, old, r));
    if (!output)
        qg_value_swap_names(f->g, old, r);
    QG_TRY(fill(f, n, qg_code_grid_of(dq)));
    QG_TRY(qg_edit_set_input(f->g, n, 0, dq->in[0]));
    qg_edit_set_output(n, 0, codes);
    qg_value *in[] = { codes, dq->in[1], dq->in[2] };
    qg_node_spec spec = {
        .op = dq->op, .opset = dq->opset, .in = in, .n_in = 3, .out = &r, .n_out = 1
    };
    return qg_graph_add_node(f->g, &spec, &made);
}

/* Rounding what is on the grid already: codes pass. */
static qg_status skip_pair(const fuser *f, const qg_node *q)
{
    const qg_node *dq = dequantize_of(q->in[0]);
    if (!dq || q->op->domain || !q->out[0] || q->out[0]->is_output ||
        dq->in[0]->type.dtype != q->out[0]->type.dtype || dq->in[0]->constant ||
        !qg_code_grid_is_plain(qg_code_grid_of(dq)) ||
        !qg_code_grid_same(qg_code_grid_of(dq), qg_code_grid_of(q)))
        return QG_OK;
    return replace_codes(f, q, dq->in[0]);
}

/* --- all --- */

static qg_status visit(const fuser *f, qg_node *n)
{
    pattern p;
    bool fits;
    const qg_node *dq = moved(n);
    if (dq)
        return move_codes(f, n, dq);
    QG_TRY(match(f, n, &p, &fits));
    return fits ? fuse(f, &p) : QG_OK;
}

static bool uses_microsoft(const qg_graph *g, size_t from)
{
    for (size_t i = from; i < g->node.n; i++)
        if (!g->node.at[i]->dead && g->node.at[i]->op->domain &&
            strcmp(g->node.at[i]->op->domain, microsoft) == 0)
            return true;
    return false;
}

qg_status qg_qdq_fuse(qg_export *e, qg_graph *g, int64_t opset)
{
    fuser f = { .e = e, .ctx = e->ctx, .g = g, .opset = opset };
    size_t own = e->quant->graph->node.n;
    for (size_t i = 0; i < own; i++)
        QG_TRY(visit(&f, g->node.at[i]));
    for (size_t i = own; i < g->node.n; i++)
        if (qg_is_quantize_linear(g->node.at[i]))
            QG_TRY(skip_pair(&f, g->node.at[i]));
    if (uses_microsoft(g, own) && !qg_graph_opset(g, microsoft))
        return qg_vec_push(e->ctx, g->arena, &g->opset,
                           (qg_opset_import){ microsoft, 1 });
    return QG_OK;
}
