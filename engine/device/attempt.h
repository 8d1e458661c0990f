/* attempt.h -- a draft of a backend, tried on the network that a trace is of: the model
 * is quantized by it, and its decisions are compared with what the trace shows.
 *
 *     kinds     values that are stored as codes, silent, or float as the trace has them
 *     links     pairs of values at one node that share a grid in both or in neither
 *     grids     values whose own scale is the one observed
 *     elements  each node is simulated on the device's own inputs, with the observed
 *               scales: share of the elements that are the device's
 *     score     twice the share of kinds and links together, and the two other shares
 *
 * Stored    a value whose producer rounds it, or moves codes of the same group, or
 *           whose readers all round it alike
 * Scales    observed scales that the draft does not give are added to it as rules with
 *           observer `fixed`, and the network is quantized again
 *
 * Score     0 to 4; each share is in [0, 1].  A share of kinds, links or grids with
 *           nothing to compare is 1, that of elements 0
 * Example   y = Conv(x), z = Relu(y), where the trace lacks y and has z on the grid of
 *           step 0.1: of y and z, a backend that fuses Relu and gives z the scale 0.1
 *           explains 2 of 2 kinds and 1 of 1 grids; one that rounds y, too, explains 1
 *           of 2 kinds
 * Cost      begin: one quantization.  make: usually up to two more, and a run of four
 *           samples.  Each node gets the device's own inputs there, so that errors of
 *           one node do not count again in the next
 *
 *     qg_attempt t = { 0 };
 *     QG_TRY(qg_attempt_make(&how, &draft, &t));
 *     if (!t.refusal) ... t.score, t.kind, t.share ...
 *     qg_attempt_free(&t); */
#ifndef QG_ENGINE_DEVICE_ATTEMPT_H
#define QG_ENGINE_DEVICE_ATTEMPT_H

#include "engine/device/draft.h"
#include "engine/device/grid.h"
#include "engine/session/session.h"

/* What all attempts share; everything is borrowed. */
typedef struct qg_attempts {
    qg_model *m; /* the float network */
    const qg_workload *work;
    const qg_api_feed *feed;
    const qg_seen_values *seen;
    const char *observer; /* of all activations, where scales do not matter: a cheap
                           * one; NULL: those of the draft */
    const char *name;     /* of drafts */
    qg_arena *arena;      /* of texts of drafts */
} qg_attempts;

/* What a backend makes of a value. */
typedef enum qg_stored_as {
    QG_AS_ABSENT, /* shapes, indices, constants: no activation */
    QG_AS_CODES,
    QG_AS_SILENT, /* inside of a kernel, never rounded */
    QG_AS_FLOAT
} qg_stored_as;

/* Part of a whole. */
typedef struct qg_portion {
    size_t part, of;
} qg_portion;

typedef struct qg_attempt {
    const qg_attempts *how;
    qg_draft draft;      /* with the rules of scales */
    const char *refusal; /* why the network cannot be quantized; NULL: it is */
    qg_model own, given; /* quantized without those rules; with them, or no graph where
                          * there are none.  Their graphs are this struct's */
    qg_stored_as *kind;  /* [values of own.graph] */
    double *share;       /* [values of the float network] of equal elements; -1: not
                          * compared */
    qg_portion kinds, links, grids;
    size_t replayed; /* values */
    double elements, score;
} qg_attempt;

/* A draft that the network or the reader refuses is no failure: its message becomes
 * out->refusal, in how->arena.  Failures are QG_ENOMEM and QG_ECANCELED.  out is
 * zeroed; qg_attempt_free also after a failure.  The result may be moved (assigned),
 * and then only one of the copies is freed. */
QG_NODISCARD qg_status qg_attempt_make(const qg_attempts *how, const qg_draft *d,
                                       qg_attempt *out);
/* The same without rules of scales and elements, at the cost of one quantization: the
 * score lacks a share. */
QG_NODISCARD qg_status qg_attempt_begin(const qg_attempts *how, const qg_draft *d,
                                        qg_attempt *out);
void qg_attempt_free(qg_attempt *t); /* also a zeroed one; drafts stay in how->arena */

/* The network with all rules of the draft. */
static inline const qg_model *qg_attempt_model(const qg_attempt *t)
{
    return t->given.graph ? &t->given : &t->own;
}

/* What the trace shows of a value of either graph; NULL: it is no activation of the
 * float network. */
const qg_seen *qg_attempt_seen(const qg_attempt *t, const qg_value *v);

/* Whether the trace agrees with what the backend makes of a value of own.graph.
 * *counts: the trace tells anything about it. */
bool qg_attempt_agrees(const qg_attempt *t, const qg_value *v, bool *counts);

/* The record that has the grid of a value: its producer's, or that of its first reader
 * for an input of the network and where qg_attempt_by_readers; NULL: none. */
const qg_tqc *qg_attempt_tqc(const qg_value *v);

/* Whether a float result is rounded by all of its readers alike: then a device stores
 * it as codes. */
bool qg_attempt_by_readers(const qg_value *v);

/* Twice the share of kinds and links together, of which there can be few: 0 to 2. */
double qg_attempt_structure(qg_portion kinds, qg_portion links);

/* Two values at a node, both codes in the trace: two that it reads, or one that
 * it reads and one that it computes.  Pairs that tell nothing are left out: float
 * formats whose scale is undecided, equal powers of two in two groups. */
typedef struct qg_link {
    const qg_node *node;
    const qg_value *a, *b;
    bool output; /* b is computed by the node */
    bool known;  /* both are codes in the records, too */
    bool shared; /* one group in the records, or two with the trace's one grid */
    bool equal;  /* one grid in the trace */
} qg_link;
enum { QG_LINKS = 64 };

/* The links of a node of own.graph, at most QG_LINKS; their number. */
size_t qg_attempt_links(const qg_attempt *t, const qg_node *n, qg_link out[QG_LINKS]);

#endif
