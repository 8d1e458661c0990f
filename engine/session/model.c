#include "engine/session/model.h"

#include <assert.h>

#include "engine/core/num.h"
#include "engine/core/hash.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/ir/infer.h"

void qg_model_options_init(qg_model_options *o)
{
    *o = (qg_model_options){ .size = sizeof *o };
}

/* "name=1x3x224x224"; the name may hold '='. */
static qg_status parse_shape(qg_ctx *ctx, qg_arena *a, const char *text,
                             qg_fixed_shape *out)
{
    const char *equals = strrchr(text, '=');
    const char *p = equals ? equals + 1 : "";
    qg_fixed_shape s = {
        .input = equals ? qg_arena_strndup(a, text, (size_t)(equals - text)) : NULL
    };
    bool ok = equals && equals != text;
    while (ok && *p) {
        size_t n = strcspn(p, "x");
        ok = s.rank < QG_MAX_RANK && qg_num_parse_i64(p, n, &s.dim[s.rank++]) &&
             s.dim[s.rank - 1] > 0 && (p[n] == '\0' || p[n + 1] != '\0');
        p += n + (p[n] == 'x');
    }
    if (!ok || s.rank == 0)
        return qg_fail(ctx, QG_ECONFIG, "shape: '%s': expected NAME=DIMxDIMx...", text);
    *out = s;
    return s.input ? QG_OK : qg_nomem(ctx);
}

static qg_status infer_with(qg_model *m, const qg_model_options *o)
{
    size_t n = o ? o->n_shape : 0;
    qg_fixed_shape *fixed = QG_NEWN(m->graph->arena, n, qg_fixed_shape);
    if (!fixed)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(parse_shape(m->ctx, m->graph->arena, o->shape[i], &fixed[i]));
    return qg_infer(m->graph, fixed, n);
}

static qg_status load_onnx(qg_model *m, const char *path, const qg_model_options *o)
{
    char hash[QG_HASH_TEXT];
    QG_TRY(qg_onnx_import(m->ctx, path, NULL, &m->graph));
    QG_TRY(infer_with(m, o));
    QG_TRY(qg_hash_file(m->ctx, path, hash));
    m->sha256 = qg_arena_strdup(m->graph->arena, hash);
    m->path = qg_arena_strdup(m->graph->arena, path);
    return m->sha256 && m->path ? QG_OK : qg_nomem(m->ctx);
}

static qg_status load_snapshot(qg_model *m, const char *folder,
                               const qg_model_options *o)
{
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    const char *onnx = a ? qg_path_join(a, folder, "model.onnx") : NULL;
    const char *json = a ? qg_path_join(a, folder, "quant.json") : NULL;
    qg_status s = onnx && json ? load_onnx(m, onnx, o) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = qg_quant_json_read(m->graph, json, &m->quant, &m->info);
    if (s == QG_OK && !(m->path = qg_arena_strdup(m->graph->arena, folder)))
        s = qg_nomem(m->ctx);
    qg_arena_free(a);
    return s;
}

qg_status qg_model_open(qg_ctx *ctx, const char *path, const qg_model_options *o,
                        qg_model **out)
{
    qg_model *m = QG_NEW(ctx->arena, qg_model);
    if (!m)
        return qg_nomem(ctx);
    m->ctx = ctx;
    qg_status s =
        qg_is_directory(path) ? load_snapshot(m, path, o) : load_onnx(m, path, o);
    if (s != QG_OK) {
        qg_model_close(m);
        return s;
    }
    *out = m;
    return QG_OK;
}

void qg_model_close(qg_model *m)
{
    if (!m)
        return;
    qg_graph_free(m->graph);
    m->graph = NULL;
}

bool qg_model_is_quantized(const qg_model *m) { return m->quant != NULL; }

qg_status qg_model_expect_float(const qg_model *m, const char *what)
{
    if (!m->quant)
        return QG_OK;
    return qg_fail(m->ctx, QG_ESTATE,
                   "%s: %s is a snapshot, expected a model that is not quantized", what,
                   m->path);
}

qg_status qg_model_expect_quantized(const qg_model *m, const char *what)
{
    if (m->quant)
        return QG_OK;
    return qg_fail(m->ctx, QG_ESTATE,
                   "%s: %s is not quantized, expected a snapshot of qg quantize", what,
                   m->path);
}

qg_status qg_model_export_onnx(qg_model *m, const char *path)
{
    return qg_onnx_export(m->ctx, m->graph, path, NULL);
}

/* quant.json is written first and renamed last, so that a folder with a new quant.json
 * has the model that belongs to it. */
static qg_status write_snapshot(qg_model *m, const char *onnx, const char *json)
{
    qg_writer w;
    QG_TRY(qg_writer_open(m->ctx, json, &w));
    qg_status s = qg_quant_json_write(m->quant, &m->info, w.stream);
    if (s == QG_OK)
        s = qg_onnx_export(m->ctx, m->graph, onnx, NULL);
    if (s == QG_OK)
        return qg_writer_commit(&w);
    qg_writer_abandon(&w);
    return s;
}

qg_status qg_model_save(qg_model *m, const char *folder)
{
    qg_arena *a = m->graph->arena;
    if (!m->quant)
        return qg_fail(m->ctx, QG_ESTATE, "save: %s: the model is not quantized",
                       folder);
    const char *onnx = qg_path_join(a, folder, "model.onnx");
    const char *json = qg_path_join(a, folder, "quant.json");
    if (!onnx || !json)
        return qg_nomem(m->ctx);
    bool known = qg_is_directory(folder);
    QG_TRY(qg_directory_make(m->ctx, folder));
    qg_status s = write_snapshot(m, onnx, json);
    if (s != QG_OK && !known)
        qg_directory_remove(folder);
    return s;
}

qg_status qg_model_plan(qg_model *m, const char *mode, bool reference,
                        const qg_feed *feed, qg_plan **out)
{
    return qg_model_plan_watched(m, mode, reference, feed, NULL, out);
}

qg_status qg_model_plan_watched(qg_model *m, const char *mode, bool reference,
                                const qg_feed *feed, const uint8_t *watch,
                                qg_plan **out)
{
    bool simulate = mode ? strcmp(mode, "simulate") == 0 : m->quant != NULL;
    if (mode && !simulate && strcmp(mode, "float") != 0)
        return qg_fail(m->ctx, QG_ECONFIG, "mode '%s': expected float or simulate",
                       mode);
    if (simulate && !m->quant)
        return qg_fail(m->ctx, QG_ESTATE,
                       "mode simulate: the model is not quantized, expected a "
                       "snapshot of qg quantize");
    qg_plan_options o = { .mode = simulate ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = m->quant,
                          .input = feed ? feed->shape : NULL,
                          .watch = watch,
                          .reference = reference };
    return qg_plan_new(m->ctx, m->graph, &o, out);
}

qg_status qg_plan_measures(qg_ctx *ctx, const qg_plan *p, qg_arena *a,
                           const char *doing, uint8_t **out)
{
    size_t n = p->graph->output.n, some = 0;
    uint8_t *measured = QG_NEWN(a, n, uint8_t);
    assert(doing && out);
    if (!measured)
        return qg_nomem(ctx);
    for (size_t k = 0; k < n; k++) {
        const qg_tensor *t = &p->tensor.at[p->output[k]].type;
        measured[k] = t->dtype == QG_F32 && qg_tensor_known(t);
        some += measured[k];
    }
    if (!some)
        return qg_fail(
            ctx, QG_EDATA,
            "%s: no output is float32 with a shape that is known before a "
            "run, expected one to measure; samples of one shape, or --shape, "
            "make shapes known",
            doing);
    *out = measured;
    return QG_OK;
}
