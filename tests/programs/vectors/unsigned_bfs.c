/* unsigned_bfs.json: which activations are unsigned.  Each graph is built from our
 * operators; a quantizer is an Identity with a record on its output. */
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/quant/nonnegative.h"
#include "ops/families.h"
#include "tests/programs/vectors/vectors.h"

/* Kinds of the file; each is one or two nodes. */
static const struct {
    const char *kind, *op, *then; /* then: NULL, or a second node behind */
    bool quantizer, is_unsigned, weights;
} kinds[] = {
    {"fq_u",       "Identity",   NULL,   true,  true,  false},
    { "fq_s",      "Identity",   NULL,   true,  false, false},
    { "relu",      "Relu",       NULL,   false, false, false},
    { "conv",      "Conv",       NULL,   false, false, true },
    { "conv_relu", "Conv",       "Relu", false, false, true },
    { "pool",      "MaxPool",    NULL,   false, false, false},
    { "up",        "Upsample",   NULL,   false, false, false},
    { "add",       "Add",        NULL,   false, false, false},
    { "flatten",   "Flatten",    NULL,   false, false, false},
    { "mean",      "ReduceMean", NULL,   false, false, false},
};

typedef struct maker {
    vec_run *v;
    qg_graph *g;
    qg_quant *q;
} maker;

static void must(const maker *m, qg_status s)
{
    if (s != QG_OK)
        vec_malformed("%s", qg_ctx_message(m->v->ctx));
}

static const qg_attr *attributes(maker *m, size_t *n)
{
    static const int64_t two[] = { 2, 2 };
    static const float twice[] = { 1, 1, 2, 2 };
    qg_attr *a = VEC_NEW(m->v, 2, qg_attr);
    a[0] = (qg_attr){ .name = qg_intern(m->v->ctx, "kernel_shape"),
                      .type = QG_ATTR_INTS,
                      .count = 2,
                      .ints = two };
    a[1] = (qg_attr){ .name = qg_intern(m->v->ctx, "scales"),
                      .type = QG_ATTR_FLOATS,
                      .count = 4,
                      .floats = twice };
    *n = 2;
    return a;
}

static qg_node *add_node(maker *m, const char *op, qg_value **in, uint32_t n_in,
                         qg_value *out)
{
    qg_node *n;
    size_t n_attr;
    const qg_attr *attr = attributes(m, &n_attr);
    qg_node_spec spec = { .op = qg_op_find(m->v->ctx->registry, "", op, 8),
                          .opset = 8,
                          .in = in,
                          .n_in = n_in,
                          .out = &out,
                          .n_out = 1,
                          .attr = attr,
                          .n_attr = n_attr };
    if (!spec.op)
        vec_malformed("no operator %s", op);
    must(m, qg_graph_add_node(m->g, &spec, &n));
    return n;
}

static void add_record(maker *m, qg_node *n, bool is_unsigned)
{
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                    .bits = 8,
                    .axis = -1,
                    .qmin = is_unsigned ? 0 : -128,
                    .qmax = is_unsigned ? 255 : 127 };
    qg_tqc *t;
    must(m, qg_quant_add(m->q, n, true, 0, &s, &t));
}

/* A constant of either sign. */
static qg_value *weights(maker *m)
{
    static float w[] = { -1, 1 };
    qg_tensor *t = VEC_NEW(m->v, 1, qg_tensor);
    qg_value *v;
    qg_tensor_init(t, QG_F32, 4, (int64_t[]){ 1, 2, 1, 1 });
    t->f32 = w;
    must(m, qg_edit_add_constant(m->g, "w", t, &v));
    return v;
}

static void add_kind(maker *m, const json *node, size_t k)
{
    qg_value *in[8], *out, *between;
    uint32_t n_in = 0;
    must(m, qg_graph_need_value(m->g, js_key(node), &out));
    JS_EACH(name, js_get(node, "inputs"))
    must(m, qg_graph_need_value(m->g, js_text(name), &in[n_in++ % 8]));
    if (kinds[k].weights)
        in[n_in++] = weights(m);
    between = out;
    if (kinds[k].then)
        must(m, qg_graph_add_value(m->g, NULL, &between));
    qg_node *n = add_node(m, kinds[k].op, in, n_in, between);
    if (kinds[k].quantizer)
        add_record(m, n, kinds[k].is_unsigned);
    if (kinds[k].then)
        (void)add_node(m, kinds[k].then, &between, 1, out);
}

static void add_named(maker *m, const json *node)
{
    const char *kind = js_str(node, "kind");
    qg_value *v;
    if (strcmp(kind, "placeholder") == 0) {
        must(m, qg_graph_need_value(m->g, js_key(node), &v));
        must(m, qg_graph_mark_input(m->g, v));
        return;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (strcmp(kinds[k].kind, kind) == 0) {
            add_kind(m, node, k);
            return;
        }
    vec_malformed("kind %s", kind);
}

static void one_case(vec_run *v, const json *c)
{
    maker m = { .v = v };
    uint8_t *nonnegative;
    vec_case(v, "%s", js_str(c, "name"));
    must(&m, qg_graph_new(v->ctx, "case", &m.g));
    must(&m, qg_quant_new(m.g, NULL, &m.q));
    JS_EACH(node, js_get(c, "nodes"))
    add_named(&m, node);
    qg_value *target = qg_graph_value(m.g, js_str(c, "target"));
    must(&m, target ? qg_graph_mark_output(m.g, target) : QG_EMODEL);
    must(&m, qg_graph_normalize(m.g));
    if (vec_ok(v, "values", qg_nonnegative_values(m.g, m.g->arena, &nonnegative)))
        vec_same_i64(v, "recommended_all_paths_rule", nonnegative[target->id],
                     js_true(js_get(c, "recommended_all_paths_rule")));
    qg_graph_free(m.g);
}

void vec_unsigned_bfs(vec_run *v, const json *root)
{
    v->ctx->registry = &qg_ops_registry;
    JS_EACH(c, js_get(root, "cases"))
    one_case(v, c);
}
