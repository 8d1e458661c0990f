/* backend_yaml.c -- files, families of files and their sections; items of
 * sections have files of their own.
 *
 * A family is read from the farthest parent to the child, each file on top of the
 * previous ones, so that one function serves a lone file, a child and a policy
 * patch. */
#include "engine/config/backend_yaml.h"

#include <assert.h>
#include <stdio.h>

#include "engine/config/family.h"
#include "engine/config/fusions.h"
#include "engine/config/override.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/config/rules.h"
#include "engine/config/text.h"
#include "engine/core/names.h"

/* --- lists of words: replaced, extended, reduced --- */

/* Lists have a few dozen words. */
static int word_at(const qg_words *w, const char *word)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->at[i], word) == 0)
            return (int)i;
    return -1;
}

/* Twice the same word is a mistake of the file, not a wish. */
static qg_status add_words(const qg_backend_reader *r, const qg_yaml *y,
                           const char *what, bool ops, qg_words *w)
{
    if (y->kind != QG_YAML_LIST)
        return qg_yaml_fail(r->ctx, y, what, "expected a list of words");
    for (size_t i = 0; i < y->n; i++) {
        const char *word;
        QG_TRY(qg_yaml_text(r->ctx, y->item[i], what, &word));
        if (ops)
            QG_TRY(qg_need_op(r, y->item[i], what, word));
        if (word_at(w, word) >= 0)
            return qg_yaml_fail(r->ctx, y->item[i], what,
                                "'%s' is in the list already, expected it once", word);
        QG_TRY(qg_vec_push(r->ctx, r->arena, w, word));
    }
    return QG_OK;
}

/* Keeps the order of the remaining items. */
static qg_status take_words(const qg_backend_reader *r, const qg_yaml *y,
                            const char *what, qg_words *w)
{
    const char *const *word;
    size_t n;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, what, &word, &n));
    for (size_t i = 0; i < n; i++) {
        int k = word_at(w, word[i]);
        if (k < 0 && r->is_quirk) {
            QG_TRY(
                qg_need_op(r, y->kind == QG_YAML_LIST ? y->item[i] : y, what, word[i]));
            continue;
        }
        if (k < 0)
            return qg_yaml_fail(
                r->ctx, y, what,
                "'%s' is not in the list, expected a word of the parent", word[i]);
        w->n--;
        memmove(w->at + k, w->at + k + 1, (w->n - (size_t)k) * sizeof *w->at);
    }
    return QG_OK;
}

/* key, +key and -key of one list. */
static qg_status read_words(const qg_backend_reader *r, const qg_yaml *file,
                            const char *key, bool ops, qg_words *w)
{
    char more[32], less[32];
    const qg_yaml *y;
    (void)snprintf(more, sizeof more, "+%s", key);
    (void)snprintf(less, sizeof less, "-%s", key);
    if ((y = qg_yaml_get(file, key))) {
        w->n = 0;
        QG_TRY(add_words(r, y, key, ops, w));
    }
    if ((y = qg_yaml_get(file, more)))
        QG_TRY(add_words(r, y, more, ops, w));
    if ((y = qg_yaml_get(file, less)))
        QG_TRY(take_words(r, y, less, w));
    return QG_OK;
}

/* "quirks: []" switches all of them off, "+quirks" adds to the parent's. */
static qg_status read_quirks(const qg_backend_reader *r, const qg_yaml *file,
                             const char *key, uint64_t *mask)
{
    const qg_yaml *y = qg_yaml_get(file, key);
    const char *const *word;
    size_t n;
    if (!y)
        return QG_OK;
    if (y->kind == QG_YAML_LIST && y->n == 0) {
        *mask = 0;
        return QG_OK;
    }
    uint64_t all = key[0] == '+' ? *mask : 0, one = 0;
    QG_TRY(qg_yaml_words(r->ctx, r->arena, y, key, &word, &n));
    for (size_t i = 0; i < n; i++) {
        if (qg_quirk_named(r->ctx, word[i], &one) != QG_OK)
            return qg_yaml_fail(r->ctx, y, NULL, "%s", qg_ctx_message(r->ctx));
        all |= one;
    }
    *mask = all;
    return QG_OK;
}

/* --- rules, fusions, sharing: vectors of structs that begin with their origin --- */

enum section { RULES, FUSIONS, SHARING, N_SECTION };
static const char *const section_key[N_SECTION] = { "rules", "fusions", "sharing" };
static const char *const section_less[N_SECTION] = { "-rules", "-fusions", "-sharing" };

/* All three sections carry an origin; this is the only place that distinguishes
 * them. */
static const qg_origin *origin_at(const qg_backend *b, enum section s, size_t i)
{
    assert((unsigned)s < N_SECTION);
    return s == RULES     ? &b->rule.at[i].origin
           : s == FUSIONS ? &b->fusion.at[i].origin
                          : &b->sharing.at[i].origin;
}

/* Statements of one section so far, parents included. */
static size_t section_count(const qg_backend *b, enum section s)
{
    return s == RULES ? b->rule.n : s == FUSIONS ? b->fusion.n : b->sharing.n;
}

/* Over the item with the same id, or after the last. */
#define PLACE(r, vec, k, what)                                                         \
    do {                                                                               \
        if ((k) == (vec)->n)                                                           \
            return qg_vec_push((r)->ctx, (r)->arena, (vec), (what));                   \
        (vec)->at[k] = (what);                                                         \
        return QG_OK;                                                                  \
    } while (0)

/* The statements that a section has before a file is read, by id: a file may have tens
 * of thousands. */
typedef struct by_id {
    const qg_backend_reader *r;
    enum section s;
    qg_names *id;
    size_t *first; /* by id: the first statement with it */
    bool *gone;    /* by statement: drop_gone removes it */
} by_id;

/* Anew after drop_gone. */
static qg_status know(by_id *w)
{
    const size_t n = section_count(w->r->b, w->s);
    qg_names_free(w->id);
    w->id = qg_names_new(w->r->ctx->alloc);
    w->first = QG_NEWN(w->r->arena, n, size_t);
    w->gone = QG_NEWN(w->r->arena, n, bool);
    if (!w->id || !w->first || !w->gone)
        return qg_nomem(w->r->ctx);
    for (size_t i = 0; i < n; i++) {
        const char *text = origin_at(w->r->b, w->s, i)->id;
        const uint32_t next = qg_names_count(w->id);
        uint32_t id;
        if (qg_names_add(w->id, text, strlen(text), &id) != QG_OK)
            return qg_nomem(w->r->ctx);
        if (id == next)
            w->first[id] = i;
    }
    return QG_OK;
}

/* The position of the statement, or after the last: there PLACE appends. */
static size_t position(const by_id *w, const char *id)
{
    const uint32_t k = qg_names_find(w->id, id, strlen(id));
    return k == QG_NONE || w->gone[w->first[k]] ? section_count(w->r->b, w->s)
                                                : w->first[k];
}

static qg_status drop_gone(by_id *w)
{
    qg_backend *b = w->r->b;
    const size_t n = section_count(b, w->s);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->gone[i])
            continue;
        if (w->s == RULES)
            b->rule.at[kept] = b->rule.at[i];
        else if (w->s == FUSIONS)
            b->fusion.at[kept] = b->fusion.at[i];
        else
            b->sharing.at[kept] = b->sharing.at[i];
        kept++;
    }
    *(w->s == RULES     ? &b->rule.n
      : w->s == FUSIONS ? &b->fusion.n
                        : &b->sharing.n) = kept;
    return kept < n ? know(w) : QG_OK;
}

/* A known id is replaced in place, so that the order of rules is the
 * parent's. */
static qg_status read_item(const by_id *w, const qg_yaml *y)
{
    const qg_backend_reader *r = w->r;
    qg_backend *b = r->b;
    if (w->s == RULES) {
        qg_rule rule;
        QG_TRY(qg_read_rule(r, y, &rule));
        PLACE(r, &b->rule, position(w, rule.origin.id), rule);
    }
    if (w->s == FUSIONS) {
        qg_fusion fusion;
        QG_TRY(qg_read_fusion(r, y, &fusion));
        PLACE(r, &b->fusion, position(w, fusion.origin.id), fusion);
    }
    qg_sharing sharing;
    QG_TRY(qg_read_sharing(r, y, &sharing));
    PLACE(r, &b->sharing, position(w, sharing.origin.id), sharing);
}

/* The text of an item's id; NULL: it has none, which the readers of items refuse. */
static const char *id_of(const qg_yaml *item)
{
    const qg_yaml *id = qg_yaml_get(item, "id");
    return id && id->kind == QG_YAML_SCALAR && *id->text ? id->text : NULL;
}

static qg_status refuse_id(const qg_backend_reader *r, const qg_yaml *list, size_t i)
{
    const char *id = id_of(list->item[i]), *other = NULL;
    size_t k = 0;
    while (k < i && (!(other = id_of(list->item[k])) || strcmp(id, other) != 0))
        k++;
    return qg_yaml_fail(r->ctx, qg_yaml_get(list->item[i], "id"), NULL,
                        "id '%s' is already defined in line %u, expected a unique id",
                        id, qg_yaml_get(list->item[k], "id")->line);
}

/* Ids must be unique within one file; across files they replace. */
static qg_status check_ids(const qg_backend_reader *r, const qg_yaml *list)
{
    qg_names *seen = qg_names_new(r->ctx->alloc);
    qg_status s = seen ? QG_OK : qg_nomem(r->ctx);
    for (size_t i = 0; s == QG_OK && i < list->n; i++) {
        const char *id = id_of(list->item[i]);
        const uint32_t next = qg_names_count(seen);
        uint32_t k = next;
        if (id && qg_names_add(seen, id, strlen(id), &k) != QG_OK)
            s = qg_nomem(r->ctx);
        else if (k != next)
            s = refuse_id(r, list, i);
    }
    qg_names_free(seen);
    return s;
}

/* `-rules` and similar keys. */
static qg_status read_less(by_id *w, const qg_yaml *less)
{
    const char *const *id, *key = section_less[w->s];
    size_t n;
    QG_TRY(qg_yaml_words(w->r->ctx, w->r->arena, less, key, &id, &n));
    for (size_t i = 0; i < n; i++) {
        const size_t k = position(w, id[i]);
        if (k < section_count(w->r->b, w->s))
            w->gone[k] = true;
        else if (!w->r->is_quirk)
            return qg_yaml_fail(w->r->ctx, less, key,
                                "unknown id '%s', expected an id of the parent", id[i]);
    }
    return drop_gone(w);
}

/* A rule of an earlier patch goes, so that the one of the same id in this patch comes
 * behind whatever that patch has behind it. */
static qg_status drop_replaced(by_id *w, const qg_yaml *list)
{
    const qg_backend *b = w->r->b;
    if (!w->r->is_override || w->s != RULES)
        return QG_OK;
    for (size_t i = 0; i < list->n; i++) {
        const char *id = id_of(list->item[i]);
        const size_t k = id ? position(w, id) : b->rule.n;
        if (k < b->rule.n && !b->rule.at[k].origin.source)
            w->gone[k] = true;
    }
    return drop_gone(w);
}

/* Removals first: a child may remove a rule and add it again at the end. */
static qg_status change_section(by_id *w, const qg_yaml *less, const qg_yaml *list)
{
    QG_TRY(know(w));
    if (less)
        QG_TRY(read_less(w, less));
    if (!list)
        return QG_OK;
    if (list->kind != QG_YAML_LIST)
        return qg_yaml_fail(w->r->ctx, list, section_key[w->s],
                            "expected a list of maps");
    QG_TRY(check_ids(w->r, list));
    QG_TRY(drop_replaced(w, list));
    for (size_t i = 0; i < list->n; i++)
        QG_TRY(read_item(w, list->item[i]));
    return QG_OK;
}

static qg_status read_section(const qg_backend_reader *r, const qg_yaml *file,
                              enum section s)
{
    by_id w = { .r = r, .s = s };
    const qg_yaml *less = qg_yaml_get(file, section_less[s]);
    const qg_yaml *list = qg_yaml_get(file, section_key[s]);
    const qg_status status = less || list ? change_section(&w, less, list) : QG_OK;
    qg_names_free(w.id);
    return status;
}

/* --- one file --- */

/* `passes: {equalize: {iterations: 3}, align: no}` */
static qg_status read_passes(const qg_backend_reader *r, const qg_yaml *file)
{
    const qg_yaml *y = qg_yaml_get(file, "passes");
    if (y && y->kind != QG_YAML_MAP)
        return qg_yaml_fail(r->ctx, y, "passes",
                            "expected a map from pass to yes, no "
                            "or its parameters");
    for (size_t i = 0; y && i < y->n; i++)
        QG_TRY(qg_read_pass_settings(r->ctx, r->arena, y->item[i], y->key[i],
                                     &r->b->setting));
    return QG_OK;
}

static qg_status read_text(const qg_backend_reader *r, const qg_yaml *file,
                           const char *key, const char **out)
{
    const qg_yaml *y = qg_yaml_get(file, key);
    return y ? qg_yaml_text(r->ctx, y, key, out) : QG_OK;
}

/* States, visibility and the like belong to rules: a default would hold for every
 * slot. */
static qg_status read_defaults(const qg_backend_reader *r, const qg_yaml *file)
{
    static const uint32_t allowed = QG_SET_BITS | QG_SET_RANGE | QG_SET_ROUNDING |
                                    QG_SET_NAN | QG_SET_POLICY | QG_SET_EXPONENT_BITS |
                                    QG_SET_VARIANT | QG_SET_OBSERVER | QG_SET_PARAMS;
    const qg_yaml *y = qg_yaml_get(file, "defaults");
    qg_set set, *all = &r->b->defaults;
    if (!y)
        return QG_OK;
    QG_TRY(qg_read_set(r, y, "defaults", &set));
    if (set.fields & ~allowed)
        return qg_yaml_fail(r->ctx, y, "defaults",
                            "a field that only rules may set, "
                            "expected bits, range, rounding, policy, observer, ...");
    if ((set.fields & QG_SET_POLICY) && !(set.scheme.policy & QG_PER_TENSOR))
        return qg_yaml_fail(r->ctx, y, "defaults",
                            "policy without per-tensor, expected "
                            "per-tensor: rules make weights per-channel");
    QG_TRY(qg_set_apply(r->ctx, "defaults", &set, &all->scheme, &all->observer));
    all->fields |= set.fields;
    return QG_OK;
}

/* What is wrong with option i of after-set, at its place: it is no --set there. */
static qg_status refuse_after(const qg_backend_reader *r, const qg_yaml *y, size_t i)
{
    const char *text = qg_ctx_message(r->ctx);
    const bool counted = strncmp(text, "--set:", 6) == 0 && strchr(text, ' ');
    return qg_yaml_fail(r->ctx, y->kind == QG_YAML_LIST ? y->item[i] : y, "after-set",
                        "%s", counted ? strchr(text, ' ') + 1 : text);
}

/* --set options before the patch; an earlier patch may have applied some of them. */
static qg_status read_after(const qg_backend_reader *r, const qg_yaml *file)
{
    const qg_yaml *y = qg_yaml_get(file, "after-set");
    const char *const *text;
    size_t n = 0;
    if (y)
        QG_TRY(qg_yaml_words(r->ctx, r->arena, y, "after-set", &text, &n));
    for (size_t i = 0; i < n; i++) {
        qg_status s = qg_backend_set(r->ctx, r->arena, text[i], r->b);
        if (s != QG_OK)
            return qg_is_nomem(s) ? s : refuse_after(r, y, i);
        if (word_at(&r->b->after, text[i]) < 0)
            QG_TRY(qg_vec_push(r->ctx, r->arena, &r->b->after, text[i]));
    }
    return QG_OK;
}

/* The keys of configs/schema/backend.json; a test compares the two.  The first N_COMMON
 * may occur in a section of `with-quirk` too, the last only in a patch. */
enum { N_COMMON = 20 };
static const char *const file_keys[] = {
    "profile",    "pipeline",   "dispatch",  "defaults", "quantizes", "+quantizes",
    "-quantizes", "passive",    "+passive",  "-passive", "rules",     "-rules",
    "fusions",    "-fusions",   "sharing",   "-sharing", "passes",    "why",
    "source",     "placement",  "name",      "title",    "extends",   "quirks",
    "+quirks",    "with-quirk", "after-set", NULL
};
static const char *const dispatchers[] = {
    "conservative", "aggressive", "pointwise", "all-in", "perseus", "pplnn", NULL
};

/* A profile, by the name of its file; profile_yaml.h reads it where it is used. */
static qg_status read_profile(const qg_backend_reader *r, const qg_yaml *file)
{
    const qg_yaml *y = qg_yaml_get(file, "profile");
    qg_search search;
    const char **known, **choice;
    size_t n;
    int k;
    if (!y)
        return QG_OK;
    QG_TRY(qg_config_search(r->ctx, r->arena, "profiles", &search));
    QG_TRY(qg_config_names(r->ctx, r->arena, search, &known, &n));
    if (n == 0)
        return qg_yaml_fail(r->ctx, y, "profile",
                            "expected a profile, but the configuration has none");
    choice = QG_NEWN(r->arena, n + 1, const char *);
    if (!choice)
        return qg_nomem(r->ctx);
    memcpy(choice, known, n * sizeof *known);
    QG_TRY(qg_yaml_choice(r->ctx, y, "profile", choice, &k));
    r->b->profile = choice[k];
    return QG_OK;
}

/* The keys common to a file and a section of `with-quirk`. */
static qg_status read_common(const qg_backend_reader *r, const qg_yaml *file)
{
    qg_backend *b = r->b;
    const qg_yaml *y;
    int k;
    QG_TRY(read_profile(r, file));
    QG_TRY(read_text(r, file, "pipeline", &b->pipeline));
    if ((y = qg_yaml_get(file, "placement"))) {
        QG_TRY(qg_yaml_choice(r->ctx, y, "placement", qg_placements, &k));
        b->placement = qg_placements[k];
    }
    y = qg_yaml_get(file, "dispatch");
    if (y) {
        QG_TRY(qg_yaml_choice(r->ctx, y, "dispatch", dispatchers, &k));
        b->dispatch = dispatchers[k];
    }
    QG_TRY(read_words(r, file, "quantizes", true, &b->quantizes));
    QG_TRY(read_words(r, file, "passive", true, &b->passive));
    QG_TRY(read_defaults(r, file));
    QG_TRY(read_passes(r, file));
    for (enum section s = RULES; s < N_SECTION; s++)
        QG_TRY(read_section(r, file, s));
    return QG_OK;
}

/* Sections wait until it is known which quirks are on.  Each is read now as well, for
 * its faults, into a backend that nobody uses. */
static qg_status keep_with_quirk(const qg_backend_reader *r, const qg_yaml *y)
{
    const char *keys[N_COMMON + 1] = { 0 };
    memcpy(keys, file_keys, N_COMMON * sizeof keys[0]);
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_fail(r->ctx, y, "with-quirk",
                            "expected a map from quirks to sections");
    for (size_t i = 0; i < y->n; i++) {
        qg_with_quirk w = { .section = y->item[i] };
        char what[QG_WHAT_TEXT];
        (void)snprintf(what, sizeof what, "with-quirk %.100s", y->key[i]);
        if (!strchr(y->key[i], '-') ||
            qg_quirk_named(r->ctx, y->key[i], &w.quirk) != QG_OK)
            return qg_yaml_fail(r->ctx, y->item[i], what,
                                "unknown quirk, expected one of `qg list quirks`");
        QG_TRY(qg_yaml_keys(r->ctx, y->item[i], what, keys));
        qg_backend unused = { .defaults = r->b->defaults };
        const qg_backend_reader dry = {
            .ctx = r->ctx, .arena = r->arena, .b = &unused, .is_quirk = true
        };
        QG_TRY(read_common(&dry, y->item[i]));
        QG_TRY(qg_vec_push(r->ctx, r->arena, &r->b->with_quirk, w));
    }
    return QG_OK;
}

const qg_quirk_row qg_backend_quirk_rows[] = {
    QG_SWAP_DATA(PPQ_OBSERVERS, "the default observer is percentile",
                 QG_PPQ "quantization/quantizer/base.py create_default_quant_config",
                 "defaults"),
    QG_SWAP_DATA(
        PPQ_REDUCTION_AXIS,
        "D20: Gemm and MatMul weights, even computed ones, are per-channel on axis 0",
        QG_PPQ "quantization/quantizer/", "rules"),
    QG_SWAP_DATA(PPQ_OLD_SLOTS, "computed limits follow the input as well",
                 QG_PPQ "quantization/optim/parameters.py PassiveParameterQuantizePass",
                 "rules"),
    QG_SWAP_DATA(PPQ_SLICE_NOT_PASSIVE, "D18: Slice and Dropout are requantized",
                 QG_PPQ "core/common.py PASSIVE_OPERATIONS", "passive, quantizes"),
    QG_SWAP_DATA(PPQ_SOFTPLUS_FLOAT,
                 "D19: Softplus and Tanh stay float, so Mish is never fused",
                 QG_PPQ "quantization/quantizer/ activation_fusion_types", "quantizes"),
    QG_SWAP_DATA(PPQ_BIAS_RANGE, "the range of a 30-bit bias is one step too large",
                 QG_PPQ "quantization/quantizer/", "rules"),
    QG_SWAP_DATA(
        PPQ_GEMM_BIAS, "D59: the bias of Gemm has 8 bits and an independent scale",
        QG_PPQ "quantization/quantizer/MNNQuantizer.py, MyQuantizer.py", "rules"),
    QG_SWAP_DATA(PPQ_FLOAT_TIES, "D38: ties of floating grids go toward zero",
                 QG_PPQ "csrc/cuda/common.cuh", "defaults"),
    QG_SWAP_DATA(PPQ_FEW_FUSIONS,
                 "only activations after compute nodes, Swish and Mish are fused",
                 QG_PPQ "quantization/optim/refine.py QuantizeFusionPass",
                 "fusions, quantizes, sharing"),
    QG_SWAP_DATA(PPQ_NCNN_6_BITS,
                 "weights of kernels of extent 3 have 6 bits with any number of "
                 "spatial axes",
                 QG_PPQ "quantization/quantizer/NCNNQuantizer.py", "rules"),
    QG_SWAP_DATA(PPQ_NCNN_OUTPUTS,
                 "outputs of operators that an override assigns to ncnn are quantized",
                 QG_PPQ "quantization/quantizer/NCNNQuantizer.py", "rules"),
    QG_SWAP_DATA(PPQ_HALF_EVEN,
                 "grids for OpenVINO divide by the scale and round half-even in "
                 "steps, not levels",
                 QG_PPQ "quantization/quantizer/OpenvinoQuantizer.py", "defaults"),
    { 0 },
};

qg_status qg_backend_quirks(qg_ctx *ctx, qg_arena *a, uint64_t mask, qg_backend *b)
{
    b->quirks |= mask;
    const qg_backend_reader r = { .ctx = ctx, .arena = a, .b = b, .is_quirk = true };
    for (size_t i = 0; i < b->with_quirk.n; i++) {
        qg_with_quirk *w = &b->with_quirk.at[i];
        if (w->done || !(w->quirk & b->quirks))
            continue;
        w->done = true;
        QG_TRY(read_common(&r, w->section));
    }
    return QG_OK;
}

/* The title is not inherited: a child that has none has none. */
static qg_status read_file(const qg_backend_reader *r, const qg_yaml *file)
{
    qg_backend *b = r->b;
    const qg_yaml *y = qg_yaml_get(file, "with-quirk");
    QG_TRY(qg_yaml_keys(r->ctx, file, "backend", file_keys));
    if (!r->is_override && qg_yaml_get(file, "after-set"))
        return qg_yaml_fail(r->ctx, file, "after-set",
                            "a backend has no options of a run, expected the key in a "
                            "policy patch");
    QG_TRY(qg_vec_push(r->ctx, r->arena, &b->file, file->file));
    if (!r->is_override)
        QG_TRY(read_text(r, file, "name", &b->name));
    const char *for_people; /* visible to readers of the file */
    b->title = NULL;
    QG_TRY(read_text(r, file, "title", &b->title));
    QG_TRY(read_text(r, file, "why", &for_people));
    QG_TRY(read_text(r, file, "source", &for_people));
    QG_TRY(read_quirks(r, file, "quirks", &b->quirks));
    QG_TRY(read_quirks(r, file, "+quirks", &b->quirks));
    QG_TRY(read_after(r, file));
    QG_TRY(read_common(r, file));
    return y ? keep_with_quirk(r, y) : QG_OK;
}

/* --- families of files --- */

/* Fields required by a run, after all files of the family are read. */
static qg_status check_complete(const qg_backend_reader *r, const qg_yaml *file)
{
    static const uint32_t needed =
        QG_SET_BITS | QG_SET_RANGE | QG_SET_ROUNDING | QG_SET_POLICY | QG_SET_OBSERVER;
    const qg_backend *b = r->b;
    const char *missing = !b->name          ? "name"
                          : !b->quantizes.n ? "quantizes"
                          : !b->pipeline    ? "pipeline"
                          : (b->defaults.fields & needed) != needed
                              ? "defaults (bits, range, rounding, policy, observer)"
                              : NULL;
    if (missing)
        return qg_yaml_fail(r->ctx, file, "backend",
                            "key '%s' is missing, expected a value here or in a parent",
                            missing);
    return QG_OK;
}

/* Defaults begin as the plainest int8 grid, so that fields can be checked one by one
 * while files are read. */
qg_status qg_backend_load(qg_ctx *ctx, qg_arena *a, const char *name, qg_search search,
                          qg_backend **out)
{
    qg_family family;
    qg_backend *b = QG_NEW(a, qg_backend);
    qg_backend_reader r = { .ctx = ctx, .arena = a, .b = b };
    if (!b)
        return qg_nomem(ctx);
    b->dispatch = dispatchers[0];
    b->defaults.scheme =
        (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                     .bits = 8,
                     .axis = -1,
                     .qmin = -128,
                     .qmax = 127 };
    qg_wanted w = { "backend", name, NULL, NULL, search };
    QG_TRY(qg_config_family(ctx, a, &w, &family));
    for (size_t i = family.n; i-- > 0;)
        QG_TRY(read_file(&r, family.file[i]));
    QG_TRY(check_complete(&r, family.file[0]));
    QG_TRY(qg_backend_quirks(ctx, a, 0, b));
    *out = b;
    return QG_OK;
}

qg_status qg_backend_patch(qg_ctx *ctx, qg_arena *a, const char *path, qg_backend *b)
{
    const qg_yaml *file;
    qg_backend_reader r = { .ctx = ctx, .arena = a, .b = b, .is_override = true };
    const char *added = qg_config_added(ctx, "policies", path);
    QG_TRY(qg_yaml_load(ctx, a, added ? added : path, &file));
    const qg_yaml *y = qg_yaml_get(file, "extends");
    if (y)
        return qg_yaml_fail(ctx, y, "extends",
                            "a policy patch has no parent, expected "
                            "none: it applies to the backend of the run");
    QG_TRY(read_file(&r, file));
    return qg_backend_quirks(ctx, a, 0, b);
}
