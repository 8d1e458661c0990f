/* flatbuffer.cpp -- the only file in C++: flatbuffers has no C library in Debian.
 * Nothing here throws or allocates, so that the result links as C.  flatbuffer.h has
 * the contract. */
#include "engine/formats/tflite/flatbuffer.h"

#include "schema_generated.h"

namespace schema = qg_schema;

namespace {

/* Model, subgraph, operator and options are the deepest nesting. */
const flatbuffers::uoffset_t most_nested = 8, most_tables = 1000000;

#define SAME(mine, theirs)                                                             \
    static_assert(int(QG_TFLITE_OPTIONS_##mine) == int(schema::Options_##theirs),      \
                  "a number of the union")
SAME(CONV, Conv2D);
SAME(DEPTHWISE, DepthwiseConv2D);
SAME(POOL, Pool2D);
SAME(DENSE, FullyConnected);
SAME(SOFTMAX, Softmax);
SAME(CONCAT, Concatenation);
SAME(ADD, Add);
SAME(RESIZE_BILINEAR, ResizeBilinear);
SAME(MUL, Mul);
SAME(GATHER, Gather);
SAME(REDUCER, Reducer);
SAME(SUB, Sub);
SAME(DIV, Div);
SAME(STRIDED_SLICE, StridedSlice);
SAME(SPLIT, Split);
SAME(TRANSPOSE_CONV, TransposeConv);
SAME(PACK, Pack);
SAME(UNPACK, Unpack);
SAME(RESIZE_NEAREST, ResizeNearest);
SAME(LEAKY_RELU, LeakyRelu);
SAME(SPLIT_V, SplitV);
SAME(BATCH_MATMUL, BatchMatMul);
SAME(GELU, Gelu);
#undef SAME

template <typename T> uint32_t count(const flatbuffers::Vector<T> *v)
{
    return v ? v->size() : 0;
}

/* Elements of up to 4 bytes lie behind a count of 4 bytes and are aligned. */
template <typename T> const T *elements(const flatbuffers::Vector<T> *v)
{
    static_assert(sizeof(T) <= sizeof(flatbuffers::uoffset_t), "unaligned elements");
    return v && v->size() ? reinterpret_cast<const T *>(v->Data()) : nullptr;
}

/* --- options --- */

template <typename T> void window(const T *from, qg_tflite_options *o)
{
    o->padding = from->padding();
    o->stride_h = from->stride_h();
    o->stride_w = from->stride_w();
    o->activation = from->activation();
}

template <typename T> void dilated(const T *from, qg_tflite_options *o)
{
    window(from, o);
    o->dilation_h = from->dilation_h();
    o->dilation_w = from->dilation_w();
}

template <typename T> void resized(const T *from, qg_tflite_options *o)
{
    o->align_corners = from->align_corners();
    o->half_pixel = from->half_pixel();
}

void unpack_slice(const schema::StridedSlice *from, qg_tflite_options *o)
{
    o->begin_mask = from->begin_mask();
    o->end_mask = from->end_mask();
    o->ellipsis_mask = from->ellipsis_mask();
    o->new_axis_mask = from->new_axis_mask();
    o->shrink_axis_mask = from->shrink_axis_mask();
    o->offset = from->offset();
}

/* Operators that compute. */
bool unpack_compute(const schema::Operator *op, qg_tflite_options *o)
{
    if (auto c = op->options_as_Conv2D()) {
        dilated(c, o);
    } else if (auto d = op->options_as_DepthwiseConv2D()) {
        dilated(d, o);
        o->multiplier = d->multiplier();
    } else if (auto t = op->options_as_TransposeConv()) {
        window(t, o);
    } else if (auto p = op->options_as_Pool2D()) {
        window(p, o);
        o->filter_h = p->filter_h();
        o->filter_w = p->filter_w();
    } else if (auto f = op->options_as_FullyConnected()) {
        o->activation = f->activation();
        o->format = f->format();
        o->keep_dims = f->keep_dims();
    } else if (auto m = op->options_as_BatchMatMul()) {
        o->adj_x = m->adj_x();
        o->adj_y = m->adj_y();
    } else {
        return false;
    }
    return true;
}

/* Functions of each element, and means. */
bool unpack_function(const schema::Operator *op, qg_tflite_options *o)
{
    if (auto a = op->options_as_Add())
        o->activation = a->activation();
    else if (auto m = op->options_as_Mul())
        o->activation = m->activation();
    else if (auto s = op->options_as_Sub())
        o->activation = s->activation();
    else if (auto d = op->options_as_Div())
        o->activation = d->activation();
    else if (auto x = op->options_as_Softmax())
        o->factor = x->beta();
    else if (auto l = op->options_as_LeakyRelu())
        o->factor = l->alpha();
    else if (auto g = op->options_as_Gelu())
        o->approximate = g->approximate();
    else if (auto r = op->options_as_Reducer())
        o->keep_dims = r->keep_dims();
    else if (auto b = op->options_as_ResizeBilinear())
        resized(b, o);
    else if (auto n = op->options_as_ResizeNearest())
        resized(n, o);
    else
        return false;
    return true;
}

/* Operators that move values. */
void unpack_move(const schema::Operator *op, qg_tflite_options *o)
{
    if (auto c = op->options_as_Concatenation()) {
        o->axis = c->axis();
        o->activation = c->activation();
    } else if (auto g = op->options_as_Gather()) {
        o->axis = g->axis();
        o->batch_dims = g->batch_dims();
    } else if (auto s = op->options_as_Split()) {
        o->parts = s->parts();
    } else if (auto v = op->options_as_SplitV()) {
        o->parts = v->parts();
    } else if (auto p = op->options_as_Pack()) {
        o->parts = p->parts();
        o->axis = p->axis();
    } else if (auto u = op->options_as_Unpack()) {
        o->parts = u->parts();
        o->axis = u->axis();
    } else if (auto t = op->options_as_StridedSlice()) {
        unpack_slice(t, o);
    }
}

/* --- the subgraph --- */

void unpack_operator(const schema::Model *model, const schema::Operator *from,
                     qg_tflite_operator *to)
{
    auto codes = model->codes();
    to->code = -1;
    if (from->code() < count(codes)) {
        auto entry = codes->Get(from->code());
        to->code = entry->code() > entry->old_code() ? entry->code() : entry->old_code();
        to->custom = entry->custom() ? entry->custom()->c_str() : nullptr;
    }
    to->in = elements(from->inputs());
    to->n_in = count(from->inputs());
    to->out = elements(from->outputs());
    to->n_out = count(from->outputs());
    to->options.kind = from->options() ? from->options_type() : 0;
    if (!unpack_compute(from, &to->options) && !unpack_function(from, &to->options))
        unpack_move(from, &to->options);
}

void unpack_buffer(const schema::Model *model, uint32_t index, qg_tflite_tensor *to)
{
    auto buffers = model->buffers();
    to->no_buffer = index >= count(buffers) && index != 0;
    if (index >= count(buffers))
        return;
    auto buffer = buffers->Get(index);
    to->data = elements(buffer->data());
    to->size = count(buffer->data());
    to->outside = buffer->offset() > 1;
}

void unpack_tensor(const schema::Model *model, const schema::Tensor *from,
                   qg_tflite_tensor *to)
{
    to->name = from->name() ? from->name()->c_str() : "";
    to->type = from->type();
    to->dim = elements(from->shape());
    to->rank = count(from->shape());
    to->variable = from->is_variable();
    to->sparse = from->sparsity() != nullptr;
    unpack_buffer(model, from->buffer(), to);
    if (auto q = from->quantization()) {
        to->scale = elements(q->scale());
        to->n_scale = count(q->scale());
        to->n_zero = count(q->zero_point());
        to->zero = to->n_zero ? q->zero_point()->Data() : nullptr;
        to->axis = q->axis();
        to->details = q->details_type() != 0;
    }
}

/* Zeroed memory for n elements, at least one. */
template <typename T> T *list(qg_tflite_memory m, uint32_t n)
{
    return static_cast<T *>(m.get(m.ud, n ? n : 1, sizeof(T)));
}

qg_tflite_result unpack_subgraph(const schema::Model *model, qg_tflite_memory memory,
                                 qg_tflite_file *out)
{
    auto g = model->subgraphs()->Get(0);
    auto tensor = list<qg_tflite_tensor>(memory, count(g->tensors()));
    auto op = list<qg_tflite_operator>(memory, count(g->operators()));
    if (!tensor || !op)
        return QG_TFLITE_NO_MEMORY;
    for (uint32_t i = 0; i < count(g->tensors()); i++)
        unpack_tensor(model, g->tensors()->Get(i), &tensor[i]);
    for (uint32_t i = 0; i < count(g->operators()); i++)
        unpack_operator(model, g->operators()->Get(i), &op[i]);
    out->tensor = tensor;
    out->op = op;
    out->n_tensor = count(g->tensors());
    out->n_op = count(g->operators());
    out->input = elements(g->inputs());
    out->n_input = count(g->inputs());
    out->output = elements(g->outputs());
    out->n_output = count(g->outputs());
    return QG_TFLITE_READ;
}

} // namespace

extern "C" qg_tflite_result qg_tflite_unpack(const unsigned char *bytes, size_t size,
                                             qg_tflite_memory memory,
                                             qg_tflite_file *out)
{
    if (size >= FLATBUFFERS_MAX_BUFFER_SIZE)
        return QG_TFLITE_TOO_LARGE;
    flatbuffers::Verifier verifier(bytes, size, most_nested, most_tables);
    if (!schema::VerifyModelBuffer(verifier))
        return QG_TFLITE_MALFORMED;
    auto model = schema::GetModel(bytes);
    qg_tflite_file file = {};
    file.version = model->version();
    file.n_subgraph = count(model->subgraphs());
    if (file.n_subgraph > 0) {
        qg_tflite_result r = unpack_subgraph(model, memory, &file);
        if (r != QG_TFLITE_READ)
            return r;
    }
    *out = file;
    return QG_TFLITE_READ;
}
