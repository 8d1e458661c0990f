/* scales.c -- groups that no result depends on together form a batch, and are searched
 * together: a run tries one scale of each.
 *
 *     powers   float formats and powers of two: own scale * 2^k, the one of least
 *              error
 *     scan     others: FACTORS from two thirds of the own scale to one and a half
 *              times it, so near to each other that one of them gives most of 8-bit
 *              codes the device's number: 127 (1 + x) rounds to 127 below x = 0.4 %
 *     zoom     AROUND scales about the best, four times as close each time
 *     edges    of equal scales: the ends of the interval by bisection, its middle
 *     zero     codes of the real 0, where the scheme has one: only clamped elements
 *              show it, so the own one stays unless another is better */
#include "engine/device/scales.h"

#include <math.h>

#include "engine/core/num.h"
#include "engine/device/replay.h"

enum {
    POWERS = 8,    /* binary orders below and above the own scale */
    FACTORS = 325, /* of the scan */
    AROUND = 9,    /* of a zoom */
    ZOOMS = 8,     /* from NEXT to 1e-7 */
    FINE = 6,      /* zooms once the limits are known */
    EDGES = 20,    /* halvings */
    ZEROS = 16,    /* zero points of a pass: every ZEROS-th code, then those between */
    WIDE = 24,     /* bits of codes that no element reaches */
    LEVEL_WIDE = 16, /* where levels are rounded: QG_LEVELS of them at most */
    FAR = 6          /* nodes behind a value that is not visible */
};
/* How the reason of a rule with a found scale begins. */
#define FOUND "no array shows this scale"
/* Of the own error, from which a scale is clearly better. */
#define CLEARLY 0.5
/* Factors - 1: of the ends of the scan, of two neighbours in it. */
#define SCAN 0.5
#define NEXT 2.5e-3

typedef struct group {
    const qg_tqc *root;
    qg_scheme scheme;    /* of a trial */
    bool powers, offset; /* scales are own * 2^k; the scheme has a zero point */
    bool found;          /* before: of all scales with the least error, the middle */
    float own, best, now;
    int32_t own_zero, best_zero, now_zero;
    double own_error, error; /* with the best */
    double spread;           /* of the zoom, a factor - 1 */
    double low, high, at[2]; /* edges: of the interval; outside and inside */
    const uint8_t *result;   /* [values] that depend on it */
    size_t results, batch;
} group;

typedef struct search {
    qg_attempt *t;
    qg_arena *arena;
    qg_replay replay;
    qg_replay_trial *trial; /* [TQCs] */
    uint8_t *wanted;
    QG_VEC(group) group;
    size_t batch; /* at work */
} search;

/* --- groups --- */

/* A group of a single linear or float scale, which calibration gave. */
static bool can_be_searched(const qg_tqc *root)
{
    return !qg_tqc_is_constant(root) && root->derive == QG_DERIVE_NONE &&
           !(root->scheme.policy & QG_DYNAMIC) && qg_tqc_param(root).n == 1 &&
           root->scheme.bits <= 16 && qg_tqc_param(root).scale[0] > 0;
}

/* An array decides the scale of the group. */
static bool is_shown(const qg_attempt *t, const qg_tqc *root)
{
    const qg_model *m = qg_attempt_model(t);
    for (size_t i = 0; i < m->graph->value.n; i++) {
        const qg_value *v = m->graph->value.at[i];
        const bool held = !v->constant && qg_attempt_is_held(t, v, root);
        const qg_seen *o = held ? qg_attempt_seen(t, v) : NULL;
        if (o && o->kind == QG_SEEN_CODES && o->step > 0 &&
            (!(root->scheme.policy & QG_FLOATING) ||
             qg_grid_decides_float(&root->scheme, o)))
            return true;
    }
    return false;
}

/* The next visible values behind the node; false: there is none. */
static bool mark_results(const qg_attempt *t, const qg_node *n, int depth,
                         uint8_t *result)
{
    bool any = false;
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        const qg_seen *o = v ? qg_attempt_seen(t, v) : NULL;
        if (o && t->share[o->value->id] >= 0) {
            result[o->value->id] = 1;
            any = true;
            continue;
        }
        for (size_t i = 0; v && depth < FAR && i < v->use.n; i++)
            any |= mark_results(t, v->use.at[i].node, depth + 1, result);
    }
    return any;
}

/* Endpoints that round with the scale of the group get a trial parameter. */
static void mark_members(search *s, group *g, uint8_t *result)
{
    const qg_model *m = qg_attempt_model(s->t);
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *x = m->quant->tqc.at[i];
        if (qg_tqc_root(x) != g->root || !qg_tqc_rounds(x) || qg_tqc_is_constant(x))
            continue;
        s->trial[x->id] = (qg_replay_trial){
            &g->scheme, {1, &g->now, &g->now_zero}
        };
        (void)mark_results(s->t, x->node, 0, result);
    }
}

bool qg_scales_is_found(const qg_attempt *t, const qg_tqc *root)
{
    const qg_backend *b = qg_attempt_model(t)->quant->backend;
    for (size_t i = 0; root->rule != QG_NONE && i < t->draft.change.n; i++) {
        const qg_draft_change *c = &t->draft.change.at[i];
        if (c->key == QG_DRAFT_RULE && strncmp(c->why, FOUND, strlen(FOUND)) == 0 &&
            strcmp(c->word, b->rule.at[root->rule].origin.id) == 0)
            return true;
    }
    return false;
}

static qg_status add_group(search *s, const qg_tqc *root)
{
    size_t values = s->t->how->seen->graph->value.n;
    uint8_t *result = QG_NEWN(s->arena, values, uint8_t);
    qg_qparam p = qg_tqc_param(root);
    group g = { .root = root,
                .powers = root->scheme.policy & (QG_FLOATING | QG_POWER_OF_2),
                .found = qg_scales_is_found(s->t, root),
                .offset = root->scheme.policy & QG_ASYMMETRIC,
                .own = p.scale[0],
                .own_zero = p.offset ? p.offset[0] : 0,
                .result = result,
                .scheme = root->scheme };
    if (!result)
        return qg_nomem(s->t->how->m->ctx);
    g.best = g.now = g.own;
    g.best_zero = g.now_zero = g.own_zero;
    return qg_vec_push(s->t->how->m->ctx, s->arena, &s->group, g);
}

static qg_status find_groups(search *s)
{
    const qg_quant *q = qg_attempt_model(s->t)->quant;
    for (size_t i = 0; i < q->tqc.n; i++)
        if (qg_tqc_root(q->tqc.at[i]) == q->tqc.at[i] &&
            can_be_searched(q->tqc.at[i]) && !is_shown(s->t, q->tqc.at[i]))
            QG_TRY(add_group(s, q->tqc.at[i]));
    for (size_t i = 0; i < s->group.n; i++) /* they stay in place now */
        mark_members(s, &s->group.at[i], (uint8_t *)s->group.at[i].result);
    size_t left = 0, values = s->t->how->seen->graph->value.n;
    for (size_t i = 0; i < s->group.n; i++)
        for (size_t v = 0; v < values; v++) {
            s->wanted[v] |= s->group.at[i].result[v];
            s->group.at[i].results += s->group.at[i].result[v];
            left += s->group.at[i].result[v];
        }
    if (left == 0)
        s->group.n = 0;
    return QG_OK;
}

/* --- runs --- */

/* Of the batch at work, and searched so. */
static bool is_at_work(const search *s, const group *g, bool powers)
{
    return g->batch == s->batch && g->powers == powers && g->results > 0;
}

/* Runs with `now` of every group. */
static qg_status try_now(search *s) { return qg_replay_run(&s->replay); }

static double error_of(const search *s, const group *g)
{
    double e = 0;
    for (size_t v = 0; v < s->t->how->seen->graph->value.n; v++)
        e += g->result[v] ? s->replay.error[v] : 0;
    return e;
}

static void keep_better(const search *s, group *g)
{
    double e = error_of(s, g);
    if (e < g->error) {
        g->error = e;
        g->best = g->now;
        g->best_zero = g->now_zero;
    }
}

/* The best so far of every group, and the errors of those at work. */
static qg_status try_best(search *s)
{
    for (size_t i = 0; i < s->group.n; i++) {
        group *g = &s->group.at[i];
        g->now = g->best;
        g->now_zero = g->best_zero;
    }
    QG_TRY(try_now(s));
    for (size_t i = 0; i < s->group.n; i++)
        if (s->group.at[i].batch == s->batch)
            s->group.at[i].error = error_of(s, &s->group.at[i]);
    return QG_OK;
}

/* Whether any group at work can still become better. */
static bool is_worth(const search *s, bool powers)
{
    for (size_t i = 0; i < s->group.n; i++)
        if (is_at_work(s, &s->group.at[i], powers) &&
            (s->group.at[i].error > 0 || s->group.at[i].found))
            return true;
    return false;
}

static qg_status try_powers(search *s)
{
    for (int k = 1; k <= POWERS; k++)
        for (int sign = -1; sign <= 1; sign += 2) {
            for (size_t i = 0; i < s->group.n; i++)
                if (is_at_work(s, &s->group.at[i], true))
                    s->group.at[i].now = ldexpf(s->group.at[i].own, sign * k);
            QG_TRY(try_now(s));
            for (size_t i = 0; i < s->group.n; i++)
                if (is_at_work(s, &s->group.at[i], true))
                    keep_better(s, &s->group.at[i]);
        }
    return QG_OK;
}

/* n scales of every group, from center / (1 + spread) on to center * (1 + spread). */
static qg_status try_scales(search *s, int n)
{
    double *center = QG_NEWN(s->arena, s->group.n, double);
    if (!center)
        return qg_nomem(s->t->how->m->ctx);
    for (size_t i = 0; i < s->group.n; i++)
        center[i] = (double)s->group.at[i].best;
    for (int k = 0; k < n; k++) {
        for (size_t i = 0; i < s->group.n; i++) {
            group *g = &s->group.at[i];
            double x = 2.0 * k / (n - 1) - 1;
            if (is_at_work(s, g, false))
                g->now = (float)(center[i] * exp(x * log1p(g->spread)));
        }
        QG_TRY(try_now(s));
        for (size_t i = 0; i < s->group.n; i++)
            if (is_at_work(s, &s->group.at[i], false))
                keep_better(s, &s->group.at[i]);
    }
    return QG_OK;
}

/* The end of the interval of scales with the least error, downwards or upwards. */
static qg_status find_edge(search *s, int side)
{
    for (size_t i = 0; i < s->group.n; i++) {
        group *g = &s->group.at[i];
        g->at[0] = (double)g->best * (1 + side * 1e-3); /* outside, presumably */
        g->at[1] = (double)g->best;
    }
    for (int k = 0; k < EDGES; k++) {
        for (size_t i = 0; i < s->group.n; i++) {
            group *g = &s->group.at[i];
            if (is_at_work(s, g, false))
                g->now = (float)((g->at[0] + g->at[1]) / 2);
        }
        QG_TRY(try_now(s));
        for (size_t i = 0; i < s->group.n; i++) {
            group *g = &s->group.at[i];
            g->at[error_of(s, g) <= g->error] = (double)g->now;
        }
    }
    for (size_t i = 0; i < s->group.n; i++)
        *(side < 0 ? &s->group.at[i].low : &s->group.at[i].high) = s->group.at[i].at[1];
    return QG_OK;
}

static qg_status find_middle(search *s)
{
    QG_TRY(try_best(s));
    QG_TRY(find_edge(s, -1));
    QG_TRY(find_edge(s, 1));
    for (size_t i = 0; i < s->group.n; i++) {
        group *g = &s->group.at[i];
        if (is_at_work(s, g, false))
            g->best = (float)((g->low + g->high) / 2);
    }
    return QG_OK;
}

static qg_status zoom(search *s, double spread, int zooms)
{
    for (int k = 0; k < zooms; k++, spread /= 4) {
        for (size_t i = 0; i < s->group.n; i++)
            s->group.at[i].spread = spread;
        QG_TRY(try_scales(s, AROUND));
    }
    return QG_OK;
}

/* Zero points from the own one on, `step` apart, `n` to either side. */
static qg_status try_zeros(search *s, int step, int n)
{
    int32_t *center = QG_NEWN(s->arena, s->group.n, int32_t);
    if (!center)
        return qg_nomem(s->t->how->m->ctx);
    QG_TRY(try_best(s));
    for (size_t i = 0; i < s->group.n; i++)
        center[i] = s->group.at[i].best_zero;
    for (int k = -n; k <= n; k++) {
        for (size_t i = 0; i < s->group.n; i++) {
            group *g = &s->group.at[i];
            int64_t zero = (int64_t)center[i] + (int64_t)k * step;
            const qg_scheme *x = &g->root->scheme;
            g->now_zero = !g->offset || !is_at_work(s, g, false) || zero < x->qmin ||
                                  zero > x->qmax
                              ? g->best_zero
                              : (int32_t)zero;
        }
        QG_TRY(try_now(s));
        for (size_t i = 0; i < s->group.n; i++)
            if (is_at_work(s, &s->group.at[i], false))
                keep_better(s, &s->group.at[i]);
    }
    return QG_OK;
}

static bool has_zeros(const search *s)
{
    for (size_t i = 0; i < s->group.n; i++)
        if (is_at_work(s, &s->group.at[i], false) && s->group.at[i].offset &&
            s->group.at[i].error > 0)
            return true;
    return false;
}

/* Without limits, the zero point has no effect on what a code stands for: so the scale
 * is searched first. */
static void widen(search *s, bool wide)
{
    for (size_t i = 0; i < s->group.n; i++) {
        group *g = &s->group.at[i];
        if (!g->offset || !is_at_work(s, g, false))
            continue;
        const uint8_t bits =
            g->scheme.rounding == QG_ROUND_HALF_EVEN_LEVEL ? LEVEL_WIDE : WIDE;
        g->scheme.bits = wide ? bits : g->root->scheme.bits;
        g->scheme.qmin = wide ? -(1 << (bits - 1)) : g->root->scheme.qmin;
        g->scheme.qmax = wide ? (1 << (bits - 1)) - 1 : g->root->scheme.qmax;
    }
}

static qg_status search_linear(search *s)
{
    widen(s, true);
    QG_TRY(try_best(s));
    for (size_t i = 0; i < s->group.n; i++)
        s->group.at[i].spread = SCAN;
    QG_TRY(try_scales(s, FACTORS));
    QG_TRY(zoom(s, NEXT, ZOOMS));
    widen(s, false);
    QG_TRY(try_best(s));
    if (has_zeros(s)) {
        QG_TRY(try_zeros(s, ZEROS, ZEROS / 2));
        QG_TRY(try_zeros(s, 1, ZEROS));
    }
    QG_TRY(zoom(s, 2e-4, FINE));
    QG_TRY(find_middle(s));
    return try_best(s);
}

/* --- rules --- */

static bool is_better(const group *g)
{
    bool other = g->best != g->own || g->best_zero != g->own_zero;
    if (g->found && !g->powers)
        return other && g->results && g->error <= g->own_error;
    return other && g->results &&
           (g->powers ? g->error < g->own_error : g->error < CLEARLY * g->own_error);
}

static qg_status add_found(const search *s, const group *g, qg_arena *a,
                           qg_found_scales *out)
{
    const qg_scheme *x = &g->root->scheme;
    char step[QG_NUM_TEXT];
    qg_num_f32(step, g->best);
    qg_found_scale f = { .root = g->root };
    f.set = qg_arena_printf(a, "{observer: fixed, step: %s, zero: %lld}", step,
                            (long long)(g->best_zero - x->qmin + 1));
    f.why = qg_arena_printf(a,
                            FOUND "; with it the results have the squared error %.4g, "
                                  "with that of these samples %.4g",
                            g->error, g->own_error);
    if (!f.set || !f.why)
        return qg_nomem(s->t->how->m->ctx);
    return qg_vec_push(s->t->how->m->ctx, a, out, f);
}

static qg_status search_batch(search *s)
{
    QG_TRY(try_best(s));
    for (size_t i = 0; i < s->group.n; i++)
        if (s->group.at[i].batch == s->batch)
            s->group.at[i].own_error = s->group.at[i].error;
    if (is_worth(s, true))
        QG_TRY(try_powers(s));
    return is_worth(s, false) ? search_linear(s) : QG_OK;
}

static bool have_common(const search *s, const group *a, const group *b)
{
    for (size_t v = 0; v < s->t->how->seen->graph->value.n; v++)
        if (a->result[v] && b->result[v])
            return true;
    return false;
}

/* Each group to the first batch of which no group has a result of it; their number. */
static size_t make_batches(search *s)
{
    size_t batches = 0;
    for (size_t i = 0; i < s->group.n; i++) {
        group *g = &s->group.at[i];
        for (size_t k = 0; k < i; k++)
            if (s->group.at[k].batch == g->batch &&
                have_common(s, g, &s->group.at[k])) {
                g->batch++;
                k = (size_t)-1; /* all again */
            }
        batches = g->batch + 1 > batches ? g->batch + 1 : batches;
    }
    return batches;
}

static qg_status find(search *s, qg_arena *a, qg_found_scales *out)
{
    QG_TRY(find_groups(s));
    if (!s->group.n)
        return QG_OK;
    const size_t batches = make_batches(s);
    s->replay.trial = s->trial;
    s->replay.wanted = s->wanted;
    QG_TRY(qg_replay_open(&s->replay));
    for (s->batch = 0; s->batch < batches; s->batch++)
        QG_TRY(search_batch(s));
    for (size_t i = 0; i < s->group.n; i++)
        if (is_better(&s->group.at[i]))
            QG_TRY(add_found(s, &s->group.at[i], a, out));
    return QG_OK;
}

qg_status qg_scales_find(qg_attempt *t, qg_arena *a, qg_found_scales *out)
{
    qg_ctx *ctx = t->how->m->ctx;
    search s = { .t = t, .arena = qg_arena_new(ctx->alloc), .replay = { .t = t } };
    if (!s.arena)
        return qg_nomem(ctx);
    s.trial = QG_NEWN(s.arena, qg_attempt_model(t)->quant->tqc.n, qg_replay_trial);
    s.wanted = QG_NEWN(s.arena, t->how->seen->graph->value.n, uint8_t);
    qg_status status = s.trial && s.wanted ? find(&s, a, out) : qg_nomem(ctx);
    qg_replay_close(&s.replay);
    qg_arena_free(s.arena);
    return status;
}
