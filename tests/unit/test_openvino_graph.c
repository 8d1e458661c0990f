/* formats/openvino/graph.h: how a constant stands in the files of OpenVINO, by its
 * grid. */
#include "tests/support/test.h"

#include "engine/formats/formats.h"
#include "engine/formats/openvino/graph.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static const char network[] = "graph \"g\" {\n"
                              "  opset 11\n"
                              "  x = input f32[1,2]\n"
                              "  w = const f32[2,2] [0.0, 0.3, -1.0, 9.0]\n"
                              "  y = MatMul m (x, w)\n"
                              "  output y\n"
                              "}\n";

/* One weight, scale 0.1 per tensor or 0.1, 0.2 per column. */
typedef struct form {
    uint16_t policy; /* beside LINEAR */
    uint8_t bits;
    int64_t qmin, qmax;
    int32_t offset;
    const char *weights;
    const char *want; /* text of the graph behind its input, then of what is lost */
} form;

enum { TENSOR = QG_PER_TENSOR | QG_SYMMETRIC, SHIFTED = QG_PER_TENSOR | QG_ASYMMETRIC };

/* clang-format off */
#define REST                                                                           \
    "  y float32[1,2] = MatMul m(x, w/rounded)\n"                                      \
    "  output y\n"                                                                     \
    "}\n"
#define CODES(type, w, dims, scale, zero, axis)                                        \
    "  w = const " type "[2,2] [" w "]\n"                                              \
    "  m/fq_weights_1/scale = const float32[" dims "] [" scale "]\n"                   \
    "  m/fq_weights_1/zero_point = const " type "[" dims "] [" zero "]\n"              \
    "  w/rounded float32[2,2] = DequantizeLinear@13 m/fq_weights_1(w, "                \
    "m/fq_weights_1/scale, m/fq_weights_1/zero_point)" axis "\n" REST
#define FAKE(w, low, high, levels)                                                     \
    "  w = const float32[2,2] [" w "]\n"                                               \
    "  m/fq_weights_1/low = const float32[] [" low "]\n"                               \
    "  m/fq_weights_1/high = const float32[] [" high "]\n"                             \
    "  w/rounded float32[2,2] = org.openvinotoolkit::FakeQuantize m/fq_weights_1(w, "  \
    "m/fq_weights_1/low, m/fq_weights_1/high, m/fq_weights_1/low, "                    \
    "m/fq_weights_1/high) levels=" levels "\n" REST
static const form forms[] = {
    { TENSOR, 8, -128, 127, 0, "int",
      CODES("int8", "0, 3, -10, 90", "", "0.1", "0", "") },
    { QG_PER_CHANNEL | QG_SYMMETRIC, 8, -127, 127, 0, "int",
      CODES("int8", "0, 1, -10, 45", "2", "0.1, 0.2", "0, 0", " axis=1")
      "codes [-127, 127] of 8 bits are read back as [-128, 127] of 8\n" },
    { TENSOR, 4, -8, 7, 0, "int",
      CODES("int8", "0, 3, -8, 7", "", "0.1", "0", "")
      "codes [-8, 7] of 4 bits are read back as [-128, 127] of 8\n" },
    { SHIFTED, 8, 0, 255, 3, "int",
      CODES("uint8", "3, 6, 0, 93", "", "0.1", "3", "") },
    { SHIFTED, 8, 0, 255, 128, "int",
      CODES("int8", "0, 3, -10, 90", "", "0.1", "0", "")
      "codes [0, 255] of 8 bits are read back as [-128, 127] of 8\n" },
    { TENSOR, 16, -32768, 32767, 0, "int",
      FAKE("0.0, 0.3, -1.0, 9.0", "-3276.8", "3276.7", "65536") },
    { TENSOR, 7, -64, 63, 0, "float",
      FAKE("0.0, 0.3, -1.0, 6.3", "-12.8", "12.7", "256")
      "codes [-64, 63] of 7 bits are read back as [-128, 127] of 8\n" },
};
/* clang-format on */

/* The graph's text behind its input, then what is lost. */
static char *said(qg_ctx *ctx, const form *f)
{
    static const qg_backend backend = { .name = "test", .placement = "openvino" };
    const qg_text_source text = { NULL, network, sizeof network - 1, NULL };
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_WEIGHTS] = f->weights };
    const float scale[] = { 0.1f, 0.2f };
    const int32_t offset[] = { f->offset, f->offset };
    bool channel = f->policy & QG_PER_CHANNEL;
    qg_scheme s = { .policy = (uint16_t)(QG_LINEAR | f->policy),
                    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
                    .bits = f->bits,
                    .axis = channel ? 1 : -1,
                    .qmin = f->qmin,
                    .qmax = f->qmax };
    qg_export e = { .ctx = ctx };
    qg_graph *g = NULL;
    qg_quant *q = NULL;
    qg_tqc *t;
    size_t n;
    char *out;
    assert_ok(ctx, qg_text_parse(ctx, &text, &g));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    assert_ok(ctx, qg_quant_new(g, &backend, &q));
    assert_ok(ctx, qg_quant_add(q, g->node.at[0], false, 1, &s, &t));
    assert_ok(ctx, qg_tqc_set_param(q, t, channel ? 2 : 1, scale, offset));
    assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_BAKED));
    e.quant = q;
    assert_ok(ctx, qg_export_begin(&e, "openvino-ir", option));
    assert_ok(ctx, qg_openvino_graph(&e));
    assert_ok(ctx, qg_text_print(e.graph, NULL, ctx->arena, &out, &n));
    out = strstr(out, "  w = ");
    assert_non_null(out);
    for (size_t i = 0; i < e.loss.n; i++)
        out = qg_arena_printf(ctx->arena, "%s%s\n", out, e.loss.at[i].text);
    qg_export_end(&e);
    qg_graph_free(g);
    return out;
}

static void constants_by_their_grid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        ctx->registry = &qg_ops_registry;
        assert_string_equal(said(ctx, &forms[i]), forms[i].want);
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(cmocka_unit_test(constants_by_their_grid))
