/* backend_yaml_parts.h -- the pieces of the backend reader, for its own .c files. */
#ifndef QG_ENGINE_CONFIG_BACKEND_YAML_PARTS_H
#define QG_ENGINE_CONFIG_BACKEND_YAML_PARTS_H

#include "engine/config/backend_yaml.h"
#include "engine/config/yaml.h"

/* What every reader below needs; on the stack of whoever reads a file. */
typedef struct qg_backend_reader {
    qg_ctx *ctx;
    qg_arena *arena;  /* where what is read lies */
    qg_backend *b;    /* under construction */
    bool is_override; /* reading a patch: why and source are optional */
    bool is_quirk;    /* reading `with-quirk`: what a child took out is not missed */
} qg_backend_reader;

/* Room for "rule <id>", which begins the complaints about an item; longer ids are
 * cut. */
enum { QG_WHAT_TEXT = 160 };

/* id, why, source of a rule, fusion or sharing; `kind` is the word in messages.  what
 * becomes "rule w". */
QG_NODISCARD qg_status qg_read_origin(const qg_backend_reader *r, const qg_yaml *y,
                                      const char *kind, qg_origin *out,
                                      char what[QG_WHAT_TEXT]);

/* The node part of `match:`, and the endpoint part; at NULL: keys of endpoints are
 * unknown here. */
QG_NODISCARD qg_status qg_read_match(const qg_backend_reader *r, const qg_yaml *y,
                                     const char *what, qg_node_match *node,
                                     qg_endpoint_match *at);

/* `errors: FILE` and `above: X` of the map y: the nodes whose error is larger than X in
 * a report of `qg sensitivity --by node --json`, added to m->node.  QG_ECONFIG when
 * there is none, or m names nodes already. */
QG_NODISCARD qg_status qg_read_errors(const qg_backend_reader *r, const qg_yaml *y,
                                      const char *what, qg_node_match *m);

/* `set:`; fields are checked one by one and together, over the backend's defaults. */
QG_NODISCARD qg_status qg_read_set(const qg_backend_reader *r, const qg_yaml *y,
                                   const char *what, qg_set *out);

/* One item of `fusions:` (`sharing:`, `rules:`), complete or an error at its line. */
QG_NODISCARD qg_status qg_read_fusion(const qg_backend_reader *r, const qg_yaml *y,
                                      qg_fusion *out);
QG_NODISCARD qg_status qg_read_sharing(const qg_backend_reader *r, const qg_yaml *y,
                                       qg_sharing *out);
QG_NODISCARD qg_status qg_read_rule(const qg_backend_reader *r, const qg_yaml *y,
                                    qg_rule *out);

/* What stands behind the name of a pass: yes, no, or a map of its parameters.  Appended
 * to *out.  Whether the pass and its parameters exist the driver asks. */
QG_NODISCARD qg_status qg_read_pass_settings(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                                             const char *pass, qg_pass_settings *out);

/* QG_ECONFIG with the nearest operator unless it is known. */
QG_NODISCARD qg_status qg_need_op(const qg_backend_reader *r, const qg_yaml *y,
                                  const char *what, const char *name);

/* A configuration file that is looked for. */
typedef struct qg_wanted {
    const char *kind;   /* "backend": begins the complaint */
    const char *name;   /* a path, or the file's name without .yaml */
    const char *beside; /* a file in whose folder to look first; NULL: none */
    const qg_yaml *at;  /* where the name stands, for the complaint; NULL: nowhere */
    qg_search search;
} qg_wanted;

/* QG_ECONFIG with the nearest name when there is none. */
QG_NODISCARD qg_status qg_config_find(qg_ctx *ctx, qg_arena *a, const qg_wanted *w,
                                      const char **path);

/* Keys of `match` and `set`, each ends with NULL. */
extern const char *const qg_match_keys[];
extern const char *const qg_set_keys[];

#endif
