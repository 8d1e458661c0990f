/* tape.h -- part of a quantized graph, forward with fake quantization and backward: the
 * gradients of a loss with respect to weights, biases, scales and inputs.
 *
 *     forward    each node runs its definition (op->run); endpoints round as in mode
 *                simulate, constants too
 *     backward   the nodes in the opposite order (op->backward); through a rounding
 *                with a straight-through derivative (step_gradient.h)
 *
 * Inputs   values that the part reads and does not compute, constants excepted
 * Outputs  values that it computes and that are read outside of it, or are outputs of
 *          the graph
 * Weights  float32 constants at slots with the role weight, bias or gain of nodes of
 *          the part, which no node outside reads; copies, which start as the graph's
 * Steps    parameters of roots that round inside of the part.  One may be learned when
 *          it is linear, static, per tensor or per channel, its gradient fits
 *          (step_gradient.h), and every endpoint of its group that rounds lies inside.
 *          A derived scale (of a bias) follows its lenders.
 *
 * Example  y = Conv(x, w, b) alone in the part, with all endpoints quantized:
 *
 *     in {x}   out {y}   weight {w: role w, b: role b}
 *     step of w, y    learned: their groups lie inside
 *     step of x       fixed where its group reaches outside; none where the producer
 *                     of x rounds for this node, too
 *     step of b       derived: s_b = s_x s_w, computed at the start of each forward
 *
 * A weight that several slots read has the sum of their gradients; so has a step that
 * several endpoints of its group round with.
 *
 * Owner    the tape owns its copies; graph and quant must outlive it and stay
 *          unchanged.
 * Memory   activations of one sample, their rounded copies and their gradients; with
 *          `recomputes` those of one segment (segment.h) and of the values between
 *          segments, for a second forward of all segments but the last.
 * Bits     results do not depend on threads or on the CPU: definitions only.
 *
 *     QG_TRY(qg_tape_new(ctx, g, q, &options, &t));
 *     for (each step) {
 *         QG_TRY(qg_tape_forward(t, in));            // in[t->n_in]
 *         ... out_grad[t->n_out] from qg_tape_output(t, k) ...
 *         QG_TRY(qg_tape_backward(t, out_grad));     // weight[i].grad, step[i].grad
 *     }
 *     qg_tape_free(t); */
#ifndef QG_ENGINE_LEARN_TAPE_H
#define QG_ENGINE_LEARN_TAPE_H

#include "engine/learn/step_gradient.h"
#include "engine/quant/tqc.h"

/* A trainable constant. */
typedef struct qg_tape_weight {
    const qg_value *value;
    char role;       /* of the slot that made it trainable: w, b or g */
    qg_tensor now;   /* to be changed between steps */
    qg_tensor start; /* as in the graph */
    qg_tensor grad;  /* of the last backward */
    uint32_t step;   /* in tape->step, of the endpoints that read it; QG_NONE: none, or
                      * several */
    bool on_grid;    /* set by the caller: `now` is not rounded */
} qg_tape_weight;

/* The parameters of one root. */
typedef struct qg_tape_step {
    const qg_tqc *root;
    bool learned;    /* else fixed, and grad stays 0 */
    size_t n;        /* number of scales */
    float *scale;    /* [n] to be changed between steps; > 0 */
    float *start;    /* [n] as in the records */
    double *grad;    /* [n] of the last backward, with the factor of LSQ */
    bool shifts;     /* the border is learned, too (step_gradient.h); only if learned */
    int32_t *offset; /* [n] zero points, to be changed if it shifts; NULL: 0 */
    int32_t *offset_start; /* [n] as in the records; NULL: 0 */
    double *border_grad;   /* [n] of the last backward */
    size_t rounds;         /* elements rounded by each scale in one forward */
    uint32_t lender[2];    /* in tape->step; of a derived scale only */
} qg_tape_step;

typedef struct qg_tape qg_tape;
struct qg_tape {
    qg_ctx *ctx;
    const qg_graph *graph;
    size_t n_in, n_out;
    const qg_value **in, **out; /* [n_in], [n_out] by id */
    size_t n_weight, n_step;
    qg_tape_weight *weight; /* [n_weight] by value id */
    qg_tape_step *step;     /* [n_step] by TQC id */
    qg_step_gradient gradient;
    bool rounds;           /* false: forward and backward in float; set by the caller */
    uint64_t drop;         /* not 0: the next forward rounds activations with drop.h,
                            * drawn from this number; set by the caller */
    size_t place;          /* among the copies that work together (tapes.h) */
    const qg_tape *leader; /* whose parameters and `rounds` count; NULL: its own */
    struct qg_tape_state *state;
};

typedef struct qg_tape_options {
    const uint8_t *part;       /* [nodes] 1: in it; borrowed for the call */
    bool learns;               /* false: no gradient passes nodes that have none */
    qg_step_gradient gradient; /* of all steps */
    bool recomputes;           /* needs less memory and more time: the same bits */
    const uint8_t *watched;    /* [values] 1: its gradient is there after backward even
                                * if the tape recomputes; NULL: none; borrowed */
} qg_tape_options;

/* The graph is inferred (infer.h).  QG_EUNSUPPORTED names the first node of the part
 * whose operator has no gradient, unless the node computes nothing from activations or
 * the part does not learn. */
QG_NODISCARD qg_status qg_tape_new(qg_ctx *ctx, qg_graph *g, const qg_quant *q,
                                   const qg_tape_options *o, qg_tape **out);
void qg_tape_free(qg_tape *t); /* NULL is fine */

/* Frees the activations and gradients of the last forward; a later one works. */
void qg_tape_rest(qg_tape *t);

/* From now on t, made of the same part, has the weights and learned scales of the
 * leader, which must outlive it.  Both may work at the same time. */
void qg_tape_follow(qg_tape *t, const qg_tape *leader);

/* Weights and scales as they were when the tape was made. */
void qg_tape_reset(qg_tape *t);

/* The step, which t does not learn, has the scales that another part has learned for
 * its root, from now on and after a reset.  Before qg_tape_follow or after it. */
void qg_tape_inherit(qg_tape *t, size_t step, const qg_tape_step *learned);

/* in[k]: value t->in[k], plain; borrowed until backward is done. */
QG_NODISCARD qg_status qg_tape_forward(qg_tape *t, const qg_tensor *const *in);

/* Output k of the last forward, rounded where its endpoint rounds; valid until the next
 * forward. */
const qg_tensor *qg_tape_output(const qg_tape *t, size_t k);

/* Plain memory for x, not cleared: whoever computes the tensor writes all of it. */
QG_NODISCARD qg_status qg_tape_room(qg_ctx *ctx, qg_arena *a, qg_tensor *x);

/* grad[k]: of output k, plain float32 of its dims; NULL: zero.  Once after a forward.
 * Overwrites the gradients of weights and steps: a caller that needs the mean over a
 * batch adds them up itself. */
QG_NODISCARD qg_status qg_tape_backward(qg_tape *t, const qg_tensor *const *grad);

/* x as [outer, scales, inner]: element i belongs to scale i / inner % channels.
 * Without grids. */
qg_learned_layer qg_tape_layer(const qg_tape_step *s, const qg_tensor *x);

/* Whether the grid of the step is linear and known before a run. */
bool qg_tape_has_grid(const qg_tape_step *s);

/* The gradient of input k after backward; NULL where none arrived. */
const qg_tensor *qg_tape_input_grad(const qg_tape *t, size_t k);

/* The same of any value that the part reads or computes; NULL as well for values that
 * are not watched where the tape recomputes. */
const qg_tensor *qg_tape_value_grad(const qg_tape *t, const qg_value *v);

#endif
