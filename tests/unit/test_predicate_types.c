/* Words of lint about types of codes: those that a runtime gives a value by its
 * readers, narrow ones, those with the real 0 in the middle, and those that readers
 * want. */
#include "tests/support/lint_rows.h"

#define READ "opset 17; x = input f32[4]; a = Relu(x); "
/* y reads a, which `more` reads, too, or does not. */
#define ALSO(more, outputs) READ "y = Neg(a); " more "; output y, " outputs
#define CLASH                                                                          \
    "opset 17; x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(1.0); "             \
    "v = input f32[3,3]; y = Conv(x, w); z = MatMul(v, x); output y, z"

static const char one_reader[] = READ "y = Neg(a); output y";
static const char two_readers[] = ALSO("z = Abs(a)", "z");
static const char expanded[] =
    READ "d = const i64[1] [4]; b = Expand(a, d); y = Neg(b); z = Abs(b); output y, z";
static const char one_behind[] =
    READ "d = const i64[1] [4]; b = Expand(a, d); y = Neg(b); output y";
static const char clamped[] =
    READ "c = Neg(a); b = Relu(c); y = Neg(b); z = Abs(b); output y, z";
static const char beside[] =
    READ "c = Neg(a); b = Relu(c); y = Neg(b); z = Abs(c); output y, z";
static const char apart[] =
    "opset 17; x = input f32[4]; a = Relu(x); y = Neg(a); z = Abs(a); output y, z";
static const char sum[] =
    "opset 17; x = input f32[4]; k = const f32[4] fill(1.0); y = Add(x, k); output y";
static const char constant_first[] =
    "opset 17; x = input f32[4]; k = const f32[4] fill(1.0); y = Add(k, x); output y";
static const char sum_of_read[] =
    "opset 17; x = input f32[4]; k = const f32[4] fill(1.0); y = Add(x, k); "
    "z = Neg(x); output y, z";
static const char conv[] =
    "opset 17; x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(1.0); "
    "y = Conv(x, w); output y";
static const char two_convs[] =
    "opset 17; x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(1.0); "
    "y = Conv(x, w); z = Conv(x, w); output y, z";
static const char volume[] =
    "opset 17; x = input f32[1,2,3,3,3]; w = const f32[2,2,1,1,1] fill(1.0); "
    "y = Conv(x, w); z = Conv(x, w); output y, z";
static const char volume_in_groups[] =
    "opset 17; x = input f32[1,2,3,3,3]; w = const f32[2,1,1,1,1] fill(1.0); "
    "y = Conv(x, w) group=2; z = Conv(x, w) group=2; output y, z";
static const char image_in_groups[] =
    "opset 17; x = input f32[1,2,3,3]; w = const f32[2,1,1,1] fill(1.0); "
    "y = Conv(x, w) group=2; z = Conv(x, w) group=2; output y, z";
static const char dense[] =
    "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
    "b = const f32[5] fill(1.0); y = Gemm(x, w, b); output y";
static const char clash[] = CLASH;
static const char clash_behind[] =
    "opset 17; x = input f32[1,2,3,3]; w = const f32[2,2,1,1] fill(1.0); "
    "v = input f32[3,3]; b = MaxPool(x) kernel_shape=[1, 1]; y = Conv(b, w); "
    "z = MatMul(v, x); output y, z";

/* clang-format off */
static const lint_row rows[] = {
    /* one reader of signed codes: both ends become unsigned, but not in opset 17 */
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "y.i0=s0.5/0", "", false, one_reader },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", false, one_reader },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true, two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "y.i0=s0.5/0 z.i0=s0.5/0", "", true,
      two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 17, "", "y", "a.o0=s0.5/0", "", false, two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=u0.5/0", "", false, two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "", "", false, two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "y.i0=s0.5/0", "", false, two_readers },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "y.i0=s0.5/0 z.i0=s0.5/1", "", false,
      two_readers },
    /* constants stay what they are */
    { QG_PREDICATE_SIGNED_INPUT, 1, "", "y", "y.i0=s0.5/0", "", true, constant_first },
    { QG_PREDICATE_SIGNED_INPUT, 1, "", "y", "y.i0=u0.5/0", "", false, constant_first },
    /* readers: an output, too, but not who wants dims, nor the same once more */
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      ALSO("", "a") },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", false,
      ALSO("s = Shape(a)", "s") },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Add(a, a); output y" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      ALSO("z = Neg(a)", "z") },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", false,
      READ "y = Neg(a); z = Neg(a); p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Neg(a); z = Neg(a); p = Abs(y); output p, z" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Neg(a); z = Neg(a); q = Abs(z); output y, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Neg(a); z = Abs(a); p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Elu(a) alpha=1.0; z = Elu(a) alpha=2.0; p = Abs(y); q = Abs(z); "
      "output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "y = Elu(a); z = Elu(a) alpha=2.0; p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", false,
      READ "k = const f32[4] fill(1.0); m = const f32[4] fill(1.0); y = Add(a, k); "
      "z = Add(a, m); p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "k = const f32[4] fill(1.0); m = const f32[4] [1.0, 1.0, 1.0, 2.0]; "
      "y = Add(a, k); z = Add(a, m); p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "k = const f32[4] fill(1.0); m = const f32[1] fill(1.0); y = Add(a, k); "
      "z = Add(a, m); p = Abs(y); q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "k = const f32[4] fill(1.0); y = Add(a, k); z = Add(a, x); p = Abs(y); "
      "q = Abs(z); output p, q" },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "a.o0=s0.5/0", "", true,
      READ "k = const f32[4] fill(1.0); m = const f32[4] fill(2.0); y = Neg(a); "
      "p = Sub(k, a); q = Sub(m, a); t = Abs(p); u = Abs(q); output y, t, u" },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "c", "c.i0=u1/0 c.o0=s0.5/-128 b!F", "", false,
      clamped },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y",
      "a.o0=s0.5/0 b.o0=s0.25/0 w.i0=s0.25/0 b!F", "", false,
      READ "d = const i64[1] [4]; b = Expand(a, d); y = Neg(b); w = Abs(a); "
      "output y, w" },
    /* readers on other grids share one quantizer */
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a", "a.i0=u1/0 a.o0=s0.5/0", "", true, apart },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a",
      "a.i0=u1/0 a.o0=s0.5/0 y.i0=s1/0 z.i0=s2/0", "", false,
      apart },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a",
      "a.i0=u1/0 a.o0=s0.5/0 y.i0=s1/0 z.i0=s0.5/0", "", true,
      apart },
    /* nodes that are removed hand on their readers, and the value before them */
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a", "a.i0=u1/0 a.o0=s0.5/0", "", false,
      expanded },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a", "a.i0=u1/0 a.o0=s0.5/0 b!F", "", true,
      expanded },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "a", "a.i0=u1/0 a.o0=s0.5/0 b!F", "", false,
      one_behind },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "c", "c.i0=u1/0 c.o0=s0.5/-128 b.o0=s0.5/-128",
      "", false,
      clamped },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "c",
      "c.i0=u1/0 c.o0=s0.5/-128 b.o0=s0.5/-128 b!F", "", true,
      clamped },
    { QG_PREDICATE_MIXED_TYPES, 18, "", "c",
      "c.i0=u1/0 c.o0=s0.5/-128 b.o0=s0.25/-128 b!F", "", false,
      clamped },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "c.o0=s0.5/-128 b.o0=s0.5/-128", "",
      false,
      beside },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "c.o0=s0.5/-128 b.o0=s0.5/-128 b!F", "",
      true,
      beside },
    { QG_PREDICATE_SIGNED_INPUT, 18, "", "y", "c.o0=s0.5/-128 b.o0=s0.25/-128 b!F", "",
      false,
      beside },
    /* both types among inputs and output */
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "y.i0=u1/0 y.i1=s1/0", "", true, sum },
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "y.i0=u1/0 y.i1=u1/0", "", false, sum },
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "y.i1=s1/0 y.o0=u1/0", "", true, sum },
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "y.i1=u1/0 y.o0=u1/0", "", false, sum },
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "y.i1=s1/0", "", false, sum },
    { QG_PREDICATE_MIXED_TYPES, 1, "", "y", "", "", false, sum },
    { QG_PREDICATE_SIGNED_CONSTANT, 1, "", "y", "y.i0=u1/0 y.i1=s1/0", "", true, sum },
    { QG_PREDICATE_SIGNED_CONSTANT, 1, "", "y", "y.i0=u1/0 y.i1=u1/0", "", false, sum },
    { QG_PREDICATE_SIGNED_CONSTANT, 1, "", "y", "y.i1=s1/0", "", false, sum },
    { QG_PREDICATE_SIGNED_CONSTANT, 18, "", "y",
      "y.i0=s1/0 z.i0=s1/0 y.i1=s1/0 y.o0=u1/0", "", false,
      sum_of_read },
    { QG_PREDICATE_SIGNED_CONSTANT, 18, "", "y",
      "y.i0=u1/0 z.i0=u1/0 y.i1=s1/0 y.o0=u1/0", "", true,
      sum_of_read },
    /* 5 to 8 bits are bytes; of biases nothing is asked */
    { QG_PREDICATE_BYTES, 0, "", "y", "", "", true, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.i0=u1/0 y.i1=s1/0 y.i2=i1/0 y.o0=u1/0", "",
      true,
      dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.i0=41/0", "", false, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.i0=51/0", "", true, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.i1=41/0", "", false, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.i1=91/0", "", false, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.o0=l1/0", "", false, dense },
    { QG_PREDICATE_BYTES, 0, "", "y", "y.o0=41/0", "", false, dense },
    /* 16, 255 and 256 levels */
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i0=s1/0", "", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i0=n1/0", "", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i0=n1/1", "", true, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i0=41/0", "", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i0=51/0", "", true, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i1=51/0", "", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "", "", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i1=51/0", "i1", true, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i1=s1/0", "i1", false, sum },
    { QG_PREDICATE_ODD_LEVELS, 0, "", "y", "y.i1=f1/0", "i1", false, sum },
    /* fewer codes than 4, 8 or 16 bits have, behind a node */
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=n1/0", "i0", true, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "a", "a.i0=n1/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=s1/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=u1/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=31/0", "i0", true, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=41/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=51/0", "i0", true, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=91/0", "i0", true, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=l1/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=i1/0", "i0", false, one_reader },
    { QG_PREDICATE_NARROW, 0, "", "y", "y.i0=f1/0", "i0", false, one_reader },
    /* the real 0 in the middle: 0 of signed codes, 128 of uint8 */
    { QG_PREDICATE_CENTERED, 0, "", "y", "y.i0=s1/0", "i0", true, sum },
    { QG_PREDICATE_CENTERED, 0, "", "y", "y.i0=s1/1", "i0", false, sum },
    { QG_PREDICATE_CENTERED, 0, "", "y", "y.i0=u1/128", "i0", true, sum },
    { QG_PREDICATE_CENTERED, 0, "", "y", "y.i0=u1/127", "i0", false, sum },
    { QG_PREDICATE_CENTERED, 0, "", "y", "y.i0=u1/0", "i0", false, sum },
    { QG_PREDICATE_WEIGHT_CENTERED, 0, "", "y", "y.i1=s1/0", "", true, conv },
    { QG_PREDICATE_WEIGHT_CENTERED, 0, "", "y", "y.i1=s1/1", "", false, conv },
    { QG_PREDICATE_WEIGHT_CENTERED, 0, "", "y", "y.i1=u1/128", "", true, conv },
    { QG_PREDICATE_WEIGHT_CENTERED, 0, "", "y", "y.i0=s1/0", "", false, conv },
    { QG_PREDICATE_WEIGHT_CENTERED, 0, "", "y", "y.i0=s1/0", "", false, one_reader },
    /* neither the lowest code nor, for readers of signed codes alone, the middle */
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y", "", "", false, conv },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y", "y.i0=u1/0", "", false, conv },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y", "y.i0=s1/-128", "", false, conv },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y", "y.i0=u1/3", "", true, conv },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y", "y.i0=s1/0 y.i1=s1/0", "", false,
      conv },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128 z.i1=s1/0", "", true,
      two_convs },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128", "", false,
      two_convs },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/127 z.i1=s1/0", "", false,
      two_convs },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Gemm", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128 z.i1=s1/0", "", false,
      two_convs },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128 z.i1=s1/0", "", true,
      volume },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128 z.i1=s1/0", "", false,
      volume_in_groups },
    { QG_PREDICATE_INPUT_ZERO_POINT, 0, "Conv", "y",
      "y.i0=u1/128 y.i1=s1/0 z.i0=u1/128 z.i1=s1/0", "", true,
      image_in_groups },
    /* codes that one reader wants unsigned and the other, as its weight, signed */
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y", "y.i0=u1/128 y.i1=s1/0 z.i1=u1/128", "",
      true,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "z", "y.i0=u1/128 y.i1=s1/0 z.i1=u1/128", "",
      true,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y", "y.i0=u1/128 y.i1=s1/0", "", false,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y", "y.i0=u1/128 z.i1=u1/128", "", false,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "z", "y.i0=u1/128 z.i1=u1/128", "", false,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y", "y.i0=u1/128 y.i1=s1/0 z.i1=u1/127", "",
      false,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Gemm", "y", "y.i0=u1/128 y.i1=s1/0 z.i1=u1/128", "",
      false,
      clash },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y", "y.i0=u1/128 y.i1=s1/0", "", false,
      conv },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y",
      "b.i0=u1/128 b.o0=u1/128 y.i1=s1/0 z.i1=u1/128", "", true,
      clash_behind },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "z",
      "b.i0=u1/128 b.o0=u1/128 y.i1=s1/0 z.i1=u1/128", "", true,
      clash_behind },
    { QG_PREDICATE_TYPES_CLASH, 0, "Conv", "y",
      "b.i0=u1/128 b.o0=u1/127 y.i1=s1/0 z.i1=u1/128", "", false,
      clash_behind },
};
/* clang-format on */

static void types_of_codes(void **state)
{
    lint_rows_hold(*state, rows, sizeof rows / sizeof *rows);
}

QG_TEST_MAIN(cmocka_unit_test_setup_teardown(types_of_codes, begin, end))
