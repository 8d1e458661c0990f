/* clamps.c -- clamps that only codes have.  Tools drop a Relu or Relu6 whose effect the
 * grid behind it has: a grid that begins at 0 has no code for a negative value.  The
 * file does not tell it from an output without a Relu whose values happen not to be
 * negative, so no clamp is put in; a run in float is warned about. */
#include <string.h>

#include "engine/quant/nonnegative.h"
#include "engine/session/session.h"

/* Rounds, and its lowest code stands for 0 or more. */
static bool begins_at_zero(const qg_tqc *t)
{
    if (!t || !qg_tqc_rounds(t) || !(t->scheme.policy & QG_LINEAR))
        return false;
    qg_qparam p = qg_tqc_param(t);
    bool begins = p.n > 0;
    for (size_t i = 0; begins && i < p.n; i++)
        begins = (p.offset ? p.offset[i] : 0) <= t->scheme.qmin;
    return begins;
}

/* Products, sums of two and normalizations: they may be negative.  Others have outputs
 * of one sign by themselves (Sigmoid, Softmax, Max with a bound), or move values. */
static bool mixes_signs(const qg_node *n)
{
    const uint32_t sum = QG_OP_JOIN | QG_OP_HOMOGENEOUS;
    return qg_node_has(n, QG_OP_COMPUTE | QG_OP_NORMALIZE | QG_OP_GAIN) ||
           (n->op->traits & sum) == sum;
}

/* Inputs of the network that are rounded to such a grid where they are read. */
static void mark_inputs(const qg_graph *g, uint8_t *is)
{
    for (size_t i = 0; i < g->input.n; i++) {
        const qg_value *v = g->input.at[i];
        for (size_t k = 0; k < v->use.n; k++)
            is[v->id] |=
                begins_at_zero(qg_input_tqc(v->use.at[k].node, v->use.at[k].slot));
    }
}

/* Outputs that may be negative, on a grid that begins at 0; *first: one of them. */
static size_t count(const qg_graph *g, uint8_t *is, const qg_tqc **first)
{
    size_t found = 0;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        bool all = qg_nonnegative_node(n, is);
        for (uint32_t k = 0; k < n->n_out; k++) {
            const qg_tqc *t = qg_output_tqc(n, k);
            bool begins = begins_at_zero(t);
            if (!n->out[k])
                continue;
            is[n->out[k]->id] = all || begins;
            if (all || !begins || !mixes_signs(n))
                continue;
            *first = found++ ? *first : t;
        }
    }
    return found;
}

qg_status qg_model_warn_clamps(qg_model *m, const char *doing)
{
    const qg_graph *g = m->graph;
    const qg_tqc *first = NULL;
    char at[QG_ENDPOINT_TEXT];
    if (!m->quant || m->warned_clamps ||
        strncmp(m->quant->backend->name, QG_IMPORTED, strlen(QG_IMPORTED)) != 0)
        return QG_OK;
    m->warned_clamps = true;
    uint8_t *is = QG_NEWN(g->arena, g->value.n, uint8_t);
    if (!is)
        return qg_nomem(m->ctx);
    qg_nonnegative_constants(g, is);
    mark_inputs(g, is);
    size_t n = count(g, is, &first);
    if (n > 0)
        qg_warn(m->ctx,
                "%s: %zu output%s %s codes for 0 and more alone, as %s: where a Relu "
                "or Relu6 was left out because these codes clamp, the float run has "
                "none; the float model has the float accuracy",
                doing, n, n == 1 ? "" : "s", n == 1 ? "has" : "have",
                qg_tqc_text(first, at));
    return QG_OK;
}
