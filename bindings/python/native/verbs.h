/* verbs.h -- the verbs of the command `qg` as calls: the same tables of verbs and
 * options, with models and samples of the caller instead of files.
 *
 * Part of the Python package's library, which contains libqg and this.
 *
 *     const char *argv[] = { "analyse", "(model)", "--data", "(arrays)" };
 *     const qg_verb_model lent = { argv[1], snapshot };
 *     qg_verb_call c = { .argv = argv, .argc = 4, .lent = &lent, .n_lent = 1,
 *                        .source = &feeds, .data = argv[3] };
 *     qg_status s = qg_verb_run(ctx, &c);          // then c.report, qg_report_free */
#ifndef QG_BINDINGS_PYTHON_NATIVE_VERBS_H
#define QG_BINDINGS_PYTHON_NATIVE_VERBS_H

#include "qg.h"

/* A row of the table of verbs; all texts are constants. */
typedef struct qg_verb_record {
    const char *name, *summary;
    const char *files;         /* the words after the verb: "SNAPSHOT NAME" */
    size_t min_file, max_file; /* how many of them; SIZE_MAX: any number */
    const char *about;         /* more, for its help; or NULL */
    const char *example;       /* a command line */
} qg_verb_record;

/* What an option's value is, and how often it is given. */
typedef enum qg_verb_kind {
    QG_VERB_TEXT,
    QG_VERB_TEXTS, /* may be repeated */
    QG_VERB_NUMBER,
    QG_VERB_FLAG /* no value */
} qg_verb_kind;

typedef struct qg_verb_option {
    const char *name, *argument, *help; /* "samples", "N" (flags: NULL), one line */
    qg_verb_kind kind;
    bool required;
    const char *const *choice; /* [n_choice]; none: any text */
    size_t n_choice;
} qg_verb_option;

/* Verb i; option k of verb i, without those that concern printing or the context (every
 * verb has them: --json, --max-mem).  False after the last one. */
QG_API bool qg_verb_get(size_t i, qg_verb_record *out);
QG_API bool qg_verb_option_get(size_t i, size_t k, qg_verb_option *out);

/* A model that stands for a word of argv.  The word is compared by address. */
typedef struct qg_verb_model {
    const char *word;
    qg_model *model;
} qg_verb_model;

/* One run.  argv: the verb, then files and options as on the command line, "--name" and
 * its value as two words; all borrowed for the call. */
typedef struct qg_verb_call {
    const char *const *argv; /* [argc] */
    size_t argc;
    const qg_verb_model *lent; /* [n_lent], of the same context */
    size_t n_lent;
    const qg_source *source; /* the samples of --data, with `data` as its word */
    const char *data;
    qg_progress progress; /* step NULL: none */
    qg_report *report;    /* written; the caller's to free; NULL: none */
    /* written by verbs that write a snapshot, whose --output may be left out; the
     * caller's to close unless it is one of `lent`; NULL: none */
    qg_model *made;
    int exit; /* written: the exit status of the command (3: differences) */
} qg_verb_call;

/* The message of a failure is that of the context.  A wrong option or word is
 * QG_ECONFIG.  Differences that a verb has found are no failure. */
QG_NODISCARD QG_API qg_status qg_verb_run(qg_ctx *ctx, qg_verb_call *c);

#endif
