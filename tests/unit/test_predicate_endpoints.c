/* Words of lint about one endpoint, about clamps and biases in the file, and those that
 * ask what an export or the plugin of OpenVINO asks. */
#include "tests/support/lint_rows.h"

#define CONV                                                                           \
    "x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); y = Conv(x, w); "

static const char pair[] =
    "opset 17; x = input f32[4]; a = Relu(x); y = Neg(a); output y";
static const char two_behind[] =
    "opset 17; x = input f32[4]; a = Relu(x); y = Neg(a); z = Abs(a); output y, z";
static const char negation[] =
    "opset 17; x = input f32[4]; a = Neg(x); y = Neg(a); output y";
static const char conv[] = "opset 17; " CONV "output y";
static const char conv_relu[] = "opset 17; " CONV "z = Relu(y); output z";
static const char conv_neg[] = "opset 17; " CONV "z = Neg(y); output z";
static const char conv_relu_output[] = "opset 17; " CONV "z = Relu(y); output z, y";
static const char conv_two[] = "opset 17; " CONV "z = Relu(y); p = Neg(y); output z, p";
static const char conv_sum[] =
    "opset 17; " CONV "u = input f32[1,2,3,3]; z = Add(y, u); output z";
static const char sum_of_conv[] =
    "opset 17; " CONV "u = input f32[1,2,3,3]; z = Add(u, y); output z";
static const char dense[] =
    "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
    "b = const f32[5] fill(1.0); y = Gemm(x, w, b); output y";
static const char of_codes[] =
    "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
    "c = const i32[5] [1, 2, 3, 4, 5]; s = const f32[] [0.5]; "
    "b = DequantizeLinear(c, s); y = Gemm(x, w, b); output y";
static const char of_bytes[] =
    "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
    "c = const i8[5] [1, 2, 3, 4, 5]; s = const f32[] [0.5]; "
    "b = DequantizeLinear(c, s); y = Gemm(x, w, b); output y";

/* clang-format off */
static const lint_row rows[] = {
    { QG_PREDICATE_ROUNDS, 0, "", "y", "y.i0=f1/0", "i0", false, pair },
    { QG_PREDICATE_SCALE_NOT, 0.5, "", "y", "y.i0=u0.5/3", "i0", false, pair },
    { QG_PREDICATE_SCALE_NOT, 0.25, "", "y", "y.i0=u0.5/3", "i0", true, pair },
    /* the lowest code of what is never negative */
    { QG_PREDICATE_LOWEST_IS_NOT_ZERO, 0, "", "y", "y.i0=u1/0", "i0", false, pair },
    { QG_PREDICATE_LOWEST_IS_NOT_ZERO, 0, "", "y", "y.i0=u1/3", "i0", true, pair },
    { QG_PREDICATE_LOWEST_IS_NOT_ZERO, 0, "", "y", "y.i0=s1/-128", "i0", false, pair },
    { QG_PREDICATE_LOWEST_IS_NOT_ZERO, 0, "", "y", "y.i0=s1/0", "i0", true, pair },
    { QG_PREDICATE_LOWEST_IS_NOT_ZERO, 0, "", "y", "y.i0=u1/3", "i0", false, negation },
    { QG_PREDICATE_FLOATING, 0, "", "y", "y.i0=f1/0", "i0", true, pair },
    { QG_PREDICATE_FLOATING, 0, "", "y", "y.i0=s1/0", "i0", false, pair },
    { QG_PREDICATE_DYNAMIC, 0, "", "y", "y.i0=s1/0", "i0", false, pair },
    { QG_PREDICATE_CONSTANT, 0, "", "y", "y.o0=s1/0", "o0", false, conv },
    /* rounded at the producer too, on another grid or on the same */
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=u1/0 y.i0=u2/0", "i0", true, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=u1/0 y.i0=u1/1", "i0", true, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=u1/0 y.i0=s1/0", "i0", true, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=u1/0 y.i0=u1/0", "i0", false, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "y.i0=u1/0", "i0", false, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "a", "a.o0=u1/0 y.i0=u2/0", "o0", false, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=f1/0 y.i0=u2/0", "i0", false, pair },
    { QG_PREDICATE_REQUANTIZES, 0, "", "y", "a.o0=u1/0 y.i0=f2/0", "i0", false, pair },
    { QG_PREDICATE_REPEATS, 0, "", "y", "a.o0=u1/0 y.i0=u1/0", "i0", true, pair },
    { QG_PREDICATE_REPEATS, 0, "", "y", "a.o0=u1/0 y.i0=u1/1", "i0", false, pair },
    { QG_PREDICATE_REPEATS, 0, "", "y", "y.i0=u1/0", "i0", false, pair },
    { QG_PREDICATE_REPEATS, 0, "", "a", "a.i0=u1/0", "i0", false, pair },
    /* float on both sides, whatever is rounded */
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "y", "y.i0=u1/0", "i0", true, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.i0=u1/0", "i0", true, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "y", "y.i0=u1/0 a!F", "i0", false, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "y", "y.i0=u1/0 y!F", "i0", false, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.i0=u1/0 a!B", "i0", false, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "y", "y.i0=f1/0", "i0", false, pair },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.o0=u1/0", "o0", true, two_behind },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.o0=u1/0 y!F", "o0", false,
      two_behind },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.o0=u1/0 z!F", "o0", false,
      two_behind },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "a", "a.o0=u1/0 a!F", "o0", false,
      two_behind },
    { QG_PREDICATE_BETWEEN_FLOATS, 0, "", "y", "y.o0=u1/0", "o0", true, pair },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=s1/0", "o0", true, conv_relu },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=f1/0", "o0", false, conv_relu },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=s1/0", "o0", false, conv_neg },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=s1/0", "o0", false, conv_two },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=s1/0", "o0", false,
      conv_relu_output },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.o0=s1/0", "o0", false, conv },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "z", "z.i0=s1/0", "i0", false, conv_relu },
    { QG_PREDICATE_FUSED_INSIDE, 0, "", "y", "y.i0=s1/0", "i0", false,
      "opset 17; x = input f32[4]; y = Relu(x); output y" },
    /* TensorRT has int8 activations with zero point 0 */
    { QG_PREDICATE_EXPORT_REFUSES, 0, "trt", "y", "y.i0=u1/0", "i0", true, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "trt", "y", "y.i0=s1/0", "i0", false, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "trt", "y", "y.i0=s1/1", "i0", true, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "trt", "y", "y.i1=s1/1", "i1", false, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "ort", "y", "y.i0=u1/0", "i0", false, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "ort trt", "y", "y.i0=u1/0", "i0", true, conv },
    { QG_PREDICATE_EXPORT_REFUSES, 0, "trt ort", "y", "y.i0=u1/0", "i0", true, conv },
    /* clamps that stay */
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "", "", true, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "z!F", "", false, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "y.o0=s1/0", "", false, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "y.o0=n1/0", "", true, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "y.o0=41/0", "", true, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "z.o0=n1/0 z!F", "", true, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "z.o0=s1/0 z!F", "", false, conv_relu },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "", "", false, conv_neg },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "", "", false, conv_two },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "", "", false, conv_relu_output },
    { QG_PREDICATE_INTO_CLAMP, 0, "", "y", "", "", false, conv },
    /* biases in steps of 0.5 x 0.5, by 1e-5 */
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i0.25/0", "",
      true,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i0.25000244/0",
      "", true,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i0.2500028/0",
      "", false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i0.2499972/0",
      "", false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i1/0", "",
      false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=i0.25/1", "",
      false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i1=s0.5/0 y.i2=l0.25/0", "",
      false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i1=s0.5/0 y.i2=i0.25/0", "", false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "y.i0=u0.5/0 y.i2=i0.25/0", "", false,
      dense },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", true, of_codes },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false, of_bytes },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,5] fill(1.0); "
      "c = input f32[5]; b = Neg(c); y = Gemm(x, w, b); output y" },
    /* a float 0 behind one output channel of a convolution, which is removed */
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[1,2,3,3] fill(1.0); "
      "b = const f32[1] [0.0]; y = Conv(x, w, b); output y" },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[1,2,3,3] fill(1.0); "
      "b = const f32[1] [1.0]; y = Conv(x, w, b); output y" },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "b = const f32[2] fill(0.0); y = Conv(x, w, b); output y" },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false,
      "opset 17; x = input f32[3,4]; w = const f32[4,1] fill(1.0); "
      "b = const f32[1] [0.0]; y = Gemm(x, w, b); output y" },
    { QG_PREDICATE_BIAS_CODES, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[1,2,3,3] fill(1.0); "
      "b = input f32[1]; y = Conv(x, w, b); output y" },
    /* as exports ask */
    { QG_PREDICATE_AS_WRITTEN, 0, "", "y", "", "", true, conv },
    { QG_PREDICATE_TURNS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = ConvTranspose(x, w) dilations=[2, 2]; output y" },
    { QG_PREDICATE_TURNS_APART, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; w = const f32[2,2,3,3] fill(1.0); "
      "y = ConvTranspose(x, w); output y" },
    { QG_PREDICATE_GROUPS_APART, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,3,3]; w = const f32[4,1,3,3] fill(1.0); "
      "y = Conv(x, w) group=2 strides=[2, 2]; output y" },
    { QG_PREDICATE_GROUPS_APART, 0, "", "y", "", "", false, conv },
    { QG_PREDICATE_BATCHED_COLUMN, 0, "", "y", "", "", true,
      "opset 17; x = input f32[2,4,3]; w = const f32[2,3,1] fill(1.0); "
      "y = MatMul(x, w); output y" },
    { QG_PREDICATE_BATCHED_COLUMN, 0, "", "y", "", "", false,
      "opset 17; x = input f32[2,4,3]; w = const f32[2,3,2] fill(1.0); "
      "y = MatMul(x, w); output y" },
    { QG_PREDICATE_PADS_ONE_AXIS, 0, "", "y", "y.i0=s1/0", "", true,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 0, 1, 0, 0, 0, 1]; "
      "v = const f32[] [1.0]; a = Relu(x); y = Pad(a, p, v); output y" },
    { QG_PREDICATE_PADS_ONE_AXIS, 0, "", "y", "y.i0=s1/0", "", false,
      "opset 17; x = input f32[1,2,5,5]; p = const i64[8] [0, 0, 1, 1, 0, 0, 1, 1]; "
      "v = const f32[] [1.0]; a = Relu(x); y = Pad(a, p, v); output y" },
    { QG_PREDICATE_FRACTIONAL_EXTENT, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,5,5]; s = const f32[4] [1.0, 1.0, 1.5, 1.5]; "
      "y = Resize(x, _, s) mode=\"linear\" "
      "coordinate_transformation_mode=\"align_corners\"; output y" },
    { QG_PREDICATE_FRACTIONAL_EXTENT, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; s = const f32[4] [1.0, 1.0, 2.0, 2.0]; "
      "y = Resize(x, _, s) mode=\"linear\" "
      "coordinate_transformation_mode=\"align_corners\"; output y" },
    { QG_PREDICATE_DERIVED_PADS, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,?,?]; "
      "y = MaxPool(x) kernel_shape=[2, 2] strides=[3, 3] auto_pad=\"SAME_UPPER\"; "
      "output y" },
    { QG_PREDICATE_DERIVED_PADS, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,5,5]; "
      "y = MaxPool(x) kernel_shape=[2, 2] strides=[3, 3] auto_pad=\"SAME_UPPER\"; "
      "output y" },
    { QG_PREDICATE_READ_APART, 0, "", "y", "", "", true,
      "opset 18; x = input f32[2,3]; y = ReduceL1(x) noop_with_empty_axes=1; "
      "output y" },
    { QG_PREDICATE_READ_APART, 0, "", "y", "", "", false,
      "opset 18; x = input f32[2,3]; y = ReduceL1(x); output y" },
    { QG_PREDICATE_AVERAGES_APART, 0, "", "y", "", "", true,
      "opset 19; x = input f32[1,2,5,5]; "
      "y = AveragePool(x) kernel_shape=[2, 2] dilations=[2, 2]; output y" },
    { QG_PREDICATE_AVERAGES_APART, 0, "", "y", "", "", false,
      "opset 19; x = input f32[1,2,5,5]; y = AveragePool(x) kernel_shape=[2, 2]; "
      "output y" },
    { QG_PREDICATE_SHRINKS_CUBIC, 0, "", "y", "", "", true,
      "opset 17; x = input f32[1,2,4,4]; s = const f32[4] [1.0, 1.0, 0.5, 0.5]; "
      "y = Resize(x, _, s) mode=\"cubic\"; output y" },
    { QG_PREDICATE_SHRINKS_CUBIC, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,2,4,4]; s = const f32[4] [1.0, 1.0, 2.0, 2.0]; "
      "y = Resize(x, _, s) mode=\"cubic\"; output y" },
    { QG_PREDICATE_JOINS_CONSTANT, 0, "", "y", "", "", true,
      "opset 17; x = input f32[4]; k = const f32[4] fill(1.0); "
      "c = Concat(x, k) axis=0; y = Neg(c); output y" },
    { QG_PREDICATE_JOINS_CONSTANT, 0, "", "y", "", "", false,
      "opset 17; x = input f32[4]; c = Concat(x, x) axis=0; y = Neg(c); output y" },
    { QG_PREDICATE_SUMS_PRODUCT, 0, "", "y", "", "", true,
      "opset 17; x = input f32[2,3,4]; w = const f32[4,5] fill(1.0); "
      "m = MatMul(x, w); a = const i64[1] [1]; y = ReduceSum(m, a); output y" },
    { QG_PREDICATE_SUMS_PRODUCT, 0, "", "y", "", "", false,
      "opset 17; x = input f32[1,3,4]; w = const f32[4,5] fill(1.0); "
      "m = MatMul(x, w); a = const i64[1] [1]; y = ReduceSum(m, a); output y" },
    /* a sum of what is rounded behind a convolution; and that value */
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "z", "y.o0=s1/0", "", true, conv_sum },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "z", "y.o0=s1/0", "", true, sum_of_conv },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "z", "", "", false, conv_sum },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "y", "y.o0=s1/0", "o0", true, conv_sum },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "y", "y.o0=s1/0", "o0", true, sum_of_conv },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "y", "y.o0=s1/0", "o0", false, conv_neg },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "y", "y.o0=s1/0", "o0", false, conv },
    { QG_PREDICATE_ROUNDED_SUM, 0, "", "y", "y.o0=s1/0", "o0", false, conv_two },
};
/* clang-format on */

static void words_of_endpoints_and_files(void **state)
{
    lint_rows_hold(*state, rows, sizeof rows / sizeof *rows);
}

static qg_lint placed(fixture *f, const char *body, const qg_lint_target *target)
{
    const char *text = qg_arena_printf(f->arena, "graph { %s }", body);
    const qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_graph *g;
    qg_quant *q;
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &g));
    assert_ok(f->ctx, qg_graph_normalize(g));
    assert_ok(f->ctx, qg_infer(g, NULL, 0));
    assert_ok(f->ctx, qg_quant_new(g, NULL, &q));
    qg_lint l = {
        .ctx = f->ctx, .arena = f->arena, .graph = g, .quant = q, .target = target
    };
    assert_ok(f->ctx, qg_lint_place(&l));
    return l;
}

static bool holds(const qg_lint *l, const char *node, qg_predicate p, const char *word)
{
    const qg_condition c = { p, false, 0, &word, 1 };
    qg_lint_site s = { .node = qg_graph_node(l->graph, node) };
    return qg_lint_holds(l, &s, &(qg_conditions){ &c, 1 }, NULL);
}

/* A row on codes that fits the one producer; words name that. */
static void rows_of_producers(void **state)
{
    fixture *f = *state;
    static const char *const name = "Conv";
    static const qg_condition codes = { .predicate = QG_PREDICATE_INPUT_CODES };
    qg_lint_kernel row = {
        .node = {.op = &name, .n_op = 1},
          .as = QG_FATE_INTEGER
    };
    const qg_lint_target target = {
        .name = "t", .kernel = {&row, 1, 1}
    };
    const qg_predicate p = QG_PREDICATE_AFTER_KERNEL;
    qg_lint l = placed(f, conv_relu, &target);
    assert_true(holds(&l, "z", p, "Conv"));
    assert_false(holds(&l, "z", p, "Gemm"));
    assert_false(holds(&l, "y", p, "Conv"));
    row.when = (qg_conditions){ &codes, 1 };
    assert_false(holds(&l, "z", p, "Conv"));
    row.when.n = 0;
    row.as = QG_FATE_FUSED;
    assert_false(holds(&l, "z", p, "Conv"));
    row.as = QG_FATE_INTEGER;
    qg_graph_free((qg_graph *)l.graph);
    static const char *const others[] = { conv_two, conv_relu_output };
    for (size_t i = 0; i < 2; i++) { /* others read what it makes */
        l = placed(f, others[i], &target);
        assert_false(holds(&l, "z", p, "Conv"));
        qg_graph_free((qg_graph *)l.graph);
    }
}

static void float16_is_that_of_the_file(void **state)
{
    fixture *f = *state;
    const qg_lint_target target = { .name = "t" };
    qg_lint l = placed(f, conv_relu, &target);
    qg_graph *g = (qg_graph *)l.graph;
    assert_false(holds(&l, "y", QG_PREDICATE_FLOAT16, ""));
    g->float_type = QG_BF16;
    assert_false(holds(&l, "y", QG_PREDICATE_FLOAT16, ""));
    g->float_type = QG_F16;
    qg_graph_node(g, "y")->stays_float32 = true;
    assert_false(holds(&l, "y", QG_PREDICATE_FLOAT16, ""));
    assert_true(holds(&l, "z", QG_PREDICATE_FLOAT16, ""));
    qg_graph_free(g);
}

/* What a condition measured is told where it holds, and only there. */
static void zero_points_are_told(void **state)
{
    fixture *f = *state;
    const qg_lint_target target = { .name = "t" };
    const qg_condition c = { .predicate = QG_PREDICATE_ZERO_POINT };
    qg_lint l = placed(f, pair, &target);
    add_records(f->ctx, (qg_quant *)l.quant, "a.i0=u1/7");
    const qg_node *n = qg_graph_node(l.graph, "a");
    qg_lint_site s = { .node = n, .at = n->tin[0] };
    assert_true(qg_lint_holds(&l, &s, &(qg_conditions){ &c, 1 }, NULL));
    assert_string_equal(s.detail, "zero point 7");
    qg_graph_free((qg_graph *)l.graph);
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
QG_TEST_MAIN(T(words_of_endpoints_and_files), T(rows_of_producers),
             T(float16_is_that_of_the_file), T(zero_points_are_told))
