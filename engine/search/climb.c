/* climb.c -- policies for a budget of bits or bytes that are changed one item at a
 * time, as measured.  Sums of errors predict little where a policy is far from the one
 * that they were measured around. */
#include "engine/search/search.h"

#include <string.h>

enum { MOST_CHANGES = 16 };

static double bits_of(const qg_searching *s, const uint8_t *option)
{
    double sum = 0;
    for (size_t i = 0; i < s->item.n; i++)
        sum += qg_search_counted(s)[i * s->options + option[i]];
    return sum;
}

const qg_tried *qg_search_least_noise(const qg_searching *s)
{
    const qg_tried *best = s->found[QG_EXACT].policy;
    for (int how = 0; how < QG_NMETHOD; how++)
        if (s->found[how].policy && s->found[how].policy->nsr < best->nsr)
            best = s->found[how].policy;
    return best;
}

/* The snapshot as a policy of choices; NULL: they lack its bits, or it is beyond the
 * budget. */
static qg_status start(qg_searching *s, const qg_tried **out)
{
    uint8_t *option = QG_NEWN(s->arena, s->item.n, uint8_t);
    *out = NULL;
    if (!option)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < s->item.n; i++) {
        const size_t o = qg_search_option(s, s->before.option, i);
        if (o >= s->options || !qg_search_takes(s, i, o))
            return QG_OK;
        option[i] = (uint8_t)o;
    }
    return bits_of(s, option) > qg_search_allowed(s)
               ? QG_OK
               : qg_search_try(s, option, true, out);
}

/* The change of one item within the budget that leaves least noise, as measured around
 * t (s->context); SIZE_MAX: none leaves less than t has. */
static size_t best_change(const qg_searching *s, const qg_tried *t)
{
    const double *cost = qg_search_counted(s);
    const double spare = qg_search_allowed(s) - bits_of(s, t->option);
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < s->item.n; i++) {
        const size_t now = i * s->options + t->option[i];
        for (size_t c = i * s->options; c < (i + 1) * s->options; c++)
            if (qg_search_takes(s, i, c % s->options) && cost[c] - cost[now] <= spare &&
                s->context[c] < s->context[best == SIZE_MAX ? now : best])
                best = c;
    }
    return best;
}

/* The samples that chose each change favour it: on those that judge it has to be better
 * than each other policy. */
static bool is_less_noise(const qg_searching *s, const qg_tried *t)
{
    for (int how = 0; how < QG_NMETHOD; how++) {
        const qg_tried *other = s->found[how].policy;
        if (other && (t->nsr >= other->nsr || t->judged >= other->judged))
            return false;
    }
    return true;
}

/* From a policy one item after another, while the noise falls: sums of errors predict
 * little where a policy is far from what they were measured around. */
static qg_status climb(qg_searching *s, const qg_tried *from)
{
    const qg_tried *t = from;
    for (size_t k = 0; t && k < MOST_CHANGES; k++) {
        uint8_t *option = QG_NEWN(s->arena, s->item.n, uint8_t);
        const qg_tried *next;
        if (!option)
            return qg_nomem(s->m->ctx);
        QG_TRY(qg_search_set_context(s, t));
        const size_t cell = best_change(s, t);
        if (cell == SIZE_MAX)
            break;
        memcpy(option, t->option, s->item.n);
        option[cell / s->options] = (uint8_t)(cell % s->options);
        QG_TRY(qg_search_try(s, option, true, &next));
        if (!(next->nsr < t->nsr))
            break;
        t = next;
    }
    if (t && t != from && is_less_noise(s, t))
        s->found[QG_REFINED] = (qg_finding){ .policy = t };
    return QG_OK;
}

qg_status qg_search_climb(qg_searching *s)
{
    const qg_tried *snapshot;
    QG_TRY(climb(s, qg_search_least_noise(s)));
    QG_TRY(start(s, &snapshot));
    return climb(s, snapshot);
}
