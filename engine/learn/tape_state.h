/* tape_state.h -- what a tape consists of: written once by tape_build.c, in use by
 * tape.c.
 *
 * Memory   arena: the tape; pass: values and gradients that last from one segment to
 *          another, reset by each forward; segment: all others; scratch: of one node */
#ifndef QG_ENGINE_LEARN_TAPE_STATE_H
#define QG_ENGINE_LEARN_TAPE_STATE_H

#include "engine/core/rng.h"
#include "engine/core/vec.h"
#include "engine/learn/tape.h"

/* An endpoint that rounds. */
typedef struct rounding {
    const qg_tqc *tqc;     /* NULL: does not round */
    uint32_t step;         /* in tape->step */
    const qg_tensor *x;    /* before rounding, of the last forward; NULL: not rounded */
    const qg_tensor *y;    /* after it */
    const uint64_t *drawn; /* elements that were not rounded (drop.h); NULL: none */
} rounding;

/* A value of the graph, as far as the tape knows it. */
typedef struct slot {
    const qg_tensor *now; /* constant, input or result; NULL: not of this tape */
    qg_tensor *grad;      /* of the last backward; NULL: none arrived yet */
    uint32_t weight;      /* in tape->weight; QG_NONE */
    bool wanted;          /* depends on a weight, a learned step or an input */
    bool kept;            /* leads out of its segment: now is a copy in `pass` */
    bool lasts;           /* so does its gradient, or no segment computes it */
} slot;

/* A constant that is no weight of the tape, and that was learned before (ir/graph.h):
 * the float network has another one in its place. */
typedef struct qg_learned_before {
    uint32_t value; /* its id */
    const qg_tensor *real;
} qg_learned_before;

/* One node of the part. */
typedef struct entry {
    const qg_node *node;
    rounding *in, *out;    /* [n_in], [n_out] */
    const qg_tensor **arg; /* [n_in] what run got, of the last forward */
    qg_tensor *result;     /* [n_out] */
    qg_tensor **result_at; /* [n_out] NULL: absent */
} entry;

struct qg_tape_state {
    qg_arena *arena;   /* as long as the tape */
    qg_arena *pass;    /* of one forward and backward */
    qg_arena *segment; /* of one segment in them */
    qg_arena *scratch;
    uint64_t drop; /* as the tape had it at the start of the last forward */
    qg_rng draws;  /* of the present forward */
    slot *value;   /* [values] */
    size_t *end;   /* [n_segment] behind its last entry */
    qg_rng *drawn; /* [n_segment] draws where it begins */
    size_t n_segment;
    bool again; /* a segment is computed for the second time */
    QG_VEC(entry) node;
    QG_VEC(qg_learned_before) learned;
};

#endif
