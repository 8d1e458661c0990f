#include "engine/accel/packed_gemm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/accel/ref_sum.h"

/* Columns of a panel, whose slice stays in the first cache; rows and columns whose
 * terms and sums stay in the second. */
enum { PANEL = 16, ROWS = 96, COLUMNS = 256 };

typedef struct packed_gemm {
    qg_gemm_problem p; /* of one pair of matrices */
    int64_t batch, slice;
    const int64_t *a_at, *b_at; /* [batch]: elements before the matrices */
    const float *packed;        /* all matrices of b; NULL: b comes at run time */
    const float *bias;          /* NULL: none */
    uint32_t clamps;            /* 0: low and high have no effect */
    float low, high;
} packed_gemm;

bool qg_is_plain_product(const qg_compile *c, const qg_gemm_problem *p, int bias)
{
    const qg_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
    const qg_tensor *add = bias < 0 ? NULL : c->in[bias];
    for (uint32_t i = 0; i < c->node->n_in; i++)
        if (c->in[i] && qg_tensor_count(c->in[i]) == 0)
            return false;
    return p->alpha == 1 && a->rank >= 2 && b->rank >= 2 && y->rank >= 2 &&
           a->rank <= y->rank && b->rank <= y->rank && qg_tensor_count(y) > 0 &&
           (!add || (add->data && qg_tensor_count(add) == p->n &&
                     (p->n == 1 || add->dim[add->rank - 1] == p->n)));
}

/* --- packing --- */

static int64_t padded(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

/* Term t of columns j .. j + PANEL. */
static void pack_term(const qg_gemm_problem *p, const float *b, int64_t t, int64_t j,
                      float *to)
{
    const int64_t n = p->n - j < PANEL ? p->n - j : PANEL;
    if (!p->trans_b)
        memcpy(to, b + t * p->ldb + j, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = b[(j + i) * p->ldb + t];
    for (int64_t i = n; i < PANEL; i++)
        to[i] = 0;
}

/* to [k][padded(n)]. */
static void pack(const packed_gemm *g, const float *b, float *to)
{
    const qg_gemm_problem *p = &g->p;
    for (int64_t t = 0; t < p->k; t += g->slice) {
        const int64_t end = p->k - t < g->slice ? p->k : t + g->slice;
        for (int64_t j = 0; j < p->n; j += PANEL)
            for (int64_t i = t; i < end; i++, to += PANEL)
                pack_term(p, b, i, j, to);
    }
}

/* --- running --- */

/* Some rows and columns of y, and the operands that they need. */
typedef struct block {
    const float *a, *b; /* first row; packed matrix */
    float *y;           /* first row */
    int64_t rows;
    int64_t from, to; /* columns */
} block;

/* Terms t .. t + terms of columns j .. j + PANEL, added to what is before them:
 * nothing, the bias or the slices so far. */
static void add_panel(const packed_gemm *g, const block *k, int64_t t, int64_t terms,
                      int64_t j)
{
    const qg_gemm_problem *p = &g->p;
    const int64_t n = p->n - j < PANEL ? p->n - j : PANEL;
    const qg_ref_slab slab = { .rows = k->rows,
                               .terms = terms,
                               .columns = n,
                               .a = k->a + t * (p->trans_a ? p->lda : 1),
                               .a_row = p->trans_a ? 1 : p->lda,
                               .a_term = p->trans_a ? p->lda : 1,
                               .b = k->b + t * padded(p->n) + j * terms,
                               .ldb = PANEL,
                               .ld_sum = p->ldc,
                               .before = t         ? k->y + j
                                         : g->bias ? g->bias + j
                                                   : NULL,
                               .ld_before = t ? p->ldc : 0 };
    qg_ref_sum_slab(&slab, k->y + j);
}

/* Comparisons are false for NaN, which stays. */
static void clamp_row(const packed_gemm *g, float *y, int64_t n)
{
    const float low = g->low, high = g->high;
    for (int64_t j = 0; j < n; j++) {
        const float v = y[j] < low ? low : y[j];
        y[j] = v > high ? high : v;
    }
}

static void run_block(const packed_gemm *g, const block *k)
{
    const qg_gemm_problem *p = &g->p;
    for (int64_t t = 0, terms; t < p->k; t += terms) {
        terms = p->k - t < g->slice ? p->k - t : g->slice;
        for (int64_t j = k->from; j < k->to; j += PANEL)
            add_panel(g, k, t, terms, j);
    }
    for (int64_t i = 0; g->clamps && i < k->rows; i++)
        clamp_row(g, k->y + i * p->ldc + k->from, k->to - k->from);
}

/* Rows [from, to) of one product. */
static void multiply_rows(const packed_gemm *g, const float *a, const float *b,
                          float *y, int64_t from, int64_t to)
{
    const qg_gemm_problem *p = &g->p;
    for (int64_t j = 0; j < p->n; j += COLUMNS)
        for (int64_t i = from; i < to; i += ROWS)
            run_block(g, &(block){ .a = a + i * (p->trans_a ? 1 : p->lda),
                                   .b = b,
                                   .y = y + i * p->ldc,
                                   .rows = to - i < ROWS ? to - i : ROWS,
                                   .from = j,
                                   .to = p->n - j < COLUMNS ? p->n : j + COLUMNS });
}

/* Rows [from, to) of all products, one after the other. */
static qg_status multiply(const packed_gemm *g, const qg_call *call, int64_t from,
                          int64_t to)
{
    const int64_t m = g->p.m, size = g->p.k * padded(g->p.n);
    float *room = NULL;
    if (!g->packed && !(room = qg_arena_raw(call->scratch, (size_t)size, sizeof *room)))
        return qg_nomem(call->ctx);
    for (int64_t i = from / m; i * m < to; i++) {
        const int64_t first = from > i * m ? from - i * m : 0;
        const int64_t last = to - i * m < m ? to - i * m : m;
        const float *b = room;
        if (g->packed)
            b = g->packed + g->b_at[i] / (g->p.k * g->p.n) * size;
        else
            pack(g, call->in[1]->f32 + g->b_at[i], room);
        multiply_rows(g, call->in[0]->f32 + g->a_at[i], b,
                      call->out[0]->f32 + i * m * g->p.n, first, last);
    }
    return QG_OK;
}

static qg_status kernel_run(const qg_kernel *k, const qg_call *call)
{
    const packed_gemm *g = k->state;
    return multiply(g, call, 0, g->batch * g->p.m);
}

static qg_status kernel_part(const qg_kernel *k, const qg_call *call, uint32_t i)
{
    const packed_gemm *g = k->state;
    const int64_t rows = g->batch * g->p.m, n = k->parts;
    return multiply(g, call, rows * i / n, rows * (i + 1) / n);
}

/* --- making --- */

/* Elements of t before matrix i of y. */
static int64_t matrix_at(const qg_tensor *t, const qg_tensor *y, int64_t i)
{
    const int32_t gap = y->rank - t->rank;
    int64_t at = 0, step = t->dim[t->rank - 1] * t->dim[t->rank - 2];
    for (int32_t d = y->rank - 3; d >= gap; d--) {
        at += t->dim[d - gap] == 1 ? 0 : i % y->dim[d] * step;
        step *= t->dim[d - gap];
        i /= y->dim[d];
    }
    return at;
}

static qg_status place_matrices(qg_compile *c, packed_gemm *g)
{
    int64_t *at = QG_NEWN(c->arena, 2 * (size_t)g->batch, int64_t);
    if (!at)
        return qg_nomem(c->ctx);
    g->a_at = at;
    g->b_at = at + g->batch;
    for (int64_t i = 0; i < g->batch && g->batch > 1; i++) {
        at[i] = matrix_at(c->in[0], c->out[0], i);
        at[g->batch + i] = matrix_at(c->in[1], c->out[0], i);
    }
    return QG_OK;
}

static qg_status pack_constant(qg_compile *c, packed_gemm *g)
{
    const int64_t one = g->p.k * g->p.n, size = g->p.k * padded(g->p.n);
    const int64_t n = qg_tensor_count(c->in[1]) / one;
    float *to = qg_arena_raw(c->arena, (size_t)(n * size), sizeof *to);
    if (!to)
        return qg_nomem(c->ctx);
    for (int64_t i = 0; i < n; i++)
        pack(g, c->in[1]->f32 + i * one, to + i * size);
    g->packed = to;
    return QG_OK;
}

static bool is_fast(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* The tensors are plain, so p's distances of rows do not count. */
static qg_status make_gemm(qg_compile *c, const qg_gemm_problem *p, int bias,
                           packed_gemm *g)
{
    g->p = qg_gemm_dense(p->m, p->n, p->k, p->trans_b);
    g->p.trans_a = p->trans_a;
    g->p.lda = p->trans_a ? p->m : p->k;
    g->batch = qg_tensor_count(c->out[0]) / (p->m * p->n);
    g->slice = qg_ref_slice(p->trans_a ? p->k : p->n, p->k);
    g->bias = bias >= 0 ? c->in[bias]->f32 : NULL;
    g->clamps = qg_absorb_clamp(c, &g->low, &g->high);
    QG_TRY(place_matrices(c, g));
    return c->in[1]->data ? pack_constant(c, g) : QG_OK;
}

qg_status qg_packed_gemm(qg_compile *c, const qg_gemm_problem *p, int bias,
                         qg_kernel **out)
{
    *out = NULL;
    assert(qg_is_plain_product(c, p, bias));
    if (!is_fast() || p->m == 1 || p->n == 1)
        return QG_OK;
    packed_gemm *g = QG_NEW(c->arena, packed_gemm);
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    if (!g || !k)
        return qg_nomem(c->ctx);
    QG_TRY(make_gemm(c, p, bias, g));
    const int64_t rows = g->batch * g->p.m;
    *k = (qg_kernel){ .run = kernel_run,
                      .part = kernel_part,
                      .parts = qg_compile_parts(
                          c, rows, (double)rows * (double)p->n * (double)p->k),
                      .state = g,
                      .packed = g->packed ? 1u << 1 : 0,
                      .absorbed = g->clamps,
                      .name = "packed gemm" };
    *out = k;
    return QG_OK;
}
