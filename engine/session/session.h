/* session.h -- what the files of engine/session share, and questions (engine/analysis)
 * use: feeds of samples, and plans of a model.
 *
 * How a question runs the network over data:
 *
 *     QG_TRY(qg_feed_open(m, &o->work, &f));
 *     QG_TRY(qg_model_plan(m, "simulate", false, &f.feed, NULL, &p));
 *     qg_drive d = { .plan = p, .feed = &f.feed, .n = f.feed.n, .done = keep };
 *     s = qg_drive_run(m->ctx, &d);
 *     qg_plan_free(p);
 *     qg_feed_close(&f); */
#ifndef QG_ENGINE_SESSION_SESSION_H
#define QG_ENGINE_SESSION_SESSION_H

#include "engine/report/report.h"
#include "engine/config/backend_yaml.h"
#include "engine/core/file.h"
#include "engine/exec/drive.h"
#include "engine/session/options.h"
#include "engine/snapshot/model.h"

struct qg_stats; /* calib/stats.h */

/* --- feed.c: DATA of the command line as a feed --- */

/* fetch is called by many workers at a time: it only reads the opened data. */
typedef struct qg_api_feed {
    qg_feed feed; /* its ud is this struct: do not move it while in use */
    const qg_graph *graph;
    bool takes_nan;       /* set before it is opened: NaN is no reason to stop */
    struct qg_data *data; /* data/data.h */
} qg_api_feed;

/* The samples of work->data (data/data.h), at most work->samples of them.
 * QG_EDATA when there are none, QG_ECONFIG when the data is NULL.  Shapes are checked
 * against the graph's inputs here, contents when a sample is fetched. */
QG_NODISCARD qg_status qg_feed_open(qg_model *m, const qg_workload *work,
                                    qg_api_feed *out);
void qg_feed_close(qg_api_feed *f); /* also of a zeroed one */

/* SHA-256 of the file that spec names, in a; NULL: no file (a folder, random:N). */
QG_NODISCARD qg_status qg_data_hash(qg_ctx *ctx, qg_arena *a, const char *spec,
                                    const char **out);

/* --- stats.c --- */

/* Facts of qg_report_settled for 8-bit scales, by observer. */
QG_NODISCARD qg_status qg_report_settled_all(qg_report *r, const struct qg_stats *s);

/* --- plans --- */

/* A plan of the model in "float" or "simulate"; NULL mode: simulate when quantized.
 * feed: whose samples it is for (their shape); NULL: the model's own shapes.
 * watch: [nodes] 1 where hooks look; it must outlive the plan.  NULL: no hooks.
 * QG_ECONFIG for other words, QG_ESTATE for simulate without TQCs.
 * The caller frees *out with qg_plan_free before the model changes or goes. */
QG_NODISCARD qg_status qg_model_plan(qg_model *m, const char *mode, bool reference,
                                     const qg_feed *feed, const uint8_t *watch,
                                     qg_plan **out);

/* (*out)[outputs]: 1 where two runs of the plan can be compared: float32, and of a
 * shape that is known before a run.  In a.  QG_EDATA, beginning with `doing`, when
 * there is no such output. */
QG_NODISCARD qg_status qg_plan_measures(qg_ctx *ctx, const qg_plan *p, qg_arena *a,
                                        const char *doing, uint8_t **out);

#endif
