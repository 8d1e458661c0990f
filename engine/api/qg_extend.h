/* qg_extend.h -- extensions that a host adds to a context at run time: operators,
 * passes, observers, quantization functions, configuration.
 *
 * An extension belongs to one context.  It must be added before the first model that
 * needs it is opened, and lives until qg_close; sessions made earlier do not see it.
 * Structs are copied up to their `size`, and so are strings; `ud` and the functions
 * must stay valid as long as the context.  The library may call the functions from
 * several threads at a time: the host must guard the data they share through `ud`.  A
 * name that is already taken is QG_ECONFIG.
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_EXTEND_H
#define QG_ENGINE_API_QG_EXTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/api/qg_records.h"
#include "engine/quant/fake.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- operators --- */

/* One invocation of a host operator. */
typedef struct qg_call qg_call;

QG_API qg_ctx *qg_call_ctx(const qg_call *c); /* for qg_fail */
QG_API const qg_node *qg_call_node(const qg_call *c);
QG_API size_t qg_call_input_count(const qg_call *c);
QG_API size_t qg_call_output_count(const qg_call *c);
/* NULL: absent, or past the last slot.  During shape inference only constants have
 * data. */
QG_API const qg_tensor *qg_call_input(const qg_call *c, size_t k);
/* infer sets type and dims (qg_tensor_init); run finds data there. */
QG_API qg_tensor *qg_call_output(const qg_call *c, size_t k);
/* Attributes; if absent: the default, or NULL and 0.  QG_EMODEL names an attribute of
 * another type. */
QG_NODISCARD QG_API qg_status qg_call_int(const qg_call *c, const char *name,
                                          int64_t preset, int64_t *out);
QG_NODISCARD QG_API qg_status qg_call_float(const qg_call *c, const char *name,
                                            float preset, float *out);
QG_NODISCARD QG_API qg_status qg_call_string(const qg_call *c, const char *name,
                                             const char *preset, const char **out);
QG_NODISCARD QG_API qg_status qg_call_ints(const qg_call *c, const char *name,
                                           const int64_t **out, size_t *count);
QG_NODISCARD QG_API qg_status qg_call_floats(const qg_call *c, const char *name,
                                             const float **out, size_t *count);
/* Zeroed memory until run returns; NULL: out of memory. */
QG_API void *qg_call_scratch(const qg_call *c, size_t bytes);

/* An operator: a row of `qg list ops`. */
typedef struct qg_operator {
    size_t size;
    const char *name;   /* "HardTanh" */
    const char *domain; /* "com.example"; NULL: ai.onnx */
    int since;          /* first opset of the domain, at least 1 */
    unsigned min_in, max_in, min_out, max_out; /* 255: any number */
    const char *in_roles; /* a letter per input, the last repeats: "dwb"; NULL: "d" */
    const char *traits;   /* "activation monotone pure", words of `qg list traits` but
                           * control and normalize; NULL: none, and nothing fuses with
                           * it or quantizes it */
    unsigned in_place;    /* bit k: output 0 may have the memory of input k < 8 */
    int weight_axis;      /* of COMPUTE: the axis of input 'w' with the output channels;
                           * -1: none */
    /* ACTIVATION: y = min(max(x, clamp_low), clamp_high), when clamp_low <
     * clamp_high. */
    float clamp_low, clamp_high;
    /* Type and dims of every output from the inputs. */
    qg_status (*infer)(void *ud, const qg_call *c);
    /* Inputs and outputs are plain and do not overlap unless in_place allows it. */
    qg_status (*run)(void *ud, const qg_call *c);
    void *ud;
} qg_operator;
QG_API void qg_operator_init(qg_operator *o, size_t size); /* one input, one output */

/* It takes part in dispatch, fusion, calibration and export by its traits and roles.
 * Backends that do not name it leave it in float and do not fuse it; docs/embedding.md
 * has one that does. */
QG_NODISCARD QG_API qg_status qg_add_operator(qg_ctx *ctx, const qg_operator *o);

/* --- passes --- */

typedef struct qg_pass_env qg_pass_env; /* the pass at work */

typedef struct qg_host_pass {
    size_t size;
    const char *name, *summary; /* name: as in pipelines and `qg list passes` */
    /* Its position in every pipeline that has this pass: set one of the two, or neither
     * when pipelines name the pass themselves. */
    const char *before, *after;
    bool edits; /* it adds or removes nodes; else it changes records only */
    /* m: the model in the middle of qg_model_quantize, for qg_records.h and the
     * functions below; not to be kept. */
    qg_status (*run)(void *ud, qg_pass_env *env, qg_model *m);
    void *ud;
} qg_host_pass;
QG_API void qg_host_pass_init(qg_host_pass *p, size_t size);
QG_NODISCARD QG_API qg_status qg_add_pass(qg_ctx *ctx, const qg_host_pass *p);

/* A pass that pipelines name themselves runs only there.  When several are placed next
 * to the same pass, the one added last is nearest to it.
 *
 * For the report: something was changed; `pattern` matched; it nearly matched at n, and
 * the text gives the condition that failed. */
QG_API void qg_pass_count(qg_pass_env *env, size_t changes);
QG_NODISCARD QG_API qg_status qg_pass_match(qg_pass_env *env, const char *pattern);
QG_NODISCARD QG_API qg_status qg_pass_miss(qg_pass_env *env, const char *pattern,
                                           const qg_node *n, const char *condition);

/* Edits, for passes with `edits`, which must run before the pass `rules`: every
 * consumer of `from`, except the node that produces `to`, reads `to` instead (a graph
 * output keeps its name); input `slot` of n reads v (NULL: nothing); n is removed, and
 * its outputs must have no consumers.  New nodes and constants: qg_model_add_node,
 * qg_model_add_constant. */
QG_NODISCARD QG_API qg_status qg_model_replace_value(qg_model *m, qg_value *from,
                                                     qg_value *to);
QG_NODISCARD QG_API qg_status qg_model_set_input(qg_model *m, qg_node *n, size_t slot,
                                                 qg_value *v);
QG_NODISCARD QG_API qg_status qg_model_remove_node(qg_model *m, qg_node *n);

/* --- observers --- */

/* The data passed to an observer in one call. */
typedef struct qg_observed {
    size_t size;   /* as the library was built: fields may be appended */
    unsigned pass; /* from 0 */
    size_t sample; /* its index */
    const float
        *x; /* [n] of this sample, and of one channel under a per-channel scheme */
    size_t n;
} qg_observed;

/* An observer keeps one state per endpoint (and channel), in plain memory. */
typedef struct qg_host_observer {
    size_t size;
    const char *name, *summary;
    size_t state;     /* bytes */
    unsigned passes;  /* over the data, at least 1 */
    bool per_channel; /* can serve per-channel schemes: a state for each channel */
    bool ordered;     /* see is called in sample order, on a single state; no merge */
    double min_scale; /* a floor under every scale; 0: 1e-8 */
    void (*begin)(void *ud, void *state); /* NULL: zeros will do */
    qg_status (*see)(void *ud, qg_ctx *ctx, void *state, const qg_observed *seen);
    /* Afterwards `into` is the state that would have seen both; must be exactly
     * associative and commutative.  Either may have seen nothing since begin or
     * next. */
    void (*merge)(void *ud, void *into, const void *from);
    /* Between passes, on the merged state: turns it into the initial state of `pass`,
     * from 1.  Every worker continues with a copy, so merge must count what remains
     * here only once.  NULL: nothing to do. */
    qg_status (*next)(void *ud, qg_ctx *ctx, void *state, unsigned pass);
    /* The range that the grid should cover: finite, low <= high. */
    qg_status (*finish)(void *ud, qg_ctx *ctx, const void *state,
                        const qg_scheme *scheme, double *low, double *high);
    void *ud;
} qg_host_observer;
QG_API void qg_host_observer_init(qg_host_observer *o, size_t size);
/* Its name is then valid wherever an observer is named: backends, qg_quantize_options.
 * It needs the samples themselves, so it cannot be combined with `stats`.  A snapshot
 * that names it opens anywhere, because the scales are already final. */
QG_NODISCARD QG_API qg_status qg_add_observer(qg_ctx *ctx, const qg_host_observer *o);

/* --- quantization functions --- */

/* Rounds instead of qg_fake_quantize, at endpoints that qg_model_set_quantizer or a
 * rule (`quantizer: NAME`) gives it to, and when their constants are baked.  An
 * OVERLAPPED endpoint does not round: there the function of its dominator counts. */
typedef struct qg_host_quantizer {
    size_t size;
    const char *name, *summary;
    /* x and y: float32, same dims and strides, maybe the same memory. */
    qg_status (*run)(void *ud, qg_ctx *ctx, const qg_scheme *scheme, const qg_qparam *p,
                     const qg_tensor *x, qg_tensor *y);
    void *ud;
} qg_host_quantizer;
QG_API void qg_host_quantizer_init(qg_host_quantizer *q, size_t size);
/* Snapshots record the name, and open only where it is registered (else
 * QG_EUNSUPPORTED).  Other tools cannot represent it: exports list endpoint and
 * function among their losses, and fail with `strict`.  "none" in a rule is the
 * library's
 * own. */
QG_NODISCARD QG_API qg_status qg_add_quantizer(qg_ctx *ctx, const qg_host_quantizer *q);

/* --- configuration --- */

/* A file of the configuration folder that is no file, of at most 4 MiB:
 * "backends/mine.yaml", "pipelines/short.yaml", "policies/patch.yaml",
 * "profiles/npu.yaml".  It goes before files of that name; wherever a backend, a
 * pipeline, a policy or a profile is named, "mine" (or the path) then means this
 * text. */
QG_NODISCARD QG_API qg_status qg_add_config(qg_ctx *ctx, const char *path,
                                            const char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
