/* util_vector_plain.c -- the loops for the instruction set that the build targets. */
#define TARGET
#define REGISTER 4
#include "ops/util_vector_body.h"
#include "ops/util_vector_rows.h"

static bool supported(void) { return true; }

const qg_vector_row qg_vector_plain = ROW("plain C");
