/* column.h -- one output file that takes a value sample by sample.
 *
 * Samples of one shape   <path>.npy, first axis the sample
 * Samples that differ    <path>.npz, an array "sample_<k>" for each, k from 0: from the
 *                        first sample on whose shape is another
 * Atomic                 no file appears before qg_columns_commit
 *
 * Memory: one sample, besides those passed by the caller.  Not thread-safe. */
#ifndef QG_ENGINE_DATA_COLUMN_H
#define QG_ENGINE_DATA_COLUMN_H

#include "engine/data/npz.h"

/* Begins as { .path } and zeros; path is without extension and borrowed. */
typedef struct qg_column {
    const char *path;
    size_t count; /* samples so far */
    bool stacked; /* npy is in use */
    bool apart;   /* npz is in use */
    bool paused;  /* its file is closed until the next sample */
    qg_npy_writer npy;
    qg_npz_writer npz;
} qg_column;

/* t: plain, as all samples of the type of the first (QG_EDATA).  `a` keeps names. */
QG_NODISCARD qg_status qg_column_put(qg_ctx *ctx, qg_arena *a, qg_column *c,
                                     const qg_tensor *t);

/* Closes the file until the next sample: there may be more columns than open files. */
void qg_column_pause(qg_column *c);

/* All or none, with `beside` (NULL: none), a file whose contents are written, last.  A
 * column in which nothing was put makes no file. */
QG_NODISCARD qg_status qg_columns_commit(qg_ctx *ctx, qg_arena *a, qg_column *c,
                                         size_t n, qg_writer *beside);
void qg_column_abandon(qg_column *c); /* safe after commit */

#endif
