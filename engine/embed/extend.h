/* extend.h -- what the functions that take an extension of the host share: reading a
 * struct that is tagged with its size, and names.  Private to engine/embed. */
#ifndef QG_ENGINE_EMBED_EXTEND_H
#define QG_ENGINE_EMBED_EXTEND_H

#include "engine/api/qg.h"

/* Copies a struct of the host, whose first member is its size, into `known` zeroed
 * bytes at `into`.  QG_ECONFIG when it has more bytes and any of them is set: this
 * library does not know that field.  `what` begins the message: "operator". */
QG_NODISCARD qg_status qg_extend_take(qg_ctx *ctx, const char *what, void *into,
                                      size_t known, const void *from);

/* A copy of *name for the life of the context, put back in its place.  QG_ECONFIG when
 * it is NULL or has other bytes than letters, digits, '-', '_' and '.': such a name
 * could not stand in configuration files and options. */
QG_NODISCARD qg_status qg_extend_name(qg_ctx *ctx, const char *what, const char **name);

/* The same for a text that may hold anything; NULL stays NULL. */
QG_NODISCARD qg_status qg_extend_text(qg_ctx *ctx, const char **text);

/* QG_ECONFIG: "add <what> '<name>': the name is taken". */
qg_status qg_extend_taken(qg_ctx *ctx, const char *what, const char *name);

#endif
