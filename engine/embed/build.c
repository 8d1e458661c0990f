/* build.c -- a model from calls: names become values and nodes as in an ONNX file
 * (onnx/scope.h), without the file.
 *
 * A model without a path is in the making: one of qg_model_new before qg_model_finish,
 * or one that a pass works on. */
#include <assert.h>

#include "engine/ir/check.h"
#include "engine/onnx/export.h"
#include "engine/onnx/scope.h"
#include "engine/session/options.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_node_options)

/* One call: the scope of the graph, and how much was there before. */
typedef struct call {
    qg_onnx_build build;
    qg_onnx_scope scope;
    size_t values, opsets;
} call;

static qg_status begin(qg_model *m, const char *what, call *c)
{
    if (m->path)
        return qg_fail(m->ctx, QG_ESTATE,
                       "build: %s: the model is finished, expected a model of "
                       "qg_model_new or of a running pass",
                       what);
    qg_graph *g = m->graph;
    *c = (call){
        .build = {.ctx = m->ctx,
                  .doing = "build",
                  .root = g,
                  .scratch = qg_arena_new(m->ctx->alloc)},
        .values = g->value.n,
        .opsets = g->opset.n
    };
    c->scope = (qg_onnx_scope){ .build = &c->build,
                                .g = g,
                                .prefix = "",
                                .opset = g->opset.at,
                                .n_opset = g->opset.n,
                                .unnamed = g->next_name };
    return c->build.scratch ? QG_OK : qg_nomem(m->ctx);
}

/* A pass cannot change the inputs and outputs of a model. */
static qg_status begin_frame(qg_model *m, const char *what, call *c)
{
    if (m->pass)
        return qg_fail(
            m->ctx, QG_ESTATE,
            "build: %s: a pass is running, expected nodes and constants only", what);
    return begin(m, what, c);
}

/* After a failure values that only the call has named go again. */
static qg_status end(call *c, qg_status s)
{
    qg_graph *g = c->build.root;
    while (s != QG_OK && g->value.n > c->values)
        qg_value_free_name(g, g->value.at[--g->value.n]);
    if (s != QG_OK)
        g->opset.n = c->opsets;
    g->next_name = c->scope.unnamed;
    qg_arena_free(c->build.scratch);
    return s;
}

/* The value that a name stands for, made when it is new. */
static qg_status find_value(call *c, const char *what, const char *name, qg_value **out)
{
    if (!name || !*name)
        return qg_fail(c->build.ctx, QG_EMODEL,
                       "build: %s without a name, expected a name", what);
    return qg_onnx_value(&c->scope, name, out);
}

/* Type and dims that a host made up; `open` allows dims of -1. */
static qg_status check_type(qg_ctx *ctx, const char *what, const qg_tensor *t,
                            bool open)
{
    if ((unsigned)t->dtype >= QG_NDTYPE || t->dtype == QG_NODTYPE)
        return qg_fail(ctx, QG_EMODEL, "build: %.1000s: unknown element type %u", what,
                       (unsigned)t->dtype);
    if (t->rank < 0 || t->rank > QG_MAX_RANK)
        return qg_fail(ctx, QG_EMODEL, "build: %.1000s: rank %d, expected 0 to %d",
                       what, t->rank, QG_MAX_RANK);
    for (int32_t k = 0; k < t->rank; k++)
        if (t->dim[k] < (open ? -1 : 0))
            return qg_fail(ctx, QG_EMODEL,
                           "build: %.1000s: dim %d is %lld, expected %s", what, k,
                           (long long)t->dim[k], open ? "-1 or more" : "0 or more");
    return QG_OK;
}

/* A copy in plain order, or t itself with its data where it is.  Borrowed data must be
 * plain and aligned already. */
static qg_status take_tensor(qg_graph *g, const char *what, const qg_tensor *t,
                             bool borrow, const qg_tensor **out)
{
    qg_tensor *made;
    size_t bytes;
    QG_TRY(check_type(g->ctx, what, t, false));
    QG_TRY(qg_tensor_bytes(g->ctx, what, t, &bytes));
    if (bytes > 0 && !t->data)
        return qg_fail(g->ctx, QG_EMODEL, "build: %.1000s: no data, expected %zu bytes",
                       what, bytes);
    size_t size = qg_dtype_bits(t->dtype) / 8;
    bool aligned = size < 2 || (uintptr_t)t->data % size == 0;
    if (!borrow || !aligned || !qg_tensor_is_plain(t) || bytes == 0) {
        QG_TRY(qg_tensor_clone(g->ctx, g->arena, t, &made));
    } else {
        if (!(made = QG_NEW(g->arena, qg_tensor)))
            return qg_nomem(g->ctx);
        *made = *t;
        qg_tensor_set_plain(made);
    }
    *out = made;
    return QG_OK;
}

/* --- the frame --- */

static qg_status fill_new(qg_model *m, const char *name, int64_t opset)
{
    call c;
    QG_TRY(qg_graph_new(m->ctx, name, &m->graph));
    m->graph->ir_version = QG_ONNX_DEFAULT_IR;
    QG_TRY(begin(m, name, &c));
    return end(&c, qg_onnx_import_opset(&c.build, name, NULL,
                                        opset ? opset : QG_ONNX_OPSET_MAX));
}

qg_status qg_model_new(qg_ctx *ctx, const char *name, int64_t opset, qg_model **out)
{
    qg_model *m = QG_NEW(ctx->arena, qg_model);
    if (!m)
        return qg_nomem(ctx);
    m->ctx = ctx;
    qg_status s = fill_new(m, name ? name : "", opset);
    if (s == QG_OK)
        *out = m;
    else
        qg_model_close(m);
    return s;
}

qg_status qg_model_import_opset(qg_model *m, const char *domain, int64_t version)
{
    call c;
    QG_TRY(begin(m, "opset", &c));
    return end(&c, qg_onnx_import_opset(&c.build, m->graph->name, domain, version));
}

static qg_status add_input(call *c, const char *name, const qg_tensor *type)
{
    qg_value *v;
    QG_TRY(find_value(c, "input", name, &v));
    QG_TRY(check_type(c->build.ctx, name, type, true));
    QG_TRY(qg_graph_mark_input(c->scope.g, v));
    qg_tensor_init(&v->type, type->dtype, type->rank, type->dim);
    return QG_OK;
}

qg_status qg_model_add_input(qg_model *m, const char *name, qg_dtype type, int32_t rank,
                             const int64_t *dim)
{
    call c;
    qg_tensor t = { .dtype = type, .rank = rank };
    QG_TRY(begin_frame(m, "input", &c));
    for (int32_t k = 0; k < rank && rank <= QG_MAX_RANK; k++)
        t.dim[k] = dim[k];
    qg_status s = add_input(&c, name, &t);
    return end(&c, s);
}

static qg_status add_constant(call *c, const char *name, const qg_tensor *t,
                              bool borrow)
{
    qg_value *v;
    const qg_tensor *taken;
    char what[QG_NODE_TEXT];
    QG_TRY(find_value(c, "constant", name, &v));
    (void)snprintf(what, sizeof what, "constant '%.1000s'", name);
    QG_TRY(take_tensor(c->scope.g, what, t, borrow, &taken));
    return qg_onnx_constant(&c->build, what, v, taken);
}

qg_status qg_model_add_constant(qg_model *m, const char *name, const qg_tensor *t,
                                bool borrow)
{
    call c;
    QG_TRY(begin(m, "constant", &c));
    return end(&c, add_constant(&c, name, t, borrow));
}

static qg_status add_output(call *c, const char *name)
{
    qg_value *v;
    QG_TRY(find_value(c, "output", name, &v));
    return qg_graph_mark_output(c->scope.g, v);
}

qg_status qg_model_add_output(qg_model *m, const char *name)
{
    call c;
    QG_TRY(begin_frame(m, "output", &c));
    return end(&c, add_output(&c, name));
}

/* --- nodes --- */

/* Maps equal members of the two enumerations; lists have no bound on their count. */
static const struct {
    qg_attr_type type;
    bool list;
    size_t size; /* of an entry; 0: not numbers */
} kinds[] = {
    [QG_ATTRIBUTE_INT] = {QG_ATTR_INT,      false, sizeof(int64_t)},
    [QG_ATTRIBUTE_FLOAT] = { QG_ATTR_FLOAT,   false, sizeof(float)  },
    [QG_ATTRIBUTE_STRING] = { QG_ATTR_STRING,  false, 0              },
    [QG_ATTRIBUTE_INTS] = { QG_ATTR_INTS,    true,  sizeof(int64_t)},
    [QG_ATTRIBUTE_FLOATS] = { QG_ATTR_FLOATS,  true,  sizeof(float)  },
    [QG_ATTRIBUTE_STRINGS] = { QG_ATTR_STRINGS, true,  0              },
    [QG_ATTRIBUTE_TENSOR] = { QG_ATTR_TENSOR,  false, 0              },
};

static qg_status copy_strings(const qg_onnx_draft *d, const qg_attribute *from,
                              qg_attr *to)
{
    qg_graph *g = d->scope->g;
    const char **copy = QG_NEWN(g->arena, to->count, const char *);
    if (!copy)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < to->count; i++) {
        if (!from->strings[i])
            return qg_onnx_draft_fail(
                d, QG_EMODEL, "attribute %.100s: entry %zu is NULL, expected a string",
                from->name, i);
        if (!(copy[i] = qg_arena_strdup(g->arena, from->strings[i])))
            return qg_nomem(g->ctx);
    }
    to->strings = copy;
    return QG_OK;
}

static qg_status copy_numbers(qg_graph *g, const qg_attribute *from, size_t size,
                              qg_attr *to)
{
    void *copy = qg_arena_raw(g->arena, to->count, size);
    if (!copy)
        return qg_nomem(g->ctx);
    if (to->count)
        memcpy(copy, from->ints, to->count * size);
    to->ints = copy;
    return QG_OK;
}

static qg_status copy_attribute(const qg_onnx_draft *d, const qg_attribute *from,
                                qg_attr *to)
{
    qg_graph *g = d->scope->g;
    if (!from->name || !*from->name ||
        (size_t)from->kind >= sizeof kinds / sizeof *kinds)
        return qg_onnx_draft_fail(
            d, QG_EMODEL,
            "attribute '%.100s' of kind %u, expected a name and a "
            "qg_attribute_kind",
            from->name ? from->name : "", (unsigned)from->kind);
    for (size_t i = 0; i < d->n_attr; i++)
        if (strcmp(d->attr[i].name, from->name) == 0)
            return qg_onnx_draft_fail(d, QG_EMODEL, "attribute %.100s is given twice",
                                      from->name);
    to->name = qg_intern(g->ctx, from->name);
    to->type = kinds[from->kind].type;
    to->count = kinds[from->kind].list ? from->count : 1;
    if (!to->name)
        return qg_nomem(g->ctx);
    if (to->count && !from->ints)
        return qg_onnx_draft_fail(d, QG_EMODEL,
                                  "attribute %.100s has no value, expected %zu",
                                  from->name, to->count);
    if (from->kind == QG_ATTRIBUTE_TENSOR)
        return take_tensor(g, from->name, from->tensor, false, &to->tensor);
    return kinds[from->kind].size ? copy_numbers(g, from, kinds[from->kind].size, to)
                                  : copy_strings(d, from, to);
}

static qg_status copy_attributes(qg_onnx_draft *d, const qg_node_options *o)
{
    qg_attr *attr = QG_NEWN(d->scope->g->arena, o->n_attribute, qg_attr);
    if (!attr)
        return qg_nomem(d->scope->build->ctx);
    d->attr = attr;
    for (; d->n_attr < o->n_attribute; d->n_attr++)
        QG_TRY(copy_attribute(d, &o->attribute[d->n_attr], &attr[d->n_attr]));
    return QG_OK;
}

/* A domain that nobody imported has opset 1. */
static qg_status need_opset(call *c, const char *domain)
{
    qg_graph *g = c->build.root;
    if (*domain && !qg_graph_opset(g, domain))
        QG_TRY(qg_onnx_import_opset(&c->build, g->name, domain, 1));
    c->scope.opset = g->opset.at;
    c->scope.n_opset = g->opset.n;
    return QG_OK;
}

static qg_status add_node(call *c, const qg_node_options *o)
{
    qg_onnx_draft d = { .scope = &c->scope,
                        .op = o->op,
                        .domain = qg_onnx_domain(o->domain),
                        .name = o->name,
                        .in = (char *const *)(uintptr_t)o->in,
                        .n_in = o->n_in,
                        .out = (char *const *)(uintptr_t)o->out,
                        .n_out = o->n_out };
    if (!o->op || !*o->op)
        return qg_fail(c->build.ctx, QG_EMODEL,
                       "build: node without an operator, expected its name");
    QG_TRY(need_opset(c, d.domain));
    if (!o->name || !*o->name)
        QG_TRY(qg_onnx_name_node(&d, NULL));
    d.file_unnamed = 0; /* it comes from no file */
    QG_TRY(copy_attributes(&d, o));
    return qg_onnx_add(&d);
}

qg_status qg_model_add_node(qg_model *m, const qg_node_options *given, qg_node **out)
{
    call c;
    qg_node_options o;
    size_t nodes = m->graph->node.n;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_node_options, given, &o));
    QG_TRY(begin(m, "node", &c));
    QG_TRY(end(&c, add_node(&c, &o)));
    if (out) /* a Constant is no node */
        *out = m->graph->node.n > nodes ? m->graph->node.at[nodes] : NULL;
    return QG_OK;
}

/* --- the end --- */

/* The model has no file whose hash identifies it: the hash of its export does. */
static qg_status name_model(qg_model *m)
{
    char hash[QG_HASH_TEXT];
    QG_TRY(qg_onnx_hash(m->ctx, m->graph, hash));
    return qg_model_name(m, m->graph->name, hash);
}

static qg_status finish(qg_model *m, call *c)
{
    if (m->graph->output.n == 0)
        return qg_fail(m->ctx, QG_EMODEL,
                       "build: '%.1000s' has no output, expected at least one",
                       m->graph->name);
    QG_TRY(qg_onnx_close(&c->scope));
    QG_TRY(qg_infer(m->graph, NULL, 0));
    QG_TRY(qg_check_graph(m->ctx, m->graph, QG_CHECK_ALL));
    return name_model(m);
}

/* Values that normalizing drops are not for end() to take back. */
qg_status qg_model_finish(qg_model *m)
{
    call c;
    QG_TRY(begin_frame(m, "finish", &c));
    qg_status s = finish(m, &c);
    c.values = m->graph->value.n;
    return end(&c, s);
}
