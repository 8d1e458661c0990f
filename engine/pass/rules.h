/* rules.h -- backend x graph -> TQCs: the only maker of TQCs (besides loading).
 *
 * For every node on platform QUANTIZED, every present slot that holds float32 gets a
 * TQC; rules are applied in order, each journalled under its id.  Slots whose role is
 * shape ('s') begin as SOI, those that are never quantized ('f') as FP32; a rule may
 * only move them along the legality table. */
#ifndef QG_ENGINE_PASS_RULES_H
#define QG_ENGINE_PASS_RULES_H

#include "engine/quant/backend.h"
#include "engine/quant/quirk.h"

/* QG_ECONFIG when an override matches nothing or has a name that is not in the graph,
 * or when the combined fields are not a legal scheme: the message names endpoint and
 * rule.  Linear in nodes x rules.
 * The graph must be dispatched (node->platform) and hold no TQCs (asserted).  The last
 * rule that set the scheme is kept in tqc->rule, all of them in the journal. */
QG_NODISCARD qg_status qg_rules_apply(qg_quant *q);

/* The behaviours that quirks replace in qg_rules_apply. */
extern const qg_quirk_row qg_rules_quirks[];

/* inside[rule]: NULL when the rule has no `from`, `to` and `layer`, else [nodes] 1 on
 * every node of a path from value `from` (default: the inputs) to value `to` (default:
 * the outputs), restricted to the first or last compute nodes when `layer` is set.
 * QG_ECONFIG names a value that does not exist.  The graph must be normalized. */
QG_NODISCARD qg_status qg_rules_regions(const qg_backend *b, const qg_graph *g,
                                        qg_arena *a, const uint8_t *const **inside);

/* The same of one rule. */
QG_NODISCARD qg_status qg_rule_region(const qg_rule *r, const qg_graph *g, qg_arena *a,
                                      const uint8_t **out);

/* rules_names.c: QG_ECONFIG, beginning with `what`, when a name or pattern of the
 * selector is that of no node (value) of the graph, whatever the others match. */
QG_NODISCARD qg_status qg_rule_check_names(const qg_rule *r, const qg_graph *g,
                                           const char *what);

/* Switching off and on again, for rules with `state: deactivated` or `dequantized` and
 * for tools.  It comes last, so that endpoints switched off have a scale to keep.
 *
 *     to           DEACTIVATED or DEQUANTIZED: off (a baked constant leaves its grid
 *                  before it is deactivated); ACTIVATED: back to the state before
 *     no change    float and shape endpoints, and endpoints already in that state
 *
 * qg_rule_switch: the endpoints that the selector of one rule matches, journalled under
 * its id, and how many of them changed.  qg_rules_switch: every rule of the backend. */
QG_NODISCARD qg_status qg_rule_switch(qg_quant *q, const qg_rule *rule, qg_tqc_state to,
                                      size_t *matched, size_t *changed);
QG_NODISCARD qg_status qg_rules_switch(qg_quant *q);

/* Whether the node part of rule r covers n, region included. */
bool qg_rule_covers(const qg_backend *b, uint32_t r, const uint8_t *const *inside,
                    const qg_node *n);

#endif
