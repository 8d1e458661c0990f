#include "engine/device/profile_file.h"

#include <math.h>
#include <stdio.h>

#include "engine/core/num.h"
#include "engine/session/sink.h"

/* "x: [int8, uint8]" of a set of types, behind a comma unless it is the first. */
static void put_types(FILE *f, const char *name, uint64_t types, bool *any)
{
    if (!types)
        return;
    fprintf(f, "%s%s: [", *any ? ", " : "", name);
    bool first = true;
    for (int d = 0; d < QG_NDTYPE; d++)
        if (types >> d & 1) {
            fprintf(f, "%s%s", first ? "" : ", ", qg_dtype_name((qg_dtype)d));
            first = false;
        }
    fputc(']', f);
    *any = true;
}

/* The shortest decimal that is read as the same float. */
static void put_number(FILE *f, float x)
{
    char text[QG_NUM_TEXT];
    qg_num_f32(text, x);
    fputs(text, f);
}

static void put_ratio(FILE *f, const qg_profile_row *r)
{
    if (r->ratio_low <= 0 && !isfinite(r->ratio_high))
        return;
    fputs("    ratio: {", f);
    if (r->ratio_low > 0) {
        fputs("from: ", f);
        put_number(f, r->ratio_low);
    }
    if (isfinite(r->ratio_high)) {
        fputs(r->ratio_low > 0 ? ", below: " : "below: ", f);
        put_number(f, r->ratio_high);
    }
    fputs("}\n", f);
}

/* The conditions of a row: types, grids and limits.  Absent: it fits all. */
static void put_fits(FILE *f, const qg_profile_row *r)
{
    bool any = false;
    if (r->x || r->w || r->y || r->like_x) {
        fputs("    types: {", f);
        put_types(f, "x", r->x, &any);
        put_types(f, "w", r->w, &any);
        if (r->like_x)
            fprintf(f, "%sy: x", any ? ", " : "");
        else
            put_types(f, "y", r->y, &any);
        fputs("}\n", f);
    }
    put_ratio(f, r);
    if (r->w_centred)
        fputs("    w-zero: 0\n", f);
    if (!r->limits)
        return;
    const char *before = "    limits: [";
    for (int a = 0; a < QG_NACTIVATION; a++)
        if (r->limits >> a & 1) {
            fprintf(f, "%s%s", before, qg_activation_name((qg_activation)a));
            before = ", ";
        }
    fputs("]\n", f);
}

static void put_uses(FILE *f, uint64_t uses)
{
    bool first = true;
    fputs("    use: [", f);
    for (int u = 0; u < QG_NUSE; u++)
        if (uses >> u & 1) {
            fprintf(f, "%s%s", first ? "" : ", ", qg_kernel_use_name((qg_kernel_use)u));
            first = false;
        }
    fputs("]\n", f);
}

/* The keys of a row that its form has for these uses: the reader refuses others. */
static void put_arithmetic(FILE *f, const qg_profile_row *r, uint64_t uses)
{
    static const char *const places[] = { "after", "inside", "fused" };
    unsigned keys = qg_form_keys(r->form, uses);
    fprintf(f, "    form: %s\n", qg_form_name(r->form));
    if (uses & QG_USES_PRODUCTS)
        fprintf(f, "    products: %s\n    tail: %s\n", qg_products_name(r->products),
                qg_tail_name(r->tail));
    if (keys & QG_ROW_ROUNDING)
        fprintf(f, "    rounding: %s\n", qg_rounding_name(r->rounding));
    if (keys & QG_ROW_SCHEME)
        fprintf(f, "    scheme: %s\n",
                qg_requant_scheme_name((qg_requant_scheme)r->requant.scheme));
    if (keys & QG_ROW_FACTOR)
        fprintf(f, "    factor: %s\n    zero: %s\n",
                qg_factor_name((qg_factor)r->requant.factor), places[r->requant.zero]);
    if (keys & QG_ROW_LEFT && r->left16)
        fprintf(f, "    left: {8: %u, 16: %u}\n", (unsigned)r->left8,
                (unsigned)r->left16);
    else if (keys & QG_ROW_LEFT)
        fprintf(f, "    left: {8: %u}\n", (unsigned)r->left8);
    if (r->requant.symmetric)
        fputs("    symmetric: yes\n", f);
    if (r->requant.accumulator == 64)
        fputs("    accumulator: 64\n", f);
    if (uses & QG_USE_BIT(QUANTIZE))
        fprintf(f, "    nan: %s\n", qg_nan_name(r->nan));
    fprintf(f, "    clamp: %s\n", qg_clamp_name(r->clamp));
    if (r->snapshot_scale > 0) {
        fputs("    scale: ", f);
        put_number(f, r->snapshot_scale);
        fputs("\n", f);
    }
    if (r->has_output) {
        fputs("    output: [", f);
        put_number(f, r->output_scale);
        fprintf(f, ", %d]\n", (int)r->output_zero);
    }
}

static void put_part(FILE *f, const qg_profile_part *p)
{
    fprintf(f, "  - id: %s\n", p->row.id);
    put_uses(f, p->row.uses);
    put_fits(f, &p->row);
    put_arithmetic(f, &p->row, p->row.uses);
    fprintf(f,
            "    why: row %s of %s explains %zu of the %zu values that it computes\n"
            "    source: qg fit\n",
            p->origin, p->from, p->explained, p->steps);
}

static void put_profile(FILE *f, const qg_profile_draft *d)
{
    fprintf(f,
            "name: %s\ntitle: composed of the rows that explain a dump\nextends: %s\n"
            "why: explains %zu of %zu values of a dump\nsource: qg fit\n",
            d->name, d->parent, d->explained, d->steps);
    if (d->n)
        fputs("kernels:\n", f);
    for (size_t i = 0; i < d->n; i++) {
        fputs(i ? "\n" : "", f);
        put_part(f, &d->part[i]);
    }
}

qg_status qg_profile_write(qg_ctx *ctx, const qg_profile_draft *d, const char *path)
{
    qg_writer w;
    QG_TRY(qg_writer_open(ctx, path, &w));
    put_profile(w.stream, d);
    return qg_writer_commit(&w);
}
