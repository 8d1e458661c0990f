/* yaml.h -- a YAML file as a small immutable tree with line numbers.
 *
 * One document of maps, lists and scalars.  Refused, with file and line: anchors,
 * aliases and tags, duplicate keys, keys that are not plain words, a second document,
 * more than QG_YAML_DEPTH levels, files above QG_YAML_BYTES, bytes that are not UTF-8.
 *
 * All settings are read from the tree by the typed readers below, so that every message
 * has the form
 *     configs/backends/x.yaml:27: rule y: unknown key 'slots', did you mean 'slot'
 * Owner   the given arena; strings end with a zero.
 * The one user of libyaml is yaml.c.
 *
 *     static const char *const keys[] = { "name", "bits", NULL };
 *     QG_TRY(qg_yaml_load(ctx, a, path, &root));
 *     QG_TRY(qg_yaml_keys(ctx, root, "device", keys));
 *     QG_TRY(qg_yaml_need(ctx, root, "device", "bits", &item));
 *     QG_TRY(qg_yaml_int(ctx, item, "device: bits", 2, 32, &bits)); */
#ifndef QG_ENGINE_CONFIG_YAML_H
#define QG_ENGINE_CONFIG_YAML_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/core/ctx.h"

enum { QG_YAML_DEPTH = 64, QG_YAML_BYTES = 1 << 22 };

enum qg_yaml_kind { QG_YAML_SCALAR, QG_YAML_LIST, QG_YAML_MAP };

typedef struct qg_yaml qg_yaml;
/* A node of the tree.  Readers take any node and report the type they expected. */
struct qg_yaml {
    enum qg_yaml_kind kind; /* which of the members hold */
    bool quoted;            /* a scalar in quotes: never yes, no or a number */
    uint32_t line;          /* from 1 */
    const char *file;       /* as the caller named it */
    const char *of;         /* its key, or that of its list; NULL: document */
    const char *text;       /* SCALAR; "" for nothing at all */
    size_t n;               /* LIST, MAP: children in file order */
    const char **key;       /* MAP: [n] */
    const qg_yaml **item;   /* [n] */
};

/* QG_EIO, or QG_EPARSE with file:line. */
QG_NODISCARD qg_status qg_yaml_load(qg_ctx *ctx, qg_arena *a, const char *path,
                                    const qg_yaml **out);
/* The same from memory; `name` stands for the file in messages. */
QG_NODISCARD qg_status qg_yaml_parse(qg_ctx *ctx, qg_arena *a, const char *name,
                                     const char *text, size_t size,
                                     const qg_yaml **out);

/* Fails with QG_ECONFIG and "file:line: <what>: <key>: <message>"; `what` NULL is left
 * out, and so is the key of y where it is already named. */
qg_status qg_yaml_fail(qg_ctx *ctx, const qg_yaml *y, const char *what, const char *fmt,
                       ...) QG_PRINTF(4, 5);

/* Writes text as a scalar in double quotes, which reads back to the same bytes. */
void qg_yaml_print_text(FILE *f, const char *text);
/* The same of the glob that matches this name alone (qg_glob). */
void qg_yaml_print_name(FILE *f, const char *name);

/* The value of a key in a map, or NULL. */
const qg_yaml *qg_yaml_get(const qg_yaml *map, const char *key);

/* Refuses nodes other than maps, and keys outside `known` (ends with NULL).  The
 * message names the nearest known key, or all of them. */
QG_NODISCARD qg_status qg_yaml_keys(qg_ctx *ctx, const qg_yaml *map, const char *what,
                                    const char *const *known);

/* The value of a key that must be there. */
QG_NODISCARD qg_status qg_yaml_need(qg_ctx *ctx, const qg_yaml *map, const char *what,
                                    const char *key, const qg_yaml **out);

/* Typed readers of one item.  `what` names the owner: "rule w: bits".  Limits of
 * numbers are inclusive and appear in the message. */
QG_NODISCARD qg_status qg_yaml_text(qg_ctx *ctx, const qg_yaml *y, const char *what,
                                    const char **out); /* not empty */
QG_NODISCARD qg_status qg_yaml_int(qg_ctx *ctx, const qg_yaml *y, const char *what,
                                   int64_t low, int64_t high, int64_t *out);
QG_NODISCARD qg_status qg_yaml_number(qg_ctx *ctx, const qg_yaml *y, const char *what,
                                      double low, double high, double *out);
/* yes, no, true or false. */
QG_NODISCARD qg_status qg_yaml_bool(qg_ctx *ctx, const qg_yaml *y, const char *what,
                                    bool *out);
/* One of `choices` (ends with NULL): its index. */
QG_NODISCARD qg_status qg_yaml_choice(qg_ctx *ctx, const qg_yaml *y, const char *what,
                                      const char *const *choices, int *out);

/* A list of words; a scalar counts as a list of one. */
QG_NODISCARD qg_status qg_yaml_words(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                                     const char *what, const char *const **out,
                                     size_t *n);
/* The same of a condition: an empty list, which would hold nowhere, is refused. */
QG_NODISCARD qg_status qg_yaml_some(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                                    const char *what, const char *const **out,
                                    size_t *n);

#endif
