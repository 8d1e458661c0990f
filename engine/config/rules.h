/* rules.h -- items of `rules:` of a backend file: their selectors and their settings.
 * The selectors and the fields are those of other items, too. */
#ifndef QG_ENGINE_CONFIG_RULES_H
#define QG_ENGINE_CONFIG_RULES_H

#include "engine/config/yaml.h"
#include "engine/quant/backend.h"

/* State shared by the readers below; on the stack of the function that reads a file. */
typedef struct qg_backend_reader {
    qg_ctx *ctx;
    qg_arena *arena;  /* the arena of the result */
    qg_backend *b;    /* under construction */
    bool is_override; /* reading a patch: why and source are optional */
    bool is_quirk;    /* reading `with-quirk`: items already removed by a child are no
                       * error */
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

/* `set:`; fields are checked one by one and together, over the backend's defaults. */
QG_NODISCARD qg_status qg_read_set(const qg_backend_reader *r, const qg_yaml *y,
                                   const char *what, qg_set *out);

/* An item of `rules:`, complete or an error at its line. */
QG_NODISCARD qg_status qg_read_rule(const qg_backend_reader *r, const qg_yaml *y,
                                    qg_rule *out);

/* QG_ECONFIG with the nearest operator unless it is known. */
QG_NODISCARD qg_status qg_need_op(const qg_backend_reader *r, const qg_yaml *y,
                                  const char *what, const char *name);

/* Keys of `match` and `set`, each ends with NULL. */
extern const char *const qg_match_keys[];
extern const char *const qg_set_keys[];

/* One word of `slot:` as files have it: "weight", "in2", "out*".  Returns `text`. */
enum { QG_SLOT_WORD = 24 };
const char *qg_slot_word(const qg_slot_match *slot, char text[QG_SLOT_WORD]);

#endif
