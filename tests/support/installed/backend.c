/* backend.c -- a backend that is a string of the program.
 *
 *     backend CONFIG-DIR */
#include <qg.h>

#include <stdio.h>
#include <string.h>

static const char backend[] = "name: mine\n"
                              "title: the device on my desk\n"
                              "extends: int8-base\n"
                              "defaults: {observer: minmax}\n"
                              "rules:\n"
                              "  - id: four-bit-weights\n"
                              "    match: {op: Conv, slot: weight}\n"
                              "    set: {bits: 4}\n"
                              "    why: its multipliers have 4 bits on one side\n"
                              "    source: data sheet, page 3\n";

static qg_status work(qg_ctx *ctx, const char *config, qg_model **m)
{
    char model[1024], data[1024];
    snprintf(model, sizeof model, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    QG_TRY(qg_add_config(ctx, "backends/mine.yaml", backend, strlen(backend)));
    QG_TRY(qg_model_open(ctx, model, NULL, m));
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "mine";
    q.work.data = data;
    qg_report *r = NULL;
    QG_TRY(qg_model_quantize(*m, &q, &r));
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
