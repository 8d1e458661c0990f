/* util_rnn.c -- one direction goes back through its steps, a sequence after the other,
 * which leaves dp of all steps; the gradients of weights and X are then four products
 * over all of them. */
#include "ops/util_rnn.h"

#include <math.h>
#include <string.h>

#include "engine/accel/accel.h"
#include "ops/util_check.h"

size_t qg_rnn_directions(const qg_rnn_param *p)
{
    return p->direction == QG_RNN_BIDIRECTIONAL ? 2 : 1;
}

qg_rnn_extent qg_rnn_extent_of(const qg_call *k)
{
    const qg_rnn_param *p = k->param;
    bool first = p->batch_first;
    const qg_tensor *x = k->in[QG_RNN_X];
    qg_rnn_extent e = { .time = x->dim[first],
                        .batch = x->dim[!first],
                        .in = x->dim[2],
                        .n = k->in[QG_RNN_R]->dim[2],
                        .dirs = (int64_t)qg_rnn_directions(p) };
    e.rows = e.width = p->kind->gates * e.n;
    e.x_time = first ? 1 : e.batch;
    e.x_batch = first ? e.time : 1;
    e.y_time = first ? e.dirs : e.dirs * e.batch;
    e.y_batch = first ? e.time * e.dirs : 1;
    e.y_dir = first ? 1 : e.batch;
    e.s_batch = first ? e.dirs : 1;
    e.s_dir = first ? 1 : e.batch;
    return e;
}

int64_t qg_rnn_length(const qg_call *k, const qg_rnn_extent *e, int64_t b)
{
    const qg_tensor *t = qg_in(k, QG_RNN_LENGTHS);
    int64_t n = t ? t->i32[b] : e->time;
    return n < 0 ? 0 : n < e->time ? n : e->time;
}

int64_t qg_rnn_time(const qg_rnn_param *p, int64_t dir, int64_t length, int64_t s)
{
    return p->direction == QG_RNN_REVERSE || dir == 1 ? length - 1 - s : s;
}

float *qg_rnn_zeros(const qg_call *k, int64_t a, int64_t b)
{
    return (size_t)a > SIZE_MAX / sizeof(float) / (b ? (size_t)b : 1)
               ? NULL
               : QG_NEWN(k->scratch, (size_t)(a * b), float);
}

/* --- one step -------------------------------------------------------------------- */

/* One direction on its way back. */
typedef struct back {
    const qg_backward *b;
    const qg_rnn_param *p;
    const qg_activation *function;
    const qg_rnn_kept *kept;
    qg_rnn_extent e;
    int64_t dir;
    const float *r, *rb, *peephole; /* of the direction; NULL: absent */
    float *input;                   /* [time * batch][G n]: dL/d of W x */
    float *recurrent; /* [time * batch][G n]: dL/d of R h; the same but for GRU */
    float *source;    /* [time * batch][n]: what R of a GRU's hidden gate multiplies */
    double *dh, *dc;  /* [n] of the state behind, then before the step */
    double *passed;   /* [n] of dh, past the gates */
    double *reset;    /* [n] of the product of r and h */
    double *looked;   /* [3 n] of the peepholes, all steps */
} back;

/* Slope of function f at the input of element i of a row; 0 where it is clipped. */
static double slope(const back *k, int f, int64_t row, int64_t i)
{
    const double x = (double)k->kept->before[row * k->e.rows + i];
    if (k->p->clip > 0 && fabs(x) > (double)k->p->clip)
        return 0;
    return qg_activation_slope(&k->function[f], x);
}

/* The result of gate g, element j. */
static double result(const back *k, int64_t row, int64_t g, int64_t j)
{
    return (double)k->kept->gate[row * k->e.rows + g * k->e.n + j];
}

/* dL/d of the input of gate g. */
static void give(const back *k, int64_t row, int64_t g, int64_t j, double d)
{
    const int64_t at = row * k->e.rows + g * k->e.n + j;
    k->input[at] = k->recurrent[at] = (float)d;
}

static void rnn_back(const back *k, int64_t row)
{
    for (int64_t j = 0; j < k->e.n; j++)
        give(k, row, 0, j, slope(k, 0, row, j) * k->dh[j]);
}

/* Adds R' d of one gate: what its product gives back to h. */
static void through(const back *k, int64_t row, int64_t g, double *to)
{
    const int64_t n = k->e.n;
    const float *d = k->recurrent + row * k->e.rows + g * n, *r = k->r + g * n * n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            to[j] += (double)d[i] * (double)r[i * n + j];
}

/* R_h h + rb, element j. */
static double linear(const back *k, int64_t row, int64_t j)
{
    const int64_t n = k->e.n;
    const float *r = k->r + (2 * n + j) * n, *h = k->kept->h + row * n;
    double sum = k->rb ? (double)k->rb[2 * n + j] : 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)r[i] * (double)h[i];
    return sum;
}

/* Gates z, r, h; that of r needs dp of all of h. */
static void gru_back(const back *k, int64_t row)
{
    const int64_t n = k->e.n;
    const float *h = k->kept->h + row * n;
    const bool last = k->p->linear_before_reset;
    for (int64_t j = 0; j < n; j++) {
        const double z = result(k, row, 0, j), candidate = result(k, row, 2, j);
        give(k, row, 0, j, slope(k, 0, row, j) * ((double)h[j] - candidate) * k->dh[j]);
        give(k, row, 2, j, slope(k, 1, row, 2 * n + j) * (1 - z) * k->dh[j]);
        k->passed[j] = z * k->dh[j];
    }
    memset(k->reset, 0, (size_t)n * sizeof *k->reset);
    if (!last)
        through(k, row, 2, k->reset);
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = row * k->e.rows + 2 * n + j;
        const double r = result(k, row, 1, j);
        const double dr = last ? (double)k->input[at] * linear(k, row, j)
                               : k->reset[j] * (double)h[j];
        give(k, row, 1, j, slope(k, 0, row, n + j) * dr);
        k->source[row * n + j] = last ? h[j] : (float)(r * (double)h[j]);
        k->passed[j] += k->reset[j] * r;
    }
    for (int64_t j = 0; last && j < n; j++)
        k->recurrent[row * k->e.rows + 2 * n + j] *= (float)result(k, row, 1, j);
}

/* Of peephole p [n], which multiplies `state`; what goes to that state. */
static double look(const back *k, int64_t p, int64_t j, double state, double d)
{
    k->looked[p * k->e.n + j] += d * state;
    return k->peephole ? d * (double)k->peephole[p * k->e.n + j] : 0;
}

/* Gates i, o, f, g. */
static void lstm_back(const back *k, int64_t row)
{
    const int64_t n = k->e.n;
    for (int64_t j = 0; j < n; j++) {
        const double i = result(k, row, 0, j), o = result(k, row, 1, j);
        const double f = k->p->couple ? 1 - i : result(k, row, 2, j);
        const double g = result(k, row, 3, j);
        const float after = k->kept->c_after[row * n + j];
        const double c = (double)k->kept->c[row * n + j];
        const double out = slope(k, 0, row, n + j) *
                           (double)qg_activate(&k->function[2], after) * k->dh[j];
        const double dc =
            k->dc[j] +
            k->dh[j] * o * qg_activation_slope(&k->function[2], (double)after) +
            look(k, 1, j, (double)after, out);
        const double in = slope(k, 0, row, j) * (k->p->couple ? g - c : g) * dc;
        const double forget = k->p->couple ? 0 : slope(k, 0, row, 2 * n + j) * c * dc;
        give(k, row, 0, j, in);
        give(k, row, 1, j, out);
        give(k, row, 2, j, forget);
        give(k, row, 3, j, slope(k, 1, row, 3 * n + j) * i * dc);
        k->dc[j] = f * dc + look(k, 0, j, c, in) + look(k, 2, j, c, forget);
    }
}

/* dh of the state behind a step becomes that of the state before it. */
static void step_back(const back *k, int64_t row)
{
    const int64_t gates = k->p->kind->gates, n = k->e.n;
    memset(k->passed, 0, (size_t)n * sizeof *k->passed);
    if (gates == 1)
        rnn_back(k, row);
    else if (gates == 3)
        gru_back(k, row);
    else
        lstm_back(k, row);
    const bool reset_first = gates == 3 && !k->p->linear_before_reset;
    for (int64_t g = 0; g < gates - reset_first; g++)
        through(k, row, g, k->passed);
    memcpy(k->dh, k->passed, (size_t)n * sizeof *k->dh);
}

/* --- a direction ----------------------------------------------------------------- */

static void add_row(const qg_tensor *from, int64_t row, double *to, int64_t n)
{
    for (int64_t j = 0; from && j < n; j++)
        to[j] += (double)from->f32[row * n + j];
}

static void save_row(const double *from, int64_t row, qg_tensor *to, int64_t n)
{
    for (int64_t j = 0; to && j < n; j++)
        to->f32[row * n + j] = (float)from[j];
}

static const qg_tensor *given(const back *k, size_t slot)
{
    return slot < k->b->call->n_out ? k->b->out[slot] : NULL;
}

static qg_tensor *wanted(const back *k, size_t slot)
{
    return slot < k->b->call->n_in ? k->b->in[slot] : NULL;
}

static void sequence_back(const back *k, int64_t b)
{
    const qg_rnn_extent *e = &k->e;
    const int64_t n = e->n, length = qg_rnn_length(k->b->call, e, b);
    const int64_t state = b * e->s_batch + k->dir * e->s_dir;
    memset(k->dh, 0, (size_t)n * sizeof *k->dh);
    memset(k->dc, 0, (size_t)n * sizeof *k->dc);
    add_row(given(k, 1), state, k->dh, n);
    add_row(given(k, 2), state, k->dc, n);
    for (int64_t s = length; s-- > 0;) {
        const int64_t t = qg_rnn_time(k->p, k->dir, length, s);
        const int64_t row = t * e->x_time + b * e->x_batch;
        const int64_t y = t * e->y_time + b * e->y_batch + k->dir * e->y_dir;
        add_row(given(k, 0), y, k->dh, n);
        step_back(k, row);
    }
    save_row(k->dh, state, wanted(k, QG_RNN_H0), n);
    save_row(k->dc, state, wanted(k, QG_RNN_C0), n);
}

/* d' h over all steps; rows of R by their gate. */
static void by_recurrent(const back *k, float *to)
{
    const qg_rnn_extent *e = &k->e;
    const int64_t gates = k->p->kind->gates;
    const bool reset_first = gates == 3 && !k->p->linear_before_reset;
    for (int part = 0; part < 1 + reset_first; part++) {
        const int64_t from = part ? 2 * e->n : 0;
        const int64_t rows = reset_first ? (part ? e->n : 2 * e->n) : e->rows;
        const qg_gemm_problem g = { .m = rows,
                                    .n = e->n,
                                    .k = e->time * e->batch,
                                    .lda = e->rows,
                                    .ldb = e->n,
                                    .ldc = e->n,
                                    .trans_a = true,
                                    .alpha = 1 };
        qg_ref_gemm_f32(&g, k->recurrent + from, part ? k->source : k->kept->h,
                        to + from * e->n);
    }
}

/* d' X, and d W added to what the other direction gave. */
static void by_input(const back *k)
{
    const qg_rnn_extent *e = &k->e;
    const qg_call *call = k->b->call;
    const int64_t at = k->dir * e->rows * e->in, all = e->time * e->batch;
    qg_tensor *w = wanted(k, QG_RNN_W), *x = wanted(k, QG_RNN_X);
    const qg_gemm_problem of_w = { .m = e->rows,
                                   .n = e->in,
                                   .k = all,
                                   .lda = e->rows,
                                   .ldb = e->in,
                                   .ldc = e->in,
                                   .trans_a = true,
                                   .alpha = 1 };
    qg_gemm_problem of_x = qg_gemm_dense(all, e->in, e->rows, false);
    of_x.beta = 1;
    if (w)
        qg_ref_gemm_f32(&of_w, k->input, call->in[QG_RNN_X]->f32, w->f32 + at);
    if (x)
        qg_ref_gemm_f32(&of_x, k->input, call->in[QG_RNN_W]->f32 + at, x->f32);
}

/* Of both halves of B. */
static void by_bias(const back *k, float *to)
{
    const qg_rnn_extent *e = &k->e;
    for (int half = 0; half < 2; half++)
        for (int64_t i = 0; i < e->rows; i++) {
            const float *d = (half ? k->recurrent : k->input) + i;
            double sum = 0;
            for (int64_t row = 0; row < e->time * e->batch; row++)
                sum += (double)d[row * e->rows];
            to[half * e->rows + i] = (float)sum;
        }
}

void qg_rnn_backward_begin(const qg_backward *b)
{
    for (size_t i = 0; i < b->call->n_in; i++)
        if (b->in[i])
            memset(b->in[i]->data, 0,
                   (size_t)qg_tensor_count(b->in[i]) * sizeof *b->in[i]->f32);
}

static qg_status prepare(back *k)
{
    const qg_call *call = k->b->call;
    const int64_t n = k->e.n, rows = k->e.rows, all = k->e.time * k->e.batch;
    const qg_tensor *bias = qg_in(call, QG_RNN_B), *peephole = qg_in(call, QG_RNN_P);
    k->function = k->p->function + (size_t)k->dir * k->p->kind->n_functions;
    k->r = call->in[QG_RNN_R]->f32 + k->dir * rows * n;
    k->rb = bias ? bias->f32 + (2 * k->dir + 1) * rows : NULL;
    k->peephole = peephole ? peephole->f32 + k->dir * 3 * n : NULL;
    k->input = qg_rnn_zeros(call, all, rows);
    k->recurrent = qg_rnn_zeros(call, all, rows);
    k->source = qg_rnn_zeros(call, all, n);
    k->dh = QG_NEWN(call->scratch, (size_t)n, double);
    k->dc = QG_NEWN(call->scratch, (size_t)n, double);
    k->passed = QG_NEWN(call->scratch, (size_t)n, double);
    k->reset = QG_NEWN(call->scratch, (size_t)n, double);
    k->looked = QG_NEWN(call->scratch, (size_t)n * 3, double);
    return k->input && k->recurrent && k->source && k->dh && k->dc && k->passed &&
                   k->reset && k->looked
               ? QG_OK
               : qg_nomem(call->ctx);
}

qg_status qg_rnn_backward(const qg_backward *b, int64_t dir, const qg_rnn_kept *kept)
{
    back k = { .b = b,
               .p = b->call->param,
               .kept = kept,
               .e = qg_rnn_extent_of(b->call),
               .dir = dir };
    QG_TRY(prepare(&k));
    const int64_t n = k.e.n, rows = k.e.rows;
    qg_tensor *r = wanted(&k, QG_RNN_R), *bias = wanted(&k, QG_RNN_B),
              *peephole = wanted(&k, QG_RNN_P);
    for (int64_t i = 0; i < k.e.batch; i++)
        sequence_back(&k, i);
    by_input(&k);
    if (r)
        by_recurrent(&k, r->f32 + dir * rows * n);
    if (bias)
        by_bias(&k, bias->f32 + dir * 2 * rows);
    for (int64_t i = 0; peephole && i < 3 * n; i++)
        peephole->f32[dir * 3 * n + i] = (float)k.looked[i];
    return QG_OK;
}
