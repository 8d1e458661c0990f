/* cli_device.c -- verbs that compare with the outputs of a device: trace, diverge, fit,
 * probe, infer-backend. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* By the name of an archive, or by the file that describes a folder of arrays; contents
 * are not read. */
bool cli_is_trace(const char *path)
{
    char file[4096];
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".npz") == 0)
        return true;
    (void)snprintf(file, sizeof file, "%s/trace.json", path);
    FILE *f = fopen(file, "rb");
    if (f)
        (void)fclose(f);
    return f != NULL;
}

/* qg trace SNAPSHOT -d DATA -o TRACE: the simulator's own tensors as a device's
 * trace. */
static qg_status write_trace(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_trace_options o;
    qg_trace_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.mode = c->args->mode;
    o.profile = c->args->profile;
    o.select = c->args->select;
    return qg_model_trace(m, &o, c->args->output, r);
}

int cli_trace(const cli_call *c)
{
    return cli_ask(c, c->args->file.at[0], write_trace);
}

/* The options that diverge and fit share.  --top is the number of nodes to explain. */
static void diverge_options(const cli_call *c, qg_diverge_options *o)
{
    qg_diverge_options_init(o, sizeof *o);
    o->work = cli_workload(c);
    o->profile = c->args->profile;
    o->end_to_end = c->args->end_to_end;
    o->explain = c->args->top;
}

/* The report is printed whether or not anything differs. */
int cli_diverge(const cli_call *c)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_diverge_options o;
    double differing = 0;
    diverge_options(c, &o);
    qg_status s = cli_open(c, c->args->file.at[0], &m);
    if (s == QG_OK)
        s = qg_model_diverge(m, &o, c->args->against, &r);
    bool same =
        s == QG_OK && qg_report_number(r, "differing", &differing) && differing == 0;
    int status = cli_answer(c, s, r);
    cli_close(c, m);
    return status == CLI_OK && !same ? CLI_FINDINGS : status;
}

/* --output is the profile to write; none: the report alone. */
static qg_status fit(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_diverge_options o;
    diverge_options(c, &o);
    return qg_model_fit(m, &o, c->args->against, c->args->output, r);
}

int cli_fit(const cli_call *c) { return cli_ask(c, c->args->file.at[0], fit); }

/* --output receives the samples that tell the profiles of --between apart. */
static qg_status probe(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_probe_options o;
    qg_probe_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.between = c->args->between;
    o.seed = c->args->seed;
    return qg_model_probe(m, &o, c->args->output, r);
}

int cli_probe(const cli_call *c) { return cli_ask(c, c->args->file.at[0], probe); }

/* --output is the backend file to write; none: the report alone. */
static qg_status infer_backend(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_infer_options o;
    qg_infer_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    o.from = c->args->from;
    return qg_model_infer_backend(m, &o, c->args->against, c->args->output, r);
}

int cli_infer_backend(const cli_call *c)
{
    return cli_ask(c, c->args->file.at[0], infer_backend);
}
