#include "engine/formats/ppq/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/json.h"
#include "engine/onnx/export.h"

const qg_ppq_property qg_ppq_properties[QG_PPQ_PROPERTIES] = {
    {"PER_TENSOR",    QG_PER_TENSOR },
    { "PER_CHANNEL",  QG_PER_CHANNEL},
    { "LINEAR",       QG_LINEAR     },
    { "FLOATING",     QG_FLOATING   },
    { "SYMMETRICAL",  QG_SYMMETRIC  },
    { "ASYMMETRICAL", QG_ASYMMETRIC },
    { "POWER_OF_2",   QG_POWER_OF_2 },
    { "DYNAMIC",      QG_DYNAMIC    },
};

static const int64_t e4m3_largest = 448;

/* The axis that PPQ means, unless the number of scales says that it cannot be. */
static int16_t guess_axis(qg_endpoint at, size_t count)
{
    const qg_node *n = at.node;
    const qg_tensor *t = &qg_endpoint_value(at)->type;
    bool weight = qg_endpoint_role(at) == 'w';
    int axis = weight && n->op->weight_axis ? n->op->weight_axis(n) : -1;
    if (axis < 0)
        axis = t->rank == 1 ? 0 : 1;
    if (!count || (axis < t->rank && t->dim[axis] == (int64_t)count))
        return (int16_t)axis;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] == (int64_t)count)
            return (int16_t)i;
    return (int16_t)axis;
}

void qg_ppq_guess(qg_endpoint at, size_t count, qg_scheme *s)
{
    s->rounding = QG_ROUND_HALF_EVEN;
    s->axis = s->policy & QG_PER_CHANNEL ? guess_axis(at, count) : -1;
    s->exponent_bits = 0;
    if (s->policy & QG_FLOATING)
        s->exponent_bits = s->qmax == e4m3_largest ? 4 : 5;
}

/* Platforms that PPQ does not call after their type. */
static const struct {
    const char *backend, *platform;
} irregular[] = {
    {"onnxruntime-int8", "ONNXRUNTIME"}
};

const char *qg_ppq_platform(qg_arena *a, const char *backend)
{
    for (size_t i = 0; i < sizeof irregular / sizeof irregular[0]; i++)
        if (strcmp(irregular[i].backend, backend) == 0)
            return irregular[i].platform;
    static const char prefix[] = "ppq-";
    size_t skip =
        strncmp(backend, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    char *name = qg_arena_strdup(a, backend + skip);
    for (char *p = name; p && *p; p++)
        *p = (char)(*p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    return name;
}

/* --- what a reader cannot know --- */

/* States that PPQ has; the others are FP32 there. */
static qg_tqc_state state_in_ppq(qg_tqc_state s)
{
    return s == QG_TQC_SOI || s == QG_TQC_DEACTIVATED || s == QG_TQC_DEQUANTIZED
               ? QG_TQC_FP32
               : s;
}

/* What a reader of the file will take for granted, and wrongly. */
static qg_status lose_guess(qg_export *e, const qg_tqc *t)
{
    qg_scheme guess = t->scheme;
    if (state_in_ppq(t->state) == QG_TQC_FP32)
        return QG_OK;
    qg_ppq_guess(qg_tqc_endpoint(t), qg_tqc_param(t).n, &guess);
    if (guess.axis != t->scheme.axis) {
        QG_TRY(qg_export_lose(e, QG_SAYS_PER_CHANNEL, t, "the axis %d, read as %d",
                              t->scheme.axis, guess.axis));
        e->loss.at[e->loss.n - 1].computes = true; /* constants too: they are floats */
    }
    if (guess.exponent_bits != t->scheme.exponent_bits || t->scheme.variant)
        QG_TRY(qg_export_lose(e, QG_SAYS_FLOATING, t, "%u exponent bits, read as %u",
                              t->scheme.exponent_bits, guess.exponent_bits));
    return QG_OK;
}

/* PPQ keys by value: of two slots with one value the last record is kept, and a reader
 * gives it to both. */
static bool is_hidden(const qg_tqc *t)
{
    const qg_node *n = t->node;
    const qg_value *v = qg_tqc_value(t);
    uint32_t count = t->is_output ? n->n_out : n->n_in;
    qg_endpoint at = qg_tqc_endpoint(t);
    for (at.slot++; at.slot < count; at.slot++)
        if (qg_endpoint_value(at) == v && qg_endpoint_tqc(at))
            return true;
    return false;
}

static qg_status lose_slots(qg_export *e, const qg_tqc *t)
{
    const qg_node *n = t->node;
    if (is_hidden(t))
        return qg_export_lose(e, QG_SAYS_ENDPOINT, t,
                              "another slot of the node has the same value");
    for (uint32_t i = 0; !t->is_output && i < n->n_in; i++)
        if (n->in[i] == n->in[t->slot] && !qg_input_tqc(n, i))
            return qg_export_lose(e, QG_SAYS_ENDPOINT, t,
                                  "in%u has the same value and reads back as this one",
                                  i);
    return QG_OK;
}

static qg_status build(qg_export *e)
{
    for (size_t i = 0; i < e->quant->tqc.n; i++) {
        QG_TRY(lose_guess(e, e->quant->tqc.at[i]));
        QG_TRY(lose_slots(e, e->quant->tqc.at[i]));
    }
    return QG_OK;
}

/* --- writing --- */

/* All eight, true or false, in PPQ's order. */
static void put_policy(qg_json_writer *w, uint16_t policy)
{
    qg_json_put_object(w, "policy");
    for (size_t i = 0; i < QG_PPQ_PROPERTIES; i++)
        qg_json_put_bool(w, qg_ppq_properties[i].name,
                         (policy & qg_ppq_properties[i].bit) != 0);
    qg_json_put_end(w);
}

/* What PPQ keeps of a TQC, under the name of its value. */
static void put_config(qg_json_writer *w, const qg_tqc *t)
{
    const qg_scheme *s = &t->scheme;
    qg_json_put_object(w, qg_tqc_value(t)->name);
    qg_json_put_int(w, "bit_width", s->bits);
    put_policy(w, s->policy);
    qg_json_put_text(w, "state", qg_tqc_state_name(state_in_ppq(t->state)));
    qg_json_put_int(w, "quant_min", s->qmin);
    qg_json_put_int(w, "quant_max", s->qmax);
    qg_json_put_int(w, "hash", t->id);
    qg_json_put_int(w, "dominator", qg_tqc_root(t)->id);
    qg_json_put_end(w);
}

/* Nodes that are quantized, as PPQ has them; others have no records. */
static void put_configs(qg_json_writer *w, const qg_graph *g)
{
    qg_json_put_object(w, "configs");
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (n->platform != QG_PLATFORM_QUANTIZED)
            continue;
        qg_json_put_object(w, n->name);
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
            const qg_tqc *t = qg_node_tqc(n, k);
            if (t && !is_hidden(t))
                put_config(w, t);
        }
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

/* Every node, quantized or not. */
static void put_dispatchings(qg_json_writer *w, const qg_graph *g, const char *platform)
{
    qg_json_put_object(w, "dispatchings");
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        qg_json_put_text(w, n->name,
                         n->platform == QG_PLATFORM_QUANTIZED ? platform
                         : n->platform == QG_PLATFORM_SOI     ? "SOI"
                                                              : "FP32");
    }
    qg_json_put_end(w);
}

/* Numbers per tensor, lists per channel; zero points are floats in PPQ. */
static void put_value(qg_json_writer *w, const char *key, const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    bool list = (t->scheme.policy & QG_PER_TENSOR) == 0;
    qg_json_put_object(w, key);
    if (p.n == 0)
        qg_json_put_null(w, "scale");
    if (list && p.n)
        qg_json_put_array(w, "scale");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_f32(w, list ? NULL : "scale", p.scale[i]);
    if (list && p.n)
        qg_json_put_end(w);
    if (p.n == 0)
        qg_json_put_null(w, "zero_point");
    if (list && p.n)
        qg_json_put_array(w, "zero_point");
    for (size_t i = 0; i < p.n; i++)
        qg_json_put_f32(w, list ? NULL : "zero_point",
                        p.offset ? (float)p.offset[i] : 0);
    if (list && p.n)
        qg_json_put_end(w);
    qg_json_put_end(w);
}

/* Roots only: followers are found through `dominator`. */
static void put_values(qg_json_writer *w, const qg_quant *q)
{
    char key[16];
    qg_json_put_object(w, "values");
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        if (qg_tqc_root(t) != t || state_in_ppq(t->state) == QG_TQC_FP32)
            continue;
        (void)snprintf(key, sizeof key, "%" PRIu32, t->id);
        put_value(w, key, t);
    }
    qg_json_put_end(w);
}

static qg_status write_json(qg_export *e, FILE *stream)
{
    qg_json_writer *w = QG_NEW(e->arena, qg_json_writer);
    const qg_backend *b = e->quant->backend;
    const char *platform = qg_ppq_platform(e->arena, b && b->name ? b->name : "none");
    if (!w || !platform)
        return qg_nomem(e->ctx);
    qg_json_begin(w, e->ctx, stream);
    qg_json_put_object(w, NULL);
    put_configs(w, e->quant->graph);
    put_dispatchings(w, e->quant->graph, platform);
    put_values(w, e->quant);
    qg_json_put_end(w);
    return qg_json_done(w);
}

/* "dir/name.json" -> "dir/name.onnx". */
static const char *model_beside(qg_export *e)
{
    const char *dot = strrchr(qg_path_base(e->path), '.');
    size_t stem = dot ? (size_t)(dot - e->path) : strlen(e->path);
    return qg_arena_printf(e->arena, "%.*s.onnx", (int)stem, e->path);
}

/* The model first: a JSON that is there has its model. */
static qg_status write(qg_export *e)
{
    qg_writer w;
    const char *model = model_beside(e);
    if (!model)
        return qg_nomem(e->ctx);
    if (strcmp(model, e->path) == 0)
        return qg_fail(e->ctx, QG_ECONFIG,
                       "export: %s: the model goes there, expected a name for the JSON "
                       "file",
                       e->path);
    QG_TRY(qg_writer_open(e->ctx, e->path, &w));
    qg_status s = write_json(e, w.stream);
    if (s == QG_OK)
        s = qg_onnx_export(e->ctx, e->quant->graph, model, NULL);
    if (s != QG_OK) {
        qg_writer_abandon(&w);
        return s;
    }
    QG_TRY(qg_writer_commit(&w));
    QG_TRY(qg_export_wrote(e, e->path));
    return qg_export_wrote(e, model);
}

static qg_status import(qg_import *i)
{
    QG_TRY(qg_import_graph(i, i->model));
    return qg_ppq_json_read(i->graph, i->path, &i->quant);
}

const qg_format qg_format_ppq_json = {
    .name = "ppq-json",
    .suffix = ".json + .onnx",
    .summary = "PPQ's pair: the float model, and a JSON with every record",
    .says = (1u << QG_N_ASPECT) - 1 -
            (QG_SAYS_BLOCK | QG_SAYS_ROUNDING | QG_SAYS_DERIVED | QG_SAYS_STATE),
    .build = build,
    .write = write,
    .import = import,
    .needs_model = true,
};
