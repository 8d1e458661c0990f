/* replay.c -- simulates each node on the device's own inputs, and counts the elements
 * that are the device's. */
#include "engine/device/replay.h"

#include <math.h>

#include "engine/core/num.h"
#include "engine/quant/fake.h"

/* Of the greatest element: floats that differ by less are equal. */
#define SAME_REAL 1e-4
/* Steps by which a code in float32 misses its place. */
#define SAME_CODE 0.02
/* Samples on which the nodes are simulated while backends are searched: each costs a
 * run per attempt. */
enum { REPLAYED = 4, QUICK = 2 };
/* Nodes behind a value that is not visible, until one is that is. */
enum { FAR = 6 };
/* Shares of equal elements that differ by less are one. */
#define CLEARLY 0.02

/* --- replay --- */

static bool is_equal(const qg_seen *o, double most, double ours, double theirs)
{
    return ours == theirs ||
           fabs(ours - theirs) <=
               (o->kind == QG_SEEN_CODES ? 0.5 * o->step : SAME_REAL * most);
}

/* A float result that its readers round, as they round it. */
static qg_status as_readers(qg_ctx *ctx, const qg_value *v, qg_tensor *x)
{
    const qg_tqc *t = qg_attempt_tqc(v);
    const qg_qparam p = qg_tqc_param(t);
    return qg_fake_quantize(ctx, v->name, &qg_tqc_root(t)->scheme, &p, x, x);
}

static bool has_trial(const qg_replay *r, const qg_tqc *t)
{
    return t && r->trial && r->trial[t->id].scheme;
}

/* A float result on the grid that the trace shows, within the codes that it has. */
static void to_seen_grid(const qg_seen *o, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double code = nearbyint((double)x[i] / o->step);
        x[i] = (float)(fmin(fmax(code, o->low), o->high) * o->step);
    }
}

/* Rounds by the trial parameter of the endpoint, where it has one. */
static qg_status round_trial(const qg_replay *r, qg_ctx *ctx, const qg_hook_point *at,
                             qg_tensor *x)
{
    const qg_tqc *t = qg_endpoint_tqc(at->endpoint);
    if (!has_trial(r, t) || at->rounded)
        return QG_OK;
    return qg_fake_quantize(ctx, t->node->name, r->trial[t->id].scheme,
                            &r->trial[t->id].param, x, x);
}

/* Counts the elements of an output as the node stores it, and replaces them by the
 * device's. */
static void compare(qg_replay *r, const qg_seen *o, const double *theirs, float *ours,
                    size_t n)
{
    uint32_t id = o->value->id;
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = isfinite(theirs[i]) ? fmax(most, fabs(theirs[i])) : most;
    double unit = o->kind == QG_SEEN_CODES ? o->step : most > 0 ? most : 1;
    for (size_t i = 0; i < n; i++) {
        double e = ((double)ours[i] - theirs[i]) / unit;
        if (o->kind == QG_SEEN_CODES && fabs(e) < SAME_CODE)
            e = 0;
        r->equal[id] += is_equal(o, most, (double)ours[i], theirs[i]);
        r->error[id] += isfinite(e) ? e * e : 0;
        ours[i] = (float)theirs[i];
    }
    r->of[id] += n;
}

static bool is_last(qg_replay *r, const qg_seen *o)
{
    r->met += r->wanted && r->wanted[o->value->id];
    return r->wanted && r->met == r->awaited;
}

/* Compares an output as the node stores it, and goes on with the device's. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    qg_replay *r = ud;
    const qg_value *v = qg_endpoint_value(at->endpoint);
    const qg_seen *o = at->endpoint.is_output ? qg_attempt_seen(r->t, v) : NULL;
    bool again = at->tqc && qg_tqc_rounds(at->tqc) && !at->rounded &&
                 !has_trial(r, qg_endpoint_tqc(at->endpoint));
    qg_tensor x;
    double *theirs;
    QG_TRY(round_trial(r, ctx, at, value));
    if (!o || again || value->dtype != QG_F32 || o->kind == QG_SEEN_HIDDEN ||
        (o->kind == QG_SEEN_CODES && !(o->step > 0)))
        return QG_OK;
    qg_arena_reset(r->arena);
    qg_tensor_init(&x, QG_F32, value->rank, value->dim);
    if (qg_tensor_count(&x) != qg_tensor_count(&o->type))
        return QG_OK;
    QG_TRY(qg_tensor_alloc(ctx, r->arena, &x));
    QG_TRY(qg_seen_read(ctx, r->t->how->seen, o, sample, r->arena, &theirs));
    qg_tensor_copy(value, &x);
    if (o->kind == QG_SEEN_CODES && r->real)
        to_seen_grid(o, x.f32, (size_t)qg_tensor_count(&x));
    else if (o->kind == QG_SEEN_CODES && qg_attempt_by_readers(v))
        QG_TRY(as_readers(ctx, v, &x));
    compare(r, o, theirs, x.f32, (size_t)qg_tensor_count(&x));
    qg_tensor_copy(&x, value);
    return is_last(r, o) ? QG_ECANCELED : QG_OK;
}

/* [nodes] of [endpoints]: hooks replace every output, and inputs with a trial. */
static qg_status endpoints_to_write(const qg_replay *r, qg_ctx *ctx, const qg_graph *g,
                                    const uint8_t *const **out)
{
    const uint8_t **write = QG_NEWN(g->arena, g->node.n, const uint8_t *);
    if (!write)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        uint8_t *mask = QG_NEWN(g->arena, qg_node_endpoints(n), uint8_t);
        if (!mask)
            return qg_nomem(ctx);
        for (uint32_t k = 0; k < n->n_in; k++)
            mask[k] = has_trial(r, qg_input_tqc(n, k));
        memset(mask + n->n_in, 1, n->n_out);
        write[i] = mask;
    }
    *out = write;
    return QG_OK;
}

/* The quantizers that trial parameters replace. */
static qg_status quantizers_to_mute(const qg_replay *r, const qg_model *m,
                                    const uint8_t **out)
{
    uint8_t *mute = QG_NEWN(m->graph->arena, m->quant->tqc.n, uint8_t);
    if (!mute)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < m->quant->tqc.n; i++)
        mute[i] = has_trial(r, m->quant->tqc.at[i]);
    *out = mute;
    return QG_OK;
}

qg_status qg_replay_open(qg_replay *r)
{
    const qg_model *m = r->real ? r->t->how->m : qg_attempt_model(r->t);
    qg_ctx *ctx = r->t->how->m->ctx;
    size_t n = r->t->how->seen->graph->value.n;
    qg_plan_options o = { .mode = r->real ? QG_MODE_FLOAT : QG_MODE_SIMULATE,
                          .quant = r->real ? NULL : m->quant,
                          .watch_all = true,
                          .input = r->t->how->feed->feed.shape,
                          .reference = r->t->how->work->reference_kernels };
    r->equal = QG_NEWN(m->graph->arena, n, uint64_t);
    r->of = QG_NEWN(m->graph->arena, n, uint64_t);
    r->error = QG_NEWN(m->graph->arena, n, double);
    r->arena = qg_arena_new(ctx->alloc);
    if (!r->equal || !r->of || !r->error || !r->arena)
        return qg_nomem(ctx);
    QG_TRY(endpoints_to_write(r, ctx, m->graph, &o.write));
    if (r->trial)
        QG_TRY(quantizers_to_mute(r, m, &o.mute));
    for (size_t i = 0; r->wanted && i < n; i++)
        r->awaited += r->wanted[i];
    QG_TRY(qg_plan_new(ctx, m->graph, &o, &r->plan));
    return qg_run_new(ctx, r->plan, &r->run);
}

qg_status qg_replay_run(qg_replay *r)
{
    const qg_feed *feed = &r->t->how->feed->feed;
    qg_ctx *ctx = r->t->how->m->ctx;
    qg_arena *sample = qg_arena_new(ctx->alloc);
    qg_hook hook = { see, r };
    qg_status s = sample ? QG_OK : qg_nomem(ctx);
    size_t n = r->whole ? feed->n : r->t->how->quick ? QUICK : REPLAYED;
    size_t values = r->t->how->seen->graph->value.n;
    memset(r->equal, 0, values * sizeof *r->equal);
    memset(r->of, 0, values * sizeof *r->of);
    memset(r->error, 0, values * sizeof *r->error);
    for (size_t i = 0; i < feed->n && i < n && s == QG_OK; i++) {
        qg_arena_reset(sample);
        const qg_tensor **in =
            QG_NEWN(sample, r->plan->graph->input.n, const qg_tensor *);
        s = in ? feed->fetch(feed->ud, ctx, sample, i, in) : qg_nomem(ctx);
        r->met = 0;
        if (s == QG_OK)
            s = qg_run_execute(r->run, in, &hook, 1, i);
        if (s == QG_ECANCELED && r->wanted && r->met == r->awaited)
            s = QG_OK;
    }
    qg_arena_free(sample);
    return s;
}

void qg_replay_close(qg_replay *r)
{
    qg_run_free(r->run);
    qg_plan_free(r->plan);
    qg_arena_free(r->arena);
}

/* --- exactness --- */

/* The scale of v in a simulation is the device's: v is shown, or a float input of the
 * network, or computed from such values without being rounded. */
static bool is_known(const qg_attempt *t, const qg_value *v, int depth)
{
    const qg_seen *o = qg_attempt_seen(t, v);
    if (v->constant || v->type.dtype != QG_F32)
        return true;
    if (o && o->kind != QG_SEEN_HIDDEN)
        return o->kind == QG_SEEN_REAL || (o->kind == QG_SEEN_CODES && o->step > 0);
    const qg_value *own = qg_graph_value(t->own.graph, v->name);
    if (depth == FAR || !own || t->kind[own->id] == QG_AS_CODES)
        return false;
    if (!v->def)
        return true;
    for (uint32_t k = 0; k < v->def->n_in; k++)
        if (v->def->in[k] && !is_known(t, v->def->in[k], depth + 1))
            return false;
    return true;
}

static qg_status find_clean(qg_attempt *t)
{
    const qg_graph *g = qg_attempt_model(t)->graph;
    t->clean = QG_NEWN(g->arena, t->how->seen->graph->value.n, uint8_t);
    if (!t->clean)
        return qg_nomem(t->how->m->ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        bool known = true;
        for (uint32_t k = 0; k < n->n_in; k++)
            known &= !n->in[k] || is_known(t, n->in[k], 0);
        for (uint32_t k = 0; k < n->n_out; k++) {
            const qg_seen *o = n->out[k] ? qg_attempt_seen(t, n->out[k]) : NULL;
            if (o)
                t->clean[o->value->id] = known && t->share[o->value->id] >= 0;
        }
    }
    return QG_OK;
}

static bool is_fewer(uint64_t x, uint64_t y) { return y > 2 * x + QG_ATTEMPT_CHANCE; }

int qg_attempt_more_exact(const qg_attempt *t, const qg_attempt *than)
{
    int more = 0;
    uint64_t own = 0, other = 0;
    for (size_t i = 0; i < t->how->seen->graph->value.n; i++) {
        if (!t->clean[i] || !than->clean[i])
            continue;
        more += is_fewer(t->unequal[i], than->unequal[i]);
        more -= is_fewer(than->unequal[i], t->unequal[i]);
        own += t->unequal[i];
        other += than->unequal[i];
    }
    return more ? more : is_fewer(own, other) - is_fewer(other, own);
}

bool qg_attempt_is_exact(const qg_attempt *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->how->seen->graph->value.n; i++)
        n += t->clean[i] ? t->unequal[i] : 0;
    return n <= QG_ATTEMPT_CHANCE;
}

/* --- all --- */

/* Every node on the device's own inputs. */
static qg_status replay(qg_attempt *t, bool whole)
{
    const qg_model *m = qg_attempt_model(t);
    size_t n = t->how->seen->graph->value.n;
    qg_replay r = { .t = t, .whole = whole };
    t->results = (qg_portion){ 0 };
    t->elements = 0;
    t->share = QG_NEWN(m->graph->arena, n, double);
    t->unequal = QG_NEWN(m->graph->arena, n, uint64_t);
    if (!t->share || !t->unequal)
        return qg_nomem(m->ctx);
    qg_status s = qg_replay_open(&r);
    if (s == QG_OK)
        s = qg_replay_run(&r);
    for (size_t i = 0; s == QG_OK && i < n; i++) {
        t->share[i] = r.of[i] ? (double)r.equal[i] / (double)r.of[i] : -1;
        t->unequal[i] = r.of[i] - r.equal[i];
        t->results.of += r.of[i] > 0;
        t->results.part += t->share[i] >= QG_CONFIRMED;
        t->elements += r.of[i] ? t->share[i] : 0;
    }
    t->elements = t->results.of ? t->elements / (double)t->results.of : 0;
    qg_replay_close(&r);
    return s == QG_OK ? find_clean(t) : s;
}

qg_status qg_attempt_replay(qg_attempt *t) { return replay(t, false); }

qg_status qg_attempt_replay_whole(qg_attempt *t) { return replay(t, true); }

qg_status qg_attempt_replay_real(qg_attempt *t)
{
    const qg_model *m = qg_attempt_model(t);
    size_t n = t->how->seen->graph->value.n;
    qg_replay r = { .t = t, .whole = true, .real = true };
    t->real = QG_NEWN(m->graph->arena, n, uint64_t);
    if (!t->real)
        return qg_nomem(m->ctx);
    qg_status s = qg_replay_open(&r);
    if (s == QG_OK)
        s = qg_replay_run(&r);
    for (size_t i = 0; s == QG_OK && i < n; i++)
        t->real[i] = r.of[i] ? r.of[i] - r.equal[i] : UINT64_MAX;
    qg_replay_close(&r);
    return s;
}

/* --- shares --- */

int qg_attempt_more_results(const qg_attempt *t, const qg_attempt *than)
{
    int more = 0;
    for (size_t i = 0; i < t->how->seen->graph->value.n; i++) {
        double x = t->share[i], y = than->share[i];
        more += t->clean[i] && x >= QG_CONFIRMED && y < x - CLEARLY;
        more -= than->clean[i] && y >= QG_CONFIRMED && x < y - CLEARLY;
    }
    return more;
}

static double confirmation(const qg_attempt *t, const qg_node *n, int depth)
{
    double least = -1;
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        const qg_seen *s = v ? qg_attempt_seen(t, v) : NULL;
        double share = s ? t->share[s->value->id] : -1;
        if (share >= 0)
            least = least < 0 ? share : fmin(least, share);
        for (size_t i = 0; v && share < 0 && depth < FAR && i < v->use.n; i++) {
            double next = confirmation(t, v->use.at[i].node, depth + 1);
            least = least < 0 ? next : next < 0 ? least : fmin(least, next);
        }
    }
    return least;
}

double qg_attempt_confirmation(const qg_attempt *t, const qg_node *n)
{
    return confirmation(t, n, 0);
}
