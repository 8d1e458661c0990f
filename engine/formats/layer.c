#include "engine/formats/layer.h"

#include "engine/ir/endpoint.h"

static const qg_tqc *acting(const qg_tqc *t) { return qg_tqc_is_on_grid(t) ? t : NULL; }

/* Of a value that operators only moved, the record that rounds it before them: v is on
 * the grid of `of`. */
static const qg_tqc *before_moves(const qg_value *v, const qg_tqc *of)
{
    while (v && v->def && qg_node_has(v->def, QG_OP_PASSIVE) && v->def->n_in) {
        const qg_tqc *in = acting(qg_input_tqc(v->def, 0));
        v = v->def->in[0];
        const qg_tqc *t = in ? in : v ? acting(qg_producer_tqc(v)) : NULL;
        if (t)
            return t == of ? t : NULL;
    }
    return NULL;
}

const qg_tqc *qg_weighted_rounds(const qg_node *n, uint32_t slot)
{
    const qg_tqc *own = qg_input_tqc(n, slot);
    const qg_value *v = n->in[slot];
    if (acting(own))
        return own;
    if (v && acting(qg_producer_tqc(v)))
        return qg_producer_tqc(v);
    bool overlapped = own && own->state == QG_TQC_OVERLAPPED;
    return overlapped ? before_moves(v, qg_tqc_root(own)) : NULL;
}

float qg_weighted_scale(const qg_weighted *l, size_t c)
{
    qg_qparam p = qg_tqc_param(l->weight);
    return p.scale[p.n == 1 ? 0 : c];
}

/* The layer of n; false when it is none. */
static bool find_layer(const qg_node *n, qg_weighted *out)
{
    const qg_tqc *w = qg_role_tqc(n, 'w');
    if (!qg_node_has(n, QG_OP_COMPUTE) || !w || !qg_tqc_is_on_grid(w) ||
        !qg_tqc_is_constant(w) || w->is_output || w->scheme.policy & QG_BLOCK)
        return false;
    int axis = n->op->weight_axis ? n->op->weight_axis(n) : -1;
    const qg_tensor *type = &qg_tqc_value(w)->type;
    bool wrong = w->scheme.policy & QG_PER_CHANNEL && w->scheme.axis != axis;
    *out = (qg_weighted){
        .node = n, .data = qg_weighted_rounds(n, 0), .weight = w, .axis = axis
    };
    out->outputs = axis >= 0 && axis < type->rank ? (size_t)type->dim[axis] : 1;
    return out->data && !wrong && qg_tqc_param(out->data).n == 1;
}

qg_status qg_weighted_build(qg_export *e)
{
    qg_weighted_list *all = QG_NEW(e->arena, qg_weighted_list);
    if (!all || !(all->covered = QG_NEWN(e->arena, e->quant->tqc.n, bool)))
        return qg_nomem(e->ctx);
    all->e = e;
    e->built = all;
    for (size_t i = 0; i < e->quant->graph->node.n; i++) {
        qg_weighted l;
        if (!find_layer(e->quant->graph->node.at[i], &l))
            continue;
        QG_TRY(qg_vec_push(e->ctx, e->arena, &all->layer, l));
        all->covered[l.weight->id] = true;
        const qg_value *v = qg_tqc_value(l.data);
        bool here = v == l.node->in[0] && (!l.data->is_output || v->use.n == 1);
        all->covered[l.data->id] |= here;
    }
    return QG_OK;
}
