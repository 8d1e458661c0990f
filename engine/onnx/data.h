/* data.h -- tensors in separate files: input_0.pb, output_0.pb of ONNX test folders,
 * one TensorProto each.
 * Source: TensorProto of onnx.proto; onnx/backend/test/README of ONNX. */
#ifndef QG_ENGINE_ONNX_DATA_H
#define QG_ENGINE_ONNX_DATA_H

#include "engine/ir/tensor_memory.h"

/* A plain tensor in the arena.  Same checks as for an initializer of a model; external
 * data is not allowed.  Messages name the file.  Workers may call it. */
QG_NODISCARD qg_status qg_onnx_read_tensor(qg_ctx *ctx, qg_arena *a, const char *path,
                                           const qg_tensor **out);

#endif
