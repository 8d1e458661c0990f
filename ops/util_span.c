/* util_span.c -- the plain row, and the choice between rows. */
#define TARGET
#include "ops/util_span_body.h"

#include <assert.h>

static bool always(void) { return true; }

static const qg_span_row plain = { "any", always, ROW_FUNCTIONS };

#if defined(__x86_64__)
extern const qg_span_row qg_span_row_avx2, qg_span_row_avx512;
#endif

static const qg_span_row *const rows[] = {
    &plain,
#if defined(__x86_64__)
    &qg_span_row_avx2,
    &qg_span_row_avx512,
#endif
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const qg_span_row *const *qg_span_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

/* __builtin_cpu_supports is a load: the C library asked the CPU at start-up. */
const qg_span_row *qg_span_best(void)
{
    size_t i = N_ROWS - 1;
    assert(rows[0]->supported());
    while (!rows[i]->supported())
        i--;
    return rows[i];
}
