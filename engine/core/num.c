/* num.c -- decimal text by search: the fewest digits whose value is the number
 * itself.
 *
 * Printing tries 1, 2, ... digits and reads each attempt back; 9 digits always
 * suffice for a float and 17 for a double (IEEE 754-2019, 5.12.2).  That is slower
 * than Ryu and has no table to get wrong; files hold thousands of scales, not
 * millions. */
#include "engine/core/num.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "%.*e" and strtod use the locale's radix character, so it never appears here: digits
 * are printed as one integer with an exponent and parsed the same way. */
typedef struct decimal {
    bool negative;
    char digit[24]; /* without a point, no trailing zeros, ends with a zero byte */
    int exponent;   /* value = 0.d1d2d3... * 10^exponent */
} decimal;

/* x to `digits` significant digits.  snprintf's radix character is skipped, whatever
 * the locale has chosen. */
static decimal decimal_of(double x, int digits)
{
    char e[64];
    decimal d = { .negative = signbit(x) != 0 };
    (void)snprintf(e, sizeof e, "%.*e", digits - 1, fabs(x));
    size_t n = 0;
    const char *p = e;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            d.digit[n++] = *p;
    d.exponent = atoi(p + 1) + 1;
    while (n > 1 && d.digit[n - 1] == '0')
        n--;
    d.digit[n] = '\0';
    return d;
}

static double decimal_value(const decimal *d)
{
    char s[64];
    int n = (int)strlen(d->digit);
    (void)snprintf(s, sizeof s, "%se%d", d->digit, d->exponent - n);
    return strtod(s, NULL);
}

/* Not (float)decimal_value: that would round twice. */
static float decimal_value_f32(const decimal *d)
{
    char s[64];
    int n = (int)strlen(d->digit);
    (void)snprintf(s, sizeof s, "%se%d", d->digit, d->exponent - n);
    return strtof(s, NULL);
}

/* Positional up to 10^9 and down to 10^-5, else with an exponent.  Always with a
 * point or an exponent, so that readers of JSON see a float. */
static void decimal_print(const decimal *d, char text[QG_NUM_TEXT])
{
    assert(d->digit[0]);
    int n = (int)strlen(d->digit), e = d->exponent;
    const char *sign = d->negative ? "-" : "";
    if (e > 0 && e <= n)
        (void)snprintf(text, QG_NUM_TEXT, "%s%.*s%s%s", sign, e, d->digit,
                       e < n ? "." : ".0", d->digit + e);
    else if (e > n && e <= 9)
        (void)snprintf(text, QG_NUM_TEXT, "%s%s%.*s.0", sign, d->digit, e - n,
                       "000000000");
    else if (e <= 0 && e > -5)
        (void)snprintf(text, QG_NUM_TEXT, "%s0.%.*s%s", sign, -e, "00000", d->digit);
    else
        (void)snprintf(text, QG_NUM_TEXT, "%s%c%s%se%d", sign, d->digit[0],
                       n > 1 ? "." : "", d->digit + 1, e - 1);
}

void qg_num_f32(char text[QG_NUM_TEXT], float x)
{
    assert(isfinite(x));
    decimal d = { 0 };
    for (int digits = 1; digits <= 9; digits++) {
        d = decimal_of((double)x, digits);
        if (decimal_value_f32(&d) == fabsf(x))
            break;
    }
    decimal_print(&d, text);
}

void qg_num_f64(char text[QG_NUM_TEXT], double x)
{
    assert(isfinite(x));
    decimal d = { 0 };
    for (int digits = 1; digits <= 17; digits++) {
        d = decimal_of(x, digits);
        if (decimal_value(&d) == fabs(x))
            break;
    }
    decimal_print(&d, text);
}

static bool is_ascii_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void qg_num_set_point(char *text)
{
    char *at = text + (*text == '-');
    while (is_ascii_word(*at))
        at++;
    char *end = at;
    while (*end && *end != ' ' && !is_ascii_word(*end))
        end++;
    if (end == at || at[-1] == 'e') /* an integer, or the sign of its exponent */
        return;
    *at = '.';
    memmove(at + 1, end, strlen(end) + 1);
}

void qg_num_unsign_nan(char *text)
{
    static const char nan[] = "-nan";
    enum { LENGTH = sizeof nan - 1 };
    for (char *p = text; (p = strstr(p, nan)) != NULL; p += LENGTH - 1) {
        bool begins = p == text || strchr(" ([=,", p[-1]);
        if (begins && strchr(" )],:;%", p[LENGTH])) /* or the end of the text */
            memmove(p, p + 1, strlen(p));
    }
}

/* Splits [-+]digits[.digits][e[-+]digits] into integer text without a point. */
static bool split(const char *s, size_t n, char digits[136], long *exponent)
{
    size_t i = 0, k = 0, fraction = 0;
    bool any = false, point = false;
    if (i < n && (s[i] == '-' || s[i] == '+'))
        digits[k++] = s[i++];
    for (; i < n && ((s[i] >= '0' && s[i] <= '9') || (s[i] == '.' && !point)); i++) {
        if (s[i] == '.') {
            point = true;
            continue;
        }
        digits[k++] = s[i];
        any = true;
        fraction += point;
    }
    digits[k] = '\0';
    *exponent = 0;
    if (i < n && any && (s[i] == 'e' || s[i] == 'E')) {
        char tail[16] = { 0 }, *end = NULL;
        size_t m = n - ++i;
        if (m == 0 || m >= sizeof tail)
            return false;
        memcpy(tail, s + i, m);
        if (tail[0] == ' ' || tail[0] == '\t')
            return false;
        *exponent = strtol(tail, &end, 10);
        i = end == tail + m ? n : 0;
    }
    *exponent -= (long)fraction;
    return any && i == n;
}

bool qg_num_parse_f64(const char *s, size_t n, double *x)
{
    assert(s || n == 0);
    char digits[136], all[168];
    long exponent;
    if (n == 0 || n >= 128 || !split(s, n, digits, &exponent))
        return false;
    (void)snprintf(all, sizeof all, "%se%ld", digits, exponent);
    double value = strtod(all, NULL);
    if (!isfinite(value))
        return false;
    *x = value;
    return true;
}

/* strtoll would take blanks and a plus sign before the digits, JSON has neither. */
bool qg_num_parse_i64(const char *s, size_t n, int64_t *x)
{
    assert(s || n == 0);
    char text[32], *end = NULL;
    if (n == 0 || n >= sizeof text || !((s[0] >= '0' && s[0] <= '9') || s[0] == '-'))
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end != text + n || text[n - 1] == '-')
        return false;
    *x = value;
    return true;
}
