#include "engine/session/measured.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ir/infer.h"

/* floats: an output is float32, so that a shape is what it lacks. */
static qg_status nothing(qg_ctx *ctx, const char *doing, bool floats)
{
    return qg_fail(
        ctx, QG_EDATA,
        "%s: no output is float32 with a shape that is known before a run, "
        "expected an output to measure%s",
        doing, floats ? "; samples of one shape, or --shape, make shapes known" : "");
}

static bool is_measurable(const qg_tensor *t)
{
    return t->dtype == QG_F32 && qg_tensor_known(t);
}

qg_status qg_plan_measures(qg_ctx *ctx, const qg_plan *p, qg_arena *a,
                           const char *doing, uint8_t **out)
{
    size_t n = p->graph->output.n, some = 0, floats = 0;
    uint8_t *measured = QG_NEWN(a, n, uint8_t);
    if (!measured)
        return qg_nomem(ctx);
    for (size_t k = 0; k < n; k++) {
        const qg_tensor *type = &p->tensor.at[p->output[k]].type;
        measured[k] = is_measurable(type);
        some += measured[k];
        floats += type->dtype == QG_F32;
    }
    *out = measured;
    return some ? QG_OK : nothing(ctx, doing, floats > 0);
}

/* --- in front of a choice by data --- */

typedef struct search {
    const qg_graph *graph;
    const qg_tensor *type;         /* [values] */
    const qg_tensor *const *known; /* [values] */
    bool *chosen;                  /* [values] what it holds depends on a choice */
    bool *met;                     /* [values] */
    qg_value **todo, **found;      /* [values] */
    size_t n_todo, n_found;
} search;

/* An integer or a truth that comes from floats picks elements (NonMaxSuppression, TopK,
 * a comparison); a body may do anything. */
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
    if (s->chosen[v->id]) {
        s->todo[s->n_todo++] = v;
        return;
    }
    qg_value *whole = whole_of(s, v);
    if (!is_measurable(&s->type[whole->id]) || (whole != v && s->met[whole->id]))
        return;
    s->met[whole->id] = true;
    s->found[s->n_found++] = whole;
}

static int by_id(const void *a, const void *b)
{
    const qg_value *x = *(qg_value *const *)a, *y = *(qg_value *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static qg_status walk(search *s, qg_arena *a)
{
    size_t n = s->graph->value.n;
    s->chosen = QG_NEWN(a, n, bool);
    s->met = QG_NEWN(a, n, bool);
    s->todo = QG_NEWN(a, n, qg_value *);
    s->found = QG_NEWN(a, n, qg_value *);
    if (!s->chosen || !s->met || !s->todo || !s->found)
        return qg_nomem(s->graph->ctx);
    mark_chosen(s);
    for (size_t i = 0; i < s->graph->output.n; i++)
        meet(s, s->graph->output.at[i]);
    for (size_t i = 0; i < s->n_todo; i++)
        for (size_t k = 0; k < s->todo[i]->def->n_in; k++)
            if (s->todo[i]->def->in[k])
                meet(s, s->todo[i]->def->in[k]);
    qsort(s->found, s->n_found, sizeof(qg_value *), by_id);
    return QG_OK;
}

static qg_status warn(const search *s, const char *doing, qg_arena *a)
{
    enum { NAMES = 4 };
    const char *names = "";
    for (size_t i = 0; i < s->n_found && i < NAMES && names; i++)
        names =
            qg_arena_printf(a, "%s%s%.100s", names, i ? ", " : "", s->found[i]->name);
    if (!names)
        return qg_nomem(s->graph->ctx);
    qg_warn(
        s->graph->ctx,
        "%s: what the outputs hold is chosen by the data, so errors are measured in "
        "front of the choice, at %s%s",
        doing, names, s->n_found > NAMES ? ", ..." : "");
    return QG_OK;
}

qg_status qg_measured_find(qg_graph *g, const qg_feed *feed, const char *doing,
                           qg_arena *a, qg_measured *out)
{
    qg_tensor *type;
    const qg_tensor **known;
    *out = (qg_measured){ .graph = g, .at = g->output.at, .n = g->output.n };
    QG_TRY(qg_infer_values(g->ctx, g, feed ? feed->shape : NULL, a, &type, &known));
    bool floats = false;
    for (size_t i = 0; i < g->output.n; i++) {
        const qg_tensor *t = &type[g->output.at[i]->id];
        if (is_measurable(t))
            return QG_OK;
        floats |= t->dtype == QG_F32;
    }
    search s = { .graph = g, .type = type, .known = known };
    QG_TRY(walk(&s, a));
    if (s.n_found == 0)
        return nothing(g->ctx, doing ? doing : "measure", floats);
    out->at = s.found;
    out->n = s.n_found;
    out->instead = true;
    return doing ? warn(&s, doing, a) : QG_OK;
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
                           "%s: value '%.100s', where errors are measured: a pass has "
                           "removed it, expected it in every variant",
                           doing, of->at[i]->name);
    }
    out->instead = true;
    return QG_OK;
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
