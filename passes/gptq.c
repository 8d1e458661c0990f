/* gptq -- rounds weights column by column; what a column loses is given to the columns
 * that are still to be rounded, as the inputs of the layer weigh it:
 *
 *     H = sum x x^T over input columns x;  H += damp mean(diag H);  U'U = inverse of H
 *     for k:  q = round(w_k),  e = (w_k - q) / U_kk,  w_j -= e U_kj  for j > k
 *
 * for each output channel w, with columns in the order of falling H_kk.  An input that
 * is always 0 keeps its nearest code.
 *
 * x comes from the definition of the operator: with an identity in place of the weights
 * a convolution or product gives its own input columns, whatever its strides, pads or
 * groups.  Layers are taken in order, in lots whose matrices fit into LOT bytes; x is
 * what the network gives with the layers of earlier lots rounded so.  A layer that
 * would be no better on its samples than with nearest codes stays, with a near miss.
 *
 * Scales stay.  The weights of the float network stay beside the new ones (QG_UNTUNED).
 * One worker: sums are in order of samples.
 * Source   Frantar et al., "GPTQ", ICLR 2023, algorithm 1, with act-order
 * Cost     K^2 per input column and K^3 per layer, K weights per output channel */
#include <math.h>
#include <stdlib.h>

#include "engine/exec/drive.h"
#include "engine/ir/edit.h"
#include "engine/quant/journal.h"
#include "passes/passes.h"
#include "passes/util_largest.h"

enum { LOT = 256 << 20 };

/* One layer: `groups` independent parts, each with `rows` output channels of `columns`
 * weights. */
typedef struct layer {
    qg_node *node;
    uint32_t slot;
    const qg_tqc *tqc;
    const qg_tensor *weight;
    int axis; /* of the output channels */
    size_t groups, rows, columns;
    qg_tensor identity;
    double *h; /* [groups][columns][columns] lower triangle */
} layer;

typedef QG_VEC(layer) layers;

typedef struct rounder {
    qg_pass_env *env;
    qg_arena *lot; /* of one lot */
    layers layer;  /* of the lot */
} rounder;

/* --- layers --- */

/* NULL, or why its weights are left alone. */
static const char *unfit(const qg_tqc *t, const qg_tensor *w, int axis)
{
    if (t->scheme.policy & (QG_BLOCK | QG_DYNAMIC) || t->quantizer)
        return "a scheme without one scale per channel or tensor";
    if (axis < 0 || axis > 1 || (axis == 1 && w->rank != 2))
        return "a layout that is not matrix or convolution";
    if (t->scheme.policy & QG_PER_CHANNEL && t->scheme.axis != axis)
        return "scales along another axis than the output channels";
    return NULL;
}

/* l->node stays NULL when there is nothing to do. */
static qg_status read_layer(rounder *r, qg_node *n, layer *l)
{
    int w = qg_op_slot_of(n->op, 'w');
    const qg_value *v = w >= 0 && (uint32_t)w < n->n_in ? n->in[w] : NULL;
    const qg_tqc *t = v ? qg_input_tqc(n, (uint32_t)w) : NULL;
    int64_t groups;
    if (!qg_node_has(n, QG_OP_COMPUTE) || !n->op->weight_axis || !v || !v->constant ||
        v->constant->dtype != QG_F32 || v->constant->rank < 2 || !t ||
        !qg_tqc_rounds(t) || !n->in[0] || n->in[0]->constant)
        return QG_OK;
    int axis = n->op->weight_axis(n);
    const char *why = unfit(t, v->constant, axis);
    if (why)
        return qg_pass_near_miss(r->env, "layer", n, "its weights have %s", why);
    QG_TRY(qg_attr_int(r->env->ctx, n, "group", 1, &groups));
    int64_t out = v->constant->dim[axis];
    if (groups < 1 || out % groups != 0 || qg_tensor_count(v->constant) == 0)
        return QG_OK;
    *l = (layer){ .node = n,
                  .slot = (uint32_t)w,
                  .tqc = t,
                  .weight = v->constant,
                  .axis = axis,
                  .groups = (size_t)groups,
                  .rows = (size_t)(out / groups),
                  .columns = (size_t)(qg_tensor_count(v->constant) / out) };
    return QG_OK;
}

/* Weights with which output channel (group, k) is input column k of the group. */
static qg_status make_identity(rounder *r, layer *l)
{
    int64_t dim[QG_MAX_RANK];
    const qg_tensor *w = l->weight;
    for (int32_t k = 0; k < w->rank; k++)
        dim[k] = w->dim[k];
    dim[l->axis] = (int64_t)(l->groups * l->columns);
    qg_tensor_init(&l->identity, QG_F32, w->rank, dim);
    QG_TRY(qg_tensor_alloc(r->env->ctx, r->lot, &l->identity));
    memset(l->identity.data, 0,
           (size_t)qg_tensor_count(&l->identity) * sizeof *l->identity.f32);
    for (size_t i = 0; i < l->groups * l->columns; i++)
        l->identity.f32[i * l->columns + i % l->columns] = 1;
    size_t cells = l->groups * l->columns * l->columns;
    l->h = QG_NEWN(r->lot, cells, double);
    return l->h ? QG_OK : qg_nomem(r->env->ctx);
}

/* --- H, sample by sample --- */

typedef struct worker {
    rounder *r;
    qg_arena *sample;
    qg_tensor **x; /* [layers] input of this sample, as the layer reads it */
} worker;

static qg_status worker_begin(void *ud, qg_ctx *ctx, void **out)
{
    rounder *r = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *out = w; /* released by worker_end, also after a failure */
    w->r = r;
    w->x = QG_NEWN(ctx->arena, r->layer.n, qg_tensor *);
    w->sample = qg_arena_new(ctx->alloc);
    return w->x && w->sample ? QG_OK : qg_nomem(ctx);
}

static void worker_end(void *ud, void *state)
{
    (void)ud;
    qg_arena_free(((worker *)state)->sample);
}

/* Twice for inputs that are rounded: the second time counts. */
static qg_status see(void *state, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    worker *w = state;
    (void)sample;
    if (at->endpoint.is_output || at->endpoint.slot != 0)
        return QG_OK;
    for (size_t i = 0; i < w->r->layer.n; i++)
        if (w->r->layer.at[i].node == at->endpoint.node)
            return qg_tensor_clone(ctx, w->sample, value, &w->x[i]);
    return QG_OK;
}

/* The layer with the identity as weights, and no bias. */
static qg_status run_columns(const worker *w, qg_ctx *ctx, const layer *l,
                             const qg_tensor *x, qg_tensor *y)
{
    const qg_node *n = l->node;
    const qg_tensor **in = QG_NEWN(w->sample, n->n_in, const qg_tensor *);
    qg_tensor **out = QG_NEWN(w->sample, n->n_out, qg_tensor *);
    if (!in || !out)
        return qg_nomem(ctx);
    in[0] = x;
    in[l->slot] = &l->identity;
    out[0] = y;
    qg_call k = { .ctx = ctx,
                  .node = n,
                  .param = n->param,
                  .n_in = n->n_in,
                  .n_out = n->n_out,
                  .in = in,
                  .out = out,
                  .scratch = w->sample };
    QG_TRY(n->op->infer(&k));
    QG_TRY(qg_tensor_alloc(ctx, w->sample, y));
    return n->op->run(&k);
}

/* H += x x^T of one group; x[k]: at y[k * step]. */
static void add_column(const layer *l, double *h, const float *y, size_t step,
                       double *x)
{
    size_t n = l->columns;
    for (size_t k = 0; k < n; k++)
        x[k] = (double)y[k * step];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; x[i] != 0 && j <= i; j++)
            h[i * n + j] += x[i] * x[j];
}

/* At most `positions` columns, evenly spaced.  y: [batch, groups columns, places] of a
 * convolution (axis 0 and rank above 2), else [places, columns]. */
static void add_columns(const layer *l, const qg_tensor *y, double positions, double *x)
{
    size_t all = l->groups * l->columns, step = 1, places = 1;
    size_t count = (size_t)qg_tensor_count(y) / all;
    if (l->weight->rank > 2)
        places = step = (size_t)qg_dims_product(y, 2, y->rank);
    size_t taken = count < (size_t)positions ? count : (size_t)positions;
    for (size_t t = 0; t < taken; t++) {
        size_t at = t * count / taken;
        const float *from = y->f32 + at / places * all * places + at % places;
        for (size_t g = 0; g < l->groups; g++)
            add_column(l, l->h + g * l->columns * l->columns,
                       from + g * l->columns * step, step, x);
    }
}

static qg_status done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *run)
{
    rounder *r = ud;
    worker *w = state;
    (void)sample;
    (void)run;
    for (size_t i = 0; i < r->layer.n; i++) {
        const layer *l = &r->layer.at[i];
        qg_tensor y = { 0 };
        double *x = QG_NEWN(w->sample, l->columns, double);
        if (!x)
            return qg_nomem(ctx);
        if (!w->x[i])
            continue;
        QG_TRY(run_columns(w, ctx, l, w->x[i], &y));
        add_columns(l, &y, qg_pass_value(r->env, "positions"), x);
        w->x[i] = NULL;
    }
    qg_arena_reset(w->sample);
    return QG_OK;
}

static qg_status collect(rounder *r)
{
    qg_pass_env *env = r->env;
    uint8_t *watch = QG_NEWN(r->lot, env->graph->node.n, uint8_t);
    if (!watch)
        return qg_nomem(env->ctx);
    for (size_t i = 0; i < r->layer.n; i++)
        watch[r->layer.at[i].node->id] = 1;
    qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                          .quant = env->quant,
                          .input = env->feed->shape,
                          .watch = watch,
                          .reference = env->options.reference };
    qg_plan *plan;
    QG_TRY(qg_plan_new(env->ctx, env->graph, &o, &plan));
    qg_drive d = { .plan = plan,
                   .feed = env->feed,
                   .n = qg_pass_samples(env),
                   .jobs = 1,
                   .ud = r,
                   .begin = worker_begin,
                   .end = worker_end,
                   .see = see,
                   .done = done,
                   .progress = env->progress,
                   .stage = env->at_work->name };
    qg_status s = qg_drive_run(env->ctx, &d);
    qg_plan_free(plan);
    return s;
}

/* --- linear algebra; lower triangles, row by row --- */

/* a becomes its Cholesky factor; false: a is not positive definite. */
static bool factorize(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0))
                return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    return true;
}

/* The inverse of L L', given L, into out (lower triangle); x: [n] scratch. */
static void invert(const double *l, size_t n, double *out, double *x)
{
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < n; i++) { /* L x = unit c */
            double sum = i == c;
            for (size_t k = c; k < i; k++)
                sum -= l[i * n + k] * x[k];
            x[i] = i < c ? 0 : sum / l[i * n + i];
        }
        for (size_t i = n; i-- > 0;) { /* L' x = that */
            double sum = x[i];
            for (size_t k = i + 1; k < n; k++)
                sum -= l[k * n + i] * x[k];
            x[i] = sum / l[i * n + i];
        }
        for (size_t i = c; i < n; i++)
            out[i * n + c] = x[i];
    }
}

/* --- one group of one layer --- */

typedef struct column {
    size_t at;
    double power;
} column;

static int by_power(const void *a, const void *b)
{
    const column *x = a, *y = b;
    if (x->power != y->power)
        return x->power < y->power ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

typedef struct work {
    const layer *l;
    size_t group;
    const double *h;        /* [columns][columns] as summed */
    column *order;          /* [columns] */
    double *a, *b;          /* [columns][columns] scratch; b: the factor in the end */
    double *w;              /* [rows][columns] */
    float *q, *x, *nearest; /* q, nearest: [rows][columns]; x: [rows] */
} work;

static double cell(const double *h, size_t n, size_t i, size_t j)
{
    return i > j ? h[i * n + j] : h[j * n + i];
}

static double *weight_at(const work *k, size_t row, size_t col)
{
    return &k->w[row * k->l->columns + col];
}

/* Where the weight of a row and column is in the tensor. */
static size_t place(const layer *l, size_t group, size_t row, size_t col)
{
    size_t out = group * l->rows + row;
    return l->axis == 0 ? out * l->columns + col : col * l->groups * l->rows + out;
}

/* b: the upper factor U' of the inverse, transposed: b[j][k] = U[k][j].  False: H is
 * not positive definite, even with a hundred times the damping. */
static bool factor_of_inverse(const rounder *r, work *k)
{
    size_t n = k->l->columns;
    double mean = 0, damp = qg_pass_value(r->env, "damp");
    for (size_t i = 0; i < n; i++)
        mean += cell(k->h, n, i, i) / (double)n;
    for (int turn = 0; turn < 3 && mean > 0; turn++, damp *= 10) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                k->a[i * n + j] = cell(k->h, n, k->order[i].at, k->order[j].at) +
                                  (i == j ? damp * mean : 0);
        if (!factorize(k->a, n))
            continue;
        invert(k->a, n, k->b, weight_at(k, 0, 0) + k->l->rows * n);
        if (factorize(k->b, n))
            return true;
    }
    return false;
}

/* Rounds column c of all rows into q. */
static qg_status round_column(const rounder *r, work *k, size_t c, float *q)
{
    const layer *l = k->l;
    char text[QG_ENDPOINT_TEXT];
    const qg_qparam all = qg_tqc_param(l->tqc);
    const size_t first = all.n > 1 ? k->group * l->rows : 0;
    const qg_qparam p = { all.n > 1 ? l->rows : all.n, all.scale + first,
                          all.offset ? all.offset + first : NULL };
    qg_scheme scheme = l->tqc->scheme;
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 1, (int64_t[]){ (int64_t)l->rows });
    if (scheme.policy & QG_PER_CHANNEL)
        scheme.axis = 0;
    for (size_t i = 0; i < l->rows; i++)
        k->x[i] = (float)*weight_at(k, i, c);
    x.data = k->x;
    QG_TRY(
        qg_fake_quantize(r->env->ctx, qg_tqc_text(l->tqc, text), &scheme, &p, &x, &x));
    for (size_t i = 0; i < l->rows; i++)
        q[i * l->columns + c] = k->x[i];
    return QG_OK;
}

/* tr (w - q) H (w - q)', with the weights as they were. */
static double error_of(const work *k, const float *q)
{
    const layer *l = k->l;
    size_t n = l->columns;
    double sum = 0;
    for (size_t row = 0; row < l->rows; row++) {
        double *d = k->a; /* [n] */
        for (size_t c = 0; c < n; c++)
            d[c] = (double)l->weight->f32[place(l, k->group, row, c)] -
                   (double)q[row * n + c];
        for (size_t i = 0; i < n; i++) {
            double inner = 0;
            for (size_t j = 0; j < i; j++)
                inner += k->h[i * n + j] * d[j];
            sum += d[i] * (2 * inner + k->h[i * n + i] * d[i]);
        }
    }
    return sum;
}

static void load(work *k)
{
    const layer *l = k->l;
    for (size_t row = 0; row < l->rows; row++)
        for (size_t c = 0; c < l->columns; c++)
            *weight_at(k, row, c) = (double)l->weight->f32[place(l, k->group, row, c)];
}

static qg_status solve(const rounder *r, work *k)
{
    size_t n = k->l->columns;
    load(k);
    for (size_t c = 0; c < n; c++)
        QG_TRY(round_column(r, k, c, k->nearest));
    for (size_t c = 0; c < n; c++)
        k->order[c] = (column){ c, cell(k->h, n, c, c) };
    qsort(k->order, n, sizeof *k->order, by_power);
    memcpy(k->q, k->nearest, k->l->rows * n * sizeof *k->q);
    if (!factor_of_inverse(r, k))
        return QG_OK;
    for (size_t i = 0; i < n && k->order[i].power > 0; i++) {
        size_t c = k->order[i].at;
        QG_TRY(round_column(r, k, c, k->q));
        for (size_t row = 0; row < k->l->rows; row++) {
            double e =
                (*weight_at(k, row, c) - (double)k->q[row * n + c]) / k->b[i * n + i];
            for (size_t j = i + 1; j < n; j++)
                *weight_at(k, row, k->order[j].at) -= e * k->b[j * n + i];
        }
    }
    return QG_OK;
}

/* --- one layer --- */

static qg_status make_work(const rounder *r, const layer *l, work *k)
{
    size_t n = l->columns, cells = l->rows * n;
    *k = (work){ .l = l,
                 .order = QG_NEWN(r->lot, n, column),
                 .a = QG_NEWN(r->lot, n * n, double),
                 .b = QG_NEWN(r->lot, n * n, double),
                 .w = QG_NEWN(r->lot, cells + n, double), /* and scratch [n] */
                 .q = QG_NEWN(r->lot, cells, float),
                 .nearest = QG_NEWN(r->lot, cells, float),
                 .x = QG_NEWN(r->lot, l->rows, float) };
    bool there = k->order && k->a && k->b && k->w && k->q && k->nearest && k->x;
    return there ? QG_OK : qg_nomem(r->env->ctx);
}

/* Groups that would be worse keep the weights they have. */
static qg_status round_layer(rounder *r, const layer *l)
{
    qg_pass_env *env = r->env;
    qg_tensor *t;
    work k;
    double before = 0, after = 0;
    QG_TRY(make_work(r, l, &k));
    QG_TRY(qg_tensor_clone(env->ctx, env->graph->arena, l->weight, &t));
    for (k.group = 0; k.group < l->groups; k.group++) {
        k.h = l->h + k.group * l->columns * l->columns;
        QG_TRY(solve(r, &k));
        double nearest = error_of(&k, k.nearest), rounded = error_of(&k, k.q);
        before += nearest;
        after += rounded < nearest ? rounded : nearest;
        for (size_t row = 0; rounded < nearest && row < l->rows; row++)
            for (size_t c = 0; c < l->columns; c++)
                t->f32[place(l, k.group, row, c)] = k.q[row * l->columns + c];
    }
    if (!(after < before))
        return qg_pass_near_miss(env, "layer", l->node,
                                 "its error would be %g, expected less than %g, that "
                                 "of nearest codes",
                                 after, before);
    env->changed++;
    QG_TRY(qg_pass_matched(env, "layer"));
    const qg_tensor *old = l->node->in[l->slot]->constant;
    QG_TRY(qg_edit_learn_constant(env->graph, l->node, l->slot, t));
    return qg_journal_learned(env->quant, l->node->in[l->slot], "rounding", old, t);
}

/* --- all of them --- */

/* As many layers from *next on as fit, at least one. */
static qg_status fill_lot(rounder *r, const qg_graph *g, size_t *next)
{
    size_t bytes = 0;
    r->layer = (layers){ 0 };
    for (; *next < g->node.n; ++*next) {
        layer l = { 0 };
        QG_TRY(read_layer(r, g->node.at[*next], &l));
        if (!l.node)
            continue;
        size_t need = l.groups * l.columns * l.columns * 12;
        if (r->layer.n && bytes + need > LOT)
            return QG_OK;
        bytes += need;
        QG_TRY(make_identity(r, &l));
        QG_TRY(qg_vec_push(r->env->ctx, r->lot, &r->layer, l));
    }
    return QG_OK;
}

static qg_status round_all(rounder *r)
{
    const qg_graph *g = r->env->graph;
    for (size_t next = 0; next < g->node.n;) {
        qg_arena_reset(r->lot);
        QG_TRY(fill_lot(r, g, &next));
        if (r->layer.n == 0)
            return QG_OK;
        if (qg_pass_samples(r->env) == 0)
            return qg_fail(r->env->ctx, QG_EDATA,
                           "gptq: there are no samples, expected calibration data");
        QG_TRY(collect(r));
        for (size_t i = 0; i < r->layer.n; i++)
            QG_TRY(round_layer(r, &r->layer.at[i]));
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    rounder r = { .env = env, .lot = qg_arena_new(env->ctx->alloc) };
    qg_status s = r.lot ? round_all(&r) : qg_nomem(env->ctx);
    qg_arena_free(r.lot);
    return s;
}

static const qg_pass_param param[] = {
    {"damp", "what is added to the diagonal, relative to its mean", 0.01, 1e-6, 1 },
    { "positions",  "input columns taken of a sample, at most", 256, 1, 1e6 },
    { 0    },
};

const qg_pass qg_pass_gptq = {
    .name = "gptq",
    .summary = "round weights so that later ones make up for earlier ones (GPTQ)",
    .needs = QG_A_TOPO | QG_A_SHAPE | QG_A_TQC,
    .breaks = QG_A_TOPO,
    .run = run,
    .param = param,
};
