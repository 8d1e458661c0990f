/* JSON and tensors of the vector files. */
#include "tests/programs/vectors/vectors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vec_malformed(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("vectors: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

void *vec_get(vec_run *v, size_t count, size_t size)
{
    void *p = qg_arena_get(v->arena, count, size);
    if (!p)
        vec_malformed("out of memory");
    return p;
}

const json *js_find(const json *object, const char *key)
{
    return qg_json_get(object, key);
}

const json *js_get(const json *object, const char *key)
{
    const json *value = js_find(object, key);
    if (!value)
        vec_malformed("object '%s' lacks '%s'", js_key(object), key);
    return value;
}

const json *js_at(const json *array, size_t i)
{
    if (array->type != QG_JSON_ARRAY || i >= array->count)
        vec_malformed("'%s' has no element %zu", js_key(array), i);
    return &array->item[i];
}

static bool has_items(const json *v)
{
    return v->type == QG_JSON_ARRAY || v->type == QG_JSON_OBJECT;
}

const json *js_first(const json *parent)
{
    return has_items(parent) && parent->count > 0 ? parent->item : NULL;
}

const json *js_next(const json *item)
{
    const json *end = item->parent->item + item->parent->count;
    return item + 1 < end ? item + 1 : NULL;
}

const char *js_key(const json *member) { return member->key ? member->key : ""; }
size_t js_count(const json *array) { return has_items(array) ? array->count : 0; }

double js_number(const json *number)
{
    if (number->type == QG_JSON_TEXT && strcmp(number->text, "inf") == 0)
        return INFINITY;
    if (number->type == QG_JSON_BOOL)
        return number->truth;
    if (number->type != QG_JSON_NUMBER)
        vec_malformed("'%s' is not a number", js_key(number));
    return number->number;
}

int64_t js_int(const json *number) { return (int64_t)js_number(number); }

const char *js_text(const json *string)
{
    if (string->type != QG_JSON_TEXT)
        vec_malformed("'%s' is not a string", js_key(string));
    return string->text;
}

bool js_is_text(const json *value) { return value->type == QG_JSON_TEXT; }
bool js_is_null(const json *value) { return value->type == QG_JSON_NULL; }

bool js_true(const json *value)
{
    return value && ((value->type == QG_JSON_BOOL && value->truth) ||
                     (value->type == QG_JSON_NUMBER && value->number != 0));
}
double js_num(const json *o, const char *key) { return js_number(js_get(o, key)); }
int64_t js_i64(const json *o, const char *key) { return js_int(js_get(o, key)); }
const char *js_str(const json *o, const char *key) { return js_text(js_get(o, key)); }

int64_t js_i64_or(const json *o, const char *key, int64_t otherwise)
{
    const json *value = js_find(o, key);
    return value ? js_int(value) : otherwise;
}

double js_num_or(const json *o, const char *key, double otherwise)
{
    const json *value = js_find(o, key);
    return value ? js_number(value) : otherwise;
}

static float float_of(const json *value)
{
    if (!js_is_text(value))
        return (float)js_number(value);
    const char *text = js_text(value);
    if (strncmp(text, "0x", 2) != 0)
        return (float)js_number(value);
    uint32_t bits = (uint32_t)strtoul(text, NULL, 16);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float js_f32(const json *o, const char *key) { return float_of(js_get(o, key)); }

static size_t length(const json *array)
{
    return array->type == QG_JSON_ARRAY ? array->count : 1;
}

/* Element i of an array, or the value itself. */
static const json *element(const json *array, size_t i)
{
    return array->type == QG_JSON_ARRAY ? &array->item[i] : array;
}

float *js_floats(vec_run *v, const json *array, size_t *n)
{
    size_t count = length(array);
    float *x = VEC_NEW(v, count, float);
    for (size_t i = 0; i < count; i++)
        x[i] = float_of(element(array, i));
    if (n)
        *n = count;
    return x;
}

double *js_doubles(vec_run *v, const json *array, size_t *n)
{
    size_t count = length(array);
    double *x = VEC_NEW(v, count, double);
    for (size_t i = 0; i < count; i++)
        x[i] = js_number(element(array, i));
    if (n)
        *n = count;
    return x;
}

int32_t *js_ints(vec_run *v, const json *array, size_t *n)
{
    size_t count = length(array);
    int32_t *x = VEC_NEW(v, count, int32_t);
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)js_int(element(array, i));
    if (n)
        *n = count;
    return x;
}

vec_tensor vec_read_tensor(vec_run *v, const json *tensor)
{
    vec_tensor t = { .name = js_str(tensor, "name"), .n = 1 };
    const json *shape = js_get(tensor, "shape");
    t.dtype = qg_dtype_named(js_str(tensor, "dtype"));
    t.rank = (int32_t)js_count(shape);
    if (t.dtype == QG_NODTYPE || t.rank > VEC_RANK)
        vec_malformed("tensor %s: unknown type or rank %d", t.name, (int)t.rank);
    for (int32_t i = 0; i < t.rank; i++) {
        t.dim[i] = js_int(js_at(shape, (size_t)i));
        t.n *= (size_t)t.dim[i];
    }
    size_t n;
    if (js_find(tensor, "hex"))
        t.f = js_floats(v, js_get(tensor, "hex"), &n);
    else
        t.q = js_ints(v, js_get(tensor, "data"), &n);
    if (n != t.n)
        vec_malformed("tensor %s: %zu values, expected %zu", t.name, n, t.n);
    return t;
}

static const json *named(const json *tensors, const char *name)
{
    JS_EACH(t, tensors)
    if (strcmp(js_str(t, "name"), name) == 0)
        return t;
    return NULL;
}

bool vec_has_tensor(const json *tensors, const char *name)
{
    return named(tensors, name);
}

vec_tensor vec_tensor_named(vec_run *v, const json *tensors, const char *name)
{
    const json *t = named(tensors, name);
    if (!t)
        vec_malformed("a case lacks the tensor '%s'", name);
    return vec_read_tensor(v, t);
}

void *vec_storage(vec_run *v, const vec_tensor *t)
{
    size_t width = qg_dtype_bits(t->dtype) / 8;
    unsigned char *bytes = vec_get(v, t->n ? t->n : 1, width);
    for (size_t i = 0; i < t->n; i++)
        memcpy(bytes + i * width, &t->q[i], width); /* little endian */
    return bytes;
}

const json *vec_expected(const json *c, const char *const *keys)
{
    for (; *keys; keys++)
        if (js_find(c, *keys))
            return js_find(c, *keys);
    vec_malformed("case '%s' lacks 'expected'", js_str(c, "name"));
}
