/* tensor.h -- TensorProto, in either direction, without protobuf types.
 *
 * Import fills a qg_onnx_tensor with borrowed pointers and gets a checked qg_tensor.
 *
 * Where the elements are: in exactly one of
 *     external_data   a file: location, offset (0), length (required by the dims)
 *     raw_data        little-endian, packed types as in dtype.h
 *     float_data      float32
 *     double_data     float64
 *     int64_data      int64
 *     uint64_data     uint32, uint64
 *     int32_data      all others: integers by value, 16- and 8-bit floats by their
 *                     bits, packed types one byte per entry
 * Counts must match the dims exactly.
 *
 * Copies    external data, and raw data of a message that stays, are used in place when
 *           they are aligned for their type.  Bools (any byte but 0 counts as 1) and
 *           packed types (unused bits become 0) are always copied.
 * Source: TensorProto of onnx.proto (IR 14), "External Data" of the ONNX manual. */
#ifndef QG_ENGINE_ONNX_TENSOR_H
#define QG_ENGINE_ONNX_TENSOR_H

#include "engine/ir/graph.h"

/* The contents of a TensorProto; everything borrowed. */
typedef struct qg_onnx_tensor {
    const char *what; /* "initializer 'w'": begins messages */
    int64_t data_type;
    const int64_t *dim; /* [n_dim] unchecked */
    size_t n_dim;
    bool has_raw;
    const unsigned char *raw; /* [n_raw] raw_data */
    size_t n_raw;
    bool raw_stays;   /* as long as the graph */
    const float *f32; /* [n_f32] and so on: the typed fields */
    const double *f64;
    const int32_t *i32;
    const int64_t *i64;
    const uint64_t *u64;
    /* lengths; n_string: refused */
    size_t n_f32, n_f64, n_i32, n_i64, n_u64, n_string;
    bool external;                          /* data_location is EXTERNAL */
    const char *location, *offset, *length; /* external_data entries; NULL: absent */
} qg_onnx_tensor;

/* The folder of external data, and its mapped files. */
typedef struct qg_onnx_files {
    qg_graph *graph;         /* the outermost graph: keeps the mappings open */
    const char *folder;      /* of the model; NULL: no external data allowed */
    qg_names *paths;         /* name -> index into at */
    QG_VEC(const void *) at; /* qg_file */
} qg_onnx_files;

/* The bytes of external data: t->location below the folder, mapped read-only and once
 * per file.  Refused are absolute paths, ".." and links that lead out of the folder;
 * the file is compared by its real path.  QG_EIO: it is not there. */
QG_NODISCARD qg_status qg_onnx_external(qg_onnx_files *files, const qg_onnx_tensor *t,
                                        size_t need, const unsigned char **bytes);

/* A plain tensor whose data lies in the graph's arena or in a mapped file.  Checks the
 * type, dims, byte counts and the range of typed values. */
QG_NODISCARD qg_status qg_onnx_tensor_read(qg_onnx_files *files,
                                           const qg_onnx_tensor *t,
                                           const qg_tensor **out);

/* The name of a TensorProto.DataType, also of those that qg_dtype lacks ("string"). */
const char *qg_onnx_type_name(int64_t data_type);

#endif
