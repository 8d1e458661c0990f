#include "engine/quant/policy.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "engine/ir/tensor.h"

static const struct {
    uint32_t bit;
    const char *text;
} property[] = {
#define X(id, bit, text, meaning) { bit, text },
    QG_POLICY_MAP(X)
#undef X
};
enum { N_PROPERTY = sizeof property / sizeof property[0] };

/* clang-format off */
/* Exactly one of `one_of`, checked first; then, where `when` is set, all of `needs` and
 * none of `bars`. */
static const struct {
    uint32_t one_of, when, needs, bars;
    const char *text;
} rule[] = {
    { .one_of = QG_PER_TENSOR | QG_PER_CHANNEL | QG_BLOCK,
      .text = "expected exactly one of per-tensor, per-channel, block" },
    { .one_of = QG_LINEAR | QG_FLOATING,
      .text = "expected exactly one of linear, floating" },
    { .one_of = QG_SYMMETRIC | QG_ASYMMETRIC,
      .text = "expected exactly one of symmetric, asymmetric" },
    { .when = QG_FLOATING,
      .needs = QG_SYMMETRIC | QG_POWER_OF_2,
      .bars = QG_DYNAMIC,
      .text = "expected floating with symmetric and power-of-2, without dynamic" },
};
/* clang-format on */

/* The first rule that the bitmap breaks, as text for the message; NULL: legal. */
static const char *broken_rule(uint32_t policy)
{
    uint32_t known = 0;
    for (int i = 0; i < N_PROPERTY; i++)
        known |= property[i].bit;
    if (policy & ~known)
        return "expected no unknown bits";
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++) {
        uint32_t one = policy & rule[i].one_of;
        if (rule[i].one_of && (one == 0 || (one & (one - 1)) != 0))
            return rule[i].text;
        if ((policy & rule[i].when) &&
            ((policy & rule[i].needs) != rule[i].needs || (policy & rule[i].bars)))
            return rule[i].text;
    }
    return NULL;
}

bool qg_policy_legal(uint32_t policy) { return broken_rule(policy) == NULL; }

const char *qg_policy_bit_name(uint32_t bit)
{
    for (int i = 0; i < N_PROPERTY; i++)
        if (property[i].bit == bit)
            return property[i].text;
    return "?";
}

uint32_t qg_policy_bit_named(const char *text)
{
    for (int i = 0; i < N_PROPERTY; i++)
        if (strcmp(property[i].text, text) == 0)
            return property[i].bit;
    return 0;
}

const char *qg_policy_instead(const char *text)
{
    return strcmp(text, "exponential") == 0 ? "floating, or linear with power-of-2: "
                                              "exponential is not implemented"
                                            : NULL;
}

/* QG_POLICY_TEXT holds all names at once: asserted, since the map may grow. */
const char *qg_policy_text(uint32_t policy, char text[QG_POLICY_TEXT])
{
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < N_PROPERTY; i++)
        if (policy & property[i].bit) {
            size_t length = strlen(property[i].text);
            assert(n + length + 2 <= QG_POLICY_TEXT);
            if (n > 0)
                text[n++] = ' ';
            memcpy(text + n, property[i].text, length + 1);
            n += length;
        }
    return text;
}

/* Whether [qmin, qmax] fits the bits; a range that begins at or above zero may use
 * the unsigned codes. */
static qg_status check_range(qg_ctx *ctx, const char *what, const qg_scheme *s)
{
    if (s->qmin >= s->qmax)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: range [%" PRId64 ", %" PRId64 "] is empty, expected qmin "
                       "below qmax",
                       what, s->qmin, s->qmax);
    if ((s->policy & QG_FLOATING) || (s->variant & QG_RANGE_WIDE))
        return QG_OK; /* limits of x / scale, next to those of the format */
    assert(s->bits >= 2 && s->bits <= 32); /* checked before */
    int64_t low = s->qmin < 0 ? -(INT64_C(1) << (s->bits - 1)) : 0;
    int64_t high = low + (INT64_C(1) << s->bits) - 1;
    if (s->qmin < low || s->qmax > high)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: range [%" PRId64 ", %" PRId64 "] does not fit %d bits, "
                       "expected within [%" PRId64 ", %" PRId64 "]",
                       what, s->qmin, s->qmax, s->bits, low, high);
    return QG_OK;
}

/* Axis and block belong to granularities; exponent bits and variant to FLOATING. */
static qg_status check_fields(qg_ctx *ctx, const char *what, const qg_scheme *s)
{
    bool floating = (s->policy & QG_FLOATING) != 0;
    bool has_axis = (s->policy & (QG_PER_CHANNEL | QG_BLOCK)) != 0;
    if (floating ? s->exponent_bits < 1 || s->exponent_bits > 8 ||
                       s->exponent_bits >= s->bits
                 : s->exponent_bits != 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: exponent_bits %d with %d bits, expected %s", what,
                       s->exponent_bits, s->bits,
                       floating ? "1 to 8 and less than bits" : "0 without floating");
    if (floating && s->bits - s->exponent_bits > 24)
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: bits %d with %d exponent bits, expected at most 23 bits of "
                       "mantissa",
                       what, s->bits, s->exponent_bits);
    if (s->variant &
        ~(unsigned)(floating ? QG_FLOAT_FNUZ | QG_FLOAT_PPQ_TIES : QG_RANGE_WIDE))
        return qg_fail(ctx, QG_ECONFIG, "%s: variant %d, expected %s", what, s->variant,
                       floating ? "fnuz, ppq-ties or both" : "0 without floating");
    if (has_axis ? s->axis < 0 || s->axis >= QG_MAX_RANK : s->axis != -1)
        return qg_fail(ctx, QG_ECONFIG, "%s: axis %d%s, expected %s", what, s->axis,
                       has_axis ? "" : ": per-tensor has none",
                       has_axis ? "0 to 7" : "per-channel or block");
    if (s->policy & QG_BLOCK ? s->block < 1 : s->block != 0)
        return qg_fail(
            ctx, QG_ECONFIG, "%s: block %d, expected %s", what, (int)s->block,
            s->policy & QG_BLOCK ? "1 or more" : "0 unless the policy is block");
    return QG_OK;
}

qg_status qg_scheme_check(qg_ctx *ctx, const char *what, const qg_scheme *s)
{
    char text[QG_POLICY_TEXT];
    const char *broken = broken_rule(s->policy);
    if (broken)
        return qg_fail(ctx, QG_ECONFIG, "%s: policy '%s' (0x%x) is not legal, %s", what,
                       qg_policy_text(s->policy, text), s->policy, broken);
    if (s->rounding >= QG_NROUNDING)
        return qg_fail(ctx, QG_ECONFIG, "%s: rounding %d, expected 0 to %d", what,
                       s->rounding, QG_NROUNDING - 1);
    if (s->nan >= QG_NNAN)
        return qg_fail(ctx, QG_ECONFIG, "%s: nan %d, expected 0 to %d", what, s->nan,
                       QG_NNAN - 1);
    if (s->bits < QG_LEAST_BITS || s->bits > QG_MOST_BITS)
        return qg_fail(ctx, QG_ECONFIG, "%s: bits %d, expected %d to %d", what, s->bits,
                       QG_LEAST_BITS, QG_MOST_BITS);
    QG_TRY(check_fields(ctx, what, s));
    QG_TRY(check_range(ctx, what, s));
    if (s->rounding == QG_ROUND_HALF_EVEN_LEVEL &&
        (s->policy & QG_FLOATING || s->qmax - s->qmin >= QG_LEVELS))
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: rounding %s with %d bits, expected linear and at most %d "
                       "levels",
                       what, qg_rounding_name(QG_ROUND_HALF_EVEN_LEVEL), s->bits,
                       QG_LEVELS);
    return QG_OK;
}

bool qg_scheme_same(const qg_scheme *a, const qg_scheme *b)
{
    return a->policy == b->policy && a->rounding == b->rounding && a->bits == b->bits &&
           a->exponent_bits == b->exponent_bits && a->variant == b->variant &&
           a->axis == b->axis && a->block == b->block && a->nan == b->nan &&
           a->qmin == b->qmin && a->qmax == b->qmax;
}

const char *qg_float_variant_name(uint32_t bit)
{
    return bit == QG_FLOAT_FNUZ ? "fnuz" : bit == QG_RANGE_WIDE ? "wide" : "ppq-ties";
}

uint32_t qg_float_variant_named(const char *text)
{
    for (uint32_t bit = QG_FLOAT_FNUZ; bit <= QG_RANGE_WIDE; bit <<= 1)
        if (strcmp(qg_float_variant_name(bit), text) == 0)
            return bit;
    return 0;
}
