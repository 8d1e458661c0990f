#include "engine/analysis/again.h"

#include "engine/config/backend_yaml.h"
#include "engine/config/text.h"
#include "engine/config/yaml.h"
#include "engine/core/hash.h"
#include "engine/ir/edit.h"
#include "engine/ir/tensor_memory.h"

/* Not a name that a file or a host can have. */
#define TRIAL "policies/the trial.yaml"

/* The manifest joins repeated options with "; ". */
static qg_status add_each(qg_again *g, qg_arena *a, const char *joined, bool is_policy)
{
    char *text = qg_arena_strdup(a, joined);
    if (!text)
        return qg_nomem(g->m->ctx);
    for (char *end; text; text = end) {
        end = strstr(text, "; ");
        if (end) {
            *end = 0;
            end += 2;
        }
        if (is_policy)
            QG_TRY(qg_vec_push(g->m->ctx, a, &g->policy, text));
        else
            QG_TRY(qg_vec_push(g->m->ctx, a, &g->set, text));
    }
    return QG_OK;
}

static bool was_changed_by(const qg_again *g, const char *author)
{
    const qg_quant *q = g->m->quant;
    for (size_t i = 0; i < q->journal.n; i++)
        if (strncmp(q->journal.at[i].by, author, strlen(author)) == 0)
            return true;
    return false;
}

/* Trials begin at the float network: what was done to the snapshot later has no part in
 * them. */
static void warn_changed(const qg_again *g)
{
    static const struct {
        const char *author, *what;
    } later[] = {
        {"tune/",   "tuned"               },
        { "switch", "switched"            },
        { "host",   "changed by a program"}
    };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (was_changed_by(g, later[i].author))
            qg_warn(
                g->m->ctx,
                "the snapshot is %s, and trials begin with the network before that: "
                "errors are without it, expected a snapshot as `qg quantize` makes "
                "it: search first",
                later[i].what);
}

/* Nothing says how an imported network is quantized. */
static qg_status check_origin(const qg_again *g)
{
    return strncmp(g->m->quant->backend->name, QG_IMPORTED, strlen(QG_IMPORTED)) == 0
               ? qg_fail(
                     g->m->ctx, QG_EUNSUPPORTED,
                     "the snapshot is %s, which says nothing of how to quantize the "
                     "network once more, expected one that `qg quantize` made",
                     g->m->quant->backend->name)
               : QG_OK;
}

/* The graph of a snapshot is what its backend has made of the model, and a policy for
 * it is applied to that backend: another one is refused. */
static qg_status check_backend(const qg_again *g, qg_arena *a, const char *name)
{
    const char *own = g->m->quant->backend->name;
    qg_ctx *ctx = g->m->ctx;
    qg_backend *given;
    qg_search search;
    QG_TRY(qg_config_search(ctx, a, "backends", &search));
    QG_TRY(qg_backend_load(ctx, a, name, search, &given));
    return strcmp(given->name, own) == 0
               ? QG_OK
               : qg_fail(ctx, QG_ECONFIG,
                         "backend '%s': the snapshot is quantized for %s, expected "
                         "that one or none; for %s, make a snapshot of the model with "
                         "`qg quantize -b %s` first",
                         name, own, given->name, name);
}

qg_status qg_again_read(qg_again *g, qg_arena *a, const char *backend)
{
    const qg_manifest *f = &g->m->info.manifest;
    QG_TRY(check_origin(g));
    if (backend)
        QG_TRY(check_backend(g, a, backend));
    g->backend = backend ? backend : g->m->quant->backend->name;
    warn_changed(g);
    for (size_t i = 0; i < f->n_option; i++) {
        const char *name = f->option[2 * i], *value = f->option[2 * i + 1];
        if (strcmp(name, "policy") == 0)
            QG_TRY(add_each(g, a, value, true));
        else if (strcmp(name, "set") == 0)
            QG_TRY(add_each(g, a, value, false));
        else if (strcmp(name, "observer") == 0)
            g->observer = value;
        else if (strcmp(name, "dispatcher") == 0)
            g->dispatcher = value;
        else if (strcmp(name, "quirks") == 0)
            g->quirks = value;
    }
    return qg_vec_push(g->m->ctx, a, &g->policy, TRIAL);
}

qg_status qg_again_policies(qg_again *g, qg_arena *a, const char *const *policy,
                            size_t n)
{
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_vec_push(g->m->ctx, a, &g->policy, policy[i]));
    return qg_vec_push(g->m->ctx, a, &g->policy, TRIAL);
}

/* Of equal options the last decides. */
static bool is_last(const qg_again *g, size_t i)
{
    for (size_t k = i + 1; k < g->set.n; k++)
        if (strcmp(g->set.at[i], g->set.at[k]) == 0)
            return false;
    return true;
}

void qg_again_print_head(const qg_again *g, const char *comment, FILE *f)
{
    (void)fprintf(f, "# %s\n", comment);
    if (g->set.n)
        (void)fputs("after-set:  # --set options that these rules come after\n", f);
    for (size_t i = 0; i < g->set.n; i++) {
        if (!is_last(g, i))
            continue;
        (void)fputs("  - ", f);
        qg_yaml_print_text(f, g->set.at[i]);
        (void)fputc('\n', f);
    }
    (void)fputs("rules:\n", f);
}

/* A rule of an earlier patch with the same id would be replaced, so the id follows from
 * the names that are matched. */
void qg_again_print_match(const qg_again *g, const char *id, qg_again_takes *takes,
                          const void *ud, FILE *f)
{
    const qg_graph *graph = g->m->graph;
    char text[QG_HASH_TEXT];
    qg_hash h;
    qg_hash_begin(&h);
    for (size_t i = 0; i < graph->value.n; i++) {
        const char *name = graph->value.at[i]->name;
        if (takes(ud, i))
            qg_hash_add(&h, name, strlen(name) + 1);
    }
    qg_hash_end(&h, text);
    (void)fprintf(f, "  - id: %s-%.8s", id, text);
    if (g->policy.n > 1) /* the trial is one of them */
        (void)fprintf(f, "-%zu", g->policy.n);
    (void)fputs("\n    match:\n      value:\n", f);
    for (size_t i = 0; i < graph->value.n; i++) {
        if (!takes(ud, i))
            continue;
        (void)fputs("        - ", f);
        qg_yaml_print_name(f, graph->value.at[i]->name);
        (void)fputc('\n', f);
    }
}

qg_status qg_again_report_set(const qg_again *g, qg_report *r)
{
    return g->set.n ? qg_report_addf(r, "set_options",
                                     "%zu of the snapshot, which the policy applies "
                                     "before its rules: --set may repeat them",
                                     g->set.n)
                    : QG_OK;
}

/* Passes of the snapshot (gptq, bias-correct) or tune have learned constants: the trial
 * begins at those of the float network, as the network that is quantized in the end. */
static qg_status unlearn(qg_graph *g)
{
    const qg_tensor **known = QG_NEWN(g->arena, g->value.n, const qg_tensor *);
    if (!known)
        return qg_nomem(g->ctx);
    QG_TRY(qg_graph_untuned(g, g->arena, known));
    for (size_t i = 0; i < g->value.n; i++)
        if (known[i])
            QG_TRY(qg_edit_make_constant(g, g->value.at[i], known[i]));
    return QG_OK;
}

qg_status qg_again_quantize(qg_again *g, const char *patch, qg_model *trial)
{
    qg_ctx *ctx = g->m->ctx;
    qg_quantize_options o;
    qg_config_loan loan;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = g->backend;
    o.observer = g->observer;
    o.dispatcher = g->dispatcher;
    o.quirks = g->quirks;
    o.policy = g->policy.at;
    o.n_policy = g->policy.n - !patch;
    o.set = g->set.at;
    o.n_set = g->set.n;
    o.work = g->from_all ? qg_feed_again(&g->split->feed, g->work)
             : g->from   ? qg_split_subset(g->from, g->work)
                         : qg_split_work(g->split, g->work);
    if (g->one_sample)
        o.work.samples = 1;
    *trial = (qg_model){ .ctx = ctx,
                         .path = g->m->path,
                         .sha256 = g->m->sha256,
                         /* a snapshot: by passes like equalize, for its backend */
                         .rewritten = g->m->quant != NULL };
    QG_TRY(qg_graph_share(g->m->graph, &trial->graph));
    QG_TRY(unlearn(trial->graph));
    g->tried += !g->one_sample;
    if (patch)
        qg_config_lend(ctx, &loan, TRIAL, (qg_config_text){ patch, strlen(patch) });
    const qg_log log = ctx->log;
    ctx->log.write = NULL; /* warnings about a trial would be taken for the model's */
    qg_status s = qg_model_quantize(trial, &o, NULL);
    ctx->log = log;
    if (patch)
        qg_config_take_back(ctx, &loan);
    return s;
}

void qg_again_drop(qg_model *trial)
{
    qg_graph_free(trial->graph);
    trial->graph = NULL;
}

static qg_status ask(const qg_again *g, const qg_again_question *q, double *error,
                     double *doubt)
{
    const qg_graph *graph = q->trial->graph;
    qg_study s = { .ctx = g->m->ctx,
                   .graph = graph,
                   .quant = q->trial->quant,
                   .feed = q->feed,
                   .metric = q->metric,
                   .whole = true,
                   .work = g->work,
                   .stage = "trial" };
    qg_what_if question = { 0 };
    double *out = QG_NEWN(graph->arena, 2 * graph->output.n, double);
    if (!out)
        return qg_nomem(s.ctx);
    s.doubt = out + graph->output.n;
    QG_TRY(qg_study_ask(&s, &question, 1, out));
    uint32_t worst = qg_study_worst(&s, out);
    *error = out[worst];
    if (doubt)
        *doubt = s.doubt[worst];
    return QG_OK;
}

/* An endpoint that rounds an input; NULL: its infinities remain. */
static const qg_tqc *rounds_input(const qg_value *input)
{
    for (size_t k = 0; k < input->use.n; k++) {
        const qg_tqc *t = qg_input_tqc(input->use.at[k].node, input->use.at[k].slot);
        if (t && qg_tqc_is_on_grid(qg_tqc_root(t)))
            return t;
    }
    return NULL;
}

static qg_status check_sample(const qg_model *trial, const qg_feed *feed, size_t i,
                              qg_arena *a)
{
    const qg_graph *graph = trial->graph;
    char at[QG_ENDPOINT_TEXT];
    const qg_tensor **in = QG_NEWN(a, graph->input.n, const qg_tensor *);
    if (!in)
        return qg_nomem(trial->ctx);
    QG_TRY(feed->fetch(feed->ud, trial->ctx, a, i, in));
    for (size_t k = 0; k < graph->input.n; k++) {
        const qg_value *v = graph->input.at[k];
        const qg_tqc *t = rounds_input(v);
        if (t && !qg_tensor_is_finite(in[k]))
            return qg_fail(trial->ctx, QG_EDATA,
                           "holdout: sample %zu of input '%.1000s' has an infinity, "
                           "which %s rounds, expected finite numbers",
                           i, v->name, qg_tqc_text(t, at));
    }
    return QG_OK;
}

qg_status qg_again_check_holdout(const qg_again *g, const qg_model *trial)
{
    const qg_feed *feed = &g->split->holdout.feed;
    if (!feed->n || g->split->halves)
        return QG_OK; /* calibration sees all of them */
    qg_arena *a = qg_arena_new(g->m->ctx->alloc);
    qg_status st = a ? QG_OK : qg_nomem(g->m->ctx);
    for (size_t i = 0; st == QG_OK && i < feed->n; i++) {
        qg_arena_reset(a);
        st = check_sample(trial, feed, i, a);
    }
    qg_arena_free(a);
    return st;
}

qg_status qg_again_error(const qg_again *g, const qg_again_question *q, double *error,
                         double *doubt)
{
    qg_graph *graph = q->trial->graph;
    qg_measured at = { 0 };
    QG_TRY(qg_measured_find(graph, q->feed, NULL, graph->arena, &at));
    qg_measured_begin(&at);
    qg_status s = ask(g, q, error, doubt);
    qg_measured_end(&at);
    return s;
}
