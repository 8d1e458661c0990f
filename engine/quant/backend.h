/* backend.h -- a backend in memory: which operators are quantized, with which scheme,
 * which fuse, and which operands must share a scale.  Read from YAML by
 * config/backend_yaml; interpreted by pass/rules.c and the passes.
 *
 * Rules apply in order; a later one overrides an earlier one field by field.
 * Overrides of a run (--set, --policy) are rules at the end whose selector must match
 * something.  Every statement of a backend carries its place and reason, because `qg
 * explain` and the snapshot repeat them.
 *
 * Owner    the arena given to the reader; immutable once read.  Strings end with a
 *          zero.
 * Source   DESIGN.md, section 9; docs/evidence/ppq-behaviour.md#quantizers.
 *
 * A rule and a fusion as a backend file has them:
 *
 *     rules:
 *       - id: weight
 *         match: {op: [Conv, Gemm], slot: weight, constant: yes}
 *         set: {policy: [per-channel, linear, symmetric], axis: out-channel}
 *     fusions:
 *       - id: compute-activation
 *         pattern: {c: {trait: compute}, a: {op: [Relu, Clip], in: [c]}}
 *         silence: {c.out0: a.out0} */
#ifndef QG_ENGINE_QUANT_BACKEND_H
#define QG_ENGINE_QUANT_BACKEND_H

#include "engine/ir/match.h"
#include "engine/quant/tqc.h"

/* The place of a statement, and its reason. */
typedef struct qg_origin {
    const char *id;           /* "weight"; unique among its kind */
    const char *file;         /* as opened; "--set" for the command line */
    uint32_t line;            /* from 1; 0 on the command line */
    const char *why, *source; /* NULL only for overrides */
} qg_origin;

/* One alternative of an attribute condition: absent, a text, or a number that every
 * element of the attribute equals. */
typedef struct qg_attr_option {
    bool absent;      /* the node has no such attribute */
    const char *text; /* NULL: the number counts */
    double number;
} qg_attr_option;

/* On one attribute of the node: "group: 1", "auto_pad: [absent, NOTSET]". */
typedef struct qg_attr_condition {
    const char *name;
    const qg_attr_option *choice; /* [n] any of these */
    size_t n;
} qg_attr_condition;

/* Compute nodes without another compute node before (after) them. */
enum qg_layer { QG_LAYER_ANY, QG_LAYER_FIRST, QG_LAYER_LAST };

/* Conditions on a node; every one that is given must hold. */
typedef struct qg_node_match {
    const char *const *op; /* [n_op] operator names; none given: any */
    size_t n_op;
    uint32_t traits;         /* has all of these */
    const char *const *node; /* [n_node] globs over node names */
    size_t n_node;
    const qg_attr_condition *attr; /* [n_attr] */
    size_t n_attr;
    const char *from, *to; /* value names: on a path between them; NULL: no condition */
    enum qg_layer layer;
} qg_node_match;

/* One word of `slot:`.  "in2": index 2; "in*": index -1; "weight": role 'w', a constant
 * unless `constant` is given; "input": role 'd', and a computed operand of role 'w'. */
typedef struct qg_slot_match {
    bool is_output;
    char role;     /* letter of ir/op.h, 0: by index */
    int32_t index; /* -1: every slot of that side */
} qg_slot_match;

/* ANY: no condition. */
enum qg_answer { QG_ANY, QG_NO, QG_YES };

/* Conditions on an endpoint of a node that matched. */
typedef struct qg_endpoint_match {
    const qg_slot_match *slot; /* [n_slot] any of these; none: every slot */
    size_t n_slot;
    enum qg_answer constant;     /* the value is a constant */
    enum qg_answer graph_input;  /* the value is an input of the network */
    enum qg_answer graph_output; /* the value is an output of the network */
    const char *const *value;    /* [n_value] globs over value names */
    size_t n_value;
    const int64_t *dim; /* [n_dim] dims of the value, -1: any */
    size_t n_dim;       /* 0: no condition */
} qg_endpoint_match;

/* The settings of a rule: the bits of `fields` mark the members that are set.
 * Parameters of observers are in the middle, in the order of PARAM. */
/* clang-format off */
#define QG_SET_MAP(X)                                                          \
    X(BITS,          "bits")                                                   \
    X(RANGE,         "range")                                                  \
    X(ROUNDING,      "rounding")                                               \
    X(NAN,           "nan")                                                    \
    X(POLICY,        "policy")                                                 \
    X(AXIS,          "axis")                                                   \
    X(EXPONENT_BITS, "exponent-bits")                                          \
    X(VARIANT,       "variant")                                                \
    X(BLOCK,         "block")                                                  \
    X(OBSERVER,      "observer")                                               \
    QG_OBSERVER_PARAM_MAP(X)                                                   \
    X(STATE,         "state")                                                  \
    X(VISIBILITY,    "visibility")                                             \
    X(DERIVE,        "derive")                                                 \
    X(QUANTIZER,     "quantizer")                                              \
    X(PLATFORM,      "platform")
/* clang-format on */
enum {
#define X(id, ...) QG_SET_BIT_##id,
    QG_SET_MAP(X)
#undef X
        QG_NSET
};
#define X(id, ...) QG_SET_##id = 1u << QG_SET_BIT_##id,
enum qg_set_field { QG_SET_MAP(X) };
#undef X

/* The settings of a grid. */
enum {
    QG_SET_GRID = QG_SET_BITS | QG_SET_RANGE | QG_SET_POLICY | QG_SET_AXIS |
                  QG_SET_EXPONENT_BITS | QG_SET_VARIANT | QG_SET_BLOCK
};

/* The bit of a parameter of observers. */
#define QG_SET_PARAM(p) (1u << (QG_SET_BIT_PERCENTILE + (unsigned)(p)))
/* The bits of all of them. */
#define QG_SET_PARAMS (((1u << QG_NOBSERVER_PARAM) - 1) << QG_SET_BIT_PERCENTILE)

enum { QG_AXIS_OUT_CHANNEL = -2 }; /* op->weight_axis of the node decides */

/* Values for the fields of one TQC (or the platform of a node); others are
 * unchanged. */
typedef struct qg_set {
    uint32_t fields;  /* QG_SET_* bits: the members below that are set */
    qg_scheme scheme; /* axis may be QG_AXIS_OUT_CHANNEL */
    qg_observer_setting observer;
    qg_tqc_state state; /* INITIAL, FP32, SOI, PASSIVE_INIT; or a switched-off state,
                         * set last */
    qg_visibility visibility;
    qg_derive derive;                     /* of a passive endpoint's scale */
    const struct qg_quantizer *quantizer; /* NULL: `none`, the library's own */
    enum qg_platform platform;            /* of the node; dispatch reads it */
} qg_set;

/* Sets fields of every endpoint that matches, of every node that matches. */
typedef struct qg_rule {
    qg_origin origin;
    qg_node_match node;
    qg_endpoint_match at;
    qg_set set;
    bool is_override; /* must match something */
} qg_rule;

/* An endpoint of a pattern: a node of it, and a slot. */
typedef struct qg_pattern_end {
    uint32_t node; /* index into the pattern */
    bool is_output;
    uint32_t slot;
} qg_pattern_end;

/* `silent` becomes OVERLAPPED under `leader`.  The hardware does not round between two
 * nodes that it computes together. */
typedef struct qg_silence {
    qg_pattern_end silent, leader; /* of one pattern */
} qg_silence;

/* Nodes that run as one kernel: inner endpoints must not be quantized. */
typedef struct qg_fusion {
    qg_origin origin;
    qg_pattern pattern;        /* ir/match.h; id is origin.id */
    const qg_silence *silence; /* [n_silence] in order */
    size_t n_silence; /* 0: every value between two nodes of in_float is silent,
                               * and `leader` leads; its node QG_NONE: they are float */
    qg_pattern_end leader;
    bool after_passive;       /* waits until passive nodes follow their inputs */
    bool once;                /* a node of the graph takes part in one match at most */
    const uint32_t *in_float; /* [n_in_float] nodes that compute in float inside the
                               * kernel: their constants are not rounded, and where they
                               * are not quantized there is nothing to overlap */
    size_t n_in_float;
} qg_fusion;

/* Which scale an aligned node uses: LARGE, its inputs share the largest of theirs (or
 * the range that holds all ranges); OUTPUT, its inputs take that of output 0; INPUT,
 * its outputs take that of input 0. */
enum qg_align { QG_ALIGN_NONE, QG_ALIGN_LARGE, QG_ALIGN_OUTPUT, QG_ALIGN_INPUT };

/* Endpoints that the hardware requires to have one scale: Add, Concat. */
typedef struct qg_sharing {
    qg_origin origin;
    qg_node_match node;
    enum qg_align align; /* whose scale counts */
    bool spread;         /* the common scale also reaches the producers of the inputs */
    bool override;       /* ... even those with other consumers, or whose scale depends
                          * on other endpoints */
} qg_sharing;

/* `passes: {equalize: {iterations: 3}}` of a file; `passes: {equalize: no}` is its
 * parameter "run", which every pass has.  pass/pass.h declares the parameters that
 * exist. */
typedef struct qg_pass_setting {
    const char *pass, *param; /* "equalize", "iterations" */
    double value;             /* yes is 1, no is 0 */
    const char *file;         /* its place; "--set" for the command line */
    uint32_t line;
} qg_pass_setting;

typedef QG_VEC(const char *) qg_words;
typedef QG_VEC(qg_pass_setting) qg_pass_settings;

/* A part of a backend that applies only while a quirk is on (config/backend_yaml.h). */
typedef struct qg_with_quirk {
    uint64_t quirk;                /* one bit */
    const struct qg_yaml *section; /* the items to read then; opaque here */
    bool done;                     /* it has been read */
} qg_with_quirk;

/* For whose fusions Q and DQ are placed in files; the words, ending with NULL. */
enum qg_placement { QG_PLACE_ORT, QG_PLACE_TRT, QG_PLACE_OPENVINO };
extern const char *const qg_placements[];

/* Immutable once loaded; may serve several models of its context. */
struct qg_backend {
    const char *name, *title;                  /* "trt-int8"; one line for lists */
    const char *profile, *pipeline, *dispatch; /* names; dispatch: "conservative" */
    const char *placement; /* of Q and DQ in files (formats.h); NULL: the format's */
    qg_set defaults;       /* every scheme field set */
    qg_words quantizes, passive; /* operator names */
    QG_VEC(qg_rule) rule;
    QG_VEC(qg_fusion) fusion;         /* applied in order */
    QG_VEC(qg_sharing) sharing;       /* the last that matches a node applies */
    qg_pass_settings setting;         /* in order; the last setting applies */
    qg_words file;                    /* every file read, parents first */
    qg_words after;                   /* --set options that a patch has applied */
    QG_VEC(qg_with_quirk) with_quirk; /* parents first */
    uint64_t quirks;
};

/* Matching.  `from`, `to` and `layer` are ignored: see qg_rule_covers. */
bool qg_node_matches(const qg_node_match *m, const qg_node *n);
/* The same as a condition of ir/match.h; ud is a qg_node_match. */
bool qg_node_matches_condition(const void *ud, const qg_node *n,
                               char text[QG_CONDITION_TEXT]);
/* The slot is present (asserted). */
bool qg_endpoint_matches(const qg_endpoint_match *m, qg_endpoint at);
/* Whether a match that holds names the endpoint, by role, by number or by the name of
 * its value, rather than covering it with all others ("in*", a pattern, no slot). */
bool qg_endpoint_is_named(const qg_endpoint_match *m, qg_endpoint at);
/* Names of what a snapshot has in place of a backend when its scales were read from a
 * file begin with this: it says nothing of how to quantize. */
#define QG_IMPORTED "imported from "
/* Whether the operator is in `quantizes` (`passive`). */
bool qg_backend_quantizes(const qg_backend *b, const qg_op *op);
bool qg_backend_is_passive(const qg_backend *b, const qg_op *op);
/* The last sharing rule that matches the node; NULL: none. */
const qg_sharing *qg_backend_sharing(const qg_backend *b, const qg_node *n);
/* A choice of the run, which acts on whole groups: pass keep-float carries it out. */
bool qg_rule_keeps_float(const qg_rule *r);

/* '*' stands for any text, '?' for one byte; the rest, and these and a backslash behind
 * a backslash, for itself. */
bool qg_glob(const char *pattern, const char *text);

/* Writes the fields of `set` into scheme and observer; QG_AXIS_OUT_CHANNEL stays for
 * the caller.  Bits without a range keep the range's shape: full, narrow or unsigned.
 * QG_ECONFIG (message begins with `what`) when it has none of these shapes. */
QG_NODISCARD qg_status qg_set_apply(qg_ctx *ctx, const char *what, const qg_set *set,
                                    qg_scheme *scheme, qg_observer_setting *observer);

/* Whether the range has one of these shapes, so that bits alone can be set. */
bool qg_scheme_takes_bits(const qg_scheme *scheme);

const char *qg_set_field_name(unsigned bit); /* "exponent-bits" */
const char *qg_align_name(enum qg_align a);  /* "large" */

#endif
