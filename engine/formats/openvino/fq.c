/* fq.c -- the format openvino-fq: FakeQuantize in an ONNX model, as NNCF and
 * MQBench write it and OpenVINO reads it.  For the layout see graph.h.
 * A file with codes has at least the opset that their DequantizeLinear needs. */
#include <assert.h>

#include "engine/onnx/export.h"
#include "engine/formats/openvino/graph.h"
#include "engine/formats/fake_quantize.h"
#include "engine/formats/openvino_plugin.h"
#include "engine/formats/quantize_linear.h"
#include "engine/formats/quantizers.h"
#include "engine/ir/edit.h"
#include "engine/ir/upgrade.h"

static bool has_codes(const qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++)
        if (qg_is_dequantized_constant(g->node.at[i]))
            return true;
    return false;
}

static qg_status build(qg_export *e)
{
    size_t removed;
    QG_TRY(qg_openvino_graph(e));
    QG_TRY(qg_plugin_lose(e));
    const bool codes = has_codes(e->graph);
    int64_t own = qg_graph_opset(e->graph, ""), need = own;
    if (codes && need < QG_OPENVINO_OPSET)
        need = QG_OPENVINO_OPSET;
    need = qg_plugin_opset(e->graph, need);
    if (!codes && need == own)
        return QG_OK;
    QG_TRY(qg_graph_upgrade(e->graph, need)); /* and the IR version of codes */
    return qg_graph_sweep(e->graph, &removed);
}

/* Limits or scale and zero point, next to the value that is on the grid. */
static qg_status annotate(qg_export *e, qg_export_options *o)
{
    const qg_graph *g = e->graph;
    qg_onnx_annotation *a = QG_NEWN(e->arena, g->node.n + 1, qg_onnx_annotation);
    if (!a)
        return qg_nomem(e->ctx);
    o->annotation = a;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        bool fake = qg_is_fake_quantize(n->op);
        if (!fake && !(qg_is_dequantized_constant(n) && n->n_in > 2 && n->in[2]))
            continue;
        qg_onnx_annotation *next = &a[o->n_annotation++];
        next->tensor = n->out[0]->name;
        next->parameter[0].key = fake ? "LOW_TENSOR" : "SCALE_TENSOR";
        next->parameter[1].key = fake ? "HIGH_TENSOR" : "ZERO_POINT_TENSOR";
        for (uint32_t k = 0; k < 2; k++)
            next->parameter[k].value = n->in[k + 1]->name;
    }
    assert(o->n_annotation <= g->node.n);
    return QG_OK;
}

static qg_status write(qg_export *e)
{
    const qg_manifest *m = &e->info->manifest;
    const qg_backend *b = e->quant->backend;
    qg_onnx_property p[] = {
        {QG_ONNX_FORMAT_KEY,    e->format->name                   },
        { "quantgraph.backend", b && b->name ? b->name : ""       },
        { "quantgraph.model",   m->model_file ? m->model_file : ""},
    };
    qg_export_options o = { .metadata = p, .n_metadata = sizeof p / sizeof p[0] };
    QG_TRY(annotate(e, &o));
    QG_TRY(qg_onnx_export(e->ctx, e->graph, e->path, &o));
    return qg_export_wrote(e, e->path);
}

static qg_status import(qg_import *i)
{
    return qg_quantizers_import(i, QG_QUANTIZERS_OPENVINO, "openvino-fq", NULL);
}

static const char *const weights[] = { "int", "float", NULL };

const qg_format qg_format_openvino_fq = {
    .name = "openvino-fq",
    .suffix = ".onnx",
    .summary = "ONNX with OpenVINO's FakeQuantize at quantized activations",
    .says = QG_OPENVINO_SAYS,
    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
    .nan = QG_NAN_BIT(QG_NAN_LOWEST),
    .choice = { [QG_FORMAT_WEIGHTS] = weights },
    .build = build,
    .write = write,
    .import = import,
};
