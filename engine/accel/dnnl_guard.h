/* dnnl_guard.h -- the functions of oneDNN that allocate, safe when memory runs out:
 * they return dnnl_out_of_memory.
 *
 * oneDNN takes no allocator.  Where memory is missing it throws std::bad_alloc through
 * its C interface, uses a null pointer, or throws in a function that must not.  So
 * these refuse to call it unless a reserve is free, and catch what it throws all the
 * same. */
#ifndef QG_ENGINE_ACCEL_DNNL_GUARD_H
#define QG_ENGINE_ACCEL_DNNL_GUARD_H

#include <oneapi/dnnl/dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each has the parameters of dnnl_<name>: name, reserve, parameters, arguments. */
/* clang-format off */
#define QG_DNNL_GUARDED(X)                                                             \
    X(engine_create, FOR_OBJECTS,                                                      \
      (dnnl_engine_t *e, dnnl_engine_kind_t k, size_t i), (e, k, i))                   \
    X(stream_create, FOR_OBJECTS,                                                      \
      (dnnl_stream_t *s, dnnl_engine_t e, unsigned f), (s, e, f))                      \
    X(memory_create, FOR_EXECUTION,                                                    \
      (dnnl_memory_t *m, const dnnl_memory_desc_t *d, dnnl_engine_t e, void *p),       \
       (m, d, e, p))                                                                   \
    X(memory_set_data_handle, FOR_EXECUTION,                                           \
      (dnnl_memory_t m, void *p), (m, p))                                              \
    X(primitive_create, FOR_OBJECTS,                                                   \
      (dnnl_primitive_t *p, const_dnnl_primitive_desc_t d), (p, d))                    \
    X(primitive_execute, FOR_EXECUTION,                                                \
      (const_dnnl_primitive_t p, dnnl_stream_t s, int n, const dnnl_exec_arg_t *a),    \
       (p, s, n, a))                                                                   \
    X(primitive_desc_create, FOR_OBJECTS,                                              \
      (dnnl_primitive_desc_t *p, const_dnnl_op_desc_t d,                               \
       const_dnnl_primitive_attr_t a, dnnl_engine_t e,                                 \
       const_dnnl_primitive_desc_t h), (p, d, a, e, h))                                \
    X(reorder_primitive_desc_create, FOR_OBJECTS,                                      \
      (dnnl_primitive_desc_t *p, const dnnl_memory_desc_t *x, dnnl_engine_t ex,        \
       const dnnl_memory_desc_t *y, dnnl_engine_t ey,                                  \
       const_dnnl_primitive_attr_t a), (p, x, ex, y, ey, a))                           \
    X(post_ops_create, FOR_EXECUTION,                                                  \
      (dnnl_post_ops_t *p), (p))                                                       \
    X(post_ops_append_eltwise, FOR_EXECUTION,                                          \
      (dnnl_post_ops_t p, float s, dnnl_alg_kind_t k, float a, float b),               \
       (p, s, k, a, b))                                                                \
    X(primitive_attr_create, FOR_EXECUTION,                                            \
      (dnnl_primitive_attr_t *a), (a))                                                 \
    X(primitive_attr_set_post_ops, FOR_EXECUTION,                                      \
      (dnnl_primitive_attr_t a, const_dnnl_post_ops_t p), (a, p))                      \
    X(primitive_attr_set_zero_points, FOR_EXECUTION,                                   \
      (dnnl_primitive_attr_t a, int arg, dnnl_dim_t n, int mask,                       \
       const int32_t *zero), (a, arg, n, mask, zero))                                  \
    X(primitive_attr_set_output_scales, FOR_OBJECTS,                                   \
      (dnnl_primitive_attr_t a, dnnl_dim_t n, int mask, const float *scale),           \
       (a, n, mask, scale))
/* clang-format on */

#define X(name, room, parameters, arguments) dnnl_status_t qg_dnnl_##name parameters;
QG_DNNL_GUARDED(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif
