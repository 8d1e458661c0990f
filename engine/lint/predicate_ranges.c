/* predicate_ranges.c -- predicates that compute with weights, biases and scales: the
 * factor of a requantization, codes of a bias, sums of products, pairs of products, and
 * the codes that a constant has.
 *
 * Codes     of a weight: round(w / s) + z, limited to the codes of its scheme; in a
 *           file these limits are often those of the type, whether the weight has
 *           such codes or not
 * Input     any codes: every code of its integer type; calibrated: those of its scheme,
 *           from that of 0 on when the value is never negative
 * Pairs     x is unsigned (signed codes plus half of their number), w as it is; the
 *           order of a convolution is by kernel position, then channel.  ONNX Runtime
 *           pairs the products of all positions in a row, oneDNN those of one position
 *           (an odd last channel alone), but for groups of one input channel, whose
 *           positions it pairs; depthwise kernels of both have no pairs
 * Why pairs vpmaddubsw of AVX2 adds two products of uint8 and int8 in an int16, which
 *           saturates: 2 x 255 x 127 = 64770 > 32767.  Weights of 7 bits fit, since
 *           2 x 255 x 64 = 32640
 * Worst     each term takes the end of the input's range that makes the sum larger;
 *           no sample has to reach it.  A finding is a possible overflow, not an
 *           observed one
 * Unknown   a product whose weight is computed, or whose grids are floating, dynamic or
 *           in blocks, has no figure: the predicates do not hold
 * Cost      one pass over the weight for each rule that uses the predicate
 * Source    docs/evidence/integers.md#onnx-runtime, number/integer_sum.h */
#include "engine/lint/lint.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "engine/number/integer_exp.h"

/* A product with a constant weight, as the target's kernel sees it. */
typedef struct product {
    const qg_tqc *x, *w, *b, *y; /* b, y: NULL when there is none */
    const qg_tensor *weight, *bias;
    int axis;                /* of output channels in weight */
    int64_t channels, terms; /* output channels, products of each */
    double low, high;        /* codes of x, zero point not subtracted */
} product;

static const qg_tensor *constant_in(const qg_node *n, char role)
{
    int slot = qg_op_slot_of(n->op, role);
    const qg_value *v = slot >= 0 && (uint32_t)slot < n->n_in ? n->in[slot] : NULL;
    return v && v->constant && v->constant->dtype == QG_F32 ? v->constant : NULL;
}

static double scale_of(const qg_tqc *t, int64_t channel)
{
    qg_qparam p = qg_tqc_param(t);
    return (double)p.scale[p.n > 1 ? channel : 0];
}

static double zero_of(const qg_tqc *t, int64_t channel)
{
    qg_qparam p = qg_tqc_param(t);
    return p.offset ? (double)p.offset[p.n > 1 ? channel : 0] : 0;
}

/* A linear grid with one scale, or one for each of n channels. */
static bool is_linear(const qg_tqc *t, int64_t n)
{
    const unsigned other = QG_FLOATING | QG_BLOCK | QG_DYNAMIC;
    return t && !(t->scheme.policy & other) &&
           (qg_tqc_param(t).n == 1 || (int64_t)qg_tqc_param(t).n == n);
}

/* Every code of the type, or those that the calibration left. */
static void limit_input(const qg_lint *l, const qg_node *n, bool calibrated,
                        product *out)
{
    const qg_scheme *s = &out->x->scheme;
    double codes = ldexp(1, s->bits);
    out->low = s->qmin < 0 ? -codes / 2 : 0;
    out->high = out->low + codes - 1;
    if (!calibrated)
        return;
    out->low = (double)s->qmin;
    out->high = (double)s->qmax;
    if (l->nonnegative[n->in[0]->id])
        out->low = fmax(out->low, zero_of(out->x, 0));
}

static bool find_product(const qg_lint *l, const qg_node *n, bool calibrated,
                         product *out)
{
    int slot = qg_op_slot_of(n->op, 'w'), bias = qg_op_slot_of(n->op, 'b');
    *out = (product){ .weight = constant_in(n, 'w'), .bias = constant_in(n, 'b') };
    if (slot < 1 || !out->weight || !n->op->weight_axis ||
        (out->axis = n->op->weight_axis(n)) < 0 || out->axis >= out->weight->rank)
        return false;
    out->channels = out->weight->dim[out->axis];
    out->terms = out->channels ? qg_tensor_count(out->weight) / out->channels : 0;
    out->x = qg_lint_input_grid(l, n, 0);
    out->w = qg_lint_input_grid(l, n, (uint32_t)slot);
    out->y = qg_lint_output_grid(l, n);
    out->b = bias > 0 ? qg_input_tqc(n, (uint32_t)bias) : NULL;
    if (!is_linear(out->x, 1) || !is_linear(out->w, out->channels) || !out->terms)
        return false;
    limit_input(l, n, calibrated, out);
    return true;
}

static double code_of(const qg_tqc *t, int64_t channel, float x)
{
    const qg_scheme *s = &t->scheme;
    double code =
        qg_round_f64((qg_rounding)s->rounding, (double)x / scale_of(t, channel)) +
        zero_of(t, channel);
    return fmin(fmax(code, (double)s->qmin), (double)s->qmax);
}

/* The code of element `at` of the weight. */
static double code_at(const product *p, int64_t channel, int64_t at)
{
    return code_of(p->w, channel, p->weight->f32[at]);
}

/* Position of term k of a channel in the weight.  A convolution, which has its output
 * channels first, is read by kernel position, then channel, anything else as it is
 * stored. */
static int64_t place(const product *p, int64_t channel, int64_t k)
{
    const qg_tensor *w = p->weight;
    int64_t inner = 1;
    if (p->axis == 0 && w->rank > 2) {
        int64_t in = w->dim[1];
        return channel * p->terms + k % in * (p->terms / in) + k / in;
    }
    for (int d = p->axis + 1; d < w->rank; d++)
        inner *= w->dim[d];
    return (k / inner * p->channels + channel) * inner + k % inner;
}

/* --- codes --- */

/* The lowest code that the constant has; INFINITY: its codes are not known. */
static double lowest_used(const qg_tqc *t, const qg_tensor *x)
{
    bool channels = (t->scheme.policy & QG_PER_CHANNEL) != 0;
    int axis = t->scheme.axis;
    int64_t inner = 1, n = channels && axis < x->rank ? x->dim[axis] : 1;
    double lowest = INFINITY;
    if (x->dtype != QG_F32 || !is_linear(t, n))
        return INFINITY;
    for (int d = axis + 1; channels && d < x->rank; d++)
        inner *= x->dim[d];
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        lowest = fmin(lowest, code_of(t, i / inner % n, x->f32[i]));
    return lowest;
}

bool qg_test_uses_below(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    double lowest =
        v && v->constant ? lowest_used(s->at, v->constant) : (double)s->at->scheme.qmin;
    (void)l;
    (void)snprintf(s->detail, sizeof s->detail, "lowest code %g", lowest);
    return lowest < c->number;
}

/* The largest of a figure of each channel, and its text. */
static bool above(qg_lint_site *s, const char *what, double found, double limit)
{
    (void)snprintf(s->detail, sizeof s->detail, "%s %.9g", what, found);
    return found > limit;
}

/* --- the factor of the requantization --- */

/* s_x / s_y of data inputs on grids: the least and the largest. */
static bool input_ratios(const qg_lint *l, const qg_node *n, double *least,
                         double *most)
{
    const qg_tqc *y = qg_lint_output_grid(l, n);
    *least = INFINITY;
    *most = 0;
    for (uint32_t k = 0; k < n->n_in && is_linear(y, 1); k++) {
        const qg_tqc *x = qg_lint_is_data(n, k) ? qg_lint_input_grid(l, n, k) : NULL;
        if (!is_linear(x, 1))
            continue;
        *least = fmin(*least, scale_of(x, 0) / scale_of(y, 0));
        *most = fmax(*most, scale_of(x, 0) / scale_of(y, 0));
    }
    return *most > 0;
}

bool qg_test_input_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    double least, most;
    return input_ratios(l, s->node, &least, &most) &&
           above(s, "factor of an input", most, c->number);
}

bool qg_test_input_below(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    double least, most;
    return input_ratios(l, s->node, &least, &most) &&
           !above(s, "factor of an input", least, c->number) && least < c->number;
}

/* Of sums, whose kernels have n bits of headroom. */
bool qg_test_beyond_float(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *y = qg_lint_output_grid(l, s->node);
    double most = is_linear(y, 1) ? ldexp(scale_of(y, 0), (int)c->number) : 0;
    for (uint32_t k = 0; k < s->node->n_in && most > 0; k++) {
        const qg_tqc *x =
            qg_lint_is_data(s->node, k) ? qg_lint_input_grid(l, s->node, k) : NULL;
        if (is_linear(x, 1))
            most = fmax(most, 2 * scale_of(x, 0));
    }
    return above(s, "float32 would need", most, (double)FLT_MAX);
}

static bool ratio(const qg_lint *l, qg_lint_site *s, double *least, double *most)
{
    product p;
    if (!find_product(l, s->node, false, &p) || !is_linear(p.y, 1))
        return false;
    *least = INFINITY;
    *most = 0;
    for (int64_t c = 0; c < p.channels; c++) {
        double r = scale_of(p.x, 0) * scale_of(p.w, c) / scale_of(p.y, 0);
        *least = fmin(*least, r);
        *most = fmax(*most, r);
    }
    return p.channels > 0;
}

bool qg_test_ratio_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    double least, most;
    return ratio(l, s, &least, &most) && above(s, "factor", most, c->number);
}

bool qg_test_ratio_below(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    double least, most;
    return ratio(l, s, &least, &most) && !above(s, "factor", least, c->number) &&
           least < c->number;
}

/* --- sums --- */

static double bias_code(const product *p, int64_t channel)
{
    return p->bias && p->bias->rank == 1 && p->bias->dim[0] == p->channels
               ? (double)p->bias->f32[channel] /
                     (scale_of(p->x, 0) * scale_of(p->w, channel))
               : 0;
}

bool qg_test_bias_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    product p;
    double most = 0;
    if (!find_product(l, s->node, false, &p))
        return false;
    for (int64_t k = 0; k < p.channels; k++)
        most = fmax(most, fabs(bias_code(&p, k)));
    return above(s, "bias code", most, c->number);
}

/* The largest absolute sum of one channel over all inputs. */
static double worst_sum(const product *p, int64_t channel)
{
    double low = bias_code(p, channel), high = low, zero = zero_of(p->w, channel);
    double least = p->low - zero_of(p->x, 0), most = p->high - zero_of(p->x, 0);
    for (int64_t k = 0; k < p->terms; k++) {
        double w = code_at(p, channel, place(p, channel, k)) - zero;
        low += fmin(w * least, w * most);
        high += fmax(w * least, w * most);
    }
    return fmax(fabs(low), fabs(high));
}

static bool sum(const qg_lint *l, qg_lint_site *s, double limit, bool calibrated)
{
    product p;
    double most = 0;
    if (!find_product(l, s->node, calibrated, &p))
        return false;
    for (int64_t c = 0; c < p.channels; c++)
        most = fmax(most, worst_sum(&p, c));
    return above(s, "sum of products", most, limit);
}

bool qg_test_sum_above(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    return sum(l, s, c->number, false);
}

bool qg_test_sum_calibrated(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    return sum(l, s, c->number, true);
}

/* --- pairs --- */

/* The largest absolute sum of two neighbouring products of a channel.  run: products
 * after which a new pair begins: all terms, or the channels of a kernel position. */
static double worst_pair(const product *p, int64_t channel, int64_t run)
{
    double shift = p->x->scheme.qmin < 0 ? ldexp(1, p->x->scheme.bits - 1) : 0;
    double least = p->low + shift, most = p->high + shift, worst = 0;
    int64_t end;
    for (int64_t k = 0; k < p->terms; k = end) {
        double low = 0, high = 0;
        end = k % run + 2 < run ? k + 2 : k - k % run + run;
        for (int64_t i = k; i < end && i < p->terms; i++) {
            double w = code_at(p, channel, place(p, channel, i));
            low += fmin(w * least, w * most);
            high += fmax(w * least, w * most);
        }
        /* int16 has one code more below 0 than above it */
        worst = fmax(worst, fmax(-low - 1, high));
    }
    return worst;
}

/* Groups of one input channel each; else 0. */
static int64_t single_groups(const qg_node *n, const product *p)
{
    const qg_attr *group = qg_attr_find(n, "group");
    return group && group->type == QG_ATTR_INT && group->ints[0] > 1 &&
                   p->weight->rank > 2 && p->weight->dim[1] == 1
               ? group->ints[0]
               : 0;
}

static bool pairs(const qg_lint *l, qg_lint_site *s, double limit, bool calibrated,
                  bool within)
{
    product p;
    double most = 0;
    int64_t over = 0;
    if (!find_product(l, s->node, calibrated, &p) || p.x->scheme.bits > 8)
        return false;
    int64_t groups = single_groups(s->node, &p);
    if (groups == p.channels && p.axis == 0)
        return false; /* depthwise kernels multiply in 32 bits */
    int64_t run = within && p.axis == 0 && p.weight->rank > 2 && !groups
                      ? p.weight->dim[1]
                      : p.terms;
    for (int64_t c = 0; c < p.channels; c++) {
        double worst = worst_pair(&p, c, run);
        most = fmax(most, worst);
        over += worst > limit;
    }
    (void)snprintf(s->detail, sizeof s->detail,
                   "two products reach %.9g, in %lld of %lld channels", most,
                   (long long)over, (long long)p.channels);
    return over > 0;
}

bool qg_test_pairs(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    return pairs(l, s, c->number, false, false);
}

bool qg_test_pairs_calibrated(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    return pairs(l, s, c->number, true, false);
}

bool qg_test_pairs_within(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    return pairs(l, s, c->number, true, true);
}

/* --- softmax --- */

/* The elements along the axis, which before opset 13 is axis 1 unless it is given. */
static int64_t row_length(const qg_node *n)
{
    const int64_t last_axis_since = 13;
    const qg_attr *a = qg_attr_find(n, "axis");
    int64_t axis = n->opset < last_axis_since ? 1 : -1;
    if (!n->n_in || !n->in[0])
        return 0;
    if (a && a->type == QG_ATTR_INT)
        axis = a->ints[0];
    axis += axis < 0 ? n->in[0]->type.rank : 0;
    return axis >= 0 && axis < n->in[0]->type.rank ? n->in[0]->type.dim[axis] : 0;
}

bool qg_test_exact_softmax(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = qg_lint_output_grid(l, s->node);
    qg_qparam p = t ? qg_tqc_param(t) : (qg_qparam){ 0 };
    if (p.n != 1)
        return false;
    (void)snprintf(s->detail, sizeof s->detail, "scale %.9g", (double)p.scale[0]);
    return qg_int_softmax_table_is_exact(p.scale[0], (float)c->number,
                                         row_length(s->node));
}

bool qg_test_row_of_one(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return row_length(s->node) == 1;
}
