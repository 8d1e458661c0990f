/* attributes.h -- the attributes that operators of ONNX's default domain have.
 *
 * An attribute that its operator does not have is an error of the model: whoever
 * wrote it expected an effect (`stride` for `strides`, the `axes` that ReduceSum lost
 * in opset 13).  ONNX Runtime and onnx.checker refuse such models, too.
 * Source: attributes.def. */
#ifndef QG_ENGINE_ONNX_ATTRIBUTES_H
#define QG_ENGINE_ONNX_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

/* Words with one space between two.  NULL: the operator is not known at this opset. */
const char *qg_onnx_attributes(const char *op, int64_t opset);
/* Whether `name` is one of these words. */
bool qg_onnx_attributes_have(const char *attributes, const char *name);

#endif
