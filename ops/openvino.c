/* openvino.c -- FakeQuantize of domain org.openvinotoolkit, as read by OpenVINO's ONNX
 * frontend: data, input_low, input_high, output_low, output_high; attribute levels. The
 * arithmetic is number/openvino_fq.h, in its reference form.
 *
 * Source: OpenVINO operation set 1, FakeQuantize;
 * docs/evidence/openvino.md#fakequantize. */
#include "ops/families.h"

#include "engine/number/openvino_fq.h"
#include "ops/util_axis.h"

typedef struct fake_param {
    int64_t levels;
} fake_param;

static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_count(ctx, node, "levels", (qg_preset){ 0, 2 },
                         &((fake_param *)param)->levels);
}

/* Limits broadcast to the data and never enlarge it. */
static qg_status infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    QG_TRY(qg_check_types(k, 0, 4, QG_DT(F32)));
    for (size_t i = 1; x->rank >= 0 && i < 5; i++) {
        const qg_tensor *t = k->in[i];
        QG_TRY(qg_check_rank(k, i, 0, x->rank));
        for (int32_t d = 0; d < t->rank; d++)
            if (t->dim[d] != 1)
                QG_TRY(qg_check_dim(k, i, d, x->dim[x->rank - t->rank + d]));
    }
    return qg_infer_dims(k, QG_F32, x->rank, x->dim);
}

static qg_int_dims dims_of(const qg_tensor *t)
{
    qg_int_dims d = { .rank = t->rank };
    for (int32_t i = 0; i < t->rank; i++)
        d.dim[i] = t->dim[i];
    return d;
}

static qg_openvino_limit limit(const qg_call *k, size_t slot)
{
    return (qg_openvino_limit){ dims_of(k->in[slot]), k->in[slot]->f32 };
}

static qg_status run(const qg_call *k)
{
    const fake_param *p = k->param;
    qg_int_dims dims = dims_of(k->in[0]);
    qg_openvino_fq fq = { (int32_t)p->levels, QG_OPENVINO_REFERENCE, limit(k, 1),
                          limit(k, 2),        limit(k, 3),           limit(k, 4) };
    if (qg_elements(k->in[0]) == 0)
        return QG_OK;
    return qg_openvino_fq_run(k->ctx, &fq, &dims, k->in[0]->f32, k->out[0]->f32);
}

/* clang-format off */
const qg_op qg_ops_openvino[] = {
    { .name = "FakeQuantize", .domain = "org.openvinotoolkit", .since = 1,
      .min_in = 5, .max_in = 5, .min_out = 1, .max_out = 1, .in_roles = "dffff",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_MONOTONE,
      .param_size = sizeof(fake_param), .prepare = prepare, .infer = infer,
      .run = run, .in_place = 1 },
    { 0 },
};
/* clang-format on */
