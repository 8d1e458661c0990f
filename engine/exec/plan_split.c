/* plan_split.c -- which steps threads compute in parts.
 *
 *     kernel with parts      as it was compiled: ranges of rows of a product
 *     kernel or operator     slices along the outermost axis in memory, where each
 *     with free axes         depends on the same slice of the inputs alone
 *     copies, rounding       slices
 *
 * All others are computed by one thread: operators on codes, steps whose shapes are
 * known at run time only, and small ones, for which a second thread costs more than it
 * saves. */
#include "engine/exec/plan_part.h"

#include <assert.h>

#include "engine/exec/slice.h"

/* Elements of a slice: fewer cost more than a second thread saves. */
enum { LEAST_ELEMENTS = 1 << 13 };

static const qg_tensor *tensor_of(const qg_plan *p, const qg_step *s, uint32_t slot)
{
    uint32_t t = p->slot.at[s->first + slot];
    return t == QG_NONE ? NULL : &p->tensor.at[t].type;
}

/* float32 throughout, one output; inputs that depend on data are excluded by the step,
 * which is not dynamic. */
static bool is_simple(const qg_plan *p, const qg_step *s)
{
    if (s->dynamic || s->n_out != 1)
        return false;
    for (uint32_t k = 0; k < s->n_in + s->n_out; k++) {
        const qg_tensor *t = tensor_of(p, s, k);
        if (t && (t->dtype != QG_F32 || !qg_tensor_known(t)))
            return false;
    }
    return true;
}

/* The axes of output 0 along which a node may be computed in slices. */
static uint32_t free_axes(qg_plan *p, const qg_step *s)
{
    const qg_op *op = s->node->op;
    const qg_tensor *in[8], *y = tensor_of(p, s, s->n_in);
    if (s->kernel)
        return s->kernel->free_axes;
    if (op->free_axes && s->n_in <= 8) {
        for (uint32_t k = 0; k < s->n_in; k++)
            in[k] = tensor_of(p, s, k);
        qg_call call = { .ctx = p->ctx,
                         .node = s->node,
                         .param = s->node->param,
                         .n_in = s->n_in,
                         .n_out = 1,
                         .in = in,
                         .out = (qg_tensor *const *)(uintptr_t)&y };
        return op->free_axes(&call);
    }
    return qg_node_has(s->node, QG_OP_ELEMENTWISE) && !op->host ? UINT32_MAX : 0;
}

static bool may_slice(qg_plan *p, const qg_step *s, int32_t axis)
{
    const qg_tensor *y = tensor_of(p, s, s->n_in);
    if (s->kind == QG_STEP_ROUND)
        return s->linear;
    if (s->kind != QG_STEP_NODE)
        return true;
    for (uint32_t k = 0; k < s->n_in; k++) {
        const qg_tensor *x = tensor_of(p, s, k);
        if (x && !qg_slice_fits(x, y->rank, axis, y->dim[axis]))
            return false;
    }
    return free_axes(p, s) >> axis & 1;
}

/* At most one per thread and index of the axis. */
static int64_t slices_of(const qg_plan *p, const qg_tensor *y, int64_t extent)
{
    const int64_t threads = p->options.threads, count = qg_tensor_count(y);
    const int64_t n = extent < threads ? extent : threads;
    return p->options.split_small || count / LEAST_ELEMENTS >= n
               ? n
               : count / LEAST_ELEMENTS;
}

static void split(qg_plan *p, qg_step *s)
{
    if (s->kind == QG_STEP_NODE && s->kernel && s->kernel->parts > 1 && !s->dynamic) {
        s->parts = s->kernel->parts;
        s->axis = -1;
        return;
    }
    if (s->kind == QG_STEP_WATCH || !is_simple(p, s))
        return;
    const qg_tensor *y = tensor_of(p, s, s->n_in);
    const int32_t axis = qg_slice_axis(y);
    const int64_t n = axis < 0 ? 1 : slices_of(p, y, y->dim[axis]);
    if (n < 2 || !may_slice(p, s, axis))
        return;
    s->axis = axis;
    s->parts = (uint32_t)n;
}

void qg_plan_split(qg_plan *p)
{
    assert(p->report.split == 0);
    for (size_t i = 0; i < p->step.n && p->options.threads > 1; i++) {
        qg_step *s = &p->step.at[i];
        split(p, s);
        p->report.split += s->parts > 1;
        if (p->report.parts < s->parts)
            p->report.parts = s->parts;
    }
}
