/* tqc_text.h -- TQCs as text, one line each, in order of id: for dumps and goldens.
 *
 *     brief   c.out0 overlapped -> r.out0
 *             c.in0 activated 0.0235
 *             c.in1 baked [4] 0.1 0.2 0.1 0.3          (own scales of a root)
 *             c.in0 activated 0.5 offset 3
 *     full    ... | 8 [-128, 127] half-even per-channel linear symmetric axis 0 |
 *     minmax |
 *             weight                       (rule; defaults when none)
 *
 * Lines depend only on the TQCs, so a golden file shows a change as one line. */
#ifndef QG_ENGINE_QUANT_TQC_TEXT_H
#define QG_ENGINE_QUANT_TQC_TEXT_H

#include "engine/quant/backend.h"

enum qg_tqc_detail { QG_TQC_STATES, QG_TQC_BRIEF, QG_TQC_FULL };

/* STATES leaves out scales and offsets.  *text is in a and ends with a newline unless
 * it is empty. */
QG_NODISCARD qg_status qg_quant_text(const qg_quant *q, enum qg_tqc_detail detail,
                                     qg_arena *a, char **text);

/* "weight", or "defaults". */
const char *qg_tqc_rule_id(const qg_quant *q, const qg_tqc *t);

#endif
