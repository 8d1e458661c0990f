/* util_integer.h -- what the operators on codes share: their recipe, checks, factors,
 * and the walk over codes.
 *
 * Every operator of domain "quantgraph" reads its recipe (ir/recipe.h) in prepare.
 * infer checks types and factors, so that run can only run out of memory.  run is the
 * definition: codes are widened to int32 and go through the primitives of
 * engine/number. */
#ifndef QG_OPS_UTIL_INTEGER_H
#define QG_OPS_UTIL_INTEGER_H

#include "engine/ir/recipe.h"
#include "ops/util_check.h"

/* Types of codes. */
#define QG_DT_CODES (QG_DT(I8) | QG_DT(U8) | QG_DT(I16) | QG_DT(U16))

/* For .prepare of an operator whose param is (or begins with) a qg_recipe. */
QG_NODISCARD qg_status qg_integer_prepare(qg_ctx *ctx, const qg_node *n, void *param);

/* Input `slot` has the type of its grid, which is given once, or for each of `channels`
 * channels (-1: their number is not known).  Absent inputs pass. */
QG_NODISCARD qg_status qg_integer_check_in(const qg_call *k, const qg_recipe *r,
                                           size_t slot, int64_t channels);

/* Output 0 is stored as codes / as codes or floats: QG_EMODEL names the attribute. */
QG_NODISCARD qg_status qg_integer_check_codes(const qg_call *k, const qg_recipe *r);

/* The form is among the listed ones (sum of 1 << qg_form); QG_EUNSUPPORTED lists
 * them. */
QG_NODISCARD qg_status qg_integer_check_form(const qg_call *k, const qg_recipe *r,
                                             uint64_t mask);

/* The grid of one tensor, as the primitives take it. */
qg_grid qg_integer_grid(const qg_stored *s);

/* Zero point and limits of output 0. */
qg_code_range qg_integer_range(const qg_recipe *r);

/* Limits of the record and of a fused clamp, behind the runtime's own; in place. */
void qg_integer_limit(const qg_recipe *r, int32_t *y, size_t n);

/* Form vector8: the channels of input 1 that are left behind groups of QG_VECTOR8 have
 * another rounding. */
enum { QG_VECTOR8 = 8 };
bool qg_integer_by_vectors(const qg_recipe *r);

/* The requantization of channel c of input 1 (w NULL: the scale of input 0 alone) to
 * output 0; a float output counts as scale 1.  QG_EMODEL without a scheme. */
QG_NODISCARD qg_status qg_integer_requant(const qg_call *k, const qg_recipe *r,
                                          const qg_stored *w, uint32_t c,
                                          qg_requant *out);

/* All of them, [w->n], in k->scratch. */
QG_NODISCARD qg_status qg_integer_requants(const qg_call *k, const qg_recipe *r,
                                           const qg_stored *w, const qg_requant **out);

/* y[i] = f(x[i]) for n codes, widened. */
typedef void qg_integer_map_fn(const void *state, const int32_t *x, int32_t *y,
                               size_t n);

/* Output 0 = f of input 0, span by span. */
void qg_integer_map(const qg_call *k, qg_integer_map_fn *f, const void *state);

/* A tensor of codes with its zero points taken off, as doubles (exact), in k->scratch.
 * Zero points per channel along s->axis. */
QG_NODISCARD qg_status qg_integer_centred(const qg_call *k, const qg_tensor *t,
                                          const qg_stored *s, double **out);

/* [n] zeroed elements of k->scratch as doubles. */
QG_NODISCARD qg_status qg_integer_sums(const qg_call *k, const qg_tensor *t,
                                       double **out);

/* Sums of `terms` products of codes of two grids are exact in double (and in 64
 * bits); else QG_EUNSUPPORTED. */
QG_NODISCARD qg_status qg_integer_check_exact(const qg_call *k, const qg_stored *a,
                                              const qg_stored *b, int64_t terms);

/* What is done with sums: factors per channel, and the bias of a float output. */
typedef struct qg_integer_tail {
    const qg_requant *r; /* [channels], or one */
    const float *bias;   /* float output: [channels]; NULL: none */
    bool per_channel;    /* r has one entry per channel */
    bool fma;            /* float output: fma(acc, f, bias) */
} qg_integer_tail;

/* Stores sums [outer][channels][inner] of output 0 (plain): codes, or floats
 * f32(f32(acc f) + bias).  Sums are taken modulo 2^32 unless the accumulator has 64
 * bits. */
void qg_integer_finish(const qg_call *k, const qg_integer_tail *t, int64_t channels,
                       int64_t inner, const double *acc);

#endif
