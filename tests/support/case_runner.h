/* case_runner.h -- operator tests as text: tests/ops/<operator>.case.
 *
 *     # source: ONNX Softmax-13, default axis -1
 *     op Softmax 13
 *     in  f32[1,3]  1 2 3
 *     out f32[1,3]  0.09003057 0.24472847 0.66524096   atol 1e-6
 *
 *     op Softmax 13 axis=5
 *     in  f32[1,3]  1 2 3
 *     fail QG_EMODEL "infer: node 'n0' (Softmax): axis 5, expected within [-2, 1]"
 *
 * Lines    a line that begins with a blank continues the previous line; # starts a
 *          comment
 * op       name, opset, attributes: k=3 (INT), k=0.5 (FLOAT: has . e n or i), k=text or
 *          k="text" (STRING), k=[1,2] [0.5,1.] [a,b] (lists), k={f32[2] 1 2} (TENSOR);
 *          a name with a dot is domain.name
 * in, out  one line per slot: type and dims (types are enumerators in lower case: f32,
 *          i64, bool, f8e4m3fn), then values: numbers, nan, inf, or one of fill(x),
 *          ramp(first,last), iota; "-" is an absent slot; out may end with atol, rtol
 * fail     status and a part of the message, from preparing, inferring or running
 *
 * Integers and bools must be equal; floats within atol + rtol * |expected| (defaults
 * 1e-6 and 1e-5), NaN equal to NaN.  Every case is inferred with shapes only, then with
 * data; shapes known early must not change.  Where the operator allows it, the case is
 * run again in place and must give the same bits. */
#ifndef QG_TESTS_SUPPORT_CASE_RUNNER_H
#define QG_TESTS_SUPPORT_CASE_RUNNER_H

#include "engine/ir/graph.h"

enum { CASE_SLOTS = 64, CASE_ATTRS = 48 };

typedef struct case_output {
    const qg_tensor *tensor; /* NULL: absent */
    double atol, rtol;
} case_output;

/* One case, as read. */
typedef struct op_case {
    const char *path;
    int line;
    const char *name, *domain;
    int64_t opset;
    qg_attr attr[CASE_ATTRS];
    size_t n_attr;
    const qg_tensor *in[CASE_SLOTS];
    size_t n_in;
    case_output out[CASE_SLOTS];
    size_t n_out;
    const char *status, *message; /* fail line; else NULL */
} op_case;

typedef struct case_report {
    size_t passed, failed; /* every failure is printed with file and line */
} case_report;

/* Runs every case of a file with the operators of `registry`.  QG_EPARSE for a
 * malformed file; the message gives the line. */
QG_NODISCARD qg_status run_case_file(const qg_registry *registry, const char *path,
                                     case_report *report);

/* The same without a verdict: `visit` gets each case; ctx knows the operators. */
typedef void case_visitor(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch);
QG_NODISCARD qg_status visit_case_file(qg_alloc alloc, const qg_registry *registry,
                                       const char *path, case_visitor *visit, void *ud);

/* Builds and runs the node of a case, regardless of its expectations. */
QG_NODISCARD qg_status try_case(const op_case *c, qg_ctx *ctx, qg_arena *scratch);

/* The node of a case as it ran. */
typedef struct case_attempt {
    qg_graph *g; /* owned by the caller, also after a failure; NULL is possible */
    qg_call call;
    qg_tensor got[CASE_SLOTS];
    qg_tensor *out[CASE_SLOTS];
} case_attempt;
QG_NODISCARD qg_status attempt_case(const op_case *c, qg_ctx *ctx, qg_arena *scratch,
                                    case_attempt *a);

#endif
