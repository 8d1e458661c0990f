/* not_finite.c -- values that spoil a grid, found while a network runs: where a NaN or
 * an infinity first appears, and which values hold a mask.
 *
 * A few samples are run with every endpoint watched.  Rounding may hide a NaN
 * (number/round.h), so results alone do not show it.
 * Mask  attention excludes a place by a large negative number (-10000, the lowest
 *       float, -inf) that Softmax turns into 0.  Next to ordinary scores it takes all
 *       codes. */
#include "engine/session/session.h"

#include "engine/exec/meter.h"
#include "engine/ir/tensor_memory.h"

/* Samples examined at most; values named in a sentence; bytes of a policy there. */
enum { SAMPLES = 4, NAMES = 3, LONGEST = 600 };
/* A mask is at most the first; an ordinary number is within plus and minus the second.
 * A tensor with a number outside of both is taken for one without mask. */
static const float mask_most = -9000, ordinary_most = 90;

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
    size_t first;   /* sample: constants are looked at in it alone */
    bool simulates; /* the records count */
    uint8_t *mask;  /* [values] MASK, BESIDE; NULL: not searched for */
} search;

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

/* Whether there is a NaN and, only where there is none, whether there is an infinity:
 * NaN is the stronger finding.  The exponent of NaN and infinities has only ones, their
 * fraction differs (IEEE 754 binary32: 1 sign, 8 exponent, 23 fraction bits).  Works on
 * bits without branches, since every value of a network passes through here. */
static void classify(const float *x, size_t n, bool *nan, bool *infinity)
{
    bool strange = false, fraction = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        strange |= (bits & 0x7fffffff) >= 0x7f800000;
        fraction |= (bits & 0x7fffffff) > 0x7f800000;
    }
    *nan = fraction;
    *infinity = strange && !fraction;
}

/* Tensors of other types than float32 count as finite. */
bool qg_tensor_is_finite(const qg_tensor *plain)
{
    bool nan = false, infinity = false;
    if (plain->dtype == QG_F32)
        classify(plain->f32, (size_t)qg_tensor_count(plain), &nan, &infinity);
    return !nan && !infinity;
}

enum { MASK = 1, BESIDE = 2 }; /* of a value: has a mask; ordinary numbers beside it */

/* Nothing lies between a mask and ordinary numbers.  0: x has no mask, or a number of
 * neither kind.  Zeros beside a mask (a mask of 0 and -10000) are no ordinary numbers:
 * any grid contains 0, and nothing is lost. */
static uint8_t look_for_mask(const float *x, size_t n)
{
    bool mask = false, ordinary = false;
    for (size_t i = 0; i < n; i++) {
        if (x[i] <= mask_most)
            mask = true;
        else if (x[i] < -ordinary_most || x[i] > ordinary_most)
            return 0;
        else
            ordinary |= x[i] != 0;
    }
    return (uint8_t)(mask ? MASK | (ordinary ? BESIDE : 0) : 0);
}

/* Results of all samples are united: a mask may appear in one sample only.  Inputs of
 * the graph and constants have no producer to name in a policy. */
static void note_mask(search *s, const qg_hook_point *at, const qg_tensor *plain)
{
    const qg_value *v = qg_endpoint_value(at->endpoint);
    if (s->mask && v && v->def && at->endpoint.is_output)
        s->mask[v->id] |= look_for_mask(plain->f32, (size_t)qg_tensor_count(plain));
}

/* Whether a scale of t reaches as far as a mask.  A grid is as wide as
 * scale * (qmax - qmin), in units of the value.  A narrower one clips the mask and
 * keeps the ordinary numbers. */
static bool is_wide(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    for (size_t c = 0; c < p.n; c++)
        if (p.scale[c] * (float)(t->scheme.qmax - t->scheme.qmin) >= -mask_most)
            return true;
    return false;
}

/* The value is rounded, or so is an operand of its node on a grid that it shares with
 * the mask.  Without quantizers every such value counts. */
static bool spoils_grid(const search *s, const qg_value *v)
{
    if (!s->simulates)
        return true;
    const qg_tqc *t = qg_output_tqc(v->def, v->def_slot);
    bool any = t && qg_tqc_rounds(t);
    for (size_t k = 0; k < v->use.n && !any; k++) {
        t = qg_input_tqc(v->use.at[k].node, v->use.at[k].slot);
        any = t && qg_tqc_rounds(t);
    }
    for (uint32_t k = 0; k < v->def->n_in && !any; k++) {
        const qg_value *x = v->def->in[k];
        t = x && !x->constant && !s->mask[x->id] ? qg_input_tqc(v->def, k) : NULL;
        any = t && qg_tqc_rounds(t) && is_wide(t);
    }
    return any;
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
    classify(plain.f32, (size_t)qg_tensor_count(&plain), &nan, &infinity);
    if (nan)
        note(&s->nan, sample, at);
    if (infinity)
        note(&s->infinity, sample, at);
    if (constant)
        qg_graph_release(s->graph, v->constant);
    note_mask(s, at, &plain);
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

/* One of the places is there.  NULL: out of memory. */
static const char *text_of(const search *s, const char *mode, qg_arena *a)
{
    const place *p = s->nan.there ? &s->nan : &s->infinity;
    return qg_arena_printf(a, "%s: sample %zu: %s first appears at %s (%s)%s", mode,
                           p->sample, s->nan.there ? "NaN" : "infinity", p->at,
                           p->node->op->name, p->rounded ? " when it is rounded" : "");
}

/* "a", "b": of a node that makes or reads a masked value, unless YAML would need an
 * escape.  NULL, a text that could not be made, is passed on.  The policy has the names
 * as glob patterns, in which * and ? match more than the node itself. */
static const char *add_name(qg_arena *a, const char *list, const qg_node *n)
{
    if (!list || !n || strpbrk(n->name, "\"\\*?"))
        return list;
    return qg_arena_printf(a, "%s%s\"%s\"", list, *list ? ", " : "", n->name);
}

/* NULL: out of memory, now or when the list was made. */
static const char *policy_of(qg_arena *a, const char *nodes)
{
    return nodes ? qg_arena_printf(a,
                                   "rules: [{id: masks, match: {node: [%s]}, set: "
                                   "{platform: fp32}}]",
                                   nodes)
                 : NULL;
}

/* Names the first few values, and a policy that leaves in float their producers and all
 * their readers: a grid on either side would round the value. */
static qg_status describe_masks(const search *s, const qg_graph *g, qg_arena *a,
                                qg_strange *out)
{
    const char *nodes = "", *names = "";
    size_t n = 0;
    for (size_t i = 0; i < g->value.n && nodes && names; i++) {
        const qg_value *v = g->value.at[i];
        if (!(s->mask[v->id] & BESIDE) || !spoils_grid(s, v))
            continue;
        if (n++ < NAMES)
            names = qg_arena_printf(a, "%s%s%s", names, n > 1 ? ", " : "", v->name);
        nodes = add_name(a, nodes, v->def);
        for (size_t k = 0; k < v->use.n; k++)
            nodes = add_name(a, nodes, v->use.at[k].node);
    }
    if (n == 0)
        return QG_OK;
    out->masks = qg_arena_printf(a,
                                 "%zu values hold a mask beside ordinary numbers, of "
                                 "which a grid keeps only the mask: %s%s",
                                 n, names, n > NAMES ? ", ..." : "");
    out->policy = policy_of(a, nodes);
    return names && out->masks && out->policy ? QG_OK : qg_nomem(g->ctx);
}

/* At most SAMPLES samples from `first` on, one after the other on this thread: `note`
 * depends on their order.  Arrays of `in` live as long as the plan. */
static qg_status run_samples(qg_ctx *ctx, const qg_plan *p, const qg_feed *feed,
                             size_t first, search *s)
{
    qg_run *r;
    qg_hook hook = { see, s };
    qg_status st = QG_OK;
    const qg_tensor **in = QG_NEWN(p->arena, p->graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, p, &r));
    for (size_t i = first; i < feed->n && i - first < SAMPLES; i++) {
        qg_arena_reset(s->sample);
        st = feed->fetch(feed->ud, ctx, s->sample, i, in);
        if (st == QG_OK)
            st = qg_run_execute(r, in, &hook, 1, i);
        if (st != QG_OK)
            break;
    }
    qg_run_free(r);
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
    qg_status st = run_samples(m->ctx, p, r->feed, r->first, s);
    m->ctx->watch = (qg_cancel_watch){ 0 };
    qg_meter_end(&meter);
    qg_plan_free(p);
    return st;
}

/* Masks are those of the float network: rounding hides what lies beside them.  In mode
 * simulate the places of the float run are written to a copy of the search, which is
 * dropped: the message is about the mode that was requested.  Both share the array of
 * masks. */
static qg_status search_all(qg_model *m, const qg_finite_request *r, qg_arena *a,
                            search *s)
{
    bool simulates = r->mode == QG_RUN_SIMULATE;
    if (simulates)
        QG_TRY(search_run(m, r, true, a, s));
    if (r->masks) {
        s->mask = QG_NEWN(a, m->graph->value.n, uint8_t);
        if (!s->mask)
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
                 .first = r->first,
                 .simulates = r->mode == QG_RUN_SIMULATE };
    *out = (qg_strange){ 0 };
    qg_status st = s.sample && s.copy ? search_all(m, r, a, &s) : qg_nomem(m->ctx);
    if (st == QG_OK && (s.nan.there || s.infinity.there)) {
        out->not_finite = text_of(&s, qg_run_mode_name(r->mode), a);
        st = out->not_finite ? QG_OK : qg_nomem(m->ctx);
    }
    if (st == QG_OK && s.mask)
        st = describe_masks(&s, m->graph, a, out);
    qg_arena_free(s.sample);
    qg_arena_free(s.copy);
    return st;
}

/* A policy of many nodes does not fit a line: then the report has it. */
void qg_warn_strange(qg_ctx *ctx, const qg_strange *s)
{
    if (s->not_finite)
        qg_warn(ctx, "%s", s->not_finite);
    if (s->masks)
        qg_warn(ctx, "%s; this policy leaves them in float: %s", s->masks,
                strlen(s->policy) < LONGEST ? s->policy
                                            : "fact mask_policy of the report");
}

/* "x.in1, y.out0, ..."; NULL without memory. */
static const char *endpoints_text(qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = "";
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < n && i < NAMES && names; i++)
        names =
            qg_arena_printf(a, "%s%s%s", names, i ? ", " : "", qg_tqc_text(t[i], at));
    return names && n > NAMES ? qg_arena_printf(a, "%s, ...", names) : names;
}

qg_status qg_warn_empty(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = endpoints_text(a, t, n);
    if (!names)
        return qg_nomem(ctx);
    if (n > 0)
        qg_warn(ctx,
                "%zu %s no element in any sample, so nothing gives a scale, and %s in "
                "float: %s",
                n, n > 1 ? "endpoints have" : "endpoint has", n > 1 ? "stay" : "stays",
                names);
    return QG_OK;
}

qg_status qg_warn_small(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *names = endpoints_text(a, t, n);
    if (!names)
        return qg_nomem(ctx);
    if (n > 0)
        qg_warn(ctx,
                "%zu %s smaller than the least scale (min-scale) resolves, and %s few "
                "codes or only zero: %s",
                n, n > 1 ? "endpoints have ranges" : "endpoint has a range",
                n > 1 ? "use" : "uses", names);
    return QG_OK;
}

qg_status qg_warn_masked(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t, size_t n)
{
    const char *nodes = "", *names = endpoints_text(a, t, n);
    for (size_t i = 0; i < n && nodes; i++) {
        size_t before = 0;
        while (before < i && t[before]->node != t[i]->node)
            before++;
        if (before == i)
            nodes = add_name(a, nodes, t[i]->node);
    }
    const char *policy = policy_of(a, nodes);
    if (!names || !policy)
        return qg_nomem(ctx);
    if (n > 0)
        qg_warn(
            ctx,
            "%zu endpoints hold a mask of -inf, which no scale reaches, and stay in "
            "float: %s; this policy leaves their nodes in float: %s",
            n, names,
            strlen(policy) < LONGEST ? policy : "mask_policy of qg stats doctor");
    return QG_OK;
}

qg_status qg_report_masks(qg_report *r, const qg_strange *s)
{
    return s->policy ? qg_report_add(r, "mask_policy", qg_cell_text(s->policy)) : QG_OK;
}
