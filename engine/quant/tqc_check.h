/* tqc_check.h -- rules of the verifier over the TQCs of a graph: the invariants that
 * every pass must preserve.  Rows like those of ir/check.h; the subject is a qg_quant.
 * Linear.
 *
 * Run after every pass: by the time a snapshot is written, no rule is broken.
 *
 * The rules, in order:
 *
 *     tqc-linked      ids are dense, endpoints of quantized nodes refer to their TQC
 *     tqc-acyclic     every chain of dominators ends at a root
 *     tqc-rings       the ring of a group holds exactly its members
 *     tqc-overlapped  OVERLAPPED implies a root elsewhere
 *     tqc-leaders     a dominator is active, with its own scale
 *     tqc-own-root    INITIAL, ACTIVATED and BAKED are roots
 *     tqc-has-scale   calibrated TQCs have finite scales above 0
 *     tqc-offsets     offsets lie in the range, and are 0 when symmetric
 *     tqc-lengths     the number of scales follows from policy and dims
 *     tqc-baked       only constants are baked
 *     tqc-schemes     every scheme is legal and its range fits its bits
 *
 * Why they are checked: the executor indexes scales by lengths, walks chains and rings
 * without a bound, and divides by scales; none of that is checked again while
 * samples run. */
#ifndef QG_ENGINE_QUANT_TQC_CHECK_H
#define QG_ENGINE_QUANT_TQC_CHECK_H

#include "engine/ir/check.h"
#include "engine/quant/quirk.h"
#include "engine/quant/tqc.h"

/* acyclic and rings come first, since the other rules walk the chains. */
extern const qg_check_rule qg_tqc_rules[];
extern const size_t qg_n_tqc_rules;

/* The behaviours that quirks replace in these rules, and in qg_tqc_lend (tqc.h). */
extern const qg_quirk_row qg_tqc_check_quirks[], qg_tqc_share_quirks[];

/* QG_ESTATE: "verify: rule <id>: Conv_1.in0: <what is wrong>, expected <what>". */
QG_NODISCARD qg_status qg_check_tqcs(qg_ctx *ctx, const qg_quant *q, uint32_t which);

#endif
