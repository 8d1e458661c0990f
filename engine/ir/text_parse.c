#include "engine/ir/text_parse.h"

#include <assert.h>
#include <string.h>

/* A node statement as far as it was read. */
typedef struct statement {
    QG_VEC(qg_value *) out, in;
    QG_VEC(const char *) capture;
    QG_VEC(qg_attr) attr;
    qg_node_spec spec;
    enum qg_platform platform;
    const char *reason;
} statement;

/* Replaces what was known of v: a later declaration counts. */
static qg_status declare(parser *p, qg_value *v)
{
    const char *names[QG_MAX_RANK] = { 0 };
    QG_TRY(qg_parse_type(p, names, &v->type));
    memcpy(v->dim_name, names, sizeof names);
    return QG_OK;
}

/* Names may be used before the statement that defines them, so the value is made
 * here. */
static qg_status parse_value_name(parser *p, qg_value **out)
{
    const char *name;
    QG_TRY(qg_parse_name(p, "a name", &name));
    return qg_graph_need_value(p->g, name, out);
}

/* A slot: "_" is NULL. */
static qg_status parse_slot(parser *p, qg_value **out)
{
    assert(!p->g->owner); /* a body gets its owner when it is complete */
    *out = NULL;
    return qg_lex_is(&p->l, "_") ? qg_lex_next(&p->l) : parse_value_name(p, out);
}

/* A result with its type, when one follows. */
static qg_status parse_target(parser *p, statement *s)
{
    qg_value *v;
    QG_TRY(parse_slot(p, &v));
    QG_TRY(qg_vec_push(p->ctx, p->arena, &s->out, v));
    return v && !qg_lex_is(&p->l, ",") && !qg_lex_is(&p->l, "=") ? declare(p, v)
                                                                 : QG_OK;
}

static qg_status parse_targets(parser *p, statement *s)
{
    if (qg_lex_is(&p->l, "(")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(qg_lex_expect(&p->l, ")"));
        return qg_lex_expect(&p->l, "=");
    }
    QG_TRY(parse_target(p, s));
    while (qg_lex_is(&p->l, ",")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(parse_target(p, s));
    }
    return qg_lex_expect(&p->l, "=");
}

/* Splits "domain::Op" at the last "::" and finds the operator. */
static qg_status find_operator(parser *p, const char *name, int64_t opset,
                               qg_node_spec *spec)
{
    const char *op = name, *domain = "";
    for (const char *at = name; (at = strstr(at, "::")); at++)
        op = at + 2;
    if (op != name)
        domain = qg_internn(p->ctx, name, (size_t)(op - 2 - name));
    if (!domain)
        return qg_nomem(p->ctx);
    spec->opset = opset ? opset : qg_graph_opset(p->g, domain);
    spec->op =
        qg_op_find(p->ctx->registry, domain, op, spec->opset ? spec->opset : INT64_MAX);
    if (!spec->op)
        return qg_fail(p->ctx, QG_EUNSUPPORTED,
                       "operator '%.80s' of opset %lld is not known, expected one of "
                       "the registry",
                       name, (long long)spec->opset);
    if (!spec->opset)
        spec->opset = spec->op->since;
    return QG_OK;
}

/* "Op", "domain::Op" or "Op@opset", and a name for the node when it has one of its
 * own. */
static qg_status parse_operator(parser *p, statement *s)
{
    const char *name;
    int64_t opset = 0;
    lexer at = p->l;
    QG_TRY(qg_parse_name(p, "an operator, input, const or outer", &name));
    if (qg_lex_is(&p->l, "@")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(qg_parse_integer(p, 1, "an opset", &opset));
    }
    qg_status found = find_operator(p, name, opset, &s->spec);
    if (found != QG_OK)
        return qg_lex_place(&at, found);
    return qg_parse_at_name(p) ? qg_parse_name(p, "a name", &s->spec.name) : QG_OK;
}

/* "outer" or "outer as inner": what bodies of this node read from around it. */
static qg_status parse_capture(parser *p, statement *s)
{
    qg_value *v;
    QG_TRY(parse_value_name(p, &v));
    const char *inner = v->name;
    if (qg_lex_is(&p->l, "as")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(qg_parse_name(p, "the name in the body", &inner));
    }
    QG_TRY(qg_vec_push(p->ctx, p->arena, &s->in, v));
    return qg_vec_push(p->ctx, p->arena, &s->capture, inner);
}

/* "(a, _, b | captured)". */
static qg_status parse_slots(parser *p, statement *s)
{
    QG_TRY(qg_lex_expect(&p->l, "("));
    while (!qg_lex_is(&p->l, "|") && !qg_lex_is(&p->l, ")")) {
        qg_value *v;
        if (s->in.n)
            QG_TRY(qg_lex_expect(&p->l, ","));
        QG_TRY(parse_slot(p, &v));
        QG_TRY(qg_vec_push(p->ctx, p->arena, &s->in, v));
    }
    while (!qg_lex_is(&p->l, ")")) {
        QG_TRY(qg_lex_expect(&p->l, s->capture.n ? "," : "|"));
        QG_TRY(parse_capture(p, s));
    }
    return qg_lex_next(&p->l);
}

/* `on platform "reason"`, unless it is an attribute called "on". */
static qg_status parse_platform(parser *p, statement *s)
{
    lexer before = p->l;
    if (!qg_lex_is(&p->l, "on"))
        return QG_OK;
    QG_TRY(qg_lex_next(&p->l));
    if (qg_lex_is(&p->l, "=")) {
        p->l = before;
        return QG_OK;
    }
    for (int i = 1; i < 4; i++)
        if (qg_lex_is(&p->l, qg_text_platforms[i]))
            s->platform = (enum qg_platform)i;
    if (s->platform == QG_PLATFORM_NONE)
        return qg_lex_fail(&p->l, "quantized, fp32 or soi");
    QG_TRY(qg_lex_next(&p->l));
    if (p->l.now.kind != T_STRING)
        return QG_OK;
    s->reason = qg_arena_strndup(p->arena, p->l.now.text, p->l.now.n);
    return s->reason ? qg_lex_next(&p->l) : qg_nomem(p->ctx);
}

/* Without a name a node is called like its first output, as the printer assumes. */
static qg_status build_node(parser *p, statement *s)
{
    qg_node *n;
    assert(s->spec.op && s->capture.n <= s->in.n);
    for (size_t i = 0; i < s->out.n && !s->spec.name; i++)
        s->spec.name = s->out.at[i] ? s->out.at[i]->name : NULL;
    s->spec.in = s->in.at;
    s->spec.n_in = (uint32_t)s->in.n;
    s->spec.out = s->out.at;
    s->spec.n_out = (uint32_t)s->out.n;
    s->spec.attr = s->attr.at;
    s->spec.n_attr = s->attr.n;
    s->spec.capture = s->capture.at;
    s->spec.n_capture = (uint32_t)s->capture.n;
    QG_TRY(qg_graph_add_node(p->g, &s->spec, &n));
    n->platform = s->platform;
    n->reason = s->reason;
    return QG_OK;
}

static qg_status parse_node(parser *p, statement *s)
{
    lexer at = p->l;
    QG_TRY(parse_operator(p, s));
    QG_TRY(parse_slots(p, s));
    QG_TRY(parse_platform(p, s));
    while (qg_parse_at_name(p)) {
        qg_attr a = { 0 };
        QG_TRY(qg_parse_attr(p, &a));
        QG_TRY(qg_vec_push(p->ctx, p->arena, &s->attr, a));
    }
    return qg_lex_place(&at, build_node(p, s));
}

static qg_status parse_input(parser *p, qg_value *v)
{
    lexer at = p->l;
    QG_TRY(declare(p, v));
    return qg_lex_place(&at, qg_graph_mark_input(p->g, v));
}

/* A constant may be read before, but must not be made twice. */
static qg_status parse_const(parser *p, qg_value *v)
{
    qg_tensor type;
    if (v->is_input || v->def || v->constant)
        return qg_lex_fail(&p->l, "a value that is not defined yet");
    QG_TRY(qg_parse_type(p, NULL, &type));
    QG_TRY(qg_parse_content(p, &type, &v->constant));
    v->type = type;
    return QG_OK;
}

/* What follows '=': a declaration when there is one target, else a node. */
static qg_status parse_definition(parser *p)
{
    statement s = { 0 };
    QG_TRY(parse_targets(p, &s));
    qg_value *only = s.out.n == 1 ? s.out.at[0] : NULL;
    bool is_const = qg_lex_is(&p->l, "const"), is_input = qg_lex_is(&p->l, "input");
    if (!is_const && !is_input && !qg_lex_is(&p->l, "outer"))
        return parse_node(p, &s);
    if (!only)
        return qg_lex_fail(&p->l, "one name before input, const or outer");
    QG_TRY(qg_lex_next(&p->l));
    if (is_const || is_input)
        return is_const ? parse_const(p, only) : parse_input(p, only);
    return p->l.now.kind == T_END || qg_lex_is(&p->l, "}") ? QG_OK : declare(p, only);
}

static qg_status parse_output(parser *p)
{
    do {
        qg_value *v;
        QG_TRY(qg_lex_next(&p->l)); /* over "output" or "," */
        lexer at = p->l;
        QG_TRY(parse_value_name(p, &v));
        QG_TRY(qg_lex_place(&at, qg_graph_mark_output(p->g, v)));
    } while (qg_lex_is(&p->l, ","));
    return QG_OK;
}

static qg_status parse_opset(parser *p)
{
    qg_opset_import o = { .domain = "" };
    QG_TRY(qg_lex_next(&p->l));
    if (qg_parse_at_name(p))
        QG_TRY(qg_parse_name(p, "a domain", &o.domain));
    QG_TRY(qg_parse_integer(p, 1, "an opset", &o.version));
    return qg_vec_push(p->ctx, p->arena, &p->g->opset, o);
}

static qg_status parse_statement(parser *p)
{
    if (qg_lex_is(&p->l, "output"))
        return parse_output(p);
    if (qg_lex_is(&p->l, "opset"))
        return parse_opset(p);
    if (!qg_lex_is(&p->l, "ir"))
        return parse_definition(p);
    QG_TRY(qg_lex_next(&p->l));
    return qg_parse_integer(p, 0, "an IR version", &p->g->ir_version);
}

/* "{ statements }" into p->g. */
static qg_status parse_block(parser *p)
{
    int nest = p->l.nest;
    if (!qg_lex_is(&p->l, "{"))
        return qg_lex_fail(&p->l, "'{'");
    p->l.nest = 0; /* newlines count again */
    QG_TRY(qg_lex_next(&p->l));
    while (!qg_lex_is(&p->l, "}")) {
        if (p->l.now.kind != T_END)
            QG_TRY(parse_statement(p));
        if (p->l.now.kind == T_END)
            QG_TRY(qg_lex_next(&p->l));
        else if (!qg_lex_is(&p->l, "}"))
            return qg_lex_fail(&p->l, "the end of the statement");
    }
    p->l.nest = nest;
    return qg_lex_next(&p->l);
}

/* "graph name"; the name may be empty but not absent in quotes. */
static qg_status parse_title(parser *p, const char **name)
{
    *name = "";
    QG_TRY(qg_lex_expect(&p->l, "graph"));
    if (p->l.now.kind == T_STRING && p->l.now.n == 0) /* a graph may have no name */
        return qg_lex_next(&p->l);
    return qg_parse_at_name(p) ? qg_parse_name(p, "a name", name) : QG_OK;
}

/* Recursion is bounded by QG_TEXT_NESTING.  After a failure p->g stays inside the
 * body: the parser is not used any more. */
qg_status qg_parse_body(parser *p, qg_graph **out)
{
    const char *name;
    qg_graph *outer = p->g, *body;
    if (p->depth == QG_TEXT_NESTING)
        return qg_lex_fail(&p->l, "at most 32 bodies within each other");
    QG_TRY(parse_title(p, &name));
    QG_TRY(qg_graph_new_body(outer, name, &body));
    p->depth++;
    p->g = body;
    QG_TRY(parse_block(p));
    assert(p->g == body);
    p->g = outer;
    p->depth--;
    *out = body;
    return QG_OK;
}

/* Empty statements around the graph. */
static qg_status skip_ends(parser *p)
{
    while (p->l.now.kind == T_END)
        QG_TRY(qg_lex_next(&p->l));
    return QG_OK;
}

static qg_status parse_file(parser *p)
{
    const char *name;
    QG_TRY(qg_lex_next(&p->l));
    QG_TRY(skip_ends(p));
    QG_TRY(parse_title(p, &name));
    p->g->name = name;
    QG_TRY(parse_block(p));
    QG_TRY(skip_ends(p));
    return p->l.now.kind == T_EOF ? QG_OK : qg_lex_fail(&p->l, "the end of the text");
}

qg_status qg_text_parse(qg_ctx *ctx, const qg_text_source *source, qg_graph **out)
{
    qg_graph *g = NULL;
    QG_TRY(qg_graph_new(ctx, "", &g));
    parser p = {
        .l = {.ctx = ctx,
              .arena = g->arena,
              .source = source->name ? source->name : "text",
              .at = source->text,
              .end = source->text + source->size,
              .line_start = source->text,
              .line = 1},
        .ctx = ctx,
        .arena = g->arena,
        .table = source->table,
        .g = g
    };
    qg_status s = parse_file(&p);
    if (s == QG_OK)
        *out = g;
    else
        qg_graph_free(g);
    return s;
}
