/* trace.h -- a dump of the tensors that a device computed, read array by array and
 * sample by sample: docs/trace.md describes the format.
 *
 *     trace.npz    arrays, and trace.json that describes them
 *     folder/      .npy files or raw .bin files, and trace.json
 * Without trace.json every array has the name of its file and no grid; raw files need
 * it.
 *
 * Reading   every declared size is checked against the file before memory is taken; a
 *           name, type, shape or number that does not fit is QG_EDATA and names the
 *           array
 * Memory    one sample of one array; an array that is deflated in its archive, whole
 * Threads   read-only once open
 *
 *     QG_TRY(qg_trace_open(ctx, "dump.npz", &t));
 *     QG_TRY(qg_trace_load(ctx, t, &t->array[0], scratch, &data));
 *     QG_TRY(qg_trace_sample(ctx, &data, 0, x));            // [t->array[0].count]
 *     qg_trace_close(t); */
#ifndef QG_ENGINE_DEVICE_TRACE_H
#define QG_ENGINE_DEVICE_TRACE_H

#include "engine/data/npz.h"

/* One tensor of the device, over all samples. */
typedef struct qg_trace_array {
    const char *value;    /* name of the tensor, as the device's tool has it */
    const char *endpoint; /* "Conv_3.out0"; NULL: not given */
    const char *file;     /* of the archive or folder */
    qg_tensor type;       /* of the whole array: first axis the sample; no data */
    size_t samples;       /* type.dim[0] */
    size_t count;         /* elements of a sample */
    bool raw;             /* a .bin file: no header */
    bool grid;            /* the next two are given, */
    bool found;           /* or found in the elements (found.c) */
    bool few;             /* it was looked for in too few different codes */
    double scale;         /* above 0, a float */
    int32_t zero;
    bool layout;               /* one is given; */
    bool channels_last;        /* it is nhwc */
    int32_t n_axis;            /* of permutation; 0: none was given */
    int32_t axis[QG_MAX_RANK]; /* axis k of a sample is axis[k] of the model's value */
} qg_trace_array;

/* An open trace. */
typedef struct qg_trace {
    qg_arena *arena;
    const char *path;
    qg_npz npz; /* fd -1: a folder */
    bool archive;
    const char *producer;  /* "" when not given */
    qg_trace_array *array; /* [n] in order of the file */
    size_t n;
    size_t samples; /* the least of all arrays */
} qg_trace;

/* QG_EIO, QG_EPARSE (no archive, no JSON), QG_EDATA. */
QG_NODISCARD qg_status qg_trace_open(qg_ctx *ctx, const char *path, qg_trace **out);
void qg_trace_close(qg_trace *t); /* NULL is fine */

/* QG_EDATA names the first array with fewer samples. */
QG_NODISCARD qg_status qg_trace_expect(qg_ctx *ctx, const qg_trace *t, size_t samples);
/* QG_EDATA, for a trace whose arrays are all inputs of the network. */
QG_NODISCARD qg_status qg_trace_lacks_results(qg_ctx *ctx, const qg_trace *t);

/* The elements of one array, ready to be read. */
typedef struct qg_trace_data {
    const qg_trace *trace;
    const qg_trace_array *array;
    qg_npy npy;
    qg_arena *arena; /* of a deflated array */
} qg_trace_data;

/* Close with qg_trace_unload, also a zeroed one. */
QG_NODISCARD qg_status qg_trace_load(qg_ctx *ctx, const qg_trace *t,
                                     const qg_trace_array *a, qg_trace_data *out);
void qg_trace_unload(qg_trace_data *d);

/* One sample as numbers in the order of the array, [array->count].  QG_EDATA names the
 * first element that is NaN.  Infinities are numbers of masks in float. */
QG_NODISCARD qg_status qg_trace_sample(qg_ctx *ctx, const qg_trace_data *d,
                                       size_t sample, double *out);

/* Whether the array holds integers. */
static inline bool qg_trace_holds_codes(const qg_trace_array *a)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(a->type.dtype);
    return kind == QG_KIND_INT || kind == QG_KIND_UINT;
}

#endif
