/* observer_ppq.c -- what PPQ does: minmax and percentile (its own default).
 *
 * Source   spec/ppq.md 3.3, 3.4 */
#include "engine/quant/observer_parts.h"

const qg_observer qg_observer_ppq_minmax = {
    .name = "ppq-minmax",
    .summary = "PPQ: smallest and largest value of all samples",
    .source = "spec/ppq.md 3.3",
    .per_channel = true,
    .passes = 1,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .bytes = qg_minmax_bytes,
    .begin = qg_minmax_begin,
    .see = qg_minmax_see,
    .merge = qg_minmax_merge,
    .finish = qg_minmax_finish,
};

const qg_observer qg_observer_ppq_percentile = {
    .name = "ppq-percentile",
    .summary = "PPQ: order statistics of each sample, averaged over samples",
    .source = "spec/ppq.md 3.4",
    .passes = 1,
    .value = {[QG_PARAM_PERCENTILE] = 0.9999, [QG_PARAM_MIN_SCALE] = 1e-8},
    .bytes = qg_percentile_bytes,
    .see = qg_percentile_see,
    .merge = qg_percentile_merge,
    .finish = qg_percentile_finish,
};
