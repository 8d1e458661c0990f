/* fusion_policy.c -- a fusion policy of one's own (Conv-Add-Concat rounds once, behind the
 * Concat) against the shipped policy of trt-int8, on three networks. */
#include <quantgraph/qg.h>
#include <stdio.h>
#include <string.h>

#define START "graph { x = input f32[1,8,16,16]; w = const f32[8,8,3,3] seed(1)\n"
#define CONV(y, x) #y " = Conv(" #x ", w) pads=[1, 1, 1, 1]\n"
static const char *const network[] = {
    START CONV(a, x) CONV(b, a) "s = Add(a, b); y = Concat(s, x) axis=1; output y }",
    START CONV(a, x) "s = Add(a, x); t = Relu(s)\n" CONV(
        b, t) "u = Add(b, t); y = Concat(s, u) axis=1; output y }",
    START CONV(a, x) CONV(b, x) "s = Add(a, b); p = Sigmoid(s)\n"
                                "y = Concat(s, p) axis=1; output y }",
};

static qg_status fuse(void *ud, qg_pass_env *env, qg_model *m)
{
    (void)ud;
    for (size_t i = 0; i < qg_model_node_count(m); i++) {
        qg_node *concat = qg_model_node(m, i), *add;
        qg_tqc *top = qg_node_output_tqc(concat, 0);
        for (size_t k = 0; qg_node_is(concat, "Concat") && k < 2; k++) {
            add = qg_value_producer(qg_node_input(concat, k));
            if (!qg_node_is(add, "Add"))
                continue;
            QG_TRY(qg_pass_match(env, "conv-add-concat"));
            QG_TRY(qg_model_join(m, qg_node_input_tqc(concat, k), top));
            QG_TRY(qg_model_join(m, qg_node_output_tqc(add, 0), top));
            for (size_t j = 0; j < 2; j++) {
                qg_node *conv = qg_value_producer(qg_node_input(add, j));
                if (!qg_node_is(conv, "Conv"))
                    continue;
                QG_TRY(qg_model_join(m, qg_node_output_tqc(conv, 0), top));
                QG_TRY(qg_model_join(m, qg_node_input_tqc(add, j), top));
            }
        }
    }
    return QG_OK;
}

static qg_status try(int k, bool mine)
{
    qg_ctx *ctx;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_quantize_options q;
    qg_analyse_options a;
    qg_host_pass p;
    size_t rounds = 0;
    qg_quantize_options_init(&q, sizeof q);
    qg_analyse_options_init(&a, sizeof a);
    qg_host_pass_init(&p, sizeof p);
    q.backend = "trt-int8", q.work.data = a.work.data = "random:8";
    p.name = "fuse-concat", p.after = "fuse", p.run = fuse;
    qg_status s = qg_open(NULL, &ctx);
    if (!s && mine) s = qg_add_pass(ctx, &p);
    if (!s) s = qg_model_open_text(ctx, network[k], strlen(network[k]), &m);
    if (!s) s = qg_model_quantize(m, &q, NULL);
    if (!s) s = qg_model_analyse(m, &a, &r);
}
