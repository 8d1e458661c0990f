#include "engine/learn/checkpoint.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"

static const char magic[] = "qgtune 9\n";

/* --- the name -------------------------------------------------------------------- */

static void add_tensor(qg_hash *h, const qg_tensor *t)
{
    static const int64_t none = -1;
    if (!t || t->dtype != QG_F32) { /* indices follow from the rest */
        qg_hash_add(h, &none, sizeof none);
        return;
    }
    qg_hash_add(h, t->dim, (size_t)t->rank * sizeof *t->dim);
    qg_hash_add(h, t->data, (size_t)qg_tensor_count(t) * sizeof *t->f32);
}

static void add_step(qg_hash *h, const qg_tape_step *s)
{
    const qg_scheme *of = &s->root->scheme;
    const int64_t field[] = { of->policy, of->rounding, of->qmin,     of->qmax,
                              of->axis,   s->learned,   (int64_t)s->n };
    qg_hash_add(h, field, sizeof field);
    qg_hash_add(h, s->start, s->n * sizeof *s->start);
    if (s->offset_start)
        qg_hash_add(h, s->offset_start, s->n * sizeof *s->offset_start);
}

static qg_status add_samples(qg_hash *h, const qg_reconstruction *r)
{
    const qg_stream *s = r->stream;
    const qg_tape *t = r->tapes->tape[0];
    for (size_t i = 0; i < s->sample.n; i++) {
        QG_TRY(qg_ctx_go_on(r->ctx));
        for (size_t k = 0; k < t->n_in; k++) {
            add_tensor(h, qg_stream_value(s, t->in[k], QG_LANE_NOW, i));
            if (r->drops)
                add_tensor(h, qg_stream_value(s, t->in[k], QG_LANE_FLOAT, i));
        }
        for (size_t k = 0; k < t->n_out; k++) {
            add_tensor(h, qg_stream_value(s, t->out[k], QG_LANE_FLOAT, i));
            add_tensor(h, qg_stream_value(s, t->out[k], QG_LANE_BEFORE, i));
        }
    }
    return QG_OK;
}

/* Depends on the network behind the block. */
static void add_importance(qg_hash *h, const qg_reconstruction *r)
{
    const qg_tape *t = r->tapes->tape[0];
    for (size_t k = 0; r->importance && k < t->n_out; k++) {
        const double *weight = r->importance->weight[t->out[k]->id];
        const qg_tensor *like = qg_stream_value(r->stream, t->out[k], QG_LANE_FLOAT, 0);
        if (weight)
            qg_hash_add(h, weight, (size_t)qg_tensor_count(like) * sizeof *weight);
    }
}

static qg_status name_of(const qg_reconstruction *r, char name[QG_HASH_TEXT])
{
    qg_hash h;
    const qg_tape *t = r->tapes->tape[0];
    const uint64_t number[] = {
        r->steps,  r->rng.state, (uint64_t)t->gradient,     t->n_weight,
        t->n_step, r->drops,     r->stream->sample.holdout, r->stream->sample.mixed
    };
    qg_hash_begin(&h);
    qg_hash_add(&h, magic, sizeof magic);
    qg_hash_add(&h, r->method->name, strlen(r->method->name) + 1);
    qg_hash_add(&h, number, sizeof number);
    qg_hash_add(&h, r->optimizer->name, strlen(r->optimizer->name) + 1);
    qg_hash_add(&h, &r->rate, sizeof r->rate);
    const char *loss = qg_loss_name(r->loss.kind);
    qg_hash_add(&h, loss, strlen(loss) + 1);
    for (size_t i = 0; r->loss.label.label && i < r->stream->sample.n; i++)
        qg_hash_add(&h, qg_loss_label(&r->loss, i),
                    r->loss.label.each * sizeof(int64_t));
    for (size_t i = 0; i < t->n_weight; i++) {
        qg_hash_add(&h, &t->weight[i].role, 1);
        add_tensor(&h, &t->weight[i].start);
    }
    for (size_t i = 0; i < t->n_step; i++)
        add_step(&h, &t->step[i]);
    QG_TRY(add_samples(&h, r));
    add_importance(&h, r);
    qg_hash_end(&h, name);
    return QG_OK;
}

/* --- the file -------------------------------------------------------------------- */

/* The arrays of the tape that a block has learned, one after the other. */
typedef struct array {
    void *at; /* float32; offsets: int32 */
    size_t n;
} array;

static size_t n_arrays(const qg_tape *t) { return t->n_weight + 2 * t->n_step; }

static array array_of(const qg_tape *t, size_t i)
{
    if (i < t->n_weight)
        return (array){ t->weight[i].now.f32,
                        (size_t)qg_tensor_count(&t->weight[i].now) };
    const qg_tape_step *s = &t->step[(i - t->n_weight) / 2];
    const bool is_offset = (i - t->n_weight) % 2 != 0;
    return is_offset ? (array){ s->offset, s->shifts ? s->n : 0 }
                     : (array){ s->scale, s->n };
}

typedef struct head {
    double before, after, curve[QG_LOSS_CURVE];
    uint64_t kept;
} head;

static size_t size_of(const qg_tape *t, bool kept)
{
    size_t n = sizeof magic - 1 + sizeof(head) + QG_HASH_TEXT - 1;
    for (size_t i = 0; kept && i < n_arrays(t); i++)
        n += array_of(t, i).n * sizeof(float);
    return n;
}

static bool is_whole(const qg_file *f)
{
    char hash[QG_HASH_TEXT];
    const size_t end = f->size - (QG_HASH_TEXT - 1);
    qg_hash_bytes(f->bytes, end, hash);
    return memcmp(hash, f->bytes + end, QG_HASH_TEXT - 1) == 0;
}

static bool are_grids(const qg_tape_step *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (!(s->scale[i] > 0) || !isfinite(s->scale[i]) ||
            (s->shifts && (s->offset[i] < s->root->scheme.qmin ||
                           s->offset[i] > s->root->scheme.qmax)))
            return false;
    return true;
}

/* False: not a file of this block; the tape may have been written to. */
static bool take(qg_reconstruction *r, const qg_file *f)
{
    head h;
    const qg_tape *t = r->tapes->tape[0];
    const size_t at = sizeof magic - 1;
    if (f->size < size_of(t, false) || memcmp(f->bytes, magic, at) != 0)
        return false;
    memcpy(&h, f->bytes + at, sizeof h);
    if (h.kept > 1 || f->size != size_of(t, h.kept != 0) || !is_whole(f))
        return false;
    const unsigned char *from = f->bytes + at + sizeof h;
    for (size_t i = 0; h.kept && i < n_arrays(t); i++) {
        const array a = array_of(t, i);
        if (a.n)
            memcpy(a.at, from, a.n * sizeof(float));
        from += a.n * sizeof(float);
    }
    for (size_t i = 0; h.kept && i < t->n_step; i++)
        if (!are_grids(&t->step[i]))
            return false;
    r->before = h.before;
    r->after = h.after;
    r->kept = h.kept != 0;
    memcpy(r->curve, h.curve, sizeof r->curve);
    return true;
}

/* The name in a folder, if a checkpoint may be there; *path stays NULL: none is. */
static qg_status find(qg_ctx *ctx, qg_arena *a, const char *folder, const char *name,
                      const char **path)
{
    const char **names, *at = qg_path_join(a, folder, name);
    size_t n;
    if (!at)
        return qg_nomem(ctx);
    if (!qg_is_directory(folder) || qg_is_directory(at))
        return QG_OK;
    QG_TRY(qg_directory_list(ctx, a, folder, &names, &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            *path = at;
    return QG_OK;
}

qg_status qg_checkpoint_load(qg_reconstruction *r, const char *folder,
                             char name[QG_HASH_TEXT], bool *found)
{
    qg_file f = { 0 };
    const char *path = NULL;
    *found = false;
    QG_TRY(name_of(r, name));
    qg_arena *a = qg_arena_new(r->ctx->alloc);
    qg_status s = a ? find(r->ctx, a, folder, name, &path) : qg_nomem(r->ctx);
    if (s == QG_OK && path)
        s = qg_file_open(r->ctx, "tune", path, SIZE_MAX / 2, &f);
    if (s == QG_OK && path) {
        *found = take(r, &f);
        qg_file_close(&f);
        if (!*found)
            qg_tape_reset(r->tapes->tape[0]);
    }
    qg_arena_free(a);
    return s;
}

static void add(FILE *stream, qg_hash *h, const void *bytes, size_t n)
{
    qg_hash_add(h, bytes, n);
    (void)fwrite(bytes, 1, n, stream);
}

static qg_status write_file(const qg_reconstruction *r, const char *path)
{
    qg_hash h;
    qg_writer w;
    const qg_tape *t = r->tapes->tape[0];
    char hash[QG_HASH_TEXT];
    head first = { .before = r->before, .after = r->after, .kept = r->kept };
    QG_TRY(qg_writer_open(r->ctx, path, &w));
    memcpy(first.curve, r->curve, sizeof first.curve);
    qg_hash_begin(&h);
    add(w.stream, &h, magic, sizeof magic - 1);
    add(w.stream, &h, &first, sizeof first);
    for (size_t i = 0; r->kept && i < n_arrays(t); i++) {
        const array at = array_of(t, i);
        if (at.n)
            add(w.stream, &h, at.at, at.n * sizeof(float));
    }
    qg_hash_end(&h, hash);
    (void)fwrite(hash, 1, sizeof hash - 1, w.stream);
    return qg_writer_commit(&w);
}

static qg_status save(const qg_reconstruction *r, const char *folder, const char *path)
{
    QG_TRY(qg_directory_make(r->ctx, folder));
    if (!qg_is_directory(path))
        return write_file(r, path);
    qg_warn(r->ctx,
            "tune: %s: is a directory, expected no such name: a run that resumes this "
            "one learns the block again",
            path);
    return QG_OK;
}

/* Another run with this folder may end at any moment and remove it: once more then. */
qg_status qg_checkpoint_save(const qg_reconstruction *r, const char *folder,
                             const char name[QG_HASH_TEXT])
{
    qg_arena *a = qg_arena_new(r->ctx->alloc);
    const char *path = a ? qg_path_join(a, folder, name) : NULL;
    qg_status s = path ? save(r, folder, path) : qg_nomem(r->ctx);
    if (s == QG_EIO && !qg_is_directory(folder))
        s = save(r, folder, path);
    qg_arena_free(a);
    return s;
}

static bool is_name(const char *text)
{
    return strlen(text) == QG_HASH_TEXT - 1 &&
           strspn(text, "0123456789abcdef") == QG_HASH_TEXT - 1;
}

void qg_checkpoint_remove(qg_ctx *ctx, const char *folder)
{
    const char **names;
    size_t n;
    qg_arena *a = qg_arena_new(ctx->alloc);
    if (a && qg_is_directory(folder) &&
        qg_directory_list(ctx, a, folder, &names, &n) == QG_OK)
        for (size_t i = 0; i < n; i++) {
            const char *path =
                is_name(names[i]) ? qg_path_join(a, folder, names[i]) : NULL;
            if (path)
                (void)unlink(path);
        }
    qg_arena_free(a);
    qg_checkpoint_tidy(folder);
}

void qg_checkpoint_tidy(const char *folder)
{
    qg_writer_sweep(folder);
    qg_directory_remove(folder);
}
