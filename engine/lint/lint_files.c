/* lint_files.c -- findings as SARIF 2.1.0 (OASIS), and as a policy patch for `qg
 * quantize --policy`.
 *
 * SARIF    one run; tool.driver.rules has every rule of the target, also those that
 *          found nothing, so that ruleIndex is the position in the target's file.  A
 *          place is a node or an endpoint of the graph (logical location, section
 *          3.33), and its lines in quant.json or the file (physical location, 3.29).
 *          The properties of the run name the target
 * Patch    one rule per finding whose lint rule has a fix, or per value of several.  A
 *          fix that would match nothing behind another one is left out.  Others may
 *          exclude each other, since each is written without regard to the rest; the
 *          last one wins.  Without any the list is empty
 * Ids      of these rules: lint-<rule>-<what it matches>, so that of several patches
 *          of one network a rule replaces only one about the same place
 * Both are written completely or not at all (core/file.h). */
#include "engine/lint/lint.h"

#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/core/json.h"
#include "engine/core/num.h"
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
    qg_yaml_print_name(f, here->name);
    if (both) {
        (void)fputs(", ", f);
        qg_yaml_print_name(f, root->name);
        (void)fputc(']', f);
    }
}

static void print_slot(FILE *f, const qg_node *n, const char *slot)
{
    (void)fputs("node: ", f);
    qg_yaml_print_name(f, n->name);
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

/* What the rule matches, in two names at most: a node; a node and its slot; a value; a
 * value and that of its dominator, as in print_match. */
static void matched(const qg_lint_finding *f, char slot[QG_SLOT_TEXT],
                    const char *name[2])
{
    const qg_value *root = f->at ? qg_tqc_value(qg_tqc_root(f->at)) : NULL;
    name[0] = f->node->name;
    name[1] = "";
    if (f->rule->at_endpoint && is_of_reader(f)) {
        name[1] = qg_slot_text(false, f->at->slot, slot);
    } else if (f->rule->at_endpoint) {
        name[0] = qg_tqc_value(f->at)->name;
        if (!f->rule->fix_removes && root != qg_tqc_value(f->at))
            name[1] = root->name;
    }
}

/* Letters, digits and some marks, of which '-' and '@' are none; short enough to be
 * read. */
static bool is_plain(const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789_./:";
    const size_t longest = 64;
    size_t n = strspn(name, plain);
    return !name[n] && n <= longest;
}

/* "lint-pair-saturation-conv1", "lint-dead-quantizer-add@in0".  Other names than plain
 * ones are cut and end in a hash: "lint-dead-quantizer-a_long-9f86d081884c7d65".  NULL:
 * no memory. */
static const char *fix_id(const qg_lint *l, const qg_lint_finding *f)
{
    enum { BEGIN = 40, DIGITS = 16 };
    char slot[QG_SLOT_TEXT], begin[BEGIN + 1] = "", hash[QG_HASH_TEXT];
    const char *name[2], *rule = f->rule->origin.id;
    matched(f, slot, name);
    if (*name[0] && is_plain(name[0]) && is_plain(name[1]))
        return qg_arena_printf(l->arena, "lint-%s-%s%s%s", rule, name[0],
                               *name[1] ? "@" : "", name[1]);
    qg_hash h;
    qg_hash_begin(&h);
    qg_hash_add(&h, rule, strlen(rule) + 1);
    qg_hash_add(&h, name[0], strlen(name[0]) + 1);
    qg_hash_add(&h, name[1], strlen(name[1]) + 1);
    qg_hash_end(&h, hash);
    for (size_t i = 0; i < BEGIN && name[0][i]; i++) {
        const char one[2] = { name[0][i], '\0' };
        begin[i] = (char)(is_plain(one) ? *one : '_');
    }
    return qg_arena_printf(l->arena, "lint-%s-%s-%.*s", rule, begin, DIGITS, hash);
}

/* --- the text of a fix, for an endpoint --- */

/* The limits [low, high] of a text "..., range: [-128, 127]...": where they begin and
 * end.  False: it has none. */
static bool find_range(const char *set, const char **begin, const char **end)
{
    static const char key[] = "range: [";
    *begin = strstr(set, key);
    *end = *begin ? strchr(*begin, ']') : NULL;
    *begin = *begin ? *begin + sizeof key - 1 : NULL;
    return *end != NULL;
}

/* The limits of codes that a fix sets, or those that it leaves. */
static void limits_of(const char *set, int64_t *low, int64_t *high)
{
    const char *word, *end;
    if (!find_range(set, &word, &end))
        return;
    const char *comma = strchr(word, ',');
    if (!comma || comma > end)
        return;
    (void)qg_num_parse_i64(word, (size_t)(comma - word), low);
    (void)qg_num_parse_i64(comma + 2, (size_t)(end - comma - 2), high);
}

/* The limits of a fix are of 8 bits: those of as many bits as the endpoint has. */
static const char *narrowed(const qg_lint *l, const char *set, unsigned bits)
{
    const char *begin, *end;
    int64_t low = 0, high = 0;
    if (!find_range(set, &begin, &end))
        return set;
    limits_of(set, &low, &high);
    const int64_t most = (INT64_C(1) << (low < 0 ? bits - 1 : bits)) - 1;
    const int64_t least = low == 0 ? 0 : low == -high ? -most : -most - 1;
    return qg_arena_printf(l->arena, "%.*s%lld, %lld%s", (int)(begin - set), set,
                           (long long)least, (long long)most, end);
}

/* The text with more keys at its end. */
static const char *with_more(const qg_lint *l, const char *set, unsigned bits,
                             bool is_signed)
{
    const long long half = 1LL << (bits - 1);
    return qg_arena_printf(l->arena, "%.*s, bits: %u, range: [%lld, %lld]}",
                           (int)strlen(set) - 1, set, bits, is_signed ? -half : 0,
                           is_signed ? half - 1 : 2 * half - 1);
}

/* What a rule's fix is at this endpoint: limits of as many bits as it has; signed codes
 * where symmetric ones were unsigned; all 256 codes for a grid that is prescribed.
 * NULL: no memory. */
static const char *fix_of(const qg_lint *l, const qg_lint_finding *f)
{
    const char *set = f->rule->fix, *begin, *end;
    const qg_scheme *s = f->at ? &f->at->scheme : NULL;
    if (!s || !f->rule->at_endpoint || !(s->policy & QG_LINEAR) || strstr(set, "bits:"))
        return set;
    if (find_range(set, &begin, &end))
        return s->bits < 8 ? narrowed(l, set, s->bits) : set;
    if (strstr(set, "observer: fixed") && s->qmax - s->qmin != 255)
        return with_more(l, set, 8, s->qmin < 0);
    if (strstr(set, " symmetric") && s->qmin >= 0)
        return with_more(l, set, s->bits, true);
    return set;
}

/* Whether a fix that prescribes a grid would give it to values of other nodes: those
 * that share it and do not only move what the value holds. */
static bool prescribes_others(const qg_lint *l, const qg_lint_finding *f)
{
    const qg_tqc *root = f->at ? qg_tqc_root(f->at) : NULL;
    if (!root || !f->rule->fix || !strstr(f->rule->fix, "observer: fixed"))
        return false;
    for (size_t i = 0; i < l->quant->tqc.n; i++) {
        const qg_tqc *t = l->quant->tqc.at[i];
        const qg_value *v = qg_tqc_value(t);
        if (qg_tqc_root(t) == root && v != qg_tqc_value(f->at) &&
            !(v->def && qg_node_has(v->def, QG_OP_PASSIVE | QG_OP_COPY)))
            return true;
    }
    return false;
}

/* A fixed scale was made for its zero point and its codes: [-128, 127] with 1/256 and
 * without a zero point is a half of what a Sigmoid gives.  One that covers less behind
 * the fix, by more than one step, is observed. */
static bool loses_range(const qg_lint_finding *at, const char *set)
{
    const qg_tqc *t = at->at ? qg_tqc_root(at->at) : NULL;
    if (!t || strstr(set, "observer:") || !qg_tqc_is_prescribed(t))
        return false;
    const int64_t was[] = { t->scheme.qmin, t->scheme.qmax };
    int64_t now[] = { was[0], was[1] };
    limits_of(set, &now[0], &now[1]);
    qg_qparam p = qg_tqc_param(t);
    for (size_t i = 0; i < p.n; i++) {
        int64_t zero = p.offset ? p.offset[i] : 0;
        int64_t moved = strstr(set, " symmetric") ? zero : 0;
        if (was[0] < now[0] - 1 + moved || was[1] > now[1] + 1 + moved)
            return true;
    }
    return false;
}

/* Whether the rule is about the number of scales. */
static bool counts_scales(const qg_lint_rule *rule)
{
    for (size_t i = 0; i < rule->when.n; i++) {
        qg_predicate p = rule->when.at[i].predicate;
        if (p == QG_PREDICATE_PER_CHANNEL || p == QG_PREDICATE_ONE_SCALE)
            return true;
    }
    return false;
}

static bool fixes_value(const qg_lint_finding *f)
{
    return f->rule->fix && f->rule->at_endpoint && !is_of_reader(f);
}

/* The last fix before it in the patch that is about the number of scales of the same
 * value; NULL: there is none. */
static const char *scales_before(const qg_lint *l, size_t i)
{
    const qg_lint_finding *f = &l->found.at[i], *at = l->found.at;
    const char *last = NULL;
    for (size_t k = 0; fixes_value(f) && k < i; k++)
        if (fixes_value(&at[k]) && counts_scales(at[k].rule) &&
            qg_tqc_value(at[k].at) == qg_tqc_value(f->at))
            last = at[k].rule->fix;
    return last;
}

/* A fix says a whole policy.  One that is about zero points or limits leaves a weight
 * its scales: those of the record, *axis, or those that a rule before it in the patch
 * gives, *axis -1. */
static bool keeps_channels(const qg_lint *l, size_t i, int *axis)
{
    const qg_lint_finding *f = &l->found.at[i];
    if (!fixes_value(f) || counts_scales(f->rule) || !qg_tqc_is_constant(f->at) ||
        !strstr(f->rule->fix, "per-tensor") || qg_tqc_role(f->at) != 'w')
        return false;
    const char *before = scales_before(l, i);
    *axis = before ? -1 : f->at->scheme.axis;
    return before ? strstr(before, "per-channel") != NULL
                  : (f->at->scheme.policy & QG_PER_CHANNEL) != 0;
}

/* The text of a fix, up to the brace that ends it; a weight to which one before gives
 * one scale keeps one. */
static void print_set(FILE *f, const qg_lint *l, size_t i, const char *set)
{
    static const char *const grain[] = { "per-tensor", "per-channel" };
    const char *tail = set, *word;
    int axis;
    bool keeps = keeps_channels(l, i, &axis);
    const char *before = scales_before(l, i);
    bool other = keeps || (before && strstr(before, "per-tensor"));
    if (other && (word = strstr(set, grain[!keeps])) != NULL) {
        (void)fprintf(f, "%.*s%s", (int)(word - set), set, grain[keeps]);
        tail = word + strlen(grain[!keeps]);
    }
    if (!keeps)
        axis = -1;
    (void)fprintf(f, "%.*s", (int)strlen(tail) - 1, tail);
    if (axis >= 0)
        (void)fprintf(f, ", axis: %d", axis);
}

static qg_status print_fix(FILE *f, const qg_lint *l, size_t i)
{
    const qg_lint_finding *at = &l->found.at[i];
    const char *id = fix_id(l, at), *set = fix_of(l, at);
    if (!id || !set)
        return qg_nomem(l->ctx);
    (void)fputs("  - id: ", f);
    qg_yaml_print_text(f, id);
    (void)fputs("\n    match: {", f);
    print_match(f, at);
    (void)fputs("}\n    set: ", f);
    print_set(f, l, i, set);
    (void)fprintf(f,
                  "%s}\n    why: ", loses_range(at, set) ? ", observer: minmax" : "");
    qg_yaml_print_text(f, at->rule->origin.why);
    (void)fputc('\n', f);
    return QG_OK;
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

static bool has_floating_fix(const qg_lint *l, const qg_node *n)
{
    for (size_t i = 0; i < l->found.n; i++)
        if (l->found.at[i].rule->fix && l->found.at[i].rule->fix_floats &&
            l->found.at[i].node == n)
            return true;
    return false;
}

/* Whether a fix makes the node float, or the producer that a clamp follows: most
 * dispatchers keep it with that one. */
static bool is_floated(const qg_lint *l, const qg_node *n)
{
    for (; n; n = n->op->clamp && n->n_in > 0 && n->in[0] ? n->in[0]->def : NULL)
        if (has_floating_fix(l, n))
            return true;
    return false;
}

/* Whether a node that stays quantized makes or reads the value. */
static bool is_at_codes(const qg_lint *l, const qg_value *v)
{
    if (v->def && v->def->platform == QG_PLATFORM_QUANTIZED && !is_floated(l, v->def))
        return true;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        if (n->platform == QG_PLATFORM_QUANTIZED && !is_floated(l, n))
            return true;
    }
    return false;
}

/* Whether other fixes make the nodes float that this one would match. */
static bool is_void(const qg_lint *l, const qg_lint_finding *f)
{
    if (f->rule->fix_floats)
        return false;
    if (!fixes_value(f))
        return is_floated(l, f->node);
    const qg_value *root = qg_tqc_value(qg_tqc_root(f->at));
    return !is_at_codes(l, qg_tqc_value(f->at)) &&
           (f->rule->fix_removes || !root || !is_at_codes(l, root));
}

static bool is_printed(const qg_lint *l, size_t i)
{
    const qg_lint_finding *f = &l->found.at[i];
    return f->rule->fix && !prescribes_others(l, f) && !is_patched(l, i) &&
           !is_void(l, f);
}

static qg_status print_patch(FILE *f, const qg_lint *l, size_t mended)
{
    size_t printed = 0;
    for (size_t i = 0; i < l->found.n; i++)
        printed += is_printed(l, i);
    (void)fprintf(f, "# qg lint --target %s: %zu of %zu findings\nrules:%s\n",
                  l->target->name, mended, l->found.n, printed ? "" : " []");
    for (size_t i = 0; i < l->found.n; i++)
        if (is_printed(l, i))
            QG_TRY(print_fix(f, l, i));
    return QG_OK;
}

qg_status qg_lint_write_patch(const qg_lint *l, const char *path, size_t *n)
{
    qg_writer w;
    *n = 0;
    for (size_t i = 0; i < l->found.n; i++)
        *n += l->found.at[i].rule->fix && !prescribes_others(l, &l->found.at[i]);
    QG_TRY(qg_writer_open(l->ctx, path, &w));
    qg_status s = print_patch(w.stream, l, *n);
    if (s == QG_OK)
        s = qg_writer_commit(&w);
    qg_writer_abandon(&w);
    return s;
}
