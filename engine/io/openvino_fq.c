/* openvino_fq.c -- the format openvino-fq: FakeQuantize in an ONNX model, as NNCF and
 * MQBench write it and OpenVINO reads it.  What is said where: openvino_graph.h. */
#include <assert.h>

#include "engine/io/onnx_export.h"
#include "engine/io/openvino_graph.h"
#include "engine/io/quantizers.h"

/* The limits of every FakeQuantize, beside the value that it makes. */
static qg_status annotate(qg_export *e, qg_export_options *o)
{
    const qg_graph *g = e->graph;
    qg_onnx_annotation *a = QG_NEWN(e->arena, g->node.n + 1, qg_onnx_annotation);
    if (!a)
        return qg_nomem(e->ctx);
    o->annotation = a;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (qg_is_fake_quantize(n->op))
            a[o->n_annotation++] = (qg_onnx_annotation){
                n->out[0]->name,
                {{ "LOW_TENSOR", n->in[1]->name }, { "HIGH_TENSOR", n->in[2]->name }}
            };
    }
    assert(o->n_annotation <= g->node.n);
    return QG_OK;
}

static qg_status write(qg_export *e)
{
    const qg_manifest *m = &e->info->manifest;
    const qg_backend *b = e->quant->backend;
    qg_onnx_property p[] = {
        {"quantgraph.format",   e->format->name                   },
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
    return qg_quantizers_import(i, QG_QUANTIZERS_OPENVINO, "openvino-fq");
}

static const char *const weights[] = { "int", "float", NULL };

const qg_format qg_format_openvino_fq = {
    .name = "openvino-fq",
    .suffix = ".onnx",
    .summary = "ONNX with OpenVINO's FakeQuantize at every endpoint that rounds",
    .says = QG_OPENVINO_SAYS,
    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
    .choice = { [QG_FORMAT_WEIGHTS] = weights },
    .build = qg_openvino_graph,
    .write = write,
    .import = import,
};
