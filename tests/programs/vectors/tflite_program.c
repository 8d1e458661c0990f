/* tests/data/vectors/ops.json and ops.npz, every case through integer programs. */
#include "tests/programs/vectors/tflite_program.h"

#include <math.h>
#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/exec/run.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "ops/families.h"

/* One kernel set: its name among other_kernels (NULL: the reference), its profile. */
static const struct {
    const char *name, *profile;
} sets[] = {
    {NULL,          "tflite-reference"    },
    { "integer_fc", "tflite-reference-1.2"},
    { "optimized",  "tflite-builtin-x86"  },
    { "delegate",   "tflite-xnnpack"      },
};
enum { N_SETS = sizeof sets / sizeof sets[0] };

const json *tfl_operand(const tfl_case *t, const char *which, size_t i)
{
    int64_t id = js_int(js_at(js_get(t->op, which), i));
    JS_EACH(tensor, js_get(t->c, "tensors"))
    if (js_i64(tensor, "id") == id)
        return tensor;
    vec_malformed("case '%s': no tensor %lld", t->v->name, (long long)id);
}

bool tfl_has_operand(const tfl_case *t, size_t i)
{
    const json *list = js_get(t->op, "inputs");
    return i < js_count(list) && js_int(js_at(list, i)) >= 0;
}

static const qg_tensor *array(const tfl_case *t, const char *name)
{
    const qg_npz_member *m = qg_npz_find(t->npz, name);
    const qg_tensor *data;
    if (!m || qg_npz_load(t->v->ctx, t->v->arena, t->npz, m, &data) != QG_OK)
        vec_malformed("array '%s': %s", name, qg_ctx_message(t->v->ctx));
    return data;
}

const qg_tensor *tfl_array(const tfl_case *t, const json *tensor)
{
    return array(t, js_str(tensor, "array"));
}

qg_stored tfl_stored(const tfl_case *t, const json *tensor)
{
    qg_stored s = { .dtype = qg_dtype_named(js_str(tensor, "type")) };
    size_t n = js_count(js_get(tensor, "scale"));
    s.codes = n > 0 && qg_dtype_kind_of(s.dtype) != QG_KIND_FLOAT;
    if (!s.codes)
        return s;
    s.n = (uint32_t)n;
    s.scale = js_floats(t->v, js_get(tensor, "scale"), &n);
    s.zero = js_ints(t->v, js_get(tensor, "zero_point"), &n);
    return s;
}

/* Types and ratios as engine/ir/lower.c has them. */
bool tfl_find_row(tfl_case *t, qg_kernel_use use, size_t n_inputs)
{
    qg_stored y = tfl_stored(t, tfl_operand(t, "outputs", 0));
    qg_profile_grids r = { .limits = UINT32_MAX }; /* RELU has its own */
    qg_dtype type[2] = { QG_NODTYPE, QG_NODTYPE };
    for (size_t i = 0; i < n_inputs; i++) {
        qg_stored x = tfl_stored(t, tfl_operand(t, "inputs", i));
        bool weight = i == 1 && use <= QG_USE_DENSE_CHANNEL;
        if (i < 2)
            type[i] = x.dtype;
        if (i == 1 && x.codes)
            r.w_off = x.zero[0] != 0;
        if (use == QG_USE_DECONV) /* shape, weights, x */
            type[0] = x.dtype;
        if (!x.codes || !y.codes || weight)
            continue;
        float ratio = x.scale[0] / y.scale[0];
        r.least = r.most == 0 || ratio < r.least ? ratio : r.least;
        r.most = ratio > r.most ? ratio : r.most;
    }
    if (use == QG_USE_QUANTIZE)
        type[0] = QG_F32;
    qg_profile_types types = { type[0], type[1], y.dtype };
    t->row = qg_profile_find(t->profile, use, types, r);
    t->no_row = !t->row;
    return t->row;
}

/* The output of kernel set k; NULL when that set does not take the operator. */
static const qg_tensor *expected(const tfl_case *t, size_t k)
{
    const qg_tensor *reference = tfl_array(t, tfl_operand(t, "outputs", 0));
    if (!sets[k].name)
        return reference;
    const json *other = js_find(js_get(t->c, "other_kernels"), sets[k].name);
    if (!other || js_is_text(other))
        return NULL;
    return js_find(other, "array") ? array(t, js_str(other, "array")) : reference;
}

/* One plan: definitions alone, or the kernels that the plan chooses. */
static void run_plan(tfl_case *t, const char *what, bool reference,
                     const qg_tensor *want)
{
    qg_plan *plan = NULL;
    qg_run *run = NULL;
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .reference = reference };
    qg_status s = qg_plan_new(t->v->ctx, t->g, &o, &plan);
    if (s == QG_OK)
        s = qg_run_new(t->v->ctx, plan, &run);
    if (s == QG_OK)
        s = qg_run_execute(run, t->in, NULL, 0, 0);
    if (vec_ok(t->v, what, s)) {
        const qg_tensor *got = qg_run_output(run, 0);
        size_t n = (size_t)qg_tensor_count(want);
        vec_same_i64(t->v, "dtype", got->dtype, want->dtype);
        vec_same_i64(t->v, "elements", qg_tensor_count(got), (int64_t)n);
        if (want->dtype == QG_F32) {
            vec_same_floats(t->v, what, got->f32, want->f32, n);
        } else if (got->dtype == want->dtype && (size_t)qg_tensor_count(got) == n) {
            int32_t *a = VEC_NEW(t->v, n, int32_t), *b = VEC_NEW(t->v, n, int32_t);
            qg_codes_load(got->dtype, got->data, 0, a, n);
            qg_codes_load(want->dtype, want->data, 0, b, n);
            vec_same_ints(t->v, what, a, b, n);
        }
    }
    qg_run_free(run);
    qg_plan_free(plan);
}

static void run_set(tfl_case *t, size_t k, const qg_profile *profile)
{
    const qg_tensor *want = expected(t, k);
    if (!want)
        return;
    t->profile = profile;
    t->n_in = 0;
    t->n_attr = 0;
    if (qg_graph_new(t->v->ctx, "case", &t->g) != QG_OK || !tfl_build(t))
        vec_malformed("case '%s': operator %s", t->v->name, js_str(t->op, "type"));
    if (t->no_row) {
        vec_skip(t->v, "%s of %s", js_str(t->op, "type"), sets[k].profile);
        qg_graph_free(t->g);
        return;
    }
    if (vec_ok(t->v, "infer", qg_graph_normalize(t->g)) &&
        vec_ok(t->v, "infer", qg_infer(t->g, NULL, 0))) {
        run_plan(t, sets[k].profile, true, want);
        run_plan(t, sets[k].profile, false, want);
    }
    qg_graph_free(t->g);
}

void vec_tflite_program(vec_run *v, const json *root)
{
    const qg_profile *profile[N_SETS];
    qg_npz npz;
    size_t stem = strlen(v->path) - strlen(".json");
    char *path = qg_arena_printf(v->arena, "%.*s.npz", (int)stem, v->path);
    const char *folder = "configs/profiles";
    qg_search search = { .dir = &folder, .n = 1 };
    v->ctx->registry = &qg_ops_registry;
    if (!path || qg_npz_open(v->ctx, v->arena, path, &npz) != QG_OK)
        vec_malformed("%s", qg_ctx_message(v->ctx));
    for (size_t k = 0; k < N_SETS; k++)
        if (qg_profile_load(v->ctx, v->arena, sets[k].profile, search, &profile[k]) !=
            QG_OK)
            vec_malformed("%s", qg_ctx_message(v->ctx));
    JS_EACH(c, js_get(root, "cases"))
    {
        vec_case(v, "%s", js_str(c, "name"));
        tfl_case t = { .v = v, .c = c, .op = js_get(c, "op"), .npz = &npz };
        for (size_t k = 0; k < N_SETS; k++)
            run_set(&t, k, profile[k]);
    }
    qg_npz_close(&npz);
}
