/* record.h -- what is known about quantization: the TQC of an endpoint, the journal of
 * its changes, and the set of all TQCs of a graph.
 *
 * Types only.  tqc.h has the functions that make and change them, journal.h those that
 * note a change, endpoint.h the ways from one to the next. */
#ifndef QG_ENGINE_QUANT_RECORD_H
#define QG_ENGINE_QUANT_RECORD_H

#include "engine/ir/graph.h"
#include "engine/quant/fake.h"
#include "engine/quant/observer_setting.h"
#include "engine/quant/policy.h"

/* clang-format off */
/* rounds: at run time.  own: scale belongs to this endpoint (PASSIVE: borrowed unless
 * derived).  out: exported (OVERLAPPED only on request).  Append only.  (ORDER
 * STATE) */
#define QG_TQC_STATE_MAP(X)                                                    \
    /* id            text             rounds own out meaning */                \
    X(INITIAL,       "initial",       0, 0, 0, "made by a rule, not calibrated") \
    X(ACTIVATED,     "activated",     1, 1, 1, "calibrated, rounds on every run") \
    X(BAKED,         "baked",         0, 1, 1, "constant already on the grid") \
    X(OVERLAPPED,    "overlapped",    0, 0, 0, "silent: its dominator rounds") \
    X(PASSIVE_INIT,  "passive-init",  0, 0, 0, "waits for its lender's scale") \
    X(PASSIVE,       "passive",       1, 0, 1, "rounds, scale borrowed or derived") \
    X(PASSIVE_BAKED, "passive-baked", 0, 0, 1, "constant on a borrowed grid") \
    X(FP32,          "fp32",          0, 0, 0, "never quantized") \
    X(SOI,           "soi",           0, 0, 0, "shape or index data, stays exact") \
    X(DEACTIVATED,   "deactivated",   0, 1, 0, "off by the user, keeps its scale") \
    X(DEQUANTIZED,   "dequantized",   0, 1, 0, "off for now, remembers its state")
/* clang-format on */

typedef enum qg_tqc_state {
#define X(id, text, rounds, own, out, meaning) QG_TQC_##id,
    QG_TQC_STATE_MAP(X)
#undef X
        QG_NTQC_STATE
} qg_tqc_state;

/* Whether exporters write the endpoint's scale: when its state exports, always,
 * never. */
typedef enum qg_visibility {
    QG_EXPORT_WHEN_ACTIVE,
    QG_EXPORT_FORCED,
    QG_EXPORT_INTERNAL
} qg_visibility;

/* How a PASSIVE endpoint with its own root gets its scale. */
typedef enum qg_derive {
    QG_DERIVE_NONE,
    QG_DERIVE_BIAS, /* scale[c] = lender0 scale * lender1 scale[c], offset 0 (7.7) */
} qg_derive;

/* One endpoint.  Read freely; write through the functions of tqc.h. */
struct qg_tqc {
    uint32_t id; /* dense, in order of creation: by node id, inputs then outputs */
    qg_tqc_state state;
    qg_tqc_state saved; /* state to return to from DEACTIVATED, DEQUANTIZED */
    qg_scheme scheme;
    qg_observer_setting observer;
    qg_visibility visibility; /* for exporters */
    qg_derive derive;
    uint32_t nparam;   /* 0 until calibrated */
    float *scale;      /* [nparam] own parameters; NULL until calibrated */
    int32_t *offset;   /* [nparam] */
    qg_tqc *up;        /* union-find parent; a root points to itself */
    qg_tqc *next;      /* ring of the group's members; itself when alone */
    qg_tqc *lender[2]; /* of a derived scale; else NULL */
    uint32_t rule;     /* index into the backend's rules; QG_NONE: defaults */
    qg_node *node;     /* the endpoint: node->tin[slot] or node->tout[slot] == this */
    uint32_t slot;
    bool is_output;
};

/* One change of one field.  Values are texts in the arena ("initial", "0.0235"). */
typedef struct qg_journal_entry {
    uint32_t seq, tqc; /* order of the change, and whose field it was */
    const char *field, *old_value, *new_value;
    const char *by; /* rule id or "pass" or "pass/pattern" */
} qg_journal_entry;

typedef struct qg_backend qg_backend;

/* Every TQC of one graph.  Immutable while workers run. */
typedef struct qg_quant {
    qg_ctx *ctx;
    qg_arena *arena; /* the graph's */
    qg_graph *graph;
    const qg_backend *backend;        /* NULL only in tests */
    QG_VEC(qg_tqc *) tqc;             /* by id */
    QG_VEC(qg_journal_entry) journal; /* in order of the changes; never shortened */
    const char *author;               /* who is at work: stamped into journal entries */
    uint64_t quirks;                  /* mask of qg_quirk (quant/quirk.h) */
} qg_quant;

#endif
