/* gelu.c -- finds x / 2 (1 + erf(x / sqrt 2)) in a program, which exporters write as
 * five operators: upstream has no Erf, but GELU.
 *
 *     x --Div sqrt 2--> --Erf--> --Add 1--> --Mul x--> --Mul 0.5--> y
 *
 * The factors behind Add come in any order, as x and 0.5, as their product, or 0.5 as
 * a division by 2.  Nothing else may read a value on the way, and constants are those
 * of the formula up to the rounding of float32.  The result differs from that of the
 * five operators in the last bits. */
#include <math.h>

#include "engine/formats/tflite/writer.h"

static bool is_near(double x, double wanted) { return fabs(x / wanted - 1) < 1e-6; }

static bool is_named(const qg_node *n, const char *name)
{
    return n && qg_op_is_named(n->op, &name, 1);
}

/* The value of input k, when it is a constant of one float; else NaN. */
static double number(const qg_node *n, uint32_t k)
{
    const qg_tensor *t = k < n->n_in && n->in[k] ? n->in[k]->constant : NULL;
    return t && t->dtype == QG_F32 && qg_tensor_count(t) == 1 ? qg_tensor_f64(t, 0)
                                                              : NAN;
}

/* The input that n multiplies by a constant, *factor; NULL: it does not. */
static const qg_value *scaled(const qg_node *n, double *factor)
{
    bool divides = is_named(n, "Div");
    if (!divides && !is_named(n, "Mul"))
        return NULL;
    uint32_t k = isnan(number(n, 1)) && !divides ? 0 : 1; /* slot of the constant */
    *factor = divides ? 1 / number(n, 1) : number(n, k);
    return isnan(*factor) ? NULL : n->in[1 - k];
}

/* The only reader of the node's result; NULL: there are others, or none. */
static const qg_node *reader(const qg_node *n)
{
    const qg_value *y = n->out[0];
    return y->use.n == 1 && !y->is_output ? y->use.at[0].node : NULL;
}

/* A node on the way, which the operator replaces. */
typedef struct way {
    const qg_node *node[8];
    size_t n;
} way;

static const qg_node *step(way *w, const qg_node *n)
{
    w->node[w->n++] = n;
    return reader(n);
}

/* From the sum on: factors x and 0.5; the last node, or NULL. */
static const qg_node *find_product(const qg_node *n, const qg_value *x, way *w)
{
    double all = 1, factor;
    const qg_value *in = w->node[w->n - 1]->out[0];
    for (bool met = false; n && w->n < 6; in = n->out[0], n = step(w, n)) {
        const qg_value *other = scaled(n, &factor);
        if (other == in) {
            all *= factor;
        } else if (!met && is_named(n, "Mul")) {
            other = n->in[n->in[0] == in];
            if (other != x) {
                if (!other->def || reader(other->def) != n ||
                    scaled(other->def, &factor) != x)
                    return NULL;
                all *= factor;
                w->node[w->n++] = other->def;
            }
            met = true;
        } else {
            return NULL;
        }
        if (met && is_near(all, 0.5))
            return n;
    }
    return NULL;
}

static void find(qg_tflite_writer *w, const qg_node *erf)
{
    way inner = { .n = 0 };
    double factor;
    const qg_node *d = erf->in[0]->def;
    const qg_value *x = d ? scaled(d, &factor) : NULL;
    if (!x || !is_near(factor, sqrt(0.5)) || reader(d) != erf)
        return;
    step(&inner, d);
    const qg_node *sum = step(&inner, erf);
    bool right = sum && is_named(sum, "Add") && sum->n_in == 2 &&
                 (number(sum, 0) == 1 || number(sum, 1) == 1);
    const qg_node *last = right ? find_product(step(&inner, sum), x, &inner) : NULL;
    if (!last)
        return;
    for (size_t i = 0; i < inner.n; i++)
        w->inside[inner.node[i]->id] = true;
    w->gelu[last->id] = x;
}

qg_status qg_tflite_find_gelus(qg_tflite_writer *w)
{
    const qg_graph *g = w->program->graph;
    w->inside = QG_NEWN(w->arena, g->node.n, bool);
    w->gelu = QG_NEWN(w->arena, g->node.n, const qg_value *);
    if (!w->inside || !w->gelu)
        return qg_nomem(w->ctx);
    for (size_t i = 0; i < g->node.n; i++)
        if (is_named(g->node.at[i], "Erf"))
            find(w, g->node.at[i]);
    return QG_OK;
}
