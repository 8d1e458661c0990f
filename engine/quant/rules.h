/* rules.h -- backend x graph -> TQCs: the only maker of TQCs (besides loading).
 *
 * For every node on platform QUANTIZED, every present slot that holds float32 gets a
 * TQC; rules are applied in order, each journalled under its id.  Slots whose role is
 * shape ('s') begin as SOI, those that are never quantized ('f') as FP32; a rule may
 * only move them along the legality table. */
#ifndef QG_ENGINE_QUANT_RULES_H
#define QG_ENGINE_QUANT_RULES_H

#include "engine/quant/backend.h"

/* QG_ECONFIG when an override matches nothing, or when the combined fields are no legal
 * scheme: the message names endpoint and rule.  Linear in nodes x rules.
 * The graph must be dispatched (node->platform) and hold no TQCs (asserted).  Which
 * rule had the last word on the scheme is kept in tqc->rule, every one in the
 * journal. */
QG_NODISCARD qg_status qg_rules_apply(qg_quant *q);

/* inside[rule]: NULL when the rule has no `from` and `to`, else [nodes] 1 on every
 * node of a path from value `from` (default: the inputs) to value `to` (default: the
 * outputs). QG_ECONFIG names a value that does not exist.  The graph must be
 * normalized. */
QG_NODISCARD qg_status qg_rules_regions(const qg_backend *b, const qg_graph *g,
                                        qg_arena *a, const uint8_t *const **inside);

/* Whether the node part of rule r covers n, region included. */
bool qg_rule_covers(const qg_backend *b, uint32_t r, const uint8_t *const *inside,
                    const qg_node *n);

#endif
