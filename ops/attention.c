/* attention.c -- Attention: softmax(Q K' * scale + bias) V, per sample and head.
 *
 * Q [B, Hq, S, D] or packed [B, S, Hq D]; K, V likewise with Hkv heads, T' positions
 * and D, Dv columns.  past_key, past_value [B, Hkv, P, .] are prepended: T = P + T'.
 * Each key head serves Hq / Hkv query heads, consecutive heads.
 *
 * Bias     attn_mask (broadcast to [B, Hq, S, T] from the right; bool: visible keys; a
 *          shorter last dim hides the rest), is_causal (j <= i + offset), the sliding
 *          window (offset + i - left <= j <= offset + i + right), nonpad_kv_seqlen (j <
 *          length).  offset is P, or length - S, or 0.
 * Hidden   a query without visible keys gives 0, not NaN.
 * Types    computed in float32, including the softmax, whatever softmax_precision is.
 * Source: ONNX Attention-23, 24 (nonpad_kv_seqlen), 25 (window), and its reference.
 *
 * Slots    Q, K, V data; the mask is float that is never quantized; the cache is
 * data, so that a backend may keep it in 8 bits; lengths are indices.
 * Opsets   23 has no nonpad_kv_seqlen, 24 adds it, 25 adds the sliding window;
 *          attributes that an opset lacks are absent, and absent means off. */
#include "ops/families.h"

#include <math.h>

#include "engine/accel/accel.h"
#include "engine/number/vecmath.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { Y, PRESENT_KEY, PRESENT_VALUE, SCORES };
enum { RAW, CAPPED, BIASED, PROBABILITIES };

typedef struct attention_param {
    bool causal;
    float scale, cap; /* scale 0: 1 / sqrt(D); cap 0: none */
    int64_t q_heads, kv_heads, left, right, mode;
} attention_param;

/* The number of heads is checked with the shapes: unpacked operands need none. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    attention_param *p = param;
    QG_TRY(qg_attr_flag(ctx, node, "is_causal", false, &p->causal));
    QG_TRY(qg_attr_float(ctx, node, "scale", 0, &p->scale));
    QG_TRY(qg_attr_float(ctx, node, "softcap", 0, &p->cap));
    QG_TRY(qg_attr_int(ctx, node, "q_num_heads", 0, &p->q_heads));
    QG_TRY(qg_attr_int(ctx, node, "kv_num_heads", 0, &p->kv_heads));
    QG_TRY(qg_attr_int(ctx, node, "left_window_size", -1, &p->left));
    QG_TRY(qg_attr_int(ctx, node, "right_window_size", -1, &p->right));
    QG_TRY(qg_attr_int(ctx, node, "qk_matmul_output_mode", RAW, &p->mode));

    if (p->mode < RAW || p->mode > PROBABILITIES)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "qk_matmul_output_mode is %lld, expected 0 to 3",
                            (long long)p->mode);
    if (p->left < -1 || p->right < -1 || p->left > INT32_MAX || p->right > INT32_MAX)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "windows of %lld and %lld, expected -1 to 2147483647",
                            (long long)p->left, (long long)p->right);
    if (p->q_heads < 0 || p->kv_heads < 0 || p->q_heads > QG_MAX_HEADS ||
        p->kv_heads > QG_MAX_HEADS)
        return qg_node_fail(
            ctx, QG_EMODEL, "import", node, "%lld and %lld heads, expected 0 to %d",
            (long long)p->q_heads, (long long)p->kv_heads, (int)QG_MAX_HEADS);
    return QG_OK;
}

/* --- shapes -------------------------------------------------------------------- */

/* A packed or unpacked operand; -1: not known. */
typedef struct operand {
    int64_t batch, heads, length, size; /* size: columns per head */
} operand;

/* Splitting a packed operand [B, S, heads * size] requires the number of heads. */
static qg_status operand_of(const qg_call *k, size_t slot, int64_t heads, operand *o)
{
    const qg_tensor *t = k->in[slot];
    QG_TRY(qg_check_rank(k, slot, 3, 4));
    if (t->rank == 4) {
        *o = (operand){ t->dim[0], t->dim[1], t->dim[2], t->dim[3] };
        return QG_OK;
    }
    if (t->rank < 0) {
        *o = (operand){ -1, -1, -1, -1 };
        return QG_OK;
    }
    if (heads < 1 || (t->dim[2] >= 0 && t->dim[2] % heads))
        return qg_infer_fail(
            k, QG_EMODEL, "input %zu: %lld columns for %lld heads, expected a multiple",
            slot, (long long)t->dim[2], (long long)heads);
    *o = (operand){ t->dim[0], heads, t->dim[1],
                    t->dim[2] < 0 ? -1 : t->dim[2] / heads };
    return QG_OK;
}

typedef struct extents {
    operand q, k, v;
    int64_t past, total; /* positions in the cache; including the new positions */
} extents;

/* total is -1 while past or new length is not known. */
static qg_status extents_of(const qg_call *k, extents *e)
{
    const attention_param *p = k->param;
    QG_TRY(operand_of(k, Q, p->q_heads, &e->q));
    QG_TRY(operand_of(k, K, p->kv_heads, &e->k));
    QG_TRY(operand_of(k, V, p->kv_heads, &e->v));
    e->past = qg_in(k, PAST_KEY) ? qg_in_dim(k, PAST_KEY, 2) : 0;
    e->total = e->past < 0 || e->k.length < 0 ? -1 : e->past + e->k.length;
    return QG_OK;
}

/* Unknown extents match any extent. */
static bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

/* Both caches have the same length, the past, and the type of what is appended. */
static qg_status check_past(const qg_call *k, size_t slot, size_t fresh,
                            const operand *o)
{
    QG_TRY(qg_check_type(k, slot, UINT64_C(1) << k->in[fresh]->dtype));
    QG_TRY(qg_check_rank(k, slot, 4, 4));
    QG_TRY(qg_check_dim(k, slot, 0, o->batch));
    QG_TRY(qg_check_dim(k, slot, 1, o->heads));
    QG_TRY(qg_check_dim(k, slot, 2, qg_in_dim(k, PAST_KEY, 2)));
    return qg_check_dim(k, slot, 3, o->size);
}

/* The mask broadcasts to [B, Hq, S, T]; its last dim may be shorter. */
static qg_status check_mask(const qg_call *k, const extents *e)
{
    const qg_tensor *m = qg_in(k, MASK);
    int64_t full[] = { e->q.batch, e->q.heads, e->q.length, e->total };
    QG_TRY(qg_check_type(k, MASK, QG_DT_PLAIN));
    QG_TRY(qg_check_rank(k, MASK, 1, 4));
    for (int32_t i = 1; m && i <= m->rank; i++) {
        int64_t dim = m->dim[m->rank - i];
        bool shorter = i == 1 && dim <= full[3];
        if (dim != 1 && !shorter && differ(dim, full[4 - i]))
            return qg_infer_fail(
                k, QG_EMODEL, "mask dimension %d is %lld, expected 1 or %lld",
                (int)(m->rank - i), (long long)dim, (long long)full[4 - i]);
    }
    return QG_OK;
}

/* ONNX's constraints between operands. */
static qg_status check(const qg_call *k, const extents *e)
{
    if (differ(e->q.batch, e->k.batch) || differ(e->q.batch, e->v.batch) ||
        differ(e->k.heads, e->v.heads) || differ(e->k.length, e->v.length) ||
        differ(e->q.size, e->k.size))
        return qg_infer_fail(k, QG_EMODEL,
                             "Q, K and V disagree, expected equal batch, "
                             "key heads, key length and head size");
    if (e->k.heads == 0 ||
        (e->q.heads >= 0 && e->k.heads > 0 && e->q.heads % e->k.heads))
        return qg_infer_fail(k, QG_EMODEL,
                             "%lld query heads, expected a multiple of %lld key heads",
                             (long long)e->q.heads, (long long)e->k.heads);
    if (!qg_in(k, PAST_KEY) != !qg_in(k, PAST_VALUE))
        return qg_infer_fail(k, QG_EMODEL,
                             "past_key or past_value alone, expected both");
    QG_TRY(check_past(k, PAST_KEY, K, &e->k));
    QG_TRY(check_past(k, PAST_VALUE, V, &e->v));
    QG_TRY(qg_check_type(k, LENGTHS, QG_DT(I64)));
    QG_TRY(qg_check_vector(k, LENGTHS, e->q.batch));
    return check_mask(k, e);
}

/* Y is packed when Q is; the caches grow by the new positions. */
static qg_status infer(const qg_call *k)
{
    extents e;
    qg_dtype d = k->in[Q]->dtype, dv = k->in[V]->dtype;
    QG_TRY(qg_check_types(k, Q, V, QG_DT_FLOATS));
    QG_TRY(extents_of(k, &e));
    QG_TRY(check(k, &e));
    int64_t batch = e.q.batch, heads = e.q.heads, size = e.v.size;
    int64_t wide = heads < 0 || size < 0 ? -1 : heads * size;
    if (k->in[Q]->rank == 3)
        qg_set_out(k, Y, d, 3, (int64_t[]){ batch, e.q.length, wide });
    else
        qg_set_out(k, Y, d, k->in[Q]->rank < 0 ? -1 : 4,
                   (int64_t[]){ batch, heads, e.q.length, size });
    qg_set_out(k, PRESENT_KEY, d, 4,
               (int64_t[]){ batch, e.k.heads, e.total, e.k.size });
    qg_set_out(k, PRESENT_VALUE, dv, 4,
               (int64_t[]){ batch, e.v.heads, e.total, e.v.size });
    qg_set_out(k, SCORES, d, 4, (int64_t[]){ batch, heads, e.q.length, e.total });
    return QG_OK;
}

/* --- memory -------------------------------------------------------------------- */

/* Layout of the rows of (sample, head): n rows of `size`, `row` elements apart. */
typedef struct rows {
    float *at;
    int64_t batch, head, row;
} rows;

/* Packed: a row contains all heads.  Unpacked: each head has separate rows. */
static rows rows_of(const qg_tensor *t, const operand *o)
{
    int64_t wide = o->heads * o->size;
    if (t->rank == 3)
        return (rows){ t->f32, o->length * wide, o->size, wide };
    return (rows){ t->f32, o->length * wide, o->length * o->size, o->size };
}

/* Memory of an operand, its cache and their concatenation. */
typedef struct cached {
    size_t slot, past, present;
} cached;

/* Cache and new rows concatenated, in the output if it is used. */
static qg_status present(const qg_call *k, cached c, const operand *o, int64_t total,
                         rows *r)
{
    const qg_tensor *past = qg_in(k, c.past), *out = qg_out(k, c.present);
    rows from = rows_of(k->in[c.slot], o);
    if (!past && !out) {
        *r = from;
        return QG_OK;
    }
    int64_t n = o->batch * o->heads * total * o->size, before = total - o->length;
    float *to = out ? out->f32 : QG_NEWN(k->scratch, (size_t)n, float);
    if (!to)
        return qg_nomem(k->ctx);
    *r = (rows){ to, o->heads * total * o->size, total * o->size, o->size };
    for (int64_t i = 0; i < o->batch * o->heads; i++, to += total * o->size) {
        const float *x = from.at + i / o->heads * from.batch + i % o->heads * from.head;
        if (past && before)
            memcpy(to, past->f32 + i * before * o->size,
                   (size_t)(before * o->size) * sizeof *to);
        for (int64_t j = 0; j < o->length; j++)
            memcpy(to + (before + j) * o->size, x + j * from.row,
                   (size_t)o->size * sizeof *to);
    }
    return QG_OK;
}

/* --- bias ---------------------------------------------------------------------- */

typedef struct mask {
    const qg_tensor *t; /* float32 or bool; NULL: none */
    int64_t stride[4];  /* 0: broadcast */
    int64_t length;     /* of its last dim; further keys are hidden */
} mask;

/* Strides from the right, 0 where the mask is broadcast. */
static qg_status mask_of(const qg_call *k, int64_t total, mask *m)
{
    const qg_tensor *t = qg_in(k, MASK);
    *m = (mask){ .length = total };
    if (!t)
        return QG_OK;
    if (t->dtype != QG_BOOL)
        QG_TRY(qg_cast_view(k->ctx, k->scratch, t, QG_F32, &t));
    m->t = t;
    for (int32_t i = 1; i <= t->rank; i++)
        m->stride[4 - i] = t->dim[t->rank - i] == 1 ? 0 : t->stride[t->rank - i];
    int64_t last = t->dim[t->rank - 1];
    if (last != 1 || total == 1)
        m->length = last;
    return QG_OK;
}

/* Minus infinity hides a key; a bool mask is true for visible keys. */
static float mask_at(const mask *m, int64_t offset, int64_t j)
{
    if (j >= m->length)
        return -INFINITY;
    if (!m->t)
        return 0;
    int64_t at = offset + j * m->stride[3];
    if (m->t->dtype == QG_BOOL)
        return m->t->u8[at] ? 0 : -INFINITY;
    return m->t->f32[at];
}

/* One query row. */
typedef struct query {
    const attention_param *p;
    const mask *mask;
    int64_t mask_offset, position, valid, total;
} query;

/* The bias of key j. */
static float bias_at(const query *q, int64_t j)
{
    const attention_param *p = q->p;
    if (j >= q->valid || (p->causal && j > q->position) ||
        (p->left >= 0 && j < q->position - p->left) ||
        (p->right >= 0 && j > q->position + p->right))
        return -INFINITY;
    return mask_at(q->mask, q->mask_offset, j);
}

/* --- running ------------------------------------------------------------------- */

/* Output 3 receives the stage selected by qk_matmul_output_mode instead of the
 * scores. */
static void keep(const attention_param *p, int stage, const float *row, float *out,
                 int64_t n)
{
    if (out && p->mode == stage)
        memcpy(out, row, (size_t)n * sizeof *out);
}

/* Converts the products of one query to probabilities; `out` (or NULL) receives the
 * stage selected by mode. */
static void attend_row(const query *q, float *row, float *out)
{
    const attention_param *p = q->p;
    int64_t n = q->total;
    float most = -INFINITY, sum = 0, seen = -INFINITY;
    keep(p, RAW, row, out, n);
    for (int64_t j = 0; p->cap > 0 && j < n; j++)
        row[j] = p->cap * qg_tanh_f32(row[j] / p->cap);
    keep(p, CAPPED, row, out, n);
    for (int64_t j = 0; j < n; j++) {
        float bias = bias_at(q, j);
        row[j] += bias;
        seen = fmaxf(seen, bias);
        most = fmaxf(most, row[j]);
    }
    keep(p, BIASED, row, out, n);
    bool hidden = seen == -INFINITY || most == -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        row[j] = hidden ? 0 : qg_exp_f32(row[j] - most);
        sum += row[j];
    }
    for (int64_t j = 0; j < n && !hidden; j++)
        row[j] /= sum;
    keep(p, PROBABILITIES, row, out, n);
}

/* Data shared by all heads. */
typedef struct job {
    const attention_param *p;
    extents e;
    rows q, k, v, y;
    mask mask;
    float *scores, *out; /* [S][T] scratch; output 3 or NULL */
    double scale;
} job;

/* A length beyond the cache means the whole cache: data must not cause accesses
 * outside. */
static int64_t clamped_length(const qg_call *k, const job *a, int64_t b)
{
    const qg_tensor *t = qg_in(k, LENGTHS);
    int64_t n = t ? t->i64[b] : a->e.total;
    return n < 0 ? 0 : n < a->e.total ? n : a->e.total;
}

/* One matrix product for the scores, one for the values, rows of softmax between. */
static void attend_head(const qg_call *k, const job *a, int64_t b, int64_t h)
{
    const extents *e = &a->e;
    int64_t kv = h / (e->q.heads / e->k.heads), s = e->q.length, t = e->total;
    int64_t valid = clamped_length(k, a, b);
    int64_t offset = qg_in(k, PAST_KEY) ? e->past : qg_in(k, LENGTHS) ? valid - s : 0;
    qg_gemm_problem qk = qg_gemm_dense(s, t, e->q.size, true);
    qk.lda = a->q.row;
    qk.ldb = a->k.row;
    qk.alpha = a->scale;
    qg_ref_gemm_f32(&qk, a->q.at + b * a->q.batch + h * a->q.head,
                    a->k.at + b * a->k.batch + kv * a->k.head, a->scores);
    for (int64_t i = 0; i < s; i++) {
        const int64_t *stride = a->mask.stride;
        query q = { a->p,       &a->mask, b * stride[0] + h * stride[1] + i * stride[2],
                    i + offset, valid,    t };
        attend_row(&q, a->scores + i * t,
                   a->out ? a->out + ((b * e->q.heads + h) * s + i) * t : NULL);
    }
    qg_gemm_problem pv = qg_gemm_dense(s, e->v.size, t, false);
    pv.ldb = a->v.row;
    pv.ldc = a->y.row;
    qg_ref_gemm_f32(&pv, a->scores, a->v.at + b * a->v.batch + kv * a->v.head,
                    a->y.at + b * a->y.batch + h * a->y.head);
}

/* Scores of one head at a time: scratch is S x T, not heads x S x T. */
static qg_status attend(const qg_call *k)
{
    job a = { .p = k->param };
    extents *e = &a.e;
    QG_TRY(extents_of(k, e));
    QG_TRY(present(k, (cached){ K, PAST_KEY, PRESENT_KEY }, &e->k, e->total, &a.k));
    QG_TRY(present(k, (cached){ V, PAST_VALUE, PRESENT_VALUE }, &e->v, e->total, &a.v));
    QG_TRY(mask_of(k, e->total, &a.mask));
    operand y = { e->q.batch, e->q.heads, e->q.length, e->v.size };
    a.q = rows_of(k->in[Q], &e->q);
    a.y = rows_of(k->out[Y], &y);
    a.out = qg_out(k, SCORES) ? k->out[SCORES]->f32 : NULL;
    a.scale = a.p->scale != 0 ? (double)a.p->scale
                              : 1 / sqrt((double)(e->q.size ? e->q.size : 1));
    if (e->q.length && (size_t)e->total > SIZE_MAX / 8 / (size_t)e->q.length)
        return qg_nomem(k->ctx);
    a.scores = QG_NEWN(k->scratch, (size_t)(e->q.length * e->total), float);
    if (!a.scores)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < e->q.batch * e->q.heads; i++)
        attend_head(k, &a, i / e->q.heads, i % e->q.heads);
    return QG_OK;
}

static qg_status run(const qg_call *k) { return qg_run_f32(k, attend); }

#define ROW(opset, inputs)                                                             \
    {                                                                                  \
        .name = "Attention", .since = (opset), .min_in = 3, .max_in = (inputs),        \
        .min_out = 1, .max_out = 4, .in_roles = "dddfdds",                             \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(attention_param), .prepare = prepare, .infer = infer,     \
        .run = run                                                                     \
    }
/* clang-format off */
const qg_op qg_ops_attention[] = {
    ROW(23, 6),
    ROW(24, 7),
    ROW(25, 7),
    { 0 },
};
/* clang-format on */
