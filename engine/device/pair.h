/* pair.h -- which array of a trace holds which value of a model.
 *
 *     name         the array has the name of the value
 *     endpoint     its endpoint is the value's producer: "Conv_3.out0"
 *     correlation  neither: the best match by shape, order of producers and correlation
 *                  with the program's own values on the first sample
 *
 * The elements of an array are those of the value in another order where its layout or
 * permutation gives one, or where only channels-last dims fit. */
#ifndef QG_ENGINE_DEVICE_PAIR_H
#define QG_ENGINE_DEVICE_PAIR_H

#include "engine/device/trace.h"
#include "engine/ir/recipe.h"

/* In which order the elements of a sample are read.  FOUND: as the array's layout or
 * permutation gives it, else the model's where that fits, else channels-last. */
typedef enum qg_pair_order { QG_ORDER_FOUND, QG_ORDER_CHANNELS_LAST } qg_pair_order;

/* Scales nearer than this can be one scale, of which a trace has three digits. */
#define QG_FEW_DIGITS 5e-3F

/* A pair must stay where it is: grid can point to zero and scale of the same pair. */
typedef struct qg_pair {
    const qg_trace_array *array;   /* NULL: the value is not in the trace */
    const qg_trace_array *doubted; /* what it holds is not what its node computes */
    const char *how;               /* static: see above */
    double confidence;             /* 1, or the correlation */
    qg_pair_order order;
    qg_tensor view;   /* float64, dims of the value, strides of the array's sample */
    bool moved;       /* channels-last was found out, not given */
    qg_stored grid;   /* on which the device's codes are; codes false: floats */
    double low, high; /* codes to which floats are limited, as results of their node:
                       * those of the grid, but what the node itself clamps in real
                       * numbers must not lie beyond */
    bool real;        /* a float value, of which the trace holds codes with a grid */
    bool fed;         /* floats of an input of the network, as its samples have them */
    bool refuted;     /* the trace gives another grid, which its codes contradict */
    bool other;       /* that is another grid than the program's: */
    int32_t zero;     /* grid.zero points here, */
    float scale;      /* and grid.scale here */
    int32_t
        shift; /* to the program's codes from those of another type, uint8 for int8 */
} qg_pair;

/* Whether the array's samples have these dims in out->order: then *out has view and
 * moved.  Dims of the type that are not known are those of the array; its rank too,
 * then with every axis of a sample. */
bool qg_pair_fits(const qg_trace_array *a, const qg_tensor *type, qg_pair *out);

/* QG_EDATA: the array has the name of a value of g of this type, and does not fit. */
QG_NODISCARD qg_status qg_pair_unfit(const qg_graph *g, const qg_trace *t,
                                     const qg_trace_array *a, const qg_tensor *type);

/* Whether t, computed for the value of the pair, has the dims of the array's samples:
 * where dims depend on the data, a device can have others. */
bool qg_pair_has_dims(const qg_pair *p, const qg_tensor *t);

/* Whether the dims fit in the model's order and in channels-last, and the trace does
 * not give one: elements must decide (qg_correlation_of). */
bool qg_pair_is_ambiguous(const qg_trace_array *a, const qg_tensor *type);

/* Where the grid of the pair's array comes from, for the end of a sentence. */
static inline const char *qg_pair_origin(const qg_pair *p)
{
    return p->array->found ? " (found in its elements)" : " (given by the dump)";
}

/* Whether the dump itself has the array on the program's grid: it gives that grid, or
 * the elements show it. */
static inline bool qg_pair_confirms(const qg_pair *p)
{
    return p->array->grid && !p->other && !p->refuted;
}

/* Which value of g an array holds by its names; NULL: none. */
const qg_value *qg_pair_named(const qg_graph *g, const qg_trace_array *a,
                              const char **how);

/* Sample k of the value as numbers in its own order, [elements], in a. */
QG_NODISCARD qg_status qg_pair_read(qg_ctx *ctx, const qg_pair *p,
                                    const qg_trace_data *d, size_t sample, qg_arena *a,
                                    double **out);

#endif
