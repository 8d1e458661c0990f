#include "engine/ir/lower.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/ir/edit.h"

/* --- grids --- */

bool qg_stored_same(const qg_stored *a, const qg_stored *b)
{
    return a->codes && b->codes && a->dtype == b->dtype && a->n == b->n &&
           (a->n == 1 || a->axis == b->axis) &&
           memcmp(a->scale, b->scale, a->n * sizeof *a->scale) == 0 &&
           memcmp(a->zero, b->zero, a->n * sizeof *a->zero) == 0;
}

const char *qg_stored_text(const qg_stored *s, char text[QG_STORED_TEXT])
{
    char scale[QG_NUM_TEXT];
    if (!s->codes)
        return qg_dtype_name(s->dtype);
    qg_num_f32(scale, s->scale[0]);
    if (s->n == 1)
        (void)snprintf(text, QG_STORED_TEXT, "%s %s + %d", qg_dtype_name(s->dtype),
                       scale, (int)s->zero[0]);
    else
        (void)snprintf(text, QG_STORED_TEXT, "%s %s ... [%u]", qg_dtype_name(s->dtype),
                       scale, (unsigned)s->n);
    return text;
}

/* --- names --- */

typedef bool has_name(const qg_graph *g, const char *name);

static bool has_value(const qg_graph *g, const char *name)
{
    return qg_graph_value(g, name) != NULL;
}

static bool has_node(const qg_graph *g, const char *name)
{
    return qg_graph_node(g, name) != NULL;
}

/* Short numbers first; where many are taken the graph's counter of made-up names. */
static const char *free_name(qg_graph *to, const qg_graph *from, has_name *has,
                             const char *base)
{
    enum { SHORT = 9 };
    const char *name = base;
    for (unsigned i = 2; name && (has(to, name) || has(from, name)); i++)
        name =
            qg_arena_printf(to->arena, "%s_%u", base,
                            i <= SHORT ? i : (unsigned)(SHORT + 1 + to->next_name++));
    return name;
}

const char *qg_lower_value_name(qg_graph *to, const qg_graph *from, const char *base)
{
    return free_name(to, from, has_value, base);
}

const char *qg_lower_node_name(qg_graph *to, const qg_graph *from, const char *base)
{
    return free_name(to, from, has_node, base);
}

/* --- rows --- */

/* The code of a real bound, half away from zero or to even, within the type. */
static int32_t code_of(const qg_stored *s, float bound, bool away)
{
    qg_code_range all = qg_code_range_of(s->dtype, 0);
    double steps = (double)(bound / s->scale[0]);
    double code = s->zero[0] + (away ? round(steps) : nearbyint(steps));
    return (int32_t)fmin(fmax(code, all.lo), all.hi);
}

uint32_t qg_stored_activations(const qg_stored *s)
{
    uint32_t set = 0;
    for (int a = 0; a < QG_NACTIVATION; a++) {
        float low, high;
        qg_activation_limits((qg_activation)a, &low, &high);
        if (s->low == code_of(s, low, true) && s->high == code_of(s, high, true))
            set |= 1u << a;
    }
    return set;
}

qg_activation qg_first_activation(uint32_t set)
{
    int a = 0;
    assert(set);
    while (!(set >> a & 1))
        a++;
    return (qg_activation)a;
}

/* Narrows the limits of s by bounds. */
static void narrow(qg_stored *s, float low, float high, bool away)
{
    int32_t first = s->low, last = s->high;
    int32_t from = code_of(s, low, away), to = code_of(s, high, away);
    s->low = from < first ? first : from > last ? last : from;
    s->high = to < first ? first : to > last ? last : to;
    if (s->high < s->low)
        s->high = s->low;
}

static uint32_t limits_of(const qg_lower *l)
{
    qg_stored out = l->out[0];
    if (!out.codes)
        return 0;
    narrow(&out, l->low, l->high, true);
    return qg_stored_activations(&out);
}

/* Ratios only where both the inputs and the output have a grid. */
static qg_profile_grids grids_of(const qg_lower *l)
{
    qg_profile_grids r = { .limits = limits_of(l) };
    if (l->node->n_in > 1 && l->in[1].stored.codes)
        r.w_off = l->in[1].stored.zero[0] != 0;
    if (!l->out[0].codes)
        return r;
    for (uint32_t k = 0; k < l->node->n_in; k++) {
        const qg_stored *s = &l->in[k].stored;
        if (!s->codes || qg_op_in_role(l->node->op, k) != 'd')
            continue;
        float ratio = s->scale[0] / l->out[0].scale[0];
        r.least = r.most == 0 || ratio < r.least ? ratio : r.least;
        r.most = ratio > r.most ? ratio : r.most;
    }
    return r;
}

static qg_dtype type_of(const qg_lower *l, uint32_t k)
{
    if (k >= l->node->n_in || !l->in[k].value)
        return QG_NODTYPE;
    return l->in[k].stored.codes ? l->in[k].stored.dtype : QG_NODTYPE;
}

const char qg_lower_starved[] = "out of memory";

qg_status qg_lower_refuse(qg_lower *l, const char *fmt, ...)
{
    char text[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    l->refusal = qg_arena_strdup(l->to->arena, text);
    if (!l->refusal)
        l->refusal = qg_lower_starved;
    return QG_OK;
}

/* What a row excludes besides types and ratios. */
static bool fits_row(qg_lower *l, const qg_profile_row *row)
{
    const qg_stored *out = &l->out[0];
    char text[QG_STORED_TEXT];
    const qg_stored *off = NULL;
    for (uint32_t k = 0; k < l->node->n_in; k++)
        if (l->in[k].stored.codes && !l->in[k].constant && l->in[k].stored.zero[0])
            off = &l->in[k].stored;
    if (row->tail == QG_TAIL_CODES && out->codes && out->zero[0])
        off = out;
    if (row->requant.symmetric && off)
        (void)qg_lower_refuse(l, "row %s is symmetric, and a value is stored as %s",
                              row->id, qg_stored_text(off, text));
    else if (row->has_output && out->codes &&
             (out->scale[0] != row->output_scale || out->zero[0] != row->output_zero))
        (void)qg_lower_refuse(l, "row %s demands output %g + %d, and it is %s", row->id,
                              (double)row->output_scale, (int)row->output_zero,
                              qg_stored_text(out, text));
    else if (row->tail == QG_TAIL_CODES && !out->codes)
        (void)qg_lower_refuse(l, "row %s stores codes, and the output is not quantized",
                              row->id);
    else
        return true;
    return false;
}

const qg_profile_row *qg_lower_row(qg_lower *l, qg_kernel_use use)
{
    qg_profile_types t = { type_of(l, 0), type_of(l, 1),
                           l->out[0].codes ? l->out[0].dtype : QG_F32 };
    qg_profile_grids g = grids_of(l);
    const qg_profile *p = l->profile;
    const qg_profile_row *row = qg_profile_find(p, use, t, g);
    if (row) {
        l->row = row;
        return fits_row(l, row) ? row : NULL;
    }
    if (!qg_profile_uses(p, use))
        (void)qg_lower_refuse(l, "profile %s has no row for %s", p->name,
                              qg_kernel_use_name(use));
    else
        (void)qg_lower_refuse(
            l, "no row of profile %s for %s fits x %s, w %s, y %s, ratio %g to %g",
            p->name, qg_kernel_use_name(use), qg_dtype_name(t.x), qg_dtype_name(t.w),
            qg_dtype_name(t.y), (double)g.least, (double)g.most);
    return NULL;
}

const qg_profile_row *qg_lower_clamp_row(qg_lower *l)
{
    qg_profile_types t = { type_of(l, 0), QG_NODTYPE,
                           l->out[0].codes ? l->out[0].dtype : QG_F32 };
    bool other = qg_profile_uses(l->profile, QG_USE_RELU) &&
                 !qg_profile_find(l->profile, QG_USE_RELU, t, grids_of(l));
    return qg_lower_row(l, other ? QG_USE_RESCALE : QG_USE_RELU);
}

/* --- nodes --- */

/* Another value can have the name that v has. */
static qg_status free_value_name(qg_graph *to, qg_value *v)
{
    const char *other = qg_lower_value_name(to, to, "withdrawn");
    return other ? qg_value_set_name(to, v, other) : qg_nomem(to->ctx);
}

/* Removes a node that nothing reads; its names are free again. */
static qg_status withdraw(qg_graph *to, qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k])
            QG_TRY(free_value_name(to, n->out[k]));
    qg_edit_remove_node(to, n);
    return QG_OK;
}

/* The type of output 0 by the operator, which checks grids and factors as well. */
static qg_status infer_made(const qg_node *n, qg_ctx *ctx, qg_arena *a)
{
    const qg_tensor **in = QG_NEWN(a, n->n_in, const qg_tensor *);
    qg_tensor result, *out = &result;
    if (!in)
        return qg_nomem(ctx);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_value *v = n->in[k];
        in[k] = !v ? NULL : v->constant ? v->constant : &v->type;
    }
    qg_tensor_unknown(&result, QG_NODTYPE);
    qg_call call = { .ctx = ctx,
                     .node = n,
                     .param = n->param,
                     .n_in = n->n_in,
                     .n_out = 1,
                     .in = in,
                     .out = &out,
                     .scratch = a };
    QG_TRY(n->op->infer(&call));
    n->out[0]->type = result;
    return QG_OK;
}

/* Statuses by which an operator excludes grids, rows or attributes. */
static bool excludes(qg_status s) { return s == QG_EUNSUPPORTED || s == QG_ENUMERIC; }

/* What the kernel cannot compute, it refuses here; other faults are those of qg_infer,
 * which sees the whole program. */
static qg_status try_made(qg_graph *to, qg_node *n)
{
    qg_arena *a = qg_arena_new(to->ctx->alloc);
    if (!a)
        return qg_nomem(to->ctx);
    qg_status s = infer_made(n, to->ctx, a);
    qg_arena_free(a);
    if (!excludes(s))
        return qg_is_nomem(s) ? s : QG_OK;
    QG_TRY(withdraw(to, n));
    return QG_EUNSUPPORTED;
}

qg_status qg_lower_add(qg_graph *to, const qg_lower_node *spec, qg_value **out)
{
    const qg_op *op =
        qg_op_find(to->ctx->registry, QG_LOWER_DOMAIN, spec->op, QG_LOWER_OPSET);
    const qg_attr *attr;
    size_t n_attr;
    qg_value *value;
    qg_node *node;
    if (!op)
        return qg_fail(to->ctx, QG_EUNSUPPORTED,
                       "lower: node '%s': there is no operator quantgraph.%s",
                       spec->name, spec->op);
    QG_TRY(qg_recipe_write(to, spec->recipe, spec->attr, spec->n_attr, &attr, &n_attr));
    QG_TRY(qg_graph_add_value(to, spec->output, &value));
    qg_node_spec n = { .name = spec->name,
                       .op = op,
                       .opset = QG_LOWER_OPSET,
                       .in = spec->in,
                       .n_in = spec->n_in,
                       .out = &value,
                       .n_out = 1,
                       .attr = attr,
                       .n_attr = n_attr };
    qg_status s = qg_graph_add_node(to, &n, &node);
    if (excludes(s)) {
        QG_TRY(free_value_name(to, value));
        return QG_EUNSUPPORTED;
    }
    QG_TRY(s);
    QG_TRY(try_made(to, node));
    *out = value;
    return QG_OK;
}

/* A kernel that excludes these grids, as a refusal with its message. */
static qg_status add_or_refuse(qg_lower *l, const qg_lower_node *spec, qg_value **out)
{
    qg_status s = qg_lower_add(l->to, spec, out);
    if (s != QG_EUNSUPPORTED)
        return s;
    return qg_lower_refuse(l, "row %s: %s", spec->recipe->row.id, l->ctx->message);
}

qg_status qg_lower_constant(qg_lower *l, const char *name, const qg_tensor *t,
                            qg_value **out)
{
    const char *unique = qg_lower_value_name(l->to, l->from, name);
    qg_tensor *kept = QG_NEW(l->to->arena, qg_tensor);
    qg_value *v;
    if (!unique || !kept)
        return qg_nomem(l->ctx);
    *kept = *t;
    QG_TRY(qg_graph_add_value(l->to, unique, &v));
    QG_TRY(qg_edit_make_constant(l->to, v, kept));
    *out = v;
    return QG_OK;
}

/* Narrows the limits of s as that row does; they are bounds, or a fused activation. */
static void narrow_by(const qg_profile_row *row, float low, float high, qg_stored *s)
{
    qg_stored away = *s;
    narrow(&away, low, high, true);
    uint32_t fused =
        row->clamp == QG_CLAMP_ACTIVATION ? qg_stored_activations(&away) : 0;
    if (fused)
        qg_activation_limits(qg_first_activation(fused), &low, &high);
    bool to_even =
        fused || (row->clamp != QG_CLAMP_CODES && row->clamp != QG_CLAMP_ACTIVATION);
    if (to_even)
        narrow(s, low, high, false);
    else
        *s = away;
}

/* Narrows the limits of *out by the clamp; false: refused. */
static bool clamp_output(qg_lower *l, const qg_profile_row *row, qg_stored *out)
{
    if (l->low == -INFINITY && l->high == INFINITY)
        return true;
    qg_stored within = *out;
    narrow_by(row, l->low, l->high, &within);
    bool implied = within.low == out->low && within.high == out->high;
    if (row->clamp == QG_CLAMP_NO || (row->clamp == QG_CLAMP_IMPLIED && !implied)) {
        (void)qg_lower_refuse(
            l, "row %s takes %s, and the clamp from %g to %g follows", row->id,
            row->clamp == QG_CLAMP_NO ? "no clamp"
                                      : "only a clamp that cuts off no code",
            (double)l->low, (double)l->high);
        return false;
    }
    *out = within;
    return true;
}

/* Grids of the inputs; int32 sums have none. */
static qg_stored input_grid(const qg_lower *l, const qg_value *v)
{
    for (uint32_t k = 0; k < l->node->n_in; k++)
        if (l->in[k].value == v && v && l->in[k].stored.codes &&
            qg_dtype_bits(l->in[k].stored.dtype) <= 16)
            return l->in[k].stored;
    return (qg_stored){ 0 };
}

static qg_status input_grids(const qg_lower *l, const qg_op *op, qg_value *const *in,
                             uint32_t n_in, qg_recipe *r)
{
    bool variadic = op && op->max_in == UINT8_MAX;
    qg_stored *all = variadic ? QG_NEWN(l->to->arena, n_in, qg_stored) : NULL;
    if (variadic && !all)
        return qg_nomem(l->ctx);
    for (uint32_t k = 0; k < n_in; k++) {
        if (variadic)
            all[k] = input_grid(l, in[k]);
        else if (k < QG_RECIPE_INPUTS)
            r->in[k] = input_grid(l, in[k]);
    }
    r->all = all;
    r->n_all = variadic ? n_in : 0;
    return QG_OK;
}

qg_status qg_lower_emit(qg_lower *l, const char *op, const qg_profile_row *row,
                        qg_value *const *in, uint32_t n_in)
{
    bool floats = row->tail == QG_TAIL_FLOAT;
    qg_recipe r = {
        .row = *row, .out = {.dtype = QG_F32, .n = 1}
    };
    const char *name = l->name[0];
    if (!floats)
        r.out = l->out[0];
    else if (l->out[0].codes || l->low != -INFINITY || l->high != INFINITY)
        name = qg_arena_printf(l->to->arena, "%s_sum", l->node->out[0]->name);
    if (!floats && !clamp_output(l, row, &r.out))
        return QG_OK;
    QG_TRY(input_grids(
        l, qg_op_find(l->ctx->registry, QG_LOWER_DOMAIN, op, QG_LOWER_OPSET), in, n_in,
        &r));
    qg_lower_node spec = { .op = op,
                           .name = qg_lower_node_name(l->to, l->to, l->node->name),
                           .output =
                               name ? qg_lower_value_name(l->to, l->to, name) : NULL,
                           .recipe = &r,
                           .attr = l->attr,
                           .n_attr = l->n_attr,
                           .in = in,
                           .n_in = n_in };
    if (!spec.name || !spec.output)
        return qg_nomem(l->ctx);
    l->floats = floats;
    l->row = row;
    return add_or_refuse(l, &spec, &l->made[0]);
}

/* --- the float operator on codes --- */

/* Every output has the grid of output 0; false: refused. */
static bool one_output_grid(qg_lower *l)
{
    char a[QG_STORED_TEXT], b[QG_STORED_TEXT];
    const qg_stored *grid = &l->out[0];
    for (uint32_t k = 1; k < l->node->n_out; k++)
        if (l->node->out[k] && qg_op_out_role(l->node->op, k) == 'd' &&
            !qg_stored_same(&l->out[k], grid)) {
            (void)qg_lower_refuse(
                l, "out%u is stored as %s and out0 as %s, expected one grid",
                (unsigned)k, qg_stored_text(&l->out[k], a), qg_stored_text(grid, b));
            return false;
        }
    return true;
}

/* IntRescale between grids by the row of that use, else by that of rescale; *out stays
 * when it is refused.  `to` has the limits. */
static qg_status rescale(qg_lower *l, qg_kernel_use use, qg_value *x,
                         const qg_stored *from, const qg_stored *to, qg_value **out)
{
    qg_profile_types t = { from->dtype, QG_NODTYPE, to->dtype };
    float ratio = from->scale[0] / to->scale[0];
    qg_profile_grids g = { .least = ratio,
                           .most = ratio,
                           .limits = qg_stored_activations(to) };
    const qg_profile_row *row = qg_profile_find(l->profile, use, t, g);
    if (!row)
        row = qg_profile_find(l->profile, QG_USE_RESCALE, t, g);
    if (!row)
        return qg_lower_refuse(l, "profile %s has no row of rescale", l->profile->name);
    qg_recipe recipe = { .row = *row, .in = { *from }, .out = *to };
    const char *base = qg_arena_printf(l->to->arena, "%s_rescaled", l->node->name);
    qg_lower_node spec = { .op = "IntRescale",
                           .name =
                               base ? qg_lower_node_name(l->to, l->from, base) : NULL,
                           .output =
                               base ? qg_lower_value_name(l->to, l->from, base) : NULL,
                           .recipe = &recipe,
                           .in = &x,
                           .n_in = 1 };
    return spec.name && spec.output ? add_or_refuse(l, &spec, out) : qg_nomem(l->ctx);
}

/* in[k]: the inputs on the grid of output 0; *ok false: refused.  Rescaling is
 * monotone, so it may as well come before a move or a maximum. */
static qg_status on_output_grid(qg_lower *l, qg_value **in, bool *ok)
{
    char a[QG_STORED_TEXT], b[QG_STORED_TEXT];
    const qg_stored *grid = &l->out[0];
    *ok = grid->codes && one_output_grid(l);
    for (uint32_t k = 0; *ok && k < l->node->n_in; k++) {
        const qg_stored *s = &l->in[k].stored;
        in[k] = l->in[k].value;
        if (!strchr("dwgp", qg_op_in_role(l->node->op, k)) || !in[k] ||
            qg_stored_same(s, grid))
            continue;
        *ok = s->codes && !l->in[k].constant;
        if (*ok) {
            QG_TRY(rescale(l, QG_USE_RESCALE, in[k], s, grid, &in[k]));
            *ok = !l->refusal;
        } else {
            QG_TRY(qg_lower_refuse(
                l, "in%u is stored as %s and out0 as %s, expected one grid",
                (unsigned)k, qg_stored_text(s, a), qg_stored_text(grid, b)));
        }
    }
    return QG_OK;
}

/* What the operator would infer on codes. */
static qg_status infer_on_codes(const qg_lower *l, qg_arena *a)
{
    const qg_node *n = l->node;
    const qg_tensor **in = QG_NEWN(a, n->n_in, const qg_tensor *);
    qg_tensor *type = QG_NEWN(a, n->n_in, qg_tensor);
    qg_tensor **out = QG_NEWN(a, n->n_out, qg_tensor *);
    qg_tensor *result = QG_NEWN(a, n->n_out, qg_tensor);
    if (!in || !type || !out || !result)
        return qg_nomem(l->ctx);
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!n->in[k])
            continue;
        type[k] = n->in[k]->type;
        if (l->in[k].stored.codes)
            type[k].dtype = l->out[0].dtype;
        const qg_tensor *constant = l->in[k].value ? l->in[k].value->constant : NULL;
        in[k] = constant ? constant : &type[k];
        if (in[k]->rank < 0)
            return QG_OK;
    }
    for (uint32_t k = 0; k < n->n_out; k++) {
        qg_tensor_unknown(&result[k], QG_NODTYPE);
        out[k] = n->out[k] ? &result[k] : NULL;
    }
    qg_call call = { .ctx = l->ctx,
                     .node = n,
                     .param = n->param,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .scratch = a };
    return n->op->infer ? n->op->infer(&call) : QG_OK;
}

/* False: refused with the message of the operator. */
static qg_status takes_codes(qg_lower *l, bool *out)
{
    qg_arena *a = qg_arena_new(l->ctx->alloc);
    if (!a)
        return qg_nomem(l->ctx);
    qg_status s = infer_on_codes(l, a);
    qg_arena_free(a);
    if (qg_is_nomem(s))
        return s;
    *out = s == QG_OK;
    return s == QG_OK ? QG_OK : qg_lower_refuse(l, "%s", l->ctx->message);
}

static qg_status add_same(qg_lower *l, qg_value *const *in, qg_node **out)
{
    const qg_node *n = l->node;
    bool clamps = l->low != -INFINITY || l->high != INFINITY;
    for (uint32_t k = 0; k < n->n_out; k++) {
        const char *base = clamps && k == 0
                               ? qg_arena_printf(l->to->arena, "%s_unclamped", n->name)
                               : l->name[k];
        const char *name =
            n->out[k] && base ? qg_lower_value_name(l->to, l->to, base) : NULL;
        if (n->out[k] && !name)
            return qg_nomem(l->ctx);
        if (!n->out[k])
            continue;
        QG_TRY(qg_graph_add_value(l->to, name, &l->made[k]));
        l->made[k]->type = n->out[k]->type;
        l->made[k]->type.dtype = l->out[k].dtype;
    }
    qg_node_spec spec = { .name = qg_lower_node_name(l->to, l->to, n->name),
                          .op = n->op,
                          .opset = n->opset,
                          .in = in,
                          .n_in = n->n_in,
                          .out = l->made,
                          .n_out = n->n_out,
                          .attr = l->attr,
                          .n_attr = l->n_attr };
    return spec.name ? qg_graph_add_node(l->to, &spec, out) : qg_nomem(l->ctx);
}

/* Codes are clamped by a rescale from the grid to itself. */
static qg_status clamp_same(qg_lower *l, const qg_profile_row *row)
{
    qg_stored out = l->out[0];
    qg_value *clamped = NULL;
    if ((l->low == -INFINITY && l->high == INFINITY) || !clamp_output(l, row, &out))
        return QG_OK;
    QG_TRY(rescale(l, QG_USE_RELU, l->made[0], &l->out[0], &out, &clamped));
    return clamped ? qg_value_set_name(l->to, l->made[0] = clamped, l->name[0]) : QG_OK;
}

qg_status qg_lower_same(qg_lower *l, const qg_profile_row *row)
{
    qg_value **in = QG_NEWN(l->to->arena, l->node->n_in, qg_value *);
    qg_node *made;
    bool taken = true;
    if (!in)
        return qg_nomem(l->ctx);
    QG_TRY(takes_codes(l, &taken));
    if (taken)
        QG_TRY(on_output_grid(l, in, &taken));
    l->row = row;
    if (!taken)
        return QG_OK;
    QG_TRY(add_same(l, in, &made));
    QG_TRY(clamp_same(l, row));
    return l->refusal ? withdraw(l->to, made) : QG_OK;
}
