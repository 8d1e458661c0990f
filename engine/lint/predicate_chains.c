/* predicate_chains.c -- conditions on the nodes around one: what makes its operands, and
 * whether a kernel computes them together. */
#include "engine/lint/lint.h"

/* --- producers --- */

const qg_node *qg_lint_own_producer(const qg_node *n)
{
    const qg_value *v = n->n_in ? n->in[0] : NULL;
    return v && v->use.n == 1 && !v->is_output ? v->def : NULL;
}

/* In a kernel row: by a row before it (fates.c). */
bool qg_test_after_fused(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *from = qg_lint_own_producer(s->node);
    (void)c;
    return from && l->node[from->id].fate == QG_FATE_FUSED;
}

/* By the rows themselves, since kernels are decided after fused nodes. */
bool qg_test_after_kernel(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *from = qg_lint_own_producer(s->node);
    if (!from || !qg_op_is_named(from->op, c->word, c->n_word))
        return false;
    for (size_t i = 0; i < l->target->kernel.n; i++) {
        const qg_lint_kernel *k = &l->target->kernel.at[i];
        qg_lint_site site = { .node = from };
        if (k->as == QG_FATE_INTEGER && qg_node_matches(&k->node, from) &&
            qg_lint_holds(l, &site, &k->when, NULL))
            return true;
    }
    return false;
}

static bool is_float(qg_fate fate)
{
    return fate == QG_FATE_NONE || fate == QG_FATE_BLOCKED;
}

bool qg_test_carried_floats(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)c;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_node *from = qg_lint_is_data(n, k) ? n->in[k]->def : NULL;
        if (from && from->n_in && from->in[0] && l->grid[n->in[k]->id] &&
            l->grid[n->in[k]->id] == qg_lint_input_grid(l, from, 0) &&
            !qg_lint_rounds(l, qg_input_tqc(n, k)) && is_float(l->node[from->id].fate))
            return true;
    }
    return false;
}

/* --- operands --- */

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

bool qg_test_operand_of_operand(const qg_lint *l, qg_lint_site *s,
                                const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)l, (void)c;
    for (uint32_t k = 0; n->n_in == 2 && k < 2; k++) {
        const qg_node *from = n->in[k] ? n->in[k]->def : NULL;
        for (uint32_t i = 0; from && i < from->n_in; i++)
            if (from->in[i] && from->in[i] == n->in[1 - k])
                return true;
    }
    return false;
}
