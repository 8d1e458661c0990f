/* lint_yaml.c -- reads a family of target files, parents first, into one target: each
 * file changes what its parent left.
 *
 *     parent   kernels [conv, add]       rules [bias, pairs]
 *     child    -kernels [add]            -rules [pairs]
 *              kernels [conv-1d]         rules [bias, range]
 *     target   kernels [conv-1d, conv]   rules [bias of the child, range]
 *
 * The first kernel row that fits decides, so rows of the child come before those of the
 * parent, and an id must be new: two rows of one id would be a mistake.  Rules are
 * independent of each other, so a rule replaces the one of its id in place, which keeps
 * reports of parent and child in the same order.  Removal is first; an id that the
 * parent does not have is an error, since it is usually misspelled.
 *
 * Selectors and settings are those of backend files and have the same reader
 * (config/rules.h); a backend with 8-bit defaults stands for the one that a `fix` would
 * patch, so that an invalid `set` is found here and not by the reader of the patch. */
#include "engine/config/lint_yaml.h"

#include <stdio.h>
#include <string.h>

#include "engine/config/family.h"
#include "engine/config/rules.h"
#include "engine/core/num.h"
#include "engine/core/suggest.h"

typedef struct word_row {
    const char *word, *meaning;
    enum qg_argument argument;
} word_row;

static const word_row predicates[] = {
#define X(id, word, argument, meaning) { word, meaning, QG_ARG_##argument },
    QG_PREDICATE_MAP(X)
#undef X
};

static const char *const fates[] = {
#define X(id, word, meaning) word,
    QG_FATE_MAP(X)
#undef X
};

static const char *const carries[] = { "no", "yes", "to-readers", "forward", NULL };

static const char *const levels[] = { "error", "warning", "note", NULL };

const char *qg_predicate_name(qg_predicate p) { return predicates[p].word; }

const char *qg_predicate_meaning(qg_predicate p) { return predicates[p].meaning; }

const char *qg_fate_name(qg_fate f) { return fates[f]; }

const char *qg_carry_name(qg_carry c) { return carries[c]; }

const char *qg_level_name(enum qg_level l) { return levels[l]; }

/* State of the reader of one family. */
typedef struct reader {
    qg_backend_reader base; /* for selectors and settings */
    qg_ctx *ctx;
    qg_arena *arena;
    qg_lint_target *t;
} reader;

/* --- conditions --- */

static qg_status find_predicate(const reader *r, const qg_yaml *y, const char *what,
                                const char *word, qg_predicate *out)
{
    char text[QG_SUGGEST_TEXT];
    qg_suggest s = qg_suggest_for(word);
    for (int p = 0; p < QG_NPREDICATE; p++) {
        qg_suggest_try(&s, predicates[p].word);
        if (strcmp(word, predicates[p].word) == 0) {
            *out = (qg_predicate)p;
            return QG_OK;
        }
    }
    return qg_yaml_fail(r->ctx, y, what,
                        "'%s' is no predicate, expected one of `qg list predicates`%s",
                        word, qg_suggest_text(&s, text));
}

/* The words of `fate` are those of QG_FATE_MAP, of `export-refuses` placements, others
 * operators. */
static qg_status check_words(const reader *r, const qg_yaml *y, const char *what,
                             const qg_condition *c)
{
    static const char *const known[] = {
#define X(id, word, meaning) word,
        QG_FATE_MAP(X)
#undef X
            NULL
    };
    const char *const *words = c->predicate == QG_PREDICATE_FATE ? known
                               : c->predicate == QG_PREDICATE_EXPORT_REFUSES
                                   ? qg_placements
                                   : NULL;
    for (size_t i = 0; i < c->n_word; i++) {
        const qg_yaml *at = y->kind == QG_YAML_LIST ? y->item[i] : y;
        int k;
        if (words)
            QG_TRY(qg_yaml_choice(r->ctx, at, what, words, &k));
        else
            QG_TRY(qg_need_op(&r->base, at, what, c->word[i]));
    }
    return QG_OK;
}

/* `word`, or the argument y of one. */
static qg_status read_predicate(const reader *r, const qg_yaml *at, const qg_yaml *y,
                                const char *what, qg_condition *c)
{
    const char *word = y ? at->key[0] : at->text;
    QG_TRY(find_predicate(r, at, what, word, &c->predicate));
    enum qg_argument wanted = predicates[c->predicate].argument;
    if (!y && wanted != QG_ARG_NONE)
        return qg_yaml_fail(r->ctx, at, what, "'%s' alone, expected {%s: %s}", word,
                            word, wanted == QG_ARG_NUMBER ? "number" : "[words]");
    if (y && wanted == QG_ARG_NONE)
        return qg_yaml_fail(r->ctx, at, what,
                            "'%s' with an argument, expected the word alone", word);
    if (wanted == QG_ARG_NUMBER)
        return qg_yaml_number(r->ctx, y, what, -0x1p64, 0x1p64, &c->number);
    if (wanted == QG_ARG_NONE)
        return QG_OK;
    QG_TRY(qg_yaml_some(r->ctx, r->arena, y, what, &c->word, &c->n_word));
    return check_words(r, y, what, c);
}

/* One item of `when:`. */
static qg_status read_condition(const reader *r, const qg_yaml *y, const char *what,
                                qg_condition *c)
{
    while (y->kind == QG_YAML_MAP && y->n == 1 && strcmp(y->key[0], "not") == 0) {
        c->is_not = !c->is_not;
        y = y->item[0];
    }
    if (y->kind == QG_YAML_LIST || (y->kind == QG_YAML_MAP && y->n != 1))
        return qg_yaml_fail(r->ctx, y, what,
                            "expected a predicate, {predicate: argument} or {not: "
                            "condition}");
    return read_predicate(r, y, y->kind == QG_YAML_MAP ? y->item[0] : NULL, what, c);
}

/* `when:`; absent in a kernel row, which then fits every node that matches. */
static qg_status read_when(const reader *r, const qg_yaml *map, const char *what,
                           bool endpoint, qg_conditions *out)
{
    const qg_yaml *list = qg_yaml_get(map, "when");
    char where[QG_WHAT_TEXT + 8];
    if (!list)
        return QG_OK;
    (void)snprintf(where, sizeof where, "%s: when", what);
    if (list->kind != QG_YAML_LIST || list->n == 0)
        return qg_yaml_fail(r->ctx, list, where, "expected a list of conditions");
    qg_condition *c = QG_NEWN(r->arena, list->n, qg_condition);
    if (!c)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < list->n; i++) {
        QG_TRY(read_condition(r, list->item[i], where, &c[i]));
        if (c[i].predicate >= QG_PREDICATE_ROUNDS && !endpoint)
            return qg_yaml_fail(r->ctx, list->item[i], where,
                                "'%s' is about an endpoint, expected at: endpoint",
                                predicates[c[i].predicate].word);
    }
    *out = (qg_conditions){ c, list->n };
    return QG_OK;
}

const char *qg_conditions_text(qg_arena *a, const qg_conditions *c)
{
    const char *text = "";
    for (size_t i = 0; text && i < c->n; i++) {
        const qg_condition *at = &c->at[i];
        char number[QG_NUM_TEXT] = "";
        if (predicates[at->predicate].argument == QG_ARG_NUMBER)
            qg_num_f64(number, at->number);
        size_t digits = strlen(number);
        if (digits > 2 && strcmp(number + digits - 2, ".0") == 0)
            number[digits - 2] = '\0'; /* opset 21, not 21.0 */
        text = qg_arena_printf(a, "%s%s%s%s%s%s", text, i ? ", " : "",
                               at->is_not ? "not " : "", predicates[at->predicate].word,
                               *number ? " " : "", number);
        for (size_t k = 0; text && k < at->n_word; k++)
            text =
                qg_arena_printf(a, "%s%s%s%s", text, k ? " or " : " ", at->word[k], "");
    }
    return text;
}

/* --- rows --- */

static qg_status read_node_match(const reader *r, const qg_yaml *y, const char *what,
                                 qg_node_match *node, qg_endpoint_match *at)
{
    static const char *const of_runs[] = { "from", "to", "layer", "errors", "above" };
    const qg_yaml *match = qg_yaml_get(y, "match");
    for (size_t i = 0; match && i < sizeof of_runs / sizeof *of_runs; i++)
        if (qg_yaml_get(match, of_runs[i]))
            return qg_yaml_fail(r->ctx, qg_yaml_get(match, of_runs[i]), what,
                                "match: '%s' is for overrides of a run, expected op, "
                                "trait, node, attr, or keys of an endpoint",
                                of_runs[i]);
    return match ? qg_read_match(&r->base, match, what, node, at) : QG_OK;
}

static qg_status read_kernel(const reader *r, const qg_yaml *y, qg_lint_kernel *out)
{
    static const char *const keys[] = { "id",  "match",  "as",      "when",
                                        "why", "source", "carries", NULL };
    static const char *const as[] = { "integer", "moves", "fused", "other", NULL };
    char what[QG_WHAT_TEXT];
    const qg_yaml *item;
    int kind = QG_FATE_INTEGER, carry = QG_CARRY_NO;
    qg_lint_kernel k = { 0 };
    QG_TRY(qg_read_origin(&r->base, y, "kernel", &k.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "match", &item));
    QG_TRY(read_node_match(r, y, what, &k.node, NULL));
    if ((item = qg_yaml_get(y, "as")))
        QG_TRY(qg_yaml_choice(r->ctx, item, what, as, &kind));
    if ((item = qg_yaml_get(y, "carries")))
        QG_TRY(qg_yaml_choice(r->ctx, item, what, carries, &carry));
    if (carry == QG_CARRY_YES && kind == QG_FATE_FUSED)
        return qg_yaml_fail(r->ctx, item, what,
                            "carries: yes, expected another fate than fused");
    QG_TRY(read_when(r, y, what, false, &k.when));
    k.as = (qg_fate)kind;
    k.carries = (qg_carry)carry;
    *out = k;
    return QG_OK;
}

/* A map of words and lists of words as flow YAML, on one line. */
static const char *flow_text(const reader *r, const qg_yaml *y)
{
    const char *text = "";
    if (y->kind == QG_YAML_SCALAR)
        return y->text;
    for (size_t i = 0; text && i < y->n; i++) {
        const char *item = flow_text(r, y->item[i]);
        text = item ? qg_arena_printf(r->arena, "%s%s%s%s%s", text, i ? ", " : "",
                                      y->kind == QG_YAML_MAP ? y->key[i] : "",
                                      y->kind == QG_YAML_MAP ? ": " : "", item)
                    : NULL;
    }
    return text ? qg_arena_printf(r->arena, y->kind == QG_YAML_MAP ? "{%s}" : "[%s]",
                                  text)
                : NULL;
}

/* `fix: {slot: weight, set: {...}}`; `set` is read as a policy would be, over defaults
 * of 8 bits. */
static qg_status read_fix(const reader *r, const qg_yaml *map, const char *what,
                          qg_lint_rule *out)
{
    static const char *const keys[] = { "slot", "set", NULL };
    const qg_yaml *y = qg_yaml_get(map, "fix"), *set, *slot;
    qg_set checked;
    char where[QG_WHAT_TEXT];
    if (!y)
        return QG_OK;
    (void)snprintf(where, sizeof where, "%.140s: fix", what);
    QG_TRY(qg_yaml_keys(r->ctx, y, where, keys));
    QG_TRY(qg_yaml_need(r->ctx, y, where, "set", &set));
    QG_TRY(qg_read_set(&r->base, set, where, &checked));
    if ((slot = qg_yaml_get(y, "slot")))
        QG_TRY(qg_yaml_text(r->ctx, slot, where, &out->fix_slot));
    if (!slot != out->at_endpoint)
        return qg_yaml_fail(r->ctx, y, where,
                            slot ? "slot, expected none: the value of the endpoint is "
                                   "patched"
                                 : "no slot, expected one: the finding is about a "
                                   "node");
    out->fix_removes =
        checked.fields & QG_SET_STATE &&
        (checked.state == QG_TQC_FP32 || checked.state == QG_TQC_DEACTIVATED);
    out->fix_floats =
        checked.fields & QG_SET_PLATFORM && checked.platform == QG_PLATFORM_FP32;
    out->fix = flow_text(r, set);
    return out->fix ? QG_OK : qg_nomem(r->ctx);
}

/* Where a rule is tested, and what has to hold there. */
static qg_status read_test(const reader *r, const qg_yaml *y, const char *what,
                           qg_lint_rule *rule)
{
    static const char *const places[] = { "node", "endpoint", NULL };
    const qg_yaml *item;
    int at = 0;
    if ((item = qg_yaml_get(y, "at")))
        QG_TRY(qg_yaml_choice(r->ctx, item, what, places, &at));
    rule->at_endpoint = at == 1;
    QG_TRY(read_node_match(r, y, what, &rule->node, at == 1 ? &rule->at : NULL));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "when", &item));
    QG_TRY(read_when(r, y, what, at == 1, &rule->when));
    return read_fix(r, y, what, rule);
}

/* A rule with `refused-by` is about the whole network. */
static qg_status read_refused(const reader *r, const qg_yaml *y, const qg_yaml *format,
                              const char *what, qg_lint_rule *rule)
{
    static const char *const of_nodes[] = { "match", "at", "when", "fix" };
    for (size_t i = 0; i < sizeof of_nodes / sizeof *of_nodes; i++)
        if (qg_yaml_get(y, of_nodes[i]))
            return qg_yaml_fail(r->ctx, qg_yaml_get(y, of_nodes[i]), what,
                                "'%s' beside refused-by, which is about the whole "
                                "network, expected one of the two",
                                of_nodes[i]);
    return qg_yaml_text(r->ctx, format, what, &rule->refused_by);
}

static qg_status read_rule(const reader *r, const qg_yaml *y, qg_lint_rule *out)
{
    static const char *const keys[] = { "id",    "match",      "at",     "when",
                                        "level", "why",        "source", "remedy",
                                        "fix",   "refused-by", NULL };
    char what[QG_WHAT_TEXT];
    const qg_yaml *item;
    int level = QG_LEVEL_WARNING;
    qg_lint_rule rule = { 0 };
    QG_TRY(qg_read_origin(&r->base, y, "rule", &rule.origin, what));
    QG_TRY(qg_yaml_keys(r->ctx, y, what, keys));
    if ((item = qg_yaml_get(y, "level")))
        QG_TRY(qg_yaml_choice(r->ctx, item, what, levels, &level));
    rule.level = (enum qg_level)level;
    item = qg_yaml_get(y, "refused-by");
    QG_TRY(item ? read_refused(r, y, item, what, &rule) : read_test(r, y, what, &rule));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "remedy", &item));
    QG_TRY(qg_yaml_text(r->ctx, item, what, &rule.remedy));
    *out = rule;
    return QG_OK;
}

/* --- a file --- */

static qg_status list_of(const reader *r, const qg_yaml *file, const char *key,
                         const qg_yaml **out)
{
    *out = qg_yaml_get(file, key);
    if (*out && (*out)->kind != QG_YAML_LIST)
        return qg_yaml_fail(r->ctx, *out, key, "expected a list of maps");
    return QG_OK;
}

static qg_status remove_kernels(const reader *r, const qg_yaml *file)
{
    const qg_yaml *less = qg_yaml_get(file, "-kernels");
    const char *const *id = NULL;
    size_t n = 0;
    qg_lint_target *t = r->t;
    if (less)
        QG_TRY(qg_yaml_words(r->ctx, r->arena, less, "-kernels", &id, &n));
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;
        while (i < t->kernel.n && strcmp(t->kernel.at[i].origin.id, id[k]) != 0)
            i++;
        if (i == t->kernel.n)
            return qg_yaml_fail(r->ctx, less, "-kernels",
                                "there is no id '%s', expected one of the parent",
                                id[k]);
        for (t->kernel.n--; i < t->kernel.n; i++)
            t->kernel.at[i] = t->kernel.at[i + 1];
    }
    return QG_OK;
}

/* Rows of the file, then those of the parent; ids are unique. */
static qg_status read_kernels(const reader *r, const qg_yaml *file)
{
    const qg_yaml *list;
    qg_lint_target *t = r->t, all = { 0 };
    QG_TRY(list_of(r, file, "kernels", &list));
    QG_TRY(remove_kernels(r, file));
    for (size_t i = 0; list && i < list->n; i++) {
        qg_lint_kernel k;
        QG_TRY(read_kernel(r, list->item[i], &k));
        QG_TRY(qg_vec_push(r->ctx, r->arena, &all.kernel, k));
    }
    for (size_t i = 0; i < t->kernel.n; i++)
        QG_TRY(qg_vec_push(r->ctx, r->arena, &all.kernel, t->kernel.at[i]));
    for (size_t i = 0; list && i < list->n; i++)
        for (size_t k = i + 1; k < all.kernel.n; k++)
            if (strcmp(all.kernel.at[i].origin.id, all.kernel.at[k].origin.id) == 0)
                return qg_yaml_fail(r->ctx, list->item[i], "kernels",
                                    "id '%s' is used twice, expected another",
                                    all.kernel.at[i].origin.id);
    memcpy(&t->kernel, &all.kernel, sizeof t->kernel);
    return QG_OK;
}

/* Position of a rule; the number of rules: none has this id. */
static size_t rule_called(const qg_lint_target *t, const char *id)
{
    size_t i = 0;
    while (i < t->rule.n && strcmp(t->rule.at[i].origin.id, id) != 0)
        i++;
    return i;
}

static qg_status remove_rules(const reader *r, const qg_yaml *file)
{
    const qg_yaml *less = qg_yaml_get(file, "-rules");
    const char *const *id = NULL;
    size_t n = 0;
    qg_lint_target *t = r->t;
    if (less)
        QG_TRY(qg_yaml_words(r->ctx, r->arena, less, "-rules", &id, &n));
    for (size_t k = 0; k < n; k++) {
        size_t i = rule_called(t, id[k]);
        if (i == t->rule.n)
            return qg_yaml_fail(r->ctx, less, "-rules",
                                "there is no id '%s', expected one of the parent",
                                id[k]);
        for (t->rule.n--; i < t->rule.n; i++)
            t->rule.at[i] = t->rule.at[i + 1];
    }
    return QG_OK;
}

static qg_status read_rules(const reader *r, const qg_yaml *file)
{
    const qg_yaml *list;
    qg_lint_target *t = r->t;
    QG_TRY(remove_rules(r, file));
    QG_TRY(list_of(r, file, "rules", &list));
    for (size_t i = 0; list && i < list->n; i++) {
        qg_lint_rule rule;
        QG_TRY(read_rule(r, list->item[i], &rule));
        size_t at = rule_called(t, rule.origin.id);
        if (at < t->rule.n && strcmp(t->rule.at[at].origin.file, file->file) == 0)
            return qg_yaml_fail(r->ctx, list->item[i], "rules",
                                "id '%s' is used twice, expected another",
                                rule.origin.id);
        if (at < t->rule.n)
            t->rule.at[at] = rule;
        else
            QG_TRY(qg_vec_push(r->ctx, r->arena, &t->rule, rule));
    }
    return QG_OK;
}

/* The keys of configs/schema/lint.json; a test compares the two. */
static const char *const file_keys[] = { "name",           "title",   "extends",
                                         "floating-codes", "kernels", "-kernels",
                                         "rules",          "-rules",  NULL };

static qg_status read_file(const reader *r, const qg_yaml *file)
{
    const qg_yaml *y;
    QG_TRY(qg_yaml_keys(r->ctx, file, "lint", file_keys));
    QG_TRY(qg_yaml_need(r->ctx, file, "lint", "name", &y));
    QG_TRY(qg_yaml_text(r->ctx, y, "name", &r->t->name));
    QG_TRY(qg_yaml_need(r->ctx, file, "lint", "title", &y));
    QG_TRY(qg_yaml_text(r->ctx, y, "title", &r->t->title));
    r->t->file = file->file;
    y = qg_yaml_get(file, "floating-codes");
    if (y)
        QG_TRY(qg_yaml_bool(r->ctx, y, "floating-codes", &r->t->floating_codes));
    QG_TRY(read_kernels(r, file));
    return read_rules(r, file);
}

qg_status qg_lint_load(qg_ctx *ctx, qg_arena *a, const char *name, qg_search search,
                       const qg_lint_target **out)
{
    qg_family family;
    qg_lint_target *t = QG_NEW(a, qg_lint_target);
    if (!t)
        return qg_nomem(ctx);
    qg_backend defaults = { 0 };
    defaults.defaults.scheme =
        (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                     .bits = 8,
                     .axis = -1,
                     .qmin = INT8_MIN,
                     .qmax = INT8_MAX };
    reader r = { .ctx = ctx, .arena = a, .t = t };
    r.base = (qg_backend_reader){ .ctx = ctx, .arena = a, .b = &defaults };
    qg_wanted w = { "target", name, NULL, NULL, search };
    QG_TRY(qg_config_family(ctx, a, &w, &family));
    for (size_t i = family.n; i-- > 0;)
        QG_TRY(read_file(&r, family.file[i]));
    *out = t;
    return QG_OK;
}
