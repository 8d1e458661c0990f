#include "engine/ir/endpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"

qg_value *qg_endpoint_value(qg_endpoint at)
{
    assert(at.node);
    if (at.slot >= (at.is_output ? at.node->n_out : at.node->n_in))
        return NULL;
    return (at.is_output ? at.node->out : at.node->in)[at.slot];
}

char qg_endpoint_role(qg_endpoint at)
{
    assert(at.node);
    return at.is_output ? qg_op_out_role(at.node->op, at.slot)
                        : qg_op_in_role(at.node->op, at.slot);
}

bool qg_endpoint_same(qg_endpoint a, qg_endpoint b)
{
    return a.node == b.node && a.slot == b.slot && a.is_output == b.is_output;
}

uint32_t qg_node_endpoints(const qg_node *n) { return n->n_in + n->n_out; }

qg_endpoint qg_node_endpoint(const qg_node *n, uint32_t k)
{
    assert(k < qg_node_endpoints(n));
    return k < n->n_in ? qg_input_at(n, k) : qg_output_at(n, k - n->n_in);
}

/* --- text --- */

const char *qg_slot_text(bool is_output, uint32_t slot, char text[QG_SLOT_TEXT])
{
    (void)snprintf(text, QG_SLOT_TEXT, "%s%" PRIu32, is_output ? "out" : "in", slot);
    return text;
}

const char *qg_endpoint_text(qg_endpoint at, char text[QG_ENDPOINT_TEXT])
{
    char slot[QG_SLOT_TEXT];
    (void)snprintf(text, QG_ENDPOINT_TEXT, "%.1000s.%s", at.node->name,
                   qg_slot_text(at.is_output, at.slot, slot));
    return text;
}

const char *qg_endpoint_full_text(qg_arena *a, qg_endpoint at)
{
    char slot[QG_SLOT_TEXT];
    return qg_arena_printf(a, "%s.%s", at.node->name,
                           qg_slot_text(at.is_output, at.slot, slot));
}

bool qg_slot_parse(const char *text, bool *is_output, int64_t *slot)
{
    bool out = strncmp(text, "out", 3) == 0;
    int64_t k;
    if (!out && strncmp(text, "in", 2) != 0)
        return false;
    const char *digits = text + (out ? 3 : 2);
    if (!qg_num_parse_i64(digits, strlen(digits), &k) || k < 0)
        return false;
    *is_output = out;
    *slot = k;
    return true;
}

bool qg_endpoint_parse(const char *text, qg_endpoint_name *out)
{
    const char *dot = strrchr(text, '.');
    if (!dot || !qg_slot_parse(dot + 1, &out->is_output, &out->slot))
        return false;
    out->n_node = (size_t)(dot - text);
    return true;
}

bool qg_endpoint_named(const qg_graph *g, const char *text, qg_endpoint *out)
{
    qg_endpoint_name name;
    if (!qg_endpoint_parse(text, &name) || name.slot > UINT32_MAX)
        return false;
    uint32_t id = qg_names_find(g->node_names, text, name.n_node);
    const qg_node *n = id == QG_NONE ? NULL : g->node_by_name.at[id];
    qg_endpoint at = { n, (uint32_t)name.slot, name.is_output };
    if (!n || !qg_endpoint_value(at))
        return false;
    *out = at;
    return true;
}
