#include "tests/support/chain_graph.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/core/rng.h"

enum { MOST_VALUES = 32 };

typedef struct shape {
    int channels, size; /* height and width */
} shape;

typedef struct maker {
    qg_rng rng;
    char *text;
    size_t n;
    shape v[MOST_VALUES]; /* v0, v1, ... */
    int n_value, n_const;
} maker;

static void say(maker *m, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    int n = vsnprintf(m->text + m->n, CHAIN_GRAPH_TEXT - m->n, format, words);
    va_end(words);
    if (n < 0 || m->n + (size_t)n >= CHAIN_GRAPH_TEXT)
        abort();
    m->n += (size_t)n;
}

static int below(maker *m, int n) { return (int)qg_rng_below(&m->rng, (uint64_t)n); }
static int last(const maker *m) { return m->n_value - 1; }

static int made(maker *m, int channels, int size)
{
    if (m->n_value == MOST_VALUES)
        abort();
    m->v[m->n_value] = (shape){ channels, size };
    return m->n_value++;
}

/* The number of a new constant k0, k1, ... */
static int constant(maker *m, const char *dims, const char *content)
{
    say(m, "  k%d = const f32[%s] %s\n", m->n_const, dims, content);
    return m->n_const++;
}

static int drawn(maker *m, const char *format, int a, int b, int c, int d)
{
    char dims[48], content[24];
    (void)snprintf(dims, sizeof dims, format, a, b, c, d);
    (void)snprintf(content, sizeof content, "seed(%d)", 1 + below(m, 1000));
    return constant(m, dims, content);
}

/* Of the last value; most often one that runtimes fuse. */
static void activation(maker *m)
{
    static const char *const op[] = { "Relu", "Relu",      "Relu",    "HardSwish",
                                      "Tanh", "LeakyRelu", "Sigmoid", "Softmax" };
    int x = last(m), y, kind = below(m, 12);
    if (kind < 8) {
        y = made(m, m->v[x].channels, m->v[x].size);
        say(m, "  v%d = %s(v%d)\n", y, op[kind], x);
    } else if (kind == 8) {
        int low = constant(m, "", "[0]"), high = constant(m, "", "[0.7]");
        y = made(m, m->v[x].channels, m->v[x].size);
        say(m, "  v%d = Clip(v%d, k%d, k%d)\n", y, x, low, high);
    }
}

static void convolution(maker *m)
{
    shape x = m->v[last(m)];
    int kernel = x.size >= 3 && below(m, 2) ? 3 : 1, stride = 1 + (below(m, 5) == 0);
    bool alone = below(m, 3) == 0; /* each channel */
    int out = alone ? x.channels : 1 + below(m, 6), pad = below(m, 3) ? kernel / 2 : 0;
    int w = drawn(m, "%d,%d,%d,%d", out, alone ? 1 : x.channels, kernel, kernel);
    int b = below(m, 3) ? drawn(m, "%d", out, 0, 0, 0) : -1;
    int from = last(m), y = made(m, out, (x.size + 2 * pad - kernel) / stride + 1);
    say(m, "  v%d = Conv(v%d, k%d", y, from, w);
    if (b >= 0)
        say(m, ", k%d", b);
    say(m, ") strides=[%d, %d] pads=[%d, %d, %d, %d] group=%d\n", stride, stride, pad,
        pad, pad, pad, alone ? x.channels : 1);
    activation(m);
}

/* The last value and an earlier one of its size. */
static void two_values(maker *m)
{
    static const char *const op[] = { "Add", "Add", "Mul", "Sub", "Concat", "Concat" };
    int x = last(m), y = x, kind = below(m, 6);
    for (int tries = 0; tries < 8 && y == x; tries++) {
        int z = below(m, m->n_value);
        bool able = m->v[z].size == m->v[x].size &&
                    (kind >= 4 || m->v[z].channels == m->v[x].channels);
        y = able ? z : y;
    }
    if (y == x)
        return;
    bool joins = kind >= 4;
    int to = made(m, m->v[x].channels + (joins ? m->v[y].channels : 0), m->v[x].size);
    say(m, "  v%d = %s(v%d, v%d)%s\n", to, op[kind], y, x, joins ? " axis=1" : "");
    if (below(m, 2) == 0)
        activation(m);
}

static void pool(maker *m)
{
    int x = last(m);
    if (m->v[x].size < 2)
        return;
    int y = made(m, m->v[x].channels, m->v[x].size / 2);
    say(m, "  v%d = %sPool(v%d) kernel_shape=[2, 2] strides=[2, 2]\n", y,
        below(m, 2) ? "Max" : "Average", x);
}

static void product(maker *m)
{
    int x = last(m), n = m->v[x].channels * m->v[x].size * m->v[x].size;
    int out = 2 + below(m, 5), w = drawn(m, "%d,%d", n, out, 0, 0);
    int b = drawn(m, "%d", out, 0, 0, 0);
    int flat = made(m, 0, 0), y = made(m, 0, 0);
    say(m, "  v%d = Flatten(v%d)\n  v%d = Gemm(v%d, k%d, k%d)\n", flat, x, y, flat, w,
        b);
    if (below(m, 2) == 0)
        say(m, "  v%d = Softmax(v%d)\n", made(m, 0, 0), y);
}

void chain_graph(uint64_t seed, char out[CHAIN_GRAPH_TEXT])
{
    maker m = { .rng = { seed }, .text = out };
    say(&m, "graph \"chain%d\" {\n  opset 17\n", (int)seed);
    int channels = 1 + below(&m, 4), size = 2 + below(&m, 5);
    say(&m, "  v%d = input f32[1,%d,%d,%d]\n", made(&m, channels, size), channels, size,
        size);
    for (int steps = 2 + below(&m, 5); steps > 0; steps--)
        switch (below(&m, 5)) {
        case 0:
            pool(&m);
            break;
        case 1:
        case 2:
            two_values(&m);
            break;
        default:
            convolution(&m);
            break;
        }
    convolution(&m);
    if (below(&m, 3) == 0)
        product(&m);
    say(&m, "  output v%d\n}\n", last(&m));
}
