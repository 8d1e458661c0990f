/* kernels [COUNT [SEED]]: compares the fake-quantize kernels of this build with the
 * definition, on every float16 value and on COUNT random values (default 1e6; half of
 * them bit patterns).  Prints a line per row of the kernel table; exit 1 on the first
 * difference. */
#include <stdlib.h>

#include "tests/support/kernel_check.h"

int main(int argc, char **argv)
{
    static kernel_check k;
    uint64_t count = argc > 1 ? (uint64_t)strtod(argv[1], NULL) : 1000000;
    k.rng.state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    check_every_half(&k);
    uint64_t values = 65536;
    for (uint64_t round = 0; values < 65536 + count && !k.failure[0]; round++) {
        check_chunk(&k, round);
        values += k.n;
    }
    size_t rows;
    const qg_fake_row *const *row = qg_fake_rows(&rows);
    for (size_t r = 0; r < rows; r++)
        printf("%-8s %s, %llu results compared\n", row[r]->isa,
               row[r]->supported() ? "supported" : "not supported by this CPU",
               (unsigned long long)k.by_row[r]);
    printf("%llu values: %s\n", (unsigned long long)values,
           k.failure[0] ? k.failure : "equal to the definition");
    return k.failure[0] != '\0';
}
