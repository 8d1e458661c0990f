/* What the analyses give is what tests/data/recorded/analysis.txt has
 * (tests/support/recorded.h): analyse, sensitivity with and without proposals, price,
 * compare, doctor on odd samples, evaluate, and the page of a snapshot. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "tests/support/recorded_trial.h"

static const char *const backends[] = {
    "trt-int8",      "tflite-int8",   "ort-int8",     "openvino-int8",
    "xnnpack-int8",  "trt-fp8",       "ncnn-int8",    "fpga-int8",
    "cmsis-nn-int8", "ppl-cuda-int8", "aimet-default"
};
static const char *const profiles[] = { "tflite-reference", "onnxruntime-x86-vnni",
                                        "tensorrt",         "openvino-vnni",
                                        "tflite-xnnpack",   "power-of-two",
                                        "cmsis-nn" };
static const char *const settings[] = { NULL,
                                        "op=Conv slot=weight bits=4",
                                        NULL,
                                        "op=Conv slot=out0 range=[-20,20]",
                                        "op=Relu state=fp32",
                                        "pass=bias-correct run=yes",
                                        "op=Conv slot=out0 bits=4 range=[-8,7]" };
static const char *const metrics[] = { NULL, "nsr", "mse", "cosine", "snr" };
static const char *const datas[] = { "random:3", "random:1", "random:5", "random:2" };

static void put_analyse(trial *t, qg_model *m, const char *by, const char *mode)
{
    qg_report *report = NULL;
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = trial_samples(t, TURN(datas, t->k));
    o.by = by;
    o.metric = TURN(metrics, t->k);
    o.top = t->k % 3;
    o.mode = mode;
    o.profile = mode && strcmp(mode, "integer") == 0 ? TURN(profiles, t->k) : NULL;
    qg_status s = qg_model_analyse(m, &o, &report);
    recorded_print(t->r, "%s %s\n", by ? by : "-", mode ? mode : "-");
    trial_put(t, "analyse", s, report);
}

static void case_analyse(trial *t, qg_model *m)
{
    put_analyse(t, m, "graph", NULL);
    put_analyse(t, m, "layer", "simulate");
    put_analyse(t, m, "cause", NULL);
    put_analyse(t, m, t->k % 2 ? "layer" : "graph", "integer");
    if (t->k % 8 == 5)
        put_analyse(t, m, "cause", "integer");
}

static void put_sensitivity(trial *t, qg_model *m, const char *by, bool proposes)
{
    static const double budgets[] = { 0.01, 0.0005, 0.2, 0.00001, 0.05 };
    qg_report *report = NULL;
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work = trial_samples(t, proposes ? "random:6" : TURN(datas, t->k));
    o.by = by;
    o.direction = !proposes && t->k % 2 ? "all-but" : "only";
    o.metric = proposes ? NULL : TURN(metrics, t->k + 1);
    o.top = t->k % 4;
    o.whole = t->k % 3 == 1;
    if (proposes) {
        o.proposal.patch = "propose.yaml";
        o.proposal.budget = TURN(budgets, t->k);
        o.proposal.bits = t->k % 3 == 2 ? 16 : t->k % 3 == 1 ? 10 : 0;
        o.holdout = t->k % 4 == 1 ? "random:9" : NULL;
        o.labels = t->k % 5 == 3 ? "labels.npy" : NULL;
        trial_labels("labels.npy", o.holdout ? 9 : 6, t->k);
    }
    qg_status s = qg_model_sensitivity(m, &o, &report);
    trial_put(t, by ? by : "-", s, report);
    recorded_files(t->r, "propose.yaml");
}

static void case_sensitivity(trial *t, qg_model *m)
{
    static const char *const by[] = { "node", "endpoint", "group", NULL };
    put_sensitivity(t, m, TURN(by, t->k), false);
    put_sensitivity(t, m, TURN(by, t->k + 1), false);
    if (t->k % 2 == 0)
        put_sensitivity(t, m, TURN(by, t->k / 2), true);
}

static void case_price(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_price_options o;
    qg_price_options_init(&o, sizeof o);
    o.work = trial_samples(t, TURN(datas, t->k + 1));
    o.metric = TURN(metrics, t->k);
    qg_status s = qg_model_price(m, &o, &report);
    trial_put(t, "price", s, report);
}

static void case_evaluate(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:6");
    o.work.samples = t->k % 3 == 2 ? 4 : 0;
    trial_labels("labels.npy", t->k % 7 == 6 ? 5 : 6, t->k);
    o.mode = t->k % 4 == 3 ? "integer" : NULL;
    o.profile = o.mode ? TURN(profiles, t->k) : NULL;
    qg_status s = qg_model_evaluate(m, &o, "labels.npy", &report);
    trial_put(t, "evaluate", s, report);
}

static void case_page(trial *t, qg_model *m)
{
    static const char *const targets[] = { NULL, "ort", "tflite", "trt" };
    qg_report *report = NULL;
    qg_webpage_options o;
    qg_model *other =
        t->k % 2 ? trial_for(t, TURN(backends, t->k + 2), "random:2", NULL) : NULL;
    qg_webpage_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:4");
    o.against = other;
    o.labels = t->k % 3 == 1 ? "labels.npy" : NULL;
    o.target = TURN(targets, t->k);
    trial_labels("labels.npy", 4, t->k);
    o.output = t->k % 4 == 2 ? "page.html" : NULL;
    qg_status s = qg_model_webpage(m, &o, &report);
    trial_put(t, "webpage", s, report);
    recorded_files(t->r, "page.html");
    qg_model_close(other);
}

static void case_compare(trial *t)
{
    const char *const two[] = { TURN(backends, t->k), TURN(backends, t->k + 3) };
    const char *const patch = "patch.yaml";
    qg_report *report = NULL;
    qg_compare_options o;
    qg_model *m = trial_model(t);
    trial_write(patch, "rules:\n  - id: mine\n    match: {op: Conv, slot: weight, "
                       "constant: yes}\n    set: {bits: 6, range: [-32, 31]}\n"
                       "    why: planted\n    source: here\n");
    qg_compare_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:4");
    o.backend = two;
    o.n_backend = 1 + t->k % 2;
    o.policy = &patch;
    o.n_policy = t->k % 3 == 1;
    o.observer = t->k % 5 == 2 ? "percentile" : NULL;
    o.metric = TURN(metrics, t->k);
    o.holdout = t->k % 4 == 1 ? "random:5" : NULL;
    o.labels = t->k % 6 == 5 ? "labels.npy" : NULL;
    o.mode = t->k % 4 == 3 ? "integer" : NULL;
    trial_labels("labels.npy", o.holdout ? 5 : 4, t->k);
    qg_status s = m ? qg_model_compare(m, &o, &report) : QG_OK;
    trial_put(t, "compare", s, report);
    qg_model_close(m);
}

/* --- samples with something odd, in memory --- */

enum { SAMPLES = 6, ODD_KINDS = 14 };

static void make_odd(float *x, size_t each, unsigned kind, qg_rng *rng)
{
    float *last = x + (SAMPLES - 1) * each, *second = x + each;
    for (size_t i = 0; i < SAMPLES * each; i++)
        x[i] = qg_rng_range(rng, -1, 1);
    for (size_t i = 0; i < each; i++)
        switch (kind) {
        case 1:
            second[i] = 0.25f;
            break;
        case 2:
            last[i] = x[i];
            break;
        case 3:
            last[i] *= 2.5f;
            break;
        case 4:
            last[i] *= 1000;
            break;
        case 5:
            second[i] = second[i] * 255 + 128;
            break;
        case 6:
            last[i] = 0;
            break;
        case 7:
            second[i] *= 1e-4f;
            break;
        default:
            break;
        }
    if (kind == 8)
        second[each / 2] = NAN;
    if (kind == 9)
        last[0] = INFINITY;
    if (kind == 10)
        x[each - 1] = -INFINITY;
    if (kind == 11)
        second[0] = -3e38f;
    for (size_t i = 0; kind >= 12 && i < SAMPLES * each; i++)
        x[i] = kind == 12 ? fabsf(x[i]) * 255 : 0.5f;
}

static void put_doctor(trial *t, qg_model *m, const qg_doctor_options *o)
{
    qg_report *report = NULL;
    qg_status s = qg_model_doctor(m, o, &report);
    trial_put(t, "doctor", s, report);
}

static void case_doctor(trial *t, unsigned kind)
{
    qg_doctor_options o;
    qg_input_array array[4] = { 0 };
    float *x[4] = { 0 };
    qg_rng rng = { t->k * 16 + kind };
    qg_model *m = trial_model(t);
    size_t n = m ? qg_model_input_count(m) : 0;
    for (size_t i = 0; i < n && i < COUNT(x); i++) {
        qg_value_record v = { .size = sizeof v };
        int64_t dim[QG_MAX_RANK];
        size_t each = 1;
        qg_value_get(qg_model_input(m, i), &v);
        for (int32_t d = 0; d < v.rank; d++)
            each *= (size_t)(dim[d + 1] = v.dim[d]);
        dim[0] = SAMPLES;
        if (!(x[i] = calloc(SAMPLES * each, sizeof(float))))
            abort();
        make_odd(x[i], each, kind, &rng);
        array[i].input = v.name;
        qg_tensor_init(&array[i].value, QG_F32, v.rank + 1, dim);
        array[i].value.data = x[i];
    }
    qg_doctor_options_init(&o, sizeof o);
    o.work = trial_samples(t, NULL);
    o.work.array = array;
    o.work.n_array = n;
    if (m && n <= COUNT(x))
        put_doctor(t, m, &o);
    qg_model_close(m);
    for (size_t i = 0; i < COUNT(x); i++)
        free(x[i]);
}

static const struct {
    const char *name;
    void (*put)(trial *t, qg_model *m);
    unsigned every; /* networks */
} kinds[] = {
    {"analyse",      case_analyse,     1},
    { "sensitivity", case_sensitivity, 1},
    { "price",       case_price,       2},
    { "evaluate",    case_evaluate,    2},
    { "page",        case_page,        3}
};

static void try_network(trial *t)
{
    recorded_rest(t->r);
    qg_model *m = trial_for(t, TURN(backends, t->k), "random:3", TURN(settings, t->k));
    if (!m)
        m = trial_for(t, TURN(backends, t->k), "random:3", NULL);
    for (size_t i = 0; m && i < COUNT(kinds); i++)
        if (t->k % kinds[i].every == 0 &&
            recorded_case(t->r, "%s: %s", t->net->name, kinds[i].name))
            kinds[i].put(t, m);
    qg_model_close(m);
    if (t->k % 2 == 1 && recorded_case(t->r, "%s: compare", t->net->name))
        case_compare(t);
    for (unsigned i = 0; i < 3; i++)
        if (recorded_case(t->r, "%s: doctor %u", t->net->name, i))
            case_doctor(t, (t->k * 3 + i) % ODD_KINDS);
}

int main(int argc, char **argv)
{
    static const trial_suite suite = { .path = "tests/data/recorded/analysis.txt",
                                       .first = 2001,
                                       .chains = 170,
                                       .random = 90,
                                       .try_network = try_network };
    return trial_main(&suite, argc, argv);
}
