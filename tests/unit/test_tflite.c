/* formats/tflite on the seeds of its fuzzer: nodes and records of each network, and the
 * message for files that are cut, changed or of another kind. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/file.h"
#include "engine/formats/tflite/tflite.h"
#include "engine/quant/tqc_text.h"
#include "ops/families.h"

static qg_ctx *new_ctx(void)
{
    if (!QG_HAVE_TFLITE)
        skip();
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    ctx->registry = &qg_ops_registry;
    return ctx;
}

static qg_status read_seed(qg_ctx *ctx, const char *name, qg_graph **g, qg_quant **q)
{
    char path[128];
    qg_file f;
    (void)snprintf(path, sizeof path, "tests/%s.tflite", name);
    assert_ok(ctx, qg_file_open(ctx, "test", path, SIZE_MAX, &f));
    qg_status s = qg_tflite_read(ctx, f.bytes, f.size, g, q);
    qg_file_close(&f);
    return s;
}

/* clang-format off */
static const struct {
    const char *name, *records; /* brief text */
} networks[] = {
    { "fuzz/corpus/tflite/conv",
      "DequantizeLinear_2.out0 activated 0.5 offset 3\n"
      "Transpose_4.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Transpose_4.out0 overlapped -> DequantizeLinear_2.out0\n"
      "Conv_6.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Conv_6.in1 baked [4] 0.1 0.2 0.3 0.4\n"
      "Conv_6.in2 baked [4] 0.05 0.1 0.15 0.2\n"
      "Conv_6.out0 overlapped -> Relu_7.out0\n"
      "Relu_7.in0 overlapped -> Relu_7.out0\n"
      "Relu_7.out0 activated 2.0 offset -128\n"
      "Conv_9.in0 overlapped -> Relu_7.out0\n"
      "Conv_9.in1 baked [8] 0.1 0.1 0.1 0.1 0.1 0.1 0.1 0.1\n"
      "Conv_9.in2 baked [8] 0.2 0.2 0.2 0.2 0.2 0.2 0.2 0.2\n"
      "Conv_9.out0 overlapped -> Clip_10.out0\n"
      "Clip_10.in0 overlapped -> Clip_10.out0\n"
      "Clip_10.out0 activated 0.0234375 offset -128\n"
      "AveragePool_11.in0 overlapped -> Clip_10.out0\n"
      "AveragePool_11.out0 activated 0.0234375 offset -128\n"
      "Transpose_13.in0 overlapped -> AveragePool_11.out0\n"
      "Transpose_13.out0 overlapped -> AveragePool_11.out0\n"
      "Reshape_14.in0 overlapped -> AveragePool_11.out0\n"
      "Reshape_14.out0 activated 0.0234375 offset -128\n"
      "Gemm_16.in0 overlapped -> Reshape_14.out0\n"
      "Gemm_16.in1 baked 0.02\n"
      "Gemm_16.out0 overlapped -> Clip_19.out0\n"
      "Clip_19.in0 overlapped -> Clip_19.out0\n"
      "Clip_19.out0 activated 0.015625\n"
      "Softmax_21.in0 overlapped -> Clip_19.out0\n"
      "Softmax_21.out0 activated 0.00390625 offset -128\n"
      "QuantizeLinear_24.in0 overlapped -> Softmax_21.out0\n" },
    { "fuzz/corpus/tflite/floats",
      "Identity_5.out0 activated 0.023529412 offset -128\n"
      "MaxPool_7.in0 overlapped -> Identity_5.out0\n"
      "MaxPool_7.out0 activated 0.023529412 offset -128\n"
      "Identity_8.in0 overlapped -> MaxPool_7.out0\n"
      "Transpose_15.in0 overlapped -> MaxPool_7.out0\n"
      "Transpose_15.out0 overlapped -> MaxPool_7.out0\n"
      "QuantizeLinear_17.in0 overlapped -> MaxPool_7.out0\n" },
    { "fuzz/corpus/tflite/int16",
      "DequantizeLinear_2.out0 activated 0.0009765625\n"
      "Gemm_5.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Gemm_5.in1 baked 0.015625\n"
      "Gemm_5.in2 baked 0.000015258789\n"
      "Gemm_5.out0 overlapped -> Relu_6.out0\n"
      "Relu_6.in0 overlapped -> Relu_6.out0\n"
      "Relu_6.out0 activated 0.0009765625\n"
      "QuantizeLinear_9.in0 overlapped -> Relu_6.out0\n" },
    { "fuzz/corpus/tflite/wide_bias",
      "DequantizeLinear_2.out0 activated 0.5 offset 3\n"
      "Transpose_4.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Transpose_4.out0 overlapped -> DequantizeLinear_2.out0\n"
      "Conv_9.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Conv_9.in1 baked [2] 9.536743e-7 2.861023e-6\n"
      "Conv_9.out0 activated 8.0 offset -100\n"
      "Transpose_11.in0 overlapped -> Conv_9.out0\n"
      "Transpose_11.out0 overlapped -> Conv_9.out0\n"
      "QuantizeLinear_14.in0 overlapped -> Conv_9.out0\n" },
    { "fuzz/corpus/tflite/transposed",
      "DequantizeLinear_2.out0 activated 0.5 offset 3\n"
      "Transpose_4.in0 overlapped -> DequantizeLinear_2.out0\n"
      "Transpose_4.out0 overlapped -> DequantizeLinear_2.out0\n"
      "ConvTranspose_5.in0 overlapped -> DequantizeLinear_2.out0\n"
      "ConvTranspose_5.in1 baked [2] 0.1 0.2\n"
      "ConvTranspose_5.in2 baked [2] 0.05 0.1\n"
      "ConvTranspose_5.out0 activated 0.5 offset 3\n"
      "Transpose_7.in0 overlapped -> ConvTranspose_5.out0\n"
      "Transpose_7.out0 overlapped -> ConvTranspose_5.out0\n"
      "Reshape_9.in0 overlapped -> ConvTranspose_5.out0\n"
      "Reshape_9.out0 overlapped -> ConvTranspose_5.out0\n"
      "Gemm_11.in0 overlapped -> ConvTranspose_5.out0\n"
      "Gemm_11.in1 baked [3] 0.1 0.2 0.1\n"
      "Gemm_11.out0 activated 0.5 offset 3\n"
      "Reshape_13.in0 overlapped -> Gemm_11.out0\n"
      "Reshape_13.out0 overlapped -> Gemm_11.out0\n"
      "MatMul_14.in0 overlapped -> Gemm_11.out0\n"
      "MatMul_14.in1 baked 0.5\n"
      "MatMul_14.out0 activated 0.5 offset 3\n"
      "Transpose_16.in0 overlapped -> MatMul_14.out0\n"
      "Transpose_16.out0 overlapped -> MatMul_14.out0\n"
      "MatMul_18.in0 overlapped -> MatMul_14.out0\n"
      "MatMul_18.in1 overlapped -> MatMul_14.out0\n"
      "MatMul_18.out0 activated 0.5 offset 3\n"
      "QuantizeLinear_21.in0 overlapped -> MatMul_18.out0\n" },
};
/* clang-format on */

static void grids_become_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        qg_ctx *ctx = new_ctx();
        qg_graph *g;
        qg_quant *q;
        char *text;
        assert_ok(ctx, read_seed(ctx, networks[i].name, &g, &q));
        assert_ok(ctx, qg_quant_text(q, QG_TQC_BRIEF, ctx->arena, &text));
        if (strcmp(text, networks[i].records) != 0)
            fail_msg("%s:\n%s", networks[i].name, text);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

/* Dims O,H,W,I of the file become O,I,H,W. */
static void weights_are_ordered_for_onnx(void **state)
{
    (void)state;
    qg_ctx *ctx = new_ctx();
    qg_graph *g;
    qg_quant *q;
    assert_ok(ctx, read_seed(ctx, "fuzz/corpus/tflite/floats", &g, &q));
    static const float want[] = { 1, -1, 0.5f, 2 };
    const qg_value *w = qg_graph_value(g, "w"), *b = qg_graph_value(g, "b");
    assert_non_null(w);
    assert_memory_equal(w->constant->f32, want, sizeof want);
    assert_string_equal(qg_tensor_text(w->constant, (char[QG_SHAPE_TEXT]){ 0 }),
                        "float32[2,2,1,1]");
    assert_cmp_f64(b->constant->f32[1], ==, -1);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

/* The interface has the names, types and dims of the file. */
static void the_interface_is_that_of_the_file(void **state)
{
    (void)state;
    char text[QG_SHAPE_TEXT];
    qg_ctx *ctx = new_ctx();
    qg_graph *g;
    qg_quant *q;
    assert_ok(ctx, read_seed(ctx, "data/tflite/kws_int8", &g, &q));
    assert_cmp_int(g->input.n, ==, 1);
    assert_cmp_int(g->output.n, ==, 1);
    assert_string_equal(g->input.at[0]->name, "input_1");
    assert_string_equal(qg_tensor_text(&g->input.at[0]->type, text), "int8[1,49,10,1]");
    assert_string_equal(g->output.at[0]->name, "Identity");
    assert_string_equal(qg_tensor_text(&g->output.at[0]->type, text), "int8[1,12]");
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

/* Codes that float32 does not keep are the int32 input of a DequantizeLinear. */
static void wide_codes_are_kept(void **state)
{
    (void)state;
    qg_ctx *ctx = new_ctx();
    qg_graph *g;
    qg_quant *q;
    assert_ok(ctx, read_seed(ctx, "fuzz/corpus/tflite/wide_bias", &g, &q));
    const qg_value *b = qg_graph_value(g, "b");
    assert_non_null(b);
    assert_non_null(b->constant);
    assert_cmp_int(b->constant->dtype, ==, QG_I32);
    assert_cmp_int(b->constant->i32[0], ==, (1 << 30) + 1);
    assert_cmp_int(b->constant->i32[1], ==, -(1 << 29) - 3);
    assert_string_equal(b->use.at[0].node->op->name, "DequantizeLinear");
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

/* Every shorter file is refused, and one with another identifier. */
static void cut_files_are_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = new_ctx();
    qg_graph *g;
    qg_quant *q;
    qg_file f;
    assert_ok(ctx, qg_file_open(ctx, "test", "tests/fuzz/corpus/tflite/int16.tflite",
                                SIZE_MAX, &f));
    for (size_t n = 0; n < f.size; n++) {
        unsigned char *bytes = malloc(n ? n : 1);
        memcpy(bytes, f.bytes, n);
        qg_status s = qg_tflite_read(ctx, bytes, n, &g, &q);
        free(bytes);
        if (s != QG_EPARSE)
            fail_msg("%zu of %zu bytes: %s: %s", n, f.size, qg_status_name(s),
                     qg_ctx_message(ctx));
    }
    unsigned char *bytes = malloc(f.size);
    memcpy(bytes, f.bytes, f.size);
    bytes[4] = 'X';
    assert_fails(ctx, qg_tflite_read(ctx, bytes, f.size, &g, &q), QG_EPARSE,
                 "the identifier TFL3 is wrong");
    free(bytes);
    qg_file_close(&f);
    qg_ctx_free(ctx);
}

/* Every byte of every seed in turn: the file is read, or refused with a message that
 * does not blame the memory. */
static void changed_bytes_are_read_or_refused(void **state)
{
    (void)state;
    static const char *const seed[] = { "conv",  "floats",  "functions",  "int16",
                                        "moves", "resized", "transposed", "wide_bias" };
    static const unsigned char flip[] = { 0x01, 0x80, 0xff };
    size_t read = 0, refused = 0;
    for (size_t i = 0; i < sizeof seed / sizeof seed[0]; i++) {
        qg_ctx *ctx = new_ctx();
        char path[128];
        qg_file f;
        (void)snprintf(path, sizeof path, "tests/fuzz/corpus/tflite/%s.tflite",
                       seed[i]);
        assert_ok(ctx, qg_file_open(ctx, "test", path, SIZE_MAX, &f));
        unsigned char *bytes = malloc(f.size);
        memcpy(bytes, f.bytes, f.size);
        for (size_t k = 0; k < f.size * sizeof flip; k++) {
            qg_graph *g = NULL;
            qg_quant *q = NULL;
            size_t at = k / sizeof flip;
            bytes[at] ^= flip[k % sizeof flip];
            qg_status s = qg_tflite_read(ctx, bytes, f.size, &g, &q);
            bytes[at] ^= flip[k % sizeof flip];
            if (s == QG_OK)
                qg_graph_free(g);
            else if (s == QG_ENOMEM || strlen(qg_ctx_message(ctx)) < 12)
                fail_msg("%s, byte %zu ^ %#x: %s: '%s'", path, at,
                         flip[k % sizeof flip], qg_status_name(s), qg_ctx_message(ctx));
            read += s == QG_OK;
            refused += s != QG_OK;
        }
        free(bytes);
        qg_file_close(&f);
        qg_ctx_free(ctx);
    }
    printf("%zu files read, %zu refused\n", read, refused);
    assert_cmp_int(read, >, 1000);
    assert_cmp_int(refused, >, 1000);
}

QG_TEST_MAIN(cmocka_unit_test(grids_become_records),
             cmocka_unit_test(weights_are_ordered_for_onnx),
             cmocka_unit_test(the_interface_is_that_of_the_file),
             cmocka_unit_test(wide_codes_are_kept),
             cmocka_unit_test(cut_files_are_refused),
             cmocka_unit_test(changed_bytes_are_read_or_refused))
