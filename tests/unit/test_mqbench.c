/* formats/mqbench: the grid of each form of a node, at the limits of what it may have,
 * and why a node has none. */
#include "tests/support/test.h"

#include "engine/formats/mqbench/operators.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

/* Lines that make q from x, f32[2,3,4,4], and other values; what its grid is, or why it
 * has none. */
typedef struct row {
    const char *lines, *want;
} row;

/* clang-format off */
#define S "  s = const f32[] [0.5]\n"
#define Z(z) "  z = const f32[] [" z "]\n"
#define LIMITS(low, high) "  l = const i64[] [" low "]\n  h = const i64[] [" high "]\n"
#define TENSOR "  q = FixedPerTensorAffine q (x, s, z, l, h)\n"
#define TQT "  q = FakeQuantizeTqtAffine q (x, s, z, l, h)\n"
#define GIVEN(low, high) \
    S Z("0.0") "  q = FixedPerTensorAffine q (x, s, z) quant_min=" low \
    " quant_max=" high "\n"
#define OF(scale, zero) "  s = const f32[] [" scale "]\n" Z(zero) LIMITS("0", "255")
#define BITS(low, high) S Z("0.0") LIMITS(low, high) TENSOR
#define ALONG(axis, n, scales, zeros) \
    "  s = const f32[" n "] [" scales "]\n  z = const i64[" n "] [" zeros "]\n" \
    "  a = const i64[] [" axis "]\n" LIMITS("-8", "7") \
    "  q = FixedPerChannelAffine q (x, s, z, a, l, h)\n"
#define WEIGHT(n, scales, zeros) \
    "  w = const f32[2,3,1,1] seed(1)\n  s = const f32[" n "] [" scales "]\n" \
    "  z = const i64[" n "] [" zeros "]\n" \
    "  q = FixedPerChannelAffine q (w, s, z) quant_min=-8 quant_max=7\n"
#define NOT_WHOLE "its quant_min or quant_max is not an integer constant"
#define NONE "it has no integer quant_min and quant_max"
#define INPUTS "its inputs are not x, scale, zero_point and its limits"
#define SYMMETRIC(limits) "symmetric " limits " 0.5:0"
static const row rows[] = {
    { S Z("3.0") LIMITS("0", "255") TENSOR, "asymmetric 8 [0, 255] 0.5:3" },
    { S Z("0.0") LIMITS("0", "255") TENSOR, SYMMETRIC("8 [0, 255]") },
    /* The fewest bits that hold both limits. */
    { BITS("0", "3"), SYMMETRIC("2 [0, 3]") }, { BITS("0", "4"),
      SYMMETRIC("3 [0, 4]") },
    { BITS("-2", "1"), SYMMETRIC("2 [-2, 1]") }, { BITS("-3", "1"),
      SYMMETRIC("3 [-3, 1]") },
    { BITS("-2", "2"), SYMMETRIC("3 [-2, 2]") }, { BITS("0", "1"),
      SYMMETRIC("2 [0, 1]") },
    { BITS("-2147483648", "2147483647"), SYMMETRIC("32 [-2147483648, 2147483647]") },
    { BITS("0", "2147483647"), SYMMETRIC("31 [0, 2147483647]") },
    { BITS("5", "5"), "its quant_min is not below its quant_max" },
    { BITS("6", "5"), "its quant_min is not below its quant_max" },
    { BITS("4", "5"), "asymmetric 3 [4, 5] 0.5:4" },
    { BITS("0", "2147483649"), NOT_WHOLE }, { BITS("-2147483649", "7"), NOT_WHOLE },
    { S Z("0.0") "  l = const f32[] [-8.0]\n  h = const f32[] [7.0]\n" TENSOR,
      SYMMETRIC("4 [-8, 7]") },
    { S Z("0.0") "  l = const f32[] [-8.0]\n  h = const f32[] [7.5]\n" TENSOR,
      NOT_WHOLE },
    { S Z("0.0") "  l = const f32[] [-8.5]\n  h = const f32[] [7.0]\n" TENSOR,
      NOT_WHOLE },
    { S Z("0.0") "  l = const f32[2] [-8.0, -8.0]\n  h = const f32[] [7.0]\n" TENSOR,
      NOT_WHOLE },
    { S Z("0.0") "  l = const f32[] [-8.0]\n  h = input f32[]\n" TENSOR, NOT_WHOLE },
    { GIVEN("-8", "7"), SYMMETRIC("4 [-8, 7]") },
    { GIVEN("-2147483648", "2147483647"), SYMMETRIC("32 [-2147483648, 2147483647]") },
    { GIVEN("-2147483649", "7"), NONE }, { GIVEN("-8", "2147483648"), NONE },
    { GIVEN("-8.0", "7"), NONE }, { GIVEN("-8", "7.0"), NONE },
    { S Z("0.0") "  q = FixedPerTensorAffine q (x, s, z) quant_min=-8\n", NONE },
    { S Z("0.0") "  q = FixedPerTensorAffine q (x, s, z) quant_max=-8\n", NONE },
    { S Z("0.0") LIMITS("-8", "7") "  q = FixedPerTensorAffine q (x, s, z, l)\n",
      INPUTS },
    { S Z("0.0") LIMITS("-8", "7") "  q = FixedPerTensorAffine q (x, s, z, l, l, h)\n",
      INPUTS },
    { S Z("0.0") LIMITS("-8", "7") "  q = FixedPerChannelAffine q (x, s, z, l, h)\n",
      INPUTS },
    /* Axes, counted from either end. */
    { ALONG("0", "2", "1.0, 2.0", "0, 0"), "axis 0 symmetric 4 [-8, 7] 1:0 2:0" },
    { ALONG("-4", "2", "1.0, 2.0", "0, 1"), "axis 0 asymmetric 4 [-8, 7] 1:0 2:1" },
    { ALONG("-3", "3", "1.0, 2.0, 4.0", "1, 0, 0"),
      "axis 1 asymmetric 4 [-8, 7] 1:1 2:0 4:0" },
    { ALONG("3", "4", "1.0, 2.0, 4.0, 8.0", "0, 0, 0, 0"),
      "axis 3 symmetric 4 [-8, 7] 1:0 2:0 4:0 8:0" },
    { ALONG("-1", "4", "1.0, 2.0, 4.0, 8.0", "0, 0, 0, 0"),
      "axis 3 symmetric 4 [-8, 7] 1:0 2:0 4:0 8:0" },
    { ALONG("-5", "4", "1.0, 2.0, 4.0, 8.0", "0, 0, 0, 0"),
      "its ch_axis is not an axis of its value" },
    { ALONG("4", "4", "1.0, 2.0, 4.0, 8.0", "0, 0, 0, 0"),
      "its ch_axis is not an axis of its value" },
    { ALONG("1", "2", "1.0, 2.0", "0, 0"), "its scales do not fit its value" },
    { "  s = const f32[2] [1.0, 2.0]\n  z = const i64[2] [0, 0]\n" LIMITS("0", "1")
      "  a = const f32[] [0.5]\n  q = FixedPerChannelAffine q (x, s, z, a, l, h)\n",
      "its ch_axis is not an integer constant" },
    /* Of a reader, where the node does not state it. */
    { WEIGHT("2", "1.0, 2.0", "0, 0") "  c = Conv (x3, q)\n",
      "axis 0 symmetric 4 [-8, 7] 1:0 2:0" },
    { WEIGHT("3", "1.0, 2.0, 4.0", "0, 0, 0") "  c = ConvTranspose (x2, q)\n",
      "axis 1 symmetric 4 [-8, 7] 1:0 2:0 4:0" },
    { WEIGHT("2", "1.0, 2.0", "0, 0") "  c = Relu (q)\n",
      "axis 0 symmetric 4 [-8, 7] 1:0 2:0" },
    { WEIGHT("2", "1.0, 2.0", "0, 0"), "axis 0 symmetric 4 [-8, 7] 1:0 2:0" },
    { WEIGHT("3", "1.0, 2.0, 4.0", "0, 0, 0")
      "  c = ConvTranspose (x2, q)\n  d = ConvTranspose (x2, q)\n",
      "axis 1 symmetric 4 [-8, 7] 1:0 2:0 4:0" },
    { WEIGHT("2", "1.0, 2.0", "0, 0") "  c = Conv (x3, q)\n"
      "  d = ConvTranspose (x2, q)\n",
      "its readers have output channels on different axes" },
    { WEIGHT("2", "1.0, 2.0", "0, 0") "  c = ConvTranspose (x2, q)\n"
      "  d = Conv (x3, q)\n",
      "its readers have output channels on different axes" },
    /* Scales and zero points. */
    { OF("-0.25", "3.0") TENSOR, "asymmetric 8 [0, 255] 0.25:3" },
    { OF("0.0", "3.0") TENSOR, "a scale is not finite or is 0" },
    { OF("inf", "3.0") TENSOR, "a scale is not finite or is 0" },
    { ALONG("0", "2", "1.0, 0.0", "0, 0"), "a scale is not finite or is 0" },
    { OF("0.75", "3.0") TENSOR, "asymmetric 8 [0, 255] 0.75:3" },
    { OF("0.5", "2.5") TENSOR, "asymmetric 8 [0, 255] 0.5:2" },
    { OF("0.5", "3.5") TENSOR, "asymmetric 8 [0, 255] 0.5:4" },
    { OF("0.5", "300.0") TENSOR, "asymmetric 8 [0, 255] 0.5:255" },
    { OF("0.5", "-300.0") TENSOR, "symmetric 8 [0, 255] 0.5:0" },
    { OF("0.5", "0x7fc00000") TENSOR, "a zero point is not a number" },
    { OF("0.000030517578125", "0.0") TQT, "symmetric 8 [0, 255] 3.05176e-05:0" },
    { OF("2.0", "0.0") TQT, "symmetric 8 [0, 255] 2:0" },
    { OF("0.0000152587890625", "0.0") TQT,
      "its scale is not a power of two >= 2^-15, as TQT uses" },
    { OF("0.75", "0.0") TQT, "its scale is not a power of two >= 2^-15, as TQT uses" },
    { "  s = const f64[] [0.5]\n" Z("3.0") LIMITS("0", "255") TENSOR,
      "asymmetric 8 [0, 255] 0.5:3" },
    { "  s = const i64[] [1]\n" Z("3.0") LIMITS("0", "255") TENSOR,
      "its scale is not float32 or float64" },
    { "  s = const f32[1,1] [1.0]\n" Z("3.0") LIMITS("0", "255") TENSOR,
      "its scale or zero_point has more than one axis" },
    { S "  z = const f32[1,1] [1.0]\n" LIMITS("0", "255") TENSOR,
      "its scale or zero_point has more than one axis" },
    { S "  z = const f32[2] [1.0, 1.0]\n" LIMITS("0", "255") TENSOR,
      "it does not have one zero_point per scale" },
    { "  s = const f32[0] []\n  z = const f32[0] []\n" LIMITS("0", "255") TENSOR,
      "it does not have one zero_point per scale" },
    { "  s = const f32[2] [1.0, 1.0]\n  z = const f32[2] [1.0, 1.0]\n" LIMITS("0",
      "255")
      TENSOR, "its scales do not fit its value" },
    { "  s = input f32[]\n" Z("3.0") LIMITS("0", "255") TENSOR,
      "its scale or zero_point is not constant" },
    { S "  z = input f32[]\n" LIMITS("0", "255") TENSOR,
      "its scale or zero_point is not constant" },
    { S Z("3.0") LIMITS("0", "255") "  i = input i64[2]\n"
      "  q = FixedPerTensorAffine q (i, s, z, l, h)\n",
      "its value is not float32 of known rank" },
    { S "  q = NNIEQuantize q (x, s)\n", "its grid is logarithmic" },
};
/* clang-format on */

static const char *grid_text(qg_ctx *ctx, const qg_grid_record *r)
{
    const qg_scheme *s = &r->scheme;
    const char *text = s->policy & QG_PER_CHANNEL
                           ? qg_arena_printf(ctx->arena, "axis %d ", s->axis)
                           : "";
    assert_int_equal(s->rounding, QG_ROUND_HALF_EVEN);
    assert_int_equal(s->policy & QG_PER_TENSOR ? s->axis : -1, -1);
    text = qg_arena_printf(ctx->arena, "%s%s %u [%lld, %lld]", text,
                           s->policy & QG_SYMMETRIC ? "symmetric" : "asymmetric",
                           s->bits, (long long)s->qmin, (long long)s->qmax);
    for (size_t c = 0; c < r->param.n; c++)
        text = qg_arena_printf(ctx->arena, "%s %g:%d", text, (double)r->param.scale[c],
                               r->param.offset[c]);
    return text;
}

static void check_row(qg_ctx *ctx, const row *r)
{
    char text[1024];
    qg_grid_record grid;
    const char *why;
    qg_graph *g;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  opset 13\n  x = input f32[2,3,4,4]\n"
                     "  x3 = input f32[1,3,4,4]\n  x2 = input f32[1,2,4,4]\n%s"
                     "  output q\n}\n",
                     r->lines);
    assert_ok(ctx,
              qg_text_parse(ctx, &(qg_text_source){ NULL, text, (size_t)n, NULL }, &g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    assert_ok(ctx, qg_grid_of_mqbench(g, qg_graph_node(g, "q"), &grid, &why));
    const char *got = why ? why : grid_text(ctx, &grid);
    if (strcmp(got, r->want) != 0)
        fail_msg("%s: '%s', expected '%s'", r->lines, got, r->want);
    qg_graph_free(g);
}

static void each_form_has_its_grid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        ctx->registry =
            qg_registry_with(&qg_ops_registry, qg_mqbench_operators, ctx->arena);
        check_row(ctx, &rows[i]);
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(cmocka_unit_test(each_form_has_its_grid))
