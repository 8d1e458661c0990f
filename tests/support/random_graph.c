#include "tests/support/random_graph.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MOST_VALUES = 64, MOST_ELEMENTS = 2000, RANK = 4 };

/* A value that later steps may read; rank 0 stands for "not a float tensor". */
typedef struct value {
    char name[16];
    int rank, dim[RANK];
    int readers;
} value;

typedef struct maker {
    qg_rng rng;
    char *text;
    size_t n;
    value v[MOST_VALUES];
    int n_value, n_const;
    char weight[16]; /* the last weight of a convolution */
    int weight_dim[RANK];
} maker;

static void say(maker *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(m->text + m->n, QG_RANDOM_GRAPH_TEXT - m->n, fmt, args);
    va_end(args);
    m->n += (size_t)n;
    assert(n >= 0 && m->n < QG_RANDOM_GRAPH_TEXT);
}

static int below(maker *m, int n) { return (int)qg_rng_below(&m->rng, (uint64_t)n); }
static bool chance(maker *m, int n) { return below(m, n) == 0; }

static int count(const value *v)
{
    int n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

/* --- constants --- */

/* "k3 = const f32[2,3] seed(7)"; the name in `name`. */
static void constant(maker *m, char name[16], const char *type, const char *content)
{
    (void)snprintf(name, 16, "k%d", m->n_const++);
    say(m, "  %s = const %s %s\n", name, type, content);
}

static void random_constant(maker *m, char name[16], int rank, const int *dim)
{
    char type[64] = "f32[", content[32];
    for (int i = 0; i < rank; i++)
        (void)snprintf(type + strlen(type), sizeof type - strlen(type), "%s%d",
                       i ? "," : "", dim[i]);
    (void)snprintf(type + strlen(type), sizeof type - strlen(type), "]");
    (void)snprintf(content, sizeof content, "seed(%d)", 1 + below(m, 1000));
    constant(m, name, type, content);
}

/* --- values --- */

/* A new value of these dims; the caller has written the node. */
static value *made(maker *m, int rank, const int *dim)
{
    value *v = &m->v[m->n_value];
    assert(m->n_value < MOST_VALUES && rank <= RANK);
    *v = (value){ .rank = rank };
    (void)snprintf(v->name, sizeof v->name, "v%d", m->n_value++);
    memcpy(v->dim, dim, (size_t)rank * sizeof *dim);
    return v;
}

static value *made_like(maker *m, const value *x) { return made(m, x->rank, x->dim); }

/* A value with these dims other than x (-1: any), or NULL; recent ones are likelier. */
static value *find(maker *m, const value *x, int rank, const int *dim)
{
    int start = below(m, m->n_value);
    for (int k = 0; k < m->n_value; k++) {
        value *v = &m->v[(start + k) % m->n_value];
        bool fits = v != x && v->rank == rank;
        for (int i = 0; fits && i < rank; i++)
            fits = dim[i] < 0 || v->dim[i] == dim[i];
        if (fits)
            return v;
    }
    return NULL;
}

static value *any(maker *m)
{
    for (int tries = 0; tries < 32; tries++) {
        int back = below(m, 2) ? below(m, m->n_value < 3 ? m->n_value : 3)
                               : below(m, m->n_value);
        value *v = &m->v[m->n_value - 1 - back];
        if (v->rank)
            return v;
    }
    return &m->v[0];
}

static value *read_it(value *x)
{
    x->readers++;
    return x;
}

/* --- steps: false when they do not fit x --- */

static bool convolution(maker *m, value *x)
{
    if (x->rank != 4)
        return false;
    bool depthwise = chance(m, 3);
    int k = chance(m, 2) && x->dim[2] > 2 && x->dim[3] > 2 ? 3 : 1;
    int stride = chance(m, 4) ? 2 : 1, pad = k / 2, channels = x->dim[1];
    int out = depthwise ? channels : 1 + below(m, 6);
    int w[4] = { out, depthwise ? 1 : channels, k, k };
    int dim[4] = { x->dim[0], out, (x->dim[2] + 2 * pad - k) / stride + 1,
                   (x->dim[3] + 2 * pad - k) / stride + 1 };
    if (memcmp(w, m->weight_dim, sizeof w) != 0 || chance(m, 2)) {
        random_constant(m, m->weight, 4, w);
        memcpy(m->weight_dim, w, sizeof w);
    }
    char bias[16] = "_";
    if (chance(m, 2))
        random_constant(m, bias, 1, &out);
    const char *name = made(m, 4, dim)->name;
    say(m, "  %s = Conv(%s, %s, %s) strides=[%d, %d] pads=[%d, %d, %d, %d] group=%d\n",
        name, read_it(x)->name, m->weight, bias, stride, stride, pad, pad, pad, pad,
        depthwise ? channels : 1);
    return true;
}

static bool deconvolution(maker *m, value *x)
{
    if (x->rank != 4 || count(x) > MOST_ELEMENTS / 8)
        return false;
    char w[16];
    int out = 1 + below(m, 3);
    int dim[4] = { x->dim[0], out, 2 * x->dim[2], 2 * x->dim[3] };
    random_constant(m, w, 4, (int[]){ x->dim[1], out, 2, 2 });
    say(m, "  %s = ConvTranspose(%s, %s) strides=[2, 2]\n", made(m, 4, dim)->name,
        read_it(x)->name, w);
    return true;
}

static bool normalization(maker *m, value *x)
{
    if (x->rank != 4)
        return false;
    char k[4][16], type[16];
    (void)snprintf(type, sizeof type, "f32[%d]", x->dim[1]);
    for (int i = 0; i < 3; i++)
        random_constant(m, k[i], 1, &x->dim[1]);
    constant(m, k[3], type, "ramp(0.5, 2.0)");
    say(m, "  %s = BatchNormalization(%s, %s, %s, %s, %s)\n", made_like(m, x)->name,
        read_it(x)->name, k[0], k[1], k[2], k[3]);
    return true;
}

static bool unary(maker *m, value *x)
{
    static const char *const op[] = { "Relu",        "Relu",      "Sigmoid",
                                      "Tanh",        "Neg",       "LeakyRelu",
                                      "HardSigmoid", "HardSwish", "Elu",
                                      "Softplus",    "Abs",       "Identity",
                                      "Dropout",     "Erf",       "Softmax" };
    say(m, "  %s = %s(%s)\n", made_like(m, x)->name,
        op[below(m, (int)(sizeof op / sizeof op[0]))], read_it(x)->name);
    return true;
}

static bool clip(maker *m, value *x)
{
    char low[16] = "_", high[16];
    if (chance(m, 2))
        constant(m, low, "f32[]", chance(m, 2) ? "[0.0]" : "[-0.7]");
    constant(m, high, "f32[]", "[0.9]");
    say(m, "  %s = Clip(%s, %s, %s)\n", made_like(m, x)->name, read_it(x)->name, low,
        high);
    return true;
}

static const char *sum_or_product(maker *m)
{
    static const char *const op[] = { "Add", "Add", "Mul", "Sub", "Max", "Min" };
    return op[below(m, (int)(sizeof op / sizeof op[0]))];
}

/* Sometimes with itself. */
static bool two_values(maker *m, value *x)
{
    value *y = find(m, chance(m, 8) ? NULL : x, x->rank, x->dim);
    if (!y)
        return false;
    say(m, "  %s = %s(%s, %s)\n", made_like(m, x)->name, sum_or_product(m),
        read_it(x)->name, read_it(y)->name);
    return true;
}

static bool with_constant(maker *m, value *x)
{
    char k[16];
    if (x->rank == 4 && chance(m, 2))
        random_constant(m, k, 3, (int[]){ x->dim[1], 1, 1 });
    else if (chance(m, 2))
        random_constant(m, k, x->rank, x->dim);
    else
        constant(m, k, "f32[]", "[1.25]");
    bool first = chance(m, 4);
    const char *op = !first && chance(m, 5) ? NULL : sum_or_product(m);
    if (!op)
        constant(m, k, "f32[]", "[2.5]");
    say(m, "  %s = %s(%s, %s)\n", made_like(m, x)->name, op ? op : "Div",
        first ? k : read_it(x)->name, first ? read_it(x)->name : k);
    return true;
}

static bool swish(maker *m, value *x)
{
    const char *s = made_like(m, x)->name;
    m->v[m->n_value - 1].readers = 1;
    x->readers += 2;
    say(m, "  %s = Sigmoid(%s)\n", s, x->name);
    say(m, "  %s = Mul(%s, %s)\n", made_like(m, x)->name, x->name, s);
    return true;
}

static bool pool(maker *m, value *x)
{
    if (x->rank != 4)
        return false;
    bool global = chance(m, 3) || x->dim[2] < 2 || x->dim[3] < 2,
         largest = chance(m, 2);
    int dim[4] = { x->dim[0], x->dim[1], global ? 1 : x->dim[2] / 2,
                   global ? 1 : x->dim[3] / 2 };
    say(m, "  %s = %s%sPool(%s)%s\n", made(m, 4, dim)->name, global ? "Global" : "",
        largest ? "Max" : "Average", read_it(x)->name,
        global ? "" : " kernel_shape=[2, 2] strides=[2, 2]");
    return true;
}

static bool concatenation(maker *m, value *x)
{
    if (x->rank < 2)
        return false;
    int dim[RANK];
    memcpy(dim, x->dim, sizeof dim);
    dim[1] = -1;
    value *y = find(m, chance(m, 6) ? NULL : x, x->rank, dim);
    value *z = y && chance(m, 3) ? find(m, x, x->rank, dim) : NULL;
    if (!y)
        return false;
    dim[1] = x->dim[1] + y->dim[1] + (z ? z->dim[1] : 0);
    say(m, "  %s = Concat(%s, %s%s%s) axis=1\n", made(m, x->rank, dim)->name,
        read_it(x)->name, read_it(y)->name, z ? ", " : "", z ? read_it(z)->name : "");
    return true;
}

static bool resize(maker *m, value *x)
{
    if (x->rank != 4 || 4 * count(x) > MOST_ELEMENTS)
        return false;
    char scales[16];
    int dim[4] = { x->dim[0], x->dim[1], 2 * x->dim[2], 2 * x->dim[3] };
    constant(m, scales, "f32[4]", "[1.0, 1.0, 2.0, 2.0]");
    say(m, "  %s = Resize(%s, _, %s) mode=\"%s\"\n", made(m, 4, dim)->name,
        read_it(x)->name, scales, chance(m, 2) ? "nearest" : "linear");
    return true;
}

static bool split(maker *m, value *x)
{
    if (x->rank < 2 || x->dim[1] % 2)
        return false;
    int dim[RANK];
    memcpy(dim, x->dim, sizeof dim);
    dim[1] /= 2;
    const char *first = made(m, x->rank, dim)->name;
    const char *second = made(m, x->rank, dim)->name;
    say(m, "  %s, %s = Split(%s) axis=1\n", first, second, read_it(x)->name);
    return true;
}

static bool reshape(maker *m, value *x)
{
    char shape[16];
    int dim[4] = { 1, count(x), 1, 1 };
    bool flat = x->rank != 2;
    if (flat && chance(m, 3)) {
        dim[0] = x->dim[0];
        dim[1] = count(x) / x->dim[0];
        say(m, "  %s = Flatten(%s)\n", made(m, 2, dim)->name, read_it(x)->name);
        return true;
    }
    constant(m, shape, flat ? "i64[2]" : "i64[4]", flat ? "[1, -1]" : "[1, -1, 1, 1]");
    say(m, "  %s = Reshape(%s, %s)\n", made(m, flat ? 2 : 4, dim)->name,
        read_it(x)->name, shape);
    return true;
}

/* As exporters write it: a shape is split and reassembled. */
static bool computed_reshape(maker *m, value *x)
{
    char first[16], axis[16], rest[16];
    int k = m->n_const, dim[2] = { x->dim[0], count(x) / x->dim[0] };
    constant(m, first, "i64[]", "[0]");
    constant(m, axis, "i64[1]", "[0]");
    constant(m, rest, "i64[1]", "[-1]");
    x->readers++;
    say(m, "  s%d = Shape(%s)\n  g%d = Gather(s%d, %s)\n", k, x->name, k, k, first);
    say(m, "  u%d = Unsqueeze(g%d, %s)\n  c%d = Concat(u%d, %s) axis=0\n", k, k, axis,
        k, k, rest);
    say(m, "  %s = Reshape(%s, c%d)\n", made(m, 2, dim)->name, read_it(x)->name, k);
    return true;
}

static bool zeros_like(maker *m, value *x)
{
    int k = m->n_const++;
    x->readers++;
    say(m, "  s%d = Shape(%s)\n  z%d = ConstantOfShape(s%d) value=f32[1] [0.5]\n", k,
        x->name, k, k);
    say(m, "  %s = Add(%s, z%d)\n", made_like(m, x)->name, read_it(x)->name, k);
    return true;
}

static bool transpose(maker *m, value *x)
{
    if (x->rank == 2) {
        int dim[2] = { x->dim[1], x->dim[0] };
        say(m, "  %s = Transpose(%s) perm=[1, 0]\n", made(m, 2, dim)->name,
            read_it(x)->name);
        return true;
    }
    int dim[4] = { x->dim[0], x->dim[2], x->dim[3], x->dim[1] };
    if (x->rank != 4)
        return false;
    say(m, "  %s = Transpose(%s) perm=[0, 2, 3, 1]\n", made(m, 4, dim)->name,
        read_it(x)->name);
    return true;
}

static bool pad(maker *m, value *x)
{
    if (x->rank != 4 || count(x) > MOST_ELEMENTS / 4)
        return false;
    char pads[16], fill[16] = "_";
    int dim[4] = { x->dim[0], x->dim[1], x->dim[2] + 2, x->dim[3] + 2 };
    constant(m, pads, "i64[8]", "[0, 0, 1, 1, 0, 0, 1, 1]");
    if (chance(m, 2))
        constant(m, fill, "f32[]", chance(m, 2) ? "[0.0]" : "[0.3]");
    say(m, "  %s = Pad(%s, %s, %s)\n", made(m, 4, dim)->name, read_it(x)->name, pads,
        fill);
    return true;
}

static bool slice(maker *m, value *x)
{
    if (x->rank < 2 || x->dim[1] < 2)
        return false;
    char start[16], end[16], axis[16], text[16];
    int dim[RANK];
    memcpy(dim, x->dim, sizeof dim);
    dim[1] /= 2;
    (void)snprintf(text, sizeof text, "[%d]", dim[1]);
    constant(m, start, "i64[1]", "[0]");
    constant(m, end, "i64[1]", text);
    constant(m, axis, "i64[1]", "[1]");
    say(m, "  %s = Slice(%s, %s, %s, %s)\n", made(m, x->rank, dim)->name,
        read_it(x)->name, start, end, axis);
    return true;
}

static bool gather(maker *m, value *x)
{
    if (x->rank < 2 || x->dim[1] < 2)
        return false;
    char index[16];
    int dim[RANK];
    memcpy(dim, x->dim, sizeof dim);
    dim[1] = 3;
    constant(m, index, "i64[3]", "[1, 0, 1]");
    say(m, "  %s = Gather(%s, %s) axis=1\n", made(m, x->rank, dim)->name,
        read_it(x)->name, index);
    return true;
}

static bool matrix_product(maker *m, value *x)
{
    char w[16], bias[16] = "_";
    int last = x->dim[x->rank - 1], out = 1 + below(m, 5), dim[RANK];
    if (last > 200)
        return false;
    memcpy(dim, x->dim, sizeof dim);
    dim[x->rank - 1] = out;
    bool gemm = x->rank == 2 && chance(m, 2), turned = gemm && chance(m, 2);
    random_constant(m, w, 2, turned ? (int[]){ out, last } : (int[]){ last, out });
    if (gemm && chance(m, 2))
        random_constant(m, bias, 1, &out);
    const char *y = made(m, x->rank, dim)->name;
    if (gemm)
        say(m, "  %s = Gemm(%s, %s, %s) transB=%d\n", y, read_it(x)->name, w, bias,
            turned);
    else
        say(m, "  %s = MatMul(%s, %s)\n", y, read_it(x)->name, w);
    return true;
}

/* softmax(x x') x */
static bool attention(maker *m, value *x)
{
    if (x->rank != 2 || x->dim[0] > 40)
        return false;
    int k = m->n_const++;
    x->readers += 2;
    say(m, "  t%d = Transpose(%s) perm=[1, 0]\n  q%d = MatMul(%s, t%d)\n", k, x->name,
        k, x->name, k);
    say(m, "  p%d = Softmax(q%d)\n  %s = MatMul(p%d, %s)\n", k, k,
        made_like(m, x)->name, k, read_it(x)->name);
    return true;
}

static bool mean(maker *m, value *x)
{
    if (x->rank != 4)
        return false;
    say(m, "  %s = ReduceMean(%s) axes=[2, 3] keepdims=1\n",
        made(m, 4, (int[]){ x->dim[0], x->dim[1], 1, 1 })->name, read_it(x)->name);
    return true;
}

static bool squeeze(maker *m, value *x)
{
    if (x->rank != 4 || x->dim[2] != 1 || x->dim[3] != 1)
        return false;
    char axes[16];
    constant(m, axes, "i64[2]", "[2, 3]");
    say(m, "  %s = Squeeze(%s, %s)\n", made(m, 2, x->dim)->name, read_it(x)->name,
        axes);
    return true;
}

/* The indices become an output, or select among the values. */
static bool largest(maker *m, value *x)
{
    int last = x->dim[x->rank - 1], dim[RANK], k = m->n_const;
    if (last < 2)
        return false;
    char how_many[16];
    constant(m, how_many, "i64[1]", "[2]");
    memcpy(dim, x->dim, sizeof dim);
    dim[x->rank - 1] = 2;
    const char *y = made(m, x->rank, dim)->name;
    say(m, "  %s, i%d = TopK(%s, %s) axis=-1\n", y, k, read_it(x)->name, how_many);
    if (chance(m, 2)) {
        say(m, "  output i%d\n", k);
        return true;
    }
    x->readers++;
    say(m, "  %s = GatherElements(%s, i%d) axis=%d\n", made(m, x->rank, dim)->name,
        x->name, k, x->rank - 1);
    return true;
}

static bool choice(maker *m, value *x)
{
    value *y = find(m, x, x->rank, x->dim);
    if (!y)
        return false;
    char zero[16];
    int k = m->n_const;
    constant(m, zero, "f32[]", "[0.0]");
    x->readers++;
    say(m, "  b%d = Greater(%s, %s)\n", k, x->name, zero);
    say(m, "  %s = Where(b%d, %s, %s)\n", made_like(m, x)->name, k, read_it(x)->name,
        read_it(y)->name);
    return true;
}

static bool layer_norm(maker *m, value *x)
{
    char gain[16], shift[16];
    int last = x->dim[x->rank - 1];
    if (last < 2)
        return false;
    random_constant(m, gain, 1, &last);
    random_constant(m, shift, 1, &last);
    say(m, "  %s = LayerNormalization(%s, %s, %s)\n", made_like(m, x)->name,
        read_it(x)->name, gain, shift);
    return true;
}

/* For folding: a constant that is computed. */
static bool constant_branch(maker *m, value *x)
{
    char k[16], two[16];
    random_constant(m, k, x->rank, x->dim);
    constant(m, two, "f32[]", "[0.5]");
    int id = m->n_const++;
    say(m, "  f%d = Mul(%s, %s)\n  e%d = Relu(f%d)\n", id, k, two, id, id);
    say(m, "  %s = Add(%s, e%d)\n", made_like(m, x)->name, read_it(x)->name, id);
    return true;
}

/* A step with a larger weight is chosen more often. */
static const struct {
    bool (*take)(maker *m, value *x);
    int weight;
} step[] = {
    {convolution,       10},
    { deconvolution,    1 },
    { normalization,    3 },
    { unary,            8 },
    { clip,             2 },
    { two_values,       6 },
    { with_constant,    3 },
    { swish,            2 },
    { pool,             3 },
    { concatenation,    4 },
    { resize,           2 },
    { split,            2 },
    { reshape,          2 },
    { computed_reshape, 1 },
    { zeros_like,       1 },
    { transpose,        1 },
    { pad,              1 },
    { slice,            1 },
    { gather,           1 },
    { matrix_product,   5 },
    { attention,        1 },
    { mean,             1 },
    { squeeze,          1 },
    { largest,          1 },
    { choice,           1 },
    { layer_norm,       1 },
    { constant_branch,  1 },
};

static bool take_step(maker *m)
{
    int total = 0, at;
    for (size_t i = 0; i < sizeof step / sizeof step[0]; i++)
        total += step[i].weight;
    at = below(m, total);
    size_t i = 0;
    while (at >= step[i].weight)
        at -= step[i++].weight;
    return step[i].take(m, any(m));
}

static void inputs(maker *m)
{
    int n = chance(m, 4) ? 2 : 1;
    int dim[4] = { 1, 1 + below(m, 4), 2 + below(m, 7), 2 + below(m, 7) };
    for (int i = 0; i < n; i++) {
        bool flat = i == 1 && chance(m, 2);
        value *v = flat ? made(m, 2, (int[]){ 1 + below(m, 3), 1 + below(m, 9) })
                        : made(m, 4, dim);
        v->readers = 1; /* never an output */
        if (v->rank == 4)
            say(m, "  %s = input f32[%d,%d,%d,%d]\n", v->name, v->dim[0], v->dim[1],
                v->dim[2], v->dim[3]);
        else
            say(m, "  %s = input f32[%d,%d]\n", v->name, v->dim[0], v->dim[1]);
    }
}

void random_graph(uint64_t seed, char out[QG_RANDOM_GRAPH_TEXT])
{
    maker m = { .rng = { seed }, .text = out };
    say(&m, "graph \"random%" PRIu64 "\" {\n  opset 17\n", seed);
    inputs(&m);
    int n_input = m.n_value;
    for (int steps = 2 + below(&m, 13), tries = 0; steps > 0 && tries < 200; tries++)
        steps -= take_step(&m);
    for (int i = n_input; i < m.n_value; i++)
        if (!m.v[i].readers || chance(&m, 12))
            say(&m, "  output %s\n", m.v[i].name);
    say(&m, "}\n");
}
