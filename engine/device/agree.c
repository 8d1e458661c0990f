/* agree.c -- what a backend makes of each value, beside what the trace shows of it.
 *
 * A grid in the trace is no proof of a quantizer: a sum or a copy of codes lies on
 * their grid, so it agrees with codes and with floats (inherits_grid), unless the
 * record has too few codes for it.  A mean of codes lies on a finer grid; with more
 * codes than the record has, or on a part of the input's grid, it is not rounded: that
 * contradicts a draft that rounds it, and tells nothing else (is_mean). */
#include "engine/device/attempt.h"

#include <math.h>
#include <string.h>

/* Nodes that may lie between a mean of codes and a copy of it. */
enum { FAR = 8 };
/* Codes that a scheme can have and does not have by chance are evidence against it
 * where one value in MOSTLY has such. */
enum { MOSTLY = 4 };
/* Symmetric values that end one above the lowest code of their type, where none has
 * that code, from which it is no code of the scheme. */
enum { SEVERAL = 2 };
/* Bits below which a value ends there by chance. */
enum { BYTE = 8 };
/* To which a product of two steps that were found in floats is known. */
#define NEAR 1e-4
/* Codes of a mean up to which its step is no part of the input's by chance. */
enum { MOST_PARTS = 64 };
/* Steps between the codes of 8 bits. */
enum { STEPS = 255 };

/* --- values --- */

/* The value of the float network that has an array by its endpoint alone, whose own
 * name is that of a value that the attempt's passes made; NULL: none. */
static const qg_value *lends(const qg_seen_values *o, const char *name)
{
    for (size_t i = 0; i < o->by_endpoint.n; i++) {
        const qg_value *v = o->by_endpoint.at[i];
        if (strcmp(o->pair[v->id].array->value, name) == 0)
            return v;
    }
    return NULL;
}

const qg_seen *qg_attempt_seen(const qg_attempt *t, const qg_value *v)
{
    const qg_seen_values *o = t->how->seen;
    const qg_value *own = qg_graph_value(o->graph, v->name),
                   *from = own ? NULL : lends(o, v->name);
    if (from)
        return &o->at[from->id];
    if (!own || own->constant || own->type.dtype != QG_F32)
        return NULL;
    bool lent = o->pair[own->id].array &&
                lends(o, o->pair[own->id].array->value) == own &&
                qg_graph_value(t->own.graph, o->pair[own->id].array->value);
    return lent ? &o->hidden[own->id] : &o->at[own->id];
}

static bool same_codes(const qg_scheme *a, const qg_scheme *b)
{
    return a->policy == b->policy && a->bits == b->bits && a->qmin == b->qmin &&
           a->qmax == b->qmax;
}

/* The first reader's record, where all readers round the value to the same codes, and
 * with one scale unless `any`; NULL: they do not. */
static const qg_tqc *readers_tqc(const qg_value *v, bool any)
{
    const qg_tqc *first = NULL;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (!t || !qg_tqc_rounds(t) || qg_tqc_param(t).n != 1)
            return NULL;
        first = first ? first : t;
        if (!any && qg_tqc_param(t).scale[0] != qg_tqc_param(first).scale[0])
            return NULL;
        if (!same_codes(&qg_tqc_root(t)->scheme, &qg_tqc_root(first)->scheme))
            return NULL;
    }
    return v->is_output ? NULL : first;
}

bool qg_attempt_by_readers(const qg_value *v)
{
    const qg_tqc *p = v->def ? qg_producer_tqc(v) : NULL;
    bool by_producer = p && p->state != QG_TQC_FP32 && p->state != QG_TQC_SOI;
    return v->def && !by_producer && readers_tqc(v, false);
}

const qg_tqc *qg_attempt_tqc(const qg_value *v)
{
    if (qg_attempt_by_readers(v))
        return readers_tqc(v, false);
    if (v->def)
        return qg_producer_tqc(v);
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (t)
            return t;
    }
    return NULL;
}

/* An output that does not round is stored when the node moves codes: an input of its
 * group rounds, or is stored. */
static bool moves_codes(const qg_attempt *t, const qg_tqc *out)
{
    const qg_node *n = out->node;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_tqc *in = qg_input_tqc(n, k);
        const qg_value *v = n->in[k];
        if (!in || qg_tqc_is_constant(in) || qg_tqc_root(in) != qg_tqc_root(out))
            continue;
        const qg_tqc *from = qg_attempt_tqc(v);
        if (qg_tqc_rounds(in) || (t->kind[v->id] == QG_AS_CODES && from &&
                                  qg_tqc_root(from) == qg_tqc_root(out)))
            return true;
    }
    return false;
}

static bool has_step(const qg_seen *o)
{
    return o && o->kind == QG_SEEN_CODES && o->step > 0;
}

/* The steps of all inputs of the node are those of its output, or multiples of
 * them: a sum, a maximum, a copy (and with multiples a mean) of codes lies on a grid
 * without being rounded to it, so the grid tells nothing.  A product with weights lies
 * on no such grid. */
static bool inherits_grid(const qg_attempt *t, const qg_value *v, const qg_seen *o,
                          bool multiples)
{
    const qg_node *n = v->def;
    size_t inputs = 0;
    if (n && qg_node_has(n, QG_OP_COMPUTE))
        return false;
    for (uint32_t k = 0; n && k < n->n_in; k++) {
        const qg_value *in = n->in[k];
        const qg_seen *s = in ? qg_attempt_seen(t, in) : NULL;
        if (!s) /* a constant, or integers: shapes, indices */
            continue;
        if (!has_step(s) || !(o->step > 0))
            return false;
        double ratio = multiples ? nearbyint(s->step / o->step) : 1;
        if (ratio < 1 || !qg_grid_same_step(s->step, ratio * o->step))
            return false;
        inputs++;
    }
    return inputs > 0;
}

/* The trace has a grid that does not follow from the inputs' of the node, and all
 * readers round the value to such codes: it is the grid of each of them, also where the
 * draft has other scales for two readers, from these samples. */
static bool is_read_as_codes(const qg_attempt *t, const qg_value *v)
{
    const qg_tqc *p = v->def ? qg_producer_tqc(v) : NULL;
    const qg_seen *o = v->def ? qg_attempt_seen(t, v) : NULL;
    bool by_producer = p && p->state != QG_TQC_FP32 && p->state != QG_TQC_SOI;
    return !by_producer && has_step(o) && readers_tqc(v, true) &&
           !inherits_grid(t, v, o, true);
}

const qg_tqc *qg_attempt_holder(const qg_attempt *t, const qg_value *v, size_t k)
{
    if (!qg_attempt_by_readers(v) && !is_read_as_codes(t, v))
        return k == 0 ? qg_attempt_tqc(v) : NULL;
    return k < v->use.n ? qg_input_tqc(v->use.at[k].node, v->use.at[k].slot) : NULL;
}

bool qg_attempt_is_held(const qg_attempt *t, const qg_value *v, const qg_tqc *root)
{
    const qg_tqc *x;
    for (size_t k = 0; (x = qg_attempt_holder(t, v, k)); k++)
        if (qg_tqc_root(x) == root)
            return true;
    return false;
}

static qg_stored_as kind_of(const qg_attempt *t, const qg_value *v)
{
    const qg_tqc *tqc = qg_attempt_holder(t, v, 0);
    if (v->constant || v->type.dtype != QG_F32 ||
        (v->def && v->def->platform == QG_PLATFORM_SOI))
        return QG_AS_ABSENT;
    if (tqc && qg_tqc_rounds(tqc))
        return QG_AS_CODES;
    if (!tqc || tqc->state != QG_TQC_OVERLAPPED)
        return QG_AS_FLOAT;
    return v->def && moves_codes(t, tqc) ? QG_AS_CODES : QG_AS_SILENT;
}

/* The trace has another grid behind the node than in front of it, although the node
 * moves values without changing them. */
static bool regrids(const qg_attempt *t, const qg_node *n)
{
    const qg_seen *in = n->n_in && n->in[0] ? qg_attempt_seen(t, n->in[0]) : NULL;
    for (uint32_t k = 0; has_step(in) && k < n->n_out; k++) {
        const qg_seen *out = n->out[k] ? qg_attempt_seen(t, n->out[k]) : NULL;
        if (has_step(out) && in->zero_known && out->zero_known &&
            !qg_grid_same_seen(in, out))
            return true;
    }
    return false;
}

/* t->apart: one such node tells that the device's operator has two grids. */
static qg_status find_apart(qg_attempt *t)
{
    const qg_graph *g = t->own.graph;
    t->apart = QG_NEWN(g->arena, g->node.n, uint8_t);
    if (!t->apart)
        return qg_nomem(t->how->m->ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (t->apart[i] || !qg_node_has(n, QG_OP_PASSIVE) || !regrids(t, n))
            continue;
        for (size_t k = 0; k < g->node.n; k++)
            t->apart[k] |= g->node.at[k]->op == n->op;
    }
    return QG_OK;
}

/* Nodes are in topological order after the passes, so inputs are known first. */
qg_status qg_attempt_find_kinds(qg_attempt *t)
{
    const qg_graph *g = t->own.graph;
    t->kind = QG_NEWN(g->arena, g->value.n, qg_stored_as);
    if (!t->kind)
        return qg_nomem(t->how->m->ctx);
    QG_TRY(find_apart(t));
    for (size_t i = 0; i < g->input.n; i++)
        t->kind[g->input.at[i]->id] = kind_of(t, g->input.at[i]);
    for (size_t i = 0; i < g->node.n; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++) {
            const qg_value *v = g->node.at[i]->out[k];
            if (v)
                t->kind[v->id] = kind_of(t, v);
        }
    return QG_OK;
}

/* The node multiplies codes by a constant, so each is as many steps as before. */
static bool is_scaled(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    const qg_seen *from = NULL;
    for (uint32_t k = 0; v->def && k < v->def->n_in; k++) {
        const qg_seen *s = v->def->in[k] ? qg_attempt_seen(t, v->def->in[k]) : NULL;
        if (!s)
            continue;
        if (from || !has_step(s))
            return false;
        from = s;
    }
    return from && from->levels == o->levels &&
           from->high - from->low == o->high - o->low;
}

/* A sum of products of codes: its step is the product of the scales of input and
 * weight, or a multiple of it, and its codes are more than 8 bits have. */
static bool is_accumulator(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    const qg_node *n = v->def;
    int w = n ? qg_op_slot_of(n->op, 'w') : -1;
    const qg_tqc *weight = w > 0 ? qg_input_tqc(n, (uint32_t)w) : NULL;
    const qg_seen *in = weight && n->in[0] ? qg_attempt_seen(t, n->in[0]) : NULL;
    qg_qparam p = weight ? qg_tqc_param(weight) : (qg_qparam){ 0 };
    if (!has_step(in) || p.n != 1 || o->high - o->low <= 255)
        return false;
    double product = in->step * (double)p.scale[0],
           ratio = nearbyint(o->step / product);
    return ratio >= 1 && fabs(o->step / product - ratio) < NEAR * ratio;
}

/* The grid follows from those of the inputs, without any rounding. */
static bool is_derived(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    return inherits_grid(t, v, o, true) || is_scaled(t, v, o) ||
           is_accumulator(t, v, o);
}

/* More multiples of the step than the scheme of the record has codes; without a record,
 * than 8 bits have. */
static bool exceeds(const qg_value *v, const qg_seen *o)
{
    const qg_tqc *t = qg_attempt_tqc(v);
    if (t && t->scheme.policy & QG_FLOATING)
        return false;
    return o->high - o->low > (t ? (double)(t->scheme.qmax - t->scheme.qmin) : 255);
}

/* The step is the n-th part of that of the only input, which no grid of its own is by
 * chance.  A grid that the trace gives was one of the device. */
static bool is_part(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    const qg_seen *in = v->def && v->def->n_in && v->def->in[0]
                            ? qg_attempt_seen(t, v->def->in[0])
                            : NULL;
    return !o->zero_known && has_step(in) && !qg_grid_is_common_step(in->step) &&
           nearbyint(in->step / o->step) <= MOST_PARTS && inherits_grid(t, v, o, true);
}

/* A mean over a window or over axes. */
static bool averages(const qg_node *n)
{
    return qg_node_has(n, QG_OP_POOLING | QG_OP_NONNEGATIVE) &&
           !qg_node_has(n,
                        QG_OP_PASSIVE | QG_OP_ELEMENTWISE | QG_OP_COMPUTE | QG_OP_JOIN);
}

bool qg_attempt_is_fine_mean(const qg_attempt *t, const qg_value *v)
{
    const qg_seen *o = qg_attempt_seen(t, v),
                  *in = v->def && v->def->n_in && v->def->in[0]
                            ? qg_attempt_seen(t, v->def->in[0])
                            : NULL;
    return o && o->kind == QG_SEEN_REAL && has_step(in) && in->high - in->low > STEPS &&
           averages(v->def);
}

/* Means of codes, and copies of them, which are on a grid of more codes than the record
 * has, or on a part of the input's. */
static bool is_mean(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    if (qg_attempt_is_fine_mean(t, v))
        return true;
    for (int depth = 0; depth < FAR; depth++) {
        if (!has_step(o) || !(exceeds(v, o) || is_part(t, v, o)) ||
            !inherits_grid(t, v, o, true))
            return false;
        if (!inherits_grid(t, v, o, false))
            return true;
        v = v->def->in[0]; /* a copy, or a sum, of means */
        o = v ? qg_attempt_seen(t, v) : NULL;
    }
    return false;
}

/* A mean of codes, or a copy of one, is rounded by the draft: to a grid of its own, or
 * when the node that copies it reads it. */
static bool rounds_mean(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    const qg_tqc *out = v->def ? qg_producer_tqc(v) : NULL,
                 *in = v->def ? qg_input_tqc(v->def, 0) : NULL;
    bool copies = inherits_grid(t, v, o, false);
    return copies ? in && qg_tqc_rounds(in)
                  : out && qg_tqc_rounds(out) && qg_tqc_root(out) == out;
}

bool qg_attempt_agrees(const qg_attempt *t, const qg_value *v, bool *counts)
{
    const qg_seen *o = qg_attempt_seen(t, v);
    qg_stored_as as = t->kind[v->id];
    *counts = o && as != QG_AS_ABSENT && o->kind != QG_SEEN_UNSURE &&
              o->kind != QG_SEEN_HIDDEN;
    if (*counts &&
        is_mean(t, v, o)) /* it is not rounded: evidence where a draft does */
        *counts = rounds_mean(t, v, o);
    if (!*counts || is_mean(t, v, o))
        return false;
    if (o->kind == QG_SEEN_CODES && inherits_grid(t, v, o, false))
        return as != QG_AS_CODES || !exceeds(v, o);
    if (o->kind == QG_SEEN_CODES && as == QG_AS_CODES && exceeds(v, o))
        return false;
    if (as != QG_AS_CODES && has_step(o) && is_derived(t, v, o))
        return true;
    if (o->kind == QG_SEEN_REAL && qg_attempt_by_readers(v))
        return true; /* it can be shown before they round it */
    return (o->kind == QG_SEEN_CODES) == (as == QG_AS_CODES);
}

/* --- grids --- */

/* Codes in the trace: an inner value that a sum of codes puts on their grid is none. */
static bool visible(const qg_attempt *t, const qg_value *v)
{
    const qg_seen *o = v ? qg_attempt_seen(t, v) : NULL;
    return has_step(o) && t->kind[v->id] != QG_AS_ABSENT && !is_mean(t, v, o) &&
           (t->kind[v->id] == QG_AS_CODES || !is_derived(t, v, o));
}

/* Codes in records and trace. */
bool qg_attempt_comparable(const qg_attempt *t, const qg_value *v)
{
    const qg_tqc *x = visible(t, v) ? qg_attempt_holder(t, v, 0) : NULL;
    return x && t->kind[v->id] == QG_AS_CODES &&
           qg_grid_can_hold(qg_tqc_root(x), qg_attempt_seen(t, v));
}

/* One group in the records; or two with the scale that both have in the trace. */
static bool is_shared(const qg_tqc *p, const qg_tqc *q, bool equal)
{
    qg_qparam s = qg_tqc_param(p), u = qg_tqc_param(q);
    return qg_tqc_root(p) == qg_tqc_root(q) ||
           (equal && s.n == 1 && u.n == 1 && s.scale[0] == u.scale[0]);
}

/* Steps of float formats are those of the scales only where these are decided. */
static bool has_scale(const qg_tqc *t, const qg_seen *o)
{
    const qg_scheme *s = &qg_tqc_root(t)->scheme;
    return !(s->policy & QG_FLOATING) || qg_grid_decides_float(s, o);
}

/* The record of a value that a node reads. */
static const qg_tqc *record_at(const qg_attempt *t, const qg_node *n, uint32_t k)
{
    const qg_value *v = n->in[k];
    return qg_attempt_by_readers(v) || is_read_as_codes(t, v) ? qg_input_tqc(n, k)
                                                              : qg_attempt_tqc(v);
}

/* Appends the link of two values, of which p and q are the records at the node, unless
 * it tells nothing.  apart: the node moves values
 * to grids of their own, which are equal where the largest value is the same. */
static void add_link(const qg_attempt *t, qg_link *l, const qg_tqc *p, const qg_tqc *q,
                     bool apart, size_t *n)
{
    const qg_value *a = l->a, *b = l->b;
    const qg_seen *x = qg_attempt_seen(t, a), *y = qg_attempt_seen(t, b);
    l->known = qg_attempt_comparable(t, a) && qg_attempt_comparable(t, b);
    l->equal = qg_grid_same_seen(x, y) &&
               (!x->zero_known || !y->zero_known || x->zero == y->zero);
    l->shared = l->known && is_shared(p, q, l->equal);
    bool by_chance =
        l->equal && !l->shared && (apart || qg_grid_is_common_step(x->step));
    *n += !by_chance && (!l->known || (has_scale(p, x) && has_scale(q, y)));
}

size_t qg_attempt_links(const qg_attempt *t, const qg_node *n, qg_link out[QG_LINKS])
{
    size_t found = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *a = n->in[i];
        if (!visible(t, a))
            continue;
        const qg_tqc *p = record_at(t, n, i);
        for (uint32_t k = i + 1; k < n->n_in && found < QG_LINKS; k++) {
            out[found] = (qg_link){ .node = n, .a = a, .b = n->in[k] };
            if (visible(t, n->in[k]) && n->in[k] != a)
                add_link(t, &out[found], p, record_at(t, n, k), false, &found);
        }
        for (uint32_t k = 0; k < n->n_out && found < QG_LINKS; k++) {
            out[found] = (qg_link){ .node = n, .a = a, .b = n->out[k], .output = true };
            if (visible(t, n->out[k]))
                add_link(t, &out[found], p, qg_attempt_holder(t, n->out[k], 0),
                         t->apart[n->id], &found);
        }
    }
    return found;
}

static void count(qg_portion *p, bool yes)
{
    p->part += yes;
    p->of++;
}

/* Votes on the codes of schemes. */
typedef struct votes {
    size_t unusual; /* values */
    size_t least,
        reached; /* symmetric values whose lowest code is that of the type, and
                            * the one above it */
} votes;

static void vote(const qg_tqc *root, const qg_seen *o, votes *x)
{
    const qg_scheme *s = &root->scheme;
    x->unusual += qg_grid_fits(root, o) && !qg_grid_is_usual(root, o);
    if (!(s->policy & QG_SYMMETRIC) || s->policy & QG_FLOATING || s->qmin >= 0 ||
        o->low < (double)s->qmin || s->bits < BYTE)
        return;
    double least = -ldexp(1, s->bits - 1);
    x->least += o->low == least;
    x->reached += s->qmin == (int64_t)least && o->low == least + 1;
}

/* What the trace shows of one value. */
static void count_value(qg_attempt *t, const qg_value *v, votes *x)
{
    const qg_seen *o = qg_attempt_seen(t, v);
    bool counts, agrees = qg_attempt_agrees(t, v, &counts);
    if (counts)
        count(&t->kinds, agrees);
    t->unshown +=
        o && o->kind == QG_SEEN_HIDDEN && v->def && t->kind[v->id] == QG_AS_CODES;
    if (!visible(t, v))
        return;
    bool known = qg_attempt_comparable(t, v);
    count(&t->grids, known && qg_grid_matches(qg_attempt_holder(t, v, 0), o));
    count(&t->schemes,
          known && qg_grid_fits(qg_tqc_root(qg_attempt_holder(t, v, 0)), o));
    if (known)
        vote(qg_tqc_root(qg_attempt_holder(t, v, 0)), o, x);
}

void qg_attempt_count(qg_attempt *t)
{
    const qg_graph *g = t->own.graph;
    qg_link link[QG_LINKS];
    votes x = { 0 };
    for (size_t i = 0; i < g->value.n; i++)
        count_value(t, g->value.at[i], &x);
    if (MOSTLY * x.unusual > t->schemes.of)
        t->schemes.part -= x.unusual;
    else if (x.least == 0 && x.reached >= SEVERAL)
        t->schemes.part -= x.reached < t->schemes.part ? x.reached : t->schemes.part;
    for (size_t i = 0; i < g->node.n; i++) {
        size_t n = qg_attempt_links(t, g->node.at[i], link);
        for (size_t k = 0; k < n; k++)
            count(&t->links, link[k].known && link[k].shared == link[k].equal);
    }
}

static size_t contradicted(qg_portion p) { return p.of - p.part; }

size_t qg_attempt_contradicted(const qg_attempt *t)
{
    return contradicted(t->kinds) + contradicted(t->links) + contradicted(t->schemes);
}

/* --- decisions as one number --- */

/* FNV-1a. */
static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return h;
}

uint64_t qg_attempt_decisions(const qg_attempt *t)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < t->own.quant->tqc.n; i++) {
        const qg_tqc *x = t->own.quant->tqc.at[i], *root = qg_tqc_root(x);
        const qg_scheme *s = &root->scheme;
        const int64_t fields[] = { qg_tqc_rounds(x), s->policy,  s->rounding, s->bits,
                                   s->exponent_bits, s->variant, s->axis,     s->block,
                                   s->qmin,          s->qmax };
        h = mix(h, x->name, strlen(x->name) + 1);
        h = mix(h, root->name, strlen(root->name) + 1);
        h = mix(h, fields, sizeof fields);
    }
    return h;
}
