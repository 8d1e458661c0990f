/* Formats that are tables, on one small network whose scales are powers of two: the
 * bytes of each file and every loss, by hand from the header comment of the format. */
#include "tests/support/scratch.h"
#include "tests/support/tables.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "engine/core/json.h"
#include "engine/formats/formats.h"
#include "engine/quant/quirk.h"

/* endpoint, granularity with axis, symmetric or not, bits, limits, scales, offsets; or
 * "endpoint < dominator".  Constants are baked. */
static const char all[] = "c.in0 T S 8 -127 127 0.5\n"
                          "c.in1 C0 S 8 -127 127 0.25,0.5,0.125,0.0625\n"
                          "c.out0 T S 8 -127 127 0.25\n"
                          "d.in0 < c.out0\n"
                          "d.in1 C0 S 8 -127 127 1,2,4,0.5\n"
                          "d.out0 T A 8 0 255 0.125 3\n"
                          "p.in0 < d.out0\n"
                          "a.in0 < d.out0\n"
                          "a.out0 T A 8 -128 127 1.5 -5\n"
                          "s.in0 < a.out0\n"
                          "s.in1 T S 8 -127 127 0.5\n"
                          "s.out0 T S 8 -127 127 2\n";

static const qg_backend backend = { .name = "test-int8" };
static const qg_snapshot_info no_info;

/* --- records from text --- */

/* "c.in1" */
static qg_endpoint place_of(qg_graph *g, const char *word)
{
    char name[2] = { word[0] };
    qg_node *n = qg_graph_node(g, name);
    bool is_output = word[2] == 'o';
    assert_non_null(n);
    uint32_t slot = (uint32_t)atoi(word + (is_output ? 5 : 4));
    return is_output ? qg_output_at(n, slot) : qg_input_at(n, slot);
}

static qg_tqc *record_of(qg_graph *g, const char *word)
{
    qg_endpoint at = place_of(g, word);
    return at.is_output ? qg_output_tqc(at.node, at.slot)
                        : qg_input_tqc(at.node, at.slot);
}

/* Numbers between commas. */
static size_t numbers(char *text, double *x)
{
    size_t n = 0;
    for (char *at = text; at && *at; n++) {
        x[n] = strtod(at, &at);
        at += *at == ',';
    }
    return n;
}

static void add_grid(qg_ctx *ctx, qg_quant *q, char *word[8], qg_rounding rounding)
{
    double x[8], y[8] = { 0 };
    float scale[8];
    int32_t offset[8];
    size_t n = numbers(word[6], x);
    qg_endpoint at = place_of(q->graph, word[0]);
    qg_tqc *t;
    qg_scheme s = { .rounding = rounding, .bits = (uint8_t)atoi(word[3]), .axis = -1 };
    qg_node *node = qg_graph_node(q->graph, at.node->name);
    bool channels = word[1][0] == 'C';
    s.policy = QG_LINEAR | (channels ? QG_PER_CHANNEL : QG_PER_TENSOR) |
               (word[2][0] == 'S' ? QG_SYMMETRIC : QG_ASYMMETRIC);
    s.axis = channels ? (int16_t)atoi(word[1] + 1) : -1;
    if (word[2][0] == 'F') {
        s.policy = QG_FLOATING | QG_PER_TENSOR | QG_SYMMETRIC;
        s.exponent_bits = 4;
    }
    s.qmin = atoll(word[4]);
    s.qmax = atoll(word[5]);
    (void)numbers(word[7], y);
    for (size_t i = 0; i < n; i++) {
        scale[i] = (float)x[i];
        offset[i] = (int32_t)y[i];
    }
    node->platform = QG_PLATFORM_QUANTIZED;
    assert_ok(ctx, qg_quant_add(q, node, at.is_output, at.slot, &s, &t));
    assert_ok(ctx, qg_tqc_set_param(q, t, n, scale, word[7] ? offset : NULL));
    assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
    if (qg_tqc_is_constant(t))
        assert_ok(ctx, qg_tqc_set_state(q, t, QG_TQC_BAKED));
}

static void add_line(qg_ctx *ctx, qg_quant *q, char *line, qg_rounding rounding)
{
    char *word[8] = { 0 }, *rest = line;
    qg_tqc *t;
    for (size_t i = 0; i < 8 && (word[i] = strtok_r(rest, " ", &rest)) != NULL; i++)
        continue;
    if (strcmp(word[1], "off") == 0) {
        assert_ok(ctx, qg_tqc_switch_off(q, record_of(q->graph, word[0]), false));
        return;
    }
    if (word[1][0] != '<') {
        add_grid(ctx, q, word, rounding);
        return;
    }
    qg_endpoint at = place_of(q->graph, word[0]);
    qg_tqc *lead = record_of(q->graph, word[2]);
    qg_node *node = qg_graph_node(q->graph, at.node->name);
    node->platform = QG_PLATFORM_QUANTIZED;
    assert_ok(ctx, qg_quant_add(q, node, false, at.slot, &lead->scheme, &t));
    assert_ok(ctx, qg_tqc_join(q, t, lead));
}

/* Lines of `more` replace those of the same endpoint, or follow; "c.in0" alone takes
 * that line out. */
static qg_quant *records(qg_ctx *ctx, qg_graph *g, const char *more, qg_rounding how)
{
    qg_quant *q;
    char *rest = qg_arena_strdup(ctx->arena, all), *line;
    char *others = qg_arena_strdup(ctx->arena, more);
    assert_ok(ctx, qg_quant_new(g, &backend, &q));
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        size_t n = strcspn(line, " ");
        const char *other = strstr(more, qg_arena_strndup(ctx->arena, line, n));
        if (!other || strncmp(other + n, " off", 4) == 0) {
            add_line(ctx, q, line, how);
        } else if (other[n] == ' ') {
            n = strcspn(other, "\n");
            add_line(ctx, q, qg_arena_strndup(ctx->arena, other, n), how);
        }
    }
    while ((line = strtok_r(others, "\n", &others)) != NULL)
        if (strstr(line, " off") || (strchr(line, ' ') && !record_of(g, line)))
            add_line(ctx, q, line, how);
    return q;
}

/* --- files --- */

typedef struct exported {
    const char *format, *more, *file, *losses;
    bool like_ppq;
    const char *suffix; /* of another file than that which is named */
} exported;

/* "c.in0 range!: ...": with ! it changes results. */
static const char *loss_text(qg_ctx *ctx, const qg_export *e)
{
    const char *text = "";
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < e->loss.n; i++) {
        const qg_loss *l = &e->loss.at[i];
        text = qg_arena_printf(
            ctx->arena, "%s%s %s%s: %s\n", text, l->tqc ? qg_tqc_text(l->tqc, at) : "-",
            qg_aspect_word(l->aspect), l->computes ? "!" : "", l->text);
    }
    return text;
}

#define FLOATS "the file has no entry for it, or one with another grid\n"
#define FEW    "limits narrower than those of the type\n"

#define MORE "codes [-127, 127], read as [-128, 127]\n"
/* The records behind d as ncnn has them all, and those between c and s, are away. */
#define REST   "p.in0\na.in0\na.out0\ns.in0\ns.in1\ns.out0\nd.out0\n"
#define FEWEST "c.out0\nd.in0\nd.in1\nd.out0\np.in0\na.in0\na.out0\ns.in0\n"
#define RECORD(name, scale, offset)                                                    \
    "record {\n  key: \"" name "\"\n  value {\n    scale_d: " scale                    \
    "\n    offset_d: " offset "\n"
#define OF(scale) "    scale_w: " scale "\n"
#define ZERO      "    offset_w: 0\n"
#define ZEROS     ZERO ZERO ZERO ZERO
#define SHAPE     "    channels: 4\n    height: 6\n    width: 5\n  }\n}\n"
#define MNN(sum)                                                                       \
    "{\"shape\": {\"channels\": 4,\"height\": 6,\"width\": 5},"                        \
    "\"c input_tensor_0\": 0.5,\"c output_tensor_0\": 0.25,"                           \
    "\"d input_tensor_0\": 0.25,\"d output_tensor_0\": 0.125,"                         \
    "\"s output_tensor_0\": " sum "}"
#define PPL(name, bits, channels, sym, scale, zero, low, high, qmin, qmax, id)         \
    "\"" name "\": {\"bit_width\": " bits ",\"per_channel\": " channels                \
    ",\"quant_flag\": true,\"sym\": " sym ",\"scale\": " scale                         \
    ",\"zero_point\": " zero ",\"tensor_min\": " low ",\"tensor_max\": " high          \
    ",\"q_min\": " qmin ",\"q_max\": " qmax ",\"hash\": " id ",\"dominator\": " id "}"
#define PPL_X(id)                                                                      \
    PPL("x", "8", "false", "true", "0.5", "0", "-63.5", "63.5", "-127", "127", id)
#define PPL_S                                                                          \
    PPL("s", "8", "false", "false", "0.5", "40", "-20.0", "107.5", "0", "255", "3")
#define PPL_OPS                                                                        \
    "\"op_info\": {\"c\": {\"data_type\": \"INT8\"},\"s\": {\"data_type\": "           \
    "\"INT8\"}}}"
#define STATE(node, state, colour)                                                     \
    "\"" node "\": {\"value\": \"" state "\",\"bgColor\": \"#" colour "\"}"
#define VALUES(c, d, p, a, s)                                                          \
    "\"c\": {\"value\": " c "},\"d\": {\"value\": " d "},\"p\": {\"value\": " p        \
    "},\"a\": {\"value\": " a "},\"s\": {\"value\": " s "}}"
#define DATA(name) "{\"g\": {\"name\": \"" name "\",\"results\": {"
#define COLOURS                                                                        \
    ",\"thresholds\": [{\"value\": 4.0,\"bgColor\": \"#f4a582\"},{\"value\": 8.0,"     \
    "\"bgColor\": \"#92c5de\"},{\"value\": 32.0,\"bgColor\": \"#f7f7f7\"}]}}"
#define RKNN(name, kind, method, type, low, high, scale, zero)                         \
    "    '" name "':\n        qtype: " kind "_quantized\n        qmethod: " method     \
    "\n        dtype: " type "\n        min: [" low "]\n        max: [" high           \
    "]\n        scale: [" scale "]\n        zero_point: [" zero                        \
    "]\n        ori_min: [" low "]\n        ori_max: [" high "]\n"

#define FLOATING(format)                                                               \
    {                                                                                  \
        format,                                                                        \
            "c.in0 T F 8 -448 448 1\nc.in1\ns.in1 T F 8 -448 448 1\ns.out0\n" FEWEST,  \
            NULL,                                                                      \
            "c.in0 floating!: a floating-point grid\nc.in0 endpoint!: " FLOATS         \
            "s.in1 floating!: a floating-point grid\ns.in1 endpoint!: " FLOATS,        \
            false, NULL                                                                \
    }

#define OVERRIDES FEWEST "c.in1 C0 S 4 -8 7 1,2,4,8\ns.out0 T A 8 0 255 0.5 40\n"
#define GRID(bits, dtype, symmetric, high, low, offset, scale)                         \
    "{\"bitwidth\": " bits "," dtype "\"is_symmetric\": \"" #symmetric "\","           \
    "\"max\": " high ",\"min\": " low ",\"offset\": " offset ",\"scale\": " scale "}"
#define GRIDS_W(dtype, yes)                                                            \
    GRID("4", dtype, yes, "7.0", "-8.0", "-8", "1.0")                                  \
    "," GRID("4", dtype, yes, "14.0", "-16.0", "-8", "2.0") "," GRID(                  \
        "4", dtype, yes, "28.0", "-32.0", "-8",                                        \
        "4.0") "," GRID("4", dtype, yes, "56.0", "-64.0", "-8", "8.0")
#define DICTIONARY(dtype, yes, no)                                                     \
    "\"activation_encodings\": {"                                                      \
    "\"x\": [" GRID("8", dtype, yes, "63.5", "-64.0", "-128",                          \
                    "0.5") "],\"s\": [" GRID("8", dtype, no, "107.5", "-20.0", "-40",  \
                                             "0.5") "]},\"param_encodings\": {\"w\": " \
                                                    "[" GRIDS_W(dtype, yes) "]}}"
#define LIMIT(bits, high, low)                                                         \
    "{\"bitwidth\": " bits ",\"max\": " high ",\"min\": " low "}"
#define LIMITS(name, bits, high, low) "\"" name "\": [" LIMIT(bits, high, low)
#define PPQ_LIMITS(name, low, high)                                                    \
    "\"" name "\": {\"tensor_min\": " low ",\"tensor_max\": " high "}"
#define PPQ_GRID(bits, high, low, offset, scale)                                       \
    "\"bitwidth\": " bits ",\"max\": " high ",\"min\": " low ",\"offset\": " offset    \
    ",\"scale\": " scale

/* clang-format off */
static const exported files[] = {
    /* ncnn: 1 / scale; of a group, that of its largest scale; data below weights.  The
     * rows of values behind the layers are lost; c.out0 has no reader but d. */
    { "ncnn-table", "",
      "c_param_0 2.0 8.0\nd_param_0 1.0 0.5 0.25 2.0\nc 2.0\nd 4.0\n",
      "c.in1 per-channel!: one scale per group, the largest\n"
      "d.out0 offset!: an offset other than 0\n"
      "d.out0 endpoint!: " FLOATS
      "a.out0 offset!: an offset other than 0\n"
      "a.out0 endpoint!: " FLOATS
      "s.in1 endpoint!: " FLOATS
      "s.out0 endpoint!: " FLOATS, false, NULL },
    /* 1 / (1 / 7) in float32 is not 7, that of 0.75 is 0.75; six decimals of
     * 1 / 1.00000012 carry into the integer. */
    { "ncnn-table",
      "c.in0 T S 8 -127 127 1.00000012\nc.in1 T S 8 -127 127 7\n"
      "d.in1 T S 8 -127 127 0.75\n" REST,
      "c_param_0 0.142857 0.142857\nd_param_0 1.333333 1.333333 1.333333 1.333333\n"
      "c 1.000000\nd 4.000000\n",
      "c.in1 endpoint!: a scale is read back with another last bit\n", true, NULL },
    { "ncnn-table",
      "c.in0 T S 8 -127 127 7\nc.in1 C0 S 8 -127 127 2,2,0.5,7\n"
      "d.in1 C0 S 8 -127 127 1,2,4,7\n" REST,
      "c_param_0 0.5 0.14285715\nd_param_0 1.0 0.5 0.25 0.14285715\nc 0.14285715\n"
      "d 4.0\n",
      "c.in0 endpoint!: the scale is read back with another last bit\n"
      "c.in1 per-channel!: one scale per group, the largest\n"
      "d.in1 endpoint!: a scale is read back with another last bit\n", false, NULL },
    /* AMCT: int8 with an offset, of poolings too, behind what only moves values. */
    { "ascend-record", "",
      RECORD("c", "0.5", "0") OF("0.25") OF("0.5") OF("0.125") OF("0.0625") ZEROS SHAPE
      RECORD("d", "0.25", "0") OF("1.0") OF("2.0") OF("4.0") OF("0.5") ZEROS SHAPE
      RECORD("a", "0.125", "-125") SHAPE,
      "c.in0 range!: " MORE "c.in0 range!: " FEW
      "c.in1 range!: " MORE "c.in1 range: " FEW
      "c.out0 range!: " MORE "c.out0 range!: " FEW
      "d.in1 range!: " MORE "d.in1 range: " FEW
      "d.out0 range: codes are -128 higher\n"
      "a.out0 endpoint!: " FLOATS
      "s.in1 range!: " FEW "s.in1 endpoint!: " FLOATS
      "s.out0 range!: " FEW "s.out0 endpoint!: " FLOATS, false, NULL },
    /* Scales beyond 2^-23 and 2^23, and at them. */
    { "ascend-record",
      "c.in0 T S 8 -128 127 0x1p-24\nc.in1 T S 8 -128 127 0x1p24\n"
      "c.out0 T S 8 -128 127 0x1p-23\nd.in1 T S 8 -128 127 0x1p23\na.in0\n" REST,
      RECORD("c", "1.1920928955078125e-7", "0") OF("8388608.0")
      "    offset_w: 0\n" SHAPE
      RECORD("d", "1.1920928955078125e-7", "0") OF("8388608.0")
      "    offset_w: 0\n" SHAPE,
      "c.in0 endpoint!: scale 5.96046e-08, written as the nearest that the file "
      "allows\n"
      "c.in1 endpoint!: scale 1.67772e+07, written as the nearest that the file "
      "allows\n",
      false, NULL },

    { "mnn-json", "", NULL,
      "c.in1 per-channel: one scale per channel\nc.in1 endpoint!: " FLOATS
      "d.in1 per-channel: one scale per channel\nd.in1 endpoint!: " FLOATS
      "d.out0 offset!: an offset other than 0\nd.out0 offset!: offset 3, read as 0\n"
      "d.out0 range!: codes [0, 255], read as [-127, 127]\n"
      "a.out0 offset!: an offset other than 0\na.out0 endpoint!: " FLOATS
      "s.in1 endpoint!: " FLOATS, false, NULL },
    { "mnn-json", "", MNN("2.0"), NULL, false, NULL },
    { "mnn-json", "", MNN("0.5"), NULL, true, NULL },
    { "tengine-scale", "", "x 0.5 0\nc 0.25 0\nd 0.125 3\na 1.5 -5\ns 2.0 0\n",
      "c.in0 range!: " MORE "c.in0 range!: " FEW
      "c.in1 per-channel: one scale per channel\nc.in1 range: " FEW
      "c.in1 endpoint!: " FLOATS
      "c.out0 range!: " MORE "c.out0 range!: " FEW
      "d.in1 per-channel: one scale per channel\nd.in1 range: " FEW
      "d.in1 endpoint!: " FLOATS
      "s.in1 range!: " FEW
      "s.out0 range!: " MORE "s.out0 range!: " FEW, false, NULL },
    /* Readers of x with other grids: the offset, or scale, makes the difference. */
    { "tengine-scale", "s.in1 T S 8 -127 127 0.25\n", NULL,
      "c.in0 range!: " MORE "c.in0 range!: " FEW
      "c.in1 per-channel: one scale per channel\nc.in1 range: " FEW
      "c.in1 endpoint!: " FLOATS
      "c.out0 range!: " MORE "c.out0 range!: " FEW
      "d.in1 per-channel: one scale per channel\nd.in1 range: " FEW
      "d.in1 endpoint!: " FLOATS
      "s.in1 range!: " FEW "s.in1 endpoint!: " FLOATS
      "s.out0 range!: " MORE "s.out0 range!: " FEW, false, NULL },
    { "tengine-scale",
      "c.in0 T A 8 0 255 0.5 7\ns.in1 T A 8 0 255 0.5 8\n"
      "c.in1 T S 8 -128 127 1\nc.out0 T S 8 -128 127 1\nd.in1 T S 4 -8 7 1\n" REST,
      "x 0.5 7\nw 1.0 0\nv 1.0 0\nc 1.0 0\n",
      "d.in1 range!: codes [-8, 7], read as [-128, 127]\n"
      "s.in1 endpoint!: " FLOATS, false, NULL },
    /* A reader in float: the file rounds for it, too. */
    { "tengine-scale",
      "c.in0 T A 8 0 255 0.5 7\nc.in1\nc.out0\nd.in0\nd.in1\n" REST "d.out0\n",
      "x 0.5 7\n",
      "c.in0 endpoint!: the file rounds the value for all of its readers\n", false,
      NULL },
    { "tengine-scale", "", "x 0.5 0\nc 0.25 0\nd 0.125 3\np 0.125 3\na 1.5 -5\n"
      "s 2.0 0\n",
      NULL, true, NULL },
    { "rknn-cfg", "c.in1\n" FEWEST "s.out0 T A 16 0 65535 0.5 40000\n",
      "custom_quantize_layers: {}\nquantize_parameters:\n"
      RKNN("x", "symmetric", "layer", "int8", "-64.0", "63.5", "0.5", "0")
      RKNN("s", "asymmetric", "layer", "int16", "-20000.0", "12767.5", "0.5", "7232"),
      "c.in0 range!: " MORE "c.in0 range!: " FEW "s.in1 range!: " FEW
      "s.out0 range: codes are -32768 higher\n", false, NULL },
    { "rknn-cfg", "c.in0\ns.in1\n" FEWEST "s.out0 T A 8 0 255 0.5 40\n",
      "custom_quantize_layers: {}\nquantize_parameters:\n"
      RKNN("w", "symmetric", "channel", "int8", "-32.0, -64.0, -16.0, -8.0",
           "31.75, 63.5, 15.875, 7.9375", "0.25, 0.5, 0.125, 0.0625", "0, 0, 0, 0")
      RKNN("s", "asymmetric", "layer", "int8", "-20.0", "107.5", "0.5", "-88"),
      "c.in1 range!: " MORE "c.in1 range: " FEW "s.out0 range: codes are -128 higher\n",
      false, NULL },
    { "rknn-cfg", "c.in0\nc.in1\ns.in1\n" FEWEST "s.out0 T S 17 -65536 65535 1\n",
      "custom_quantize_layers: {}\nquantize_parameters: {}\n",
      "s.out0 bits!: a bit width without a type\ns.out0 endpoint!: " FLOATS, false,
      NULL },
    { "rknn-cfg", "c.in0\nc.in1\ns.in1\n" FEWEST "s.out0 T S 9 -256 255 1\n",
      "custom_quantize_layers: {}\nquantize_parameters:\n"
      RKNN("s", "symmetric", "layer", "int16", "-32768.0", "32767.0", "1.0", "0"),
      "s.out0 range!: codes [-256, 255], read as [-32768, 32767]\n"
      "s.out0 bits!: a bit width without a type\n", false, NULL },
    { "nxp-onnx", "",
      "x_min -64\nx_max 63.5\nc_min -32\nc_max 31.75\nd_min -16.375\nd_max 15.5\n"
      "a_min -184.5\na_max 198\ns_min -256\ns_max 254\n",
      "c.in0 range!: " MORE "c.in0 range!: " FEW
      "c.in1 per-channel: one scale per channel\nc.in1 range: " FEW
      "c.in1 endpoint!: " FLOATS
      "c.out0 range!: " MORE "c.out0 range!: " FEW
      "d.in1 per-channel: one scale per channel\nd.in1 range: " FEW
      "d.in1 endpoint!: " FLOATS
      "d.out0 offset!: an offset other than 0\nd.out0 offset!: offset 3, read as 0\n"
      "d.out0 range!: codes [0, 255], read as [-128, 127]\n"
      "a.out0 offset!: an offset other than 0\na.out0 offset!: offset -5, read as 0\n"
      "s.in1 range!: " FEW
      "s.out0 range!: " MORE "s.out0 range!: " FEW, false, NULL },
    FLOATING("tengine-scale"), FLOATING("rknn-cfg"), FLOATING("nxp-onnx"),
    FLOATING("ppl-json"),
    { "rknn-cfg", "d.in1 C1 S 8 -128 127 1,2,4,8\nc.in0\nc.in1\ns.in1\ns.out0\nc.out0\n"
      "d.in0\nd.out0\np.in0\na.in0\na.out0\ns.in0\n", NULL,
      "d.in1 per-channel!: axis 1, read as 0\n", false, NULL },
    { "ppl-json", "d.in1 C1 S 8 -128 127 1,2,4,8\nc.in0\nc.in1\ns.in1\ns.out0\nc.out0\n"
      "d.in0\nd.out0\np.in0\na.in0\na.out0\ns.in0\n", NULL,
      "d.in1 per-channel!: axis 1, read as 0\n", false, NULL },
    { "tengine-scale", "c.in0 T A 9 0 255 0.5 7\nc.in1\ns.in1 T A 9 0 255 0.5 7\n"
      "s.out0\n" FEWEST, "x 0.5 7\n",
      "c.in0 range!: " FEW "c.in0 bits: 9 bits, read as 8\n"
      "c.in0 bits!: a bit width without a type\n"
      "s.in1 range!: " FEW "s.in1 bits!: a bit width without a type\n", false, NULL },
    /* A pooling in float. */
    { "ascend-record", "p.out0 T S 8 -128 127 1\nc.in0\nc.in1\nc.out0\nd.in0\nd.in1\n"
      "d.out0\np.in0\na.in0\na.out0\ns.in0\ns.in1\ns.out0\n", "",
      "p.out0 endpoint!: " FLOATS, false, NULL },
    /* AIMET and QNN: all codes; signed ones have the offset of an unsigned 0. */
    { "aimet@0.4.0", OVERRIDES, "{\"version\": \"0.4.0\"," DICTIONARY("", True, False),
      "c.in0 range!: " MORE, false, NULL },
    { "aimet@0.6.1", OVERRIDES, "{\"version\": \"0.6.1\","
      DICTIONARY("\"dtype\": \"int\",",
      True, False), "c.in0 range!: " MORE, false, NULL },
    { "qnn-encodings", OVERRIDES, "{" DICTIONARY("", True, False), NULL, false, NULL },
    { "snpe-json", OVERRIDES, "{\"activation_encodings\": {" LIMITS("x", "8", "63.5",
      "-64.0")
      "]," LIMITS("s", "8", "107.5", "-20.0") "]},\"param_encodings\": {"
      LIMITS("w", "4", "7.0", "-8.0") "," LIMIT("4", "14.0", "-16.0") ","
      LIMIT("4", "28.0", "-32.0") "," LIMIT("4", "56.0", "-64.0") "]}}", NULL, false,
      NULL },
    { "snpe-json", OVERRIDES, "{" PPQ_LIMITS("x", "-63.5", "63.5") ","
      PPQ_LIMITS("w", "[-8.0, -16.0, -32.0, -64.0]", "[7.0, 14.0, 28.0, 56.0]") ","
      PPQ_LIMITS("s", "-20.0", "107.5") "}", NULL, true, NULL },
    { "qnn-encodings", OVERRIDES, "{\"activation_encodings\": {\"x\": [{"
      PPQ_GRID("8", "63.5", "-63.5", "0", "0.5") "}],\"s\": [{"
      PPQ_GRID("8", "107.5", "-20.0", "40", "0.5") "}]},\"param_encodings\": {\"w\": [{"
      PPQ_GRID("4", "7.0", "-8.0", "0", "1.0") "}]}}", NULL, true, NULL },
    { "aimet@1.0.0", OVERRIDES, "{\"version\": \"1.0.0\",\"activation_encodings\": [{"
      ENTRY("x", "PER_TENSOR", "8", "true", "0.5", "-128") "},{"
      ENTRY("s", "PER_TENSOR", "8", "false", "0.5", "-40") "}],\"param_encodings\": [{"
      ENTRY("w", "PER_CHANNEL", "4", "true", "1.0, 2.0, 4.0, 8.0", "-8, -8, -8, -8")
      "}]}",
      "c.in0 range!: " MORE, false, NULL },
    { "aimet@1.0.0", FEWEST "c.in0\nc.in1\ns.in1\ns.out0 T A 8 -128 127 0.5 -5\n",
      "{\"version\": \"1.0.0\",\"activation_encodings\": [{"
      ENTRY("s", "PER_TENSOR", "8", "false", "0.5", "-123")
      "}],\"param_encodings\": []}",
      "s.out0 range: codes are 128 higher\n", false, NULL },
    { "aimet@2.0.0", OVERRIDES, "{\"version\": \"2.0.0\",\"encodings\": [{"
      TYPED("x", "int8", "0.5") "},{" TYPED("w", "int4", "[1.0, 2.0, 4.0, 8.0]")
      ",\"axis\": 0},{" TYPED("s", "uint8", "0.5") ",\"y_zero_point\": 40}]}",
      "c.in0 range!: " MORE, false, NULL },
    { "aimet@2.0.0", FEWEST "c.in0 T F 8 -448 448 1\nc.in1\ns.in1 T F 8 -448 448 1\n"
      "s.out0 T A 8 -128 127 0.5 -5\n",
      "{\"version\": \"2.0.0\",\"encodings\": [{" TYPED("x", "float8e4m3fn", "1.0")
      "},{"
      TYPED("s", "int8", "0.5") ",\"y_zero_point\": -5}]}", "", false, NULL },
    { "aimet@2.0.0", FEWEST "c.in0 T F 8 -240 240 1\nc.in1\ns.in1\ns.out0\n",
      "{\"version\": \"2.0.0\",\"encodings\": []}", "c.in0 endpoint!: " FLOATS,
      false, NULL },
    { "aimet@1.0.0", FEWEST "c.in0 T F 8 -448 448 1\nc.in1\ns.in1\ns.out0\n",
      "{\"version\": \"1.0.0\",\"activation_encodings\": [],\"param_encodings\": []}",
      "c.in0 endpoint!: " FLOATS, false, NULL },
    { "ppl-json", FEWEST "c.in1 C0 S 4 -8 7 1,2,4,8\ns.out0 T A 8 0 255 0.5 40\n",
      "{\"quant_info\": {" PPL_X("0") ","
      PPL("w", "4", "true", "true", "[1.0, 2.0, 4.0, 8.0]", "[0, 0, 0, 0]",
          "[-8.0, -16.0, -32.0, -64.0]", "[7.0, 14.0, 28.0, 56.0]", "-8", "7", "1")
      "," PPL_S "}," PPL_OPS, "", false, NULL },
    /* PPQ: the last reader, and nothing wider than 8 bits. */
    { "ppl-json", FEWEST "c.in1 C0 S 9 -8 7 1,2,4,8\ns.out0 T A 8 0 255 0.5 40\n",
      "{\"quant_info\": {" PPL_X("2") "," PPL_S "}," PPL_OPS, NULL, true, NULL },
    { "model-explorer", "c.out0 off\n",
      DATA("state") STATE("c", "DEQUANTIZED", "f46d43") "," STATE("d", "ACTIVATED",
      "a6dba0")
      "," STATE("p", "OVERLAPPED", "d9d9d9") "," STATE("a", "ACTIVATED", "a6dba0") ","
      STATE("s", "ACTIVATED", "a6dba0") "}}}", NULL, false, NULL },
    { "model-explorer", "c.in0\ns.in1\ns.out0\n" FEWEST,
      DATA("state") STATE("c", "BAKED", "92c5de") "," STATE("d", "none", "f7f7f7")
      "," STATE("p", "none", "f7f7f7") "," STATE("a", "none", "f7f7f7") ","
      STATE("s", "none", "f7f7f7") "}}}", NULL, false, NULL },
    { "model-explorer", "d.in1 T S 4 -8 7 1\n",
      DATA("bits") VALUES("8", "4", "8", "8", "8") COLOURS, NULL, false, ".bits.json" },
    { "model-explorer", "c.in0\ns.in1\ns.out0\n" FEWEST,
      DATA("bits") VALUES("8", "32", "32", "32", "32") COLOURS, NULL, false,
      ".bits.json" },
    { "model-explorer", "", DATA("group") VALUES("2", "5", "5", "8", "11") "}}", NULL,
      false, ".group.json" },
    { "model-explorer", "c.in0\ns.in1\ns.out0\n" FEWEST,
      DATA("group") VALUES("0", "-1", "-1", "-1", "-1") "}}", NULL, false,
      ".group.json" },
};
/* clang-format on */

/* A JSON document without ends of lines and what they are followed by. */
static const char *joined(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from == '\n')
            from += strspn(from, "\n ") - 1;
        else
            *to++ = *from;
    *to = '\0';
    return text;
}

static const char *contents(qg_ctx *ctx, const char *path)
{
    char *text;
    size_t size;
    qg_file_request from = { "test", path, 1 << 20 };
    assert_ok(ctx, qg_file_text(ctx, ctx->arena, from, &text, &size));
    return *text == '{' ? joined(text) : text;
}

/* "x_min -64": the scalars that the graph has for limits. */
static const char *limits(qg_ctx *ctx, const qg_graph *g)
{
    const char *text = "";
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (v->constant && v->type.rank == 0)
            text = qg_arena_printf(ctx->arena, "%s%s %g\n", text, v->name,
                                   (double)v->constant->f32[0]);
    }
    return text;
}

static void export_one(const exported *x, const char *folder)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = table_graph(ctx);
    const qg_format *f;
    const char *at = strchr(x->format, '@'); /* what follows is the version */
    size_t length = at ? (size_t)(at - x->format) : strlen(x->format);
    const char *format = qg_arena_strndup(ctx->arena, x->format, length);
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_VERSION] =
                                                   at ? at + 1 : NULL };
    assert_ok(ctx, qg_format_named(ctx, format, &f));
    qg_export e = { .ctx = ctx,
                    .quant = records(ctx, g, x->more, f->rounding),
                    .info = &no_info,
                    .path = qg_path_join(ctx->arena, folder, "file.out"),
                    .quirks = x->like_ppq ? QG_QUIRK(PPQ_EXPORTS) : 0 };
    assert_ok(ctx, qg_export_begin(&e, format, option));
    assert_ok(ctx, qg_export_run(&e, false));
    const char *losses = loss_text(ctx, &e);
    if (x->losses && strcmp(losses, x->losses) != 0)
        fail_msg("%s %s: losses:\n%s, expected\n%s", x->format, x->more, losses,
                 x->losses);
    const char *file =
        x->suffix ? qg_arena_printf(ctx->arena, "%s%s", e.path, x->suffix) : e.path;
    const char *text = !x->file                             ? NULL
                       : strcmp(x->format, "nxp-onnx") == 0 ? limits(ctx, e.graph)
                                                            : contents(ctx, file);
    if (text && strcmp(text, x->file) != 0)
        fail_msg("%s %s: file:\n%s, expected\n%s", x->format, x->more, text, x->file);
    qg_export_end(&e);
    qg_graph_free(g);
    qg_ctx_free(ctx);
}

static void each_file_has_its_rows(void **state)
{
    char path[SCRATCH_PATH];
    (void)state;
    assert_int_equal(mkdir(scratch_path(path, "tables"), 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        export_one(&files[i], path);
    assert_int_equal(scratch_remove(path), 0);
}

/* --- reports --- */

typedef struct reported {
    const char *report, *file; /* NULL file: refused */
    const char *why;
} reported;

#define ERRORS(rows) "{\"metric\": \"mse\", \"errors\": [" rows "]}"
#define NOBODY       "{\"name\": \"nobody\", \"error\": 1}"
#define ERROR_COLOURS                                                                  \
    ",\"thresholds\": [{\"value\": 0.001,\"bgColor\": \"#d9f0d3\"},"                   \
    "{\"value\": 0.01,\"bgColor\": \"#fee08b\"},"                                      \
    "{\"value\": 1e30,\"bgColor\": \"#f46d43\"}]}}"

/* clang-format off */
static const reported reports[] = {
    { ERRORS("{\"name\": \"c\", \"error\": 0.5}, " NOBODY),
      DATA("mse") "\"c\": {\"value\": 0.5}}" ERROR_COLOURS, NULL },
    { ERRORS(""), DATA("mse") "}" ERROR_COLOURS, NULL },
    { "[]", NULL, "is not a report of `qg analyse --json`" },
    { ERRORS("1"), NULL, "is not an object, expected an object" },
    { ERRORS(NOBODY), NULL, "names no node of the snapshot" },
};
/* clang-format on */

/* Errors per node of a report: rows of nodes of the network, and what is none. */
static void errors_of_a_report_are_shown(void **state)
{
    char path[SCRATCH_PATH];
    (void)state;
    assert_int_equal(mkdir(scratch_path(path, "reports"), 0700), 0);
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_graph *g = table_graph(ctx);
        const char *out = qg_path_join(ctx->arena, path, "e");
        qg_export e = { .ctx = ctx,
                        .quant = records(ctx, g, "", QG_ROUND_HALF_EVEN),
                        .info = &no_info,
                        .path = out,
                        .analysis =
                            table_file(ctx, path, "report", reports[i].report) };
        assert_ok(ctx, qg_export_begin(&e, "model-explorer", NULL));
        if (reports[i].file) {
            assert_ok(ctx, qg_export_run(&e, false));
            assert_int_equal(e.file.n, 4);
            assert_string_equal(e.file.at[0], out);
            out = qg_arena_printf(ctx->arena, "%s.nsr.json", out);
            assert_string_equal(e.file.at[3], out);
            assert_string_equal(contents(ctx, out), reports[i].file);
        } else {
            assert_fails(ctx, qg_export_run(&e, false), QG_EPARSE, reports[i].why);
        }
        qg_export_end(&e);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
    assert_int_equal(scratch_remove(path), 0);
}

QG_TEST_MAIN(cmocka_unit_test(each_file_has_its_rows),
             cmocka_unit_test(errors_of_a_report_are_shown))
