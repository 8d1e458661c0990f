/* observer.h -- from what a tensor held to the range its grid should cover.
 *
 * An observer is a row of a table.  Per observed endpoint and worker it owns a state of
 * `bytes`; the states of all workers are merged, and the result must not depend on
 * which worker saw which sample: a merge is exactly associative and commutative, or
 * keeps samples apart.  Scale and offset follow from the range by qg_scheme_from_range.
 *
 *     begin(state) -> see(sample 0), see(sample 7), ... -> merge into another -> finish
 *
 * NaN and infinities in a tensor are QG_ENUMERIC: no range can hold them.
 * To add an observer: a row, and a test against numbers computed elsewhere.
 *
 *     minmax      smallest and largest value of all samples; also per channel
 *     percentile  per sample the bounds of the fraction p on either side, averaged
 *
 * Memory: one state per observed endpoint and worker. */
#ifndef QG_ENGINE_QUANT_OBSERVER_H
#define QG_ENGINE_QUANT_OBSERVER_H

#include "engine/quant/tqc.h"

/* What is observed; constant during a calibration.
 * Borrowed: they outlive the calibration. */
typedef struct qg_observe {
    const qg_scheme *scheme;            /* of the endpoint */
    const qg_observer_setting *setting; /* zeros: the observer's own */
    size_t channels;                    /* 1 under PER_TENSOR, else dim[axis] */
    size_t samples;                     /* indices of samples are below this */
} qg_observe;

/* A row: how one way of observing works.  All functions are pure but for `state`. */
typedef struct qg_observer {
    /* for lists and messages; where it comes from */
    const char *name, *summary, *source;
    bool per_channel; /* can serve PER_CHANNEL schemes */
    unsigned passes;  /* over the data, at least 1 */

    /* The state's size; it is zeroed and aligned for any type before begin. */
    size_t (*bytes)(const qg_observe *o);
    void (*begin)(const qg_observe *o, void *state);

    /* x: float32, any strides, never empty; scratch is the caller's to reset. */
    qg_status (*see)(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                     const qg_tensor *x, qg_arena *scratch);
    void (*merge)(const qg_observe *o, void *into, const void *from);

    /* low[c] <= high[c], finite, for every channel.  Something was seen (asserted). */
    void (*finish)(const qg_observe *o, const void *state, double *low, double *high);
} qg_observer;

extern const qg_observer qg_observers[]; /* ends with a row whose name is NULL */

const qg_observer *qg_observer_find(const char *name); /* NULL: unknown */

/* The observer of an endpoint, and how many channels of `x` it must tell apart.
 * QG_ECONFIG names endpoint and observer when it does not serve the scheme.
 * *observer is static; *out borrows from t. */
QG_NODISCARD qg_status qg_observe_begin(qg_ctx *ctx, const qg_tqc *t,
                                        const qg_tensor *x, size_t samples,
                                        const qg_observer **observer, qg_observe *out);

/* The qg_range_quirk bits of a mask of quirks: D01 and D02 come back on request. */
unsigned qg_range_quirks(uint64_t quirks);

/* Ranges to parameters of t, and state ACTIVATED.  q->author must be set.
 * One scale per channel through qg_scheme_from_range, with the quirks of q. */
QG_NODISCARD qg_status qg_observe_finish(qg_quant *q, qg_tqc *t, const qg_observer *ob,
                                         const qg_observe *o, const void *state);

#endif
