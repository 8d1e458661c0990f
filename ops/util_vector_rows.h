/* util_vector_rows.h -- the rows of the table, each defined in its own file because
 * each is compiled for its own instruction set.  Private to util_vector*.c. */
#ifndef QG_OPS_UTIL_VECTOR_ROWS_H
#define QG_OPS_UTIL_VECTOR_ROWS_H

#include "ops/util_vector.h"

extern const qg_vector_row qg_vector_plain;
#if defined(__x86_64__)
extern const qg_vector_row qg_vector_avx2;
extern const qg_vector_row qg_vector_avx512;
#endif

#endif
