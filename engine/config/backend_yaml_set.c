#include <assert.h>
#include <stdio.h>

#include "engine/core/suggest.h"
#include "engine/config/backend_yaml_parts.h"
#include "engine/calib/observer.h"

const char *const qg_set_keys[] = {
#define X(id, text, ...) text,
    QG_SET_MAP(X)
#undef X
        NULL
};

/* 2^32 covers every code of 32 bits, signed or not. */
static qg_status read_range(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_set *set)
{
    const int64_t most = INT64_C(1) << 32;
    if (y->kind != QG_YAML_LIST || y->n != 2)
        return qg_yaml_fail(r->ctx, y, what, "range: expected [qmin, qmax]");
    QG_TRY(qg_yaml_int(r->ctx, y->item[0], what, -most, most, &set->scheme.qmin));
    return qg_yaml_int(r->ctx, y->item[1], what, -most, most, &set->scheme.qmax);
}

/* Each property once; whether they go together is checked later, over the defaults. */
static qg_status read_policy(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, qg_set *set)
{
    const char *const *word;
    size_t n;
    uint32_t policy = 0;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t bit = qg_policy_bit_named(word[i]);
        qg_suggest near = qg_suggest_for(word[i]);
        for (uint32_t k = 1; k <= QG_BLOCK; k *= 2)
            qg_suggest_try(&near, qg_policy_bit_name(k));
        char hint[QG_SUGGEST_TEXT];
        if (!bit || (policy & bit))
            return qg_yaml_fail(r->ctx, y, what,
                                "policy word '%s'%s, expected each of "
                                "engine/quant/policy.h once",
                                word[i], bit ? "" : qg_suggest_text(&near, hint));
        policy |= bit;
    }
    if (!qg_policy_legal(policy)) {
        char text[QG_POLICY_TEXT];
        return qg_yaml_fail(r->ctx, y, what,
                            "policy [%s], expected one granularity, one "
                            "of linear or floating, one of symmetric or asymmetric",
                            qg_policy_text(policy, text));
    }
    set->scheme.policy = (uint16_t)policy;
    return QG_OK;
}

/* "none", or words of quant/policy.h. */
static qg_status read_variant(const qg_backend_reader *r, const qg_yaml *y,
                              const char *what, qg_set *set)
{
    const char *const *word;
    size_t n;
    uint32_t variant = 0;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    bool none = n == 1 && strcmp(word[0], "none") == 0;
    for (size_t i = 0; !none && i < n; i++) {
        uint32_t bit = qg_float_variant_named(word[i]);
        if (!bit || (variant & bit))
            return qg_yaml_fail(
                r->ctx, y, what,
                "'%s', expected none, or fnuz, ppq-ties or wide, once each", word[i]);
        variant |= bit;
    }
    set->scheme.variant = (uint8_t)variant;
    return QG_OK;
}

/* The names are asked from number/round.c, so a new mode needs no change here. */
static qg_status read_rounding(const qg_backend_reader *r, const qg_yaml *y,
                               const char *what, qg_set *set)
{
    const char *name[QG_NROUNDING + 1] = { 0 };
    int mode;
    for (int i = 0; i < QG_NROUNDING; i++)
        name[i] = qg_rounding_name((qg_rounding)i);
    QG_TRY(qg_yaml_choice(r->ctx, y, what, name, &mode));
    set->scheme.rounding = (uint8_t)mode;
    return QG_OK;
}

static qg_status read_axis(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, qg_set *set)
{
    int64_t axis = QG_AXIS_OUT_CHANNEL;
    if (strcmp(y->text, "out-channel") != 0)
        QG_TRY(qg_yaml_int(r->ctx, y, what, 0, QG_MAX_RANK - 1, &axis));
    set->scheme.axis = (int16_t)axis;
    return QG_OK;
}

/* The name is stored as the observer's own static text. */
static qg_status read_observer(const qg_backend_reader *r, const qg_yaml *y,
                               const char *what, qg_set *set)
{
    const char *name;
    QG_TRY(qg_yaml_text(r->ctx, y, what, &name));
    const qg_observer *known = qg_observer_find(name);
    qg_suggest near = qg_suggest_for(name);
    for (const qg_observer *const *o = qg_observers; *o; o++)
        qg_suggest_try(&near, (*o)->name);
    char hint[QG_SUGGEST_TEXT];
    if (!known)
        return qg_yaml_fail(r->ctx, y, what,
                            "unknown observer '%s'%s, expected one of "
                            "'qg list observers'",
                            name, qg_suggest_text(&near, hint));
    set->observer.name = known->name;
    return QG_OK;
}

/* States that a rule may begin an endpoint with; the last two wait until there are
 * scales (qg_rules_switch). */
static qg_status read_state(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_set *set)
{
    static const char *const word[] = {
        "initial", "fp32", "soi", "passive-init", "deactivated", "dequantized", NULL
    };
    int k;
    QG_TRY(qg_yaml_choice(r->ctx, y, what, word, &k));
    set->state = (qg_tqc_state)qg_tqc_state_named(word[k]);
    return QG_OK;
}

/* Words whose position is the enum's value. */
static qg_status read_word(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, unsigned bit, qg_set *set)
{
    static const char *const visibility[] = { [QG_EXPORT_WHEN_ACTIVE] = "when-active",
                                              [QG_EXPORT_FORCED] = "forced",
                                              [QG_EXPORT_INTERNAL] = "internal",
                                              NULL };
    static const char *const derive[] = {
        [QG_DERIVE_NONE] = "none", [QG_DERIVE_BIAS] = "bias", NULL
    };
    static const char *const platform[] = { "quantized", "fp32", "soi", NULL };
    int k;
    if (bit == QG_SET_BIT_VISIBILITY) {
        QG_TRY(qg_yaml_choice(r->ctx, y, what, visibility, &k));
        set->visibility = (qg_visibility)k;
    } else if (bit == QG_SET_BIT_DERIVE) {
        QG_TRY(qg_yaml_choice(r->ctx, y, what, derive, &k));
        set->derive = (qg_derive)k;
    } else {
        assert(bit == QG_SET_BIT_PLATFORM);
        QG_TRY(qg_yaml_choice(r->ctx, y, what, platform, &k));
        set->platform = (enum qg_platform)(QG_PLATFORM_QUANTIZED + k);
    }
    return QG_OK;
}

/* Limits by field; those that are no integers come first. */
static qg_status read_number(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, unsigned bit, qg_set *set)
{
    assert(bit < QG_NSET);
    static const struct {
        int64_t low, high;
    } limit[QG_NSET] = {
        [QG_SET_BIT_BITS] = {2,  32       },
        [QG_SET_BIT_EXPONENT_BITS] = { 1, 8        },
        [QG_SET_BIT_BLOCK] = { 1, INT32_MAX},
    };
    int64_t x;
    QG_TRY(qg_yaml_int(r->ctx, y, what, limit[bit].low, limit[bit].high, &x));
    switch (bit) {
    case QG_SET_BIT_BITS:
        set->scheme.bits = (uint8_t)x;
        break;
    case QG_SET_BIT_EXPONENT_BITS:
        set->scheme.exponent_bits = (uint8_t)x;
        break;
    default:
        assert(bit == QG_SET_BIT_BLOCK);
        set->scheme.block = (int32_t)x;
    }
    return QG_OK;
}

/* A parameter of observers; which observer has it is asked when a rule is applied. */
static qg_status read_param(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_observer_param p, qg_set *set)
{
    qg_param_limit l = qg_observer_param_limit(p);
    double v;
    int64_t whole;
    if (l.whole)
        QG_TRY(qg_yaml_int(r->ctx, y, what, (int64_t)l.least, (int64_t)l.most, &whole));
    else
        QG_TRY(qg_yaml_number(r->ctx, y, what, l.least, l.most, &v));
    set->observer.value[p] = l.whole ? (double)whole : v;
    return QG_OK;
}

/* One field by its bit. */
static qg_status read_field(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, unsigned bit, qg_set *set)
{
    char where[QG_WHAT_TEXT];
    (void)snprintf(where, sizeof where, "%s: %s", what, qg_set_field_name(bit));
    if ((1u << bit) & QG_SET_PARAMS)
        return read_param(r, y, where, (qg_observer_param)(bit - QG_SET_BIT_PERCENTILE),
                          set);
    switch (bit) {
    case QG_SET_BIT_RANGE:
        return read_range(r, y, what, set);
    case QG_SET_BIT_POLICY:
        return read_policy(r, y, what, set);
    case QG_SET_BIT_ROUNDING:
        return read_rounding(r, y, where, set);
    case QG_SET_BIT_VARIANT:
        return read_variant(r, y, where, set);
    case QG_SET_BIT_AXIS:
        return read_axis(r, y, where, set);
    case QG_SET_BIT_OBSERVER:
        return read_observer(r, y, what, set);
    case QG_SET_BIT_STATE:
        return read_state(r, y, where, set);
    case QG_SET_BIT_VISIBILITY:
    case QG_SET_BIT_DERIVE:
    case QG_SET_BIT_PLATFORM:
        return read_word(r, y, where, bit, set);
    default:
        return read_number(r, y, where, bit, set);
    }
}

/* The fields together, over the defaults, as far as the rule alone tells. */
static qg_status check_together(const qg_backend_reader *r, const qg_yaml *y,
                                const char *what, const qg_set *set)
{
    qg_scheme s = r->b->defaults.scheme;
    qg_observer_setting observer = { 0 };
    const qg_yaml *range = qg_yaml_get(y, "range"), *at = range ? range : y;
    char where[2 * QG_WHAT_TEXT];
    (void)snprintf(where, sizeof where, "%s:%u: %s", at->file, at->line, what);
    QG_TRY(qg_set_apply(r->ctx, where, set, &s, &observer));
    bool has_axis = (s.policy & (QG_PER_CHANNEL | QG_BLOCK)) != 0;
    if (s.axis == QG_AXIS_OUT_CHANNEL || !(set->fields & QG_SET_POLICY))
        s.axis = has_axis ? 0 : -1; /* an earlier rule may have set the policy */
    if (!(set->fields & QG_SET_POLICY)) {
        s.block = r->b->defaults.scheme.block;
        s.exponent_bits = r->b->defaults.scheme.exponent_bits;
    }
    return qg_scheme_check(r->ctx, where, &s);
}

/* Fields in the order of QG_SET_MAP, whatever the order in the file. */
qg_status qg_read_set(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                      qg_set *out)
{
    qg_set set = { 0 };
    QG_TRY(qg_yaml_keys(r->ctx, y, what, qg_set_keys));
    for (unsigned bit = 0; bit < QG_NSET; bit++) {
        const qg_yaml *v = qg_yaml_get(y, qg_set_field_name(bit));
        if (!v)
            continue;
        QG_TRY(read_field(r, v, what, bit, &set));
        set.fields |= 1u << bit;
    }
    if (!set.fields)
        return qg_yaml_fail(r->ctx, y, what, "set: nothing, expected a field");
    QG_TRY(check_together(r, y, what, &set));
    *out = set;
    return QG_OK;
}
