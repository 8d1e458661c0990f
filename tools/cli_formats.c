/* cli_formats.c -- export and import of other tools' files.
 *
 *     qg export snapshot --format onnx-qdq -o model.qdq.onnx      cli_export
 *     qg import model.qdq.onnx --format onnx-qdq -o snapshot      cli_import
 *     qg import-backend htp.json --format aimet -o htp.yaml       cli_import_backend
 *
 * Words of options are passed on as they are: the library checks them against the
 * format, so that the message is the same from every host language. */
#include "cli.h"

qg_status cli_export(const cli_call *c, qg_model *m, qg_report **r)
{
    const cli_arguments *a = c->args;
    qg_format_options o;
    qg_format_options_init(&o, sizeof o);
    o.format = a->format;
    o.weights = a->weights;
    o.placement = a->placement;
    o.float_type = a->float_type;
    o.version = a->version;
    o.names = a->names;
    o.analysis = a->analysis;
    o.quirks = a->quirks;
    o.strict = a->strict;
    o.report = a->report;
    return qg_model_export(m, &o, a->output, r);
}

/* The output folder is checked first: reading a large file may take minutes. */
int cli_import(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_model *m = NULL;
    qg_report *r = NULL;
    const char *fault = cli_save_fault(c);
    if (fault)
        return cli_refuse_output(c, fault);
    qg_import_options o;
    qg_import_options_init(&o, sizeof o);
    o.format = a->format;
    o.model = a->model;
    o.names = a->names;
    o.strict = a->strict;
    qg_status s = qg_model_import(c->ctx, a->file.at[0], &o, &m, &r);
    if (s == QG_OK)
        s = cli_save(c, m);
    int status = cli_answer(c, s, r);
    cli_close(c, m);
    return status;
}

int cli_import_backend(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_report *r = NULL;
    qg_status s = qg_import_backend(c->ctx, a->file.at[0], a->format, a->output, &r);
    return cli_answer(c, s, r);
}
