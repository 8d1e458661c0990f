/* builder.h -- tensors of a .tflite file become values of a graph, with their grids.
 *
 * Layout    A file has its pictures as N,H,W,C; convolutions of ONNX want N,C,H,W.  A
 *           tensor has up to four forms, made when something reads them:
 *
 *               plain     the dims of the file
 *               nchw      rank 4, axes 0 3 1 2; weights O,H,W,I become O,I,H,W
 *               cnhw      rank 4, axes 3 0 1 2; depthwise weights 1,H,W,O become
 *                         O,1,H,W, those of transposed convolutions I,O,H,W
 *               swapped   the last two axes exchanged
 *
 *           An operator reads the form it needs and makes one form of its result; the
 *           others follow by Transpose, or, for constants, in memory.
 * Codes     A tensor with codes is float32 in the graph, on the grid of the file: its
 *           `lead` is the value whose producer rounds; every other form, and a value
 *           inside of a fused operator, has no rounding of its own (qg_tflite_note).
 *           int8, uint8, int16 and int32 have a grid when they have scales.  Codes of
 *           constants become the floats they stand for.  int32 codes that float32 does
 *           not keep (quantize(dequantize(c)) != c, above 2^23) stay an int32 constant
 *           behind a DequantizeLinear, whose result has no record: the codes are those
 *           of its input 0.
 * Hostile   indices, dims, sizes of arrays and types are checked on first use; memory
 *           of constants is limited by the size of the file.
 * Errors    "import: operator 3 (CONV_2D): ...", "import: tensor 5 'x': ..." */
#ifndef QG_ENGINE_FORMATS_TFLITE_BUILDER_H
#define QG_ENGINE_FORMATS_TFLITE_BUILDER_H

#include "engine/formats/grid_record.h"
#include "engine/formats/tflite/flatbuffer.h"

enum qg_tflite_layout {
    QG_TFLITE_PLAIN,
    QG_TFLITE_NCHW,
    QG_TFLITE_CNHW,
    QG_TFLITE_SWAPPED,
    QG_TFLITE_NLAYOUT
};

enum { QG_TFLITE_OPSET = 21, QG_TFLITE_ATTRS = 8 };

/* One tensor in the graph. */
typedef struct qg_tflite_value {
    bool checked;                      /* the rest is valid */
    bool constant;                     /* the file has its data */
    bool is_input, is_output;          /* of the network */
    qg_tensor type;                    /* plain; float32 where there is a grid */
    qg_dtype codes;                    /* type of the file */
    const qg_grid_record *grid;        /* NULL: none */
    qg_value *named;                   /* has the tensor's name; NULL for constants */
    qg_value *form[QG_TFLITE_NLAYOUT]; /* NULL: not made yet */
    qg_value *lead;                    /* its producer rounds; NULL: not computed yet */
} qg_tflite_value;

/* A value of the graph that is on a grid. */
typedef struct qg_tflite_note {
    const qg_value *value;
    uint32_t tensor;
    const qg_grid_record *grid; /* of a constant, with the axis of its form */
} qg_tflite_note;

typedef struct qg_tflite_builder {
    qg_ctx *ctx;
    qg_graph *g;
    const qg_tflite_file *file;
    qg_tflite_value *value; /* [n_tensor] */
    QG_VEC(qg_tflite_note) note;
    uint64_t room;                /* bytes of constants that may still be made */
    const qg_tflite_operator *op; /* at work; NULL: the boundary is */
    uint32_t at;                  /* its position */
    const char *op_name;          /* "CONV_2D", "inputs" */
} qg_tflite_builder;

/* A node under construction; in and out are borrowed for the call that adds it. */
typedef struct qg_tflite_node {
    const char *op; /* of ai.onnx */
    qg_value *const *in;
    uint32_t n_in;
    qg_attr attr[QG_TFLITE_ATTRS];
    size_t n_attr;
} qg_tflite_node;

/* "import: operator 3 (CONV_2D): ...", about what is at work. */
qg_status qg_tflite_fail(qg_tflite_builder *b, qg_status s, const char *fmt, ...)
    QG_PRINTF(3, 4);

/* The tensor of this index, checked; QG_EMODEL and QG_EUNSUPPORTED name it. */
QG_NODISCARD qg_status qg_tflite_tensor_at(qg_tflite_builder *b, int32_t index,
                                           qg_tflite_value **out);

/* Input k of the operator, which must be there, and have been computed or be constant;
 * output k, which must be neither. */
QG_NODISCARD qg_status qg_tflite_input(qg_tflite_builder *b, uint32_t k,
                                       qg_tflite_value **out);
QG_NODISCARD qg_status qg_tflite_output(qg_tflite_builder *b, uint32_t k,
                                        qg_tflite_value **out);
bool qg_tflite_has_input(const qg_tflite_builder *b, uint32_t k);

/* The constant integers of input k, at most `most`. */
QG_NODISCARD qg_status qg_tflite_integers(qg_tflite_builder *b, uint32_t k, size_t most,
                                          int64_t *out, size_t *n);

/* A form of a tensor that is computed or constant.  nchw and cnhw of a constant of
 * lower rank: after dims of 1 were put before its own. */
QG_NODISCARD qg_status qg_tflite_form(qg_tflite_builder *b, qg_tflite_value *v,
                                      enum qg_tflite_layout layout, qg_value **out);

/* After inference: QG_EMODEL names a computed tensor whose dims or type are not those
 * of the file. */
QG_NODISCARD qg_status qg_tflite_check_forms(qg_tflite_builder *b);

/* The axis of a form that plain axis k becomes, rank 4. */
int64_t qg_tflite_axis(enum qg_tflite_layout layout, int64_t k);

/* The value that is to hold this form of an output, made when it is first asked for;
 * it becomes the lead. */
QG_NODISCARD qg_status qg_tflite_lead(qg_tflite_builder *b, qg_tflite_value *v,
                                      enum qg_tflite_layout layout, qg_value **out);

/* A value on the grid of v that does not round: in the middle of an operator, or moved
 * from the lead. */
QG_NODISCARD qg_status qg_tflite_silent(qg_tflite_builder *b, qg_tflite_value *v,
                                        const char *what, qg_value **out);

/* Constants of the graph: integers for shapes and axes, a scalar. */
QG_NODISCARD qg_status qg_tflite_int_constant(qg_tflite_builder *b, const char *name,
                                              size_t n, const int64_t *x,
                                              qg_value **out);
QG_NODISCARD qg_status qg_tflite_float_constant(qg_tflite_builder *b, const char *name,
                                                float x, qg_value **out);

/* Attributes; the values are copied. */
QG_NODISCARD qg_status qg_tflite_attr_ints(qg_tflite_builder *b, qg_tflite_node *n,
                                           const char *name, size_t count,
                                           const int64_t *x);
QG_NODISCARD qg_status qg_tflite_attr_int(qg_tflite_builder *b, qg_tflite_node *n,
                                          const char *name, int64_t x);
QG_NODISCARD qg_status qg_tflite_attr_float(qg_tflite_builder *b, qg_tflite_node *n,
                                            const char *name, float x);
QG_NODISCARD qg_status qg_tflite_attr_text(qg_tflite_builder *b, qg_tflite_node *n,
                                           const char *name, const char *x);

/* Adds n with outputs out [n_out]. */
QG_NODISCARD qg_status qg_tflite_add(qg_tflite_builder *b, const qg_tflite_node *n,
                                     qg_value *const *out, uint32_t n_out);

/* out = Reshape(x, dims of `like`). */
QG_NODISCARD qg_status qg_tflite_reshape(qg_tflite_builder *b, qg_value *x,
                                         const qg_tensor *like, qg_value *out);

/* Boundary of the network: inputs before the operators, outputs behind them. */
QG_NODISCARD qg_status qg_tflite_begin(qg_tflite_builder *b);
QG_NODISCARD qg_status qg_tflite_end(qg_tflite_builder *b);

/* The records of the finished, inferred graph. */
QG_NODISCARD qg_status qg_tflite_records(qg_tflite_builder *b, qg_quant **out);

#endif
