/* ir.c -- the format openvino-ir: OpenVINO's own model file, an XML and a binary next
 * to it.  For the layout see graph.h.
 *
 *     graph.h        the snapshot as a float graph with FakeQuantize
 *     operators.h    each node of it as layers
 *     network.h      layers in memory, and the two files */
#include <assert.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/formats/format.h"
#include "engine/formats/openvino/graph.h"
#include "engine/formats/openvino/operators.h"
#include "engine/ir/infer.h"

/* Inference computed all outputs of the node: then it is no layer.  Grids of constants
 * are layers: the file exists for them. */
static bool is_known(const qg_ir *ir, const qg_node *n)
{
    if (qg_node_has(n, QG_OP_QUANTIZER))
        return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !qg_ir_known(ir, n->out[i]))
            return false;
    return true;
}

/* In order of execution, so that sources come before readers. */
static qg_status add_all(qg_ir *ir)
{
    const qg_graph *g = ir->g;
    assert(ir->layer.n == 0 && ir->of_value);
    for (size_t i = 0; i < g->input.n; i++)
        QG_TRY(qg_ir_input(ir, g->input.at[i]));
    for (size_t i = 0; i < g->node.n; i++)
        if (!is_known(ir, g->node.at[i]))
            QG_TRY(qg_ir_node(ir, g->node.at[i]));
    for (size_t i = 0; i < g->output.n; i++)
        QG_TRY(qg_ir_result(ir, g->output.at[i]));
    return QG_OK;
}

/* XML has no control characters but tab and line breaks. */
static qg_status check_names(qg_export *e)
{
    static const char control[] = "\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10"
                                  "\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d"
                                  "\x1e\x1f";
    for (size_t i = 0; i < e->graph->value.n; i++)
        QG_TRY(qg_export_word(e, e->graph->value.at[i]->name, control));
    for (size_t i = 0; i < e->graph->node.n; i++)
        QG_TRY(qg_export_word(e, e->graph->node.at[i]->name, control));
    return QG_OK;
}

/* The graph with FakeQuantize, inferred, as layers; nothing is written yet. */
static qg_status build(qg_export *e)
{
    QG_TRY(qg_openvino_graph(e));
    QG_TRY(check_names(e));
    QG_TRY(qg_infer(e->graph, NULL, 0));
    qg_ir *ir = QG_NEW(e->arena, qg_ir);
    if (!ir)
        return qg_nomem(e->ctx);
    *ir = (qg_ir){ .ctx = e->ctx, .arena = e->arena, .g = e->graph };
    QG_TRY(qg_infer_known(e->graph, &ir->known));
    ir->of_value = QG_NEWN(e->arena, e->graph->value.n, qg_ir_source);
    if (!ir->of_value)
        return qg_nomem(e->ctx);
    for (size_t i = 0; i < e->graph->value.n; i++)
        ir->of_value[i].layer = QG_NONE;
    e->built = ir;
    QG_TRY(qg_export_lose_open(e));
    return add_all(ir);
}

/* The binary is put in place first: an XML that is there has its constants. */
static qg_status write_both(qg_export *e, qg_writer *xml, qg_writer *binary)
{
    const qg_backend *b = e->quant->backend;
    QG_TRY(qg_ir_put_binary(binary->stream, e->built));
    QG_TRY(qg_ir_put_xml(xml->stream, e->built, b ? b->name : ""));
    QG_TRY(qg_export_keep_beside(e, binary->target, binary));
    qg_writer *all[] = { binary, xml };
    return qg_writers_commit(all, 2);
}

static qg_status write(qg_export *e)
{
    const char *dot = strrchr(qg_path_base(e->path), '.');
    size_t stem = dot ? (size_t)(dot - e->path) : strlen(e->path);
    const char *beside = qg_arena_printf(e->arena, "%.*s.bin", (int)stem, e->path);
    qg_writer xml, binary = { 0 };
    if (!beside)
        return qg_nomem(e->ctx);
    if (strcmp(beside, e->path) == 0)
        return qg_fail(e->ctx, QG_ECONFIG,
                       "export: %s: this is the file of the constants, expected a name "
                       "for the XML file",
                       e->path);
    QG_TRY(qg_writer_open(e->ctx, e->path, &xml));
    qg_status s = qg_writer_open(e->ctx, beside, &binary);
    if (s == QG_OK)
        s = write_both(e, &xml, &binary);
    qg_writer_abandon(&binary);
    qg_writer_abandon(&xml);
    if (s == QG_OK)
        s = qg_export_wrote(e, e->path);
    return s == QG_OK ? qg_export_wrote(e, beside) : s;
}

static const char *const weights[] = { "int", "float", NULL };

const qg_format qg_format_openvino_ir = {
    .name = "openvino-ir",
    .suffix = ".xml + .bin",
    .summary = "OpenVINO IR with FakeQuantize at quantized activations",
    .says = QG_OPENVINO_SAYS,
    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
    .nan = QG_NAN_BIT(QG_NAN_LOWEST),
    .choice = { [QG_FORMAT_WEIGHTS] = weights },
    .layer = qg_ir_layer_name,
    .build = build,
    .write = write,
};
