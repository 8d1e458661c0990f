/* run.c -- qg_model_run: outputs of every sample, stacked, in order of samples. */
#include "engine/core/clock.h"
#include "engine/session/sink.h"

QG_OPTIONS_INIT(qg_run_options)

/* --- the report --- */

/* The files of --dump: their names are not always those of the values. */
static qg_status fill_dumps(const qg_sink *k, qg_report *r)
{
    qg_table *t;
    if (k->n_column == k->n_output)
        return QG_OK;
    QG_TRY(qg_report_table(r, "dumps", "name file", &t));
    for (size_t i = k->n_output; i < k->n_column; i++) {
        QG_TRY(qg_table_cells(r, t, qg_cell_text(k->name[i]),
                              qg_cell_made(qg_sink_file(k, i, r->arena))));
    }
    return QG_OK;
}

static qg_status fill_report(const qg_plan *p, const qg_sink *k, double seconds,
                             qg_report *r)
{
    qg_table *t;
    const qg_plan_report *pr = &p->report;
    const qg_graph *g = k->exe->graph;
    double ratio = pr->lower_bound ? (double)pr->bytes / (double)pr->lower_bound : 1;
    QG_TRY(qg_report_add(r, "mode", qg_cell_text(qg_run_mode_name(k->exe->mode))));
    QG_TRY(qg_report_program(r, k->exe));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(k->n)));
    QG_TRY(qg_report_add(r, "seconds", qg_cell_number(seconds)));
    QG_TRY(qg_report_add(r, "plan_bytes", qg_cell_count(pr->bytes)));
    QG_TRY(qg_report_add(r, "plan_lower_bound", qg_cell_count(pr->lower_bound)));
    QG_TRY(qg_report_add(r, "plan_ratio", qg_cell_number(ratio)));
    QG_TRY(qg_report_add(r, "rounded_bytes_per_sample", qg_cell_count(pr->rounded)));
    QG_TRY(qg_report_add(r, "kernels", qg_cell_count(pr->kernels)));
    QG_TRY(qg_report_table(r, "outputs", "name type file", &t));
    for (size_t i = 0; i < g->output.n; i++) {
        char shape[QG_SHAPE_TEXT];
        const qg_tensor *type = &p->tensor.at[p->output[i]].type;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(g->output.at[i]->name),
                              qg_cell_text(qg_tensor_text(type, shape)),
                              k->n_output ? qg_cell_made(qg_sink_file(k, i, r->arena))
                                          : qg_cell_text(NULL)));
    }
    return fill_dumps(k, r);
}

static qg_status describe(const qg_plan *p, const qg_sink *k, double seconds,
                          qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(k->ctx, "run", &r));
    return qg_report_end(fill_report(p, k, seconds, r), r, out);
}

/* --- all together --- */

static qg_status choose_columns(qg_sink *k, const char *glob, const char *folder)
{
    const char *below;
    if (!folder)
        return QG_OK;
    QG_TRY(qg_sink_outputs(k, folder));
    if (!glob)
        return QG_OK;
    below = qg_path_join(k->arena, folder, "dump");
    return below ? qg_sink_dumps(k, glob, below) : qg_nomem(k->ctx);
}

static qg_status run(qg_executable *e, const qg_run_options *o, const char *folder,
                     qg_api_feed *f, qg_sink *k, qg_plan **p)
{
    QG_TRY(qg_executable_feed(e, &o->work, f));
    QG_TRY(qg_sink_make(k, e, f->feed.n));
    QG_TRY(choose_columns(k, o->dump, folder));
    QG_TRY(qg_sink_spare(k, f->data));
    QG_TRY(qg_sink_plan(k, &o->work, &f->feed, p));
    QG_TRY(qg_sink_run(k, *p, &f->feed, &o->work));
    QG_TRY(qg_sink_commit(k));
    return qg_sink_warn(k, *p, &f->feed, &o->work);
}

qg_status qg_model_run(qg_model *m, const qg_run_options *given, const char *folder,
                       qg_report **report)
{
    qg_run_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_run_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_mode_request mode = { o.mode, o.profile, o.require_integer, o.codes, false };
    qg_executable e;
    QG_TRY(qg_executable_make(m, &mode, &e));
    qg_executable_warn_quantizers(&e);
    qg_plan *p = NULL;
    qg_api_feed f = { 0 };
    qg_sink k = { 0 };
    double start = qg_clock_seconds();
    qg_status s = run(&e, &o, folder, &f, &k, &p);
    if (s == QG_OK && report)
        s = describe(p, &k, qg_clock_seconds() - start, report);
    qg_sink_close(&k);
    qg_feed_close(&f);
    qg_plan_free(p);
    qg_executable_free(&e);
    return s;
}
