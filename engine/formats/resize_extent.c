#include "engine/formats/resize_extent.h"

#include <math.h>
#include <string.h>

static bool is_one_of(const qg_node *n, const char *attribute, const char *a,
                      const char *b)
{
    const qg_attr *attr = qg_attr_find(n, attribute);
    if (!attr || attr->type != QG_ATTR_STRING || attr->count != 1)
        return false;
    return strcmp(attr->strings[0], a) == 0 || strcmp(attr->strings[0], b) == 0;
}

/* The extent of the input along the axis that scale i is of; -1: it is open. */
static int64_t extent_of(const qg_node *n, int64_t i)
{
    const qg_tensor *x = &n->in[0]->type;
    const qg_attr *axes = qg_attr_find(n, "axes");
    int64_t axis = i;
    if (axes)
        axis = axes->type == QG_ATTR_INTS && i < (int64_t)axes->count ? axes->ints[i]
                                                                      : x->rank;
    axis += axis < 0 ? x->rank : 0;
    return axis >= 0 && axis < x->rank ? x->dim[axis] : -1;
}

/* Beyond the last bits: 3 x 1.3333334 is whole. */
static bool is_fraction(double scale, int64_t extent)
{
    const double bits = 1e-6;
    double in = extent < 0 ? 1 : (double)extent, exact = scale * in;
    return extent != 1 &&
           fabs(exact - (double)floorf((float)in * (float)scale)) > bits * exact;
}

bool qg_resize_has_fraction(const qg_node *n)
{
    static const char *const name = "Resize";
    const qg_value *v = n->n_in > 2 ? n->in[2] : NULL;
    const qg_tensor *scale = v ? v->constant : NULL;
    if (n->op->domain || !qg_op_is_named(n->op, &name, 1) ||
        !is_one_of(n, "mode", "linear", "cubic") ||
        !is_one_of(n, "coordinate_transformation_mode", "align_corners",
                   "tf_crop_and_resize"))
        return false;
    if (!scale || qg_tensor_count(scale) == 0) /* sizes are whole, a ratio is not */
        return v && !scale ? true
                           : is_one_of(n, "keep_aspect_ratio_policy", "not_larger",
                                       "not_smaller");
    for (int64_t i = 0; i < qg_tensor_count(scale); i++)
        if (is_fraction(qg_tensor_f64(scale, i), extent_of(n, i)))
            return true;
    return false;
}

static qg_status lose_all(qg_export *e, const qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (qg_resize_has_fraction(n))
            QG_TRY(qg_export_lose_node(
                e, n,
                "the runtime takes the whole number of elements for the extent, which "
                "is a fraction in ONNX; expected ",
                "scales that give whole extents, or sizes"));
    }
    return QG_OK;
}

qg_status qg_export_lose_fractions(qg_export *e)
{
    const qg_graph *from = e->quant->graph;
    QG_TRY(lose_all(e, from));
    for (const qg_graph *body = from->bodies; body; body = body->next_body)
        QG_TRY(lose_all(e, body));
    return QG_OK;
}
