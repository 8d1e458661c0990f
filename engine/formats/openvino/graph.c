#include "engine/formats/explicit_pads.h"
#include "engine/formats/openvino/graph.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/formats/fake_quantize.h"
#include "engine/formats/openvino_plugin.h"
#include "engine/formats/quantize_linear.h"
#include "engine/formats/resize_extent.h"
#include "engine/ir/edit.h"

enum { CODE_BITS = 8 }; /* of constants that are written as integers */

typedef struct builder {
    qg_export *e;
    qg_ctx *ctx;
    qg_graph *g;             /* the copy; nodes have the ids of the snapshot */
    const qg_op *op;         /* FakeQuantize */
    const qg_op *dequantize; /* DequantizeLinear */
    int64_t opset;           /* of the latter, at least 13 */
    QG_VEC(const qg_tqc *)
    says;      /* [nodes of g] the endpoint whose grid a FakeQuantize
                                  * has */
    bool bake; /* constants get the values of their grid, or codes */
} builder;

/* One endpoint, in the copy. */
typedef struct place {
    const qg_tqc *tqc;
    qg_node *node;
    const qg_scheme *scheme; /* of tqc, or widened, or of the codes */
    qg_qparam param;         /* of tqc, or of the codes */
    bool ahead;              /* of a maximum: input 0 of node, the grid of tqc */
} place;

/* --- representable grids --- */

static bool is_constant_baked(const qg_tqc *t)
{
    return qg_tqc_is_constant(t) && qg_tqc_is_on_grid(t);
}

/* Limits of clamps, values of pads: compared with data, so they have no grid of their
 * own. */
static bool is_bound(const qg_tqc *t) { return qg_tqc_role(t) == 'p'; }

/* A loss that changes no result. */
static qg_status lose_word(builder *b, enum qg_aspect aspect, const qg_tqc *t,
                           const char *text)
{
    QG_TRY(qg_export_lose(b->e, aspect, t, "%s", text));
    b->e->loss.at[b->e->loss.n - 1].computes = false;
    return QG_OK;
}

/* Whether a FakeQuantize can represent the grid; the export reports aspects that the
 * format's `says` lacks. */
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
                              "its visibility is internal; left in float");
    *out = true;
    return QG_OK;
}

/* The reader's interpretation, where it differs from the original. */
static qg_status report_reading(builder *b, const place *p, const qg_grid_record *r)
{
    const qg_scheme *s = &p->tqc->scheme;
    char text[96];
    qg_qparam want = qg_tqc_param(p->tqc);
    bool codes = r->scheme.qmin != s->qmin || r->scheme.qmax != s->qmax ||
                 r->scheme.bits != s->bits;
    assert(r->param.n == want.n);
    (void)snprintf(text, sizeof text,
                   "codes [%lld, %lld] of %u bits are read back as [%lld, %lld] of %u",
                   (long long)s->qmin, (long long)s->qmax, s->bits,
                   (long long)r->scheme.qmin, (long long)r->scheme.qmax,
                   r->scheme.bits);
    if (codes)
        QG_TRY(lose_word(b, QG_SAYS_RANGE, p->tqc, text));
    if (!codes && (r->scheme.policy ^ s->policy) & QG_SYMMETRIC)
        QG_TRY(lose_word(b, QG_SAYS_OFFSET, p->tqc, "whether the scheme has offsets"));
    if (memcmp(r->param.scale, want.scale, want.n * sizeof *want.scale) != 0)
        QG_TRY(lose_word(b, QG_SAYS_ENDPOINT, p->tqc, "the last bit of a scale"));
    return QG_OK;
}

/* --- nodes --- */

/* A constant of its own, "<node>/<what>"; a number follows where a name is taken. */
static qg_status add_constant(builder *b, const char *node, const char *what,
                              const qg_tensor *t, qg_value **out)
{
    const char *name = qg_arena_printf(b->e->arena, "%s/%s", node, what);
    qg_tensor *copy;
    if (!name)
        return qg_nomem(b->ctx);
    QG_TRY(qg_tensor_clone(b->ctx, b->g->arena, t, &copy));
    QG_TRY(qg_graph_add_value(b->g, qg_graph_value(b->g, name) ? NULL : name, out));
    return qg_edit_make_constant(b->g, *out, copy);
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
    const char *kind = p->ahead               ? "input"
                       : t->is_output         ? "output"
                       : is_constant_baked(t) ? "weights"
                                              : "input";
    return qg_arena_printf(b->e->arena, "%s/fq_%s_%u", p->node->name, kind,
                           p->ahead ? 0 : t->slot);
}

static qg_status int_attr(builder *b, const char *word, int64_t value, qg_attr **out)
{
    int64_t *x = QG_NEW(b->g->arena, int64_t);
    qg_attr *a = QG_NEW(b->g->arena, qg_attr);
    const char *name = qg_intern(b->ctx, word);
    if (!x || !a || !name)
        return qg_nomem(b->ctx);
    *x = value;
    *a = (qg_attr){ .name = name, .type = QG_ATTR_INT, .count = 1, .ints = x };
    *out = a;
    return QG_OK;
}

/* The node by its name, or by a new name where that is in use. */
static qg_status add_node(builder *b, const char *name, const qg_node_spec *like,
                          qg_node **out)
{
    qg_node_spec spec = *like;
    spec.name = qg_graph_node(b->g, name) ? NULL : name;
    return qg_graph_add_node(b->g, &spec, out);
}

/* OpenVINO's CPU plugin removes a FakeQuantize of 65536 levels, its clamp, too (2026.4;
 * not one of 65535, and none of a constant): one code at an end of the grid is left out
 * then, not that of 0. */
static qg_status keep_from_removal(builder *b, const place *p, qg_scheme *s)
{
    bool first = false, last = false; /* is the zero point of a channel */
    if (s->qmax - s->qmin + 1 < QG_OPENVINO_LEVELS)
        return QG_OK;
    for (size_t c = 0; c < p->param.n; c++) {
        int32_t zero = p->param.offset ? p->param.offset[c] : 0;
        first |= zero == s->qmin;
        last |= zero == s->qmax;
    }
    const char *what = first && last ? "it is neither rounded nor clamped"
                       : first       ? "its last code is clamped to the one before"
                                     : "its first code is clamped to the next one";
    s->qmax -= first && !last;
    s->qmin += !first;
    QG_TRY(qg_export_lose_result(
        b->e, QG_SAYS_RANGE, p->tqc,
        "%s: OpenVINO's plugin removes a FakeQuantize of %d levels", what,
        QG_OPENVINO_LEVELS));
    return QG_OK;
}

/* to = FakeQuantize(from); output limits are the input limits. */
static qg_status add_fake_quantize(builder *b, const place *p, qg_value *from,
                                   qg_value *to)
{
    const char *name = node_name(b, p);
    qg_value *in[5] = { from };
    qg_grid_record reads;
    qg_openvino_limits l;
    qg_scheme scheme = *p->scheme;
    qg_tensor limit;
    qg_attr *attr;
    qg_node *n;
    if (!name)
        return qg_nomem(b->ctx);
    if (!from->constant)
        QG_TRY(keep_from_removal(b, p, &scheme));
    QG_TRY(qg_openvino_limits_of(b->ctx, name, &scheme, &p->param, b->e->arena, &l));
    QG_TRY(qg_openvino_grid_of(b->ctx, name, &l, b->e->arena, &reads.scheme,
                               &reads.param));
    QG_TRY(report_reading(b, p, &reads));
    limit_shape(p, from, l.n, &limit);
    limit.f32 = l.low;
    QG_TRY(add_constant(b, name, "low", &limit, &in[1]));
    limit.f32 = l.high;
    QG_TRY(add_constant(b, name, "high", &limit, &in[2]));
    in[3] = in[1];
    in[4] = in[2];
    QG_TRY(int_attr(b, "levels", l.levels, &attr));
    QG_TRY(add_node(b, name,
                    &(qg_node_spec){ .op = b->op,
                                     .opset = 1,
                                     .in = in,
                                     .n_in = 5,
                                     .out = &to,
                                     .n_out = 1,
                                     .attr = attr,
                                     .n_attr = 1 },
                    &n));
    QG_TRY(qg_vec_room(b->ctx, b->e->arena, &b->says, n->id + (size_t)1));
    while (b->says.n < n->id)
        b->says.at[b->says.n++] = NULL;
    b->says.at[b->says.n++] = p->tqc;
    return QG_OK;
}

/* Those of 8-bit codes, in the shape of the scales. */
static qg_status zero_points(builder *b, const place *p, qg_dtype code,
                             const qg_tensor *shape, qg_tensor **out)
{
    qg_tensor *t = QG_NEW(b->e->arena, qg_tensor);
    if (!t)
        return qg_nomem(b->ctx);
    qg_tensor_init(t, code, shape->rank, shape->dim);
    QG_TRY(qg_tensor_alloc(b->ctx, b->e->arena, t));
    assert(qg_dtype_bits(code) == CODE_BITS);
    for (size_t i = 0; i < p->param.n; i++)
        t->i8[i] = (int8_t)(p->param.offset ? p->param.offset[i] : 0);
    *out = t;
    return QG_OK;
}

/* to = DequantizeLinear(codes). */
static qg_status add_dequantize(builder *b, const place *p, qg_value *codes,
                                qg_value *to)
{
    const char *name = node_name(b, p), *why;
    qg_value *in[3] = { codes };
    qg_tensor scale, *zero;
    qg_grid_record reads;
    qg_attr *axis;
    qg_node *n;
    if (!name)
        return qg_nomem(b->ctx);
    qg_onnx_scale_type(p->tqc, &codes->type, QG_F32, &scale);
    scale.f32 = (float *)(uintptr_t)p->param.scale;
    assert(qg_tensor_count(&scale) == (int64_t)p->param.n);
    QG_TRY(add_constant(b, name, "scale", &scale, &in[1]));
    QG_TRY(zero_points(b, p, codes->type.dtype, &scale, &zero));
    QG_TRY(add_constant(b, name, "zero_point", zero, &in[2]));
    QG_TRY(int_attr(b, "axis", p->scheme->axis, &axis));
    QG_TRY(add_node(b, name,
                    &(qg_node_spec){ .op = b->dequantize,
                                     .opset = b->opset,
                                     .in = in,
                                     .n_in = 3,
                                     .out = &to,
                                     .n_out = 1,
                                     .attr = axis,
                                     .n_attr = scale.rank > 0 },
                    &n));
    QG_TRY(qg_grid_of_linear(b->g, n, codes->type.dtype, &to->type, &reads, &why));
    assert(!why);
    return report_reading(b, p, &reads);
}

/* A value like v, named after v and a suffix when that is free. */
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
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        const qg_tqc *other = n->id < b->says.n ? b->says.at[n->id] : NULL;
        if (other && !other->is_output && qg_onnx_same_grid(other, t))
            return n->out[0];
    }
    return NULL;
}

/* Only this slot reads it, and slots with the same grid. */
static qg_status say_input(builder *b, const place *p)
{
    uint32_t slot = p->ahead ? 0 : p->tqc->slot;
    qg_value *v = p->node->in[slot];
    qg_value *rounded = find_said(b, v, p->tqc);
    if (!rounded) {
        QG_TRY(add_like(b, v, "rounded", &rounded));
        QG_TRY(add_fake_quantize(b, p, v, rounded));
    }
    return qg_edit_set_input(b->g, p->node, slot, rounded);
}

/* The plugin is right about a maximum of codes alone. */
static qg_status say_ahead(builder *b, qg_node *copy, const qg_tqc *t)
{
    place p = { .tqc = t,
                .node = copy,
                .scheme = &t->scheme,
                .param = qg_tqc_param(t),
                .ahead = true };
    return say_input(b, &p);
}

/* Only the ends of the grid, which a FakeQuantize with more levels would exceed. */
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

/* The type of the codes in the file; QG_F32: values, not codes. */
static qg_dtype code_type(const builder *b, const qg_tqc *t, const qg_tensor *x)
{
    qg_onnx_grid how = qg_onnx_grid_of(t, true, QG_PLACE_OPENVINO);
    if (!b->bake || how.fault || qg_dtype_bits(how.code) > CODE_BITS ||
        qg_tensor_count(x) == 0)
        return QG_F32;
    return qg_dtype_kind_of(how.code) == QG_KIND_UINT ? QG_U8 : QG_I8;
}

/* Codes from 0 to 255 around 128 are signed ones without a zero point, which the
 * plugin's integer kernels need: the same values.  *s has room for the scheme. */
static qg_status drop_zero_points(builder *b, place *p, qg_dtype *code, qg_scheme *s)
{
    const int32_t half = 1 << (CODE_BITS - 1);
    for (size_t i = 0; i < p->param.n; i++)
        if (*code != QG_U8 || !p->param.offset || p->param.offset[i] != half)
            return QG_OK;
    int32_t *none = QG_NEWN(b->e->arena, p->param.n, int32_t);
    if (!none)
        return qg_nomem(b->ctx);
    *s = *p->scheme;
    s->qmin -= half;
    s->qmax -= half;
    *code = QG_I8;
    p->scheme = s;
    p->param.offset = none;
    return QG_OK;
}

/* The form in the file: codes, values on the grid, or values clamped to its ends and
 * rounded by a FakeQuantize. */
static qg_status constant_values(builder *b, const place *p, bool bake,
                                 const qg_tensor *x, qg_tensor *y)
{
    char what[QG_ENDPOINT_TEXT];
    qg_tqc_text(p->tqc, what);
    QG_TRY(qg_tensor_alloc(b->ctx, b->g->arena, y));
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    if (y->dtype != QG_F32)
        return qg_quantize(b->ctx, what, p->scheme, &p->param, x, y);
    if (bake)
        return qg_fake_quantize(b->ctx, what, p->scheme, &p->param, x, y);
    clamp(p->scheme, &p->param, x, y);
    return QG_OK;
}

/* Float weights that lie halfway between two codes, to the last bits of the reader's
 * float32: their number.  Beyond the limits they are clamped. */
static int64_t ties_of(const place *p, const qg_tensor *x)
{
    const double last_bits = 1e-4;
    int64_t inner = 1, n = 0;
    for (int k = p->scheme->axis + 1; p->param.n > 1 && k < x->rank; k++)
        inner *= x->dim[k];
    for (int64_t i = 0; i < qg_tensor_count(x); i++) {
        size_t c = p->param.n > 1 ? (size_t)(i / inner) % p->param.n : 0;
        double code = (double)x->f32[i] / (double)p->param.scale[c];
        n += fabs(fabs(code - floor(code)) - 0.5) < last_bits &&
             fabs(code) < (double)p->scheme->qmax - (double)p->scheme->qmin;
    }
    return n;
}

static qg_status lose_ties(builder *b, const place *p, const qg_tensor *x)
{
    int64_t n = ties_of(p, x);
    if (!n)
        return QG_OK;
    QG_TRY(qg_export_lose_result(
        b->e, QG_SAYS_ROUNDING, p->tqc,
        "%lld weights halfway between two codes, which OpenVINO's "
        "arithmetic may round to the other one; --weights int has "
        "the codes",
        (long long)n));
    return QG_OK;
}

/* The slot reads the floats that its codes stand for. */
static qg_status say_codes(builder *b, const place *p, qg_value *codes)
{
    qg_value *rounded;
    QG_TRY(add_like(b, codes, "rounded", &rounded));
    rounded->type.dtype = QG_F32;
    QG_TRY(add_dequantize(b, p, codes, rounded));
    return qg_edit_set_input(b->g, p->node, p->tqc->slot, rounded);
}

/* A weight that the plugin takes in float only. */
static bool stays_float(const qg_tqc *t)
{
    return qg_tqc_role(t) == 'w' && qg_plugin_weight_stays_float(t->node);
}

/* A constant that others read too gets a copy of its own for this slot. */
static qg_status say_constant(builder *b, place *p)
{
    qg_value *v = p->node->in[p->tqc->slot];
    const qg_tensor *x = v->constant;
    qg_tensor *t = QG_NEW(b->g->arena, qg_tensor);
    qg_scheme other;
    bool say;
    if (!t)
        return qg_nomem(b->ctx);
    QG_TRY(can_say(b, p->tqc, v, &say));
    qg_dtype code = say ? code_type(b, p->tqc, x) : QG_F32;
    QG_TRY(drop_zero_points(b, p, &code, &other));
    if (qg_onnx_turns_zero_points(p->tqc, &p->param))
        code = QG_F32;
    if (say && stays_float(p->tqc)) {
        QG_TRY(lose_word(b, QG_SAYS_ENDPOINT, p->tqc,
                         "written as float values on its grid: OpenVINO's plugin "
                         "has no right kernel for its codes"));
        code = QG_F32;
        say = false;
    }
    qg_tensor_init(t, code, x->rank, x->dim);
    QG_TRY(constant_values(b, p, b->bake || !say, x, t));
    if (!b->bake && say)
        QG_TRY(lose_ties(b, p, x));
    bool own = v->use.n == 1 && !v->is_output;
    if (!own)
        QG_TRY(add_like(b, v, p->node->name, &v));
    QG_TRY(qg_edit_make_constant(b->g, v, t));
    if (!own)
        QG_TRY(qg_edit_set_input(b->g, p->node, p->tqc->slot, v));
    if (t->dtype != QG_F32)
        return say_codes(b, p, v);
    other = qg_openvino_widened(p->scheme);
    p->scheme = &other;
    return say ? say_input(b, p) : QG_OK;
}

static qg_status say_slot(builder *b, qg_node *n, const qg_tqc *t)
{
    bool say;
    if (!t)
        return QG_OK;
    place p = { .tqc = t, .node = n, .scheme = &t->scheme, .param = qg_tqc_param(t) };
    if (is_constant_baked(t))
        return say_constant(b, &p);
    if (!qg_tqc_rounds(t) || qg_plugin_behind_maximum(qg_tqc_value(t), t))
        return QG_OK;
    if (t->is_output)
        return say_output(b, &p);
    QG_TRY(can_say(b, t, n->in[t->slot], &say));
    return say ? say_input(b, &p) : QG_OK;
}

/* In order of execution, so that an input reads the quantized output of its
 * producer. */
static qg_status say_all(builder *b)
{
    const qg_graph *g = b->e->quant->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        qg_node *copy = b->g->node.at[i];
        const qg_tqc *ahead = qg_plugin_before_maximum(n);
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++)
            QG_TRY(say_slot(b, copy, qg_node_tqc(n, k)));
        if (ahead)
            QG_TRY(say_ahead(b, copy, ahead));
    }
    return QG_OK;
}

qg_status qg_openvino_graph(qg_export *e)
{
    builder b = { .e = e, .ctx = e->ctx };
    const char *weights = e->option[QG_FORMAT_WEIGHTS];
    size_t removed;
    b.bake = !weights || strcmp(weights, "float") != 0;
    b.opset = qg_graph_opset(e->quant->graph, "");
    b.opset = b.opset < QG_OPENVINO_OPSET ? QG_OPENVINO_OPSET : b.opset;
    b.op = qg_op_find(e->ctx->registry, QG_OPENVINO_DOMAIN, "FakeQuantize", 1);
    b.dequantize = qg_op_find(e->ctx->registry, NULL, "DequantizeLinear", b.opset);
    if (!b.op || !b.dequantize)
        return qg_fail(e->ctx, QG_EUNSUPPORTED,
                       "export: operator %s is not in this build",
                       b.op ? "DequantizeLinear" : "FakeQuantize");
    QG_TRY(qg_graph_clone(e->quant->graph, &e->graph));
    b.g = e->graph;
    QG_TRY(qg_export_explicit_pads(e, b.g, true));
    QG_TRY(say_all(&b));
    QG_TRY(qg_plugin_obey(e, b.g));
    QG_TRY(qg_export_lose_fractions(e));
    if (qg_graph_opset(b.g, QG_OPENVINO_DOMAIN) == 0)
        QG_TRY(qg_vec_push(e->ctx, b.g->arena, &b.g->opset,
                           (qg_opset_import){ QG_OPENVINO_DOMAIN, 1 }));
    return qg_graph_sweep(b.g, &removed);
}
