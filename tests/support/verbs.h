/* verbs.h -- all functions that run a model over samples, as one table: for properties
 * that all must have. */
#ifndef QG_TESTS_SUPPORT_VERBS_H
#define QG_TESTS_SUPPORT_VERBS_H

#include "engine/api/qg.h"

extern const char VERB_MODEL[], VERB_DATA[], VERB_LABELS[]; /* the demo's files */

typedef struct verb_row {
    const char *name;
    /* output: a path that does not exist; all results are written there or below. */
    qg_status (*ask)(qg_model *m, const qg_workload *w, const char *output,
                     qg_report **r);
    bool quantized; /* requires a quantized model */
    bool writes;    /* `output` exists after success */
} verb_row;

extern const verb_row verbs[]; /* ends with a row whose name is NULL */

/* The demo model, quantized for trt-int8 with 20 samples of its data when the verb
 * requires it.  Fails the test when it cannot. */
qg_model *verb_model(qg_ctx *ctx, const verb_row *verb);

#endif
