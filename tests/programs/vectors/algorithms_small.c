/* algorithms_small.json: the parts about learned grids and ACIQ; tolerance 1e-6. */
#include <stdlib.h>
#include <string.h>

#include "engine/calib/aciq.h"
#include "engine/quant/gradient.h"
#include "tests/programs/vectors/vectors.h"

#define TOLERANCE 1e-6

/* Compares y and two derivatives over the x that the first of these sections stores. */
static void curve(vec_run *v, const json *section, const json *inputs,
                  const qg_learned_grid *g, const char *slope)
{
    size_t n;
    const double *x = js_doubles(v, js_get(inputs, "x"), &n);
    double *got[3];
    for (int k = 0; k < 3; k++)
        got[k] = VEC_NEW(v, n, double);
    if (!vec_ok(v, "grid", qg_learned_check(v->ctx, "vectors", g)))
        return;
    for (size_t i = 0; i < n; i++) {
        qg_learned_one e = qg_learned_at(g, x[i]);
        got[0][i] = e.y;
        got[1][i] = e.dparameter;
        got[2][i] = e.dx;
    }
    const char *const keys[] = { "out", slope, "dout_dx" };
    for (int k = 0; k < 3; k++)
        vec_close_all(v, keys[k], got[k], js_doubles(v, js_get(section, keys[k]), NULL),
                      n, (vec_tolerance){ TOLERANCE, 1e-3 });
}

static void lsq(vec_run *v, const json *c, const json *root)
{
    (void)root;
    qg_learned_grid g = { QG_LEARNED_LSQ, js_num(c, "qmin"), js_num(c, "qmax"),
                          js_num(c, "s"), 0 };
    size_t n;
    const float *x = js_floats(v, js_get(c, "x"), &n);
    vec_case(v, "lsq");
    curve(v, c, c, &g, "dout_ds_per_elem");
    double factor = qg_lsq_factor(n, g.qmax), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += qg_learned_at(&g, js_number(js_at(js_get(c, "x"), i))).dparameter;
    vec_close(v, "grad_scale", factor, js_num(c, "grad_scale"),
              (vec_tolerance){ TOLERANCE, 0 });
    vec_close(v, "grad_s_sum_scaled", sum * factor, js_num(c, "grad_s_sum_scaled"),
              (vec_tolerance){ TOLERANCE, 0 });
    vec_close(v, "init", qg_lsq_start(x, n, g.qmax),
              js_num(c, "init_2mean_abs_over_sqrt_qp"),
              (vec_tolerance){ TOLERANCE, 0 });
}

static void tqt(vec_run *v, const json *c, const json *root)
{
    double half = (double)(1 << (js_i64(c, "bits") - 1));
    qg_learned_grid g = { QG_LEARNED_TQT, -half, half - 1, js_num(c, "log2_t"), 0 };
    vec_case(v, "tqt");
    vec_close(v, "scale", qg_learned_step(&g), js_num(c, "scale"),
              (vec_tolerance){ TOLERANCE, 0 });
    curve(v, c, js_find(c, "x") ? c : js_get(root, "lsq"), &g, "dout_dlog2t");
}

static void pact(vec_run *v, const json *c, const json *root)
{
    double top = (double)((1 << js_i64(c, "bits")) - 1);
    qg_learned_grid g = { QG_LEARNED_PACT, 0, top, js_num(c, "alpha"), 0 };
    vec_case(v, "pact");
    curve(v, c, js_find(c, "x") ? c : js_get(root, "lsq"), &g, "dout_dalpha");
}

static void aciq(vec_run *v, const json *c, const json *root)
{
    static const char *const shapes[] = {
        [QG_ACIQ_LAPLACE] = "laplace", [QG_ACIQ_GAUSS] = "gaussian"
    };
    (void)root;
    for (int shape = 0; shape < 2; shape++) {
        vec_case(v, "aciq %s", shapes[shape]);
        JS_EACH(alpha, js_get(c, shapes[shape]))
        vec_close(v, js_key(alpha),
                  qg_aciq_alpha((qg_aciq_shape)shape, atoi(js_key(alpha))),
                  js_number(alpha), (vec_tolerance){ TOLERANCE, 0 });
    }
}

static void ncnn_aciq(vec_run *v, const json *cases, const json *root)
{
    (void)root;
    JS_EACH(c, cases)
    {
        float threshold = 0;
        int bits = (int)js_i64(c, "bits");
        vec_case(v, "ncnn_aciq %g %d bits", js_num(c, "absmax"), bits);
        if (!vec_ok(v, "ncnn",
                    qg_aciq_ncnn(v->ctx, js_f32(c, "absmax"), (uint64_t)js_i64(c, "N"),
                                 bits, false, &threshold)))
            continue;
        vec_same_floats(v, "threshold", &threshold, &(float){ js_f32(c, "threshold") },
                        1);
        float top = (float)((1 << (bits - 1)) - 1);
        vec_same_floats(v, "scale", &(float){ top / threshold },
                        &(float){ js_f32(c, "scale") }, 1);
    }
}

void vec_algorithms_small(vec_run *v, const json *root)
{
    static const struct {
        const char *name;
        void (*run)(vec_run *v, const json *section, const json *root);
    } sections[] = {
        {"lsq",        lsq      },
        { "aciq",      aciq     },
        { "ncnn_aciq", ncnn_aciq},
        { "tqt",       tqt      },
        { "pact",      pact     }
    };
    const size_t count = sizeof sections / sizeof sections[0];
    JS_EACH(section, root)
    {
        size_t k = 0;
        while (k < count && strcmp(sections[k].name, js_key(section)) != 0)
            k++;
        if (k < count)
            sections[k].run(v, section, root);
        else
            vec_skip(v, "%s", js_key(section));
    }
}
