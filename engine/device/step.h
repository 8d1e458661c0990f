/* step.h -- an integer program beside the outputs of a device, step by step.
 *
 * A step computes one visible value from the visible values before it: those that the
 * trace holds, and the inputs of the network.  Its inputs are the device's own, so that
 * a difference belongs to the nodes of the step and to no earlier one.  Values that the
 * trace lacks are computed inside of a step.
 *
 *     device begins     qg_device_open: program, samples, trace, pairs, steps
 *     one step          qg_step_cut, changes of the graph, qg_step_try
 *
 * Codes     of float arrays: the nearest code of the value's grid, and the elements
 *           that are on none are counted
 * Units     differences are in steps of the value's grid; of floats, in the value's
 *           unit
 * Threads   graphs are made by one thread; qg_step_try runs in workers */
#ifndef QG_ENGINE_DEVICE_STEP_H
#define QG_ENGINE_DEVICE_STEP_H

#include "engine/ir/cut.h"
#include "engine/device/pair.h"
#include "engine/session/session.h"

/* One visible value. */
typedef struct qg_device_step {
    const qg_value *value;  /* of the model */
    const qg_value *target; /* of the program: value->def computes it */
    qg_pair *pair;
    const qg_stored *stored; /* how the program stores it */
    size_t elements;         /* of a sample */
} qg_device_step;

/* A program, its samples and a trace.  Arrays over values have the index of the
 * value in its graph.  It must stay where it is once opened: the feed's functions
 * point into it.  Steps point to pairs, pairs to themselves (pair.h). */
typedef struct qg_device {
    qg_ctx *ctx;
    qg_model *m; /* or its copy with records */
    qg_arena *arena;
    qg_workload work;
    qg_executable exe;
    qg_api_feed feed;
    qg_model *given; /* whose open dims are those of the samples until close, */
    qg_tensor *open; /* [inputs] as they were; NULL: none are open */
    uint8_t *opened; /* [inputs] which dims */
    qg_trace *trace; /* borrowed */
    qg_pair *pair;   /* [values of the model's graph] */
    uint8_t *stop;   /* [values of the program] visible */
    uint8_t *known,
        *stored;     /* [values of the model] in the trace; and in the program */
    uint32_t *model; /* [values of the program] id in the model's graph, or QG_NONE */
    const qg_tensor **dims, **model_dims; /* [values of the program, of the model] of a
                                           * sample in the trace; NULL: none */
    qg_device_step *step;                 /* [n_step] in order of the program */
    size_t n_step, samples;
    bool unrounded; /* most float arrays of values that the program stores as codes are
                     * on no grid: the dump has what the quantizers read */
    QG_VEC(const qg_trace_array *) unpaired; /* no value has them */
} qg_device;

/* trace NULL: no pairs yet.  profile NULL: that of the backend.  Dims that the network
 * leaves open are taken from the samples where these agree on them. */
QG_NODISCARD qg_status qg_device_open(qg_device *d, qg_model *m,
                                      const qg_workload *work, const char *profile);
/* Pairs the arrays of t, which is borrowed.  QG_EDATA: none has a value. */
QG_NODISCARD qg_status qg_device_pair(qg_device *d, qg_trace *t);
void qg_device_close(qg_device *d); /* also of a zeroed one */

/* Finds grids that the trace does not give: the step of floats that are not on that
 * of the program, and the line of integers that the program does not store over
 * their real values. Before qg_declared_settle. QG_EDATA: an element that is NaN. */
QG_NODISCARD qg_status qg_device_find_grids(qg_device *d);
/* The same function doubts values that the program does not store and that are not
 * what their nodes make of the device's inputs (qg_pair.doubted).  No step reads them
 * then. */
void qg_device_hide_doubted(qg_device *d);

/* Whether the array of v is read on the program's grid, although the trace gives
 * another (declared.h decides). */
void qg_device_refute(qg_device *d, const qg_value *v, bool refuted);

/* The same samples, trace and pairs with the program of another profile; d must outlive
 * it.  Its value types can differ from those of d.  The errors of qg_lower_program. */
QG_NODISCARD qg_status qg_device_by(const qg_device *d, const qg_profile *profile,
                                    qg_device *out);
void qg_device_by_close(qg_device *d); /* also of a zeroed one */

/* The programs of all other shipped profiles that can hold the network.  They borrow
 * from the device that they were opened for. */
typedef struct qg_others {
    QG_VEC(qg_device *) device;
} qg_others;
QG_NODISCARD qg_status qg_others_open(const qg_device *d, qg_others *out);
void qg_others_close(qg_others *o);

/* The graph of a step; its constants are those of the program.  Kernels that read a
 * value whose grid the trace gives otherwise read that grid.  The caller frees
 * out->graph. */
QG_NODISCARD qg_status qg_step_cut(const qg_device *d, const qg_device_step *s,
                                   qg_cut *out);

/* The graph of the same value in real numbers: the nodes of the model in float64, or in
 * float32 where an operator has no other form, on the device's values and on constants
 * as they are rounded, without rounding between.  fused: also from values that the
 * trace holds and the program does not store.  c->graph NULL: it cannot be computed. */
QG_NODISCARD qg_status qg_step_real(const qg_device *d, const qg_device_step *s,
                                    bool fused, qg_cut *out);

/* The differences of one try.  Where dims depend on the data, samples can have other
 * dims than the device's: all elements of the device differ there, by no amount. */
typedef struct qg_tally {
    uint64_t of, differ; /* elements */
    uint64_t off;        /* of the device's, that are on no code */
    double most, total;  /* of the differences; their sum */
    size_t samples;      /* that were run */
    size_t reshaped;     /* samples of other dims, */
    qg_tensor other;     /* and the type of the first of them, as computed */
} qg_tally;

/* How a cut is run.  see (may be NULL) is called for each sample: [elements] of the
 * step's value, computed and the device's; but not for samples of other dims. */
typedef struct qg_step_see {
    qg_status (*see)(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs);
    void *ud;
    size_t limit; /* samples; 0: all */
} qg_step_see;

/* how NULL: all samples, the tally alone. */
QG_NODISCARD qg_status qg_step_try(const qg_device *d, qg_ctx *ctx,
                                   const qg_device_step *s, const qg_cut *c,
                                   const qg_step_see *how, qg_tally *out);

/* The device's value in all samples, read as the program's type and dropped: QG_EDATA
 * names an element that is no such number. */
QG_NODISCARD qg_status qg_step_read(const qg_device *d, const qg_device_step *s);

/* An input of the model that the trace holds and the program stores as it is fed: the
 * trace's elements beside the samples. */
QG_NODISCARD qg_status qg_step_fed(const qg_device *d, const qg_value *v,
                                   const qg_step_see *how, qg_tally *out);

/* The whole program on the samples, beside every step's value: differences of earlier
 * nodes are included.  how: [n_step]; see of each may be NULL.  out: [n_step]. */
QG_NODISCARD qg_status qg_device_whole(const qg_device *d, const qg_step_see *how,
                                       qg_tally *out);

#endif
