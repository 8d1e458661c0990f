/* plan.h -- a graph compiled for fixed input shapes: a list of steps over tensors that
 * share one block of memory.
 *
 *     qg_plan_new     graph x shapes x mode x mute x watch -> steps, kernels, offsets
 *     qg_run_new      a run context: all mutable memory; one per worker
 *     qg_run_execute  one sample
 *
 * Steps    NODE     an operator's run, or the kernel it compiled
 *          REORDER  a copy of a value in the other layout
 *          ROUND    fake quantization at one endpoint, usually in place, right after
 *                   the value was written
 *          WATCH    hooks are called with a tensor
 *          COPY     a copy of an input for one node, because a hook writes it
 * Tensors  INPUT (the caller's memory), CONSTANT (graph or plan memory), ARENA (an
 *          offset in the run's block), DYNAMIC (shape known at run time only: allocated
 *          then)
 * Values with data-dependent shapes are DYNAMIC, and so are all values derived from
 * them.
 *
 * A plan is immutable and shared by workers.  A fusion (a kernel that absorbs its
 * followers) is used only where it is bit-identical to the separate nodes, so watching,
 * muting and quantizing never change results elsewhere.
 *
 * Owner    the plan's own arena; graph and quant must outlive it and stay unchanged.
 *
 * Invariants of a plan (asserted while it is built):
 *
 *     every tensor is written before it is read, so the block is never cleared
 *     two storages that are alive at one step do not overlap, unless one took over
 *       the other (same_as), which only happens at the other's last read
 *     offsets are multiples of 64 bytes
 *
 * Parts    with threads above 1 a run has a team, which computes the parts of large
 *          steps (plan_split.c).  Parts are used only where they give the bits of the
 *          whole, so results do not depend on the number of threads
 *
 * Cost: one pass over the graph, plus packing, O(n^2) in the storages for up to 4096
 * of them and O(n log n) above; report.bytes / report.lower_bound measures the quality
 * of the packing.
 *
 * A partial run, for many small variations of the network on one sample:
 *
 *     base     plan with keep_all; run once per sample, holds all activations
 *     partial  plan with base: the cone downstream of changed endpoints
 *     qg_run_execute_from(partial run, base run, ...) gives the same bits as a whole
 *     run */
#ifndef QG_ENGINE_EXEC_PLAN_H
#define QG_ENGINE_EXEC_PLAN_H

#include "engine/exec/hook.h"
#include "engine/ir/kernel.h"
#include "engine/quant/fake_kernel.h"
#include "engine/quant/quantizer.h"

/* FLOAT ignores the TQCs, except that baked constants stay baked; SIMULATE quantizes
 * wherever a TQC is active. */
enum qg_mode { QG_MODE_FLOAT, QG_MODE_SIMULATE };

/* All pointers are borrowed and must outlive the plan. */
typedef struct qg_plan_options {
    enum qg_mode mode;
    const qg_quant *quant; /* for SIMULATE */
    const uint8_t *mute;   /* [TQCs] 1: this quantizer is disabled; NULL: none */
    /* [TQCs] substitutes for endpoints, each with the same id and its own dominator;
     * entries may be NULL.  For analyses that must not change the records. */
    const qg_tqc *const *instead;
    const uint8_t *watch; /* [nodes] 1: hooks see this node; NULL: none */
    bool watch_all;       /* as watch with every node set */
    /* Hooks also see values computed while the plan was made: the endpoints of folded
     * nodes, and constants before rounding. */
    bool show_all;
    /* [nodes] NULL, or [qg_node_endpoints] 1: a hook writes there.  At an input only
     * this node reads the change; a constant written there is no longer a constant.  At
     * an output all consumers read it.  NULL: nowhere.  Not with base. */
    const uint8_t *const *write;
    const uint32_t *keep; /* [n_keep] ids of values that a run holds until the next one,
                           * for qg_run_kept */
    size_t n_keep;
    /* Nodes that an opaque one feeds (ir/opaque.h) are left out, and outputs that need
     * them have no tensor: for whoever reads none, as calibration.  Without it they are
     * an error. */
    bool executable;
    /* Threads that compute one sample together; 0 or 1: one.  Results do not depend on
     * it. */
    unsigned threads;
    bool split_small; /* parts of steps that are too small for them, for tests */
    bool reference;   /* op->run only: the same bytes on every machine */
    /* [values] 1: a constant as the float network has it (qg_graph_untuned); NULL: none
     * with SIMULATE.  FLOAT: all constants. */
    const uint8_t *untuned;
    const qg_tensor *input; /* [graph inputs] shapes that replace the declared ones */

    /* Partial runs.  A plan made with keep_all gives every computed value its own
     * memory, so that a run context has all of them afterwards, except values absorbed
     * by a kernel.  A plan made with `base` (such a plan of the same graph and input
     * shapes) contains only nodes downstream of endpoints quantized differently from
     * the base, and of `changed`; it reads everything else from a run of the base, and
     * uses the base's kernels for nodes with the same computation. */
    bool keep_all;
    const struct qg_plan *base;
    const uint8_t *changed; /* [nodes] 1: runs again in any case; NULL: none */
} qg_plan_options;

/* Where the bytes are; see the file comment.  ABSENT: an optional output. */
enum qg_tensor_kind {
    QG_TENSOR_ABSENT,
    QG_TENSOR_INPUT,
    QG_TENSOR_CONSTANT,
    QG_TENSOR_ARENA,
    QG_TENSOR_BASE,
    QG_TENSOR_DYNAMIC
};

/* The operand of a step: a value, or a rounded or reordered copy of a value. */
typedef struct qg_plan_tensor {
    qg_tensor type; /* strides of its layout; data only for constants */
    enum qg_tensor_kind kind;
    uint32_t storage; /* ARENA: index into plan->storage; INPUT: graph input index;
                       * BASE: tensor of the base plan */
} qg_plan_tensor;

/* A piece of the run's block, in use from the step that writes it to its last
 * reader. */
typedef struct qg_storage {
    size_t bytes, offset; /* size, and place in the block (multiple of 64) */
    uint32_t first, last; /* step indices; last UINT32_MAX: until the end */
    uint32_t same_as;     /* another storage whose memory it reuses, or QG_NONE */
} qg_storage;

/* See the file comment. */
enum qg_step_kind {
    QG_STEP_NODE,
    QG_STEP_REORDER,
    QG_STEP_ROUND,
    QG_STEP_WATCH,
    QG_STEP_COPY
};

/* One thing to do; steps run in order.  A control-flow node is one step that runs
 * the plans of its bodies. */
typedef struct qg_step {
    enum qg_step_kind kind;
    const qg_node *node;     /* NODE: runs here; ROUND, WATCH: its endpoint */
    const qg_kernel *kernel; /* NODE: NULL means node->op->run */
    uint32_t kernel_index;   /* in plan->kernel, or that of the base */
    bool of_base;            /* NODE: the kernel is the base's, with its run's state */
    bool dynamic;            /* NODE: infer at run time; allocate outputs of unknown
                              * shape */
    uint32_t n_in, n_out;    /* of the slots; ROUND, REORDER, COPY read and write one */
    uint32_t first; /* its tensor indices: plan->slot[first ..], inputs then outputs */
    qg_hook_point at; /* ROUND, WATCH */
    uint32_t parts;   /* that threads compute apart; 0: one thread computes all */
    int32_t axis;     /* parts are slices along it; -1: parts of the kernel */
    const qg_linear *linear; /* ROUND: one scale for the whole array; NULL: the general
                              * way, qg_tqc_round */
} qg_step;

/* Counts for reports; bytes are per run context. */
typedef struct qg_plan_report {
    uint32_t nodes, steps, kernels, absorbed, rounds, reorders;
    size_t bytes;       /* activation block of a run context */
    size_t lower_bound; /* largest sum of bytes alive at one step */
    size_t rounded;     /* bytes rounded per run */
    uint32_t split;     /* steps that threads compute in parts */
    uint32_t parts;     /* of the step that has most; 0: no step has */
} qg_plan_report;

/* The compiled form of a node of a plan with keep_all. */
typedef struct qg_plan_node {
    bool made;                  /* false: absorbed, or not needed */
    const qg_tensor *const *in; /* [n_in] constants on their grid; NULL elsewhere */
    uint32_t kernel;            /* in plan->kernel; QG_NONE: op->run */
} qg_plan_node;

/* A constant on its grid, in memory of its own; arena NULL: a kernel has packed it, and
 * the copy is gone. */
typedef struct qg_plan_copy {
    qg_arena *arena; /* owned */
    const void *data;
} qg_plan_copy;

/* Read-only once made. */
typedef struct qg_plan {
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_graph *graph;         /* borrowed */
    qg_plan_options options;       /* as given; pointers stay borrowed */
    QG_VEC(qg_plan_tensor) tensor; /* graph inputs first, in their order */
    QG_VEC(qg_storage) storage;    /* pieces of the block */
    QG_VEC(qg_step) step;          /* in order of execution */
    QG_VEC(uint32_t) slot;         /* tensor indices; QG_NONE: absent */
    QG_VEC(qg_kernel *) kernel;    /* owned: destroyed with the plan */
    QG_VEC(qg_plan_copy) rounded;  /* large constants on their grid */
    struct qg_plan **body; /* [body graphs, by discovery] of control-flow nodes */
    size_t n_body;         /* number of body plans */
    uint32_t *output;      /* [graph outputs] tensor index; QG_NONE: left out */
    uint32_t *kept;        /* [options.n_keep] tensor index */
    uint8_t *strange;      /* [values] may hold a NaN; those of the base */
    /* keep_all only, for partial plans: */
    uint32_t (*place)[2];          /* [values] tensor per layout, QG_NONE */
    struct qg_plan_node *made;     /* [nodes] compiled form of each */
    const qg_tensor *type;         /* [values] as inferred */
    const qg_tensor *const *known; /* [values] constants and folded values, or NULL */
    qg_plan_report report;
} qg_plan;

/* Compiles g.  Data-dependent shapes are determined at run time; everything else is
 * checked here, so that a run can fail only because of its data.  QG_EMODEL,
 * QG_EUNSUPPORTED or QG_ENOMEM; o->quant is required for SIMULATE (asserted). */
QG_NODISCARD qg_status qg_plan_new(qg_ctx *ctx, const qg_graph *g,
                                   const qg_plan_options *o, qg_plan **out);
void qg_plan_free(qg_plan *p); /* NULL is fine */

#endif
