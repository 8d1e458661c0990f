/* dnnl_program.h -- primitives of oneDNN as kernels: made from requests, run whole or
 * in parts.
 *
 *     describe(job, {0, rows}, NULL, &whole)         what oneDNN shall compute
 *     describe(job, {0, half}, packed weights, &r)   the same for some of its rows
 *
 * Parts     made when several threads may compute a sample (qg_compile.threads).  A
 *           part reads the packed weights of the whole and must be of the same
 *           implementation, else the kernel stays whole.  Then the sums have the same
 *           order: tests/prop/test_parts.c compares the bits
 * Columns   results of one row are cut into ranges of output channels instead; a part
 *           reads its blocks of the packed weights
 * Refused   products through a general matrix multiplication ("gemm"): there the number
 *           of rows decides the order of sums; of integers all orders are equal
 *
 * Private to engine/accel/dnnl*.c. */
#ifndef QG_ENGINE_ACCEL_DNNL_PROGRAM_H
#define QG_ENGINE_ACCEL_DNNL_PROGRAM_H

#include "engine/accel/dnnl_guard.h"
#include "engine/accel/kernels.h"

/* One primitive to be made. */
typedef struct qg_dnnl_request {
    union {
        dnnl_convolution_desc_t conv;
        dnnl_deconvolution_desc_t deconv;
        dnnl_pooling_v2_desc_t pool;
        dnnl_matmul_desc_t matmul;
    } desc;
    dnnl_memory_desc_t src, weights, bias, dst;
    bool has_weights, has_bias;
    bool has_other;                  /* the second operand comes at run time */
    const qg_accel_codes *codes;     /* NULL: floats */
    int channel_axis;                /* of dst */
    size_t src_at, dst_at, other_at; /* bytes of the operands before those of a part */
    int64_t first_column;            /* of a part of the columns */
} qg_dnnl_request;

/* Some of the rows that parts consist of. */
typedef struct qg_dnnl_span {
    int64_t from, to;
} qg_dnnl_span;

/* The problem of a kernel. */
typedef struct qg_dnnl_job {
    /* packed: the layout of the weights; NULL: oneDNN chooses.  False: oneDNN refuses,
     * or (a part) these rows cannot be computed apart. */
    bool (*describe)(const void *problem, qg_dnnl_span rows,
                     const dnnl_memory_desc_t *packed, qg_dnnl_request *r);
    const void *problem;
    int64_t rows;          /* 0: computed whole */
    bool columns;          /* spans are of output channels, of which there is one row:
                            * parts are whole blocks of the packed weights */
    int weights_axis;      /* that has the columns */
    double work;           /* multiplications, or elements read */
    const qg_tensor *bias; /* NULL: none */
} qg_dnnl_job;

/* The layout of columns [at.from, at.to), which start a block, within packed
 * weights. */
dnnl_memory_desc_t qg_dnnl_columns(const dnnl_memory_desc_t *packed, int axis,
                                   qg_dnnl_span at);

/* *out stays NULL when oneDNN has no implementation. */
QG_NODISCARD qg_status qg_dnnl_kernel(qg_compile *c, const qg_dnnl_job *job,
                                      qg_kernel **out);

/* Types of tensors here; undefined for all others. */
dnnl_data_type_t qg_dnnl_type(const qg_tensor *t);

#endif
