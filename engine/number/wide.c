#include "engine/number/wide.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Adds (high, low), 128 bits with sign, from word `at` on. */
static void add_at(qg_wide *w, int at, uint64_t low, uint64_t high)
{
    uint64_t sign = (uint64_t)0 - (high >> 63);
    bool carry = false;
    for (int i = at; i < QG_WIDE_WORDS; i++) {
        uint64_t add = i == at ? low : i == at + 1 ? high : sign;
        bool more = __builtin_add_overflow(w->word[i], add, &w->word[i]);
        carry = __builtin_add_overflow(w->word[i], (uint64_t)carry, &w->word[i]) | more;
    }
}

/* x is m * 2^e with an integer m of 53 bits. */
void qg_wide_add(qg_wide *w, double x)
{
    int e;
    assert(isfinite(x) && fabs(x) < 0x1p330);
    double fraction = frexp(x, &e);
    if (x == 0)
        return;
    int64_t m = (int64_t)ldexp(fraction, 53);
    int shift = e - 53 - QG_WIDE_UNIT;
    if (shift < 0) { /* bits shifted out are zero: x is a multiple of the unit */
        assert(shift > -53 && m % (INT64_C(1) << -shift) == 0);
        m /= INT64_C(1) << -shift;
        shift = 0;
    }
    unsigned bits = (unsigned)shift % 64;
    uint64_t low = (uint64_t)m << bits;
    uint64_t sign = m < 0 ? UINT64_MAX : 0;
    uint64_t high = bits ? (uint64_t)m >> (64 - bits) | sign << bits : sign;
    add_at(w, shift / 64, low, high);
}

void qg_wide_merge(qg_wide *w, const qg_wide *x)
{
    bool carry = false;
    for (int i = 0; i < QG_WIDE_WORDS; i++) {
        bool more = __builtin_add_overflow(w->word[i], x->word[i], &w->word[i]);
        carry = __builtin_add_overflow(w->word[i], (uint64_t)carry, &w->word[i]) | more;
    }
}

/* Bits [from, from + 64), 0 <= from; zeros beyond the end. */
static uint64_t window(const qg_wide *w, int from)
{
    int at = from / 64, bits = from % 64;
    uint64_t low = at < QG_WIDE_WORDS ? w->word[at] >> bits : 0;
    if (bits == 0 || at + 1 >= QG_WIDE_WORDS)
        return low;
    return low | w->word[at + 1] << (64 - bits);
}

static bool any_below(const qg_wide *w, int bit)
{
    uint64_t any = 0;
    for (int i = 0; i < bit / 64; i++)
        any |= w->word[i];
    if (bit % 64)
        any |= w->word[bit / 64] << (64 - bit % 64);
    return any != 0;
}

static qg_wide negated(const qg_wide *w)
{
    qg_wide r = *w, one = { { 1 } };
    for (int i = 0; i < QG_WIDE_WORDS; i++)
        r.word[i] = ~r.word[i];
    qg_wide_merge(&r, &one);
    return r;
}

/* The 64 leading bits, the last one set when anything follows: the conversion to double
 * then rounds as if it saw all of them. */
double qg_wide_value(const qg_wide *w)
{
    bool minus = w->word[QG_WIDE_WORDS - 1] >> 63;
    qg_wide v = minus ? negated(w) : *w;
    int top = QG_WIDE_WORDS - 1;
    while (top > 0 && v.word[top] == 0)
        top--;
    if (v.word[top] == 0)
        return 0;
    int end = 64 * top + 64 - __builtin_clzll(v.word[top]);
    int from = end > 64 ? end - 64 : 0;
    uint64_t lead = window(&v, from) | any_below(&v, from);
    double size = ldexp((double)lead, from + QG_WIDE_UNIT);
    return minus ? -size : size;
}
