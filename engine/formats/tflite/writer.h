/* writer.h -- an integer program becomes a .tflite file: tensors, their layouts, and
 * the operators that several kernels need.
 *
 * Every node of the program (lower/program.h) becomes one operator of TensorFlow Lite
 * that computes the same codes, or in an island of floats the same floats; otherwise
 * the build fails and names the node.
 *
 * Layout    Pictures of a program are N,C,H,W, those of a file N,H,W,C.  A value of
 *           rank 4 has up to two forms; the second is made by TRANSPOSE when something
 *           reads it, or in memory where the value is constant.
 * Names     the form that is made first has the name of the value; of inputs and
 *           outputs the plain one.  The other one ends in _nhwc or _nchw.
 * Interface inputs and outputs are those of the network: names, types, dims
 * Clamps    limits of a kernel are its fused activation where one has these codes, of
 *           several the one nearest to the clamps of the float graph; else
 *           MAXIMUM and MINIMUM behind it, which give the same codes
 * Owner     tensors, operators and their arrays lie in the arena of the export, or in
 *           that of the program, which outlives the writer; pack.h copies all of them
 *
 * Example   an IntConv with pads that SAME does not have and limits without a fused
 *           activation, N,C,H,W in the program:
 *
 *     x [1,3,8,8] --TRANSPOSE--> x_nhwc [1,8,8,3] --PADV2--> x_nhwc_padded
 *       --CONV_2D--> y_unclamped --MAXIMUM--> y_not_below --MINIMUM--> y [1,8,8,16]
 *
 * PADV2 pads with the zero point of x, which is the code of 0.  A reader of y in
 * N,H,W,C takes this tensor; the first one that reads it in N,C,H,W adds a TRANSPOSE,
 * y_nchw.
 *
 * Tensors are referred to by their index, int32_t, as in the file; indices stay valid
 * while tensors are added, pointers into w->tensor do not. */
#ifndef QG_ENGINE_FORMATS_TFLITE_WRITER_H
#define QG_ENGINE_FORMATS_TFLITE_WRITER_H

#include "engine/formats/format.h"
#include "engine/formats/tflite/flatbuffer.h"
#include "engine/lower/program.h"

enum qg_tflite_form { QG_TFLITE_AS_IS, QG_TFLITE_NHWC, QG_TFLITE_NFORM };

typedef struct qg_tflite_writer {
    qg_export *e;
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_program *program;
    const qg_value **from; /* [values of the program] the value of the float graph that
                            * it stands for, or NULL */
    qg_stored *grid;       /* [values of the program] codes false: none, or not known */
    int32_t *form[QG_TFLITE_NFORM]; /* [values of the program] tensor; -1: not made */
    QG_VEC(qg_tflite_tensor) tensor;
    QG_VEC(qg_tflite_operator) op;
    const qg_value *
        *gelu;           /* [nodes of the program] x of a Gelu whose last node this is,
                            * or NULL */
    bool *inside;        /* [nodes of the program] a node of it before the last */
    const qg_node *node; /* at work */
    qg_recipe *recipe;   /* of node, if it has one; in the arena */
} qg_tflite_writer;

/* "export: node 'x' (IntConv): ..." as QG_EUNSUPPORTED. */
qg_status qg_tflite_refuse(qg_tflite_writer *w, const char *fmt, ...) QG_PRINTF(2, 3);

/* A constant of integers. */
QG_NODISCARD qg_status qg_tflite_put_ints(qg_tflite_writer *w, const char *name,
                                          uint32_t rank, const int32_t *dim,
                                          const int32_t *x, int32_t *out);

/* A constant of one float32, of rank 0. */
QG_NODISCARD qg_status qg_tflite_put_number(qg_tflite_writer *w, const char *name,
                                            float x, int32_t *out);

/* The tensor of v in this form.  grid: that of a constant, or of an input whose grid is
 * not known yet; NULL: none.  v is a constant or has been made in one of the forms,
 * else QG_EUNSUPPORTED; NHWC requires rank 4 (asserted). */
QG_NODISCARD qg_status qg_tflite_want(qg_tflite_writer *w, const qg_value *v,
                                      enum qg_tflite_form form, const qg_stored *grid,
                                      int32_t *out);

/* Whether v is of rank 4 and has been made in N,H,W,C. */
bool qg_tflite_is_picture(const qg_tflite_writer *w, const qg_value *v);

/* A new tensor for v, whose grid is set.  It has no data: an operator that is put
 * afterwards computes it, or it is an input of the file.  Dims that are not known are
 * QG_EUNSUPPORTED. */
QG_NODISCARD qg_status qg_tflite_make(qg_tflite_writer *w, const qg_value *v,
                                      enum qg_tflite_form form, int32_t *out);

/* A tensor like that one, under another name and with these dims (NULL: its own). */
QG_NODISCARD qg_status qg_tflite_like(qg_tflite_writer *w, int32_t like,
                                      const char *suffix, const int32_t *dim,
                                      int32_t *out);

/* Whether the code stands for 0 on the one grid of that tensor. */
bool qg_tflite_is_zero(const qg_tflite_writer *w, int32_t tensor, int32_t code);

/* A constant with one code on the grid of that tensor, of rank 0: the operand of
 * MAXIMUM and MINIMUM, the value of PADV2. */
QG_NODISCARD qg_status qg_tflite_put_code(qg_tflite_writer *w, int32_t like,
                                          int32_t code, int32_t *out);

/* Tensors of an operator. */
typedef struct qg_tflite_slots {
    const int32_t *in, *out; /* [n_in], [n_out]; borrowed for the call */
    uint32_t n_in, n_out;
} qg_tflite_slots;

/* An operator of upstream's BuiltinOperator `code`. */
QG_NODISCARD qg_status qg_tflite_put(qg_tflite_writer *w, int32_t code,
                                     qg_tflite_slots slots, const qg_tflite_options *o);

/* Whether n, of the float graph, is part of the kernel before it: a clamp, or the Q of
 * a file. */
bool qg_tflite_is_behind(const qg_tflite_writer *w, const qg_node *n);

/* Of activations with the codes of w->node (a sum that is not 0): the one nearest to
 * the clamps of the float graph, which a reader of the file would compute in floats. */
qg_activation qg_tflite_activation(const qg_tflite_writer *w, uint32_t set);

/* The operator that computes output 0 of w->node in this form from slots.in, within the
 * limits of its recipe.  activation: it has a fused one. */
QG_NODISCARD qg_status qg_tflite_put_kernel(qg_tflite_writer *w, int32_t code,
                                            qg_tflite_slots slots,
                                            enum qg_tflite_form form,
                                            const qg_tflite_options *o,
                                            bool activation);

/* Axis k of a value of this rank in that form; k < 0 counts from the end.  Rank 4,
 * N,H,W,C: 0 1 2 3 -> 0 3 1 2. */
int32_t qg_tflite_axis_in(enum qg_tflite_form form, int32_t rank, int64_t k);

/* The form in which axis k of w->node's input is the last one, as SOFTMAX has it: the
 * channels of a picture are, in N,H,W,C.  QG_EUNSUPPORTED when none is. */
QG_NODISCARD qg_status qg_tflite_form_of_rows(qg_tflite_writer *w, int64_t k,
                                              enum qg_tflite_form *out);

/* The operators of w->node.  kernel: convolutions, products, functions, of domain
 * quantgraph; move: operators of ai.onnx on codes, which move or select them. */
QG_NODISCARD qg_status qg_tflite_write_kernel(qg_tflite_writer *w);
QG_NODISCARD qg_status qg_tflite_write_move(qg_tflite_writer *w);

/* write_floats.c.  A node of ai.onnx that computes on floats; one that TensorFlow Lite
 * lacks is QG_EUNSUPPORTED.  write_move hands it what moves nothing. */
QG_NODISCARD qg_status qg_tflite_write_float(qg_tflite_writer *w);

/* axes.c.  Operators over axes that upstream lacks become others; before anything is
 * written, since ids of nodes and values change. */
QG_NODISCARD qg_status qg_tflite_rewrite_axes(qg_graph *g);

/* gelu.c.  Sets w->gelu and w->inside: the nodes that one operator GELU replaces. */
QG_NODISCARD qg_status qg_tflite_find_gelus(qg_tflite_writer *w);

/* Whether a resize of x to y leaves batch and channels alone: both have 4 axes. */
bool qg_tflite_is_of_pictures(const qg_tensor *x, const qg_tensor *y);

/* write_window.c.  The window of w->node over pictures: options of a convolution or
 * pool, and pads (top, left, bottom, right) that SAME does not have, else zeros. */
QG_NODISCARD qg_status qg_tflite_window(qg_tflite_writer *w, const int64_t kernel[2],
                                        int64_t pad[4], qg_tflite_options *o);

/* N,H,W,C where an input of w->node has that form already and the others have 4 axes or
 * are single elements; else as is. */
enum qg_tflite_form qg_tflite_pick_form(const qg_tflite_writer *w);

/* Padding in front of a window: *x, N,H,W,C, becomes padded with that code where `pad`
 * (top, left, bottom, right) has one above 0. */
QG_NODISCARD qg_status qg_tflite_put_pad(qg_tflite_writer *w, const int64_t pad[4],
                                         int32_t code, int32_t *x);

#endif
