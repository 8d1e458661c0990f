#include "tests/support/endpoints.h"

#include "tests/support/test.h"

const qg_scheme int8_scheme = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                .rounding = QG_ROUND_HALF_EVEN,
                                .bits = 8,
                                .axis = -1,
                                .qmin = -128,
                                .qmax = 127 };

void bench_open(bench *b, uint32_t n, uint64_t constants)
{
    *b = (bench){ .ctx = qg_ctx_new(qg_alloc_libc), .n = n };
    qg_arena *a = b->ctx->arena;
    b->graph = (qg_graph){ .ctx = b->ctx, .arena = a };
    b->node = (qg_node){ .name = "n", .n_in = n };
    b->node.in = QG_NEWN(a, n, qg_value *);
    b->t = QG_NEWN(a, n, qg_tqc *);
    qg_tensor *some = QG_NEW(a, qg_tensor);
    qg_tensor_scalar(some, QG_F32);
    assert_ok(b->ctx, qg_quant_new(&b->graph, NULL, &b->q));
    for (uint32_t i = 0; i < n; i++) {
        b->node.in[i] = QG_NEW(a, qg_value);
        b->node.in[i]->name = "v";
        qg_tensor_scalar(&b->node.in[i]->type, QG_F32);
        if (i < 64 && (constants >> i & 1))
            b->node.in[i]->constant = some;
        assert_ok(b->ctx,
                  qg_quant_add(b->q, &b->node, false, i, &int8_scheme, &b->t[i]));
    }
    b->q->author = "test";
}

void bench_close(bench *b) { qg_ctx_free(b->ctx); }

void bench_activate(bench *b, qg_tqc *t, float s)
{
    assert_ok(b->ctx, qg_tqc_set_param(b->q, t, 1, &s, NULL));
    assert_ok(b->ctx, qg_tqc_set_state(b->q, t, QG_TQC_ACTIVATED));
}
