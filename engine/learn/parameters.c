#include "engine/learn/parameters.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/learn/soft_rounding.h"
#include "engine/learn/weight_grid.h"

/* --- what is learned ------------------------------------------------------------- */

enum kind { WEIGHT, STEP, BORDER, ROUNDING };

struct qg_learned_array {
    enum kind kind;
    qg_tape_weight *weight; /* WEIGHT, ROUNDING */
    qg_tape_step *step;     /* STEP, BORDER; of the weight's grid for ROUNDING */
    double anchor;          /* BORDER: c of step_gradient.h */
    qg_optimized state;
    float *start; /* [n] p before the first step */
    double *grad; /* [n] sum since the last step */
    double *mean; /* [n] of p since qg_parameters_begin_mean */
    float *best;  /* [n] a mean that was kept; NULL: of a rounding */
    double unit;  /* WEIGHT: p is in it; ROUNDING: 1 */
    qg_soft_rounding rounding;
};
typedef qg_learned_array learned;

static double rms(const qg_tensor *t)
{
    double sum = 0;
    const int64_t n = qg_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        sum += (double)t->f32[i] * (double)t->f32[i];
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

/* Of the grid that the result of the node lies on, which may be that of a later node
 * in its group; 0: not rounded. */
static double step_of_output(const qg_value *v)
{
    const qg_tqc *out = v->use.n ? qg_output_tqc(v->use.at[0].node, 0) : NULL;
    const qg_qparam p = out ? qg_tqc_param(out) : (qg_qparam){ 0 };
    return p.n && p.scale ? (double)p.scale[0] : 0;
}

/* A bias may start near zero and have far to go. */
static double unit_of_bias(const qg_tape_weight *w)
{
    const double size = fmax(rms(&w->start) / 4, step_of_output(w->value));
    return size > 0 ? size : 1e-3;
}

static double unit_of(const qg_tape *t, const qg_tape_weight *w)
{
    const qg_tape_step *s = w->step == QG_NONE ? NULL : &t->step[w->step];
    double sum = 0;
    for (size_t i = 0; w->role == 'w' && s && i < s->n; i++)
        sum += (double)s->scale[i];
    return sum > 0 ? sum / (double)s->n : unit_of_bias(w);
}

static bool is_power_of_two(const qg_tape_step *s)
{
    return (s->root->scheme.policy & QG_POWER_OF_2) != 0;
}

/* Steps of weights start at their best, and powers of two at most half of one away from
 * the next. */
static bool has_far_to_go(const qg_tape_step *s)
{
    const qg_value *v = qg_tqc_value(s->root);
    return v && !v->constant && !is_power_of_two(s);
}

static double rate_of(const qg_parameters *w, const learned *l)
{
    const bool paced = (l->kind == STEP || l->kind == BORDER) && has_far_to_go(l->step);
    return paced ? w->rate * w->method->pace : w->rate;
}

/* Of weights that learn freely, and biases beside them. */
static const double DECAY = 0.5;

static qg_status add(qg_parameters *w, learned l, size_t n)
{
    l.state = qg_optimized_new(w->arena, w->optimizer, n, rate_of(w, &l));
    l.start = QG_NEWN(w->arena, n, float);
    l.grad = QG_NEWN(w->arena, n, double);
    l.mean = QG_NEWN(w->arena, n, double);
    l.state.start = l.start;
    l.state.decay = l.kind == WEIGHT && w->method->weights ? DECAY : 0;
    l.best = l.kind == ROUNDING ? NULL : QG_NEWN(w->arena, n, float);
    if (!l.state.p || !l.start || !l.grad || !l.mean || (!l.best && l.kind != ROUNDING))
        return qg_nomem(w->ctx);
    return qg_vec_push(w->ctx, w->arena, &w->array, l);
}

static qg_status add_rounding(qg_parameters *w, qg_tape_weight *weight)
{
    learned l = { .kind = ROUNDING,
                  .weight = weight,
                  .unit = 1,
                  .step = &w->tape->step[weight->step] };
    QG_TRY(qg_soft_rounding_of(w->ctx, w->arena, weight, l.step, &l.rounding));
    QG_TRY(add(w, l, l.rounding.n));
    qg_soft_rounding_start(&l.rounding, w->array.at[w->array.n - 1].state.p);
    weight->on_grid = true;
    return QG_OK;
}

static qg_status add_weight(qg_parameters *w, qg_tape_weight *weight)
{
    const size_t n = (size_t)qg_tensor_count(&weight->start);
    learned l = { .kind = WEIGHT, .weight = weight, .unit = unit_of(w->tape, weight) };
    QG_TRY(add(w, l, n));
    for (size_t i = 0; i < n; i++)
        w->array.at[w->array.n - 1].state.p[i] = (double)weight->now.f32[i] / l.unit;
    return QG_OK;
}

/* A power of two is the next one above e^p: p begins halfway between two of them. */
static qg_status add_step(qg_parameters *w, qg_tape_step *step)
{
    QG_TRY(add(w, (learned){ .kind = STEP, .step = step }, step->n));
    for (size_t i = 0; i < step->n; i++)
        w->array.at[w->array.n - 1].state.p[i] =
            log((double)step->scale[i] / (double)step->start[i]) -
            (is_power_of_two(step) ? log(2) / 2 : 0);
    return QG_OK;
}

/* Half of the range at the start. */
static double unit_of_border(const qg_tape_step *s, size_t i)
{
    const qg_scheme *of = &s->root->scheme;
    return (double)s->start[i] * ((double)of->qmax - (double)of->qmin) / 2;
}

static qg_status add_border(qg_parameters *w, qg_tape_step *step)
{
    learned l = { .kind = BORDER, .step = step };
    l.anchor = qg_step_gradient_anchor(w->tape->gradient, &step->root->scheme);
    QG_TRY(add(w, l, step->n));
    for (size_t i = 0; i < step->n; i++)
        w->array.at[w->array.n - 1].state.p[i] = (double)step->start[i] *
                                                 (l.anchor - (double)step->offset[i]) /
                                                 unit_of_border(step, i);
    return QG_OK;
}

/* The zero point of a border, with the step as it is now. */
static int32_t zero_of(const learned *l, size_t i)
{
    const qg_scheme *of = &l->step->root->scheme;
    const double border = l->state.p[i] * unit_of_border(l->step, i);
    const double z = rint(l->anchor - border / (double)l->step->scale[i]);
    return z < of->qmin ? of->qmin : z > of->qmax ? of->qmax : (int32_t)z;
}

static double ratio_of(const qg_tape_step *s, double p)
{
    p = fmax(-3, fmin(3, p));
    return is_power_of_two(s) ? exp2(ceil(p / log(2))) : exp(p);
}

/* Positive and finite, as a rounding expects, however far a block diverges. */
static float scale_of(const qg_tape_step *s, size_t i, double p)
{
    const float scale = s->start[i] * (float)ratio_of(s, p);
    return fmaxf(FLT_MIN, fminf(FLT_MAX, scale));
}

/* A grid that a rounding refers to must stay. */
static bool is_grid_of_weights(const qg_tape *t, const qg_tape_step *s)
{
    for (size_t i = 0; i < t->n_weight; i++)
        if (t->weight[i].on_grid && t->weight[i].step == (uint32_t)(s - t->step))
            return true;
    return false;
}

/* Scales of weights start at the least squared error. */
static void fit_grids(qg_tape *t)
{
    for (size_t i = 0; i < t->n_weight; i++) {
        const qg_tape_weight *w = &t->weight[i];
        if (w->role != 'w' || !qg_weight_grid_is_own(t, w))
            continue;
        qg_tape_step *s = &t->step[w->step];
        for (size_t c = 0; c < s->n; c++)
            s->scale[c] = qg_weight_grid_scale(t, w, c);
    }
}

static qg_status choose(qg_parameters *w)
{
    const qg_tune_method *m = w->method;
    qg_tape *t = w->tape;
    if (m->weights)
        fit_grids(t);
    for (size_t i = 0; i < t->n_weight; i++) {
        qg_tape_weight *weight = &t->weight[i];
        const bool has_grid =
            weight->step != QG_NONE && qg_tape_has_grid(&t->step[weight->step]);
        if (m->rounding && weight->role == 'w' && has_grid)
            QG_TRY(add_rounding(w, weight));
        else if (weight->role == 'b' ? m->biases : m->weights)
            QG_TRY(add_weight(w, weight));
    }
    for (size_t i = 0; m->steps && i < t->n_step; i++) {
        qg_tape_step *s = &t->step[i];
        if (!s->learned || is_grid_of_weights(t, s))
            continue;
        QG_TRY(add_step(w, s));
        if (s->shifts)
            QG_TRY(add_border(w, s)); /* behind its step: store() reads it */
    }
    return QG_OK;
}

/* --- parameters to the tape, gradients back -------------------------------------- */

static void store_weights(float *restrict to, const double *restrict p, double unit,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(p[i] * unit);
}

/* hard: of roundings. */
static void store(const learned *l, bool hard)
{
    const double *p = l->state.p;
    if (l->kind == ROUNDING)
        qg_soft_rounding_store(&l->rounding, p, hard);
    else if (l->kind == WEIGHT)
        store_weights(l->weight->now.f32, p, l->unit, l->state.n);
    for (size_t i = 0; l->kind == STEP && i < l->state.n; i++)
        l->step->scale[i] = scale_of(l->step, i, p[i]);
    for (size_t i = 0; l->kind == BORDER && i < l->state.n; i++)
        l->step->offset[i] = zero_of(l, i);
}

static void add_weights(double *restrict sum, const float *restrict grad, double unit,
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += (double)grad[i] * unit;
}

/* Something that is done to each element alone. */
typedef struct each {
    const qg_parameters *p;
    const qg_tape *tape; /* that gives gradients */
    size_t t, steps;
} each;

/* Arrays of another tape of the block are found by their place. */
static qg_status add_gradient(void *ud, qg_ctx *ctx, void *state, size_t k)
{
    const each *e = ud;
    const qg_learned_part part = e->p->part.at[k];
    const learned *l = &e->p->array.at[part.array];
    const qg_tape *lead = e->p->tape, *t = e->tape;
    const qg_tape_step *step = l->step ? &t->step[l->step - lead->step] : NULL;
    const float *w = l->weight ? t->weight[l->weight - lead->weight].grad.f32 : NULL;
    const size_t end = part.from + part.n;
    (void)ctx, (void)state;
    if (l->kind == WEIGHT || l->kind == ROUNDING)
        add_weights(l->grad + part.from, w + part.from, l->unit, part.n);
    for (size_t i = part.from; l->kind == STEP && i < end; i++)
        l->grad[i] += step->grad[i] * (double)l->step->scale[i];
    for (size_t i = part.from; l->kind == BORDER && i < end; i++)
        l->grad[i] += step->border_grad[i] * unit_of_border(l->step, i);
    return QG_OK;
}

static qg_optimized part_of(const qg_optimized *s, const qg_learned_part *part)
{
    qg_optimized some = *s;
    some.n = part->n;
    some.p += part->from;
    some.m += part->from;
    some.v = s->v ? s->v + part->from : NULL;
    some.start += part->from;
    return some;
}

static qg_status step_of_part(void *ud, qg_ctx *ctx, void *state, size_t k)
{
    const each *e = ud;
    const qg_learned_part part = e->p->part.at[k];
    const learned *l = &e->p->array.at[part.array];
    const double share = 1 / (double)e->p->n_sample, newest = 1 / (double)e->p->n_mean;
    double *grad = l->grad + part.from, *mean = l->mean + part.from;
    qg_optimized some = part_of(&l->state, &part);
    (void)ctx, (void)state;
    for (size_t i = 0; i < part.n; i++)
        grad[i] *= share;
    if (l->kind == ROUNDING)
        qg_soft_rounding_gradient(&l->rounding, (double)e->t / (double)e->steps, grad);
    qg_optimizer_step(&some, grad, e->t, e->steps);
    for (size_t i = 0; i < part.n; i++)
        mean[i] += (some.p[i] - mean[i]) * newest;
    memset(grad, 0, part.n * sizeof *grad);
    return QG_OK;
}

static qg_status for_each(const qg_parameters *p, each *e,
                          qg_status (*work)(void *ud, qg_ctx *ctx, void *state,
                                            size_t k))
{
    const qg_job job = { .n = p->part.n, .workers = 1, .work = work, .ud = e };
    return qg_tapes_share(p->tapes, &job);
}

/* Elements that stay in the nearest cache.  A rounding is one part: its rows know where
 * they are in the whole. */
enum { PART = 1024 };

static qg_status add_parts(qg_parameters *p, size_t array)
{
    const learned *l = &p->array.at[array];
    const size_t most = l->kind == ROUNDING ? l->state.n : PART;
    for (size_t from = 0, n; from < l->state.n; from += n) {
        n = l->state.n - from < most ? l->state.n - from : most;
        const qg_learned_part part = { array, from, n };
        QG_TRY(qg_vec_push(p->ctx, p->arena, &p->part, part));
    }
    return QG_OK;
}

/* --- the interface --------------------------------------------------------------- */

qg_status qg_parameters_of(qg_parameters *p, qg_tape *t)
{
    p->tape = t;
    QG_TRY(choose(p));
    for (size_t k = 0; k < p->array.n; k++) {
        const learned *l = &p->array.at[k];
        for (size_t i = 0; i < l->state.n; i++)
            l->start[i] = (float)l->state.p[i];
        QG_TRY(add_parts(p, k));
    }
    return QG_OK;
}

void qg_parameters_store(const qg_parameters *p)
{
    for (size_t k = 0; k < p->array.n; k++)
        store(&p->array.at[k], false);
}

qg_status qg_parameters_add(qg_parameters *p, const qg_tape *t)
{
    each e = { .p = p, .tape = t };
    p->n_sample++;
    return for_each(p, &e, add_gradient);
}

qg_status qg_parameters_step(qg_parameters *p, size_t t, size_t steps)
{
    each e = { .p = p, .t = t, .steps = steps };
    p->n_mean++;
    QG_TRY(for_each(p, &e, step_of_part));
    p->n_sample = 0;
    return QG_OK;
}

void qg_parameters_begin_mean(qg_parameters *p)
{
    p->n_mean = 0;
    for (size_t k = 0; k < p->array.n; k++)
        memset(p->array.at[k].mean, 0, p->array.at[k].state.n * sizeof(double));
}

void qg_parameters_store_mean(const qg_parameters *p)
{
    for (size_t k = 0; k < p->array.n; k++) {
        learned l = p->array.at[k];
        l.state.p = l.mean;
        store(&l, true);
    }
}

void qg_parameters_keep_mean(qg_parameters *p)
{
    for (size_t k = 0; k < p->array.n; k++) {
        const learned *l = &p->array.at[k];
        for (size_t i = 0; l->best && i < l->state.n; i++)
            l->best[i] = (float)l->mean[i];
    }
}

void qg_parameters_return_to_kept(qg_parameters *p)
{
    for (size_t k = 0; k < p->array.n; k++) {
        const learned *l = &p->array.at[k];
        for (size_t i = 0; l->best && i < l->state.n; i++)
            l->mean[i] = (double)l->best[i];
    }
}

void qg_parameters_finish(qg_parameters *p)
{
    for (size_t k = 0; k < p->array.n; k++) {
        const learned *l = &p->array.at[k];
        if (l->kind == ROUNDING)
            memcpy(l->mean, l->state.p, l->state.n * sizeof *l->mean);
    }
    for (size_t i = 0; i < p->tape->n_weight; i++)
        p->tape->weight[i].on_grid = false;
    qg_parameters_take(p, 1);
}

void qg_parameters_take(qg_parameters *p, double part)
{
    for (size_t k = 0; k < p->array.n; k++) {
        const learned *l = &p->array.at[k];
        for (size_t i = 0; i < l->state.n; i++) {
            const double start = (double)l->start[i], end = l->mean[i];
            l->state.p[i] = part == 1 ? end : start + part * (end - start);
        }
        store(l, true);
    }
}
