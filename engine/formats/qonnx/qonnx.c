/* qonnx.c -- the format qonnx: a float graph with a Quant of QONNX (quant.h) wherever
 * the simulation quantizes.  Placement is that of qdq.c; constants stay float values
 * behind their Quant. */
#include "engine/formats/qdq/qdq.h"
#include "engine/formats/qonnx/quant.h"
#include "engine/formats/quantizers.h"

static qg_status import(qg_import *i)
{
    return qg_quantizers_import(i, QG_QUANTIZERS_QONNX, "qonnx", qg_qonnx_operators);
}

const qg_format qg_format_qonnx = {
    .name = "qonnx",
    .suffix = ".onnx",
    .summary = "ONNX with Quant nodes of QONNX, as Brevitas, FINN and hls4ml have them",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS |
            QG_SAYS_ROUNDING | QG_SAYS_SHARING | QG_SAYS_DERIVED | QG_SAYS_SILENT |
            QG_SAYS_FLOATING | QG_SAYS_BLOCK,
    .choice = { [QG_FORMAT_FLOAT] = qg_qdq_floats },
    .build = qg_qdq_build_quants,
    .write = qg_qdq_write,
    .import = import,
};
