/* draft.h -- a backend file in the making: a shipped backend, and what to change in it.
 *
 *     name: mine
 *     extends: trt-int8
 *     # add0_out is on the grid of ...
 *     -sharing: [sum-inputs]
 *
 * A change is a key of a backend file (config/backend_yaml.h).  The evidence for it is
 * its `why`, or a comment where the key takes none.
 * The text is read by the ordinary reader, also while it is a draft: what is judged is
 * what is written.  Texts are borrowed, in an arena that outlives the draft. */
#ifndef QG_ENGINE_DEVICE_DRAFT_H
#define QG_ENGINE_DEVICE_DRAFT_H

#include "engine/core/vec.h"

/* The keys of changes, in the order of the file, and whether changes have bodies. */
/* clang-format off */
#define QG_DRAFT_MAP(X)                    \
    X(DEFAULTS,      "defaults",   false)  \
    X(QUANTIZES,     "+quantizes", false)  \
    X(NOT_QUANTIZES, "-quantizes", false)  \
    X(PASSIVE,       "+passive",   false)  \
    X(NOT_PASSIVE,   "-passive",   false)  \
    X(NO_FUSION,     "-fusions",   false)  \
    X(FUSION,        "fusions",    true)   \
    X(NO_SHARING,    "-sharing",   false)  \
    X(SHARING,       "sharing",    true)   \
    X(RULE,          "rules",      true)
/* clang-format on */
typedef enum qg_draft_key {
#define X(id, ...) QG_DRAFT_##id,
    QG_DRAFT_MAP(X)
#undef X
        QG_NDRAFT
} qg_draft_key;

typedef struct qg_draft_change {
    qg_draft_key key;
    const char *word; /* operator, or id; of DEFAULTS the map, of which the last one
                       * counts; two changes of one key and word are one */
    const char *body; /* YAML lines behind "- id:", each indented by four; NULL where
                       * the key is a list of words */
    const char *why;  /* the evidence, one line */
} qg_draft_change;

typedef struct qg_draft {
    const char *name; /* of the file; NULL: the draft is the base as it is */
    const char *base; /* a shipped backend; of a draft without a name, or a path */
    QG_VEC(qg_draft_change) change;
} qg_draft;

const char *qg_draft_key_name(qg_draft_key k); /* "+quantizes" */
bool qg_draft_has_bodies(qg_draft_key k);
bool qg_draft_has(const qg_draft *d, const qg_draft_change *c);

/* The text of the file in *out, [*size] and a zero behind it, in a. */
QG_NODISCARD qg_status qg_draft_text(qg_ctx *ctx, const qg_draft *d, qg_arena *a,
                                     const char **out, size_t *size);

/* A text in double quotes, for YAML; in a.  NULL: no memory. */
const char *qg_draft_quoted(qg_arena *a, const char *text);

/* The name of a configuration file: its path without folder and suffix; characters to
 * which YAML gives a meaning become '-'.  In a; NULL: no memory. */
const char *qg_draft_name(qg_arena *a, const char *path);
/* The file to write, and what it may extend: `from` behind the option, a name or a
 * file.  QG_ECONFIG: yaml does not end in .yaml, is `from` itself, or would not find
 * it: a file that extends another one finds it by its name in its own folder.  yaml
 * NULL is fine.  `doing` begins the message. */
QG_NODISCARD qg_status qg_draft_check_path(qg_ctx *ctx, const char *doing,
                                           const char *option, const char *from,
                                           const char *yaml);

/* QG_ECONFIG when the file would have the name of the one that it extends: beside it,
 * the name is its own.  `doing` begins the message. */
QG_NODISCARD qg_status qg_draft_check_name(qg_ctx *ctx, const char *doing,
                                           const char *path, const char *base);

#endif
