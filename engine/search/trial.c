/* trial.c -- policies are measured, not only predicted: written as a patch, quantized,
 * run.  Each policy once. */
#include <math.h>

#include "engine/config/yaml.h"
#include "engine/search/search.h"

double qg_search_number(double error)
{
    return isfinite(error) ? error : QG_SEARCH_NO_NUMBER;
}

const char *qg_search_choice_text(const qg_searching *s, size_t o)
{
    return s->bits[o] ? qg_arena_printf(s->arena, "%u", s->bits[o]) : "float";
}

double qg_search_mean_bits(const qg_searching *s, double cost)
{
    return cost / s->elements;
}

double qg_search_cost(const qg_searching *s, const uint8_t *option, size_t i)
{
    return option[i] == QG_SEARCH_KEPT ? s->item.at[i].now
                                       : s->cost[i * s->options + option[i]];
}

size_t qg_search_option(const qg_searching *s, const uint8_t *option, size_t i)
{
    size_t o = 0;
    if (option[i] != QG_SEARCH_KEPT)
        return option[i];
    while (o < s->options && s->cost[i * s->options + o] != s->item.at[i].now)
        o++;
    return o;
}

static bool is_float(const qg_searching *s, const uint8_t *option, uint32_t item)
{
    return item != QG_NONE && option[item] != QG_SEARCH_KEPT && !s->bits[option[item]];
}

size_t qg_search_size(const qg_searching *s, const uint8_t *option)
{
    double bytes = s->fixed;
    for (size_t i = 0; i < s->item.n; i++)
        if (s->item.at[i].stored > 0)
            bytes += qg_search_cost(s, option, i) / s->item.at[i].elements *
                     s->item.at[i].stored / 8;
    for (size_t i = 0; i < s->derived.n; i++)
        if (is_float(s, option, s->derived.at[i].item[0]) ||
            is_float(s, option, s->derived.at[i].item[1]))
            bytes += s->derived.at[i].more / 8;
    return (size_t)ceil(bytes);
}

const double *qg_search_counted(const qg_searching *s)
{
    return s->kind == QG_BUDGET_SIZE ? s->space : s->cost;
}

double qg_search_allowed(const qg_searching *s)
{
    return s->kind == QG_BUDGET_BITS ? s->budget * s->elements
                                     : (s->budget - s->fixed) * 8;
}

static bool has_option(const qg_searching *s, const uint8_t *option, size_t o)
{
    for (size_t i = 0; i < s->item.n; i++)
        if (option[i] == o)
            return true;
    return false;
}

/* Values of the items with one option. */
typedef struct chosen {
    const qg_searching *s;
    const uint8_t *option;
    size_t o;
} chosen;

static bool takes(const void *ud, size_t value)
{
    const chosen *c = ud;
    uint32_t item = c->s->item_of[value];
    return item != QG_NONE && c->option[item] == c->o;
}

static void print_rule(const qg_searching *s, const uint8_t *option, size_t o, FILE *f)
{
    const chosen c = { s, option, o };
    char id[32] = "search-float";
    if (s->bits[o])
        (void)snprintf(id, sizeof id, "search-%u", s->bits[o]);
    qg_again_print_match(&s->again, id, takes, &c, f);
    if (s->bits[o])
        (void)fprintf(f, "    set: {bits: %u}\n", s->bits[o]);
    else
        (void)fputs("    set: {state: fp32}\n", f);
    (void)fputs("    why: chosen by qg search\n", f);
}

qg_status qg_search_patch(const qg_searching *s, const uint8_t *option,
                          const char *comment, FILE *f)
{
    bool any = false;
    qg_again_print_head(&s->again, comment, f);
    for (size_t o = 0; o < s->options; o++)
        if (has_option(s, option, o)) {
            print_rule(s, option, o, f);
            any = true;
        }
    if (!any)
        (void)fputs("  []\n", f);
    return QG_OK;
}

qg_status qg_search_quantize_any(qg_searching *s, const uint8_t *option,
                                 qg_model *trial)
{
    qg_memory_file f;
    *trial = (qg_model){ 0 }; /* dropped by the caller, whatever fails */
    QG_TRY(qg_memory_open(s->m->ctx, &f));
    QG_TRY(qg_memory_close(&f, qg_search_patch(s, option, "a trial", f.stream)));
    bool any = false;
    for (size_t o = 0; o < s->options && !any; o++)
        any = has_option(s, option, o);
    qg_status st = qg_again_quantize(&s->again, any ? f.bytes : NULL, trial);
    qg_memory_free(&f);
    return st;
}

const qg_tqc *qg_search_wrong(const qg_searching *s, const uint8_t *option,
                              const qg_model *trial, size_t *at)
{
    const qg_quant *q = trial->quant;
    while (*at < q->tqc.n) {
        const qg_tqc *t = q->tqc.at[(*at)++];
        uint32_t item = qg_search_item_of(s, t);
        if (item != QG_NONE && option[item] != QG_SEARCH_KEPT && qg_search_is_free(t) &&
            t->scheme.bits != s->bits[option[item]])
            return t;
    }
    return NULL;
}

qg_status qg_search_quantize(qg_searching *s, const uint8_t *option, qg_model *trial)
{
    char at[QG_ENDPOINT_TEXT];
    size_t k = 0;
    QG_TRY(qg_search_quantize_any(s, option, trial));
    const qg_tqc *t = qg_search_wrong(s, option, trial, &k);
    if (!t)
        return QG_OK;
    return qg_fail(s->m->ctx, QG_ESTATE,
                   "search: %s: %u bits in a trial whose policy sets other bits, "
                   "expected those",
                   qg_tqc_text(t, at), t->scheme.bits);
}

qg_tried *qg_search_known(const qg_searching *s, const uint8_t *option)
{
    for (size_t i = 0; i < s->tried.n; i++)
        if (memcmp(s->tried.at[i]->option, option, s->item.n) == 0)
            return (qg_tried *)s->tried.at[i]; /* made by qg_search_try */
    return NULL;
}

static qg_status make(qg_searching *s, const uint8_t *option, qg_tried **out)
{
    qg_tried *t = QG_NEW(s->arena, qg_tried);
    uint8_t *copy = QG_NEWN(s->arena, s->item.n, uint8_t);
    if (!t || !copy)
        return qg_nomem(s->m->ctx);
    memcpy(copy, option, s->item.n);
    *t = (qg_tried){
        .option = copy, .nsr = -1, .judged = -1, .deployed = -1, .crossed = -1
    };
    for (size_t i = 0; i < s->item.n; i++) {
        t->cost += s->cost[i * s->options + option[i]];
        t->predicted += s->harm[i * s->options + option[i]];
    }
    *out = t;
    return qg_vec_push(s->m->ctx, s->arena, &s->tried, t);
}

static qg_status measure(qg_searching *s, qg_tried *t, bool judge)
{
    qg_model trial;
    qg_again_question q = { &trial, s->split.choose, s->metric };
    qg_status st = qg_search_quantize(s, t->option, &trial);
    if (st == QG_OK && t->nsr < 0)
        st = qg_again_error(&s->again, &q, &t->nsr, NULL);
    t->nsr = qg_search_number(t->nsr);
    q.feed = s->split.judge;
    if (st == QG_OK && judge)
        st = qg_again_error(&s->again, &q, &t->judged, &t->doubt[0]);
    t->judged = qg_search_number(t->judged);
    qg_again_drop(&trial);
    return st;
}

qg_status qg_search_try(qg_searching *s, const uint8_t *option, bool judge,
                        const qg_tried **out)
{
    qg_tried *t = qg_search_known(s, option);
    if (!t)
        QG_TRY(make(s, option, &t));
    *out = t;
    return t->nsr < 0 || (judge && t->judged < 0) ? measure(s, t, judge) : QG_OK;
}
