/* grid_record.h -- the grid that a quantizing operator of a file describes, as read by
 * quantize_linear.h and fake_quantize.h. */
#ifndef QG_ENGINE_FORMATS_GRID_RECORD_H
#define QG_ENGINE_FORMATS_GRID_RECORD_H

#include "engine/quant/tqc.h"

/* Parameters lie in the graph's arena. */
typedef struct qg_grid_record {
    qg_scheme scheme;
    qg_qparam param; /* with offsets */
} qg_grid_record;

#endif
