/* observer_setting.h -- the observer of an endpoint and its parameters.
 *
 * All parameters of all observers are one list, so that backend files, --set,
 * --observer, quant.json and the journal use one name for each.  The observers' table
 * (observer.h) lists the parameters of each observer.
 *
 *     percentile    of the elements of a sample (ours, PPQ) or of all (ORT, NVIDIA);
 *                   0.9999 leaves one in ten thousand outside
 *     min-scale     a floor under every scale, for tensors of zeros
 *     bins          of the first histogram; one that grows gets more
 *     levels        groups that kept bins are merged to: ORT's num_quantized_bins, 128
 *                   of ncnn
 *     first-bin     NVIDIA's start_bin: fewer bins are never kept
 *     bin-stride    NVIDIA's stride
 *     averaging     ORT's averaging_constant: range += averaging * (sample's - range)
 *     power         of ORT's scenarios: 1 is `same`, 1/3 is `p3`
 *     compare-axis  of isotone; negative counts from the end
 *     fetches       of the floating observer, per tensor and sample
 *
 * In use:
 *
 *     set: {observer: ppq-kl, bins: 2048}                        a rule
 *     --set 'op=Conv_3 slot=in0 observer=percentile percentile=0.999'
 *     --observer ort-entropy,bins=2048                           all activations
 *     "observer": "ppq-kl", "observer_parameters": {"bins": 2048.0}   quant.json */
#ifndef QG_ENGINE_QUANT_OBSERVER_SETTING_H
#define QG_ENGINE_QUANT_OBSERVER_SETTING_H

#include <stdbool.h>

/* clang-format off */
/* id, key, whole, least, most, meaning.  A whole parameter is an integer; 0 is in no
 * range, because it stands for the observer's own default.  (ORDER PARAM) */
#define QG_OBSERVER_PARAM_MAP(X)                                               \
    X(PERCENTILE, "percentile", 0, 0.5,   1,       "fraction inside the range") \
    X(MIN_SCALE,  "min-scale",  0, 1e-38, 1,       "least scale")              \
    X(BINS,       "bins",       1, 2,     1048576, "bins of the histogram")    \
    X(LEVELS,     "levels",     1, 2,     65536,   "codes in the search")      \
    X(FIRST_BIN,  "first-bin",  1, 1,     1048576, "first bin that may be the end") \
    X(BIN_STRIDE, "bin-stride", 1, 1,     65536,   "bins between candidates")  \
    X(AVERAGING,  "averaging",  0, 1e-6,  1,       "weight of a new sample")   \
    X(POWER,      "power",      0, 0.1,   4,       "exponent of a sample")     \
    X(COMPARE_AXIS, "compare-axis", 1, -8, 7,     "not 0")                     \
    X(FETCHES,    "fetches",    1, 1,     1048576, "elements read per sample") \
    X(STEP,       "step",       0, 1e-30, 1e30,    "the scale itself")         \
    X(ZERO,       "zero",       1, 1,     1048576, "which code is 0, from 1 up")
/* clang-format on */

typedef enum qg_observer_param {
#define X(id, ...) QG_PARAM_##id,
    QG_OBSERVER_PARAM_MAP(X)
#undef X
        QG_NOBSERVER_PARAM
} qg_observer_param;

/* Copied by value.  A rule that names another observer drops the parameters of the
 * previous one, except min-scale. */
typedef struct qg_observer_setting {
    const char *name; /* "percentile"; NULL: none (constants of a borrowed scale) */
    double value[QG_NOBSERVER_PARAM]; /* 0: the observer's own default */
} qg_observer_setting;

/* The legal values of a parameter. */
typedef struct qg_param_limit {
    bool whole;
    double least, most;
} qg_param_limit;

const char *qg_observer_param_name(qg_observer_param p); /* "min-scale" */
qg_param_limit qg_observer_param_limit(qg_observer_param p);

#endif
