/* override.h -- `--set` of a command line: a rule, or parameters of a pass, in one line
 * of words. */
#ifndef QG_ENGINE_CONFIG_OVERRIDE_H
#define QG_ENGINE_CONFIG_OVERRIDE_H

#include "engine/quant/backend.h"

/* "pass=equalize iterations=3": parameters of a pass, `run` among them.  Or
 * "op=Conv_3 slot=in0 bits=4": words key=value of `match` and `set`.  op is an
 * operator's name, else a glob over node names; lists with commas, no spaces.  The
 * rule's id is "set:<k>", k counting from 1.  An option that a policy patch has applied
 * (`after-set`, backend_yaml.h) does nothing.
 * QG_ECONFIG quotes the invalid word. */
QG_NODISCARD qg_status qg_backend_set(qg_ctx *ctx, qg_arena *a, const char *text,
                                      qg_backend *b);

#endif
