/* predicates.c -- the vocabulary of configs/lint: one function per line of
 * QG_PREDICATE_MAP, which has its meaning.  Those that read attributes are in
 * predicate_attributes.c, those on nodes around it in predicate_chains.c, those on
 * types of codes in predicate_types.c, those that compute with weights and scales in
 * predicate_ranges.c. */
#include "engine/lint/lint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/quant/fake.h"

/* A predicate reads the placement (l), the node or endpoint in question (s) and its
 * argument (c), and returns whether it holds there.  One that measures something writes
 * the figure into s->detail, whether it holds or not; a finding shows the last detail.
 * None of them allocates or fails: what cannot be determined does not hold. */

/* --- nodes --- */

static bool quantized(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    bool is = s->node->platform == QG_PLATFORM_QUANTIZED;
    (void)l, (void)c;
    if (!is && s->node->reason)
        (void)snprintf(s->detail, sizeof s->detail, "%s", s->node->reason);
    return is;
}

static bool is_operator(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l;
    return qg_op_is_named(s->node->op, c->word, c->n_word);
}

static bool is_shape(const qg_node *n)
{
    return n && (qg_node_has(n, QG_OP_SHAPE) || n->platform == QG_PLATFORM_SOI);
}

static bool is_used(const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && (n->out[k]->use.n || n->out[k]->is_output))
            return true;
    return false;
}

/* A comparison makes indices of data, arithmetic on shapes makes them of shapes. */
static bool data(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    if (!is_used(s->node) || qg_node_has(s->node, QG_OP_DIMS_ONLY))
        return false;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const qg_value *v = s->node->in[k];
        if (v && v->type.dtype == QG_F32 && !v->constant && !is_shape(v->def))
            return true;
    }
    return false;
}

static bool has_word(const qg_condition *c, const char *word)
{
    for (size_t i = 0; i < c->n_word; i++)
        if (strcmp(c->word[i], word) == 0)
            return true;
    return false;
}

/* Of a rule: every node has its fate by then.  A blocked node gives the reason. */
static bool fate(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_lint_node *n = &l->node[s->node->id];
    if (n->failed)
        (void)snprintf(s->detail, sizeof s->detail, "%s: %s", n->why,
                       qg_predicate_meaning(n->failed->predicate));
    return has_word(c, qg_fate_name(n->fate));
}

/* The producer of input 0; NULL: an input, a constant, or none. */
static const qg_node *producer(const qg_node *n)
{
    return n->n_in && n->in[0] ? n->in[0]->def : NULL;
}

/* By the rows themselves, since kernels are decided after fused nodes. */
static bool after_kernel(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_lint_varying(s->node);
    qg_lint_site from = { .node = v && v->use.n == 1 && !v->is_output ? v->def : NULL };
    if (!from.node || !qg_op_is_named(from.node->op, c->word, c->n_word))
        return false;
    for (size_t i = 0; i < l->target->kernel.n; i++) {
        const qg_lint_kernel *k = &l->target->kernel.at[i];
        if (k->as == QG_FATE_INTEGER && qg_node_matches(&k->node, from.node) &&
            qg_lint_holds(l, &from, &k->when, NULL))
            return true;
    }
    return false;
}

/* Constants count as well: an operand in float makes a product one of floats. */
static bool input_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    size_t n = 0;
    (void)c;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        if (!qg_lint_is_data(s->node, k))
            continue;
        if (!qg_lint_input_grid(l, s->node, k))
            return false;
        n++;
    }
    return n > 0;
}

/* Without any, nothing is converted, and there is nothing to find. */
static bool some_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)c;
    for (uint32_t k = 0; k < s->node->n_in; k++)
        if (qg_lint_is_data(s->node, k) && qg_lint_input_grid(l, s->node, k))
            return true;
    return false;
}

/* Of a constant or of an activation that takes its place. */
static bool weight_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = qg_lint_weight_slot(s->node);
    (void)c;
    return slot != QG_NONE && qg_lint_input_grid(l, s->node, slot);
}

static bool weight_constant(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = qg_lint_weight_slot(s->node);
    (void)l, (void)c;
    return slot != QG_NONE && s->node->in[slot]->constant;
}

/* The first zero point other than 0; 0: there is none. */
static int32_t offset_of(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    for (size_t i = 0; p.offset && i < p.n; i++)
        if (p.offset[i] != 0)
            return p.offset[i];
    return 0;
}

static bool weight_symmetric(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = qg_lint_weight_slot(s->node);
    const qg_tqc *t = slot == QG_NONE ? NULL : qg_lint_input_grid(l, s->node, slot);
    (void)c;
    return t && offset_of(t) == 0;
}

/* The slot of the bias; QG_NONE: none is there. */
static uint32_t bias_slot(const qg_node *n)
{
    int slot = qg_op_slot_of(n->op, 'b');
    return slot >= 0 && (uint32_t)slot < n->n_in && n->in[slot] ? (uint32_t)slot
                                                                : QG_NONE;
}

static bool bias_absent(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return bias_slot(s->node) == QG_NONE;
}

/* Whether the steps of a bias are those of input x weight: by its record, or, in a file
 * of another tool, by its scales, which may be rounded differently. */
static bool is_product_grid(const qg_lint *l, const qg_node *n, const qg_tqc *bias)
{
    uint32_t slot = qg_lint_weight_slot(n);
    const qg_tqc *x = qg_lint_input_grid(l, n, 0);
    const qg_tqc *w = slot == QG_NONE ? NULL : qg_lint_input_grid(l, n, slot);
    if (bias->derive != QG_DERIVE_NONE || !x || !w)
        return bias->derive != QG_DERIVE_NONE;
    qg_qparam b = qg_tqc_param(bias), p = qg_tqc_param(x), q = qg_tqc_param(w);
    bool same = b.n > 0 && p.n == 1 && (q.n == 1 || q.n == b.n);
    for (size_t i = 0; same && i < b.n; i++) {
        double step = (double)p.scale[0] * (double)q.scale[q.n > 1 ? i : 0];
        same = fabs((double)b.scale[i] - step) <= 1e-5 * step;
    }
    return same;
}

/* A float bias of one 0, of a convolution with one output channel: our file adds it
 * behind the node (formats/qdq/runtime.h), where ONNX Runtime's optimizer removes the
 * sum. */
static bool adds_zero(const qg_node *n, uint32_t slot)
{
    const qg_tensor *b = n->in[slot]->constant;
    return b && n->n_out && n->out[0] && n->out[0]->type.rank > 2 &&
           qg_tensor_count(b) == 1 && qg_tensor_f64(b, 0) == 0;
}

/* Codes of a file that float32 does not hold stay behind their DequantizeLinear. */
static bool has_codes(const qg_value *v)
{
    const qg_tensor *codes =
        v->def && qg_is_dequantize_linear(v->def) ? v->def->in[0]->constant : NULL;
    return codes && codes->dtype == QG_I32;
}

static bool bias_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = bias_slot(s->node);
    (void)c;
    if (slot == QG_NONE || has_codes(s->node->in[slot]) || adds_zero(s->node, slot))
        return true;
    const qg_tqc *t = qg_input_tqc(s->node, slot);
    return qg_lint_rounds(l, t) && t->visibility != QG_EXPORT_INTERNAL &&
           t->scheme.bits > 16 && offset_of(t) == 0 && is_product_grid(l, s->node, t);
}

/* Others, which Gemm broadcasts, cannot be in steps of input x weight. */
static bool bias_vector(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = bias_slot(s->node);
    const qg_value *out = s->node->n_out ? s->node->out[0] : NULL;
    (void)l, (void)c;
    if (slot == QG_NONE || !out || out->type.rank < 2)
        return false;
    const qg_tensor *bias = &s->node->in[slot]->type;
    return bias->rank == 1 && bias->dim[0] == out->type.dim[1];
}

/* A kernel on codes stores codes; some also store floats. */
static bool output_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)c;
    return qg_lint_output_grid(l, s->node) != NULL;
}

/* Not through a clamp: that is the quantizer between a node and its activation. */
static bool output_rounded(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_lint_rounds(l, qg_output_tqc(s->node, 0));
}

/* Whether all data inputs have the grid `first`, or, without one, that of the first of
 * them. */
static bool alike(const qg_lint *l, const qg_node *n, const qg_tqc *first)
{
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (!qg_lint_is_data(n, k))
            continue;
        const qg_tqc *t = qg_lint_input_grid(l, n, k);
        first = first ? first : t;
        if (!qg_lint_same_grid(first, t))
            return false;
    }
    return first != NULL;
}

static bool same_inputs(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)c;
    return alike(l, s->node, NULL);
}

static bool output_float(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    const qg_tqc *t = qg_output_tqc(s->node, 0);
    (void)l, (void)c;
    for (size_t i = 0; v && i < v->use.n; i++)
        if (qg_lint_rounds(l, qg_input_tqc(v->use.at[i].node, v->use.at[i].slot)))
            return false;
    return !t || (!qg_lint_rounds(l, t) && t->state != QG_TQC_OVERLAPPED);
}

static bool same_grid(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *out = qg_lint_output_grid(l, s->node);
    (void)c;
    return out && alike(l, s->node, out);
}

/* The node behind output 0 and the Clip of narrow limits, or the Max of codes of fewer
 * than 8 bits (formats/qdq/runtime.h), in front of a quantizer of the stored value;
 * codes that are moved on have no quantizer of their own. */
static bool into_clamp(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    const qg_value *stored = qg_lint_stored(l, s->node);
    const qg_tqc *t = qg_lint_output_grid(l, s->node);
    float low, high;
    (void)c;
    if (t &&
        (qg_lint_is_nibble(t) || (qg_tqc_value(t) == stored && qg_lint_is_narrow(t))))
        return true;
    return v && v->use.n == 1 && !v->is_output && !l->grid[v->id] &&
           qg_node_clamps(v->use.at[0].node, &low, &high) &&
           l->node[v->use.at[0].node->id].fate != QG_FATE_FUSED;
}

static bool read_by(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    (void)l;
    return v && v->use.n && qg_op_is_named(v->use.at[0].node->op, c->word, c->n_word);
}

/* A sum of a product and a residual reads both in codes where a quantizer stands
 * between the product and the sum. */
static bool reader_codes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    qg_lint_site reader = { .node = v && v->use.n ? v->use.at[0].node : NULL };
    return reader.node && input_codes(l, &reader, c);
}

/* TensorRT fuses Conv + Add only where the other operand of the sum is quantized:
 * source in configs/lint/trt.yaml.  A product without a quantizer is the operand that
 * the fusion takes; a second one is no residual. */
static bool residual_float(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    size_t products = 0, floats = 0;
    (void)c;
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const qg_value *v = s->node->in[k];
        if (!v || v->constant || qg_lint_input_grid(l, s->node, k))
            continue;
        bool product = v->def && qg_node_has(v->def, QG_OP_COMPUTE);
        products += product;
        floats += !product;
    }
    return products && floats;
}

static bool centers(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = s->node->n_out ? s->node->out[0] : NULL;
    (void)l, (void)c;
    for (size_t i = 0; v && i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        uint32_t other = 1 - v->use.at[i].slot;
        if (n->n_in != 2 || !s->node->n_in || n->in[other] != s->node->in[0])
            return false;
    }
    return v && v->use.n && !v->is_output;
}

/* The limit x of a clamp as the file has it: rounded, where its record rounds. */
static float rounded_limit(const qg_lint *l, const qg_node *n, uint32_t slot, float x)
{
    const qg_tqc *t = slot < n->n_in ? qg_input_tqc(n, slot) : NULL;
    const qg_tensor *raw = t && n->in[slot] ? n->in[slot]->constant : NULL;
    if (!raw || !qg_lint_rounds(l, t) || qg_tensor_count(raw) != 1)
        return x;
    qg_tensor from = *raw, to = *raw;
    float rounded = x;
    from.dtype = to.dtype = QG_F32; /* x is the constant in float32 */
    from.f32 = &x;
    to.f32 = &rounded;
    qg_qparam p = qg_tqc_param(t);
    return p.n == 1 && qg_fake_quantize(l->ctx, n->name, &t->scheme, &p, &from, &to) ==
                           QG_OK
               ? rounded
               : x;
}

static bool clamp_in_grid(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    float low, high;
    const qg_tqc *t = qg_lint_output_grid(l, s->node);
    (void)c;
    if (!t || !qg_node_clamps(s->node, &low, &high))
        return false;
    if (qg_lint_is_nibble(t) && !qg_lint_is_narrow(t)) { /* behind it is that Max */
        (void)snprintf(s->detail, sizeof s->detail, "codes of fewer than 8 bits");
        return false;
    }
    qg_qparam p = qg_tqc_param(t);
    if (p.n != 1)
        return false;
    int32_t zero = p.offset ? p.offset[0] : 0;
    low = rounded_limit(l, s->node, 1, low);
    high = rounded_limit(l, s->node, 2, high);
    /* in float32, as QuantizeLinear divides */
    double least = rint((double)(low / p.scale[0])) + zero,
           most = rint((double)(high / p.scale[0])) + zero;
    (void)snprintf(s->detail, sizeof s->detail, "clamps to codes %g to %g of %d to %d",
                   least, most, (int)t->scheme.qmin, (int)t->scheme.qmax);
    return least <= (double)t->scheme.qmin && (double)t->scheme.qmax <= most;
}

/* Of a bound, on a grid of one scale. */
static double clamped_code(const qg_tqc *t, float x)
{
    qg_qparam p = qg_tqc_param(t);
    double code =
        round((double)(x / p.scale[0])) + (p.offset ? (double)p.offset[0] : 0);
    return fmin(fmax(code, (double)t->scheme.qmin), (double)t->scheme.qmax);
}

/* The activations that an operator of TensorFlow Lite has as an option.  Of a chain of
 * clamps nothing is said. */
static bool clamp_apart(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    static const float known[][2] = {
        {-INFINITY, INFINITY},
        { 0,        INFINITY},
        { 0,        6       },
        { -1,       1       },
    };
    float low, high;
    const qg_tqc *t = qg_lint_output_grid(l, s->node);
    const qg_node *from = producer(s->node);
    (void)c;
    if (!t || qg_tqc_param(t).n != 1 || !qg_node_clamps(s->node, &low, &high) ||
        (from && l->node[from->id].fate == QG_FATE_FUSED))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (clamped_code(t, low) == clamped_code(t, known[i][0]) &&
            clamped_code(t, high) == clamped_code(t, known[i][1]))
            return false;
    (void)snprintf(s->detail, sizeof s->detail, "codes %g to %g of %lld to %lld",
                   clamped_code(t, low), clamped_code(t, high),
                   (long long)t->scheme.qmin, (long long)t->scheme.qmax);
    return true;
}

static bool pad_off_grid(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_lint_pad_value(s->node);
    const qg_tqc *t = qg_lint_output_grid(l, s->node);
    (void)c;
    if (!t || !v || !v->constant || v->constant->dtype != QG_F32 ||
        qg_tensor_count(v->constant) != 1 || qg_tqc_param(t).n != 1)
        return false;
    qg_qparam p = qg_tqc_param(t);
    double code = (double)v->constant->f32[0] / (double)p.scale[0] +
                  (p.offset ? (double)p.offset[0] : 0);
    (void)snprintf(s->detail, sizeof s->detail, "value %g is code %.6g of %lld to %lld",
                   (double)v->constant->f32[0], code, (long long)t->scheme.qmin,
                   (long long)t->scheme.qmax);
    return rint(code) < (double)t->scheme.qmin || rint(code) > (double)t->scheme.qmax ||
           fabs(code - rint(code)) > 1e-3;
}

static bool input_offset(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = qg_lint_input_grid(l, s->node, 0);
    qg_qparam p = t ? qg_tqc_param(t) : (qg_qparam){ 0 };
    (void)c;
    return p.n == 1 && (p.offset ? p.offset[0] : 0) != t->scheme.qmin;
}

static bool rank(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l;
    return s->node->n_in && s->node->in[0] &&
           s->node->in[0]->type.rank == (int)c->number;
}

static bool float16(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)c;
    return l->quant->graph->float_type == QG_F16 && !s->node->stays_float32;
}

static bool opset_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    int64_t opset = qg_graph_opset(l->graph, "");
    (void)snprintf(s->detail, sizeof s->detail, "opset %lld", (long long)opset);
    return !s->node->op->domain && (double)opset > c->number;
}

/* --- endpoints --- */

static bool rounds(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_lint_rounds(l, s->at);
}

static bool constant(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return qg_tqc_is_constant(s->at);
}

/* More than one parameter; a single one along an axis is no difference. */
static bool per_channel(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    qg_qparam p = qg_tqc_param(s->at);
    (void)l, (void)c;
    (void)snprintf(s->detail, sizeof s->detail, "%zu scales", p.n);
    return p.n > 1;
}

/* Of the constants at a slot 'w': a single channel has one scale either way. */
static bool one_scale(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    const qg_op *op = s->node->op;
    (void)l, (void)c;
    if (s->at->is_output || qg_op_in_role(op, s->at->slot) != 'w' || !op->weight_axis ||
        !v->constant)
        return false;
    int axis = op->weight_axis(s->node);
    int64_t channels =
        axis >= 0 && axis < v->constant->rank ? v->constant->dim[axis] : 1;
    (void)snprintf(s->detail, sizeof s->detail, "%lld channels", (long long)channels);
    return channels > 1 && qg_tqc_param(s->at).n == 1;
}

static bool zero_point(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    int32_t found = offset_of(s->at);
    (void)l, (void)c;
    if (found != 0)
        (void)snprintf(s->detail, sizeof s->detail, "zero point %d", (int)found);
    return found != 0;
}

static bool bits_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l;
    (void)snprintf(s->detail, sizeof s->detail, "%u bits", s->at->scheme.bits);
    return s->at->scheme.bits > c->number;
}

static bool export_refuses(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const char *why = NULL;
    (void)l;
    for (int k = 0; !why && qg_placements[k]; k++)
        for (size_t i = 0; !why && i < c->n_word; i++)
            if (strcmp(qg_placements[k], c->word[i]) == 0)
                why = qg_onnx_refusal(s->at, (enum qg_placement)k);
    if (why)
        (void)snprintf(s->detail, sizeof s->detail, "%u bits: %s", s->at->scheme.bits,
                       why);
    return why != NULL;
}

static bool codes_below(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l;
    (void)snprintf(s->detail, sizeof s->detail, "lowest code %lld",
                   (long long)s->at->scheme.qmin);
    return (double)s->at->scheme.qmin < c->number;
}

static bool codes_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l;
    (void)snprintf(s->detail, sizeof s->detail, "highest code %lld",
                   (long long)s->at->scheme.qmax);
    return (double)s->at->scheme.qmax > c->number;
}

static bool scale_not(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    qg_qparam p = qg_tqc_param(s->at);
    (void)l;
    for (size_t i = 0; i < p.n; i++) {
        (void)snprintf(s->detail, sizeof s->detail, "scale %.9g", (double)p.scale[i]);
        if (p.scale[i] != (float)c->number)
            return true;
    }
    return false;
}

static bool lowest_is_not_zero(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    qg_qparam p = qg_tqc_param(s->at);
    (void)c;
    if (!v || !l->nonnegative[v->id] || p.n != 1)
        return false;
    int32_t zero = p.offset ? p.offset[0] : 0;
    (void)snprintf(s->detail, sizeof s->detail, "zero point %d, lowest code %lld",
                   (int)zero, (long long)s->at->scheme.qmin);
    return zero != s->at->scheme.qmin;
}

static bool floating(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = s->at;
    (void)l, (void)c;
    return (t->scheme.policy & QG_FLOATING) && qg_tqc_is_on_grid(t);
}

static bool dynamic(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return (s->at->scheme.policy & QG_DYNAMIC) != 0;
}

/* The record that rounds the value of an input at its producer; NULL: none does. */
static const qg_tqc *rounded_before(const qg_lint *l, const qg_lint_site *s)
{
    const qg_value *v = s->at->is_output ? NULL : qg_tqc_value(s->at);
    const qg_tqc *t = v ? qg_producer_tqc(v) : NULL;
    return qg_lint_rounds(l, s->at) && qg_lint_rounds(l, t) ? t : NULL;
}

static bool requantizes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = rounded_before(l, s);
    char name[QG_ENDPOINT_TEXT];
    (void)l, (void)c;
    if (!t || qg_lint_same_grid(t, s->at))
        return false;
    qg_qparam p = qg_tqc_param(t), q = qg_tqc_param(s->at);
    (void)snprintf(s->detail, sizeof s->detail, "scale %.6g here, %.6g at %.1000s",
                   p.n && q.n ? (double)q.scale[0] : 0., p.n ? (double)p.scale[0] : 0.,
                   qg_tqc_text(t, name));
    return true;
}

/* Rounding twice on one grid is rounding once. */
static bool repeats(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = rounded_before(l, s);
    (void)l, (void)c;
    return t && qg_lint_same_grid(t, s->at);
}

/* Float whatever the records are. */
static bool in_float(const qg_lint *l, const qg_node *n)
{
    return l->node[n->id].fate == QG_FATE_NONE;
}

static bool between_floats(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    (void)c;
    if (!v || !qg_lint_rounds(l, s->at))
        return false;
    if (!s->at->is_output)
        return in_float(l, s->node) && (!v->def || in_float(l, v->def));
    for (size_t i = 0; i < v->use.n; i++)
        if (!in_float(l, v->use.at[i].node))
            return false;
    return in_float(l, s->node);
}

static bool fused_inside(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    (void)l, (void)c;
    if (!s->at->is_output || !v || v->use.n != 1 || v->is_output)
        return false;
    return qg_lint_rounds(l, s->at) &&
           qg_node_has(v->use.at[0].node, QG_OP_ACTIVATION | QG_OP_NORMALIZE);
}

/* In the order of the map: a predicate without its function does not compile. */
qg_predicate_test *const qg_predicate_table[QG_NPREDICATE] = {
    [QG_PREDICATE_QUANTIZED] = quantized,
    [QG_PREDICATE_FATE] = fate,
    [QG_PREDICATE_OPERATOR] = is_operator,
    [QG_PREDICATE_DATA] = data,
    [QG_PREDICATE_AFTER] = qg_test_after,
    [QG_PREDICATE_AFTER_CLAMP] = qg_test_after_clamp,
    [QG_PREDICATE_AFTER_FUSED] = qg_test_after_fused,
    [QG_PREDICATE_AFTER_KERNEL] = after_kernel,
    [QG_PREDICATE_BEHIND] = qg_test_behind,
    [QG_PREDICATE_NETWORK_INPUT] = qg_test_network_input,
    [QG_PREDICATE_NETWORK_OUTPUT] = qg_test_network_output,
    [QG_PREDICATE_INPUT_CODES] = input_codes,
    [QG_PREDICATE_SOME_CODES] = some_codes,
    [QG_PREDICATE_WEIGHT_CODES] = weight_codes,
    [QG_PREDICATE_WEIGHT_CONSTANT] = weight_constant,
    [QG_PREDICATE_WEIGHT_SYMMETRIC] = weight_symmetric,
    [QG_PREDICATE_WEIGHT_CENTERED] = qg_test_weight_centered,
    [QG_PREDICATE_BIAS_ABSENT] = bias_absent,
    [QG_PREDICATE_BIAS_CODES] = bias_codes,
    [QG_PREDICATE_BIAS_VECTOR] = bias_vector,
    [QG_PREDICATE_OUTPUT_CODES] = output_codes,
    [QG_PREDICATE_OUTPUT_ROUNDED] = output_rounded,
    [QG_PREDICATE_OUTPUT_FLOAT] = output_float,
    [QG_PREDICATE_SAME_INPUTS] = same_inputs,
    [QG_PREDICATE_SAME_GRID] = same_grid,
    [QG_PREDICATE_MIXED_TYPES] = qg_test_mixed_types,
    [QG_PREDICATE_SIGNED_CONSTANT] = qg_test_signed_constant,
    [QG_PREDICATE_SIGNED_INPUT] = qg_test_signed_input,
    [QG_PREDICATE_BECOMES_GEMM] = qg_test_becomes_gemm,
    [QG_PREDICATE_INTO_CLAMP] = into_clamp,
    [QG_PREDICATE_FLATTENED] = qg_test_flattened,
    [QG_PREDICATE_READ_BY] = read_by,
    [QG_PREDICATE_READER_CODES] = reader_codes,
    [QG_PREDICATE_RESIDUAL_FLOAT] = residual_float,
    [QG_PREDICATE_CENTERS] = centers,
    [QG_PREDICATE_READ_ONCE] = qg_test_read_once,
    [QG_PREDICATE_CLAMP] = qg_test_clamp,
    [QG_PREDICATE_CLAMP_IN_GRID] = clamp_in_grid,
    [QG_PREDICATE_CLAMP_APART] = clamp_apart,
    [QG_PREDICATE_BYTES] = qg_test_bytes,
    [QG_PREDICATE_SCALED_BIAS] = qg_test_scaled_bias,
    [QG_PREDICATE_ODD_LEVELS] = qg_test_odd_levels,
    [QG_PREDICATE_EXACT_SOFTMAX] = qg_test_exact_softmax,
    [QG_PREDICATE_ROW_OF_ONE] = qg_test_row_of_one,
    [QG_PREDICATE_INPUT_OFFSET] = input_offset,
    [QG_PREDICATE_INPUT_ZERO_POINT] = qg_test_input_zero_point,
    [QG_PREDICATE_TYPES_CLASH] = qg_test_types_clash,
    [QG_PREDICATE_CONSTANT_ALONG] = qg_test_constant_along,
    [QG_PREDICATE_CONSTANT_OPERAND] = qg_test_constant_operand,
    [QG_PREDICATE_CARRIED_FLOATS] = qg_test_carried_floats,
    [QG_PREDICATE_GATES] = qg_test_gates,
    [QG_PREDICATE_GATED] = qg_test_gated,
    [QG_PREDICATE_SUMS_KERNEL] = qg_test_sums_kernel,
    [QG_PREDICATE_DEPTHWISE] = qg_test_depthwise,
    [QG_PREDICATE_GROUPED] = qg_test_grouped,
    [QG_PREDICATE_STRIDE_BEYOND_KERNEL] = qg_test_stride_beyond_kernel,
    [QG_PREDICATE_TURNS_APART] = qg_test_turns_apart,
    [QG_PREDICATE_GROUPS_APART] = qg_test_groups_apart,
    [QG_PREDICATE_ROUNDED_SUM] = qg_test_rounded_sum,
    [QG_PREDICATE_SUMS_PRODUCT] = qg_test_sums_product,
    [QG_PREDICATE_BATCHED_COLUMN] = qg_test_batched_column,
    [QG_PREDICATE_PADS_ONE_AXIS] = qg_test_pads_one_axis,
    [QG_PREDICATE_FRACTIONAL_EXTENT] = qg_test_fractional_extent,
    [QG_PREDICATE_DERIVED_PADS] = qg_test_derived_pads,
    [QG_PREDICATE_READ_APART] = qg_test_read_apart,
    [QG_PREDICATE_COUNTS_CODES] = qg_test_counts_codes,
    [QG_PREDICATE_SHRINKS_CUBIC] = qg_test_shrinks_cubic,
    [QG_PREDICATE_AVERAGES_APART] = qg_test_averages_apart,
    [QG_PREDICATE_AS_WRITTEN] = qg_test_as_written,
    [QG_PREDICATE_JOINS_CONSTANT] = qg_test_joins_constant,
    [QG_PREDICATE_PADS] = qg_test_pads,
    [QG_PREDICATE_PADS_APART] = qg_test_pads_apart,
    [QG_PREDICATE_PADS_WITH_ZERO] = qg_test_pads_with_zero,
    [QG_PREDICATE_PADS_INTO] = qg_test_pads_into,
    [QG_PREDICATE_PAD_OFF_GRID] = pad_off_grid,
    [QG_PREDICATE_RANK] = rank,
    [QG_PREDICATE_FLOAT16] = float16,
    [QG_PREDICATE_OPSET_ABOVE] = opset_above,
    [QG_PREDICATE_SAME_DIMS] = qg_test_same_dims,
    [QG_PREDICATE_STEPS] = qg_test_steps,
    [QG_PREDICATE_EQUAL_PARTS] = qg_test_equal_parts,
    [QG_PREDICATE_INPUT_BELOW] = qg_test_input_below,
    [QG_PREDICATE_INPUT_ABOVE] = qg_test_input_above,
    [QG_PREDICATE_BEYOND_FLOAT] = qg_test_beyond_float,
    [QG_PREDICATE_RATIO_ABOVE] = qg_test_ratio_above,
    [QG_PREDICATE_RATIO_BELOW] = qg_test_ratio_below,
    [QG_PREDICATE_BIAS_ABOVE] = qg_test_bias_above,
    [QG_PREDICATE_SUM_ABOVE] = qg_test_sum_above,
    [QG_PREDICATE_SUM_CALIBRATED] = qg_test_sum_calibrated,
    [QG_PREDICATE_PAIRS] = qg_test_pairs,
    [QG_PREDICATE_PAIRS_CALIBRATED] = qg_test_pairs_calibrated,
    [QG_PREDICATE_PAIRS_WITHIN] = qg_test_pairs_within,
    [QG_PREDICATE_ROUNDS] = rounds,
    [QG_PREDICATE_CONSTANT] = constant,
    [QG_PREDICATE_PER_CHANNEL] = per_channel,
    [QG_PREDICATE_ONE_SCALE] = one_scale,
    [QG_PREDICATE_ZERO_POINT] = zero_point,
    [QG_PREDICATE_CENTERED] = qg_test_centered,
    [QG_PREDICATE_BITS_ABOVE] = bits_above,
    [QG_PREDICATE_EXPORT_REFUSES] = export_refuses,
    [QG_PREDICATE_CODES_BELOW] = codes_below,
    [QG_PREDICATE_CODES_ABOVE] = codes_above,
    [QG_PREDICATE_USES_BELOW] = qg_test_uses_below,
    [QG_PREDICATE_NARROW] = qg_test_narrow,
    [QG_PREDICATE_SCALE_NOT] = scale_not,
    [QG_PREDICATE_LOWEST_IS_NOT_ZERO] = lowest_is_not_zero,
    [QG_PREDICATE_FLOATING] = floating,
    [QG_PREDICATE_DYNAMIC] = dynamic,
    [QG_PREDICATE_REQUANTIZES] = requantizes,
    [QG_PREDICATE_REPEATS] = repeats,
    [QG_PREDICATE_BETWEEN_FLOATS] = between_floats,
    [QG_PREDICATE_FUSED_INSIDE] = fused_inside,
};

bool qg_lint_holds(const qg_lint *l, qg_lint_site *s, const qg_conditions *c,
                   const qg_condition **failed)
{
    char detail[QG_LINT_DETAIL] = "";
    for (size_t i = 0; i < c->n; i++) {
        s->detail[0] = 0;
        if (qg_predicate_table[c->at[i].predicate](l, s, &c->at[i]) ==
            c->at[i].is_not) {
            if (failed)
                *failed = &c->at[i];
            return false;
        }
        if (s->detail[0])
            memcpy(detail, s->detail, sizeof detail);
    }
    memcpy(s->detail, detail, sizeof detail);
    return true;
}
