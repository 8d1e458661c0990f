/* Transposed copies against element by element: matrices of every small size, and walks
 * over every permutation of four dims. */
#include "engine/ir/transpose.h"
#include "ops/util_broadcast.h"
#include "tests/support/test.h"

static void words_are_turned(void **state)
{
    enum { MOST = 37, STEP = 41 };
    static uint32_t x[STEP * STEP], y[STEP * STEP];
    (void)state;
    for (uint32_t i = 0; i < STEP * STEP; i++)
        x[i] = i + 1;
    for (int rows = 0; rows <= MOST; rows++)
        for (int columns = 0; columns <= MOST; columns++) {
            memset(y, 0, sizeof y);
            qg_transpose_words(x, STEP, y, STEP, rows, columns);
            for (int j = 0; j < STEP; j++)
                for (int i = 0; i < STEP; i++)
                    assert_int_equal(y[j * STEP + i],
                                     i < rows && j < columns ? x[i * STEP + j] : 0);
        }
}

static void copy_and_compare(const int32_t *perm, const int64_t *dim, size_t size)
{
    static uint8_t x[9 * 6 * 7 * 5 * 8], y[sizeof x];
    int64_t stride[4] = { dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1 };
    int64_t out[4], from[4], to[4] = { 0, 0, 0, 1 };
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)(i * 31 + i / 256);
    for (int i = 3; i >= 0; i--) {
        out[i] = dim[perm[i]];
        from[i] = stride[perm[i]];
        to[i] = i == 3 ? 1 : to[i + 1] * out[i + 1];
    }
    qg_walk w;
    qg_walk_pair(&w, 4, out, to, from);
    qg_walk_copy(&w, size, y, x);
    for (int64_t at = 0; at < out[0] * to[0]; at++) {
        int64_t place = 0;
        for (int i = 0; i < 4; i++)
            place += at / to[i] % out[i] * from[i];
        assert_memory_equal(y + at * (int64_t)size, x + place * (int64_t)size, size);
    }
}

static void walks_are_turned(void **state)
{
    static const int64_t dims[][4] = {
        {9,  6, 7, 5},
        { 1, 8, 5, 4},
        { 3, 4, 2, 9},
    };
    (void)state;
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (int32_t code = 0; code < 256; code++) {
            const int32_t perm[] = { code >> 6, code >> 4 & 3, code >> 2 & 3,
                                     code & 3 };
            int seen = 0;
            for (int i = 0; i < 4; i++)
                seen |= 1 << perm[i];
            for (size_t size = 1; seen == 15 && size <= 8; size *= 2)
                copy_and_compare(perm, dims[d], size);
        }
}

QG_TEST_MAIN(cmocka_unit_test(words_are_turned), cmocka_unit_test(walks_are_turned))
