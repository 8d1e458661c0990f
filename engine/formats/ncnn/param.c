#include "engine/formats/ncnn/param.h"

#include <string.h>

#include "engine/core/file.h"
#include "engine/core/num.h"
#include "engine/formats/table.h"
#include "engine/quant/endpoint.h"

/* --- reading --- */

char *qg_ncnn_next_word(char **at)
{
    char *word = *at + strspn(*at, " \t\r");
    if (!*word)
        return NULL;
    *at = word + strcspn(word, " \t\r");
    if (**at)
        *(*at)++ = '\0';
    return word;
}

/* "6=864" -> key 6; false for anything else. */
static bool read_key(const char *word, const char *key, int64_t *x)
{
    size_t n = strlen(key), rest = strlen(word);
    return strncmp(word, key, n) == 0 && rest - n < 32 &&
           qg_num_parse_i64(word + n, rest - n, x);
}

/* *found: the line describes a layer with weights. */
static bool read_layer(char *line, qg_ncnn_layer *l, bool *found)
{
    static const char *const kinds[] = { "Convolution", "ConvolutionDepthWise",
                                         "InnerProduct", NULL };
    const char *kind = qg_ncnn_next_word(&line), *word;
    int64_t in, out, skip;
    *l = (qg_ncnn_layer){ .name = qg_ncnn_next_word(&line) };
    *found = kind && l->name && qg_table_among(kind, kinds);
    if (!*found)
        return true;
    const char *n_in = qg_ncnn_next_word(&line), *n_out = qg_ncnn_next_word(&line);
    if (!n_in || !n_out || !read_key(n_in, "", &in) || !read_key(n_out, "", &out))
        return false;
    for (skip = 0; skip < in && qg_ncnn_next_word(&line); skip++)
        continue;
    l->top = out > 0 ? qg_ncnn_next_word(&line) : NULL;
    while ((word = qg_ncnn_next_word(&line)) != NULL) {
        (void)read_key(word, "0=", &l->outputs);
        (void)read_key(word, strcmp(kind, kinds[2]) == 0 ? "2=" : "6=", &l->weights);
    }
    return true;
}

qg_status qg_ncnn_param_read(qg_ctx *ctx, qg_arena *a, const char *doing,
                             const char *path, qg_ncnn_param *out)
{
    char *text;
    size_t size;
    qg_file_request from = { doing, path, (size_t)1 << 28 };
    *out = (qg_ncnn_param){ 0 };
    QG_TRY(qg_file_text(ctx, a, from, &text, &size));
    if (strncmp(text, "7767517\n", 8) != 0 && strncmp(text, "7767517\r\n", 9) != 0)
        return qg_fail(ctx, QG_EPARSE,
                       "%s: %s: does not begin with 7767517, expected a .param file of "
                       "ncnn",
                       doing, path);
    while (text && *text) {
        qg_ncnn_layer l;
        bool found;
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        if (!read_layer(text, &l, &found))
            return qg_fail(ctx, QG_EPARSE,
                           "%s: %s: layer '%s' has no counts of blobs, expected a "
                           ".param file",
                           doing, path, l.name);
        if (found)
            QG_TRY(qg_vec_push(ctx, a, &out->layer, l));
        text = end ? end + 1 : NULL;
    }
    return QG_OK;
}

/* --- nodes --- */

uint32_t qg_ncnn_weight_slot(const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in - n->n_capture; i++)
        if (n->in[i] && qg_endpoint_role(qg_input_at(n, i)) == 'w')
            return i;
    return 0;
}

/* Nodes that the layers of a .param file with weights are made of. */
static bool is_layer(const qg_node *n)
{
    static const char *const ops[] = { "Conv", "Gemm", "MatMul", NULL };
    uint32_t slot = qg_ncnn_weight_slot(n);
    return slot && n->in[slot]->constant && qg_table_among(n->op->name, ops);
}

static qg_ncnn_layer *named(const qg_ncnn_param *p, const qg_node *n)
{
    const char *out = n->n_out && n->out[0] ? n->out[0]->name : "";
    for (size_t i = 0; i < p->layer.n; i++)
        if (strcmp(p->layer.at[i].name, n->name) == 0)
            return &p->layer.at[i];
    for (size_t i = 0; i < p->layer.n; i++)
        if (p->layer.at[i].top && strcmp(p->layer.at[i].top, out) == 0)
            return &p->layer.at[i];
    return NULL;
}

/* Outputs and weights of the layer are those of n, which is_layer. */
static bool fits(const qg_ncnn_layer *l, const qg_node *n)
{
    const qg_tensor *weight = &n->in[qg_ncnn_weight_slot(n)]->type;
    int axis = n->op->weight_axis ? n->op->weight_axis(n) : -1;
    return axis >= 0 && axis < weight->rank && l->outputs == weight->dim[axis] &&
           l->weights == qg_tensor_count(weight);
}

void qg_ncnn_param_bind(qg_ncnn_param *p, const qg_graph *g)
{
    size_t count = 0, place = 0;
    for (size_t i = 0; i < g->node.n; i++)
        count += is_layer(g->node.at[i]);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        qg_ncnn_layer *l = qg_ncnn_weight_slot(n) ? named(p, n) : NULL;
        bool counts = is_layer(n);
        if (!l && counts && count == p->layer.n && fits(&p->layer.at[place], n))
            l = &p->layer.at[place];
        if (l && !l->node)
            l->node = n;
        place += counts;
    }
}

const qg_ncnn_layer *qg_ncnn_layer_of(const qg_ncnn_param *p, const qg_node *n)
{
    for (size_t i = 0; i < p->layer.n; i++)
        if (p->layer.at[i].node == n)
            return &p->layer.at[i];
    return NULL;
}
