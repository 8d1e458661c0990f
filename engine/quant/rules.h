/* rules.h -- backend x graph -> TQCs: the only maker of TQCs (besides loading).
 *
 * For every node on platform QUANTIZED, every present slot that holds float32 gets a TQC;
 * rules are applied in order, each journalled under its id.  Slots whose role is shape
 * ('s') begin as SOI, those that are never quantized ('f') as FP32; a rule may only move
 * them along the legality table. */
#ifndef QG_ENGINE_QUANT_RULES_H
#define QG_ENGINE_QUANT_RULES_H

#include "engine/quant/backend.h"

/* QG_ECONFIG when an override matches nothing, or when the combined fields are no legal
 * scheme: the message names endpoint and rule.  Linear in nodes x rules. */
QG_NODISCARD qg_status qg_rules_apply(qg_quant *q);

/* The platform that overrides ask for; QG_PLATFORM_NONE: none does.  *rule is the last
 * one that spoke. */
enum qg_platform qg_rules_platform(const qg_backend *b, const qg_node *n,
                                   const qg_rule **rule);

#endif
