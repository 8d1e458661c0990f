#include <assert.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/config/backend_yaml_parts.h"

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
                        "unknown operator '%s'%s, expected one of "
                        "'qg list ops'",
                        name, qg_suggest_text(&near, hint));
}

/* Each is checked where it stands in the file. */
static qg_status read_ops(const qg_backend_reader *r, const qg_yaml *y,
                          const char *what, qg_node_match *m)
{
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &m->op, &m->n_op));
    for (size_t i = 0; i < m->n_op; i++)
        QG_TRY(qg_need_op(r, y->kind == QG_YAML_LIST ? y->item[i] : y, what, m->op[i]));
    return QG_OK;
}

static qg_status read_traits(const qg_backend_reader *r, const qg_yaml *y,
                             const char *what, uint32_t *out)
{
    const char *const *word;
    size_t n;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    for (size_t i = 0; i < n; i++) {
        uint32_t bit = qg_trait_named(word[i]);
        qg_suggest near = qg_suggest_for(word[i]);
        for (unsigned k = 0; k < QG_NTRAIT; k++)
            qg_suggest_try(&near, qg_trait_name(k));
        char hint[QG_SUGGEST_TEXT];
        if (!bit)
            return qg_yaml_fail(r->ctx, y, what,
                                "unknown trait '%s'%s, expected one of "
                                "engine/ir/op.h",
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

/* Words of `slot:` and what they mean; "in2" and "out0" are read by number. */
static const struct {
    const char *word;
    qg_slot_match slot;
} role[] = {
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
enum { N_ROLE = sizeof role / sizeof role[0] };

const char *qg_slot_word(const qg_slot_match *slot, char text[QG_SLOT_WORD])
{
    if (slot->index >= 0)
        return qg_slot_text(slot->is_output, (uint32_t)slot->index, text);
    for (size_t i = 0; i < N_ROLE; i++)
        if (role[i].slot.is_output == slot->is_output &&
            role[i].slot.role == slot->role) {
            (void)snprintf(text, QG_SLOT_WORD, "%s", role[i].word);
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
        if (strcmp(role[i].word, word) == 0) {
            *out = role[i].slot;
            return QG_OK;
        }
        qg_suggest_try(&near, role[i].word);
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
                                "operator %s has no slot '%s', expected one it has",
                                op->name, word);
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
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
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

/* The part of `match:` that speaks about endpoints. */
static qg_status read_at(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                         const qg_node_match *node, qg_endpoint_match *at)
{
    const qg_yaml *v;
    if ((v = qg_yaml_get(y, "slot")))
        QG_TRY(read_slots(r, v, what, node, at));
    if ((v = qg_yaml_get(y, "value")))
        QG_TRY(qg_yaml_words(r->ctx, r->arena, v, what, &at->value, &at->n_value));
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

/* What only rules may say of nodes. */
static qg_status read_rule_match(const qg_backend_reader *r, const qg_yaml *y,
                                 const char *what, qg_node_match *node)
{
    const qg_yaml *v = qg_yaml_get(y, "layer"), *errors = qg_yaml_get(y, "errors");
    const qg_yaml *above = qg_yaml_get(y, "above");
    if (v)
        QG_TRY(read_layer(r, v, what, &node->layer));
    if (errors && above)
        return qg_read_errors(r, y, what, node);
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
        QG_TRY(qg_yaml_words(r->ctx, r->arena, v, what, &node->node, &node->n_node));
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
