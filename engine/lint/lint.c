/* lint.c -- `qg lint`: the rules of a target on a quantized network; the report.
 *
 * A rule is tested at every node that its selector matches, or, `at: endpoint`, at
 * every endpoint of these nodes that has a record with parameters: an endpoint that was
 * never calibrated, or stays float, has no grid to judge.  A rule with `refused-by` is
 * tested by the export itself, once for the network.  Findings are in the order of
 * the rules of the file, parents first, then by id of node and slot, so that equal
 * snapshots give equal reports.
 *
 * Facts      integer_kernels, moves_of_codes, fused_nodes, other_kernels and
 *            float_nodes add up to the nodes that compute on float tensors; shape
 *            arithmetic is not counted
 * compute    nodes with the trait compute, those in bodies included: how many there
 *            are, and how many the target computes in integers; when that is less than
 *            half, a warning says why
 * converted  a text for people; programs read the table `nodes`
 * Tables     rules (one row per rule that found something), findings, nodes */
#include "engine/lint/lint.h"

#include "engine/core/file.h"
#include "engine/core/reads.h"
#include "engine/formats/quantize_linear.h"
#include "engine/report/report.h"
#include "engine/session/options.h"
#include "engine/session/session.h"

/* --- findings --- */

static qg_status find(qg_lint *l, const qg_lint_rule *rule, qg_lint_site *s)
{
    if (!qg_lint_holds(l, s, &rule->when, NULL))
        return QG_OK;
    const char *detail = qg_arena_printf(l->arena, "%s", s->detail);
    if (!detail)
        return qg_nomem(l->ctx);
    qg_lint_finding f = { rule, s->node, s->at, detail };
    return qg_vec_push(l->ctx, l->arena, &l->found, f);
}

static qg_status visit_endpoints(qg_lint *l, const qg_lint_rule *rule, const qg_node *n)
{
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        qg_lint_site s = { .node = n, .at = t };
        if (t && qg_tqc_value(t) && qg_tqc_param(t).n &&
            qg_endpoint_matches(&rule->at, qg_tqc_endpoint(t)))
            QG_TRY(find(l, rule, &s));
    }
    return QG_OK;
}

/* The format of the target refuses the network: found once, with its message. */
static qg_status find_refusal(qg_lint *l, const qg_lint_rule *rule)
{
    const char *why;
    qg_model *m;
    QG_TRY(qg_model_with_records(l->model, "lint", &m));
    QG_TRY(qg_model_refusal(m, rule->refused_by, l->arena, &why));
    qg_lint_finding f = { .rule = rule, .detail = why };
    return why ? qg_vec_push(l->ctx, l->arena, &l->found, f) : QG_OK;
}

static qg_status find_all(qg_lint *l)
{
    for (size_t r = 0; r < l->target->rule.n; r++) {
        const qg_lint_rule *rule = &l->target->rule.at[r];
        if (rule->refused_by)
            QG_TRY(find_refusal(l, rule));
        for (size_t i = 0; !rule->refused_by && i < l->graph->node.n; i++) {
            const qg_node *n = l->graph->node.at[i];
            qg_lint_site s = { .node = n };
            if (!qg_node_matches(&rule->node, n))
                continue;
            QG_TRY(rule->at_endpoint ? visit_endpoints(l, rule, n) : find(l, rule, &s));
        }
    }
    return QG_OK;
}

/* --- the report --- */

static size_t findings_of(const qg_lint *l, const qg_lint_rule *rule)
{
    size_t n = 0;
    for (size_t i = 0; i < l->found.n; i++)
        n += l->found.at[i].rule == rule;
    return n;
}

static qg_status report_rules(const qg_lint *l, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "rules", "rule level findings why remedy source at", &t));
    t->records = true;
    for (size_t i = 0; i < l->target->rule.n; i++) {
        const qg_lint_rule *rule = &l->target->rule.at[i];
        size_t n = findings_of(l, rule);
        if (n == 0)
            continue;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(rule->origin.id),
                              qg_cell_text(qg_level_name(rule->level)),
                              qg_cell_count(n), qg_cell_text(rule->origin.why),
                              qg_cell_text(rule->remedy),
                              qg_cell_text(rule->origin.source)));
        QG_TRY(qg_table_place(r, t, rule->origin.file, rule->origin.line));
    }
    return QG_OK;
}

static qg_status report_findings(const qg_lint *l, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "findings", "rule where operator detail", &t));
    t->sentences = true;
    for (size_t i = 0; i < l->found.n; i++) {
        const qg_lint_finding *f = &l->found.at[i];
        char where[QG_ENDPOINT_TEXT];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(f->rule->origin.id),
                              qg_cell_text(f->at     ? qg_tqc_text(f->at, where)
                                           : f->node ? f->node->name
                                                     : NULL),
                              qg_cell_text(f->node ? f->node->op->name : NULL),
                              qg_cell_text(f->detail[0] ? f->detail : NULL)));
    }
    return QG_OK;
}

/* Every node with its fate, for programs. */
static qg_status report_nodes(const qg_lint *l, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "nodes", "node operator fate kernel why", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < l->graph->node.n; i++) {
        const qg_node *n = l->graph->node.at[i];
        const qg_lint_node *at = &l->node[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(n->name), qg_cell_text(n->op->name),
                              qg_cell_text(qg_fate_name(at->fate)),
                              qg_cell_text(at->row ? at->row->origin.id : NULL),
                              qg_cell_text(at->why)));
    }
    return QG_OK;
}

static size_t found_of_level(const qg_lint *l, enum qg_level level)
{
    size_t n = 0;
    for (size_t i = 0; i < l->found.n; i++)
        n += l->found.at[i].rule->level == level;
    return n;
}

static qg_status report_found(const qg_lint *l, qg_report *r)
{
    static const char *const fact[QG_NLEVEL] = {
        [QG_LEVEL_ERROR] = "errors",
        [QG_LEVEL_WARNING] = "warnings",
        [QG_LEVEL_NOTE] = "notes",
    };
    QG_TRY(qg_report_add(r, "found", qg_cell_count(l->found.n)));
    for (int k = 0; k < QG_NLEVEL; k++)
        QG_TRY(qg_report_add(r, fact[k],
                             qg_cell_count(found_of_level(l, (enum qg_level)k))));
    return QG_OK;
}

/* Nodes that accumulate products. */
typedef struct products {
    size_t all, integer;
    size_t floats, unfit, inner; /* of the rest: not quantized, without a kernel that
                                  * fits, in bodies of If and the like */
} products;

static products count_products(const qg_lint *l)
{
    products p = { 0 };
    for (size_t i = 0; i < l->graph->node.n; i++) {
        const qg_node *n = l->graph->node.at[i];
        qg_fate f = l->node[i].fate;
        bool is_float = f == QG_FATE_BLOCKED || f == QG_FATE_NONE;
        if (!qg_node_has(n, QG_OP_COMPUTE))
            continue;
        p.all++;
        p.integer += !is_float;
        p.floats += is_float && n->platform != QG_PLATFORM_QUANTIZED;
        p.unfit += is_float && n->platform == QG_PLATFORM_QUANTIZED;
    }
    for (const qg_graph *body = l->graph->bodies; body; body = body->next_body)
        for (size_t i = 0; i < body->node.n; i++)
            p.inner += qg_node_has(body->node.at[i], QG_OP_COMPUTE);
    p.all += p.inner;
    return p;
}

/* Where fewer than half of them are integer. */
static qg_status warn_products(const qg_lint *l)
{
    const products p = count_products(l);
    const struct {
        size_t n;
        const char *text;
    } cause[] = {
        {p.floats, "float in the snapshot"                          },
        { p.unfit, "no kernel of the target fits"                   },
        { p.inner, "in bodies of If, Loop or Scan, which stay float"},
    };
    if (2 * p.integer >= p.all)
        return QG_OK;
    const char *text = "";
    for (size_t i = 0; text && i < sizeof cause / sizeof *cause; i++)
        if (cause[i].n)
            text = qg_arena_printf(l->arena, "%s%s%zu: %s", text, *text ? "; " : "",
                                   cause[i].n, cause[i].text);
    if (!text)
        return qg_nomem(l->ctx);
    qg_warn(l->ctx, "lint: %zu of %zu compute nodes are integer for target %s (%s)",
            p.integer, p.all, l->target->name, text);
    return QG_OK;
}

static qg_status report_products(const qg_lint *l, qg_report *r)
{
    const products p = count_products(l);
    QG_TRY(qg_report_add(r, "compute_nodes", qg_cell_count(p.all)));
    return qg_report_add(r, "integer_compute_nodes", qg_cell_count(p.integer));
}

static qg_status report_summary(const qg_lint *l, qg_report *r)
{
    const qg_lint_conversions *c = &l->conversions;
    QG_TRY(qg_report_add(r, "target", qg_cell_text(l->target->name)));
    QG_TRY(qg_report_add(r, "title", qg_cell_text(l->target->title)));
    QG_TRY(
        qg_report_add(r, "integer_kernels", qg_cell_count(l->count[QG_FATE_INTEGER])));
    QG_TRY(qg_report_add(r, "moves_of_codes", qg_cell_count(l->count[QG_FATE_MOVES])));
    QG_TRY(qg_report_add(r, "fused_nodes", qg_cell_count(l->count[QG_FATE_FUSED])));
    QG_TRY(qg_report_add(r, "other_kernels", qg_cell_count(l->count[QG_FATE_OTHER])));
    QG_TRY(qg_report_add(
        r, "float_nodes",
        qg_cell_count(l->count[QG_FATE_BLOCKED] + l->count[QG_FATE_NONE])));
    QG_TRY(report_products(l, r));
    QG_TRY(qg_report_addf(r, "converted",
                          "%zu to codes, %zu to floats, %zu from grid to grid",
                          c->to_codes, c->to_floats, c->between_grids));
    return report_found(l, r);
}

static qg_status fill(const qg_lint *l, qg_report *r)
{
    QG_TRY(report_summary(l, r));
    QG_TRY(report_rules(l, r));
    QG_TRY(report_findings(l, r));
    return report_nodes(l, r);
}

static qg_status write_files(const qg_lint *l, const qg_lint_options *o, qg_report *r)
{
    size_t mended;
    if (o->sarif)
        QG_TRY(qg_lint_write_sarif(l, o->sarif));
    if (!o->patch)
        return QG_OK;
    QG_TRY(qg_lint_write_patch(l, o->patch, &mended));
    QG_TRY(qg_report_add(r, "mended_by_patch", qg_cell_count(mended)));
    return qg_report_add(r, "written", qg_cell_text(o->patch));
}

/* Neither file replaces the other, nor what was read. */
static qg_status check_files(qg_ctx *ctx, const char *read, const qg_lint_options *o)
{
    const char *file[] = { o->sarif, o->patch, read };
    for (size_t i = 0; i < 2; i++)
        for (size_t k = i + 1; k < 3; k++)
            if (file[i] && file[k] && qg_is_same_file(file[i], file[k]))
                return qg_fail(ctx, QG_ECONFIG,
                               "lint: %s: %s the same file, expected another", file[i],
                               k == 2 ? "what is written and what is read are"
                                      : "findings and patch go to");
    return QG_OK;
}

/* Of a file, of which only Q and DQ are read: others would count as operators. */
static qg_status check_quantizers(const qg_lint *l)
{
    for (size_t i = 0; i < l->graph->node.n; i++) {
        const qg_node *n = l->graph->node.at[i];
        if (qg_node_has(n, QG_OP_QUANTIZER) && !qg_is_quantize_linear(n) &&
            !qg_is_dequantize_linear(n))
            return qg_fail(
                l->ctx, QG_EUNSUPPORTED,
                "lint: %s: is quantized by %s, expected QuantizeLinear, or a "
                "snapshot that `qg import` makes of the file",
                n->name, n->op->name);
    }
    return QG_OK;
}

static qg_status examine(qg_lint *l, const char *target)
{
    qg_search search;
    QG_TRY(qg_config_search(l->ctx, l->arena, "lint", &search));
    QG_TRY(qg_lint_load(l->ctx, l->arena, target, search, &l->target));
    if (l->target->kernel.n == 0)
        return qg_fail(
            l->ctx, QG_ECONFIG,
            "lint: target %s: has no kernels, as a parent of targets, expected "
            "one of `qg list targets` that has",
            l->target->name);
    QG_TRY(qg_lint_place(l));
    QG_TRY(qg_lint_decide(l));
    return find_all(l);
}

QG_OPTIONS_INIT(qg_lint_options)

qg_status qg_model_lint(qg_model *m, const qg_lint_options *given, qg_report **report)
{
    qg_lint_options o;
    qg_model *q;
    qg_report *r = NULL;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_lint_options, given, &o));
    QG_TRY(qg_model_expect_finished(m, "lint"));
    if (!o.target)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "lint: no target, expected one of `qg list targets`");
    QG_TRY(check_files(m->ctx, m->path, &o));
    qg_reads_forget(m->ctx);
    QG_TRY(qg_model_as_written(m, "lint", &q));
    qg_lint l = { .ctx = m->ctx,
                  .arena = qg_arena_new(m->ctx->alloc),
                  .path = m->path,
                  .model = m,
                  .is_snapshot = m->quant != NULL,
                  .graph = q->graph,
                  .quant = q->quant };
    qg_status s = l.arena ? QG_OK : qg_nomem(m->ctx);
    if (s == QG_OK && !m->quant)
        s = check_quantizers(&l);
    if (s == QG_OK)
        s = examine(&l, o.target);
    if (s == QG_OK)
        s = qg_report_new(m->ctx, "lint", &r);
    if (s == QG_OK)
        s = fill(&l, r);
    if (s == QG_OK)
        s = write_files(&l, &o, r);
    if (s == QG_OK)
        s = warn_products(&l);
    qg_arena_free(l.arena);
    return qg_report_end(s, r, report);
}
