/* backend.c -- matching of backend rules: whether a rule applies to a node or endpoint,
 * and the fields it sets. */
#include "engine/quant/backend.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const char *const qg_placements[] = { [QG_PLACE_ORT] = "ort",
                                      [QG_PLACE_TRT] = "trt",
                                      [QG_PLACE_OPENVINO] = "openvino",
                                      NULL };

const char *qg_set_field_name(unsigned bit)
{
    static const char *const name[QG_NSET] = {
#define X(id, text, ...) text,
        QG_SET_MAP(X)
#undef X
    };
    assert(bit < QG_NSET);
    return name[bit];
}

const char *qg_align_name(enum qg_align a)
{
    assert((unsigned)a <= QG_ALIGN_INPUT);
    static const char *const name[] = { [QG_ALIGN_NONE] = "none",
                                        [QG_ALIGN_LARGE] = "large",
                                        [QG_ALIGN_OUTPUT] = "output",
                                        [QG_ALIGN_INPUT] = "input" };
    return name[a];
}

/* Backtracks to the last '*' only: enough, because a later star can take over
 * whatever an earlier one could have eaten.  O(pattern x text). */
static bool is_special(char c) { return c == '*' || c == '?' || c == '\\'; }

bool qg_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL; /* the last '*', and where it stopped */
    while (*text) {
        const bool itself = *pattern == '\\' && is_special(pattern[1]);
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (itself ? pattern[1] == *text
                          : *pattern == '?' || *pattern == *text) {
            pattern += itself ? 2 : 1;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

/* No pattern at all means no condition. */
static bool any_glob(const char *const *pattern, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (qg_glob(pattern[i], text))
            return true;
    return n == 0;
}

static bool any_word(const char *const *word, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word[i], text) == 0)
            return true;
    return false;
}

/* Every element of the attribute is the number, or the text. */
static bool attr_equals(const qg_attr *a, const qg_attr_option *o)
{
    bool ints = a->type == QG_ATTR_INT || a->type == QG_ATTR_INTS;
    bool floats = a->type == QG_ATTR_FLOAT || a->type == QG_ATTR_FLOATS;
    bool strings = a->type == QG_ATTR_STRING || a->type == QG_ATTR_STRINGS;
    for (size_t i = 0; i < a->count; i++) {
        bool same = false;
        if (o->text)
            same = strings && strcmp(a->strings[i], o->text) == 0;
        else if (ints)
            same = (double)a->ints[i] == o->number;
        else if (floats)
            same = (double)a->floats[i] == o->number;
        if (!same)
            return false;
    }
    return a->count > 0;
}

/* Any of the choices; an absent attribute is not its default, since only the file is
 * seen. */
static bool attr_holds(const qg_attr_condition *c, const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, c->name);
    for (size_t i = 0; i < c->n; i++)
        if (a ? !c->choice[i].absent && attr_equals(a, &c->choice[i])
              : c->choice[i].absent)
            return true;
    return false;
}

bool qg_node_matches(const qg_node_match *m, const qg_node *n)
{
    assert(n->op);
    if (m->n_op && !any_word(m->op, m->n_op, n->op->name))
        return false;
    if ((n->op->traits & m->traits) != m->traits ||
        !any_glob(m->node, m->n_node, n->name))
        return false;
    for (size_t i = 0; i < m->n_attr; i++)
        if (!attr_holds(&m->attr[i], n))
            return false;
    return true;
}

bool qg_node_matches_condition(const void *ud, const qg_node *n,
                               char text[QG_CONDITION_TEXT])
{
    const qg_node_match *m = ud;
    if (qg_node_matches(m, n))
        return true;
    (void)snprintf(text, QG_CONDITION_TEXT,
                   "%.60s has another name or other attributes, "
                   "expected those of the pattern",
                   n->name);
    return false;
}

/* By side, then by role or index.  The computed operand of a product is "input", and
 * "weight" only for a match that has a condition on constants. */
static bool slot_matches(const qg_endpoint_match *m, const qg_slot_match *s,
                         qg_endpoint at)
{
    if (s->is_output != at.is_output)
        return false;
    if (!s->role)
        return s->index < 0 || (uint32_t)s->index == at.slot;
    char role = qg_endpoint_role(at);
    if (role != 'w' || qg_endpoint_value(at)->constant)
        return s->role == role;
    return s->role == 'd' || (s->role == 'w' && m->constant != QG_ANY);
}

static bool answers(enum qg_answer wanted, bool is)
{
    return wanted == QG_ANY || (wanted == QG_YES) == is;
}

/* A rank that is not known does not match: a rule must not guess. */
static bool dims_match(const qg_endpoint_match *m, const qg_tensor *t)
{
    if (m->n_dim == 0)
        return true;
    if (t->rank < 0 || (size_t)t->rank != m->n_dim)
        return false;
    for (size_t i = 0; i < m->n_dim; i++)
        if (m->dim[i] >= 0 && m->dim[i] != t->dim[i])
            return false;
    return true;
}

bool qg_endpoint_matches(const qg_endpoint_match *m, qg_endpoint at)
{
    const qg_value *v = qg_endpoint_value(at);
    assert(v); /* absent slots are nobody's endpoint */
    bool found = m->n_slot == 0;
    for (size_t i = 0; i < m->n_slot && !found; i++)
        found = slot_matches(m, &m->slot[i], at);
    return found && answers(m->constant, v->constant != NULL) &&
           answers(m->graph_input, v->is_input) &&
           answers(m->graph_output, v->is_output) &&
           any_glob(m->value, m->n_value, v->name) && dims_match(m, &v->type);
}

/* A star or a question mark that no backslash precedes. */
static bool is_pattern(const char *word)
{
    for (; *word; word++) {
        if (*word == '*' || *word == '?')
            return true;
        word += *word == '\\' && word[1];
    }
    return false;
}

bool qg_endpoint_is_named(const qg_endpoint_match *m, qg_endpoint at)
{
    const char *name = qg_endpoint_value(at)->name;
    for (size_t i = 0; i < m->n_slot; i++)
        if ((m->slot[i].role || m->slot[i].index >= 0) &&
            slot_matches(m, &m->slot[i], at))
            return true;
    for (size_t i = 0; i < m->n_value; i++)
        if (!is_pattern(m->value[i]) && qg_glob(m->value[i], name))
            return true;
    return false;
}

bool qg_backend_quantizes(const qg_backend *b, const qg_op *op)
{
    return !op->opaque && any_word(b->quantizes.at, b->quantizes.n, op->name);
}

bool qg_backend_is_passive(const qg_backend *b, const qg_op *op)
{
    return !op->opaque && any_word(b->passive.at, b->passive.n, op->name);
}

const qg_sharing *qg_backend_sharing(const qg_backend *b, const qg_node *n)
{
    for (size_t i = b->sharing.n; i-- > 0;)
        if (qg_node_matches(&b->sharing.at[i].node, n))
            return &b->sharing.at[i];
    return NULL;
}

bool qg_rule_keeps_float(const qg_rule *r)
{
    return r->is_override && (r->set.fields & QG_SET_STATE) != 0 &&
           r->set.state == QG_TQC_FP32;
}

/* The range of `bits` bits that has the shape of [qmin, qmax] in s->bits bits. */
static bool reshape_range(qg_scheme *s, uint8_t bits)
{
    int64_t half = INT64_C(1) << (s->bits - 1), want = INT64_C(1) << (bits - 1);
    if (s->qmin == -half && s->qmax == half - 1) { /* full */
        s->qmin = -want;
        s->qmax = want - 1;
    } else if (s->qmin == -half + 1 && s->qmax == half - 1) { /* narrow */
        s->qmin = -want + 1;
        s->qmax = want - 1;
    } else if (s->qmin == 0 && s->qmax == 2 * half - 1) { /* unsigned */
        s->qmax = 2 * want - 1;
    } else {
        return false;
    }
    return true;
}

bool qg_scheme_takes_bits(const qg_scheme *scheme)
{
    qg_scheme s = *scheme;
    return reshape_range(&s, s.bits);
}

/* Fields that the new granularity or grid has no use for go back to their neutral
 * values, so that equal grids compare equal. */
static void apply_policy(const qg_set *set, qg_scheme *s)
{
    s->policy = set->scheme.policy;
    bool has_axis = (s->policy & (QG_PER_CHANNEL | QG_BLOCK)) != 0;
    if (!has_axis)
        s->axis = -1;
    else if (s->axis == -1)
        s->axis = QG_AXIS_OUT_CHANNEL; /* the axis of per-channel unless set */
    if (!(s->policy & QG_BLOCK))
        s->block = 0;
    if (!(s->policy & QG_FLOATING))
        s->exponent_bits = s->variant = 0;
}

/* Another observer drops the parameters of the previous one, except min-scale, which
 * all have. */
static void apply_observer(const qg_set *set, qg_observer_setting *o)
{
    bool other = (set->fields & QG_SET_OBSERVER) &&
                 (!o->name || strcmp(o->name, set->observer.name) != 0);
    for (int p = 0; p < QG_NOBSERVER_PARAM; p++) {
        if (other && p != QG_PARAM_MIN_SCALE)
            o->value[p] = 0;
        if (set->fields & QG_SET_PARAM(p))
            o->value[p] = set->observer.value[p];
    }
    if (other)
        o->name = set->observer.name;
}

/* Order matters: bits reshape the range unless the range is set as well, and the
 * policy decides which of axis, block and exponent bits remain. */
qg_status qg_set_apply(qg_ctx *ctx, const char *what, const qg_set *set,
                       qg_scheme *scheme, qg_observer_setting *observer)
{
    uint32_t fields = set->fields;
    qg_scheme s = *scheme;
    if (fields & QG_SET_BITS) {
        bool moves = !(fields & QG_SET_RANGE) && set->scheme.bits != s.bits;
        if (moves && !reshape_range(&s, set->scheme.bits))
            return qg_fail(ctx, QG_ECONFIG,
                           "%s: bits %d without a range, and [%" PRId64 ", %" PRId64
                           "] does not tell which, expected both",
                           what, set->scheme.bits, s.qmin, s.qmax);
        s.bits = set->scheme.bits;
    }
    if (fields & QG_SET_RANGE) {
        s.qmin = set->scheme.qmin;
        s.qmax = set->scheme.qmax;
    }
    if (fields & QG_SET_POLICY)
        apply_policy(set, &s);
    if (fields & QG_SET_ROUNDING)
        s.rounding = set->scheme.rounding;
    if (fields & QG_SET_NAN)
        s.nan = set->scheme.nan;
    if (fields & QG_SET_EXPONENT_BITS)
        s.exponent_bits = set->scheme.exponent_bits;
    if (fields & QG_SET_VARIANT)
        s.variant = set->scheme.variant;
    if (fields & QG_SET_BLOCK)
        s.block = set->scheme.block;
    if (fields & QG_SET_AXIS)
        s.axis = set->scheme.axis;
    apply_observer(set, observer);
    *scheme = s;
    return QG_OK;
}
