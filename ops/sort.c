/* sort.c -- TopK and Unique.
 *
 * Elements are ordered by keys: 64-bit unsigned integers that compare like the
 * elements, for every type; -0 equals 0, and every NaN is the largest.  Equal elements
 * are ordered by index.  Source: the ONNX operator page of the same name.
 *
 * TopK-1 (k attribute), 10 (k input), 11 (smallest too), 24; Unique-11.  Outputs of
 * indices are 's'; values pass through unchanged. */
#include "ops/families.h"

#include <assert.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

static const uint64_t TOP = UINT64_C(1) << 63;

/* The order of IEEE numbers as integers: flip all bits of negatives, the sign of
 * others. */
static uint64_t key_of_double(double x)
{
    uint64_t bits;
    if (x != x)
        return UINT64_MAX;
    x = x == 0 ? 0 : x; /* -0 */
    memcpy(&bits, &x, sizeof bits);
    return bits & TOP ? ~bits : bits | TOP;
}

static uint64_t key_of_signed(int64_t x) { return TOP + (uint64_t)x; }
static uint64_t key_of_unsigned(uint64_t x) { return x; }
static uint64_t key_of_bool(uint8_t x) { return x != 0; }

/* key[i] for elements first, first + step, ... of t.  16-bit floats are converted
 * first. */
static void read_keys(const qg_tensor *t, int64_t first, int64_t step, int64_t n,
                      uint64_t *key)
{
#define KEYS(id, member, key_of)                                                       \
    case QG_##id:                                                                      \
        for (int64_t i = 0; i < n; i++)                                                \
            key[i] = key_of(t->member[first + i * step]);                              \
        break;
    switch (t->dtype) {
        KEYS(I8, i8, key_of_signed)
        KEYS(I16, i16, key_of_signed)
        KEYS(I32, i32, key_of_signed)
        KEYS(I64, i64, key_of_signed)
        KEYS(U8, u8, key_of_unsigned)
        KEYS(U16, u16, key_of_unsigned)
        KEYS(U32, u32, key_of_unsigned)
        KEYS(U64, u64, key_of_unsigned)
        KEYS(BOOL, u8, key_of_bool)
        KEYS(F32, f32, key_of_double)
        KEYS(F64, f64, key_of_double)
    default:
        assert(!"a type without keys");
    }
#undef KEYS
}

/* A heap of the k first elements in the requested order, the last of these at the
 * top. */
typedef struct heap {
    const uint64_t *key;
    uint64_t flip; /* UINT64_MAX: largest first; 0: smallest first */
    int64_t *at;   /* [n] indices of elements */
    int64_t n;
} heap;

/* Element a comes before element b in the result. */
static bool before(const heap *h, int64_t a, int64_t b)
{
    const uint64_t x = h->key[a] ^ h->flip, y = h->key[b] ^ h->flip;
    return x < y || (x == y && a < b);
}

/* Restores the heap; O(log n). */
static void sift_down(heap *h, int64_t i)
{
    for (;;) {
        int64_t last = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->n; child++)
            if (before(h, h->at[last], h->at[child]))
                last = child;
        if (last == i)
            return;
        const int64_t swap = h->at[i];
        h->at[i] = h->at[last];
        h->at[last] = swap;
        i = last;
    }
}

/* h->at[0..k) = the k first of n elements, in order. */
static void select_first(heap *h, int64_t n, int64_t k)
{
    h->n = k;
    for (int64_t i = 0; i < k; i++)
        h->at[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift_down(h, i);
    for (int64_t i = k; i < n && k > 0; i++)
        if (before(h, i, h->at[0])) {
            h->at[0] = i;
            sift_down(h, 0);
        }
    for (; h->n > 1;) {
        const int64_t swap = h->at[0];
        h->at[0] = h->at[--h->n];
        h->at[h->n] = swap;
        sift_down(h, 0);
    }
}

/* TopK: k is an attribute at opset 1, input 1 since 10. */
typedef struct topk_param {
    int64_t axis, k, largest;
} topk_param;

static qg_status topk_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    topk_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "axis", -1, &p->axis));
    QG_TRY(qg_attr_int(ctx, n, "largest", 1, &p->largest));
    return qg_attr_int(ctx, n, "k", -1, &p->k);
}

/* k may not exceed the axis where both are known. */
static qg_status topk_infer(const qg_call *k)
{
    const topk_param *p = k->param;
    const qg_tensor *x = k->in[0], *given = qg_in(k, 1);
    qg_tensor y = *x;
    int32_t axis;
    int64_t count = p->k;
    QG_TRY(qg_check_type(k, 0, QG_DT_NUMBERS));
    QG_TRY(qg_check_type(k, 1, QG_DT(I64)));
    if (given)
        count = -1;
    if (given && given->data) {
        if (qg_tensor_count(given) != 1)
            return qg_infer_fail(k, QG_EMODEL, "k has %lld values, expected 1",
                                 (long long)qg_tensor_count(given));
        count = given->i64[0];
    }
    if (x->rank >= 0) {
        QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
        if ((count < 0 && !(given && !given->data)) ||
            (x->dim[axis] >= 0 && count > x->dim[axis]))
            return qg_infer_fail(k, QG_EMODEL, "k is %lld of %lld elements",
                                 (long long)count, (long long)x->dim[axis]);
        y.dim[axis] = count;
    }
    qg_set_out(k, 0, x->dtype, x->rank, y.dim);
    qg_set_out(k, 1, QG_I64, x->rank, y.dim);
    return QG_OK;
}

/* A heap of k per line: O(n log k). */
static qg_status topk_run(const qg_call *k)
{
    const topk_param *p = k->param;
    const qg_tensor *x = k->in[0];
    qg_tensor *values = qg_out(k, 0), *indices = qg_out(k, 1);
    int32_t axis;
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, topk_run);
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    const qg_around a = qg_around_axis(x, axis);
    const int64_t count = (values ? values : indices)->dim[axis];
    const size_t size = qg_element_size(x->dtype);
    uint64_t *key = qg_arena_raw(k->scratch, (size_t)a.middle, sizeof *key);
    int64_t *at = qg_arena_raw(k->scratch, (size_t)count, sizeof *at);
    if (!key || !at)
        return qg_nomem(k->ctx);
    heap h = { key, p->largest ? UINT64_MAX : 0, at, 0 };
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            const int64_t first = o * a.middle * a.inner + i;
            read_keys(x, first, a.inner, a.middle, key);
            select_first(&h, a.middle, count);
            for (int64_t j = 0; j < count; j++) {
                const int64_t to = (o * count + j) * a.inner + i;
                if (indices)
                    indices->i64[to] = at[j];
                if (values)
                    memcpy((char *)values->data + (size_t)to * size,
                           (const char *)x->data +
                               (size_t)(first + at[j] * a.inner) * size,
                           size);
            }
        }
    return QG_OK;
}

/* Unique: of the elements, or of the slices along an axis. */
typedef struct unique_param {
    bool flat;
    int64_t axis, sorted;
} unique_param;

/* Without axis the elements are taken flat. */
static qg_status unique_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    unique_param *p = param;
    p->flat = !qg_attr_has(n, "axis");
    QG_TRY(qg_attr_int(ctx, n, "axis", 0, &p->axis));
    return qg_attr_int(ctx, n, "sorted", 1, &p->sorted);
}

/* Slices to be compared: slice i has `width` keys at key + i * width. */
typedef struct slices {
    uint64_t *key;
    int64_t n, width;
    qg_around around;
    int64_t *order; /* [n] slice numbers, sorted; equal ones by number */
    int64_t *group; /* [n] number of the distinct slice that slice i equals */
    int64_t *first; /* [n_group] its first occurrence */
    int64_t n_group;
} slices;

/* Lexicographic over the keys. */
static int compare_slices(const slices *s, int64_t a, int64_t b)
{
    const uint64_t *x = s->key + a * s->width, *y = s->key + b * s->width;
    for (int64_t i = 0; i < s->width; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Merges the sorted halves [a, m) and [m, b) of `from` into `to`. */
static void merge(const slices *s, const int64_t *from, int64_t *to,
                  const int64_t cut[3])
{
    int64_t i = cut[0], j = cut[1];
    for (int64_t n = cut[0]; n < cut[2]; n++) {
        const bool left =
            j == cut[2] || (i < cut[1] && compare_slices(s, from[i], from[j]) <= 0);
        to[n] = left ? from[i++] : from[j++];
    }
}

/* Sorts s->order, stable, bottom up. */
static void sort_slices(slices *s, int64_t *spare)
{
    int64_t *from = s->order, *to = spare;
    for (int64_t i = 0; i < s->n; i++)
        from[i] = i;
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t a = 0; a < s->n; a += 2 * width) {
            const int64_t m = a + width < s->n ? a + width : s->n;
            const int64_t b = a + 2 * width < s->n ? a + 2 * width : s->n;
            merge(s, from, to, (const int64_t[3]){ a, m, b });
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    s->order = from;
}

/* Keys of every slice side by side, whatever the axis. */
static qg_status make_slices(const qg_call *k, slices *s)
{
    const unique_param *p = k->param;
    const qg_tensor *x;
    int32_t axis;
    QG_TRY(qg_cast_view(
        k->ctx, k->scratch, k->in[0],
        QG_DT_HAS(QG_DT_HALVES, k->in[0]->dtype) ? QG_F32 : k->in[0]->dtype, &x));
    s->around = (qg_around){ 1, (int64_t)qg_elements(x), 1 };
    if (!p->flat) {
        QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
        s->around = qg_around_axis(x, axis);
    }
    const qg_around *a = &s->around;
    s->n = a->middle;
    s->width = a->outer * a->inner;
    s->key = qg_arena_raw(k->scratch, qg_elements(x), sizeof *s->key);
    if (!s->key)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t o = 0; o < a->outer; o++)
            read_keys(x, (o * a->middle + i) * a->inner, 1, a->inner,
                      s->key + i * s->width + o * a->inner);
    return QG_OK;
}

/* Numbers the distinct slices: in sorted order, or by first occurrence. */
static void number_groups(slices *s, bool sorted, int64_t *renumber)
{
    for (int64_t i = 0; i < s->n; i++) {
        const bool fresh =
            i == 0 || compare_slices(s, s->order[i - 1], s->order[i]) != 0;
        if (fresh) /* the sort is stable: the first of equals has the lowest number */
            s->first[s->n_group++] = s->order[i];
        s->group[s->order[i]] = s->n_group - 1;
    }
    if (sorted)
        return;
    int64_t next = 0;
    for (int64_t g = 0; g < s->n_group; g++)
        renumber[g] = -1;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t *number = &renumber[s->group[i]];
        if (*number < 0) {
            *number = next;
            s->first[next++] = i;
        }
        s->group[i] = *number;
    }
}

/* One block of scratch for order, spare, group and first. */
static qg_status find_unique(const qg_call *k, slices *s)
{
    const unique_param *p = k->param;
    *s = (slices){ 0 };
    QG_TRY(make_slices(k, s));
    int64_t *room = qg_arena_raw(k->scratch, (size_t)s->n * 4, sizeof *room);
    if (!room)
        return qg_nomem(k->ctx);
    s->order = room;
    s->group = room + 2 * s->n;
    s->first = room + 3 * s->n;
    sort_slices(s, room + s->n);
    int64_t *spare = s->order == room ? room + s->n : room;
    number_groups(s, p->sorted != 0, spare);
    return QG_OK;
}

/* The number of distinct slices depends on the data. */
static qg_status unique_infer(const qg_call *k)
{
    const unique_param *p = k->param;
    const qg_tensor *x = k->in[0];
    qg_tensor y = *x;
    int64_t count = -1, total = -1;
    int32_t axis = 0;
    slices s;
    QG_TRY(qg_check_type(k, 0, QG_DT_PLAIN));
    if (!p->flat && x->rank >= 0)
        QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    if (x->data && qg_tensor_known(x)) {
        QG_TRY(find_unique(k, &s));
        count = s.n_group;
        total = s.n;
    }
    if (p->flat) {
        qg_set_out(k, 0, x->dtype, 1, &count);
    } else {
        if (x->rank >= 0)
            y.dim[axis] = count;
        qg_set_out(k, 0, x->dtype, x->rank, y.dim);
    }
    qg_set_out(k, 1, QG_I64, 1, &count);
    qg_set_out(k, 2, QG_I64, 1, &total);
    qg_set_out(k, 3, QG_I64, 1, &count);
    return QG_OK;
}

/* Unused outputs are skipped. */
static qg_status unique_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor *y = qg_out(k, 0), *first = qg_out(k, 1), *inverse = qg_out(k, 2);
    qg_tensor *counts = qg_out(k, 3);
    slices s;
    QG_TRY(find_unique(k, &s));
    const size_t bytes = (size_t)s.around.inner * qg_element_size(x->dtype);
    for (int64_t o = 0; o < s.around.outer && y && bytes; o++)
        for (int64_t g = 0; g < s.n_group; g++)
            memcpy((char *)y->data + (size_t)(o * s.n_group + g) * bytes,
                   (const char *)x->data + (size_t)(o * s.n + s.first[g]) * bytes,
                   bytes);
    for (int64_t g = 0; g < s.n_group; g++) {
        if (first)
            first->i64[g] = s.first[g];
        if (counts)
            counts->i64[g] = 0;
    }
    for (int64_t i = 0; i < s.n; i++) {
        if (inverse)
            inverse->i64[i] = s.group[i];
        if (counts)
            counts->i64[s.group[i]]++;
    }
    return QG_OK;
}

#define ROWTOPK(first, last, inputs)                                                   \
    {                                                                                  \
        .name = "TopK", .since = first, .until = last, .min_in = inputs,               \
        .max_in = inputs, .min_out = 2, .max_out = 2, .in_roles = "ds",                \
        .out_roles = "ds", .traits = QG_OP_PURE, .param_size = sizeof(topk_param),     \
        .prepare = topk_prepare, .infer = topk_infer, .run = topk_run                  \
    }

const qg_op qg_ops_sort[] = {
    ROWTOPK(1, 9, 1),
    ROWTOPK(10, 0, 2),
    {.name = "Unique",
                .since = 11,
                .min_in = 1,
                .max_in = 1,
                .min_out = 1,
                .max_out = 4,
                .in_roles = "d",
                .out_roles = "ds",
                .traits = QG_OP_PURE,
                .param_size = sizeof(unique_param),
                .prepare = unique_prepare,
                .infer = unique_infer,
                .run = unique_run },
    { 0     },
};
