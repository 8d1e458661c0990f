/* fuzz_qdq_import.c -- any bytes as an ONNX model with QuantizeLinear and
 * DequantizeLinear: records that hold every rule, or refused. */
#include "tests/fuzz/quantizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_quantizers(QG_QUANTIZERS_ONNX, bytes, size);
}
