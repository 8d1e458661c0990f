/* integers.h -- the integer program of a model beside its simulation and its float
 * network: `qg analyse --mode integer`. */
#ifndef QG_ENGINE_ANALYSIS_INTEGERS_H
#define QG_ENGINE_ANALYSIS_INTEGERS_H

#include "engine/analysis/measure.h"

/* o->by, NULL: graph.
 *
 *     graph  per output, by the metric: simulation and integers against float, and
 *            integers against the simulation
 *     layer  per value stored as codes: how many elements differ from the simulation's,
 *            by how many steps.  Differences of earlier nodes are included; a simulated
 *            value that is not rounded differs by less than one step.
 *
 * QG_ECONFIG for another word, the errors of qg_lower_program. */
QG_NODISCARD qg_status qg_analyse_integers(qg_model *m, const qg_analyse_options *o,
                                           const qg_metric *metric, qg_report **report);

#endif
