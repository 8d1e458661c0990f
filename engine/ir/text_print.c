#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/text_data.h"

/* The text so far.  The first failure sticks and makes everything after it a no-op. */
typedef struct printer {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_text_table *table;
    QG_VEC(char) text;
    qg_status status;
    int depth;   /* of bodies */
    bool bare;   /* without platforms and their reasons */
    bool hollow; /* without the elements of constants, and constants not in use */
} printer;

/* Keeps a zero after the text, which is not part of it. */
static void put_bytes(printer *p, const char *s, size_t n)
{
    if (p->status == QG_OK)
        p->status = qg_vec_room(p->ctx, p->arena, &p->text, p->text.n + n + 1);
    if (p->status != QG_OK)
        return;
    memcpy(p->text.at + p->text.n, s, n);
    p->text.n += n;
    p->text.at[p->text.n] = '\0';
}

static void put(printer *p, const char *s) { put_bytes(p, s, strlen(s)); }

/* For short pieces of known length: numbers and escapes. */
QG_PRINTF(2, 3) static void putf(printer *p, const char *fmt, ...)
{
    char text[96];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < sizeof text);
    put_bytes(p, text, (size_t)n);
}

/* The escapes that text_lex.c undoes. */
static void put_string(printer *p, const char *s)
{
    put(p, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            putf(p, "\\%c", c);
        else if (c == '\n' || c == '\t')
            put(p, c == '\n' ? "\\n" : "\\t");
        else if (c < 0x20 || c == 0x7f)
            putf(p, "\\x%02x", c);
        else
            put_bytes(p, s, 1);
    }
    put(p, "\"");
}

static void put_name(printer *p, const char *s)
{
    if (qg_text_is_word(s))
        put(p, s);
    else
        put_string(p, s);
}

/* A symbolic extent is "N", and "N=1" once it is fixed. */
static void put_type(printer *p, const qg_tensor *t, const char *const *dim_name)
{
    put(p, t->dtype ? qg_dtype_name(t->dtype) : "?");
    put(p, "[");
    if (t->rank < 0)
        put(p, "...");
    for (int32_t k = 0; k < t->rank; k++) {
        put(p, k ? "," : "");
        if (dim_name && dim_name[k])
            put_name(p, dim_name[k]);
        if (dim_name && dim_name[k] && t->dim[k] >= 0)
            put(p, "=");
        if (t->dim[k] >= 0)
            putf(p, "%lld", (long long)t->dim[k]);
        else if (!dim_name || !dim_name[k])
            put(p, "?");
    }
    put(p, "]");
}

/* Up to QG_TEXT_INLINE elements inline, larger tensors by hash. */
static void put_content(printer *p, const qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    assert(n >= 0 && qg_tensor_is_plain(t));
    if (n > QG_TEXT_INLINE) {
        char key[17];
        if (p->status == QG_OK)
            p->status = qg_text_table_put(p->table, t, key);
        if (p->status == QG_OK)
            putf(p, "hash(\"%s\")", key);
        return;
    }
    put(p, "[");
    for (int64_t i = 0; i < n; i++) {
        char text[QG_NUM_TEXT];
        qg_text_of_bits(t->dtype, qg_text_bits(t, i), text);
        put(p, i ? ", " : "");
        put(p, text);
    }
    put(p, "]");
}

static void put_float(printer *p, float x)
{
    char text[QG_NUM_TEXT];
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    qg_text_of_bits(QG_F32, bits, text);
    put(p, text);
}

static void put_graph(printer *p, const qg_graph *g);

static void put_item(printer *p, const qg_attr *a, size_t i)
{
    switch (a->type) {
    case QG_ATTR_INT:
    case QG_ATTR_INTS:
        putf(p, "%lld", (long long)a->ints[i]);
        break;
    case QG_ATTR_FLOAT:
    case QG_ATTR_FLOATS:
        put_float(p, a->floats[i]);
        break;
    case QG_ATTR_STRING:
    case QG_ATTR_STRINGS:
        put_string(p, a->strings[i]);
        break;
    case QG_ATTR_GRAPH:
    case QG_ATTR_GRAPHS:
        put_graph(p, a->graphs[i]);
        break;
    case QG_ATTR_TENSOR:
    default:
        assert(a->type == QG_ATTR_TENSOR);
        put_type(p, a->tensor, NULL);
        put(p, " ");
        put_content(p, a->tensor);
    }
}

/* An empty list is printed with its type; the type of others follows from their items,
 * where floats always have a point or an exponent. */
static void put_attr(printer *p, const qg_attr *a)
{
    static const char *const lists[QG_NATTR] = { [QG_ATTR_INTS] = "ints ",
                                                 [QG_ATTR_FLOATS] = "floats ",
                                                 [QG_ATTR_STRINGS] = "strings ",
                                                 [QG_ATTR_GRAPHS] = "graphs " };
    put(p, " ");
    put_name(p, a->name);
    put(p, "=");
    if (!lists[a->type]) {
        put_item(p, a, 0);
        return;
    }
    put(p, a->count ? "[" : lists[a->type]);
    put(p, a->count ? "" : "[");
    for (size_t i = 0; i < a->count; i++) {
        put(p, i ? ", " : "");
        put_item(p, a, i);
    }
    put(p, "]");
}

static void put_targets(printer *p, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_value *v = n->out[i];
        put(p, i ? ", " : "");
        if (!v) {
            put(p, "_");
            continue;
        }
        put_name(p, v->name);
        if (v->type.dtype || v->type.rank >= 0) {
            put(p, " ");
            put_type(p, &v->type, v->dim_name);
        }
    }
    put(p, n->n_out ? " = " : "() = ");
}

/* Captured values follow the bar, with "as" where the body calls them
 * otherwise. */
static void put_slots(printer *p, const qg_node *n)
{
    uint32_t own = n->n_in - n->n_capture;
    put(p, "(");
    for (uint32_t i = 0; i < n->n_in; i++) {
        put(p, i == own ? (i ? " | " : "| ") : i ? ", " : "");
        if (n->in[i])
            put_name(p, n->in[i]->name);
        else
            put(p, "_");
        if (i >= own && (!n->in[i] || n->capture[i - own] != n->in[i]->name)) {
            put(p, " as ");
            put_name(p, n->capture[i - own]);
        }
    }
    put(p, ")");
}

/* A node has the name of its first output unless the text gives another. */
static bool has_own_name(const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i])
            return n->name != n->out[i]->name;
    return true;
}

/* The opset is printed only where it differs from the graph's import. */
static void put_operator(printer *p, const qg_graph *g, const qg_node *n)
{
    const char *domain = n->op->domain;
    char text[160];
    assert(!n->dead);
    if (domain && *domain)
        (void)snprintf(text, sizeof text, "%s::%s", domain, n->op->name);
    put_name(p, domain && *domain ? text : n->op->name);
    if (n->opset != qg_graph_opset(g, domain))
        putf(p, "@%lld", (long long)n->opset);
    if (has_own_name(n)) {
        put(p, " ");
        put_name(p, n->name);
    }
}

static void put_node(printer *p, const qg_graph *g, const qg_node *n)
{
    put_targets(p, n);
    put_operator(p, g, n);
    put_slots(p, n);
    if (n->platform != QG_PLATFORM_NONE && !p->bare) {
        put(p, " on ");
        put(p, qg_text_platforms[n->platform]);
        if (n->reason) {
            put(p, " ");
            put_string(p, n->reason);
        }
    }
    for (size_t i = 0; i < n->n_attr; i++)
        put_attr(p, &n->attr[i]);
}

/* Two blanks per level of nesting. */
static void begin_line(printer *p)
{
    put(p, "\n");
    for (int i = 0; i < p->depth; i++)
        put(p, "  ");
}

static void put_header(printer *p, const qg_graph *g)
{
    if (g->ir_version) {
        begin_line(p);
        putf(p, "ir %lld", (long long)g->ir_version);
    }
    for (size_t i = 0; i < g->opset.n; i++) {
        begin_line(p);
        put(p, "opset ");
        if (*g->opset.at[i].domain) {
            put_name(p, g->opset.at[i].domain);
            put(p, " ");
        }
        putf(p, "%lld", (long long)g->opset.at[i].version);
    }
    for (size_t i = 0; i < g->input.n; i++) {
        begin_line(p);
        put_name(p, g->input.at[i]->name);
        put(p, " = input ");
        put_type(p, &g->input.at[i]->type, g->input.at[i]->dim_name);
    }
}

/* Constants, and values that only an outer graph can provide. */
static void put_givens(printer *p, const qg_graph *g)
{
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (v->def || v->is_input ||
            ((!v->constant || p->hollow) && qg_value_watchers(v) == 0))
            continue;
        begin_line(p);
        put_name(p, v->name);
        put(p, v->constant ? " = const " : " = outer ");
        put_type(p, v->constant ? v->constant : &v->type,
                 v->constant ? NULL : v->dim_name);
        if (v->constant && !p->hollow) {
            put(p, " ");
            put_content(p, v->constant);
        }
    }
}

static void put_graph(printer *p, const qg_graph *g)
{
    assert(p->depth >= 0);
    if (p->status == QG_OK && p->depth > QG_TEXT_NESTING)
        p->status =
            qg_fail(p->ctx, QG_EUNSUPPORTED,
                    "print: graph '%.1000s': nested %d deep, expected at most %d",
                    g->name, p->depth, QG_TEXT_NESTING);
    if (p->status != QG_OK)
        return;
    put(p, "graph ");
    put_string(p, g->name);
    put(p, " {");
    p->depth++;
    put_header(p, g);
    put_givens(p, g);
    for (size_t i = 0; i < g->node.n; i++) {
        begin_line(p);
        put_node(p, g, g->node.at[i]);
    }
    for (size_t i = 0; i < g->output.n; i++) {
        if (i == 0)
            begin_line(p);
        put(p, i ? ", " : "output ");
        put_name(p, g->output.at[i]->name);
    }
    p->depth--;
    begin_line(p);
    put(p, "}");
}

qg_status qg_text_print(const qg_graph *g, qg_text_table *table, qg_arena *a,
                        char **text, size_t *size)
{
    printer p = { .ctx = g->ctx, .arena = a, .table = table };
    put_graph(&p, g);
    put(&p, "\n");
    if (p.status != QG_OK)
        return p.status;
    *text = p.text.at;
    *size = p.text.n;
    return QG_OK;
}

/* FNV-1a over the text. */
static qg_status hash(printer *p, const qg_graph *g, char text[QG_FINGERPRINT_TEXT])
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    put_graph(p, g);
    if (p->status != QG_OK)
        return p->status;
    for (size_t i = 0; i < p->text.n; i++)
        h = (h ^ (unsigned char)p->text.at[i]) * UINT64_C(0x100000001b3);
    (void)snprintf(text, QG_FINGERPRINT_TEXT, "%016llx", (unsigned long long)h);
    return QG_OK;
}

qg_status qg_graph_fingerprint(const qg_graph *g, qg_arena *a,
                               char text[QG_FINGERPRINT_TEXT])
{
    printer p = { .ctx = g->ctx, .arena = a, .bare = true };
    return hash(&p, g, text);
}

qg_status qg_graph_structure(const qg_graph *g, qg_arena *a,
                             char text[QG_FINGERPRINT_TEXT])
{
    printer p = { .ctx = g->ctx, .arena = a, .bare = true, .hollow = true };
    return hash(&p, g, text);
}
