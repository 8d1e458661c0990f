#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Syntax of an option (0, NULL: without letter, without value), and the member of the
 * arguments that receives its value. */
#define NAMED(word, short_name, value)                                                 \
    .name = (word), .letter = (short_name), .argument = (value)
#define STORED(how, member) .kind = (how), .at = offsetof(cli_arguments, member)
#define TEXT(member)        STORED(CLI_TEXT, member)
#define TEXTS(member)       STORED(CLI_TEXTS, member)
#define LIST(member)        STORED(CLI_LIST, member)
#define NUMBER(member)      STORED(CLI_NUMBER, member)
#define BYTES(member)       STORED(CLI_BYTES, member)
#define INDEX(member)       STORED(CLI_INDEX, member)
#define CHOICE(member)      STORED(CLI_CHOICE, member)
#define FLAG(member)        STORED(CLI_FLAG, member)
#define COUNT(member)       STORED(CLI_COUNT, member)

/* A word of QG_RUN_MODE_MAP. */
#define WORD(id, text, meaning) text,

/* clang-format off */
const cli_option cli_options[CLI_N_OPTION] = {
    [CLI_O_BACKEND] = { NAMED("backend", 'b', "BACKEND"), TEXT(backend),
        .help = "name (see `qg list backends`), or a YAML file" },
    [CLI_O_DATA] = { NAMED("data", 'd', "DATA"), TEXT(data),
        .help = ".npy, .npz, .pb, .yaml, image, folder, random:N" },
    [CLI_O_SNAPSHOT] = { NAMED("output", 'o', "SNAPSHOT"), TEXT(output),
        .help = "folder for model.onnx and quant.json" },
    [CLI_O_FOLDER] = { NAMED("output", 'o', "DIR"), TEXT(output),
        .help = "folder for one .npy (or .npz) per output" },
    [CLI_O_SAMPLES] = { NAMED("samples", 'n', "N"), NUMBER(samples),
        .help = "use at most the first N samples; default: all" },
    [CLI_O_OBSERVER] = { NAMED("observer", 0, "NAME"), TEXT(observer),
        .help = "observer of all activations (see `qg list observers`)" },
    [CLI_O_POLICY] = { NAMED("policy", 0, "PATCH.yaml"), TEXTS(policy),
        .help = "changes to the backend; may be repeated" },
    [CLI_O_SET] = { NAMED("set", 0, "'op=Conv_3 slot=in0 bits=4'"), TEXTS(set),
        .help = "override of one setting; may be repeated" },
    [CLI_O_SWITCH] = { NAMED("set", 0, "'node=Conv_3 state=dequantized'"), TEXTS(set),
        .help = "endpoints to disable or restore; may be repeated" },
    [CLI_O_QUIRKS] = { NAMED("quirks", 0, "NAMES"), TEXT(quirks),
        .help = "ppq, or names separated by commas (see `qg list quirks`)" },
    [CLI_O_DISPATCHER] = { NAMED("dispatcher", 0, "NAME"), CHOICE(dispatcher),
        .help = "which operators are quantized; default: the backend's",
        .choice = { "conservative", "aggressive", "pointwise", "all-in", "perseus",
                    "pplnn" } },
    [CLI_O_DUMP_AFTER] = { NAMED("dump-after", 0, "PASS"), TEXT(dump_after),
        .help = "write the graph as text after a pass, or `all`" },
    [CLI_O_DUMP_DIR] = { NAMED("dump-dir", 0, "DIR"), TEXT(dump_dir),
        .help = "folder for --dump-after; default `.`" },
    [CLI_O_MODE] = { NAMED("mode", 0, "MODE"), CHOICE(mode),
        .help = "float, simulate, integer; default simulate, or as below",
        .choice = { QG_RUN_MODE_MAP(WORD) } },
    [CLI_O_ROUNDED_MODE] = { NAMED("mode", 0, "MODE"), CHOICE(mode),
        .help = "simulate (default) or integer",
        .choice = { "simulate", "integer" } },
    [CLI_O_PROFILE] = { NAMED("profile", 0, "NAME"), TEXT(profile),
        .help = "arithmetic of mode integer; default: the backend's" },
    [CLI_O_REQUIRE] = { NAMED("require", 0, "WHAT"), CHOICE(require),
        .help = "integer: fail where a node would run in float",
        .choice = { "integer" } },
    [CLI_O_DUMP] = { NAMED("dump", 0, "GLOB"), TEXT(dump),
        .help = "also write intermediate values that match, to DIR/dump" },
    [CLI_O_LABELS] = { NAMED("labels", 0, "FILE"), TEXT(labels),
        .help = ".npy of integers, a class per sample or row of a batch" },
    [CLI_O_HOLDOUT] = { NAMED("holdout", 0, "DATA"), TEXT(holdout),
        .help = "other samples, to measure on; DATA calibrates" },
    [CLI_O_JUDGES] = { NAMED("holdout", 0, "DATA"), TEXT(holdout),
        .help = "other samples that judge; default: a part of DATA" },
    [CLI_O_BY] = { NAMED("by", 0, "WHAT"), CHOICE(by),
        .help = "graph, layer or cause; default graph",
        .choice = { "graph", "layer", "cause" } },
    [CLI_O_SUBJECT] = { NAMED("by", 0, "WHAT"), CHOICE(subject),
        .help = "node, endpoint or group; default node",
        .choice = { "node", "endpoint", "group" } },
    [CLI_O_BACKENDS] = { NAMED("backend", 'b', "NAME"), TEXTS(backends),
        .help = "name (`qg list backends`) or YAML file; may be repeated" },
    [CLI_O_PROPOSE] = { NAMED("propose", 0, "BUDGET"), TEXT(propose),
        .help = "find a policy with at most this error: 0.01 or 1%" },
    [CLI_O_AFTER] = { NAMED("after", 0, "PASS"), TEXT(after),
        .help = "show the graph after this pass of --backend" },
    [CLI_O_RAISE_TO] = { NAMED("raise-to", 0, "BITS"), NUMBER(raise_to),
        .help = "bits of the selected values; default: float" },
    [CLI_O_PATCH] = { NAMED("output", 'o', "PATCH.yaml"), TEXT(output),
        .help = "file for the policy; default policy.yaml" },
    [CLI_O_DIRECTION] = { NAMED("direction", 0, "WHICH"), CHOICE(direction),
        .help = "only: enable this quantizer alone; all-but: all others",
        .choice = { "only", "all-but" } },
    [CLI_O_METRIC] = { NAMED("metric", 0, "METRIC"), CHOICE(metric),
        .help = "nsr (default; snr is the same), mse or cosine",
        .choice = { "nsr", "mse", "cosine", "snr" } },
    [CLI_O_TOP] = { NAMED("top", 0, "N"), NUMBER(top),
        .help = "show the N worst; default all" },
    [CLI_O_SHAPE] = { NAMED("shape", 0, "INPUT=1x3x224x224"), TEXTS(shape),
        .help = "fix an input's shape; may be repeated" },
    [CLI_O_JOBS] = { NAMED("jobs", 'j', "N"), NUMBER(jobs),
        .help = "threads; default one per core; does not affect results" },
    [CLI_O_KERNELS] = { NAMED("kernels", 0, "WHICH"), CHOICE(kernels),
        .help = "fast, or reference: the same bytes on every machine",
        .choice = { "fast", "reference" } },
    [CLI_O_SCHEME] = { NAMED("policy", 0, "WORDS"), TEXT(scheme),
        .help = "default per-tensor,linear,symmetric; see below" },
    [CLI_O_BITS] = { NAMED("bits", 0, "N"), NUMBER(bits),
        .help = "2 to 32; default 8" },
    [CLI_O_EXPONENT_BITS] = { NAMED("exponent-bits", 0, "N"), NUMBER(exponent_bits),
        .help = "exponent bits of a floating policy: 1 to 8" },
    [CLI_O_VARIANT] = { NAMED("variant", 0, "WORDS"), TEXT(variant),
        .help = "variant of a floating policy: fnuz, ppq-ties, mx" },
    [CLI_O_RANGE] = { NAMED("range", 0, "LOW,HIGH"), LIST(range),
        .help = "range of codes; default: all, from 0 if asymmetric" },
    [CLI_O_NARROW] = { NAMED("narrow", 0, NULL), FLAG(narrow),
        .help = "exclude the lowest code" },
    [CLI_O_AXIS] = { NAMED("axis", 0, "N"), INDEX(axis),
        .help = "axis of per-channel and block; default 0, -1 is the last" },
    [CLI_O_BLOCK] = { NAMED("block", 0, "N"), NUMBER(block),
        .help = "elements per block along the axis" },
    [CLI_O_ROUNDING] = { NAMED("rounding", 0, "MODE"), TEXT(rounding),
        .help = "default half-even" },
    [CLI_O_SCALE] = { NAMED("scale", 0, "X[,X...]"), LIST(scale),
        .help = "given scales, one per parameter, instead of observed" },
    [CLI_O_OFFSET] = { NAMED("offset", 0, "N[,N...]"), LIST(offset),
        .help = "in steps, one per scale; default 0" },
    [CLI_O_FINDER] = { NAMED("observer", 0, "NAME"), TEXT(observer),
        .help = "observer that derives the range; default minmax" },
    [CLI_O_ARRAY] = { NAMED("output", 'o', "OUT.npy"), TEXT(output),
        .help = "array to write" },
    [CLI_O_CODES] = { NAMED("codes", 0, NULL), FLAG(codes),
        .help = "write integers instead of values" },
    [CLI_O_CURVE] = { NAMED("curve", 0, "FILE.csv"), TEXT(curve),
        .help = "write all thresholds that the observer evaluated" },
    [CLI_O_WHOLE] = { NAMED("whole", 0, NULL), FLAG(whole),
        .help = "run the whole network once per row: same result, slower" },
    [CLI_O_FORMAT] = { NAMED("format", 0, "FORMAT"), TEXT(format),
        .help = "see `qg list formats`" },
    [CLI_O_WEIGHTS] = { NAMED("weights", 0, "HOW"), TEXT(weights),
        .help = "write weights as int (codes, the default) or float" },
    [CLI_O_PLACEMENT] = { NAMED("placement", 0, "RUNTIME"), TEXT(placement),
        .help = "for: ort, trt or openvino; default: the backend's" },
    [CLI_O_FLOAT] = { NAMED("float", 0, "TYPE"), TEXT(float_type),
        .help = "16-bit floats: auto, model (as there) or float32" },
    [CLI_O_FORMAT_VERSION] = { NAMED("version", 0, "VERSION"), TEXT(version),
        .help = "of the format: aimet, tensorrt-cache" },
    [CLI_O_NAMES] = { NAMED("names", 0, "FILE.param"), TEXT(names),
        .help = "ncnn-table: for the layers of this network" },
    [CLI_O_ANALYSIS] = { NAMED("analysis", 0, "FILE.json"), TEXT(analysis),
        .help = "model-explorer: errors of `qg analyse --json`" },
    [CLI_O_STRICT] = { NAMED("strict", 0, NULL), FLAG(strict),
        .help = "fail when anything is lost (import: left out)" },
    [CLI_O_REPORT] = { NAMED("report", 0, "FILE"), TEXT(report),
        .help = "write the loss report; JSON when FILE ends in .json" },
    [CLI_O_SELECT] = { NAMED("select", 0, "GLOB"), TEXT(select),
        .help = "only values whose name matches; default: all" },
    [CLI_O_AGAINST] = { NAMED("against", 0, "DUMP"), TEXT(against),
        .help = "outputs of the device: .npz or folder (docs/trace.md)" },
    [CLI_O_END_TO_END] = { NAMED("end-to-end", 0, NULL), FLAG(end_to_end),
        .help = "compare whole runs instead of each node on its own" },
    [CLI_O_BETWEEN] = { NAMED("between", 0, "P1,P2"), TEXT(between),
        .help = "two profiles, or backends with one, to tell apart" },
    [CLI_O_FROM] = { NAMED("from", 0, "BACKEND"), TEXT(from),
        .help = "begin with this one; default: the nearest of all" },
    [CLI_O_SEED] = { NAMED("seed", 0, "N"), NUMBER(seed),
        .help = "of what is drawn at random; default 1" },
    [CLI_O_METHOD] = { NAMED("method", 0, "NAME"), TEXT(method),
        .help = "lsq (default), adaquant, adaround, brecq, bias" },
    [CLI_O_STEPS] = { NAMED("steps", 0, "N"), NUMBER(steps),
        .help = "samples that a block learns from; default: the method's" },
    [CLI_O_RATE] = { NAMED("lr", 0, "X"), TEXT(rate),
        .help = "learning rate; default: the method's" },
    [CLI_O_GRADIENT] = { NAMED("gradient", 0, "NAME"), TEXT(gradient),
        .help = "of steps: usual, ste, lsq, lsq-plus, tqt, nncf, ..." },
    [CLI_O_OPTIMIZER] = { NAMED("optimizer", 0, "NAME"), TEXT(optimizer),
        .help = "adam, or sgd with momentum; default adam" },
    [CLI_O_LOSS] = { NAMED("loss", 0, "NAME"), TEXT(loss),
        .help = "blocks, mse, kd, labels; default blocks" },
    [CLI_O_QDROP] = { NAMED("qdrop", 0, NULL), FLAG(qdrop),
        .help = "round each element with probability 1/2 (QDrop)" },
    [CLI_O_NO_MIXUP] = { NAMED("no-mixup", 0, NULL), FLAG(no_mixup),
        .help = "learn from the samples alone, without mixtures of two" },
    [CLI_O_BLOCK_NAME] = { NAMED("block", 0, "NAME"), TEXT(block_name),
        .help = "only the block of this name" },
    [CLI_O_BUDGET] = { NAMED("budget", 0, "WHAT=N"), TEXT(budget),
        .help = "nsr=0.01 (or 1%), bits=6.0, size=2MB" },
    [CLI_O_CHOICES] = { NAMED("choices", 0, "LIST"), TEXT(choices),
        .help = "bits to choose from; default 4,8,16,float" },
    [CLI_O_ESTIMATE] = { NAMED("estimate", 0, "HOW"), CHOICE(estimate),
        .help = "errors of groups: measured (default), or by gradient",
        .choice = { "measured", "gradient" } },
    [CLI_O_OVER] = { NAMED("over", 0, "rules"), CHOICE(over),
        .help = "switch rules of the backend off, alone and in pairs",
        .choice = { "rules" } },
    [CLI_O_YAML] = { NAMED("output", 'o', "FILE.yaml"), TEXT(output),
        .help = "profile, or backend of infer-backend, to write" },
    [CLI_O_TRACE] = { NAMED("output", 'o', "TRACE"), TEXT(output),
        .help = "trace.npz, or a folder" },
    [CLI_O_FILE] = { NAMED("output", 'o', "FILE"), TEXT(output),
        .help = "file to write" },
    [CLI_O_MODEL] = { NAMED("model", 0, "MODEL.onnx"), TEXT(model),
        .help = "model file, for formats that do not contain the graph" },
    [CLI_O_TARGET] = { NAMED("target", 0, "NAME"), TEXT(target),
        .help = "name (`qg list targets`) or YAML file" },
    [CLI_O_SECOND] = { NAMED("against", 0, "SECOND"), TEXT(against),
        .help = "a second snapshot, shown beside the first one" },
    [CLI_O_PAGE] = { NAMED("output", 'o', "FILE.html"), TEXT(output),
        .help = "the page to write" },
    [CLI_O_PLOT] = { NAMED("plot", 0, NULL), FLAG(plot),
        .help = "also as bars, as wide as the terminal" },
    [CLI_O_SARIF] = { NAMED("sarif", 0, "FILE"), TEXT(sarif),
        .help = "write the findings as SARIF 2.1.0" },
    [CLI_O_FAIL_ON] = { NAMED("fail-on", 0, "LEVEL"), CHOICE(fail_on),
        .help = "exit status 3 from this level on; default note: for any",
        .choice = { "error", "warning", "note" } },
    [CLI_O_FIX] = { NAMED("fix", 0, NULL), FLAG(fix),
        .help = "write a policy patch to --output" },
    [CLI_O_STATS] = { NAMED("stats", 0, "FILE.qgs"), TEXT(stats),
        .help = "statistics from `qg stats collect`, instead of data" },
    [CLI_O_SLICE] = { NAMED("slice", 0, "A:B"), TEXT(slice),
        .help = "use samples A to B - 1 only: a shard" },
    [CLI_O_CHANNELS] = { NAMED("channels", 0, "GLOB"), TEXT(channels),
        .help = "collect a histogram per channel for these values" },
    [CLI_O_RESUME] = { NAMED("resume", 0, NULL), FLAG(resume),
        .help = "continue an interrupted run from FILE.part" },
    [CLI_O_ANY_KERNELS] = { NAMED("any-kernels", 0, NULL), FLAG(any_kernels),
        .help = "merge files of several instruction sets or versions" },
    [CLI_O_JSON] = { NAMED("json", 0, NULL), FLAG(json),
        .help = "print the report as JSON", .common = true },
    [CLI_O_ALL] = { NAMED("all", 0, NULL), FLAG(all),
        .help = "print all rows of the report, not only sums", .common = true },
    [CLI_O_VERBOSE] = { NAMED("verbose", 'v', NULL), COUNT(verbose),
        .help = "print more, with progress; -vv prints everything", .common = true },
    [CLI_O_CONFIG_DIR] = { NAMED("config-dir", 0, "DIR"), TEXT(config_dir),
        .help = "folder with backends/, pipelines/, profiles/", .common = true },
    [CLI_O_MAX_MEM] = { NAMED("max-mem", 0, "SIZE"), BYTES(max_mem),
        .help = "memory limit in bytes, or with K, M, G; default 80 %",
        .common = true },
    [CLI_O_MAX_NODES] = { NAMED("max-nodes", 0, "N"), NUMBER(max_nodes),
        .help = "limit of nodes from functions; default 1000000", .common = true },
    [CLI_O_MAX_RATIO] = { NAMED("max-ratio", 0, "N"), NUMBER(max_ratio),
        .help = "limit of memory to size of .npz, .qgs; default 100",
        .common = true },
    [CLI_O_HELP] = { NAMED("help", 'h', NULL), FLAG(help),
        .help = "show this help", .common = true },
};
/* clang-format on */

int cli_fail(const cli_verb *verb, const char *message)
{
    size_t n = verb ? strlen(verb->name) : 0;
    bool said = n && strncmp(message, verb->name, n) == 0 && message[n] == ':';
    if (verb && verb->err) {
        (void)fputs(message, verb->err);
        return CLI_FAILED;
    }
    (void)fprintf(stderr, "qg: %s%s", verb && !said ? verb->name : "",
                  verb && !said ? ": " : "");
    cli_print(stderr, message);
    (void)fputc('\n', stderr);
    return CLI_FAILED;
}

int cli_usage(const cli_verb *verb, const char *fmt, ...)
{
    va_list args;
    char text[1024];
    va_start(args, fmt);
    cli_message(text, sizeof text, fmt, args);
    va_end(args);
    if (verb && verb->err) {
        (void)fputs(text, verb->err);
        return CLI_USAGE;
    }
    (void)fprintf(stderr, "qg: %s%s", verb ? verb->name : "", verb ? ": " : "");
    cli_print(stderr, text);
    (void)fprintf(stderr, "\nsee `qg %s%s`\n", verb ? verb->name : "help",
                  verb ? " --help" : "");
    return CLI_USAGE;
}

/* --- finding an option --- */

typedef struct reader {
    const cli_verb *verb;
    char **argv;
    int argc, next;
    cli_arguments *a;
    bool seen[CLI_N_OPTION];
} reader;

enum cli_use cli_use_of(const cli_verb *verb, int option)
{
    return cli_options[option].common ? CLI_TAKES : (enum cli_use)verb->use[option];
}

static int option_named(const cli_verb *verb, const char *name, size_t n)
{
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(verb, id) && strlen(cli_options[id].name) == n &&
            memcmp(cli_options[id].name, name, n) == 0)
            return id;
    return -1;
}

static int option_lettered(const cli_verb *verb, char letter)
{
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(verb, id) && cli_options[id].letter == letter)
            return id;
    return -1;
}

static int unknown_option(const cli_verb *verb, const char *word)
{
    const char *name[CLI_N_OPTION];
    size_t n = 0;
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(verb, id))
            name[n++] = cli_options[id].name;
    char bare[64];
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *near = word[1] == '-' ? qg_nearest(bare, name, n) : NULL;
    return cli_usage(verb, "no option %s%s%s%s", word, near ? ", did you mean '--" : "",
                     near ? near : "", near ? "'" : "");
}

/* --- taking a value --- */

static bool is_choice(const cli_option *o, const char *value)
{
    size_t n = sizeof o->choice / sizeof o->choice[0];
    for (size_t i = 0; i < n && o->choice[i]; i++)
        if (strcmp(o->choice[i], value) == 0)
            return true;
    return false;
}

/* The verb whose option of this name accepts the value; NULL: none. */
static const cli_verb *taken_by(const char *name, const char *value)
{
    for (const cli_verb *v = cli_verbs; v->name; v++) {
        int id = option_named(v, name, strlen(name));
        if (id >= 0 && is_choice(&cli_options[id], value))
            return v;
    }
    return NULL;
}

static int wrong_choice(const cli_verb *verb, const cli_option *o, const char *value)
{
    const cli_verb *other = taken_by(o->name, value);
    char list[128] = "";
    size_t n = 0, used = 0;
    for (; n < sizeof o->choice / sizeof o->choice[0] && o->choice[n]; n++) {
        bool last =
            n + 1 == sizeof o->choice / sizeof o->choice[0] || !o->choice[n + 1];
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 n == 0 ? ""
                                 : last ? " or "
                                        : ", ",
                                 o->choice[n]);
    }
    if (other)
        return cli_usage(verb, "--%s: '%s', expected %s; try `qg %s --%s %s`", o->name,
                         value, list, other->name, o->name, value);
    const char *near = qg_nearest(value, o->choice, n);
    return cli_usage(verb, "--%s: '%s', expected %s%s%s%s", o->name, value, list,
                     near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
}

static int take_choice(const cli_verb *verb, const cli_option *o, const char *value,
                       const char **out)
{
    if (!is_choice(o, value))
        return wrong_choice(verb, o, value);
    *out = value;
    return CLI_OK;
}

static int take_number(const cli_verb *verb, const cli_option *o, const char *value,
                       size_t *out)
{
    enum { MOST = 1000000000 };
    size_t n = strspn(value, "0123456789");
    unsigned long long x = n && n < 12 && !value[n] ? strtoull(value, NULL, 10) : 0;
    if (x < 1 || x > MOST)
        return cli_usage(verb, "--%s: '%s', expected a whole number from 1 to %d",
                         o->name, value, MOST);
    *out = (size_t)x;
    return CLI_OK;
}

/* "900M".  Less than a megabyte is a mistake: no verb works with it. */
static int take_bytes(const cli_verb *verb, const cli_option *o, const char *value,
                      size_t *out)
{
    static const char unit[] = "KMG";
    size_t n = strspn(value, "0123456789"), factor = 1;
    unsigned long long x = n && n < 16 ? strtoull(value, NULL, 10) : 0;
    const char *u = value[n] && !value[n + 1] ? strchr(unit, value[n]) : NULL;
    for (const char *p = unit; u && p <= u; p++)
        factor *= 1000;
    if (x < 1 || x > SIZE_MAX / factor || (value[n] && !u))
        return cli_usage(verb, "--%s: '%s', expected bytes, or 900M, 2G", o->name,
                         value);
    if (x * factor < 1000000)
        return cli_usage(verb, "--%s: '%s', expected at least 1M", o->name, value);
    *out = (size_t)x * factor;
    return CLI_OK;
}

static int take_index(const cli_verb *verb, const cli_option *o, const char *value,
                      int *out)
{
    bool minus = value[0] == '-';
    const char *digit = value + minus;
    if (strlen(digit) != 1 || *digit < '0' || *digit > '9')
        return cli_usage(verb, "--%s: '%s', expected a number from -9 to 9", o->name,
                         value);
    *out = minus ? '0' - *digit : *digit - '0';
    return CLI_OK;
}

static int store(reader *r, const cli_option *o, const char *value)
{
    void *at = (char *)r->a + o->at;
    switch (o->kind) {
    case CLI_TEXT:
    case CLI_LIST:
        *(const char **)at = value;
        return CLI_OK;
    case CLI_TEXTS: {
        cli_words *w = at;
        w->at[w->n++] = value;
        return CLI_OK;
    }
    case CLI_NUMBER:
        return take_number(r->verb, o, value, at);
    case CLI_BYTES:
        return take_bytes(r->verb, o, value, at);
    case CLI_INDEX:
        return take_index(r->verb, o, value, at);
    case CLI_CHOICE:
        return take_choice(r->verb, o, value, at);
    case CLI_FLAG:
        *(bool *)at = true;
        return CLI_OK;
    case CLI_COUNT:
        ++*(size_t *)at;
        return CLI_OK;
    }
    return CLI_USAGE;
}

/* A word with a dash is an option, unless a number follows. */
static bool can_be_value(const char *word)
{
    return word[0] != '-' || !word[1] || strchr("0123456789.", word[1]);
}

/* value: the text after '=' or the letter; NULL: none, use the next word. */
static int take(reader *r, int id, const char *value)
{
    const cli_option *o = &cli_options[id];
    bool repeats = o->kind == CLI_TEXTS || o->kind == CLI_COUNT;
    bool bare = o->kind == CLI_FLAG || o->kind == CLI_COUNT;
    if (!repeats && r->seen[id])
        return cli_usage(r->verb, "--%s is given twice, expected once", o->name);
    r->seen[id] = true;
    if (bare && value)
        return cli_usage(r->verb, "--%s takes no value", o->name);
    if (!bare && !value) {
        const char *next = r->next < r->argc ? r->argv[r->next] : NULL;
        if (!next || !can_be_value(next))
            return cli_usage(r->verb, "--%s needs a value: %s", o->name, o->argument);
        value = next;
        r->next++;
    }
    if (!bare && !*value)
        return cli_usage(r->verb, "--%s: the value is empty, expected %s", o->name,
                         o->argument);
    return store(r, o, value);
}

static int take_long(reader *r, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    int id = option_named(r->verb, word + 2, n - 2);
    return id < 0 ? unknown_option(r->verb, word)
                  : take(r, id, equals ? equals + 1 : NULL);
}

/* "-n5", "-n 5", "-vv". */
static int take_short(reader *r, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        int id = option_lettered(r->verb, *p);
        if (id < 0)
            return unknown_option(r->verb, word);
        bool bare =
            cli_options[id].kind == CLI_FLAG || cli_options[id].kind == CLI_COUNT;
        int status = take(r, id, bare || !p[1] ? NULL : p + 1);
        if (status != CLI_OK || !bare)
            return status;
    }
    return CLI_OK;
}

/* --- the whole line --- */

static int check_needed(const reader *r)
{
    const cli_verb *v = r->verb;
    if (r->a->file.n < v->min_file)
        return cli_usage(v, "expected %s", v->files);
    if (r->a->file.n > v->max_file)
        return cli_usage(v, "'%s': unexpected argument, expected %s",
                         r->a->file.at[v->max_file], *v->files ? v->files : "none");
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(v, id) == CLI_NEEDS && !r->seen[id]) {
            const cli_option *o = &cli_options[id];
            const char letter[] = { '-', o->letter, ' ', '\0' };
            return cli_usage(v, "expected %s%s%s%s", o->letter ? letter : "--",
                             o->letter ? "" : o->name, o->letter ? "" : " ",
                             o->argument);
        }
    return CLI_OK;
}

static bool make_room(cli_arguments *a, int argc)
{
    cli_words *list[] = { &a->file, &a->policy, &a->set, &a->shape, &a->backends };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        list[i]->at = calloc((size_t)argc + 1, sizeof *list[i]->at);
        if (!list[i]->at)
            return false;
    }
    return true;
}

void cli_arguments_free(cli_arguments *a)
{
    free(a->file.at);
    free(a->policy.at);
    free(a->set.at);
    free(a->shape.at);
    free(a->backends.at);
}

int cli_parse(const cli_verb *verb, int argc, char **argv, cli_arguments *a)
{
    reader r = { .verb = verb, .argv = argv, .argc = argc, .a = a };
    bool options = true;
    *a = (cli_arguments){ .axis = INT_MIN };
    if (!make_room(a, argc))
        return cli_fail(verb, "out of memory");
    while (r.next < argc) {
        const char *word = argv[r.next++];
        int status = CLI_OK;
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && word[0] == '-' && word[1])
            status = word[1] == '-' ? take_long(&r, word) : take_short(&r, word);
        else
            a->file.at[a->file.n++] = word;
        if (status != CLI_OK)
            return status;
    }
    return a->help ? CLI_OK : check_needed(&r);
}
