/* mnn.c -- scales of activations for MNN, as a JSON file.
 *
 *     {"shape": {"channels": 3, "height": 224, "width": 224},     of the last input
 *      "conv1_out input_tensor_0": 0.02,                          of a convolution
 *      "conv1_out output_tensor_0": 0.05,
 *      "add_out output_tensor_0": 0.04}                           of a sum
 *
 * An entry is called after the value that the node makes.  Codes are in [-127, 127];
 * MNN computes the scales of weights itself.
 * PPQ      (quirk ppq-exports) writes the scale of a sum's second operand as that of
 *          its output (D44)
 * Source   OpenPPL/ppq@e39eecb ppq/parser/mnn_exporter.py, which defines the file */
#include <stdio.h>

#include "engine/formats/layer.h"

/* The records of the activations of n that have a scale, inputs first, as PPQ lists
 * them; OVERLAPPED ones have that of their dominator. */
typedef struct listed {
    const qg_tqc *at[4];
    size_t n;
} listed;

static listed activations(const qg_node *n)
{
    listed l = { .n = 0 };
    for (uint32_t k = 0; k < qg_node_endpoints(n) && l.n < 4; k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        if (t && !qg_tqc_is_constant(t) && t->visibility != QG_EXPORT_INTERNAL &&
            (qg_tqc_is_on_grid(t) || t->state == QG_TQC_OVERLAPPED) &&
            qg_tqc_param(t).n == 1)
            l.at[l.n++] = t;
    }
    return l;
}

typedef struct behaviours {
    const qg_tqc *(*of_sum)(const listed *l);
} behaviours;

static const qg_tqc *last(const listed *l) { return l->at[l->n - 1]; }
static const qg_tqc *ppq_second(const listed *l) { return l->at[1]; }

static const qg_quirk_row quirks[] = {
    QG_SWAP(PPQ_EXPORTS, "D44: the scale of a sum is that of its second operand",
            QG_PPQ "parser/mnn_exporter.py", behaviours, of_sum, ppq_second),
    { 0 },
};

static qg_status put_scale(qg_export *e, qg_json_writer *w, const qg_node *n,
                           const char *what, const qg_tqc *t)
{
    const char *key =
        qg_arena_printf(e->arena, "%s %s_tensor_0", n->out[0]->name, what);
    if (!key)
        return qg_nomem(e->ctx);
    qg_json_put_f64(w, key, (double)qg_tqc_param(t).scale[0]);
    return QG_OK;
}

static void put_shape(qg_json_writer *w, const qg_graph *g)
{
    static const char *const extent[] = { "channels", "height", "width" };
    const qg_tensor *type = g->input.n ? &g->input.at[g->input.n - 1]->type : NULL;
    qg_json_put_object(w, "shape");
    for (int i = 0; type && i < 3 && i + 1 < type->rank; i++)
        qg_json_put_int(w, extent[i], type->dim[i + 1]);
    qg_json_put_end(w);
}

static bool is_conv(const qg_node *n)
{
    static const char *const conv[] = { "Conv", NULL };
    return qg_table_among(n->op->name, conv);
}

static bool is_sum(const qg_node *n)
{
    static const char *const sum[] = { "Add", NULL };
    return qg_table_among(n->op->name, sum);
}

static qg_status put(qg_export *e, FILE *stream)
{
    const qg_graph *g = e->quant->graph;
    behaviours how = { .of_sum = last };
    qg_json_writer *w = QG_NEW(e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(e->ctx);
    qg_quirk_swap(quirks, e->quirks, &how);
    qg_json_begin(w, e->ctx, stream);
    qg_json_put_object(w, NULL);
    put_shape(w, g);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        listed l = activations(n);
        if (is_conv(n) && l.n == 2) {
            QG_TRY(put_scale(e, w, n, "input", l.at[0]));
            QG_TRY(put_scale(e, w, n, "output", l.at[1]));
        } else if (is_sum(n) && l.n == 3) {
            QG_TRY(put_scale(e, w, n, "output", how.of_sum(&l)));
        }
    }
    qg_json_put_end(w);
    return qg_json_done(w);
}

/* Convolutions and sums with all of their activations are in the file. */
static qg_status build(qg_export *e)
{
    bool *covered = QG_NEWN(e->arena, e->quant->tqc.n, bool);
    if (!covered)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->quant->graph->node.n; i++) {
        const qg_node *n = e->quant->graph->node.at[i];
        listed l = activations(n);
        if (!(is_conv(n) && l.n == 2) && !(is_sum(n) && l.n == 3))
            continue;
        for (size_t k = is_conv(n) ? 0 : 2; k < l.n; k++) {
            qg_table_grid g = { .scheme = l.at[k]->scheme };
            (void)qg_table_int8(l.at[k], &g, 127, false);
            covered[l.at[k]->id] = true;
            if (qg_tqc_is_on_grid(l.at[k]))
                QG_TRY(qg_table_lose_grid(e, l.at[k], &g));
        }
    }
    return qg_table_lose_rest(e, covered);
}

static qg_status write(qg_export *e) { return qg_export_beside_model(e, put); }

const qg_format qg_format_mnn_json = {
    .name = "mnn-json",
    .suffix = ".json + .onnx",
    .summary = "scales of convolutions and sums for MNN, as PPQ writes them",
    .says = QG_SAYS_RANGE | QG_SAYS_POWER_OF_2 | QG_SAYS_SHARING | QG_SAYS_SILENT,
    .quirk = quirks,
    .build = build,
    .write = write,
};
