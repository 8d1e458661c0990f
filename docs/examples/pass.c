/* pass.c -- a pass of the host: the first convolution keeps 16 bits.
 *
 *     pass CONFIG-DIR */
#include <qg.h>

#include <stdio.h>

/* Behind `rules` every endpoint has its record; the journal names the pass. */
static qg_status widen(void *ud, qg_pass_env *env, qg_model *m)
{
    (void)ud;
    for (size_t i = 0; i < qg_model_node_count(m); i++) {
        const qg_node *n = qg_model_node(m, i);
        qg_tqc *t = qg_node_input_tqc(n, 0);
        if (!t || !qg_node_has_trait(n, "compute"))
            continue;
        qg_tqc_record r = { .size = sizeof r };
        qg_tqc_get(t, &r);
        r.scheme.bits = 16;
        r.scheme.qmin = -32768;
        r.scheme.qmax = 32767;
        QG_TRY(qg_pass_match(env, "first-compute"));
        qg_pass_count(env, 1);
        return qg_model_set_scheme(m, t, &r.scheme);
    }
    return QG_OK;
}

static qg_status work(qg_ctx *ctx, const char *config, qg_model **m)
{
    char model[1024], data[1024];
    snprintf(model, sizeof model, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "first-16-bits";
    p.summary = "the input of the first convolution has 16 bits";
    p.after = "rules";
    p.run = widen;
    QG_TRY(qg_add_pass(ctx, &p));
    QG_TRY(qg_model_open(ctx, model, NULL, m));
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = data;
    qg_report *r = NULL;
    QG_TRY(qg_model_quantize(*m, &q, &r));
    const qg_table *t = qg_report_table_named(r, "coverage");
    for (size_t i = 0; t && i < qg_table_rows(t); i++)
        if (qg_table_cell(t, i, "matched")->number > 0)
            printf("%-32s %g\n", qg_table_cell(t, i, "pattern")->text,
                   qg_table_cell(t, i, "matched")->number);
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
