/* tflite_program.h -- single operators of the TFLite runtime as integer programs.
 *
 * A case of ops.json (tests/data/vectors) becomes a graph of operators of domain
 * "quantgraph", between transposes where TFLite's layout is NHWC; its recipes are the
 * rows of a profile.  The plan's kernels and the definitions run it. */
#ifndef QG_TESTS_PROGRAMS_VECTORS_TFLITE_PROGRAM_H
#define QG_TESTS_PROGRAMS_VECTORS_TFLITE_PROGRAM_H

#include "engine/data/npz.h"
#include "engine/ir/recipe.h"
#include "tests/programs/vectors/vectors.h"

/* One case for one profile.  Operands are constants or graph inputs; `in` [n_in] are
 * the arrays of the latter. */
typedef struct tfl_case {
    vec_run *v;
    const json *c;  /* the case */
    const json *op; /* its operator */
    qg_npz *npz;    /* arrays */
    const qg_profile *profile;
    qg_graph *g;
    const qg_tensor *in[8];
    size_t n_in;
    qg_attr attr[16]; /* of the next node */
    size_t n_attr;
    const qg_profile_row *row;
    bool no_row; /* the profile has no formula for this operator */
} tfl_case;

/* Operand i of "inputs" or "outputs": its JSON, its grid, its array. */
const json *tfl_operand(const tfl_case *t, const char *which, size_t i);
bool tfl_has_operand(const tfl_case *t, size_t i);
qg_stored tfl_stored(const tfl_case *t, const json *tensor);
const qg_tensor *tfl_array(const tfl_case *t, const json *tensor);

/* The row of the profile for the types and ratios of these operands; sets row, or
 * no_row. */
bool tfl_find_row(tfl_case *t, qg_kernel_use use, size_t n_inputs);

/* Builds t->g for the operator; false: this operator is not covered.  A failure ends
 * the program. */
bool tfl_build(tfl_case *t);

#endif
