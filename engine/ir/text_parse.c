/* text_parse.c -- the parser of the text form: types, contents and attribute values,
 * then statements.  Every function starts at the current token, ends after its last
 * token, and fails with the place of the fault; `what` names the expected element. */
#include <assert.h>
#include <string.h>

#include "engine/core/rng.h"
#include "engine/ir/text_lex.h"

/* On the stack of qg_text_parse. */
typedef struct parser {
    lexer l;
    qg_ctx *ctx;
    qg_arena *arena; /* of the graph under construction */
    const qg_text_table *table;
    qg_graph *g; /* the graph or body that statements go to */
    int depth;   /* of bodies */
} parser;

/* A body, with the current token at "graph"; the result belongs to p->g. */
static qg_status parse_body(parser *p, qg_graph **out);

enum { GENERATED_MAX = 1 << 26 }; /* elements that ramp, fill and seed may make */

static bool parse_at_name(const parser *p)
{
    return p->l.now.kind == T_STRING ||
           (p->l.now.kind == T_WORD && !qg_lex_is(&p->l, "_"));
}

static qg_status parse_name(parser *p, const char *what, const char **out)
{
    if (!parse_at_name(p) || p->l.now.n == 0)
        return qg_lex_fail(&p->l, what);
    const char *name = qg_internn(p->ctx, p->l.now.text, p->l.now.n);
    if (!name)
        return qg_nomem(p->ctx);
    QG_TRY(qg_lex_next(&p->l));
    *out = name;
    return QG_OK;
}

static qg_status parse_integer(parser *p, int64_t low, const char *what, int64_t *out)
{
    int64_t x;
    if (p->l.now.kind != T_NUMBER || p->l.now.n >= 128 ||
        !qg_num_parse_i64(p->l.now.text, p->l.now.n, &x) || x < low)
        return qg_lex_fail(&p->l, what);
    QG_TRY(qg_lex_next(&p->l));
    *out = x;
    return QG_OK;
}

/* "?", a number, a name, or name=number; *dim is -1 unless a number is there. */
static qg_status parse_dim(parser *p, const char **name, int64_t *dim)
{
    static const char *const what = "a dimension";
    *dim = -1;
    if (qg_lex_is(&p->l, "?"))
        return qg_lex_next(&p->l);
    if (p->l.now.kind == T_NUMBER)
        return parse_integer(p, 0, what, dim);
    if (!name)
        return qg_lex_fail(&p->l, what);
    QG_TRY(parse_name(p, what, name));
    if (!qg_lex_is(&p->l, "="))
        return QG_OK;
    QG_TRY(qg_lex_next(&p->l));
    return parse_integer(p, 0, what, dim);
}

/* "?" is QG_NODTYPE: not known. */
static qg_status parse_dtype(parser *p, qg_dtype *out)
{
    char text[32] = "";
    if (p->l.now.kind == T_WORD && p->l.now.n < sizeof text)
        memcpy(text, p->l.now.text, p->l.now.n);
    qg_dtype dtype = qg_text_dtype(text);
    if (dtype == QG_NODTYPE && !qg_lex_is(&p->l, "?"))
        return qg_lex_fail(&p->l, "a dtype");
    QG_TRY(qg_lex_next(&p->l));
    *out = dtype;
    return QG_OK;
}

static qg_status parse_type(parser *p, const char **dim_name, qg_tensor *out)
{
    int64_t dim[QG_MAX_RANK];
    int32_t rank = 0;
    qg_dtype dtype;
    QG_TRY(parse_dtype(p, &dtype));
    QG_TRY(qg_lex_expect(&p->l, "["));
    if (qg_lex_is(&p->l, "...")) {
        QG_TRY(qg_lex_next(&p->l));
        qg_tensor_unknown(out, dtype);
        return qg_lex_expect(&p->l, "]");
    }
    while (!qg_lex_is(&p->l, "]")) {
        if (rank)
            QG_TRY(qg_lex_expect(&p->l, ","));
        if (rank == QG_MAX_RANK)
            return qg_lex_fail(&p->l, "at most 8 dimensions");
        QG_TRY(parse_dim(p, dim_name ? &dim_name[rank] : NULL, &dim[rank]));
        rank++;
    }
    qg_tensor_init(out, dtype, rank, dim);
    return qg_lex_next(&p->l);
}

/* The current token as an element. */
static qg_status parse_element(parser *p, qg_dtype dtype, uint64_t *bits)
{
    if ((p->l.now.kind != T_NUMBER && p->l.now.kind != T_WORD) || p->l.now.n >= 128 ||
        !qg_text_to_bits(dtype, p->l.now.text, p->l.now.n, bits))
        return qg_lex_fail(&p->l, "an element of that dtype");
    return qg_lex_next(&p->l);
}

/* As many bytes must be left as there are elements, before memory for them is taken. */
static qg_status parse_elements(parser *p, qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    uint64_t bits;
    assert(n >= 0);
    if (n > p->l.end - p->l.at)
        return qg_lex_fail(&p->l, "as many elements as the type has");
    QG_TRY(qg_tensor_alloc(p->ctx, p->arena, t));
    QG_TRY(qg_lex_next(&p->l));
    for (int64_t i = 0; i < n; i++) {
        if (i)
            QG_TRY(qg_lex_expect(&p->l, ","));
        QG_TRY(parse_element(p, t->dtype, &bits));
        qg_text_set_bits(t, i, bits);
    }
    return qg_lex_expect(&p->l, "]");
}

/* One element, already in the bits of its type. */
static double number_of(qg_dtype dtype, uint64_t bits)
{
    qg_tensor t;
    qg_tensor_scalar(&t, dtype);
    t.data = &bits;
    return qg_tensor_f64(&t, 0);
}

/* From the first to the last value in equal steps, ends included. */
static qg_status parse_ramp(parser *p, qg_tensor *t)
{
    uint64_t first, last;
    int64_t n = qg_tensor_count(t);
    QG_TRY(parse_element(p, t->dtype, &first));
    QG_TRY(qg_lex_expect(&p->l, ","));
    QG_TRY(parse_element(p, t->dtype, &last));
    double from = number_of(t->dtype, first), to = number_of(t->dtype, last);
    assert(t->data);
    for (int64_t i = 0; i < n; i++) {
        double at = n > 1 ? (double)i / (double)(n - 1) : 0;
        qg_text_set_bits(t, i, qg_text_convert(t->dtype, from + (to - from) * at));
    }
    return QG_OK;
}

/* The same element everywhere. */
static qg_status parse_fill(parser *p, qg_tensor *t)
{
    assert(t->data);
    uint64_t bits;
    QG_TRY(parse_element(p, t->dtype, &bits));
    for (int64_t i = 0, n = qg_tensor_count(t); i < n; i++)
        qg_text_set_bits(t, i, bits);
    return QG_OK;
}

/* Uniform: [-1, 1) for floats, all codes of 8 bits for integers.  Tests rely on
 * these numbers, so the sequence of draws is part of the format. */
static double draw(qg_rng *rng, qg_dtype dtype)
{
    switch (qg_dtype_kind_of(dtype)) {
    case QG_KIND_FLOAT:
        return qg_rng_range(rng, -1, 1);
    case QG_KIND_BOOLEAN:
        return (double)qg_rng_below(rng, 2);
    case QG_KIND_UINT:
        return (double)qg_rng_below(rng, 256);
    default:
        return (double)qg_rng_below(rng, 256) - 128;
    }
}

static qg_status parse_seed(parser *p, qg_tensor *t)
{
    assert(t->data);
    int64_t seed;
    QG_TRY(parse_integer(p, 0, "a seed", &seed));
    qg_rng rng = { (uint64_t)seed };
    for (int64_t i = 0, n = qg_tensor_count(t); i < n; i++)
        qg_text_set_bits(t, i, qg_text_convert(t->dtype, draw(&rng, t->dtype)));
    return QG_OK;
}

/* The tensor is copied: the graph must not depend on the table's life. */
static qg_status parse_hash(parser *p, qg_tensor *t)
{
    const char *key;
    qg_tensor *copy;
    lexer before = p->l;
    QG_TRY(parse_name(p, "a hash", &key));
    const qg_tensor *found = qg_text_table_find(p->table, key);
    if (!found || found->dtype != t->dtype || !qg_same_dims(found, t))
        return qg_lex_fail(&before, "the hash of a tensor of that type in the table");
    QG_TRY(qg_tensor_clone(p->ctx, p->arena, found, &copy));
    *t = *copy;
    return QG_OK;
}

/* Contents that are computed, for tests that need large tensors in short texts. */
static const struct generator {
    const char *word;
    qg_status (*make)(parser *p, qg_tensor *t);
    bool fresh; /* t gets memory first */
} generators[] = {
    {"ramp",  parse_ramp, true },
    { "fill", parse_fill, true },
    { "seed", parse_seed, true },
    { "hash", parse_hash, false},
};

static qg_status generate(parser *p, const struct generator *g, qg_tensor *t)
{
    if (g->fresh && qg_tensor_count(t) > GENERATED_MAX)
        return qg_lex_fail(&p->l, "a type of at most 2^26 elements");
    QG_TRY(qg_lex_next(&p->l));
    QG_TRY(qg_lex_expect(&p->l, "("));
    if (g->fresh)
        QG_TRY(qg_tensor_alloc(p->ctx, p->arena, t));
    QG_TRY(g->make(p, t));
    return qg_lex_expect(&p->l, ")");
}

static qg_status fill_content(parser *p, qg_tensor *t)
{
    if (qg_lex_is(&p->l, "["))
        return parse_elements(p, t);
    for (size_t i = 0; i < sizeof generators / sizeof generators[0]; i++)
        if (qg_lex_is(&p->l, generators[i].word))
            return generate(p, &generators[i], t);
    return qg_lex_fail(&p->l, "[ elements ], ramp, fill, seed or hash");
}

static qg_status parse_content(parser *p, const qg_tensor *type, const qg_tensor **out)
{
    size_t bytes;
    qg_tensor *t = QG_NEW(p->arena, qg_tensor);
    if (!t)
        return qg_nomem(p->ctx);
    *t = *type;
    if (t->dtype == QG_NODTYPE || !qg_tensor_known(t))
        return qg_lex_fail(&p->l, "a content behind a type that is known");
    qg_status s = qg_tensor_bytes(p->ctx, "content", t, &bytes);
    if (s != QG_OK)
        return qg_lex_place(&p->l, s);
    QG_TRY(fill_content(p, t));
    *out = t;
    return QG_OK;
}

/* The item type of a list; `any` until the first item decides. */
typedef QG_VEC(int64_t) int_list;
typedef struct list {
    qg_attr_type type; /* of a list; QG_NATTR: not known yet */
    size_t n;
    int_list ints;
    QG_VEC(float) floats; /* alongside the ints, in case a float follows */
    QG_VEC(const char *) strings;
    QG_VEC(qg_graph *) graphs;
} list;

/* A number without point, exponent, 0x or inf. */
static bool is_integer_text(const token *t)
{
    return t->n < 2 || (!memchr(t->text, '.', t->n) && !memchr(t->text, 'e', t->n) &&
                        !memchr(t->text, 'E', t->n) && !memchr(t->text, 'x', t->n) &&
                        !memchr(t->text, 'i', t->n));
}

/* Integers are remembered as floats as well: a list becomes one of floats with its
 * first float. */
static qg_status parse_number(parser *p, list *v)
{
    const token t = p->l.now;
    bool integer = t.kind == T_NUMBER && is_integer_text(&t);
    int64_t i = 0;
    uint64_t bits = 0;
    if (t.n >= 128 || (integer && !qg_num_parse_i64(t.text, t.n, &i)) ||
        !qg_text_to_bits(QG_F32, t.text, t.n, &bits))
        return qg_lex_fail(&p->l, "a number");
    uint32_t narrow = (uint32_t)bits;
    float f;
    memcpy(&f, &narrow, sizeof f);
    if (v->type == QG_NATTR || (v->type == QG_ATTR_INTS && !integer))
        v->type = integer ? QG_ATTR_INTS : QG_ATTR_FLOATS;
    QG_TRY(qg_vec_push(p->ctx, p->arena, &v->ints, i));
    QG_TRY(qg_vec_push(p->ctx, p->arena, &v->floats, f));
    return qg_lex_next(&p->l);
}

static qg_status parse_text(parser *p, list *v)
{
    char *copy = qg_arena_strndup(p->arena, p->l.now.text, p->l.now.n);
    if (!copy)
        return qg_nomem(p->ctx);
    v->type = QG_ATTR_STRINGS;
    QG_TRY(qg_vec_push(p->ctx, p->arena, &v->strings, copy));
    return qg_lex_next(&p->l);
}

static qg_status parse_graph(parser *p, list *v)
{
    qg_graph *body = NULL;
    v->type = QG_ATTR_GRAPHS;
    QG_TRY(parse_body(p, &body));
    return qg_vec_push(p->ctx, p->arena, &v->graphs, body);
}

/* The first item decides the type of the list. */
static qg_status parse_item(parser *p, list *v)
{
    bool open = v->type == QG_NATTR;
    v->n++;
    if (p->l.now.kind == T_STRING && (open || v->type == QG_ATTR_STRINGS))
        return parse_text(p, v);
    if (qg_lex_is(&p->l, "graph") && (open || v->type == QG_ATTR_GRAPHS))
        return parse_graph(p, v);
    if ((p->l.now.kind == T_NUMBER || qg_lex_is(&p->l, "inf")) &&
        (open || v->type == QG_ATTR_INTS || v->type == QG_ATTR_FLOATS))
        return parse_number(p, v);
    return qg_lex_fail(&p->l, open ? "a value" : "an item like the first one");
}

/* Items up to "]". */
static qg_status parse_list(parser *p, list *v)
{
    qg_attr_type asked = v->type;
    QG_TRY(qg_lex_expect(&p->l, "["));
    while (!qg_lex_is(&p->l, "]")) {
        if (v->n)
            QG_TRY(qg_lex_expect(&p->l, ","));
        QG_TRY(parse_item(p, v));
    }
    if (v->type == QG_NATTR)
        return qg_lex_fail(&p->l, "an item, or the type of an empty list in front");
    if (asked == QG_ATTR_INTS && v->type != asked)
        return qg_lex_fail(&p->l, "ints only");
    return qg_lex_next(&p->l);
}

static void store_list(const list *v, qg_attr *out)
{
    assert(v->type != QG_NATTR);
    out->type = v->type;
    out->count = v->n;
    if (v->type == QG_ATTR_INTS)
        out->ints = v->ints.at;
    else if (v->type == QG_ATTR_FLOATS)
        out->floats = v->floats.at;
    else if (v->type == QG_ATTR_STRINGS)
        out->strings = v->strings.at;
    else
        out->graphs = v->graphs.at;
}

static qg_status parse_tensor(parser *p, qg_attr *out)
{
    qg_tensor type;
    QG_TRY(parse_type(p, NULL, &type));
    out->type = QG_ATTR_TENSOR;
    out->count = 1;
    return parse_content(p, &type, &out->tensor);
}

/* The list type that the current word names, or QG_NATTR. */
static qg_attr_type list_type(const parser *p)
{
    static const qg_attr_type types[] = { QG_ATTR_INTS, QG_ATTR_FLOATS, QG_ATTR_STRINGS,
                                          QG_ATTR_GRAPHS };
    static const char *const words[] = { "ints", "floats", "strings", "graphs" };
    for (size_t i = 0; i < 4; i++)
        if (qg_lex_is(&p->l, words[i]))
            return types[i];
    return QG_NATTR;
}

/* A list, a single item, or a typed tensor with contents. */
static qg_status parse_value(parser *p, qg_attr *out)
{
    static const qg_attr_type single[QG_NATTR] = { [QG_ATTR_INTS] = QG_ATTR_INT,
                                                   [QG_ATTR_FLOATS] = QG_ATTR_FLOAT,
                                                   [QG_ATTR_STRINGS] = QG_ATTR_STRING,
                                                   [QG_ATTR_GRAPHS] = QG_ATTR_GRAPH };
    list v = { .type = list_type(p) };
    if (v.type != QG_NATTR)
        QG_TRY(qg_lex_next(&p->l));
    if (v.type != QG_NATTR || qg_lex_is(&p->l, "[")) {
        QG_TRY(parse_list(p, &v));
        store_list(&v, out);
        return QG_OK;
    }
    if (p->l.now.kind == T_WORD && !qg_lex_is(&p->l, "graph") &&
        !qg_lex_is(&p->l, "inf"))
        return parse_tensor(p, out);
    QG_TRY(parse_item(p, &v));
    store_list(&v, out);
    out->type = single[v.type];
    return QG_OK;
}

static qg_status parse_attr(parser *p, qg_attr *out)
{
    QG_TRY(parse_name(p, "an attribute", &out->name));
    QG_TRY(qg_lex_expect(&p->l, "="));
    return parse_value(p, out);
}

/* --- statements --- */

/* A node statement as far as it was read. */
typedef struct statement {
    QG_VEC(qg_value *) out, in;
    QG_VEC(const char *) capture;
    QG_VEC(qg_attr) attr;
    qg_node_spec spec;
    enum qg_platform platform;
    const char *reason;
} statement;

/* Replaces the declaration of v: the last declaration applies. */
static qg_status declare(parser *p, qg_value *v)
{
    const char *names[QG_MAX_RANK] = { 0 };
    QG_TRY(parse_type(p, names, &v->type));
    memcpy(v->dim_name, names, sizeof names);
    return QG_OK;
}

/* Names may be used before the statement that defines them, so the value is made
 * here. */
static qg_status parse_value_name(parser *p, qg_value **out)
{
    const char *name;
    QG_TRY(parse_name(p, "a name", &name));
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
    QG_TRY(parse_name(p, "an operator, input, const or outer", &name));
    if (qg_lex_is(&p->l, "@")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(parse_integer(p, 1, "an opset", &opset));
    }
    qg_status found = find_operator(p, name, opset, &s->spec);
    if (found != QG_OK)
        return qg_lex_place(&at, found);
    return parse_at_name(p) ? parse_name(p, "a name", &s->spec.name) : QG_OK;
}

/* "outer" or "outer as inner": values that bodies of this node capture. */
static qg_status parse_capture(parser *p, statement *s)
{
    qg_value *v;
    QG_TRY(parse_value_name(p, &v));
    const char *inner = v->name;
    if (qg_lex_is(&p->l, "as")) {
        QG_TRY(qg_lex_next(&p->l));
        QG_TRY(parse_name(p, "the name in the body", &inner));
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

/* Without a name a node has the name of its first output, as the printer assumes. */
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
    while (parse_at_name(p)) {
        qg_attr a = { 0 };
        QG_TRY(parse_attr(p, &a));
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
    QG_TRY(parse_type(p, NULL, &type));
    QG_TRY(parse_content(p, &type, &v->constant));
    v->type = type;
    return QG_OK;
}

/* The part after '=': a declaration when there is one target, else a node. */
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
    if (parse_at_name(p))
        QG_TRY(parse_name(p, "a domain", &o.domain));
    QG_TRY(parse_integer(p, 1, "an opset", &o.version));
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
    return parse_integer(p, 0, "an IR version", &p->g->ir_version);
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
    return parse_at_name(p) ? parse_name(p, "a name", name) : QG_OK;
}

/* Recursion is bounded by QG_TEXT_NESTING.  After a failure p->g stays inside the
 * body: the parser is not used any more. */
static qg_status parse_body(parser *p, qg_graph **out)
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
