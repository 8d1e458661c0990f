#include "engine/formats/qonnx/quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/ir/edit.h"

static const char domain[] = "qonnx.custom_op.general";
enum { VERSION = 1 };

/* --- the operators --- */

static qg_status infer(const qg_call *call)
{
    const qg_tensor *x = call->in[0];
    if (x->rank < 0)
        qg_tensor_unknown(call->out[0], x->dtype);
    else
        qg_tensor_init(call->out[0], x->dtype, x->rank, x->dim);
    return QG_OK;
}

/* Never run: folded or refused. */
#define ROW(text, where, inputs)                                                       \
    {                                                                                  \
        .name = (text), .domain = (where), .since = VERSION, .min_in = 1,              \
        .max_in = (inputs), .min_out = 1, .max_out = 1, .in_roles = "df",              \
        .traits = QG_OP_QUANTIZER, .infer = infer                                      \
    }
#define ROWS(where)                                                                    \
    ROW("Quant", where, 4), ROW("IntQuant", where, 4), ROW("BipolarQuant", where, 2),  \
        ROW("Trunc", where, 5), ROW("FloatQuant", where, 8)

const qg_op qg_qonnx_operators[] = { ROWS("qonnx.custom_op.general"),
                                     ROWS("finn.custom_op.general"),
                                     ROWS("onnx.brevitas"),
                                     { 0 } };

bool qg_is_qonnx(const qg_op *op) { return op->infer == infer; }

/* --- rounding modes --- */

static const struct {
    const char *word;
    qg_rounding rounding;
    bool whole; /* the same at every whole number */
} modes[] = {
    {"ROUND",      QG_ROUND_HALF_EVEN,        false},
    { "HALF_UP",   QG_ROUND_HALF_AWAY,        false},
    { "HALF_DOWN", QG_ROUND_HALF_TOWARD_ZERO, false},
    { "CEIL",      QG_ROUND_UP,               true },
    { "FLOOR",     QG_ROUND_DOWN,             true },
};
enum { N_MODES = sizeof modes / sizeof modes[0] };

/* The row of a mode; N_MODES: there is none. */
static size_t mode_of(qg_rounding rounding)
{
    size_t i = 0;
    if (rounding == QG_ROUND_NEAR_INT) /* as C's round */
        rounding = QG_ROUND_HALF_AWAY;
    if (rounding == QG_ROUND_HALF_EVEN_LEVEL)
        rounding = QG_ROUND_HALF_EVEN;
    while (i < N_MODES && modes[i].rounding != rounding)
        i++;
    return i;
}

/* Whether adding these zero points before rounding changes ties. */
static bool moves_ties(size_t mode, const qg_qparam *p)
{
    bool odd = false, any = false;
    for (size_t c = 0; p->offset && c < p->n; c++) {
        odd |= p->offset[c] & 1;
        any |= p->offset[c] != 0;
    }
    return !modes[mode].whole &&
           (modes[mode].rounding == QG_ROUND_HALF_EVEN ? odd : any);
}

/* --- records to nodes --- */

/* Limits of a Quant of these bits. */
static void limits(unsigned bits, bool is_signed, bool narrow, int64_t *low,
                   int64_t *high)
{
    int64_t half = INT64_C(1) << (bits - 1);
    *low = is_signed ? -half + narrow : 0;
    *high = is_signed ? half - 1 : 2 * half - 1 - narrow;
}

/* The fewest bits with exactly the limits of s; 0: there are none. */
static unsigned bits_of(const qg_scheme *s, bool *narrow)
{
    int64_t low, high;
    for (unsigned bits = 2; bits <= 32; bits++)
        for (int k = 0; k < 2; k++) {
            *narrow = k;
            limits(bits, s->qmin < 0, *narrow, &low, &high);
            if (low == s->qmin && high == s->qmax)
                return bits;
        }
    return 0;
}

const char *qg_qonnx_fault(const qg_tqc *t)
{
    bool narrow;
    return t->scheme.policy & QG_FLOATING  ? "a floating-point grid"
           : t->scheme.policy & QG_BLOCK   ? "one scale per block"
           : t->scheme.policy & QG_DYNAMIC ? "a scale computed at run time"
           : !bits_of(&t->scheme, &narrow) ? "limits that are neither full nor narrow"
           : mode_of(t->scheme.rounding) == N_MODES ? "a rounding mode that Quant lacks"
                                                    : NULL;
}

const char *qg_qonnx_ties(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    size_t mode = mode_of(t->scheme.rounding);
    assert(mode < N_MODES);
    if (t->scheme.rounding == QG_ROUND_HALF_EVEN_LEVEL)
        return "readers divide by the scale and round the code: values next to a tie "
               "may "
               "get the neighbouring one";
    return moves_ties(mode, &p)
               ? "readers add the zero point before they round: ties may "
                 "get the neighbouring code"
               : NULL;
}

static qg_status int_attribute(qg_graph *g, const char *name, int64_t x, qg_attr *out)
{
    int64_t *value = QG_NEW(g->arena, int64_t);
    *out = (qg_attr){ qg_intern(g->ctx, name), QG_ATTR_INT, 1, { .ints = value } };
    if (!value || !out->name)
        return qg_nomem(g->ctx);
    *value = x;
    return QG_OK;
}

static qg_status import_domain(qg_graph *g)
{
    return qg_graph_opset(g, domain)
               ? QG_OK
               : qg_vec_push(g->ctx, g->arena, &g->opset,
                             (qg_opset_import){ domain, VERSION });
}

/* A constant of t's parameters, with dims that broadcast over x. */
static qg_status add_parameter(qg_graph *g, const qg_tqc *t, const qg_tensor *x,
                               bool zero, qg_value **out)
{
    qg_qparam p = qg_tqc_param(t);
    qg_tensor *c = QG_NEW(g->arena, qg_tensor);
    int64_t dim[QG_MAX_RANK];
    bool many = t->scheme.policy & QG_PER_CHANNEL;
    if (!c)
        return qg_nomem(g->ctx);
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = i == t->scheme.axis ? (int64_t)p.n : 1;
    if (many)
        qg_tensor_init(c, QG_F32, x->rank, dim);
    else
        qg_tensor_scalar(c, QG_F32);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, c));
    for (size_t i = 0; i < p.n; i++)
        c->f32[i] = !zero ? p.scale[i] : p.offset ? (float)p.offset[i] : 0;
    const char *name = qg_arena_printf(g->arena, "%s_%s", qg_tqc_value(t)->name,
                                       zero ? "zeropt" : "scale");
    return name ? qg_edit_add_constant(g, name, c, out) : qg_nomem(g->ctx);
}

static qg_status add_scalar(qg_graph *g, const char *name, float x, qg_value **out)
{
    qg_tensor *c = QG_NEW(g->arena, qg_tensor);
    if (!c)
        return qg_nomem(g->ctx);
    qg_tensor_scalar(c, QG_F32);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, c));
    c->f32[0] = x;
    return qg_edit_add_constant(g, name, c, out);
}

/* signed, narrow, rounding_mode. */
static qg_status make_attributes(qg_graph *g, const qg_tqc *t, bool narrow,
                                 qg_attr attr[3])
{
    const char **word = QG_NEW(g->arena, const char *);
    const char *name = qg_intern(g->ctx, "rounding_mode");
    if (!word || !name)
        return qg_nomem(g->ctx);
    *word = modes[mode_of(t->scheme.rounding)].word;
    attr[2] = (qg_attr){ name, QG_ATTR_STRING, 1, { .strings = word } };
    QG_TRY(int_attribute(g, "signed", t->scheme.qmin < 0, &attr[0]));
    return int_attribute(g, "narrow", narrow, &attr[1]);
}

qg_status qg_qonnx_add_quant(qg_graph *g, const qg_tqc *t, qg_value *x, qg_value *out)
{
    bool narrow;
    unsigned bits = bits_of(&t->scheme, &narrow);
    qg_attr *attr = QG_NEWN(g->arena, 3, qg_attr);
    qg_value *in[4] = { x };
    qg_node *made;
    if (!attr)
        return qg_nomem(g->ctx);
    QG_TRY(add_parameter(g, t, &x->type, false, &in[1]));
    QG_TRY(add_parameter(g, t, &x->type, true, &in[2]));
    QG_TRY(add_scalar(g, "bitwidth", (float)bits, &in[3]));
    QG_TRY(make_attributes(g, t, narrow, attr));
    QG_TRY(import_domain(g));
    out->type = x->type;
    return qg_graph_add_node(g,
                             &(qg_node_spec){ .op = &qg_qonnx_operators[0],
                                              .opset = VERSION,
                                              .in = in,
                                              .n_in = 4,
                                              .out = &out,
                                              .n_out = 1,
                                              .attr = attr,
                                              .n_attr = 3 },
                             &made);
}

/* --- nodes to records --- */

static const qg_tensor *constant_in(const qg_node *n, uint32_t slot)
{
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    return v && v->constant && v->constant->dtype == QG_F32 ? v->constant : NULL;
}

/* *out stays where the attribute is absent; false: it is neither 0 nor 1. */
static bool flag(const qg_node *n, const char *name, bool *out)
{
    const qg_attr *a = qg_attr_find(n, name);
    if (!a)
        return true;
    *out = a->type == QG_ATTR_INT && a->ints[0] == 1;
    return a->type == QG_ATTR_INT && (a->ints[0] == 0 || a->ints[0] == 1);
}

/* Bits, limits and rounding. */
static const char *read_scheme(const qg_node *n, qg_scheme *s, size_t *mode)
{
    static const char *const names[] = { "Quant", "IntQuant" };
    const qg_attr *a = qg_attr_find(n, "rounding_mode");
    const char *word = !a ? "ROUND" : a->type == QG_ATTR_STRING ? a->strings[0] : "";
    bool is_signed = true, narrow = false;
    const qg_tensor *t = constant_in(n, 3);
    float bits = t && qg_tensor_count(t) == 1 ? t->f32[0] : NAN;
    if (!qg_op_is_named(n->op, names, 2))
        return "no record represents its grid";
    if (!(bits >= 2 && bits <= 32) || bits != rintf(bits))
        return "its bitwidth is no constant from 2 to 32";
    s->bits = (uint8_t)bits;
    if (!flag(n, "signed", &is_signed) || !flag(n, "narrow", &narrow))
        return "its signed or narrow is neither 0 nor 1";
    limits(s->bits, is_signed, narrow, &s->qmin, &s->qmax);
    for (*mode = 0; *mode < N_MODES && strcmp(modes[*mode].word, word) != 0;)
        ++*mode;
    if (*mode == N_MODES)
        return "its rounding_mode is not ROUND, HALF_UP, HALF_DOWN, CEIL or FLOOR";
    s->rounding = (uint8_t)modes[*mode].rounding;
    return NULL;
}

/* The axis along which the scales differ, aligned to the last axes of x. */
static const char *read_axis(const qg_tensor *x, const qg_tensor *scale, qg_scheme *s)
{
    int found = 0;
    s->axis = -1;
    for (int32_t i = 0; i < scale->rank; i++)
        if (scale->dim[i] != 1) {
            s->axis = (int16_t)(x->rank - scale->rank + i);
            found++;
        }
    s->policy |= found ? QG_PER_CHANNEL : QG_PER_TENSOR;
    return found > 1 || scale->rank > x->rank ? "its scales vary along several axes"
           : found && x->dim[s->axis] != qg_tensor_count(scale)
               ? "its scales do not fit its value"
               : NULL;
}

static const char *read_values(const qg_tensor *scale, const qg_tensor *zero,
                               qg_scheme *s, float *to, int32_t *offset)
{
    int64_t n = qg_tensor_count(scale), zeros = qg_tensor_count(zero);
    bool any = false;
    if (zeros != 1 && zeros != n)
        return "it does not have one zeropt per scale";
    for (int64_t i = 0; i < n; i++) {
        float z = zero->f32[zeros == 1 ? 0 : i];
        to[i] = scale->f32[i];
        if (!qg_import_is_scale(to[i]))
            return "a scale is not finite and above 0";
        if (!((double)z >= (double)s->qmin && (double)z <= (double)s->qmax) ||
            z != rintf(z))
            return "a zeropt is no integer within its limits";
        offset[i] = (int32_t)z;
        any |= offset[i] != 0;
    }
    s->policy |= any ? QG_ASYMMETRIC : QG_SYMMETRIC;
    return NULL;
}

static const char *check_inputs(const qg_node *n)
{
    const qg_tensor *x = n->in[0] ? &n->in[0]->type : NULL;
    const qg_tensor *scale = constant_in(n, 1), *zero = constant_in(n, 2);
    return !x || x->dtype != QG_F32 || x->rank < 0
               ? "its value is not float32 of known rank"
           : !scale || !zero ? "its scale or zeropt is not constant float32"
           : qg_tensor_count(scale) < 1 || qg_tensor_count(zero) < 1
               ? "it has no scale or zeropt"
               : NULL;
}

qg_status qg_grid_of_qonnx(qg_graph *g, const qg_node *n, qg_grid_record *out,
                           const char **why)
{
    qg_grid_record r = { .scheme = { .policy = QG_LINEAR } };
    size_t mode;
    *why = read_scheme(n, &r.scheme, &mode);
    if (!*why)
        *why = check_inputs(n);
    if (!*why)
        *why = read_axis(&n->in[0]->type, n->in[1]->constant, &r.scheme);
    if (*why)
        return QG_OK;
    size_t count = (size_t)qg_tensor_count(n->in[1]->constant);
    float *scale = QG_NEWN(g->arena, count, float);
    int32_t *offset = QG_NEWN(g->arena, count, int32_t);
    if (!scale || !offset)
        return qg_nomem(g->ctx);
    *why =
        read_values(n->in[1]->constant, n->in[2]->constant, &r.scheme, scale, offset);
    r.param = (qg_qparam){ count, scale, offset };
    if (*why)
        return QG_OK;
    if (moves_ties(mode, &r.param))
        qg_warn(
            g->ctx,
            "import: node '%.1000s' (%s) adds its zero point before it rounds: ties "
            "may get the neighbouring code",
            n->name, n->op->name);
    QG_TRY(qg_scheme_check(g->ctx, n->name, &r.scheme));
    *out = r;
    return QG_OK;
}
