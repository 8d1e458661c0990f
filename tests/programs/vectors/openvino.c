/* openvino_fakequantize.json and openvino_fq.json. */
#include <math.h>
#include <string.h>

#include "engine/quant/nncf.h"
#include "engine/number/openvino_fq.h"
#include "tests/programs/vectors/library.h"

static void run(vec_run *v, const char *what, const qg_openvino_fq *fq,
                const qg_int_dims *dims, const float *x, const float *want)
{
    size_t n = 1;
    for (int32_t i = 0; i < dims->rank; i++)
        n *= (size_t)dims->dim[i];
    float *y = VEC_NEW(v, n, float);
    if (vec_ok(v, what, qg_openvino_fq_run(v->ctx, fq, dims, x, y)))
        vec_same_floats(v, what, y, want, n);
}

/* -- openvino_fakequantize.json --------------------------------------------------- */

static qg_int_dims dims_of(const json *shape)
{
    qg_int_dims d = { .rank = (int32_t)js_count(shape) };
    if (d.rank > QG_INTEGER_RANK)
        vec_malformed("rank %d", (int)d.rank);
    for (int32_t i = 0; i < d.rank; i++)
        d.dim[i] = js_int(js_at(shape, (size_t)i));
    return d;
}

static qg_openvino_limit limit(vec_run *v, const json *c, const char *value,
                               const char *shape)
{
    return (qg_openvino_limit){ dims_of(js_get(c, shape)),
                                js_floats(v, js_get(c, value), NULL) };
}

static void fq_case(vec_run *v, const json *c)
{
    qg_openvino_fq fq = { .levels = (int32_t)js_i64(c, "levels") };
    fq.input_low = limit(v, c, "input_low", "input_low_shape");
    fq.input_high = limit(v, c, "input_high", "input_high_shape");
    fq.output_low = limit(v, c, "output_low", "output_low_shape");
    fq.output_high = limit(v, c, "output_high", "output_high_shape");
    qg_int_dims dims = dims_of(js_get(c, "x_shape"));
    const float *x = js_floats(v, js_get(c, "x"), NULL);
    vec_case(v, "%s", js_str(c, "name"));
    run(v, "out", &fq, &dims, x, js_floats(v, js_get(c, "out_hex"), NULL));
    if (!js_find(c, "out_x86_cpu_plugin_hex"))
        return;
    fq.form = QG_OPENVINO_CPU;
    run(v, "plugin", &fq, &dims, x,
        js_floats(v, js_get(c, "out_x86_cpu_plugin_hex"), NULL));
}

static void conversion(vec_run *v, const json *c)
{
    qg_affine a = { js_num(c, "scale"), js_num(c, "zero_point"), js_i64(c, "qmin"),
                    js_i64(c, "qmax") };
    qg_openvino_range r;
    double residual;
    vec_case(v, "conversion of scale %g", a.scale);
    if (!vec_ok(v, "to range", qg_openvino_from_affine(v->ctx, "vectors", a, &r)))
        return;
    vec_close(v, "input_low", r.low, js_num(c, "input_low_f64"),
              (vec_tolerance){ 1e-12, 0 });
    vec_close(v, "input_high", r.high, js_num(c, "input_high_f64"),
              (vec_tolerance){ 1e-12, 0 });
    vec_close(v, "input_low_f32", (double)r.low32, js_num(c, "input_low_f32"),
              (vec_tolerance){ 0, 0 });
    vec_close(v, "input_high_f32", (double)r.high32, js_num(c, "input_high_f32"),
              (vec_tolerance){ 0, 0 });
    vec_same_i64(v, "levels", r.levels, js_i64(c, "levels"));
    if (!vec_ok(v, "back",
                qg_openvino_to_affine(v->ctx, "vectors", r.low, r.high, &a, &residual)))
        return;
    vec_close(v, "back_scale", a.scale, js_num(c, "back_scale"),
              (vec_tolerance){ 1e-12, 0 });
    vec_close(v, "back_zero_point", a.zero, js_num(c, "back_zero_point"),
              (vec_tolerance){ 1e-12, 1 });
}

/* Results of the trained quantizer, and of the export with twice the levels, with and
 * without clamping the weights first.  The trained codes are -2^(b-1) .. 2^(b-1) - 1.
 * */
static void half_range(vec_run *v, const json *c)
{
    size_t n;
    const float *w = js_floats(v, js_get(c, "w"), &n);
    float scale = js_f32(c, "scale");
    double low, high;
    qg_affine full =
        qg_openvino_full_range((qg_affine){ (double)scale, 0, -64, 63 }, &low, &high);
    qg_openvino_range r;
    vec_case(v, "half range, scale %g", (double)scale);
    if (!vec_ok(v, "to range", qg_openvino_from_affine(v->ctx, "vectors", full, &r)))
        return;
    vec_close(v, "input_low", (double)r.low32, js_num(c, "input_low"),
              (vec_tolerance){ 0, 0 });
    vec_close(v, "input_high", (double)r.high32, js_num(c, "input_high"),
              (vec_tolerance){ 0, 0 });
    qg_openvino_limit from = {
        {0, { 0 }},
        &r.low32
    };
    qg_openvino_limit to = {
        {0, { 0 }},
        &r.high32
    };
    qg_openvino_fq fq = {
        (int32_t)r.levels, QG_OPENVINO_REFERENCE, from, to, from, to
    };
    qg_int_dims dims = { 1, { (int64_t)n } };
    float *clamped = VEC_NEW(v, n, float), *trained = VEC_NEW(v, n, float);
    int32_t *codes = VEC_NEW(v, n, int32_t);
    for (size_t i = 0; i < n; i++) {
        clamped[i] = fminf(fmaxf(w[i], (float)low), (float)high);
        codes[i] = (int32_t)fmaxf(fminf(rintf(w[i] / scale), 63), -64);
        trained[i] = (float)codes[i] * scale;
    }
    run(v, "exported", &fq, &dims, w,
        js_floats(v, js_get(c, "ov_fq_exported_levels256"), NULL));
    run(v, "clamped", &fq, &dims, clamped,
        js_floats(v, js_get(c, "ov_fq_with_clamped_weights"), NULL));
    vec_same_floats(v, "torch_fake_quant_7bit", trained,
                    js_floats(v, js_get(c, "torch_fake_quant_7bit"), NULL), n);
    vec_same_ints(v, "q_torch", codes, js_ints(v, js_get(c, "q_torch"), NULL), n);
}

static void ptq_half(vec_run *v, const json *c)
{
    qg_nncf_ptq p = { 8, true, js_true(js_get(c, "narrow")), true, true };
    float low = -1, high = 1;
    int32_t levels;
    vec_case(v, "post-training half range%s", p.narrow ? ", narrow" : "");
    if (!vec_ok(v, "range", qg_nncf_ptq_range(v->ctx, &p, 1, &low, &high, &levels)))
        return;
    vec_same_floats(v, "low", &low, js_floats(v, js_get(c, "nncf_input_low_hex"), NULL),
                    1);
    vec_same_floats(v, "high", &high,
                    js_floats(v, js_get(c, "nncf_input_high_hex"), NULL), 1);
    vec_same_i64(v, "levels", levels, js_i64(c, "levels"));
    qg_affine a = { 0, 0, 0, levels - 1 };
    double residual;
    if (!vec_ok(v, "affine",
                qg_openvino_to_affine(v->ctx, "vectors", js_num(c, "input_low"),
                                      js_num(c, "input_high"), &a, &residual)))
        return;
    vec_close(v, "step", a.scale, js_num(c, "step"), (vec_tolerance){ 1e-12, 0 });
    vec_close(v, "zero_index", a.zero, js_num(c, "zero_index"),
              (vec_tolerance){ 1e-12, 0 });
}

void vec_openvino_fakequantize(vec_run *v, const json *root)
{
    JS_EACH(c, js_get(root, "fq_cases"))
    fq_case(v, c);
    JS_EACH(c, js_get(root, "conversions"))
    conversion(v, c);
    JS_EACH(c, js_get(root, "mqbench_half_range_export_mismatch"))
    half_range(v, c);
    JS_EACH(c, js_get(root, "nncf_ptq_half_range"))
    ptq_half(v, c);
}

/* -- openvino_fq.json ------------------------------------------------------------- */

#define REFERENCE "expected", NULL
#define PLUGIN    "expected_cpu", REFERENCE

/* clang-format off */
static const struct {
    qg_openvino_form form;
    const char *keys[5];
} forms[] = {
    { QG_OPENVINO_REFERENCE, { REFERENCE } },
    { QG_OPENVINO_REFERENCE_AARCH64, { "expected_aarch64", REFERENCE } },
    { QG_OPENVINO_CPU, { PLUGIN } },
    { QG_OPENVINO_CPU_LPT, { "expected_cpu_lpt", PLUGIN } },
    { QG_OPENVINO_CPU_AARCH64, { "expected_cpu_aarch64", PLUGIN } },
};
/* clang-format on */

static qg_openvino_limit input_limit(vec_run *v, const json *c, const char *name)
{
    vec_tensor t = vec_input(v, c, name);
    return (qg_openvino_limit){ vec_dims(&t), t.f };
}

static void library_case(vec_run *v, const json *c)
{
    vec_tensor x = vec_input(v, c, "x");
    qg_int_dims dims = vec_dims(&x);
    qg_openvino_fq fq = {
        (int32_t)vec_attribute(c, "levels", 0), QG_OPENVINO_REFERENCE,
        input_limit(v, c, "input_low"),         input_limit(v, c, "input_high"),
        input_limit(v, c, "output_low"),        input_limit(v, c, "output_high")
    };
    bool reference_only = js_true(js_find(c, "reference_only"));
    for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
        fq.form = forms[k].form;
        if (reference_only && fq.form >= QG_OPENVINO_CPU)
            continue;
        vec_tensor want = vec_read_tensor(v, js_at(vec_expected(c, forms[k].keys), 0));
        run(v, qg_openvino_form_name(fq.form), &fq, &dims, x.f, want.f);
    }
}

/* Codes 0 .. levels-1 of x, as the plugin quantizes before an integer convolution, and
 * the code of zero. */
static int32_t *input_codes(vec_run *v, const vec_tensor *x, float low, float high,
                            int32_t levels, int32_t *zero)
{
    int32_t *codes = VEC_NEW(v, x->n, int32_t);
    float steps = (float)(levels - 1), scale = steps / (high - low),
          shift = -(low * scale);
    for (size_t i = 0; i < x->n; i++)
        codes[i] = (int32_t)rintf(fmaxf(fminf(x->f[i], high), low) * scale + shift);
    *zero = (int32_t)rintf(shift);
    return codes;
}

static size_t out_extent(const json *c, int64_t in, int64_t kernel)
{
    return (size_t)((in + 2 * vec_attribute(c, "pad", 0) - kernel) /
                        vec_attribute(c, "stride", 1) +
                    1);
}

static void convolution_sums(const json *c, const vec_tensor *x, const vec_tensor *w,
                             qg_int_sum *s)
{
    size_t plane = (size_t)(x->dim[2] * x->dim[3]);
    size_t window = (size_t)(w->dim[2] * w->dim[3]);
    s->batches = x->dim[0];
    s->groups = vec_attribute(c, "group", 1);
    s->in_channels = w->dim[1];
    s->out_channels = w->dim[0] / s->groups;
    s->height = x->dim[2];
    s->width = x->dim[3];
    s->kernel_height = w->dim[2];
    s->kernel_width = w->dim[3];
    s->out_height = (int64_t)out_extent(c, s->height, s->kernel_height);
    s->out_width = (int64_t)out_extent(c, s->width, s->kernel_width);
    for (int i = 0; i < 2; i++) {
        s->stride[i] = vec_attribute(c, "stride", 1);
        s->dilation[i] = 1;
        s->pad[i] = vec_attribute(c, "pad", 0);
    }
    s->x = (qg_int_picture){ s->x.data, (size_t)x->dim[1] * plane, plane,
                             (size_t)x->dim[3], 1 };
    s->w = (qg_int_picture){ w->q, (size_t)w->dim[1] * window, window,
                             (size_t)w->dim[3], 1 };
}

/* The fused FakeQuantize of the profile's row is qg_requant_prepare_levels. */
static bool is_levels(const qg_profile *p, qg_dtype x)
{
    const qg_profile_row *row =
        vec_row(p, QG_USE_CONV,
                (qg_grid[]){
                    {x,               1, 0},
                    { .dtype = QG_I8},
                    { x,              1,  0 }
    });
    return row->tail == QG_TAIL_FLOAT && row->requant.factor == QG_FACTOR_THEN_FMA &&
           row->requant.scheme == QG_SCHEME_FLOAT_RNE;
}

static void convolution(vec_run *v, const json *c, const qg_profile *p)
{
    if (!is_levels(p, QG_U8))
        vec_malformed("profile %s: another convolution", p->name);
    vec_tensor x = vec_input(v, c, "x"), w = vec_input(v, c, "w_code");
    vec_tensor ws = vec_input(v, c, "w_scale"), bias = vec_input(v, c, "bias");
    float low = vec_input_f32(v, c, "x_low"), high = vec_input_f32(v, c, "x_high");
    int32_t levels = (int32_t)vec_attribute(c, "x_levels", 256);
    qg_int_sum s = { 0 };
    s.x.data = input_codes(v, &x, low, high, levels, &s.zero_x);
    convolution_sums(c, &x, &w, &s);
    size_t pixels = (size_t)(s.out_height * s.out_width), outs = (size_t)w.dim[0];
    size_t n = (size_t)s.batches * outs * pixels;
    int32_t *acc = VEC_NEW(v, n, int32_t);
    qg_int_sum_run(&s, acc);
    bool relu = vec_attribute(c, "relu", 0) != 0;
    qg_level_range range = { vec_input_f32(v, c, "y_low"),
                             vec_input_f32(v, c, "y_high"),
                             (int32_t)vec_attribute(c, "y_levels", 256) };
    for (size_t i = 0; i < n; i++) {
        size_t o = i / pixels % outs;
        qg_scales scales = { (high - low) / (float)(levels - 1),
                             ws.f[ws.n == 1 ? 0 : o], 1 };
        qg_requant r;
        if (!vec_ok(v, "prepare",
                    qg_requant_prepare_levels(v->ctx, "vectors", scales, range, &r)))
            return;
        int32_t code = qg_requant_biased(&r, acc[i], bias.f[o]);
        int32_t zero = qg_requant_biased(&r, 0, 0);
        acc[i] = relu && code < zero ? zero : code;
    }
    vec_tensor want = vec_read_tensor(v, js_at(js_get(c, "expected"), 0));
    vec_same_ints(v, "code", acc, want.q, want.n);
    if (js_find(c, "expected_x86_avx2")) /* pairs saturate in an order specific to
                                       * oneDNN */
        vec_skip(v, "int8_convolution with AVX2 saturation");
}

void vec_openvino_fq(vec_run *v, const json *root)
{
    const qg_profile *plugin = vec_profile(v, "openvino-vnni");
    JS_EACH(c, js_get(root, "cases"))
    {
        bool fake_quantize = strcmp(js_str(c, "op"), "FakeQuantize") == 0;
        if (!fake_quantize && strcmp(js_str(c, "op"), "int8_convolution") != 0) {
            vec_skip(v, "%s", js_str(c, "op"));
            continue;
        }
        vec_case(v, "%s", js_str(c, "name"));
        if (fake_quantize)
            library_case(v, c);
        else
            convolution(v, c, plugin);
    }
}
