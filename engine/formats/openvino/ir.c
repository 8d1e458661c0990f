#include "engine/formats/openvino/ir.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/formats/openvino/graph.h"
#include "engine/ir/infer.h"

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

/* --- layers --- */

/* Before anything refers to the layer: a document is complete or not made. */
static qg_status check_output(qg_ir *ir, const qg_ir_layer *l, const qg_tensor *t)
{
    char text[QG_SHAPE_TEXT];
    if (qg_tensor_known(t) && type_index(t->dtype) != QG_NONE)
        return QG_OK;
    return qg_fail(ir->ctx, QG_EUNSUPPORTED,
                   "export: layer '%.100s' (%s): its output is %s, expected known dims "
                   "and a type of OpenVINO IR",
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
    if (s->layer == QG_NONE && t)
        QG_TRY(qg_ir_constant(ir, v->name, t, s));
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

/* --- the whole graph --- */

/* "1,3,8,8" */
static const char *dims_text(qg_arena *a, const qg_tensor *t)
{
    const char *text = "";
    for (int32_t i = 0; text && i < t->rank; i++)
        text = qg_arena_printf(a, "%s%s%" PRId64, text, i ? "," : "", t->dim[i]);
    return text;
}

/* Inputs of the network; shapes are those that inference has fixed. */
static qg_status add_input(qg_ir *ir, const qg_value *v)
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

/* Outputs of the network are layers, too. */
static qg_status add_result(qg_ir *ir, const qg_value *v)
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

/* Inference can tell all that the node computes: then it is no layer.  Grids of
 * constants are: they are what the file is for. */
static bool is_known(const qg_ir *ir, const qg_node *n)
{
    if (qg_node_has(n, QG_OP_QUANTIZER))
        return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !qg_ir_known(ir, n->out[i]))
            return false;
    return true;
}

/* In order of execution, so that sources come before readers. */
static qg_status add_all(qg_ir *ir)
{
    const qg_graph *g = ir->g;
    assert(ir->layer.n == 0 && ir->of_value);
    for (size_t i = 0; i < g->input.n; i++)
        QG_TRY(add_input(ir, g->input.at[i]));
    for (size_t i = 0; i < g->node.n; i++)
        if (!is_known(ir, g->node.at[i]))
            QG_TRY(qg_ir_node(ir, g->node.at[i]));
    for (size_t i = 0; i < g->output.n; i++)
        QG_TRY(add_result(ir, g->output.at[i]));
    return QG_OK;
}

/* The graph with FakeQuantize, inferred, as layers; nothing is written yet. */
static qg_status build(qg_export *e)
{
    QG_TRY(qg_openvino_graph(e));
    QG_TRY(qg_infer(e->graph, NULL, 0));
    qg_ir *ir = QG_NEW(e->arena, qg_ir);
    if (!ir)
        return qg_nomem(e->ctx);
    *ir = (qg_ir){ .ctx = e->ctx, .arena = e->arena, .g = e->graph };
    QG_TRY(qg_infer_known(e->graph, &ir->known));
    ir->of_value = QG_NEWN(e->arena, e->graph->value.n, qg_ir_source);
    if (!ir->of_value)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->graph->value.n; i++)
        ir->of_value[i].layer = QG_NONE;
    e->built = ir;
    return add_all(ir);
}

/* --- the files --- */

/* Text of an attribute; a comma would end a tensor name. */
static void put_escaped(FILE *f, const char *text, bool is_tensor)
{
    static const char *const entity[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;"
    };
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == ',' && is_tensor)
            (void)fputs("\\,", f);
        else if (*p < 128 && entity[*p])
            (void)fputs(entity[*p], f);
        else
            (void)fputc(*p < ' ' ? '_' : *p, f); /* XML has no control characters */
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

static qg_status put_document(FILE *f, const qg_export *e, const qg_ir *ir)
{
    (void)fputs("<?xml version=\"1.0\"?>\n<net name=\"", f);
    put_escaped(f, *ir->g->name ? ir->g->name : "graph", false);
    (void)fputs("\" version=\"11\">\n\t<layers>\n", f);
    QG_TRY(put_layers(f, ir));
    (void)fputs("\t</layers>\n\t<edges>\n", f);
    put_edges(f, ir);
    (void)fputs("\t</edges>\n\t<rt_info>\n\t\t<quantgraph backend=\"", f);
    put_escaped(f, e->quant->backend ? e->quant->backend->name : "", false);
    (void)fputs("\"/>\n\t\t<runtime_options>\n\t\t\t"
                "<DYNAMIC_QUANTIZATION_GROUP_SIZE value=\"0\"/>\n"
                "\t\t</runtime_options>\n\t</rt_info>\n</net>\n",
                f);
    return QG_OK;
}

/* Each constant at its offset, zeros between. */
static qg_status put_binary(FILE *f, const qg_ir *ir)
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

/* The binary is put in place first: an XML that is there has its constants. */
static qg_status write_both(qg_export *e, qg_writer *xml, qg_writer *binary)
{
    QG_TRY(put_binary(binary->stream, e->built));
    QG_TRY(put_document(xml->stream, e, e->built));
    QG_TRY(qg_writer_commit(binary));
    return qg_writer_commit(xml);
}

static qg_status write(qg_export *e)
{
    const char *dot = strrchr(qg_path_base(e->path), '.');
    size_t stem = dot ? (size_t)(dot - e->path) : strlen(e->path);
    const char *beside = qg_arena_printf(e->arena, "%.*s.bin", (int)stem, e->path);
    qg_writer xml, binary = { 0 };
    if (!beside)
        return qg_nomem(e->ctx);
    if (strcmp(beside, e->path) == 0)
        return qg_fail(e->ctx, QG_ECONFIG,
                       "export: %s: the constants go there, expected a name for the "
                       "XML file",
                       e->path);
    QG_TRY(qg_writer_open(e->ctx, e->path, &xml));
    qg_status s = qg_writer_open(e->ctx, beside, &binary);
    if (s == QG_OK)
        s = write_both(e, &xml, &binary);
    qg_writer_abandon(&binary);
    qg_writer_abandon(&xml);
    if (s == QG_OK)
        s = qg_export_wrote(e, e->path);
    return s == QG_OK ? qg_export_wrote(e, beside) : s;
}

static const char *const weights[] = { "int", "float", NULL };

const qg_format qg_format_openvino_ir = {
    .name = "openvino-ir",
    .suffix = ".xml + .bin",
    .summary = "OpenVINO IR with FakeQuantize where activations round",
    .says = QG_OPENVINO_SAYS,
    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
    .choice = { [QG_FORMAT_WEIGHTS] = weights },
    .build = build,
    .write = write,
};
