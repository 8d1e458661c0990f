/* files.c -- the kinds of parts: .npy, .npz, .pb, images, random numbers. */
#include "engine/data/part.h"

#include <stdlib.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/core/rng.h"
#include "engine/onnx/data.h"

/* --- samples of an array --- */

/* Whether dims [skip..] of the array fit dims [skip_input..] of the input.  `open`: an
 * extent that the file leaves open and that was assumed fits any. */
static bool dims_fit(const qg_tensor *array, const qg_tensor *input, int skip,
                     int skip_input, unsigned open)
{
    if (array->rank - skip != input->rank - skip_input)
        return false;
    for (int i = 0; i < array->rank - skip; i++) {
        int64_t want = input->dim[i + skip_input];
        if (want >= 0 && want != array->dim[i + skip] &&
            !(open >> (i + skip_input) & 1))
            return false;
    }
    return true;
}

/* Whether the array has the samples one after another along the first axis of the
 * input, a batch of more than one, but for the number. */
static bool holds_batches(const qg_tensor *array, const qg_tensor *input)
{
    return array->rank == input->rank && array->rank > 0 && input->dim[0] > 1 &&
           array->dim[0] != input->dim[0] && dims_fit(array, input, 1, 1, 0);
}

enum { HINT_TEXT = 1400 };

/* "; --shape x=20x40 ..." where samples would fit but for an extent that was assumed,
 * as the number of frames is when time comes before the batch; what is wrong with the
 * first axis where only that does not fit; else "". */
static const char *shape_hint(const qg_value *v, const qg_tensor *array,
                              char text[HINT_TEXT])
{
    int skip = array->rank > v->type.rank;
    size_t used;
    text[0] = '\0';
    if (holds_batches(array, &v->type))
        (void)snprintf(text, HINT_TEXT,
                       "; its first axis of %lld is no multiple of %lld",
                       (long long)array->dim[0], (long long)v->type.dim[0]);
    if (array->rank == skip || !dims_fit(array, &v->type, skip, 0, v->open))
        return text;
    used = (size_t)snprintf(text, HINT_TEXT, "; --shape %.1000s=", v->name);
    for (int i = skip; i < array->rank; i++)
        used += (size_t)snprintf(text + used, HINT_TEXT - used, "%s%lld",
                                 i > skip ? "x" : "", (long long)array->dim[i]);
    snprintf(text + used, HINT_TEXT - used,
             " fixes the extents that the file leaves open");
    return text;
}

static qg_status shape_differs(qg_ctx *ctx, const qg_data_part *part, const qg_value *v,
                               const qg_tensor *array)
{
    char have[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT], hint[HINT_TEXT];
    return qg_fail(ctx, QG_EDATA,
                   "data: %.200s: the array for input '%.1000s' is %s, expected %s, or "
                   "with samples along a first axis%s",
                   part->path, v->name, qg_tensor_text(array, have),
                   qg_tensor_text(&v->type, want), shape_hint(v, array, hint));
}

/* The rule of data.h.  False: the array fits in neither way. */
static bool split(const qg_tensor *array, const qg_tensor *input, qg_data_slot *slot,
                  int64_t *count)
{
    bool one_more = array->rank == input->rank + 1;
    bool batch = array->rank == input->rank && array->rank > 0 && array->dim[0] != 1 &&
                 (input->dim[0] == 1 || input->dim[0] < 0);
    bool batches = holds_batches(array, input);
    int64_t dim[QG_MAX_RANK] = { batches ? input->dim[0] : 1 };
    batch = batch || batches;
    slot->stacked = one_more || batch;
    *count = slot->stacked ? array->dim[0] / (batches ? dim[0] : 1) : 1;
    for (int i = one_more || batch, to = batch; i < array->rank; i++)
        dim[to++] = array->dim[i];
    qg_tensor_init(&slot->sample, array->dtype, array->rank - one_more, dim);
    return dims_fit(array, input, slot->stacked, batch, 0) &&
           (!batches || array->dim[0] % dim[0] == 0);
}

qg_status qg_data_split(qg_ctx *ctx, qg_data *d, qg_data_part *part, size_t k,
                        const qg_tensor *array)
{
    const qg_value *v = d->request.input[k];
    int64_t count;
    if (!split(array, &v->type, &part->slot[k], &count))
        return shape_differs(ctx, part, v, array);
    if (!qg_data_convertible(array->dtype, v->type.dtype))
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: the array for input '%.1000s' is %s, expected %s",
                       part->path, v->name, qg_dtype_name(array->dtype),
                       qg_dtype_name(v->type.dtype));
    if (k > 0 && part->count != (size_t)count)
        return qg_fail(
            ctx, QG_EDATA,
            "data: %.200s: %lld samples for input '%.1000s', expected %zu as "
            "for '%.1000s'",
            part->path, (long long)count, v->name, part->count,
            d->request.input[0]->name);
    part->count = (size_t)count;
    return QG_OK;
}

/* Files of one array do not name their input. */
static qg_status only_input(qg_ctx *ctx, const qg_data *d, const char *path)
{
    if (d->request.n_input == 1)
        return QG_OK;
    return qg_fail(ctx, QG_EDATA,
                   "data: %.200s: one array for a model with %zu inputs, expected .npz "
                   "with an array for each",
                   path, d->request.n_input);
}

/* The elements of sample i out of an array. */
static qg_status read_sample(const qg_data_get *g, const qg_npy *array, qg_tensor *out)
{
    const qg_data_slot *slot = &g->part->slot[g->k];
    size_t n = (size_t)qg_tensor_count(out);
    QG_TRY(qg_tensor_alloc(g->ctx, g->scratch, out));
    return qg_npy_read(g->ctx, array, slot->stacked ? g->i * n : 0, n, out->data);
}

/* A file that has changed since it was examined is not trusted. */
static qg_status check_again(const qg_data_get *g, const qg_tensor *now)
{
    const qg_data_slot *slot = &g->part->slot[g->k];
    int64_t have = qg_tensor_count(now), n = qg_tensor_count(&slot->sample);
    int64_t count = slot->stacked ? (int64_t)g->part->count : 1;
    if (now->dtype == slot->sample.dtype && have == n * count)
        return QG_OK;
    return qg_fail(g->ctx, QG_EDATA, "data: %.200s: has changed since it was opened",
                   g->part->path);
}

/* ---- .npy ---- */

static qg_status npy_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    qg_npy f;
    QG_TRY(only_input(ctx, d, part->path));
    QG_TRY(qg_npy_open(ctx, part->path, &f));
    qg_status s = qg_data_split(ctx, d, part, 0, &f.head.type);
    if (part->kept)
        part->slot[0].array = f;
    else
        qg_npy_close(&f);
    return s;
}

static qg_status npy_get(const qg_data_get *g, qg_tensor *out)
{
    qg_npy f;
    if (g->part->kept)
        return read_sample(g, &g->part->slot[0].array, out);
    QG_TRY(qg_npy_open(g->ctx, g->part->path, &f));
    qg_status s = check_again(g, &f.head.type);
    if (s == QG_OK)
        s = read_sample(g, &f, out);
    qg_npy_close(&f);
    return s;
}

static void npy_close(qg_data_part *part) { qg_npy_close(&part->slot[0].array); }

static const char *const npy_suffix[] = { ".npy", NULL };
const qg_data_kind qg_data_npy = { npy_suffix, npy_look, npy_get, npy_close };

/* ---- .npz ---- */

/* Or a message with the names in the archive. */
static qg_status npz_find(qg_ctx *ctx, const qg_npz *z, const qg_value *v,
                          const qg_npz_member **out)
{
    char held[2048] = "nothing";
    size_t used = 0;
    *out = qg_npz_find(z, v->name);
    if (*out)
        return QG_OK;
    for (size_t i = 0; i < z->count && used < sizeof held; i++)
        used += (size_t)snprintf(held + used, sizeof held - used, "%s'%.1000s'",
                                 i ? ", " : "", z->member[i].name);
    return qg_fail(
        ctx, QG_EDATA,
        "data: %.200s: contains no array for input '%.1000s' of the model, only %s",
        z->path, v->name, held);
}

/* The array of the wanted input; npz_look has checked it. */
static qg_status npz_array(const qg_data_get *g, const qg_npz *z, qg_npy *out)
{
    const qg_npz_member *m;
    QG_TRY(npz_find(g->ctx, z, g->d->request.input[g->k], &m));
    return qg_npz_array(g->ctx, g->scratch, z, m, out);
}

static qg_status npz_arrays(qg_ctx *ctx, qg_data *d, qg_data_part *part,
                            const qg_npz *z, qg_arena *a)
{
    for (size_t k = 0; k < d->request.n_input; k++) {
        const qg_npz_member *m;
        qg_npy f;
        QG_TRY(npz_find(ctx, z, d->request.input[k], &m));
        QG_TRY(qg_npz_check(ctx, z, m));
        QG_TRY(qg_npz_array(ctx, a, z, m, &f));
        part->slot[k].array = f;
        QG_TRY(qg_data_split(ctx, d, part, k, &f.head.type));
    }
    return QG_OK;
}

/* A kept archive lives in the source's arena, its inflated arrays too. */
static qg_status npz_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    qg_arena *a = part->kept ? d->arena : scratch;
    qg_npz z;
    qg_status s = scratch ? qg_npz_open(ctx, a, part->path, &z) : qg_nomem(ctx);
    if (s == QG_OK) {
        s = npz_arrays(ctx, d, part, &z, a);
        if (part->kept)
            part->archive = z;
        else
            qg_npz_close(&z);
    }
    qg_arena_free(scratch);
    return s;
}

static qg_status npz_get(const qg_data_get *g, qg_tensor *out)
{
    qg_npz z;
    qg_npy f;
    if (g->part->kept)
        return read_sample(g, &g->part->slot[g->k].array, out);
    QG_TRY(qg_npz_open(g->ctx, g->scratch, g->part->path, &z));
    qg_status s = npz_array(g, &z, &f);
    if (s == QG_OK)
        s = check_again(g, &f.head.type);
    if (s == QG_OK)
        s = read_sample(g, &f, out);
    qg_npz_close(&z);
    return s;
}

static void npz_close(qg_data_part *part) { qg_npz_close(&part->archive); }

static const char *const npz_suffix[] = { ".npz", NULL };
const qg_data_kind qg_data_npz = { npz_suffix, npz_look, npz_get, npz_close };

/* ---- .pb ---- */

static qg_status pb_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    const qg_tensor *t;
    QG_TRY(only_input(ctx, d, part->path));
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    qg_status s =
        scratch ? qg_onnx_read_tensor(ctx, scratch, part->path, &t) : qg_nomem(ctx);
    if (s == QG_OK)
        s = qg_data_split(ctx, d, part, 0, t);
    qg_arena_free(scratch);
    return s;
}

static qg_status pb_get(const qg_data_get *g, qg_tensor *out)
{
    const qg_tensor *t;
    size_t bytes;
    QG_TRY(qg_onnx_read_tensor(g->ctx, g->scratch, g->part->path, &t));
    QG_TRY(check_again(g, t));
    QG_TRY(qg_tensor_bytes(g->ctx, g->part->path, out, &bytes));
    out->data = (char *)t->data + g->i * bytes;
    return QG_OK;
}

static const char *const pb_suffix[] = { ".pb", NULL };
const qg_data_kind qg_data_pb = { pb_suffix, pb_look, pb_get, NULL };

/* ---- Images ---- */

static qg_status image_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    qg_tensor type;
    QG_TRY(only_input(ctx, d, part->path));
    QG_TRY(
        qg_image_type(ctx, part->path, &d->image, &d->request.input[0]->type, &type));
    return qg_data_split(ctx, d, part, 0, &type);
}

static qg_status image_get(const qg_data_get *g, qg_tensor *out)
{
    return qg_image_load(g->ctx, g->scratch, g->part->path, &g->d->image, out);
}

static const char *const image_suffix[] = { ".png", ".jpg", ".jpeg", ".bmp",
                                            ".ppm", ".pgm", NULL };
const qg_data_kind qg_data_image = { image_suffix, image_look, image_get, NULL };

/* ---- Random ---- */

/* The type of the numbers before conversion to the input's type: float32 or bytes. */
static qg_status random_slot(qg_ctx *ctx, const qg_data_part *part, const qg_value *v,
                             qg_tensor *out)
{
    char text[QG_SHAPE_TEXT];
    bool is_float = qg_dtype_kind_of(v->type.dtype) == QG_KIND_FLOAT;
    int64_t dim[QG_MAX_RANK] = { 0 };
    for (int32_t i = 0; i < v->type.rank; i++) /* a symbolic batch is 1 */
        dim[i] = i == 0 && v->type.dim[0] < 0 ? 1 : v->type.dim[i];
    qg_tensor_init(out, is_float ? QG_F32 : QG_U8, v->type.rank, dim);
    if (!qg_tensor_known(out))
        return qg_fail(ctx, QG_EDATA,
                       "data: %.100s: input '%.1000s' is %s, expected a known shape "
                       "(--shape NAME=DIMxDIMx... gives one)",
                       part->path, v->name, qg_tensor_text(&v->type, text));
    if (!qg_data_convertible(out->dtype, v->type.dtype))
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "data: %.100s: no random numbers of type %s, which input '%.1000s' "
            "has",
            part->path, qg_dtype_name(v->type.dtype), v->name);
    return QG_OK;
}

static qg_status random_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    const char *number = strchr(part->path, ':') + 1;
    int64_t n;
    if (strlen(number) > 18 || !qg_num_parse_i64(number, strlen(number), &n) || n < 1)
        return qg_fail(ctx, QG_ECONFIG, "data: %.100s: expected random:N with N >= 1",
                       part->path);
    for (size_t k = 0; k < d->request.n_input; k++)
        QG_TRY(random_slot(ctx, part, d->request.input[k], &part->slot[k].sample));
    part->count = (size_t)n;
    return QG_OK;
}

/* A generator of its own for every array, so that samples can be fetched in any order.
 * Inputs of 16 bits get multiples of 1/256, which all of their types hold. */
static qg_status random_get(const qg_data_get *g, qg_tensor *out)
{
    qg_rng rng = { g->i * g->d->request.n_input + g->k + 1 };
    rng.state = qg_rng_next(&rng); /* neighbouring seeds would give shifted copies */
    int64_t n = qg_tensor_count(out);
    bool coarse = qg_dtype_bits(g->d->request.input[g->k]->type.dtype) < 32;
    QG_TRY(qg_tensor_alloc(g->ctx, g->scratch, out));
    for (int64_t i = 0; i < n; i++)
        if (out->dtype == QG_U8)
            out->u8[i] = (uint8_t)qg_rng_below(&rng, 2);
        else if (coarse)
            out->f32[i] = (float)qg_rng_below(&rng, 256) / 256;
        else
            out->f32[i] = qg_rng_float(&rng);
    return QG_OK;
}

static const char *const no_suffix[] = { NULL };
const qg_data_kind qg_data_random = { no_suffix, random_look, random_get, NULL };
