/* not_finite.c -- values that spoil a grid, found while a network runs: where a NaN or
 * an infinity first appears, and which values hold a mask (masks.c).
 *
 * Samples are run with every endpoint watched: all of them where that is little work,
 * else some from the first to the last, and those that the caller names.  Rounding may
 * hide a NaN (number/round.h), so results alone do not show it. */
#include "engine/session/session.h"

#include "engine/calib/mask.h"
#include "engine/exec/meter.h"
#include "engine/ir/tensor_memory.h"

/* Elements of all tensors of a plan, over all samples, that are little work: less than
 * a second. */
static const uint64_t little = UINT64_C(1) << 24;

/* The first endpoint of a kind, in order of samples and of execution. */
typedef struct place {
    bool there, rounded;
    size_t sample;
    char at[QG_ENDPOINT_TEXT];
    const qg_node *node;
} place;

typedef struct search {
    qg_arena *sample, *copy; /* of the inputs; of a value that is not plain */
    place nan, infinity;
    const qg_graph *graph;
    size_t first;       /* sample: constants are looked at in it alone */
    size_t spoiled;     /* sample whose data hold a NaN; SIZE_MAX: none was met */
    qg_exponents *seen; /* [values] of outputs of nodes; NULL: no masks are searched */
} search;

/* A constant -inf is there on purpose: of a Where, of a Pad in front of a MaxPool. */
static bool is_meant(const qg_value *v, const qg_tensor *x)
{
    return v && (v->constant || qg_feeds_softmax(v)) && qg_holds_mask(v, x);
}

/* Samples run in order and nodes in that of execution, so the first call is the first
 * place.  The text of the endpoint is kept, since hook points end with the call. */
static void note(place *p, size_t sample, const qg_hook_point *at)
{
    if (p->there)
        return;
    p->there = true;
    p->rounded = at->rounded;
    p->sample = sample;
    p->node = at->endpoint.node;
    (void)qg_endpoint_text(at->endpoint, p->at);
}

/* Results of all samples are united: a mask may appear in one sample only, and none in
 * one whose data hold a NaN, of which a MaxPool makes the lowest number.  Inputs of the
 * graph and constants have no producer to name in a policy. */
static void note_exponents(search *s, size_t sample, const qg_hook_point *at,
                           const qg_tensor *plain, bool nan)
{
    const qg_value *v = qg_endpoint_value(at->endpoint);
    if (nan && v && !v->def && !v->constant)
        s->spoiled = sample;
    if (s->seen && sample != s->spoiled && v && v->def && at->endpoint.is_output)
        qg_exponents_add(&s->seen[v->id], plain);
}

/* Hook of every watched endpoint: classifies float32 values and changes none.  Values
 * with strides are copied into s->copy, which is reset for each of them. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    search *s = ud;
    qg_tensor plain = *value;
    bool nan, infinity;
    const qg_value *v = qg_endpoint_value(at->endpoint);
    const bool constant = v && v->constant;
    if (value->dtype != QG_F32 || !value->data || (constant && sample != s->first))
        return QG_OK;
    if (!qg_tensor_is_plain(value)) {
        qg_arena_reset(s->copy);
        qg_tensor_set_plain(&plain);
        QG_TRY(qg_tensor_alloc(ctx, s->copy, &plain));
        qg_tensor_copy(value, &plain);
    }
    qg_tensor_look(&plain, &nan, &infinity);
    if (nan)
        note(&s->nan, sample, at);
    if (infinity && !is_meant(v, &plain))
        note(&s->infinity, sample, at);
    if (constant)
        qg_graph_release(s->graph, v->constant);
    note_exponents(s, sample, at, &plain, nan);
    return QG_OK;
}

/* A plan of m, simulated or in float, whose hooks see all endpoints, also those of
 * folded nodes.  Rounded constants are finite where the constants are: without them the
 * plan needs no copy of the weights.  The caller frees *out; the array of muted records
 * lives in `a`. */
static qg_status plan(qg_model *m, const qg_finite_request *r, bool simulates,
                      qg_arena *a, qg_plan **out)
{
    const qg_quant *q = simulates ? m->quant : NULL;
    uint8_t *mute = q ? QG_NEWN(a, q->tqc.n, uint8_t) : NULL;
    if (q && !mute)
        return qg_nomem(m->ctx);
    for (size_t i = 0; q && i < q->tqc.n; i++)
        mute[i] = qg_tqc_is_constant(q->tqc.at[i]);
    qg_plan_options o = { .mode = q ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = q,
                          .mute = mute,
                          .watch_all = true,
                          .show_all = true,
                          .executable = true,
                          .reference = r->reference,
                          .input = r->feed->shape };
    return qg_plan_new(m->ctx, m->graph, &o, out);
}

/* One of the places is there.  NULL: out of memory.  qg_manifest_has_nan
 * (snapshot/quant_json.h) reads the words. */
static const char *text_of(const search *s, const char *mode, qg_arena *a)
{
    const place *p = s->nan.there ? &s->nan : &s->infinity;
    return qg_arena_printf(a, "%s: sample %zu: %s first appears at %s (%s)%s%s", mode,
                           p->sample, s->nan.there ? "NaN" : "infinity", p->at,
                           p->node->op->name, p->rounded ? " when it is rounded" : "",
                           s->nan.there ? "" : ", expected finite numbers");
}

/* All that the plan computes or reads for a sample.  Where a shape is not known before
 * the run, more than any bound. */
static uint64_t elements_of(const qg_plan *p)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->tensor.n; i++) {
        const qg_plan_tensor *t = &p->tensor.at[i];
        if (t->kind == QG_TENSOR_DYNAMIC)
            return UINT64_MAX;
        n += t->kind == QG_TENSOR_ABSENT ? 0 : (uint64_t)qg_tensor_count(&t->type);
    }
    return n ? n : 1;
}

bool qg_search_is_little(const qg_plan *p, size_t samples)
{
    return samples <= little / elements_of(p);
}

/* [feed->n] 1: the sample is run. */
static void choose(const qg_plan *p, const qg_finite_request *r, uint8_t *run)
{
    const uint64_t n = r->feed->n, fit = little / elements_of(p);
    uint64_t count = fit < r->least ? r->least : fit;
    count = count < n ? count : n;
    for (uint64_t i = 0; i < count; i++)
        run[count > 1 ? i * (n - 1) / (count - 1) : 0] = 1;
    for (size_t i = 0; i < r->n_also; i++)
        run[r->also[i]] = 1;
}

/* One after the other on this thread: `note` depends on their order.  Arrays of `in`
 * live as long as the plan. */
static qg_status run_samples(qg_ctx *ctx, const qg_plan *p, const qg_finite_request *r,
                             search *s)
{
    qg_run *run;
    qg_hook hook = { see, s };
    qg_status st = QG_OK;
    const qg_feed *feed = r->feed;
    const qg_tensor **in = QG_NEWN(p->arena, p->graph->input.n, const qg_tensor *);
    uint8_t *chosen = QG_NEWN(p->arena, feed->n, uint8_t);
    if (!in || !chosen)
        return qg_nomem(ctx);
    choose(p, r, chosen);
    s->first = SIZE_MAX;
    QG_TRY(qg_run_new(ctx, p, &run));
    for (size_t i = 0; st == QG_OK && i < feed->n; i++) {
        if (s->nan.there && !s->seen)
            break; /* the first place is known */
        if (!chosen[i])
            continue;
        s->first = i < s->first ? i : s->first;
        qg_arena_reset(s->sample);
        st = feed->fetch(feed->ud, ctx, s->sample, i, in);
        if (st == QG_OK)
            st = qg_run_execute(run, in, &hook, 1, i);
    }
    qg_run_free(run);
    return st;
}

/* One network, simulated or float, over the samples of the request.  The plan ends
 * here; places have texts of their own. */
static qg_status search_run(qg_model *m, const qg_finite_request *r, bool simulates,
                            qg_arena *a, search *s)
{
    qg_plan *p;
    qg_meter meter;
    QG_TRY(plan(m, r, simulates, a, &p));
    qg_meter_begin(&meter, r->progress, "run", 0);
    m->ctx->watch = qg_meter_watch(&meter);
    qg_status st = run_samples(m->ctx, p, r, s);
    m->ctx->watch = (qg_cancel_watch){ 0 };
    qg_meter_end(&meter);
    qg_plan_free(p);
    return st;
}

/* Masks are those of the float network: rounding hides what lies beside them.  In mode
 * simulate the places of the float run are written to a copy of the search, which is
 * dropped: the message is about the mode that was requested. */
static qg_status search_all(qg_model *m, const qg_finite_request *r, qg_arena *a,
                            search *s)
{
    bool simulates = r->mode == QG_RUN_SIMULATE;
    if (simulates)
        QG_TRY(search_run(m, r, true, a, s));
    if (r->masks) {
        s->seen = QG_NEWN(a, m->graph->value.n, qg_exponents);
        if (!s->seen)
            return qg_nomem(m->ctx);
    }
    search unused = *s;
    if (!simulates || r->masks)
        QG_TRY(search_run(m, r, false, a, simulates ? &unused : s));
    return QG_OK;
}

qg_status qg_model_strange(qg_model *m, const qg_finite_request *r, qg_arena *a,
                           qg_strange *out)
{
    search s = { .sample = qg_arena_new(m->ctx->alloc),
                 .copy = qg_arena_new(m->ctx->alloc),
                 .graph = m->graph,
                 .spoiled = SIZE_MAX };
    *out = (qg_strange){ 0 };
    qg_status st = s.sample && s.copy ? search_all(m, r, a, &s) : qg_nomem(m->ctx);
    if (st == QG_OK && (s.nan.there || s.infinity.there)) {
        const place *p = s.nan.there ? &s.nan : &s.infinity;
        out->nan = s.nan.there;
        out->at = qg_arena_strdup(a, p->at);
        out->sample = p->sample;
        out->not_finite = text_of(&s, qg_run_mode_name(r->mode), a);
        st = out->not_finite && out->at ? QG_OK : qg_nomem(m->ctx);
    }
    if (st == QG_OK && s.seen)
        st = qg_masks_describe(m->graph, s.seen, r->mode == QG_RUN_SIMULATE, a, out);
    qg_arena_free(s.sample);
    qg_arena_free(s.copy);
    return st;
}

/* --- after a verb has run samples --- */

void qg_model_warn_found(qg_model *m, const char *when, const char *found)
{
    if (m->warned_not_finite && strcmp(m->warned_not_finite, found) == 0)
        return;
    m->warned_not_finite = found;
    qg_warn(m->ctx, "%s%s", when, found);
}

qg_status qg_model_warn_not_finite(qg_model *m, qg_run_mode mode,
                                   const qg_workload *work, const qg_feed *feed,
                                   size_t sample)
{
    const bool shown = sample < feed->n, simulates = m->quant && mode != QG_RUN_FLOAT;
    const char *known = simulates ? m->info.manifest.not_finite : NULL;
    qg_strange found = { 0 };
    qg_finite_request r = { .mode = simulates ? QG_RUN_SIMULATE : QG_RUN_FLOAT,
                            .feed = feed,
                            .also = &sample,
                            .n_also = shown,
                            .reference = work->reference_kernels,
                            .progress = &work->progress };
    if (shown || !known)
        QG_TRY(qg_model_strange(m, &r, m->graph->arena, &found));
    if (shown && simulates && !found.not_finite) {
        r.mode = QG_RUN_FLOAT;
        QG_TRY(qg_model_strange(m, &r, m->graph->arena, &found));
    }
    if (found.not_finite && (shown || simulates || found.nan))
        qg_model_warn_found(m, "", found.not_finite);
    else if (known)
        qg_model_warn_found(m, "when it was quantized: ", known);
    return QG_OK;
}
