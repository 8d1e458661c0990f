/* Counting cases and showing the first few that fail. */
#include "tests/programs/vectors/vectors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 8 };

static void close_case(vec_run *v)
{
    if (v->open) {
        v->cases++;
        v->passed += v->good;
    }
    v->open = false;
}

void vec_case(vec_run *v, const char *fmt, ...)
{
    close_case(v);
    va_list args;
    va_start(args, fmt);
    vsnprintf(v->name, sizeof v->name, fmt, args);
    va_end(args);
    v->open = v->good = true;
}

void vec_drop(vec_run *v) { v->open = false; }

void vec_skip(vec_run *v, const char *fmt, ...)
{
    char what[sizeof v->skipped[0].what];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    unsigned i = 0;
    while (i < v->nskipped && strcmp(v->skipped[i].what, what) != 0)
        i++;
    if (i == sizeof v->skipped / sizeof v->skipped[0])
        vec_malformed("more than %u kinds of cases are not covered", i);
    if (i == v->nskipped) {
        strcpy(v->skipped[i].what, what);
        v->nskipped++;
    }
    v->skipped[i].n++;
}

static void failed(vec_run *v, const char *fmt, ...) QG_PRINTF(2, 3);
static void failed(vec_run *v, const char *fmt, ...)
{
    v->good = false;
    if (v->shown++ >= SHOWN)
        return;
    va_list args;
    va_start(args, fmt);
    printf("    %s: ", v->name);
    vprintf(fmt, args);
    putchar('\n');
    va_end(args);
}

void vec_same_i64(vec_run *v, const char *what, int64_t got, int64_t want)
{
    if (got != want)
        failed(v, "%s is %lld, expected %lld", what, (long long)got, (long long)want);
}

void vec_same_ints(vec_run *v, const char *what, const int32_t *got,
                   const int32_t *want, size_t n)
{
    size_t wrong = 0, first = 0;
    for (size_t i = n; i-- > 0;)
        if (got[i] != want[i]) {
            wrong++;
            first = i;
        }
    if (wrong)
        failed(v, "%s: %zu of %zu differ, [%zu] is %d, expected %d", what, wrong, n,
               first, (int)got[first], (int)want[first]);
}

static bool same_float(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

void vec_same_floats(vec_run *v, const char *what, const float *got, const float *want,
                     size_t n)
{
    vec_ulps(v, what, got, want, n, 0);
}

/* Position of a float among all floats: neighbours differ by 1. */
static int64_t rank_of(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

void vec_ulps(vec_run *v, const char *what, const float *got, const float *want,
              size_t n, int64_t ulps)
{
    size_t wrong = 0, first = 0;
    for (size_t i = n; i-- > 0;) {
        int64_t apart = rank_of(got[i]) - rank_of(want[i]);
        bool near =
            !isnan(got[i]) && !isnan(want[i]) && apart <= ulps && -apart <= ulps;
        if (!same_float(got[i], want[i]) && !near) {
            wrong++;
            first = i;
        }
    }
    if (wrong)
        failed(v, "%s: %zu of %zu differ, [%zu] is %.9g, expected %.9g", what, wrong, n,
               first, (double)got[first], (double)want[first]);
}

void vec_close(vec_run *v, const char *what, double got, double want, vec_tolerance t)
{
    vec_close_all(v, what, &got, &want, 1, t);
}

void vec_close_all(vec_run *v, const char *what, const double *got, const double *want,
                   size_t n, vec_tolerance t)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i] &&
            !(fabs(got[i] - want[i]) <= t.relative * fmax(fabs(want[i]), t.floor))) {
            failed(v, "%s[%zu] is %.17g, expected %.17g", what, i, got[i], want[i]);
            return;
        }
}

bool vec_ok(vec_run *v, const char *what, qg_status s)
{
    if (s != QG_OK)
        failed(v, "%s: %s: %s", what, qg_status_name(s), qg_ctx_message(v->ctx));
    return s == QG_OK;
}
