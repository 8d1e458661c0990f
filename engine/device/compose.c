#include "engine/device/compose.h"

#include <string.h>

#include "engine/core/reads.h"
#include "engine/device/draft.h"
#include "engine/device/profile_file.h"

typedef struct composer {
    qg_fit *f;
    size_t n_shipped;                 /* of f->profile: those behind are trials */
    const qg_fit_profile *base, *now; /* now: with the parts so far */
    qg_arena *arena;
    QG_VEC(qg_profile_part) part;
} composer;

/* --- the nearest profile --- */

static bool is_named(const qg_fit_profile *p, const char *name)
{
    return name && strcmp(p->profile->name, name) == 0;
}

/* The profile of the simulation before that of the backend, both before others. */
static int kinship(const qg_fit *f, const qg_fit_profile *p)
{
    const qg_backend *b = f->d->m->quant ? f->d->m->quant->backend : NULL;
    return is_named(p, f->d->exe.program->profile->name) ? 2
           : b && is_named(p, b->profile)                ? 1
                                                         : 0;
}

static bool is_nearer(const qg_fit *f, const qg_fit_profile *p, const qg_fit_profile *q)
{
    size_t n = qg_fit_explained(f, p), m = qg_fit_explained(f, q);
    int k = kinship(f, p), l = kinship(f, q);
    if (n != m)
        return n > m;
    return k != l ? k > l : p->profile->n_row < q->profile->n_row;
}

/* NULL: all refuse the network.  The first in order of names among equals. */
static const qg_fit_profile *nearest(const qg_fit *f)
{
    const qg_fit_profile *best = NULL;
    for (size_t i = 0; i < f->profile.n; i++) {
        const qg_fit_profile *p = f->profile.at[i];
        if (p->cell && (!best || is_nearer(f, p, best)))
            best = p;
    }
    return best;
}

static qg_status report_nearest(const composer *c, qg_report *r)
{
    const char *others = "";
    size_t n = qg_fit_explained(c->f, c->base);
    QG_TRY(qg_report_add(r, "nearest", qg_cell_text(c->base->profile->name)));
    for (size_t i = 0; others && i < c->n_shipped; i++) {
        const qg_fit_profile *p = c->f->profile.at[i];
        if (p != c->base && p->cell && qg_fit_explained(c->f, p) == n)
            others = qg_arena_printf(c->arena, "%s%s%s", others, *others ? ", " : "",
                                     p->profile->name);
    }
    if (!others)
        return qg_nomem(c->f->d->ctx);
    return *others ? qg_report_add(r, "as_near", qg_cell_text(others)) : QG_OK;
}

/* --- trials --- */

/* NULL: no such row, or no id ("": a value without a kernel of its own). */
static const qg_profile_row *row_named(const qg_profile *p, const char *id)
{
    for (size_t i = 0; p && id && *id && i < p->n_row; i++)
        if (strcmp(p->row[i].id, id) == 0)
            return &p->row[i];
    return NULL;
}

/* The base with all parts before its own rows, as a file with them is read. */
static qg_status assemble(const composer *c, qg_profile **out)
{
    qg_profile *p = QG_NEW(c->arena, qg_profile);
    size_t n = c->part.n + c->base->profile->n_row;
    qg_profile_row *row = QG_NEWN(c->arena, n, qg_profile_row);
    if (!p || !row)
        return qg_nomem(c->f->d->ctx);
    *p = *c->base->profile;
    for (size_t i = 0; i < c->part.n; i++)
        row[i] = c->part.at[i].row;
    memcpy(row + c->part.n, p->row, p->n_row * sizeof *row);
    p->row = row;
    p->n_row = n;
    *out = p;
    return QG_OK;
}

/* The step is explained now, and more steps in all. */
static bool is_better(const composer *c, const qg_fit_profile *p, size_t step)
{
    return p->cell && qg_fit_explains(&p->cell[step]) &&
           qg_fit_explained(c->f, p) > qg_fit_explained(c->f, c->now);
}

/* Keeps the part when it explains step `step`. */
static qg_status try_part(composer *c, const qg_profile_part *part, size_t step,
                          bool *kept)
{
    qg_profile *p;
    QG_TRY(qg_vec_push(c->f->d->ctx, c->arena, &c->part, *part));
    QG_TRY(assemble(c, &p));
    QG_TRY(qg_fit_add_profile(c->f, p));
    QG_TRY(qg_fit_run(c->f));
    const qg_fit_profile *tried = c->f->profile.at[c->f->profile.n - 1];
    *kept = is_better(c, tried, step);
    if (*kept) {
        c->now = tried;
        return QG_OK;
    }
    c->part.n--;
    qg_fit_drop(c->f);
    return QG_OK;
}

/* Uses are limited to those of the row that is replaced, so that other steps keep
 * their rows; all of them where the two have none in common. */
static uint64_t uses_for(const composer *c, const qg_profile_row *row, size_t step)
{
    const qg_profile_row *own = row_named(c->base->profile, c->base->cell[step].row);
    uint64_t both = own ? row->uses & own->uses : 0;
    return both ? both : row->uses;
}

static bool is_tried(const qg_profile_row *const *done, size_t n,
                     const qg_profile_row *row)
{
    for (size_t i = 0; i < n; i++)
        if (done[i] == row)
            return true;
    return false;
}

/* The first profile whose row makes the step equal here, too. */
static qg_status cover(composer *c, size_t step)
{
    const qg_profile_row **done =
        QG_NEWN(c->arena, c->n_shipped, const qg_profile_row *);
    bool kept = false;
    if (!done)
        return qg_nomem(c->f->d->ctx);
    for (size_t k = 0, n = 0; k < c->n_shipped && !kept; k++) {
        const qg_fit_profile *p = c->f->profile.at[k];
        const qg_profile_row *row =
            p->cell ? row_named(p->profile, p->cell[step].row) : NULL;
        if (p == c->base || !row || !qg_fit_explains(&p->cell[step]) ||
            is_tried(done, n, row))
            continue;
        qg_profile_part part = { *row, p->profile->name, row->id, 0, 0 };
        part.row.id = qg_arena_printf(c->arena, "fit-%zu-%s", c->part.n + 1, row->id);
        part.row.uses = uses_for(c, row, step);
        if (!part.row.id)
            return qg_nomem(c->f->d->ctx);
        done[n++] = row;
        QG_TRY(try_part(c, &part, step, &kept));
    }
    return QG_OK;
}

/* --- what it explains --- */

/* Values of each part, in this trial. */
static void count_parts(composer *c, const qg_fit_profile *p)
{
    for (size_t k = 0; k < c->part.n; k++) {
        qg_profile_part *t = &c->part.at[k];
        t->steps = t->explained = 0;
        for (size_t i = 0; p->cell && i < c->f->d->n_step; i++) {
            bool of = p->cell[i].row && strcmp(p->cell[i].row, t->row.id) == 0;
            t->steps += of;
            t->explained += of && qg_fit_explains(&p->cell[i]);
        }
    }
}

/* The base by its name; a file that was given, by that in the folder of the new one
 * (qg_draft_check_path). */
static const char *parent_of(const composer *c)
{
    const qg_profile *p = c->base->profile;
    const char *given = c->f->given;
    if (!given || strcmp(p->file, given) != 0)
        return p->name;
    return *given == '/' ? given : qg_path_base(given);
}

static qg_status write(const composer *c, const qg_fit_profile *p, const char *path)
{
    qg_profile_draft d = { .name = qg_draft_name(c->arena, path),
                           .parent = qg_draft_quoted(c->arena, parent_of(c)),
                           .part = c->part.at,
                           .n = c->part.n,
                           .steps = c->f->d->n_step,
                           .explained = qg_fit_explained(c->f, p) };
    return d.name && d.parent ? qg_profile_write(c->f->d->ctx, &d, path)
                              : qg_nomem(c->f->d->ctx);
}

/* The file as the strict reader reads it, on the dump; then with the numbers of that
 * trial.  "./" before a bare name: a name without a folder is looked up among the
 * shipped profiles. */
static qg_status write_and_try(composer *c, const char *path)
{
    qg_search search;
    const char *file = strchr(path, '/') ? path : qg_path_join(c->arena, ".", path);
    if (!file)
        return qg_nomem(c->f->d->ctx);
    QG_TRY(qg_draft_check_name(c->f->d->ctx, "fit", path, c->base->profile->name));
    QG_TRY(write(c, c->now, path));
    QG_TRY(qg_config_search(c->f->d->ctx, c->arena, "profiles", &search));
    QG_TRY(qg_fit_add(c->f, file, search));
    qg_reads_remove(c->f->d->ctx, path);
    QG_TRY(qg_fit_run(c->f));
    c->now = c->f->profile.at[c->f->profile.n - 1];
    count_parts(c, c->now);
    return write(c, c->now, path);
}

static qg_status report_parts(const composer *c, qg_report *r)
{
    qg_table *t;
    if (!c->part.n)
        return QG_OK;
    QG_TRY(qg_report_table(r, "rows", "row from values explains", &t));
    for (size_t i = 0; i < c->part.n; i++) {
        const qg_profile_part *p = &c->part.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(p->origin), qg_cell_text(p->from),
                              qg_cell_count(p->steps), qg_cell_count(p->explained)));
    }
    return QG_OK;
}

qg_status qg_fit_compose(qg_fit *f, const char *path, qg_report *r)
{
    composer c = {
        .f = f, .n_shipped = f->profile.n, .base = nearest(f), .arena = r->arena
    };
    if (!c.base)
        return QG_OK;
    c.now = c.base;
    for (size_t i = 0; i < f->d->n_step; i++)
        if (!qg_fit_explains(&c.now->cell[i]))
            QG_TRY(cover(&c, i));
    count_parts(&c, c.now);
    if (path)
        QG_TRY(write_and_try(&c, path));
    QG_TRY(report_nearest(&c, r));
    QG_TRY(qg_report_add(r, "rows_taken", qg_cell_count(c.part.n)));
    if (path)
        QG_TRY(qg_report_add(r, "written", qg_cell_text(path)));
    QG_TRY(report_parts(&c, r));
    return qg_report_addf(r, "composed_explains", "%zu of %zu values",
                          qg_fit_explained(f, c.now), f->d->n_step);
}
