/* builder.c -- makes a network by calls, writes it as ONNX and quantizes it.
 *
 *     builder LINEAR.onnx SNAPSHOT */
#include <qg.h>

#include <stdio.h>

/* out = op(in0, in1); in1 NULL: one operand. */
static qg_status add(qg_model *m, const char *op, const char *in0, const char *in1,
                     const char *out)
{
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = op;
    o.in = (const char *const[]){ in0, in1 };
    o.n_in = in1 ? 2 : 1;
    o.out = &out;
    o.n_out = 1;
    return qg_model_add_node(m, &o, NULL);
}

static qg_status build(qg_ctx *ctx, const float *weight, qg_model **m)
{
    const int64_t row[] = { 1, 3 };
    qg_tensor w = {
        .dtype = QG_F32, .rank = 2, .dim = {3,  2},
                .stride = { 2, 1}
    };
    w.data = (void *)weight;
    qg_status s = qg_model_new(ctx, "linear", 17, m);
    if (!s)
        s = qg_model_add_input(*m, "x", QG_F32, 2, row);
    if (!s)
        s = qg_model_add_constant(*m, "w", &w, true);
    if (!s)
        s = add(*m, "MatMul", "x", "w", "h");
    if (!s)
        s = add(*m, "Relu", "h", NULL, "y");
    if (!s)
        s = qg_model_add_output(*m, "y");
    return s ? s : qg_model_finish(*m);
}

int main(int argc, char **argv)
{
    static const float weight[] = { 0.5F, -1.0F, 0.25F, 2.0F, -0.125F, 1.5F };
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "ort-int8";
    o.work.data = "random:8";
    qg_status s = argc == 3 ? qg_open(NULL, &ctx) : QG_ECONFIG;
    if (!s)
        s = build(ctx, weight, &m);
    if (!s)
        s = qg_model_export_onnx(m, argv[1]);
    if (!s)
        s = qg_model_quantize(m, &o, NULL);
    if (!s)
        s = qg_model_save(m, argv[2]);
    if (s)
        fprintf(stderr, "%s\n", qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
