#include "engine/device/compose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/device/draft.h"

/* --- which rows --- */

/* NULL: no such row, or no id ("": a value without a kernel of its own). */
static const qg_profile_row *row_named(const qg_profile *p, const char *id)
{
    for (size_t i = 0; p && *id && i < p->n_row; i++)
        if (strcmp(p->row[i].id, id) == 0)
            return &p->row[i];
    return NULL;
}

/* The profile that explains most steps, the first among equals.  NULL: all refuse
 * the network. */
static const qg_fit_profile *nearest(const qg_fit *f)
{
    const qg_fit_profile *best = NULL;
    for (size_t i = 0; i < f->profile.n; i++) {
        const qg_fit_profile *p = f->profile.at[i];
        if (p->cell && (!best || qg_fit_explained(f, p) > qg_fit_explained(f, best)))
            best = p;
    }
    return best;
}

/* A row of another profile, for the uses that it replaces. */
typedef struct taken {
    const qg_profile_row *row;
    const char *from; /* profile */
    uint64_t uses;
} taken;

typedef struct composer {
    qg_fit *f;
    const qg_fit_profile *base;
    qg_arena *arena;
    QG_VEC(taken) row;
} composer;

/* A row is written once, with all uses for which it was taken. */
static qg_status take(composer *c, const taken *t)
{
    for (size_t i = 0; i < c->row.n; i++)
        if (c->row.at[i].row == t->row) {
            c->row.at[i].uses |= t->uses;
            return QG_OK;
        }
    return qg_vec_push(c->f->d->ctx, c->arena, &c->row, *t);
}

/* The first profile that explains step i by a row of its own; nothing when none
 * does.  Uses are limited to those of the row it replaces, so that steps which the
 * base explains keep their rows.  A row can still be the wrong one for another step
 * of the same use: check counts what the file explains. */
static qg_status cover(composer *c, size_t i)
{
    const qg_profile_row *own =
        row_named(c->base->profile, c->base->cell[i].row ? c->base->cell[i].row : "");
    for (size_t k = 0; k < c->f->profile.n; k++) {
        const qg_fit_profile *p = c->f->profile.at[k];
        const char *id = p->cell && p->cell[i].row ? p->cell[i].row : "";
        const qg_profile_row *row = row_named(p->profile, id);
        if (p == c->base || !row || !qg_fit_explains(&p->cell[i]))
            continue;
        uint64_t both = own ? row->uses & own->uses : 0;
        return take(c, &(taken){ row, p->profile->name, both ? both : row->uses });
    }
    return QG_OK;
}

/* --- YAML --- */

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

/* The conditions of a row: types and ratio of scales.  Absent: it fits all. */
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
        fprintf(f, "    scheme: %s\n    zero: %s\n",
                qg_requant_scheme_name((qg_requant_scheme)r->requant.scheme),
                places[r->requant.zero]);
    if (keys & QG_ROW_FACTOR)
        fprintf(f, "    factor: %s\n", qg_factor_name((qg_factor)r->requant.factor));
    if (keys & QG_ROW_LEFT && r->left16)
        fprintf(f, "    left: {8: %u, 16: %u}\n", (unsigned)r->left8,
                (unsigned)r->left16);
    else if (keys & QG_ROW_LEFT)
        fprintf(f, "    left: {8: %u}\n", (unsigned)r->left8);
    if (r->requant.symmetric)
        fputs("    symmetric: yes\n", f);
    if (r->requant.accumulator == 64)
        fputs("    accumulator: 64\n", f);
    fprintf(f, "    clamp: %s\n", qg_clamp_name(r->clamp));
    if (r->has_output) {
        fputs("    output: [", f);
        put_number(f, r->output_scale);
        fprintf(f, ", %d]\n", (int)r->output_zero);
    }
}

static void put_profile(FILE *f, const composer *c, const char *name)
{
    fprintf(f,
            "name: %s\ntitle: composed of the rows that explain a dump\nextends: %s\n"
            "why: each row explains every element of the steps that it computes\n"
            "source: qg fit\n",
            name, c->base->profile->name);
    if (c->row.n)
        fputs("kernels:\n", f);
    for (size_t i = 0; i < c->row.n; i++) {
        const taken *t = &c->row.at[i];
        fprintf(f, "%s  - id: fit-%zu-%s\n", i ? "\n" : "", i + 1, t->row->id);
        put_uses(f, t->uses);
        put_fits(f, t->row);
        put_arithmetic(f, t->row, t->uses);
        fprintf(f, "    why: row %s of %s explains the dump\n    source: qg fit\n",
                t->row->id, t->from);
    }
}

static qg_status write(composer *c, const char *path)
{
    qg_writer w;
    const char *name = qg_draft_name(c->arena, path);
    if (!name)
        return qg_nomem(c->f->d->ctx);
    QG_TRY(qg_draft_check_name(c->f->d->ctx, "fit", path, c->base->profile->name));
    QG_TRY(qg_writer_open(c->f->d->ctx, path, &w));
    put_profile(w.stream, c, name);
    return qg_writer_commit(&w);
}

/* The file as the strict reader reads it, on the dump.  "./" before a bare name: a
 * name without a folder is looked up among the shipped profiles. */
static qg_status check(composer *c, const char *path, qg_report *r)
{
    qg_search search;
    const char *file = strchr(path, '/') ? path : qg_path_join(c->arena, ".", path);
    if (!file)
        return qg_nomem(c->f->d->ctx);
    QG_TRY(qg_config_search(c->f->d->ctx, c->arena, "profiles", &search));
    QG_TRY(qg_fit_add(c->f, file, search));
    QG_TRY(qg_fit_run(c->f));
    const qg_fit_profile *p = c->f->profile.at[c->f->profile.n - 1];
    QG_TRY(qg_report_add(r, "written", qg_cell_text(path)));
    return qg_report_addf(r, "composed_explains", "%zu of %zu values",
                          qg_fit_explained(c->f, p), c->f->d->n_step);
}

qg_status qg_fit_compose(qg_fit *f, const char *path, qg_report *r)
{
    composer c = { .f = f, .base = nearest(f), .arena = r->arena };
    if (!c.base)
        return QG_OK;
    for (size_t i = 0; i < f->d->n_step; i++)
        if (!qg_fit_explains(&c.base->cell[i]))
            QG_TRY(cover(&c, i));
    QG_TRY(qg_report_add(r, "nearest", qg_cell_text(c.base->profile->name)));
    QG_TRY(qg_report_add(r, "rows_taken", qg_cell_count(c.row.n)));
    if (!path)
        return QG_OK;
    QG_TRY(write(&c, path));
    return check(&c, path, r);
}
