/* plan.c -- from graph to steps: needed nodes in order, a kernel for each,
 * layouts per value, quantization where a TQC requires it. */
#include "engine/exec/plan_part.h"

#include <assert.h>
#include <math.h>

#include "engine/ir/infer.h"

typedef qg_builder builder;

/* The kernel that rounds an array of this type at an endpoint with one scale, in the
 * plan's arena; NULL when it is not that simple, a function of the host rounds, or the
 * parameters are not valid, which qg_tqc_round then reports. */
static qg_status linear_kernel(qg_plan *p, const qg_tqc *t, const qg_tensor *type,
                               const qg_linear **out)
{
    const qg_scheme *s = &t->scheme;
    qg_qparam q = qg_tqc_param(t);
    *out = NULL;
    if (t->quantizer || !(s->policy & QG_LINEAR) || !(s->policy & QG_PER_TENSOR) ||
        (s->policy & QG_DYNAMIC) || q.n != 1 || !(q.scale[0] > 0) ||
        !isfinite(q.scale[0]) || type->dtype != QG_F32 || !qg_tensor_known(type))
        return QG_OK;
    qg_linear *linear = QG_NEW(p->arena, qg_linear);
    if (!linear)
        return qg_nomem(p->ctx);
    qg_linear_init(linear, s, q.scale[0], q.offset ? q.offset[0] : 0);
    qg_linear_hasten(linear);
    *out = linear;
    return QG_OK;
}

static bool rounds(const builder *b, const qg_tqc *t)
{
    return qg_plan_rounds(&b->p->options, t);
}

/* The slot's value is known to the plan: a constant that no hook writes. */
static bool reads_constant(const builder *b, const qg_node *n, uint32_t slot)
{
    return n->in[slot] && b->known[n->in[slot]->id] &&
           !qg_plan_writes(&b->p->options, qg_input_at(n, slot));
}

/* Whether the types of n's outputs may rest on a constant that a hook replaces: they
 * are then checked at run time. */
static bool rests_on_written(const builder *b, const qg_node *n)
{
    for (uint32_t i = 0; b->guessed && i < n->n_in; i++)
        if (n->in[i] && (b->guessed[n->in[i]->id] ||
                         (b->known[n->in[i]->id] && !reads_constant(b, n, i))))
            return true;
    return false;
}

static const qg_tqc *in_tqc(const builder *b, const qg_node *n, uint32_t slot)
{
    return qg_plan_tqc(&b->p->options, qg_input_at(n, slot));
}

static const qg_tqc *out_tqc(const builder *b, const qg_node *n, uint32_t slot)
{
    return qg_plan_tqc(&b->p->options, qg_output_at(n, slot));
}

/* --- tensors --- */

static qg_status add_tensor(builder *b, const qg_tensor *type, enum qg_tensor_kind kind,
                            uint32_t storage, uint32_t *out)
{
    qg_plan *p = b->p;
    qg_plan_tensor t = { .type = *type, .kind = kind, .storage = storage };
    QG_TRY(qg_vec_push(p->ctx, p->arena, &p->tensor, t));
    *out = (uint32_t)p->tensor.n - 1;
    return QG_OK;
}

/* A tensor in the run's block, or a dynamic one when its shape is not known. */
static qg_status add_arena_tensor(builder *b, const qg_tensor *type,
                                  enum qg_layout layout, uint32_t *out)
{
    qg_plan *p = b->p;
    qg_tensor t = *type;
    t.data = NULL;
    if (!qg_tensor_known(&t))
        return add_tensor(b, &t, QG_TENSOR_DYNAMIC, QG_NONE, out);
    if (layout == QG_LAYOUT_CHANNELS_LAST)
        qg_tensor_set_channels_last(&t);
    else
        qg_tensor_set_plain(&t);
    qg_storage s = { .first = UINT32_MAX, .same_as = QG_NONE };
    QG_TRY(qg_tensor_bytes(p->ctx, "plan", &t, &s.bytes));
    QG_TRY(qg_vec_push(p->ctx, p->arena, &p->storage, s));
    return add_tensor(b, &t, QG_TENSOR_ARENA, (uint32_t)p->storage.n - 1, out);
}

/* --- steps --- */

static qg_status add_step(builder *b, qg_step step, const uint32_t *in,
                          const uint32_t *out)
{
    qg_plan *p = b->p;
    step.first = (uint32_t)p->slot.n;
    for (uint32_t i = 0; i < step.n_in; i++)
        QG_TRY(qg_vec_push(p->ctx, p->arena, &p->slot, in[i]));
    for (uint32_t i = 0; i < step.n_out; i++)
        QG_TRY(qg_vec_push(p->ctx, p->arena, &p->slot, out[i]));
    return qg_vec_push(p->ctx, p->arena, &p->step, step);
}

static qg_status add_watch(builder *b, const qg_hook_point *at, uint32_t tensor)
{
    const qg_node *n = at->endpoint.node;
    if (!qg_plan_watched(&b->p->options, n))
        return QG_OK;
    qg_step s = { .kind = QG_STEP_WATCH, .node = n, .n_in = 1, .at = *at };
    return add_step(b, s, &tensor, NULL);
}

static qg_status add_round(builder *b, qg_hook_point *at, uint32_t from, uint32_t to)
{
    qg_plan *p = b->p;
    size_t bytes = 0;
    const qg_tensor *type = &p->tensor.at[from].type;
    const qg_node *n = at->endpoint.node;
    qg_step s = { .kind = QG_STEP_ROUND, .node = n, .n_in = 1, .n_out = 1, .at = *at };
    QG_TRY(linear_kernel(b->p, at->tqc, type, &s.linear));
    QG_TRY(add_step(b, s, &from, &to));
    if (qg_tensor_known(type))
        QG_TRY(qg_tensor_bytes(p->ctx, "plan", type, &bytes));
    p->report.rounds++;
    p->report.rounded += bytes;
    at->rounded = true;
    return add_watch(b, at, to);
}

/* --- values --- */

static qg_status add_constant(builder *b, const qg_tensor *t, enum qg_layout layout,
                              uint32_t *out)
{
    qg_tensor copy = *t;
    if (layout == QG_LAYOUT_CHANNELS_LAST) {
        QG_TRY(qg_tensor_alloc(b->p->ctx, b->p->arena, &copy));
        qg_tensor_set_channels_last(&copy);
        qg_tensor_copy(t, &copy);
    }
    return add_tensor(b, &copy, QG_TENSOR_CONSTANT, QG_NONE, out);
}

/* Whether both layouts are the same memory: one channel, or one place. */
static bool is_one_row(const qg_tensor *t)
{
    return qg_tensor_known(t) && t->rank >= 3 &&
           (t->dim[1] == 1 || qg_dims_product(t, 2, t->rank) == 1);
}

/* The same memory with the strides of the layout. */
static qg_status add_alias(builder *b, uint32_t of, enum qg_layout layout,
                           uint32_t *out)
{
    qg_plan_tensor t = b->p->tensor.at[of];
    if (layout == QG_LAYOUT_CHANNELS_LAST)
        qg_tensor_set_channels_last(&t.type);
    else
        qg_tensor_set_plain(&t.type);
    return add_tensor(b, &t.type, t.kind, t.storage, out);
}

/* The tensor of a value in the layout, made (constant) or reordered when needed. */
static qg_status locate(builder *b, const qg_value *v, enum qg_layout layout,
                        uint32_t *out)
{
    qg_place *at = &b->at[v->id];
    if (at->tensor[layout] != QG_NONE) {
        *out = at->tensor[layout];
        return QG_OK;
    }
    uint32_t other = at->tensor[!layout];
    if (b->known[v->id]) {
        QG_TRY(add_constant(b, b->known[v->id], layout, &at->tensor[layout]));
    } else if (b->p->tensor.at[other].kind == QG_TENSOR_ARENA &&
               is_one_row(&b->p->tensor.at[other].type)) {
        QG_TRY(add_alias(b, other, layout, &at->tensor[layout]));
    } else {
        assert(other != QG_NONE); /* nodes come in topological order */
        qg_tensor type = b->p->tensor.at[other].type;
        qg_step s = { .kind = QG_STEP_REORDER, .node = v->def, .n_in = 1, .n_out = 1 };
        QG_TRY(add_arena_tensor(b, &type, layout, &at->tensor[layout]));
        QG_TRY(add_step(b, s, &other, &at->tensor[layout]));
        b->p->report.reorders++;
    }
    *out = at->tensor[layout];
    return QG_OK;
}

/* --- kernels --- */

/* Types of all inputs (with data where constant, rounded) and outputs of a node. */
typedef struct node_types {
    const qg_tensor **in;
    const qg_tensor **out;
    enum qg_layout *layout; /* [n_in] where the value is now */
    bool all_known;
} node_types;

typedef struct emission {
    const qg_node *node, *last; /* last: the end of the absorbed chain */
    qg_kernel *kernel;
    node_types types;
    bool view;    /* element-wise on channels-last memory */
    bool of_base; /* the kernel */
    bool meets_nan;
    uint32_t kernel_index;
    uint32_t *in, *out;
} emission;

/* taken: constants that are on their grid already; NULL: round them here. */
static qg_status types_of(builder *b, const qg_node *n, const qg_tensor *const *taken,
                          node_types *t)
{
    qg_ctx *ctx = b->p->ctx;
    t->in = QG_NEWN(b->scratch, n->n_in, const qg_tensor *);
    t->out = QG_NEWN(b->scratch, n->n_out, const qg_tensor *);
    t->layout = QG_NEWN(b->scratch, n->n_in, enum qg_layout);
    if (!t->in || !t->out || !t->layout)
        return qg_nomem(ctx);
    t->all_known = true;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!n->in[i])
            continue;
        t->in[i] = &b->type[n->in[i]->id];
        if (b->at[n->in[i]->id].tensor[QG_LAYOUT_PLAIN] == QG_NONE &&
            !b->known[n->in[i]->id])
            t->layout[i] = QG_LAYOUT_CHANNELS_LAST;
        if (reads_constant(b, n, i) && taken)
            t->in[i] = taken[i];
        else if (reads_constant(b, n, i))
            QG_TRY(qg_node_memory(b->p->ctx, qg_plan_constant(b, n, i, &t->in[i]),
                                  "plan", n));
        t->all_known = t->all_known && qg_tensor_known(t->in[i]);
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        t->out[i] = n->out[i] ? &b->type[n->out[i]->id] : NULL;
        t->all_known = t->all_known && (!t->out[i] || qg_tensor_known(t->out[i]));
    }
    return QG_OK;
}

/* The values of a follower's inputs, rounded as if they were read; NULL for the chain's
 * own. */
static qg_status constants_of(builder *b, const qg_node *n,
                              const qg_tensor *const **out)
{
    const qg_tensor **in = QG_NEWN(b->scratch, n->n_in, const qg_tensor *);
    if (!in)
        return qg_nomem(b->p->ctx);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && b->known[n->in[i]->id])
            QG_TRY(qg_node_memory(b->p->ctx, qg_plan_constant(b, n, i, &in[i]), "plan",
                                  n));
    *out = in;
    return QG_OK;
}

static qg_status compile(builder *b, emission *e)
{
    qg_plan *p = b->p;
    const qg_node *n = e->node;
    const node_types *t = &e->types;
    const qg_node *chain[QG_MAX_ABSORBED];
    const qg_tensor *const *chain_in[QG_MAX_ABSORBED];
    qg_compile c = { .ctx = p->ctx,
                     .arena = p->arena,
                     .node = n,
                     .in = t->in,
                     .out = t->out,
                     .in_layout = t->layout,
                     .chain = chain,
                     .chain_in = chain_in,
                     .threads = p->options.threads,
                     .split_small = p->options.split_small,
                     .meets_nan = e->meets_nan };
    e->kernel = NULL;
    if (!n->op->compile || !t->all_known || p->options.reference ||
        rests_on_written(b, n))
        return QG_OK;
    for (const qg_node *at = n;
         !qg_plan_watched(&b->p->options, n) && c.n_chain < QG_MAX_ABSORBED;
         c.n_chain++) {
        at = qg_plan_follower(b, n, at);
        if (!at)
            break;
        chain[c.n_chain] = at;
        QG_TRY(constants_of(b, at, &chain_in[c.n_chain]));
    }
    QG_TRY(qg_vec_reserve(p->ctx, p->arena, &p->kernel)); /* no kernel may be lost */
    QG_TRY(n->op->compile(&c, &e->kernel));
    return e->kernel ? qg_vec_push(p->ctx, p->arena, &p->kernel, e->kernel) : QG_OK;
}

/* --- element-wise nodes on channels-last memory --- */

/* Dims in memory order, plain strides: a channels-last tensor as seen by an operator
 * for which the order of axes does not matter. */
static qg_tensor memory_view(const qg_tensor *t, int32_t rank)
{
    qg_tensor view = *t;
    int64_t dim[QG_MAX_RANK];
    int32_t pad = rank - t->rank;
    for (int32_t i = 0; i < rank; i++)
        dim[i] = i < pad ? 1 : t->dim[i - pad];
    int64_t channels = dim[1];
    for (int32_t i = 1; i + 1 < rank; i++)
        dim[i] = dim[i + 1];
    dim[rank - 1] = channels;
    qg_tensor_init(&view, t->dtype, rank, dim);
    view.data = t->data;
    return view;
}

/* Whether dims are aligned by an attribute of the node (`axis` before opset 7), which
 * counts the axes of the network, not those of memory. */
static bool names_axes(const qg_node *n, const node_types *t)
{
    const qg_call k = { .node = n, .param = n->param, .n_in = n->n_in, .in = t->in };
    return n->op->free_axes && n->op->free_axes(&k) == 0;
}

/* True when an element-wise node should run on channels-last memory: some input is only
 * there in that layout and every other input can be. */
static bool wants_memory_view(const builder *b, const qg_node *n, const node_types *t)
{
    bool some = false;
    if (!qg_node_has(n, QG_OP_ELEMENTWISE) || !t->all_known || n->n_out != 1 ||
        rests_on_written(b, n) || names_axes(n, t))
        return false;
    int32_t rank = t->out[0]->rank;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!n->in[i])
            continue;
        const qg_place *at = &b->at[n->in[i]->id];
        bool constant = b->known[n->in[i]->id] != NULL;
        if (!constant && t->in[i]->rank != rank)
            return false;
        some = some || (!constant && at->tensor[QG_LAYOUT_PLAIN] == QG_NONE);
    }
    return some && rank >= 3;
}

/* A constant (rank at most `rank`) in memory order of channels-last. */
static qg_status constant_view(builder *b, const qg_tensor *t, int32_t rank,
                               uint32_t *out)
{
    qg_tensor wide, last;
    int64_t dim[QG_MAX_RANK];
    if (qg_tensor_count(t) == 1)
        return add_tensor(b, t, QG_TENSOR_CONSTANT, QG_NONE, out);
    for (int32_t i = 0; i < rank; i++)
        dim[i] = i < rank - t->rank ? 1 : t->dim[i - (rank - t->rank)];
    qg_tensor_init(&wide, t->dtype, rank, dim);
    last = wide;
    wide.data = t->data;
    QG_TRY(qg_tensor_alloc(b->p->ctx, b->p->arena, &last));
    qg_tensor_set_channels_last(&last);
    qg_tensor_copy(&wide, &last);
    qg_tensor view = memory_view(&last, rank);
    return add_tensor(b, &view, QG_TENSOR_CONSTANT, QG_NONE, out);
}

/* Replaces the tensor by a view of its memory in memory order. */
static qg_status view_of(builder *b, uint32_t *tensor)
{
    qg_plan_tensor base = b->p->tensor.at[*tensor];
    qg_tensor view = memory_view(&base.type, base.type.rank);
    return add_tensor(b, &view, base.kind, base.storage, tensor);
}

/* --- one node --- */

static enum qg_layout in_layout(const emission *e, uint32_t slot)
{
    if (e->view)
        return QG_LAYOUT_CHANNELS_LAST;
    if (!e->kernel)
        return QG_LAYOUT_PLAIN;
    if (e->kernel->all_in_alike)
        return e->kernel->in_layout[0];
    return slot < 8 ? e->kernel->in_layout[slot] : QG_LAYOUT_PLAIN;
}

/* A constant as the graph has it, and on its grid. */
static qg_status show_constant(builder *b, const qg_value *v, qg_hook_point at,
                               const qg_tensor *on_grid)
{
    uint32_t tensor;
    if (!qg_plan_watched(&b->p->options, at.endpoint.node))
        return QG_OK;
    QG_TRY(locate(b, v, QG_LAYOUT_PLAIN, &tensor));
    QG_TRY(add_watch(b, &at, tensor));
    if (on_grid == b->known[v->id])
        return QG_OK;
    QG_TRY(add_tensor(b, on_grid, QG_TENSOR_CONSTANT, QG_NONE, &tensor));
    at.rounded = true;
    return add_watch(b, &at, tensor);
}

static qg_status emit_constant(builder *b, emission *e, uint32_t i)
{
    const qg_value *v = e->node->in[i];
    const qg_tensor *c = e->types.in[i];
    qg_hook_point at = { .endpoint = qg_input_at(e->node, i),
                         .tqc = in_tqc(b, e->node, i) };
    if (e->view)
        QG_TRY(constant_view(b, c, e->types.out[0]->rank, &e->in[i]));
    else if (c != b->known[v->id])
        QG_TRY(add_tensor(b, c, QG_TENSOR_CONSTANT, QG_NONE, &e->in[i]));
    else
        QG_TRY(locate(b, v, QG_LAYOUT_PLAIN, &e->in[i]));
    return b->p->options.show_all ? show_constant(b, v, at, c)
                                  : add_watch(b, &at, e->in[i]);
}

/* A hook's write at an input affects this node alone: into a copy, unless the value has
 * no other reader. */
static qg_status own_input(builder *b, emission *e, uint32_t i)
{
    const qg_plan_options *o = &b->p->options;
    const qg_value *v = e->node->in[i];
    bool alone = v->def && v->use.n == 1 && !v->is_output && !b->known[v->id] &&
                 !b->kept[v->id] && !o->keep_all;
    if (!qg_plan_writes(o, qg_input_at(e->node, i)) || alone)
        return QG_OK;
    uint32_t copy;
    qg_tensor type = b->p->tensor.at[e->in[i]].type;
    qg_step s = { .kind = QG_STEP_COPY, .node = e->node, .n_in = 1, .n_out = 1 };
    QG_TRY(add_arena_tensor(b, &type, in_layout(e, i), &copy));
    QG_TRY(add_step(b, s, &e->in[i], &copy));
    e->in[i] = copy;
    return QG_OK;
}

static qg_status emit_input(builder *b, emission *e, uint32_t i)
{
    const qg_node *n = e->node;
    const qg_value *v = n->in[i];
    const qg_tqc *t = in_tqc(b, n, i);
    qg_hook_point at = { .endpoint = qg_input_at(n, i), .tqc = t };
    e->in[i] = QG_NONE;
    if (!v)
        return QG_OK;
    if (reads_constant(b, n, i))
        return emit_constant(b, e, i);
    QG_TRY(locate(b, v, in_layout(e, i), &e->in[i]));
    QG_TRY(own_input(b, e, i));
    QG_TRY(add_watch(b, &at, e->in[i]));
    if (b->known[v->id] ? qg_plan_rounds_constant(&b->p->options, t) : rounds(b, t)) {
        uint32_t copy;
        qg_tensor type = b->p->tensor.at[e->in[i]].type;
        QG_TRY(add_arena_tensor(b, &type, in_layout(e, i), &copy));
        QG_TRY(add_round(b, &at, e->in[i], copy));
        e->in[i] = copy;
    }
    return e->view ? view_of(b, &e->in[i]) : QG_OK;
}

static qg_status emit_output(builder *b, const emission *e, uint32_t i)
{
    const qg_node *n = e->last;
    const qg_value *v = n->out[i];
    if (!v)
        return QG_OK;
    uint32_t tensor = e->out[i];
    enum qg_layout layout = qg_tensor_is_plain(&b->p->tensor.at[tensor].type)
                                ? QG_LAYOUT_PLAIN
                                : QG_LAYOUT_CHANNELS_LAST;
    const qg_tqc *t = out_tqc(b, n, i);
    qg_hook_point at = { .endpoint = qg_output_at(n, i), .tqc = t };
    QG_TRY(add_watch(b, &at, tensor));
    if (rounds(b, t))
        QG_TRY(add_round(b, &at, tensor, tensor));
    b->at[v->id].tensor[layout] = tensor;
    return QG_OK;
}

static qg_status emit_run(builder *b, emission *e)
{
    const qg_node *n = e->node;
    enum qg_layout layout = e->view     ? QG_LAYOUT_CHANNELS_LAST
                            : e->kernel ? e->kernel->out_layout
                                        : QG_LAYOUT_PLAIN;
    qg_step s = { .kind = QG_STEP_NODE,
                  .node = n,
                  .kernel = e->kernel,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .kernel_index = e->kernel_index,
                  .of_base = e->of_base,
                  .dynamic = rests_on_written(b, n) };
    for (uint32_t i = 0; i < n->n_out; i++) {
        e->out[i] = QG_NONE;
        if (!e->last->out[i])
            continue;
        const qg_tensor *type = &b->type[e->last->out[i]->id];
        s.dynamic = s.dynamic || !qg_tensor_known(type);
        QG_TRY(add_arena_tensor(b, type, i ? QG_LAYOUT_PLAIN : layout, &e->out[i]));
    }
    if (!e->view)
        return add_step(b, s, e->in, e->out);
    uint32_t shown = e->out[0];
    QG_TRY(view_of(b, &shown));
    return add_step(b, s, e->in, &shown);
}

/* The base's kernel where the node computes the same there, else one of its own. */
static qg_status choose_kernel(builder *b, emission *e)
{
    qg_plan *p = b->p;
    qg_partial_node base = { 0 };
    if (p->options.base)
        base = qg_partial_take(b, e->node);
    QG_TRY(types_of(b, e->node, base.in, &e->types));
    e->meets_nan = qg_plan_meets_nan(b, e->node, e->types.in);
    e->of_base = base.same;
    e->kernel = base.kernel;
    e->kernel_index = base.index;
    if (!base.same) {
        QG_TRY(qg_node_memory(p->ctx, compile(b, e), "plan", e->node));
        e->kernel_index = (uint32_t)p->kernel.n - 1;
        if (e->kernel)
            qg_plan_release(b, e->node, e->kernel->packed, e->types.in);
    }
    p->report.kernels += e->kernel != NULL;
    p->report.absorbed += e->kernel ? e->kernel->absorbed : 0;
    return p->options.keep_all
               ? qg_plan_keep_node(b, e->node, e->types.in, e->kernel != NULL)
               : QG_OK;
}

/* The next node of the absorbed chain, which may make a NaN of its own. */
static qg_status follow(builder *b, emission *e)
{
    const qg_tensor *const *in;
    e->last = e->last->out[0]->use.at[0].node;
    b->done[e->last->id] = true;
    QG_TRY(constants_of(b, e->last, &in));
    (void)qg_plan_meets_nan(b, e->last, in);
    return QG_OK;
}

static qg_status emit_node(builder *b, const qg_node *n)
{
    qg_plan *p = b->p;
    qg_arena_reset(b->scratch);
    emission e = { .node = n, .last = n };
    QG_TRY(choose_kernel(b, &e));
    e.view = !e.kernel && wants_memory_view(b, n, &e.types);
    e.in = QG_NEWN(b->scratch, n->n_in, uint32_t);
    e.out = QG_NEWN(b->scratch, n->n_out, uint32_t);
    if (!e.in || !e.out)
        return qg_nomem(p->ctx);
    for (uint32_t k = 0; e.kernel && k < e.kernel->absorbed; k++)
        QG_TRY(follow(b, &e));
    for (uint32_t i = 0; i < n->n_in; i++)
        QG_TRY(emit_input(b, &e, i));
    QG_TRY(emit_run(b, &e));
    for (uint32_t i = 0; i < n->n_out; i++)
        QG_TRY(emit_output(b, &e, i));
    p->report.nodes++;
    return QG_OK;
}

/* The base holds the outputs of n: copies of them are rounded, n does not run. */
static qg_status emit_rounding(builder *b, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_tqc *t = n->out[i] ? out_tqc(b, n, i) : NULL;
        if (!rounds(b, t))
            continue;
        uint32_t *at = b->at[n->out[i]->id].tensor, copy;
        enum qg_layout layout = at[QG_LAYOUT_CHANNELS_LAST] != QG_NONE
                                    ? QG_LAYOUT_CHANNELS_LAST
                                    : QG_LAYOUT_PLAIN;
        qg_tensor type = b->p->tensor.at[at[layout]].type;
        qg_hook_point end = { .endpoint = qg_output_at(n, i), .tqc = t };
        QG_TRY(add_watch(b, &end, at[layout]));
        QG_TRY(add_arena_tensor(b, &type, layout, &copy));
        QG_TRY(add_round(b, &end, at[layout], copy));
        at[!layout] = QG_NONE;
        at[layout] = copy;
    }
    return QG_OK;
}

/* A watched node that does not run, because inference computed its outputs: its known
 * values. */
static qg_status show_folded(builder *b, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !b->known[n->out[i]->id])
            return QG_OK; /* not required, hence not computed */
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
        qg_hook_point at = { .endpoint = qg_node_endpoint(n, k) };
        const qg_value *v = qg_endpoint_value(at.endpoint);
        if (!v)
            continue;
        const uint32_t *place = b->at[v->id].tensor;
        uint32_t tensor = place[QG_LAYOUT_PLAIN] != QG_NONE
                              ? place[QG_LAYOUT_PLAIN]
                              : place[QG_LAYOUT_CHANNELS_LAST];
        if (tensor == QG_NONE && !b->known[v->id])
            continue;
        if (tensor == QG_NONE)
            QG_TRY(locate(b, v, QG_LAYOUT_PLAIN, &tensor));
        at.tqc = qg_plan_tqc(&b->p->options, at.endpoint);
        QG_TRY(add_watch(b, &at, tensor));
    }
    return QG_OK;
}

/* --- the whole graph --- */

/* Types and constants of all values: the base's, else inferred for these shapes. */
static qg_status find_types(builder *b)
{
    qg_plan *p = b->p;
    const qg_graph *g = p->graph;
    const qg_plan *base = p->options.base;
    qg_tensor *type;
    const qg_tensor **known;
    if (base) {
        assert(base->graph == g && base->options.input == p->options.input);
        b->type = base->type;
        return qg_plan_choose_constants(b, base->known);
    }
    QG_TRY(qg_infer_values(p->ctx, g, p->options.input, p->arena, &type, &known));
    if (p->options.write)
        b->guessed = QG_NEWN(p->arena, g->value.n, bool);
    if (p->options.write && !b->guessed)
        return qg_nomem(p->ctx);
    for (size_t i = 0; b->guessed && i < g->value.n; i++)
        b->guessed[i] = known[i] != NULL;
    if (p->options.quant || p->options.input || p->options.write)
        qg_plan_forget_rounded(p, known);
    for (size_t i = 0; i < g->value.n; i++) {
        if (g->value.at[i]->constant)
            known[i] = g->value.at[i]->constant;
        if (b->guessed && known[i])
            b->guessed[i] = false;
    }
    b->type = type;
    return qg_plan_choose_constants(b, known);
}

static qg_status begin(builder *b)
{
    qg_plan *p = b->p;
    const qg_graph *g = p->graph;
    QG_TRY(find_types(b));
    b->at = QG_NEWN(p->arena, g->value.n, qg_place);
    b->kept = QG_NEWN(p->arena, g->value.n, bool);
    b->todo = QG_NEWN(p->arena, g->node.n, uint8_t);
    b->done = QG_NEWN(p->arena, g->node.n, bool);
    p->output = QG_NEWN(p->arena, g->output.n, uint32_t);
    p->kept = QG_NEWN(p->arena, p->options.n_keep, uint32_t);
    p->strange = p->options.base ? p->options.base->strange
                                 : QG_NEWN(p->arena, g->value.n, uint8_t);
    if (!b->at || !b->kept || !b->todo || !b->done || !p->output || !p->kept ||
        !p->strange)
        return qg_nomem(p->ctx);
    if (g->owner) /* a body does not know what it gets */
        memset(p->strange, 1, g->value.n);
    for (size_t i = 0; i < p->options.n_keep; i++)
        b->kept[p->options.keep[i]] = true;
    for (size_t i = 0; i < g->value.n; i++)
        b->at[i] = (qg_place){
            {QG_NONE, QG_NONE}
        };
    for (size_t i = 0; i < g->input.n; i++) {
        const qg_value *v = g->input.at[i];
        QG_TRY(add_tensor(b, &b->type[v->id], QG_TENSOR_INPUT, (uint32_t)i,
                          &b->at[v->id].tensor[QG_LAYOUT_PLAIN]));
    }
    QG_TRY(qg_plan_mark_wanted(b));
    if (!p->options.base)
        return QG_OK;
    qg_partial_mark(b);
    return qg_partial_borrow(b);
}

static qg_status build(builder *b)
{
    const qg_graph *g = b->p->graph;
    const qg_plan_options *o = &b->p->options;
    QG_TRY(begin(b));
    for (size_t k = 0; k < g->node.n; k++) {
        assert(g->node.at[k]->id == k); /* normalized */
        if (b->todo[k] == QG_TODO_ROUND)
            QG_TRY(emit_rounding(b, g->node.at[k]));
        else if (b->todo[k] == QG_TODO_RUN && !b->done[k])
            QG_TRY(emit_node(b, g->node.at[k]));
        else if (b->todo[k] == QG_TODO_NOTHING && o->show_all)
            QG_TRY(show_folded(b, g->node.at[k]));
    }
    for (size_t i = 0; i < g->output.n; i++) {
        b->p->output[i] = QG_NONE;
        if (!qg_plan_leaves_out(b, g->output.at[i]))
            QG_TRY(locate(b, g->output.at[i], QG_LAYOUT_PLAIN, &b->p->output[i]));
    }
    for (size_t i = 0; i < o->n_keep; i++)
        QG_TRY(locate(b, g->value.at[o->keep[i]], QG_LAYOUT_PLAIN, &b->p->kept[i]));
    b->p->report.steps = (uint32_t)b->p->step.n;
    return o->keep_all ? qg_plan_keep(b) : QG_OK;
}

static qg_status build_plan(qg_plan *p)
{
    builder b = { .p = p, .scratch = qg_arena_new(p->ctx->alloc) };
    if (!b.scratch)
        return qg_nomem(p->ctx);
    qg_status s = build(&b);
    qg_arena_free(b.scratch);
    return s;
}

/* --- a plan --- */

/* A plan that qg_plan_free accepts from here on. */
static qg_status plan_alloc(qg_ctx *ctx, const qg_graph *g, const qg_plan_options *o,
                            qg_plan **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_plan *p = a ? QG_NEW(a, qg_plan) : NULL;
    if (!p) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    p->ctx = ctx;
    p->arena = a;
    p->graph = g;
    p->options = *o;
    *out = p;
    return QG_OK;
}

qg_status qg_plan_new(qg_ctx *ctx, const qg_graph *g, const qg_plan_options *o,
                      qg_plan **out)
{
    assert(o->mode == QG_MODE_FLOAT || o->quant);
    assert(!o->base || (!o->write && !o->n_keep));
    qg_plan *p;
    QG_TRY(plan_alloc(ctx, g, o, &p));
    qg_status s = build_plan(p);
    if (s == QG_OK)
        s = qg_plan_pack(p);
    if (s == QG_OK)
        qg_plan_split(p);
    if (s != QG_OK) {
        qg_plan_free(p);
        return s;
    }
    *out = p;
    return QG_OK;
}

void qg_plan_free(qg_plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->kernel.n; i++)
        if (p->kernel.at[i]->destroy)
            p->kernel.at[i]->destroy(p->kernel.at[i]);
    for (size_t i = 0; i < p->rounded.n; i++)
        qg_arena_free(p->rounded.at[i].arena);
    for (size_t i = 0; i < p->n_body; i++)
        qg_plan_free(p->body[i]);
    qg_arena_free(p->arena);
}
