#include "engine/device/change.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/hash.h"
#include "engine/device/kernel.h"
#include "engine/ir/edit.h"
#include "engine/ir/lower.h"
#include "engine/ir/text.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/fake.h"
#include "engine/quant/tqc.h"

/* How simple a hypothesis is: the lowest is preferred among those that explain as
 * much. */
enum rank {
    ONE_WORD,
    TWO_WORDS,
    CLAMP,
    ZERO_POINT,
    GRID,
    GUESS = 6,
    OTHER_PROFILE = 30,
    OTHER_BIAS = 35 /* as many numbers as channels */
};

/* One hypothesis in the making. */
typedef struct maker {
    const qg_device *d;
    const qg_device_step *s;
    const qg_exact *exact;
    qg_change_list *list;
    const char *detail; /* of the next change; NULL: none */
    qg_change now;
} maker;

/* Begins with the step's own graph, which k->now owns until `end`.  Takes k->detail:
 * it belongs to one change only. */
static qg_status begin(maker *k, const char *cause, unsigned rank)
{
    k->now = (qg_change){ .cause = cause, .rank = rank, .d = k->d, .step = k->s };
    k->now.detail = k->detail;
    k->detail = NULL;
    return qg_step_cut(k->d, k->s, &k->now.cut);
}

/* Ends it: `s` is the outcome of the change.  A change that the operator refuses is
 * no hypothesis: its graph is freed (qg_refusal).  verdict NULL:
 * the arena is exhausted. */
static qg_status end(maker *k, qg_status s, const char *verdict)
{
    qg_ctx *ctx = k->d->ctx;
    k->now.verdict = verdict;
    if (s == QG_OK && verdict)
        s = qg_vec_push(ctx, k->d->arena, &k->list->change, k->now);
    else
        s = s == QG_OK ? qg_nomem(ctx) : qg_refusal(s);
    if (!k->list->change.n ||
        k->list->change.at[k->list->change.n - 1].cut.graph != k->now.cut.graph)
        qg_graph_free(k->now.cut.graph);
    return s;
}

/* The node of the cut that has this position among its nodes; they are copied in
 * order. */
static qg_node *node_at(const maker *k, size_t i)
{
    return k->now.cut.graph->node.at[i];
}

/* A sum of products with a weight: convolution, Gemm, MatMul.  Input 0 of its kernel
 * is the activation, input 1 the weight, input 2 the bias. */
static bool is_product(const qg_node *n)
{
    return qg_node_has(n, QG_OP_COMPUTE) && qg_op_slot_of(n->op, 'w') >= 0;
}

/* --- words of a recipe --- */

static const struct {
    const char *name, *meaning;
} schemes[] = {
#define X(id, text, meaning) { text, meaning },
    QG_SCHEME_MAP(X)
}, factors[] = { QG_FACTOR_MAP(X) }, roundings[] = {
    QG_ROUNDING_MAP(X)
#undef X
};
/* Ties of each scheme, in words. */
static const char *const ties[QG_NSCHEME] = {
    [QG_SCHEME_FLOAT_RNE] = "rounds half to even",
    [QG_SCHEME_FLOAT_AWAY] = "rounds half away from zero",
    [QG_SCHEME_FLOAT_ADD_HALF] = "rounds half away from zero",
    [QG_SCHEME_DOUBLE_AWAY] = "rounds half away from zero",
    [QG_SCHEME_FIX_DOUBLE] = "rounds twice, then half away from zero",
    [QG_SCHEME_FIX_DOUBLE_UP] = "rounds twice, then half up",
    [QG_SCHEME_FIX_SINGLE] = "rounds half up",
    [QG_SCHEME_FIX_MANTISSA] = "rounds half up",
    [QG_SCHEME_FIX_REDUCED] = "rounds half up",
    [QG_SCHEME_FIX_EIGHTH] = "rounds half up",
    [QG_SCHEME_POW2_SHIFT] = "rounds half up",
};
static const char *const places[] = { "after", "inside", "fused" };
enum { FACTORS = 3 }; /* those that a requantization of codes to codes has */

/* One hypothesis: the step with edit e of node `at`.  Texts of e and verdict are
 * static or in d->arena. */
static qg_status with_words(maker *k, size_t at, const char *cause, unsigned rank,
                            const qg_recipe_edit *e, const char *verdict)
{
    QG_TRY(begin(k, cause, rank));
    qg_status s = qg_kernel_edit(k->d, k->now.cut.graph, node_at(k, at), e);
    return end(k, s, verdict);
}

/* Schemes with the factor that is there, and with the others.  The zero
 * points inside and fused exist in float schemes only (number/requant.h), so other
 * schemes are tried with it behind the rounding. */
static qg_status vary_schemes(maker *k, size_t at, const qg_recipe *r)
{
    const qg_requant_rule *own = &r->row.requant;
    for (int s = 0; s < QG_NSCHEME; s++)
        for (int f = 0; f < FACTORS; f++) {
            if (s == own->scheme && f == own->factor)
                continue;
            qg_recipe_edit e = { .scheme = schemes[s].name, .factor = factors[f].name };
            unsigned rank = s != own->scheme && f != own->factor;
            if (own->zero && s > QG_SCHEME_FLOAT_ADD_HALF)
                e.zero = places[QG_ZERO_AFTER];
            const char *text =
                qg_arena_printf(k->d->arena, "%s: %s", ties[s], schemes[s].name);
            if (f != own->factor)
                k->detail = qg_arena_printf(k->d->arena, "factor %s", factors[f].name);

            QG_TRY(with_words(k, at, "requantization", rank, &e, text));
        }
    return QG_OK;
}

/* Places of the zero point under each float scheme.  Half-way values v and v + z
 * are rounded differently when z is odd (half to even) or when their signs differ
 * (half away), so the place is visible at ties.  The factor is f32 in all of them,
 * which keeps the list short. */
static qg_status vary_places(maker *k, size_t at, const qg_recipe *r)
{
    for (int s = 0; s <= QG_SCHEME_FLOAT_ADD_HALF; s++)
        for (int z = 0; z < QG_NZERO; z++) {
            qg_recipe_edit e = { .scheme = schemes[s].name,
                                 .factor = factors[QG_FACTOR_F32].name,
                                 .zero = places[z] };
            if (z == r->row.requant.zero)
                continue;
            const char *text =
                qg_arena_printf(k->d->arena, "%s: %s", ties[s], schemes[s].name);
            k->detail = qg_arena_printf(k->d->arena, "zero point %s", places[z]);
            QG_TRY(with_words(k, at, "requantization", TWO_WORDS, &e, text));
        }
    return QG_OK;
}

/* For kernels that round floats; others have no such attribute, and qg_recipe_change
 * refuses. */
static qg_status vary_roundings(maker *k, size_t at, const qg_recipe *r)
{
    for (int m = 0; m < QG_NROUNDING; m++) {
        qg_recipe_edit e = { .rounding = roundings[m].name };
        if (m == (int)r->row.rounding)
            continue;
        const char *text = qg_arena_printf(k->d->arena, "rounds %s (%s)",
                                           roundings[m].name, roundings[m].meaning);
        QG_TRY(with_words(k, at, "rounding", ONE_WORD, &e, text));
    }
    return QG_OK;
}

/* Bits by which operands are shifted to the left before they are brought to one grid:
 * fewer of them lose fractions. */
static qg_status vary_headroom(maker *k, size_t at, const qg_recipe *r)
{
    const int own = qg_dtype_bits(r->out.dtype) > 8 ? r->row.left16 : r->row.left8;
    for (int left = 1; own && left <= QG_RECIPE_MOST_LEFT; left++) {
        qg_recipe_edit e = { .left = left };
        if (left == own)
            continue;
        const char *text =
            qg_arena_printf(k->d->arena, "operands have %d bits of headroom", left);
        QG_TRY(with_words(k, at, "headroom", ONE_WORD, &e, text));
    }
    return QG_OK;
}

/* The zero point of an operand that is not subtracted. */
static qg_status vary_operands(maker *k, size_t at, const qg_recipe *r)
{
    const int32_t none = 0;
    for (int i = 0; i < 2; i++) {
        qg_stored x = r->in[i];
        if (!x.codes || x.n > 1 || !x.zero[0])
            continue;
        x.zero = &none;
        qg_recipe_edit e = {
            .in = {i ? NULL : &x, i ? &x : NULL}
        };
        const char *text =
            qg_arena_printf(k->d->arena, "zero point of input %d is 0 instead of %d", i,
                            (int)r->in[i].zero[0]);
        QG_TRY(with_words(k, at, "operand", ONE_WORD, &e, text));
    }
    return QG_OK;
}

/* x86 without VNNI adds neighbouring products, uint8 by int8, in int16 that saturates
 * (number/integer_sum.h): elements with large products of one sign differ. */
static qg_status vary_products(maker *k, size_t at, const qg_recipe *r)
{
    bool pairs = r->row.products == QG_PRODUCTS_PAIRS;
    qg_recipe_edit e = { .products = pairs ? "exact" : "pairs" };
    return with_words(k, at, "saturation", ONE_WORD, &e,
                      pairs ? "does not saturate: products are summed exactly"
                            : "saturates pairwise: neighbouring products in int16");
}

/* --- limits and grids --- */

/* The codes behind the step's graph, limited.  Equal grids make the factor 1, so that
 * every scheme is exact. */
static qg_status append_clamp(maker *k, const qg_stored *limited)
{
    qg_recipe r = {
        .row = {.id = "clamp",
                .requant = { .scheme = QG_SCHEME_DOUBLE_AWAY,
                              .factor = QG_FACTOR_DOUBLE,
                              .accumulator = 32 } },
        .in = { *limited           },
        .out = *limited
    };
    return qg_kernel_append(k->now.cut.graph, &r);
}

/* The step with these limits.  Those of the last node can only be widened in its
 * recipe; tighter ones are a clamp behind it, whatever it is. */
static qg_status give_limits(maker *k, int32_t low, int32_t high)
{
    qg_node *n = k->now.cut.graph->output.at[0]->def;
    qg_recipe r;
    qg_stored out = *k->s->stored;
    bool row = qg_attr_has(n, "row") && qg_recipe_read(k->d->ctx, n, &r) == QG_OK &&
               r.out.codes;
    if (row)
        out = r.out;
    bool wider = row && (low < r.out.low || high > r.out.high);
    out.low = low;
    out.high = high;
    return wider ? qg_kernel_edit(k->d, k->now.cut.graph, n,
                                  &(qg_recipe_edit){ .out = &out })
                 : append_clamp(k, &out);
}

static qg_status with_limits(maker *k, int32_t low, int32_t high, const char *text)
{
    QG_TRY(begin(k, "clamp", CLAMP));
    return end(k, give_limits(k, low, high), text);
}

/* One limit, or both, that the dump shows: codes beyond it in the program stop there,
 * or codes of the device go beyond the program's limit. */
static qg_status vary_seen_limits(maker *k, int32_t low, int32_t high)
{
    const qg_exact *e = k->exact;
    qg_arena *a = k->d->arena;
    bool below = e->low > e->own_low || e->low < low;
    bool above = e->high < e->own_high || e->high > high;
    if (below)
        QG_TRY(with_limits(k, e->low, high,
                           qg_arena_printf(a, "clamps below at code %d", (int)e->low)));
    if (above)
        QG_TRY(
            with_limits(k, low, e->high,
                        qg_arena_printf(a, "clamps above at code %d", (int)e->high)));
    if (!below || !above)
        return QG_OK;
    return with_limits(
        k, e->low, e->high,
        qg_arena_printf(a, "clamps to the codes %d to %d", (int)e->low, (int)e->high));
}

/* Limits of all nodes of the step that requantize to the grid of its value. */
static qg_status limit_requantized(maker *k, int32_t low, int32_t high)
{
    const qg_graph *g = k->now.cut.graph;
    const qg_stored *own = k->s->stored;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_recipe r;
        if (!qg_attr_has(g->node.at[i], "scheme") ||
            qg_recipe_read(k->d->ctx, g->node.at[i], &r) != QG_OK || !r.out.codes ||
            r.out.dtype != own->dtype || r.out.scale[0] != own->scale[0] ||
            r.out.zero[0] != own->zero[0])
            continue;
        qg_stored out = r.out;
        out.low = low;
        out.high = high;
        QG_TRY(qg_kernel_edit(k->d, k->now.cut.graph, node_at(k, i),
                              &(qg_recipe_edit){ .out = &out }));
    }
    return QG_OK;
}

/* The one code at which all elements stop that the device has lower, or higher, than
 * the program, although others are beyond it: Concat copies inputs that are on its
 * grid, and clamps those that it requantizes. */
static qg_status vary_stops(maker *k, int32_t low, int32_t high)
{
    const qg_exact *e = k->exact;
    const bool below = e->stop_low > e->low, above = e->stop_high < e->high;
    const int32_t least = below ? e->stop_low : low, most = above ? e->stop_high : high;
    if ((!below && !above) || least > most)
        return QG_OK;
    QG_TRY(begin(k, "clamp", CLAMP));
    return end(k, limit_requantized(k, least, most),
               qg_arena_printf(k->d->arena,
                               "clamps what it requantizes to the codes %d to %d",
                               (int)least, (int)most));
}

/* The device has no clamp, so that every code of the type can occur; or it has one
 * where its codes end.  That is a guess from the samples: a dump that does not reach a
 * limit suggests a tighter one that fits as well. */
static qg_status vary_limits(maker *k, const qg_node *n)
{
    const qg_exact *e = k->exact;
    qg_code_range all = qg_code_range_of(k->s->stored->dtype, 0);
    int32_t low = all.lo, high = all.hi;
    qg_recipe r;
    if (qg_attr_has(n, "row") && qg_recipe_read(k->d->ctx, n, &r) == QG_OK &&
        r.out.codes) {
        low = r.out.low;
        high = r.out.high;
    }
    if (low > all.lo || high < all.hi)
        QG_TRY(with_limits(k, all.lo, all.hi,
                           "does not clamp: all codes of the type are stored"));
    if (e->low > e->high || e->low < all.lo || e->high > all.hi)
        return QG_OK;
    QG_TRY(vary_seen_limits(k, low, high));
    return vary_stops(k, low, high);
}

/* The step with another output grid; another zero point alone is simpler.  origin: the
 * end of the verdict. */
static qg_status with_grid(maker *k, float scale, int32_t zero, const char *origin)
{
    const qg_stored *own = k->s->stored;
    const qg_pair *p = k->s->pair;
    const char *text =
        qg_exact_grid_text(k->d->arena, k->s, (double)scale, zero, origin);
    bool near = zero == own->zero[0] && qg_exact_is_near(own, (double)scale);
    QG_TRY(begin(k, "grid",
                 qg_pair_confirms(p)            ? (unsigned)QG_DENIED_GRID
                 : p->other && !p->array->found ? (unsigned)ONE_WORD
                 : near                         ? (unsigned)QG_NEAR_GRID
                 : scale == own->scale[0]       ? (unsigned)ZERO_POINT
                                                : (unsigned)GRID));
    k->now.fitted = !*origin;
    return end(k, qg_kernel_give_grid(k->d, &k->now.cut, k->s, scale, zero), text);
}

/* A grid that the dump gives is better evidence than a fitted one: fitting is for
 * dumps without grids.  Its scale can be the program's in fewer digits. */
static qg_status vary_grid(maker *k)
{
    const qg_pair *p = k->s->pair;
    const float own = k->s->stored->scale[0];
    if (p->other)
        QG_TRY(with_grid(k, p->scale, p->zero, qg_pair_origin(p)));
    if (p->other && p->scale != own && fabsf(p->scale - own) < QG_FEW_DIGITS * own)
        QG_TRY(with_grid(k, own, p->zero, qg_pair_origin(p)));
    for (size_t i = 0; !p->other && i < k->exact->n_grid; i++)
        QG_TRY(with_grid(k, k->exact->grid[i].scale, k->exact->grid[i].zero, ""));
    return QG_OK;
}

/* --- constants --- */

/* A tensor of zeros with the dims of `like`, in the arena of the changed graph. */
static qg_status new_constant(maker *k, const qg_tensor *like, qg_dtype type,
                              qg_tensor **out)
{
    qg_graph *g = k->now.cut.graph;
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    if (!t)
        return qg_nomem(k->d->ctx);
    qg_tensor_init(t, type, like->rank, like->dim);
    QG_TRY(qg_tensor_alloc(k->d->ctx, g->arena, t));
    *out = t;
    return QG_OK;
}

/* Padding with code 0 adds -z_x w at every tap outside: as codes without their zero
 * point, and a bias without z_x times the sum of the weights:
 *
 *     sum (x - z_x) (w - z_w) + b = sum x (w - z_w) + (b - z_x sum (w - z_w))
 *
 * The sum on the right runs over all taps of a channel, and x is 0 in the padding. */
static qg_status zero_padding(maker *k, qg_node *n, const qg_recipe *r)
{
    const int32_t none = 0;
    const qg_tensor *w = n->in[1]->constant;
    const qg_tensor *b = n->n_in > 2 && n->in[2] ? n->in[2]->constant : NULL;
    qg_stored x = r->in[0];
    qg_tensor *bias, like;
    int64_t channels = w->dim[0], taps = qg_dims_product(w, 1, w->rank);
    qg_tensor_init(&like, QG_I32, 1, &channels);
    QG_TRY(new_constant(k, &like, QG_I32, &bias));
    for (int64_t c = 0; c < channels; c++) {
        int64_t sum = 0, own = b ? qg_tensor_i64(b, c) : 0;
        for (int64_t i = 0; i < taps; i++)
            sum +=
                qg_tensor_i64(w, c * taps + i) - r->in[1].zero[r->in[1].n > 1 ? c : 0];
        bias->i32[c] = (int32_t)(own - r->in[0].zero[0] * sum);
    }
    x.zero = &none;
    if (n->n_in < 3)
        QG_TRY(qg_edit_grow_inputs(k->now.cut.graph, n, 3));
    QG_TRY(qg_edit_give_constant(k->now.cut.graph, n, 2, "padded_bias", bias));
    return qg_kernel_edit(k->d, k->now.cut.graph, n, &(qg_recipe_edit){ .in = { &x } });
}

static bool has_pads(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "pads");
    bool any = false;
    for (size_t i = 0; a && a->type == QG_ATTR_INTS && i < a->count; i++)
        any |= a->ints[i] != 0;
    return any;
}

/* Only where it makes a difference: the node pads, and code 0 is not the zero point.
 * zero_padding sums weights per axis 0, so the output channels must be there, and it
 * replaces the bias, which must be an int32 constant or absent. */
static qg_status vary_padding(maker *k, size_t at, const qg_recipe *r)
{
    QG_TRY(begin(k, "padding", ONE_WORD));
    const qg_node *n = node_at(k, at);
    const qg_value *b = n->n_in > 2 ? n->in[2] : NULL;
    bool able = has_pads(n) && r->in[0].codes && r->in[0].zero[0] != 0 &&
                n->in[1]->constant && n->op->weight_axis &&
                n->op->weight_axis(n) == 0 &&
                (!b || (b->constant && b->constant->dtype == QG_I32));
    return end(k, able ? zero_padding(k, node_at(k, at), r) : QG_EUNSUPPORTED,
               "zero point of padding is 0");
}

/* The node of the model with n's name, its weight's slot and record.  NULL: it has
 * no float32 constant weight that is rounded per channel. */
static const qg_node *float_node(const maker *k, const qg_node *n, const qg_tqc **t,
                                 uint32_t *slot)
{
    const qg_node *m = qg_graph_node(k->d->m->graph, n->name);
    int w = m ? qg_op_slot_of(m->op, 'w') : -1;
    *t = w >= 0 ? qg_input_tqc(m, (uint32_t)w) : NULL;
    *slot = (uint32_t)w;
    return *t && m->in[w] && m->in[w]->constant &&
                   m->in[w]->constant->dtype == QG_F32 &&
                   ((*t)->scheme.policy & QG_PER_CHANNEL)
               ? m
               : NULL;
}

/* Weights and bias with the largest scale of all channels: that of a tool with one
 * scale for the whole tensor and the largest |w| as its range.  Zero point 0:
 * symmetric weights are assumed.  QG_EUNSUPPORTED: the program's weight has other
 * dims (it was transposed), so that codes cannot be made from the model's floats in
 * place. */
static qg_status one_scale(maker *k, qg_node *n, const qg_recipe *r, const qg_node *m,
                           const qg_tqc *t, uint32_t slot)
{
    qg_graph *g = k->now.cut.graph;
    const qg_tensor *from = m->in[slot]->constant;
    int bias = qg_op_slot_of(m->op, 'b');
    float scale = 0;
    int32_t zero = 0;
    qg_tensor *codes, *b;
    qg_scheme scheme = t->scheme;
    for (uint32_t c = 0; c < r->in[1].n; c++)
        scale = r->in[1].scale[c] > scale ? r->in[1].scale[c] : scale;
    scheme.policy = (uint16_t)((scheme.policy & ~QG_PER_CHANNEL) | QG_PER_TENSOR);
    scheme.axis = -1;
    if (!qg_same_dims(from, n->in[1]->constant))
        return QG_EUNSUPPORTED;
    QG_TRY(new_constant(k, from, n->in[1]->constant->dtype, &codes));
    QG_TRY(qg_quantize(k->d->ctx, n->name, &scheme, &(qg_qparam){ 1, &scale, &zero },
                       from, codes));
    QG_TRY(qg_edit_give_constant(g, n, 1, "weight", codes));
    qg_stored w = r->in[1];
    w.n = 1;
    w.scale = &scale;
    w.zero = &zero;
    const qg_value *fb = bias >= 0 && (uint32_t)bias < m->n_in ? m->in[bias] : NULL;
    if (n->n_in > 2 && n->in[2] && fb && fb->constant &&
        fb->constant->dtype == QG_F32) {
        QG_TRY(new_constant(k, fb->constant, QG_I32, &b));
        for (int64_t i = 0; i < qg_tensor_count(b); i++)
            b->i32[i] =
                qg_lower_bias_code(qg_input_tqc(m, (uint32_t)bias),
                                   fb->constant->f32[i], r->in[0].scale[0] * scale);
        QG_TRY(qg_edit_give_constant(g, n, 2, "bias", b));
    }
    return qg_kernel_edit(k->d, g, n,
                          &(qg_recipe_edit){
                              .in = {NULL, &w}
    });
}

static qg_status vary_weights(maker *k, size_t at, const qg_recipe *r)
{
    const qg_tqc *t;
    uint32_t slot;
    QG_TRY(begin(k, "weights", GUESS));
    qg_node *n = node_at(k, at);
    const qg_node *m = float_node(k, n, &t, &slot);
    bool able = m && r->in[1].codes && r->in[1].n > 1 && n->in[1]->constant;
    return end(k, able ? one_scale(k, n, r, m, t, slot) : QG_EUNSUPPORTED,
               "weights per tensor: one scale for all channels");
}

/* No bias, the bias twice, and another one where the elements of a channel show it. */
static qg_status vary_bias(maker *k, size_t at, const qg_recipe *r)
{
    const qg_bias *b = &k->exact->bias;
    const size_t others = qg_bias_others(b);
    if (!r->in[0].codes || !r->in[1].codes)
        return QG_OK;
    QG_TRY(begin(k, "bias", ONE_WORD));
    QG_TRY(end(k, qg_bias_change(k->now.cut.graph, node_at(k, at), r, 0, NULL),
               "without its bias"));
    QG_TRY(begin(k, "bias", ONE_WORD));
    QG_TRY(end(k, qg_bias_change(k->now.cut.graph, node_at(k, at), r, 2, NULL),
               "adds its bias twice"));
    if (!others)
        return QG_OK;
    QG_TRY(begin(k, "bias", OTHER_BIAS));
    k->now.fitted = true;
    return end(k, qg_bias_change(k->now.cut.graph, node_at(k, at), r, 1, b),
               qg_arena_printf(k->d->arena,
                               "its bias is another in %zu of %lld channels", others,
                               (long long)b->n));
}

/* --- nodes --- */

/* The last node only brings the codes of the node before it to another grid: without
 * the rounding between.  The product takes over the output grid and limits of the
 * last node.  QG_EUNSUPPORTED: the node before is no product, or other nodes read
 * its codes. */
static qg_status without_last(maker *k)
{
    qg_graph *g = k->now.cut.graph;
    qg_node *last = g->output.at[0]->def, *first;
    qg_recipe r;
    size_t removed;
    first = last->n_in == 1 && last->in[0] ? last->in[0]->def : NULL;
    if (!first || !is_product(first) || last->in[0]->use.n != 1)
        return QG_EUNSUPPORTED;
    QG_TRY(qg_recipe_read(k->d->ctx, last, &r));
    if (!r.out.codes)
        return QG_EUNSUPPORTED;
    QG_TRY(qg_edit_replace_value(g, last->out[0], first->out[0]));
    QG_TRY(qg_kernel_edit(k->d, g, first, &(qg_recipe_edit){ .out = &r.out }));
    QG_TRY(qg_graph_sweep(g, &removed));
    return qg_infer(g, NULL, 0);
}

static qg_status vary_fusion(maker *k)
{
    QG_TRY(begin(k, "fusion", TWO_WORDS));
    const qg_graph *g = k->now.cut.graph;
    const qg_node *last = g->output.at[0]->def;
    const char *text = qg_arena_printf(k->d->arena, "does not round between %s and %s",
                                       last->n_in && last->in[0] && last->in[0]->def
                                           ? last->in[0]->def->name
                                           : "input",
                                       last->name);
    return end(k, without_last(k), text);
}

/* All hypotheses about one node, by what its recipe has.  `own` is a cut to read
 * from: r borrows its attributes, so it is freed last; each hypothesis is a cut of
 * its own.  Limits and output grid are varied at the node that makes the target,
 * because the device's codes are known only there. */
static qg_status vary_node(maker *k, size_t at)
{
    qg_recipe r;
    qg_cut own;
    QG_TRY(qg_step_cut(k->d, k->s, &own));
    const qg_node *n = own.graph->node.at[at];
    bool has = qg_attr_has(n, "row") && qg_recipe_read(k->d->ctx, n, &r) == QG_OK;
    qg_status s = QG_OK;
    if (has && qg_attr_has(n, "scheme")) {
        s = vary_schemes(k, at, &r);
        if (s == QG_OK)
            s = vary_places(k, at, &r);
    }
    if (has && s == QG_OK)
        s = vary_roundings(k, at, &r);
    if (has && s == QG_OK)
        s = vary_headroom(k, at, &r);
    if (has && s == QG_OK)
        s = vary_operands(k, at, &r);
    if (has && is_product(n) && s == QG_OK) {
        s = vary_products(k, at, &r);
        if (s == QG_OK)
            s = vary_padding(k, at, &r);
        if (s == QG_OK)
            s = vary_weights(k, at, &r);
        if (s == QG_OK)
            s = vary_bias(k, at, &r);
    }
    if (n->out[0] == own.graph->output.at[0] && s == QG_OK) {
        s = vary_limits(k, n);
        if ((!has || r.out.codes) && s == QG_OK)
            s = vary_grid(k);
    }
    qg_graph_free(own.graph);
    return s;
}

/* --- other profiles --- */

/* The step of d with the same value of the model; NULL: d's program does not store
 * it. */
static const qg_device_step *same_step(const qg_device *d, const qg_device_step *s)
{
    for (size_t i = 0; i < d->n_step; i++)
        if (d->step[i].value == s->value)
            return &d->step[i];
    return NULL;
}

/* The step as another program has it.  Programs that store the value as floats where
 * this one has codes (or the reverse) are not comparable.  The row in the detail is
 * that of the last node; a step can have several. */
static qg_status add_profile(maker *k, const qg_device *d)
{
    const qg_device_step *step = same_step(d, k->s);
    const char *row = "";
    if (!step || step->stored->codes != k->s->stored->codes)
        return QG_OK; /* it has no such step */
    k->now = (qg_change){ "profile", NULL, NULL, OTHER_PROFILE, .d = d, .step = step };
    qg_status s = qg_step_cut(d, step, &k->now.cut);
    if (s == QG_OK)
        s = qg_attr_string(k->d->ctx, k->now.cut.graph->output.at[0]->def, "row", "",
                           &row);
    k->now.detail =
        qg_arena_printf(k->d->arena, "%s%s%s", d->exe.program->profile->name,
                        *row ? ", row " : "", row);
    return end(k, s, "computes as another profile");
}

qg_status qg_change_all(const qg_device *d, const qg_device_step *s,
                        const qg_exact *exact, const qg_others *others,
                        qg_change_list *out)
{
    maker k = { .d = d, .s = s, .exact = exact, .list = out };
    qg_cut own;
    if (!s->stored->codes)
        return QG_OK;
    QG_TRY(qg_step_cut(d, s, &own));
    size_t n = own.graph->node.n;
    qg_graph_free(own.graph);
    for (size_t i = 0; i < n; i++)
        QG_TRY(vary_node(&k, i));
    if (n > 1)
        QG_TRY(vary_fusion(&k));
    for (size_t i = 0; i < others->device.n; i++)
        QG_TRY(add_profile(&k, others->device.at[i]));
    return QG_OK;
}

void qg_change_free(qg_change_list *l)
{
    for (size_t i = 0; i < l->change.n; i++)
        qg_graph_free(l->change.at[i].cut.graph);
    *l = (qg_change_list){ 0 };
}
