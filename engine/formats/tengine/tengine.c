/* tengine.c -- the scale file of Tengine's quantization tools, one line per tensor:
 *
 *     relu1_out 0.0186 128                name, scale, zero point
 *
 * Grid     uint8, or int8 where the codes may be negative
 * PPQ      (quirk ppq-exports) has no line for constants that are rounded already, and
 *          lines for overlapped endpoints
 * Sources  OAID/Tengine, the quantization tools (the reader);
 *          OpenPPL/ppq@e39eecb ppq/parser/tengine_exporter.py */
#include "engine/core/num.h"
#include "engine/formats/table.h"

static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    qg_scheme *s = &g->scheme;
    (void)e;
    (void)t;
    if (s->policy & (QG_PER_CHANNEL | QG_BLOCK | QG_DYNAMIC | QG_FLOATING))
        return false;
    s->bits = 8;
    s->qmin = s->qmin < 0 ? -128 : 0;
    s->qmax = s->qmin + 255;
    return true;
}

static qg_status put(const qg_table *t, FILE *stream)
{
    for (size_t i = 0; i < t->row.n; i++) {
        char scale[QG_NUM_TEXT];
        const qg_tqc *c = t->row.at[i].tqc;
        qg_num_f64(scale, (double)qg_tqc_param(c).scale[0]);
        (void)fprintf(stream, "%s %s %lld\n", t->row.at[i].value->name, scale,
                      (long long)qg_table_zero(t->e, c, 0));
    }
    return QG_OK;
}

static const qg_quirk_row quirks[] = {
    QG_TABLE_PPQ_ROWS("parser/tengine_exporter.py"),
    { 0 },
};

static const qg_table_form form = {
    .constants = true,
    .grid = grid,
    .put = put,
    .ppq = {.states = QG_TABLE_ACTIVE | 1u << QG_TQC_OVERLAPPED, .internal = true},
    .ends = " \t\r\n",
};

const qg_format qg_format_tengine_scale = {
    .name = "tengine-scale",
    .suffix = ".scale + .onnx",
    .summary = "scale file of Tengine's quantization tools",
    .says = QG_SAYS_OFFSET | QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_DERIVED |
            QG_SAYS_SILENT,
    .table = &form,
    .quirk = quirks,
    .build = qg_table_build,
    .write = qg_table_write,
};
