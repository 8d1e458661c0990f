/* fusion_policy.c -- a fusion policy of one's own, Conv-Add-Concat as one joint group,
 * compared with the shipped policy of trt-int8 on three networks. */
#include <stdio.h>
#include <string.h>
#include <quantgraph/qg.h>

#define START "graph { x = input f32[1,8,16,16]; w = const f32[8,8,3,3] seed(1)\n"
#define CONV(y, x) #y " = Conv(" #x ", w) pads=[1, 1, 1, 1]\n"
static const char *const network[] = {
    START CONV(a, x) CONV(b, a) "s = Add(a, b); y = Concat(s, x) axis=1; output y }",
    START CONV(a, x) "s = Add(a, x); t = Relu(s)\n" CONV(b, t)
        "u = Add(b, t); y = Concat(s, u) axis=1; output y }",
    START CONV(a, x) CONV(b, x) "s = Add(a, b); p = MaxPool(s) kernel_shape=[1, 1]\n"
        "y = Concat(s, p) axis=1; output y }",
};

static qg_node *producer(const qg_node *n, size_t slot, const char *op)
{
    qg_value_record v = { .size = sizeof v };
    qg_node_record p = { .size = sizeof p, .op = "" };
    qg_value_get(qg_node_input(n, slot), &v);
    if (v.producer)
        qg_node_get(v.producer, &p);
    return strcmp(p.op, op) == 0 ? v.producer : NULL;
}

/* Everything between the convolutions and the Concat is rounded once, behind it. */
static qg_status fuse(void *ud, qg_pass_env *env, qg_model *m)
{
    for (size_t i = 0; i < qg_model_node_count(m); i++) {
        qg_node *concat = qg_model_node(m, i), *add;
        qg_tqc *top = qg_node_output_tqc(concat, 0);
        for (size_t k = 0; qg_node_is(concat, "Concat") && qg_node_input(concat, k); k++) {
            if (!(add = producer(concat, k, "Add")))
                continue;
            QG_TRY(qg_pass_match(env, "conv-add-concat"));
            QG_TRY(qg_model_join(m, qg_node_input_tqc(concat, k), top));
            QG_TRY(qg_model_join(m, qg_node_output_tqc(add, 0), top));
            for (size_t j = 0; j < 2; j++)
                if (producer(add, j, "Conv")) {
                    qg_tqc *conv = qg_node_output_tqc(producer(add, j, "Conv"), 0);
                    QG_TRY(qg_model_join(m, conv, top));
                    QG_TRY(qg_model_join(m, qg_node_input_tqc(add, j), top));
                }
        }
    }
    return QG_OK;
}
