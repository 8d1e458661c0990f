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

bool qg_is_better(const double *before, const double *after, size_t n)
{
    const double old = mean_of(before, n), bound = old / 100;
    double sum = 0, squares = 0;
    if (!(mean_of(after, n) < old) || n < 2)
        return n == 1 && after[0] < 0.9 * before[0];
    for (size_t i = 0; i < n; i++) {
        const double d = log((before[i] + bound) / (after[i] + bound));
        sum += d;
        squares += d * d;
    }
    const double mean = sum / (double)n;
    const double variance = fmax(0, squares - sum * mean) / (double)(n - 1);
    return mean > sqrt(variance / (double)n);
}
