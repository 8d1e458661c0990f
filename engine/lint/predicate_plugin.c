/* predicate_plugin.c -- conditions that the exports for OpenVINO and lint share
 * (formats/openvino_plugin.h): each is one call. */
#include "engine/formats/openvino_plugin.h"
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

bool qg_test_mapped_maximum(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_plugin_mapped_maximum(s->node);
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
