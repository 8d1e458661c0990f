#include "ops/util_matmul.h"

#include <assert.h>

#include "ops/util_broadcast.h"

/* Dim of a stacked tensor counted from the end (1: last); vectors are padded with 1 at
 * the front (a) or the back (b), batch dims with 1. */
static int64_t dim_at(const qg_tensor *t, bool is_b, int32_t from_end)
{
    if (t->rank == 1) {
        int32_t place = is_b ? 2 : 1;
        return from_end == place ? t->dim[0] : 1;
    }
    return from_end <= t->rank ? t->dim[t->rank - from_end] : 1;
}

/* Vectors and matrices have no batch. */
static int32_t batch_rank(const qg_tensor *t) { return t->rank > 2 ? t->rank - 2 : 0; }

/* The dims of 1 added for a vector are removed from the result. */
qg_status qg_matmul_infer(const qg_call *k, size_t a_slot, size_t b_slot, qg_dtype d)
{
    const qg_tensor *a = k->in[a_slot], *b = k->in[b_slot];
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_check_rank(k, a_slot, 1, QG_MAX_RANK));
    QG_TRY(qg_check_rank(k, b_slot, 1, QG_MAX_RANK));
    if (a->rank < 0 || b->rank < 0)
        return qg_infer_dims(k, d, -1, NULL);
    int64_t ka = dim_at(a, false, 1), kb = dim_at(b, true, 2);
    if (ka >= 0 && kb >= 0 && ka != kb)
        return qg_infer_fail(k, QG_EMODEL,
                             "inner dimensions %lld and %lld, expected them equal",
                             (long long)ka, (long long)kb);
    int32_t ra = batch_rank(a), rb = batch_rank(b), rank = ra > rb ? ra : rb;
    for (int32_t i = 0; i < rank; i++) {
        int64_t x = dim_at(a, false, rank - i + 2), y = dim_at(b, true, rank - i + 2);
        dim[i] = qg_broadcast_dim(x, y);
        if (dim[i] == -2)
            return qg_infer_fail(k, QG_EMODEL,
                                 "batch dimensions %lld and %lld, expected them equal "
                                 "or one of them 1",
                                 (long long)x, (long long)y);
    }
    if (a->rank > 1)
        dim[rank++] = dim_at(a, false, 2);
    if (b->rank > 1)
        dim[rank++] = dim_at(b, true, 1);
    return qg_infer_dims(k, d, rank, dim);
}

/* When b is a single matrix, all rows of a form one tall product. */
void qg_matmul_of(const qg_tensor *a, const qg_tensor *b, qg_matmul *p)
{
    int32_t ra = batch_rank(a), rb = batch_rank(b);
    int64_t a_size, b_size;
    *p = (qg_matmul){ .m = dim_at(a, false, 2),
                      .n = dim_at(b, true, 1),
                      .k = dim_at(a, false, 1),
                      .batch = 1 };
    assert(p->k == dim_at(b, true, 2));
    a_size = p->m * p->k;
    b_size = p->k * p->n;
    if (qg_dims_product(b, 0, rb) == 1 && rb <= ra) {
        p->m *= qg_dims_product(a, 0, ra);
        return;
    }
    p->rank = ra > rb ? ra : rb;
    for (int32_t i = p->rank - 1; i >= 0; i--) {
        int64_t x = dim_at(a, false, p->rank - i + 2);
        int64_t y = dim_at(b, true, p->rank - i + 2);
        p->dim[i] = qg_broadcast_dim(x, y);
        p->a_stride[i] = x == 1 ? 0 : a_size;
        p->b_stride[i] = y == 1 ? 0 : b_size;
        a_size *= x;
        b_size *= y;
        p->batch *= p->dim[i];
    }
}

/* Splits i into the batch index, the last dim fastest. */
void qg_matmul_at(const qg_matmul *p, int64_t i, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int32_t d = p->rank - 1; d >= 0; d--) {
        *a += i % p->dim[d] * p->a_stride[d];
        *b += i % p->dim[d] * p->b_stride[d];
        i /= p->dim[d];
    }
}

qg_gemm_problem qg_matmul_gemm(const qg_matmul *p)
{
    return qg_gemm_dense(p->m, p->n, p->k, false);
}

int qg_matmul_axis(const qg_node *node)
{
    int slot = qg_op_slot_of(node->op, 'w');
    const qg_value *w = slot >= 0 ? node->in[slot] : NULL;
    return w && w->type.rank >= 2 ? w->type.rank - 1 : -1;
}
