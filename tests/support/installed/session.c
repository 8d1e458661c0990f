/* session.c -- quantizes the demo model, then runs a picture in float and simulated:
 * the scores of both, in arrays of this program, and an inner value, borrowed.
 *
 *     session CONFIG-DIR */
#include <qg.h>

#include <stdio.h>

enum { SIDE = 8, CLASSES = 10 };

/* One run of the picture x in `mode`. */
static qg_status run(qg_model *m, const char *mode, float *x, float *score)
{
    static const char *const inner[] = { "relu0_out" };
    qg_session *session = NULL;
    qg_session_options o;
    qg_tensor in, out, value = { 0 }; /* value has no data: it gets the session's */
    qg_session_options_init(&o, sizeof o);
    o.mode = mode;
    o.keep = inner;
    o.n_keep = 1;
    qg_tensor_init(&in, QG_F32, 4, (const int64_t[]){ 1, 1, SIDE, SIDE });
    qg_tensor_init(&out, QG_F32, 2, (const int64_t[]){ 1, CLASSES });
    in.f32 = x;
    out.f32 = score;
    qg_status s = qg_session_new(m, &o, &session);
    if (s)
        return s;                                 /* the message is the context's */
    s = qg_session_run(session, &in, 1, &out, 1); /* as often as there are samples */
    if (!s)
        s = qg_session_value(session, 0, &value);
    if (s)
        fprintf(stderr, "%s\n", qg_session_message(session));
    else
        printf("%s: %s begins with %g\n", mode, inner[0], (double)value.f32[0]);
    qg_session_free(session);
    return s;
}

int main(int argc, char **argv)
{
    char path[1024], data[1024];
    float x[SIDE * SIDE], score[2][CLASSES];
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_open_options o;
    qg_quantize_options q;
    qg_open_options_init(&o, sizeof o);
    qg_quantize_options_init(&q, sizeof q);
    o.config_dir = argc > 1 ? argv[1] : NULL;
    snprintf(path, sizeof path, "%s/models/digits.onnx", argc > 1 ? argv[1] : ".");
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", argc > 1 ? argv[1] : ".");
    q.backend = "trt-int8";
    q.work.data = data;
    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = (float)(i % 17) / 16;
    qg_status s = qg_open(&o, &ctx);
    if (!s)
        s = qg_model_open(ctx, path, NULL, &m);
    if (!s)
        s = qg_model_quantize(m, &q, NULL);
    if (!s)
        s = run(m, "float", x, score[0]);
    if (!s)
        s = run(m, "simulate", x, score[1]);
    for (int k = 0; k < CLASSES && !s; k++)
        printf("%d: %g %g\n", k, (double)score[0][k], (double)score[1][k]);
    if (s)
        fprintf(stderr, "%s: %s\n", qg_status_name(s), ctx ? qg_ctx_message(ctx) : "");
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
