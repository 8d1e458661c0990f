/* attempt.h -- a draft of a backend, tried on the network that a trace is of: the model
 * is quantized by it, and its decisions are compared with what the trace shows.
 *
 *     kinds     visible values that are on a grid in both, or in neither
 *     links     pairs of values at one node that share a grid in both or in neither
 *     schemes   values whose record has the codes that the trace shows: bits, sign,
 *               zero point in the middle or not, powers of two
 *     results   visible values that a simulation of their nodes on the device's own
 *               inputs gives, but for CONFIRMED
 *     grids     values whose own scale is the one observed
 *     elements  mean share of equal elements of all visible results
 *
 * A value that the trace lacks is no evidence in any of them: the device can store it
 * and not show it.  What is computed from it is (results).  `unshown` counts such
 * values that the draft stores, and is for choosing among equals alone.
 *
 * Stored    a value whose producer rounds it, or moves codes of the same group, or
 *           whose readers all round it alike
 * Scales    observed scales that the draft does not give are added to it as rules with
 *           observer `fixed`, and the network is quantized again
 *
 * Example   y = Conv(x), z = Relu(y), where the trace lacks y and has z on the grid of
 *           step 0.1: a backend that fuses Relu computes z from the accumulator, one
 *           that rounds y, too, gets other codes; the one whose codes are those of the
 *           trace has one result more
 * Cost      begin: one quantization without constants.  make: up to two more, and a run
 *           of a few samples, where each node gets the device's own inputs, so that
 *           errors of one node do not count again in the next
 * Files     agree.c has kinds, links and schemes; replay.c results; attempt.c the rest
 *
 *     qg_attempt t = { 0 };
 *     QG_TRY(qg_attempt_make(&how, &draft, &t));
 *     if (!t.refusal) ... qg_attempt_contradicted(&t), t.kind, t.share ...
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
    bool quick; /* minmax on two samples: scales that no array shows do not matter */
    const char *name; /* of drafts */
    qg_arena *arena;  /* of texts of drafts */
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

/* Share of equal elements from which a result confirms what its node reads. */
#define QG_CONFIRMED 0.995

typedef struct qg_attempt {
    const qg_attempts *how;
    qg_draft draft;      /* with the rules of scales */
    const char *refusal; /* why the network cannot be quantized; NULL: it is */
    qg_model own,
        given;          /* quantized without those rules, as far as decisions and scales
                          * go; with them, or no graph after qg_attempt_begin.  Their
                          * graphs are this struct's */
    qg_stored_as *kind; /* [values of own.graph] */
    uint8_t *apart;     /* [nodes of own.graph] the operator moves values, and the trace
                         * has two grids at one node of it */
    double *share;      /* [values of the float network] of equal elements; -1: not
                          * compared; NULL after qg_attempt_begin */
    uint64_t *unequal;  /* [values of the float network] elements */
    uint64_t *real;     /* the same where the float network computes them from the
                         * device's inputs, rounded to the trace's grid; UINT64_MAX: not
                         * compared; NULL before qg_attempt_replay_real */
    uint8_t *clean;     /* [values of the float network] 1: compared, and the simulation
                         * depends on no scale that the trace lacks */
    qg_portion kinds, links, schemes, grids, results;
    size_t unshown;  /* values that the draft stores and the trace lacks */
    double elements; /* 0 after qg_attempt_begin */
} qg_attempt;

/* A draft that the network or the reader refuses is no failure: its message becomes
 * out->refusal, in how->arena.  Failures are QG_ENOMEM and QG_ECANCELED.  out is
 * zeroed; qg_attempt_free also after a failure.  The result may be moved (assigned),
 * and then only one of the copies is freed. */
QG_NODISCARD qg_status qg_attempt_make(const qg_attempts *how, const qg_draft *d,
                                       qg_attempt *out);
/* The same without rules of scales, results and elements, at the cost of one
 * quantization. */
QG_NODISCARD qg_status qg_attempt_begin(const qg_attempts *how, const qg_draft *d,
                                        qg_attempt *out);
void qg_attempt_free(qg_attempt *t); /* also a zeroed one; drafts stay in how->arena */

/* The network with all rules of the draft. */
static inline const qg_model *qg_attempt_model(const qg_attempt *t)
{
    return t->given.graph ? &t->given : &t->own;
}

/* What the trace shows of a value of either graph; NULL: it is no activation of the
 * float network. An array that was paired by its endpoint alone is that of the
 * value of its own name where the attempt's passes made one. */
const qg_seen *qg_attempt_seen(const qg_attempt *t, const qg_value *v);

/* Whether the trace agrees with what the backend makes of a value of own.graph.
 * *counts: the trace tells anything about it, and so not where the value is hidden. */
bool qg_attempt_agrees(const qg_attempt *t, const qg_value *v, bool *counts);

/* Whether v is a mean of codes of more than 8 bits that lies on no grid in the trace:
 * on a part of their grid that float32 elements do not show. */
bool qg_attempt_is_fine_mean(const qg_attempt *t, const qg_value *v);

/* The record that has the grid of a value: its producer's, or that of its first reader
 * for an input of the network and where qg_attempt_by_readers; NULL: none. */
const qg_tqc *qg_attempt_tqc(const qg_value *v);

/* Whether a float result is rounded by all of its readers alike: then a device stores
 * it as codes. */
bool qg_attempt_by_readers(const qg_value *v);
/* The k-th record that has the grid of a value: that of qg_attempt_tqc alone; of each
 * reader where they store it, or round it to the codes that the trace shows.  NULL:
 * there are no more. */
const qg_tqc *qg_attempt_holder(const qg_attempt *t, const qg_value *v, size_t k);
/* Whether one of them belongs to the group. */
bool qg_attempt_is_held(const qg_attempt *t, const qg_value *v, const qg_tqc *root);

/* Kinds, links and schemes that the trace contradicts. */
size_t qg_attempt_contradicted(const qg_attempt *t);

/* A number for the records of own: rounding, codes and group of every endpoint. */
uint64_t qg_attempt_decisions(const qg_attempt *t);

/* Results that are the device's in t and clearly not in `than`, less those of the
 * reverse; both are of qg_attempt_make. */
int qg_attempt_more_results(const qg_attempt *t, const qg_attempt *than);

/* Clean values of which t has clearly more elements as the device has them, less those
 * of the reverse.  Under the device's own decisions such a value has nearly no other
 * element, so a few of them tell rules apart that change few codes. */
int qg_attempt_more_exact(const qg_attempt *t, const qg_attempt *than);

/* Nearly all elements of clean values are the device's. */
bool qg_attempt_is_exact(const qg_attempt *t);

/* Elements of a value by which a right and a wrong simulation may differ by chance: the
 * wrong one has more than twice as many, and these. */
enum { QG_ATTEMPT_CHANCE = 2 };

/* The least share of equal elements among the next visible results of a node; -1: none
 * is visible.  t: of qg_attempt_make. */
double qg_attempt_confirmation(const qg_attempt *t, const qg_node *n);

/* The parts of qg_attempt_begin and qg_attempt_make in other files: kinds of values;
 * kinds, links, schemes, grids and unshown; results and elements. */
QG_NODISCARD qg_status qg_attempt_find_kinds(qg_attempt *t);
void qg_attempt_count(qg_attempt *t);
QG_NODISCARD qg_status qg_attempt_replay(qg_attempt *t);
/* The same on all samples: results and elements of the report. */
QG_NODISCARD qg_status qg_attempt_replay_whole(qg_attempt *t);
/* Sets t->real, on all samples. */
QG_NODISCARD qg_status qg_attempt_replay_real(qg_attempt *t);

/* The first *changes of t's draft, and rules that give the group of `root` (of t's
 * model) these settings; *changes is their number then. */
QG_NODISCARD qg_status qg_attempt_give(qg_attempt *t, size_t *changes,
                                       const qg_tqc *root, const char *set,
                                       const char *why);

/* Codes in records and trace, of which a rule can give the group the grid. */
bool qg_attempt_comparable(const qg_attempt *t, const qg_value *v);

/* Two values at a node, both codes in the trace: two that it reads, or one that it
 * reads and one that it computes. Pairs that tell nothing are left out: float
 * formats whose scale is undecided, equal powers of two in two groups, equal grids
 * at an operator that moves values and has two at another node. */
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
