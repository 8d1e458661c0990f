/* premise.h -- whether a dump belongs to the samples at all.
 *
 * Each step is computed on the device's own inputs, so a dump of other samples differs
 * only where the samples are read, and no arithmetic explains it.
 *
 *     other samples      an input that the trace holds differs, or what is computed
 *                        from the samples alone does not correlate
 *     order of samples   differences cover whole samples, which are other samples of
 *                        the data, or spare the rest (samples.h)
 *     layout, order,     most values do not correlate, those computed from the trace
 *     names              included
 *     grids              most values correlate and are other codes, and arrays of
 *                        integers have no grid */
#ifndef QG_ENGINE_DEVICE_PREMISE_H
#define QG_ENGINE_DEVICE_PREMISE_H

#include "engine/device/suspect.h"

/* An input of the network that the trace holds, and that no step computes. */
typedef struct qg_premise_input {
    const qg_value *value;
    qg_tally tally;
} qg_premise_input;

typedef struct qg_premise {
    QG_VEC(qg_premise_input) input; /* those that differ */
    const char *fault;              /* a sentence, in d->arena; NULL: none */
} qg_premise;

/* Whether a step reads the samples and no array of the trace. */
bool qg_premise_fed(const qg_device *d, const qg_cut *c);

/* Sets fed, and for such a step tally and correlation; f->step is given. */
QG_NODISCARD qg_status qg_premise_relate(const qg_device *d, qg_finding *f);

/* Compares the inputs.  QG_EDATA for elements that are no numbers. */
QG_NODISCARD qg_status qg_premise_inputs(const qg_device *d, qg_premise *p);

/* Sets p->fault from the inputs and the findings [d->n_step], of which tally, fed,
 * explained and correlation are read; f NULL: from the inputs alone. */
QG_NODISCARD qg_status qg_premise_judge(const qg_device *d, const qg_finding *f,
                                        qg_premise *p);

/* Fact fault, and table inputs: value, differ, of, share; nothing where there is none.
 */
QG_NODISCARD qg_status qg_premise_report(const qg_premise *p, qg_report *r);

#endif
