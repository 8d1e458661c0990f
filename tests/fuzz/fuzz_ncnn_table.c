/* fuzz_ncnn_table.c -- any bytes as a file of format ncnn-table. */
#include "tests/fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_table("ncnn-table", bytes, size);
}
