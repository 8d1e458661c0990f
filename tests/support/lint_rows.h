/* lint_rows.h -- one word of the vocabulary of `qg lint` on a small graph. */
#ifndef QG_TESTS_SUPPORT_LINT_ROWS_H
#define QG_TESTS_SUPPORT_LINT_ROWS_H

#include "tests/support/calibration.h"

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/lint/lint.h"
#include "ops/families.h"
#include "tests/support/records.h"

/* words     between blanks
 * records   "node.slot=type scale/offset" without a blank, type u or s of 8 bits, slot
 *           "i0" of an input or "o0"; "node!F": its fate is fused, "node!B": blocked
 * at        the slot of an endpoint; "": the node */
typedef struct lint_row {
    qg_predicate predicate;
    double number;
    const char *words, *node, *records, *at;
    bool holds;
    const char *graph;
} lint_row;

static inline void set_fates(const qg_lint *l, const char *records)
{
    for (const char *at = records; (at = strchr(at, '!')); at++) {
        const char name[] = { at[-1], '\0' };
        l->node[qg_graph_node(l->graph, name)->id].fate =
            at[1] == 'F' ? QG_FATE_FUSED : QG_FATE_BLOCKED;
    }
}

static inline bool lint_row_holds(fixture *f, const lint_row *row)
{
    static const qg_lint_target target = { .name = "none" };
    const char *text = qg_arena_printf(f->arena, "graph { %s }", row->graph), *word[4];
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_condition c = { row->predicate, false, row->number, word, 0 };
    char words[64], *rest = words;
    qg_graph *g = NULL;
    qg_quant *q;
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &g));
    assert_ok(f->ctx, qg_graph_normalize(g));
    assert_ok(f->ctx, qg_infer(g, NULL, 0));
    assert_ok(f->ctx, qg_quant_new(g, NULL, &q));
    add_records(f->ctx, q, row->records);
    (void)snprintf(words, sizeof words, "%s", row->words);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        word[c.n_word++] = w;
    qg_lint l = {
        .ctx = f->ctx, .arena = f->arena, .graph = g, .quant = q, .target = &target
    };
    assert_ok(f->ctx, qg_lint_place(&l));
    set_fates(&l, row->records);
    const qg_node *n = qg_graph_node(g, row->node);
    qg_lint_site s = { .node = n };
    if (*row->at)
        s.at = (row->at[0] == 'o' ? n->tout : n->tin)[row->at[1] - '0'];
    const bool result = qg_lint_holds(&l, &s, &(qg_conditions){ &c, 1 }, NULL);
    c.is_not = true;
    assert_int_equal(qg_lint_holds(&l, &s, &(qg_conditions){ &c, 1 }, NULL), !result);
    qg_graph_free(g);
    return result;
}

static inline void lint_rows_hold(fixture *f, const lint_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++, row++)
        if (lint_row_holds(f, row) != row->holds)
            fail_msg("%s %g of %s in '%s' with '%s': expected %d",
                     qg_predicate_name(row->predicate), row->number, row->node,
                     row->graph, row->records, row->holds);
}

#endif
