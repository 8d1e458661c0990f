/* profiles.h -- every profile on the outputs of a device: each step of its program,
 * computed on the device's own inputs.
 *
 * Steps that are the same graph in several profiles are computed once.
 *
 *     QG_TRY(qg_fit_add(&f, "tflite-reference", search));   // and others
 *     QG_TRY(qg_fit_run(&f));
 *     ... qg_fit_explained(&f, f.profile.at[0]) ...
 *     qg_fit_free(&f); */
#ifndef QG_ENGINE_DEVICE_PROFILES_H
#define QG_ENGINE_DEVICE_PROFILES_H

#include "engine/config/search.h"
#include "engine/core/hash.h"
#include "engine/device/step.h"
#include "engine/exec/meter.h"

/* One graph on the device's inputs; several profiles can have it. */
typedef struct qg_fit_try {
    const qg_device *d;
    const qg_device_step *step;
    qg_cut cut;
    char key[QG_HASH_TEXT]; /* of the graph */
    qg_tally tally;
    uint64_t result; /* a hash of what was computed */
    bool failed;     /* it could not be computed */
} qg_fit_try;

/* A profile at one step; try NULL: its program does not store the value. */
typedef struct qg_fit_cell {
    qg_fit_try *try;
    const qg_device_step *step;
    const char *row; /* id; "": no kernel of its own */
} qg_fit_cell;

typedef struct qg_fit_profile {
    const qg_profile *profile;
    const char *refusal; /* why the network cannot be lowered; NULL: it can */
    qg_device d;
    qg_fit_cell *cell; /* [steps of the fit's device]; NULL: refused */
} qg_fit_profile;

typedef struct qg_fit {
    qg_device *d; /* its steps are the rows */
    const char
        *given; /* a profile beside the shipped ones, perhaps one of them; NULL */
    QG_VEC(qg_fit_profile *) profile;
    QG_VEC(qg_fit_try *) todo;
    size_t done;    /* of todo */
    uint64_t *ties; /* [steps] */
    qg_meter meter;
} qg_fit;

/* Lowers one more profile; a refusal is kept, no failure.  qg_fit_run tries what was
 * added.  A profile in memory outlives the fit. */
QG_NODISCARD qg_status qg_fit_add(qg_fit *f, const char *name, qg_search search);
QG_NODISCARD qg_status qg_fit_add_profile(qg_fit *f, const qg_profile *p);
QG_NODISCARD qg_status qg_fit_run(qg_fit *f);
void qg_fit_free(qg_fit *f);
/* Forgets the profile that was added last and has run; its program is freed. */
void qg_fit_drop(qg_fit *f);

/* A hash of a graph, the same for graphs that compute the same: ids of rows are left
 * out. */
QG_NODISCARD qg_status qg_fit_key(qg_ctx *ctx, const qg_graph *g,
                                  char key[QG_HASH_TEXT]);

/* All elements of the step are the device's. */
bool qg_fit_explains(const qg_fit_cell *c);
/* Number of such steps. */
size_t qg_fit_explained(const qg_fit *f, const qg_fit_profile *p);

#endif
