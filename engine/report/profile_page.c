/* profile_page.c -- a profile as a page: its rows with those of its parents, as files
 * have them, with reasons and sources. */
#include <math.h>

#include "engine/config/profile_yaml.h"
#include "engine/core/num.h"
#include "engine/report/report.h"

/* One page under way.  Texts are made in the report's arena; a NULL text is out of
 * memory and is found where it is added. */
typedef struct page {
    qg_report *r;
    qg_arena *arena; /* the report's */
} page;

/* Texts grow by pieces; once NULL (out of memory) they stay so. */
#define JOIN(p, text, fmt, ...)                                                        \
    ((text) ? qg_arena_printf((p)->arena, "%s%s" fmt, (text), *(text) ? ", " : "",     \
                              __VA_ARGS__)                                             \
            : NULL)

static const char *uses_text(page *p, uint64_t uses)
{
    const char *text = "";
    for (int u = 0; u < QG_NUSE; u++)
        if (uses >> u & 1)
            text = JOIN(p, text, "%s", qg_kernel_use_name((qg_kernel_use)u));
    return text;
}

static const char *types_text(page *p, uint64_t types)
{
    const char *text = "";
    for (int d = 0; d < QG_NDTYPE; d++)
        if (types >> d & 1)
            text = JOIN(p, text, "%s", qg_dtype_name((qg_dtype)d));
    return text;
}

/* ", x: int8, uint8" is one condition of `types:`; nothing when any type fits. */
static const char *type_text(page *p, const char *text, const char *key, uint64_t types)
{
    const char *names = types ? types_text(p, types) : "";
    if (!names || !types)
        return names ? text : NULL;
    return JOIN(p, text, "%s: [%s]", key, names);
}

/* What an operator must fulfil. */
static const char *fits_text(page *p, const qg_profile_row *row)
{
    char number[QG_NUM_TEXT];
    const char *text = type_text(p, "", "x", row->x);
    text = type_text(p, text, "w", row->w);
    text = type_text(p, text, "y", row->y);
    if (row->like_x)
        text = JOIN(p, text, "y: %s", "x");
    if (row->ratio_low > 0) {
        qg_num_f32(number, row->ratio_low);
        text = JOIN(p, text, "ratio from %s", number);
    }
    if (isfinite(row->ratio_high)) {
        qg_num_f32(number, row->ratio_high);
        text = JOIN(p, text, "ratio below %s", number);
    }
    if (row->w_centred)
        text = JOIN(p, text, "%s", "w-zero: 0");
    for (int a = 0; a < QG_NACTIVATION; a++)
        if (row->limits >> a & 1)
            text = JOIN(p, text, "limits: %s", qg_activation_name((qg_activation)a));
    return text;
}

/* scheme, factor and what else differs from the default. */
static const char *requant_text(page *p, const char *text, const qg_profile_row *row,
                                unsigned keys)
{
    static const char *const zeros[QG_NZERO] = { "after", "inside", "fused" };
    const qg_requant_rule *q = &row->requant;
    if (keys & QG_ROW_SCHEME)
        text = JOIN(p, text, "scheme: %s",
                    qg_requant_scheme_name((qg_requant_scheme)q->scheme));
    if (keys & QG_ROW_FACTOR)
        text = JOIN(p, text, "factor: %s, zero: %s",
                    qg_factor_name((qg_factor)q->factor), zeros[q->zero]);
    if (q->symmetric)
        text = JOIN(p, text, "%s", "symmetric: yes");
    if (q->accumulator != 32)
        text = JOIN(p, text, "accumulator: %d", q->accumulator);
    return text;
}

/* What it computes, with the keys of a file. */
static const char *computes_text(page *p, const qg_profile_row *row)
{
    unsigned keys = qg_form_keys(row->form, row->uses);
    char number[QG_NUM_TEXT];
    const char *text = "";
    text = JOIN(p, text, "form: %s", qg_form_name(row->form));
    if (row->uses & QG_USES_PRODUCTS)
        text = JOIN(p, text, "products: %s, tail: %s", qg_products_name(row->products),
                    qg_tail_name(row->tail));
    text = requant_text(p, text, row, keys);
    if (keys & QG_ROW_ROUNDING)
        text = JOIN(p, text, "rounding: %s", qg_rounding_name(row->rounding));
    if (row->uses & QG_USE_BIT(QUANTIZE))
        text = JOIN(p, text, "nan: %s", qg_nan_name(row->nan));
    if (row->left8)
        text = JOIN(p, text, "left of 8 bits: %d", row->left8);
    if (row->left16)
        text = JOIN(p, text, "left of 16 bits: %d", row->left16);
    if (row->has_output) {
        qg_num_f32(number, row->output_scale);
        text = JOIN(p, text, "output: [%s, %d]", number, (int)row->output_zero);
    }
    if (row->snapshot_scale > 0) {
        qg_num_f32(number, row->snapshot_scale);
        text = JOIN(p, text, "scale: %s", number);
    }
    return JOIN(p, text, "clamp: %s", qg_clamp_name(row->clamp));
}

static qg_status add(page *p, qg_table *t, const char *text)
{
    return text ? qg_table_add(p->r, t, qg_cell_text(*text ? text : NULL))
                : qg_nomem(p->r->ctx);
}

static qg_status fact(page *p, const char *name, const char *text)
{
    return text ? qg_report_add(p->r, name, qg_cell_text(*text ? text : NULL))
                : qg_nomem(p->r->ctx);
}

static qg_status fill(page *p, const qg_profile *profile)
{
    qg_table *t;
    QG_TRY(fact(p, "profile", profile->name));
    QG_TRY(fact(p, "title", profile->title));
    QG_TRY(fact(p, "parent", profile->parent ? profile->parent : ""));
    QG_TRY(fact(p, "evidence", profile->documented ? "documentation" : "run"));
    QG_TRY(fact(p, "activation", types_text(p, profile->activation)));
    QG_TRY(fact(p, "weight", types_text(p, profile->weight)));
    QG_TRY(fact(p, "bias", qg_dtype_name(profile->bias)));
    QG_TRY(qg_report_add(p->r, "islands", qg_cell_bool(profile->islands)));
    QG_TRY(fact(p, "passive", profile->copies ? "copies" : "all"));
    QG_TRY(qg_report_table(p->r, "kernels", "id use fits computes why source at", &t));
    t->records = true;
    for (size_t i = 0; i < profile->n_row; i++) {
        const qg_profile_row *row = &profile->row[i];
        QG_TRY(add(p, t, row->id));
        QG_TRY(add(p, t, uses_text(p, row->uses)));
        QG_TRY(add(p, t, fits_text(p, row)));
        QG_TRY(add(p, t, computes_text(p, row)));
        QG_TRY(add(p, t, row->why));
        QG_TRY(add(p, t, row->source));
        QG_TRY(qg_table_place(p->r, t, row->file, row->line));
    }
    return QG_OK;
}

qg_status qg_profile_page(qg_ctx *ctx, const char *name, qg_report **report)
{
    page p = { 0 };
    qg_search search;
    const qg_profile *profile;
    QG_TRY(qg_report_new(ctx, "profile", &p.r));
    p.arena = p.r->arena;
    qg_status s = qg_config_search(ctx, p.arena, "profiles", &search);
    if (s == QG_OK)
        s = qg_profile_load(ctx, p.arena, name, search, &profile);
    if (s == QG_OK)
        s = fill(&p, profile);
    if (s == QG_OK)
        *report = p.r;
    else
        qg_report_free(p.r);
    return s;
}
