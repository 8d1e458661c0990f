/* extend.h -- shared by the functions that accept extensions of the host: names and
 * texts.  Private to engine/embed. */
#ifndef QG_ENGINE_EMBED_EXTEND_H
#define QG_ENGINE_EMBED_EXTEND_H

#include "engine/session/options.h"

/* Replaces *name by a copy that lives as long as the context.  QG_ECONFIG when it is
 * NULL or has other bytes than letters, digits, '-', '_' and '.': such a name could not
 * be used in configuration files and options. */
QG_NODISCARD qg_status qg_extend_name(qg_ctx *ctx, const char *what, const char **name);

/* The same for a text that may hold anything; NULL stays NULL. */
QG_NODISCARD qg_status qg_extend_text(qg_ctx *ctx, const char **text);

/* QG_ECONFIG: "add <what> '<name>': the name is taken". */
qg_status qg_extend_taken(qg_ctx *ctx, const char *what, const char *name);

#endif
