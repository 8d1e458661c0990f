/* judge.c -- whether a policy keeps a budget of noise on samples that are not seen.
 *
 *     judged     quantized from the samples that choose, on those that judge
 *     deployed   quantized from all, as it will be, and on all, equal ones once
 *     crossed    cross-validation: quantized from half of all samples, on the other
 *                half; the mean over several halves.  The split may by chance have the
 *                samples that widen the ranges on one side
 *
 * To the first two is added what other samples may have more. */
#include <math.h>

#include "engine/search/search.h"

enum { FEW_JUDGES = 8, FEW_FOR_NOISE = 32, FOLD_BITS = 3 };

/* Noise is not normal: most of the mean may come from one sample in hundreds, with
 * values beyond the calibrated range.  Student's t alone was exceeded by 9 of 100
 * random networks of tests/scripts/test_search.py, three times it, with the
 * cross-validation, by one. */
#define FAR 3

/* What the mean over other samples may be above that of the feed: FAR times Student's t
 * for 95 % (two-sided), so that few samples need more; 6 from 30 on.  One sample tells
 * nothing: 0, and a warning. */
static double margin(const qg_feed *feed, double doubt)
{
    static const double t[] = { 0, 0, 12.71, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31 };
    size_t n = feed->n;
    return FAR * doubt *
           (n < sizeof t / sizeof *t ? t[n]
            : n < 15                 ? 2.26
            : n < 30                 ? 2.14
                                     : 2);
}

/* --- the ways in which it is measured --- */

typedef struct measurement {
    const char *what;
    double error, apart; /* apart: what other samples may have more */
} measurement;

enum { WAYS = 3 };

static void measurements(const qg_searching *s, const qg_tried *t, measurement m[WAYS])
{
    double judged = margin(s->split.judge, t->doubt[0]);
    double deployed = margin(&s->split.own.feed, t->doubt[1]);
    m[0] = (measurement){ "judged", t->judged, judged };
    m[1] = (measurement){ "deployed", t->deployed, deployed };
    m[2] = (measurement){ "cross-validated", t->crossed, 0 };
}

/* The first way that is beyond the budget; NULL: none is. */
static const measurement *beyond(const qg_searching *s, const measurement m[WAYS])
{
    for (size_t k = 0; k < WAYS; k++)
        if (m[k].error + m[k].apart > s->budget)
            return &m[k];
    return NULL;
}

bool qg_search_is_good(const qg_searching *s, const qg_tried *t)
{
    measurement m[WAYS];
    if (!t || t->judged < 0)
        return false;
    measurements(s, t, m);
    return !beyond(s, m);
}

const char *qg_search_excess(const qg_searching *s, const qg_tried *t)
{
    measurement m[WAYS];
    measurements(s, t, m);
    const measurement *at = beyond(s, m);
    if (!at)
        return NULL;
    return at->error >= QG_SEARCH_NO_NUMBER
               ? "not finite"
               : qg_arena_printf(s->arena, "%s %s%.3g %%", at->what,
                                 at->apart > 0 ? "up to " : "",
                                 (at->error + at->apart) * 100);
}

/* --- measuring --- */

static qg_status quantize_from_all(qg_searching *s, const qg_tried *t, qg_model *trial)
{
    s->again.from_all = true;
    qg_status st = qg_search_quantize(s, t->option, trial);
    s->again.from_all = false;
    return st;
}

static qg_status deploy(qg_searching *s, qg_tried *t)
{
    qg_model trial;
    qg_again_question q = { &trial, &s->split.own.feed, s->metric };
    qg_status st = quantize_from_all(s, t, &trial);
    if (st == QG_OK)
        st = qg_again_error(&s->again, &q, &t->deployed, &t->doubt[1]);
    t->deployed = qg_search_number(t->deployed);
    qg_again_drop(&trial);
    return st;
}

/* part[0] calibrates, part[1] judges. */
static qg_status cross_once(qg_searching *s, const qg_subset part[2], const qg_tried *t,
                            double *error)
{
    qg_model trial;
    qg_again_question q = { &trial, &part[1].feed, s->metric };
    s->again.from = &part[0];
    qg_status st = qg_search_quantize(s, t->option, &trial);
    s->again.from = NULL;
    if (st == QG_OK)
        st = qg_again_error(&s->again, &q, error, NULL);
    qg_again_drop(&trial);
    *error = qg_search_number(*error);
    return st;
}

/* The mean over both directions of each split; none when one of them is no number. */
static qg_status cross_all(qg_searching *s, qg_arena *a, qg_tried *t)
{
    double sum = 0, n = 0;
    for (unsigned k = 0; k < 2 * FOLD_BITS; k++) {
        const qg_fold fold = { k / 2, k % 2 };
        qg_subset part[2];
        double error;
        bool any;
        qg_arena_reset(a);
        QG_TRY(qg_split_fold(&s->split, fold, a, part, &any));
        if (!any)
            continue;
        QG_TRY(cross_once(s, part, t, &error));
        if (error >= QG_SEARCH_NO_NUMBER) {
            t->crossed = QG_SEARCH_NO_NUMBER;
            return QG_OK;
        }
        sum += error;
        n++;
    }
    t->crossed = n > 0 ? qg_search_number(sum / n) : 0;
    return QG_OK;
}

static qg_status cross(qg_searching *s, qg_tried *t)
{
    qg_arena *a = qg_arena_new(s->m->ctx->alloc);
    qg_status st = a ? cross_all(s, a, t) : qg_nomem(s->m->ctx);
    qg_arena_free(a);
    return st;
}

qg_status qg_search_judge(qg_searching *s, const qg_tried **t)
{
    QG_TRY(qg_search_try(s, (*t)->option, true, t));
    qg_tried *at = qg_search_known(s, (*t)->option);
    if (at->deployed < 0)
        QG_TRY(deploy(s, at));
    return s->kind == QG_BUDGET_NSR && at->crossed < 0 && qg_search_is_good(s, at)
               ? cross(s, at)
               : QG_OK;
}

/* --- warnings --- */

void qg_search_warn_few(const qg_searching *s)
{
    const bool noise = s->kind == QG_BUDGET_NSR;
    size_t n = s->split.judge->n, few = noise ? FEW_FOR_NOISE : FEW_JUDGES;
    const char *unknown = noise ? "whether the budget holds on others"
                                : "which policy is the best on others";
    if (n < few)
        qg_warn(s->m->ctx, "search: %zu %s: %s is not known, expected at least %zu", n,
                n == 1 ? "sample judges" : "samples judge", unknown, few);
}

/* In the network as it is: samples of the data have their numbers.  The trial that it
 * was measured by is calibrated from fewer samples. */
qg_status qg_search_warn_not_finite(qg_searching *s, qg_model *trial)
{
    const qg_feed *all = &s->split.feed.feed, *holdout = &s->split.holdout.feed;
    const bool bad = fmax(s->before.nsr, s->before.judged) >= QG_SEARCH_NO_NUMBER;
    const qg_workload *work = &s->o->work;
    QG_TRY(qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, work, all, all->n));
    if (!bad || s->m->warned_not_finite)
        return QG_OK;
    if (!s->split.halves)
        QG_TRY(
            qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, work, holdout, holdout->n));
    return s->m->warned_not_finite
               ? QG_OK
               : qg_model_warn_not_finite(trial, QG_RUN_SIMULATE, work, all, all->n);
}

static qg_status warn_no_number(qg_searching *s, const qg_tried *t)
{
    const qg_feed *own = &s->split.own.feed;
    qg_model trial;
    qg_warn(s->m->ctx,
            "search: quantized from all samples the outputs of the policy are "
            "NaN or infinite on some sample, expected another budget or "
            "other choices");
    qg_status st = quantize_from_all(s, t, &trial);
    if (st == QG_OK)
        st =
            qg_model_warn_not_finite(&trial, QG_RUN_SIMULATE, &s->o->work, own, own->n);
    qg_again_drop(&trial);
    return st;
}

/* Samples that judge are calibrated from when the network is deployed: one that is far
 * out may widen the scales of all.  A budget of noise accounts for it. */
qg_status qg_search_warn_deployed(qg_searching *s, const qg_tried *t)
{
    measurement m[WAYS];
    measurements(s, t, m);
    if (t->deployed >= QG_SEARCH_NO_NUMBER)
        return warn_no_number(s, t);
    if (t->deployed > 1)
        qg_warn(s->m->ctx,
                "search: the policy's noise is larger than the signal: nsr %.3g when "
                "quantized from all samples, expected a larger budget",
                t->deployed);
    if (s->kind != QG_BUDGET_NSR &&
        t->deployed - t->judged > hypot(m[0].apart, m[1].apart))
        qg_warn(
            s->m->ctx,
            "search: quantized from all samples the nsr is %.3g, more than the %.3g "
            "+- %.3g of samples that judge: scales depend on single samples, "
            "expected more of them, or an observer that clips",
            t->deployed, t->judged, m[0].apart);
    return QG_OK;
}
