#include "engine/analysis/measure.h"

#include <assert.h>
#include <math.h>

qg_status qg_measure_by(qg_ctx *ctx, const char *name, const qg_metric **out)
{
    const char *word = name ? name : "nsr";
    *out = qg_metric_named(word);
    return *out ? QG_OK
                : qg_fail(ctx, QG_ECONFIG,
                          "metric '%s': expected one of `qg list metrics`", word);
}

double qg_measure(const qg_metric *m, const float *real, const qg_tensor *y)
{
    assert(y->dtype == QG_F32);
    qg_error e = { 0 };
    qg_error_add(&e, real, y->f32, (size_t)qg_tensor_count(y));
    return m->value(&e);
}

qg_status qg_measure_value(qg_ctx *ctx, const qg_metric *m, const qg_value *v,
                           const qg_tensor *real, const qg_tensor *y, double *out)
{
    char is[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    if (!qg_same_dims(real, y))
        return qg_fail(
            ctx, QG_EDATA,
            "measure: output '%.1000s': is %s when quantized, expected %s as "
            "in the float network",
            v->name, qg_tensor_text(y, is), qg_tensor_text(real, want));
    *out = qg_measure(m, real->f32, y);
    return QG_OK;
}

size_t qg_first_not_finite(const double *value, size_t n, size_t row)
{
    for (size_t i = 0; i < n * row; i++)
        if (!isfinite(value[i]))
            return i / row;
    return n;
}

qg_status qg_report_not_finite(qg_report *r, size_t n)
{
    return n ? qg_report_add(r, "not_finite", qg_cell_count(n)) : QG_OK;
}

qg_status qg_report_metric(qg_report *r, const qg_metric *m)
{
    const char *meaning =
        qg_arena_printf(r->arena, "%s, the mean of the samples", m->meaning);
    if (!meaning)
        return qg_nomem(r->ctx);
    QG_TRY(qg_report_add(r, "metric", qg_cell_text(m->name)));
    return qg_report_add(r, "meaning", qg_cell_text(meaning));
}

qg_cell qg_measure_cell(const qg_metric *m, double error)
{
    return strcmp(m->name, "nsr") == 0 ? qg_cell_percent(error) : qg_cell_number(error);
}
