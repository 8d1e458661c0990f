/* masks.c -- values in which an attention mask shares a grid with ordinary numbers, and
 * a policy that leaves them in float.
 *
 * Attention excludes a place by a large negative number (-10000, the lowest float,
 * -inf) that Softmax turns into 0.  Next to ordinary scores it takes all codes. */
#include "engine/session/session.h"

#include <assert.h>
#include <math.h>

#include "engine/calib/mask.h"
#include "engine/config/yaml.h"
#include "engine/core/file.h"
#include "engine/core/hash.h"

/* Values named in a sentence; bytes of a policy there. */
enum { NAMES = 3, LONGEST = 600 };
/* Exponent fields.  Anywhere: from -8192 on, 100 times any other number.  What Softmax
 * reads need be less: from -512 on, and whatever is 4 times less is beside it. */
enum { SURE = 127 + 13, SURE_GAP = 6 };

/* A positive one is a mask only where its sign is still changed: -(-x + mask). */
static bool holds_mask(const qg_value *v, const qg_far *f)
{
    const bool sure = f->exponent >= SURE && f->gap >= SURE_GAP;
    if (f->exponent == 0 || !f->beside)
        return false;
    if (!f->positive)
        return sure || qg_feeds_softmax(v);
    for (size_t k = 0; k < v->use.n; k++)
        if (qg_node_has(v->use.at[k].node, QG_OP_SHARES))
            return false;
    return sure && qg_feeds_softmax(v);
}

/* Whether a scale of t reaches as far as the mask.  A grid is as wide as
 * scale * (qmax - qmin), in units of the value.  A narrower one clips the mask and
 * keeps the ordinary numbers. */
static bool is_wide(const qg_tqc *t, const qg_far *mask)
{
    const double least = ldexp(1, (int)mask->exponent - 127);
    qg_qparam p = qg_tqc_param(t);
    for (size_t c = 0; c < p.n; c++)
        if ((double)p.scale[c] * (t->scheme.qmax - t->scheme.qmin) >= least)
            return true;
    return false;
}

/* The value is rounded, or so is an operand of its node on a grid that it shares with
 * the mask. */
static bool spoils_grid(const qg_exponents *seen, const qg_value *v, const qg_far *mask)
{
    const qg_tqc *t = qg_output_tqc(v->def, v->def_slot);
    bool any = t && qg_tqc_rounds(t);
    for (size_t k = 0; k < v->use.n && !any; k++) {
        t = qg_input_tqc(v->use.at[k].node, v->use.at[k].slot);
        any = t && qg_tqc_rounds(t);
    }
    for (uint32_t k = 0; k < v->def->n_in && !any; k++) {
        const qg_value *x = v->def->in[k];
        t = x && !x->constant && qg_exponents_far(&seen[x->id]).exponent == 0
                ? qg_input_tqc(v->def, k)
                : NULL;
        any = t && qg_tqc_rounds(t) && is_wide(t, mask);
    }
    return any;
}

/* --- the policy --- */

/* The nodes that are marked, in one line.  The id follows from their names: a policy
 * for other nodes does not replace this one.  QG_ENOMEM only. */
qg_status qg_masks_policy(const qg_graph *g, qg_arena *a, qg_strange *out)
{
    char text[QG_HASH_TEXT];
    qg_memory_file f;
    qg_hash h;
    size_t n = 0;
    if (!out->node)
        return QG_OK;
    qg_hash_begin(&h);
    QG_TRY(qg_memory_open(g->ctx, &f));
    for (size_t i = 0; i < g->node.n; i++) {
        const char *name = g->node.at[i]->name;
        if (!out->node[g->node.at[i]->id])
            continue;
        qg_hash_add(&h, name, strlen(name) + 1);
        (void)fputs(n++ ? ", " : "", f.stream);
        qg_yaml_print_name(f.stream, name);
    }
    qg_hash_end(&h, text);
    QG_TRY(qg_memory_close(&f, QG_OK));
    out->policy = qg_arena_printf(a,
                                  "rules: [{id: masks-%.8s, match: {node: [%s]}, set: "
                                  "{platform: fp32}}]",
                                  text, f.bytes);
    qg_memory_free(&f);
    return out->policy ? QG_OK : qg_nomem(g->ctx);
}

/* Its output holds the mask that its input holds, and the other way round. */
static bool moves_values(const qg_node *n)
{
    return qg_node_has(n, QG_OP_PASSIVE) && !qg_node_has(n, QG_OP_POOLING);
}

static bool moves_from(const qg_node *n, uint32_t slot)
{
    return n->in[slot] && n->in[slot]->def && qg_op_in_role(n->op, slot) == 'd';
}

/* held: [values] 1: holds a mask.  The output of a Reshape has the grid of its input,
 * and one of its own once the input is in float: the policy has to name both.  Nodes
 * are in the order of execution. */
static void spread(const qg_graph *g, uint8_t *held)
{
    for (size_t i = g->node.n; i-- > 0;) { /* to where they come from */
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_in && moves_values(n); k++)
            if (moves_from(n, k) && n->out[0])
                held[n->in[k]->id] |= held[n->out[0]->id];
    }
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_in && moves_values(n); k++)
            for (uint32_t j = 0; j < n->n_out && moves_from(n, k); j++)
                if (n->out[j])
                    held[n->out[j]->id] |= held[n->in[k]->id];
    }
}

/* The producer of v and all of its readers: a grid on either side would round v. */
static void mark(const qg_value *v, uint8_t *node)
{
    if (v->def)
        node[v->def->id] = 1;
    for (size_t k = 0; k < v->use.n; k++)
        node[v->use.at[k].node->id] = 1;
}

/* Nodes beside the values, and beside those to which the masks are moved. */
static qg_status mark_all(const qg_graph *g, qg_arena *a, uint8_t *held,
                          qg_strange *out)
{
    if (!out->node)
        out->node = QG_NEWN(a, g->node.n, uint8_t);
    if (!out->node)
        return qg_nomem(g->ctx);
    spread(g, held);
    for (size_t i = 0; i < g->value.n; i++)
        if (held[i])
            mark(g->value.at[i], out->node);
    return QG_OK;
}

/* Names the first few values. */
qg_status qg_masks_describe(const qg_graph *g, const qg_exponents *seen, bool simulates,
                            qg_arena *a, qg_strange *out)
{
    const char *names = "";
    uint8_t *held = QG_NEWN(a, g->value.n, uint8_t);
    size_t n = 0;
    if (!held)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < g->value.n && names; i++) {
        const qg_value *v = g->value.at[i];
        const qg_far f = qg_exponents_far(&seen[v->id]);
        if (!v->def || !holds_mask(v, &f) || (simulates && !spoils_grid(seen, v, &f)))
            continue;
        if (n++ < NAMES)
            names = qg_arena_printf(a, "%s%s%s", names, n > 1 ? ", " : "", v->name);
        held[i] = 1;
    }
    if (n > 0)
        QG_TRY(mark_all(g, a, held, out));
    if (names && n > 0)
        out->masks = qg_arena_printf(a,
                                     "%zu %s a mask beside ordinary numbers, of "
                                     "which a grid keeps only the mask: %s%s",
                                     n, n == 1 ? "value holds" : "values hold", names,
                                     n > NAMES ? ", ..." : "");
    return names && (n == 0 || out->masks) ? QG_OK : qg_nomem(g->ctx);
}

/* Statistics have every value of the float network. */
qg_status qg_masks_of_stats(const qg_model *m, const qg_stats *stats, qg_arena *a,
                            qg_strange *out)
{
    const qg_graph *g = m->graph;
    qg_exponents *seen = QG_NEWN(a, g->value.n, qg_exponents);
    if (!seen)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_stats_value *v = qg_stats_find(stats, g->value.at[i]->name);
        if (v && g->value.at[i]->def)
            qg_exponents_add_stats(&seen[g->value.at[i]->id], v);
    }
    return qg_masks_describe(g, seen, true, a, out);
}

/* --- warnings --- */

/* A policy of many nodes does not fit a line: then the report has it. */
static void warn_masks(qg_ctx *ctx, const char *policy, const char *what)
{
    qg_warn(ctx, "%s; this policy leaves them in float: %s", what,
            strlen(policy) < LONGEST ? policy : "fact mask_policy of the report");
}

/* A policy only where something is to be done. */
void qg_warn_strange(qg_ctx *ctx, const qg_strange *s)
{
    if (s->infinite)
        qg_warn(ctx, "%s", s->infinite);
    if (s->not_finite)
        qg_warn(ctx, "%s", s->not_finite);
    if (s->masks)
        warn_masks(ctx, s->policy, s->masks);
}

/* "x.in1, y.out0, ..."; NULL without memory. */
static const char *endpoints_text(qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = "";
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < n && i < NAMES && names; i++)
        names =
            qg_arena_printf(a, "%s%s%s", names, i ? ", " : "", qg_tqc_text(t[i], at));
    return names && n > NAMES ? qg_arena_printf(a, "%s, ...", names) : names;
}

qg_status qg_warn_empty(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = endpoints_text(a, t, n);
    if (!names)
        return qg_nomem(ctx);
    if (n > 0)
        qg_warn(ctx,
                "%zu %s no element in any sample, so nothing gives a scale, and %s in "
                "float: %s",
                n, n > 1 ? "endpoints have" : "endpoint has", n > 1 ? "stay" : "stays",
                names);
    return QG_OK;
}

qg_status qg_warn_small(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = endpoints_text(a, t, n);
    if (!names)
        return qg_nomem(ctx);
    if (n > 0)
        qg_warn(ctx,
                "%zu %s smaller than the least scale (min-scale) resolves, and %s few "
                "codes or only zero: %s",
                n, n > 1 ? "endpoints have ranges" : "endpoint has a range",
                n > 1 ? "use" : "uses", names);
    return QG_OK;
}

/* Elements of a constant that saturation moves by more than one step: a scale that a
 * bias has raised (min-scale) may end at the first code beyond. */
static bool saturates(const qg_tqc *t)
{
    const qg_tensor *x = qg_tqc_value(t)->constant;
    qg_qparam p = qg_tqc_param(t);
    assert(x && p.n > 0); /* baked */
    int64_t n = qg_tensor_count(x);
    for (int64_t i = 0; i < n; i++) { /* channels: its last axis, alone */
        size_t c = (size_t)i % p.n;
        double steps = qg_tensor_f64(x, i) / p.scale[c] + (p.offset ? p.offset[c] : 0);
        if (steps > (double)t->scheme.qmax + 1 || steps < (double)t->scheme.qmin - 1)
            return true;
    }
    return false;
}

static bool is_lost_bias(const qg_tqc *t)
{
    return t->state == QG_TQC_PASSIVE_BAKED && t->derive == QG_DERIVE_BIAS &&
           saturates(t);
}

/* Only a maximum reads it: a fill below all numbers is the lowest of them there. */
static bool is_for_maxima(const qg_value *v)
{
    for (size_t k = 0; k < v->use.n; k++)
        if (!qg_node_has(v->use.at[k].node, QG_OP_POOLING) ||
            !qg_node_has(v->use.at[k].node, QG_OP_PASSIVE))
            return false;
    return !v->is_output;
}

/* A constant that becomes elements of the output, as the fill of a Pad, on the grid of
 * the other elements.  A clamp beyond the grid is one that the grid has anyway. */
static bool is_lost_fill(const qg_tqc *t)
{
    const qg_node *n = t->node;
    return t->state == QG_TQC_PASSIVE_BAKED && qg_tqc_role(t) == 'p' &&
           qg_node_has(n, QG_OP_PASSIVE) && !n->op->clamp && n->out[0] &&
           !is_for_maxima(n->out[0]) && (t->scheme.policy & QG_LINEAR) && saturates(t);
}

typedef QG_VEC(const qg_tqc *) tqc_list;

static qg_status list_of(const qg_quant *q, qg_arena *a, bool (*is_one)(const qg_tqc *),
                         tqc_list *out)
{
    for (size_t i = 0; i < q->tqc.n; i++)
        if (is_one(q->tqc.at[i]))
            QG_TRY(qg_vec_push(q->ctx, a, out, q->tqc.at[i]));
    return QG_OK;
}

static qg_status warn_fills(const qg_quant *q, qg_arena *a)
{
    tqc_list found = { 0 };
    QG_TRY(list_of(q, a, is_lost_fill, &found));
    const char *names = endpoints_text(a, found.at, found.n);
    if (!names)
        return qg_nomem(q->ctx);
    if (found.n > 0)
        qg_warn(q->ctx,
                "quantize: %zu %s beyond the range of the grid that the other elements "
                "have, and %s: %s; --set 'node=%.200s platform=fp32' leaves %s in "
                "float",
                found.n, found.n > 1 ? "constants are" : "constant is",
                found.n > 1 ? "saturate" : "saturates", names, found.at[0]->node->name,
                found.n > 1 ? "the first node" : "the node");
    return QG_OK;
}

qg_status qg_warn_saturated(const qg_quant *q, qg_arena *a)
{
    tqc_list found = { 0 };
    QG_TRY(list_of(q, a, is_lost_bias, &found));
    const char *names = endpoints_text(a, found.at, found.n);
    if (!names)
        return qg_nomem(q->ctx);
    if (found.n > 0)
        qg_warn(q->ctx,
                "quantize: %zu %s values beyond the codes of the grid, which saturate, "
                "since the scale is that of input times weight: %s, with %u bits",
                found.n, found.n > 1 ? "biases have" : "bias has", names,
                found.at[0]->scheme.bits);
    return warn_fills(q, a);
}

qg_status qg_masks_infinite(const qg_graph *g, const qg_tqc *const *t, size_t n,
                            qg_arena *a, qg_strange *out)
{
    const char *names = endpoints_text(a, t, n);
    if (n == 0)
        return QG_OK;
    if (!names)
        return qg_nomem(g->ctx);
    out->infinite = qg_arena_printf(
        a,
        "%zu %s a mask of -inf, which no scale reaches, and %s in float without a "
        "policy: %s",
        n, n == 1 ? "endpoint holds" : "endpoints hold", n == 1 ? "stays" : "stay",
        names);
    return out->infinite ? QG_OK : qg_nomem(g->ctx);
}

qg_status qg_report_masks(qg_report *r, const qg_strange *s)
{
    return s->policy ? qg_report_add(r, "mask_policy", qg_cell_text(s->policy)) : QG_OK;
}
