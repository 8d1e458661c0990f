/* Formats that are tables: lines and entries that are read, at the limits of what they
 * may have, and the words of those that are not; network of tests/support/tables.h. */
#include "tests/support/scratch.h"
#include "tests/support/tables.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "engine/formats/formats.h"
#include "engine/onnx/export.h"

typedef struct imported {
    const char *format, *file, *param;
    const char *records, *left; /* NULL left: it fails with the message `records` */
} imported;

#define HEAD "7767517\n4 4\nInput x 0 1 x\n"
#define NET                                                                            \
    HEAD "Convolution one 1 1 x c 0=4 1=1 6=8\nConvolution two 1 1 c d 0=4 6=16\n"
#define TEN "0000000000"
#define CSV "endpoint,state,policy,bits,qmin,qmax,scale,offset\n"
#define ONE_X(bits, symmetric, offset)                                                 \
    "{\"version\": \"1.0.0\", \"activation_encodings\": [{" ENTRY(                     \
        "x", "PER_TENSOR", bits, symmetric, "0.5", offset) "}]}"
#define OF_X(grid) "c.in0 activated T " grid " 0.5\ns.in1 activated T " grid " 0.5\n"
#define TYPED_OF(name, type, scale, more)                                              \
    "{\"version\": \"2.0.0\", \"encodings\": [{" TYPED(name, type, scale) more "}]}"
#define FOUR "[1, 2, 4, 8]"
#define AIMET(name, scales, offsets)                                                   \
    "{\"version\": \"1.0.0\", \"activation_encodings\": [], \"param_encodings\": ["    \
    "{\"name\": \"" name "\", \"enc_type\": \"PER_CHANNEL\", \"dtype\": \"INT\", "     \
    "\"bw\": 8, \"is_sym\": true, \"scale\": [" scales "], \"offset\": [" offsets      \
    "]}]}"
#define DATA_C(scale) "c.in0 activated T [-127, 127] 8 " scale "\n"

/* clang-format off */
static const imported readings[] = {
    { "ncnn-table", "c_param_0 2.0 8.0\nc 4.0\n", NULL,
      DATA_C("0.25") "c.in1 baked C0 [-127, 127] 8 0.5 0.5 0.125 0.125\n", "" },
    { "ncnn-table", "c_param_0 1 2 4 8\nc 4\n", NULL,
      DATA_C("0.25") "c.in1 baked C0 [-127, 127] 8 1 0.5 0.25 0.125\n", "" },
    { "ncnn-table", "\tc_param_0\t2 \r\n # nobody\n#c 1 2\nc  4", NULL,
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "c_param_0 2\nc 4\n\n \t\n", NULL,
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "d_param_0 2 4\nd 1\n", NULL,
      "line 1: d.in1: 2 scales do not fit", NULL },
    { "ncnn-table", "c_param_0 2 4 8\nc 1\n", NULL,
      "line 1: c.in1: 3 scales do not fit", NULL },
    { "ncnn-table", "c 1 2\n", NULL, "line 1: c.in0: 2 scales do not fit", NULL },
    { "ncnn-table", "c_param_0 2\nc 4\na 4\ns_param_0 1\nnobody 1\n", NULL,
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n",
      "s_param_0: names no float32 value of the model\n"
      "nobody: names no float32 value of the model\n"
      "a.in0: the layer has no quantized weight\n" },
    { "ncnn-table", "c_param_0 2\nc 4\nd_param_0 4\n", NULL,
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n",
      "d.in1: the layer's data have no entry\n" },
    { "ncnn-table", "c 4\n", NULL, "layer 'c': has a line for its data alone, expected "
      "'c_param_0', too", NULL },
    { "ncnn-table", "x 4\n", NULL, "none of its 1 entries is of the model: 'x' names "
      "no "
      "float32 value of the model; expected names as 'c', 'd', which the model has",
      NULL },
    { "ncnn-table", "c_param_0 2\n\nc 4\n", NULL,
      "line 3: has an empty line above it", NULL },
    /* A number has at most 64 characters. */
    { "ncnn-table", "c_param_0 2." TEN TEN TEN TEN TEN TEN "00\nc 4\n", NULL,
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "c_param_0 2." TEN TEN TEN TEN TEN TEN "000\nc 4\n", NULL,
      "line 1: '2." TEN TEN TEN "', expected a finite multiplier > 0", NULL },
    /* Layers of a .param file: by the value that they make, by name, by their place. */
    { "ncnn-table", "one_param_0 2 8\none 4\n", NET,
      DATA_C("0.25") "c.in1 baked C0 [-127, 127] 8 0.5 0.5 0.125 0.125\n", "" },
    { "ncnn-table", "c_param_0 2\nc 4\n", NET,
      "expected names as 'one', 'two', which", NULL },
    { "ncnn-table", "c_param_0 2\nc 4\n", HEAD "Convolution c 1 1 x k\n",
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "two_param_0 2\ntwo 4\n",
      HEAD "ConvolutionDepthWise one 1 1 x k 0=4 6=8\n"
      "Convolution two 1 1 k m 0=4 6=16\n",
      "d.in0 activated T [-127, 127] 8 0.25\nd.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "two_param_0 2\ntwo 4\n",
      HEAD "Convolution one 1 1 x k 0=4 6=8\nConvolution two 1 1 k m 0=4 6=15\n",
      "expected names as 'one', which the model has", NULL },
    { "ncnn-table", "one_param_0 2\none 4\n",
      HEAD "Convolution one 1 1 x k 0=3 6=8\nInnerProduct two 1 1 k m 0=4 2=16\n",
      "expected names as 'two', which the model has", NULL },
    { "ncnn-table", "one_param_0 2\none 4\n", HEAD "Convolution one 1 1 x k 0=4 6=8\n",
      "expected names as none, which the model has", NULL },
    { "ncnn-table", "c_param_0 2\nc 4\n", HEAD "Convolution c 1 2 x k m 0=4\r\n",
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "two_param_0 2\ntwo 4\n", HEAD "Convolution two 2 1 x y c 0=4\n",
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
    { "ncnn-table", "two_param_0 2\ntwo 4\n", HEAD "Convolution two 1 0 c 0=4\n",
      "expected names as none, which the model has", NULL },
    { "ncnn-table", "c 4\n", HEAD "Convolution c 1\n",
      "layer 'c' has no counts of blobs", NULL },
    { "ncnn-table", "c 4\n", HEAD "Convolution c x 1\n",
      "layer 'c' has no counts of bl", NULL },
    { "ncnn-table", "c 4\n", HEAD "Convolution c 1 x\n",
      "layer 'c' has no counts of bl", NULL },
    /* Lines may end as in Windows; other formats, by the kinds of places they name. */
    { "tensorrt-cache", "TRT-8601-EntropyCalibration2\r\na: 3f000000\r\n", NULL,
      "a.out0 activated T [-128, 127] 8 0.5\ns.in0 < a.out0\n", "" },
    /* Versions: major * 1000, since 9 * 10000. */
    { "tensorrt-cache", "TRT-5000-MinMaxCalibration\na: 3f000000\n", NULL,
      "a.out0 activated T [-128, 127] 8 0.5\ns.in0 < a.out0\n", "" },
    { "tensorrt-cache", "TRT-4999-MinMaxCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-09999-MinMaxCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-89999-MinMaxCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-90000-MinMaxCalibration\na: 3f000000\n", NULL,
      "a.out0 activated T [-128, 127] 8 0.5\ns.in0 < a.out0\n", "" },
    { "tensorrt-cache", "TRT-109999-MinMaxCalibration\na: 3f000000\n", NULL,
      "a.out0 activated T [-128, 127] 8 0.5\ns.in0 < a.out0\n", "" },
    { "tensorrt-cache", "TRT-110000-MinMaxCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-500-MinMaxCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-8601-MinimalCalibration\na: 3f000000\n", NULL,
      "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10", NULL },
    { "tensorrt-cache", "TRT-8601-EntropyCalibration2\nnobody: 3f000000\n", NULL,
      "expected names as 'x', 'c', 'd', which the model has", NULL },
    { "csv", CSV "d.out0,ACTIVATED,per-tensor linear asymmetric,8,0,255,1,255\n", NULL,
      "d.out0 activated T [0, 255] 8 1\np.in0 < d.out0\n", "" },
    { "csv", CSV "d.out0,INITIAL,per-tensor linear asymmetric,8,0,255,1,255\n", NULL,
      "", "" },
    { "csv", CSV "d.out0,ACTIVATED,per-tensor linear asymmetric,8,5,255,1,5\n", NULL,
      "d.out0 activated T [5, 255] 8 1\np.in0 < d.out0\n", "" },
    { "csv", CSV "d.out0,ACTIVATED,per-tensor linear asymmetric,8,0,255,1,256\n", NULL,
      "d.out0: offset 0 is 256, expected a code of the range", NULL },
    { "csv", CSV "d.out0,ACTIVATED,per-tensor linear asymmetric,8,5,255,1,4\n", NULL,
      "d.out0: offset 0 is 4, expected a code of the range", NULL },
    { "aimet", AIMET("w", "1, 2, 4, 8", "-128, -128, -128, -128"), NULL,
      "c.in1 baked C0 [-128, 127] 8 1 2 4 8\n", "" },
    { "aimet", AIMET("w", "1, 2", "-128, -128"), NULL,
      "c.in1 baked C1 [-128, 127] 8 1 2\n", "" },
    { "aimet", AIMET("v", "1, 2, 4, 8", "-128, -128, -128, -128"), NULL,
      "d.in1 baked C0 [-128, 127] 8 1 2 4 8\n", "" },
    { "aimet", ONE_X("8", "false", "-255"), NULL, OF_X("[0, 255] 8"), "" },
    { "aimet", ONE_X("8", "false", "0"), NULL, OF_X("[0, 255] 8"), "" },
    { "aimet", ONE_X("8", "false", "-256"), NULL, "has zero point 256, expected an",
      NULL },
    { "aimet", ONE_X("8", "false", "1"), NULL, "has zero point -1, expected an", NULL },
    { "aimet", ONE_X("8", "false", "-0.5"), NULL, "has zero point 0.5, expected an",
      NULL },
    { "aimet", ONE_X("2", "false", "-3"), NULL, OF_X("[0, 3] 2"), "" },
    { "aimet", ONE_X("1", "false", "0"), NULL, "has 1 bits, expected 2 to 32", NULL },
    { "aimet", ONE_X("32", "false", "0"), NULL, OF_X("[0, 4294967295] 32"), "" },
    { "aimet", ONE_X("33", "false", "0"), NULL, "has 33 bits, expected 2 to 32", NULL },
    { "aimet", ONE_X("8", "true", "-128"), NULL, OF_X("[-128, 127] 8"), "" },
    { "aimet", TYPED_OF("x", "uint2", "0.5", ""), NULL, OF_X("[0, 3] 2"), "" },
    { "aimet", TYPED_OF("x", "int32", "0.5", ""), NULL,
      OF_X("[-2147483648, 2147483647] 32"), "" },
    { "aimet", TYPED_OF("x", "int33", "0.5", ""), NULL, "has 33 bits, expected 2",
      NULL },
    { "aimet", TYPED_OF("x", "int", "0.5", ""), NULL, "has output_dtype int,", NULL },
    { "aimet", TYPED_OF("x", "int008", "0.5", ""), NULL, "has output_dtype int008,",
      NULL },
    { "aimet", TYPED_OF("x", "float8e5m2", "0.5", ""), NULL,
      OF_X("[-57344, 57344] 8"), "" },
    { "aimet", TYPED_OF("x", "int8", "0.5", ", \"y_zero_point\": 127"), NULL,
      OF_X("[-128, 127] 8"), "" },
    { "aimet", TYPED_OF("x", "int8", "0.5", ", \"y_zero_point\": 128"), NULL,
      "has zero point 128, expected an integer in [-128, 127]", NULL },
    { "aimet", TYPED_OF("x", "int8", "0.5", ", \"y_zero_point\": -129"), NULL,
      "has zero point -129, expected", NULL },
    { "aimet", TYPED_OF("x", "int8", "0.5", ", \"y_zero_point\": [0, 0]"), NULL,
      "has 2 zero points for 1 scales, expected as many", NULL },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": -4"), NULL,
      "c.in1 baked C0 [-128, 127] 8 1 2 4 8\n", "" },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": -5"), NULL,
      "c.in1: 4 scales do not fit", NULL },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": -6"), NULL,
      "has axis -2 and block_size 0, expected an axis of the tensor", NULL },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": 8"), NULL,
      "has axis 8 and block_size 0, expected an axis of the tensor", NULL },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": 1, \"block_size\": -1"), NULL,
      "has axis 1 and block_size -1, expected an axis of the tensor", NULL },
    { "aimet", TYPED_OF("w", "int8", FOUR, ", \"axis\": 1, \"block_size\": 2"), NULL,
      "c.in1 baked T [-128, 127] 8 1 2 4 8\n", "" },
    { "aimet", AIMET("w", "1, 2, 3", "-128, -128, -128"), NULL,
      "c.in1: 3 scales do not fit float32[4,2,1,1]", NULL },
    { "ncnn-table", "c 4\n", "7767518\n", "does not begin with 7767517", NULL },
    { "ncnn-table", "c 4\n", "7767517 \n", "does not begin with 7767517", NULL },
    { "ncnn-table", "c_param_0 2\nc 4\n", "7767517\r\n1 1\r\nConvolution c 1 1 x c\r\n",
      DATA_C("0.25") "c.in1 baked T [-127, 127] 8 0.5\n", "" },
};
/* clang-format on */

static const char *record_text(qg_ctx *ctx, const qg_quant *q)
{
    const char *text = "";
    char at[QG_ENDPOINT_TEXT], lead[QG_ENDPOINT_TEXT], axis[16];
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        qg_qparam p = qg_tqc_param(t);
        if (t->state == QG_TQC_OVERLAPPED) {
            text = qg_arena_printf(ctx->arena, "%s%s < %s\n", text, qg_tqc_text(t, at),
                                   qg_tqc_text(qg_tqc_root(t), lead));
            continue;
        }
        (void)snprintf(axis, sizeof axis, "C%d", t->scheme.axis);
        text = qg_arena_printf(
            ctx->arena, "%s%s %s %s [%lld, %lld] %u", text, qg_tqc_text(t, at),
            qg_tqc_state_word(t->state), t->scheme.policy & QG_PER_CHANNEL ? axis : "T",
            (long long)t->scheme.qmin, (long long)t->scheme.qmax, t->scheme.bits);
        for (size_t c = 0; c < p.n; c++)
            text = qg_arena_printf(ctx->arena, "%s %g", text, (double)p.scale[c]);
        text = qg_arena_printf(ctx->arena, "%s\n", text);
    }
    return text;
}

static int warned; /* warnings of one import */

static void count_warning(void *ud, enum qg_log_level level, const char *text)
{
    (void)ud;
    warned += level == QG_LOG_WARNING && strstr(text, " left out, '") != NULL;
}

/* With --strict nothing may be left out. */
static void assert_strict(qg_ctx *ctx, qg_import i, const imported *x)
{
    i.strict = true;
    i.graph = NULL;
    i.quant = NULL;
    qg_status s = qg_format_import(&i, x->format);
    if (*x->left)
        assert_fails(ctx, s, QG_EUNSUPPORTED, "expected none with --strict");
    else
        assert_ok(ctx, s);
    if (s == QG_OK)
        qg_graph_free(i.graph);
}

static void import_one(const imported *x, const char *folder, const char *model)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    ctx->registry = &qg_ops_registry;
    qg_import i = { .ctx = ctx,
                    .path = table_file(ctx, folder, "file.in", x->file),
                    .model = model };
    if (x->param)
        i.names = table_file(ctx, folder, "net.param", x->param);
    warned = 0;
    ctx->log = (qg_log){ count_warning, NULL, QG_LOG_WARNING };
    qg_status s = qg_format_import(&i, x->format);
    if (!x->left) {
        if (s == QG_OK || !strstr(qg_ctx_message(ctx), x->records))
            fail_msg("%s: %s, expected %s", x->file, qg_ctx_message(ctx), x->records);
        qg_ctx_free(ctx);
        return;
    }
    assert_ok(ctx, s);
    const char *text = record_text(ctx, i.quant), *left = "";
    const char *last = NULL; /* in these rows, entries with one reason follow another */
    for (size_t k = 0; k < i.left_out.n; k++) {
        warned -= last != i.left_out.at[k].why;
        last = i.left_out.at[k].why;
        left = qg_arena_printf(ctx->arena, "%s%s: %s\n", left, i.left_out.at[k].entry,
                               i.left_out.at[k].why);
    }
    assert_int_equal(warned, 0);
    if (strcmp(text, x->records) != 0 || strcmp(left, x->left) != 0)
        fail_msg("%s:\n%s%s, expected\n%s%s", x->file, text, left, x->records, x->left);
    qg_graph_free(i.graph);
    assert_strict(
        ctx,
        (qg_import){ .ctx = ctx, .path = i.path, .model = model, .names = i.names }, x);
    qg_ctx_free(ctx);
}

static void each_line_is_read(void **state)
{
    char path[SCRATCH_PATH];
    qg_ctx *ctx = *state;
    qg_graph *g = table_graph(ctx);
    const qg_export_options o = { 0 };
    assert_int_equal(mkdir(scratch_path(path, "lines"), 0700), 0);
    const char *model = qg_path_join(ctx->arena, path, "m.onnx");
    assert_ok(ctx, qg_onnx_export(ctx, g, model, &o));
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        import_one(&readings[i], path, model);
    assert_int_equal(scratch_remove(path), 0);
    qg_graph_free(g);
}

QG_TEST_MAIN(WITH_CTX(each_line_is_read))
