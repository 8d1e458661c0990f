/* fusions.h -- items of `fusions:` and `sharing:` of a backend file.
 *
 * Producers precede their readers, so nodes are defined before they are named and edges
 * cannot form a cycle. */
#ifndef QG_ENGINE_CONFIG_FUSIONS_H
#define QG_ENGINE_CONFIG_FUSIONS_H

#include "engine/config/rules.h"

/* One item, complete or an error at its line. */
QG_NODISCARD qg_status qg_read_fusion(const qg_backend_reader *r, const qg_yaml *y,
                                      qg_fusion *out);
QG_NODISCARD qg_status qg_read_sharing(const qg_backend_reader *r, const qg_yaml *y,
                                       qg_sharing *out);

#endif
