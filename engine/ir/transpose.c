#include "engine/ir/transpose.h"

#include <stdbool.h>

typedef uint32_t word __attribute__((may_alias));
typedef uint32_t words4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Words of two rows side by side, then of four.  Two rounds of shuffles: rows i and i +
 * 2 are interleaved, then the results. x and y need the alignment of a word only. */
static inline void transpose_4x4(const word *x, int64_t x_step, word *y, int64_t y_step)
{
    words4 row[4], two[4];
    for (int i = 0; i < 4; i++)
        row[i] = *(const words4 *)(x + i * x_step);
    for (int i = 0; i < 2; i++) {
        two[2 * i] = __builtin_shufflevector(row[i], row[i + 2], 0, 4, 1, 5);
        two[2 * i + 1] = __builtin_shufflevector(row[i], row[i + 2], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        words4 low = __builtin_shufflevector(two[i], two[i + 2], 0, 4, 1, 5);
        words4 high = __builtin_shufflevector(two[i], two[i + 2], 2, 6, 3, 7);
        *(words4 *)(y + 2 * i * y_step) = low;
        *(words4 *)(y + (2 * i + 1) * y_step) = high;
    }
}

/* Tiles of 4 x 4, those below one another first, so that four rows of y grow at a time;
 * then what remains at the right and below, word by word. */
static void transpose_block(const word *x, int64_t x_step, word *y, int64_t y_step,
                            int64_t rows, int64_t columns)
{
    const int64_t i4 = rows / 4 * 4, j4 = columns / 4 * 4;
    for (int64_t j = 0; j < j4; j += 4)
        for (int64_t i = 0; i < i4; i += 4)
            transpose_4x4(x + i * x_step + j, x_step, y + j * y_step + i, y_step);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = j < j4 ? i4 : 0; i < rows; i++)
            y[j * y_step + i] = x[i * x_step + j];
}

/* Blocks whose lines stay in cache until they are complete: few rows of x and all
 * columns where x is tall, whose rows of y often begin in the same set of a cache; else
 * whole cache lines on either side. */
void qg_transpose_words(const void *x, int64_t x_step, void *y, int64_t y_step,
                        int64_t rows, int64_t columns)
{
    const bool tall = rows > columns;
    const int64_t down = tall ? 64 : 16, across = tall ? columns : 16;
    for (int64_t j = 0; j < columns; j += across)
        for (int64_t i = 0; i < rows; i += down)
            transpose_block((const word *)x + i * x_step + j, x_step,
                            (word *)y + j * y_step + i, y_step,
                            rows - i < down ? rows - i : down,
                            columns - j < across ? columns - j : across);
}
