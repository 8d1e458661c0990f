#include "engine/ir/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/ir/transpose.h"
#include "engine/number/format.h"

void qg_tensor_init(qg_tensor *t, qg_dtype dtype, int32_t rank, const int64_t *dim)
{
    assert(rank >= 0 && rank <= QG_MAX_RANK);
    *t = (qg_tensor){ .dtype = dtype, .rank = rank };
    if (rank)
        memcpy(t->dim, dim, (size_t)rank * sizeof *dim);
    qg_tensor_set_plain(t);
}

void qg_tensor_scalar(qg_tensor *t, qg_dtype dtype)
{
    *t = (qg_tensor){ .dtype = dtype };
}

void qg_tensor_unknown(qg_tensor *t, qg_dtype dtype)
{
    *t = (qg_tensor){ .dtype = dtype, .rank = -1 };
}

/* Strides for memory that runs through the axes order[rank - 1] (fastest) to order[0].
 * An unknown or overflowing extent makes the strides of all slower axes 0. */
static void set_strides(qg_tensor *t, const int32_t *order)
{
    int64_t step = 1;
    for (int32_t k = t->rank - 1; k >= 0; k--) {
        int32_t axis = order[k];
        t->stride[axis] = step;
        if (t->dim[axis] < 0 || !qg_mul_i64(step, t->dim[axis], &step))
            step = 0;
    }
}

void qg_tensor_set_plain(qg_tensor *t)
{
    static const int32_t order[QG_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    set_strides(t, order);
}

void qg_tensor_set_channels_last(qg_tensor *t)
{
    if (t->rank < 3) {
        qg_tensor_set_plain(t);
        return;
    }
    int32_t order[QG_MAX_RANK] = { 0 };
    for (int32_t k = 1; k < t->rank - 1; k++)
        order[k] = k + 1;
    order[t->rank - 1] = 1;
    set_strides(t, order);
}

/* Strides of axes with extent 1 do not matter, and none matter when there is no
 * element. */
bool qg_tensor_is_plain(const qg_tensor *t)
{
    qg_tensor plain = *t;
    qg_tensor_set_plain(&plain);
    for (int32_t k = t->rank; k-- > 0;)
        if (t->dim[k] != 1 && t->stride[k] != plain.stride[k])
            return qg_tensor_count(t) == 0;
    return true;
}

bool qg_tensor_known(const qg_tensor *t)
{
    assert(t->rank >= -1 && t->rank <= QG_MAX_RANK);
    for (int32_t k = 0; k < t->rank; k++)
        if (t->dim[k] < 0)
            return false;
    return t->rank >= 0;
}

int64_t qg_tensor_count(const qg_tensor *t)
{
    return qg_tensor_known(t) ? qg_dims_product(t, 0, t->rank) : -1;
}

/* A zero anywhere makes it 0 before anything can overflow. */
int64_t qg_dims_product(const qg_tensor *t, int32_t from, int32_t to)
{
    int64_t n = 1;
    assert(from >= 0 && to <= t->rank);
    for (int32_t k = from; k < to; k++)
        if (t->dim[k] == 0)
            return 0;
    for (int32_t k = from; k < to; k++)
        if (t->dim[k] < 0 || !qg_mul_i64(n, t->dim[k], &n))
            return -1;
    return n;
}

qg_status qg_tensor_bytes(qg_ctx *ctx, const char *what, const qg_tensor *t,
                          size_t *bytes)
{
    char text[QG_SHAPE_TEXT];
    int64_t n = qg_tensor_count(t);
    if (n >= 0 && qg_dtype_bytes(t->dtype, (uint64_t)n, bytes))
        return QG_OK;
    return qg_fail(ctx, QG_EMODEL, "%s: %s has no size, expected one that fits memory",
                   what, qg_tensor_text(t, text));
}

/* Adds one to the index over the axes 0 .. rank - 2, the last of them fastest. */
static void next_row(const qg_tensor *t, int64_t *index)
{
    for (int32_t k = t->rank - 2; k >= 0; k--) {
        if (++index[k] < t->dim[k])
            return;
        index[k] = 0;
    }
}

/* Elements before the row that `index` selects; the last axis counts nothing. */
static int64_t row_start(const qg_tensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t k = 0; k < t->rank - 1; k++)
        at += index[k] * t->stride[k];
    return at;
}

/* Any strides: row by row along the last axis, element by element within a row. */
static void copy_rows(const qg_tensor *from, qg_tensor *to, int64_t count)
{
    assert(from->rank >= 1 && from->data && to->data);
    int64_t index[QG_MAX_RANK] = { 0 }, width = from->dim[from->rank - 1];
    int64_t size = qg_dtype_bits(from->dtype) / 8;
    int64_t step = from->stride[from->rank - 1] * size;
    int64_t step_to = to->stride[to->rank - 1] * size;
    for (int64_t done = 0; done < count; done += width) {
        const char *p = (const char *)from->data + row_start(from, index) * size;
        char *q = (char *)to->data + row_start(to, index) * size;
        for (int64_t i = 0; i < width; i++)
            memcpy(q + i * step_to, p + i * step, (size_t)size);
        next_row(from, index);
    }
}

/* y[j][i] = x[i][j] for 2 or 3 rows (the channels of images), which compilers vectorise
 * once the number is a constant; x and y do not overlap. */
static inline void interleave_f32(const float *restrict x, int64_t ldx,
                                  float *restrict y, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            y[j * rows + i] = x[i * ldx + j];
}

/* y[j][i] = x[i][j] for i < rows, j < columns; ld: elements from one row to the
 * next. */
static void transpose_f32(const float *x, int64_t ldx, float *y, int64_t ldy,
                          int64_t rows, int64_t columns)
{
    if (rows == 2 && ldy == rows)
        interleave_f32(x, ldx, y, 2, columns);
    else if (rows == 3 && ldy == rows)
        interleave_f32(x, ldx, y, 3, columns);
    else
        qg_transpose_words(x, ldx, y, ldy, rows, columns);
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t pairs8 __attribute__((vector_size(16)));
typedef uint32_t fours4 __attribute__((vector_size(16)));
typedef uint64_t eights2 __attribute__((vector_size(16)));

/* The 8 bytes at x and 8 others. */
static inline bytes16 load(const uint8_t *x)
{
    uint64_t v;
    memcpy(&v, x, sizeof v);
    return (bytes16)(eights2){ v };
}

static inline bytes16 zip_bytes(bytes16 a, bytes16 b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                   22, 7, 23);
}

/* 8 rows of 8 bytes: bytes of two rows side by side, then of four, then of eight. */
static inline void transpose_8x8(const uint8_t *x, uint8_t *y, int64_t rows,
                                 int64_t columns)
{
    pairs8 two[4];
    fours4 four[4];
    for (int i = 0; i < 4; i++)
        two[i] = (pairs8)zip_bytes(load(x + 2 * i * columns),
                                   load(x + (2 * i + 1) * columns));
    for (int i = 0; i < 4; i += 2) {
        pairs8 a = two[i], b = two[i + 1];
        four[i] = (fours4)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        four[i + 1] = (fours4)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 2; i++) {
        fours4 a = four[i], b = four[i + 2];
        eights2 low = (eights2)__builtin_shufflevector(a, b, 0, 4, 1, 5);
        eights2 high = (eights2)__builtin_shufflevector(a, b, 2, 6, 3, 7);
        const uint64_t row[4] = { low[0], low[1], high[0], high[1] };
        for (int k = 0; k < 4; k++)
            memcpy(y + (4 * i + k) * rows, &row[k], sizeof row[k]);
    }
}

/* Three rows, as images have them: four bytes are written per column, of which the next
 * column replaces the last. */
static int64_t interleave_3(const uint8_t *x, uint8_t *y, int64_t columns)
{
    int64_t j = 0;
    for (; j + 8 < columns; j += 8) {
        const uint8_t *at = x + j;
        pairs8 a = (pairs8)zip_bytes(load(at), load(at + columns));
        pairs8 b = (pairs8)zip_bytes(load(at + 2 * columns), (bytes16){ 0 });
        fours4 half[2] = {
            (fours4)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
            (fours4)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
        };
        for (int k = 0; k < 8; k++) {
            uint32_t four = half[k / 4][k % 4];
            memcpy(y + 3 * (j + k), &four, 4);
        }
    }
    return j;
}

static void transpose_u8(const uint8_t *x, uint8_t *y, int64_t rows, int64_t columns)
{
    enum { BLOCK = 8 };
    int64_t first = rows == 3 ? interleave_3(x, y, columns) : 0;
    for (int64_t i0 = 0; i0 < rows; i0 += BLOCK)
        for (int64_t j0 = first; j0 < columns; j0 += BLOCK) {
            int64_t i1 = i0 + BLOCK < rows ? i0 + BLOCK : rows;
            int64_t j1 = j0 + BLOCK < columns ? j0 + BLOCK : columns;
            if (i1 - i0 == BLOCK && j1 - j0 == BLOCK) {
                transpose_8x8(x + i0 * columns + j0, y + j0 * rows + i0, rows, columns);
                continue;
            }
            for (int64_t j = j0; j < j1; j++)
                for (int64_t i = i0; i < i1; i++)
                    y[j * rows + i] = x[i * columns + j];
        }
}

/* Elements from one to the next place of the space, when all places are so in a row;
 * else 0. */
static int64_t space_step(const qg_tensor *t)
{
    int64_t step = 0, count = 1;
    for (int32_t k = t->rank - 1; k >= 2; count *= t->dim[k--]) {
        if (t->dim[k] == 1)
            continue;
        if (step == 0)
            step = t->stride[k] / count;
        if (t->stride[k] != step * count)
            return 0;
    }
    return count == 1 ? 1 : step;
}

/* Between plain and channels-last memory or slices of them, a transpose per sample;
 * false: not this case. */
static bool copy_between_layouts(const qg_tensor *from, qg_tensor *to)
{
    const unsigned bits = qg_dtype_bits(from->dtype);
    if (from->rank < 3 || (bits != 32 && bits != 8))
        return false;
    const int64_t channels = from->dim[1], space = qg_dims_product(from, 2, from->rank);
    const int64_t step = space_step(from), step_to = space_step(to);
    const bool to_last = step == 1 && to->stride[1] == 1 && step_to > 0;
    const bool to_plain = step_to == 1 && from->stride[1] == 1 && step > 0;
    const int64_t ldx = to_last ? from->stride[1] : step;
    const int64_t ldy = to_last ? step_to : to->stride[1];
    const int64_t rows = to_last ? channels : space, columns = channels * space / rows;
    if (!(to_last || to_plain) || (bits == 8 && (ldx != columns || ldy != rows)))
        return false;
    for (int64_t n = 0; n < from->dim[0]; n++) {
        const int64_t at = n * from->stride[0], at_to = n * to->stride[0];
        if (bits == 32)
            transpose_f32(from->f32 + at, ldx, to->f32 + at_to, ldy, rows, columns);
        else
            transpose_u8(from->u8 + at, to->u8 + at_to, rows, columns);
    }
    return true;
}

/* One memcpy between plain tensors, a transpose between plain and channels-last,
 * else the general loop. */
void qg_tensor_copy(const qg_tensor *from, qg_tensor *to)
{
    int64_t count = qg_tensor_count(from);
    size_t bytes = 0;
    assert(from->dtype == to->dtype && qg_same_dims(from, to) && count >= 0);
    if (count == 0)
        return;
    if (qg_tensor_is_plain(from) && qg_tensor_is_plain(to)) {
        bool fits = qg_dtype_bytes(from->dtype, (uint64_t)count, &bytes);
        assert(fits);
        memcpy(to->data, from->data, fits ? bytes : 0);
        return;
    }
    assert(qg_dtype_bits(from->dtype) >= 8); /* packed types are always plain */
    if (!copy_between_layouts(from, to))
        copy_rows(from, to, count);
}

bool qg_same_dims(const qg_tensor *a, const qg_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 ||
            memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
}

/* Where element i of plain order lies, in elements. */
static int64_t offset_of(const qg_tensor *t, int64_t i)
{
    int64_t at = 0;
    assert(i >= 0 && t->data);
    for (int32_t k = t->rank - 1; k >= 0; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    assert(i == 0);
    return at;
}

/* Packed element `at` of `bits` bits, with its sign when there is one. */
static int64_t packed_i64(const qg_tensor *t, int64_t at, unsigned bits)
{
    uint64_t place = (uint64_t)at * bits;
    int64_t x = (t->u8[place / 8] >> place % 8) & ((1 << bits) - 1);
    bool negative = qg_dtype_kind_of(t->dtype) == QG_KIND_INT && x >> (bits - 1);
    return negative ? x - (1 << bits) : x;
}

int64_t qg_tensor_i64(const qg_tensor *t, int64_t i)
{
    int64_t at = offset_of(t, i);
    switch (t->dtype) {
    case QG_I64:
        return t->i64[at];
    case QG_I32:
        return t->i32[at];
    case QG_I16:
        return t->i16[at];
    case QG_I8:
        return t->i8[at];
    case QG_U64:
        return (int64_t)t->u64[at];
    case QG_U32:
        return t->u32[at];
    case QG_U16:
        return t->u16[at];
    case QG_U8:
        return t->u8[at];
    case QG_BOOL:
        return t->u8[at] != 0;
    default:
        assert(qg_dtype_kind_of(t->dtype) >= QG_KIND_INT);
        return packed_i64(t, at, qg_dtype_bits(t->dtype));
    }
}

double qg_tensor_f64(const qg_tensor *t, int64_t i)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(t->dtype);
    assert(kind != QG_KIND_NOTHING);
    int64_t at = offset_of(t, i);
    switch (t->dtype) {
    case QG_F32:
        return t->f32[at];
    case QG_F64:
        return t->f64[at];
    case QG_F16:
        return qg_f16_to_f32(t->u16[at]);
    case QG_BF16:
        return qg_bf16_to_f32(t->u16[at]);
    case QG_U64:
        return (double)t->u64[at];
    default:
        break;
    }
    if (kind != QG_KIND_FLOAT)
        return (double)qg_tensor_i64(t, i);
    unsigned bits = qg_dtype_bits(t->dtype);
    return qg_small_to_f32(t->dtype,
                           bits < 8 ? (uint8_t)packed_i64(t, at, bits) : t->u8[at]);
}

const char *qg_tensor_text(const qg_tensor *t, char text[QG_SHAPE_TEXT])
{
    static const char *const between[] = { "[", "," };
    size_t n = (size_t)snprintf(text, QG_SHAPE_TEXT, "%s",
                                t->dtype ? qg_dtype_name(t->dtype) : "?");
    for (int32_t k = 0; k < t->rank; k++) {
        n += (size_t)snprintf(text + n, QG_SHAPE_TEXT - n, "%s", between[k > 0]);
        n += t->dim[k] < 0 ? (size_t)snprintf(text + n, QG_SHAPE_TEXT - n, "?")
                           : (size_t)snprintf(text + n, QG_SHAPE_TEXT - n, "%lld",
                                              (long long)t->dim[k]);
    }
    assert(n + 2 < QG_SHAPE_TEXT); /* 8 dims of 19 digits and a type name fit */
    (void)snprintf(text + n, QG_SHAPE_TEXT - n, "%s",
                   t->rank < 0 ? "[...]"
                   : t->rank   ? "]"
                               : "[]");
    return text;
}
