/* model.h -- the contents of the handle qg_model: a graph and, once it is quantized,
 * its TQCs with the record of the run that made them; and their form on disk.
 *
 * A snapshot is a folder: model.onnx, the rewritten graph with float weights, and
 * quant.json (quant_json.h).
 *
 *     qg_model m = { .ctx = ctx };
 *     QG_TRY(qg_snapshot_read(&m, "snap", NULL, 0));
 *     ... m.graph, m.quant, m.info ...
 *     QG_TRY(qg_snapshot_write(&m, "copy"));
 *     qg_graph_free(m.graph);
 *
 * Owner    everything lies in the graph's arena; after a failed read m->graph may be
 *          set and is the caller's to free */
#ifndef QG_ENGINE_SNAPSHOT_MODEL_H
#define QG_ENGINE_SNAPSHOT_MODEL_H

#include "engine/ir/infer.h"
#include "engine/snapshot/quant_json.h"

struct qg_pass_env; /* pass/pass.h */
typedef struct qg_model qg_model;
struct qg_model {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_quant *quant;       /* NULL: not quantized */
    qg_snapshot_info info; /* of the run that quantized it */
    /* As opened, in the graph's arena; NULL: under construction, by calls or by a pass,
     * and valid only for calls that add to it. */
    const char *path;
    const char *sha256; /* of the ONNX file */
    /* The running pass that was given this model, which is then a view of the
     * pipeline's data; NULL: none. */
    struct qg_pass_env *pass;
    /* A copy whose quantizers are records: made when a file of another tool is to run
     * in integers; owned; NULL: none. */
    qg_model *folded;
    qg_model *written;             /* the same for lint: qg_model_as_written */
    bool warned_share;             /* qg_model_warn_share has run */
    bool warned_clamps;            /* qg_model_warn_clamps has run */
    const char *warned_not_finite; /* the line of qg_model_warn_found; NULL: none */
    bool rewritten; /* the graph is a snapshot's, to be quantized again */
};

/* An ONNX file, with its dynamic shapes fixed by shape[n] (ir/infer.h). */
QG_NODISCARD qg_status qg_model_read(qg_model *m, const char *path,
                                     const qg_fixed_shape *shape, size_t n);

/* Bytes of an ONNX file, borrowed until the graph is freed unless they are temporary;
 * `name` is the path of the model from then on. */
typedef struct qg_model_source {
    const char *name;
    const void *bytes;
    size_t size;
    const char *folder; /* of external data; NULL: none */
    bool passing;       /* the bytes are freed after reading */
} qg_model_source;
QG_NODISCARD qg_status qg_model_read_bytes(qg_model *m, const qg_model_source *from,
                                           const qg_fixed_shape *shape, size_t n);

/* Sets the path and hash of the origin of m, whose graph is loaded. */
QG_NODISCARD qg_status qg_model_name(qg_model *m, const char *path, const char *sha256);

/* A snapshot folder.  QG_EPARSE when quant.json does not belong to model.onnx, by its
 * SHA-256 or by its contents. */
QG_NODISCARD qg_status qg_snapshot_read(qg_model *m, const char *folder,
                                        const qg_fixed_shape *shape, size_t n);

/* QG_EPARSE unless the model of snapshot `name` is the one that its quant.json was
 * written with. */
QG_NODISCARD qg_status qg_snapshot_check(const qg_model *m, const char *name);

/* m is quantized.  The folder is replaced as a whole (core/folder.h): on failure, and
 * after an interruption at any moment, it is as before.  Other files in it stay. */
QG_NODISCARD qg_status qg_snapshot_write(qg_model *m, const char *folder);

/* QG_ESTATE when m is still under construction. */
QG_NODISCARD qg_status qg_model_expect_finished(const qg_model *m, const char *what);
/* QG_ESTATE when m is a snapshot: `what` requires a finished model that is not
 * quantized yet. */
QG_NODISCARD qg_status qg_model_expect_float(const qg_model *m, const char *what);
/* 16-bit floats of a float model become float32, once (ir/float_type.h); before samples
 * are opened, which then are float32, too.  A snapshot is left as it is. */
QG_NODISCARD qg_status qg_model_begin_float32(qg_model *m);
/* QG_ESTATE when m is none. */
QG_NODISCARD qg_status qg_model_expect_quantized(const qg_model *m, const char *what);
/* The first of the nodes that quantize by themselves, and their number; NULL: none. */
const qg_node *qg_model_own_quantizers(const qg_model *m, size_t *n);
/* QG_ECONFIG for a path that is NULL, such as a missing argv[1]. */
QG_NODISCARD qg_status qg_model_expect_path(qg_ctx *ctx, const char *what,
                                            const char *path);

#endif
