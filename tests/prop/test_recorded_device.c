/* What comparisons with a device give for small networks is what
 * tests/data/recorded/device.txt has (tests/support/recorded.h).  The device is the
 * engine with another profile or other settings, whose trace is changed as devices
 * differ (tests/support/dumps.h). */
#include <string.h>

#include "tests/support/dumps.h"
#include "tests/support/recorded_trial.h"

static const char *const backends[] = { "tflite-int8",   "ort-int8",  "xnnpack-int8",
                                        "openvino-int8", "trt-int8",  "cmsis-nn-int8",
                                        "qnn-dsp-int8",  "ncnn-int8", "tflite-int8",
                                        "nxp-int8",      "aimet-htp" };
static const char *const profiles[] = { "tflite-reference",
                                        "onnxruntime-x86-vnni",
                                        "tflite-xnnpack",
                                        "openvino-vnni",
                                        "tensorrt",
                                        "power-of-two",
                                        "ncnn-x86",
                                        "cmsis-nn",
                                        "onnxruntime-x86-avx2",
                                        "tflite-micro-single",
                                        "onnx-reference",
                                        "onnxruntime-arm",
                                        "tflite-builtin-arm" };
static const char *const pairs[] = { "tflite-reference,tflite-xnnpack",
                                     "tflite-micro,tflite-micro-single",
                                     "onnxruntime-x86-vnni,onnxruntime-x86-avx2",
                                     "tflite-reference,tflite-builtin-arm",
                                     "tensorrt,openvino-vnni" };
/* How the device quantizes otherwise. */
static const char *const settings[] = {
    NULL,
    NULL,
    "op=Conv slot=weight policy=per-tensor,linear,symmetric",
    "op=Conv slot=out0 range=[-128,60]",
    NULL,
    "op=Relu slot=out0 range=[-120,120]",
    "op=Conv slot=out0 observer=mse",
    "op=Add state=fp32",
    "op=Conv slot=weight bits=4"
};

/* As many samples as its turn says: found grids depend on few of them. */
static const char *data_of(const trial *t)
{
    static const char *const data[] = { "random:3", "random:2", "random:9" };
    return TURN(data, t->k / 2);
}

/* NULL where it is not wanted and the backend has one of its own. */
static const char *profile_for(const trial *t, bool wanted, unsigned turn)
{
    const char *backend = TURN(backends, t->k);
    bool none = strncmp(backend, "qnn", 3) == 0 || strncmp(backend, "nxp", 3) == 0 ||
                strncmp(backend, "aimet", 5) == 0;
    return wanted || none ? TURN(profiles, turn) : NULL;
}

static qg_diverge_options options(const trial *t)
{
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = trial_samples(t, data_of(t));
    o.profile = profile_for(t, t->k % 3 == 0, t->k / 3);
    o.end_to_end = t->k % 4 == 3;
    o.explain = t->k % 5;
    return o;
}

static bool trace(trial *t, qg_model *m, const char *mode, const char *folder)
{
    qg_report *report = NULL;
    qg_trace_options o;
    qg_trace_options_init(&o, sizeof o);
    o.work = trial_samples(t, data_of(t));
    o.mode = mode;
    o.profile = mode ? NULL : profile_for(t, t->k % 2 == 0, t->k / 2);
    o.select = t->k % 9 == 8 ? "v*" : NULL;
    qg_status s = qg_model_trace(m, &o, folder, &report);
    trial_put(t, "trace", s, &report);
    return s == QG_OK;
}

/* The trace in the folder "own", changed, in the folder "device". */
static void change(trial *t, dump_form form)
{
    dump d;
    qg_rng rng = { t->k };
    dump_read(t->ctx, &d, "own");
    if (d.n > 0)
        dump_change(&d, form, &rng);
    dump_write(&d, "device", t->k % 2);
    dump_free(&d);
}

static bool make_device(trial *t, qg_model *m, const char *mode)
{
    bool made = trace(t, m, mode, "own");
    if (made)
        change(t, (dump_form)(t->k % DUMP_NFORM));
    return made;
}

/* Grids that are to be found in elements. */
static void compare_without_grids(trial *t, qg_model *m)
{
    static const dump_form forms[] = { DUMP_FLOATS, DUMP_BARE, DUMP_NOISE };
    qg_report *report = NULL;
    qg_diverge_options o = options(t);
    o.explain = 3;
    recorded_files(t->r, "device");
    change(t, TURN(forms, t->k));
    qg_status s = qg_model_diverge(m, &o, "device", &report);
    trial_put(t, "diverge", s, &report);
}

static void compare(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_diverge_options o = options(t);
    qg_status s = qg_model_diverge(m, &o, "device", &report);
    trial_put(t, "diverge", s, &report);
    report = NULL;
    s = qg_model_fit(m, &o, "device", "fit.yaml", &report);
    trial_put(t, "fit", s, &report);
    recorded_files(t->r, "fit.yaml");
    report = NULL;
    s = qg_trace_diff(t->ctx, "own", "device", &report);
    trial_put(t, "diff", s, &report);
}

static void case_compare(trial *t)
{
    const char *backend = TURN(backends, t->k);
    qg_model *m = trial_for(t, backend, data_of(t), NULL);
    qg_model *device =
        m ? trial_for(t, backend, data_of(t), TURN(settings, t->k)) : NULL;
    if (m && !device) /* nothing there to be set */
        device = trial_for(t, backend, data_of(t), NULL);
    if (device && make_device(t, device, NULL)) {
        compare(t, m);
        compare_without_grids(t, m);
    }
    recorded_files(t->r, "own");
    recorded_files(t->r, "device");
    qg_model_close(device);
    qg_model_close(m);
}

static void case_probe(trial *t)
{
    qg_report *report = NULL;
    qg_model *m = trial_for(t, TURN(backends, t->k), data_of(t), NULL);
    qg_probe_options o;
    qg_probe_options_init(&o, sizeof o);
    o.work = trial_samples(t, t->k % 2 ? "random:2" : NULL);
    o.work.samples = 1 + t->k % 3;
    o.between = TURN(pairs, t->k);
    o.seed = t->k % 4;
    if (m)
        trial_put(t, "probe", qg_model_probe(m, &o, "probe.npz", &report), &report);
    recorded_files(t->r, "probe.npz");
    qg_model_close(m);
}

static void case_infer(trial *t)
{
    qg_report *report = NULL;
    qg_infer_options o;
    qg_model *m = trial_model(t);
    qg_model *device =
        trial_for(t, TURN(backends, t->k), data_of(t), TURN(settings, t->k + 1));
    qg_infer_options_init(&o, sizeof o);
    o.work = trial_samples(t, data_of(t));
    o.from = TURN(backends, t->k + t->k / 3 % 2);
    if (m && device && make_device(t, device, t->k % 2 ? "simulate" : NULL)) {
        qg_status s = qg_model_infer_backend(m, &o, "device", "infer.yaml", &report);
        trial_put(t, "infer", s, &report);
    }
    recorded_files(t->r, "infer.yaml");
    recorded_files(t->r, "own");
    recorded_files(t->r, "device");
    qg_model_close(device);
    qg_model_close(m);
}

static const struct {
    const char *name;
    void (*put)(trial *t);
    unsigned every; /* networks */
} kinds[] = {
    {"compare", case_compare, 1 },
    { "probe",  case_probe,   4 },
    { "infer",  case_infer,   12}
};

int main(int argc, char **argv)
{
    recorded r;
    networks all = { 0 };
    char folder[SCRATCH_PATH];
    recorded_begin(&r, argc, argv, "tests/data/recorded/device.txt");
    networks_random(&all, 100, 95);
    trial_enter(folder, "recorded_device");
    for (unsigned k = 0, step = recorded_step(&r); k < all.n && !recorded_is_full(&r);
         k += step)
        for (size_t i = 0; i < COUNT(kinds); i++)
            if (k % kinds[i].every == 0 &&
                recorded_case(&r, "%s: %s", all.at[k].name, kinds[i].name)) {
                trial t = { .r = &r, .net = &all.at[k], .k = k };
                trial_open(&t);
                kinds[i].put(&t);
                trial_close(&t);
            }
    networks_free(&all);
    trial_leave(folder);
    return recorded_end(&r);
}
