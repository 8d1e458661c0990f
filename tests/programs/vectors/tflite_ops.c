/* tests/data/vectors/ops.json and ops.npz: single operators of the TFLite runtime. */
#include <string.h>

#include "engine/data/npz.h"
#include "engine/number/integer_exp.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_unary.h"
#include "tests/programs/vectors/library.h"

/* One kernel set: its name among other_kernels (NULL: the reference). */
static const struct {
    const char *name, *profile;
} sets[] = {
    {NULL,          "tflite-reference"    },
    { "integer_fc", "tflite-reference-1.2"},
    { "optimized",  "tflite-builtin-x86"  },
    { "delegate",   "tflite-xnnpack"      },
};
enum { N_SET = sizeof sets / sizeof sets[0] };

static const char *const activations[QG_NFUSED] = { "NONE", "RELU", "RELU6",
                                                    "RELU_N1_TO_1" };

/* The open archive and the case that is run. */
struct file {
    vec_run *v;
    qg_npz npz;
    const json *c;
    const qg_profile *profile; /* of the kernel set that is run */
    const qg_profile *set[N_SET];
};

static const qg_tensor *array(const struct file *f, const char *name)
{
    const qg_npz_member *m = qg_npz_find(&f->npz, name);
    const qg_tensor *t;
    if (!m || qg_npz_load(f->v->ctx, f->v->arena, &f->npz, m, &t) != QG_OK)
        vec_malformed("array '%s': %s", name, qg_ctx_message(f->v->ctx));
    return t;
}

/* Input or output number i of the operator. */
static const json *operand(const struct file *f, const char *which, size_t i)
{
    int64_t id = js_int(js_at(js_get(js_get(f->c, "op"), which), i));
    JS_EACH(t, js_get(f->c, "tensors"))
    if (js_i64(t, "id") == id)
        return t;
    vec_malformed("case '%s': no tensor %lld", f->v->name, (long long)id);
}

static const qg_tensor *contents(const struct file *f, const json *tensor)
{
    return array(f, js_str(tensor, "array"));
}

static qg_grid grid_of(const json *tensor)
{
    qg_dtype type = qg_dtype_named(js_str(tensor, "type"));
    const json *scale = js_get(tensor, "scale"), *zero = js_get(tensor, "zero_point");
    if (js_count(scale) != 1 || js_count(zero) != 1)
        vec_malformed("tensor '%s': not one scale", js_str(tensor, "name"));
    return (qg_grid){ type, (float)js_number(js_at(scale, 0)),
                      (int32_t)js_int(js_at(zero, 0)) };
}

static qg_int_dims dims_of(const qg_tensor *t)
{
    qg_int_dims d = { .rank = t->rank };
    for (int32_t i = 0; i < t->rank; i++)
        d.dim[i] = t->dim[i];
    return d;
}

static qg_fused fused(const struct file *f)
{
    const json *text = js_find(js_get(js_get(f->c, "op"), "attributes"), "activation");
    if (!text)
        return QG_FUSED_NONE;
    for (int a = 0; a < QG_NFUSED; a++)
        if (strcmp(activations[a], js_text(text)) == 0)
            return (qg_fused)a;
    vec_malformed("case '%s': activation %s", f->v->name, js_text(text));
}

/* An operator writes the codes of its output, as many as y holds, to storage. */
typedef qg_status run_fn(const struct file *f, const qg_tensor *y, void *storage);

static const qg_kernel_use use_of[QG_INT_NBINARY] = {
    QG_USE_ADD, QG_USE_SUB, QG_USE_MULTIPLY, QG_USE_SQUARED_DIFFERENCE, QG_USE_PRELU
};

static qg_status binary(const struct file *f, qg_int_binary_op op, void *storage)
{
    const json *a = operand(f, "inputs", 0), *b = operand(f, "inputs", 1);
    const qg_tensor *ta = contents(f, a), *tb = contents(f, b);
    qg_grid y = grid_of(operand(f, "outputs", 0));
    qg_int_binary_spec spec = { .op = op, .a = grid_of(a), .b = grid_of(b), .y = y };
    spec.range = qg_fused_range(fused(f), y.scale, qg_code_range_of(y.dtype, y.zero));
    spec.row = vec_row(f->profile, use_of[op], (qg_grid[]){ spec.a, spec.b, y });
    qg_int_argument in[2] = {
        {dims_of(ta),  ta->data},
        { dims_of(tb), tb->data}
    };
    qg_int_binary p;
    QG_TRY(qg_int_binary_prepare(f->v->ctx, &spec, &p));
    return qg_int_binary_run(f->v->ctx, &p, &in[0], &in[1], storage);
}

static qg_status add(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return binary(f, QG_INT_BINARY_ADD, storage);
}

static qg_status subtract(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return binary(f, QG_INT_BINARY_SUB, storage);
}

static qg_status multiply(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return binary(f, QG_INT_BINARY_MUL, storage);
}

static qg_status squared(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return binary(f, QG_INT_BINARY_SQUARED_DIFFERENCE, storage);
}

static qg_status prelu(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return binary(f, QG_INT_BINARY_PRELU, storage);
}

/* From one grid to another, within the codes of a clamp. */
static qg_status rescale(const struct file *f, qg_kernel_use use, qg_fused clamp,
                         int32_t *codes, size_t n)
{
    qg_grid x = grid_of(operand(f, "inputs", 0)), y = grid_of(operand(f, "outputs", 0));
    qg_rescale_spec spec = { vec_row(f->profile, use, (qg_grid[]){ x, { 0 }, y }), x, y,
                             qg_fused_range(clamp, y.scale,
                                            qg_code_range_of(y.dtype, y.zero)) };
    qg_rescale r;
    QG_TRY(qg_rescale_prepare(f->v->ctx, &spec, &r));
    qg_rescale_codes(&r, codes, codes, n);
    return QG_OK;
}

static qg_status relu(const struct file *f, const qg_tensor *y, void *storage)
{
    const char *type = js_str(js_get(f->c, "op"), "type");
    const qg_tensor *x = contents(f, operand(f, "inputs", 0));
    size_t n = (size_t)qg_tensor_count(y);
    int32_t *codes = VEC_NEW(f->v, n, int32_t);
    int clamp = QG_FUSED_RELU;
    while (clamp < QG_NFUSED - 1 && strcmp(activations[clamp], type) != 0)
        clamp++;
    qg_codes_load(x->dtype, x->data, 0, codes, n);
    QG_TRY(rescale(f, QG_USE_RELU, (qg_fused)clamp, codes, n));
    qg_codes_store(y->dtype, codes, storage, 0, n);
    return QG_OK;
}

static qg_status quantize(const struct file *f, const qg_tensor *y, void *storage)
{
    const qg_tensor *x = contents(f, operand(f, "inputs", 0));
    qg_grid to = grid_of(operand(f, "outputs", 0));
    size_t n = (size_t)qg_tensor_count(y);
    int32_t *codes = VEC_NEW(f->v, n, int32_t);
    if (x->dtype == QG_F32) {
        qg_quantizer q;
        const qg_profile_row *row = vec_row(f->profile, QG_USE_QUANTIZE,
                                            (qg_grid[]){
                                                {QG_F32, 0, 0 },
                                                { 0    },
                                                to
        });
        QG_TRY(qg_quantizer_prepare(f->v->ctx, row, to,
                                    qg_code_range_of(to.dtype, to.zero), &q));
        qg_quantizer_codes(&q, x->f32, codes, n);
    } else {
        qg_codes_load(x->dtype, x->data, 0, codes, n);
        QG_TRY(rescale(f, QG_USE_RESCALE, QG_FUSED_NONE, codes, n));
    }
    qg_codes_store(to.dtype, codes, storage, 0, n);
    return QG_OK;
}

static qg_status concatenate(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    const json *op = js_get(f->c, "op");
    size_t n = js_count(js_get(op, "inputs"));
    qg_int_concat_input *in = VEC_NEW(f->v, n, qg_int_concat_input);
    for (size_t i = 0; i < n; i++) {
        const json *t = operand(f, "inputs", i);
        const qg_tensor *x = contents(f, t);
        in[i] = (qg_int_concat_input){ grid_of(t), dims_of(x), x->data };
    }
    qg_grid to = grid_of(operand(f, "outputs", 0));
    qg_int_concat_spec spec = { vec_row(f->profile, QG_USE_CONCAT,
                                        (qg_grid[]){ in[0].grid, { 0 }, to }),
                                (int32_t)js_i64(js_get(op, "attributes"), "axis"), to };
    return qg_int_concat_run(f->v->ctx, &spec, in, n, storage);
}

static qg_status unary(const struct file *f, qg_int_unary_function function,
                       void *storage)
{
    const json *in = operand(f, "inputs", 0);
    const qg_tensor *x = contents(f, in);
    size_t n = (size_t)qg_tensor_count(x);
    static const qg_kernel_use use[QG_INT_NUNARY] = { QG_USE_SIGMOID, QG_USE_TANH,
                                                      QG_USE_LEAKY_RELU,
                                                      QG_USE_HARD_SWISH };
    qg_int_unary_spec spec = { .function = function,
                               .x = grid_of(in),
                               .y = grid_of(operand(f, "outputs", 0)) };
    spec.row = vec_row(f->profile, use[function], (qg_grid[]){ spec.x, { 0 }, spec.y });
    const json *alpha = js_find(js_get(js_get(f->c, "op"), "attributes"), "alpha");
    spec.alpha = alpha ? (float)js_number(alpha) : 0;
    int32_t table[256], *codes = VEC_NEW(f->v, n, int32_t);
    QG_TRY(qg_int_unary_table(f->v->ctx, &spec, table));
    qg_codes_load(x->dtype, x->data, 0, codes, n);
    for (size_t i = 0; i < n; i++)
        codes[i] = table[codes[i] - qg_code_range_of(x->dtype, 0).lo];
    qg_codes_store(spec.y.dtype, codes, storage, 0, n);
    return QG_OK;
}

static qg_status logistic(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return unary(f, QG_INT_UNARY_LOGISTIC, storage);
}

static qg_status hyperbolic(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return unary(f, QG_INT_UNARY_TANH, storage);
}

static qg_status hard_swish(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return unary(f, QG_INT_UNARY_HARD_SWISH, storage);
}

static qg_status leaky_relu(const struct file *f, const qg_tensor *y, void *storage)
{
    (void)y;
    return unary(f, QG_INT_UNARY_LEAKY_RELU, storage);
}

static qg_status softmax(const struct file *f, const qg_tensor *y, void *storage)
{
    const json *in = operand(f, "inputs", 0);
    const qg_tensor *x = contents(f, in);
    qg_grid from = grid_of(in), to = grid_of(operand(f, "outputs", 0));
    size_t n = (size_t)qg_tensor_count(y), row = (size_t)x->dim[x->rank - 1];
    int32_t *codes = VEC_NEW(f->v, n, int32_t);
    qg_int_softmax s;
    float beta = (float)js_num_or(js_get(js_get(f->c, "op"), "attributes"), "beta", 1);
    const qg_profile_row *how =
        vec_row(f->profile, QG_USE_SOFTMAX, (qg_grid[]){ from, { 0 }, to });
    QG_TRY(qg_int_softmax_prepare(f->v->ctx, (qg_requant_scheme)how->requant.scheme,
                                  from.scale, beta, (int)qg_dtype_bits(to.dtype), &s));
    qg_codes_load(x->dtype, x->data, 0, codes, n);
    for (size_t at = 0; at < n; at += row)
        QG_TRY(qg_int_softmax_row(f->v->ctx, &s, codes + at, codes + at, row));
    qg_codes_store(to.dtype, codes, storage, 0, n);
    return QG_OK;
}

static const struct {
    const char *type;
    run_fn *run;
} ops[] = {
    {"ADD",                 add        },
    { "SUB",                subtract   },
    { "MUL",                multiply   },
    { "QUANTIZE",           quantize   },
    { "CONCATENATION",      concatenate},
    { "LOGISTIC",           logistic   },
    { "TANH",               hyperbolic },
    { "HARD_SWISH",         hard_swish },
    { "LEAKY_RELU",         leaky_relu },
    { "SOFTMAX",            softmax    },
    { "SQUARED_DIFFERENCE", squared    },
    { "PRELU",              prelu      },
    { "RELU",               relu       },
    { "RELU6",              relu       },
    { "RELU_N1_TO_1",       relu       },
};

static run_fn *op_named(const char *type)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i].type, type) == 0)
            return ops[i].run;
    return NULL;
}

/* The output of kernel set k; NULL when that set does not take the operator. */
static const qg_tensor *expected(const struct file *f, size_t k)
{
    const qg_tensor *reference = contents(f, operand(f, "outputs", 0));
    if (!sets[k].name)
        return reference;
    const json *other = js_find(js_get(f->c, "other_kernels"), sets[k].name);
    if (!other || js_is_text(other))
        return NULL;
    return js_find(other, "array") ? array(f, js_str(other, "array")) : reference;
}

static void run_case(struct file *f, run_fn *run)
{
    for (size_t k = 0; k < N_SET; k++) {
        const qg_tensor *want = expected(f, k);
        if (!want)
            continue;
        size_t n = (size_t)qg_tensor_count(want);
        void *storage = VEC_NEW(f->v, n, int16_t);
        int32_t *got = VEC_NEW(f->v, n, int32_t), *codes = VEC_NEW(f->v, n, int32_t);
        f->profile = f->set[k];
        if (!vec_ok(f->v, sets[k].profile, run(f, want, storage)))
            continue;
        qg_codes_load(want->dtype, storage, 0, got, n);
        qg_codes_load(want->dtype, want->data, 0, codes, n);
        vec_same_ints(f->v, sets[k].profile, got, codes, n);
    }
}

void vec_tflite_ops(vec_run *v, const json *root)
{
    struct file f = { .v = v };
    size_t stem = strlen(v->path) - strlen(".json");
    char *path = qg_arena_printf(v->arena, "%.*s.npz", (int)stem, v->path);
    if (!path || qg_npz_open(v->ctx, v->arena, path, &f.npz) != QG_OK)
        vec_malformed("%s", qg_ctx_message(v->ctx));
    for (size_t k = 0; k < N_SET; k++)
        f.set[k] = vec_profile(v, sets[k].profile);
    JS_EACH(c, js_get(root, "cases"))
    {
        run_fn *run = op_named(js_str(js_get(c, "op"), "type"));
        if (!run) {
            vec_skip(v, "%s", js_str(js_get(c, "op"), "type"));
            continue;
        }
        vec_case(v, "%s", js_str(c, "name"));
        f.c = c;
        run_case(&f, run);
    }
    qg_npz_close(&f.npz);
}
