/* encodings.h -- the parts of AIMET's encodings that Qualcomm's own formats share
 * (aimet/overrides.c): grids and dictionaries of versions before 1.0.0.
 *
 *     record   uint8, scale 0.02, zero point 100
 *     entry    {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "max": 3.1,
 *               "min": -2.0, "offset": -100, "scale": 0.02}
 *
 *     record   int8, symmetric, scale 0.05
 *     entry    {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "max": 6.35,
 *               "min": -6.4, "offset": -128, "scale": 0.05}
 *
 * offset is the lowest code minus the zero point, so that min = offset * scale in both.
 * Flags are the texts "True" and "False", as AIMET's own files have them. */
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

/* For qg_table_form.grid: all codes of the bits, signed when the record's limits are
 * and all offsets are 0.  A signed record with an offset is shifted to unsigned
 * codes. */
bool qg_encoding_grid(const qg_export *e, const qg_tqc *t, qg_table_grid *g);

/* Members activation_encodings and param_encodings of the object that is open. */
void qg_encodings_put(qg_json_writer *w, const qg_table *t,
                      enum qg_encoding_fields fields);

#endif
