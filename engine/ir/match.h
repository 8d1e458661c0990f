/* match.h -- finding small DAGs of operators in a graph, and near misses.
 *
 * A pattern is nodes and edges (its structure) and conditions.  Backends fill these
 * structs from YAML (DESIGN 9, `fusions`); nothing here compares operator names.
 *
 * Structure  every pattern node is another graph node; its operator is one of `op` (any
 *            when empty) and has all `traits`; every edge of `in` is an input slot of
 *            its own.  A slot given in the pattern counts only where operand order
 *            matters: operators with the trait JOIN, and pattern nodes declared
 *            commutative, take their edges in any order.
 * Conditions `holds` on nodes, `where` on endpoints, platforms.  When the structure is
 *            there and exactly one condition fails, that is a near miss.
 * Order      the anchor is the last pattern node that no other one reads.  Matches are
 *            in order of its node id, then of slots: two runs give the same list.
 * Cost       O(nodes) anchors, each with a search over the neighbours of bound nodes,
 *            of at most QG_PATTERN_STEPS steps: linear in the graph.
 *
 * Example: a Conv whose only reader is a Relu.
 *
 *     qg_pattern_edge e = { .from = 0, .from_slot = 0, .slot = 0 };
 *     qg_pattern_node n[] = { { .name = "c", .traits = QG_OP_COMPUTE },
 *                             { .name = "a", .traits = QG_OP_ACTIVATION,
 *                               .in = &e, .n_in = 1 } };
 *     qg_pattern_where one = { .node = 0, .is_output = true,
 *                              .test = QG_WHERE_CONSUMERS, .wanted = 1 };
 *     qg_pattern p = { "compute-activation", n, 2, &one, 1, NULL, 0 }; */
#ifndef QG_ENGINE_IR_MATCH_H
#define QG_ENGINE_IR_MATCH_H

#include "engine/ir/graph.h"

enum {
    QG_PATTERN_NODES = 16,
    QG_PATTERN_EDGES = 8,    /* of one node */
    QG_PATTERN_STEPS = 4096, /* candidates tried for one anchor, then it is given up */
};
enum { QG_SLOT_ANY = -1 };

/* "My input `slot` is output `from_slot` of that node." */
typedef struct qg_pattern_edge {
    uint32_t from;     /* index of the producing pattern node */
    int32_t from_slot; /* its output slot, or QG_SLOT_ANY */
    int32_t slot;      /* the input slot, or QG_SLOT_ANY */
} qg_pattern_edge;

/* A condition of the caller on one node: attributes, names.  When it does not hold, it
 * writes the actual and the expected value: "group is 4, expected 1". */
enum { QG_CONDITION_TEXT = 160 };
typedef bool qg_node_condition(const void *ud, const qg_node *n,
                               char text[QG_CONDITION_TEXT]);

/* One node to be found.  Borrowed texts and arrays; ud goes to `holds`. */
typedef struct qg_pattern_node {
    const char *name;      /* "c"; for messages and for readers of a match */
    const char *const *op; /* [n_op] names, any of them; none: any operator */
    size_t n_op;
    uint32_t traits;           /* all of these */
    bool commutative;          /* edges may arrive at any slot */
    const qg_pattern_edge *in; /* [n_in] */
    size_t n_in;
    qg_node_condition *holds; /* NULL: none */
    const void *ud;
} qg_pattern_node;

/* Tests on an endpoint: the number of consumers of its value, and no consumers of the
 * node's other outputs; whether it is a graph output, whether it is constant. */
enum qg_endpoint_test { QG_WHERE_CONSUMERS, QG_WHERE_GRAPH_OUTPUT, QG_WHERE_CONSTANT };

/* A condition on an endpoint of a pattern node. */
typedef struct qg_pattern_where {
    uint32_t node;
    bool is_output; /* of out, else of in */
    uint32_t slot;
    char role; /* not 0: the first input slot with this role instead of `slot` */
    enum qg_endpoint_test test;
    int64_t wanted; /* number of consumers; 1 or 0 for yes or no */
} qg_pattern_where;

/* Nodes that a kernel could only compute together. */
typedef struct qg_pattern_group {
    const uint32_t *node; /* these run on the same platform */
    size_t n;
} qg_pattern_group;

/* Borrowed throughout; checked by qg_match_pattern, so it may come from a file. */
typedef struct qg_pattern {
    const char *id; /* "compute-activation" */
    const qg_pattern_node *node;
    size_t n_node;
    const qg_pattern_where *where;
    size_t n_where;
    const qg_pattern_group *same_platform;
    size_t n_same_platform;
} qg_pattern;

/* QG_ECONFIG when indices, counts or edges make no sense, when a node is not connected
 * to the others, or when the edges form a cycle. */
QG_NODISCARD qg_status qg_pattern_check(qg_ctx *ctx, const qg_pattern *p);

/* One place where the pattern fits. */
typedef struct qg_match {
    qg_node *const *node; /* [n_node], by pattern index */
} qg_match;

/* One place where it almost did: `qg quantize` reports it as a near miss, because a
 * pattern that fails by a single consumer usually surprises the user. */
typedef struct qg_match_miss {
    qg_node *const *node;  /* [n_node]; NULL entries when the search was given up */
    const qg_node *at;     /* the node whose condition failed */
    const char *condition; /* "c.out0 has 2 consumers, expected 1" */
} qg_match_miss;

/* In order of the anchors' ids. */
typedef struct qg_matches {
    QG_VEC(qg_match) match;
    QG_VEC(qg_match_miss) miss; /* at most one for each anchor that did not match */
    /* Where neither is there: the first of the largest parts of the structure that the
     * graph holds, "1 of 2 nodes, at relu0: no Conv for c"; else NULL. */
    const char *nearest;
} qg_matches;

/* APART for fusion (a node is fused once), ALL for alignment (every set counts). */
enum qg_match_mode {
    QG_MATCH_APART, /* a graph node is in one match at most; the first one wins */
    QG_MATCH_ALL,   /* every set of nodes that matches, once */
};

/* Everything in *out is in the arena.  The pattern is checked first.  An anchor whose
 * search was abandoned is reported as a near miss with that reason. */
QG_NODISCARD qg_status qg_match_pattern(const qg_graph *g, const qg_pattern *p,
                                        enum qg_match_mode mode, qg_arena *a,
                                        qg_matches *out);

#endif
