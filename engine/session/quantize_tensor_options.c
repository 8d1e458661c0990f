/* quantize_tensor_options.c -- a scheme in words, its scale and its offset. */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "engine/session/quantize_tensor.h"
#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/core/vec.h"
#include "engine/calib/observe.h"
#include "engine/quant/quirk.h"

static const char doing[] = "quantize-tensor";

enum { N_VARIANT = 2, MX = N_VARIANT }; /* words of --variant */

/* --- words --- */

/* The next of some words with commas or spaces between; false after the last. */
static bool next_word(const char **at, const char **word, size_t *n)
{
    *word = *at + strspn(*at, ", ");
    *n = strcspn(*word, ", ");
    *at = *word + *n;
    return *n > 0;
}

/* *found: the row of an option's table that is called word, [n]; name(row) is NULL
 * after the last. */
static qg_status find_word(const qg_tensor_job *j, const char *option,
                           const char *(*name)(int row), const char *word, size_t n,
                           int *found)
{
    char own[64], hint[QG_SUGGEST_TEXT];
    (void)snprintf(own, sizeof own, "%.*s", (int)(n < 60 ? n : 60), word);
    qg_suggest near = qg_suggest_for(own);
    for (int row = 0; name(row); row++) {
        if (strcmp(name(row), own) == 0) {
            *found = row;
            return QG_OK;
        }
        qg_suggest_try(&near, name(row));
    }
    const char *list = "";
    for (int row = 0; name(row) && list; row++)
        list = qg_arena_printf(j->arena, "%s%s%s", list, row ? ", " : "", name(row));
    return !list ? qg_nomem(j->ctx)
                 : qg_fail(j->ctx, QG_ECONFIG, "%s: %s '%s': unknown, expected %s%s",
                           doing, option, own, list, qg_suggest_text(&near, hint));
}

static const char *policy_word(int row)
{
    return row < 16 && 1u << row <= QG_BLOCK ? qg_policy_bit_name(1u << row) : NULL;
}

static const char *rounding_word(int row)
{
    return row < QG_NROUNDING ? qg_rounding_name((qg_rounding)row) : NULL;
}

/* Settings that are not policies: variants of the grid, and a rule for its scale. */
static const char *variant_word(int row)
{
    return row < N_VARIANT ? qg_float_variant_name(1u << row) : row == MX ? "mx" : NULL;
}

static qg_status read_policy(qg_tensor_job *j)
{
    const char *at = j->o->policy, *word;
    uint32_t policy = 0;
    size_t n;
    while (at && next_word(&at, &word, &n)) {
        char own[64];
        int row;
        (void)snprintf(own, sizeof own, "%.*s", (int)(n < 60 ? n : 60), word);
        const char *instead = qg_policy_instead(own);
        if (instead)
            return qg_fail(j->ctx, QG_ECONFIG, "%s: policy '%s': expected %s", doing,
                           own, instead);
        QG_TRY(find_word(j, "policy", policy_word, word, n, &row));
        policy |= 1u << row;
    }
    j->how.scheme.policy = (uint16_t)policy;
    return QG_OK;
}

static qg_status read_variant(qg_tensor_job *j)
{
    const char *at = j->o->variant, *word;
    size_t n;
    while (at && next_word(&at, &word, &n)) {
        int row;
        QG_TRY(find_word(j, "variant", variant_word, word, n, &row));
        if (row == MX)
            j->how.quirks |= QG_RANGE_MX;
        else
            j->how.scheme.variant |= (uint8_t)(1u << row);
    }
    if (j->how.quirks & QG_RANGE_MX && !(j->how.scheme.policy & QG_FLOATING))
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: variant 'mx': the policy is linear, expected floating",
                       doing);
    return QG_OK;
}

static qg_status read_rounding(qg_tensor_job *j)
{
    const char *word = j->o->rounding;
    int row = QG_ROUND_HALF_EVEN;
    if (word)
        QG_TRY(find_word(j, "rounding", rounding_word, word, strlen(word), &row));
    j->how.scheme.rounding = (uint8_t)row;
    return QG_OK;
}

/* Those that need a network are refused by name; a family selects its applicable
 * quirks. */
static qg_status read_quirks(qg_tensor_job *j)
{
    uint64_t mask;
    if (!j->o->quirks)
        return QG_OK;
    QG_TRY(qg_quirks_named(j->ctx, j->o->quirks, &mask));
    unsigned quirks = qg_range_quirks(mask);
    if (!quirks)
        return qg_fail(
            j->ctx, QG_ECONFIG,
            "%s: quirks '%s': without effect on one array, expected %s or %s", doing,
            j->o->quirks, qg_quirk_name(QG_QUIRK_PPQ_OFFSET),
            qg_quirk_name(QG_QUIRK_PPQ_POW2_OFFSET));
    j->how.quirks |= quirks;
    return QG_OK;
}

/* --- numbers --- */

typedef QG_VEC(double) numbers;

static qg_status read_numbers(const qg_tensor_job *j, const char *option,
                              const char *text, bool whole, numbers *out)
{
    const char *word;
    size_t n;
    for (double x; next_word(&text, &word, &n);) {
        if (!qg_num_parse_f64(word, n, &x) || (whole && x != floor(x)))
            return qg_fail(j->ctx, QG_ECONFIG, "%s: %s '%.*s': is not %s, expected %s",
                           doing, option, (int)(n < 60 ? n : 60), word,
                           whole ? "a whole number" : "a number",
                           "a list of numbers separated by commas");
        QG_TRY(qg_vec_push(j->ctx, j->arena, out, x));
    }
    return QG_OK;
}

/* --- the scheme --- */

static qg_status read_bits(qg_tensor_job *j)
{
    const qg_quantize_tensor_options *o = j->o;
    if (o->bits < 2 || o->bits > 32)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: bits %u, expected 2 to 32", doing,
                       o->bits);
    if (o->exponent_bits > 8)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: exponent bits %u, expected 1 to 8",
                       doing, o->exponent_bits);
    if (o->block > INT32_MAX)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: block %u, expected at most %d", doing,
                       o->block, (int)INT32_MAX);
    j->how.scheme.bits = (uint8_t)o->bits;
    j->how.scheme.exponent_bits = (uint8_t)o->exponent_bits;
    j->how.scheme.block = (int32_t)o->block;
    return QG_OK;
}

static qg_status read_axis(qg_tensor_job *j)
{
    char text[QG_SHAPE_TEXT];
    int axis = j->o->axis, rank = j->x.rank;
    bool has_axis = (j->how.scheme.policy & (QG_PER_CHANNEL | QG_BLOCK)) != 0;
    if (axis == INT_MIN) {
        j->how.scheme.axis = has_axis ? 0 : -1;
        return QG_OK;
    }
    if (axis < -rank || axis >= rank)
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: axis %d: does not fit %s, expected %d to %d", doing, axis,
                       qg_tensor_text(&j->x, text), -rank, rank - 1);
    j->how.scheme.axis = (int16_t)(axis < 0 ? axis + rank : axis);
    return QG_OK;
}

/* Formats that keep codes for infinity and NaN; the others use all of theirs. */
static int64_t floating_most(const qg_scheme *s)
{
    static const struct {
        uint8_t bits, exponent_bits;
        int64_t most;
    } reserved[] = {
        {8,   4, 448  }, /* E4M3FN: the largest code is NaN */
        { 8,  5, 57344}, /* E5M2 */
        { 16, 5, 65504}, /* float16 */
    };
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (reserved[i].bits == s->bits &&
            reserved[i].exponent_bits == s->exponent_bits &&
            !(s->variant & QG_FLOAT_FNUZ))
            return reserved[i].most;
    return INT64_MAX;
}

static void preset_range(qg_scheme *s, bool narrow)
{
    int64_t steps = (INT64_C(1) << s->bits) - 1;
    if (s->policy & QG_FLOATING) {
        s->qmax = floating_most(s);
        s->qmin = -s->qmax;
        return;
    }
    s->qmin = (s->policy & QG_ASYMMETRIC ? 0 : -(steps / 2) - 1);
    s->qmax = s->qmin + steps;
    s->qmin += narrow;
}

static qg_status read_range(qg_tensor_job *j)
{
    const double most = 0x1p33;
    numbers v = { 0 };
    if (j->o->narrow && (j->o->range || j->how.scheme.policy & QG_FLOATING))
        return qg_fail(j->ctx, QG_ECONFIG, "%s: narrow: %s, expected one without it",
                       doing,
                       j->o->range ? "a range is given" : "the policy is floating");
    if (!j->o->range) {
        preset_range(&j->how.scheme, j->o->narrow);
        return QG_OK;
    }
    QG_TRY(read_numbers(j, "range", j->o->range, true, &v));
    if (v.n != 2 || fabs(v.at[0]) > most || fabs(v.at[1]) > most)
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: range '%.60s': is not LOW,HIGH in steps, expected for "
                       "example -127,127",
                       doing, j->o->range);
    j->how.scheme.qmin = (int64_t)v.at[0];
    j->how.scheme.qmax = (int64_t)v.at[1];
    return QG_OK;
}

qg_status qg_tensor_job_scheme(qg_tensor_job *j)
{
    QG_TRY(read_policy(j));
    QG_TRY(read_variant(j));
    QG_TRY(read_rounding(j));
    QG_TRY(read_quirks(j));
    QG_TRY(read_bits(j));
    QG_TRY(read_axis(j));
    QG_TRY(read_range(j));
    return qg_scheme_check(j->ctx, doing, &j->how.scheme);
}

/* --- scale and offset --- */

static qg_status check_scale(const qg_tensor_job *j, float scale)
{
    int exponent;
    bool power = (j->how.scheme.policy & QG_POWER_OF_2) != 0;
    if (!(scale > 0) || !isfinite(scale))
        return qg_fail(j->ctx, QG_ENUMERIC, "%s: scale %g, expected a float32 above 0",
                       doing, (double)scale);
    if (power && frexpf(scale, &exponent) != 0.5f)
        return qg_fail(
            j->ctx, QG_ECONFIG,
            "%s: scale %.9g: is not a power of two, expected one with power-of-2",
            doing, (double)scale);
    return QG_OK;
}

static qg_status given_offsets(const qg_tensor_job *j, size_t n, int32_t *offset)
{
    numbers v = { 0 };
    if (!j->o->offset)
        return QG_OK;
    if (j->how.scheme.policy & QG_SYMMETRIC)
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: offset: the policy is symmetric, expected none", doing);
    QG_TRY(read_numbers(j, "offset", j->o->offset, true, &v));
    if (v.n != n)
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: offset: %zu of them, expected one per scale, %zu", doing,
                       v.n, n);
    for (size_t i = 0; i < n; i++) {
        if (v.at[i] < (double)INT32_MIN || v.at[i] > (double)INT32_MAX)
            return qg_fail(j->ctx, QG_ECONFIG, "%s: offset %.0f, expected an int32",
                           doing, v.at[i]);
        offset[i] = (int32_t)v.at[i];
    }
    return QG_OK;
}

static qg_status given_param(qg_tensor_job *j)
{
    numbers v = { 0 };
    QG_TRY(read_numbers(j, "scale", j->o->scale, false, &v));
    int64_t need = qg_scheme_param_count(&j->how.scheme, &j->x);
    if (need < 0 || v.n != (size_t)need)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: scale: %zu of them, expected %lld",
                       doing, v.n, (long long)need);
    float *scale = QG_NEWN(j->arena, v.n, float);
    int32_t *offset = QG_NEWN(j->arena, v.n, int32_t);
    if (!scale || !offset)
        return qg_nomem(j->ctx);
    for (size_t i = 0; i < v.n; i++) {
        scale[i] = (float)v.at[i];
        QG_TRY(check_scale(j, scale[i]));
    }
    QG_TRY(given_offsets(j, v.n, offset));
    j->param = (qg_qparam){ v.n, scale, offset };
    return QG_OK;
}

static qg_status observed_param(qg_tensor_job *j, const qg_observer_setting *setting)
{
    const qg_scheme *s = &j->how.scheme;
    const char *fault = s->policy & QG_DYNAMIC       ? "the policy is dynamic"
                        : qg_tensor_count(&j->x) < 1 ? "there is nothing to observe"
                                                     : NULL;
    if (fault)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: observer '%s': %s, expected minmax",
                       doing, setting->name, fault);
    qg_observe o = { .observer = qg_observer_find(j->ctx, setting->name),
                     .scheme = s,
                     .setting = setting,
                     .samples = 1,
                     .with_any = true };
    QG_TRY(qg_observe_start(j->ctx, doing, &j->x, &o));
    if (j->o->curve && o.channels == 1)
        o.curve = &j->curve;
    QG_TRY(qg_observe_tensor(j->ctx, &o, &j->x, j->how.quirks, j->arena, &j->param));
    if (j->o->curve && !j->curve.n)
        return qg_fail(j->ctx, QG_ECONFIG,
                       "%s: curve: observer '%s' compared no thresholds here, expected "
                       "an observer such as kl, one scale and more bins than levels",
                       doing, setting->name);
    size_t each = (size_t)qg_tensor_count(&j->x) / o.channels;
    if (o.observer->least && each < o.observer->least(&o))
        qg_warn(
            j->ctx,
            "%s: observer %s: %zu elements%s determine no threshold, expected %llu; "
            "qg quantize would use minmax",
            doing, setting->name, each, o.channels > 1 ? " per channel" : "",
            (unsigned long long)o.observer->least(&o));
    return QG_OK;
}

qg_status qg_tensor_job_param(qg_tensor_job *j)
{
    const qg_quantize_tensor_options *o = j->o;
    const char *name = o->observer;
    qg_observer_setting setting = { 0 };
    if (name)
        QG_TRY(qg_observer_parse(j->ctx, name, &setting));
    if (o->offset && !o->scale)
        return qg_fail(j->ctx, QG_ECONFIG, "%s: offset: no scale, expected both",
                       doing);
    if (o->scale && (name || j->how.scheme.policy & QG_DYNAMIC))
        return qg_fail(j->ctx, QG_ECONFIG, "%s: scale: %s, expected one of the two",
                       doing,
                       name ? "an observer is given, too" : "the policy is dynamic");
    if (o->curve && (!name || strcmp(name, "minmax") == 0))
        return qg_fail(
            j->ctx, QG_ECONFIG,
            "%s: curve: no observer that compares thresholds, expected one such as kl",
            doing);
    if (!o->scale && (!name || strcmp(name, "minmax") == 0))
        return QG_OK;
    QG_TRY(o->scale ? given_param(j) : observed_param(j, &setting));
    j->how.param = &j->param;
    return QG_OK;
}
