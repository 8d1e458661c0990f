#include "tests/support/recurrent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HIDDEN = 16 };

bool is_recurrent(const char *name)
{
    return strcmp(name, "RNN") == 0 || strcmp(name, "GRU") == 0 ||
           strcmp(name, "LSTM") == 0;
}

static double at(const qg_tensor *t, int64_t i)
{
    return !t ? 0 : t->dtype == QG_F32 ? (double)t->f32[i] : t->f64[i];
}

static const qg_attr *attribute(const op_case *c, const char *name)
{
    for (size_t i = 0; i < c->n_attr; i++)
        if (strcmp(c->attr[i].name, name) == 0)
            return &c->attr[i];
    return NULL;
}

static double number(const op_case *c, const char *name)
{
    const qg_attr *a = attribute(c, name);
    return !a ? 0 : a->type == QG_ATTR_INT ? (double)a->ints[0] : (double)a->floats[0];
}

/* --- activations ----------------------------------------------------------------- */

static double squash(double x) { return 1 / (1 + exp(-x)); }

static double apply(const char *f, double x, double a, double b)
{
    return strcmp(f, "Relu") == 0              ? fmax(x, 0)
           : strcmp(f, "Tanh") == 0            ? tanh(x)
           : strcmp(f, "Sigmoid") == 0         ? squash(x)
           : strcmp(f, "Softsign") == 0        ? x / (1 + fabs(x))
           : strcmp(f, "Softplus") == 0        ? log1p(exp(x))
           : strcmp(f, "Affine") == 0          ? a * x + b
           : strcmp(f, "LeakyRelu") == 0       ? (x < 0 ? a * x : x)
           : strcmp(f, "ThresholdedRelu") == 0 ? (x > a ? x : 0)
           : strcmp(f, "ScaledTanh") == 0      ? a * tanh(b * x)
           : strcmp(f, "HardSigmoid") == 0     ? fmin(1, fmax(0, a * x + b))
           : strcmp(f, "Elu") == 0             ? (x < 0 ? a * (exp(x) - 1) : x)
                                               : NAN;
}

/* Where a function has alpha or beta in the lists, and its defaults. */
static bool has_parameter(const char *f, bool beta, double *preset)
{
    static const struct {
        const char *name;
        bool beta;
        float preset[2];
    } table[] = {
        {"LeakyRelu",        false, { 0.01f, 0 }  },
        { "ThresholdedRelu", false, { 1, 0 }      },
        { "Elu",             false, { 1, 0 }      },
        { "Affine",          true,  { 1, 0 }      },
        { "ScaledTanh",      true,  { 1, 1 }      },
        { "HardSigmoid",     true,  { 0.2f, 0.5f }}
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, f) == 0 && (!beta || table[i].beta)) {
            *preset = (double)table[i].preset[beta];
            return true;
        }
    return false;
}

static const char *name_of(const op_case *c, size_t k, size_t each)
{
    const qg_attr *names = attribute(c, "activations");
    return names                         ? names->strings[k]
           : strcmp(c->name, "RNN") == 0 ? "Tanh"
           : k % each == 0               ? "Sigmoid"
                                         : "Tanh";
}

/* Function k of the list, after the limit of the gates where `limited`. */
static double activation(const op_case *c, size_t k, size_t each, double x,
                         bool limited)
{
    const double clip = limited ? number(c, "clip") : 0;
    double parameter[2] = { 0, 0 };
    for (int which = 0; which < 2; which++) {
        const qg_attr *list =
            attribute(c, which ? "activation_beta" : "activation_alpha");
        size_t before = 0;
        double unused;
        for (size_t i = 0; i < k; i++)
            before += has_parameter(name_of(c, i, each), which, &unused);
        if (has_parameter(name_of(c, k, each), which, &parameter[which]) && list &&
            before < list->count)
            parameter[which] = (double)list->floats[before];
    }
    x = clip > 0 ? fmax(-clip, fmin(clip, x)) : x;
    return apply(name_of(c, k, each), x, parameter[0], parameter[1]);
}

/* --- one sequence in one direction ----------------------------------------------- */

typedef struct run {
    const op_case *c;
    const qg_tensor *const *in;
    int64_t gates, hidden, inputs, dir;
    size_t each; /* activations of a direction */
    double h[MOST_HIDDEN], state[MOST_HIDDEN];
} run;

static double f(const run *r, size_t k, double x)
{
    return activation(r->c, (size_t)r->dir * r->each + k, r->each, x, true);
}

/* What W gives gate g, element j, with its bias. */
static double of_input(const run *r, int64_t x, int64_t g, int64_t j)
{
    const int64_t row = (r->dir * r->gates + g) * r->hidden + j;
    double sum = at(r->in[3], r->dir * 2 * r->gates * r->hidden + g * r->hidden + j);
    for (int64_t i = 0; i < r->inputs; i++)
        sum += at(r->in[1], row * r->inputs + i) * at(r->in[0], x * r->inputs + i);
    return sum;
}

/* What R gives of v [hidden], with its bias. */
static double of_state(const run *r, const double *v, int64_t g, int64_t j)
{
    const int64_t row = (r->dir * r->gates + g) * r->hidden + j;
    double sum =
        at(r->in[3], (2 * r->dir + 1) * r->gates * r->hidden + g * r->hidden + j);
    for (int64_t i = 0; i < r->hidden; i++)
        sum += at(r->in[2], row * r->hidden + i) * v[i];
    return sum;
}

static double sum_of(const run *r, int64_t x, int64_t g, int64_t j)
{
    return of_input(r, x, g, j) + of_state(r, r->h, g, j);
}

static void gru(run *r, int64_t x)
{
    const bool linear = number(r->c, "linear_before_reset") != 0;
    double z[MOST_HIDDEN], reset[MOST_HIDDEN], product[MOST_HIDDEN], next[MOST_HIDDEN];
    for (int64_t j = 0; j < r->hidden; j++) {
        z[j] = f(r, 0, sum_of(r, x, 0, j));
        reset[j] = f(r, 0, sum_of(r, x, 1, j));
        product[j] = reset[j] * r->h[j];
    }
    for (int64_t j = 0; j < r->hidden; j++) {
        const double back =
            linear ? reset[j] * of_state(r, r->h, 2, j) : of_state(r, product, 2, j);
        next[j] = (1 - z[j]) * f(r, 1, of_input(r, x, 2, j) + back) + z[j] * r->h[j];
    }
    memcpy(r->h, next, sizeof next);
}

static void lstm(run *r, int64_t x)
{
    const int64_t n = r->hidden, p = r->dir * 3 * n;
    double next[MOST_HIDDEN], state[MOST_HIDDEN];
    for (int64_t j = 0; j < n; j++) {
        const double c = r->state[j];
        const double i = f(r, 0, sum_of(r, x, 0, j) + at(r->in[7], p + j) * c);
        const double forget =
            number(r->c, "input_forget") != 0
                ? 1 - i
                : f(r, 0, sum_of(r, x, 2, j) + at(r->in[7], p + 2 * n + j) * c);
        state[j] = forget * c + i * f(r, 1, sum_of(r, x, 3, j));
        const double o =
            f(r, 0, sum_of(r, x, 1, j) + at(r->in[7], p + n + j) * state[j]);
        next[j] = o * activation(r->c, (size_t)r->dir * r->each + 2, r->each, state[j],
                                 false);
    }
    memcpy(r->h, next, sizeof next);
    memcpy(r->state, state, sizeof state);
}

static void rnn(run *r, int64_t x)
{
    double next[MOST_HIDDEN];
    for (int64_t j = 0; j < r->hidden; j++)
        next[j] = f(r, 0, sum_of(r, x, 0, j));
    memcpy(r->h, next, sizeof next);
}

/* --- all ------------------------------------------------------------------------- */

/* Element [a][b][j] or, batch first, [b][a][j]. */
static int64_t place(bool first, int64_t a, int64_t b, const int64_t n[2], int64_t j,
                     int64_t hidden)
{
    return (first ? b * n[0] + a : a * n[1] + b) * hidden + j;
}

static double loss_of(run *r, const qg_tensor *const *g, int64_t dirs, int64_t b)
{
    const op_case *c = r->c;
    const qg_attr *direction = attribute(c, "direction");
    const bool first = number(c, "layout") != 0;
    const bool reverse =
        r->dir == 1 || (direction && strcmp(direction->strings[0], "reverse") == 0);
    const int64_t n = r->hidden, time = r->in[0]->dim[first],
                  batch = r->in[0]->dim[!first];
    const int64_t length = r->in[4] ? r->in[4]->i32[b] : time;
    const int64_t states[2] = { dirs, batch }, rows[2] = { time, batch };
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = place(first, r->dir, b, states, j, n);
        r->h[j] = at(r->in[5], r->in[5] ? i : 0);
        r->state[j] = at(r->in[6], r->in[6] ? i : 0);
    }
    for (int64_t s = 0; s < length; s++) {
        const int64_t t = reverse ? length - 1 - s : s;
        const int64_t x = place(first, t, b, rows, 0, 1);
        (r->gates == 1 ? rnn : r->gates == 3 ? gru : lstm)(r, x);
        for (int64_t j = 0; g[0] && j < n; j++)
            sum +=
                r->h[j] * at(g[0], first ? ((b * time + t) * dirs + r->dir) * n + j
                                         : ((t * dirs + r->dir) * batch + b) * n + j);
    }
    for (int64_t j = 0; j < n; j++) {
        const int64_t i = place(first, r->dir, b, states, j, n);
        sum += g[1] ? r->h[j] * at(g[1], i) : 0;
        sum += g[2] ? r->state[j] * at(g[2], i) : 0;
    }
    return sum;
}

double recurrent_loss(const op_case *c, const qg_tensor *const *g)
{
    const qg_tensor *in[8] = { 0 };
    memcpy(in, c->in, c->n_in * sizeof *in);
    const int64_t gates = strcmp(c->name, "RNN") == 0 ? 1
                          : strcmp(c->name, "GRU")    ? 4
                                                      : 3;
    const int64_t batch = in[0]->dim[number(c, "layout") == 0];
    double sum = 0;
    for (int64_t dir = 0; dir < in[1]->dim[0]; dir++)
        for (int64_t b = 0; b < batch; b++) {
            run r = { .c = c,
                      .in = in,
                      .gates = gates,
                      .hidden = in[2]->dim[2],
                      .inputs = in[0]->dim[2],
                      .dir = dir,
                      .each = gates == 1   ? 1
                              : gates == 3 ? 2
                                           : 3 };
            if (r.hidden > MOST_HIDDEN)
                return NAN;
            sum += loss_of(&r, g, in[1]->dim[0], b);
        }
    return sum;
}
