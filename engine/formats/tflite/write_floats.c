/* write_floats.c -- nodes of ai.onnx in an island of floats: between DEQUANTIZE and
 * QUANTIZE, as the converter of TensorFlow Lite leaves operators that have no integer
 * kernel.
 *
 *     y codes --DEQUANTIZE--> y --EXP--> e --QUANTIZE--> e codes
 *
 * The island of the file is that of the program (lower/program.h): QUANTIZE and
 * DEQUANTIZE are its nodes IntQuantize and IntDequantize.  Floats are those of integer
 * mode as far as the mathematical libraries agree: exp and pow may differ in the last
 * bit.
 *
 * Layout    element-wise operators take pictures in either form; all others N,C,H,W,
 *           where their axes are those of ONNX
 * Gelu      the nodes that compute it are one operator (gelu.c)
 * Missing   operators that upstream's BuiltinOperator lacks (Erf alone), and forms of
 *           others that it lacks, are refused with the name of the node */
#include <string.h>

#include "engine/formats/tflite/writer.h"

/* Upstream's numbers of BuiltinOperator. */
enum {
    ADD = 0,
    CONCATENATION = 2,
    FLOOR = 8,
    LOGISTIC = 14,
    MUL = 18,
    RELU = 19,
    SOFTMAX = 25,
    TANH = 28,
    SUB = 41,
    DIV = 42,
    EXP = 47,
    MAXIMUM = 55,
    MINIMUM = 57,
    NEG = 59,
    LOG = 73,
    SQRT = 75,
    POW = 78,
    ABS = 101,
    CEIL = 104,
    HARD_SWISH = 117,
    GELU = 150
};

/* The operator that computes output 0 of w->node, in this form. */
static qg_status put(qg_tflite_writer *w, int32_t code, qg_tflite_slots slots,
                     enum qg_tflite_form form, const qg_tflite_options *o)
{
    int32_t out;
    QG_TRY(qg_tflite_make(w, w->node->out[0], form, &out));
    slots.out = &out;
    slots.n_out = 1;
    return qg_tflite_put(w, code, slots, o);
}

/* Operands with 4 axes in the form of the output; single elements as they are. */
static qg_status elementwise(qg_tflite_writer *w, int32_t code)
{
    enum qg_tflite_form form = qg_tflite_pick_form(w);
    const qg_node *n = w->node;
    int32_t in[2];
    if (n->n_in < 1 || n->n_in > 2)
        return qg_tflite_refuse(w, "%u inputs, expected 1 or 2", (unsigned)n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        int32_t rank = v->constant ? v->constant->rank : v->type.rank;
        enum qg_tflite_form of = rank == 4 ? form : QG_TFLITE_AS_IS;
        QG_TRY(qg_tflite_want(w, v, of, NULL, &in[i]));
    }
    return put(w, code, (qg_tflite_slots){ in, NULL, n->n_in, 0 }, form,
               &(qg_tflite_options){ 0 });
}

/* A node Gelu, or the last one of those that compute it (gelu.c). */
static qg_status gelu(qg_tflite_writer *w, int32_t code)
{
    static const char *const choices[] = { "none", "tanh", NULL };
    const qg_value *x = w->gelu[w->node->id];
    enum qg_tflite_form form;
    int32_t in;
    int choice = 0;
    if (!x)
        QG_TRY(qg_attr_choice(w->ctx, w->node, "approximate", choices, 0, &choice));
    x = x ? x : w->node->in[0];
    form = qg_tflite_is_picture(w, x) ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
    QG_TRY(qg_tflite_want(w, x, form, NULL, &in));
    return put(
        w, code, (qg_tflite_slots){ &in, NULL, 1, 0 }, form,
        &(qg_tflite_options){ .kind = QG_TFLITE_OPTIONS_GELU, .approximate = choice });
}

/* y = min(max(alpha x + beta, 0), 1) in the order of ONNX, an operator per step:
 * upstream has no such function. */
static qg_status hard_sigmoid(qg_tflite_writer *w, int32_t code)
{
    static const char *const name[] = { "scaled", "shifted", "not_below" };
    const qg_node *n = w->node;
    const int32_t step[] = { MUL, ADD, MAXIMUM, code };
    float with[4] = { 0.2f, 0.5f, 0, 1 };
    enum qg_tflite_form form = qg_tflite_pick_form(w);
    int32_t in[2], out, y;
    QG_TRY(qg_attr_float(w->ctx, n, "alpha", 0.2f, &with[0]));
    QG_TRY(qg_attr_float(w->ctx, n, "beta", 0.5f, &with[1]));
    QG_TRY(qg_tflite_want(w, n->in[0], form, NULL, &in[0]));
    QG_TRY(qg_tflite_make(w, n->out[0], form, &y));
    for (int i = 0; i < 4; i++) {
        const char *constant = i == 0 ? "alpha" : i == 1 ? "beta" : i == 2 ? "0" : "1";
        QG_TRY(qg_tflite_put_number(w, constant, with[i], &in[1]));
        out = y;
        if (i < 3)
            QG_TRY(qg_tflite_like(w, y, name[i], NULL, &out));
        QG_TRY(qg_tflite_put(w, step[i], (qg_tflite_slots){ in, &out, 2, 1 },
                             &(qg_tflite_options){ 0 }));
        in[0] = out;
    }
    return QG_OK;
}

static qg_status softmax(qg_tflite_writer *w, int32_t code)
{
    const qg_node *n = w->node;
    enum qg_tflite_form form;
    int32_t in;
    int64_t axis;
    bool flattens = n->opset < 13; /* from its axis on */
    QG_TRY(qg_attr_int(w->ctx, n, "axis", flattens ? 1 : -1, &axis));
    if (flattens && axis != -1 && axis != n->in[0]->type.rank - 1)
        return qg_tflite_refuse(w, "axis %lld of opset %lld, expected the last one",
                                (long long)axis, (long long)n->opset);
    QG_TRY(qg_tflite_form_of_rows(w, axis, &form));
    QG_TRY(qg_tflite_want(w, n->in[0], form, NULL, &in));
    return put(w, code, (qg_tflite_slots){ &in, NULL, 1, 0 }, form,
               &(qg_tflite_options){ .kind = QG_TFLITE_OPTIONS_SOFTMAX, .factor = 1 });
}

static qg_status concat(qg_tflite_writer *w, int32_t code)
{
    const qg_node *n = w->node;
    int64_t axis;
    int32_t *in = QG_NEWN(w->arena, n->n_in, int32_t);
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_CONCAT };
    if (!in)
        return qg_nomem(w->ctx);
    QG_TRY(qg_attr_int(w->ctx, n, "axis", 0, &axis));
    o.axis = (int32_t)(axis < 0 ? axis + n->out[0]->type.rank : axis);
    for (uint32_t i = 0; i < n->n_in; i++)
        QG_TRY(qg_tflite_want(w, n->in[i], QG_TFLITE_AS_IS, NULL, &in[i]));
    return put(w, code, (qg_tflite_slots){ in, NULL, n->n_in, 0 }, QG_TFLITE_AS_IS, &o);
}

static const struct {
    const char *op;
    qg_status (*write)(qg_tflite_writer *w, int32_t code);
    int32_t code;
} rows[] = {
    {"Abs",          elementwise,  ABS          },
    { "Add",         elementwise,  ADD          },
    { "Ceil",        elementwise,  CEIL         },
    { "Concat",      concat,       CONCATENATION},
    { "Div",         elementwise,  DIV          },
    { "Exp",         elementwise,  EXP          },
    { "Floor",       elementwise,  FLOOR        },
    { "Gelu",        gelu,         GELU         },
    { "HardSigmoid", hard_sigmoid, MINIMUM      },
    { "HardSwish",   elementwise,  HARD_SWISH   },
    { "Log",         elementwise,  LOG          },
    { "Max",         elementwise,  MAXIMUM      },
    { "Min",         elementwise,  MINIMUM      },
    { "Mul",         elementwise,  MUL          },
    { "Neg",         elementwise,  NEG          },
    { "Pow",         elementwise,  POW          },
    { "Relu",        elementwise,  RELU         },
    { "Sigmoid",     elementwise,  LOGISTIC     },
    { "Softmax",     softmax,      SOFTMAX      },
    { "Sqrt",        elementwise,  SQRT         },
    { "Sub",         elementwise,  SUB          },
    { "Tanh",        elementwise,  TANH         },
};

/* The value of the float graph that output 0 of w->node is, or becomes when it is
 * quantized; NULL: none. */
static const qg_value *source(const qg_tflite_writer *w)
{
    const qg_value *out = w->node->n_out ? w->node->out[0] : NULL;
    const qg_value *v = out ? w->from[out->id] : NULL;
    for (size_t i = 0; out && !v && i < out->use.n; i++) {
        const qg_node *reader = out->use.at[i].node;
        v = reader->n_out ? w->from[reader->out[0]->id] : NULL;
        v = v && v->def && strcmp(v->def->name, w->node->name) == 0 ? v : NULL;
    }
    return v;
}

/* With the reason why the node of the float graph has no integer kernel. */
static qg_status refuse_island(qg_tflite_writer *w)
{
    const qg_value *v = source(w);
    const char *why = v && v->def ? w->program->node[v->def->id].why : "";
    return qg_tflite_refuse(w,
                            "%s%sexpected an integer kernel of TensorFlow Lite, or one "
                            "of its functions on floats (`qg lint --target tflite` "
                            "shows which condition fails)",
                            why, *why ? ", " : "");
}

qg_status qg_tflite_write_float(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    bool floats = n->n_out == 1 && n->out[0] && n->out[0]->type.dtype == QG_F32;
    if (w->gelu[n->id])
        return gelu(w, GELU);
    for (size_t i = 0; floats && i < sizeof rows / sizeof rows[0]; i++)
        if (qg_op_is_named(n->op, &rows[i].op, 1))
            return rows[i].write(w, rows[i].code);
    return refuse_island(w);
}
