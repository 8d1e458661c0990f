/* recorded_trial.h -- a case of a recorded suite (recorded.h) about one network:
 * a context, the network as text, models of it, and what calls give.  Suites run in a
 * private folder, so that paths in messages are the same everywhere. */
#ifndef QG_TESTS_SUPPORT_RECORDED_TRIAL_H
#define QG_TESTS_SUPPORT_RECORDED_TRIAL_H

#include "engine/api/qg.h"
#include "tests/support/networks.h"
#include "tests/support/recorded.h"
#include "tests/support/scratch.h"

#define COUNT(x)       (sizeof(x) / sizeof *(x))
#define TURN(table, k) ((table)[(k) % COUNT(table)])

typedef struct trial {
    recorded *r;
    qg_ctx *ctx;
    const network *net;
    unsigned k; /* of the case: what it meets */
} trial;

/* A context whose warnings are put; the address of t must stay. */
void trial_open(trial *t);
void trial_close(trial *t);

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

/* A private folder becomes the working one, and is removed. */
void trial_enter(char folder[SCRATCH_PATH], const char *name);
void trial_leave(const char *folder);

#endif
