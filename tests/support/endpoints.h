/* endpoints.h -- TQCs on hand-made nodes, for tests that need no operators. */
#ifndef QG_TESTS_SUPPORT_ENDPOINTS_H
#define QG_TESTS_SUPPORT_ENDPOINTS_H

#include "engine/quant/tqc.h"

/* One node with `n` inputs; input k is a value, constant where bit k of `constants` is
 * set; every input has a TQC in INITIAL, 8 bits symmetric per tensor. */
typedef struct bench {
    qg_ctx *ctx;
    qg_graph graph;
    qg_node node;
    qg_quant *q;
    qg_tqc **t; /* [n] */
    uint32_t n;
} bench;

void bench_open(bench *b, uint32_t n, uint64_t constants);
void bench_close(bench *b);

/* Scale s, offset 0, and state ACTIVATED. */
void bench_activate(bench *b, qg_tqc *t, float s);

extern const qg_scheme int8_scheme;

#endif
