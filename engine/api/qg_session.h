/* qg_session.h -- running a model on arrays of the caller, sample by sample.
 *
 *     qg_session_options o;
 *     qg_session_options_init(&o, sizeof o);
 *     qg_status s = qg_session_new(m, &o, &run);       // plan, kernels, memory: once
 *     for (size_t i = 0; !s && i < n; i++)
 *         s = qg_session_run(run, &x[i], 1, &y[i], 1);
 *     qg_session_free(run);
 *
 * Inputs are read where they lie.  An output with data is copied there; one without
 * gets the address of the session's memory.
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_SESSION_H
#define QG_ENGINE_API_QG_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/api/qg_records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- hooks --- */

/* Where a hook is called; valid during the call. */
typedef struct qg_hook_event {
    size_t size; /* as the library was built: fields may be appended */
    const qg_node *node;
    uint32_t slot;
    bool is_output;        /* false: an input, before the node runs */
    bool rounded;          /* false: as computed; true: after the endpoint rounded it */
    const qg_value *value; /* NULL: none */
    const qg_tqc *tqc;     /* in force there; NULL: not quantized, or mode float */
    uint64_t sample;       /* runs of the session before this one; under qg_workload the
                            * index of the sample */
} qg_hook_event;

/* A host's function at endpoints: before a node runs at its inputs, after it at its
 * outputs, in order of execution.  Hooks at one place are called in order of the
 * list.  Nodes inside of bodies (If, Loop, Scan) have no endpoints. */
typedef struct qg_session_hook {
    const char *select; /* glob over endpoints: "Conv_*.out0", "*.in0", "*" */
    /* May write into x: at an output all consumers read the change; at an input only
     * this node does, because it gets its own copy.  A written weight is no longer a
     * constant: the node runs by its definition, not by a library's kernel.  Values
     * that decide shapes may be written as long as the shapes stay: QG_EDATA. */
    bool writes;
    /* x: any strides; not kept.  A failure ends the run; its message is that of qg_fail
     * on ctx. */
    qg_status (*see)(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x);
    void *ud;
} qg_session_hook;

/* --- sessions --- */

typedef struct qg_session qg_session;

typedef struct qg_session_options {
    size_t size;
    const char *mode;       /* of QG_RUN_MODE_MAP; NULL: simulate when quantized */
    bool reference_kernels; /* as in qg_workload */
    /* [inputs] type and dims that replace those of the model; NULL: all known there. */
    const qg_tensor *shape;
    const char *const *keep; /* [n_keep] names of inner values, for qg_session_value */
    size_t n_keep;
    const qg_session_hook *hook; /* [n_hook], copied; none in mode integer */
    size_t n_hook;
    const char *profile;  /* for mode integer, as in qg_run_options */
    bool require_integer; /* for mode integer, as in qg_run_options */
    unsigned jobs;        /* threads that compute a sample together; 0: one per core.
                           * 1 suits sessions that run at the same time.  Results do not
                           * depend on it */
} qg_session_options;
QG_API void qg_session_options_init(qg_session_options *o, size_t size);

/* The model must outlive the session and stay unchanged meanwhile.  QG_ESTATE for
 * simulate without TQCs, QG_ECONFIG for unknown names and words, QG_EMODEL when a shape
 * is open and not given. */
QG_NODISCARD QG_API qg_status qg_session_new(qg_model *m, const qg_session_options *o,
                                             qg_session **out);

/* Another session over the same plan and weights, with memory of its own: one per
 * thread.  Each has as many threads as o->jobs of the first.  Its messages are
 * qg_session_message.  To be freed before `s`. */
QG_NODISCARD QG_API qg_status qg_session_fork(qg_session *s, qg_session **out);
QG_API void qg_session_free(qg_session *s); /* NULL is fine */

/* One sample.  in: [n_in] in order of the model's inputs, plain, borrowed for the call.
 * out: [n_out] in order of its outputs, at most all of them; type and dims are written,
 * and the data: copied when out[k].data is set, which must then have room for the type
 * and dims set before the call (QG_EDATA when the result differs); else valid until the
 * next run.  An address that this session returned last counts as unset, so the same
 * tensors may be passed again.  QG_EDATA names the input that does not fit, or that
 * contains NaN. */
QG_NODISCARD QG_API qg_status qg_session_run(qg_session *s, const qg_tensor *in,
                                             size_t n_in, qg_tensor *out, size_t n_out);

/* Value k of o->keep as the last run had it (before its consumers round it), in the
 * same two ways. */
QG_NODISCARD QG_API qg_status qg_session_value(qg_session *s, size_t k, qg_tensor *out);

/* Type and dims of output k before a run; dims that data decides are -1. */
QG_NODISCARD QG_API qg_status qg_session_output_type(const qg_session *s, size_t k,
                                                     qg_tensor *out);

/* Of the last failure of this session; never NULL. */
QG_API const char *qg_session_message(const qg_session *s);

/* Bytes of activations that one session holds. */
QG_API size_t qg_session_bytes(const qg_session *s);

#ifdef __cplusplus
}
#endif

#endif
