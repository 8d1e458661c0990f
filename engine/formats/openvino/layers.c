#include "engine/formats/openvino/layers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>

const char *qg_ir_text(qg_ir *ir, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    char *text = qg_arena_raw(ir->arena, (size_t)n + 1, 1);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    ir->no_memory = ir->no_memory || !text;
    return text ? text : "";
}

const char *qg_ir_inner_name(qg_ir *ir, const qg_node *n, const char *suffix)
{
    return qg_ir_text(ir, "%s/%s", n->name, suffix);
}

qg_status qg_ir_inner(qg_ir *ir, const qg_node *n, const char *suffix, qg_ir_layer l,
                      qg_ir_source *out)
{
    l.name = qg_ir_inner_name(ir, n, suffix);
    return qg_ir_add(ir, &l, out);
}

qg_ir_layer qg_ir_layer_of(const qg_ir_row *r, const char *data, const qg_ir_source *in,
                           uint32_t n_in)
{
    assert(r->type && r->opset);
    return (qg_ir_layer){
        .type = r->type, .opset = r->opset, .data = data, .in = in, .n_in = n_in
    };
}

const qg_ir_row qg_ir_add_row = { .type = "Add",
                                  .opset = "opset1",
                                  .data = QG_IR_NUMPY };

qg_status qg_ir_finish(qg_ir *ir, const qg_node *n, qg_ir_layer l)
{
    qg_ir_source s;
    assert(n->n_out > 0 && n->out[0] && l.n_in > 0);
    l.name = n->name;
    l.out = &n->out[0]->type;
    l.n_out = 1;
    l.named = &n->out[0]->name;
    QG_TRY(qg_ir_add(ir, &l, &s));
    qg_ir_bind(ir, n->out[0], s);
    return QG_OK;
}

qg_status qg_ir_inputs(qg_ir *ir, const qg_node *n, uint32_t count, qg_ir_source *in)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i >= n->n_in || !n->in[i])
            return qg_ir_refuse(ir, n, "input %u is absent, expected a value", i);
        QG_TRY(qg_ir_value(ir, n->in[i], &in[i]));
    }
    return QG_OK;
}

qg_status qg_ir_vector(qg_ir *ir, const qg_node *n, const char *suffix, size_t count,
                       const int64_t *x, qg_ir_source *out)
{
    return qg_ir_i64(ir, qg_ir_inner_name(ir, n, suffix), count, x, out);
}

qg_status qg_ir_number(qg_ir *ir, const qg_node *n, const char *suffix, float x,
                       qg_ir_source *out)
{
    return qg_ir_f32(ir, qg_ir_inner_name(ir, n, suffix), 0, &x, out);
}

qg_status qg_ir_reshaped(qg_ir *ir, const qg_node *n, const char *suffix,
                         qg_ir_source s, const qg_tensor *t, qg_ir_source *out)
{
    qg_ir_source in[2] = { s };
    QG_TRY(qg_ir_vector(ir, n, suffix, (size_t)t->rank, t->dim, &in[1]));
    qg_ir_layer l = { .type = "Reshape",
                      .opset = "opset1",
                      .data = "special_zero=\"false\"",
                      .in = in,
                      .n_in = 2,
                      .out = t,
                      .n_out = 1 };
    return qg_ir_inner(ir, n, qg_ir_text(ir, "%s/reshaped", suffix), l, out);
}

const char *qg_ir_list(qg_ir *ir, size_t n, const int64_t *x)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++)
        text = qg_ir_text(ir, "%s%s%" PRId64, text, i ? ", " : "", x[i]);
    return text;
}

qg_status qg_ir_ints(qg_ir *ir, const qg_node *n, const char *attr, uint32_t slot,
                     size_t *count, int64_t x[QG_MAX_RANK * 2])
{
    const qg_attr *a = attr ? qg_attr_find(n, attr) : NULL;
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    const qg_tensor *t = v ? qg_ir_known(ir, v) : NULL;
    assert(n->op);
    *count = 0;
    if (a && a->type == QG_ATTR_INTS)
        *count = a->count;
    else if (v && !t)
        return qg_ir_refuse(ir, n, "input %u is computed, expected a constant", slot);
    else if (t)
        *count = (size_t)qg_tensor_count(t);
    if (*count > QG_MAX_RANK * 2)
        return qg_ir_refuse(ir, n, "%zu values, expected at most %d", *count,
                            QG_MAX_RANK * 2);
    for (size_t i = 0; i < *count; i++)
        x[i] = t ? qg_tensor_i64(t, (int64_t)i) : a->ints[i];
    return QG_OK;
}
