/* cli_laboratory.c -- verbs for experiments: sensitivity, price, compare, tune,
 * search, switch. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* "0.01" or "1%", below 1e9; false for anything else, also with blanks, which strtod
 * skips. */
static bool read_budget(const char *text, double *out)
{
    char *end;
    double x = strtod(text, &end);
    bool percent = strcmp(end, "%") == 0;
    *out = percent ? x / 100 : x;
    return end != text && !isspace((unsigned char)*text) && (percent || !*end) &&
           x >= 0 && x < 1e9;
}

/* Where a policy goes without --output. */
#define POLICY "policy.yaml"

/* A file of that name which no verb of qg wrote: it is not replaced unasked. */
static bool has_foreign_policy(const cli_call *c)
{
    static const char own[] = "# qg ";
    char first[sizeof own] = "";
    FILE *f = c->args->output ? NULL : fopen(POLICY, "rb");
    if (!f)
        return false;
    size_t n = fread(first, 1, sizeof own - 1, f);
    (void)fclose(f);
    return n != sizeof own - 1 || strcmp(first, own) != 0;
}

static int refuse_policy(const cli_call *c)
{
    return cli_usage(c->verb, POLICY " is there and not a file of qg, expected "
                                     "--output FILE");
}

static qg_status ask_sensitivity(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.by = a->subject;
    o.direction = a->direction;
    o.metric = a->metric;
    o.top = a->top;
    o.whole = a->whole;
    if (a->propose) {
        (void)read_budget(a->propose, &o.proposal.budget); /* checked below */
        o.proposal.patch = a->output ? a->output : POLICY;
        o.proposal.bits = (unsigned)a->raise_to;
        o.proposal.backend = a->backend;
        o.holdout = a->holdout;
        o.labels = a->labels;
    }
    return qg_model_sensitivity(m, &o, r);
}

int cli_sensitivity(const cli_call *c)
{
    const cli_arguments *a = c->args;
    double budget;
    if (a->propose && !read_budget(a->propose, &budget))
        return cli_usage(c->verb, "--propose: '%s', expected a number like 0.01 or 1%%",
                         a->propose);
    const char *lonely = a->output     ? "output"
                         : a->raise_to ? "raise-to"
                         : a->backend  ? "backend"
                         : a->holdout  ? "holdout"
                         : a->labels   ? "labels"
                                       : NULL;
    if (!a->propose && lonely)
        return cli_usage(c->verb, "--%s requires --propose", lonely);
    if (a->propose && has_foreign_policy(c))
        return refuse_policy(c);
    return cli_ask(c, a->file.at[0], ask_sensitivity);
}

qg_status cli_compare(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_compare_options o;
    qg_compare_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.backend = a->backends.at;
    o.n_backend = a->backends.n;
    o.policy = a->policy.at;
    o.n_policy = a->policy.n;
    o.stats = a->stats;
    o.observer = a->observer;
    o.metric = a->metric;
    o.holdout = a->holdout;
    o.labels = a->labels;
    o.mode = a->mode;
    o.profile = a->profile;
    return qg_model_compare(m, &o, r);
}

qg_status cli_price(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_price_options o;
    qg_price_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.metric = c->args->metric;
    return qg_model_price(m, &o, r);
}

/* Whether there is a finding of the level of --fail-on, or above it. */
static bool has_findings(const cli_arguments *a, const qg_report *r)
{
    static const char *const level[] = { "error", "warning", "note" };
    static const char *const fact[] = { "errors", "warnings", "notes" };
    for (size_t i = 0; i < sizeof level / sizeof *level; i++) {
        double n = 0;
        if (qg_report_number(r, fact[i], &n) && n > 0)
            return true;
        if (a->fail_on && strcmp(a->fail_on, level[i]) == 0)
            return false;
    }
    return false;
}

int cli_lint(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_lint_options o;
    if (a->output && !a->fix)
        return cli_usage(c->verb, "--output requires --fix");
    if (a->fix && has_foreign_policy(c))
        return refuse_policy(c);
    qg_lint_options_init(&o, sizeof o);
    o.target = a->target;
    o.sarif = a->sarif;
    o.patch = !a->fix ? NULL : a->output ? a->output : POLICY;
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_lint(m, &o, &r);
    bool any = r && has_findings(a, r);
    int status = cli_answer(c, s, r);
    cli_close(c, m);
    return status == CLI_OK && any ? CLI_FINDINGS : status;
}

int cli_report(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL, *against = NULL;
    qg_report *r = NULL;
    qg_webpage_options o;
    qg_webpage_options_init(&o, sizeof o);
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK && a->against)
        s = cli_open(c, a->against, &against);
    o.work = cli_workload(c);
    o.against = against;
    o.labels = a->labels;
    o.target = a->target;
    o.output = a->output;
    if (s == QG_OK)
        s = qg_model_webpage(m, &o, &r);
    int status = cli_answer(c, s, r);
    cli_close(c, m);
    cli_close(c, against);
    return status;
}

char *cli_checkpoint_of(const char *output)
{
    size_t n = strlen(output);
    while (n > 1 && output[n - 1] == '/')
        n--;
    char *path = malloc(n + sizeof ".part");
    if (path)
        (void)snprintf(path, n + sizeof ".part", "%.*s.part", (int)n, output);
    return path;
}

/* The snapshot is written in any case: where nothing helped it is the start. */
static qg_status ask_tune(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.method = a->method;
    o.block = a->block_name;
    o.gradient = a->gradient;
    o.optimizer = a->optimizer;
    o.loss = a->loss;
    o.labels = a->labels;
    o.holdout = a->holdout;
    o.qdrop = a->qdrop;
    o.no_mixup = a->no_mixup;
    o.steps = a->steps;
    o.seed = a->seed;
    if (a->rate)
        (void)read_budget(a->rate, &o.rate); /* checked below */
    char *part =
        a->output ? cli_checkpoint_of(a->output) : NULL; /* Python needs no file */
    if (a->output && !part)
        return QG_ENOMEM;
    o.checkpoint = part;
    qg_status s = qg_model_tune(m, &o, r);
    if (s == QG_OK)
        s = cli_save(c, m);
    if (s == QG_OK && part)
        qg_tune_forget(c->ctx, part);
    free(part);
    return s;
}

int cli_tune(const cli_call *c)
{
    const cli_arguments *a = c->args;
    double rate = 1;
    if (a->rate && !(read_budget(a->rate, &rate) && rate > 0))
        return cli_usage(c->verb, "--lr: '%s', expected a number above 0 and below 1e9",
                         a->rate);
    const char *fault = cli_save_fault(c);
    if (!fault && a->output && cli_same_place(a->file.at[0], a->output))
        fault = "it is the snapshot that is tuned, expected another folder";
    if (fault)
        return cli_refuse_output(c, fault);
    return cli_ask_and_name(c, ask_tune);
}

static qg_status ask_search(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_search_options o;
    qg_search_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.budget = a->budget;
    o.choices = a->choices;
    o.estimate = a->estimate;
    o.patch = a->output ? a->output : c->host ? NULL : POLICY;
    o.backend = a->backend;
    o.holdout = a->holdout;
    return qg_model_search(m, &o, r);
}

static qg_status ask_rules(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_rules_options o;
    qg_rules_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.backend = a->backend;
    o.policy = a->policy.at;
    o.n_policy = a->policy.n;
    o.observer = a->observer;
    o.holdout = a->holdout;
    return qg_model_search_rules(m, &o, r);
}

int cli_search(const cli_call *c)
{
    const cli_arguments *a = c->args;
    const char *lonely = a->budget     ? "budget"
                         : a->choices  ? "choices"
                         : a->estimate ? "estimate"
                         : a->output   ? "output"
                                       : NULL;
    if (a->over && lonely)
        return cli_usage(c->verb, "--over rules does not take --%s", lonely);
    if (a->over && !a->backend)
        return cli_usage(c->verb, "--over rules takes MODEL.onnx and requires its "
                                  "--backend");
    if (!a->over && !a->budget)
        return cli_usage(c->verb, "--budget (of a snapshot) or --over rules (of a "
                                  "model) is required");
    if (!a->over && (a->policy.n || a->observer))
        return cli_usage(c->verb, "--%s requires --over: a snapshot has its own",
                         a->policy.n ? "policy" : "observer");
    if (!a->over && !c->host && has_foreign_policy(c)) /* a host needs no file */
        return refuse_policy(c);
    return cli_ask(c, a->file.at[0], a->over ? ask_rules : ask_search);
}

int cli_switch(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    size_t total = 0;
    const char *fault = cli_save_fault(c);
    if (fault)
        return cli_refuse_output(c, fault);
    qg_status s = cli_open(c, a->file.at[0], &m);
    for (size_t i = 0; s == QG_OK && i < a->set.n; i++) {
        size_t changed = 0;
        s = qg_model_switch(m, a->set.at[i], &changed);
        total += changed;
    }
    if (s == QG_OK)
        s = cli_save(c, m);
    if (s == QG_OK && a->json && !c->host)
        (void)printf("{\n  \"report\": \"switch\",\n  \"changed\": %zu\n}\n", total);
    else if (s == QG_OK && !c->host) {
        (void)printf("changed  %zu endpoints\nwritten  ", total);
        cli_print(stdout, a->output);
        (void)putchar('\n');
    }
    int status = cli_answer(c, s, NULL);
    cli_close(c, m);
    return status;
}
