/* run.c SNAPSHOT -- reads one sample of digits from stdin and writes the simulated
 * outputs to stdout, as bytes.  For test_python_numbers.py. */
#include <stdio.h>

#include "qg.h"

int main(int argc, char **argv)
{
    float x[64], y[10];
    const int64_t shape[] = { 1, 1, 8, 8 }, classes[] = { 1, 10 };
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_session *run = NULL;
    qg_tensor in, out;
    if (argc != 2 || fread(x, sizeof x[0], 64, stdin) != 64)
        return 2;
    qg_tensor_init(&in, QG_F32, 4, shape);
    qg_tensor_init(&out, QG_F32, 2, classes);
    in.f32 = x;
    out.f32 = y;
    qg_status s = qg_open(NULL, &ctx);
    if (!s)
        s = qg_model_open(ctx, argv[1], NULL, &m);
    if (!s)
        s = qg_session_new(m, NULL, &run);
    if (!s)
        s = qg_session_run(run, &in, 1, &out, 1);
    if (!s && fwrite(y, sizeof y[0], 10, stdout) != 10)
        s = QG_EIO;
    qg_session_free(run);
    qg_model_close(m);
    qg_close(ctx);
    return s != QG_OK;
}
