/* function.c -- operators that ONNX defines as functions of others and that have
 * dedicated kernels here: RotaryEmbedding, SwiGLU, CausalConvWithState,
 * LinearAttention.
 *
 * All compute in float32.
 * Source: ONNX RotaryEmbedding-23, CausalConvWithState-27, LinearAttention-27,
 * SwiGLU-28 and their reference implementations.
 *
 * Slots   tables of sines and gates are floats that are never quantized; states are
 * data. */
#include "ops/families.h"

#include <math.h>

#include "engine/number/vecmath.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"

typedef struct function_param {
    int64_t heads, rotated, kv_heads;
    bool interleaved, swish, gated, delta;
    float alpha, scale;
} function_param;

/* --- RotaryEmbedding ----------------------------------------------------------- */

/* rotary_embedding_dim 0 rotates the whole head. */
static qg_status prepare_rotary(qg_ctx *ctx, const qg_node *node, void *param)
{
    function_param *p = param;
    QG_TRY(qg_attr_int(ctx, node, "num_heads", 0, &p->heads));
    QG_TRY(qg_attr_int(ctx, node, "rotary_embedding_dim", 0, &p->rotated));
    QG_TRY(qg_attr_flag(ctx, node, "interleaved", false, &p->interleaved));

    if (p->heads < 0 || p->heads > QG_MAX_HEADS)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "num_heads is %lld, expected 0 to %d", (long long)p->heads,
                            (int)QG_MAX_HEADS);
    if (p->rotated < 0 || p->rotated % 2)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "rotary_embedding_dim is %lld, expected an even number",
                            (long long)p->rotated);
    return QG_OK;
}

/* x as [batch][time][heads][size], for either layout. */
typedef struct heads {
    int64_t batch, time, heads, size, rotated;
    int64_t time_step, head_step; /* elements */
} heads;

/* Rank 4 is [batch, heads, time, size], rank 3 [batch, time, heads * size]. */
static qg_status heads_of(const qg_call *k, heads *h)
{
    const function_param *p = k->param;
    const qg_tensor *x = k->in[0];
    if (x->rank == 4) {
        *h = (heads){ x->dim[0],
                      x->dim[2],
                      x->dim[1],
                      x->dim[3],
                      0,
                      x->dim[3],
                      x->dim[2] * x->dim[3] };
    } else {
        if (p->heads < 1 || (x->dim[2] >= 0 && x->dim[2] % p->heads))
            return qg_infer_fail(k, QG_EMODEL,
                                 "%lld columns for num_heads %lld, expected a multiple",
                                 (long long)x->dim[2], (long long)p->heads);
        int64_t size = x->dim[2] < 0 ? -1 : x->dim[2] / p->heads;
        *h = (heads){ x->dim[0], x->dim[1], p->heads, size, 0, x->dim[2], size };
    }
    h->rotated = p->rotated ? p->rotated : h->size;
    if (h->size >= 0 && (h->rotated > h->size || h->rotated % 2))
        return qg_infer_fail(k, QG_EMODEL,
                             "%lld rotated columns of %lld, expected an even number of "
                             "them",
                             (long long)h->rotated, (long long)h->size);
    return QG_OK;
}

/* With positions the tables are indexed by them, otherwise by sample and time. */
static qg_status infer_rotary(const qg_call *k)
{
    heads h;
    QG_TRY(qg_check_types(k, 0, 2, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    QG_TRY(qg_check_type(k, 3, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 3, 4));
    if (k->in[0]->rank < 0)
        return qg_infer_same(k);
    QG_TRY(heads_of(k, &h));
    int64_t half = h.rotated < 0 ? -1 : h.rotated / 2;
    bool indexed = qg_in(k, 3) != NULL;
    for (size_t slot = 1; slot < 3; slot++)
        if (indexed)
            QG_TRY(qg_check_dims(k, slot, 2, (int64_t[]){ qg_in_dim(k, 1, 0), half }));
        else
            QG_TRY(qg_check_dims(k, slot, 3, (int64_t[]){ h.batch, h.time, half }));
    QG_TRY(qg_check_dims(k, 3, 2, (int64_t[]){ h.batch, h.time }));
    return qg_infer_same(k);
}

/* One head at one position. */
static void rotate(const heads *h, bool interleaved, const float *cosine,
                   const float *sine, const float *x, float *y)
{
    int64_t half = h->rotated / 2;
    for (int64_t i = 0; i < half; i++) {
        int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
        float re = x[a], im = x[b];
        y[a] = cosine[i] * re - sine[i] * im;
        y[b] = sine[i] * re + cosine[i] * im;
    }
    for (int64_t i = h->rotated; i < h->size; i++)
        y[i] = x[i];
}

/* Positions are data: checked before use. */
static qg_status rotary(const qg_call *k)
{
    const function_param *p = k->param;
    const qg_tensor *index = qg_in(k, 3);
    heads h;
    QG_TRY(heads_of(k, &h));
    for (int64_t i = 0; i < h.batch * h.time; i++) {
        int64_t row = index ? index->i64[i] : i;
        if (index && (row < 0 || row >= k->in[1]->dim[0]))
            return qg_run_fail(k, QG_EDATA, "position %lld, expected within [0, %lld)",
                               (long long)row, (long long)k->in[1]->dim[0]);
        int64_t at = i / h.time * h.time * h.heads * h.size + i % h.time * h.time_step;
        for (int64_t j = 0; j < h.heads; j++)
            rotate(&h, p->interleaved, k->in[1]->f32 + row * (h.rotated / 2),
                   k->in[2]->f32 + row * (h.rotated / 2),
                   k->in[0]->f32 + at + j * h.head_step,
                   k->out[0]->f32 + at + j * h.head_step);
    }
    return QG_OK;
}

static qg_status run_rotary(const qg_call *k) { return qg_run_f32(k, rotary); }

/* --- SwiGLU -------------------------------------------------------------------- */

static qg_status prepare_swiglu(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_float(ctx, node, "alpha", 1, &((function_param *)param)->alpha);
}

/* Both inputs have the same shape. */
static qg_status infer_swiglu(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    if (k->in[0]->rank >= 0)
        QG_TRY(qg_check_dims(k, 1, k->in[0]->rank, k->in[0]->dim));
    return qg_infer_same(k);
}

static qg_status swiglu(const qg_call *k)
{
    float alpha = ((const function_param *)k->param)->alpha;
    const float *a = k->in[0]->f32, *b = k->in[1]->f32;
    for (int64_t i = 0; i < qg_tensor_count(k->in[0]); i++)
        k->out[0]->f32[i] = a[i] * qg_sigmoid_f32(alpha * a[i]) * b[i];
    return QG_OK;
}

static qg_status run_swiglu(const qg_call *k) { return qg_run_f32(k, swiglu); }

/* --- CausalConvWithState ------------------------------------------------------- */

static qg_status prepare_causal(qg_ctx *ctx, const qg_node *node, void *param)
{
    static const char *const names[] = { "none", "silu", "swish", NULL };
    int which;
    QG_TRY(qg_attr_choice(ctx, node, "activation", names, 0, &which));
    ((function_param *)param)->swish = which != 0;
    return QG_OK;
}

/* The state is the last taps - 1 inputs of each channel. */
static qg_status infer_causal(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t taps = qg_in_dim(k, 1, 2), channels = qg_in_dim(k, 0, 1);
    if (taps == 0)
        return qg_infer_fail(k, QG_EMODEL, "a kernel of 0, expected at least 1");
    int64_t state[] = { qg_in_dim(k, 0, 0), channels, taps < 0 ? -1 : taps - 1 };
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 3));
    QG_TRY(qg_check_rank(k, 0, 3, 3));
    QG_TRY(qg_check_dims(k, 1, 3, (int64_t[]){ channels, 1, taps }));
    QG_TRY(qg_check_vector(k, 2, channels));
    QG_TRY(qg_check_dims(k, 3, 3, state));
    qg_set_out(k, 0, x->dtype, x->rank, x->dim);
    qg_set_out(k, 1, x->dtype, 3, state);
    return QG_OK;
}

/* One channel: `line` is the past followed by the input, `n` outputs. */
static void causal_line(const float *line, const float *w, int64_t taps, float bias,
                        int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = bias;
        for (int64_t t = 0; t < taps; t++)
            sum += w[t] * line[i + t];
        y[i] = sum;
    }
}

/* Past and input are concatenated, so that the loop has no border case. */
static qg_status causal(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *bias = qg_in(k, 2), *past = qg_in(k, 3);
    bool swish = ((const function_param *)k->param)->swish;
    int64_t taps = k->in[1]->dim[2], n = x->dim[2], keep = taps - 1;
    float *line = QG_NEWN(k->scratch, (size_t)(n + keep), float);
    if (!line)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < x->dim[0] * x->dim[1]; i++) {
        int64_t c = i % x->dim[1];
        if (past)
            memcpy(line, past->f32 + i * keep, (size_t)keep * sizeof *line);
        memcpy(line + keep, x->f32 + i * n, (size_t)n * sizeof *line);
        causal_line(line, k->in[1]->f32 + c * taps, taps, bias ? bias->f32[c] : 0, n,
                    k->out[0]->f32 + i * n);
        if (qg_out(k, 1))
            memcpy(k->out[1]->f32 + i * keep, line + n, (size_t)keep * sizeof *line);
    }
    for (int64_t i = 0; swish && i < qg_tensor_count(k->out[0]); i++)
        k->out[0]->f32[i] *= qg_sigmoid_f32(k->out[0]->f32[i]);
    return QG_OK;
}

static qg_status run_causal(const qg_call *k) { return qg_run_f32(k, causal); }

/* --- LinearAttention ----------------------------------------------------------- */

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

/* The rule is two bits: gated and delta. */
static qg_status prepare_linear(qg_ctx *ctx, const qg_node *node, void *param)
{
    static const char *const rules[] = { "linear", "gated", "delta", "gated_delta",
                                         NULL };
    function_param *p = param;
    int rule;
    QG_TRY(qg_attr_choice(ctx, node, "update_rule", rules, 3, &rule));
    QG_TRY(qg_attr_int(ctx, node, "q_num_heads", 0, &p->heads));
    QG_TRY(qg_attr_int(ctx, node, "kv_num_heads", 0, &p->kv_heads));
    QG_TRY(qg_attr_float(ctx, node, "scale", 0, &p->scale));
    p->gated = rule & 1;
    p->delta = rule & 2;
    if (p->kv_heads < 1 || p->heads < 1 || p->heads % p->kv_heads ||
        p->heads > QG_MAX_HEADS)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "%lld query heads for %lld key heads, expected a multiple",
                            (long long)p->heads, (long long)p->kv_heads);
    return QG_OK;
}

/* Columns per head of a packed input; -1 when not known. */
static qg_status columns(const qg_call *k, size_t slot, int64_t n, int64_t *out)
{
    int64_t wide = qg_in_dim(k, slot, 2);
    QG_TRY(qg_check_rank(k, slot, 3, 3));
    if (wide >= 0 && wide % n)
        return qg_infer_fail(
            k, QG_EMODEL, "input %zu: %lld columns for %lld heads, expected a multiple",
            slot, (long long)wide, (long long)n);
    *out = wide < 0 ? -1 : wide / n;
    return QG_OK;
}

/* Gated rules take decay, delta rules take beta. */
static qg_status check_gates(const qg_call *k, int64_t dk)
{
    const function_param *p = k->param;
    int64_t decay = qg_in_dim(k, DECAY, 2), beta = qg_in_dim(k, BETA, 2);
    if (p->gated != (qg_in(k, DECAY) != NULL) || p->delta != (qg_in(k, BETA) != NULL))
        return qg_infer_fail(
            k, QG_EMODEL, "decay %s, beta %s, expected what update_rule needs",
            qg_in(k, DECAY) ? "given" : "absent", qg_in(k, BETA) ? "given" : "absent");
    if (decay >= 0 && decay != p->kv_heads && dk >= 0 && decay != p->kv_heads * dk)
        return qg_infer_fail(
            k, QG_EMODEL, "decay has %lld columns, expected %lld or %lld",
            (long long)decay, (long long)p->kv_heads, (long long)(p->kv_heads * dk));
    if (beta >= 0 && beta != 1 && beta != p->kv_heads)
        return qg_infer_fail(k, QG_EMODEL, "beta has %lld columns, expected 1 or %lld",
                             (long long)beta, (long long)p->kv_heads);
    return QG_OK;
}

/* Head sizes of query and key are equal; that of values may differ. */
static qg_status infer_linear(const qg_call *k)
{
    const function_param *p = k->param;
    const qg_tensor *past = qg_in(k, PAST);
    int64_t dq, dk, dv, batch = qg_in_dim(k, QUERY, 0), time = qg_in_dim(k, QUERY, 1);
    QG_TRY(qg_check_types(k, QUERY, BETA, QG_DT_FLOATS));
    QG_TRY(columns(k, QUERY, p->heads, &dq));
    QG_TRY(columns(k, KEY, p->kv_heads, &dk));
    QG_TRY(columns(k, VALUE, p->kv_heads, &dv));
    if (dq >= 0 && dk >= 0 && dq != dk)
        return qg_infer_fail(k, QG_EMODEL,
                             "head sizes %lld and %lld, expected them equal",
                             (long long)dq, (long long)dk);
    QG_TRY(check_gates(k, dk));
    int64_t line[] = { batch, time, -1 }, state[] = { batch, p->kv_heads, dk, dv };
    QG_TRY(qg_check_dims(k, KEY, 3, line));
    QG_TRY(qg_check_dims(k, VALUE, 3, line));
    QG_TRY(qg_check_dims(k, DECAY, 3, line));
    QG_TRY(qg_check_dims(k, BETA, 3, line));
    QG_TRY(qg_check_dims(k, PAST, 4, state));
    line[2] = dv < 0 ? -1 : p->heads * dv;
    qg_set_out(k, 0, k->in[QUERY]->dtype, 3, line);
    qg_set_out(k, 1, past ? past->dtype : k->in[QUERY]->dtype, 4, state);
    return QG_OK;
}

/* Row (sample, time) of a packed input, from the columns of head h. */
static const float *packed(const qg_call *k, size_t slot, int64_t row, int64_t h,
                           int64_t size)
{
    const qg_tensor *t = k->in[slot];
    return t->f32 + row * t->dim[2] + h * size;
}

/* The recurrent state of one head. */
typedef struct recurrence {
    int64_t dk, dv;
    float *s;    /* [dk][dv] */
    float *work; /* [dv] */
} recurrence;

/* S = exp(g) S + key (x) beta (v - S' key), in this order. */
static void update(const qg_call *k, int64_t row, int64_t h, const recurrence *state)
{
    int64_t dk = state->dk, dv = state->dv;
    float *s = state->s, *work = state->work;
    const function_param *p = k->param;
    const float *key = packed(k, KEY, row, h, dk),
                *value = packed(k, VALUE, row, h, dv);
    if (p->gated) {
        bool each = k->in[DECAY]->dim[2] != p->kv_heads || dk == 1;
        const float *g = packed(k, DECAY, row, h, each ? dk : 1);
        for (int64_t i = 0; i < dk * dv; i++)
            s[i] *= qg_exp_f32(g[each ? i / dv : 0]);
    }
    for (int64_t j = 0; j < dv; j++)
        work[j] = value[j];
    if (p->delta) {
        const qg_tensor *b = k->in[BETA];
        float beta = b->f32[row * b->dim[2] + (b->dim[2] == 1 ? 0 : h)];
        for (int64_t i = 0; i < dk; i++)
            for (int64_t j = 0; j < dv; j++)
                work[j] -= s[i * dv + j] * key[i];
        for (int64_t j = 0; j < dv; j++)
            work[j] *= beta;
    }
    for (int64_t i = 0; i < dk; i++)
        for (int64_t j = 0; j < dv; j++)
            s[i * dv + j] += key[i] * work[j];
}

/* y = scale * S' q of one query head. */
static void read_state(const qg_call *k, int64_t row, int64_t head, int64_t dk,
                       int64_t dv, const float *s)
{
    const function_param *p = k->param;
    float scale = p->scale != 0 ? p->scale : 1 / sqrtf((float)dk);
    const float *q = packed(k, QUERY, row, head, dk);
    float *y = k->out[0]->f32 + (row * p->heads + head) * dv;
    for (int64_t j = 0; j < dv; j++)
        y[j] = 0;
    for (int64_t i = 0; i < dk; i++)
        for (int64_t j = 0; j < dv; j++)
            y[j] += q[i] * s[i * dv + j];
    for (int64_t j = 0; j < dv; j++)
        y[j] *= scale;
}

/* Per sample and key head the state advances through time; query heads that share it
 * read it. */
static qg_status linear(const qg_call *k)
{
    const function_param *p = k->param;
    const qg_tensor *past = qg_in(k, PAST), *out = qg_out(k, 1);
    int64_t batch = k->in[QUERY]->dim[0], time = k->in[QUERY]->dim[1];
    int64_t dk = k->in[KEY]->dim[2] / p->kv_heads,
            dv = k->in[VALUE]->dim[2] / p->kv_heads;
    int64_t n = dk * dv, group = p->heads / p->kv_heads;
    float *state = QG_NEWN(k->scratch, (size_t)n, float);
    float *work = QG_NEWN(k->scratch, (size_t)dv, float);
    recurrence r = { dk, dv, state, work };
    if (!state || !work)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < batch * p->kv_heads; i++) {
        int64_t h = i % p->kv_heads, first = i / p->kv_heads * time;
        for (int64_t j = 0; j < n; j++)
            state[j] = past ? past->f32[i * n + j] : 0;
        for (int64_t row = first; row < first + time; row++) {
            update(k, row, h, &r);
            for (int64_t g = 0; g < group; g++)
                read_state(k, row, h * group + g, dk, dv, state);
        }
        if (out)
            memcpy(out->f32 + i * n, state, (size_t)n * sizeof *state);
    }
    return QG_OK;
}

static qg_status run_linear(const qg_call *k) { return qg_run_f32(k, linear); }

#define ROW(onnx, opset, least, most, outputs, roles, bits, kind)                      \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = (least), .max_in = (most),           \
        .min_out = 1, .max_out = (outputs), .in_roles = roles,                         \
        .traits = QG_OP_PURE | QG_OP_BATCH_FIRST | (bits),                             \
        .param_size = sizeof(function_param), .prepare = prepare_##kind,               \
        .infer = infer_##kind, .run = run_##kind                                       \
    }
/* clang-format off */
const qg_op qg_ops_function[] = {
    ROW("RotaryEmbedding", 23, 3, 4, 1, "dffs", 0, rotary),
    ROW("SwiGLU", 28, 2, 2, 1, "dd", QG_OP_ELEMENTWISE, swiglu),
    ROW("CausalConvWithState", 27, 2, 4, 2, "dwbd", QG_OP_COMPUTE, causal),
    ROW("LinearAttention", 27, 3, 6, 2, "ddddff", QG_OP_COMPUTE, linear),
    { 0 },
};
/* clang-format on */
