/* predicate_types.c -- conditions on the types of codes: signed or unsigned, of 8 bits,
 * with the real 0 in the middle; and the types that a runtime gives them for its
 * kernels, from the readers of a value. */
#include "engine/lint/lint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/formats/fake_quantize.h"
#include "engine/ir/edit.h"

/* --- signed and unsigned --- */

static bool same_constant(const qg_value *a, const qg_value *b)
{
    return a && b && a->constant && b->constant &&
           qg_same_dims(a->constant, b->constant) && a->constant->dtype == QG_F32 &&
           b->constant->dtype == QG_F32 &&
           memcmp(a->constant->f32, b->constant->f32,
                  (size_t)qg_tensor_count(a->constant) * sizeof(float)) == 0;
}

/* Whether b computes what a does: optimizers keep one of them.  Only nodes without
 * attributes are compared. */
static bool same_node(const qg_node *a, const qg_node *b)
{
    bool same = a->op == b->op && a->n_in == b->n_in && !a->n_attr && !b->n_attr;
    for (uint32_t k = 0; same && k < a->n_in; k++)
        same = a->in[k] == b->in[k] || same_constant(a->in[k], b->in[k]);
    return same;
}

static bool makes_output(const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && n->out[k]->is_output)
            return true;
    return false;
}

/* A use that is no other reader: of dims alone, or of a node that an earlier use's node
 * computes as well. */
static bool reads_again(const qg_value *v, size_t use)
{
    const qg_node *n = v->use.at[use].node;
    if (qg_node_has(n, QG_OP_DIMS_ONLY))
        return true;
    for (size_t i = 0; i < use; i++)
        if (v->use.at[i].node != n && same_node(v->use.at[i].node, n) &&
            !makes_output(n) && !makes_output(v->use.at[i].node))
            return true;
    return false;
}

/* Whether n copies its input as it is, and is removed, whatever reads it: an Expand to
 * the dims of its input. */
static bool is_removed(const qg_lint *l, const qg_node *n)
{
    qg_lint_site s = { .node = n };
    return l->node[n->id].fate == QG_FATE_FUSED &&
           qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) && qg_test_same_dims(l, &s, NULL);
}

/* Whether n changes no code, as a clamp to what its grid has: it is removed, and the
 * two quantizers around it become one. */
static bool is_idle(const qg_lint *l, const qg_node *n)
{
    const bool fused = l->node[n->id].fate == QG_FATE_FUSED && n->n_out && n->out[0];
    const qg_tqc *in = fused ? l->grid[n->in[0]->id] : NULL;
    return is_removed(l, n) || (in && qg_lint_same_grid(in, l->grid[n->out[0]->id]));
}

static size_t readers_behind(const qg_lint *l, const qg_node *n, const qg_tqc *t,
                             bool all);

/* Readers of a value that see it on grid t, behind one quantizer: that of the value, or
 * of what it is a copy of (`all`), or one that those which round it share.  Readers
 * that round it on other grids read one node of our files, which keeps two quantizers
 * in a row apart (formats/qdq). */
static size_t readers_on(const qg_lint *l, const qg_value *v, const qg_tqc *t, bool all)
{
    all |= qg_lint_same_grid(l->grid[v->id], t);
    bool apart = false;
    size_t n = all && v->is_output;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *reader = v->use.at[i].node;
        const qg_tqc *at = qg_input_tqc(reader, v->use.at[i].slot);
        bool on = qg_lint_same_grid(t, at), rounds = qg_lint_rounds(l, at);
        bool sees = all || (rounds && on), other = all && rounds && !on;
        if (reads_again(v, i) || (other && apart))
            continue;
        apart |= other;
        if (!other && (is_removed(l, reader) || (all && is_idle(l, reader))))
            n += readers_behind(l, reader, t, sees);
        else
            n += sees;
    }
    return n;
}

/* Of the output of an idle node; one that is on another grid is read by a quantizer. */
static size_t readers_behind(const qg_lint *l, const qg_node *n, const qg_tqc *t,
                             bool all)
{
    const qg_tqc *grid = l->grid[n->out[0]->id];
    bool other = grid && !qg_lint_same_grid(grid, t);
    return other ? all : readers_on(l, n->out[0], t, all);
}

/* The value whose codes on grid t are those of v: before nodes that are removed. */
static const qg_value *original(const qg_lint *l, const qg_value *v, const qg_tqc *t)
{
    while (v->def && is_idle(l, v->def)) {
        const qg_value *in = v->def->in[0];
        bool copy = is_removed(l, v->def) || qg_lint_same_grid(l->grid[v->id], t);
        if (!copy || (l->grid[in->id] && !qg_lint_same_grid(l->grid[in->id], t)))
            break;
        v = in;
    }
    return v;
}

/* Whether the codes of v on grid t are stored in a signed type: a runtime that prefers
 * unsigned ones changes both ends of a quantizer with a single reader. */
static bool is_signed(const qg_lint *l, const qg_value *v, const qg_tqc *t,
                      double opset)
{
    if (t->scheme.qmin >= 0)
        return false;
    if (v->constant)
        return true;
    if ((double)l->opset >= opset)
        return false;
    return readers_on(l, original(l, v, t), t, false) != 1;
}

/* The types in which data inputs and output 0 of a node are stored: how many are signed
 * and unsigned, constants apart. */
typedef struct types {
    size_t of[2]; /* [signed] */
    size_t constant[2];
} types;

/* Counts one, and adds it to the text: "in0 uint8, in1 int8". */
static void add_type(qg_lint_site *s, types *t, const char *slot, const qg_tqc *grid,
                     bool is_signed, bool constant)
{
    size_t n = strlen(s->detail);
    (constant ? t->constant : t->of)[is_signed]++;
    (void)snprintf(s->detail + n, sizeof s->detail - n, "%s%s %sint%u%s", n ? ", " : "",
                   slot, is_signed ? "" : "u", grid->scheme.bits,
                   constant ? " (constant)" : "");
}

static types find_types(const qg_lint *l, qg_lint_site *s, double opset)
{
    const qg_node *n = s->node;
    const qg_tqc *out = qg_lint_output_grid(l, n);
    char slot[QG_SLOT_TEXT];
    types t = { 0 };
    s->detail[0] = '\0';
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_tqc *in = qg_lint_input_grid(l, n, k);
        if (in && qg_op_in_role(n->op, k) == 'd')
            add_type(s, &t, qg_slot_text(false, k, slot), in,
                     is_signed(l, n->in[k], in, opset), n->in[k]->constant);
    }
    if (out)
        add_type(s, &t, "out0", out, is_signed(l, qg_lint_stored(l, n), out, opset),
                 false);
    return t;
}

bool qg_test_mixed_types(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    types t = find_types(l, s, c->number);
    return (t.of[true] || t.constant[true]) && (t.of[false] || t.constant[false]);
}

bool qg_test_signed_constant(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    types t = find_types(l, s, c->number);
    return t.constant[true] && !t.of[true] && t.of[false];
}

bool qg_test_signed_input(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = qg_lint_input_grid(l, s->node, 0);
    return t && is_signed(l, s->node->in[0], t, c->number);
}

/* --- codes of 8 bits --- */

/* Stored as int8 or uint8; narrower codes have types of their own. */
static bool is_byte(const qg_tqc *t)
{
    return !t || (!(t->scheme.policy & QG_FLOATING) && t->scheme.bits > 4 &&
                  t->scheme.bits <= 8);
}

bool qg_test_bytes(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)c;
    for (uint32_t k = 0; k < n->n_in; k++) {
        char role = qg_op_in_role(n->op, k);
        if ((role == 'd' || role == 'w') && !is_byte(qg_lint_input_grid(l, n, k)))
            return false;
    }
    return is_byte(qg_lint_output_grid(l, n));
}

bool qg_lint_is_nibble(const qg_tqc *t)
{
    return !(t->scheme.policy & QG_FLOATING) && t->scheme.bits <= 4;
}

/* Codes of 2 to 16 bits are stored in 4, 8 or 16: the export clamps in front of a
 * QuantizeLinear whose type has codes beyond the limits. */
bool qg_lint_is_narrow(const qg_tqc *t)
{
    int bits = t->scheme.bits <= 4 ? 4 : t->scheme.bits <= 8 ? 8 : 16;
    return !(t->scheme.policy & QG_FLOATING) && t->scheme.bits <= 16 &&
           (double)t->scheme.qmax - (double)t->scheme.qmin < ldexp(1, bits) - 1;
}

bool qg_test_narrow(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_value *v = qg_tqc_value(s->at);
    (void)l, (void)c;
    (void)snprintf(s->detail, sizeof s->detail, "codes %lld to %lld",
                   (long long)s->at->scheme.qmin, (long long)s->at->scheme.qmax);
    return v && v->def && qg_lint_is_narrow(s->at);
}

/* What low precision transformations of OpenVINO make integers of: levels of
 * FakeQuantize, source in configs/lint/openvino.yaml. */
static bool is_odd(const qg_tqc *t)
{
    static const double known[] = { 16, 255, 256 };
    if (qg_fake_quantize_rounds_twice(t))
        return true;
    double levels = (double)t->scheme.qmax - (double)t->scheme.qmin + 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (levels == known[i])
            return false;
    return !(t->scheme.policy & QG_FLOATING);
}

bool qg_test_odd_levels(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_node *n = s->node;
    (void)c;
    if (s->at) {
        (void)snprintf(s->detail, sizeof s->detail, "codes %lld to %lld",
                       (long long)s->at->scheme.qmin, (long long)s->at->scheme.qmax);
        return is_odd(s->at);
    }
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_tqc *t = qg_lint_is_data(n, k) ? qg_lint_input_grid(l, n, k) : NULL;
        if (t && !n->in[k]->constant && is_odd(t))
            return true;
    }
    return false;
}

/* --- zero points --- */

/* Whether the real 0 is the middle code of the type: 0 of int8, 128 of uint8. */
static bool is_centered(const qg_tqc *t)
{
    qg_qparam p = qg_tqc_param(t);
    double middle = t->scheme.qmin < 0 ? 0 : ldexp(1, t->scheme.bits - 1);
    for (size_t i = 0; i < p.n; i++)
        if ((p.offset ? (double)p.offset[i] : 0) != middle)
            return false;
    return p.n > 0;
}

bool qg_test_weight_centered(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    uint32_t slot = qg_lint_weight_slot(s->node);
    const qg_tqc *t = slot == QG_NONE ? NULL : qg_lint_input_grid(l, s->node, slot);
    (void)c;
    return t && is_centered(t);
}

bool qg_test_centered(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    (void)l, (void)c;
    return is_centered(s->at);
}

/* Whether the reader, one of these operators, wants codes of an unsigned type.  Source:
 * the supported precisions of OpenVINO's CPU plugin without AMX. */
static bool wants_unsigned(const qg_lint *l, const qg_node *n, const qg_condition *c)
{
    const int over_three_axes = 5;
    uint32_t slot = qg_lint_weight_slot(n);
    return qg_op_is_named(n->op, c->word, c->n_word) && slot != QG_NONE &&
           qg_lint_input_grid(l, n, slot) &&
           !(qg_lint_groups(n) > 1 && n->in[0]->type.rank == over_three_axes);
}

/* --- types that readers want --- */

/* by readers other than `but` */
typedef struct types_wanted {
    const qg_node *but;
    bool is_unsigned, is_signed;
} types_wanted;

/* Whether the output has the codes of input 0: carried, or rounded behind the node
 * alone, as the transformations pull a quantizer up to other readers of input 0. */
static bool carries_codes(const qg_lint *l, const qg_node *n, const qg_tqc *t)
{
    return n && n->n_in && n->in[0] && n->n_out && n->out[0] &&
           qg_node_has(n, QG_OP_PASSIVE) &&
           qg_lint_same_grid(l->grid[n->out[0]->id], t);
}

static void collect_types(const qg_lint *l, const qg_value *v, const qg_tqc *t,
                          const qg_condition *c, types_wanted *out)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        uint32_t slot = v->use.at[i].slot;
        if (slot == 0 && carries_codes(l, n, t))
            collect_types(l, n->out[0], t, c, out);
        if (!qg_lint_same_grid(qg_lint_input_grid(l, n, slot), t))
            continue;
        out->is_unsigned |= n != out->but && slot == 0 && wants_unsigned(l, n, c);
        out->is_signed |= slot > 0 && slot == qg_lint_weight_slot(n);
    }
}

/* Of the codes of input `slot`, on grid t, wherever they are carried. */
static types_wanted types_of(const qg_lint *l, const qg_node *n, uint32_t slot,
                             const qg_tqc *t, const qg_condition *c)
{
    types_wanted wanted = { .but = n };
    const qg_value *v = n->in[slot];
    while (carries_codes(l, v->def, t))
        v = v->def->in[0];
    collect_types(l, v, t, c, &wanted);
    return wanted;
}

bool qg_test_input_zero_point(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    const qg_tqc *t = qg_lint_input_grid(l, s->node, 0);
    qg_qparam p = t ? qg_tqc_param(t) : (qg_qparam){ 0 };
    if (p.n != 1)
        return false;
    if ((p.offset ? p.offset[0] : 0) == t->scheme.qmin)
        return false;
    return !is_centered(t) || types_of(l, s->node, 0, t, c).is_unsigned;
}

bool qg_test_types_clash(const qg_lint *l, qg_lint_site *s, const qg_condition *c)
{
    for (uint32_t k = 0; k < s->node->n_in; k++) {
        const qg_tqc *t =
            qg_lint_is_data(s->node, k) ? qg_lint_input_grid(l, s->node, k) : NULL;
        if (!t || s->node->in[k]->constant)
            continue;
        types_wanted wanted = types_of(l, s->node, k, t, c);
        if ((wanted.is_unsigned || wants_unsigned(l, s->node, c)) && wanted.is_signed)
            return true;
    }
    return false;
}
