/* Graphs of 16-bit floats, to float32 and back, as texts: which nodes and constants
 * change, where Casts are. */
#include "tests/support/test.h"

#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "engine/ir/float_type.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static char *printed(qg_ctx *ctx, const qg_graph *g)
{
    char *text;
    size_t size;
    assert_ok(ctx, qg_check_graph(ctx, g, QG_CHECK_ALL));
    assert_ok(ctx, qg_text_print(g, NULL, ctx->arena, &text, &size));
    return text;
}

static qg_graph *parsed(qg_ctx *ctx, const char *text)
{
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_graph *g = NULL;
    ctx->registry = &qg_ops_registry;
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    return g;
}

/* What the file has, the same in float32, and what is written again. */
typedef struct row {
    const char *name, *file, *wide, *narrow;
} row;

static const row rows[] = {
    {"all of it",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w = const float16[4] [1.0, 2.0, 0.099975586, -4.0]\n"
      "  y = Add(x, w)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[4]\n"
      "  w = const float32[4] [1.0, 2.0, 0.099975586, -4.0]\n"
      "  y float32[4] = Add(x, w)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w_0 = const float16[4] [1.0, 2.0, 0.099975586, -4.0]\n"
      "  y float16[4] = Add(x, w_0)\n"
      "  output y\n"
      "}\n"},
    { "an island",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w = const float32[1] [0.1]\n"
      "  r = Relu(x)\n"
      "  a = Cast(r) to=1\n"
      "  b = Mul(a, w)\n"
      "  c = Cast(b) to=10\n"
      "  y = Relu(c)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[4]\n"
      "  w = const float32[1] [0.1]\n"
      "  r float32[4] = Relu(x)\n"
      "  b float32[4] = Mul(r, w)\n"
      "  y float32[4] = Relu(b)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w = const float32[1] [0.1]\n"
      "  r float16[4] = Relu(x)\n"
      "  r_float32 float32[4] = Cast Cast_0(r) to=1\n"
      "  b float32[4] = Mul(r_float32, w)\n"
      "  b_float16 float16[4] = Cast Cast_1(b) to=10\n"
      "  y float16[4] = Relu(b_float16)\n"
      "  output y\n"
      "}\n"},
    { "the interface",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  y = Cast(x) to=1\n"
      "  z = Cast(x) to=16\n"
      "  r = Relu(x)\n"
      "  s = Cast(r) to=1\n"
      "  output y, z, s\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[4]\n"
      "  y float32[4] = Cast(x) to=1\n"
      "  z float32[4] = Cast(x) to=1\n"
      "  s float32[4] = Relu r(x)\n"
      "  output y, z, s\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  s_float16 float16[4] = Relu r(x)\n"
      "  s float32[4] = Cast Cast_1(s_float16) to=1\n"
      "  x_float32 float32[4] = Cast Cast_2(x) to=1\n"
      "  y float32[4] = Cast(x_float32) to=1\n"
      "  z_float32 float32[4] = Cast z(x_float32) to=1\n"
      "  z bfloat16[4] = Cast Cast_0(z_float32) to=16\n"
      "  output y, z, s\n"
      "}\n"},
    { "attributes",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input bfloat16[2,2]\n"
      "  n = input int64[1]\n"
      "  e = EyeLike(x) dtype=16\n"
      "  f = ConstantOfShape(n) value=bfloat16[1] [0.5]\n"
      "  i = EyeLike(x) dtype=7\n"
      "  a = Add(x, e)\n"
      "  output a, f, i\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[2,2]\n"
      "  n = input int64[1]\n"
      "  e float32[2,2] = EyeLike(x) dtype=1\n"
      "  f float32[?] = ConstantOfShape(n) value=float32[1] [0.5]\n"
      "  i int64[2,2] = EyeLike(x) dtype=7\n"
      "  a float32[2,2] = Add(x, e)\n"
      "  output a, f, i\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input bfloat16[2,2]\n"
      "  n = input int64[1]\n"
      "  f_float32 float32[?] = ConstantOfShape f(n) value=float32[1] [0.5]\n"
      "  f bfloat16[?] = Cast Cast_0(f_float32) to=16\n"
      "  x_float32 float32[2,2] = Cast Cast_1(x) to=1\n"
      "  e float32[2,2] = EyeLike(x_float32) dtype=1\n"
      "  i int64[2,2] = EyeLike(x_float32) dtype=7\n"
      "  e_bfloat16 bfloat16[2,2] = Cast Cast_2(e) to=16\n"
      "  a bfloat16[2,2] = Add(x, e_bfloat16)\n"
      "  output a, f, i\n"
      "}\n"},
    { "quantizers",
     "graph \"\" {\n"
      "  opset 21\n"
      "  x = input float16[4]\n"
      "  s = const float16[] [0.5]\n"
      "  q = QuantizeLinear(x, s)\n"
      "  d = DequantizeLinear(q, s)\n"
      "  y = Relu(d)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 21\n"
      "  x = input float32[4]\n"
      "  s = const float32[] [0.5]\n"
      "  q uint8[4] = QuantizeLinear(x, s)\n"
      "  d float32[4] = DequantizeLinear(q, s)\n"
      "  y float32[4] = Relu(d)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 21\n"
      "  x = input float16[4]\n"
      "  s = const float32[] [0.5]\n"
      "  x_float32 float32[4] = Cast Cast_0(x) to=1\n"
      "  q uint8[4] = QuantizeLinear(x_float32, s)\n"
      "  d float32[4] = DequantizeLinear(q, s)\n"
      "  d_float16 float16[4] = Cast Cast_1(d) to=10\n"
      "  y float16[4] = Relu(d_float16)\n"
      "  output y\n"
      "}\n"},
    { "scales of a Resize",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[1,1,2,2]\n"
      "  s = const float32[4] [1.0, 1.0, 2.0, 2.0]\n"
      "  y = Resize(x, _, s)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[1,1,2,2]\n"
      "  s = const float32[4] [1.0, 1.0, 2.0, 2.0]\n"
      "  y float32[1,1,4,4] = Resize(x, _, s)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[1,1,2,2]\n"
      "  s = const float32[4] [1.0, 1.0, 2.0, 2.0]\n"
      "  y float16[1,1,4,4] = Resize(x, _, s)\n"
      "  output y\n"
      "}\n"},
    { "control flow",
     "graph \"\" {\n"
      "  opset 17\n"
      "  c = input bool[]\n"
      "  x = input float16[2]\n"
      "  h = Relu(x)\n"
      "  y = If(c | h) then_branch=graph \"t\" {\n"
      "    h = outer float16[2]\n"
      "    p float16[2] = Relu(h)\n"
      "    output p\n"
      "  } else_branch=graph \"e\" {\n"
      "    h = outer float16[2]\n"
      "    q float16[2] = Neg(h)\n"
      "    output q\n"
      "  }\n"
      "  z = Relu(y)\n"
      "  output z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  c = input bool[]\n"
      "  x = input float32[2]\n"
      "  h float32[2] = Relu(x)\n"
      "  h_float16 float16[2] = Cast Cast_0(h) to=10\n"
      "  y_float16 float16[2] = If y(c | h_float16 as h) then_branch=graph \"t\" "
      "{\n"
      "    h = outer float16[2]\n"
      "    p float16[2] = Relu(h)\n"
      "    output p\n"
      "  } else_branch=graph \"e\" {\n"
      "    h = outer float16[2]\n"
      "    q float16[2] = Neg(h)\n"
      "    output q\n"
      "  }\n"
      "  y float32[2] = Cast Cast_1(y_float16) to=1\n"
      "  z float32[2] = Relu(y)\n"
      "  output z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  c = input bool[]\n"
      "  x = input float16[2]\n"
      "  h float16[2] = Relu(x)\n"
      "  h_float16 float16[2] = Cast Cast_0(h) to=10\n"
      "  y_float16 float16[2] = If y(c | h_float16 as h) then_branch=graph \"t\" "
      "{\n"
      "    h = outer float16[2]\n"
      "    p float16[2] = Relu(h)\n"
      "    output p\n"
      "  } else_branch=graph \"e\" {\n"
      "    h = outer float16[2]\n"
      "    q float16[2] = Neg(h)\n"
      "    output q\n"
      "  }\n"
      "  y float32[2] = Cast Cast_1(y_float16) to=1\n"
      "  y_float16_2 float16[2] = Cast Cast_3(y) to=10\n"
      "  z float16[2] = Relu(y_float16_2)\n"
      "  output z\n"
      "}\n"},
    { "two types and a taken name",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[2]\n"
      "  x_float16 = input bfloat16[2]\n"
      "  w = const bfloat16[2] [1.0, 2.0]\n"
      "  y = Relu(x)\n"
      "  z = Add(x_float16, w)\n"
      "  output y, z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[2]\n"
      "  x_float16 = input float32[2]\n"
      "  w = const float32[2] [1.0, 2.0]\n"
      "  y float32[2] = Relu(x)\n"
      "  z float32[2] = Add(x_float16, w)\n"
      "  output y, z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[2]\n"
      "  x_float16 = input bfloat16[2]\n"
      "  w_2 = const float16[2] [1.0, 2.0]\n"
      "  y float16[2] = Relu(x)\n"
      "  x_float16_float16 float16[2] = Cast Cast_1(x_float16) to=10\n"
      "  z_float16 float16[2] = Add z(x_float16_float16, w_2)\n"
      "  z bfloat16[2] = Cast Cast_0(z_float16) to=16\n"
      "  output y, z\n"
      "}\n"},
    { "float32 beside it",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[2]\n"
      "  a_float16 = input float32[2]\n"
      "  w = const float32[2] [0.1, 0.2]\n"
      "  a = Add(a_float16, w)\n"
      "  b = Cast(a) to=10\n"
      "  y = Add(x, b)\n"
      "  k = ArgMax(x)\n"
      "  output y, a, k\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[2]\n"
      "  a_float16 = input float32[2]\n"
      "  w = const float32[2] [0.1, 0.2]\n"
      "  a float32[2] = Add(a_float16, w)\n"
      "  y float32[2] = Add(x, a)\n"
      "  k int64[1] = ArgMax(x)\n"
      "  output y, a, k\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[2]\n"
      "  a_float16 = input float32[2]\n"
      "  w = const float32[2] [0.1, 0.2]\n"
      "  a float32[2] = Add(a_float16, w)\n"
      "  k int64[1] = ArgMax(x)\n"
      "  a_float16_0 float16[2] = Cast Cast_1(a) to=10\n"
      "  y float16[2] = Add(x, a_float16_0)\n"
      "  output y, a, k\n"
      "}\n"},
    { "unknown ranks",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[...]\n"
      "  w = const float16[4,3,1,1] fill(1.0)\n"
      "  c = Conv(x, w)\n"
      "  y = Relu(c)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[...]\n"
      "  w = const float32[4,3,1,1] [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "
      "1.0, 1.0, 1.0, 1.0]\n"
      "  c float32[...] = Conv(x, w)\n"
      "  y float32[...] = Relu(c)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[...]\n"
      "  w_0 = const float16[4,3,1,1] [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "
      "1.0, 1.0, 1.0, 1.0]\n"
      "  c float16[...] = Conv(x, w_0)\n"
      "  y float16[...] = Relu(c)\n"
      "  output y\n"
      "}\n"},
    { "two readers",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w = const float16[1] [0.5]\n"
      "  a = Cast(x) to=1\n"
      "  v = Cast(w) to=1\n"
      "  b = Mul(a, v)\n"
      "  c = Sub(a, v)\n"
      "  p = Cast(b) to=10\n"
      "  q = Cast(c) to=10\n"
      "  y = Mul(p, w)\n"
      "  z = Mul(q, w)\n"
      "  output y, z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[4]\n"
      "  w = const float32[1] [0.5]\n"
      "  b float32[4] = Mul(x, w)\n"
      "  c float32[4] = Sub(x, w)\n"
      "  y float32[4] = Mul(b, w)\n"
      "  z float32[4] = Mul(c, w)\n"
      "  output y, z\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  w = const float32[1] [0.5]\n"
      "  w_2 = const float16[1] [0.5]\n"
      "  x_float32 float32[4] = Cast Cast_0(x) to=1\n"
      "  b float32[4] = Mul(x_float32, w)\n"
      "  c float32[4] = Sub(x_float32, w)\n"
      "  b_float16 float16[4] = Cast Cast_1(b) to=10\n"
      "  y float16[4] = Mul(b_float16, w_2)\n"
      "  c_float16 float16[4] = Cast Cast_3(c) to=10\n"
      "  z float16[4] = Mul(c_float16, w_2)\n"
      "  output y, z\n"
      "}\n"},
    { "limits of a Range",
     "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  a = const float16[] [0.0]\n"
      "  b = const float16[] [4.0]\n"
      "  c = const float16[] [1.0]\n"
      "  r = Range(a, b, c)\n"
      "  y = Add(x, r)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float32[4]\n"
      "  a = const float32[] [0.0]\n"
      "  b = const float32[] [4.0]\n"
      "  c = const float32[] [1.0]\n"
      "  r float32[4] = Range(a, b, c)\n"
      "  y float32[4] = Add(x, r)\n"
      "  output y\n"
      "}\n", "graph \"\" {\n"
      "  opset 17\n"
      "  x = input float16[4]\n"
      "  a_0 = const float16[] [0.0]\n"
      "  b_1 = const float16[] [4.0]\n"
      "  c_2 = const float16[] [1.0]\n"
      "  r float16[4] = Range(a_0, b_1, c_2)\n"
      "  y float16[4] = Add(x, r)\n"
      "  output y\n"
      "}\n"},
};

static void graphs_are_widened_and_narrowed(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qg_graph *g = parsed(ctx, rows[i].file);
        bool changed = false;
        assert_ok(ctx, qg_graph_to_float32(g, &changed));
        assert_true(changed);
        assert_ok(ctx, qg_infer(g, NULL, 0));
        assert_string_equal(printed(ctx, g), rows[i].wide);
        assert_ok(ctx, qg_graph_to_float_type(g));
        assert_string_equal(printed(ctx, g), rows[i].narrow);
        qg_graph_free(g);
    }
}

/* A graph of float32 is left alone in both directions, with its Casts. */
static void other_graphs_stay(void **state)
{
    static const char text[] = "graph \"\" {\n"
                               "  opset 17\n"
                               "  x = input float32[2]\n"
                               "  i = input int64[2]\n"
                               "  a float32[2] = Cast(x) to=1\n"
                               "  b float32[2] = Cast(i) to=1\n"
                               "  y float32[2] = Add(a, b)\n"
                               "  output y\n"
                               "}\n";
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx, text);
    bool changed = true;
    assert_ok(ctx, qg_graph_to_float32(g, &changed));
    assert_false(changed);
    assert_string_equal(printed(ctx, g), text);
    assert_ok(ctx, qg_graph_to_float_type(g));
    assert_string_equal(printed(ctx, g), text);
    assert_int_equal(g->float_type, QG_NODTYPE);
    assert_false(g->node.at[0]->stays_float32);
    qg_graph_free(g);
}

/* Before opset 6 a Cast names its type by a text. */
static void old_opsets_have_no_cast(void **state)
{
    for (int64_t opset = 5; opset <= 6; opset++) {
        qg_ctx *ctx = *state;
        char text[160];
        (void)snprintf(text, sizeof text,
                       "graph \"old\" { opset %d; x = input f16[2]; u = input f32[2]\n"
                       "y = Relu(x); z = Relu(u); output y, z }",
                       (int)opset);
        qg_graph *g = parsed(ctx, text);
        bool changed;
        assert_ok(ctx, qg_graph_to_float32(g, &changed));
        g->node.at[0]->stays_float32 = true; /* so that a Cast is needed */
        if (opset < 6)
            assert_fails(ctx, qg_graph_to_float_type(g), QG_EUNSUPPORTED,
                         "convert: graph 'old': opset 5 has no Cast by number, "
                         "expected 6 or later");
        else
            assert_ok(ctx, qg_graph_to_float_type(g));
        qg_graph_free(g);
    }
}

QG_TEST_MAIN(WITH_CTX(graphs_are_widened_and_narrowed), WITH_CTX(other_graphs_stay),
             WITH_CTX(old_opsets_have_no_cast))
