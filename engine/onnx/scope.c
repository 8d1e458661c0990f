#include "engine/onnx/scope.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/opaque.h"
#include "engine/onnx/attributes.h"

/* Beyond these a file may mean something that nobody here has read about. */
enum {
    QG_ONNX_IR_MIN = 3,  /* 2017-11: the first with opset_import */
    QG_ONNX_IR_MAX = 14, /* of the onnx.proto that this was written for */
};

static bool empty(const char *s) { return !s || !*s; }

const char *qg_onnx_domain(const char *domain)
{
    return empty(domain) || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

qg_status qg_onnx_ir_version(qg_onnx_build *b, const char *what, int64_t version)
{
    if (version < QG_ONNX_IR_MIN || version > QG_ONNX_IR_MAX)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: %s: IR version %lld, supported are %d to %d", what,
                       (long long)version, QG_ONNX_IR_MIN, QG_ONNX_IR_MAX);
    b->root->ir_version = version;
    return QG_OK;
}

qg_status qg_onnx_opset(qg_onnx_build *b, const char *what, const char *domain,
                        int64_t version, qg_opset_import *out)
{
    const char *name = qg_intern(b->ctx, qg_onnx_domain(domain));
    if (!name)
        return qg_nomem(b->ctx);
    if (version < 1)
        return qg_fail(b->ctx, QG_EMODEL,
                       "%s: %s: opset %lld of '%.100s', expected at least 1", b->doing,
                       what, (long long)version, *name ? name : "ai.onnx");
    if (!*name && version > QG_ONNX_OPSET_MAX)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "%s: %s: opset %lld of 'ai.onnx', supported are 1 to %d",
                       b->doing, what, (long long)version, QG_ONNX_OPSET_MAX);
    *out = (qg_opset_import){ name, version };
    return QG_OK;
}

qg_status qg_onnx_import_opset(qg_onnx_build *b, const char *what, const char *domain,
                               int64_t version)
{
    qg_opset_import made;
    QG_TRY(qg_onnx_opset(b, what, domain, version, &made));
    int64_t have = qg_graph_opset(b->root, made.domain);
    if (have == version)
        return QG_OK;
    if (have)
        return qg_fail(b->ctx, QG_EMODEL,
                       "%s: %s: '%.100s' is imported as opset %lld and %lld", b->doing,
                       what, *made.domain ? made.domain : "ai.onnx", (long long)have,
                       (long long)version);
    return qg_vec_push(b->ctx, b->root->arena, &b->root->opset, made);
}

qg_status qg_onnx_build_begin(qg_onnx_build *b)
{
    b->doing = "import";
    QG_TRY(qg_graph_new(b->ctx, NULL, &b->root));
    b->files.graph = b->root;
    b->scratch = qg_arena_new(b->ctx->alloc);
    b->taken = qg_names_new(b->ctx->alloc);
    b->files.paths = qg_names_new(b->ctx->alloc);
    b->function_names = qg_names_new(b->ctx->alloc);
    return b->scratch && b->taken && b->files.paths && b->function_names
               ? QG_OK
               : qg_nomem(b->ctx);
}

qg_status qg_onnx_build_end(qg_onnx_build *b, qg_status s, qg_graph **out)
{
    qg_names_free(b->function_names);
    qg_names_free(b->files.paths);
    qg_names_free(b->taken);
    qg_arena_free(b->scratch);
    if (s == QG_OK)
        *out = b->root;
    else
        qg_graph_free(b->root);
    return s;
}

qg_status qg_onnx_draft_fail(const qg_onnx_draft *d, qg_status status, const char *fmt,
                             ...)
{
    char message[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return qg_fail(d->scope->build->ctx, status, "%s: node '%.1000s' (%.40s): %s",
                   d->scope->build->doing, d->name, d->op, message);
}

/* ---- Names ---- */

qg_status qg_onnx_name_node(qg_onnx_draft *d, const char *given)
{
    qg_onnx_scope *s = d->scope;
    qg_onnx_build *b = s->build;
    const char *wanted =
        empty(given)
            ? qg_arena_printf(b->scratch, "%s%.100s_%u", s->prefix, d->op, s->unnamed++)
            : qg_arena_printf(b->scratch, "%s%s", s->prefix, given);
    const char *name = wanted;
    while (name && qg_graph_node(s->g, name))
        name = qg_arena_printf(b->scratch, "%s_%zu", wanted, ++b->suffix);
    if (!name)
        return qg_nomem(b->ctx);
    if (name != wanted && !empty(given))
        qg_warn(b->ctx, "import: node name '%s' is in use, renamed to '%s'", wanted,
                name);
    d->name = name;
    d->file_unnamed = empty(given) && !s->function ? s->unnamed : 0;
    return QG_OK;
}

/* A value for `name` of a function, called so that no name of the file means it. */
static qg_status add_inner(qg_onnx_scope *s, const char *name, qg_value **out)
{
    qg_onnx_build *b = s->build;
    const char *full = qg_arena_printf(b->scratch, "%s%s", s->prefix, name);
    while (full && (qg_graph_value(s->g, full) ||
                    qg_names_find(b->taken, full, strlen(full)) != QG_NONE))
        full = qg_arena_printf(b->scratch, "%s%s_%zu", s->prefix, name, ++b->suffix);
    return full ? qg_graph_add_value(s->g, full, out) : qg_nomem(b->ctx);
}

qg_status qg_onnx_value(qg_onnx_scope *s, const char *name, qg_value **out)
{
    qg_ctx *ctx = s->build->ctx;
    uint32_t id;
    if (empty(name)) {
        *out = NULL;
        return QG_OK;
    }
    if (!s->names)
        return qg_graph_need_value(s->g, name, out);
    if (qg_names_add(s->names, name, strlen(name), &id) != QG_OK)
        return qg_nomem(ctx);
    if (id == s->value.n) {
        qg_value *made;
        QG_TRY(add_inner(s, name, &made));
        QG_TRY(qg_vec_push(ctx, s->build->scratch, &s->value, made));
    }
    assert(id < s->value.n);
    *out = s->value.at[id];
    return QG_OK;
}

qg_status qg_onnx_bind(qg_onnx_scope *s, const char *name, qg_value *value)
{
    qg_ctx *ctx = s->build->ctx;
    uint32_t id;
    assert(s->names);
    if (empty(name))
        return qg_fail(
            ctx, QG_EMODEL,
            "import: function call '%.1000s' binds an input or output without "
            "a name",
            s->prefix);
    if (qg_names_add(s->names, name, strlen(name), &id) != QG_OK)
        return qg_nomem(ctx);
    if (id != s->value.n)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "import: function call '%.1000s': '%.1000s' is listed twice among "
            "the inputs and outputs of the function, expected once",
            s->prefix, name);
    return qg_vec_push(ctx, s->build->scratch, &s->value, value);
}

/* ---- Constants ---- */

qg_status qg_onnx_constant(qg_onnx_build *b, const char *what, qg_value *v,
                           const qg_tensor *t)
{
    if (!v) /* an output of a function that the call leaves out */
        return QG_OK;
    if (v->def)
        return qg_fail(b->ctx, QG_EMODEL,
                       "%s: %s: tensor '%.1000s' is produced twice, also by node "
                       "'%.1000s'",
                       b->doing, what, v->name, v->def->name);
    if (v->constant || v->is_input)
        return qg_fail(b->ctx, QG_EMODEL,
                       "%s: %s: tensor '%.1000s' is %s already, expected a new name",
                       b->doing, what, v->name,
                       v->constant ? "a constant" : "a graph input");
    assert(t->data && qg_tensor_is_plain(t));
    v->constant = t;
    v->type = *t;
    v->type.data = NULL;
    return QG_OK;
}

/* The tensor that an attribute of `Constant` stands for. */
static qg_status constant_of(const qg_onnx_draft *d, const qg_attr *a,
                             const qg_tensor **out)
{
    static const struct {
        const char *name;
        qg_attr_type type;
        qg_dtype dtype;
        int32_t rank;
    } forms[] = {
        {"value",         QG_ATTR_TENSOR, QG_NODTYPE, 0},
        { "value_float",  QG_ATTR_FLOAT,  QG_F32,     0},
        { "value_floats", QG_ATTR_FLOATS, QG_F32,     1},
        { "value_int",    QG_ATTR_INT,    QG_I64,     0},
        { "value_ints",   QG_ATTR_INTS,   QG_I64,     1}
    };
    qg_graph *g = d->scope->g;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].type != a->type || strcmp(forms[i].name, a->name) != 0)
            continue;
        if (a->type == QG_ATTR_TENSOR) {
            *out = a->tensor;
            return QG_OK;
        }
        qg_tensor *t = QG_NEW(g->arena, qg_tensor);
        int64_t dim = (int64_t)a->count;
        if (!t)
            return qg_nomem(g->ctx);
        qg_tensor_init(t, forms[i].dtype, forms[i].rank, &dim);
        t->data = (void *)(uintptr_t)a->ints; /* constants are never written to */
        *out = t;
        return QG_OK;
    }
    return qg_onnx_draft_fail(
        d, QG_EUNSUPPORTED,
        "attribute %.100s (%s), supported are value, value_float, "
        "value_floats, value_int and value_ints",
        a->name, qg_attr_type_name(a->type));
}

/* `Constant` is part of the format rather than an operator: its output is known before
 * anything runs, so it never becomes a node. */
static qg_status add_constant(const qg_onnx_draft *d)
{
    const qg_tensor *t;
    qg_value *v;
    char what[QG_NODE_TEXT];
    if (d->n_in || d->n_out != 1 || empty(d->out[0]) || d->n_attr != 1)
        return qg_onnx_draft_fail(
            d, QG_EMODEL,
            "%zu inputs, %zu outputs, %zu attributes, expected 0, "
            "1 and 1",
            d->n_in, d->n_out, d->n_attr);
    QG_TRY(constant_of(d, d->attr, &t));
    QG_TRY(qg_onnx_value(d->scope, d->out[0], &v));
    (void)snprintf(what, sizeof what, "node '%.1000s' (%.40s)", d->name, d->op);
    return qg_onnx_constant(d->scope->build, what, v, t);
}

/* ---- Nodes ---- */

/* 0: the domain is not imported here. */
static int64_t opset_of(const qg_onnx_scope *s, const char *domain)
{
    for (size_t i = 0; i < s->n_opset; i++)
        if (strcmp(s->opset[i].domain, domain) == 0)
            return s->opset[i].version;
    return 0;
}

/* The row of the registry for this node, or why there is none. */
static qg_status find_op(const qg_onnx_draft *d, const qg_op **op, int64_t *opset)
{
    const qg_registry *r = d->scope->build->ctx->registry;
    char known[QG_OP_VERSIONS];
    const char *dot = *d->domain ? "." : "";
    *opset = opset_of(d->scope, d->domain);
    if (*opset == 0)
        return qg_onnx_draft_fail(d, QG_EMODEL,
                                  "its domain '%.100s' is not among the imported "
                                  "operator sets",
                                  *d->domain ? d->domain : "ai.onnx");
    *op = qg_op_find(r, d->domain, d->op, *opset);
    if (*op)
        return QG_OK;
    if (!qg_domain_is_closed(d->domain))
        return qg_opaque_op(d->scope->build->ctx, d->domain, d->op, *opset, op);
    return qg_fail(
        d->scope->build->ctx, QG_EUNSUPPORTED,
        "%s: node '%.1000s': operator %.100s%s%.100s is not known (opset %lld)%s",
        d->scope->build->doing, d->name, d->domain, dot, d->op, (long long)*opset,
        qg_op_versions(r, d->domain, d->op, known));
}

struct captures {
    qg_names *seen;
    QG_VEC(const char *) name;
};

/* Adds the outer values that a body reads, by their names inside. */
static qg_status add_captures(qg_onnx_build *b, const qg_graph *body,
                              struct captures *list)
{
    for (size_t i = 0; i < body->value.n; i++) {
        const qg_value *v = body->value.at[i];
        uint32_t id;
        if (v->def || v->constant || v->is_input)
            continue;
        if (qg_names_add(list->seen, v->name, strlen(v->name), &id) != QG_OK)
            return qg_nomem(b->ctx);
        if (id == list->name.n)
            QG_TRY(qg_vec_push(b->ctx, b->root->arena, &list->name, v->name));
    }
    return QG_OK;
}

/* The values captured by all bodies of the node, bodies in attribute order, values by
 * id. */
static qg_status find_captures(const qg_onnx_draft *d, qg_node_spec *spec)
{
    struct captures list = { 0 };
    qg_status s = QG_OK;
    for (size_t i = 0; i < d->n_attr && s == QG_OK; i++) {
        const qg_attr *a = &d->attr[i];
        if (a->type != QG_ATTR_GRAPH && a->type != QG_ATTR_GRAPHS)
            continue;
        if (!list.seen && !(list.seen = qg_names_new(d->scope->build->ctx->alloc)))
            return qg_nomem(d->scope->build->ctx);
        for (size_t k = 0; k < a->count && s == QG_OK; k++)
            s = add_captures(d->scope->build, a->graphs[k], &list);
    }
    qg_names_free(list.seen);
    QG_TRY(s);
    spec->capture = list.name.at;
    spec->n_capture = (uint32_t)list.name.n;
    return QG_OK;
}

/* The graph would refuse these too, but cannot name both nodes. */
static qg_status check_outputs(const qg_onnx_draft *d, qg_value *const *out)
{
    for (size_t i = 0; i < d->n_out; i++) {
        const qg_value *v = out[i];
        if (v && v->def)
            return qg_fail(d->scope->build->ctx, QG_EMODEL,
                           "%s: tensor '%.1000s' is produced twice, by nodes '%.1000s' "
                           "and '%.1000s'",
                           d->scope->build->doing, v->name, v->def->name, d->name);
        if (v && (v->constant || v->is_input))
            return qg_onnx_draft_fail(
                d, QG_EMODEL,
                "its output '%.1000s' is %s already, expected a new "
                "name",
                v->name, v->constant ? "a constant" : "a graph input");
    }
    return QG_OK;
}

/* Own inputs first, then captures, as graph.h requires. */
static qg_status find_slots(const qg_onnx_draft *d, qg_node_spec *spec)
{
    qg_onnx_build *b = d->scope->build;
    size_t n_in = d->n_in + spec->n_capture;
    qg_value **in = QG_NEWN(b->scratch, n_in, qg_value *);
    qg_value **out = QG_NEWN(b->scratch, d->n_out, qg_value *);
    if (!in || !out)
        return qg_nomem(b->ctx);
    for (size_t i = 0; i < d->n_in; i++)
        QG_TRY(qg_onnx_value(d->scope, d->in[i], &in[i]));
    for (size_t i = 0; i < spec->n_capture; i++)
        QG_TRY(qg_onnx_value(d->scope, spec->capture[i], &in[d->n_in + i]));
    for (size_t i = 0; i < d->n_out; i++)
        QG_TRY(qg_onnx_value(d->scope, d->out[i], &out[i]));
    QG_TRY(check_outputs(d, out));
    assert(n_in <= UINT32_MAX && d->n_out <= UINT32_MAX);
    spec->in = in;
    spec->out = out;
    spec->n_in = (uint32_t)n_in;
    spec->n_out = (uint32_t)d->n_out;
    return QG_OK;
}

/* Operators of other domains and of a host may have any. */
static qg_status check_attributes(const qg_onnx_draft *d, const qg_node_spec *spec)
{
    const char *known =
        *d->domain || spec->op->host ? NULL : qg_onnx_attributes(d->op, spec->opset);
    for (size_t i = 0; known && i < d->n_attr; i++)
        if (!qg_onnx_attributes_have(known, d->attr[i].name))
            return qg_onnx_draft_fail(
                d, QG_EMODEL,
                "attribute %.100s is not known at opset %lld, expected %s%s",
                d->attr[i].name, (long long)spec->opset, *known ? "one of " : "none",
                known);
    return QG_OK;
}

static qg_status add_node(const qg_onnx_draft *d)
{
    qg_node_spec spec = { .name = d->name, .attr = d->attr, .n_attr = d->n_attr };
    qg_node *node;
    if (d->n_in > UINT32_MAX / 4 || d->n_out > UINT32_MAX / 4)
        return qg_onnx_draft_fail(d, QG_EMODEL, "too many inputs or outputs");
    QG_TRY(find_op(d, &spec.op, &spec.opset));
    QG_TRY(check_attributes(d, &spec));
    QG_TRY(find_captures(d, &spec));
    QG_TRY(find_slots(d, &spec));
    QG_TRY(qg_graph_add_node(d->scope->g, &spec, &node));
    node->file_unnamed = d->file_unnamed;
    return QG_OK;
}

qg_status qg_onnx_add(const qg_onnx_draft *d)
{
    bool constant = !*d->domain && strcmp(d->op, "Constant") == 0;
    return constant ? add_constant(d) : add_node(d);
}

/* ---- The end of a graph ---- */

qg_status qg_onnx_close(const qg_onnx_scope *s)
{
    for (size_t i = 0; i < s->g->value.n && !s->g->outer; i++) {
        const qg_value *v = s->g->value.at[i];
        if (v->def || v->constant || v->is_input || (!v->use.n && !v->is_output))
            continue;
        if (!v->use.n)
            return qg_fail(s->build->ctx, QG_EMODEL,
                           "%s: graph output '%.1000s' is not provided by any node, "
                           "input or initializer",
                           s->build->doing, v->name);
        return qg_node_fail(
            s->build->ctx, QG_EMODEL, s->build->doing, v->use.at[0].node,
            "reads tensor '%.1000s', which no node, input or initializer "
            "provides",
            v->name);
    }
    return qg_graph_normalize(s->g);
}
