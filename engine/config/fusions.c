#include "engine/config/fusions.h"

#include "engine/core/num.h"

/* A fusion under construction. */
typedef struct builder {
    const qg_backend_reader *r;
    const char *what;
    qg_pattern_node *node;
    size_t n;
} builder;

/* The index of a node read so far; -1: none. */
static int node_named(const builder *b, const char *name, size_t n)
{
    for (size_t i = 0; i < b->n; i++)
        if (strlen(b->node[i].name) == n && memcmp(b->node[i].name, name, n) == 0)
            return (int)i;
    return -1;
}

static qg_status need_node(const builder *b, const qg_yaml *y, const char *name,
                           uint32_t *out)
{
    int k = node_named(b, name, strlen(name));
    if (k < 0)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "unknown node '%s', expected one of the pattern, producers "
                            "first",
                            name);
    *out = (uint32_t)k;
    return QG_OK;
}

/* The largest number of inputs or outputs among the versions of an operator: those of
 * BatchNormalization had 5 outputs. */
static unsigned slots_of(const qg_registry *r, const char *op_name, bool is_output)
{
    unsigned most = 0;
    for (const qg_op *op = qg_op_next(r, op_name, 0); op;
         op = qg_op_next(r, op_name, op->since)) {
        const unsigned has = is_output ? op->max_out : op->max_in;
        most = has > most ? has : most;
    }
    return most;
}

/* The same among the operators that a node names; 255, any number, where it names
 * none. */
static unsigned most_slots(const builder *b, const qg_pattern_node *n, bool is_output)
{
    unsigned most = n->n_op ? 0 : 255;
    for (size_t i = 0; i < n->n_op; i++) {
        const unsigned has = slots_of(b->r->ctx->registry, n->op[i], is_output);
        most = has > most ? has : most;
    }
    return most;
}

/* "c.out0" */
static qg_status read_end(const builder *b, const qg_yaml *y, const char *text,
                          qg_pattern_end *out)
{
    qg_endpoint_name at;
    int k = qg_endpoint_parse(text, &at) ? node_named(b, text, at.n_node) : -1;
    if (k < 0 || at.slot > 255)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "endpoint '%s', expected NODE.in0 or "
                            "NODE.out0 with a NODE of the pattern",
                            text);
    const unsigned most = most_slots(b, &b->node[k], at.is_output);
    if (most < 255 && at.slot >= most)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "endpoint '%s': its operator has fewer %s, expected at "
                            "most %s%u",
                            text, at.is_output ? "outputs" : "inputs",
                            at.is_output ? "out" : "in", most - 1);
    *out = (qg_pattern_end){ (uint32_t)k, at.is_output, (uint32_t)at.slot };
    return QG_OK;
}

/* `in:` without slots; an edge may use any slot, and order counts as in ir/match.h. */
static qg_status read_producers(builder *b, const qg_yaml *y, qg_pattern_node *node)
{
    const char *const *name;
    size_t n;
    QG_TRY(qg_yaml_words(b->r->ctx, b->r->arena, y, b->what, &name, &n));
    qg_pattern_edge *in = QG_NEWN(b->r->arena, n, qg_pattern_edge);
    if (!in)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < n; i++) {
        in[i].from_slot = in[i].slot = QG_SLOT_ANY;
        QG_TRY(need_node(b, y, name[i], &in[i].from));
    }
    node->in = in;
    node->n_in = n;
    return QG_OK;
}

/* The conditions of a pattern node besides operator and traits. */
static qg_status add_condition(builder *b, const qg_node_match *m,
                               qg_pattern_node *node)
{
    if (m->n_node == 0 && m->n_attr == 0)
        return QG_OK;
    qg_node_match *copy = QG_NEW(b->r->arena, qg_node_match);
    if (!copy)
        return qg_nomem(b->r->ctx);
    *copy = (qg_node_match){
        .node = m->node, .n_node = m->n_node, .attr = m->attr, .n_attr = m->n_attr
    };
    node->holds = qg_node_matches_condition;
    node->ud = copy;
    return QG_OK;
}

/* {op: [Relu], in: [c]}: conditions on a node, and which nodes feed it. */
static qg_status read_node(builder *b, const qg_yaml *y, const char *name)
{
    static const char *const keys[] = { "op", "trait",       "node", "attr",
                                        "in", "commutative", NULL };
    qg_pattern_node node = { .name = name };
    qg_node_match m = { 0 };
    const qg_yaml *v;
    QG_TRY(qg_yaml_keys(b->r->ctx, y, b->what, keys));
    qg_yaml conditions = *y; /* without the keys that are about edges */
    conditions.n = 0;
    conditions.key = QG_NEWN(b->r->arena, y->n, const char *);
    conditions.item = QG_NEWN(b->r->arena, y->n, const qg_yaml *);
    if (!conditions.key || !conditions.item)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++)
        if (strcmp(y->key[i], "in") != 0 && strcmp(y->key[i], "commutative") != 0) {
            conditions.key[conditions.n] = y->key[i];
            conditions.item[conditions.n++] = y->item[i];
        }
    QG_TRY(qg_read_match(b->r, &conditions, b->what, &m, NULL));
    node.op = m.op;
    node.n_op = m.n_op;
    node.traits = m.traits;
    QG_TRY(add_condition(b, &m, &node));
    if ((v = qg_yaml_get(y, "in")))
        QG_TRY(read_producers(b, v, &node));
    if ((v = qg_yaml_get(y, "commutative")))
        QG_TRY(qg_yaml_bool(b->r->ctx, v, b->what, &node.commutative));
    b->node[b->n++] = node;
    return QG_OK;
}

/* Nodes in file order: their indices are those of qg_pattern. */
static qg_status read_pattern(builder *b, const qg_yaml *y)
{
    if (y->kind != QG_YAML_MAP || y->n == 0 || y->n > QG_PATTERN_NODES)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "pattern: expected a map of 1 to %d "
                            "nodes",
                            QG_PATTERN_NODES);
    b->node = QG_NEWN(b->r->arena, y->n, qg_pattern_node);
    if (!b->node)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        if (strchr(y->key[i], '.'))
            return qg_yaml_fail(b->r->ctx, y->item[i], b->what,
                                "node '%s' contains a dot, expected a plain word",
                                y->key[i]);
        QG_TRY(read_node(b, y->item[i], y->key[i]));
    }
    return QG_OK;
}

/* {consumers: 1, graph-output: no}: one condition each. */
static qg_status read_conditions(const builder *b, const qg_yaml *y, const char *end,
                                 qg_pattern_where *out, size_t *n)
{
    static const char *const keys[] = { "consumers", "graph-output", "constant", NULL };
    qg_pattern_end at;
    QG_TRY(read_end(b, y, end, &at));
    QG_TRY(qg_yaml_keys(b->r->ctx, y, b->what, keys));
    for (size_t i = 0; i < y->n; i++) {
        qg_pattern_where w = { .node = at.node,
                               .is_output = at.is_output,
                               .slot = at.slot };
        bool yes = false;
        if (strcmp(y->key[i], "consumers") == 0) {
            w.test = QG_WHERE_CONSUMERS;
            QG_TRY(
                qg_yaml_int(b->r->ctx, y->item[i], b->what, 0, INT32_MAX, &w.wanted));
        } else {
            QG_TRY(qg_yaml_bool(b->r->ctx, y->item[i], b->what, &yes));
            w.test = strcmp(y->key[i], "constant") == 0 ? QG_WHERE_CONSTANT
                                                        : QG_WHERE_GRAPH_OUTPUT;
            w.wanted = yes;
        }
        out[(*n)++] = w;
    }
    return QG_OK;
}

/* One group per fusion is all that the files need. */
static qg_status read_same_platform(const builder *b, const qg_yaml *y, qg_pattern *p)
{
    const char *const *name;
    size_t n;
    qg_pattern_group *group = QG_NEW(b->r->arena, qg_pattern_group);
    QG_TRY(qg_yaml_words(b->r->ctx, b->r->arena, y, b->what, &name, &n));
    uint32_t *member = QG_NEWN(b->r->arena, n, uint32_t);
    if (!group || !member)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(need_node(b, y, name[i], &member[i]));
    *group = (qg_pattern_group){ member, n };
    p->same_platform = group;
    p->n_same_platform = 1;
    return QG_OK;
}

/* Room for all conditions of all endpoints at once. */
static qg_status read_where(const builder *b, const qg_yaml *y, qg_pattern *p)
{
    enum { MOST = 3 }; /* conditions on one endpoint */
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "where: expected a map of endpoints");
    qg_pattern_where *where = QG_NEWN(b->r->arena, MOST * y->n, qg_pattern_where);
    if (!where)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        if (strcmp(y->key[i], "same-platform") == 0)
            QG_TRY(read_same_platform(b, y->item[i], p));
        else
            QG_TRY(read_conditions(b, y->item[i], y->key[i], where, &p->n_where));
    }
    p->where = where;
    return QG_OK;
}

/* In file order: a chain of silences is applied as it is written.  An endpoint instead
 * of a map leads all values between nodes of `float`; fp32: nothing leads them. */
static qg_status read_silence(const builder *b, const qg_yaml *y, qg_fusion *f)
{
    if (y->kind == QG_YAML_SCALAR && strcmp(y->text, "fp32") == 0) {
        f->leader.node = QG_NONE;
        return QG_OK;
    }
    if (y->kind == QG_YAML_SCALAR)
        return read_end(b, y, y->text, &f->leader);
    if (y->kind != QG_YAML_MAP || y->n == 0)
        return qg_yaml_fail(b->r->ctx, y, b->what,
                            "silence: expected a map from endpoint to endpoint, or one "
                            "endpoint");
    qg_silence *s = QG_NEWN(b->r->arena, y->n, qg_silence);
    if (!s)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < y->n; i++) {
        const char *leader;
        QG_TRY(read_end(b, y->item[i], y->key[i], &s[i].silent));
        QG_TRY(qg_yaml_text(b->r->ctx, y->item[i], b->what, &leader));
        QG_TRY(read_end(b, y->item[i], leader, &s[i].leader));
    }
    f->silence = s;
    f->n_silence = y->n;
    return QG_OK;
}

/* `float:` names nodes of the pattern. */
static qg_status read_float(const builder *b, const qg_yaml *y, qg_fusion *f)
{
    const char *const *name;
    size_t n;
    QG_TRY(qg_yaml_words(b->r->ctx, b->r->arena, y, b->what, &name, &n));
    uint32_t *node = QG_NEWN(b->r->arena, n, uint32_t);
    if (!node)
        return qg_nomem(b->r->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(need_node(b, y, name[i], &node[i]));
    f->in_float = node;
    f->n_in_float = n;
    return QG_OK;
}

/* The pattern is checked as a whole at the end, with the fusion's name in the
 * message. */
qg_status qg_read_fusion(const qg_backend_reader *r, const qg_yaml *y, qg_fusion *out)
{
    static const char *const keys[] = { "id",   "pattern", "where", "silence", "float",
                                        "once", "after",   "why",   "source",  NULL };
    static const char *const after[] = { "passive", NULL };
    int k;
    char what[QG_WHAT_TEXT];
    qg_fusion f = { 0 };
    const qg_yaml *v;
    QG_TRY(qg_read_origin(r, y, "fusion", &f.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    builder b = { .r = r, .what = what };
    QG_TRY(qg_yaml_need(r->ctx, y, what, "pattern", &v));
    QG_TRY(read_pattern(&b, v));
    if ((v = qg_yaml_get(y, "where")))
        QG_TRY(read_where(&b, v, &f.pattern));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "silence", &v));
    QG_TRY(read_silence(&b, v, &f));
    if ((v = qg_yaml_get(y, "float")))
        QG_TRY(read_float(&b, v, &f));
    if ((v = qg_yaml_get(y, "once")))
        QG_TRY(qg_yaml_bool(r->ctx, v, what, &f.once));
    if ((v = qg_yaml_get(y, "after"))) {
        QG_TRY(qg_yaml_choice(r->ctx, v, what, after, &k));
        f.after_passive = true;
    }
    if (f.n_silence == 0 && f.n_in_float == 0)
        return qg_yaml_fail(r->ctx, y, what,
                            "silence: one endpoint without `float`, expected the nodes "
                            "whose values are silent");
    f.pattern.id = f.origin.id;
    f.pattern.node = b.node;
    f.pattern.n_node = b.n;
    if (qg_pattern_check(r->ctx, &f.pattern) != QG_OK)
        return qg_yaml_fail(r->ctx, y, what, "%s", qg_ctx_message(r->ctx));
    *out = f;
    return QG_OK;
}

/* `override` defaults to yes. */
qg_status qg_read_sharing(const qg_backend_reader *r, const qg_yaml *y, qg_sharing *out)
{
    static const char *const keys[] = { "id",       "match", "align",  "spread",
                                        "override", "why",   "source", NULL };
    static const char *const align[] = { [QG_ALIGN_NONE] = "none",
                                         [QG_ALIGN_LARGE] = "large",
                                         [QG_ALIGN_OUTPUT] = "output",
                                         [QG_ALIGN_INPUT] = "input",
                                         NULL };
    static const char *const spread[] = { "none", "upstream", NULL };
    char what[QG_WHAT_TEXT];
    qg_sharing s = { .override = true };
    const qg_yaml *v;
    int k = 0;
    QG_TRY(qg_read_origin(r, y, "sharing", &s.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "match", &v));
    QG_TRY(qg_read_match(r, v, what, &s.node, NULL));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "align", &v));
    QG_TRY(qg_yaml_choice(r->ctx, v, what, align, &k));
    s.align = (enum qg_align)k;
    if ((v = qg_yaml_get(y, "spread"))) {
        QG_TRY(qg_yaml_choice(r->ctx, v, what, spread, &k));
        s.spread = k == 1;
    }
    if ((v = qg_yaml_get(y, "override")))
        QG_TRY(qg_yaml_bool(r->ctx, v, what, &s.override));
    *out = s;
    return QG_OK;
}
