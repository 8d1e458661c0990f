/* json.h -- the file in which PPQ keeps quantization next to an ONNX model.
 *
 *     {"configs":      {node: {value: {"bit_width", "policy": {NAME: bool, ...},
 *                              "state", "quant_min", "quant_max", "hash",
 *                              "dominator"}}},
 *      "dispatchings": {node: "TRT_INT8" | "FP32" | "SOI"},
 *      "values":       {"hash": {"scale": s | [s, ...], "zero_point": z | [...]}}}
 *
 * Kept     keys, nesting and words of PPQ 0.6.6: states without SOI, DEACTIVATED and
 *          DEQUANTIZED (all FP32), one entry per value of a node (a value in two slots:
 *          the last one's), values of roots that are not FP32
 * Ours     hashes are TQC ids, so equal snapshots give equal bytes; keys are in order
 *          of nodes and slots
 * Lost     rounding, axis, exponent bits, blocks; reported where a reader's guess
 *          differs
 * Source   docs/evidence/ppq-behaviour.md#json; configs/schema/ppq.json */
#ifndef QG_ENGINE_FORMATS_PPQ_JSON_H
#define QG_ENGINE_FORMATS_PPQ_JSON_H

#include "engine/formats/format.h"

/* "TRT_INT8" for backend "trt-int8" or "ppq-trt-int8", "ONNXRUNTIME" for
 * "onnxruntime-int8"; in the arena, NULL when out of memory. */
const char *qg_ppq_platform(qg_arena *a, const char *backend);

/* Records for g, its model, from the bytes of a JSON file, called `name` in messages.
 * g is inferred; *out has a backend named after the file's first platform.  QG_EPARSE
 * names the place in the file; contradictions to the model or to a rule of the verifier
 * have that check's status. */
QG_NODISCARD qg_status qg_ppq_json_parse(qg_graph *g, const char *name,
                                         const char *bytes, size_t size,
                                         qg_quant **out);

#endif
