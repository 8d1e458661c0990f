/* Kernels that the operators compile: bits equal to those of separate nodes, which a
 * watched plan runs, and a run that allocates nothing the second time. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/exec/run.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

/* Conv -> Batch -> Relu = r; r -> Batch -> Add(r) -> Clip = a; Concat(a, r) -> Softmax
 * over channels.  All of it channels-last but for the Softmax. */
static const char network[] =
    "graph {\n opset 17\n x = input float32[1,4,9,5]\n"
    " w = const float32[4,4,1,1] [0.5, -0.25, 1, 0.75, -0.5, 0.125, 0.3, -1,"
    " 0.7, 0.2, -0.9, 0.4, 1.5, -0.6, 0.1, -0.3]\n"
    " scale = const float32[4] [1.5, 0.5, -0.75, 2]\n"
    " bias = const float32[4] [0.1, -0.2, 0.3, 0]\n"
    " mean = const float32[4] [0.05, -0.15, 0.25, 0]\n"
    " variance = const float32[4] [0.5, 1.5, 0.1, 2]\n"
    " low = const float32[] [-0.25]\n high = const float32[] [0.5]\n"
    " c = Conv(x, w)\n b = BatchNormalization(c, scale, bias, mean, variance)\n"
    " r = Relu(b)\n d = BatchNormalization(r, bias, scale, mean, variance)\n"
    " s = Add(d, r)\n a = Clip(s, low, high)\n j = Concat(a, r) axis=1\n"
    " y = Softmax(j) axis=1\n output y, c\n}";

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
} fixture;

static fixture open_text(const char *text)
{
    fixture t = { .ctx = qg_ctx_new(qg_alloc_libc) };
    const qg_text_source source = { .text = text, .size = strlen(text) };
    assert_non_null(t.ctx);
    t.ctx->registry = &qg_ops_registry;
    assert_ok(t.ctx, qg_text_parse(t.ctx, &source, &t.g));
    assert_ok(t.ctx, qg_infer(t.g, NULL, 0));
    return t;
}

static fixture open_network(void) { return open_text(network); }

static void close_network(fixture *t)
{
    qg_graph_free(t->g);
    qg_ctx_free(t->ctx);
}

/* A run of its own with the input of `seed`. */
static qg_run *run_of(fixture *t, const qg_plan_options *o, qg_plan **p, uint64_t seed)
{
    qg_run *r;
    qg_rng rng = { seed };
    qg_tensor x = t->g->input.at[0]->type;
    assert_ok(t->ctx, qg_plan_new(t->ctx, t->g, o, p));
    assert_ok(t->ctx, qg_run_new(t->ctx, *p, &r));
    assert_ok(t->ctx, qg_tensor_alloc(t->ctx, t->ctx->arena, &x));
    for (int64_t i = 0; i < qg_tensor_count(&x); i++)
        x.f32[i] = qg_rng_range(&rng, -1, 1);
    assert_ok(t->ctx, qg_run_execute(r, (const qg_tensor *const[]){ &x }, NULL, 0, 0));
    return r;
}

static void absorbing_changes_no_bits(void **state)
{
    const qg_plan_options fused = { 0 }, open = { .watch_all = true },
                          slow = { .reference = true };
    qg_plan *p[3];
    (void)state;
    fixture t = open_network();
    for (uint64_t seed = 1; seed < 4; seed++) {
        qg_run *r[] = { run_of(&t, &fused, &p[0], seed), run_of(&t, &open, &p[1], seed),
                        run_of(&t, &slow, &p[2], seed) };
        const qg_tensor *y[] = { qg_run_output(r[0], 0), qg_run_output(r[1], 0),
                                 qg_run_output(r[2], 0) };
        size_t n = (size_t)qg_tensor_count(y[0]);
        assert_int_equal(p[0]->report.absorbed, QG_HAVE_DNNL ? 2 : 1);
        assert_int_equal(p[1]->report.absorbed, 0);
        assert_memory_equal(y[0]->f32, y[1]->f32, n * sizeof(float));
        for (size_t i = 0; i < n; i++)
            assert_cmp_f64(fabsf(y[0]->f32[i] - y[2]->f32[i]), <=, 1e-6f);
        for (int k = 0; k < 3; k++) {
            qg_run_free(r[k]);
            qg_plan_free(p[k]);
        }
    }
    close_network(&t);
}

#define FOLLOWED                                                                       \
    "graph {\n opset 17\n x = input float32[1,4,9,5]\n"                                \
    " scale = const float32[4] [1.5, 0.5, -0.75, 2]\n"                                 \
    " bias = const float32[4] [0.1, -0.2, 0.3, 0]\n"                                   \
    " variance = const float32[4] [0.5, 1.5, 0.1, 2]\n"                                \
    " plus = const float32[1,4,1,1] [-0.5, 0.25, 0, 0.125]\n"                          \
    " no = const float32[4] [0.1, -0.2, 0, inf]\n"
#define BATCH "b = BatchNormalization(i, scale, bias, bias, variance)\n"

/* What may follow a convolution and is affine per channel, finite or not. */
/* clang-format off */
static const char *const followed[] = {
    FOLLOWED " w = const float32[4,4,3,3] seed(7)\n"
    " c = Conv(x, w) pads=[1,1,1,1]\n i = Identity(c)\n " BATCH
    " s = Add(plus, b)\n y = Relu(s)\n output y\n}",
    FOLLOWED " w = const float32[4,1,2,2] seed(7)\n"
    " i = Conv(x, w, bias) group=4\n " BATCH
    " t = Tanh(b)\n y = Identity(t)\n output y\n}",
    FOLLOWED " w = const float32[4,4,2,2] seed(7)\n"
    " i = ConvTranspose(x, w)\n " BATCH " y = Clip(b)\n output y\n}",
    FOLLOWED " w = const float32[4,2,2,2] seed(7)\n"
    " i = ConvTranspose(x, w) group=2\n " BATCH " y = Neg(b)\n output y\n}",
    FOLLOWED " w = const float32[4,16,2,2] seed(7)\n i = ConvTranspose(x, w)"
    " strides=[2,2]\n y = Relu(i)\n output y\n}",
    FOLLOWED " w = const float32[4,3,2,2] seed(7)\n i = ConvTranspose(x, w)"
    " strides=[2,2]\n y = Relu(i)\n output y\n}",
    FOLLOWED " w = const float32[4,4,1,1] seed(7)\n i = Conv(x, w)\n"
    " b = BatchNormalization(i, scale, no, bias, variance)\n y = Neg(b)\n"
    " output y\n}",
    FOLLOWED " w = const float32[5,4,1,1] seed(7)\n c = Conv(x, w)\n"
    " row = const float32[5] [1, 2, 3, 4, 5]\n y = Add(c, row)\n"
    " output y\n}",
};
/* clang-format on */

static void watching_keeps_the_bits_of_a_convolution(void **state)
{
    const qg_plan_options fused = { 0 }, open = { .watch_all = true };
    (void)state;
    for (size_t i = 0; i < sizeof followed / sizeof *followed; i++) {
        qg_plan *p[2];
        fixture t = open_text(followed[i]);
        qg_run *r[] = { run_of(&t, &fused, &p[0], 1), run_of(&t, &open, &p[1], 1) };
        const qg_tensor *y[] = { qg_run_output(r[0], 0), qg_run_output(r[1], 0) };
        for (int64_t k = 0; k < qg_tensor_count(y[0]); k++) {
            float a = y[0]->f32[k], b = y[1]->f32[k];
            if (!isnan(a) || !isnan(b))
                assert_cmp_f64(a, ==, b);
        }
        for (int k = 0; k < 2; k++) {
            qg_run_free(r[k]);
            qg_plan_free(p[k]);
        }
        close_network(&t);
    }
}

/* Element-wise chains, and how many nodes the kernels absorb. */
#define PICTURE                                                                        \
    "graph {\n opset 17\n x = input float32[2,5,40,31]\n"                              \
    " w = const float32[5,5,1,1] seed(7)\n two = const float32[] [1.4142135]\n"        \
    " one = const float32[1] [1]\n half = const float32[] [0.5]\n"                     \
    " row = const float32[31] seed(8)\n"
/* clang-format off */
static const struct {
    const char *text;
    uint32_t absorbed;
} chains[] = {
    { PICTURE " s = Sigmoid(x)\n y = Mul(x, s)\n output y\n}", 1 },
    { PICTURE " s = Sigmoid(x)\n m = Mul(s, x)\n y = Mul(m, half)\n output y\n}", 2 },
    { PICTURE " s = Sigmoid(x)\n m = Mul(s, half)\n y = Mul(x, m)\n output y\n}", 2 },
    { PICTURE " c = Conv(x, w)\n s = HardSigmoid(c) alpha=0.25\n y = Mul(s, c)\n"
      " output y\n}", 1 },
    { PICTURE " d = Div(x, two)\n e = Erf(d)\n p = Add(e, one)\n m = Mul(x, p)\n"
      " y = Mul(m, half)\n output y\n}", 4 },
    { PICTURE " n = Sub(one, x)\n q = Sqrt(n)\n d = Div(two, q)\n z = Sub(d, x)\n"
      " l = LeakyRelu(z) alpha=0.3\n y = Clip(l, half, two)\n output y\n}", 5 },
    { PICTURE " s = Sigmoid(x)\n y = Mul(s, row)\n output y\n}", 0 },
    { PICTURE " s = Sigmoid(x)\n y = Mul(x, s)\n output y, s\n}", 0 },
    { PICTURE " s = Tanh(x)\n y = Mul(s, s)\n output y\n}", 0 },
    { PICTURE " c = Conv(x, w)\n y = Add(c, x)\n output y\n}", 0 },
    { PICTURE " s = Softsign(x)\n y = Mul(x, s)\n output y\n}", 0 },
};
/* clang-format on */

static void chains_keep_the_bits_of_their_nodes(void **state)
{
    const qg_plan_options fused = { 0 }, open = { .watch_all = true };
    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        qg_plan *p[2];
        fixture t = open_text(chains[i].text);
        qg_run *r[] = { run_of(&t, &fused, &p[0], 1), run_of(&t, &open, &p[1], 1) };
        assert_int_equal(p[0]->report.absorbed, chains[i].absorbed);
        assert_int_equal(p[1]->report.absorbed, 0);
        for (size_t o = 0; o < t.g->output.n; o++) {
            const qg_tensor *a = qg_run_output(r[0], o), *b = qg_run_output(r[1], o);
            for (int64_t k = 0; k < qg_tensor_count(a); k++)
                if (!isnan(a->f32[k]) || !isnan(b->f32[k]))
                    assert_memory_equal(&a->f32[k], &b->f32[k], sizeof *a->f32);
        }
        for (int k = 0; k < 2; k++) {
            qg_run_free(r[k]);
            qg_plan_free(p[k]);
        }
        close_network(&t);
    }
}

/* `a` reads what the convolution wrote, channels-last; `b` reads a plain copy. */
#define BOTH(op, attributes)                                                           \
    "graph {\n opset 18\n x = input float32[2,8,6,8]\n"                                \
    " w = const float32[8,8,1,1] seed(7)\n shape = const int64[4] [2, 8, 6, 8]\n"      \
    " space = const int64[2] [2, 3]\n last = const int64[1] [3]\n"                     \
    " sizes = const int64[4] [2, 8, 9, 11]\n none = const float32[0] []\n"             \
    " double = const float32[4] [1, 1, 2, 2]\n c = Conv(x, w)\n a = " op               \
    "(c" attributes "\n r = Reshape(c, shape)\n b = " op "(r" attributes               \
    "\n output a, b\n}"
/* clang-format off */
static const struct {
    const char *text;
    bool has_kernel;
} layouts[] = {
    { BOTH("Resize", ", none, double) mode=\"nearest\""), true },
    { BOTH("Resize", ", none, none, sizes) mode=\"linear\""), true },
    { BOTH("Resize", ", none, none, sizes) mode=\"cubic\""), true },
    { BOTH("DepthToSpace", ") blocksize=2 mode=\"DCR\""), true },
    { BOTH("DepthToSpace", ") blocksize=2 mode=\"CRD\""), true },
    { BOTH("SpaceToDepth", ") blocksize=2"), true },
    { BOTH("ReduceMax", ", space) keepdims=0"), true },
    { BOTH("ReduceMin", ", space)"), true },
    { BOTH("ReduceMax", ", last)"), false },
};
/* clang-format on */

static bool has_kernel(const qg_plan *p, const char *name)
{
    for (size_t i = 0; i < p->kernel.n; i++)
        if (strstr(p->kernel.at[i]->name, name))
            return true;
    return false;
}

static void layouts_keep_the_bits(void **state)
{
    const qg_plan_options o = { 0 };
    (void)state;
    for (size_t i = 0; QG_HAVE_DNNL && i < sizeof layouts / sizeof *layouts; i++) {
        qg_plan *p;
        fixture t = open_text(layouts[i].text);
        qg_run *r = run_of(&t, &o, &p, 1);
        const qg_tensor *a = qg_run_output(r, 0), *b = qg_run_output(r, 1);
        if (has_kernel(p, "channels-last") != layouts[i].has_kernel)
            fail_msg("network %zu: kernel %d", i, (int)!layouts[i].has_kernel);
        assert_memory_equal(a->f32, b->f32,
                            (size_t)qg_tensor_count(a) * sizeof *a->f32);
        qg_run_free(r);
        qg_plan_free(p);
        close_network(&t);
    }
}

#define SERIES(gates, dirs, n)                                                         \
    "graph {\n opset 17\n x = input float32[5,2,7]\n"                                  \
    " w = const float32[" dirs "," gates ",7] seed(3)\n"                               \
    " r = const float32[" dirs "," gates "," n "] seed(4)\n"
#define PIXELS(channels, kernel)                                                       \
    "graph {\n opset 17\n x = input float32[2,5,6,7]\n"                                \
    " w = const float32[5," channels "," kernel "] seed(3)\n"                          \
    " b = const float32[" channels "] seed(4)\n"
#define LENGTHS " t = const int32[2] [5, 3]\n"

/* Kernels that sum in another order than the definition.  33 is no multiple of the
 * width of a panel. */
/* clang-format off */
static const char *const summed[] = {
    SERIES("132", "1", "33") " b = const float32[1,264] seed(5)\n"
    " p = const float32[1,99] seed(6)\n" LENGTHS
    " y, h, c = LSTM(x, w, r, b, t, _, _, p) hidden_size=33\n output y, h, c\n}",
    SERIES("132", "2", "33") " b = const float32[2,264] seed(5)\n"
    " y = LSTM(x, w, r, b) hidden_size=33 direction=\"bidirectional\" clip=0.75"
    " input_forget=1\n output y\n}",
    SERIES("99", "1", "33") " b = const float32[1,198] seed(5)\n" LENGTHS
    " y = GRU(x, w, r, b, t)"
    " hidden_size=33 direction=\"reverse\" linear_before_reset=1\n"
    " output y\n}",
    SERIES("99", "1", "33") " b = const float32[1,198] seed(5)\n"
    " y = GRU(x, w, r, b) hidden_size=33 activations=[\"HardSigmoid\",\"Softsign\"]\n"
    " output y\n}",
    SERIES("32", "1", "32") " y = RNN(x, w, r) hidden_size=32\n output y\n}",
    PIXELS("8", "2,3") " y = ConvTranspose(x, w, b) strides=[2,3]\n output y\n}",
    PIXELS("1", "2,3") " y = ConvTranspose(x, w, b) strides=[2,3]\n output y\n}",
    PIXELS("16", "2,2") " y = ConvTranspose(x, w) strides=[2,2]\n output y\n}",
    "graph {\n opset 17\n x = input float32[5,2,7]\n w = const float32[7,6] seed(3)\n"
    " y = MatMul(x, w)\n output y\n}",
    "graph {\n opset 17\n x = input float32[5,2,7]\n"
    " w = const float32[1,1,7,6] seed(3)\n y = MatMul(x, w)\n output y\n}",
};
/* clang-format on */

/* The network with kernels, as a plan of its own, against the definition. */
static void compare(const char *text, size_t number, size_t least, size_t most)
{
    const qg_plan_options fast = { 0 }, slow = { .reference = true };
    qg_plan *p[2];
    fixture t = open_text(text);
    qg_run *r[] = { run_of(&t, &fast, &p[0], 1), run_of(&t, &slow, &p[1], 1) };
    assert_in_range(p[0]->report.kernels, least, most);
    assert_int_equal(p[1]->report.kernels, 0);
    for (size_t o = 0; o < t.g->output.n; o++) {
        const qg_tensor *a = qg_run_output(r[0], o), *b = qg_run_output(r[1], o);
        for (int64_t k = 0; k < qg_tensor_count(a); k++)
            if (!(fabsf(a->f32[k] - b->f32[k]) <= 2e-5f * (1 + fabsf(b->f32[k]))))
                fail_msg("network %zu, output %zu: [%lld] is %.9g, expected %.9g",
                         number, o, (long long)k, (double)a->f32[k], (double)b->f32[k]);
    }
    for (int k = 0; k < 2; k++) {
        qg_run_free(r[k]);
        qg_plan_free(p[k]);
    }
    close_network(&t);
}

static void kernels_keep_to_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof summed / sizeof *summed; i++)
        compare(summed[i], i, strstr(summed[i], "MatMul") ? QG_HAVE_DNNL : 1, 1);
}

/* An operand's axes are those of the network: behind a convolution, whose result has
 * its channels last in memory, and in a square product. */
#define BEFORE_7(node)                                                                 \
    "graph {\n opset 6\n x = input float32[1,3,5,5]\n"                                 \
    " w = const float32[3,3,1,1] seed(3)\n c = const float32[3] seed(4)\n"             \
    " d = const float32[3,5] seed(5)\n v = Conv(x, w)\n y = " node "\n output y\n}"
#define SQUARE(dims, more)                                                             \
    "graph {\n opset 13\n x = input float32[4,6]\n w = const float32[6,4] seed(3)\n"   \
    " c = const float32[" dims "] seed(4)\n y = Gemm(x, w, c)" more "\n output y\n}"
/* clang-format off */
static const char *const aligned[] = {
    BEFORE_7("Add(v, c) broadcast=1 axis=1"), BEFORE_7("Sub(v, c) broadcast=1 axis=1"),
    BEFORE_7("Mul(v, c) broadcast=1 axis=1"), BEFORE_7("Div(v, c) broadcast=1 axis=1"),
    BEFORE_7("Add(v, d) broadcast=1 axis=1"), BEFORE_7("PRelu(v, c)"),
    SQUARE("4,1", ""), SQUARE("1,4", ""), SQUARE("4", ""), SQUARE("1", ""),
    SQUARE("4,1", " transA=0 transB=0\n z = Relu(y)"),
};
/* clang-format on */

static void operands_keep_their_axes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        compare(aligned[i], i, 0, 2);
}

/* Windows that end behind the padding: what is behind it does not count. */
static void averages_count_the_padding_alone(void **state)
{
    static const char *const cut[] = {
        "graph {\n opset 17\n x = input float32[1,8,2,6]\n y = AveragePool(x)"
        " kernel_shape=[3,2] strides=[2,2] ceil_mode=1 count_include_pad=1\n"
        " output y\n}",
        "graph {\n opset 17\n x = input float32[1,8,3,5]\n y = AveragePool(x)"
        " kernel_shape=[2,2] strides=[2,2] ceil_mode=1 count_include_pad=1\n"
        " output y\n}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        compare(cut[i], i, 0, 1);
}

/* "1,3,2": `n` numbers below `below`, plus `least`. */
static void draw(char text[64], qg_rng *rng, int n, int below, int least)
{
    text[0] = 0;
    for (int i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), 8, "%s%d", i ? "," : "",
                       least + (int)qg_rng_below(rng, (uint64_t)below));
}

/* Windows over one to three axes, most of few elements: paddings that are all that an
 * output reads, axes of one element. */
static void windows_of_all_kinds(void **state)
{
    static const char *const nodes[] = { "Conv(x, w)", "ConvTranspose(x, w)",
                                         "MaxPool(x)", "AveragePool(x)" };
    (void)state;
    for (unsigned seed = 0; seed < 1600; seed++) {
        char text[1024], dims[64], kernel[64], strides[64], pads[64];
        qg_rng rng = { seed };
        const int axes = 1 + (int)qg_rng_below(&rng, 3);
        const bool pool = seed % 4 > 1;
        draw(dims, &rng, axes, 3, seed % 4 > 0 ? 3 : seed % 8 < 2 ? 1 : 2);
        draw(kernel, &rng, axes, seed % 8 ? 2 : 1, pool ? 2 : 1);
        draw(strides, &rng, axes, 3, 1);
        draw(pads, &rng, 2 * axes, 2, 0);
        (void)snprintf(text, sizeof text,
                       "graph {\n opset 17\n x = input float32[1,4,%s]\n"
                       " w = const float32[4,4,%s] seed(3)\n"
                       " y = %s kernel_shape=[%s] strides=[%s] pads=[%s]%s\n"
                       " output y\n}",
                       dims, kernel, nodes[seed % 4], kernel, strides, pads,
                       pool && seed % 3 == 0 ? " ceil_mode=1" : "");
        compare(text, seed, 0, 1);
    }
}

/* A weight of more elements than inference computes is still turned once, before any
 * run. */
static void a_turned_weight_is_a_constant(void **state)
{
    const qg_plan_options o = { 0 };
    qg_plan *p;
    (void)state;
    fixture t = open_text("graph {\n opset 17\n x = input float32[2,257]\n"
                          " w = const float32[300,257] seed(3)\n"
                          " t = Transpose(w)\n y = MatMul(x, t)\n output y\n}");
    qg_run *r = run_of(&t, &o, &p, 1);
    assert_int_equal(p->report.nodes, 1);
    qg_run_free(r);
    qg_plan_free(p);
    close_network(&t);
}

static void *count(void *ud, size_t size)
{
    ++*(size_t *)ud;
    return malloc(size);
}

static void give_back(void *ud, void *p)
{
    (void)ud;
    free(p);
}

static void second_run_allocates_nothing(void **state)
{
    size_t calls = 0;
    const qg_plan_options o = { 0 };
    const qg_alloc counting = { count, give_back, &calls };
    (void)state;
    fixture t = open_network();
    qg_plan *p;
    qg_run *first = run_of(&t, &o, &p, 1), *r;
    qg_tensor x = t.g->input.at[0]->type;
    qg_ctx *worker = qg_ctx_new(counting);
    assert_non_null(worker);
    assert_ok(t.ctx, qg_tensor_alloc(t.ctx, t.ctx->arena, &x));
    assert_ok(worker, qg_run_new(worker, p, &r));
    const qg_tensor *in[] = { &x };
    assert_ok(worker, qg_run_execute(r, in, NULL, 0, 0));
    assert_cmp_int(calls, >, 0);
    calls = 0;
    for (size_t i = 1; i < 5; i++)
        assert_ok(worker, qg_run_execute(r, in, NULL, 0, i));
    assert_int_equal(calls, 0);
    qg_run_free(r);
    qg_run_free(first);
    qg_ctx_free(worker);
    qg_plan_free(p);
    close_network(&t);
}

QG_TEST_MAIN(cmocka_unit_test(absorbing_changes_no_bits),
             cmocka_unit_test(watching_keeps_the_bits_of_a_convolution),
             cmocka_unit_test(chains_keep_the_bits_of_their_nodes),
             cmocka_unit_test(layouts_keep_the_bits),
             cmocka_unit_test(kernels_keep_to_the_definition),
             cmocka_unit_test(operands_keep_their_axes),
             cmocka_unit_test(averages_count_the_padding_alone),
             cmocka_unit_test(windows_of_all_kinds),
             cmocka_unit_test(a_turned_weight_is_a_constant),
             cmocka_unit_test(second_run_allocates_nothing))
