#include "engine/quant/tqc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "engine/quant/journal.h"

/* --- records --- */

/* "user" is the author until a pass or rule sets another. */
qg_status qg_quant_new(qg_graph *g, const qg_backend *b, qg_quant **out)
{
    qg_quant *q = QG_NEW(g->arena, qg_quant);
    if (!q)
        return qg_nomem(g->ctx);
    *q = (qg_quant){
        .ctx = g->ctx, .arena = g->arena, .graph = g, .backend = b, .author = "user"
    };
    *out = q;
    return QG_OK;
}

/* The entry of tin or tout that an endpoint has; the arrays are made on first use. */
static qg_status slot_of(qg_quant *q, qg_node *n, bool is_output, uint32_t slot,
                         qg_tqc ***out)
{
    uint32_t count = is_output ? n->n_out : n->n_in;
    qg_tqc ***row = is_output ? &n->tout : &n->tin;
    assert(slot < count);
    if (!*row)
        *row = QG_NEWN(q->arena, count, qg_tqc *);
    if (!*row)
        return qg_nomem(q->ctx);
    *out = *row + slot;
    return QG_OK;
}

qg_status qg_quant_add(qg_quant *q, qg_node *n, bool is_output, uint32_t slot,
                       const qg_scheme *s, qg_tqc **out)
{
    qg_tqc **place;
    QG_TRY(slot_of(q, n, is_output, slot, &place));
    assert(!*place); /* one TQC per endpoint */
    qg_tqc *t = QG_NEW(q->arena, qg_tqc);
    char at[QG_SLOT_TEXT];
    const char *name =
        qg_arena_printf(q->arena, "%s.%s", n->name, qg_slot_text(is_output, slot, at));
    if (!t || !name || q->tqc.n >= QG_NONE)
        return qg_nomem(q->ctx);
    *t = (qg_tqc){ .quant = q,
                   .name = name,
                   .id = (uint32_t)q->tqc.n,
                   .scheme = *s,
                   .up = t,
                   .next = t,
                   .rule = QG_NONE,
                   .node = n,
                   .slot = slot,
                   .is_output = is_output };
    QG_TRY(qg_vec_push(q->ctx, q->arena, &q->tqc, t));
    *place = *out = t;
    return QG_OK;
}

const qg_tqc *qg_tqc_root(const qg_tqc *t)
{
    while (t->up != t)
        t = t->up;
    return t;
}

void qg_quant_settle(qg_quant *q)
{
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i], *root = t;
        while (root->up != root)
            root = root->up;
        while (t != root) { /* everything on the way too, so the whole is linear */
            qg_tqc *up = t->up;
            t->up = root;
            t = up;
        }
    }
}

/* A root that derives its scale owns it: derived endpoints lead no group. */
qg_qparam qg_tqc_param(const qg_tqc *t)
{
    const qg_tqc *root = qg_tqc_root(t);
    return (qg_qparam){ root->nparam, root->scale, root->offset };
}

bool qg_tqc_owns_scale(const qg_tqc *t)
{
    return t->up == t &&
           (t->state == QG_TQC_INITIAL || t->state == QG_TQC_ACTIVATED ||
            t->state == QG_TQC_PASSIVE_INIT || t->state == QG_TQC_PASSIVE);
}

bool qg_tqc_is_prescribed(const qg_tqc *t)
{
    return t->observer.name && strcmp(t->observer.name, "fixed") == 0;
}

/* Only the owner of a scale may change it, while it is not frozen. */
static qg_status check_param(qg_quant *q, const qg_tqc *t, size_t n, const float *scale)
{
    char at[QG_ENDPOINT_TEXT];
    if (!qg_tqc_owns_scale(t))
        return qg_fail(
            q->ctx, QG_ESTATE,
            "%s: %s: scale of %s endpoint%s is not its "
            "own to change, expected a root in initial, activated or passive",
            q->author, qg_tqc_text(t, at), qg_tqc_state_word(t->state),
            t->up == t ? "" : " in another's group");
    if (n == 0 || n > UINT32_MAX)
        return qg_fail(q->ctx, QG_ESTATE, "%s: %s: %zu scales, expected at least one",
                       q->author, qg_tqc_text(t, at), n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scale[i]) || !(scale[i] > 0))
            return qg_fail(q->ctx, QG_ENUMERIC,
                           "%s: %s: scale[%zu] is %g, expected a finite number above 0",
                           q->author, qg_tqc_text(t, at), i, (double)scale[i]);
    return QG_OK;
}

/* The journal comes first: without memory for the record nothing changes. */
qg_status qg_tqc_set_param(qg_quant *q, qg_tqc *t, size_t n, const float *scale,
                           const int32_t *offset)
{
    QG_TRY(check_param(q, t, n, scale));
    float *own_scale = qg_arena_raw(q->arena, n, sizeof *scale);
    int32_t *own_offset = QG_NEWN(q->arena, n, int32_t);
    if (!own_scale || !own_offset)
        return qg_nomem(q->ctx);
    memcpy(own_scale, scale, n * sizeof *scale);
    if (offset)
        memcpy(own_offset, offset, n * sizeof *offset);
    bool same_offset =
        t->nparam == n && memcmp(t->offset, own_offset, n * sizeof *own_offset) == 0;
    if (t->nparam != n || memcmp(t->scale, scale, n * sizeof *scale) != 0)
        QG_TRY(qg_journal_add(q, t, "scale",
                              qg_journal_numbers(q, t->nparam, t->scale, NULL),
                              qg_journal_numbers(q, n, scale, NULL)));
    if (!same_offset && (t->scheme.policy & QG_ASYMMETRIC))
        QG_TRY(qg_journal_add(q, t, "offset",
                              qg_journal_numbers(q, t->nparam, NULL, t->offset),
                              qg_journal_numbers(q, n, NULL, own_offset)));
    t->nparam = (uint32_t)n;
    t->scale = own_scale;
    t->offset = own_offset;
    return QG_OK;
}

/* Parameters stay: calibration replaces them, and the verifier finds a number that
 * no longer fits. */
qg_status qg_tqc_set_scheme(qg_quant *q, qg_tqc *t, const qg_scheme *s)
{
    assert(q->author);
    char at[QG_ENDPOINT_TEXT];
    if (t->state == QG_TQC_BAKED || t->state == QG_TQC_PASSIVE_BAKED)
        return qg_fail(
            q->ctx, QG_ESTATE,
            "%s: %s: the grid of a %s constant is fixed, expected unbake first",
            q->author, qg_tqc_text(t, at), qg_tqc_state_word(t->state));
    QG_TRY(qg_scheme_check(q->ctx, qg_tqc_text(t, at), s));
    QG_TRY(qg_journal_scheme(q, t, s));
    t->scheme = *s;
    return QG_OK;
}

/* Journals a double when it changed. */
static qg_status journal_number(qg_quant *q, const qg_tqc *t, const char *field,
                                double before, double after)
{
    if (before == after)
        return QG_OK;
    return qg_journal_add(q, t, field, qg_arena_printf(q->arena, "%g", before),
                          qg_arena_printf(q->arena, "%g", after));
}

qg_status qg_tqc_set_observer(qg_quant *q, qg_tqc *t, const qg_observer_setting *o)
{
    const qg_observer_setting *b = &t->observer;
    const char *before = b->name ? b->name : "none",
               *after = o->name ? o->name : "none";
    if (strcmp(before, after) != 0)
        QG_TRY(qg_journal_add(q, t, "observer", before, after));
    for (int p = 0; p < QG_NOBSERVER_PARAM; p++)
        QG_TRY(journal_number(q, t, qg_observer_param_name((qg_observer_param)p),
                              b->value[p], o->value[p]));
    t->observer = *o;
    return QG_OK;
}

static const char *const visibility_text[] = { [QG_EXPORT_WHEN_ACTIVE] = "when-active",
                                               [QG_EXPORT_FORCED] = "forced",
                                               [QG_EXPORT_INTERNAL] = "internal" };

const char *qg_visibility_name(qg_visibility v) { return visibility_text[v]; }

int qg_visibility_named(const char *text)
{
    for (int v = 0; v <= QG_EXPORT_INTERNAL; v++)
        if (strcmp(visibility_text[v], text) == 0)
            return v;
    return -1;
}

qg_status qg_tqc_set_visibility(qg_quant *q, qg_tqc *t, qg_visibility v)
{
    assert((unsigned)v <= QG_EXPORT_INTERNAL);
    if (t->visibility != v)
        QG_TRY(qg_journal_add(q, t, "visibility", visibility_text[t->visibility],
                              visibility_text[v]));
    t->visibility = v;
    return QG_OK;
}

/* --- states --- */

static const struct {
    const char *name, *text;
    bool rounds, own, out;
} info[QG_NTQC_STATE] = { /* ORDER STATE */
#define X(id, text, rounds, own, out, meaning) { #id, text, rounds, own, out },
                          QG_TQC_STATE_MAP(X)
#undef X
};

#define TO(id) (1u << QG_TQC_##id)

/* legal[from] has bit `to` set (DESIGN 8).  DEACTIVATED and DEQUANTIZED return to the
 * state they remember, so their rows are empty. */
/* clang-format off */
static const uint32_t legal[QG_NTQC_STATE] = {
    [QG_TQC_INITIAL] = TO(ACTIVATED) | TO(OVERLAPPED) | TO(PASSIVE_INIT) | TO(PASSIVE) |
                       TO(FP32) | TO(SOI) | TO(DEACTIVATED) | TO(DEQUANTIZED),
    [QG_TQC_ACTIVATED] = TO(INITIAL) | TO(BAKED) | TO(OVERLAPPED) | TO(PASSIVE) |
                         TO(FP32) | TO(DEACTIVATED) | TO(DEQUANTIZED),
    [QG_TQC_BAKED] = TO(ACTIVATED) | TO(DEQUANTIZED),
    [QG_TQC_OVERLAPPED] = TO(PASSIVE) | TO(PASSIVE_INIT) | TO(INITIAL) |
                          TO(DEACTIVATED) | TO(DEQUANTIZED),
    [QG_TQC_PASSIVE_INIT] = TO(PASSIVE) | TO(OVERLAPPED) | TO(FP32) | TO(DEACTIVATED) |
                            TO(DEQUANTIZED),
    [QG_TQC_PASSIVE] = TO(PASSIVE_BAKED) | TO(PASSIVE_INIT) | TO(OVERLAPPED) |
                       TO(DEACTIVATED) | TO(DEQUANTIZED),
    [QG_TQC_PASSIVE_BAKED] = TO(PASSIVE) | TO(DEQUANTIZED),
    [QG_TQC_FP32] = TO(INITIAL) | TO(PASSIVE_INIT),
    [QG_TQC_SOI] = TO(FP32),
};
/* clang-format on */

/* The requirements of a state besides a legal transition. */
enum { NEED_PARAM = 1, NEED_CONSTANT = 2, NEED_ROOT = 4, NEED_DOMINATOR = 8 };
static const unsigned char demand[QG_NTQC_STATE] = {
    [QG_TQC_INITIAL] = NEED_ROOT,
    [QG_TQC_ACTIVATED] = NEED_ROOT | NEED_PARAM,
    [QG_TQC_BAKED] = NEED_ROOT | NEED_PARAM | NEED_CONSTANT,
    [QG_TQC_OVERLAPPED] = NEED_DOMINATOR,
    [QG_TQC_PASSIVE] = NEED_PARAM,
    [QG_TQC_PASSIVE_BAKED] = NEED_PARAM | NEED_CONSTANT,
};

const char *qg_tqc_state_name(qg_tqc_state s)
{
    assert(s < QG_NTQC_STATE);
    return info[s].name;
}

const char *qg_tqc_state_word(qg_tqc_state s) { return info[s].text; }

int qg_tqc_state_named(const char *text)
{
    for (int s = 0; s < QG_NTQC_STATE; s++)
        if (strcmp(text, info[s].text) == 0 || strcmp(text, info[s].name) == 0)
            return s;
    return -1;
}

bool qg_tqc_rounds(const qg_tqc *t) { return info[t->state].rounds; }

bool qg_tqc_is_baked(const qg_tqc *t)
{
    return t->state == QG_TQC_BAKED || t->state == QG_TQC_PASSIVE_BAKED;
}

bool qg_tqc_is_on_grid(const qg_tqc *t)
{
    return t && (qg_tqc_rounds(t) || qg_tqc_is_baked(t));
}

/* The two states that store another state. */
static bool switched_off(qg_tqc_state s)
{
    return s == QG_TQC_DEACTIVATED || s == QG_TQC_DEQUANTIZED;
}

bool qg_tqc_may_move(qg_tqc_state from, qg_tqc_state saved, qg_tqc_state to)
{
    assert(from < QG_NTQC_STATE && to < QG_NTQC_STATE);
    return switched_off(from) ? to == saved : (legal[from] >> to & 1u) != 0;
}

static qg_status refuse(qg_quant *q, const qg_tqc *t, qg_tqc_state to, const char *why)
{
    char at[QG_ENDPOINT_TEXT];
    return qg_fail(q->ctx, QG_ESTATE, "%s: %s: %s -> %s: %s", q->author,
                   qg_tqc_text(t, at), info[t->state].text, info[to].text, why);
}

/* Conditions beyond the table of transitions: parameters, constants and groups. */
static qg_status check_demand(qg_quant *q, const qg_tqc *t, qg_tqc_state to)
{
    unsigned need = demand[to];
    bool root = t->up == t;
    if ((need & NEED_ROOT) && !root)
        return refuse(q, t, to, "it is in another's group, expected its own root");
    if ((need & NEED_DOMINATOR) && root)
        return refuse(q, t, to, "it is its own root, expected a dominator elsewhere");
    if ((need & NEED_PARAM) && qg_tqc_param(t).n == 0)
        return refuse(q, t, to, "there is no scale yet, expected calibration first");
    if ((need & NEED_CONSTANT) && !qg_tqc_is_constant(t))
        return refuse(q, t, to, "the value changes at run time, expected a constant");
    return QG_OK;
}

/* Checks, journal, change: in this order, so a failure leaves the endpoint as it
 * was. */
qg_status qg_tqc_set_state(qg_quant *q, qg_tqc *t, qg_tqc_state to)
{
    assert((unsigned)to < QG_NTQC_STATE);
    qg_tqc_state from = t->state;
    if (from == to)
        return QG_OK;
    if (!qg_tqc_may_move(from, t->saved, to))
        return refuse(q, t, to, "not a legal move");
    if (!switched_off(from) && !switched_off(to))
        QG_TRY(check_demand(q, t, to));
    QG_TRY(qg_journal_add(q, t, "state", info[from].name, info[to].name));
    if (switched_off(to))
        t->saved = from;
    if (to == QG_TQC_INITIAL || to == QG_TQC_PASSIVE_INIT) {
        t->nparam = 0;
        t->scale = NULL;
        t->offset = NULL;
    }
    t->state = to;
    return QG_OK;
}

qg_status qg_tqc_switch_off(qg_quant *q, qg_tqc *t, bool keep)
{
    return qg_tqc_set_state(q, t, keep ? QG_TQC_DEACTIVATED : QG_TQC_DEQUANTIZED);
}

qg_status qg_tqc_switch_on(qg_quant *q, qg_tqc *t)
{
    if (!switched_off(t->state))
        return refuse(q, t, t->state,
                      "it is not disabled, expected deactivated or dequantized");
    return qg_tqc_set_state(q, t, t->saved);
}
