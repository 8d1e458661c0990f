/* target_page.c -- a lint target as a page: its kernels and rules with those of its
 * parents, with conditions, reasons and sources.
 *
 * Rows are in the order in which they are tried: kernels of the file before those of
 * the parent, rules of the parent before those of the file.  `at` is the place of the
 * row, so that a rule of the parent is recognized as such.  tools/dev/lint_pages.py
 * makes docs/lint of it. */
#include "engine/config/lint_yaml.h"
#include "engine/config/rules.h"
#include "engine/report/report.h"

/* ", " between the parts; NULL (out of memory) stays so. */
static const char *join(qg_arena *a, const char *text, const char *part)
{
    return text ? qg_arena_printf(a, "%s%s%s", text, *text ? ", " : "", part) : NULL;
}

/* The operators, traits and slots that a selector names; "" for all nodes. */
static const char *match_text(qg_arena *a, const qg_node_match *m,
                              const qg_endpoint_match *at)
{
    const char *text = "";
    char word[QG_SLOT_WORD];
    for (size_t i = 0; i < m->n_op; i++)
        text = join(a, text, m->op[i]);
    for (unsigned bit = 0; bit < QG_NTRAIT; bit++)
        if (m->traits >> bit & 1)
            text = join(a, text, qg_trait_name(bit));
    for (size_t i = 0; at && i < at->n_slot; i++)
        text = join(a, text, qg_slot_word(&at->slot[i], word));
    return text;
}

static qg_status add_origin(qg_report *r, qg_table *t, const qg_origin *o)
{
    QG_TRY(qg_table_cells(r, t, qg_cell_text(o->why), qg_cell_text(o->source)));
    return qg_table_place(r, t, o->file, o->line);
}

static qg_status add_kernel(qg_report *r, qg_table *t, const qg_lint_kernel *k)
{
    const char *match = match_text(r->arena, &k->node, NULL);
    const char *when = qg_conditions_text(r->arena, &k->when);
    if (!match || !when)
        return qg_nomem(r->ctx);
    QG_TRY(qg_table_cells(r, t, qg_cell_text(k->origin.id), qg_cell_text(match),
                          qg_cell_text(qg_fate_name(k->as)),
                          qg_cell_text(qg_carry_name(k->carries)), qg_cell_text(when)));
    return add_origin(r, t, &k->origin);
}

static qg_status add_rule(qg_report *r, qg_table *t, const qg_lint_rule *rule)
{
    const char *match =
        match_text(r->arena, &rule->node, rule->at_endpoint ? &rule->at : NULL);
    const char *when =
        rule->refused_by ? qg_arena_printf(r->arena, "refused-by %s", rule->refused_by)
                         : qg_conditions_text(r->arena, &rule->when);
    if (!match || !when)
        return qg_nomem(r->ctx);
    QG_TRY(qg_table_cells(r, t, qg_cell_text(rule->origin.id),
                          qg_cell_text(qg_level_name(rule->level)),
                          qg_cell_text(rule->refused_by    ? "network"
                                       : rule->at_endpoint ? "endpoint"
                                                           : "node"),
                          qg_cell_text(match), qg_cell_text(when),
                          qg_cell_text(rule->remedy), qg_cell_text(rule->fix)));
    return add_origin(r, t, &rule->origin);
}

static qg_status fill(qg_report *r, const qg_lint_target *target)
{
    qg_table *t;
    QG_TRY(qg_report_add(r, "target", qg_cell_text(target->name)));
    QG_TRY(qg_report_add(r, "title", qg_cell_text(target->title)));
    QG_TRY(qg_report_table(r, "kernels", "id of as carries when why source at", &t));
    t->records = true;
    for (size_t i = 0; i < target->kernel.n; i++)
        QG_TRY(add_kernel(r, t, &target->kernel.at[i]));
    QG_TRY(qg_report_table(r, "rules",
                           "id level at_each of when remedy fix why source at", &t));
    t->records = true;
    for (size_t i = 0; i < target->rule.n; i++)
        QG_TRY(add_rule(r, t, &target->rule.at[i]));
    return QG_OK;
}

qg_status qg_target_page(qg_ctx *ctx, const char *name, qg_report **report)
{
    qg_report *r;
    qg_search search;
    const qg_lint_target *target;
    QG_TRY(qg_report_new(ctx, "target", &r));
    qg_status s = qg_config_search(ctx, r->arena, "lint", &search);
    if (s == QG_OK)
        s = qg_lint_load(ctx, r->arena, name, search, &target);
    if (s == QG_OK)
        s = fill(r, target);
    return qg_report_end(s, r, report);
}
