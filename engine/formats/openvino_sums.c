/* openvino_sums.c -- sums that the CPU plugin of OpenVINO computes otherwise than the
 * network says: the questions of openvino_plugin.h about them. */
#include "engine/formats/openvino_plugin.h"

enum { CHAIN = 16 }; /* nodes that are looked through */

static bool rounds(const qg_tqc *t) { return t && qg_tqc_rounds(t); }

static bool is_behind(const qg_value *v, bool (*is)(const qg_node *n), int depth)
{
    const qg_node *n = v ? v->def : NULL;
    if (!n || depth == 0)
        return false;
    if (is(n))
        return true;
    if (qg_node_has(n, QG_OP_COMPUTE))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (is_behind(n->in[k], is, depth - 1))
            return true;
    return false;
}

bool qg_plugin_is_behind(const qg_value *v, bool (*is)(const qg_node *n))
{
    return is_behind(v, is, CHAIN);
}

static bool is_product(const qg_node *n)
{
    static const char *const names[] = { "MatMul", "Gemm" };
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names);
}

/* Whether a convolution makes v, with functions behind it. */
static bool is_of_convolution(const qg_value *v, int depth)
{
    static const char *const name = "Conv";
    const qg_node *n = v->def;
    if (!n || depth == 0 || v->use.n != 1)
        return false;
    return qg_node_is_onnx(n, &name, 1) ||
           (qg_node_has(n, QG_OP_ACTIVATION) && n->in[0] &&
            is_of_convolution(n->in[0], depth - 1));
}

bool qg_plugin_sums_wrong(const qg_node *n)
{
    static const char *const name = "ReduceSum";
    return qg_node_is_onnx(n, &name, 1) && n->in[0] && n->in[0]->type.rank == 3 &&
           n->in[0]->type.dim[0] != 1 && qg_plugin_is_behind(n->in[0], is_product);
}

bool qg_plugin_rounded_before_sum(const qg_node *n, uint32_t slot)
{
    static const char *const sums[] = { "Add", "Sum", "Sub" };
    if (n->n_in != 2 || !qg_node_is_onnx(n, sums, sizeof sums / sizeof *sums))
        return false;
    const qg_value *v = n->in[slot], *other = n->in[1 - slot];
    return v && other && !other->constant && v->use.n == 1 && !v->is_output &&
           is_of_convolution(v, CHAIN) &&
           (rounds(qg_input_tqc(n, slot)) || rounds(qg_producer_tqc(v)));
}
