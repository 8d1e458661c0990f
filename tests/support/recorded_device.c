#include "tests/support/recorded_device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/api/qg.h"
#include "tests/support/dumps.h"
#include "tests/support/recorded_trial.h"

/* A backend, its profile, and one that computes nearly the same. */
static const struct {
    const char *backend, *profile, *other;
} kinds[] = {
    {"tflite-int8",    "tflite-reference",     "tflite-xnnpack"      },
    { "ort-int8",      "onnxruntime-x86-vnni", "onnxruntime-x86-avx2"},
    { "trt-int8",      "tensorrt",             "onnx-reference"      },
    { "tflite-int8",   "tflite-micro",         "tflite-micro-single" },
    { "openvino-int8", "openvino-vnni",        "onnxruntime-x86-vnni"},
    { "xnnpack-int8",  "xnnpack-x86",          "xnnpack-arm"         },
    { "tflite-int8",   "tflite-reference",     "tflite-builtin-arm"  },
    { "ncnn-int8",     "ncnn-x86",             "tensorrt"            },
    { "cmsis-nn-int8", "cmsis-nn",             "tflite-reference"    },
    { "fpga-int8",     "power-of-two",         "tflite-reference"    },
    { "tflite-int8",   "tflite-reference-1.2", "tflite-builtin-x86"  },
    { "ort-int8",      "onnxruntime-arm",      "onnxruntime-x86-vnni"},
    { "trt-qdq-int8",  "tensorrt",             "openvino-vnni"       },
    { "ppl-dsp-int8",  "power-of-two",         "tflite-micro"        },
    { "tflite-int8",   "tflite-xnnpack-arm",   "tflite-xnnpack"      },
};

/* What the kernels of a planted profile do otherwise. */
static const char *const plants[] = {
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: fix-single, "
    "factor: double",
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: fix-double-up, "
    "factor: double",
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: float-rne, "
    "factor: double",
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: double-away, "
    "factor: double",
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: fix-reduced, "
    "factor: double",
    "use: [conv, conv-one, depthwise, dense, dense-channel], scheme: fix-eighth, "
    "factor: double",
    "use: [add, sub], form: fixed, scheme: fix-double, left: {8: 4}",
    "use: [add, sub], form: fixed, scheme: fix-double, left: {8: 7}"
};

/* How the device is quantized otherwise; NULL: as the model is. */
static const char *const settings[] = {
    NULL,
    NULL,
    "op=Conv slot=out0 range=[-100,100]",
    NULL,
    "op=Conv slot=weight policy=per-tensor,linear,symmetric",
    NULL,
    "op=Add slot=out0 range=[-128,60]",
    NULL,
    "op=Relu slot=out0 range=[-120,110]",
    "op=Conv slot=out0 observer=mse",
    "op=MaxPool state=fp32",
    NULL,
    "op=Conv slot=weight bits=4"
};

/* Backends of devices whose rules are to be found: what differs from the base, or the
 * base itself. */
static const struct {
    const char *base, *change;
} variants[] = {
  /* clang-format off */
    { "tflite-int8", NULL },
    { "tflite-int8", "-fusions: [compute-activation]" },
    { "tflite-int8", "defaults: {policy: [per-tensor, linear, symmetric]}" },
    { "ort-int8", NULL },
    { "tflite-int8", "-sharing: [concat-inputs]" },
    { "trt-int8", NULL },
    { "tflite-int8", "quantizes: [Conv, Relu, Gemm, MaxPool, Add]" },
    { "tflite-int8", "-rules: [probabilities, plus-minus-one]" },
    { "trt-int8", "defaults: {range: [-128, 127]}" },
    { "xnnpack-int8", NULL },
    { "tflite-int8", "defaults: {range: [0, 255]}" },
    { "openvino-int8", NULL },
    { "tflite-int8", "-passive: [MaxPool, AveragePool]" },
    { "ort-int8", "defaults: {policy: [per-tensor, linear, symmetric, power-of-2]}" },
    { "fpga-int8", NULL },
    { "tflite-int8", "defaults: {bits: 16, range: [-32768, 32767]}" },
    { "ncnn-int8", NULL },
    { "tflite-int8", "defaults: {range: [-100, 100]}" },
    { "qnn-dsp-int8", NULL }
  /* clang-format on */
};

/* Half of the dumps are as they are: then the rule is found or not. */
static const dump_form forms[] = {
    DUMP_AS_IT_IS, DUMP_AS_IT_IS, DUMP_FLOATS,     DUMP_AS_IT_IS,  DUMP_RENAMED,
    DUMP_SOME,     DUMP_AS_IT_IS, DUMP_UNSIGNED,   DUMP_BARE,      DUMP_ONE_HIGHER,
    DUMP_CLAMPED,  DUMP_AS_IT_IS, DUMP_CHANNELS,   DUMP_WIDE,      DUMP_SHIFTED,
    DUMP_AS_IT_IS, DUMP_SWAPPED,  DUMP_NOTHING,    DUMP_SOME,      DUMP_FLOAT_GRIDS,
    DUMP_NOISE,    DUMP_FEW,      DUMP_OTHER_DIMS, DUMP_ENDPOINTS, DUMP_WRONG_GRID,
    DUMP_BARE,     DUMP_AS_IT_IS, DUMP_RENAMED,    DUMP_FLOATS
};

typedef struct device_trial {
    trial t;
    const device_suite *suite;
    qg_model *m;
    unsigned k; /* of the device */
    const char *backend, *profile, *other, *samples;
} device_trial;

/* Backends, and profiles with each of the plants, for all networks: the context reads
 * each of them once. */
static void write_planted(void)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (size_t k = 0; k < COUNT(plants); k++) {
            char path[64], text[512];
            (void)snprintf(path, sizeof path, "planted%zu_%zu.yaml", i, k);
            (void)snprintf(text, sizeof text,
                           "name: planted%zu_%zu\ntitle: planted\nextends: %s\n"
                           "kernels:\n"
                           "  - {id: planted, %s, why: planted, source: here}\n",
                           i, k, kinds[i].profile, plants[k]);
            trial_write(path, text);
        }
}

static void write_variants(void)
{
    for (size_t i = 0; i < COUNT(variants); i++) {
        char path[64], text[512];
        (void)snprintf(path, sizeof path, "variant%zu.yaml", i);
        (void)snprintf(text, sizeof text,
                       "name: variant%zu\ntitle: planted\nextends: %s\n%s\n", i,
                       variants[i].base, variants[i].change ? variants[i].change : "");
        trial_write(path, text);
    }
}

/* The device's own trace, in the folder "trace"; false: there is none. */
static bool compute_variant(device_trial *d, dump_form form)
{
    char backend[64];
    size_t k = d->k % COUNT(variants);
    qg_report *report = NULL;
    qg_trace_options o;
    (void)snprintf(backend, sizeof backend, "variant%zu.yaml", k);
    recorded_print(d->t.r, "%s: %s form %d\n", variants[k].base,
                   variants[k].change ? variants[k].change : "as it is", form);
    qg_model *m = trial_for(&d->t, backend, "random:3", NULL);
    if (!m)
        return false;
    qg_trace_options_init(&o, sizeof o);
    o.work = trial_samples(&d->t, d->samples);
    o.mode = "simulate";
    qg_status s = qg_model_trace(m, &o, "trace", &report);
    trial_put(&d->t, "trace", s, report);
    qg_model_close(m);
    return s == QG_OK;
}

static bool compute(device_trial *d, dump_form form)
{
    const char *set = TURN(settings, d->k);
    char planted[64];
    const char *mode = d->k % 9 == 8 ? "simulate" : "integer";
    qg_report *report = NULL;
    qg_model *m = set ? trial_for(&d->t, d->backend, d->samples, set) : d->m;
    qg_trace_options o;
    if (!m)
        m = d->m; /* the setting matches nothing */
    (void)snprintf(planted, sizeof planted, "planted%u_%u.yaml",
                   (unsigned)(d->t.k % COUNT(kinds)),
                   (unsigned)(d->k / 3 % COUNT(plants)));
    qg_trace_options_init(&o, sizeof o);
    o.work = trial_samples(&d->t, d->samples);
    o.mode = mode;
    o.profile = d->k % 3 == 0 ? d->profile : d->k % 3 == 1 ? d->other : planted;
    if (strcmp(mode, "simulate") == 0)
        o.profile = NULL;
    qg_status s = qg_model_trace(m, &o, "trace", &report);
    recorded_print(d->t.r, "%s %s %s %s form %d\n", d->backend, d->profile,
                   o.profile ? o.profile : mode, set ? set : "-", form);
    trial_put(&d->t, "trace", s, report);
    if (m != d->m)
        qg_model_close(m);
    return s == QG_OK;
}

static void case_diverge(device_trial *d, bool end_to_end, size_t explain,
                         const char *profile)
{
    qg_report *report = NULL;
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = trial_samples(&d->t, d->samples);
    o.profile = profile;
    o.end_to_end = end_to_end;
    o.explain = explain;
    qg_status s = qg_model_diverge(d->m, &o, "device", &report);
    trial_put(&d->t, "diverge", s, report);
}

static void case_fit(device_trial *d)
{
    qg_report *report = NULL;
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = trial_samples(&d->t, d->samples);
    o.profile = d->k % 5 < 3 ? d->profile : NULL;
    const char *yaml =
        d->k % 4 == 1 ? "fit.yaml" : NULL; /* the context reads all again */
    qg_status s = qg_model_fit(d->m, &o, "device", yaml, &report);
    trial_put(&d->t, "fit", s, report);
    recorded_files(d->t.r, "fit.yaml");
}

static void case_infer(device_trial *d)
{
    qg_report *report = NULL;
    qg_model *m = trial_model(&d->t);
    qg_infer_options o;
    qg_infer_options_init(&o, sizeof o);
    o.work = trial_samples(&d->t, d->samples);
    o.from = d->k % 4 < 3 ? TURN(variants, d->k).base : TURN(kinds, d->k).backend;
    const char *yaml = d->k % 4 < 2 ? "infer.yaml" : NULL;
    qg_status s = m ? qg_model_infer_backend(m, &o, "device", yaml, &report) : QG_OK;
    trial_put(&d->t, o.from, s, report);
    recorded_files(d->t.r, "infer.yaml");
    qg_model_close(m);
}

static void case_probe(device_trial *d)
{
    char between[128];
    qg_report *report = NULL;
    qg_probe_options o;
    qg_probe_options_init(&o, sizeof o);
    (void)snprintf(between, sizeof between, "%s,%s", d->profile, d->other);
    o.work = trial_samples(&d->t, d->k % 2 ? d->samples : NULL);
    o.work.samples = 2;
    o.between = between;
    o.seed = d->k % 4;
    qg_status s = qg_model_probe(d->m, &o, "probe.npz", &report);
    trial_put(&d->t, between, s, report);
    recorded_files(d->t.r, "probe.npz");
}

/* The dump of the device, in the folder "device". */
static bool put_device(device_trial *d, dump_form form)
{
    dump all;
    qg_report *report = NULL;
    qg_rng rng = { d->k + 1 };
    if (d->suite->question == DEVICE_INFER ? !compute_variant(d, form)
                                           : !compute(d, form))
        return false;
    recorded_pause(true);
    dump_read(d->t.ctx, &all, "trace");
    recorded_pause(false);
    if (all.n > 0)
        dump_change(&all, form, &rng);
    dump_write(&all, "device", d->k % 2);
    dump_free(&all);
    qg_status s = qg_trace_diff(d->t.ctx, "trace", "device", &report);
    trial_put(&d->t, "diff", s, report);
    return true;
}

static void ask(device_trial *d)
{
    switch (d->suite->question) {
    case DEVICE_DIVERGE:
        case_diverge(d, false, d->k % 4, d->profile);
        if (d->k % 3 == 1)
            case_diverge(d, true, 2, d->profile);
        if (d->k % 4 == 0)
            case_diverge(d, false, 0, NULL);
        break;
    case DEVICE_FIT:
        case_fit(d);
        if (d->k % 3 == 2)
            case_probe(d);
        break;
    case DEVICE_INFER:
        case_infer(d);
        break;
    }
}

static void try_device(device_trial *d, dump_form form)
{
    if (!recorded_case(d->t.r, "%s: device %u", d->t.net->name, d->k))
        return;
    if (put_device(d, form))
        ask(d);
    recorded_files(d->t.r, "device");
    recorded_files(d->t.r, "trace");
}

/* Devices of one network. */
static void try_network(trial *t)
{
    device_trial *d = t->ud;
    const unsigned devices = d->suite->devices, k = t->k;
    d->t = *t;
    d->backend = TURN(kinds, k).backend;
    d->profile = TURN(kinds, k).profile;
    d->other = TURN(kinds, k).other;
    d->samples = k % 5 == 1 ? "random:1" : k % 5 == 2 ? "random:4" : "random:2";
    recorded_rest(t->r);
    d->m = trial_for(&d->t, d->backend, d->samples, NULL);
    for (unsigned i = 0; d->m && i < devices; i++) {
        d->k = k * devices + i;
        try_device(d, TURN(forms, d->k * 3));
    }
    qg_model_close(d->m);
}

static void prepare(void)
{
    write_planted();
    write_variants();
}

int recorded_devices(const device_suite *suite, int argc, char **argv)
{
    device_trial d = { .suite = suite };
    const trial_suite own = { .path = suite->path,
                              .first = suite->first,
                              .chains = suite->chains,
                              .random = suite->random,
                              .prepare = prepare,
                              .try_network = try_network,
                              .ud = &d };
    return trial_main(&own, argc, argv);
}
