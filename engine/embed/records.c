/* records.c -- nodes and values of a model, as the host sees them. */
#include "engine/embed/record.h"

#include <string.h>

#include "engine/session/session.h"

void qg_record_put(void *to, const void *ours, size_t known)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    if (size <= sizeof size)
        return;
    size_t both = size < known ? size : known;
    memcpy((char *)to + sizeof size, (const char *)ours + sizeof size,
           both - sizeof size);
    memset((char *)to + both, 0, size - both);
}

/* --- nodes --- */

size_t qg_model_node_count(const qg_model *m) { return m->graph->node.n; }

qg_node *qg_model_node(const qg_model *m, size_t i)
{
    return i < m->graph->node.n ? m->graph->node.at[i] : NULL;
}

qg_node *qg_model_find_node(const qg_model *m, const char *name)
{
    return qg_graph_node(m->graph, name);
}

void qg_node_get(const qg_node *n, qg_node_record *out)
{
    qg_node_record r = { .id = n->id,
                         .name = n->name,
                         .op = n->op->name,
                         .domain = n->op->domain ? n->op->domain : "",
                         .opset = n->opset,
                         .n_in = n->n_in,
                         .n_out = n->n_out,
                         .platform = qg_platform_name(n->platform),
                         .reason = n->reason };
    qg_record_put(out, &r, sizeof r);
}

qg_value *qg_node_input(const qg_node *n, size_t slot)
{
    return slot < n->n_in ? n->in[slot] : NULL;
}

qg_value *qg_node_output(const qg_node *n, size_t slot)
{
    return slot < n->n_out ? n->out[slot] : NULL;
}

qg_tqc *qg_node_input_tqc(const qg_node *n, size_t slot)
{
    return slot < n->n_in ? qg_input_tqc(n, (uint32_t)slot) : NULL;
}

qg_tqc *qg_node_output_tqc(const qg_node *n, size_t slot)
{
    return slot < n->n_out ? qg_output_tqc(n, (uint32_t)slot) : NULL;
}

char qg_node_input_role(const qg_node *n, size_t slot)
{
    return qg_op_in_role(n->op, slot);
}

bool qg_node_has_trait(const qg_node *n, const char *trait)
{
    return qg_node_has(n, qg_trait_named(trait));
}

/* A scalar is a list of one. */
static const qg_attr *find_list(const qg_node *n, const char *name, qg_attr_type scalar,
                                qg_attr_type list)
{
    const qg_attr *a = qg_attr_find(n, name);
    return a && (a->type == scalar || a->type == list) ? a : NULL;
}

bool qg_node_ints(const qg_node *n, const char *name, const int64_t **out,
                  size_t *count)
{
    const qg_attr *a = find_list(n, name, QG_ATTR_INT, QG_ATTR_INTS);
    if (!a)
        return false;
    *out = a->ints;
    *count = a->count;
    return true;
}

bool qg_node_floats(const qg_node *n, const char *name, const float **out,
                    size_t *count)
{
    const qg_attr *a = find_list(n, name, QG_ATTR_FLOAT, QG_ATTR_FLOATS);
    if (!a)
        return false;
    *out = a->floats;
    *count = a->count;
    return true;
}

/* --- values --- */

size_t qg_model_value_count(const qg_model *m) { return m->graph->value.n; }

qg_value *qg_model_value(const qg_model *m, size_t i)
{
    return i < m->graph->value.n ? m->graph->value.at[i] : NULL;
}

qg_value *qg_model_find_value(const qg_model *m, const char *name)
{
    return qg_graph_value(m->graph, name);
}

void qg_value_get(const qg_value *v, qg_value_record *out)
{
    qg_value_record r = { .id = v->id,
                          .name = v->name,
                          .type = v->type.dtype,
                          .rank = v->type.rank,
                          .constant = v->constant,
                          .producer = v->def,
                          .producer_slot = v->def_slot,
                          .n_consumer = v->use.n,
                          .is_input = v->is_input,
                          .is_output = v->is_output };
    for (int32_t k = 0; k < v->type.rank; k++)
        r.dim[k] = v->type.dim[k];
    qg_record_put(out, &r, sizeof r);
}

qg_node *qg_value_consumer(const qg_value *v, size_t k, uint32_t *slot)
{
    if (k >= v->use.n)
        return NULL;
    if (slot)
        *slot = v->use.at[k].slot;
    return v->use.at[k].node;
}

size_t qg_model_input_count(const qg_model *m) { return m->graph->input.n; }
size_t qg_model_output_count(const qg_model *m) { return m->graph->output.n; }

qg_value *qg_model_input(const qg_model *m, size_t i)
{
    return i < m->graph->input.n ? m->graph->input.at[i] : NULL;
}

qg_value *qg_model_output(const qg_model *m, size_t i)
{
    return i < m->graph->output.n ? m->graph->output.at[i] : NULL;
}
