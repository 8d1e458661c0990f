#include "engine/device/line.h"

#include <math.h>

#include "engine/number/round.h"

double qg_line_shortest(double low, double high)
{
    double middle = (low + high) / 2;
    for (int digits = 2; digits <= 9; digits++) {
        double unit = pow(10, digits - floor(log10(middle)));
        double x = qg_round_f64(QG_ROUND_HALF_EVEN, middle * unit) / unit;
        if (x >= low && x <= high)
            return x;
    }
    return middle;
}

/* Codes per unit, s, for which every interior point has its code with this zero
 * point: |s real + zero - code| <= 1/2 bounds s by (code - zero -+ 1/2) / real.
 * Points at the least and greatest code are left out: a clamp may hide their value.
 * False: no s > 0. */
static bool interval(const qg_points *p, double zero, double *low, double *high)
{
    *low = 0;
    *high = INFINITY;
    for (size_t i = 0; i < p->n; i++) {
        double r = p->real[i], q = p->code[i] - zero;
        if (p->code[i] <= p->low || p->code[i] >= p->high || r == 0)
            continue;
        double a = (q - 0.5) / r, b = (q + 0.5) / r;
        *low = fmax(*low, fmin(a, b));
        *high = fmin(*high, fmax(a, b));
    }
    return *low < *high && isfinite(*high) && *low > 0;
}

/* Least squares over interior points: code = slope real + zero.  Roundings are
 * errors of at most half a code, so zero is near enough for interval to decide
 * between three.  False: fewer than 3 points, one real value for all, or no
 * plausible line. */
static bool line(const qg_points *p, double *slope, double *zero)
{
    double n = 0, sx = 0, sy = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->code[i] <= p->low || p->code[i] >= p->high)
            continue;
        n++, sx += p->real[i], sy += p->code[i];
        xx += p->real[i] * p->real[i], xy += p->real[i] * p->code[i];
    }
    double v = n * xx - sx * sx;
    if (n < 3 || !(v > 0))
        return false;
    *slope = (n * xy - sx * sy) / v;
    *zero = (sy - *slope * sx) / n;
    return isfinite(*slope) && *slope > 0 && fabs(*zero) < 1e6;
}

bool qg_line_is_open(const qg_points *p)
{
    enum { ENOUGH = 12 };
    double seen[ENOUGH];
    size_t n = 0;
    for (size_t i = 0; i < p->n && n < ENOUGH; i++) {
        size_t k = 0;
        while (k < n && seen[k] != p->code[i])
            k++;
        if (k == n && p->code[i] > p->low && p->code[i] < p->high)
            seen[n++] = p->code[i];
    }
    return n < ENOUGH;
}

bool qg_line_scales(const qg_points *p, double zero, double *low, double *high)
{
    double least, most;
    if (!interval(p, zero, &least, &most))
        return false;
    *low = 1 / most;
    *high = 1 / least;
    return true;
}

bool qg_line_fit(const qg_points *p, double *scale, double *zero)
{
    static const int apart[] = { 0, -1, 1 };
    double slope, at, low, high;
    if (!line(p, &slope, &at))
        return false;
    *scale = 1 / slope;
    *zero = qg_round_f64(QG_ROUND_HALF_EVEN, at);
    for (int i = 0; i < 3; i++)
        if (qg_line_scales(p, qg_round_f64(QG_ROUND_HALF_EVEN, at) + apart[i], &low,
                           &high)) {
            *scale = qg_line_shortest(low, high);
            *zero = qg_round_f64(QG_ROUND_HALF_EVEN, at) + apart[i];
            break;
        }
    return true;
}
