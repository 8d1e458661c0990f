/* nncf_fakequant.json and nncf_ptq.json. */
#include "engine/quant/nncf.h"

#include <math.h>
#include <string.h>

#include "tests/programs/vectors/vectors.h"

static bool symmetric(const json *c)
{
    return strcmp(js_str(c, "kind"), "symmetric") == 0;
}

/* Ranges from the learned parameters, compared with the stored ones. */
static qg_nncf_range *ranges(vec_run *v, const json *c, qg_levels levels, size_t *n)
{
    float eps = (float)js_num_or(c, "eps", 1e-16);
    const float *low = js_floats(v, js_get(c, "input_low_hex"), n);
    const float *range = js_floats(v, js_get(c, "input_range_hex"), NULL);
    const float *a =
        js_floats(v, js_get(c, symmetric(c) ? "scale" : "input_low_param"), NULL);
    const float *b =
        symmetric(c) ? a : js_floats(v, js_get(c, "input_range_param"), NULL);
    qg_nncf_range *r = VEC_NEW(v, *n, qg_nncf_range);
    for (size_t i = 0; i < *n; i++) {
        r[i] = symmetric(c) ? qg_nncf_range_symmetric(a[i], eps, levels)
                            : qg_nncf_range_asymmetric(a[i], b[i], eps, levels);
        vec_same_floats(v, "input_low", &r[i].low, &low[i], 1);
        vec_same_floats(v, "input_range", &r[i].range, &range[i], 1);
        if (js_find(c, "tuned_zero_point")) {
            float z, want = js_floats(v, js_get(c, "tuned_zero_point"), NULL)[i];
            qg_nncf_tune((qg_nncf_range){ a[i], fabsf(b[i]) + eps }, levels.count, &z);
            vec_same_floats(v, "tuned_zero_point", &z, &want, 1);
        }
    }
    return r;
}

static void layout(const json *c, size_t n, size_t channels, qg_nncf *q)
{
    size_t axis = (size_t)js_i64_or(c, "channel_axis", 0);
    q->outer = q->inner = 1;
    q->channels = channels;
    if (channels == 1) {
        q->inner = n;
        return;
    }
    size_t i = 0;
    JS_EACH(dim, js_get(c, "x_shape"))
    {
        if (i < axis)
            q->outer *= (size_t)js_int(dim);
        else if (i > axis)
            q->inner *= (size_t)js_int(dim);
        i++;
    }
}

static void forward(vec_run *v, const json *c, qg_nncf q, const float *x, size_t n)
{
    static const struct {
        const char *column;
        qg_nncf_formula formula;
        qg_nncf_device device;
    } columns[] = {
        {"out_nncf_current_hex",      QG_NNCF_NEW, QG_NNCF_CPU },
        { "out_seed_old_formula_hex", QG_NNCF_OLD, QG_NNCF_CPU },
        { "out_cuda_half_away",       QG_NNCF_NEW, QG_NNCF_CUDA},
    };
    float *y = VEC_NEW(v, n, float);
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        q.formula = columns[k].formula;
        q.device = columns[k].device;
        if (vec_ok(v, "forward", qg_nncf_forward(v->ctx, "vectors", &q, x, y)))
            vec_same_floats(v, columns[k].column, y,
                            js_floats(v, js_get(c, columns[k].column), NULL), n);
    }
}

static void backward(vec_run *v, const json *c, qg_nncf q, const float *x, size_t n)
{
    static const struct {
        const char *each, *sum;
        qg_nncf_grad grad;
    } columns[] = {
        {"grad_range_nncf_per_elem",   "grad_range_nncf_sum",  QG_NNCF_GRAD_PUBLISHED},
        { "grad_scale_exact_per_elem", "grad_scale_exact_sum", QG_NNCF_GRAD_EXACT    },
    };
    const float *g = js_floats(v, js_get(c, "grad_out"), NULL);
    for (size_t k = 0; k < 2; k++) {
        qg_nncf_gradients out = { VEC_NEW(v, n, float), VEC_NEW(v, n, float),
                                  VEC_NEW(v, n, float), VEC_NEW(v, q.channels, double),
                                  VEC_NEW(v, q.channels, double) };
        q.grad = columns[k].grad;
        if (!vec_ok(v, "backward", qg_nncf_backward(v->ctx, "vectors", &q, x, g, &out)))
            return;
        vec_same_floats(v, "grad_input", out.x,
                        js_floats(v, js_get(c, "grad_input"), NULL), n);
        vec_same_floats(v, "grad_low", out.each_low,
                        js_floats(v, js_get(c, "grad_low_per_elem"), NULL), n);
        vec_ulps(v, columns[k].each, out.each_range,
                 js_floats(v, js_get(c, columns[k].each), NULL), n,
                 q.grad == QG_NNCF_GRAD_EXACT);
        vec_close_all(v, columns[k].sum, out.range,
                      js_doubles(v, js_get(c, columns[k].sum), NULL), q.channels,
                      (vec_tolerance){ 1e-6, 1 });
        vec_close_all(v, "grad_low_sum", out.low,
                      js_doubles(v, js_get(c, "grad_low_sum"), NULL), q.channels,
                      (vec_tolerance){ 1e-6, 1 });
    }
}

static void fake_quantize(vec_run *v, const json *c)
{
    vec_case(v, "%s", js_str(c, "name"));
    size_t n, channels;
    const float *x = js_floats(v, js_get(c, "x"), &n);
    qg_nncf q = {
        .levels = {(int32_t)js_i64(c, "level_low"), (int32_t)js_i64(c, "level_high"),
                   (int32_t)js_i64(c, "levels")}
    };
    q.range = ranges(v, c, q.levels, &channels);
    layout(c, n, channels, &q);
    if (q.outer * q.channels * q.inner != n)
        vec_malformed("case '%s': shape", v->name);
    forward(v, c, q, x, n);
    backward(v, c, q, x, n);
}

static void level_row(vec_run *v, const json *row)
{
    int bits = (int)js_i64(row, "bits");
    bool is_symmetric = strcmp(js_str(row, "mode"), "symmetric") == 0;
    bool narrow = js_true(js_get(row, "narrow"));
    qg_levels l =
        is_symmetric
            ? qg_nncf_levels_symmetric(bits, js_true(js_get(row, "signed")), narrow)
            : qg_nncf_levels_asymmetric(bits, narrow);
    vec_case(v, "levels of %d bits, %s", bits, js_str(row, "mode"));
    vec_same_i64(v, "level_low", l.low, js_i64(row, "level_low"));
    vec_same_i64(v, "level_high", l.high, js_i64(row, "level_high"));
    vec_same_i64(v, "levels", l.count, js_i64(row, "levels"));
}

static void half_export(vec_run *v, const json *c)
{
    qg_levels l = { (int32_t)js_i64(c, "level_low"), (int32_t)js_i64(c, "level_high"),
                    0 };
    l.count = l.high - l.low + 1;
    qg_nncf_export e =
        qg_nncf_export_symmetric(js_f32(c, "scale"), QG_NNCF_EPS, l, true);
    vec_case(v, "half-range export of scale %g", js_num(c, "scale"));
    const struct {
        const char *key;
        float got;
    } floats[] = {
        {"clamp_low",          e.clamp_low },
        { "clamp_high",        e.clamp_high},
        { "export_input_low",  e.low       },
        { "export_input_high", e.high      }
    };
    for (size_t i = 0; i < 4; i++) {
        float want = js_f32(c, floats[i].key);
        vec_same_floats(v, floats[i].key, &floats[i].got, &want, 1);
    }
    vec_same_i64(v, "export_level_low", e.levels.low, js_i64(c, "export_level_low"));
    vec_same_i64(v, "export_levels", e.levels.count, js_i64(c, "export_levels"));
    double before = ((double)e.clamp_high - (double)e.clamp_low) / (l.count - 1);
    double after = ((double)e.high - (double)e.low) / (e.levels.count - 1);
    vec_close(v, "step_before", before, js_num(c, "step_before"),
              (vec_tolerance){ 1e-6, 0 });
    vec_close(v, "step_after", after, js_num(c, "step_after"),
              (vec_tolerance){ 1e-6, 0 });
}

void vec_nncf_fakequant(vec_run *v, const json *root)
{
    JS_EACH(c, js_get(root, "cases"))
    fake_quantize(v, c);
    JS_EACH(row, js_get(root, "level_table"))
    level_row(v, row);
    JS_EACH(c, js_get(root, "half_range_export_symmetric"))
    half_export(v, c);
}

/* -- post-training ranges ---------------------------------------------------------- */

struct statistics {
    vec_tensor min, max;
    float *a, *b; /* copies of both; results */
    int32_t *z;
};

/* Output k of the case, floats within one ulp. */
static void compare(vec_run *v, const json *c, const char *name, const float *got)
{
    vec_tensor want = vec_tensor_named(v, js_get(c, "expected"), name);
    vec_ulps(v, name, got, want.f, want.n, 1);
}

static bool given(const json *c, const char *name)
{
    const json *value = js_find(js_get(c, "attributes"), name);
    return value && js_true(value);
}

static void parameters(vec_run *v, const json *c, const struct statistics *s)
{
    const char *mode = js_str(js_get(c, "attributes"), "mode");
    qg_nncf_ptq p = { .bits = (int)js_i64(js_get(c, "attributes"), "num_bits"),
                      .symmetric = strcmp(mode, "symmetric") == 0,
                      .narrow = given(c, "narrow_range"),
                      .half = given(c, "half_range"),
                      .force_signed = given(c, "signedness_to_force") };
    int32_t levels;
    if (!vec_ok(v, "range",
                qg_nncf_ptq_range(v->ctx, &p, s->min.n, s->a, s->b, &levels)))
        return;
    compare(v, c, "input_low", s->a);
    compare(v, c, "input_high", s->b);
    vec_same_i64(v, "levels", levels,
                 vec_tensor_named(v, js_get(c, "expected"), "levels").q[0]);
}

static void tune(vec_run *v, const json *c, const struct statistics *s)
{
    int bits = (int)js_i64(js_get(c, "attributes"), "num_bits");
    qg_nncf_tune_borders(s->a, s->b, s->min.n, bits, given(c, "unify_zp"));
    compare(v, c, "low", s->a);
    compare(v, c, "high", s->b);
}

static void scale_zero(vec_run *v, const json *c, const struct statistics *s)
{
    const json *a = js_get(c, "attributes");
    qg_levels l = { (int32_t)js_i64(a, "level_low"), (int32_t)js_i64(a, "level_high"),
                    0 };
    for (size_t i = 0; i < s->min.n; i++)
        qg_nncf_scale_zero(s->min.f[i], s->max.f[i], l, given(c, "narrow_range"),
                           &s->a[i], &s->z[i]);
    compare(v, c, "scale", s->a);
    vec_tensor zero = vec_tensor_named(v, js_get(c, "expected"), "zero_point");
    vec_same_ints(v, "zero_point", s->z, zero.q, zero.n);
}

void vec_nncf_ptq(vec_run *v, const json *root)
{
    static const struct {
        const char *op;
        void (*run)(vec_run *v, const json *c, const struct statistics *s);
    } ops[] = {
        {"calculate_quantizer_parameters", parameters},
        { "tune_range",                    tune      },
        { "calculate_scale_zero_point",    scale_zero}
    };
    JS_EACH(c, js_get(root, "cases"))
    {
        size_t k = 0;
        while (k < 3 && strcmp(ops[k].op, js_str(c, "op")) != 0)
            k++;
        if (k == 3) {
            vec_skip(v, "%s", js_str(c, "op"));
            continue;
        }
        vec_case(v, "%s", js_str(c, "name"));
        struct statistics s = { vec_tensor_named(v, js_get(c, "inputs"), "min_values"),
                                vec_tensor_named(v, js_get(c, "inputs"), "max_values"),
                                NULL, NULL, NULL };
        s.a = VEC_NEW(v, s.min.n, float);
        s.b = VEC_NEW(v, s.min.n, float);
        s.z = VEC_NEW(v, s.min.n, int32_t);
        memcpy(s.a, s.min.f, s.min.n * sizeof *s.a);
        memcpy(s.b, s.max.f, s.min.n * sizeof *s.b);
        ops[k].run(v, c, &s);
    }
}
