/* causes.h -- an error budget: which part of the error of the quantized network has
 * which cause; `qg analyse --by cause`.
 *
 * Two budgets over the same error, of three causes each:
 *
 *     place       weights      constants, biases apart
 *                 activations  values that are computed, and inputs
 *                 bias         constants in the slot of the bias
 *     mechanism   rounding     off: a grid 4096 times as fine with the same ends
 *                 clipping     off: the same steps without ends
 *                 sharing      off: the parts of groups with the scales that
 *                              calibration gave them (parts.h)
 *
 * Measure   E(T) is the error with the causes of T switched off, f(T) = E(none) - E(T)
 *           what that removes.  A row of a single cause is f of it; a row of several is
 *           what they remove together beyond the rows of their subsets:
 *               m(T) = sum over S in T of (-1)^(|T| - |S|) f(S)
 *           so that all rows sum to f(all) = E(none) - E(all).  E(all) is measured, and
 *           0 when the causes account for the whole error.
 * Output    the one with the largest error
 * Learned constants (QG_UNTUNED in ir/graph.h) belong to the place that they are in,
 *           and to rounding: without it they are those of the float network
 * Dynamic quantizers, and quantization functions of a host, have no fixed ends: they
 * count as rounding as a whole.  Floating-point grids without ends have 8 bits of
 * exponent, so that underflow counts as clipping.
 * Source    rows are the dividends of f (Harsanyi, "A simplified bargaining model for
 *           the n-person cooperative game", 1963) */
#ifndef QG_ENGINE_ANALYSIS_CAUSES_H
#define QG_ENGINE_ANALYSIS_CAUSES_H

#include "engine/analysis/measure.h"

/* Facts: by, metric, meaning, samples, output, error (E(none)), left (E(all)); table
 * causes: budget, cause, removes, share (of error), and a row `sum` per budget.  The
 * network runs at most 16 times per sample. */
QG_NODISCARD qg_status qg_analyse_causes(qg_model *m, const qg_analyse_options *o,
                                         const qg_metric *metric, qg_report **report);

#endif
