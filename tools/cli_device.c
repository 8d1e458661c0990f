/* cli_device.c -- verbs that compare with the outputs of a device: trace, diverge, fit,
 * probe. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

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
