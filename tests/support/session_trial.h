/* session_trial.h -- what quantizing, files, lint and runs give for one small network,
 * as cases of a recorded suite (recorded.h).  A network meets one choice of backend,
 * observer, settings, quirks, profiles, targets and formats, by its number k; some
 * hundred networks together meet all of them. */
#ifndef QG_TESTS_SUPPORT_SESSION_TRIAL_H
#define QG_TESTS_SUPPORT_SESSION_TRIAL_H

#include "engine/api/qg.h"
#include "tests/support/recorded.h"

/* A fresh model of the network that `source` describes. */
typedef qg_status network_opener(qg_ctx *ctx, const void *source, qg_model **m);

/* Bits of the kinds of cases; quantizing comes before all others. */
enum {
    TRIAL_QUANTIZE = 1,
    TRIAL_RECORDS = 2,
    TRIAL_LINT = 4,
    TRIAL_FORMATS = 8,
    TRIAL_RUNS = 16,
    TRIAL_STATISTICS = 32,
    TRIAL_CHANGES = 64
};

/* After recorded_enter: files are written to the working folder, and removed. */
void session_trial(recorded *r, const char *name, unsigned k, unsigned kinds_wanted,
                   network_opener *open, const void *source);

#endif
