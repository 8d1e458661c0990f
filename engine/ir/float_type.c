#include "engine/ir/float_type.h"

#include <assert.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/tensor_memory.h"
#include "engine/number/format.h"

/* The 16-bit float types, binary16 and bfloat16; a graph may have both. */
static bool is_half(qg_dtype d) { return d == QG_F16 || d == QG_BF16; }

/* One conversion.  Arrays cover the values and nodes that were there before it. */
typedef struct change {
    qg_graph *g;
    qg_arena *scratch;
    size_t n_value, n_node;
    qg_dtype *file;    /* [n_value] to_float32: the types of the file */
    uint8_t *narrow;   /* [n_node] to_float_type: computes in float_type */
    qg_value **other;  /* [n_value] the value in the other type; NULL: not made */
    const qg_op *cast; /* of the graph's opset; NULL: has none */
    int64_t opset;
    const qg_tensor **in; /* of the node at hand */
    qg_tensor *type, *result, **out;
} change;

/* --- one node, tried with other types --- */

/* Arrays for the inputs and outputs of n.  They live until the scratch arena is reset,
 * before the next node. */
static qg_status make_room(change *c, const qg_node *n)
{
    c->in = QG_NEWN(c->scratch, n->n_in, const qg_tensor *);
    c->type = QG_NEWN(c->scratch, n->n_in, qg_tensor);
    c->result = QG_NEWN(c->scratch, n->n_out, qg_tensor);
    c->out = QG_NEWN(c->scratch, n->n_out, qg_tensor *);
    return c->in && c->type && c->result && c->out ? QG_OK : qg_nomem(c->g->ctx);
}

/* Input types as they are, constants with their data.  Tensors are borrowed from the
 * graph. */
static void load(change *c, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        c->in[i] = !v ? NULL : v->constant ? v->constant : &v->type;
    }
}

/* Input i as a tensor of another type: without its data.  Its data have the old type:
 * inference must not read them. */
static void retype(change *c, uint32_t i, qg_dtype d)
{
    c->type[i] = *c->in[i];
    c->type[i].dtype = d;
    c->type[i].data = NULL;
    c->in[i] = &c->type[i];
}

/* Whether op->infer accepts c->in; the dtypes of the outputs in c->result.  Inputs of
 * unknown rank get each rank in turn, on which types do not depend.  False, too, for an
 * operator without inference: nothing is known of its types.  The message that a
 * refusal leaves on the context is not reported. */
static bool accepts(change *c, const qg_node *n)
{
    static const int64_t open[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    qg_call call = { .ctx = c->g->ctx,
                     .node = n,
                     .param = n->param,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = c->in,
                     .out = c->out,
                     .scratch = c->scratch };
    bool guess = false;
    if (!n->op->infer)
        return false;
    for (uint32_t k = 0; k < n->n_in; k++)
        guess |= c->in[k] && c->in[k]->rank < 0;
    for (int32_t rank = 0; rank <= (guess ? QG_MAX_RANK : 0); rank++) {
        for (uint32_t k = 0; k < n->n_in && guess; k++)
            if (c->in[k] && n->in[k]->type.rank < 0) {
                qg_tensor_init(&c->type[k], c->in[k]->dtype, rank, open);
                c->in[k] = &c->type[k];
            }
        for (uint32_t k = 0; k < n->n_out; k++) {
            qg_tensor_unknown(&c->result[k], QG_NODTYPE);
            c->out[k] = n->out[k] ? &c->result[k] : NULL;
        }
        if (n->op->infer(&call) == QG_OK)
            return true;
    }
    return false;
}

/* --- Casts --- */

/* A node Cast that computes `to`, which has its type already, from `from`.  It is
 * appended to the nodes; qg_graph_normalize puts it in its place.  Before opset 6 Cast
 * names its type by a text, which is not written here. */
static qg_status add_cast(change *c, qg_value *from, qg_value *to)
{
    qg_graph *g = c->g;
    int64_t *number = QG_NEW(g->arena, int64_t);
    qg_attr *attr = QG_NEW(g->arena, qg_attr);
    const char *name = qg_intern(g->ctx, "to");
    qg_node *made;
    if (!number || !attr || !name)
        return qg_nomem(g->ctx);
    if (!c->cast)
        return qg_fail(g->ctx, QG_EUNSUPPORTED,
                       "convert: graph '%.1000s': opset %lld has no Cast by number, "
                       "expected 6 or later",
                       g->name, (long long)c->opset);
    *number = qg_dtype_onnx(to->type.dtype);
    *attr = (qg_attr){ .name = name, .type = QG_ATTR_INT, .count = 1, .ints = number };
    return qg_graph_add_node(g,
                             &(qg_node_spec){ .op = c->cast,
                                              .opset = c->opset,
                                              .in = &from,
                                              .out = &to,
                                              .n_in = 1,
                                              .n_out = 1,
                                              .attr = attr,
                                              .n_attr = 1 },
                             &made);
}

/* A value like v in another type.  Its name is that of v and the type, or made up where
 * that is taken.  It has no producer and no readers yet; dims and their symbols are
 * those of v. */
static qg_status new_value(change *c, const qg_value *v, qg_dtype type, qg_value **out)
{
    const char *name =
        qg_arena_printf(c->g->arena, "%s_%s", v->name, qg_dtype_name(type));
    if (!name)
        return qg_nomem(c->g->ctx);
    QG_TRY(qg_graph_value(c->g, name) ? qg_graph_add_prefixed(c->g, name, out)
                                      : qg_graph_add_value(c->g, name, out));
    (*out)->type = v->type;
    (*out)->type.dtype = type;
    memcpy((*out)->dim_name, v->dim_name, sizeof v->dim_name);
    return QG_OK;
}

/* A constant of float32, float16 or bfloat16 in another of these types, in the arena of
 * the graph.  To 16 bits it rounds half to even; from 16 bits it is exact. */
static qg_status convert(change *c, const qg_tensor *from, qg_dtype to,
                         const qg_tensor **out)
{
    qg_tensor *t = QG_NEW(c->g->arena, qg_tensor);
    int64_t n = qg_tensor_count(from);
    if (!t)
        return qg_nomem(c->g->ctx);
    qg_tensor_init(t, to, from->rank, from->dim);
    QG_TRY(qg_tensor_alloc(c->g->ctx, c->g->arena, t));
    for (int64_t i = 0; i < n; i++) {
        float x = from->dtype == QG_F32   ? from->f32[i]
                  : from->dtype == QG_F16 ? qg_f16_to_f32(from->u16[i])
                                          : qg_bf16_to_f32(from->u16[i]);
        if (to == QG_F32)
            t->f32[i] = x;
        else
            t->u16[i] = to == QG_F16 ? qg_f32_to_f16(x) : qg_f32_to_bf16(x);
    }
    *out = t;
    return QG_OK;
}

/* v in type `to`, one for all readers.  A constant is converted here and now, another
 * value by a Cast.  Each v meets one other type only, so one place per value is
 * enough. */
static qg_status in_type(change *c, qg_value *v, qg_dtype to, qg_value **out)
{
    assert(v->id < c->n_value);
    qg_value **place = &c->other[v->id];
    *out = *place;
    if (*place)
        return QG_OK;
    if (v->constant) {
        const qg_tensor *t;
        QG_TRY(convert(c, v->constant, to, &t));
        QG_TRY(qg_edit_add_constant(c->g, v->name, t, place));
    } else {
        QG_TRY(new_value(c, v, to, place));
        QG_TRY(add_cast(c, v, *place));
    }
    *out = *place;
    return QG_OK;
}

/* n computes output k in another type; a Cast makes the value that readers have.
 * Readers that want `type` later take the computed value itself (c->other), without a
 * second Cast. */
static qg_status cast_output(change *c, qg_node *n, uint32_t k, qg_dtype type)
{
    qg_value *v = n->out[k], *computed;
    QG_TRY(new_value(c, v, type, &computed));
    qg_edit_set_output(n, k, computed);
    c->other[v->id] = computed;
    return add_cast(c, computed, v);
}

/* --- to float32 --- */

/* Attributes that name a float type, or hold a value of one, in float32.  Type: Cast,
 * EyeLike, random operators and windows, QuantizeLinear.  Value: Constant,
 * ConstantOfShape.  The old list is not changed, so that the caller can go back to it;
 * parameters are prepared anew, since they were read from it. */
static qg_status widen_attributes(change *c, qg_node *n)
{
    static const int64_t float32 = 1; /* TensorProto.FLOAT */
    static const char *const names[] = { "to", "dtype", "output_datatype",
                                         "output_dtype" };
    qg_attr *attr = QG_NEWN(c->g->arena, n->n_attr, qg_attr);
    bool any = false;
    if (!attr)
        return qg_nomem(c->g->ctx);
    for (size_t i = 0; i < n->n_attr; i++) {
        attr[i] = n->attr[i];
        bool type = false;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            type |= attr[i].type == QG_ATTR_INT && !strcmp(attr[i].name, names[k]) &&
                    is_half(qg_dtype_of_onnx(attr[i].ints[0]));
        bool value = attr[i].type == QG_ATTR_TENSOR && is_half(attr[i].tensor->dtype);
        if (type)
            attr[i].ints = &float32;
        if (value)
            QG_TRY(convert(c, attr[i].tensor, QG_F32, &attr[i].tensor));
        any |= type || value;
    }
    if (!any)
        return QG_OK;
    n->attr = attr;
    return qg_node_prepare(c->g, n);
}

/* By the types of the file: the values may have been widened already. */
static bool touches_half(const change *c, const qg_node *n)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        any |= n->in[i] && is_half(c->file[n->in[i]->id]);
    for (uint32_t k = 0; k < n->n_out; k++)
        any |= n->out[k] && is_half(c->file[n->out[k]->id]);
    return any;
}

/* Such a node without 16-bit floats computes in float32 in the file, too, and must not
 * be narrowed later. */
static bool touches_float(const change *c, const qg_node *n)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        any |= n->in[i] && c->file[n->in[i]->id] == QG_F32;
    for (uint32_t k = 0; k < n->n_out; k++)
        any |= n->out[k] && c->file[n->out[k]->id] == QG_F32;
    return any;
}

/* The node as the file has it, between Casts.  Its outputs had become float32.  Other
 * readers of its values see float32. */
static qg_status keep_node(change *c, qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        qg_value *v = n->in[i], *cast;
        if (!v || v->id >= c->n_value || !is_half(c->file[v->id]))
            continue;
        QG_TRY(in_type(c, v, c->file[v->id], &cast));
        QG_TRY(qg_edit_set_input(c->g, n, i, cast));
    }
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && is_half(c->file[n->out[k]->id]))
            QG_TRY(cast_output(c, n, k, c->file[n->out[k]->id]));
    return QG_OK;
}

/* Values are float32 by now, as far as they were 16-bit floats.  A node is widened when
 * its operator accepts float32 and no output remains of 16 bits; otherwise its
 * attributes are restored.  Control flow is kept, as its bodies have types of their
 * own. */
static qg_status widen_node(change *c, qg_node *n)
{
    const qg_attr *attr = n->attr;
    bool fits = !qg_node_has(n, QG_OP_CONTROL);
    QG_TRY(make_room(c, n));
    if (fits) {
        QG_TRY(widen_attributes(c, n));
        load(c, n);
        fits = accepts(c, n);
        for (uint32_t k = 0; k < n->n_out && fits; k++)
            fits = !n->out[k] || !is_half(c->result[k].dtype);
    }
    if (fits)
        return QG_OK;
    if (n->attr != attr) {
        n->attr = attr;
        QG_TRY(qg_node_prepare(c->g, n));
    }
    return keep_node(c, n);
}

/* A Cast from float32 to float32, unless both its ends are in the interface.  In the
 * file it converted between float32 and 16 bits.  The names of graph inputs and outputs
 * must survive, so that a Cast between two of them stays. */
static qg_status drop_idle_cast(change *c, qg_node *n)
{
    const qg_op *cast;
    if (n->n_in != 1 || n->n_out != 1 || !n->in[0] || !n->out[0] ||
        qg_edit_find_op(c->g, n, QG_MADE_CAST, &cast) != QG_OK || n->op != cast ||
        n->in[0]->type.dtype != QG_F32 || n->out[0]->type.dtype != QG_F32)
        return QG_OK;
    qg_value *from = n->out[0], *to = n->in[0];
    if (from->is_output && (to->is_input || to->is_output || to->constant))
        return QG_OK;
    QG_TRY(qg_edit_replace_value(c->g, from, to));
    qg_edit_remove_node(c->g, n);
    return QG_OK;
}

/* Types, constants and the marks of interface and nodes; *any: there are 16-bit floats.
 * Records the types of the file first: marks and nodes are decided by them.  The first
 * 16-bit type becomes that of the graph.  Without such types nothing is changed. */
static qg_status widen_values(change *c, bool *any)
{
    qg_graph *g = c->g;
    for (size_t i = 0; i < c->n_value; i++) {
        const qg_value *v = g->value.at[i];
        c->file[i] = v->constant ? v->constant->dtype : v->type.dtype;
        *any |= is_half(c->file[i]);
    }
    for (size_t i = 0; i < c->n_node && *any; i++) {
        qg_node *n = g->node.at[i];
        n->stays_float32 = touches_float(c, n) && !touches_half(c, n);
    }
    for (size_t i = 0; i < c->n_value && *any; i++) {
        qg_value *v = g->value.at[i];
        if (!is_half(c->file[i]))
            continue;
        if (g->float_type == QG_NODTYPE)
            g->float_type = c->file[i];
        if (v->is_input || v->is_output)
            v->file_dtype = c->file[i];
        if (v->constant)
            QG_TRY(convert(c, v->constant, QG_F32, &v->constant));
        v->type.dtype = QG_F32;
    }
    return QG_OK;
}

/* Nodes and values that are added on the way have ids behind n_node and n_value and are
 * not visited.  Use lists change, node order does not, until the graph is
 * normalized. */
static qg_status to_float32(change *c, bool *changed)
{
    QG_TRY(widen_values(c, changed));
    if (!*changed)
        return QG_OK;
    for (size_t i = 0; i < c->n_node; i++) {
        qg_arena_reset(c->scratch);
        if (touches_half(c, c->g->node.at[i]))
            QG_TRY(widen_node(c, c->g->node.at[i]));
    }
    for (size_t i = 0; i < c->n_node; i++)
        QG_TRY(drop_idle_cast(c, c->g->node.at[i]));
    return qg_graph_normalize(c->g);
}

/* --- to the type of the file --- */

/* A slot that takes the node's data, as opposed to shapes, scales, statistics.  The
 * slots of roles s (shapes, indices) and f (scales, statistics) have types of their own
 * in several operators. */
static bool follows(const qg_node *n, uint32_t slot)
{
    char role = qg_op_in_role(n->op, slot);
    return role != 's' && role != 'f';
}

/* Whether the type of this slot changes when its node is narrowed; all: whatever the
 * role of the slot. */
static bool is_narrowed(const qg_node *n, uint32_t slot, bool all)
{
    const qg_value *v = n->in[slot];
    return v && v->type.dtype == QG_F32 && (all || follows(n, slot));
}

/* Whether n computes in float_type when its data slots, or all, have it.  Every float32
 * output must come out in float_type: a node of mixed results stays in float32. */
static bool fits_narrow(change *c, const qg_node *n, bool all)
{
    qg_dtype want = c->g->float_type;
    load(c, n);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (is_narrowed(n, i, all))
            retype(c, i, want);
    bool fits = accepts(c, n);
    for (uint32_t k = 0; k < n->n_out && fits; k++)
        fits =
            !n->out[k] || n->out[k]->type.dtype != QG_F32 || c->result[k].dtype == want;
    return fits;
}

enum { NARROW_NOT, NARROW_DATA, NARROW_ALL };

/* Data alone is tried first, since normalizations and resizes accept statistics and
 * scales in float32 beside 16-bit data.  Quantizers keep float32 on their float side;
 * bodies of control flow were never widened. */
static qg_status choose(change *c, const qg_node *n)
{
    if (n->dead || n->stays_float32 || qg_node_has(n, QG_OP_QUANTIZER | QG_OP_CONTROL))
        return QG_OK;
    QG_TRY(make_room(c, n));
    c->narrow[n->id] = fits_narrow(c, n, false)  ? NARROW_DATA
                       : fits_narrow(c, n, true) ? NARROW_ALL
                                                 : NARROW_NOT;
    return QG_OK;
}

/* A value has the type that its producer gives it by now (narrow_outputs).  Where this
 * node needs the other one, it reads a Cast, or the converted constant.  Values added
 * by this conversion have their final type. */
static qg_status narrow_inputs(change *c, qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        qg_value *v = n->in[i], *cast;
        if (!v || v->id >= c->n_value)
            continue;
        bool was = v->type.dtype == c->g->float_type && c->file[v->id] == QG_F32;
        bool wants = c->file[v->id] == QG_F32 && c->narrow[n->id] &&
                     (c->narrow[n->id] == NARROW_ALL || follows(n, i));
        if (c->file[v->id] != QG_F32 || was == wants)
            continue;
        QG_TRY(in_type(c, v, wants ? c->g->float_type : QG_F32, &cast));
        QG_TRY(qg_edit_set_input(c->g, n, i, cast));
    }
    return QG_OK;
}

/* Outputs of narrow nodes take the type; one that the file has in float32 is cast.  An
 * output of the graph has the type of the file, whatever its node computes. */
static qg_status narrow_outputs(change *c, qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++) {
        qg_value *v = n->out[k];
        if (!v || c->file[v->id] != QG_F32)
            continue;
        bool narrow = c->narrow[n->id] != NARROW_NOT;
        qg_dtype now = narrow ? c->g->float_type : QG_F32;
        qg_dtype want = v->is_output ? v->file_dtype : QG_NODTYPE;
        if (v->is_output && want == QG_NODTYPE)
            want = QG_F32;
        v->type.dtype = v->is_output ? want : now;
        if (v->type.dtype != now)
            QG_TRY(cast_output(c, n, k, now));
    }
    return QG_OK;
}

/* All choices precede all changes: they are made on a graph in float32.  Outputs
 * precede inputs, which compare with the types of their producers. */
static qg_status to_float_type(change *c)
{
    qg_graph *g = c->g;
    for (size_t i = 0; i < c->n_node; i++) {
        qg_arena_reset(c->scratch);
        QG_TRY(choose(c, g->node.at[i]));
    }
    for (size_t i = 0; i < c->n_value; i++)
        c->file[i] = g->value.at[i]->type.dtype;
    for (size_t i = 0; i < g->input.n; i++)
        if (g->input.at[i]->file_dtype != QG_NODTYPE)
            g->input.at[i]->type.dtype = g->input.at[i]->file_dtype;
    for (size_t i = 0; i < c->n_node; i++)
        if (!g->node.at[i]->dead)
            QG_TRY(narrow_outputs(c, g->node.at[i]));
    for (size_t i = 0; i < c->n_node; i++)
        if (!g->node.at[i]->dead)
            QG_TRY(narrow_inputs(c, g->node.at[i]));
    return QG_OK;
}

/* --- both --- */

/* The arrays live in the arena of the graph.  On failure, too, the caller frees
 * c->scratch.  Bodies are never converted on their own. */
static qg_status begin(change *c, qg_graph *g)
{
    qg_arena *a = g->arena;
    assert(!g->outer);
    *c = (change){ .g = g, .n_value = g->value.n, .n_node = g->node.n };
    c->file = QG_NEWN(a, c->n_value, qg_dtype);
    c->narrow = QG_NEWN(a, c->n_node, uint8_t);
    c->other = QG_NEWN(a, c->n_value, qg_value *);
    c->scratch = qg_arena_new(g->ctx->alloc);
    const char *cast = g->ctx->registry->made[QG_MADE_CAST];
    c->opset = qg_graph_opset(g, "");
    if (cast && c->opset >= 6) /* by a number */
        c->cast = qg_op_find(g->ctx->registry, NULL, cast, c->opset);
    return c->file && c->narrow && c->other && c->scratch ? QG_OK : qg_nomem(g->ctx);
}

qg_status qg_graph_to_float32(qg_graph *g, bool *changed)
{
    change c;
    *changed = false;
    qg_status s = begin(&c, g);
    if (s == QG_OK)
        s = to_float32(&c, changed);
    qg_arena_free(c.scratch);
    return s;
}

qg_status qg_graph_to_float_type(qg_graph *g)
{
    change c;
    size_t removed;
    if (g->float_type == QG_NODTYPE)
        return QG_OK;
    QG_TRY(qg_graph_normalize(g));
    qg_status s = begin(&c, g);
    if (s == QG_OK)
        s = to_float_type(&c);
    qg_arena_free(c.scratch);
    return s == QG_OK ? qg_graph_sweep(g, &removed) : s;
}
