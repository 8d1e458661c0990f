/* cli_laboratory.c -- verbs that ask what could be: sensitivity, price, compare,
 * switch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

/* "0.01" or "1%"; false for anything else. */
static bool read_budget(const char *text, double *out)
{
    char *end;
    double x = strtod(text, &end);
    bool percent = strcmp(end, "%") == 0;
    *out = percent ? x / 100 : x;
    return end != text && (percent || !*end) && x >= 0 && x < 1e9;
}

int cli_sensitivity(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o);
    o.data = a->data;
    o.samples = a->samples;
    o.by = a->subject;
    o.direction = a->direction;
    o.metric = a->metric;
    o.top = a->top;
    o.whole = a->whole;
    o.jobs = (unsigned)a->jobs;
    o.progress = cli_progress(c->bar);
    if (a->propose) {
        o.proposal.patch = a->output ? a->output : "policy.yaml";
        o.proposal.bits = (unsigned)a->raise_to;
        o.proposal.backend = a->backend;
        if (!read_budget(a->propose, &o.proposal.budget))
            return cli_usage(c->verb,
                             "--propose: '%s', expected a number like 0.01 or 1%%",
                             a->propose);
    } else if (a->output || a->raise_to || a->backend) {
        return cli_usage(c->verb, "--%s goes with --propose",
                         a->output     ? "output"
                         : a->raise_to ? "raise-to"
                                       : "backend");
    }
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_sensitivity(m, &o, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

int cli_compare(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_compare_options o;
    qg_compare_options_init(&o);
    o.backend = a->backends.at;
    o.n_backend = a->backends.n;
    o.policy = a->policy.at;
    o.n_policy = a->policy.n;
    o.data = a->data;
    o.stats = a->stats;
    o.samples = a->samples;
    o.observer = a->observer;
    o.metric = a->metric;
    o.jobs = (unsigned)a->jobs;
    o.progress = cli_progress(c->bar);
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_compare(m, &o, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

int cli_price(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_price_options o;
    qg_price_options_init(&o);
    o.data = a->data;
    o.samples = a->samples;
    o.metric = a->metric;
    o.jobs = (unsigned)a->jobs;
    o.progress = cli_progress(c->bar);
    qg_status s = cli_open(c, a->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_price(m, &o, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}

int cli_switch(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    size_t total = 0;
    const char *fault = cli_snapshot_fault(a->output);
    if (fault)
        return cli_refuse_output(c, fault);
    qg_status s = cli_open(c, a->file.at[0], &m);
    for (size_t i = 0; s == QG_OK && i < a->set.n; i++) {
        size_t changed = 0;
        s = qg_model_switch(m, a->set.at[i], &changed);
        total += changed;
    }
    if (s == QG_OK)
        s = qg_model_save(m, a->output);
    if (s == QG_OK && a->json)
        (void)printf("{\n  \"report\": \"switch\",\n  \"changed\": %zu\n}\n", total);
    else if (s == QG_OK)
        (void)printf("changed  %zu endpoints\nwritten  %s\n", total, a->output);
    qg_model_close(m);
    return s == QG_OK ? CLI_OK : cli_failed(c);
}
