/* bias-correct -- quantization shifts the mean of a layer's output; the bias
 * compensates for the shift, block by block (util_blocks.h) along the network:
 *
 *     bias[c] += mean of output channel c, the block in float
 *              - mean of output channel c, the block rounded
 *
 * over samples, batch and space.  Both runs read the quantized network's values at the
 * start of the block, with the corrections made so far; all layers of a block are
 * corrected at once.  When the mean squared error of the block's output against the
 * float network has grown, the biases are restored and a near miss is recorded.
 *
 * The bias of a product without a slot for one (MatMul) is the constant of an Add that
 * the backend has fused with it; its channels are the last axis.  Nodes whose weights
 * are rounded, and that have neither, are near misses; so are constants of an Add with
 * other dims.
 *
 * Scales do not change, not even that of a bias derived from input and weight.
 * The biases of the float network stay beside the corrected ones (QG_UNTUNED in
 * engine/ir/graph.h).
 * Cost     five runs of the network per block and sample.
 * Source   docs/evidence/ppq-behaviour.md#bias-correction, and #blocks there;
 *          Nagel et al., "Data-Free Quantization through Weight
 *          Equalization and Bias Correction", ICCV 2019, 4.2. */
#include <assert.h>
#include <math.h>

#include "engine/exec/drive.h"
#include "engine/ir/edit.h"
#include "engine/quant/journal.h"
#include "passes/passes.h"
#include "passes/util_blocks.h"
#include "passes/util_largest.h"

/* One bias that can be corrected. */
typedef struct layer {
    qg_node *node;           /* adds the bias: a convolution, Gemm, or the fused Add */
    uint32_t slot;           /* of the bias */
    int32_t axis;            /* of the output: channels */
    size_t channels;         /* elements of the bias */
    float beta;              /* the operator adds beta * bias */
    qg_value *value;         /* the bias as it was ... */
    const qg_tensor *old;    /* ... and its numbers */
    double *exact, *rounded; /* [samples * channels] means of the output */
} layer;

typedef struct corrector {
    qg_pass_env *env;
    qg_graph *original; /* the float network from before all corrections */
    const qg_plan *reference, *exact, *rounded; /* of the original and of the block */
    const qg_block *block;                      /* the current one */
    const qg_node *end;                         /* its last node */
    size_t samples;
    QG_VEC(layer) layer; /* of the current block */
    uint8_t *mute;       /* [TQCs] those of the block */
    uint8_t *watch;      /* [nodes] layers of the block and its end */
    double *loss;        /* [samples] */
    size_t done, drives; /* of two per block */
} corrector;

/* --- one sample, in a worker --- */

typedef struct worker {
    corrector *c;
    qg_run *exact, *rounded; /* exact NULL: compute the loss only */
    qg_arena *sample;
    const qg_tensor **in;
    qg_tensor *wanted; /* output of the float network at the end of the block */
    bool is_rounded;   /* run observed by the hook */
} worker;

static qg_status worker_begin(void *ud, qg_ctx *ctx, void **out)
{
    corrector *c = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *w = (worker){ .c = c };
    *out = w; /* released by worker_end, also after a failure */
    w->sample = qg_arena_new(ctx->alloc);
    w->in = QG_NEWN(ctx->arena, c->original->input.n, const qg_tensor *);
    if (!w->sample || !w->in)
        return qg_nomem(ctx);
    if (c->exact)
        QG_TRY(qg_run_new(ctx, c->exact, &w->exact));
    return qg_run_new(ctx, c->rounded, &w->rounded);
}

static void worker_end(void *ud, void *state)
{
    worker *w = state;
    (void)ud;
    qg_run_free(w->exact);
    qg_run_free(w->rounded);
    qg_arena_free(w->sample);
}

/* Called on the float network, which is run on the samples. */
static qg_status see_reference(void *state, qg_ctx *ctx, size_t sample,
                               const qg_hook_point *at, qg_tensor *value)
{
    worker *w = state;
    (void)sample;
    if (!at->endpoint.is_output || at->endpoint.slot != 0 ||
        at->endpoint.node->id != w->c->end->id)
        return QG_OK;
    qg_arena_reset(w->sample);
    return qg_tensor_clone(ctx, w->sample, value, &w->wanted);
}

/* x is plain: [..., channels, ...]. */
static void channel_means(const qg_tensor *x, int32_t axis, double *mean)
{
    int64_t batch = qg_dims_product(x, 0, axis), channels = x->dim[axis];
    int64_t inner = qg_dims_product(x, axis + 1, x->rank);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t b = 0; b < batch; b++)
            for (int64_t i = 0; i < inner; i++)
                sum += (double)x->f32[(b * channels + c) * inner + i];
        mean[c] = batch * inner > 0 ? sum / (double)(batch * inner) : 0;
    }
}

static double squared_error(const qg_tensor *a, const qg_tensor *b)
{
    int64_t n = qg_tensor_count(a);
    double sum = 0;
    assert(qg_same_dims(a, b));
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a->f32[i] - (double)b->f32[i];
        sum += d * d;
    }
    return n ? sum / (double)n : 0;
}

/* The hook is called twice for quantized outputs: the second call counts. */
static qg_status see_block(void *state, qg_ctx *ctx, size_t sample,
                           const qg_hook_point *at, qg_tensor *value)
{
    worker *w = state;
    corrector *c = w->c;
    qg_tensor *plain;
    if (!at->endpoint.is_output || at->endpoint.slot != 0)
        return QG_OK;
    QG_TRY(qg_tensor_clone(ctx, w->sample, value, &plain));
    for (size_t i = 0; c->exact && i < c->layer.n; i++) {
        layer *l = &c->layer.at[i];
        double *mean = w->is_rounded ? l->rounded : l->exact;
        if (l->node == at->endpoint.node)
            channel_means(plain, l->axis, mean + sample * l->channels);
    }
    if (w->is_rounded && at->endpoint.node == c->end)
        c->loss[sample] = squared_error(plain, w->wanted);
    return QG_OK;
}

static qg_status run_one(worker *w, qg_run *run, bool is_rounded, size_t sample)
{
    qg_hook hook = { see_block, w };
    w->is_rounded = is_rounded;
    return run ? qg_run_execute(run, w->in, &hook, 1, sample) : QG_OK;
}

/* The float network has run; now run the block in float and quantized. */
static qg_status worker_done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                             const qg_run *r)
{
    const qg_feed *feed = ((corrector *)ud)->env->feed;
    worker *w = state;
    (void)r;
    assert(w->wanted);
    QG_TRY(feed->fetch(feed->ud, ctx, w->sample, sample, w->in));
    QG_TRY(run_one(w, w->exact, false, sample));
    return run_one(w, w->rounded, true, sample);
}

/* --- one block --- */

/* All samples; the error of the block's output, summed in their order. */
static qg_status measure(corrector *c, double *loss)
{
    qg_pass_env *env = c->env;
    qg_drive d = { .plan = c->reference,
                   .feed = env->feed,
                   .n = c->samples,
                   .jobs = env->options.jobs,
                   .ud = c,
                   .begin = worker_begin,
                   .end = worker_end,
                   .see = see_reference,
                   .done = worker_done,
                   .progress = env->progress,
                   .stage = env->at_work->name,
                   .before = c->done * c->samples,
                   .total = c->drives * c->samples };
    QG_TRY(qg_drive_run(env->ctx, &d));
    c->done++;
    *loss = 0;
    for (size_t i = 0; i < c->samples; i++)
        *loss += c->loss[i] / (double)c->samples;
    return QG_OK;
}

/* Marks the constants that the block reads; NULL: no memory. */
static const uint8_t *constants_of_block(const corrector *c)
{
    const qg_graph *g = c->env->graph;
    uint8_t *mark = QG_NEWN(g->arena, g->value.n, uint8_t);
    for (size_t i = 0; mark && i < c->block->n; i++) {
        const qg_node *n = c->block->node[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            if (n->in[k] && n->in[k]->constant)
                mark[n->in[k]->id] = 1;
    }
    return mark;
}

/* The network as corrected so far; muted: with the block in float, also where gptq or
 * an earlier block has changed its constants. */
static qg_status plan_block(const corrector *c, bool muted, const qg_plan **out)
{
    const uint8_t *untuned = muted ? constants_of_block(c) : NULL;
    qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                          .quant = c->env->quant,
                          .input = c->env->feed->shape,
                          .mute = muted ? c->mute : NULL,
                          .untuned = untuned,
                          .watch = c->watch,
                          .reference = c->env->options.reference };
    qg_plan *plan;
    if (muted && !untuned)
        return qg_nomem(c->env->ctx);
    QG_TRY(qg_plan_new(c->env->ctx, c->env->graph, &o, &plan));
    *out = plan;
    return QG_OK;
}

static void drop_plan(const qg_plan **p)
{
    qg_plan_free((qg_plan *)*p); /* made by plan_block, passed on as const */
    *p = NULL;
}

/* A shared bias got a separate value, which has no reader afterwards. */
static qg_status put_back(const corrector *c, const layer *l)
{
    qg_graph *g = c->env->graph;
    if (l->node->in[l->slot] == l->value)
        return qg_edit_make_constant(g, l->value, l->old);
    return qg_edit_set_input(g, l->node, l->slot, l->value);
}

static qg_status measure_before(corrector *c, double *loss)
{
    qg_status s = plan_block(c, true, &c->exact);
    if (s == QG_OK)
        s = plan_block(c, false, &c->rounded);
    if (s == QG_OK)
        s = measure(c, loss);
    drop_plan(&c->exact);
    drop_plan(&c->rounded);
    return s;
}

static qg_status measure_after(corrector *c, double *loss)
{
    QG_TRY(plan_block(c, false, &c->rounded));
    qg_status s = measure(c, loss);
    drop_plan(&c->rounded);
    return s;
}

/* The shift is summed over samples in their order, in double: the same for any number
 * of workers. */
static qg_status correct(const corrector *c, layer *l)
{
    qg_graph *g = c->env->graph;
    qg_tensor *t;
    QG_TRY(qg_tensor_clone(c->env->ctx, g->arena, l->old, &t));
    for (size_t k = 0; k < l->channels; k++) {
        double shift = 0;
        for (size_t i = 0; i < c->samples; i++)
            shift += l->exact[i * l->channels + k] - l->rounded[i * l->channels + k];
        shift /= (double)c->samples * (double)l->beta;
        t->f32[k] = (float)((double)t->f32[k] + shift);
    }
    return qg_edit_give_constant(g, l->node, l->slot, l->node->name, t);
}

/* The slot of the constant of a sum that is fused with the product before it, which has
 * no slot for a bias; -1: n is none. */
static int fused_constant(const qg_node *n)
{
    if (!qg_node_has(n, QG_OP_JOIN) || !n->op->affine || n->n_in != 2)
        return -1;
    const qg_tqc *sum = qg_output_tqc(n, 0);
    for (uint32_t k = 0; k < 2; k++) {
        const qg_node *p = n->in[1 - k] ? n->in[1 - k]->def : NULL;
        const qg_tqc *product = p ? qg_output_tqc(p, 0) : NULL;
        if (n->in[k] && n->in[k]->constant && product && sum &&
            qg_node_has(p, QG_OP_COMPUTE) && qg_op_slot_of(p->op, 'b') < 0 &&
            qg_tqc_root(product) == qg_tqc_root(sum))
            return (int)k;
    }
    return -1;
}

/* The sum that is fused with product n; NULL: there is none. */
static qg_node *fused_sum(const qg_node *n)
{
    const qg_value *y = n->out[0];
    qg_node *sum = y && y->use.n == 1 ? y->use.at[0].node : NULL;
    return sum && qg_op_slot_of(n->op, 'b') < 0 && fused_constant(sum) >= 0 ? sum
                                                                            : NULL;
}

/* Whether v is one float32 constant per channel of that axis of y: the last, or that of
 * a convolution, whose bias has no other. */
static bool is_bias(const qg_value *v, const qg_tensor *y, int32_t axis)
{
    const qg_tensor *b = v ? v->constant : NULL;
    return b && b->dtype == QG_F32 && y->dtype == QG_F32 && y->rank >= 2 &&
           qg_tensor_count(b) == y->dim[axis] &&
           (b->rank == 0 || b->dim[b->rank - 1] == y->dim[axis]);
}

/* Of a product with rounded weights, whose fused constant v is no bias. */
static qg_status miss_sum(const corrector *c, const qg_node *sum, const qg_value *v)
{
    const qg_value *product = sum->in[sum->in[0] == v ? 1 : 0];
    const qg_tqc *w = qg_role_tqc(product->def, 'w');
    char text[QG_SHAPE_TEXT];
    if (!w || !qg_tqc_is_constant(w))
        return QG_OK;
    return qg_pass_near_miss(c->env, "bias", sum,
                             "its constant is %s, expected float32 with one element "
                             "per channel of the last axis",
                             qg_tensor_text(v->constant, text));
}

/* Of weights that are rounded; other products have none to correct. */
static qg_status miss_layer(const corrector *c, const qg_node *n)
{
    const qg_tqc *w = qg_role_tqc(n, 'w');
    int b = qg_op_slot_of(n->op, 'b');
    if (!qg_node_has(n, QG_OP_COMPUTE) || !w || !qg_tqc_is_constant(w) || fused_sum(n))
        return QG_OK;
    return qg_pass_near_miss(
        c->env, "bias", n, "it has no %s, expected %s",
        b < 0 ? "slot for a bias" : "bias that is a float constant per channel",
        b < 0 ? "a convolution, Gemm, or an Add of a constant that the backend fuses "
                "with it"
              : "one");
}

/* Its bias is one float32 constant per channel: of axis 1, of a fused sum the last. */
static qg_status add_layer(corrector *c, qg_node *n)
{
    int own = qg_node_has(n, QG_OP_COMPUTE) ? qg_op_slot_of(n->op, 'b') : -1;
    int b = own >= 0 ? own : fused_constant(n);
    qg_value *v = b >= 0 && (uint32_t)b < n->n_in ? n->in[b] : NULL;
    const qg_tensor *y = n->out[0] ? &n->out[0]->type : NULL;
    int32_t axis = own >= 0 ? 1 : y ? y->rank - 1 : 0;
    if (!y || !is_bias(v, y, axis))
        return own < 0 && v ? miss_sum(c, n, v) : miss_layer(c, n);
    qg_arena *a = c->env->graph->arena;
    layer l = { .node = n,
                .slot = (uint32_t)b,
                .axis = axis,
                .channels = (size_t)y->dim[axis],
                .value = v,
                .old = v->constant };
    QG_TRY(qg_attr_float(c->env->ctx, n, "beta", 1, &l.beta));
    if (l.beta == 0)
        return QG_OK;
    l.exact = QG_NEWN(a, c->samples * l.channels, double);
    l.rounded = QG_NEWN(a, c->samples * l.channels, double);
    if (!l.exact || !l.rounded)
        return qg_nomem(c->env->ctx);
    c->watch[n->id] = 1;
    return qg_vec_push(c->env->ctx, a, &c->layer, l);
}

/* Collects the biases, the endpoints to mute and the nodes to observe. */
static qg_status open_block(corrector *c, const qg_block *b)
{
    c->layer.n = 0;
    c->block = b;
    c->end = b->node[b->n - 1];
    memset(c->mute, 0, c->env->quant->tqc.n);
    memset(c->watch, 0, c->env->graph->node.n);
    c->watch[c->end->id] = 1;
    for (size_t i = 0; i < b->n; i++) {
        qg_node *n = b->node[i];
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
            const qg_tqc *t = qg_node_tqc(n, k);
            if (t)
                c->mute[t->id] = 1;
        }
        QG_TRY(add_layer(c, n));
    }
    return QG_OK;
}

/* A bias that an earlier block has corrected has that of the float network beside it
 * already. */
static qg_status keep_first(const corrector *c, const layer *l)
{
    const qg_value *now = l->node->in[l->slot];
    QG_TRY(qg_edit_keep_untuned(c->env->graph, now, l->old));
    return qg_journal_learned(c->env->quant, now, "bias", l->old, now->constant);
}

/* Corrects the block, or leaves it unchanged with a near miss that states both
 * errors. */
static qg_status correct_block(corrector *c, const qg_block *b)
{
    double before, after;
    QG_TRY(open_block(c, b));
    if (c->layer.n == 0 || !c->end->out[0] || c->end->out[0]->type.dtype != QG_F32)
        return QG_OK;
    QG_TRY(measure_before(c, &before));
    for (size_t i = 0; i < c->layer.n; i++)
        QG_TRY(correct(c, &c->layer.at[i]));
    QG_TRY(measure_after(c, &after));
    if (after <= before) {
        for (size_t i = 0; i < c->layer.n; i++)
            QG_TRY(keep_first(c, &c->layer.at[i]));
        c->env->changed += (uint32_t)c->layer.n;
        return qg_pass_matched(c->env, "block");
    }
    for (size_t i = 0; i < c->layer.n; i++)
        QG_TRY(put_back(c, &c->layer.at[i]));
    return qg_pass_near_miss(c->env, "block", c->end,
                             "the error here would become %g, expected at most %g as "
                             "before",
                             after, before);
}

/* --- all of them --- */

/* One plan of the untouched network serves all blocks. */
static qg_status correct_all(corrector *c, const qg_blocks *blocks)
{
    uint8_t *ends = QG_NEWN(c->env->graph->arena, c->original->node.n, uint8_t);
    qg_plan_options o = { .mode = QG_MODE_FLOAT,
                          .input = c->env->feed->shape,
                          .watch = ends,
                          .reference = c->env->options.reference };
    if (!ends)
        return qg_nomem(c->env->ctx);
    for (size_t i = 0; i < blocks->n; i++) {
        const qg_block *b = &blocks->at[i];
        ends[b->node[b->n - 1]->id] = 1;
    }
    qg_plan *reference;
    QG_TRY(qg_plan_new(c->env->ctx, c->original, &o, &reference));
    c->reference = reference;
    qg_status s = QG_OK;
    c->drives = 2 * blocks->n;
    for (size_t i = 0; s == QG_OK && i < blocks->n; i++) {
        c->done = 2 * i;
        s = correct_block(c, &blocks->at[i]);
    }
    qg_plan_free(reference);
    return s;
}

/* A block that ends with a product ends with its fused sum. */
static qg_status take_sums(const qg_graph *g, qg_blocks *blocks)
{
    for (size_t i = 0; i < blocks->n; i++) {
        qg_block *b = &blocks->at[i];
        qg_node *sum = fused_sum(b->node[b->n - 1]), **node;
        if (!sum)
            continue;
        if (!(node = QG_NEWN(g->arena, b->n + 1, qg_node *)))
            return qg_nomem(g->ctx);
        memcpy(node, b->node, b->n * sizeof *node);
        node[b->n] = sum;
        *b = (qg_block){ node, b->n + 1 };
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    qg_blocks blocks = { 0 };
    corrector c = { .env = env,
                    .samples = qg_pass_samples(env),
                    .mute = QG_NEWN(g->arena, env->quant->tqc.n, uint8_t),
                    .watch = QG_NEWN(g->arena, g->node.n, uint8_t) };
    const uint8_t *last;
    QG_TRY(qg_pass_listed_last(env, g->arena, &last));
    QG_TRY(
        qg_blocks_find(g, last, (int)qg_pass_value(env, "block"), g->arena, &blocks));
    QG_TRY(take_sums(g, &blocks));
    QG_TRY(qg_pass_pattern(env, "block", "no quantized node has a bias"));
    if (blocks.n == 0)
        return QG_OK;
    if (c.samples == 0)
        return qg_fail(env->ctx, QG_EDATA,
                       "bias-correct: there are no samples, expected calibration data");
    c.loss = QG_NEWN(g->arena, c.samples, double);
    if (!c.mute || !c.watch || !c.loss)
        return qg_nomem(env->ctx);
    QG_TRY(qg_graph_clone(g, &c.original));
    qg_status s = correct_all(&c, &blocks);
    qg_graph_free(c.original);
    return s;
}

static const qg_pass_param param[] = {
    {"block", "maximum length of a block, in steps", 4, 0, 1000 }, /* as PPQ */
    { 0     },
};

const qg_pass qg_pass_bias_correct = {
    .name = "bias-correct",
    .summary = "correct biases for the mean shift caused by quantization",
    .needs = QG_A_TOPO | QG_A_SHAPE | QG_A_TQC,
    .breaks = QG_A_TOPO,
    .run = run,
    .param = param,
};
