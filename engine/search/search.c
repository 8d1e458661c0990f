/* search.c -- `qg search`: bits for every group within a budget.
 *
 *     predict    the harm of every group at every choice; the knapsack over it is
 *                solved exactly, and by two heuristics for comparison
 *     measure    harms add up only about: every policy is quantized and run.  For a
 *                budget of noise the predicted limit is moved until the measured error
 *                meets the budget, with a reserve for samples that are not seen
 *     judge      samples without a part in it decide which policy is written, and
 *                whether the budget is met there; if not, the reserve grows */
#include "engine/core/file.h"
#include "engine/search/search.h"

#include <assert.h>
#include <math.h>

#include "engine/core/num.h"
#include "engine/core/reads.h"
#include "engine/core/suggest.h"
#include "engine/analysis/measure.h"

QG_OPTIONS_INIT(qg_search_options)

enum { MOST_TRIES = 8, ROUNDS = 3, FRONT = 9 };

/* --- options --- */

static qg_status bad_budget(const qg_searching *s)
{
    return qg_fail(s->m->ctx, QG_ECONFIG,
                   "search: budget '%.60s': expected nsr=0.01 (or 1%%), bits=6.0 or "
                   "size=2MB (B, kB, MB, GB, KiB, MiB, GiB)",
                   s->o->budget ? s->o->budget : "");
}

/* The unit at the end of a number as its factor; 0: unknown.  *n: without the unit. */
static double unit_of(enum qg_budget_kind kind, const char *text, size_t *n)
{
    static const struct {
        const char *name;
        double factor;
    } unit[] = {
        {"kB",   1e3       },
        { "MB",  1e6       },
        { "GB",  1e9       },
        { "KiB", 1024      },
        { "MiB", 1048576   },
        { "GiB", 1073741824},
        { "B",   1         }
    };
    size_t length = strlen(text);
    *n = length;
    if (kind == QG_BUDGET_NSR && length > 0 && text[length - 1] == '%') {
        *n = length - 1;
        return 0.01;
    }
    for (size_t i = 0; kind == QG_BUDGET_SIZE && i < sizeof unit / sizeof *unit; i++) {
        if (qg_path_ends_in(text, unit[i].name)) {
            *n = length - strlen(unit[i].name);
            return unit[i].factor;
        }
    }
    return 1;
}

static qg_status read_budget(qg_searching *s)
{
    static const char *const word[] = { "nsr=", "bits=", "size=" };
    const char *text = s->o->budget;
    for (int k = 0; text && k < 3; k++) {
        size_t skip = strlen(word[k]), n;
        if (strncmp(text, word[k], skip) != 0)
            continue;
        s->kind = (enum qg_budget_kind)k;
        double unit = unit_of(s->kind, text + skip, &n);
        if (!qg_num_parse_f64(text + skip, n, &s->budget) || !(s->budget > 0))
            return bad_budget(s);
        s->budget *= unit;
        if (s->kind == QG_BUDGET_NSR && s->budget >= 1)
            return qg_fail(s->m->ctx, QG_ECONFIG,
                           "search: budget '%.60s': is noise as large as the signal, "
                           "expected less, such as nsr=1%%",
                           s->o->budget);
        return QG_OK;
    }
    return bad_budget(s);
}

static qg_status bad_choices(const qg_searching *s)
{
    return qg_fail(s->m->ctx, QG_ECONFIG,
                   "search: choices '%.60s': expected rising bits from 2 to 24, then "
                   "perhaps float, at least two in all: 4,8,16,float",
                   s->o->choices);
}

static qg_status read_choices(qg_searching *s)
{
    const char *text = s->o->choices ? s->o->choices : "4,8,16,float";
    bool last = false;
    while (!last) {
        size_t n = strcspn(text, ",");
        int64_t bits = 0;
        last = text[n] == 0;
        bool is_float = n == 5 && strncmp(text, "float", 5) == 0 && last;
        if (s->options == QG_KNAPSACK_OPTIONS ||
            (!is_float && (!qg_num_parse_i64(text, n, &bits) || bits < 2 || bits > 24 ||
                           (s->options && (unsigned)bits <= s->bits[s->options - 1]))))
            return bad_choices(s);
        s->bits[s->options++] = (unsigned)bits;
        text += n + 1;
    }
    return s->options < 2 ? bad_choices(s) : QG_OK;
}

static qg_status read_options(qg_searching *s)
{
    const char *how = s->o->estimate;
    QG_TRY(read_budget(s));
    QG_TRY(read_choices(s));
    s->by_gradient = how && strcmp(how, "gradient") == 0;
    if (how && !s->by_gradient && strcmp(how, "measured") != 0)
        return qg_fail(s->m->ctx, QG_ECONFIG,
                       "search: estimate '%.60s': expected measured or gradient", how);
    return qg_measure_by(s->m->ctx, NULL, &s->metric);
}

/* --- a budget of bits or bytes --- */

/* The bits that all items may take. */
static double least(const qg_searching *s, const double *cell)
{
    double sum = 0;
    for (size_t i = 0; i < s->item.n; i++) {
        double best = INFINITY;
        for (size_t o = 0; o < s->options; o++)
            best = fmin(best, cell[i * s->options + o]);
        sum += best;
    }
    return sum;
}

static qg_status too_tight(const qg_searching *s)
{
    double bits = least(s, s->cost), mean = bits / s->elements;
    if (s->kind == QG_BUDGET_BITS)
        return qg_fail(s->m->ctx, QG_ENUMERIC,
                       "search: budget %s: the choices begin at %g bits, expected "
                       "bits=%g or more",
                       s->o->budget, mean, ceil(mean * 1e3) / 1e3);
    return qg_fail(
        s->m->ctx, QG_ENUMERIC,
        "search: budget %s: constants have %.0f bytes with the fewest bits, "
        "%.0f of them in constants that keep their bits, expected size=%.0fB "
        "or more",
        s->o->budget, ceil(bits / 8 + s->fixed), ceil(s->fixed),
        ceil(bits / 8 + s->fixed));
}

static qg_status try_for_bits(qg_searching *s, enum qg_method how, bool *found)
{
    qg_selection x;
    QG_TRY(qg_search_select(s, how, qg_search_allowed(s), &x, found));
    if (!*found)
        return QG_OK;
    s->found[how].bound = x.bound;
    s->found[how].value = x.loss;
    return qg_search_try(s, x.option, true, &s->found[how].policy);
}

/* Solved again with errors around the best policy so far, while that helps. */
static qg_status refine_for_bits(qg_searching *s)
{
    for (int k = 0; k < ROUNDS; k++) {
        const qg_tried *best = qg_search_least_noise(s);
        qg_finding before = s->found[QG_REFINED];
        bool found;
        QG_TRY(qg_search_set_context(s, best));
        QG_TRY(try_for_bits(s, QG_REFINED, &found));
        if (found && s->found[QG_REFINED].policy->nsr < best->nsr)
            continue;
        if (!found || before.policy)
            s->found[QG_REFINED] = before;
        return QG_OK;
    }
    return QG_OK;
}

static qg_status find_for_bits(qg_searching *s)
{
    for (int how = 0; how < QG_REFINED; how++) {
        bool found;
        QG_TRY(try_for_bits(s, (enum qg_method)how, &found));
        if (!found && how == QG_EXACT)
            return too_tight(s);
    }
    QG_TRY(refine_for_bits(s));
    return qg_search_climb(s);
}

/* --- a budget of noise --- */

static bool meets(const qg_searching *s, const qg_tried *t)
{
    return t->nsr <= s->budget * (1 - s->reserve);
}

static qg_status no_number(const qg_searching *s)
{
    return qg_fail(s->m->ctx, QG_ENUMERIC,
                   "search: budget %s: the outputs of the best policy are NaN or "
                   "infinite on some sample, expected another budget or other choices; "
                   "`qg analyse` names where they begin",
                   s->o->budget);
}

static qg_status too_noisy(const qg_searching *s, const qg_tried *t)
{
    const char *excess = qg_search_excess(s, t);
    if (fmax(t->nsr, fmax(t->judged, t->deployed)) >= QG_SEARCH_NO_NUMBER)
        return no_number(s);
    if (t->crossed >= QG_SEARCH_NO_NUMBER)
        return qg_fail(
            s->m->ctx, QG_ENUMERIC,
            "search: budget %s: with the most bits the nsr is %g, but when half of the "
            "samples calibrate, the outputs of others are NaN or infinite, expected "
            "other choices or more samples",
            s->o->budget, t->nsr);
    return qg_fail(
        s->m->ctx, QG_ENUMERIC,
        "search: budget %s: with the most bits the nsr is %g, and the policy "
        "is %s with what samples that are not seen may add, expected a "
        "budget that can be met",
        s->o->budget, t->nsr, excess ? excess : "beyond it");
}

/* The cheapest policy of a method that meets the budget as measured: the predicted
 * limit is halved and doubled in ratio, from the budget on. */
static qg_status tighten(qg_searching *s, enum qg_method how)
{
    double low = 0, high = 0, goal = s->budget * (1 - s->reserve), limit = goal;
    qg_finding *f = &s->found[how];
    f->policy = NULL;
    for (int k = 0; k < MOST_TRIES && !(low > 0 && high > 0 && high < low * 1.02);
         k++) {
        qg_selection x;
        bool found;
        const qg_tried *t;
        QG_TRY(qg_search_select(s, how, limit, &x, &found));
        if (!found)
            break;
        QG_TRY(qg_search_try(s, x.option, false, &t));
        bool good = meets(s, t);
        if (good && (!f->policy || t->cost < f->policy->cost))
            *f = (qg_finding){ .policy = t, .bound = x.bound, .value = x.loss };
        *(good ? &low : &high) = limit;
        double ratio = t->nsr > 0 ? goal / t->nsr : 4;
        if (low > 0 && high > 0)
            limit = sqrt(low * high);
        else
            limit *= good ? fmin(fmax(ratio, 1.1), 4) : fmax(fmin(ratio, 0.9), 0.1);
    }
    return QG_OK;
}

static qg_status judge_method(qg_searching *s, enum qg_method how)
{
    const qg_tried **t = &s->found[how].policy;
    return *t ? qg_search_judge(s, t) : QG_OK;
}

/* The cheapest policy that is judged good; NULL: none is. */
static const qg_tried *best_judged(const qg_searching *s)
{
    const qg_tried *best = NULL;
    for (int how = 0; how < QG_NMETHOD; how++) {
        const qg_tried *t = s->found[how].policy;
        if (qg_search_is_good(s, t) && (!best || t->cost < best->cost))
            best = t;
    }
    return best;
}

static qg_status refine_for_noise(qg_searching *s)
{
    for (int k = 0; k < ROUNDS; k++) {
        const qg_tried *best = best_judged(s);
        if (!best)
            return QG_OK;
        QG_TRY(qg_search_set_context(s, best));
        QG_TRY(tighten(s, QG_REFINED));
        QG_TRY(judge_method(s, QG_REFINED));
        const qg_tried *t = s->found[QG_REFINED].policy;
        if (!qg_search_is_good(s, t) || t->cost >= best->cost)
            return QG_OK;
    }
    return QG_OK;
}

/* The cell of more bits that lowers the error most per bit; SIZE_MAX: all items are at
 * their best choice.  error: of qg_search_context. */
static size_t best_raise(const qg_searching *s, const uint8_t *option,
                         const double *error)
{
    size_t best = SIZE_MAX;
    double most = -INFINITY;
    for (size_t i = 0; i < s->item.n; i++) {
        size_t now = i * s->options + option[i];
        for (size_t c = now + 1; c < (i + 1) * s->options; c++) {
            if (!qg_search_takes(s, i, c % s->options))
                continue;
            double rate = (error[now] - error[c]) / (s->cost[c] - s->cost[now]);
            if (best == SIZE_MAX || rate > most) {
                best = c;
                most = rate;
            }
        }
    }
    return best;
}

/* No reserve was enough: what the samples that judge suffer from is not seen on the
 * others.  Item after item is raised as they say. */
static qg_status repair(qg_searching *s)
{
    const qg_tried *t = s->found[QG_EXACT].policy;
    uint8_t *option = QG_NEWN(s->arena, s->item.n, uint8_t);
    double *error = QG_NEWN(s->arena, s->item.n * s->options, double);
    if (!option || !error)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < s->item.n; i++)
        option[i] = (uint8_t)qg_search_most(s, i);
    if (t)
        memcpy(option, t->option, s->item.n);
    for (;;) {
        QG_TRY(qg_search_try(s, option, false, &t));
        QG_TRY(qg_search_judge(s, &t));
        s->found[QG_EXACT].policy = t;
        if (qg_search_is_good(s, t))
            return QG_OK;
        QG_TRY(qg_search_context(s, option, s->split.judge, error));
        size_t cell = best_raise(s, option, error);
        if (cell == SIZE_MAX)
            return too_noisy(s, t);
        option[cell / s->options] = (uint8_t)(cell % s->options);
        s->repaired++;
    }
}

/* A policy that is judged good stays unless a cheaper one is found. */
static qg_status tighten_again(qg_searching *s, enum qg_method how)
{
    const qg_finding before = s->found[how];
    QG_TRY(tighten(s, how));
    QG_TRY(judge_method(s, how));
    const qg_tried *t = s->found[how].policy;
    if (qg_search_is_good(s, before.policy) &&
        !(qg_search_is_good(s, t) && t->cost < before.policy->cost))
        s->found[how] = before;
    return QG_OK;
}

/* The policy of a limit, of predicted noise or of bits, if it keeps the budget and is
 * cheaper than the method's so far.  Without the reserve: greedy's may be of an earlier
 * one. */
static qg_status try_at(qg_searching *s, enum qg_method how, enum qg_budget_kind kind,
                        double limit)
{
    const enum qg_budget_kind asked = s->kind;
    qg_finding *f = &s->found[how];
    qg_selection x;
    bool found;
    s->kind = kind;
    qg_status st = qg_search_select(s, how, limit, &x, &found);
    s->kind = asked;
    QG_TRY(st);
    const qg_tried *t = NULL;
    if (found)
        QG_TRY(qg_search_try(s, x.option, false, &t));
    if (!t || t->nsr > s->budget ||
        (qg_search_is_good(s, f->policy) && t->cost >= f->policy->cost))
        return QG_OK;
    QG_TRY(qg_search_judge(s, &t));
    if (qg_search_is_good(s, t))
        *f = (qg_finding){ .policy = t, .bound = x.bound, .value = x.loss };
    return QG_OK;
}

static bool is_behind_greedy(const qg_searching *s)
{
    const qg_tried *greedy = s->found[QG_GREEDY].policy;
    const qg_tried *exact = s->found[QG_EXACT].policy;
    return greedy && (!exact || exact->cost > greedy->cost);
}

/* The limits at which greedy passed: with its predicted noise exact needs at most its
 * bits, and, if that policy misses the budget as measured, with its bits exact has at
 * most its predicted noise.  Where both miss it, since errors do not add up exactly,
 * greedy's is the cheapest policy, which is then not proved. */
static qg_status try_beside_greedy(qg_searching *s)
{
    const qg_tried *greedy = s->found[QG_GREEDY].policy;
    qg_selection x;
    bool found;
    if (is_behind_greedy(s))
        QG_TRY(try_at(s, QG_EXACT, QG_BUDGET_NSR, greedy->predicted));
    if (is_behind_greedy(s))
        QG_TRY(try_at(s, QG_EXACT, QG_BUDGET_BITS, greedy->cost * (1 + 1e-12)));
    if (!is_behind_greedy(s) || !qg_search_is_good(s, greedy))
        return QG_OK;
    QG_TRY(qg_search_select(s, QG_EXACT, greedy->predicted, &x, &found));
    s->found[QG_EXACT] = (qg_finding){ greedy, fmin(x.bound, x.loss), greedy->cost };
    return QG_OK;
}

/* Between the fewest bits and those of the best policy, by halves: limits of noise and
 * the few reserves leave out many. */
static qg_status close_in(qg_searching *s)
{
    static const enum qg_method method[] = { QG_EXACT, QG_GREEDY, QG_REFINED };
    double low = least(s, s->cost), high = best_judged(s)->cost;
    for (int k = 0; k < MOST_TRIES && high > low * 1.01; k++) {
        double limit = (low + high) / 2;
        for (size_t i = 0; i < sizeof method / sizeof *method; i++)
            QG_TRY(try_at(s, method[i], QG_BUDGET_BITS, limit));
        low = best_judged(s)->cost < high ? low : limit;
        high = best_judged(s)->cost;
    }
    return QG_OK;
}

static qg_status refine_and_close_in(qg_searching *s)
{
    QG_TRY(refine_for_noise(s));
    for (int k = 0; k < ROUNDS; k++) {
        const qg_tried *before = best_judged(s);
        QG_TRY(close_in(s));
        if (best_judged(s) == before)
            break;
        QG_TRY(qg_search_set_context(s, best_judged(s)));
    }
    return try_beside_greedy(s);
}

/* With a growing reserve, until the exact policy is judged good. */
static qg_status find_for_noise(qg_searching *s)
{
    static const double reserve[] = { 0.1, 0.25, 0.5, 0.8 };
    for (size_t k = 0; k < sizeof reserve / sizeof *reserve; k++) {
        s->reserve = reserve[k];
        for (int how = 0; how < QG_REFINED; how++)
            QG_TRY(tighten_again(s, (enum qg_method)how));
        QG_TRY(try_beside_greedy(s));
        if (qg_search_is_good(s, s->found[QG_EXACT].policy))
            break;
    }
    return best_judged(s) ? refine_and_close_in(s) : repair(s);
}

/* --- the winner --- */

/* Over all samples: those that chose the policies of one budget favour none of them. */
static double noise_of(const qg_searching *s, const qg_tried *t)
{
    size_t n = s->split.choose->n, judges = s->split.judge->n;
    return (t->nsr * (double)n + t->judged * (double)judges) / (double)(n + judges);
}

static const char *result_of(const qg_searching *s, const qg_tried *t)
{
    if (t == s->found[s->winner].policy)
        return "chosen";
    if (s->kind != QG_BUDGET_NSR)
        return t == &s->before && !s->found[QG_SNAPSHOT].policy ? "beyond the budget"
                                                                : "more noise";
    if (!qg_search_is_good(s, t))
        return qg_search_excess(s, t);
    double more = t->cost - s->found[s->winner].policy->cost;
    return more > 0 ? qg_arena_printf(s->arena, "%.3g more bits",
                                      qg_search_mean_bits(s, more))
                    : "as many bits";
}

/* The snapshot is a candidate where it keeps a budget of bits or bytes, or where it has
 * at most the bits of what keeps one of noise. */
static qg_status consider_snapshot(qg_searching *s)
{
    const qg_tried *t = &s->before, *best = best_judged(s);
    const bool fits[] = {
        [QG_BUDGET_NSR] = best && t->cost <= best->cost,
        [QG_BUDGET_BITS] = qg_search_mean_bits(s, t->cost) <= s->budget,
        [QG_BUDGET_SIZE] = (double)qg_search_size(s, t->option) <= s->budget,
    };
    if (fits[s->kind])
        s->found[QG_SNAPSHOT].policy = t;
    return judge_method(s, QG_SNAPSHOT);
}

/* Also quantized from all samples nothing is worse than a snapshot in the budget. */
static qg_status stay_at_snapshot(qg_searching *s)
{
    const qg_tried *t = s->found[QG_SNAPSHOT].policy;
    QG_TRY(judge_method(s, s->winner));
    if (s->kind != QG_BUDGET_NSR && t &&
        t->deployed < s->found[s->winner].policy->deployed)
        s->winner = QG_SNAPSHOT;
    return QG_OK;
}

/* For noise, fewer bits; else less noise.  On a tie the snapshot, which needs no
 * policy, unless it has more bits; then the first, exact. */
static bool is_better(const qg_searching *s, enum qg_method how, const qg_tried *best)
{
    const qg_tried *t = s->found[how].policy;
    bool noise = s->kind == QG_BUDGET_NSR;
    double now = noise ? t->cost : noise_of(s, t);
    double old = noise ? best->cost : noise_of(s, best);
    return now < old || (now == old && how == QG_SNAPSHOT && t->cost <= best->cost);
}

/* Among those that keep the budget, of noise as judged. */
static qg_status choose_winner(qg_searching *s)
{
    bool any = false;
    for (int how = 0; how < QG_NMETHOD; how++) {
        const qg_tried *t = s->found[how].policy;
        if (!t || (s->kind == QG_BUDGET_NSR && !qg_search_is_good(s, t)))
            continue;
        if (!any || is_better(s, (enum qg_method)how, s->found[s->winner].policy))
            s->winner = (enum qg_method)how;
        any = true;
    }
    assert(any); /* else the budget cannot be met, which is an error */
    QG_TRY(stay_at_snapshot(s));
    const qg_tried *best = s->found[s->winner].policy;
    return fmax(best->nsr, best->judged) < QG_SEARCH_NO_NUMBER ? QG_OK : no_number(s);
}

static void tell_results(qg_searching *s)
{
    for (int how = 0; how < QG_NMETHOD; how++) {
        const qg_tried *t = how == QG_SNAPSHOT ? &s->before : s->found[how].policy;
        s->result[how] = t ? result_of(s, t) : NULL;
    }
}

/* --- the front --- */

static int same(const qg_searching *s, const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, s->item.n) == 0;
}

/* Exact policies for evenly spaced bits, from the fewest to the most. */
static qg_status find_front(qg_searching *s)
{
    enum qg_budget_kind kind = s->kind;
    double low = least(s, s->cost), high = 0;
    for (size_t i = 0; i < s->item.n; i++)
        high += s->cost[i * s->options + qg_search_most(s, i)];
    s->kind = QG_BUDGET_BITS; /* minimizes noise */
    qg_status st = QG_OK;
    for (size_t k = 0; st == QG_OK && k < FRONT; k++) {
        qg_selection x;
        bool found;
        const qg_tried *t;
        double part = (double)k / (FRONT - 1);
        /* evenly in the logarithm: half of the points lie below 12 bits */
        double limit = k == FRONT - 1 ? high : low * pow(high / low, part);
        st = qg_search_select(s, QG_EXACT, limit * (1 + 1e-12), &x, &found);
        if (st != QG_OK || !found ||
            (s->front.n && same(s, s->front.at[s->front.n - 1]->option, x.option)))
            continue;
        st = qg_search_try(s, x.option, false, &t);
        if (st == QG_OK)
            st = qg_vec_push(s->m->ctx, s->arena, &s->front, t);
    }
    s->kind = kind;
    return st;
}

/* --- all together --- */

static qg_status write_patch(const qg_searching *s)
{
    qg_writer w;
    if (!s->o->patch)
        return QG_OK;
    const char *comment = qg_arena_printf(
        s->arena, "qg search: %s%s", s->o->budget,
        s->winner == QG_SNAPSHOT ? ": no policy found is better than the snapshot"
                                 : "");
    if (!comment)
        return qg_nomem(s->m->ctx);
    QG_TRY(qg_writer_open(s->m->ctx, s->o->patch, &w));
    qg_status st =
        qg_search_patch(s, s->found[s->winner].policy->option, comment, w.stream);
    if (st == QG_OK)
        return qg_writer_commit(&w);
    qg_writer_abandon(&w);
    return st;
}

/* Most bytes may be of constants that the backend does not quantize. */
static void warn_kept(const qg_searching *s)
{
    double size = (double)qg_search_size(s, s->before.option);
    if (2 * s->fixed > size)
        qg_warn(s->m->ctx,
                "search: %.0f of %.0f bytes of constants are in none of the groups and "
                "keep their type, expected less than half",
                ceil(s->fixed), size);
}

/* Groups whose size the data decide are left; others may have that of one sample. */
static void warn_sizes(const qg_searching *s)
{
    const qg_feed *feed = s->split.choose;
    bool open = false;
    for (size_t i = 0; i < s->m->graph->input.n; i++)
        open = open || !qg_tensor_known(&s->m->graph->input.at[i]->type);
    if (open && !feed->shape)
        qg_warn(s->m->ctx,
                "search: the samples have several shapes: elements of activations are "
                "counted in the first one, expected samples of one shape, or a "
                "snapshot of `qg quantize --shape`");
    if (s->unsized)
        qg_warn(s->m->ctx,
                "search: %zu value%s, as %.1000s: how many elements there are depends "
                "on the data, so the bits stay those of the snapshot, expected shapes "
                "that follow from those of the inputs",
                s->unsized, s->unsized == 1 ? "" : "s", s->unsized_first->name);
}

static qg_status look_at_samples(qg_searching *s)
{
    qg_graph *g = s->m->graph;
    qg_tensor *type;
    const qg_tensor **known;
    QG_TRY(qg_measured_types(g, s->split.choose, s->arena, &type, &known));
    s->type = type;
    return qg_measured_find(g, s->split.choose, "search", s->arena, &s->at);
}

/* Trials calibrate from the samples of the search: ranges of others are others. */
static qg_status warn_other_data(const qg_searching *s)
{
    const char *name, *sha256, *own = s->m->info.manifest.data_sha256;
    QG_TRY(qg_workload_origin(s->m, &s->o->work, s->arena, &name, &sha256));
    if (own && sha256 && strcmp(own, sha256) != 0)
        qg_warn(s->m->ctx,
                "search: data '%s': are not those of the snapshot, expected the same, "
                "or a `qg quantize --policy` from those of the search",
                name);
    return QG_OK;
}

/* The network as the snapshot quantizes it, from the samples that choose. */
static qg_status measure_before(qg_searching *s)
{
    const qg_feed *feed[2] = { s->split.choose, s->split.judge };
    qg_model trial;
    qg_status st = qg_again_quantize(&s->again, NULL, &trial);
    if (st == QG_OK)
        st = qg_again_check_holdout(&s->again, &trial);
    double nsr[2] = { 0 };
    for (int k = 0; st == QG_OK && k < 2; k++) {
        qg_again_question q = { &trial, feed[k], s->metric };
        st = qg_again_error(&s->again, &q, &nsr[k], &s->before.doubt[0]);
    }
    s->before.nsr = qg_search_number(nsr[0]);
    s->before.judged = qg_search_number(nsr[1]);
    s->before.deployed = s->before.crossed = -1;
    if (st == QG_OK)
        st = qg_search_warn_not_finite(s, &trial);
    qg_again_drop(&trial);
    return st;
}

/* It has been measured: from now on it is a policy that was tried. */
static qg_status list_before(qg_searching *s)
{
    qg_tried *t = &s->before;
    t->option = QG_NEWN(s->arena, s->item.n, uint8_t);
    if (!t->option)
        return qg_nomem(s->m->ctx);
    memset(t->option, QG_SEARCH_KEPT, s->item.n);
    for (size_t i = 0; i < s->item.n; i++) {
        size_t o = qg_search_option(s, t->option, i);
        t->cost += s->item.at[i].now;
        t->predicted +=
            o < s->options ? s->harm[i * s->options + o] : -(double)INFINITY;
    }
    return qg_vec_push(s->m->ctx, s->arena, &s->tried, (const qg_tried *)t);
}

static qg_status run(qg_searching *s, qg_report **out)
{
    qg_split_request r = {
        .doing = "search", .work = &s->o->work, .holdout = s->o->holdout, .judges = true
    };
    qg_report *report;
    QG_TRY(read_options(s));
    QG_TRY(qg_split_open(s->m, &r, &s->split));
    if (s->o->patch)
        QG_TRY(qg_writer_check(s->m->ctx, s->o->patch));
    qg_search_warn_few(s);
    s->again = (qg_again){ .m = s->m, .work = &s->o->work, .split = &s->split };
    QG_TRY(qg_again_read(&s->again, s->arena, s->o->backend));
    QG_TRY(qg_reads_check(s->m->ctx, s->o->patch));
    QG_TRY(warn_other_data(s));
    QG_TRY(look_at_samples(s));
    QG_TRY(qg_search_items(s));
    warn_sizes(s);
    QG_TRY(measure_before(s));
    QG_TRY(qg_search_harm(s));
    QG_TRY(list_before(s));
    warn_kept(s);
    QG_TRY(s->kind == QG_BUDGET_NSR ? find_for_noise(s) : find_for_bits(s));
    QG_TRY(consider_snapshot(s));
    QG_TRY(choose_winner(s));
    QG_TRY(qg_search_warn_deployed(s, s->found[s->winner].policy));
    tell_results(s);
    QG_TRY(find_front(s));
    QG_TRY(write_patch(s));
    QG_TRY(qg_report_new(s->m->ctx, "search", &report));
    return qg_report_end(qg_search_report(s, report), report, out);
}

qg_status qg_model_search(qg_model *m, const qg_search_options *given, qg_report **out)
{
    qg_search_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_search_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_reads_forget(m->ctx);
    if (!m->quant)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "search: %s is not quantized, expected with --budget a snapshot "
                       "of qg quantize; --over rules takes a model and its backend",
                       m->path);
    QG_TRY(qg_model_expect_quantized(m, "search"));
    QG_TRY(qg_model_warn_clamps(m, "search"));
    qg_searching s = { .m = m, .o = &o };
    s.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = s.arena ? run(&s, out) : qg_nomem(m->ctx);
    for (size_t i = 0; i < QG_KNAPSACK_OPTIONS; i++)
        qg_again_drop(&s.uniform[i]);
    qg_split_close(&s.split);
    qg_arena_free(s.arena);
    return st;
}
