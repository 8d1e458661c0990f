#include <assert.h>
#include <string.h>

#include "engine/ir/graph.h"

/* A graph and its copy.  Bodies are copied after the graph that owns them, so the list
 * of pairs is a worklist: no recursion over nesting. */
typedef struct pair {
    const qg_graph *from;
    qg_graph *to;
} pair;

typedef struct cloner {
    qg_ctx *ctx;
    qg_arena *arena, *scratch; /* of the new graph; of the worklist */
    bool shares;               /* constants are borrowed, not copied */
    QG_VEC(pair) pairs;
} cloner;

static qg_status copy_declared(cloner *c, const qg_value *v, qg_value *copy)
{
    qg_tensor *t = QG_NEW(c->arena, qg_tensor);
    if (!t)
        return qg_nomem(c->ctx);
    *t = *v->declared;
    copy->declared = t;
    return QG_OK;
}

/* Values are added in order of id to an empty graph, so every copy gets the same id. */
static qg_status clone_values(cloner *c, const qg_graph *from, qg_graph *to)
{
    for (size_t i = 0; i < from->value.n; i++) {
        const qg_value *v = from->value.at[i];
        qg_value *copy = NULL;
        qg_tensor *t = NULL;
        QG_TRY(qg_graph_add_value(to, v->name, &copy));
        copy->type = v->type;
        memcpy(copy->dim_name, v->dim_name, sizeof v->dim_name);
        copy->file_dtype = v->file_dtype;
        copy->open = v->open;
        if (v->declared)
            QG_TRY(copy_declared(c, v, copy));
        if (v->constant && !c->shares)
            QG_TRY(qg_tensor_clone(c->ctx, c->arena, v->constant, &t));
        copy->constant = c->shares ? v->constant : t;
        assert(copy->id == v->id);
    }
    for (size_t i = 0; i < from->input.n; i++)
        QG_TRY(qg_graph_mark_input(to, to->value.at[from->input.at[i]->id]));
    for (size_t i = 0; i < from->output.n; i++)
        QG_TRY(qg_graph_mark_output(to, to->value.at[from->output.at[i]->id]));
    return QG_OK;
}

/* Makes the empty copies and queues them: their nodes follow when the worklist gets
 * there. */
static qg_status clone_bodies(cloner *c, qg_graph *to, qg_attr *a)
{
    qg_graph **copy = QG_NEWN(c->arena, a->count, qg_graph *);
    if (!copy)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i < a->count; i++) {
        QG_TRY(qg_graph_new_body(to, a->graphs[i]->name, &copy[i]));
        QG_TRY(qg_vec_push(c->ctx, c->scratch, &c->pairs,
                           (pair){ .from = a->graphs[i], .to = copy[i] }));
    }
    a->graphs = copy;
    return QG_OK;
}

static qg_status clone_strings(cloner *c, qg_attr *a)
{
    const char **copy = QG_NEWN(c->arena, a->count, const char *);
    for (size_t i = 0; copy && i < a->count; i++)
        if (!(copy[i] = qg_arena_strdup(c->arena, a->strings[i])))
            return qg_nomem(c->ctx);
    a->strings = copy;
    return copy ? QG_OK : qg_nomem(c->ctx);
}

/* *a is already a flat copy; the data it points to are copied here, so that no part of
 * the clone is in the arena of the original. */
static qg_status clone_attr(cloner *c, qg_graph *to, qg_attr *a)
{
    static const size_t size[QG_NATTR] = { [QG_ATTR_FLOAT] = sizeof(float),
                                           [QG_ATTR_FLOATS] = sizeof(float),
                                           [QG_ATTR_INT] = sizeof(int64_t),
                                           [QG_ATTR_INTS] = sizeof(int64_t) };
    if (a->type == QG_ATTR_GRAPH || a->type == QG_ATTR_GRAPHS)
        return clone_bodies(c, to, a);
    if (a->type == QG_ATTR_STRING || a->type == QG_ATTR_STRINGS)
        return clone_strings(c, a);
    if (a->type == QG_ATTR_TENSOR) {
        qg_tensor *t = NULL;
        QG_TRY(qg_tensor_clone(c->ctx, c->arena, a->tensor, &t));
        a->tensor = t;
        return QG_OK;
    }
    void *copy = qg_arena_raw(c->arena, a->count, size[a->type]);
    if (!copy)
        return qg_nomem(c->ctx);
    if (a->count)
        memcpy(copy, a->ints, a->count * size[a->type]);
    a->ints = copy;
    return QG_OK;
}

/* Values of the copy by the ids of the original. */
static qg_status clone_slots(cloner *c, const qg_graph *to, qg_value *const *from,
                             uint32_t n, qg_value ***out)
{
    qg_value **copy = QG_NEWN(c->arena, n, qg_value *);
    if (!copy)
        return qg_nomem(c->ctx);
    assert(!n || from);
    for (uint32_t i = 0; i < n; i++)
        copy[i] = from[i] ? to->value.at[from[i]->id] : NULL;
    *out = copy;
    return QG_OK;
}

/* Linked, not prepared: its bodies are still empty. */
static qg_status clone_linked(cloner *c, qg_graph *to, const qg_node *n,
                              qg_value *const *in, qg_value *const *out, qg_node **made)
{
    qg_attr *attr = QG_NEWN(c->arena, n->n_attr, qg_attr);
    qg_node *copy = NULL;
    if (!attr)
        return qg_nomem(c->ctx);
    for (size_t i = 0; i < n->n_attr; i++) {
        attr[i] = n->attr[i];
        QG_TRY(clone_attr(c, to, &attr[i]));
    }
    const char **capture = QG_NEWN(c->arena, n->n_capture, const char *);
    if (!capture)
        return qg_nomem(c->ctx);
    if (n->n_capture)
        memcpy(capture, n->capture, n->n_capture * sizeof *capture);
    qg_node_spec spec = { .name = n->name,
                          .op = n->op,
                          .opset = n->opset,
                          .in = in,
                          .out = out,
                          .n_in = n->n_in,
                          .n_out = n->n_out,
                          .attr = attr,
                          .n_attr = n->n_attr,
                          .capture = capture,
                          .n_capture = n->n_capture };
    QG_TRY(qg_graph_link_node(to, &spec, &copy));
    copy->file_unnamed = n->file_unnamed;
    copy->platform = n->platform;
    copy->stays_float32 = n->stays_float32;
    copy->reason = n->reason ? qg_arena_strdup(c->arena, n->reason) : NULL;
    *made = copy;
    return n->reason && !copy->reason ? qg_nomem(c->ctx) : QG_OK;
}

static qg_status clone_node(cloner *c, qg_graph *to, const qg_node *n)
{
    qg_value **in, **out;
    qg_node *copy;
    QG_TRY(clone_slots(c, to, n->in, n->n_in, &in));
    QG_TRY(clone_slots(c, to, n->out, n->n_out, &out));
    return clone_linked(c, to, n, in, out, &copy);
}

/* One graph or body.  The counter of generated names is copied: nodes added to either
 * afterwards get the same names. */
static qg_status clone_pair(cloner *c, const qg_graph *from, qg_graph *to)
{
    to->ir_version = from->ir_version;
    to->next_name = from->next_name;
    to->float_type = from->float_type;
    QG_TRY(clone_values(c, from, to));
    for (size_t i = 0; i < from->opset.n; i++) {
        qg_opset_import o = from->opset.at[i];
        if (!(o.domain = qg_arena_strdup(c->arena, o.domain)))
            return qg_nomem(c->ctx);
        QG_TRY(qg_vec_push(c->ctx, c->arena, &to->opset, o));
    }
    for (size_t i = 0; i < from->node.n; i++) {
        assert(!from->node.at[i]->dead); /* normalized */
        QG_TRY(clone_node(c, to, from->node.at[i]));
    }
    return QG_OK;
}

/* The graphs on the worklist, and their bodies. */
static qg_status clone_pairs(cloner *c)
{
    for (size_t i = 0; i < c->pairs.n; i++)
        QG_TRY(clone_pair(c, c->pairs.at[i].from, c->pairs.at[i].to));
    /* Inner bodies first: an operator may read its bodies while preparing. */
    for (size_t i = c->pairs.n; i-- > 0;) {
        qg_graph *to = c->pairs.at[i].to;
        for (size_t k = 0; k < to->node.n; k++)
            QG_TRY(qg_node_prepare(to, to->node.at[k]));
    }
    return QG_OK;
}

static qg_status clone(const qg_graph *g, bool shares, qg_graph **out)
{
    assert(!g->outer);
    qg_graph *copy = NULL;
    QG_TRY(qg_graph_new(g->ctx, g->name, &copy));
    cloner c = { .ctx = g->ctx,
                 .arena = copy->arena,
                 .scratch = qg_arena_new(g->ctx->alloc),
                 .shares = shares };
    qg_status s = c.scratch ? qg_vec_push(c.ctx, c.scratch, &c.pairs, (pair){ g, copy })
                            : qg_nomem(g->ctx);
    if (s == QG_OK)
        s = clone_pairs(&c);
    qg_arena_free(c.scratch);
    if (s == QG_OK)
        *out = copy;
    else
        qg_graph_free(copy);
    return s;
}

qg_status qg_graph_clone(const qg_graph *g, qg_graph **out)
{
    return clone(g, false, out);
}

qg_status qg_graph_share(const qg_graph *g, qg_graph **out)
{
    return clone(g, true, out);
}

qg_status qg_graph_copy_node(qg_graph *to, const qg_node *n, qg_value *const *in,
                             qg_value *const *out)
{
    cloner c = { .ctx = to->ctx,
                 .arena = to->arena,
                 .scratch = qg_arena_new(to->ctx->alloc) };
    qg_node *copy = NULL;
    qg_status s =
        c.scratch ? clone_linked(&c, to, n, in, out, &copy) : qg_nomem(to->ctx);
    if (s == QG_OK)
        s = clone_pairs(&c);
    qg_arena_free(c.scratch);
    return s == QG_OK ? qg_node_prepare(to, copy) : s;
}
