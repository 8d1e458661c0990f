/* quantizer.c -- a quantization function of the host: weights are rounded down.
 * The network is then simulated with it.
 *
 *     quantizer CONFIG-DIR */
#include <qg.h>

#include <stdio.h>

/* The library's quantization, with another rounding. */
static qg_status round_down(void *ud, qg_ctx *ctx, const qg_scheme *scheme,
                            const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    qg_scheme s = *scheme;
    (void)ud;
    s.rounding = QG_ROUND_DOWN;
    return qg_fake_quantize(ctx, "round down", &s, p, x, y);
}

static qg_status work(qg_ctx *ctx, const char *config, qg_model **m)
{
    static const char *const set[] = { "op=Conv slot=weight quantizer=round-down" };
    char model[1024], data[1024];
    snprintf(model, sizeof model, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    qg_host_quantizer f;
    qg_host_quantizer_init(&f, sizeof f);
    f.name = "round-down";
    f.run = round_down;
    QG_TRY(qg_add_quantizer(ctx, &f));
    QG_TRY(qg_model_open(ctx, model, NULL, m));
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = data;
    q.set = set;
    q.n_set = 1;
    QG_TRY(qg_model_quantize(*m, &q, NULL));
    qg_analyse_options a;
    qg_report *r = NULL;
    qg_analyse_options_init(&a, sizeof a);
    a.work.data = data;
    QG_TRY(qg_model_analyse(*m, &a, &r));
    fputs(qg_report_text(r), stdout);
    qg_report_free(r);
    return QG_OK;
}

int main(int argc, char **argv)
{
    qg_open_options o;
    qg_ctx *ctx;
    qg_model *m = NULL;
    qg_open_options_init(&o, sizeof o);
    o.config_dir = argv[1];
    if (argc != 2 || qg_open(&o, &ctx) != QG_OK)
        return 2;
    qg_status s = work(ctx, argv[1], &m);
    if (s != QG_OK)
        puts(qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
