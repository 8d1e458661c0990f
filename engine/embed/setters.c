/* setters.c -- changes of records by the host: all of a change, or nothing.
 *
 * The functions of quant/tqc.h check and journal one change each.  A setter is several
 * of them: an endpoint that is switched off or baked is opened for the change and
 * closed again, and scales that are derived from it follow.  Then the verifier checks
 * all records; when anything is refused, the records are put back as they were.
 *
 * Constants are not touched: the graph keeps their float values, and every plan, export
 * and snapshot rounds them with the records of its time (passes/bake.c). */
#include <math.h>

#include "engine/calib/observer.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/tqc_check.h"
#include "engine/session/session.h"

/* --- all or nothing --- */

/* The records before the change. */
typedef struct change {
    qg_quant *q;
    qg_arena *scratch;
    qg_tqc *before;          /* [tqcs], as they were */
    const float *(*lent)[2]; /* [tqcs] previous scales of the lenders of a derived
                              * scale */
    size_t journal;
    const char *author;
} change;

static void note(change *c)
{
    for (size_t i = 0; i < c->q->tqc.n; i++) {
        const qg_tqc *t = c->q->tqc.at[i];
        c->before[i] = *t;
        for (int k = 0; k < 2 && t->derive != QG_DERIVE_NONE; k++)
            c->lent[i][k] = qg_tqc_param(t->lender[k]).scale;
    }
}

/* The usual way here is a name that qg_model_find_tqc does not know. */
static qg_status no_endpoint(qg_ctx *ctx, const char *doing)
{
    return qg_fail(ctx, QG_ESTATE,
                   "%s: no endpoint (NULL), expected an endpoint of the model", doing);
}

/* The author is the pass at work, when one is. */
static qg_status begin(qg_model *m, const qg_tqc *t, const char *doing, change *c)
{
    qg_quant *q = m->quant;
    if (!q)
        return qg_fail(m->ctx, QG_ESTATE,
                       "%s: the model is not quantized, expected records", doing);
    if (!t)
        return no_endpoint(m->ctx, doing);
    if (t->quant != q)
        return qg_fail(
            m->ctx, QG_ESTATE,
            "%s: %s belongs to another model, expected an endpoint of this model",
            doing, t->name);
    size_t n = q->tqc.n;
    *c = (change){ .q = q,
                   .scratch = qg_arena_new(m->ctx->alloc),
                   .journal = q->journal.n,
                   .author = q->author };
    c->before = c->scratch ? QG_NEWN(c->scratch, n, qg_tqc) : NULL;
    c->lent = c->before ? qg_arena_get(c->scratch, n, sizeof *c->lent) : NULL;
    if (!c->lent) {
        qg_arena_free(c->scratch);
        return qg_nomem(m->ctx);
    }
    note(c);
    if (!m->pass)
        q->author = "host";
    return QG_OK;
}

static void take_back(change *c)
{
    for (size_t i = 0; i < c->q->tqc.n; i++)
        *c->q->tqc.at[i] = c->before[i];
    c->q->journal.n = c->journal;
}

/* --- endpoints that are closed for changes --- */

/* The state of an endpoint, restored after the change. */
typedef struct closed {
    qg_tqc_state off; /* DEACTIVATED or DEQUANTIZED; else INITIAL */
    bool baked;
} closed;

static qg_status open_up(qg_quant *q, qg_tqc *t, closed *was)
{
    *was = (closed){ .off = QG_TQC_INITIAL };
    if (t->state == QG_TQC_DEACTIVATED || t->state == QG_TQC_DEQUANTIZED) {
        was->off = t->state;
        QG_TRY(qg_tqc_switch_on(q, t));
    }
    was->baked = qg_tqc_is_baked(t);
    if (!was->baked)
        return QG_OK;
    return qg_tqc_set_state(
        q, t, t->state == QG_TQC_BAKED ? QG_TQC_ACTIVATED : QG_TQC_PASSIVE);
}

/* An endpoint that is no longer active is not baked again. */
static qg_status close_up(qg_quant *q, qg_tqc *t, closed was)
{
    if (was.baked && t->state == QG_TQC_ACTIVATED)
        QG_TRY(qg_tqc_set_state(q, t, QG_TQC_BAKED));
    else if (was.baked && t->state == QG_TQC_PASSIVE)
        QG_TRY(qg_tqc_set_state(q, t, QG_TQC_PASSIVE_BAKED));
    return was.off == QG_TQC_INITIAL ? QG_OK : qg_tqc_set_state(q, t, was.off);
}

/* --- dependent records --- */

static bool has_lender_changed(const change *c, const qg_tqc *t)
{
    return qg_tqc_param(t->lender[0]).scale != c->lent[t->id][0] ||
           qg_tqc_param(t->lender[1]).scale != c->lent[t->id][1];
}

/* Scales that are derived from others, where those have changed. */
static qg_status follow(change *c)
{
    qg_quant *q = c->q;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        closed was;
        if (t->derive == QG_DERIVE_NONE || t->state == QG_TQC_FP32 ||
            !has_lender_changed(c, t))
            continue;
        QG_TRY(open_up(q, t, &was));
        QG_TRY(qg_tqc_derive(q, t, t->derive, t->lender[0], t->lender[1]));
        QG_TRY(close_up(q, t, was));
    }
    return QG_OK;
}

static qg_status end(change *c, qg_status s)
{
    if (s == QG_OK)
        s = follow(c);
    if (s == QG_OK)
        s = qg_check_tqcs(c->q->ctx, c->q, QG_CHECK_ALL);
    if (s != QG_OK)
        take_back(c);
    c->q->author = c->author;
    qg_arena_free(c->scratch);
    return s;
}

/* --- one endpoint --- */

qg_status qg_model_set_state(qg_model *m, qg_tqc *t, qg_tqc_state s)
{
    change c;
    QG_TRY(begin(m, t, "set state", &c));
    if ((unsigned)s >= QG_NTQC_STATE)
        return end(&c, qg_fail(m->ctx, QG_ESTATE, "set state: %s: %u is not a state",
                               t->name, (unsigned)s));
    return end(&c, qg_tqc_set_state(c.q, t, s));
}

/* 2^k only, where the policy requires it. */
static qg_status check_power(qg_ctx *ctx, const qg_tqc *t, size_t n, const float *scale)
{
    int exponent;
    for (size_t i = 0; i < n && (t->scheme.policy & QG_POWER_OF_2); i++)
        if (isfinite(scale[i]) && frexpf(scale[i], &exponent) != 0.5F)
            return qg_fail(ctx, QG_ENUMERIC,
                           "set param: %s: scale[%zu] is %g, expected a power of 2",
                           t->name, i, (double)scale[i]);
    return QG_OK;
}

static qg_status set_param(change *c, qg_tqc *t, size_t n, const float *scale,
                           const int32_t *offset)
{
    closed was;
    if (t->derive != QG_DERIVE_NONE)
        return qg_fail(
            c->q->ctx, QG_ESTATE,
            "set param: %s: its scale is derived from %s and %s, expected an "
            "endpoint with its own",
            t->name, t->lender[0]->name, t->lender[1]->name);
    if (!scale)
        return qg_fail(c->q->ctx, QG_ESTATE,
                       "set param: %s: no scales (NULL), expected an array", t->name);
    QG_TRY(check_power(c->q->ctx, t, n, scale));
    QG_TRY(open_up(c->q, t, &was));
    QG_TRY(qg_tqc_set_param(c->q, t, n, scale, offset));
    return close_up(c->q, t, was);
}

qg_status qg_model_set_param(qg_model *m, qg_tqc *t, size_t n, const float *scale,
                             const int32_t *offset)
{
    change c;
    QG_TRY(begin(m, t, "set param", &c));
    return end(&c, set_param(&c, t, n, scale, offset));
}

static qg_status set_scheme(change *c, qg_tqc *t, const qg_scheme *s)
{
    closed was;
    if (!s)
        return qg_fail(c->q->ctx, QG_ESTATE,
                       "set scheme: %s: no scheme (NULL), expected a scheme", t->name);
    QG_TRY(open_up(c->q, t, &was));
    QG_TRY(qg_tqc_set_scheme(c->q, t, s));
    return close_up(c->q, t, was);
}

qg_status qg_model_set_scheme(qg_model *m, qg_tqc *t, const qg_scheme *s)
{
    change c;
    QG_TRY(begin(m, t, "set scheme", &c));
    return end(&c, set_scheme(&c, t, s));
}

qg_status qg_model_set_observer(qg_model *m, qg_tqc *t, const char *observer)
{
    change c;
    qg_observer_setting setting;
    if (!observer)
        return qg_fail(m->ctx, QG_ESTATE,
                       "set observer: no observer (NULL), expected its name");
    QG_TRY(qg_observer_parse(m->ctx, observer, &setting));
    QG_TRY(begin(m, t, "set observer", &c));
    return end(&c, qg_tqc_set_observer(c.q, t, &setting));
}

qg_status qg_model_set_visibility(qg_model *m, qg_tqc *t, qg_visibility v)
{
    change c;
    QG_TRY(begin(m, t, "set visibility", &c));
    if ((unsigned)v > QG_EXPORT_INTERNAL)
        return end(&c, qg_fail(m->ctx, QG_ESTATE,
                               "set visibility: %s: %u is not a visibility", t->name,
                               (unsigned)v));
    return end(&c, qg_tqc_set_visibility(c.q, t, v));
}

qg_status qg_model_set_quantizer(qg_model *m, qg_tqc *t, const char *quantizer)
{
    change c;
    const qg_quantizer *row = NULL;
    QG_TRY(begin(m, t, "set quantizer", &c));
    qg_status s =
        quantizer ? qg_quantizer_named(m->ctx, t->name, quantizer, &row) : QG_OK;
    return end(&c, s == QG_OK ? qg_tqc_set_quantizer(c.q, t, row) : s);
}

/* --- groups --- */

/* Two of one model, as functions of quant/tqc.h share them. */
typedef qg_status sharing(qg_quant *q, qg_tqc *t, qg_tqc *other);

/* The root of t moves with it, so both are opened. */
static qg_status share_with(change *c, qg_tqc *t, qg_tqc *other, sharing *how)
{
    closed was, root_was = { .off = QG_TQC_INITIAL };
    qg_tqc *root = c->q->tqc.at[qg_tqc_root(t)->id];
    if (!other)
        return no_endpoint(c->q->ctx, "share");
    if (other->quant != c->q)
        return qg_fail(
            c->q->ctx, QG_ESTATE,
            "share: %s: belongs to another model, expected an endpoint of this model",
            other->name);
    QG_TRY(open_up(c->q, t, &was));
    if (root != t)
        QG_TRY(open_up(c->q, root, &root_was));
    QG_TRY(how(c->q, t, other));
    if (root != t)
        QG_TRY(close_up(c->q, root, root_was));
    return close_up(c->q, t, was);
}

qg_status qg_model_join(qg_model *m, qg_tqc *t, qg_tqc *dominator)
{
    change c;
    QG_TRY(begin(m, t, "join", &c));
    return end(&c, share_with(&c, t, dominator, qg_tqc_join));
}

qg_status qg_model_lend(qg_model *m, qg_tqc *t, qg_tqc *lender)
{
    change c;
    QG_TRY(begin(m, t, "lend", &c));
    return end(&c, share_with(&c, t, lender, qg_tqc_lend));
}

static qg_status detach(change *c, qg_tqc *t)
{
    closed was;
    QG_TRY(open_up(c->q, t, &was));
    QG_TRY(qg_tqc_detach(c->q, t));
    return close_up(c->q, t, was);
}

qg_status qg_model_detach(qg_model *m, qg_tqc *t)
{
    change c;
    QG_TRY(begin(m, t, "detach", &c));
    return end(&c, detach(&c, t));
}
