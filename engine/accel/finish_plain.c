/* finish_plain.c -- the loops for the instruction set that the build targets. */
#define TARGET
#include "engine/accel/finish_body.h"
#include "engine/accel/finish_rows.h"

static bool supported(void) { return true; }

const qg_finish_row qg_finish_plain = ROW("plain C");
