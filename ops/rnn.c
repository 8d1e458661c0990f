/* rnn.c -- RNN, GRU, LSTM.
 *
 * X [time, batch, in]   W [dirs, G H, in]   R [dirs, G H, H]   B [dirs, 2 G H]
 * Y [time, dirs, batch, H]   Y_h, Y_c [dirs, batch, H]; batch first with layout 1.
 * G gates of H rows each: RNN 1; GRU 3 (update z, reset r, hidden h); LSTM 4 (input i,
 * output o, forget f, cell c).
 *
 *     RNN   h' = f(Wx + Rh + b)
 *     GRU   z, r = f(...)   h" = g(Wx + R(r h) + b), or g(Wx + r (Rh + rb) + wb) with
 *           linear_before_reset   h' = (1 - z) h" + z h
 *     LSTM  i, f = f(... + P c)   c' = f c + i g(...)   o = f(... + P c')
 *           h' = o h(c')
 *
 * Sequences may be shorter than time (sequence_lens): Y is 0 after their end, Y_h is
 * the state at the end, and the reverse direction begins there.  `clip` limits the
 * input of every gate's activation; the activation of an LSTM's h is not clipped, as in
 * ONNX Runtime.
 * DynamicQuantizeLSTM has W [dirs, in, G H] and R [dirs, H, G H] in codes, with scales
 * and zero points per direction or per column; X as a whole, and h of every step, are
 * rounded to uint8 by their own range before the products, as DynamicQuantizeLinear
 * does.
 * Source: ONNX RNN, LSTM-1, 7, 14 (layout), 22; GRU-1, 3 (linear_before_reset), 7, 14,
 * 22; onnxruntime 1.31, contrib_ops/cpu/quantization/dynamic_quantize_lstm.cc, of one
 * thread: it gives threads samples of their own, with ranges of their own.
 *
 * Slots   W and R are weights, B a bias; initial states are data, peepholes never
 * quantized. */
#include "ops/families.h"

#include "engine/accel/accel.h"
#include "engine/ir/kernel.h"
#include "engine/number/qdq.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_rnn.h"
#include "ops/util_vector.h"

enum { W_SCALE = QG_RNN_INPUTS, W_ZERO, R_SCALE, R_ZERO };

typedef qg_rnn_cell cell;
typedef qg_rnn_extent extent;

/* Constant weights of one direction as panels, for qg_vector_row.product.  Gates begin
 * at multiples of a panel. */
typedef struct directed {
    qg_panels w, r, hidden; /* hidden: R of a GRU's hidden gate alone */
} directed;

/* State of one running direction. */
struct qg_rnn_cell {
    const qg_rnn_param *p;
    const qg_activation *function;
    const directed *packed;  /* NULL: products by reference, W and R as they are */
    int64_t n, gap;          /* hidden size; elements from one gate to the next */
    const float *r;          /* [gates n][n] */
    const float *wb, *rb;    /* [gates n] */
    const float *peephole;   /* [3 n], i o f */
    const float *projected;  /* [time batch][gates gap]: W x of all steps */
    const float *input;      /* [gates gap]: W x of this step and batch entry */
    float *recurrent;        /* [batch][gates gap]: R h of this step */
    float *h, *c;            /* [batch][n] */
    float *work;             /* [gap] */
    float *rounded;          /* [batch][n]: h as the product reads it */
    uint8_t *codes;          /* [batch][n] of it; NULL: it is h */
    const qg_rnn_kept *kept; /* NULL: nothing is */
    float *before;           /* like recurrent: inputs of this step's activations */
};

/* --- cells --------------------------------------------------------------------- */

/* x [n] through function f, by a loop of the same bits where there is one. */
static void apply(const qg_activation *f, float *x, int64_t n)
{
    if (f->map >= 0)
        qg_vector_best()->map[f->map](x, x, (size_t)n, f->alpha, f->beta);
    for (int64_t j = 0; f->map < 0 && j < n; j++)
        x[j] = qg_activate(f, x[j]);
}

/* Function f of this direction, over the clipped input; `clip` 0 is no limit. */
static void activate(const cell *c, int f, float *x)
{
    const float t = c->p->clip;
    if (c->before)
        memcpy(c->before + (x - c->recurrent), x, (size_t)c->n * sizeof *x);
    for (int64_t j = 0; t > 0 && j < c->n; j++)
        x[j] = x[j] < -t ? -t : x[j] > t ? t : x[j];
    apply(&c->function[f], x, c->n);
}

/* W x + R h + both biases of gate g, in place of R h. */
static float *gate(const cell *c, float *recurrent, int64_t g)
{
    const float *input = c->input + g * c->gap, *wb = c->wb + g * c->n,
                *rb = c->rb + g * c->n;
    float *sum = recurrent + g * c->gap;
    for (int64_t j = 0; j < c->n; j++)
        sum[j] = input[j] + sum[j] + (wb[j] + rb[j]);
    return sum;
}

/* R h was computed for the whole batch before. */
static void rnn_step(const cell *c, int64_t b)
{
    float *sum = gate(c, c->recurrent + b * c->gap, 0);
    activate(c, 0, sum);
    memcpy(c->h + b * c->n, sum, (size_t)c->n * sizeof *sum);
}

/* y = R_h (r h): the reset comes before the product, so it cannot be done for all
 * gates. */
static void reset_product(const cell *c, const float *reset_h, float *y)
{
    if (c->packed) {
        qg_vector_best()->product(&c->packed->hidden, 1, reset_h, y);
        return;
    }
    for (int64_t j = 0; j < c->n; j++) {
        const float *row = c->r + (2 * c->n + j) * c->n;
        y[j] = 0;
        for (int64_t i = 0; i < c->n; i++)
            y[j] += row[i] * reset_h[i];
    }
}

/* Reset and update gate first for all rows, since R_h needs the whole r h. */
static void gru_step(const cell *c, int64_t b)
{
    const int64_t n = c->n;
    float *h = c->h + b * n, *rec = c->recurrent + b * 3 * c->gap;
    float *update = gate(c, rec, 0), *reset = gate(c, rec, 1),
          *hidden = rec + 2 * c->gap;
    const float *input = c->input + 2 * c->gap, *wb = c->wb + 2 * n,
                *rb = c->rb + 2 * n;
    const bool linear = c->p->linear_before_reset;
    activate(c, 0, update);
    activate(c, 0, reset);
    for (int64_t j = 0; j < n; j++)
        c->work[j] = linear ? reset[j] * (hidden[j] + rb[j]) : reset[j] * h[j];
    if (!linear)
        reset_product(c, c->work, hidden);
    for (int64_t j = 0; j < n; j++)
        hidden[j] = input[j] + wb[j] + (linear ? c->work[j] : hidden[j] + rb[j]);
    activate(c, 1, hidden);
    for (int64_t j = 0; j < n; j++)
        h[j] = (1 - update[j]) * hidden[j] + update[j] * h[j];
}

/* gate += peephole * state */
static void look(const cell *c, const float *peephole, const float *state, float *gate)
{
    for (int64_t j = 0; j < c->n; j++)
        gate[j] += peephole[j] * state[j];
}

/* The cell state is updated in place; o reads the new state. */
static void lstm_step(const cell *c, int64_t b)
{
    const int64_t n = c->n;
    const float *p = c->peephole;
    float *rec = c->recurrent + b * 4 * c->gap, *state = c->c + b * n;
    float *i = gate(c, rec, 0), *o = gate(c, rec, 1), *f = gate(c, rec, 2),
          *g = gate(c, rec, 3), *h = c->h + b * n;
    look(c, p, state, i);
    look(c, p + 2 * n, state, f);
    activate(c, 0, i);
    if (!c->p->couple)
        activate(c, 0, f);
    activate(c, 1, g);
    for (int64_t j = 0; j < n; j++)
        state[j] = (c->p->couple ? 1 - i[j] : f[j]) * state[j] + i[j] * g[j];
    look(c, p + n, state, o);
    activate(c, 0, o);
    memcpy(c->work, state, (size_t)n * sizeof *state);
    apply(&c->function[2], c->work, n);
    for (int64_t j = 0; j < n; j++)
        h[j] = o[j] * c->work[j];
}

static const char *const presets[] = { "Tanh", "Sigmoid", "Tanh", "Tanh" };
static const qg_rnn_kind rnn_kind = { 1, 1, presets, rnn_step };
static const qg_rnn_kind gru_kind = { 3, 2, presets + 1, gru_step };
static const qg_rnn_kind lstm_kind = { 4, 3, presets + 1, lstm_step };

/* --- attributes and shapes ----------------------------------------------------- */

/* Functions are listed for both directions, forward ones first. */
static qg_status prepare(qg_ctx *ctx, const qg_node *node, const qg_rnn_kind *which,
                         qg_rnn_param *p)
{
    static const char *const names[] = { "forward", "reverse", "bidirectional", NULL };
    p->kind = which;
    QG_TRY(
        qg_attr_choice(ctx, node, "direction", names, QG_RNN_FORWARD, &p->direction));
    QG_TRY(qg_attr_int(ctx, node, "hidden_size", 0, &p->hidden));
    QG_TRY(qg_attr_flag(ctx, node, "layout", false, &p->batch_first));
    QG_TRY(qg_attr_flag(ctx, node, "input_forget", false, &p->couple));
    QG_TRY(
        qg_attr_flag(ctx, node, "linear_before_reset", false, &p->linear_before_reset));
    QG_TRY(qg_attr_float(ctx, node, "clip", 0, &p->clip));

    qg_activation_list list = { which->preset, which->n_functions,
                                which->n_functions * qg_rnn_directions(p) };
    return qg_activations_read(ctx, node, &list, p->function);
}

static qg_status prepare_rnn(qg_ctx *ctx, const qg_node *node, void *param)
{
    return prepare(ctx, node, &rnn_kind, param);
}

static qg_status prepare_gru(qg_ctx *ctx, const qg_node *node, void *param)
{
    return prepare(ctx, node, &gru_kind, param);
}

static qg_status prepare_lstm(qg_ctx *ctx, const qg_node *node, void *param)
{
    return prepare(ctx, node, &lstm_kind, param);
}

/* With layout 1 the states have the batch first, the weights do not. */
static qg_status check_inputs(const qg_call *k, int64_t batch, int64_t hidden)
{
    const qg_rnn_param *p = k->param;
    int64_t dirs = (int64_t)qg_rnn_directions(p), in = qg_in_dim(k, QG_RNN_X, 2);
    int64_t rows = hidden < 0 ? -1 : p->kind->gates * hidden;
    int64_t state[] = { dirs, batch, hidden };
    if (p->batch_first)
        state[0] = batch, state[1] = dirs;
    if (p->hidden && hidden >= 0 && p->hidden != hidden)
        return qg_infer_fail(k, QG_EMODEL, "hidden_size is %lld, expected %lld as in R",
                             (long long)p->hidden, (long long)hidden);
    QG_TRY(qg_check_dims(k, QG_RNN_W, 3, (int64_t[]){ dirs, rows, in }));
    QG_TRY(qg_check_dims(k, QG_RNN_R, 3, (int64_t[]){ dirs, rows, hidden }));
    QG_TRY(
        qg_check_dims(k, QG_RNN_B, 2, (int64_t[]){ dirs, rows < 0 ? -1 : 2 * rows }));
    QG_TRY(qg_check_dims(k, QG_RNN_LENGTHS, 1, (int64_t[]){ batch }));
    QG_TRY(qg_check_dims(k, QG_RNN_H0, 3, state));
    QG_TRY(qg_check_dims(k, QG_RNN_C0, 3, state));
    return qg_check_dims(k, QG_RNN_P, 2,
                         (int64_t[]){ dirs, hidden < 0 ? -1 : 3 * hidden });
}

/* Unused outputs are skipped. */
static qg_status infer(const qg_call *k)
{
    const qg_rnn_param *p = k->param;
    qg_dtype d = k->in[QG_RNN_X]->dtype;
    int64_t dirs = (int64_t)qg_rnn_directions(p), hidden = qg_in_dim(k, QG_RNN_R, 2);
    for (size_t i = 0; i < k->n_in; i++)
        QG_TRY(qg_check_type(k, i, i == QG_RNN_LENGTHS ? QG_DT(I32) : QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, QG_RNN_W, QG_RNN_B));
    QG_TRY(qg_check_same_type(k, QG_RNN_H0, QG_RNN_P));
    QG_TRY(qg_check_rank(k, QG_RNN_X, 3, 3));
    int64_t time = qg_in_dim(k, QG_RNN_X, p->batch_first),
            batch = qg_in_dim(k, QG_RNN_X, !p->batch_first);
    QG_TRY(check_inputs(k, batch, hidden));
    int64_t all[] = { time, dirs, batch, hidden }, last[] = { dirs, batch, hidden };
    int64_t all_first[] = { batch, time, dirs, hidden },
            last_first[] = { batch, dirs, hidden };
    qg_set_out(k, 0, d, 4, p->batch_first ? all_first : all);
    qg_set_out(k, 1, d, 3, p->batch_first ? last_first : last);
    qg_set_out(k, 2, d, 3, p->batch_first ? last_first : last);
    return QG_OK;
}

/* --- running ------------------------------------------------------------------- */

/* Copies states between [batch][n] and the operator's layout. */
static void load_state(const extent *e, const qg_tensor *from, int64_t dir, float *to)
{
    for (int64_t b = 0; from && b < e->batch; b++)
        memcpy(to + b * e->n, from->f32 + (b * e->s_batch + dir * e->s_dir) * e->n,
               (size_t)e->n * sizeof *to);
}

static void save_state(const extent *e, const float *from, int64_t dir, qg_tensor *to)
{
    for (int64_t b = 0; to && b < e->batch; b++)
        memcpy(to->f32 + (b * e->s_batch + dir * e->s_dir) * e->n, from + b * e->n,
               (size_t)e->n * sizeof *from);
}

/* x on the grid of its own range. */
static void round_dynamic(const float *x, int64_t n, uint8_t *codes, float *y)
{
    float scale;
    uint8_t zero;
    qg_dynamic_quantize_linear(x, (size_t)n, codes, &scale, &zero);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(codes[i] - zero) * scale;
}

/* All rows of X times W of this direction: [time * batch][gates gap]. */
static qg_status project(const qg_call *k, const extent *e, const directed *packed,
                         int64_t dir, float *out)
{
    qg_gemm_problem g = qg_gemm_dense(e->time * e->batch, e->rows, e->in, true);
    const float *x = k->in[QG_RNN_X]->f32;
    int64_t n = qg_tensor_count(k->in[QG_RNN_X]);
    if (((const qg_rnn_param *)k->param)->dynamic) {
        float *rounded = qg_rnn_zeros(k, n, 1);
        uint8_t *codes = QG_NEWN(k->scratch, n, uint8_t);
        if (!rounded || !codes)
            return qg_nomem(k->ctx);
        round_dynamic(x, n, codes, rounded);
        x = rounded;
    }
    if (packed)
        qg_vector_best()->product(&packed->w, g.m, x, out);
    else
        qg_ref_gemm_f32(&g, x, k->in[QG_RNN_W]->f32 + dir * e->rows * e->in, out);
    return QG_OK;
}

/* R h of the whole batch. */
static void recur_product(const extent *e, const cell *c)
{
    qg_gemm_problem g = qg_gemm_dense(e->batch, e->rows, e->n, true);
    if (c->codes)
        round_dynamic(c->h, e->batch * e->n, c->codes, c->rounded);
    if (c->packed)
        qg_vector_best()->product(&c->packed->r, e->batch, c->rounded, c->recurrent);
    else
        qg_ref_gemm_f32(&g, c->rounded, c->r, c->recurrent);
}

/* One step of sequence b, whose row of X is given, with what gradients need of it. */
static void keep_step(const cell *c, int64_t b, int64_t row)
{
    const qg_rnn_kept *kept = c->kept;
    const int64_t n = c->n, rows = c->p->kind->gates * n;
    const size_t state = (size_t)n * sizeof(float),
                 gates = (size_t)rows * sizeof(float);
    memcpy(kept->h + row * n, c->h + b * n, state);
    memcpy(kept->c + row * n, c->c + b * n, state);
    c->p->kind->step(c, b);
    memcpy(kept->c_after + row * n, c->c + b * n, state);
    memcpy(kept->before + row * rows, c->before + b * rows, gates);
    memcpy(kept->gate + row * rows, c->recurrent + b * rows, gates);
}

/* Step s of every sequence that is long enough. */
static void run_step(const qg_call *k, const extent *e, cell *c, int64_t dir, int64_t s)
{
    qg_tensor *y = qg_out(k, 0);
    recur_product(e, c);
    for (int64_t b = 0; b < e->batch; b++) {
        int64_t length = qg_rnn_length(k, e, b);
        if (s >= length)
            continue;
        const int64_t t = qg_rnn_time(c->p, dir, length, s);
        const int64_t row = t * e->x_time + b * e->x_batch;
        c->input = c->projected + row * e->width;
        if (c->kept)
            keep_step(c, b, row);
        else
            c->p->kind->step(c, b);
        if (y)
            memcpy(y->f32 + (t * e->y_time + b * e->y_batch + dir * e->y_dir) * e->n,
                   c->h + b * e->n, (size_t)e->n * sizeof *c->h);
    }
}

/* Steps after the end of a sequence stay 0. */
static void clear_output(const extent *e, int64_t dir, qg_tensor *y)
{
    for (int64_t s = 0; y && s < e->time; s++)
        for (int64_t b = 0; b < e->batch; b++)
            memset(y->f32 + (s * e->y_time + b * e->y_batch + dir * e->y_dir) * e->n, 0,
                   (size_t)e->n * sizeof *y->f32);
}

/* W x for all steps in one product, R h per step.  kept: NULL: nothing is. */
static qg_status run_direction(const qg_call *k, const extent *e,
                               const directed *packed, int64_t dir,
                               const qg_rnn_kept *kept)
{
    const qg_rnn_param *p = k->param;
    const qg_tensor *bias = qg_in(k, QG_RNN_B), *peephole = qg_in(k, QG_RNN_P);
    const float *none = qg_rnn_zeros(k, e->rows, 2);
    float *projected = qg_rnn_zeros(k, e->time * e->batch, e->width);
    cell c = { .p = p,
               .function = p->function + (size_t)dir * p->kind->n_functions,
               .packed = packed,
               .n = e->n,
               .gap = e->width / p->kind->gates,
               .r = k->in[QG_RNN_R]->f32 + dir * e->rows * e->n,
               .recurrent = qg_rnn_zeros(k, e->batch, e->width),
               .h = qg_rnn_zeros(k, e->batch, e->n),
               .c = qg_rnn_zeros(k, e->batch, e->n),
               .work = qg_rnn_zeros(k, 1, e->width),
               .kept = kept,
               .before = kept ? qg_rnn_zeros(k, e->batch, e->width) : NULL };
    c.rounded = p->dynamic ? qg_rnn_zeros(k, e->batch, e->n) : c.h;
    c.codes = p->dynamic ? QG_NEWN(k->scratch, e->batch * e->n, uint8_t) : NULL;
    if (!none || !projected || !c.recurrent || !c.h || !c.c || !c.work || !c.rounded ||
        (p->dynamic && !c.codes) || (kept && !c.before))
        return qg_nomem(k->ctx);
    c.wb = bias ? bias->f32 + dir * 2 * e->rows : none;
    c.rb = c.wb + e->rows;
    c.peephole = peephole ? peephole->f32 + dir * 3 * e->n : none;
    load_state(e, qg_in(k, QG_RNN_H0), dir, c.h);
    load_state(e, qg_in(k, QG_RNN_C0), dir, c.c);
    c.projected = projected;
    clear_output(e, dir, qg_out(k, 0));
    QG_TRY(project(k, e, packed, dir, projected));
    for (int64_t s = 0; s < e->time; s++)
        run_step(k, e, &c, dir, s);
    save_state(e, c.h, dir, qg_out(k, 1));
    save_state(e, c.c, dir, qg_out(k, 2));
    return QG_OK;
}

/* Y is cleared first: it stays 0 after the end of each sequence.  packed: NULL, or
 * [directions]. */
static qg_status recur(const qg_call *k)
{
    const extent e = qg_rnn_extent_of(k);
    for (int64_t dir = 0; dir < e.dirs; dir++)
        QG_TRY(run_direction(k, &e, NULL, dir, NULL));
    return QG_OK;
}
static qg_status run(const qg_call *k) { return qg_run_f32(k, recur); }

/* Runs again, without outputs, to keep what the gradients are made of. */
static qg_status backward(const qg_backward *b)
{
    qg_call k = *b->call;
    const extent e = qg_rnn_extent_of(&k);
    const int64_t all = e.time * e.batch;
    const qg_rnn_kept kept = { qg_rnn_zeros(&k, all, e.rows),
                               qg_rnn_zeros(&k, all, e.rows),
                               qg_rnn_zeros(&k, all, e.n), qg_rnn_zeros(&k, all, e.n),
                               qg_rnn_zeros(&k, all, e.n) };
    if (!kept.before || !kept.gate || !kept.h || !kept.c || !kept.c_after)
        return qg_nomem(k.ctx);
    k.n_out = 0;
    qg_rnn_backward_begin(b);
    for (int64_t dir = 0; dir < e.dirs; dir++) {
        QG_TRY(run_direction(&k, &e, NULL, dir, &kept));
        QG_TRY(qg_rnn_backward(b, dir, &kept));
    }
    return QG_OK;
}

/* --- DynamicQuantizeLSTM --------------------------------------------------------- */

static qg_status prepare_dynamic(qg_ctx *ctx, const qg_node *node, void *param)
{
    ((qg_rnn_param *)param)->dynamic = true;
    return prepare_lstm(ctx, node, param);
}

/* Weights in codes, [dirs, from, to], as floats [dirs, to, from]; the type only when
 * there is no data. */
static qg_status load_weights(const qg_call *k, size_t slot, size_t scale_slot,
                              qg_tensor *out)
{
    const qg_tensor *w = k->in[slot], *scale = k->in[scale_slot],
                    *zero = k->in[scale_slot + 1];
    int64_t dim[3] = { w->rank == 3 ? w->dim[0] : -1, w->rank == 3 ? w->dim[2] : -1,
                       w->rank == 3 ? w->dim[1] : -1 };
    qg_tensor_init(out, QG_F32, 3, dim);
    int64_t count = qg_tensor_count(scale), all;
    if (__builtin_mul_overflow(dim[0], dim[1], &all))
        all = -1;
    if (count >= 0 && dim[0] >= 0 && dim[1] >= 0 && count != dim[0] && count != all)
        return qg_infer_fail(
            k, QG_EMODEL, "input %zu has %lld scales, expected %lld or %lld",
            scale_slot, (long long)count, (long long)dim[0], (long long)all);
    if (count >= 0 && qg_tensor_count(zero) >= 0 && qg_tensor_count(zero) != count)
        return qg_infer_fail(k, QG_EMODEL,
                             "input %zu has %lld zero points, expected "
                             "%lld",
                             scale_slot + 1, (long long)qg_tensor_count(zero),
                             (long long)count);
    if (!w->data || !scale->data || !zero->data)
        return QG_OK;
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, out));
    int64_t from = dim[2], to = dim[1], each = count == dim[0] ? to : 1;
    for (int64_t i = 0, n = qg_tensor_count(w); i < n; i++) {
        int64_t d = i / (from * to), r = i / to % from, c = i % to;
        int64_t s = (d * to + c) / each;
        bool is_signed = w->dtype == QG_I8;
        int code = is_signed ? w->i8[i] - zero->i8[s] : w->u8[i] - zero->u8[s];
        out->f32[(d * to + c) * from + r] = (float)code * scale->f32[s];
    }
    return QG_OK;
}

/* The LSTM of floats that it is, apart from the rounding of X and h. */
static qg_status as_lstm(const qg_call *k, qg_status (*act)(const qg_call *))
{
    const qg_tensor *in[QG_RNN_INPUTS];
    qg_tensor w[2];
    qg_call call = *k;
    for (size_t i = W_SCALE; i <= R_ZERO; i++)
        if (!qg_in(k, i))
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent, expected a value",
                                 i);
    memcpy(in, k->in, sizeof in);
    for (size_t i = 0; i < 2; i++) {
        size_t scale = i ? R_SCALE : W_SCALE;
        QG_TRY(qg_check_type(k, QG_RNN_W + i, QG_DT_BYTES));
        QG_TRY(qg_check_rank(k, QG_RNN_W + i, 3, 3));
        QG_TRY(qg_check_type(k, scale, QG_DT(F32)));
        QG_TRY(qg_check_type(k, scale + 1, UINT64_C(1) << k->in[QG_RNN_W + i]->dtype));
        QG_TRY(load_weights(k, QG_RNN_W + i, scale, &w[i]));
        in[QG_RNN_W + i] = &w[i];
    }
    call.in = in;
    call.n_in = QG_RNN_INPUTS;
    return act(&call);
}

static qg_status infer_dynamic(const qg_call *k)
{
    QG_TRY(qg_check_type(k, QG_RNN_X, QG_DT(F32)));
    return as_lstm(k, infer);
}

static qg_status run_dynamic(const qg_call *k) { return as_lstm(k, recur); }

/* --- compiled ------------------------------------------------------------------ */

/* w [gates n][k] as panels, every gate rounded up to whole ones with rows of zeros. */
static qg_status pack(const qg_compile *c, const float *w, int64_t gates, int64_t n,
                      int64_t k, qg_panels *out)
{
    const int64_t gap = (n + QG_PANEL - 1) / QG_PANEL * QG_PANEL;
    float *at = QG_NEWN(c->arena, (size_t)(gates * gap * k), float);
    if (!at)
        return qg_nomem(c->ctx);
    for (int64_t g = 0; g < gates; g++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t row = g * gap + j;
            float *to = at + row / QG_PANEL * k * QG_PANEL + row % QG_PANEL;
            for (int64_t i = 0; i < k; i++)
                to[i * QG_PANEL] = w[(g * n + j) * k + i];
        }
    *out = (qg_panels){ at, gates * gap, k };
    return QG_OK;
}

/* Each direction is a part. */
static qg_status packed_part(const qg_kernel *kernel, const qg_call *k, uint32_t i)
{
    const directed *packed = (const directed *)kernel->state + i;
    extent e = qg_rnn_extent_of(k);
    e.width = packed->w.n;
    return run_direction(k, &e, packed, i, NULL);
}

static qg_status run_packed(const qg_kernel *kernel, const qg_call *k)
{
    for (uint32_t i = 0; i < qg_rnn_directions(k->param); i++)
        QG_TRY(packed_part(kernel, k, i));
    return QG_OK;
}

/* Constant float32 weights; others run by reference. */
static qg_status compile(qg_compile *c, qg_kernel **out)
{
    const qg_call k = qg_compile_call(c);
    const qg_rnn_param *p = c->node->param;
    const extent e = qg_rnn_extent_of(&k);
    *out = NULL;
    if (c->in[QG_RNN_X]->dtype != QG_F32 || !c->in[QG_RNN_W]->data ||
        !c->in[QG_RNN_R]->data || qg_tensor_count(c->in[QG_RNN_X]) == 0 ||
        qg_tensor_count(c->in[QG_RNN_R]) == 0)
        return QG_OK;
    directed *dirs = QG_NEWN(c->arena, (size_t)e.dirs, directed);
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!dirs || !kernel)
        return qg_nomem(c->ctx);
    for (int64_t d = 0; d < e.dirs; d++) {
        const float *w = c->in[QG_RNN_W]->f32 + d * e.rows * e.in;
        const float *r = c->in[QG_RNN_R]->f32 + d * e.rows * e.n;
        QG_TRY(pack(c, w, p->kind->gates, e.n, e.in, &dirs[d].w));
        QG_TRY(pack(c, r, p->kind->gates, e.n, e.n, &dirs[d].r));
        if (p->kind->gates == 3 && !p->linear_before_reset)
            QG_TRY(pack(c, r + 2 * e.n * e.n, 1, e.n, e.n, &dirs[d].hidden));
    }
    const double work = (double)e.dirs * (double)e.time * (double)e.batch *
                        (double)e.rows * (double)(e.in + e.n);
    const bool parts = qg_compile_parts(c, e.dirs, work) == e.dirs;
    *kernel = (qg_kernel){ .run = run_packed,
                           .part = packed_part,
                           .parts = parts ? (uint32_t)e.dirs : 1,
                           .state = dirs,
                           .name = "panels" };
    *out = kernel;
    return QG_OK;
}

#define ROW(onnx, opset, kind, inputs, outputs)                                        \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 3, .max_in = (inputs), .min_out = 0, \
        .max_out = (outputs), .in_roles = "dwwbsddf",                                  \
        .traits = QG_OP_COMPUTE | QG_OP_PURE, .param_size = sizeof(qg_rnn_param),      \
        .prepare = prepare_##kind, .infer = infer, .run = run, .compile = compile,     \
        .backward = backward                                                           \
    }
/* clang-format off */
const qg_op qg_ops_rnn[] = {
    ROW("RNN", 1, rnn, 6, 2),
    ROW("RNN", 7, rnn, 6, 2),
    ROW("RNN", 14, rnn, 6, 2),
    ROW("RNN", 22, rnn, 6, 2),
    ROW("GRU", 1, gru, 6, 2),
    ROW("GRU", 3, gru, 6, 2),
    ROW("GRU", 7, gru, 6, 2),
    ROW("GRU", 14, gru, 6, 2),
    ROW("GRU", 22, gru, 6, 2),
    ROW("LSTM", 1, lstm, 8, 3),
    ROW("LSTM", 7, lstm, 8, 3),
    ROW("LSTM", 14, lstm, 8, 3),
    ROW("LSTM", 22, lstm, 8, 3),
    { .name = "DynamicQuantizeLSTM", .domain = "com.microsoft", .since = 1,
      .min_in = 3, .max_in = 12, .min_out = 0, .max_out = 3,
      .in_roles = "dwwbsddffsfs", .traits = QG_OP_QUANTIZER | QG_OP_PURE,
      .param_size = sizeof(qg_rnn_param), .prepare = prepare_dynamic,
      .infer = infer_dynamic, .run = run_dynamic },
    { 0 },
};
/* clang-format on */
