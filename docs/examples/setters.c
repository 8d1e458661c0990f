/* setters.c -- reads the records of a snapshot, doubles the scale of every activation
 * and writes the result.
 *
 *     setters SNAPSHOT COPY */
#include <qg.h>

#include <stdio.h>
#include <stdlib.h>

static qg_status change_scale(qg_model *m, qg_tqc *t, float factor)
{
    qg_tqc_record r = { .size = sizeof r };
    qg_tqc_get(t, &r);
    if (r.state != QG_TQC_ACTIVATED) /* followers and constants stay */
        return QG_OK;
    float *scale = malloc(r.n_param * sizeof *scale);
    for (size_t i = 0; i < r.n_param; i++)
        scale[i] = factor * r.scale[i];
    qg_status s = qg_model_set_param(m, t, r.n_param, scale, r.offset);
    free(scale);
    qg_tqc_get(t, &r);
    printf("%s %s %.9g\n", r.name, qg_tqc_state_name(r.state), (double)r.scale[0]);
    return s;
}

int main(int argc, char **argv)
{
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_status s = argc == 3 ? qg_open(NULL, &ctx) : QG_ECONFIG;
    if (!s)
        s = qg_model_open(ctx, argv[1], NULL, &m);
    for (size_t i = 0; !s && i < qg_model_tqc_count(m); i++)
        s = change_scale(m, qg_model_tqc(m, i), 2);
    if (!s)
        s = qg_model_save(m, argv[2]);
    if (s)
        fprintf(stderr, "%s\n", qg_ctx_message(ctx));
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
