/* parse(print(g)) is g for random graphs; hostile text is refused, never believed.
 * A failure prints the seed and the text. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "engine/ir/text.h"
#include "tests/support/graphs.h"

enum { GRAPHS = 400, MUTANTS = 4000 };

/* ---- random graphs ------------------------------------------------------------- */

static uint32_t below(qg_rng *r, uint32_t n) { return (uint32_t)qg_rng_below(r, n); }

static const char *random_text(qg_rng *r, char text[24])
{
    static const char *const odd[] = { "graph", "_",        "const", "on", "as",
                                       "193",   "a b",      "/x/y",  "::", "\"",
                                       "\\n",   "\x01\n\t", "é" };
    if (below(r, 3) == 0)
        return odd[below(r, sizeof odd / sizeof odd[0])];
    (void)snprintf(text, 24, "%c%u", 'a' + (int)below(r, 26), below(r, 1000));
    return text;
}

/* A fresh value with a random name and, often, a random type. */
static qg_value *random_value(qg_graph *g, qg_rng *r)
{
    char text[24];
    const char *name = random_text(r, text);
    qg_value *v = NULL;
    int64_t dim[QG_MAX_RANK];
    int32_t rank = (int32_t)below(r, QG_MAX_RANK + 1);
    assert_ok(g->ctx, qg_graph_add_value(g, qg_graph_value(g, name) ? NULL : name, &v));
    for (int k = 0; k < rank; k++)
        dim[k] = (int64_t)below(r, 5) - 1;
    if (below(r, 4) == 0)
        return v;
    qg_tensor_init(&v->type, (qg_dtype)below(r, QG_NDTYPE), rank, dim);
    for (int k = 0; k < rank; k++)
        if (below(r, 3) == 0)
            v->dim_name[k] = qg_intern(g->ctx, random_text(r, text));
    return v;
}

static const qg_tensor *random_tensor(qg_graph *g, qg_rng *r)
{
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    int64_t dim[2] = { below(r, 6), below(r, 6) };
    size_t bytes = 0;
    qg_tensor_init(t, (qg_dtype)(1 + below(r, QG_NDTYPE - 1)), (int32_t)below(r, 3),
                   dim);
    assert_ok(g->ctx, qg_tensor_alloc(g->ctx, g->arena, t));
    assert_ok(g->ctx, qg_tensor_bytes(g->ctx, "test", t, &bytes));
    for (size_t i = 0; i < bytes; i++)
        t->u8[i] = (uint8_t)qg_rng_next(r);
    uint64_t spare = (uint64_t)qg_tensor_count(t) * qg_dtype_bits(t->dtype) % 8;
    if (spare) /* padding bits are zero */
        t->u8[bytes - 1] &= (uint8_t)((1u << spare) - 1);
    return t;
}

static qg_graph *random_graph(qg_ctx *ctx, qg_graph *outer, qg_rng *r, int depth);

static qg_attr random_attr(qg_graph *g, qg_rng *r, int depth)
{
    char text[24];
    qg_attr a = { .type = (qg_attr_type)below(r, QG_NATTR) };
    bool graphs = a.type == QG_ATTR_GRAPH || a.type == QG_ATTR_GRAPHS;
    if (graphs && depth == 0)
        a.type = QG_ATTR_INTS;
    a.count = a.type <= QG_ATTR_GRAPH ? 1 : below(r, 3);
    int64_t *ints = QG_NEWN(g->arena, 3, int64_t);
    const char **strings = QG_NEWN(g->arena, 3, const char *);
    qg_graph **bodies = QG_NEWN(g->arena, 3, qg_graph *);
    for (int i = 0; i < 3; i++) {
        ints[i] = (int64_t)qg_rng_next(r);
        strings[i] = qg_arena_strdup(g->arena, random_text(r, text));
    }
    if (a.type == QG_ATTR_STRING || a.type == QG_ATTR_STRINGS) {
        a.strings = strings;
    } else if (a.type == QG_ATTR_TENSOR) {
        a.tensor = random_tensor(g, r);
    } else if (a.type == QG_ATTR_GRAPH || a.type == QG_ATTR_GRAPHS) {
        for (size_t i = 0; i < a.count; i++)
            bodies[i] = random_graph(g->ctx, g, r, depth - 1);
        a.graphs = bodies;
    } else {
        a.ints = ints; /* any bits are floats as well */
    }
    return a;
}

static void random_node(qg_graph *g, qg_rng *r, int depth)
{
    char text[24];
    qg_value *in[4], *out[3];
    const char *capture[4];
    qg_node *n = NULL;
    qg_node_spec spec = { .in = in,
                          .out = out,
                          .opset = 1 + below(r, 2),
                          .op = qg_op_find(&toy_registry, "test", "Custom", 1) };
    const char *name = random_text(r, text);
    spec.name = below(r, 2) && !qg_graph_node(g, name) ? name : NULL;
    spec.n_in = below(r, 5);
    spec.n_out = below(r, 4);
    for (uint32_t i = 0; i < spec.n_in; i++)
        in[i] = below(r, 4) && g->value.n ? g->value.at[below(r, (uint32_t)g->value.n)]
                                          : NULL;
    while (spec.n_capture < spec.n_in && in[spec.n_in - 1 - spec.n_capture])
        spec.n_capture++;
    for (uint32_t i = 0; i < spec.n_capture; i++)
        capture[i] = qg_intern(g->ctx, random_text(r, text));
    spec.capture = QG_NEWN(g->arena, 4, const char *);
    memcpy((void *)(uintptr_t)spec.capture, capture, spec.n_capture * sizeof *capture);
    for (uint32_t i = 0; i < spec.n_out; i++)
        out[i] = below(r, 5) ? random_value(g, r) : NULL;
    spec.n_attr = below(r, 4);
    qg_attr *attr = QG_NEWN(g->arena, 4, qg_attr);
    for (size_t i = 0; i < spec.n_attr; i++) {
        static const char *const names[] = { "axis", "on", "two words", "as" };
        attr[i] = random_attr(g, r, depth);
        attr[i].name = qg_intern(g->ctx, names[i]);
    }
    spec.attr = attr;
    assert_ok(g->ctx, qg_graph_add_node(g, &spec, &n));
    n->platform = (enum qg_platform)below(r, 4);
    if (n->platform && below(r, 2))
        n->reason = "because \"it\" is so";
}

static qg_graph *random_graph(qg_ctx *ctx, qg_graph *outer, qg_rng *r, int depth)
{
    qg_graph *g = NULL;
    char text[24];
    assert_ok(ctx, outer ? qg_graph_new_body(outer, random_text(r, text), &g)
                         : qg_graph_new(ctx, random_text(r, text), &g));
    g->ir_version = below(r, 3);
    if (!outer && below(r, 2))
        assert_ok(ctx, qg_vec_push(ctx, g->arena, &g->opset,
                                   (qg_opset_import){ below(r, 2) ? "test" : "", 1 }));
    for (uint32_t i = below(r, 4); i > 0; i--)
        assert_ok(ctx, qg_graph_mark_input(g, random_value(g, r)));
    for (uint32_t i = below(r, 4); i > 0; i--) {
        qg_value *v = random_value(g, r);
        v->constant = random_tensor(g, r);
        qg_tensor_init(&v->type, v->constant->dtype, v->constant->rank,
                       v->constant->dim);
        memset(v->dim_name, 0, sizeof v->dim_name);
    }
    for (uint32_t i = below(r, 6); i > 0; i--)
        random_node(g, r, depth);
    for (size_t i = 0; i < g->value.n; i++)
        if (below(r, 4) == 0)
            assert_ok(ctx, qg_graph_mark_output(g, g->value.at[i]));
    assert_ok(ctx, qg_graph_normalize(g));
    return g;
}

/* ---- equality, apart from ids of values ---------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_tensor(const qg_tensor *a, const qg_tensor *b)
{
    size_t n = 0;
    if (!a || !b)
        return a == b;
    return a->dtype == b->dtype && qg_same_dims(a, b) &&
           qg_dtype_bytes(a->dtype, (uint64_t)qg_tensor_count(a), &n) &&
           memcmp(a->data, b->data, n) == 0;
}

static bool same_value(const qg_value *a, const qg_value *b)
{
    if (!a || !b)
        return a == b;
    for (int k = 0; k < a->type.rank; k++)
        if (a->dim_name[k] != b->dim_name[k])
            return false;
    return a->name == b->name && a->type.dtype == b->type.dtype &&
           qg_same_dims(&a->type, &b->type) && same_tensor(a->constant, b->constant) &&
           a->use.n == b->use.n && a->is_input == b->is_input &&
           a->is_output == b->is_output && !a->def == !b->def;
}

static bool same_graph(const qg_graph *a, const qg_graph *b);

static bool same_attr(const qg_attr *a, const qg_attr *b)
{
    bool same = a->name == b->name && a->type == b->type && a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        switch (a->type) {
        case QG_ATTR_STRING:
        case QG_ATTR_STRINGS:
            same = same_text(a->strings[i], b->strings[i]);
            break;
        case QG_ATTR_TENSOR:
            same = same_tensor(a->tensor, b->tensor);
            break;
        case QG_ATTR_GRAPH:
        case QG_ATTR_GRAPHS:
            same = same_graph(a->graphs[i], b->graphs[i]);
            break;
        case QG_ATTR_FLOAT:
        case QG_ATTR_FLOATS:
            same = memcmp(&a->floats[i], &b->floats[i], sizeof(float)) == 0;
            break;
        default:
            same = a->ints[i] == b->ints[i];
        }
    return same;
}

static bool same_node(const qg_node *a, const qg_node *b)
{
    bool same = a->name == b->name && a->op == b->op && a->opset == b->opset &&
                a->n_in == b->n_in && a->n_out == b->n_out && a->n_attr == b->n_attr &&
                a->n_capture == b->n_capture && a->platform == b->platform &&
                same_text(a->reason, b->reason);
    for (uint32_t i = 0; same && i < a->n_in; i++)
        same = same_value(a->in[i], b->in[i]);
    for (uint32_t i = 0; same && i < a->n_out; i++)
        same = same_value(a->out[i], b->out[i]);
    for (size_t i = 0; same && i < a->n_attr; i++)
        same = same_attr(&a->attr[i], &b->attr[i]);
    for (uint32_t i = 0; same && i < a->n_capture; i++)
        same = a->capture[i] == b->capture[i];
    return same;
}

static bool same_graph(const qg_graph *a, const qg_graph *b)
{
    bool same = a->name == b->name && a->ir_version == b->ir_version &&
                a->node.n == b->node.n && a->value.n == b->value.n &&
                a->input.n == b->input.n && a->output.n == b->output.n &&
                a->opset.n == b->opset.n;
    for (size_t i = 0; same && i < a->node.n; i++)
        same = same_node(a->node.at[i], b->node.at[i]);
    for (size_t i = 0; same && i < a->input.n; i++)
        same = same_value(a->input.at[i], b->input.at[i]);
    for (size_t i = 0; same && i < a->output.n; i++)
        same = same_value(a->output.at[i], b->output.at[i]);
    for (size_t i = 0; same && i < a->value.n; i++)
        same = same_value(a->value.at[i], qg_graph_value(b, a->value.at[i]->name));
    for (size_t i = 0; same && i < a->opset.n; i++)
        same = same_text(a->opset.at[i].domain, b->opset.at[i].domain) &&
               a->opset.at[i].version == b->opset.at[i].version;
    return same;
}

static void random_graphs_survive(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_rng rng = { seed };
        qg_text_table *table = NULL;
        char *text, *again;
        size_t n;
        ctx->registry = &toy_registry;
        qg_graph *g = random_graph(ctx, NULL, &rng, 2), *back = NULL;
        assert_ok(ctx, qg_text_table_new(ctx, &table));
        assert_ok(ctx, qg_text_print(g, table, ctx->arena, &text, &n));
        qg_text_source source = { "random", text, n, table };
        if (qg_text_parse(ctx, &source, &back) != QG_OK || !same_graph(g, back))
            fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, qg_ctx_message(ctx),
                     text);
        assert_ok(ctx, qg_text_print(back, table, ctx->arena, &again, &n));
        assert_string_equal(text, again);
        qg_text_table_free(table);
        qg_graph_free(back);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

/* ---- hostile text -------------------------------------------------------------- */

static const char seed_text[] =
    "graph \"g\" { opset 13; opset test 1\n x = input f32[N=1,3,?,8]\n"
    "w = const f32[4,3] ramp(-1,1); k = const i64[2] [1, -2]\n"
    "c f32[...] = Conv n1(x, w, _) on fp32 \"r\" pads=[1,1] s=\"a\\x41\" t=u8[1] [7] "
    "e=ints []\n"
    "a, b = Split(k); y = If(a | b as z) then=graph { z = outer; q = Relu(z); output q "
    "}\n"
    "output c, y }\n";

static size_t mutate(qg_rng *r, char *text, size_t n, size_t room)
{
    static const char pieces[] =
        "[](){}|=,;\"\\#@_?.-0123456789exinfgraphconst\n\0\xff ";
    for (uint32_t k = 1 + below(r, 4); k > 0; k--) {
        size_t at = below(r, (uint32_t)n), span = 1 + below(r, 8);
        char c = pieces[below(r, sizeof pieces - 1)];
        switch (below(r, 3)) {
        case 0:
            text[at] = c;
            break;
        case 1:
            if (n + 1 < room) {
                memmove(text + at + 1, text + at, n - at);
                text[at] = c;
                n++;
            }
            break;
        default:
            if (at + span < n && n > 16) {
                memmove(text + at, text + at + span, n - at - span);
                n -= span;
            }
        }
    }
    return n;
}

static void hostile_text_is_refused_or_sound(void **state)
{
    (void)state;
    size_t accepted = 0;
    for (uint64_t seed = 1; seed <= MUTANTS; seed++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_rng rng = { seed };
        char scratch[sizeof seed_text + 16];
        memcpy(scratch, seed_text, sizeof seed_text);
        size_t n = mutate(&rng, scratch, sizeof seed_text - 1, sizeof scratch);
        char *text = malloc(n); /* exact size: the sanitizer sees a byte too far */
        assert_non_null(text);
        memcpy(text, scratch, n);
        qg_graph *g = NULL;
        qg_text_source source = { "hostile", text, n, NULL };
        ctx->registry = &toy_registry;
        qg_status s = qg_text_parse(ctx, &source, &g);
        if (s == QG_OK) {
            char *print;
            accepted++;
            assert_ok(ctx, qg_text_print(g, NULL, ctx->arena, &print, &n));
            qg_graph_free(g);
        } else if (strncmp(qg_ctx_message(ctx), "parse: hostile:", 15) != 0) {
            fail_msg("seed %llu: message without place: %s", (unsigned long long)seed,
                     qg_ctx_message(ctx));
        }
        free(text);
        qg_ctx_free(ctx);
    }
    assert_in_range(accepted, MUTANTS / 100, MUTANTS - MUTANTS / 4);
}

QG_TEST_MAIN(cmocka_unit_test(random_graphs_survive),
             cmocka_unit_test(hostile_text_is_refused_or_sound))
