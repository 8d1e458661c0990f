/* subject.h -- the subjects of a sensitivity analysis (nodes, endpoints or groups) and
 * their errors: sensitivity.c measures them, propose.c derives a policy from them.
 *
 * Rows are sorted by harm: the share of the error that a subject causes, estimated by
 * one partial run per subject.
 * Owner    everything is in `arena`, which is freed with the analysis. */
#ifndef QG_ENGINE_ANALYSIS_SUBJECT_H
#define QG_ENGINE_ANALYSIS_SUBJECT_H

#include <assert.h>

#include "engine/analysis/split.h"
#include "engine/analysis/what_if.h"

enum qg_sensitivity_by { QG_BY_NODE, QG_BY_ENDPOINT, QG_BY_GROUP };

/* One subject and its answer. */
typedef struct qg_sensitivity_row {
    const char *name, *what; /* node, endpoint or dominator; operator or state */
    uint32_t key;            /* node id, TQC id, or TQC id of the root */
    double error;            /* of the worst output, mean over samples */
    double harm;             /* larger is worse, whatever metric and direction */
    uint32_t output;         /* index of the worst output; QG_NONE: none */
} qg_sensitivity_row;

typedef struct qg_sensitivity {
    qg_model *m;
    qg_measured measured;
    const qg_sensitivity_options *o;
    qg_arena *arena;
    qg_split split;
    qg_labels label; /* of the samples that judge */
    qg_study study;  /* on the samples that choose */
    enum qg_sensitivity_by by;
    bool all_but;
    QG_VEC(qg_sensitivity_row) row;
    double all; /* error with everything quantized */
    uint32_t all_output;
} qg_sensitivity;

/* The key of the row that represents an endpoint. */
static inline uint32_t qg_sensitivity_key(const qg_sensitivity *s, const qg_tqc *t)
{
    switch (s->by) {
    case QG_BY_NODE:
        return t->node->id;
    case QG_BY_ENDPOINT:
        return t->id;
    case QG_BY_GROUP:
        return qg_tqc_root(t)->id;
    }
    assert(!"unknown kind of subject");
    return 0;
}

/* propose.c: reads the labels of the samples that judge, before anything runs. */
QG_NODISCARD qg_status qg_sensitivity_labels(qg_sensitivity *s);

/* propose.c: finds the policy requested by s->o->proposal, writes it and reports it in
 * r.  Rows must be complete and sorted. */
QG_NODISCARD qg_status qg_sensitivity_propose(qg_sensitivity *s, qg_report *r);

#endif
