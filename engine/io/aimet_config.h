/* aimet_config.h -- a quantsim configuration of AIMET as a backend file of ours.
 *
 * AIMET puts quantizers on outputs, on parameters, and on the inputs of the network;
 * an operator reads what its producer has rounded.  So rules make every data input
 * float but where the configuration asks for a quantizer, and a supergroup (a chain of
 * operators of which only the last rounds) becomes a fusion.  Precedence as AIMET has
 * it: defaults, params, op_type, supergroups, model_input and model_output.
 *
 *     "defaults": {"ops": {"is_output_quantized": "True"}, ...}    defaults, rules
 *     "params": {"bias": {"is_quantized": "False"}}                rule params-bias
 *     "op_type": {"Softmax": {"encoding_constraints": ...}}        rule op-Softmax-...
 *     "supergroups": [{"op_list": ["Conv", "Relu"]}]               fusion supergroup-1
 *
 * Every rule says the place of the JSON it comes from.  What has no counterpart here
 * is told as a note, never dropped silently.  Flags may be "True", "False", or JSON's
 * own; unknown keys are refused, as AIMET's schema does.
 * Source   spec/peers.md 4.2; formulas of grids: spec/algorithms.md 5.1. */
#ifndef QG_ENGINE_IO_AIMET_CONFIG_H
#define QG_ENGINE_IO_AIMET_CONFIG_H

#include "engine/core/vec.h"
#include "engine/io/json.h"

/* Names for the texts of the result; borrowed. */
typedef struct qg_aimet_names {
    const char *backend; /* letters, digits, '.', '_', '-' (QG_ECONFIG otherwise) */
    const char *file;    /* what `source:` calls the JSON */
} qg_aimet_names;

typedef struct qg_aimet_result {
    const char *yaml;          /* for io/backend_yaml.h; in the arena */
    size_t size;               /* bytes of yaml */
    QG_VEC(const char *) note; /* "op_type.Foo: no such operator", in order */
    size_t rules, fusions;     /* how many were written */
} qg_aimet_result;

/* Any JSON may come: QG_EPARSE says which place is wrong ("read FILE: op_type.Conv").
 * Operators are those of ctx->registry. */
QG_NODISCARD qg_status qg_aimet_config(qg_ctx *ctx, qg_arena *a, const qg_json *root,
                                       qg_aimet_names names, qg_aimet_result *out);

#endif
