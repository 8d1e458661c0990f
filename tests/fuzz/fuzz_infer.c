/* fuzz_infer.c -- any bytes as what a device shows of a small network: a backend is
 * inferred, or the dump refused.  What is written is read again by the strict reader.
 *
 *     byte 0           which backend is the base
 *     then records     RECORD bytes: value, type, form, 3 of the grid, elements that
 *                      are repeated over the array
 *
 * The arrays are valid as files (fuzz_trace.c has those that are not): names, types,
 * extents, grids and elements are not. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/api/qg.h"
#include "engine/api/qg_memory.h"
#include "tests/fuzz/outcome.h"
#include "tests/support/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { SAMPLES = 2, RECORD = 16, MOST_ARRAYS = 12, WIDEST = 8 };

static const char network[] = "graph \"g\" {\n"
                              "  opset 13\n"
                              "  x = input f32[1,2,4,4]\n"
                              "  w = const f32[4,2,1,1] ramp(-1, 1)\n"
                              "  v = const f32[4,1,3,3] ramp(-1, 2)\n"
                              "  c = Conv c (x, w)\n"
                              "  r = Relu r (c)\n"
                              "  d = Conv d (r, v) group=4 pads=[1, 1, 1, 1]\n"
                              "  a = Add a (r, d)\n"
                              "  j = Concat j (a, r) axis=1\n"
                              "  p = MaxPool p (j) kernel_shape=[2, 2]\n"
                              "  t = Sigmoid t (p)\n"
                              "  output t\n"
                              "}\n";

/* Values of the network, and a name that is none of them. */
static const struct {
    const char *name;
    int dim[3];
} values[] = {
    {"x",  { 2, 4, 4 }},
    { "c", { 4, 4, 4 }},
    { "r", { 4, 4, 4 }},
    { "d", { 4, 4, 4 }},
    { "a", { 4, 4, 4 }},
    { "j", { 8, 4, 4 }},
    { "p", { 8, 3, 3 }},
    { "t", { 8, 3, 3 }},
    { "z", { 4, 4, 4 }}
};

static const struct {
    const char *name;
    size_t size;
} types[] = {
    {"int8",     1},
    { "uint8",   1},
    { "float32", 4},
    { "float32", 4},
    { "int16",   2},
    { "float64", 8},
    { "int32",   4},
    { "float16", 2}
};

static const char *const bases[] = { "trt-int8",      "tflite-int8", "ort-int8",
                                     "graphcore-fp8", "fpga-int8",   "openvino-int8",
                                     "snpe-int8",     "metax-int8-t" };

/* A file of the folder. */
static FILE *begin(const char *folder, const char *name)
{
    char path[SCRATCH_PATH + 32];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f)
        abort();
    return f;
}

/* Small integers times a step of any size; form 1: the bytes as they are. */
static void write_element(FILE *f, const char *type, size_t width, const uint8_t *e,
                          bool raw)
{
    int8_t k = (int8_t)e[0];
    int exponent = (int)(e[1] % 32) - 16;
    float single = raw ? 0 : ldexpf((float)k, exponent);
    double real = raw ? 0 : ldexp((double)k, 16 * exponent);
    if (raw || type[0] != 'f' || width == 2)
        (void)fwrite(e, width, 1, f);
    else if (width == 4)
        (void)fwrite(&single, width, 1, f);
    else
        (void)fwrite(&real, width, 1, f);
}

/* The array of a record, and its description. */
static void write_array(const char *folder, FILE *json, int at, const uint8_t *r)
{
    char name[16];
    size_t v = r[0] % (sizeof values / sizeof *values), t = r[1] % 8, n = SAMPLES;
    const int *dim = values[v].dim;
    int channels = dim[0] + (r[2] >= 250); /* rarely of other dims */
    (void)snprintf(name, sizeof name, "%d.bin", at);
    (void)fprintf(json, "%s{\"value\":\"%s\",\"file\":\"%s\",\"type\":\"%s\"",
                  at ? "," : "", values[v].name, name, types[t].name);
    (void)fprintf(json, ",\"shape\":[%d,1,%d,%d,%d]", SAMPLES, channels, dim[1],
                  dim[2]);
    if (r[2] & 1)
        (void)fprintf(json, ",\"grid\":{\"scale\":%g,\"zero\":%d}",
                      ldexp(1 + r[3] / 256.0, (int8_t)r[4]),
                      (int8_t)r[5] * (r[2] & 32 ? 1 << 24 : 1));
    if (r[2] & 2)
        (void)fputs(",\"layout\":\"nchw\"", json);
    (void)fputs("}", json);
    n *= (size_t)channels * (size_t)dim[1] * (size_t)dim[2];
    FILE *f = begin(folder, name);
    for (size_t i = 0; i < n; i++) { /* shifts of the record's last bytes */
        uint8_t e[2 * WIDEST];
        for (size_t k = 0; k < WIDEST; k++)
            e[k] = (uint8_t)(r[6 + (i + k) % (RECORD - 6)] + (r[2] & 4 ? i : 0));
        e[1] = r[2] & 8 ? e[1] : r[7];
        write_element(f, types[t].name, types[t].size, e, r[2] & 16);
    }
    (void)fclose(f);
}

static void write_dump(const char *folder, const uint8_t *bytes, size_t size)
{
    FILE *json = begin(folder, "trace.json");
    (void)fputs("{\"format\":\"quantgraph-trace\",\"version\":1,\"arrays\":[", json);
    for (int i = 0; i < MOST_ARRAYS && size >= RECORD; i++) {
        write_array(folder, json, i, bytes);
        bytes += RECORD;
        size -= RECORD;
    }
    (void)fputs("]}", json);
    (void)fclose(json);
}

/* The samples of the network, once per process. */
static void write_data(const char *folder)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (2, 2, 4, 4), }";
    FILE *f = begin(folder, "x.npy");
    (void)fprintf(f, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, head);
    for (int i = 0; i < 64; i++) {
        float x = (float)(i * 37 % 64) / 32 - 1;
        (void)fwrite(&x, sizeof x, 1, f);
    }
    (void)fclose(f);
}

static void infer(qg_ctx *ctx, const char *folder, const char *from)
{
    char data[SCRATCH_PATH + 32], yaml[SCRATCH_PATH + 32];
    qg_infer_options o;
    qg_report *r = NULL;
    qg_model *m;
    (void)snprintf(data, sizeof data, "%s/x.npy", folder);
    (void)snprintf(yaml, sizeof yaml, "%s/mine.yaml", folder);
    qg_infer_options_init(&o, sizeof o);
    o.work.data = data;
    o.from = from;
    if (qg_model_open_text(ctx, network, sizeof network - 1, &m) != QG_OK)
        abort();
    qg_status s = qg_model_infer_backend(m, &o, folder, yaml, &r);
    if (s == QG_OK) {
        const char *text = qg_report_json(r);
        outcome_put(text, strlen(text));
        qg_report_free(r);
    } else if (s != QG_EDATA) { /* a backend that we wrote and cannot read, a rule that
                               * we broke */
        (void)fprintf(stderr, "%s\n", qg_ctx_message(ctx));
        abort();
    }
    qg_model_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char folder[SCRATCH_PATH], data[SCRATCH_PATH + 32];
    qg_open_options how;
    qg_ctx *ctx;
    scratch_path(folder, "fuzz");
    (void)snprintf(data, sizeof data, "%s/x.npy", folder);
    struct stat there;
    if (stat(data, &there) != 0) {
        if (mkdir(folder, 0700) != 0)
            abort();
        write_data(folder);
    }
    qg_open_options_init(&how, sizeof how);
    if (size == 0 || qg_open(&how, &ctx) != QG_OK)
        return 0;
    write_dump(folder, bytes + 1, size - 1);
    infer(ctx, folder, bases[bytes[0] % 8]);
    qg_close(ctx);
    return 0;
}
