#include "engine/learn/verdict.h"

#include <math.h>

bool qg_is_held_back(size_t i, size_t n) { return n < QG_TUNE_LEAST || i % 4 == 3; }
bool qg_teaches(size_t i, size_t n) { return n < QG_TUNE_LEAST || i % 4 != 3; }
size_t qg_n_held_back(size_t n) { return n < QG_TUNE_LEAST ? n : n / 4; }

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* What mean over standard error exceeds with the probability that a normal distribution
 * has above one standard deviation, 15.9 %: Student's t of n - 1 degrees of freedom. */
static double bound_of(size_t n)
{
    static const double t[] = { 1.837, 1.321, 1.197, 1.142, 1.111, 1.091, 1.077 };
    enum { N = sizeof t / sizeof *t };
    return n - 2 < N ? t[n - 2] : 1 + 0.5 / (double)(n - 1);
}

bool qg_is_better(const double *before, const double *after, size_t n)
{
    const double old = mean_of(before, n), bound = old / 100;
    double sum = 0, squares = 0;
    if (!(mean_of(after, n) < old) || n < 2)
        return n == 1 && after[0] < 0.8 * before[0];
    for (size_t i = 0; i < n; i++) {
        const double d = log((before[i] + bound) / (after[i] + bound));
        sum += d;
        squares += d * d;
    }
    const double mean = sum / (double)n;
    const double variance = fmax(0, squares - sum * mean) / (double)(n - 1);
    return mean > bound_of(n) * sqrt(variance / (double)n);
}
