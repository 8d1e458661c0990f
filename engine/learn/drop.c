#include "engine/learn/drop.h"

enum { WORD = 64 };

uint64_t *qg_drop_draw(qg_arena *a, qg_rng *rng, size_t n)
{
    const size_t words = (n + WORD - 1) / WORD;
    uint64_t *drawn = QG_NEWN(a, words, uint64_t);
    for (size_t i = 0; drawn && i < words; i++)
        drawn[i] = qg_rng_next(rng);
    return drawn;
}

void qg_drop_put(const uint64_t *drawn, size_t n, const float *from, float *to)
{
    for (size_t i = 0; i < n; i++)
        if (drawn[i / WORD] >> i % WORD & 1)
            to[i] = from ? from[i] : 0;
}

void qg_drop_mix(qg_rng *rng, size_t n, const float *from, float *to)
{
    for (size_t i = 0; i < n; i += WORD) {
        const uint64_t drawn = qg_rng_next(rng);
        qg_drop_put(&drawn, n - i < WORD ? n - i : WORD, from + i, to + i);
    }
}
