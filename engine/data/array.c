/* array.c -- arrays in memory as a kind of part. */
#include "engine/data/part.h"

static qg_status refuse(qg_ctx *ctx, const char *what, const char *input,
                        const char *fault)
{
    return qg_fail(ctx, QG_EDATA, "data: %s: the array for input '%.1000s' %s", what,
                   input, fault);
}

qg_status qg_data_check_array(qg_ctx *ctx, const char *what, const char *input,
                              const qg_tensor *t)
{
    size_t bytes;
    if (t->rank < 0 || t->rank > QG_MAX_RANK)
        return qg_fail(
            ctx, QG_EDATA,
            "data: %s: the array for input '%.1000s' has rank %d, expected 0 "
            "to %d",
            what, input, (int)t->rank, QG_MAX_RANK);
    if (t->dtype <= QG_NODTYPE || t->dtype >= QG_NDTYPE)
        return refuse(ctx, what, input, "has no type, expected one of qg_dtype");
    int64_t n = qg_tensor_known(t) ? qg_tensor_count(t) : -1;
    if (n < 0 || !qg_dtype_bytes(t->dtype, (uint64_t)n, &bytes))
        return refuse(ctx, what, input,
                      "has impossible dims, expected each at least 0");
    if (n > 0 && !t->data)
        return refuse(ctx, what, input, "has no data");
    size_t size = qg_dtype_bits(t->dtype) / 8;
    if (size > 1 && (uintptr_t)t->data % size != 0)
        return refuse(ctx, what, input, "has data that is not aligned for its type");
    if (!qg_tensor_is_plain(t))
        return refuse(ctx, what, input,
                      "is not plain, expected the strides of qg_tensor_init");
    return QG_OK;
}

/* ---- The kind ---- */

/* A sample must begin at a byte. */
static qg_status check_bytes(qg_ctx *ctx, const qg_data_part *part, const qg_value *v,
                             size_t k)
{
    const qg_data_slot *slot = &part->slot[k];
    int64_t bits = (int64_t)qg_dtype_bits(slot->sample.dtype);
    if (!slot->stacked || qg_tensor_count(&slot->sample) % 8 * bits % 8 == 0)
        return QG_OK;
    return refuse(ctx, part->path, v->name,
                  "has samples that end within a byte, expected whole bytes");
}

static qg_status array_look(qg_ctx *ctx, qg_data *d, qg_data_part *part)
{
    for (size_t k = 0; k < d->request.n_input; k++) {
        const qg_value *v = d->request.input[k];
        const qg_tensor *t = d->request.array[k];
        QG_TRY(qg_data_check_array(ctx, part->path, v->name, t));
        QG_TRY(qg_data_split(ctx, d, part, k, t));
        QG_TRY(check_bytes(ctx, part, v, k));
    }
    return QG_OK;
}

/* Where the sample lies; it is copied when it is converted. */
static qg_status array_get(const qg_data_get *g, qg_tensor *out)
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(g->ctx, g->part->path, out, &bytes));
    out->data = (char *)g->d->request.array[g->k]->data + g->i * bytes;
    return QG_OK;
}

static const char *const no_suffix[] = { NULL };
const qg_data_kind qg_data_array = { no_suffix, array_look, array_get, NULL };
