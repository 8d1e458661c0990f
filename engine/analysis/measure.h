/* measure.h -- errors, shared by all analyses: the metric by its name, its value for an
 * output, its display. */
#ifndef QG_ENGINE_ANALYSIS_MEASURE_H
#define QG_ENGINE_ANALYSIS_MEASURE_H

#include "engine/ir/graph.h"
#include "engine/quant/metric.h"
#include "engine/report/report.h"

/* The metric of that name; NULL: nsr.  QG_ECONFIG for another word. */
QG_NODISCARD qg_status qg_measure_by(qg_ctx *ctx, const char *name,
                                     const qg_metric **out);

/* The metric of a float32 tensor y; real: as many elements. */
double qg_measure(const qg_metric *m, const float *real, const qg_tensor *y);

/* The same of value v, whose shape may be that of the sample: QG_EDATA when the shapes
 * differ. */
QG_NODISCARD qg_status qg_measure_value(qg_ctx *ctx, const qg_metric *m,
                                        const qg_value *v, const qg_tensor *real,
                                        const qg_tensor *y, double *out);

/* The first of n samples with a NaN or an infinity among its `row` values; n: none. */
size_t qg_first_not_finite(const double *value, size_t n, size_t row);

/* A fact `not_finite`: how many errors are NaN or infinite, unless none is. */
QG_NODISCARD qg_status qg_report_not_finite(qg_report *r, size_t n);

/* Facts `metric` and `meaning`: of a report whose errors are means over samples. */
QG_NODISCARD qg_status qg_report_metric(qg_report *r, const qg_metric *m);

/* nsr as a percentage, others unchanged. */
qg_cell qg_measure_cell(const qg_metric *m, double error);

#endif
