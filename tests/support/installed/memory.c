/* memory.c -- quantizes a model that is in memory, and gets the result as bytes.
 *
 *     memory MODEL.onnx */
#include <qg.h>

#include <stdio.h>
#include <stdlib.h>

/* Stands for a model that the program has from elsewhere. */
static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    void *bytes = f ? malloc(1 << 24) : NULL;
    *size = bytes ? fread(bytes, 1, 1 << 24, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

static qg_status quantize(qg_ctx *ctx, const void *bytes, size_t size, qg_bytes *out)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = "random:8";
    qg_status s = qg_model_open_bytes(ctx, bytes, size, NULL, &m);
    if (!s)
        s = qg_model_quantize(m, &o, NULL);
    if (!s)
        s = qg_model_save_bytes(m, out);
    qg_model_close(m);
    return s;
}

int main(int argc, char **argv)
{
    size_t size;
    void *model = argc == 2 ? read_file(argv[1], &size) : NULL;
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_bytes snapshot = { 0 };
    qg_status s = qg_open(NULL, &ctx);
    if (!s)
        s = quantize(ctx, model, size, &snapshot);
    if (!s)
        s = qg_model_open_bytes(ctx, snapshot.data, snapshot.size, NULL, &m);
    if (!s)
        printf("%zu endpoints\n", qg_model_tqc_count(m));
    else
        fprintf(stderr, "%s\n", qg_ctx_message(ctx));
    qg_model_close(m); /* before the bytes that it borrows */
    qg_bytes_free(ctx, &snapshot);
    qg_close(ctx);
    free(model);
    return s != QG_OK;
}
