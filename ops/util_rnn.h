/* util_rnn.h -- what the two halves of recurrent operators have in common: rnn.c runs
 * them, util_rnn.c has their gradients.
 *
 * Gradients  of one direction, from what run had in every step (qg_rnn_kept):
 *
 *     for b; for s = last .. first step of sequence b, dh and dc those of the state
 *     behind step s:
 *         dh += dY                       dp: of the input of each gate's activation
 *         RNN    dp = f' dh
 *         GRU    dp_h = g' (1 - z) dh    dp_z = f' (h - h") dh    dp_r = f' q dp_h
 *                q = R_h h + rb with linear_before_reset, else dp_r = f' h R_h' dp_h
 *         LSTM   dc += o h'(c') dh       dp_o = f' h(c') dh, and P_o dp_o to dc
 *                dp_i = f' g dc          dp_f = f' c dc      dp_g = g' i dc
 *         dh = R' dp + what passes by    dc = f dc + P_i dp_i + P_f dp_f
 *     dX = dp W    dW = dp' X    dR = dp' h    dB = sum of dp
 *
 * A gate that `clip` limits has slope 0.  Steps behind the end of a sequence have no
 * gradient; with length 0 the state passes through.
 * Sums     matrix products as in MatMul (accel.h); of biases and peepholes in double,
 *          in the order above
 * Memory   of all steps: gates before and after activation, states, dp: per direction
 *          time x batch x (4 G + 5) H floats, in the scratch of the call
 * Source   the chain rule on the equations of rnn.c; Hochreiter and Schmidhuber 1997,
 *          Cho et al. 2014 for the cells */
#ifndef QG_OPS_UTIL_RNN_H
#define QG_OPS_UTIL_RNN_H

#include "engine/ir/op.h"
#include "ops/util_activation.h"

enum { QG_RNN_FUNCTIONS = 6 }; /* three of an LSTM, two directions */
enum qg_rnn_direction { QG_RNN_FORWARD, QG_RNN_REVERSE, QG_RNN_BIDIRECTIONAL };

/* Slots. */
enum {
    QG_RNN_X,
    QG_RNN_W,
    QG_RNN_R,
    QG_RNN_B,
    QG_RNN_LENGTHS,
    QG_RNN_H0,
    QG_RNN_C0,
    QG_RNN_P,
    QG_RNN_INPUTS
};

typedef struct qg_rnn_cell qg_rnn_cell; /* rnn.c */

/* Differences between the three operators. */
typedef struct qg_rnn_kind {
    int64_t gates;
    size_t n_functions;
    const char *const *preset;
    void (*step)(const qg_rnn_cell *c, int64_t b);
} qg_rnn_kind;

typedef struct qg_rnn_param {
    const qg_rnn_kind *kind;
    int direction;
    int64_t hidden; /* 0: not given */
    bool batch_first, couple, linear_before_reset;
    bool dynamic; /* X and h are rounded before products */
    float clip;   /* 0: none */
    qg_activation function[QG_RNN_FUNCTIONS];
} qg_rnn_param;

/* Memory layout: element [t][b] of X is row t * x_time + b * x_batch, and so on; the
 * same for both values of layout. */
typedef struct qg_rnn_extent {
    int64_t time, batch, in, n, rows, dirs;
    int64_t width;                  /* rows, or more where gates are packed */
    int64_t x_time, x_batch;        /* rows of X */
    int64_t y_time, y_batch, y_dir; /* rows of Y, n elements each */
    int64_t s_batch, s_dir;         /* rows of Y_h and the initial states */
} qg_rnn_extent;

qg_rnn_extent qg_rnn_extent_of(const qg_call *k);
size_t qg_rnn_directions(const qg_rnn_param *p);

/* Lengths beyond time are clamped: data must not cause accesses outside. */
int64_t qg_rnn_length(const qg_call *k, const qg_rnn_extent *e, int64_t b);

/* Which row of time step s reads, of a sequence of that length. */
int64_t qg_rnn_time(const qg_rnn_param *p, int64_t dir, int64_t length, int64_t s);

/* [a * b] zeros in scratch; NULL also when the size overflows. */
float *qg_rnn_zeros(const qg_call *k, int64_t a, int64_t b);

/* What one direction computed, by rows of X; G gates of n elements. */
typedef struct qg_rnn_kept {
    float *before;  /* [time * batch][G n] inputs of the activations, not clipped */
    float *gate;    /* [time * batch][G n] after them */
    float *h, *c;   /* [time * batch][n] states before the step */
    float *c_after; /* [time * batch][n] and behind it */
} qg_rnn_kept;

/* Gradients of all slots become 0; then each direction adds its own. */
void qg_rnn_backward_begin(const qg_backward *b);
QG_NODISCARD qg_status qg_rnn_backward(const qg_backward *b, int64_t dir,
                                       const qg_rnn_kept *kept);

#endif
