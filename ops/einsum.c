/* einsum.c -- Einsum: sums of products over named indices, "bij,bjk->bik".
 *
 * Operands are contracted from the left, two at a time: indices of both operands that
 * are not needed later are summed by a matrix product, the others are its batch, row or
 * column indices.  Indices of a single operand that are not needed elsewhere are summed
 * first.
 *
 *     equation   letters name dims, one list per operand; a letter that occurs twice in
 *                a list means the diagonal; "..." means any dims, broadcast from the
 *                right; without "->" the output has the ellipsis and then, in ASCII
 *                order, all letters that occur once
 * Types    float16 and bfloat16 in float32, integers modulo 2^bits.
 * Source: ONNX Einsum-12, 28 (numpy.einsum). */
#include "ops/families.h"

#include "engine/accel/accel.h"
#include "engine/core/num.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"

enum {
    LETTERS = 52,
    INDICES = LETTERS + QG_MAX_RANK, /* the last are those of the ellipsis */
    MAX_TERM = QG_WALK_RANK,         /* indices of one operand or intermediate */
    MAX_OPERANDS = 32
};
#define TYPES (QG_DT_FLOATS | QG_DT_INTS)

/* A list of indices as written; `ellipsis` is its position, -1: none. */
typedef struct term {
    int n, ellipsis;
    uint8_t index[QG_MAX_RANK];
} term;

typedef struct einsum_param {
    size_t n;
    term in[MAX_OPERANDS], out;
} einsum_param;

/* --- the equation -------------------------------------------------------------- */

/* The index of a letter; -1: none. */
static int letter(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static qg_status malformed(qg_ctx *ctx, const qg_node *node, const char *text,
                           const char *expected)
{
    return qg_node_fail(ctx, QG_EMODEL, "import", node, "equation '%.60s', expected %s",
                        text, expected);
}

/* Reads one list up to ',' or "->" or the end. */
static qg_status read_term(qg_ctx *ctx, const qg_node *node, const char *text,
                           const char **at, term *t)
{
    *t = (term){ .ellipsis = -1 };
    for (const char *c = *at;; c++) {
        *at = c;
        if (!*c || *c == ',' || *c == '-')
            return QG_OK;
        if (*c == ' ')
            continue;
        if (strncmp(c, "...", 3) == 0 && t->ellipsis < 0) {
            t->ellipsis = t->n;
            c += 2;
            continue;
        }
        if (letter(*c) < 0)
            return malformed(ctx, node, text,
                             "letters, ',', '->' and one '...' a term");
        if (t->n == QG_MAX_RANK)
            return malformed(ctx, node, text, "at most 8 indices a term");
        t->index[t->n++] = (uint8_t)letter(*c);
    }
}

/* Occurrences of each letter in the operands. */
static void count_letters(const einsum_param *p, int count[LETTERS])
{
    memset(count, 0, LETTERS * sizeof *count);
    for (size_t i = 0; i < p->n; i++)
        for (int j = 0; j < p->in[i].n; j++)
            count[p->in[i].index[j]]++;
}

/* Letters that occur once, in ASCII order, after the ellipsis. */
static qg_status implied_output(qg_ctx *ctx, const qg_node *node, const char *text,
                                einsum_param *p)
{
    int count[LETTERS];
    p->out = (term){ .ellipsis = 0 };
    count_letters(p, count);
    for (int i = 0; i < LETTERS; i++) {
        if (count[i] != 1)
            continue;
        if (p->out.n == QG_MAX_RANK)
            return malformed(ctx, node, text, "at most 8 indices in the output");
        p->out.index[p->out.n++] = (uint8_t)i;
    }
    return QG_OK;
}

/* An output index must occur in some operand, and once in the output. */
static qg_status check_output(qg_ctx *ctx, const qg_node *node, const char *text,
                              const einsum_param *p)
{
    int count[LETTERS];
    count_letters(p, count);
    for (int i = 0; i < p->out.n; i++) {
        int *c = &count[p->out.index[i]];
        if (*c <= 0)
            return malformed(ctx, node, text,
                             "output indices that occur once there and in an input");
        *c = -1;
    }
    return QG_OK;
}

/* The equation is read once; shapes are matched against it later. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    einsum_param *p = param;
    const char *text, *at;
    QG_TRY(qg_attr_string(ctx, node, "equation", "", &text));
    for (at = text;; at++) {
        if (p->n == MAX_OPERANDS)
            return malformed(ctx, node, text, "at most 32 operands");
        QG_TRY(read_term(ctx, node, text, &at, &p->in[p->n++]));
        if (*at != ',')
            break;
    }
    if (p->n != node->n_in)
        return malformed(ctx, node, text, "one term per input");
    if (!*at)
        return implied_output(ctx, node, text, p);
    if (at[1] != '>')
        return malformed(ctx, node, text, "'->'");
    at += 2;
    QG_TRY(read_term(ctx, node, text, &at, &p->out));
    return *at ? malformed(ctx, node, text, "the end")
               : check_output(ctx, node, text, p);
}

/* --- extents ------------------------------------------------------------------- */

/* A tensor with named dims; stride 0: broadcast. */
typedef struct view {
    int n;
    uint8_t index[MAX_TERM];
    int64_t stride[MAX_TERM];
    const void *data;
} view;

/* The indices of a term on a tensor of this rank, with the ellipsis expanded. */
static int spell_out(const term *t, int32_t rank, uint8_t index[QG_MAX_RANK])
{
    int extra = rank - t->n, n = 0;
    for (int i = 0; i <= t->n; i++) {
        for (int j = 0; i == t->ellipsis && j < extra; j++)
            index[n++] = (uint8_t)(INDICES - extra + j);
        if (i < t->n)
            index[n++] = t->index[i];
    }
    return n;
}

/* Extents of all indices (0: not used, -1: not known); *extra: dims of the ellipsis. */
static qg_status extents_of(const qg_call *k, int64_t extent[INDICES], int *extra)
{
    const einsum_param *p = k->param;
    uint8_t index[QG_MAX_RANK];
    bool used[INDICES] = { false };
    *extra = 0;
    for (size_t i = 0; i < p->n; i++) {
        const qg_tensor *x = k->in[i];
        const term *t = &p->in[i];
        if (x->rank < t->n || (t->ellipsis < 0 && x->rank > t->n))
            return qg_infer_fail(k, QG_EMODEL, "input %zu has rank %d, expected %s%d",
                                 i, (int)x->rank, t->ellipsis < 0 ? "" : "at least ",
                                 t->n);
        if (x->rank - t->n > *extra)
            *extra = x->rank - t->n;
        int n = spell_out(t, x->rank, index);
        for (int j = 0; j < n; j++) {
            int64_t *e = &extent[index[j]], d = x->dim[j];
            if (used[index[j]] && *e != d && *e != 1 && d != 1 && *e >= 0 && d >= 0)
                return qg_infer_fail(k, QG_EMODEL,
                                     "input %zu: dimension %d is %lld, expected %lld",
                                     i, j, (long long)d, (long long)*e);
            if (!used[index[j]] || *e == 1 || (*e < 0 && d > 1))
                *e = d;
            used[index[j]] = true;
        }
    }
    return QG_OK;
}

/* With unknown ranks the ellipsis and the output rank are unknown. */
static qg_status infer(const qg_call *k)
{
    const einsum_param *p = k->param;
    int64_t extent[INDICES] = { 0 }, dim[2 * QG_MAX_RANK];
    uint8_t index[2 * QG_MAX_RANK];
    int extra, n;
    QG_TRY(qg_check_type(k, 0, TYPES));
    QG_TRY(qg_check_same_type(k, 1, p->n));
    for (size_t i = 0; i < p->n; i++)
        if (k->in[i]->rank < 0)
            return qg_infer_dims(k, k->in[0]->dtype, -1, NULL);
    QG_TRY(extents_of(k, extent, &extra));
    int rank = p->out.n + (p->out.ellipsis >= 0 ? extra : 0);
    if (rank > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED, "output rank %d, supported up to %d",
                             rank, (int)QG_MAX_RANK);
    n = spell_out(&p->out, rank, index);
    for (int i = 0; i < n; i++)
        dim[i] = extent[index[i]];
    return qg_infer_dims(k, k->in[0]->dtype, rank, dim);
}

/* --- running ------------------------------------------------------------------- */

typedef struct job {
    const qg_call *call;
    qg_dtype dtype; /* F32, F64 or I64 */
    int64_t extent[INDICES];
} job;

/* Whether the view has the index. */
static bool holds(const view *v, uint8_t index)
{
    return memchr(v->index, index, (size_t)v->n) != NULL;
}

/* A letter that occurs twice adds its strides: the diagonal. */
static view view_of(const job *a, const term *t, const qg_tensor *x)
{
    uint8_t index[QG_MAX_RANK];
    view v = { .data = x->data };
    int n = spell_out(t, x->rank, index);
    for (int j = 0; j < n; j++) {
        int at = 0;
        while (at < v.n && v.index[at] != index[j])
            at++;
        if (at == v.n)
            v.index[v.n++] = index[j];
        if (x->dim[j] == a->extent[index[j]]) /* twice: the diagonal */
            v.stride[at] += x->stride[j];
    }
    return v;
}

#define ADD_ROW(type, sum)                                                             \
    for (int64_t i = 0; i < n; i++)                                                    \
    ((sum *)y)[at->offset[0] + i * w->stride[0][last]] +=                              \
        (sum)((const type *)x)[at->offset[1] + i * w->stride[1][last]]

static void add_row(qg_dtype d, const qg_walk *w, const qg_walk_at *at, void *y,
                    const void *x)
{
    int32_t last = w->rank - 1;
    int64_t n = w->dim[last];
    if (d == QG_F32)
        ADD_ROW(float, float);
    else if (d == QG_F64)
        ADD_ROW(double, double);
    else
        ADD_ROW(int64_t, uint64_t);
}
#undef ADD_ROW

static qg_status too_many(const qg_call *k)
{
    return qg_run_fail(k, QG_EUNSUPPORTED,
                       "an intermediate of more than %d indices, expected fewer",
                       (int)MAX_TERM);
}

/* v as a plain array with these indices in this order, all others summed.  `to` NULL:
 * new scratch memory; else zeroed memory of that size. */
static qg_status arrange(const job *a, const view *v, const uint8_t *index, int n,
                         void *to, view *out)
{
    const qg_call *k = a->call;
    int64_t dim[2 * MAX_TERM], from[2 * MAX_TERM] = { 0 }, into[2 * MAX_TERM] = { 0 };
    int64_t size = 1;
    int rank = n;
    *out = (view){ .n = n };
    for (int i = n - 1; i >= 0; i--) {
        dim[i] = a->extent[index[i]];
        into[i] = out->stride[i] = size;
        out->index[i] = index[i];
        if (!qg_mul_i64(size, dim[i], &size))
            return qg_nomem(k->ctx);
    }
    for (int j = 0; j < v->n; j++) {
        const uint8_t *found = memchr(index, v->index[j], (size_t)n);
        int at = found ? (int)(found - index) : rank++;
        if (!found && rank > MAX_TERM)
            return too_many(k);
        dim[at] = a->extent[v->index[j]];
        from[at] = v->stride[j];
    }
    out->data = to = to ? to : qg_arena_get(k->scratch, (size_t)size, 8);
    if (!to)
        return qg_nomem(k->ctx);
    qg_walk w;
    qg_walk_at at = { 0 };
    qg_walk_pair(&w, rank, dim, into, from);
    if (!qg_walk_empty(&w))
        do
            add_row(a->dtype, &w, &at, to, v->data);
        while (qg_walk_next(&w, &at));
    return QG_OK;
}

/* Role of each index of two operands in the matrix product. */
typedef struct split {
    int n_batch, n_row, n_column, n_sum;
    uint8_t batch[MAX_TERM], row[MAX_TERM], column[MAX_TERM], sum[MAX_TERM];
} split;

/* Which indices of two operands are batch, row, column or summed. */
static split split_of(const view *x, const view *y, const bool needed[INDICES])
{
    split s = { 0 };
    for (int i = 0; i < x->n; i++) {
        uint8_t c = x->index[i];
        if (holds(y, c) && needed[c])
            s.batch[s.n_batch++] = c;
        else if (holds(y, c))
            s.sum[s.n_sum++] = c;
        else if (needed[c])
            s.row[s.n_row++] = c;
    }
    for (int i = 0; i < y->n; i++)
        if (!holds(x, y->index[i]) && needed[y->index[i]])
            s.column[s.n_column++] = y->index[i];
    return s;
}

/* The new length of the list. */
static int append(uint8_t *list, int n, const uint8_t *more, int n_more)
{
    memcpy(list + n, more, (size_t)n_more);
    return n + n_more;
}

/* Extents were checked together: the product fits the allocation. */
static int64_t volume(const job *a, const uint8_t *index, int n)
{
    int64_t v = 1;
    for (int i = 0; i < n; i++)
        v *= a->extent[index[i]];
    return v;
}

/* One gemm per batch entry, all operands dense. */
static void multiply(const job *a, const qg_gemm_problem *g, int64_t batch,
                     const void *x, const void *y, void *z)
{
    int64_t m = g->m * g->k, n = g->k * g->n, o = g->m * g->n;
    for (int64_t i = 0; i < batch; i++)
        if (a->dtype == QG_F32)
            qg_ref_gemm_f32(g, (const float *)x + i * m, (const float *)y + i * n,
                            (float *)z + i * o);
        else if (a->dtype == QG_F64)
            qg_ref_gemm_f64(g, (const double *)x + i * m, (const double *)y + i * n,
                            (double *)z + i * o);
        else
            qg_ref_gemm_i64(g, (const int64_t *)x + i * m, (const int64_t *)y + i * n,
                            (int64_t *)z + i * o);
}

/* Contracts x and y to one operand with the needed indices of both. */
static qg_status contract(const job *a, const view *x, const view *y,
                          const bool needed[INDICES], view *out)
{
    const qg_call *k = a->call;
    split s = split_of(x, y, needed);
    uint8_t left[3 * MAX_TERM], right[3 * MAX_TERM], both[3 * MAX_TERM];
    view l, r;
    int n = append(left, 0, s.batch, s.n_batch),
        m = append(right, 0, s.batch, s.n_batch);
    int o = append(both, 0, s.batch, s.n_batch);
    n = append(left, append(left, n, s.row, s.n_row), s.sum, s.n_sum);
    m = append(right, append(right, m, s.sum, s.n_sum), s.column, s.n_column);
    o = append(both, append(both, o, s.row, s.n_row), s.column, s.n_column);
    if (n > MAX_TERM || m > MAX_TERM || o > MAX_TERM)
        return too_many(k);
    QG_TRY(arrange(a, x, left, n, NULL, &l));
    QG_TRY(arrange(a, y, right, m, NULL, &r));
    qg_gemm_problem g =
        qg_gemm_dense(volume(a, s.row, s.n_row), volume(a, s.column, s.n_column),
                      volume(a, s.sum, s.n_sum), false);
    int64_t batch = volume(a, s.batch, s.n_batch), size;

    if (!qg_mul_i64(g.m, g.n, &size) || !qg_mul_i64(size, batch, &size))
        return qg_nomem(k->ctx);
    void *z = qg_arena_get(k->scratch, (size_t)size, 8);
    if (!z)
        return qg_nomem(k->ctx);
    multiply(a, &g, batch, l.data, r.data, z);
    *out = (view){ .n = o, .data = z };
    for (int i = o - 1, step = 1; i >= 0; i--) {
        out->index[i] = both[i];
        out->stride[i] =
            i == o - 1 ? step : out->stride[i + 1] * a->extent[both[i + 1]];
    }
    return QG_OK;
}

/* Indices of the output and of the operands from `first` on. */
static void needed_after(const job *a, size_t first, const uint8_t *out, int n_out,
                         bool needed[INDICES])
{
    const einsum_param *p = a->call->param;
    memset(needed, 0, INDICES * sizeof *needed);
    for (int i = 0; i < n_out; i++)
        needed[out[i]] = true;
    for (size_t i = first; i < p->n; i++) {
        view v = view_of(a, &p->in[i], a->call->in[i]);
        for (int j = 0; j < v.n; j++)
            needed[v.index[j]] = true;
    }
}

/* From the left: the order of ONNX's reference, not the cheapest one. */
static qg_status einsum(const qg_call *k)
{
    const einsum_param *p = k->param;
    job a = { .call = k, .dtype = k->in[0]->dtype };
    uint8_t out[QG_MAX_RANK];
    bool needed[INDICES];
    int extra;
    QG_TRY(extents_of(k, a.extent, &extra));
    int n_out = spell_out(&p->out, k->out[0]->rank, out);
    view so_far = view_of(&a, &p->in[0], k->in[0]), result;
    for (size_t i = 1; i < p->n; i++) {
        view next = view_of(&a, &p->in[i], k->in[i]);
        needed_after(&a, i + 1, out, n_out, needed);
        QG_TRY(contract(&a, &so_far, &next, needed, &result));
        so_far = result;
    }
    memset(k->out[0]->data, 0, qg_elements(k->out[0]) * qg_element_size(a.dtype));
    return arrange(&a, &so_far, out, n_out, k->out[0]->data, &result);
}

static qg_status einsum_whole(const qg_call *k)
{
    return qg_run_as(k, QG_DT_INTS, QG_I64, einsum);
}

static qg_status run(const qg_call *k)
{
    return qg_run_as(k, QG_DT(F16) | QG_DT(BF16), QG_F32, einsum_whole);
}

#define ROW(opset)                                                                     \
    {                                                                                  \
        .name = "Einsum", .since = (opset), .min_in = 1, .max_in = 255, .min_out = 1,  \
        .max_out = 1, .in_roles = "d", .traits = QG_OP_COMPUTE | QG_OP_PURE,           \
        .param_size = sizeof(einsum_param), .prepare = prepare, .infer = infer,        \
        .run = run                                                                     \
    }
/* clang-format off */
const qg_op qg_ops_einsum[] = { ROW(12), ROW(28), { 0 } };
/* clang-format on */
