/* record.h -- shared by the functions that fill structs of the host.  Private to
 * engine/embed. */
#ifndef QG_ENGINE_EMBED_RECORD_H
#define QG_ENGINE_EMBED_RECORD_H

#include <stddef.h>

/* Fills a record of the host, whose first member is its size, from `known` bytes of
 * ours: members missing in the host's version are left out, members missing in ours
 * become zero.  The size stays the host's. */
void qg_record_put(void *to, const void *ours, size_t known);

#endif
