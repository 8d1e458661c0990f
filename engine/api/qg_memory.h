/* qg_memory.h -- models, snapshots and samples without files: from bytes, from text,
 * from calls, and back.
 *
 *     qg_node_options matmul;
 *     qg_node_options_init(&matmul, sizeof matmul);
 *     matmul.op = "MatMul";
 *     matmul.in = (const char *[]){ "x", "w" };
 *     matmul.n_in = 2;
 *     matmul.out = (const char *[]){ "y" };
 *     matmul.n_out = 1;
 *     qg_status s = qg_model_new(ctx, "linear", 17, &m);
 *     if (!s) s = qg_model_add_input(m, "x", QG_F32, 2, dim);    // { 1, 3 }
 *     if (!s) s = qg_model_add_constant(m, "w", &w, false);      // a 3x2 matrix
 *     if (!s) s = qg_model_add_node(m, &matmul, NULL);
 *     if (!s) s = qg_model_add_output(m, "y");
 *     if (!s) s = qg_model_finish(m);                      // checked, shapes inferred
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_MEMORY_H
#define QG_ENGINE_API_QG_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/alloc.h"
#include "engine/core/status.h"
#include "engine/ir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qg_model qg_model;                 /* qg.h */
typedef struct qg_model_options qg_model_options; /* qg.h */
typedef struct qg_node qg_node;                   /* qg_records.h */

/* --- bytes --- */

/* Memory of the library: given back by qg_bytes_free, before the context is closed. */
typedef struct qg_bytes {
    void *data;
    size_t size;
} qg_bytes;

/* NULL and a zeroed struct are fine; *b is zeroed. */
QG_API void qg_bytes_free(qg_ctx *ctx, qg_bytes *b);

/* A model from the bytes of an ONNX or .tflite file, or a quantized model from those
 * written by qg_model_save_bytes.  `bytes` are borrowed until qg_model_close: constants
 * are read in place.  External data is read from o->folder; QG_EIO when it is missing.
 * Errors as qg_model_open. */
QG_NODISCARD QG_API qg_status qg_model_open_bytes(qg_ctx *ctx, const void *bytes,
                                                  size_t size,
                                                  const qg_model_options *o,
                                                  qg_model **out);

/* A model from the text form (docs/text-form.md), which need not end with a zero; not
 * borrowed.  Large constants, which a dump shows as hashes, cannot be read back:
 * QG_EPARSE names line and column. */
QG_NODISCARD QG_API qg_status qg_model_open_text(qg_ctx *ctx, const char *text,
                                                 size_t size, qg_model **out);

/* The snapshot of qg_model_save as one block: a .zip whose members, stored as they are,
 * are the files of the folder.  The same bytes for the same model and options.
 * QG_ESTATE when the model is not quantized. */
QG_NODISCARD QG_API qg_status qg_model_save_bytes(qg_model *m, qg_bytes *out);

/* The bytes of qg_model_export_onnx. */
QG_NODISCARD QG_API qg_status qg_model_export_onnx_bytes(qg_model *m, qg_bytes *out);

/* --- a model from calls --- */

/* A node to be made.  Names of values are those of inputs, constants and outputs of
 * other nodes, in any order of calls; NULL is an absent operand. */
typedef struct qg_node_options {
    size_t size;
    const char *op;        /* "Conv"; required */
    const char *domain;    /* NULL: ai.onnx */
    const char *name;      /* NULL: made up from op */
    const char *const *in; /* [n_in] */
    size_t n_in;
    const char *const *out; /* [n_out] */
    size_t n_out;
    const struct qg_attribute *attribute; /* [n_attribute], copied */
    size_t n_attribute;
} qg_node_options;
QG_API void qg_node_options_init(qg_node_options *o, size_t size);

/* Kinds of attributes; bodies (If, Loop, Scan) come from ONNX files only. */
typedef enum qg_attribute_kind {
    QG_ATTRIBUTE_INT,
    QG_ATTRIBUTE_FLOAT,
    QG_ATTRIBUTE_STRING,
    QG_ATTRIBUTE_INTS,
    QG_ATTRIBUTE_FLOATS,
    QG_ATTRIBUTE_STRINGS,
    QG_ATTRIBUTE_TENSOR
} qg_attribute_kind;

/* The member that `kind` names counts; lists have `count` entries, the others one. */
typedef struct qg_attribute {
    const char *name;
    qg_attribute_kind kind;
    size_t count;
    union {
        const int64_t *ints;
        const float *floats;
        const char *const *strings;
        const qg_tensor *tensor;
    };
} qg_attribute;

/* An empty model for nodes of this opset of ai.onnx; 0: the newest that is known.  Only
 * the functions of this section take it until qg_model_finish. */
QG_NODISCARD QG_API qg_status qg_model_new(qg_ctx *ctx, const char *name, int64_t opset,
                                           qg_model **out);

/* The opset of another domain; 1 without this call. */
QG_NODISCARD QG_API qg_status qg_model_import_opset(qg_model *m, const char *domain,
                                                    int64_t version);

/* dim: [rank]; -1 leaves an extent open. */
QG_NODISCARD QG_API qg_status qg_model_add_input(qg_model *m, const char *name,
                                                 qg_dtype type, int32_t rank,
                                                 const int64_t *dim);

/* borrow: t's data must stay as it is until qg_model_close, and is not copied unless
 * its strides are not plain or it is not aligned for its type. */
QG_NODISCARD QG_API qg_status qg_model_add_constant(qg_model *m, const char *name,
                                                    const qg_tensor *t, bool borrow);

/* QG_EUNSUPPORTED names an unknown operator, QG_EMODEL wrong operands or attributes;
 * the model is then as before.  *out (may be NULL) as in qg_records.h. */
QG_NODISCARD QG_API qg_status qg_model_add_node(qg_model *m, const qg_node_options *o,
                                                qg_node **out);

QG_NODISCARD QG_API qg_status qg_model_add_output(qg_model *m, const char *name);

/* Checks the graph, orders it, infers shapes: afterwards it can be used like an opened
 * model.  QG_EMODEL names a value that nothing produces, a cycle, a wrong type. */
QG_NODISCARD QG_API qg_status qg_model_finish(qg_model *m);

/* --- samples --- */

/* The inputs of one sample, to be filled by the source. */
typedef struct qg_inputs qg_inputs;

/* Input `name` (NULL: the only input) of the sample: type and dims are those of the
 * model's input, or floats of another size that its type holds exactly; data is copied
 * before the call returns.  QG_EDATA names sample and input. */
QG_NODISCARD QG_API qg_status qg_inputs_set(qg_inputs *inputs, const char *name,
                                            const qg_tensor *x);
/* The same without a copy where the type is that of the input: plain data that stays as
 * it is until the call that takes the samples (qg_model_quantize, ...) returns. */
QG_NODISCARD QG_API qg_status qg_inputs_borrow(qg_inputs *inputs, const char *name,
                                               const qg_tensor *x);

/* Samples that the host makes, for qg_workload. */
typedef struct qg_source {
    /* Sample `index`, from 0.  Calls come one at a time, from threads of the library;
     * in any order and several times for one sample unless one_shot is set.  When
     * nothing is set, there are no more samples (only where count is 0).  A failure
     * ends the work; its message is that of qg_fail with qg_inputs_ctx. */
    qg_status (*fetch)(void *ud, size_t index, qg_inputs *inputs);
    void *ud;
    size_t count;  /* 0: not known; samples are then counted before the work begins */
    bool one_shot; /* samples come once, in order: they are kept in an unnamed temporary
                    * file while the work needs them */
} qg_source;

/* For the message of a failure. */
QG_API qg_ctx *qg_inputs_ctx(qg_inputs *inputs);

/* An array of samples for one input: the first axis counts samples as in an .npy file
 * (README.md, "Your own model"); borrowed for the call. */
typedef struct qg_input_array {
    const char *input; /* name; NULL: the only input */
    qg_tensor value;
} qg_input_array;

#ifdef __cplusplus
}
#endif

#endif
