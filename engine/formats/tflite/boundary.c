/* boundary.c -- inputs and outputs of the network, and the records of its values. */
#include "engine/formats/tflite/builder.h"

#include "engine/ir/edit.h"

/* --- names --- */

/* The value that has the name of the tensor, or one that begins with it where another
 * tensor has it already. */
static qg_status name_tensor(qg_tflite_builder *b, uint32_t i)
{
    const char *name = b->file->tensor[i].name;
    qg_tflite_value *v = &b->value[i];
    if (v->named)
        return QG_OK;
    if (*name && !qg_graph_value(b->g, name))
        return qg_graph_add_value(b->g, name, &v->named);
    if (v->is_input || v->is_output)
        qg_warn(b->ctx,
                "import: tensor %u '%.1000s': another tensor has that name, it gets a "
                "number",
                i, name);
    return qg_graph_add_prefixed(b->g, *name ? name : "tensor", &v->named);
}

/* Those of the interface keep their names. */
static qg_status name_all(qg_tflite_builder *b)
{
    const qg_tflite_file *f = b->file;
    for (uint32_t i = 0; i < f->n_input; i++)
        QG_TRY(name_tensor(b, (uint32_t)f->input[i]));
    for (uint32_t i = 0; i < f->n_output; i++)
        QG_TRY(name_tensor(b, (uint32_t)f->output[i]));
    for (uint32_t i = 0; i < f->n_tensor; i++)
        if (!f->tensor[i].data)
            QG_TRY(name_tensor(b, i));
    return QG_OK;
}

static qg_status mark(qg_tflite_builder *b, const char *side, const int32_t *index,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool known = index[i] >= 0 && (uint32_t)index[i] < b->file->n_tensor;
        bool is_input = index == b->file->input;
        qg_tflite_value *v = known ? &b->value[index[i]] : NULL;
        if (!known || (is_input ? v->is_input : v->is_output))
            return qg_fail(b->ctx, QG_EMODEL,
                           "import: %s %u is tensor %d%s, expected one of %u", side, i,
                           index[i], known ? " again" : "", b->file->n_tensor);
        *(is_input ? &v->is_input : &v->is_output) = true;
    }
    return QG_OK;
}

/* --- codes --- */

static qg_status zero_point(qg_tflite_builder *b, const qg_tflite_value *v,
                            qg_value **out)
{
    qg_tensor *t = QG_NEW(b->g->arena, qg_tensor);
    int32_t zero = v->grid->param.offset[0];
    if (!t)
        return qg_nomem(b->ctx);
    qg_tensor_scalar(t, v->codes);
    QG_TRY(qg_tensor_alloc(b->ctx, b->g->arena, t));
    if (v->codes == QG_I16)
        t->i16[0] = (int16_t)zero;
    else
        t->u8[0] = (uint8_t)zero; /* int8 has the same bits */
    return qg_edit_add_constant(b->g, "zero_point", t, out);
}

/* y = QuantizeLinear or DequantizeLinear of x on the grid of v. */
static qg_status add_linear(qg_tflite_builder *b, const char *op,
                            const qg_tflite_value *v, qg_value *x, qg_value *y)
{
    qg_value *in[3] = { x };
    qg_tflite_node n = { .op = op, .in = in, .n_in = 3 };
    QG_TRY(qg_tflite_float_constant(b, "scale", v->grid->param.scale[0], &in[1]));
    QG_TRY(zero_point(b, v, &in[2]));
    return qg_tflite_add(b, &n, &y, 1);
}

static qg_status add_input(qg_tflite_builder *b, int32_t index)
{
    qg_tflite_value *v;
    qg_value *y;
    QG_TRY(qg_tflite_tensor_at(b, index, &v));
    qg_tensor_init(&v->named->type, v->codes, v->type.rank, v->type.dim);
    QG_TRY(qg_graph_mark_input(b->g, v->named));
    y = v->named;
    if (v->grid) {
        QG_TRY(qg_tflite_silent(b, v, "float", &y));
        QG_TRY(add_linear(b, "DequantizeLinear", v, v->named, y));
    }
    v->form[QG_TFLITE_PLAIN] = y;
    v->lead = y;
    return QG_OK;
}

static qg_status add_output(qg_tflite_builder *b, uint32_t k)
{
    qg_tflite_value *v;
    qg_value *x;
    QG_TRY(qg_tflite_tensor_at(b, b->file->output[k], &v));
    if (!v->lead)
        return qg_fail(b->ctx, QG_EMODEL,
                       "import: output %u, tensor %d '%.1000s', is computed by no "
                       "operator",
                       k, b->file->output[k], v->named->name);
    if (!v->is_input)
        QG_TRY(qg_tflite_form(b, v, QG_TFLITE_PLAIN, &x));
    if (!v->is_input && v->grid)
        QG_TRY(add_linear(b, "QuantizeLinear", v, x, v->named));
    return qg_graph_mark_output(b->g, v->named);
}

qg_status qg_tflite_begin(qg_tflite_builder *b)
{
    const qg_tflite_file *f = b->file;
    b->op_name = "inputs";
    QG_TRY(mark(b, "input", f->input, f->n_input));
    QG_TRY(mark(b, "output", f->output, f->n_output));
    QG_TRY(name_all(b));
    for (uint32_t i = 0; i < f->n_input; i++)
        QG_TRY(add_input(b, f->input[i]));
    return QG_OK;
}

qg_status qg_tflite_end(qg_tflite_builder *b)
{
    b->op = NULL;
    b->op_name = "outputs";
    for (uint32_t i = 0; i < b->file->n_output; i++)
        QG_TRY(add_output(b, i));
    return QG_OK;
}

/* --- records --- */

typedef struct recorder {
    qg_tflite_builder *b;
    qg_quant *quant;
    const qg_tflite_note **note; /* [values] NULL: on no grid */
} recorder;

/* Whose producer rounds: the lead of a tensor; every value that is moved out of a
 * constant, which has no lead. */
static const qg_value *leader(const recorder *r, const qg_tflite_note *note)
{
    const qg_value *lead = r->b->value[note->tensor].lead;
    return lead ? lead : note->value;
}

/* Constants and leads have a grid of their own; others wait for the lead's record. */
static qg_status add_record(recorder *r, qg_node *n, bool is_output, uint32_t slot)
{
    const qg_value *v = is_output ? n->out[slot] : n->in[slot];
    const qg_tflite_note *note = v ? r->note[v->id] : NULL;
    qg_tqc *t;
    if (!note)
        return QG_OK;
    n->platform = QG_PLATFORM_QUANTIZED;
    n->reason = "import: an endpoint has a grid";
    return v->constant || (is_output && leader(r, note) == v)
               ? qg_import_record(r->quant, n, is_output, slot, note->grid)
               : qg_quant_add(r->quant, n, is_output, slot, &note->grid->scheme, &t);
}

static qg_status join(recorder *r, qg_tqc *t)
{
    const qg_tflite_note *note = r->note[qg_tqc_value(t)->id];
    return t->state == QG_TQC_INITIAL
               ? qg_tqc_join(r->quant, t, qg_producer_tqc(leader(r, note)))
               : QG_OK;
}

qg_status qg_tflite_records(qg_tflite_builder *b, qg_quant **out)
{
    qg_graph *g = b->g;
    recorder r = { .b = b };
    r.note = QG_NEWN(g->arena, g->value.n, const qg_tflite_note *);
    if (!r.note)
        return qg_nomem(b->ctx);
    QG_TRY(qg_import_quant(g, "tflite", "tflite-reference", &r.quant));
    for (size_t i = 0; i < b->note.n; i++)
        if (qg_value_is_in(g, b->note.at[i].value))
            r.note[b->note.at[i].value->id] = &b->note.at[i];
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        n->platform = QG_PLATFORM_FP32;
        n->reason = "import: no endpoint has a grid";
        for (uint32_t k = 0; k < n->n_in; k++)
            QG_TRY(add_record(&r, n, false, k));
        for (uint32_t k = 0; k < n->n_out; k++)
            QG_TRY(add_record(&r, n, true, k));
    }
    for (size_t i = 0; i < r.quant->tqc.n; i++)
        QG_TRY(join(&r, r.quant->tqc.at[i]));
    *out = r.quant;
    return QG_OK;
}
