/* tune_report.h -- the report of qg_model_tune. */
#ifndef QG_ENGINE_LEARN_TUNE_REPORT_H
#define QG_ENGINE_LEARN_TUNE_REPORT_H

#include "engine/learn/tuning.h"

/* All facts and tables of the report of `qg tune`. */
QG_NODISCARD qg_status qg_tune_report(const qg_tuning *t, const qg_judgement *j,
                                      qg_report *r);

#endif
