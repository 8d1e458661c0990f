/* found.c -- grids that a trace does not give.
 *
 *     floats    of a value that the program stores as codes: where many are on none of
 *               them, the step that all of them are multiples of
 *     integers  of a value that the program does not store: a line over the real
 *               values, which the step's own inputs give; of the scales that give every
 *               element, those that also give what is computed from the value
 *
 * Such a grid is then treated as one that the trace gives: declared.c tests it.  And
 * values that the program does not store, and that are not what their node makes of the
 * device's own inputs. */
#include <math.h>
#include <string.h>

#include "engine/device/line.h"
#include "engine/device/seen.h"
#include "engine/device/step.h"

/* Elements that are looked at, and samples of which they are. */
enum { MOST = 1 << 15, SAMPLES = 4 };
/* Different elements from which a step is told from its multiples: the quotients by
 * the step have a common divisor by chance with a probability of 2^-12 or so. */
enum { LEVELS = 12 };
/* Share of elements off the program's grid from which another one is looked for, and by
 * how much of a step an element is off. */
#define MANY 0.1
#define OFF  1e-2
/* Scales nearer than this are one. */
#define SAME 1e-5
/* What floats lose, of the range of a value; the share of its elements that are off
 * before it is doubted. */
#define FLOATS  1e-3
#define DOUBTED 5e-4
/* Share of codes that a line must give, but for one code. */
#define FITS 0.99

typedef struct sight {
    qg_device *d;
    const qg_value *v;
    qg_arena *arena;
    double *x, *code; /* [MOST]; code: of integers */
    size_t n;
    double low, high; /* codes */
    size_t elements;  /* of a sample */
    bool fused;       /* real values run through values that only the trace holds */
    double error; /* by which an element of a value that is not doubted can be off */
    uint64_t off, of; /* elements of all samples */
    bool unrounded;   /* floats on no grid */
} sight;

/* The array of the value in the trace, to be given the grid. */
static qg_trace_array *array_of(const sight *s)
{
    const qg_trace *t = s->d->trace;
    return &t->array[s->d->pair[s->v->id].array - t->array];
}

static void give(const sight *s, double scale, double zero)
{
    qg_trace_array *a = array_of(s);
    qg_param_limit step = qg_observer_param_limit(QG_PARAM_STEP);
    if (!(scale >= step.least && scale <= step.most) || fabs(zero) > INT32_MAX)
        return;
    a->grid = a->found = true;
    a->scale = scale;
    a->zero = (int32_t)zero;
    qg_device_refute(s->d, s->v, false);
}

/* --- floats --- */

static qg_status read(sight *s)
{
    const qg_pair *p = &s->d->pair[s->v->id];
    qg_trace_data data;
    QG_TRY(qg_trace_load(s->d->ctx, s->d->trace, p->array, &data));
    qg_arena *sample = qg_arena_new(s->d->ctx->alloc);
    qg_status status = sample ? QG_OK : qg_nomem(s->d->ctx);
    size_t samples =
        s->d->samples < data.array->samples ? s->d->samples : data.array->samples;
    for (size_t i = 0; i < samples && i < SAMPLES && status == QG_OK; i++) {
        double *x;
        qg_arena_reset(sample);
        status = qg_pair_read(s->d->ctx, p, &data, i, sample, &x);
        for (size_t k = 0; status == QG_OK && k < p->array->count && s->n < MOST; k++)
            s->x[s->n++] = x[k];
    }
    qg_arena_free(sample);
    qg_trace_unload(&data);
    return status;
}

/* A mean of codes lies on a part of their step, without being rounded to it. */
static bool is_part(const sight *s, double step)
{
    const qg_node *n = s->v->def;
    for (uint32_t k = 0; n && k < n->n_in; k++) {
        const qg_stored *in =
            n->in[k] ? &s->d->exe.program->stored[n->in[k]->id] : NULL;
        double parts = in && in->codes && in->n == 1 ? (double)in->scale[0] / step : 0;
        double whole = nearbyint(parts);
        if (whole >= 1 && fabs(parts - whole) < SAME * whole)
            return true;
    }
    return false;
}

/* The zero point of the program, or the nearest one with which the codes are codes. */
static double zero_for(const qg_stored *own, double low, double high)
{
    double zero = own->zero[0];
    zero = fmin(zero, own->high - high);
    return fmax(zero, own->low - low);
}

/* Elements that are on no code of the program, as a share of those that tell: 0 and
 * both ends, where clamps hold many elements, are multiples of many steps. */
static double share_off(const sight *s, const qg_stored *own, size_t *off)
{
    size_t n = 0;
    double low = INFINITY, high = -INFINITY;
    *off = 0;
    for (size_t i = 0; i < s->n; i++) {
        low = fmin(low, s->x[i]);
        high = fmax(high, s->x[i]);
    }
    for (size_t i = 0; i < s->n; i++) {
        double q = s->x[i] / (double)own->scale[0];
        n += s->x[i] != 0 && s->x[i] > low && s->x[i] < high;
        *off += !(fabs(q - nearbyint(q)) <= OFF);
    }
    return *off ? (double)*off / (double)(n > *off ? n : *off) : 0;
}

static qg_status find_step(sight *s)
{
    const qg_stored *own = &s->d->exe.program->stored[s->v->id];
    size_t levels;
    QG_TRY(read(s));
    for (size_t i = 0; i < s->n; i++)
        if (isinf(s->x[i]))
            return QG_OK;
    size_t off;
    double share = share_off(s, own, &off);
    if (off && share < MANY)
        return QG_OK;
    double step;
    QG_TRY(qg_seen_step(s->d->ctx, s->arena, s->x, s->n, &levels, &step));
    double ratio = step / (double)own->scale[0];
    if (step > 0 && levels >= LEVELS && !off && fabs(ratio - 1) < SAME)
        give(s, (double)own->scale[0], own->zero[0]); /* they show the program's */
    if (!off ||
        (step > 0 && (levels < LEVELS || fabs(ratio - 1) < SAME || is_part(s, step))))
        return QG_OK;
    double low = step > 0 ? nearbyint(s->x[0] / step) : -INFINITY;
    double high = step > 0 ? nearbyint(s->x[levels - 1] / step) : INFINITY;
    s->unrounded = high - low > own->high - own->low;
    if (!s->unrounded)
        give(s, step, zero_for(own, low, high));
    return QG_OK;
}

/* --- integers --- */

static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs)
{
    sight *s = ud;
    (void)ctx, (void)sample;
    for (size_t i = 0; i < s->elements; i++) {
        s->low = fmin(s->low, theirs[i]);
        s->high = fmax(s->high, theirs[i]);
        if (s->n == MOST)
            continue;
        s->x[s->n] = ours[i];
        s->code[s->n++] = theirs[i];
    }
    return QG_OK;
}

/* The line gives the codes, but for what a kernel rounds otherwise. */
static bool fits(const sight *s, double scale, double zero)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        double q = fmin(fmax(nearbyint(s->x[i] / scale) + zero, s->low), s->high);
        n += fabs(q - s->code[i]) <= 1;
    }
    return (double)n >= FITS * (double)s->n;
}

/* Whether an array that the cut reads is read as other elements than it holds. */
typedef qg_status reads_fn(const sight *s, const qg_cut *c, bool *others);

/* Shows the real values of s->v on the device's own inputs beside its array.  *done:
 * they were computed; not where a kernel refuses, or `reads` (NULL: none) finds other
 * inputs. */
static qg_status see_real(sight *s, const qg_step_see *how, reads_fn *reads, bool *done)
{
    const qg_device *d = s->d;
    const qg_device_step step = { .value = s->v,
                                  .pair = &d->pair[s->v->id],
                                  .stored = &d->exe.program->stored[s->v->id],
                                  .elements = d->pair[s->v->id].array->count };
    qg_cut cut;
    qg_tally tally;
    bool others = false;
    *done = false;
    s->elements = step.elements;
    QG_TRY(qg_step_real(d, &step, s->fused, &cut));
    if (!cut.graph)
        return QG_OK;
    qg_status status = reads ? reads(s, &cut, &others) : QG_OK;
    if (status == QG_OK && !others)
        status = qg_step_try(d, d->ctx, &step, &cut, how, &tally);
    qg_graph_free(cut.graph);
    *done = status == QG_OK && !others;
    return qg_refusal(status);
}

static qg_status find_line(sight *s)
{
    double scale, zero;
    bool done;
    QG_TRY(see_real(s, &(qg_step_see){ see, s, SAMPLES }, NULL, &done));
    if (!done)
        return QG_OK;
    qg_points p = { s->x, s->code, s->n, s->low, s->high };
    array_of(s)->few = qg_line_is_open(&p);
    if (qg_line_fit(&p, &scale, &zero) && fits(s, scale, zero))
        give(s, scale, zero);
    return QG_OK;
}

/* The real values and codes of s; an array whose grid was found is read as numbers. */
static qg_status find_points(sight *s, qg_points *p, bool *any)
{
    const qg_trace_array *a = array_of(s);
    s->x = QG_NEWN(s->arena, MOST, double);
    s->code = QG_NEWN(s->arena, MOST, double);
    if (!s->x || !s->code)
        return qg_nomem(s->d->ctx);
    QG_TRY(see_real(s, &(qg_step_see){ see, s, SAMPLES }, NULL, any));
    *p = (qg_points){ s->x, s->code, s->n, s->low, s->high };
    if (!a->found)
        return QG_OK;
    for (size_t i = 0; i < s->n; i++)
        s->code[i] = nearbyint(s->code[i] / a->scale) + a->zero;
    p->low = nearbyint(s->low / a->scale) + a->zero;
    p->high = nearbyint(s->high / a->scale) + a->zero;
    return QG_OK;
}

/* A value that the program does not store, and whose grid was found in its codes. */
static bool is_found(const qg_device *d, const qg_value *v)
{
    return v->def && d->pair[v->id].array && d->pair[v->id].array->found &&
           !d->stored[v->id];
}

/* The one such value that t is computed from; NULL: none, or others as well. */
static qg_status source_of(const qg_device *d, const qg_device_step *t,
                           const qg_value **out)
{
    qg_cut cut;
    *out = NULL;
    QG_TRY(qg_step_real(d, t, true, &cut));
    const qg_value *v = cut.graph && cut.n_in == 1 ? cut.in[0] : NULL;
    *out = v && is_found(d, v) ? v : NULL;
    qg_graph_free(cut.graph);
    return QG_OK;
}

/* With the scale b of v, the real values of t are in proportion to it (a Relu; where
 * they are not, no or any scale suits): t's codes have a scale s' for these, so that
 * b s / s' is the scale of v with which they are on t's own, s. */
static qg_status narrow(qg_device *d, qg_arena *a, const qg_device_step *t)
{
    const qg_value *v;
    double low, high, least, most;
    qg_points p;
    bool any = false;
    QG_TRY(source_of(d, t, &v));
    if (!v || !t->pair->grid.codes)
        return QG_OK;
    sight own = { .d = d, .v = v, .arena = a, .low = INFINITY, .high = -INFINITY };
    sight of = own;
    const double b = array_of(&own)->scale, s = (double)t->pair->grid.scale[0];
    of.v = t->value;
    of.fused = true;
    QG_TRY(find_points(&own, &p, &any));
    any = any && qg_line_scales(&p, array_of(&own)->zero, &low, &high);
    if (any)
        QG_TRY(find_points(&of, &p, &any));
    if (!any || !qg_line_scales(&p, t->pair->grid.zero[0], &least, &most))
        return QG_OK;
    low = fmax(low, b * s / most);
    high = fmin(high, b * s / least);
    if (low < high)
        give(&own, qg_line_shortest(low, high), array_of(&own)->zero);
    return QG_OK;
}

static qg_status narrow_all(qg_device *d)
{
    bool any = false;
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        any |= is_found(d, d->m->graph->value.at[i]);
    for (size_t i = 0; any && i < d->n_step; i++) {
        qg_arena *a = qg_arena_new(d->ctx->alloc);
        qg_status s = a ? narrow(d, a, &d->step[i]) : qg_nomem(d->ctx);
        qg_arena_free(a);
        QG_TRY(s);
    }
    return QG_OK;
}

/* --- values inside of a kernel --- */

/* By how much a value that a device rounds once can be off: a step of its grid, where
 * it has one, else what floats lose. */
static qg_status find_error(sight *s)
{
    const qg_trace_array *a = array_of(s);
    double *sorted = QG_NEWN(s->arena, s->n + 1, double), low = INFINITY,
           high = -INFINITY;
    size_t levels;
    if (!sorted)
        return qg_nomem(s->d->ctx);
    memcpy(sorted, s->code, s->n * sizeof *sorted);
    for (size_t i = 0; i < s->n; i++) {
        low = fmin(low, s->x[i]);
        high = fmax(high, s->x[i]);
    }
    double step = a->scale;
    if (!a->grid)
        QG_TRY(qg_seen_step(s->d->ctx, s->arena, sorted, s->n, &levels, &step));
    s->error = fmax(1.01 * step, FLOATS * (high - low));
    return QG_OK;
}

/* Whether an array of floats that the cut reads is not on the program's grid, so that
 * its elements are read as others; those of a dump of what quantizers read are read as
 * these round them. */
static qg_status reads_others(const sight *s, const qg_cut *c, bool *out)
{
    size_t off;
    *out = false;
    for (size_t i = 0; !s->d->unrounded && i < c->n_in && !*out; i++) {
        const qg_value *v = c->in[i];
        const qg_pair *p = &s->d->pair[v->id];
        const qg_stored *own = &s->d->exe.program->stored[v->id];
        sight in = { .d = s->d, .v = v, .arena = s->arena };
        if (!p->array || qg_trace_holds_codes(p->array) || !own->codes || own->n != 1)
            continue;
        in.x = QG_NEWN(s->arena, MOST, double);
        if (!in.x)
            return qg_nomem(s->d->ctx);
        QG_TRY(read(&in));
        (void)share_off(&in, own, &off);
        *out = off > 0;
    }
    return QG_OK;
}

/* Elements that are off although no clamp of a grid holds them. */
static qg_status see_off(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                         const double *theirs)
{
    sight *s = ud;
    bool grid = array_of(s)->grid;
    (void)ctx, (void)sample;
    for (size_t i = 0; i < s->elements; i++)
        s->off += fabs(ours[i] - theirs[i]) > s->error &&
                  (!grid || (theirs[i] > s->low && theirs[i] < s->high));
    s->of += s->elements;
    return QG_OK;
}

/* Whether the device's elements are not what the node makes of the device's inputs. */
static qg_status find_doubt(sight *s, bool *doubt)
{
    bool done;
    QG_TRY(see_real(s, &(qg_step_see){ see, s, 0 }, reads_others, &done));
    if (!done)
        return QG_OK;
    QG_TRY(find_error(s));
    QG_TRY(see_real(s, &(qg_step_see){ see_off, s, 0 }, NULL, &done));
    *doubt = done && (double)s->off > DOUBTED * (double)s->of;
    return QG_OK;
}

/* Values that only the device stores, and that are wrong already, explain what comes
 * behind them whatever the fault is.  A grid that was fitted to what the node computes
 * is no doubt. */
static qg_status doubt(qg_device *d, const qg_value *v)
{
    qg_pair *p = &d->pair[v->id];
    bool numbers = p->array && !p->array->found &&
                   (p->array->grid || !qg_trace_holds_codes(p->array));
    bool is = false;
    sight s = { .d = d, .v = v, .low = INFINITY, .high = -INFINITY };
    if (!numbers || d->stored[v->id] || v->type.dtype != QG_F32 || !v->def)
        return QG_OK;
    s.arena = qg_arena_new(d->ctx->alloc);
    s.x = s.arena ? QG_NEWN(s.arena, MOST, double) : NULL;
    s.code = s.x ? QG_NEWN(s.arena, MOST, double) : NULL;
    qg_status status = s.code ? find_doubt(&s, &is) : qg_nomem(d->ctx);
    qg_arena_free(s.arena);
    p->doubted = is ? p->array : NULL;
    return status;
}

void qg_device_hide_doubted(qg_device *d)
{
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        if (d->pair[i].doubted) {
            d->pair[i].array = NULL;
            d->known[i] = 0;
        }
}

/* --- inputs --- */

/* Whether one sample of the array is that of input k of the network. */
static qg_status is_sample(sight *s, uint32_t k, const qg_trace_data *data,
                           size_t sample, bool *is)
{
    const qg_device *d = s->d;
    const qg_feed *feed = &d->feed.feed;
    qg_arena *a = qg_arena_new(d->ctx->alloc);
    const qg_tensor **fed =
        a ? QG_NEWN(a, d->exe.graph->input.n, const qg_tensor *) : NULL;
    double *x = NULL;
    qg_status status =
        fed ? feed->fetch(feed->ud, d->ctx, a, sample, fed) : qg_nomem(d->ctx);
    if (status == QG_OK)
        status = qg_pair_read(d->ctx, &d->pair[s->v->id], data, sample, a, &x);
    *is = status == QG_OK && fed[k]->dtype == QG_F32 &&
          qg_tensor_count(fed[k]) == (int64_t)data->array->count;
    for (size_t i = 0; *is && i < data->array->count; i++)
        *is = (float)x[i] == fed[k]->f32[i];
    qg_arena_free(a);
    return status;
}

/* Whether floats of an input are those that the network is fed: the device rounds them
 * later, and they show no grid. */
static qg_status find_fed(sight *s)
{
    qg_device *d = s->d;
    uint32_t k = 0;
    qg_trace_data data;
    bool is = true;
    while (k < d->m->graph->input.n && d->m->graph->input.at[k] != s->v)
        k++;
    if (k == d->m->graph->input.n)
        return QG_OK;
    QG_TRY(qg_trace_load(d->ctx, d->trace, d->pair[s->v->id].array, &data));
    qg_status status = QG_OK;
    for (size_t i = 0; is && i < d->samples && i < SAMPLES && status == QG_OK; i++)
        status = is_sample(s, k, &data, i, &is);
    qg_trace_unload(&data);
    d->pair[s->v->id].fed = is && d->samples > 0;
    return status;
}

/* --- all --- */

/* Float arrays of values that the program stores as codes. */
typedef struct census {
    size_t of, unrounded;
} census;

static qg_status look(qg_device *d, const qg_value *v, census *c)
{
    const qg_pair *p = &d->pair[v->id];
    const qg_stored *own = &d->exe.program->stored[v->id];
    bool codes = p->array && qg_trace_holds_codes(p->array);
    bool floats = p->array && !codes && own->codes && own->n == 1;
    bool inner = codes && !own->codes && v->type.dtype == QG_F32 && v->def;
    sight s = { .d = d, .v = v, .low = INFINITY, .high = -INFINITY };
    if (floats)
        QG_TRY(find_fed(&s));
    if (!p->array || p->array->grid || p->fed || (!floats && !inner))
        return QG_OK;
    s.arena = qg_arena_new(d->ctx->alloc);
    s.x = s.arena ? QG_NEWN(s.arena, MOST, double) : NULL;
    s.code = s.x ? QG_NEWN(s.arena, MOST, double) : NULL;
    qg_status status = !s.code  ? qg_nomem(d->ctx)
                       : floats ? find_step(&s)
                                : find_line(&s);
    qg_arena_free(s.arena);
    c->of += floats;
    c->unrounded += s.unrounded;
    return status;
}

qg_status qg_device_find_grids(qg_device *d)
{
    census c = { 0 };
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        QG_TRY(look(d, d->m->graph->value.at[i], &c));
    d->unrounded = 2 * c.unrounded > c.of;
    QG_TRY(narrow_all(d));
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        QG_TRY(doubt(d, d->m->graph->value.at[i]));
    return QG_OK;
}
