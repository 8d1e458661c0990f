/* formats/quantize_linear.h: the type of each grid for each reader, at the limits of
 * the types, and back: the grid of each form of a node, or why it has none. */
#include "tests/support/test.h"

#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static qg_graph *parsed(qg_ctx *ctx, const char *lines)
{
    char text[1024];
    qg_graph *g;
    int n = snprintf(text, sizeof text, "graph \"g\" {\n%s}\n", lines);
    ctx->registry = &qg_ops_registry;
    assert_ok(ctx,
              qg_text_parse(ctx, &(qg_text_source){ NULL, text, (size_t)n, NULL }, &g));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    return g;
}

/* --- writing --- */

/* Of a convolution with two output channels, and a transposed one. */
static const char network[] = "  opset 13\n  x = input f32[1,2,4,4]\n"
                              "  w = const f32[2,2,1,1] seed(1)\n"
                              "  b = const f32[2] seed(2)\n"
                              "  c = Conv c (x, w, b)\n"
                              "  t = ConvTranspose t (c, w)\n  output t\n";

enum { T = QG_PER_TENSOR, C = QG_PER_CHANNEL, B = QG_BLOCK };
enum { ORT = QG_PLACE_ORT, TRT = QG_PLACE_TRT, OV = QG_PLACE_OPENVINO };
enum { DATA, WEIGHT, BIAS }; /* slots of a convolution */

typedef struct grid_row {
    uint32_t slot;
    int kind, bits;
    int64_t low, high;
    int32_t offset;
    int exponent; /* of a floating grid; negative: fnuz */
    int place;
    const char *want; /* type, opset, "clip"; or why there is none */
} grid_row;

/* clang-format off */
#define NO_16 "QuantizeLinear has no type of more than 16 bits"
static const grid_row grids[] = {
    { DATA, T, 8, -128, 127, 0, 0, ORT, "int8 13" },
    { DATA, T, 8, -127, 127, 0, 0, ORT, "int8 13 clip" },
    { DATA, T, 8, 0, 255, 3, 0, ORT, "uint8 13" },
    { DATA, T, 8, 0, 254, 3, 0, ORT, "uint8 13 clip" },
    { DATA, T, 8, 1, 255, 3, 0, ORT, "uint8 13 clip" },
    { DATA, T, 4, -8, 7, 0, 0, ORT, "int4 21" }, { DATA, T, 4, 0, 15, 0, 0, ORT,
      "uint4 21" },
    { DATA, T, 3, -4, 3, 0, 0, ORT, "int4 21 clip" },
    { DATA, T, 5, -8, 7, 0, 0, ORT, "int8 13 clip" }, /* as many bits as it has */
    { DATA, T, 5, -9, 7, 0, 0, ORT, "int8 13 clip" },
    { DATA, T, 5, -8, 8, 0, 0, ORT, "int8 13 clip" },
    { DATA, T, 9, -129, 127, 0, 0, ORT, "int16 21 clip" },
    { DATA, T, 9, -128, 128, 0, 0, ORT, "int16 21 clip" },
    { DATA, T, 9, 0, 256, 0, 0, ORT, "uint16 21 clip" },
    { DATA, T, 16, -32768, 32767, 0, 0, ORT, "int16 21" },
    { DATA, T, 16, 0, 65535, 0, 0, ORT, "uint16 21" },
    { DATA, T, 17, 0, 65536, 0, 0, ORT, NO_16 }, { WEIGHT, T, 17, -65536, 65535, 0,
      0, ORT, "int32 13" },
    { WEIGHT, T, 17, -65536, 65535, 1, 0, ORT, "int32 supports zero point 0 only" },
    { WEIGHT, T, 32, INT32_MIN, INT32_MAX, 0, 0, ORT, "int32 13" },
    { WEIGHT, T, 32, 0, UINT32_MAX, 0, 0, ORT, NO_16 },
    { DATA, C, 8, -128, 127, 0, 0, ORT, "int8 13" },
    { DATA, C, 8, -127, 127, 0, 0, ORT,
      "limits per channel that are narrower than those of the type" },
    { WEIGHT, C, 8, -127, 127, 0, 0, ORT, "int8 13 clip" },
    { WEIGHT, B, 8, -128, 127, 0, 0, ORT, "int8 21" },
    { WEIGHT, B, 4, -8, 7, 0, 0, ORT, "int4 21" },
    { DATA, T, 8, -448, 448, 0, 4, ORT, "float8e4m3fn 19" },
    { DATA, T, 8, -448, 447, 0, 4, ORT, "float8e4m3fn 19 clip" },
    { DATA, T, 8, -447, 448, 0, 4, ORT, "float8e4m3fn 19 clip" },
    { DATA, T, 8, -240, 240, 0, -4, ORT, "float8e4m3fnuz 19" },
    { DATA, T, 8, -57344, 57344, 0, 5, ORT, "float8e5m2 19" },
    { DATA, T, 8, -57344, 57344, 0, -5, ORT, "float8e5m2fnuz 19" },
    { WEIGHT, T, 4, -6, 6, 0, 2, ORT, "float4e2m1 23" },
    { WEIGHT, B, 8, -448, 448, 0, 4, ORT, "float8e4m3fn 21" },
    { WEIGHT, B, 4, -6, 6, 0, 2, ORT, "float4e2m1 23" },
    { DATA, T, 8, -15, 15, 0, 3, ORT,
      "ONNX quantizes to no floating-point type of this width" },
    /* A bias in steps of input x weight: of other ones it is read otherwise. */
    { BIAS, C, 32, INT32_MIN, INT32_MAX, 0, 0, ORT,
      "the scale of an int32 bias is read as input x weight" },
    { BIAS, C, 8, -128, 127, 0, 0, ORT, "int8 13" },
    { BIAS, C, 32, INT32_MIN, INT32_MAX, 0, 0, TRT,
      "the scale of an int32 bias is read as input x weight" },
    { BIAS, C, 32, INT32_MIN, INT32_MAX, 0, 0, OV, "int32 13" }, /* a float weight */
    /* OpenVINO: bytes for activations, unsigned ones with an offset. */
    { DATA, T, 4, -8, 7, 0, 0, OV, "int8 13 clip" },
    { WEIGHT, T, 4, -8, 7, 0, 0, OV, "int4 21" },
    { DATA, T, 8, -128, 127, 0, 0, OV, "int8 13" },
    { DATA, T, 8, -128, 127, 5, 0, OV, "uint8 13" },
    { DATA, T, 16, -32768, 32767, 5, 0, OV, "uint16 21" },
    { WEIGHT, T, 8, -128, 127, 5, 0, OV, "int8 13" },
    /* TensorRT: signed bytes without zero points, 4-bit weights, E4M3. */
    { DATA, T, 8, -128, 127, 0, 0, TRT, "int8 13" },
    { DATA, T, 8, -128, 127, 5, 0, TRT, "TensorRT supports zero point 0 only" },
    { DATA, T, 8, 0, 255, 0, 0, TRT, "TensorRT has signed codes only" },
    { DATA, T, 4, -8, 7, 0, 0, TRT,
      "TensorRT has activations of 5 to 8 bits (weights also of 4)" },
    { WEIGHT, T, 4, -8, 7, 0, 0, TRT, "int4 21" },
    { WEIGHT, T, 4, 0, 15, 0, 0, TRT, "TensorRT has signed codes only" },
    { WEIGHT, T, 16, -32768, 32767, 0, 0, TRT,
      "TensorRT has weights of at most 8 bits" },
    { WEIGHT, T, 17, -65536, 65535, 0, 0, TRT, "TensorRT adds a bias in float" },
    { DATA, T, 8, -448, 448, 0, 4, TRT, "float8e4m3fn 19" },
    { DATA, T, 8, -57344, 57344, 0, 5, TRT,
      "TensorRT has floating-point codes of E4M3 only (weights also of E2M1)" },
    { WEIGHT, T, 4, -6, 6, 0, 2, TRT, "float4e2m1 23" },
    { DATA, T, 4, -6, 6, 0, 2, TRT,
      "TensorRT has activations of 5 to 8 bits (weights also of 4)" },
    { DATA, C, 8, -128, 127, 0, 0, TRT, "TensorRT quantizes only weights per channel" },
    { WEIGHT, C, 8, -128, 127, 0, 0, TRT, "int8 13" },
};
/* clang-format on */

/* A record with scales 0.5, 1 and this offset, last. */
static qg_tqc *record(qg_ctx *ctx, qg_quant *q, const char *node, const grid_row *r)
{
    const float scale[] = { 0.5f, 1, 2, 4 };
    const int32_t offset[] = { 0, r->offset, 0, r->offset };
    qg_scheme s = { .rounding = QG_ROUND_HALF_EVEN,
                    .bits = (uint8_t)r->bits,
                    .axis = r->kind == T ? -1 : 0,
                    .block = r->kind == B ? 3 : 0,
                    .qmin = r->low,
                    .qmax = r->high };
    qg_tqc *t;
    s.policy = (uint16_t)(r->kind | (r->offset ? QG_ASYMMETRIC : QG_SYMMETRIC));
    s.policy |= r->exponent ? QG_FLOATING : QG_LINEAR;
    s.exponent_bits = (uint8_t)(r->exponent < 0 ? -r->exponent : r->exponent);
    s.variant = r->exponent < 0 ? QG_FLOAT_FNUZ : 0;
    if (r->slot == DATA && r->kind == C)
        s.axis = 1;
    assert_ok(ctx,
              qg_quant_add(q, qg_graph_node(q->graph, node), false, r->slot, &s, &t));
    assert_ok(ctx, qg_tqc_set_param(q, t,
                                    r->kind == T   ? 1
                                    : r->kind == C ? 2
                                                   : 4,
                                    scale, r->kind == T ? offset + 1 : offset));
    assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    if (r->slot != DATA)
        assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_BAKED));
    return t;
}

static const qg_backend backend = { .name = "test" };

/* Blocks of 3 along axis 0 of [2,2,1,1]: one, of two scales. */
static void scales_of_blocks_have_an_axis_for_each(void **state)
{
    static const grid_row row = { WEIGHT, B, 8, -128, 127, 0, 0, ORT, NULL };
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx, network);
    qg_quant *q;
    qg_tensor s;
    assert_ok(ctx, qg_quant_new(g, &backend, &q));
    const qg_tqc *t = record(ctx, q, "c", &row);
    qg_onnx_scale_type(t, &qg_tqc_value(t)->type, QG_F32, &s);
    assert_int_equal(s.rank, 4);
    assert_int_equal(s.dim[0], 1);
    assert_int_equal(s.dim[1], 2);
    assert_int_equal(s.dtype, QG_F32);
    qg_graph_free(g);
}

static void each_grid_has_its_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const grid_row *r = &grids[i];
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_graph *g = parsed(ctx, network);
        qg_quant *q;
        assert_ok(ctx, qg_quant_new(g, &backend, &q));
        if (r->slot == BIAS) { /* steps of 0.25 and 0.5 would be those of the bias */
            grid_row data = { DATA, T, 8, -128, 127, 0, 0, ORT, NULL }, weight = data;
            weight.slot = WEIGHT;
            weight.kind = C;
            (void)record(ctx, q, "c", &data);
            if (r->place != OV)
                (void)record(ctx, q, "c", &weight);
        }
        const qg_tqc *t = record(ctx, q, "c", r);
        bool constant = r->slot != DATA;
        qg_onnx_grid got = qg_onnx_grid_of(t, constant, (enum qg_placement)r->place);
        const char *text =
            got.fault ? got.fault
                      : qg_arena_printf(ctx->arena, "%s %d%s", qg_dtype_name(got.code),
                                        got.opset, got.clip ? " clip" : "");
        if (strcmp(text, r->want) != 0)
            fail_msg("grid %zu: '%s', expected '%s'", i, text, r->want);
        const char *refusal = qg_onnx_refusal(t, (enum qg_placement)r->place);
        assert_ptr_equal(refusal, r->place == TRT && !constant ? got.fault : NULL);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

/* Unsigned codes of a signed grid are half of the range higher. */
static void zero_points_follow_the_type(void **state)
{
    static const grid_row row = { DATA, T, 8, -128, 127, 5, 0, OV, NULL };
    static const grid_row wide = { WEIGHT, C, 16, -32768, 32767, 300, 0, ORT, NULL };
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx, network);
    qg_quant *q;
    qg_tensor z;
    float low, high;
    assert_ok(ctx, qg_quant_new(g, &backend, &q));
    const qg_tqc *t = record(ctx, q, "c", &row), *w = record(ctx, q, "c", &wide);
    const qg_tensor *x = &g->input.at[0]->type;
    assert_int_equal(qg_onnx_shift(t, QG_U8), 128);
    assert_int_equal(qg_onnx_shift(t, QG_I8), 0);
    assert_int_equal(qg_onnx_shift(t, QG_U16), 32768);
    assert_ok(ctx, qg_onnx_zero_points(ctx, ctx->arena, t, QG_U8, x, &z));
    assert_int_equal(z.rank, 0);
    assert_int_equal(z.u8[0], 133);
    assert_ok(ctx, qg_onnx_zero_points(ctx, ctx->arena, w, QG_I16, x, &z));
    assert_int_equal(z.rank, 1);
    assert_int_equal(z.i16[0], 0);
    assert_int_equal(z.i16[1], 300);
    assert_ok(ctx, qg_onnx_zero_points(ctx, ctx->arena, w, QG_U16, x, &z));
    assert_int_equal(z.u16[1], 33068);
    qg_onnx_limits(t, 0, &low, &high); /* (-128 - 5) / 2, (127 - 5) / 2 */
    assert_cmp_f64(low, ==, -66.5);
    assert_cmp_f64(high, ==, 61);
    qg_onnx_limits(w, 1, &low, &high);
    assert_cmp_f64(low, ==, -33068);
    assert_cmp_f64(high, ==, 32467);
    qg_qparam p = qg_tqc_param(w);
    assert_false(qg_onnx_turns_zero_points(w, &p)); /* of a convolution */
    const qg_tqc *turned = record(ctx, q, "t", &wide),
                 *data = record(ctx, q, "t", &row);
    assert_true(qg_onnx_turns_zero_points(turned, &p));
    assert_false(
        qg_onnx_turns_zero_points(turned, &(qg_qparam){ 1, p.scale, p.offset }));
    p = qg_tqc_param(data);
    assert_false(qg_onnx_turns_zero_points(data, &p));
    assert_true(qg_onnx_same_grid(w, turned));
    assert_true(qg_onnx_same_grid(t, data));
    assert_false(qg_onnx_same_grid(t, w));
    qg_graph_free(g);
}

/* --- reading --- */

typedef struct node_row {
    const char *lines, *want;
} node_row;

/* clang-format off */
#define Q(opset, scale, zero, attributes)                                              \
    "  opset " opset "\n  x = input f32[2,4]\n  s = const " scale "\n"                 \
    "  z = const " zero "\n  q = QuantizeLinear q (x, s, z)" attributes "\n"           \
    "  output q\n"
#define ONE "f32[] [0.5]"
static const node_row nodes[] = {
    { Q("13", ONE, "i8[] [0]", ""), "T symmetric 8 [-128, 127] 0.5:0" },
    { Q("13", ONE, "i8[] [1]", ""), "T asymmetric 8 [-128, 127] 0.5:1" },
    { Q("13", ONE, "u8[] [7]", ""), "T asymmetric 8 [0, 255] 0.5:7" },
    { Q("21", ONE, "i16[] [0]", ""), "T symmetric 16 [-32768, 32767] 0.5:0" },
    { Q("21", ONE, "u16[] [9]", ""), "T asymmetric 16 [0, 65535] 0.5:9" },
    { "  opset 13\n  x = input f32[2,4]\n  s = const " ONE "\n"
      "  q = QuantizeLinear q (x, s)\n  output q\n", "T symmetric 8 [0, 255] 0.5:0" },
    { "  opset 13\n  x = input f32[]\n  s = const " ONE "\n"
      "  q = QuantizeLinear q (x, s)\n  output q\n",
      "T symmetric 8 [0, 255] 0.5:0" },
    { Q("13", "f32[4] [1.0, 2.0, 4.0, 8.0]", "i8[4] [0, 0, 0, 3]", ""),
      "C1 asymmetric 8 [-128, 127] 1:0 2:0 4:0 8:3" },
    { Q("13", "f32[2] [1.0, 2.0]", "i8[2] [0, 0]", " axis=0"),
      "C0 symmetric 8 [-128, 127] 1:0 2:0" },
    { Q("13", "f32[2] [1.0, 2.0]", "i8[2] [0, 0]", " axis=-2"),
      "C0 symmetric 8 [-128, 127] 1:0 2:0" },
    { Q("21", "f32[2,2] [1.0, 2.0, 4.0, 8.0]", "i8[2,2] [0, 0, 0, 0]",
      " axis=1 block_size=2"),
      "B1/2 symmetric 8 [-128, 127] 1:0 2:0 4:0 8:0" },
    { Q("13", "f32[] [0.0]", "i8[] [0]", ""), "a scale is not finite and above 0" },
    { Q("13", "f32[] [-1.0]", "i8[] [0]", ""), "a scale is not finite and above 0" },
    { Q("13", "f32[] [inf]", "i8[] [0]", ""), "a scale is not finite and above 0" },
    { Q("13", "f32[4] [1.0, 2.0, 3.0, 0.0]", "i8[4] [0, 0, 0, 0]", ""),
      "a scale is not finite and above 0" },
    { Q("19", "f32[] [0.5]", "float8e4m3fn[] [0.0]", ""),
      "floating T symmetric 8 [-448, 448] 0.5:0" },
    { Q("19", "f32[] [0.75]", "float8e4m3fn[] [0.0]", ""),
      "a scale of a floating grid is not a power of two" },
    { Q("19", "f32[] [0.5]", "float8e4m3fn[] [1.0]", ""),
      "a zero point of this type is not 0" },
    { Q("19", "f32[] [0.5]", "float8e4m3fn[] [0.0]", " saturate=0"),
      "it does not saturate" },
    { "  opset 13\n  x = input f32[2,4]\n  s = input f32[]\n"
      "  q = QuantizeLinear q (x, s)\n  output q\n", "its scale is not constant" },
    { "  opset 13\n  x = input f32[2,4]\n  s = const " ONE "\n  z = input i8[]\n"
      "  q = QuantizeLinear q (x, s, z)\n  output q\n", "its scale is not constant" },
    { "  opset 13\n  x = input i32[2,4]\n  s = const " ONE "\n"
      "  q = QuantizeLinear q (x, s)\n  output q\n",
      "its value is not float32 of known rank" },
};
/* clang-format on */

static const char *grid_text(qg_ctx *ctx, const qg_grid_record *r)
{
    const qg_scheme *s = &r->scheme;
    const char *text = s->policy & QG_PER_TENSOR ? "T"
                       : s->policy & QG_BLOCK
                           ? qg_arena_printf(ctx->arena, "B%d/%d", s->axis, s->block)
                           : qg_arena_printf(ctx->arena, "C%d", s->axis);
    if (s->policy & QG_FLOATING)
        text = qg_arena_printf(ctx->arena, "floating %s", text);
    text = qg_arena_printf(ctx->arena, "%s %s %u [%lld, %lld]", text,
                           s->policy & QG_SYMMETRIC ? "symmetric" : "asymmetric",
                           s->bits, (long long)s->qmin, (long long)s->qmax);
    for (size_t c = 0; c < r->param.n; c++)
        text = qg_arena_printf(ctx->arena, "%s %g:%d", text, (double)r->param.scale[c],
                               r->param.offset[c]);
    return text;
}

static void each_node_has_its_grid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_graph *g = parsed(ctx, nodes[i].lines);
        const qg_node *n = qg_graph_node(g, "q");
        qg_grid_record grid;
        const char *why;
        assert_true(qg_is_quantize_linear(n));
        assert_false(qg_is_dequantize_linear(n));
        assert_ok(ctx, qg_grid_of_linear(g, n, n->out[0]->type.dtype, &n->in[0]->type,
                                         &grid, &why));
        const char *got = why ? why : grid_text(ctx, &grid);
        if (strcmp(got, nodes[i].want) != 0)
            fail_msg("%s: '%s', expected '%s'", nodes[i].lines, got, nodes[i].want);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(cmocka_unit_test(each_grid_has_its_type),
             WITH_CTX(scales_of_blocks_have_an_axis_for_each),
             WITH_CTX(zero_points_follow_the_type),
             cmocka_unit_test(each_node_has_its_grid))
