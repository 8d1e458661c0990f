/* arrays.c -- a program that uses only the component `arrays`. */
#include <quantgraph/qg_arrays.h>

#include <stdio.h>

int main(void)
{
    float x[2] = { 1.3f, -100 }, y[2], scale = 0.5f;
    qg_qdq q = { .type = QG_I8, .outer = 1, .dim = 1, .inner = 2, .scale = &scale };
    int8_t code[2];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 1;
    qg_quantize_linear(&q, x, code);
    qg_dequantize_linear(&q, code, y);
    qg_ctx_free(ctx);
    printf("%d %d %g %g\n", code[0], code[1], (double)y[0], (double)y[1]);
    return !(code[0] == 3 && code[1] == -128 && y[0] == 1.5f && y[1] == -64);
}
