/* lint_files.c -- findings as SARIF 2.1.0 (OASIS), and as a policy patch for `qg
 * quantize --policy`.
 *
 * SARIF    one run; tool.driver.rules has every rule of the target, also those that
 *          found nothing, so that ruleIndex is the position in the target's file.  A
 *          place is a node or an endpoint of the graph (logical location, section
 *          3.33), and its lines in quant.json or the file (physical location, 3.29).
 *          The properties of the run name the target
 * Patch    one rule per finding whose lint rule has a fix, or per value of several,
 *          with a name that leads back to it: lint-<rule>-<number>.  A fix that would
 *          match nothing behind another one is left out.  Others may exclude each
 *          other, since each is written without regard to the rest; the last one wins
 * Both are written completely or not at all (core/file.h). */
#include "engine/lint/lint.h"

#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/json.h"
#include "engine/api/qg.h"

/* --- SARIF --- */

static void put_message(qg_json_writer *w, const char *key, const char *text)
{
    qg_json_put_object_line(w, key);
    qg_json_put_text(w, "text", text);
    qg_json_put_end(w);
}

/* tool.driver.rules: every rule of the target, found or not. */
static void put_rules(qg_json_writer *w, const qg_lint *l)
{
    qg_json_put_array(w, "rules");
    for (size_t i = 0; i < l->target->rule.n; i++) {
        const qg_lint_rule *rule = &l->target->rule.at[i];
        qg_json_put_object(w, NULL);
        qg_json_put_text(w, "id", rule->origin.id);
        put_message(w, "shortDescription", rule->origin.why);
        put_message(w, "help", rule->remedy);
        if (strncmp(rule->origin.source, "https://", 8) == 0 &&
            !strchr(rule->origin.source, ' '))
            qg_json_put_text(w, "helpUri", rule->origin.source);
        qg_json_put_object_line(w, "defaultConfiguration");
        qg_json_put_text(w, "level", qg_level_name(rule->level));
        qg_json_put_end(w);
        qg_json_put_object_line(w, "properties");
        qg_json_put_text(w, "source", rule->origin.source);
        qg_json_put_end(w);
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

static void put_physical(qg_json_writer *w, const qg_lint_places *p,
                         const qg_lint_finding *f)
{
    const uint32_t *line = f->at ? p->tqc_line : p->node_line;
    qg_json_put_object_line(w, "physicalLocation");
    qg_json_put_object_line(w, "artifactLocation");
    qg_json_put_text(w, "uri", p->uri);
    qg_json_put_end(w);
    if (line && f->node) {
        qg_json_put_object_line(w, "region");
        qg_json_put_int(w, "startLine", line[f->at ? f->at->id : f->node->id]);
        qg_json_put_end(w);
    }
    qg_json_put_end(w);
}

static qg_status put_place(qg_json_writer *w, const qg_lint *l, const qg_lint_places *p,
                           const qg_lint_finding *f)
{
    const char *where = f->at ? qg_endpoint_full_text(l->arena, qg_tqc_endpoint(f->at))
                              : (f->node ? f->node->name : l->graph->name);
    if (!where)
        return qg_nomem(l->ctx);
    qg_json_put_array(w, "locations");
    qg_json_put_object(w, NULL);
    if (p->uri)
        put_physical(w, p, f);
    qg_json_put_array(w, "logicalLocations");
    qg_json_put_object_line(w, NULL);
    qg_json_put_text(w, "name", f->node ? f->node->name : where);
    qg_json_put_text(w, "fullyQualifiedName", where);
    qg_json_put_text(w, "kind", f->at ? "member" : (f->node ? "function" : "module"));
    qg_json_put_end(w);
    qg_json_put_end(w);
    qg_json_put_end(w);
    qg_json_put_end(w);
    return QG_OK;
}

static qg_status put_result(qg_json_writer *w, const qg_lint *l,
                            const qg_lint_places *p, const qg_lint_finding *f)
{
    const char *text =
        qg_arena_printf(l->arena, "%s%s%s%s", f->rule->origin.why,
                        f->detail[0] ? " (" : "", f->detail, f->detail[0] ? ")" : "");
    if (!text)
        return qg_nomem(l->ctx);
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "ruleId", f->rule->origin.id);
    qg_json_put_int(w, "ruleIndex", f->rule - l->target->rule.at);
    qg_json_put_text(w, "level", qg_level_name(f->rule->level));
    put_message(w, "message", text);
    QG_TRY(put_place(w, l, p, f));
    qg_json_put_end(w);
    return QG_OK;
}

static qg_status put_run(qg_json_writer *w, const qg_lint *l)
{
    qg_lint_places places;
    QG_TRY(qg_lint_find_places(l, &places));
    qg_json_put_object(w, NULL);
    qg_json_put_object(w, "tool");
    qg_json_put_object(w, "driver");
    qg_json_put_text(w, "name", "quantgraph");
    qg_json_put_text(w, "version", qg_version());
    put_rules(w, l);
    qg_json_put_end(w);
    qg_json_put_end(w);
    qg_json_put_array(w, "results");
    for (size_t i = 0; i < l->found.n; i++)
        QG_TRY(put_result(w, l, &places, &l->found.at[i]));
    qg_json_put_end(w);
    qg_json_put_object_line(w, "properties");
    qg_json_put_text(w, "target", l->target->name);
    qg_json_put_end(w);
    qg_json_put_end(w);
    return QG_OK;
}

qg_status qg_lint_write_sarif(const qg_lint *l, const char *path)
{
    qg_writer file;
    qg_json_writer w;
    QG_TRY(qg_writer_open(l->ctx, path, &file));
    qg_json_begin(&w, l->ctx, file.stream);
    qg_json_put_object(&w, NULL);
    qg_json_put_text(&w, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    qg_json_put_text(&w, "version", "2.1.0");
    qg_json_put_array(&w, "runs");
    qg_status s = put_run(&w, l);
    if (s == QG_OK) {
        qg_json_put_end(&w);
        qg_json_put_end(&w);
        s = qg_json_done(&w);
    }
    if (s == QG_OK)
        s = qg_writer_commit(&file);
    qg_writer_abandon(&file);
    return s;
}

/* --- the patch --- */

/* A grid is mended at every endpoint of its value: on another grid, a reader would
 * round it again.  One that is shared (behind a MaxPool) is mended at the value of its
 * dominator too, whose grid counts. */
static void print_value(FILE *f, const qg_tqc *t, bool with_root)
{
    const qg_value *here = qg_tqc_value(t), *root = qg_tqc_value(qg_tqc_root(t));
    bool both = with_root && here != root;
    (void)fputs(both ? "value: [" : "value: ", f);
    qg_yaml_print_text(f, here->name);
    if (both) {
        (void)fputs(", ", f);
        qg_yaml_print_text(f, root->name);
        (void)fputc(']', f);
    }
}

static void print_slot(FILE *f, const qg_node *n, const char *slot)
{
    (void)fputs("node: ", f);
    qg_yaml_print_text(f, n->name);
    (void)fprintf(f, ", slot: %s", slot);
}

/* A quantizer in front of one reader is taken away there, since others may need theirs;
 * one behind the producer for all readers, which have its codes.  Values that share its
 * grid keep theirs; targets say `deactivated` rather than `fp32`, since `align` lets a
 * sum with an operand in float be float as a whole. */
static bool is_of_reader(const qg_lint_finding *f)
{
    return f->rule->fix_removes && !f->at->is_output;
}

static void print_match(FILE *f, const qg_lint_finding *at)
{
    const qg_lint_rule *rule = at->rule;
    char slot[QG_SLOT_TEXT];
    if (!rule->at_endpoint)
        print_slot(f, at->node, rule->fix_slot);
    else if (is_of_reader(at))
        print_slot(f, at->node, qg_slot_text(false, at->at->slot, slot));
    else
        print_value(f, at->at, !rule->fix_removes);
}

/* A fixed scale was made for its zero point: without that it covers half of the values,
 * [0, 127/256] of a Sigmoid.  Such an endpoint is observed. */
static bool loses_range(const qg_lint_finding *at)
{
    const qg_tqc *t = at->at ? qg_tqc_root(at->at) : NULL;
    const char *set = at->rule->fix;
    if (!t || !strstr(set, " symmetric") || strstr(set, "observer:") ||
        !t->observer.name || strcmp(t->observer.name, "fixed") != 0)
        return false;
    qg_qparam p = qg_tqc_param(t);
    for (size_t i = 0; p.offset && i < p.n; i++)
        if (p.offset[i] != 0)
            return true;
    return false;
}

static void print_fix(FILE *f, const qg_lint_finding *at, size_t k)
{
    const qg_lint_rule *rule = at->rule;
    (void)fprintf(f, "  - id: lint-%s-%zu\n    match: {", rule->origin.id, k);
    print_match(f, at);
    (void)fprintf(f, "}\n    set: %.*s%s}\n    why: ", (int)strlen(rule->fix) - 1,
                  rule->fix, loses_range(at) ? ", observer: minmax" : "");
    qg_yaml_print_text(f, rule->origin.why);
    (void)fputc('\n', f);
}

/* Whether one before it patches the same value: two readers of it were found. */
static bool is_patched(const qg_lint *l, size_t i)
{
    const qg_lint_finding *f = &l->found.at[i], *at = l->found.at;
    if (!f->rule->at_endpoint || is_of_reader(f))
        return false;
    for (size_t k = 0; k < i; k++)
        if (at[k].rule == f->rule && !is_of_reader(&at[k]) &&
            qg_tqc_value(at[k].at) == qg_tqc_value(f->at) &&
            qg_tqc_value(qg_tqc_root(at[k].at)) == qg_tqc_value(qg_tqc_root(f->at)))
            return true;
    return false;
}

/* Whether another fix makes the finding's node float, so that this one would match
 * nothing. */
static bool is_void(const qg_lint *l, const qg_lint_finding *f)
{
    const qg_value *v = f->at ? qg_tqc_value(f->at) : NULL;
    bool here = !f->at || is_of_reader(f) || (v && v->constant && v->use.n == 1);
    if (f->rule->fix_floats || !here)
        return false;
    for (size_t i = 0; i < l->found.n; i++)
        if (l->found.at[i].rule->fix && l->found.at[i].rule->fix_floats &&
            l->found.at[i].node == f->node)
            return true;
    return false;
}

qg_status qg_lint_write_patch(const qg_lint *l, const char *path, size_t *n)
{
    qg_writer w;
    *n = 0;
    for (size_t i = 0; i < l->found.n; i++)
        *n += l->found.at[i].rule->fix != NULL;
    if (*n == 0)
        return QG_OK;
    QG_TRY(qg_writer_open(l->ctx, path, &w));
    (void)fprintf(w.stream, "# qg lint --target %s: %zu of %zu findings\nrules:\n",
                  l->target->name, *n, l->found.n);
    for (size_t i = 0, k = 0; i < l->found.n; i++)
        if (l->found.at[i].rule->fix && !is_patched(l, i) &&
            !is_void(l, &l->found.at[i]))
            print_fix(w.stream, &l->found.at[i], ++k);
    return qg_writer_commit(&w);
}
