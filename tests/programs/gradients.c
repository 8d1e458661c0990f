/* gradients -- build/tests/gradients MODEL.onnx IN.npz OUT.npz
 * Gradients of the whole network in float, by the tape that qg tune learns with.
 *
 * IN    the inputs of the network by name, and for each output "grad:<output>", the
 *       gradient of the loss with respect to it
 * OUT   "output:<name>" of each output, "input:<name>" of each float input and
 *       "weight:<name>" of each constant that the tape can learn: dL/d of it
 *
 * tests/scripts/test_gradients.py compares them with those of PyTorch. */
#include <stdio.h>
#include <string.h>

#include "engine/data/npz.h"
#include "engine/learn/tape.h"
#include "engine/session/session.h"

typedef struct job {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_model *m;
    qg_tape *t;
    qg_npz in;
    qg_npz_writer out;
} job;

static qg_status load(job *j, const char *prefix, const char *name,
                      const qg_tensor **out)
{
    const char *key = qg_arena_printf(j->arena, "%s%s", prefix, name);
    if (!key)
        return qg_nomem(j->ctx);
    const qg_npz_member *m = qg_npz_find(&j->in, key);
    if (!m)
        return qg_fail(j->ctx, QG_EDATA, "gradients: %s: no array '%s'", j->in.path,
                       key);
    return qg_npz_load(j->ctx, j->arena, &j->in, m, out);
}

static qg_status save(job *j, const char *prefix, const char *name, const qg_tensor *t)
{
    const char *key = qg_arena_printf(j->arena, "%s%s", prefix, name);
    return key ? qg_npz_add(&j->out, key, t) : qg_nomem(j->ctx);
}

static qg_status differentiate(job *j)
{
    const qg_tape *t = j->t;
    const qg_tensor **in = QG_NEWN(j->arena, t->n_in, const qg_tensor *);
    const qg_tensor **grad = QG_NEWN(j->arena, t->n_out, const qg_tensor *);
    if (!in || !grad)
        return qg_nomem(j->ctx);
    for (size_t k = 0; k < t->n_in; k++)
        QG_TRY(load(j, "", t->in[k]->name, &in[k]));
    for (size_t k = 0; k < t->n_out; k++)
        QG_TRY(load(j, "grad:", t->out[k]->name, &grad[k]));
    QG_TRY(qg_tape_forward(j->t, in));
    for (size_t k = 0; k < t->n_out; k++)
        QG_TRY(save(j, "output:", t->out[k]->name, qg_tape_output(t, k)));
    return qg_tape_backward(j->t, grad);
}

static qg_status write(job *j)
{
    const qg_tape *t = j->t;
    for (size_t k = 0; k < t->n_in; k++)
        if (qg_tape_input_grad(t, k))
            QG_TRY(save(j, "input:", t->in[k]->name, qg_tape_input_grad(t, k)));
    for (size_t i = 0; i < t->n_weight; i++)
        QG_TRY(save(j, "weight:", t->weight[i].value->name, &t->weight[i].grad));
    return qg_npz_commit(&j->out);
}

static qg_status run(job *j, char **argv)
{
    static const qg_quant none = { 0 };
    QG_TRY(qg_model_open(j->ctx, argv[1], NULL, &j->m));
    const qg_graph *g = j->m->graph;
    uint8_t *part = QG_NEWN(j->arena, g->node.n, uint8_t);
    if (!part)
        return qg_nomem(j->ctx);
    memset(part, 1, g->node.n);
    const qg_tape_options o = { .part = part, .learns = true };
    QG_TRY(qg_tape_new(j->ctx, j->m->graph, &none, &o, &j->t));
    QG_TRY(qg_npz_open(j->ctx, j->arena, argv[2], &j->in));
    QG_TRY(qg_npz_create(j->ctx, argv[3], false, &j->out));
    QG_TRY(differentiate(j));
    return write(j);
}

int main(int argc, char **argv)
{
    job j = { .arena = qg_arena_new(qg_alloc_libc), .in = { .fd = -1 } };
    if (argc != 4) {
        fprintf(stderr, "usage: gradients MODEL.onnx IN.npz OUT.npz\n");
        return 2;
    }
    if (!j.arena || qg_open(NULL, &j.ctx) != QG_OK)
        return 1;
    const qg_status s = run(&j, argv);
    if (s != QG_OK)
        fprintf(stderr, "%s\n", qg_ctx_message(j.ctx));
    qg_npz_abandon(&j.out);
    qg_npz_close(&j.in);
    qg_tape_free(j.t);
    qg_model_close(j.m);
    qg_close(j.ctx);
    qg_arena_free(j.arena);
    return s != QG_OK;
}
