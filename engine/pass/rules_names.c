/* rules_names.c -- names in selectors: each must be in the graph, also when others of
 * its list are. */
#include <stdio.h>
#include <string.h>

#include "engine/core/suggest.h"
#include "engine/pass/rules.h"

/* A selector that names nodes or values, word by word. */
typedef struct naming {
    const qg_graph *graph;
    const char *what; /* begins the message */
    bool of_nodes;
    bool or_operators; /* of --set op=WORD, which names an operator or a node */
} naming;

static size_t count(const naming *n)
{
    return n->of_nodes ? n->graph->node.n : n->graph->value.n;
}

static const char *name_at(const naming *n, size_t i)
{
    return n->of_nodes ? n->graph->node.at[i]->name : n->graph->value.at[i]->name;
}

/* The word as it is, or as a pattern. */
static bool is_there(const naming *n, const char *word)
{
    const void *exact = n->of_nodes ? (const void *)qg_graph_node(n->graph, word)
                                    : (const void *)qg_graph_value(n->graph, word);
    bool found = exact != NULL;
    if (!strpbrk(word, "*?\\"))
        return found;
    for (size_t i = 0; i < count(n) && !found; i++)
        found = qg_glob(word, name_at(n, i));
    return found;
}

/* "conv*" for "cnov*": what precedes the star is compared with the beginnings of
 * names. */
static void try_beginning(const naming *n, const char *word, const char *name,
                          qg_suggest *near)
{
    size_t length = strlen(word);
    if (length < 2 || strcspn(word, "*?") != length - 1 || word[length - 1] != '*' ||
        strlen(name) < length - 1)
        return;
    const char *pattern =
        qg_arena_printf(n->graph->arena, "%.*s*", (int)(length - 1), name);
    if (pattern)
        qg_suggest_try(near, pattern);
}

static qg_status check(const naming *n, const char *word)
{
    const char *kind = n->or_operators ? "operator or node"
                       : n->of_nodes   ? "node"
                                       : "value";
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(word);
    if (is_there(n, word))
        return QG_OK;
    for (size_t i = 0; i < count(n); i++) {
        qg_suggest_try(&near, name_at(n, i));
        try_beginning(n, word, name_at(n, i), &near);
        if (n->or_operators)
            qg_suggest_try(&near, n->graph->node.at[i]->op->name);
    }
    return qg_fail(n->graph->ctx, QG_ECONFIG,
                   "%s: %s '%s' %s%s, expected %s %s of the rewritten graph", n->what,
                   kind, word,
                   strpbrk(word, "*?") ? "matches nothing" : "does not exist",
                   qg_suggest_text(&near, hint), n->or_operators ? "an" : "a", kind);
}

qg_status qg_rule_check_names(const qg_rule *r, const qg_graph *g, const char *what)
{
    const bool by_op =
        r->node.n_op == 0 && r->origin.why && strstr(r->origin.why, "op=");
    const naming nodes = { g, what, true, by_op }, values = { g, what, false, false };
    for (size_t i = 0; i < r->node.n_node; i++)
        QG_TRY(check(&nodes, r->node.node[i]));
    for (size_t i = 0; i < r->at.n_value; i++)
        QG_TRY(check(&values, r->at.value[i]));
    return QG_OK;
}
