/* journal.h -- appending to qg_quant.journal: one record per change of one field.
 *
 * Called by the functions of tqc.h before they write the field, so that a change
 * without a record cannot happen; on QG_ENOMEM nothing was appended.  Texts are static
 * or in the quant's arena.  Costs nothing where nothing changes.
 *
 * The journal records the origin of each setting: `qg explain` prints the entries of an
 * endpoint in order, and a snapshot keeps them.
 *
 * As a snapshot has it:
 *
 *     {"seq": 12, "tqc": 3, "field": "state", "old": "INITIAL", "new": "ACTIVATED",
 *      "by": "calibrate-activations"} */
#ifndef QG_ENGINE_QUANT_JOURNAL_H
#define QG_ENGINE_QUANT_JOURNAL_H

#include "engine/quant/record.h"

/* seq counts up, `by` is q->author at this moment.  before or after NULL is QG_ENOMEM:
 * a text that could not be made. */
QG_NODISCARD qg_status qg_journal_add(qg_quant *q, const qg_tqc *t, const char *field,
                                      const char *before, const char *after);

/* For every endpoint that reads the constant v: its first numbers before and after it
 * was learned, as `field` ("weight", "bias", "rounding"). */
QG_NODISCARD qg_status qg_journal_learned(qg_quant *q, const qg_value *v,
                                          const char *field, const qg_tensor *before,
                                          const qg_tensor *after);

/* "Conv_3.in1" in the arena; NULL when out of memory. */
const char *qg_journal_endpoint(qg_quant *q, const qg_tqc *t);

/* The fields in which two schemes differ; `before` is t's. */
QG_NODISCARD qg_status qg_journal_scheme(qg_quant *q, const qg_tqc *t,
                                         const qg_scheme *after);

/* "0.0235", "0.1 0.2 0.4", "0.1 0.2 0.3 ... (64)"; "none" for n == 0.  Of scales, or
 * when they are NULL of offsets. */
const char *qg_journal_numbers(qg_quant *q, size_t n, const float *scale,
                               const int32_t *offset);

#endif
