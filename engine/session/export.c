/* export.c -- qg_model_export and qg_model_import: the table of formats behind the
 * public header, and the report of losses. */
#include "engine/session/session.h"

#include <assert.h>
#include <string.h>

#include "engine/core/reads.h"
#include "engine/report/describe.h"
#include "engine/config/profile_yaml.h"
#include "engine/formats/formats.h"
#include "engine/quant/quirk.h"

QG_OPTIONS_INIT(qg_format_options)
QG_OPTIONS_INIT(qg_import_options)

/* --- the report --- */

static qg_status add_loss(qg_report *r, qg_table *t, const qg_loss *l)
{
    char at[QG_ENDPOINT_TEXT];
    const qg_value *v = l->tqc ? qg_tqc_value(l->tqc) : NULL;
    return qg_table_cells(r, t, qg_cell_text(l->tqc ? qg_tqc_text(l->tqc, at) : NULL),
                          qg_cell_text(v ? v->name : NULL),
                          qg_cell_text(qg_aspect_word(l->aspect)),
                          qg_cell_bool(l->computes), qg_cell_text(l->text));
}

/* By kind, those that change results first, each with an example. */
static qg_status sum_up_losses(const qg_export *e, qg_report *r)
{
    qg_table *t;
    char at[QG_ENDPOINT_TEXT];
    QG_TRY(qg_report_table(r, "losses_by_kind",
                           "lost changes_results endpoints for_example meaning", &t));
    t->records = true;
    for (int k = 0; k < 2 * QG_N_ASPECT; k++) {
        const qg_loss *first = NULL;
        size_t n = 0;
        for (size_t i = e->loss.n; i-- > 0;) {
            const qg_loss *l = &e->loss.at[i];
            if (l->computes != (k < QG_N_ASPECT) ||
                (unsigned)l->aspect != 1u << k % QG_N_ASPECT)
                continue;
            first = l;
            n++;
        }
        if (first)
            QG_TRY(qg_table_cells(
                r, t, qg_cell_text(qg_aspect_word(first->aspect)),
                qg_cell_bool(first->computes), qg_cell_count(n),
                qg_cell_text(first->tqc ? qg_tqc_text(first->tqc, at) : NULL),
                qg_cell_text(first->text)));
    }
    return QG_OK;
}

static qg_status describe(const qg_export *e, qg_report *r)
{
    qg_table *t;
    size_t computes = 0;
    assert(e->format && e->quant);
    for (size_t i = 0; i < e->loss.n; i++)
        computes += e->loss.at[i].computes;
    QG_TRY(qg_report_add(r, "format", qg_cell_text(e->format->name)));
    for (size_t k = 0; k < QG_N_FORMAT_OPTION; k++)
        if (e->option[k])
            QG_TRY(qg_report_add(r, qg_format_option_word((enum qg_format_option)k),
                                 qg_cell_text(e->option[k])));
    QG_TRY(qg_report_add(r, "endpoints", qg_cell_count(e->quant->tqc.n)));
    QG_TRY(qg_report_add(r, "lost", qg_cell_count(e->loss.n)));
    QG_TRY(qg_report_add(r, "changed_results", qg_cell_count(computes)));
    if (e->profile)
        QG_TRY(
            qg_report_addf(r, "computes",
                           "integers, as `qg run --mode integer --profile %s`, which "
                           "can be several steps from the simulation (`qg analyse "
                           "--mode integer`)",
                           e->profile->name));
    QG_TRY(qg_report_table(r, "files", "file", &t));
    for (size_t i = 0; i < e->file.n; i++)
        QG_TRY(qg_table_add(r, t, qg_cell_text(e->file.at[i])));
    QG_TRY(sum_up_losses(e, r));
    QG_TRY(qg_report_table(r, "losses", "endpoint value lost changes_results meaning",
                           &t));
    for (size_t i = 0; i < e->loss.n; i++)
        QG_TRY(add_loss(r, t, &e->loss.at[i]));
    qg_report_detail(r, QG_DETAIL_ALL);
    return QG_OK;
}

static qg_status make_report(const qg_export *e, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(e->ctx, "export", &r));
    return qg_report_end(describe(e, r), r, out);
}

/* --- out --- */

/* No file of the format is that of the report. */
static qg_status run_beside(qg_export *e, const qg_format_options *o)
{
    if (o->report)
        QG_TRY(qg_reads_note(e->ctx, o->report, "the file of the report"));
    qg_status s = qg_export_run(e, o->strict);
    if (o->report)
        qg_reads_remove(e->ctx, o->report);
    return s;
}

/* As JSON, or as a page. */
static qg_status write_report(qg_report *r, const char *path, qg_writer *w)
{
    const char *text = qg_path_ends_in(path, ".json")
                           ? qg_report_json(r)
                           : qg_report_page(r, QG_DETAIL_ALL);
    if (!*text)
        return qg_nomem(r->ctx);
    (void)fputs(text, w->stream);
    return qg_writer_commit(w);
}

/* The report's file is open before the model is written and put in place after it: a
 * path that cannot be written leaves no model behind. */
static qg_status run(qg_export *e, const qg_format_options *o, qg_report **out)
{
    qg_writer w = { 0 };
    qg_report *r = NULL;
    if (o->report && qg_is_same_file(o->report, e->path))
        return qg_fail(e->ctx, QG_ECONFIG,
                       "export: %s: the report goes to the same file, expected another",
                       e->path);
    if (o->report)
        QG_TRY(qg_writer_open(e->ctx, o->report, &w));
    qg_status s = run_beside(e, o);
    if (s == QG_OK)
        s = make_report(e, &r);
    if (s == QG_OK && o->report)
        s = write_report(r, o->report, &w);
    if (o->report)
        qg_writer_abandon(&w);
    return qg_report_end(s, r, out);
}

/* Whether path ends in the first suffix of a format, of which there may be several. */
static bool has_suffix(const char *path, const char *suffix)
{
    const size_t n = strcspn(suffix, " "), m = strlen(path);
    return m > n && strncmp(path + m - n, suffix, n) == 0;
}

/* The file is written; tools that go by its name would take it for something else. */
static void warn_suffix(const qg_export *e)
{
    const char *own = e->format->suffix;
    if (has_suffix(e->path, own))
        return;
    for (const qg_format *const *f = qg_formats; *f; f++)
        if (has_suffix(e->path, (*f)->suffix)) {
            qg_warn(e->ctx,
                    "export: '%.1000s': ends in the suffix of other formats, expected "
                    "%.*s of %s",
                    e->path, (int)strcspn(own, " "), own, e->format->name);
            return;
        }
}

/* The arithmetic of what the format writes, in the arena of the export. */
static qg_status find_profile(qg_export *e)
{
    qg_search search;
    if (!e->format->profile)
        return QG_OK;
    QG_TRY(qg_config_search(e->ctx, e->arena, "profiles", &search));
    return qg_profile_load(e->ctx, e->arena, e->format->profile, search, &e->profile);
}

qg_status qg_model_refusal(qg_model *m, const char *format, qg_arena *a,
                           const char **why)
{
    qg_export e = { .ctx = m->ctx, .quant = m->quant, .info = &m->info };
    *why = NULL;
    QG_TRY(qg_export_begin(&e, format, NULL));
    qg_status s = find_profile(&e);
    if (s == QG_OK) {
        s = e.format->build(&e);
        if (s != QG_OK && qg_refusal(s) == QG_OK)
            *why = qg_arena_strdup(a, qg_ctx_message(m->ctx));
        s = s != QG_OK && !*why ? (qg_refusal(s) ? s : qg_nomem(m->ctx)) : QG_OK;
    }
    qg_export_end(&e);
    return s;
}

qg_status qg_model_export(qg_model *m, const qg_format_options *given, const char *path,
                          qg_report **report)
{
    qg_format_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_format_options, given, &o));
    const char *option[QG_N_FORMAT_OPTION] = { [QG_FORMAT_WEIGHTS] = o.weights,
                                               [QG_FORMAT_PLACEMENT] = o.placement,
                                               [QG_FORMAT_FLOAT] = o.float_type,
                                               [QG_FORMAT_VERSION] = o.version };
    if (!o.format)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "export: no format, expected one of `qg list formats`");
    QG_TRY(qg_model_expect_quantized(m, "export"));
    QG_TRY(qg_model_warn_share(m, "export"));
    QG_TRY(qg_model_expect_path(m->ctx, "export", path));
    if (m->info.manifest.not_finite)
        qg_warn(m->ctx, "when it was quantized: %s", m->info.manifest.not_finite);
    qg_export e = { .ctx = m->ctx,
                    .quant = m->quant,
                    .info = &m->info,
                    .path = path,
                    .names = o.names,
                    .analysis = o.analysis };
    if (o.quirks)
        QG_TRY(qg_quirks_named(m->ctx, o.quirks, &e.quirks));
    QG_TRY(qg_export_begin(&e, o.format, option));
    qg_status s = find_profile(&e);
    if (s == QG_OK)
        s = run(&e, &o, report);
    if (s == QG_OK)
        warn_suffix(&e);
    qg_export_end(&e);
    return s;
}

/* --- in --- */

static qg_status report_left_out(const qg_left_out_list *list, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "left_out", "entry why", &t));
    for (size_t i = 0; i < list->n; i++)
        QG_TRY(qg_table_cells(r, t, qg_cell_text(list->at[i].entry),
                              qg_cell_text(list->at[i].why)));
    return QG_OK;
}

static qg_status report_model(qg_model *m, const qg_import *i, qg_report *r)
{
    const char *format = i->format->name;
    assert(m->quant);
    QG_TRY(qg_report_add(r, "format", qg_cell_text(format)));
    QG_TRY(qg_report_add(r, "nodes", qg_cell_count(m->graph->node.n)));
    QG_TRY(qg_report_add(r, "endpoints", qg_cell_count(m->quant->tqc.n)));
    QG_TRY(qg_report_states(r, m->quant));
    if (i->own_scales)
        QG_TRY(qg_report_addf(r, "weights",
                              "%zu: scales from their values, as the "
                              "reader of the file makes them",
                              i->own_scales));
    return i->left_out.n ? report_left_out(&i->left_out, r) : QG_OK;
}

static qg_status report_import(qg_model *m, const qg_import *i, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(m->ctx, "import", &r));
    return qg_report_end(report_model(m, i, r), r, out);
}

qg_status qg_model_import(qg_ctx *ctx, const char *path, const qg_import_options *given,
                          qg_model **out, qg_report **report)
{
    qg_import_options o;
    QG_TRY(QG_OPTIONS_READ(ctx, qg_import_options, given, &o));
    qg_import i = {
        .ctx = ctx, .path = path, .model = o.model, .names = o.names, .strict = o.strict
    };
    qg_model *m = QG_NEW(ctx->arena, qg_model);
    if (!m)
        return qg_nomem(ctx);
    if (!o.format)
        return qg_fail(ctx, QG_ECONFIG,
                       "import: no format, expected one of `qg list formats`");
    m->ctx = ctx;
    qg_status s = qg_model_read_import(m, &i, o.format);
    if (s == QG_OK && report)
        s = report_import(m, &i, report);
    if (s == QG_OK)
        *out = m;
    else
        qg_model_close(m);
    return s;
}
