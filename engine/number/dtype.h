/* dtype.h -- the element types of tensors: names, ONNX codes, sizes.
 *
 * Storage  element i of a type with bits >= 8 lies at byte i * bits / 8.  Types below
 *          8 bits are packed as ONNX packs them: the lower-indexed element in the
 *          lower bits of a byte, the last byte padded with zeros.
 * Source   TensorProto.DataType of onnx.proto (IR 13).
 *
 * The map is the only description of a type: names, ONNX codes, sizes and kinds are
 * read from it, so a new type is one row, and format.h when it is a float. */
#ifndef QG_ENGINE_NUMBER_DTYPE_H
#define QG_ENGINE_NUMBER_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define QG_DTYPE_MAP(X)                                                        \
    /* id          text            onnx bits  kind */                          \
    X(NODTYPE,     "none",           0,  0,  NOTHING)                          \
    X(F32,         "float32",        1, 32,  FLOAT)                            \
    X(U8,          "uint8",          2,  8,  UINT)                             \
    X(I8,          "int8",           3,  8,  INT)                              \
    X(U16,         "uint16",         4, 16,  UINT)                             \
    X(I16,         "int16",          5, 16,  INT)                              \
    X(I32,         "int32",          6, 32,  INT)                              \
    X(I64,         "int64",          7, 64,  INT)                              \
    X(BOOL,        "bool",           9,  8,  BOOLEAN)                          \
    X(F16,         "float16",       10, 16,  FLOAT)                            \
    X(F64,         "float64",       11, 64,  FLOAT)                            \
    X(U32,         "uint32",        12, 32,  UINT)                             \
    X(U64,         "uint64",        13, 64,  UINT)                             \
    X(BF16,        "bfloat16",      16, 16,  FLOAT)                            \
    X(F8E4M3FN,    "float8e4m3fn",  17,  8,  FLOAT)                            \
    X(F8E4M3FNUZ,  "float8e4m3fnuz",18,  8,  FLOAT)                            \
    X(F8E5M2,      "float8e5m2",    19,  8,  FLOAT)                            \
    X(F8E5M2FNUZ,  "float8e5m2fnuz",20,  8,  FLOAT)                            \
    X(U4,          "uint4",         21,  4,  UINT)                             \
    X(I4,          "int4",          22,  4,  INT)                              \
    X(F4E2M1,      "float4e2m1",    23,  4,  FLOAT)                            \
    X(F8E8M0,      "float8e8m0",    24,  8,  FLOAT)                            \
    X(U2,          "uint2",         25,  2,  UINT)                             \
    X(I2,          "int2",          26,  2,  INT)
/* clang-format on */

/* QG_NODTYPE is 0: a zeroed tensor has no type. */
typedef enum qg_dtype {
#define X(id, text, onnx, bits, kind) QG_##id,
    QG_DTYPE_MAP(X)
#undef X
        QG_NDTYPE
} qg_dtype;

/* How bits are to be read; FLOAT holds every format of format.h. */
enum qg_dtype_kind {
    QG_KIND_NOTHING,
    QG_KIND_FLOAT,
    QG_KIND_INT,
    QG_KIND_UINT,
    QG_KIND_BOOLEAN
};

QG_API const char *qg_dtype_name(qg_dtype d);     /* "float32" */
QG_API qg_dtype qg_dtype_named(const char *text); /* QG_NODTYPE when unknown */
QG_API qg_dtype
qg_dtype_of_onnx(int64_t code); /* QG_NODTYPE when unknown (string, ...) */
/* All three: d < QG_NDTYPE (asserted).  QG_NODTYPE has code 0 and 0 bits. */
QG_API int qg_dtype_onnx(qg_dtype d);
QG_API unsigned qg_dtype_bits(qg_dtype d);
QG_API enum qg_dtype_kind qg_dtype_kind_of(qg_dtype d);

/* Bit d of a mask over types, for tables of the types an operator accepts.
 *     enum { KNOWN = QG_DT(F32) | QG_DT(F64) };        ... if (KNOWN >> d & 1) */
#define QG_DT(id) (UINT64_C(1) << QG_##id)

/* Bytes for n elements, packed; false on overflow.
 * Packed types round up to a whole byte; *bytes is untouched on overflow. */
QG_API bool qg_dtype_bytes(qg_dtype d, uint64_t n, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
