/* fusion_policy.c -- Conv-Add-Concat quantized once, compared with trt-int8. */
#include <qg.h>
#include <stdio.h>
#include <string.h>
#define START      "graph { x = input f32[1,8,16,16]; w = const f32[8,8,3,3] seed(1)\n"
#define CONV(y, x) #y " = Conv(" #x ", w) pads=[1, 1, 1, 1]\n"
static const char *const network[] = {
    START CONV(a, x) CONV(b, a) "s = Add(a, b); y = Concat(s, x) axis=1; output y }",
    START CONV(a, x) "s = Add(a, x)\n" CONV(b, s) "y = Concat(s, b) axis=1; output y }",
    START CONV(a, x) "s = Add(a, x); y = Concat(s, s, a) axis=1; output y }"
};

/* The inputs of n join t's group when an `op` computes them; so do the inputs of an
 * Add. */
static qg_status follow(qg_model *m, qg_node *n, size_t k, const char *op, qg_tqc *t)
{
    qg_node *from = qg_value_producer(qg_node_input(n, k));
    if (!qg_node_is(from, op))
        return QG_OK;
    QG_TRY(qg_model_join(m, qg_node_output_tqc(from, 0), t));
    QG_TRY(qg_model_join(m, qg_node_input_tqc(n, k), t));
    for (size_t i = 0; i < 2 && qg_node_is(from, "Add"); i++)
        QG_TRY(follow(m, from, i, "Conv", t));
    return QG_OK;
}

static qg_status fuse(void *ud, qg_pass_env *env, qg_model *m)
{
    for (size_t i = 0; i < qg_model_node_count(m); i++) {
        qg_node *n = qg_model_node(m, i);
        for (size_t k = 0; k < 2 && qg_node_is(n, "Concat"); k++)
            QG_TRY(follow(m, n, k, "Add", qg_node_output_tqc(n, 0)));
    }
    return ud ? QG_OK : qg_pass_match(env, "conv-add-concat");
}

int main(void)
{
    size_t rounds;
    puts("network  policy   rounding points  groups       nsr");
    for (int k = 0; k < 6; k++) {
        qg_ctx *ctx;
        qg_model *m;
        qg_report *r;
        qg_host_pass p = { .size = sizeof p, .name = "own", .after = "fuse" };
        qg_analyse_options a = { .size = sizeof a, .work.data = "random:8" };
        qg_quantize_options q = { .size = sizeof q, .work = a.work };
        q.backend = "trt-int8", p.run = fuse;
        if (qg_open(NULL, &ctx) || (k % 2 && qg_add_pass(ctx, &p)) ||
            qg_model_open_text(ctx, network[k / 2], strlen(network[k / 2]), &m) ||
            qg_model_quantize(m, &q, NULL) || qg_model_analyse(m, &a, &r))
            return puts(qg_ctx_message(ctx)), 1;
        qg_tqc_record t = { .size = sizeof t };
        for (size_t i = rounds = 0; i < qg_model_tqc_count(m); i++)
            qg_tqc_get(qg_model_tqc(m, i), &t), rounds += t.rounds;
        printf("%7d  %-7s  %15zu  %6zu  %.2e\n", k / 2 + 1, k % 2 ? "own" : "shipped",
               rounds, qg_model_group_count(m),
               qg_table_cell(qg_report_table_named(r, "errors"), 0, "error")->number);
        qg_report_free(r), qg_model_close(m), qg_close(ctx);
    }
}
