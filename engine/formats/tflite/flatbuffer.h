/* flatbuffer.h -- the contents of a .tflite file as plain C structures.
 *
 * qg_tflite_unpack verifies the bytes (offsets, sizes, alignment, nesting, the
 * identifier "TFL3") and describes the first subgraph.  What the numbers mean is not
 * checked: an index may point nowhere, a dimension may be negative, arrays may have any
 * length.  builder.h checks them where it uses them.
 *
 * Owner    names, arrays and constants lie in the bytes; the lists of tensors and
 *          operators in memory of qg_tflite_memory
 * Built    with QG_TFLITE and the packages of flatbuffers; else qg_tflite_unpack gives
 *          QG_TFLITE_NOT_BUILT.  flatbuffer.cpp is the only file in C++, and needs no
 *          C++ library at run time.
 * Source   schema.fbs */
#ifndef QG_ENGINE_FORMATS_TFLITE_FLATBUFFER_H
#define QG_ENGINE_FORMATS_TFLITE_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of upstream's union BuiltinOptions. */
enum qg_tflite_options_kind {
    QG_TFLITE_OPTIONS_NONE = 0,
    QG_TFLITE_OPTIONS_CONV = 1,
    QG_TFLITE_OPTIONS_DEPTHWISE = 2,
    QG_TFLITE_OPTIONS_POOL = 5,
    QG_TFLITE_OPTIONS_DENSE = 8,
    QG_TFLITE_OPTIONS_SOFTMAX = 9,
    QG_TFLITE_OPTIONS_CONCAT = 10,
    QG_TFLITE_OPTIONS_ADD = 11,
    QG_TFLITE_OPTIONS_RESIZE_BILINEAR = 15,
    QG_TFLITE_OPTIONS_MUL = 21,
    QG_TFLITE_OPTIONS_GATHER = 23,
    QG_TFLITE_OPTIONS_REDUCER = 27,
    QG_TFLITE_OPTIONS_SUB = 28,
    QG_TFLITE_OPTIONS_DIV = 29,
    QG_TFLITE_OPTIONS_STRIDED_SLICE = 32,
    QG_TFLITE_OPTIONS_SPLIT = 35,
    QG_TFLITE_OPTIONS_TRANSPOSE_CONV = 49,
    QG_TFLITE_OPTIONS_PACK = 59,
    QG_TFLITE_OPTIONS_UNPACK = 64,
    QG_TFLITE_OPTIONS_RESIZE_NEAREST = 74,
    QG_TFLITE_OPTIONS_LEAKY_RELU = 75,
    QG_TFLITE_OPTIONS_SPLIT_V = 79,
    QG_TFLITE_OPTIONS_BATCH_MATMUL = 101,
    QG_TFLITE_OPTIONS_GELU = 116
};

/* Options of all operators in one struct: those that the kind lacks are 0. */
typedef struct qg_tflite_options {
    int32_t kind; /* of qg_tflite_options_kind, or another number of the union */
    int32_t padding, activation; /* see operators.h */
    int32_t stride_h, stride_w, dilation_h, dilation_w, filter_h, filter_w;
    int32_t axis, batch_dims, parts, format, multiplier;
    float factor; /* beta of SOFTMAX, alpha of LEAKY_RELU */
    bool keep_dims, adj_x, adj_y, align_corners, half_pixel, offset, approximate;
    int32_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} qg_tflite_options;

typedef struct qg_tflite_tensor {
    const char *name; /* never NULL, may be empty */
    int32_t type;     /* see builder.h */
    const int32_t *dim;
    uint32_t rank;
    const unsigned char *data; /* of a constant, little-endian, unaligned; else NULL */
    size_t size;               /* bytes of data */
    const float *scale;
    const unsigned char *zero; /* int64, little-endian, unaligned */
    uint32_t n_scale, n_zero;
    int32_t axis;
    bool no_buffer; /* its buffer is not one of the file */
    bool outside;   /* its buffer lies behind the flatbuffer */
    bool variable, sparse;
    bool details; /* a quantization that is not given by scale and zero */
} qg_tflite_tensor;

typedef struct qg_tflite_operator {
    int32_t code; /* upstream's BuiltinOperator; -1: its entry does not exist */
    const char *custom;
    const int32_t *in, *out; /* tensors; -1: absent */
    uint32_t n_in, n_out;
    qg_tflite_options options;
} qg_tflite_operator;

typedef struct qg_tflite_file {
    uint32_t version, n_subgraph;
    const qg_tflite_tensor *tensor;
    const qg_tflite_operator *op;
    const int32_t *input, *output;
    uint32_t n_tensor, n_op, n_input, n_output;
} qg_tflite_file;

/* Memory that outlives the file; get returns NULL when there is none. */
typedef struct qg_tflite_memory {
    void *(*get)(void *ud, size_t count, size_t size);
    void *ud;
} qg_tflite_memory;

enum qg_tflite_result {
    QG_TFLITE_READ,
    QG_TFLITE_MALFORMED, /* the verifier refuses the bytes */
    QG_TFLITE_TOO_LARGE, /* 2 GB or more: offsets have 31 bits */
    QG_TFLITE_NO_MEMORY,
    QG_TFLITE_NOT_BUILT
};

/* bytes: 16-byte aligned, as mapped files and blocks of malloc are, and borrowed as
 * long as *out is used.  *out is written only under QG_TFLITE_READ. */
enum qg_tflite_result qg_tflite_unpack(const unsigned char *bytes, size_t size,
                                       qg_tflite_memory memory, qg_tflite_file *out);

#ifdef __cplusplus
}
#endif

#endif
