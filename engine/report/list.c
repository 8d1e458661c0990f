/* list.c -- the contents of this build and its configuration folder, by topic. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/snapshot/model.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/lint_yaml.h"
#include "engine/config/profile_yaml.h"
#include "engine/report/report.h"
#include "engine/core/suggest.h"
#include "engine/formats/formats.h"
#include "engine/quant/metric.h"
#include "engine/calib/observe.h"
#include "engine/config/backend_yaml.h"
#include "engine/quant/tqc_check.h"
#include "passes/passes.h"

typedef struct topic {
    const char *name, *columns, *meaning;
    qg_status (*rows)(qg_report *r, qg_table *t);
} topic;

/* A row of texts; NULL stands for nothing. */
#define row(r, t, ...) add_texts((r), (t), (const char *const[]){ __VA_ARGS__ })

static qg_status add_texts(qg_report *r, qg_table *t, const char *const *text)
{
    for (size_t i = 0; i < t->n_column; i++)
        QG_TRY(qg_table_add(r, t, qg_cell_text(text[i])));
    return QG_OK;
}

/* --- operators --- */

/* Letters of ir/op.h as words; the last one of a variadic operator repeats. */
static const char *roles_text(qg_arena *a, const char *letters, unsigned most)
{
    static const struct {
        char letter;
        const char *word;
    } role[] = {
        {'d',  "data"  },
        { 'w', "weight"},
        { 'b', "bias"  },
        { 'p', "bound" },
        { 'g', "gain"  },
        { 'f', "float" },
        { 's', "shape" },
    };
    const char *text = "";
    for (const char *l = letters ? letters : "d"; *l && text; l++)
        for (size_t i = 0; i < sizeof role / sizeof role[0] && text; i++)
            if (role[i].letter == *l)
                text =
                    qg_arena_printf(a, "%s%s%s", text, *text ? " " : "", role[i].word);
    return text && most == 255 ? qg_arena_printf(a, "%s ...", text) : text;
}

static const char *traits_text(qg_arena *a, uint32_t traits)
{
    const char *text = "";
    for (unsigned bit = 0; bit < QG_NTRAIT && text; bit++)
        if (traits >> bit & 1u)
            text = qg_arena_printf(a, "%s%s%s", text, *text ? " " : "",
                                   qg_trait_name(bit));
    return text;
}

static qg_status op_row(qg_report *r, qg_table *t, const qg_op *op)
{
    const char *traits = traits_text(r->arena, op->traits);
    const char *in = roles_text(r->arena, op->in_roles, op->max_in);
    if (!traits || !in)
        return qg_nomem(r->ctx);
    if (op->domain)
        QG_TRY(qg_table_addf(r, t, "%s.%s", op->domain, op->name));
    else
        QG_TRY(qg_table_add(r, t, qg_cell_text(op->name)));
    if (op->until)
        QG_TRY(qg_table_addf(r, t, "%d to %d", op->since, op->until));
    else
        QG_TRY(qg_table_addf(r, t, "%d and later", op->since));
    return qg_table_cells(r, t, qg_cell_text(op->max_in ? in : NULL),
                          qg_cell_text(*traits ? traits : NULL));
}

static int by_name(const void *a, const void *b)
{
    const qg_op *p = *(const qg_op *const *)a, *q = *(const qg_op *const *)b;
    int domains = strcmp(p->domain ? p->domain : "", q->domain ? q->domain : "");
    int names = strcmp(p->name, q->name);
    return domains ? domains : names ? names : p->since - q->since;
}

static qg_status ops(qg_report *r, qg_table *t)
{
    const qg_registry *all = r->ctx->registry;
    QG_VEC(const qg_op *) v = { 0 };
    for (size_t f = 0; f < all->n_family; f++)
        for (const qg_op *op = all->family[f]; op->name; op++)
            QG_TRY(qg_vec_push(r->ctx, r->arena, &v, op));
    qsort(v.at, v.n, sizeof *v.at, by_name);
    for (size_t i = 0; i < v.n; i++)
        QG_TRY(op_row(r, t, v.at[i]));
    return QG_OK;
}

static qg_status traits(qg_report *r, qg_table *t)
{
#define X(id, text, meaning) QG_TRY(row(r, t, text, meaning));
    QG_TRAIT_MAP(X)
#undef X
    return QG_OK;
}

/* --- configuration --- */

/* "iterations=10 level=1" */
static const char *params_text(qg_arena *a, const qg_pass_param *p)
{
    const char *text = "";
    for (; p && p->name && text; p++)
        text =
            qg_arena_printf(a, "%s%s%s=%g", text, *text ? " " : "", p->name, p->value);
    return text;
}

static qg_status passes(qg_report *r, qg_table *t)
{
    const qg_pass *const *all;
    QG_TRY(qg_passes_of(r->ctx, r->arena, &all));
    for (size_t i = 0; all[i]; i++) {
        const char *params = params_text(r->arena, all[i]->param);
        if (!params)
            return qg_nomem(r->ctx);
        QG_TRY(row(r, t, all[i]->name, all[i]->summary, *params ? params : NULL));
    }
    return QG_OK;
}

static qg_status backends(qg_report *r, qg_table *t)
{
    qg_search search;
    const char **name;
    size_t n;
    QG_TRY(qg_config_search(r->ctx, r->arena, "backends", &search));
    QG_TRY(qg_config_names(r->ctx, r->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        qg_backend *b;
        QG_TRY(qg_backend_load(r->ctx, r->arena, name[i], search, &b));
        assert(b->file.n);
        QG_TRY(row(r, t, b->name, b->title, b->file.at[b->file.n - 1]));
    }
    return QG_OK;
}

static qg_status profiles(qg_report *r, qg_table *t)
{
    qg_search search;
    const char **name;
    size_t n;
    QG_TRY(qg_config_search(r->ctx, r->arena, "profiles", &search));
    QG_TRY(qg_config_names(r->ctx, r->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        const qg_profile *p;
        QG_TRY(qg_profile_load(r->ctx, r->arena, name[i], search, &p));
        QG_TRY(row(r, t, p->name, p->title, p->file));
    }
    return QG_OK;
}

/* "percentile 0.9999, min-scale 1e-08": the parameters, with defaults. */
static qg_status add_params(qg_report *r, qg_table *t, const qg_observer *o)
{
    const char *text = NULL;
    for (int p = 0; p < QG_NOBSERVER_PARAM; p++) {
        if (o->value[p] == 0)
            continue;
        text = qg_arena_printf(r->arena, "%s%s%s", text ? text : "", text ? ", " : "",
                               qg_observer_param_name((qg_observer_param)p));
        if (text && !isnan(o->value[p]))
            text = qg_arena_printf(r->arena, "%s %g", text, o->value[p]);
        if (!text)
            return qg_nomem(r->ctx);
    }
    return qg_table_add(r, t, qg_cell_text(text));
}

static qg_status observers(qg_report *r, qg_table *t)
{
    for (const qg_observer *o = NULL; (o = qg_observer_next(r->ctx, o));) {
        QG_TRY(qg_table_cells(r, t, qg_cell_text(o->name), qg_cell_bool(o->per_channel),
                              qg_cell_text(o->blind  ? "nothing"
                                           : o->pick ? "statistics"
                                                     : "samples"),
                              qg_cell_count(o->passes)));
        QG_TRY(add_params(r, t, o));
        QG_TRY(qg_table_cells(r, t, qg_cell_text(o->summary), qg_cell_text(o->fails),
                              qg_cell_text(o->source)));
    }
    return QG_OK;
}

/* Tables of quirks that belong to no pass. */
static const struct {
    const char *where;
    const qg_quirk_row *quirk;
} quirk_table[] = {
    {"observers",      qg_observer_quirks   },
    { "sharing",       qg_tqc_share_quirks  },
    { "verifier",      qg_tqc_check_quirks  },
    { "backend files", qg_backend_quirk_rows},
};
enum { N_QUIRK_TABLE = sizeof quirk_table / sizeof quirk_table[0] };

static qg_status quirk_rows(qg_report *r, qg_table *t, const char *where,
                            const qg_quirk_row *q, qg_quirk which)
{
    for (; q && q->meaning; q++)
        if (q->quirk == which)
            QG_TRY(row(r, t, qg_quirk_name(which), q->meaning, where, q->swaps,
                       q->source));
    return QG_OK;
}

static qg_status quirks(qg_report *r, qg_table *t)
{
    for (int i = 0; i < QG_NQUIRK; i++) {
        for (size_t k = 0; qg_passes[k]; k++)
            QG_TRY(
                quirk_rows(r, t, qg_passes[k]->name, qg_passes[k]->quirk, (qg_quirk)i));
        for (size_t k = 0; qg_formats[k]; k++)
            QG_TRY(quirk_rows(r, t, qg_formats[k]->name, qg_formats[k]->quirk,
                              (qg_quirk)i));
        for (size_t k = 0; k < N_QUIRK_TABLE; k++)
            QG_TRY(quirk_rows(r, t, quirk_table[k].where, quirk_table[k].quirk,
                              (qg_quirk)i));
    }
    return QG_OK;
}

/* The aspects a format can represent, as words; "nothing" of a view. */
static const char *says_text(qg_arena *a, uint32_t says)
{
    const char *text = "";
    for (unsigned bit = 0; bit < QG_N_ASPECT && text; bit++)
        if (says >> bit & 1u)
            text = qg_arena_printf(a, "%s%s%s", text, *text ? " " : "",
                                   qg_aspect_word((enum qg_aspect)(1u << bit)));
    return text && !*text ? "nothing" : text;
}

static qg_status formats(qg_report *r, qg_table *t)
{
    for (const qg_format *const *f = qg_formats; *f; f++) {
        const char *says = says_text(r->arena, (*f)->says);
        if (!says)
            return qg_nomem(r->ctx);
        QG_TRY(row(r, t, (*f)->name, (*f)->suffix, (*f)->build ? "yes" : "no",
                   (*f)->import ? "yes" : "no", (*f)->summary, says));
    }
    return QG_OK;
}

static qg_status layers(qg_report *r, qg_table *t)
{
    const char *op, *name;
    for (const qg_format *const *f = qg_formats; *f; f++)
        for (size_t i = 0; (*f)->layer && (op = (*f)->layer(i, &name)); i++)
            QG_TRY(row(r, t, (*f)->name, op, name ? name : "several"));
    return QG_OK;
}

/* --- targets of lint --- */

static qg_status targets(qg_report *r, qg_table *t)
{
    qg_search search;
    const char **name;
    size_t n;
    QG_TRY(qg_config_search(r->ctx, r->arena, "lint", &search));
    QG_TRY(qg_config_names(r->ctx, r->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        const qg_lint_target *target;
        QG_TRY(qg_lint_load(r->ctx, r->arena, name[i], search, &target));
        QG_TRY(row(r, t, target->name, target->title, target->file));
    }
    return QG_OK;
}

static qg_status list_predicates(qg_report *r, qg_table *t)
{
    for (int p = 0; p < QG_NPREDICATE; p++)
        QG_TRY(row(r, t, qg_predicate_name((qg_predicate)p),
                   qg_predicate_meaning((qg_predicate)p)));
    return QG_OK;
}

/* --- words --- */

static qg_status metrics(qg_report *r, qg_table *t)
{
#define X(name, better, meaning) QG_TRY(row(r, t, #name, #better, meaning));
    QG_METRIC_MAP(X)
#undef X
    return QG_OK;
}

static qg_status dtypes(qg_report *r, qg_table *t)
{
    for (int d = QG_NODTYPE + 1; d < QG_NDTYPE; d++) {
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_dtype_name((qg_dtype)d)),
                              qg_cell_count(qg_dtype_bits((qg_dtype)d))));
    }
    return QG_OK;
}

static qg_status roundings(qg_report *r, qg_table *t)
{
#define X(id, text, meaning) QG_TRY(row(r, t, text, meaning));
    QG_ROUNDING_MAP(X)
#undef X
    return QG_OK;
}

static qg_status policies(qg_report *r, qg_table *t)
{
#define X(id, bit, text, meaning) QG_TRY(row(r, t, text, meaning));
    QG_POLICY_MAP(X)
#undef X
    return QG_OK;
}

static qg_status states(qg_report *r, qg_table *t)
{
#define X(id, text, rounds, own, out, meaning)                                         \
    QG_TRY(row(r, t, text, (rounds) ? "yes" : "no", (own) ? "yes" : "no",              \
               (out) ? "yes" : "no", meaning));
    QG_TQC_STATE_MAP(X)
#undef X
    return QG_OK;
}

/* --- topics --- */

static qg_status topics(qg_report *r, qg_table *t);

/* clang-format off */
static const topic topic_table[] = {
    { "ops", "operator opset inputs traits",
      "operators: opsets, input roles, traits", ops },
    { "traits", "trait meaning",
      "properties of operators that passes query", traits },
    { "passes", "pass meaning parameters",
      "steps of the quantization pipeline", passes },
    { "backends", "backend title file",
      "backends that `qg quantize -b` accepts by name", backends },
    { "profiles", "profile title file",
      "integer arithmetic of runtimes, one row per kind of operator", profiles },
    { "observers", "observer per_channel reads passes parameters meaning fails source",
      "algorithms that derive a range from data", observers },
    { "quirks", "quirk meaning where swaps source",
      "deviations kept for parity with other tools", quirks },
    { "formats", "format file export import meaning represents",
      "files of other tools for export and import", formats },
    { "layers", "format operator layer",
      "operators that a format without those of ONNX takes", layers },
    { "targets", "target title file",
      "targets that `qg lint --target` accepts by name", targets },
    { "predicates", "predicate meaning",
      "conditions of rules and kernels of `qg lint`", list_predicates },
    { "metrics", "metric better meaning",
      "measures of quantization error", metrics },
    { "dtypes", "dtype bits",
      "tensor element types", dtypes },
    { "roundings", "rounding on_a_tie_or_always",
      "rounding modes", roundings },
    { "policies", "policy meaning",
      "properties of a quantization scheme", policies },
    { "states", "state active own_scale exported meaning",
      "states of an endpoint", states },
    { "topics", "topic meaning",
      "this table", topics },
};
/* clang-format on */
enum { N_TOPIC = sizeof topic_table / sizeof topic_table[0] };

static qg_status topics(qg_report *r, qg_table *t)
{
    for (size_t i = 0; i < N_TOPIC; i++)
        QG_TRY(row(r, t, topic_table[i].name, topic_table[i].meaning));
    return QG_OK;
}

static qg_status fill(qg_report *r, const topic *what)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, what->name, what->columns, &t));
    return what->rows(r, t);
}

qg_status qg_list(qg_ctx *ctx, const char *what, qg_report **report)
{
    char text[QG_SUGGEST_TEXT];
    qg_suggest s = qg_suggest_for(what ? what : "topics");
    for (size_t i = 0; i < N_TOPIC; i++) {
        qg_suggest_try(&s, topic_table[i].name);
        if (strcmp(s.word, topic_table[i].name) != 0)
            continue;
        qg_report *r;
        QG_TRY(qg_report_new(ctx, "list", &r));
        return qg_report_end(fill(r, &topic_table[i]), r, report);
    }
    return qg_fail(ctx, QG_ECONFIG,
                   "list: '%s': no such topic, expected one of `qg list topics`%s",
                   what, qg_suggest_text(&s, text));
}

const char *qg_nearest(const char *word, const char *const *candidate, size_t n)
{
    qg_suggest s = qg_suggest_for(word);
    for (size_t i = 0; i < n; i++)
        qg_suggest_try(&s, candidate[i]);
    return s.best;
}
