/* encodings.h -- the parts of AIMET's encodings that Qualcomm's own formats share
 * (qualcomm/overrides.c): grids and dictionaries of versions before 1.0.0. */
#ifndef QG_ENGINE_FORMATS_AIMET_ENCODINGS_H
#define QG_ENGINE_FORMATS_AIMET_ENCODINGS_H

#include "engine/formats/table.h"

/* The members of an entry besides bitwidth, min and max; none: the lists of 1.0.0. */
enum qg_encoding_fields {
    QG_ENCODING_LIST = 0,
    QG_ENCODING_RANGE = 1, /* nothing else */
    QG_ENCODING_GRID = 2,  /* is_symmetric, offset, scale */
    QG_ENCODING_DTYPE = 4,
    QG_ENCODING_ALL = QG_ENCODING_GRID | QG_ENCODING_DTYPE
};

/* For qg_table_form.grid: all codes of the bits, signed when all offsets are 0. */
bool qg_encoding_grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g);

/* Members activation_encodings and param_encodings of the object that is open. */
void qg_encodings_put(qg_json_writer *w, const qg_table *t,
                      enum qg_encoding_fields fields);

#endif
