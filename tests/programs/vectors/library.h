/* library.h -- the schema that the library files share: cases of one operator, run once
 * per kernel set and compared with the most specific 'expected' key that is there. */
#ifndef QG_TESTS_PROGRAMS_VECTORS_LIBRARY_H
#define QG_TESTS_PROGRAMS_VECTORS_LIBRARY_H

#include "engine/number/integer_array.h"
#include "engine/number/integer_binary.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_sum.h"
#include "tests/programs/vectors/vectors.h"

/* One kernel set: the name of its profile, and its keys, the most specific first
 * (NULL-ended). */
typedef struct vec_kernel {
    const char *name;
    const char *keys[5];
    const qg_profile *profile; /* set by vec_library */
} vec_kernel;

/* What an operator computed: codes or floats. */
typedef struct vec_result {
    int32_t *q;
    float *f;
    size_t n;
} vec_result;

/* Runs one case; false after a failure that has been reported with vec_ok. */
typedef bool vec_op(vec_run *v, const json *c, const vec_kernel *k, vec_result *out);

typedef struct vec_op_row {
    const char *op;
    vec_op *run;
} vec_op_row;

/* Both tables end with an empty row.  Operators without a row are counted as skipped.
 * */
void vec_library(vec_run *v, const json *root, const vec_op_row *ops,
                 const vec_kernel *kernels);

/* Tensors of the open case by name; the single value of a scalar. */
vec_tensor vec_input(vec_run *v, const json *c, const char *name);
bool vec_has_input(const json *c, const char *name);
float vec_input_f32(vec_run *v, const json *c, const char *name);
int32_t vec_input_i32(vec_run *v, const json *c, const char *name);

/* Attribute of the case, or otherwise. */
int64_t vec_attribute(const json *c, const char *name, int64_t otherwise);

/* Grid of "NAME_scale", "NAME_zero_point" for codes of this type. */
qg_grid vec_grid(vec_run *v, const json *c, const char *prefix, qg_dtype dtype);

qg_int_dims vec_dims(const vec_tensor *t);

/* An element-wise operator on inputs a and b (names), output grid of prefix y. */
bool vec_binary(vec_run *v, const json *c, const vec_kernel *k, qg_int_binary_op op,
                const char *const names[3], vec_result *out);

/* The kernel set's quantization of floats to grid y. */
bool vec_quantizer(vec_run *v, const vec_kernel *k, qg_grid y,
                   qg_affine_quantizer *out);

/* A dense layer or matrix product as sums: x [n, depth], w [outs, depth]. */
qg_int_sum vec_dense(const int32_t *x, const int32_t *w, size_t n, size_t depth,
                     size_t outs);

/* Requantizes acc [batches, channels, pixels] with weight scales (nws: 1 or one per
 * channel) in place, as `row` requires. */
typedef struct vec_requant {
    const qg_profile_row *row;
    float sx;
    qg_grid y;
    const float *ws;
    size_t nws;
} vec_requant;
bool vec_requantize(vec_run *v, const vec_requant *r, int32_t *acc,
                    const size_t extents[3]);

#endif
