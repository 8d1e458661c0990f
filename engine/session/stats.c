/* stats.c -- questions about statistics files: merge, show, derive. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/report/describe.h"
#include "engine/session/session.h"
#include "engine/core/suggest.h"
#include "engine/snapshot/stats_file.h"
#include "engine/calib/calibrate.h"

/* --- confidence --- */

static const qg_scheme int8_scheme = { .policy =
                                           QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                       .bits = 8,
                                       .axis = -1,
                                       .qmin = -128,
                                       .qmax = 127 };

/* Of 8-bit scales: how many of the 16 parts of the samples an observer needs for all of
 * them within 1 %, and how certain they are.  Values without finite elements do not
 * count. */
static qg_status settled(const qg_stats *s, const char *observer, unsigned *out,
                         qg_certainty *sure)
{
    qg_observer_setting setting = { .name = observer };
    qg_arena *a = qg_arena_new(s->ctx->alloc);
    qg_status status = a ? QG_OK : qg_nomem(s->ctx);
    unsigned worst = 1;
    for (size_t i = 0; status == QG_OK && i < s->value.n; i++) {
        qg_observe o = { .observer = qg_observer_find(s->ctx, observer),
                         .scheme = &int8_scheme,
                         .setting = &setting,
                         .channels = 1,
                         .stats = s->value.at[i] };
        qg_confidence c;
        assert(o.observer);
        if (qg_stats_total(s->value.at[i]).count == 0 || !qg_stats_tell(&o))
            continue;
        qg_arena_reset(a);
        status = qg_stats_confidence(s->ctx, &o, 0, a, &c);
        if (status != QG_OK)
            break;
        worst = c.settled > worst ? c.settled : worst;
        qg_certainty_add(sure, c.error, s->value.at[i]->name);
    }
    qg_arena_free(a);
    *out = worst;
    return status;
}

qg_status qg_report_settled_all(qg_report *r, const qg_stats *s)
{
    static const char *const observer[] = { "minmax", "percentile" };
    static const char *const fact[] = { "settled_minmax", "settled_percentile" };
    for (int k = 0; k < 2; k++) {
        qg_certainty sure = { 0 };
        unsigned parts;
        QG_TRY(settled(s, observer[k], &parts, &sure));
        uint64_t after = qg_stats_samples_in(s, parts);
        QG_TRY(qg_report_add_quiet(r, fact[k], qg_cell_count((size_t)after)));
        QG_TRY(qg_report_certainty(r, k ? "by_percentile" : "by_minmax", &sure,
                                   qg_stats_samples(s)));
    }
    return QG_OK;
}

/* --- merge --- */

static qg_status report_ranges(qg_report *r, const qg_stats *s)
{
    qg_table *t;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(qg_stats_samples(s))));
    QG_TRY(qg_report_table(r, "ranges", "first last", &t));
    for (size_t i = 0; i < s->seen.n; i++) {
        QG_TRY(qg_table_cells(r, t, qg_cell_count((size_t)s->seen.at[i].first),
                              qg_cell_count((size_t)s->seen.at[i].end - 1)));
    }
    return QG_OK;
}

static qg_status report_file(qg_report *r, const qg_stats *s)
{
    QG_TRY(qg_report_add(r, "model", qg_cell_text(s->manifest.model)));
    QG_TRY(qg_report_add(r, "graph", qg_cell_text(s->manifest.graph)));
    QG_TRY(qg_report_add(r, "kernels", qg_cell_text(s->manifest.kernels)));
    QG_TRY(qg_report_add(r, "data", qg_cell_text(s->manifest.data)));
    QG_TRY(qg_report_add(r, "values", qg_cell_count(s->value.n)));
    return report_ranges(r, s);
}

/* Which of n files has a sample of s; the first when none can be read again. */
static const char *who_overlaps(qg_ctx *ctx, const char *const *path, size_t n,
                                const qg_stats *s)
{
    assert(n >= 1);
    for (size_t k = 0; k < n; k++) {
        qg_stats *other;
        if (qg_stats_load(ctx, path[k], &other) != QG_OK)
            break;
        bool clash = qg_stats_overlap(other, s);
        qg_stats_free(other);
        if (clash)
            return path[k];
    }
    return path[0];
}

/* One file after the other into the first.  A message about samples that were seen
 * twice names the two files that share them: those before are read again then. */
static qg_status merge_all(qg_ctx *ctx, const char *const *path, size_t n,
                           bool any_kernels, qg_stats *into)
{
    assert(n >= 1);
    for (size_t i = 1; i < n; i++) {
        qg_stats *s;
        QG_TRY(qg_stats_load(ctx, path[i], &s));
        const char *first =
            qg_stats_overlap(into, s) ? who_overlaps(ctx, path, i, s) : path[0];
        if (any_kernels && strcmp(into->manifest.kernels, s->manifest.kernels) != 0)
            into->manifest.kernels = s->manifest.kernels = "several";
        qg_status status = qg_stats_merge(into, s, first, path[i]);
        qg_stats_free(s);
        QG_TRY(status);
    }
    return QG_OK;
}

qg_status qg_stats_file_merge(qg_ctx *ctx, const char *const *path, size_t n,
                              bool any_kernels, const char *out, qg_report **report)
{
    assert(n >= 1);
    qg_stats *s;
    qg_report *r = NULL;
    QG_TRY(qg_stats_load(ctx, path[0], &s));
    qg_status status = merge_all(ctx, path, n, any_kernels, s);
    if (status == QG_OK)
        status = qg_stats_save(ctx, s, out);
    if (status == QG_OK)
        status = qg_report_new(ctx, "stats", &r);
    if (status == QG_OK)
        status = report_file(r, s);
    if (status == QG_OK)
        status = qg_report_add(r, "written", qg_cell_text(out));
    qg_stats_free(s);
    return qg_report_end(status, r, report);
}

/* --- show --- */

/* NaN where there is nothing. */
static double extreme(const qg_stats_channel *c, float x)
{
    return c->count ? (double)x : NAN;
}

/* The columns that values and channels share; cells of statistics that were not
 * collected, or are empty, stay empty. */
static qg_status add_counts(qg_report *r, qg_table *t, const qg_stats_channel *c,
                            bool moments)
{
    double mean = c->count && moments ? qg_stats_mean(c) : NAN;
    double deviation = c->count && moments ? sqrt(qg_stats_variance(c)) : NAN;
    return qg_table_cells(r, t, qg_cell_count((size_t)c->count),
                          qg_cell_number(extreme(c, c->low)),
                          qg_cell_number(extreme(c, c->high)), qg_cell_number(mean),
                          qg_cell_number(deviation), qg_cell_count((size_t)c->zeros),
                          qg_cell_count((size_t)(c->nans + c->infinities)));
}

#define COUNTS_ALONE "count min max mean deviation zeros not_finite"
#define COUNTS       " " COUNTS_ALONE

enum { SHOWN_CHANNELS = 16 }; /* on a page, unless all are asked for */

static qg_status show_all(qg_report *r, const qg_stats *s)
{
    qg_table *t;
    QG_TRY(report_file(r, s));
    QG_TRY(qg_report_settled_all(r, s));
    QG_TRY(qg_report_table(r, "statistics", "value channels" COUNTS, &t));
    for (size_t i = 0; i < s->value.n; i++) {
        const qg_stats_value *v = s->value.at[i];
        qg_stats_channel all = qg_stats_total(v);
        QG_TRY(qg_table_cells(r, t, qg_cell_text(v->name),
                              qg_cell_count(v->axis < 0 ? 0 : v->channels)));
        QG_TRY(add_counts(r, t, &all, v->holds & QG_STATS_MOMENTS));
    }
    return QG_OK;
}

/* Both tails as finely as 8192 bins allow, and the middle. */
static qg_status show_percentiles(qg_report *r, const qg_stats_value *v)
{
    assert(v->bins.count);
    static const double p[] = { 0.0001, 0.001, 0.01,  0.25,  0.5,
                                0.75,   0.99,  0.999, 0.9999 };
    qg_table *t;
    QG_TRY(qg_report_table(r, "percentiles", "share below", &t));
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        QG_TRY(qg_table_cells(r, t, qg_cell_number(p[i]),
                              qg_cell_number(qg_dyadic_quantile(&v->bins, p[i]))));
    }
    return QG_OK;
}

/* Neighbouring bins in rows, with a bar each.  A row with any element has a mark: the
 * tails are what a threshold is about. */
static qg_status show_picture(qg_report *r, const qg_dyadic *h)
{
    enum { ROWS = 24, BAR = 40 };
    static const char bar[] = "########################################";
    uint32_t first, end;
    uint64_t count[ROWS] = { 0 }, most = 0, all = 0;
    qg_table *t;
    qg_dyadic_span(h, &first, &end);
    uint32_t each = (end - first + ROWS - 1) / ROWS;
    for (uint32_t i = first; i < end; i++) {
        uint64_t *row = &count[(i - first) / each];
        *row += h->count[i];
        most = *row > most ? *row : most;
        all += h->count[i];
    }
    QG_TRY(qg_report_table(r, "histogram", "from count share bar", &t));
    for (uint32_t k = 0; k * each < end - first; k++) {
        double share = all ? (double)count[k] / (double)all : 0;
        int n = most ? (int)ceil(BAR * (double)count[k] / (double)most) : 0;
        QG_TRY(qg_table_cells(r, t, qg_cell_number(qg_dyadic_edge(h, first + k * each)),
                              qg_cell_count((size_t)count[k]), qg_cell_percent(share)));
        QG_TRY(qg_table_addf(r, t, "%.*s", n, bar));
    }
    return QG_OK;
}

static qg_status show_bins(qg_report *r, const qg_dyadic *h)
{
    assert(h->count);
    uint32_t i, end;
    qg_table *t;
    qg_dyadic_span(h, &i, &end);
    QG_TRY(qg_report_add(r, "bin_width", qg_cell_number(ldexp(1, h->exponent))));
    QG_TRY(qg_report_table(r, "bins", "from count", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (; i < end; i++) {
        QG_TRY(qg_table_cells(r, t, qg_cell_number(qg_dyadic_edge(h, i)),
                              qg_cell_count((size_t)h->count[i])));
    }
    return QG_OK;
}

/* A picture and percentiles for people; every bin for programs. */
static qg_status show_one(qg_report *r, const qg_stats_value *v)
{
    qg_table *t;
    qg_stats_channel all = qg_stats_total(v);
    QG_TRY(qg_report_add(r, "value", qg_cell_text(v->name)));
    QG_TRY(qg_report_table(r, "total", COUNTS_ALONE, &t));
    QG_TRY(add_counts(r, t, &all, v->holds & QG_STATS_MOMENTS));
    QG_TRY(qg_report_table(r, "channels", "channel" COUNTS, &t));
    qg_report_detail(r, v->axis >= 0 && v->channels <= SHOWN_CHANNELS ? QG_DETAIL_SHORT
                                                                      : QG_DETAIL_ALL);
    QG_TRY(qg_table_add(r, t, qg_cell_text("all")));
    QG_TRY(add_counts(r, t, &all, v->holds & QG_STATS_MOMENTS));
    for (size_t c = 0; v->axis >= 0 && c < v->channels; c++) {
        QG_TRY(qg_table_addf(r, t, "%zu", c));
        QG_TRY(add_counts(r, t, &v->channel[c], v->holds & QG_STATS_MOMENTS));
    }
    if (!(v->holds & QG_STATS_HISTOGRAM) || all.count == 0)
        return QG_OK;
    QG_TRY(show_picture(r, &v->bins));
    QG_TRY(show_percentiles(r, v));
    return show_bins(r, &v->bins);
}

static qg_status find_value(const qg_stats *s, const char *name, qg_stats_value **out)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(name);
    *out = qg_stats_find(s, name);
    if (*out)
        return QG_OK;
    for (size_t i = 0; i < s->value.n; i++)
        qg_suggest_try(&near, s->value.at[i]->name);
    return qg_fail(s->ctx, QG_ECONFIG,
                   "stats: no value '%.1000s', expected one of the %zu in the file%s",
                   name, s->value.n, qg_suggest_text(&near, hint));
}

qg_status qg_stats_file_show(qg_ctx *ctx, const char *path, const char *name,
                             qg_report **report)
{
    qg_stats *s;
    qg_stats_value *v = NULL;
    qg_report *r = NULL;
    QG_TRY(qg_stats_load(ctx, path, &s));
    qg_status status = name ? find_value(s, name, &v) : QG_OK;
    if (status == QG_OK)
        status = qg_report_new(ctx, "stats", &r);
    if (status == QG_OK)
        status = v ? show_one(r, v) : show_all(r, s);
    qg_stats_free(s);
    return qg_report_end(status, r, report);
}

/* --- derive --- */

/* One endpoint with its own scale; endpoints with per-channel scales, or observers that
 * do not read statistics, have no interval. */
static qg_status add_endpoint(qg_report *r, qg_table *t, const qg_tqc *tqc,
                              const qg_settled *s)
{
    char at[QG_ENDPOINT_TEXT];
    return qg_table_cells(
        r, t, qg_cell_text(qg_tqc_text(tqc, at)), qg_cell_text(qg_tqc_value(tqc)->name),
        qg_cell_text(tqc->observer.name), qg_cell_count(tqc->scheme.bits),
        qg_cell_floats(tqc->scale, tqc->nparam), qg_cell_ints(tqc->offset, tqc->nparam),
        qg_cell_number(s ? s->low : NAN), qg_cell_number(s ? s->high : NAN),
        s ? qg_cell_count((size_t)s->after) : (qg_cell){ 0 });
}

/* In order of endpoints, as the rows of `settled` are: those that have a scale of their
 * own. */
static qg_status list_endpoints(qg_report *r, const qg_model *m)
{
    const qg_quant *q = m->quant;
    size_t k = 0;
    qg_table *t;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(m->info.manifest.samples)));
    QG_TRY(qg_report_table(
        r, "scales", "endpoint value observer bits scale offset low high settled_after",
        &t));
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *tqc = q->tqc.at[i];
        const qg_settled *s = k < m->info.n_settled ? &m->info.settled[k] : NULL;
        bool known = s && s->tqc == tqc;
        if (tqc->state == QG_TQC_ACTIVATED && !qg_tqc_is_constant(tqc))
            QG_TRY(add_endpoint(r, t, tqc, known ? s : NULL));
        k += known;
    }
    assert(k == m->info.n_settled);
    return qg_report_confidence(r, &m->info);
}

/* The model is quantized as `qg quantize --stats` would, and not written. */
qg_status qg_model_derive(qg_model *m, const qg_quantize_options *given,
                          qg_report **report)
{
    qg_quantize_options o;
    qg_report *r = NULL;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_quantize_options, given, &o));
    if (!o.stats)
        return qg_fail(m->ctx, QG_ECONFIG, "stats: no file given, expected one");
    QG_TRY(qg_model_quantize(m, &o, NULL));
    qg_status status = qg_report_new(m->ctx, "stats", &r);
    if (status == QG_OK)
        status = list_endpoints(r, m);
    return qg_report_end(status, r, report);
}
