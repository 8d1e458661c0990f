/* predicate_attributes.c -- conditions on what a node is told by its attributes and by
 * constant inputs: clamps, pads, windows, steps. */
#include "engine/lint/lint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Relu, Relu6 and Clip with constant bounds; a clamp of a computed bound is none. */
bool qg_test_clamp(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    float low, high;
    (void)l, (void)c;
    return qg_node_clamps(s->node, &low, &high);
}

bool qg_test_network_input(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_in ? s->node->in[0] : NULL;
    (void)l, (void)c;
    return v && !v->def && !v->constant;
}

bool qg_test_network_output(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return s->node->n_out && s->node->out[0] && s->node->out[0]->is_output;
}

/* beta or alpha of a Gemm with a bias: its steps are not those of input x weight. */
bool qg_test_scaled_bias(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    const qg_attr *by[] = { qg_attr_find(n, "alpha"), qg_attr_find(n, "beta") };
    int slot = qg_op_slot_of(n->op, 'b');
    (void)l, (void)c;
    if (slot < 0 || (uint32_t)slot >= n->n_in || !n->in[slot])
        return false;
    for (size_t i = 0; i < 2; i++)
        if (by[i] && by[i]->type == QG_ATTR_FLOAT && by[i]->floats[0] != 1)
            return true;
    return false;
}

bool qg_test_pads(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_attr *pad = qg_attr_find(s->node, "pads");
    const qg_attr *automatic = qg_attr_find(s->node, "auto_pad");
    (void)l, (void)c;
    for (size_t k = 0; pad && pad->type == QG_ATTR_INTS && k < pad->count; k++)
        if (pad->ints[k] != 0)
            return true;
    return automatic && automatic->type == QG_ATTR_STRING &&
           strncmp(automatic->strings[0], "SAME", 4) == 0;
}

/* SAME_UPPER: ceil(in / stride) places, the odd element behind. */
static bool as_same(const qg_node *n, int axis, int64_t kernel, int64_t stride,
                    int64_t before, int64_t behind)
{
    int64_t in = n->in[0]->type.dim[axis + 2];
    int64_t total = ((in + stride - 1) / stride - 1) * stride + kernel - in;
    total = total < 0 ? 0 : total;
    return before == total / 2 && behind == total - total / 2;
}

/* Of a pool over pictures. */
bool qg_test_pads_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    const qg_attr *pad = qg_attr_find(n, "pads"), *step = qg_attr_find(n, "strides"),
                  *kernel = qg_attr_find(n, "kernel_shape"),
                  *counted = qg_attr_find(n, "count_include_pad");
    bool same = true;
    if (!qg_test_pads(l, s, c) || !pad || pad->count != 4 || !kernel ||
        kernel->count != 2 || n->in[0]->type.rank != 4)
        return false;
    for (int k = 0; k < 2; k++)
        same &=
            as_same(n, k, kernel->ints[k], step && step->count == 2 ? step->ints[k] : 1,
                    pad->ints[k], pad->ints[k + 2]);
    return !same || (counted && counted->ints[0] != 0);
}

uint32_t qg_lint_weight_slot(const qg_node *n)
{
    int slot = qg_op_slot_of(n->op, 'w');
    return slot >= 0 && (uint32_t)slot < n->n_in && n->in[slot] ? (uint32_t)slot
                                                                : QG_NONE;
}

int64_t qg_lint_groups(const qg_node *n)
{
    const qg_attr *group = qg_attr_find(n, "group");
    return group && group->type == QG_ATTR_INT ? group->ints[0] : 1;
}

bool qg_test_depthwise(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)l;
    if (!n->n_in || !n->in[0] || !n->n_out || !n->out[0] ||
        (double)n->in[0]->type.rank != c->number || n->in[0]->type.rank < 3)
        return false;
    return qg_lint_groups(n) == n->in[0]->type.dim[1] &&
           qg_lint_groups(n) == n->out[0]->type.dim[1];
}

bool qg_test_grouped(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_lint_groups(s->node) > 1;
}

bool qg_test_flattened(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const int last_opset = 12;
    const qg_node *n = s->node;
    const qg_attr *axis = qg_attr_find(n, "axis");
    int64_t from = axis && axis->type == QG_ATTR_INT ? axis->ints[0] : 1;
    (void)l, (void)c;
    if (!n->n_in || !n->in[0] || qg_graph_opset(l->graph, "") > last_opset)
        return false;
    int rank = n->in[0]->type.rank;
    return (from < 0 ? from + rank : from) != rank - 1;
}

/* Of kernel_shape, or of a weight whose axes from 2 on are those of the kernel. */
bool qg_test_stride_beyond_kernel(const qg_lint *l, qg_lint_site *s,
                                  const qg_condition *c)
{
    const qg_node *n = s->node;
    const qg_attr *step = qg_attr_find(n, "strides"),
                  *kernel = qg_attr_find(n, "kernel_shape");
    int slot = qg_op_slot_of(n->op, 'w');
    const qg_tensor *w = slot >= 0 && (uint32_t)slot < n->n_in && n->in[slot]
                             ? &n->in[slot]->type
                             : NULL;
    (void)l, (void)c;
    for (size_t k = 0; step && step->type == QG_ATTR_INTS && k < step->count; k++) {
        bool told = kernel && kernel->type == QG_ATTR_INTS && k < kernel->count;
        if (!told && (!w || w->rank <= (int)k + 2))
            return false;
        if (step->ints[k] > (told ? kernel->ints[k] : w->dim[k + 2]))
            return true;
    }
    return false;
}

const qg_value *qg_lint_pad_value(const qg_node *n)
{
    int slot = qg_op_slot_of(n->op, 'p');
    return slot >= 0 && (uint32_t)slot < n->n_in ? n->in[slot] : NULL;
}

bool qg_test_pads_with_zero(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_lint_pad_value(s->node);
    double value = 0;
    (void)l, (void)c;
    if (v && (!v->constant || v->constant->dtype != QG_F32 ||
              qg_tensor_count(v->constant) != 1))
        return false;
    if (v)
        value = (double)v->constant->f32[0];
    else if (qg_attr_has(s->node, "value"))
        return false;
    return value == 0;
}

/* The pads of a Pad: input 1 or, before opset 11, an attribute.  NULL: computed. */
static const int64_t *pads_of(const qg_node *n, size_t *count)
{
    const qg_tensor *by = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    const qg_attr *a = qg_attr_find(n, "pads");
    if (n->n_in > 1) {
        *count = by && by->dtype == QG_I64 ? (size_t)qg_tensor_count(by) : 0;
        return *count ? by->i64 : NULL;
    }
    *count = a && a->type == QG_ATTR_INTS ? a->count : 0;
    return *count ? a->ints : NULL;
}

/* Whether these are pads that a window operator has: at the ends of the axes behind
 * batch and channels. */
static bool are_of_window(const qg_node *n)
{
    const size_t first = 2;
    size_t count;
    const int64_t *pad = pads_of(n, &count);
    if (!pad || (n->n_in > 3 && n->in[3]) || count != 2 * (size_t)n->in[0]->type.rank)
        return false;
    for (size_t i = 0; i < count; i++)
        if (pad[i] < 0 || (pad[i] && i % (count / 2) < first))
            return false;
    return true;
}

bool qg_test_pads_into(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    (void)l;
    if (!v || v->use.n != 1 || v->is_output || v->use.at[0].slot != 0)
        return false;
    const qg_node *n = v->use.at[0].node;
    const qg_attr *automatic = qg_attr_find(n, "auto_pad");
    if (automatic && automatic->type == QG_ATTR_STRING &&
        strcmp(automatic->strings[0], "NOTSET") != 0)
        return false;
    return qg_op_is_named(n->op, c->word, c->n_word) && are_of_window(s->node);
}

bool qg_test_steps(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    const qg_tensor *by = n->n_in > 4 && n->in[4] ? n->in[4]->constant : NULL;
    (void)l, (void)c;
    for (int64_t i = 0; by && i < qg_tensor_count(by); i++)
        if (qg_tensor_i64(by, i) != 1)
            return true;
    return n->n_in > 4 && n->in[4] && !by;
}

bool qg_test_same_dims(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)l, (void)c;
    return n->n_in && n->n_out && n->in[0] && n->out[0] &&
           qg_same_dims(&n->in[0]->type, &n->out[0]->type);
}

bool qg_test_equal_parts(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)l;
    for (uint32_t k = 1; k < n->n_out; k++)
        if (!n->out[0] || !n->out[k] ||
            !qg_same_dims(&n->out[0]->type, &n->out[k]->type))
            return false;
    return n->n_out <= c->number;
}
