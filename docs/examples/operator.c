/* operator.c -- an operator of the host: it is quantized in a model and exported
 * with its domain.
 *
 *     operator CONFIG-DIR MODEL.onnx */
#include <qg.h>

#include <stdio.h>
#include <string.h>

static const char text[] = "graph \"g\" {\n"
                           "  opset 17\n"
                           "  opset \"com.example\" 1\n"
                           "  x = input f32[1,3,8,8]\n"
                           "  w = const f32[4,3,3,3] ramp(-1, 1)\n"
                           "  c = Conv(x, w)\n"
                           "  y = com.example::HardTanh(c)\n"
                           "  output y\n"
                           "}\n";
static qg_status infer(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0);
    (void)ud;
    qg_tensor_init(qg_call_output(c, 0), x->dtype, x->rank, x->dim);
    return QG_OK;
}

static qg_status run(void *ud, const qg_call *c)
{
    const qg_tensor *x = qg_call_input(c, 0);
    float *y = qg_call_output(c, 0)->f32;
    (void)ud;
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        y[i] = x->f32[i] < -1 ? -1 : x->f32[i] > 1 ? 1 : x->f32[i];
    return QG_OK;
}

static qg_status work(qg_ctx *ctx, const char *path, qg_model **m)
{
    static const char *const set[] = { "op=HardTanh platform=quantized" };
    qg_operator o;
    qg_operator_init(&o, sizeof o);
    o.name = "HardTanh";
    o.domain = "com.example";
    o.traits = "activation elementwise monotone pure";
    o.in_place = 1;
    o.clamp_low = -1;
    o.clamp_high = 1;
    o.infer = infer;
    o.run = run;
    QG_TRY(qg_add_operator(ctx, &o));
    QG_TRY(qg_model_open_text(ctx, text, strlen(text), m));
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8"; /* which does not know it */
    q.set = set;
    q.n_set = 1;
    q.work.data = "random:8";
    QG_TRY(qg_model_quantize(*m, &q, NULL));
    qg_format_options f;
    qg_format_options_init(&f, sizeof f);
    f.format = "onnx-qdq";
    return qg_model_export(*m, &f, path, NULL);
}

int main(int argc, char **argv)
{
    qg_open_options o;
    qg_ctx *ctx;
    qg_model *m = NULL;
    qg_open_options_init(&o, sizeof o);
    o.config_dir = argv[1];
    if (argc != 3 || qg_open(&o, &ctx) != QG_OK)
        return 2;
    qg_status s = work(ctx, argv[2], &m);
    puts(s == QG_OK ? "exported" : qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
