/* predicate_plugin.c -- conditions that exports and lint share
 * (formats/openvino_plugin.h, qdq/runtime.h, resize_extent.h, explicit_pads.h): each is
 * one call. */
#include "engine/formats/explicit_pads.h"
#include "engine/formats/openvino_plugin.h"
#include "engine/formats/qdq/runtime.h"
#include "engine/formats/resize_extent.h"
#include "engine/lint/lint.h"

bool qg_test_turns_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_turns_wrong(s->node);
}

bool qg_test_pads_one_axis(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_pads_wrong(s->node);
}

bool qg_test_fractional_extent(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_resize_has_fraction(s->node);
}

bool qg_test_derived_pads(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_has_open_pads(s->node);
}

bool qg_test_counts_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_counts_codes(s->node);
}

bool qg_test_read_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_reads_apart(s->node) || qg_plugin_refuses(s->node);
}

bool qg_test_joins_constant(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_joins_constant(s->node);
}

bool qg_test_batched_column(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_batched_column(s->node);
}

bool qg_test_groups_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_groups_wrong(s->node);
}

bool qg_test_rounded_sum(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->at ? qg_tqc_value(s->at) : NULL;
    (void)l, (void)c;
    if (!s->at)
        return qg_plugin_rounded_before_sum(s->node, 0) ||
               qg_plugin_rounded_before_sum(s->node, 1);
    if (!v || v->use.n != 1)
        return false;
    const qg_use *u = &v->use.at[0];
    return u->slot < 2 && qg_plugin_rounded_before_sum(u->node, u->slot);
}

bool qg_test_sums_product(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_sums_wrong(s->node);
}

bool qg_test_averages_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_onnx_average_differs(s->node);
}

bool qg_test_shrinks_cubic(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_onnx_resize_turns(s->node);
}

bool qg_test_as_written(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)s, (void)c;
    return !l->is_snapshot;
}
