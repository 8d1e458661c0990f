#include "engine/device/propose.h"

/* Nodes of a fusion: a backend file takes 16, few kernels have more than 8. */
enum { REGION = 8 };

typedef struct proposer {
    const qg_attempt *t;
    qg_arena *arena;
    qg_proposals *out;
} proposer;

/* Appends c unless it is there, or in the draft.  Texts NULL: no memory. */
static qg_status propose(proposer *p, qg_draft_change c)
{
    qg_ctx *ctx = p->t->how->m->ctx;
    if (!c.word || !c.why)
        return qg_nomem(ctx);
    if (qg_draft_has(&p->t->draft, &c))
        return QG_OK;
    for (size_t i = 0; i < p->out->n; i++)
        if (p->out->at[i].key == c.key && strcmp(p->out->at[i].word, c.word) == 0)
            return QG_OK;
    return qg_vec_push(ctx, p->arena, p->out, c);
}

/* --- fusions --- */

/* "fuse/ID" of the journal's last entry that made t overlapped: ID; "": another pass;
 * NULL: there is no such entry. */
static const char *silenced_by(const qg_quant *q, const qg_tqc *t)
{
    const char *by = NULL;
    for (size_t i = 0; i < q->journal.n; i++) {
        const qg_journal_entry *e = &q->journal.at[i];
        if (e->tqc == t->id && strcmp(e->field, "state") == 0 &&
            strcmp(e->new_value, qg_tqc_state_name(QG_TQC_OVERLAPPED)) == 0)
            by = e->by;
    }
    if (by && strncmp(by, "fuse", 4) != 0)
        return "";
    const char *slash = by ? strchr(by, '/') : NULL;
    return slash ? slash + 1 : NULL;
}

static qg_status drop_fusion(proposer *p, const qg_value *v)
{
    const qg_tqc *t = qg_attempt_tqc(v);
    const char *id = t ? silenced_by(p->t->own.quant, t) : NULL;
    if (!id || !*id)
        return QG_OK;
    return propose(p, (qg_draft_change){
                          .key = QG_DRAFT_NO_FUSION,
                          .word = qg_arena_strdup(p->arena, id),
                          .why = qg_arena_printf(p->arena,
                                                 "%.80s lies on a grid of the dump, so "
                                                 "the device rounds it",
                                                 v->name) });
}

/* Nodes that compute one stored value together: the first makes the value that is not
 * stored, the last the next one that is. */
typedef struct region {
    const qg_node *node[REGION];
    size_t n;
} region;

static size_t place_in(const region *r, const qg_node *n)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->node[i] == n)
            return i;
    return REGION;
}

static bool is_seen_as_codes(const proposer *p, const qg_value *v)
{
    const qg_seen *s = qg_attempt_seen(p->t, v);
    return s && s->kind == QG_SEEN_CODES;
}

/* All readers of the region's values, on to the first value that is stored; false:
 * there is none, or more than one, or the region leaves the quantized part.  Nodes are
 * taken in order of the graph, which is topological. */
static bool find_region(const proposer *p, const qg_value *v, region *r)
{
    const qg_graph *g = p->t->own.graph;
    const qg_node *last = NULL;
    *r = (region){ .node = { v->def }, .n = 1 };
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        bool reads = false;
        for (uint32_t k = 0; k < n->n_in; k++)
            reads |= n->in[k] && n->in[k]->def && n->in[k]->def != last &&
                     place_in(r, n->in[k]->def) < REGION;
        if (!reads || place_in(r, n) < REGION)
            continue;
        if (r->n == REGION || n->n_out != 1 || n->platform != QG_PLATFORM_QUANTIZED)
            return false;
        r->node[r->n++] = n;
        if (!is_seen_as_codes(p, n->out[0]))
            continue;
        if (last)
            return false;
        last = n;
    }
    return last && r->node[r->n - 1] == last && v->def->n_out == 1 && !v->is_output;
}

/* "a: {op: [Conv]}, b: {op: [Relu], in: [a]}" */
static const char *pattern_text(qg_arena *a, const region *r)
{
    const char *text = "";
    for (size_t i = 0; i < r->n && text; i++) {
        const qg_node *n = r->node[i];
        const char *in = "";
        for (uint32_t k = 0; k < n->n_in && in && i; k++) {
            size_t from =
                n->in[k] && n->in[k]->def ? place_in(r, n->in[k]->def) : REGION;
            if (from < i)
                in = qg_arena_printf(a, "%s%s%c", in, *in ? ", " : "",
                                     (char)('a' + from));
        }
        text = in ? qg_arena_printf(a, "%s%s%c: {op: [%s]%s%s%s}", text, i ? ", " : "",
                                    (char)('a' + i), n->op->name, *in ? ", in: [" : "",
                                    in, *in ? "]" : "")
                  : NULL;
    }
    return text;
}

/* "a.out0: {consumers: 1, graph-output: no}, ..., same-platform: [a, b]" */
static const char *where_text(qg_arena *a, const region *r)
{
    const char *text = "", *all = "";
    for (size_t i = 0; i < r->n && text && all; i++) {
        all = qg_arena_printf(a, "%s%s%c", all, i ? ", " : "", (char)('a' + i));
        if (i + 1 < r->n)
            text = qg_arena_printf(a, "%s%c.out0: {consumers: %zu, graph-output: no}, ",
                                   text, (char)('a' + i), r->node[i]->out[0]->use.n);
    }
    return text && all ? qg_arena_printf(a, "%ssame-platform: [%s]", text, all) : NULL;
}

/* "a.out0: b.out0, b.in0: b.out0": every value inside, at both ends. */
static const char *silence_text(qg_arena *a, const region *r)
{
    const char *text = "";
    char last = (char)('a' + r->n - 1);
    for (size_t i = 0; i < r->n && text; i++) {
        const qg_node *n = r->node[i];
        for (uint32_t k = 0; k < n->n_in && text; k++)
            if (n->in[k] && n->in[k]->def && place_in(r, n->in[k]->def) < i)
                text =
                    qg_arena_printf(a, "%s%s%c.in%u: %c.out0", text, *text ? ", " : "",
                                    (char)('a' + i), (unsigned)k, last);
        if (i + 1 < r->n && text)
            text = qg_arena_printf(a, "%s%s%c.out0: %c.out0", text, *text ? ", " : "",
                                   (char)('a' + i), last);
    }
    return text;
}

static qg_status add_fusion(proposer *p, const qg_value *v)
{
    region r;
    qg_arena *a = p->arena;
    if (!v->def || !find_region(p, v, &r))
        return QG_OK;
    const char *pattern = pattern_text(a, &r), *where = where_text(a, &r);
    const char *silence = silence_text(a, &r), *id = "kernel";
    for (size_t i = 0; i < r.n && id; i++)
        id = qg_arena_printf(a, "%s-%s", id, r.node[i]->op->name);
    if (!pattern || !where || !silence || !id)
        return qg_nomem(p->t->how->m->ctx);
    bool hidden = qg_attempt_seen(p->t, v)->kind == QG_SEEN_HIDDEN;
    return propose(
        p, (qg_draft_change){
               .key = QG_DRAFT_FUSION,
               .word = id,
               .body = qg_arena_printf(
                   a, "    pattern: {%s}\n    where: {%s}\n    silence: {%s}\n",
                   pattern, where, silence),
               .why = qg_arena_printf(a, "%.80s %s, and %.80s lies on a grid", v->name,
                                      hidden ? "is not in the dump"
                                             : "lies on no grid of the dump",
                                      r.node[r.n - 1]->out[0]->name) });
}

/* --- operators --- */

static qg_status operator(proposer *p, qg_draft_key key, const qg_node *n,
                          const char *why)
{
    return propose(p, (qg_draft_change){ .key = key,
                                         .word = n->op->name,
                                         .why = qg_arena_strdup(p->arena, why) });
}

static qg_status about_value(proposer *p, const qg_value *v)
{
    bool counts, agrees = qg_attempt_agrees(p->t, v, &counts);
    if (!counts || agrees || !v->def)
        return QG_OK;
    const char *name = qg_arena_printf(p->arena, "%.80s lies on %s grid", v->name,
                                       is_seen_as_codes(p, v) ? "a" : "no");
    if (!name)
        return qg_nomem(p->t->how->m->ctx);
    switch (p->t->kind[v->id]) {
    case QG_AS_SILENT:
        return drop_fusion(p, v);
    case QG_AS_FLOAT:
        return operator(p, QG_DRAFT_QUANTIZES, v->def, name);
    default:
        QG_TRY(add_fusion(p, v));
        return qg_attempt_seen(p->t, v)->kind == QG_SEEN_REAL
                   ?
                   operator(p, QG_DRAFT_NOT_QUANTIZES, v->def, name)
                   : QG_OK;
    }
}

static qg_status about_link(proposer *p, const qg_link *l)
{
    const qg_backend *b = p->t->own.quant->backend;
    const qg_sharing *s = qg_backend_sharing(b, l->node);
    const char *why =
        qg_arena_printf(p->arena, "%.60s and %.60s of %.60s lie on %s", l->a->name,
                        l->b->name, l->node->name, l->equal ? "one grid" : "two grids");
    if (!why)
        return qg_nomem(p->t->how->m->ctx);
    bool passive = qg_backend_is_passive(b, l->node->op);
    if (!l->equal && passive)
        QG_TRY(operator(p, QG_DRAFT_NOT_PASSIVE, l->node, why));
    if (!l->equal && s)
        return propose(
            p, (qg_draft_change){ .key = QG_DRAFT_NO_SHARING,
                                  .word = qg_arena_strdup(p->arena, s->origin.id),
                                  .why = why });
    if (!l->equal)
        return QG_OK;
    if (l->output && l->a == l->node->in[0] && !passive)
        QG_TRY(operator(p, QG_DRAFT_PASSIVE, l->node, why));
    return propose(
        p,
        (qg_draft_change){
            .key = QG_DRAFT_SHARING,
            .word = qg_arena_printf(p->arena, "grid-of-%s%s", l->node->op->name,
                                    l->output ? "" : "-inputs"),
            .body = qg_arena_printf(p->arena,
                                    "    match: {op: [%s]}\n    align: %s\n    "
                                    "spread: upstream\n",
                                    l->node->op->name, l->output ? "output" : "large"),
            .why = why });
}

qg_status qg_propose(const qg_attempt *t, qg_proposals *out)
{
    proposer p = { t, t->how->arena, out };
    const qg_graph *g = t->own.graph;
    qg_link link[QG_LINKS];
    for (size_t i = 0; i < g->value.n; i++)
        QG_TRY(about_value(&p, g->value.at[i]));
    for (size_t i = 0; i < g->node.n; i++) {
        size_t n = qg_attempt_links(t, g->node.at[i], link);
        for (size_t k = 0; k < n; k++)
            if (link[k].known && link[k].shared != link[k].equal)
                QG_TRY(about_link(&p, &link[k]));
    }
    return QG_OK;
}
