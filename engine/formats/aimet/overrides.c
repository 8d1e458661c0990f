/* overrides.c -- what Qualcomm's converters take as --quantization_overrides: the
 * dictionaries of encodings.c without a version.
 *
 *     snpe-json       {"activation_encodings": {name: [{"bitwidth", "max", "min"}]},
 *                     "param_encodings": {...}}
 *     qnn-encodings   the same with is_symmetric, offset and scale
 *
 * PPQ writes other files under these names (quirk ppq-exports): for SNPE limits alone,
 * for QNN an offset with the sign of ONNX's zero point (D47).
 * Sources  Qualcomm Neural Processing SDK, "Quantization overrides"; Qualcomm AI Engine
 *          Direct SDK, "Quantization overrides"; OpenPPL/ppq@e39eecb
 *          ppq/parser/qnn_exporter.py, ppq/parser/caffe_exporter.py */
#include "engine/formats/aimet/encodings.h"

/* An object whose members `put` writes. */
static qg_status put_object(const qg_table *t, FILE *stream,
                            void (*put)(qg_json_writer *w, const qg_table *t))
{
    qg_json_writer *w = QG_NEW(t->e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(t->e->ctx);
    qg_json_begin(w, t->e->ctx, stream);
    qg_json_put_object(w, NULL);
    put(w, t);
    qg_json_put_end(w);
    return qg_json_done(w);
}

static void snpe_members(qg_json_writer *w, const qg_table *t)
{
    qg_encodings_put(w, t, QG_ENCODING_RANGE);
}

static qg_status put_snpe(const qg_table *t, FILE *stream)
{
    return put_object(t, stream, snpe_members);
}

static void qnn_members(qg_json_writer *w, const qg_table *t)
{
    qg_encodings_put(w, t, QG_ENCODING_GRID);
}

static qg_status put_qnn(const qg_table *t, FILE *stream)
{
    return put_object(t, stream, qnn_members);
}

/* --- as PPQ writes them --- */

/* A limit of the record's own grid, in float32, as torch computes it. */
static double limit(const qg_tqc *t, size_t c, float scale, int64_t code)
{
    qg_qparam p = qg_tqc_param(t);
    return (double)(scale * (float)(code - (p.offset ? p.offset[c] : 0)));
}

/* D47: the scale of what a Softmax or Sigmoid makes is cut so that it ends at 1. */
static float ppq_scale(const qg_tqc *t)
{
    static const char *const unit[] = { "Softmax", "Sigmoid", NULL };
    const qg_node *maker = qg_tqc_value(t)->def;
    float scale = qg_tqc_param(t).scale[0];
    float most = (float)(1.0 / (double)(t->scheme.qmax - t->scheme.qmin));
    bool ends = maker && qg_table_among(maker->op->name, unit);
    return ends && scale > most ? most : scale;
}

static void ppq_limits(qg_json_writer *w, const char *key, const qg_tqc *t,
                       int64_t code)
{
    bool list = t->scheme.policy & QG_PER_CHANNEL;
    qg_qparam p = qg_tqc_param(t);
    if (list)
        qg_json_put_array(w, key);
    for (size_t c = 0; c < p.n; c++)
        qg_json_put_f64(w, list ? NULL : key, limit(t, c, p.scale[c], code));
    if (list)
        qg_json_put_end(w);
}

static void ppq_snpe_members(qg_json_writer *w, const qg_table *t)
{
    for (size_t i = 0; i < t->row.n; i++) {
        const qg_tqc *c = t->row.at[i].tqc;
        qg_json_put_object(w, t->row.at[i].value->name);
        ppq_limits(w, "tensor_min", c, c->scheme.qmin);
        ppq_limits(w, "tensor_max", c, c->scheme.qmax);
        qg_json_put_end(w);
    }
}

static qg_status ppq_put_snpe(const qg_table *t, FILE *stream)
{
    return put_object(t, stream, ppq_snpe_members);
}

static void ppq_qnn_section(qg_json_writer *w, const qg_table *t, bool constants)
{
    for (size_t i = 0; i < t->row.n; i++) {
        const qg_tqc *c = t->row.at[i].tqc;
        qg_qparam p = qg_tqc_param(c);
        if ((t->row.at[i].value->constant != NULL) != constants)
            continue;
        float scale = ppq_scale(c);
        qg_json_put_array(w, t->row.at[i].value->name);
        qg_json_put_object(w, NULL);
        qg_json_put_int(w, "bitwidth", c->scheme.bits);
        qg_json_put_f64(w, "max", limit(c, 0, scale, c->scheme.qmax));
        qg_json_put_f64(w, "min", limit(c, 0, scale, c->scheme.qmin));
        qg_json_put_int(w, "offset", p.offset ? p.offset[0] : 0);
        qg_json_put_f64(w, "scale", (double)scale);
        qg_json_put_end(w);
        qg_json_put_end(w);
    }
}

static void ppq_qnn_members(qg_json_writer *w, const qg_table *t)
{
    qg_json_put_object(w, "activation_encodings");
    ppq_qnn_section(w, t, false);
    qg_json_put_end(w);
    qg_json_put_object(w, "param_encodings");
    ppq_qnn_section(w, t, true);
    qg_json_put_end(w);
}

static qg_status ppq_put_qnn(const qg_table *t, FILE *stream)
{
    return put_object(t, stream, ppq_qnn_members);
}

static const qg_quirk_row snpe_quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/caffe_exporter.py SNPECaffeExporter"),
    QG_SWAP(PPQ_EXPORTS, "limits alone", QG_PPQ "parser/caffe_exporter.py",
            qg_table_behaviours, put, ppq_put_snpe),
    { 0 },
};

static const qg_quirk_row qnn_quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/qnn_exporter.py QNNDSPExporter"),
    QG_SWAP(PPQ_EXPORTS,
            "D47: the sign of offsets; scales of Softmax and Sigmoid end at 1",
            QG_PPQ "parser/qnn_exporter.py", qg_table_behaviours, put, ppq_put_qnn),
    { 0 },
};

enum { PPQ_STATES = QG_TABLE_EXPORTED | 1u << QG_TQC_OVERLAPPED };

static bool is_narrow(const qg_tqc *t) { return t->scheme.bits <= 8; }

static const qg_table_form snpe_form = {
    .constants = true,
    .grid = qg_encoding_grid,
    .put = put_snpe,
    .ppq = {.states = PPQ_STATES,
            .keeps_first = true,
            .internal = true,
            .takes = is_narrow},
};

static const qg_table_form qnn_form = {
    .constants = true,
    .grid = qg_encoding_grid,
    .put = put_qnn,
    .ppq = {.states = PPQ_STATES, .keeps_first = true},
};

/* --- rows of formats --- */

enum {
    SAYS = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS |
           QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT
};

const qg_format qg_format_snpe_json = {
    .name = "snpe-json",
    .suffix = ".json + .onnx",
    .summary = "quantization overrides of SNPE's converters: limits and bits",
    .says = SAYS,
    .table = &snpe_form,
    .quirk = snpe_quirks,
    .build = qg_table_build,
    .write = qg_table_write,
};

const qg_format qg_format_qnn_encodings = {
    .name = "qnn-encodings",
    .suffix = ".json + .onnx",
    .summary = "quantization overrides of QNN's converters",
    .says = SAYS,
    .table = &qnn_form,
    .quirk = qnn_quirks,
    .build = qg_table_build,
    .write = qg_table_write,
};
