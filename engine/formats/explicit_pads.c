#include "engine/formats/explicit_pads.h"

#include <string.h>

enum { SPATIAL = QG_MAX_RANK - 2 };

enum kind { OTHER, POOL, WINDOW, TRANSPOSED };

/* Operators of ONNX, and the input that is the kernel; 0: none. */
/* clang-format off */
static const struct known {
    const char *name;
    enum kind kind;
    uint32_t kernel;
} known[] = {
    { "MaxPool",       POOL,       0 },
    { "AveragePool",   POOL,       0 },
    { "LpPool",        POOL,       0 },
    { "Conv",          WINDOW,     1 },
    { "ConvInteger",   WINDOW,     1 },
    { "QLinearConv",   WINDOW,     3 },
    { "ConvTranspose", TRANSPOSED, 1 },
};
/* clang-format on */

const char *qg_auto_pad_word(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "auto_pad");
    return a && a->type == QG_ATTR_STRING ? a->strings[0] : "NOTSET";
}

static bool is_same(const qg_node *n)
{
    return strncmp(qg_auto_pad_word(n), "SAME", 4) == 0;
}

static const struct known *known_as(const qg_node *n)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qg_node_is_onnx(n, &known[i].name, 1))
            return &known[i];
    return NULL;
}

static enum kind kind_of(const qg_node *n)
{
    const struct known *k = known_as(n);
    return k ? k->kind : OTHER;
}

/* The extent of the kernel; -1: it is open. */
static int64_t kernel_of(const qg_node *n, size_t k)
{
    const uint32_t slot = known_as(n)->kernel;
    const qg_tensor *w = slot && n->n_in > slot ? &n->in[slot]->type : NULL;
    if (!w)
        return qg_attr_at(n, "kernel_shape", k, -1);
    return (int32_t)k + 2 < w->rank ? w->dim[k + 2] : -1;
}

/* The extent that a dilated kernel covers. */
static int64_t reach_of(const qg_node *n, size_t k)
{
    return (kernel_of(n, k) - 1) * qg_attr_at(n, "dilations", k, 1) + 1;
}

static size_t axes_of(const qg_node *n)
{
    const qg_attr *kernel = qg_attr_find(n, "kernel_shape");
    const int32_t rank = n->in[0]->type.rank;
    return kernel ? kernel->count : rank > 2 ? (size_t)rank - 2 : 0;
}

static bool is_read_apart(const qg_node *n)
{
    const enum kind kind = kind_of(n);
    const qg_attr *ceil = qg_attr_find(n, "ceil_mode");
    if (kind == TRANSPOSED)
        return qg_attr_has(n, "output_shape") ||
               strcmp(qg_auto_pad_word(n), "NOTSET") != 0;
    if (kind == OTHER)
        return false;
    if (strcmp(qg_auto_pad_word(n), "VALID") == 0)
        return kind == POOL && ceil && ceil->type == QG_ATTR_INT && ceil->ints[0];
    for (size_t k = 0; is_same(n) && k < axes_of(n); k++)
        if (qg_attr_at(n, "dilations", k, 1) != 1 ||
            qg_attr_at(n, "strides", k, 1) > reach_of(n, k))
            return true;
    return false;
}

static bool is_open(const qg_node *n)
{
    const qg_tensor *x = &n->in[0]->type, *y = &n->out[0]->type;
    for (int32_t d = 2; d < x->rank && d < y->rank; d++)
        if (x->dim[d] < 0 || y->dim[d] < 0 || kernel_of(n, (size_t)d - 2) < 0)
            return true;
    return x->rank < 3 || x->rank != y->rank;
}

bool qg_has_open_pads(const qg_node *n) { return is_read_apart(n) && is_open(n); }

/* --- attributes --- */

/* What is written of one node: [begin, ..., end, ...] and the more of each axis. */
typedef struct padding {
    int64_t pad[2 * SPATIAL], more[SPATIAL];
} padding;

static void derive(const qg_node *n, size_t axes, padding *p)
{
    const bool turned = kind_of(n) == TRANSPOSED;
    const bool odd_first = turned ? strcmp(qg_auto_pad_word(n), "SAME_UPPER") != 0
                                  : strcmp(qg_auto_pad_word(n), "SAME_LOWER") == 0;
    for (size_t k = 0; k < axes; k++) {
        const int64_t x = n->in[0]->type.dim[k + 2], y = n->out[0]->type.dim[k + 2],
                      full = ((turned ? x : y) - 1) * qg_attr_at(n, "strides", k, 1) +
                             reach_of(n, k);
        int64_t total =
            turned ? full + qg_attr_at(n, "output_padding", k, 0) - y : full - x;
        total = total > 0 ? total : 0;
        p->more[k] = y - (full - total); /* of a pool: not written */
        p->pad[odd_first ? k : k + axes] = total - total / 2;
        p->pad[odd_first ? k + axes : k] = total / 2;
    }
}

static qg_status add_ints(qg_graph *g, qg_attr *to, const char *name, const int64_t *x,
                          size_t n)
{
    int64_t *copy = QG_NEWN(g->arena, n, int64_t);
    *to = (qg_attr){ qg_intern(g->ctx, name), QG_ATTR_INTS, n, { .ints = copy } };
    if (!copy || !to->name)
        return qg_nomem(g->ctx);
    memcpy(copy, x, n * sizeof *x);
    return QG_OK;
}

static qg_status rewrite(qg_graph *g, qg_node *n)
{
    static const char *const replaced[] = { "auto_pad", "ceil_mode", "output_padding",
                                            "output_shape", "pads" };
    const size_t axes = (size_t)n->in[0]->type.rank - 2;
    padding p;
    qg_attr *to = QG_NEWN(g->arena, n->n_attr + 2, qg_attr);
    size_t count = 0;
    if (!to)
        return qg_nomem(g->ctx);
    derive(n, axes, &p);
    for (size_t i = 0; i < n->n_attr; i++) {
        bool keep = true;
        for (size_t k = 0; k < sizeof replaced / sizeof *replaced; k++)
            keep = keep && strcmp(n->attr[i].name, replaced[k]) != 0;
        if (keep)
            to[count++] = n->attr[i];
    }
    QG_TRY(add_ints(g, &to[count++], "pads", p.pad, 2 * axes));
    if (kind_of(n) == TRANSPOSED)
        QG_TRY(add_ints(g, &to[count++], "output_padding", p.more, axes));
    n->attr = to;
    n->n_attr = count;
    return QG_OK;
}

static bool is_wide(const qg_node *n)
{
    const size_t axes = (size_t)n->in[0]->type.rank - 2;
    padding p;
    derive(n, axes, &p);
    for (size_t k = 0; kind_of(n) == POOL && k < 2 * axes; k++)
        if (p.pad[k] >= kernel_of(n, k % axes))
            return true;
    return false;
}

static qg_status rewrite_all(qg_graph *g, bool takes_wide)
{
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (is_read_apart(n) && !is_open(n) && (takes_wide || !is_wide(n)))
            QG_TRY(rewrite(g, n));
    }
    return QG_OK;
}

static qg_status lose_rest(qg_export *e, const qg_graph *g, bool takes_wide)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (takes_wide && kind_of(n) == WINDOW)
            continue; /* OpenVINO derives it as ONNX does */
        if (is_read_apart(n) && (is_open(n) || (!takes_wide && is_wide(n))))
            QG_TRY(qg_export_lose_node(
                e, n, "runtimes derive another padding than ONNX defines; expected ",
                is_open(n) ? "pads, or dims that are known, as with --shape"
                           : "a padding that is smaller than the kernel"));
    }
    return QG_OK;
}

qg_status qg_export_explicit_pads(qg_export *e, qg_graph *g, bool takes_wide)
{
    QG_TRY(rewrite_all(g, takes_wide));
    for (qg_graph *body = g->bodies; body; body = body->next_body)
        QG_TRY(rewrite_all(body, takes_wide));
    const qg_graph *from = e->quant->graph;
    QG_TRY(lose_rest(e, from, takes_wide));
    for (const qg_graph *body = from->bodies; body; body = body->next_body)
        QG_TRY(lose_rest(e, body, takes_wide));
    return QG_OK;
}
