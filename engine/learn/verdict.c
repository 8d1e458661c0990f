#include "engine/learn/verdict.h"

#include <math.h>

static bool all_do_both(qg_tune_samples s) { return !s.holdout && s.n < QG_TUNE_LEAST; }

bool qg_judges(qg_tune_samples s, size_t i)
{
    return s.holdout ? i >= s.n - s.holdout : all_do_both(s) || i % 4 == 3;
}

bool qg_teaches(qg_tune_samples s, size_t i)
{
    return all_do_both(s) || !qg_judges(s, i);
}

size_t qg_n_judges(qg_tune_samples s)
{
    return s.holdout ? s.holdout : all_do_both(s) ? s.n : s.n / 4;
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* What a chance allows.  t: by degrees of freedom, n - 1; beyond the table
 * it is limit + slope / (n - 1), within 0.005. */
typedef struct bound {
    double t[7], limit, slope;
    double one; /* of what it was: a single sample must be below */
} bound;
static const bound bounds[] = {
    [QG_ONE_IN_SIX] = {{ 1.837, 1.321, 1.197, 1.142, 1.111, 1.091, 1.077 },
                       1,     0.5,
                       4. / 5},
    [QG_ONE_IN_TWENTY] = { { 6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895 },
                       1.645, 1.68,
                       2. / 3},
};

static double times(const bound *b, size_t n)
{
    enum { N = sizeof b->t / sizeof *b->t };
    return n - 2 < N ? b->t[n - 2] : b->limit + b->slope / (double)(n - 1);
}

static bool are_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

bool qg_is_better(const double *before, const double *after, size_t n,
                  enum qg_chance chance)
{
    const bound *b = &bounds[chance];
    const double old = mean_of(before, n), least = old / 100;
    double sum = 0, squares = 0;
    if (!are_finite(before, n) || !are_finite(after, n))
        return are_finite(after, n);
    if (!(mean_of(after, n) < old) || n < 2)
        return n == 1 && after[0] < b->one * before[0];
    for (size_t i = 0; i < n; i++) {
        const double d = log((before[i] + least) / (after[i] + least));
        sum += d;
        squares += d * d;
    }
    const double mean = sum / (double)n;
    const double variance = fmax(0, squares - sum * mean) / (double)(n - 1);
    return mean > times(b, n) * sqrt(variance / (double)n);
}
