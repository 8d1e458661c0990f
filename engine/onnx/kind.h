/* kind.h -- what a file is that is not ONNX, for its message: users give checkpoints,
 * arrays, error pages of a download. */
#ifndef QG_ENGINE_ONNX_KIND_H
#define QG_ENGINE_ONNX_KIND_H

#include <stddef.h>

/* "a NumPy array (.npy)", by the first bytes; NULL: unknown.  For bytes that cannot be
 * parsed: the beginning of a valid model could look like one of these. */
const char *qg_onnx_other_kind(const void *bytes, size_t size);

#endif
