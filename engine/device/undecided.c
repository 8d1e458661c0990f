#include "engine/device/undecided.h"

#include <string.h>

#include "engine/device/scales.h"

/* Bits of codes whose limits a constant does not reach. */
enum { WIDE = 32 };
/* Different elements below which multiples of a power of two are no evidence of such a
 * scale: coordinates, counts and halves of them are on that grid by themselves. */
enum { COARSE = 32 };

/* What is known about the groups of one attempt. */
typedef struct evidence {
    const qg_attempt *t;
    const qg_model *m;      /* the attempt's */
    const qg_seen **anchor; /* [TQCs] of a root: a visible value with its grid */
    const qg_rivals *rivals;
    uint8_t *given;  /* [TQCs] of a root: the scale is by a rule of the draft */
    uint8_t *off;    /* [TQCs] of a root: a value of the group is not the dump's */
    uint8_t *chance; /* [TQCs] of a root: what shares its grid can do so by chance */
} evidence;

static bool is_confirmed(const evidence *e, const qg_node *n)
{
    return qg_attempt_confirmation(e->t, n) >= QG_CONFIRMED;
}

/* Whether an anchor shows the scale of its group; in a float format it can be one of
 * several. */
static bool decides(const qg_tqc *root, const qg_seen *anchor)
{
    return !(root->scheme.policy & QG_FLOATING) ||
           qg_grid_decides_float(&root->scheme, anchor);
}

/* --- why --- */

/* What a constant, or a scale derived from one, lacks; NULL: nothing. */
static const char *about_constant(const evidence *e, const qg_tqc *t, const char **what)
{
    *what = "weights";
    for (int i = 0; i < 2; i++) {
        const qg_tqc *from = t->lender[i] ? qg_tqc_root(t->lender[i]) : NULL;
        if (t->derive != QG_DERIVE_NONE && from && !qg_tqc_is_constant(from) &&
            !e->anchor[from->id])
            return "its scale is derived from one that is not visible";
    }
    const qg_tqc *root = qg_tqc_root(t);
    const qg_seen *anchor = e->anchor[root->id];
    if (!qg_tqc_is_constant(root) && (!anchor || !decides(root, anchor)))
        return "it has the scale of a value that is not visible";
    return is_confirmed(e, t->node) ? NULL
                                    : "no result confirms how the constant is rounded";
}

/* The same of the limits of a constant whose codes are decided. */
static const char *about_limits(const qg_tqc *t, const char **what)
{
    *what = "limits";
    return qg_tqc_is_constant(t) && t->state != QG_TQC_FP32 && t->scheme.bits >= WIDE
               ? "no code reaches the limits of a bias, so they have no effect"
               : NULL;
}

/* The same of a value on which trace and backend disagree, or of which the trace tells
 * nothing. */
static const char *about_rounding(const evidence *e, const qg_tqc *t, const char **what)
{
    const qg_value *v = qg_tqc_value(t),
                   *own = qg_graph_value(e->t->own.graph, v->name);
    const qg_seen *s = qg_attempt_seen(e->t, v);
    bool counts = false, agrees = own && qg_attempt_agrees(e->t, own, &counts);
    *what = "rounding";
    if (!s)
        return "the value is not one of the float network";
    if (s->kind == QG_SEEN_UNSURE)
        return s->levels >= QG_SEEN_FEW ? "floats of 16 bits have a grid of their own"
                                        : "too few different elements";
    if (s->kind == QG_SEEN_CODES && !(s->step > 0))
        return "integers of an unknown scale";
    if (s->kind == QG_SEEN_CODES && s->levels < COARSE &&
        qg_tqc_root(t)->scheme.policy & (QG_FLOATING | QG_POWER_OF_2) &&
        qg_grid_is_common_step(s->step))
        return "few different elements, multiples of a power of two: they lie on its "
               "grid without being rounded, too";
    if (counts && !agrees)
        return s->kind == QG_SEEN_HIDDEN ? "not in the dump, and no change of the "
                                           "backend explains why"
                                         : "no change of the backend explains the dump";
    if (s->kind == QG_SEEN_HIDDEN && v->def && !is_confirmed(e, v->def)) {
        *what = "fusion";
        return "not in the dump: fused, or stored and not shown";
    }
    return NULL;
}

/* One of the values that the node reads lies on another grid than its result. */
static bool regrids(const evidence *e, const qg_node *n)
{
    const qg_value *y = n->n_out ? n->out[0] : NULL;
    const qg_seen *out = y ? qg_attempt_seen(e->t, y) : NULL;
    for (uint32_t k = 0; out && out->step > 0 && k < n->n_in; k++) {
        const qg_seen *in = n->in[k] ? qg_attempt_seen(e->t, n->in[k]) : NULL;
        if (in && in->step > 0 && !qg_grid_same_step(in->step, out->step))
            return true;
    }
    return false;
}

/* A node that moves values rounds what it reads or what it gives: the codes are alike.
 * NULL: it does neither, or more. */
static const char *about_moving(const evidence *e, const qg_tqc *t, const char **what)
{
    const qg_node *n = t->node;
    bool joins = qg_node_has(n, QG_OP_JOIN) && !qg_node_has(n, QG_OP_ELEMENTWISE);
    *what = "rounding";
    return (joins || qg_node_has(n, QG_OP_PASSIVE)) && regrids(e, n)
               ? "the node moves values to another grid: it rounds what it reads, or "
                 "its result"
               : NULL;
}

/* Why the trace does not decide a record; NULL: it does. */
static const char *reason(const evidence *e, const qg_tqc *t, const char **what)
{
    const qg_tqc *root = qg_tqc_root(t);
    if (t->state == QG_TQC_SOI)
        return NULL;
    if (qg_tqc_is_constant(t))
        return t->state == QG_TQC_FP32 && is_confirmed(e, t->node)
                   ? NULL
                   : about_constant(e, t, what);
    *what = "rounding";
    const qg_graph *own = e->t->how->m->graph;
    if (!qg_graph_node(own, t->node->name) || !qg_graph_node(own, root->node->name))
        return "its node is made by a pass of the backend";
    const char *why = about_rounding(e, t, what);
    if (!why)
        why = about_moving(e, t, what);
    if (why || t->state == QG_TQC_FP32)
        return why;
    const qg_seen *anchor = e->anchor[root->id];
    *what = "grid";
    if (!anchor)
        return qg_scales_is_found(e->t, root)
                   ? "no array shows its scale; it is the one of the least errors"
                   : "no value of its group is visible on a grid";
    if (!decides(root, anchor))
        return "elements of a float format show its scale up to a power of two";
    *what = "zero point";
    return !anchor->zero_known && e->given[root->id] &&
                   root->scheme.policy & QG_ASYMMETRIC
               ? "floats show the step alone"
               : NULL;
}

/* A node that the backend leaves in float has no records: whether the device rounds
 * there is undecided unless the trace shows a result of it that lies on no grid.
 * NULL: it does. */
static const char *about_float(const evidence *e, const qg_node *n)
{
    for (uint32_t k = 0; n->platform == QG_PLATFORM_FP32 && k < n->n_out; k++) {
        const qg_seen *s = n->out[k] ? qg_attempt_seen(e->t, n->out[k]) : NULL;
        if (s && s->kind == QG_SEEN_CODES)
            return "the backend leaves the node in float, and its result lies on a "
                   "grid, so rounding it would change nothing";
        if (s && s->kind != QG_SEEN_REAL)
            return "the backend leaves the node in float, and its result is not in the "
                   "dump";
    }
    return NULL;
}

/* --- roundings at a border --- */

/* The node moves codes: its result has the grid of a value that it reads. */
static bool passes_codes(const evidence *e, const qg_node *n, const qg_seen *out)
{
    bool moves = qg_node_has(n, QG_OP_PASSIVE) || qg_node_has(n, QG_OP_JOIN);
    for (uint32_t k = 0; moves && k < n->n_in; k++) {
        const qg_seen *in = n->in[k] ? qg_attempt_seen(e->t, n->in[k]) : NULL;
        if (in && in->step > 0 && qg_grid_same_step(in->step, out->step))
            return true;
    }
    return false;
}

/* The draft rounds v where it is computed, and the trace does not tell that from a
 * float result that is rounded when it is read: the result is not the device's, or it
 * is with both. */
static bool is_rounded_by_either(const evidence *e, const qg_value *v)
{
    const qg_seen *s = v->def ? qg_attempt_seen(e->t, v) : NULL;
    const qg_tqc *p = v->def ? qg_producer_tqc(v) : NULL;
    if (!s || s->kind != QG_SEEN_CODES || !(s->step > 0) || !p || !qg_tqc_rounds(p) ||
        passes_codes(e, v->def, s))
        return false;
    uint64_t own = e->t->unequal[s->value->id], real = e->t->real[s->value->id];
    return e->t->share[s->value->id] < QG_CONFIRMED ||
           real <= 2 * own + QG_ATTEMPT_CHANCE;
}

/* The node is in float and can round such a value. */
static bool may_round_input(const evidence *e, const qg_node *n)
{
    for (uint32_t k = 0; n->platform == QG_PLATFORM_FP32 && k < n->n_in; k++)
        if (n->in[k] && is_rounded_by_either(e, n->in[k]))
            return true;
    return false;
}

/* The node rounds such a value, and a node that reads it is in float. */
static bool may_leave_rounding(const evidence *e, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        for (size_t i = 0; v && i < v->use.n; i++)
            if (v->use.at[i].node->platform == QG_PLATFORM_FP32 &&
                is_rounded_by_either(e, v))
                return true;
    }
    return false;
}

/* --- what the file does not give --- */

/* The file gives other elements than the dump has. */
static bool is_off(const evidence *e, const qg_value *v)
{
    const qg_seen *s = v && !v->constant ? qg_attempt_seen(e->t, v) : NULL;
    double share = s ? e->t->share[s->value->id] : -1;
    return share >= 0 && share < QG_CONFIRMED;
}

/* The node reads or writes such a value: something is decided otherwise there. */
static bool touches_off(const evidence *e, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_in; k++)
        if (is_off(e, n->in[k]))
            return true;
    for (uint32_t k = 0; k < n->n_out; k++)
        if (is_off(e, n->out[k]))
            return true;
    return false;
}

/* It does, or the node before it does and nothing is seen between them. */
static bool is_near_off(const evidence *e, const qg_node *n)
{
    bool near = touches_off(e, n);
    for (uint32_t k = 0; k < n->n_in && !near; k++) {
        const qg_value *v = n->in[k];
        const qg_seen *s = v && v->def ? qg_attempt_seen(e->t, v) : NULL;
        near = s && e->t->share[s->value->id] < 0 && touches_off(e, v->def);
    }
    return near;
}

/* The value of which v holds elements, or means of them. */
static const qg_value *origin(const qg_value *v)
{
    while (v->def && qg_node_has(v->def, QG_OP_PASSIVE | QG_OP_POOLING) &&
           v->def->in[0])
        v = v->def->in[0];
    return v;
}

/* A node joins values, and all that it reads from one origin has the grid of its
 * result: the largest element gives both, without any sharing. */
static bool joins_by_chance(const evidence *e, const qg_node *n)
{
    const qg_value *y = n->n_out ? n->out[0] : NULL, *first = NULL;
    const qg_seen *out = y ? qg_attempt_seen(e->t, y) : NULL;
    if (!out || !(out->step > 0) || !qg_node_has(n, QG_OP_JOIN) ||
        qg_node_has(n, QG_OP_ELEMENTWISE))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_value *v = n->in[k] && !n->in[k]->constant ? n->in[k] : NULL;
        const qg_seen *in = v ? qg_attempt_seen(e->t, v) : NULL;
        if (!in || !(in->step > 0) || !qg_grid_same_step(in->step, out->step))
            continue;
        if (first && origin(v) != first)
            return false;
        first = origin(v);
    }
    return first != NULL;
}

/* Marks the groups of the nodes above. */
static qg_status find_doubts(evidence *e)
{
    const qg_quant *q = e->m->quant;
    e->off = QG_NEWN(e->m->graph->arena, q->tqc.n, uint8_t);
    e->chance = QG_NEWN(e->m->graph->arena, q->tqc.n, uint8_t);
    if (!e->off || !e->chance)
        return qg_nomem(e->t->how->m->ctx);
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i], *root = qg_tqc_root(t);
        const qg_tqc *out = qg_output_tqc(t->node, 0);
        if (qg_tqc_is_constant(t))
            continue;
        e->off[root->id] |= is_near_off(e, t->node);
        e->chance[root->id] |= !t->is_output && out && qg_tqc_root(out) == root &&
                               joins_by_chance(e, t->node);
    }
    return QG_OK;
}

/* What is left of a record for which there is a reason of no other kind; NULL: it is
 * decided. */
static const char *about_doubt(const evidence *e, const qg_tqc *t, const char **what)
{
    const qg_tqc *root = qg_tqc_root(t);
    *what = "result";
    if (is_near_off(e, t->node))
        return "a value of the node, or of one before, is not the dump's with this "
               "file";
    if (!qg_tqc_is_constant(t) && e->off[root->id])
        return "a value of its group is not the dump's with this file";
    *what = "grid";
    return !qg_tqc_is_constant(t) && e->chance[root->id]
               ? "a join has the grid of what it reads, by sharing or by chance"
               : NULL;
}

/* --- the table --- */

/* The group of t has the grid that s shows. */
static void anchor(evidence *e, const qg_tqc *t, const qg_seen *s)
{
    const qg_tqc *root = qg_tqc_root(t);
    const qg_seen **at = &e->anchor[root->id];
    if (!qg_grid_matches(root, s))
        return;
    if (!*at || s->zero_known || !decides(root, *at))
        *at = s;
    e->given[root->id] |= qg_tqc_is_prescribed(root);
}

/* The anchor of every group, one with a known zero point where there is one; and
 * whether the draft gives its scale. */
static qg_status find_anchors(evidence *e)
{
    const qg_graph *g = e->m->graph;
    size_t n = e->m->quant->tqc.n;
    e->anchor = QG_NEWN(g->arena, n, const qg_seen *);
    e->given = QG_NEWN(g->arena, n, uint8_t);
    if (!e->anchor || !e->given)
        return qg_nomem(e->t->how->m->ctx);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_seen *s = v->constant ? NULL : qg_attempt_seen(e->t, v);
        const qg_tqc *x;
        if (!s || s->kind != QG_SEEN_CODES || !(s->step > 0))
            continue;
        for (size_t k = 0; (x = qg_attempt_holder(e->t, v, k)); k++)
            anchor(e, x, s);
    }
    return QG_OK;
}

/* One more endpoint; t NULL: it is only counted. */
static qg_status list(qg_report *r, qg_table *t, size_t *n, const char *const cell[3])
{
    ++*n;
    return t ? qg_table_cells(r, t, qg_cell_text(cell[0]), qg_cell_text(cell[1]),
                              qg_cell_text(cell[2]))
             : QG_OK;
}

/* Backends that are not told apart decide otherwise; *why stays where none does. */
static qg_status about_rival(const evidence *e, qg_endpoint at, const char **what,
                             const char **why, qg_arena *a)
{
    const qg_rival *r = qg_rivals_at(e->rivals, at);
    if (!r)
        return QG_OK;
    const qg_portion p = e->t->results;
    bool whole = r->whole && p.part == p.of && qg_attempt_contradicted(e->t) == 0;
    *what = r->ties ? "ties" : "backend";
    *why = qg_arena_printf(a, "%s explains %s and %s", r->who,
                           whole ? "the dump as well" : "as much of the dump",
                           r->ties ? "rounds half-way values otherwise"
                                   : "decides otherwise");
    return *why ? QG_OK : qg_nomem(e->t->how->m->ctx);
}

static qg_status list_records(const evidence *e, qg_report *r, qg_table *t, size_t *n)
{
    const qg_quant *q = e->m->quant;
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < q->tqc.n; i++) {
        const char *what, *why = reason(e, q->tqc.at[i], &what);
        if (!why)
            QG_TRY(
                about_rival(e, qg_tqc_endpoint(q->tqc.at[i]), &what, &why, r->arena));
        if (!why && may_leave_rounding(e, q->tqc.at[i]->node)) {
            what = "rounding";
            why = "rounds its result, or the node behind rounds what it reads";
        }
        if (!why)
            why = about_doubt(e, q->tqc.at[i], &what);
        if (!why)
            why = about_limits(q->tqc.at[i], &what);
        if (why)
            QG_TRY(list(r, t, n,
                        (const char *[]){ qg_tqc_text(q->tqc.at[i], at), what, why }));
    }
    return QG_OK;
}

/* Endpoints of which the attempt has no record. */
static qg_status list_others(const evidence *e, qg_report *r, qg_table *t, size_t *n)
{
    const qg_graph *g = e->m->graph;
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *node = g->node.at[i];
        const char *lost = about_float(e, node);
        if (!lost && may_round_input(e, node))
            lost = "rounds what it reads, or the node before rounds its result";
        if (!lost && is_near_off(e, node))
            lost = "a value of the node is not the dump's with this file";
        for (uint32_t k = 0; k < qg_node_endpoints(node); k++) {
            const char *what = "rounding", *why = lost;
            qg_endpoint end = qg_node_endpoint(node, k);
            if (!why && qg_endpoint_value(end) && !qg_endpoint_tqc(end))
                QG_TRY(about_rival(e, end, &what, &why, r->arena));
            if (why && qg_endpoint_value(end))
                QG_TRY(list(r, t, n,
                            (const char *[]){ qg_endpoint_text(end, at), what, why }));
        }
    }
    return QG_OK;
}

/* Inputs that a node of the float network has and that the passes took away. */
static qg_status list_shortened(const evidence *e, qg_report *r, qg_table *t, size_t *n)
{
    const qg_graph *own = e->t->how->m->graph;
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < own->node.n; i++) {
        const qg_node *node = own->node.at[i],
                      *left = qg_graph_node(e->m->graph, node->name);
        for (uint32_t k = left ? left->n_in : node->n_in; k < node->n_in; k++) {
            qg_endpoint end = qg_node_endpoint(node, k);
            if (node->in[k] && node->in[k]->type.dtype == QG_F32 &&
                !qg_rivals_at(e->rivals, end))
                QG_TRY(list(r, t, n,
                            (const char *[]){ qg_endpoint_text(end, at), "backend",
                                              "a pass of the backend takes the input "
                                              "away" }));
        }
    }
    return QG_OK;
}

/* Endpoints that other backends keep and the passes of this one do not. */
static qg_status list_lost(const evidence *e, qg_report *r, qg_table *t, size_t *n)
{
    char slot[QG_SLOT_TEXT];
    for (size_t i = 0; i < e->rivals->n; i++) {
        const qg_rival *x = &e->rivals->at[i];
        if (qg_rival_is_in(x, e->m->graph))
            continue;
        const char *at = qg_arena_printf(r->arena, "%s.%s", x->node,
                                         qg_slot_text(x->is_output, x->slot, slot));
        const char *why = qg_arena_printf(
            r->arena, "a pass of the backend changes the node; %s keeps it", x->who);
        if (!at || !why)
            return qg_nomem(r->ctx);
        QG_TRY(list(r, t, n, (const char *[]){ at, "backend", why }));
    }
    return list_shortened(e, r, t, n);
}

/* *others: of the n endpoints those without a record. */
static qg_status list_all(const evidence *e, qg_report *r, qg_table *t, size_t *n,
                          size_t *others)
{
    *n = *others = 0;
    QG_TRY(list_records(e, r, t, n));
    size_t records = *n;
    QG_TRY(list_others(e, r, t, n));
    QG_TRY(list_lost(e, r, t, n));
    *others = *n - records;
    return QG_OK;
}

qg_status qg_report_undecided(const qg_attempt *t, const qg_rivals *rivals,
                              qg_report *r)
{
    evidence e = { .t = t, .m = qg_attempt_model(t), .rivals = rivals };
    size_t n, others;
    qg_table *table;
    QG_TRY(find_anchors(&e));
    QG_TRY(find_doubts(&e));
    QG_TRY(list_all(&e, r, NULL, &n, &others));
    QG_TRY(qg_report_add(r, "endpoints", qg_cell_count(e.m->quant->tqc.n + others)));
    QG_TRY(qg_report_add(r, "undecided_endpoints", qg_cell_count(n)));
    QG_TRY(qg_report_table(r, "undecided", "endpoint what why", &table));
    return list_all(&e, r, table, &n, &others);
}
