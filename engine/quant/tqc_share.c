/* tqc_share.c -- groups: a union-find forest with rings.
 *
 * `up` leads to the root; `next` makes a ring of all members, so that splitting a
 * group finds them.  Joining two groups splices two rings by exchanging two
 * pointers. */
#include <assert.h>

#include "engine/quant/journal.h"
#include "engine/quant/tqc_check.h"

/* The root; halves the path as it walks. */
static qg_tqc *find(qg_tqc *t)
{
    assert(t->up);
    while (t->up != t)
        t = t->up = t->up->up;
    return t;
}

/* "<author>: join a to b: <why>". */
static qg_status refuse(qg_quant *q, const char *doing, const qg_tqc *t,
                        const qg_tqc *other, const char *why)
{
    char a[QG_ENDPOINT_TEXT], b[QG_ENDPOINT_TEXT];
    return qg_fail(q->ctx, QG_ESTATE, "%s: %s %s to %s: %s", q->author, doing,
                   qg_tqc_text(t, a), qg_tqc_text(other, b), why);
}

/* Whether a root can lead others: it must round some day, with a scale of its own. */
static qg_status check_leader(qg_quant *q, const char *doing, const qg_tqc *t,
                              const qg_tqc *leader)
{
    if (leader->derive != QG_DERIVE_NONE)
        return refuse(q, doing, t, leader,
                      "its scale is derived, expected a source with its own scale");
    if (leader->state == QG_TQC_FP32 || leader->state == QG_TQC_SOI)
        return refuse(q, doing, t, leader,
                      "it is never quantized, expected a quantized source");
    return QG_OK;
}

/* Before anything is touched: the state change that follows must succeed. */
static qg_status check_move(qg_quant *q, const char *doing, const qg_tqc *t,
                            qg_tqc_state to)
{
    if (t->state == to || qg_tqc_may_move(t->state, t->saved, to))
        return QG_OK;
    char at[QG_ENDPOINT_TEXT];
    return qg_fail(q->ctx, QG_ESTATE, "%s: %s %s: %s -> %s is not a legal move",
                   q->author, doing, qg_tqc_text(t, at), qg_tqc_state_word(t->state),
                   qg_tqc_state_word(to));
}

/* Attaches root t, and all below it, to root leader; rings become one. */
static qg_status link_under(qg_quant *q, qg_tqc *t, qg_tqc *leader)
{
    assert(t->up == t && leader->up == leader && t != leader);
    QG_TRY(qg_journal_add(q, t, "dominator", "self", qg_journal_endpoint(q, leader)));
    qg_tqc *after = t->next;
    t->next = leader->next;
    leader->next = after;
    t->up = leader;
    t->derive = QG_DERIVE_NONE;
    t->lender[0] = t->lender[1] = NULL;
    t->nparam = 0;
    t->scale = NULL;
    t->offset = NULL;
    return QG_OK;
}

/* Whether u hangs below t, inside the group of root. */
static bool below(const qg_tqc *u, const qg_tqc *t, const qg_tqc *root)
{
    while (u != t && u != root)
        u = u->up;
    return u == t;
}

/* Removes t, which is not a root, from its group; its followers move with it when
 * `followers`, else stay.  Afterwards t is a root.  Linear in the group. */
static qg_status split(qg_quant *q, qg_tqc *t, bool followers)
{
    qg_tqc *root = find(t);
    assert(root != t);
    QG_TRY(qg_journal_add(q, t, "dominator", qg_journal_endpoint(q, root), "self"));
    qg_tqc *stays = root, *goes = NULL, *last = t; /* t's ring is written at the end */
    for (qg_tqc *u = root->next, *next; u != root; u = next) {
        next = u->next;
        if (u == t)
            continue;
        if (followers && below(u, t, root)) {
            u->next = goes;
            last = goes ? last : u;
            goes = u;
            continue;
        }
        if (u->up == t) /* remaining members keep their links: they may move on their
                         * own later */
            u->up = root;
        stays->next = u;
        stays = u;
    }
    stays->next = root;
    t->next = goes ? goes : t;
    last->next = t;
    t->up = t;
    return QG_OK;
}

/* The old root of t becomes OVERLAPPED too, or the group would be quantized twice. */
qg_status qg_tqc_join(qg_quant *q, qg_tqc *t, qg_tqc *dominator)
{
    static const char doing[] = "join";
    qg_tqc *root = find(t), *leader = find(dominator);
    if (t == dominator || t == leader)
        return refuse(q, doing, t, dominator,
                      "it would dominate itself, expected another dominator");
    if (root == leader)
        return QG_OK;
    QG_TRY(check_leader(q, doing, t, leader));
    QG_TRY(check_move(q, doing, root, QG_TQC_OVERLAPPED));
    QG_TRY(check_move(q, doing, t, QG_TQC_OVERLAPPED));
    QG_TRY(link_under(q, root, leader));
    QG_TRY(qg_tqc_set_state(q, root, QG_TQC_OVERLAPPED));
    return qg_tqc_set_state(q, t, QG_TQC_OVERLAPPED);
}

/* The behaviours that quirks replace when an endpoint takes another's scale. */
typedef struct lending {
    qg_tqc *(*mover)(qg_tqc *t); /* the endpoint that moves to the lender's group */
    bool (*is_waiting)(
        const qg_tqc *t); /* it is there, and rounds from now on; NULL: any */
} lending;

static bool is_waiting(const qg_tqc *t) { return t->state == QG_TQC_PASSIVE_INIT; }

static qg_tqc *ppq_mover(qg_tqc *t) { return t; }
static const lending ordinary = { .mover = find, .is_waiting = is_waiting };

const qg_quirk_row qg_tqc_share_quirks[] = {
    QG_SWAP(PPQ_SPLIT_GROUPS, "D23: sharing moves a single endpoint out of its group",
            QG_PPQ "core/quant.py TensorQuantizationConfig.master_by", lending, mover,
            ppq_mover),
    QG_SWAP(PPQ_SPLIT_GROUPS,
            "D23: an overlapped endpoint in the source's group becomes active again",
            QG_PPQ "core/quant.py TensorQuantizationConfig.master_by", lending,
            is_waiting, NULL),
    { 0 },
};

/* The state of the root changes, not that of t: the group follows as a whole. */
qg_status qg_tqc_lend(qg_quant *q, qg_tqc *t, qg_tqc *lender)
{
    static const char doing[] = "lend";
    qg_tqc *root = find(t), *leader = find(lender);
    if (t == lender || t == leader)
        return refuse(q, doing, t, lender,
                      "it would follow itself, expected another source");
    bool ready = leader->nparam > 0;
    lending how = ordinary;
    qg_quirk_swap(qg_tqc_share_quirks, q->quirks, &how);
    if (root == leader)
        return ready && (!how.is_waiting || how.is_waiting(t))
                   ? qg_tqc_set_state(q, t, QG_TQC_PASSIVE)
                   : QG_OK;
    qg_tqc_state to = ready ? QG_TQC_PASSIVE : QG_TQC_PASSIVE_INIT;
    qg_tqc *mover = how.mover(t);
    QG_TRY(check_leader(q, doing, t, leader));
    QG_TRY(check_move(q, doing, mover, to));
    if (mover != root)
        QG_TRY(split(q, mover, true));
    QG_TRY(link_under(q, mover, leader));
    return qg_tqc_set_state(q, mover, to);
}

/* scale[c] = a.scale[c or 0] * b.scale[c or 0], float32:
 * docs/evidence/ppq-behaviour.md#passive-parameters. */
static qg_status product(qg_quant *q, qg_tqc *t, qg_qparam a, qg_qparam b)
{
    assert(t->up == t);
    size_t n = a.n > b.n ? a.n : b.n;
    char at[QG_ENDPOINT_TEXT];
    if ((a.n != 1 && a.n != n) || (b.n != 1 && b.n != n))
        return qg_fail(q->ctx, QG_ESTATE,
                       "%s: derive %s: sources have %zu and %zu scales, expected equal "
                       "numbers or one",
                       q->author, qg_tqc_text(t, at), a.n, b.n);
    float *scale = qg_arena_raw(q->arena, n, sizeof *scale);
    if (!scale)
        return qg_nomem(q->ctx);
    for (size_t c = 0; c < n; c++)
        scale[c] = a.scale[a.n == 1 ? 0 : c] * b.scale[b.n == 1 ? 0 : c];
    return qg_tqc_set_param(q, t, n, scale, NULL);
}

/* The scales of lenders are those of their roots; t must have no followers, since a
 * derived scale is not shared. */
qg_status qg_tqc_derive(qg_quant *q, qg_tqc *t, qg_derive how, qg_tqc *lender0,
                        qg_tqc *lender1)
{
    static const char doing[] = "derive";
    assert(how == QG_DERIVE_BIAS);
    qg_tqc *const lender[] = { lender0, lender1 };
    if (t->up != t || t->next != t)
        return refuse(q, doing, t, find(t), "it is in a group, expected it alone");
    for (int i = 0; i < 2; i++) {
        if (find(lender[i]) == t)
            return refuse(q, doing, t, lender[i], "it would derive from itself");
        QG_TRY(check_leader(q, doing, t, find(lender[i])));
    }
    qg_qparam a = qg_tqc_param(lender0), b = qg_tqc_param(lender1);
    bool ready = a.n > 0 && b.n > 0;
    qg_tqc_state to = ready ? QG_TQC_PASSIVE : QG_TQC_PASSIVE_INIT;
    QG_TRY(check_move(q, doing, t, to));
    if (ready)
        QG_TRY(product(q, t, a, b));
    t->derive = how;
    t->lender[0] = lender0;
    t->lender[1] = lender1;
    return qg_tqc_set_state(q, t, to);
}

/* The checks are made before the split; after it only INITIAL is legal for a lone
 * root. */
qg_status qg_tqc_detach(qg_quant *q, qg_tqc *t)
{
    if (t->up == t)
        return QG_OK;
    bool rounds = t->state == QG_TQC_PASSIVE || t->state == QG_TQC_PASSIVE_INIT;
    if (!rounds)
        QG_TRY(check_move(q, "detach", t, QG_TQC_INITIAL));
    else /* two legal transitions: OVERLAPPED, then its own root */
        QG_TRY(qg_tqc_set_state(q, t, QG_TQC_OVERLAPPED));
    QG_TRY(split(q, t, false));
    return qg_tqc_set_state(q, t, QG_TQC_INITIAL);
}

static qg_status make_float(qg_quant *q, qg_tqc *t, uint32_t *changed)
{
    ++*changed;
    QG_TRY(qg_tqc_detach(q, t));
    return qg_tqc_set_state(q, t, QG_TQC_FP32);
}

qg_status qg_tqc_release(qg_quant *q, qg_tqc *root, uint32_t *changed)
{
    assert(root->up == root);
    while (root->next != root)
        QG_TRY(make_float(q, root->next, changed));
    return make_float(q, root, changed);
}
