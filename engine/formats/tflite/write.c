/* write.c -- the export of the format tflite: the integer program of a snapshot, in the
 * arithmetic of the reference kernels, as a file (writer.h).
 *
 *     qg_lower_program     records and profile -> integer kernels (lower/program.h)
 *     rewrite_axes         operators over axes that upstream lacks (axes.c)
 *     set_input_grids      codes that enter have the grid of their first reader
 *     interface, inputs    tensors in N,C,H,W, as the network has them
 *     find_gelus           nodes that one operator replaces (gelu.c)
 *     each node            kernel or move: operators in order of the program
 *     interface, outputs   a TRANSPOSE where only N,H,W,C was made
 *     qg_tflite_pack       bytes
 *
 * All of it is done by build, so that a node without a counterpart is reported before
 * a file is touched. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/formats/tflite/pack.h"
#include "engine/formats/tflite/tflite.h"
#include "engine/formats/tflite/writer.h"
#include "engine/ir/infer.h"
#include "engine/ir/lower.h"

enum { SCHEMA = 3 };

typedef struct built {
    const unsigned char *bytes;
    size_t size;
} built;

/* Values of the program back to those of the float graph. */
static qg_status begin(qg_tflite_writer *w)
{
    const qg_program *p = w->program;
    size_t n = p->graph->value.n;
    w->from = QG_NEWN(w->arena, n, const qg_value *);
    w->grid = QG_NEWN(w->arena, n, qg_stored);
    for (int k = 0; k < QG_TFLITE_NFORM; k++) {
        w->form[k] = QG_NEWN(w->arena, n, int32_t);
        for (size_t i = 0; w->form[k] && i < n; i++)
            w->form[k][i] = -1;
    }
    if (!w->from || !w->grid || !w->form[0] || !w->form[1])
        return qg_nomem(w->ctx);
    for (size_t i = 0; i < p->from->value.n; i++)
        if (p->value[i])
            w->from[p->value[i]->id] = p->from->value.at[i];
    return QG_OK;
}

/* Tensors of the interface, in its order. */
static qg_status interface(qg_tflite_writer *w, qg_value *const *v, size_t n,
                           bool inputs, int32_t *out)
{
    for (size_t i = 0; i < n; i++)
        QG_TRY(inputs ? qg_tflite_make(w, v[i], QG_TFLITE_AS_IS, &out[i])
                      : qg_tflite_want(w, v[i], QG_TFLITE_AS_IS, NULL, &out[i]));
    return QG_OK;
}

/* Of an integer program; else of the network. */
static bool is_kernel(const qg_node *n)
{
    return n->op->domain && strcmp(n->op->domain, QG_LOWER_DOMAIN) == 0;
}

/* Codes that come in are on the grid that a reader has for them, behind what moves
 * them. */
static qg_status set_input_grids(qg_tflite_writer *w)
{
    const qg_graph *g = w->program->graph;
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        qg_recipe *r = QG_NEW(w->arena, qg_recipe);
        if (!r)
            return qg_nomem(w->ctx);
        if (!n->op->domain && n->n_in && n->in[0] && n->out[0] &&
            w->grid[n->out[0]->id].codes)
            w->grid[n->in[0]->id] = w->grid[n->out[0]->id];
        if (!is_kernel(n) || qg_node_has(n, QG_OP_CONTROL))
            continue;
        QG_TRY(qg_recipe_read(w->ctx, n, r));
        if (r->in[0].codes)
            w->grid[n->in[0]->id] = r->in[0];
    }
    return QG_OK;
}

/* A kernel stores codes also where the simulation goes on with floats: the average of
 * a pool, which shares the grid of its input. */
static qg_status lose_floats(qg_tflite_writer *w)
{
    const qg_value *y = w->node->n_out ? w->node->out[0] : NULL;
    const qg_value *v = y ? w->from[y->id] : NULL;
    const qg_tqc *t = v ? qg_producer_tqc(v) : NULL;
    if (!is_kernel(w->node) || !t || t->state != QG_TQC_OVERLAPPED ||
        !w->grid[y->id].codes)
        return QG_OK;
    return qg_export_lose(w->e, QG_SAYS_ENDPOINT, t,
                          "rounded to the grid that it shares, as in integer mode; the "
                          "simulation keeps floats");
}

/* From this ratio of scales on, the sum of two inputs may leave the 16 bits in which
 * upstream's optimized ADD keeps it, in steps of the output, without saturation. */
static const float WIDE_SUM = 63.9f;

static qg_status lose_sum(qg_tflite_writer *w)
{
    static const char *const sums[] = { "IntBinary" };
    const qg_recipe *r = w->recipe;
    const char *function;
    if (!is_kernel(w->node) || !qg_op_is_named(w->node->op, sums, 1))
        return QG_OK;
    QG_TRY(qg_attr_string(w->ctx, w->node, "function", "add", &function));
    float most = fmaxf(r->in[0].scale[0], r->in[1].scale[0]) / r->out.scale[0];
    const qg_value *v = w->from[w->node->out[0]->id];
    const qg_tqc *t = v ? qg_producer_tqc(v) : NULL;
    if (strcmp(function, "add") != 0 || most < WIDE_SUM || !t)
        return QG_OK;
    return qg_export_lose(w->e, QG_SAYS_ENDPOINT, t,
                          "the sum may exceed 16 bits in steps of the output: LiteRT's "
                          "optimized kernel wraps it, its reference kernel does not");
}

/* A node that is quantized, and whose kernel upstream does not have on these grids: the
 * file computes it as the simulation does. */
static qg_status lose_kernels(qg_tflite_writer *w)
{
    const qg_program *p = w->program;
    for (size_t i = 0; i < p->from->node.n; i++) {
        const qg_node *n = p->from->node.at[i];
        const qg_value *y = n->n_out ? n->out[0] : NULL;
        const qg_tqc *t = y ? qg_producer_tqc(y) : NULL;
        if (p->node[n->id].how != QG_LOWERED_REFUSED || !t)
            continue;
        QG_TRY(qg_export_lose(w->e, QG_SAYS_ENDPOINT, t,
                              "its node computes in floats between grids: %.1000s",
                              p->node[n->id].why));
        w->e->loss.at[w->e->loss.n - 1].computes = false;
    }
    return QG_OK;
}

static qg_status build_file(qg_tflite_writer *w, qg_tflite_file *file)
{
    const qg_graph *g = w->program->graph;
    const qg_tensor *const *known;
    int32_t *in = QG_NEWN(w->arena, g->input.n, int32_t),
            *out = QG_NEWN(w->arena, g->output.n, int32_t);
    if (!in || !out)
        return qg_nomem(w->ctx);
    if (!g->node.n)
        return qg_fail(w->ctx, QG_EUNSUPPORTED,
                       "export: the network has no operators, expected one");
    w->node = g->node.at[0];
    QG_TRY(set_input_grids(w));
    QG_TRY(qg_infer_known(w->program->graph, &known));
    QG_TRY(qg_tflite_find_gelus(w));
    QG_TRY(interface(w, g->input.at, g->input.n, true, in));
    for (size_t i = 0; i < g->node.n; i++) {
        w->node = g->node.at[i];
        const qg_value *y = w->node->n_out ? w->node->out[0] : NULL;
        if (w->inside[w->node->id] ||
            (y && known[y->id] && (QG_DT(I64) | QG_DT(BOOL)) >> y->type.dtype & 1))
            continue; /* a shape: dims of outputs are written as constants */
        QG_TRY(is_kernel(w->node) ? qg_tflite_write_kernel(w)
                                  : qg_tflite_write_move(w));
        QG_TRY(lose_floats(w));
        QG_TRY(lose_sum(w));
    }
    QG_TRY(interface(w, g->output.at, g->output.n, false, out));
    *file = (qg_tflite_file){ .version = SCHEMA,
                              .tensor = w->tensor.at,
                              .op = w->op.at,
                              .input = in,
                              .output = out,
                              .n_tensor = (uint32_t)w->tensor.n,
                              .n_op = (uint32_t)w->op.n,
                              .n_input = (uint32_t)g->input.n,
                              .n_output = (uint32_t)g->output.n };
    return QG_OK;
}

static qg_status write_program(qg_export *e, const qg_program *p, built *out)
{
    qg_tflite_writer w = { .e = e, .ctx = e->ctx, .arena = e->arena, .program = p };
    qg_tflite_file file;
    const char *tool = e->info->manifest.tool;
    QG_TRY(qg_tflite_rewrite_axes(p->graph));
    QG_TRY(begin(&w));
    QG_TRY(build_file(&w, &file));
    QG_TRY(lose_kernels(&w));
    return qg_tflite_pack(e->ctx, e->arena, &file, tool ? tool : "quantgraph",
                          &out->bytes, &out->size);
}

qg_status qg_tflite_build_file(qg_export *e)
{
    qg_program *p;
    built *b = QG_NEW(e->arena, built);
    if (!b)
        return qg_nomem(e->ctx);
    assert(e->profile);
    QG_TRY(qg_lower_program(e->quant->graph, e->profile, &(qg_lower_options){ 0 }, &p));
    qg_status s = write_program(e, p, b);
    qg_program_free(p);
    e->built = b;
    return s == QG_OK ? qg_export_lose_open(e) : s;
}

qg_status qg_tflite_write_file(qg_export *e)
{
    const built *b = e->built;
    QG_TRY(qg_file_write(e->ctx, e->path, b->bytes, b->size));
    return qg_export_wrote(e, e->path);
}
