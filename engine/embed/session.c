/* session.c -- qg_session_*: a plan of the model and one run context per session.
 *
 * A session and its forks share the plan and the list of hooks, which are read-only;
 * everything else is a session's own, so forks need no lock. */
#include "engine/api/qg_session.h"

#include "engine/core/suggest.h"
#include "engine/embed/hooks.h"
#include "engine/exec/pool.h"
#include "engine/ir/tensor_memory.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_session_options)

/* State shared by a session and its forks. */
typedef struct shared {
    qg_arena *arena; /* of the first one's context; of all below */
    qg_model *model;
    qg_executable exe;
    qg_plan *plan;
    qg_host_hooks *hooks; /* NULL: none */
    qg_tensor *shape;     /* [inputs] of the options, when the model leaves dims open */
    uint32_t *keep;       /* [n_keep] ids */
} shared;

struct qg_session {
    qg_ctx *ctx; /* its own: the message, and the memory of all this */
    shared *shared;
    bool is_first; /* the plan goes with it */
    qg_run *run;
    qg_hook hook;
    const qg_tensor **in; /* [inputs] of the current run */
    qg_arena *results;    /* of the last run: outputs outside the activations */
    /* [outputs + kept] the address returned last.  A caller that passes the same tensor
     * again still borrows. */
    const void **lent;
    uint64_t runs;
    bool has_run; /* and did not fail */
};

/* --- options --- */

static bool is_tensor(const qg_tensor *t)
{
    return t->dtype > QG_NODTYPE && t->dtype < QG_NDTYPE && t->rank >= 0 &&
           t->rank <= QG_MAX_RANK && qg_tensor_known(t) && qg_tensor_count(t) >= 0;
}

/* A shape may fix dynamic dims of the model, and must repeat the static ones: passes
 * may have relied on them. */
static qg_status check_shape(qg_ctx *ctx, const qg_value *v, const qg_tensor *shape)
{
    const qg_tensor *type = &v->type;
    char is[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    if (!is_tensor(shape))
        return qg_fail(ctx, QG_ECONFIG,
                       "session: shape of input '%s': expected a type and dims >= 0",
                       v->name);
    bool fits =
        shape->dtype == type->dtype && (type->rank < 0 || shape->rank == type->rank);
    for (int32_t i = 0; fits && i < type->rank; i++)
        fits = type->dim[i] < 0 || shape->dim[i] == type->dim[i];
    return fits ? QG_OK
                : qg_fail(ctx, QG_ECONFIG,
                          "session: shape of input '%s': is %s, expected %s; dims of a "
                          "model are fixed when it is opened",
                          v->name, qg_tensor_text(shape, is),
                          qg_tensor_text(type, want));
}

/* Leaves sh->shape NULL when the model leaves nothing open. */
static qg_status read_shape(shared *sh, const qg_session_options *o)
{
    qg_ctx *ctx = sh->model->ctx;
    const qg_graph *g = sh->model->graph;
    bool open = false;
    for (size_t i = 0; i < g->input.n; i++) {
        const qg_value *v = g->input.at[i];
        char text[QG_SHAPE_TEXT];
        open = open || !qg_tensor_known(&v->type);
        if (o->shape)
            QG_TRY(check_shape(ctx, v, &o->shape[i]));
        else if (open)
            return qg_fail(ctx, QG_EMODEL,
                           "session: input '%s': %s has open dims, expected a shape",
                           v->name, qg_tensor_text(&v->type, text));
    }
    if (!open)
        return QG_OK;
    sh->shape = QG_NEWN(sh->arena, g->input.n, qg_tensor);
    if (!sh->shape)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->input.n; i++)
        qg_tensor_init(&sh->shape[i], o->shape[i].dtype, o->shape[i].rank,
                       o->shape[i].dim);
    return QG_OK;
}

static qg_status unknown_value(qg_ctx *ctx, const qg_graph *g, const char *name)
{
    char near[QG_SUGGEST_TEXT];
    qg_suggest s = qg_suggest_for(name);
    for (size_t i = 0; i < g->value.n; i++)
        qg_suggest_try(&s, g->value.at[i]->name);
    return qg_fail(ctx, QG_ECONFIG, "session: keep '%s': no such value%s", name,
                   qg_suggest_text(&s, near));
}

static qg_status read_keep(shared *sh, const qg_session_options *o)
{
    qg_ctx *ctx = sh->model->ctx;
    const qg_graph *g = sh->model->graph;
    sh->keep = QG_NEWN(sh->arena, o->n_keep, uint32_t);
    if (!sh->keep)
        return qg_nomem(ctx);
    for (size_t i = 0; i < o->n_keep; i++) {
        const char *name = o->keep[i] ? o->keep[i] : "";
        const qg_value *v = qg_graph_value(g, name);
        if (!v)
            return unknown_value(ctx, g, name);
        if (v->is_input)
            return qg_fail(ctx, QG_ECONFIG,
                           "session: keep '%s': is an input of the model, expected an "
                           "inner value",
                           name);
        const qg_value *at = qg_executable_value(&sh->exe, v);
        if (!at || at->is_input)
            return qg_fail(ctx, QG_ECONFIG,
                           "session: keep '%s': the integer program does not compute "
                           "it: it is part of a kernel or given",
                           name);
        sh->keep[i] = at->id;
    }
    return QG_OK;
}

/* The plan and all that it borrows.  Messages are the model's context's. */
static qg_status compile(shared *sh, const qg_session_options *o)
{
    qg_model *m = sh->model;
    qg_plan_options p = { .threads = qg_pool_share(o->jobs, 1),
                          .reference = o->reference_kernels,
                          .n_keep = o->n_keep };
    qg_mode_request mode = { o->mode, o->profile, o->require_integer, false, false };
    QG_TRY(qg_executable_make(m, &mode, &sh->exe));
    m = sh->model = sh->exe.model;
    p.mode = sh->exe.mode == QG_RUN_SIMULATE ? QG_MODE_SIMULATE : QG_MODE_FLOAT;
    p.quant = m->quant;
    QG_TRY(read_shape(sh, o));
    QG_TRY(read_keep(sh, o));
    p.input = sh->shape;
    p.keep = sh->keep;
    if (o->n_hook && sh->exe.program)
        return qg_fail(m->ctx, QG_EUNSUPPORTED,
                       "session: hooks in mode integer: expected none, since they see "
                       "endpoints of the model's graph");
    if (o->n_hook) {
        qg_host_hook_list list = { o->hook, o->n_hook, p.mode == QG_MODE_SIMULATE };
        QG_TRY(qg_host_hooks_find(m->ctx, sh->arena, m->graph, list, &sh->hooks));
        p.watch = sh->hooks->watch;
        p.write = sh->hooks->write;
        p.show_all = true;
    }
    return qg_plan_new(m->ctx, sh->exe.graph, &p, &sh->plan);
}

/* --- sessions --- */

/* A session without a run context, which qg_session_free accepts; NULL: no memory. */
static qg_session *session_alloc(qg_ctx *parent)
{
    qg_ctx *ctx = qg_ctx_fork(parent);
    qg_session *s = ctx ? QG_NEW(ctx->arena, qg_session) : NULL;
    if (s)
        s->ctx = ctx;
    else
        qg_ctx_free(ctx);
    return s;
}

/* The run context and other memory of one session. */
static qg_status begin(qg_session *s, shared *sh)
{
    const qg_graph *g = sh->model->graph;
    s->shared = sh;
    s->hook = (qg_hook){ qg_host_hooks_see, sh->hooks };
    s->in = QG_NEWN(s->ctx->arena, g->input.n, const qg_tensor *);
    s->lent =
        QG_NEWN(s->ctx->arena, g->output.n + sh->plan->options.n_keep, const void *);
    s->results = qg_arena_new(s->ctx->alloc);
    if (!s->in || !s->lent || !s->results)
        return qg_nomem(s->ctx);
    return qg_run_new(s->ctx, sh->plan, &s->run);
}

/* The plan is made with the model's context: it may intern names, which a fork must
 * not. */
static qg_status begin_first(qg_session *s, qg_model *m, const qg_session_options *o)
{
    shared *sh = QG_NEW(s->ctx->arena, shared);
    if (!sh)
        return qg_nomem(m->ctx);
    *sh = (shared){ .arena = s->ctx->arena, .model = m };
    s->shared = sh;
    s->is_first = true;
    QG_TRY(compile(sh, o));
    qg_status status = begin(s, sh);
    return status == QG_OK ? QG_OK : qg_fail(m->ctx, status, "%s", s->ctx->message);
}

qg_status qg_session_new(qg_model *m, const qg_session_options *o, qg_session **out)
{
    qg_session_options mine;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_session_options, o, &mine));
    qg_session *s = session_alloc(m->ctx);
    if (!s)
        return qg_nomem(m->ctx);
    qg_status status = begin_first(s, m, &mine);
    if (status == QG_OK)
        *out = s;
    else
        qg_session_free(s);
    return status;
}

qg_status qg_session_fork(qg_session *s, qg_session **out)
{
    qg_session *fork = session_alloc(s->shared->model->ctx);
    if (!fork)
        return qg_nomem(s->ctx);
    qg_status status = begin(fork, s->shared);
    if (status == QG_OK) {
        *out = fork;
        return QG_OK;
    }
    status = qg_fail(s->ctx, status, "%s", fork->ctx->message);
    qg_session_free(fork);
    return status;
}

void qg_session_free(qg_session *s)
{
    if (!s)
        return;
    qg_run_free(s->run);
    if (s->is_first) {
        qg_plan_free(s->shared->plan);
        qg_executable_free(&s->shared->exe);
    }
    qg_arena_free(s->results);
    qg_ctx_free(s->ctx);
}

const char *qg_session_message(const qg_session *s) { return s->ctx->message; }

size_t qg_session_bytes(const qg_session *s) { return s->shared->plan->report.bytes; }

/* --- inputs --- */

/* Checks before a run, which requires readable tensors. */
static qg_status check_input(qg_session *s, const qg_value *v, const qg_tensor *x)
{
    const char *wrong = NULL;
    size_t size = is_tensor(x) ? qg_dtype_bits(x->dtype) / 8 : 0;
    if (!is_tensor(x))
        wrong = "is not a tensor of known dims";
    else if (!qg_tensor_is_plain(x))
        wrong = "has strides with gaps or in another order";
    else if (!x->data && qg_tensor_count(x) > 0)
        wrong = "has no data";
    else if (size > 1 && (uintptr_t)x->data % size != 0)
        wrong = "has data that is not aligned for its type";
    return wrong
               ? qg_fail(s->ctx, QG_EDATA,
                         "run: input '%s': %s, expected a plain array", v->name, wrong)
               : QG_OK;
}

static qg_status take_inputs(qg_session *s, const qg_tensor *in, size_t n_in)
{
    const qg_graph *g = s->shared->model->graph;
    if (n_in != g->input.n)
        return qg_fail(s->ctx, QG_EDATA, "run: %zu inputs, expected %zu", n_in,
                       g->input.n);
    for (size_t i = 0; i < n_in; i++) {
        bool nan, infinity;
        QG_TRY(check_input(s, g->input.at[i], &in[i]));
        qg_tensor_look(&in[i], &nan, &infinity);
        if (nan)
            return qg_fail(s->ctx, QG_EDATA,
                           "run: input '%.1000s' contains NaN, expected numbers",
                           g->input.at[i]->name);
        s->in[i] = &in[i];
    }
    return QG_OK;
}

/* --- outputs --- */

/* Something that the host gets: graph output or kept value. */
typedef struct result {
    const char *what, *name; /* "output", "value" */
    const qg_tensor *is;     /* plain, with data */
    uint32_t tensor;         /* of the plan */
    const void **lent;
} result;

static result output_at(const qg_session *s, size_t k)
{
    return (result){ "output", s->shared->model->graph->output.at[k]->name,
                     qg_run_output(s->run, k), s->shared->plan->output[k],
                     &s->lent[k] };
}

static result kept_at(const qg_session *s, size_t k)
{
    const shared *sh = s->shared;
    const qg_graph *g = sh->model->graph;
    return (result){ "value", g->value.at[sh->keep[k]]->name, qg_run_kept(s->run, k),
                     sh->plan->kept[k], &s->lent[g->output.n + k] };
}

static bool is_wanted_there(const result *r, const qg_tensor *out)
{
    return out->data && out->data != *r->lent;
}

/* Whether the caller's memory is made for the result. */
static qg_status check_room(qg_session *s, result r, const qg_tensor *out)
{
    char is[QG_SHAPE_TEXT], has[QG_SHAPE_TEXT];
    if (!is_wanted_there(&r, out) ||
        (is_tensor(out) && out->dtype == r.is->dtype && qg_same_dims(out, r.is)))
        return QG_OK;
    return qg_fail(s->ctx, QG_EDATA,
                   "run: %s '%s': is %s, expected %s as the tensor %s", r.what, r.name,
                   qg_tensor_text(r.is, is),
                   is_tensor(out) ? qg_tensor_text(out, has) : "another type or dims",
                   "that has memory for it");
}

/* Memory of the caller (an input that is an output) and of the model is never returned
 * as borrowed. */
static qg_status own_result(qg_session *s, const result *r, qg_tensor *t)
{
    const enum qg_tensor_kind kind = s->shared->plan->tensor.at[r->tensor].kind;
    if (kind != QG_TENSOR_INPUT && kind != QG_TENSOR_CONSTANT)
        return QG_OK;
    QG_TRY(qg_tensor_alloc(s->ctx, s->results, t));
    qg_tensor_copy(r->is, t);
    return QG_OK;
}

static qg_status give(qg_session *s, result r, qg_tensor *out)
{
    qg_tensor t;
    qg_tensor_init(&t, r.is->dtype, r.is->rank, r.is->dim);
    t.data = r.is->data;
    if (is_wanted_there(&r, out)) {
        t.data = out->data;
        qg_tensor_copy(r.is, &t);
    } else {
        QG_TRY(own_result(s, &r, &t));
        *r.lent = t.data;
    }
    *out = t;
    return QG_OK;
}

/* Checks everything before it writes anything. */
static qg_status give_outputs(qg_session *s, qg_tensor *out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++)
        QG_TRY(check_room(s, output_at(s, i), &out[i]));
    for (size_t i = 0; i < n_out; i++)
        QG_TRY(give(s, output_at(s, i), &out[i]));
    return QG_OK;
}

/* --- runs --- */

qg_status qg_session_run(qg_session *s, const qg_tensor *in, size_t n_in,
                         qg_tensor *out, size_t n_out)
{
    const shared *sh = s->shared;
    if (n_out > sh->model->graph->output.n)
        return qg_fail(s->ctx, QG_EDATA, "run: %zu outputs, expected at most %zu",
                       n_out, sh->model->graph->output.n);
    QG_TRY(take_inputs(s, in, n_in));
    s->has_run = false;
    qg_arena_reset(s->results);
    QG_TRY(qg_run_execute(s->run, s->in, &s->hook, sh->hooks != NULL, s->runs++));
    s->has_run = true;
    return give_outputs(s, out, n_out);
}

qg_status qg_session_value(qg_session *s, size_t k, qg_tensor *out)
{
    const size_t n = s->shared->plan->options.n_keep;
    if (k >= n)
        return qg_fail(s->ctx, QG_ECONFIG,
                       "session: value %zu: %zu are kept, counted from 0", k, n);
    if (!s->has_run)
        return qg_fail(s->ctx, QG_ESTATE,
                       "session: value %zu: nothing was run, expected a run that "
                       "succeeded",
                       k);
    QG_TRY(check_room(s, kept_at(s, k), out));
    return give(s, kept_at(s, k), out);
}

qg_status qg_session_output_type(const qg_session *s, size_t k, qg_tensor *out)
{
    const qg_plan *p = s->shared->plan;
    if (k >= p->graph->output.n)
        return qg_fail(s->ctx, QG_ECONFIG,
                       "session: output %zu: there are %zu, counted from 0", k,
                       p->graph->output.n);
    const qg_tensor *type = &p->tensor.at[p->output[k]].type;
    if (type->rank < 0)
        qg_tensor_unknown(out, type->dtype);
    else
        qg_tensor_init(out, type->dtype, type->rank, type->dim);
    return QG_OK;
}
