/* ort_qdq.json: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear of ONNX
 * Runtime. */
#include <string.h>

#include "engine/number/format.h"
#include "engine/number/qdq.h"
#include "tests/programs/vectors/vectors.h"

/* The tensor's values in storage of its type. */
static void *stored(vec_run *v, const vec_tensor *t)
{
    if (!t->q)
        return NULL;
    size_t bytes;
    unsigned bits = qg_dtype_bits(t->dtype);
    if (!qg_dtype_bytes(t->dtype, t->n, &bytes))
        return NULL;
    uint8_t *data = vec_get(v, bytes + 1, 1);
    for (size_t i = 0; i < t->n; i++)
        if (bits < 8)
            qg_packed_set(data, bits, i, (unsigned)t->q[i]);
        else
            memcpy(data + i * bits / 8, &t->q[i], bits / 8); /* little-endian */
    return data;
}

static void loaded(qg_dtype type, const uint8_t *data, size_t n, int32_t *q)
{
    unsigned bits = qg_dtype_bits(type), sign = 1u << (bits - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned code = bits < 8 ? qg_packed_get(data, bits, i) : data[i * bits / 8];
        if (bits == 16)
            code |= (unsigned)data[2 * i + 1] << 8;
        bool negative = qg_dtype_kind_of(type) == QG_KIND_INT && (code & sign);
        q[i] = (int32_t)code - (negative ? (int32_t)(2 * sign) : 0);
    }
}

/* Shape around the axis, and the parameters. */
static qg_qdq parameters(vec_run *v, const json *c, const vec_tensor *x)
{
    const json *attributes = js_get(c, "attributes"), *inputs = js_get(c, "inputs");
    vec_tensor scale = vec_read_tensor(v, js_at(inputs, 1));
    qg_qdq q = { .outer = 1, .dim = 1, .inner = x->n, .scale = scale.f };
    q.block = (size_t)js_i64_or(attributes, "block_size", 0);
    q.no_saturate = js_i64_or(attributes, "saturate", 1) == 0;
    if (scale.n != 1 || q.block) {
        int64_t axis = js_i64_or(attributes, "axis", 1);
        axis += axis < 0 ? x->rank : 0;
        q.inner = 1;
        for (int32_t d = 0; d < x->rank; d++)
            *(d < axis ? &q.outer : d == axis ? &q.dim : &q.inner) *= (size_t)x->dim[d];
    }
    if (js_count(inputs) > 2) {
        vec_tensor zero = vec_read_tensor(v, js_at(inputs, 2));
        q.zero_point = stored(v, &zero);
    }
    return q;
}

static void compare(vec_run *v, const json *c, const char *key, qg_qdq q, bool quantize)
{
    const json *want_json = js_find(c, key);
    vec_tensor x = vec_read_tensor(v, js_at(js_get(c, "inputs"), 0));
    if (!want_json)
        return;
    vec_tensor want = vec_read_tensor(v, js_at(want_json, 0));
    q.type = quantize ? want.dtype : x.dtype;
    if (quantize) {
        uint8_t *codes = vec_get(v, x.n * 4 + 1, 1);
        int32_t *got = VEC_NEW(v, x.n + 1, int32_t);
        qg_quantize_linear(&q, x.f, codes);
        loaded(q.type, codes, x.n, got);
        vec_same_ints(v, key, got, want.q, x.n);
    } else {
        float *got = VEC_NEW(v, x.n + 1, float);
        qg_dequantize_linear(&q, stored(v, &x), got);
        vec_same_floats(v, key, got, want.f, x.n);
    }
}

static void dynamic(vec_run *v, const json *c)
{
    vec_tensor x = vec_read_tensor(v, js_at(js_get(c, "inputs"), 0));
    const json *expected = js_get(c, "expected");
    vec_tensor codes = vec_read_tensor(v, js_at(expected, 0));
    vec_tensor scale = vec_read_tensor(v, js_at(expected, 1));
    vec_tensor zero = vec_read_tensor(v, js_at(expected, 2));
    uint8_t *y = vec_get(v, x.n + 1, 1), zero_point;
    int32_t *got = VEC_NEW(v, x.n + 1, int32_t);
    float s;
    qg_dynamic_quantize_linear(x.f, x.n, y, &s, &zero_point);
    loaded(QG_U8, y, x.n, got);
    vec_same_ints(v, "y", got, codes.q, x.n);
    vec_same_floats(v, "scale", &s, scale.f, 1);
    vec_same_i64(v, "zero point", zero_point, zero.q[0]);
}

/* Results on aarch64 are unknown without a replay there. */
void vec_ort_qdq(vec_run *v, const json *root)
{
    bool aarch64 = js_find(root, "replayed_aarch64") != NULL;
    JS_EACH(c, js_get(root, "cases"))
    {
        const char *op = js_str(c, "op");
        vec_case(v, "%s", js_str(c, "name"));
        if (strcmp(op, "DynamicQuantizeLinear") == 0) {
            dynamic(v, c);
            continue;
        }
        bool quantize = strcmp(op, "QuantizeLinear") == 0;
        vec_tensor x = vec_read_tensor(v, js_at(js_get(c, "inputs"), 0));
        qg_qdq q = parameters(v, c, &x);
        compare(v, c, "expected", q, quantize);
        compare(v, c, "expected_x86_avx2", q, quantize);
        q.aarch64 = true;
        if (aarch64)
            compare(v, c,
                    js_find(c, "expected_aarch64") ? "expected_aarch64" : "expected", q,
                    quantize);
    }
}
