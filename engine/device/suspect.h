/* suspect.h -- hypotheses about a step whose result differs from the device's.
 *
 * A hypothesis is another arithmetic: the step's graph with one change, the step as
 * another profile computes it, or the real value rounded in one way.  Each is computed
 * on the device's own inputs by the same kernels and counts the elements that it
 * explains; none is reported that explains no more than the program itself, but one
 * that the dump is too small to test.
 *
 *     cause            changes
 *     requantization   scheme, factor, place of the zero point
 *     headroom         bits to the left of which operands are brought to one grid
 *     rounding         of a kernel that rounds floats; of the exact value
 *     operand          zero point 0 of an input
 *     saturation       products in saturating pairs
 *     clamp            limits of the codes
 *     padding          code 0 instead of the zero point
 *     weights          one scale for all channels
 *     bias             none, twice, another one per channel
 *     grid             of the output
 *     fusion           a rounding between two nodes that is not there, or is
 *     profile          the row of another profile
 *
 * Order    elements explained, then the simpler one; undecided ones are last */
#ifndef QG_ENGINE_DEVICE_SUSPECT_H
#define QG_ENGINE_DEVICE_SUSPECT_H

#include "engine/device/step.h"

/* fits: elements of all samples that are the device's under this hypothesis.  It is
 * no proof: samples that do not exercise a difference fit several hypotheses alike. */
typedef struct qg_suspect {
    const char *cause;   /* static */
    const char *verdict; /* in words */
    const char *detail;  /* of several that fit alike, with '; '; NULL: none */
    unsigned rank;       /* lower is simpler */
    bool undecided;      /* the dump is too small to test it: last, never the verdict */
    bool fitted;         /* its numbers were fitted to the dump: it must explain more */
    uint64_t fits, of;   /* elements */
} qg_suspect;

/* An element that differs. */
typedef struct qg_evidence {
    size_t sample, index;
    double ours, theirs;
    double real;        /* of the value; NAN: not known */
    double accumulator; /* NAN: the step is no single product of codes */
} qg_evidence;

enum { QG_EVIDENCE = 3 };

/* What was found about one step. */
typedef struct qg_finding {
    const qg_device_step *step;
    bool fed; /* computed from the samples alone, not from arrays of the trace */
    qg_tally tally;
    double correlation; /* of both, over all elements */
    qg_evidence at[QG_EVIDENCE];
    size_t n_at;
    uint64_t ties;              /* elements whose real value is half-way */
    uint64_t differ_at_ties;    /* of those that differ, by one code */
    bool judged;                /* hypotheses were tried, */
    bool explained;             /* and the best explains enough to be a verdict */
    QG_VEC(qg_suspect) suspect; /* best first */
} qg_finding;

/* f->step, f->tally and f->at are given.  Texts are in d->arena.  A step that stores
 * floats is compared with other profiles by qg_model_fit only: it gets no
 * hypotheses. */
QG_NODISCARD qg_status qg_suspect_step(const qg_device *d, const qg_others *others,
                                       qg_finding *f);

#endif
