#include "engine/config/rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/calib/observer.h"
#include "engine/core/json.h"
#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/quant/quantizer.h"

/* The line is that of the id, where an editor should jump to. */
qg_status qg_read_origin(const qg_backend_reader *r, const qg_yaml *y, const char *kind,
                         qg_origin *out, char what[QG_WHAT_TEXT])
{
    const qg_yaml *id, *v;
    qg_origin o = { .file = y->file, .line = y->line };
    QG_TRY(qg_yaml_need(r->ctx, y, kind, "id", &id));
    QG_TRY(qg_yaml_text(r->ctx, id, kind, &o.id));
    (void)snprintf(what, QG_WHAT_TEXT, "%s %.100s", kind, o.id);
    o.line = id->line;
    if (!r->is_override)
        QG_TRY(qg_yaml_need(r->ctx, y, what, "why", &v));
    if ((v = qg_yaml_get(y, "why")))
        QG_TRY(qg_yaml_text(r->ctx, v, what, &o.why));
    if (!r->is_override)
        QG_TRY(qg_yaml_need(r->ctx, y, what, "source", &v));
    if ((v = qg_yaml_get(y, "source")))
        QG_TRY(qg_yaml_text(r->ctx, v, what, &o.source));
    *out = o;
    return QG_OK;
}

/* --- match --- */

/* The first N_NODE_KEYS are about nodes, the rest about endpoints. */
enum { N_NODE_KEYS = 6 };
const char *const qg_match_keys[] = {
    "op",       "trait",       "node",         "attr",  "from", "to",    "slot",
    "constant", "graph-input", "graph-output", "value", "dims", "layer", "errors",
    "above",    NULL
};

qg_status qg_need_op(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                     const char *name)
{
    assert(r->ctx->registry);
    if (qg_op_newest(r->ctx->registry, name))
        return QG_OK;
    qg_suggest near = qg_suggest_for(name);
    for (size_t f = 0; f < r->ctx->registry->n_family; f++)
        for (const qg_op *op = r->ctx->registry->family[f]; op->name; op++)
            qg_suggest_try(&near, op->name);
    char hint[QG_SUGGEST_TEXT];
    return qg_yaml_fail(r->ctx, y, what,
                        "unknown operator '%s'%s, expected one of `qg list ops`", name,
                        qg_suggest_text(&near, hint));
}

/* Each is checked at its line of the file. */
static qg_status read_ops(const qg_backend_reader *r, const qg_yaml *y,
                          const char *what, qg_node_match *m)
{
    QG_TRY(qg_yaml_some(r->ctx, r->arena, y, what, &m->op, &m->n_op));
    for (size_t i = 0; i < m->n_op; i++)
        QG_TRY(qg_need_op(r, y->kind == QG_YAML_LIST ? y->item[i] : y, what, m->op[i]));
    return QG_OK;
}

static qg_status read_traits(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, uint32_t *out)
{
    const char *const *word;
    size_t n;
    QG_TRY(qg_yaml_some(r->ctx, r->arena, y, what, &word, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t bit = qg_trait_named(word[i]);
        qg_suggest near = qg_suggest_for(word[i]);
        for (unsigned k = 0; k < QG_NTRAIT; k++)
            qg_suggest_try(&near, qg_trait_name(k));
        char hint[QG_SUGGEST_TEXT];
        if (!bit)
            return qg_yaml_fail(r->ctx, y, what,
                                "unknown trait '%s'%s, expected one of "
                                "`qg list traits`",
                                word[i], qg_suggest_text(&near, hint));
        *out |= bit;
    }
    return QG_OK;
}

/* The unquoted word absent means that the attribute is not there; in quotes it is a
 * text. */
static qg_status read_attr_option(const qg_backend_reader *r, const qg_yaml *y,
                                  const char *what, qg_attr_option *out)
{
    const char *text;
    QG_TRY(qg_yaml_text(r->ctx, y, what, &text));
    size_t n = strlen(text);
    *out = (qg_attr_option){ 0 };
    if (!y->quoted && strcmp(text, "absent") == 0)
        out->absent = true;
    else if (y->quoted || n >= 128 || !qg_num_parse_f64(text, n, &out->number))
        out->text = text;
    return QG_OK;
}

/* {group: 1, strides: [1, absent]} */
static qg_status read_attrs(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_node_match *m)
{
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_fail(r->ctx, y, what, "attr: expected a map of attributes");
    qg_attr_condition *c = QG_NEWN(r->arena, y->n, qg_attr_condition);
    if (!c)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        const qg_yaml *v = y->item[i];
        bool list = v->kind == QG_YAML_LIST;
        size_t n = list ? v->n : 1;
        if (n == 0)
            return qg_yaml_fail(r->ctx, v, what,
                                "an empty list matches nothing, expected at least one "
                                "value");
        qg_attr_option *choice = QG_NEWN(r->arena, n, qg_attr_option);
        if (!choice)
            return qg_nomem(r->ctx);
        for (size_t k = 0; k < n; k++)
            QG_TRY(read_attr_option(r, list ? v->item[k] : v, what, &choice[k]));
        c[i] = (qg_attr_condition){ .name = y->key[i], .choice = choice, .n = n };
    }
    m->attr = c;
    m->n_attr = y->n;
    return QG_OK;
}

/* Words of `slot:` and their meanings; "in2" and "out0" are read by number. */
static const struct {
    const char *word;
    qg_slot_match slot;
} role_word[] = {
    {"input",   { false, 'd', -1 }},
    { "weight", { false, 'w', -1 }},
    { "bias",   { false, 'b', -1 }},
    { "bound",  { false, 'p', -1 }},
    { "gain",   { false, 'g', -1 }},
    { "float",  { false, 'f', -1 }},
    { "shape",  { false, 's', -1 }},
    { "output", { true, 0, -1 }   },
    { "in*",    { false, 0, -1 }  },
    { "out*",   { true, 0, -1 }   },
};
enum { N_ROLE = sizeof role_word / sizeof role_word[0] };

const char *qg_slot_word(const qg_slot_match *slot, char text[QG_SLOT_WORD])
{
    if (slot->index >= 0)
        return qg_slot_text(slot->is_output, (uint32_t)slot->index, text);
    for (size_t i = 0; i < N_ROLE; i++)
        if (role_word[i].slot.is_output == slot->is_output &&
            role_word[i].slot.role == slot->role) {
            (void)snprintf(text, QG_SLOT_WORD, "%s", role_word[i].word);
            break;
        }
    return text;
}

/* Roles first, then in<k> and out<k>. */
static qg_status read_slot_word(const qg_backend_reader *r, const qg_yaml *y,
                                const char *what, const char *word, qg_slot_match *out)
{
    qg_suggest near = qg_suggest_for(word);
    for (int i = 0; i < N_ROLE; i++) {
        if (strcmp(role_word[i].word, word) == 0) {
            *out = role_word[i].slot;
            return QG_OK;
        }
        qg_suggest_try(&near, role_word[i].word);
    }
    bool output;
    int64_t index;
    if (qg_slot_parse(word, &output, &index) && index < 65536) {
        *out = (qg_slot_match){ output, 0, (int32_t)index };
        return QG_OK;
    }
    char hint[QG_SUGGEST_TEXT];
    return qg_yaml_fail(r->ctx, y, what,
                        "unknown slot '%s'%s, expected a role (input, weight, bias, "
                        "bound, gain, float, shape, output), in0, out0, in* or out*",
                        word, qg_suggest_text(&near, hint));
}

/* An operator that is named must have the slot. */
static qg_status check_slot(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, const char *word, const qg_slot_match *s,
                            const qg_node_match *m)
{
    for (size_t i = 0; i < m->n_op; i++) {
        const qg_op *op = qg_op_newest(r->ctx->registry, m->op[i]);
        unsigned most = s->is_output ? op->max_out : op->max_in;
        bool has = s->role ? qg_op_slot_of(op, s->role) >= 0
                           : s->index < 0 || most == 255 || (unsigned)s->index < most;
        if (!has)
            return qg_yaml_fail(r->ctx, y, what,
                                "operator %s has no slot '%s', expected an input (in0, "
                                "..., at most %u) or an output (out0, ..., at most %u)",
                                op->name, word, op->max_in, op->max_out);
    }
    return QG_OK;
}

/* Words are checked against the operators that `match` names, so `op` is read
 * before. */
static qg_status read_slots(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, const qg_node_match *m,
                            qg_endpoint_match *at)
{
    const char *const *word;
    size_t n;
    QG_TRY(qg_yaml_some(r->ctx, r->arena, y, what, &word, &n));
    qg_slot_match *slot = QG_NEWN(r->arena, n, qg_slot_match);
    if (!slot)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < n; i++) {
        QG_TRY(read_slot_word(r, y, what, word[i], &slot[i]));
        QG_TRY(check_slot(r, y, what, word[i], &slot[i], m));
    }
    at->slot = slot;
    at->n_slot = n;
    return QG_OK;
}

/* An absent key is no condition. */
static qg_status read_answer(const qg_backend_reader *r, const qg_yaml *map,
                             const char *key, const char *what, enum qg_answer *out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    bool yes;
    if (!y)
        return QG_OK;
    QG_TRY(qg_yaml_bool(r->ctx, y, what, &yes));
    *out = yes ? QG_YES : QG_NO;
    return QG_OK;
}

/* [any, any, 3, 3] */
static qg_status read_dims(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, qg_endpoint_match *at)
{
    if (y->kind != QG_YAML_LIST || y->n == 0 || y->n > QG_MAX_RANK)
        return qg_yaml_fail(r->ctx, y, what, "dims: expected a list of 1 to %d extents",
                            QG_MAX_RANK);
    int64_t *dim = QG_NEWN(r->arena, y->n, int64_t);
    if (!dim)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        dim[i] = -1;
        if (strcmp(y->item[i]->text, "any") != 0)
            QG_TRY(qg_yaml_int(r->ctx, y->item[i], what, 0, INT32_MAX, &dim[i]));
    }
    at->dim = dim;
    at->n_dim = y->n;
    return QG_OK;
}

/* The part of `match:` about endpoints. */
static qg_status read_at(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                         const qg_node_match *node, qg_endpoint_match *at)
{
    const qg_yaml *v;
    if ((v = qg_yaml_get(y, "slot")))
        QG_TRY(read_slots(r, v, what, node, at));
    if ((v = qg_yaml_get(y, "value")))
        QG_TRY(qg_yaml_some(r->ctx, r->arena, v, what, &at->value, &at->n_value));
    if ((v = qg_yaml_get(y, "dims")))
        QG_TRY(read_dims(r, v, what, at));
    QG_TRY(read_answer(r, y, "constant", what, &at->constant));
    QG_TRY(read_answer(r, y, "graph-input", what, &at->graph_input));
    return read_answer(r, y, "graph-output", what, &at->graph_output);
}

/* layer: first */
static qg_status read_layer(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, enum qg_layer *out)
{
    static const char *const word[] = { "first", "last", NULL };
    int k;
    QG_TRY(qg_yaml_choice(r->ctx, y, what, word, &k));
    *out = k == 0 ? QG_LAYER_FIRST : QG_LAYER_LAST;
    return QG_OK;
}

enum { REPORT_LIMIT = 256 << 20 }; /* bytes: a million rows and more */

/* Names of the rows above the limit; a row whose error is null counts as above it: the
 * report has it for NaN and infinity. */
static qg_status pick(const qg_backend_reader *r, const qg_json *rows, double limit,
                      qg_node_match *m)
{
    const char **name = QG_NEWN(r->arena, rows->count, const char *);
    if (!name)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < rows->count; i++) {
        const qg_json *row = &rows->item[i];
        if (row->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_ECONFIG, row, "expected an object");
        const qg_json *error = qg_json_get(row, "error");
        double x = 0;
        bool unknown = error && error->type == QG_JSON_NULL;
        if (!unknown)
            QG_TRY(qg_json_f64(r->ctx, row, "error", &x));
        if (unknown || x > limit)
            QG_TRY(qg_json_text(r->ctx, row, "name", &name[m->n_node++]));
    }
    m->node = name;
    return QG_OK;
}

/* `errors: FILE` and `above: X` of the map y: the nodes whose error is larger than X in
 * a report of `qg sensitivity --by node --json`, added to m->node.  QG_ECONFIG when
 * there is none, or m names nodes already. */
static qg_status read_errors(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, qg_node_match *m)
{
    const qg_yaml *errors = qg_yaml_get(y, "errors"), *above = qg_yaml_get(y, "above");
    const qg_json *report, *rows;
    const char *path, *by;
    double limit;
    assert(errors && above);
    if (m->n_node)
        return qg_yaml_fail(
            r->ctx, errors, what,
            "errors: selects nodes, expected no `node` in the same selector");
    QG_TRY(qg_yaml_text(r->ctx, errors, what, &path));
    QG_TRY(qg_yaml_number(r->ctx, above, what, 0, 1e30, &limit));
    QG_TRY(qg_json_read(r->ctx, r->arena, path, REPORT_LIMIT, &report));
    if (report->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_ECONFIG, report, "expected a report");
    QG_TRY(qg_json_text(r->ctx, report, "by", &by));
    if (strcmp(by, "node") != 0)
        return qg_yaml_fail(r->ctx, errors, what,
                            "errors: %s is by %s, expected a report of qg sensitivity "
                            "--by node",
                            path, by);
    QG_TRY(qg_json_member(r->ctx, report, "errors", QG_JSON_ARRAY, &rows));
    QG_TRY(pick(r, rows, limit, m));
    if (m->n_node == 0)
        return qg_yaml_fail(r->ctx, above, what,
                            "above: no node in %s has an error above %g, expected at "
                            "least one",
                            path, limit);
    return QG_OK;
}

/* Conditions on nodes that only rules may have. */
static qg_status read_rule_match(const qg_backend_reader *r, const qg_yaml *y,
                                 const char *what, qg_node_match *node)
{
    const qg_yaml *v = qg_yaml_get(y, "layer"), *errors = qg_yaml_get(y, "errors");
    const qg_yaml *above = qg_yaml_get(y, "above");
    if (v)
        QG_TRY(read_layer(r, v, what, &node->layer));
    if (errors && above)
        return read_errors(r, y, what, node);
    if (errors || above)
        return qg_yaml_fail(r->ctx, errors ? errors : above, what,
                            "errors and above: expected both or none");
    return QG_OK;
}

/* Patterns of fusions have no endpoint part; they get the shorter list of keys. */
qg_status qg_read_match(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                        qg_node_match *node, qg_endpoint_match *at)
{
    const char *node_keys[N_NODE_KEYS + 1] = { 0 };
    const qg_yaml *v;
    memcpy(node_keys, qg_match_keys, N_NODE_KEYS * sizeof node_keys[0]);
    QG_TRY(qg_yaml_keys(r->ctx, y, what, at ? qg_match_keys : node_keys));
    if ((v = qg_yaml_get(y, "op")))
        QG_TRY(read_ops(r, v, what, node));
    if ((v = qg_yaml_get(y, "trait")))
        QG_TRY(read_traits(r, v, what, &node->traits));
    if ((v = qg_yaml_get(y, "node")))
        QG_TRY(qg_yaml_some(r->ctx, r->arena, v, what, &node->node, &node->n_node));
    if ((v = qg_yaml_get(y, "attr")))
        QG_TRY(read_attrs(r, v, what, node));
    if ((v = qg_yaml_get(y, "from")))
        QG_TRY(qg_yaml_text(r->ctx, v, what, &node->from));
    if ((v = qg_yaml_get(y, "to")))
        QG_TRY(qg_yaml_text(r->ctx, v, what, &node->to));
    if (!at)
        return QG_OK;
    QG_TRY(read_rule_match(r, y, what, node));
    return read_at(r, y, what, node, at);
}

/* --- set --- */

const char *const qg_set_keys[] = {
#define X(id, text, ...) text,
    QG_SET_MAP(X)
#undef X
        NULL
};

/* 2^32 covers every code of 32 bits, signed or not. */
static qg_status read_range(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_set *set)
{
    const int64_t most = INT64_C(1) << 32;
    if (y->kind != QG_YAML_LIST || y->n != 2)
        return qg_yaml_fail(r->ctx, y, what, "range: expected [qmin, qmax]");
    QG_TRY(qg_yaml_int(r->ctx, y->item[0], what, -most, most, &set->scheme.qmin));
    return qg_yaml_int(r->ctx, y->item[1], what, -most, most, &set->scheme.qmax);
}

/* Each property once; whether they go together is checked later, over the defaults. */
static qg_status read_policy(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, qg_set *set)
{
    const char *const *word;
    size_t n;
    uint32_t policy = 0;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t bit = qg_policy_bit_named(word[i]);
        qg_suggest near = qg_suggest_for(word[i]);
        for (uint32_t k = 1; k <= QG_BLOCK; k *= 2)
            qg_suggest_try(&near, qg_policy_bit_name(k));
        char hint[QG_SUGGEST_TEXT];
        const char *instead = qg_policy_instead(word[i]);
        if (instead)
            return qg_yaml_fail(r->ctx, y, what, "policy word '%s', expected %s",
                                word[i], instead);
        if (!bit || (policy & bit))
            return qg_yaml_fail(r->ctx, y, what,
                                "policy word '%s'%s, expected each of "
                                "`qg list policies` once",
                                word[i], bit ? "" : qg_suggest_text(&near, hint));
        policy |= bit;
    }
    if (!qg_policy_legal(policy)) {
        char text[QG_POLICY_TEXT];
        return qg_yaml_fail(r->ctx, y, what,
                            "policy [%s], expected one granularity, one "
                            "of linear or floating, one of symmetric or asymmetric; "
                            "floating with symmetric, power-of-2 and no dynamic",
                            qg_policy_text(policy, text));
    }
    set->scheme.policy = (uint16_t)policy;
    return QG_OK;
}

/* "none", or words of quant/policy.h. */
static qg_status read_variant(const qg_backend_reader *r, const qg_yaml *y,
                              const char *what, qg_set *set)
{
    const char *const *word;
    size_t n;
    uint32_t variant = 0;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    bool none = n == 1 && strcmp(word[0], "none") == 0;
    for (size_t i = 0; !none && i < n; i++) {
        uint32_t bit = qg_float_variant_named(word[i]);
        if (!bit || (variant & bit))
            return qg_yaml_fail(
                r->ctx, y, what,
                "'%s', expected none, or fnuz, ppq-ties or wide, once each", word[i]);
        variant |= bit;
    }
    set->scheme.variant = (uint8_t)variant;
    return QG_OK;
}

/* The names come from number/round.c, so a new mode needs no change here. */
static qg_status read_rounding(const qg_backend_reader *r, const qg_yaml *y,
                               const char *what, qg_set *set)
{
    const char *name[QG_NROUNDING + 1] = { 0 };
    int mode;
    for (int i = 0; i < QG_NROUNDING; i++)
        name[i] = qg_rounding_name((qg_rounding)i);
    QG_TRY(qg_yaml_choice(r->ctx, y, what, name, &mode));
    set->scheme.rounding = (uint8_t)mode;
    return QG_OK;
}

static qg_status read_nan(const qg_backend_reader *r, const qg_yaml *y,
                          const char *what, qg_set *set)
{
    const char *name[QG_NNAN + 1] = { 0 };
    int rule;
    for (int i = 0; i < QG_NNAN; i++)
        name[i] = qg_nan_name((qg_nan)i);
    QG_TRY(qg_yaml_choice(r->ctx, y, what, name, &rule));
    set->scheme.nan = (uint8_t)rule;
    return QG_OK;
}

static qg_status read_axis(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, qg_set *set)
{
    int64_t axis = QG_AXIS_OUT_CHANNEL;
    if (y->kind == QG_YAML_SCALAR && strcmp(y->text, "out-channel") != 0 &&
        !(y->text[0] >= '0' && y->text[0] <= '9'))
        return qg_yaml_fail(r->ctx, y, what,
                            "'%.60s', expected out-channel or an integer from 0 to %d",
                            y->text, QG_MAX_RANK - 1);
    if (y->kind != QG_YAML_SCALAR || strcmp(y->text, "out-channel") != 0)
        QG_TRY(qg_yaml_int(r->ctx, y, what, 0, QG_MAX_RANK - 1, &axis));
    set->scheme.axis = (int16_t)axis;
    return QG_OK;
}

/* The name is stored as the observer's own text. */
static qg_status read_observer(const qg_backend_reader *r, const qg_yaml *y,
                               const char *what, qg_set *set)
{
    const char *name;
    QG_TRY(qg_yaml_text(r->ctx, y, what, &name));
    const qg_observer *known = qg_observer_find(r->ctx, name);
    qg_suggest near = qg_suggest_for(name);
    for (const qg_observer *o = NULL; (o = qg_observer_next(r->ctx, o));)
        qg_suggest_try(&near, o->name);
    char hint[QG_SUGGEST_TEXT];
    if (!known)
        return qg_yaml_fail(
            r->ctx, y, what,
            "unknown observer '%s'%s, expected one of `qg list observers`", name,
            qg_suggest_text(&near, hint));
    set->observer.name = known->name;
    return QG_OK;
}

/* "none", or a name that a host added. */
static qg_status read_quantizer(const qg_backend_reader *r, const qg_yaml *y,
                                const char *what, qg_set *set)
{
    const char *name;
    QG_TRY(qg_yaml_text(r->ctx, y, what, &name));
    if (strcmp(name, "none") == 0)
        return QG_OK;
    if (qg_quantizer_named(r->ctx, what, name, &set->quantizer) == QG_OK)
        return QG_OK;
    return qg_fail(r->ctx, QG_ECONFIG, "%s:%u: %s", y->file, y->line,
                   qg_ctx_message(r->ctx));
}

/* States that a rule may begin an endpoint with; the last two wait until there are
 * scales (qg_rules_switch). */
static qg_status read_state(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_set *set)
{
    static const char *const word[] = {
        "initial", "fp32", "soi", "passive-init", "deactivated", "dequantized", NULL
    };
    int k;
    QG_TRY(qg_yaml_choice(r->ctx, y, what, word, &k));
    set->state = (qg_tqc_state)qg_tqc_state_named(word[k]);
    return QG_OK;
}

/* The name of another backend is no platform: a network has one. */
static qg_status read_platform(const qg_backend_reader *r, const qg_yaml *y,
                               const char *what, enum qg_platform *out)
{
    for (int k = QG_PLATFORM_QUANTIZED; k <= QG_PLATFORM_SOI; k++)
        if (y->kind == QG_YAML_SCALAR &&
            strcmp(y->text, qg_platform_name((enum qg_platform)k)) == 0) {
            *out = (enum qg_platform)k;
            return QG_OK;
        }
    return qg_yaml_fail(
        r->ctx, y, what,
        "'%s', expected quantized, fp32 or soi: a network has one backend, and rules "
        "that match single nodes set the schemes of a second device",
        y->kind == QG_YAML_SCALAR ? y->text : "a list or map");
}

/* Words whose position is the enum's value. */
static qg_status read_word(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, unsigned bit, qg_set *set)
{
    static const char *const visibility[] = { [QG_EXPORT_WHEN_ACTIVE] = "when-active",
                                              [QG_EXPORT_FORCED] = "forced",
                                              [QG_EXPORT_INTERNAL] = "internal",
                                              NULL };
    static const char *const derive[] = {
        [QG_DERIVE_NONE] = "none", [QG_DERIVE_BIAS] = "bias", NULL
    };
    int k;
    if (bit == QG_SET_BIT_VISIBILITY) {
        QG_TRY(qg_yaml_choice(r->ctx, y, what, visibility, &k));
        set->visibility = (qg_visibility)k;
    } else if (bit == QG_SET_BIT_DERIVE) {
        QG_TRY(qg_yaml_choice(r->ctx, y, what, derive, &k));
        set->derive = (qg_derive)k;
    } else {
        assert(bit == QG_SET_BIT_PLATFORM);
        QG_TRY(read_platform(r, y, what, &set->platform));
    }
    return QG_OK;
}

/* Limits by field; those that are no integers come first. */
static qg_status read_number(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, unsigned bit, qg_set *set)
{
    assert(bit < QG_NSET);
    static const struct {
        int64_t low, high;
    } limit[QG_NSET] = {
        [QG_SET_BIT_BITS] = {2,  32       },
        [QG_SET_BIT_EXPONENT_BITS] = { 1, 8        },
        [QG_SET_BIT_BLOCK] = { 1, INT32_MAX},
    };
    int64_t x;
    QG_TRY(qg_yaml_int(r->ctx, y, what, limit[bit].low, limit[bit].high, &x));
    switch (bit) {
    case QG_SET_BIT_BITS:
        set->scheme.bits = (uint8_t)x;
        break;
    case QG_SET_BIT_EXPONENT_BITS:
        set->scheme.exponent_bits = (uint8_t)x;
        break;
    default:
        assert(bit == QG_SET_BIT_BLOCK);
        set->scheme.block = (int32_t)x;
    }
    return QG_OK;
}

/* A parameter of observers; whether the observer has it is checked when a rule is
 * applied. */
static qg_status read_param(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_observer_param p, qg_set *set)
{
    qg_param_limit l = qg_observer_param_limit(p);
    double v;
    int64_t whole;
    if (l.whole)
        QG_TRY(qg_yaml_int(r->ctx, y, what, (int64_t)l.least, (int64_t)l.most, &whole));
    else
        QG_TRY(qg_yaml_number(r->ctx, y, what, l.least, l.most, &v));
    set->observer.value[p] = l.whole ? (double)whole : v;
    return QG_OK;
}

/* One field by its bit. */
static qg_status read_field(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, unsigned bit, qg_set *set)
{
    char where[QG_WHAT_TEXT];
    (void)snprintf(where, sizeof where, "%s: %s", what, qg_set_field_name(bit));
    if ((1u << bit) & QG_SET_PARAMS)
        return read_param(r, y, where, (qg_observer_param)(bit - QG_SET_BIT_PERCENTILE),
                          set);
    switch (bit) {
    case QG_SET_BIT_RANGE:
        return read_range(r, y, what, set);
    case QG_SET_BIT_POLICY:
        return read_policy(r, y, what, set);
    case QG_SET_BIT_ROUNDING:
        return read_rounding(r, y, where, set);
    case QG_SET_BIT_NAN:
        return read_nan(r, y, where, set);
    case QG_SET_BIT_VARIANT:
        return read_variant(r, y, where, set);
    case QG_SET_BIT_AXIS:
        return read_axis(r, y, where, set);
    case QG_SET_BIT_OBSERVER:
        return read_observer(r, y, what, set);
    case QG_SET_BIT_QUANTIZER:
        return read_quantizer(r, y, what, set);
    case QG_SET_BIT_STATE:
        return read_state(r, y, where, set);
    case QG_SET_BIT_VISIBILITY:
    case QG_SET_BIT_DERIVE:
    case QG_SET_BIT_PLATFORM:
        return read_word(r, y, where, bit, set);
    default:
        return read_number(r, y, where, bit, set);
    }
}

/* Checks the fields together, over the defaults, as far as the rule alone determines
 * them. */
static qg_status check_together(const qg_backend_reader *r, const qg_yaml *y,
                                const char *what, const qg_set *set)
{
    qg_scheme s = r->b->defaults.scheme;
    qg_observer_setting observer = { 0 };
    const qg_yaml *range = qg_yaml_get(y, "range"), *at = range ? range : y;
    char where[2 * QG_WHAT_TEXT];
    (void)snprintf(where, sizeof where, "%s:%u: %s", at->file, at->line, what);
    QG_TRY(qg_set_apply(r->ctx, where, set, &s, &observer));
    bool has_axis = (s.policy & (QG_PER_CHANNEL | QG_BLOCK)) != 0;
    if (s.axis == QG_AXIS_OUT_CHANNEL || !(set->fields & QG_SET_POLICY))
        s.axis = has_axis ? 0 : -1; /* an earlier rule may have set the policy */
    if (!(set->fields & QG_SET_POLICY)) {
        s.block = r->b->defaults.scheme.block;
        s.exponent_bits = r->b->defaults.scheme.exponent_bits;
    }
    return qg_scheme_check(r->ctx, where, &s);
}

/* Fields in the order of QG_SET_MAP, whatever the order in the file. */
qg_status qg_read_set(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                      qg_set *out)
{
    qg_set set = { 0 };
    QG_TRY(qg_yaml_keys(r->ctx, y, what, qg_set_keys));
    for (unsigned bit = 0; bit < QG_NSET; bit++) {
        const qg_yaml *v = qg_yaml_get(y, qg_set_field_name(bit));
        if (!v)
            continue;
        QG_TRY(read_field(r, v, what, bit, &set));
        set.fields |= 1u << bit;
    }
    if (!set.fields)
        return qg_yaml_fail(r->ctx, y, what,
                            "set: has no field, expected one like bits");
    QG_TRY(check_together(r, y, what, &set));
    *out = set;
    return QG_OK;
}

/* --- a rule --- */

/* match before set: a an error of the selector is more helpful. */
qg_status qg_read_rule(const qg_backend_reader *r, const qg_yaml *y, qg_rule *out)
{
    static const char *const keys[] = { "id", "match", "set", "why", "source", NULL };
    char what[QG_WHAT_TEXT];
    qg_rule rule = { .is_override = r->is_override };
    const qg_yaml *v;
    QG_TRY(qg_read_origin(r, y, "rule", &rule.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "match", &v));
    QG_TRY(qg_read_match(r, v, what, &rule.node, &rule.at));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "set", &v));
    QG_TRY(qg_read_set(r, v, what, &rule.set));
    *out = rule;
    return QG_OK;
}
