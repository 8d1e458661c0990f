/* stats.h -- statistics of a tensor over all samples, from which observers can derive
 * ranges later.
 *
 * Statistics belong to values of the float canonical graph, not to endpoints, so that
 * every backend and policy shares them.  All of it is a function of the set of samples:
 * merging is exactly associative and commutative, so threads, shards and machines give
 * the same bytes.
 *
 *     per channel   counts, exact min and max, sum and sum of squares (a sum per sample
 *                   in double in a fixed order, then exact: number/wide.h)
 *     per value     a histogram of 8192 bins (dyadic.h): at least 2048 between 0 and
 *                   the value farthest from it
 *     per part      samples fall into 16 parts by index modulo 16; each has min, max
 *                   and a histogram of 256 bins: shows how much a range depends on the
 *                   choice of samples
 *     on request    a histogram of 2048 bins per channel
 *
 * NaN and infinities are counted and otherwise ignored; where -inf is all there is, it
 * is a mask.
 *
 * Memory of a value of 64 channels: 64 KB of bins, 16 x 2 KB for the parts, 200 bytes
 * per channel; 112 KB in all, whatever the number of samples.
 *
 * Why the resolution of the bins suffices: a grid of 8 bits over the data has 8 to 32
 * bins per step, a percentile is off by less than a bin, 1/2048 of the range, and the
 * bins are spread evenly, so that thresholds of any search are among them.
 *
 * Why sums come in two steps: adding every element to an exact sum would cost more than
 * the network.  Within a sample the order is fixed (stats_kernel.h), hence so is the
 * rounding; between samples there is none.
 *
 *     qg_stats_seen seen;
 *     QG_TRY(qg_stats_look(ctx, v, x, scratch, &seen));      // v is only read
 *     lock; qg_stats_add(v, sample, &seen, scratch); unlock;
 *
 * Supported, and not supported:
 *
 *     yes   ranges, percentiles, divergences, squared errors, of any number of bits,
 *           symmetric or not, per tensor; extremes and moments per channel of axis 1
 *     yes   the same searches per channel, where histograms of channels were requested
 *     no    anything that needs single samples or pairs of elements: bit-exact results
 *           of other tools, ties, correlations
 *     no    channels along an axis other than the collected one
 *
 * The statistics of a constant, where needed, are made from the constant itself
 * (observer.c).
 *
 * Units    those of the tensor
 * Owner    everything lies in the arena of its qg_stats
 * Source   DESIGN 12.6 */
#ifndef QG_ENGINE_CALIB_STATS_H
#define QG_ENGINE_CALIB_STATS_H

#include <stdbool.h>

#include "engine/core/vec.h"
#include "engine/ir/tensor_memory.h"
#include "engine/number/wide.h"
#include "engine/calib/dyadic.h"
#include "engine/calib/stats_kernel.h"

enum {
    QG_STATS_BINS = 8192,
    QG_STATS_CHANNEL_BINS = 2048,
    QG_STATS_PART_BINS = 256,
    QG_STATS_PARTS = 16,
    QG_STATS_MOST_CHANNELS = 4096, /* above, statistics are per tensor unless
                                    * requested */
};

/* Statistics beyond counts and extremes; bits of qg_stats_value.holds. */
enum qg_stats_what {
    QG_STATS_MOMENTS = 1,
    QG_STATS_HISTOGRAM = 2, /* of the value and of its parts */
    QG_STATS_BY_CHANNEL = 4 /* a histogram per channel */
};

/* Of one channel, over all samples.  low > high: no finite element yet; both are +0
 * where they are zero.  Without MOMENTS sum and square stay 0. */
typedef struct qg_stats_channel {
    float low, high;
    uint64_t count; /* of finite elements; zeros are among them */
    uint64_t zeros, nans, infinities;
    uint64_t above; /* +inf, among the infinities */
    qg_wide sum, square;
    qg_dyadic bins; /* under BY_CHANNEL */
} qg_stats_channel;

/* Of the samples whose index modulo 16 is that of the part; all channels. */
typedef struct qg_stats_part {
    float low, high;
    uint64_t count, zeros; /* of finite elements */
    qg_dyadic bins;        /* under HISTOGRAM */
} qg_stats_part;

/* Everything about one value.  Two of them can be merged when axis, channels and holds
 * agree. */
typedef struct qg_stats_value {
    const char *name; /* of the graph's value */
    int32_t axis;     /* of channels; -1: per tensor */
    uint32_t channels;
    unsigned holds;            /* bits of qg_stats_what */
    qg_stats_channel *channel; /* [channels] */
    qg_stats_part *part;       /* [QG_STATS_PARTS] */
    qg_dyadic bins;            /* under HISTOGRAM */
} qg_stats_value;

/* Samples first .. end - 1. */
typedef struct qg_stats_range {
    uint64_t first, end;
} qg_stats_range;

/* The origin of the statistics.  Texts are hex digits or free words, never NULL. */
typedef struct qg_stats_manifest {
    const char *model;         /* SHA-256 of the ONNX file */
    const char *graph;         /* fingerprint of the canonical graph */
    const char *preprocessing; /* SHA-256 of how data become inputs */
    const char *kernels;       /* "reference", or the library's version and its
                            * instruction set; "several" after a merge of such */
    const char *data;          /* base name of where samples came from; "": several */
    const char *data_sha256;   /* of that file; "": several, or no file */
} qg_stats_manifest;

/* A set of values over a set of samples: the contents of a file. */
typedef struct qg_stats {
    qg_ctx *ctx;
    qg_arena *arena; /* owned */
    qg_stats_manifest manifest;
    QG_VEC(qg_stats_range) seen;    /* ascending, apart from each other */
    QG_VEC(qg_stats_value *) value; /* in order of the graph's values */
    qg_names *names;                /* of values: ids are positions in `value` */
} qg_stats;

/* Without values and samples; the manifest's texts are "". */
QG_NODISCARD qg_status qg_stats_new(qg_ctx *ctx, qg_stats **out);
void qg_stats_free(qg_stats *s); /* NULL is fine */

/* Axis 1 when there is one of a known extent of at most QG_STATS_MOST_CHANNELS; else
 * -1: the axis of channels unless another was requested. */
int32_t qg_stats_axis_of(const qg_tensor *type);

/* What such a record takes, at least. */
uint64_t qg_stats_value_bytes(uint64_t channels, unsigned holds);

/* An empty record, last in s->value; axis -1 or one of `type`, whose extent is known
 * and at least 1.  The name is copied; QG_EDATA when it is taken. */
QG_NODISCARD qg_status qg_stats_add_value(qg_stats *s, const char *name,
                                          const qg_tensor *type, int32_t axis,
                                          unsigned holds, qg_stats_value **out);

/* The same on its own, in `a`; v->name, axis and holds are set. */
QG_NODISCARD qg_status qg_stats_value_init(qg_ctx *ctx, qg_arena *a,
                                           const qg_tensor *type, qg_stats_value *v);

qg_stats_value *qg_stats_find(const qg_stats *s, const char *name); /* or NULL */

/* Adds samples [first, end) to s->seen; QG_EDATA when one of them is there already,
 * naming the first. */
QG_NODISCARD qg_status qg_stats_mark(qg_stats *s, uint64_t first, uint64_t end);
uint64_t qg_stats_samples(const qg_stats *s); /* number of them */

/* How many of them are in the first `parts` parts. */
uint64_t qg_stats_samples_in(const qg_stats *s, unsigned parts);

/* Whether both have seen some sample. */
bool qg_stats_overlap(const qg_stats *a, const qg_stats *b);

/* --- one tensor --- */

/* Looking and adding are separate, because looking is slow and needs no lock:
 *
 *     look   min, max, zeros, NaN: one pass, per channel
 *            sums: in lanes, per channel, in the fixed order
 *            bins: a second pass; the exponent is that of this tensor
 *     add    counts, exact sums, bins at the exponent of all samples so far
 *
 * Both passes run in cache for tensors up to some megabytes. */

/* Statistics of one tensor; in scratch. */
typedef struct qg_stats_seen {
    const qg_tensor *x; /* borrowed */
    qg_stats_sums sums; /* of finite elements */
    /* [channels]; NULL: there are none.  above: +inf, among infs */
    uint64_t *nans, *infs, *above;
    uint64_t count;      /* elements per channel, all of them */
    float low, high;     /* of all channels; low > high: nothing finite */
    qg_dyadic bins;      /* counts [first, end) exist; under HISTOGRAM */
    uint32_t first, end; /* of bins */
} qg_stats_seen;

/* Collects the statistics of x: float32, any strides, never empty.  v is not changed.
 * QG_EDATA when the axis has another extent than before; QG_EUNSUPPORTED for 2^31
 * elements and more. */
QG_NODISCARD qg_status qg_stats_look(qg_ctx *ctx, const qg_stats_value *v,
                                     const qg_tensor *x, qg_arena *scratch,
                                     qg_stats_seen *out);

/* Adds it.  Cannot fail but under BY_CHANNEL (QG_ENOMEM; v is spoilt then). */
QG_NODISCARD qg_status qg_stats_add(qg_ctx *ctx, qg_stats_value *v, uint64_t sample,
                                    const qg_stats_seen *seen, qg_arena *scratch);

/* --- merging and reading --- */

/* *low and *high become the extremes of both ranges; zeros lose their sign. */
void qg_stats_widen(float *low, float *high, float l, float h);

/* into += from.  QG_EDATA, before anything is changed, when manifests or values differ
 * or samples overlap; `a` and `b` name the two in the message.  Where data come from
 * may differ: it is forgotten then. */
QG_NODISCARD qg_status qg_stats_merge(qg_stats *into, const qg_stats *from,
                                      const char *a, const char *b);

/* All channels as one: extremes, counts and moments; no bins. */
qg_stats_channel qg_stats_total(const qg_stats_value *v);

/* Of the finite elements; 0 when there are none. */
double qg_stats_mean(const qg_stats_channel *c);
double qg_stats_variance(const qg_stats_channel *c); /* of the population, >= 0 */

#endif
