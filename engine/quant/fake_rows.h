/* fake_rows.h -- the rows of the kernel table, each defined in its own file because
 * each is compiled for its own instruction set.  Private to fake_*.c. */
#ifndef QG_ENGINE_QUANT_FAKE_ROWS_H
#define QG_ENGINE_QUANT_FAKE_ROWS_H

#include "engine/quant/fake_kernel.h"

extern const qg_fake_row qg_fake_row_plain;
#if defined(__x86_64__)
extern const qg_fake_row qg_fake_row_avx2;
extern const qg_fake_row qg_fake_row_avx512;
#endif

#endif
