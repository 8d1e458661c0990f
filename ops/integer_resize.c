/* integer_resize.c -- IntResize(x, sizes) of domain "quantgraph": bilinear, x [N, C,
 * height, width] to the two last of `sizes` (int64, all four dims).
 *
 * Attribute coordinate_transformation_mode: half_pixel (default), asymmetric,
 * align_corners, and pytorch_half_pixel where no output extent is 1.  Form fixed10,
 * fixed11, float-corners or float-weights; grids of input and output are equal.
 * Arithmetic: number/integer_resize.h. */
#include "ops/families.h"

#include "engine/number/integer_resize.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_integer.h"

typedef struct int_resize_param {
    qg_recipe recipe;
    int centre; /* index of `centres` */
} int_resize_param;

enum { PYTORCH = QG_INT_ALIGN_CORNERS + 1 };
static const char *const centres[] = { "asymmetric", "half_pixel", "align_corners",
                                       "pytorch_half_pixel", NULL };

static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_resize_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    return qg_attr_choice(ctx, n, "coordinate_transformation_mode", centres,
                          QG_INT_HALF_PIXEL, &p->centre);
}

/* The sizes fit: batch and channels stay, extents are within the formulas. */
static qg_status check_sizes(const qg_call *k, const qg_ints *size)
{
    const int_resize_param *p = k->param;
    const qg_tensor *x = k->in[0];
    if (size->n != 4)
        return qg_infer_fail(k, QG_EMODEL, "sizes has %zu values, expected 4", size->n);
    for (int i = 0; i < 4; i++) {
        int64_t most = i < 2 ? x->dim[i] : QG_INT_RESIZE_MOST;
        if (size->at[i] < (i < 2 ? most : 1) || size->at[i] > most ||
            (i >= 2 && x->dim[i] > most) || (i >= 2 && x->dim[i] < 1))
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "dim %d from %lld to %lld, expected equal batch and "
                                 "channels, and 1 to %d",
                                 i, (long long)x->dim[i], (long long)size->at[i],
                                 (int)QG_INT_RESIZE_MOST);
        if (i >= 2 && p->centre == PYTORCH && size->at[i] == 1)
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "pytorch_half_pixel to an extent of 1, expected "
                                 "half_pixel");
    }
    return QG_OK;
}

static qg_status infer(const qg_call *k)
{
    const qg_recipe *r = &((const int_resize_param *)k->param)->recipe;
    const int64_t unknown[4] = { -1, -1, -1, -1 };
    qg_ints size;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_integer_check_form(k, r,
                                 1 << QG_FORM_FIXED10 | 1 << QG_FORM_FIXED11 |
                                     UINT64_C(1) << QG_FORM_FLOAT_CORNERS |
                                     UINT64_C(1) << QG_FORM_FLOAT_WEIGHTS));
    QG_TRY(qg_check_type(k, 1, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 4, 4));
    if (!qg_grid_same(qg_integer_grid(&r->in[0]), qg_integer_grid(&r->out)))
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "the output has another grid than the input, expected it "
                             "equal");
    if (qg_ints_pending(k, 1) || !qg_tensor_known(k->in[0]))
        return qg_infer_dims(k, r->out.dtype, 4, unknown);
    QG_TRY(qg_ints_input(k, 1, &size));
    QG_TRY(check_sizes(k, &size));
    return qg_infer_dims(k, r->out.dtype, 4, size.at);
}

static qg_status run(const qg_call *k)
{
    const int_resize_param *p = k->param;
    const qg_tensor *x, *y = k->out[0];
    qg_form form = p->recipe.row.form;
    int bits = form == QG_FORM_FIXED10 ? 10 : form == QG_FORM_FIXED11 ? 11 : 0;
    size_t plane = (size_t)(y->dim[2] * y->dim[3]);
    qg_int_tap *rows = QG_NEWN(k->scratch, (size_t)y->dim[2], qg_int_tap);
    qg_int_tap *columns = QG_NEWN(k->scratch, (size_t)y->dim[3], qg_int_tap);
    int32_t *out = QG_NEWN(k->scratch, plane, int32_t);
    if (!rows || !columns || !out)
        return qg_nomem(k->ctx);
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], QG_I32, &x));
    qg_int_centre centre =
        p->centre == PYTORCH ? QG_INT_HALF_PIXEL : (qg_int_centre)p->centre;
    qg_int_resize_taps(bits, centre, x->dim[2], y->dim[2], rows);
    qg_int_resize_taps(bits, centre, x->dim[3], y->dim[3], columns);
    qg_int_resize r = { bits,
                        form == QG_FORM_FLOAT_WEIGHTS,
                        p->recipe.row.rounding,
                        rows,
                        columns,
                        y->dim[2],
                        y->dim[3],
                        x->dim[3] };
    for (int64_t c = 0; c < y->dim[0] * y->dim[1]; c++) {
        qg_int_resize_plane(&r, x->i32 + c * x->dim[2] * x->dim[3], out);
        for (size_t i = 0; i < plane; i++)
            out[i] =
                (int32_t)qg_clamp_i64(out[i], p->recipe.out.low, p->recipe.out.high);
        qg_codes_store(y->dtype, out, y->data, (size_t)c * plane, plane);
    }
    return QG_OK;
}

/* clang-format off */
const qg_op qg_ops_integer_resize[] = {
    { .name = "IntResize", .domain = "quantgraph", .since = 1, .min_in = 2, .max_in = 2,
      .min_out = 1, .max_out = 1, .in_roles = "ds",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST,
      .param_size = sizeof(int_resize_param), .prepare = prepare, .infer = infer,
      .run = run },
    { 0 },
};
/* clang-format on */
