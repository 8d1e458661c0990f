/* cli_stats.c -- qg stats: collect, merge, show, derive, doctor. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Digits only: strtoull would take blanks and signs. */
static bool number(const char *s, size_t n, uint64_t *out)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || x > (UINT64_MAX - 9) / 10)
            return false;
        x = x * 10 + (uint64_t)(s[i] - '0');
    }
    *out = x;
    return n > 0;
}

/* "64:128" */
static int take_slice(const cli_call *c, qg_stats_options *o)
{
    const char *text = c->args->slice, *colon = text ? strchr(text, ':') : NULL;
    if (!text)
        return CLI_OK;
    if (!colon || !number(text, (size_t)(colon - text), &o->first) ||
        !number(colon + 1, strlen(colon + 1), &o->end) || o->first >= o->end)
        return cli_usage(c->verb, "--slice '%s': expected A:B with A below B", text);
    return CLI_OK;
}

static int missing(const cli_call *c, const char *option)
{
    return cli_usage(c->verb, "%s needs --%s", c->args->file.at[0], option);
}

/* mpirun passes the number of processes; without it MPI is not used. */
static bool in_group(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size && strcmp(size, "1") != 0;
}

static int collect_options(const cli_call *c, qg_stats_options *o)
{
    const cli_arguments *a = c->args;
    qg_stats_options_init(o, sizeof *o);
    o->work = cli_workload(c);
    o->channels = a->channels;
    o->resume = a->resume;
    o->group = in_group();
    o->memory = a->max_mem;
    o->backend = a->backend;
    o->quirks = a->quirks;
    o->policy = a->policy.at;
    o->n_policy = a->policy.n;
    o->set = a->set.at;
    o->n_set = a->set.n;
    o->dispatcher = a->dispatcher;
    return take_slice(c, o);
}

/* Only the first process prints an answer. */
static qg_status ask_collect(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_stats_options o;
    (void)collect_options(c, &o); /* checked by collect */
    return qg_model_collect(m, &o, c->args->output, r);
}

static int collect(const cli_call *c)
{
    const cli_arguments *a = c->args;
    qg_stats_options o;
    if (a->file.n != 2)
        return cli_usage(c->verb, "collect takes one MODEL.onnx");
    if (!a->data || !a->output)
        return missing(c, a->data ? "output" : "data");
    int status = collect_options(c, &o);
    return status == CLI_OK ? cli_ask(c, a->file.at[1], ask_collect) : status;
}

static int merge(const cli_call *c)
{
    const cli_words *file = &c->args->file;
    qg_report *r = NULL;
    if (file->n < 2)
        return cli_usage(c->verb, "merge takes FILE.qgs...");
    if (!c->args->output)
        return missing(c, "output");
    qg_status s = qg_stats_file_merge(c->ctx, file->at + 1, file->n - 1,
                                      c->args->any_kernels, c->args->output, &r);
    return cli_answer(c, s, r);
}

static int show(const cli_call *c)
{
    const cli_words *file = &c->args->file;
    qg_report *r = NULL;
    if (file->n < 2 || file->n > 3)
        return cli_usage(c->verb, "show takes FILE.qgs [VALUE]");
    qg_status s =
        qg_stats_file_show(c->ctx, file->at[1], file->n > 2 ? file->at[2] : NULL, &r);
    return cli_answer(c, s, r);
}

/* The options are those of quantize, with the file instead of data. */
static qg_status ask_derive(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_quantize_options o;
    cli_quantize_options(c, &o);
    o.work.data = NULL;
    o.stats = c->args->file.at[1];
    return qg_model_derive(m, &o, r);
}

static int derive(const cli_call *c)
{
    const cli_arguments *a = c->args;
    if (a->file.n != 2)
        return cli_usage(c->verb, "derive takes one FILE.qgs");
    if (!a->model || !a->backend)
        return missing(c, a->model ? "backend" : "model");
    return cli_ask(c, a->model, ask_derive);
}

static qg_status ask_doctor(const cli_call *c, qg_model *m, qg_report **r)
{
    qg_doctor_options o;
    qg_doctor_options_init(&o, sizeof o);
    o.work = cli_workload(c);
    return qg_model_doctor(m, &o, r);
}

static int doctor(const cli_call *c)
{
    if (c->args->file.n != 2)
        return cli_usage(c->verb, "doctor takes one MODEL.onnx");
    if (!c->args->data)
        return missing(c, "data");
    return cli_ask(c, c->args->file.at[1], ask_doctor);
}

/* --- which options each of them takes --- */

enum { OF_COLLECT = 1, OF_MERGE = 2, OF_SHOW = 4, OF_DERIVE = 8, OF_DOCTOR = 16 };

/* The first option that is given and has no effect on `verb`; NULL: none.  Options that
 * every run has, as --jobs, are not among them. */
static const char *lonely_option(const cli_arguments *a, unsigned verb)
{
    const struct {
        bool given;
        const char *name;
        unsigned of;
    } option[] = {
        {a->output != NULL,      "output",      OF_COLLECT | OF_MERGE },
        { a->data != NULL,       "data",        OF_COLLECT | OF_DOCTOR},
        { a->backend != NULL,    "backend",     OF_COLLECT | OF_DERIVE},
        { a->policy.n > 0,       "policy",      OF_COLLECT | OF_DERIVE},
        { a->set.n > 0,          "set",         OF_COLLECT | OF_DERIVE},
        { a->quirks != NULL,     "quirks",      OF_COLLECT | OF_DERIVE},
        { a->dispatcher != NULL, "dispatcher",  OF_COLLECT | OF_DERIVE},
        { a->observer != NULL,   "observer",    OF_DERIVE             },
        { a->model != NULL,      "model",       OF_DERIVE             },
        { a->slice != NULL,      "slice",       OF_COLLECT            },
        { a->channels != NULL,   "channels",    OF_COLLECT            },
        { a->resume,             "resume",      OF_COLLECT            },
        { a->any_kernels,        "any-kernels", OF_MERGE              },
        { a->plot,               "plot",        OF_SHOW               },
    };
    for (size_t i = 0; i < sizeof option / sizeof option[0]; i++)
        if (option[i].given && !(option[i].of & verb))
            return option[i].name;
    return NULL;
}

int cli_stats(const cli_call *c)
{
    static const struct {
        const char *name;
        unsigned is;
        int (*run)(const cli_call *c);
    } verb[] = {
        {"collect", OF_COLLECT, collect},
        { "merge",  OF_MERGE,   merge  },
        { "show",   OF_SHOW,    show   },
        { "derive", OF_DERIVE,  derive },
        { "doctor", OF_DOCTOR,  doctor },
    };
    const char *word = c->args->file.at[0];
    for (size_t i = 0; i < sizeof verb / sizeof verb[0]; i++) {
        if (strcmp(word, verb[i].name) != 0)
            continue;
        const char *lonely = lonely_option(c->args, verb[i].is);
        if (!lonely)
            return verb[i].run(c);
        return cli_usage(c->verb, "%s does not take --%s%s", word, lonely,
                         verb[i].is == OF_DERIVE && c->args->output
                             ? "; `qg quantize --stats` writes a snapshot"
                             : "");
    }
    return cli_usage(c->verb, "'%s': expected collect, merge, show, derive or doctor",
                     word);
}
