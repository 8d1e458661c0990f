/* npy.h -- NumPy's .npy: header, windowed reading, streaming and whole writing.
 *
 * Read   versions 1.0 to 3.0, little-endian, C order, types f2 f4 f8 i1 i2 i4 i8 u1 u2
 *        u4 u8 b1.  Only the requested elements are read: no mapping, so that a large
 *        file does not count as memory.
 * Write  version 1.0, deterministic, complete or not at all.
 * Source numpy/lib/format.py, "Format Version 1.0".
 *
 *     offset  bytes
 *          0  6      0x93 "NUMPY"
 *          6  2      version: 1 0, 2 0 or 3 0
 *          8  2      length of the rest of the header; 4 bytes from version 2 on
 *         10  ...    {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), },
 *                    spaces and a newline: elements begin at a multiple of 64
 *                    elements
 * Each of the three keys occurs once, in any order; nothing follows the elements.
 * Fortran order is accepted where it makes no difference: at most one axis is longer
 * than 1.
 *
 *     QG_TRY(qg_npy_create(ctx, "out.npy", &type, &w));     // of one sample
 *     for (size_t i = 0; i < n; i++)
 *         qg_npy_append(&w, &y[i]);
 *     return qg_npy_commit(&w);                             // appears now, whole */
#ifndef QG_ENGINE_DATA_NPY_H
#define QG_ENGINE_DATA_NPY_H

#include "engine/core/file.h"
#include "engine/ir/tensor_memory.h"

/* The header alone. */
typedef struct qg_npy_head {
    qg_tensor type; /* no data */
    size_t data_at; /* bytes from the beginning to the first element */
    size_t bytes;   /* of all elements */
} qg_npy_head;

/* Parses the header at `bytes`, of which `size` are available and `total` exist;
 * refuses unless exactly the elements follow.  `doing` and `name` begin messages. */
typedef struct qg_npy_source {
    const char *name; /* "calib.npy", "kws.npz: input_1" */
    const unsigned char *bytes;
    size_t size, total; /* bytes available, bytes in total */
} qg_npy_source;
QG_NODISCARD qg_status qg_npy_parse(qg_ctx *ctx, const qg_npy_source *from,
                                    qg_npy_head *out);

/* Enough to hold every header that is accepted. */
enum { QG_NPY_HEAD_BYTES = 4096 };

/* An array that can be read in parts; workers may share it. */
typedef struct qg_npy {
    const char *name; /* borrowed, for messages */
    qg_npy_head head;
    int fd;                     /* -1: all is in memory */
    bool owned;                 /* fd is closed by qg_npy_close */
    size_t at;                  /* where the .npy begins in fd */
    const unsigned char *bytes; /* of the .npy, when in memory */
} qg_npy;

/* Reads and checks the header; elements stay in the file.  path is borrowed. */
QG_NODISCARD qg_status qg_npy_open(qg_ctx *ctx, const char *path, qg_npy *out);
void qg_npy_close(qg_npy *f); /* also of a zeroed one */

/* Elements [first, first + count) in memory order, as stored; bools become 0 or 1.
 * The range is within the array (asserted).  Reads with pread: workers share one
 * file without a lock. */
QG_NODISCARD qg_status qg_npy_read(qg_ctx *ctx, const qg_npy *f, size_t first,
                                   size_t count, void *out);

/* The whole array in the arena. */
QG_NODISCARD qg_status qg_npy_load(qg_ctx *ctx, qg_arena *a, const char *path,
                                   const qg_tensor **out);

/* The type in which elements of d are written: d, or where NumPy lacks it (bfloat16, 8
 * bits and fewer, 4-bit integers) float32 or an 8-bit integer, which has its values. */
qg_dtype qg_npy_dtype(qg_dtype d);

/* The header for these dims, with `room` for the zero; its length in *size.
 * QG_EUNSUPPORTED for types that NumPy lacks. */
enum { QG_NPY_TEXT = 448 };
QG_NODISCARD qg_status qg_npy_header(qg_ctx *ctx, const qg_tensor *type,
                                     char text[QG_NPY_TEXT], size_t *size);

/* t is plain. */
QG_NODISCARD qg_status qg_npy_save(qg_ctx *ctx, const char *path, const qg_tensor *t);

/* An array that grows along a new first axis. */
typedef struct qg_npy_writer {
    qg_writer file;
    qg_tensor sample; /* type and dims of one sample */
    size_t bytes;     /* of one sample */
    int64_t count;    /* samples so far */
    size_t head;      /* bytes kept free for the header */
} qg_npy_writer;

/* The header is written at commit, when the number of samples is known; until then
 * the file has another name. */
QG_NODISCARD qg_status qg_npy_create(qg_ctx *ctx, const char *path,
                                     const qg_tensor *sample, qg_npy_writer *out);
/* t has the type and dims of the sample, plain (asserted). */
void qg_npy_append(qg_npy_writer *w, const qg_tensor *t);
/* Sample k < count of an array that is not committed yet, into t (as the sample, with
 * data). */
QG_NODISCARD qg_status qg_npy_read_back(qg_npy_writer *w, size_t k, qg_tensor *t);
/* Writes the header; only the commit of w->file is left to do. */
QG_NODISCARD qg_status qg_npy_finish(qg_npy_writer *w);
/* Also reports any append that failed. */
QG_NODISCARD qg_status qg_npy_commit(qg_npy_writer *w);
void qg_npy_abandon(qg_npy_writer *w); /* safe after commit */

#endif
