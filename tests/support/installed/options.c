/* options.c -- a client whose structs of options are smaller or larger than those of
 * the library, on the heap in their exact sizes, so that AddressSanitizer detects
 * accesses beyond them.  tests/scripts/test_embedding.py compiles it against modified
 * headers; QG_FUTURE: the structs have an additional last member `future`.
 *
 *     options CONFIG-DIR SNAPSHOT         all verbs work
 *     options CONFIG-DIR SNAPSHOT set     with `future` set, none works */
#include <qg.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A separate struct for every call, freed by end. */
#define NEW(type, name)                                                                \
    type *name = malloc(sizeof *name);                                                 \
    if (!name)                                                                         \
        abort();                                                                       \
    memset(name, 0xff, sizeof *name);                                                  \
    type##_init(name, sizeof *name);                                                   \
    future(name, sizeof *name)

static int set_future;

static void future(void *o, size_t size)
{
    size_t known;
    memcpy(&known, o, sizeof known);
    if (known != size)
        abort();
#ifdef QG_FUTURE
    if (set_future)
        ((char *)o)[size - 1] = 1;
#endif
}

/* Without `future` a call must succeed; with it, it must fail with the name of its
 * struct. */
static int check(qg_ctx *ctx, const char *type, qg_status s, void *o)
{
    int good = set_future
                   ? s == QG_ECONFIG && (!ctx || strstr(qg_ctx_message(ctx), type))
                   : s == QG_OK;
    if (!good)
        printf("%s: %s: %s\n", type, qg_status_name(s), qg_ctx_message(ctx));
    free(o);
    return !good;
}

static int snapshot(qg_model *m, qg_ctx *ctx, const char *path)
{
    qg_model *again = NULL;
    NEW(qg_model_options, o);
    if (!set_future && qg_model_save(m, path) != QG_OK)
        return 1;
    qg_status s = qg_model_open(ctx, path, o, &again);
    qg_model_close(again);
    return check(ctx, "qg_model_options", s, o);
}

static int questions(qg_model *m, qg_ctx *ctx, const qg_workload *work)
{
    NEW(qg_run_options, run);
    run->work = *work;
    int bad = check(ctx, "qg_run_options", qg_model_run(m, run, NULL, NULL), run);
    NEW(qg_analyse_options, analyse);
    analyse->work = *work;
    bad |=
        check(ctx, "qg_analyse_options", qg_model_analyse(m, analyse, NULL), analyse);
    NEW(qg_doctor_options, doctor);
    doctor->work = *work;
    bad |= check(ctx, "qg_doctor_options", qg_model_doctor(m, doctor, NULL), doctor);
    NEW(qg_sensitivity_options, each);
    each->work = *work;
    bad |=
        check(ctx, "qg_sensitivity_options", qg_model_sensitivity(m, each, NULL), each);
    NEW(qg_price_options, price);
    price->work = *work;
    return bad | check(ctx, "qg_price_options", qg_model_price(m, price, NULL), price);
}

static int use(qg_ctx *ctx, const char *config, const char *path)
{
    char model[1024], data[1024];
    snprintf(model, sizeof model, "%s/models/digits.onnx", config);
    snprintf(data, sizeof data, "%s/data/digits_calib.npy", config);
    qg_workload work = { 0 };
    work.data = data;
    work.samples = 4;
    qg_model *m = NULL;
    if (qg_model_open(ctx, model, NULL, &m) != QG_OK)
        return 1;
    NEW(qg_quantize_options, q);
    q->work = work;
    q->backend = "trt-int8";
    int bad = check(ctx, "qg_quantize_options", qg_model_quantize(m, q, NULL), q);
    if (set_future) { /* the following verbs need a quantized model */
        qg_quantize_options plain;
        qg_quantize_options_init(&plain, sizeof plain);
        plain.work = work;
        plain.backend = "trt-int8";
        bad |= qg_model_quantize(m, &plain, NULL) != QG_OK;
    }
    bad |= questions(m, ctx, &work) | snapshot(m, ctx, path);
    NEW(qg_format_options, format);
    format->format = "onnx-qdq";
    bad |= check(ctx, "qg_format_options",
                 qg_model_export(m, format, "exported.onnx", NULL), format);
    NEW(qg_quantize_tensor_options, tensor);
    bad |= check(ctx, "qg_quantize_tensor_options",
                 qg_quantize_tensor(ctx, data, tensor, NULL), tensor);
    qg_model_close(m);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    qg_ctx *ctx = NULL;
    NEW(qg_open_options, o);
    o->config_dir = argv[1];
    int bad = check(NULL, "qg_open_options", qg_open(o, &ctx), o);
    if (!bad)
        bad = use(ctx, argv[1], argv[2]);
    qg_close(ctx);
    set_future = argc > 3;
    if (set_future) {
        NEW(qg_open_options, refused);
        qg_ctx *none = NULL;
        bad |= check(NULL, "qg_open_options", qg_open(refused, &none), refused);
        set_future = 0;
        NEW(qg_open_options, plain);
        plain->config_dir = argv[1];
        bad |= check(NULL, "qg_open_options", qg_open(plain, &ctx), plain);
        set_future = 1;
        bad |= use(ctx, argv[1], argv[2]);
        qg_close(ctx);
    }
    puts(bad ? "bad" : "ok");
    return bad;
}
