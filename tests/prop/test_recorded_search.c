/* What search, search over rules and tune give is what tests/data/recorded/search.txt
 * has (tests/support/recorded.h); written policies and the tuned models with it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/api/qg.h"
#include "tests/support/recorded_trial.h"

static const char *const backends[] = { "trt-int8",      "tflite-int8", "ort-int8",
                                        "openvino-int8", "fpga-int8",   "xnnpack-int8",
                                        "trt-fp8",       "ncnn-int8",   "ppl-cuda-int8",
                                        "aimet-default", "qnn-dsp-int8" };
static const char *const budgets[] = { "bits=6",    "nsr=1%",     "size=1kB",
                                       "bits=4.5",  "nsr=0.2",    "size=400B",
                                       "nsr=0.05%", "bits=9",     "size=2KiB",
                                       "bits=2",    "size=0.01MB" };
static const char *const choices[] = { NULL, "8,float", "4,8", NULL,
                                       "2,4,6,8,16,float" };
static const char *const methods[] = { "lsq",   "adaround", "adaquant",
                                       "brecq", "bias",     NULL };
static const char *const gradients[] = {
    NULL,   "ste",  "lsq",        "lsq-plus", "tqt",
    "pact", "nncf", "nncf-exact", "usual",    "nncf-asymmetric"
};
static const char *const losses[] = { NULL, "mse", NULL, "kd", "blocks", "labels" };

static void case_search(trial *t, qg_model *m)
{
    qg_report *report = NULL;
    qg_search_options o;
    qg_search_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:4");
    o.budget = TURN(budgets, t->k);
    o.choices = TURN(choices, t->k / 2);
    o.estimate = t->k % 3 == 1 ? "gradient" : NULL;
    o.holdout = t->k % 4 == 2 ? "random:6" : NULL;
    o.patch = "search.yaml";
    qg_status s = qg_model_search(m, &o, &report);
    recorded_print(t->r, "%s %s\n", o.budget, o.choices ? o.choices : "-");
    trial_put(t, "search", s, report);
    recorded_files(t->r, "search.yaml");
}

static void case_rules(trial *t)
{
    qg_report *report = NULL;
    qg_rules_options o;
    qg_model *m = trial_model(t);
    qg_rules_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:3");
    o.backend = TURN(backends, t->k + 1);
    o.observer = t->k % 3 == 2 ? "percentile" : NULL;
    o.holdout = t->k % 4 == 1 ? "random:5" : NULL;
    qg_status s = m ? qg_model_search_rules(m, &o, &report) : QG_OK;
    trial_put(t, o.backend, s, report);
    qg_model_close(m);
}

static qg_tune_options tuning(trial *t)
{
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    o.work = trial_samples(t, "random:8");
    o.method = TURN(methods, t->k);
    o.gradient = TURN(gradients, t->k / 2);
    o.optimizer = t->k % 5 == 3 ? "sgd" : NULL;
    o.loss = TURN(losses, t->k / 3);
    o.qdrop = t->k % 7 == 4;
    o.holdout = t->k % 4 == 1 ? "random:10" : NULL;
    o.no_mixup = t->k % 6 == 5;
    o.steps = 6 + t->k % 9;
    o.rate = t->k % 4 == 3 ? 0.05 : 0;
    o.seed = t->k % 3;
    o.checkpoint = t->k % 8 == 6 ? "learning" : NULL;
    o.labels = o.loss && strcmp(o.loss, "labels") == 0 ? "labels.npy" : NULL;
    trial_labels("labels.npy", o.holdout ? 18 : 8, t->k);
    return o;
}

static void case_tune(trial *t)
{
    qg_report *report = NULL;
    qg_tune_options o = tuning(t);
    qg_model *m = trial_for(t, TURN(backends, t->k * 3), "random:3",
                            t->k % 2 ? "op=Conv slot=weight bits=4" : NULL);
    if (!m)
        m = trial_for(t, TURN(backends, t->k * 3), "random:3", NULL);
    recorded_print(t->r, "%s %s %s\n", o.method ? o.method : "-",
                   o.gradient ? o.gradient : "-", o.loss ? o.loss : "-");
    qg_status s = m ? qg_model_tune(m, &o, &report) : QG_OK;
    trial_put(t, "tune", s, report);
    if (m && s == QG_OK) {
        recorded_status(t->r, t->ctx, "save", qg_model_save(m, "snapshot"));
        recorded_files(t->r, "snapshot");
    }
    recorded_files(t->r, "learning");
    qg_model_close(m);
}

static void try_network(trial *t)
{
    if (recorded_case(t->r, "%s: search", t->net->name)) {
        qg_model *m = trial_for(t, TURN(backends, t->k), "random:3", NULL);
        if (m)
            case_search(t, m);
        qg_model_close(m);
    }
    if (t->k % 3 == 0 && recorded_case(t->r, "%s: rules", t->net->name))
        case_rules(t);
    for (unsigned i = 0, k = t->k; i < 2; i++) {
        t->k = 2 * k + i;
        if (recorded_case(t->r, "%s: tune %u", t->net->name, i))
            case_tune(t);
        t->k = k;
    }
}

int main(int argc, char **argv)
{
    static const trial_suite suite = { .path = "tests/data/recorded/search.txt",
                                       .first = 1001,
                                       .chains = 75,
                                       .random = 25,
                                       .try_network = try_network };
    return trial_main(&suite, argc, argv);
}
