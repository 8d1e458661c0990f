/* window.c -- HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix: tables for
 * spectra, computed in double.  Source: the ONNX operator pages, and for the rounding
 * of mel frequencies to bins the reference implementation there. */
#include "ops/families.h"

#include <math.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

static const double TWO_PI = 6.283185307179586476925;

typedef struct window_param {
    qg_dtype dtype;
    int64_t periodic; /* 0: symmetric */
} window_param;

/* The type of the table, float32 unless stated otherwise. */
static qg_status window_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    window_param *p = param;
    int64_t code;
    QG_TRY(qg_attr_int(ctx, n, "output_datatype", qg_dtype_onnx(QG_F32), &code));
    QG_TRY(qg_attr_int(ctx, n, "periodic", 1, &p->periodic));
    p->dtype = qg_dtype_of_onnx(code);
    if (!QG_DT_HAS(QG_DT_NUMBERS, p->dtype))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "output_datatype %lld, supported: numbers",
                            (long long)code);
    return QG_OK;
}

/* Input `slot` is one integer within [0, limit]; -1 while it has no data. */
static qg_status one_integer(const qg_call *k, size_t slot, int64_t limit, int64_t *out)
{
    const qg_tensor *t = k->in[slot];
    *out = -1;
    QG_TRY(qg_check_type(k, slot, QG_DT_INDEX));
    if (!t->data)
        return QG_OK;
    const int64_t count = qg_tensor_count(t), x = count == 1 ? qg_tensor_i64(t, 0) : -1;
    if (x < 0 || x > limit)
        return qg_infer_fail(k, QG_EDATA,
                             "input %zu is not one integer within [0, %lld]", slot,
                             (long long)limit);
    *out = x;
    return QG_OK;
}

/* The size is data, known at compile time in every network seen so far. */
static qg_status window_infer(const qg_call *k)
{
    int64_t n;
    QG_TRY(one_integer(k, 0, QG_MAX_EXTENT, &n));
    return qg_infer_dims(k, ((const window_param *)k->param)->dtype, 1, &n);
}

/* y[i] = a0 - a1 cos(2 pi i / m) + a2 cos(4 pi i / m); m is n, or n - 1 if
 * symmetric. */
static qg_status run_cosines(const qg_call *k, double a0, double a1, double a2)
{
    const int64_t n = k->out[0]->dim[0];
    const bool periodic = ((const window_param *)k->param)->periodic != 0;
    const double m = periodic || n < 2 ? (double)n : (double)(n - 1);
    qg_tensor y;
    qg_tensor_init(&y, QG_F64, 1, &n);
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &y));
    for (int64_t i = 0; i < n; i++) {
        const double angle = TWO_PI * (double)i / m;
        y.f64[i] = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
    }
    qg_cast_tensor(&y, k->out[0], true);
    return QG_OK;
}

static qg_status hann_run(const qg_call *k) { return run_cosines(k, 0.5, 0.5, 0); }
static qg_status blackman_run(const qg_call *k)
{
    return run_cosines(k, 0.42, 0.5, 0.08);
}
/* 25/46: the exact coefficients, not the rounded 0.54. */
static qg_status hamming_run(const qg_call *k)
{
    return run_cosines(k, 25.0 / 46, 21.0 / 46, 0);
}

/* MelWeightMatrix: inputs bins, dft_length, sample_rate, lower and upper edge in hertz;
 * output [dft_length / 2 + 1, bins], a triangle of height 1 per mel bin. */
static qg_status mel_infer(const qg_call *k)
{
    int64_t bins, length, rate, dim[2];
    QG_TRY(one_integer(k, 0, 1 << 24, &bins));
    QG_TRY(one_integer(k, 1, 1 << 30, &length));
    QG_TRY(one_integer(k, 2, INT32_MAX, &rate));
    for (size_t i = 3; i < 5; i++) {
        QG_TRY(qg_check_type(k, i, QG_DT_FLOATS));
        QG_TRY(qg_check_one(k, i));
    }
    dim[0] = length < 0 ? -1 : length / 2 + 1;
    dim[1] = bins;
    return qg_infer_dims(k, ((const window_param *)k->param)->dtype, 2, dim);
}

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }
static double hertz_of(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* The spectrum bin of edge i of bins + 2 edges; QG_EDATA when there is no such bin. */
static qg_status edge_bin(const qg_call *k, const double range[2], int64_t i,
                          int64_t *out)
{
    const int64_t rows = k->out[0]->dim[0], bins = k->out[0]->dim[1];
    const double length = (double)qg_tensor_i64(k->in[1], 0);
    const double rate = (double)qg_tensor_i64(k->in[2], 0);
    const double step = (range[1] - range[0]) / (double)(bins + 2);
    const double bin =
        floor((length + 1) * hertz_of(range[0] + (double)i * step) / rate);
    if (!(bin >= 0 && bin < (double)rows))
        return qg_run_fail(k, QG_EDATA,
                           "mel edge %lld lies at bin %g, expected 0 to %lld",
                           (long long)i, bin, (long long)rows - 1);
    *out = (int64_t)bin;
    return QG_OK;
}

/* Column c of w [rows, bins]: up from edge 0 to edge 1, down to edge 2. */
static void draw_triangle(double *w, int64_t bins, int64_t c, const int64_t edge[3])
{
    const int64_t rise = edge[1] - edge[0], fall = edge[2] - edge[1];
    for (int64_t j = edge[0]; j <= edge[1]; j++)
        w[j * bins + c] = rise ? (double)(j - edge[0]) / (double)rise : 1;
    for (int64_t j = edge[1]; j < edge[2]; j++)
        w[j * bins + c] = (double)(edge[2] - j) / (double)fall;
}

/* Computed in double and converted at the end. */
static qg_status mel_run(const qg_call *k)
{
    const qg_tensor *y = k->out[0];
    const double range[2] = { mel_of(qg_tensor_f64(k->in[3], 0)),
                              mel_of(qg_tensor_f64(k->in[4], 0)) };
    qg_tensor w;
    int64_t edge[3];
    qg_tensor_init(&w, QG_F64, 2, y->dim);
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &w));
    for (int64_t c = 0; c < y->dim[1]; c++) {
        for (int64_t i = 0; i < 3; i++)
            QG_TRY(edge_bin(k, range, c + i, &edge[i]));
        draw_triangle(w.f64, y->dim[1], c, edge);
    }
    qg_cast_tensor(&w, k->out[0], true);
    return QG_OK;
}

#define ROW(onnx, inputs, id, check)                                                   \
    {                                                                                  \
        .name = onnx, .since = 17, .min_in = inputs, .max_in = inputs, .min_out = 1,   \
        .max_out = 1, .in_roles = "s", .traits = QG_OP_PURE,                           \
        .param_size = sizeof(window_param), .prepare = window_prepare,                 \
        .infer = check##_infer, .run = id##_run                                        \
    }

/* clang-format off */
const qg_op qg_ops_window[] = {
    ROW("HannWindow",      1, hann,     window),
    ROW("HammingWindow",   1, hamming,  window),
    ROW("BlackmanWindow",  1, blackman, window),
    ROW("MelWeightMatrix", 5, mel,      mel),
    { 0 },
};
/* clang-format on */
