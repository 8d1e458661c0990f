/* tune.c -- quantizes the demo network with weights and activations of 4 bits, learns
 * weights and step sizes on the same samples and writes the snapshot.
 *
 *     tune CONFIG-DIR COPY */
#include <qg.h>

#include <stdio.h>

static qg_status quantize(qg_model *m, const char *samples)
{
    static const char *const set[] = { "op=* slot=in* bits=4",
                                       "op=* slot=out* bits=4" };
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = samples;
    o.set = set;
    o.n_set = 2;
    return qg_model_quantize(m, &o, NULL);
}

static qg_status tune(qg_model *m, const char *samples)
{
    qg_tune_options o;
    qg_report *r = NULL;
    double before, after;
    qg_tune_options_init(&o, sizeof o);
    o.work.data = samples;
    o.method = "lsq";
    o.steps = 200; /* of each block; 0: the default of the method */
    qg_status s = qg_model_tune(m, &o, &r);
    if (!s && qg_report_number(r, "before", &before) &&
        qg_report_number(r, "after", &after))
        printf("noise %.3g, after tuning %.3g\n", before, after);
    qg_report_free(r);
    return s;
}

int main(int argc, char **argv)
{
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    char model[4096], samples[4096];
    qg_status s = argc == 3 ? qg_open(NULL, &ctx) : QG_ECONFIG;
    if (!s) {
        snprintf(model, sizeof model, "%s/models/digits.onnx", argv[1]);
        snprintf(samples, sizeof samples, "%s/data/digits_calib.npy", argv[1]);
        s = qg_model_open(ctx, model, NULL, &m);
    }
    if (!s)
        s = quantize(m, samples);
    if (!s)
        s = tune(m, samples);
    if (!s)
        s = qg_model_save(m, argv[2]);
    if (s)
        fprintf(stderr, "%s\n", qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
