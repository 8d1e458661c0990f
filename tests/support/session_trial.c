#include "tests/support/session_trial.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const backends[] = {
    "trt-int8",           "tflite-int8",   "ort-int8",
    "openvino-int8",      "xnnpack-int8",  "qnn-dsp-int8",
    "ncnn-int8",          "ppl-cuda-int8", "nxp-int8",
    "cmsis-nn-int8",      "aimet-default", "snpe-int8",
    "rknn-int8",          "tengine-int8",  "trt-fp8",
    "openvino-avx2-int8", "metax-int8-t",  "mnn-int8",
    "asc-int8",           "fpga-int8",     "ppl-dsp-int8",
    "metax-int8-c",       "trt-qdq-int8",  "aimet-htp",
    "int8-base",          "graphcore-fp8", "openvino-mixed-int8"
};
static const char *const observers[] = {
    NULL,          "percentile",  "moving-average",     "kl",
    NULL,          "mse",         "kl-published",       "aciq-laplace",
    NULL,          "aciq-gauss",  "ort-moving-average", "ort-percentile",
    NULL,          "ort-entropy", "ort-average",        "nvidia-entropy",
    "ppq-isotone", "ppq-mse",     "nvidia-percentile",  "ncnn-kl",
    "minmax",      "ppq-kl",      "nvidia-mse",         "ncnn-aciq"
};
static const char *const settings[] = {
    NULL,
    "op=Conv state=fp32",
    "op=Conv slot=weight bits=4",
    "op=Add slot=in0 bits=16",
    "pass=equalize run=yes",
    "pass=bias-correct run=yes",
    "pass=weight-split run=yes",
    "pass=channel-split run=yes",
    "pass=gptq run=yes",
    "pass=smooth-quant run=yes",
    "op=Relu slot=out0 state=dequantized",
    "op=Conv slot=out0 observer=mse",
    "op=Conv slot=in0 range=[-100,100]",
    "op=Concat slot=in1 range=[-90,90]",
    "op=MaxPool slot=in0 range=[-80,80]",
    "op=Mul slot=out0 state=deactivated",
    "op=Gemm slot=weight policy=\"per-channel linear symmetric\""
};
static const char *const quirks[] = { NULL, NULL, "ppq", NULL, NULL };
static const char *const dispatchers[] = { NULL,      NULL,        NULL,
                                           "perseus", "pointwise", "aggressive" };
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
                                        "tflite-builtin-arm",
                                        "tflite-reference-1.2",
                                        "tflite-micro",
                                        "xnnpack-x86" };
static const char *const targets[] = { "ort",      "trt", "tflite",   "xnnpack",
                                       "openvino", "qnn", "cmsis-nn", "ncnn" };
static const char *const placements[] = { NULL, "ort", "trt", "openvino" };

/* Formats, the ending of their file, and what can be imported: with a graph of its own,
 * or for the model that was written next to it. */
static const struct {
    const char *name, *ending;
    enum { NOT_READ, WITH_GRAPH, FOR_MODEL } back;
} formats[] = {
    {"onnx-qdq",        ".onnx",             WITH_GRAPH},
    { "csv",            ".csv",              FOR_MODEL },
    { "openvino-ir",    ".xml",              NOT_READ  },
    { "openvino-fq",    ".onnx",             WITH_GRAPH},
    { "ppq-json",       ".json",             FOR_MODEL },
    { "tflite",         ".tflite",           WITH_GRAPH},
    { "qnn-encodings",  ".json",             NOT_READ  },
    { "onnx-qoperator", ".onnx",             WITH_GRAPH},
    { "aimet",          ".encodings",        FOR_MODEL },
    { "qonnx",          ".onnx",             WITH_GRAPH},
    { "ncnn-table",     ".table",            FOR_MODEL },
    { "tensorrt-cache", ".cache",            FOR_MODEL },
    { "tensorrt-json",  ".json",             FOR_MODEL },
    { "snpe-json",      ".json",             NOT_READ  },
    { "ppl-json",       ".json",             NOT_READ  },
    { "mnn-json",       ".json",             NOT_READ  },
    { "ascend-record",  ".txt",              NOT_READ  },
    { "rknn-cfg",       ".quantization.cfg", NOT_READ  },
    { "tengine-scale",  ".scale",            NOT_READ  },
    { "nxp-onnx",       ".onnx",             NOT_READ  },
    { "model-explorer", ".json",             NOT_READ  }
};

typedef struct trial {
    recorded *r;
    qg_ctx *ctx;
    network_opener *open;
    const void *source;
    unsigned k;
    qg_model *m;
} trial;

static qg_workload samples(const char *data)
{
    return (qg_workload){ .data = data, .jobs = 1, .reference_kernels = true };
}

/* A status is put where memory fails alone: a network opens or not each time. */
static qg_status open_network(trial *t, qg_model **m)
{
    const qg_status s = t->open(t->ctx, t->source, m);
    if (s == QG_ENOMEM)
        recorded_status(t->r, t->ctx, "open", s);
    return s;
}

/* The network quantized with options of its turn; false: refused. */
static bool quantize(trial *t, unsigned k, qg_model **m)
{
    const char *set = TURN(settings, k * 5);
    qg_report *report = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.work = samples("random:3");
    o.backend = TURN(backends, k);
    o.observer = TURN(observers, k * 7);
    o.quirks = TURN(quirks, k);
    o.dispatcher = TURN(dispatchers, k);
    o.set = &set;
    o.n_set = set != NULL;
    qg_status s = open_network(t, m);
    if (s == QG_OK)
        s = qg_model_quantize(*m, &o, &report);
    if (s != QG_OK && o.observer) { /* not for these schemes */
        recorded_status(t->r, t->ctx, "first", s);
        qg_model_close(*m);
        o.observer = NULL;
        o.n_set = 0;
        s = open_network(t, m);
        if (s == QG_OK)
            s = qg_model_quantize(*m, &o, &report);
    }
    recorded_print(t->r, "%s %s %s %s %s\n", o.backend, o.observer ? o.observer : "-",
                   o.quirks ? o.quirks : "-", o.dispatcher ? o.dispatcher : "-",
                   o.n_set ? set : "-");
    recorded_status(t->r, t->ctx, "quantize", s);
    if (s == QG_OK)
        recorded_report(t->r, report);
    return s == QG_OK;
}

/* --- the cases of a network --- */

static void put_snapshot(trial *t, qg_model *m, const char *folder)
{
    recorded_status(t->r, t->ctx, "save", qg_model_save(m, folder));
    recorded_files(t->r, folder);
}

static void explain(trial *t, const char *name)
{
    qg_report *report = NULL;
    qg_status s = qg_model_explain(t->m, name, &report);
    recorded_status(t->r, t->ctx, name, s);
    if (s == QG_OK)
        recorded_report(t->r, report);
}

/* Records, text form, and one explanation of each kind. */
static void case_records(trial *t)
{
    qg_report *report = NULL;
    put_snapshot(t, t->m, "snapshot");
    qg_status s = qg_model_dump(t->m, &report);
    recorded_status(t->r, t->ctx, "dump", s);
    recorded_report(t->r, report);
    for (size_t i = 0; i < qg_model_node_count(t->m); i += 1 + t->k % 2) {
        qg_node_record n = { .size = sizeof n };
        qg_node_get(qg_model_node(t->m, i), &n);
        explain(t, n.name);
    }
    for (size_t i = t->k % 3; i < qg_model_tqc_count(t->m); i += 5) {
        qg_tqc_record e = { .size = sizeof e };
        char group[512];
        qg_tqc_get(qg_model_tqc(t->m, i), &e);
        explain(t, e.name);
        (void)snprintf(group, sizeof group, "group:%s", e.name);
        explain(t, group);
    }
}

static void case_lint(trial *t)
{
    for (unsigned i = 0; i < 3; i++) {
        qg_report *report = NULL;
        qg_lint_options o;
        qg_lint_options_init(&o, sizeof o);
        o.target = TURN(targets, t->k + 3 * i);
        o.sarif = i == 0 ? "lint.sarif" : NULL;
        o.patch = "lint.yaml";
        qg_status s = qg_model_lint(t->m, &o, &report);
        recorded_status(t->r, t->ctx, o.target, s);
        if (s == QG_OK)
            recorded_report(t->r, report);
        recorded_files(t->r, "lint.yaml");
        recorded_files(t->r, "lint.sarif");
    }
}

static void import_back(trial *t, const char *path, size_t format)
{
    qg_report *report = NULL;
    qg_model *back = NULL;
    qg_import_options o;
    qg_import_options_init(&o, sizeof o);
    o.format = formats[format].name;
    o.model = formats[format].back == FOR_MODEL ? "out/x.onnx" : NULL;
    qg_status s = qg_model_import(t->ctx, path, &o, &back, &report);
    recorded_status(t->r, t->ctx, "import", s);
    if (s != QG_OK)
        return;
    recorded_report(t->r, report);
    put_snapshot(t, back, "back");
    report = NULL;
    recorded_status(t->r, t->ctx, "diff", qg_model_diff(t->m, back, &report));
    recorded_report(t->r, report);
    qg_model_close(back);
}

static void export_as(trial *t, size_t format)
{
    char path[64];
    qg_report *report = NULL;
    qg_format_options o;
    qg_format_options_init(&o, sizeof o);
    (void)snprintf(path, sizeof path, "out/x%s", formats[format].ending);
    o.format = formats[format].name;
    o.report = t->k % 3 ? "out/loss.json" : "out/loss.txt";
    if (strcmp(o.format, "onnx-qdq") == 0) {
        o.placement = TURN(placements, t->k);
        o.weights = t->k % 5 == 0 ? "float" : NULL;
    }
    o.quirks = t->k % 7 == 0 ? "ppq" : NULL;
    (void)mkdir("out", 0700);
    qg_status s = qg_model_export(t->m, &o, path, &report);
    recorded_status(t->r, t->ctx, o.format, s);
    if (s == QG_OK)
        recorded_report(t->r, report);
    if (s == QG_OK && formats[format].back != NOT_READ)
        import_back(t, path, format);
    recorded_files(t->r, "out");
}

static void case_formats(trial *t)
{
    for (size_t i = 0; i < COUNT(formats); i++)
        if ((i + t->k) % 4 == 0 || strcmp(formats[i].name, "tflite") == 0)
            export_as(t, i);
}

static void run(trial *t, const char *mode, const char *profile)
{
    qg_report *report = NULL;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = samples("random:2");
    o.mode = mode;
    o.profile = profile;
    o.codes = profile && t->k % 2;
    o.dump = "*";
    qg_status s = qg_model_run(t->m, &o, "run", &report);
    recorded_status(t->r, t->ctx, mode, s);
    if (s == QG_OK)
        recorded_report(t->r, report);
    recorded_files(t->r, "run");
}

static void case_runs(trial *t)
{
    run(t, "simulate", NULL);
    if (t->k % 4 == 0)
        run(t, "float", NULL);
    for (unsigned i = 0; i < 3; i++) {
        const char *profile = TURN(profiles, t->k + 5 * i);
        qg_report *report = NULL;
        if (i < 2)
            run(t, "integer", profile);
        qg_status s = qg_model_dump_program(t->m, profile, &report);
        recorded_status(t->r, t->ctx, profile, s);
        if (s == QG_OK)
            recorded_report(t->r, report);
    }
}

/* Statistics in two shards, merged, shown, and scales derived from them. */
static qg_status collect(trial *t, uint64_t first, uint64_t end, const char *path)
{
    qg_model *m = NULL;
    qg_report *report = NULL;
    qg_stats_options o;
    qg_stats_options_init(&o, sizeof o);
    o.work = samples("random:5");
    o.first = first;
    o.end = end;
    o.channels = t->k % 2 ? "v1*" : NULL;
    o.backend = t->k % 3 ? TURN(backends, t->k) : NULL;
    QG_TRY(open_network(t, &m));
    qg_status s = qg_model_collect(m, &o, path, &report);
    recorded_status(t->r, t->ctx, path, s);
    if (s == QG_OK)
        recorded_report(t->r, report);
    qg_model_close(m);
    return s;
}

static void derive(trial *t, const char *stats)
{
    qg_model *m = NULL;
    qg_report *report = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.stats = stats;
    o.backend = TURN(backends, t->k);
    o.observer = TURN(observers, t->k * 3);
    if (open_network(t, &m) != QG_OK)
        return;
    qg_status s = qg_model_derive(m, &o, &report);
    recorded_status(t->r, t->ctx, "derive", s);
    if (s == QG_OK)
        recorded_report(t->r, report);
    qg_model_close(m);
}

static void case_statistics(trial *t)
{
    static const char *const shard[] = { "a.qgs", "b.qgs" };
    qg_report *report = NULL;
    if (collect(t, 0, 2, shard[0]) != QG_OK || collect(t, 2, 0, shard[1]) != QG_OK)
        return;
    qg_status s = qg_stats_file_merge(t->ctx, shard, 2, false, "c.qgs", &report);
    recorded_status(t->r, t->ctx, "merge", s);
    recorded_report(t->r, s == QG_OK ? report : NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const which[] = { NULL, "v0", "v3" };
        report = NULL;
        s = qg_stats_file_show(t->ctx, "c.qgs", which[i], &report);
        recorded_status(t->r, t->ctx, "show", s);
        recorded_report(t->r, s == QG_OK ? report : NULL);
    }
    derive(t, "c.qgs");
    for (int i = 0; i < 2; i++)
        recorded_files(t->r, shard[i]);
    recorded_files(t->r, "c.qgs");
}

/* Endpoints switched off and on again, and what differs from another backend's. */
static void case_changes(trial *t)
{
    static const char *const words[] = {
        "op=Conv state=dequantized", "op=Add slot=in0 state=deactivated",
        "op=Relu state=dequantized", "op=Conv slot=out0 state=restored",
        "op=Add state=restored",     "op=Convolution state=restored"
    };
    qg_model *other = NULL;
    qg_report *report = NULL;
    for (unsigned i = 0; i < 4; i++) {
        size_t changed = 0;
        const char *text = TURN(words, t->k + i);
        recorded_status(t->r, t->ctx, text, qg_model_switch(t->m, text, &changed));
        recorded_print(t->r, "%zu changed\n", changed);
    }
    if (quantize(t, t->k + 11, &other)) {
        recorded_status(t->r, t->ctx, "diff", qg_model_diff(t->m, other, &report));
        recorded_report(t->r, report);
    }
    qg_model_close(other);
    put_snapshot(t, t->m, "snapshot");
}

static void case_quantize(trial *t)
{
    if (!quantize(t, t->k, &t->m)) {
        qg_model_close(t->m);
        t->m = NULL;
    }
}

/* The first makes the model of the others, the last changes it. */
static const struct {
    const char *name;
    void (*put)(trial *t);
} kinds[] = {
    {"quantize",    case_quantize  },
    { "records",    case_records   },
    { "lint",       case_lint      },
    { "formats",    case_formats   },
    { "runs",       case_runs      },
    { "statistics", case_statistics},
    { "changes",    case_changes   }
};

typedef struct wanted {
    trial t;
    const char *name;
    unsigned kinds;
} wanted;

static void try_kinds(recorded *r, void *ud)
{
    const wanted *w = ud;
    trial t = w->t;
    t.ctx = recorded_context(r);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        bool able = (w->kinds >> i & 1) && (i == 0 || t.m);
        if (able && (recorded_case(r, "%s: %s", w->name, kinds[i].name) || i == 0))
            kinds[i].put(&t);
    }
    qg_model_close(t.m);
    qg_close(t.ctx);
}

void session_trial(recorded *r, const char *name, unsigned k, unsigned kinds_wanted,
                   network_opener *open, const void *source)
{
    wanted w = {
        {.r = r, .open = open, .source = source, .k = k},
        name, kinds_wanted
    };
    recorded_try(r, try_kinds, &w);
}
