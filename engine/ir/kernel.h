/* kernel.h -- a node compiled for fixed shapes, with a say in memory layouts.
 *
 * The plan asks op->compile once per node with every shape known.  The operator answers
 * with a kernel: what it runs, in which layout it wants its first input and gives its
 * first output, and how many of the following nodes it absorbed.
 *
 * Layouts   PLAIN          dense row-major, what op->run takes
 *           CHANNELS_LAST  N, spatial..., C in memory; the tensor's strides say so
 *           BLOCKED        known to the kernel library only (format below), padded
 *           ANY            element-wise kernels: whatever comes in goes out
 * The plan reorders where a producer's layout differs from what a consumer takes. */
#ifndef QG_ENGINE_IR_KERNEL_H
#define QG_ENGINE_IR_KERNEL_H

#include "engine/ir/graph.h"

enum qg_layout { QG_LAYOUT_PLAIN, QG_LAYOUT_CHANNELS_LAST, QG_LAYOUT_BLOCKED,
                 QG_LAYOUT_ANY };

enum { QG_MAX_ABSORBED = 3 }; /* nodes that one kernel may take over behind its own */

struct qg_kernel {
    qg_status (*run)(const qg_kernel *k, const qg_call *call);
    void (*destroy)(qg_kernel *k); /* releases handles of other libraries; may be NULL */
    void *state;                   /* in the plan's arena, read-only while running */
    enum qg_layout in_layout[4];   /* of inputs 0..3; the rest and constants are plain */
    enum qg_layout out_layout;     /* of output 0; the rest are plain */
    uint32_t in_place;             /* as in qg_op */
    uint32_t absorbed;             /* how many of compile->chain it computes as well */
    const char *name;              /* "dnnl:brgconv", for reports */
};

/* What the operator may use while compiling. */
struct qg_compile {
    qg_ctx *ctx;
    qg_arena *arena; /* the plan's */
    const qg_node *node;
    const qg_tensor *const *in; /* shapes; data only for constants */
    const qg_tensor *const *out;
    /* Nodes that may be absorbed, in order: each consumes the output before it (nobody
     * else does) and no rounding and no hook stands between.  extra[i] is the slot of
     * chain[i] that is NOT fed by the chain (the other operand of an Add), or -1. */
    const qg_node *const *chain;
    size_t n_chain;
    bool reference; /* --kernels reference: the caller wants op->run; answer NULL */
};

#endif
