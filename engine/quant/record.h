/* record.h -- the records of quantization: the TQC of an endpoint, the journal of its
 * changes, and the set of all TQCs of a graph.
 *
 * Types only.  tqc.h has the functions that make and change them, journal.h those that
 * record a change, endpoint.h the navigation between them. */
#ifndef QG_ENGINE_QUANT_RECORD_H
#define QG_ENGINE_QUANT_RECORD_H

#include "engine/ir/graph.h"
#include "engine/quant/fake.h"
#include "engine/quant/observer_setting.h"
#include "engine/quant/policy.h"
#include "engine/quant/state.h"

/* One endpoint.  Read freely; write through the functions of tqc.h. */
struct qg_tqc {
    struct qg_quant *quant; /* the set that it belongs to */
    const char *name;       /* "Conv_3.in1", in its arena */
    uint32_t id; /* dense, in order of creation: by node id, inputs then outputs */
    qg_tqc_state state;
    qg_tqc_state saved; /* state to return to from DEACTIVATED, DEQUANTIZED */
    qg_scheme scheme;
    qg_observer_setting observer;
    const struct qg_quantizer *quantizer; /* the active quantizer; NULL: fake.h
                                           * (quantizer.h) */
    qg_visibility visibility;             /* for exporters */
    qg_derive derive;
    uint32_t nparam;      /* 0 until calibrated */
    float *scale;         /* [nparam] own parameters; NULL until calibrated */
    int32_t *offset;      /* [nparam] */
    qg_tqc *up;           /* union-find parent; a root points to itself */
    qg_tqc *next;         /* ring of the group's members; itself when alone */
    qg_tqc *lender[2];    /* of a derived scale; else NULL */
    uint32_t rule;        /* index into the backend's rules; QG_NONE: defaults */
    const char *float_by; /* rule of the run that keeps its value in float, by pass
                           * keep-float; NULL: none */
    qg_node *node; /* the endpoint: node->tin[slot] or node->tout[slot] == this */
    uint32_t slot;
    bool is_output;
};

/* One change of one field.  Values are texts in the arena ("initial", "0.0235",
 * "none"), never NULL. */
typedef struct qg_journal_entry {
    uint32_t seq, tqc; /* order of the change, and the TQC of the field */
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
    const char *author;               /* the current author, written into journal
                                       * entries */
    uint64_t quirks;                  /* mask of qg_quirk (quant/quirk.h) */
} qg_quant;

#endif
