/* cli.h -- the command line: one table of verbs, one table of options.
 *
 * Reading    options and files in any order; `--name value`, `--name=value`,
 *            `-n value`, `-n5`; `--` ends options.  An option that the verb does not
 *            take, a missing or wrong value, and a repeated option are usage errors.
 * Exit       0 done; 1 failed; 2 usage; 3 done, and something was found (`diff`,
 *            `lint`).  Verbs for a build (cli_verb.judges: `diverge`, `conformance`)
 *            exit with 1 for what 3 is elsewhere, and with 4 when they failed
 * Output     answers on stdout, everything else on stderr as "qg: VERB: MESSAGE"
 * Includes   the installed qg.h and the C library only: the command line uses the same
 *            functions as other programs.
 *
 * A verb is a row in cli_verbs[]: its name, the options it takes and requires, and the
 * function that calls the library.  Most verbs report on one model: their function
 * receives the opened model and makes a report; cli_ask opens, prints and closes.  An
 * option is an id in CLI_OPTION_MAP, a row in cli_options[], and a member of
 * cli_arguments; parsing, --help and the test of the help page use the tables. */
#ifndef QG_TOOLS_CLI_H
#define QG_TOOLS_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>

#include "qg.h"

/* Exit statuses, stable: scripts test them. */
enum {
    CLI_OK,
    CLI_FAILED,
    CLI_USAGE,
    CLI_FINDINGS,
    CLI_NOT_JUDGED,
    CLI_SIGNAL = 128 /* plus the number of the signal: 130 Ctrl-C, 143 SIGTERM */
};

/* Values of a repeatable option, in order. */
typedef struct cli_words {
    const char **at; /* room for every word of the command line */
    size_t n;
} cli_words;

/* The parsed command line; texts are borrowed from argv. */
typedef struct cli_arguments {
    cli_words file; /* without a dash, in order */
    cli_words policy, set, shape, backends;
    const char *backend, *data, *output, *observer, *quirks, *mode, *dump, *curve,
        *dump_after, *dump_dir, *by, *subject, *direction, *propose, *after, *metric,
        *labels, *holdout, *dispatcher, *kernels, *config_dir, *profile, *require;
    size_t samples, top, jobs;
    const char *scheme, *variant, *range, *rounding, *scale, *offset;
    size_t bits, exponent_bits, block, raise_to;
    int axis; /* INT_MIN: not given */
    const char *format, *weights, *placement, *float_type, *version, *names, *analysis,
        *report, *model;
    const char *stats, *slice, *channels;
    const char *target, *sarif, *fail_on;
    const char *select, *against, *between, *from, *method, *block_name, *rate,
        *gradient, *optimizer, *loss, *budget, *choices, *estimate, *over;
    size_t seed, steps, max_mem, max_nodes, max_ratio;
    bool end_to_end, fix, qdrop, no_mixup;
    bool resume, any_kernels;
    bool narrow, codes, whole, strict, plot;
    bool json, all, help;
    size_t verbose;
} cli_arguments;

/* Type of the member of cli_arguments that an option fills. */
enum cli_kind {
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* cli_words: may be repeated */
    CLI_NUMBER, /* size_t, from 1 on */
    CLI_BYTES,  /* size_t, from 1 on: 900M, 2G */
    CLI_INDEX,  /* int; negative counts from the end */
    CLI_LIST,   /* const char *: numbers with commas, so it may begin with a minus */
    CLI_CHOICE, /* const char *, one of `choice` */
    CLI_FLAG,   /* bool */
    CLI_COUNT   /* size_t: number of occurrences */
};

/* A row of the option table: its syntax and the destination of its value. */
typedef struct cli_option {
    /* "samples", "N", one line; argument "": a flag */
    const char *name, *argument, *help;
    char letter; /* 0: none */
    bool common; /* every verb takes it */
    enum cli_kind kind;
    size_t at; /* offset in cli_arguments */
    const char *choice[7];
} cli_option;

/* clang-format off */
#define CLI_OPTION_MAP(X)                                                      \
    X(BACKEND) X(DATA) X(SNAPSHOT) X(FOLDER) X(SAMPLES) X(OBSERVER) X(POLICY)  \
    X(SET) X(QUIRKS) X(DISPATCHER) X(DUMP_AFTER) X(DUMP_DIR) X(MODE) X(DUMP)   \
    X(ROUNDED_MODE) X(SWITCH)                                                  \
    X(PROFILE) X(REQUIRE)                                                      \
    X(LABELS) X(HOLDOUT) X(JUDGES) X(BY) X(METRIC) X(TOP) X(SHAPE) X(JOBS)     \
    X(KERNELS)                                                                 \
    X(SCHEME) X(BITS) X(EXPONENT_BITS) X(VARIANT) X(RANGE) X(NARROW) X(AXIS)   \
    X(BLOCK) X(ROUNDING) X(SCALE) X(OFFSET) X(FINDER) X(ARRAY) X(CODES)        \
    X(SUBJECT) X(DIRECTION) X(WHOLE) X(BACKENDS) X(PROPOSE) X(RAISE_TO)        \
    X(PATCH) X(AFTER) X(CURVE)                                                 \
    X(SELECT) X(AGAINST) X(END_TO_END) X(BETWEEN) X(FROM) X(SEED) X(TRACE) X(YAML)     \
    X(METHOD) X(STEPS) X(RATE) X(GRADIENT) X(OPTIMIZER) X(BLOCK_NAME) X(LOSS) X(QDROP) \
    X(NO_MIXUP)                                                                \
    X(BUDGET) X(CHOICES) X(ESTIMATE) X(OVER)                                   \
    X(STATS) X(SLICE) X(CHANNELS) X(RESUME) X(ANY_KERNELS)                     \
    X(FORMAT) X(WEIGHTS) X(PLACEMENT) X(FLOAT) X(STRICT) X(REPORT) X(FILE)     \
    X(FORMAT_VERSION) X(NAMES) X(ANALYSIS)                                     \
    X(MODEL) X(TARGET) X(SARIF) X(FIX) X(FAIL_ON) X(SECOND) X(PAGE) X(PLOT)            \
    X(JSON) X(ALL) X(VERBOSE) X(CONFIG_DIR) X(MAX_MEM) X(MAX_NODES)            \
    X(MAX_RATIO) X(HELP)
/* clang-format on */
enum cli_option_id {
#define X(id) CLI_O_##id,
    CLI_OPTION_MAP(X)
#undef X
        CLI_N_OPTION
};

/* Use of an option by a verb. */
enum cli_use { CLI_REFUSES, CLI_TAKES, CLI_NEEDS };

extern const cli_option cli_options[CLI_N_OPTION];

typedef struct cli_call cli_call;

/* Reports on an opened model; *r stays NULL when there is nothing to print. */
typedef qg_status cli_question(const cli_call *c, qg_model *m, qg_report **r);

/* A row of the verb table: the contents of `qg VERB --help`, and the function to
 * run. */
typedef struct cli_verb {
    const char *name, *summary;
    const char *files;         /* "MODEL.onnx"; "" for none */
    size_t min_file, max_file; /* SIZE_MAX: any number */
    uint8_t use[CLI_N_OPTION]; /* enum cli_use; read with cli_use_of */
    const char *about;         /* more for --help; may be NULL */
    const char *example;
    cli_question *ask;             /* for the model given as first file; or */
    int (*run)(const cli_call *c); /* returns an exit status */
    bool judges;                   /* main exits with 1 for CLI_FINDINGS, with
                                      CLI_NOT_JUDGED for CLI_FAILED */
    FILE *err; /* of a copy of the row in another program: bare messages; else NULL */
} cli_verb;

/* A line on stderr that is overwritten during the work; with -v lines now and then
 * where stderr is no terminal. */
typedef struct cli_bar {
    bool terminal;      /* stderr is one */
    bool shown;         /* a line is on the terminal */
    size_t done, total; /* displayed progress */
    char stage[16];     /* displayed; began at `since` seconds with `first` done */
    size_t first;
    double since;
    bool verbose; /* lines where stderr is no terminal; the last one at `told` */
    double told;
} cli_bar;

/* A model that stands for a word of argv, compared by address. */
typedef struct cli_lent {
    const char *word;
    qg_model *model;
} cli_lent;

/* A verb that runs inside another program (bindings/python/native/verbs.c), which lends
 * it models and samples, and takes what the command would print or save. */
typedef struct cli_host {
    const cli_lent *lent; /* [n_lent] */
    size_t n_lent;
    const qg_source *source; /* the samples that --data stands for; NULL: read DATA */
    const char *data;        /* the word of argv that stands for them */
    qg_progress progress;
    qg_status status;  /* of the work; its message is that of the context */
    qg_report *report; /* the answer; NULL: none */
    qg_model *made;    /* instead of a saved snapshot; may be one that was lent */
} cli_host;

/* One run of a verb.
 * All borrowed; ctx is closed by main. */
struct cli_call {
    const cli_verb *verb;
    const cli_arguments *args;
    qg_ctx *ctx;
    cli_bar *bar;
    cli_host *host; /* NULL: the command */
};

extern const cli_verb cli_verbs[]; /* ends with a row whose name is NULL */
/* NULL when there is no such verb. */
const cli_verb *cli_verb_named(const char *name);
/* Common options are taken by every verb. */
enum cli_use cli_use_of(const cli_verb *verb, int option);

/* argv without program and verb.  CLI_USAGE after a message; a->*.at are the caller's
 * to free (cli_arguments_free), also then. */
int cli_parse(const cli_verb *verb, int argc, char **argv, cli_arguments *a);
void cli_arguments_free(cli_arguments *a);

/* --- shared by verbs --- */

/* When s is QG_OK the report (NULL: nothing) as text or JSON on stdout, else the
 * context's message on stderr.  Frees r.  Returns the exit status. */
int cli_answer(const cli_call *c, qg_status s, qg_report *r);
/* Opens a model or snapshot with the shapes of the command line. */
QG_NODISCARD qg_status cli_open(const cli_call *c, const char *path, qg_model **out);
/* Closes a model of cli_open unless a host has it; NULL is fine. */
void cli_close(const cli_call *c, qg_model *m);
/* Saves a snapshot to --output, or gives it to the host, which may leave out --output.
 * NULL or a fault of the folder: cli_snapshot_fault. */
QG_NODISCARD qg_status cli_save(const cli_call *c, qg_model *m);
const char *cli_save_fault(const cli_call *c);
/* Opens the model, calls the question, prints the answer and closes the model.  Returns
 * the exit status. */
int cli_ask(const cli_call *c, const char *path, cli_question *ask);
/* Of the first file; after the answer the line "written: OUTPUT". */
int cli_ask_and_name(const cli_call *c, cli_question *ask);
/* Below the page of r: a table of errors, causes or bins as bars. */
void cli_plot(const qg_report *r);
/* Prints completion for a shell, or the manual page. */
int cli_completion(const cli_call *c);
/* "output 'PATH': cannot be written: FAULT". */
int cli_refuse_output(const cli_call *c, const char *fault);

/* Prints text that can hold names from files: control characters except newline and
 * tab, and bytes that are not UTF-8, become \xNN, so that no name reaches the terminal
 * as a command. */
void cli_print(FILE *f, const char *text);
/* As vsnprintf, but where the text does not fit, each %s is cut to 128 bytes, so that
 * what is expected is not cut off by the name or value before it. */
void cli_message(char *text, size_t size, const char *fmt, va_list args);

/* --- verbs of cli_formats.c and cli_stats.c --- */
cli_question cli_export;
int cli_import(const cli_call *c);
int cli_import_backend(const cli_call *c);
int cli_stats(const cli_call *c);

/* Options shared by several verbs. */
qg_workload cli_workload(const cli_call *c);
void cli_quantize_options(const cli_call *c, qg_quantize_options *o);

/* --- verbs of cli_laboratory.c --- */
int cli_sensitivity(const cli_call *c);
int cli_tune(const cli_call *c);
int cli_search(const cli_call *c);
cli_question cli_compare, cli_price;
int cli_lint(const cli_call *c);
int cli_report(const cli_call *c);
int cli_switch(const cli_call *c);

/* --- verbs of cli_device.c --- */

/* By its name: an .npz, or a folder with trace.json. */
bool cli_is_trace(const char *path);
int cli_trace(const cli_call *c);
int cli_diverge(const cli_call *c);
int cli_fit(const cli_call *c);
int cli_probe(const cli_call *c);
int cli_infer_backend(const cli_call *c);

/* "qg: VERB: MESSAGE" on stderr; returns CLI_FAILED or CLI_USAGE (which points to
 * --help). */
int cli_fail(const cli_verb *verb, const char *message);
int cli_usage(const cli_verb *verb, const char *fmt, ...) QG_PRINTF(2, 3);

void cli_help(const cli_verb *verb); /* NULL: all verbs */

/* Draws the bar when stderr is a terminal.  From then on the first Ctrl-C (SIGINT) or
 * SIGTERM ends the work at its next step, and a second one ends the process; a process
 * started with the signal ignored continues to ignore it. */
qg_progress cli_progress(cli_bar *bar);
int cli_interrupted(void);        /* the exit status of a first one; 0: none */
void cli_bar_clear(cli_bar *bar); /* call before writing anything else */

/* Checks that the folder exists and is writable, or can be created with its parents;
 * leaves no files behind.  NULL, or the error. */
const char *cli_folder_fault(const char *path);

/* Checks that a snapshot may be written there: a folder with a model.onnx that is not a
 * snapshot is not overwritten.  NULL, or the error. */
const char *cli_snapshot_fault(const char *path);
/* "OUT.part" beside the output, the checkpoints of tune; the caller frees it; NULL: no
 * memory. */
char *cli_checkpoint_of(const char *output);
/* Whether both exist and are the same file or folder. */
bool cli_same_place(const char *a, const char *b);

/* Runs the verb, in the locale C: numbers have a decimal point wherever the host of
 * bindings has a comma.  Refuses to write a file which the verb reads. */
int cli_run(const cli_call *c);

#endif
