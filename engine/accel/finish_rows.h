/* finish_rows.h -- the rows of the table, each defined in its own file because each is
 * compiled for its own instruction set.  Private to finish*.c. */
#ifndef QG_ENGINE_ACCEL_FINISH_ROWS_H
#define QG_ENGINE_ACCEL_FINISH_ROWS_H

#include "engine/accel/finish.h"

extern const qg_finish_row qg_finish_plain;
#if defined(__x86_64__)
extern const qg_finish_row qg_finish_avx2;
extern const qg_finish_row qg_finish_avx512;
extern const qg_finish_row qg_finish_avx512vbmi;
#endif

#endif
