/* qoperator.c -- the format onnx-qoperator: operators on codes (QLinearConv of ai.onnx,
 * QLinearAdd of com.microsoft, ...) where ONNX Runtime has kernels for them, and
 * DequantizeLinear, float operator, QuantizeLinear elsewhere (fuse.h). */
#include "engine/formats/qdq/qdq.h"
#include "engine/formats/quantizers.h"

static qg_status import(qg_import *i)
{
    return qg_quantizers_import(i, QG_QUANTIZERS_ONNX, "onnx-qoperator", NULL);
}

const qg_format qg_format_onnx_qoperator = {
    .name = "onnx-qoperator",
    .suffix = ".onnx",
    .summary = "ONNX with QLinear operators and those of com.microsoft",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_BLOCK | QG_SAYS_OFFSET | QG_SAYS_RANGE |
            QG_SAYS_BITS | QG_SAYS_FLOATING | QG_SAYS_SHARING | QG_SAYS_DERIVED |
            QG_SAYS_SILENT,
    .nan = QG_NAN_BIT(QG_NAN_LOWEST),
    .choice = { [QG_FORMAT_FLOAT] = qg_qdq_floats },
    .build = qg_qdq_build_fused,
    .write = qg_qdq_write,
    .import = import,
};
