/* reconstruct.c -- the loop of reconstruct.h.  Parameters are kept in double, in their
 * own units, apart from the float32 arrays of the tape; store() writes them there
 * before a forward, load() converts the gradients of the tape after a backward:
 *
 *     kind       parameter p       on the tape               dL/dp
 *     WEIGHT     w / unit          w = p unit                dL/dw unit
 *     STEP       ln(s / start)     s = start e^p             dL/ds s
 *     ROUNDING   V                 w = s (floor + h(V))      dL/dw s h'(V) + penalty
 *
 * The logarithm keeps a scale positive, and makes a change relative.  Where a code is
 * limited by the range of the scheme, dL/dw of a rounding is 0. */
#include "engine/learn/reconstruct.h"

#include <math.h>
#include <string.h>

#include "engine/core/vec.h"
#include "engine/learn/optimizer.h"

const qg_tune_method qg_tune_methods[] = {
#define METHOD(id, ...) { __VA_ARGS__ },
#include "engine/learn/method.def"
#undef METHOD
    { 0 }
};

const qg_tune_method *qg_tune_method_named(const char *name)
{
    for (const qg_tune_method *m = qg_tune_methods; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

bool qg_is_held_back(size_t i, size_t n) { return n < 4 || i % 4 == 3; }
static bool teaches(size_t i, size_t n) { return n < 4 || i % 4 != 3; }

/* --- what is learned ------------------------------------------------------------- */

/* A step is the logarithm of its ratio to the start, within a factor of e^3. */
enum kind { WEIGHT, STEP, ROUNDING };

/* One array of parameters. */
typedef struct learned {
    enum kind kind;
    qg_tape_weight *weight; /* WEIGHT, ROUNDING */
    qg_tape_step *step;     /* STEP; of the weight's grid for ROUNDING */
    qg_adam adam;
    double *grad;  /* [n] */
    double unit;   /* WEIGHT: p is in it */
    double *floor; /* ROUNDING: [n] the code below */
} learned;

typedef struct work {
    qg_reconstruction *r;
    qg_arena *arena;
    QG_VEC(learned) learned;
    const qg_tensor **in, **grad; /* of the tape */
    qg_tensor *grad_at;           /* [n_out] */
    size_t *pupil, n_pupil;       /* samples that teach */
} work;

static double rms(const qg_tensor *t)
{
    double sum = 0;
    const int64_t n = qg_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        sum += (double)t->f32[i] * (double)t->f32[i];
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

static double unit_of(const qg_tape *t, const qg_tape_weight *w)
{
    const qg_tape_step *s = w->step == QG_NONE ? NULL : &t->step[w->step];
    double sum = 0;
    for (size_t i = 0; w->role == 'w' && s && i < s->n; i++)
        sum += (double)s->scale[i];
    if (sum > 0)
        return sum / (double)s->n;
    const double size = rms(&w->start) / 16;
    return size > 0 ? size : 1e-3;
}

static qg_status add(work *w, learned l, size_t n)
{
    l.adam = qg_adam_new(w->arena, n, w->r->rate);
    l.grad = QG_NEWN(w->arena, n, double);
    if (!l.adam.p || !l.grad)
        return qg_nomem(w->r->ctx);
    return qg_vec_push(w->r->ctx, w->arena, &w->learned, l);
}

/* The published stretch of the sigmoid. */
static const double ZETA = 1.1, GAMMA = -0.1;

static double h_of(double v)
{
    const double h = (ZETA - GAMMA) / (1 + exp(-v)) + GAMMA;
    return h < 0 ? 0 : h > 1 ? 1 : h;
}

/* V that gives the fraction f; away from the ends, where h has no slope. */
static double v_of(double f)
{
    f = f < 0.001 ? 0.001 : f > 0.999 ? 0.999 : f;
    return -log((ZETA - GAMMA) / (f - GAMMA) - 1);
}

/* The scale of element i. */
static size_t channel_of(const learned *l, const qg_learned_layer *at, size_t i)
{
    return l->step->n > 1 ? i / at->inner % at->channels : 0;
}

static double scale_of(const learned *l, const qg_learned_layer *at, size_t i)
{
    return (double)l->step->scale[channel_of(l, at, i)];
}

static qg_status add_rounding(work *w, qg_tape_weight *weight)
{
    learned l = { .kind = ROUNDING,
                  .weight = weight,
                  .step = &w->r->tape->step[weight->step] };
    const size_t n = (size_t)qg_tensor_count(&weight->start);
    const qg_learned_layer at = qg_tape_layer(l.step, &weight->start);
    l.floor = QG_NEWN(w->arena, n, double);
    if (!l.floor)
        return qg_nomem(w->r->ctx);
    QG_TRY(add(w, l, n));
    learned *added = &w->learned.at[w->learned.n - 1];
    for (size_t i = 0; i < n; i++) {
        const double code = (double)weight->now.f32[i] / scale_of(&l, &at, i);
        l.floor[i] = floor(code);
        added->adam.p[i] = v_of(code - l.floor[i]);
    }
    weight->on_grid = true;
    return QG_OK;
}

static qg_status add_weight(work *w, qg_tape_weight *weight)
{
    const size_t n = (size_t)qg_tensor_count(&weight->start);
    learned l = { .kind = WEIGHT,
                  .weight = weight,
                  .unit = unit_of(w->r->tape, weight) };
    QG_TRY(add(w, l, n));
    for (size_t i = 0; i < n; i++)
        w->learned.at[w->learned.n - 1].adam.p[i] = (double)weight->now.f32[i] / l.unit;
    return QG_OK;
}

static qg_status add_step(work *w, qg_tape_step *step)
{
    QG_TRY(add(w, (learned){ .kind = STEP, .step = step }, step->n));
    for (size_t i = 0; i < step->n; i++)
        w->learned.at[w->learned.n - 1].adam.p[i] =
            log((double)step->scale[i] / (double)step->start[i]);
    return QG_OK;
}

/* A grid that a rounding refers to must stay. */
static bool is_grid_of_weights(const qg_tape *t, const qg_tape_step *s)
{
    for (size_t i = 0; i < t->n_weight; i++)
        if (t->weight[i].on_grid && t->weight[i].step == (uint32_t)(s - t->step))
            return true;
    return false;
}

static qg_status choose(work *w)
{
    const qg_tune_method *m = w->r->method;
    qg_tape *t = w->r->tape;
    for (size_t i = 0; i < t->n_weight; i++) {
        qg_tape_weight *weight = &t->weight[i];
        const bool has_grid =
            weight->step != QG_NONE && qg_tape_has_grid(&t->step[weight->step]);
        if (m->rounding && weight->role == 'w' && has_grid)
            QG_TRY(add_rounding(w, weight));
        else if (weight->role == 'b' ? m->biases : m->weights)
            QG_TRY(add_weight(w, weight));
    }
    for (size_t i = 0; m->steps && i < t->n_step; i++)
        if (t->step[i].learned && !is_grid_of_weights(t, &t->step[i]))
            QG_TRY(add_step(w, &t->step[i]));
    return QG_OK;
}

/* --- parameters to the tape, gradients back -------------------------------------- */

/* The code of element i, as a distance from its zero point, within the range. */
static double limited(const learned *l, const qg_learned_layer *at, size_t i,
                      double code)
{
    const int32_t *offset = qg_tqc_param(l->step->root).offset;
    const double zero = offset ? (double)offset[channel_of(l, at, i)] : 0;
    const double low = (double)l->step->root->scheme.qmin - zero;
    const double high = (double)l->step->root->scheme.qmax - zero;
    return code < low ? low : code > high ? high : code;
}

/* hard: V >= 0 rounds up. */
static void store(const learned *l, bool hard)
{
    qg_learned_layer at = { 0 };
    if (l->kind == ROUNDING)
        at = qg_tape_layer(l->step, &l->weight->start);
    for (size_t i = 0; i < l->adam.n; i++) {
        const double p = l->adam.p[i];
        if (l->kind == WEIGHT)
            l->weight->now.f32[i] = (float)(p * l->unit);
        else if (l->kind == STEP)
            l->step->scale[i] = l->step->start[i] * (float)exp(fmax(-3, fmin(3, p)));
        else
            l->weight->now.f32[i] =
                (float)(scale_of(l, &at, i) *
                        limited(l, &at, i, l->floor[i] + (hard ? p >= 0 : h_of(p))));
    }
}

static double beta_of(double part) { return 2 + 18 * (1 - (part - 0.2) / 0.8); }

/* part: of the steps, 0 to 1. */
static void load_rounding(const learned *l, double part)
{
    const qg_learned_layer at = qg_tape_layer(l->step, &l->weight->start);
    const double beta = beta_of(part);
    for (size_t i = 0; i < l->adam.n; i++) {
        const double v = l->adam.p[i], h = h_of(v), sigmoid = 1 / (1 + exp(-v));
        const double code = l->floor[i] + h;
        const bool inside = h > 0 && h < 1;
        const double slope = inside ? (ZETA - GAMMA) * sigmoid * (1 - sigmoid) : 0;
        double g = limited(l, &at, i, code) == code
                       ? (double)l->weight->grad.f32[i] * scale_of(l, &at, i)
                       : 0;
        const double u = 2 * h - 1;
        if (part > 0.2 && u != 0)
            g -= 0.01 * beta * pow(fabs(u), beta - 1) * (u > 0 ? 2 : -2);
        l->grad[i] = g * slope;
    }
}

static void load(const learned *l, double part)
{
    if (l->kind == ROUNDING)
        load_rounding(l, part);
    for (size_t i = 0; l->kind != ROUNDING && i < l->adam.n; i++)
        l->grad[i] = l->kind == WEIGHT ? (double)l->weight->grad.f32[i] * l->unit
                                       : l->step->grad[i] * (double)l->step->scale[i];
}

/* --- loss ------------------------------------------------------------------------ */

/* Noise and signal of one output. */
static void powers(const qg_tensor *y, const qg_tensor *f, double *noise,
                   double *signal)
{
    for (int64_t i = 0, n = qg_tensor_count(y); i < n; i++) {
        const double d = (double)y->f32[i] - (double)f->f32[i];
        *noise += d * d;
        *signal += (double)f->f32[i] * (double)f->f32[i];
    }
}

static const qg_tensor *target(const work *w, size_t k, size_t sample)
{
    return qg_stream_value(w->r->stream, w->r->tape->out[k], QG_LANE_FLOAT, sample);
}

static bool counts(const qg_tensor *y) { return y->dtype == QG_F32; }

static qg_status forward(work *w, size_t sample)
{
    qg_stream_inputs(w->r->stream, w->r->tape, QG_LANE_NOW, sample, w->in);
    return qg_tape_forward(w->r->tape, w->in);
}

/* On the samples held back. */
static qg_status judge(work *w, double *out)
{
    const qg_tape *t = w->r->tape;
    const size_t n = w->r->stream->n;
    double *power = QG_NEWN(w->arena, 2 * t->n_out, double);
    if (!power)
        return qg_nomem(w->r->ctx);
    for (size_t i = 0; i < n; i++) {
        if (!qg_is_held_back(i, n))
            continue;
        QG_TRY(forward(w, i));
        for (size_t k = 0; k < t->n_out; k++)
            if (counts(qg_tape_output(t, k)))
                powers(qg_tape_output(t, k), target(w, k, i), &power[2 * k],
                       &power[2 * k + 1]);
    }
    *out = 0;
    for (size_t k = 0; k < t->n_out; k++)
        *out += power[2 * k + 1] > 0 ? power[2 * k] / power[2 * k + 1] : 0;
    return QG_OK;
}

static qg_status gradient_of_output(work *w, size_t k, size_t sample)
{
    const qg_tensor *y = qg_tape_output(w->r->tape, k), *f = target(w, k, sample);
    double noise = 0, signal = 0;
    w->grad[k] = NULL;
    if (!counts(y))
        return QG_OK;
    qg_tensor *g = &w->grad_at[k];
    if (!g->data || !qg_same_dims(g, y)) {
        qg_tensor_init(g, QG_F32, y->rank, y->dim);
        QG_TRY(qg_tensor_alloc(w->r->ctx, w->arena, g));
    }
    powers(y, f, &noise, &signal);
    const int64_t n = qg_tensor_count(y);
    const double channels = y->rank > 1 ? (double)y->dim[1] : 1;
    const double by = w->r->method->rounding ? channels / (double)(n ? n : 1)
                      : signal > 0           ? 1 / signal
                                             : 0;
    for (int64_t i = 0; i < n; i++)
        g->f32[i] = (float)(2 * by * ((double)y->f32[i] - (double)f->f32[i]));
    w->grad[k] = g;
    return QG_OK;
}

static qg_status step(work *w, size_t t)
{
    qg_reconstruction *r = w->r;
    const size_t sample = w->pupil[qg_rng_below(&r->rng, w->n_pupil)];
    for (size_t i = 0; i < w->learned.n; i++)
        store(&w->learned.at[i], false);
    QG_TRY(forward(w, sample));
    for (size_t k = 0; k < r->tape->n_out; k++)
        QG_TRY(gradient_of_output(w, k, sample));
    QG_TRY(qg_tape_backward(r->tape, w->grad));
    for (size_t i = 0; i < w->learned.n; i++) {
        load(&w->learned.at[i], (double)t / (double)r->steps);
        qg_adam_step(&w->learned.at[i].adam, w->learned.at[i].grad, t, r->steps);
    }
    return QG_OK;
}

/* --- all ------------------------------------------------------------------------- */

static qg_status prepare(work *w)
{
    const qg_tape *t = w->r->tape;
    const size_t n = w->r->stream->n;
    w->in = QG_NEWN(w->arena, t->n_in, const qg_tensor *);
    w->grad = QG_NEWN(w->arena, t->n_out, const qg_tensor *);
    w->grad_at = QG_NEWN(w->arena, t->n_out, qg_tensor);
    w->pupil = QG_NEWN(w->arena, n, size_t);
    if (!w->in || !w->grad || !w->grad_at || !w->pupil)
        return qg_nomem(w->r->ctx);
    for (size_t i = 0; i < n; i++)
        if (teaches(i, n))
            w->pupil[w->n_pupil++] = i;
    return QG_OK;
}

static qg_status run(work *w)
{
    qg_reconstruction *r = w->r;
    QG_TRY(prepare(w));
    QG_TRY(judge(w, &r->before));
    r->after = r->before;
    r->kept = false;
    QG_TRY(choose(w));
    if (!w->learned.n)
        return QG_OK;
    for (size_t t = 1; t <= r->steps; t++) {
        QG_TRY(step(w, t));
        QG_TRY(qg_ctx_step(r->ctx, r->progress, "tune", r->done + t, r->total));
    }
    for (size_t i = 0; i < w->learned.n; i++)
        store(&w->learned.at[i], true);
    for (size_t i = 0; i < r->tape->n_weight; i++)
        r->tape->weight[i].on_grid = false;
    QG_TRY(judge(w, &r->after));
    r->kept = r->after < r->before;
    if (!r->kept)
        qg_tape_reset(r->tape);
    return QG_OK;
}

qg_status qg_reconstruct(qg_reconstruction *r)
{
    work w = { .r = r, .arena = qg_arena_new(r->ctx->alloc) };
    qg_status s = w.arena ? run(&w) : qg_nomem(r->ctx);
    qg_arena_free(w.arena);
    return s;
}
