/* qdq.h -- building and writing a graph with Q and DQ, for every format that has them.
 * See qdq.c for the rules of placement.
 *
 *     format           build                  a rounding is written as
 *     onnx-qdq         qg_qdq_build           QuantizeLinear, DequantizeLinear
 *     onnx-qoperator   qg_qdq_build_fused     operators on codes where possible
 *     qonnx            qg_qdq_build_quants    Quant
 *
 * build clones the graph as e->graph and leaves the original unchanged; write only
 * serializes the clone, with the options of the export as metadata of the file. */
#ifndef QG_ENGINE_FORMATS_QDQ_QDQ_H
#define QG_ENGINE_FORMATS_QDQ_QDQ_H

#include "engine/formats/format.h"

/* The words of --float: "auto", "model", "float32". */
extern const char *const qg_qdq_floats[];

/* The opset of the file for ONNX Runtime: that of the model, or what 4 bits and other
 * types need. */
int64_t qg_qdq_file_opset(const qg_quant *q);

/* build and write of a format.  The placement is that of the option, or ort for a
 * format without it. */
QG_NODISCARD qg_status qg_qdq_build(qg_export *e);
QG_NODISCARD qg_status qg_qdq_write(qg_export *e);

/* The same, with operators on codes where there are kernels for them (fuse.h). */
QG_NODISCARD qg_status qg_qdq_build_fused(qg_export *e);

/* The same with a Quant of QONNX instead of each pair (qonnx/quant.h). */
QG_NODISCARD qg_status qg_qdq_build_quants(qg_export *e);

#endif
