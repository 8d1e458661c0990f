/* collect.c -- `qg report`: the answers of all analyses of one snapshot, and of a
 * second one beside it, as tables of one report. */
#include <math.h>
#include <string.h>

#include "engine/report/explain.h"
#include "engine/webpage/webpage.h"
#include "engine/quant/stored.h"

QG_OPTIONS_INIT(qg_webpage_options)

typedef struct page {
    qg_model *m;
    const qg_webpage_options *o;
    qg_api_feed feed;
    qg_workload work; /* over the samples of feed */
    qg_report *r;
} page;

/* A fact or table of an answer, and its name on the page. */
typedef struct adopted {
    const char *name, *as;
} adopted;

/* Takes what it lists from an answer (NULL: a failure, s), which is freed. */
static qg_status take(page *p, qg_status s, qg_report *answer, const adopted *list)
{
    for (; s == QG_OK && list->name; list++)
        s = qg_report_adopt(p->r, answer, list->name, list->as);
    qg_report_free(answer);
    return s;
}

/* --- what the analyses say --- */

static qg_status analyse(page *p, qg_model *m, const char *by, const adopted *list)
{
    qg_analyse_options o;
    qg_report *answer = NULL;
    qg_analyse_options_init(&o, sizeof o);
    o.work = p->work;
    o.by = by;
    qg_status s = qg_model_analyse(m, &o, &answer);
    return take(p, s, answer, list);
}

static qg_status errors(page *p)
{
    static const adopted outputs[] = {
        {"metric",             "metric"           },
        { "meaning",           "meaning"          },
        { "errors",            "outputs"          },
        { "chosen_by_data",    "chosen_by_data"   },
        { "measured_in_front", "measured_in_front"},
        { "not_measured",      "not_measured"     },
        { NULL,                NULL               },
    };
    static const adopted layers[] = {
        {"errors",        "layers"             },
        { "not_measured", "layers_not_measured"},
        { NULL,           NULL                 },
    };
    static const adopted causes[] = {
        {"output",  "causes_output"},
        { "left",   "causes_left"  },
        { "causes", "causes"       },
        { NULL,     NULL           },
    };
    QG_TRY(analyse(p, p->m, "graph", outputs));
    QG_TRY(analyse(p, p->m, "cause", causes));
    return analyse(p, p->m, "layer", layers);
}

static qg_status sensitivity(page *p)
{
    static const adopted list[] = {
        {"errors", "sensitivity"},
        { NULL,    NULL         },
    };
    qg_sensitivity_options o;
    qg_report *answer = NULL;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work = p->work;
    qg_status s = qg_model_sensitivity(p->m, &o, &answer);
    return take(p, s, answer, list);
}

static qg_status accuracy(page *p, qg_model *m, const adopted *list)
{
    qg_run_options o;
    qg_report *answer = NULL;
    if (!p->o->labels)
        return QG_OK;
    qg_run_options_init(&o, sizeof o);
    o.work = p->work;
    qg_status s = qg_model_evaluate(m, &o, p->o->labels, &answer);
    return take(p, s, answer, list);
}

/* --- lint --- */

/* The target whose name begins that of the backend, as trt that of trt-int8; *out NULL:
 * none does.  The name belongs to the list. */
static qg_status target_of(page *p, qg_report **list, const char **out)
{
    const char *backend = p->m->quant->backend->name;
    size_t longest = 0;
    *out = p->o->target;
    if (*out)
        return QG_OK;
    QG_TRY(qg_list(p->m->ctx, "targets", list));
    const qg_table *t = qg_report_table_named(*list, "targets");
    for (size_t i = 0; i < qg_table_rows(t); i++) {
        const char *name = qg_table_cell(t, i, "target")->text;
        size_t n = strlen(name);
        if (n > longest && strncmp(backend, name, n) == 0 && backend[n] == '-') {
            *out = name;
            longest = n;
        }
    }
    return QG_OK;
}

static qg_status lint_for(page *p, const char *target)
{
    static const adopted list[] = {
        {"target",           "lint_target"         },
        { "title",           "lint_title"          },
        { "integer_kernels", "lint_integer_kernels"},
        { "float_nodes",     "lint_float_nodes"    },
        { "found",           "lint_found"          },
        { "rules",           "lint_rules"          },
        { "findings",        "lint_findings"       },
        { "nodes",           "lint_nodes"          },
        { NULL,              NULL                  },
    };
    qg_lint_options o;
    qg_report *answer = NULL;
    qg_lint_options_init(&o, sizeof o);
    o.target = target;
    qg_status s = qg_model_lint(p->m, &o, &answer);
    return take(p, s, answer, list);
}

static qg_status lint(page *p)
{
    qg_report *targets = NULL;
    const char *target;
    qg_status s = target_of(p, &targets, &target);
    if (s == QG_OK && target)
        s = lint_for(p, target);
    qg_report_free(targets);
    return s;
}

/* --- size --- */

/* Elements on grids of so many bits; 32 bits and `quantized` false: float. */
typedef struct budget_row {
    size_t tensors, elements;
} budget_row;

enum { MOST_BITS = 32, KINDS = 2 };

static qg_status put_budget(qg_report *r, budget_row row[KINDS][MOST_BITS + 1])
{
    static const char *const kind[KINDS] = { "constants", "activations" };
    qg_table *t;
    QG_TRY(qg_report_table(r, "bits", "kind bits tensors elements", &t));
    for (int k = 0; k < KINDS; k++)
        for (unsigned b = 1; b <= MOST_BITS; b++)
            if (row[k][b].tensors)
                QG_TRY(qg_table_cells(r, t, qg_cell_text(kind[k]), qg_cell_count(b),
                                      qg_cell_count(row[k][b].tensors),
                                      qg_cell_count(row[k][b].elements)));
    return QG_OK;
}

static bool is_counted(const qg_value *v)
{
    const qg_tensor *type = v->constant ? v->constant : &v->type;
    return type->dtype == QG_F32 && (v->use.n || v->def);
}

/* Bytes of all constants, without scales. */
static qg_status put_bytes(qg_report *r, const qg_graph *g)
{
    double bits = 0, plain = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        bits += qg_constant_bits(g->value.at[i]);
        plain += qg_constant_plain_bits(g->value.at[i]);
    }
    QG_TRY(qg_report_add(r, "float_bytes", qg_cell_count((size_t)ceil(plain / 8))));
    return qg_report_add(r, "quantized_bytes", qg_cell_count((size_t)ceil(bits / 8)));
}

/* Float32 values; size: of those whose shape is open, in the first sample. */
static qg_status put_size(qg_report *r, const qg_graph *g, const int64_t *size)
{
    budget_row row[KINDS][MOST_BITS + 1] = { 0 };
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_tensor *type = v->constant ? v->constant : &v->type;
        bool known = qg_tensor_known(type);
        if (!is_counted(v) || (!known && !size[i]))
            continue;
        size_t n = (size_t)(known ? qg_tensor_count(type) : size[i]);
        unsigned b = qg_stored_bits(v);
        row[!v->constant][b].tensors++;
        row[!v->constant][b].elements += n;
    }
    QG_TRY(put_bytes(r, g));
    return put_budget(r, row);
}

static qg_status size(page *p)
{
    const qg_graph *g = p->m->graph;
    qg_arena *a = qg_arena_new(p->m->ctx->alloc);
    int64_t *of = a ? QG_NEWN(a, g->value.n, int64_t) : NULL;
    bool open = false;
    for (size_t i = 0; i < g->value.n; i++)
        open = open || (is_counted(g->value.at[i]) && !g->value.at[i]->constant &&
                        !qg_tensor_known(&g->value.at[i]->type));
    qg_status s = of ? QG_OK : qg_nomem(p->m->ctx);
    if (s == QG_OK && open)
        s = qg_page_sizes(p->m, &p->work, &p->feed.feed, of);
    if (s == QG_OK)
        s = put_size(p->r, g, of);
    qg_arena_free(a);
    return s;
}

/* --- one snapshot --- */

static qg_status head(page *p)
{
    const qg_model *m = p->m;
    const qg_manifest *info = &m->info.manifest;
    size_t quantized = 0;
    for (size_t i = 0; i < m->graph->node.n; i++)
        quantized += m->graph->node.at[i]->platform == QG_PLATFORM_QUANTIZED;
    QG_TRY(qg_report_add(p->r, "model", qg_cell_text(info->model_file)));
    QG_TRY(qg_report_add(p->r, "backend", qg_cell_text(m->quant->backend->name)));
    QG_TRY(qg_report_add(p->r, "tool", qg_cell_text(info->tool)));
    QG_TRY(qg_report_add(p->r, "samples", qg_cell_count(p->feed.feed.n)));
    QG_TRY(qg_report_add(p->r, "calibration_samples", qg_cell_count(info->samples)));
    QG_TRY(
        qg_report_add(p->r, "nodes_of_the_network", qg_cell_count(m->graph->node.n)));
    QG_TRY(qg_report_add(p->r, "quantized_nodes", qg_cell_count(quantized)));
    return QG_OK;
}

/* How often each pattern of a pass matched. */
static qg_status coverage(page *p)
{
    const qg_snapshot_info *info = &p->m->info;
    qg_table *t;
    QG_TRY(qg_report_table(p->r, "patterns", "pass pattern matched near_misses", &t));
    for (size_t i = 0; i < info->n_coverage; i++) {
        const qg_coverage_row *row = &info->coverage[i];
        QG_TRY(qg_table_cells(p->r, t, qg_cell_text(row->pass),
                              qg_cell_text(row->pattern), qg_cell_count(row->matched),
                              qg_cell_count(row->n_miss)));
    }
    return QG_OK;
}

static qg_status first(page *p)
{
    static const adopted top1[] = {
        {"float_top1",      "float_top1"    },
        { "simulated_top1", "simulated_top1"},
        { "difference",     "difference"    },
        { "agreement",      "agreement"     },
        { NULL,             NULL            },
    };
    QG_TRY(head(p));
    QG_TRY(accuracy(p, p->m, top1));
    QG_TRY(size(p));
    QG_TRY(errors(p));
    QG_TRY(sensitivity(p));
    QG_TRY(lint(p));
    QG_TRY(qg_page_draw(p->r, p->m));
    QG_TRY(qg_explain_all(p->r, p->m));
    QG_TRY(coverage(p));
    return qg_page_observe(p->r, p->m, &p->work, &p->feed.feed);
}

/* --- beside another one --- */

static qg_status differences(page *p)
{
    static const adopted list[] = {
        {"identical",          "identical"        },
        { "nodes_changed",     "nodes_changed"    },
        { "endpoints_changed", "endpoints_changed"},
        { "scales_changed",    "scales_changed"   },
        { "nodes",             "changed_nodes"    },
        { "endpoints",         "changed_endpoints"},
        { "scales",            "changed_scales"   },
        { NULL,                NULL               },
    };
    qg_report *answer = NULL;
    qg_status s = qg_model_diff(p->m, p->o->against, &answer);
    return take(p, s, answer, list);
}

static qg_status second(page *p)
{
    static const adopted outputs[] = {
        {"errors", "second_outputs"},
        { NULL,    NULL            },
    };
    static const adopted layers[] = {
        {"errors", "second_layers"},
        { NULL,    NULL           },
    };
    static const adopted top1[] = {
        {"simulated_top1", "second_simulated_top1"},
        { "difference",    "second_difference"    },
        { "agreement",     "second_agreement"     },
        { NULL,            NULL                   },
    };
    qg_model *m = p->o->against;
    if (!m)
        return QG_OK;
    QG_TRY(qg_model_expect_quantized(m, "report"));
    QG_TRY(qg_report_add(p->r, "second_snapshot",
                         qg_cell_text(m->path ? qg_path_base(m->path) : NULL)));
    QG_TRY(
        qg_report_add(p->r, "second_backend", qg_cell_text(m->quant->backend->name)));
    QG_TRY(accuracy(p, m, top1));
    QG_TRY(analyse(p, m, "graph", outputs));
    QG_TRY(analyse(p, m, "layer", layers));
    return differences(p);
}

/* --- all together --- */

/* On a page for a terminal the rows of whole tables are too many. */
static void shorten(qg_report *r)
{
    static const char *const shown[] = { "outputs", "causes", "bits" };
    for (size_t i = 0; i < r->fact.n; i++) {
        qg_fact *f = &r->fact.at[i];
        bool keep = !f->table;
        for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++)
            keep = keep || strcmp(f->name, shown[k]) == 0;
        f->detail = keep ? f->detail : QG_DETAIL_ALL;
    }
}

static qg_status fill(page *p)
{
    QG_TRY(qg_feed_open(p->m, &p->o->work, &p->feed));
    p->work = qg_feed_again(&p->feed, &p->o->work);
    QG_TRY(first(p));
    QG_TRY(second(p));
    shorten(p->r);
    return p->o->output ? qg_page_write(p->r, p->o->output) : QG_OK;
}

/* A browser would show the page in a file of another kind as text.  Files without an
 * extension, as devices, are fine. */
static qg_status expect_html(qg_ctx *ctx, const char *path)
{
    const char *dot = path ? strrchr(qg_path_base(path), '.') : NULL;
    if (!dot || strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0)
        return QG_OK;
    return qg_fail(ctx, QG_ECONFIG,
                   "report: output '%.200s': the page is HTML, expected "
                   "a name that ends in .html",
                   path);
}

qg_status qg_model_webpage(qg_model *m, const qg_webpage_options *given,
                           qg_report **report)
{
    qg_webpage_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_webpage_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_quantized(m, "report"));
    QG_TRY(expect_html(m->ctx, o.output));
    page p = { .m = m, .o = &o };
    QG_TRY(qg_report_new(m->ctx, "report", &p.r));
    qg_status s = fill(&p);
    qg_feed_close(&p.feed);
    return qg_report_end(s, p.r, report);
}
