/* executable.c -- a model in one mode: the graph itself, in float or simulated, or its
 * integer program. */
#include <assert.h>
#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/exec/pool.h"
#include "engine/formats/quantizers.h"
#include "engine/ir/text.h"
#include "engine/session/session.h"

#define X(id, text, meaning) text,
static const char *const mode_words[] = { QG_RUN_MODE_MAP(X) };
#undef X

const char *qg_run_mode_name(qg_run_mode mode)
{
    assert((unsigned)mode < QG_NRUN);
    return mode_words[mode];
}

static qg_status find_mode(const qg_model *m, const char *word, qg_run_mode *out)
{
    *out = m->quant ? QG_RUN_SIMULATE : QG_RUN_FLOAT;
    for (size_t i = 0; word && i < QG_NRUN; i++)
        if (strcmp(word, mode_words[i]) == 0) {
            *out = (qg_run_mode)i;
            return QG_OK;
        }
    return word ? qg_fail(m->ctx, QG_ECONFIG, "mode '%s': expected %s, %s or %s", word,
                          mode_words[0], mode_words[1], mode_words[2])
                : QG_OK;
}

/* --- integer programs --- */

/* The error that no profile was given and the backend b, or NULL, has none. */
static qg_status no_profile(qg_ctx *ctx, qg_arena *a, const qg_backend *b,
                            qg_search search)
{
    const char **name, *list = "";
    size_t n;
    QG_TRY(qg_config_names(ctx, a, search, &name, &n));
    for (size_t i = 0; list && i < n; i++)
        list = qg_arena_printf(a, "%s%s%s", list, i ? ", " : "", name[i]);
    if (!list)
        return qg_nomem(ctx);
    return qg_fail(ctx, QG_ECONFIG,
                   "mode integer: no profile belongs to '%.60s', expected --profile "
                   "for the arithmetic of a runtime, one of %s",
                   b ? b->name : "a file", list);
}

static qg_status load_profile(const qg_model *m, const char *name, qg_arena *a,
                              const qg_profile **out)
{
    const qg_backend *b = m->quant ? m->quant->backend : NULL;
    qg_search search;
    QG_TRY(qg_config_search(m->ctx, a, "profiles", &search));
    if (!name && b && b->profile && *b->profile)
        name = b->profile;
    return name ? qg_profile_load(m->ctx, a, name, search, out)
                : no_profile(m->ctx, a, b, search);
}

static bool has_quantizers(const qg_model *m)
{
    size_t n;
    return m->quant->tqc.n > 0 || qg_model_own_quantizers(m, &n);
}

/* In a copy, since sessions of the model may be running. */
static qg_status fold(qg_model *m, const char *what, enum qg_quantizers which,
                      qg_model *out)
{
    QG_TRY(qg_graph_clone(m->graph, &out->graph));
    QG_TRY(qg_infer(out->graph, NULL, 0));
    QG_TRY(qg_quantizers_fold(out->graph, which, "onnx-qdq", &out->quant));
    return has_quantizers(out)
               ? QG_OK
               : qg_fail(m->ctx, QG_ESTATE,
                         "%s: the model is not quantized, expected a "
                         "snapshot of qg quantize or a file with quantizers%s%.200s",
                         what, m->path ? ", got " : "", m->path ? m->path : "");
}

static qg_status with_records(qg_model *m, const char *what, enum qg_quantizers which,
                              qg_model **kept, qg_model **out)
{
    *out = m->quant ? m : *kept;
    if (*out)
        return QG_OK;
    qg_model *folded = QG_NEW(m->ctx->arena, qg_model);
    if (!folded)
        return qg_nomem(m->ctx);
    *folded = (qg_model){ .ctx = m->ctx, .path = m->path, .sha256 = m->sha256 };
    qg_status s = fold(m, what, which, folded);
    if (s == QG_OK)
        *out = *kept = folded;
    else
        qg_model_close(folded);
    return s;
}

qg_status qg_model_with_records(qg_model *m, const char *what, qg_model **out)
{
    return with_records(m, what, QG_QUANTIZERS_ONNX, &m->folded, out);
}

qg_status qg_model_as_written(qg_model *m, const char *what, qg_model **out)
{
    return with_records(m, what, QG_QUANTIZERS_WRITTEN, &m->written, out);
}

/* The profile lies in the model's arena, since a program may outlive the call. */
static qg_status make_program(qg_model *m, const qg_mode_request *r, bool file,
                              qg_program **out)
{
    const qg_profile *profile;
    QG_TRY(load_profile(m, r->profile, m->graph->arena, &profile));
    return qg_lower_program(
        m->graph, profile,
        &(qg_lower_options){ r->require_integer, r->codes, r->float_inputs, file },
        out);
}

/* --- all modes --- */

static qg_status nothing_to_simulate(const qg_model *m)
{
    size_t n;
    const qg_node *first = qg_model_own_quantizers(m, &n);
    if (!first)
        return qg_fail(m->ctx, QG_ESTATE,
                       "mode simulate: the model is not quantized, expected a "
                       "snapshot of qg quantize");
    return qg_fail(m->ctx, QG_ESTATE,
                   "mode simulate: %s: has %zu quantizers as nodes, the first is "
                   "'%.1000s' (%s), and no records, expected a snapshot (qg import "
                   "--format onnx-qdq makes one of it) or mode float or integer, which "
                   "take it as it is",
                   m->path, n, first->name, first->op->name);
}

static qg_status check_request(qg_model *m, const qg_mode_request *r, qg_run_mode mode)
{
    const char *option = r->profile           ? "profile"
                         : r->require_integer ? "require integer"
                         : r->codes           ? "codes"
                                              : NULL;
    if (mode != QG_RUN_INTEGER && option)
        return qg_fail(m->ctx, QG_ECONFIG, "mode %s: %s is given, expected mode %s",
                       mode_words[mode], option, mode_words[QG_RUN_INTEGER]);
    if (mode == QG_RUN_SIMULATE && !m->quant)
        return nothing_to_simulate(m);
    return QG_OK;
}

qg_status qg_executable_make(qg_model *m, const qg_mode_request *r, qg_executable *out)
{
    qg_executable e = { .model = m };
    QG_TRY(qg_model_expect_finished(m, "run"));
    QG_TRY(find_mode(m, r->mode, &e.mode));
    QG_TRY(check_request(m, r, e.mode));
    if (e.mode == QG_RUN_SIMULATE)
        QG_TRY(qg_model_warn_share(m, "simulate"));
    if (e.mode == QG_RUN_FLOAT)
        QG_TRY(qg_model_warn_clamps(m, "mode float"));
    e.graph = m->graph;
    if (e.mode == QG_RUN_INTEGER) {
        QG_TRY(qg_model_with_records(m, "mode integer", &e.model));
        QG_TRY(make_program(e.model, r, e.model != m, &e.program));
        e.graph = e.program->graph;
    }
    *out = e;
    return QG_OK;
}

void qg_executable_warn_quantizers(const qg_executable *e)
{
    const qg_model *m = e->model;
    size_t n;
    const qg_node *first = qg_model_own_quantizers(m, &n);
    if (first && e->mode == QG_RUN_FLOAT)
        qg_warn(m->ctx,
                "mode float: %s: has %zu quantizer%s of its own, the first is node "
                "'%.1000s' (%s), which round as in the file (`qg import` makes a "
                "snapshot of it, which has a float run without them)",
                m->path, n, n == 1 ? "" : "s", first->name, first->op->name);
}

void qg_executable_free(qg_executable *e)
{
    qg_program_free(e->program);
    e->program = NULL;
}

static qg_status open_feed(qg_executable *e, const qg_workload *work, qg_api_feed *out)
{
    out->graph = e->graph;
    qg_status s = qg_feed_open(e->model, work, out);
    if (s != QG_OK) {
        qg_feed_close(out);
        *out = (qg_api_feed){ .takes_nan = out->takes_nan };
    }
    return s;
}

static bool has_integer_input(const qg_graph *g)
{
    for (size_t i = 0; i < g->input.n; i++)
        if (g->input.at[i]->type.dtype != QG_F32)
            return true;
    return false;
}

qg_status qg_executable_feed(qg_executable *e, const qg_workload *work,
                             qg_api_feed *out)
{
    qg_program *again = NULL;
    qg_status s = open_feed(e, work, out);
    if (s != QG_EDATA || !e->program || !has_integer_input(e->graph))
        return s;
    qg_lower_options o = e->program->options;
    o.float_inputs = true;
    QG_TRY(qg_lower_program(e->model->graph, e->program->profile, &o, &again));
    qg_program_free(e->program);
    e->program = again;
    e->graph = again->graph;
    return open_feed(e, work, out);
}

qg_status qg_executable_plan(const qg_executable *e, const qg_workload *work,
                             const qg_feed *feed, const uint8_t *watch, qg_plan **out)
{
    bool simulate = e->mode == QG_RUN_SIMULATE;
    qg_plan_options o = { .mode = simulate ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = e->program ? NULL : e->model->quant,
                          .input = feed ? feed->shape : NULL,
                          .watch = watch,
                          .show_all = watch != NULL, /* values of folded nodes, too */
                          .threads =
                              work && feed ? qg_pool_share(work->jobs, feed->n) : 1,
                          .reference = work && work->reference_kernels };
    return qg_plan_new(e->model->ctx, e->graph, &o, out);
}

const qg_value *qg_executable_value(const qg_executable *e, const qg_value *v)
{
    return e->program ? e->program->value[v->id] : v;
}

qg_status qg_model_plan(qg_model *m, qg_run_mode mode, const qg_workload *work,
                        const qg_feed *feed, const uint8_t *watch, qg_plan **out)
{
    qg_executable e;
    QG_TRY(qg_executable_make(m, &(qg_mode_request){ .mode = mode_words[mode] }, &e));
    assert(!e.program); /* its owner would be unknown */
    return qg_executable_plan(&e, work, feed, watch, out);
}

/* --- the report --- */

static qg_status not_integer(qg_report *r, const qg_program *p)
{
    qg_table *t;
    if (p->count[QG_LOWERED_TAIL] + p->count[QG_LOWERED_ISLAND] +
            p->count[QG_LOWERED_REFUSED] ==
        0)
        return QG_OK;
    QG_TRY(qg_report_table(r, "not_integer", "node op how why", &t));
    for (size_t i = 0; i < p->from->node.n; i++) {
        const qg_node *n = p->from->node.at[i];
        const qg_program_node *f = &p->node[i];
        if (f->how != QG_LOWERED_INTEGER && f->how != QG_LOWERED_PLAIN)
            QG_TRY(qg_table_cells(
                r, t, qg_cell_text(n->name), qg_cell_text(n->op->name),
                qg_cell_text(qg_lowered_name(f->how)), qg_cell_text(f->why)));
    }
    return QG_OK;
}

qg_status qg_report_program(qg_report *r, const qg_executable *e)
{
    const qg_program *p = e->program;
    if (!p)
        return QG_OK;
    QG_TRY(qg_report_add(r, "profile", qg_cell_text(p->profile->name)));
    QG_TRY(qg_report_add(r, "profile_title", qg_cell_text(p->profile->title)));
    for (int how = 0; how < QG_LOWERED_PLAIN; how++)
        QG_TRY(qg_report_add(r, qg_lowered_name((qg_lowered)how),
                             qg_cell_count(p->count[how])));
    if (p->rounding)
        QG_TRY(qg_report_addf(r, "rounding",
                              "%zu records have another rounding than the profile, "
                              "whose rounding is used",
                              p->rounding));
    return not_integer(r, p);
}

/* --- the program as text --- */

static qg_status fill_dump(const qg_executable *e, qg_report *r)
{
    char *text;
    size_t size;
    QG_TRY(qg_report_program(r, e));
    QG_TRY(qg_text_print(e->graph, NULL, r->arena, &text, &size));
    return qg_report_add(r, "program", qg_cell_page(text));
}

qg_status qg_model_dump_program(qg_model *m, const char *profile, qg_report **report)
{
    qg_executable e;
    qg_report *r = NULL;
    qg_mode_request request = { mode_words[QG_RUN_INTEGER], profile, false, false,
                                false };
    QG_TRY(qg_executable_make(m, &request, &e));
    qg_status s = qg_report_new(m->ctx, "dump", &r);
    if (s == QG_OK)
        s = fill_dump(&e, r);
    qg_executable_free(&e);
    return qg_report_end(s, r, report);
}
