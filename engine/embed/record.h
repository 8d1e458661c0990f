/* record.h -- what the functions that fill structs of the host share.  Private to
 * engine/embed. */
#ifndef QG_ENGINE_EMBED_RECORD_H
#define QG_ENGINE_EMBED_RECORD_H

#include <stddef.h>

/* Fills a record of the host, whose first member is its size, with `known` bytes of
 * ours: what the host's version does not have is left out, what ours does not have
 * becomes zero.  The size stays the host's. */
void qg_record_put(void *to, const void *ours, size_t known);

#endif
