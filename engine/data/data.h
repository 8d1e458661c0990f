/* data.h -- where samples come from: files, folders, archives, images, random numbers,
 * arrays in memory.
 *
 *     calib.npy      one array, for models with one input
 *     calib.npz      one array per input, by name; other arrays are left alone
 *     folder/        .npy, .npz, .pb (TensorProto) and image files in name order; other
 *                    suffixes are left alone
 *     data.yaml      the same with image settings: see data_yaml.c
 *     random:N       N samples, uniform in [0, 1) (integers: 0 or 1), always the same
 *
 * A sample is one complete feed.  The first axis of an array counts samples when the
 * array has one axis more than the input, or when the input's batch is 1 or symbolic
 * and the array's first extent is not 1.  For a batch of n above 1, an array that
 * differs in its first extent alone has a sample in every n of it.  Else the array is
 * one sample.
 *
 * Types     converted where every value survives exactly, else refused (but see lossy);
 *           floats never become integers.  NaN is refused when it is met.
 * Memory    samples are read when they are fetched.  Only a deflated .npz that is the
 *           whole source is kept in memory.
 * Threads   after opening, everything is read-only: workers fetch with their own
 *           context and scratch arena.
 * Order     sample i is always the same, for any caller and any order.  Samples are
 *           numbered through all files; messages count them the same way.
 *
 *     qg_data_request r = { .input = g->input.at, .n_input = g->input.n };
 *     QG_TRY(qg_data_open(ctx, "calib.npz", &r, &d));
 *     for (size_t i = 0; i < qg_data_count(d); i++) {
 *         qg_data_shape(d, i, k, tensor[k]);           // and memory, for each input k
 *         QG_TRY(qg_data_fetch(ctx, d, i, scratch, tensor));
 *         qg_arena_reset(scratch);
 *     }
 *
 * data.yaml, all keys but files optional:
 *
 *     files: images            file or folder next to the YAML file; or a list
 *     layout: nchw             or nhwc
 *     colors: rgb              or bgr; an input with one channel gets gray
 *     resize: [240, 320]       height, width
 *     mean: [127, 127, 127]    pixels are 0..255; one number or one per channel
 *     std: 128
 *     lossy: yes               values may be rounded to the type of the input */
#ifndef QG_ENGINE_DATA_DATA_H
#define QG_ENGINE_DATA_DATA_H

#include "engine/ir/graph.h"

/* Opaque and immutable once open. */
typedef struct qg_data qg_data;

/* The inputs the model expects. */
typedef struct qg_data_request {
    qg_value *const *input; /* [n_input]; rank must be known, types too */
    size_t n_input;
    size_t limit; /* use the first samples only; 0: all */
    bool lossy;   /* lossy conversions are allowed, e.g. float64 to float32 */
    bool nan;     /* NaN is accepted: for callers that search for it */
    /* [n_input] samples in memory, which must stay valid until close; spec is then
     * their name in messages.  NULL: spec is a file, a folder or random:N. */
    const qg_tensor *const *array;
} qg_data_request;

/* Checks names, types and shapes of everything; values are checked when fetched.
 * QG_EDATA names file, array, its type and shape, and those the model expects. */
QG_NODISCARD qg_status qg_data_open(qg_ctx *ctx, const char *spec,
                                    const qg_data_request *request, qg_data **out);
void qg_data_close(qg_data *d); /* NULL is fine */

/* *out: the first of path[n] that leads to a file of d, also by a link; NULL: none. */
QG_NODISCARD qg_status qg_data_find_file(qg_ctx *ctx, const qg_data *d,
                                         const char *const *path, size_t n,
                                         const char **out);

/* Whether t is an array at all: rank, type, dims, data, plain strides.  QG_EDATA with
 * `what` and the name of the input. */
QG_NODISCARD qg_status qg_data_check_array(qg_ctx *ctx, const char *what,
                                           const char *input, const qg_tensor *t);

/* Position of the first NaN in plain order; -1: none, or a type that has no NaN. */
int64_t qg_data_find_nan(const qg_tensor *t);

/* Lossy or NaN values in a conversion: see `lossy` and `nan` above. */
enum { QG_DATA_LOSSY = 1, QG_DATA_NAN = 2 };

/* Elements of plain tensors with equal counts.  False: element *bad is NaN or does not
 * survive, and `allow` does not let it pass. */
bool qg_data_convert(const qg_tensor *from, qg_tensor *to, unsigned allow,
                     int64_t *bad);

/* Position of the first finite number that is an infinity in `file`, a 16-bit float;
 * -1: none, or `file` is no such type.  For inputs that are float32 here and 16 bits in
 * the file of the model (value->file_dtype): values between those of the type are
 * kept. */
int64_t qg_data_find_beyond(const qg_tensor *t, qg_dtype file);

/* Whether some values of `from` can become `to` at all. */
bool qg_data_convertible(qg_dtype from, qg_dtype to);

/* How files become inputs, in one line: the settings of data.yaml with defaults filled
 * in.  NULL: no files, which is the line of a single .npy. */
enum { QG_DATA_HOW_TEXT = 256 };
void qg_data_how(const qg_data *d, char text[QG_DATA_HOW_TEXT]);

/* After `limit` was applied. */
size_t qg_data_count(const qg_data *d); /* at least 1 */

/* Type (the model's) and dims of input k in sample i; no data. */
void qg_data_shape(const qg_data *d, size_t i, size_t k, qg_tensor *out);

/* The result of qg_data_shape common to all samples; false when they differ. */
bool qg_data_common_shape(const qg_data *d, size_t k, qg_tensor *out);

/* One sample into tensors of the caller, out[k] for input k, plain and of the type and
 * dims that qg_data_shape gives (asserted).  scratch is the caller's to reset.
 * QG_EDATA names the sample, and the element where a value cannot be converted. */
QG_NODISCARD qg_status qg_data_fetch(qg_ctx *ctx, const qg_data *d, size_t i,
                                     qg_arena *scratch, qg_tensor *const *out);

#endif
