/* fuzz_csv.c -- any bytes as a file of format csv. */
#include "tests/fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_table("csv", bytes, size);
}
