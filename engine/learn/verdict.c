#include "engine/learn/verdict.h"

#include <math.h>

static bool all_do_both(qg_tune_samples s) { return !s.holdout && s.n < QG_TUNE_LEAST; }

bool qg_judges(qg_tune_samples s, size_t i)
{
    if (i >= s.n)
        return false;
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

double qg_mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : 0;
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

/* Of the gain on samples that taught, what others keep of it. */
static const double KEPT_BY_OTHERS = 1. / 3;

typedef struct gains {
    double sum, squares;
} gains;

static void add(gains *g, double d)
{
    g->sum += d;
    g->squares += d * d;
}

/* Of n >= 2 gains, the mean exceeds its standard error. */
static bool are_clear(const gains *g, size_t n, enum qg_chance chance)
{
    const double mean = g->sum / (double)n;
    const double variance = fmax(0, g->squares - g->sum * mean) / (double)(n - 1);
    return mean > times(&bounds[chance], n) * sqrt(variance / (double)n);
}

/* The first `judges` of n >= 2 samples judge, the others taught. */
static bool is_clear(const double *before, const double *after, size_t judges, size_t n,
                     enum qg_chance chance)
{
    const double least = qg_mean_of(before, n) / 100;
    gains all = { 0 };
    for (size_t i = 0; i < n; i++) {
        const double gain = log((before[i] + least) / (after[i] + least));
        add(&all, i < judges ? gain : gain * KEPT_BY_OTHERS);
    }
    return are_clear(&all, n, chance);
}

static bool is_better(const double *before, const double *after, size_t judges,
                      size_t n, enum qg_chance chance)
{
    if (!are_finite(before, n) || !are_finite(after, n))
        return are_finite(after, n);
    if (!(qg_mean_of(after, judges) < qg_mean_of(before, judges)))
        return false;
    return n > 1 ? is_clear(before, after, judges, n, chance)
                 : after[0] < bounds[chance].one * before[0];
}

bool qg_is_better(const double *before, const double *after, size_t n,
                  enum qg_chance chance)
{
    return is_better(before, after, n, n, chance);
}

/* Nats: smaller falls are of the rounding of outputs, however alike in all samples. */
static const double LEAST_FALL = 1e-7;

bool qg_is_classifier_better(const double *before, const double *after, size_t n)
{
    gains all = { 0 };
    if (qg_mean_of(before, n) - qg_mean_of(after, n) < LEAST_FALL)
        return false;
    if (qg_is_better(before, after, n, QG_ONE_IN_TWENTY))
        return true;
    if (n < 2 || !are_finite(before, n) || !are_finite(after, n))
        return false;
    for (size_t i = 0; i < n; i++)
        add(&all, before[i] - after[i]);
    return are_clear(&all, n, QG_ONE_IN_TWENTY);
}

bool qg_is_network_better(const double *before, const double *after, size_t judges,
                          size_t n)
{
    return judges && is_better(before, after, judges, n, QG_ONE_IN_TWENTY);
}

size_t qg_n_samples(qg_tune_samples s) { return s.n + s.mixed; }
