/* num.h -- numbers as text and back, the same in every locale; checked arithmetic. */
#ifndef QG_ENGINE_CORE_NUM_H
#define QG_ENGINE_CORE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QG_NUM_TEXT = 40 }; /* room for any number below, with its zero */

/* The shortest decimal text that reads back as the same float (double).  Finite values
 * only (asserted): JSON knows no NaN or infinity. */
void qg_num_f32(char text[QG_NUM_TEXT], float x);
void qg_num_f64(char text[QG_NUM_TEXT], double x);

/* Parses all of [s, s + n): a JSON-like decimal number.  False when anything is left
 * over, when the value overflows, or for "nan" and "inf".  n < 128. */
bool qg_num_parse_f64(const char *s, size_t n, double *x);
bool qg_num_parse_i64(const char *s, size_t n, int64_t *x);

/* *r = a * b (a + b); false when the result does not fit. */
static inline bool qg_mul_i64(int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_mul_overflow(a, b, r);
}

static inline bool qg_add_i64(int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_add_overflow(a, b, r);
}

#endif
