#include "tests/support/verbs.h"

#include "tests/support/test.h"

const char VERB_MODEL[] = "configs/models/digits.onnx";
const char VERB_DATA[] = "configs/data/digits_calib.npy";
const char VERB_LABELS[] = "configs/data/digits_labels.npy";

#define ASK(name)                                                                      \
    static qg_status ask_##name(qg_model *m, const qg_workload *w, const char *output, \
                                qg_report **r)

static qg_status quantize_to(qg_model *m, qg_quantize_options *o, const char *output,
                             qg_report **r)
{
    qg_status s = qg_model_quantize(m, o, r);
    return s == QG_OK ? qg_model_save(m, output) : s;
}

ASK(quantize)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.work = *w;
    o.backend = "trt-int8";
    return quantize_to(m, &o, output, r);
}

/* Workers wait for one another. */
ASK(ordered)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.work = *w;
    o.backend = "trt-int8";
    o.observer = "nvidia-entropy";
    return quantize_to(m, &o, output, r);
}

/* Passes that run samples themselves. */
ASK(corrected)
{
    static const char *const set[] = { "pass=equalize run=yes",
                                       "pass=bias-correct run=yes" };
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.work = *w;
    o.backend = "trt-int8";
    o.set = set;
    o.n_set = 2;
    return quantize_to(m, &o, output, r);
}

ASK(graph)
{
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = *w;
    (void)output;
    return qg_model_analyse(m, &o, r);
}

ASK(layers)
{
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = *w;
    o.by = "layer";
    (void)output;
    return qg_model_analyse(m, &o, r);
}

ASK(causes)
{
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = *w;
    o.by = "cause";
    (void)output;
    return qg_model_analyse(m, &o, r);
}

ASK(webpage)
{
    qg_webpage_options o;
    qg_webpage_options_init(&o, sizeof o);
    o.work = *w;
    o.against = m;
    o.labels = VERB_LABELS;
    o.output = output;
    return qg_model_webpage(m, &o, r);
}

ASK(integer_layers)
{
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = *w;
    o.by = "layer";
    o.mode = "integer";
    o.profile = "tensorrt";
    (void)output;
    return qg_model_analyse(m, &o, r);
}

ASK(integers)
{
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = *w;
    o.mode = "integer";
    o.profile = "onnxruntime-x86-vnni";
    o.codes = true;
    o.dump = "*";
    return qg_model_run(m, &o, output, r);
}

ASK(sensitivity)
{
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work = *w;
    (void)output;
    return qg_model_sensitivity(m, &o, r);
}

ASK(propose)
{
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work = *w;
    o.proposal.patch = output;
    o.proposal.budget = 1e-4;
    return qg_model_sensitivity(m, &o, r);
}

ASK(search)
{
    qg_search_options o;
    qg_search_options_init(&o, sizeof o);
    o.work = *w;
    o.patch = output;
    o.budget = "bits=6";
    o.choices = "4,8";
    o.estimate = "gradient";
    return qg_model_search(m, &o, r);
}

ASK(rules)
{
    qg_rules_options o;
    qg_rules_options_init(&o, sizeof o);
    o.work = *w;
    o.backend = "trt-int8";
    o.observer = "minmax";
    (void)output;
    return qg_model_search_rules(m, &o, r);
}

ASK(price)
{
    qg_price_options o;
    qg_price_options_init(&o, sizeof o);
    o.work = *w;
    (void)output;
    return qg_model_price(m, &o, r);
}

ASK(run)
{
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = *w;
    o.dump = "*";
    return qg_model_run(m, &o, output, r);
}

ASK(evaluate)
{
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = *w;
    (void)output;
    return qg_model_evaluate(m, &o, VERB_LABELS, r);
}

ASK(doctor)
{
    qg_doctor_options o;
    qg_doctor_options_init(&o, sizeof o);
    o.work = *w;
    (void)output;
    return qg_model_doctor(m, &o, r);
}

ASK(compare)
{
    static const char *const backend[] = { "trt-int8", "ncnn-int8" };
    qg_compare_options o;
    qg_compare_options_init(&o, sizeof o);
    o.work = *w;
    o.backend = backend;
    o.n_backend = 2;
    (void)output;
    return qg_model_compare(m, &o, r);
}

ASK(collect)
{
    qg_stats_options o;
    qg_stats_options_init(&o, sizeof o);
    o.work = *w;
    return qg_model_collect(m, &o, output, r);
}

const verb_row verbs[] = {
    {"quantize",          ask_quantize, false, true },
    { "ordered",              ask_ordered, false, true },
    { "corrected",                  ask_corrected, false, true },
    { "graph",ask_graph, true, false },
    { "layers",               ask_layers, true, false },
    { "causes",        ask_causes, true, false },
    { "webpage",              ask_webpage, true, true },
    { "integer-layers",                  ask_integer_layers, true, false },
    { "integers",                ask_integers, true, true },
    { "sensitivity",              ask_sensitivity, true, false },
    { "propose",           ask_propose, true, true },
    { "search",               ask_search, true, true },
    { "rules",                  ask_rules, false, false },
    { "price",  ask_price, true, false },
    { "run",              ask_run, true, true },
    { "evaluate",          ask_evaluate, true, false },
    { "doctor",               ask_doctor, false, false },
    { "compare",                  ask_compare, false, false },
    { "collect",ask_collect, false, true },
    { 0             },
};

qg_model *verb_model(qg_ctx *ctx, const verb_row *verb)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    assert_ok(ctx, qg_model_open(ctx, VERB_MODEL, NULL, &m));
    if (!verb->quantized)
        return m;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = VERB_DATA;
    o.work.samples = 20;
    assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    return m;
}
