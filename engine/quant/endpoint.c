#include "engine/quant/endpoint.h"

#include <assert.h>

#include "engine/quant/record.h"

qg_endpoint qg_tqc_endpoint(const qg_tqc *t)
{
    assert(t->node);
    return (qg_endpoint){ t->node, t->slot, t->is_output };
}

qg_value *qg_tqc_value(const qg_tqc *t)
{
    return qg_endpoint_value(qg_tqc_endpoint(t));
}

bool qg_tqc_is_constant(const qg_tqc *t)
{
    const qg_value *v = qg_tqc_value(t);
    return v && v->constant;
}

char qg_tqc_role(const qg_tqc *t) { return qg_endpoint_role(qg_tqc_endpoint(t)); }

bool qg_tqc_is_bound(const qg_tqc *t)
{
    return qg_tqc_role(t) == 'p' && qg_tqc_is_constant(t) && t->up != t;
}

const char *qg_tqc_text(const qg_tqc *t, char text[QG_ENDPOINT_TEXT])
{
    return qg_endpoint_text(qg_tqc_endpoint(t), text);
}

qg_tqc *qg_tqc_named(const qg_graph *g, const char *text)
{
    qg_endpoint at;
    return qg_endpoint_named(g, text, &at) ? qg_endpoint_tqc(at) : NULL;
}

/* --- from place to TQC --- */

qg_tqc *qg_input_tqc(const qg_node *n, uint32_t slot)
{
    return n->tin && slot < n->n_in ? n->tin[slot] : NULL;
}

qg_tqc *qg_output_tqc(const qg_node *n, uint32_t slot)
{
    return n->tout && slot < n->n_out ? n->tout[slot] : NULL;
}

qg_tqc *qg_endpoint_tqc(qg_endpoint at)
{
    return at.is_output ? qg_output_tqc(at.node, at.slot)
                        : qg_input_tqc(at.node, at.slot);
}

qg_tqc *qg_role_tqc(const qg_node *n, char role)
{
    int slot = qg_op_slot_of(n->op, role);
    return slot < 0 ? NULL : qg_input_tqc(n, (uint32_t)slot);
}

qg_tqc *qg_producer_tqc(const qg_value *v)
{
    return v->def ? qg_output_tqc(v->def, v->def_slot) : NULL;
}

qg_tqc *qg_node_tqc(const qg_node *n, uint32_t k)
{
    return qg_endpoint_tqc(qg_node_endpoint(n, k));
}

/* --- from TQC to TQC --- */

qg_tqc *qg_group_next(const qg_tqc *t, const qg_tqc *first)
{
    return t->next == first ? NULL : t->next;
}
