/* names.h -- a set of strings with dense ids: 0, 1, 2, ... in order of arrival.
 *
 * Serves as the intern table of a context, and as a map from name to id wherever one
 * is needed (the values of a graph, the anchors of a pattern): keep the payload in an
 * array indexed by the id.  Lookup is O(1) expected; the order never depends on hashes.
 * The one user of uthash.
 *
 *     uint32_t id;
 *     QG_TRY(qg_names_add(t, name, strlen(name), &id));
 *     payload[id] = ...;                       // grow payload to qg_names_count(t)
 *
 * Names are never removed and never move: qg_names_text is stable, and equal texts
 * have equal addresses. */
#ifndef QG_ENGINE_CORE_NAMES_H
#define QG_ENGINE_CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/core/arena.h"

#define QG_NONE UINT32_MAX /* no such id */

typedef struct qg_names qg_names;

qg_names *qg_names_new(qg_alloc alloc); /* NULL when out of memory */
void qg_names_free(qg_names *t);        /* t may be NULL */

/* The id of the n bytes at s, added when new.  Embedded zeros are kept.
 * The only error is QG_ENOMEM, without a message (the table has no context); the set
 * is then unchanged. */
QG_NODISCARD qg_status qg_names_add(qg_names *t, const char *s, size_t n, uint32_t *id);

/* Only reads: workers may search a table that is not modified meanwhile. */
uint32_t qg_names_find(const qg_names *t, const char *s, size_t n); /* or QG_NONE */
const char *qg_names_text(const qg_names *t, uint32_t id); /* ends with a zero */
uint32_t qg_names_count(const qg_names *t);

#endif
