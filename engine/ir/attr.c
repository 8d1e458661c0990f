#include "engine/ir/attr.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/graph.h"

static const char *const type_names[QG_NATTR] = {
#define X(id, text, onnx) #id,
    QG_ATTR_MAP(X)
#undef X
};

const char *qg_attr_type_name(qg_attr_type t) { return type_names[t]; }

const qg_attr *qg_attr_find(const qg_node *n, const char *name)
{
    assert(n->n_attr == 0 || n->attr);
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, name) == 0)
            return &n->attr[i];
    return NULL;
}

bool qg_attr_has(const qg_node *n, const char *name) { return qg_attr_find(n, name); }

/* The attribute of this type; *found NULL when absent. */
static qg_status find_typed(qg_ctx *ctx, const qg_node *n, const char *name,
                            qg_attr_type type, const qg_attr **found)
{
    const qg_attr *a = qg_attr_find(n, name);
    assert(!a || (unsigned)a->type < QG_NATTR);
    if (a && a->type != type)
        return qg_node_fail(ctx, QG_EMODEL, "attributes", n, "%s is %s, expected %s",
                            name, type_names[a->type], type_names[type]);
    *found = a;
    return QG_OK;
}

/* A reader of a scalar: its value, or `preset` when absent. */
#define SCALAR_READER(function, ID, member, element)                                   \
    qg_status function(qg_ctx *ctx, const qg_node *n, const char *name,                \
                       element preset, element *out)                                   \
    {                                                                                  \
        const qg_attr *a;                                                              \
        QG_TRY(find_typed(ctx, n, name, QG_ATTR_##ID, &a));                            \
        *out = a ? a->member[0] : preset;                                              \
        return QG_OK;                                                                  \
    }

SCALAR_READER(qg_attr_int, INT, ints, int64_t)
SCALAR_READER(qg_attr_float, FLOAT, floats, float)
SCALAR_READER(qg_attr_string, STRING, strings, const char *)

qg_status qg_attr_flag(qg_ctx *ctx, const qg_node *n, const char *name, bool preset,
                       bool *out)
{
    int64_t value;
    QG_TRY(qg_attr_int(ctx, n, name, preset, &value));
    *out = value != 0;
    return QG_OK;
}

/* A reader of a list: pointer and count, NULL and 0 when absent. */
#define LIST_READER(function, ID, member, element)                                     \
    qg_status function(qg_ctx *ctx, const qg_node *n, const char *name, element **out, \
                       size_t *count)                                                  \
    {                                                                                  \
        const qg_attr *a;                                                              \
        QG_TRY(find_typed(ctx, n, name, QG_ATTR_##ID, &a));                            \
        *out = a ? a->member : NULL;                                                   \
        *count = a ? a->count : 0;                                                     \
        return QG_OK;                                                                  \
    }

LIST_READER(qg_attr_ints, INTS, ints, const int64_t)
LIST_READER(qg_attr_floats, FLOATS, floats, const float)
LIST_READER(qg_attr_strings, STRINGS, strings, const char *const)

qg_status qg_attr_tensor(qg_ctx *ctx, const qg_node *n, const char *name,
                         const qg_tensor **out)
{
    const qg_attr *a;
    QG_TRY(find_typed(ctx, n, name, QG_ATTR_TENSOR, &a));
    *out = a ? a->tensor : NULL;
    return QG_OK;
}

qg_status qg_attr_graph(qg_ctx *ctx, const qg_node *n, const char *name, qg_graph **out)
{
    const qg_attr *a;
    QG_TRY(find_typed(ctx, n, name, QG_ATTR_GRAPH, &a));
    *out = a ? a->graphs[0] : NULL;
    return QG_OK;
}

/* Wrong counts and bounds are the file's fault, hence a status; bounds.low >
 * bounds.high would be ours. */
qg_status qg_attr_ints_n(qg_ctx *ctx, const qg_node *n, const char *name, size_t count,
                         qg_int_bounds bounds, int64_t *out)
{
    const int64_t *at;
    size_t have;
    assert(bounds.low <= bounds.high);
    QG_TRY(qg_attr_ints(ctx, n, name, &at, &have));
    if (qg_attr_has(n, name) && have != count)
        return qg_node_fail(ctx, QG_EMODEL, "attributes", n,
                            "%s has %zu values, expected %zu", name, have, count);
    for (size_t i = 0; i < have; i++)
        if (at[i] < bounds.low || at[i] > bounds.high)
            return qg_node_fail(ctx, QG_EMODEL, "attributes", n,
                                "%s[%zu] is %lld, expected within [%lld, %lld]", name,
                                i, (long long)at[i], (long long)bounds.low,
                                (long long)bounds.high);
    for (size_t i = 0; i < count; i++)
        out[i] = have ? at[i] : bounds.preset;
    return QG_OK;
}

/* The message lists the choices as far as they fit. */
qg_status qg_attr_choice(qg_ctx *ctx, const qg_node *n, const char *name,
                         const char *const *choices, int preset, int *out)
{
    const char *text;
    char known[256] = "";
    size_t length = 0;
    assert(preset >= 0 && choices[0]);
    QG_TRY(qg_attr_string(ctx, n, name, choices[preset], &text));
    for (int i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *out = i;
            return QG_OK;
        }
        int more = snprintf(known + length, sizeof known - length, "%s'%s'",
                            i ? ", " : "", choices[i]);
        if (more > 0 && (size_t)more < sizeof known - length)
            length += (size_t)more;
    }
    return qg_node_fail(ctx, QG_EMODEL, "attributes", n,
                        "%s is '%.80s', expected one of %s", name, text, known);
}

int64_t qg_attr_at(const qg_node *n, const char *name, size_t k, int64_t absent)
{
    const qg_attr *a = qg_attr_find(n, name);
    bool told = a && (a->type == QG_ATTR_INT || a->type == QG_ATTR_INTS);
    return told && k < a->count ? a->ints[k] : absent;
}

bool qg_node_counts_beyond(const qg_node *n)
{
    const qg_attr *automatic = qg_attr_find(n, "auto_pad");
    const qg_tensor *x = &n->in[0]->type, *y = &n->out[0]->type;
    bool same = automatic && automatic->type == QG_ATTR_STRING &&
                strncmp(automatic->strings[0], "SAME", 4) == 0;
    if (same || !qg_attr_at(n, "ceil_mode", 0, 0) ||
        !qg_attr_at(n, "count_include_pad", 0, 0))
        return false;
    for (int d = 2; d < x->rank && d < y->rank; d++) {
        size_t k = (size_t)d - 2, axes = (size_t)x->rank - 2;
        int64_t reach = (qg_attr_at(n, "kernel_shape", k, 1) - 1) *
                            qg_attr_at(n, "dilations", k, 1) +
                        1,
                end = (y->dim[d] - 1) * qg_attr_at(n, "strides", k, 1) + reach,
                pads = qg_attr_at(n, "pads", k, 0) + qg_attr_at(n, "pads", k + axes, 0);
        if (x->dim[d] < 0 || y->dim[d] < 0 || end > x->dim[d] + pads)
            return true;
    }
    return x->rank < 0;
}
