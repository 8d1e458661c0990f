/* A sample computed by several threads has the bits of one thread: convolutions, their
 * transposes, pools, products (also of one row) and recurrent layers of random shapes,
 * and what stands between them.
 *
 * test_parts [N [SEED]]: N networks from SEED on.  A failure prints the network. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/exec/pool.h"
#include "engine/exec/run.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static size_t n_networks = 100;
static uint64_t first_seed = 1;

/* A network of one line of text per node. */
typedef struct network {
    qg_rng rng;
    char text[2048];
    size_t used;
} network;

static void add(network *n, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    n->used +=
        (size_t)vsnprintf(n->text + n->used, sizeof n->text - n->used, fmt, list);
    va_end(list);
    assert_cmp_int(n->used, <, sizeof n->text);
}

static int below(network *n, int limit)
{
    return (int)qg_rng_below(&n->rng, (uint64_t)limit);
}

static int pick(network *n, const int *of, int count) { return of[below(n, count)]; }
#define PICK(n, ...)                                                                   \
    pick((n), (const int[]){ __VA_ARGS__ },                                            \
         sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))

/* x [batch, channels, height, width] or of one axis, through windows. */
static void add_windows(network *n)
{
    const bool line = below(n, 4) == 0;
    const int kind = PICK(n, 0, 0, 0, 0, 1, 2, 3); /* Conv, ConvTranspose, pools */
    const int channels = PICK(n, 3, 4, 8, 16, 24, 32, 48, 64);
    const bool depthwise = kind < 2 && below(n, 4) == 0;
    const int outputs = depthwise ? channels : PICK(n, 1, 8, 16, 20, 32, 64);
    const int groups = depthwise ? channels : 1, kernel = PICK(n, 1, 2, 3, 3, 5);
    const int rows = kind ? channels : outputs;
    const int columns = (kind ? outputs : channels) / groups;
    const int stride = PICK(n, 1, 1, 2, 3), pad = below(n, (kernel + 1) / 2);
    const int dilation = kernel > 1 && below(n, 6) == 0 ? 2 : 1;
    char space[32], window[32];
    (void)snprintf(window, sizeof window, line ? "%d" : "%d,%d", kernel, kernel);
    (void)snprintf(space, sizeof space, line ? "%d" : "%d,%d", 12 + below(n, 60),
                   9 + below(n, 21));
    add(n, " x = input float32[%d,%d,%s]\n", PICK(n, 1, 1, 1, 3), channels, space);
    if (kind < 2) {
        add(n, " w = const float32[%d,%d,%s] seed(7)\n", rows, columns, window);
        add(n, " b = const float32[%d] seed(8)\n", outputs);
        add(n, " c = %s(x, w, b) group=%d", kind ? "ConvTranspose" : "Conv", groups);
    } else {
        add(n, " c = %s(x) kernel_shape=[%s]", kind == 2 ? "MaxPool" : "AveragePool",
            window);
    }
    add(n, line ? " strides=[%d]" : " strides=[%d,%d]", stride, stride);
    add(n, line ? " pads=[%d,%d]" : " pads=[%d,%d,%d,%d]", pad, pad, pad, pad);
    if (kind < 2)
        add(n, line ? " dilations=[%d]" : " dilations=[%d,%d]", dilation, dilation);
    const int made = kind < 2 ? outputs : channels;
    add(n, "\n v = const float32[%d] fill(1.25)\n k = const float32[%d] seed(9)\n",
        made, made);
    add(n, " r = BatchNormalization(c, v, k, k, v)\n s = Sigmoid(r)\n m = Mul(r, s)\n "
           "t = Add(m, r)\n");
    add(n, " y = Concat(t, m) axis=%d\n", 1 + below(n, line ? 2 : 3));
}

/* [.., rows, k] times [k, columns], or a product per leading index. */
static void add_product(network *n)
{
    const int rows = PICK(n, 1, 7, 16, 33, 64, 128), k = PICK(n, 1, 16, 31, 64, 200);
    const int columns = PICK(n, 1, 8, 24, 64, 100), heads = PICK(n, 1, 1, 4, 6);
    int last = columns;
    if (below(n, 2)) {
        add(n, " x = input float32[1,%d,%d,%d]\n", heads, rows, k);
        add(n, " w = const float32[%d,%d] seed(7)\n p = MatMul(x, w)\n", k, columns);
    } else {
        add(n, " x = input float32[1,%d,%d,%d]\n", heads, rows, k);
        add(n, " e = Transpose(x) perm=[0,1,3,2]\n p = MatMul(x, e)\n");
        last = rows;
    }
    add(n, " g = const float32[%d] seed(9)\n", last);
    add(n, " a = Exp(p)\n q = Softmax(p)\n r = Sub(a, q)\n t = Tanh(r)\n");
    add(n, " y = LayerNormalization(t, g, g)\n");
}

/* The gate of a squeeze and excitation, and a classifier: results of one row. */
static void add_one_row(network *n)
{
    const int channels = PICK(n, 3, 16, 24, 64, 120, 256, 333);
    const int inner = PICK(n, 1, 8, 40, 64, 96, 130, 400, 1000);
    const int classes = PICK(n, 1, 10, 64, 100, 129, 256, 480, 1000);
    add(n, " x = input float32[1,%d,%d,%d]\n g = GlobalAveragePool(x)\n", channels,
        1 + below(n, 40), 1 + below(n, 9));
    add(n, " w = const float32[%d,%d,1,1] seed(7)\n b = const float32[%d] seed(8)\n",
        inner, channels, inner);
    add(n, " c = Conv(g, w%s)\n r = Relu(c)\n", below(n, 2) ? ", b" : "");
    add(n, " f = Flatten(r)\n");
    const bool turned = below(n, 2);
    add(n, " v = const float32[%d,%d] seed(9)\n k = const float32[%d] seed(5)\n",
        turned ? classes : inner, turned ? inner : classes, classes);
    if (turned || below(n, 2))
        add(n, " p = Gemm(f, v%s) transB=%d\n", below(n, 2) ? ", k" : "", turned);
    else
        add(n, " p = MatMul(f, v)\n");
    add(n, " s = Sigmoid(p)\n m = Exp(g)\n h = Flatten(m)\n");
    add(n, " y = Concat(s, h) axis=1\n");
}

/* Both directions of a recurrent layer. */
static void add_recurrent(network *n)
{
    const int inputs = PICK(n, 3, 16, 40), hidden = PICK(n, 5, 32, 48);
    const bool lstm = below(n, 2);
    const int rows = hidden * (lstm ? 4 : 3);
    add(n, " x = input float32[%d,%d,%d]\n", PICK(n, 2, 7, 20), PICK(n, 1, 3), inputs);
    add(n, " w = const float32[2,%d,%d] seed(7)\n", rows, inputs);
    add(n, " r = const float32[2,%d,%d] seed(8)\n", rows, hidden);
    add(n, " h = %s(x, w, r) direction=\"bidirectional\" hidden_size=%d\n",
        lstm ? "LSTM" : "GRU", hidden);
    add(n, " t = Tanh(h)\n y = Exp(t)\n");
}

static void make(network *n, uint64_t seed)
{
    *n = (network){ .rng = { seed } };
    add(n, "graph {\n opset 17\n");
    const int kind = below(n, 10);
    (kind < 5   ? add_windows
     : kind < 7 ? add_product
     : kind < 9 ? add_one_row
                : add_recurrent)(n);
    add(n, " output y\n}");
}

/* The result of `threads`, in the arena of ctx. */
static const qg_tensor *result(qg_ctx *ctx, const qg_graph *g, const qg_tensor *x,
                               unsigned threads, uint32_t *split)
{
    const qg_plan_options o = { .threads = threads, .split_small = true };
    qg_plan *p;
    qg_run *r;
    const qg_tensor *y;
    assert_ok(ctx, qg_plan_new(ctx, g, &o, &p));
    assert_ok(ctx, qg_run_new(ctx, p, &r));
    for (size_t i = 0; i < 2; i++) /* the second time all memory is there */
        assert_ok(ctx, qg_run_execute(r, &x, NULL, 0, i));
    qg_tensor *copy = QG_NEW(ctx->arena, qg_tensor);
    assert_non_null(copy);
    *copy = *(y = qg_run_output(r, 0));
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, copy));
    qg_tensor_copy(y, copy);
    *split = p->report.split;
    qg_run_free(r);
    qg_plan_free(p);
    return copy;
}

/* The steps that were computed in parts. */
static uint32_t compare(const network *n, uint64_t seed)
{
    const qg_text_source source = { .text = n->text, .size = strlen(n->text) };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g;
    uint32_t split, most = 0;
    ctx->registry = &qg_ops_registry;
    if (qg_text_parse(ctx, &source, &g) != QG_OK || qg_infer(g, NULL, 0) != QG_OK) {
        print_error("%s\n", n->text);
        fail_msg("seed %" PRIu64 ": %s", seed, qg_ctx_message(ctx));
    }
    qg_tensor x = g->input.at[0]->type;
    qg_rng rng = { seed };
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, &x));
    for (int64_t i = 0; i < qg_tensor_count(&x); i++)
        x.f32[i] = qg_rng_range(&rng, -3, 3);
    const qg_tensor *one = result(ctx, g, &x, 1, &split);
    assert_int_equal(split, 0);
    for (unsigned threads = 2; threads <= 5; threads++) {
        const qg_tensor *y = result(ctx, g, &x, threads, &split);
        const size_t bytes = (size_t)qg_tensor_count(y) * sizeof *y->f32;
        if (memcmp(one->f32, y->f32, bytes) != 0) {
            print_error("%s\n", n->text);
            fail_msg("seed %" PRIu64 ": %u threads give other bits", seed, threads);
        }
        most = split > most ? split : most;
    }
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return most;
}

static void threads_do_not_show(void **state)
{
    size_t split = 0;
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_networks; seed++) {
        network n;
        make(&n, seed);
        split += compare(&n, seed) > 1;
    }
    assert_cmp_int(split, >, n_networks * 9 / 10); /* or nothing was compared */
}

/* --- teams --- */

static qg_status count(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    (void)ctx, (void)state;
    ((int *)ud)[i]++;
    return QG_OK;
}

static qg_status fail_at_3(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    (void)ud, (void)state;
    return i >= 3 ? qg_fail(ctx, QG_EDATA, "index %zu", i) : QG_OK;
}

static void a_team_does_every_index_of_many_jobs(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    (void)state;
    for (unsigned workers = 1; workers < 6; workers++) {
        qg_team *t;
        int done[7] = { 0 };
        qg_job job = { .n = 7, .work = count, .ud = done };
        qg_job bad = { .n = 7, .work = fail_at_3 };
        assert_ok(ctx, qg_team_new(ctx, workers, &t));
        for (int i = 0; i < 500; i++)
            assert_ok(ctx, qg_team_run(t, ctx, &job));
        for (int i = 0; i < 7; i++)
            assert_int_equal(done[i], 500);
        assert_fails(ctx, qg_team_run(t, ctx, &bad), QG_EDATA, "index 3");
        assert_ok(ctx, qg_team_run(t, ctx, &job)); /* a failure is forgotten */
        qg_team_free(t);
    }
    qg_ctx_free(ctx);
}

static void threads_are_shared_among_samples(void **state)
{
    (void)state;
    assert_int_equal(qg_pool_share(8, 1), 8);
    assert_int_equal(qg_pool_share(8, 3), 2);
    assert_int_equal(qg_pool_share(8, 8), 1);
    assert_int_equal(qg_pool_share(8, 100), 1);
    assert_int_equal(qg_pool_share(1, 1), 1);
    assert_int_equal(qg_pool_share(3, 0), 1);
    assert_int_equal(qg_pool_share(0, 1), qg_cores());
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(a_team_does_every_index_of_many_jobs),
        cmocka_unit_test(threads_are_shared_among_samples),
    };
    if (argc > 1)
        n_networks = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
