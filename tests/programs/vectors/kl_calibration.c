/* kl_calibration.json and kl_divergences_full.json: every calibrator on three stored
 * histograms, and on the array of docs/evidence/observers.md#test-data.
 * Tolerances of the README: integers exact, float64 divergences 1e-9, float32 1e-5;
 * ncnn 1e-6. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/calib/kl.h"
#include "engine/calib/mse.h"
#include "engine/calib/ort.h"
#include "tests/programs/vectors/vectors.h"

static const vec_tolerance f64 = { 1e-9, 0 }, f32 = { 1e-5, 0 }, ncnn = { 1e-6, 0 };

/* Histogram "h1" of kl_calibration.json over [0, 4]. */
static qg_histogram histogram(vec_run *v, const json *root, const char *name)
{
    const json *counts = js_get(js_get(root, "histograms"), name);
    qg_histogram h;
    if (qg_histogram_new(v->ctx, v->arena, js_count(counts), 4, &h) != QG_OK)
        vec_malformed("%s", qg_ctx_message(v->ctx));
    for (size_t j = 0; j < h.bins; j++)
        h.count[j] = js_int(js_at(counts, j));
    return h;
}

/* got[KEY - first] over stride against every member of an object of divergences. */
static void picked(vec_run *v, const json *want, const double *got, size_t first,
                   vec_tolerance t)
{
    JS_EACH(d, want)
    {
        size_t i = (size_t)strtoul(js_key(d), NULL, 10);
        vec_close(v, js_key(d), got[i - first], js_number(d), t);
    }
}

static double *widened(vec_run *v, const float *x, size_t n)
{
    double *y = VEC_NEW(v, n, double);
    for (size_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

/* -- entropy: "h1/seed_corrected" -------------------------------------------------- */

/* The histogram's name in front of the slash; what follows it. */
static const char *split(const char *key, char name[8])
{
    const char *slash = strchr(key, '/');
    if (!slash || slash - key > 7)
        vec_malformed("'%s', expected histogram/variant", key);
    memcpy(name, key, (size_t)(slash - key));
    name[slash - key] = '\0';
    return slash + 1;
}

static qg_kl variant(const char *name, int64_t levels, int64_t start)
{
    qg_kl k = { QG_KL_NVIDIA, (size_t)levels, (size_t)start, 1 };
    if (strcmp(name, "seed_as_published") == 0)
        k.variant = QG_KL_SEED_PUBLISHED;
    else if (strcmp(name, "seed_corrected") == 0)
        k.variant = QG_KL_SEED;
    else if (strncmp(name, "pytorch_quantization", 20) != 0)
        vec_malformed("unknown variant '%s'", name);
    return k;
}

/* Divergences of the definition; the fast search must agree with it. */
static double *search(vec_run *v, const qg_kl *k, const qg_histogram *h,
                      qg_range_choice *best)
{
    size_t n = qg_kl_candidates(k, h->bins);
    double *plain = VEC_NEW(v, n, double), *fast = VEC_NEW(v, n, double);
    qg_range_choice again;
    if (!vec_ok(v, "plain", qg_kl_search_plain(v->ctx, v->arena, k, h, plain, best)) ||
        !vec_ok(v, "fast", qg_kl_search(v->ctx, v->arena, k, h, fast, &again)))
        return NULL;
    vec_same_i64(v, "fast choice", (int64_t)again.index, (int64_t)best->index);
    vec_close(v, "fast minimum", again.loss, best->loss, (vec_tolerance){ 0, 0 });
    for (size_t i = 0; i < n; i++)
        vec_close(v, "fast", fast[i], plain[i], (vec_tolerance){ 1e-12, 1 });
    return plain;
}

static void entropy_ncnn(vec_run *v, const json *c, const qg_histogram *h,
                         size_t levels)
{
    qg_range_choice best;
    float *d = VEC_NEW(v, h->bins, float);
    if (!vec_ok(v, "ncnn", qg_kl_ncnn(v->ctx, v->arena, h, levels, d, &best)))
        return;
    vec_same_i64(v, "t", (int64_t)best.index, js_i64(c, "target_threshold"));
    vec_close(v, "min_kl", best.loss, js_num(c, "min_kl"), ncnn);
    vec_close(v, "threshold", best.high, js_num(c, "threshold"), ncnn);
    vec_close(v, "scale", 127 / best.high, js_num(c, "scale_127_over_threshold"), ncnn);
    picked(v, js_get(c, "picked"), widened(v, d, h->bins - levels), levels, ncnn);
}

static void entropy(vec_run *v, const json *root, const json *c)
{
    char name[8], same[32];
    const char *what = split(js_key(c), name);
    qg_histogram h = histogram(v, root, name);
    vec_case(v, "%s", js_key(c));
    if (strcmp(what, "ncnn") == 0) {
        snprintf(same, sizeof same, "%s/seed_corrected", name);
        entropy_ncnn(
            v, c, &h,
            (size_t)js_i64(js_get(js_get(root, "entropy"), same), "nbins_quant"));
        return;
    }
    qg_kl k = variant(what, js_i64(c, "nbins_quant"), js_i64(c, "start_bin"));
    qg_range_choice best;
    const double *d = search(v, &k, &h, &best);
    if (!d)
        return;
    int64_t infinite = 0;
    for (size_t i = 0; i < qg_kl_candidates(&k, h.bins); i++)
        infinite += isinf(d[i]) != 0;
    vec_same_i64(v, "candidate_i", (int64_t)best.index, js_i64(c, "candidate_i"));
    vec_same_i64(v, "last_argmin", (int64_t)(best.index - k.start),
                 js_i64(c, "last_argmin"));
    vec_same_i64(v, "n_inf", infinite, js_i64(c, "n_inf"));
    vec_close(v, "calib_amax", best.high, js_num(c, "calib_amax"), f64);
    /* The file divides by the signed codes for the unsigned variant too. */
    size_t codes = strstr(what, "unsigned") ? k.levels / 2 : k.levels;
    vec_close(v, "scale", best.high / (double)(codes - 1), js_num(c, "scale"), f64);
    vec_close(v, "min_divergence", best.loss, js_num(c, "min_divergence"), f64);
    picked(v, js_get(c, "picked"), d, k.start, f64);
}

/* -- the others ------------------------------------------------------------------- */

static qg_histogram mirrored(vec_run *v, const qg_histogram *half)
{
    qg_histogram h = { 2 * half->bins, VEC_NEW(v, 2 * half->bins, int64_t),
                       VEC_NEW(v, 2 * half->bins + 1, double) };
    for (size_t j = 0; j < half->bins; j++)
        h.count[half->bins + j] = h.count[half->bins - 1 - j] = half->count[j];
    for (size_t j = 0; j <= half->bins; j++) {
        h.edge[half->bins + j] = half->edge[j];
        h.edge[half->bins - j] = -half->edge[j];
    }
    return h;
}

static void ort_entropy(vec_run *v, const json *c, const qg_histogram *h, size_t levels)
{
    qg_range_choice best;
    float *d = VEC_NEW(v, h->bins, float);
    if (!vec_ok(v, "ort", qg_ort_entropy(v->ctx, v->arena, h, levels, d, &best)))
        return;
    vec_same_i64(v, "argmin", (int64_t)best.index, js_i64(c, "argmin"));
    vec_same_floats(v, "low", &(float){ (float)best.low },
                    &(float){ (float)js_num(c, "low") }, 1);
    vec_same_floats(v, "high", &(float){ (float)best.high },
                    &(float){ (float)js_num(c, "high") }, 1);
    vec_close(v, "min_kl", best.loss, js_num(c, "min_kl"), f32);
    picked(v, js_get(c, "picked"), widened(v, d, h->bins / 2 + 1), 0, f32);
}

static void ort_mirrored(vec_run *v, const json *root, const json *c)
{
    char name[8] = "";
    size_t levels;
    if (sscanf(js_key(c), "ort_mirrored_%7[^_]_q%zu", name, &levels) != 2)
        vec_malformed("'%s', expected ort_mirrored_NAME_qN", js_key(c));
    qg_histogram half = histogram(v, root, name), h = mirrored(v, &half);
    vec_same_i64(v, "bins", (int64_t)h.bins, js_i64(c, "bins"));
    ort_entropy(v, c, &h, levels);
}

/* Mersenne Twister 19937 and numpy's legacy normal numbers from it. */
struct twister {
    uint32_t s[624];
    size_t at;
};

static uint32_t twister_next(struct twister *t)
{
    if (t->at == 624) {
        for (size_t i = 0; i < 624; i++) {
            uint32_t y = (t->s[i] & 0x80000000u) | (t->s[(i + 1) % 624] & 0x7fffffffu);
            t->s[i] = t->s[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->s[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static double twister_unit(struct twister *t)
{
    uint32_t a = twister_next(t) >> 5, b = twister_next(t) >> 6;
    return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

static double *normal_data(vec_run *v, const json *recipe, size_t *n)
{
    struct twister t = { .s = { 1 }, .at = 624 };
    *n = (size_t)js_i64(recipe, "n");
    double *x = VEC_NEW(v, *n + 1, double), clip = js_num(recipe, "clip");
    for (uint32_t i = 1; i < 624; i++)
        t.s[i] = 1812433253u * (t.s[i - 1] ^ (t.s[i - 1] >> 30)) + i;
    for (size_t i = 0; i < *n; i += 2) {
        double x1, x2, r2;
        do {
            x1 = 2 * twister_unit(&t) - 1;
            x2 = 2 * twister_unit(&t) - 1;
            r2 = x1 * x1 + x2 * x2;
        } while (r2 >= 1 || r2 == 0);
        double f = sqrt(-2 * log(r2) / r2);
        x[i] = fmin(fmax(f * x2, -clip), clip);
        x[i + 1] = fmin(fmax(f * x1, -clip), clip);
    }
    return x;
}

static void recipe(vec_run *v, const json *root)
{
    const json *c = js_get(root, "data_recipe_h1"), *first = js_get(c, "first5");
    size_t n;
    double sum = 0, min = INFINITY, max = 0;
    const double *x = normal_data(v, c, &n);
    vec_case(v, "data_recipe_h1");
    for (size_t i = 0; i < n; i++) {
        sum += fabs(x[i]);
        min = fmin(min, fabs(x[i]));
        max = fmax(max, fabs(x[i]));
    }
    for (size_t i = 0; i < js_count(first); i++)
        vec_close(v, "first5", fabs(x[i]), js_number(js_at(first, i)), f64);
    vec_close(v, "sum", sum, js_num(c, "sum"), f64);
    vec_close(v, "min", min, js_num(c, "min"), f64);
    vec_close(v, "max", max, js_num(c, "max"), f64);
}

static void same_counts(vec_run *v, const json *c, const char *key,
                        const qg_histogram *h, size_t first)
{
    const json *want = js_find(c, key);
    for (size_t j = 0; want && j < js_count(want); j++)
        vec_same_i64(v, key, h->count[first + j], js_int(js_at(want, j)));
}

/* The recipe's data with its signs through ONNX Runtime's collector. */
static void ort_signed(vec_run *v, const json *root, const json *c, qg_edge_type type)
{
    size_t n, bins, levels;
    const char *key = js_key(type == QG_EDGE_F32 ? c : c->parent);
    if (sscanf(key, "ort_signed_f32_bins%zu_q%zu", &bins, &levels) != 2)
        vec_malformed("'%s', expected ort_signed_f32_binsN_qN", key);
    const double *x = normal_data(v, js_get(root, "data_recipe_h1"), &n);
    float *narrow = VEC_NEW(v, n, float);
    for (size_t i = 0; i < n; i++)
        narrow[i] = (float)x[i];
    qg_histogram_growth g = { .type = type, .bins = bins };
    if (!vec_ok(v, "collect", qg_histogram_add_signed(v->ctx, v->arena, &g, narrow, n)))
        return;
    same_counts(v, c, "hist_head", &g.h, 0);
    same_counts(v, c, "hist_mid", &g.h, bins / 2 - 4);
    vec_same_i64(v, "hist_sum", qg_histogram_total(&g.h),
                 js_i64_or(c, "hist_sum", (int64_t)n));
    ort_entropy(v, c, &g.h, levels);
    if (js_find(c, "numpy_1_24")) {
        vec_case(v, "%s/numpy_1_24", key);
        ort_signed(v, root, js_get(c, "numpy_1_24"), QG_EDGE_ROUNDED);
    }
}

static void ppq_kl(vec_run *v, const json *root, const json *c)
{
    const char *name = js_key(c) + strlen("ppq_kl_");
    size_t n;
    qg_histogram h;
    if (strcmp(name, "4096bins_default") == 0) {
        const double *x = normal_data(v, js_get(root, "data_recipe_h1"), &n);
        if (qg_histogram_new(v->ctx, v->arena, 4096, 4, &h) != QG_OK)
            vec_malformed("%s", qg_ctx_message(v->ctx));
        for (size_t i = 0; i < n; i++)
            h.count[(size_t)fminf(fabsf((float)x[i]) * 1024, 4095)]++;
    } else {
        h = histogram(v, root, name);
    }
    size_t levels = (size_t)js_i64_or(c, "quant_bins", 128);
    double *d = VEC_NEW(v, h.bins / levels, double);
    qg_range_choice best;
    if (!vec_ok(v, "ppq", qg_kl_ppq(v->ctx, v->arena, &h, levels, d, &best)))
        return;
    vec_same_i64(v, "best_bin_range", (int64_t)best.index, js_i64(c, "best_bin_range"));
    vec_close(v, "scale", best.high / (double)levels, js_num(c, "scale"), f64);
    if (js_find(c, "threshold"))
        vec_close(v, "threshold", best.high, js_num(c, "threshold"), f64);
    const json *want = js_get(c, "divergences_log10");
    for (size_t k = 0; k < js_count(want); k++)
        vec_close(v, want->item[k].key, d[k], js_number(&want->item[k]), f32);
}

static void ppq_mse(vec_run *v, const json *root, const json *c)
{
    char name[8];
    size_t levels;
    if (sscanf(js_key(c), "ppq_mse_sym_%7[^_]_levels%zu", name, &levels) != 2)
        vec_malformed("'%s', expected ppq_mse_sym_NAME_levelsN", js_key(c));
    qg_histogram h = histogram(v, root, name);
    qg_range_choice best;
    if (!vec_ok(v, "ppq", qg_mse_ppq(v->ctx, &h, levels, true, &best)))
        return;
    vec_same_i64(v, "best_end", (int64_t)best.index, js_i64(c, "best_end"));
    vec_close(v, "scale", 2 * best.high / (double)(levels - 1), js_num(c, "scale"),
              f64);
    JS_EACH(g, js_get(c, "candidates"))
    {
        size_t end = (size_t)js_i64(g, "end");
        vec_close(v, "mse", qg_mse_ppq_loss(&h, (qg_mse_grid){ 0, end / levels, end }),
                  js_num(g, "mse"), f64);
    }
}

static void nvidia_mse(vec_run *v, const json *root, const json *c)
{
    const char *name = js_key(c) + strlen("pytorch_quant_mse_");
    qg_histogram h = histogram(v, root, name);
    /* The small histogram is for 16 levels of |x|: codes up to 15. */
    qg_mse m = { h.bins == 256 ? 5 : 8, false, h.bins == 256 ? 16 : 128 };
    double *loss = VEC_NEW(v, h.bins, double);
    qg_range_choice best;
    if (!vec_ok(v, "mse", qg_mse_nvidia(v->ctx, v->arena, &m, &h, loss, &best)))
        return;
    vec_same_i64(v, "best_bin", (int64_t)best.index, js_i64(c, "best_bin"));
    vec_close(v, "amax", best.high, js_num(c, "amax"), f64);
    vec_close(v, "min_mse", best.loss, js_num(c, "min_mse"), f32);
    picked(v, js_get(c, "picked"), loss, m.start, f32);
}

static void nvidia_percentile(vec_run *v, const json *root, const json *c)
{
    qg_histogram h =
        histogram(v, root, js_key(c) + strlen("pytorch_quant_percentile_"));
    JS_EACH(p, c)
    {
        size_t i = qg_histogram_quantile(&h, strtod(js_key(p), NULL) / 100);
        vec_same_i64(v, "idx", (int64_t)i, js_i64(p, "idx"));
        vec_close(v, "amax", h.edge[i], js_num(p, "amax"), f64);
    }
}

static void ort_signed_f32(vec_run *v, const json *root, const json *c)
{
    ort_signed(v, root, c, QG_EDGE_F32);
}

static void other(vec_run *v, const json *root, const json *c)
{
    static const struct {
        const char *prefix;
        void (*run)(vec_run *v, const json *root, const json *c);
    } sections[] = {
        {"ort_signed_f32_",            ort_signed_f32   },
        { "ort_mirrored_",             ort_mirrored     },
        { "ppq_kl_",                   ppq_kl           },
        { "ppq_mse_sym_",              ppq_mse          },
        { "pytorch_quant_mse_",        nvidia_mse       },
        { "pytorch_quant_percentile_", nvidia_percentile},
    };
    vec_case(v, "%s", js_key(c));
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strncmp(js_key(c), sections[i].prefix, strlen(sections[i].prefix)) == 0) {
            sections[i].run(v, root, c);
            return;
        }
    vec_drop(v);
    vec_skip(v, "%s", js_key(c));
}

/* -- growing ---------------------------------------------------------------------- */

typedef qg_status grow(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g, const float *x,
                       size_t n);

static void growth(vec_run *v, const json *c, const json *steps, grow *add,
                   qg_edge_type type)
{
    qg_histogram_growth g = { .type = type, .bins = (size_t)js_i64(c, "num_bins") };
    for (size_t b = 0; b < js_count(steps); b++) {
        const json *step = js_at(steps, b), *edges = js_get(step, "edges");
        size_t n;
        const float *x = js_floats(v, js_at(js_get(c, "batches"), b), &n);
        if (!vec_ok(v, "batch", add(v->ctx, v->arena, &g, x, n)))
            return;
        vec_same_i64(v, "bins", (int64_t)g.h.bins, (int64_t)js_count(edges) - 1);
        if (g.h.bins + 1 != js_count(edges))
            return;
        same_counts(v, step, "hist", &g.h, 0);
        for (size_t j = 0; j <= g.h.bins; j++)
            vec_close(v, "edge", g.h.edge[j], js_number(js_at(edges, j)), f64);
        if (js_find(step, "threshold"))
            vec_close(v, "threshold", g.threshold, js_num(step, "threshold"), f64);
    }
}

void vec_kl_calibration(vec_run *v, const json *root)
{
    recipe(v, root);
    JS_EACH(c, js_get(root, "entropy"))
    entropy(v, root, c);
    JS_EACH(c, js_get(root, "other_calibrators"))
    other(v, root, c);
    const json *c = js_get(root, "incremental_pytorch_quantization");
    vec_case(v, "incremental pytorch-quantization float64");
    growth(v, c, js_get(c, "float64"), qg_histogram_add_absolute, QG_EDGE_F64);
    vec_case(v, "incremental pytorch-quantization float32");
    growth(v, c, js_get(c, "float32"), qg_histogram_add_absolute, QG_EDGE_F32);
    c = js_get(root, "incremental_onnxruntime");
    vec_case(v, "incremental onnxruntime");
    growth(v, c, js_get(c, "steps"), qg_histogram_add_signed, QG_EDGE_F32);
}

/* -- kl_divergences_full.json: histograms are in the file beside it ---------------- */

static const json *beside(vec_run *v, const char *file)
{
    const json *root;
    const char *slash = strrchr(v->path, '/');
    char *directory =
        slash ? qg_arena_strndup(v->arena, v->path, (size_t)(slash - v->path))
              : qg_arena_strdup(v->arena, ".");
    const char *path = directory ? qg_path_join(v->arena, directory, file) : NULL;
    if (!path || qg_json_read(v->ctx, v->arena, path, (size_t)1 << 30, &root) != QG_OK)
        vec_malformed("%s", qg_ctx_message(v->ctx));
    return root;
}

void vec_kl_divergences_full(vec_run *v, const json *root)
{
    const json *small = beside(v, "kl_calibration.json");
    JS_EACH(c, js_get(root, "arrays"))
    {
        char name[8];
        size_t n;
        const char *what = split(js_key(c), name);
        const double *want = js_doubles(v, c, &n);
        qg_histogram h = histogram(v, small, name);
        qg_range_choice best;
        vec_case(v, "%s", js_key(c));
        if (strcmp(what, "ncnn_float32") == 0) {
            float *d = VEC_NEW(v, h.bins, float);
            size_t levels = h.bins - n;
            if (vec_ok(v, "ncnn", qg_kl_ncnn(v->ctx, v->arena, &h, levels, d, &best)))
                vec_close_all(v, "divergence", widened(v, d, n), want, n, ncnn);
            continue;
        }
        const json *e = js_get(js_get(small, "entropy"), js_key(c));
        qg_kl k = variant(what, js_i64(e, "nbins_quant"), js_i64(e, "start_bin"));
        const double *d = search(v, &k, &h, &best);
        vec_same_i64(v, "candidates", (int64_t)qg_kl_candidates(&k, h.bins),
                     (int64_t)n);
        if (d && qg_kl_candidates(&k, h.bins) == n)
            vec_close_all(v, "divergence", d, want, n, f64);
    }
}
