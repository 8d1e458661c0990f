/* microsoft_attention.c -- Attention and MultiHeadAttention of domain com.microsoft:
 * softmax(Q K' * scale + masks) V per sample and head.
 *
 * Attention            input [B, S, in] times weights [in, Hq + Hk + Hv] plus bias
 *                      gives Q, K, V side by side; mask_index is [B]: the number of
 *                      keys that count, or [B, T] or [B, S, T]: 0 hides a key
 * MultiHeadAttention   query [B, S, H], key [B, T, H], value [B, T, Hv], bias of all
 *                      three in one vector; key_padding_mask as mask_index
 * Masks                a hidden key has mask_filter_value added to its score;
 *                      attention_bias [B or 1, N or 1, S, T] is added, too;
 *                      unidirectional hides the keys behind the query
 * Computed in float32.
 * Source: onnxruntime 1.31, page Contrib Operators, com.microsoft.Attention and
 * com.microsoft.MultiHeadAttention.
 * Refused: caches (past, present), packed operands, rotation, other outputs.
 *
 * Slots   data, weight, bias; masks and biases of scores are never quantized. */
#include "ops/families.h"

#include <math.h>

#include "engine/number/vecmath.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"

typedef struct heads_param {
    int64_t heads, sizes[3]; /* columns of Q, K, V together; 0: a third each */
    float scale, filter;     /* scale 0: 1 / sqrt(columns of a head) */
    bool causal, rotary;
} heads_param;

/* Attributes of both operators; those that one of them lacks are absent there.  Queries
 * and keys are multiplied, so that their sizes must be equal; that of the values is
 * free.  QG_EMODEL for numbers that contradict each other. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    heads_param *p = param;
    const qg_attr *sizes = qg_attr_find(node, "qkv_hidden_sizes");
    QG_TRY(qg_attr_int(ctx, node, "num_heads", 0, &p->heads));
    QG_TRY(qg_attr_float(ctx, node, "scale", 0, &p->scale));
    QG_TRY(qg_attr_float(ctx, node, "mask_filter_value", -10000, &p->filter));
    QG_TRY(qg_attr_flag(ctx, node, "unidirectional", false, &p->causal));
    QG_TRY(qg_attr_flag(ctx, node, "do_rotary", false, &p->rotary));
    if (p->heads < 1 || p->heads > QG_MAX_HEADS)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "num_heads is %lld, expected 1 to %d", (long long)p->heads,
                            (int)QG_MAX_HEADS);
    if (p->rotary)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "do_rotary is 1, expected 0");
    if (sizes && (sizes->type != QG_ATTR_INTS || sizes->count != 3))
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "qkv_hidden_sizes is no list of 3");
    for (size_t i = 0; sizes && i < 3; i++)
        p->sizes[i] = sizes->ints[i];
    if (sizes && (p->sizes[0] != p->sizes[1] || p->sizes[0] < 1 || p->sizes[2] < 1 ||
                  p->sizes[0] > QG_MAX_EXTENT || p->sizes[2] > QG_MAX_EXTENT ||
                  p->sizes[0] % p->heads || p->sizes[2] % p->heads))
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "qkv_hidden_sizes do not fit %lld heads",
                            (long long)p->heads);
    return QG_OK;
}

/* --- shapes -------------------------------------------------------------------- */

/* Slots of masks; the rest of the inputs is refused.  The mask is int32 of rank 1 to 3,
 * the bias of scores float of rank 4; either may be absent. */
static qg_status check_rest(const qg_call *k, size_t mask, size_t bias)
{
    for (size_t i = mask; i < k->n_in; i++)
        if (k->in[i] && i != mask && i != bias)
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "input %zu (a cache), expected none", i);
    for (size_t i = 1; i < k->n_out; i++)
        if (k->out[i])
            return qg_infer_fail(k, QG_EUNSUPPORTED, "output %zu, expected one output",
                                 i);
    QG_TRY(qg_check_type(k, mask, QG_DT(I32)));
    QG_TRY(qg_check_type(k, bias, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, mask, 1, 3));
    return qg_check_rank(k, bias, 4, 4);
}

/* The mask and the bias of scores suit [batch, heads, queries, keys].  Unknown extents,
 * -1, suit all.  The bias may have a dim of 1 for the batch and for the heads, and is
 * repeated then. */
static qg_status check_masks(const qg_call *k, size_t mask, size_t bias,
                             const int64_t extent[4])
{
    const int64_t by_rank[3][3] = {
        {extent[0]},
        {   extent[0],        extent[3] },
        { extent[0], extent[2], extent[3] }
    };
    if (qg_in_rank(k, mask) > 0)
        QG_TRY(
            qg_check_dims(k, mask, k->in[mask]->rank, by_rank[k->in[mask]->rank - 1]));
    for (int32_t i = 0; i < 4 && qg_in_rank(k, bias) == 4; i++)
        if (i > 1 || k->in[bias]->dim[i] != 1)
            QG_TRY(qg_check_dim(k, bias, i, extent[i]));
    return QG_OK;
}

/* Columns of Q, K and V of a product with `all` columns.  -1: unknown. */
static void split(const heads_param *p, int64_t all, int64_t size[3])
{
    for (size_t i = 0; i < 3; i++)
        size[i] = p->sizes[0] ? p->sizes[i] : all < 0 ? -1 : all / 3;
}

/* Input [B, S, in], weights [in, all], bias [all]; output [B, S, Hv].  Self-attention:
 * as many keys as queries. */
static qg_status infer_attention(const qg_call *k)
{
    const heads_param *p = k->param;
    int64_t size[3], all = qg_in_dim(k, 1, 1);
    QG_TRY(qg_check_types(k, 0, 2, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    QG_TRY(qg_check_rank(k, 0, 3, 3));
    QG_TRY(qg_check_rank(k, 1, 2, 2));
    QG_TRY(check_rest(k, 3, 5));
    QG_TRY(qg_check_dim(k, 1, 0, qg_in_dim(k, 0, 2)));
    if (qg_in(k, 2))
        QG_TRY(qg_check_vector(k, 2, all));
    split(p, all, size);
    if (all >= 0 && (size[0] + size[1] + size[2] != all || size[0] % p->heads))
        return qg_infer_fail(k, QG_EMODEL, "%lld columns of weights for %lld heads",
                             (long long)all, (long long)p->heads);
    int64_t batch = qg_in_dim(k, 0, 0), length = qg_in_dim(k, 0, 1);
    QG_TRY(check_masks(k, 3, 5, (int64_t[]){ batch, p->heads, length, length }));
    return qg_infer_dims(k, k->in[0]->dtype, 3, (int64_t[]){ batch, length, size[2] });
}

/* Query [B, S, H], key [B, T, H], value [B, T, Hv]; output [B, S, Hv].  Packed operands
 * leave key or value out. */
static qg_status infer_multi(const qg_call *k)
{
    const heads_param *p = k->param;
    int64_t batch = qg_in_dim(k, 0, 0), columns = qg_in_dim(k, 0, 2);
    int64_t keys = qg_in_dim(k, 1, 1), values = qg_in_dim(k, 2, 2);
    if (!qg_in(k, 1) || !qg_in(k, 2))
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "packed operands, expected query, key and value");
    for (size_t i = 0; i < 3; i++) {
        QG_TRY(qg_check_type(k, i, QG_DT_FLOATS));
        QG_TRY(qg_check_rank(k, i, 3, 3));
    }
    QG_TRY(qg_check_same_type(k, 1, 3));
    QG_TRY(check_rest(k, 4, 5));
    QG_TRY(qg_check_dims(k, 1, 3, (int64_t[]){ batch, -1, columns }));
    QG_TRY(qg_check_dims(k, 2, 3, (int64_t[]){ batch, keys, -1 }));
    if (columns % p->heads > 0 || values % p->heads > 0)
        return qg_infer_fail(k, QG_EMODEL, "%lld and %lld columns for %lld heads",
                             (long long)columns, (long long)values,
                             (long long)p->heads);
    if (qg_in(k, 3))
        QG_TRY(qg_check_vector(k, 3,
                               columns < 0 || values < 0 ? -1 : 2 * columns + values));
    int64_t length = qg_in_dim(k, 0, 1);
    QG_TRY(check_masks(k, 4, 5, (int64_t[]){ batch, p->heads, length, keys }));
    return qg_infer_dims(k, k->in[0]->dtype, 3, (int64_t[]){ batch, length, values });
}

/* --- computing ----------------------------------------------------------------- */

/* Rows of queries, keys, values of one sample, `step` elements apart.  Row t of operand
 * i and head h begins at at[i] + t * step[i] + h * size[i]. */
typedef struct rows {
    const float *at[3];
    int64_t step[3], size[3]; /* size: columns of one head */
} rows;

/* What is the same for all queries of a call.  mask, bias: NULL where absent.  The
 * scores of one query are kept at a time. */
typedef struct job {
    const qg_call *k;
    const heads_param *p;
    const qg_tensor *mask, *bias;
    int64_t queries, keys;
    float *score; /* [keys] */
} job;

/* What a mask adds to the score of key t for query s.  Causal: the last query is
 * beside the last key.  A key hidden for two reasons gets the filter once. */
static float masked(const job *j, int64_t b, int64_t s, int64_t t)
{
    const qg_tensor *m = j->mask;
    bool hidden = j->p->causal && t > s + (j->keys - j->queries);
    if (m && m->rank == 1)
        hidden |= t >= m->i32[b];
    else if (m && m->rank == 2)
        hidden |= m->i32[b * j->keys + t] == 0;
    else if (m)
        hidden |= m->i32[(b * j->queries + s) * j->keys + t] == 0;
    return hidden ? j->p->filter : 0;
}

/* Element [b, h, s, t] of the bias of scores; 0 without one. */
static float biased(const job *j, int64_t b, int64_t h, int64_t s, int64_t t)
{
    const qg_tensor *x = j->bias;
    if (!x)
        return 0;
    int64_t sample = x->dim[0] == 1 ? 0 : b, head = x->dim[1] == 1 ? 0 : h;
    return x->f32[((sample * x->dim[1] + head) * j->queries + s) * j->keys + t];
}

/* In place.  The largest score is subtracted first: no exponential overflows, and the
 * sum of finite scores is at least 1. */
static void softmax(float *x, int64_t n)
{
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += x[i] = qg_exp_f32(x[i] - most);
    for (int64_t i = 0; i < n; i++)
        x[i] /= sum;
}

/* at: sample, head, query.  y: the row of the query, of which the columns of this head
 * are written.  Sums of products are in double and rounded once. */
static void attend_query(const job *j, const rows *r, const int64_t at[3], float *y)
{
    int64_t h = at[1], s = at[2], d = r->size[0], dv = r->size[2];
    const float *q = r->at[0] + s * r->step[0] + h * d;
    float scale = j->p->scale != 0 ? j->p->scale : 1 / sqrtf((float)d);
    for (int64_t t = 0; t < j->keys; t++) {
        const float *key = r->at[1] + t * r->step[1] + h * d;
        double sum = 0;
        for (int64_t i = 0; i < d; i++)
            sum += (double)q[i] * (double)key[i];
        j->score[t] =
            (float)sum * scale + biased(j, at[0], h, s, t) + masked(j, at[0], s, t);
    }
    softmax(j->score, j->keys);
    for (int64_t i = 0; i < dv; i++) {
        double sum = 0;
        for (int64_t t = 0; t < j->keys; t++)
            sum += (double)j->score[t] * (double)r->at[2][t * r->step[2] + h * dv + i];
        y[h * dv + i] = (float)sum;
    }
}

/* Output b, [queries, heads * size]: heads are side by side, as in the operands. */
static void attend_sample(const job *j, const rows *r, int64_t b)
{
    int64_t columns = r->size[2] * j->p->heads;
    for (int64_t s = 0; s < j->queries; s++)
        for (int64_t h = 0; h < j->p->heads; h++)
            attend_query(j, r, (int64_t[]){ b, h, s },
                         j->k->out[0]->f32 + (b * j->queries + s) * columns);
}

/* Memory for one row of scores, in scratch.  The bias of scores is input 5 of both
 * operators. */
static qg_status begin(const qg_call *k, size_t mask, int64_t keys, job *j)
{
    *j = (job){ .k = k,
                .p = k->param,
                .mask = qg_in(k, mask),
                .bias = qg_in(k, 5),
                .queries = k->in[0]->dim[1],
                .keys = keys,
                .score = QG_NEWN(k->scratch, keys, float) };
    return j->score ? QG_OK : qg_nomem(k->ctx);
}

/* input x weights + bias of all samples.  [samples * tokens, all], in scratch; the sum
 * begins with the bias, in double. */
static qg_status project(const qg_call *k, float **out)
{
    const qg_tensor *x = k->in[0], *w = k->in[1], *b = qg_in(k, 2);
    int64_t n = w->dim[0], all = w->dim[1], count = x->dim[0] * x->dim[1];
    qg_tensor y;
    qg_tensor_init(&y, QG_F32, 2, (int64_t[]){ count, all });
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &y));
    for (int64_t i = 0; i < count * all; i++) {
        double sum = b ? (double)b->f32[i % all] : 0;
        for (int64_t c = 0; c < n; c++)
            sum += (double)x->f32[i / all * n + c] * (double)w->f32[c * all + i % all];
        y.f32[i] = (float)sum;
    }
    *out = y.f32;
    return QG_OK;
}

/* Q, K and V are columns of one product: no copies of them are made. */
static qg_status attention(const qg_call *k)
{
    job j;
    float *all;
    int64_t columns = k->in[1]->dim[1], size[3];
    QG_TRY(begin(k, 3, k->in[0]->dim[1], &j));
    QG_TRY(project(k, &all));
    split(j.p, columns, size);
    for (int64_t b = 0; b < k->in[0]->dim[0]; b++) {
        const float *q = all + b * j.queries * columns;
        rows r = {
            .at = {q, q + size[0], q + size[0] + size[1]}
        };
        for (size_t i = 0; i < 3; i++) {
            r.step[i] = columns;
            r.size[i] = size[i] / j.p->heads;
        }
        attend_sample(&j, &r, b);
    }
    return QG_OK;
}

/* Operand `slot` plus its part of the bias, which begins at `from`.  *out is the
 * operand itself where there is no bias, else in scratch. */
static qg_status shifted(const qg_call *k, size_t slot, int64_t from, const float **out)
{
    const qg_tensor *x = k->in[slot], *b = qg_in(k, 3);
    qg_tensor y = *x;
    int64_t columns = x->dim[2];
    *out = x->f32;
    if (!b)
        return QG_OK;
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &y));
    for (int64_t i = 0, n = qg_tensor_count(x); i < n; i++)
        y.f32[i] = x->f32[i] + b->f32[from + i % columns];
    *out = y.f32;
    return QG_OK;
}

/* The bias has the columns of queries, keys and values, in this order. */
static qg_status multi(const qg_call *k)
{
    job j;
    const float *at[3];
    int64_t from = 0;
    QG_TRY(begin(k, 4, k->in[1]->dim[1], &j));
    for (size_t i = 0; i < 3; i++) {
        QG_TRY(shifted(k, i, from, &at[i]));
        from += k->in[i]->dim[2];
    }
    for (int64_t b = 0; b < k->in[0]->dim[0]; b++) {
        rows r;
        for (size_t i = 0; i < 3; i++) {
            const qg_tensor *t = k->in[i];
            r.at[i] = at[i] + b * t->dim[1] * t->dim[2];
            r.step[i] = t->dim[2];
            r.size[i] = t->dim[2] / j.p->heads;
        }
        attend_sample(&j, &r, b);
    }
    return QG_OK;
}

static qg_status run_attention(const qg_call *k) { return qg_run_f32(k, attention); }
static qg_status run_multi(const qg_call *k) { return qg_run_f32(k, multi); }

#define ROW(microsoft, least, most, roles, id)                                         \
    {                                                                                  \
        .name = (microsoft), .domain = "com.microsoft", .since = 1, .min_in = (least), \
        .max_in = (most), .min_out = 1, .max_out = 4, .in_roles = (roles),             \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(heads_param), .prepare = prepare, .infer = infer_##id,    \
        .run = run_##id                                                                \
    }
/* clang-format off */
const qg_op qg_ops_microsoft_attention[] = {
    ROW("Attention", 2, 7, "dwbsdfs", attention),
    ROW("MultiHeadAttention", 1, 10, "dddbsfddss", multi),
    { 0 },
};
/* clang-format on */
