#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

#define AT(member) offsetof(cli_arguments, member)

/* clang-format off */
const cli_option cli_options[CLI_N_OPTION] = {
    [CLI_O_BACKEND] = { .name = "backend", .letter = 'b', .argument = "BACKEND",
        .help = "name (see `qg list backends`), or a YAML file",
        .kind = CLI_TEXT, .at = AT(backend) },
    [CLI_O_DATA] = { .name = "data", .letter = 'd', .argument = "DATA",
        .help = "samples: .npy, .npz, a folder of them, or random:N",
        .kind = CLI_TEXT, .at = AT(data) },
    [CLI_O_SNAPSHOT] = { .name = "output", .letter = 'o', .argument = "SNAPSHOT",
        .help = "folder for model.onnx and quant.json",
        .kind = CLI_TEXT, .at = AT(output) },
    [CLI_O_FOLDER] = { .name = "output", .letter = 'o', .argument = "DIR",
        .help = "folder for one .npy per output",
        .kind = CLI_TEXT, .at = AT(output) },
    [CLI_O_SAMPLES] = { .name = "samples", .letter = 'n', .argument = "N",
        .help = "use the first N samples; default all",
        .kind = CLI_NUMBER, .at = AT(samples) },
    [CLI_O_OBSERVER] = { .name = "observer", .argument = "NAME",
        .help = "for all activations (see `qg list observers`)",
        .kind = CLI_TEXT, .at = AT(observer) },
    [CLI_O_POLICY] = { .name = "policy", .argument = "PATCH.yaml",
        .help = "changes to the backend; may be repeated",
        .kind = CLI_TEXTS, .at = AT(policy) },
    [CLI_O_SET] = { .name = "set", .argument = "'op=Conv_3 slot=in0 bits=4'",
        .help = "one change; may be repeated",
        .kind = CLI_TEXTS, .at = AT(set) },
    [CLI_O_QUIRKS] = { .name = "quirks", .argument = "NAMES",
        .help = "ppq, or names with commas (see `qg list quirks`)",
        .kind = CLI_TEXT, .at = AT(quirks) },
    [CLI_O_DISPATCHER] = { .name = "dispatcher", .argument = "NAME",
        .help = "who is quantized at all; default: what the backend says",
        .kind = CLI_CHOICE, .at = AT(dispatcher),
        .choice = { "conservative", "aggressive", "pointwise", "all-in", "perseus",
                    "pplnn" } },
    [CLI_O_DUMP_AFTER] = { .name = "dump-after", .argument = "PASS",
        .help = "write the graph as text after a pass, or `all`",
        .kind = CLI_TEXT, .at = AT(dump_after) },
    [CLI_O_DUMP_DIR] = { .name = "dump-dir", .argument = "DIR",
        .help = "where --dump-after writes; default `.`",
        .kind = CLI_TEXT, .at = AT(dump_dir) },
    [CLI_O_MODE] = { .name = "mode", .argument = "MODE",
        .help = "float or simulate; default simulate for a snapshot",
        .kind = CLI_CHOICE, .at = AT(mode),
        .choice = { "float", "simulate" } },
    [CLI_O_DUMP] = { .name = "dump", .argument = "GLOB",
        .help = "also write inner values of these names, to DIR/dump",
        .kind = CLI_TEXT, .at = AT(dump) },
    [CLI_O_LABELS] = { .name = "labels", .argument = "FILE",
        .help = ".npy of integers, one class per sample",
        .kind = CLI_TEXT, .at = AT(labels) },
    [CLI_O_BY] = { .name = "by", .argument = "WHAT",
        .help = "graph or layer; default graph",
        .kind = CLI_CHOICE, .at = AT(by),
        .choice = { "graph", "layer" } },
    [CLI_O_SUBJECT] = { .name = "by", .argument = "WHAT",
        .help = "node, endpoint or group; default node",
        .kind = CLI_CHOICE, .at = AT(subject),
        .choice = { "node", "endpoint", "group" } },
    [CLI_O_BACKENDS] = { .name = "backend", .letter = 'b', .argument = "NAME",
        .help = "of `qg list backends`, or a YAML file; may be repeated",
        .kind = CLI_TEXTS, .at = AT(backends) },
    [CLI_O_PROPOSE] = { .name = "propose", .argument = "BUDGET",
        .help = "find a policy with at most this error: 0.01, or 1%",
        .kind = CLI_TEXT, .at = AT(propose) },
    [CLI_O_AFTER] = { .name = "after", .argument = "PASS",
        .help = "as it is behind this pass of --backend",
        .kind = CLI_TEXT, .at = AT(after) },
    [CLI_O_RAISE_TO] = { .name = "raise-to", .argument = "BITS",
        .help = "of the values it chooses; default float",
        .kind = CLI_NUMBER, .at = AT(raise_to) },
    [CLI_O_PATCH] = { .name = "output", .letter = 'o', .argument = "PATCH.yaml",
        .help = "where the policy goes; default policy.yaml",
        .kind = CLI_TEXT, .at = AT(output) },
    [CLI_O_DIRECTION] = { .name = "direction", .argument = "WHICH",
        .help = "only this one rounds, or all-but it; default only",
        .kind = CLI_CHOICE, .at = AT(direction),
        .choice = { "only", "all-but" } },
    [CLI_O_METRIC] = { .name = "metric", .argument = "METRIC",
        .help = "snr, mse or cosine; default snr (noise to signal)",
        .kind = CLI_CHOICE, .at = AT(metric),
        .choice = { "snr", "mse", "cosine" } },
    [CLI_O_TOP] = { .name = "top", .argument = "N",
        .help = "show the N worst; default all",
        .kind = CLI_NUMBER, .at = AT(top) },
    [CLI_O_SHAPE] = { .name = "shape", .argument = "INPUT=1x3x224x224",
        .help = "fixes an input's shape; may be repeated",
        .kind = CLI_TEXTS, .at = AT(shape) },
    [CLI_O_JOBS] = { .name = "jobs", .letter = 'j', .argument = "N",
        .help = "threads; default one per core; results do not change",
        .kind = CLI_NUMBER, .at = AT(jobs) },
    [CLI_O_KERNELS] = { .name = "kernels", .argument = "WHICH",
        .help = "fast, or reference: same bytes on every machine",
        .kind = CLI_CHOICE, .at = AT(kernels),
        .choice = { "fast", "reference" } },
    [CLI_O_SCHEME] = { .name = "policy", .argument = "WORDS",
        .help = "default per-tensor,linear,symmetric; see below",
        .kind = CLI_TEXT, .at = AT(scheme) },
    [CLI_O_BITS] = { .name = "bits", .argument = "N",
        .help = "2 to 32; default 8",
        .kind = CLI_NUMBER, .at = AT(bits) },
    [CLI_O_EXPONENT_BITS] = { .name = "exponent-bits", .argument = "N",
        .help = "of a floating policy: 1 to 8",
        .kind = CLI_NUMBER, .at = AT(exponent_bits) },
    [CLI_O_VARIANT] = { .name = "variant", .argument = "WORDS",
        .help = "of a floating policy: fnuz, ppq-ties, mx",
        .kind = CLI_TEXT, .at = AT(variant) },
    [CLI_O_RANGE] = { .name = "range", .argument = "LOW,HIGH",
        .help = "in steps; default all of the bits, from 0 on if asymmetric",
        .kind = CLI_LIST, .at = AT(range) },
    [CLI_O_NARROW] = { .name = "narrow",
        .help = "without the lowest code",
        .kind = CLI_FLAG, .at = AT(narrow) },
    [CLI_O_AXIS] = { .name = "axis", .argument = "N",
        .help = "of per-channel and block; default 0, -1 is the last",
        .kind = CLI_INDEX, .at = AT(axis) },
    [CLI_O_BLOCK] = { .name = "block", .argument = "N",
        .help = "elements per block along the axis",
        .kind = CLI_NUMBER, .at = AT(block) },
    [CLI_O_ROUNDING] = { .name = "rounding", .argument = "MODE",
        .help = "default half-even",
        .kind = CLI_TEXT, .at = AT(rounding) },
    [CLI_O_SCALE] = { .name = "scale", .argument = "X[,X...]",
        .help = "instead of the data's own, one per parameter",
        .kind = CLI_LIST, .at = AT(scale) },
    [CLI_O_OFFSET] = { .name = "offset", .argument = "N[,N...]",
        .help = "in steps, one per scale; default 0",
        .kind = CLI_LIST, .at = AT(offset) },
    [CLI_O_FINDER] = { .name = "observer", .argument = "NAME",
        .help = "who finds the range of the data; default minmax",
        .kind = CLI_TEXT, .at = AT(observer) },
    [CLI_O_ARRAY] = { .name = "output", .letter = 'o', .argument = "OUT.npy",
        .help = "write the rounded array",
        .kind = CLI_TEXT, .at = AT(output) },
    [CLI_O_CODES] = { .name = "codes",
        .help = "write integers instead of values",
        .kind = CLI_FLAG, .at = AT(codes) },
    [CLI_O_WHOLE] = { .name = "whole",
        .help = "run the whole network once per row: same answer, slower",
        .kind = CLI_FLAG, .at = AT(whole) },
    [CLI_O_FORMAT] = { .name = "format", .argument = "FORMAT",
        .help = "see `qg list formats`",
        .kind = CLI_TEXT, .at = AT(format) },
    [CLI_O_WEIGHTS] = { .name = "weights", .argument = "HOW",
        .help = "int (default: codes) or float: how weights are written",
        .kind = CLI_TEXT, .at = AT(weights) },
    [CLI_O_PLACEMENT] = { .name = "placement", .argument = "RUNTIME",
        .help = "whose fusion rules: ort (default), trt or openvino",
        .kind = CLI_TEXT, .at = AT(placement) },
    [CLI_O_STRICT] = { .name = "strict",
        .help = "fail when the format cannot say everything",
        .kind = CLI_FLAG, .at = AT(strict) },
    [CLI_O_REPORT] = { .name = "report", .argument = "FILE",
        .help = "write what is lost; JSON when FILE ends in .json",
        .kind = CLI_TEXT, .at = AT(report) },
    [CLI_O_FILE] = { .name = "output", .letter = 'o', .argument = "FILE",
        .help = "file to write",
        .kind = CLI_TEXT, .at = AT(output) },
    [CLI_O_MODEL] = { .name = "model", .argument = "MODEL.onnx",
        .help = "the graph, for formats without one",
        .kind = CLI_TEXT, .at = AT(model) },
    [CLI_O_STATS] = { .name = "stats", .argument = "FILE.qgs",
        .help = "statistics of `qg stats collect`, instead of data",
        .kind = CLI_TEXT, .at = AT(stats) },
    [CLI_O_SLICE] = { .name = "slice", .argument = "A:B",
        .help = "only samples A to B - 1: a shard",
        .kind = CLI_TEXT, .at = AT(slice) },
    [CLI_O_CHANNELS] = { .name = "channels", .argument = "GLOB",
        .help = "values that get a histogram per channel",
        .kind = CLI_TEXT, .at = AT(channels) },
    [CLI_O_RESUME] = { .name = "resume",
        .help = "go on from FILE.part of a run that was ended",
        .kind = CLI_FLAG, .at = AT(resume) },
    [CLI_O_MEMORY] = { .name = "max-mem", .argument = "SIZE",
        .help = "bytes, or with K, M, G: fewer workers when it is short",
        .kind = CLI_TEXT, .at = AT(memory) },
    [CLI_O_JSON] = { .name = "json", .common = true,
        .help = "answer as JSON",
        .kind = CLI_FLAG, .at = AT(json) },
    [CLI_O_VERBOSE] = { .name = "verbose", .common = true, .letter = 'v',
        .help = "say more on stderr; -vv says everything",
        .kind = CLI_COUNT, .at = AT(verbose) },
    [CLI_O_CONFIG_DIR] = { .name = "config-dir", .common = true, .argument = "DIR",
        .help = "where backends/ and pipelines/ are",
        .kind = CLI_TEXT, .at = AT(config_dir) },
    [CLI_O_HELP] = { .name = "help", .common = true, .letter = 'h',
        .help = "this page",
        .kind = CLI_FLAG, .at = AT(help) },
};
/* clang-format on */

int cli_fail(const cli_verb *verb, const char *message)
{
    size_t n = verb ? strlen(verb->name) : 0;
    bool said = n && strncmp(message, verb->name, n) == 0 && message[n] == ':';
    (void)fprintf(stderr, "qg: %s%s%s\n", verb && !said ? verb->name : "",
                  verb && !said ? ": " : "", message);
    return CLI_FAILED;
}

int cli_usage(const cli_verb *verb, const char *fmt, ...)
{
    va_list args;
    (void)fprintf(stderr, "qg: %s%s", verb ? verb->name : "", verb ? ": " : "");
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
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

/* The verb whose option of this name takes the value; NULL: none does. */
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

/* A word with a dash is an option, unless the option before it takes numbers. */
static bool can_be_value(const cli_option *o, const char *word)
{
    bool numbers = o->kind == CLI_LIST || o->kind == CLI_INDEX;
    return word[0] != '-' || !word[1] || (numbers && strchr("0123456789.", word[1]));
}

/* value: what stood behind '=' or the letter; NULL: nothing, look at the next word. */
static int take(reader *r, int id, const char *value)
{
    const cli_option *o = &cli_options[id];
    bool repeats = o->kind == CLI_TEXTS || o->kind == CLI_COUNT;
    bool bare = o->kind == CLI_FLAG || o->kind == CLI_COUNT;
    if (!repeats && r->seen[id])
        return cli_usage(r->verb, "--%s stands twice, expected once", o->name);
    r->seen[id] = true;
    if (bare && value)
        return cli_usage(r->verb, "--%s takes no value", o->name);
    if (!bare && !value) {
        const char *next = r->next < r->argc ? r->argv[r->next] : NULL;
        if (!next || !can_be_value(o, next))
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
        return cli_usage(v, "'%s' is one word too many, expected %s",
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
