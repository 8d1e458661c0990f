/* conformance.h -- runs ONNX backend-test folders and compares with the expected
 * outputs.
 *
 * A test is a folder with model.onnx and test_data_set_*, each of which holds
 * input_*.pb and output_*.pb in the order of the graph's inputs (those that are not
 * constants) and outputs.  A folder without model.onnx is searched for tests, in name
 * order.
 *
 * All inputs are run-time inputs: only constants of the model itself are folded.  Equal
 * means equal type and shape, integers and bools the same, floats |got - expected| <=
 * 1e-7 + 1e-3 |expected| (bfloat16: 2^-6, two of its steps), NaN where NaN is expected.
 * Source: onnx/backend/test/runner of ONNX (tolerances, order of files). */
#ifndef QG_ENGINE_SESSION_CONFORMANCE_H
#define QG_ENGINE_SESSION_CONFORMANCE_H

#include "engine/api/qg.h"
#include "engine/ir/op.h"

/* Options of a run of tests; tell may be NULL. */
typedef struct qg_conformance_options {
    const qg_registry *registry; /* operators to use; borrowed */
    bool reference;              /* operators' own loops only, no compiled kernels */
    /* Called for every test that did not pass; texts are borrowed for the call. */
    qg_status (*tell)(void *ud, const char *folder, qg_status s, const char *message);
    void *ud; /* passed to tell */
} qg_conformance_options;

/* Not implemented (QG_EUNSUPPORTED) is neither passed nor failed.
 * Of tests, that is folders with a model. */
typedef struct qg_conformance_count {
    size_t passed, failed, unsupported;
} qg_conformance_count;

/* Adds to *count.  QG_EIO when the folder cannot be listed, QG_EDATA when there is no
 * test in it; a test that fails is no error.
 * `tell` may end the run by returning a failure, which is then returned. */
QG_NODISCARD qg_status qg_conformance_run(qg_ctx *ctx, const char *folder,
                                          const qg_conformance_options *o,
                                          qg_conformance_count *count);

#endif
