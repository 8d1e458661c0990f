/* ppl.c -- the file of scales that PPLNN's CUDA engine reads (--quant-file).
 *
 *     {"quant_info": {value: {"bit_width", "per_channel", "quant_flag", "sym", "scale",
 *                     "zero_point", "tensor_min", "tensor_max", "q_min", "q_max",
 *                     "hash", "dominator"}},
 *      "op_info": {node: {"data_type": "INT8"}}}
 *
 * hash and dominator are TQC ids, as in ppq-json; limits are float32.
 * PPQ      (quirk ppq-exports) leaves out biases and whatever is wider than 8 bits
 * Sources  OpenPPL/ppl.nn docs/en/cuda-doc, "quantization"; OpenPPL/ppq@e39eecb
 *          ppq/parser/ppl.py */
#include "engine/formats/table.h"

static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    (void)e;
    if (g->scheme.policy & (QG_BLOCK | QG_DYNAMIC | QG_FLOATING))
        return false;
    if (g->scheme.policy & QG_PER_CHANNEL)
        g->scheme.axis = qg_guess_axis(qg_tqc_endpoint(t), qg_tqc_param(t).n);
    return true;
}

enum number { SCALE, ZERO, LOW, HIGH };

/* A number, or a list per channel. */
static void put_numbers(qg_json_writer *w, const char *key, const qg_tqc *t,
                        enum number what)
{
    qg_qparam p = qg_tqc_param(t);
    const qg_scheme *s = &t->scheme;
    bool list = s->policy & QG_PER_CHANNEL;
    if (list)
        qg_json_put_array(w, key);
    for (size_t c = 0; c < p.n; c++) {
        const char *name = list ? NULL : key;
        int64_t zero = p.offset ? p.offset[c] : 0;
        int64_t code = what == LOW ? s->qmin : s->qmax;
        if (what == ZERO)
            qg_json_put_int(w, name, zero);
        else if (what == SCALE)
            qg_json_put_f64(w, name, (double)p.scale[c]);
        else
            qg_json_put_f64(w, name, (double)(p.scale[c] * (float)(code - zero)));
    }
    if (list)
        qg_json_put_end(w);
}

static void put_row(qg_json_writer *w, const qg_table_row *row)
{
    const qg_tqc *t = row->tqc;
    qg_json_put_object(w, row->value->name);
    qg_json_put_int(w, "bit_width", t->scheme.bits);
    qg_json_put_bool(w, "per_channel", t->scheme.policy & QG_PER_CHANNEL);
    qg_json_put_bool(w, "quant_flag", true);
    qg_json_put_bool(w, "sym", t->scheme.policy & QG_SYMMETRIC);
    put_numbers(w, "scale", t, SCALE);
    put_numbers(w, "zero_point", t, ZERO);
    put_numbers(w, "tensor_min", t, LOW);
    put_numbers(w, "tensor_max", t, HIGH);
    qg_json_put_int(w, "q_min", t->scheme.qmin);
    qg_json_put_int(w, "q_max", t->scheme.qmax);
    qg_json_put_int(w, "hash", t->id);
    qg_json_put_int(w, "dominator", qg_tqc_root(t)->id);
    qg_json_put_end(w);
}

static qg_status put(const qg_table *t, FILE *stream)
{
    const qg_graph *g = t->e->quant->graph;
    qg_json_writer *w = QG_NEW(t->e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(t->e->ctx);
    qg_json_begin(w, t->e->ctx, stream);
    qg_json_put_object(w, NULL);
    qg_json_put_object(w, "quant_info");
    for (size_t i = 0; i < t->row.n; i++)
        put_row(w, &t->row.at[i]);
    qg_json_put_end(w);
    qg_json_put_object(w, "op_info");
    for (size_t i = 0; i < g->node.n; i++) {
        if (g->node.at[i]->platform != QG_PLATFORM_QUANTIZED)
            continue;
        qg_json_put_object(w, g->node.at[i]->name);
        qg_json_put_text(w, "data_type", "INT8");
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
    qg_json_put_end(w);
    return qg_json_done(w);
}

static bool is_narrow(const qg_tqc *t) { return t->scheme.bits <= 8; }

static const qg_quirk_row quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/ppl.py PPLBackendExporter"),
    { 0 },
};

static const qg_table_form form = {
    .constants = true,
    .grid = grid,
    .put = put,
    .ppq = {.states = QG_TABLE_EXPORTED, .keeps_first = true, .takes = is_narrow},
};

const qg_format qg_format_ppl_json = {
    .name = "ppl-json",
    .suffix = ".json + .onnx",
    .summary = "quantization file of PPLNN's CUDA engine",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS |
            QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT,
    .table = &form,
    .quirk = quirks,
    .build = qg_table_build,
    .write = qg_table_write,
};
