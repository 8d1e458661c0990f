/* backend_page.c -- a backend as a page: its contents with parents applied, quoted from
 * its files, with reasons and sources. */
#include <assert.h>
#include <math.h>

#include "engine/snapshot/model.h"
#include "engine/report/report.h"
#include "engine/core/num.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/rules.h"
#include "engine/calib/observer.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/quirk.h"

/* One page under way.  Texts are made in the report's arena; a NULL text is out of
 * memory and is found where it is added. */
typedef struct page {
    qg_ctx *ctx;
    qg_report *r;
    qg_arena *arena; /* the report's */
    const qg_backend *b;
} page;

/* Texts grow by pieces; once NULL (out of memory) they stay so. */
#define JOIN(p, text, fmt, ...)                                                        \
    ((text) ? qg_arena_printf((p)->arena, "%s%s" fmt, (text), *(text) ? ", " : "",     \
                              __VA_ARGS__)                                             \
            : NULL)

/* A piece that is made: NULL ends the text. */
static const char *join_made(page *p, const char *text, const char *label,
                             const char *piece)
{
    return piece ? JOIN(p, text, "%s%s", label, piece) : NULL;
}

/* Names as they came, in the file's order. */
static const char *words(page *p, const char *const *word, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = JOIN(p, text, "%s", word[i]);
    return text;
}

/* "[a, b]", or a single word without brackets. */
static const char *choice(page *p, const char *const *word, size_t n)
{
    const char *text = words(p, word, n);
    return text && n != 1 ? qg_arena_printf(p->arena, "[%s]", text) : text;
}

/* --- match --- */

static const char *number_text(page *p, double x)
{
    char number[QG_NUM_TEXT];
    if (fabs(x) <= 0x1p53 && x == rint(x))
        return qg_arena_printf(p->arena, "%lld", (long long)x);
    qg_num_f64(number, x);
    return qg_arena_strdup(p->arena, number);
}

static const char *option_text(page *p, const qg_attr_option *o)
{
    return o->absent ? "absent" : o->text ? o->text : number_text(p, o->number);
}

static const char *attr_text(page *p, const qg_attr_condition *c)
{
    const char *text = "";
    for (size_t i = 0; i < c->n && text; i++) {
        const char *option = option_text(p, &c->choice[i]);
        text = option ? JOIN(p, text, "%s", option) : NULL;
    }
    return text ? qg_arena_printf(p->arena, "{%s: [%s]}", c->name, text) : NULL;
}

/* The part of `match:` about nodes; "" when there are no conditions. */
static const char *node_text(page *p, const qg_node_match *m)
{
    const char *text = "";
    if (m->n_op)
        text = join_made(p, text, "op: ", choice(p, m->op, m->n_op));
    for (unsigned bit = 0; bit < QG_NTRAIT; bit++)
        if (m->traits >> bit & 1u)
            text = JOIN(p, text, "trait: %s", qg_trait_name(bit));
    if (m->n_node)
        text = join_made(p, text, "node: ", choice(p, m->node, m->n_node));
    for (size_t i = 0; i < m->n_attr; i++)
        text = join_made(p, text, "attr: ", attr_text(p, &m->attr[i]));
    if (m->from)
        text = JOIN(p, text, "from: %s", m->from);
    if (m->to)
        text = JOIN(p, text, "to: %s", m->to);
    return text;
}

static const char *slot_text(page *p, const qg_slot_match *s)
{
    char word[QG_SLOT_WORD];
    return qg_arena_strdup(p->arena, qg_slot_word(s, word));
}

/* The part about endpoints, after `text`. */
static const char *endpoint_text(page *p, const char *text, const qg_endpoint_match *m)
{
    static const char *const answer[] = { [QG_NO] = "no", [QG_YES] = "yes" };
    const char *slots = "", *dims = "";
    for (size_t i = 0; i < m->n_slot; i++)
        slots = join_made(p, slots, "", slot_text(p, &m->slot[i]));
    if (m->n_slot)
        text = !slots          ? NULL
               : m->n_slot > 1 ? JOIN(p, text, "slot: [%s]", slots)
                               : JOIN(p, text, "slot: %s", slots);
    if (m->constant != QG_ANY)
        text = JOIN(p, text, "constant: %s", answer[m->constant]);
    if (m->graph_input != QG_ANY)
        text = JOIN(p, text, "graph-input: %s", answer[m->graph_input]);
    if (m->graph_output != QG_ANY)
        text = JOIN(p, text, "graph-output: %s", answer[m->graph_output]);
    if (m->n_value)
        text = join_made(p, text, "value: ", choice(p, m->value, m->n_value));
    for (size_t i = 0; i < m->n_dim; i++)
        dims = m->dim[i] < 0 ? JOIN(p, dims, "%s", "any")
                             : JOIN(p, dims, "%lld", (long long)m->dim[i]);
    dims = m->n_dim && dims ? qg_arena_printf(p->arena, "[%s]", dims) : NULL;
    return m->n_dim ? join_made(p, text, "dims: ", dims) : text;
}

/* --- set --- */

static const char *policy_text(page *p, uint32_t policy)
{
    const char *text = "";
    for (uint32_t bit = 1; bit <= QG_BLOCK; bit *= 2)
        if (policy & bit)
            text = JOIN(p, text, "%s", qg_policy_bit_name(bit));
    return text ? qg_arena_printf(p->arena, "[%s]", text) : NULL;
}

/* Words and numbers of one field, as a file has them. */
static const char *field_text(page *p, const qg_set *s, unsigned bit)
{
    const qg_scheme *g = &s->scheme;
    if ((1u << bit) & QG_SET_PARAMS)
        return number_text(p, s->observer.value[bit - QG_SET_BIT_PERCENTILE]);
    switch (bit) {
    case QG_SET_BIT_RANGE:
        return qg_arena_printf(p->arena, "[%lld, %lld]", (long long)g->qmin,
                               (long long)g->qmax);
    case QG_SET_BIT_ROUNDING:
        return qg_rounding_name((qg_rounding)g->rounding);
    case QG_SET_BIT_NAN:
        return qg_nan_name((qg_nan)g->nan);
    case QG_SET_BIT_POLICY:
        return policy_text(p, g->policy);
    case QG_SET_BIT_AXIS:
        return g->axis == QG_AXIS_OUT_CHANNEL
                   ? "out-channel"
                   : qg_arena_printf(p->arena, "%d", g->axis);
    case QG_SET_BIT_OBSERVER:
        return s->observer.name;
    case QG_SET_BIT_STATE:
        return qg_tqc_state_word(s->state);
    case QG_SET_BIT_VISIBILITY:
        return qg_visibility_name(s->visibility);
    case QG_SET_BIT_DERIVE:
        return s->derive == QG_DERIVE_BIAS ? "bias" : "none";
    case QG_SET_BIT_QUANTIZER:
        return s->quantizer ? s->quantizer->name : "none";
    case QG_SET_BIT_PLATFORM:
        return qg_platform_name(s->platform);
    default:
        return qg_arena_printf(p->arena, "%d",
                               bit == QG_SET_BIT_BITS            ? g->bits
                               : bit == QG_SET_BIT_EXPONENT_BITS ? g->exponent_bits
                                                                 : (int)g->block);
    }
}

/* Only the fields the statement sets, in the order of QG_SET_MAP. */
static const char *set_text(page *p, const qg_set *s)
{
    const char *text = "";
    for (unsigned bit = 0; bit < QG_NSET && text; bit++) {
        if (!(s->fields >> bit & 1u))
            continue;
        const char *field = field_text(p, s, bit);
        text = field ? JOIN(p, text, "%s: %s", qg_set_field_name(bit), field) : NULL;
    }
    return text;
}

/* --- tables --- */

static qg_status add(page *p, qg_table *t, const char *text)
{
    return text ? qg_table_add(p->r, t, qg_cell_text(*text ? text : NULL))
                : qg_nomem(p->ctx);
}

/* Reason and place, after the statement. */
static qg_status add_origin(page *p, qg_table *t, const qg_origin *o)
{
    QG_TRY(add(p, t, o->why ? o->why : ""));
    QG_TRY(add(p, t, o->source ? o->source : ""));
    return qg_table_place(p->r, t, o->file, o->line);
}

static qg_status add_rules(page *p)
{
    qg_table *t;
    QG_TRY(qg_report_table(p->r, "rules", "id match set why source at", &t));
    t->records = true;
    for (size_t i = 0; i < p->b->rule.n; i++) {
        const qg_rule *rule = &p->b->rule.at[i];
        const char *match = node_text(p, &rule->node);
        QG_TRY(add(p, t, rule->origin.id));
        QG_TRY(add(p, t, match ? endpoint_text(p, match, &rule->at) : NULL));
        QG_TRY(add(p, t, set_text(p, &rule->set)));
        QG_TRY(add_origin(p, t, &rule->origin));
    }
    return QG_OK;
}

/* "c: {trait: compute}; a: {op: [Relu, Clip], in: [c]}" */
static const char *pattern_text(page *p, const qg_pattern *pattern)
{
    const char *text = "";
    for (size_t i = 0; i < pattern->n_node && text; i++) {
        const qg_pattern_node *n = &pattern->node[i];
        const qg_node_match *more = n->ud;
        qg_node_match m = more ? *more : (qg_node_match){ 0 };
        const char *in = "";
        m.op = n->op;
        m.n_op = n->n_op;
        m.traits = n->traits;
        for (size_t k = 0; k < n->n_in; k++)
            in = JOIN(p, in, "%s", pattern->node[n->in[k].from].name);
        const char *what = node_text(p, &m);
        if (!in)
            return NULL;
        if (what && *in)
            what = JOIN(p, what, "in: [%s]", in);
        text = what ? JOIN(p, text, "%s: {%s}", n->name, what) : NULL;
    }
    return text;
}

static const char *silence_text(page *p, const qg_fusion *f)
{
    const char *text = "";
    char silent[QG_SLOT_TEXT], leader[QG_SLOT_TEXT];
    if (f->n_silence == 0 && f->leader.node == QG_NONE)
        return "inner values: fp32";
    if (f->n_silence == 0)
        return qg_arena_printf(
            p->arena, "inner values: %s.%s", f->pattern.node[f->leader.node].name,
            qg_slot_text(f->leader.is_output, f->leader.slot, leader));
    for (size_t i = 0; i < f->n_silence; i++) {
        const qg_pattern_end *s = &f->silence[i].silent, *l = &f->silence[i].leader;
        text = JOIN(p, text, "%s.%s: %s.%s", f->pattern.node[s->node].name,
                    qg_slot_text(s->is_output, s->slot, silent),
                    f->pattern.node[l->node].name,
                    qg_slot_text(l->is_output, l->slot, leader));
    }
    return text;
}

static qg_status add_fusions(page *p)
{
    qg_table *t;
    QG_TRY(qg_report_table(p->r, "fusions", "id pattern silence why source at", &t));
    t->records = true;
    for (size_t i = 0; i < p->b->fusion.n; i++) {
        const qg_fusion *f = &p->b->fusion.at[i];
        QG_TRY(add(p, t, f->origin.id));
        QG_TRY(add(p, t, pattern_text(p, &f->pattern)));
        QG_TRY(add(p, t, silence_text(p, f)));
        QG_TRY(add_origin(p, t, &f->origin));
    }
    return QG_OK;
}

/* `spread` in words: whether producers follow, and which of them. */
static qg_status add_sharing(page *p)
{
    qg_table *t;
    QG_TRY(qg_report_table(p->r, "sharing", "id match align spread why source at", &t));
    t->records = true;
    for (size_t i = 0; i < p->b->sharing.n; i++) {
        const qg_sharing *s = &p->b->sharing.at[i];
        QG_TRY(add(p, t, s->origin.id));
        QG_TRY(add(p, t, node_text(p, &s->node)));
        QG_TRY(add(p, t, qg_align_name(s->align)));
        QG_TRY(add(p, t,
                   !s->spread    ? "none"
                   : s->override ? "upstream"
                                 : "upstream, to producers of one reader"));
        QG_TRY(add_origin(p, t, &s->origin));
    }
    return QG_OK;
}

static qg_status add_settings(page *p)
{
    qg_table *t;
    if (p->b->setting.n == 0)
        return QG_OK;
    QG_TRY(qg_report_table(p->r, "pass_parameters", "pass parameter value", &t));
    for (size_t i = 0; i < p->b->setting.n; i++) {
        QG_TRY(add(p, t, p->b->setting.at[i].pass));
        QG_TRY(add(p, t, p->b->setting.at[i].param));
        QG_TRY(qg_table_add(p->r, t, qg_cell_number(p->b->setting.at[i].value)));
    }
    return QG_OK;
}

static const char *quirk_words(page *p)
{
    const char *text = "";
    for (int i = 0; i < QG_NQUIRK; i++)
        if (p->b->quirks >> i & 1u)
            text = JOIN(p, text, "%s", qg_quirk_name((qg_quirk)i));
    return text;
}

/* A fact whose text may be empty ("-") or have failed. */
static qg_status fact(page *p, const char *name, const char *text)
{
    return text ? qg_report_add(p->r, name, qg_cell_text(*text ? text : NULL))
                : qg_nomem(p->ctx);
}

static qg_status fill(page *p)
{
    const qg_backend *b = p->b;
    assert(b->name && b->pipeline && b->dispatch);
    QG_TRY(fact(p, "backend", b->name));
    QG_TRY(fact(p, "title", b->title ? b->title : ""));
    QG_TRY(fact(p, "pipeline", b->pipeline));
    if (b->placement)
        QG_TRY(fact(p, "placement", b->placement));
    QG_TRY(fact(p, "dispatch", b->dispatch));
    QG_TRY(fact(p, "profile", b->profile ? b->profile : ""));
    QG_TRY(fact(p, "quirks", quirk_words(p)));
    QG_TRY(fact(p, "defaults", set_text(p, &b->defaults)));
    QG_TRY(fact(p, "quantizes", words(p, b->quantizes.at, b->quantizes.n)));
    QG_TRY(fact(p, "passive", words(p, b->passive.at, b->passive.n)));
    QG_TRY(add_settings(p));
    QG_TRY(add_rules(p));
    QG_TRY(add_fusions(p));
    return add_sharing(p);
}

qg_status qg_backend_page(qg_ctx *ctx, const char *name, qg_report **report)
{
    page p = { .ctx = ctx };
    qg_search search;
    qg_backend *b;
    QG_TRY(qg_report_new(ctx, "backend", &p.r));
    p.arena = p.r->arena;
    qg_status s = qg_config_search(ctx, p.arena, "backends", &search);
    if (s == QG_OK)
        s = qg_backend_load(ctx, p.arena, name, search, &b);
    if (s == QG_OK) {
        p.b = b;
        s = fill(&p);
    }
    if (s == QG_OK)
        *report = p.r;
    else
        qg_report_free(p.r);
    return s;
}
