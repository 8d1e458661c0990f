#include "ops/util_vector.h"

#include <assert.h>

#include "ops/util_vector_rows.h"

static const qg_vector_row *const rows[] = {
    &qg_vector_plain,
#if defined(__x86_64__)
    &qg_vector_avx2,
    &qg_vector_avx512,
#endif
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const qg_vector_row *const *qg_vector_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

/* __builtin_cpu_supports is a load: the C library queried the CPU at start-up. */
const qg_vector_row *qg_vector_best(void)
{
    size_t i = N_ROWS - 1;
    assert(rows[0]->supported());
    while (!rows[i]->supported())
        i--;
    return rows[i];
}
