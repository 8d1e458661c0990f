/* part.h -- internals of data sources; only for the files of engine/data.
 *
 * A source is a list of parts, usually files; a part holds samples first .. first +
 * count.  A kind of part has functions to examine its file once and to get one array of
 * one sample later. */
#ifndef QG_ENGINE_DATA_PART_H
#define QG_ENGINE_DATA_PART_H

#include "engine/data/data.h"
#include "engine/data/image.h"
#include "engine/data/npz.h"

/* Where the array of one input comes from. */
typedef struct qg_data_slot {
    qg_tensor sample; /* as stored, one sample; dims as the model sees them */
    bool stacked;     /* the first axis of the file counts samples */
    qg_npy array;     /* open only if the part is `kept` */
} qg_data_slot;

/* One file (or the random numbers), and which samples it holds. */
typedef struct qg_data_part {
    const struct qg_data_kind *kind; /* of the file, by suffix */
    const char *path;                /* as given, for opening and for messages */
    size_t first, count;
    qg_data_slot *slot; /* [n_input] */
    qg_npz archive;     /* open only if kept */
    bool kept;          /* its files stay open: it is the only part */
} qg_data_part;

struct qg_data {
    qg_arena *arena; /* of the source */
    qg_data_request request;
    qg_image_options image;    /* for the images among the parts */
    QG_VEC(qg_data_part) part; /* in order of samples */
    size_t count;              /* samples of all parts, limit applied */
};

/* The array to get: array k of sample i of the part (i counts from 0 in the part). */
typedef struct qg_data_get {
    qg_ctx *ctx;
    const qg_data *d;
    const qg_data_part *part;
    size_t i, k;
    qg_arena *scratch; /* the worker's */
} qg_data_get;

/* How one kind of file is read; to add one: a row of these functions, listed in
 * parts.c. */
typedef struct qg_data_kind {
    const char *const *suffix; /* ends with NULL, lower case, with the dot */
    /* Fills count and slots of the part. */
    qg_status (*look)(qg_ctx *ctx, qg_data *d, qg_data_part *part);
    /* out->data in scratch, type and dims those of the slot. */
    qg_status (*get)(const qg_data_get *g, qg_tensor *out);
    void (*close)(qg_data_part *part); /* of a kept part; may be NULL */
} qg_data_kind;

extern const qg_data_kind qg_data_npy, qg_data_npz, qg_data_pb, qg_data_image,
    qg_data_random, qg_data_array;

/* Splits an array of this type into samples by the rule of data.h: fills part->slot[k]
 * and part->count, which must agree over all k.  QG_EDATA when shape or type does not
 * fit input k. */
QG_NODISCARD qg_status qg_data_split(qg_ctx *ctx, qg_data *d, qg_data_part *part,
                                     size_t k, const qg_tensor *array);

/* Suffixes are lower case; names may be written in upper case. */
bool qg_data_has_suffix(const char *name, const char *const *suffix);

/* Examines the file and appends its samples.  After a failure the
 * file is closed. */
QG_NODISCARD qg_status qg_data_add_part(qg_ctx *ctx, qg_data *d,
                                        const qg_data_kind *kind, const char *path,
                                        bool kept);

/* Adds the file, or the files of the folder in name order. */
QG_NODISCARD qg_status qg_data_add(qg_ctx *ctx, qg_data *d, const char *path);

/* Reads data.yaml: sets d->image and d->request.lossy, adds the files it names. */
QG_NODISCARD qg_status qg_data_yaml(qg_ctx *ctx, qg_data *d, const char *path);

#endif
