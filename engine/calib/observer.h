/* observer.h -- from the values of a tensor to the range its grid should cover.
 *
 * An observer is a row of a table (observers.def); a family of rows is a file.  Per
 * observed endpoint it owns a state of `bytes`.  An observer may require several passes
 * over the data, e.g. the range first, then bins:
 *
 *     begin -> see(sample 0), see(7) ... -> merge -> next -> see ... -> merge -> finish
 *              `------ pass 0 --------------'        `---- pass 1 ----'
 *
 * Unordered  (most) every worker has a state; all are merged, and the result must not
 *            depend on the distribution of samples over workers: a merge is exactly
 *            associative and commutative, or keeps samples apart.  After `next` each
 *            worker starts with a copy of the merged state, so `next` must leave the
 *            results so far with empty counts: merging several copies must count them
 *            once.  Such a state is plain memory: its only pointers are to memory made
 *            by `next`.
 * Ordered    the result depends on the order of samples: histograms that grow batch by
 *            batch.  There is one state; the driver calls `see` with samples 0, 1, 2,
 *            ... in this order, from any thread but one at a time.  No merge.  The
 *            state may point into o->keep.
 *
 * The driver (calib/calibrate.h) makes as many passes as the most demanding observer
 * needs, and watches in later passes only the endpoints that need them.
 *
 * Families     two of them read the data in ways that differ on purpose
 *
 *     ours      minmax, percentile, ...   correct by this project's definition
 *     ppq-      PPQ 0.6.6 on the CPU      with its defects; scale of a range as ours
 *     ort-      onnxruntime.quantization  all samples as one batch, as quantize_static
 *                                         does it; -stream: one batch per sample; scale
 *                                         and zero point by compute_scale_zp
 *     nvidia-   pytorch-quantization      one batch per sample; scale = amax / qmax
 *     ncnn-     ncnn2table                scale = threshold / qmax
 *
 * A family reproduces its tool, bit for bit where the arithmetic is known
 * (tests/data/vectors) and up to rounding of the forward pass on a network.  Where the
 * tool raises an exception, or divides by zero, the row documents its result.
 *
 * Range or scale  finish gives a range, from which qg_scheme_from_range makes scale and
 *                 offset, or the scale itself where the source has a formula of its
 *                 own.
 * NaN and infinities in a tensor are QG_ENUMERIC: no range contains them.
 * Memory     one state per observed endpoint and worker.
 *
 * To add one: a row in the file of its family, a line in observers.def, a test against
 * numbers computed elsewhere.  In full, the largest |x| of any sample:
 *
 *     static size_t bytes(const qg_observe *o) { return sizeof(float); }
 *
 *     static qg_status see(qg_ctx *ctx, const qg_observe *o, void *state,
 *                          size_t sample, const qg_tensor *x, qg_arena *scratch)
 *     {
 *         qg_observe_walk(o, x, widen, state);           // observer_parts.h
 *         return QG_OK;
 *     }
 *
 *     static void merge(const qg_observe *o, void *into, const void *from)
 *     {
 *         *(float *)into = fmaxf(*(float *)into, *(const float *)from);
 *     }
 *
 *     static qg_status finish(qg_ctx *ctx, const qg_observe *o, const void *state,
 *                             qg_arena *scratch, qg_found *out)
 *     {
 *         out->high[0] = *(const float *)state;
 *         out->low[0] = -out->high[0];
 *         return QG_OK;
 *     }
 *
 *     const qg_observer qg_observer_absmax = {
 *         .name = "absmax", .summary = "largest size of any element", .source = "...",
 *         .passes = 1, .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
 *         .bytes = bytes, .see = see, .merge = merge, .finish = finish };
 *
 * Every row has min-scale: a range of width zero must not give a scale of zero. */
#ifndef QG_ENGINE_CALIB_OBSERVER_H
#define QG_ENGINE_CALIB_OBSERVER_H

#include <assert.h>

#include "engine/quant/tqc.h"

typedef struct qg_observer qg_observer;
typedef struct qg_stats_value qg_stats_value;   /* calib/stats.h */
typedef struct qg_distribution qg_distribution; /* calib/derive.h */
typedef struct qg_curve qg_curve;               /* calib/histogram.h */

/* The observed endpoint; constant during a pass.
 * Borrowed: scheme and setting outlive the calibration. */
typedef struct qg_observe {
    const qg_observer *observer;
    const qg_scheme *scheme;            /* of the endpoint */
    const qg_observer_setting *setting; /* read it by qg_observe_value */
    size_t channels;                    /* 1 under PER_TENSOR, else dim[axis] */
    size_t samples;                     /* indices of samples are below this */
    const qg_stats_value *stats; /* the statistics it reads instead; NULL: it has a
                                  * state */
    unsigned pass;               /* at work, 0 .. observer->passes - 1 */
    unsigned quirks;             /* qg_range_quirks(...), for qg_observe_find */
    bool with_any;               /* however few elements there are: no fall-back */
    bool floored;   /* result: min-scale is all that gives a scale, and not to zeros */
    qg_arena *keep; /* lives until finish.  Writers: `next`; `see` if ordered */
    qg_curve
        *curve; /* zeros, for an observer that compares thresholds; NULL: unwanted */
} qg_observe;

/* The result of finish, per channel: low[c] <= high[c], finite; or, with `is_param`
 * set, scale[c] > 0 and offset[c].  Arrays are [channels], zeroed.  `raised` and `fit`
 * count under is_param (qg_found_scale does it). */
typedef struct qg_found {
    double *low, *high;
    bool is_param;
    float *scale;
    int32_t *offset;
    size_t raised, fit; /* channels below min-scale that are no zeros; those above */
} qg_found;

/* A row: one kind of observer.  All functions are pure except for `state`. */
struct qg_observer {
    /* for lists and messages; where it comes from */
    const char *name, *summary, *source;
    const char *fails; /* where it is known to fail; NULL: nowhere yet */
    bool per_channel;  /* can serve PER_CHANNEL schemes */
    bool ordered;      /* see the file comment; then merge is NULL */
    bool stacks;     /* PPQ (D72): computed values have separate channels per sample */
    unsigned passes; /* over the data, at least 1 */
    uint32_t policy; /* schemes must have all of these bits; 0: any scheme */
    double value[QG_NOBSERVER_PARAM]; /* defaults; 0: has no such parameter; NaN: a
                                       * rule gives it */
    unsigned range; /* qg_range_quirk: how the tool makes a scale of its ranges */

    /* Whether the setting fits the scheme; the caller adds the endpoint.  NULL: any. */
    qg_status (*check)(qg_ctx *ctx, const qg_observe *o);

    /* The state's size, `size` where it is always the same (then bytes is NULL); it is
     * zeroed and aligned for any type before begin. */
    size_t (*bytes)(const qg_observe *o);
    size_t size;
    void (*begin)(const qg_observe *o, void *state); /* NULL: zeros will do */

    /* x: float32, any strides, never empty; scratch is the caller's to reset. */
    qg_status (*see)(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                     const qg_tensor *x, qg_arena *scratch);
    void (*merge)(const qg_observe *o, void *into, const void *from);

    /* Between passes, on the merged state, which is not empty: turns it into the
     * initial state of pass o->pass.  NULL: nothing to do. */
    qg_status (*next)(qg_ctx *ctx, const qg_observe *o, void *state);

    /* The functions of an observer of statistics are pure, too: no state, no order, no
     * samples, so that one file answers for any scheme, bit width and observer.
     * Observers that read statistics instead (calib/derive.h) have `pick`, one pass and
     * none of the other functions; minmax has both.  reads: bits of qg_stats_what that
     * must have been collected.  low[0], high[0] or the parameter of one scale. */
    unsigned reads;
    bool blind; /* pick needs no statistics at all: d is NULL */
    qg_status (*pick)(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                      qg_arena *scratch, qg_found *out);

    /* Elements below which the range is that of the data: a histogram of fewer does not
     * determine a threshold (docs/calibration.md#few-elements).  NULL: any number will
     * do; those of other tools do as their tool. */
    uint64_t (*least)(const qg_observe *o);

    /* The last pass saw at least one element.  Messages describe the failure; the
     * caller adds the endpoint. */
    qg_status (*finish)(qg_ctx *ctx, const qg_observe *o, const void *state,
                        qg_arena *scratch, qg_found *out);

    const void *host; /* for an observer added by a host: the data of its functions */
};

#define OBSERVER(x) extern const qg_observer qg_observer_##x;
#include "engine/calib/observers.def"
#undef OBSERVER

extern const qg_observer *const qg_observers[]; /* of the build; ends with NULL */

/* Of the build, else of the context's additions; NULL: unknown. */
const qg_observer *qg_observer_find(const qg_ctx *ctx, const char *name);

/* The observer after `last` in that order, NULL at the end; the first for NULL. */
const qg_observer *qg_observer_next(const qg_ctx *ctx, const qg_observer *last);

/* A parameter as given, or else the observer's default; only its own (asserted). */
static inline double qg_observe_value(const qg_observe *o, qg_observer_param p)
{
    double given = o->setting->value[p];
    assert(o->observer->value[p] != 0);
    return given != 0 ? given : o->observer->value[p];
}

/* The size of o's state; 0 where the observer has none. */
static inline size_t qg_observe_bytes(const qg_observe *o)
{
    return o->observer->bytes ? o->observer->bytes(o) : o->observer->size;
}

/* Every parameter that is given must be the observer's and in its range; no observer is
 * legal.  QG_ECONFIG lists its parameters; `what` begins the message. */
QG_NODISCARD qg_status qg_observer_check(qg_ctx *ctx, const char *what,
                                         const qg_observer_setting *s);

/* "ppq-kl", "ppq-kl,bins=2048": a setting that qg_observer_check accepts.  QG_ECONFIG
 * with the nearest name. */
QG_NODISCARD qg_status qg_observer_parse(qg_ctx *ctx, const char *text,
                                         qg_observer_setting *out);

#endif
