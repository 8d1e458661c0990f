/* quant/policy.h: the legal bitmaps, and which rule an illegal scheme breaks. */
#include "tests/support/test.h"

#include "engine/quant/policy.h"

/* Source: docs/evidence/ppq-behaviour.md#policies.  Legal beside each of the three
 * granularities. */
static const uint32_t legal[] = {
    QG_LINEAR | QG_SYMMETRIC,
    QG_LINEAR | QG_ASYMMETRIC,
    QG_LINEAR | QG_SYMMETRIC | QG_POWER_OF_2,
    QG_LINEAR | QG_ASYMMETRIC | QG_POWER_OF_2,
    QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2,
    QG_LINEAR | QG_SYMMETRIC | QG_DYNAMIC,
    QG_LINEAR | QG_ASYMMETRIC | QG_DYNAMIC,
    QG_LINEAR | QG_SYMMETRIC | QG_POWER_OF_2 | QG_DYNAMIC,
    QG_LINEAR | QG_ASYMMETRIC | QG_POWER_OF_2 | QG_DYNAMIC,
};
enum { N_LEGAL = sizeof legal / sizeof legal[0] };

static bool listed(uint32_t policy)
{
    for (int i = 0; i < N_LEGAL; i++)
        if (policy == (legal[i] | QG_PER_TENSOR) ||
            policy == (legal[i] | QG_PER_CHANNEL) || policy == (legal[i] | QG_BLOCK))
            return true;
    return false;
}

static void exactly_the_listed_policies_are_legal(void **state)
{
    (void)state;
    int count = 0;
    for (uint32_t p = 0; p < QG_BLOCK << 3; p++) { /* with two unknown bits */
        assert_int_equal(qg_policy_legal(p), listed(p));
        count += qg_policy_legal(p);
    }
    assert_int_equal(count, 18 + 9);
}

static void names_read_back(void **state)
{
    (void)state;
    char text[QG_POLICY_TEXT];
    assert_string_equal(qg_policy_text(QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC, text),
                        "per-tensor linear symmetric");
    assert_string_equal(qg_policy_text(0, text), "");
    qg_policy_text((QG_BLOCK << 1) - 1, text); /* all bits fit */
    for (uint32_t bit = 1; bit <= QG_BLOCK; bit <<= 1)
        assert_int_equal(qg_policy_bit_named(qg_policy_bit_name(bit)), bit);
    assert_int_equal(qg_policy_bit_named("per-row"), 0);
}

static qg_scheme int8(void)
{
    return (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                        .bits = 8,
                        .axis = -1,
                        .qmin = -128,
                        .qmax = 127 };
}

static qg_scheme fp8(void)
{
    qg_scheme s = int8();
    s.policy = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2;
    s.exponent_bits = 4;
    s.qmin = -448;
    s.qmax = 448;
    return s;
}

static void good_schemes_pass(void **state)
{
    qg_ctx *ctx = *state;
    qg_scheme s = int8();
    assert_ok(ctx, qg_scheme_check(ctx, "t", &s));
    s.bits = 32;
    s.qmin = INT32_MIN;
    s.qmax = INT32_MAX;
    assert_ok(ctx, qg_scheme_check(ctx, "t", &s));
    s.qmin = 0;
    s.qmax = UINT32_MAX;
    assert_ok(ctx, qg_scheme_check(ctx, "t", &s));
    s = fp8();
    assert_ok(ctx, qg_scheme_check(ctx, "t", &s));
    s.variant = QG_FLOAT_FNUZ | QG_FLOAT_PPQ_TIES;
    s.policy ^= QG_PER_TENSOR | QG_BLOCK;
    s.axis = 1;
    s.block = 32;
    assert_ok(ctx, qg_scheme_check(ctx, "t", &s));
}

#define BROKEN(make, change, text)                                                     \
    do {                                                                               \
        qg_scheme s = make();                                                          \
        change;                                                                        \
        assert_fails(ctx, qg_scheme_check(ctx, "rule 'r'", &s), QG_ECONFIG, text);     \
    } while (0)

static void the_broken_rule_is_named(void **state)
{
    qg_ctx *ctx = *state;
    BROKEN(
        int8, s.qmax = 128,
        "rule 'r': range [-128, 128] does not fit 8 bits, expected within [-128, 127]");
    BROKEN(int8, (s.qmin = 0, s.qmax = 256),
           "range [0, 256] does not fit 8 bits, expected within [0, 255]");
    BROKEN(int8, s.qmin = 127, "range [127, 127] is empty, expected qmin below qmax");
    BROKEN(int8, s.qmin = INT64_MIN, "does not fit 8 bits");
    BROKEN(int8, s.bits = 1, "bits 1, expected 2 to 32");
    BROKEN(int8, s.bits = 33, "bits 33, expected 2 to 32");
    BROKEN(int8, s.rounding = 9, "rounding 9, expected 0 to 8");
    BROKEN(fp8, s.rounding = QG_ROUND_HALF_EVEN_LEVEL,
           "rounding half-even-level with 8 bits, expected linear and at most 65536");
    BROKEN(int8, (s.bits = 17, s.qmax = 65408, s.rounding = QG_ROUND_HALF_EVEN_LEVEL),
           "rounding half-even-level with 17 bits, expected linear and at most 65536");
    BROKEN(int8, s.exponent_bits = 4,
           "exponent_bits 4 with 8 bits, expected 0 without");
    BROKEN(int8, s.variant = QG_FLOAT_FNUZ, "variant 1, expected 0 without floating");
    BROKEN(int8, s.axis = 0,
           "axis 0: per-tensor has none, expected per-channel or block");
    BROKEN(int8, s.block = 32, "block 32, expected 0 unless the policy is block");
    BROKEN(int8, s.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC,
           "axis -1, expected 0 to 7");
    BROKEN(int8, (s.policy = QG_BLOCK | QG_LINEAR | QG_SYMMETRIC, s.axis = 0),
           "block 0, expected 1 or more");
    BROKEN(int8, s.policy |= QG_PER_CHANNEL,
           "policy 'per-tensor per-channel linear symmetric' (0x17) "
           "is not legal, expected exactly one of per-tensor, per-channel, block");
    BROKEN(int8, s.policy ^= QG_LINEAR, "expected exactly one of linear, floating");
    BROKEN(int8, s.policy |= QG_ASYMMETRIC,
           "expected exactly one of symmetric, asymmetric");
    BROKEN(int8, s.policy |= QG_BLOCK << 1, "expected no unknown bits");
    BROKEN(fp8, s.policy |= QG_DYNAMIC,
           "expected floating with symmetric and power-of-2");
    BROKEN(fp8, s.exponent_bits = 8, "exponent_bits 8 with 8 bits, expected 1 to 8");
    BROKEN(fp8, s.exponent_bits = 0, "exponent_bits 0 with 8 bits");
    BROKEN(fp8, s.bits = 32, "expected at most 23 bits of mantissa");
    BROKEN(fp8, s.variant = QG_RANGE_WIDE,
           "variant 4, expected fnuz, ppq-ties or both");
}

static void schemes_differ_in_any_field(void **state)
{
    (void)state;
    qg_scheme a = fp8(), b[9];
    for (int i = 0; i < 9; i++)
        b[i] = a;
    assert_true(qg_scheme_same(&a, &b[0]));
    b[0].policy ^= 1, b[1].rounding++, b[2].bits++, b[3].exponent_bits++;
    b[4].variant++, b[5].axis++, b[6].block++, b[7].qmin++, b[8].qmax++;
    for (int i = 0; i < 9; i++)
        assert_false(qg_scheme_same(&a, &b[i]));
}

QG_TEST_MAIN(cmocka_unit_test(exactly_the_listed_policies_are_legal),
             cmocka_unit_test(names_read_back), WITH_CTX(good_schemes_pass),
             WITH_CTX(the_broken_rule_is_named),
             cmocka_unit_test(schemes_differ_in_any_field))
