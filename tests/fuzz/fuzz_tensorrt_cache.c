/* fuzz_tensorrt_cache.c -- any bytes as a file of format tensorrt-cache. */
#include "tests/fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_table("tensorrt-cache", bytes, size);
}
