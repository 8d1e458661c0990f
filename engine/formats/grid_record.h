/* grid_record.h -- the grid that a file describes, as read by quantize_linear.h,
 * fake_quantize.h and tflite/builder.h, and the records that importers make of it. */
#ifndef QG_ENGINE_FORMATS_GRID_RECORD_H
#define QG_ENGINE_FORMATS_GRID_RECORD_H

#include "engine/quant/endpoint.h"
#include "engine/quant/tqc.h"

/* Parameters lie in the graph's arena. */
typedef struct qg_grid_record {
    qg_scheme scheme;
    qg_qparam param; /* with offsets */
} qg_grid_record;

/* An empty set of records for an imported graph, in its arena, with a backend called
 * "imported from <name>" that has no rules; profile: of the backend, borrowed, or
 * NULL. */
QG_NODISCARD qg_status qg_import_quant(qg_graph *g, const char *name,
                                       const char *profile, qg_quant **out);

/* Whether a file may have x as a scale: finite, above 0, and normal, since 1 / x of
 * smaller numbers is infinite, or 0 where denormals are flushed. */
bool qg_import_is_scale(float x);
#define QG_IMPORT_SCALE "a finite number > 0, at least 2^-126"

/* Whether the grid, whose axis is known, fits the value of the endpoint: errors as
 * those of qg_import_record, which checks it too.  what: begins the message. */
QG_NODISCARD qg_status qg_import_check(qg_ctx *ctx, const char *what, qg_endpoint at,
                                       const qg_grid_record *grid);

/* A record on this grid: ACTIVATED, or BAKED for a constant, which is on its grid.
 * QG_EMODEL when the value is no float32 or the scales do not fit its dims, QG_ECONFIG
 * for a scheme that is none. */
QG_NODISCARD qg_status qg_import_record(qg_quant *q, qg_node *n, bool is_output,
                                        uint32_t slot, const qg_grid_record *grid);

/* The grids that an importer found for the endpoints of one node; an array, or an entry
 * of it, is NULL where there is none. */
typedef struct qg_record_plan {
    const qg_grid_record **in, **out; /* [n_in], [n_out] */
} qg_record_plan;

/* The place for a grid at an endpoint: the array that holds it is made when needed. */
QG_NODISCARD qg_status qg_record_plan_at(qg_graph *g, qg_record_plan *p, qg_endpoint at,
                                         const qg_grid_record ***out);
bool qg_record_planned(const qg_record_plan *p, qg_endpoint at); /* has a grid */

/* Records and platform of one node, whose producers have theirs: QUANTIZED when it has
 * a grid or reads what another node has rounded, else FP32.  An input without a grid
 * behind a rounded output becomes OVERLAPPED with it. */
QG_NODISCARD qg_status qg_import_node(qg_quant *q, qg_node *n, const qg_record_plan *p);

/* The axis of `count` scales of an endpoint where a file does not state it: the output
 * channels of a weight, else axis 1 (0 of vectors), else the first axis of that length;
 * count 0: the number is not known. */
int16_t qg_guess_axis(qg_endpoint at, size_t count);

#endif
