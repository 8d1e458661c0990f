/* kernel.h -- a node compiled for fixed shapes, with its choice of memory layouts.
 *
 * The plan asks op->compile once per node with every shape known.  The operator returns
 * a kernel: the function to run, the layouts of its inputs and of its first output, and
 * how many of the following nodes it absorbed.
 *
 * Layouts   PLAIN          dense row-major, required by op->run
 *           CHANNELS_LAST  N, spatial..., C in memory, expressed by the tensor's
 *                          strides
 * The plan reorders where a producer's layout differs from the one a consumer requires.
 * Kernel libraries' own blocked layouts stay inside a kernel (its weights).
 *
 * A compile function that leaves the choice to a library:
 *
 *     static qg_status compile_pool(qg_compile *c, qg_kernel **out)
 *     {
 *         qg_pool_problem q;
 *         qg_call k = qg_compile_call(c);       // the helpers of run, without data
 *         QG_TRY(problem_of(&k, &q));
 *         return qg_accel_pool(c, &q, out);     // *out NULL: run it is
 *     } */
#ifndef QG_ENGINE_IR_KERNEL_H
#define QG_ENGINE_IR_KERNEL_H

#include <math.h>

#include "engine/ir/graph.h"

/* Whole-tensor orders only; see the file comment. */
enum qg_layout { QG_LAYOUT_PLAIN, QG_LAYOUT_CHANNELS_LAST };

enum { QG_MAX_ABSORBED = 6 }; /* nodes after its own that one kernel may absorb */

/* The result of qg_op.compile.  Made once per plan and shared by workers, hence
 * read-only while running except for `local`. */
struct qg_kernel {
    /* call->local is the pointer from open for this run context; NULL without open. */
    qg_status (*run)(const qg_kernel *k, const qg_call *call);

    /* Mutable state of one run context, made once; both may be NULL. */
    qg_status (*open)(const qg_kernel *k, qg_ctx *ctx, void **local);
    void (*close)(const qg_kernel *k, void *local);

    /* The same result in parts, by any number of threads, in any order: `part` with
     * each i < parts writes what run would, bit for bit.  parts 0 or 1: only run.  Each
     * part has a scratch of its own in its call, `local` is that of the run context. */
    uint32_t parts;
    qg_status (*part)(const qg_kernel *k, const qg_call *call, uint32_t i);
    /* Bit a: run may be called for a slice of output 0 along axis a, and the same slice
     * of the inputs; see qg_op.free_axes. */
    uint32_t free_axes;

    void (*destroy)(
        qg_kernel *k);           /* releases handles of other libraries; may be NULL */
    void *state;                 /* in the plan's arena, read-only while running */
    enum qg_layout in_layout[8]; /* of inputs 0..7, constants excepted; others plain */
    bool all_in_alike;           /* variadic: in_layout[0] holds for every input */
    enum qg_layout out_layout;   /* of output 0; the rest are plain */
    uint32_t in_place;           /* as in qg_op */
    uint32_t packed;             /* bit k < 8: it has a copy of constant input k, whose
                                  * data may be gone when it runs */
    uint32_t absorbed;           /* how many of compile->chain it computes as well */
    const char *name;            /* "dnnl brgconv:avx512_core", for reports */
};

/* The inputs of qg_op.compile.  All are borrowed for the call, except `arena`: the
 * kernel must allocate there everything it keeps. */
struct qg_compile {
    qg_ctx *ctx;
    qg_arena *arena; /* the plan's */
    const qg_node *node;
    const qg_tensor *const *in; /* shapes; data only for constants */
    const qg_tensor *const *out;
    const enum qg_layout *in_layout; /* [n_in] how each input lies in memory now */
    /* Nodes that may be absorbed, in order: each alone consumes the output before it,
     * its other inputs are constants or inputs of `node`, which both read as they are,
     * no rounding and no hook is between them. */
    const qg_node *const *chain;
    const qg_tensor *const *const *chain_in; /* constants of each; NULL: no constant */
    size_t n_chain;
    unsigned threads; /* that may compute one sample together; at most 1: no parts */
    bool split_small; /* parts of little work, too */
    bool meets_nan; /* the node may give a NaN, which no clamp may turn into a number */
};

/* The number of parts of a kernel of that many rows and multiplications: at most one
 * per thread and row, and each of some microseconds, which is more than a second thread
 * costs. */
static inline uint32_t qg_compile_parts(const qg_compile *c, int64_t rows, double work)
{
    static const double least = 1e5;
    int64_t n = rows < (int64_t)c->threads ? rows : (int64_t)c->threads;
    if (!c->split_small && (double)n * least > work)
        n = (int64_t)(work / least);
    return n > 1 ? (uint32_t)n : 1;
}

/* How many followers a kernel absorbs that clamps to [low, high] by comparisons which
 * are false for NaN: 1 when the next is a clamp, else 0 and limits without effect. */
static inline uint32_t qg_absorb_clamp(const qg_compile *c, float *low, float *high)
{
    const qg_node *n = c->n_chain ? c->chain[0] : NULL;
    if (n && n->op->clamp && n->op->clamp(n, c->chain_in[0], low, high))
        return 1;
    *low = -INFINITY;
    *high = INFINITY;
    return 0;
}

/* The call that run would get, with data only for constants: lets an operator use the
 * helpers it has for running while it compiles.  Outputs must not be written. */
static inline qg_call qg_compile_call(const qg_compile *c)
{
    return (qg_call){ .ctx = c->ctx,
                      .node = c->node,
                      .param = c->node->param,
                      .n_in = c->node->n_in,
                      .n_out = c->node->n_out,
                      .in = c->in,
                      .out = (qg_tensor *const *)(uintptr_t)c->out };
}

#endif
