/* node_data.c -- node data of Google's Model Explorer: colours over the graph that its
 * ONNX adapter shows for the snapshot's model.onnx.
 *
 *     {"<graph name>": {"name": "bits", "results": {"<node name>": {"value": 8}},
 *                       "thresholds": [...]}}
 *
 *     FILE              state: of the node's first output, or first input, as a word
 *                       ("none" without a record), with a colour
 *     FILE.bits.json    the fewest bits of the node's endpoints
 *     FILE.group.json   the same endpoint's dominator: its TQC id; -1 without a record
 *     FILE.nsr.json     with `analysis`, a report of `qg analyse --json`: its errors,
 *                       called after its metric
 *
 * Keys are ids of the adapter: names of nodes, and of the graph.
 * Sources  google-ai-edge/model-explorer, node_data_builder.py; justinchuby/
 *          model-explorer-onnx, main.py create_graph, create_op_node */
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/json.h"
#include "engine/formats/format.h"

enum kind { STATE, BITS, GROUP, ERROR, N_KIND };
static const char *const kind_name[N_KIND] = { "state", "bits", "group", "nsr" };

typedef struct built {
    const qg_json *report; /* NULL: none */
    const qg_json *errors; /* of it */
    const char *path[N_KIND];
} built;

/* The record that a node is shown by; NULL: it has none. */
static const qg_tqc *shown(const qg_node *n)
{
    const qg_tqc *t = qg_output_tqc(n, 0);
    for (uint32_t k = 0; !t && k < qg_node_endpoints(n); k++)
        t = qg_node_tqc(n, k);
    return t;
}

static int64_t fewest_bits(const qg_node *n)
{
    int64_t least = 32;
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        bool exact = !t || t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI;
        least = !exact && t->scheme.bits < least ? t->scheme.bits : least;
    }
    return least;
}

/* By what the endpoint does: it rounds, is rounded, leaves it to another, is off. */
static const char *colour_of(const qg_tqc *t)
{
    if (!t || t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI)
        return "#f7f7f7";
    if (qg_tqc_rounds(t))
        return "#a6dba0";
    if (t->state == QG_TQC_OVERLAPPED)
        return "#d9d9d9";
    return qg_tqc_is_baked(t) ? "#92c5de" : "#f46d43";
}

static void put_result(qg_json_writer *w, const qg_node *n, enum kind kind)
{
    const qg_tqc *t = shown(n);
    qg_json_put_object(w, n->name);
    if (kind == BITS)
        qg_json_put_int(w, "value", fewest_bits(n));
    else if (kind == STATE)
        qg_json_put_text(w, "value", t ? qg_tqc_state_name(t->state) : "none");
    else
        qg_json_put_int(w, "value", t ? (int64_t)qg_tqc_root(t)->id : -1);
    if (kind == STATE)
        qg_json_put_text(w, "bgColor", colour_of(t));
    qg_json_put_end(w);
}

/* Rows of the report that name nodes of the graph. */
static qg_status put_errors(qg_export *e, qg_json_writer *w)
{
    const built *b = e->built;
    for (size_t i = 0; i < b->errors->count; i++) {
        const char *name;
        double x;
        QG_TRY(qg_json_text(e->ctx, &b->errors->item[i], "name", &name));
        QG_TRY(qg_json_f64(e->ctx, &b->errors->item[i], "error", &x));
        if (!qg_graph_node(e->quant->graph, name))
            continue;
        qg_json_put_object(w, name);
        qg_json_put_f64(w, "value", x);
        qg_json_put_end(w);
    }
    return QG_OK;
}

/* Values up to `value` have the colour. */
static void put_threshold(qg_json_writer *w, double value, const char *colour)
{
    qg_json_put_object(w, NULL);
    qg_json_put_f64(w, "value", value);
    qg_json_put_text(w, "bgColor", colour);
    qg_json_put_end(w);
}

/* From what is coarse, or right, to what is fine, or wrong. */
static void put_colours(qg_json_writer *w, enum kind kind)
{
    if (kind != BITS && kind != ERROR)
        return;
    qg_json_put_array(w, "thresholds");
    put_threshold(w, kind == BITS ? 4 : 0.001, kind == BITS ? "#f4a582" : "#d9f0d3");
    put_threshold(w, kind == BITS ? 8 : 0.01, kind == BITS ? "#92c5de" : "#fee08b");
    put_threshold(w, kind == BITS ? 32 : 1e30, kind == BITS ? "#f7f7f7" : "#f46d43");
    qg_json_put_end(w);
}

static qg_status put(qg_export *e, enum kind kind, FILE *stream)
{
    const qg_graph *g = e->quant->graph;
    const built *b = e->built;
    const char *metric = kind_name[kind];
    qg_json_writer *w = QG_NEW(e->arena, qg_json_writer);
    if (!w)
        return qg_nomem(e->ctx);
    if (kind == ERROR)
        QG_TRY(qg_json_text(e->ctx, b->report, "metric", &metric));
    qg_json_begin(w, e->ctx, stream);
    qg_json_put_object(w, NULL);
    qg_json_put_object(w, *g->name ? g->name : "graph"); /* as onnx/export.c */
    qg_json_put_text(w, "name", metric);
    qg_json_put_object(w, "results");
    for (size_t i = 0; i < g->node.n && kind != ERROR; i++)
        put_result(w, g->node.at[i], kind);
    if (kind == ERROR)
        QG_TRY(put_errors(e, w));
    qg_json_put_end(w);
    put_colours(w, kind);
    qg_json_put_end(w);
    qg_json_put_end(w);
    return qg_json_done(w);
}

/* The errors are objects with names, one at least of a node of the graph. */
static qg_status check_errors(qg_export *e, const qg_json *errors)
{
    bool any = errors->count == 0;
    for (size_t i = 0; i < errors->count; i++) {
        const char *name;
        if (errors->item[i].type != QG_JSON_OBJECT)
            return qg_json_fail(e->ctx, QG_EPARSE, &errors->item[i],
                                "is not an object, expected an object");
        QG_TRY(qg_json_text(e->ctx, &errors->item[i], "name", &name));
        any |= qg_graph_node(e->quant->graph, name) != NULL;
    }
    return any ? QG_OK
               : qg_json_fail(e->ctx, QG_EPARSE, errors,
                              "names no node of the snapshot, expected the analysis of "
                              "this network");
}

static qg_status build(qg_export *e)
{
    built *b = QG_NEW(e->arena, built);
    if (!b)
        return qg_nomem(e->ctx);
    e->built = b;
    QG_TRY(qg_export_lose(e, QG_SAYS_ENDPOINT, NULL,
                          "a view: state, fewest bits and group of one endpoint per "
                          "node; no scales, offsets, limits or roundings"));
    b->path[STATE] = e->path;
    for (int k = BITS; k < N_KIND; k++)
        b->path[k] = qg_arena_printf(e->arena, "%s.%s.json", e->path, kind_name[k]);
    if (!b->path[BITS] || !b->path[GROUP] || !b->path[ERROR])
        return qg_nomem(e->ctx);
    if (!e->analysis)
        return QG_OK;
    QG_TRY(qg_json_read(e->ctx, e->arena, e->analysis, (size_t)1 << 30, &b->report));
    if (b->report->type != QG_JSON_OBJECT)
        return qg_json_fail(e->ctx, QG_EPARSE, b->report,
                            "is not a report of `qg analyse --json`");
    QG_TRY(qg_json_member(e->ctx, b->report, "errors", QG_JSON_ARRAY, &b->errors));
    return check_errors(e, b->errors);
}

/* All files, or none; the one that the user named is the last to be put in place. */
static qg_status write(qg_export *e)
{
    const built *b = e->built;
    qg_writer w[N_KIND] = { 0 };
    qg_writer *all[N_KIND];
    size_t n = e->analysis ? N_KIND : ERROR;
    qg_status s = QG_OK;
    for (size_t k = 0; k < n && s == QG_OK; k++) {
        all[n - 1 - k] = &w[k];
        s = qg_writer_open(e->ctx, b->path[k], &w[k]);
        if (s == QG_OK)
            s = put(e, (enum kind)k, w[k].stream);
        if (s == QG_OK && k != STATE)
            s = qg_export_keep_beside(e, b->path[k], &w[k]);
    }
    if (s == QG_OK)
        s = qg_writers_commit(all, n);
    for (size_t k = 0; k < n; k++)
        qg_writer_abandon(&w[k]);
    for (size_t k = 0; k < n && s == QG_OK; k++)
        s = qg_export_wrote(e, b->path[k]);
    return s;
}

const qg_format qg_format_model_explorer = {
    .name = "model-explorer",
    .suffix = ".json (several)",
    .summary = "node data for Model Explorer: state, bits, group, errors; shows "
               "SNAPSHOT/model.onnx",
    .says = 0, /* an overlay: nothing computes from it */
    .build = build,
    .write = write,
    .takes_analysis = true,
};
