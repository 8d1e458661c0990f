/* rknn.c -- the .quantization.cfg of RKNN-Toolkit2's hybrid quantization, between its
 * steps 1 and 2: YAML, one entry per tensor.
 *
 *     custom_quantize_layers: {}
 *     quantize_parameters:
 *         relu1_out:
 *             qtype: asymmetric_quantized
 *             qmethod: layer
 *             dtype: int8
 *             min: [-1.0]
 *             max: [1.0]
 *             scale: [0.00784313725490196]
 *             zero_point: [0]
 *             ori_min: [-1.0]
 *             ori_max: [1.0]
 *
 * Grid     int8 or int16, all codes; codes of an unsigned grid are 128 lower.  ori_min
 *          and ori_max, the limits that calibration saw, are those of the grid here.
 * Names    are those of the ONNX model; step 2 takes the tensors that its own step 1
 *          has listed
 * Source   Rockchip RKNN Toolkit2 user guide, "Hybrid quantization" */
#include "engine/core/num.h"
#include "engine/formats/table.h"

static bool grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g)
{
    qg_scheme *s = &g->scheme;
    (void)e;
    if (s->policy & (QG_BLOCK | QG_DYNAMIC | QG_FLOATING) || s->bits > 16)
        return false;
    s->bits = s->bits <= 8 ? 8 : 16;
    int64_t half = INT64_C(1) << (s->bits - 1);
    g->shift = s->qmin < 0 ? 0 : -half;
    if (g->shift) {
        s->policy &= (uint16_t)~QG_SYMMETRIC;
        s->policy |= QG_ASYMMETRIC;
    }
    s->qmin = -half;
    s->qmax = half - 1;
    if (s->policy & QG_PER_CHANNEL)
        s->axis = qg_guess_axis(qg_tqc_endpoint(t), qg_tqc_param(t).n);
    return true;
}

/* One line with a number per parameter. */
static void put_list(const qg_table *t, const qg_tqc *c, FILE *stream, const char *key,
                     double (*of)(const qg_export *e, const qg_tqc *t, size_t channel))
{
    (void)fprintf(stream, "        %s: [", key);
    for (size_t k = 0; k < qg_tqc_param(c).n; k++) {
        char text[QG_NUM_TEXT];
        qg_num_f64(text, of(t->e, c, k));
        (void)fprintf(stream, "%s%s", k ? ", " : "", text);
    }
    (void)fputs("]\n", stream);
}

static double scale_of(const qg_export *e, const qg_tqc *t, size_t channel)
{
    (void)e;
    return (double)qg_tqc_param(t).scale[channel];
}

/* A name as a YAML text in single quotes. */
static void put_name(const char *name, FILE *stream)
{
    (void)fputs("    '", stream);
    for (; *name; name++)
        (void)fputs(*name == '\'' ? "''" : (char[]){ *name, '\0' }, stream);
    (void)fputs("':\n", stream);
}

static void put_row(const qg_table *t, const qg_table_row *row, FILE *stream)
{
    const qg_tqc *c = row->tqc;
    qg_table_grid g = qg_table_grid_of(t->e, c);
    bool symmetric = g.scheme.policy & QG_SYMMETRIC, channels = qg_tqc_param(c).n > 1;
    put_name(row->value->name, stream);
    (void)fprintf(stream, "        qtype: %s_quantized\n",
                  symmetric ? "symmetric" : "asymmetric");
    (void)fprintf(stream, "        qmethod: %s\n", channels ? "channel" : "layer");
    (void)fprintf(stream, "        dtype: int%u\n", g.scheme.bits);
    put_list(t, c, stream, "min", qg_table_low);
    put_list(t, c, stream, "max", qg_table_high);
    put_list(t, c, stream, "scale", scale_of);
    (void)fputs("        zero_point: [", stream);
    for (size_t k = 0; k < qg_tqc_param(c).n; k++)
        (void)fprintf(stream, "%s%lld", k ? ", " : "",
                      (long long)qg_table_zero(t->e, c, k));
    (void)fputs("]\n", stream);
    put_list(t, c, stream, "ori_min", qg_table_low);
    put_list(t, c, stream, "ori_max", qg_table_high);
}

static qg_status put(const qg_table *t, FILE *stream)
{
    (void)fprintf(stream, "custom_quantize_layers: {}\nquantize_parameters:%s\n",
                  t->row.n ? "" : " {}");
    for (size_t i = 0; i < t->row.n; i++)
        put_row(t, &t->row.at[i], stream);
    return QG_OK;
}

static const qg_table_form form = { .constants = true, .grid = grid, .put = put };

const qg_format qg_format_rknn_cfg = {
    .name = "rknn-cfg",
    .suffix = ".quantization.cfg + .onnx",
    .summary = "RKNN-Toolkit2's configuration of hybrid quantization",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_POWER_OF_2 |
            QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT,
    .table = &form,
    .build = qg_table_build,
    .write = qg_table_write,
};
