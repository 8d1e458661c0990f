/* check.h -- the verifier: a table of rules, each of which can be broken and named.
 *
 * A rule is a row {id, text, run}; rules of other layers (quant: TQCs) are other tables
 * of the same rows over their own subject.  A broken rule is
 *
 *     verify: rule <id>: node 'x' (Op): <what is wrong>, expected <what>
 *
 * with QG_ESTATE: faults in a file are refused when it is read, so a fault found by the
 * verifier is a bug in a pass.  Rules run in table order and may rely on the rows
 * before them.  Every rule is linear in the size of the graph.
 *
 * The rules of a graph, in order: ids are positions; names find their value or node;
 * a value and its producer name each other; use lists hold each reading slot exactly
 * once; nodes come after their producers; inputs and outputs are listed once, and
 * inputs are not computed; every value read is produced, an input or captured;
 * constants
 * have type, shape and data; types, slots and attributes are legal; prepare has run;
 * a body belongs to its node.  The `id` in messages can be searched for in check.c. */
#ifndef QG_ENGINE_IR_CHECK_H
#define QG_ENGINE_IR_CHECK_H

#include "engine/ir/graph.h"

/* One row.  run gets its own row so that the message can name the id. */
typedef struct qg_check_rule qg_check_rule;
struct qg_check_rule {
    const char *id;   /* "uses-match" */
    const char *text; /* the invariant, one sentence */
    qg_status (*run)(qg_ctx *ctx, const qg_check_rule *rule, const void *subject);
};

/* Bit i of `which` is row i; at most 32 rows per table. */
#define QG_CHECK_ALL UINT32_MAX

/* Runs the chosen rows in table order; the first broken one ends it. */
QG_NODISCARD qg_status qg_check_rows(qg_ctx *ctx, const qg_check_rule *row, size_t n,
                                     uint32_t which, const void *subject);

/* The bit of a rule by id; 0 when there is none.
 * Lets a test run exactly the rule that it breaks. */
uint32_t qg_check_bit(const qg_check_rule *row, size_t n, const char *id);

/* Rules over a qg_graph, and all of them over a graph and the bodies below it.  The
 * graph must be normalized (edit.h).
 * Run after every pass (pass/pass.h) and on loaded graphs. */
extern const qg_check_rule qg_graph_rules[];
extern const size_t qg_n_graph_rules;
QG_NODISCARD qg_status qg_check_graph(qg_ctx *ctx, const qg_graph *g, uint32_t which);

/* For rules: fail with the message above, about a node or a value. */
qg_status qg_check_fail_node(qg_ctx *ctx, const qg_check_rule *rule, const qg_node *n,
                             const char *fmt, ...) QG_PRINTF(4, 5);
qg_status qg_check_fail_value(qg_ctx *ctx, const qg_check_rule *rule, const qg_value *v,
                              const char *fmt, ...) QG_PRINTF(4, 5);

#endif
