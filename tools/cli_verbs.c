#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* --- shared by verbs --- */

/* The host gets the report instead of a page. */
static int give(cli_host *host, qg_status s, qg_report *r)
{
    host->status = s;
    host->report = s == QG_OK ? r : NULL;
    if (s != QG_OK)
        qg_report_free(r);
    return s == QG_OK ? CLI_OK : CLI_FAILED;
}

/* tune leaves the blocks that it has done, stats collect its samples. */
static void fail_interrupted(const cli_call *c)
{
    char text[1200] = "interrupted";
    struct stat is;
    const bool tunes = strcmp(c->verb->name, "tune") == 0;
    const bool resumes = tunes || (strcmp(c->verb->name, "stats") == 0 &&
                                   strcmp(c->args->file.at[0], "collect") == 0);
    char *part = resumes && c->args->output ? cli_checkpoint_of(c->args->output) : NULL;
    if (part && stat(part, &is) == 0)
        (void)snprintf(text, sizeof text,
                       "interrupted: the same command %sgoes on from '%.1000s'",
                       tunes ? "" : "with --resume ", part);
    free(part);
    (void)cli_fail(c->verb, text);
}

/* The library has refused it: only the reader of a backend knows its parents. */
static bool writes_what_is_read(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const char *const path[] = { a->output, a->curve, a->report, a->sarif };
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        if (path[i] && qg_has_read(c->ctx, path[i]))
            return true;
    return false;
}

int cli_answer(const cli_call *c, qg_status s, qg_report *r)
{
    if (c->host)
        return give(c->host, s, r);
    int status = CLI_OK;
    const char *text = "";
    enum qg_detail detail = c->args->all       ? QG_DETAIL_ALL
                            : c->args->verbose ? QG_DETAIL_VERBOSE
                                               : QG_DETAIL_SHORT;
    if (s == QG_OK && r)
        text = c->args->json ? qg_report_json(r) : qg_report_page(r, detail);
    cli_bar_clear(c->bar);
    cli_print(stdout, text);
    if (*text && c->args->plot && !c->args->json)
        cli_plot(r);
    if (s == QG_ECANCELED && cli_interrupted()) {
        fail_interrupted(c);
        status = cli_interrupted();
    } else if (s != QG_OK) {
        status = s == QG_ECONFIG && writes_what_is_read(c)
                     ? cli_usage(c->verb, "%s", qg_ctx_message(c->ctx))
                     : cli_fail(c->verb, qg_ctx_message(c->ctx));
    } else if (r && !*text)
        status = cli_fail(c->verb, "cannot write the report: out of memory");
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
    for (size_t i = 0; c->host && i < c->host->n_lent; i++)
        if (c->host->lent[i].word == path) {
            *out = c->host->lent[i].model;
            return QG_OK;
        }
    qg_model_options_init(&o, sizeof o);
    o.shape = c->args->shape.at;
    o.n_shape = c->args->shape.n;
    return qg_model_open(c->ctx, path, &o, out);
}

void cli_close(const cli_call *c, qg_model *m)
{
    bool kept = c->host && c->host->made == m;
    for (size_t i = 0; c->host && i < c->host->n_lent; i++)
        kept = kept || c->host->lent[i].model == m;
    if (!kept)
        qg_model_close(m);
}

qg_status cli_save(const cli_call *c, qg_model *m)
{
    qg_status s = c->args->output ? qg_model_save(m, c->args->output) : QG_OK;
    if (s == QG_OK && c->host)
        c->host->made = m;
    return s;
}

const char *cli_save_fault(const cli_call *c)
{
    return c->args->output ? cli_snapshot_fault(c->args->output) : NULL;
}

int cli_ask(const cli_call *c, const char *path, cli_question *ask)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_status s = cli_open(c, path, &m);
    if (s == QG_OK)
        s = ask(c, m, &r);
    int status = cli_answer(c, s, r);
    cli_close(c, m);
    return status;
}

int cli_ask_and_name(const cli_call *c, cli_question *ask)
{
    const cli_arguments *a = c->args;
    const int status = cli_ask(c, a->file.at[0], ask);
    if (status == CLI_OK && !a->json && !c->host) {
        (void)fputs("\nwritten: ", stdout);
        cli_print(stdout, a->output);
        (void)putchar('\n');
    }
    return status;
}

qg_workload cli_workload(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const cli_host *host = c->host;
    bool arrays = host && a->data && a->data == host->data;
    return (qg_workload){ .data = arrays ? NULL : a->data,
                          .samples = a->samples,
                          .jobs = (unsigned)a->jobs,
                          .reference_kernels =
                              a->kernels && strcmp(a->kernels, "reference") == 0,
                          .progress = host ? host->progress : cli_progress(c->bar),
                          .source = arrays ? host->source : NULL };
}

/* --- quantize --- */

void cli_quantize_options(const cli_call *c, qg_quantize_options *o)
{
    const cli_arguments *a = c->args;
    qg_quantize_options_init(o, sizeof *o);
    o->work = cli_workload(c);
    o->backend = a->backend;
    o->stats = a->stats;
    o->observer = a->observer;
    o->quirks = a->quirks;
    o->policy = a->policy.at;
    o->n_policy = a->policy.n;
    o->set = a->set.at;
    o->n_set = a->set.n;
    o->dispatcher = a->dispatcher;
    o->dump_after = a->dump_after;
    o->dump_dir = a->dump_dir;
}

static qg_status quantize_and_save(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_quantize_options o;
    cli_quantize_options(c, &o);
    qg_status s = qg_model_quantize(m, &o, r);
    return s == QG_OK ? cli_save(c, m) : s;
}

static int quantize(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const char *fault = cli_save_fault(c);
    if (fault)
        return cli_refuse_output(c, fault);
    if (!a->data == !a->stats)
        return cli_usage(c->verb, a->data ? "expected -d DATA or --stats FILE, not both"
                                          : "expected -d DATA or --stats FILE");
    return cli_ask_and_name(c, quantize_and_save);
}

/* --- run, evaluate, analyse --- */

static void run_options(const cli_call *c, qg_run_options *o)
{
    qg_run_options_init(o, sizeof *o);
    o->work = cli_workload(c);
    o->mode = c->args->mode;
    o->dump = c->args->dump;
    o->profile = c->args->profile;
    o->require_integer = c->args->require != NULL;
    o->codes = c->args->codes;
}

static qg_status run_into_folder(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_run_options o;
    run_options(c, &o);
    return qg_model_run(m, &o, c->args->output, r);
}

static int run(const cli_call *c)
{
    const char *fault = cli_folder_fault(c->args->output);
    return fault ? cli_refuse_output(c, fault)
                 : cli_ask(c, c->args->file.at[0], run_into_folder);
}

static qg_status evaluate(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_run_options o;
    run_options(c, &o);
    return qg_model_evaluate(m, &o, c->args->labels, r);
}

static qg_status analyse(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.by = c->args->by;
    o.metric = c->args->metric;
    o.top = c->args->top;
    o.mode = c->args->mode;
    o.profile = c->args->profile;
    return qg_model_analyse(m, &o, r);
}

/* --- questions --- */

static qg_status explain(const cli_call *c, qg_model *m, qg_report **r)
{
    return qg_model_explain(m, c->args->file.at[1], r);
}

/* Dumps the model unchanged, or after the passes up to --after; their result depends on
 * the options of quantize. */
static qg_status dump_behind(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_quantize_options o;
    cli_quantize_options(c, &o);
    o.stop_after = c->args->after;
    if (c->args->profile)
        return qg_model_dump_program(m, c->args->profile, r);
    qg_status s = o.stop_after ? qg_model_quantize(m, &o, NULL) : QG_OK;
    return s == QG_OK ? qg_model_dump(m, r) : s;
}

static int dump(const cli_call *c)
{
    if (!c->args->after != !c->args->backend)
        return cli_usage(c->verb, "expected --after and --backend together");
    if (c->args->profile && c->args->after)
        return cli_usage(c->verb, "expected --profile or --after, not both");
    return cli_ask(c, c->args->file.at[0], dump_behind);
}

static int diff(const cli_call *c)
{
    qg_model *first = NULL, *second = NULL;
    qg_report *r = NULL;
    double identical = 0;
    const char *const *file = (const char *const *)c->args->file.at;
    bool traces = cli_is_trace(file[0]) || cli_is_trace(file[1]);
    qg_status s = traces ? qg_trace_diff(c->ctx, file[0], file[1], &r)
                         : cli_open(c, file[0], &first);
    if (s == QG_OK && !traces)
        s = cli_open(c, file[1], &second);
    if (s == QG_OK && !traces)
        s = qg_model_diff(first, second, &r);
    bool same = r && qg_report_number(r, "identical", &identical) && identical == 1;
    int status = cli_answer(c, s, r);
    cli_close(c, first);
    cli_close(c, second);
    return status == CLI_OK && !same ? CLI_FINDINGS : status;
}

static int list(const cli_call *c)
{
    qg_report *r = NULL;
    const cli_words *w = &c->args->file;
    const char *topic = w->n ? w->at[0] : NULL;
    bool backend = w->n > 1 && strcmp(topic, "backends") == 0;
    bool profile = w->n > 1 && strcmp(topic, "profiles") == 0;
    bool target = w->n > 1 && strcmp(topic, "targets") == 0;
    if (w->n > 1 && !backend && !profile && !target)
        return cli_usage(
            c->verb,
            "'%s': only backends, profiles and targets have pages of their "
            "own",
            w->at[1]);
    qg_status s = backend   ? qg_backend_page(c->ctx, w->at[1], &r)
                  : profile ? qg_profile_page(c->ctx, w->at[1], &r)
                  : target  ? qg_target_page(c->ctx, w->at[1], &r)
                            : qg_list(c->ctx, topic, &r);
    return cli_answer(c, s, r);
}

static int conformance(const cli_call *c)
{
    qg_report *r = NULL;
    double failed = 0;
    const cli_words *w = &c->args->file;
    qg_status s = qg_conformance(c->ctx, w->at, w->n, &r);
    bool passed = s == QG_OK && qg_report_number(r, "failed", &failed) && failed == 0;
    int status = cli_answer(c, s, r);
    return status == CLI_OK && !passed ? CLI_FINDINGS : status;
}

/* --- one array --- */

static int quantize_tensor(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_report *r = NULL;
    qg_quantize_tensor_options o;
    qg_quantize_tensor_options_init(&o, sizeof o);
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
    o.curve = a->curve;
    qg_status s = qg_quantize_tensor(c->ctx, a->file.at[0], &o, &r);
    return cli_answer(c, s, r);
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
    "DATA: an .npy (axis 0 is the sample when the array has one more axis than the\n"  \
    "input, or when the input's batch is 1), an .npz (arrays by input name), a .pb\n"  \
    "(TensorProto), an image (.png, .jpg, .bmp, .ppm, .pgm), a folder of these in\n"   \
    "name order, a .yaml with settings of images (docs/data.md), or random:N (N\n"     \
    "uniform samples, for trials)."

/* Words after the verb: their names in the help, and their number. */
/* What qg_model_open takes. */
#define ANY_MODEL "MODEL|SNAPSHOT"
#define MODEL_FORMS                                                                    \
    "MODEL: an ONNX file, or a .tflite file, which is a snapshot when it is\n"         \
    "quantized; its profile is tflite-reference unless --profile is given."

#define FILES(words, least, most)                                                      \
    .files = (words), .min_file = (least), .max_file = (most)

/* Options of a row. */
#define TAKES(id) [CLI_O_##id] = CLI_TAKES
#define NEEDS(id) [CLI_O_##id] = CLI_NEEDS
/* Options of every verb that runs the network over data, besides DATA. */
#define RUNS TAKES(SAMPLES), TAKES(JOBS), TAKES(SHAPE), TAKES(KERNELS)

/* clang-format off */
const cli_verb cli_verbs[] = {
    {.name = "quantize",
      .summary = "quantize a model for a backend and write a snapshot",
      FILES("MODEL.onnx", 1, 1),
      .use = { TAKES(DATA), RUNS, NEEDS(BACKEND), NEEDS(SNAPSHOT), TAKES(OBSERVER),
               TAKES(POLICY), TAKES(SET), TAKES(QUIRKS), TAKES(DISPATCHER),
               TAKES(DUMP_AFTER), TAKES(DUMP_DIR), TAKES(STATS) },
      .about = "Requires DATA, or statistics from `qg stats collect`.\n"
               "--set 'SELECTORS SETTINGS' changes single decisions: of nodes by op=,\n"
               "node=, trait=, of endpoints by slot=, value=: bits=, range=, state=.\n"
               "All of them are in docs/policies.md.\n"
               "\n" DATA_FORMS,
      .example = "qg quantize model.onnx -b trt-int8 -d calib.npy -o snapshot",
      .run = quantize },
    { .name = "export",
      .summary = "write a snapshot in the format of another tool",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(FORMAT), TAKES(WEIGHTS), TAKES(PLACEMENT), TAKES(FLOAT),
               TAKES(FORMAT_VERSION), TAKES(NAMES), TAKES(ANALYSIS), TAKES(QUIRKS),
               TAKES(STRICT), TAKES(REPORT), NEEDS(FILE) },
      .about = "Reports, per endpoint, the quantization details that the format\n"
               "cannot represent.",
      .example = "qg export snapshot --format onnx-qdq -o model.qdq.onnx",
      .ask = cli_export },
    { .name = "import",
      .summary = "make a snapshot from a file of another tool",
      FILES("FILE", 1, 1),
      .use = { NEEDS(FORMAT), TAKES(MODEL), TAKES(NAMES), TAKES(STRICT),
               NEEDS(SNAPSHOT) },
      .about = "A .tflite file can also be opened without an import.\n"
               "Formats without a graph need --model: the model that qg export wrote\n"
               "beside the file, since quantize may have changed the original.",
      .example = "qg import model.qdq.onnx --format onnx-qdq -o snapshot",
      .run = cli_import },
    { .name = "import-backend",
      .summary = "make a backend file from another tool's configuration",
      FILES("FILE.json", 1, 1),
      .use = { NEEDS(FORMAT), NEEDS(FILE) },
      .about = "Format aimet: a quantsim configuration.  Reports the settings that\n"
               "were not converted.",
      .example = "qg import-backend htp.json --format aimet -o htp.yaml",
      .run = cli_import_backend },
    { .name = "run",
      .summary = "run a model in float, simulated or in integers",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(MODE), TAKES(DUMP), NEEDS(FOLDER),
               TAKES(PROFILE), TAKES(REQUIRE), TAKES(CODES) },
      .about = "Writes one .npy per output of the network.  A new axis 0 is samples:\n"
               "16 samples of an output of 1x7 make an array of 16x1x7.  An output\n"
               "whose shape differs between samples becomes an .npz with arrays\n"
               "sample_0, sample_1, ...\n"
               "\n" MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg run snapshot -d images.npy --mode simulate -o outputs",
      .run = run },
    { .name = "evaluate",
      .summary = "compare top-1 accuracy in float, simulated and in integers",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, NEEDS(LABELS), TAKES(MODE), TAKES(PROFILE),
               TAKES(REQUIRE) },
      .about = MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg evaluate snapshot -d images.npy --labels classes.npy",
      .ask = evaluate },
    { .name = "analyse",
      .summary = "measure the error of outputs, layers or causes",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(BY), TAKES(METRIC), TAKES(TOP),
               TAKES(ROUNDED_MODE), TAKES(PROFILE), TAKES(PLOT) },
      .about = "--by graph  the error of each output of the network\n"
               "--by layer  the error at the output of each compute node\n"
               "            (PPQ: graphwise_error_analyse)\n"
               "All quantizers are enabled in both cases, so an error includes the\n"
               "contribution of preceding nodes.  The error of the outputs with\n"
               "only the quantizers of one node enabled (PPQ:\n"
               "layerwise_error_analyse) is `qg sensitivity --by node`.\n"
               "--by cause  what the error of the worst output loses without weights,\n"
               "            activations, bias; without rounding, clipping, sharing\n"
               "--mode integer compares the integers of a profile with float and\n"
               "with the simulation, in steps by layer; not by cause.\n"
               "\n" DATA_FORMS,
      .example = "qg analyse snapshot -d calib.npy --by layer --top 10",
      .ask = analyse },
    { .name = "sensitivity",
      .summary = "rank nodes, endpoints or groups by their output error",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(SUBJECT), TAKES(DIRECTION), TAKES(METRIC),
               TAKES(TOP), TAKES(WHOLE), TAKES(PROPOSE), TAKES(RAISE_TO),
               TAKES(PATCH), TAKES(BACKEND), TAKES(JUDGES), TAKES(LABELS) },
      .about = "For each row only the nodes downstream of it are computed, from the\n"
               "activations of one whole run per sample.  --propose keeps the most\n"
               "harmful values in float, requantizes until the budget is met, and\n"
               "writes a policy for `qg quantize --policy`.  It has no rules when the\n"
               "budget is met as it is, or when they do not help on samples without a\n"
               "part in it: --holdout, else every second one.\n"
               "--labels: classes of --holdout, else of DATA; top-1 judges first.\n"
               "\n" DATA_FORMS,
      .example = "qg sensitivity snapshot -d calib.npy --by node --top 10",
      .run = cli_sensitivity },
    { .name = "trace",
      .summary = "write every stored value, to compare with a device",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(MODE), TAKES(PROFILE), TAKES(SELECT),
               NEEDS(TRACE) },
      .about = "One array per value, axis 0 is the sample, and trace.json with the\n"
               "endpoint and the grid of each (docs/trace.md).  Mode integer unless\n"
               "--mode is given.\n"
               "\n" MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg trace snapshot -d images.npy -o trace.npz",
      .run = cli_trace },
    { .name = "diverge",
      .summary = "find where a device computes something else, and what",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, NEEDS(AGAINST), TAKES(PROFILE), TAKES(END_TO_END),
               TAKES(TOP) },
      .about = "Each node is computed on the device's own inputs.  For the first\n"
               "node that differs (--top N: the first N), other arithmetic is tried\n"
               "on the dump; hypotheses that explain more elements are listed.\n"
               "Exit status 0 when nothing differs, 1 when anything does, 4 when a\n"
               "file is broken or does not fit.\n"
               "\n" MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg diverge snapshot -d images.npy --against dump.npz",
      .run = cli_diverge,
      .judges = true },
    { .name = "fit",
      .summary = "find the profile that explains the outputs of a device",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, NEEDS(AGAINST), TAKES(PROFILE), TAKES(YAML) },
      .about = "Every profile computes every value on the device's own inputs.  -o\n"
               "writes a profile that extends the nearest one by the rows of others\n"
               "that explain more.  Profiles that the samples do not tell apart are\n"
               "listed; `qg probe` searches samples that do.\n"
               "\n" MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg fit snapshot -d images.npy --against dump.npz -o chip.yaml",
      .run = cli_fit },
    { .name = "probe",
      .summary = "search samples on which two profiles differ",
      FILES(ANY_MODEL, 1, 1),
      .use = { TAKES(DATA), RUNS, NEEDS(BETWEEN), TAKES(SEED), NEEDS(ARRAY) },
      .about = "Makes --samples samples, 8 by default, from random codes, or from\n"
               "those of --data.  -o: .npz for networks with several inputs.\n"
               "\n" MODEL_FORMS "\n\n" DATA_FORMS,
      .example = "qg probe snapshot --between tflite-reference,tflite-xnnpack -o x.npy",
      .run = cli_probe },
    { .name = "infer-backend",
      .summary = "write a backend file from the tensors of a device",
      FILES("MODEL.onnx", 1, 1),
      .use = { NEEDS(DATA), RUNS, NEEDS(AGAINST), TAKES(FROM), TAKES(YAML) },
      .about = "Which values the device rounds and to which grids, what it fuses,\n"
               "what shares a grid.  The file extends the nearest shipped backend;\n"
               "its decisions that the dump does not show are listed.\n"
               "\n" DATA_FORMS,
      .example = "qg infer-backend model.onnx -d x.npy --against dump.npz -o mine.yaml",
      .run = cli_infer_backend },
    { .name = "tune",
      .summary = "learn weights, biases and step sizes, block by block",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(METHOD), TAKES(STEPS), TAKES(RATE),
               TAKES(GRADIENT), TAKES(OPTIMIZER), TAKES(LOSS), TAKES(LABELS),
               TAKES(JUDGES), TAKES(QDROP), TAKES(NO_MIXUP), TAKES(BLOCK_NAME),
               TAKES(SEED), NEEDS(SNAPSHOT) },
      .about = "Each block learns to give the outputs of the float network, from what\n"
               "the blocks before it give.  No labels are needed.  --holdout judges,\n"
               "else a quarter of the samples: a block that is not clearly better\n"
               "there stays as it was; if the network is not, the start is written\n"
               "unchanged, and `changed` of the report is no.  Interrupted, the same\n"
               "command goes on behind the last block that was done, from OUT.part.\n"
               "--loss mse|kd|labels: the network learns as a whole from its outputs:\n"
               "like those of the float network, with the same softmax, or with the\n"
               "classes of --labels, of DATA and then of --holdout.\n"
               "\n" DATA_FORMS,
      .example = "qg tune snapshot -d calib.npy --method lsq -o tuned",
      .run = cli_tune },
    { .name = "search",
      .summary = "find the bits of every group, or what rules are worth",
      FILES(ANY_MODEL, 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(BUDGET), TAKES(CHOICES), TAKES(ESTIMATE),
               TAKES(OVER), TAKES(BACKEND), TAKES(POLICY), TAKES(OBSERVER),
               TAKES(JUDGES), TAKES(PATCH) },
      .about = "--budget takes a SNAPSHOT, --over rules an unquantized MODEL.\n"
               "Among all policies the best one for the budget, as predicted from the\n"
               "errors of single groups, is found exactly.  It is quantized, run, and\n"
               "written for `qg quantize --policy` when it holds on samples without a\n"
               "part in it: --holdout, else every second one.\n"
               "--choices: list what the target runs and exports hold: onnx-qdq has\n"
               "4, 8 and 16 bits, with --placement trt 5 to 8 of activations.\n"
               "--over rules -b BACKEND: MODEL.onnx with each fusion and sharing rule\n"
               "of the backend off, alone and in pairs.\n"
               "\n" DATA_FORMS,
      .example = "qg search snapshot -d calib.npy --budget nsr=1% -o policy.yaml",
      .run = cli_search },
    { .name = "switch",
      .summary = "disable endpoints of a snapshot, or restore them",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(SWITCH), NEEDS(SNAPSHOT) },
      .about = "--set takes a selector and state=deactivated, state=dequantized or\n"
               "state=restored; scales and sharing are kept.",
      .example = "qg switch snapshot --set 'node=Conv_3 state=dequantized' -o other",
      .run = cli_switch },
    { .name = "lint",
      .summary = "what a target will not compute in integers, fuse or guess right",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(TARGET), TAKES(SARIF), TAKES(FAIL_ON), TAKES(FIX), TAKES(PATCH),
               TAKES(SHAPE) },
      .about = "Also for a file with quantizers.  Nothing runs.  --all shows how the\n"
               "target computes each node.  --fix writes what a policy can mend, for\n"
               "`qg quantize --policy`.  Exit status 0 when nothing was found, 3 when\n"
               "something was, of the level of --fail-on or above.\n"
               "Rules: docs/lint.md.",
      .example = "qg lint snapshot --target trt --fix -o patch.yaml",
      .run = cli_lint },
    { .name = "report",
      .summary = "write all that is known about a snapshot as a page",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(LABELS), TAKES(SECOND), TAKES(TARGET),
               NEEDS(PAGE) },
      .about = "One HTML file that needs no network: accuracy, errors, the graph with\n"
               "every record, histograms, sensitivity, lint.  It contains what --json\n"
               "prints (docs/report.md).  --target: of `qg lint`; default: the one\n"
               "that the backend's name begins with.\n"
               "\n" DATA_FORMS,
      .example = "qg report snapshot -d images.npy -o report.html",
      .run = cli_report },
    { .name = "price",
      .summary = "measure the cost of scale sharing for each group",
      FILES("SNAPSHOT", 1, 1),
      .use = { NEEDS(DATA), RUNS, TAKES(METRIC) },
      .about = "joint: only the group quantizes, with its shared scale; separate:\n"
               "each member quantizes with its calibrated scale.\n"
               "\n" DATA_FORMS,
      .example = "qg price snapshot -d calib.npy",
      .ask = cli_price },
    { .name = "compare",
      .summary = "compare backends and patches on one network",
      FILES("MODEL.onnx", 1, 1),
      .use = { NEEDS(DATA), RUNS, NEEDS(BACKENDS), TAKES(POLICY), TAKES(OBSERVER),
               TAKES(METRIC), TAKES(STATS), TAKES(HOLDOUT), TAKES(LABELS),
               TAKES(ROUNDED_MODE), TAKES(PROFILE) },
      .about = "Each patch adds one variant of every backend.  With --stats all\n"
               "scales come from that file; DATA only measures the error.\n"
               "--labels: classes of the measured samples (--holdout, else DATA).\n"
               "\n" DATA_FORMS,
      .example = "qg compare model.onnx -d calib.npy -b trt-int8 -b ncnn-int8",
      .ask = cli_compare },
    { .name = "explain",
      .summary = "show the origin of a tensor's quantization settings",
      FILES("SNAPSHOT NAME", 2, 2),
      .about = "SNAPSHOT: also a quantized .tflite file.\n"
               "NAME: a node, a value, an endpoint (Conv_3.in1, Conv_3.out0), or all\n"
               "of a group (group:Conv_3.out0).",
      .example = "qg explain snapshot Conv_0.out0",
      .ask = explain },
    { .name = "dump",
      .summary = "print the graph and its quantization as text",
      FILES(ANY_MODEL, 1, 1),
      .use = { TAKES(DATA), RUNS, TAKES(BACKEND), TAKES(AFTER), TAKES(PROFILE),
               TAKES(POLICY),
               TAKES(SET), TAKES(QUIRKS), TAKES(DISPATCHER), TAKES(OBSERVER) },
      .about = MODEL_FORMS "\n\n--profile prints the integer program of this profile.",
      .example = "qg dump snapshot",
      .run = dump },
    { .name = "list",
      .summary = "list operators, passes, backends, profiles, ...",
      FILES("[TOPIC] [NAME]", 0, 2),
      .about = "Without a topic it lists the topics; `qg list backends NAME` shows a\n"
               "backend: its rules, fusions and sharing, with reasons and sources;\n"
               "`qg list profiles NAME` shows the rows of a profile, `qg list targets\n"
               "NAME` the kernels and rules of a target of `qg lint`.",
      .example = "qg list backends",
      .run = list },
    { .name = "diff",
      .summary = "show the differences between two models or snapshots",
      FILES("FIRST SECOND", 2, 2),
      .about = "Two traces (.npz, or folders with trace.json) are compared array by\n"
               "array.  Exit status 0 when they are identical, 3 when they differ.",
      .example = "qg diff snapshot-a snapshot-b",
      .run = diff },
    { .name = "conformance",
      .summary = "run ONNX backend tests: folders with model.onnx and data",
      FILES("DIR...", 1, SIZE_MAX),
      .about = "Exit status 0 when no test failed, 1 when one did, 4 when they cannot\n"
               "be run.  Unsupported operators do not count.",
      .example = "qg conformance /usr/share/libonnx-testdata/data/node/test_relu",
      .run = conformance,
      .judges = true },
    { .name = "quantize-tensor",
      .summary = "quantize an array with any scheme and measure the error",
      FILES("FILE.npy", 1, 1),
      .use = { TAKES(SCHEME), TAKES(BITS), TAKES(EXPONENT_BITS), TAKES(VARIANT),
               TAKES(RANGE), TAKES(NARROW), TAKES(AXIS), TAKES(BLOCK),
               TAKES(ROUNDING), TAKES(SCALE), TAKES(OFFSET), TAKES(FINDER),
               TAKES(QUIRKS), TAKES(ARRAY), TAKES(CODES), TAKES(CURVE) },
      .about =
          "WORDS: per-tensor, per-channel or block; linear or floating; symmetric or\n"
          "asymmetric; and power-of-2, dynamic.  Commas or spaces between them.\n"
          "float8 E4M3 is --policy per-tensor,floating,symmetric,power-of-2 --bits 8\n"
          "--exponent-bits 4.  nsr is noise to signal: lower is better.",
      .example =
          "qg quantize-tensor w.npy --policy per-channel,linear,symmetric --bits 4",
      .run = quantize_tensor },
    { .name = "stats",
      .summary = "collect tensor statistics once, derive scales later",
      FILES("collect|merge|show|derive|doctor FILE...", 1, SIZE_MAX),
      .use = { TAKES(DATA), RUNS, TAKES(BACKEND), TAKES(FILE), TAKES(OBSERVER),
               TAKES(POLICY), TAKES(SET), TAKES(QUIRKS), TAKES(DISPATCHER),
               TAKES(SLICE), TAKES(CHANNELS), TAKES(RESUME),
               TAKES(ANY_KERNELS),               TAKES(MODEL), TAKES(PLOT) },
      .about =
          "collect MODEL.onnx -d DATA -o FILE.qgs   one run; mpirun splits it\n"
          "        [-b BACKEND [--set ...]]         after the rewrites of a backend\n"
          "merge FILE.qgs... -o FILE.qgs            combine shards\n"
          "show FILE.qgs [VALUE]                    print the contents\n"
          "derive FILE.qgs --model MODEL -b BACKEND [--observer ...] [--set ...]\n"
          "                                         print scales, without a run\n"
          "        a snapshot with these scales, with the same options:\n"
          "        `qg quantize MODEL -b BACKEND --stats FILE.qgs -o SNAPSHOT`\n"
          "doctor MODEL.onnx -d DATA                find problems in the data:\n"
          "  not-finite, constant, duplicate  a sample\n"
          "  range    scaled unlike other samples, or unlike the training data\n"
          "  layout   channels-first data for channels-last, or the reverse\n"
          "  alone    a single sample determines a range\n"
          "  dead     channels that are constant over all samples\n"
          "\n" DATA_FORMS,
      .example = "qg stats collect model.onnx -d calib.npy -o stats.qgs",
      .run = cli_stats },
    { .name = "completion",
      .summary = "print completion for a shell, or the manual page",
      FILES("bash|zsh|fish|man", 1, 1),
      .about = "An installation has them in place.",
      .example = "qg completion bash >~/.local/share/bash-completion/completions/qg",
      .run = cli_completion },
    { .name = "version",
      .summary = "print the version of qg",
      .files = "",
      .example = "qg version",
      .run = version },
    { .name = "help",
      .summary = "show this page, or the page of a verb",
      FILES("[VERB]", 0, 1),
      .example = "qg help quantize",
      .run = help },
    { .name = NULL                                                                    },
};
/* clang-format on */

const cli_verb *cli_verb_named(const char *name)
{
    for (const cli_verb *v = cli_verbs; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}
