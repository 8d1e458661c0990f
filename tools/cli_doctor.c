/* cli_doctor.c -- what may be wrong with calibration data. */
#include "tools/cli.h"

/* The model is the last file, so that this also serves as a word of another verb. */
int cli_doctor(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_doctor_options o;
    qg_doctor_options_init(&o);
    o.data = a->data;
    o.samples = a->samples;
    o.jobs = (unsigned)a->jobs;
    o.progress = cli_progress(c->bar);
    qg_status s = cli_open(c, a->file.at[a->file.n - 1], &m);
    if (s == QG_OK)
        s = qg_model_doctor(m, &o, &r);
    int status = s == QG_OK ? cli_answer(c, r) : cli_failed(c);
    qg_model_close(m);
    return status;
}
