/* code_grid.c -- equality of grids that are values of a graph.  Scales are compared by
 * their bits: two grids that differ in the last bit of a scale give different codes
 * near ties, so a pair of Q and DQ between them must stay. */
#include "engine/formats/code_grid.h"

#include <assert.h>
#include <string.h>

static qg_value *in_slot(const qg_node *n, uint32_t slot)
{
    return slot < n->n_in ? n->in[slot] : NULL;
}

qg_code_grid qg_code_grid_of(const qg_node *n)
{
    return (qg_code_grid){ in_slot(n, 1), in_slot(n, 2) };
}

qg_code_grid qg_code_grid_behind(const qg_node *n)
{
    const char *at = n->op->codes ? strchr(n->op->codes->slots, 'S') : NULL;
    assert(at && at[1] == 'Z');
    uint32_t slot = (uint32_t)(at - n->op->codes->slots);
    return (qg_code_grid){ in_slot(n, slot), in_slot(n, slot + 1) };
}

static size_t bytes_of(const qg_tensor *t)
{
    return ((size_t)qg_tensor_count(t) * qg_dtype_bits(t->dtype) + 7) / 8;
}

static bool same_bits(const qg_tensor *s, const qg_tensor *t)
{
    return s->dtype == t->dtype && qg_tensor_count(s) == qg_tensor_count(t) &&
           memcmp(s->data, t->data, bytes_of(s)) == 0;
}

static bool same_scale(const qg_value *a, const qg_value *b)
{
    const qg_tensor *s = a->constant, *t = b->constant;
    return a == b || (s && t && s->dtype == QG_F32 && same_bits(s, t));
}

bool qg_code_is_zero(const qg_value *v)
{
    for (int64_t i = 0; v && v->constant && i < qg_tensor_count(v->constant); i++)
        if (qg_tensor_f64(v->constant, i) != 0)
            return false;
    return !v || v->constant;
}

static bool same_zero(const qg_value *a, const qg_value *b)
{
    if (a == b || (qg_code_is_zero(a) && qg_code_is_zero(b)))
        return true;
    const qg_tensor *s = a ? a->constant : NULL, *t = b ? b->constant : NULL;
    return s && t && same_bits(s, t);
}

bool qg_code_grid_same(qg_code_grid a, qg_code_grid b)
{
    return a.scale && b.scale && same_scale(a.scale, b.scale) &&
           same_zero(a.zero, b.zero);
}

bool qg_code_grid_is_plain(qg_code_grid q)
{
    return q.scale && q.scale->constant && q.scale->constant->dtype == QG_F32 &&
           qg_tensor_count(q.scale->constant) == 1 && (!q.zero || q.zero->constant);
}

enum qg_code_fill qg_code_fill_of(const qg_node *n)
{
    static const char *const pad[] = { "Pad" }, *const zeros[] = { "CenterCropPad",
                                                                   "MaxUnpool" };
    const qg_attr *mode = qg_attr_find(n, "mode");
    bool fills = !mode || mode->type != QG_ATTR_STRING ||
                 strcmp(mode->strings[0], "constant") == 0;
    if (qg_op_is_named(n->op, zeros, 2))
        return QG_FILLS_ZEROS;
    return qg_op_is_named(n->op, pad, 1) && fills && !in_slot(n, 2) ? QG_FILLS_VALUE
                                                                    : QG_FILLS_NOTHING;
}
