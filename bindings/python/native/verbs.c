/* verbs.c -- runs rows of the command's table of verbs for a host. */
#include "verbs.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_LENT = 16 };

bool qg_verb_get(size_t i, qg_verb_record *out)
{
    size_t n = 0;
    while (n < i && cli_verbs[n].name)
        n++;
    const cli_verb *v = &cli_verbs[n];
    if (!v->name)
        return false;
    *out = (qg_verb_record){ .name = v->name,
                             .summary = v->summary,
                             .files = v->files,
                             .min_file = v->min_file,
                             .max_file = v->max_file,
                             .about = v->about,
                             .example = v->example };
    return true;
}

static qg_verb_kind kind_of(const cli_option *o)
{
    switch (o->kind) {
    case CLI_TEXTS:
        return QG_VERB_TEXTS;
    case CLI_NUMBER:
    case CLI_INDEX:
        return QG_VERB_NUMBER;
    case CLI_FLAG:
    case CLI_COUNT:
        return QG_VERB_FLAG;
    case CLI_TEXT:
    case CLI_BYTES:
    case CLI_LIST:
    case CLI_CHOICE:
        break;
    }
    return QG_VERB_TEXT;
}

/* A snapshot may stay in memory. */
static bool is_required(const cli_verb *v, int id)
{
    return cli_use_of(v, id) == CLI_NEEDS && id != CLI_O_SNAPSHOT;
}

bool qg_verb_option_get(size_t i, size_t k, qg_verb_option *out)
{
    const size_t room = sizeof cli_options[0].choice / sizeof cli_options[0].choice[0];
    for (int id = 0; id < CLI_N_OPTION; id++) {
        const cli_option *o = &cli_options[id];
        if (o->common || !cli_use_of(&cli_verbs[i], id) || k-- > 0)
            continue;
        *out = (qg_verb_option){ .name = o->name,
                                 .argument = o->argument,
                                 .help = o->help,
                                 .kind = kind_of(o),
                                 .required = is_required(&cli_verbs[i], id),
                                 .choice = o->choice };
        while (out->n_choice < room && o->choice[out->n_choice])
            out->n_choice++;
        return true;
    }
    return false;
}

/* What the verb wrote as a message, without the context's knowledge. */
static qg_status refuse(qg_ctx *ctx, int status, const char *text)
{
    return qg_fail(ctx, status == CLI_USAGE ? QG_ECONFIG : QG_EIO, "%s",
                   *text ? text : "the verb failed");
}

static int run(qg_ctx *ctx, const cli_verb *verb, qg_verb_call *c, cli_host *host)
{
    cli_arguments a;
    cli_bar bar = { 0 };
    cli_call call = { .verb = verb, .args = &a, .ctx = ctx, .bar = &bar, .host = host };
    int status =
        cli_parse(verb, (int)c->argc - 1, (char **)(uintptr_t)(c->argv + 1), &a);
    if (status == CLI_OK)
        status = cli_run(&call);
    cli_arguments_free(&a);
    return status;
}

qg_status qg_verb_run(qg_ctx *ctx, qg_verb_call *c)
{
    char *text = NULL;
    size_t size = 0;
    cli_lent lent[MOST_LENT];
    cli_host host = { .lent = lent,
                      .n_lent = c->n_lent,
                      .source = c->source,
                      .data = c->data,
                      .progress = c->progress };
    const cli_verb *found = c->argc ? cli_verb_named(c->argv[0]) : NULL;
    if (!found)
        return qg_fail(ctx, QG_ECONFIG, "no verb '%s'", c->argc ? c->argv[0] : "");
    if (c->n_lent > MOST_LENT)
        return qg_fail(ctx, QG_ECONFIG, "%s: %zu models are lent, expected at most %d",
                       found->name, c->n_lent, MOST_LENT);
    for (size_t i = 0; i < c->n_lent; i++)
        lent[i] = (cli_lent){ c->lent[i].word, c->lent[i].model };
    cli_verb row = *found;
    row.use[CLI_O_SNAPSHOT] = row.use[CLI_O_SNAPSHOT] ? CLI_TAKES : CLI_REFUSES;
    row.err = open_memstream(&text, &size);
    if (!row.err)
        return qg_fail(ctx, QG_ENOMEM, "%s: out of memory", row.name);
    c->exit = run(ctx, &row, c, &host);
    (void)fclose(row.err);
    qg_status s = host.status;
    if (s == QG_OK && !host.report && !host.made && c->exit != CLI_OK)
        s = refuse(ctx, c->exit, text);
    free(text);
    if (s != QG_OK)
        return s;
    c->report = host.report;
    c->made = host.made;
    return QG_OK;
}
