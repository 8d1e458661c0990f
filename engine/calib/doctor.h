/* doctor.h -- checks of calibration data, from the data and from the activations of the
 * float network.
 *
 *     look      one input of one sample: extremes, NaN, a hash, smoothness
 *     watch     one value over all samples: the most extreme sample, dead channels,
 *               spread; merging is independent of the order of samples
 *     finding   a warning, with the sample it is about
 *
 * Thresholds are documented at the functions that use them: a warning gives the value
 * found and the value expected, and never stops the run.
 *
 * Findings of each test:
 *
 *     duplicate   exact copies only; an image saved twice with another compression is
 *                 another image; constant samples have that finding alone
 *     range       a sample against the median sample (a factor of 16), and all samples
 *                 against the training range of the first normalization or bias (8,
 *                 40); a shift of all data by a constant is not detected
 *     layout      pictures of 3 or 4 channels that are smooth and coloured; grey ones
 *                 are the same in either layout and give no warning
 *     alone       per value, so it finds a sample that is ordinary at the input and an
 *                 outlier in the middle of the network
 *     dead        of values with an axis of channels; with few samples, channels may be
 *                 unused that more samples would reach: a hint to use more
 *
 * In use (engine/analysis/doctor.c drives it over the float network):
 *
 *     qg_findings f = { .ctx = ctx, .arena = a };
 *     qg_input_kind k = qg_input_kind_of("image", &type);
 *     for (size_t i = 0; i < n; i++)
 *         qg_look_at(&sample[i], k.channels, &look[i]);
 *     QG_TRY(qg_judge_input(&f, &k, look, n));
 *     ... f.found.at[0 .. f.found.n) ...
 *
 * Units    those of the tensors
 * Owner    arrays lie in the arena given, findings in that of qg_findings
 * Failure  QG_ENOMEM only; findings so far stay */
#ifndef QG_ENGINE_CALIB_DOCTOR_H
#define QG_ENGINE_CALIB_DOCTOR_H

#include "engine/core/vec.h"
#include "engine/ir/tensor_memory.h"
#include "engine/number/wide.h"

/* clang-format off */
#define QG_FINDING_MAP(X)                                                      \
    X(NOT_FINITE, "not-finite")  /* NaN or infinities in a sample */           \
    X(CONSTANT,   "constant")    /* all elements of a sample are equal */      \
    X(DUPLICATE,  "duplicate")   /* byte for byte an earlier sample */         \
    X(RANGE,      "range")       /* much larger or smaller than the others, or than the
                                  * first layer's training range */ \
    X(LAYOUT,     "layout")      /* channels first and channels last mixed up */ \
    X(ALONE,      "alone")       /* one sample defines ranges */               \
    X(DEAD,       "dead")        /* a channel never changes */
/* clang-format on */

enum qg_finding_kind {
#define X(id, text) QG_FINDING_##id,
    QG_FINDING_MAP(X)
#undef X
        QG_NFINDING
};

/* sample: SIZE_MAX when it is about all of them.  Texts live in the arena. */
typedef struct qg_finding {
    enum qg_finding_kind kind;
    size_t sample;
    const char *where; /* input or value */
    const char *what;  /* "all elements are 0.5, expected some that differ" */
} qg_finding;

typedef struct qg_findings {
    qg_ctx *ctx;
    qg_arena *arena;
    QG_VEC(qg_finding) found;
} qg_findings;

/* where lives as long as f; text: in its arena, NULL: QG_ENOMEM. */
QG_NODISCARD qg_status qg_findings_add(qg_findings *f, enum qg_finding_kind kind,
                                       size_t sample, const char *where,
                                       const char *text);

const char *qg_finding_name(enum qg_finding_kind k); /* "not-finite" */

/* One input of one sample. */
typedef struct qg_look {
    float low, high; /* of finite elements; low > high: none */
    uint64_t n, nans, infinities;
    uint64_t above;   /* +inf, among the infinities */
    uint64_t hash[2]; /* of dims and bytes */
    double step;      /* mean |x[i + 1] - x[i]| in plain order */
    double stride;    /* the same of x[i + c], c the number of channels */
} qg_look;

/* x: float32, plain.  channels: the extent that counts channels, 0: none does. */
void qg_look_at(const qg_tensor *x, size_t channels, qg_look *out);

/* An input as the model declares it: where its channels are. */
typedef struct qg_input_kind {
    const char *name;
    size_t channels;    /* 3 or 4 (images in colour), else 0 */
    bool channels_last; /* they are the innermost axis */
    bool mask;          /* -inf in it is a mask (mask.h) */
} qg_input_kind;
qg_input_kind qg_input_kind_of(const char *name, const qg_tensor *type);

/* Elements that are a fault of the data: NaN, and infinities that are no mask. */
uint64_t qg_look_faults(const qg_input_kind *k, const qg_look *l);

/* Findings from looks [samples] at one input: not-finite, constant, duplicates, range
 * and layout.  Samples that share one are one finding, about the first of them. */
QG_NODISCARD qg_status qg_judge_input(qg_findings *f, const qg_input_kind *k,
                                      const qg_look *look, size_t samples);

/* Of one channel: a sample's sums in double in plain order, all samples' exactly. */
typedef struct qg_watch_moment {
    double sum, square;
    qg_wide sums, squares;
} qg_watch_moment;

/* One value over samples: the two largest |x| of different samples, extremes per
 * channel, and moments of channels where `spread` is wanted. */
typedef struct qg_watch {
    float top, second;       /* largest |x| of a sample; of the other samples */
    size_t sample;           /* of top; the lower one of equals */
    size_t samples;          /* seen */
    size_t nan;              /* the first sample with a NaN; SIZE_MAX: none */
    size_t channels;         /* extent of axis 1, 0: per tensor */
    float *low, *high;       /* [channels] */
    bool spread;             /* moments are taken */
    qg_watch_moment *moment; /* [channels] under spread */
    double count;            /* elements per channel */
} qg_watch;

/* Allocates arrays; type is the value's, channels are separate from rank 3 on. */
QG_NODISCARD qg_status qg_watch_begin(qg_ctx *ctx, qg_arena *a, const qg_tensor *type,
                                      bool spread, qg_watch *w);
/* The largest |x| of a sample; called by _see, which also examines channels. */
void qg_watch_note(qg_watch *w, size_t sample, float top);
void qg_watch_see(qg_watch *w, size_t sample, const qg_tensor *x);
/* Exact, so in any order; both were begun for the same type and spread. */
void qg_watch_merge(qg_watch *into, const qg_watch *from);

/* The statistics a layer expects of its inputs or outputs, from its constants. */
typedef struct qg_expected {
    const char *layer;            /* node name */
    const float *mean, *variance; /* [n] of a normalization's input; or NULL */
    const float *bias;            /* [n] of a compute node's output */
    size_t n;
} qg_expected;

/* Standard deviation per channel, relative to the layer's expectation: 1 for the data
 * that a normalization was trained on, of the order of 1 for a bias; the median counts.
 * No finding when w has no spread or other channels. */
QG_NODISCARD qg_status qg_judge_scale(qg_findings *f, const qg_expected *e,
                                      const qg_watch *w, const char *value);
/* Channels whose smallest and largest value are equal; the first eight are named. */
QG_NODISCARD qg_status qg_judge_channels(qg_findings *f, const qg_watch *w,
                                         const char *value);

/* Over all values: samples that alone define ranges, i.e. have more than twice the
 * range of any other sample.  One finding per sample, with the first such value and
 * their number.  w and name: [n]; with fewer than 3 samples there are no findings. */
QG_NODISCARD qg_status qg_judge_alone(qg_findings *f, const qg_watch *w,
                                      const char *const *name, size_t n,
                                      size_t samples);

#endif
