/* Every place of the engine that asks for memory or reaches a file fails once, under
 * each verb, format and kind of file of the public header: the call fails, or does
 * without; it leaks nothing and has a message.  One place of 16, QG_ALL=1: all.
 *
 *     test_places_session [TEXT]    all places of flows with TEXT in their names */
#include <fts.h>
#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/snapshot/model.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/verbs.h"

/* The folder of this test, and the name of what is written to it. */
static char folder[SCRATCH_PATH];
static const char *target = "new";

/* "@x" is x in that folder, "@new.x" is named as the target; else a file of the
 * checkout.  The last eight results are valid. */
static const char *at(const char *name)
{
    static char path[8][SCRATCH_PATH + 64];
    static unsigned turn;
    char *p = path[turn++ % 8];
    if (!name || *name != '@')
        return name;
    bool new = strncmp(name, "@new", 4) == 0;
    (void)snprintf(p, sizeof path[0], "%s/%s%s", folder, new ? target : "",
                   name + (new ? 4 : 1));
    return p;
}

static const char *only; /* TEXT, or NULL */

/* One flow: a function with its words. */
typedef struct row {
    const char *name;
    /* *m is closed and *report is compared and freed by the caller. */
    qg_status (*step)(qg_ctx *ctx, const struct row *r, qg_model **m,
                      qg_report **report);
    const char *a, *b, *c;
} row;

#define STEP(name)                                                                     \
    static qg_status name(qg_ctx *ctx, const row *r, qg_model **m, qg_report **report)

static qg_workload work(size_t samples)
{
    return (qg_workload){ .data = VERB_DATA, .samples = samples, .jobs = 1 };
}

/* --- models --- */

/* a: backend, b: model, c: --set. */
STEP(quantize)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = r->a;
    o.work = (qg_workload){ .data = "random:2", .jobs = 1 };
    o.set = &r->c;
    o.n_set = r->c != NULL;
    QG_TRY(qg_model_open(ctx, at(r->b), NULL, m));
    QG_TRY(qg_model_quantize(*m, &o, report));
    return qg_model_save(*m, at("@new"));
}

/* a: of the table of verbs, b: where it writes. */
STEP(verb)
{
    const verb_row *v = verbs;
    qg_workload w = work(2);
    while (strcmp(v->name, r->a) != 0)
        v++;
    QG_TRY(qg_model_open(ctx, v->quantized ? at("@snap") : VERB_MODEL, NULL, m));
    return v->ask(*m, &w, at(r->b ? r->b : "@new"), report);
}

STEP(webpage)
{
    qg_webpage_options o;
    (void)r;
    qg_webpage_options_init(&o, sizeof o);
    o.work = work(2);
    o.output = at("@new.html");
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return qg_model_webpage(*m, &o, report);
}

/* a: a model, b: DATA for it, c: mode. */
STEP(run)
{
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = (qg_workload){ .data = at(r->b), .samples = 2, .jobs = 1 };
    o.mode = r->c;
    QG_TRY(qg_model_open(ctx, at(r->a), NULL, m));
    return qg_model_run(*m, &o, at("@new"), report);
}

/* The target with the extension that a format wants. */
static const char *file_of(const char *format)
{
    static const char *const file[][2] = {
        {"openvino-ir",     "@new.xml"             },
        { "json",           "@new.json"            },
        { "model-explorer", "@new.json"            },
        { "qnn-encodings",  "@new.json"            },
        { "csv",            "@new.csv"             },
        { "tensorrt-cache", "@new.cache"           },
        { "ncnn-table",     "@new.table"           },
        { "tengine-scale",  "@new.scale"           },
        { "ascend-record",  "@new.txt"             },
        { "rknn-cfg",       "@new.quantization.cfg"},
        { "tflite",         "@new.tflite"          },
        { "aimet",          "@new.encodings"       },
        { "",               "@new.q.onnx"          },
    };
    size_t i = 0;
    while (!strstr(format, file[i][0]))
        i++;
    return file[i][1];
}

/* a: format, b: snapshot, c: placement. */
STEP(export)
{
    qg_format_options o;
    qg_format_options_init(&o, sizeof o);
    o.format = r->a;
    o.placement = r->c;
    o.report = at("@new.losses.json");
    QG_TRY(qg_model_open(ctx, at(r->b), NULL, m));
    return qg_model_export(*m, &o, at(file_of(r->a)), report);
}

/* a: format, b: file, c: model. */
STEP(import)
{
    qg_import_options o;
    qg_import_options_init(&o, sizeof o);
    o.format = r->a;
    o.model = at(r->c);
    QG_TRY(qg_model_import(ctx, at(r->b), &o, m, report));
    return qg_model_save(*m, at("@new"));
}

/* Bytes and text of a model instead of files. */
STEP(memory)
{
    qg_bytes bytes = { 0 };
    qg_model *again = NULL;
    qg_report *page = NULL;
    (void)report;
    QG_TRY(qg_model_open(ctx, at(r->a), NULL, m));
    qg_status s = qg_model_is_quantized(*m) ? qg_model_save_bytes(*m, &bytes)
                                            : qg_model_export_onnx_bytes(*m, &bytes);
    if (s == QG_OK)
        s = qg_model_open_bytes(ctx, bytes.data, bytes.size, NULL, &again);
    if (s == QG_OK)
        s = qg_model_diff(*m, again, &page);
    qg_report_free(page);
    qg_model_close(again);
    qg_bytes_free(ctx, &bytes);
    return s;
}

/* --- pages --- */

STEP(list)
{
    (void)m;
    return qg_list(ctx, r->a, report);
}

STEP(backend_page)
{
    (void)m;
    return qg_backend_page(ctx, r->a, report);
}

STEP(profile_page)
{
    (void)m;
    return qg_profile_page(ctx, r->a, report);
}

STEP(target_page)
{
    (void)m;
    return qg_target_page(ctx, r->a, report);
}

STEP(explain)
{
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return qg_model_explain(*m, r->a, report);
}

STEP(dump)
{
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return r->a ? qg_model_dump_program(*m, r->a, report) : qg_model_dump(*m, report);
}

STEP(diff)
{
    qg_model *other = NULL;
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    qg_status s = qg_model_open(ctx, at(r->a), NULL, &other);
    if (s == QG_OK)
        s = qg_model_diff(*m, other, report);
    qg_model_close(other);
    return s;
}

STEP(change)
{
    size_t changed;
    (void)report;
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    QG_TRY(qg_model_switch(*m, r->a, &changed));
    return qg_model_save(*m, at("@new"));
}

STEP(backend_of_aimet)
{
    (void)m;
    return qg_import_backend(ctx, r->a, "aimet", at("@new.yaml"), report);
}

STEP(tensor)
{
    qg_quantize_tensor_options o;
    (void)m;
    qg_quantize_tensor_options_init(&o, sizeof o);
    o.observer = r->b;
    o.output = at("@new.npy");
    return qg_quantize_tensor(ctx, r->a, &o, report);
}

/* --- statistics --- */

STEP(collect)
{
    qg_stats_options o;
    qg_stats_options_init(&o, sizeof o);
    o.work = work(4);
    o.channels = "*";
    o.first = r->a ? 2 : 0;
    o.end = o.first + 2;
    QG_TRY(qg_model_open(ctx, VERB_MODEL, NULL, m));
    return qg_model_collect(*m, &o, at("@new.qgs"), report);
}

STEP(merge)
{
    const char *const both[] = { at("@first.qgs"), at("@rest.qgs") };
    (void)m;
    (void)r;
    return qg_stats_file_merge(ctx, both, 2, false, at("@new.qgs"), report);
}

STEP(show)
{
    (void)m;
    return qg_stats_file_show(ctx, at("@first.qgs"), r->a, report);
}

STEP(derive)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = r->a;
    o.stats = at("@first.qgs");
    QG_TRY(qg_model_open(ctx, VERB_MODEL, NULL, m));
    return qg_model_derive(*m, &o, report);
}

/* --- devices --- */

/* a: where it writes, b: profile, c: snapshot, NULL: that of the verbs. */
STEP(trace)
{
    qg_trace_options o;
    qg_trace_options_init(&o, sizeof o);
    o.work =
        (qg_workload){ .data = r->c ? "random:2" : VERB_DATA, .samples = 2, .jobs = 1 };
    o.profile = r->b;
    QG_TRY(qg_model_open(ctx, at(r->c ? r->c : "@snap"), NULL, m));
    return qg_model_trace(*m, &o, at(r->a), report);
}

STEP(diverge)
{
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = work(2);
    o.explain = 2;
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return qg_model_diverge(*m, &o, at(r->a), report);
}

STEP(fit)
{
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = work(2);
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return qg_model_fit(*m, &o, at(r->a), at("@new.yaml"), report);
}

STEP(trace_diff)
{
    (void)m;
    return qg_trace_diff(ctx, at(r->a), at(r->b), report);
}

STEP(probe)
{
    qg_probe_options o;
    qg_probe_options_init(&o, sizeof o);
    o.work.samples = 1;
    o.between = "tflite-reference,tflite-xnnpack";
    (void)r;
    QG_TRY(qg_model_open(ctx, at("@snap"), NULL, m));
    return qg_model_probe(*m, &o, at("@new.npy"), report);
}

/* a: dump, b: the backend to begin with, c: model, NULL: that of the verbs. */
STEP(infer)
{
    qg_infer_options o;
    qg_infer_options_init(&o, sizeof o);
    o.work =
        (qg_workload){ .data = r->c ? "random:2" : VERB_DATA, .samples = 2, .jobs = 1 };
    o.from = r->b;
    QG_TRY(qg_model_open(ctx, r->c ? at(r->c) : VERB_MODEL, NULL, m));
    return qg_model_infer_backend(*m, &o, at(r->a), at("@new.yaml"), report);
}

/* --- learning and linting --- */

/* a: method, b: snapshot. */
STEP(tune)
{
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    o.work = work(4);
    o.method = r->a;
    o.steps = 2;
    QG_TRY(qg_model_open(ctx, at(r->b), NULL, m));
    QG_TRY(qg_model_tune(*m, &o, report));
    return qg_model_save(*m, at("@new"));
}

/* a: target, b: snapshot. */
STEP(lint)
{
    qg_lint_options o;
    qg_lint_options_init(&o, sizeof o);
    o.target = r->a;
    o.sarif = at("@new.sarif");
    o.patch = at("@new.yaml");
    QG_TRY(qg_model_open(ctx, at(r->b), NULL, m));
    return qg_model_lint(*m, &o, report);
}

/* --- sessions --- */

STEP(session)
{
    qg_session_options o;
    qg_session *run = NULL, *fork = NULL;
    qg_tensor x, y = { 0 };
    (void)report;
    qg_session_options_init(&o, sizeof o);
    o.mode = r->b;
    QG_TRY(qg_model_open(ctx, at(r->a), NULL, m));
    qg_tensor_init(&x, QG_F32, (*m)->graph->input.at[0]->type.rank,
                   (*m)->graph->input.at[0]->type.dim);
    QG_TRY(qg_tensor_alloc(ctx, (*m)->graph->arena, &x));
    qg_status s = qg_session_new(*m, &o, &run);
    if (s == QG_OK)
        s = qg_session_fork(run, &fork);
    if (s == QG_OK)
        s = qg_session_run(fork, &x, 1, &y, 1);
    if (s != QG_OK && run) /* sessions have messages of their own */
        s = qg_fail(ctx, s, "%s", qg_session_message(fork ? fork : run));
    qg_session_free(fork);
    qg_session_free(run);
    return s;
}

/* --- all of them --- */

static const char SNAP[] = "@snap", OTHER[] = "@other", TRACE[] = "@trace.npz";
static const char MNIST[] = "tests/models/mnist-8.onnx", LAYERS[] = "@normal.onnx";
static const char LITTLE[] = "tests/models/conv_relu.onnx";

/* In this order: what fails first in one is no longer new in another, so that little
 * networks come before those whose flows take long. */
/* clang-format off */
static const row rows[] = {
    { "list", list, NULL, 0, 0 },
    { "list backends", list, "backends", 0, 0 },
    { "list ops", list, "ops", 0, 0 },
    { "list passes", list, "passes", 0, 0 },
    { "list observers", list, "observers", 0, 0 },
    { "list quirks", list, "quirks", 0, 0 },
    { "list formats", list, "formats", 0, 0 },
    { "list profiles", list, "profiles", 0, 0 },
    { "backend", backend_page, "tflite-int8", 0, 0 },
    { "profile", profile_page, "tflite-xnnpack", 0, 0 },
    { "target", target_page, "cmsis-nn", 0, 0 },
    { "import backend", backend_of_aimet, "tests/data/aimet/htp.json", 0, 0 },
    { "quantize-tensor", tensor, "tests/arrays/f4.npy", NULL, 0 },
    { "quantize", quantize, "tflite-int8", MNIST, NULL },
    { "quantize trt", quantize, "trt-int8", LAYERS, NULL },
    { "quantize openvino", quantize, "openvino-int8", LAYERS, NULL },
    { "quantize pieces", quantize, "ort-int8", "@pieces.onnx", NULL },
    { "quantize ncnn", quantize, "ncnn-int8", MNIST, NULL },
    { "quantize fp8", quantize, "graphcore-fp8", MNIST, NULL },
    { "quantize dsp", quantize, "ppl-dsp-int8", MNIST, NULL },
    { "observe ort-entropy", quantize, "trt-int8",
      MNIST, "slot=input observer=ort-entropy" },
    { "observe ort-percentile", quantize, "trt-int8", MNIST,
      "slot=input observer=ort-percentile-stream" },
    { "observe ppq-kl", quantize, "trt-int8", MNIST, "slot=input observer=ppq-kl" },
    { "observe ppq-isotone", quantize, "trt-int8",
      MNIST, "slot=input observer=ppq-isotone" },
    { "observe ncnn-kl", quantize, "trt-int8", MNIST, "slot=input observer=ncnn-kl" },
    { "observe mse", quantize, "trt-int8", MNIST, "slot=input observer=mse" },
    { "observe kl", quantize, "trt-int8", MNIST, "slot=input observer=kl" },
    { "pass gptq", quantize, "trt-int8", MNIST, "pass=gptq run=yes" },
    { "pass smooth-quant", quantize, "trt-int8", MNIST, "pass=smooth-quant run=yes" },
    { "pass weight-split", quantize, "trt-int8", MNIST, "pass=weight-split run=yes" },
    { "pass channel-split", quantize, "trt-int8", MNIST, "pass=channel-split run=yes" },
    { "pass equalize", quantize, "trt-int8", MNIST, "pass=equalize run=yes" },
    { "pass bias-correct", quantize, "trt-int8", MNIST, "pass=bias-correct run=yes" },
    { "verb quantize", verb, "quantize", 0, 0 },
    { "verb ordered", verb, "ordered", 0, 0 },
    { "verb corrected", verb, "corrected", 0, 0 },
    { "verb graph", verb, "graph", 0, 0 },
    { "verb layers", verb, "layers", 0, 0 },
    { "verb integer-layers", verb, "integer-layers", 0, 0 },
    { "verb integers", verb, "integers", 0, 0 },
    { "verb sensitivity", verb, "sensitivity", 0, 0 },
    { "verb propose", verb, "propose", "@new.yaml", 0 },
    { "verb search", verb, "search", "@new.yaml", 0 },
    { "verb rules", verb, "rules", 0, 0 },
    { "verb price", verb, "price", 0, 0 },
    { "verb run", verb, "run", 0, 0 },
    { "verb evaluate", verb, "evaluate", 0, 0 },
    { "verb doctor", verb, "doctor", 0, 0 },
    { "verb compare", verb, "compare", 0, 0 },
    { "webpage", webpage, 0, 0, 0 },
    { "memory float", memory, LAYERS, 0, 0 },
    { "memory quantized", memory, SNAP, 0, 0 },
    { "run", run, MNIST, "random:2", "float" },
    { "explain a node", explain, "gemm1", 0, 0 },
    { "dump", dump, NULL, 0, 0 },
    { "dump a program", dump, "tflite-reference", 0, 0 },
    { "diff", diff, OTHER, 0, 0 },
    { "switch", change, "op=Conv state=dequantized", 0, 0 },
    { "collect", collect, NULL, 0, 0 },
    { "merge", merge, 0, 0, 0 },
    { "show", show, NULL, 0, 0 },
    { "derive", derive, "trt-int8", 0, 0 },
    { "trace", trace, "@new.npz", "tflite-reference", 0 },
    { "trace folder", trace, "@new.trace", "tflite-xnnpack", 0 },
    { "diverge", diverge, TRACE, 0, 0 },
    { "diverge other", diverge, "@other.npz", 0, 0 },
    { "fit", fit, TRACE, 0, 0 },
    { "fit other", fit, "@other.npz", 0, 0 },
    { "infer little", infer, "@little.npz", "tflite-int8", LITTLE },
    { "infer", infer, TRACE, "tflite-int8", 0 },
    { "tune lsq", tune, "lsq", SNAP, 0 },
    { "tune adaround", tune, "adaround", OTHER, 0 },
    { "tune brecq", tune, "brecq", SNAP, 0 },
    { "tune adaquant", tune, "adaquant", OTHER, 0 },
    { "tune bias", tune, "bias", SNAP, 0 },
    { "lint", lint, "trt", OTHER, 0 },
    { "lint xnnpack", lint, "xnnpack", SNAP, 0 },
    { "lint pieces", lint, "ort", "@fused", 0 },
    { "lint layers", lint, "openvino", "@layers", 0 },
    { "compare traces", trace_diff, TRACE, "@other.npz", 0 },
    { "probe", probe, 0, 0, 0 },
    { "export onnx-qdq", export, "onnx-qdq", SNAP, NULL },
    { "export onnx-qdq trt", export, "onnx-qdq", OTHER, "trt" },
    { "export onnx-qdq old", export, "onnx-qdq", "@aged", NULL },
    { "export onnx-qdq ort", export, "onnx-qdq", "@shrunk", "ort" },
    { "export openvino-fq", export, "openvino-fq", SNAP, NULL },
    { "export openvino-ir", export, "openvino-ir", "@layers", NULL },
    { "export onnx-qoperator", export, "onnx-qoperator", SNAP, NULL },
    { "export qonnx", export, "qonnx", SNAP, NULL },
    { "export tflite", export, "tflite", SNAP, NULL },
    { "export tflite bytes", export, "tflite", "@eight", NULL },
    { "export tflite floats", export, "tflite", "@floats", NULL },
    { "export aimet", export, "aimet", SNAP, NULL },
    { "export csv", export, "csv", SNAP, NULL },
    { "export tensorrt-cache", export, "tensorrt-cache", OTHER, NULL },
    { "export qnn-encodings", export, "qnn-encodings", SNAP, NULL },
    { "export model-explorer", export, "model-explorer", SNAP, NULL },
    { "export snpe-json", export, "snpe-json", SNAP, NULL },
    { "export mnn-json", export, "mnn-json", SNAP, NULL },
    { "export ppl-json", export, "ppl-json", SNAP, NULL },
    { "export tensorrt-json", export, "tensorrt-json", SNAP, NULL },
    { "export ascend-record", export, "ascend-record", SNAP, NULL },
    { "export rknn-cfg", export, "rknn-cfg", SNAP, NULL },
    { "export tengine-scale", export, "tengine-scale", SNAP, NULL },
    { "export nxp-onnx", export, "nxp-onnx", SNAP, NULL },
    { "export ncnn-table", export, "ncnn-table", SNAP, NULL },
    { "export openvino-ir moves", export, "openvino-ir", "@moved", NULL },
    { "export openvino-ir constants", export, "openvino-ir", "@known", NULL },
    { "export ppq-json", export, "ppq-json", SNAP, NULL },
    { "import onnx-qdq", import, "onnx-qdq", "@qdq.q.onnx", NULL },
    { "import openvino-fq", import, "openvino-fq", "@fq.q.onnx", NULL },
    { "import onnx-qoperator", import, "onnx-qoperator", "@qop.q.onnx", NULL },
    { "import qonnx", import, "qonnx", "@qonnx.q.onnx", NULL },
    { "import aimet", import, "aimet", "@aimet.encodings", "@aimet.onnx" },
    { "import csv", import, "csv", "@csv.csv", "@csv.onnx" },
    { "import tensorrt", import, "tensorrt-cache", "@cache.cache", "@cache.onnx" },
    { "import ppq-json", import, "ppq-json", "@ppq.json", "@ppq.onnx" },
    { "import tflite int16", import, "tflite", "tests/data/tflite/int16.tflite", NULL },
    { "import tflite floats", import, "tflite",
      "tests/data/tflite/floats.tflite", NULL },
    { "import tflite moves", import, "tflite", "tests/data/tflite/moves.tflite", NULL },
    { "import tflite functions", import, "tflite",
      "tests/data/tflite/functions.tflite", NULL },
    { "import tflite of_constants", import, "tflite",
      "tests/data/tflite/of_constants.tflite", NULL },
    { "import tflite", import, "tflite", "tests/data/tflite/kws_int8.tflite", NULL },
    { "session float", session, MNIST, "float", 0 },
    { "session integer", session, SNAP, "integer", 0 },
};
/* clang-format on */

/* A graph of tests/data/layers as "@NAME.onnx". */
static void make_model(qg_ctx *ctx, const char *name)
{
    enum { LIMIT = 1 << 16 };
    char file[64];
    char *text;
    size_t size;
    qg_model *m = NULL;
    (void)snprintf(file, sizeof file, "tests/data/layers/%s.txt", name);
    assert_ok(ctx,
              qg_file_text(ctx, ctx->arena, (qg_file_request){ "test", file, LIMIT },
                           &text, &size));
    assert_ok(ctx, qg_model_open_text(ctx, text, size, &m));
    (void)snprintf(file, sizeof file, "@%s.onnx", name);
    assert_ok(ctx, qg_model_export_onnx(m, at(file)));
    qg_model_close(m);
}

/* Models, snapshots, statistics and traces that the flows read. */
static void make_files(qg_ctx *ctx)
{
    /* clang-format off */
    const row made[] = {
        { "snap", quantize, "tflite-int8", VERB_MODEL, NULL },
        { "other", quantize, "trt-int8", VERB_MODEL, NULL },
        { "layers", quantize, "openvino-int8", LAYERS, NULL },
        { "moved", quantize, "openvino-int8", "@moves.onnx", NULL },
        { "eight", quantize, "tflite-int8", "@bytes.onnx", NULL },
        { "known", quantize, "openvino-int8", "@constants.onnx", NULL },
        { "shrunk", quantize, "ort-int8", "@cubic.onnx", NULL },
        { "floats", quantize, "tflite-int8", "@islands.onnx", NULL },
        { "aged", quantize, "ort-int8", "@old.onnx", NULL },
        { "fused", quantize, "ort-int8", "@pieces.onnx", NULL },
        { "qdq", export, "onnx-qdq", SNAP, NULL },
        { "fq", export, "openvino-fq", SNAP, NULL },
        { "ppq", export, "ppq-json", SNAP, NULL },
        { "qop", export, "onnx-qoperator", SNAP, NULL },
        { "qonnx", export, "qonnx", SNAP, NULL },
        { "aimet", export, "aimet", SNAP, NULL },
        { "csv", export, "csv", SNAP, NULL },
        { "cache", export, "tensorrt-cache", OTHER, NULL },
        { "small", quantize, "tflite-int8", LITTLE, NULL },
        { "little", trace, "@new.npz", NULL, "@small" },
        { "trace", trace, "@new.npz", NULL, NULL },
        { "other", trace, "@new.npz", "tflite-xnnpack", NULL },
        { "first", collect, NULL, NULL, NULL },
        { "rest", collect, "rest", NULL, NULL },
    };
    /* clang-format on */
    make_model(ctx, "normal");
    make_model(ctx, "moves");
    make_model(ctx, "bytes");
    make_model(ctx, "constants");
    make_model(ctx, "islands");
    make_model(ctx, "cubic");
    make_model(ctx, "old");
    make_model(ctx, "pieces");
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        qg_report *report = NULL;
        qg_model *m = NULL;
        target = made[i].name;
        assert_ok(ctx, made[i].step(ctx, &made[i], &m, &report));
        qg_report_free(report);
        qg_model_close(m);
    }
    target = "new";
}

/* --- runs --- */

static bool is_time(const char *name)
{
    return strstr(name, "seconds") || strstr(name, "time");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The files that were written, with their names; temporaries may stay behind, when they
 * cannot be removed, until the next writer sweeps. */
static void mix_files(qg_ctx *ctx, uint64_t *result)
{
    char *const root[] = { folder, NULL };
    char hash[QG_HASH_TEXT];
    places_pause(true);
    FTS *tree = fts_open(root, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    assert_non_null(tree);
    for (FTSENT *e; (e = fts_read(tree));) {
        bool other = strncmp(e->fts_name, target, strlen(target)) != 0;
        if (e->fts_level == 1 && other)
            (void)fts_set(tree, e, FTS_SKIP);
        if (e->fts_info != FTS_F || (e->fts_level == 1 && other) ||
            strncmp(e->fts_name, ".qg-", 4) == 0)
            continue;
        assert_ok(ctx, qg_hash_file(ctx, e->fts_path, hash));
        place_mix(result, e->fts_name);
        place_mix(result, hash);
    }
    (void)fts_close(tree);
    places_pause(false);
}

/* What was found: all numbers and texts but times. */
static void mix(uint64_t *result, const qg_report *r)
{
    const qg_cell *value;
    const qg_table *table;
    const char *name;
    char number[32];
    for (size_t i = 0; r && qg_report_entry(r, i, &name, &value, &table); i++) {
        place_mix(result, name);
        (void)snprintf(number, sizeof number, "%.17g", value ? value->number : 0);
        place_mix(result, is_time(name) ? "" : number);
        if (value && value->text)
            place_mix(result, value->text);
        for (size_t k = 0; k < qg_table_rows(table); k++)
            for (size_t c = 0; c < qg_table_columns(table); c++) {
                const qg_cell *cell =
                    qg_table_cell(table, k, qg_table_column(table, c));
                place_mix(result, cell && cell->text ? cell->text : "-");
            }
    }
}

static qg_status run_row(qg_alloc alloc, const place_flow *f, uint64_t *result)
{
    const row *r = f->ud;
    qg_open_options o;
    qg_ctx *ctx = NULL;
    qg_model *m = NULL;
    qg_report *report = NULL;
    qg_open_options_init(&o, sizeof o);
    o.alloc = alloc;
    QG_TRY(qg_open(&o, &ctx));
    qg_status s = r->step(ctx, r, &m, &report);
    if (s != QG_OK && !*qg_ctx_message(ctx)) {
        printf("%s: %s without a message\n", r->name, qg_status_name(s));
        s = QG_NSTATUS; /* neither is right */
    }
    if (s == QG_OK) {
        mix(result, report);
        mix_files(ctx, result);
    }
    if (report && !*qg_report_text(report)) /* a text is made when it is asked for */
        s = s == QG_OK ? QG_ENOMEM : s;
    qg_report_free(report);
    qg_model_close(m);
    qg_close(ctx);
    return s;
}

static void every_row(place_kind kind)
{
    long all = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (only && !strstr(rows[i].name, only))
            continue;
        const place_flow f = { rows[i].name, run_row, &rows[i] };
        long n = every_place_fails(kind, &f);
        printf("%-22s %5ld\n", rows[i].name, n);
        all += n;
    }
    assert_cmp_int(all, >, only ? 0 : kind == PLACE_MEMORY ? 200 : 30);
}

static void no_memory(void **state)
{
    (void)state;
    every_row(PLACE_MEMORY);
}

static void no_file(void **state)
{
    (void)state;
    every_row(PLACE_FILE);
}

static int set_up(void **state)
{
    qg_ctx *ctx = NULL;
    (void)state;
    places_sample(only || getenv("QG_ALL") ? 1 : 16);
    assert_int_equal(mkdir(scratch_path(folder, "places"), 0700), 0);
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    make_files(ctx);
    qg_close(ctx);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return scratch_remove(folder);
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_memory),
                                        cmocka_unit_test(no_file) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
