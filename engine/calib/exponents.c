#include "engine/calib/exponents.h"

#include <math.h>
#include <string.h>

enum { BITS = 512, INFINITE = 255, LEAST_FAR = 127 + 9, LEAST_GAP = 2 };

static void set(qg_exponents *e, unsigned bit)
{
    e->bit[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static bool has(const qg_exponents *e, unsigned bit)
{
    return e->bit[bit / 64] >> (bit % 64) & 1;
}

static unsigned bit_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 23;
}

/* Elements fill a piece of memory, in whatever order. */
static bool is_dense(const qg_tensor *x)
{
    int64_t last = 0;
    for (int32_t k = 0; k < x->rank; k++) {
        if (x->stride[k] < 0)
            return false;
        last += (x->dim[k] - 1) * x->stride[k];
    }
    return last + 1 == qg_tensor_count(x);
}

static bool holds_nan(const qg_tensor *x)
{
    const int64_t n = qg_tensor_count(x);
    for (int64_t i = 0; i < n; i++)
        if (isnan(qg_tensor_f64(x, i)))
            return true;
    return false;
}

void qg_exponents_add(qg_exponents *e, const qg_tensor *x)
{
    const int64_t n = qg_tensor_count(x);
    const bool dense = n > 0 && is_dense(x);
    uint8_t seen[BITS] = { 0 };
    for (int64_t i = 0; dense && i < n; i++)
        seen[bit_of(x->f32[i])] = 1;
    for (int64_t i = 0; !dense && i < n; i++)
        seen[bit_of((float)qg_tensor_f64(x, i))] = 1;
    if ((seen[INFINITE] || seen[256 + INFINITE]) && holds_nan(x))
        seen[INFINITE] = seen[256 + INFINITE] = 1;
    for (unsigned k = 0; k < BITS; k++)
        if (seen[k])
            set(e, k);
}

/* Bins beside 0 hold zeros and what is below their width. */
static void add_bins(qg_exponents *e, const qg_dyadic *h, uint64_t zeros)
{
    uint32_t first, end;
    uint64_t small = 0;
    qg_dyadic_span(h, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const double low = qg_dyadic_edge(h, i), high = qg_dyadic_edge(h, i + 1);
        if (h->count[i] == 0)
            continue;
        if (low < 0 && high < 0)
            set(e, bit_of((float)high));
        else if (low > 0)
            set(e, bit_of((float)low));
        else
            small += h->count[i];
    }
    if (small > zeros)
        set(e, 1);
}

void qg_exponents_add_stats(qg_exponents *e, const qg_stats_value *v)
{
    const qg_stats_channel all = qg_stats_total(v);
    if (all.count == 0)
        return;
    set(e, bit_of(all.low));
    set(e, bit_of(all.high));
    if (v->holds & QG_STATS_HISTOGRAM)
        add_bins(e, &v->bins, all.zeros);
}

/* Without branches and by signed comparisons, which all vector units have: most tensors
 * reach nowhere near. */
static bool reaches(const float *x, int64_t n, int32_t exponent)
{
    const float least = ldexpf(1, exponent - 127);
    int32_t within = 1;
    for (int64_t i = 0; i < n; i++)
        within &= x[i] > -least && x[i] < least; /* no for NaN */
    return !within;
}

bool qg_is_far(const qg_tensor *x)
{
    qg_exponents e = { 0 };
    const int64_t n = qg_tensor_count(x);
    if (n == 0 || (is_dense(x) && !reaches(x->f32, n, LEAST_FAR)))
        return false;
    qg_exponents_add(&e, x);
    return qg_exponents_far(&e).exponent > 0;
}

static bool is_there(const qg_exponents *e, unsigned exponent)
{
    return has(e, exponent) || has(e, 256 + exponent);
}

/* Whether all numbers from this exponent on have one sign, and which. */
static bool have_one_sign(const qg_exponents *e, unsigned from, bool *positive)
{
    bool above = false, below = false;
    for (unsigned k = from; k <= INFINITE; k++) {
        above |= has(e, k);
        below |= has(e, 256 + k);
    }
    *positive = above;
    return above != below;
}

qg_far qg_exponents_far(const qg_exponents *e)
{
    qg_far far = { 0 };
    for (unsigned k = LEAST_FAR; k <= INFINITE; k++) {
        unsigned below = k - 1;
        bool positive;
        if (!is_there(e, k))
            continue;
        while (below > 0 && !is_there(e, below))
            below--;
        const unsigned gap = k - 1 - below;
        if (gap >= LEAST_GAP && gap > far.gap && have_one_sign(e, k, &positive))
            far = (qg_far){ k, gap, below > 0, positive };
    }
    return far;
}
