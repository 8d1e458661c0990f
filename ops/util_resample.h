/* util_resample.h -- resampling along one axis, for Resize and Upsample: where output
 * element i looks in the input, and with which weights.
 *
 * Every mode is a table: output i = sum over t of weight[i][t] * input[index[i][t]],
 * indices already clamped to the input.  Interpolation in several dimensions is one
 * table per axis, applied one after the other.
 * Source: ONNX Resize-19 and its reference implementation (taps are the n nearest
 * neighbours; a coordinate that is whole counts as the right end of its interval). */
#ifndef QG_OPS_UTIL_RESAMPLE_H
#define QG_OPS_UTIL_RESAMPLE_H

#include "engine/ir/op.h"

enum qg_resize_mode { QG_RESIZE_NEAREST, QG_RESIZE_LINEAR, QG_RESIZE_CUBIC };

enum qg_resize_coordinate {
    QG_RESIZE_HALF_PIXEL,
    QG_RESIZE_HALF_PIXEL_SYMMETRIC,
    QG_RESIZE_PYTORCH_HALF_PIXEL,
    QG_RESIZE_ALIGN_CORNERS,
    QG_RESIZE_ASYMMETRIC,
    QG_RESIZE_TF_HALF_PIXEL, /* tf_half_pixel_for_nn, opset 11 only */
    QG_RESIZE_CROP           /* tf_crop_and_resize */
};

enum qg_resize_nearest {
    QG_NEAREST_PREFER_FLOOR,
    QG_NEAREST_PREFER_CEIL,
    QG_NEAREST_FLOOR,
    QG_NEAREST_CEIL,
    QG_NEAREST_SIMPLE /* before opset 11: floor, but ceil when shrinking */
};

typedef struct qg_resample {
    int mode, coordinate, nearest; /* the enums above */
    bool antialias, exclude_outside;
    double cubic_a;
} qg_resample;

/* One axis: `in` elements become `out`; scale is the exact factor, which out / in need
 * not be; [start, end] is the region of interest for CROP. */
typedef struct qg_resample_axis {
    int64_t in, out;
    double scale, start, end;
} qg_resample_axis;

/* taps == 1: weight is NULL.  outside[i]: the coordinate lies outside the input and
 * CROP wants its own value there; NULL when there is none. */
typedef struct qg_resample_table {
    int64_t taps;
    int64_t *index; /* [out][taps] */
    float *weight;  /* [out][taps] */
    bool *outside;  /* [out] */
} qg_resample_table;

QG_NODISCARD qg_status qg_resample_new(qg_ctx *ctx, qg_arena *a, const qg_resample *r,
                                       const qg_resample_axis *x,
                                       qg_resample_table *out);

#endif
