/* Every operator on random attributes, types, shapes and data: whatever comes, the
 * answer is a status with a message or a computed output, never a crash (the
 * sanitizers watch) and never an unknown shape at run time.
 *
 * Seeds are printed: rerun one with QG_SEED; QG_SECONDS says how long to go on. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "engine/ir/graph.h"
#include "ops/families.h"
#include "ops/util_cast.h"
#include "tests/support/case_runner.h"

enum { MAX_SLOTS = 12, MAX_ATTRS = 5, MAX_LIST = 9, LARGEST = 1 << 22, SECONDS = 4 };

static const char *const names[] = {
    "activation",
    "activation_alpha",
    "activations",
    "align_corners",
    "allowzero",
    "alpha",
    "antialias",
    "approximate",
    "auto_pad",
    "axes",
    "axis",
    "batch_axis",
    "batch_dims",
    "beta",
    "block_size",
    "blocksize",
    "broadcast",
    "ceil_mode",
    "center_point_box",
    "clip",
    "coordinate_transformation_mode",
    "count_include_pad",
    "dilations",
    "direction",
    "dtype",
    "end",
    "ends",
    "epsilon",
    "equation",
    "exclude_outside",
    "exclusive",
    "fmod",
    "group",
    "hidden_size",
    "interleaved",
    "is_causal",
    "k",
    "keep_aspect_ratio_policy",
    "keepdims",
    "kernel_shape",
    "kv_num_heads",
    "largest",
    "layout",
    "left_window_size",
    "mode",
    "nearest_mode",
    "num_groups",
    "num_heads",
    "num_outputs",
    "offset_group",
    "output_dtype",
    "output_height",
    "output_padding",
    "output_shape",
    "p",
    "padding_mode",
    "pads",
    "perm",
    "pooled_shape",
    "precision",
    "q_num_heads",
    "qk_matmul_output_mode",
    "ratio",
    "reduction",
    "reverse",
    "rotary_embedding_dim",
    "sampling_ratio",
    "scale",
    "scales",
    "shape",
    "size",
    "split",
    "start",
    "starts",
    "stash_type",
    "storage_order",
    "strides",
    "time_axis",
    "to",
    "training_mode",
    "transA",
    "transB",
    "update_rule",
    "upper",
    "value",
    "value_float",
    "value_ints",
};
static const char *const words[] = {
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "linear",
    "cubic",
    "nearest",
    "bilinear",
    "reflect",
    "edge",
    "wrap",
    "border",
    "reflection",
    "reverse",
    "bidirectional",
    "ij,jk->ik",
    "...i,i...->i",
    "ii",
    "add",
    "mul",
    "max",
    "avg",
    "half_pixel",
    "tf_crop_and_resize",
    "align_corners",
    "not_larger",
    "CRD",
    "tanh",
    "Relu",
    "floor",
    "gated",
    "delta",
    "silu",
    "",
};
static const qg_dtype types[] = { QG_F32,  QG_F32, QG_F32, QG_F32,     QG_I64, QG_I64,
                                  QG_I32,  QG_U8,  QG_I8,  QG_BOOL,    QG_F16, QG_F64,
                                  QG_BF16, QG_U64, QG_I4,  QG_F8E4M3FN };
#define PICK(list) ((list)[qg_rng_below(r, sizeof(list) / sizeof(list)[0])])

/* Large requests fail: hostile shapes must not eat the machine. */
static void *get(void *ud, size_t size)
{
    (void)ud;
    return size > LARGEST ? NULL : malloc(size);
}

static void drop(void *ud, void *p)
{
    (void)ud;
    free(p);
}

static int64_t whole(qg_rng *r)
{
    static const int64_t odd[] = { INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1 << 20,
                                   -100,      1000,      16,        8 };
    return qg_rng_below(r, 12) == 0 ? PICK(odd) : (int64_t)qg_rng_below(r, 7) - 2;
}

static double real(qg_rng *r)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, 1e30, -1e30, 1e-40, 0 };
    return qg_rng_below(r, 12) == 0 ? PICK(odd) : (double)qg_rng_range(r, -3, 5);
}

static const qg_tensor *tensor(qg_ctx *ctx, qg_rng *r, const qg_tensor *like)
{
    qg_tensor *t = QG_NEW(ctx->arena, qg_tensor);
    qg_dtype d = like && qg_rng_below(r, 4) ? like->dtype : PICK(types);
    int64_t dim[QG_MAX_RANK];
    int32_t rank = (int32_t)qg_rng_below(r, 6);
    bool same = like && qg_rng_below(r, 2);
    for (int i = 0; i < QG_MAX_RANK; i++)
        dim[i] = qg_rng_below(r, 20) ? 1 + (int64_t)qg_rng_below(r, 4) : 0;
    assert_non_null(t);
    qg_tensor_init(t, d, same ? like->rank : rank, same ? like->dim : dim);
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, t));
    bool counts = qg_dtype_kind_of(d) != QG_KIND_FLOAT;
    for (int64_t i = 0; i < qg_tensor_count(t); i++) {
        int64_t v = whole(r);
        double x = real(r);
        qg_cast_side to = { d, t->data, i };
        qg_cast(counts ? (qg_cast_side){ QG_I64, &v, 0 }
                       : (qg_cast_side){ QG_F64, &x, 0 },
                to, 1, true);
    }
    return t;
}

static qg_attr attribute(qg_ctx *ctx, qg_rng *r)
{
    size_t n = qg_rng_below(r, MAX_LIST);
    int64_t *ints = QG_NEWN(ctx->arena, MAX_LIST, int64_t);
    float *floats = QG_NEWN(ctx->arena, MAX_LIST, float);
    const char **strings = QG_NEWN(ctx->arena, MAX_LIST, const char *);
    assert_non_null(ints);
    assert_non_null(floats);
    assert_non_null(strings);
    for (size_t i = 0; i < MAX_LIST; i++) {
        ints[i] = whole(r);
        floats[i] = (float)real(r);
        strings[i] = PICK(words);
    }
    qg_attr a = { .name = qg_intern(ctx, PICK(names)), .count = 1 };
    switch (qg_rng_below(r, 7)) {
    case 0:
        return a.type = QG_ATTR_FLOAT, a.floats = floats, a;
    case 1:
        return a.type = QG_ATTR_STRING, a.strings = strings, a;
    case 2:
    case 3:
        return a.type = QG_ATTR_INTS, a.ints = ints, a.count = n, a;
    case 4:
        return a.type = qg_rng_below(r, 2) ? QG_ATTR_FLOATS : QG_ATTR_STRINGS,
               a.count = n,
               a.type == QG_ATTR_FLOATS ? (void)(a.floats = floats)
                                        : (void)(a.strings = strings),
               a;
    case 5:
        if (qg_rng_below(r, 3) == 0)
            return a.type = QG_ATTR_TENSOR, a.tensor = tensor(ctx, r, NULL), a;
        /* fall through */
    default:
        return a.type = QG_ATTR_INT, a.ints = ints, a;
    }
}

/* prepare, infer without data, infer, run. */
static qg_status attempt(qg_call *k, const qg_tensor *const *in, qg_arena *a)
{
    const qg_tensor *bare[MAX_SLOTS] = { 0 };
    qg_tensor shape[MAX_SLOTS];
    const qg_op *op = k->node->op;
    for (size_t i = 0; i < k->n_in; i++)
        if (in[i]) {
            shape[i] = *in[i];
            shape[i].data = NULL;
            bare[i] = &shape[i];
        }
    k->in = bare;
    QG_TRY(op->infer(k));
    k->in = in;
    QG_TRY(op->infer(k));
    for (size_t i = 0; i < k->n_out; i++) {
        if (!k->out[i])
            continue;
        if (!qg_tensor_known(k->out[i]))
            fail_msg("%s %d: output %zu has no shape at run time", op->name,
                     (int)op->since, i);
        QG_TRY(qg_tensor_alloc(k->ctx, a, k->out[i]));
    }
    return op->run(k);
}

static qg_status one(qg_ctx *ctx, const qg_op *op, qg_rng *r, qg_arena *scratch)
{
    qg_graph *g;
    qg_attr attr[MAX_ATTRS];
    qg_value *value[2 * MAX_SLOTS] = { 0 };
    const qg_tensor *in[MAX_SLOTS] = { 0 };
    qg_tensor made[MAX_SLOTS] = { 0 }, *out[MAX_SLOTS] = { 0 };
    size_t most = op->max_in < MAX_SLOTS ? op->max_in : MAX_SLOTS;
    size_t outs = op->max_out < 4 ? op->max_out : 4;
    qg_node_spec s = { .op = op,
                       .opset = op->since,
                       .in = value,
                       .out = value + MAX_SLOTS,
                       .attr = attr };
    s.n_in = (uint32_t)(op->min_in + qg_rng_below(r, most - op->min_in + 1));
    s.n_out = (uint32_t)(outs > op->min_out
                             ? op->min_out + qg_rng_below(r, outs - op->min_out + 1)
                             : outs);
    s.n_attr = qg_rng_below(r, MAX_ATTRS + 1);
    assert_ok(ctx, qg_graph_new(ctx, "g", &g));
    for (size_t i = 0; i < s.n_in; i++) {
        if (i >= op->min_in && qg_rng_below(r, 4) == 0)
            continue;
        in[i] = tensor(ctx, r, i ? in[0] : NULL);
        assert_ok(ctx, qg_graph_add_value(g, NULL, &value[i]));
        value[i]->type = *in[i];
        value[i]->type.data = NULL;
    }
    for (size_t i = 0; i < s.n_out; i++) {
        assert_ok(ctx, qg_graph_add_value(g, NULL, &value[MAX_SLOTS + i]));
        out[i] = &made[i];
    }
    for (size_t i = 0; i < s.n_attr; i++)
        attr[i] = attribute(ctx, r);
    qg_node *node;
    qg_status status = qg_graph_add_node(g, &s, &node);
    if (status == QG_OK) {
        qg_call k = { .ctx = ctx,
                      .node = node,
                      .param = node->param,
                      .n_in = s.n_in,
                      .n_out = s.n_out,
                      .out = out,
                      .scratch = scratch };
        status = attempt(&k, in, g->arena);
    }
    qg_graph_free(g);
    return status;
}

static void nothing_crashes(void **state)
{
    const char *given = getenv("QG_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;
    size_t tried = 0, ran = 0;
    const char *seconds = getenv("QG_SECONDS");
    time_t end = time(NULL) + (seconds ? atoi(seconds) : SECONDS);
    qg_arena *scratch = qg_arena_new((qg_alloc){ get, drop, NULL });
    (void)state;
    for (; given ? tried == 0 : time(NULL) < end; seed++) {
        uint64_t row = 0;
        for (size_t f = 0; f < qg_ops_registry.n_family; f++)
            for (const qg_op *op = qg_ops_registry.family[f]; op->name; op++) {
                qg_ctx *ctx = qg_ctx_new((qg_alloc){ get, drop, NULL });
                qg_rng r = { seed << 20 | row++ };
                tried++;
                if (op->traits & QG_OP_CONTROL) {
                    qg_ctx_free(ctx);
                    continue;
                }
                ctx->registry = &qg_ops_registry;
                qg_status s = one(ctx, op, &r, scratch);
                ran += s == QG_OK;
                if (s != QG_OK && !*qg_ctx_message(ctx))
                    fail_msg("%s %d: no message, seed %llu", op->name, (int)op->since,
                             (unsigned long long)seed);
                qg_arena_reset(scratch);
                qg_ctx_free(ctx);
            }
    }
    printf("%zu nodes, %zu of them ran, last seed %llu\n", tried, ran,
           (unsigned long long)seed);
    assert_cmp_int(ran, >, 0);
    qg_arena_free(scratch);
}

/* --- cases of tests/ops with one thing changed ---------------------------------- */

/* The same tensor with one dim changed, in another type, or with other numbers. */
static const qg_tensor *changed(qg_ctx *ctx, qg_rng *r, const qg_tensor *t)
{
    qg_tensor *c = QG_NEW(ctx->arena, qg_tensor);
    int64_t dim[QG_MAX_RANK], n = qg_tensor_count(t), m;
    unsigned what = (unsigned)qg_rng_below(r, 4);
    int32_t rank = t->rank;
    assert_non_null(c);
    memcpy(dim, t->dim, sizeof dim);
    if (what == 0 && rank)
        dim[qg_rng_below(r, (uint64_t)rank)] = (int64_t)qg_rng_below(r, 6);
    if (what == 1 && rank < QG_MAX_RANK)
        dim[rank++] = 1 + (int64_t)qg_rng_below(r, 2);
    qg_tensor_init(c, what == 2 ? PICK(types) : t->dtype, rank, dim);
    if (qg_tensor_alloc(ctx, ctx->arena, c) != QG_OK)
        return t;
    m = qg_tensor_count(c);
    for (int64_t i = 0; i < m && n > 0; i++)
        qg_cast((qg_cast_side){ t->dtype, t->data, i % n },
                (qg_cast_side){ c->dtype, c->data, i }, 1, true);
    for (int64_t i = 0; i < m && what == 3; i++) {
        int64_t v = whole(r);
        double x = real(r);
        bool counts = qg_dtype_kind_of(c->dtype) != QG_KIND_FLOAT;
        qg_cast_side from =
            counts ? (qg_cast_side){ QG_I64, &v, 0 } : (qg_cast_side){ QG_F64, &x, 0 };
        if (qg_rng_below(r, 3) == 0)
            qg_cast(from, (qg_cast_side){ c->dtype, c->data, i }, 1, true);
    }
    return c;
}

static void change_attribute(qg_ctx *ctx, qg_rng *r, qg_attr *a)
{
    qg_attr other = attribute(ctx, r);
    bool list = a->type == QG_ATTR_INTS && a->count > 0;
    if (list || a->type == QG_ATTR_INT) {
        int64_t *ints = QG_NEWN(ctx->arena, a->count, int64_t);
        assert_non_null(ints);
        memcpy(ints, a->ints, a->count * sizeof *ints);
        ints[qg_rng_below(r, a->count)] = whole(r);
        a->ints = ints;
        return;
    }
    other.name = a->name;
    *a = other;
}

typedef struct mutation {
    qg_rng rng;
    size_t tried, ran;
} mutation;

static void mutate(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    mutation *m = ud;
    qg_rng *r = &m->rng;
    const qg_op *op = qg_op_find(ctx->registry, c->domain, c->name, c->opset);
    for (int i = 0; op && !(op->traits & QG_OP_CONTROL) && i < 8; i++) {
        op_case other = *c;
        for (uint64_t k = qg_rng_below(r, 2); k < 2; k++)
            if (other.n_attr && qg_rng_below(r, 3) == 0)
                change_attribute(ctx, r, &other.attr[qg_rng_below(r, other.n_attr)]);
            else if (other.n_in) {
                const qg_tensor **in = &other.in[qg_rng_below(r, other.n_in)];
                *in = *in ? changed(ctx, r, *in) : tensor(ctx, r, other.in[0]);
            }
        qg_status s = try_case(&other, ctx, scratch);
        m->tried++;
        m->ran += s == QG_OK;
        if (s == QG_ESTATE)
            fail_msg("%s:%d: %s", c->path, c->line, qg_ctx_message(ctx));
    }
}

static void mutated_cases_do_not_crash(void **state)
{
    const char *seconds = getenv("QG_SECONDS");
    time_t end = time(NULL) + (seconds ? atoi(seconds) : SECONDS);
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n;
    const char *seed = getenv("QG_SEED");
    mutation m = { .rng = { seed ? strtoull(seed, NULL, 10) : 1 } };
    (void)state;
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, "tests/ops", &name, &n));
    for (size_t i = 0; time(NULL) < end; i = (i + 1) % n)
        assert_int_equal(
            visit_case_file((qg_alloc){ get, drop, NULL }, &qg_ops_registry,
                            qg_path_join(ctx->arena, "tests/ops", name[i]), mutate, &m),
            QG_OK);
    printf("%zu changed cases, %zu of them ran\n", m.tried, m.ran);
    assert_cmp_int(m.ran, >, 0);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(nothing_crashes),
             cmocka_unit_test(mutated_cases_do_not_crash))
