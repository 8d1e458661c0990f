#include "engine/report/describe.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/calib/calibrate.h"

const char *qg_value_kind(const qg_value *v)
{
    return v->constant    ? "constant"
           : v->is_input  ? "input of the network"
           : v->is_output ? "output of the network"
                          : "inner value";
}

const char *qg_state_meaning(qg_tqc_state s)
{
    static const char *const meaning[QG_NTQC_STATE] = { /* ORDER STATE */
#define X(id, text, rounds, own, out, words) #id ", " words,
                                                        QG_TQC_STATE_MAP(X)
#undef X
    };
    assert(s < QG_NTQC_STATE);
    return meaning[s];
}

/* Words in their usual order; those that do not apply are left out. */
const char *qg_scheme_text(const qg_scheme *s, char text[QG_SCHEME_TEXT])
{
    char policy[QG_POLICY_TEXT], range[48] = "", axis[24] = "", block[24] = "",
                                 exponent[32] = "";
    if (s->qmin != -INT64_MAX || s->qmax != INT64_MAX)
        (void)snprintf(range, sizeof range, " [%" PRId64 ", %" PRId64 "]", s->qmin,
                       s->qmax);
    if (s->axis >= 0)
        (void)snprintf(axis, sizeof axis, ", axis %d", s->axis);
    if (s->block)
        (void)snprintf(block, sizeof block, ", blocks of %" PRId32, s->block);
    if (s->exponent_bits)
        (void)snprintf(exponent, sizeof exponent, ", %d of them exponent",
                       s->exponent_bits);
    (void)snprintf(text, QG_SCHEME_TEXT, "%d bits%s%s %s %s%s%s", s->bits, exponent,
                   range, qg_rounding_name((qg_rounding)s->rounding),
                   qg_policy_text(s->policy, policy), axis, block);
    return text;
}

const qg_origin *qg_origin_named(const qg_backend *b, const char *id, const char **kind)
{
    *kind = "rule";
    for (size_t i = b->rule.n; i-- > 0;) /* the last of an id overrides */
        if (strcmp(b->rule.at[i].origin.id, id) == 0)
            return &b->rule.at[i].origin;
    *kind = "fusion";
    for (size_t i = b->fusion.n; i-- > 0;)
        if (strcmp(b->fusion.at[i].origin.id, id) == 0)
            return &b->fusion.at[i].origin;
    *kind = "sharing";
    for (size_t i = b->sharing.n; i-- > 0;)
        if (strcmp(b->sharing.at[i].origin.id, id) == 0)
            return &b->sharing.at[i].origin;
    return NULL;
}

qg_status qg_report_states(qg_report *r, const qg_quant *q)
{
    size_t count[QG_NTQC_STATE] = { 0 };
    qg_table *t;
    for (size_t i = 0; i < q->tqc.n; i++)
        count[q->tqc.at[i]->state]++;
    QG_TRY(qg_report_table(r, "states", "state endpoints", &t));
    for (int s = 0; s < QG_NTQC_STATE; s++) {
        if (!count[s])
            continue;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_tqc_state_name((qg_tqc_state)s)),
                              qg_cell_count(count[s])));
    }
    return QG_OK;
}

void qg_certainty_add(qg_certainty *c, double error, const char *name)
{
    c->scales++;
    c->uncertain += error > QG_UNCERTAIN;
    if (c->name && error <= c->worst)
        return;
    c->worst = error;
    c->name = name;
}

/* The error of one sample, of which no part can be left out, is infinite. */
qg_status qg_report_certainty(qg_report *r, const char *fact, const qg_certainty *c,
                              uint64_t samples)
{
    const char *plural = c->scales == 1 ? "" : "s";
    if (!c->scales)
        return QG_OK;
    if (c->worst == 0) /* of ranges that differ by chance it is above 0 */
        return qg_report_addf(r, fact,
                              "not known: all samples gave the same ranges, expected "
                              "samples that differ");
    if (isinf(c->worst))
        return qg_report_addf(r, fact, "not known from %llu sample%s, expected several",
                              (unsigned long long)samples, samples == 1 ? "" : "s");
    if (!c->uncertain)
        return qg_report_addf(r, fact,
                              "standard error of %zu scale%s at most %.1f %% (%.200s)",
                              c->scales, plural, 100 * c->worst, c->name);
    return qg_report_addf(r, fact,
                          "low: %zu of %zu scale%s depend%s on few samples (standard "
                          "error above %.0f %%, most %.200s with %.1f %%), expected "
                          "more samples",
                          c->uncertain, c->scales, plural, c->uncertain == 1 ? "s" : "",
                          100 * QG_UNCERTAIN, c->name, 100 * c->worst);
}

qg_status qg_report_confidence(qg_report *r, const qg_snapshot_info *info)
{
    qg_certainty sure = { 0 };
    char at[2][QG_ENDPOINT_TEXT];
    uint64_t after = 0;
    if (info->n_settled == 0)
        return QG_OK;
    for (size_t i = 0; i < info->n_settled; i++) {
        const qg_settled *s = &info->settled[i];
        after = s->after > after ? s->after : after;
        qg_certainty_add(&sure, s->error, qg_tqc_text(s->tqc, at[0]));
        if (sure.name == at[0])
            sure.name = memcpy(at[1], at[0], sizeof at[0]);
    }
    QG_TRY(qg_report_add_quiet(r, "settled_after", qg_cell_count((size_t)after)));
    QG_TRY(qg_report_add_quiet(r, "uncertain", qg_cell_count(sure.uncertain)));
    return qg_report_certainty(r, "confidence", &sure, info->manifest.samples);
}
