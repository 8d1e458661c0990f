/* grid_record.h -- the grid that a file describes, as read by quantize_linear.h,
 * fake_quantize.h and tflite/builder.h, and the records that importers make of it. */
#ifndef QG_ENGINE_FORMATS_GRID_RECORD_H
#define QG_ENGINE_FORMATS_GRID_RECORD_H

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

/* A record on this grid: ACTIVATED, or BAKED for a constant, which is on its grid.
 * QG_EMODEL when the value is no float32 or the scales do not fit its dims, QG_ECONFIG
 * for a scheme that is none. */
QG_NODISCARD qg_status qg_import_record(qg_quant *q, qg_node *n, bool is_output,
                                        uint32_t slot, const qg_grid_record *grid);

#endif
