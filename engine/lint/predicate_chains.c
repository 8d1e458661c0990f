/* predicate_chains.c -- conditions on the nodes around one: what makes its operands,
 * and whether a kernel computes them together. */
#include "engine/lint/lint.h"

/* --- producers --- */

/* The producer of input 0, of which nothing else reads it; NULL: there is none. */
static const qg_node *own_producer(const qg_node *n)
{
    const qg_value *v = n->n_in ? n->in[0] : NULL;
    return v && v->use.n == 1 && !v->is_output ? v->def : NULL;
}

bool qg_test_after(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *from = own_producer(s->node);
    (void)l;
    return from && qg_op_is_named(from->op, c->word, c->n_word);
}

bool qg_test_after_clamp(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    float low, high;
    const qg_node *clamp = own_producer(s->node);
    const qg_node *from = clamp ? own_producer(clamp) : NULL;
    (void)l;
    return from && qg_node_clamps(clamp, &low, &high) &&
           qg_op_is_named(from->op, c->word, c->n_word);
}

/* The chain of nodes that one kernel computes, whatever slot it arrives at: x *
 * sigmoid(x) behind a convolution, a sum with a residual that is on a grid.  In a
 * kernel row only fates of rows before it are known (fates.c). */
bool qg_test_behind(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const qg_node *from = qg_lint_is_data(s->node, k) ? s->node->in[k]->def : NULL;
        if (from && !qg_lint_input_grid(l, s->node, k) &&
            (l->node[from->id].fate == QG_FATE_FUSED ||
             qg_op_is_named(from->op, c->word, c->n_word)))
            return true;
    }
    return false;
}

bool qg_test_read_once(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    (void)l, (void)c;
    return v && v->use.n == 1 && !v->is_output;
}

/* In a kernel row: by a row before it (fates.c). */
bool qg_test_after_fused(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *from = own_producer(s->node);
    (void)c;
    return from && l->node[from->id].fate == QG_FATE_FUSED;
}

/* Nodes that carry grids have a row, so that they are blocked where they do not. */
bool qg_test_carried_floats(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)c;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_node *from = qg_lint_is_data(n, k) ? n->in[k]->def : NULL;
        if (from && from->n_in && from->in[0] && l->grid[n->in[k]->id] &&
            l->grid[n->in[k]->id] == qg_lint_input_grid(l, from, 0) &&
            !qg_lint_rounds(l, qg_input_tqc(n, k)) &&
            l->node[from->id].fate == QG_FATE_BLOCKED)
            return true;
    }
    return false;
}

/* --- operands --- */

const qg_value *qg_lint_varying(const qg_node *n)
{
    const qg_value *one = NULL;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_value *v = n->in[k];
        if (!v || v->constant || v->type.dtype != QG_F32)
            continue;
        if (one)
            return NULL;
        one = v;
    }
    return one;
}

bool qg_test_constant_operand(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    for (uint32_t k = 0; k < s->node->n_in; k++)
        if (qg_lint_is_data(s->node, k) && s->node->in[k]->constant)
            return true;
    return false;
}

bool qg_test_constant_along(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    const qg_tensor *t = NULL;
    (void)l;
    if (n->n_in != 2 || !n->in[0] || !n->in[1] || !n->n_out || !n->out[0])
        return false;
    t = n->in[0]->constant ? n->in[0]->constant : n->in[1]->constant;
    int rank = n->out[0]->type.rank;
    int axis = (int)c->number + (c->number < 0 ? rank : 0);
    for (int k = 0; t && k < t->rank; k++)
        if (t->dim[k] != 1 && rank - t->rank + k != axis)
            return false;
    return t != NULL;
}

/* The input of a chain of functions of one value, each read by the next one alone, that
 * ends in v; `stop`: it is found, or all of the chain is. */
static const qg_value *chain_start(const qg_value *v, const qg_value *stop)
{
    while (v && v != stop && v->def && v->use.n == 1 && !v->is_output &&
           qg_node_has(v->def, QG_OP_ELEMENTWISE | QG_OP_ACTIVATION) &&
           qg_lint_varying(v->def))
        v = qg_lint_varying(v->def);
    return v;
}

bool qg_test_gated(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)l, (void)c;
    for (uint32_t k = 0; n->n_in == 2 && k < 2; k++)
        if (n->in[0] != n->in[1] && !n->in[1 - k]->constant &&
            chain_start(n->in[k], n->in[1 - k]) == n->in[1 - k])
            return true;
    return false;
}

/* Down the chain to its product, whose test finds the chain again. */
bool qg_test_gates(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    while (n && qg_lint_varying(n)) {
        const qg_value *v = n->n_out == 1 ? n->out[0] : NULL;
        n = v && v->use.n == 1 && !v->is_output ? v->use.at[0].node : NULL;
    }
    qg_lint_site site = { .node = n };
    return n && n->n_in == 2 && qg_op_is_named(n->op, c->word, c->n_word) &&
           qg_test_gated(l, &site, c);
}

/* --- sums --- */

/* The first node of the kernel that makes v for one reader, before nodes fused into it;
 * NULL: others read it, too. */
static const qg_node *kernel_of(const qg_lint *l, const qg_value *v)
{
    const qg_node *from = v && v->use.n == 1 && !v->is_output ? v->def : NULL;
    while (from && l->node[from->id].fate == QG_FATE_FUSED) {
        const qg_value *in = qg_lint_varying(from);
        from = in ? in->def : from->in[0]->def;
    }
    return from;
}

static bool reads(const qg_node *n, const qg_value *v)
{
    for (uint32_t k = 0; n && k < n->n_in; k++)
        if (n->in[k] == v)
            return true;
    return false;
}

bool qg_test_sums_kernel(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    for (uint32_t k = 0; n->n_in == 2 && k < 2; k++) {
        const qg_node *from = kernel_of(l, n->in[k]),
                      *peer = kernel_of(l, n->in[1 - k]);
        if (from && !n->in[1 - k]->constant && !reads(from, n->in[1 - k]) &&
            qg_op_is_named(from->op, c->word, c->n_word) &&
            (qg_lint_input_grid(l, n, k) ||
             (peer && qg_op_is_named(peer->op, c->word, c->n_word))))
            return true;
    }
    return false;
}

/* [n]; of a product of two axes also [1, n], [m, 1] or [m, n]. */
static bool is_bias_of(const qg_tensor *t, const qg_tensor *product)
{
    int64_t n = product->dim[product->rank - 1], m = product->dim[0];
    if (t->rank == 1)
        return t->dim[0] == n;
    return product->rank == 2 && t->rank == 2 &&
           ((t->dim[0] == 1 && t->dim[1] == n) ||
            (t->dim[0] == m && (t->dim[1] == 1 || t->dim[1] == n)));
}

/* A constant in float, which the file that we write for a snapshot gives as many axes
 * as the product has (formats/qdq/runtime.c). */
static bool is_widened(const qg_lint *l, const qg_node *sum, uint32_t slot)
{
    return l->is_snapshot && sum->in[slot]->constant &&
           !qg_lint_rounds(l, qg_input_tqc(sum, slot));
}

/* Tests the conditions of MatMulAddFusion of ONNX Runtime, which runs before the
 * integer kernels are selected: source in configs/lint/ort.yaml.  Its exceptions for
 * attention do not see through the DequantizeLinear in front of a kernel on codes. */
bool qg_test_becomes_gemm(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    (void)l;
    if (!v || v->use.n != 1 || v->is_output || v->type.rank == 0 || s->node->n_in < 2 ||
        s->node->in[1]->type.rank != 2)
        return false;
    const qg_node *n = v->use.at[0].node;
    if (!qg_op_is_named(n->op, c->word, c->n_word) || n->n_in != 2)
        return false;
    uint32_t slot = 1 - v->use.at[0].slot;
    const qg_value *b = n->in[slot];
    return b && is_bias_of(&b->type, &v->type) &&
           (v->type.rank == 2 || !is_widened(l, n, slot));
}
