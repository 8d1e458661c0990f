#include "engine/formats/openvino/quantizer_layers.h"

#include <assert.h>
#include <inttypes.h>

#include "engine/formats/quantize_linear.h"

/* The operator is theirs: only the attribute's spelling differs. */
qg_status qg_ir_fake_quantize(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[5];
    int64_t levels;
    QG_TRY(qg_ir_inputs(ir, n, 5, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "levels", 0, &levels));
    const char *data = qg_ir_text(ir, "levels=\"%" PRId64 "\" " QG_IR_NUMPY, levels);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 5));
}

/* One number per channel along the axis of y, [1, C, 1, 1], or a scalar; x is borrowed
 * until the files are written. */
static qg_status along_axis(qg_ir *ir, const qg_node *n, const char *suffix,
                            const qg_grid_record *grid, const float *x,
                            qg_ir_source *out)
{
    int64_t dim[QG_MAX_RANK];
    int32_t axis = grid->scheme.axis, rank = axis < 0 ? 0 : n->out[0]->type.rank;
    qg_tensor *t = QG_NEW(ir->arena, qg_tensor);
    const char *name = qg_ir_inner_name(ir, n, suffix);
    if (!t)
        return qg_nomem(ir->ctx);
    for (int32_t i = 0; i < rank; i++)
        dim[i] = i == axis ? (int64_t)grid->param.n : 1;
    qg_tensor_init(t, QG_F32, rank, dim);
    t->f32 = (float *)(uintptr_t)x;
    assert(qg_tensor_count(t) == (int64_t)grid->param.n);
    return qg_ir_constant(ir, name, t, out);
}

/* in[0] becomes in[0] - zero point, unless they are all 0. */
static qg_status without_zero(qg_ir *ir, const qg_node *n, const qg_grid_record *grid,
                              qg_ir_source in[2])
{
    float *zero = QG_NEWN(ir->arena, grid->param.n, float);
    if (!zero)
        return qg_nomem(ir->ctx);
    if (grid->scheme.policy & QG_SYMMETRIC)
        return QG_OK;
    for (size_t i = 0; i < grid->param.n; i++)
        zero[i] = (float)grid->param.offset[i];
    QG_TRY(along_axis(ir, n, "zero_point", grid, zero, &in[1]));
    qg_ir_layer l = { .type = "Subtract",
                      .opset = "opset1",
                      .data = QG_IR_NUMPY,
                      .in = in,
                      .n_in = 2,
                      .out = &n->out[0]->type,
                      .n_out = 1 };
    return qg_ir_inner(ir, n, "from_zero", l, &in[0]);
}

qg_status qg_ir_dequantize(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    const qg_tensor *y = &n->out[0]->type;
    qg_ir_source in[2];
    qg_grid_record grid;
    const char *why;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_grid_of_linear(ir->g, n, n->in[0]->type.dtype, y, &grid, &why));
    if (why || grid.scheme.policy & QG_BLOCK)
        return qg_ir_refuse(ir, n, "%s", why ? why : "blocks, expected channels");
    qg_ir_layer l = { .type = "Convert",
                      .opset = "opset1",
                      .data = "destination_type=\"f32\"",
                      .in = in,
                      .n_in = 1,
                      .out = y,
                      .n_out = 1 };
    QG_TRY(qg_ir_inner(ir, n, "convert", l, &in[0]));
    QG_TRY(without_zero(ir, n, &grid, in));
    QG_TRY(along_axis(ir, n, "scale", &grid, grid.param.scale, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 2));
}
