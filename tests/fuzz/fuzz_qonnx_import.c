/* fuzz_qonnx_import.c -- any bytes as an ONNX model with QONNX's quantizers: records
 * that hold every rule, or refused. */
#include "tests/fuzz/quantizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_quantizers(QG_QUANTIZERS_QONNX, bytes, size);
}
