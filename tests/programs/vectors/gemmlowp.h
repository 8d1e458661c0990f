/* gemmlowp.h -- the operator sections of tflite_gemmlowp.json.  single: the build. */
#ifndef QG_TESTS_PROGRAMS_VECTORS_GEMMLOWP_H
#define QG_TESTS_PROGRAMS_VECTORS_GEMMLOWP_H

#include <string.h>

#include "tests/programs/vectors/vectors.h"

typedef void gemmlowp_section(vec_run *v, const json *section, bool single);

gemmlowp_section gemmlowp_add, gemmlowp_concat, gemmlowp_requantize, gemmlowp_mul,
    gemmlowp_leaky_relu, gemmlowp_hard_swish, gemmlowp_logistic_tanh, gemmlowp_softmax,
    gemmlowp_average_pool, gemmlowp_conv, gemmlowp_dense;

#endif
