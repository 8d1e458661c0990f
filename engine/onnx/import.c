#include "engine/onnx/import.h"

#include <assert.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/ir/opaque.h"
#include "engine/onnx/function.h"
#include "engine/onnx/kind.h"
#include "engine/onnx/wire.h"
#include "onnx.pb-c.h"

typedef Onnx__AttributeProto attribute_proto;
typedef Onnx__FunctionProto function_proto;
typedef Onnx__GraphProto graph_proto;
typedef Onnx__ModelProto model_proto;
typedef Onnx__NodeProto node_proto;
typedef Onnx__TensorProto tensor_proto;
typedef Onnx__ValueInfoProto value_info;

/* One import: the state shared by all scopes, and the parsed message. */
struct importer {
    qg_onnx_build build;        /* first: a scope's build is its importer */
    const char *name;           /* of the file, for messages */
    const unsigned char *bytes; /* of the whole file */
    bool bytes_stay;            /* as long as the graph */
    bool out_of_memory;         /* an allocation of the parser failed */
    const model_proto *model;
    bool warned_overridable;
};

static struct importer *importer_of(const qg_onnx_build *b)
{
    return (struct importer *)(uintptr_t)b;
}

static const char *text_of(const char *s) { return s ? s : ""; }
static bool empty(const char *s) { return !s || !*s; }

/* ---- Parsing ---- */

static const void *child_message(const void *kind, unsigned field)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(kind, field);
    return f && f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
}

/* raw_data of a TensorProto, by its number in onnx.proto. */
static bool is_raw_data(const void *kind, unsigned field)
{
    return kind == &onnx__tensor_proto__descriptor && field == 9;
}

/* Descriptions are not read. */
static bool is_text(const void *kind, unsigned field)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(kind, field);
    return f && f->type == PROTOBUF_C_TYPE_STRING && strcmp(f->name, "doc_string") != 0;
}

static void *parser_get(void *data, size_t size)
{
    struct importer *im = data;
    void *p = qg_arena_raw(im->build.scratch, size, 1);
    if (!p)
        im->out_of_memory = true;
    return p;
}

static void parser_drop(void *data, void *p) { (void)data, (void)p; }

static qg_status parse(struct importer *im, const unsigned char *bytes, size_t size)
{
    qg_ctx *ctx = im->build.ctx;
    ProtobufCAllocator allocator = { parser_get, parser_drop, im };
    qg_wire wire = { .name = im->name,
                     .bytes = bytes,
                     .size = size,
                     .kind = &onnx__model_proto__descriptor,
                     .child = child_message,
                     .is_block = is_raw_data,
                     .is_text = is_text };
    if (size == 0)
        return qg_fail(ctx, QG_EPARSE,
                       "import: %s: the file is empty, expected a model", im->name);
    im->bytes = bytes;
    QG_TRY(qg_wire_strip(ctx, &wire, im->build.scratch, &bytes, &size));
    im->model = onnx__model_proto__unpack(&allocator, size, bytes);
    if (im->out_of_memory)
        return qg_nomem(ctx);
    if (!im->model)
        return qg_fail(ctx, QG_EPARSE,
                       "import: %s: its fields are not those of an ONNX model",
                       im->name);
    return QG_OK;
}

/* ---- Versions ---- */

static qg_status check_versions(struct importer *im)
{
    const model_proto *m = im->model;
    QG_TRY(qg_onnx_ir_version(&im->build, im->name, m->ir_version));
    for (size_t i = 0; i < m->n_opset_import; i++)
        QG_TRY(qg_onnx_import_opset(&im->build, im->name, m->opset_import[i]->domain,
                                    m->opset_import[i]->version));
    if (m->graph && m->n_opset_import)
        return QG_OK;
    return qg_fail(im->build.ctx, QG_EMODEL, "import: %s: the model %s", im->name,
                   m->graph ? "names no operator set, expected opset_import"
                            : "contains no graph");
}

/* ---- Tensors and types ---- */

/* Raw data lies in the file unless it was too short to be left out of the message. */
static void find_raw(const struct importer *im, const tensor_proto *t,
                     qg_onnx_tensor *out)
{
    qg_wire_block block;
    out->has_raw = t->has_raw_data;
    out->raw = t->raw_data.data;
    out->n_raw = t->raw_data.len;
    if (!out->has_raw || out->n_raw != sizeof block)
        return;
    memcpy(&block, out->raw, sizeof block);
    out->raw = im->bytes + block.at;
    out->n_raw = block.size;
    out->raw_stays = im->bytes_stay;
}

static qg_status read_tensor(qg_onnx_build *b, const char *what, const tensor_proto *t,
                             const qg_tensor **out)
{
    /* clang-format off */
    qg_onnx_tensor source = {
        .what = what, .data_type = t->data_type, .dim = t->dims, .n_dim = t->n_dims,
        .f32 = t->float_data, .n_f32 = t->n_float_data,
        .f64 = t->double_data, .n_f64 = t->n_double_data,
        .i32 = t->int32_data, .n_i32 = t->n_int32_data,
        .i64 = t->int64_data, .n_i64 = t->n_int64_data,
        .u64 = t->uint64_data, .n_u64 = t->n_uint64_data,
        .n_string = t->n_string_data,
        .external = t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL,
    };
    /* clang-format on */
    find_raw(importer_of(b), t, &source);
    if (t->segment)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: %s: tensors in segments are not supported", what);
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = text_of(t->external_data[i]->key);
        const char *value = text_of(t->external_data[i]->value);
        if (strcmp(key, "location") == 0)
            source.location = value;
        else if (strcmp(key, "offset") == 0)
            source.offset = value;
        else if (strcmp(key, "length") == 0)
            source.length = value;
    }
    return qg_onnx_tensor_read(&b->files, &source, out);
}

static qg_status read_dims(qg_onnx_build *b, const char *what,
                           const Onnx__TensorShapeProto *shape, qg_tensor *type,
                           const char **dim_name)
{
    int64_t dim[QG_MAX_RANK];
    if (shape->n_dim > QG_MAX_RANK)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: %s: rank %zu, supported up to %d", what, shape->n_dim,
                       QG_MAX_RANK);
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        dim[i] = -1; /* also for the -1 and the "?" that some writers put for "any" */
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            dim[i] = d->dim_value < 0 ? -1 : d->dim_value;
        else if (d->value_case ==
                     ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 !empty(d->dim_param) && strcmp(d->dim_param, "?") != 0 &&
                 !(dim_name[i] = qg_intern(b->ctx, d->dim_param)))
            return qg_nomem(b->ctx);
    }
    qg_tensor_init(type, type->dtype, (int32_t)shape->n_dim, dim);
    return QG_OK;
}

/* Gives a value the type that the file declares. */
static qg_status read_type(qg_onnx_build *b, const char *kind, const value_info *info,
                           qg_value *v)
{
    const Onnx__TypeProto *t = info->type;
    if (!t || t->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET || v->constant)
        return QG_OK;
    const char *what = qg_arena_printf(b->scratch, "%s '%.1000s'", kind, v->name);
    if (!what)
        return qg_nomem(b->ctx);
    if (t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: %s: only tensors are supported, no sequences, maps, "
                       "optionals or sparse tensors",
                       what);
    int32_t code = t->tensor_type->elem_type;
    qg_dtype dtype = qg_dtype_of_onnx(code);
    if (dtype == QG_NODTYPE && code != 0)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: %s: element type %d (%s) is not supported", what, code,
                       qg_onnx_type_name(code));
    qg_tensor_unknown(&v->type, dtype);
    return t->tensor_type->shape
               ? read_dims(b, what, t->tensor_type->shape, &v->type, v->dim_name)
               : QG_OK;
}

/* ---- Attributes ---- */

static qg_status import_body(qg_onnx_scope *outer, const graph_proto *p,
                             qg_graph **out);

/* Bit AttributeType of every field that the attribute fills. */
static unsigned held_kinds(const attribute_proto *a)
{
    return (unsigned)(!!a->has_f << 1 | !!a->has_i << 2 | !!a->has_s << 3 |
                      !!a->t << 4 | !!a->g << 5 | !!a->n_floats << 6 |
                      !!a->n_ints << 7 | !!a->n_strings << 8 | !!a->n_tensors << 9 |
                      !!a->n_graphs << 10 | !!a->sparse_tensor << 11 |
                      !!a->n_sparse_tensors << 12 | !!a->tp << 13 |
                      !!a->n_type_protos << 14);
}

static const char *attribute_type_name(int type)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(
        &onnx__attribute_proto__attribute_type__descriptor, type);
    return v ? v->name : "unknown";
}

/* Our type of an attribute, after checking that the field of that type is set. */
static qg_status attribute_type(const qg_onnx_draft *d, const attribute_proto *a,
                                qg_attr_type *out)
{
    static const int onnx_code[QG_NATTR] = {
#define X(id, text, onnx) [QG_ATTR_##id] = onnx,
        QG_ATTR_MAP(X)
#undef X
    };
    unsigned held = held_kinds(a);
    for (int type = 0; type < QG_NATTR; type++) {
        if (onnx_code[type] != (int)a->type)
            continue;
        if (held && !(held & 1u << a->type))
            return qg_onnx_draft_fail(d, QG_EMODEL,
                                      "attribute %.100s is declared %s but contains %s",
                                      a->name, qg_attr_type_name((qg_attr_type)type),
                                      attribute_type_name(__builtin_ctz(held)));
        *out = (qg_attr_type)type;
        return QG_OK;
    }
    return qg_onnx_draft_fail(d, a->type == 0 ? QG_EMODEL : QG_EUNSUPPORTED,
                              "attribute %.100s has type %s, which is not supported",
                              a->name, attribute_type_name((int)a->type));
}

static qg_status copy_numbers(const qg_onnx_draft *d, const void *from, size_t count,
                              size_t size, const void **out)
{
    void *copy = qg_arena_raw(d->scope->g->arena, count, size);
    if (!copy)
        return qg_nomem(d->scope->build->ctx);
    if (count)
        memcpy(copy, from, count * size);
    *out = copy;
    return QG_OK;
}

static qg_status read_strings(const qg_onnx_draft *d, const ProtobufCBinaryData *from,
                              qg_attr *out)
{
    qg_arena *a = d->scope->g->arena;
    const char **copy = QG_NEWN(a, out->count, const char *);
    for (size_t i = 0; copy && i < out->count; i++) {
        if (from[i].len && memchr(from[i].data, 0, from[i].len))
            return qg_onnx_draft_fail(
                d, QG_EUNSUPPORTED, "attribute %.100s contains a zero byte", out->name);
        copy[i] = qg_arena_strndup(a, from[i].len ? (const char *)from[i].data : "",
                                   from[i].len);
        if (!copy[i])
            return qg_nomem(d->scope->build->ctx);
    }
    out->strings = copy;
    return copy ? QG_OK : qg_nomem(d->scope->build->ctx);
}

static qg_status read_graphs(const qg_onnx_draft *d, graph_proto *const *from,
                             qg_attr *out)
{
    qg_graph **bodies = QG_NEWN(d->scope->g->arena, out->count, qg_graph *);
    if (!bodies)
        return qg_nomem(d->scope->build->ctx);
    for (size_t i = 0; i < out->count; i++) {
        if (!from[i])
            return qg_onnx_draft_fail(d, QG_EMODEL,
                                      "attribute %.100s contains no graph", out->name);
        QG_TRY(import_body(d->scope, from[i], &bodies[i]));
    }
    out->graphs = bodies;
    return QG_OK;
}

static qg_status read_tensor_attribute(const qg_onnx_draft *d, const tensor_proto *t,
                                       qg_attr *out)
{
    const char *what = qg_arena_printf(d->scope->build->scratch,
                                       "node '%.1000s' (%.40s): attribute %.100s",
                                       d->name, d->op, out->name);
    if (!what)
        return qg_nomem(d->scope->build->ctx);
    if (!t)
        return qg_onnx_draft_fail(d, QG_EMODEL, "attribute %.100s contains no tensor",
                                  out->name);
    return read_tensor(d->scope->build, what, t, &out->tensor);
}

static qg_status read_attribute(const qg_onnx_draft *d, const attribute_proto *a,
                                qg_attr *out)
{
    const void **numbers = (const void **)&out->ints;
    out->count = 1;
    switch (out->type) {
    case QG_ATTR_FLOAT:
        return copy_numbers(d, &a->f, 1, sizeof a->f, numbers);
    case QG_ATTR_INT:
        return copy_numbers(d, &a->i, 1, sizeof a->i, numbers);
    case QG_ATTR_STRING:
        return read_strings(d, &a->s, out);
    case QG_ATTR_TENSOR:
        return read_tensor_attribute(d, a->t, out);
    case QG_ATTR_GRAPH:
        return read_graphs(d, &a->g, out);
    case QG_ATTR_FLOATS:
        out->count = a->n_floats;
        return copy_numbers(d, a->floats, out->count, sizeof *a->floats, numbers);
    case QG_ATTR_INTS:
        out->count = a->n_ints;
        return copy_numbers(d, a->ints, out->count, sizeof *a->ints, numbers);
    case QG_ATTR_STRINGS:
        out->count = a->n_strings;
        return read_strings(d, a->strings, out);
    case QG_ATTR_GRAPHS:
        out->count = a->n_graphs;
        return read_graphs(d, a->graphs, out);
    case QG_NATTR:
        break;
    }
    assert(!"an attribute type without a reader");
    return QG_EMODEL;
}

enum { MAX_ATTRIBUTES = 256 }; /* of one node; ONNX operators have at most 20 */

/* The attributes of a node, or the defaults of a function's. */
static qg_status read_attributes(qg_onnx_draft *d, attribute_proto *const *from,
                                 size_t n)
{
    qg_ctx *ctx = d->scope->build->ctx;
    if (n > MAX_ATTRIBUTES)
        return qg_onnx_draft_fail(d, QG_EMODEL, "%zu attributes, expected at most %d",
                                  n, MAX_ATTRIBUTES);
    qg_attr *list = QG_NEWN(d->scope->g->arena, n, qg_attr);
    if (!list)
        return qg_nomem(ctx);
    d->attr = list;
    for (size_t i = 0; i < n; i++) {
        const attribute_proto *a = from[i];
        qg_attr *made = &list[d->n_attr];
        bool present = true;
        if (empty(a->name))
            return qg_onnx_draft_fail(d, QG_EMODEL, "an attribute without a name");
        made->name = qg_intern(ctx, a->name);
        if (!made->name)
            return qg_nomem(ctx);
        for (size_t k = 0; k < d->n_attr; k++)
            if (list[k].name == made->name)
                return qg_onnx_draft_fail(d, QG_EMODEL,
                                          "attribute %.100s is given twice", a->name);
        QG_TRY(attribute_type(d, a, &made->type));
        QG_TRY(empty(a->ref_attr_name)
                   ? read_attribute(d, a, made)
                   : qg_onnx_refer(d, a->ref_attr_name, made, &present));
        d->n_attr += present;
    }
    return QG_OK;
}

/* ---- Functions ---- */

/* Attributes with a default came with IR 9: an older onnx.proto has no member for
 * them. */
static qg_status read_presets(qg_onnx_draft *d, const function_proto *p)
{
#ifdef QG_ONNX_FUNCTION_PRESETS
    return read_attributes(d, p->attribute_proto, p->n_attribute_proto);
#else
    for (size_t i = 0; i < p->base.n_unknown_fields; i++)
        if (p->base.unknown_fields[i].tag == 11) /* attribute_proto */
            return qg_onnx_draft_fail(d, QG_EUNSUPPORTED,
                                      "attributes with defaults, expected a build with "
                                      "the onnx.proto of IR 9 or newer");
    return QG_OK;
#endif
}

static qg_status add_function(qg_onnx_scope *s, const function_proto *p)
{
    qg_onnx_build *b = s->build;
    qg_onnx_draft d = { .scope = s, .op = text_of(p->name), .name = "function" };
    qg_opset_import *opset = QG_NEWN(b->scratch, p->n_opset_import, qg_opset_import);
    const char *what = qg_arena_printf(b->scratch, "function '%.1000s'", d.op);
    if (!opset || !what)
        return qg_nomem(b->ctx);
    for (size_t i = 0; i < p->n_opset_import; i++)
        QG_TRY(qg_onnx_opset(b, what, p->opset_import[i]->domain,
                             p->opset_import[i]->version, &opset[i]));
    QG_TRY(read_presets(&d, p));
    /* clang-format off */
    qg_onnx_function f = {
        .domain = qg_onnx_domain(p->domain), .name = d.op,
        .overload = text_of(QG_ONNX_OVERLOAD_OF(p)),
        .in = p->input, .n_in = p->n_input, .out = p->output, .n_out = p->n_output,
        .preset = d.attr, .n_preset = d.n_attr,
        .opset = opset, .n_opset = p->n_opset_import, .n_node = p->n_node, .proto = p,
    };
    /* clang-format on */
    return qg_onnx_function_add(b, &f);
}

static qg_status note(qg_onnx_build *b, char *const *name, size_t n)
{
    uint32_t id;
    for (size_t i = 0; i < n; i++)
        if (qg_names_add(b->taken, name[i], strlen(name[i]), &id) != QG_OK)
            return qg_nomem(b->ctx);
    return QG_OK;
}

/* The names of values in these nodes and the bodies below them. */
static qg_status note_names(qg_onnx_build *b, node_proto *const *node, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        QG_TRY(note(b, node[i]->input, node[i]->n_input));
        QG_TRY(note(b, node[i]->output, node[i]->n_output));
        for (size_t k = 0; k < node[i]->n_attribute; k++) {
            const attribute_proto *a = node[i]->attribute[k];
            if (a->g)
                QG_TRY(note_names(b, a->g->node, a->g->n_node));
            for (size_t j = 0; j < a->n_graphs; j++)
                QG_TRY(note_names(b, a->graphs[j]->node, a->graphs[j]->n_node));
        }
    }
    return QG_OK;
}

/* Adds what these nodes expand to, with the bodies in them; *whole becomes false when a
 * function among them is not counted yet. */
static qg_status count_nodes(qg_onnx_build *b, node_proto *const *node, size_t n,
                             size_t *sum, bool *whole)
{
    for (size_t i = 0; i < n && *whole; i++) {
        const node_proto *p = node[i];
        const qg_onnx_function *f;
        QG_TRY(qg_onnx_function_find(b, qg_onnx_domain(p->domain), text_of(p->op_type),
                                     text_of(QG_ONNX_OVERLOAD_OF(p)), &f));
        size_t more = 1 + (f ? f->total : 0);
        *whole = !f || f->total;
        *sum = *sum < SIZE_MAX / 2 && more < SIZE_MAX / 2 ? *sum + more : SIZE_MAX / 2;
        for (size_t k = 0; k < p->n_attribute; k++) {
            const attribute_proto *a = p->attribute[k];
            if (a->g)
                QG_TRY(count_nodes(b, a->g->node, a->g->n_node, sum, whole));
            for (size_t j = 0; j < a->n_graphs; j++)
                QG_TRY(count_nodes(b, a->graphs[j]->node, a->graphs[j]->n_node, sum,
                                   whole));
        }
    }
    return QG_OK;
}

/* Round k counts the functions whose calls nest k levels deep. */
static qg_status count_functions(qg_onnx_build *b)
{
    bool found = true;
    for (unsigned k = 0; k <= QG_ONNX_MAX_CALLS && found; k++) {
        found = false;
        for (size_t i = 0; i < b->function.n; i++) {
            qg_onnx_function *f = &b->function.at[i];
            const function_proto *p = f->proto;
            size_t sum = 0;
            bool whole = f->total == 0;
            if (whole)
                QG_TRY(count_nodes(b, p->node, p->n_node, &sum, &whole));
            if (whole && sum) {
                f->total = sum;
                found = true;
            }
        }
    }
    return QG_OK;
}

static qg_status add_functions(qg_onnx_scope *s, const model_proto *m)
{
    if (m->n_functions == 0)
        return QG_OK;
    QG_TRY(note_names(s->build, m->graph->node, m->graph->n_node));
    for (size_t i = 0; i < m->n_functions; i++)
        QG_TRY(note_names(s->build, m->functions[i]->node, m->functions[i]->n_node));
    for (size_t i = 0; i < m->n_functions; i++)
        QG_TRY(add_function(s, m->functions[i]));
    return count_functions(s->build);
}

/* ---- Graphs ---- */

static qg_status import_nodes(qg_onnx_scope *s, node_proto *const *node, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const node_proto *p = node[i];
        const qg_onnx_function *f;
        /* clang-format off */
        qg_onnx_draft d = {
            .scope = s, .op = text_of(p->op_type), .domain = qg_onnx_domain(p->domain),
            .in = p->input, .n_in = p->n_input, .out = p->output, .n_out = p->n_output,
        };
        /* clang-format on */
        QG_TRY(qg_onnx_name_node(&d, p->name));
        QG_TRY(read_attributes(&d, p->attribute, p->n_attribute));
        QG_TRY(qg_onnx_function_find(s->build, d.domain, d.op,
                                     text_of(QG_ONNX_OVERLOAD_OF(p)), &f));
        QG_TRY(f ? qg_onnx_inline(&d, f) : qg_onnx_add(&d));
    }
    return QG_OK;
}

static qg_status import_function_nodes(qg_onnx_scope *s, const void *function)
{
    const function_proto *p = function;
    return import_nodes(s, p->node, p->n_node);
}

static qg_status import_initializers(qg_onnx_scope *s, const graph_proto *p)
{
    qg_onnx_build *b = s->build;
    if (p->n_sparse_initializer)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: graph '%.1000s': sparse initializers are not supported",
                       text_of(p->name));
    for (size_t i = 0; i < p->n_initializer; i++) {
        const tensor_proto *t = p->initializer[i];
        const char *what =
            qg_arena_printf(b->scratch, "initializer '%.1000s'", text_of(t->name));
        const qg_tensor *tensor;
        qg_value *v;
        if (!what)
            return qg_nomem(b->ctx);
        if (empty(t->name))
            return qg_fail(b->ctx, QG_EMODEL, "import: an initializer without a name");
        QG_TRY(read_tensor(b, what, t, &tensor));
        QG_TRY(qg_onnx_value(s, t->name, &v));
        QG_TRY(qg_onnx_constant(b, what, v, tensor));
    }
    return QG_OK;
}

static qg_status import_input(qg_onnx_scope *s, const value_info *info)
{
    struct importer *im = importer_of(s->build);
    qg_value *v;
    if (empty(info->name))
        return qg_fail(s->build->ctx, QG_EMODEL,
                       "import: a graph input without a name");
    QG_TRY(qg_onnx_value(s, info->name, &v));
    if (v->constant) {
        if (s->build->root->ir_version >= 4 && !im->warned_overridable)
            qg_warn(
                s->build->ctx,
                "import: input '%s' has an initializer: it is treated as a constant",
                v->name);
        im->warned_overridable = true;
        return QG_OK;
    }
    QG_TRY(read_type(s->build, "graph input", info, v));
    if (!s->g->outer && v->type.dtype == QG_NODTYPE)
        return qg_fail(s->build->ctx, QG_EMODEL,
                       "import: graph input '%.1000s' has no element type", v->name);
    return qg_graph_mark_input(s->g, v);
}

/* What the file declares of an output of the network: inference replaces its type. */
static qg_status keep_declared(qg_onnx_scope *s, qg_value *v)
{
    if (s->g->outer || v->type.rank < 0)
        return QG_OK;
    qg_tensor *t = QG_NEW(s->g->arena, qg_tensor);
    if (!t)
        return qg_nomem(s->build->ctx);
    *t = v->type;
    v->declared = t;
    return QG_OK;
}

static qg_status import_output(qg_onnx_scope *s, const value_info *info)
{
    qg_value *v;
    if (empty(info->name))
        return qg_fail(s->build->ctx, QG_EMODEL,
                       "import: a graph output without a name");
    QG_TRY(qg_onnx_value(s, info->name, &v));
    if (!v->is_input)
        QG_TRY(read_type(s->build, "graph output", info, v));
    QG_TRY(keep_declared(s, v));
    return qg_graph_mark_output(s->g, v);
}

static qg_status import_graph(qg_onnx_scope *s, const graph_proto *p)
{
    QG_TRY(import_initializers(s, p));
    for (size_t i = 0; i < p->n_input; i++)
        QG_TRY(import_input(s, p->input[i]));
    QG_TRY(import_nodes(s, p->node, p->n_node));
    for (size_t i = 0; i < p->n_output; i++)
        QG_TRY(import_output(s, p->output[i]));
    for (size_t i = 0; i < p->n_value_info; i++) {
        qg_value *v = qg_graph_value(s->g, text_of(p->value_info[i]->name));
        if (v && !v->is_input && !v->is_output)
            QG_TRY(read_type(s->build, "value_info", p->value_info[i], v));
    }
    return qg_onnx_close(s);
}

static qg_status import_body(qg_onnx_scope *outer, const graph_proto *p, qg_graph **out)
{
    qg_onnx_scope s = { .build = outer->build,
                        .call = outer->call,
                        .function = outer->function,
                        .calls = outer->calls,
                        .prefix = "",
                        .opset = outer->opset,
                        .n_opset = outer->n_opset,
                        .bound = outer->bound,
                        .n_bound = outer->n_bound };
    QG_TRY(qg_graph_new_body(outer->g, p->name, &s.g));
    QG_TRY(import_graph(&s, p));
    *out = s.g;
    return QG_OK;
}

/* ---- The model ---- */

static qg_status import_model(struct importer *im, const unsigned char *bytes,
                              size_t size)
{
    qg_onnx_build *b = &im->build;
    qg_status parsed = parse(im, bytes, size);
    const char *other = parsed == QG_EPARSE ? qg_onnx_other_kind(bytes, size) : NULL;
    if (other)
        return qg_fail(b->ctx, QG_EPARSE,
                       "import: %s: is %s, expected an ONNX model or a snapshot of "
                       "qg quantize",
                       im->name, other);
    QG_TRY(parsed);
    const model_proto *m = im->model;
    QG_TRY(check_versions(im));
    b->root->name = qg_intern(b->ctx, text_of(m->graph->name));
    if (!b->root->name)
        return qg_nomem(b->ctx);
    qg_onnx_scope s = { .build = b,
                        .g = b->root,
                        .prefix = "",
                        .opset = b->root->opset.at,
                        .n_opset = b->root->opset.n };
    QG_TRY(add_functions(&s, m));
    return import_graph(&s, m->graph);
}

/* One line, whatever their number. */
static void warn_opaque(qg_ctx *ctx, const qg_graph *g)
{
    size_t n = 0;
    const qg_node *first = qg_opaque_first(g, &n);
    if (first)
        qg_warn(ctx,
                "import: %zu node%s of unknown operators, first node '%.1000s' "
                "(%.100s.%.100s), %s kept as in the file: what depends on one stays "
                "float and cannot be executed",
                n, n == 1 ? "" : "s", first->name, first->op->domain, first->op->name,
                n == 1 ? "is" : "are");
}

static qg_status import_named(struct importer *im, const unsigned char *bytes,
                              size_t size, qg_graph **out)
{
    im->build.import_nodes = import_function_nodes;
    qg_status s = qg_onnx_build_begin(&im->build);
    if (s == QG_OK)
        s = import_model(im, bytes, size);
    if (s == QG_OK)
        warn_opaque(im->build.ctx, im->build.root);
    return qg_onnx_build_end(&im->build, s, out);
}

qg_status qg_onnx_import_bytes(qg_ctx *ctx, const void *bytes, size_t size,
                               const qg_onnx_import_options *options, qg_graph **out)
{
    struct importer im = { .build.ctx = ctx, .name = "model" };
    im.build.files.folder = options ? options->folder : NULL;
    im.bytes_stay = options && options->borrow;
    if (size > INT32_MAX)
        return qg_fail(
            ctx, QG_EPARSE,
            "import: %s: %zu bytes, expected at most %d, the limit of protobuf",
            im.name, size, INT32_MAX);
    return import_named(&im, bytes, size, out);
}

qg_status qg_onnx_import(qg_ctx *ctx, const char *path,
                         const qg_onnx_import_options *options, qg_graph **out)
{
    struct importer im = { .build.ctx = ctx, .name = qg_path_base(path) };
    size_t limit = options && options->size_limit ? options->size_limit : INT32_MAX;
    size_t n = (size_t)(im.name - path);
    qg_file f;
    QG_TRY(qg_file_open(ctx, "import", path, limit, &f));
    char *folder = ctx->alloc.get(ctx->alloc.ud, n + 2);
    if (folder)
        (void)snprintf(folder, n + 2, "%.*s", n ? (int)n : 1, n ? path : ".");
    im.build.files.folder = folder;
    qg_status s = folder ? import_named(&im, f.bytes, f.size, out) : qg_nomem(ctx);
    if (folder)
        ctx->alloc.drop(ctx->alloc.ud, folder);
    qg_file_close(&f);
    return s;
}
