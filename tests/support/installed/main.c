/* main.c -- a third-party program, built against an installed copy through pkg-config:
 * quantizes the demo model like the example in qg.h.
 *
 *     user CONFIG-DIR SNAPSHOT */
#include <qg.h>

#include <stdio.h>

static qg_status quantize(qg_ctx *ctx, const char *config, const char *snapshot)
{
    char path[1024], data[1024];
    snprintf(path, sizeof path, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = data;
    qg_status s = qg_model_open(ctx, path, NULL, &m);
    if (!s)
        s = qg_model_quantize(m, &q, &r);
    if (!s)
        s = qg_model_save(m, snapshot);
    if (!s && !qg_model_is_quantized(m))
        s = QG_ESTATE;
    qg_report_free(r);
    qg_model_close(m);
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    qg_open_options o;
    qg_open_options_init(&o, sizeof o);
    o.config_dir = argv[1];
    qg_ctx *ctx = NULL;
    qg_status s = qg_open(&o, &ctx);
    if (!s)
        s = quantize(ctx, argv[1], argv[2]);
    if (s)
        fprintf(stderr, "%s: %s\n", qg_status_name(s), ctx ? qg_ctx_message(ctx) : "");
    qg_close(ctx);
    return s != QG_OK;
}
