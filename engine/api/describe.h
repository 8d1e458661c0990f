/* describe.h -- how graph, schemes and statements are put into words for reports:
 * explain, diff and dump say the same thing the same way. */
#ifndef QG_ENGINE_API_DESCRIBE_H
#define QG_ENGINE_API_DESCRIBE_H

#include "engine/api/model.h"
#include "engine/api/report.h"

const char *qg_platform_name(enum qg_platform p); /* "fp32" */

/* "constant", "input of the network", "output of the network", "inner value". */
const char *qg_value_kind(const qg_value *v);

/* "OVERLAPPED, silent: its dominator rounds this value" */
const char *qg_state_meaning(qg_tqc_state s);

/* "8 bits [-128, 127] half-even per-channel linear symmetric, axis 0" */
enum { QG_SCHEME_TEXT = 256 };
const char *qg_scheme_text(const qg_scheme *s, char text[QG_SCHEME_TEXT]);

/* The rule, fusion or sharing rule of this id, and which of the three it is; NULL: the
 * backend says no such thing. */
const qg_origin *qg_origin_named(const qg_backend *b, const char *id,
                                 const char **kind);

#endif
