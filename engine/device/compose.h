/* compose.h -- a profile made of the rows that explain a dump. */
#ifndef QG_ENGINE_DEVICE_COMPOSE_H
#define QG_ENGINE_DEVICE_COMPOSE_H

#include "engine/device/profiles.h"

/* A profile that extends the nearest one and has the rows of others where those explain
 * a step and it does not.  path: file to write; NULL: none.  Facts nearest, rows_taken,
 * composed_explains (when written, with the file read again). */
QG_NODISCARD qg_status qg_fit_compose(qg_fit *f, const char *path, qg_report *r);

#endif
