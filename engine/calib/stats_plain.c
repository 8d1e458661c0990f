/* stats_plain.c -- statistics for the instruction set that the build targets, and the
 * table of all rows. */
#define TARGET
#include "engine/calib/stats_body.h"

#include <assert.h>

static bool supported(void) { return true; }

const qg_stats_row qg_stats_row_plain = {
    "plain C", supported, run, extent, last, bin
};

static const qg_stats_row *const rows[] = {
    &qg_stats_row_plain,
#if defined(__x86_64__)
    &qg_stats_row_avx2,
    &qg_stats_row_avx512,
#endif
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

const qg_stats_row *const *qg_stats_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

const qg_stats_row *qg_stats_row_best(void)
{
    size_t i = N_ROWS - 1;
    assert(rows[0]->supported());
    while (!rows[i]->supported())
        i--;
    return rows[i];
}
