/* ref_gemm_body.h -- the part of ref_gemm.c that is compiled once per element type.
 *
 * Expects REAL and NAME(f) as in ref_conv_body.h, and SUM, the type of the sums;
 * float32 has a different order (ref_sum.h).
 * The order of the sum: k ascending when b is stored [k][n]; eight interleaved partial
 * sums added pairwise when b is stored [n][k] (a dot product of two rows). */

/* c[j] += a * b[j] for j < n. */
static void NAME(add_row)(SUM *restrict c, const REAL *restrict b, SUM a, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        c[j] += a * (SUM)b[j];
}

/* LANES sums side by side, added pairwise at the end; a has elements `step` apart. */
static SUM NAME(dot)(const REAL *a, int64_t step, const REAL *b, int64_t n)
{
    SUM s[LANES] = { 0 };
    int64_t i = 0;
    if (step == 1)
        for (; i + LANES <= n; i += LANES)
            for (int j = 0; j < LANES; j++)
                s[j] += (SUM)a[i + j] * (SUM)b[i + j];
    for (; i < n; i++)
        s[i % LANES] += (SUM)a[i * step] * (SUM)b[i];
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            s[j] += s[j + w];
    return s[0];
}

/* One row of c, columns first..first + n, n <= CHUNK: sums complete in `sum`. */
static void NAME(row)(const qg_gemm_problem *p, const REAL *a, int64_t step,
                      const REAL *b, int64_t n, SUM *sum)
{
    for (int64_t j = 0; j < n; j++)
        sum[j] = p->trans_b ? NAME(dot)(a, step, b + j * p->ldb, p->k) : 0;
    if (p->trans_b)
        return;
    for (int64_t k = 0; k < p->k; k++)
        NAME(add_row)(sum, b + k * p->ldb, (SUM)a[k * step], n);
}

/* Blocks of CHUNK columns, so that the row of sums stays in the nearest cache. */
void NAME(qg_ref_gemm)(const qg_gemm_problem *p, const REAL *a, const REAL *b, REAL *c)
{
    SUM sum[CHUNK], alpha = (SUM)p->alpha, beta = (SUM)p->beta;
    int64_t step = p->trans_a ? p->lda : 1;
    for (int64_t first = 0; first < p->n; first += CHUNK)
        for (int64_t i = 0; i < p->m; i++) {
            int64_t n = p->n - first < CHUNK ? p->n - first : CHUNK;
            REAL *to = c + i * p->ldc + first;
            NAME(row)
            (p, a + (p->trans_a ? i : i * p->lda), step,
             b + (p->trans_b ? first * p->ldb : first), n, sum);
            for (int64_t j = 0; j < n; j++)
                to[j] = (REAL)(p->beta != 0 ? alpha * sum[j] + beta * (SUM)to[j]
                                            : alpha * sum[j]);
        }
}
