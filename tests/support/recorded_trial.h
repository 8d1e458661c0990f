/* recorded_trial.h -- a case of a recorded suite (recorded.h) about one network:
 * a context, the network as text, models of it, and what calls give. */
#ifndef QG_TESTS_SUPPORT_RECORDED_TRIAL_H
#define QG_TESTS_SUPPORT_RECORDED_TRIAL_H

#include "engine/api/qg.h"
#include "tests/support/networks.h"
#include "tests/support/recorded.h"

typedef struct trial {
    recorded *r;
    qg_ctx *ctx;
    const network *net;
    unsigned k; /* of the case: what it meets */
    void *ud;
} trial;

/* Samples for reference kernels. */
qg_workload trial_samples(const trial *t, const char *data);

/* NULL: refused, with its status put. */
qg_model *trial_model(trial *t);
/* The same, quantized by o, whose report is put. */
qg_model *trial_quantized(trial *t, const qg_quantize_options *o);
/* Quantized for a backend on the samples of `data`, with `set` unless that is NULL. */
qg_model *trial_for(trial *t, const char *backend, const char *data, const char *set);

/* Puts status and report; frees the report. */
void trial_put(trial *t, const char *what, qg_status s, qg_report *report);

/* Writes a file of the working folder. */
void trial_write(const char *path, const char *text);

/* The same of classes 0 to 2 for n samples, as .npy. */
void trial_labels(const char *path, unsigned n, unsigned seed);

/* A suite over networks: chains and random ones of seeds `first`, first + 1, ...; each
 * with a context of its own.  Returns what main returns. */
typedef struct trial_suite {
    const char *path; /* of the recorded digests */
    unsigned first, chains, random;
    void (*prepare)(void); /* files that all of them read; NULL: none */
    void (*try_network)(trial *t);
    void *ud; /* of the trial */
} trial_suite;
int trial_main(const trial_suite *suite, int argc, char **argv);

#endif
