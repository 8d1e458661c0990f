#include "engine/config/profile_yaml.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/family.h"
#include "engine/core/vec.h"

enum { WHAT_TEXT = 160 };

typedef struct reader {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_profile *p;  /* of the files read so far */
    qg_clamp clamp; /* of the file being read */
} reader;

/* The words of maps, in the order of their enumerations. */
#define X(id, text, ...) text,
static const char *const uses[] = { QG_USE_MAP(X) NULL };
static const char *const forms[] = { QG_FORM_MAP(X) NULL };
static const char *const products[] = { QG_PRODUCTS_MAP(X) NULL };
static const char *const tails[] = { QG_TAIL_MAP(X) NULL };
static const char *const clamps[] = { QG_CLAMP_MAP(X) NULL };
static const char *const schemes[] = { QG_SCHEME_MAP(X) NULL };
static const char *const factors[] = { QG_FACTOR_MAP(X) NULL };
static const char *const roundings[] = { QG_ROUNDING_MAP(X) NULL };
static const char *const nans[] = { QG_NAN_MAP(X) NULL };
static const char *const activations[] = { QG_ACTIVATION_MAP(X) NULL };
#undef X
static const char *const zeros[] = { "after", "inside", "fused", NULL };

/* Types of codes; weights of 4 bits are stored in 8. */
static const char *const types[] = { "uint8", "int8",    "uint16", "int16",
                                     "int32", "float32", NULL };

/* --- values --- */

/* A word or a list of words, each of one vocabulary and at most once, as bits. */
static qg_status read_set(const reader *r, const qg_yaml *y, const char *what,
                          const char *const *vocabulary, uint64_t *out)
{
    bool list = y->kind == QG_YAML_LIST;
    *out = 0;
    if (list && y->n == 0)
        return qg_yaml_fail(r->ctx, y, what, "an empty list, expected a word or more");
    for (size_t i = 0; i < (list ? y->n : 1); i++) {
        const qg_yaml *item = list ? y->item[i] : y;
        int k;
        QG_TRY(qg_yaml_choice(r->ctx, item, what, vocabulary, &k));
        if (*out >> k & 1)
            return qg_yaml_fail(r->ctx, item, what,
                                "'%s' is in the list already, expected it once",
                                item->text);
        *out |= UINT64_C(1) << k;
    }
    return QG_OK;
}

/* A set of types, as a sum of QG_DT. */
static qg_status read_types(const reader *r, const qg_yaml *map, const char *what,
                            const char *key, uint64_t *out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    char where[WHAT_TEXT + 8];
    uint64_t set;
    if (!y)
        return QG_OK;
    (void)snprintf(where, sizeof where, "%s: %s", what, key);
    QG_TRY(read_set(r, y, where, types, &set));
    *out = 0;
    for (int i = 0; types[i]; i++)
        if (set >> i & 1)
            *out |= UINT64_C(1) << qg_dtype_named(types[i]);
    return QG_OK;
}

/* The type of the output is that of x. */
static bool is_x(const qg_yaml *y)
{
    return y && y->kind == QG_YAML_SCALAR && strcmp(y->text, "x") == 0;
}

/* An optional word: *out is untouched when the key is absent. */
static qg_status read_word(const reader *r, const qg_yaml *map, const char *what,
                           const char *key, const char *const *vocabulary, int *out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    return y ? qg_yaml_choice(r->ctx, y, what, vocabulary, out) : QG_OK;
}

static qg_status read_flag(const reader *r, const qg_yaml *map, const char *what,
                           const char *key, bool *out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    return y ? qg_yaml_bool(r->ctx, y, what, out) : QG_OK;
}

/* --- one row --- */

/* `ratio: {from: 0.0078125, below: 256}`. */
static qg_status read_ratio(const reader *r, const qg_yaml *map, const char *what,
                            qg_profile_row *row)
{
    static const char *const keys[] = { "from", "below", NULL };
    const qg_yaml *y = qg_yaml_get(map, "ratio"), *from, *below;
    double low = 0, high = (double)INFINITY;
    if (!y)
        return QG_OK;
    char where[WHAT_TEXT + 8];
    (void)snprintf(where, sizeof where, "%s: ratio", what);
    QG_TRY(qg_yaml_keys(r->ctx, y, where, keys));
    if ((from = qg_yaml_get(y, "from")))
        QG_TRY(qg_yaml_number(r->ctx, from, where, 0, 0x1p64, &low));
    if ((below = qg_yaml_get(y, "below")))
        QG_TRY(qg_yaml_number(r->ctx, below, where, 0, 0x1p64, &high));
    if (!((float)low < (float)high) || (!from && !below))
        return qg_yaml_fail(r->ctx, y, where,
                            "no ratio is in it, expected from, below or both, from "
                            "less than below");
    row->ratio_low = (float)low;
    row->ratio_high = (float)high;
    return QG_OK;
}

/* `left: {8: 20, 16: 15}`: at most what 32 bits leave to a sum of two operands. */
static qg_status read_left(const reader *r, const qg_yaml *map, const char *what,
                           qg_profile_row *row)
{
    static const char *const keys[] = { "8", "16", NULL };
    const qg_yaml *y = qg_yaml_get(map, "left");
    char where[WHAT_TEXT + 8];
    uint8_t *const bits[] = { &row->left8, &row->left16 };
    if (!y)
        return QG_OK;
    (void)snprintf(where, sizeof where, "%s: left", what);
    QG_TRY(qg_yaml_keys(r->ctx, y, where, keys));
    if (y->n == 0)
        return qg_yaml_fail(r->ctx, y, where, "nothing, expected bits for 8 or 16");
    for (int i = 0; keys[i]; i++) {
        const qg_yaml *item = qg_yaml_get(y, keys[i]);
        int64_t left;
        if (!item)
            continue;
        QG_TRY(qg_yaml_int(r->ctx, item, where, 1, i == 0 ? 22 : 15, &left));
        *bits[i] = (uint8_t)left;
    }
    return QG_OK;
}

/* `output: [0.00390625, -128]`. */
static qg_status read_output(const reader *r, const qg_yaml *map, const char *what,
                             qg_profile_row *row)
{
    const qg_yaml *y = qg_yaml_get(map, "output");
    double scale;
    int64_t zero;
    if (!y)
        return QG_OK;
    if (y->kind != QG_YAML_LIST || y->n != 2)
        return qg_yaml_fail(r->ctx, y, what,
                            "output is no pair, expected [scale, zero point]");
    QG_TRY(qg_yaml_number(r->ctx, y->item[0], what, 0x1p-100, 0x1p100, &scale));
    QG_TRY(qg_yaml_int(r->ctx, y->item[1], what, -32768, 65535, &zero));
    row->has_output = true;
    row->output_scale = (float)scale;
    row->output_zero = (int32_t)zero;
    return QG_OK;
}

/* The least output scale of a snapshot's Softmax. */
static qg_status read_scale(const reader *r, const qg_yaml *map, const char *what,
                            qg_profile_row *row)
{
    const qg_yaml *y = qg_yaml_get(map, "scale");
    double scale;
    if (!y)
        return QG_OK;
    QG_TRY(qg_yaml_number(r->ctx, y, what, 0x1p-100, 0x1p100, &scale));
    if (row->uses != QG_USE_BIT(SOFTMAX))
        return qg_yaml_fail(r->ctx, y, what, "scale, expected it of softmax alone");
    row->snapshot_scale = (float)scale;
    return QG_OK;
}

/* `limits: [relu, relu6]` of relu; `w-zero: 0` of two activations. */
static qg_status read_grids(const reader *r, const qg_yaml *map, const char *what,
                            qg_profile_row *row)
{
    const qg_yaml *limits = qg_yaml_get(map, "limits"), *zero;
    uint64_t set;
    int64_t code;
    if (limits) {
        if (row->uses != QG_USE_BIT(RELU))
            return qg_yaml_fail(r->ctx, limits, what,
                                "limits, expected them of relu alone");
        QG_TRY(read_set(r, limits, what, activations + QG_ACTIVATION_RELU, &set));
        row->limits = (uint32_t)(set << QG_ACTIVATION_RELU);
    }
    if ((zero = qg_yaml_get(map, "w-zero"))) {
        if (row->uses != QG_USE_BIT(MATMUL))
            return qg_yaml_fail(r->ctx, zero, what,
                                "w-zero, expected it of matmul alone");
        QG_TRY(qg_yaml_int(r->ctx, zero, what, 0, 0, &code));
        row->w_centred = true;
    }
    return QG_OK;
}

/* scheme, factor, zero, symmetric, accumulator. */
static qg_status read_requant(const reader *r, const qg_yaml *map, const char *what,
                              qg_requant_rule *rule)
{
    int scheme = rule->scheme, factor = rule->factor, zero = rule->zero;
    const qg_yaml *y = qg_yaml_get(map, "accumulator");
    int64_t bits = rule->accumulator;
    QG_TRY(read_word(r, map, what, "scheme", schemes, &scheme));
    QG_TRY(read_word(r, map, what, "factor", factors, &factor));
    QG_TRY(read_word(r, map, what, "zero", zeros, &zero));
    QG_TRY(read_flag(r, map, what, "symmetric", &rule->symmetric));
    if (y)
        QG_TRY(qg_yaml_int(r->ctx, y, what, 32, 64, &bits));
    if (bits != 32 && bits != 64)
        return qg_yaml_fail(r->ctx, y, what,
                            "accumulator of %d bits, expected 32 or 64", (int)bits);
    rule->scheme = (uint8_t)scheme;
    rule->factor = (uint8_t)factor;
    rule->zero = (uint8_t)zero;
    rule->accumulator = (uint8_t)bits;
    return QG_OK;
}

/* A key that the form reads must be there, one that it does not read must not. */
static qg_status check_key(const reader *r, const qg_yaml *map, const char *what,
                           const char *key, bool needed)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    if (needed && !y)
        return qg_yaml_fail(r->ctx, map, what,
                            "key '%s' is missing, expected it for this form and use",
                            key);
    if (!needed && y)
        return qg_yaml_fail(r->ctx, y, what,
                            "key '%s' has no effect, expected it to be absent for this "
                            "form and use",
                            key);
    return QG_OK;
}

/* zero is optional wherever there is a factor; the keys of sums of products only
 * there. */
static qg_status check_keys(const reader *r, const qg_yaml *map, const char *what,
                            const qg_profile_row *row)
{
    unsigned keys = qg_form_keys(row->form, row->uses);
    bool sums = (row->uses & QG_USES_PRODUCTS) != 0;
    QG_TRY(check_key(r, map, what, "scheme", keys & QG_ROW_SCHEME));
    QG_TRY(check_key(r, map, what, "factor", keys & QG_ROW_FACTOR));
    QG_TRY(check_key(r, map, what, "rounding", keys & QG_ROW_ROUNDING));
    QG_TRY(check_key(r, map, what, "left", keys & QG_ROW_LEFT));
    if (!(row->uses & QG_USE_BIT(QUANTIZE)))
        QG_TRY(check_key(r, map, what, "nan", false));
    if (!(keys & QG_ROW_FACTOR))
        QG_TRY(check_key(r, map, what, "zero", false));
    if (!sums) {
        QG_TRY(check_key(r, map, what, "products", false));
        QG_TRY(check_key(r, map, what, "tail", false));
        QG_TRY(check_key(r, map, what, "accumulator", false));
    }
    return QG_OK;
}

/* Values that exclude each other: requant.h has the meaning of each. */
static qg_status check_row(const reader *r, const qg_yaml *map, const char *what,
                           const qg_profile_row *row)
{
    const qg_requant_rule *rule = &row->requant;
    bool in_float = rule->scheme < QG_SCHEME_DOUBLE_AWAY;
    uint64_t lacking = row->uses & ~qg_form_uses(row->form);
    if (lacking) {
        int use = 0;
        while (!(lacking >> use & 1))
            use++;
        return qg_yaml_fail(
            r->ctx, map, what,
            "form '%s' is unknown for use '%s', expected one that has a "
            "meaning there",
            qg_form_name(row->form), uses[use]);
    }
    QG_TRY(check_keys(r, map, what, row));
    if (!in_float && rule->zero != QG_ZERO_AFTER)
        return qg_yaml_fail(r->ctx, qg_yaml_get(map, "zero"), what,
                            "zero '%s' with scheme '%s', expected after: integers are "
                            "added behind the rounding",
                            zeros[rule->zero], schemes[rule->scheme]);
    if (!in_float && rule->factor >= QG_FACTOR_THEN_DIVIDE)
        return qg_yaml_fail(r->ctx, qg_yaml_get(map, "factor"), what,
                            "factor '%s' with scheme '%s', expected a scheme in float",
                            factors[rule->factor], schemes[rule->scheme]);
    if (!in_float && row->tail == QG_TAIL_FLOAT)
        return qg_yaml_fail(r->ctx, qg_yaml_get(map, "tail"), what,
                            "tail 'float' with scheme '%s', expected a scheme in float",
                            schemes[rule->scheme]);
    return QG_OK;
}

static const char *const row_keys[] = { "id",     "use",       "types",       "ratio",
                                        "form",   "products",  "tail",        "scheme",
                                        "factor", "zero",      "rounding",    "left",
                                        "clamp",  "symmetric", "accumulator", "output",
                                        "scale",  "nan",       "why",         "source",
                                        "limits", "w-zero",    NULL };

/* types, ratio and the words of a row. */
static qg_status read_what(const reader *r, const qg_yaml *y, const char *what,
                           qg_profile_row *row)
{
    static const char *const keys[] = { "x", "w", "y", NULL };
    const qg_yaml *of = qg_yaml_get(y, "types"), *use;
    int form = QG_FORM_PLAIN, sum = QG_PRODUCTS_EXACT, tail = QG_TAIL_CODES;
    int clamp = (int)r->clamp, rounding = QG_ROUND_HALF_EVEN;
    int nan = 0; /* from LOWEST on: codes have no NaN to keep */
    QG_TRY(qg_yaml_need(r->ctx, y, what, "use", &use));
    QG_TRY(read_set(r, use, what, uses, &row->uses));
    if (of) {
        QG_TRY(qg_yaml_keys(r->ctx, of, what, keys));
        QG_TRY(read_types(r, of, what, "x", &row->x));
        QG_TRY(read_types(r, of, what, "w", &row->w));
        row->like_x = is_x(qg_yaml_get(of, "y"));
        if (!row->like_x)
            QG_TRY(read_types(r, of, what, "y", &row->y));
    }
    QG_TRY(read_ratio(r, y, what, row));
    QG_TRY(read_word(r, y, what, "form", forms, &form));
    QG_TRY(read_word(r, y, what, "products", products, &sum));
    QG_TRY(read_word(r, y, what, "tail", tails, &tail));
    QG_TRY(read_word(r, y, what, "clamp", clamps, &clamp));
    QG_TRY(read_word(r, y, what, "rounding", roundings, &rounding));
    QG_TRY(read_word(r, y, what, "nan", nans + QG_NAN_LOWEST, &nan));
    row->form = (qg_form)form;
    row->products = (qg_products)sum;
    row->tail = (qg_tail)tail;
    row->clamp = (qg_clamp)clamp;
    row->rounding = (qg_rounding)rounding;
    row->nan = (qg_nan)(QG_NAN_LOWEST + nan);
    return QG_OK;
}

static qg_status read_row(const reader *r, const qg_yaml *y, qg_profile_row *out)
{
    qg_profile_row row = { .file = y->file,
                           .line = y->line,
                           .ratio_high = INFINITY,
                           .requant = { .accumulator = 32 } };
    const qg_yaml *item;
    char what[WHAT_TEXT] = "kernels";
    QG_TRY(qg_yaml_keys(r->ctx, y, what, row_keys));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "id", &item));
    QG_TRY(qg_yaml_text(r->ctx, item, what, &row.id));
    (void)snprintf(what, sizeof what, "kernel %.100s", row.id);
    QG_TRY(qg_yaml_need(r->ctx, y, what, "why", &item));
    QG_TRY(qg_yaml_text(r->ctx, item, what, &row.why));
    QG_TRY(qg_yaml_need(r->ctx, y, what, "source", &item));
    QG_TRY(qg_yaml_text(r->ctx, item, what, &row.source));
    QG_TRY(read_what(r, y, what, &row));
    QG_TRY(read_requant(r, y, what, &row.requant));
    QG_TRY(read_left(r, y, what, &row));
    QG_TRY(read_output(r, y, what, &row));
    QG_TRY(read_scale(r, y, what, &row));
    QG_TRY(read_grids(r, y, what, &row));
    QG_TRY(check_row(r, y, what, &row));
    *out = row;
    return QG_OK;
}

/* --- one file --- */

typedef QG_VEC(qg_profile_row) row_list;

/* The row with this id; NULL: none. */
static const qg_profile_row *row_called(const qg_profile_row *row, size_t n,
                                        const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].id, id) == 0)
            return &row[i];
    return NULL;
}

/* The parent's rows except those of `-kernels`. */
static qg_status keep_rows(const reader *r, const qg_yaml *file, row_list *kept)
{
    const qg_yaml *less = qg_yaml_get(file, "-kernels");
    const char *const *id = NULL;
    size_t n = 0;
    if (less)
        QG_TRY(qg_yaml_words(r->ctx, r->arena, less, "-kernels", &id, &n));
    for (size_t k = 0; k < n; k++)
        if (!row_called(r->p->row, r->p->n_row, id[k]))
            return qg_yaml_fail(
                r->ctx, less->kind == QG_YAML_LIST ? less->item[k] : less, "-kernels",
                "there is no id '%s', expected one of the parent", id[k]);
    for (size_t i = 0; i < r->p->n_row; i++) {
        size_t k = 0;
        while (k < n && strcmp(id[k], r->p->row[i].id) != 0)
            k++;
        if (k == n)
            QG_TRY(qg_vec_push(r->ctx, r->arena, kept, r->p->row[i]));
    }
    return QG_OK;
}

/* The rows of the file, then the parent's.  Ids are unique, so that the id of a row
 * identifies it in a report. */
static qg_status read_rows(const reader *r, const qg_yaml *file)
{
    const qg_yaml *list = qg_yaml_get(file, "kernels");
    row_list kept = { 0 }, all = { 0 };
    QG_TRY(keep_rows(r, file, &kept));
    if (list && list->kind != QG_YAML_LIST)
        return qg_yaml_fail(r->ctx, list, "kernels", "expected a list of maps");
    for (size_t i = 0; list && i < list->n; i++) {
        qg_profile_row row;
        QG_TRY(read_row(r, list->item[i], &row));
        const qg_profile_row *same = row_called(all.at, all.n, row.id);
        if (!same)
            same = row_called(kept.at, kept.n, row.id);
        if (same)
            return qg_yaml_fail(r->ctx, list->item[i], "kernels",
                                "id '%s' stands in %s:%u already, expected another, or "
                                "-kernels: [%s]",
                                row.id, same->file, same->line, row.id);
        QG_TRY(qg_vec_push(r->ctx, r->arena, &all, row));
    }
    for (size_t i = 0; i < kept.n; i++)
        QG_TRY(qg_vec_push(r->ctx, r->arena, &all, kept.at[i]));
    r->p->row = all.at;
    r->p->n_row = all.n;
    return QG_OK;
}

/* `codes: {activation: [int8, uint8], weight: int8, bias: int32}`. */
static qg_status read_codes(const reader *r, const qg_yaml *file)
{
    static const char *const keys[] = { "activation", "weight", "bias", NULL };
    static const char *const biases[] = { "int32", "float32", NULL };
    const qg_yaml *y = qg_yaml_get(file, "codes");
    int bias = 0;
    if (!y)
        return QG_OK;
    QG_TRY(qg_yaml_keys(r->ctx, y, "codes", keys));
    QG_TRY(read_types(r, y, "codes", "activation", &r->p->activation));
    QG_TRY(read_types(r, y, "codes", "weight", &r->p->weight));
    QG_TRY(read_word(r, y, "codes: bias", "bias", biases, &bias));
    if (qg_yaml_get(y, "bias"))
        r->p->bias = bias == 1 ? QG_F32 : QG_I32;
    return QG_OK;
}

/* The keys of configs/schema/profile.json; a test compares the two. */
static const char *const file_keys[] = { "name",  "title",   "extends", "evidence",
                                         "why",   "source",  "codes",   "islands",
                                         "clamp", "passive", "kernels", "-kernels",
                                         NULL };

static qg_status read_text(const reader *r, const qg_yaml *file, const char *key,
                           const char **out)
{
    const qg_yaml *y = qg_yaml_get(file, key);
    return y ? qg_yaml_text(r->ctx, y, key, out) : QG_OK;
}

/* Name, title and evidence describe one file: a child has its own. */
static qg_status read_file(reader *r, const qg_yaml *file)
{
    static const char *const evidences[] = { "run", "documentation", NULL };
    static const char *const passives[] = { "all", "copies", NULL };
    const qg_yaml *name;
    const char *for_people; /* visible to readers of the file */
    int clamp = (int)r->clamp, evidence = 0, copies = r->p->copies;
    qg_profile *p = r->p;
    QG_TRY(qg_yaml_keys(r->ctx, file, "profile", file_keys));
    QG_TRY(qg_yaml_need(r->ctx, file, "profile", "name", &name));
    QG_TRY(qg_yaml_text(r->ctx, name, "name", &p->name));
    p->title = p->name;
    p->file = file->file;
    QG_TRY(read_text(r, file, "title", &p->title));
    QG_TRY(read_text(r, file, "why", &for_people));
    QG_TRY(read_text(r, file, "source", &for_people));
    QG_TRY(read_word(r, file, "evidence", "evidence", evidences, &evidence));
    p->documented = evidence == 1;
    QG_TRY(read_codes(r, file));
    QG_TRY(read_flag(r, file, "islands", "islands", &p->islands));
    QG_TRY(read_word(r, file, "clamp", "clamp", clamps, &clamp));
    QG_TRY(read_word(r, file, "passive", "passive", passives, &copies));
    r->clamp = (qg_clamp)clamp;
    p->copies = copies == 1;
    return read_rows(r, file);
}

/* What a profile needs after all files of its family are read. */
static qg_status check_complete(const reader *r, const qg_yaml *file)
{
    const qg_profile *p = r->p;
    const char *missing = !p->activation ? "codes: activation"
                          : !p->weight   ? "codes: weight"
                          : !p->bias     ? "codes: bias"
                          : !p->n_row    ? "kernels"
                                         : NULL;
    if (missing)
        return qg_yaml_fail(r->ctx, file, "profile",
                            "key '%s' is missing, expected it here or in a parent",
                            missing);
    return QG_OK;
}

qg_status qg_profile_load(qg_ctx *ctx, qg_arena *a, const char *name, qg_search search,
                          const qg_profile **out)
{
    qg_family family;
    qg_profile *p = QG_NEW(a, qg_profile);
    reader r = { .ctx = ctx, .arena = a, .p = p };
    if (!p)
        return qg_nomem(ctx);
    qg_wanted w = { "profile", name, NULL, NULL, search };
    QG_TRY(qg_config_family(ctx, a, &w, &family));
    for (size_t i = family.n; i-- > 0;) {
        p->parent = p->name;
        QG_TRY(read_file(&r, family.file[i]));
    }
    QG_TRY(check_complete(&r, family.file[0]));
    *out = p;
    return QG_OK;
}
