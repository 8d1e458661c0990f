/* config_part.h -- the YAML that a quantsim configuration becomes, by piece;
 * for the files of aimet_config.h only.
 *
 * Everything lies in the conversion's arena.  Texts from outside go through
 * qg_aimet_tame before they stand between quotes. */
#ifndef QG_ENGINE_FORMATS_AIMET_CONFIG_PART_H
#define QG_ENGINE_FORMATS_AIMET_CONFIG_PART_H

#include "engine/formats/aimet/config.h"

/* How a tensor is put on a grid; bits 2..32. */
typedef struct qg_aimet_grid {
    int bits;
    bool symmetric, per_channel;
} qg_aimet_grid;

/* One file under way. */
typedef struct qg_aimet_conversion {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *file; /* for `source:`, tame */
    qg_config_result *out;
    QG_VEC(char) text;           /* so far, without a zero */
    qg_aimet_grid output, param; /* of the defaults */
    bool strict;                 /* symmetric grids leave the lowest code out */
    bool params_rounded;         /* defaults.params.is_quantized */
    bool outputs_rounded;        /* defaults.ops.is_output_quantized */
} qg_aimet_conversion;

/* Appends to the YAML; to the notes.  Only QG_ENOMEM. */
QG_NODISCARD qg_status qg_aimet_put(qg_aimet_conversion *c, const char *fmt, ...)
    QG_PRINTF(2, 3);
QG_NODISCARD qg_status qg_aimet_note(qg_aimet_conversion *c, const char *fmt, ...)
    QG_PRINTF(2, 3);

/* Text from outside, fit for quotes of YAML: printable ASCII but for '"' and '\\'; what
 * is not becomes '?'.  Never NULL. */
const char *qg_aimet_tame(qg_aimet_conversion *c, const char *text);

/* Lowest and highest code of a grid. */
void qg_aimet_range(const qg_aimet_conversion *c, qg_aimet_grid g, int64_t *low,
                    int64_t *high);

/* "bits: 8, range: [0, 255], policy: [...]"; NULL when out of memory. */
const char *qg_aimet_grid_text(qg_aimet_conversion *c, qg_aimet_grid g);

/* A rule; place: where the JSON says so.  NULL texts were out of memory. */
QG_NODISCARD qg_status qg_aimet_put_rule(qg_aimet_conversion *c, const char *id,
                                         const char *match, const char *set,
                                         const char *why, const char *place);

/* "quantizes: [...]": AIMET quantizes whatever makes data, so all operators of the
 * registry but those of shapes, control flow and rounding itself. */
QG_NODISCARD qg_status qg_aimet_put_operators(qg_aimet_conversion *c);

/* How the constant weights of all operators are rounded.  Per channel this takes two
 * rules, id and id-whole: no axis divides the weights of LSTM and its kin into output
 * channels (all gates lie in one), so they have one scale.  state: "" or
 * "state: initial, ". */
QG_NODISCARD qg_status qg_aimet_put_weights(qg_aimet_conversion *c, const char *id,
                                            qg_aimet_grid grid, const char *state,
                                            const char *why, const char *place);

#endif
