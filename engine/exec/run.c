#include "engine/exec/run.h"

#include <assert.h>

#include "engine/exec/pool.h"
#include "engine/exec/slice.h"

struct qg_run {
    qg_ctx *ctx;
    const qg_plan *plan;
    qg_arena *arena; /* everything below */
    qg_arena *dynamic;
    qg_arena **scratch; /* [scratches]: of whole steps and of part 0, of part 1, ... */
    uint32_t scratches;
    qg_team *own_team;    /* NULL: one thread, or a partial run: the base's */
    qg_team *team;        /* of the current run */
    unsigned char *block; /* activations */
    qg_tensor *tensor;    /* [plan tensors] */
    void **local;         /* [plan kernels] results of kernel->open */
    qg_tensor **slot;     /* [plan slots] into tensor; NULL: absent */
    const qg_run *from;   /* of the current run: the run of the base, or NULL */
    const qg_hook *hook;  /* of the current run */
    size_t n_hook, sample;
};

/* Offsets become pointers once; constants carry theirs in the plan. */
static void bind_tensor(qg_run *r, size_t i)
{
    assert(i < r->plan->tensor.n);
    const qg_plan_tensor *t = &r->plan->tensor.at[i];
    r->tensor[i] = t->type;
    if (t->kind == QG_TENSOR_ARENA)
        r->tensor[i].data = r->block + r->plan->storage.at[t->storage].offset;
}

/* Names the node whose result is the largest. */
static qg_status refuse_block(const qg_run *r)
{
    const qg_plan *p = r->plan;
    const qg_storage *most = NULL;
    for (size_t i = 0; i < p->storage.n; i++)
        if (p->storage.at[i].first < p->step.n &&
            (!most || p->storage.at[i].bytes > most->bytes))
            most = &p->storage.at[i];
    const qg_node *n = most ? p->step.at[most->first].node : NULL;
    qg_status s = qg_nomem(r->ctx);
    return n ? qg_node_memory(r->ctx, s, "run", n) : s;
}

/* The block is not cleared: every tensor is written before it is read. */
static qg_status bind_tensors(qg_run *r)
{
    const qg_plan *p = r->plan;
    if (!r->block && !(r->block = qg_arena_raw(r->arena, p->report.bytes, 1)))
        return refuse_block(r);
    r->tensor = QG_NEWN(r->arena, p->tensor.n, qg_tensor);
    r->slot = QG_NEWN(r->arena, p->slot.n, qg_tensor *);
    if (!r->tensor || !r->slot)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < p->tensor.n; i++)
        bind_tensor(r, i);
    for (size_t i = 0; i < p->slot.n; i++)
        r->slot[i] = p->slot.at[i] == QG_NONE ? NULL : &r->tensor[p->slot.at[i]];
    return QG_OK;
}

/* Those opened so far are closed by qg_run_free when a later one fails. */
static qg_status open_kernels(qg_run *r)
{
    const qg_plan *p = r->plan;
    r->local = QG_NEWN(r->arena, p->kernel.n, void *);
    if (!r->local)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < p->kernel.n; i++)
        if (p->kernel.at[i]->open)
            QG_TRY(p->kernel.at[i]->open(p->kernel.at[i], r->ctx, &r->local[i]));
    return QG_OK;
}

/* Arenas, and threads where the plan has parts for them. */
static qg_status make_team(qg_run *r)
{
    const uint32_t n = r->plan->report.parts > 1 ? r->plan->report.parts : 1;
    r->scratch = QG_NEWN(r->arena, n, qg_arena *);
    r->dynamic = qg_arena_new(r->ctx->alloc);
    if (!r->scratch || !r->dynamic)
        return qg_nomem(r->ctx);
    for (; r->scratches < n; r->scratches++)
        if (!(r->scratch[r->scratches] = qg_arena_new(r->ctx->alloc)))
            return qg_nomem(r->ctx);
    return n > 1 && !r->plan->options.base ? qg_team_new(r->ctx, n, &r->own_team)
                                           : QG_OK;
}

qg_status qg_run_new(qg_ctx *ctx, const qg_plan *p, qg_run **out)
{
    return qg_run_new_in(ctx, p, NULL, out);
}

qg_status qg_run_new_in(qg_ctx *ctx, const qg_plan *p, void *block, qg_run **out)
{
    assert((uintptr_t)block % QG_ARENA_ALIGN == 0);
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_run *r = a ? QG_NEW(a, qg_run) : NULL;
    if (!r) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *r = (qg_run){ .ctx = ctx, .plan = p, .arena = a, .block = block };
    qg_status s = make_team(r);
    if (s == QG_OK)
        s = bind_tensors(r);
    if (s == QG_OK)
        s = open_kernels(r);
    if (s != QG_OK) {
        qg_run_free(r);
        return s;
    }
    *out = r;
    return QG_OK;
}

void qg_run_free(qg_run *r)
{
    if (!r)
        return;
    qg_team_free(r->own_team);
    for (size_t i = 0; r->local && i < r->plan->kernel.n; i++)
        if (r->local[i] && r->plan->kernel.at[i]->close)
            r->plan->kernel.at[i]->close(r->plan->kernel.at[i], r->local[i]);
    for (uint32_t i = 0; i < r->scratches; i++)
        qg_arena_free(r->scratch[i]);
    qg_arena_free(r->dynamic);
    qg_arena_free(r->arena);
}

/* --- steps --- */

/* Inference at run time must leave nothing unknown. */
static qg_status allocate_dynamic(qg_run *r, const qg_node *n, qg_tensor *t)
{
    if (!qg_tensor_known(t))
        return qg_node_fail(r->ctx, QG_EMODEL, "run", n,
                            "the output shape is still unknown after inference");
    return qg_tensor_alloc(r->ctx, r->dynamic, t);
}

/* t is an element of r->tensor. */
static bool is_dynamic(const qg_run *r, const qg_tensor *t)
{
    return r->plan->tensor.at[t - r->tensor].kind == QG_TENSOR_DYNAMIC;
}

/* Outputs of static shape keep their memory, which was planned for that shape. */
static qg_status keep_static(qg_run *r, const qg_node *n, qg_tensor *t)
{
    const qg_tensor *planned = &r->plan->tensor.at[t - r->tensor].type;
    char is[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    if (t->dtype != planned->dtype || !qg_same_dims(t, planned))
        return qg_node_fail(r->ctx, QG_EDATA, "run", n,
                            "the output is %s with these inputs, expected %s as when "
                            "the plan was made",
                            qg_tensor_text(t, is), qg_tensor_text(planned, want));
    bind_tensor(r, (size_t)(t - r->tensor));
    return QG_OK;
}

/* Shapes from the data that is there now. */
static qg_status infer_now(qg_run *r, const qg_step *s, const qg_call *call)
{
    QG_TRY(s->node->op->infer(call));
    for (size_t i = 0; i < call->n_out; i++) {
        qg_tensor *y = call->out[i];
        if (y && is_dynamic(r, y))
            QG_TRY(allocate_dynamic(r, s->node, y));
        else if (y)
            QG_TRY(keep_static(r, s->node, y));
    }
    return QG_OK;
}

/* Control operators find these shapes while they run (op.h, `results`). */
static void forget_shapes(qg_run *r, const qg_call *call)
{
    for (size_t i = 0; i < call->n_out; i++)
        if (call->out[i] && is_dynamic(r, call->out[i]))
            call->out[i]->data = NULL;
}

/* A kernel has its own state per run context; op->run has none.  The base's run does
 * not execute meanwhile, so its state is free. */
static void *local_of(const qg_run *r, const qg_step *s)
{
    if (!s->kernel)
        return NULL;
    return s->of_base ? r->from->local[s->kernel_index] : r->local[s->kernel_index];
}

/* slot: the tensors of the step, or their slices. */
static qg_call call_of(qg_run *r, const qg_step *s, qg_tensor *const *slot)
{
    return (qg_call){ .ctx = r->ctx,
                      .node = s->node,
                      .param = s->node->param,
                      .n_in = s->n_in,
                      .n_out = s->n_out,
                      .in = (const qg_tensor *const *)slot,
                      .out = slot + s->n_in,
                      .scratch = r->scratch[0],
                      .run_ctx = r,
                      .results = r->dynamic,
                      .local = local_of(r, s) };
}

static qg_status run_node(qg_run *r, const qg_step *s)
{
    qg_call call = call_of(r, s, r->slot + s->first);
    qg_arena_reset(call.scratch);
    if (s->kernel)
        return s->kernel->run(s->kernel, &call);
    if (s->dynamic && qg_node_has(s->node, QG_OP_CONTROL))
        forget_shapes(r, &call);
    else if (s->dynamic)
        QG_TRY(infer_now(r, s, &call));
    return s->node->op->run(&call);
}

/* A dynamic tensor gets the memory for its copy here. */
static qg_status make_room(qg_run *r, const qg_step *s, const qg_tensor *x,
                           qg_tensor *y)
{
    if (y == x || !is_dynamic(r, y))
        return QG_OK;
    *y = *x;
    return allocate_dynamic(r, s->node, y);
}

static qg_status copy_at(qg_run *r, const qg_step *s)
{
    const qg_tensor *x = r->slot[s->first];
    qg_tensor *y = r->slot[s->first + 1];
    QG_TRY(make_room(r, s, x, y));
    qg_tensor_copy(x, y);
    return QG_OK;
}

static qg_status round_at(qg_run *r, const qg_step *s)
{
    const qg_tqc *t = s->at.tqc;
    const qg_tensor *x = r->slot[s->first];
    qg_tensor *y = r->slot[s->first + 1];
    assert(t && x && y);
    if (s->linear) { /* one layout and no gaps: the plan made y like x */
        qg_fake_linear(s->linear, x->f32, y->f32, (size_t)qg_tensor_count(x));
        return QG_OK;
    }
    QG_TRY(make_room(r, s, x, y));
    return qg_tqc_round(r->ctx, t, x, y);
}

/* Hooks in the order in which the caller listed them. */
static qg_status show(qg_run *r, const qg_step *s)
{
    for (size_t i = 0; i < r->n_hook; i++)
        QG_TRY(r->hook[i].see(r->hook[i].ud, r->ctx, r->sample, &s->at,
                              r->slot[s->first]));
    return QG_OK;
}

/* --- parts --- */

/* The tensors of the step, or slices of those that have the axis, in the scratch of the
 * part. */
static qg_status slice_slots(const qg_run *r, const qg_step *s, uint32_t i,
                             qg_tensor ***out)
{
    const uint32_t n = s->n_in + s->n_out;
    qg_tensor *const *whole = r->slot + s->first, *y = whole[s->n_in];
    qg_tensor *slice = QG_NEWN(r->scratch[i], n, qg_tensor);
    qg_tensor **slot = QG_NEWN(r->scratch[i], n, qg_tensor *);
    if (!slice || !slot)
        return QG_ENOMEM;
    const int64_t extent = y->dim[s->axis];
    const int64_t from = extent * i / s->parts, to = extent * (i + 1) / s->parts;
    for (uint32_t k = 0; k < n; k++) {
        if (!whole[k])
            continue;
        slice[k] = qg_slice_of(whole[k], y->rank, s->axis, from, to);
        slot[k] = &slice[k];
    }
    *out = slot;
    return QG_OK;
}

static qg_status slice_node(const qg_step *s, const qg_call *call)
{
    return s->kernel ? s->kernel->run(s->kernel, call) : s->node->op->run(call);
}

/* A step that is computed in parts, as `work` of a job sees it. */
typedef struct shared_step {
    qg_run *r;
    const qg_step *step;
} shared_step;

static qg_status take_part(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    qg_run *r = ((shared_step *)ud)->r;
    const qg_step *s = ((shared_step *)ud)->step;
    const uint32_t part = (uint32_t)i;
    qg_tensor **slot = r->slot + s->first;
    (void)state;
    qg_arena_reset(r->scratch[part]);
    if (s->axis >= 0 && slice_slots(r, s, part, &slot) != QG_OK)
        return qg_nomem(ctx);
    if (s->kind == QG_STEP_NODE) {
        qg_call call = call_of(r, s, slot);
        call.ctx = ctx;
        call.scratch = r->scratch[part];
        return s->axis < 0 ? s->kernel->part(s->kernel, &call, part)
                           : slice_node(s, &call);
    }
    if (s->kind == QG_STEP_ROUND)
        qg_fake_linear(s->linear, slot[0]->f32, slot[1]->f32,
                       (size_t)qg_tensor_count(slot[0]));
    else
        qg_tensor_copy(slot[0], slot[1]);
    return QG_OK;
}

static qg_status take_parts(qg_run *r, const qg_step *s)
{
    shared_step shared = { r, s };
    qg_job job = { .n = s->parts, .work = take_part, .ud = &shared };
    return qg_team_run(r->team, r->ctx, &job);
}

static qg_status take_whole(qg_run *r, const qg_step *s)
{
    switch (s->kind) {
    case QG_STEP_NODE:
        return run_node(r, s);
    case QG_STEP_REORDER:
    case QG_STEP_COPY:
        return copy_at(r, s);
    case QG_STEP_ROUND:
        return round_at(r, s);
    case QG_STEP_WATCH:
        return show(r, s);
    }
    assert(!"unknown step");
    return QG_OK;
}

static qg_status take(qg_run *r, const qg_step *s)
{
    const bool shared = s->parts > 1 && r->team;
    const qg_status status = shared ? take_parts(r, s) : take_whole(r, s);
    return s->node ? qg_node_memory(r->ctx, status, "run", s->node) : status;
}

/* --- one sample --- */

/* The tensor fed to graph input i; plans begin with a tensor for each of them. */
static const qg_tensor *input_of(const qg_run *r, uint32_t i)
{
    assert(r->plan->tensor.at[i].kind == QG_TENSOR_INPUT &&
           r->plan->tensor.at[i].storage == i);
    return &r->tensor[i];
}

static void begin(qg_run *r, const qg_hook *hook, size_t n_hook, size_t sample)
{
    r->hook = hook;
    r->n_hook = n_hook;
    r->sample = sample;
    r->from = NULL;
    r->team = r->own_team;
    qg_arena_reset(r->dynamic);
}

static qg_status feed(qg_run *r, const qg_tensor *const *in)
{
    const qg_plan *p = r->plan;
    for (size_t i = 0; i < p->tensor.n; i++) {
        const qg_plan_tensor *t = &p->tensor.at[i];
        if (t->kind == QG_TENSOR_DYNAMIC)
            r->tensor[i] = t->type;
        if (t->kind != QG_TENSOR_INPUT)
            continue;
        const qg_tensor *x = in[t->storage];
        char want[QG_SHAPE_TEXT], have[QG_SHAPE_TEXT];
        bool fits = x->dtype == t->type.dtype && qg_tensor_known(x) &&
                    (!qg_tensor_known(&t->type) || qg_same_dims(x, &t->type));
        if (!fits)
            return qg_fail(r->ctx, QG_EDATA, "run: input '%s': is %s, expected %s",
                           p->graph->input.at[t->storage]->name,
                           qg_tensor_text(x, have), qg_tensor_text(&t->type, want));
        r->tensor[i] = *x;
    }
    return QG_OK;
}

qg_status qg_run_begin(qg_run *r, const qg_tensor *const *in, const qg_hook *hook,
                       size_t n_hook, size_t sample)
{
    assert(!r->plan->options.base);
    begin(r, hook, n_hook, sample);
    return feed(r, in);
}

qg_status qg_run_step(qg_run *r, size_t i)
{
    assert(i < r->plan->step.n);
    return take(r, &r->plan->step.at[i]);
}

static qg_status run_steps(qg_run *r)
{
    for (size_t i = 0; i < r->plan->step.n; i++) {
        QG_TRY(qg_ctx_go_on(r->ctx));
        QG_TRY(qg_run_step(r, i));
    }
    return QG_OK;
}

qg_status qg_run_execute(qg_run *r, const qg_tensor *const *in, const qg_hook *hook,
                         size_t n_hook, size_t sample)
{
    QG_TRY(qg_run_begin(r, in, hook, n_hook, sample));
    return run_steps(r);
}

qg_status qg_run_execute_from(qg_run *r, const qg_run *from, const qg_hook *hook,
                              size_t n_hook, size_t sample)
{
    const qg_plan *p = r->plan;
    assert(p->options.base == from->plan);
    begin(r, hook, n_hook, sample);
    r->from = from;
    r->team = from->own_team;
    for (size_t i = 0; i < p->tensor.n; i++) {
        const qg_plan_tensor *t = &p->tensor.at[i];
        if (t->kind == QG_TENSOR_BASE && qg_tensor_known(&t->type)) /* may be a view */
            r->tensor[i].data = from->tensor[t->storage].data;
        else if (t->kind == QG_TENSOR_BASE)
            r->tensor[i] = from->tensor[t->storage];
        else if (t->kind == QG_TENSOR_INPUT) /* the base was fed with it */
            r->tensor[i] = *input_of(from, t->storage);
        else if (t->kind == QG_TENSOR_DYNAMIC)
            r->tensor[i] = t->type;
    }
    return run_steps(r);
}

const qg_tensor *qg_run_kept(const qg_run *r, size_t k)
{
    assert(k < r->plan->options.n_keep);
    return &r->tensor[r->plan->kept[k]];
}

const qg_tensor *qg_run_output(const qg_run *r, size_t i)
{
    assert(i < r->plan->graph->output.n);
    return &r->tensor[r->plan->output[i]];
}
