#include <assert.h>
#include <stdio.h>

#include "engine/quant/journal.h"

static const struct {
    const char *name, *text;
    bool rounds, own, out;
} info[QG_NTQC_STATE] = { /* ORDER STATE */
#define X(id, text, rounds, own, out, meaning) { #id, text, rounds, own, out },
                          QG_TQC_STATE_MAP(X)
#undef X
};

#define TO(id) (1u << QG_TQC_##id)

/* legal[from] has bit `to` set (design 4).  DEACTIVATED and DEQUANTIZED return to the
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

/* What a state demands beside a legal move. */
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

/* Without parameters there is nothing to write, whatever the visibility. */
bool qg_tqc_exports(const qg_tqc *t, bool overlapped_too)
{
    bool state = info[t->state].out || t->visibility == QG_EXPORT_FORCED ||
                 (overlapped_too && t->state == QG_TQC_OVERLAPPED);
    return state && t->visibility != QG_EXPORT_INTERNAL && qg_tqc_param(t).n > 0;
}

/* The two states that remember another one. */
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

/* What the table of moves cannot know: parameters, constants and groups. */
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
                      "it is not switched off, expected deactivated or "
                      "dequantized");
    return qg_tqc_set_state(q, t, t->saved);
}

void qg_tqc_restore(qg_tqc *t, qg_tqc_state state, qg_tqc_state saved, qg_tqc *root)
{
    assert(t->up == t && t->next == t && root->up == root);
    t->state = state;
    t->saved = saved;
    if (root == t)
        return;
    t->up = root;
    t->next = root->next;
    root->next = t;
}
