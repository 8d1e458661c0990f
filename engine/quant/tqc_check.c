/* tqc_check.c -- the invariants that passes must preserve, one function per row of the
 * table.
 *
 * RULE defines a rule that checks one TQC at a time; acyclic and rings check all of
 * them and come first, since the others walk chains. */
#include "engine/quant/tqc_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* "verify: rule leaders: conv.out0: " and the text. */
static qg_status broken(qg_ctx *ctx, const qg_check_rule *rule, const qg_tqc *t,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
static qg_status broken(qg_ctx *ctx, const qg_check_rule *rule, const qg_tqc *t,
                        const char *format, ...)
{
    enum { LONGEST = 640 };
    char at[QG_ENDPOINT_TEXT], what[LONGEST];
    va_list words;
    va_start(words, format);
    (void)vsnprintf(what, sizeof what, format, words);
    va_end(words);
    return qg_fail(ctx, QG_ESTATE, "verify: rule %s: %s: %s", rule->id,
                   qg_tqc_text(t, at), what);
}

/* Runs `one` on every TQC. */
typedef qg_status each(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                       const qg_tqc *t);

static qg_status for_each(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                          each *one)
{
    for (size_t i = 0; i < q->tqc.n; i++)
        QG_TRY(one(ctx, rule, q, q->tqc.at[i]));
    return QG_OK;
}

#define RULE(name)                                                                     \
    static each name##_one;                                                            \
    static qg_status name(qg_ctx *ctx, const qg_check_rule *rule, const void *subject) \
    {                                                                                  \
        return for_each(ctx, rule, subject, name##_one);                               \
    }                                                                                  \
    static qg_status name##_one(qg_ctx *ctx, const qg_check_rule *rule,                \
                                const qg_quant *q, const qg_tqc *t)

RULE(linked)
{
    if (t->id >= q->tqc.n || q->tqc.at[t->id] != t)
        return broken(ctx, rule, t, "id %u is not its index, expected dense ids",
                      t->id);
    if (qg_endpoint_tqc(qg_tqc_endpoint(t)) != t)
        return broken(ctx, rule, t,
                      "its node refers to another TQC, expected this one");
    if (t->node->dead || !qg_tqc_value(t))
        return broken(ctx, rule, t, "the slot is absent, expected a value");
    if (t->node->platform != QG_PLATFORM_QUANTIZED)
        return broken(ctx, rule, t, "its node is not quantized, expected no TQC");
    return QG_OK;
}

/* A rule that needs a mark of some bytes for every TQC. */
typedef qg_status marking(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                          uint32_t *mark);

/* Marks go with the rule: the records of one model may be checked any number of
 * times. */
static qg_status with_marks(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                            marking *run)
{
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    uint32_t *mark = scratch ? QG_NEWN(scratch, q->tqc.n, uint32_t) : NULL;
    qg_status s = mark ? run(ctx, rule, q, mark) : qg_nomem(ctx);
    qg_arena_free(scratch);
    return s;
}

/* Marks of the walk that is under way show a circle. */
static qg_status walk_chains(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                             uint32_t *mark)
{
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        for (; t->up != t && mark[t->id] == 0; t = t->up)
            mark[t->id] = (uint32_t)i + 1;
        if (t->up != t && mark[t->id] == i + 1)
            return broken(ctx, rule, t, "it dominates itself, expected a root");
    }
    return QG_OK;
}

/* Every chain of `up` ends. */
static qg_status acyclic(qg_ctx *ctx, const qg_check_rule *rule, const void *subject)
{
    return with_marks(ctx, rule, subject, walk_chains);
}

static qg_status walk_rings(qg_ctx *ctx, const qg_check_rule *rule, const qg_quant *q,
                            uint32_t *seen)
{
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i], *root = qg_tqc_root(t);
        if (seen[i])
            continue;
        const qg_tqc *u = t;
        bool has_root = false;
        do {
            if (seen[u->id] || qg_tqc_root(u) != root)
                return broken(ctx, rule, u,
                              "it is in the ring of another group, "
                              "expected one ring per group");
            seen[u->id] = 1;
            has_root |= u == root;
            u = u->next;
        } while (u != t);
        if (!has_root)
            return broken(ctx, rule, t,
                          "its ring lacks the root, expected all members");
    }
    return QG_OK;
}

/* Rings and trees describe the same groups: each ring holds one root, and members in
 * all. */
static qg_status rings(qg_ctx *ctx, const qg_check_rule *rule, const void *subject)
{
    return with_marks(ctx, rule, subject, walk_rings);
}

RULE(overlapped)
{
    (void)q;
    if (t->state == QG_TQC_OVERLAPPED && t->up == t)
        return broken(ctx, rule, t,
                      "overlapped without a dominator, expected a root elsewhere");
    return QG_OK;
}

RULE(leaders)
{
    (void)q;
    const qg_tqc *root = qg_tqc_root(t);
    if (root == t)
        return QG_OK;
    if (root->state == QG_TQC_FP32 || root->state == QG_TQC_SOI ||
        root->state == QG_TQC_OVERLAPPED || root->derive != QG_DERIVE_NONE)
        return broken(ctx, rule, t,
                      "its dominator is %s%s, expected a dominator with a scale",
                      root->derive != QG_DERIVE_NONE ? "derived and " : "",
                      qg_tqc_state_word(root->state));
    return QG_OK;
}

RULE(own_root)
{
    (void)q;
    bool own = t->state == QG_TQC_INITIAL || t->state == QG_TQC_ACTIVATED ||
               t->state == QG_TQC_BAKED;
    if (own && t->up != t)
        return broken(ctx, rule, t, "%s in another's group, expected its own root",
                      qg_tqc_state_word(t->state));
    return QG_OK;
}

/* States that have been through calibration. */
static bool is_calibrated(const qg_tqc *t)
{
    return t->state == QG_TQC_ACTIVATED || t->state == QG_TQC_BAKED ||
           t->state == QG_TQC_PASSIVE || t->state == QG_TQC_PASSIVE_BAKED;
}

RULE(has_scale)
{
    (void)q;
    qg_qparam p = qg_tqc_param(t);
    if (!is_calibrated(t) || (t->scheme.policy & QG_DYNAMIC))
        return QG_OK;
    if (p.n == 0)
        return broken(ctx, rule, t, "%s without a scale, expected a scale",
                      qg_tqc_state_word(t->state));
    for (size_t i = 0; i < p.n; i++)
        if (!isfinite(p.scale[i]) || !(p.scale[i] > 0))
            return broken(ctx, rule, t, "scale[%zu] is %g, expected finite and above 0",
                          i, (double)p.scale[i]);
    return QG_OK;
}

/* The behaviours that quirks replace in the rules. */
typedef struct checking {
    bool (*is_offset)(const qg_scheme *s, int32_t offset);
} checking;

static bool is_offset(const qg_scheme *s, int32_t offset)
{
    return offset >= s->qmin && offset <= s->qmax;
}

static bool ppq_is_offset(const qg_scheme *s, int32_t offset)
{
    (void)s;
    (void)offset;
    return true;
}

static const checking ordinary = { .is_offset = is_offset };

const qg_quirk_row qg_tqc_check_quirks[] = {
    QG_SWAP(PPQ_OFFSET, "D01: an asymmetric offset may leave the range",
            QG_PPQ "quantization/observer/range.py minmax_to_scale_offset", checking,
            is_offset, ppq_is_offset),
    QG_SWAP(PPQ_POW2_OFFSET, "D02: an asymmetric offset may leave the range",
            QG_PPQ "quantization/observer/range.py minmax_to_scale_offset", checking,
            is_offset, ppq_is_offset),
    { 0 },
};

RULE(offsets)
{
    const qg_scheme *s = &t->scheme;
    bool symmetric = (s->policy & QG_SYMMETRIC) != 0;
    checking how = ordinary;
    qg_quirk_swap(qg_tqc_check_quirks, q->quirks, &how);
    for (size_t i = 0; i < t->nparam; i++) {
        int32_t o = t->offset[i];
        if (symmetric && o != 0)
            return broken(ctx, rule, t, "offset[%zu] is %d, expected 0: symmetric", i,
                          o);
        if (!symmetric && !how.is_offset(s, o))
            return broken(ctx, rule, t, "offset[%zu] is %d, expected within the range",
                          i, o);
    }
    return QG_OK;
}

/* Its own, and those of its dominator where they are its grid. */
RULE(lengths)
{
    (void)q;
    const qg_tensor *type = &qg_tqc_value(t)->type;
    size_t n = is_calibrated(t) ? qg_tqc_param(t).n : t->nparam;
    if (n == 0 || !qg_tensor_known(type))
        return QG_OK;
    int64_t want = qg_scheme_param_count(&t->scheme, type);
    bool stacked = (t->scheme.variant & QG_FLOAT_PPQ_TIES) && want > 0 &&
                   (int64_t)n % want == 0; /* D72: one row of scales per call */
    if (want != (int64_t)n && !stacked)
        return broken(ctx, rule, t, "%zu scales, expected %d for its policy and dims",
                      n, (int)want);
    return QG_OK;
}

RULE(baked)
{
    (void)q;
    bool is_baked = qg_tqc_is_baked(t);
    if (is_baked && !qg_tqc_is_constant(t))
        return broken(ctx, rule, t, "%s, but its value changes, expected a constant",
                      qg_tqc_state_word(t->state));
    return QG_OK;
}

RULE(schemes)
{
    (void)q;
    char at[QG_ENDPOINT_TEXT];
    if (qg_scheme_check(ctx, qg_tqc_text(t, at), &t->scheme) == QG_OK)
        return QG_OK;
    return broken(ctx, rule, t, "%s", qg_ctx_message(ctx));
}

/* clang-format off */
const qg_check_rule qg_tqc_rules[] = {
    { "tqc-linked", "ids are dense; endpoints of quantized nodes refer to their TQC",
      linked },
    { "tqc-acyclic", "every chain of dominators ends at a root", acyclic },
    { "tqc-rings", "the ring of a group holds exactly its members", rings },
    { "tqc-overlapped", "OVERLAPPED implies a root elsewhere", overlapped },
    { "tqc-leaders", "a dominator quantizes with its own scale", leaders },
    { "tqc-own-root", "INITIAL, ACTIVATED and BAKED are roots", own_root },
    { "tqc-has-scale", "calibrated endpoints have finite scales above 0", has_scale },
    { "tqc-offsets", "offsets lie in the range, and are 0 when symmetric", offsets },
    { "tqc-lengths", "there are as many scales as policy and dims require", lengths },
    { "tqc-baked", "only constants are baked", baked },
    { "tqc-schemes", "every scheme is legal and its range fits its bits", schemes },
};
/* clang-format on */
const size_t qg_n_tqc_rules = sizeof qg_tqc_rules / sizeof qg_tqc_rules[0];

qg_status qg_check_tqcs(qg_ctx *ctx, const qg_quant *q, uint32_t which)
{
    return qg_check_rows(ctx, qg_tqc_rules, qg_n_tqc_rules, which, q);
}
