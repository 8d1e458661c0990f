#include "engine/io/openvino_graph.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/quant/openvino_grid.h"

static const char *const fake_quantize[] = { "FakeQuantize" };

bool qg_is_fake_quantize(const qg_op *op)
{
    return (op->traits & QG_OP_QUANTIZER) && op->domain &&
           qg_op_is_named(op, fake_quantize, 1);
}

typedef struct builder {
    qg_export *e;
    qg_ctx *ctx;
    qg_graph *g;                 /* the copy; nodes have the ids of the snapshot */
    const qg_op *op;             /* FakeQuantize */
    QG_VEC(const qg_tqc *) says; /* [nodes of g] whose grid a FakeQuantize says */
    bool bake;                   /* constants get the values of their grid */
} builder;

/* One endpoint, in the copy. */
typedef struct place {
    const qg_tqc *tqc;
    qg_node *node;
    const qg_scheme *scheme; /* of tqc, or widened */
} place;

/* --- what is said --- */

static bool is_constant_baked(const qg_tqc *t)
{
    return qg_tqc_is_constant(t) &&
           (t->state == QG_TQC_BAKED || t->state == QG_TQC_PASSIVE_BAKED ||
            qg_tqc_rounds(t));
}

/* Limits of clamps, values of pads: compared with data, so they have no grid of their
 * own. */
static bool is_bound(const qg_tqc *t)
{
    return !t->is_output && qg_op_in_role(t->node->op, t->slot) == 'p';
}

/* A loss that changes no result. */
static qg_status lose_word(builder *b, enum qg_aspect aspect, const qg_tqc *t,
                           const char *text)
{
    QG_TRY(qg_export_lose(b->e, aspect, t, "%s", text));
    b->e->loss.at[b->e->loss.n - 1].computes = false;
    return QG_OK;
}

/* Whether a FakeQuantize can say the grid; what the format's `says` lacks is reported
 * by the export. */
static qg_status can_say(builder *b, const qg_tqc *t, const qg_value *v, bool *out)
{
    const qg_scheme *s = &t->scheme;
    *out = false;
    if (!(s->policy & QG_LINEAR) || s->policy & (QG_BLOCK | QG_DYNAMIC) || is_bound(t))
        return QG_OK;
    if (s->qmax - s->qmin >= QG_OPENVINO_LEVELS)
        return qg_export_lose(
            b->e, QG_SAYS_BITS, t, "%u bits, more than the 16 of a FakeQuantize; %s",
            s->bits,
            b->bake && is_constant_baked(t) ? "its values are on the grid"
                                            : "left in float");
    if (s->axis >= v->type.rank)
        return qg_export_lose(b->e, QG_SAYS_PER_CHANNEL, t,
                              "axis %d of a value of unknown rank; left in float",
                              s->axis);
    if (t->visibility == QG_EXPORT_INTERNAL && !is_constant_baked(t))
        return qg_export_lose(b->e, QG_SAYS_ENDPOINT, t,
                              "it is internal; left in float");
    *out = true;
    return QG_OK;
}

/* Equal bits; offset NULL is all zero. */
static bool same_param(const qg_qparam *p, const qg_qparam *r)
{
    if (p->n != r->n || memcmp(p->scale, r->scale, p->n * sizeof *p->scale) != 0)
        return false;
    for (size_t i = 0; i < p->n; i++)
        if ((p->offset ? p->offset[i] : 0) != (r->offset ? r->offset[i] : 0))
            return false;
    return true;
}

/* What a reader will make of the limits, where it differs from what was meant. */
static qg_status report_reading(builder *b, const place *p, const qg_openvino_limits *l)
{
    const qg_scheme *s = &p->tqc->scheme;
    char text[96];
    qg_scheme r;
    qg_qparam got, want = qg_tqc_param(p->tqc);
    QG_TRY(qg_openvino_grid_of(b->ctx, p->node->name, l, b->e->arena, &r, &got));
    bool codes = r.qmin != s->qmin || r.qmax != s->qmax || r.bits != s->bits;
    (void)snprintf(text, sizeof text,
                   "codes [%lld, %lld] of %u bits read back as [%lld, %lld] of %u",
                   (long long)s->qmin, (long long)s->qmax, s->bits, (long long)r.qmin,
                   (long long)r.qmax, r.bits);
    if (codes)
        QG_TRY(lose_word(b, QG_SAYS_RANGE, p->tqc, text));
    if (!codes && (r.policy ^ s->policy) & QG_SYMMETRIC)
        QG_TRY(lose_word(b, QG_SAYS_OFFSET, p->tqc, "whether offsets are in use"));
    if (memcmp(got.scale, want.scale, want.n * sizeof *want.scale) != 0)
        QG_TRY(lose_word(b, QG_SAYS_ENDPOINT, p->tqc, "the last bit of a scale"));
    return QG_OK;
}

/* --- nodes --- */

/* A limit as a constant: a scalar, or [1, C, 1, 1] with the rank of the data. */
static qg_status add_limit(builder *b, const char *name, const float *x,
                           const qg_tensor *shape, qg_value **out)
{
    qg_tensor *t = QG_NEW(b->g->arena, qg_tensor);
    if (!t || !name)
        return qg_nomem(b->ctx);
    *t = *shape;
    QG_TRY(qg_tensor_alloc(b->ctx, b->g->arena, t));
    memcpy(t->f32, x, (size_t)qg_tensor_count(t) * sizeof *x);
    QG_TRY(qg_graph_add_value(b->g, qg_graph_value(b->g, name) ? NULL : name, out));
    return qg_edit_make_constant(b->g, *out, t);
}

/* Limits vary along the axis of the data and nowhere else. */
static void limit_shape(const place *p, const qg_value *v, size_t n, qg_tensor *out)
{
    int64_t dim[QG_MAX_RANK];
    int32_t axis = p->scheme->axis, rank = axis < 0 ? 0 : v->type.rank;
    for (int32_t i = 0; i < rank; i++)
        dim[i] = i == axis ? (int64_t)n : 1;
    qg_tensor_init(out, QG_F32, rank, dim);
}

/* "conv1/fq_weights_1", as NNCF calls them; NULL when another node has it. */
static const char *node_name(builder *b, const place *p)
{
    const qg_tqc *t = p->tqc;
    const char *kind = t->is_output           ? "output"
                       : is_constant_baked(t) ? "weights"
                                              : "input";
    return qg_arena_printf(b->e->arena, "%s/fq_%s_%u", p->node->name, kind, t->slot);
}

static qg_status levels_attr(builder *b, int32_t levels, qg_attr **out)
{
    int64_t *x = QG_NEW(b->g->arena, int64_t);
    qg_attr *a = QG_NEW(b->g->arena, qg_attr);
    const char *name = qg_intern(b->ctx, "levels");
    if (!x || !a || !name)
        return qg_nomem(b->ctx);
    *x = levels;
    *a = (qg_attr){ .name = name, .type = QG_ATTR_INT, .count = 1, .ints = x };
    *out = a;
    return QG_OK;
}

/* to = FakeQuantize(from); output limits are the input limits. */
static qg_status add_fake_quantize(builder *b, const place *p, qg_value *from,
                                   qg_value *to)
{
    const char *name = node_name(b, p);
    qg_qparam param = qg_tqc_param(p->tqc);
    qg_openvino_limits l;
    qg_value *low, *high;
    qg_tensor shape;
    qg_attr *attr;
    qg_node *n;
    if (!name)
        return qg_nomem(b->ctx);
    QG_TRY(qg_openvino_limits_of(b->ctx, name, p->scheme, &param, b->e->arena, &l));
    QG_TRY(report_reading(b, p, &l));
    limit_shape(p, from, l.n, &shape);
    QG_TRY(add_limit(b, qg_arena_printf(b->e->arena, "%s/low", name), l.low, &shape,
                     &low));
    QG_TRY(add_limit(b, qg_arena_printf(b->e->arena, "%s/high", name), l.high, &shape,
                     &high));
    QG_TRY(levels_attr(b, l.levels, &attr));
    qg_value *in[] = { from, low, high, low, high };
    qg_node_spec spec = { .name = qg_graph_node(b->g, name) ? NULL : name,
                          .op = b->op,
                          .opset = 1,
                          .in = in,
                          .n_in = 5,
                          .out = &to,
                          .n_out = 1,
                          .attr = attr,
                          .n_attr = 1 };
    QG_TRY(qg_graph_add_node(b->g, &spec, &n));
    QG_TRY(qg_vec_room(b->ctx, b->e->arena, &b->says, n->id + (size_t)1));
    while (b->says.n < n->id)
        b->says.at[b->says.n++] = NULL;
    b->says.at[b->says.n++] = p->tqc;
    return QG_OK;
}

/* A value like v, by the name of v and a suffix when that is free. */
static qg_status add_like(builder *b, const qg_value *v, const char *suffix,
                          qg_value **out)
{
    const char *name = qg_arena_printf(b->e->arena, "%s/%s", v->name, suffix);
    if (!name)
        return qg_nomem(b->ctx);
    QG_TRY(qg_graph_add_value(b->g, qg_graph_value(b->g, name) ? NULL : name, out));
    (*out)->type = v->type;
    memcpy((*out)->dim_name, v->dim_name, sizeof v->dim_name);
    return QG_OK;
}

/* --- endpoints --- */

/* Everybody reads the rounded value from here on. */
static qg_status say_output(builder *b, const place *p)
{
    qg_value *raw = p->node->out[p->tqc->slot], *rounded;
    bool say;
    QG_TRY(can_say(b, p->tqc, raw, &say));
    if (!say)
        return QG_OK;
    QG_TRY(add_like(b, raw, raw->is_output ? "float" : "rounded", &rounded));
    QG_TRY(qg_edit_replace_value(b->g, raw, rounded));
    return add_fake_quantize(b, p, raw, rounded);
}

/* A FakeQuantize of v on the same grid, made for another reader; or NULL. */
static qg_value *find_said(const builder *b, const qg_value *v, const qg_tqc *t)
{
    qg_qparam want = qg_tqc_param(t);
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        const qg_tqc *other = n->id < b->says.n ? b->says.at[n->id] : NULL;
        if (!other || other->is_output || !qg_scheme_same(&other->scheme, &t->scheme))
            continue;
        qg_qparam got = qg_tqc_param(other);
        if (same_param(&got, &want))
            return n->out[0];
    }
    return NULL;
}

/* Only this slot reads it, and those that round alike. */
static qg_status say_input(builder *b, const place *p)
{
    qg_value *v = p->node->in[p->tqc->slot];
    qg_value *rounded = find_said(b, v, p->tqc);
    if (!rounded) {
        QG_TRY(add_like(b, v, "rounded", &rounded));
        QG_TRY(add_fake_quantize(b, p, v, rounded));
    }
    return qg_edit_set_input(b->g, p->node, p->tqc->slot, rounded);
}

/* Only the ends of the grid: what FakeQuantize with more levels would let through. */
static void clamp(const qg_scheme *s, const qg_qparam *p, const qg_tensor *x,
                  qg_tensor *y)
{
    int64_t inner =
        s->axis < 0 ? qg_tensor_count(x) : qg_dims_product(x, s->axis + 1, x->rank);
    for (int64_t i = 0, n = qg_tensor_count(x); i < n; i++) {
        size_t c = (size_t)(i / inner) % p->n;
        double zero = p->offset ? (double)p->offset[c] : 0;
        double scale = (double)p->scale[c];
        double low = ((double)s->qmin - zero) * scale;
        double high = ((double)s->qmax - zero) * scale, v = (double)x->f32[i];
        y->f32[i] = (float)(v < low ? low : v > high ? high : v);
    }
}

/* The values that stand in the file: on the grid, or clamped to its ends and left to a
 * FakeQuantize. */
static qg_status constant_values(builder *b, const place *p, bool bake,
                                 const qg_tensor *x, qg_tensor **out)
{
    char what[QG_ENDPOINT_TEXT];
    const qg_scheme *s = &p->tqc->scheme;
    qg_qparam param = qg_tqc_param(p->tqc);
    QG_TRY(qg_tensor_clone(b->ctx, b->g->arena, x, out));
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    if (bake)
        return qg_fake_quantize(b->ctx, qg_tqc_text(p->tqc, what), s, &param, x, *out);
    clamp(s, &param, x, *out);
    return QG_OK;
}

/* A constant that others read too gets a copy of its own for this slot. */
static qg_status say_constant(builder *b, place *p)
{
    qg_value *v = p->node->in[p->tqc->slot];
    qg_tensor *t = NULL;
    bool say;
    QG_TRY(can_say(b, p->tqc, v, &say));
    QG_TRY(constant_values(b, p, b->bake || !say, v->constant, &t));
    if (v->use.n == 1 && !v->is_output) {
        v->constant = t;
    } else {
        QG_TRY(add_like(b, v, p->node->name, &v));
        QG_TRY(qg_edit_make_constant(b->g, v, t));
        QG_TRY(qg_edit_set_input(b->g, p->node, p->tqc->slot, v));
    }
    qg_scheme widened = qg_openvino_widened(&p->tqc->scheme);
    p->scheme = &widened;
    return say ? say_input(b, p) : QG_OK;
}

static qg_status say_slot(builder *b, qg_node *n, const qg_tqc *t)
{
    bool say;
    place p = { .tqc = t, .node = n, .scheme = t ? &t->scheme : NULL };
    if (!t)
        return QG_OK;
    if (is_constant_baked(t))
        return say_constant(b, &p);
    if (!qg_tqc_rounds(t))
        return QG_OK;
    if (t->is_output)
        return say_output(b, &p);
    QG_TRY(can_say(b, t, n->in[t->slot], &say));
    return say ? say_input(b, &p) : QG_OK;
}

/* In order of execution, so that an input sees what its producer rounded. */
static qg_status say_all(builder *b)
{
    const qg_graph *g = b->e->quant->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        qg_node *copy = b->g->node.at[i];
        for (uint32_t k = 0; n->tin && k < n->n_in; k++)
            QG_TRY(say_slot(b, copy, n->tin[k]));
        for (uint32_t k = 0; n->tout && k < n->n_out; k++)
            QG_TRY(say_slot(b, copy, n->tout[k]));
    }
    return QG_OK;
}

qg_status qg_openvino_graph(qg_export *e)
{
    builder b = { .e = e, .ctx = e->ctx };
    const char *weights = e->option[QG_FORMAT_WEIGHTS];
    size_t removed;
    b.bake = !weights || strcmp(weights, "float") != 0;
    b.op = qg_op_find(e->ctx->registry, QG_OPENVINO_DOMAIN, fake_quantize[0], 1);
    if (!b.op)
        return qg_fail(e->ctx, QG_EUNSUPPORTED,
                       "export: operator FakeQuantize is not in this build");
    QG_TRY(qg_graph_clone(e->quant->graph, &e->graph));
    b.g = e->graph;
    QG_TRY(say_all(&b));
    if (qg_graph_opset(b.g, QG_OPENVINO_DOMAIN) == 0)
        QG_TRY(qg_vec_push(e->ctx, b.g->arena, &b.g->opset,
                           (qg_opset_import){ QG_OPENVINO_DOMAIN, 1 }));
    return qg_graph_sweep(b.g, &removed);
}
