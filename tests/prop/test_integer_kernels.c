/* Plans with fast integer kernels against the definitions, bit for bit: random shapes,
 * grids and schemes. */
#include "tests/support/random_requant.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "engine/exec/run.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/recipe.h"
#include "ops/families.h"

/* -- plans ------------------------------------------------------------------------- */

/* A random node: its graph and its inputs. */
typedef struct subject {
    qg_ctx *ctx;
    qg_arena *a;
    qg_rng *rng;
    qg_graph *g;
    qg_tensor x[3];
    size_t n_x, n_value;
    qg_attr attr[8];
    size_t n_attr;
} subject;

static void put(subject *s, const char *name, size_t n, const int64_t *value)
{
    int64_t *kept = QG_NEWN(s->a, n, int64_t);
    memcpy(kept, value, n * sizeof *kept);
    s->attr[s->n_attr++] = (qg_attr){ .name = qg_intern(s->ctx, name),
                                      .type = n == 1 ? QG_ATTR_INT : QG_ATTR_INTS,
                                      .count = n,
                                      .ints = kept };
}

/* Codes drawn from all of the type, or (few) from small ones. */
static qg_tensor codes(subject *s, qg_dtype d, int32_t rank, const int64_t *dim,
                       bool few)
{
    qg_tensor t;
    qg_code_range range = qg_code_range_of(d, 0);
    qg_tensor_init(&t, d, rank, dim);
    assert_ok(s->ctx, qg_tensor_alloc(s->ctx, s->a, &t));
    for (int64_t i = 0; i < qg_tensor_count(&t); i++) {
        int32_t q = (int32_t)(few ? among(s->rng, -3, 3) + (range.lo < 0 ? 0 : 128)
                                  : among(s->rng, range.lo, range.hi));
        qg_codes_store(d, &q, t.data, (size_t)i, 1);
    }
    return t;
}

static const char *fresh(subject *s)
{
    return qg_arena_printf(s->a, "v%zu", s->n_value++);
}

static qg_value *constant(subject *s, const qg_tensor *t)
{
    qg_value *v;
    qg_tensor *kept = QG_NEW(s->a, qg_tensor);
    *kept = *t;
    assert_ok(s->ctx, qg_graph_add_value(s->g, fresh(s), &v));
    v->type = *t;
    v->type.data = NULL;
    v->constant = kept;
    return v;
}

/* A grid: one scale, or one per channel. */
static qg_stored grid(subject *s, qg_dtype d, int64_t n, bool zeros)
{
    qg_code_range range = qg_code_range_of(d, 0);
    float *scales = QG_NEWN(s->a, (size_t)n, float);
    int32_t *zero = QG_NEWN(s->a, (size_t)n, int32_t);
    for (int64_t i = 0; i < n; i++) {
        scales[i] = scale(s->rng);
        zero[i] = zeros ? (int32_t)among(s->rng, range.lo, range.hi) : 0;
    }
    return (qg_stored){ true, d, (uint32_t)n, scales, zero, 0, range.lo, range.hi };
}

/* The graph's input of the last of s->x. */
static qg_value *input(subject *s)
{
    qg_value *v;
    assert_ok(s->ctx, qg_graph_add_value(s->g, fresh(s), &v));
    v->type = s->x[s->n_x - 1];
    v->type.data = NULL;
    assert_ok(s->ctx, qg_graph_mark_input(s->g, v));
    return v;
}

/* The node with the attributes collected so far; its output. */
static qg_value *add_inner(subject *s, const char *op, const qg_recipe *r,
                           qg_value **in, uint32_t n_in)
{
    qg_value *out;
    qg_node *made;
    const qg_attr *attr;
    size_t n_attr;
    assert_ok(s->ctx, qg_recipe_write(s->g, r, s->attr, s->n_attr, &attr, &n_attr));
    assert_ok(s->ctx, qg_graph_add_value(s->g, fresh(s), &out));
    qg_node_spec spec = { .op = qg_op_find(s->ctx->registry, "quantgraph", op, 1),
                          .opset = 1,
                          .in = in,
                          .out = &out,
                          .n_out = 1,
                          .n_in = n_in,
                          .attr = attr,
                          .n_attr = n_attr };
    assert_ok(s->ctx, qg_graph_add_node(s->g, &spec, &made));
    return out;
}

static void add(subject *s, const char *op, const qg_recipe *r, qg_value **in,
                uint32_t n_in)
{
    assert_ok(s->ctx, qg_graph_mark_output(s->g, add_inner(s, op, r, in, n_in)));
}

/* x times w [channels], with or without a bias, to codes or floats. */
static void add_node(subject *s, const char *op, const qg_tensor *w, int64_t channels)
{
    qg_value *in[3] = { NULL };
    size_t tuple = (size_t)among(s->rng, 0, N_TUPLES - 1);
    bool floats = among(s->rng, 0, 5) == 0, each = among(s->rng, 0, 1);
    bool zeros = among(s->rng, 0, 3) == 0;
    qg_recipe r = {
        .row = {.id = "random", .requant = rule_of(tuple)}
    };
    r.in[0] = grid(s, s->x[0].dtype, 1, true);
    r.in[1] = grid(s, w->dtype, each ? channels : 1, zeros || w->dtype == QG_U8);
    for (uint32_t i = 0; !zeros && i < r.in[1].n && w->dtype == QG_U8; i++)
        ((int32_t *)(uintptr_t)r.in[1].zero)[i] = 128;
    if (!floats)
        r.out = grid(s, among(s->rng, 0, 1) ? QG_I8 : QG_U8, 1, true);
    if (!floats && among(s->rng, 0, 1)) /* as behind a Relu */
        *(int32_t *)(uintptr_t)r.out.zero = among(s->rng, 0, 2) ? r.out.low : 0;
    if (!floats && among(s->rng, 0, 2) == 0)
        r.out.high -= (int32_t)among(s->rng, 0, 100);
    qg_tensor bias;
    qg_tensor_init(&bias, floats ? QG_F32 : QG_I32, 1, &channels);
    assert_ok(s->ctx, qg_tensor_alloc(s->ctx, s->a, &bias));
    for (int64_t i = 0; i < channels; i++)
        if (floats)
            bias.f32[i] = (float)among(s->rng, -1000, 1000) / 7.0f;
        else
            bias.i32[i] = (int32_t)among(s->rng, -20000, 20000);
    in[0] = input(s);
    in[1] = constant(s, w);
    in[2] = constant(s, &bias);
    add(s, op, &r, in, among(s->rng, 0, 3) ? 3 : 2);
}
static qg_dtype byte_type(subject *s) { return among(s->rng, 0, 2) ? QG_I8 : QG_U8; }

static void random_conv(subject *s)
{
    bool transposed = among(s->rng, 0, 3) == 0, few = among(s->rng, 0, 1);
    int64_t per = among(s->rng, 1, 9), m = among(s->rng, 1, 17), batch = 2;
    int64_t groups = among(s->rng, 0, 2) ? 1 : among(s->rng, 2, 20);
    if (groups > 1 && among(s->rng, 0, 1))
        per = 1; /* depthwise, m the multiplier */
    int64_t kernel[2] = { among(s->rng, 1, 3), among(s->rng, 1, 4) };
    int64_t x[4] = { batch, per * groups, among(s->rng, 7, 12), among(s->rng, 7, 12) };
    int64_t w[4] = { m * groups, per, kernel[0], kernel[1] };
    if (transposed) {
        w[0] = per * groups;
        w[1] = m;
    }
    s->x[s->n_x++] = codes(s, byte_type(s), 4, x, false);
    qg_tensor weight = codes(s, byte_type(s), 4, w, few);
    put(s, "group", 1, &groups);
    put(s, "strides", 2, (int64_t[]){ among(s->rng, 1, 2), among(s->rng, 1, 2) });
    put(s, "dilations", 2, (int64_t[]){ 1, among(s->rng, 1, 2) });
    put(s, "pads", 4,
        (int64_t[]){ among(s->rng, 0, kernel[0] - 1), among(s->rng, 0, kernel[1] - 1),
                     among(s->rng, 0, kernel[0] - 1),
                     among(s->rng, 0, kernel[1] - 1) });
    add_node(s, transposed ? "IntConvTranspose" : "IntConv", &weight, m * groups);
}

static void random_matmul(subject *s)
{
    bool ta = among(s->rng, 0, 3) == 0, tb = among(s->rng, 0, 1);
    bool deep = !ta && among(s->rng, 0, 1);
    int64_t m = among(s->rng, 1, 20), n = among(s->rng, 1, 40),
            k = among(s->rng, 1, 90);
    int64_t a[3] = { 2, ta ? k : m, ta ? m : k }, b[2] = { tb ? n : k, tb ? k : n };
    s->x[s->n_x++] = codes(s, byte_type(s), deep ? 3 : 2, deep ? a : a + 1, false);
    qg_tensor weight = codes(s, byte_type(s), 2, b, among(s->rng, 0, 1));
    put(s, "transA", 1, (int64_t[]){ ta });
    put(s, "transB", 1, (int64_t[]){ tb });
    add_node(s, "IntMatMul", &weight, n);
}

/* A value of these dims: an input of the graph, or a constant. */
static qg_value *operand(subject *s, qg_dtype d, int32_t rank, const int64_t *dim)
{
    qg_tensor t = codes(s, d, rank, dim, false);
    if (s->n_x > 0 && among(s->rng, 0, 2) == 0)
        return constant(s, &t);
    s->x[s->n_x++] = t;
    return input(s);
}

static void put_text(subject *s, const char *name, const char *text)
{
    const char **kept = QG_NEW(s->a, const char *);
    *kept = text;
    s->attr[s->n_attr++] = (qg_attr){ .name = qg_intern(s->ctx, name),
                                      .type = QG_ATTR_STRING,
                                      .count = 1,
                                      .strings = kept };
}

/* Both operands move; either may be broadcast over the other's batch. */
static void random_product(subject *s)
{
    int64_t m = among(s->rng, 1, 20), n = among(s->rng, 1, 20);
    int64_t k = among(s->rng, 1, 300), batch = among(s->rng, 1, 3);
    int32_t ra = (int32_t)among(s->rng, 2, 4), rb = (int32_t)among(s->rng, 2, 4);
    bool ta = ra == 2 && among(s->rng, 0, 2) == 0, tb = among(s->rng, 0, 2) == 0;
    int64_t a[4] = { 2, batch, ta ? k : m, ta ? m : k };
    int64_t b[4] = { 2, batch, tb ? n : k, tb ? k : n };
    qg_value *in[2];
    qg_recipe r = {
        .row = {.id = "random",
                .requant = rule_of((size_t)among(s->rng, 0, N_TUPLES - 1))}
    };
    if (among(s->rng, 0, 2) == 0)
        (among(s->rng, 0, 1) ? a : b)[1] = 1;
    for (int i = 0; i < 2; i++) {
        qg_dtype d = byte_type(s);
        r.in[i] = grid(s, d, 1, i == 0 || among(s->rng, 0, 1));
        in[i] = i ? operand(s, d, rb, b + 4 - rb) : operand(s, d, ra, a + 4 - ra);
    }
    r.out = grid(s, byte_type(s), 1, true);
    put(s, "transA", 1, (int64_t[]){ ta });
    put(s, "transB", 1, (int64_t[]){ tb });
    add(s, "IntMatMul", &r, in, 2);
}

/* v [N, C, H, W] through a convolution with 1x1 kernels, which is channels-last. */
static qg_value *through_conv(subject *s, qg_value *v, const qg_stored *g)
{
    int64_t c = v->type.dim[1];
    qg_tensor w = codes(s, QG_I8, 4, (int64_t[]){ c, c, 1, 1 }, true);
    qg_value *in[2] = { v, constant(s, &w) };
    qg_recipe r = {
        .row = {.id = "random", .requant = rule_of(0)}
    };
    r.in[0] = r.out = *g;
    r.in[1] = grid(s, QG_I8, 1, false);
    return add_inner(s, "IntConv", &r, in, 2);
}

/* Each function in each of its forms; scales for which every form is defined. */
static void random_binary(subject *s)
{
    static const struct {
        const char *function;
        qg_form form;
    } all[] = {
        {"add",                 QG_FORM_FIXED    },
        { "sub",                QG_FORM_FIXED    },
        { "add",                QG_FORM_MANTISSA },
        { "add",                QG_FORM_FMA      },
        { "sub",                QG_FORM_FMA      },
        { "add",                QG_FORM_NEON     },
        { "add",                QG_FORM_SSE      },
        { "sub",                QG_FORM_PORTABLE },
        { "multiply",           QG_FORM_PLAIN    },
        { "squared-difference", QG_FORM_FIXED    },
        { "prelu",              QG_FORM_TWO_SIDES},
    };
    size_t i = (size_t)among(s->rng, 0, sizeof all / sizeof all[0] - 1);
    qg_dtype d = byte_type(s);
    bool fixed = all[i].form == QG_FORM_FIXED;
    size_t tuple = fixed ? 0 : (size_t)among(s->rng, 0, N_TUPLES - 1);
    int64_t dim[2][4] = {
        {2,   among(s->rng, 1, 9) },
        { 2, 1           }
    };
    bool last = among(s->rng, 0, 1);
    int first = (int)among(s->rng, 0, 1); /* the operand that is channels-last */
    qg_value *in[2];
    qg_recipe r = {
        .row = {.id = "random", .form = all[i].form, .requant = rule_of(tuple)}
    };
    r.row.left8 = all[i].function[0] == 's' && all[i].function[1] == 'q' ? 7 : 20;
    dim[1][1] = dim[0][1];
    for (int32_t a = 0; a < 4; a++) {
        if (a >= 2)
            dim[0][a] = dim[1][a] = among(s->rng, 1, 16);
        if (among(s->rng, 0, 3) == 0)
            dim[last ? !first : among(s->rng, 0, 1)][a] = 1;
    }
    for (int k = 0; k < 2; k++) {
        r.in[k] = grid(s, d, 1, true);
        *(float *)(uintptr_t)r.in[k].scale = ldexpf((float)among(s->rng, 64, 127), -10);
        in[k] = operand(s, d, 4, dim[k]);
        if (last && (k == first || among(s->rng, 0, 1)))
            in[k] = through_conv(s, in[k], &r.in[k]);
    }
    r.out = grid(s, d, 1, true);
    *(float *)(uintptr_t)r.out.scale = ldexpf((float)among(s->rng, 64, 127), -9);
    put_text(s, "function", all[i].function);
    add(s, "IntBinary", &r, in, 2);
}

/* Three inputs through a copy, or a table for each; in either layout. */
static void random_concat(subject *s)
{
    int32_t rank = (int32_t)among(s->rng, 1, 4), axis = (int32_t)among(s->rng, 0, 3);
    int64_t dim[4] = { 2, among(s->rng, 1, 5), among(s->rng, 1, 9), 130 };
    qg_stored all[3];
    qg_value *in[3];
    qg_dtype d = byte_type(s);
    qg_recipe r = {
        .row = {.id = "random", .form = QG_FORM_TABLE}
    };
    bool last = rank == 4 && among(s->rng, 0, 1);
    axis %= rank;
    for (int i = 0; i < 3; i++) {
        dim[4 - rank + axis] = last ? among(s->rng, 2, 9) : among(s->rng, 90, 140);
        all[i] = grid(s, d, 1, true);
        in[i] = operand(s, d, rank, dim + 4 - rank);
        in[i] = last ? through_conv(s, in[i], &all[i]) : in[i];
    }
    r.all = all;
    r.n_all = 3;
    r.out = among(s->rng, 0, 1) ? all[among(s->rng, 0, 2)] : grid(s, d, 1, true);
    put(s, "axis", 1, (int64_t[]){ axis - (among(s->rng, 0, 1) ? rank : 0) });
    add(s, "IntConcat", &r, in, 3);
}

/* Either form along any axis; rows of two codes, of some, and of hundreds. */
static void random_softmax(subject *s)
{
    bool fixed = among(s->rng, 0, 1);
    qg_dtype d = byte_type(s);
    int32_t axis = (int32_t)among(s->rng, 0, 2);
    int64_t dim[3] = { among(s->rng, 1, 9), among(s->rng, 1, 9), among(s->rng, 1, 9) };
    qg_recipe r = {
        .row = {.id = "random",
                .form = fixed ? QG_FORM_GEMMLOWP : QG_FORM_FLOAT_TABLE,
                .requant = rule_of(among(s->rng, 0, 3) ? 0 : 2)}
    };
    dim[axis] = among(s->rng, 0, 2) ? among(s->rng, 2, 300) : 2;
    if (dim[axis] == 2)
        dim[(axis + 1) % 3] = 64;
    r.in[0] = grid(s, d, 1, true);
    r.out = grid(s, fixed ? d : byte_type(s), 1, true);
    if (fixed) {
        *(float *)(uintptr_t)r.out.scale = 0x1p-8f;
        *(int32_t *)(uintptr_t)r.out.zero = d == QG_I8 ? -128 : 0;
    }
    r.out.low += (int32_t)among(s->rng, 0, 3);
    r.out.high -= (int32_t)among(s->rng, 0, 100);
    put(s, "axis", 1, (int64_t[]){ axis });
    s->x[s->n_x++] = codes(s, d, 3, dim, among(s->rng, 0, 1));
    add(s, "IntSoftmax", &r, (qg_value *[]){ input(s) }, 1);
}

/* Means over any axes; over the spatial ones also of channels-last memory. */
static void random_mean(subject *s)
{
    static const struct {
        qg_form form;
        size_t tuple;
    } forms[] = {
        {QG_FORM_PLAIN,             0},
        { QG_FORM_PLAIN,            4},
        { QG_FORM_FLOOR_MULTIPLIER, 0},
        { QG_FORM_RAW_FLOAT,        4},
        { QG_FORM_RAW_Q31,          0},
    };
    size_t f = (size_t)among(s->rng, 0, sizeof forms / sizeof forms[0] - 1);
    bool last = among(s->rng, 0, 1);
    int64_t dim[4] = { 2, among(s->rng, 1, 40), among(s->rng, 1, 9),
                       among(s->rng, 1, 9) };
    int64_t axis[2] = { last ? 2 : among(s->rng, 0, 1),
                        last ? 3 : among(s->rng, 2, 3) };
    qg_dtype d = byte_type(s);
    qg_recipe r = {
        .row = {.id = "random",
                .form = forms[f].form,
                .requant = rule_of(forms[f].tuple)}
    };
    r.in[0] = grid(s, d, 1, true);
    r.out = grid(s, d, 1, true);
    s->x[s->n_x++] = codes(s, d, 4, dim, false);
    qg_value *v = input(s);
    v = last ? through_conv(s, v, &r.in[0]) : v;
    if (last || among(s->rng, 0, 3))
        put(s, "axes", 2, axis);
    put(s, "keepdims", 1, (int64_t[]){ among(s->rng, 0, 1) });
    add(s, "IntMean", &r, &v, 1);
}

/* The bytes of the output; *kernel: the name of the kernel, NULL for the definition. */
static void result(subject *s, bool reference, qg_tensor *out, const char **kernel)
{
    qg_plan *plan;
    qg_run *run;
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .reference = reference };
    const qg_tensor *in[3] = { &s->x[0], &s->x[1], &s->x[2] };
    assert_ok(s->ctx, qg_plan_new(s->ctx, s->g, &o, &plan));
    assert_ok(s->ctx, qg_run_new(s->ctx, plan, &run));
    assert_ok(s->ctx, qg_run_execute(run, in, NULL, 0, 0));
    *out = *qg_run_output(run, 0);
    assert_ok(s->ctx, qg_tensor_alloc(s->ctx, s->a, out));
    qg_tensor_copy(qg_run_output(run, 0), out);
    *kernel = plan->kernel.n ? qg_arena_strdup(s->a, plan->kernel.at[0]->name) : NULL;
    qg_run_free(run);
    qg_plan_free(plan);
}

static void compare(qg_ctx *ctx, int round, qg_rng *rng, size_t *with_kernel,
                    void build(subject *))
{
    subject s = { .ctx = ctx, .a = qg_arena_new(qg_alloc_libc), .rng = rng };
    qg_tensor want, got;
    const char *none, *kernel;
    assert_non_null(s.a);
    assert_ok(ctx, qg_graph_new(ctx, "random", &s.g));
    build(&s);
    assert_ok(ctx, qg_graph_normalize(s.g));
    assert_ok(ctx, qg_infer(s.g, NULL, 0));
    result(&s, true, &want, &none);
    result(&s, false, &got, &kernel);
    assert_null(none);
    *with_kernel += kernel != NULL;
    size_t size;
    assert_ok(ctx, qg_tensor_bytes(ctx, "output", &want, &size));
    for (size_t i = 0; i < size; i++)
        if (want.u8[i] != got.u8[i])
            fail_msg("round %d, %s, %s: byte %zu is %d, expected %d", round,
                     s.g->node.at[0]->op->name, kernel ? kernel : "definition", i,
                     got.u8[i], want.u8[i]);
    qg_graph_free(s.g);
    qg_arena_free(s.a);
}

static void kernels_equal_the_definition(void **state)
{
    static void (*const build[])(
        subject *) = { random_conv,   random_matmul,  random_binary, random_product,
                       random_concat, random_softmax, random_mean };
    qg_rng rng = { 11 };
    size_t with_kernel = 0;
    (void)state;
    for (int round = 0; round < 1050; round++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        assert_non_null(ctx);
        ctx->registry = &qg_ops_registry;
        compare(ctx, round, &rng, &with_kernel,
                build[round % (sizeof build / sizeof build[0])]);
        qg_ctx_free(ctx);
    }
    printf("%zu of 1050 nodes had a kernel\n", with_kernel);
#if QG_HAVE_DNNL
    assert_cmp_int(with_kernel, >, 100);
#endif
}

QG_TEST_MAIN(cmocka_unit_test(kernels_equal_the_definition))
