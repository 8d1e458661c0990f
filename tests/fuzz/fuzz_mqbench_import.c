/* fuzz_mqbench_import.c -- any bytes as an ONNX model with MQBench's quantizers:
 * records that hold every rule, or refused. */
#include "tests/fuzz/quantizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_quantizers(QG_QUANTIZERS_MQBENCH, bytes, size);
}
