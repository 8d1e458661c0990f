/* fuzz_tensorrt_json.c -- any bytes as a file of format tensorrt-json. */
#include "tests/fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_table("tensorrt-json", bytes, size);
}
