/* fuzz_encodings.c -- any bytes as a file of format aimet. */
#include "tests/fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return read_table("aimet", bytes, size);
}
