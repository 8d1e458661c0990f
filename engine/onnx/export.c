#include "engine/onnx/export.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/ir/infer.h"
#include "onnx.pb-c.h"

#define PRODUCER "quantgraph"

typedef Onnx__AttributeProto attribute_proto;
typedef Onnx__GraphProto graph_proto;
typedef Onnx__ModelProto model_proto;
typedef Onnx__NodeProto node_proto;
typedef Onnx__StringStringEntryProto entry_proto;
typedef Onnx__TensorProto tensor_proto;
typedef Onnx__ValueInfoProto value_info;

enum {
    MAX_NESTING = 32,      /* bodies in bodies: the importer reads about 20 */
    EXTERNAL_LEAST = 1024, /* bytes: smaller constants stay in the model */
    EXTERNAL_ALIGN = 64,   /* so that a mapped file can be used in place */
};

static const size_t external_default = (size_t)3 << 29; /* 1.5 GiB */

struct exporter {
    qg_ctx *ctx;
    qg_arena *arena; /* the message; dies with the export */
    const qg_graph *root;
    FILE *data;           /* of external constants; NULL: none */
    const char *location; /* its name, relative to the model */
    size_t offset;        /* bytes written to it */
    unsigned nesting;
    bool list_unread;      /* of the options */
    bool learned_alone;    /* of the options */
    const char **name;     /* names of the values of the current graph, by id */
    const qg_tensor *open; /* [values of the root] types without assumed extents; NULL:
                              there are none */
};

/* A message with every field at its default. */
static void *message(struct exporter *e, const ProtobufCMessageDescriptor *kind)
{
    void *m = qg_arena_get(e->arena, 1, kind->sizeof_message);
    if (m)
        protobuf_c_message_init(kind, m);
    return m;
}

#define NEW(e, type)               ((type *)message((e), &type##_descriptor))
#define attribute_proto_descriptor onnx__attribute_proto__descriptor
#define graph_proto_descriptor     onnx__graph_proto__descriptor
#define node_proto_descriptor      onnx__node_proto__descriptor
#define tensor_proto_descriptor    onnx__tensor_proto__descriptor
#define entry_proto_descriptor     onnx__string_string_entry_proto__descriptor
#define value_info_descriptor      onnx__value_info_proto__descriptor

/* protobuf-c's messages are not const; the data they point to are never written. */
static char *unconst(const char *s) { return (char *)(uintptr_t)s; }

static qg_status add_entry(struct exporter *e, entry_proto ***list, size_t *n,
                           const qg_onnx_property *p)
{
    entry_proto *m = NEW(e, entry_proto);
    if (!m)
        return qg_nomem(e->ctx);
    m->key = unconst(p->key);
    m->value = unconst(p->value);
    (*list)[(*n)++] = m;
    return QG_OK;
}

/* ---- Tensors ---- */

/* Appends the bytes to the data file and records their position. */
static qg_status put_outside(struct exporter *e, const qg_tensor *t, size_t bytes,
                             tensor_proto *m)
{
    static const char zeros[EXTERNAL_ALIGN];
    size_t gap = (EXTERNAL_ALIGN - e->offset % EXTERNAL_ALIGN) % EXTERNAL_ALIGN;
    (void)fwrite(zeros, 1, gap, e->data);
    e->offset += gap;
    qg_onnx_property where[] = {
        {"location", e->location},
        {  "offset", qg_arena_printf(e->arena,      "%zu", e->offset) },
        { "length", qg_arena_printf(e->arena,          "%zu", bytes) },
    };
    m->external_data = QG_NEWN(e->arena, 3, entry_proto *);
    if (!m->external_data || !where[1].value || !where[2].value)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < 3; i++)
        QG_TRY(add_entry(e, &m->external_data, &m->n_external_data, &where[i]));
    m->has_data_location = true;
    m->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    (void)fwrite(t->data, 1, bytes, e->data);
    e->offset += bytes;
    qg_graph_release(e->root, t);
    return QG_OK;
}

/* A TensorProto; name NULL for the value of an attribute.  The data is borrowed. */
static qg_status make_tensor(struct exporter *e, const char *name, const qg_tensor *t,
                             tensor_proto **out)
{
    tensor_proto *m = NEW(e, tensor_proto);
    size_t bytes;
    if (!m)
        return qg_nomem(e->ctx);
    assert(qg_tensor_is_plain(t) && t->data);
    QG_TRY(qg_tensor_bytes(e->ctx, name, t, &bytes));
    m->name = unconst(name);
    m->has_data_type = true;
    m->data_type = qg_dtype_onnx(t->dtype);
    m->n_dims = (size_t)t->rank;
    m->dims = (int64_t *)(uintptr_t)t->dim;
    *out = m;
    if (e->data && bytes >= EXTERNAL_LEAST)
        return put_outside(e, t, bytes, m);
    m->has_raw_data = true;
    m->raw_data = (ProtobufCBinaryData){ bytes, t->data };
    return QG_OK;
}

/* ---- Types ---- */

/* Extent k as the file of the model has it, where inference leaves it open whatever is
 * assumed of the inputs (infer.h); -1: it is open there, too. */
static int64_t declared_extent(const qg_value *v, size_t k)
{
    const qg_tensor *d = v->declared;
    bool fits = d && (v->type.rank < 0 || v->type.rank == d->rank);
    return fits && (v->type.rank < 0 || v->type.dim[k] < 0) ? d->dim[k] : -1;
}

/* Extents by number where known, by name where the model had one, else by nothing. */
static qg_status make_shape(struct exporter *e, const qg_value *v, const qg_tensor *t,
                            Onnx__TensorShapeProto **out)
{
    Onnx__TensorShapeProto *shape = message(e, &onnx__tensor_shape_proto__descriptor);
    size_t rank = (size_t)t->rank;
    Onnx__TensorShapeProto__Dimension **dim =
        QG_NEWN(e->arena, rank, Onnx__TensorShapeProto__Dimension *);
    if (!shape || !dim)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < rank; i++) {
        dim[i] = message(e, &onnx__tensor_shape_proto__dimension__descriptor);
        if (!dim[i])
            return qg_nomem(e->ctx);
        int64_t extent = t->dim[i] >= 0 ? t->dim[i] : declared_extent(v, i);
        if (extent >= 0) {
            dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim[i]->dim_value = extent;
        } else if (v->dim_name[i]) {
            dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim[i]->dim_param = unconst(v->dim_name[i]);
        }
    }
    shape->n_dim = rank;
    shape->dim = dim;
    *out = shape;
    return QG_OK;
}

/* Name and type; a value of unknown type has only a name. */
static qg_status make_info(struct exporter *e, const qg_value *v, value_info **out)
{
    value_info *m = NEW(e, value_info);
    if (!m)
        return qg_nomem(e->ctx);
    m->name = unconst(e->name[v->id]);
    *out = m;
    if (v->type.dtype == QG_NODTYPE)
        return QG_OK;
    Onnx__TypeProto *type = message(e, &onnx__type_proto__descriptor);
    Onnx__TypeProto__Tensor *tensor = message(e, &onnx__type_proto__tensor__descriptor);
    if (!type || !tensor)
        return qg_nomem(e->ctx);
    m->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = qg_dtype_onnx(v->type.dtype);
    const qg_tensor *t = e->open && e->nesting == 0 ? &e->open[v->id] : &v->type;
    t = v->type.rank < 0 && v->declared ? v->declared : t;
    return t->rank < 0 ? QG_OK : make_shape(e, v, t, &tensor->shape);
}

/* ---- Attributes ---- */

/* Lists have their largest possible length; unused entries are not written. */
static qg_status make_graph(struct exporter *e, const qg_graph *g, graph_proto **out);

/* The names of a body's values: captures have the name of the outer value. */
static qg_status name_body(struct exporter *e, const qg_node *n, const qg_graph *body,
                           const char **name)
{
    for (size_t i = 0; i < body->value.n; i++)
        name[i] = body->value.at[i]->name;
    for (uint32_t i = 0; i < n->n_capture; i++) {
        const qg_value *inner = qg_graph_value(body, n->capture[i]);
        const qg_value *outer = n->in[n->n_in - n->n_capture + i];
        if (!inner || !outer)
            continue; /* a capture of another body of the node */
        const qg_value *clash = qg_graph_value(body, e->name[outer->id]);
        if (clash && clash != inner)
            return qg_node_fail(
                e->ctx, QG_ESTATE, "export", n,
                "its body has a value '%.1000s' of its own and reads the "
                "outer one too, expected different names",
                clash->name);
        name[inner->id] = e->name[outer->id];
    }
    return QG_OK;
}

/* A body, with the names that its values have in the file in place of those outside. */
static qg_status make_body(struct exporter *e, const qg_node *n, const qg_graph *body,
                           graph_proto **out)
{
    const char **outer = e->name;
    const char **inner = QG_NEWN(e->arena, body->value.n, const char *);
    if (!inner)
        return qg_nomem(e->ctx);
    if (e->nesting == MAX_NESTING)
        return qg_node_fail(e->ctx, QG_EUNSUPPORTED, "export", n,
                            "bodies nest deeper than %d levels", MAX_NESTING);
    QG_TRY(name_body(e, n, body, inner));
    e->name = inner;
    e->nesting++;
    qg_status s = make_graph(e, body, out);
    e->nesting--;
    e->name = outer;
    return s;
}

static qg_status make_bodies(struct exporter *e, const qg_node *n, const qg_attr *a,
                             graph_proto ***out)
{
    *out = QG_NEWN(e->arena, a->count, graph_proto *);
    if (!*out)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < a->count; i++)
        QG_TRY(make_body(e, n, a->graphs[i], &(*out)[i]));
    return QG_OK;
}

static qg_status make_strings(struct exporter *e, const qg_attr *a,
                              ProtobufCBinaryData **out)
{
    *out = QG_NEWN(e->arena, a->count, ProtobufCBinaryData);
    if (!*out)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < a->count; i++)
        (*out)[i] = (ProtobufCBinaryData){ strlen(a->strings[i]),
                                           (uint8_t *)unconst(a->strings[i]) };
    return QG_OK;
}

/* The one field of the message that goes with the type. */
static qg_status fill_attribute(struct exporter *e, const qg_node *n, const qg_attr *a,
                                attribute_proto *m)
{
    switch (a->type) {
    case QG_ATTR_FLOAT:
        m->has_f = true;
        m->f = a->floats[0];
        return QG_OK;
    case QG_ATTR_INT:
        m->has_i = true;
        m->i = a->ints[0];
        return QG_OK;
    case QG_ATTR_STRING:
        m->has_s = true;
        m->s = (ProtobufCBinaryData){ strlen(a->strings[0]),
                                      (uint8_t *)unconst(a->strings[0]) };
        return QG_OK;
    case QG_ATTR_TENSOR:
        return make_tensor(e, NULL, a->tensor, &m->t);
    case QG_ATTR_GRAPH:
        return make_body(e, n, a->graphs[0], &m->g);
    case QG_ATTR_FLOATS:
        m->n_floats = a->count;
        m->floats = (float *)(uintptr_t)a->floats;
        return QG_OK;
    case QG_ATTR_INTS:
        m->n_ints = a->count;
        m->ints = (int64_t *)(uintptr_t)a->ints;
        return QG_OK;
    case QG_ATTR_STRINGS:
        m->n_strings = a->count;
        return make_strings(e, a, &m->strings);
    case QG_ATTR_GRAPHS:
        m->n_graphs = a->count;
        return make_bodies(e, n, a, &m->graphs);
    case QG_NATTR:
        break;
    }
    assert(!"an attribute type without a writer");
    return QG_ESTATE;
}

static qg_status make_attributes(struct exporter *e, const qg_node *n, node_proto *m)
{
    static const Onnx__AttributeProto__AttributeType code[QG_NATTR] = {
#define X(id, text, onnx) [QG_ATTR_##id] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##id,
        QG_ATTR_MAP(X)
#undef X
    };
    m->attribute = QG_NEWN(e->arena, n->n_attr, attribute_proto *);
    if (!m->attribute)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < n->n_attr; i++) {
        attribute_proto *a = NEW(e, attribute_proto);
        if (!a)
            return qg_nomem(e->ctx);
        m->attribute[m->n_attribute++] = a;
        a->name = unconst(n->attr[i].name);
        a->has_type = true;
        a->type = code[n->attr[i].type];
        QG_TRY(fill_attribute(e, n, &n->attr[i], a));
    }
    return QG_OK;
}

/* ---- Nodes ---- */

/* The opset that the file will name must give the node the operator that it has. */
static qg_status check_opset(struct exporter *e, const qg_node *n)
{
    const char *domain = n->op->domain ? n->op->domain : "";
    int64_t version = qg_graph_opset(e->root, domain);
    if (version == 0)
        return qg_node_fail(e->ctx, QG_ESTATE, "export", n,
                            "its domain '%s' has no opset in the graph",
                            *domain ? domain : "ai.onnx");
    if (version != n->opset &&
        qg_op_find(e->ctx->registry, domain, n->op->name, version) != n->op)
        return qg_node_fail(e->ctx, QG_ESTATE, "export", n,
                            "is of opset %" PRId64 ", but the graph imports %" PRId64
                            ", where the operator is another",
                            n->opset, version);
    return QG_OK;
}

/* Names of slots; "" is an absent one. */
static qg_status list_names(struct exporter *e, qg_value *const *value, size_t n,
                            char ***out)
{
    *out = QG_NEWN(e->arena, n, char *);
    if (!*out)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = unconst(value[i] ? e->name[value[i]->id] : "");
    return QG_OK;
}

/* Captured values are inputs of our node only: ONNX finds them by name. */
static qg_status make_node(struct exporter *e, const qg_node *n, node_proto **out)
{
    node_proto *m = NEW(e, node_proto);
    if (!m)
        return qg_nomem(e->ctx);
    QG_TRY(check_opset(e, n));
    m->name = unconst(n->name);
    m->op_type = unconst(n->op->name);
    m->domain = unconst(n->op->domain);
    assert(n->n_capture <= n->n_in);
    m->n_input = n->n_in - n->n_capture;
    m->n_output = n->n_out;
    while (m->n_input > 0 && !n->in[m->n_input - 1])
        m->n_input--; /* absent, and nothing follows: left out */
    QG_TRY(list_names(e, n->in, m->n_input, &m->input));
    QG_TRY(list_names(e, n->out, m->n_output, &m->output));
    QG_TRY(make_attributes(e, n, m));
    *out = m;
    return QG_OK;
}

/* ---- Graphs ---- */

/* Whether the file has the constant v. */
static qg_status is_written(const struct exporter *e, const qg_value *v, bool *yes)
{
    const qg_value *learned = NULL;
    if (e->learned_alone && e->nesting == 0)
        QG_TRY(qg_graph_learned(e->root, v, e->arena, &learned));
    *yes = !learned;
    return QG_OK;
}

static qg_status add_constant(struct exporter *e, const qg_value *v, graph_proto *m)
{
    bool written;
    QG_TRY(is_written(e, v, &written));
    if (!written)
        return QG_OK;
    QG_TRY(
        make_tensor(e, e->name[v->id], v->constant, &m->initializer[m->n_initializer]));
    m->n_initializer++;
    bool old = e->root->ir_version > 0 && e->root->ir_version < 4;
    bool unread = e->list_unread && v->use.n == 0;
    bool listed = e->nesting == 0 && (old || unread);
    return listed ? make_info(e, v, &m->input[m->n_input++]) : QG_OK;
}

/* Initializers in order of id.  Before IR 4 they are listed among the inputs, after the
 * real ones. */
static qg_status add_constants(struct exporter *e, const qg_graph *g, graph_proto *m)
{
    for (size_t i = 0; i < g->value.n; i++)
        if (g->value.at[i]->constant)
            QG_TRY(add_constant(e, g->value.at[i], m));
    return QG_OK;
}

/* n and the types of its outputs: in order of the nodes, as an import numbers values,
 * so that what is read and written again has the same bytes. */
static qg_status add_node(struct exporter *e, const qg_node *n, graph_proto *m)
{
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        if (v && !v->is_output && v->type.dtype != QG_NODTYPE)
            QG_TRY(make_info(e, v, &m->value_info[m->n_value_info++]));
    }
    return make_node(e, n, &m->node[m->n_node++]);
}

static qg_status make_graph(struct exporter *e, const qg_graph *g, graph_proto **out)
{
    graph_proto *m = NEW(e, graph_proto);
    if (!m)
        return qg_nomem(e->ctx);
    m->name = unconst(*g->name ? g->name : "graph"); /* required by the checker */
    m->node = QG_NEWN(e->arena, g->node.n, node_proto *);
    m->input = QG_NEWN(e->arena, g->value.n, value_info *);
    m->output = QG_NEWN(e->arena, g->output.n, value_info *);
    m->initializer = QG_NEWN(e->arena, g->value.n, tensor_proto *);
    m->value_info = QG_NEWN(e->arena, g->value.n, value_info *);
    if (!m->node || !m->input || !m->output || !m->initializer || !m->value_info)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < g->input.n; i++)
        QG_TRY(make_info(e, g->input.at[i], &m->input[m->n_input++]));
    for (size_t i = 0; i < g->output.n; i++)
        QG_TRY(make_info(e, g->output.at[i], &m->output[m->n_output++]));
    for (size_t i = 0; i < g->node.n; i++)
        if (!g->node.at[i]->dead)
            QG_TRY(add_node(e, g->node.at[i], m));
    QG_TRY(add_constants(e, g, m));
    assert(m->n_initializer <= g->value.n && m->n_input <= g->value.n);
    *out = m;
    return QG_OK;
}

static qg_status add_opsets(struct exporter *e, model_proto *m)
{
    m->opset_import = QG_NEWN(e->arena, e->root->opset.n, Onnx__OperatorSetIdProto *);
    if (!m->opset_import)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->root->opset.n; i++) {
        Onnx__OperatorSetIdProto *o =
            message(e, &onnx__operator_set_id_proto__descriptor);
        if (!o)
            return qg_nomem(e->ctx);
        o->domain = unconst(e->root->opset.at[i].domain);
        o->has_version = true;
        o->version = e->root->opset.at[i].version;
        m->opset_import[m->n_opset_import++] = o;
    }
    return QG_OK;
}

static qg_status add_annotation(struct exporter *e, const qg_onnx_annotation *a,
                                graph_proto *g)
{
    Onnx__TensorAnnotation *m = message(e, &onnx__tensor_annotation__descriptor);
    if (!m)
        return qg_nomem(e->ctx);
    m->tensor_name = unconst(a->tensor);
    m->quant_parameter_tensor_names = QG_NEWN(e->arena, 2, entry_proto *);
    if (!m->quant_parameter_tensor_names)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < 2; i++)
        QG_TRY(add_entry(e, &m->quant_parameter_tensor_names,
                         &m->n_quant_parameter_tensor_names, &a->parameter[i]));
    g->quantization_annotation[g->n_quantization_annotation++] = m;
    return QG_OK;
}

static qg_status add_annotations(struct exporter *e, const qg_export_options *options,
                                 graph_proto *g)
{
    size_t n = options ? options->n_annotation : 0;
    g->quantization_annotation = QG_NEWN(e->arena, n, Onnx__TensorAnnotation *);
    if (!g->quantization_annotation)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(add_annotation(e, &options->annotation[i], g));
    return QG_OK;
}

/* Types that hold for every extent that the file leaves open. */
static qg_status find_open(struct exporter *e)
{
    qg_tensor *type;
    const qg_tensor **known;
    if (!qg_graph_is_open(e->root))
        return QG_OK;
    QG_TRY(qg_infer_open(e->ctx, e->root, e->arena, &type, &known));
    e->open = type;
    return QG_OK;
}

static qg_status make_model(struct exporter *e, const qg_export_options *options,
                            model_proto *m)
{
    size_t n = options ? options->n_metadata : 0;
    m->has_ir_version = true;
    m->ir_version = e->root->ir_version ? e->root->ir_version : QG_ONNX_DEFAULT_IR;
    m->producer_name = unconst(PRODUCER);
    m->producer_version = unconst(QG_VERSION);
    QG_TRY(find_open(e));
    QG_TRY(add_opsets(e, m));
    m->metadata_props = QG_NEWN(e->arena, n, entry_proto *);
    e->name = QG_NEWN(e->arena, e->root->value.n, const char *);
    if (!m->metadata_props || !e->name)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < n; i++)
        QG_TRY(add_entry(e, &m->metadata_props, &m->n_metadata_props,
                         &options->metadata[i]));
    for (size_t i = 0; i < e->root->value.n; i++)
        e->name[i] = e->root->value.at[i]->name;
    QG_TRY(make_graph(e, e->root, &m->graph));
    return add_annotations(e, options, m->graph);
}

/* ---- Files ---- */

struct file_sink {
    ProtobufCBuffer base; /* first: protobuf-c passes it back */
    FILE *stream;
};

/* Write errors are found by the commit. */
static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    (void)fwrite(bytes, 1, n, ((struct file_sink *)buffer)->stream);
}

/* Bytes of all constants that are written, bodies not counted: they hold little. */
static qg_status constant_bytes(const struct exporter *e, size_t *out)
{
    const qg_graph *g = e->root;
    size_t total = 0, bytes;
    bool written;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        if (!v->constant)
            continue;
        QG_TRY(is_written(e, v, &written));
        if (!written)
            continue;
        QG_TRY(qg_tensor_bytes(g->ctx, v->name, v->constant, &bytes));
        if (__builtin_add_overflow(total, bytes, &total))
            return qg_fail(g->ctx, QG_EMODEL, "export: the constants overflow");
    }
    *out = total;
    return QG_OK;
}

struct hash_sink {
    ProtobufCBuffer base;
    qg_hash hash;
};

static void append_hash(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    qg_hash_add(&((struct hash_sink *)buffer)->hash, bytes, n);
}

static qg_status pack(struct exporter *e, const qg_export_options *options,
                      ProtobufCBuffer *to)
{
    model_proto m = ONNX__MODEL_PROTO__INIT;
    QG_TRY(make_model(e, options, &m));
    (void)onnx__model_proto__pack_to_buffer(&m, to);
    return QG_OK;
}

static qg_status write_model(struct exporter *e, const qg_export_options *options,
                             FILE *stream)
{
    struct file_sink sink = { { append }, stream };
    return pack(e, options, &sink.base);
}

/* The data file is put in place first. */
static qg_status write_files(struct exporter *e, const qg_export_options *options,
                             qg_writer *model, qg_writer *data)
{
    e->data = data->stream;
    QG_TRY(write_model(e, options, model->stream));
    qg_writer *all[3];
    size_t n = 0;
    if (data->stream)
        all[n++] = data;
    all[n++] = model;
    if (options && options->beside)
        all[n++] = options->beside;
    return qg_writers_commit(all, n);
}

static qg_status open_and_write(struct exporter *e, const qg_export_options *options,
                                const char *path, bool outside)
{
    qg_writer model, data = { 0 };
    const char *data_path = qg_arena_printf(e->arena, "%s.data", path);
    if (!data_path)
        return qg_nomem(e->ctx);
    e->location = qg_path_base(data_path);
    QG_TRY(qg_writer_open(e->ctx, path, &model));
    qg_status s = outside ? qg_writer_open(e->ctx, data_path, &data) : QG_OK;
    if (s == QG_OK)
        s = write_files(e, options, &model, &data);
    qg_writer_abandon(&data);
    qg_writer_abandon(&model);
    return s;
}

/* An exporter with an arena, and whether its constants go outside of the model. */
static qg_status begin(qg_ctx *ctx, const qg_graph *g, const qg_export_options *options,
                       struct exporter *e, bool *outside)
{
    size_t limit =
        options && options->external_above ? options->external_above : external_default;
    size_t bytes;
    assert(!g->outer); /* a body is written with its outer graph */
    *e = (struct exporter){ .ctx = ctx,
                            .root = g,
                            .arena = qg_arena_new(ctx->alloc),
                            .list_unread = options && options->list_unread,
                            .learned_alone = options && options->learned_alone };
    qg_status s = e->arena ? constant_bytes(e, &bytes) : qg_nomem(ctx);
    if (s == QG_OK)
        *outside = bytes > limit;
    else
        qg_arena_free(e->arena);
    return s;
}

qg_status qg_onnx_export(qg_ctx *ctx, const qg_graph *g, const char *path,
                         const qg_export_options *options)
{
    struct exporter e;
    bool outside;
    QG_TRY(begin(ctx, g, options, &e, &outside));
    qg_status s = open_and_write(&e, options, path, outside);
    qg_arena_free(e.arena);
    return s;
}

qg_status qg_onnx_export_stream(qg_ctx *ctx, const qg_graph *g, FILE *stream,
                                const qg_export_options *options)
{
    struct exporter e;
    bool outside;
    QG_TRY(begin(ctx, g, options, &e, &outside));
    qg_status s = outside
                      ? qg_fail(ctx, QG_EUNSUPPORTED,
                                "export: '%.1000s': its constants need external data, "
                                "which bytes do not have, expected a file",
                                g->name)
                      : write_model(&e, options, stream);
    qg_arena_free(e.arena);
    return s;
}

qg_status qg_onnx_hash(qg_ctx *ctx, const qg_graph *g, char text[QG_HASH_TEXT])
{
    struct exporter e;
    bool outside;
    struct hash_sink sink = { .base = { append_hash } };
    QG_TRY(begin(ctx, g, NULL, &e, &outside));
    qg_hash_begin(&sink.hash);
    qg_status s = pack(&e, NULL, &sink.base);
    if (s == QG_OK)
        qg_hash_end(&sink.hash, text);
    qg_arena_free(e.arena);
    return s;
}

/* Whether the file is an export in a format of its own, as its metadata says. */
static bool is_export(const qg_file *f)
{
    static const char key[] = QG_ONNX_FORMAT_KEY;
    const uint8_t *at = f->bytes, *end = f->bytes + f->size;
    while (at < end && (at = memchr(at, key[0], (size_t)(end - at)))) {
        if ((size_t)(end - at) >= sizeof key - 1 &&
            memcmp(at, key, sizeof key - 1) == 0)
            return true;
        at++;
    }
    return false;
}

/* ir_version and producer_name are the first fields of a model, as protobuf-c packs
 * them: two bytes, a tag, a length, the name. */
qg_status qg_onnx_keep_foreign(qg_ctx *ctx, const char *path, const char *file)
{
    enum { TAG = 2, NAME = 4, LENGTH = sizeof PRODUCER - 1 };
    static const uint8_t tag[] = { 0x12, LENGTH };
    qg_file f;
    if (access(path, F_OK) != 0)
        return QG_OK;
    QG_TRY(qg_file_open(ctx, "export", path, SIZE_MAX, &f));
    bool own = f.size >= NAME + LENGTH && memcmp(f.bytes + TAG, tag, sizeof tag) == 0 &&
               memcmp(f.bytes + NAME, PRODUCER, LENGTH) == 0;
    bool exported = own && is_export(&f);
    qg_file_close(&f);
    if (exported)
        return qg_fail(ctx, QG_ECONFIG,
                       "export: %s: the model goes to %s, which is another export, "
                       "expected another name",
                       file, path);
    if (own)
        return QG_OK;
    return qg_fail(ctx, QG_ECONFIG,
                   "export: %s: the model goes to %s, which another program wrote, "
                   "expected another name",
                   file, path);
}
