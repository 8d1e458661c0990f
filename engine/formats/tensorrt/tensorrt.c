/* tensorrt.c -- one symmetric int8 scale per activation, for TensorRT up to 10: a JSON
 * file with ranges, and the calibration cache.
 *
 *     {"act_quant_info": {"relu1_out": 6.35}}        127 x scale
 *
 *     TRT-8601-EntropyCalibration2
 *     relu1_out: 3d4ccccd                            the bits of the float32 scale
 *
 * TensorRT 11 has neither: its networks are strongly typed, with explicit Q/DQ (format
 * onnx-qdq, placement trt).
 *
 * Weights  TensorRT computes their scales itself, max |w| / 127, one per output
 *          channel.  An import does the same for constant weights of layers whose data
 *          have a scale, also behind nodes that only move elements.  An export loses
 *          weights with other grids.
 *
 * Ranges   TensorRT quantizes as clamp(round(x / s), -128, 127), ties to even, and
 *          takes s = range / 127 from a dynamic range; so a range is written as
 *          127 x scale.  The cache has the scale itself, without a rounding on the
 *          way: prefer it where both can be used.
 * Rows     activations only, without an offset; everything else is a loss
 *
 * Names in a cache may hold ": ": the last one ends the name.
 * Import   TensorRT skips an incompatible cache (NVIDIA/TensorRT issue 1378), and
 *          has written infinite scales (rmccorm4/tensorrt-utils issue 21): a first line
 *          of no version with caches and a scale that is none are errors here.  A
 *          scale of 0 means that a tensor has no range.
 * Sources
 *     TensorRT developer guide 8.6, "Working with INT8" (scale of weights, rounding,
 *     per-channel layers), "INT8 calibration", "Calibration cache";
 *     onnxruntime, core/providers/tensorrt, ReadDynamicRange (reader of the cache);
 *     OpenPPL/ppq@e39eecb ppq/parser/tensorRT.py (the JSON file) */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/formats/table.h"
#include "engine/quant/fake.h"

static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    (void)e;
    return qg_table_int8(t, g, 128, false);
}

/* --- JSON --- */

static qg_status put_json(const qg_table *t, FILE *stream)
{
    qg_json_writer *w = QG_NEW(t->e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(t->e->ctx);
    qg_json_begin(w, t->e->ctx, stream);
    qg_json_put_object(w, NULL);
    qg_json_put_object(w, "act_quant_info");
    for (size_t i = 0; i < t->row.n; i++)
        qg_json_put_f64(w, t->row.at[i].value->name,
                        (double)qg_tqc_param(t->row.at[i].tqc).scale[0] * 127);
    qg_json_put_end(w);
    qg_json_put_end(w);
    return qg_json_done(w);
}

static qg_status parse_ranges(qg_table_reader *r, const qg_json *root)
{
    const qg_json *list;
    if (root->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_EPARSE, root,
                            "is not an object, expected an object");
    QG_TRY(qg_json_member(r->ctx, root, "act_quant_info", QG_JSON_OBJECT, &list));
    for (size_t i = 0; i < list->count; i++) {
        double range;
        QG_TRY(qg_json_as_f64(r->ctx, &list->item[i], &range));
        QG_TRY(qg_table_found_int8(r, list->item[i].key, (float)(range / 127), 128));
    }
    return QG_OK;
}

static qg_status parse_json(qg_table_reader *r, const qg_json_source *from)
{
    return qg_table_parse_json(r, from, parse_ranges);
}

/* --- weights --- */

/* Whether an endpoint has a scale in the file, of which ud is the reader or export. */
typedef bool has_scale(const void *ud, qg_endpoint at);

static bool has_entry(const void *ud, qg_endpoint at)
{
    const qg_table_reader *r = ud;
    return qg_record_planned(&r->plan[at.node->id], at);
}

static bool has_row(const void *ud, qg_endpoint at)
{
    const qg_export *e = ud;
    const qg_tqc *t =
        at.is_output ? qg_output_tqc(at.node, at.slot) : qg_input_tqc(at.node, at.slot);
    qg_table_grid g = { .scheme = { 0 } };
    if (!t || !qg_tqc_is_on_grid(t))
        return false;
    g.scheme = t->scheme;
    return e->format->table->grid(e, t, &g);
}

/* The data of n, or what they were before nodes that only move elements. */
static bool on_grid(const qg_node *n, has_scale *has, const void *ud)
{
    qg_endpoint at = qg_input_at(n, 0);
    while (!has(ud, at)) {
        const qg_value *v = qg_endpoint_value(at);
        if (at.is_output && qg_node_has(at.node, QG_OP_PASSIVE) && at.node->n_in)
            at = qg_input_at(at.node, 0);
        else if (!at.is_output && v && v->def)
            at = qg_output_at(v->def, v->def_slot);
        else
            return false;
    }
    return true;
}

static bool is_weight(qg_endpoint at)
{
    const qg_value *v = qg_endpoint_value(at);
    int axis = at.node->op->weight_axis ? at.node->op->weight_axis(at.node) : -1;
    return qg_node_has(at.node, QG_OP_COMPUTE) && v && v->constant &&
           v->type.dtype == QG_F32 && axis >= 0 && axis < v->type.rank &&
           qg_tensor_count(v->constant) > 0 && qg_endpoint_role(at) == 'w';
}

/* The grid that TensorRT makes of a weight, max |w| / 127 per output channel, which is
 * the rule of qg_scheme_from_range for these limits. */
static qg_status make_grid(qg_ctx *ctx, qg_arena *a, qg_endpoint at,
                           qg_grid_record *out)
{
    const qg_tensor *w = qg_endpoint_value(at)->constant;
    const qg_scheme s = { .policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC,
                          .rounding = QG_ROUND_HALF_EVEN,
                          .bits = 8,
                          .axis = (int16_t)at.node->op->weight_axis(at.node),
                          .qmin = -127,
                          .qmax = 127 };
    size_t n = (size_t)w->dim[s.axis];
    float *low = QG_NEWN(a, n, float), *high = QG_NEWN(a, n, float),
          *scale = QG_NEWN(a, n, float);
    int32_t *offset = QG_NEWN(a, n, int32_t);
    if (!low || !high || !scale || !offset)
        return qg_nomem(ctx);
    QG_TRY(qg_tensor_ranges(ctx, "weights of TensorRT", &s, w, low, high));
    for (size_t c = 0; c < n; c++)
        qg_scheme_from_range(&s, (qg_range){ .low = low[c], .high = high[c] },
                             &scale[c], &offset[c]);
    *out = (qg_grid_record){
        s, {n, scale, offset}
    };
    return QG_OK;
}

static qg_status add_weight(qg_table_reader *r, qg_endpoint at)
{
    qg_grid_record grid;
    QG_TRY(make_grid(r->ctx, r->g->arena, at, &grid));
    r->own_scales++;
    return qg_table_found_at(r, at, &grid);
}

/* Whether an import makes this record of a weight again. */
static qg_status makes(qg_export *e, const qg_tqc *t, bool *out)
{
    qg_grid_record grid;
    const qg_endpoint at = qg_tqc_endpoint(t);
    qg_qparam p = qg_tqc_param(t);
    if (at.is_output || !is_weight(at) || !on_grid(at.node, has_row, e))
        return QG_OK;
    QG_TRY(make_grid(e->ctx, e->arena, at, &grid));
    *out = qg_scheme_same(&t->scheme, &grid.scheme) && p.n == grid.param.n &&
           memcmp(p.scale, grid.param.scale, p.n * sizeof *p.scale) == 0;
    return QG_OK;
}

/* TensorRT quantizes the constant weights of a layer whose data have a scale. */
static qg_status add_weights(qg_table_reader *r)
{
    for (size_t i = 0; i < r->g->node.n; i++) {
        qg_node *n = r->g->node.at[i];
        if (!n->n_in || !on_grid(n, has_entry, r))
            continue;
        for (uint32_t k = 1; k < n->n_in - n->n_capture; k++)
            if (is_weight(qg_input_at(n, k)) &&
                !qg_record_planned(&r->plan[n->id], qg_input_at(n, k)))
                QG_TRY(add_weight(r, qg_input_at(n, k)));
    }
    return QG_OK;
}

/* PPQ writes other endpoints and grids not at all. */
static bool ppq_takes(const qg_tqc *t)
{
    static const char *const skipped[] = { "Gather",  "Unsqueeze", "Concat",
                                           "Reshape", "Squeeze",   NULL };
    const qg_scheme *s = &t->scheme;
    if (qg_table_among(t->node->op->name, skipped))
        return false;
    return s->policy == (QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC) && s->bits == 8 &&
           s->qmin == -128 && s->qmax == 127;
}

static const qg_quirk_row json_quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/tensorRT.py TensorRTExporter_JSON"),
    { 0 },
};

static const qg_table_form json_form = {
    .grid = grid,
    .put = put_json,
    .parse = parse_json,
    .complete = add_weights,
    .makes = makes,
    .ppq = {.states = QG_TABLE_EXPORTED | 1u << QG_TQC_OVERLAPPED,
            .takes = ppq_takes},
};

const qg_format qg_format_tensorrt_json = {
    .name = "tensorrt-json",
    .suffix = ".json + .onnx",
    .summary = "ranges of activations for TensorRT up to 10 (11 takes Q/DQ only)",
    .says = QG_SAYS_SHARING | QG_SAYS_SILENT,
    .nan = QG_NAN_BIT(QG_NAN_ZERO),
    .table = &json_form,
    .quirk = json_quirks,
    .build = qg_table_build,
    .write = qg_table_write,
    .import = qg_table_import,
    .needs_model = true,
};

/* --- cache --- */

/* "8.6.1" -> 8601, "10.13.3" -> 101303, as TensorRT writes NV_TENSORRT_VERSION; -1: no
 * such version has a cache. */
static long version_number(const char *text)
{
    char *end = NULL;
    long part[3] = { 0 };
    for (size_t i = 0; i < 3; i++) {
        part[i] = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
        if (part[i] < 0 || part[i] > 99 || *end != (i < 2 ? '.' : '\0'))
            return -1;
        text = end + 1;
    }
    if (part[0] < 5 || part[0] > 10)
        return -1;
    return part[0] * (part[0] < 10 ? 1000 : 10000) + part[1] * 100 + part[2];
}

/* The version is checked here rather than in `put`: build fails before a file of the
 * user is replaced. */
static qg_status build_cache(qg_export *e)
{
    const char *version = e->option[QG_FORMAT_VERSION];
    if (version_number(version) < 0)
        return qg_fail(e->ctx, QG_ECONFIG,
                       "format '%s': version '%s', expected one of TensorRT 5 to 10 as "
                       "in 8.6.1 (TensorRT 11 takes explicit Q/DQ only: onnx-qdq "
                       "with --placement trt)",
                       e->format->name, version);
    return qg_table_build(e);
}

static qg_status put_cache(const qg_table *t, FILE *stream)
{
    (void)fprintf(stream, "TRT-%ld-EntropyCalibration2\n",
                  version_number(t->e->option[QG_FORMAT_VERSION]));
    for (size_t i = 0; i < t->row.n; i++) {
        uint32_t bits;
        memcpy(&bits, qg_tqc_param(t->row.at[i].tqc).scale, sizeof bits);
        (void)fprintf(stream, "%s: %08" PRIx32 "\n", t->row.at[i].value->name, bits);
    }
    return QG_OK;
}

/* Eight hexadecimal digits, or 0: TensorRT writes a scale of zero so, and a line that
 * was cut off has fewer. */
static bool read_bits(const char *at, size_t n, float *scale)
{
    uint32_t bits = 0;
    if (n != 8 && !(n == 1 && *at == '0'))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *digits = "0123456789abcdef";
        char c = (char)(at[i] >= 'A' && at[i] <= 'F' ? at[i] - 'A' + 'a' : at[i]);
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit)
            return false;
        bits = bits << 4 | (uint32_t)(digit - digits);
    }
    memcpy(scale, &bits, sizeof *scale);
    return true;
}

/* "name: 3d4ccccd".  A scale of zero stands for a tensor of shapes or constants. */
static qg_status parse_entry(qg_table_reader *r, qg_table_line text)
{
    float scale;
    size_t colon = text.n;
    while (colon > 1 && memcmp(text.at + colon - 2, ": ", 2) != 0)
        colon--;
    char *name = QG_NEWN(r->g->arena, text.n + 1, char);
    if (!name)
        return qg_nomem(r->ctx);
    if (colon < 3 || !read_bits(text.at + colon, text.n - colon, &scale))
        return qg_table_fail(r,
                             "expected 'name: ' and eight hexadecimal digits, or 0, "
                             "not '%.*s'",
                             (int)(text.n < 60 ? text.n : 60), text.at);
    memcpy(name, text.at, colon - 2);
    if (scale == 0 && !signbit(scale))
        return qg_table_leave_out(r, name, QG_LEFT_UNSCALED);
    return qg_table_found_int8(r, name, scale, 128);
}

/* "TRT-8601-EntropyCalibration2": major * 1000 or, since 9, * 10000; the names are
 * those of CalibrationAlgoType. */
static bool is_head(qg_table_line text)
{
    static const char *const kinds[] = { "-LegacyCalibration", "-EntropyCalibration",
                                         "-EntropyCalibration2", "-MinMaxCalibration",
                                         NULL };
    char head[64] = "";
    if (text.n >= sizeof head || text.n < 8 || memcmp(text.at, "TRT-", 4) != 0)
        return false;
    memcpy(head, text.at + 4, text.n - 4);
    size_t digits = strspn(head, "0123456789");
    long version = strtol(head, NULL, 10);
    return ((digits == 4 && version >= 5000) ||
            (digits > 4 && version >= 90000 && version < 110000)) &&
           qg_table_among(head + digits, kinds);
}

static qg_status parse_cache(qg_table_reader *r, const qg_json_source *from)
{
    qg_table_line text = { "", 0 };
    size_t offset = 0;
    (void)from;
    if (!qg_table_next_line(r, &offset, &text) || !is_head(text))
        return qg_table_fail(
            r, "expected 'TRT-<version>-<calibration>' of TensorRT 5 to 10, not '%.*s'",
            (int)(text.n < 60 ? text.n : 60), text.at);
    while (qg_table_next_line(r, &offset, &text))
        if (text.n)
            QG_TRY(parse_entry(r, text));
    return QG_OK;
}

static const qg_table_form cache_form = {
    .grid = grid,
    .put = put_cache,
    .parse = parse_cache,
    .complete = add_weights,
    .makes = makes,
    .ends = "\r\n",
};

static const char *const versions[] = { "8.6.1", QG_FORMAT_ANY, NULL };

const qg_format qg_format_tensorrt_cache = {
    .name = "tensorrt-cache",
    .suffix = ".cache + .onnx",
    .summary = "calibration cache of TensorRT 5 to 10 (11 takes Q/DQ only)",
    .says = QG_SAYS_SHARING | QG_SAYS_SILENT,
    .nan = QG_NAN_BIT(QG_NAN_ZERO),
    .choice = { [QG_FORMAT_VERSION] = versions },
    .table = &cache_form,
    .build = build_cache,
    .write = qg_table_write,
    .import = qg_table_import,
    .needs_model = true,
};
