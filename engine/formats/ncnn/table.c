/* table.c -- the calibration table that ncnn2table writes and ncnn2int8 reads.
 *
 *     conv1_param_0 127.0 63.5          one multiplier per output channel or group
 *     conv1 50.0                        of the layer's input
 *
 * A multiplier is 1 / scale; codes are in [-127, 127].  A leading '#' keeps the layer
 * in float.  ncnn reads decimal floats, so that the numbers here have as many digits as
 * float32 needs; ncnn itself writes six decimals, as PPQ does (quirk ppq-exports).
 *
 * Layers   are those of the .param file given by `names` (ncnn/param.h); without a
 *          file, the nodes
 * Sources  Tencent/ncnn tools/quantize/ncnn2table.cpp, ncnn2int8.cpp; docs
 *          "quantized-int8-inference" and "operators" (0 = num_output, 6 and 2 =
 *          weight_data_size); OpenPPL/ppq@e39eecb ppq/parser/ncnn_exporter.py */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/num.h"
#include "engine/formats/layer.h"
#include "engine/formats/ncnn/param.h"

/* --- writing --- */

/* Of a convolution; 1: not grouped. */
static size_t groups_of(const qg_node *n)
{
    const qg_attr *group = qg_attr_find(n, "group");
    bool grouped = group && group->type == QG_ATTR_INT && group->ints[0] > 1;
    return grouped ? (size_t)group->ints[0] : 1;
}

/* ncnn has one multiplier per group of a grouped convolution: that of the largest
 * scale. */
static float scale_of(const qg_weighted *l, size_t k, size_t count)
{
    size_t per = l->outputs / count;
    float most = 0;
    for (size_t i = 0; i < per; i++) {
        float s = qg_weighted_scale(l, k * per + i);
        most = s > most ? s : most;
    }
    return most;
}

static size_t count_of(const qg_weighted *l)
{
    size_t groups = groups_of(l->node);
    return groups > 1 && l->outputs % groups == 0 ? groups : l->outputs;
}

typedef struct behaviours {
    void (*number)(FILE *stream, float x);
} behaviours;

static void put_number(FILE *stream, float x)
{
    char text[QG_NUM_TEXT];
    qg_num_f32(text, x);
    (void)fprintf(stream, " %s", text);
}

/* printf would follow the locale. */
static void ppq_put_number(FILE *stream, float x)
{
    uint64_t units = (uint64_t)x;
    double millionths = ((double)x - (double)units) * 1e6;
    uint64_t rest = (uint64_t)rint(millionths);
    units += rest / 1000000;
    (void)fprintf(stream, " %llu.%06llu", (unsigned long long)units,
                  (unsigned long long)(rest % 1000000));
}

static const qg_quirk_row quirks[] = {
    QG_SWAP(PPQ_EXPORTS, "multipliers have six decimals",
            QG_PPQ "parser/ncnn_exporter.py", behaviours, number, ppq_put_number),
    { 0 },
};

/* What `build` leaves to `write`. */
typedef struct plan {
    const qg_weighted_list *all;
    const char **name; /* [layers] */
} plan;

static qg_status put(qg_export *e, FILE *stream)
{
    const plan *p = e->built;
    behaviours how = { .number = put_number };
    qg_quirk_swap(quirks, e->quirks, &how);
    for (size_t i = 0; i < p->all->layer.n; i++) {
        const qg_weighted *l = &p->all->layer.at[i];
        (void)fprintf(stream, "%s_param_0", p->name[i]);
        for (size_t k = 0; k < count_of(l); k++)
            how.number(stream, 1 / scale_of(l, k, count_of(l)));
        (void)fputs("\n", stream);
    }
    for (size_t i = 0; i < p->all->layer.n; i++) {
        (void)fputs(p->name[i], stream);
        how.number(stream, 1 / qg_tqc_param(p->all->layer.at[i].data).scale[0]);
        (void)fputs("\n", stream);
    }
    return QG_OK;
}

/* A scale that is not the inverse of its multiplier, or shared within a group. */
static qg_status lose_scales(qg_export *e, const qg_weighted *l)
{
    float data = qg_tqc_param(l->data).scale[0];
    size_t count = count_of(l);
    if (1 / (1 / data) != data)
        QG_TRY(qg_export_lose_result(e, QG_SAYS_ENDPOINT, l->data,
                                     "the scale is read back with another last bit"));
    for (size_t c = 0; c < l->outputs; c++) {
        float s = qg_weighted_scale(l, c),
              own = scale_of(l, c * count / l->outputs, count);
        if (s != own)
            return qg_export_lose_result(e, QG_SAYS_PER_CHANNEL, l->weight,
                                         "one scale per group, the largest");
        if (1 / (1 / s) != s)
            return qg_export_lose_result(e, QG_SAYS_ENDPOINT, l->weight,
                                         "a scale is read back with another last bit");
    }
    return QG_OK;
}

static qg_status lose_layer(qg_export *e, const qg_weighted *l)
{
    qg_table_grid data = { .scheme = l->data->scheme },
                  weight = { .scheme = l->weight->scheme };
    (void)qg_table_int8(l->data, &data, 127, false);
    (void)qg_table_int8(l->weight, &weight, 127, true);
    QG_TRY(qg_table_lose_grid(e, l->data, &data));
    QG_TRY(qg_table_lose_grid(e, l->weight, &weight));
    return lose_scales(e, l);
}

static qg_status build(qg_export *e)
{
    qg_ncnn_param param = { 0 };
    QG_TRY(qg_weighted_build(e));
    const qg_weighted_list *all = e->built;
    plan *p = QG_NEW(e->arena, plan);
    if (!p || !(p->name = QG_NEWN(e->arena, all->layer.n, const char *)))
        return qg_nomem(e->ctx);
    if (e->names) {
        QG_TRY(qg_ncnn_param_read(e->ctx, e->arena, "export", e->names, &param));
        qg_ncnn_param_bind(&param, e->quant->graph);
    }
    for (size_t i = 0; i < all->layer.n; i++) {
        const qg_node *n = all->layer.at[i].node;
        const qg_ncnn_layer *layer = qg_ncnn_layer_of(&param, n);
        p->name[i] = !e->names ? n->name : layer ? layer->name : NULL;
        if (!p->name[i])
            return qg_fail(e->ctx, QG_EMODEL,
                           "export: %s: none of %zu layers with weights is node '%s', "
                           "expected its name, its output or its place",
                           e->names, param.layer.n, n->name);
        QG_TRY(qg_export_word(e, p->name[i], " \t\r\n"));
        QG_TRY(lose_layer(e, &all->layer.at[i]));
    }
    p->all = all;
    e->built = p;
    return qg_table_lose_rest(e, all->covered);
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, put); }

/* --- reading --- */

/* The scales of a line, from its multipliers. */
static qg_status read_scales(qg_table_reader *r, char *rest, float *scale, size_t *n)
{
    const char *word;
    *n = 0;
    while ((word = qg_ncnn_next_word(&rest)) != NULL) {
        double x;
        size_t length = strlen(word);
        if (length > 64 || !qg_num_parse_f64(word, length, &x) ||
            !qg_import_is_scale(1 / (float)x))
            return qg_table_fail(r,
                                 "'%.32s', expected a finite multiplier > 0, whose "
                                 "reciprocal is a scale",
                                 word);
        scale[(*n)++] = 1 / (float)x;
    }
    return *n ? QG_OK : qg_table_fail(r, "expected multipliers behind the name");
}

/* One record: per tensor, or per channel with those of a group repeated. */
static qg_status add_record(qg_table_reader *r, qg_node *n, uint32_t slot,
                            const float *scale, size_t count)
{
    qg_scheme s = { .policy = QG_LINEAR | QG_SYMMETRIC,
                    .rounding = QG_ROUND_HALF_AWAY,
                    .bits = 8,
                    .axis = -1,
                    .qmin = -127,
                    .qmax = 127 };
    qg_grid_record grid;
    qg_table_params room;
    size_t all = count;
    if (slot && n->op->weight_axis && count > 1) {
        int axis = n->op->weight_axis(n);
        const qg_tensor *type = &n->in[slot]->type;
        int64_t extent = axis >= 0 && axis < type->rank ? type->dim[axis] : 0;
        if (count == groups_of(n) && extent > 0 && (size_t)extent % count == 0)
            all = (size_t)extent;
        s.axis = (int16_t)axis;
    }
    s.policy |= all > 1 ? QG_PER_CHANNEL : QG_PER_TENSOR;
    s.axis = all > 1 ? s.axis : -1;
    QG_TRY(qg_table_grid_new(r, &s, all, &grid, &room));
    for (size_t c = 0; c < all; c++)
        room.scale[c] = scale[c * count / all];
    return qg_table_found_at(r, qg_input_at(n, slot), &grid);
}

static qg_node *layer_node(const qg_table_reader *r, const char *name)
{
    const qg_ncnn_param *p = r->param;
    for (size_t i = 0; p && i < p->layer.n; i++)
        if (p->layer.at[i].node && strcmp(p->layer.at[i].name, name) == 0)
            return p->layer.at[i].node;
    return p ? NULL : qg_graph_node(r->g, name);
}

/* "name_param_0" is the weight of layer `name`, unless a layer has that name. */
static qg_status read_line(qg_table_reader *r, char *text)
{
    static const char suffix[] = "_param_0";
    char *rest = text, *name = qg_ncnn_next_word(&rest);
    size_t n, length = name ? strlen(name) : 0, cut = sizeof suffix - 1;
    if (!name || *name == '#')
        return QG_OK;
    float *scale = QG_NEWN(r->g->arena, strlen(rest) / 2 + 1, float);
    if (!scale)
        return qg_nomem(r->ctx);
    QG_TRY(read_scales(r, rest, scale, &n));
    qg_node *node = layer_node(r, name);
    uint32_t slot = 0;
    if (!node && qg_path_ends_in(name, suffix)) {
        name[length - cut] = '\0';
        node = layer_node(r, name);
        slot = node ? qg_ncnn_weight_slot(node) : 0;
        node = slot ? node : NULL;
        name[length - cut] = suffix[0]; /* for messages, as the file has it */
    }
    if (!node || node->n_in == 0 || !node->in[slot] ||
        qg_node_has(node, QG_OP_CONTROL | QG_OP_QUANTIZER))
        return qg_table_leave_out(r, name, QG_LEFT_MISSING);
    return add_record(r, node, slot, scale, n);
}

/* Takes a planned grid back; the layer stays in float. */
static qg_status drop(qg_table_reader *r, const qg_node *n, uint32_t slot,
                      enum qg_table_reason why)
{
    char name[QG_ENDPOINT_TEXT];
    r->plan[n->id].in[slot] = NULL;
    r->found--;
    return qg_table_leave_out(r, qg_endpoint_text(qg_input_at(n, slot), name), why);
}

/* ncnn2int8 quantizes layers with weights, by both of their lines: one without the line
 * of its data stays in float, one without that of its weight is an error. */
static qg_status check_pairs(qg_table_reader *r, const qg_node *n)
{
    uint32_t slot = qg_ncnn_weight_slot(n);
    bool data = qg_record_planned(&r->plan[n->id], qg_input_at(n, 0));
    bool weight = slot && qg_record_planned(&r->plan[n->id], qg_input_at(n, slot));
    if (data && slot && !weight)
        return qg_fail(r->ctx, QG_EMODEL,
                       "import: %s: layer '%.1000s': has a line for its data alone, "
                       "expected '%.100s_param_0', too",
                       r->file->name, n->name, n->name);
    if (data && !slot)
        return drop(r, n, 0, QG_LEFT_WITHOUT_WEIGHT);
    return weight && !data ? drop(r, n, slot, QG_LEFT_WITHOUT_DATA) : QG_OK;
}

static qg_status read_names(qg_table_reader *r)
{
    qg_ncnn_param *p = QG_NEW(r->g->arena, qg_ncnn_param);
    if (!p)
        return qg_nomem(r->ctx);
    QG_TRY(qg_ncnn_param_read(r->ctx, r->g->arena, "import", r->names, p));
    qg_ncnn_param_bind(p, r->g);
    r->param = p;
    return QG_OK;
}

static const char *layer_name(const qg_table_reader *r, size_t k)
{
    for (size_t i = 0; r->param && i < r->param->layer.n; i++)
        if (r->param->layer.at[i].node && k-- == 0)
            return r->param->layer.at[i].name;
    for (size_t i = 0; !r->param && i < r->g->node.n; i++)
        if (qg_ncnn_weight_slot(r->g->node.at[i]) && k-- == 0)
            return r->g->node.at[i]->name;
    return NULL;
}

static qg_status parse(qg_table_reader *r, const qg_json_source *from)
{
    bool ended = false;
    qg_table_line text;
    size_t offset = 0;
    (void)from;
    if (r->names)
        QG_TRY(read_names(r));
    while (qg_table_next_line(r, &offset, &text)) {
        char *copy = QG_NEWN(r->g->arena, text.n + 1, char);
        if (!copy)
            return qg_nomem(r->ctx);
        memcpy(copy, text.at, text.n);
        bool empty = !copy[strspn(copy, " \t\r")];
        if (ended && !empty)
            return qg_table_fail(
                r, "has an empty line above it, where ncnn2int8 stops, expected none");
        ended |= empty;
        QG_TRY(read_line(r, copy));
    }
    for (size_t i = 0; i < r->g->node.n; i++)
        if (r->g->node.at[i]->n_in)
            QG_TRY(check_pairs(r, r->g->node.at[i]));
    return QG_OK;
}

static const qg_table_form form = { .constants = true,
                                    .parse = parse,
                                    .name = layer_name };

const qg_format qg_format_ncnn_table = {
    .name = "ncnn-table",
    .suffix = ".table + .onnx",
    .summary = "calibration table of ncnn2int8; --names net.param for its layers",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_RANGE | QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING |
            QG_SAYS_SILENT,
    .rounding = QG_ROUND_HALF_AWAY,
    .nan = QG_NAN_BIT(QG_NAN_LOWEST),
    .table = &form,
    .quirk = quirks,
    .build = build,
    .write = write,
    .import = qg_table_import,
    .needs_model = true,
    .takes_names = true,
};
