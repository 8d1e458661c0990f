/* What the questions about a quantized network, and search and tune, give for small
 * networks is what tests/data/recorded/analysis.txt has (tests/support/recorded.h). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/rng.h"
#include "tests/support/recorded_trial.h"

static const char *const backends[] = { "trt-int8",      "tflite-int8",  "ort-int8",
                                        "openvino-int8", "xnnpack-int8", "qnn-dsp-int8",
                                        "ncnn-int8",     "nxp-int8",     "trt-fp8",
                                        "aimet-htp",     "cmsis-nn-int8" };
static const char *const metrics[] = { NULL, "nsr", "snr", "mse", "cosine" };
static const char *const sources[] = { "node", "endpoint", "group" };
static const char *const levels[] = { "graph", "layer", "cause" };
static const char *const profiles[] = { "tflite-reference", "onnxruntime-x86-vnni",
                                        "tensorrt",         "openvino-vnni",
                                        "ncnn-x86",         "cmsis-nn" };
static const char *const budgets[] = { "bits=6", "nsr=1%", "size=1kB",
                                       "bits=9", "nsr=5%", "size=400B" };
static const char *const methods[] = { NULL,       "lsq",   "adaround",
                                       "adaquant", "brecq", "bias" };
static const char *const gradients[] = {
    NULL,   "ste",  "lsq",   "lsq-plus",   "tqt",
    "pact", "nncf", "usual", "nncf-exact", "nncf-asymmetric"
};
static const char *const losses[] = { NULL, "mse", NULL, "kd" };

static void case_analyse(trial *t, qg_model *m)
{
    for (unsigned i = 0; i < 4; i++) {
        qg_report *report = NULL;
        qg_analyse_options o;
        qg_analyse_options_init(&o, sizeof o);
        o.work = trial_samples(t, "random:3");
        o.by = i < 3 ? levels[i] : levels[t->k % 2];
        o.metric = TURN(metrics, t->k + i);
        o.mode = i < 3 ? NULL : "integer";
        o.profile = i < 3 ? NULL : TURN(profiles, t->k);
        o.top = t->k % 3;
        trial_put(t, "analyse", qg_model_analyse(m, &o, &report), &report);
    }
}

static void case_sensitivity(trial *t, qg_model *m)
{
    for (unsigned i = 0; i < 3; i++) {
        qg_report *report = NULL;
        qg_sensitivity_options o;
        qg_sensitivity_options_init(&o, sizeof o);
        o.work = trial_samples(t, "random:4");
        o.by = TURN(sources, t->k + i);
        o.direction = i == 1 ? "all-but" : NULL;
        o.metric = TURN(metrics, t->k / 2 + i);
        o.whole = i == 0 && t->k % 2;
        if (i == 2)
            o.proposal = (qg_proposal_options){ .patch = "propose.yaml",
                                                .budget = t->k % 2 ? 0.002 : 0.0001,
                                                .bits = t->k % 3 ? 0 : 16 };
        trial_put(t, "sensitivity", qg_model_sensitivity(m, &o, &report), &report);
        recorded_files(t->r, "propose.yaml");
    }
}

static void case_page(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_price_options p;
    qg_webpage_options w;
    qg_price_options_init(&p, sizeof p);
    p.work = trial_samples(t, "random:3");
    p.metric = TURN(metrics, t->k);
    trial_put(t, "price", qg_model_price(m, &p, &report), &report);
    qg_model *other =
        t->k / 2 % 2 ? trial_for(t, TURN(backends, t->k + 4), "random:3", NULL) : NULL;
    qg_webpage_options_init(&w, sizeof w);
    w.work = trial_samples(t, "random:3");
    w.against = other;
    w.target = t->k % 3 ? NULL : "tflite";
    w.output = t->k % 8 ? NULL : "page.html";
    report = NULL;
    trial_put(t, "webpage", qg_model_webpage(m, &w, &report), &report);
    recorded_files(t->r, "page.html");
    qg_model_close(other);
}

static void case_compare(trial *t, qg_model *m)
{
    const char *const both[] = { TURN(backends, t->k), TURN(backends, t->k + 3) };
    qg_report *report = NULL;
    qg_model *plain = trial_model(t);
    qg_compare_options o;
    qg_doctor_options d;
    (void)m;
    qg_compare_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:4");
    o.backend = both;
    o.n_backend = 2;
    o.metric = TURN(metrics, t->k);
    o.mode = t->k % 2 ? "integer" : NULL;
    o.profile = t->k % 2 ? TURN(profiles, t->k / 2) : NULL;
    trial_put(t, "compare", qg_model_compare(plain, &o, &report), &report);
    qg_doctor_options_init(&d, sizeof d);
    d.work = trial_samples(t, "random:4");
    report = NULL;
    trial_put(t, "doctor", qg_model_doctor(plain, &d, &report), &report);
    qg_model_close(plain);
}

/* Samples with something to be noticed, each in a way of its own. */
static void fill_odd(float *x, size_t samples, size_t size, unsigned k)
{
    qg_rng rng = { 77 + k };
    for (size_t i = 0; i < samples * size; i++)
        x[i] = qg_rng_range(&rng, -1, 1);
    float *odd = x + (k % samples) * size;
    for (size_t i = 0; i < size; i++)
        switch (k / 2 % 8) {
        case 0:
            odd[i] = 0.25f;
            break; /* constant */
        case 1:
            odd[i] *= 5;
            break; /* alone */
        case 2:
            odd[i] = x[(k + 2) % samples * size + i];
            break; /* duplicate */
        case 3:
            odd[i] = i == k % size ? NAN : odd[i];
            break; /* not finite */
        case 4:
            odd[i] = i == k % size ? -INFINITY : odd[i];
            break;
        case 5:
            x[i % (samples * size)] *= 255;
            break; /* range */
        case 6:
            x[i] = fabsf(x[i]);
            break;
        default:
            odd[i] = (float)(int)(odd[i] * 127);
            break;
        }
    if (k / 2 % 9 == 5) /* dead */
        for (size_t i = 0; i < samples; i++)
            memset(x + i * size, 0, (size + 1) / 2 * sizeof *x);
}

/* Odd samples in memory, for networks with one input. */
static void case_samples(trial *t, qg_model *m)
{
    enum { SAMPLES = 5 };
    int64_t dim[4];
    const char *text = t->net->text;
    qg_model *plain = trial_model(t);
    qg_report *report = NULL;
    (void)m;
    if (!strstr(text, "v1 = input") &&
        sscanf(strstr(text, "input f32["),
               "input f32[%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 "]", &dim[0],
               &dim[1], &dim[2], &dim[3]) == 4) {
        size_t size = (size_t)(dim[1] * dim[2] * dim[3]);
        float *x = malloc(SAMPLES * size * sizeof *x);
        qg_input_array array = { 0 };
        if (!x)
            abort();
        fill_odd(x, SAMPLES, size, t->k);
        dim[0] = SAMPLES;
        qg_tensor_init(&array.value, QG_F32, 4, dim);
        array.value.data = x;
        const char *const backend[] = { TURN(backends, t->k + 1) };
        qg_compare_options o;
        qg_doctor_options d;
        qg_doctor_options_init(&d, sizeof d);
        d.work = trial_samples(t, NULL);
        d.work.array = &array;
        d.work.n_array = 1;
        trial_put(t, "doctor", qg_model_doctor(plain, &d, &report), &report);
        qg_compare_options_init(&o, sizeof o);
        o.work = d.work;
        o.backend = backend;
        o.n_backend = 1;
        o.holdout = t->k % 4 ? NULL : "random:2";
        trial_put(t, "compare", qg_model_compare(plain, &o, &report), &report);
        free(x);
    }
    qg_model_close(plain);
}

static void case_search(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_search_options o;
    qg_search_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:6");
    o.budget = TURN(budgets, t->k / 4);
    o.choices = t->k % 3 ? NULL : "2,4,8,float";
    o.estimate = t->k % 8 ? NULL : "gradient";
    o.patch = "search.yaml";
    trial_put(t, "search", qg_model_search(m, &o, &report), &report);
    recorded_files(t->r, "search.yaml");
}

static void case_rules(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_model *plain = trial_model(t);
    qg_rules_options o;
    (void)m;
    qg_rules_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:4");
    o.backend = TURN(backends, t->k);
    trial_put(t, "rules", qg_model_search_rules(plain, &o, &report), &report);
    qg_model_close(plain);
}

static void case_tune(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:8");
    o.method = TURN(methods, t->k / 2);
    o.gradient = TURN(gradients, t->k / 2);
    o.loss = TURN(losses, t->k / 2);
    o.optimizer = t->k % 3 ? NULL : "sgd";
    o.qdrop = t->k % 5 == 0;
    o.no_mixup = t->k % 4 == 0;
    o.steps = 8;
    o.seed = t->k % 3;
    trial_put(t, "tune", qg_model_tune(m, &o, &report), &report);
    recorded_status(t->r, t->ctx, "save", qg_model_save(m, "tuned"));
    recorded_files(t->r, "tuned");
}

static const struct {
    const char *name;
    void (*put)(trial *t, qg_model *m);
    unsigned every; /* networks */
} kinds[] = {
    {"analyse",      case_analyse,     1},
    { "sensitivity", case_sensitivity, 1},
    { "page",        case_page,        2},
    { "compare",     case_compare,     2},
    { "search",      case_search,      4},
    { "rules",       case_rules,       4},
    { "tune",        case_tune,        2},
    { "samples",     case_samples,     2}
};

static void try_case(recorded *r, const network *net, unsigned k, size_t kind)
{
    trial t = { .r = r, .net = net, .k = k };
    trial_open(&t);
    qg_model *m = trial_for(&t, TURN(backends, k), "random:3", NULL);
    if (m)
        kinds[kind].put(&t, m);
    qg_model_close(m);
    trial_close(&t);
}

int main(int argc, char **argv)
{
    recorded r;
    networks all = { 0 };
    char folder[SCRATCH_PATH];
    recorded_begin(&r, argc, argv, "tests/data/recorded/analysis.txt");
    networks_random(&all, 400, 120);
    trial_enter(folder, "recorded_analysis");
    for (unsigned k = 0, step = recorded_step(&r); k < all.n && !recorded_is_full(&r);
         k += step)
        for (size_t kind = 0; kind < COUNT(kinds); kind++)
            if (k % kinds[kind].every == 0 &&
                recorded_case(&r, "%s: %s", all.at[k].name, kinds[kind].name))
                try_case(&r, &all.at[k], k, kind);
    networks_free(&all);
    trial_leave(folder);
    return recorded_end(&r);
}
