/* check.c -- the rules over graphs, and how a table of rules is run.
 *
 * Each RULE scans the whole graph and stops at its first complaint.  Later rules
 * rely on earlier ones: uses_match may index by node id because ids_dense has held.
 * The order of the table is part of the meaning. */
#include "engine/ir/check.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

qg_status qg_check_rows(qg_ctx *ctx, const qg_check_rule *row, size_t n, uint32_t which,
                        const void *subject)
{
    assert(n <= 32 && (n == 32 || which == QG_CHECK_ALL || which >> n == 0));
    for (size_t i = 0; i < n; i++)
        if (which >> i & 1)
            QG_TRY(row[i].run(ctx, &row[i], subject));
    return QG_OK;
}

uint32_t qg_check_bit(const qg_check_rule *row, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].id, id) == 0)
            return 1u << i;
    return 0;
}

static qg_status fail(qg_ctx *ctx, const qg_check_rule *rule, const char *object,
                      const char *fmt, va_list args)
{
    char message[2600];
    assert(rule->id);
    (void)vsnprintf(message, sizeof message, fmt, args);
    return qg_fail(ctx, QG_ESTATE, "verify: rule %s: %s: %s", rule->id, object,
                   message);
}

qg_status qg_check_fail_node(qg_ctx *ctx, const qg_check_rule *rule, const qg_node *n,
                             const char *fmt, ...)
{
    char text[QG_NODE_TEXT];
    va_list args;
    va_start(args, fmt);
    qg_status s = fail(ctx, rule, qg_node_text(n, text), fmt, args);
    va_end(args);
    return s;
}

qg_status qg_check_fail_value(qg_ctx *ctx, const qg_check_rule *rule, const qg_value *v,
                              const char *fmt, ...)
{
    char text[QG_NODE_TEXT];
    va_list args;
    (void)snprintf(text, sizeof text, "value '%.1000s'", v->name);
    va_start(args, fmt);
    qg_status s = fail(ctx, rule, text, fmt, args);
    va_end(args);
    return s;
}

#define RULE(name)                                                                     \
    static qg_status name(qg_ctx *ctx, const qg_check_rule *rule, const void *subject)
#define FAIL_NODE(...)  return qg_check_fail_node(ctx, rule, __VA_ARGS__)
#define FAIL_VALUE(...) return qg_check_fail_value(ctx, rule, __VA_ARGS__)

RULE(ids_dense)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->id != i || g->node.at[i]->dead)
            FAIL_NODE(g->node.at[i],
                      "has id %u at position %zu, expected a living node "
                      "with that id",
                      g->node.at[i]->id, i);
    for (size_t i = 0; i < g->value.n; i++)
        if (g->value.at[i]->id != i)
            FAIL_VALUE(g->value.at[i], "has id %u, expected %zu", g->value.at[i]->id,
                       i);
    return QG_OK;
}

/* Every listed node and value is stored once, at the index of its own name.  Walks the
 * tables in order, which costs a tenth of a lookup of every name. */
static bool names_in_place(const qg_graph *g)
{
    size_t nodes = 0, values = 0;
    for (size_t i = 0; i < g->node_by_name.n; i++) {
        const qg_node *n = g->node_by_name.at[i];
        nodes += n != NULL;
        if (n && (n->id >= g->node.n || g->node.at[n->id] != n || !*n->name ||
                  strcmp(qg_names_text(g->node_names, (uint32_t)i), n->name) != 0))
            return false;
    }
    for (size_t i = 0; i < g->value_by_name.n; i++) {
        const qg_value *v = g->value_by_name.at[i];
        values += v != NULL;
        if (v && (v->id >= g->value.n || g->value.at[v->id] != v || !*v->name ||
                  strcmp(qg_names_text(g->value_names, (uint32_t)i), v->name) != 0))
            return false;
    }
    return nodes == g->node.n && values == g->value.n;
}

RULE(names_unique)
{
    const qg_graph *g = subject;
    if (names_in_place(g))
        return QG_OK;
    for (size_t i = 0; i < g->node.n; i++)
        if (!*g->node.at[i]->name ||
            qg_graph_node(g, g->node.at[i]->name) != g->node.at[i])
            FAIL_NODE(g->node.at[i],
                      "its name refers to another, expected its own name");
    for (size_t i = 0; i < g->value.n; i++)
        if (!*g->value.at[i]->name ||
            qg_graph_value(g, g->value.at[i]->name) != g->value.at[i])
            FAIL_VALUE(g->value.at[i],
                       "its name refers to another, expected its own name");
    return QG_OK;
}

RULE(one_producer)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_out; k++)
            if (n->out[k] && (n->out[k]->def != n || n->out[k]->def_slot != k))
                FAIL_NODE(n,
                          "out%u is '%s', which another slot produces, expected one "
                          "producer",
                          k, n->out[k]->name);
    }
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (v->def && (v->def_slot >= v->def->n_out || v->def->out[v->def_slot] != v))
            FAIL_VALUE(v, "names '%s' as its producer, expected a node that has it",
                       v->def->name);
    }
    return QG_OK;
}

/* seen[first[node id] + slot]: the slot was met in a use list. */
static qg_status scan_uses(qg_ctx *ctx, const qg_check_rule *rule, const qg_graph *g,
                           const size_t *first, bool *seen)
{
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        for (size_t u = 0; u < v->use.n; u++) {
            const qg_node *n = v->use.at[u].node;
            uint32_t slot = v->use.at[u].slot;
            if (n->dead || n->id >= g->node.n || g->node.at[n->id] != n ||
                slot >= n->n_in || n->in[slot] != v || seen[first[n->id] + slot])
                FAIL_VALUE(v,
                           "lists in%u of '%s' as a use, expected a slot that reads "
                           "it, once",
                           slot, n->name);
            seen[first[n->id] + slot] = true;
        }
    }
    for (size_t i = 0; i < g->node.n; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_in; k++)
            if (g->node.at[i]->in[k] && !seen[first[i] + k])
                FAIL_NODE(g->node.at[i],
                          "in%u reads '%s', expected to be in its use list", k,
                          g->node.at[i]->in[k]->name);
    return QG_OK;
}

RULE(uses_match)
{
    const qg_graph *g = subject;
    size_t slots = 0;
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    size_t *first = scratch ? QG_NEWN(scratch, g->node.n, size_t) : NULL;
    for (size_t i = 0; first && i < g->node.n; i++) {
        first[i] = slots;
        slots += g->node.at[i]->n_in;
    }
    bool *seen = first ? QG_NEWN(scratch, slots, bool) : NULL;
    qg_status s = seen ? scan_uses(ctx, rule, g, first, seen) : qg_nomem(ctx);
    qg_arena_free(scratch);
    return s;
}

RULE(topological)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            if (n->in[k] && n->in[k]->def && n->in[k]->def->id >= n->id)
                FAIL_NODE(n, "comes before '%s', which it reads, expected it after",
                          n->in[k]->def->name);
    }
    return QG_OK;
}

/* Whether each value of the list has the flag, and as many values as entries have
 * it. */
static const qg_value *not_listed(const qg_graph *g, bool inputs)
{
    size_t n = inputs ? g->input.n : g->output.n, flags = 0;
    qg_value *const *list = inputs ? g->input.at : g->output.at;
    for (size_t i = 0; i < n; i++)
        if (!(inputs ? list[i]->is_input : list[i]->is_output))
            return list[i];
    for (size_t i = 0; i < g->value.n; i++) {
        flags += inputs ? g->value.at[i]->is_input : g->value.at[i]->is_output;
        if (flags > n)
            return g->value.at[i];
    }
    return flags < n ? list[0] : NULL;
}

RULE(inputs_free)
{
    const qg_graph *g = subject;
    const qg_value *odd = not_listed(g, true);
    if (odd)
        FAIL_VALUE(odd,
                   "differs from the list of graph inputs, expected it there once");
    for (size_t i = 0; i < g->input.n; i++)
        if (g->input.at[i]->def || g->input.at[i]->constant)
            FAIL_VALUE(g->input.at[i],
                       "is a graph input and computed, expected only one of both");
    return QG_OK;
}

RULE(outputs_listed)
{
    const qg_value *odd = not_listed(subject, false);
    if (odd)
        FAIL_VALUE(odd,
                   "differs from the list of graph outputs, expected it there once");
    return QG_OK;
}

/* The names that the owner lists as captured have no producer inside the body. */
static qg_status scan_sources(qg_ctx *ctx, const qg_check_rule *rule, const qg_graph *g,
                              bool *captured)
{
    for (uint32_t i = 0; g->owner && i < g->owner->n_capture; i++) {
        const qg_value *v = qg_graph_value(g, g->owner->capture[i]);
        if (v)
            captured[v->id] = true;
    }
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (!v->def && !v->is_input && !v->constant && qg_value_watchers(v) &&
            !captured[i])
            FAIL_VALUE(v, "is read and nothing produces it, expected a producer");
    }
    return QG_OK;
}

RULE(values_sourced)
{
    const qg_graph *g = subject;
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    bool *captured = scratch ? QG_NEWN(scratch, g->value.n, bool) : NULL;
    qg_status s = captured ? scan_sources(ctx, rule, g, captured) : qg_nomem(ctx);
    qg_arena_free(scratch);
    return s;
}

RULE(constants_known)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_tensor *t = v->constant;
        if (!t)
            continue;
        if (v->def)
            FAIL_VALUE(v,
                       "is a constant and produced by '%s', expected only one of both",
                       v->def->name);
        if (!qg_tensor_known(t) || !t->data || !qg_tensor_is_plain(t))
            FAIL_VALUE(v, "is a constant without shape or data, expected plain memory");
        if (t->dtype != v->type.dtype || !qg_same_dims(t, &v->type))
            FAIL_VALUE(v, "has another type than its constant, expected the same");
    }
    return QG_OK;
}

RULE(types_legal)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if ((unsigned)v->type.dtype >= QG_NDTYPE || v->type.rank < -1 ||
            v->type.rank > QG_MAX_RANK || v->type.data)
            FAIL_VALUE(v, "has dtype %u and rank %d, expected legal values and no data",
                       (unsigned)v->type.dtype, v->type.rank);
        for (int32_t k = 0; k < v->type.rank; k++)
            if (v->type.dim[k] < -1)
                FAIL_VALUE(v, "dim %d is %lld, expected -1 or more", k,
                           (long long)v->type.dim[k]);
    }
    return QG_OK;
}

RULE(arity)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (n->n_capture > n->n_in || qg_node_check_arity(NULL, n) != QG_OK)
            FAIL_NODE(n,
                      "has %u inputs (%u captured) and %u outputs, expected counts "
                      "that its operator takes",
                      n->n_in, n->n_capture, n->n_out);
    }
    return QG_OK;
}

static bool is_scalar(qg_attr_type t) { return t <= QG_ATTR_GRAPH; }

RULE(attributes)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.at[i]->n_attr; k++) {
            const qg_attr *a = &g->node.at[i]->attr[k];
            if ((unsigned)a->type >= QG_NATTR || (a->count && !a->ints) ||
                (is_scalar(a->type) && a->count != 1))
                FAIL_NODE(g->node.at[i],
                          "attribute '%s' has %zu values, expected the number that its "
                          "type requires",
                          a->name, a->count);
        }
    return QG_OK;
}

/* met[name id]: one more than the id of the last node that has the attribute. */
static qg_status scan_attributes(qg_ctx *ctx, const qg_check_rule *rule,
                                 const qg_graph *g, qg_arena *scratch, qg_names *names)
{
    QG_VEC(size_t) met = { 0 };
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.at[i]->n_attr; k++) {
            const char *name = g->node.at[i]->attr[k].name;
            uint32_t id;
            QG_TRY(qg_vec_reserve(ctx, scratch, &met));
            if (qg_names_add(names, name, strlen(name), &id) != QG_OK)
                return qg_nomem(ctx);
            if (id == met.n)
                met.at[met.n++] = 0;
            if (met.at[id] == i + 1)
                FAIL_NODE(g->node.at[i], "has attribute '%s' twice, expected once",
                          name);
            met.at[id] = i + 1;
        }
    return QG_OK;
}

RULE(attributes_once)
{
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    qg_names *names = qg_names_new(ctx->alloc);
    qg_status s = scratch && names ? scan_attributes(ctx, rule, subject, scratch, names)
                                   : qg_nomem(ctx);
    qg_names_free(names);
    qg_arena_free(scratch);
    return s;
}

RULE(prepared)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->op->param_size && !g->node.at[i]->param)
            FAIL_NODE(g->node.at[i],
                      "has no parameters, expected prepare() to have run");
    return QG_OK;
}

/* The k-th body in an attribute; NULL after the last, and for other attributes. */
static qg_graph *body_of(const qg_attr *a, size_t k)
{
    assert(a->count == 0 || a->ints);
    bool graphs = a->type == QG_ATTR_GRAPH || a->type == QG_ATTR_GRAPHS;
    return graphs && k < a->count ? a->graphs[k] : NULL;
}

RULE(bodies)
{
    const qg_graph *g = subject;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (size_t a = 0; a < n->n_attr; a++)
            for (size_t k = 0; body_of(&n->attr[a], k); k++) {
                const qg_graph *body = body_of(&n->attr[a], k);
                if (body->owner != n || body->outer != g || body->arena != g->arena)
                    FAIL_NODE(n,
                              "body '%s' belongs elsewhere, expected this node to own "
                              "it",
                              body->name);
            }
    }
    return QG_OK;
}

/* clang-format off */
const qg_check_rule qg_graph_rules[] = {
    { "ids-dense", "ids are positions and every listed node is alive", ids_dense },
    { "names-unique", "a name finds its value or node", names_unique },
    { "one-producer", "a value and its producer name each other", one_producer },
    { "uses-match", "use lists hold each reading slot exactly once", uses_match },
    { "topological-order", "a node comes after the nodes it reads", topological },
    { "inputs-free", "graph inputs are listed once and not computed", inputs_free },
    { "outputs-listed", "graph outputs are listed once", outputs_listed },
    { "values-sourced", "read values are produced, given or captured", values_sourced },
    { "constants-known", "constants have type, shape and data", constants_known },
    { "types-legal", "dtypes, ranks and dims are legal", types_legal },
    { "arity", "slots are as many as the operator takes", arity },
    { "attributes-legal", "attributes have as many values as their type", attributes },
    { "attributes-once", "a node has an attribute once", attributes_once },
    { "prepared", "prepare() has run", prepared },
    { "bodies-owned", "a body belongs to its node and its graph", bodies },
};
/* clang-format on */
const size_t qg_n_graph_rules = sizeof qg_graph_rules / sizeof qg_graph_rules[0];

/* Graphs still to be checked: the outermost, then bodies as they are met.  No
 * recursion. */
typedef QG_VEC(const qg_graph *) worklist;

static qg_status push_bodies(qg_ctx *ctx, qg_arena *scratch, const qg_graph *g,
                             worklist *w)
{
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t a = 0; a < g->node.at[i]->n_attr; a++)
            for (size_t k = 0; body_of(&g->node.at[i]->attr[a], k); k++)
                QG_TRY(
                    qg_vec_push(ctx, scratch, w, body_of(&g->node.at[i]->attr[a], k)));
    return QG_OK;
}

static qg_status check_all(qg_ctx *ctx, qg_arena *scratch, const qg_graph *g,
                           uint32_t which)
{
    worklist todo = { 0 };
    QG_TRY(qg_vec_push(ctx, scratch, &todo, g));
    for (size_t i = 0; i < todo.n; i++) {
        QG_TRY(qg_check_rows(ctx, qg_graph_rules, qg_n_graph_rules, which, todo.at[i]));
        QG_TRY(push_bodies(ctx, scratch, todo.at[i], &todo));
    }
    return QG_OK;
}

qg_status qg_check_graph(qg_ctx *ctx, const qg_graph *g, uint32_t which)
{
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    qg_status s = scratch ? check_all(ctx, scratch, g, which) : qg_nomem(ctx);
    qg_arena_free(scratch);
    return s;
}
