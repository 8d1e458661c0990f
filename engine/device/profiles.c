#include "engine/device/profiles.h"

#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/exec/pool.h"
#include "engine/ir/text.h"

/* Removes the attribute row="..." in place: ids of rows are for people, and kernels
 * that differ in nothing else compute the same. */
static void text_without_rows(char *text)
{
    static const char mark[] = " row=\"";
    char *to = text;
    for (const char *p = text; *p;) {
        if (strncmp(p, mark, sizeof mark - 1) == 0) {
            p += sizeof mark - 1;
            while (*p && *p++ != '"')
                ;
            continue;
        }
        *to++ = *p++;
    }
    *to = 0;
}

/* A hash of the printed graph, the same for equal graphs: all arithmetic is in the
 * attributes that are printed (ir/recipe.h). */
qg_status qg_fit_key(qg_ctx *ctx, const qg_graph *g, char key[QG_HASH_TEXT])
{
    char *text;
    size_t size;
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_status s = a ? qg_text_print(g, NULL, a, &text, &size) : qg_nomem(ctx);
    if (s == QG_OK) {
        text_without_rows(text);
        qg_hash_bytes(text, strlen(text), key);
    }
    qg_arena_free(a);
    return s;
}

/* FNV-1a over 64-bit words with 8 bits of fraction, over all samples in order:
 * results that are equal have equal hashes, floats that differ by less than 1/256
 * mostly, too. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const double *ours,
                     const double *theirs)
{
    qg_fit_try *t = ud;
    (void)ctx, (void)sample, (void)theirs;
    for (size_t i = 0; i < t->step->elements; i++)
        t->result =
            (t->result ^ (uint64_t)(int64_t)(ours[i] * 256)) * UINT64_C(0x100000001b3);
    return QG_OK;
}

/* One graph in a worker.  A kernel that fails explains nothing; the fit goes on.  A
 * file that cannot be read, or no memory, is not the kernel's failure. */
static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    qg_fit *f = ud;
    qg_fit_try *t = f->todo.at[i];
    (void)state;
    qg_status s = qg_step_try(t->d, ctx, t->step, &t->cut, &(qg_step_see){ see, t, 0 },
                              &t->tally);
    t->failed = s != QG_OK;
    if (qg_is_nomem(s) || s == QG_EIO)
        return s;
    return qg_meter_add(&f->meter, ctx, 1);
}

/* The same graph of an earlier profile; NULL: none. */
static qg_fit_try *earlier(const qg_fit *f, const char *key)
{
    for (size_t i = 0; i < f->todo.n; i++)
        if (strcmp(f->todo.at[i]->key, key) == 0)
            return f->todo.at[i];
    return NULL;
}

/* *out: a new graph to compute, or the equal one of an earlier profile; then this one
 * is freed. */
static qg_status add_try(qg_fit *f, const qg_device *d, const qg_device_step *s,
                         qg_fit_try **out)
{
    qg_fit_try *t = QG_NEW(f->d->arena, qg_fit_try);
    if (!t)
        return qg_nomem(f->d->ctx);
    *t = (qg_fit_try){ .d = d, .step = s };
    QG_TRY(qg_step_cut(d, s, &t->cut));
    qg_status status = qg_fit_key(f->d->ctx, t->cut.graph, t->key);
    *out = status == QG_OK ? earlier(f, t->key) : NULL;
    if (!*out && status == QG_OK) {
        *out = t;
        status = qg_vec_push(f->d->ctx, f->d->arena, &f->todo, t);
    }
    if (*out != t || status != QG_OK)
        qg_graph_free(t->cut.graph);
    return status;
}

/* The row of a step in the program of d: of the kernel that makes it. */
static void note_row(const qg_device *d, const qg_device_step *s, qg_fit_cell *c)
{
    const qg_node *n = qg_graph_node(d->m->graph, s->target->def->name);
    const qg_program_node *p = n ? &d->exe.program->node[n->id] : NULL;
    c->step = s;
    c->row = p && p->how == QG_LOWERED_INTEGER && *p->row ? p->row : "";
    if (!n && qg_attr_has(s->target->def, "row") &&
        qg_attr_string(d->ctx, s->target->def, "row", "", &c->row) != QG_OK)
        c->row = "";
}

/* Cells by the model's values, since programs of other profiles store other values. */
static qg_status add_steps(qg_fit *f, qg_fit_profile *p)
{
    p->cell = QG_NEWN(f->d->arena, f->d->n_step, qg_fit_cell);
    if (!p->cell)
        return qg_nomem(f->d->ctx);
    for (size_t i = 0; i < f->d->n_step; i++)
        for (size_t k = 0; k < p->d.n_step; k++)
            if (p->d.step[k].value == f->d->step[i].value) {
                note_row(&p->d, &p->d.step[k], &p->cell[i]);
                QG_TRY(add_try(f, &p->d, &p->d.step[k], &p->cell[i].try));
                break;
            }
    return QG_OK;
}

qg_status qg_fit_add(qg_fit *f, const char *name, qg_search search)
{
    const qg_profile *p;
    QG_TRY(qg_profile_load(f->d->ctx, f->d->arena, name, search, &p));
    return qg_fit_add_profile(f, p);
}

qg_status qg_fit_add_profile(qg_fit *f, const qg_profile *profile)
{
    qg_fit_profile *p = QG_NEW(f->d->arena, qg_fit_profile);
    if (!p)
        return qg_nomem(f->d->ctx);
    p->profile = profile;
    QG_TRY(qg_vec_reserve(f->d->ctx, f->d->arena, &f->profile));
    qg_status s = qg_device_by(f->d, p->profile, &p->d);
    if (s == QG_OK) {
        f->profile.at[f->profile.n++] = p;
        return add_steps(f, p);
    }
    p->refusal = qg_arena_strdup(f->d->arena, qg_ctx_message(f->d->ctx));
    qg_device_by_close(&p->d);
    p->d = (qg_device){ 0 };
    if (qg_is_nomem(s))
        return s;
    if (!p->refusal)
        return qg_nomem(f->d->ctx);
    f->profile.at[f->profile.n++] = p;
    return QG_OK;
}

/* `part` is a view of the tries that have not run; it shares them with f. */
qg_status qg_fit_run(qg_fit *f)
{
    size_t first = f->done;
    qg_fit part = *f;
    part.todo.at += first;
    part.todo.n -= first;
    qg_job job = { .n = part.todo.n,
                   .workers = f->d->work.jobs,
                   .work = work,
                   .ud = &part,
                   .meter = &part.meter };
    qg_meter_begin(&part.meter, &f->d->work.progress, "fit", job.n);
    qg_status s = qg_pool_run(f->d->ctx, &job);
    qg_meter_end(&part.meter);
    f->done = f->todo.n;
    return s;
}

bool qg_fit_explains(const qg_fit_cell *c)
{
    return c->try && !c->try->failed && c->try->tally.differ == 0;
}

/* Its tries stay, without their graphs, for equal graphs of later profiles. */
void qg_fit_drop(qg_fit *f)
{
    qg_fit_profile *p = f->profile.at[--f->profile.n];
    for (size_t i = 0; i < f->todo.n; i++) {
        qg_fit_try *t = f->todo.at[i];
        if (t->d != &p->d)
            continue;
        qg_graph_free(t->cut.graph);
        t->cut.graph = NULL;
    }
    qg_device_by_close(&p->d);
}

void qg_fit_free(qg_fit *f)
{
    for (size_t i = 0; i < f->todo.n; i++)
        qg_graph_free(f->todo.at[i]->cut.graph);
    for (size_t i = 0; i < f->profile.n; i++)
        qg_device_by_close(&f->profile.at[i]->d);
}

size_t qg_fit_explained(const qg_fit *f, const qg_fit_profile *p)
{
    size_t n = 0;
    for (size_t i = 0; p->cell && i < f->d->n_step; i++)
        n += qg_fit_explains(&p->cell[i]);
    return n;
}
