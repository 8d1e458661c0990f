/* dnnl.c -- kernels of oneDNN; with dnnl_guard the only file that includes its header.
 *
 * Written for the 2.x C API (Debian 12 has 2.6).  3.x replaces descriptors of
 * operations and of memory; CMakeLists.txt builds without oneDNN where it finds
 * that. */
#include "engine/accel/kernels.h"

#include <stdio.h>

#include "engine/accel/finish.h"

#if QG_HAVE_DNNL

#include <assert.h>
#include <math.h>

#include "engine/accel/dnnl_guard.h"

#if DNNL_VERSION_MAJOR != 2
#error "oneDNN 2.x expected; configure again with QG_DNNL=OFF"
#endif

/* libgomp's switch; oneDNN parallelizes with OpenMP and workers need one thread
 * each. */
extern void omp_set_num_threads(int n);

/* State shared by all workers. */
typedef struct program {
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;
    dnnl_memory_t weights, bias; /* NULL: none */
    bool has_other;              /* the second operand comes at run time */
    size_t scratch_bytes;
} program;

/* State owned by one run context. */
typedef struct binding {
    dnnl_stream_t stream;
    dnnl_memory_t src, dst, other, scratch;
} binding;

/* Out of memory keeps its own status; everything else should not happen once oneDNN
 * has accepted the case. */
static qg_status broken(qg_ctx *ctx, const char *what, dnnl_status_t s)
{
    if (s == dnnl_out_of_memory)
        return qg_nomem(ctx);
    return qg_fail(ctx, QG_EUNSUPPORTED, "compile: oneDNN: %s gave status %d", what,
                   (int)s);
}

#define DNNL(ctx, call)                                                                \
    do {                                                                               \
        dnnl_status_t dnnl_ = (call);                                                  \
        if (dnnl_ != dnnl_success)                                                     \
            return broken((ctx), #call, dnnl_);                                        \
    } while (0)

/* --- running --- */

static void binding_free(binding *b)
{
    dnnl_memory_t memory[] = { b->src, b->dst, b->other, b->scratch };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (memory[i])
            (void)dnnl_memory_destroy(memory[i]);
    if (b->stream)
        (void)dnnl_stream_destroy(b->stream);
}

/* Descriptors take 700 bytes each: the primitive keeps them, programs do not. */
static const dnnl_memory_desc_t *queried(const_dnnl_primitive_desc_t pd,
                                         dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

/* Memory objects without a buffer: kernel_run gives them one for each call. */
static qg_status binding_make(qg_ctx *ctx, const program *p, binding *b)
{
    struct {
        dnnl_query_t what;
        dnnl_memory_t *memory;
    } operand[] = {
        {dnnl_query_src_md,         &b->src    },
        { dnnl_query_dst_md,        &b->dst    },
        { dnnl_query_scratchpad_md, &b->scratch},
        { dnnl_query_weights_md,    &b->other  }
    };
    const_dnnl_primitive_desc_t pd;
    DNNL(ctx, qg_dnnl_stream_create(&b->stream, p->engine, dnnl_stream_default_flags));
    DNNL(ctx, dnnl_primitive_get_primitive_desc(p->primitive, &pd));
    for (int i = 0, n = p->has_other ? 4 : 3; i < n; i++)
        DNNL(ctx, qg_dnnl_memory_create(operand[i].memory, queried(pd, operand[i].what),
                                        p->engine, DNNL_MEMORY_NONE));
    return QG_OK;
}

static void kernel_close(const qg_kernel *k, void *local)
{
    (void)k;
    binding_free(local);
}

/* b lies in the worker's arena; its contents are released by kernel_close, or here. */
static qg_status kernel_open(const qg_kernel *k, qg_ctx *ctx, void **local)
{
    binding *b = QG_NEW(ctx->arena, binding);
    if (!b)
        return qg_nomem(ctx);
    qg_status s = binding_make(ctx, k->state, b);
    if (s != QG_OK) {
        binding_free(b);
        return s;
    }
    *local = b;
    return QG_OK;
}

/* The thread count is set every time: it belongs to the calling thread, and another
 * library may have changed it. */
static qg_status kernel_run(const qg_kernel *k, const qg_call *call)
{
    const program *p = k->state;
    binding *b = call->local;
    assert(p && b); /* kernel_open made it */
    dnnl_exec_arg_t arg[5];
    int n = 0;
    void *scratch = qg_arena_raw(call->scratch, p->scratch_bytes, 1);
    if (!scratch)
        return qg_nomem(call->ctx);
    omp_set_num_threads(1);
    DNNL(call->ctx, qg_dnnl_memory_set_data_handle(b->src, call->in[0]->data));
    DNNL(call->ctx, qg_dnnl_memory_set_data_handle(b->dst, call->out[0]->data));
    DNNL(call->ctx, qg_dnnl_memory_set_data_handle(b->scratch, scratch));
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, b->src };
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_DST, b->dst };
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, b->scratch };
    if (p->has_other) {
        DNNL(call->ctx, qg_dnnl_memory_set_data_handle(b->other, call->in[1]->data));
        arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, b->other };
    } else if (p->weights) {
        arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, p->weights };
    }
    if (p->bias)
        arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, p->bias };
    DNNL(call->ctx, qg_dnnl_primitive_execute(p->primitive, b->stream, n, arg));
    return QG_OK;
}

/* Takes a program that was made half way. */
static void program_free(program *p)
{
    if (p->weights)
        (void)dnnl_memory_destroy(p->weights);
    if (p->bias)
        (void)dnnl_memory_destroy(p->bias);
    if (p->primitive)
        (void)dnnl_primitive_destroy(p->primitive);
    if (p->engine)
        (void)dnnl_engine_destroy(p->engine);
}

static void kernel_destroy(qg_kernel *k) { program_free(k->state); }

/* --- memory --- */

/* Types of tensors here; undefined for all others. */
static dnnl_data_type_t type_of(const qg_tensor *t)
{
    return t->dtype == QG_F32   ? dnnl_f32
           : t->dtype == QG_I8  ? dnnl_s8
           : t->dtype == QG_U8  ? dnnl_u8
           : t->dtype == QG_I32 ? dnnl_s32
                                : dnnl_data_type_undef;
}

/* dims and strides of a 4-d (5-d when the depth counts) activation. */
static void describe(dnnl_memory_desc_t *md, dnnl_data_type_t type, int rank,
                     const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    dnnl_status_t s = dnnl_memory_desc_init_by_strides(md, rank, dims, type, strides);
    assert(s == dnnl_success);
    (void)s;
}

/* An axis of depth appears only where it is used: oneDNN is faster in two
 * dimensions. */
static void describe_activation(dnnl_memory_desc_t *md, const qg_tensor *t,
                                const int64_t space[QG_SPACE])
{
    int64_t batch = t->dim[0], channels = t->dim[1];
    int axes = space[0] > 1 ? 3 : 2, rank = axes + 2;
    dnnl_dims_t dims = { batch, channels }, strides;
    const int64_t *extent = space + QG_SPACE - axes;
    int64_t step = channels; /* channels-last */
    for (int i = axes; i-- > 0;) {
        dims[2 + i] = extent[i];
        strides[2 + i] = step;
        step *= extent[i];
    }
    strides[1] = 1;
    strides[0] = step;
    describe(md, type_of(t), rank, dims, strides);
}

/* Memory of the primitive's own layout, filled from plain data; lies in the arena. */
static qg_status pack(qg_compile *c, program *p, const dnnl_memory_desc_t *from,
                      const void *data, const dnnl_memory_desc_t *to,
                      dnnl_memory_t *out)
{
    void *room = qg_arena_get(c->arena, dnnl_memory_desc_get_size(to), 1);
    if (!room)
        return qg_nomem(c->ctx);
    dnnl_memory_t plain = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t s = qg_dnnl_memory_create(out, to, p->engine, room);
    if (s == dnnl_success)
        s = qg_dnnl_memory_create(&plain, from, p->engine, (void *)(uintptr_t)data);
    if (s == dnnl_success)
        s = qg_dnnl_reorder_primitive_desc_create(&pd, from, p->engine, to, p->engine,
                                                  NULL);
    if (s == dnnl_success)
        s = qg_dnnl_primitive_create(&reorder, pd);
    if (s == dnnl_success)
        s = qg_dnnl_stream_create(&stream, p->engine, dnnl_stream_default_flags);
    if (s == dnnl_success) {
        dnnl_exec_arg_t arg[] = {
            {DNNL_ARG_FROM, plain},
            { DNNL_ARG_TO,  *out }
        };
        s = qg_dnnl_primitive_execute(reorder, stream, 2, arg);
    }
    if (stream)
        (void)dnnl_stream_destroy(stream);
    if (reorder)
        (void)dnnl_primitive_destroy(reorder);
    if (pd)
        (void)dnnl_primitive_desc_destroy(pd);
    if (plain)
        (void)dnnl_memory_destroy(plain);
    return s == dnnl_success ? QG_OK : broken(c->ctx, "packing of weights", s);
}

/* --- descriptors of operations --- */

typedef struct request {
    dnnl_op_desc_t desc; /* one of the dnnl_*_desc_t below */
    dnnl_memory_desc_t src, weights, bias, dst;
    bool has_weights, has_bias;
    const qg_accel_codes *codes; /* NULL: floats */
    int channel_axis;            /* of dst */
} request;

/* --- attributes: scratchpad by the caller, clamps absorbed --- */

/* Integers below 2^24, which float32 holds, times a factor, rounded half to even and
 * limited to the type of dst.  Further steps (a zero point, another rounding) would be
 * possible, but cost more than a second pass over the sums. */
static dnnl_status_t requantize(const qg_finish *f, const request *r,
                                dnnl_primitive_attr_t attr, dnnl_post_ops_t ops)
{
    bool each = f->spec.per_channel && f->spec.channels > 1;
    int32_t lowest = r->dst.data_type == dnnl_u8 ? 0 : -128;
    dnnl_status_t s = qg_dnnl_primitive_attr_set_output_scales(
        attr, each ? (dnnl_dim_t)f->spec.channels : 1, each ? 1 << r->channel_axis : 0,
        f->f);
    if (s == dnnl_success && (f->low > lowest || f->high < lowest + 255))
        s = qg_dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_clip, (float)f->low,
                                            (float)f->high);
    return s;
}

/* Absorbs followers as long as each is a clamp; the first other node ends the chain. */
static qg_status make_attributes(qg_compile *c, const request *r, uint32_t *absorbed,
                                 dnnl_primitive_attr_t *out)
{
    int32_t zero = r->codes ? r->codes->zero : 0;
    dnnl_post_ops_t ops = NULL;
    DNNL(c->ctx, qg_dnnl_primitive_attr_create(out));
    DNNL(c->ctx,
         dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user));
    if (zero)
        DNNL(c->ctx,
             qg_dnnl_primitive_attr_set_zero_points(*out, DNNL_ARG_SRC, 1, 0, &zero));
    DNNL(c->ctx, qg_dnnl_post_ops_create(&ops));
    dnnl_status_t s = dnnl_success;
    if (r->codes && r->codes->finish)
        s = requantize(r->codes->finish, r, *out, ops);
    for (*absorbed = 0; *absorbed < c->n_chain && s == dnnl_success; ++*absorbed) {
        const qg_node *n = c->chain[*absorbed];
        float low, high;
        if (!n->op->clamp || !n->op->clamp(n, c->chain_in[*absorbed], &low, &high))
            break;
        bool relu = low == 0 && isinf(high);
        s = qg_dnnl_post_ops_append_eltwise(
            ops, 1, relu ? dnnl_eltwise_relu : dnnl_eltwise_clip, relu ? 0 : low, high);
    }
    if (s == dnnl_success)
        s = qg_dnnl_primitive_attr_set_post_ops(*out, ops);
    (void)dnnl_post_ops_destroy(ops);
    return s == dnnl_success ? QG_OK : broken(c->ctx, "post-ops", s);
}

/* The implementation oneDNN chose; *pd NULL when it has none. */
static qg_status choose(qg_compile *c, program *p, const request *r, uint32_t *absorbed,
                        dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr = NULL;
    qg_status s = make_attributes(c, r, absorbed, &attr);
    if (s == QG_OK && qg_dnnl_primitive_desc_create(pd, r->desc, attr, p->engine,
                                                    NULL) != dnnl_success)
        *pd = NULL;
    if (attr)
        (void)dnnl_primitive_attr_destroy(attr);
    return s;
}

/* Weights are packed once into the layout the implementation requires. */
static qg_status finish_program(qg_compile *c, program *p, const request *r,
                                dnnl_primitive_desc_t pd)
{
    DNNL(c->ctx, qg_dnnl_primitive_create(&p->primitive, pd));
    p->scratch_bytes = dnnl_memory_desc_get_size(queried(pd, dnnl_query_scratchpad_md));
    if (r->has_weights && !p->has_other)
        QG_TRY(pack(c, p, &r->weights, c->in[1]->data,
                    queried(pd, dnnl_query_weights_md), &p->weights));
    return QG_OK;
}

/* The bias stays in the graph's memory; only the descriptor is oneDNN's. */
static qg_status bind_bias(qg_compile *c, program *p, const request *r,
                           const qg_tensor *bias)
{
    if (!r->has_bias)
        return QG_OK;
    DNNL(c->ctx, qg_dnnl_memory_create(&p->bias, &r->bias, p->engine, bias->data));
    return QG_OK;
}

/* A kernel from the request; *out stays NULL when oneDNN has no implementation. */
static qg_status make_kernel(qg_compile *c, program *p, const request *r,
                             const qg_tensor *bias, qg_kernel **out)
{
    dnnl_primitive_desc_t pd = NULL;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    if (!k)
        return qg_nomem(c->ctx);
    QG_TRY(choose(c, p, r, &k->absorbed, &pd));
    if (!pd)
        return QG_OK;
    const char *name = "";
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name);
    if (strncmp(name, "ref", 3) == 0) { /* slower than our own loops */
        (void)dnnl_primitive_desc_destroy(pd);
        return QG_OK;
    }
    k->name = qg_arena_printf(c->arena, "dnnl %s", name);
    k->run = kernel_run;
    k->open = kernel_open;
    k->close = kernel_close;
    k->destroy = kernel_destroy;
    k->state = p;
    qg_status s = finish_program(c, p, r, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    QG_TRY(s);
    k->packed = p->weights ? 1u << 1 : 0;
    QG_TRY(bind_bias(c, p, r, bias));
    *out = k->name ? k : NULL;
    return k->name ? QG_OK : qg_nomem(c->ctx);
}

/* Runs make_kernel on a fresh program and releases it when nothing came of it. */
static qg_status with_program(qg_compile *c, const request *r, const qg_tensor *bias,
                              bool has_other, qg_kernel **out)
{
    program *p = QG_NEW(c->arena, program);
    *out = NULL;
    if (!p)
        return qg_nomem(c->ctx);
    omp_set_num_threads(1);
    DNNL(c->ctx, qg_dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    p->has_other = has_other;
    qg_status s = make_kernel(c, p, r, bias, out);
    if (!*out || s != QG_OK) {
        program_free(p);
        *out = NULL;
    }
    return s;
}

/* Results have the type of the inputs. */
static bool all_float(const qg_compile *c)
{
    uint32_t i = 0;
    while (i < c->node->n_in && (!c->in[i] || c->in[i]->dtype == QG_F32))
        i++;
    return i == c->node->n_in;
}

/* Codes times int8 weights into int32 sums.  Without these instructions oneDNN adds
 * products in saturating int16: its sums are wrong. */
static bool all_codes(const qg_compile *c, const qg_accel_codes *codes)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned wide = dnnl_cpu_isa_avx512_core_vnni, narrow = dnnl_cpu_isa_avx2_vnni;
    const qg_tensor *x = c->in[0], *w = c->in[1];
    return ((isa & wide) == wide || (isa & narrow) == narrow) &&
           (x->dtype == QG_I8 || x->dtype == QG_U8) && w->dtype == QG_I8 &&
           (codes->finish ? !c->in[2] || c->in[2]->dtype == QG_I32
                          : !c->in[2] && c->out[0]->dtype == QG_I32);
}

/* oneDNN refuses some empty shapes; the definitions take them all. */
static bool any_empty(const qg_compile *c)
{
    for (uint32_t i = 0; i < c->node->n_in; i++)
        if (c->in[i] && qg_tensor_count(c->in[i]) == 0)
            return true;
    return qg_tensor_count(c->out[0]) == 0;
}

/* --- convolution --- */

/* Weights as ONNX stores them, with oneDNN's dims (groups first when there are any). */
static void describe_weights(request *r, const qg_compile *c, const qg_conv_problem *p,
                             bool transposed)
{
    int axes = p->in[0] > 1 || p->kernel[0] > 1 || p->out[0] > 1 ? 3 : 2;
    int64_t oc = p->out_channels / p->groups, ic = p->in_channels / p->groups, taps = 1;
    dnnl_dims_t dims, strides;
    dnnl_data_type_t type = type_of(c->in[1]);
    int g = p->groups > 1 ? 1 : 0, rank = g + 2 + axes;
    for (int i = axes; i-- > 0;) {
        dims[g + 2 + i] = p->kernel[QG_SPACE - axes + i];
        strides[g + 2 + i] = taps;
        taps *= dims[g + 2 + i];
    }
    dims[g] = oc;
    dims[g + 1] = ic;
    strides[g] = transposed ? taps : taps * ic;
    strides[g + 1] = transposed ? taps * oc : taps;
    if (g) {
        dims[0] = p->groups;
        strides[0] = taps * oc * ic;
    }
    describe(&r->weights, type, rank, dims, strides);
}

/* oneDNN counts dilation from 0 and has one entry per real axis. */
typedef struct window {
    dnnl_dims_t stride, dilation, begin, end;
} window;

static void window_of(window *w, const int64_t *stride, const int64_t *dilation,
                      const int64_t *begin, const int64_t *end, int axes)
{
    for (int i = 0; i < axes; i++) {
        int k = QG_SPACE - axes + i;
        w->stride[i] = stride[k];
        w->dilation[i] = dilation[k] - 1;
        w->begin[i] = begin[k];
        w->end[i] = end[k];
    }
}

/* Floats, or codes; types were checked. */
static qg_status make_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                           const qg_accel_codes *codes, qg_kernel **out)
{
    assert(p->groups > 0 && c->node->n_in > 1);
    *out = NULL;
    const qg_tensor *bias = c->in[2];
    bool constants = !c->in[0]->data && c->in[1]->data && (!bias || bias->data);
    bool deep = p->in[0] > 1 || p->kernel[0] > 1 || p->out[0] > 1;
    if (!constants || any_empty(c) || (deep && (p->in[0] == 1 || p->out[0] == 1)))
        return QG_OK;
    request r = {
        .has_weights = true, .has_bias = bias != NULL, .codes = codes, .channel_axis = 1
    };
    describe_activation(&r.src, c->in[0], p->in);
    describe_activation(&r.dst, c->out[0], p->out);
    describe_weights(&r, c, p, transposed);
    dnnl_dims_t channels = { p->out_channels }, one = { 1 };
    describe(&r.bias, codes ? dnnl_s32 : dnnl_f32, 1, channels, one);
    dnnl_memory_desc_t any = r.weights, *b = bias ? &r.bias : NULL;
    (void)dnnl_memory_desc_init_by_tag(&any, r.weights.ndims, r.weights.dims,
                                       r.weights.data_type, dnnl_format_tag_any);
    window w;
    window_of(&w, p->stride, p->dilation, p->pad_begin, p->pad_end, deep ? 3 : 2);
    dnnl_convolution_desc_t conv;
    dnnl_deconvolution_desc_t deconv;
    dnnl_status_t s =
        transposed ? dnnl_dilated_deconvolution_forward_desc_init(
                         &deconv, dnnl_forward_inference, dnnl_deconvolution_direct,
                         &r.src, &any, b, &r.dst, w.stride, w.dilation, w.begin, w.end)
                   : dnnl_dilated_convolution_forward_desc_init(
                         &conv, dnnl_forward_inference, dnnl_convolution_direct, &r.src,
                         &any, b, &r.dst, w.stride, w.dilation, w.begin, w.end);
    if (s != dnnl_success) /* a shape oneDNN refuses */
        return QG_OK;
    r.desc = transposed ? (dnnl_op_desc_t)&deconv : (dnnl_op_desc_t)&conv;
    QG_TRY(with_program(c, &r, bias, false, out));
    if (*out) {
        (*out)->in_layout[0] = QG_LAYOUT_CHANNELS_LAST;
        (*out)->out_layout = QG_LAYOUT_CHANNELS_LAST;
    }
    return QG_OK;
}

qg_status qg_accel_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                        qg_kernel **out)
{
    *out = NULL;
    return all_float(c) ? make_conv(c, p, transposed, NULL, out) : QG_OK;
}

qg_status qg_accel_conv_codes(qg_compile *c, const qg_conv_problem *p, bool transposed,
                              const qg_accel_codes *codes, qg_kernel **out)
{
    *out = NULL;
    return all_codes(c, codes) ? make_conv(c, p, transposed, codes, out) : QG_OK;
}

/* --- pooling --- */

qg_status qg_accel_pool(qg_compile *c, const qg_pool_problem *p, qg_kernel **out)
{
    assert((unsigned)p->kind <= QG_POOL_LP);
    *out = NULL;
    bool deep = p->in[0] > 1;
    if (!all_float(c) || any_empty(c) || c->in[0]->data || p->kind == QG_POOL_LP ||
        c->node->n_out != 1 || (deep && p->out[0] == 1))
        return QG_OK;
    request r = { 0 };
    describe_activation(&r.src, c->in[0], p->in);
    describe_activation(&r.dst, c->out[0], p->out);
    window w;
    window_of(&w, p->stride, p->dilation, p->pad_begin, p->pad_end, deep ? 3 : 2);
    dnnl_dims_t kernel;
    for (int i = 0, axes = deep ? 3 : 2; i < axes; i++)
        kernel[i] = p->kernel[QG_SPACE - axes + i];
    dnnl_alg_kind_t kind = p->kind == QG_POOL_MAX ? dnnl_pooling_max
                           : p->count_pad         ? dnnl_pooling_avg_include_padding
                                                  : dnnl_pooling_avg_exclude_padding;
    dnnl_pooling_v2_desc_t pool;
    if (dnnl_pooling_v2_forward_desc_init(&pool, dnnl_forward_inference, kind, &r.src,
                                          &r.dst, w.stride, kernel, w.dilation, w.begin,
                                          w.end) != dnnl_success)
        return QG_OK;
    r.desc = &pool;
    QG_TRY(with_program(c, &r, NULL, false, out));
    if (*out) {
        (*out)->in_layout[0] = QG_LAYOUT_CHANNELS_LAST;
        (*out)->out_layout = QG_LAYOUT_CHANNELS_LAST;
    }
    return QG_OK;
}

/* --- matrix product --- */

/* [.., rows, columns] padded with leading ones to `rank`, plain or transposed. */
static void describe_matrix(dnnl_memory_desc_t *md, const qg_tensor *t, int rank,
                            bool transposed)
{
    dnnl_dims_t dims, strides;
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
        int k = i - (rank - t->rank);
        dims[i] = k < 0 ? 1 : t->dim[k];
        strides[i] = step;
        step *= dims[i];
    }
    if (transposed) {
        assert(rank == 2);
        int64_t d = dims[0], s = strides[0];
        dims[0] = dims[1], strides[0] = strides[1];
        dims[1] = d, strides[1] = s;
    }
    describe(md, type_of(t), rank, dims, strides);
}

/* A matrix on the right that all leading dims share makes one product of their rows;
 * oneDNN would compute one product for each. */
static bool one_product(const qg_tensor *a, const qg_tensor *b)
{
    for (int i = 0; i < b->rank - 2; i++)
        if (b->dim[i] != 1)
            return false;
    return a->rank > 2 || b->rank > 2;
}

/* t as a matrix of its last dim. */
static qg_tensor flattened(const qg_tensor *t)
{
    const int64_t n = t->dim[t->rank - 1];
    qg_tensor flat;
    qg_tensor_init(&flat, t->dtype, 2, (const int64_t[]){ qg_tensor_count(t) / n, n });
    flat.data = t->data;
    return flat;
}

/* One row of n elements, broadcast over all leading dims. */
static void describe_row(dnnl_memory_desc_t *md, dnnl_data_type_t type, int rank,
                         int64_t n)
{
    dnnl_dims_t dims, strides;
    for (int i = 0; i < rank; i++) {
        dims[i] = i == rank - 1 ? n : 1;
        strides[i] = i == rank - 1 ? 1 : n;
    }
    describe(md, type, rank, dims, strides);
}

/* alpha, vectors and constants on the left are left to the definition. */
static qg_status make_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                             const qg_accel_codes *codes, qg_kernel **out)
{
    const qg_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
    assert(a && b && y);
    *out = NULL;
    int rank = y->rank;
    if (any_empty(c) || p->alpha != 1 || a->rank < 2 || b->rank < 2 || rank < 2 ||
        a->rank > rank || b->rank > rank || a->data ||
        (bias >= 0 && (!c->in[bias]->data || qg_tensor_count(c->in[bias]) != p->n)))
        return QG_OK;
    const bool flat = !p->trans_a && one_product(a, b);
    const qg_tensor rows = flattened(a), weight = flattened(b), product = flattened(y);
    if (flat)
        rank = 2, a = &rows, b = &weight, y = &product;
    request r = { .has_weights = true,
                  .has_bias = bias >= 0,
                  .codes = codes,
                  .channel_axis = rank - 1 };
    describe_matrix(&r.src, a, rank, p->trans_a);
    describe_matrix(&r.weights, b, rank, p->trans_b);
    describe_matrix(&r.dst, y, rank, false);
    describe_row(&r.bias, codes ? dnnl_s32 : dnnl_f32, rank, p->n);
    dnnl_memory_desc_t weights = r.weights;
    if (b->data)
        (void)dnnl_memory_desc_init_by_tag(&weights, rank, r.weights.dims,
                                           r.weights.data_type, dnnl_format_tag_any);
    dnnl_matmul_desc_t desc;
    if (dnnl_matmul_desc_init(&desc, &r.src, &weights, bias >= 0 ? &r.bias : NULL,
                              &r.dst) != dnnl_success)
        return QG_OK;
    r.desc = &desc;
    return with_program(c, &r, bias >= 0 ? c->in[bias] : NULL, !b->data, out);
}

qg_status qg_accel_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                          qg_kernel **out)
{
    *out = NULL;
    return all_float(c) ? make_matmul(c, p, bias, NULL, out) : QG_OK;
}

qg_status qg_accel_matmul_codes(qg_compile *c, const qg_gemm_problem *p,
                                const qg_accel_codes *codes, qg_kernel **out)
{
    *out = NULL;
    return all_codes(c, codes) ? make_matmul(c, p, c->in[2] ? 2 : -1, codes, out)
                               : QG_OK;
}

const char *qg_accel_version(char text[32])
{
    const dnnl_version_t *v = dnnl_version();
    (void)snprintf(text, 32, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

/* Newest first: the first whose bits are all there. */
const char *qg_accel_isa(void)
{
    static const struct {
        unsigned bits;
        const char *name;
    } all[] = {
        {dnnl_cpu_isa_avx512_core_amx,   "avx512_core_amx" },
        { dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        { dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        { dnnl_cpu_isa_avx512_core,      "avx512_core"     },
        { dnnl_cpu_isa_avx2_vnni,        "avx2_vnni"       },
        { dnnl_cpu_isa_avx2,             "avx2"            },
        { dnnl_cpu_isa_avx,              "avx"             },
        { dnnl_cpu_isa_sse41,            "sse41"           },
    };
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if ((isa & all[i].bits) == all[i].bits)
            return all[i].name;
    return "other";
}

#else /* no oneDNN: every case falls to the definitions */

qg_status qg_accel_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                        qg_kernel **out)
{
    (void)c, (void)p, (void)transposed;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_conv_codes(qg_compile *c, const qg_conv_problem *p, bool transposed,
                              const qg_accel_codes *codes, qg_kernel **out)
{
    (void)c, (void)p, (void)transposed, (void)codes;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_matmul_codes(qg_compile *c, const qg_gemm_problem *p,
                                const qg_accel_codes *codes, qg_kernel **out)
{
    (void)c, (void)p, (void)codes;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                          qg_kernel **out)
{
    (void)c, (void)p, (void)bias;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_pool(qg_compile *c, const qg_pool_problem *p, qg_kernel **out)
{
    (void)c, (void)p;
    *out = NULL;
    return QG_OK;
}

const char *qg_accel_version(char text[32])
{
    (void)snprintf(text, 32, "none");
    return text;
}

const char *qg_accel_isa(void) { return "any"; }

#endif
