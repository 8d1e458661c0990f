/* qoperator.c -- expansion in five passes over the nodes, each of which relies on the
 * one before: operators on codes become float operators between DQ and Q; the grid
 * behind codes is found, for moves without a DQ of their own; moves of codes; moves of
 * floats; edges to the rest of the graph, where codes leave or arrive. */
#include "engine/formats/qoperator.h"

#include <assert.h>
#include <string.h>

#include "engine/formats/code_grid.h"
#include "engine/formats/constant_codes.h"
#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/upgrade.h"

static const char *const resize[] = { "Resize", "Upsample" };

#define CODES (QG_DT(I8) | QG_DT(U8) | QG_DT(I16) | QG_DT(U16))

typedef struct expander {
    qg_graph *g;
    qg_ctx *ctx;
    int64_t opset;
    const qg_op *quantize, *dequantize; /* of that opset */
    qg_code_grid *behind; /* [n_behind] by value id: grid in which codes are read */
    size_t n_behind;
} expander;

static qg_value *in_slot(const qg_node *n, uint32_t slot)
{
    return slot < n->n_in ? n->in[slot] : NULL;
}

/* --- making nodes --- */

/* A value named after another one, of that type and those dims. */
static qg_status add_value(expander *e, const qg_value *like, const char *suffix,
                           qg_dtype dtype, qg_value **out)
{
    const char *name = qg_arena_printf(e->g->arena, "%s_%s", like->name, suffix);
    if (!name)
        return qg_nomem(e->ctx);
    QG_TRY(qg_graph_add_prefixed(e->g, name, out));
    (*out)->type = like->type;
    (*out)->type.dtype = dtype;
    return QG_OK;
}

/* Q or DQ from x to y; axis -1: one scale. */
static qg_status add_linear(expander *e, const qg_op *op, qg_value *x, qg_code_grid q,
                            int axis, qg_value *y)
{
    qg_value *in[] = { x, q.scale, q.zero };
    qg_node_spec spec = { .op = op,
                          .opset = e->opset,
                          .in = in,
                          .n_in = q.zero ? 3 : 2,
                          .out = &y,
                          .n_out = 1 };
    qg_node *n;
    if (axis >= 0) {
        qg_attr *a = QG_NEW(e->g->arena, qg_attr);
        int64_t *value = QG_NEW(e->g->arena, int64_t);
        if (!a || !value)
            return qg_nomem(e->ctx);
        *value = axis;
        *a = (qg_attr){ qg_intern(e->ctx, "axis"), QG_ATTR_INT, 1, { .ints = value } };
        spec.attr = a;
        spec.n_attr = 1;
    }
    return qg_graph_add_node(e->g, &spec, &n);
}

static qg_status dequantized(expander *e, qg_value *codes, qg_code_grid q, int axis,
                             qg_value **out)
{
    QG_TRY(add_value(e, codes, "dequantized", QG_F32, out));
    return add_linear(e, e->dequantize, codes, q, axis, *out);
}

/* y, which held codes, becomes floats; its readers get codes made of them. */
static qg_status quantize_behind(expander *e, qg_value *y, qg_code_grid q)
{
    qg_value *codes;
    QG_TRY(add_value(e, y, "codes", y->type.dtype, &codes));
    QG_TRY(qg_edit_replace_value(e->g, y, codes));
    y->type.dtype = QG_F32;
    return add_linear(e, e->quantize, y, q, -1, codes);
}

/* x on the grid and back, for readers of floats. */
static qg_status add_pair(expander *e, qg_value *x, qg_code_grid q, qg_dtype dtype,
                          qg_value **codes, qg_value **out)
{
    QG_TRY(add_value(e, x, "codes", dtype, codes));
    QG_TRY(add_value(e, x, "rounded", QG_F32, out));
    QG_TRY(add_linear(e, e->quantize, x, q, -1, *codes));
    return add_linear(e, e->dequantize, *codes, q, -1, *out);
}

static qg_status add_constant(expander *e, const char *prefix, qg_dtype dtype,
                              const int64_t *n, qg_tensor **t, qg_value **out)
{
    *t = QG_NEW(e->g->arena, qg_tensor);
    if (!*t)
        return qg_nomem(e->ctx);
    qg_tensor_init(*t, dtype, n ? 1 : 0, n);
    QG_TRY(qg_tensor_alloc(e->ctx, e->g->arena, *t));
    size_t bits = (size_t)qg_tensor_count(*t) * qg_dtype_bits(dtype);
    memset((*t)->data, 0, (bits + 7) / 8);
    return qg_edit_add_constant(e->g, prefix, *t, out);
}

/* --- operators on codes --- */

static const char *const not_constant = "its scales are not constant";

/* Why n cannot be rewritten; NULL: it can. */
static const char *must_stay(const qg_node *n)
{
    const qg_op_codes *c = n->op->codes;
    for (uint32_t i = 0; i < n->n_in; i++) {
        char what = qg_op_code_slot(c, i);
        const qg_value *v = n->in[i];
        bool weight = i > 0 && strchr("sz", what) &&
                      qg_op_in_role(n->op, i - (what == 's' ? 1 : 2)) == 'w';
        const bool scaled = what == 'x' && qg_op_code_slot(c, i + 1) == 's';
        if (v && scaled && (i + 1 >= n->n_in || !n->in[i + 1]))
            return "a scale is absent";
        if (!v || what == 'x' || what == 'v')
            continue;
        if (!v->constant)
            return not_constant;
        if (what == 'b')
            continue;
        if (qg_tensor_count(v->constant) != 1 && !weight)
            return "it has scales for rows";
        if (strchr("sS", what) && v->constant->dtype != QG_F32)
            return "its scales are no float32";
    }
    return NULL;
}

/* Scale of the int32 bias: one rounding for each product. */
static qg_status bias_scale(expander *e, const qg_node *n, qg_value **out)
{
    const qg_tensor *x = n->in[1]->constant, *w = n->in[4]->constant;
    int64_t count = qg_tensor_count(w);
    const qg_attr *a = qg_attr_find(n, "alpha");
    float alpha = a && a->type == QG_ATTR_FLOAT ? a->floats[0] : 1.0f;
    qg_tensor *t;
    QG_TRY(
        add_constant(e, n->in[1]->name, QG_F32, count == 1 ? NULL : &count, &t, out));
    for (int64_t c = 0; c < count; c++)
        t->f32[c] = alpha * x->f32[0] * w->f32[c];
    return QG_OK;
}

/* A constant of one element, or [1, channels], as a vector with one element for each
 * channel; others stay. */
static qg_status bias_vector(expander *e, const qg_node *n, qg_value *b, qg_value **out)
{
    const qg_tensor *t = b->constant, *w = n->in[3]->constant;
    int axis = w ? n->op->weight_axis(n) : -1;
    qg_tensor *vector;
    *out = b;
    if (!t || t->dtype != QG_I32 || axis < 0 || axis >= w->rank)
        return QG_OK;
    int64_t m = w->dim[axis], count = qg_tensor_count(t);
    bool row = t->rank == 2 && t->dim[0] == 1 && count == m;
    if (!row && (count != 1 || (t->rank == 1 && m == 1)))
        return QG_OK;
    QG_TRY(add_constant(e, b->name, QG_I32, &m, &vector, out));
    for (int64_t c = 0; c < m; c++)
        vector->i32[c] = t->i32[row ? c : 0];
    return QG_OK;
}

static qg_status float_bias(expander *e, const qg_node *n, uint32_t slot,
                            qg_value **out)
{
    qg_code_grid q = { 0 };
    qg_value *b;
    QG_TRY(bias_vector(e, n, n->in[slot], &b));
    QG_TRY(bias_scale(e, n, &q.scale));
    bool many = qg_tensor_count(q.scale->constant) > 1;
    return dequantized(e, b, q, many ? b->type.rank - 1 : -1, out);
}

static qg_status float_codes(expander *e, const qg_node *n, uint32_t slot,
                             qg_value **out)
{
    qg_code_grid q = { in_slot(n, slot + 1), in_slot(n, slot + 2) };
    bool many = qg_tensor_count(q.scale->constant) > 1;
    return dequantized(e, n->in[slot], q, many ? n->op->weight_axis(n) : -1, out);
}

static qg_status float_inputs(expander *e, const qg_node *n, qg_value **in,
                              uint32_t *n_in)
{
    *n_in = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        char what = qg_op_code_slot(n->op->codes, i);
        if (!strchr("xbv", what))
            continue;
        qg_value **to = &in[(*n_in)++];
        *to = n->in[i];
        if (n->in[i] && what == 'x')
            QG_TRY(float_codes(e, n, i, to));
        else if (n->in[i] && what == 'b')
            QG_TRY(float_bias(e, n, i, to));
    }
    while (*n_in && !in[*n_in - 1])
        --*n_in;
    return QG_OK;
}

/* Attributes of the float operator: all but those of the form on codes. */
static qg_status float_attributes(expander *e, const qg_node *n, qg_node_spec *spec)
{
    qg_attr *to = QG_NEWN(e->g->arena, n->n_attr, qg_attr);
    if (!to)
        return qg_nomem(e->ctx);
    spec->attr = to;
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, "channels_last") != 0 &&
            strcmp(n->attr[i].name, "opset") != 0)
            to[spec->n_attr++] = n->attr[i];
    return QG_OK;
}

/* The row whose attributes the node has; at most the graph's opset. */
static void float_operator(const expander *e, const qg_node *n, qg_node_spec *spec)
{
    const qg_attr *a = qg_attr_find(n, "opset");
    int64_t opset = n->op->codes->opset;
    if (a && a->type == QG_ATTR_INT)
        opset = a->ints[0];
    spec->opset = opset < e->opset ? opset : e->opset;
    spec->op = qg_op_find(e->ctx->registry, NULL, n->op->codes->op, spec->opset);
    assert(spec->op); /* prepare of n has found it */
}

/* Scale and zero point of output 0; without a zero point, one of its type. */
static qg_status output_grid(expander *e, const qg_node *n, qg_code_grid *out)
{
    qg_tensor *t;
    *out = qg_code_grid_behind(n);
    if (!out->scale || out->zero)
        return QG_OK;
    return add_constant(e, out->scale->name, n->out[0]->type.dtype, NULL, &t,
                        &out->zero);
}

/* y's readers read codes made of *out, which takes its name; without a scale, *out. */
static qg_status float_output(expander *e, qg_value *y, qg_code_grid q, qg_value **out)
{
    qg_value *codes;
    bool output = y->is_output;
    QG_TRY(add_value(e, y, "float", QG_F32, out));
    codes = *out;
    if (q.scale) {
        QG_TRY(add_value(e, y, "codes", y->type.dtype, &codes));
        QG_TRY(add_linear(e, e->quantize, *out, q, -1, codes));
    }
    QG_TRY(qg_edit_replace_value(e->g, y, codes));
    if (!output)
        qg_value_swap_names(e->g, y, *out);
    return QG_OK;
}

static qg_status expand_node(expander *e, qg_node *n)
{
    qg_value *y, **in = QG_NEWN(e->g->arena, n->n_in, qg_value *);
    qg_node_spec spec = { .name = n->name, .in = in, .out = &y, .n_out = 1 };
    qg_node *made;
    qg_code_grid q;
    if (!in)
        return qg_nomem(e->ctx);
    float_operator(e, n, &spec);
    QG_TRY(float_attributes(e, n, &spec));
    QG_TRY(float_inputs(e, n, in, &spec.n_in));
    QG_TRY(output_grid(e, n, &q));
    QG_TRY(float_output(e, n->out[0], q, &y));
    qg_edit_remove_node(e->g, n);
    QG_TRY(qg_graph_add_node(e->g, &spec, &made));
    qg_edit_swap_places(e->g, n, made);
    return QG_OK;
}

static qg_status expand_operators(expander *e)
{
    for (size_t i = 0, n = e->g->node.n; i < n; i++) {
        qg_node *at = e->g->node.at[i];
        if (!at->op->codes || !at->out[0])
            continue;
        const char *why = must_stay(at);
        if (!why)
            QG_TRY(expand_node(e, at));
        else
            qg_warn(e->ctx, "import: node '%.1000s' (%s) stays an operator: %s",
                    at->name, at->op->name, why);
    }
    return QG_OK;
}

/* --- operators that move codes --- */

static bool holds_codes(const qg_value *v) { return v && CODES >> v->type.dtype & 1; }

/* Moves elements, or computes between them in the grid of its input. */
static bool moves_codes(const qg_node *n)
{
    return !n->dead && !qg_node_has(n, QG_OP_CONTROL) && n->n_in && n->n_out &&
           n->out[0] && holds_codes(n->in[0]) &&
           n->out[0]->type.dtype == n->in[0]->type.dtype &&
           (qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) ||
            qg_op_is_named(n->op, resize, 2));
}

static qg_code_grid grid_of(const expander *e, const qg_value *v)
{
    if (v->def && qg_is_quantize_linear(v->def))
        return qg_code_grid_of(v->def);
    return v->id < e->n_behind ? e->behind[v->id] : (qg_code_grid){ 0 };
}

/* Grids that readers know: of constants, of inputs of the network. */
static qg_status look_behind(expander *e)
{
    e->n_behind = e->g->value.n;
    e->behind = QG_NEWN(e->g->arena, e->n_behind, qg_code_grid);
    if (!e->behind)
        return qg_nomem(e->ctx);
    for (size_t i = e->g->node.n; i-- > 0;) {
        const qg_node *n = e->g->node.at[i];
        if (n->dead)
            continue;
        if (qg_is_dequantize_linear(n))
            e->behind[n->in[0]->id] = qg_code_grid_of(n);
        else if (moves_codes(n))
            e->behind[n->in[0]->id] = e->behind[n->out[0]->id];
    }
    return QG_OK;
}

static bool is_moved(const qg_node *n, uint32_t slot)
{
    char role = qg_op_in_role(n->op, slot);
    return n->in[slot] && (role == 'd' || role == 'p');
}

/* All that is moved lies on one grid, which it leaves neither in type nor in scale. */
static bool has_one_grid(const expander *e, const qg_node *n, qg_code_grid q)
{
    bool one = qg_code_grid_is_plain(q) &&
               (qg_code_fill_of(n) != QG_FILLS_ZEROS || qg_code_is_zero(q.zero));
    for (uint32_t i = 1; i < n->n_in && one; i++) {
        const qg_value *v = n->in[i];
        if (is_moved(n, i))
            one = v->type.dtype == n->in[0]->type.dtype &&
                  (v->constant || qg_code_grid_same(q, grid_of(e, v)));
    }
    return one;
}

/* Code 0, which n puts beside the codes, becomes an input. */
static qg_status add_fill(expander *e, qg_node *n, qg_code_grid q)
{
    qg_tensor *t;
    qg_value *code;
    if (qg_code_fill_of(n) != QG_FILLS_VALUE || qg_code_is_zero(q.zero))
        return QG_OK;
    QG_TRY(add_constant(e, n->name, n->in[0]->type.dtype, NULL, &t, &code));
    QG_TRY(qg_edit_grow_inputs(e->g, n, 3));
    return qg_edit_set_input(e->g, n, 2, code);
}

static qg_status expand_move(expander *e, qg_node *n, qg_code_grid q)
{
    qg_dtype dtype = n->in[0]->type.dtype;
    qg_value *x;
    QG_TRY(add_fill(e, n, q));
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!is_moved(n, i))
            continue;
        QG_TRY(dequantized(e, n->in[i], q, -1, &x));
        QG_TRY(qg_edit_set_input(e->g, n, i, x));
    }
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && n->out[k]->type.dtype == dtype)
            QG_TRY(quantize_behind(e, n->out[k], q));
    return QG_OK;
}

static qg_status expand_moves(expander *e)
{
    for (size_t i = 0, n = e->g->node.n; i < n; i++) {
        qg_node *at = e->g->node.at[i];
        qg_code_grid q = moves_codes(at) ? grid_of(e, at->in[0]) : (qg_code_grid){ 0 };
        if (q.scale && has_one_grid(e, at, q))
            QG_TRY(expand_move(e, at, q));
    }
    return QG_OK;
}

/* --- moves of floats on a grid --- */

/* DequantizeLinear behind which v is on a grid of one scale; NULL: none. */
static const qg_node *grid_behind(const qg_value *v)
{
    const qg_node *n = v ? v->def : NULL;
    return n && qg_is_dequantize_linear(n) && holds_codes(n->in[0]) &&
                   qg_code_grid_is_plain(qg_code_grid_of(n))
               ? n
               : NULL;
}

/* All that n moves is on the grid of its first input, and some of it is computed. */
static const qg_node *moved_grid(const qg_node *n)
{
    bool computed = false;
    if (n->dead || !n->n_in || !qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) ||
        qg_node_has(n, QG_OP_CONTROL))
        return NULL;
    const qg_node *first = grid_behind(n->in[0]);
    for (uint32_t i = 0; i < n->n_in && first; i++) {
        const qg_value *v = n->in[i];
        const qg_node *dq = v && is_moved(n, i) ? grid_behind(v) : NULL;
        computed |= v && !v->constant && !(dq && dq->in[0]->constant);
        if (v && is_moved(n, i) && !(v->constant && qg_code_is_zero(v)) &&
            !(dq && qg_code_grid_same(qg_code_grid_of(first), qg_code_grid_of(dq)) &&
              dq->in[0]->type.dtype == first->in[0]->type.dtype))
            return NULL;
    }
    return computed ? first : NULL;
}

static bool is_quantized_alone(const qg_value *v, qg_code_grid q)
{
    return v->use.n == 1 && !v->is_output && qg_is_quantize_linear(v->use.at[0].node) &&
           qg_code_grid_same(q, qg_code_grid_of(v->use.at[0].node));
}

/* x -> MaxPool -> r, x on a grid: r is on it too. */
static qg_status expand_moved(expander *e, const qg_node *n)
{
    const qg_node *dq = moved_grid(n);
    qg_value *pair, *rounded;
    for (uint32_t k = 0; dq && k < n->n_out; k++) {
        qg_value *r = n->out[k];
        if (!r || r->type.dtype != QG_F32 || !r->use.n || r->is_output ||
            is_quantized_alone(r, qg_code_grid_of(dq)))
            continue;
        size_t readers = r->use.n;
        QG_TRY(add_pair(e, r, qg_code_grid_of(dq), dq->in[0]->type.dtype, &pair,
                        &rounded));
        for (size_t i = readers; i-- > 0;) {
            qg_use u = r->use.at[i];
            if (!qg_node_has(u.node, QG_OP_CONTROL))
                QG_TRY(qg_edit_set_input(e->g, u.node, u.slot, rounded));
        }
    }
    return QG_OK;
}

static qg_status expand_moved_floats(expander *e)
{
    for (size_t i = 0, n = e->g->node.n; i < n; i++)
        QG_TRY(expand_moved(e, e->g->node.at[i]));
    return QG_OK;
}

/* --- the edges of the quantized part --- */

/* DequantizeLinear of v on this grid. */
static bool reads_back(const qg_use *u, qg_code_grid q)
{
    return u->slot == 0 && qg_is_dequantize_linear(u->node) &&
           qg_code_grid_same(q, qg_code_grid_of(u->node));
}

static size_t count_others(const qg_value *codes, qg_code_grid q)
{
    size_t others = codes->is_output;
    for (size_t i = 0; i < codes->use.n; i++)
        others += !reads_back(&codes->use.at[i], q);
    return others;
}

/* x -> Q -> others: a pair before it, which the readers that dequantize share. */
static qg_status expand_leaving(expander *e, qg_node *n)
{
    qg_value *x = n->in[0], *codes = n->out[0], *pair, *rounded;
    qg_code_grid q = qg_code_grid_of(n);
    if (!x->def || x->use.n != 1 || x->is_output || !qg_code_grid_is_plain(q) ||
        qg_node_has(x->def, QG_OP_QUANTIZER) || !count_others(codes, q))
        return QG_OK;
    QG_TRY(add_pair(e, x, q, codes->type.dtype, &pair, &rounded));
    QG_TRY(qg_edit_set_input(e->g, n, 0, rounded));
    for (size_t i = codes->use.n; i-- > 0;) {
        qg_use u = codes->use.at[i];
        if (reads_back(&u, q))
            QG_TRY(qg_edit_set_input(e->g, u.node, 0, pair));
    }
    return QG_OK;
}

/* Codes of others -> DQ -> r: readers of r round to the grid that r is on. */
static qg_status expand_arriving(expander *e, const qg_node *n)
{
    const qg_value *codes = n->in[0];
    qg_value *r = n->out[0], *pair, *rounded;
    size_t readers = r->use.n;
    if (codes->constant || (codes->def && qg_is_quantize_linear(codes->def)) ||
        !holds_codes(codes) || !qg_code_grid_is_plain(qg_code_grid_of(n)) || !readers)
        return QG_OK;
    QG_TRY(add_pair(e, r, qg_code_grid_of(n), codes->type.dtype, &pair, &rounded));
    for (size_t i = readers; i-- > 0;) {
        qg_use u = r->use.at[i];
        if (!qg_node_has(u.node, QG_OP_QUANTIZER | QG_OP_CONTROL))
            QG_TRY(qg_edit_set_input(e->g, u.node, u.slot, rounded));
    }
    return QG_OK;
}

/* x -> Q -> DQ -> Q: where the first pair cannot be the producer's, an Identity of its
 * own carries it. */
static qg_status expand_double(expander *e, qg_node *n)
{
    const qg_node *dq = n->in[0]->def;
    const qg_node *first = dq && qg_is_dequantize_linear(dq) ? dq->in[0]->def : NULL;
    qg_value *v, *x = first && qg_is_quantize_linear(first) ? first->in[0] : NULL;
    if (!x || x->constant)
        return QG_OK;
    if (qg_code_grid_same(qg_code_grid_of(first), qg_code_grid_of(n)) &&
        !n->out[0]->is_output && first->out[0]->type.dtype == n->out[0]->type.dtype)
        return qg_edit_replace_value(e->g, n->out[0], first->out[0]);
    if (x->def && x->use.n == 1)
        return QG_OK;
    const qg_op *op = qg_op_find(e->ctx->registry, NULL, "Identity", e->opset);
    QG_TRY(add_value(e, dq->out[0], "again", QG_F32, &v));
    qg_node_spec spec = {
        .op = op, .opset = e->opset, .in = &dq->out[0], .n_in = 1, .out = &v, .n_out = 1
    };
    qg_node *made;
    QG_TRY(qg_graph_add_node(e->g, &spec, &made));
    return qg_edit_set_input(e->g, n, 0, v);
}

/* Nodes made meanwhile need none of this. */
static qg_status expand_edges(expander *e)
{
    for (size_t i = 0, n = e->g->node.n; i < n; i++) {
        qg_node *at = e->g->node.at[i];
        if (at->dead || !at->n_out || !at->out[0])
            continue;
        if (qg_is_quantize_linear(at)) {
            QG_TRY(expand_double(e, at));
            QG_TRY(expand_leaving(e, at));
        } else if (qg_is_dequantize_linear(at)) {
            QG_TRY(expand_arriving(e, at));
        }
    }
    return QG_OK;
}

/* --- all --- */

/* The opset in which n can be written with operators of ONNX; 0: any. */
static int64_t opset_of(const qg_node *n)
{
    bool quantize = qg_is_quantize_linear(n);
    if (n->op->codes)
        return 13;
    if (!n->op->domain || !(quantize || qg_is_dequantize_linear(n)))
        return 0;
    const qg_value *codes = quantize ? n->out[0] : n->in[0];
    return (QG_DT(I8) | QG_DT(U8) | QG_DT(I32)) >> codes->type.dtype & 1 ? 13 : 21;
}

/* A graph in text form need not import ai.onnx: its nodes have their versions. */
static int64_t needed_opset(const qg_graph *g)
{
    int64_t need = qg_graph_opset(g, "");
    bool imports = need > 0;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        int64_t its = imports || n->op->domain ? opset_of(n) : n->opset;
        need = its > need ? its : need;
    }
    return need;
}

/* QuantizeLinear and DequantizeLinear of com.microsoft are those of ONNX. */
static qg_status rename_linear(expander *e)
{
    for (size_t i = 0; i < e->g->node.n; i++) {
        qg_node *n = e->g->node.at[i];
        if (!n->op->domain || !(qg_is_quantize_linear(n) || qg_is_dequantize_linear(n)))
            continue;
        n->op = qg_is_quantize_linear(n) ? e->quantize : e->dequantize;
        n->opset = e->opset;
        QG_TRY(qg_node_prepare(e->g, n));
    }
    return QG_OK;
}

static qg_status lift(expander *e)
{
    e->opset = needed_opset(e->g);
    if (e->opset > qg_graph_opset(e->g, "")) {
        QG_TRY(qg_graph_upgrade(e->g, e->opset));
        QG_TRY(qg_graph_normalize(e->g));
        QG_TRY(qg_infer(e->g, NULL, 0));
    }
    const qg_registry *r = e->ctx->registry;
    e->quantize = qg_op_find(r, NULL, "QuantizeLinear", e->opset);
    e->dequantize = qg_op_find(r, NULL, "DequantizeLinear", e->opset);
    return QG_OK;
}

static bool has_codes(const qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->op->codes || qg_is_quantize_linear(g->node.at[i]) ||
            qg_is_dequantize_linear(g->node.at[i]))
            return true;
    return false;
}

qg_status qg_qoperator_expand(qg_graph *g, bool carried)
{
    expander e = { .g = g, .ctx = g->ctx };
    if (!has_codes(g))
        return QG_OK;
    QG_TRY(qg_settle_constants(g));
    QG_TRY(lift(&e));
    if (e.opset == 0) /* all were constants, and no operator of ONNX is left */
        return QG_OK;
    QG_TRY(rename_linear(&e));
    QG_TRY(expand_operators(&e));
    QG_TRY(look_behind(&e));
    QG_TRY(expand_moves(&e));
    if (carried)
        QG_TRY(expand_moved_floats(&e));
    QG_TRY(expand_edges(&e));
    QG_TRY(qg_graph_upgrade(g, e.opset));
    size_t removed;
    QG_TRY(qg_graph_sweep(g, &removed));
    return qg_infer(g, NULL, 0);
}
