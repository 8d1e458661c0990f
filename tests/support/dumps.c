#include "tests/support/dumps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void *taken(void *p)
{
    if (!p)
        abort();
    return p;
}

/* --- reading --- */

static void read_array(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a,
                       dump_array *out)
{
    qg_trace_data data;
    *out = (dump_array){ .type = a->type,
                         .n = a->samples * a->count,
                         .grid = a->grid,
                         .scale = a->scale,
                         .zero = a->zero };
    (void)snprintf(out->value, DUMP_NAME, "%s", a->value);
    (void)snprintf(out->endpoint, DUMP_NAME, "%s", a->endpoint ? a->endpoint : "");
    out->x = taken(calloc(out->n + 1, sizeof *out->x));
    if (qg_trace_load(ctx, t, a, &data) != QG_OK)
        abort();
    for (size_t i = 0; i < a->samples; i++)
        if (qg_trace_sample(ctx, &data, i, out->x + i * a->count) != QG_OK)
            memset(out->x + i * a->count, 0, a->count * sizeof *out->x); /* has NaN */
    qg_trace_unload(&data);
}

void dump_read(qg_ctx *ctx, dump *d, const char *folder)
{
    qg_trace *t;
    if (qg_trace_open(ctx, folder, &t) != QG_OK)
        abort();
    *d = (dump){ taken(calloc(t->n + 1, sizeof *d->at)), t->n };
    for (size_t i = 0; i < t->n; i++)
        read_array(ctx, t, &t->array[i], &d->at[i]);
    qg_trace_close(t);
}

void dump_free(dump *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->at[i].x);
    free(d->at);
    *d = (dump){ 0 };
}

/* --- changes --- */

static bool has_codes(const dump_array *a)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(a->type.dtype);
    return a->grid && (kind == QG_KIND_INT || kind == QG_KIND_UINT);
}

static void to_floats(dump_array *a)
{
    for (size_t i = 0; has_codes(a) && i < a->n; i++)
        a->x[i] = (float)(a->x[i] - a->zero) * (float)a->scale;
    if (has_codes(a))
        a->type.dtype = QG_F32;
}

/* Channels of every sample last; dims as well. */
static void channels_last(dump_array *a)
{
    const int64_t *d = a->type.dim;
    if (a->type.rank != 5) /* samples, batch, channels, height, width */
        return;
    size_t c = (size_t)d[2], rest = (size_t)(d[3] * d[4]), sample = c * rest;
    double *y = taken(calloc(a->n + 1, sizeof *y));
    for (size_t i = 0; i < a->n; i++)
        y[i / sample * sample + i % rest * c + i / rest % c] = a->x[i];
    free(a->x);
    a->x = y;
    qg_tensor_init(&a->type, a->type.dtype, 5,
                   (const int64_t[]){ d[0], d[1], d[3], d[4], d[2] });
}

static void to_unsigned(dump_array *a)
{
    if (!has_codes(a) || a->type.dtype != QG_I8)
        return;
    for (size_t i = 0; i < a->n; i++)
        a->x[i] += 128;
    a->type.dtype = QG_U8;
    a->zero += 128;
}

static void to_wide(dump_array *a, size_t k)
{
    static const qg_dtype wide[] = { QG_I16, QG_I32, QG_I64, QG_F32, QG_F64 };
    if (has_codes(a))
        a->type.dtype = wide[k % 5];
}

/* The change of every array. */
static void change_each(dump_array *a, size_t k, dump_form form, qg_rng *rng)
{
    switch (form) {
    case DUMP_FLOATS:
    case DUMP_FLOAT_GRIDS:
    case DUMP_NOISE:
        to_floats(a);
        for (size_t i = 0; form == DUMP_NOISE && i < a->n; i++)
            a->x[i] = (float)(a->x[i] * (1 + 1e-6 * (double)qg_rng_below(rng, 9)));
        a->grid &= form == DUMP_FLOAT_GRIDS;
        break;
    case DUMP_RENAMED:
        channels_last(a);
        a->endpoint[0] = 0;
        (void)snprintf(a->value, DUMP_NAME, "tensor_%zu", k);
        break;
    case DUMP_CHANNELS:
        if (a->type.rank == 5)
            (void)snprintf(a->layout, DUMP_NAME, "%s",
                           k % 2 ? ", \"layout\": \"nhwc\""
                                 : ", \"permutation\": [0, 2, 3, 1]");
        channels_last(a);
        break;
    case DUMP_UNSIGNED:
        to_unsigned(a);
        break;
    case DUMP_BARE:
        a->grid = false;
        break;
    case DUMP_WIDE:
        to_wide(a, k);
        break;
    case DUMP_ENDPOINTS:
        (void)snprintf(a->value, DUMP_NAME, "layer_%zu", k);
        break;
    default:
        break;
    }
}

/* Somewhere behind the inputs, if possible; prefers codes. */
static dump_array *drawn(dump *d, qg_rng *rng)
{
    dump_array *a = &d->at[d->n - 1];
    for (int tries = 0; tries < 8; tries++) {
        a = &d->at[qg_rng_below(rng, d->n)];
        if (has_codes(a) && a != d->at)
            break;
    }
    return a;
}

static double limited(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static void swap(dump *d, dump_array *a)
{
    for (size_t i = d->n; i-- > 0;) {
        dump_array *b = &d->at[i];
        if (a != b && qg_same_dims(&a->type, &b->type) &&
            a->type.dtype == b->type.dtype) {
            double *x = a->x;
            a->x = b->x;
            b->x = x;
            return;
        }
    }
}

/* The change of one array. */
static void change_one(dump *d, dump_form form, qg_rng *rng)
{
    dump_array *a = drawn(d, rng);
    double step = qg_dtype_kind_of(a->type.dtype) == QG_KIND_FLOAT ? 0.01 : 1;
    switch (form) {
    case DUMP_SOME:
        a->x[qg_rng_below(rng, a->n)] += step;
        break;
    case DUMP_WRONG_GRID:
        a->scale *= 1.37;
        a->zero += (int32_t)qg_rng_below(rng, 3) - 1;
        break;
    case DUMP_ONE_HIGHER:
        for (size_t i = qg_rng_below(rng, 3); i < a->n; i += 3)
            a->x[i] = limited(a->x[i] + step, -128, 127);
        break;
    case DUMP_CLAMPED:
        for (size_t i = 0; i < a->n; i++)
            a->x[i] = limited(a->x[i], -100, 60);
        break;
    case DUMP_SHIFTED:
        a->zero += 3;
        for (size_t i = 0; i < a->n; i++)
            a->x[i] = limited(a->x[i] + 3, -128, 127);
        break;
    case DUMP_SWAPPED:
        swap(d, a);
        break;
    case DUMP_NOTHING:
        for (size_t i = 0; i < a->n; i++)
            a->x[i] = a->zero;
        break;
    case DUMP_OTHER_DIMS:
        qg_tensor_init(
            &a->type, a->type.dtype, 2,
            (const int64_t[]){ a->type.dim[0], (int64_t)a->n / a->type.dim[0] });
        break;
    default:
        break;
    }
}

/* A sample less of all of them. */
static void shorten(dump *d)
{
    for (size_t k = 0; k < d->n; k++) {
        dump_array *a = &d->at[k];
        a->n -= a->n / (size_t)a->type.dim[0];
        a->type.dim[0]--;
    }
}

/* Leaves out about half of the values, never all of them. */
static void leave_out(dump *d, qg_rng *rng)
{
    size_t n = 0;
    for (size_t k = 0; k < d->n; k++) {
        bool stays = qg_rng_below(rng, 5) < 3 || (n == 0 && k + 1 == d->n);
        if (!stays)
            free(d->at[k].x);
        else
            d->at[n++] = d->at[k];
    }
    d->n = n;
}

void dump_change(dump *d, dump_form form, qg_rng *rng)
{
    if (form == DUMP_SOME)
        leave_out(d, rng);
    if (form == DUMP_FEW)
        shorten(d);
    for (size_t k = 0; k < d->n; k++)
        change_each(&d->at[k], k, form, rng);
    change_one(d, form, rng);
}

/* --- writing --- */

/* Devices saturate. */
static double saturated(qg_dtype type, double x)
{
    switch (type) {
    case QG_I8:
        return limited(x, INT8_MIN, INT8_MAX);
    case QG_U8:
        return limited(x, 0, UINT8_MAX);
    case QG_I16:
        return limited(x, INT16_MIN, INT16_MAX);
    case QG_U16:
        return limited(x, 0, UINT16_MAX);
    case QG_I32:
        return limited(x, INT32_MIN, INT32_MAX);
    case QG_U32:
        return limited(x, 0, UINT32_MAX);
    default:
        return x;
    }
}

static void write_element(FILE *f, qg_dtype type, double x)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        float f32;
        double f64;
    } e = { 0 };
    x = saturated(type, x);
    switch (type) {
    case QG_I8:
        e.i8 = (int8_t)x;
        break;
    case QG_BOOL:
    case QG_U8:
        e.u8 = (uint8_t)x;
        break;
    case QG_I16:
        e.i16 = (int16_t)x;
        break;
    case QG_U16:
        e.u16 = (uint16_t)x;
        break;
    case QG_I32:
        e.i32 = (int32_t)x;
        break;
    case QG_U32:
        e.u32 = (uint32_t)x;
        break;
    case QG_I64:
        e.i64 = (int64_t)x;
        break;
    case QG_F32:
        e.f32 = (float)x;
        break;
    case QG_F64:
        e.f64 = x;
        break;
    default:
        abort();
    }
    (void)fwrite(&e, qg_dtype_bits(type) / 8, 1, f);
}

/* The header of an .npy file, whose length is a multiple of 64. */
static void write_header(FILE *f, const qg_tensor *type)
{
    static const char letter[] = { [QG_KIND_INT] = 'i',
                                   [QG_KIND_UINT] = 'u',
                                   [QG_KIND_FLOAT] = 'f',
                                   [QG_KIND_BOOLEAN] = 'b' };
    char text[256];
    int n = snprintf(
        text, sizeof text, "{'descr': '<%c%u', 'fortran_order': False, 'shape': (",
        letter[qg_dtype_kind_of(type->dtype)], qg_dtype_bits(type->dtype) / 8);
    for (int i = 0; i < type->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld, ",
                      (long long)type->dim[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, ")}");
    int length = (n + 1 + 10 + 63) / 64 * 64 - 10;
    (void)fwrite("\x93NUMPY\1", 1, 7, f);
    (void)fprintf(f, "%c%c%c%s%*s\n", 0, length & 255, length >> 8, text,
                  length - 1 - n, "");
}

static void write_array(const dump_array *a, const char *folder, size_t k, bool raw)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/a%zu.%s", folder, k, raw ? "bin" : "npy");
    FILE *f = taken(fopen(path, "wb"));
    if (!raw)
        write_header(f, &a->type);
    for (size_t i = 0; i < a->n; i++)
        write_element(f, a->type.dtype, a->x[i]);
    (void)fclose(f);
}

static void describe(FILE *f, const dump_array *a, size_t k, bool raw)
{
    (void)fprintf(f, "%s\n{\"value\": \"%s\", \"file\": \"a%zu.%s\"", k ? "," : "",
                  a->value, k, raw ? "bin" : "npy");
    if (a->endpoint[0])
        (void)fprintf(f, ", \"endpoint\": \"%s\"", a->endpoint);
    (void)fprintf(f, ", \"type\": \"%s\", \"shape\": [", qg_dtype_name(a->type.dtype));
    for (int i = 0; i < a->type.rank; i++)
        (void)fprintf(f, "%s%lld", i ? ", " : "", (long long)a->type.dim[i]);
    (void)fprintf(f, "]%s, \"grid\": ", a->layout);
    if (a->grid)
        (void)fprintf(f, "{\"scale\": %.9g, \"zero\": %d}}", a->scale, a->zero);
    else
        (void)fprintf(f, "null}");
}

void dump_write(const dump *d, const char *folder, bool raw)
{
    char path[256];
    (void)mkdir(folder, 0700);
    (void)snprintf(path, sizeof path, "%s/trace.json", folder);
    FILE *f = taken(fopen(path, "w"));
    (void)fprintf(f, "{\"format\": \"quantgraph-trace\", \"version\": 1,"
                     " \"producer\": \"device 1\", \"arrays\": [");
    for (size_t k = 0; k < d->n; k++) {
        describe(f, &d->at[k], k, raw);
        write_array(&d->at[k], folder, k, raw);
    }
    (void)fprintf(f, "\n]}\n");
    (void)fclose(f);
}
