/* model.h -- what stands behind the handles of qg.h; shared by the files of engine/api. */
#ifndef QG_ENGINE_API_MODEL_H
#define QG_ENGINE_API_MODEL_H

#include "engine/api/report.h"
#include "engine/core/file.h"
#include "engine/exec/drive.h"
#include "engine/io/backend_yaml.h"
#include "engine/io/quant_json.h"

struct qg_model {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_quant *quant;       /* NULL: not quantized */
    qg_snapshot_info info; /* of the run that quantized it */
    const char *path;      /* as opened, in the graph's arena */
    const char *sha256;    /* of the ONNX file */
};

/* Folders below the context's config_dir: "backends", "pipelines". */
QG_NODISCARD qg_status qg_config_search(qg_ctx *ctx, qg_arena *a, const char *folder,
                                        qg_search *out);

/* --- feed.c: DATA of the command line as a feed --- */

typedef struct qg_api_feed {
    qg_feed feed; /* its ud is this struct: do not move it while in use */
    const qg_graph *graph;
    struct qg_data *data; /* io/data.h */
} qg_api_feed;

/* At most `samples` samples (0: all).  QG_EDATA when there are none. */
QG_NODISCARD qg_status qg_feed_open(qg_model *m, const char *spec, size_t samples,
                                    qg_api_feed *out);
void qg_feed_close(qg_api_feed *f); /* also of a zeroed one */

/* --- progress.c --- */

/* Adapts a qg_progress to the callback of qg_drive. */
typedef struct qg_ticker {
    const qg_progress *progress;
    const char *what;
} qg_ticker;
void qg_tick(void *ticker, size_t done, size_t n);

/* --- plans --- */

/* A plan of the model in "float" or "simulate"; NULL mode: simulate when quantized.
 * QG_ECONFIG for other words, QG_ESTATE for simulate without TQCs. */
QG_NODISCARD qg_status qg_model_plan(qg_model *m, const char *mode, bool reference,
                                     qg_plan **out);

/* The same with hooks at the nodes marked in watch[nodes]; it must outlive the plan. */
QG_NODISCARD qg_status qg_model_plan_watched(qg_model *m, const char *mode,
                                             bool reference, const uint8_t *watch,
                                             qg_plan **out);

#endif
