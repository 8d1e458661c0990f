/* formats/quantizers.h on the fuzzers' seeds: what becomes a record, where, and what
 * stays an operator and why. */
#include "tests/support/test.h"

#include "engine/onnx/import.h"
#include "engine/formats/quantizers.h"
#include "engine/ir/infer.h"
#include "engine/quant/tqc_text.h"
#include "ops/families.h"

static void keep_warning(void *ud, enum qg_log_level level, const char *text)
{
    char *all = ud;
    (void)level;
    (void)snprintf(all + strlen(all), 1024 - strlen(all), "%s\n", text);
}

typedef struct seed {
    const char *file;
    enum qg_quantizers which;
    const char *records;  /* brief text */
    const char *warnings; /* what stays; "" */
} seed;

#define STAYS(node, op, why)                                                           \
    "import: node '" node "' (" op ") stays an operator: " why "\n"

/* clang-format off */
static const seed seeds[] = {
    { "qdq_import/conv.onnx", QG_QUANTIZERS_ONNX,
      "Conv_4.in0 activated 0.1 offset 128\n"
      "Conv_4.in1 baked [4] 0.1 0.2 0.3 0.4\n"
      "Conv_4.in2 baked [4] 0.01 0.01 0.01 0.01\n"
      "Conv_4.out0 activated 0.1 offset 128\n",
      "" },
    { "qdq_import/blocks.onnx", QG_QUANTIZERS_ONNX,
      "Relu_2.in0 activated [16] 0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25 "
      "0.25 0.25 0.25 0.25 0.25 0.25\n",
      "" },
    { "qdq_import/int4.onnx", QG_QUANTIZERS_ONNX,
      "MatMul_1.in1 baked [4] 1.0 2.0 3.0 4.0\n"
      "MatMul_1.out0 activated 0.5 offset 3\n",
      "" },
    { "qdq_import/float8.onnx", QG_QUANTIZERS_ONNX, "Relu_2.in0 activated 0.25\n", "" },
    { "qdq_import/fork.onnx", QG_QUANTIZERS_ONNX,
      "Relu_2.in0 activated 0.1 offset 3\n",
      STAYS("QuantizeLinear_3", "QuantizeLinear",
            "its result is an output of the network") },
    { "qdq_import/integers.onnx", QG_QUANTIZERS_ONNX,
      "Transpose_1.in0 activated 0.1 offset 128\n"
      "Transpose_1.out0 activated 0.1 offset 128\n",
      "" },
    { "openvino_import/conv.onnx", QG_QUANTIZERS_OPENVINO,
      "Conv_2.in0 activated 0.1\n"
      "Conv_2.in1 baked [4] 0.01 0.01 0.01 0.01\n"
      "Conv_2.out0 activated 0.1\n",
      "" },
    { "openvino_import/fork.onnx", QG_QUANTIZERS_OPENVINO,
      "Add_3.in0 activated 0.1\n"
      "Add_3.out0 activated 0.1\n"
      "Sigmoid_6.in0 activated 0.1\n",
      STAYS("FakeQuantize_2", "FakeQuantize",
              "its limits do not form a grid that contains 0") },
    { "openvino_import/dequantizes.onnx", QG_QUANTIZERS_OPENVINO, "",
      STAYS("FakeQuantize_0", "FakeQuantize",
            "its output limits differ from its input limits") },
    { "openvino_import/codes.onnx", QG_QUANTIZERS_OPENVINO,
      "Conv_3.in0 activated 0.1\n"
      "Conv_3.in1 baked [4] 0.1 0.2 0.3 0.4\n"
      "Conv_3.in2 baked 0.5\n"
      "Conv_3.out0 activated 0.1\n",
      "" },
    { "openvino_import/no_zero.onnx", QG_QUANTIZERS_OPENVINO, "",
      STAYS("FakeQuantize_0", "FakeQuantize",
            "its limits do not form a grid that contains 0") },
    { "openvino_import/two_levels.onnx", QG_QUANTIZERS_OPENVINO,
      "Relu_1.in0 activated 2.0\n", "" },
};
/* clang-format on */

static void fold_one(const seed *s)
{
    char warnings[1024] = "", path[128];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    qg_quant *q = NULL;
    char *text;
    ctx->registry = &qg_ops_registry;
    ctx->log = (qg_log){ keep_warning, warnings, QG_LOG_WARNING };
    (void)snprintf(path, sizeof path, "tests/fuzz/corpus/%s", s->file);
    assert_ok(ctx, qg_onnx_import(ctx, path, NULL, &g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    assert_ok(ctx, qg_quantizers_fold(g, s->which, "test", &q));
    assert_ok(ctx, qg_quant_text(q, QG_TQC_BRIEF, ctx->arena, &text));
    if (strcmp(text, s->records) != 0)
        fail_msg("%s:\n%s", s->file, text);
    assert_string_equal(warnings, s->warnings);
    assert_string_equal(q->backend->name, "imported from test");
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void each_form_becomes_a_record_or_stays(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        fold_one(&seeds[i]);
}

/* Integers become the floats that they stand for, under the name that they had. */
static void integer_weights_become_floats(void **state)
{
    (void)state;
    static const float want[] = { -0.4f, -0.3f, -0.4f, -0.2f, 0, 0.3f, 0.8f, 1.2f };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    qg_quant *q = NULL;
    ctx->registry = &qg_ops_registry;
    assert_ok(ctx,
              qg_onnx_import(ctx, "tests/fuzz/corpus/qdq_import/conv.onnx", NULL, &g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    assert_ok(ctx, qg_quantizers_fold(g, QG_QUANTIZERS_ONNX, "test", &q));
    const qg_value *w = qg_graph_value(g, "w");
    assert_non_null(w);
    for (int i = 0; i < 8; i++)
        assert_float_equal(w->constant->f32[i], want[i], 1e-6);
    assert_int_equal(g->node.n, 1);
    assert_int_equal(q->tqc.at[1]->scheme.axis, 0);
    assert_int_equal(q->tqc.at[2]->scheme.bits, 32);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(each_form_becomes_a_record_or_stays),
             cmocka_unit_test(integer_weights_become_floats))
