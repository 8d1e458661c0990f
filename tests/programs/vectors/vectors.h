/* vectors.h -- reads reference vectors and counts agreements.
 *
 * A part is a function run on one file of a folder like shared/vectors.  It opens cases
 * with vec_case(), compares with vec_same*() and vec_close(), and reports uncovered
 * cases with vec_skip().  A case counts as passed when every comparison in it held.
 *
 * Malformed files end the program with status 2 and the position in the file: they are
 * input of a test program, not of the library.  Memory: all data read is in the run's
 * arena, which is reset after each file. */
#ifndef QG_TESTS_PROGRAMS_VECTORS_VECTORS_H
#define QG_TESTS_PROGRAMS_VECTORS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/ctx.h"
#include "engine/core/json.h"
#include "engine/number/integer_array.h"
#include "engine/number/profile.h"

typedef qg_json json;

typedef struct vec_run {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *path; /* of the file, for npz files beside it */
    unsigned cases, passed;
    unsigned shown;  /* failures printed so far */
    bool open, good; /* a case is open; nothing in it failed yet */
    char name[128];  /* of the open case */
    struct {
        char what[96];
        unsigned n;
    } skipped[64];
    unsigned nskipped;
} vec_run;

typedef void vec_part(vec_run *v, const json *root);

/* -- cases ------------------------------------------------------------------------ */

/* Closes the case before it, if any. */
void vec_case(vec_run *v, const char *fmt, ...) QG_PRINTF(2, 3);

/* Closes the open case without counting it. */
void vec_drop(vec_run *v);

/* One more `what` that is not covered yet. */
void vec_skip(vec_run *v, const char *fmt, ...) QG_PRINTF(2, 3);

/* Comparisons; `what` names the column.  Floats are compared bit for bit, except that
 * any NaN equals any NaN and -0 equals +0; a vec_tolerance allows
 * relative * max(|want|, floor). */
typedef struct vec_tolerance {
    double relative, floor;
} vec_tolerance;

void vec_same_i64(vec_run *v, const char *what, int64_t got, int64_t want);
void vec_same_ints(vec_run *v, const char *what, const int32_t *got,
                   const int32_t *want, size_t n);
void vec_same_floats(vec_run *v, const char *what, const float *got, const float *want,
                     size_t n);
void vec_close(vec_run *v, const char *what, double got, double want, vec_tolerance t);
void vec_close_all(vec_run *v, const char *what, const double *got, const double *want,
                   size_t n, vec_tolerance t);

/* At most `ulps` representable float32 values apart. */
void vec_ulps(vec_run *v, const char *what, const float *got, const float *want,
              size_t n, int64_t ulps);

/* A status that should have been QG_OK; true when it was. */
bool vec_ok(vec_run *v, const char *what, qg_status s);

/* -- JSON ------------------------------------------------------------------------- */

/* Member `key`, or element i; the program ends when it is missing (js_find: NULL). */
const json *js_get(const json *object, const char *key);
const json *js_find(const json *object, const char *key);
const json *js_at(const json *array, size_t i);
const json *js_first(const json *array_or_object); /* NULL when empty */
const json *js_next(const json *item);
const char *js_key(const json *member);
size_t js_count(const json *array);
double js_number(const json *number);
int64_t js_int(const json *number);
const char *js_text(const json *string);
bool js_is_text(const json *value);
bool js_is_null(const json *value);
bool js_true(const json *value); /* true, or a number other than 0 */

#define JS_EACH(item, array)                                                           \
    for (const json *item = js_first(array); item; item = js_next(item))

/* js_get and conversion in one. */
double js_num(const json *object, const char *key);
int64_t js_i64(const json *object, const char *key);
float js_f32(const json *object, const char *key);
const char *js_str(const json *object, const char *key);
int64_t js_i64_or(const json *object, const char *key, int64_t otherwise);
double js_num_or(const json *object, const char *key, double otherwise);

/* Arrays in the run's arena.  Floats come from numbers or from bit patterns
 * "0x3f800000"; a single value is an array of one. */
float *js_floats(vec_run *v, const json *array, size_t *n);
double *js_doubles(vec_run *v, const json *array, size_t *n);
int32_t *js_ints(vec_run *v, const json *array, size_t *n);

void *vec_get(vec_run *v, size_t count, size_t size); /* zeroed; never NULL */
#define VEC_NEW(v, n, type) ((type *)vec_get((v), (n), sizeof(type)))

/* Ends the program: the file violates its schema. */
void vec_malformed(const char *fmt, ...) QG_PRINTF(1, 2) __attribute__((noreturn));

/* -- tensors of the library files -------------------------------------------------- */

enum { VEC_RANK = 8 };

typedef struct vec_tensor {
    const char *name;
    qg_dtype dtype;
    int32_t rank;
    int64_t dim[VEC_RANK];
    size_t n;
    float *f;   /* float32 */
    int32_t *q; /* every integer type up to 32 bits */
} vec_tensor;

vec_tensor vec_read_tensor(vec_run *v, const json *tensor);

/* Tensor of this name among an array of tensors. */
vec_tensor vec_tensor_named(vec_run *v, const json *tensors, const char *name);
bool vec_has_tensor(const json *tensors, const char *name);

/* Stored bytes of an 8 or 16-bit tensor. */
void *vec_storage(vec_run *v, const vec_tensor *t);

/* The first key of the NULL-ended list that the case has. */
const json *vec_expected(const json *c, const char *const *keys);

/* -- profiles of integer arithmetic ------------------------------------------------ */

/* configs/profiles/NAME.yaml, in the run's arena; the program ends when it is
 * faulty. */
const qg_profile *vec_profile(vec_run *v, const char *name);

/* The row for an operator on grids {first input, second, output}; dtype QG_NODTYPE
 * where there is none, scale 0 for weights.  The program ends when no row fits. */
const qg_profile_row *vec_row(const qg_profile *p, qg_kernel_use use,
                              const qg_grid grid[3]);

/* -- parts: one per file, tests/programs/vectors/X.c ------------------------------ */

#define PART(file, function) vec_part function;
#include "tests/programs/vectors/parts.def"
#undef PART

#endif
