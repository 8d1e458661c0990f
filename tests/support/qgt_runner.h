/* qgt_runner.h -- tests of passes and of lowering as text: files .qgt in tests/passes
 * and tests/lower.
 *
 *     case silent-relu
 *     graph { ... }                 text form (docs/text-form.md), ends with a lone "}"
 *     backend int8-base             of configs/backends
 *     set op=c slot=in0 bits=4      an override of the run
 *     quirks ppq-split-groups
 *     observer minmax           of all activations, instead of their own
 *     samples 4                     calibration samples: uniform in [-1, 1), seeded
 *     run fuse passive              passes, each followed by the verifier
 *     quantize                      all passes of the default pipeline
 *     fails QG_ECONFIG text         the next run or lower fails with this status and
 *                                   text
 *     scale c.out0 5.0 [offset]     as if calibrated
 *     expect states|brief|full      lines of quant/tqc_text.h ... end
 *     platforms                     "node platform: reason" ... end
 *     nodes                         the graph's text ... end
 *     lower tflite-reference [codes] [require-integer]
 *                                   the integer program, one line per node: outputs =
 *                                   operator(inputs) row [out0_low, out0_high]; then
 *                                   one line per node of the graph: its fate ... end
 *     matched compute-activation 2
 *     near compute-activation c has 2 consumers
 *     changed 3                     by the last pass
 *     same 1e-5                     float outputs are still those of the graph as
 *     written
 *
 * Directives run in order; # starts a comment.  Expected blocks are compared whole. */
#ifndef QG_TESTS_SUPPORT_QGT_RUNNER_H
#define QG_TESTS_SUPPORT_QGT_RUNNER_H

#include "engine/core/ctx.h"

/* The number of cases that failed; each was printed with file and line. */
int run_qgt_file(const char *path);

/* Every .qgt file of the folder: asserts that there is one and that no case fails. */
void assert_qgt_folder(const char *folder);

#endif
