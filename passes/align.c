/* align -- gives one scale to operands that the backend requires to share it (backend:
 * `sharing`).
 *
 *   large   inputs take the largest scale among them (asymmetric: the union of ranges)
 *   output  inputs take the scale of the output
 *   input   outputs take the scale of input 0
 * Needs scales, so it runs after calibration.
 *
 * An input usually belongs to the group of its producer.  With `spread: upstream` the
 * whole group takes the common scale, so the value is quantized once, at its producer;
 * without it, the input leaves the group and is requantized.  With `override: no` it
 * also leaves the group when the value has other readers, or when the producer's scale
 * is not free: passive, shared with the producer's inputs, or prescribed.
 *
 * PPQ (quirk ppq-split-groups) makes input 0 the root of a new group, moves endpoints
 * one by one and keeps every quantizer active; see ppq_share.
 * Source   docs/evidence/ppq-behaviour.md#alignment; defects D03, D04, D23, D24 are
 *          fixed here, and kept as quirks. */

#include "engine/calib/observer.h"
#include "engine/quant/fake.h"
#include "passes/passes.h"

typedef struct team team;

/* Behaviours that quirks replace. */
typedef struct behaviours {
    struct grouping {
        bool (*is_inside)(const team *t, const qg_tqc *member); /* NULL: none */
        /* NULL: all grids are compatible. */
        bool (*same_grid)(const qg_tqc *member, const qg_tqc *lead);
        qg_status (*share)(team *t, qg_tqc *lead);
    } grouping;
    uint32_t by_range; /* policies that take the union of the ranges, not the largest
                        * scale */
    /* PPQ only; NULL: operands with floating grids share no scale. */
    bool (*shares_floating)(const team *t, const qg_tqc *lead);
    /* PPQ only: from the producer of an operand. */
    qg_status (*spread)(const team *t, qg_node *up, qg_tqc *lead);
} behaviours;

/* The operands of one node that share the scale. */
struct team {
    qg_pass_env *env;
    const behaviours *how;
    const qg_sharing *rule;
    qg_node *node;
    QG_VEC(qg_tqc *) member;
};

/* Records why the rule has no effect at this node. */
static qg_status miss(const team *t, const char *why)
{
    return qg_pass_near_miss(t->env, t->rule->origin.id, t->node, "%s", why);
}

/* --- which operands take part --- */

static bool takes_part(const qg_tqc *t)
{
    return t && t->state != QG_TQC_FP32 && t->state != QG_TQC_SOI &&
           !(t->scheme.policy & QG_FLOATING); /* not representable in steps */
}

/* A fusion has overlapped it under the node's own output: the kernel adds it before any
 * rounding. */
static bool is_inside(const team *t, const qg_tqc *member)
{
    const qg_node *n = t->node;
    const qg_tqc *out = qg_output_tqc(n, 0);
    return t->rule->align == QG_ALIGN_LARGE && out &&
           member->state == QG_TQC_OVERLAPPED &&
           qg_tqc_root(member) == qg_tqc_root(out);
}

static qg_status gather(team *t, qg_tqc **row, uint32_t n)
{
    for (uint32_t i = 0; row && i < n; i++) {
        if (!takes_part(row[i]) ||
            (t->how->grouping.is_inside && t->how->grouping.is_inside(t, row[i])))
            continue;
        QG_TRY(qg_vec_push(t->env->ctx, t->env->graph->arena, &t->member, row[i]));
    }
    return QG_OK;
}

/* The tie rule may differ between them. */
static bool same_grid(const qg_tqc *member, const qg_tqc *lead)
{
    qg_scheme scheme = member->scheme;
    scheme.rounding = lead->scheme.rounding;
    return qg_scheme_same(&scheme, &lead->scheme);
}

/* NULL when member and lead may share one scale, else why not. */
static const char *objection(const team *t, const qg_tqc *member, const qg_tqc *lead)
{
    const qg_tqc *root = qg_tqc_root(member);
    if (qg_tqc_param(member).n != 1 || qg_tqc_param(lead).n != 1)
        return "an operand has no scale or a scale per channel, expected a scale per "
               "tensor";
    if (t->how->grouping.same_grid && !t->how->grouping.same_grid(member, lead))
        return "operands have different schemes, expected the same";
    if (root->state != QG_TQC_PASSIVE &&
        !qg_tqc_may_move(root->state, root->saved, QG_TQC_PASSIVE))
        return "the state of an operand's dominator does not allow a shared scale";
    return NULL;
}

/* --- the common scale of `large` --- */

/* Symmetric: the largest scale, exactly.  Else the range that holds all ranges. */
static void common_param(const team *t, const qg_tqc *lead, float *scale,
                         int32_t *offset)
{
    const qg_scheme *s = &lead->scheme;
    double low = 0, high = 0;
    *scale = 0;
    *offset = 0;
    for (size_t i = 0; i < t->member.n; i++) {
        const qg_scheme *k = &t->member.at[i]->scheme;
        qg_qparam p = qg_tqc_param(t->member.at[i]);
        double step = (double)p.scale[0];
        double bottom = step * (double)(k->qmin - p.offset[0]);
        double top = step * (double)(k->qmax - p.offset[0]);
        low = bottom < low ? bottom : low;
        high = top > high ? top : high;
        *scale = p.scale[0] > *scale ? p.scale[0] : *scale;
    }
    if (s->policy & t->how->by_range)
        qg_scheme_from_range(
            s, (qg_range){ low, high, lead->observer.value[QG_PARAM_MIN_SCALE], 0 },
            scale, offset);
}

/* --- sharing by groups: the default --- */

/* Its scale may be changed: it neither follows its inputs nor is prescribed. */
static bool is_free(const team *t, const qg_value *v)
{
    const qg_backend *b = t->env->backend;
    const qg_tqc *out = qg_output_tqc(v->def, v->def_slot);
    const qg_observer *o = out && out->observer.name
                               ? qg_observer_find(t->env->ctx, out->observer.name)
                               : NULL;
    const qg_sharing *rule = qg_backend_sharing(b, v->def);
    bool follows =
        qg_backend_is_passive(b, v->def->op) ||
        (rule && (rule->align == QG_ALIGN_OUTPUT || rule->align == QG_ALIGN_INPUT));
    return !follows && !(o && o->value[QG_PARAM_STEP] != 0);
}

/* Whether the whole group of an input takes the common scale. */
static bool moves_group(const team *t, const qg_tqc *member)
{
    const qg_value *v = qg_tqc_value(member);
    return t->rule->spread && (t->rule->override || !v->def ||
                               (qg_value_watchers(v) <= 1 && is_free(t, v)));
}

/* Inputs whose producer must keep its scale first leave its group, with the scale they
 * had. */
static qg_status stand_alone(const team *t, qg_tqc *member)
{
    qg_quant *q = t->env->quant;
    qg_qparam p = qg_tqc_param(member);
    float scale = p.scale[0];
    int32_t offset = p.offset[0];
    if (member->up == member || moves_group(t, member))
        return QG_OK;
    QG_TRY(qg_tqc_detach(q, member));
    QG_TRY(qg_tqc_set_param(q, member, 1, &scale, &offset));
    return qg_tqc_set_state(q, member, QG_TQC_ACTIVATED);
}

/* Merges into lead's group; no effect when both are already in it. */
static qg_status borrow(const team *t, qg_tqc *member, qg_tqc *lead)
{
    if (qg_tqc_root(member) == qg_tqc_root(lead))
        return QG_OK;
    t->env->changed++;
    return qg_tqc_lend(t->env->quant, member, lead);
}

/* Inputs whose producers must not follow leave their groups first; then all follow the
 * lead, and for `large` the lead's root takes the common scale. */
static qg_status share_groups(team *t, qg_tqc *lead)
{
    float scale = 0;
    int32_t offset = 0;
    bool large = t->rule->align == QG_ALIGN_LARGE;
    if (large)
        common_param(t, lead, &scale, &offset);
    for (size_t i = 0; t->rule->align != QG_ALIGN_INPUT && i < t->member.n; i++)
        QG_TRY(stand_alone(t, t->member.at[i]));
    for (size_t i = 0; i < t->member.n; i++)
        QG_TRY(borrow(t, t->member.at[i], lead));
    if (!large)
        return QG_OK;
    qg_tqc *root = (qg_tqc *)qg_tqc_root(lead);
    if (root->scale[0] != scale || root->offset[0] != offset)
        t->env->changed++;
    return qg_tqc_set_param(t->env->quant, root, 1, &scale, &offset);
}

/* --- sharing as PPQ does it: endpoint by endpoint --- */

/* Moves one endpoint, not its group; never creates a cycle. */
static qg_status ppq_borrow(const team *t, qg_tqc *member, qg_tqc *lead)
{
    if (member == lead || qg_tqc_root(lead) == member)
        return QG_OK;
    t->env->changed++;
    return qg_tqc_lend(t->env->quant, member, lead);
}

/* Input 0 becomes a root with the common scale, PASSIVE. */
static qg_status ppq_lead(team *t, qg_tqc *lead)
{
    qg_quant *q = t->env->quant;
    float scale;
    int32_t offset;
    common_param(t, lead, &scale, &offset);
    QG_TRY(qg_tqc_detach(q, lead));
    QG_TRY(qg_tqc_set_param(q, lead, 1, &scale, &offset));
    return qg_tqc_set_state(q, lead, QG_TQC_PASSIVE);
}

/* Endpoints of `up` at values that the aligned node reads.  Constants do not count: PPQ
 * gives each reader a copy. */
static qg_status ppq_spread_row(const team *t, qg_node *up, bool outputs, qg_tqc *lead)
{
    uint32_t n = outputs ? up->n_out : up->n_in;
    qg_tqc **row = outputs ? up->tout : up->tin;
    for (uint32_t k = 0; row && k < n; k++) {
        const qg_value *v = row[k] ? qg_tqc_value(row[k]) : NULL;
        bool read_here = false;
        for (uint32_t i = 0; v && !v->constant && i < t->node->n_in; i++)
            read_here |= t->node->in[i] == v;
        if (read_here && row[k]->state != QG_TQC_FP32 && row[k]->state != QG_TQC_SOI)
            QG_TRY(ppq_borrow(t, row[k], lead));
    }
    return QG_OK;
}

static qg_status ppq_spread_outputs(const team *t, qg_node *up, qg_tqc *lead)
{
    return ppq_spread_row(t, up, true, lead);
}

static qg_status ppq_spread_both(const team *t, qg_node *up, qg_tqc *lead)
{
    QG_TRY(ppq_spread_row(t, up, false, lead));
    return ppq_spread_row(t, up, true, lead);
}

/* Producers of the inputs pass the scale on to theirs. */
static qg_status ppq_spread(const team *t, qg_tqc *lead)
{
    for (uint32_t i = 0; i < t->node->n_in; i++) {
        const qg_value *v = t->node->in[i];
        qg_node *up = v ? v->def : NULL;
        if (!up || up->platform != QG_PLATFORM_QUANTIZED ||
            (!t->rule->override && qg_node_readers(up) != 1))
            continue;
        QG_TRY(t->how->spread(t, up, lead));
    }
    return QG_OK;
}

/* The same steps in PPQ's order. */
static qg_status ppq_share(team *t, qg_tqc *lead)
{
    if (t->rule->align == QG_ALIGN_LARGE)
        QG_TRY(ppq_lead(t, lead));
    for (size_t i = 0; i < t->member.n; i++)
        QG_TRY(ppq_borrow(t, t->member.at[i], lead));
    return t->rule->align != QG_ALIGN_INPUT && t->rule->spread ? ppq_spread(t, lead)
                                                               : QG_OK;
}

/* Operands that are float here but not in PPQ: none of them takes part, but their
 * producers follow a lead that has the smallest possible scale. */
static bool ppq_shares_floating(const team *t, const qg_tqc *lead)
{
    return lead && (lead->scheme.policy & QG_FLOATING) && lead->state != QG_TQC_FP32 &&
           t->rule->align != QG_ALIGN_INPUT;
}

static const behaviours ordinary = {
    .grouping = {.is_inside = is_inside,
                 .same_grid = same_grid,
                 .share = share_groups},
    .by_range = QG_ASYMMETRIC,
    .spread = ppq_spread_outputs,
};

static const qg_quirk_row quirk[] = {
    QG_SWAP(
        PPQ_SPLIT_GROUPS,
        "D23: operands follow individually, whatever their grids, and keep quantizing",
        QG_PPQ "quantization/optim/refine.py QuantAlignmentPass", behaviours, grouping,
        { .share = ppq_share }),
    QG_SWAP(PPQ_ALIGN_256_OVER_255,
            "D03: align-to-large recomputes the scale from the range: x 256/255",
            QG_PPQ "quantization/optim/refine.py QuantAlignmentPass", behaviours,
            by_range, QG_ASYMMETRIC | QG_SYMMETRIC),
    QG_SWAP(PPQ_ALIGN_FLOATING,
            "D04: align-to-large gives floating inputs the smallest possible scale",
            QG_PPQ "quantization/optim/refine.py QuantAlignmentPass", behaviours,
            shares_floating, ppq_shares_floating),
    QG_SWAP(PPQ_ALIGN_UPSTREAM_IN,
            "D24: spreading a scale upstream also reaches inputs of the upstream node",
            QG_PPQ "quantization/optim/refine.py QuantAlignmentPass", behaviours,
            spread, ppq_spread_both),
    { 0 },
};

/* --- one node --- */

/* Selects lead and operands by the rule, checks that they can share, then shares. */
static qg_status align(team *t)
{
    qg_node *n = t->node;
    bool to_outputs = t->rule->align == QG_ALIGN_INPUT;
    qg_tqc *lead =
        t->rule->align == QG_ALIGN_OUTPUT ? qg_output_tqc(n, 0) : qg_input_tqc(n, 0);
    QG_TRY(gather(t, to_outputs ? n->tout : n->tin, to_outputs ? n->n_out : n->n_in));
    if (t->member.n == 0 && t->how->shares_floating && t->how->shares_floating(t, lead))
        return ppq_share(t, lead);
    if (t->rule->align == QG_ALIGN_LARGE && t->member.n > 0)
        lead = t->member.at[0];
    if (t->member.n == 0 || !takes_part(lead))
        return miss(t, "its operands are float, expected integers to align");
    for (size_t i = 0; i < t->member.n; i++) {
        const char *why = objection(t, t->member.at[i], lead);
        if (why)
            return miss(t, why);
    }
    QG_TRY(qg_pass_matched(t->env, t->rule->origin.id));
    return t->how->grouping.share(t, lead);
}

/* Node by node in topological order: later nodes see the decisions of earlier nodes. */
static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < env->backend->sharing.n; i++)
        QG_TRY(qg_pass_pattern(env, env->backend->sharing.at[i].origin.id,
                               "no quantized node that it takes"));
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        const qg_sharing *rule = n->platform == QG_PLATFORM_QUANTIZED
                                     ? qg_backend_sharing(env->backend, n)
                                     : NULL;
        if (!rule || rule->align == QG_ALIGN_NONE)
            continue;
        team t = { .env = env, .how = &how, .rule = rule, .node = n };
        QG_TRY(qg_pass_author(env, rule->origin.id));
        QG_TRY(align(&t));
    }
    return QG_OK;
}

const qg_pass qg_pass_align = {
    .name = "align",
    .summary = "make operands share a scale where the backend requires it",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};
