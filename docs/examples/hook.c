/* hook.c -- replaces a tensor by a hook: the input of one convolution of the demo model
 * is cut to steps of 1/4.  The other reader of the value sees the original.
 *
 *     hook CONFIG-DIR */
#include <qg.h>

#include <math.h>
#include <stdio.h>

enum { SIDE = 8 };

/* ud: how many elements were cut.  Element-wise, so the strides do not matter. */
static qg_status cut(void *ud, qg_ctx *ctx, const qg_hook_event *at, qg_tensor *x)
{
    int64_t *count = ud;
    if (x->dtype != QG_F32)
        return qg_fail(ctx, QG_EDATA, "cut: in%u is no float32", (unsigned)at->slot);
    *count = qg_tensor_count(x);
    for (int64_t i = 0; i < *count; i++)
        x->f32[i] = roundf(4 * x->f32[i]) / 4;
    return QG_OK;
}

/* The first score, with n_hook hooks. */
static qg_status run(qg_model *m, const qg_session_hook *hook, size_t n_hook)
{
    float x[SIDE * SIDE];
    qg_session *session = NULL;
    qg_session_options o;
    qg_tensor in, out = { 0 };
    qg_session_options_init(&o, sizeof o);
    o.hook = hook;
    o.n_hook = n_hook;
    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)(i % 17) / 16;
    qg_tensor_init(&in, QG_F32, 4, (const int64_t[]){ 1, 1, SIDE, SIDE });
    in.f32 = x;
    qg_status s = qg_session_new(m, &o, &session);
    if (s)
        return s; /* the message is the context's */
    s = qg_session_run(session, &in, 1, &out, 1);
    if (s)
        fprintf(stderr, "%s\n", qg_session_message(session));
    else
        printf("the first score is %g\n", (double)out.f32[0]);
    qg_session_free(session);
    return s;
}

int main(int argc, char **argv)
{
    char path[1024];
    int64_t count = 0;
    const qg_session_hook hook = {
        .select = "conv1.in0", .writes = true, .see = cut, .ud = &count
    };
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    snprintf(path, sizeof path, "%s/models/digits.onnx", argc > 1 ? argv[1] : ".");
    qg_status s = qg_open(NULL, &ctx);
    if (!s)
        s = qg_model_open(ctx, path, NULL, &m);
    if (!s)
        s = run(m, NULL, 0);
    if (!s)
        s = run(m, &hook, 1);
    if (s)
        fprintf(stderr, "%s: %s\n", qg_status_name(s), ctx ? qg_ctx_message(ctx) : "");
    else
        printf("%lld elements were cut\n", (long long)count);
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
