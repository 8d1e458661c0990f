/* ranking.h -- the shipped backend that explains a trace with the fewest changes.
 *
 *     1  a look at every backend: decisions beside the trace, without results
 *     2  the best few of different decisions are simulated, and changed one step at a
 *        time as long as less is contradicted
 *     3  the best: least contradictions and changes together, most results; among
 *        equals the one that stores fewest values that the trace lacks, whose own grids
 *        are those of the trace, the most general one
 *
 * Ranking before changes would attribute a changed device to whatever backend happens
 * to be near it unchanged, so 3 is after 2.  Two changes that explain something only
 * together are found for chains of fusions, not in general.
 *
 * Cost   one quick quantization per backend; per round of a change one per proposal */
#ifndef QG_ENGINE_DEVICE_RANKING_H
#define QG_ENGINE_DEVICE_RANKING_H

#include "engine/device/rivals.h"

/* A backend that was tried.  made: it was simulated and changed, and results, elements
 * and changes are known; whole: with its own observers, and grids are. */
typedef struct qg_candidate {
    const char *name, *refusal; /* why it cannot quantize the network; else NULL */
    qg_portion kinds, links, schemes, results, grids;
    size_t unshown, files, changes; /* files: that it is read from */
    uint64_t decisions;             /* qg_attempt_decisions, before changes */
    size_t distance;                /* changes that seem to be needed, before any */
    double elements;
    bool made, whole, equal; /* equal: not told apart from the best */
} qg_candidate;
typedef QG_VEC(qg_candidate) qg_candidates;

typedef struct qg_ranking {
    const qg_attempts *how, *quick;
    const char *from; /* the only candidate; NULL: every shipped backend */
    const qg_progress *progress;
    qg_candidates candidate;
    qg_attempt best; /* with the backend's own observers and rules of scales */
    size_t changes;  /* of best, before rules of scales */
    qg_rivals rivals;
} qg_ranking;

/* Sets all below `progress`.  best is freed by the caller, also after a failure.
 * QG_ECONFIG: no candidate can quantize the network. */
QG_NODISCARD qg_status qg_ranking_find(qg_ranking *n);

#endif
