#include "engine/device/propose.h"

#include <string.h>

/* Nodes of a fusion: a backend file takes 16, few kernels have more than 8. */
enum { REGION = 8 };

typedef struct proposer {
    const qg_attempt *t;
    qg_arena *arena;
    qg_proposals *out;
    size_t proposed,
        unfixed; /* also those that are there; contradictions without one */
} proposer;

/* Whether the draft says the opposite: then c would take a change back. */
static bool takes_back(const qg_draft *d, const qg_draft_change *c)
{
    static const qg_draft_key opposite[][2] = {
        {QG_DRAFT_QUANTIZES, QG_DRAFT_NOT_QUANTIZES},
        { QG_DRAFT_PASSIVE,  QG_DRAFT_NOT_PASSIVE  },
    };
    for (size_t i = 0; i < sizeof opposite / sizeof *opposite; i++)
        for (int k = 0; k < 2; k++) {
            qg_draft_change other = { .key = opposite[i][1 - k], .word = c->word };
            if (c->key == opposite[i][k] && qg_draft_has(d, &other))
                return true;
        }
    return false;
}

/* Appends c unless it is there, or in the draft.  Texts NULL: no memory. */
static qg_status propose(proposer *p, qg_draft_change c)
{
    qg_ctx *ctx = p->t->how->m->ctx;
    if (!c.word || !c.why || (qg_draft_has_bodies(c.key) && !c.body))
        return qg_nomem(ctx);
    p->proposed++;
    if (qg_draft_has(&p->t->draft, &c) || takes_back(&p->t->draft, &c))
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
    return propose(p, (qg_draft_change){ .key = QG_DRAFT_NO_FUSION,
                                         .word = qg_arena_strdup(p->arena, id),
                                         .why = qg_arena_printf(
                                             p->arena,
                                             "%.1000s lies on a grid of the dump, so "
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
    static const char *const why[] = {
        [QG_SEEN_HIDDEN] = "%.1000s is not in the dump, and %.1000s has the codes that "
                           "follow without rounding it",
        [QG_SEEN_CODES] =
            "%.1000s is not rounded to codes of the base, and %.1000s lies "
            "on a grid",
        [QG_SEEN_REAL] = "%.1000s lies on no grid of the dump, and %.1000s lies on one",
        [QG_SEEN_UNSURE] = "%.1000s may lie on no grid, and %.1000s lies on one",
    };
    return propose(
        p, (qg_draft_change){
               .key = QG_DRAFT_FUSION,
               .word = id,
               .body = qg_arena_printf(
                   a, "    pattern: {%s}\n    where: {%s}\n    silence: {%s}\n",
                   pattern, where, silence),
               .why = qg_arena_printf(a, why[qg_attempt_seen(p->t, v)->kind], v->name,
                                      r.node[r.n - 1]->out[0]->name) });
}

/* --- schemes --- */

/* Schemes that devices have, the usual one first. */
typedef struct codes {
    int bits;
    long long low, high;
    bool symmetric;
} codes;
static const codes SCHEME[] = {
    {8,   -128,   127,   true },
    { 8,  -127,   127,   true },
    { 8,  -128,   127,   false},
    { 8,  0,      255,   false},
    { 8,  -127,   127,   false},
    { 4,  -8,     7,     true },
    { 4,  -7,     7,     true },
    { 4,  0,      15,    false},
    { 6,  -32,    31,    true },
    { 6,  -31,    31,    true },
    { 7,  -64,    63,    true },
    { 7,  -63,    63,    true },
    { 16, -32768, 32767, true },
    { 16, -32767, 32767, true },
    { 16, 0,      65535, false},
    { 16, -32768, 32767, false},
};
enum { SCHEMES = sizeof SCHEME / sizeof *SCHEME, BYTE = 8 };

/* The record with other codes. */
static qg_tqc with_codes(const qg_tqc *root, const codes *c, bool power)
{
    qg_tqc x = *root;
    unsigned others = QG_SYMMETRIC | QG_ASYMMETRIC | QG_POWER_OF_2;
    x.scheme.policy = (uint16_t)((x.scheme.policy & ~others) |
                                 (c->symmetric ? QG_SYMMETRIC : QG_ASYMMETRIC) |
                                 (power ? QG_POWER_OF_2 : 0));
    x.scheme.bits = (uint8_t)c->bits;
    x.scheme.qmin = c->low;
    x.scheme.qmax = c->high;
    return x;
}

/* --- operators --- */

/* Why a change is taken over that only results tell. */
static const char NEARER[] = "results are nearer to the device's with it";

static qg_status operator(proposer *p, qg_draft_key key, const qg_node *n,
                          const char *why)
{
    return propose(p, (qg_draft_change){ .key = key,
                                         .word = n->op->name,
                                         .why = qg_arena_strdup(p->arena, why) });
}

/* A value that the device keeps in real numbers: neither its producer rounds it, nor
 * do its readers. */
static qg_status about_real(proposer *p, const qg_value *v, const char *why)
{
    const qg_backend *b = p->t->own.quant->backend;
    if (qg_backend_quantizes(b, v->def->op))
        return operator(p, QG_DRAFT_NOT_QUANTIZES, v->def, why);
    for (size_t i = 0; i < v->use.n; i++)
        if (qg_backend_quantizes(b, v->use.at[i].node->op))
            QG_TRY(operator(p, QG_DRAFT_NOT_QUANTIZES, v->use.at[i].node, why));
    return QG_OK;
}

/* More codes than the record has: those of the first scheme that has enough. */
static qg_status wider_codes(proposer *p, const qg_value *v)
{
    const qg_seen *o = qg_attempt_seen(p->t, v);
    const qg_tqc *t = qg_attempt_tqc(v), *root = t ? qg_tqc_root(t) : NULL;
    qg_arena *a = p->arena;
    if (!root || root->scheme.policy & QG_FLOATING || !(o->step > 0))
        return QG_OK;
    for (int i = 0; i < SCHEMES; i++) {
        const codes *c = &SCHEME[i];
        qg_tqc x = with_codes(root, c, false);
        if (c->bits <= root->scheme.bits || !qg_grid_fits(&x, o))
            continue;
        return propose(
            p,
            (qg_draft_change){
                .key = QG_DRAFT_RULE,
                .word = qg_arena_printf(a, "codes-of-%s", v->def->op->name),
                .body = qg_arena_printf(
                    a,
                    "    match: {op: [%s], slot: output}\n    set: {bits: %d, range: "
                    "[%lld, %lld], policy: [per-tensor, linear, %s]}\n",
                    v->def->op->name, c->bits, c->low, c->high,
                    c->symmetric ? "symmetric" : "asymmetric"),
                .why = qg_arena_printf(a, "%.1000s has %.0f codes", v->name,
                                       o->high - o->low + 1) });
    }
    return QG_OK;
}

/* A value of finer codes than the backend makes, such as a mean of codes: the node does
 * not round, with codes or without; or it rounds to more codes. */
static qg_status about_part(proposer *p, const qg_value *v)
{
    const qg_backend *b = p->t->own.quant->backend;
    const char *why =
        qg_arena_printf(p->arena,
                        is_seen_as_codes(p, v)
                            ? "%.1000s lies on a part of the grid that the node reads"
                            : "%.1000s is computed from more codes than 8 bits have, "
                              "and is not rounded",
                        v->name);
    if (!why)
        return qg_nomem(p->t->how->m->ctx);
    if (is_seen_as_codes(p, v))
        QG_TRY(wider_codes(p, v));
    if (!qg_backend_is_passive(b, v->def->op))
        QG_TRY(operator(p, QG_DRAFT_PASSIVE, v->def, why));
    return qg_backend_quantizes(b, v->def->op) ? operator(p, QG_DRAFT_NOT_QUANTIZES,
                                                          v->def, why)
                                               : QG_OK;
}

/* A value that the backend rounds and the trace lacks can be inside of a kernel where
 * the next result is not the device's. */
static qg_status about_hidden(proposer *p, const qg_value *v)
{
    if (p->t->kind[v->id] != QG_AS_CODES || !v->def || !p->t->share)
        return QG_OK;
    double share = qg_attempt_confirmation(p->t, v->def);
    return share >= 0 && share < QG_CONFIRMED ? add_fusion(p, v) : QG_OK;
}

static qg_status about_value(proposer *p, const qg_value *v)
{
    const qg_seen *o = qg_attempt_seen(p->t, v);
    if (o && o->kind == QG_SEEN_HIDDEN)
        return about_hidden(p, v);
    bool counts, agrees = qg_attempt_agrees(p->t, v, &counts);
    if (!counts || agrees || !v->def)
        return QG_OK;
    const char *name = qg_arena_printf(p->arena, "%.1000s lies on %s grid", v->name,
                                       is_seen_as_codes(p, v) ? "a" : "no");
    if (!name)
        return qg_nomem(p->t->how->m->ctx);
    switch (p->t->kind[v->id]) {
    case QG_AS_SILENT:
        return drop_fusion(p, v);
    case QG_AS_FLOAT:
        return operator(p, QG_DRAFT_QUANTIZES, v->def, name);
    default:
        if (qg_attempt_is_fine_mean(p->t, v))
            return about_part(p, v);
        QG_TRY(add_fusion(p, v));
        return o && o->kind == QG_SEEN_REAL ? about_real(p, v, name) : about_part(p, v);
    }
}

/* The operator's inputs share one grid: that of its output, or the coarsest of them. */
static qg_status share(proposer *p, const qg_node *n, bool output, const char *why)
{
    qg_arena *a = p->arena;
    return propose(
        p, (qg_draft_change){
               .key = QG_DRAFT_SHARING,
               .word = qg_arena_printf(a, "grid-of-%s%s", n->op->name,
                                       output ? "" : "-inputs"),
               .body = qg_arena_printf(a,
                                       "    match: {op: [%s]}\n    align: %s\n    "
                                       "spread: upstream\n",
                                       n->op->name, output ? "output" : "large"),
               .why = why });
}

/* The node's output has the link's grid in the trace. */
static bool has_grid(const proposer *p, const qg_node *n, const qg_link *l)
{
    const qg_seen *in = qg_attempt_seen(p->t, l->a),
                  *out =
                      n->n_out && n->out[0] ? qg_attempt_seen(p->t, n->out[0]) : NULL;
    return out && out->kind == QG_SEEN_CODES && out->step > 0 &&
           qg_grid_same_step(in->step, out->step);
}

static qg_status about_link(proposer *p, const qg_link *l)
{
    const qg_backend *b = p->t->own.quant->backend;
    const qg_sharing *s = qg_backend_sharing(b, l->node);
    const char *why = qg_arena_printf(
        p->arena, "%.1000s and %.1000s of %.1000s lie on %s", l->a->name, l->b->name,
        l->node->name, l->equal ? "one grid" : "two grids");
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
    return share(p, l->node, l->output || has_grid(p, l->node, l), why);
}

/* --- codes --- */

/* The root of a visible value with the codes of the defaults; NULL: it has others. */
static const qg_tqc *by_default(const proposer *p, const qg_value *v)
{
    const qg_scheme *d = &p->t->own.quant->backend->defaults.scheme;
    const qg_tqc *t = p->t->kind[v->id] == QG_AS_CODES ? qg_attempt_tqc(v) : NULL;
    const qg_seen *o = qg_attempt_seen(p->t, v);
    if (!t || !o || o->kind != QG_SEEN_CODES || !(o->step > 0))
        return NULL;
    t = qg_tqc_root(t);
    bool same = t->scheme.bits == d->bits && t->scheme.qmin == d->qmin &&
                t->scheme.qmax == d->qmax && t->scheme.policy == d->policy;
    return same && !qg_tqc_is_prescribed(t) ? t : NULL;
}

/* The lowest code, or the highest of a few, which a wider scheme has by chance. */
static bool reaches_end(const qg_scheme *s, const qg_seen *o)
{
    double zero = o->zero_known ? o->zero : 0;
    return o->low + zero == (double)s->qmin ||
           (s->bits < BYTE && o->high + zero == (double)s->qmax);
}

/* Twice the values of the defaults that the codes fit (c NULL: the backend's own), and
 * one more where one reaches the end of the codes. */
static size_t fitting(const proposer *p, const codes *c, bool power)
{
    const qg_graph *g = p->t->own.graph;
    size_t n = 0;
    size_t reached = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_tqc *root = by_default(p, g->value.at[i]);
        if (!root)
            continue;
        qg_tqc x = c ? with_codes(root, c, power) : *root;
        const qg_seen *o = qg_attempt_seen(p->t, g->value.at[i]);
        bool fits = qg_grid_is_usual(&x, o);
        n += 2 * fits;
        reached += fits && reaches_end(&x.scheme, o);
    }
    return n + (reached > 0);
}

static qg_status default_codes(proposer *p, const codes *c, bool power, const char *why)
{
    qg_arena *a = p->arena;
    return propose(p, (qg_draft_change){ .key = QG_DRAFT_DEFAULTS,
                                         .word = qg_arena_printf(
                                             a,
                                             "{bits: %d, range: [%lld, %lld], policy: "
                                             "[per-tensor, linear, %s%s]}",
                                             c->bits, c->low, c->high,
                                             c->symmetric ? "symmetric" : "asymmetric",
                                             power ? ", power-of-2" : ""),
                                         .why = qg_arena_strdup(a, why) });
}

/* The codes that fit most values, where that are more than now; `all`: those that fit
 * as many as now. */
static qg_status about_codes(proposer *p, bool all)
{
    const qg_scheme *d = &p->t->own.quant->backend->defaults.scheme;
    size_t own = d->policy & QG_FLOATING ? 0 : fitting(p, NULL, false), best = own;
    int at = -1;
    for (int i = 0; i < 2 * SCHEMES && !(d->policy & QG_FLOATING); i++) {
        size_t n = fitting(p, &SCHEME[i / 2], i % 2);
        if (all && n / 2 == own / 2)
            QG_TRY(
                default_codes(p, &SCHEME[i / 2], i % 2, "as many values have these"));
        if (n > best) {
            best = n;
            at = i;
        }
    }
    if (all || at < 0)
        return QG_OK;
    const char *why = qg_arena_printf(p->arena,
                                      "%zu visible values have these codes, %zu those "
                                      "of the base",
                                      best / 2, own / 2);
    return why ? default_codes(p, &SCHEME[at / 2], at % 2, why)
               : qg_nomem(p->t->how->m->ctx);
}

/* --- constants --- */

#define PER_CHANNEL                                                                    \
    "bits: 8, observer: minmax, axis: out-channel, policy: [per-channel, linear, "     \
    "symmetric], range: "
#define PRODUCTS   "Conv, ConvTranspose, Gemm, MatMul"
#define PER_TENSOR "bits: 8, observer: minmax, policy: [per-tensor, linear, "

/* Rules for constants that devices have. */
static const struct constants {
    const char *id, *slot, *set;
} CONSTANTS[] = {
  /* clang-format off */
    { "per-channel", "weight", PER_CHANNEL "[-127, 127]" },
    { "per-channel-full", "weight", PER_CHANNEL "[-128, 127]" },
    { "per-tensor", "weight", PER_TENSOR "symmetric], range: [-127, 127]" },
    { "per-tensor-full", "weight", PER_TENSOR "symmetric], range: [-128, 127]" },
    { "unsigned", "weight", PER_TENSOR "asymmetric], range: [0, 255]" },
    { "signed", "weight", PER_TENSOR "asymmetric], range: [-128, 127]" },
    { "per-channel-seven", "weight", PER_CHANNEL "[-64, 63]" },
    { "per-tensor-seven", "weight", PER_TENSOR "symmetric], range: [-64, 63]" },
    { "float", "bias", "state: fp32" },
    { "int32", "bias", "state: passive-init, derive: bias, bits: 32, "
                       "range: [-2147483648, 2147483647], "
                       "policy: [per-tensor, linear, symmetric]" },
  /* clang-format on */
};

/* The rules for this slot of these operators, "Conv, Gemm"; `of` is in their ids. */
static qg_status about_constants(proposer *p, const char *slot, const char *ops,
                                 const char *of)
{
    qg_arena *a = p->arena;
    for (size_t i = 0; i < sizeof CONSTANTS / sizeof *CONSTANTS; i++) {
        const struct constants *c = &CONSTANTS[i];
        if (strcmp(c->slot, slot) != 0)
            continue;
        QG_TRY(propose(
            p,
            (qg_draft_change){
                .key = QG_DRAFT_RULE,
                .word = qg_arena_printf(a, "%s-%s%s", c->slot, c->id, of),
                .body = qg_arena_printf(a,
                                        "    match: {op: [%s], slot: %s, constant: "
                                        "yes}\n    set: {%s}\n",
                                        ops, c->slot, c->set),
                .why = "products of visible codes are nearer the device's results with "
                       "these" }));
    }
    return QG_OK;
}

/* A product of visible codes, whose result is not the device's. */
static bool is_other_product(const proposer *p, const qg_node *n)
{
    const qg_seen *in = n->n_in && n->in[0] ? qg_attempt_seen(p->t, n->in[0]) : NULL;
    if (!qg_node_has(n, QG_OP_COMPUTE) || !in || in->kind != QG_SEEN_CODES ||
        !p->t->share)
        return false;
    double share = qg_attempt_confirmation(p->t, n);
    return share >= 0 && share < QG_CONFIRMED;
}

/* Weights have the default codes where no rule gives them others, so these come
 * first. */
static qg_status about_products(proposer *p)
{
    const qg_graph *g = p->t->own.graph;
    bool others = false;
    for (size_t i = 0; i < g->node.n && !others; i++)
        others = is_other_product(p, g->node.at[i]);
    if (others)
        QG_TRY(about_codes(p, true));
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        const char *of = qg_arena_printf(p->arena, "-of-%s", n->op->name);
        if (!of)
            return qg_nomem(p->t->how->m->ctx);
        if (is_other_product(p, n))
            QG_TRY(about_constants(p, "weight", n->op->name, of));
        if (is_other_product(p, n) && qg_op_slot_of(n->op, 'b') >= 0)
            QG_TRY(about_constants(p, "bias", n->op->name, of));
    }
    return QG_OK;
}

qg_status qg_propose_floats(const qg_attempt *t, qg_proposals *out)
{
    proposer p = { .t = t, .arena = t->how->arena, .out = out };
    const qg_backend *b = t->own.quant->backend;
    const qg_graph *g = t->own.graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        const qg_value *v = n->n_out ? n->out[0] : NULL;
        if (!v || !qg_node_has(n, QG_OP_COMPUTE) || !qg_backend_quantizes(b, n->op) ||
            !is_seen_as_codes(&p, v) || qg_attempt_confirmation(t, n) >= QG_CONFIRMED)
            continue;
        QG_TRY(operator(&p, QG_DRAFT_NOT_QUANTIZES, n, NEARER));
        for (size_t k = 0; k < v->use.n; k++)
            if (!qg_backend_quantizes(b, v->use.at[k].node->op))
                QG_TRY(operator(&p, QG_DRAFT_QUANTIZES, v->use.at[k].node, NEARER));
    }
    return QG_OK;
}

qg_status qg_propose_narrow(const qg_attempt *t, qg_proposals *out)
{
    static const char *const set[] = {
        "bits: 4, range: [-7, 7]",   "bits: 4, range: [-8, 7]",
        "bits: 6, range: [-31, 31]", "bits: 6, range: [-32, 31]",
        "bits: 7, range: [-63, 63]", "bits: 7, range: [-64, 63]",
    };
    proposer p = { .t = t, .arena = t->how->arena, .out = out };
    const qg_graph *g = t->own.graph;
    bool others = false;
    for (size_t i = 0; i < g->node.n && !others; i++)
        others = is_other_product(&p, g->node.at[i]);
    if (others)
        QG_TRY(about_codes(&p, false));
    for (size_t i = 0; others && i < sizeof set / sizeof *set; i++)
        QG_TRY(propose(
            &p,
            (qg_draft_change){
                .key = QG_DRAFT_RULE,
                .word = qg_arena_printf(p.arena, "weight-narrow-%zu", i + 1),
                .body = qg_arena_printf(p.arena,
                                        "    match: {op: [%s], slot: weight, "
                                        "constant: yes}\n    set: {%s}\n",
                                        PRODUCTS, set[i]),
                .why = "products of visible codes are nearer the device's results with "
                       "these" }));
    return QG_OK;
}

/* --- all --- */

/* Counts a contradiction for which nothing was proposed since `before`. */
static void count_unfixed(proposer *p, size_t before, bool contradicted)
{
    p->unfixed += contradicted && p->proposed == before;
}

static qg_status about_node(proposer *p, const qg_node *n)
{
    qg_link link[QG_LINKS];
    size_t links = qg_attempt_links(p->t, n, link);
    for (size_t k = 0; k < links; k++) {
        size_t before = p->proposed;
        bool differs = link[k].shared != link[k].equal;
        if (link[k].known && differs)
            QG_TRY(about_link(p, &link[k]));
        count_unfixed(p, before, !link[k].known || differs);
    }
    return QG_OK;
}

qg_status qg_propose(const qg_attempt *t, qg_proposals *out, size_t *unfixed)
{
    proposer p = { .t = t, .arena = t->how->arena, .out = out };
    const qg_graph *g = t->own.graph;
    for (size_t i = 0; i < g->value.n; i++) {
        size_t before = p.proposed;
        bool counts, agrees = qg_attempt_agrees(t, g->value.at[i], &counts);
        QG_TRY(about_value(&p, g->value.at[i]));
        count_unfixed(&p, before, counts && !agrees);
    }
    for (size_t i = 0; i < g->node.n; i++) {
        QG_TRY(about_node(&p, g->node.at[i]));
    }
    size_t before = p.proposed;
    QG_TRY(about_codes(&p, false));
    count_unfixed(&p, before, t->schemes.part < t->schemes.of);
    if (unfixed)
        *unfixed = p.unfixed;
    return about_products(&p);
}

/* --- the border of the quantized part --- */

static bool reads_codes(const proposer *p, const qg_node *n)
{
    const qg_value *v = n->n_in ? n->in[0] : NULL;
    return v && p->t->kind[v->id] == QG_AS_CODES;
}

qg_status qg_propose_border(const qg_attempt *t, qg_proposals *out)
{
    proposer p = { .t = t, .arena = t->how->arena, .out = out };
    const qg_graph *g = t->own.graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        const qg_value *v = n->n_out ? n->out[0] : NULL;
        if (v && n->platform == QG_PLATFORM_FP32 && reads_codes(&p, n) &&
            is_seen_as_codes(&p, v) &&
            !qg_backend_quantizes(t->own.quant->backend, n->op))
            QG_TRY(operator(&p, QG_DRAFT_QUANTIZES, n,
                            "values behind it lie on grids of their own"));
    }
    return QG_OK;
}

/* --- alternatives --- */

/* The operator's place in the lists of the backend, and its sharing, changed. */
static qg_status vary_operator(proposer *p, const qg_node *n)
{
    const qg_backend *b = p->t->own.quant->backend;
    const qg_sharing *s = qg_backend_sharing(b, n);
    const char *why = NEARER;
    bool quantizes = qg_backend_quantizes(b, n->op);
    QG_TRY(operator(p, quantizes ? QG_DRAFT_NOT_QUANTIZES : QG_DRAFT_QUANTIZES, n,
                    why));
    if (!qg_node_has(n, QG_OP_COMPUTE))
        QG_TRY(operator(p,
                        qg_backend_is_passive(b, n->op) ? QG_DRAFT_NOT_PASSIVE
                                                        : QG_DRAFT_PASSIVE,
                        n, why));
    if (!s)
        return QG_OK;
    QG_TRY(
        propose(p, (qg_draft_change){ .key = QG_DRAFT_NO_SHARING,
                                      .word = qg_arena_strdup(p->arena, s->origin.id),
                                      .why = why }));
    QG_TRY(share(p, n, true, why));
    return share(p, n, false, why);
}

qg_status qg_propose_alternatives(const qg_attempt *t, qg_proposals *out)
{
    proposer p = { .t = t, .arena = t->how->arena, .out = out };
    const qg_graph *g = t->own.graph;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_seen *o = qg_attempt_seen(t, v);
        if (!v->def || !o || t->kind[v->id] == QG_AS_ABSENT)
            continue;
        if (t->kind[v->id] == QG_AS_SILENT)
            QG_TRY(drop_fusion(&p, v));
        if (o->kind == QG_SEEN_HIDDEN && t->kind[v->id] == QG_AS_CODES)
            QG_TRY(add_fusion(&p, v));
        QG_TRY(vary_operator(&p, v->def));
    }
    QG_TRY(about_codes(&p, true));
    QG_TRY(about_constants(&p, "weight", PRODUCTS, ""));
    return about_constants(&p, "bias", "Conv, ConvTranspose, Gemm", "");
}
