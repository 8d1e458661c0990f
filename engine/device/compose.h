/* compose.h -- a profile made of the rows that explain a dump.
 *
 * It extends the nearest profile: the one that explains most values, and among equals
 * the snapshot's own, that of its backend, the one with the fewest rows.  A row of
 * another profile is taken where it makes one more value equal in a trial of the whole
 * profile; rows that explain a value in their own profile can fail here, because
 * lowering differs in more than rows. */
#ifndef QG_ENGINE_DEVICE_COMPOSE_H
#define QG_ENGINE_DEVICE_COMPOSE_H

#include "engine/device/profiles.h"

/* path: file to write, which is read again and tried; NULL: none.  Facts nearest,
 * as_near (others that explain as many values), rows_taken, written, composed_explains;
 * table rows: row, from, values, explains. */
QG_NODISCARD qg_status qg_fit_compose(qg_fit *f, const char *path, qg_report *r);

#endif
