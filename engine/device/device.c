/* device.c -- opening a device: its program, and the pairs of values and arrays. */
#include <math.h>
#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/device/assign.h"
#include "engine/device/correlate.h"
#include "engine/device/kernel.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"

/* Scales nearer than this are one scale that was written in decimals. */
#define SAME_SCALE 1e-6

/* --- open dims --- */

static qg_status give_shapes(qg_device *d, const qg_tensor *shape)
{
    qg_graph *g = d->given->graph;
    size_t n = g->input.n;
    qg_fixed_shape *fixed = QG_NEWN(d->arena, n, qg_fixed_shape);
    d->open = QG_NEWN(d->arena, n, qg_tensor);
    d->opened = QG_NEWN(d->arena, n, uint8_t);
    if (!fixed || !d->open || !d->opened)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < n; i++) {
        const qg_value *v = g->input.at[i];
        d->open[i] = v->type;
        d->opened[i] = v->open;
        fixed[i].input = v->name;
        fixed[i].rank = shape[i].rank;
        memcpy(fixed[i].dim, shape[i].dim, sizeof fixed[i].dim);
    }
    return qg_infer(g, fixed, n);
}

/* Dims that the samples agree on; where they do not, the dims stay open. */
static qg_status take_shapes(qg_device *d, qg_model *m)
{
    qg_api_feed feed = { .graph = m->graph };
    if (qg_graph_inputs_are_known(m->graph))
        return QG_OK;
    qg_status s = qg_feed_open(m, &d->work, &feed);
    d->given = m;
    if (s == QG_OK && feed.feed.shape)
        s = give_shapes(d, feed.feed.shape);
    qg_feed_close(&feed);
    return s;
}

/* The model as it was given: other calls can have samples of other dims. */
static void open_shapes(qg_device *d)
{
    qg_graph *g = d->given->graph;
    for (size_t i = 0; i < g->input.n; i++) {
        g->input.at[i]->type = d->open[i];
        g->input.at[i]->open = d->opened[i];
    }
    if (qg_infer(g, NULL, 0) != QG_OK)
        qg_warn(d->ctx, "device: the dims of the network stay those of the samples");
}

/* --- opening --- */

/* d is zeroed; after a failure qg_device_close frees what there is.  The feed can
 * make the program anew (float32 data for integer inputs), so m and samples are
 * taken after it. */
qg_status qg_device_open(qg_device *d, qg_model *m, const qg_workload *work,
                         const char *profile)
{
    qg_mode_request r = { .mode = qg_run_mode_name(QG_RUN_INTEGER),
                          .profile = profile };
    d->ctx = m->ctx;
    d->work = *work;
    d->arena = qg_arena_new(m->ctx->alloc);
    if (!d->arena)
        return qg_nomem(m->ctx);
    QG_TRY(take_shapes(d, m));
    QG_TRY(qg_executable_make(m, &r, &d->exe));
    QG_TRY(qg_executable_feed(&d->exe, work, &d->feed));
    d->m = d->exe.model;
    d->samples = d->feed.feed.n;
    return QG_OK;
}

void qg_device_close(qg_device *d)
{
    qg_feed_close(&d->feed);
    if (d->exe.model)
        qg_executable_free(&d->exe);
    if (d->open)
        open_shapes(d);
    qg_arena_free(d->arena);
}

/* --- grids --- */

/* From unsigned codes to signed ones, or the reverse.  Integers of a wider type can
 * hold either: those whose zero point is nearer to the program's when shifted. */
static int32_t type_shift(const qg_trace_array *a, const qg_stored *own)
{
    enum qg_dtype_kind from = qg_dtype_kind_of(a->type.dtype),
                       to = qg_dtype_kind_of(own->dtype);
    unsigned bits = qg_dtype_bits(own->dtype), theirs = qg_dtype_bits(a->type.dtype);
    if (!qg_trace_holds_codes(a) || bits > 16 || theirs < bits)
        return 0;
    int32_t half = 1 << (bits - 1), shift = to == QG_KIND_UINT ? half : -half;
    if (theirs == bits)
        return from == to ? 0 : shift;
    double apart = (double)own->zero[0] - a->zero;
    return fabs(apart - shift) < fabs(apart) ? shift : 0;
}

/* The grid that the trace gives, or the program's:
 *
 *     float value, codes with a grid      real: codes are read as floats
 *     no grid in the trace                the program's
 *     refuted                             the program's, codes shifted to its type
 *     same scale, zero of the other type  the program's, codes shifted to its type
 *     same scale and zero                 the program's
 *     a zero point that is no code        the program's, refuted
 *     else                                other: the trace's is used, with codes and
 *                                         zero point shifted to the program's type
 *
 * own has one scale; p is where it will stay, since grid can point into it. */
static void set_grid(qg_pair *p, const qg_stored *own, bool floats)
{
    const qg_trace_array *a = p->array;
    p->grid = *own;
    p->other = false;
    p->shift = 0;
    p->real = !own->codes && floats && a->grid && qg_trace_holds_codes(a);
    if (!own->codes || !a->grid)
        return;
    double scale = (double)own->scale[0];
    bool same = !p->refuted && fabs(a->scale - scale) <= SAME_SCALE * scale;
    p->shift = type_shift(a, own);
    int64_t zero = a->zero + (int64_t)p->shift;
    if (p->refuted || (same && zero == own->zero[0]))
        return;
    qg_code_range all = qg_code_range_of(own->dtype, 0);
    p->refuted = zero < all.lo || zero > all.hi;
    if (p->refuted)
        return;
    p->other = true;
    p->scale = (float)a->scale;
    p->zero = (int32_t)zero;
    p->grid.scale = &p->scale;
    p->grid.zero = &p->zero;
}

/* Farther away than any code. */
#define BEYOND 0x1p24

/* The grid, and the limits of floats: a quantizer limits them to its codes, which can
 * be narrower than a clamp of the node, but not wider. */
static void settle(qg_pair *p, const qg_stored *own, const qg_value *v)
{
    float low = -INFINITY, high = INFINITY;
    set_grid(p, own, v->type.dtype == QG_F32);
    p->low = p->grid.low;
    p->high = p->grid.high;
    if (!p->grid.codes || qg_trace_holds_codes(p->array) || !v->def ||
        !qg_node_clamps(v->def, &low, &high))
        return;
    double scale = (double)p->grid.scale[0], zero = p->grid.zero[0];
    if (zero + (double)low / scale >= p->grid.low - 0.5)
        p->low = -BEYOND;
    if (zero + (double)high / scale <= p->grid.high + 0.5)
        p->high = BEYOND;
}

void qg_device_refute(qg_device *d, const qg_value *v, bool refuted)
{
    d->pair[v->id].refuted = refuted;
    settle(&d->pair[v->id], &d->exe.program->stored[v->id], v);
}

/* --- pairs --- */

/* The value of the program that stands for one of the model; NULL: it has none. */
static const qg_value *program_value(const qg_device *d, const qg_value *v)
{
    const qg_value *at = d->exe.program->value[v->id];
    return at && !at->constant ? at : NULL;
}

/* Takes the array for v, when it fits and v has none.  Dims are those of the program's
 * value where there is one.  False also for a value with one scale per channel: pairs
 * have one grid; and for dims that the samples leave open. */
static bool take(qg_device *d, const qg_value *v, const qg_trace_array *a, qg_pair p)
{
    qg_pair *to = &d->pair[v->id];
    const qg_value *at = program_value(d, v);
    const qg_stored *own = &d->exe.program->stored[v->id];
    const qg_tensor *type = at ? &at->type : &v->type;
    if (to->array || own->n > 1 || !qg_pair_fits(a, type, &p) ||
        !(qg_tensor_known(type) || qg_graph_inputs_are_known(d->m->graph)))
        return false;
    p.array = a;
    *to = p;
    settle(to, own, v);
    return true;
}

/* QG_EDATA when the name is known and the dims do not fit: a wrong dump, which must
 * not be paired by correlation.  An unknown name, and a second array for one value,
 * are unpaired. */
static qg_status pair_by_name(qg_device *d, const qg_trace_array *a)
{
    qg_pair p = { .confidence = 1 };
    const qg_value *v = qg_pair_named(d->m->graph, a, &p.how);
    bool by_name = v && strcmp(p.how, "name") == 0;
    if (by_name && take(d, v, a, p))
        return QG_OK;
    if (by_name && !d->pair[v->id].array)
        return qg_pair_unfit(d->m->graph, d->trace, a, &v->type);
    return qg_vec_push(d->ctx, d->arena, &d->unpaired, a);
}

/* --- by correlation --- */

/* Whether only elements can tell the order of the value's array. */
static bool is_ambiguous(const qg_device *d, const qg_value *v)
{
    const qg_value *at = program_value(d, v);
    const qg_pair *p = &d->pair[v->id];
    return p->array && at && at->def && qg_pair_is_ambiguous(p->array, &at->type);
}

/* Values that the program computes: those that no array has by name, or one whose order
 * is not known; and where arrays are left, all, since these can show a value again. */
static qg_status choose_own(const qg_device *d, qg_correlation *o)
{
    const qg_graph *g = d->m->graph;
    o->value = QG_NEWN(d->arena, g->value.n, const qg_value *);
    o->keep = QG_NEWN(d->arena, g->value.n, uint32_t);
    if (!o->value || !o->keep)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *at = program_value(d, g->value.at[i]);
        if (!at || !at->def ||
            (!d->unpaired.n && d->pair[i].array && !is_ambiguous(d, g->value.at[i])))
            continue;
        o->value[o->n] = g->value.at[i];
        o->keep[o->n++] = at->id;
    }
    return QG_OK;
}

/* Tries to pair an array without a known name; *done: it has a value. */
typedef qg_status (*pairing)(qg_device *d, const qg_correlation *o,
                             const qg_trace_array *a, bool *done);

/* By its endpoint, where the array correlates with that value: passes can have made
 * another one of this endpoint. */
static qg_status by_endpoint(qg_device *d, const qg_correlation *o,
                             const qg_trace_array *a, bool *done)
{
    qg_pair p = { 0 };
    qg_trace_data data;
    const char *how;
    const qg_value *v = qg_pair_named(d->m->graph, a, &how);
    size_t i = 0;
    while (i < o->n && o->value[i] != v)
        i++;
    if (i == o->n)
        return QG_OK;
    QG_TRY(qg_trace_load(d->ctx, d->trace, a, &data));
    qg_status s = qg_correlation_of(d->ctx, &data, o, i, &p);
    qg_trace_unload(&data);
    p.how = how;
    *done = s == QG_OK && p.confidence >= QG_CORRELATION_SURE && take(d, v, a, p);
    return s;
}

/* By its endpoint, whatever its elements are: nothing else is known of it. */
static qg_status by_endpoint_alone(qg_device *d, const qg_correlation *o,
                                   const qg_trace_array *a, bool *done)
{
    qg_pair p = { 0 };
    const qg_value *v = qg_pair_named(d->m->graph, a, &p.how);
    (void)o;
    *done = v && take(d, v, a, p);
    return QG_OK;
}

/* d->unpaired in order of the file: leaves in it those without a value. */
static qg_status pair_by(qg_device *d, const qg_correlation *o, pairing pair)
{
    size_t left = 0;
    for (size_t i = 0; i < d->unpaired.n; i++) {
        bool done = false;
        QG_TRY(pair(d, o, d->unpaired.at[i], &done));
        if (!done)
            d->unpaired.at[left++] = d->unpaired.at[i];
    }
    d->unpaired.n = left;
    return QG_OK;
}

/* With the values that are left, the best pairs first. */
static qg_status pair_by_correlation(qg_device *d, const qg_correlation *o)
{
    size_t n = d->unpaired.n, left = 0;
    qg_assignment *to = QG_NEWN(d->arena, n + 1, qg_assignment);
    if (!to)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < n; i++)
        to[i].array = d->unpaired.at[i];
    QG_TRY(qg_assign(d->ctx, d->trace, o, d->exe.program->stored, to, n));
    for (size_t i = 0; i < n; i++)
        if (!to[i].value || !take(d, to[i].value, to[i].array, to[i].pair))
            d->unpaired.at[left++] = to[i].array;
    d->unpaired.n = left;
    return QG_OK;
}

/* Whether the arrays whose dims tell their order are in that of the model, all of
 * them: then so are the others, and one whose transposed elements fit is wrong. */
static bool is_in_model_order(const qg_device *d)
{
    bool any = false;
    for (size_t i = 0; i < d->m->graph->value.n; i++) {
        const qg_value *v = d->m->graph->value.at[i];
        const qg_pair *p = &d->pair[i];
        if (!p->array || !v->def || v->type.rank < 3 ||
            qg_pair_is_ambiguous(p->array, &v->type))
            continue; /* an input can be in the model's order alone */
        if (p->moved)
            return false;
        any |= !p->array->n_axis;
    }
    return any;
}

/* The order of arrays that are paired by name. */
static qg_status settle_orders(qg_device *d, const qg_correlation *o)
{
    if (is_in_model_order(d))
        return QG_OK;
    for (size_t i = 0; i < o->n; i++) {
        qg_pair *p = &d->pair[o->value[i]->id];
        if (p->array)
            QG_TRY(qg_correlation_order(d->ctx, d->trace, o, i, p));
    }
    return QG_OK;
}

/* One run of the network in float, where names and dims leave anything open. */
static qg_status pair_the_rest(qg_device *d)
{
    bool open = d->unpaired.n > 0;
    qg_correlation o = { .graph = d->exe.graph,
                         .feed = &d->feed.feed,
                         .pair = d->pair };
    for (size_t i = 0; i < d->m->graph->value.n; i++)
        open |= is_ambiguous(d, d->m->graph->value.at[i]);
    if (!open)
        return QG_OK;
    qg_status s = choose_own(d, &o);
    if (s == QG_OK)
        s = qg_correlation_open(d->ctx, d->arena, &o);
    if (s == QG_OK)
        s = settle_orders(d, &o);
    if (s == QG_OK)
        s = pair_by(d, &o, by_endpoint);
    if (s == QG_OK)
        s = pair_by_correlation(d, &o);
    if (s == QG_OK)
        s = pair_by(d, &o, by_endpoint_alone);
    qg_correlation_close(&o);
    return s;
}

/* --- steps --- */

/* Maps between values of the model and the program, and the steps.  Several values of
 * the model can be one of the program: the first that has an array stands for it. */
static qg_status list_steps(qg_device *d)
{
    const qg_graph *g = d->m->graph, *to = d->exe.graph;
    d->step = QG_NEWN(d->arena, to->value.n, qg_device_step);
    d->stop = QG_NEWN(d->arena, to->value.n, uint8_t);
    d->model = QG_NEWN(d->arena, to->value.n, uint32_t);
    d->known = QG_NEWN(d->arena, g->value.n, uint8_t);
    d->stored = QG_NEWN(d->arena, g->value.n, uint8_t);
    d->dims = QG_NEWN(d->arena, to->value.n, const qg_tensor *);
    d->model_dims = QG_NEWN(d->arena, g->value.n, const qg_tensor *);
    if (!d->step || !d->stop || !d->model || !d->known || !d->stored || !d->dims ||
        !d->model_dims)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < to->value.n; i++)
        d->model[i] = QG_NONE;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *at = d->pair[i].array ? program_value(d, g->value.at[i]) : NULL;
        d->known[i] = d->pair[i].array != NULL;
        d->stored[i] = at != NULL;
        if (d->known[i])
            d->model_dims[i] = &d->pair[i].view;
        if (at && !d->stop[at->id]) {
            d->stop[at->id] = 1;
            d->dims[at->id] = &d->pair[i].view;
            d->model[at->id] = (uint32_t)i;
        }
    }
    for (size_t n = 0; n < to->node.n; n++)
        for (uint32_t k = 0; k < to->node.at[n]->n_out; k++) {
            const qg_value *at = to->node.at[n]->out[k];
            if (!at || !d->stop[at->id])
                continue;
            uint32_t id = d->model[at->id];
            d->step[d->n_step++] =
                (qg_device_step){ .value = g->value.at[id],
                                  .target = at,
                                  .pair = &d->pair[id],
                                  .stored = &d->exe.program->stored[id],
                                  .elements = d->pair[id].array->count };
        }
    return QG_OK;
}

/* Inputs alone are equal on every device: data in place of a trace, for example. */
static qg_status expect_results(const qg_device *d)
{
    for (size_t i = 0; i < d->n_step; i++)
        if (d->step[i].value->def)
            return QG_OK;
    return qg_trace_lacks_results(d->ctx, d->trace);
}

qg_status qg_device_pair(qg_device *d, qg_trace *t)
{
    d->trace = t;
    d->pair = QG_NEWN(d->arena, d->m->graph->value.n, qg_pair);
    if (!d->pair)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < t->n; i++)
        QG_TRY(pair_by_name(d, &t->array[i]));
    QG_TRY(pair_the_rest(d));
    QG_TRY(list_steps(d));
    if (!d->n_step)
        return qg_fail(d->ctx, QG_EDATA,
                       "read %.200s: no array is a value of the network, expected "
                       "names of values or endpoints (docs/trace.md)",
                       t->path);
    QG_TRY(qg_trace_expect(d->ctx, t, d->samples));
    return expect_results(d);
}

/* A copy of d with members of its own: program, arena, pairs, steps.  exe.program is
 * NULL and n_step 0 before the first failure, so that qg_device_by_close frees
 * nothing of d; the feed is that of d and reads it. */
qg_status qg_device_by(const qg_device *d, const qg_profile *profile, qg_device *out)
{
    size_t n = d->m->graph->value.n;
    *out = *d;
    out->exe.program = NULL;
    out->n_step = 0;
    out->arena = qg_arena_new(d->ctx->alloc);
    if (!out->arena)
        return qg_nomem(d->ctx);
    QG_TRY(qg_lower_program(d->m->graph, profile, &d->exe.program->options,
                            &out->exe.program));
    out->exe.graph = out->exe.program->graph;
    out->pair = QG_NEWN(out->arena, n, qg_pair);
    if (!out->pair)
        return qg_nomem(d->ctx);
    for (size_t i = 0; i < n; i++) {
        if (!d->pair[i].array)
            continue;
        out->pair[i] = d->pair[i];
        settle(&out->pair[i], &out->exe.program->stored[i], d->m->graph->value.at[i]);
    }
    return list_steps(out);
}

void qg_device_by_close(qg_device *d)
{
    qg_program_free(d->exe.program);
    qg_arena_free(d->arena);
}

/* --- other profiles --- */

/* A profile that refuses the network is left out; it is no failure. */
static qg_status add_other(const qg_device *d, const qg_profile *p, qg_others *out)
{
    qg_device *other = QG_NEW(d->arena, qg_device);
    if (!other)
        return qg_nomem(d->ctx);
    QG_TRY(qg_vec_reserve(d->ctx, d->arena, &out->device));
    qg_status s = qg_device_by(d, p, other);
    if (s == QG_OK) {
        out->device.at[out->device.n++] = other;
        return QG_OK;
    }
    qg_device_by_close(other);
    return qg_refusal(s); /* it cannot hold the network */
}

qg_status qg_others_open(const qg_device *d, qg_others *out)
{
    qg_search search;
    const char **name;
    size_t n;
    const qg_profile *p;
    QG_TRY(qg_config_search(d->ctx, d->arena, "profiles", &search));
    QG_TRY(qg_config_names(d->ctx, d->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name[i], d->exe.program->profile->name) == 0)
            continue;
        QG_TRY(qg_profile_load(d->ctx, d->arena, name[i], search, &p));
        QG_TRY(add_other(d, p, out));
    }
    return QG_OK;
}

void qg_others_close(qg_others *o)
{
    for (size_t i = 0; i < o->device.n; i++)
        qg_device_by_close(o->device.at[i]);
    *o = (qg_others){ 0 };
}

/* --- the graph of a step --- */

/* Inputs 0 and 1 of kernels: a recipe edit has no more, and operators with more
 * inputs keep lists.  Nodes of the cut are in the order of c->node. */
static qg_status give_grids(const qg_device *d, const qg_cut *c)
{
    for (size_t i = 0; i < c->n_node; i++)
        for (uint32_t k = 0; k < 2 && k < c->node[i]->n_in; k++) {
            const qg_value *v = c->node[i]->in[k];
            const qg_pair *p = v && d->stop[v->id] ? &d->pair[d->model[v->id]] : NULL;
            if (p && p->other)
                QG_TRY(qg_kernel_read_grid(d, c->graph, c->graph->node.at[i], k,
                                           &p->grid));
        }
    return QG_OK;
}

qg_status qg_step_cut(const qg_device *d, const qg_device_step *s, qg_cut *out)
{
    *out = (qg_cut){
        .from = d->exe.graph, .target = s->target, .stop = d->stop, .dims = d->dims
    };
    QG_TRY(qg_cut_make(d->ctx, out));
    qg_status status = give_grids(d, out);
    if (status != QG_OK) {
        qg_graph_free(out->graph);
        out->graph = NULL;
    }
    return status;
}
