/* ort_calibration.json: compute_scale_zp and the histogram calibrators of ONNX Runtime.
 * All exact but the divergences: 1e-5 relative. */
#include <stdio.h>
#include <string.h>

#include "engine/calib/ort.h"
#include "tests/programs/vectors/vectors.h"

static float input(vec_run *v, const json *c, const char *name)
{
    return *vec_tensor_named(v, js_get(c, "inputs"), name).f;
}

static int32_t code(vec_run *v, const json *c, const char *name)
{
    return *vec_tensor_named(v, js_get(c, "expected"), name).q;
}

static void scale_zero(vec_run *v, const json *c)
{
    const json *a = js_get(c, "attributes"), *least = js_get(a, "min_real_range");
    qg_ort_grid g = { 0 };
    float scale = 0;
    int32_t zero = 0;
    bool none = js_is_null(least) || js_is_text(least); /* null or "None" */
    if (!vec_ok(v, "codes",
                qg_ort_codes(v->ctx, qg_dtype_named(js_str(a, "type")),
                             js_i64(a, "symmetric") != 0,
                             js_i64(a, "reduce_range") != 0, &g)))
        return;
    g.least = none ? 0 : (float)js_number(least);
    if (!vec_ok(v, "scale",
                qg_ort_scale_zero(v->ctx, &g, input(v, c, "rmin"), input(v, c, "rmax"),
                                  &scale, &zero)))
        return;
    vec_same_i64(v, "qmin", g.qmin, code(v, c, "qmin"));
    vec_same_i64(v, "qmax", g.qmax, code(v, c, "qmax"));
    vec_same_i64(v, "zero_point", zero, code(v, c, "zero_point"));
    vec_same_floats(v, "scale", &scale,
                    vec_tensor_named(v, js_get(c, "expected"), "scale").f, 1);
}

static bool collect(vec_run *v, const json *c, bool absolute, qg_histogram_growth *g)
{
    JS_EACH(batch, js_get(c, "inputs"))
    {
        vec_tensor x = vec_read_tensor(v, batch);
        qg_status s = absolute
                          ? qg_histogram_add_absolute(v->ctx, v->arena, g, x.f, x.n)
                          : qg_histogram_add_signed(v->ctx, v->arena, g, x.f, x.n);
        if (!vec_ok(v, "collect", s))
            return false;
    }
    return true;
}

static void same_histogram(vec_run *v, const json *expected, const qg_histogram *h)
{
    vec_tensor count = vec_tensor_named(v, expected, "histogram");
    vec_tensor edge = vec_tensor_named(v, expected, "edges");
    vec_same_i64(v, "bins", (int64_t)h->bins, (int64_t)count.n);
    for (size_t j = 0; j < count.n && count.n == h->bins; j++)
        vec_same_i64(v, "histogram", h->count[j], count.q[j]);
    for (size_t j = 0; j < edge.n && edge.n == h->bins + 1; j++)
        vec_same_floats(v, "edge", &(float){ (float)h->edge[j] }, &edge.f[j], 1);
}

static void histogram(vec_run *v, const json *c)
{
    const json *a = js_get(c, "attributes"), *expected = js_get(c, "expected");
    bool entropy = strcmp(js_str(a, "method"), "entropy") == 0;
    bool symmetric = js_i64(a, "symmetric") != 0;
    size_t levels = (size_t)js_i64(a, "num_quantized_bins");
    qg_histogram_growth g = { .type = QG_EDGE_F32,
                              .bins = (size_t)js_i64(a, "num_bins") };
    qg_range_choice best;
    if (!collect(v, c, symmetric && !entropy, &g))
        return;
    same_histogram(v, expected, &g.h);
    float *d = VEC_NEW(v, g.h.bins, float);
    qg_status s = entropy ? qg_ort_entropy(v->ctx, v->arena, &g.h, levels, d, &best)
                          : qg_ort_percentile(v->ctx, &g.h, js_num(a, "percentile"),
                                              symmetric, &best);
    if (!vec_ok(v, "calibrate", s))
        return;
    qg_ort_clip(&best, g.min, g.max);
    vec_same_floats(v, "low", &(float){ (float)best.low },
                    vec_tensor_named(v, expected, "low").f, 1);
    vec_same_floats(v, "high", &(float){ (float)best.high },
                    vec_tensor_named(v, expected, "high").f, 1);
    if (!entropy)
        return;
    vec_tensor want = vec_tensor_named(v, expected, "divergence");
    vec_same_i64(v, "argmin", (int64_t)best.index, code(v, c, "argmin"));
    vec_same_i64(v, "candidates", (int64_t)(g.h.bins / 2 - levels / 2 + 1),
                 (int64_t)want.n);
    for (size_t i = 0; i < want.n && want.n <= g.h.bins; i++)
        vec_close(v, "divergence", (double)d[i], (double)want.f[i],
                  (vec_tolerance){ 1e-5, 0 });
}

void vec_ort_calibration(vec_run *v, const json *root)
{
    JS_EACH(c, js_get(root, "cases"))
    {
        const char *op = js_str(c, "op");
        vec_case(v, "%s", js_str(c, "name"));
        if (strcmp(op, "compute_scale_zp") == 0) {
            scale_zero(v, c);
        } else if (strcmp(op, "histogram_calibration") == 0) {
            histogram(v, c);
        } else {
            vec_drop(v);
            vec_skip(v, "%s", op);
        }
    }
}
