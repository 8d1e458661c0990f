/* observer.c -- an observer of the host: the largest size of any element.
 *
 *     observer CONFIG-DIR SNAPSHOT */
#include <qg.h>

#include <math.h>
#include <stdio.h>

/* The state is a float, which begins as 0. */
static qg_status see(void *ud, qg_ctx *ctx, void *state, const qg_observed *seen)
{
    float *most = state;
    (void)ud, (void)ctx;
    for (size_t i = 0; i < seen->n; i++)
        *most = fmaxf(*most, fabsf(seen->x[i]));
    return QG_OK;
}

static void merge(void *ud, void *into, const void *from)
{
    (void)ud;
    *(float *)into = fmaxf(*(float *)into, *(const float *)from);
}

static qg_status finish(void *ud, qg_ctx *ctx, const void *state,
                        const qg_scheme *scheme, double *low, double *high)
{
    (void)ud, (void)ctx, (void)scheme;
    *high = *(const float *)state;
    *low = -*high;
    return QG_OK;
}

static qg_status work(qg_ctx *ctx, const char *config, const char *folder, qg_model **m)
{
    char model[1024], data[1024];
    snprintf(model, sizeof model, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    qg_host_observer o;
    qg_host_observer_init(&o, sizeof o);
    o.name = "absmax";
    o.summary = "largest size of any element";
    o.state = sizeof(float);
    o.per_channel = true;
    o.see = see;
    o.merge = merge;
    o.finish = finish;
    QG_TRY(qg_add_observer(ctx, &o));
    QG_TRY(qg_model_open(ctx, model, NULL, m));
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.observer = "absmax";
    q.work.data = data;
    QG_TRY(qg_model_quantize(*m, &q, NULL));
    return qg_model_save(*m, folder);
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
    qg_status s = work(ctx, argv[1], argv[2], &m);
    puts(s == QG_OK ? "saved" : qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
