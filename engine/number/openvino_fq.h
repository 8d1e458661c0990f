/* openvino_fq.h -- OpenVINO's FakeQuantize: the operator, the CPU plugin's computation,
 * and conversions to and from (scale, zero point, qmin, qmax).
 *
 *     reference   x <= min(il, ih): ol;  x > max(il, ih): oh;  else, each step in f32,
 *                 t = rint((x - il) / (ih - il) * (L-1)) / (L-1); y = t * (oh-ol) + ol
 *     plugin      isc = (L-1) / (ih - il); ish = -(il * isc)
 *                 t = rint(crop(x) * isc + ish);   y = fma(t, (oh - ol) / (L-1), ol)
 *
 * `<=` below and `>` above are the operator's.  il == ih is a binarizer, il > ih is
 * legal: thresholds use min and max, the interpolation the limits as they are.  x == ih
 * goes through the arithmetic and may miss oh by one ulp.  NaN stays NaN in the
 * reference; the plugin's crop turns it into il.
 *
 * Units   il, ih, x: the tensor's own; ol, oh, y: the output's; L: levels >= 2
 * Shapes  each limit broadcasts to x by itself, right-aligned
 * Source  docs/evidence/openvino.md; OpenVINO 2026.4.1, run.
 *
 * Example: scale 0.1, zero point 128, codes [0, 255] is the FakeQuantize with 256
 * levels from -12.8 to 12.7. */
#ifndef QG_ENGINE_NUMBER_OPENVINO_FQ_H
#define QG_ENGINE_NUMBER_OPENVINO_FQ_H

#include <stdbool.h>

#include "engine/number/integer_array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The implementation; the reference defines the operator.  LPT: OpenVINO's low
 * precision transformations. */
/* clang-format off */
#define QG_OPENVINO_MAP(X)                                                     \
    X(REFERENCE,         "reference",         "the operator, x86-64")          \
    X(REFERENCE_AARCH64, "reference-aarch64", "its last step is fma(t, oh - ol, ol)") \
    X(CPU,               "cpu",               "CPU plugin on x86-64, LPT off") \
    X(CPU_AARCH64,       "cpu-aarch64",       "CPU plugin on aarch64")         \
    X(CPU_LPT,           "cpu-lpt",           "CPU plugin on x86-64, LPT on")
/* clang-format on */

typedef enum qg_openvino_form {
#define X(id, text, meaning) QG_OPENVINO_##id,
    QG_OPENVINO_MAP(X)
#undef X
        QG_NOPENVINO
} qg_openvino_form;

QG_API const char *qg_openvino_form_name(qg_openvino_form f);

/* One of the four limits: dense, right-aligned to x. */
typedef struct qg_openvino_limit {
    qg_int_dims dims;
    const float *value; /* dense */
} qg_openvino_limit;

/* Borrowed; limits may have any four shapes that broadcast. */
typedef struct qg_openvino_fq {
    int32_t levels; /* 2 and more */
    qg_openvino_form form;
    qg_openvino_limit input_low, input_high, output_low, output_high;
} qg_openvino_fq;

/* y[i] for every element of x with these dims; y may be x.  QG_EMODEL when a limit does
 * not broadcast to x or levels is below 2; QG_EUNSUPPORTED for the plugin forms where
 * the plugin itself breaks (il >= ih; with LPT also output limits of different shapes).
 *  */
QG_NODISCARD QG_API qg_status qg_openvino_fq_run(qg_ctx *ctx, const qg_openvino_fq *fq,
                                                 const qg_int_dims *dims,
                                                 const float *x, float *y);

/* -- conversions ------------------------------------------------------------------ */

/* q = clip(round(x / scale) + zero, qmin, qmax), x' = (q - zero) * scale. */
typedef struct qg_affine {
    double scale, zero; /* real, in steps; zero need not be whole */
    int64_t qmin, qmax; /* codes, inclusive */
} qg_affine;

/* The attributes of a FakeQuantize, and the loss from storing float32. */
typedef struct qg_openvino_range {
    double low, high;    /* exact up to double */
    float low32, high32; /* as they are written */
    int64_t levels;
    double residual;  /* largest |written grid - affine grid| over all levels */
    bool ties_differ; /* zero - qmin is odd: ties round to the other neighbour */
} qg_openvino_range;

/* Input (and output) range of the FakeQuantize with the same grid:
 *     high = (qmax - zero) scale,  low = high - scale (qmax - qmin),  all in double.
 * The sign of scale is dropped, zero is rounded half to even and limited to [qmin,
 * qmax]. QG_ENUMERIC when scale is 0 or not finite, QG_ECONFIG when qmin >= qmax or the
 * levels exceed 2^32. */
QG_NODISCARD QG_API qg_status qg_openvino_from_affine(qg_ctx *ctx, const char *what,
                                                      qg_affine a,
                                                      qg_openvino_range *out);

/* The reverse: a->qmin and a->qmax give the codes, scale and zero are written.  zero is
 * real (the caller rounds it); *residual is how far the grid moves when it is rounded:
 * scale * |zero - rint(zero)|, the same for all levels.  QG_ENUMERIC unless low < high,
 * finite, and qmin < qmax. */
QG_NODISCARD QG_API qg_status qg_openvino_to_affine(qg_ctx *ctx, const char *what,
                                                    double low, double high,
                                                    qg_affine *a, double *residual);

/* A weight grid trained in half its codes (7 of 8 bits), for export with all of them:
 * qmin doubles, qmax becomes 2 qmax + 1, the step stays.  The weights must first be
 * clamped to [*low, *high], the trained range; MQBench omits that, and w = high + scale
 * / 2 then gets a code that was never trained. */
QG_API qg_affine qg_openvino_full_range(qg_affine half, double *low, double *high);

#ifdef __cplusplus
}
#endif

#endif
