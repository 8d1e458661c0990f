/* Figures that lint computes of weights and scales: each exactly at its limit, where
 * the word does not hold, and just beyond it. */
#include "tests/support/lint_rows.h"

/* Codes of the weights are their numbers, in steps of 1. */
static const char one[] =
    "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] [1.0, 2.0, 3.0, -4.0]; "
    "y = Conv(x, w); output y";
static const char with_bias[] =
    "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] [1.0, 2.0, 3.0, -4.0]; "
    "b = const f32[2] [3.0, -8.0]; y = Conv(x, w, b); output y";
static const char after_relu[] =
    "v = input f32[1,2,3,3]; x = Relu(v); "
    "w = const f32[2,2,1,1] [1.0, 2.0, 3.0, -4.0]; y = Conv(x, w); output y";
static const char sum[] = "x = input f32[4]; u = input f32[4]; y = Add(x, u); output y";
static const char positions[] =
    "x = input f32[1,2,3,3]; w = const f32[1,2,1,2] [1.0, 10.0, 2.0, 20.0]; "
    "y = Conv(x, w); output y";
static const char odd_channels[] =
    "x = input f32[1,3,3,3]; w = const f32[1,3,1,2] [1.0, 7.0, 1.0, 1.0, 7.0, 1.0]; "
    "y = Conv(x, w); output y";
static const char depthwise[] =
    "x = input f32[1,2,3,3]; w = const f32[2,1,1,2] fill(5.0); "
    "y = Conv(x, w) group=2; output y";
static const char grouped[] =
    "x = input f32[1,2,3,3]; w = const f32[4,1,1,2] fill(5.0); "
    "y = Conv(x, w) group=2; output y";
static const char matrix[] =
    "x = input f32[3,2]; w = const f32[2,2] [1.0, 3.0, 2.0, -4.0]; "
    "y = MatMul(x, w); output y";

/* clang-format off */
static const lint_row rows[] = {
    { QG_PREDICATE_RATIO_ABOVE, 0.25, "", "y",
      "y.i0=u0.5/10 y.i1=s1/0 y.o0=u2/0", "", false,
      one },
    { QG_PREDICATE_RATIO_ABOVE, 0.249, "", "y",
      "y.i0=u0.5/10 y.i1=s1/0 y.o0=u2/0", "", true,
      one },
    { QG_PREDICATE_RATIO_BELOW, 0.25, "", "y",
      "y.i0=u0.5/10 y.i1=s1/0 y.o0=u2/0", "", false,
      one },
    { QG_PREDICATE_RATIO_BELOW, 0.251, "", "y",
      "y.i0=u0.5/10 y.i1=s1/0 y.o0=u2/0", "", true,
      one },
    { QG_PREDICATE_RATIO_ABOVE, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_RATIO_BELOW, 9, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_INPUT_ABOVE, 0.5, "", "y",
      "y.i0=u0.5/0 y.i1=u1/0 y.o0=u2/0", "", false,
      sum },
    { QG_PREDICATE_INPUT_ABOVE, 0.49, "", "y",
      "y.i0=u0.5/0 y.i1=u1/0 y.o0=u2/0", "", true,
      sum },
    { QG_PREDICATE_INPUT_BELOW, 0.25, "", "y",
      "y.i0=u0.5/0 y.i1=u1/0 y.o0=u2/0", "", false,
      sum },
    { QG_PREDICATE_INPUT_BELOW, 0.26, "", "y",
      "y.i0=u0.5/0 y.i1=u1/0 y.o0=u2/0", "", true,
      sum },
    { QG_PREDICATE_INPUT_ABOVE, 0.5, "", "y",
      "y.i0=u1/0 y.i1=u0.5/0 y.o0=u2/0", "", false,
      sum },
    { QG_PREDICATE_INPUT_ABOVE, 0.49, "", "y",
      "y.i0=u1/0 y.i1=u0.5/0 y.o0=u2/0", "", true,
      sum },
    { QG_PREDICATE_INPUT_BELOW, 0.25, "", "y",
      "y.i0=u1/0 y.i1=u0.5/0 y.o0=u2/0", "", false,
      sum },
    { QG_PREDICATE_INPUT_BELOW, 0.26, "", "y",
      "y.i0=u1/0 y.i1=u0.5/0 y.o0=u2/0", "", true,
      sum },
    { QG_PREDICATE_INPUT_ABOVE, 0.25, "", "y", "y.i0=u0.5/0 y.o0=u2/0", "", false,
      sum },
    { QG_PREDICATE_INPUT_ABOVE, 0.24, "", "y", "y.i0=u0.5/0 y.o0=u2/0", "", true, sum },
    { QG_PREDICATE_INPUT_ABOVE, 0, "", "y", "y.i0=u0.5/0", "", false, sum },
    { QG_PREDICATE_BEYOND_FLOAT, 20, "", "y", "y.i0=u0.5/0 y.o0=u3e32/0", "", false,
      sum },
    { QG_PREDICATE_BEYOND_FLOAT, 20, "", "y", "y.i0=u0.5/0 y.o0=u3.3e32/0", "", true,
      sum },
    { QG_PREDICATE_BEYOND_FLOAT, 20, "", "y", "y.i0=u1.8e38/0 y.o0=u2/0", "", true,
      sum },
    { QG_PREDICATE_BEYOND_FLOAT, 20, "", "y", "y.i0=u1.8e38/0", "", false, sum },
    { QG_PREDICATE_INPUT_BELOW, 9, "", "y", "y.o0=u0.5/0", "", false, sum },
    { QG_PREDICATE_BIAS_ABOVE, 16, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      with_bias },
    { QG_PREDICATE_BIAS_ABOVE, 15, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      with_bias },
    { QG_PREDICATE_BIAS_ABOVE, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_BIAS_ABOVE, 0, "", "y", "y.i0=u0.5/10", "", false, with_bias },
    { QG_PREDICATE_SUM_ABOVE, 1010, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_SUM_ABOVE, 1009, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true, one },
    { QG_PREDICATE_SUM_ABOVE, 1026, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      with_bias },
    { QG_PREDICATE_SUM_ABOVE, 1025, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      with_bias },
    { QG_PREDICATE_SUM_ABOVE, 1010, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      after_relu },
    { QG_PREDICATE_SUM_ABOVE, 1009, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      after_relu },
    { QG_PREDICATE_SUM_ABOVE, 893, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_SUM_ABOVE, 892, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "", true, one },
    { QG_PREDICATE_SUM_ABOVE, 1010, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      matrix },
    { QG_PREDICATE_SUM_ABOVE, 1009, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      matrix },
    { QG_PREDICATE_SUM_CALIBRATED, 1010, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      one },
    { QG_PREDICATE_SUM_CALIBRATED, 1009, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      one },
    { QG_PREDICATE_SUM_CALIBRATED, 980, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      after_relu },
    { QG_PREDICATE_SUM_CALIBRATED, 979, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      after_relu },
    { QG_PREDICATE_SUM_ABOVE, 0, "", "y", "y.i1=s1/0", "", false, one },
    { QG_PREDICATE_SUM_ABOVE, 0, "", "y", "y.i0=s1/0", "", false, one },
    { QG_PREDICATE_PAIRS, 1019, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_PAIRS, 1018, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true, one },
    { QG_PREDICATE_PAIRS, 1019, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "", false, one },
    { QG_PREDICATE_PAIRS, 1018, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "", true, one },
    { QG_PREDICATE_PAIRS, 1019, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, matrix },
    { QG_PREDICATE_PAIRS, 1018, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true, matrix },
    { QG_PREDICATE_PAIRS, 7650, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      positions },
    { QG_PREDICATE_PAIRS, 7649, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      positions },
    { QG_PREDICATE_PAIRS, 3570, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      odd_channels },
    { QG_PREDICATE_PAIRS, 3569, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      odd_channels },
    { QG_PREDICATE_PAIRS_CALIBRATED, 3570, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      odd_channels },
    { QG_PREDICATE_PAIRS_CALIBRATED, 3569, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      odd_channels },
    { QG_PREDICATE_PAIRS_WITHIN, 2040, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      odd_channels },
    { QG_PREDICATE_PAIRS_WITHIN, 2039, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      odd_channels },
    { QG_PREDICATE_PAIRS_WITHIN, 7650, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      positions },
    { QG_PREDICATE_PAIRS_WITHIN, 7649, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      positions },
    { QG_PREDICATE_PAIRS, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, depthwise },
    { QG_PREDICATE_PAIRS, 2550, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false, grouped },
    { QG_PREDICATE_PAIRS, 2549, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true, grouped },
    { QG_PREDICATE_PAIRS, 0, "", "y", "y.i0=u0.5/10", "", false, one },
    { QG_PREDICATE_USES_BELOW, -4, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "i1", false,
      one },
    { QG_PREDICATE_USES_BELOW, -3, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "i1", true, one },
    { QG_PREDICATE_USES_BELOW, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "i0", false, one },
    { QG_PREDICATE_USES_BELOW, 1, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "i0", true, one },
    { QG_PREDICATE_USES_BELOW, -128, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "i0", false,
      one },
    { QG_PREDICATE_USES_BELOW, -127, "", "y", "y.i0=s0.5/0 y.i1=s1/0", "i0", true,
      one },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,1]; y = Softmax(x); output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,3]; y = Softmax(x); output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", true,
      "opset 12; x = input f32[1,1,5]; y = Softmax(x); output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", false,
      "opset 13; x = input f32[1,1,5]; y = Softmax(x); output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", false,
      "opset 12; x = input f32[1,5,1]; y = Softmax(x); output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,3]; y = Softmax(x) axis=0; output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", true,
      "opset 17; x = input f32[3,1,2]; y = Softmax(x) axis=-2; output y" },
    { QG_PREDICATE_ROW_OF_ONE, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,3,2]; y = Softmax(x) axis=-2; output y" },
    { QG_PREDICATE_SUM_ABOVE, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(0.0); y = Conv(x, w); "
      "output y" },
    { QG_PREDICATE_SUM_ABOVE, 1009, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] [3.0, -4.0, 1.0, 2.0]; "
      "y = Conv(x, w); output y" },
    { QG_PREDICATE_PAIRS, 1018, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", true,
      "x = input f32[1,2,3,3]; w = const f32[2,2,1,1] [3.0, -4.0, 1.0, 2.0]; "
      "y = Conv(x, w); output y" },
    { QG_PREDICATE_SUM_ABOVE, 0, "", "y", "y.i0=u0.5/10 y.i1=s1/0", "", false,
      "x = input f32[1,2,3,3]; w = input f32[2,2,1,1]; y = Conv(x, w); output y" },
    { QG_PREDICATE_SUM_ABOVE, 0, "", "y", "y.i0=u0.5/10", "", false,
      "x = input f32[3]; y = Relu(x); output y" },
};
/* clang-format on */

static void figures_are_compared_at_their_limits(void **state)
{
    lint_rows_hold(*state, rows, sizeof rows / sizeof *rows);
}

QG_TEST_MAIN(cmocka_unit_test_setup_teardown(figures_are_compared_at_their_limits,
                                             begin, end))
