/* The rows of requant.h: the behaviour of each runtime, and its source.
 * (ORDER: by runtime; within a runtime the first row that matches wins.) */
#include "engine/number/requant.h"

#include <assert.h>
#include <string.h>

#define USE(id) (UINT64_C(1) << QG_USE_##id)
#define CONVS   (USE(CONV) | USE(CONV_ONE))
#define DENSES  (USE(DENSE) | USE(DENSE_CHANNEL))
#define EVERY   ((UINT64_C(1) << QG_NUSE) - 1)

#define LITERT "tests/data/vectors/litert_q8.json, ops.json: LiteRT 2.3.0 run"
/* No case of ops.json has a factor below 1/2, where alone this row differs from the
 * reference; docs/evidence/integers.md measured 5e4 outputs. */
#define UP_QUANTIZE "docs/evidence/integers.md#tflite-and-litert"
#define CMSIS       "docs/evidence/integers.md#tflite-and-litert"
#define OLD_FC      "tests/data/vectors/ops.json: FULLY_CONNECTED of LiteRT before 1.3"
#define GEMM        "tests/data/vectors/tflite_gemmlowp.json: reference kernels run"
#define ORT         "tests/data/vectors/ort_qlinear.json: onnxruntime 1.31.1 run"
#define XNN         "tests/data/vectors/xnnpack_q8.json: XNNPACK of 2022-02-16 run"

/* One row; the columns are {runtime, isa, uses, scheme, factor, zero, source}. */
#define ROW(name, set, use, s, f, z, from)                                             \
    {                                                                                  \
        .runtime = name, .isa = set, .uses = use, .scheme = QG_SCHEME_##s,             \
        .factor = QG_FACTOR_##f, .zero = QG_ZERO_##z, .accumulator = 32,               \
        .source = from                                                                 \
    }

/* clang-format off */
static const qg_requant_rule rows[] = {
    ROW("tflite-reference", "any", CONVS, FIX_DOUBLE, DOUBLE, AFTER, LITERT),
    ROW("tflite-reference", "any", DENSES, DOUBLE_AWAY, DOUBLE, AFTER, LITERT),
    ROW("tflite-reference", "any", USE(MULTIPLY), FIX_DOUBLE, F32, AFTER, LITERT),
    ROW("tflite-reference", "any", USE(RESCALE), FIX_DOUBLE, DOUBLE, AFTER, LITERT),

    ROW("tflite-integer-fc", "any", USE(DENSE), FIX_DOUBLE, F32_PRODUCT, AFTER, OLD_FC),
    ROW("tflite-integer-fc", "any", USE(DENSE_CHANNEL), FIX_DOUBLE, DOUBLE,
        AFTER, OLD_FC),

    ROW("tflite-single", "any", USE(DENSE), FIX_SINGLE, F32_PRODUCT, AFTER, GEMM),
    ROW("tflite-single", "any", EVERY, FIX_SINGLE, DOUBLE, AFTER, GEMM),

    ROW("tflite-builtin", "x86-64", CONVS, FIX_DOUBLE_UP, DOUBLE, AFTER, LITERT),
    ROW("tflite-builtin", "x86-64", USE(DENSE), FIX_DOUBLE_UP, F32_PRODUCT,
        AFTER, LITERT),
    ROW("tflite-builtin", "x86-64", USE(DENSE_CHANNEL), FIX_DOUBLE_UP, DOUBLE,
        AFTER, LITERT),
    ROW("tflite-builtin", "aarch64", CONVS, FIX_SINGLE, DOUBLE, AFTER, LITERT),
    ROW("tflite-builtin", "aarch64", USE(DENSE), FIX_SINGLE, F32_PRODUCT,
        AFTER, LITERT),
    ROW("tflite-builtin", "aarch64", USE(DENSE_CHANNEL), FIX_SINGLE, DOUBLE,
        AFTER, LITERT),
    ROW("tflite-builtin", "any", USE(MULTIPLY), FIX_DOUBLE, F32, AFTER, LITERT),
    ROW("tflite-builtin", "any", USE(RESCALE), FIX_DOUBLE_UP, DOUBLE, AFTER,
        UP_QUANTIZE),

    ROW("tflite-xnnpack", "any", CONVS | DENSES, FLOAT_RNE, F32, AFTER, LITERT),
    ROW("tflite-xnnpack", "x86-64", USE(MULTIPLY), FLOAT_RNE, F32, AFTER, LITERT),
    ROW("tflite-xnnpack", "aarch64", USE(MULTIPLY), FIX_MANTISSA, F32, AFTER, LITERT),
    ROW("tflite-xnnpack", "any", USE(RESCALE), FIX_EIGHTH, F32, AFTER, LITERT),

    ROW("tflite-micro", "any", USE(DENSE), FIX_DOUBLE, F32_PRODUCT, AFTER, GEMM),
    ROW("tflite-micro", "any", EVERY, FIX_DOUBLE, DOUBLE, AFTER, GEMM),
    ROW("cmsis-nn", "any", USE(DENSE), FIX_DOUBLE, F32_PRODUCT, AFTER,
        CMSIS),
    ROW("cmsis-nn", "any", EVERY, FIX_DOUBLE, DOUBLE, AFTER, CMSIS),
    { .runtime = "cmsis-nn-s16", .isa = "any", .uses = CONVS | DENSES,
      .scheme = QG_SCHEME_FIX_REDUCED, .factor = QG_FACTOR_DOUBLE, .accumulator = 64,
      .source = CMSIS " [read]" },

    ROW("onnxruntime", "any", CONVS | DENSES, FLOAT_RNE, F32, AFTER, ORT),
    ROW("onnxruntime", "any", USE(GLOBAL_POOL), FLOAT_RNE, MEAN, AFTER, ORT),
    ROW("onnxruntime", "any", USE(RESCALE), FLOAT_RNE, THEN_DIVIDE, AFTER, ORT),
    ROW("onnxruntime", "x86-64", USE(MULTIPLY), FLOAT_RNE, F32, INSIDE, ORT),
    ROW("onnxruntime", "x86-64-avx2", USE(MULTIPLY), FLOAT_RNE, F32, INSIDE, ORT),
    ROW("onnxruntime", "aarch64", USE(MULTIPLY), FLOAT_RNE, F32, FUSED, ORT),
    ROW("onnx-reference", "any", CONVS | DENSES, FLOAT_RNE, F32, INSIDE,
        "tests/data/vectors/backend_requant.json: onnx 1.23.2 run"),

    ROW("xnnpack", "any", USE(CONV), FLOAT_RNE, F32, AFTER, XNN),
    ROW("xnnpack", "x86-64", USE(GLOBAL_POOL), FLOAT_RNE, MEAN, AFTER, XNN),
    ROW("xnnpack", "x86-64", EVERY, FLOAT_RNE, F32, AFTER, XNN),
    ROW("xnnpack", "aarch64", USE(GLOBAL_POOL), FIX_MANTISSA, MEAN, AFTER, XNN),
    ROW("xnnpack", "aarch64", USE(CONV_ONE) | DENSES | USE(MULTIPLY),
        FIX_MANTISSA, F32, AFTER, XNN),

    { .runtime = "ncnn", .isa = "any", .uses = CONVS | DENSES,
      .scheme = QG_SCHEME_FLOAT_AWAY, .factor = QG_FACTOR_THEN_MULTIPLY,
      .symmetric = true, .accumulator = 32,
      .source = "tests/data/vectors/backend_requant.json: ncnn 1.0.20261020 run" },

    ROW("openvino", "any", CONVS | DENSES, FLOAT_RNE, THEN_FMA, INSIDE,
        "tests/data/vectors/openvino_fq.json: OpenVINO 2026.4.1 CPU plugin run"),
    ROW("tensorrt", "any", CONVS | DENSES, FLOAT_RNE, THEN_DIVIDE, AFTER,
        "docs/evidence/integers.md#tensorrt, from documentation"),
    ROW("power-of-two", "any", CONVS | DENSES | USE(RESCALE), POW2_SHIFT, DOUBLE, AFTER,
        "docs/evidence/grids.md#power-of-two: NXP and FPGA targets"),
};
/* clang-format on */

const qg_requant_rule *qg_requant_rules(size_t *n)
{
    *n = sizeof rows / sizeof rows[0];
    return rows;
}

const qg_requant_rule *qg_requant_find(const char *runtime, const char *isa,
                                       qg_kernel_use use)
{
    assert((unsigned)use < QG_NUSE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool here = strcmp(rows[i].isa, "any") == 0 || strcmp(rows[i].isa, isa) == 0;
        if (here && (rows[i].uses >> use & 1) && strcmp(rows[i].runtime, runtime) == 0)
            return &rows[i];
    }
    return NULL;
}
