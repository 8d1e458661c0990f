#include "engine/session/measured.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ir/infer.h"

static bool is_measurable(const qg_tensor *t)
{
    return t->dtype == QG_F32 && qg_tensor_known(t);
}

/* --- shapes of a sample --- */

static bool is_open(const qg_graph *g)
{
    for (size_t i = 0; i < g->input.n; i++)
        if (!qg_tensor_known(&g->input.at[i]->type))
            return true;
    return false;
}

static qg_status first_shapes(const qg_graph *g, const qg_feed *feed, qg_arena *scratch,
                              qg_tensor *out)
{
    const qg_tensor **in = QG_NEWN(scratch, g->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(g->ctx);
    QG_TRY(feed->fetch(feed->ud, g->ctx, scratch, 0, in));
    for (size_t i = 0; i < g->input.n; i++)
        qg_tensor_init(&out[i], in[i]->dtype, in[i]->rank, in[i]->dim);
    return QG_OK;
}

/* The model's, those that all samples have, or those of the first. */
static qg_status input_shapes(const qg_graph *g, const qg_feed *feed, qg_arena *a,
                              const qg_tensor **out)
{
    *out = feed ? feed->shape : NULL;
    if (*out || !feed || !feed->n || !is_open(g))
        return QG_OK;
    qg_tensor *shape = QG_NEWN(a, g->input.n, qg_tensor);
    qg_arena *scratch = qg_arena_new(g->ctx->alloc);
    qg_status s =
        shape && scratch ? first_shapes(g, feed, scratch, shape) : qg_nomem(g->ctx);
    qg_arena_free(scratch);
    *out = shape;
    return s;
}

qg_status qg_measured_types(const qg_graph *g, const qg_feed *feed, qg_arena *a,
                            qg_tensor **type, const qg_tensor ***known)
{
    const qg_tensor *shape;
    QG_TRY(input_shapes(g, feed, a, &shape));
    return qg_infer_values(g->ctx, g, shape, a, type, known);
}

/* --- in front of a choice by data --- */

typedef struct search {
    const qg_graph *graph;
    const qg_tensor *type;         /* [values] */
    const qg_tensor *const *known; /* [values] */
    bool *chosen;                  /* [values] what it holds depends on a choice */
    bool *met;                     /* [values] */
    bool *front;                   /* [values] it is among those found */
    qg_value **todo, **found;      /* [values] */
    size_t n_todo, n_found;
} search;

/* An integer that comes from floats picks elements (TopK); a body may do anything.
 * Classes and truths (ArgMax, a comparison) may be of no weight for floats behind them,
 * which have an error of their own where their shape is known. */
static bool chooses(const search *s, const qg_node *n)
{
    bool floats = false, picks = false;
    for (size_t k = 0; k < n->n_in; k++)
        floats |= n->in[k] && s->type[n->in[k]->id].dtype == QG_F32 &&
                  !s->known[n->in[k]->id];
    for (size_t k = 0; k < n->n_out; k++)
        picks |= n->out[k] && s->type[n->out[k]->id].dtype != QG_F32 &&
                 !s->known[n->out[k]->id];
    return (floats && picks && !qg_node_has(n, QG_OP_SHAPE)) ||
           qg_node_has(n, QG_OP_CONTROL);
}

static void mark_chosen(search *s)
{
    for (size_t i = 0; i < s->graph->node.n; i++) { /* in topological order */
        const qg_node *n = s->graph->node.at[i];
        bool chosen = chooses(s, n);
        for (size_t k = 0; k < n->n_in && !chosen; k++)
            chosen = n->in[k] && s->chosen[n->in[k]->id];
        for (size_t k = 0; k < n->n_out; k++)
            if (n->out[k])
                s->chosen[n->out[k]->id] =
                    chosen || !qg_tensor_known(&s->type[n->out[k]->id]);
    }
}

/* The value that v only takes elements from; v itself without one. */
static qg_value *whole_of(const search *s, qg_value *v)
{
    for (const qg_node *n = v->def;
         n && qg_node_has(n, QG_OP_PASSIVE) && !qg_node_has(n, QG_OP_POOLING);
         n = v->def) {
        qg_value *x = n->in[0];
        if (!x || !x->def || !is_measurable(&s->type[x->id]) || s->known[x->id])
            break;
        v = x;
    }
    return v;
}

static void meet(search *s, qg_value *v)
{
    if (!v->def || s->met[v->id] || s->known[v->id])
        return;
    s->met[v->id] = true;
    if (s->chosen[v->id] || !is_measurable(&s->type[v->id])) {
        s->todo[s->n_todo++] = v;
        return;
    }
    qg_value *whole = whole_of(s, v);
    if (!is_measurable(&s->type[whole->id]) || s->front[whole->id])
        return;
    s->met[whole->id] = true;
    s->front[whole->id] = true;
    s->found[s->n_found++] = whole;
}

static int by_id(const void *a, const void *b)
{
    const qg_value *x = *(qg_value *const *)a, *y = *(qg_value *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

/* In front of the outputs that cannot be measured themselves. */
static qg_status walk(search *s, qg_arena *a)
{
    size_t n = s->graph->value.n;
    s->chosen = QG_NEWN(a, n, bool);
    s->met = QG_NEWN(a, n, bool);
    s->front = QG_NEWN(a, n, bool);
    s->todo = QG_NEWN(a, n, qg_value *);
    s->found = QG_NEWN(a, n, qg_value *);
    if (!s->chosen || !s->met || !s->front || !s->todo || !s->found)
        return qg_nomem(s->graph->ctx);
    mark_chosen(s);
    for (size_t i = 0; i < s->graph->output.n; i++)
        if (!is_measurable(&s->type[s->graph->output.at[i]->id]))
            meet(s, s->graph->output.at[i]);
    for (size_t i = 0; i < s->n_todo; i++)
        for (size_t k = 0; k < s->todo[i]->def->n_in; k++)
            if (s->todo[i]->def->in[k])
                meet(s, s->todo[i]->def->in[k]);
    qsort(s->found, s->n_found, sizeof(qg_value *), by_id);
    return QG_OK;
}

/* --- the answer --- */

/* What is measured: outputs in their order, then the values in front of a choice. */
static qg_status list_measured(const search *s, qg_arena *a, qg_measured *out)
{
    const qg_graph *g = s->graph;
    out->at = QG_NEWN(a, g->output.n + s->n_found, qg_value *);
    bool *listed = QG_NEWN(a, g->value.n, bool);
    if (!out->at || !listed)
        return qg_nomem(g->ctx);
    out->n = 0;
    for (size_t i = 0; i < g->output.n; i++) {
        qg_value *v = g->output.at[i];
        if (is_measurable(&s->type[v->id]))
            out->at[out->n++] = v;
        listed[v->id] = true;
    }
    out->instead = out->n < g->output.n;
    for (size_t i = 0; i < s->n_found; i++)
        if (!listed[s->found[i]->id])
            out->at[out->n++] = s->found[i];
    return QG_OK;
}

/* [values] true: what the value holds comes from a value in front of a choice. */
static bool *mark_behind(const search *s, qg_arena *a)
{
    bool *behind = QG_NEWN(a, s->graph->value.n, bool);
    for (size_t i = 0; behind && i < s->n_found; i++)
        behind[s->found[i]->id] = true;
    for (size_t i = 0; behind && i < s->graph->node.n; i++) {
        const qg_node *n = s->graph->node.at[i];
        bool any = false;
        for (size_t k = 0; k < n->n_in && !any; k++)
            any = n->in[k] && behind[n->in[k]->id];
        for (size_t k = 0; k < n->n_out; k++)
            if (n->out[k] && any)
                behind[n->out[k]->id] = true;
    }
    return behind;
}

/* Appends a name to "a, b, c", which is NULL while it is empty. */
static qg_status add_name(const search *s, qg_arena *a, const qg_value *v,
                          const char **list)
{
    *list = qg_arena_printf(a, "%s%s%.1000s", *list ? *list : "", *list ? ", " : "",
                            v->name);
    return *list ? QG_OK : qg_nomem(s->graph->ctx);
}

static qg_status name_others(const search *s, qg_arena *a, qg_measured *out)
{
    const bool *behind = mark_behind(s, a);
    if (!behind)
        return qg_nomem(s->graph->ctx);
    for (size_t i = 0; i < s->n_found; i++)
        QG_TRY(add_name(s, a, s->found[i], &out->in_front));
    for (size_t i = 0; i < s->graph->output.n; i++) {
        const qg_value *v = s->graph->output.at[i];
        bool same_always = s->known[v->id] || v->constant;
        if (!is_measurable(&s->type[v->id]) && !same_always)
            QG_TRY(add_name(s, a, v,
                            behind[v->id] ? &out->chosen_by_data : &out->not_measured));
    }
    return QG_OK;
}

static void warn(const qg_measured *m, const char *doing)
{
    if (m->chosen_by_data)
        qg_warn(m->graph->ctx,
                "%s: outputs chosen by the data: %.1500s: errors are measured in front "
                "of the choice, at %.1500s",
                doing, m->chosen_by_data, m->in_front);
    if (m->not_measured)
        qg_warn(m->graph->ctx,
                "%s: outputs that are not measured: %.1500s: expected float32 with a "
                "shape that follows from those of the inputs",
                doing, m->not_measured);
}

qg_status qg_measured_find(qg_graph *g, const qg_feed *feed, const char *doing,
                           qg_arena *a, qg_measured *out)
{
    qg_tensor *type;
    const qg_tensor **known;
    *out = (qg_measured){ .graph = g };
    QG_TRY(qg_measured_types(g, feed, a, &type, &known));
    search s = { .graph = g, .type = type, .known = known };
    QG_TRY(walk(&s, a));
    QG_TRY(list_measured(&s, a, out));
    if (out->n == 0)
        return qg_fail(g->ctx, QG_EDATA,
                       "%s: no output is float32 with a shape that follows from those "
                       "of the inputs, or chosen among such values, expected an output "
                       "to measure",
                       doing ? doing : "measure");
    QG_TRY(name_others(&s, a, out));
    if (doing)
        warn(out, doing);
    return QG_OK;
}

qg_status qg_measured_report(const qg_measured *m, qg_report *r)
{
    if (m->chosen_by_data) {
        QG_TRY(qg_report_add(r, "chosen_by_data", qg_cell_text(m->chosen_by_data)));
        QG_TRY(qg_report_add(r, "measured_in_front", qg_cell_text(m->in_front)));
    }
    return m->not_measured
               ? qg_report_add(r, "not_measured", qg_cell_text(m->not_measured))
               : QG_OK;
}

qg_status qg_measured_in(const qg_measured *of, qg_graph *g, const char *doing,
                         qg_arena *a, qg_measured *out)
{
    *out = (qg_measured){ .graph = g, .at = g->output.at, .n = g->output.n };
    if (!of->instead)
        return QG_OK;
    out->at = QG_NEWN(a, of->n, qg_value *);
    out->n = of->n;
    if (!out->at)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < of->n; i++) {
        out->at[i] = qg_graph_value(g, of->at[i]->name);
        if (!out->at[i])
            return qg_fail(g->ctx, QG_EDATA,
                           "%s: value '%.1000s', where errors are measured: a pass has "
                           "removed it, expected it in every variant",
                           doing, of->at[i]->name);
    }
    out->instead = true;
    return QG_OK;
}

qg_status qg_measured_labels(const qg_measured *m, const char *doing)
{
    const qg_graph *g = m->graph;
    assert(!m->output);
    return m->at[0] == g->output.at[0] /* outputs keep their order */
               ? QG_OK
               : qg_fail(g->ctx, QG_EDATA,
                         "%s: labels: the first output '%.1000s' is not measured, "
                         "expected scores: float32 with a shape that follows from "
                         "those of the inputs",
                         doing, g->output.at[0]->name);
}

static void stand_in(qg_graph *g, qg_value **at, size_t n)
{
    for (size_t i = 0; i < g->output.n; i++)
        g->output.at[i]->is_output = false;
    for (size_t i = 0; i < n; i++)
        at[i]->is_output = true;
    g->output.at = at;
    g->output.n = n;
}

void qg_measured_begin(qg_measured *m)
{
    assert(!m->output);
    if (!m->instead)
        return;
    m->output = m->graph->output.at;
    m->n_output = m->graph->output.n;
    stand_in(m->graph, m->at, m->n);
}

void qg_measured_end(qg_measured *m)
{
    if (m->output)
        stand_in(m->graph, m->output, m->n_output);
    m->output = NULL;
}
