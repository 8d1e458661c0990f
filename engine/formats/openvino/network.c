#include "engine/formats/openvino/network.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { ALIGN = 64 }; /* bytes: OpenVINO maps the binary */

/* Element types as attributes and as precisions of ports spell them. */
static const struct {
    qg_dtype type;
    const char *attribute, *precision;
} type_names[] = {
    {QG_F32,   "f32",     "FP32"},
    { QG_F16,  "f16",     "FP16"},
    { QG_F64,  "f64",     "FP64"},
    { QG_I64,  "i64",     "I64" },
    { QG_I32,  "i32",     "I32" },
    { QG_I8,   "i8",      "I8"  },
    { QG_U8,   "u8",      "U8"  },
    { QG_I16,  "i16",     "I16" },
    { QG_U16,  "u16",     "U16" },
    { QG_BOOL, "boolean", "BOOL"},
};

/* Index into type_names; QG_NONE when IR has no such type. */
static uint32_t type_index(qg_dtype d)
{
    for (uint32_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++)
        if (type_names[i].type == d)
            return i;
    return QG_NONE;
}

const char *qg_ir_type_name(qg_dtype d)
{
    uint32_t i = type_index(d);
    return i == QG_NONE ? NULL : type_names[i].attribute;
}

/* --- layers --- */

/* Before anything refers to the layer: a document is complete or not made.  Inputs have
 * known dims, so that the open ones of other layers depend on the data. */
static qg_status check_output(qg_ir *ir, const qg_ir_layer *l, const qg_tensor *t)
{
    char text[QG_SHAPE_TEXT];
    bool known = strcmp(l->type, "Parameter") == 0 ? qg_tensor_known(t) : t->rank >= 0;
    if (known && type_index(t->dtype) != QG_NONE)
        return QG_OK;
    return qg_fail(
        ir->ctx, QG_EUNSUPPORTED,
        "export: layer '%.1000s' (%s): its output is %s, expected known dims "
        "(--shape of qg quantize gives them) and a type of OpenVINO IR",
        l->name, l->type, qg_tensor_text(t, text));
}

/* n == 0 gives a pointer that nobody reads through. */
static void *copy_array(qg_ir *ir, const void *from, size_t n, size_t size)
{
    void *to = qg_arena_get(ir->arena, n, size);
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

qg_status qg_ir_add(qg_ir *ir, const qg_ir_layer *l, qg_ir_source *out)
{
    qg_ir_layer copy = *l;
    assert(l->name && l->type && l->opset);
    if (ir->no_memory)
        return qg_nomem(ir->ctx);
    for (uint32_t i = 0; i < l->n_out; i++)
        QG_TRY(check_output(ir, l, &l->out[i]));
    copy.in = copy_array(ir, l->in, l->n_in, sizeof *l->in);
    copy.out = copy_array(ir, l->out, l->n_out, sizeof *l->out);
    if (l->named)
        copy.named = copy_array(ir, l->named, l->n_out, sizeof *l->named);
    if (!copy.in || !copy.out || (l->named && !copy.named))
        return qg_nomem(ir->ctx);
    *out = (qg_ir_source){ (uint32_t)ir->layer.n, 0 };
    return qg_vec_push(ir->ctx, ir->arena, &ir->layer, copy);
}

/* A layer and its place in the binary; the data stay where they are until written. */
qg_status qg_ir_constant(qg_ir *ir, const char *name, const qg_tensor *t,
                         qg_ir_source *out)
{
    size_t bytes;
    qg_ir_layer l = { .name = name,
                      .type = "Const",
                      .opset = "opset1",
                      .constant = t,
                      .out = t,
                      .n_out = 1 };
    QG_TRY(qg_tensor_bytes(ir->ctx, name, t, &bytes));
    l.offset = (ir->bytes + ALIGN - 1) / ALIGN * ALIGN;
    ir->bytes = l.offset + bytes;
    return qg_ir_add(ir, &l, out);
}

const qg_tensor *qg_ir_known(const qg_ir *ir, const qg_value *v)
{
    return v->constant ? v->constant : ir->known[v->id];
}

qg_status qg_ir_value(qg_ir *ir, const qg_value *v, qg_ir_source *out)
{
    const qg_tensor *t = qg_ir_known(ir, v);
    qg_ir_source *s = &ir->of_value[v->id];
    if (s->layer == QG_NONE && t) {
        QG_TRY(qg_ir_constant(ir, v->name, t, s));
        if (v->is_output)
            ir->layer.at[s->layer].named = &v->name;
    }
    assert(s->layer != QG_NONE);
    *out = *s;
    return QG_OK;
}

void qg_ir_bind(qg_ir *ir, const qg_value *v, qg_ir_source s)
{
    assert(s.layer < ir->layer.n && s.port < ir->layer.at[s.layer].n_out);
    ir->of_value[v->id] = s;
}

/* A vector of n elements, or a scalar for n == 0, copied into the arena. */
static qg_status add_vector(qg_ir *ir, const char *name, qg_dtype d, size_t n,
                            const void *x, qg_ir_source *out)
{
    qg_tensor *t = QG_NEW(ir->arena, qg_tensor);
    size_t bytes;
    if (!t)
        return qg_nomem(ir->ctx);
    qg_tensor_init(t, d, n ? 1 : 0, &(int64_t){ (int64_t)n });
    QG_TRY(qg_tensor_alloc(ir->ctx, ir->arena, t));
    QG_TRY(qg_tensor_bytes(ir->ctx, name, t, &bytes));
    memcpy(t->data, x, bytes);
    return qg_ir_constant(ir, name, t, out);
}

qg_status qg_ir_i64(qg_ir *ir, const char *name, size_t n, const int64_t *x,
                    qg_ir_source *out)
{
    return add_vector(ir, name, QG_I64, n, x, out);
}

qg_status qg_ir_f32(qg_ir *ir, const char *name, size_t n, const float *x,
                    qg_ir_source *out)
{
    return add_vector(ir, name, QG_F32, n, x, out);
}

/* --- ends of the network --- */

/* "1,3,8,8" */
static const char *dims_text(qg_arena *a, const qg_tensor *t)
{
    const char *text = "";
    for (int32_t i = 0; text && i < t->rank; i++)
        text = qg_arena_printf(a, "%s%s%" PRId64, text, i ? "," : "", t->dim[i]);
    return text;
}

qg_status qg_ir_input(qg_ir *ir, const qg_value *v)
{
    uint32_t type = type_index(v->type.dtype);
    qg_ir_source s;
    qg_ir_layer l = { .name = v->name,
                      .type = "Parameter",
                      .opset = "opset1",
                      .out = &v->type,
                      .n_out = 1,
                      .named = &v->name };
    QG_TRY(check_output(ir, &l, &v->type));
    const char *dims = dims_text(ir->arena, &v->type);
    l.data = dims ? qg_arena_printf(ir->arena, "shape=\"%s\" element_type=\"%s\"", dims,
                                    type_names[type].attribute)
                  : NULL;
    if (!l.data)
        return qg_nomem(ir->ctx);
    QG_TRY(qg_ir_add(ir, &l, &s));
    qg_ir_bind(ir, v, s);
    return QG_OK;
}

qg_status qg_ir_result(qg_ir *ir, const qg_value *v)
{
    qg_ir_source in, s;
    QG_TRY(qg_ir_value(ir, v, &in));
    qg_ir_layer l = { .name = qg_arena_printf(ir->arena, "%s/result", v->name),
                      .type = "Result",
                      .opset = "opset1",
                      .in = &in,
                      .n_in = 1 };
    return l.name ? qg_ir_add(ir, &l, &s) : qg_nomem(ir->ctx);
}

/* --- the files --- */

/* Text of an attribute; a comma would end a tensor name.  Names of values and nodes
 * have no other control characters (ir.c). */
static void put_escaped(FILE *f, const char *text, bool is_tensor)
{
    static const char *const entity[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;",   ['>'] = "&gt;",   ['"'] = "&quot;",
        ['\t'] = "&#9;", ['\n'] = "&#10;", ['\r'] = "&#13;",
    };
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == ',' && is_tensor)
            (void)fputs("\\,", f);
        else if (*p < 128 && entity[*p])
            (void)fputs(entity[*p], f);
        else
            (void)fputc(*p < ' ' ? '_' : *p, f);
    }
}

/* One dim per line, as OpenVINO writes it; name NULL: an input. */
static void put_port(FILE *f, uint32_t id, const qg_tensor *t, const char *name)
{
    (void)fprintf(f, "\t\t\t\t<port id=\"%u\" precision=\"%s\"", id,
                  type_names[type_index(t->dtype)].precision);
    if (name) {
        (void)fputs(" names=\"", f);
        put_escaped(f, name, true);
        (void)fputs("\"", f);
    }
    (void)fputs(">\n", f);
    for (int32_t i = 0; i < t->rank; i++)
        (void)fprintf(f, "\t\t\t\t\t<dim>%" PRId64 "</dim>\n", t->dim[i]);
    (void)fputs("\t\t\t\t</port>\n", f);
}

static void put_ports(FILE *f, const qg_ir *ir, const qg_ir_layer *l)
{
    if (l->n_in)
        (void)fputs("\t\t\t<input>\n", f);
    for (uint32_t i = 0; i < l->n_in; i++)
        put_port(f, i, &ir->layer.at[l->in[i].layer].out[l->in[i].port], NULL);
    if (l->n_in)
        (void)fputs("\t\t\t</input>\n", f);
    if (l->n_out)
        (void)fputs("\t\t\t<output>\n", f);
    for (uint32_t i = 0; i < l->n_out; i++)
        put_port(f, l->n_in + i, &l->out[i], l->named ? l->named[i] : NULL);
    if (l->n_out)
        (void)fputs("\t\t\t</output>\n", f);
}

/* Where in the binary the bytes are. */
static qg_status put_constant(FILE *f, const qg_ir *ir, const qg_ir_layer *l)
{
    size_t bytes;
    const char *dims = dims_text(ir->arena, l->constant);
    QG_TRY(qg_tensor_bytes(ir->ctx, l->name, l->constant, &bytes));
    if (!dims)
        return qg_nomem(ir->ctx);
    (void)fprintf(f,
                  "\t\t\t<data element_type=\"%s\" shape=\"%s\" offset=\"%zu\" "
                  "size=\"%zu\"/>\n",
                  type_names[type_index(l->constant->dtype)].attribute, dims, l->offset,
                  bytes);
    return QG_OK;
}

static qg_status put_layers(FILE *f, const qg_ir *ir)
{
    for (size_t i = 0; i < ir->layer.n; i++) {
        const qg_ir_layer *l = &ir->layer.at[i];
        (void)fprintf(f, "\t\t<layer id=\"%zu\" name=\"", i);
        put_escaped(f, l->name, false);
        (void)fprintf(f, "\" type=\"%s\" version=\"%s\">\n", l->type, l->opset);
        if (l->constant)
            QG_TRY(put_constant(f, ir, l));
        if (l->data)
            (void)fprintf(f, "\t\t\t<data %s/>\n", l->data);
        put_ports(f, ir, l);
        (void)fputs("\t\t</layer>\n", f);
    }
    return QG_OK;
}

/* From the output port of one layer to an input port of another. */
static void put_edges(FILE *f, const qg_ir *ir)
{
    for (size_t i = 0; i < ir->layer.n; i++) {
        const qg_ir_layer *l = &ir->layer.at[i];
        for (uint32_t k = 0; k < l->n_in; k++)
            (void)fprintf(f,
                          "\t\t<edge from-layer=\"%u\" from-port=\"%u\" "
                          "to-layer=\"%zu\" to-port=\"%u\"/>\n",
                          l->in[k].layer,
                          ir->layer.at[l->in[k].layer].n_in + l->in[k].port, i, k);
    }
}

qg_status qg_ir_put_xml(FILE *f, const qg_ir *ir, const char *backend)
{
    (void)fputs("<?xml version=\"1.0\"?>\n<net name=\"", f);
    put_escaped(f, *ir->g->name ? ir->g->name : "graph", false);
    (void)fputs("\" version=\"11\">\n\t<layers>\n", f);
    QG_TRY(put_layers(f, ir));
    (void)fputs("\t</layers>\n\t<edges>\n", f);
    put_edges(f, ir);
    (void)fputs("\t</edges>\n\t<rt_info>\n\t\t<quantgraph backend=\"", f);
    put_escaped(f, backend, false);
    (void)fputs("\"/>\n\t\t<runtime_options>\n\t\t\t"
                "<DYNAMIC_QUANTIZATION_GROUP_SIZE value=\"0\"/>\n"
                "\t\t</runtime_options>\n\t</rt_info>\n</net>\n",
                f);
    return QG_OK;
}

/* Each constant at its offset, zeros between. */
qg_status qg_ir_put_binary(FILE *f, const qg_ir *ir)
{
    static const char zeros[ALIGN];
    size_t at = 0, bytes;
    for (size_t i = 0; i < ir->layer.n; i++) {
        const qg_ir_layer *l = &ir->layer.at[i];
        if (!l->constant)
            continue;
        QG_TRY(qg_tensor_bytes(ir->ctx, l->name, l->constant, &bytes));
        assert(l->offset >= at && l->offset - at < ALIGN);
        (void)fwrite(zeros, 1, l->offset - at, f);
        (void)fwrite(l->constant->data, 1, bytes, f);
        at = l->offset + bytes;
    }
    return QG_OK;
}
