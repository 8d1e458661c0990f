/* The common part of the library files. */
#include "tests/programs/vectors/library.h"

#include <stdio.h>
#include <string.h>

static vec_op *op_named(const vec_op_row *ops, const char *name)
{
    for (; ops->op; ops++)
        if (strcmp(ops->op, name) == 0)
            return ops->run;
    return NULL;
}

static void compare(vec_run *v, const json *c, const vec_kernel *k,
                    const vec_result *got)
{
    const json *expected = vec_expected(c, k->keys);
    vec_tensor want = vec_read_tensor(v, js_at(expected, 0));
    const char *what = k->name;
    vec_same_i64(v, what, (int64_t)got->n, (int64_t)want.n);
    if (got->n != want.n)
        return;
    if (want.f && got->f)
        vec_same_floats(v, what, got->f, want.f, want.n);
    else if (want.q && got->q)
        vec_same_ints(v, what, got->q, want.q, want.n);
    else
        vec_malformed("case '%s': floats for integers", v->name);
}

/* The kernel sets with their profiles, in the run's arena. */
static const vec_kernel *loaded(vec_run *v, const vec_kernel *kernels)
{
    size_t n = 0;
    while (kernels[n].name)
        n++;
    vec_kernel *all = VEC_NEW(v, n + 1, vec_kernel);
    for (size_t i = 0; i < n; i++) {
        all[i] = kernels[i];
        all[i].profile = vec_profile(v, kernels[i].name);
    }
    return all;
}

void vec_library(vec_run *v, const json *root, const vec_op_row *ops,
                 const vec_kernel *kernels)
{
    kernels = loaded(v, kernels);
    JS_EACH(c, js_get(root, "cases"))
    {
        vec_op *run = op_named(ops, js_str(c, "op"));
        if (!run) {
            vec_skip(v, "%s", js_str(c, "op"));
            continue;
        }
        vec_case(v, "%s", js_str(c, "name"));
        for (const vec_kernel *k = kernels; k->name; k++) {
            vec_result got = { 0 };
            if (run(v, c, k, &got))
                compare(v, c, k, &got);
        }
    }
}

vec_tensor vec_input(vec_run *v, const json *c, const char *name)
{
    return vec_tensor_named(v, js_get(c, "inputs"), name);
}

bool vec_has_input(const json *c, const char *name)
{
    return vec_has_tensor(js_get(c, "inputs"), name);
}

float vec_input_f32(vec_run *v, const json *c, const char *name)
{
    vec_tensor t = vec_input(v, c, name);
    if (!t.f || t.n != 1)
        vec_malformed("case '%s': %s is not one float", v->name, name);
    return t.f[0];
}

int32_t vec_input_i32(vec_run *v, const json *c, const char *name)
{
    vec_tensor t = vec_input(v, c, name);
    if (!t.q || t.n != 1)
        vec_malformed("case '%s': %s is not one integer", v->name, name);
    return t.q[0];
}

int64_t vec_attribute(const json *c, const char *name, int64_t otherwise)
{
    return js_i64_or(js_get(c, "attributes"), name, otherwise);
}

qg_grid vec_grid(vec_run *v, const json *c, const char *prefix, qg_dtype dtype)
{
    char scale[64], zero[64];
    snprintf(scale, sizeof scale, "%s_scale", prefix);
    snprintf(zero, sizeof zero, "%s_zero_point", prefix);
    return (qg_grid){ dtype, vec_input_f32(v, c, scale), vec_input_i32(v, c, zero) };
}

qg_int_dims vec_dims(const vec_tensor *t)
{
    qg_int_dims d = { .rank = t->rank };
    for (int32_t i = 0; i < t->rank; i++)
        d.dim[i] = t->dim[i];
    return d;
}

bool vec_binary(vec_run *v, const json *c, const vec_kernel *k, qg_int_binary_op op,
                const char *const names[3], vec_result *out)
{
    vec_tensor a = vec_input(v, c, names[0]), b = vec_input(v, c, names[1]);
    static const qg_kernel_use use[] = { QG_USE_ADD, QG_USE_SUB, QG_USE_MULTIPLY };
    qg_int_binary_spec spec = { .op = op };
    spec.a = vec_grid(v, c, names[0], a.dtype);
    spec.b = vec_grid(v, c, names[1], b.dtype);
    spec.y = vec_grid(v, c, names[2], a.dtype);
    spec.range = qg_code_range_of(spec.y.dtype, spec.y.zero);
    spec.row = vec_row(k->profile, use[op], (qg_grid[]){ spec.a, spec.b, spec.y });
    qg_int_argument in[2] = {
        {vec_dims(&a),  vec_storage(v, &a)},
        { vec_dims(&b), vec_storage(v, &b)}
    };
    qg_int_binary p;
    qg_int_broadcast shape;
    if (!vec_ok(v, k->name, qg_int_binary_prepare(v->ctx, &spec, &p)) ||
        !vec_ok(
            v, k->name,
            qg_int_broadcast_make(v->ctx, "vectors", &in[0].dims, &in[1].dims, &shape)))
        return false;
    out->n = shape.spans * shape.n;
    out->q = VEC_NEW(v, out->n, int32_t);
    void *y = VEC_NEW(v, out->n, int16_t);
    if (!vec_ok(v, k->name, qg_int_binary_run(v->ctx, &p, &in[0], &in[1], y)))
        return false;
    qg_codes_load(a.dtype, y, 0, out->q, out->n);
    return true;
}

bool vec_quantizer(vec_run *v, const vec_kernel *k, qg_grid y, qg_affine_quantizer *out)
{
    const qg_profile_row *row = vec_row(k->profile, QG_USE_QUANTIZE,
                                        (qg_grid[]){
                                            {QG_F32, 0, 0 },
                                            { 0    },
                                            y
    });
    return vec_ok(v, k->name,
                  qg_affine_quantizer_prepare(v->ctx, row, y,
                                              qg_code_range_of(y.dtype, y.zero), out));
}

qg_int_sum vec_dense(const int32_t *x, const int32_t *w, size_t n, size_t depth,
                     size_t outs)
{
    qg_int_sum s = { .batches = (int64_t)n, .groups = 1, .height = 1, .width = 1 };
    s.out_height = s.out_width = s.kernel_height = s.kernel_width = 1;
    s.in_channels = (int64_t)depth;
    s.out_channels = (int64_t)outs;
    s.x = (qg_int_picture){ x, depth, 1, 0, 0 };
    s.w = (qg_int_picture){ w, depth, 1, 0, 0 };
    return s;
}

bool vec_requantize(vec_run *v, const vec_requant *r, int32_t *acc,
                    const size_t extents[3])
{
    qg_code_range range = qg_code_range_of(r->y.dtype, r->y.zero);
    size_t pixels = extents[2];
    for (size_t channel = 0; channel < extents[1]; channel++) {
        qg_scales s = { r->sx, r->ws[r->nws == 1 ? 0 : channel], r->y.scale };
        qg_requant q;
        if (!vec_ok(
                v, r->row->id,
                qg_requant_prepare(v->ctx, "vectors", &r->row->requant, s, range, &q)))
            return false;
        for (size_t b = 0; b < extents[0]; b++) {
            int32_t *row = acc + (b * extents[1] + channel) * pixels;
            qg_requant_many(&q, row, row, pixels);
        }
    }
    return true;
}
