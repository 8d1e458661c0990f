/* The text form: what the parser makes of it, what the printer writes, what is
 * refused. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/ir/check.h"
#include "engine/ir/text.h"
#include "tests/support/graphs.h"

static qg_ctx *ctx_new(void)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    assert_non_null(ctx);
    ctx->registry = &toy_registry;
    return ctx;
}

static qg_status parse(qg_ctx *ctx, const char *text, qg_graph **g)
{
    qg_text_source source = { .name = "t.qgt", .text = text, .size = strlen(text) };
    return qg_text_parse(ctx, &source, g);
}

static void samples_are_read(void **state)
{
    (void)state;
    qg_ctx *ctx = ctx_new();
    qg_graph *g = NULL;
    assert_ok(ctx, parse(ctx,
                         "graph \"g\" { x = input f32[1,3,8,8]; opset 13\n"
                         "  w = const f32[4,3,3,3] ramp(-1,1) # a comment; not an end\n"
                         "  c = Conv(x,\n w) group=2; r = Relu(c); output r }",
                         &g));
    assert_ok(ctx, qg_check_graph(ctx, g, QG_CHECK_ALL));
    const qg_tensor *w = qg_graph_value(g, "w")->constant;
    assert_cmp_f64(w->f32[0], ==, -1);
    assert_cmp_f64(w->f32[107], ==, 1);
    assert_string_equal(qg_graph_node(g, "c")->op->name, "Conv");
    assert_int_equal(*(int64_t *)qg_graph_node(g, "c")->param, 2);
    assert_int_equal(g->output.n, 1);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

/* One text that holds everything and is its own print. */
static const char everything[] =
    "graph \"all of it\" {\n"
    "  ir 10\n"
    "  opset 13\n"
    "  opset test 1\n"
    "  x = input float32[N,3,?,H=8]\n"
    "  \"193\" = input ?[...]\n"
    "  k = const int64[2] [1, -9223372036854775808]\n"
    "  odd = const float32[4] [-0.0, 0x7fc00001, inf, 1e-45]\n"
    "  half = const float16[2] [0.099975586, 0xfe00]\n"
    "  nibble = const int4[3] [-8, 7, -1]\n"
    "  flag = const bool[] [1]\n"
    "  none = const float32[0,4] []\n"
    "  /a/b:0 float32[N=2,?] = Conv@11 \"a \\\"name\\\"\\x01\"(x, odd, _) on fp32 "
    "\"why not\" group=1 on=1.5\n"
    "  p, _, \"output\" bool[...] = Split(k)\n"
    "  () = test::Custom tail(p, \"output\") t=uint8[2] [1, 2] f=floats [] s=\"a\\tb\" "
    "l=[\"\", \"c\"] i=[1, 2] e=[1.0, 0x7fc00000]\n"
    "  y = If i(flag | p, k as k2) then=graph \"b\" {\n"
    "    p = outer ?[...]\n"
    "    k2 = outer int64[2]\n"
    "    q = Add(p, k2)\n"
    "    output q\n"
    "  } list=[graph \"\" {\n"
    "  }, graph \"c\" {\n"
    "  }]\n"
    "  output y, /a/b:0\n"
    "}\n";

static void everything_prints_as_it_was(void **state)
{
    (void)state;
    qg_ctx *ctx = ctx_new();
    qg_graph *g = NULL;
    char *text;
    size_t n;
    assert_ok(ctx, parse(ctx, everything, &g));
    assert_ok(ctx, qg_check_graph(ctx, g, QG_CHECK_ALL));
    assert_ok(ctx, qg_text_print(g, NULL, ctx->arena, &text, &n));
    assert_string_equal(text, everything);
    assert_int_equal(n, strlen(everything));
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void generators_fill(void **state)
{
    (void)state;
    qg_ctx *ctx = ctx_new();
    qg_graph *g = NULL;
    assert_ok(
        ctx,
        parse(ctx,
              "graph { a = const i8[5] ramp(-2, 2); b = const f16[3] fill(1.5)\n"
              "c = const f32[1000] seed(7); d = const u4[3] seed(1)\n"
              "e = const f32[1] ramp(3, 9); f = const u64[1] [0xffffffffffffffff]}",
              &g));
    for (int i = 0; i < 5; i++)
        assert_int_equal(qg_tensor_i64(qg_graph_value(g, "a")->constant, i), i - 2);
    assert_cmp_f64(qg_tensor_f64(qg_graph_value(g, "b")->constant, 2), ==, 1.5);
    const qg_tensor *c = qg_graph_value(g, "c")->constant;
    double low = 1, high = -1;
    for (int i = 0; i < 1000; i++) {
        low = fmin(low, c->f32[i]);
        high = fmax(high, c->f32[i]);
    }
    assert_cmp_f64(low, >=, -1);
    assert_cmp_f64(low, <, -0.9);
    assert_cmp_f64(high, <, 1);
    assert_cmp_f64(high, >, 0.9);
    assert_cmp_f64(qg_graph_value(g, "e")->constant->f32[0], ==, 3);
    assert_int_equal(qg_graph_value(g, "f")->constant->u64[0], UINT64_MAX);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void large_constants_travel_by_table(void **state)
{
    (void)state;
    qg_ctx *ctx = ctx_new();
    qg_graph *g = NULL, *back = NULL;
    qg_text_table *table = NULL;
    char *text;
    qg_text_source source = { .name = NULL };
    assert_ok(ctx, qg_text_table_new(ctx, &table));
    assert_ok(ctx,
              parse(ctx,
                    "graph { a = const f32[17] seed(1); b = const f32[17] seed(1)\n"
                    "c = const f32[17] seed(2) }",
                    &g));
    assert_ok(ctx, qg_text_print(g, table, ctx->arena, &text, &source.size));
    source.text = text;
    assert_fails(ctx, qg_text_parse(ctx, &source, &back), QG_EPARSE,
                 "parse: text:2:30: found '");
    source.table = table;
    assert_ok(ctx, qg_text_parse(ctx, &source, &back));
    for (const char *name = "a\0b\0c\0"; *name; name += 2)
        assert_memory_equal(qg_graph_value(g, name)->constant->data,
                            qg_graph_value(back, name)->constant->data, 68);
    qg_text_table_free(table);
    qg_graph_free(back);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void faults_have_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qg_status status;
        const char *message;
        /* clang-format off */
    } bad[] = {
        { "", QG_EPARSE,
          "parse: t.qgt:1:1: found the end of the text, expected 'graph'" },
        { "graph g { x = input f32[1]\n x = input f32[1] }", QG_EMODEL,
          "parse: t.qgt:2:12: graph 'g': input 'x' is an input already" },
        { "graph { r = Relu(x) s = Relu(r) }", QG_EPARSE,
          "1:25: found 'Relu', expected a" },
        { "graph {\n\n   r = Rely(x)\n}", QG_EUNSUPPORTED,
          "parse: t.qgt:3:8: operator 'Rely' of opset 0 is not known" },
        { "graph { r = Relu@5(x) }", QG_EUNSUPPORTED, "'Relu' of opset 5" },
        { "graph { r = Relu(x, y) }", QG_EMODEL,
          "1:13: graph: node 'r' (Relu): 2 inputs" },
        { "graph { r = Conv(x, y) group=0 }", QG_EMODEL,
          "group is 0, expected at least 1" },
        { "graph { r = Relu(x); r = Relu(y) }", QG_EMODEL,
          "output 'r' is produced already" },
        { "graph { w = const f32[2] [1] }", QG_EPARSE, "1:28: found ']', expected ','"
          },
        { "graph { w = const f32[999999999] [1] }", QG_EPARSE, "as many elements as" },
        { "graph { w = const f32[99999999999] fill(1) }", QG_EPARSE, "at most 2^26" },
        { "graph { w = const f32[9999999999,9999999999] fill(1) }", QG_EMODEL,
          "no size" },
        { "graph { w = const i8[1] [128] }", QG_EPARSE, "an element of that dtype" },
        { "graph { w = const f32[1] [1e39] }", QG_EPARSE, "an element of that dtype" },
        { "graph { w = const f33[1] [1] }", QG_EPARSE,
          "1:19: found 'f33', expected a dtype" },
        { "graph { w = const f32[?] [1] }", QG_EPARSE,
          "a content behind a type that is known" },
        { "graph { x = input f32[1,1,1,1,1,1,1,1,1] }", QG_EPARSE, "at most 8 dim" },
        { "graph { x = input f32[-1] }", QG_EPARSE, "expected a dimension" },
        { "graph { r = Relu(x) a=[] }", QG_EPARSE, "the type of an empty list" },
        { "graph { r = Relu(x) a=[1, \"s\"] }", QG_EPARSE,
          "an item like the first one" },
        { "graph { r = Relu(x) a=ints [1.5] }", QG_EPARSE, "ints only" },
        { "graph { r = Relu(x) on moon }", QG_EPARSE, "quantized, fp32 or soi" },
        { "graph { \"x = input f32[1] }", QG_EPARSE, "a string that ends on its line" },
        { "graph { a, \"b = Split(x) }", QG_EPARSE,
          "1:12: found '\"', expected a string that ends on its line" },
        { "graph { \"\\q\" = input f32[1] }", QG_EPARSE, "1:9: found '" },
        { "graph { \"\" = input f32[1] }", QG_EPARSE, "expected a name" },
        { "graph { output y, y }", QG_EMODEL,
          "1:19: graph '': output 'y' is listed twice" },
        { "graph { } }", QG_EPARSE, "1:11: found '}', expected the end of the text" },
        { "graph { w = const f32[17] hash(\"0123456789abcdef\") }", QG_EPARSE,
          "the hash of a tensor of that type in the table" },
        { "graph { a, b = const f32[] [1] }", QG_EPARSE, "one name before input" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qg_ctx *ctx = ctx_new();
        qg_graph *g = NULL;
        assert_fails(ctx, parse(ctx, bad[i].text, &g), bad[i].status, bad[i].message);
        assert_null(g);
        qg_ctx_free(ctx);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    qg_ctx *ctx = ctx_new();
    qg_graph *g = NULL;
    static char text[200000];
    size_t n = 0;
    while (n < sizeof text - 100)
        n += (size_t)sprintf(text + n, "graph { y = If(c) b=");
    assert_fails(ctx, parse(ctx, text, &g), QG_EPARSE, "at most 32 bodies within each");
    qg_ctx_free(ctx);
}

/* What lies behind the size is not read, be it what the text lacks. */
static void text_ends_at_its_size(void **state)
{
    (void)state;
    static const char text[] = "graph \"g\" { x = input f32[1] }";
    qg_ctx *ctx = ctx_new();
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        const qg_text_source source = { .text = text, .size = n };
        qg_graph *g = NULL;
        if (n == 8)
            assert_fails(ctx, qg_text_parse(ctx, &source, &g), QG_EPARSE,
                         "expected a string that ends on its line");
        else
            assert_int_not_equal(qg_text_parse(ctx, &source, &g), QG_OK);
    }
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(samples_are_read),
             cmocka_unit_test(everything_prints_as_it_was),
             cmocka_unit_test(generators_fill),
             cmocka_unit_test(large_constants_travel_by_table),
             cmocka_unit_test(faults_have_a_place),
             cmocka_unit_test(nesting_is_bounded),
             cmocka_unit_test(text_ends_at_its_size))
