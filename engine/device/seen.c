/* seen.c -- pairs arrays with values, then finds the grid of each:
 *
 *     pairs     by name; an array with the name of a value can be the output of its
 *               reader (follow_readers); the rest by correlation
 *     elements  the different ones of all samples, sorted; more than MANY_LEVELS are
 *               floats, and reading ends
 *     step      Euclid's algorithm on the gaps between neighbours, with a tolerance; a
 *               fit by least squares; then every element must be within OFF of a code
 *
 * The last test decides between codes and floats: n random numbers pass it with the
 * probability (2 OFF)^n, which the number of steps that could be tried multiplies,
 * hence the lower limits of levels. */
#include "engine/device/seen.h"

#include <math.h>
#include <stdlib.h>

#include "engine/device/correlate.h"
#include "engine/ir/infer.h"

/* Different elements from which a value is on no grid that is worth finding. */
enum { MANY_LEVELS = 1 << 16 };
/* Different elements from which chance fits no grid of up to 2^16 (2^20: a float format
 * has steps of many sizes) codes: a random number lies within OFF of a code with
 * probability 2 OFF. */
enum { SOME_LEVELS = 8, FLOAT_LEVELS = 16 };
/* Nodes that may lie between a product and a value. */
enum { FAR = 8 };
/* Steps by which an element may miss its code. */
#define OFF 0.02
/* Of the largest element: rounding errors of float32 in a difference of two. */
#define NOISE 4e-7
/* Correlation from which an array can be the output of a reader of the value that it is
 * named after, and the share of the other squared distance that it may have. */
#define SURE   0.98
#define BETTER 0.98
/* Squared distance from the float value from which an array is another one:
 * quantization of a whole network in 8 bits makes a few hundredths. */
#define OTHER 0.1

const char *qg_seen_name(qg_seen_kind k)
{
    static const char *const name[] = { "hidden", "codes", "real", "unsure" };
    return name[k];
}

/* --- different elements --- */

typedef QG_VEC(double) numbers;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x, and moves its different elements to the front; their number. */
static size_t different(double *x, size_t n)
{
    size_t kept = 0;
    qsort(x, n, sizeof *x, by_size);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || x[i] > x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

/* Adds the different elements of a sample to `all`, which stays sorted. */
static qg_status merge(qg_ctx *ctx, qg_arena *a, const double *x, size_t n,
                       numbers *all)
{
    size_t fresh = 0;
    for (size_t i = 0, k = 0; i < n; i++) {
        while (k < all->n && all->at[k] < x[i])
            k++;
        fresh += k == all->n || all->at[k] > x[i];
    }
    if (!fresh)
        return QG_OK;
    QG_TRY(qg_vec_room(ctx, a, all, all->n + n));
    for (size_t i = 0; i < n; i++)
        all->at[all->n++] = x[i];
    all->n = different(all->at, all->n);
    return QG_OK;
}

/* All different elements, or more than MANY_LEVELS of them: then the rest is not
 * read. */
static qg_status collect(qg_ctx *ctx, const qg_seen_values *o, const qg_seen *v,
                         size_t samples, qg_arena *a, numbers *all)
{
    qg_arena *sample = qg_arena_new(ctx->alloc);
    qg_status s = sample ? QG_OK : qg_nomem(ctx);
    for (size_t i = 0; i < samples && all->n <= MANY_LEVELS && s == QG_OK; i++) {
        double *x;
        qg_arena_reset(sample);
        s = qg_seen_read(ctx, o, v, i, sample, &x);
        if (s == QG_OK)
            s = merge(ctx, a, x, different(x, o->pair[v->value->id].array->count), all);
    }
    qg_arena_free(sample);
    return s;
}

/* --- grids --- */

static double miss(double x, double step)
{
    return fabs(x / step - nearbyint(x / step));
}

/* One pass over gaps in order of size: the step, made more exact by every gap; *rest:
 * what is left of the first one that is no multiple, 0 where all are.  A gap is known
 * to `noise`, and k steps to k times what one step is. */
static double measure(const double *gap, size_t n, double step, double noise,
                      double *rest)
{
    double kx = step, kk = 1, most = 1;
    for (size_t i = 0; i < n; i++) {
        double k = nearbyint(gap[i] / step);
        *rest = fabs(gap[i] - k * step);
        if (*rest > fmax(0.05 * step, 2 * noise) + fmin(noise * k / most, 0.2 * step))
            return step;
        kx += k * gap[i];
        kk += k * k;
        most = fmax(most, k);
        step = kx / kk;
    }
    *rest = 0;
    return step;
}

/* The greatest step of which all gaps between neighbours are multiples, by Euclid's
 * algorithm with a tolerance; 0: there is none above `least`.  Sorts into gap[n]. */
static double common_gap(const double *x, size_t n, double noise, double least,
                         double *gap)
{
    size_t m = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] - x[i - 1] > noise)
            gap[m++] = x[i] - x[i - 1];
    qsort(gap, m, sizeof *gap, by_size);
    double step = m ? gap[0] : 0, rest = step;
    while (step >= least && rest > 0) {
        double next = measure(gap, m, step, noise, &rest);
        step = rest > 0 ? rest : next;
    }
    return step >= least ? step : 0;
}

/* Least squares through 0, from small multiples to large ones: an error of the first
 * estimate counts as many times as an element has steps. */
static double refine(const double *x, size_t n, double step)
{
    for (double most = 8; most <= 1 << 21; most *= 8) {
        double kx = 0, kk = 0;
        for (size_t i = 0; i < n; i++) {
            double k = nearbyint(x[i] / step);
            if (fabs(k) > most)
                continue;
            kx += k * x[i];
            kk += k * k;
        }
        step = kk > 0 ? kx / kk : step;
    }
    return step;
}

/* Of x, [n] sorted and different, on a grid of a step between the limits; 0: some are
 * on none. */
static double step_if_all(const double *x, size_t n, double step)
{
    qg_param_limit limit = qg_observer_param_limit(QG_PARAM_STEP);
    if (step < limit.least || step > limit.most)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (miss(x[i], step) > OFF)
            return 0;
    return step;
}

/* *out: the step of a grid that holds all of x, [n] sorted and different; 0: there is
 * none. */
static qg_status step_of(qg_ctx *ctx, qg_arena *a, const double *x, size_t n,
                         double *out)
{
    double *with_zero = QG_NEWN(a, n + 1, double), *gap = QG_NEWN(a, n + 1, double);
    double most = fmax(fabs(x[0]), fabs(x[n - 1]));
    double codes = n < SOME_LEVELS               ? 255
                   : n < FLOAT_LEVELS || n > 512 ? 65535
                                                 : 1 << 20;
    if (!with_zero || !gap)
        return qg_nomem(ctx);
    memcpy(with_zero, x, n * sizeof *x);
    with_zero[n] = 0;
    size_t m = different(with_zero, n + 1);
    double span = with_zero[m - 1] - with_zero[0];
    double step = common_gap(with_zero, m, NOISE * most, span / codes, gap);
    *out = step > 0 ? step_if_all(x, n, refine(x, n, step)) : 0;
    return QG_OK;
}

qg_status qg_seen_step(qg_ctx *ctx, qg_arena *a, double *x, size_t n, size_t *levels,
                       double *step)
{
    *levels = different(x, n);
    *step = 0;
    return *levels >= SOME_LEVELS ? step_of(ctx, a, x, *levels, step) : QG_OK;
}

/* Whether every element lies on the grid that the trace gives. */
static bool fits_given(const numbers *x, double step, double relative)
{
    for (size_t i = 0; i < x->n; i++)
        if (miss(x->at[i], step) > OFF + relative * fabs(x->at[i]) / step)
            return false;
    return x->n > 0;
}

/* What storing an element can have changed, relative to it: half a unit of the last
 * place of a short float.  Such floats lie on a grid of their own, so they show
 * none. */
static double rounding_of(const qg_trace_array *array)
{
    const qg_dtype d = array->type.dtype;
    return d == QG_F16 ? 0x1p-11 : d == QG_BF16 ? 0x1p-8 : 0;
}

/* qg_seen.bits, from the different elements. */
static unsigned significant_bits(const numbers *x, double step)
{
    uint64_t odd = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < x->n; i++) {
        uint64_t k = (uint64_t)fmin(fabs(nearbyint(x->at[i] / step)), 0x1p53);
        while (k && k % 2 == 0)
            k /= 2;
        odd |= k;
    }
    for (; odd; odd /= 2)
        bits++;
    return bits;
}

/* Kind, step and limits from the different elements. */
static qg_status judge(qg_ctx *ctx, const qg_trace_array *array, qg_arena *a,
                       const numbers *x, qg_seen *v)
{
    const bool codes = qg_trace_holds_codes(array);
    const double relative = rounding_of(array);
    v->levels = x->n;
    v->kind = QG_SEEN_REAL;
    if (x->n == 0 || x->n > MANY_LEVELS || isinf(x->at[0]) || isinf(x->at[x->n - 1]))
        return QG_OK;
    if (array->grid && (codes || fits_given(x, array->scale, relative)))
        v->step = array->scale;
    else if (!codes && relative == 0 && x->n >= QG_SEEN_FEW)
        QG_TRY(step_of(ctx, a, x->at, x->n, &v->step));
    if ((x->n < QG_SEEN_FEW || (relative > 0 && v->step == 0)) && !codes &&
        !array->grid)
        v->kind = QG_SEEN_UNSURE;
    else if (codes || v->step > 0)
        v->kind = QG_SEEN_CODES;
    v->zero_known = array->grid && v->kind == QG_SEEN_CODES;
    v->zero = array->zero;
    v->bits = v->step > 0 ? significant_bits(x, v->step) : 0;
    double unit = v->step > 0 ? v->step : 1;
    v->low = nearbyint(x->at[0] / unit);
    v->high = nearbyint(x->at[x->n - 1] / unit);
    return QG_OK;
}

/* A mean of n codes, or a copy of one, lies on the n-th part of their grid.  Of many
 * codes that part is too fine to be found in the elements, so it is tried.  The input
 * comes before v in the graph. */
static void judge_part(const qg_seen_values *o, const numbers *x, qg_seen *v)
{
    const qg_node *n = v->value->def;
    const qg_value *in = n && n->n_in && n->in[0] ? n->in[0] : NULL;
    const qg_seen *from = in ? &o->at[in->id] : NULL;
    if (v->kind != QG_SEEN_REAL || x->n < SOME_LEVELS || x->n > MANY_LEVELS || !from ||
        isinf(x->at[0]) || isinf(x->at[x->n - 1]) || from->kind != QG_SEEN_CODES ||
        !(from->step > 0) || !qg_tensor_known(&from->type) ||
        !qg_tensor_known(&v->type))
        return;
    int64_t all = qg_tensor_count(&from->type), own = qg_tensor_count(&v->type);
    if (own < 1 || all < own || all % own)
        return;
    double step = from->step * (double)own / (double)all;
    if (!fits_given(x, step, NOISE))
        return;
    v->kind = QG_SEEN_CODES;
    v->step = step;
    v->low = nearbyint(x->at[0] / step);
    v->high = nearbyint(x->at[x->n - 1] / step);
}

/* The value is a product, or elementwise of one that no array shows on a grid: its
 * elements can be any number. */
static bool is_of_product(const qg_seen_values *o, const qg_value *v, int depth)
{
    const qg_node *n = v->def;
    if (!n || qg_node_has(n, QG_OP_COMPUTE))
        return n != NULL;
    for (uint32_t k = 0; k < n->n_in && depth < FAR; k++) {
        const qg_value *in = n->in[k];
        if (in && in->def && o->at[in->id].kind != QG_SEEN_CODES &&
            is_of_product(o, in, depth + 1))
            return true;
    }
    return false;
}

/* The channel of element i: axis 1 of a map, else the last one. */
static size_t channel_of(const qg_tensor *t, size_t i)
{
    bool map = t->rank > 2;
    size_t inner = map ? (size_t)qg_dims_product(t, 2, t->rank) : 1;
    return i / inner % (size_t)(map ? t->dim[1] : t->dim[t->rank - 1]);
}

/* qg_seen.near.  Elements of one channel that are alike can have one cause, such as its
 * bias, so they count once. */
static qg_status count_near(qg_ctx *ctx, const qg_seen_values *o, qg_seen *v,
                            size_t samples)
{
    const qg_pair *p = &o->pair[v->value->id];
    enum { WIDTH = 2 * QG_SEEN_NEAR };
    if (v->kind != QG_SEEN_CODES || !(v->step > 0) || p->array->grid ||
        v->type.rank < 1 || !qg_tensor_known(&v->type))
        return QG_OK;
    qg_arena *all = qg_arena_new(ctx->alloc), *sample = qg_arena_new(ctx->alloc);
    uint8_t *met = all ? QG_NEWN(all, p->array->count * WIDTH, uint8_t) : NULL;
    qg_status s = met && sample ? QG_OK : qg_nomem(ctx);
    for (size_t n = 0; n < samples && s == QG_OK; n++) {
        double *x;
        qg_arena_reset(sample);
        s = qg_seen_read(ctx, o, v, n, sample, &x);
        for (size_t i = 0; i < p->array->count && s == QG_OK; i++) {
            double k = nearbyint(x[i] / v->step);
            if (k == 0 || fabs(k) >= QG_SEEN_NEAR)
                continue;
            uint8_t *at =
                &met[channel_of(&v->type, i) * WIDTH + (size_t)(k + QG_SEEN_NEAR)];
            v->near[(size_t)fabs(k)] += !*at && v->near[(size_t)fabs(k)] < UINT16_MAX;
            *at = 1;
        }
    }
    qg_arena_free(sample);
    qg_arena_free(all);
    return s;
}

static qg_status look_at(qg_ctx *ctx, qg_seen_values *o, size_t samples, qg_seen *v)
{
    const qg_pair *p = &o->pair[v->value->id];
    numbers all = { 0 };
    if (!p->array)
        return QG_OK;
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    if (!scratch)
        return qg_nomem(ctx);
    if (qg_trace_holds_codes(p->array))
        v->sign = qg_dtype_kind_of(p->array->type.dtype) == QG_KIND_UINT ? 1 : -1;
    qg_status s = collect(ctx, o, v, samples, scratch, &all);
    if (s == QG_OK)
        s = judge(ctx, p->array, scratch, &all, v);
    if (s == QG_OK)
        judge_part(o, &all, v);
    qg_arena_free(scratch);
    o->seen += s == QG_OK;
    return s;
}

/* --- pairs --- */

typedef QG_VEC(const qg_trace_array *) strays;

static size_t candidate_of(const qg_correlation *c, const qg_value *v)
{
    size_t i = 0;
    while (i < c->n && c->value[i] != v)
        i++;
    return i;
}

/* Dims that depend on the data are those of the array, whatever the float network has
 * in the first sample. */
static bool fits(qg_seen_values *o, const qg_trace_array *array, const qg_value *v,
                 qg_pair *p)
{
    qg_seen *seen = &o->at[v->id];
    const qg_tensor *declared = &o->declared[v->id];
    if (qg_pair_fits(array, &seen->type, p))
        return true;
    if (qg_tensor_known(declared) || !qg_pair_fits(array, declared, p))
        return false;
    qg_tensor_init(&seen->type, seen->type.dtype, p->view.rank, p->view.dim);
    return true;
}

static qg_status pair_by_name(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c,
                              qg_arena *a, const qg_trace_array *array)
{
    qg_pair p = { .confidence = 1, .array = array };
    const qg_value *v = qg_pair_named(o->graph, array, &p.how);
    const qg_tensor *type = v ? &o->at[v->id].type : NULL;
    if (!v || v->type.dtype != QG_F32 || !qg_tensor_known(type) || o->pair[v->id].array)
        return qg_vec_push(ctx, a, &o->unpaired, array);
    if (!fits(o, array, v, &p))
        return qg_pair_unfit(o->graph, o->trace, array, type);
    size_t at = candidate_of(c, v);
    if (at < c->n)
        QG_TRY(qg_correlation_order(ctx, o->trace, c, at, &p));
    o->pair[v->id] = p;
    return QG_OK;
}

/* Every float32 value that the network computes. */
static qg_status candidates(qg_ctx *ctx, const qg_seen_values *o, qg_arena *a,
                            qg_correlation *c)
{
    const qg_graph *g = o->graph;
    c->value = QG_NEWN(a, g->value.n, const qg_value *);
    c->keep = QG_NEWN(a, g->value.n, uint32_t);
    if (!c->value || !c->keep)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (!v->def || v->constant || v->type.dtype != QG_F32)
            continue;
        c->value[c->n] = v;
        c->keep[c->n++] = v->id;
    }
    return QG_OK;
}

/* Whether the array of candidate i is rather the output k of its reader.  *better is
 * the pair. */
static qg_status is_of_reader(qg_ctx *ctx, const qg_seen_values *o,
                              const qg_correlation *c, const size_t at[2], bool *yes,
                              qg_pair *better)
{
    qg_trace_data data;
    double own = 0, next = 0;
    QG_TRY(qg_trace_load(ctx, o->trace, o->pair[c->value[at[0]]->id].array, &data));
    qg_status s = qg_correlation_distance(ctx, &data, c, at[0], &own);
    if (s == QG_OK)
        s = qg_correlation_distance(ctx, &data, c, at[1], &next);
    if (s == QG_OK)
        s = qg_correlation_of(ctx, &data, c, at[1], better);
    qg_trace_unload(&data);
    *yes = s == QG_OK && better->confidence >= SURE && next < BETTER * own;
    return s;
}

/* A converter gives the result of a fused activation or sum the name of the product
 * before it.  So an array with the name of a value with one reader is the reader's
 * output, where it is nearer to that. */
static qg_status follow_readers(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const qg_value *v = c->value[i];
        const qg_node *reader = v->use.n == 1 ? v->use.at[0].node : NULL;
        const qg_value *y = reader && reader->n_out == 1 ? reader->out[0] : NULL;
        size_t at[2] = { i, y ? candidate_of(c, y) : c->n };
        qg_pair better;
        bool yes;
        if (!o->pair[v->id].array || at[1] == c->n || o->pair[y->id].array)
            continue;
        QG_TRY(is_of_reader(ctx, o, c, at, &yes, &better));
        if (!yes)
            continue;
        o->pair[y->id] = better;
        o->pair[v->id] = (qg_pair){ 0 };
    }
    return QG_OK;
}

/* Arrays without a known name, each with the best value that is left. */
static qg_status pair_the_rest(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c)
{
    size_t left = 0;
    for (size_t i = 0; i < o->unpaired.n; i++) {
        const qg_trace_array *array = o->unpaired.at[i];
        const qg_value *v;
        qg_pair best;
        QG_TRY(qg_correlation_match(ctx, o->trace, array, c, &best, &v));
        if (v)
            o->pair[v->id] = best;
        else
            o->unpaired.at[left++] = array;
    }
    o->unpaired.n = left;
    return QG_OK;
}

/* Dims as the first sample has them: of what the network computes, and of its inputs
 * where it leaves them open.  Samples of several dims give all values those of the
 * first. */
static qg_status find_types(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c,
                            const qg_feed *feed, qg_arena *a)
{
    const qg_tensor **known;
    const qg_graph *g = o->graph;
    for (size_t i = 0; i < g->value.n; i++) {
        o->at[i].value = g->value.at[i];
        o->at[i].type = g->value.at[i]->type;
    }
    for (size_t i = 0; feed->shape && i < g->input.n; i++)
        o->at[g->input.at[i]->id].type = feed->shape[i];
    for (size_t i = 0; i < c->n; i++)
        o->at[c->value[i]->id].type = *qg_run_kept(c->run, i);
    for (size_t i = 0; i < g->value.n; i++)
        o->at[i].type.data = NULL;
    QG_TRY(qg_infer_values(ctx, g, feed->shape, a, &o->declared, &known));
    for (size_t i = 0; !feed->shape && !qg_graph_inputs_are_known(g) && i < g->value.n;
         i++)
        o->declared[i] = o->at[i].type;
    return QG_OK;
}

/* By the name of a value where `named`, else by its endpoint, which a device can give
 * to another value than that of the model: an array of other elements than the float
 * network's is stray. */
static qg_status pair_first(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c,
                            bool named, qg_arena *a, strays *stray)
{
    for (size_t i = 0; i < o->trace->n; i++) {
        const qg_trace_array *array = &o->trace->array[i];
        qg_trace_data data;
        double distance = 0;
        const char *how;
        if ((qg_graph_value(o->graph, array->value) != NULL) != named)
            continue;
        const qg_value *v = qg_pair_named(o->graph, array, &how);
        size_t at = v ? candidate_of(c, v) : c->n;
        if (!named && at < c->n) {
            QG_TRY(qg_trace_load(ctx, o->trace, array, &data));
            qg_status s = qg_correlation_distance(ctx, &data, c, at, &distance);
            qg_trace_unload(&data);
            QG_TRY(s);
        }
        if (distance > OTHER && isfinite(distance))
            QG_TRY(qg_vec_push(ctx, a, stray, array));
        else
            QG_TRY(pair_by_name(ctx, o, c, a, array));
    }
    return QG_OK;
}

/* Counts the arrays that are those of the network on the first sample: the first half
 * of them, since rounding errors grow behind. */
static qg_status compare_all(qg_ctx *ctx, qg_seen_values *o, const qg_correlation *c)
{
    size_t paired = 0;
    for (size_t i = 0; i < c->n; i++)
        paired += o->pair[c->value[i]->id].array != NULL;
    for (size_t i = 0; i < c->n && 2 * o->compared <= paired; i++) {
        const qg_trace_array *array = o->pair[c->value[i]->id].array;
        qg_trace_data data;
        double distance = 0;
        if (!array)
            continue;
        QG_TRY(qg_trace_load(ctx, o->trace, array, &data));
        qg_status s = qg_correlation_distance(ctx, &data, c, i, &distance);
        qg_trace_unload(&data);
        QG_TRY(s);
        o->compared++;
        o->alike += distance < OTHER || isnan(distance);
    }
    return QG_OK;
}

/* By name, then by values. */
static qg_status pair_all(qg_ctx *ctx, qg_seen_values *o, const qg_feed *feed,
                          qg_arena *a)
{
    qg_correlation c = { .graph = o->graph, .feed = feed, .pair = o->pair };
    qg_status s = candidates(ctx, o, a, &c);
    if (s == QG_OK)
        s = qg_correlation_open(ctx, a, &c);
    if (s == QG_OK)
        s = find_types(ctx, o, &c, feed, a);
    strays stray = { 0 };
    if (s == QG_OK)
        s = pair_first(ctx, o, &c, true, a, &stray);
    if (s == QG_OK)
        s = pair_first(ctx, o, &c, false, a, &stray);
    if (s == QG_OK)
        s = follow_readers(ctx, o, &c);
    if (s == QG_OK)
        s = pair_the_rest(ctx, o, &c);
    if (s == QG_OK)
        s = compare_all(ctx, o, &c);
    for (size_t i = 0; i < stray.n && s == QG_OK; i++)
        s = qg_vec_push(ctx, a, &o->unpaired, stray.at[i]);
    qg_correlation_close(&c);
    return s;
}

/* --- all --- */

qg_status qg_see_values(qg_model *m, const qg_feed *feed, const qg_trace *t,
                        qg_arena *a, qg_seen_values *out)
{
    const qg_graph *g = m->graph;
    *out = (qg_seen_values){ .graph = g,
                             .trace = t,
                             .pair = QG_NEWN(a, g->value.n, qg_pair),
                             .at = QG_NEWN(a, g->value.n, qg_seen),
                             .hidden = QG_NEWN(a, g->value.n, qg_seen) };
    if (!out->pair || !out->at || !out->hidden)
        return qg_nomem(m->ctx);
    QG_TRY(pair_all(m->ctx, out, feed, a));
    for (size_t i = 0; i < g->value.n; i++) {
        out->hidden[i] = (qg_seen){ .value = g->value.at[i], .type = out->at[i].type };
        if (out->pair[i].array && strcmp(out->pair[i].how, "endpoint") == 0)
            QG_TRY(qg_vec_push(m->ctx, a, &out->by_endpoint, g->value.at[i]));
    }
    QG_TRY(qg_trace_expect(m->ctx, t, feed->n));
    for (size_t i = 0; i < g->value.n; i++)
        QG_TRY(look_at(m->ctx, out, feed->n, &out->at[i]));
    for (size_t i = 0; i < g->value.n; i++)
        if (is_of_product(out, g->value.at[i], 0))
            QG_TRY(count_near(m->ctx, out, &out->at[i], feed->n));
    if (!out->seen)
        return qg_fail(m->ctx, QG_EDATA,
                       "read %.200s: no array is a value of the network, expected "
                       "names of values or endpoints (docs/trace.md)",
                       t->path);
    return QG_OK;
}

qg_status qg_seen_read(qg_ctx *ctx, const qg_seen_values *o, const qg_seen *v,
                       size_t sample, qg_arena *a, double **out)
{
    const qg_pair *p = &o->pair[v->value->id];
    qg_trace_data data;
    QG_TRY(qg_trace_load(ctx, o->trace, p->array, &data));
    qg_status s = qg_pair_read(ctx, p, &data, sample, a, out);
    for (size_t i = 0; s == QG_OK && qg_trace_holds_codes(p->array) && p->array->grid &&
                       i < p->array->count;
         i++)
        (*out)[i] = ((*out)[i] - p->array->zero) * p->array->scale;
    qg_trace_unload(&data);
    return s;
}
