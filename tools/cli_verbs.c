#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

/* --- what verbs share --- */

int cli_failed(const cli_call *c)
{
    cli_bar_clear(c->bar);
    return cli_fail(c->verb, qg_ctx_message(c->ctx));
}

/* Prints and frees it. */
int cli_answer(const cli_call *c, qg_report *r)
{
    const char *text = c->args->json ? qg_report_json(r) : qg_report_text(r);
    int status = *text ? CLI_OK : CLI_FAILED;
    cli_bar_clear(c->bar);
    if (*text)
        (void)fputs(text, stdout);
    else
        (void)cli_fail(c->verb, "cannot write the answer: out of memory");
    qg_report_free(r);
    return status;
}

int cli_refuse_output(const cli_call *c, const char *fault)
{
    char text[1200];
    (void)snprintf(text, sizeof text, "output '%.1000s': cannot be written: %s",
                   c->args->output, fault);
    return cli_fail(c->verb, text);
}

qg_status cli_open(const cli_call *c, const char *path, qg_model **out)
{
    qg_model_options o;
    qg_model_options_init(&o);
    o.shape = c->args->shape.at;
    o.n_shape = c->args->shape.n;
    return qg_model_open(c->ctx, path, &o, out);
}

bool cli_reference(const cli_arguments *a)
{
    return a->kernels && strcmp(a->kernels, "reference") == 0;
}

/* --- quantize --- */

void cli_quantize_options(const cli_call *c, qg_quantize_options *o)
{
    const cli_arguments *a = c->args;
    qg_quantize_options_init(o);
    o->backend = a->backend;
    o->data = a->data;
    o->stats = a->stats;
    o->samples = a->samples;
    o->observer = a->observer;
    o->quirks = a->quirks;
    o->policy = a->policy.at;
    o->n_policy = a->policy.n;
    o->set = a->set.at;
    o->n_set = a->set.n;
    o->dispatcher = a->dispatcher;
    o->dump_after = a->dump_after;
    o->dump_dir = a->dump_dir;
    o->jobs = (unsigned)a->jobs;
    o->reference_kernels = cli_reference(a);
    o->progress = cli_progress(c->bar);
}

static int quantize(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_quantize_options o;
    const char *fault = cli_snapshot_fault(a->output);
    if (fault)
        return cli_refuse_output(c, fault);
    if (!a->data == !a->stats)
        return cli_usage(c->verb, a->data ? "expected -d DATA or --stats FILE, not both"
                                          : "expected -d DATA or --stats FILE");
    cli_quantize_options(c, &o);
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_quantize(m, &o, &r);
    if (s == QG_OK)
        s = qg_model_save(m, a->output);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    if (s != QG_OK)
        qg_report_free(r);
    else if (!a->json)
        (void)printf("\nwritten: %s\n", a->output);
    qg_model_close(m);
    return status;
}

/* --- run, evaluate, analyse --- */

static void run_options(const cli_call *c, qg_run_options *o)
{
    const cli_arguments *a = c->args;
    qg_run_options_init(o);
    o->data = a->data;
    o->samples = a->samples;
    o->mode = a->mode;
    o->dump = a->dump;
    o->jobs = (unsigned)a->jobs;
    o->reference_kernels = cli_reference(a);
    o->progress = cli_progress(c->bar);
}

static int run(const cli_call *c)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_run_options o;
    const char *fault = cli_folder_fault(c->args->output);
    if (fault)
        return cli_refuse_output(c, fault);
    run_options(c, &o);
    qg_status s = cli_open(c, c->args->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_run(m, &o, c->args->output, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

static int evaluate(const cli_call *c)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_run_options o;
    run_options(c, &o);
    qg_status s = cli_open(c, c->args->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_evaluate(m, &o, c->args->labels, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

static int analyse(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_analyse_options o;
    qg_analyse_options_init(&o);
    o.data = a->data;
    o.samples = a->samples;
    o.by = a->by ? a->by : o.by;
    o.metric = a->metric ? a->metric : o.metric;
    o.top = a->top;
    o.jobs = (unsigned)a->jobs;
    o.progress = cli_progress(c->bar);
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_analyse(m, &o, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

/* --- questions --- */

static int explain(const cli_call *c)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_status s = cli_open(c, c->args->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_explain(m, c->args->file.at[1], &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

/* The passes up to --after; what they decide depends on the options of quantize. */
static qg_status run_until(const cli_call *c, qg_model *m)
{
    qg_quantize_options o;
    cli_quantize_options(c, &o);
    o.stop_after = c->args->after;
    return qg_model_quantize(m, &o, NULL);
}

static int dump(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    if (!a->after != !a->backend)
        return cli_usage(c->verb, "expected --after and --backend together");
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK && a->after)
        s = run_until(c, m);
    if (s == QG_OK)
        s = qg_model_dump(m, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

static int diff(const cli_call *c)
{
    qg_model *first = NULL, *second = NULL;
    qg_report *r = NULL;
    qg_status s = cli_open(c, c->args->file.at[0], &first);
    if (s == QG_OK)
        s = cli_open(c, c->args->file.at[1], &second);
    if (s == QG_OK)
        s = qg_model_diff(first, second, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(first);
    qg_model_close(second);
    return status;
}

static int list(const cli_call *c)
{
    qg_report *r = NULL;
    const cli_words *w = &c->args->file;
    const char *topic = w->n ? w->at[0] : NULL;
    if (w->n > 1 && strcmp(topic, "backends") != 0)
        return cli_usage(c->verb, "'%s': only backends have pages of their own",
                         w->at[1]);
    qg_status s =
        w->n > 1 ? qg_backend_page(c->ctx, w->at[1], &r) : qg_list(c->ctx, topic, &r);
    return s == QG_OK ? cli_answer(c, r) : cli_failed(c);
}

static int conformance(const cli_call *c)
{
    qg_report *r = NULL;
    double failed = 0;
    const cli_words *w = &c->args->file;
    if (qg_conformance(c->ctx, w->at, w->n, &r) != QG_OK)
        return cli_failed(c);
    bool passed = qg_report_number(r, "failed", &failed) && failed == 0;
    int status = cli_answer(c, r);
    return status == CLI_OK && !passed ? CLI_FAILED : status;
}

/* --- one array --- */

static int quantize_tensor(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_report *r = NULL;
    qg_quantize_tensor_options o;
    qg_quantize_tensor_options_init(&o);
    o.policy = a->scheme ? a->scheme : o.policy;
    o.variant = a->variant;
    o.bits = a->bits ? (unsigned)a->bits : o.bits;
    o.exponent_bits = (unsigned)a->exponent_bits;
    o.range = a->range;
    o.narrow = a->narrow;
    o.axis = a->axis;
    o.block = (unsigned)a->block;
    o.rounding = a->rounding;
    o.scale = a->scale;
    o.offset = a->offset;
    o.observer = a->observer;
    o.quirks = a->quirks;
    o.output = a->output;
    o.codes = a->codes;
    qg_status s = qg_quantize_tensor(c->ctx, a->file.at[0], &o, &r);
    return s == QG_OK ? cli_answer(c, r) : cli_failed(c);
}

/* --- about qg --- */

static int version(const cli_call *c)
{
    const char *form = c->args->json
                           ? "{\n  \"report\": \"version\",\n  \"version\": \"%s\"\n}\n"
                           : "qg %s\n";
    (void)printf(form, qg_version());
    return CLI_OK;
}

static int help(const cli_call *c)
{
    if (!c->args->file.n) {
        cli_help(NULL);
        return CLI_OK;
    }
    const cli_verb *v = cli_verb_named(c->args->file.at[0]);
    if (!v)
        return cli_usage(c->verb, "no verb '%s'", c->args->file.at[0]);
    cli_help(v);
    return CLI_OK;
}

/* --- the table --- */

#define DATA_FORMS                                                                     \
    "DATA: an .npy (first axis the sample when there is one more axis than the\n"      \
    "input has, or when the input's batch is 1), an .npz (arrays by input name), a\n"  \
    "folder of these in name order, or random:N (N uniform samples, to try things)."

#define RUNS (CLI_BIT(DATA) | CLI_BIT(SAMPLES) | CLI_BIT(JOBS) | CLI_BIT(SHAPE))

/* clang-format off */
const cli_verb cli_verbs[] = {
    {.name = "quantize",
      .summary = "decide who rounds, calibrate, write a snapshot",
      .files = "MODEL.onnx",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(BACKEND) | CLI_BIT(SNAPSHOT) | CLI_BIT(OBSERVER) |
               CLI_BIT(POLICY) | CLI_BIT(SET) | CLI_BIT(QUIRKS) | CLI_BIT(DISPATCHER) |
               CLI_BIT(DUMP_AFTER) | CLI_BIT(DUMP_DIR) | CLI_BIT(KERNELS) |
               CLI_BIT(STATS),
      .needs = CLI_BIT(BACKEND) | CLI_BIT(SNAPSHOT),
      .about = "Needs DATA, or statistics that `qg stats collect` made from them.\n"
               "\n" DATA_FORMS,
      .example = "qg quantize model.onnx -b trt-int8 -d calib.npy -o snapshot",
      .run = quantize },
    { .name = "export",
      .summary = "write a snapshot in a format of another tool",
      .files = "SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = CLI_BIT(FORMAT) | CLI_BIT(WEIGHTS) | CLI_BIT(PLACEMENT) |
               CLI_BIT(STRICT) | CLI_BIT(REPORT) | CLI_BIT(FILE),
      .needs = CLI_BIT(FORMAT) | CLI_BIT(FILE),
      .about = "Answers with what the format cannot say, endpoint by endpoint.",
      .example = "qg export snapshot --format onnx-qdq -o model.qdq.onnx",
      .run = cli_export },
    { .name = "import",
      .summary = "make a snapshot from what another tool wrote",
      .files = "FILE",
      .min_file = 1,
      .max_file = 1,
      .takes = CLI_BIT(FORMAT) | CLI_BIT(MODEL) | CLI_BIT(SNAPSHOT),
      .needs = CLI_BIT(FORMAT) | CLI_BIT(SNAPSHOT),
      .example = "qg import model.qdq.onnx --format onnx-qdq -o snapshot",
      .run = cli_import },
    { .name = "import-backend",
      .summary = "make a backend file from another tool's configuration",
      .files = "FILE.json",
      .min_file = 1,
      .max_file = 1,
      .takes = CLI_BIT(FORMAT) | CLI_BIT(FILE),
      .needs = CLI_BIT(FORMAT) | CLI_BIT(FILE),
      .about = "Format aimet: a quantsim configuration.  Answers with what was not "
               "carried over.",
      .example = "qg import-backend htp.json --format aimet -o htp.yaml",
      .run = cli_import_backend },
    { .name = "run",
      .summary = "run a model, or a snapshot as the backend would",
      .files = "MODEL.onnx|SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes =
          RUNS | CLI_BIT(MODE) | CLI_BIT(DUMP) | CLI_BIT(FOLDER) | CLI_BIT(KERNELS),
      .needs = CLI_BIT(DATA) | CLI_BIT(FOLDER),
      .about = "Writes one .npy per output of the network, first axis the sample.\n"
               "\n" DATA_FORMS,
      .example = "qg run snapshot -d images.npy --mode simulate -o outputs",
      .run = run },
    { .name = "evaluate",
      .summary = "top-1 accuracy: float, simulated, difference",
      .files = "MODEL.onnx|SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(LABELS) | CLI_BIT(KERNELS),
      .needs = CLI_BIT(DATA) | CLI_BIT(LABELS),
      .about = DATA_FORMS,
      .example = "qg evaluate snapshot -d images.npy --labels classes.npy",
      .run = evaluate },
    { .name = "analyse",
      .summary = "where the quantization error comes from",
      .files = "SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(BY) | CLI_BIT(METRIC) | CLI_BIT(TOP),
      .needs = CLI_BIT(DATA),
      .about = "--by graph     each output with everything quantized\n"
               "--by layer     one layer quantized at a time\n"
               "--by endpoint  one endpoint at a time\n"
               "--by group     the endpoints that share one scale at a time\n"
               "\n" DATA_FORMS,
      .example = "qg analyse snapshot -d calib.npy --by layer --top 10",
      .run = analyse },
    { .name = "sensitivity",
      .summary = "which node, endpoint or group the outputs suffer from most",
      .files = "SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(SUBJECT) | CLI_BIT(DIRECTION) | CLI_BIT(METRIC) |
               CLI_BIT(TOP) | CLI_BIT(WHOLE) | CLI_BIT(PROPOSE) | CLI_BIT(RAISE_TO) |
               CLI_BIT(PATCH) | CLI_BIT(BACKEND),
      .needs = CLI_BIT(DATA),
      .about = "Only what lies downstream of a row is computed, from the activations\n"
               "of one whole run per sample.  --propose quantizes again with the\n"
               "values that harm most in float until the budget is met, and writes a\n"
               "policy for `qg quantize --policy`.\n"
               "\n" DATA_FORMS,
      .example = "qg sensitivity snapshot -d calib.npy --by node --top 10",
      .run = cli_sensitivity },
    { .name = "switch",
      .summary = "switch endpoints of a snapshot off, or on again",
      .files = "SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = CLI_BIT(SET) | CLI_BIT(SNAPSHOT),
      .needs = CLI_BIT(SET) | CLI_BIT(SNAPSHOT),
      .about = "--set takes a selector and state=deactivated, state=dequantized or\n"
               "state=restored; scale and sharing stay.",
      .example = "qg switch snapshot --set 'node=Conv_3 state=dequantized' -o other",
      .run = cli_switch },
    { .name = "price",
      .summary = "what sharing one scale costs, group by group",
      .files = "SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(METRIC),
      .needs = CLI_BIT(DATA),
      .about = "joint: only the group rounds, with its scale; separate: each part has\n"
               "the scale it was calibrated to.\n"
               "\n" DATA_FORMS,
      .example = "qg price snapshot -d calib.npy",
      .run = cli_price },
    { .name = "compare",
      .summary = "what several backends and patches make of one network",
      .files = "MODEL.onnx",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(BACKENDS) | CLI_BIT(POLICY) | CLI_BIT(OBSERVER) |
               CLI_BIT(METRIC) | CLI_BIT(STATS),
      .needs = CLI_BIT(BACKENDS) | CLI_BIT(DATA),
      .about = "Each patch makes one more variant of every backend.  With --stats all\n"
               "scales come from that file, and DATA only says how good they are.\n"
               "\n" DATA_FORMS,
      .example = "qg compare model.onnx -d calib.npy -b trt-int8 -b ncnn-int8",
      .run = cli_compare },
    { .name = "explain",
      .summary = "why a tensor is quantized as it is",
      .files = "SNAPSHOT NAME",
      .min_file = 2,
      .max_file = 2,
      .about = "NAME: a node, a value, an endpoint (Conv_3.in1, Conv_3.out0), or all\n"
               "of a group (group:Conv_3.out0).",
      .example = "qg explain snapshot Conv_0.out0",
      .run = explain },
    { .name = "dump",
      .summary = "the graph as text, with its quantization",
      .files = "MODEL.onnx|SNAPSHOT",
      .min_file = 1,
      .max_file = 1,
      .takes = RUNS | CLI_BIT(BACKEND) | CLI_BIT(AFTER) | CLI_BIT(POLICY) |
               CLI_BIT(SET) |
               CLI_BIT(QUIRKS) | CLI_BIT(DISPATCHER) | CLI_BIT(OBSERVER),
      .example = "qg dump snapshot",
      .run = dump },
    { .name = "list",
      .summary = "what there is: ops, passes, backends, observers, ...",
      .files = "[TOPIC] [NAME]",
      .max_file = 2,
      .about = "Without a topic it lists the topics; `qg list backends NAME` is the "
               "page of a\nbackend: its rules, fusions and sharing, with why and "
               "source.",
      .example = "qg list backends",
      .run = list },
    { .name = "diff",
      .summary = "what differs between two models or snapshots",
      .files = "FIRST SECOND",
      .min_file = 2,
      .max_file = 2,
      .example = "qg diff snapshot-a snapshot-b",
      .run = diff },
    { .name = "conformance",
      .summary = "run ONNX backend tests: folders with model.onnx and data",
      .files = "DIR...",
      .min_file = 1,
      .max_file = SIZE_MAX,
      .about = "Exit status 0 when nothing failed; unsupported operators do not count.",
      .example = "qg conformance /usr/share/libonnx-testdata/data/node/test_relu",
      .run = conformance },
    { .name = "quantize-tensor",
      .summary = "round an array by any scheme, and what that costs",
      .files = "FILE.npy",
      .min_file = 1,
      .max_file = 1,
      .takes = CLI_BIT(SCHEME) | CLI_BIT(BITS) | CLI_BIT(EXPONENT_BITS) |
               CLI_BIT(VARIANT) | CLI_BIT(RANGE) | CLI_BIT(NARROW) | CLI_BIT(AXIS) |
               CLI_BIT(BLOCK) | CLI_BIT(ROUNDING) | CLI_BIT(SCALE) | CLI_BIT(OFFSET) |
               CLI_BIT(FINDER) | CLI_BIT(QUIRKS) | CLI_BIT(ARRAY) | CLI_BIT(CODES),
      .about =
          "WORDS: per-tensor, per-channel or block; linear or floating; symmetric or\n"
          "asymmetric; and power-of-2, dynamic.  Commas or spaces between them.\n"
          "float8 E4M3 is --policy per-tensor,floating,symmetric,power-of-2 --bits 8\n"
          "--exponent-bits 4.  snr is noise to signal: lower is better.",
      .example =
          "qg quantize-tensor w.npy --policy per-channel,linear,symmetric --bits 4",
      .run = quantize_tensor },
    { .name = "stats",
      .summary = "collect what every tensor holds once, decide about scales later",
      .files = "collect|merge|show|derive|doctor FILE...",
      .min_file = 1,
      .max_file = SIZE_MAX,
      .takes = RUNS | CLI_BIT(BACKEND) | CLI_BIT(FILE) | CLI_BIT(OBSERVER) |
               CLI_BIT(POLICY) | CLI_BIT(SET) | CLI_BIT(QUIRKS) | CLI_BIT(DISPATCHER) |
               CLI_BIT(KERNELS) | CLI_BIT(SLICE) | CLI_BIT(CHANNELS) |
               CLI_BIT(RESUME) | CLI_BIT(MEMORY) | CLI_BIT(MODEL),
      .about =
          "collect MODEL.onnx -d DATA -o FILE.qgs   one run; mpirun shares it\n"
          "merge FILE.qgs... -o FILE.qgs            shards into one\n"
          "show FILE.qgs [VALUE]                    what is in it\n"
          "derive FILE.qgs --model MODEL -b BACKEND [--observer ...] [--set ...]\n"
          "                                         scales, without running anything\n"
          "doctor MODEL.onnx -d DATA                what may be wrong with the data:\n"
          "  not-finite, constant, duplicate  a sample\n"
          "  range    scaled unlike the others, or unlike what the model was made for\n"
          "  layout   channels first or last\n"
          "  alone    one sample defines a range\n"
          "  dead     channels that no sample changes\n"
          "\n" DATA_FORMS,
      .example = "qg stats collect model.onnx -d calib.npy -o stats.qgs",
      .run = cli_stats },
    { .name = "version",
      .summary = "which qg this is",
      .files = "",
      .example = "qg version",
      .run = version },
    { .name = "help",
      .summary = "this page, or the page of a verb",
      .files = "[VERB]",
      .max_file = 1,
      .example = "qg help quantize",
      .run = help },
    { .name = NULL                                                                    },
};
/* clang-format on */
