/* state.c -- switching endpoints of a quantized model off and on again. */

#include "engine/config/override.h"
#include "engine/session/session.h"
#include "engine/pass/rules.h"
#include "engine/quant/tqc_check.h"

/* Words of `state=`, and their meanings. */
static const struct {
    const char *word;
    qg_tqc_state to;
} states[] = {
    {"deactivated",  QG_TQC_DEACTIVATED},
    { "dequantized", QG_TQC_DEQUANTIZED},
    { "restored",    QG_TQC_ACTIVATED  },
};

/* "node=Conv_3 state=restored": the selector without its state, and the state. */
static qg_status split(qg_model *m, const char *text, char **selector, qg_tqc_state *to)
{
    char *copy = qg_arena_strdup(m->graph->arena, text);
    if (!copy)
        return qg_nomem(m->ctx);
    char *at = strncmp(copy, "state=", 6) == 0 ? copy : strstr(copy, " state=");
    char *word = at ? strchr(at, '=') + 1 : NULL;
    size_t n = word ? strcspn(word, " ") : 0;
    for (size_t i = 0; word && i < sizeof states / sizeof states[0]; i++)
        if (strlen(states[i].word) == n && strncmp(states[i].word, word, n) == 0) {
            memset(at, ' ', (size_t)(word - at) + n);
            *selector = copy;
            *to = states[i].to;
            return QG_OK;
        }
    return qg_fail(m->ctx, QG_ECONFIG,
                   "switch: '%s': expected state=deactivated, state=dequantized or "
                   "state=restored",
                   text);
}

/* The selector as a rule; the backend is only there to be filled. */
static qg_status read_rule(qg_model *m, const char *selector, qg_rule *out)
{
    qg_arena *a = m->graph->arena;
    qg_backend b = { .name = "switch" };
    b.defaults.scheme = (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                     .bits = 8,
                                     .axis = -1,
                                     .qmin = -128,
                                     .qmax = 127 };
    const char *text = qg_arena_printf(a, "%s visibility=internal", selector);
    if (!text) /* a field, because a rule that sets nothing is refused */
        return qg_nomem(m->ctx);
    QG_TRY(qg_backend_set(m->ctx, a, text, &b));
    *out = b.rule.at[0];
    out->origin.id = "switch"; /* as the journal will have it */
    return QG_OK;
}

qg_status qg_model_switch(qg_model *m, const char *text, size_t *changed)
{
    char *selector;
    qg_tqc_state to;
    qg_rule rule;
    size_t matched, count;
    QG_TRY(qg_model_expect_quantized(m, "switch"));
    QG_TRY(split(m, text, &selector, &to));
    QG_TRY(read_rule(m, selector, &rule));
    const char *what = qg_arena_printf(m->graph->arena, "switch: '%s'", text);
    if (!what)
        return qg_nomem(m->ctx);
    QG_TRY(qg_rule_check_names(&rule, m->graph, what));
    QG_TRY(qg_rule_switch(m->quant, &rule, to, &matched, &count));
    if (matched == 0)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "switch: '%s': the selector matches no quantized endpoint, "
                       "expected at least one",
                       text);
    QG_TRY(qg_check_tqcs(m->ctx, m->quant, QG_CHECK_ALL));
    if (changed)
        *changed = count;
    return QG_OK;
}
