#include "engine/ir/recipe.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Words of the maps; each list ends with NULL, as qg_attr_choice takes it. */
#define X(id, text, ...) text,
static const char *const forms[] = { QG_FORM_MAP(X) NULL };
static const char *const products[] = { QG_PRODUCTS_MAP(X) NULL };
static const char *const schemes[] = { QG_SCHEME_MAP(X) NULL };
static const char *const factors[] = { QG_FACTOR_MAP(X) NULL };
static const char *const roundings[] = { QG_ROUNDING_MAP(X) NULL };
static const char *const nans[] = { QG_NAN_MAP(X) NULL };
#undef X
static const char *const places[] = { "after", "inside", "fused", NULL };

/* The part of a name behind in<k>, inputs or out0. */
enum { NAME = 24 };

/* -- writing ---------------------------------------------------------------------- */

/* A list of attributes that grows; the first failure is kept. */
typedef struct list {
    qg_graph *g;
    qg_attr *at;
    size_t n;
    bool failed; /* no memory */
} list;

/* Room for `count` values of `size` bytes under this name; NULL when out of memory. */
static void *add(list *l, const char *name, qg_attr_type type, size_t count,
                 size_t size)
{
    void *data = qg_arena_get(l->g->arena, count, size);
    const char *kept = qg_intern(l->g->ctx, name);
    l->failed |= !data || !kept;
    l->at[l->n++] =
        (qg_attr){ .name = kept, .type = type, .count = count, .ints = data };
    return l->failed ? NULL : data;
}

static void add_int(list *l, const char *name, int64_t value)
{
    int64_t *data = add(l, name, QG_ATTR_INT, 1, sizeof *data);
    if (data)
        *data = value;
}

static void add_word(list *l, const char *name, const char *word)
{
    const char **data = add(l, name, QG_ATTR_STRING, 1, sizeof *data);
    if (data)
        *data = qg_arena_strdup(l->g->arena, word);
    l->failed |= data && !*data;
}

/* Numbers whose absence stands for 0. */
static void add_nonzero(list *l, const char *name, int64_t value)
{
    if (value)
        add_int(l, name, value);
}

static void add_floats(list *l, const char *name, const float *value, uint32_t n)
{
    qg_attr_type type = n == 1 ? QG_ATTR_FLOAT : QG_ATTR_FLOATS;
    float *data = add(l, name, type, n, sizeof *data);
    if (data)
        memcpy(data, value, n * sizeof *data);
}

static void add_tensor(list *l, const char *name, const int32_t *value, uint32_t n)
{
    qg_tensor *t = add(l, name, QG_ATTR_TENSOR, 1, sizeof *t);
    if (!t)
        return;
    qg_tensor_init(t, QG_I32, 1, (int64_t[]){ n });
    t->data = QG_NEWN(l->g->arena, n, int32_t);
    l->failed |= !t->data;
    if (t->data)
        memcpy(t->data, value, n * sizeof *value);
}

static const char *named(char text[NAME], const char *stem, const char *part)
{
    (void)snprintf(text, NAME, "%s_%s", stem, part);
    return text;
}

static void add_grid(list *l, const char *stem, const qg_stored *s)
{
    char name[NAME];
    add_word(l, named(name, stem, "type"), qg_dtype_name(s->dtype));
    add_floats(l, named(name, stem, "scale"), s->scale, s->n);
    if (s->n == 1) {
        add_int(l, named(name, stem, "zero"), s->zero[0]);
        return;
    }
    add_tensor(l, named(name, stem, "zero"), s->zero, s->n);
    add_int(l, named(name, stem, "axis"), s->axis);
}

static void add_row(list *l, const qg_profile_row *row, bool wide)
{
    const qg_requant_rule *rule = &row->requant;
    add_word(l, "row", row->id ? row->id : "");
    if (row->form)
        add_word(l, "form", forms[row->form]);
    if (row->products)
        add_word(l, "products", products[row->products]);
    if (row->rounding)
        add_word(l, "rounding", roundings[row->rounding]);
    if (row->uses & QG_USE_BIT(QUANTIZE) && row->nan > QG_NAN_LOWEST)
        add_word(l, "nan", nans[row->nan]);
    add_nonzero(l, "left", wide ? row->left16 : row->left8);
    if (!(qg_form_keys(row->form, row->uses) & QG_ROW_SCHEME))
        return;
    add_word(l, "scheme", schemes[rule->scheme]);
    add_word(l, "factor", factors[rule->factor]);
    add_word(l, "zero", places[rule->zero]);
    add_nonzero(l, "symmetric", rule->symmetric);
    add_nonzero(l, "accumulator", rule->accumulator == 64 ? 64 : 0);
}

/* Variadic operators have one grid per input: three parallel lists. */
static void add_all(list *l, const qg_stored *all, uint32_t n)
{
    const char **type = add(l, "inputs_type", QG_ATTR_STRINGS, n, sizeof *type);
    int64_t *zero = add(l, "inputs_zero", QG_ATTR_INTS, n, sizeof *zero);
    float *scale = add(l, "inputs_scale", QG_ATTR_FLOATS, n, sizeof *scale);
    for (uint32_t i = 0; !l->failed && i < n; i++) {
        assert(all[i].n == 1);
        type[i] = qg_arena_strdup(l->g->arena, qg_dtype_name(all[i].dtype));
        l->failed |= !type[i];
        zero[i] = all[i].zero[0];
        scale[i] = all[i].scale[0];
    }
}

/* Row 10, a grid 4 per input, lists 3, output 5. */
enum { MOST_ATTRIBUTES = 18 + 4 * QG_RECIPE_INPUTS };

qg_status qg_recipe_write(qg_graph *g, const qg_recipe *r, const qg_attr *own,
                          size_t n_own, const qg_attr **out, size_t *n_out)
{
    list l = { .g = g, .at = QG_NEWN(g->arena, n_own + MOST_ATTRIBUTES, qg_attr) };
    if (!l.at)
        return qg_nomem(g->ctx);
    if (n_own)
        memcpy(l.at, own, n_own * sizeof *own);
    l.n = n_own;
    add_row(&l, &r->row, r->out.codes && qg_dtype_bits(r->out.dtype) > 8);
    for (int k = 0; k < QG_RECIPE_INPUTS; k++) {
        char stem[NAME];
        (void)snprintf(stem, sizeof stem, "in%d", k);
        if (r->in[k].codes)
            add_grid(&l, stem, &r->in[k]);
    }
    if (r->n_all)
        add_all(&l, r->all, r->n_all);
    if (r->out.codes) {
        add_grid(&l, "out0", &r->out);
        add_int(&l, "out0_low", r->out.low);
        add_int(&l, "out0_high", r->out.high);
    } else {
        add_word(&l, "out0_type", qg_dtype_name(QG_F32));
    }
    if (l.failed)
        return qg_nomem(g->ctx);
    assert(l.n <= n_own + MOST_ATTRIBUTES);
    *out = l.at;
    *n_out = l.n;
    return QG_OK;
}

/* Whether an attribute is one of grid `stem`. */
static bool of_grid(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    return strncmp(name, stem, n) == 0 && name[n] == '_';
}

static bool replaced(const qg_recipe_edit *e, const char *name)
{
    const struct {
        const char *name, *word;
    } words[] = {
        {"form",      e->form    },
        { "products", e->products},
        { "rounding", e->rounding},
        { "scheme",   e->scheme  },
        { "factor",   e->factor  },
        { "zero",     e->zero    },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].word && strcmp(words[i].name, name) == 0)
            return true;
    return (e->left && strcmp(name, "left") == 0) ||
           (e->in[0] && of_grid(name, "in0")) || (e->in[1] && of_grid(name, "in1")) ||
           (e->out && of_grid(name, "out0"));
}

static void add_words(list *l, const qg_recipe_edit *e)
{
    if (e->form)
        add_word(l, "form", e->form);
    if (e->products)
        add_word(l, "products", e->products);
    if (e->rounding)
        add_word(l, "rounding", e->rounding);
    if (e->scheme)
        add_word(l, "scheme", e->scheme);
    if (e->factor)
        add_word(l, "factor", e->factor);
    if (e->zero)
        add_word(l, "zero", e->zero);
    add_nonzero(l, "left", e->left);
}

qg_status qg_recipe_change(qg_graph *g, qg_node *n, const qg_recipe_edit *e)
{
    list l = { .g = g, .at = QG_NEWN(g->arena, n->n_attr + MOST_ATTRIBUTES, qg_attr) };
    if (!l.at)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++)
        if (!replaced(e, n->attr[i].name))
            l.at[l.n++] = n->attr[i];
    add_words(&l, e);
    for (int k = 0; k < 2; k++)
        if (e->in[k])
            add_grid(&l, k ? "in1" : "in0", e->in[k]);
    if (e->out) {
        add_grid(&l, "out0", e->out);
        add_int(&l, "out0_low", e->out->low);
        add_int(&l, "out0_high", e->out->high);
    }
    if (l.failed)
        return qg_nomem(g->ctx);
    n->attr = l.at;
    n->n_attr = l.n;
    return qg_node_prepare(g, n);
}

/* -- reading ---------------------------------------------------------------------- */

#define fail(ctx, n, ...) qg_node_fail(ctx, QG_EMODEL, "attributes", n, __VA_ARGS__)

static qg_status read_choice(qg_ctx *ctx, const qg_node *n, const char *name,
                             const char *const *words, int *out)
{
    return qg_attr_choice(ctx, n, name, words, 0, out);
}

/* An INT within [low, high] in *out, `preset` when absent. */
static qg_status read_int(qg_ctx *ctx, const qg_node *n, const char *name,
                          qg_int_bounds b, int32_t *out)
{
    int64_t value;
    QG_TRY(qg_attr_int(ctx, n, name, b.preset, &value));
    if (value < b.low || value > b.high)
        return fail(ctx, n, "%s is %lld, expected %lld to %lld", name, (long long)value,
                    (long long)b.low, (long long)b.high);
    *out = (int32_t)value;
    return QG_OK;
}

static qg_status need(qg_ctx *ctx, const qg_node *n, const char *name)
{
    return qg_attr_has(n, name) ? QG_OK
                                : fail(ctx, n, "%s is missing, expected it", name);
}

/* The type by its name; those that hold codes. */
static qg_status code_type(qg_ctx *ctx, const qg_node *n, const char *name,
                           const char *word, qg_dtype *out)
{
    qg_dtype d = qg_dtype_named(word);
    if (d != QG_I8 && d != QG_U8 && d != QG_I16 && d != QG_U16)
        return fail(ctx, n, "%s is %s, expected int8, uint8, int16 or uint16", name,
                    word);
    *out = d;
    return QG_OK;
}

static qg_status check_scales(qg_ctx *ctx, const qg_node *n, const char *name,
                              const float *scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(scale[i]) || scale[i] < 0)
            return fail(ctx, n, "%s[%zu] is %g, expected a finite number of at least 0",
                        name, i, (double)scale[i]);
    return QG_OK;
}

static qg_status check_zero(qg_ctx *ctx, const qg_node *n, const char *name, int64_t z,
                            qg_dtype d)
{
    qg_code_range r = qg_code_range_of(d, 0);
    if (z < r.lo || z > r.hi)
        return fail(ctx, n, "%s is %lld, expected %d to %d as %s", name, (long long)z,
                    (int)r.lo, (int)r.hi, qg_dtype_name(d));
    return QG_OK;
}

/* One scale (FLOAT) or one per channel (FLOATS). */
static qg_status read_scales(qg_ctx *ctx, const qg_node *n, const char *name,
                             qg_stored *s)
{
    const qg_attr *a = qg_attr_find(n, name);
    if (!a || (a->type != QG_ATTR_FLOAT && a->type != QG_ATTR_FLOATS) || a->count < 1 ||
        a->count > INT32_MAX)
        return fail(ctx, n, "%s is %s, expected FLOAT or FLOATS", name,
                    a ? qg_attr_type_name(a->type) : "missing");
    s->n = (uint32_t)a->count;
    s->scale = a->floats;
    return check_scales(ctx, n, name, a->floats, a->count);
}

/* One zero point into *one, or one per channel, borrowed. */
static qg_status read_zeros(qg_ctx *ctx, const qg_node *n, const char *name,
                            qg_stored *s, int32_t *one)
{
    const qg_tensor *t;
    if (s->n == 1) {
        int64_t value;
        QG_TRY(need(ctx, n, name));
        QG_TRY(qg_attr_int(ctx, n, name, 0, &value));
        QG_TRY(check_zero(ctx, n, name, value, s->dtype));
        *one = (int32_t)value;
        s->zero = one;
        return QG_OK;
    }
    QG_TRY(qg_attr_tensor(ctx, n, name, &t));
    if (!t || t->dtype != QG_I32 || t->rank != 1 || t->dim[0] != s->n || !t->data)
        return fail(ctx, n, "%s is no tensor of %u values of int32, expected one", name,
                    (unsigned)s->n);
    for (uint32_t i = 0; i < s->n; i++)
        QG_TRY(check_zero(ctx, n, name, t->i32[i], s->dtype));
    s->zero = t->i32;
    return QG_OK;
}

/* Grid `stem`; a grid that is absent leaves *s zeroed. */
static qg_status read_grid(qg_ctx *ctx, const qg_node *n, const char *stem,
                           qg_stored *s, int32_t *one)
{
    char name[NAME];
    const char *word;
    if (!qg_attr_has(n, named(name, stem, "type")))
        return QG_OK;
    QG_TRY(qg_attr_string(ctx, n, name, "", &word));
    QG_TRY(code_type(ctx, n, name, word, &s->dtype));
    QG_TRY(read_scales(ctx, n, named(name, stem, "scale"), s));
    QG_TRY(read_zeros(ctx, n, named(name, stem, "zero"), s, one));
    QG_TRY(read_int(ctx, n, named(name, stem, "axis"),
                    (qg_int_bounds){ 0, 0, QG_MAX_RANK - 1 }, &s->axis));
    qg_code_range r = qg_code_range_of(s->dtype, 0);
    s->low = r.lo;
    s->high = r.hi;
    s->codes = true;
    return QG_OK;
}

static qg_status read_output(qg_ctx *ctx, const qg_node *n, qg_stored *s, int32_t *one)
{
    const char *word;
    QG_TRY(need(ctx, n, "out0_type"));
    QG_TRY(qg_attr_string(ctx, n, "out0_type", "", &word));
    s->dtype = QG_F32;
    if (strcmp(word, qg_dtype_name(QG_F32)) == 0)
        return QG_OK;
    QG_TRY(read_grid(ctx, n, "out0", s, one));
    if (s->n != 1 || !(s->scale[0] > 0))
        return fail(ctx, n, "out0_scale is no single number above 0, expected one");
    QG_TRY(read_int(ctx, n, "out0_low", (qg_int_bounds){ s->low, s->low, s->high },
                    &s->low));
    return read_int(ctx, n, "out0_high", (qg_int_bounds){ s->high, s->low, s->high },
                    &s->high);
}

static qg_status read_requant(qg_ctx *ctx, const qg_node *n, qg_requant_rule *rule)
{
    int scheme, factor, zero;
    int32_t bits, symmetric;
    if (!qg_attr_has(n, "scheme"))
        return QG_OK;
    QG_TRY(need(ctx, n, "factor"));
    QG_TRY(read_choice(ctx, n, "scheme", schemes, &scheme));
    QG_TRY(read_choice(ctx, n, "factor", factors, &factor));
    QG_TRY(read_choice(ctx, n, "zero", places, &zero));
    QG_TRY(read_int(ctx, n, "accumulator", (qg_int_bounds){ 32, 32, 64 }, &bits));
    QG_TRY(read_int(ctx, n, "symmetric", (qg_int_bounds){ 0, 0, 1 }, &symmetric));
    if (bits != 32 && bits != 64)
        return fail(ctx, n, "accumulator is %d, expected 32 or 64", (int)bits);
    rule->scheme = (uint8_t)scheme;
    rule->factor = (uint8_t)factor;
    rule->zero = (uint8_t)zero;
    rule->accumulator = (uint8_t)bits;
    rule->symmetric = symmetric;
    return QG_OK;
}

static qg_status read_row(qg_ctx *ctx, const qg_node *n, qg_profile_row *row)
{
    int form, product, rounding, nan;
    int32_t left;
    QG_TRY(qg_attr_string(ctx, n, "row", "", &row->id));
    QG_TRY(read_choice(ctx, n, "form", forms, &form));
    QG_TRY(read_choice(ctx, n, "products", products, &product));
    QG_TRY(read_choice(ctx, n, "rounding", roundings, &rounding));
    QG_TRY(read_choice(ctx, n, "nan", nans, &nan));
    QG_TRY(
        read_int(ctx, n, "left", (qg_int_bounds){ 0, 0, QG_RECIPE_MOST_LEFT }, &left));
    row->why = row->source = row->file = "";
    row->form = (qg_form)form;
    row->products = (qg_products)product;
    row->rounding = (qg_rounding)rounding;
    row->nan = (qg_nan)nan;
    row->left8 = row->left16 = (uint8_t)left;
    return read_requant(ctx, n, &row->requant);
}

qg_status qg_recipe_read(qg_ctx *ctx, const qg_node *n, qg_recipe *out)
{
    *out = (qg_recipe){ 0 };
    QG_TRY(read_row(ctx, n, &out->row));
    for (int k = 0; k < QG_RECIPE_INPUTS; k++) {
        char stem[NAME];
        (void)snprintf(stem, sizeof stem, "in%d", k);
        QG_TRY(read_grid(ctx, n, stem, &out->in[k], &out->zero_of[k]));
    }
    const qg_attr *all = qg_attr_find(n, "inputs_type");
    out->n_all = all ? (uint32_t)all->count : 0;
    return read_output(ctx, n, &out->out, &out->zero_of[QG_RECIPE_INPUTS]);
}

qg_status qg_recipe_read_all(qg_ctx *ctx, const qg_node *n, qg_arena *a,
                             const qg_stored **all, uint32_t *n_all)
{
    const char *const *type;
    const int64_t *zero;
    const float *scale;
    size_t types, zeros, scales;
    QG_TRY(qg_attr_strings(ctx, n, "inputs_type", &type, &types));
    QG_TRY(qg_attr_ints(ctx, n, "inputs_zero", &zero, &zeros));
    QG_TRY(qg_attr_floats(ctx, n, "inputs_scale", &scale, &scales));
    if (types != n->n_in || zeros != types || scales != types)
        return fail(ctx, n,
                    "%zu inputs_type, %zu inputs_scale and %zu inputs_zero, expected "
                    "%u of each",
                    types, scales, zeros, (unsigned)n->n_in);
    QG_TRY(check_scales(ctx, n, "inputs_scale", scale, scales));
    qg_stored *s = QG_NEWN(a, types, qg_stored);
    int32_t *zero_of = QG_NEWN(a, types, int32_t);
    if (!s || !zero_of)
        return qg_nomem(ctx);
    for (size_t i = 0; i < types; i++) {
        qg_dtype d;
        QG_TRY(code_type(ctx, n, "inputs_type", type[i], &d));
        QG_TRY(check_zero(ctx, n, "inputs_zero", zero[i], d));
        qg_code_range r = qg_code_range_of(d, 0);
        zero_of[i] = (int32_t)zero[i];
        s[i] = (qg_stored){ true, d, 1, scale + i, zero_of + i, 0, r.lo, r.hi };
    }
    *all = s;
    *n_all = (uint32_t)types;
    return QG_OK;
}
