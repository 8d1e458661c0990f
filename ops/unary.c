/* unary.c -- y[i] = f(x[i]).  Any shape, shape(y) == shape(x). */
#include "ops/families.h"

const qg_op qg_ops_unary[] = { { 0 } };
