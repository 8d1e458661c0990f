/* util_resample.h -- resampling along one axis, for Resize and Upsample: the input
 * positions and weights of output element i.
 *
 * Every mode is a table: output i = sum over t of weight[i][t] * input[index[i][t]],
 * indices already clamped to the input.  Interpolation in several dimensions is one
 * table per axis, applied one after the other.
 * Source: ONNX Resize-19 and its reference implementation (taps are the n nearest
 * neighbours; a coordinate that is whole counts as the right end of its interval).
 *
 * Example: linear, in 2, out 4, HALF_PIXEL: coordinates -0.25, 0.25, 0.75, 1.25;
 * output 1 is 0.75 input[0] + 0.25 input[1], outputs 0 and 3 are the borders. */
#ifndef QG_OPS_UTIL_RESAMPLE_H
#define QG_OPS_UTIL_RESAMPLE_H

#include "engine/ir/op.h"

/* ONNX's names: nearest, linear, cubic. */
enum qg_resize_mode { QG_RESIZE_NEAREST, QG_RESIZE_LINEAR, QG_RESIZE_CUBIC };

/* Position of the centre of output element i in the input, with s = out / in:
 *
 *     HALF_PIXEL            (i + 0.5) / s - 0.5
 *     HALF_PIXEL_SYMMETRIC  the same, moved so that both borders are cut alike
 *     PYTORCH_HALF_PIXEL    the same; 0 where out is 1
 *     ALIGN_CORNERS         i (in - 1) / (out - 1); out is s in unless nearest
 *     ASYMMETRIC            i / s
 *     TF_HALF_PIXEL         (i + 0.5) / s
 *     CROP                  within the region of interest, as ALIGN_CORNERS */
enum qg_resize_coordinate {
    QG_RESIZE_HALF_PIXEL,
    QG_RESIZE_HALF_PIXEL_SYMMETRIC,
    QG_RESIZE_PYTORCH_HALF_PIXEL,
    QG_RESIZE_ALIGN_CORNERS,
    QG_RESIZE_ASYMMETRIC,
    QG_RESIZE_TF_HALF_PIXEL, /* tf_half_pixel_for_nn, opset 11 only */
    QG_RESIZE_CROP           /* tf_crop_and_resize */
};

/* The neighbour chosen for a coordinate between two elements; the first two differ at
 * the midpoint only. */
enum qg_resize_nearest {
    QG_NEAREST_PREFER_FLOOR,
    QG_NEAREST_PREFER_CEIL,
    QG_NEAREST_FLOOR,
    QG_NEAREST_CEIL,
    QG_NEAREST_SIMPLE /* before opset 11: floor, but ceil when shrinking */
};

/* Attributes of the operator that the table depends on. */
typedef struct qg_resample {
    int mode, coordinate, nearest; /* the enums above */
    /* widen the kernel when shrinking; drop outer taps */
    bool antialias, exclude_outside;
    double cubic_a; /* of Keys' kernel; ONNX's default is -0.75 */
} qg_resample;

/* One axis: `in` elements become `out`; scale is the exact factor, which may differ
 * from out / in; [start, end] is the region of interest for CROP. */
typedef struct qg_resample_axis {
    int64_t in, out;          /* extents */
    double scale, start, end; /* scale: out / in as given by the operator */
} qg_resample_axis;

/* taps == 1: weight is NULL.  outside[i]: the coordinate lies outside the input, where
 * CROP uses the extrapolation value; NULL when there is none.
 * Cost of applying it: out * taps multiply-adds per line. */
typedef struct qg_resample_table {
    int64_t taps;   /* neighbours per output element */
    int64_t *index; /* [out][taps] */
    float *weight;  /* [out][taps] */
    bool *outside;  /* [out] */
} qg_resample_table;

/* The table is in arena a; QG_ENOMEM, also when shrinking with antialias needs too many
 * taps to store. */
QG_NODISCARD qg_status qg_resample_new(qg_ctx *ctx, qg_arena *a, const qg_resample *r,
                                       const qg_resample_axis *x,
                                       qg_resample_table *out);

#endif
