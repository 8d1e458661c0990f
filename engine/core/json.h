/* json.h -- JSON out as a stream, JSON in as a tree.
 *
 * Out   keys stay in the order in which they are put; two spaces per level; an array
 *       of plain values is on one line where it fits into 88 columns, else filled.
 *       float32 is the shortest text that reads back as the same float.  NaN, infinity
 *       and text that is not UTF-8 are refused.  Equal calls give equal bytes.
 *
 *           qg_json_put_object(w, NULL);                 {
 *           qg_json_put_text(w, "state", "baked");         "state": "baked",
 *           qg_json_put_array(w, "range");                 "range": [-128, 127]
 *           qg_json_put_int(w, NULL, -128);              }
 *           qg_json_put_int(w, NULL, 127);
 *           qg_json_put_end(w);
 *           qg_json_put_end(w);
 *
 * In    sizes and depth are limited; the tree is allocated in an arena.  Errors give
 *       the place: "read FILE: tqcs[3].state: ...".
 *
 *     const qg_json *root, *list;
 *     QG_TRY(qg_json_read(ctx, a, path, LIMIT, &root));
 *     QG_TRY(qg_json_member(ctx, root, "tqcs", QG_JSON_ARRAY, &list));
 *     for (size_t i = 0; i < list->count; i++)
 *         QG_TRY(qg_json_int(ctx, &list->item[i], "id", &id)); */
#ifndef QG_ENGINE_CORE_JSON_H
#define QG_ENGINE_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/core/ctx.h"

enum { QG_JSON_DEPTH = 64 };

/* ---- Writing ---- */

/* Begin with qg_json_begin, end with qg_json_done.  A failure sticks: later calls do
 * nothing and done reports it. */
typedef struct qg_json_writer {
    qg_ctx *ctx;
    FILE *stream; /* borrowed; its write errors are detected when it is closed */
    qg_status status;
    unsigned depth; /* levels open */
    struct qg_json_level {
        char close;   /* '}' or ']' */
        bool line;    /* all of it on one line */
        bool waiting; /* array of plain values, still held in `held` */
        size_t count;
    } level[QG_JSON_DEPTH + 1]; /* [0] is around the document */
    size_t column;
    char held[88]; /* values of the innermost array, each ends with a zero */
    size_t n_held;
} qg_json_writer;

/* An empty document; stream outlives the writer. */
void qg_json_begin(qg_json_writer *w, qg_ctx *ctx, FILE *stream);
/* The first failure, or QG_OK.  Ends the last line. */
QG_NODISCARD qg_status qg_json_done(qg_json_writer *w); /* every object is ended */

/* `key` is NULL in arrays and for the document itself, else the member's name.  The
 * _line forms put the object with all its members on one line. */
void qg_json_put_object(qg_json_writer *w, const char *key);
void qg_json_put_object_line(qg_json_writer *w, const char *key);
void qg_json_put_array(qg_json_writer *w, const char *key);
void qg_json_put_end(qg_json_writer *w);
void qg_json_put_text(qg_json_writer *w, const char *key, const char *text);
void qg_json_put_int(qg_json_writer *w, const char *key, int64_t x);
void qg_json_put_f32(qg_json_writer *w, const char *key, float x);
void qg_json_put_f64(qg_json_writer *w, const char *key, double x);
void qg_json_put_bool(qg_json_writer *w, const char *key, bool x);
void qg_json_put_null(qg_json_writer *w, const char *key);

/* Bytes of the UTF-8 character at s, which ends with a zero; 0 when it is none (RFC
 * 3629: overlong forms and surrogates are none). */
size_t qg_utf8_length(const char *s);

/* ---- Reading ---- */

/* Numbers are kept as doubles, as JavaScript has them. */
enum qg_json_type {
    QG_JSON_NULL,
    QG_JSON_BOOL,
    QG_JSON_NUMBER,
    QG_JSON_TEXT,
    QG_JSON_ARRAY,
    QG_JSON_OBJECT
};

typedef struct qg_json qg_json;
/* Immutable; siblings lie side by side in item. */
struct qg_json {
    enum qg_json_type type;
    const char *key;       /* of a member; of the document: its name in messages */
    const qg_json *parent; /* NULL: the document */
    size_t count;          /* of item */
    union {
        bool truth;          /* BOOL */
        double number;       /* NUMBER */
        const char *text;    /* ends with a zero and holds none */
        const qg_json *item; /* [count] elements or members, in file order */
    };
};

/* Reads the file, or n bytes that messages refer to as `name`.  QG_EPARSE with the line
 * of the syntax error; duplicate keys in an object are refused.  The tree is allocated
 * in a. */
QG_NODISCARD qg_status qg_json_read(qg_ctx *ctx, qg_arena *a, const char *path,
                                    size_t limit, const qg_json **out);
/* Borrowed for the call. */
typedef struct qg_json_source {
    const char *name, *bytes;
    size_t size;
} qg_json_source;
QG_NODISCARD qg_status qg_json_parse(qg_ctx *ctx, qg_arena *a,
                                     const qg_json_source *from, const qg_json **out);

/* The member, or NULL: absent.
 * Linear in the members; object is an OBJECT (asserted). */
const qg_json *qg_json_get(const qg_json *object, const char *key);

/* QG_EPARSE for another type. */
QG_NODISCARD qg_status qg_json_as_object(qg_ctx *ctx, const qg_json *v);

/* The member, of this type, or QG_EPARSE. */
QG_NODISCARD qg_status qg_json_member(qg_ctx *ctx, const qg_json *object,
                                      const char *key, enum qg_json_type type,
                                      const qg_json **out);

/* Values of members that must be there.  _int also refuses fractions and numbers beyond
 * 2^53, which a double cannot hold; _f32 those that are not float32. */
QG_NODISCARD qg_status qg_json_text(qg_ctx *ctx, const qg_json *object, const char *key,
                                    const char **out);
QG_NODISCARD qg_status qg_json_int(qg_ctx *ctx, const qg_json *object, const char *key,
                                   int64_t *out);
QG_NODISCARD qg_status qg_json_f64(qg_ctx *ctx, const qg_json *object, const char *key,
                                   double *out);
QG_NODISCARD qg_status qg_json_f32(qg_ctx *ctx, const qg_json *object, const char *key,
                                   float *out);
QG_NODISCARD qg_status qg_json_bool(qg_ctx *ctx, const qg_json *object, const char *key,
                                    bool *out);

/* The same of a value itself, for elements of arrays. */
QG_NODISCARD qg_status qg_json_as_text(qg_ctx *ctx, const qg_json *v, const char **out);
QG_NODISCARD qg_status qg_json_as_int(qg_ctx *ctx, const qg_json *v, int64_t *out);
QG_NODISCARD qg_status qg_json_as_f64(qg_ctx *ctx, const qg_json *v, double *out);
QG_NODISCARD qg_status qg_json_as_f32(qg_ctx *ctx, const qg_json *v, float *out);

/* Lines of text that is valid JSON, from 1: where each element of the document's array
 * `key` begins, of elements that are objects.  Fills line[n]; returns the number of
 * elements, 0 without such an array.  Other text gives other numbers. */
size_t qg_json_lines(const qg_json_source *from, const char *key, uint32_t *line,
                     size_t n);

/* Fails with "read FILE: tqcs[3].state: <message>". */
qg_status qg_json_fail(qg_ctx *ctx, qg_status s, const qg_json *at, const char *fmt,
                       ...) QG_PRINTF(4, 5);

#endif
