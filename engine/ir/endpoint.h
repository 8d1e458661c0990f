/* endpoint.h -- an endpoint: one input or output slot of one node.
 *
 * An endpoint is a position, passed by value; it holds only its node, side and slot.
 * Its quantization is in quant/endpoint.h.
 *
 *     text    Conv_3.in1, Conv_3.out0     node name, '.', side, slot from 0
 *
 * Names of nodes may hold dots: the last one counts.
 *
 *     qg_endpoint at;
 *     if (qg_endpoint_named(g, "Conv_3.in1", &at))
 *         puts(qg_endpoint_value(at)->name); */
#ifndef QG_ENGINE_IR_ENDPOINT_H
#define QG_ENGINE_IR_ENDPOINT_H

#include "engine/ir/graph.h"

typedef struct qg_endpoint {
    const qg_node *node; /* whose slot it is */
    uint32_t slot;       /* index into node->in or node->out */
    bool is_output;      /* of the node */
} qg_endpoint;

static inline qg_endpoint qg_input_at(const qg_node *n, uint32_t slot)
{
    return (qg_endpoint){ n, slot, false };
}

static inline qg_endpoint qg_output_at(const qg_node *n, uint32_t slot)
{
    return (qg_endpoint){ n, slot, true };
}

/* The value there; NULL: the slot is absent, or the node has fewer. */
qg_value *qg_endpoint_value(qg_endpoint at);
/* The letter of the slot (ir/op.h); every letter but 'd', 's' and 'f' is an input's. */
char qg_endpoint_role(qg_endpoint at);
bool qg_endpoint_same(qg_endpoint a, qg_endpoint b);

/* All slots of a node, inputs before outputs, absent ones too:
 *
 *     for (uint32_t k = 0; k < qg_node_endpoints(n); k++)
 *         visit(qg_node_endpoint(n, k)); */
uint32_t qg_node_endpoints(const qg_node *n);
qg_endpoint qg_node_endpoint(const qg_node *n, uint32_t k);

/* "in1", "out0".  Returns `text`. */
enum { QG_SLOT_TEXT = 16 };
const char *qg_slot_text(bool is_output, uint32_t slot, char text[QG_SLOT_TEXT]);

/* "Conv_3.in1"
 * Returns `text`; names of more than 1,000 bytes are cut. */
enum { QG_ENDPOINT_TEXT = 1020 };
const char *qg_endpoint_text(qg_endpoint at, char text[QG_ENDPOINT_TEXT]);
/* The same for files: uncut, in the arena; NULL when out of memory. */
const char *qg_endpoint_full_text(qg_arena *a, qg_endpoint at);

/* "in1", "out0" to the end of the text; *slot >= 0, as large as it is written.  False,
 * and nothing is written, for anything else. */
bool qg_slot_parse(const char *text, bool *is_output, int64_t *slot);

/* "Conv_3.in1", parsed before it is known whether such a node exists. */
typedef struct qg_endpoint_name {
    size_t n_node; /* bytes of the node's name, with which the text begins; may be 0 */
    int64_t slot;  /* >= 0 */
    bool is_output;
} qg_endpoint_name;
bool qg_endpoint_parse(const char *text, qg_endpoint_name *out);

/* The endpoint of g that the text names; false: there is no such node, or nothing in
 * its slot.  O(1) expected. */
bool qg_endpoint_named(const qg_graph *g, const char *text, qg_endpoint *out);

#endif
