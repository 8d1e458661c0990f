#include "engine/onnx/function.h"

#include <assert.h>
#include <string.h>

/* Functions differ by all three; none of them can hold a newline in a valid model, and
 * in an invalid one the worst is a function that is not found. */
static const char *key_of(qg_onnx_build *b, const char *domain, const char *name,
                          const char *overload)
{
    return qg_arena_printf(b->scratch, "%s\n%s\n%s", domain, name, overload);
}

qg_status qg_onnx_function_add(qg_onnx_build *b, const qg_onnx_function *f)
{
    const char *key = key_of(b, f->domain, f->name, f->overload);
    uint32_t id;
    if (!key || qg_names_add(b->function_names, key, strlen(key), &id) != QG_OK)
        return qg_nomem(b->ctx);
    if (id != b->function.n)
        return qg_fail(b->ctx, QG_EMODEL,
                       "import: function '%.1000s' is defined twice, expected once",
                       f->name);
    return qg_vec_push(b->ctx, b->scratch, &b->function, *f);
}

qg_status qg_onnx_function_find(qg_onnx_build *b, const char *domain, const char *name,
                                const char *overload, const qg_onnx_function **out)
{
    uint32_t id = QG_NONE;
    if (b->function.n) {
        const char *key = key_of(b, domain, name, overload);
        if (!key)
            return qg_nomem(b->ctx);
        id = qg_names_find(b->function_names, key, strlen(key));
    }
    *out = id == QG_NONE ? NULL : &b->function.at[id];
    return QG_OK;
}

static const qg_attr *find_attr(const qg_attr *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

qg_status qg_onnx_refer(const qg_onnx_draft *d, const char *reference, qg_attr *out,
                        bool *present)
{
    const qg_onnx_scope *s = d->scope;
    if (!s->function)
        return qg_onnx_draft_fail(d, QG_EMODEL,
                                  "attribute %.100s refers to attribute %.100s outside "
                                  "of a function",
                                  out->name, reference);
    const qg_attr *bound = find_attr(s->bound, s->n_bound, reference);
    *present = bound != NULL;
    if (!bound)
        return QG_OK;
    if (bound->type != out->type)
        return qg_onnx_draft_fail(
            d, QG_EMODEL,
            "attribute %.100s is %s but refers to %.100s, which is "
            "%s",
            out->name, qg_attr_type_name(out->type), reference,
            qg_attr_type_name(bound->type));
    const char *name = out->name;
    *out = *bound;
    out->name = name;
    return QG_OK;
}

/* Refuses a call as a whole where the number is known, else where it is exceeded. */
static qg_status count_nodes(const qg_onnx_draft *d, const qg_onnx_function *f)
{
    qg_onnx_build *b = d->scope->build;
    size_t most = b->ctx->limits.nodes, all = d->scope->calls ? 0 : f->total;
    if ((all > f->n_node ? all : f->n_node) > most - b->inlined)
        return qg_onnx_draft_fail(d, QG_EMEMORY,
                                  "functions expand to more than %zu nodes, expected "
                                  "at most that (--max-nodes)",
                                  most);
    assert(b->inlined <= most);
    b->inlined += f->n_node;
    return QG_OK;
}

/* Everything that must hold before anything is expanded. */
static qg_status check_call(const qg_onnx_draft *d, const qg_onnx_function *f)
{
    if (d->n_in > f->n_in || d->n_out > f->n_out)
        return qg_onnx_draft_fail(
            d, QG_EMODEL,
            "%zu inputs and %zu outputs, expected at most the %zu "
            "and %zu of the function",
            d->n_in, d->n_out, f->n_in, f->n_out);
    for (const qg_onnx_scope *s = d->scope; s; s = s->call)
        if (s->function == f)
            return qg_onnx_draft_fail(d, QG_EMODEL, "the function calls itself");
    if (d->scope->calls == QG_ONNX_MAX_CALLS)
        return qg_onnx_draft_fail(d, QG_EUNSUPPORTED,
                                  "functions call each other deeper than %d levels",
                                  QG_ONNX_MAX_CALLS);
    QG_TRY(count_nodes(d, f));
    for (size_t i = 0; i < d->n_attr; i++)
        if (d->attr[i].type == QG_ATTR_GRAPH || d->attr[i].type == QG_ATTR_GRAPHS)
            return qg_onnx_draft_fail(d, QG_EUNSUPPORTED,
                                      "a function with the graph attribute %.100s",
                                      d->attr[i].name);
    return QG_OK;
}

/* Values of references inside: the call's attributes, then the defaults.  The first of
 * a name is found, so the call wins. */
static qg_status bind_attributes(const qg_onnx_draft *d, const qg_onnx_function *f,
                                 qg_onnx_scope *s)
{
    qg_attr *all = QG_NEWN(s->build->scratch, d->n_attr + f->n_preset, qg_attr);
    if (!all)
        return qg_nomem(s->build->ctx);
    for (size_t i = 0; i < d->n_attr; i++)
        all[i] = d->attr[i];
    for (size_t i = 0; i < f->n_preset; i++)
        all[d->n_attr + i] = f->preset[i];
    s->bound = all;
    s->n_bound = d->n_attr + f->n_preset;
    return QG_OK;
}

/* Formal inputs and outputs come to mean the values of the call. */
static qg_status bind_slots(const qg_onnx_draft *d, const qg_onnx_function *f,
                            qg_onnx_scope *s)
{
    for (size_t i = 0; i < f->n_in; i++) {
        qg_value *v = NULL;
        if (i < d->n_in)
            QG_TRY(qg_onnx_value(d->scope, d->in[i], &v));
        QG_TRY(qg_onnx_bind(s, f->in[i], v));
    }
    for (size_t i = 0; i < d->n_out; i++) {
        qg_value *v;
        QG_TRY(qg_onnx_value(d->scope, d->out[i], &v));
        if (v) /* an unused output becomes an inner value */
            QG_TRY(qg_onnx_bind(s, f->out[i], v));
    }
    return QG_OK;
}

static qg_status fill(const qg_onnx_draft *d, const qg_onnx_function *f,
                      qg_onnx_scope *s)
{
    if (!s->prefix || !s->names)
        return qg_nomem(s->build->ctx);
    QG_TRY(bind_attributes(d, f, s));
    QG_TRY(bind_slots(d, f, s));
    return s->build->import_nodes(s, f->proto);
}

qg_status qg_onnx_inline(const qg_onnx_draft *d, const qg_onnx_function *f)
{
    QG_TRY(check_call(d, f));
    qg_onnx_build *b = d->scope->build;
    qg_onnx_scope s = { .build = b,
                        .g = d->scope->g,
                        .call = d->scope,
                        .function = f,
                        .calls = d->scope->calls + 1,
                        .prefix = qg_arena_printf(b->scratch, "%s/", d->name),
                        .names = qg_names_new(b->ctx->alloc),
                        .opset = f->opset,
                        .n_opset = f->n_opset };
    qg_status status = fill(d, f, &s);
    qg_names_free(s.names);
    return status;
}
