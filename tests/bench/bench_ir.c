/* bench_ir -- that graph work is linear: nanoseconds per node at two sizes, and their
 * ratio, which stays near 1 (caches grow colder; a quadratic step would give 10). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/match.h"
#include "engine/ir/text.h"
#include "ops/families.h"

enum { N_STEPS = 8 };
static const char *const steps[N_STEPS] = { "build", "normalize", "infer", "check",
                                            "match", "print",     "parse", "clone" };

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Relu, Sigmoid, Mul in turn: residuals of span 2, in reverse file order, so that
 * normalize has to sort. */
static qg_status build(qg_ctx *ctx, int n, qg_graph **out)
{
    static const char *const names[] = { "Relu", "Sigmoid", "Mul" };
    qg_graph *g;
    QG_TRY(qg_graph_new(ctx, "bench", &g));
    *out = g;
    for (int i = n; i > 0; i--) {
        char text[3][16];
        qg_value *in[2], *y;
        qg_node *node;
        (void)snprintf(text[0], 16, "v%d", i - 1);
        (void)snprintf(text[1], 16, "v%d", i > 2 ? i - 3 : 0);
        (void)snprintf(text[2], 16, "v%d", i);
        QG_TRY(qg_graph_need_value(g, text[0], &in[0]));
        QG_TRY(qg_graph_need_value(g, text[1], &in[1]));
        QG_TRY(qg_graph_need_value(g, text[2], &y));
        qg_node_spec spec = { .op = qg_op_find(ctx->registry, "", names[i % 3], 17),
                              .opset = 17,
                              .in = in,
                              .n_in = i % 3 == 2 ? 2 : 1,
                              .out = &y,
                              .n_out = 1 };
        QG_TRY(qg_graph_add_node(g, &spec, &node));
        if (i == n)
            QG_TRY(qg_graph_mark_output(g, y));
    }
    qg_value *x = qg_graph_value(g, "v0");
    qg_tensor_init(&x->type, QG_F32, 4, (int64_t[]){ 1, 3, 8, 8 });
    return qg_graph_mark_input(g, x);
}

static qg_status match(qg_graph *g, qg_arena *a)
{
    /* clang-format off */
    static const qg_pattern_edge edges[] = { { 0, -1, -1 }, { 1, -1, -1 } };
    static const char *const sigmoid[] = { "Sigmoid" }, *const mul[] = { "Mul" };
    static const qg_pattern_node nodes[] = {
        { .name = "s", .op = sigmoid, .n_op = 1 },
        { .name = "m", .op = mul, .n_op = 1, .in = edges, .n_in = 1 },
        { .name = "a", .traits = QG_OP_ACTIVATION, .in = edges + 1, .n_in = 1 },
    };
    /* clang-format on */
    static const qg_pattern p = { .id = "bench", .node = nodes, .n_node = 3 };
    qg_matches m;
    return qg_match_pattern(g, &p, QG_MATCH_APART, a, &m);
}

static qg_status step(qg_ctx *ctx, int k, int n, qg_graph **g, qg_text_source *text)
{
    qg_graph *other = NULL;
    char *print;
    qg_status s;
    switch (k) {
    case 0:
        return build(ctx, n, g);
    case 1:
        return qg_graph_normalize(*g);
    case 2:
        return qg_infer(*g, NULL, 0);
    case 3:
        return qg_check_graph(ctx, *g, QG_CHECK_ALL);
    case 4:
        return match(*g, ctx->arena);
    case 5:
        s = qg_text_print(*g, NULL, ctx->arena, &print, &text->size);
        text->text = s == QG_OK ? print : NULL;
        return s;
    default:
        s = k == 6 ? qg_text_parse(ctx, text, &other) : qg_graph_clone(*g, &other);
        qg_graph_free(other);
        return s;
    }
}

/* ns[k]: nanoseconds per node of step k. */
static qg_status measure(int n, double *ns)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    qg_text_source text = { 0 };
    qg_status s = ctx ? QG_OK : QG_ENOMEM;
    if (ctx)
        ctx->registry = &qg_ops_registry;
    for (int k = 0; k < N_STEPS && s == QG_OK; k++) {
        double start = now();
        s = step(ctx, k, n, &g, &text);
        ns[k] = (now() - start) / n;
    }
    if (s != QG_OK)
        (void)fprintf(stderr, "bench_ir: %s\n", qg_ctx_message(ctx));
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return s;
}

int main(void)
{
    double small[N_STEPS], large[N_STEPS];
    if (measure(10000, small) != QG_OK || measure(100000, large) != QG_OK)
        return 1;
    (void)printf("%-10s %12s %12s %8s\n", "step", "ns/node 10k", "ns/node 100k",
                 "ratio");
    for (int k = 0; k < N_STEPS; k++)
        (void)printf("%-10s %12.0f %12.0f %8.2f\n", steps[k], small[k], large[k],
                     large[k] / small[k]);
    return 0;
}
