#include "engine/pass/rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/suggest.h"
#include "engine/quant/journal.h"
#include "engine/quant/quantizer.h"
#include "engine/calib/observer.h"

enum { WHAT = 320 };

/* The behaviours that quirks replace in rules. */
typedef struct reading {
    int (*out_channels)(const qg_tqc *t); /* axis of a weight that counts them, or -1 */
} reading;

/* Everything that making the TQCs of one graph needs. */
typedef struct maker {
    qg_quant *q;
    const qg_backend *b;
    reading how;
    const uint8_t *const *inside; /* [rules] see qg_rules_regions */
    uint32_t *hits;               /* [rules] endpoints or nodes that a rule covered */
    const qg_tqc **kept;          /* [rules] see keeps_grid; NULL: none */
    uint32_t *active;             /* rules that cover the node at hand, in order */
    uint32_t n_active;
} maker;

bool qg_rule_covers(const qg_backend *b, uint32_t r, const uint8_t *const *inside,
                    const qg_node *n)
{
    assert(r < b->rule.n);
    return (!inside[r] || inside[r][n->id]) && qg_node_matches(&b->rule.at[r].node, n);
}

/* --- one endpoint --- */

static int out_channels(const qg_tqc *t)
{
    const qg_op *op = t->node->op;
    return op->weight_axis && qg_tqc_role(t) == 'w' ? op->weight_axis(t->node) : -1;
}

/* Axis 0 of Gemm and MatMul, whatever it counts. */
static int ppq_out_channels(const qg_tqc *t)
{
    int axis = out_channels(t);
    bool product =
        qg_tqc_value(t)->type.rank == 2 || qg_op_slot_of(t->node->op, 'b') < 0;
    return axis >= 0 && product ? 0 : axis;
}

static const reading ordinary = { .out_channels = out_channels };

const qg_quirk_row qg_rules_quirks[] = {
    QG_SWAP(PPQ_REDUCTION_AXIS,
            "D20: Gemm and MatMul weights are per-channel along axis 0, whatever its "
            "meaning",
            QG_PPQ "quantization/quantizer/TensorRTQuantizer.py", reading, out_channels,
            ppq_out_channels),
    { 0 },
};

/* A weight without channels, such as a vector or a batch of matrices, has one scale. */
static qg_status resolve_axis(const maker *m, const qg_tqc *t, const char *what,
                              qg_scheme *s)
{
    assert(t->node);
    if (s->axis != QG_AXIS_OUT_CHANNEL)
        return QG_OK;
    int axis = m->how.out_channels(t);
    if (axis < 0 && t->node->op->weight_axis && qg_tqc_role(t) == 'w') {
        s->policy = (uint16_t)((s->policy & ~QG_PER_CHANNEL) | QG_PER_TENSOR);
        s->axis = -1;
        return QG_OK;
    }
    if (axis < 0)
        return qg_fail(m->q->ctx, QG_ECONFIG,
                       "%s: %s has no axis of output channels here, expected a number",
                       what, t->node->op->name);
    s->axis = (int16_t)axis;
    return QG_OK;
}

/* "file:line: rule id at endpoint": begins every complaint about a rule. */
static const char *rule_text(const qg_rule *r, const qg_tqc *t, char text[WHAT])
{
    char at[QG_ENDPOINT_TEXT];
    (void)snprintf(text, WHAT, "%s:%u: rule %s at %s", r->origin.file, r->origin.line,
                   r->origin.id, qg_tqc_text(t, at));
    return text;
}

/* A bias with a derived scale is added to the accumulator: its bits are not those of
 * inputs and weights.  A rule that neither names it nor derives it leaves its grid. */
static bool keeps_grid(const qg_rule *rule, const qg_tqc *t)
{
    return t->derive == QG_DERIVE_BIAS && (rule->set.fields & QG_SET_GRID) != 0 &&
           (rule->set.fields & QG_SET_DERIVE) == 0 &&
           !qg_endpoint_is_named(&rule->at, qg_tqc_endpoint(t));
}

/* Scheme, observer and visibility; the state is set after all rules have been
 * applied. */
static qg_status apply_set(maker *m, uint32_t r, const qg_set *set, qg_tqc *t)
{
    const qg_rule *rule = &m->b->rule.at[r];
    qg_scheme scheme = t->scheme;
    qg_observer_setting observer = t->observer;
    char what[WHAT];
    rule_text(rule, t, what);
    m->q->author = rule->origin.id;
    t->rule = r;
    QG_TRY(qg_set_apply(m->q->ctx, what, set, &scheme, &observer));
    QG_TRY(qg_observer_check(m->q->ctx, what, &observer));
    QG_TRY(resolve_axis(m, t, what, &scheme));
    QG_TRY(qg_scheme_check(m->q->ctx, what, &scheme));
    QG_TRY(qg_tqc_set_scheme(m->q, t, &scheme));
    QG_TRY(qg_tqc_set_observer(m->q, t, &observer));
    if ((set->fields & QG_SET_DERIVE) && t->derive != set->derive) {
        bool bias = set->derive == QG_DERIVE_BIAS;
        QG_TRY(qg_journal_add(m->q, t, "derive", bias ? "none" : "bias",
                              bias ? "bias" : "none"));
        t->derive = set->derive;
    }
    if (set->fields & QG_SET_VISIBILITY)
        QG_TRY(qg_tqc_set_visibility(m->q, t, set->visibility));
    if (set->fields & QG_SET_QUANTIZER)
        QG_TRY(qg_tqc_set_quantizer(m->q, t, set->quantizer));
    return QG_OK;
}

/* Counted as a hit when it has a setting for t. */
static qg_status apply_rule(maker *m, uint32_t r, qg_tqc *t)
{
    const qg_rule *rule = &m->b->rule.at[r];
    qg_set set = rule->set;
    if (keeps_grid(rule, t)) {
        m->kept[r] = m->kept[r] ? m->kept[r] : t;
        set.fields &= ~(uint32_t)QG_SET_GRID;
    }
    if (!set.fields)
        return QG_OK;
    m->hits[r]++;
    return apply_set(m, r, &set, t);
}

/* Roles first: 's' is never rounded, 'f' only when a rule insists. */
static qg_status role_state(qg_quant *q, qg_tqc *t)
{
    char role = qg_tqc_role(t);
    if (role != 's' && role != 'f')
        return QG_OK;
    q->author = "slot-role";
    return qg_tqc_set_state(q, t, role == 's' ? QG_TQC_SOI : QG_TQC_FP32);
}

/* Such a rule waits until there are scales to keep: see qg_rules_switch. */
static bool switches_off(const qg_rule *r)
{
    return (r->set.fields & QG_SET_STATE) != 0 &&
           (r->set.state == QG_TQC_DEACTIVATED || r->set.state == QG_TQC_DEQUANTIZED);
}

/* The TQC of one endpoint.  Fields are set rule by rule; the state last, since it
 * depends on the last rule that applies. */
static qg_status make(maker *m, qg_node *n, bool is_output, uint32_t slot)
{
    qg_tqc *t;
    qg_quant *q = m->q;
    const qg_rule *speaker = NULL; /* the last one that set a state */
    q->author = "defaults";
    QG_TRY(qg_quant_add(q, n, is_output, slot, &m->b->defaults.scheme, &t));
    t->observer = m->b->defaults.observer;
    QG_TRY(qg_journal_add(q, t, "state", "none", qg_tqc_state_name(t->state)));
    QG_TRY(role_state(q, t));
    for (uint32_t i = 0; i < m->n_active; i++) {
        const qg_rule *rule = &m->b->rule.at[m->active[i]];
        bool node_only = (rule->set.fields & ~(uint32_t)QG_SET_PLATFORM) == 0;
        if (node_only || !qg_endpoint_matches(&rule->at, qg_tqc_endpoint(t)))
            continue;
        QG_TRY(apply_rule(m, m->active[i], t));
        if (!(rule->set.fields & QG_SET_STATE) || switches_off(rule))
            continue;
        t->float_by = qg_rule_keeps_float(rule) ? rule->origin.id : NULL;
        speaker = t->float_by ? speaker : rule;
    }
    if (!speaker)
        return QG_OK;
    q->author = speaker->origin.id;
    return qg_tqc_set_state(q, t, speaker->set.state);
}

/* --- the graph --- */

static bool can_be_quantized(const qg_value *v) { return v && v->type.dtype == QG_F32; }

/* Rules that cover the node are found once, not once per endpoint. */
static qg_status make_node(maker *m, qg_node *n)
{
    m->n_active = 0;
    for (uint32_t r = 0; r < m->b->rule.n; r++)
        if (qg_rule_covers(m->b, r, m->inside, n)) {
            m->active[m->n_active++] = r;
            m->hits[r] += (m->b->rule.at[r].set.fields & QG_SET_PLATFORM) != 0;
        }
    if (n->platform != QG_PLATFORM_QUANTIZED)
        return QG_OK;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (can_be_quantized(n->in[i]))
            QG_TRY(make(m, n, false, i));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (can_be_quantized(n->out[i]))
            QG_TRY(make(m, n, true, i));
    return QG_OK;
}

/* The operator of the graph that is near one of the selector's; "" when it is there. */
static const char *near_operator(const qg_graph *g, const qg_node_match *at,
                                 char text[QG_SUGGEST_TEXT])
{
    text[0] = '\0';
    for (size_t w = 0; w < at->n_op && !text[0]; w++) {
        qg_suggest s = qg_suggest_for(at->op[w]);
        for (size_t i = 0; i < g->node.n; i++)
            qg_suggest_try(&s, g->node.at[i]->op->name);
        if (s.best && strcmp(s.best, at->op[w]) != 0)
            (void)qg_suggest_text(&s, text);
    }
    return text;
}

/* The rule has settings of grids alone, for such biases alone. */
static qg_status kept_alone(const maker *m, const qg_tqc *t, const char *what)
{
    char at[QG_ENDPOINT_TEXT];
    return qg_fail(m->q->ctx, QG_ECONFIG,
                   "%s: the selector matches only biases with derived scales, as %s, "
                   "and names none, expected slot: bias or the name of the value",
                   what, qg_tqc_text(t, at));
}

/* An override that hits nothing, or has a name that is not there, is a typing error,
 * not a wish. */
static qg_status check_overrides(const maker *m)
{
    char near[QG_SUGGEST_TEXT], what[WHAT];
    for (uint32_t r = 0; r < m->b->rule.n; r++) {
        const qg_rule *rule = &m->b->rule.at[r];
        if (!rule->is_override)
            continue;
        (void)snprintf(what, sizeof what, "%s:%u: rule %s", rule->origin.file,
                       rule->origin.line, rule->origin.id);
        QG_TRY(qg_rule_check_names(rule, m->q->graph, what));
        if (m->hits[r] == 0 && m->kept[r])
            return kept_alone(m, m->kept[r], what);
        if (m->hits[r] == 0)
            return qg_fail(m->q->ctx, QG_ECONFIG,
                           "%s: the selector matches no quantized endpoint%s, "
                           "expected at least one",
                           what, near_operator(m->q->graph, &rule->node, near));
    }
    return QG_OK;
}

/* Linear in endpoints times rules that cover their node. */
qg_status qg_rules_apply(qg_quant *q)
{
    const qg_backend *b = q->backend;
    assert(b && q->tqc.n == 0);
    maker m = { .q = q, .b = b, .how = ordinary };
    qg_quirk_swap(qg_rules_quirks, q->quirks, &m.how);
    m.hits = QG_NEWN(q->arena, b->rule.n, uint32_t);
    m.kept = QG_NEWN(q->arena, b->rule.n, const qg_tqc *);
    m.active = QG_NEWN(q->arena, b->rule.n, uint32_t);
    if (!m.hits || !m.kept || !m.active)
        return qg_nomem(q->ctx);
    QG_TRY(qg_rules_regions(b, q->graph, q->arena, &m.inside));
    for (size_t i = 0; i < q->graph->node.n; i++)
        QG_TRY(make_node(&m, q->graph->node.at[i]));
    return check_overrides(&m);
}

/* --- switching off, when all else is done --- */

/* A baked constant is taken off its grid first: only then may it be deactivated. */
static qg_status unbake(qg_quant *q, qg_tqc *t)
{
    if (t->state == QG_TQC_BAKED)
        return qg_tqc_set_state(q, t, QG_TQC_ACTIVATED);
    if (t->state == QG_TQC_PASSIVE_BAKED)
        return qg_tqc_set_state(q, t, QG_TQC_PASSIVE);
    return QG_OK;
}

static qg_status switch_one(qg_quant *q, qg_tqc *t, qg_tqc_state to, bool *changed)
{
    bool off = t->state == QG_TQC_DEACTIVATED || t->state == QG_TQC_DEQUANTIZED;
    bool on = to == QG_TQC_ACTIVATED;
    *changed = false;
    if (t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI || t->state == to ||
        off != on)
        return QG_OK;
    *changed = true;
    if (on)
        return qg_tqc_switch_on(q, t);
    if (to == QG_TQC_DEACTIVATED)
        QG_TRY(unbake(q, t));
    return qg_tqc_switch_off(q, t, to == QG_TQC_DEACTIVATED);
}

qg_status qg_rule_switch(qg_quant *q, const qg_rule *rule, qg_tqc_state to,
                         size_t *matched, size_t *changed)
{
    const uint8_t *inside;
    assert(to == QG_TQC_ACTIVATED || to == QG_TQC_DEACTIVATED ||
           to == QG_TQC_DEQUANTIZED);
    QG_TRY(qg_rule_region(rule, q->graph, q->arena, &inside));
    q->author = rule->origin.id;
    *matched = *changed = 0;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        bool moved;
        if ((inside && !inside[t->node->id]) ||
            !qg_node_matches(&rule->node, t->node) ||
            !qg_endpoint_matches(&rule->at, qg_tqc_endpoint(t)))
            continue;
        QG_TRY(switch_one(q, t, to, &moved));
        *changed += moved;
        ++*matched;
    }
    return QG_OK;
}

qg_status qg_rules_switch(qg_quant *q)
{
    for (size_t r = 0; r < q->backend->rule.n; r++) {
        const qg_rule *rule = &q->backend->rule.at[r];
        size_t matched, changed;
        if (switches_off(rule))
            QG_TRY(qg_rule_switch(q, rule, rule->set.state, &matched, &changed));
    }
    return QG_OK;
}
