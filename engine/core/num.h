/* num.h -- numbers as text and back, the same in every locale; checked arithmetic.
 *
 * printf and strtod follow the locale's decimal point; a file written under de_DE
 * must be the file written under C.  Everything that writes or reads a number in a
 * file goes through here. */
#ifndef QG_ENGINE_CORE_NUM_H
#define QG_ENGINE_CORE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QG_NUM_TEXT = 40 }; /* room for any number below, with its zero */

/* The shortest decimal text that reads back as the same float (double).  Finite values
 * only (asserted): JSON has no NaN or infinity.
 * Always with a point or an exponent ("1.0", "2.5e-07"), so that it reads back as a
 * float wherever the spelling determines the type.  -0.0 keeps its sign.  Cost: at most
 * 9 (17) attempts of printing and reading back; 9 and 17 digits always suffice (IEEE
 * 754-2019, 5.12.2). */
void qg_num_f32(char text[QG_NUM_TEXT], float x);
void qg_num_f64(char text[QG_NUM_TEXT], double x);

/* In a text of printf with one number, its sign first: a point in place of the decimal
 * separator of the locale. */
void qg_num_set_point(char *text);

/* In a text of printf: every NaN without a sign, which says nothing.  A "-nan" that
 * other letters or quotes surround is a name and stays. */
void qg_num_unsign_nan(char *text);

/* Parses all of [s, s + n): a JSON-like decimal number.  False when anything is left
 * over, when the value overflows, or for "nan" and "inf".  n < 128.
 * A sign, digits with at most one point, an exponent; no blanks, no hex.  An integer
 * has digits and '-' only, and 31 characters at most.  *x is untouched on failure. */
bool qg_num_parse_f64(const char *s, size_t n, double *x);
bool qg_num_parse_i64(const char *s, size_t n, int64_t *x);

/* *r = a * b (a + b); false when the result does not fit.
 * Every size that derives from a file is computed by these: dims of a hostile model
 * multiply to anything.  *r is unspecified on false. */
static inline bool qg_mul_i64(int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_mul_overflow(a, b, r);
}

static inline bool qg_add_i64(int64_t a, int64_t b, int64_t *r)
{
    return !__builtin_add_overflow(a, b, r);
}

#endif
