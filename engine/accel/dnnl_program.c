/* dnnl_program.c -- from a request to a kernel: primitive, packed weights, the memory
 * objects of a run. */
#include "engine/accel/finish.h"

#if QG_HAVE_DNNL

#include <assert.h>
#include <math.h>
#include <pthread.h>

#include "engine/accel/dnnl_program.h"

typedef qg_dnnl_request request;

/* libgomp's switch; oneDNN parallelizes with OpenMP and workers need one thread
 * each. */
extern void omp_set_num_threads(int n);

/* The whole, or a part of it. */
typedef struct piece {
    dnnl_primitive_t primitive;
    size_t scratch_bytes;
    size_t src_at, dst_at, other_at; /* as in the request */
    dnnl_memory_t weights, bias;     /* of its columns; NULL: those of the program */
} piece;

/* State shared by all workers. */
typedef struct program {
    dnnl_engine_t engine;
    dnnl_memory_t weights, bias; /* NULL: none */
    bool has_other;              /* the second operand comes at run time */
    piece *piece;                /* [1 + parts]: the whole first */
    uint32_t pieces;             /* that have a primitive */
} program;

/* State owned by one run context, for one piece. */
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

/* Memory objects without a buffer: run_piece gives them one for each call. */
static qg_status binding_make(qg_ctx *ctx, const program *p, const piece *q, binding *b)
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
    DNNL(ctx, dnnl_primitive_get_primitive_desc(q->primitive, &pd));
    for (int i = 0, n = p->has_other ? 4 : 3; i < n; i++)
        DNNL(ctx, qg_dnnl_memory_create(operand[i].memory, queried(pd, operand[i].what),
                                        p->engine, DNNL_MEMORY_NONE));
    return QG_OK;
}

static void kernel_close(const qg_kernel *k, void *local)
{
    const program *p = k->state;
    for (uint32_t i = 0; i < p->pieces; i++)
        binding_free((binding *)local + i);
}

/* The bindings lie in the worker's arena; their contents are released by kernel_close,
 * or here. */
static qg_status kernel_open(const qg_kernel *k, qg_ctx *ctx, void **local)
{
    const program *p = k->state;
    binding *b = QG_NEWN(ctx->arena, p->pieces, binding);
    if (!b)
        return qg_nomem(ctx);
    for (uint32_t i = 0; i < p->pieces; i++) {
        qg_status s = binding_make(ctx, p, &p->piece[i], &b[i]);
        if (s != QG_OK) {
            kernel_close(k, b);
            return s;
        }
    }
    *local = b;
    return QG_OK;
}

static qg_status set_data(qg_ctx *ctx, dnnl_memory_t m, const qg_tensor *t, size_t at)
{
    DNNL(ctx, qg_dnnl_memory_set_data_handle(m, (char *)t->data + at));
    return QG_OK;
}

/* The thread count is set every time: it belongs to the calling thread, and another
 * library may have changed it. */
static qg_status run_piece(const program *p, const piece *q, const qg_call *call,
                           binding *b)
{
    qg_ctx *ctx = call->ctx;
    dnnl_exec_arg_t arg[5];
    int n = 0;
    void *scratch = qg_arena_raw(call->scratch, q->scratch_bytes, 1);
    if (!scratch)
        return qg_nomem(ctx);
    omp_set_num_threads(1);
    QG_TRY(set_data(ctx, b->src, call->in[0], q->src_at));
    QG_TRY(set_data(ctx, b->dst, call->out[0], q->dst_at));
    DNNL(ctx, qg_dnnl_memory_set_data_handle(b->scratch, scratch));
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, b->src };
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_DST, b->dst };
    arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, b->scratch };
    if (p->has_other) {
        QG_TRY(set_data(ctx, b->other, call->in[1], q->other_at));
        arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, b->other };
    } else if (p->weights) {
        arg[n++] =
            (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, q->weights ? q->weights : p->weights };
    }
    if (p->bias)
        arg[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, q->bias ? q->bias : p->bias };
    DNNL(ctx, qg_dnnl_primitive_execute(q->primitive, b->stream, n, arg));
    return QG_OK;
}

static qg_status kernel_run(const qg_kernel *k, const qg_call *call)
{
    const program *p = k->state;
    assert(p && call->local); /* kernel_open made it */
    return run_piece(p, &p->piece[0], call, call->local);
}

static qg_status kernel_part(const qg_kernel *k, const qg_call *call, uint32_t i)
{
    const program *p = k->state;
    assert(p && call->local && i + 1 < p->pieces);
    return run_piece(p, &p->piece[i + 1], call, (binding *)call->local + i + 1);
}

static void piece_free(piece *q)
{
    if (q->weights)
        (void)dnnl_memory_destroy(q->weights);
    if (q->bias)
        (void)dnnl_memory_destroy(q->bias);
    (void)dnnl_primitive_destroy(q->primitive);
}

/* Takes a program that was made half way. */
static void program_free(program *p)
{
    if (p->weights)
        (void)dnnl_memory_destroy(p->weights);
    if (p->bias)
        (void)dnnl_memory_destroy(p->bias);
    for (uint32_t i = 0; i < p->pieces; i++)
        piece_free(&p->piece[i]);
    if (p->engine)
        (void)dnnl_engine_destroy(p->engine);
}

static void kernel_destroy(qg_kernel *k) { program_free(k->state); }

/* --- memory --- */

dnnl_data_type_t qg_dnnl_type(const qg_tensor *t)
{
    return t->dtype == QG_F32   ? dnnl_f32
           : t->dtype == QG_I8  ? dnnl_s8
           : t->dtype == QG_U8  ? dnnl_u8
           : t->dtype == QG_I32 ? dnnl_s32
                                : dnnl_data_type_undef;
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

/* Absorbs followers as long as each is a clamp; the first other node ends the chain.
 * oneDNN's clamps make 0, or the lower limit, of NaN. */
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
    const size_t most = c->meets_nan && !r->codes ? 0 : c->n_chain;
    for (*absorbed = 0; *absorbed < most && s == dnnl_success; ++*absorbed) {
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
    dnnl_status_t found = dnnl_success;
    qg_status s = make_attributes(c, r, absorbed, &attr);
    if (s == QG_OK)
        found = qg_dnnl_primitive_desc_create(pd, &r->desc, attr, p->engine, NULL);
    if (found != dnnl_success)
        *pd = NULL;
    if (found == dnnl_out_of_memory)
        s = qg_nomem(c->ctx);
    if (attr)
        (void)dnnl_primitive_attr_destroy(attr);
    return s;
}

static const char *name_of(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

static qg_status add_piece(qg_compile *c, program *p, const request *r,
                           const_dnnl_primitive_desc_t pd)
{
    piece *q = &p->piece[p->pieces];
    DNNL(c->ctx, qg_dnnl_primitive_create(&q->primitive, pd));
    p->pieces++;
    q->scratch_bytes = dnnl_memory_desc_get_size(queried(pd, dnnl_query_scratchpad_md));
    q->src_at = r->src_at, q->dst_at = r->dst_at, q->other_at = r->other_at;
    return QG_OK;
}

/* Weights are packed once into the layout the implementation requires.  The bias stays
 * in the graph's memory; only the descriptor is oneDNN's. */
static qg_status bind_constants(qg_compile *c, program *p, const request *r,
                                const qg_tensor *bias, const_dnnl_primitive_desc_t pd)
{
    if (r->has_weights && !p->has_other)
        QG_TRY(pack(c, p, &r->weights, c->in[1]->data,
                    queried(pd, dnnl_query_weights_md), &p->weights));
    if (r->has_bias)
        DNNL(c->ctx, qg_dnnl_memory_create(&p->bias, &r->bias, p->engine, bias->data));
    return QG_OK;
}

/* --- parts --- */

/* Columns of the packed weights that belong together; 0: those of a part would not be
 * one piece of memory. */
static int64_t block_of(const dnnl_memory_desc_t *md, int axis)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    int64_t block = 1;
    if (md->format_kind != dnnl_blocked || md->extra.flags || md->offset0)
        return 0;
    for (int i = 0; i < b->inner_nblks; i++)
        block *= b->inner_idxs[i] == axis ? b->inner_blks[i] : 1;
    for (int i = 0; i < md->ndims; i++)
        if (i != axis && md->padded_dims[i] > 1 && b->strides[i] >= b->strides[axis])
            return 0;
    return block;
}

dnnl_memory_desc_t qg_dnnl_columns(const dnnl_memory_desc_t *packed, int axis,
                                   qg_dnnl_span at)
{
    const int64_t block = block_of(packed, axis), n = at.to - at.from;
    dnnl_memory_desc_t md = *packed;
    assert(block > 0 && at.from % block == 0);
    md.dims[axis] = n;
    md.padded_dims[axis] = (n + block - 1) / block * block;
    return md;
}

/* The part's weights and bias, in the memory of the whole. */
static qg_status bind_columns(qg_compile *c, const program *p, const qg_dnnl_job *job,
                              const request *r, const_dnnl_primitive_desc_t pd,
                              piece *q)
{
    const dnnl_memory_desc_t *md = queried(pd, dnnl_query_weights_md);
    const int axis = job->weights_axis;
    const int64_t block = block_of(md, axis);
    void *data;
    assert(block > 0 && p->weights);
    DNNL(c->ctx, dnnl_memory_get_data_handle(p->weights, &data));
    data = (float *)data +
           r->first_column / block * md->format_desc.blocking.strides[axis];
    DNNL(c->ctx, qg_dnnl_memory_create(&q->weights, md, p->engine, data));
    if (r->has_bias)
        DNNL(c->ctx, qg_dnnl_memory_create(&q->bias, &r->bias, p->engine,
                                           job->bias->f32 + r->first_column));
    return QG_OK;
}

/* One part; false: it is not as the whole. */
static qg_status make_part(qg_compile *c, program *p, const qg_dnnl_job *job,
                           qg_dnnl_span rows, const qg_kernel *whole, bool *made)
{
    const_dnnl_primitive_desc_t first;
    dnnl_primitive_desc_t pd = NULL;
    uint32_t absorbed;
    request r;
    *made = false;
    DNNL(c->ctx, dnnl_primitive_get_primitive_desc(p->piece[0].primitive, &first));
    if (!job->describe(job->problem, rows, queried(first, dnnl_query_weights_md), &r))
        return QG_OK;
    QG_TRY(choose(c, p, &r, &absorbed, &pd));
    if (!pd)
        return QG_OK;
    qg_status s = QG_OK;
    if (absorbed == whole->absorbed && strcmp(name_of(pd), name_of(first)) == 0) {
        s = add_piece(c, p, &r, pd);
        if (s == QG_OK && job->columns)
            s = bind_columns(c, p, job, &r, pd, &p->piece[p->pieces - 1]);
        *made = s == QG_OK;
    }
    (void)dnnl_primitive_desc_destroy(pd);
    return s;
}

/* As block_of, for the weights of the whole. */
static qg_status columns_of(qg_compile *c, const program *p, int axis, int64_t *block)
{
    const_dnnl_primitive_desc_t first;
    DNNL(c->ctx, dnnl_primitive_get_primitive_desc(p->piece[0].primitive, &first));
    *block = block_of(queried(first, dnnl_query_weights_md), axis);
    return QG_OK;
}

/* All parts, or none.  sums: of products. */
static qg_status make_parts(qg_compile *c, program *p, const qg_dnnl_job *job,
                            bool sums, qg_kernel *k)
{
    int64_t unit = 1;
    if (job->columns)
        QG_TRY(columns_of(c, p, job->weights_axis, &unit));
    const int64_t units = unit ? (job->rows + unit - 1) / unit : 0;
    const int64_t n = qg_compile_parts(c, units, job->work);
    const bool exact = !sums || c->in[0]->dtype != QG_F32;
    bool made = true;
    if (n < 2 || (!exact && strstr(k->name, "gemm")))
        return QG_OK;
    for (int64_t i = 0; i < n && made; i++) {
        qg_dnnl_span rows = { units * i / n * unit, units * (i + 1) / n * unit };
        rows.to = rows.to < job->rows ? rows.to : job->rows;
        QG_TRY(make_part(c, p, job, rows, k, &made));
    }
    for (; !made && p->pieces > 1; p->pieces--)
        piece_free(&p->piece[p->pieces - 1]);
    k->parts = p->pieces - 1;
    k->part = kernel_part;
    return QG_OK;
}

/* --- kernels --- */

/* A kernel from the request; *out stays NULL when oneDNN has no implementation. */
static qg_status make_kernel(qg_compile *c, program *p, const qg_dnnl_job *job,
                             const request *r, qg_kernel **out)
{
    dnnl_primitive_desc_t pd = NULL;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    if (!k)
        return qg_nomem(c->ctx);
    QG_TRY(choose(c, p, r, &k->absorbed, &pd));
    if (!pd)
        return QG_OK;
    const char *name = name_of(pd);
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
    qg_status s = k->name ? add_piece(c, p, r, pd) : qg_nomem(c->ctx);
    if (s == QG_OK)
        s = bind_constants(c, p, r, job->bias, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    QG_TRY(s);
    k->packed = p->weights ? 1u << 1 : 0;
    QG_TRY(make_parts(c, p, job, r->has_weights, k));
    *out = k;
    return QG_OK;
}

/* Runs make_kernel on a fresh program and releases it when nothing came of it. */
static qg_status make_program(qg_compile *c, const qg_dnnl_job *job, const request *r,
                              qg_kernel **out)
{
    program *p = QG_NEW(c->arena, program);
    if (!p || !(p->piece = QG_NEWN(c->arena, (size_t)c->threads + 1, piece)))
        return qg_nomem(c->ctx);
    omp_set_num_threads(1);
    DNNL(c->ctx, qg_dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    p->has_other = r->has_other;
    qg_status s = make_kernel(c, p, job, r, out);
    if (!*out || s != QG_OK) {
        program_free(p);
        *out = NULL;
    }
    return s;
}

/* Programs of several threads are made one after another: oneDNN 2.6.3 sometimes makes
 * a wrong AVX-512 convolution when two threads begin at once (8 of 100 runs of
 * qg diverge on two threads). */
static pthread_mutex_t program_lock = PTHREAD_MUTEX_INITIALIZER;

qg_status qg_dnnl_kernel(qg_compile *c, const qg_dnnl_job *job, qg_kernel **out)
{
    request r;
    *out = NULL;
    if (!job->describe(job->problem, (qg_dnnl_span){ 0, job->rows }, NULL, &r))
        return QG_OK;
    (void)pthread_mutex_lock(&program_lock);
    qg_status s = make_program(c, job, &r, out);
    (void)pthread_mutex_unlock(&program_lock);
    return s;
}

#endif
