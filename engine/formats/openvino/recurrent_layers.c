#include "engine/formats/openvino/recurrent_layers.h"

#include <inttypes.h>
#include <string.h>

#include "engine/core/num.h"

/* Slots of inputs and outputs in ONNX. */
enum { X, W, R, B, LENGTHS, H0, C0, PEEPHOLES };
enum { Y, Y_H, Y_C, OUTPUTS };
enum { GATES = 4, FUNCTIONS = 3 };

/* Differences between the three operators. */
typedef struct cell {
    uint32_t gates, functions, states;
    const char *preset[FUNCTIONS];
    uint32_t order[GATES]; /* of the gates in the layer, as indices of ONNX's */
    bool resets;           /* linear_before_reset is an attribute */
} cell;

static const cell rnn = { 1, 1, 1, { "Tanh" }, { 0 }, false };
static const cell gru = {
    3, 2, 1, {"Sigmoid", "Tanh"},
       { 0,        1,      2 },
       true
};
static const cell lstm = {
    4, 3, 2, {"Sigmoid", "Tanh", "Tanh"},
       { 2,        0,      3,      1 },
       false
};

/* One node: its extents and attributes. */
typedef struct sequence {
    const cell *cell;
    qg_dtype type;
    int64_t time, batch, dirs, hidden;
    bool batch_first;
    bool reset; /* linear_before_reset: the bias has four parts */
    const char *data;
} sequence;

/* --- attributes --- */

/* "sigmoid,tanh": the layer has one list for all directions; ONNX repeats it. */
static qg_status functions(qg_ir *ir, const qg_node *n, const sequence *s,
                           const char **text)
{
    static const char *const known[][2] = {
        {"Sigmoid", "sigmoid"},
        { "Tanh",   "tanh"   },
        { "Relu",   "relu"   }
    };
    const char *const *given;
    size_t count, each = s->cell->functions;
    QG_TRY(qg_attr_strings(ir->ctx, n, "activations", &given, &count));
    *text = "";
    for (size_t i = 0; i < (count ? count : each); i++) {
        const char *f = count ? given[i] : s->cell->preset[i], *word = NULL;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(known[k][0], f) == 0)
                word = known[k][1];
        if (!word || (i >= each && strcmp(f, given[i - each]) != 0))
            return qg_ir_refuse(ir, n,
                                "activation %.40s, expected Sigmoid, Tanh or Relu, the "
                                "same in both directions",
                                f);
        if (i < each)
            *text = qg_ir_text(ir, "%s%s%s", *text, i ? "," : "", word);
    }
    return QG_OK;
}

static qg_status read_attributes(qg_ir *ir, const qg_node *n, sequence *s)
{
    const char *list, *direction;
    char clip[QG_NUM_TEXT];
    bool couple;
    float limit;
    QG_TRY(functions(ir, n, s, &list));
    QG_TRY(qg_attr_string(ir->ctx, n, "direction", "forward", &direction));
    QG_TRY(qg_attr_flag(ir->ctx, n, "layout", false, &s->batch_first));
    QG_TRY(qg_attr_flag(ir->ctx, n, "input_forget", false, &couple));
    QG_TRY(qg_attr_flag(ir->ctx, n, "linear_before_reset", false, &s->reset));
    QG_TRY(qg_attr_float(ir->ctx, n, "clip", 0, &limit));
    if (couple || (n->n_in > PEEPHOLES && n->in[PEEPHOLES]))
        return qg_ir_refuse(ir, n, "input_forget or peepholes, expected neither");
    qg_num_f32(clip, limit);
    s->data =
        qg_ir_text(ir,
                   "hidden_size=\"%" PRId64 "\" direction=\"%s\" activations=\"%s\" "
                   "activations_alpha=\"\" activations_beta=\"\" clip=\"%s\"%s",
                   s->hidden, direction, list, clip,
                   !s->cell->resets ? ""
                   : s->reset       ? " linear_before_reset=\"true\""
                                    : " linear_before_reset=\"false\"");
    return QG_OK;
}

static qg_status read_sequence(qg_ir *ir, const qg_node *n, sequence *s)
{
    const qg_tensor *x = &n->in[X]->type, *w = &n->in[W]->type;
    if (!qg_tensor_known(x) || !qg_tensor_known(w) || x->rank != 3 || w->rank != 3)
        return qg_ir_refuse(ir, n, "input or weight of unknown dims, expected known");
    s->type = x->dtype;
    s->dirs = w->dim[0];
    s->hidden = w->dim[1] / s->cell->gates;
    QG_TRY(read_attributes(ir, n, s));
    s->time = x->dim[s->batch_first ? 1 : 0];
    s->batch = x->dim[s->batch_first ? 0 : 1];
    return QG_OK;
}

/* --- parts of weights --- */

static qg_status inner(qg_ir *ir, const qg_node *n, const char *suffix, qg_ir_layer l,
                       const qg_tensor *t, qg_ir_source *out)
{
    l.out = t;
    l.n_out = 1;
    return qg_ir_inner(ir, n, suffix, l, out);
}

/* [dirs, rows] or [dirs, rows, columns], of which axis 1 is divided and joined. */
static qg_tensor rows_of(const qg_tensor *t, int64_t rows)
{
    qg_tensor part = *t;
    part.dim[1] = rows;
    qg_tensor_set_plain(&part);
    return part;
}

/* Parts of axis 1: their lengths, and where they come from. */
typedef struct parts {
    uint32_t n;
    int64_t length[GATES];
    qg_ir_source at[GATES];
} parts;

/* Fills p->at with the parts of s, of type t. */
static qg_status divide(qg_ir *ir, const qg_node *n, const char *suffix, qg_ir_source s,
                        const qg_tensor *t, parts *p)
{
    qg_ir_source in[3] = { s }, first;
    qg_tensor part[GATES];
    const char *axis = qg_ir_text(ir, "%s/axis", suffix);
    const char *lengths = qg_ir_text(ir, "%s/lengths", suffix);
    QG_TRY(qg_ir_vector(ir, n, axis, 0, &(int64_t){ 1 }, &in[1]));
    QG_TRY(qg_ir_vector(ir, n, lengths, p->n, p->length, &in[2]));
    for (uint32_t i = 0; i < p->n; i++)
        part[i] = rows_of(t, p->length[i]);
    qg_ir_layer l = { .type = "VariadicSplit",
                      .opset = "opset1",
                      .in = in,
                      .n_in = 3,
                      .out = part,
                      .n_out = p->n };
    QG_TRY(qg_ir_inner(ir, n, suffix, l, &first));
    for (uint32_t i = 0; i < p->n; i++)
        p->at[i] = (qg_ir_source){ first.layer, i };
    return QG_OK;
}

/* One behind the other, of type t. */
static qg_status join(qg_ir *ir, const qg_node *n, const char *suffix, const parts *p,
                      const qg_tensor *t, qg_ir_source *out)
{
    qg_ir_layer l = { .type = "Concat",
                      .opset = "opset1",
                      .data = "axis=\"1\"",
                      .in = p->at,
                      .n_in = p->n };
    return inner(ir, n, suffix, l, t, out);
}

/* Gates in the order of the layer; `*s` stays where both have the same. */
static qg_status ordered(qg_ir *ir, const qg_node *n, const sequence *q,
                         const char *suffix, const qg_tensor *t, qg_ir_source *s)
{
    parts gate = { .n = q->cell->gates }, in = gate;
    bool same = true;
    for (uint32_t i = 0; i < gate.n; i++) {
        same = same && q->cell->order[i] == i;
        gate.length[i] = q->hidden;
    }
    if (same)
        return QG_OK;
    const char *gates = qg_ir_text(ir, "%s/gates", suffix);
    QG_TRY(divide(ir, n, gates, *s, t, &gate));
    for (uint32_t i = 0; i < gate.n; i++)
        in.at[i] = gate.at[q->cell->order[i]];
    return join(ir, n, suffix, &in, t, s);
}

/* Zeros of [a, b, c]; c 0: of [a, b]. */
static qg_status zeros(qg_ir *ir, const qg_node *n, const char *suffix,
                       const sequence *q, const int64_t dim[3], qg_ir_source *out)
{
    qg_ir_source in[2];
    size_t rank = dim[2] ? 3 : 2;
    qg_tensor t;
    const char *zero = qg_ir_text(ir, "%s/zero", suffix);
    const char *dims = qg_ir_text(ir, "%s/dims", suffix);
    qg_tensor_init(&t, q->type, (int32_t)rank, dim);
    QG_TRY(qg_ir_number(ir, n, zero, 0, &in[0]));
    QG_TRY(qg_ir_vector(ir, n, dims, rank, dim, &in[1]));
    qg_ir_layer l = { .type = "Broadcast",
                      .opset = "opset3",
                      .data = "mode=\"numpy\"",
                      .in = in,
                      .n_in = 2 };
    return inner(ir, n, suffix, l, &t, out);
}

/* The sum of both halves; with linear_before_reset, of the gates z and r of each, and
 * the hidden gates behind them: [z + z, r + r, h, h]. */
static qg_status bias(qg_ir *ir, const qg_node *n, const sequence *q, qg_ir_source *out)
{
    const int64_t h = q->hidden, all = h * q->cell->gates,
                  gates = q->reset ? 2 * h : all;
    const int64_t width = q->reset ? all + h : all;
    parts half = {
        2, {all, all },
         { { 0 } }
    };
    parts gate = {
        4, {gates,  all - gates, gates, all - gates },
         { { 0 }}
    };
    parts *p = q->reset ? &gate : &half;
    qg_ir_source whole;
    if (n->n_in <= B || !n->in[B])
        return zeros(ir, n, "bias", q, (int64_t[]){ q->dirs, width, 0 }, out);
    const qg_tensor *t = &n->in[B]->type;
    qg_tensor sum = rows_of(t, gates), y = rows_of(t, width);
    QG_TRY(qg_ir_value(ir, n->in[B], &whole));
    QG_TRY(divide(ir, n, "bias_parts", whole, t, p));
    qg_ir_source pair[2] = { p->at[0], p->at[p->n / 2] };
    qg_ir_layer l = qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, pair, 2);
    QG_TRY(inner(ir, n, "bias_sum", l, &sum, out));
    if (!q->reset)
        return ordered(ir, n, q, "bias", &sum, out);
    parts in = {
        3, {0        },
         { *out, p->at[1], p->at[3] }
    };
    return join(ir, n, "bias", &in, &y, out);
}

/* --- data and states --- */

static qg_status exchanged(qg_ir *ir, const qg_node *n, const char *suffix,
                           const qg_tensor *t, qg_ir_source *s)
{
    static const int64_t perm[3] = { 1, 0, 2 };
    qg_ir_source in[2] = { *s };
    qg_tensor y;
    const char *order = qg_ir_text(ir, "%s/order", suffix);
    qg_tensor_init(&y, t->dtype, 3, (int64_t[]){ t->dim[1], t->dim[0], t->dim[2] });
    QG_TRY(qg_ir_vector(ir, n, order, 3, perm, &in[1]));
    qg_ir_layer l = { .type = "Transpose", .opset = "opset1", .in = in, .n_in = 2 };
    return inner(ir, n, suffix, l, &y, s);
}

/* An input of rank 3 with the batch first. */
static qg_status batch_first(qg_ir *ir, const qg_node *n, const sequence *q,
                             uint32_t slot, const char *suffix, qg_ir_source *out)
{
    if (slot != X && (slot >= n->n_in || !n->in[slot]))
        return zeros(ir, n, suffix, q, (int64_t[]){ q->batch, q->dirs, q->hidden },
                     out);
    QG_TRY(qg_ir_value(ir, n->in[slot], out));
    return q->batch_first ? QG_OK : exchanged(ir, n, suffix, &n->in[slot]->type, out);
}

static qg_status lengths(qg_ir *ir, const qg_node *n, const sequence *q,
                         qg_ir_source *out)
{
    if (n->n_in > LENGTHS && n->in[LENGTHS])
        return qg_ir_value(ir, n->in[LENGTHS], out);
    int64_t *length = QG_NEWN(ir->arena, (size_t)q->batch, int64_t);
    if (!length)
        return qg_nomem(ir->ctx);
    for (int64_t i = 0; i < q->batch; i++)
        length[i] = q->time;
    return qg_ir_vector(ir, n, "lengths", (size_t)q->batch, length, out);
}

/* Output k of the node, from the layer's. */
static qg_status give(qg_ir *ir, const qg_node *n, const sequence *q, uint32_t k,
                      qg_ir_source s)
{
    static const int64_t orders[3][4] = {
        {2,  1, 0, 3 },
        { 0, 2, 1, 3 },
        { 1, 0, 2}
    };
    static const int64_t same[4] = { 0, 1, 2 };
    static const char *const suffix[] = { "Y", "Y_h", "Y_c" };
    const int64_t *perm =
        k != Y ? q->batch_first ? same : orders[2] : orders[q->batch_first];
    qg_ir_source in[2] = { s }, y;
    const char *order = qg_ir_text(ir, "%s/order", suffix[k]);
    if (k >= n->n_out || !n->out[k])
        return QG_OK;
    QG_TRY(qg_ir_vector(ir, n, order, k == Y ? 4 : 3, perm, &in[1]));
    qg_ir_layer l = { .type = "Transpose",
                      .opset = "opset1",
                      .in = in,
                      .n_in = 2,
                      .out = &n->out[k]->type,
                      .n_out = 1,
                      .named = &n->out[k]->name };
    QG_TRY(qg_ir_inner(ir, n, suffix[k], l, &y));
    qg_ir_bind(ir, n->out[k], y);
    return QG_OK;
}

static qg_status recurrent(qg_ir *ir, const qg_node *n, const qg_ir_row *r,
                           const cell *c)
{
    sequence q = { .cell = c };
    qg_ir_source in[7], s, given[3];
    qg_tensor out[OUTPUTS];
    uint32_t count = 0;
    QG_TRY(qg_ir_inputs(ir, n, 3, given));
    QG_TRY(read_sequence(ir, n, &q));
    QG_TRY(batch_first(ir, n, &q, X, "X", &in[count++]));
    QG_TRY(batch_first(ir, n, &q, H0, "initial_h", &in[count++]));
    if (q.cell->states > 1)
        QG_TRY(batch_first(ir, n, &q, C0, "initial_c", &in[count++]));
    QG_TRY(lengths(ir, n, &q, &in[count++]));
    QG_TRY(ordered(ir, n, &q, "W", &n->in[W]->type, &given[W]));
    QG_TRY(ordered(ir, n, &q, "R", &n->in[R]->type, &given[R]));
    in[count++] = given[W];
    in[count++] = given[R];
    QG_TRY(bias(ir, n, &q, &in[count++]));
    qg_tensor_init(&out[Y], q.type, 4,
                   (int64_t[]){ q.batch, q.dirs, q.time, q.hidden });
    qg_tensor_init(&out[Y_H], q.type, 3, (int64_t[]){ q.batch, q.dirs, q.hidden });
    out[Y_C] = out[Y_H];
    qg_ir_layer l = qg_ir_layer_of(r, q.data, in, count);
    l.name = n->name;
    l.out = out;
    l.n_out = 1 + q.cell->states;
    QG_TRY(qg_ir_add(ir, &l, &s));
    for (uint32_t k = 0; k < l.n_out; k++)
        QG_TRY(give(ir, n, &q, k, (qg_ir_source){ s.layer, k }));
    return QG_OK;
}

qg_status qg_ir_rnn(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    return recurrent(ir, n, r, &rnn);
}

qg_status qg_ir_gru(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    return recurrent(ir, n, r, &gru);
}

qg_status qg_ir_lstm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    return recurrent(ir, n, r, &lstm);
}
