/* graph.c -- building graphs.  Whatever may fail for lack of memory happens before
 * the first link is made, or is undone: a failed addition leaves no trace but unused
 * bytes in the arena. */
#include "engine/ir/graph.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"

/* The parts of a zeroed graph; on failure qg_graph_free or the root frees the parts
 * made. */
static qg_status fill(qg_graph *g, qg_ctx *ctx, const char *name)
{
    g->ctx = ctx;
    g->name = qg_intern(ctx, name ? name : "");
    g->value_names = qg_names_new(ctx->alloc);
    g->node_names = qg_names_new(ctx->alloc);
    return g->name && g->value_names && g->node_names ? QG_OK : qg_nomem(ctx);
}

qg_status qg_graph_new(qg_ctx *ctx, const char *name, qg_graph **out)
{
    qg_arena *arena = qg_arena_new(ctx->alloc);
    qg_graph *g = arena ? QG_NEW(arena, qg_graph) : NULL;
    if (!g) {
        qg_arena_free(arena);
        return qg_nomem(ctx);
    }
    g->arena = arena;
    qg_status s = fill(g, ctx, name);
    if (s == QG_OK)
        *out = g;
    else
        qg_graph_free(g);
    return s;
}

/* Every body hangs in the list of the outermost graph, whoever owns it, because its
 * name tables lie outside of the arena. */
qg_status qg_graph_new_body(qg_graph *outer, const char *name, qg_graph **out)
{
    assert(outer->arena);
    qg_graph *g = QG_NEW(outer->arena, qg_graph), *root = outer;
    if (!g)
        return qg_nomem(outer->ctx);
    while (root->outer)
        root = root->outer;
    g->arena = outer->arena;
    g->outer = outer;
    g->next_body = root->bodies;
    root->bodies = g; /* from here on freed with the root, complete or not */
    QG_TRY(fill(g, outer->ctx, name));
    *out = g;
    return QG_OK;
}

/* The memory of a graph or body outside the arena. */
static void drop_parts(qg_graph *g)
{
    qg_names_free(g->value_names);
    qg_names_free(g->node_names);
    if (g->inferred)
        qg_arena_free(g->inferred->arena);
}

void qg_graph_free(qg_graph *g)
{
    if (!g)
        return;
    assert(!g->outer); /* bodies go with their outer graph */
    for (qg_graph *body = g->bodies; body; body = body->next_body)
        drop_parts(body);
    for (struct qg_graph_file *f = g->files; f; f = f->next)
        qg_file_close(f->file);
    drop_parts(g);
    qg_arena_free(g->arena);
}

void qg_graph_release(const qg_graph *g, const qg_tensor *constant)
{
    const unsigned char *data = constant->data;
    size_t bytes;
    while (g->outer)
        g = g->outer;
    if (!g->files ||
        !qg_dtype_bytes(constant->dtype, (uint64_t)qg_tensor_count(constant), &bytes))
        return;
    for (const struct qg_graph_file *f = g->files; f; f = f->next) {
        const qg_file *file = f->file;
        if (data >= file->bytes && data < file->bytes + file->size &&
            bytes <= (size_t)(file->bytes + file->size - data))
            qg_file_release(file, (size_t)(data - file->bytes), bytes);
    }
}

qg_value *qg_graph_value(const qg_graph *g, const char *name)
{
    uint32_t id = qg_names_find(g->value_names, name, strlen(name));
    return id == QG_NONE ? NULL : g->value_by_name.at[id];
}

qg_node *qg_graph_node(const qg_graph *g, const char *name)
{
    uint32_t id = qg_names_find(g->node_names, name, strlen(name));
    return id == QG_NONE ? NULL : g->node_by_name.at[id];
}

bool qg_graph_inputs_are_known(const qg_graph *g)
{
    for (size_t i = 0; i < g->input.n; i++)
        if (!qg_tensor_known(&g->input.at[i]->type))
            return false;
    return true;
}

/* A body has the imports of its outermost graph. */
int64_t qg_graph_opset(const qg_graph *g, const char *domain)
{
    static const char *const plain = "ai.onnx";
    while (g->outer)
        g = g->outer;
    for (size_t i = 0; i < g->opset.n; i++) {
        const char *have = g->opset.at[i].domain;
        if (strcmp(*have ? have : plain, domain && *domain ? domain : plain) == 0)
            return g->opset.at[i].version;
    }
    return 0;
}

/* Interns `name`, or prefix_<k> with the first free k when it is NULL or empty. */
static qg_status pick_name(qg_graph *g, const qg_names *taken, const char *name,
                           const char *prefix, const char **out)
{
    char text[128];
    if (!name || !*name) {
        do
            (void)snprintf(text, sizeof text, "%.100s_%u", prefix, g->next_name++);
        while (qg_names_find(taken, text, strlen(text)) != QG_NONE);
        name = text;
    }
    *out = qg_intern(g->ctx, name);
    return *out ? QG_OK : qg_nomem(g->ctx);
}

/* The id of a name in a table of value or node names. */
static qg_status enter(qg_graph *g, qg_names *names, const char *name, uint32_t *id)
{
    return qg_names_add(names, name, strlen(name), id) == QG_OK ? QG_OK
                                                                : qg_nomem(g->ctx);
}

static qg_status taken(qg_graph *g, const char *what, const char *name)
{
    return qg_fail(g->ctx, QG_EMODEL, "graph '%s': %s '%s' exists, expected a new name",
                   g->name, what, name);
}

/* Where the value of an entered name is stored. */
static qg_value **value_place(qg_graph *g, const char *name)
{
    uint32_t id = qg_names_find(g->value_names, name, strlen(name));
    assert(id != QG_NONE);
    return &g->value_by_name.at[id];
}

/* A name that was freed keeps its id in the table with a NULL place, to be taken
 * again. */
qg_status qg_value_set_name(qg_graph *g, qg_value *v, const char *name)
{
    uint32_t id;
    const char *old = v->name;
    assert(*name);
    QG_TRY(qg_vec_reserve(g->ctx, g->arena, &g->value_by_name));
    QG_TRY(enter(g, g->value_names, name, &id));
    if (id == g->value_by_name.n)
        g->value_by_name.at[g->value_by_name.n++] = NULL;
    if (g->value_by_name.at[id])
        return taken(g, "value", name);
    g->value_by_name.at[id] = v;
    v->name = name;
    if (old)
        *value_place(g, old) = NULL;
    return QG_OK;
}

void qg_value_swap_names(qg_graph *g, qg_value *a, qg_value *b)
{
    const char *name = a->name;
    assert(a != b && *value_place(g, a->name) == a && *value_place(g, b->name) == b);
    a->name = b->name;
    b->name = name;
    *value_place(g, a->name) = a;
    *value_place(g, b->name) = b;
}

static qg_node **node_place(const qg_graph *g, const char *name)
{
    uint32_t id = qg_names_find(g->node_names, name, strlen(name));
    assert(id != QG_NONE);
    return &g->node_by_name.at[id];
}

void qg_node_swap_names(qg_graph *g, qg_node *a, qg_node *b)
{
    const char *name = a->name;
    assert(a != b && *node_place(g, a->name) == a && *node_place(g, b->name) == b);
    a->name = b->name;
    b->name = name;
    *node_place(g, a->name) = a;
    *node_place(g, b->name) = b;
}

void qg_value_free_name(qg_graph *g, const qg_value *v)
{
    assert(*value_place(g, v->name) == v);
    *value_place(g, v->name) = NULL;
}

void qg_node_free_name(qg_graph *g, const qg_node *n)
{
    assert(*node_place(g, n->name) == n);
    *node_place(g, n->name) = NULL;
}

static qg_status name_node(qg_graph *g, qg_node *n)
{
    uint32_t id;
    QG_TRY(qg_vec_reserve(g->ctx, g->arena, &g->node_by_name));
    QG_TRY(enter(g, g->node_names, n->name, &id));
    if (id == g->node_by_name.n)
        g->node_by_name.at[g->node_by_name.n++] = NULL;
    if (g->node_by_name.at[id])
        return taken(g, "node", n->name);
    g->node_by_name.at[id] = n;
    return QG_OK;
}

/* `name`, or a made-up one from `prefix` when it is NULL or empty. */
static qg_status add_value(qg_graph *g, const char *name, const char *prefix,
                           qg_value **out)
{
    qg_value *v = QG_NEW(g->arena, qg_value);
    if (!v)
        return qg_nomem(g->ctx);
    QG_TRY(pick_name(g, g->value_names, name, prefix, &name));
    QG_TRY(qg_vec_reserve(g->ctx, g->arena, &g->value));
    QG_TRY(qg_value_set_name(g, v, name));
    v->id = (uint32_t)g->value.n;
    qg_tensor_unknown(&v->type, QG_NODTYPE);
    g->value.at[g->value.n++] = v;
    *out = v;
    return QG_OK;
}

qg_status qg_graph_add_value(qg_graph *g, const char *name, qg_value **out)
{
    return add_value(g, name, "value", out);
}

qg_status qg_graph_add_prefixed(qg_graph *g, const char *prefix, qg_value **out)
{
    return add_value(g, NULL, prefix, out);
}

qg_status qg_graph_need_value(qg_graph *g, const char *name, qg_value **out)
{
    qg_value *v = qg_graph_value(g, name);
    if (!v)
        return qg_graph_add_value(g, name, out);
    *out = v;
    return QG_OK;
}

/* 255 stands for any number, see qg_op. */
static qg_status check_count(qg_ctx *ctx, const qg_node *n, const char *what,
                             uint32_t have, unsigned low, unsigned high)
{
    if (have >= low && (high == 255 || have <= high))
        return QG_OK;
    char most[16] = "any number";
    if (high != 255)
        (void)snprintf(most, sizeof most, "%u", high);
    return qg_node_fail(ctx, QG_EMODEL, "graph", n, "%u %s, expected %u to %s", have,
                        what, low, most);
}

qg_status qg_node_check_arity(qg_ctx *ctx, const qg_node *n)
{
    assert(n->op && n->n_capture <= n->n_in);
    const qg_op *op = n->op;
    QG_TRY(
        check_count(ctx, n, "inputs", n->n_in - n->n_capture, op->min_in, op->max_in));
    QG_TRY(check_count(ctx, n, "outputs", n->n_out, op->min_out, op->max_out));
    for (uint32_t i = 0; i < op->min_in && !(op->traits & QG_OP_CONTROL); i++)
        if (!n->in[i])
            return qg_node_fail(ctx, QG_EMODEL, "graph", n,
                                "input %u is absent, expected a value", i);
    for (uint32_t i = 0; i < op->min_out; i++)
        if (!n->out[i])
            return qg_node_fail(ctx, QG_EMODEL, "graph", n,
                                "output %u is absent, expected a value", i);
    return QG_OK;
}

/* Copies the description of a node; links nothing. */
static qg_status make_node(qg_graph *g, const qg_node_spec *spec, qg_node *n)
{
    *n = (qg_node){ .id = (uint32_t)g->node.n,
                    .op = spec->op,
                    .opset = spec->opset,
                    .n_in = spec->n_in,
                    .n_out = spec->n_out,
                    .attr = spec->attr,
                    .n_attr = spec->n_attr,
                    .capture = spec->capture,
                    .n_capture = spec->n_capture };
    QG_TRY(pick_name(g, g->node_names, spec->name, spec->op->name, &n->name));
    n->in = QG_NEWN(g->arena, spec->n_in, qg_value *);
    n->out = QG_NEWN(g->arena, spec->n_out, qg_value *);
    if (!n->in || !n->out)
        return qg_nomem(g->ctx);
    if (spec->n_in)
        memcpy(n->in, spec->in, spec->n_in * sizeof *n->in);
    if (spec->n_out)
        memcpy(n->out, spec->out, spec->n_out * sizeof *n->out);
    return qg_node_check_arity(g->ctx, n);
}

/* From here on a body refers to the node that runs it. */
static void adopt_bodies(qg_node *n)
{
    for (size_t i = 0; i < n->n_attr; i++)
        if (n->attr[i].type == QG_ATTR_GRAPH || n->attr[i].type == QG_ATTR_GRAPHS)
            for (size_t k = 0; k < n->attr[i].count; k++) {
                assert(n->attr[i].graphs[k]->outer); /* made by qg_graph_new_body */
                n->attr[i].graphs[k]->owner = n;
            }
}

qg_status qg_node_prepare(qg_graph *g, qg_node *n)
{
    assert(n->op && !n->dead);
    void *param = NULL;
    if (n->op->param_size && !(param = qg_arena_get(g->arena, 1, n->op->param_size)))
        return qg_nomem(g->ctx);
    if (n->op->prepare)
        QG_TRY(n->op->prepare(g->ctx, n, param));
    n->param = param;
    return QG_OK;
}

static void unlink_outputs(qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->def == n)
            n->out[i]->def = NULL;
}

/* All or none: when one output is taken, those linked so far are released. */
static qg_status link_outputs(qg_graph *g, qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        qg_value *v = n->out[i];
        if (!v)
            continue;
        assert(qg_value_is_in(g, v));
        if (v->def || v->is_input || v->constant) {
            qg_status s = qg_node_fail(g->ctx, QG_EMODEL, "graph", n,
                                       "output '%s' is %s already, expected a value "
                                       "without producer",
                                       v->name,
                                       v->is_input   ? "a graph input"
                                       : v->constant ? "a constant"
                                                     : "produced");
            unlink_outputs(n);
            return s;
        }
        v->def = n;
        v->def_slot = i;
    }
    return QG_OK;
}

/* Reserves in a first round, so that the second cannot fail half way. */
static qg_status link_inputs(qg_graph *g, qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        assert(!n->in[i] || qg_value_is_in(g, n->in[i]));
        if (n->in[i])
            QG_TRY(qg_vec_reserve(g->ctx, g->arena, &n->in[i]->use));
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i])
            QG_TRY(qg_vec_push(g->ctx, g->arena, &n->in[i]->use,
                               (qg_use){ .node = n, .slot = i }));
    return QG_OK;
}

static void unlink_inputs(qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        while (n->in[i] && n->in[i]->use.n && /* ours are the last inputs */
               n->in[i]->use.at[n->in[i]->use.n - 1].node == n)
            n->in[i]->use.n--;
}

/* Enters a complete node into the graph; undoes what it did when it fails. */
static qg_status link_node(qg_graph *g, qg_node *n)
{
    QG_TRY(qg_vec_reserve(g->ctx, g->arena, &g->node));
    QG_TRY(link_outputs(g, n));
    qg_status s = link_inputs(g, n);
    if (s == QG_OK)
        s = name_node(g, n);
    if (s != QG_OK) {
        unlink_inputs(n);
        unlink_outputs(n);
        return s;
    }
    g->node.at[g->node.n++] = n;
    return QG_OK;
}

static qg_status add_node(qg_graph *g, const qg_node_spec *spec, bool prepare,
                          qg_node **out)
{
    assert(spec->op && spec->n_capture <= spec->n_in);
    qg_node *n = QG_NEW(g->arena, qg_node);
    if (!n)
        return qg_nomem(g->ctx);
    QG_TRY(make_node(g, spec, n));
    adopt_bodies(n);
    if (prepare)
        QG_TRY(qg_node_prepare(g, n));
    QG_TRY(link_node(g, n));
    *out = n;
    return QG_OK;
}

qg_status qg_graph_add_node(qg_graph *g, const qg_node_spec *spec, qg_node **out)
{
    return add_node(g, spec, true, out);
}

qg_status qg_graph_link_node(qg_graph *g, const qg_node_spec *spec, qg_node **out)
{
    return add_node(g, spec, false, out);
}

qg_status qg_graph_mark_input(qg_graph *g, qg_value *v)
{
    assert(qg_value_is_in(g, v));
    if (v->is_input || v->def || v->constant)
        return qg_fail(g->ctx, QG_EMODEL,
                       "graph '%s': input '%s' is %s already, expected a new value",
                       g->name, v->name, v->is_input ? "an input" : "computed");
    QG_TRY(qg_vec_push(g->ctx, g->arena, &g->input, v));
    v->is_input = true;
    return QG_OK;
}

qg_status qg_graph_mark_output(qg_graph *g, qg_value *v)
{
    assert(qg_value_is_in(g, v));
    if (v->is_output)
        return qg_fail(g->ctx, QG_EMODEL,
                       "graph '%s': output '%s' is listed twice, expected once",
                       g->name, v->name);
    QG_TRY(qg_vec_push(g->ctx, g->arena, &g->output, v));
    v->is_output = true;
    return QG_OK;
}

const char *qg_node_text(const qg_node *n, char text[QG_NODE_TEXT])
{
    (void)snprintf(text, QG_NODE_TEXT, "node '%.1000s' (%.40s)", n->name, n->op->name);
    return text;
}

qg_status qg_node_fail(qg_ctx *ctx, qg_status s, const char *doing, const qg_node *n,
                       const char *fmt, ...)
{
    char text[QG_NODE_TEXT], message[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return qg_fail(ctx, s, "%s: %s: %s", doing, qg_node_text(n, text), message);
}

qg_status qg_node_memory(qg_ctx *ctx, qg_status s, const char *doing, const qg_node *n)
{
    if (!qg_memory_unplaced(ctx, s))
        return s;
    return qg_node_fail(ctx, s, doing, n, "%s", qg_ctx_message(ctx));
}

const char *qg_platform_name(enum qg_platform p)
{
    static const char *const name[] = { "none", "quantized", "fp32", "soi" };
    assert((size_t)p < sizeof name / sizeof name[0]);
    return name[p];
}

qg_status qg_graph_learned(const qg_graph *g, const qg_value *u, qg_arena *a,
                           const qg_value **learned)
{
    const size_t tail = sizeof QG_UNTUNED - 1, n = strlen(u->name);
    *learned = NULL;
    if (!u->constant || qg_value_watchers(u) || !qg_path_ends_in(u->name, QG_UNTUNED))
        return QG_OK;
    const char *name = qg_arena_strndup(a, u->name, n - tail);
    if (!name)
        return qg_nomem(g->ctx);
    const qg_value *v = qg_graph_value(g, name);
    if (v && v->constant && v->constant->dtype == u->constant->dtype &&
        qg_same_dims(v->constant, u->constant))
        *learned = v;
    return QG_OK;
}

qg_status qg_graph_untuned(const qg_graph *g, qg_arena *a, const qg_tensor **known)
{
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v;
        QG_TRY(qg_graph_learned(g, g->value.at[i], a, &v));
        if (v)
            known[v->id] = g->value.at[i]->constant;
    }
    return QG_OK;
}

bool qg_node_clamps(const qg_node *n, float *low, float *high)
{
    const qg_tensor *constant[3] = { NULL };
    if (!n->op->clamp || n->n_in > 3)
        return false;
    for (uint32_t k = 0; k < n->n_in; k++)
        constant[k] = n->in[k] ? n->in[k]->constant : NULL;
    return n->op->clamp(n, constant, low, high);
}
