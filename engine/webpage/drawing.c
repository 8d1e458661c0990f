/* drawing.c -- the graph as boxes and lines: inputs of the network, nodes, outputs. */
#include <string.h>

#include "engine/report/describe.h"
#include "engine/webpage/layers.h"
#include "engine/webpage/webpage.h"

/* Vertices: inputs of the network, then nodes, then outputs. */
typedef struct picture {
    const qg_model *m;
    const qg_graph *graph;
    qg_arena *arena;
    qg_layers layers;
    QG_VEC(qg_layers_edge) edge;
    QG_VEC(const qg_value *) value; /* of each edge */
    uint32_t *seen;                 /* [vertices] the last reader list they were in */
    qg_report *r;
} picture;

static uint32_t vertex_of_node(const picture *p, const qg_node *n)
{
    return (uint32_t)p->graph->input.n + n->id;
}

/* One line to a reader, however many of its slots read the value. */
static qg_status add_edge(picture *p, const qg_value *v, uint32_t from, uint32_t to)
{
    if (p->seen[to] == v->id + 1)
        return QG_OK;
    p->seen[to] = v->id + 1;
    qg_layers_edge e = { .from = from, .to = to };
    QG_TRY(qg_vec_push(p->r->ctx, p->arena, &p->value, v));
    return qg_vec_push(p->r->ctx, p->arena, &p->edge, e);
}

static qg_status add_edges(picture *p, const qg_value *v, uint32_t from)
{
    const qg_graph *g = p->graph;
    for (size_t i = 0; i < v->use.n; i++)
        QG_TRY(add_edge(p, v, from, vertex_of_node(p, v->use.at[i].node)));
    for (size_t i = 0; v->is_output && i < g->output.n; i++)
        if (g->output.at[i] == v)
            QG_TRY(add_edge(p, v, from, (uint32_t)(g->input.n + g->node.n + i)));
    return QG_OK;
}

static qg_status list_edges(picture *p)
{
    const qg_graph *g = p->graph;
    p->layers.n = (uint32_t)(g->input.n + g->node.n + g->output.n);
    p->seen = QG_NEWN(p->arena, p->layers.n, uint32_t);
    if (!p->seen)
        return qg_nomem(p->r->ctx);
    for (uint32_t i = 0; i < g->input.n; i++)
        QG_TRY(add_edges(p, g->input.at[i], i));
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_out; k++)
            if (n->out[k])
                QG_TRY(add_edges(p, n->out[k], vertex_of_node(p, n)));
    }
    p->layers.edge = p->edge.at;
    p->layers.n_edge = p->edge.n;
    return QG_OK;
}

/* --- fusions --- */

/* The change that put t under its dominator for a fusion of the backend; NULL: none. */
static const qg_journal_entry *fused_by(const qg_quant *q, const qg_tqc *t)
{
    const char *kind;
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc != t->id || strcmp(e->field, "dominator") != 0)
            continue;
        const char *slash = strrchr(e->by, '/');
        return slash && qg_origin_named(q->backend, slash + 1, &kind) &&
                       strcmp(kind, "fusion") == 0
                   ? e
                   : NULL;
    }
    return NULL;
}

/* Outputs that stay unrounded inside of a kernel, and the node that ends it. */
static qg_status put_fusions(const picture *p)
{
    qg_table *t;
    QG_TRY(qg_report_table(p->r, "fusions", "node into by", &t));
    for (size_t i = 0; i < p->m->quant->tqc.n; i++) {
        const qg_tqc *tqc = p->m->quant->tqc.at[i];
        bool inner = tqc->is_output && tqc->state == QG_TQC_OVERLAPPED;
        const qg_journal_entry *e = inner ? fused_by(p->m->quant, tqc) : NULL;
        if (e)
            QG_TRY(qg_table_cells(p->r, t, qg_cell_text(tqc->node->name),
                                  qg_cell_text(qg_tqc_root(tqc)->node->name),
                                  qg_cell_text(e->by)));
    }
    return QG_OK;
}

/* --- tables --- */

static qg_status put_box(const picture *p, qg_table *t, uint32_t i)
{
    const qg_graph *g = p->graph;
    const qg_node *n = NULL;
    char shape[QG_SHAPE_TEXT];
    const qg_value *v = NULL;
    if (i < g->input.n)
        v = g->input.at[i];
    else if (i < g->input.n + g->node.n)
        n = g->node.at[i - g->input.n];
    else
        v = g->output.at[i - g->input.n - g->node.n];
    const qg_value *made = n ? (n->n_out ? n->out[0] : NULL) : v;
    const char *place = i < g->input.n ? "input" : "output";
    return qg_table_cells(
        p->r, t, qg_cell_text(n ? n->name : v->name),
        qg_cell_text(n ? n->op->name : NULL),
        qg_cell_text(n ? qg_platform_name(n->platform) : place),
        qg_cell_text(n ? n->reason : NULL),
        qg_cell_text(made ? qg_tensor_text(&made->type, shape) : NULL),
        qg_cell_number((double)p->layers.x[i]), qg_cell_number((double)p->layers.y[i]));
}

static qg_status put_tables(const picture *p)
{
    qg_table *t;
    QG_TRY(
        qg_report_table(p->r, "nodes", "name operator platform because type x y", &t));
    for (uint32_t i = 0; i < p->layers.n; i++)
        QG_TRY(put_box(p, t, i));
    QG_TRY(qg_report_table(p->r, "edges", "from to value points", &t));
    for (size_t i = 0; i < p->edge.n; i++) {
        const qg_layers_edge *e = &p->edge.at[i];
        QG_TRY(qg_table_cells(p->r, t, qg_cell_count(e->from), qg_cell_count(e->to),
                              qg_cell_text(p->value.at[i]->name),
                              qg_cell_floats(e->point, 2 * e->n_point)));
    }
    return put_fusions(p);
}

qg_status qg_page_draw(qg_report *r, const qg_model *m)
{
    picture p = { .m = m, .graph = m->graph, .r = r };
    p.layers.width = QG_PAGE_BOX_WIDTH;
    p.layers.height = QG_PAGE_BOX_HEIGHT;
    p.arena = qg_arena_new(m->ctx->alloc);
    qg_status s = p.arena ? list_edges(&p) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = qg_layers_place(m->ctx, p.arena, &p.layers);
    if (s == QG_OK)
        s = put_tables(&p);
    qg_arena_free(p.arena);
    return s;
}
