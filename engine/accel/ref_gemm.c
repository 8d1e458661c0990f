#include "engine/accel/accel.h"

/* Columns per pass: a row of sums stays in the nearest cache.  Lanes of a dot product:
 * two vectors of four floats. */
enum { CHUNK = 256, LANES = 8 };

#define REAL    float
#define SUM     float
#define NAME(f) f##_f32
#include "engine/accel/ref_gemm_body.h"
#undef REAL
#undef SUM
#undef NAME

#define REAL    double
#define SUM     double
#define NAME(f) f##_f64
#include "engine/accel/ref_gemm_body.h"
#undef REAL
#undef SUM
#undef NAME

/* Unsigned sums wrap without being undefined. */
#define REAL    int64_t
#define SUM     uint64_t
#define NAME(f) f##_i64
#include "engine/accel/ref_gemm_body.h"
#undef REAL
#undef SUM
#undef NAME
