#include "engine/ir/cut.h"

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"

typedef struct work {
    qg_ctx *ctx;
    qg_cut *c;
    qg_value **made; /* [values of from] */
} work;

/* Whether the walk from the target to its producers ends at v: a constant, an input
 * of `from`, or a known value. */
static bool ends(const qg_cut *c, const qg_value *v)
{
    return v->constant || !v->def || c->stop[v->id];
}

/* Nodes that the target needs: ids are in order of the graph, so one pass backwards
 * from the target marks every producer after all of its readers.  The target's own
 * `stop` is not asked: the cut computes it. */
static qg_status choose(work *w)
{
    qg_cut *c = w->c;
    qg_arena *a = c->graph->arena;
    uint8_t *need = QG_NEWN(a, c->from->node.n, uint8_t);
    c->node = QG_NEWN(a, c->from->node.n, const qg_node *);
    if (!need || !c->node)
        return qg_nomem(w->ctx);
    need[c->target->def->id] = 1;
    for (size_t i = c->target->def->id + 1; i-- > 0;) {
        const qg_node *n = c->from->node.at[i];
        for (uint32_t k = 0; need[i] && k < n->n_in; k++)
            if (n->in[k] && !ends(c, n->in[k]))
                need[n->in[k]->def->id] = 1;
    }
    for (size_t i = 0; i <= c->target->def->id; i++)
        if (need[i])
            c->node[c->n_node++] = c->from->node.at[i];
    return QG_OK;
}

/* A constant with a made-up name: the same one can be there once per use. */
static qg_status add_constant(work *w, const qg_value *v, const qg_tensor *t,
                              qg_value **out)
{
    QG_TRY(qg_graph_add_prefixed(w->c->graph, v->name, out));
    (*out)->constant = t;
    (*out)->type = *t;
    (*out)->type.data = NULL;
    return QG_OK;
}

/* v becomes the next input of the cut and keeps its name.  Its dims are those of
 * `from`, or c->dims; its type is c->real for float32. */
static qg_status add_input(work *w, const qg_value *v)
{
    qg_cut *c = w->c;
    qg_value **made = &w->made[v->id];
    QG_TRY(qg_graph_add_value(c->graph, v->name, made));
    (*made)->type = v->type;
    if (c->dims && c->dims[v->id] && !qg_tensor_known(&v->type))
        qg_tensor_init(&(*made)->type, v->type.dtype, c->dims[v->id]->rank,
                       c->dims[v->id]->dim);
    if (v->type.dtype == QG_F32 && c->real)
        (*made)->type.dtype = c->real;
    c->in[c->n_in++] = v;
    return qg_graph_mark_input(c->graph, *made);
}

/* Input `slot` of a copied node; NULL for an input that is left out.  A constant
 * that the caller changes is made per use, because the change can depend on the node
 * (its record); others are shared among their readers. */
static qg_status input(work *w, const qg_node *n, uint32_t slot, qg_value **out)
{
    qg_cut *c = w->c;
    const qg_value *v = n->in[slot];
    const qg_tensor *t;
    *out = NULL;
    if (!v)
        return QG_OK;
    if (v->constant && c->constant) {
        QG_TRY(c->constant(c->ud, c->graph, n, slot, &t));
        return add_constant(w, v, t, out);
    }
    if (!w->made[v->id])
        QG_TRY(v->constant ? add_constant(w, v, v->constant, &w->made[v->id])
                           : add_input(w, v));
    *out = w->made[v->id];
    return QG_OK;
}

/* The node with its attributes.  An output other than the target that is known, too,
 * gets a made-up name and no reader: its name belongs to the input of the cut. */
static qg_status copy(work *w, const qg_node *n)
{
    qg_graph *to = w->c->graph;
    qg_value **in = QG_NEWN(to->arena, n->n_in, qg_value *);
    qg_value **out = QG_NEWN(to->arena, n->n_out, qg_value *);
    if (!in || !out)
        return qg_nomem(w->ctx);
    for (uint32_t k = 0; k < n->n_in; k++)
        QG_TRY(input(w, n, k, &in[k]));
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        if (!v)
            continue;
        if (w->c->stop[v->id] && v != w->c->target) { /* readers take the known one */
            QG_TRY(qg_graph_add_prefixed(to, v->name, &out[k]));
            continue;
        }
        QG_TRY(qg_graph_add_value(to, v->name, &out[k]));
        w->made[v->id] = out[k];
        if (v == w->c->target)
            QG_TRY(qg_graph_mark_output(to, out[k]));
    }
    return qg_graph_copy_node(to, n, in, out);
}

/* Everything is in the arena of the new graph.  Inference runs again, because types
 * change with c->real. */
static qg_status make(work *w)
{
    qg_cut *c = w->c;
    qg_graph *g = c->graph;
    w->made = QG_NEWN(g->arena, c->from->value.n, qg_value *);
    c->in = QG_NEWN(g->arena, c->from->value.n, const qg_value *);
    if (!w->made || !c->in)
        return qg_nomem(w->ctx);
    g->ir_version = c->from->ir_version;
    for (size_t i = 0; i < c->from->opset.n; i++)
        QG_TRY(qg_vec_push(w->ctx, g->arena, &g->opset, c->from->opset.at[i]));
    QG_TRY(choose(w));
    for (size_t i = 0; i < c->n_node; i++)
        QG_TRY(copy(w, c->node[i]));
    QG_TRY(qg_graph_normalize(g));
    return qg_infer(g, NULL, 0);
}

qg_status qg_cut_make(qg_ctx *ctx, qg_cut *c)
{
    c->n_in = c->n_node = 0;
    QG_TRY(qg_graph_new(ctx, "cut", &c->graph));
    work w = { .ctx = ctx, .c = c };
    qg_status s = make(&w);
    if (s != QG_OK) {
        qg_graph_free(c->graph);
        c->graph = NULL;
    }
    return s;
}
