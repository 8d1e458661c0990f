/* share.c -- the share of compute nodes that are quantized, in one line when it is
 * low; those that are not, by name. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/session.h"

/* Why nodes are float, and how many of them. */
typedef struct cause {
    const char *text;
    size_t count;
} cause;

typedef struct share {
    qg_ctx *ctx;
    qg_arena *arena;
    size_t compute, quantized, inner; /* nodes; inner: of the rest, in bodies */
    QG_VEC(cause) cause;
} share;

/* The first endpoint decides the type named in the message. */
static const char *type_of(const qg_node *n)
{
    const qg_value *v = n->n_in && n->in[0] ? n->in[0] : n->n_out ? n->out[0] : NULL;
    return v ? qg_dtype_name(v->type.dtype) : "none";
}

/* Whether n has a record for quantization: one that is neither kept in float nor for
 * shapes and indices. */
static bool has_record(const qg_node *n)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_tqc *t = qg_input_tqc(n, i);
        any |= t && t->state != QG_TQC_FP32 && t->state != QG_TQC_SOI;
    }
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_tqc *t = qg_output_tqc(n, k);
        any |= t && t->state != QG_TQC_FP32 && t->state != QG_TQC_SOI;
    }
    return any;
}

/* One more node with this cause.  `text` is borrowed from the arena or the graph; NULL
 * is a text that could not be made, so that callers pass qg_arena_printf as it is. */
static qg_status count_cause(share *s, const char *text)
{
    if (!text)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < s->cause.n; i++)
        if (strcmp(s->cause.at[i].text, text) == 0) {
            s->cause.at[i].count++;
            return QG_OK;
        }
    return qg_vec_push(s->ctx, s->arena, &s->cause, (cause){ text, 1 });
}

/* A node that the backend chose may still have no such record: it computes in float,
 * too. */
static bool is_quantized(const qg_node *n)
{
    return n->platform == QG_PLATFORM_QUANTIZED && has_record(n);
}

/* Only nodes that accumulate products count. */
static qg_status count_node(share *s, const qg_node *n)
{
    if (!qg_node_has(n, QG_OP_COMPUTE))
        return QG_OK;
    s->compute++;
    if (is_quantized(n)) {
        s->quantized++;
        return QG_OK;
    }
    if (n->platform != QG_PLATFORM_QUANTIZED)
        return count_cause(s, n->reason ? n->reason : "no reason is recorded");
    return count_cause(s, qg_arena_printf(s->arena,
                                          "quantizers are off, or its type %s has none",
                                          type_of(n)));
}

/* Nodes of a body are never in `quantized`.  They have one cause per kind of owner (If,
 * Loop, Scan). */
static qg_status count_body(share *s, const qg_graph *body)
{
    assert(body->owner);
    const char *text = qg_arena_printf(
        s->arena, "in a body of %s, whose nodes stay float", body->owner->op->name);
    for (size_t i = 0; i < body->node.n; i++) {
        if (!qg_node_has(body->node.at[i], QG_OP_COMPUTE))
            continue;
        s->compute++;
        s->inner++;
        QG_TRY(count_cause(s, text));
    }
    return QG_OK;
}

/* For qsort: the most frequent cause first, equal ones by text, so that the message
 * does not depend on the order of nodes. */
static int by_count(const void *a, const void *b)
{
    const cause *p = a, *q = b;
    return p->count != q->count ? (p->count < q->count ? 1 : -1)
                                : strcmp(p->text, q->text);
}

/* "3: it does this; 1: it does that".  Sorts the causes.  *out lives in the arena. */
static qg_status list_causes(share *s, const char **out)
{
    const char *text = "";
    if (s->cause.n)
        qsort(s->cause.at, s->cause.n, sizeof *s->cause.at, by_count);
    for (size_t i = 0; i < s->cause.n && text; i++)
        text = qg_arena_printf(s->arena, "%s%s%zu: %s", text, i ? "; " : "",
                               s->cause.at[i].count, s->cause.at[i].text);
    *out = text;
    return text ? QG_OK : qg_nomem(s->ctx);
}

static qg_status count_all(share *s, const qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(count_node(s, g->node.at[i]));
    for (const qg_graph *body = g->bodies; body; body = body->next_body)
        QG_TRY(count_body(s, body));
    return QG_OK;
}

/* No warning from half of the nodes on, except where bodies hide some of them.  A
 * network without compute nodes is worth a line only when nothing else of it has a
 * record. */
static qg_status warn(share *s, const qg_model *m, const char *what)
{
    const char *causes;
    QG_TRY(count_all(s, m->graph));
    QG_TRY(list_causes(s, &causes));
    if (s->compute == 0 && m->quant->tqc.n == 0)
        qg_warn(s->ctx, "%s: nothing is quantized: the model has no compute node",
                what);
    if (s->compute == 0 || (2 * s->quantized >= s->compute && s->inner == 0))
        return QG_OK;
    qg_warn(s->ctx, "%s: %zu of %zu compute nodes are quantized by %s (%s)", what,
            s->quantized, s->compute, m->quant->backend->name, causes);
    return QG_OK;
}

/* The mark is set before the work, so that a failure is not repeated by the next call
 * either. */
qg_status qg_model_warn_share(qg_model *m, const char *what)
{
    if (!m->quant || m->warned_share)
        return QG_OK;
    m->warned_share = true;
    share s = { .ctx = m->ctx, .arena = qg_arena_new(m->ctx->alloc) };
    qg_status st = s.arena ? warn(&s, m, what) : qg_nomem(m->ctx);
    qg_arena_free(s.arena);
    return st;
}

/* The first few; bodies of If and the like have a warning of their own. */
qg_status qg_report_float_compute(const qg_model *m, qg_report *r)
{
    enum { MOST = 3 };
    const char *text = "";
    size_t all = 0, floats = 0;
    for (size_t i = 0; text && i < m->graph->node.n; i++) {
        const qg_node *n = m->graph->node.at[i];
        if (!qg_node_has(n, QG_OP_COMPUTE))
            continue;
        all++;
        if (!is_quantized(n) && floats++ < MOST)
            text = qg_arena_printf(r->arena, "%s%s%s (%s)", text, *text ? ", " : "",
                                   n->name, n->op->name);
    }
    if (!text)
        return qg_nomem(m->ctx);
    return floats ? qg_report_addf(r, "float_compute_nodes", "%zu of %zu: %s%s", floats,
                                   all, text, floats > MOST ? ", ..." : "")
                  : QG_OK;
}
