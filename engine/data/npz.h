/* npz.h -- NumPy's .npz: a zip archive of .npy files, one per array; and zip archives
 * of other files, in memory.
 *
 * Read   stored and deflated members, also zip64; sizes and offsets are checked before
 *        use, duplicate names refused.  Stored arrays are read in parts from the file,
 *        after qg_npz_check; deflated ones are inflated into memory as a whole and
 *        their checksum is compared.
 * Write  stored or deflated, always zip64, dated 1980-01-01: equal arrays give equal
 *        bytes (with the same zlib).
 * Source APPNOTE.TXT 6.3.10 of PKWARE, sections 4.3 and 4.5.3.
 *
 *     local header, name, extra, data        once per member
 *     directory: one entry per member        the only source of sizes and names here:
 *                                            local headers only give the position of
 *                                            data
 *     zip64 end record, its locator          when a number needs more than 32 bits
 *     end record, comment                    found from the end of the file
 *
 * Memory The declared size of a member is accepted only when the packed bytes are in
 *        the file and could inflate to that size (deflate reaches at most 1032 to 1).
 *
 *     QG_TRY(qg_npz_open(ctx, a, "calib.npz", &z));
 *     const qg_npz_member *m = qg_npz_find(&z, "input_1");
 *     QG_TRY(qg_npz_load(ctx, a, &z, m, &t));               // m is not NULL
 *     qg_npz_close(&z); */
#ifndef QG_ENGINE_DATA_NPZ_H
#define QG_ENGINE_DATA_NPZ_H

#include "engine/core/vec.h"
#include "engine/data/npy.h"

/* An entry of the directory. */
typedef struct qg_npz_member {
    const char *name;                 /* of the file, ".npy" left out when read */
    uint64_t header_at, packed, size; /* of the local header; bytes in and out */
    uint32_t crc;
    bool deflated; /* else stored as it is */
} qg_npz_member;

/* An open archive; read-only, so workers may share it. */
typedef struct qg_npz {
    const char *path;            /* borrowed, for messages */
    int fd;                      /* -1: none */
    const unsigned char *bytes;  /* of the whole file, borrowed; NULL: read from fd */
    size_t size;                 /* of the file */
    const qg_npz_member *member; /* [count], file order, in the arena */
    size_t count;
} qg_npz;

/* QG_EPARSE where the archive contradicts itself or is no zip file,
 * QG_EUNSUPPORTED for encryption and other methods than deflate, QG_EIO. */
QG_NODISCARD qg_status qg_npz_open(qg_ctx *ctx, qg_arena *a, const char *path,
                                   qg_npz *out);
/* The same of bytes that must outlive the archive; `name` is their name in messages. */
QG_NODISCARD qg_status qg_npz_open_bytes(qg_ctx *ctx, qg_arena *a, const char *name,
                                         const void *bytes, size_t size, qg_npz *out);
void qg_npz_close(qg_npz *z); /* arrays that read from the file end with it */

/* NULL: no such array. */
const qg_npz_member *qg_npz_find(const qg_npz *z, const char *name);

/* Reads a stored member once: QG_EPARSE when its checksum differs, QG_EIO.  Deflated
 * ones are checked when they are inflated. */
QG_NODISCARD qg_status qg_npz_check(qg_ctx *ctx, const qg_npz *z,
                                    const qg_npz_member *m);

/* An array of the archive; inflated into the arena when it is deflated.  A stored one
 * is not checked. */
QG_NODISCARD qg_status qg_npz_array(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                                    const qg_npz_member *m, qg_npy *out);

/* The whole array in the arena, checked. */
QG_NODISCARD qg_status qg_npz_load(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                                   const qg_npz_member *m, const qg_tensor **out);

/* The bytes of a member of an archive in memory, [m->size]: where they lie when they
 * are stored, else inflated into the arena.  QG_EPARSE when the checksum differs. */
QG_NODISCARD qg_status qg_npz_file(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                                   const qg_npz_member *m, const unsigned char **out);

/* An archive under construction; as with qg_writer, nothing is visible before
 * commit. */
typedef struct qg_npz_writer {
    qg_ctx *ctx;
    const char *name; /* for messages */
    FILE *stream;     /* of file, or of the caller */
    qg_writer file;   /* zeroed when the stream is the caller's */
    qg_arena *arena;  /* the writer's own */
    bool deflate;
    QG_VEC(qg_npz_member) member; /* written so far, for the directory */
} qg_npz_writer;

QG_NODISCARD qg_status qg_npz_create(qg_ctx *ctx, const char *path, bool deflate,
                                     qg_npz_writer *out);
/* t is plain.  A name that is there already is QG_EDATA. */
QG_NODISCARD qg_status qg_npz_add(qg_npz_writer *w, const char *name,
                                  const qg_tensor *t);
/* A copy of the file `path`, which is read in parts; `name` with its suffix. */
QG_NODISCARD qg_status qg_npz_add_copy(qg_npz_writer *w, const char *name,
                                       const char *path);
QG_NODISCARD qg_status qg_npz_commit(qg_npz_writer *w);

/* Into a stream of the caller, which can seek; its write errors are detected when it is
 * closed.  A file is stored as it is.  End writes the directory. */
QG_NODISCARD qg_status qg_npz_begin(qg_ctx *ctx, const char *name, FILE *stream,
                                    qg_npz_writer *out);
QG_NODISCARD qg_status qg_npz_add_file(qg_npz_writer *w, const char *name,
                                       const void *bytes, size_t size);
QG_NODISCARD qg_status qg_npz_end(qg_npz_writer *w);
void qg_npz_abandon(qg_npz_writer *w); /* safe after commit */

#endif
