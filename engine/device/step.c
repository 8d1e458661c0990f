#include "engine/device/step.h"

#include <math.h>
#include <string.h>

#include "engine/number/round.h"

/* Floats that differ by less are equal: results of other orders of sums. */
#define FLOAT_TOLERANCE 1e-5
/* Steps by which a float may miss a code. */
#define GRID_TOLERANCE 1e-2

/* --- numbers --- */

/* All elements of a plain tensor as float64; usual types without a call per element. */
static void widen(const qg_tensor *t, double *out)
{
    size_t n = (size_t)qg_tensor_count(t);
    switch (t->dtype) {
    case QG_I8:
        for (size_t i = 0; i < n; i++)
            out[i] = t->i8[i];
        break;
    case QG_U8:
        for (size_t i = 0; i < n; i++)
            out[i] = t->u8[i];
        break;
    case QG_F32:
        for (size_t i = 0; i < n; i++)
            out[i] = (double)t->f32[i];
        break;
    default:
        for (size_t i = 0; i < n; i++)
            out[i] = qg_tensor_f64(t, (int64_t)i);
    }
}

/* What was read, for messages: an array of the trace, or NULL and a value. */
typedef struct origin {
    const qg_trace *trace;
    const char *name;
} origin;

/* QG_EDATA about element i. */
static qg_status unfit(qg_ctx *ctx, const origin *from, size_t i, double x,
                       qg_dtype type)
{
    if (!from->trace)
        return qg_fail(
            ctx, QG_EDATA,
            "device: value '%.1000s': element %zu is %g, expected an integer "
            "of %s",
            from->name, i, x, qg_dtype_name(type));
    return qg_fail(
        ctx, QG_EDATA,
        "read %.200s: array '%.1000s': element %zu is %g, expected an integer "
        "of %s, or the grid of its codes in trace.json",
        from->trace->path, from->name, i, x, qg_dtype_name(type));
}

/* x as elements of t; QG_EDATA: an element that t's type does not hold. */
static qg_status narrow(qg_ctx *ctx, const origin *from, const double *x, qg_tensor *t)
{
    size_t n = (size_t)qg_tensor_count(t);
    bool floats = qg_dtype_kind_of(t->dtype) == QG_KIND_FLOAT;
    unsigned bits = qg_dtype_bits(t->dtype);
    double span = ldexp(1, (int)bits);
    double low = qg_dtype_kind_of(t->dtype) == QG_KIND_INT ? -span / 2 : 0;
    for (size_t i = 0; i < n; i++) {
        if (!floats && (x[i] != floor(x[i]) || x[i] < low || x[i] >= low + span))
            return unfit(ctx, from, i, x[i], t->dtype);
        switch (t->dtype) {
        case QG_I8:
            t->i8[i] = (int8_t)x[i];
            break;
        case QG_U8:
            t->u8[i] = (uint8_t)x[i];
            break;
        case QG_I16:
            t->i16[i] = (int16_t)x[i];
            break;
        case QG_U16:
            t->u16[i] = (uint16_t)x[i];
            break;
        case QG_I32:
            t->i32[i] = (int32_t)x[i];
            break;
        case QG_I64:
            t->i64[i] = (int64_t)x[i];
            break;
        case QG_BOOL:
            t->u8[i] = x[i] != 0;
            break;
        case QG_F32:
            t->f32[i] = (float)x[i];
            break;
        case QG_F64:
            t->f64[i] = x[i];
            break;
        default:
            return qg_fail(
                ctx, QG_EUNSUPPORTED,
                "device: value '%.1000s' is %s, expected integers or float32",
                from->name, qg_dtype_name(t->dtype));
        }
    }
    return QG_OK;
}

/* Floats become the nearest codes, from low to high; those that are none are added to
 * *off.  One scale: pairs have no grid per channel. */
static void to_codes(const qg_stored *g, double low, double high, double *x, size_t n,
                     uint64_t *off)
{
    for (size_t i = 0; i < n; i++) {
        double q = x[i] / (double)g->scale[0] + g->zero[0];
        x[i] = qg_round_f64(QG_ROUND_HALF_EVEN, q);
        *off += fabs(q - x[i]) > GRID_TOLERANCE;
        x[i] = fmin(fmax(x[i], low), high);
    }
}

/* The reverse: codes become (code - zero) scale, in float64. */
static void to_real(const qg_stored *g, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - g->zero[0]) * (double)g->scale[0];
}

/* --- a run of one step --- */

/* A cut with its plan and open files, for the samples one after another.  In worker
 * threads each trial has its own; d is only read.  A cut of the program reads codes,
 * one of the model (real) what they stand for. */
typedef struct trial {
    const qg_device *d;
    qg_ctx *ctx;
    const qg_device_step *s;
    const qg_cut *c;
    bool real;                /* the cut is of the model: its inputs are real values */
    bool as_input;            /* the target's elements are read as inputs are */
    qg_arena *arena, *sample; /* of the trial, of a sample */
    qg_trace_data theirs, *data; /* of the target; [n_in] */
    qg_tensor *in;               /* [n_in] */
    const qg_tensor **view;      /* [n_in] */
    qg_plan *plan;
    qg_run *run;
} trial;

/* The elements of a paired value in one sample, in t->sample: codes of the program's
 * type where its grid has codes, else floats.  Floats that lie beyond a clamp of their
 * node become codes that the type does not have, which differ from ours, unless they
 * are read as an input.  off: elements on no code are added. */
static qg_status read_theirs(const trial *t, const qg_pair *p,
                             const qg_trace_data *data, size_t sample, uint64_t *off,
                             double **out)
{
    const qg_trace_array *from = p->array;
    bool beyond = p == t->s->pair && !t->as_input;
    QG_TRY(qg_pair_read(t->ctx, p, data, sample, t->sample, out));
    for (size_t i = 0; p->grid.codes && i < from->count; i++)
        if (isinf((*out)[i]))
            return qg_fail(t->ctx, QG_EDATA,
                           "read array '%.1000s': element %zu of sample %zu is %g, "
                           "expected a finite number, since the value has a grid",
                           from->value, i, sample, (*out)[i]);
    if (p->grid.codes && !qg_trace_holds_codes(from))
        to_codes(&p->grid, beyond ? p->low : p->grid.low,
                 beyond ? p->high : p->grid.high, *out, from->count, off);
    for (size_t i = 0; p->shift && i < from->count; i++)
        (*out)[i] += p->shift;
    for (size_t i = 0; p->real && i < from->count; i++)
        (*out)[i] = ((*out)[i] - from->zero) * from->scale;
    return QG_OK;
}

/* The array of an input of the cut; NULL: an input of the network. */
static const qg_pair *pair_of(const trial *t, const qg_value *at)
{
    const qg_device *d = t->d;
    uint32_t id = t->real ? at->id : d->model[at->id];
    if (t->real)
        return d->pair[id].array ? &d->pair[id] : NULL;
    return d->stop[at->id] && id != QG_NONE ? &d->pair[id] : NULL;
}

/* Opens the arrays that the cut reads and that of the target.  After a failure
 * close_trial frees what was opened. */
static qg_status open_trial(trial *t)
{
    size_t n = t->c->n_in;
    t->arena = qg_arena_new(t->ctx->alloc);
    t->sample = qg_arena_new(t->ctx->alloc);
    if (!t->arena || !t->sample)
        return qg_nomem(t->ctx);
    t->data = QG_NEWN(t->arena, n, qg_trace_data);
    t->in = QG_NEWN(t->arena, n, qg_tensor);
    t->view = QG_NEWN(t->arena, n, const qg_tensor *);
    if (!t->data || !t->in || !t->view)
        return qg_nomem(t->ctx);
    QG_TRY(qg_trace_load(t->ctx, t->d->trace, t->s->pair->array, &t->theirs));
    for (size_t i = 0; i < n; i++) {
        const qg_pair *p = pair_of(t, t->c->in[i]);
        t->in[i] = t->c->graph->input.at[i]->type;
        if (p)
            QG_TRY(qg_trace_load(t->ctx, t->d->trace, p->array, &t->data[i]));
    }
    qg_plan_options o = { .mode = QG_MODE_FLOAT,
                          .reference = t->d->work.reference_kernels };
    QG_TRY(qg_plan_new(t->ctx, t->c->graph, &o, &t->plan));
    return qg_run_new(t->ctx, t->plan, &t->run);
}

static void close_trial(trial *t)
{
    qg_run_free(t->run);
    qg_plan_free(t->plan);
    for (size_t i = 0; t->data && i < t->c->n_in; i++)
        qg_trace_unload(&t->data[i]);
    qg_trace_unload(&t->theirs);
    qg_arena_free(t->sample);
    qg_arena_free(t->arena);
}

/* The position of v among the inputs of g, by name: cuts of the model read them,
 * too. */
static bool is_input(const qg_graph *g, const qg_value *v, uint32_t *out)
{
    for (uint32_t k = 0; k < g->input.n; k++)
        if (strcmp(g->input.at[k]->name, v->name) == 0) {
            *out = k;
            return true;
        }
    return false;
}

/* The grid on which reader n rounds slot k; out->codes false: it does not. */
static qg_stored slot_grid(const qg_node *n, uint32_t k)
{
    const qg_tqc *t = qg_input_tqc(n, k);
    qg_qparam p = t && qg_tqc_rounds(t) ? qg_tqc_param(t) : (qg_qparam){ 0 };
    static const int32_t none = 0;
    bool linear = p.n == 1 && t->scheme.policy & QG_LINEAR;
    return (qg_stored){ .codes = linear,
                        .n = 1,
                        .scale = p.scale,
                        .zero = p.offset ? p.offset : &none,
                        .low = linear ? t->scheme.qmin : 0,
                        .high = linear ? t->scheme.qmax : 0 };
}

/* The grid of v for a cut of the model: that of its storage; of floats, that on which
 * all nodes of the cut that read them round them.  codes false: none. */
static qg_stored read_grid(const trial *t, const qg_value *v)
{
    qg_stored g = t->d->exe.program->stored[v->id];
    bool first = true;
    for (size_t i = 0; !t->d->exe.program->stored[v->id].codes && i < t->c->n_node; i++)
        for (uint32_t k = 0; k < t->c->node[i]->n_in; k++) {
            if (t->c->node[i]->in[k] != v)
                continue;
            qg_stored own = slot_grid(t->c->node[i], k);
            if (first)
                g = own;
            g.codes = g.codes && own.codes && own.scale[0] == g.scale[0] &&
                      own.zero[0] == g.zero[0];
            first = false;
        }
    return g;
}

/* An input of the network; for real values it lies on the grid of its codes, because
 * the device has quantized it. */
static qg_status take_fed(trial *t, size_t i, const qg_tensor *fed)
{
    size_t n = (size_t)qg_tensor_count(fed);
    uint64_t off = 0; /* nobody asks how many values were off the grid */
    t->view[i] = fed;
    if (!t->real)
        return QG_OK;
    const qg_stored g = read_grid(t, t->c->in[i]);
    double *x = QG_NEWN(t->sample, n, double);
    t->in[i].data = NULL;
    if (!x)
        return qg_nomem(t->ctx);
    QG_TRY(qg_tensor_alloc(t->ctx, t->sample, &t->in[i]));
    widen(fed, x);
    if (g.codes && fed->dtype == QG_F32) {
        to_codes(&g, g.low, g.high, x, n, &off);
        to_real(&g, x, n);
    }
    t->view[i] = &t->in[i];
    return narrow(t->ctx, &(origin){ NULL, t->c->in[i]->name }, x, &t->in[i]);
}

/* Whether the elements of an array are those of a tensor of this type as they are. */
static bool is_direct(const trial *t, const qg_pair *p, qg_dtype type)
{
    return !t->real && !p->real && !p->shift && p->array->type.dtype == type &&
           qg_trace_holds_codes(p->array) && qg_tensor_is_plain(&p->view);
}

/* The elements of sample k as they are in the file. */
static qg_status read_raw(const trial *t, const qg_trace_data *data, size_t sample,
                          void *out)
{
    size_t n = data->array->count;
    return qg_npy_read(t->ctx, &data->npy, sample * n, n, out);
}

/* Inputs of the network come from the samples, the others from the trace.  A sample
 * is fetched at most once, and only when an input needs it. */
static qg_status read_inputs(trial *t, size_t sample)
{
    const qg_graph *g = t->d->exe.graph;
    const qg_feed *feed = &t->d->feed.feed;
    const qg_tensor **fed = NULL;
    uint64_t off = 0;
    for (size_t i = 0; i < t->c->n_in; i++) {
        const qg_value *v = t->c->in[i];
        const qg_pair *p = pair_of(t, v);
        uint32_t k;
        double *x;
        t->view[i] = &t->in[i];
        if (p) {
            t->in[i].data = NULL;
            QG_TRY(qg_tensor_alloc(t->ctx, t->sample, &t->in[i]));
            if (is_direct(t, p, t->in[i].dtype)) {
                QG_TRY(read_raw(t, &t->data[i], sample, t->in[i].data));
                continue;
            }
            QG_TRY(read_theirs(t, p, &t->data[i], sample, &off, &x));
            if (t->real && p->grid.codes)
                to_real(&p->grid, x, p->array->count);
            QG_TRY(narrow(t->ctx, &(origin){ t->d->trace, p->array->value }, x,
                          &t->in[i]));
            continue;
        }
        if (!fed) {
            fed = QG_NEWN(t->sample, g->input.n, const qg_tensor *);
            if (!fed)
                return qg_nomem(t->ctx);
            QG_TRY(feed->fetch(feed->ud, t->ctx, t->sample, sample, fed));
        }
        if (!is_input(g, v, &k))
            return qg_fail(t->ctx, QG_EUNSUPPORTED,
                           "device: value '%s' has no producer, expected one", v->name);
        QG_TRY(take_fed(t, i, fed[k]));
    }
    return QG_OK;
}

/* The last place of floats of an array, of their size: half of it for the result and
 * half for what it was computed from.  0: float32 and more hold our results. */
static double last_place(const qg_trace_array *a)
{
    return a->type.dtype == QG_F16 ? 0x1p-10 : a->type.dtype == QG_BF16 ? 0x1p-7 : 0;
}

/* Codes differ by any amount; floats by more than FLOAT_TOLERANCE times the largest
 * finite |x| of the device in this sample, and the last place of the array's type.  A
 * NaN of ours differs by no amount; the same infinity, of a mask, does not differ. */
static void count(const qg_device_step *s, const double *ours, const double *theirs,
                  qg_tally *out)
{
    double largest = 0, equal = 0, place = 0;
    for (size_t i = 0; !s->stored->codes && i < s->elements; i++)
        largest = fmax(largest, isinf(theirs[i]) ? 0 : fabs(theirs[i]));
    if (!s->stored->codes) {
        equal = FLOAT_TOLERANCE * largest;
        place = last_place(s->pair->array);
    }
    for (size_t i = 0; i < s->elements; i++) {
        double apart = ours[i] == theirs[i] ? 0 : fabs(ours[i] - theirs[i]);
        if (apart <= equal + (place > 0 ? place * fmin(fabs(theirs[i]), largest) : 0))
            continue;
        out->differ++;
        out->total += isnan(apart) ? 0 : apart;
        out->most = fmax(out->most, apart);
    }
    out->of += s->elements;
    out->samples++;
}

/* The same for 8-bit codes that nobody wants to see: most of all comparisons. */
static qg_status count_bytes(trial *t, size_t sample, const qg_tensor *y, qg_tally *out)
{
    size_t n = t->s->elements;
    int8_t *theirs = qg_arena_raw(t->sample, n, 1);
    if (!theirs)
        return qg_nomem(t->ctx);
    QG_TRY(read_raw(t, &t->theirs, sample, theirs));
    out->of += n;
    out->samples++;
    if (memcmp(theirs, y->i8, n) == 0)
        return QG_OK;
    for (size_t i = 0; i < n; i++) {
        int apart = y->dtype == QG_I8 ? theirs[i] - y->i8[i]
                                      : (int)(uint8_t)theirs[i] - y->u8[i];
        out->differ += apart != 0;
        out->total += apart < 0 ? -apart : apart;
        out->most = fmax(out->most, apart < 0 ? -apart : apart);
    }
    return QG_OK;
}

/* A sample whose dims are not those of the device. */
static void count_reshaped(const qg_device_step *s, const qg_tensor *y, qg_tally *out)
{
    if (!out->reshaped++) {
        out->other = *y;
        out->other.data = NULL;
    }
    out->of += s->elements;
    out->differ += s->elements;
    out->samples++;
}

/* The value of the step as it was computed, beside the device's. */
static qg_status judge(trial *t, size_t sample, const qg_tensor *y,
                       const qg_step_see *how, qg_tally *out)
{
    double *theirs, *ours;
    if (!qg_pair_has_dims(t->s->pair, y)) {
        count_reshaped(t->s, y, out);
        return QG_OK;
    }
    bool bytes = y->dtype == QG_I8 || y->dtype == QG_U8;
    if (!(how && how->see) && bytes && is_direct(t, t->s->pair, y->dtype))
        return count_bytes(t, sample, y, out);
    ours = QG_NEWN(t->sample, t->s->elements, double);
    if (!ours)
        return qg_nomem(t->ctx);
    widen(y, ours);
    QG_TRY(read_theirs(t, t->s->pair, &t->theirs, sample, &out->off, &theirs));
    count(t->s, ours, theirs, out);
    return how && how->see ? how->see(how->ud, t->ctx, sample, ours, theirs) : QG_OK;
}

/* One sample: all memory of the one before is given back first. */
static qg_status run_sample(trial *t, size_t sample, const qg_step_see *how,
                            qg_tally *out)
{
    qg_arena_reset(t->sample);
    QG_TRY(read_inputs(t, sample));
    QG_TRY(qg_run_execute(t->run, t->view, NULL, 0, sample));
    return judge(t, sample, qg_run_output(t->run, 0), how, out);
}

qg_status qg_step_try(const qg_device *d, qg_ctx *ctx, const qg_device_step *s,
                      const qg_cut *c, const qg_step_see *how, qg_tally *out)
{
    trial t = { .d = d, .ctx = ctx, .s = s, .c = c, .theirs.npy.fd = -1 };
    size_t n = how && how->limit && how->limit < d->samples ? how->limit : d->samples;
    t.real = c->from == d->m->graph;
    *out = (qg_tally){ 0 };
    qg_status status = open_trial(&t);
    for (size_t i = 0; i < n && status == QG_OK; i++)
        status = run_sample(&t, i, how, out);
    close_trial(&t);
    return status;
}

qg_status qg_step_read(const qg_device *d, const qg_device_step *s)
{
    trial t = { .d = d, .ctx = d->ctx, .s = s, .as_input = true, .theirs.npy.fd = -1 };
    t.sample = qg_arena_new(d->ctx->alloc);
    qg_status status = t.sample
                           ? qg_trace_load(d->ctx, d->trace, s->pair->array, &t.theirs)
                           : qg_nomem(d->ctx);
    for (size_t i = 0; i < d->samples && status == QG_OK; i++) {
        double *x;
        uint64_t off = 0;
        qg_tensor y;
        qg_arena_reset(t.sample);
        qg_tensor_init(&y, s->target->type.dtype, 1,
                       (const int64_t[]){ (int64_t)s->elements });
        status = read_theirs(&t, s->pair, &t.theirs, i, &off, &x);
        if (status == QG_OK)
            status = qg_tensor_alloc(d->ctx, t.sample, &y);
        if (status == QG_OK)
            status =
                narrow(d->ctx, &(origin){ d->trace, s->pair->array->value }, x, &y);
    }
    close_trial(&t);
    return status;
}

qg_status qg_step_fed(const qg_device *d, const qg_value *v, const qg_step_see *how,
                      qg_tally *out)
{
    const qg_feed *feed = &d->feed.feed;
    const qg_device_step s = { .value = v,
                               .pair = &d->pair[v->id],
                               .stored = &d->exe.program->stored[v->id],
                               .elements = d->pair[v->id].array->count };
    trial t = { .d = d, .ctx = d->ctx, .s = &s, .theirs.npy.fd = -1 };
    uint32_t k;
    *out = (qg_tally){ 0 };
    if (!is_input(d->exe.graph, v, &k))
        return QG_OK;
    t.sample = qg_arena_new(d->ctx->alloc);
    qg_status status = t.sample
                           ? qg_trace_load(d->ctx, d->trace, s.pair->array, &t.theirs)
                           : qg_nomem(d->ctx);
    for (size_t i = 0; i < d->samples && status == QG_OK; i++) {
        qg_arena_reset(t.sample);
        const qg_tensor **fed =
            QG_NEWN(t.sample, d->exe.graph->input.n, const qg_tensor *);
        status =
            fed ? feed->fetch(feed->ud, d->ctx, t.sample, i, fed) : qg_nomem(d->ctx);
        if (status == QG_OK)
            status = judge(&t, i, fed[k], how, out);
    }
    close_trial(&t);
    return status;
}

/* --- a run of all --- */

/* A trial per step, for its target alone: t[i].c is NULL and nothing is read but the
 * device's value.  The plan keeps the targets until the sample is judged. */
static qg_status open_whole(const qg_device *d, trial *t, qg_plan **plan, qg_run **run)
{
    const qg_feed *feed = &d->feed.feed;
    uint32_t *keep = QG_NEWN(d->arena, d->n_step, uint32_t);
    if (!keep)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < d->n_step; i++) {
        keep[i] = d->step[i].target->id;
        t[i] = (trial){ .d = d, .ctx = d->ctx, .s = &d->step[i], .theirs.npy.fd = -1 };
        t[i].sample = qg_arena_new(d->ctx->alloc);
        if (!t[i].sample)
            return qg_nomem(d->ctx);
        QG_TRY(qg_trace_load(d->ctx, d->trace, d->step[i].pair->array, &t[i].theirs));
    }
    qg_plan_options o = { .mode = QG_MODE_FLOAT,
                          .input = feed->shape,
                          .keep = keep,
                          .n_keep = d->n_step,
                          .reference = d->work.reference_kernels };
    QG_TRY(qg_plan_new(d->ctx, d->exe.graph, &o, plan));
    return qg_run_new(d->ctx, *plan, run);
}

/* Inputs are in the memory of the first trial until the program has run; kept values
 * belong to the run. */
static qg_status whole_sample(const qg_device *d, trial *t, qg_run *run, size_t sample,
                              const qg_step_see *how, qg_tally *out)
{
    const qg_feed *feed = &d->feed.feed;
    qg_arena *a = t[0].sample;
    qg_arena_reset(a);
    const qg_tensor **in = QG_NEWN(a, d->exe.graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(d->ctx);
    QG_TRY(feed->fetch(feed->ud, d->ctx, a, sample, in));
    QG_TRY(qg_run_execute(run, in, NULL, 0, sample));
    for (size_t i = 0; i < d->n_step; i++) {
        QG_TRY(judge(&t[i], sample, qg_run_kept(run, i), &how[i], &out[i]));
        qg_arena_reset(t[i].sample);
    }
    return QG_OK;
}

qg_status qg_device_whole(const qg_device *d, const qg_step_see *how, qg_tally *out)
{
    qg_plan *plan = NULL;
    qg_run *run = NULL;
    trial *t = QG_NEWN(d->arena, d->n_step, trial);
    if (!t)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < d->n_step; i++)
        out[i] = (qg_tally){ 0 };
    qg_status s = open_whole(d, t, &plan, &run);
    for (size_t i = 0; i < d->samples && s == QG_OK; i++)
        s = whole_sample(d, t, run, i, how, out);
    for (size_t i = 0; i < d->n_step; i++) {
        qg_trace_unload(&t[i].theirs);
        qg_arena_free(t[i].sample);
    }
    qg_run_free(run);
    qg_plan_free(plan);
    return s;
}
