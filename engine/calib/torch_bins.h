/* torch_bins.h -- the bin that torch.histc counts a value in.
 *
 * Source  ATen/native/cpu/HistogramKernel.cpp, histogramdd_cpu_contiguous with linear
 *         bins: (v - low) * bins / (high - low) in float32, the last bin closed.
 *         Where that leaves float32 the result there is undefined; here it is that of
 *         exact arithmetic. */
#ifndef QG_ENGINE_CALIB_TORCH_BINS_H
#define QG_ENGINE_CALIB_TORCH_BINS_H

#include <math.h>
#include <stddef.h>

/* low < high, both finite; bins > 0; v within [low, high]. */
static inline size_t qg_torch_bin(float v, float low, float high, size_t bins)
{
    const float place = (v - low) * (float)bins / (high - low);
    double p = (double)place;
    if (!isfinite(place))
        p = ((double)v - (double)low) * (double)bins / ((double)high - (double)low);
    return p < (double)bins ? (size_t)p : bins - 1;
}

#endif
