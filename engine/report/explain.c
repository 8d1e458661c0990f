/* explain.c -- why a tensor is quantized as it is: fields, and the origin of each. */
#include <assert.h>

#include "engine/report/explain.h"

#include "engine/report/describe.h"
#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "passes/passes.h"

/* The object of a name, and the parts of it already explained. */
typedef struct answer {
    qg_ctx *ctx;
    qg_arena *arena; /* the report's */
    const qg_model *m;
    const qg_quant *q;
    const char *name;
    const qg_node *node;   /* of this name, or of the endpoint; NULL: none */
    const qg_value *value; /* of this name, or at the endpoint; NULL: none */
    QG_VEC(qg_endpoint) end;
    QG_VEC(const char *) by;
    qg_report *r;
} answer;

/* --- resolution of the name --- */

static bool known(const answer *a, qg_endpoint at)
{
    for (size_t i = 0; i < a->end.n; i++)
        if (qg_endpoint_same(a->end.at[i], at))
            return true;
    return false;
}

static qg_status add_endpoint(answer *a, qg_endpoint at)
{
    if (!qg_endpoint_value(at) || known(a, at))
        return QG_OK;
    return qg_vec_push(a->ctx, a->arena, &a->end, at);
}

static qg_status add_node(answer *a, const qg_node *n)
{
    a->node = n;
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++)
        QG_TRY(add_endpoint(a, qg_node_endpoint(n, k)));
    return QG_OK;
}

static qg_status add_value(answer *a, const qg_value *v)
{
    a->value = v;
    if (v->def)
        QG_TRY(add_endpoint(a, qg_output_at(v->def, v->def_slot)));
    for (size_t i = 0; i < v->use.n; i++)
        QG_TRY(add_endpoint(a, qg_input_at(v->use.at[i].node, v->use.at[i].slot)));
    return QG_OK;
}

static qg_status find_endpoint(answer *a, bool *found)
{
    qg_endpoint_name text;
    *found = false;
    if (!qg_endpoint_parse(a->name, &text))
        return QG_OK;
    const char *name = qg_arena_strndup(a->arena, a->name, text.n_node);
    if (!name)
        return qg_nomem(a->ctx);
    const qg_node *n = qg_graph_node(a->m->graph, name);
    if (!n)
        return QG_OK;
    qg_endpoint at;
    if (!qg_endpoint_named(a->m->graph, a->name, &at))
        return qg_node_fail(
            a->ctx, QG_ECONFIG, "explain", n, "has no %s%lld, expected one of %u %s",
            text.is_output ? "out" : "in", (long long)text.slot,
            text.is_output ? n->n_out : n->n_in, text.is_output ? "outputs" : "inputs");
    *found = true;
    a->node = n;
    a->value = qg_endpoint_value(at);
    return add_endpoint(a, at);
}

/* "group:Conv_3.out0": every endpoint of the group that this one is in. */
static qg_status find_group(answer *a, bool *found)
{
    static const char prefix[] = "group:";
    size_t n = sizeof prefix - 1;
    *found = strncmp(a->name, prefix, n) == 0;
    if (!*found)
        return QG_OK;
    const qg_tqc *first = qg_tqc_named(a->q->graph, a->name + n);
    if (!first)
        return qg_fail(
            a->ctx, QG_ECONFIG,
            "explain: '%s': no such endpoint is quantized, expected a member "
            "of a group, as in group:Conv_3.out0",
            a->name);
    for (const qg_tqc *t = first; t; t = qg_group_next(t, first))
        QG_TRY(add_endpoint(a, qg_tqc_endpoint(t)));
    return QG_OK;
}

static qg_status not_found(answer *a)
{
    const qg_graph *g = a->m->graph;
    char text[QG_SUGGEST_TEXT];
    qg_endpoint_name at;
    bool dotted = qg_endpoint_parse(a->name, &at);
    const char *dot = strrchr(a->name, '.'); /* of a mistyped slot, too */
    size_t n_node = dot ? (size_t)(dot - a->name) : strlen(a->name);
    const char *word = qg_arena_strndup(a->arena, a->name, n_node);
    if (!word)
        return qg_nomem(a->ctx);
    qg_suggest s = qg_suggest_for(word);
    for (size_t i = 0; i < g->node.n; i++)
        qg_suggest_try(&s, g->node.at[i]->name);
    for (size_t i = 0; i < g->value.n && !dotted; i++)
        qg_suggest_try(&s, g->value.at[i]->name);
    if (dotted && s.best)
        s.best = qg_arena_printf(a->arena, "%s%s", s.best, a->name + n_node);
    return qg_fail(a->ctx, QG_ECONFIG,
                   "explain: '%s': no such node, value or endpoint in %s, expected a "
                   "name like those of `qg dump`%s",
                   a->name, a->m->path, qg_suggest_text(&s, text));
}

static qg_status find(answer *a)
{
    bool found;
    const qg_graph *g = a->m->graph;
    const qg_node *n = qg_graph_node(g, a->name);
    const qg_value *v = qg_graph_value(g, a->name);
    if (n)
        QG_TRY(add_node(a, n));
    if (v)
        QG_TRY(add_value(a, v));
    if (n || v)
        return QG_OK;
    QG_TRY(find_group(a, &found));
    if (!found)
        QG_TRY(find_endpoint(a, &found));
    return found ? QG_OK : not_found(a);
}

/* --- the head of the page --- */

static qg_status head(answer *a)
{
    char shape[QG_SHAPE_TEXT];
    qg_report *r = a->r;
    QG_TRY(qg_report_add(r, "name", qg_cell_text(a->name)));
    if (a->node) {
        const qg_node *n = a->node;
        QG_TRY(qg_report_add(r, "node", qg_cell_text(n->name)));
        QG_TRY(qg_report_add(r, "operator", qg_cell_text(n->op->name)));
        QG_TRY(
            qg_report_add(r, "platform", qg_cell_text(qg_platform_name(n->platform))));
        QG_TRY(qg_report_add(r, "because", qg_cell_text(n->reason)));
    }
    if (a->value) {
        const qg_value *v = a->value;
        QG_TRY(qg_report_add(r, "value", qg_cell_text(v->name)));
        QG_TRY(qg_report_add(r, "type", qg_cell_text(qg_tensor_text(&v->type, shape))));
        QG_TRY(qg_report_add(r, "kind", qg_cell_text(qg_value_kind(v))));
        QG_TRY(qg_report_add(r, "consumers", qg_cell_count(v->use.n)));
    }
    return QG_OK;
}

/* The endpoint whose quantizer acts on the value there; NULL: none does. */
static const qg_tqc *acting(qg_endpoint at)
{
    const qg_tqc *t = qg_endpoint_tqc(at);
    const qg_tqc *made = t && !at.is_output ? qg_producer_tqc(qg_tqc_value(t)) : NULL;
    if (t && t->state == QG_TQC_OVERLAPPED)
        t = made && qg_tqc_rounds(made) ? made : qg_tqc_root(t);
    return qg_tqc_is_on_grid(t) ? t : NULL;
}

/* Where the named endpoints are rounded, each place once. */
static qg_status rounded_at(answer *a)
{
    char at[QG_ENDPOINT_TEXT];
    const char *text = "";
    for (size_t i = 0; i < a->end.n && text; i++) {
        const qg_tqc *t = acting(a->end.at[i]);
        bool again = !t;
        for (size_t k = 0; k < i && !again; k++)
            again = acting(a->end.at[k]) == t;
        if (!again)
            text = qg_arena_printf(a->arena, "%s%s%s", text, *text ? ", " : "",
                                   qg_tqc_text(t, at));
    }
    if (!text)
        return qg_nomem(a->ctx);
    return qg_report_add(a->r, "rounded_at", qg_cell_text(*text ? text : "nowhere"));
}

/* --- endpoints --- */

/* The last change of a field, NULL: none. */
static const qg_journal_entry *last_change(const qg_quant *q, const qg_tqc *t,
                                           const char *field)
{
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == t->id && strcmp(e->field, field) == 0)
            return e;
    }
    return NULL;
}

static qg_status add_by(answer *a, const char *by)
{
    for (size_t i = 0; i < a->by.n; i++)
        if (strcmp(a->by.at[i], by) == 0)
            return QG_OK;
    return qg_vec_push(a->ctx, a->arena, &a->by, by);
}

/* "compute-activation" of "fuse/compute-activation". */
static const char *statement_id(const char *by)
{
    const char *slash = strrchr(by, '/');
    return slash ? slash + 1 : by;
}

/* "fuse/compute-activation (configs/backends/trt-int8.yaml:24)" */
static qg_status put_author(answer *a, qg_table *t, const qg_journal_entry *e)
{
    if (!e)
        return qg_table_add(a->r, t, (qg_cell){ 0 });
    const char *kind;
    const qg_origin *o = qg_origin_named(a->q->backend, statement_id(e->by), &kind);
    if (o && o->file)
        return qg_table_addf(a->r, t, "%s (%s:%u)", e->by, o->file, o->line);
    return qg_table_addf(a->r, t, "%s", e->by);
}

/* The grid in effect, to which the scale belongs: of an OVERLAPPED endpoint that of its
 * dominator.  Its own bits then have no effect, and are named if they differ. */
static qg_status put_grid(answer *a, qg_table *t, const qg_tqc *tqc)
{
    char text[QG_SCHEME_TEXT];
    qg_qparam p = qg_tqc_param(tqc);
    qg_cell none = { 0 };
    bool other = tqc->state == QG_TQC_OVERLAPPED;
    const qg_scheme *acts = other ? &qg_tqc_root(tqc)->scheme : &tqc->scheme;
    (void)qg_scheme_text(acts, text);
    if (acts->bits == tqc->scheme.bits)
        QG_TRY(qg_table_add(a->r, t, qg_cell_text(text)));
    else
        QG_TRY(qg_table_addf(a->r, t, "%s; %u bits of its own have no effect", text,
                             tqc->scheme.bits));
    return qg_table_cells(a->r, t, p.n ? qg_cell_floats(p.scale, p.n) : none,
                          p.n && p.offset ? qg_cell_ints(p.offset, p.n) : none);
}

static qg_status put_leader(answer *a, qg_table *t, const qg_tqc *tqc)
{
    char at[QG_ENDPOINT_TEXT], other[QG_ENDPOINT_TEXT];
    const qg_tqc *root = qg_tqc_root(tqc);
    if (tqc->lender[0] && tqc->lender[1])
        return qg_table_addf(a->r, t, "itself, derived from %s x %s",
                             qg_tqc_text(tqc->lender[0], at),
                             qg_tqc_text(tqc->lender[1], other));
    return qg_table_addf(a->r, t, "%s", root == tqc ? "itself" : qg_tqc_text(root, at));
}

static qg_status put_rule(answer *a, qg_table *t, const qg_tqc *tqc)
{
    const qg_backend *b = a->q->backend;
    if (tqc->rule == QG_NONE)
        return qg_table_addf(a->r, t, "defaults of %s", b->name);
    assert(tqc->rule < b->rule.n);
    const qg_origin *o = &b->rule.at[tqc->rule].origin;
    QG_TRY(add_by(a, o->id));
    return qg_table_addf(a->r, t, "%s (%s:%u)", o->id, o->file ? o->file : "?",
                         o->line);
}

/* An endpoint that is not quantized has no record: gives the reason. */
static qg_status put_bare(answer *a, qg_table *t, qg_endpoint at)
{
    const qg_node *n = at.node;
    const char *why = n->platform != QG_PLATFORM_QUANTIZED ? n->reason
                      : qg_endpoint_value(at)->type.dtype != QG_F32
                          ? "it is not float32"
                          : "no rule matches it";
    QG_TRY(qg_table_add(a->r, t, qg_cell_text("none")));
    QG_TRY(qg_table_addf(a->r, t, "not quantized: %s", why ? why : "not dispatched"));
    for (int i = 0; i < 7; i++)
        QG_TRY(qg_table_add(a->r, t, (qg_cell){ 0 }));
    return QG_OK;
}

static qg_status put_endpoint(answer *a, qg_table *t, qg_endpoint at)
{
    char slot[QG_SLOT_TEXT];
    const qg_tqc *tqc = qg_endpoint_tqc(at);
    QG_TRY(qg_table_addf(a->r, t, "%s.%s", at.node->name,
                         qg_slot_text(at.is_output, at.slot, slot)));
    QG_TRY(qg_table_add(a->r, t, qg_cell_text(qg_endpoint_value(at)->name)));
    if (!tqc)
        return put_bare(a, t, at);
    QG_TRY(qg_table_cells(a->r, t, qg_cell_text(qg_tqc_state_name(tqc->state)),
                          qg_cell_text(qg_state_meaning(tqc->state))));
    QG_TRY(put_leader(a, t, tqc));
    QG_TRY(put_grid(a, t, tqc));
    QG_TRY(qg_table_add(a->r, t, qg_cell_text(tqc->observer.name)));
    QG_TRY(put_rule(a, t, tqc));
    const qg_journal_entry *moved = last_change(a->q, tqc, "dominator");
    return put_author(a, t, moved ? moved : last_change(a->q, tqc, "state"));
}

static qg_status endpoints(answer *a)
{
    qg_table *t;
    QG_TRY(qg_report_table(a->r, "endpoints",
                           "endpoint value state means dominator grid scale offset "
                           "observer rule decided_by",
                           &t));
    t->records = true;
    for (size_t i = 0; i < a->end.n; i++)
        QG_TRY(put_endpoint(a, t, a->end.at[i]));
    return QG_OK;
}

/* --- joint scales --- */

/* The scale that calibration gave t, as the journal has it; NULL: none. */
static const char *calibrated_scale(const qg_quant *q, const qg_tqc *t)
{
    static const char pass[] = "calibrate-activations";
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == t->id && strcmp(e->field, "scale") == 0 &&
            strncmp(e->by, pass, sizeof pass - 1) == 0)
            return e->new_value;
    }
    return NULL;
}

/* "align/sum-inputs": the sharing rule that made t follow, or its scale; NULL: none. */
static const char *shared_by(const qg_quant *q, const qg_tqc *t)
{
    for (size_t i = q->journal.n; i-- > 0;) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == t->id && strncmp(e->by, "align/", 6) == 0)
            return e->by;
    }
    return NULL;
}

static bool is_joint(const qg_quant *q, const qg_tqc *root)
{
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root))
        if (shared_by(q, t))
            return true;
    return false;
}

/* Members with a scale from calibration, in groups that a sharing rule made: what the
 * joint scale was chosen from. */
static qg_status joint_scales(answer *a, const uint8_t *wanted)
{
    qg_table *t = NULL;
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < a->q->tqc.n; i++) {
        const qg_tqc *tqc = a->q->tqc.at[i], *root = qg_tqc_root(tqc);
        const char *own = wanted[root->id] ? calibrated_scale(a->q, tqc) : NULL;
        const char *by = shared_by(a->q, tqc);
        if (!own || root->nparam != 1 || !is_joint(a->q, root))
            continue;
        if (!t)
            QG_TRY(qg_report_table(a->r, "joint_scales",
                                   "member calibrated joint chosen shared_by", &t));
        qg_cell joint = qg_cell_floats(root->scale, 1);
        double x = 0;
        (void)qg_num_parse_f64(own, strlen(own), &x);
        QG_TRY(qg_table_addf(a->r, t, "%s", qg_tqc_text(tqc, at)));
        QG_TRY(qg_table_cells(a->r, t, qg_cell_text(own), joint,
                              qg_cell_bool((float)x == root->scale[0]),
                              qg_cell_text(by)));
    }
    return QG_OK;
}

/* --- groups --- */

static qg_status put_member(answer *a, qg_table *t, const qg_tqc *tqc)
{
    char at[QG_ENDPOINT_TEXT];
    const qg_journal_entry *e = last_change(a->q, tqc, "dominator");
    const qg_tqc *root = qg_tqc_root(tqc);
    QG_TRY(qg_table_addf(a->r, t, "%s", qg_tqc_text(root, at)));
    QG_TRY(qg_table_addf(a->r, t, "%s", qg_tqc_text(tqc, at)));
    return qg_table_cells(a->r, t, qg_cell_text(qg_tqc_state_name(tqc->state)),
                          tqc == root ? qg_cell_text("dominator")
                                      : qg_cell_text(e ? e->by : NULL));
}

static qg_status groups(answer *a)
{
    qg_table *t;
    uint8_t *wanted = QG_NEWN(a->arena, a->q->tqc.n, uint8_t);
    if (!wanted)
        return qg_nomem(a->ctx);
    for (size_t i = 0; i < a->end.n; i++) {
        const qg_tqc *tqc = qg_endpoint_tqc(a->end.at[i]);
        const qg_tqc *root = tqc ? qg_tqc_root(tqc) : NULL;
        if (root && root->next != root)
            wanted[root->id] = 1;
    }
    QG_TRY(qg_report_table(a->r, "groups", "dominator member state joined_by", &t));
    for (size_t i = 0; i < a->q->tqc.n; i++) {
        const qg_tqc *tqc = a->q->tqc.at[i];
        if (wanted[qg_tqc_root(tqc)->id])
            QG_TRY(put_member(a, t, tqc));
    }
    return joint_scales(a, wanted);
}

/* --- changes --- */

/* The extent of the history: complete for the named endpoints; for those they follow or
 * followed, the entries about scale and overlap. */
enum { UNTOLD, LED, NAMED };

static bool is_field(const qg_journal_entry *e, const char *field)
{
    return strcmp(e->field, field) == 0;
}

/* Marks dominators, and their dominators; the journal is short compared to the work
 * that wrote it. */
static void mark_leaders(const answer *a, uint8_t *told)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < a->q->journal.n; i++) {
            const qg_journal_entry *e = &a->q->journal.at[i];
            if (told[e->tqc] == UNTOLD || !is_field(e, "dominator"))
                continue;
            const qg_tqc *leader = qg_tqc_named(a->q->graph, e->new_value);
            if (leader && told[leader->id] == UNTOLD) {
                told[leader->id] = LED;
                more = true;
            }
        }
    }
}

static bool is_told(const uint8_t *told, const qg_journal_entry *e)
{
    return told[e->tqc] == NAMED ||
           (told[e->tqc] == LED &&
            (is_field(e, "dominator") || is_field(e, "state") || is_field(e, "scale") ||
             is_field(e, "offset") || is_field(e, "loss")));
}

static qg_status put_change(answer *a, qg_table *t, const qg_journal_entry *e)
{
    char at[QG_ENDPOINT_TEXT];
    QG_TRY(qg_table_add(a->r, t, qg_cell_count(e->seq)));
    QG_TRY(qg_table_addf(a->r, t, "%s", qg_tqc_text(a->q->tqc.at[e->tqc], at)));
    QG_TRY(qg_table_cells(a->r, t, qg_cell_text(e->field), qg_cell_text(e->old_value),
                          qg_cell_text(e->new_value), qg_cell_text(e->by)));
    return add_by(a, e->by);
}

static qg_status changes(answer *a)
{
    qg_table *t;
    uint8_t *told = QG_NEWN(a->arena, a->q->tqc.n, uint8_t);
    if (!told)
        return qg_nomem(a->ctx);
    for (size_t i = 0; i < a->end.n; i++) {
        const qg_tqc *tqc = qg_endpoint_tqc(a->end.at[i]);
        if (tqc)
            told[tqc->id] = NAMED;
    }
    mark_leaders(a, told);
    QG_TRY(qg_report_table(a->r, "changes", "seq endpoint field old new by", &t));
    for (size_t i = 0; i < a->q->journal.n; i++)
        if (is_told(told, &a->q->journal.at[i]))
            QG_TRY(put_change(a, t, &a->q->journal.at[i]));
    return QG_OK;
}

/* --- origins of the changes --- */

static qg_status put_statement(answer *a, qg_table *t, const qg_origin *o,
                               const char *kind)
{
    QG_TRY(qg_table_cells(a->r, t, qg_cell_text(o->id), qg_cell_text(kind)));
    if (o->file)
        QG_TRY(qg_table_addf(a->r, t, "%s:%u", o->file, o->line));
    else
        QG_TRY(qg_table_add(a->r, t, (qg_cell){ 0 }));
    return qg_table_cells(a->r, t, qg_cell_text(o->why), qg_cell_text(o->source));
}

/* A pass is its own reason: its summary is given. */
static qg_status put_pass(answer *a, qg_table *t, const char *by)
{
    const qg_pass *const *all;
    size_t n = strcspn(by, "/");
    QG_TRY(qg_passes_of(a->ctx, a->r->arena, &all));
    for (size_t i = 0; all[i]; i++) {
        const qg_pass *p = all[i];
        if (strlen(p->name) == n && memcmp(p->name, by, n) == 0) {
            bool few = strcmp(statement_id(by), "few-elements") == 0;
            qg_origin o = { .id = by,
                            .why = few ? "so few elements determine no threshold "
                                         "(docs/calibration.md#few-elements)"
                                       : p->summary };
            return put_statement(a, t, &o, "pass");
        }
    }
    return QG_OK;
}

static qg_status statements(answer *a)
{
    qg_table *t;
    QG_TRY(qg_report_table(a->r, "origins", "id kind at why source", &t));
    t->records = true;
    for (size_t i = 0; i < a->by.n; i++) {
        const char *kind;
        const qg_origin *o =
            qg_origin_named(a->q->backend, statement_id(a->by.at[i]), &kind);
        QG_TRY(o ? put_statement(a, t, o, kind) : put_pass(a, t, a->by.at[i]));
    }
    return QG_OK;
}

/* --- near misses --- */

static bool concerns(const answer *a, const char *node)
{
    for (size_t i = 0; i < a->end.n; i++)
        if (strcmp(a->end.at[i].node->name, node) == 0)
            return true;
    return false;
}

static qg_status near_misses(answer *a)
{
    qg_table *t;
    const qg_snapshot_info *info = &a->m->info;
    QG_TRY(qg_report_table(a->r, "near_misses", "node pattern condition", &t));
    for (size_t i = 0; i < info->n_coverage; i++) {
        const qg_coverage_row *row = &info->coverage[i];
        for (size_t k = 0; k < row->n_miss; k++) {
            if (!concerns(a, row->miss[k].node))
                continue;
            QG_TRY(qg_table_add(a->r, t, qg_cell_text(row->miss[k].node)));
            QG_TRY(qg_table_addf(a->r, t, "%s/%s", row->pass, row->pattern));
            QG_TRY(qg_table_add(a->r, t, qg_cell_text(row->miss[k].condition)));
        }
    }
    return QG_OK;
}

/* What is known about a->end. */
static qg_status tables(answer *a)
{
    QG_TRY(endpoints(a));
    QG_TRY(groups(a));
    QG_TRY(changes(a));
    QG_TRY(statements(a));
    return near_misses(a);
}

static qg_status answer_all(answer *a)
{
    QG_TRY(find(a));
    QG_TRY(head(a));
    QG_TRY(rounded_at(a));
    return tables(a);
}

/* Nodes have no endpoint twice, so none is looked up. */
qg_status qg_explain_all(qg_report *r, const qg_model *m)
{
    answer a = { .ctx = m->ctx, .arena = r->arena, .m = m, .q = m->quant, .r = r };
    assert(m->quant);
    for (size_t i = 0; i < m->graph->node.n; i++) {
        const qg_node *n = m->graph->node.at[i];
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++)
            if (qg_endpoint_value(qg_node_endpoint(n, k)))
                QG_TRY(qg_vec_push(a.ctx, a.arena, &a.end, qg_node_endpoint(n, k)));
    }
    return tables(&a);
}

qg_status qg_model_explain(qg_model *m, const char *name, qg_report **report)
{
    qg_report *r;
    QG_TRY(qg_model_expect_quantized(m, "explain"));
    QG_TRY(qg_report_new(m->ctx, "explain", &r));
    answer a = {
        .ctx = m->ctx, .arena = r->arena, .m = m, .q = m->quant, .name = name, .r = r
    };
    return qg_report_end(answer_all(&a), r, report);
}
