#include "engine/device/arrays.h"

#include <string.h>

/* Pairs that are not by name, and arrays that no value has: never silent. */
static qg_status report_pairs(const qg_device *d, qg_report *r)
{
    qg_table *t = NULL;
    for (size_t i = 0; i < d->m->graph->value.n; i++) {
        const qg_pair *p = &d->pair[i];
        if (!p->array || (strcmp(p->how, "name") == 0 && !p->moved))
            continue;
        if (!t)
            QG_TRY(
                qg_report_table(r, "pairs", "array value how confidence layout", &t));
        QG_TRY(qg_table_cells(r, t, qg_cell_text(p->array->value),
                              qg_cell_text(d->m->graph->value.at[i]->name),
                              qg_cell_text(p->how), qg_cell_percent(p->confidence),
                              qg_cell_text(p->moved ? "channels last" : "as it is")));
    }
    if (!d->unpaired.n)
        return QG_OK;
    QG_TRY(
        qg_report_addf(r, "without_value",
                       "%zu of %zu arrays of the dump are no values of the model, as "
                       "%.100s (--all lists them)",
                       d->unpaired.n, d->trace->n, d->unpaired.at[0]->value));
    QG_TRY(qg_report_table(r, "unpaired", "array", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < d->unpaired.n; i++)
        QG_TRY(qg_table_add(r, t, qg_cell_text(d->unpaired.at[i]->value)));
    return QG_OK;
}

static bool is_compared(const qg_device *d, const qg_value *v)
{
    const qg_value *at = d->exe.program->value[v->id];
    for (size_t i = 0; i < d->n_step; i++)
        if (d->step[i].value == v)
            return true;
    return at && !at->def; /* an input as it is fed: premise.h */
}

/* Arrays with a value that no step computes. */
static qg_status report_uncompared(const qg_device *d, qg_report *r)
{
    const qg_graph *g = d->m->graph;
    qg_table *t = NULL;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_pair *p = &d->pair[i];
        const qg_trace_array *array = p->array ? p->array : p->doubted;
        const char *why =
            p->doubted ? "its elements are not what its node computes from the device's"
                         " inputs"
            : d->stored[i] ? "the program has one value for it and another array"
                           : "the program does not store it: it is inside of a kernel";
        if (!array || (p->array && is_compared(d, v)))
            continue;
        if (!t)
            QG_TRY(qg_report_table(r, "not_compared", "array value why", &t));
        QG_TRY(qg_table_cells(r, t, qg_cell_text(array->value), qg_cell_text(v->name),
                              qg_cell_text(why)));
    }
    return QG_OK;
}

qg_status qg_arrays_report_samples(const qg_trace *t, size_t compared, qg_report *r)
{
    size_t most = 0;
    for (size_t i = 0; i < t->n; i++)
        most = t->array[i].samples > most ? t->array[i].samples : most;
    return most > compared
               ? qg_report_addf(r, "left_out",
                                "the dump has %zu samples, %zu were compared", most,
                                compared)
               : QG_OK;
}

qg_status qg_arrays_report(const qg_device *d, qg_report *r)
{
    QG_TRY(qg_arrays_report_samples(d->trace, d->samples, r));
    QG_TRY(report_pairs(d, r));
    return report_uncompared(d, r);
}
