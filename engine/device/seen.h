/* seen.h -- what a trace shows about each value of a float network: whether the
 * device rounded it, and to which grid.
 *
 *     HIDDEN   the trace lacks it: the device never stored it, or did not show it
 *     CODES    integers, or floats that all lie on one grid
 *     REAL     floats that lie on no grid
 *     UNSURE   too few different elements to tell CODES from REAL, or float16 and
 *              bfloat16 without a description: their own grid hides that of the device
 *
 * Grid     a step and the real 0, which every quantization grid holds: an element is
 *          step times an integer.  Floats alone give the step, not the zero point,
 *          which only a description of the array can give.
 * Limits   the step is the greatest one that explains the elements: codes that are all
 *          even in the samples give twice the true step.  With more samples it stays or
 *          gets smaller
 * Example  0.2, 0.5, 0.6, -0.3: with 0 the gaps are 0.3, 0.2, 0.3, 0.1, so the step is
 *          0.1, low -3, high 6, levels 4
 * Memory   one sample of one array, and its different elements
 * Threads  read-only once made
 *
 *     QG_TRY(qg_see_values(m, &feed, trace, arena, &o));
 *     if (o.at[v->id].kind == QG_SEEN_CODES) ... o.at[v->id].step ... */
#ifndef QG_ENGINE_DEVICE_SEEN_H
#define QG_ENGINE_DEVICE_SEEN_H

#include "engine/device/pair.h"
#include "engine/exec/ahead.h"
#include "engine/snapshot/model.h"

/* Different elements below which nothing is told. */
enum { QG_SEEN_FEW = 4 };
/* Steps from 0 below which elements are counted. */
enum { QG_SEEN_NEAR = 16 };

typedef enum qg_seen_kind {
    QG_SEEN_HIDDEN,
    QG_SEEN_CODES,
    QG_SEEN_REAL,
    QG_SEEN_UNSURE
} qg_seen_kind;

/* One value.  step and zero are those of the trace where it gives a grid that holds
 * every element, else the step is found in the elements. */
typedef struct qg_seen {
    const qg_value *value;
    qg_tensor type; /* dims of a sample, also where the network leaves them open; no
                     * data */
    qg_seen_kind kind;
    double step;      /* CODES: > 0, in the unit of the value; 0: integers of an unknown
                       * scale */
    bool zero_known;  /* the next one is given */
    int32_t zero;     /* code of the real 0 */
    int sign;         /* of the trace's type: 1 unsigned, -1 signed, 0 floats */
    double low, high; /* least and greatest element: in steps, or codes for step 0 */
    unsigned bits;    /* significant ones of the elements, in steps: 12 has two; 0
                       * without a step */
    size_t levels;    /* different elements; 0 when they were not counted to the end */
    uint16_t near[QG_SEEN_NEAR]; /* [k] different elements of k or -k steps, in how many
                       * channels; k from 1.  0 without a step, where the trace gives
                       * one, and of values that are not computed by a product: a sum or
                       * a copy of coarse elements is coarse */
} qg_seen;

/* Arrays are in the arena of qg_see_values; graph and trace must outlive the struct.
 * at[id] exists for every value: HIDDEN where pair[id] has no array.  An array is in
 * either pair or unpaired. */
typedef struct qg_seen_values {
    const qg_graph *graph; /* the float network's */
    const qg_trace *trace; /* borrowed */
    qg_pair *pair;         /* [values of graph] */
    qg_seen *at;           /* [values of graph] */
    qg_seen *hidden;       /* [values of graph] each as if it had no array */
    qg_tensor *declared; /* [values of graph] types of these samples; dims that are not
                            * known depend on the data */
    QG_VEC(const qg_value *)
    by_endpoint; /* paired so: passes of a backend can have made
                                           * another value of this endpoint */
    size_t seen; /* values with an array */
    size_t compared,
        alike; /* arrays near the inputs; those that are the network's on the
                             * first sample but for rounding */
    QG_VEC(const qg_trace_array *) unpaired;
} qg_seen_values;

/* Only float32 values have pairs.  Arrays without a known name are paired by
 * correlation with the float network on the first sample of the feed.  QG_EDATA: an
 * array that does not fit, an element that is NaN, no array of a value, fewer
 * samples than the feed has. */
QG_NODISCARD qg_status qg_see_values(qg_model *m, const qg_feed *feed,
                                     const qg_trace *t, qg_arena *a,
                                     qg_seen_values *out);

const char *qg_seen_name(qg_seen_kind k); /* "codes" */

/* *step: that of a grid through 0 that holds all of x[n], which is sorted, and *levels
 * of them that are different; 0: there is none, or too few to tell.  Scratch is in
 * a. */
QG_NODISCARD qg_status qg_seen_step(qg_ctx *ctx, qg_arena *a, double *x, size_t n,
                                    size_t *levels, double *step);

/* Element values of a sample in the value's order and unit, in a; [array->count].
 * Codes of an unknown scale stay codes. */
QG_NODISCARD qg_status qg_seen_read(qg_ctx *ctx, const qg_seen_values *o,
                                    const qg_seen *v, size_t sample, qg_arena *a,
                                    double **out);

#endif
