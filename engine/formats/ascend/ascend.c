/* ascend.c -- the record file of Ascend's model compression toolkit (AMCT): a protobuf
 * message as text, one record per layer.
 *
 *     record {
 *       key: "conv1"
 *       value {
 *         scale_d: 0.02        of the data, int8
 *         offset_d: -28        its zero point
 *         scale_w: 0.01        of the weight, one per output channel, int8 symmetric
 *         offset_w: 0
 *         channels: 3          of the data
 *         height: 224
 *         width: 224
 *       }
 *     }
 *
 * Layers   Conv, ConvTranspose, Gemm, MatMul; AveragePool without a weight
 * Scales   are within [FLT_EPSILON, 1 / FLT_EPSILON], as AMCT requires
 * Sources  Ascend CANN documentation, AMCT (ONNX), "Quantization factor record file";
 *          OpenPPL/ppq@e39eecb ppq/parser/ascend_export.py */
#include <float.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/formats/layer.h"

/* --- grids --- */

/* Codes of int8. */
static qg_table_grid data_grid(const qg_tqc *t)
{
    qg_table_grid g = { .scheme = t->scheme };
    g.scheme.bits = 8;
    g.scheme.qmin = -128;
    g.scheme.qmax = 127;
    g.shift = t->scheme.qmin < 0 ? 0 : -128;
    g.scheme.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
    return g;
}

static bool is_pooling(const qg_node *n)
{
    static const char *const pooling[] = { "AveragePool", NULL };
    return qg_table_among(n->op->name, pooling);
}

/* What rounds the data of a pooling that has a record; NULL: none. */
static const qg_tqc *pooled(const qg_node *n)
{
    const qg_tqc *t = is_pooling(n) ? qg_weighted_rounds(n, 0) : NULL;
    return t && qg_tqc_param(t).n == 1 && n->platform == QG_PLATFORM_QUANTIZED ? t
                                                                               : NULL;
}

/* --- writing --- */

static void put_scale(FILE *stream, const char *key, float scale)
{
    char text[QG_NUM_TEXT];
    double s = (double)scale;
    double least = (double)FLT_EPSILON;
    qg_num_f64(text, s < least ? least : s > 1 / least ? 1 / least : s);
    (void)fprintf(stream, "    %s: %s\n", key, text);
}

/* A text of protobuf's text format. */
static void put_key(FILE *stream, const char *name)
{
    (void)fputs("record {\n  key: \"", stream);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            (void)fputc('\\', stream);
        (void)fputc(*name, stream);
    }
    (void)fputs("\"\n  value {\n", stream);
}

/* Channels, height and width of the data; 1 where it has no such axis. */
static void put_shape(FILE *stream, const qg_tensor *type)
{
    static const char *const extent[] = { "channels", "height", "width" };
    for (int i = 0; i < 3; i++)
        (void)fprintf(stream, "    %s: %lld\n", extent[i],
                      i + 1 < type->rank ? (long long)type->dim[i + 1] : 1LL);
    (void)fputs("  }\n}\n", stream);
}

static void put_data(FILE *stream, const qg_node *n, const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    put_key(stream, n->name);
    put_scale(stream, "scale_d", p.scale[0]);
    (void)fprintf(stream, "    offset_d: %lld\n",
                  (long long)((p.offset ? p.offset[0] : 0) + data_grid(t).shift));
}

static void put_layer(FILE *stream, const qg_weighted *l)
{
    size_t n = qg_tqc_param(l->weight).n;
    put_data(stream, l->node, l->data);
    for (size_t c = 0; c < n; c++)
        put_scale(stream, "scale_w", qg_weighted_scale(l, c));
    for (size_t c = 0; c < n; c++)
        (void)fputs("    offset_w: 0\n", stream);
    put_shape(stream, &l->node->in[0]->type);
}

/* In order of nodes. */
static qg_status put(qg_export *e, FILE *stream)
{
    const qg_weighted_list *all = e->built;
    size_t k = 0;
    for (size_t i = 0; i < e->quant->graph->node.n; i++) {
        const qg_node *n = e->quant->graph->node.at[i];
        const qg_tqc *t = pooled(n);
        if (k < all->layer.n && all->layer.at[k].node == n)
            put_layer(stream, &all->layer.at[k++]);
        if (!t)
            continue;
        put_data(stream, n, t);
        put_shape(stream, &n->in[0]->type);
    }
    return QG_OK;
}

/* --- losses --- */

static qg_status lose_clamp(qg_export *e, const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    for (size_t c = 0; c < p.n; c++)
        if (p.scale[c] < FLT_EPSILON || p.scale[c] > 1 / FLT_EPSILON)
            return qg_export_lose_result(
                e, QG_SAYS_ENDPOINT, t,
                "scale %g, written as the nearest that the file allows",
                (double)p.scale[c]);
    return QG_OK;
}

static qg_status lose_data(qg_export *e, const qg_tqc *t)
{
    qg_table_grid g = data_grid(t);
    QG_TRY(lose_clamp(e, t));
    return qg_table_lose_grid(e, t, &g);
}

static qg_status build(qg_export *e)
{
    QG_TRY(qg_weighted_build(e));
    const qg_weighted_list *all = e->built;
    for (size_t i = 0; i < all->layer.n; i++) {
        const qg_weighted *l = &all->layer.at[i];
        qg_table_grid weight = { .scheme = l->weight->scheme };
        (void)qg_table_int8(l->weight, &weight, 128, true);
        QG_TRY(lose_data(e, l->data));
        QG_TRY(lose_clamp(e, l->weight));
        QG_TRY(qg_table_lose_grid(e, l->weight, &weight));
    }
    for (size_t i = 0; i < e->quant->graph->node.n; i++) {
        const qg_tqc *t = pooled(e->quant->graph->node.at[i]);
        if (t && !all->covered[t->id]) {
            all->covered[t->id] = !t->is_output || qg_tqc_value(t)->use.n == 1;
            QG_TRY(lose_data(e, t));
        }
    }
    return qg_table_lose_rest(e, all->covered);
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, put); }

const qg_format qg_format_ascend_record = {
    .name = "ascend-record",
    .suffix = ".txt + .onnx",
    .summary = "quantization factors of Ascend's AMCT, one record per layer",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_POWER_OF_2 |
            QG_SAYS_SHARING | QG_SAYS_SILENT,
    .build = build,
    .write = write,
};
