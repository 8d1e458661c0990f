/* mqbench.c -- the format mqbench: an ONNX model with the quantizers of MQBench
 * (operators.h), as its convert_deploy exports it before it takes them out. */
#include "engine/formats/mqbench/operators.h"
#include "engine/formats/quantizers.h"

static qg_status import(qg_import *i)
{
    return qg_quantizers_import(i, QG_QUANTIZERS_MQBENCH, "mqbench",
                                qg_mqbench_operators);
}

const qg_format qg_format_mqbench = {
    .name = "mqbench",
    .suffix = ".onnx",
    .summary = "ONNX with the fake-quantize operators of MQBench's training graphs",
    .says = QG_SAYS_PER_CHANNEL | QG_SAYS_OFFSET | QG_SAYS_RANGE | QG_SAYS_BITS,
    .import = import,
};
