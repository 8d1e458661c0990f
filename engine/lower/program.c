#include "engine/lower/program.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/lower/lowering.h"
#include "engine/quant/quantizer.h"

const char *qg_lowered_name(qg_lowered how)
{
#define X(id, text, meaning) text,
    static const char *const name[] = { QG_LOWERED_MAP(X) };
#undef X
    assert((unsigned)how < QG_NLOWERED);
    return name[how];
}

static void note(qg_lowering *w, const qg_node *n, qg_lowered how, const char *row,
                 const char *why)
{
    w->node[n->id] = (qg_program_node){ how, row, why };
}

/* --- nodes in float --- */

static bool is_float(const qg_value *v) { return v && v->type.dtype == QG_F32; }

/* The values that the copy writes. */
static qg_status float_outputs(qg_lowering *w, const qg_node *n, qg_value **out)
{
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        const char *name = v ? v->name : NULL;
        if (!v)
            continue;
        if (w->stored[v->id].codes) {
            name = qg_arena_printf(w->arena, "%s_computed", v->name);
            name = name ? qg_lower_value_name(w->to, w->from, name) : NULL;
            if (!name)
                return qg_nomem(w->ctx);
        }
        QG_TRY(qg_graph_add_value(w->to, name, &out[k]));
        out[k]->type = v->type;
    }
    return QG_OK;
}

/* Whether an input comes from a kernel that stores floats. */
static bool follows_kernel(const qg_lowering *w, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_in; k++)
        if (n->in[k] && w->is_tail[n->in[k]->id])
            return true;
    return false;
}

static qg_status store_outputs(qg_lowering *w, const qg_node *n, qg_value *const *out)
{
    bool tail = follows_kernel(w, n);
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        if (!v)
            continue;
        if (w->stored[v->id].codes) {
            QG_TRY(qg_lower_store(w, v, out[k]));
            continue;
        }
        w->floats[v->id] = out[k];
        w->is_tail[v->id] = tail;
    }
    return QG_OK;
}

static qg_status copy_node(qg_lowering *w, const qg_node *n)
{
    qg_value **in = QG_NEWN(w->arena, n->n_in, qg_value *);
    qg_value **out = QG_NEWN(w->arena, n->n_out, qg_value *);
    if (!in || !out)
        return qg_nomem(w->ctx);
    for (uint32_t k = 0; k < n->n_in; k++)
        QG_TRY(qg_lower_float_input(w, n, k, &in[k]));
    QG_TRY(float_outputs(w, n, out));
    QG_TRY(qg_graph_copy_node(w->to, n, in, out));
    return store_outputs(w, n, out);
}

/* --- nodes as integer kernels --- */

/* A kernel and what it computes as well: a node that the operator takes, clamps. */
typedef struct group {
    const qg_node *anchor;
    const qg_node *taken; /* NULL: none */
    const qg_node *last;  /* whose output 0 the kernel makes */
    float low, high;
} group;

/* The clamp that alone reads v, where v is not rounded. */
static const qg_node *next_clamp(qg_lowering *w, const qg_value *v)
{
    const qg_node *n = v->use.n == 1 ? v->use.at[0].node : NULL;
    float low, high;
    if (!n || v->is_output || w->stored[v->id].codes || v->use.at[0].slot != 0 ||
        n->n_out != 1 || !n->out[0])
        return NULL;
    const qg_tqc *t = qg_input_tqc(n, 0);
    return !(t && qg_tqc_rounds(t)) && qg_node_clamps(n, &low, &high) ? n : NULL;
}

/* The limit of a clamp in that slot as the simulation has it: rounded, where its record
 * rounds. */
static qg_status round_limit(qg_lowering *w, const qg_node *n, uint32_t slot, float *x)
{
    const qg_tqc *t = slot < n->n_in && n->in[slot] ? qg_input_tqc(n, slot) : NULL;
    float given = *x;
    qg_tensor from, to;
    if (!isfinite(given) || !qg_tqc_is_on_grid(t))
        return QG_OK;
    qg_tensor_init(&from, QG_F32, 0, NULL);
    to = from;
    from.f32 = &given;
    to.f32 = x;
    return qg_tqc_round(w->ctx, t, &from, &to);
}

/* Narrows by the clamp n: the later one wins where they do not meet. */
static qg_status clamp_by(qg_lowering *w, const qg_node *n, group *g)
{
    float low, high;
    if (!qg_node_clamps(n, &low, &high))
        return QG_OK;
    QG_TRY(round_limit(w, n, 1, &low));
    QG_TRY(round_limit(w, n, 2, &high));
    g->low = fminf(fmaxf(g->low, low), high);
    g->high = fminf(fmaxf(g->high, low), high);
    return QG_OK;
}

/* What the operator of n takes, where nothing rounds between them. */
static const qg_node *taken_by(const qg_lowering *w, const qg_node *n)
{
    const qg_value *v = n->out[0];
    const qg_node *t = n->op->takes ? n->op->takes(n) : NULL;
    bool rounds = !t || v->is_output || w->stored[v->id].codes || !t->out[0];
    for (uint32_t k = 0; !rounds && k < t->n_in; k++)
        rounds = qg_input_tqc(t, k) && qg_tqc_rounds(qg_input_tqc(t, k));
    return rounds ? NULL : t;
}

static qg_status group_of(qg_lowering *w, const qg_node *n, group *out)
{
    group g = { n, NULL, n, -INFINITY, INFINITY };
    *out = g;
    if (!n->out[0])
        return QG_OK;
    QG_TRY(clamp_by(w, n, &g));
    group longer = g;
    longer.taken = taken_by(w, n);
    if (longer.taken)
        longer.last = longer.taken;
    for (const qg_node *next = longer.last;
         (next = next_clamp(w, next->out[0])) != NULL;) {
        longer.last = next;
        QG_TRY(clamp_by(w, next, &longer));
    }
    *out = w->stored[longer.last->out[0]->id].codes ? longer : g;
    return QG_OK;
}

static bool is_quantized(const qg_node *n)
{
    bool any = n->platform == QG_PLATFORM_QUANTIZED;
    for (uint32_t k = 0; !any && k < qg_node_endpoints(n); k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        any = t && t->state != QG_TQC_FP32 && t->state != QG_TQC_SOI;
    }
    return any;
}

/* Why n is no kernel, judged before its operator is asked; NULL: it may be one. */
static const char *excuse(qg_lowering *w, const group *g)
{
    const qg_node *n = g->anchor;
    if (!is_quantized(n))
        return n->reason ? n->reason : "it is not quantized";
    if (!n->op->lower)
        return "the operator has no integer kernel";
    if (!n->out[0])
        return "its first output is left out";
    if (!w->stored[g->last->out[0]->id].codes && !qg_node_has(n, QG_OP_COMPUTE))
        return "out0 is float";
    for (uint32_t k = 1; k < n->n_out; k++)
        if (is_float(n->out[k]) && !w->stored[n->out[k]->id].codes)
            return qg_arena_printf(w->arena, "out%u is float", (unsigned)k);
    return NULL;
}

/* l->name, l->out of every output. */
static qg_status describe_outputs(qg_lowering *w, const group *g, qg_lower *l)
{
    uint32_t n_out = g->anchor->n_out;
    const char **name = QG_NEWN(w->arena, n_out, const char *);
    qg_stored *out = QG_NEWN(w->arena, n_out, qg_stored);
    l->made = QG_NEWN(w->arena, n_out, qg_value *);
    if (!name || !out || !l->made)
        return qg_nomem(w->ctx);
    for (uint32_t k = 0; k < n_out; k++) {
        const qg_value *v = k == 0 ? g->last->out[0] : g->anchor->out[k];
        if (!v)
            continue;
        out[k] = w->stored[v->id];
        if (!out[k].codes)
            out[k].dtype = v->type.dtype;
        name[k] = out[k].codes ? qg_lower_codes_name(w, v) : v->name;
        if (!name[k])
            return qg_nomem(w->ctx);
    }
    l->name = name;
    l->out = out;
    return QG_OK;
}

static qg_status describe_inputs(qg_lowering *w, const qg_node *n, qg_lower *l,
                                 const char **why)
{
    qg_lower_in *in = QG_NEWN(w->arena, n->n_in, qg_lower_in);
    if (!in)
        return qg_nomem(w->ctx);
    *why = NULL;
    for (uint32_t k = 0; k < n->n_in && !*why; k++)
        QG_TRY(qg_lower_input(w, n, k, in, why));
    l->in = in;
    return QG_OK;
}

/* Enters what the operator made. */
static qg_status accept(qg_lowering *w, const group *g, const qg_lower *l)
{
    const qg_node *n = g->anchor;
    const char *row = l->row->id;
    note(w, n, QG_LOWERED_INTEGER, row, "");
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = k == 0 && !l->floats ? g->last->out[0] : n->out[k];
        if (!v || !l->made[k])
            continue;
        bool codes = w->stored[v->id].codes;
        if (codes && k == 0 && l->floats) {
            QG_TRY(qg_lower_store(w, v, l->made[0]));
            continue;
        }
        (codes ? w->codes : w->floats)[v->id] = l->made[k];
        w->is_tail[v->id] = l->floats;
    }
    for (const qg_node *c = n; !l->floats && c != g->last;) {
        c = c->out[0]->use.at[0].node;
        note(w, c, QG_LOWERED_INTEGER, "", n->name);
    }
    return QG_OK;
}

/* A node that only converts: between floats and codes a copy computes nothing. */
static bool converts(const qg_lowering *w, const qg_node *n)
{
    return qg_node_has(n, QG_OP_COPY) && n->in[0] && n->out[0] &&
           w->stored[n->in[0]->id].codes != w->stored[n->out[0]->id].codes;
}

/* *done: n became an integer kernel.  Else its fate is noted. */
static qg_status try_kernel(qg_lowering *w, const qg_node *n, bool *done)
{
    group g;
    QG_TRY(group_of(w, n, &g));
    const char *why = excuse(w, &g);
    qg_lower l = { .ctx = w->ctx,
                   .profile = w->profile,
                   .from = w->from,
                   .node = n,
                   .taken = g.taken,
                   .snapshot = !w->options.file && qg_output_tqc(n, 0),
                   .low = g.low,
                   .high = g.high,
                   .attr = n->attr,
                   .n_attr = n->n_attr,
                   .to = w->to };
    *done = false;
    if (!why)
        QG_TRY(describe_inputs(w, n, &l, &why));
    if (why) {
        note(w, n,
             converts(w, n)         ? QG_LOWERED_PLAIN
             : follows_kernel(w, n) ? QG_LOWERED_TAIL
                                    : QG_LOWERED_ISLAND,
             "", why);
        return QG_OK;
    }
    QG_TRY(describe_outputs(w, &g, &l));
    QG_TRY(n->op->lower(&l));
    assert(l.refusal || l.made[0]);
    if (l.refusal == qg_lower_starved)
        return qg_nomem(w->ctx);
    if (l.refusal) {
        note(w, n, QG_LOWERED_REFUSED, "", l.refusal);
        return QG_OK;
    }
    *done = true;
    return accept(w, &g, &l);
}

/* --- operators of files --- */

/* The value of the program is that of the integers; an output keeps its name. */
static qg_status alias(qg_lowering *w, const qg_value *v, qg_value *integers)
{
    const qg_value *other = qg_graph_value(w->from, integers->name);
    w->floats[v->id] = integers;
    if (!v->is_output)
        return QG_OK;
    if (integers->is_input || (other && other->is_output))
        return qg_fail(w->ctx, QG_EUNSUPPORTED,
                       "lower: output '%s': its codes are those of '%s', expected a "
                       "node between",
                       v->name, integers->name);
    return qg_value_set_name(w->to, integers, v->name);
}

static qg_status lower_linear(qg_lowering *w, const qg_node *n, bool *done)
{
    enum qg_linear_kind kind;
    qg_stored grid;
    qg_value *v;
    QG_TRY(qg_lower_linear(w, n, &grid, &kind));
    *done = kind != QG_LINEAR_NONE;
    if (kind == QG_LINEAR_DEQUANTIZE) {
        QG_TRY(qg_lower_as_floats(w, n->in[0], &v));
        w->codes[n->out[0]->id] = v;
    } else if (kind == QG_LINEAR_QUANTIZE) {
        QG_TRY(qg_lower_as_codes(w, n->in[0], &grid, &v));
        QG_TRY(alias(w, n->out[0], v));
    }
    return QG_OK;
}

/* --- the graph --- */

/* Shapes and indices: no output is a number that anybody rounds. */
static bool is_plain(const qg_node *n)
{
    bool floats = false;
    for (uint32_t k = 0; k < n->n_out; k++)
        floats |= is_float(n->out[k]);
    return !floats || n->platform == QG_PLATFORM_SOI;
}

/* A node that passes its input on, floats on one side and codes on the other: the Q or
 * DQ of a file whose grids are records. */
static bool is_border(const qg_lowering *w, const qg_node *n)
{
    return qg_node_has(n, QG_OP_COPY) && n->n_in > 0 && n->in[0] && n->out[0] &&
           w->stored[n->in[0]->id].codes != w->stored[n->out[0]->id].codes;
}

static qg_status lower_node(qg_lowering *w, const qg_node *n)
{
    bool done = w->node[n->id].why != NULL; /* fused into an earlier kernel */
    if (done)
        return QG_OK;
    /* MatMulInteger and others are kernels on codes already. */
    bool on_codes = qg_node_has(n, QG_OP_QUANTIZER) && qg_node_has(n, QG_OP_COMPUTE);
    note(w, n, on_codes ? QG_LOWERED_INTEGER : QG_LOWERED_PLAIN, "", "");
    QG_TRY(lower_linear(w, n, &done));
    if (!done && !is_plain(n) && !is_border(w, n))
        QG_TRY(try_kernel(w, n, &done));
    return done ? QG_OK : copy_node(w, n);
}

/* An integer input that is to be given as floats: its codes by the grid of an operator
 * that dequantizes it.  One that nothing dequantizes stays as it is. */
static qg_status quantize_input(qg_lowering *w, const qg_value *v, qg_value *made)
{
    enum qg_linear_kind kind = QG_LINEAR_NONE;
    qg_stored grid;
    for (size_t i = 0; i < v->use.n && kind != QG_LINEAR_DEQUANTIZE; i++)
        QG_TRY(qg_lower_linear(w, v->use.at[i].node, &grid, &kind));
    if (kind != QG_LINEAR_DEQUANTIZE)
        return QG_OK;
    made->type.dtype = QG_F32;
    return qg_lower_quantize(w, v, &grid, made, &w->floats[v->id]);
}

static qg_status add_inputs(qg_lowering *w)
{
    for (size_t i = 0; i < w->from->input.n; i++) {
        const qg_value *v = w->from->input.at[i];
        qg_value *made;
        QG_TRY(qg_graph_add_value(w->to, v->name, &made));
        made->type = v->type;
        memcpy(made->dim_name, v->dim_name, sizeof v->dim_name);
        QG_TRY(qg_graph_mark_input(w->to, made));
        w->floats[v->id] = made;
        if (w->options.float_inputs && v->type.dtype != QG_F32)
            QG_TRY(quantize_input(w, v, made));
    }
    return QG_OK;
}

static qg_status add_outputs(qg_lowering *w)
{
    for (size_t i = 0; i < w->from->output.n; i++) {
        const qg_value *v = w->from->output.at[i];
        qg_value *made;
        bool codes = w->options.codes && w->stored[v->id].codes;
        QG_TRY(codes ? qg_lower_as_stored(w, v, &made)
                     : qg_lower_as_floats(w, v, &made));
        QG_TRY(qg_graph_mark_output(w->to, made));
    }
    return QG_OK;
}

static qg_status begin(qg_lowering *w)
{
    size_t n = w->from->value.n;
    w->stored = QG_NEWN(w->arena, n, qg_stored);
    w->codes = QG_NEWN(w->arena, n, qg_value *);
    w->floats = QG_NEWN(w->arena, n, qg_value *);
    w->is_tail = QG_NEWN(w->arena, n, bool);
    w->variant = QG_NEWN(w->arena, n, qg_variant *);
    w->node = QG_NEWN(w->arena, w->from->node.n, qg_program_node);
    if (!w->stored || !w->codes || !w->floats || !w->is_tail || !w->variant || !w->node)
        return qg_nomem(w->ctx);
    w->to->ir_version = w->from->ir_version;
    for (size_t i = 0; i < w->from->opset.n; i++)
        QG_TRY(qg_vec_push(w->ctx, w->arena, &w->to->opset, w->from->opset.at[i]));
    return qg_vec_push(w->ctx, w->arena, &w->to->opset,
                       (qg_opset_import){ QG_LOWER_DOMAIN, QG_LOWER_OPSET });
}

/* The first node in float that may not be. */
static qg_status check_integer(const qg_lowering *w)
{
    if (!w->options.require_integer && w->profile->islands)
        return QG_OK;
    for (size_t i = 0; i < w->from->node.n; i++) {
        const qg_program_node *p = &w->node[i];
        if (p->how == QG_LOWERED_ISLAND || p->how == QG_LOWERED_REFUSED)
            return qg_node_fail(w->ctx, QG_EUNSUPPORTED, "lower", w->from->node.at[i],
                                "%s, expected an integer kernel of profile %s", p->why,
                                w->profile->name);
    }
    return QG_OK;
}

/* How a row of quantize rounds: some forms imply it. */
static qg_rounding rounding_of(const qg_profile_row *row)
{
    return row->form == QG_FORM_ADD_HALF ? QG_ROUND_HALF_AWAY
           : row->form == QG_FORM_LEVELS ? QG_ROUND_HALF_EVEN_LEVEL
                                         : row->rounding;
}

/* Records of activations that round otherwise than the profile quantizes. */
static qg_status other_rounding(qg_lowering *w, const qg_node *n, size_t *count)
{
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        const char *why;
        qg_stored grid;
        if (!t || !qg_tqc_rounds(t) || qg_tqc_is_constant(t))
            continue;
        QG_TRY(qg_lower_grid(w, t, w->profile->activation, &grid, &why));
        const qg_profile_row *row =
            why ? NULL : qg_lower_quantize_row(w->profile, grid.dtype);
        *count += row && rounding_of(row) != (qg_rounding)t->scheme.rounding;
    }
    return QG_OK;
}

static qg_status finish(qg_lowering *w, qg_program *p)
{
    size_t removed, n = w->from->value.n;
    const qg_value **value = QG_NEWN(w->arena, n, const qg_value *);
    if (!value)
        return qg_nomem(w->ctx);
    QG_TRY(check_integer(w));
    QG_TRY(qg_graph_sweep(w->to, &removed));
    QG_TRY(qg_infer(w->to, NULL, 0));
    for (size_t i = 0; i < n; i++) {
        const qg_value *v = w->stored[i].codes ? w->codes[i] : w->floats[i];
        value[i] = v && qg_value_is_in(w->to, v) ? v : NULL;
    }
    for (size_t i = 0; i < w->from->node.n; i++) {
        p->count[w->node[i].how]++;
        QG_TRY(other_rounding(w, w->from->node.at[i], &p->rounding));
    }
    p->value = value;
    p->stored = w->stored;
    p->node = w->node;
    return QG_OK;
}

static qg_status lower(qg_lowering *w, qg_program *p)
{
    QG_TRY(begin(w));
    QG_TRY(qg_lower_storage(w));
    QG_TRY(add_inputs(w));
    for (size_t i = 0; i < w->from->node.n; i++)
        QG_TRY(lower_node(w, w->from->node.at[i]));
    QG_TRY(add_outputs(w));
    return finish(w, p);
}

qg_status qg_lower_program(const qg_graph *g, const qg_profile *profile,
                           const qg_lower_options *o, qg_program **out)
{
    qg_graph *to;
    QG_TRY(qg_graph_new(g->ctx, g->name, &to));
    qg_lowering w = { .ctx = g->ctx,
                      .from = g,
                      .to = to,
                      .arena = to->arena,
                      .profile = profile,
                      .options = *o };
    qg_program *p = QG_NEW(to->arena, qg_program);
    if (p)
        *p = (qg_program){ .from = g, .profile = profile, .options = *o, .graph = to };
    qg_status s = p ? lower(&w, p) : qg_nomem(g->ctx);
    if (s == QG_OK)
        *out = p;
    else
        qg_graph_free(to);
    return s;
}

void qg_program_free(qg_program *p)
{
    if (p)
        qg_graph_free(p->graph);
}
