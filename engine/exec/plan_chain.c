/* plan_chain.c -- which nodes a kernel may absorb, and which may meet a NaN. */
#include "engine/exec/plan_part.h"

#include <string.h>

#include "engine/ir/attr.h"

bool qg_plan_watched(const qg_plan_options *o, const qg_node *n)
{
    return o->watch_all || (o->watch && o->watch[n->id]);
}

/* Whether n's one output has the type of v, all of it known.  An operator of a host may
 * clamp and infer something else. */
static bool keeps_type(const qg_builder *b, const qg_node *n, const qg_value *v)
{
    const qg_value *y = n->n_out == 1 ? n->out[0] : NULL;
    return y && b->type[y->id].dtype == b->type[v->id].dtype &&
           qg_tensor_known(&b->type[y->id]) &&
           qg_same_dims(&b->type[y->id], &b->type[v->id]);
}

static bool rounds(const qg_builder *b, qg_endpoint at)
{
    const qg_plan_options *o = &b->p->options;
    return qg_plan_rounds(o, qg_plan_tqc(o, at));
}

/* Neither rounded nor written by a hook. */
static bool reads_as_is(const qg_builder *b, const qg_node *n, uint32_t slot)
{
    const qg_endpoint at = qg_input_at(n, slot);
    return !rounds(b, at) && !qg_plan_writes(&b->p->options, at);
}

static bool also_read(const qg_builder *b, const qg_node *first, const qg_node *n,
                      uint32_t slot)
{
    for (uint32_t i = 0; i < first->n_in; i++)
        if (first->in[i] == n->in[slot])
            return reads_as_is(b, first, i) && reads_as_is(b, n, slot);
    return false;
}

const qg_node *qg_plan_follower(const qg_builder *b, const qg_node *first,
                                const qg_node *n)
{
    const qg_value *v = n->n_out ? n->out[0] : NULL;
    if (!v || v->is_output || b->kept[v->id] || v->use.n != 1 ||
        rounds(b, qg_output_at(n, 0)))
        return NULL;
    const qg_node *c = v->use.at[0].node;
    const uint32_t slot = v->use.at[0].slot;
    if (qg_plan_watched(&b->p->options, c) || rounds(b, qg_input_at(c, slot)) ||
        !keeps_type(b, c, v))
        return NULL;
    for (uint32_t i = 0; i < c->n_in; i++)
        if (i != slot && c->in[i] && !b->known[c->in[i]->id] &&
            !also_read(b, first, c, i))
            return NULL;
    return c;
}

/* --- NaN --- */

/* Whether all elements are above 0: numbers that divide, and have a root. */
static bool divides(const qg_tensor *t)
{
    const int64_t n = t && t->data && t->dtype == QG_F32 ? qg_tensor_count(t) : 0;
    int64_t others = 0;
    for (int64_t i = 0; i < n; i++)
        others += !(t->f32[i] > 0);
    return n > 0 && others == 0;
}

/* Whether a divisor may be 0 with it, or a negative number have a root. */
static bool is_no_addend(const qg_attr *a)
{
    const float x = a->floats[0];
    return (strcmp(a->name, "epsilon") == 0 && !(x > 0)) ||
           (strcmp(a->name, "bias") == 0 && !(x > 0)) ||
           (strcmp(a->name, "alpha") == 0 && !(x >= 0));
}

/* NaN, an infinity, or one that gives them. */
static bool has_strange_attribute(const qg_node *n)
{
    for (size_t i = 0; i < n->n_attr; i++) {
        const qg_attr *a = &n->attr[i];
        const bool one = a->type == QG_ATTR_FLOAT;
        if (one && is_no_addend(a))
            return true;
        for (size_t k = 0; (one || a->type == QG_ATTR_FLOATS) && k < a->count; k++)
            if (!isfinite(a->floats[k]))
                return true;
    }
    return false;
}

/* A mean or a maximum of no elements is NaN or an infinity. */
static bool has_no_elements(const qg_node *n, const qg_tensor *const *in)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (in[i] && in[i]->rank > 0 && qg_tensor_count(in[i]) == 0)
            return true;
    return false;
}

/* Whether a float of another type becomes one of float32: a float64 may be larger than
 * any, and a float16 is infinite from 65,520 on. */
static bool converts(const qg_node *n, const qg_tensor *const *in)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (in[i] && in[i]->dtype != QG_F32 &&
            qg_dtype_kind_of(in[i]->dtype) == QG_KIND_FLOAT)
            return true;
    return false;
}

/* Whether numbers may become NaN, or so large that they do in a sum. */
static bool makes_nan(const qg_node *n, const qg_tensor *const *in)
{
    return n->op->domain || qg_node_has(n, QG_OP_UNDEFINED | QG_OP_CONTROL) ||
           (qg_node_has(n, QG_OP_DIVIDES) && !divides(in[n->n_in - 1])) ||
           (!n->op->clamp && has_strange_attribute(n)) || converts(n, in) ||
           has_no_elements(n, in);
}

/* Whether products of elements are floats: not those of the masks, and of the limits,
 * that are as large as a float can be. */
static bool is_moderate(const qg_tensor *t)
{
    const int64_t n = t->dtype == QG_F32 ? qg_tensor_count(t) : 0;
    int64_t large = 0;
    for (int64_t i = 0; i < n; i++)
        large += !(fabsf(t->f32[i]) < 1e18f);
    return large == 0;
}

/* Kernels read their constants as plans are made; of large ones of other operators,
 * such as the table of a Gather, few pages may ever be in memory. */
static bool is_read(const qg_node *n, const qg_tensor *constant)
{
    return n->op->compile || qg_tensor_count(constant) <= 1 << 18;
}

bool qg_plan_meets_nan(const qg_builder *b, const qg_node *n,
                       const qg_tensor *const *in)
{
    const qg_plan *base = b->p->options.base;
    const bool clamps = n->op->clamp != NULL; /* whose limits may be infinite */
    bool strange = makes_nan(n, in);
    if (b->p->options.reference) /* no kernel absorbs anything */
        return false;
    if (base)
        return n->n_out && n->out[0] && base->strange[n->out[0]->id];
    for (uint32_t i = 0; i < n->n_in && !strange; i++)
        strange = n->in[i] && b->p->strange[n->in[i]->id];
    for (uint32_t i = 0; i < n->n_in && !strange && !clamps; i++)
        strange = in[i] && in[i]->data && is_read(n, in[i]) && !is_moderate(in[i]);
    for (uint32_t i = 0; i < n->n_out && strange; i++)
        if (n->out[i])
            b->p->strange[n->out[i]->id] = 1;
    return strange;
}
