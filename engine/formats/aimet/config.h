/* config.h -- a quantsim configuration of AIMET as a backend file of ours.
 *
 * AIMET puts quantizers on outputs, on parameters, and on the inputs of the network;
 * an operator reads the quantized output of its producer.  So rules make every data
 * input float except where the configuration requires a quantizer, and a supergroup (a
 * chain of operators of which only the last is quantized) becomes a fusion.  Precedence
 * as in AIMET: defaults, params, op_type, supergroups, model_input and model_output.
 *
 *     "defaults": {"ops": {"is_output_quantized": "True"}, ...}    defaults, rules
 *     "params": {"bias": {"is_quantized": "False"}}                rule params-bias
 *     "op_type": {"Softmax": {"encoding_constraints": ...}}        rule op-Softmax-...
 *     "supergroups": [{"op_list": ["Conv", "Relu"]}]               fusion supergroup-1
 *
 * The result of the shortest useful file:
 *
 *     {"defaults": {"ops": {"is_output_quantized": "True"},
 *                   "params": {"is_quantized": "True", "is_symmetric": "True"}},
 *      "params": {}, "op_type": {},
 *      "supergroups": [{"op_list": ["Conv", "Relu"]}],
 *      "model_input": {"is_input_quantized": "True"}, "model_output": {}}
 *
 *     rules:    inputs-are-read     every data input float: its producer rounded it
 *               products-of-data    so is an operand of MatMul that is computed
 *               weights             symmetric, one scale per tensor
 *               small-parameters    biases and slopes the same way
 *               network-inputs      but network inputs are quantized
 *     fusions:  supergroup-1        the output of a Conv before a Relu is not
 *
 * Grids    outputs: codes from 0 up unless is_symmetric; weights: symmetric codes,
 *          without the lowest one under strict_symmetric
 * Widths   of the first of supported_kernels, else 8 bits
 *
 * Every rule records the place of the JSON it comes from.  A setting without a
 * counterpart here is reported as a note, never dropped silently.  Flags may be "True",
 * "False", or JSON's own; unknown keys are refused, as AIMET's schema does.
 * Source   docs/evidence/grids.md#aimet-configuration, #aimet-encodings there. */
#ifndef QG_ENGINE_FORMATS_AIMET_CONFIG_H
#define QG_ENGINE_FORMATS_AIMET_CONFIG_H

#include "engine/formats/config_format.h"

/* The `convert` of its row.  Linear in the document.
 * Any JSON may come: QG_EPARSE gives the faulty place ("read FILE: op_type.Conv").
 * Operators are those of ctx->registry. */
QG_NODISCARD qg_status qg_aimet_config(qg_ctx *ctx, qg_arena *a, const qg_json *root,
                                       qg_config_labels names, qg_config_result *out);

#endif
