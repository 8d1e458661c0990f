/* Pages that need no model: the topics of qg_list, shipped targets and profiles, and
 * backend files put together from pieces, well formed or not: as in
 * tests/data/recorded/pages.txt. */
#include <stdlib.h>
#include <string.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "tests/support/recorded.h"

enum { BACKENDS = 600 };

static const char *const topics[] = { "ops",      "traits",    "passes",     "backends",
                                      "profiles", "observers", "quirks",     "formats",
                                      "layers",   "targets",   "predicates", "metrics",
                                      "dtypes",   "roundings", "policies",   "states",
                                      "topics",   "observer",  NULL };
static const char *const targets[] = { "cmsis-nn", "ncnn", "openvino", "ort",   "qnn",
                                       "tflite",   "trt",  "xnnpack",  "tfilte" };
static const char *const profiles[] = { "cmsis-nn",
                                        "ncnn-x86",
                                        "onnx-reference",
                                        "onnxruntime-arm",
                                        "openvino-vnni",
                                        "power-of-two",
                                        "tensorrt",
                                        "tflite-builtin-arm",
                                        "tflite-micro",
                                        "tflite-micro-single",
                                        "tflite-reference-1.2",
                                        "tflite-xnnpack",
                                        "xnnpack-x86",
                                        "onnxruntime" };

/* --- backend files --- */

static const char *const parents[] = { "", "", "", "extends: int8-base\n",
                                       "extends: mine.yaml\n",
                                       /* faulty */
                                       "extends: absent\n" };
static const char *const heads[] = {
    "profile: tensorrt\n", "dispatch: perseus\n", "dispatch: all-in\n",
    "passes: {equalize: {iterations: 3}, align: no}\n", "quirks: [ppq-observers]\n",
    "title: it's \"quoted\" # here\n",
    /* faulty */
    "dispatch: best\n", "passes: {fold: yes}\n", "quirks: [none]\n", "profile: ''\n",
    "name: twice\n"
};
static const char *const defaults[] = {
    "{bits: 8, range: [-128, 127], rounding: half-even, policy: [per-tensor, linear, "
    "symmetric], observer: minmax}",
    "{bits: 8, range: [0, 255], rounding: half-up, policy: [per-tensor, linear, "
    "asymmetric], observer: percentile}",
    "{bits: 16, range: [-32768, 32767], policy: [per-tensor, linear, symmetric, "
    "power-of-2], observer: kl}",
    "{bits: 4, range: [-8, 7], policy: [per-channel, linear, symmetric]}",
    /* faulty */
    "{bits: 8, exponent-bits: 4, policy: [per-tensor, floating, symmetric], observer: "
    "floating, variant: [fnuz]}",
    "{bits: 33}", "{range: [5, 3]}", "{policy: [per-tensor, per-channel]}"
};
static const char *const words[] = {
    "quantizes: [Conv, Gemm, Add, Relu]",
    "quantizes: [Gemm]\npassive: [Reshape, MaxPool]", "quantizes: [Relu]",
    "quantizes: []", "quantizes: [Conv]\npassive: [MaxPool]",
    "quantizes: [Add, Mul, Conv]",
    /* faulty */
    "quantizes: [Conv, Konv]", "quantizes: [Conv]\npassive: [Tile]",
    "-quantizes: [Add]", "-passive: [Reshape]", "passive: Reshape",
    "-fusions: [compute-activation]", "-rules: [bias]", "-sharing: [none]"
};
static const char *const matches[] = {
    "{op: Conv, slot: in0}", "{op: [Conv, Gemm], slot: weight, constant: yes}",
    "{trait: compute, slot: output}", "{node: 'conv*', graph-input: yes, slot: input}",
    "{op: Relu, from: Conv, to: Concat}",
    "{attr: {group: 1, auto_pad: NOTSET}, op: Conv}", "{attr: {axis: [0, 1]}}",
    "{value: 'x*', dims: [1, 3, 8, 8]}", "{slot: bias, constant: no, graph-output: no}",
    /* faulty */
    "{op: Conv, slot: in9}", "{trait: computes}", "{}"
};
static const char *const sets[] = {
    "{bits: 16, range: [-32768, 32767]}", "{state: fp32}",
    "{state: passive-init, derive: bias, bits: 32, range: [-2147483648, 2147483647]}",
    "{policy: [per-channel, linear, symmetric], axis: out-channel}",
    "{observer: fixed, step: 0.00390625, zero: 1}",
    "{rounding: half-away-from-zero, nan: zero}", "{platform: fp32}",
    "{bits: 4, block: 16, policy: [block, linear, asymmetric], axis: 0}",
    /* faulty */
    "{observer: percentile, percentile: 99.9}",
    "{visibility: internal, quantizer: mine}", "{min-scale: -1}", "{observer: minmaxx}"
};
static const char *const fusions[] = {
    "    pattern: {c: {trait: compute}, a: {op: [Relu, Clip], in: [c]}}\n"
    "    where: {c.out0: {consumers: 1, graph-output: no}, same-platform: [c, a]}\n"
    "    silence: {c.out0: a.out0, a.in0: a.out0}\n",
    "    pattern: {a: {op: Sigmoid}, m: {op: Mul, in: [a]}}\n"
    "    silence: {a.out0: m.out0, m.in1: m.out0}\n",
    "    pattern: {s: {op: Softmax}}\n    float: [s]\n    silence: fp32\n",
    /* faulty */
    "    pattern: {c: {op: Conv}, b: {op: Add, in: [c], commutative: yes}}\n"
    "    float: [c]\n    silence: b.out0\n",
    "    pattern: {c: {op: Conv, attr: {group: 1}}, a: {op: Relu, in: [c]}}\n"
    "    where: {c.out0: {consumers: 2}}\n    silence: {c.out0: a.out1}\n",
    "    pattern: {c: {op: Conv, in: [d]}}\n    silence: {c.out0: d.out0}\n"
};
static const char *const sharings[] = {
    "    match: {op: [Concat, Max]}\n    align: output\n    spread: upstream\n",
    "    match: {op: Add}\n    align: large\n    override: no\n",
    "    match: {op: Resize}\n    align: input\n    spread: none\n",
    /* faulty */
    "    match: {trait: sum}\n    align: exact\n    override: yes\n"
};
static const char *const reasons[] = {
    "    why: the device does\n    source: manual, page 4\n",
    "    why: 'a: \"b\" | c'\n    source: https://example.org/a_b*c\n",
    "    why: one\n      two lines\n    source: x\n",
    /* faulty */
    "    source: no reason\n", ""
};

/* One of the n entries, mostly of those before the faulty ones. */
static const char *drawn(const char *const *table, size_t fine, size_t n, qg_rng *rng)
{
    const bool any = qg_rng_below(rng, 16) == 0;
    return table[qg_rng_below(rng, any ? n : fine)];
}
#define DRAW(table, fine, rng) drawn((table), (fine), COUNT(table), (rng))

static void write_items(FILE *f, const char *key, unsigned n, qg_rng *rng)
{
    if (n > 0)
        (void)fprintf(f, "%s:\n", key);
    for (unsigned i = 0; i < n; i++) {
        (void)fprintf(f, "  - id: %s-%u\n", key, qg_rng_below(rng, 12) ? i : 0);
        if (strcmp(key, "rules") == 0) {
            const char *match = DRAW(matches, 9, rng), *set = DRAW(sets, 8, rng);
            (void)fprintf(f, "    match: %s\n    set: %s\n", match, set);
        } else if (strcmp(key, "fusions") == 0)
            (void)fputs(DRAW(fusions, 3, rng), f);
        else
            (void)fputs(DRAW(sharings, 3, rng), f);
        (void)fputs(DRAW(reasons, 3, rng), f);
    }
}

static void write_backend(const char *path, unsigned k)
{
    qg_rng rng = { 7000 + k };
    FILE *f = fopen(path, "w");
    if (!f)
        abort();
    (void)fprintf(f, "name: k\npipeline: default\n%s", DRAW(parents, 5, &rng));
    if (k % 3 == 0)
        (void)fputs(DRAW(heads, 7, &rng), f);
    (void)fprintf(f, "defaults: %s\n", DRAW(defaults, 4, &rng));
    (void)fprintf(f, "%s\n", DRAW(words, 6, &rng));
    write_items(f, "rules", qg_rng_below(&rng, 4), &rng);
    write_items(f, "fusions", qg_rng_below(&rng, 3), &rng);
    write_items(f, "sharing", qg_rng_below(&rng, 2), &rng);
    if (k % 7 == 0)
        (void)fprintf(f, "with-quirk:\n  ppq-observers: {defaults: %s}\n",
                      DRAW(defaults, 4, &rng));
    if (fclose(f) != 0)
        abort();
}

/* --- cases --- */

typedef qg_status asker(qg_ctx *ctx, const char *name, qg_report **report);

typedef struct asked {
    asker *page;
    const char *name;
} asked;

static void ask(recorded *r, void *ud)
{
    const asked *a = ud;
    qg_ctx *ctx = recorded_context(r);
    qg_report *report = NULL;
    qg_status s = a->page(ctx, a->name, &report);
    recorded_status(r, ctx, a->name ? a->name : "-", s);
    if (s == QG_OK)
        recorded_report(r, report);
    qg_close(ctx);
}

static void try_page(recorded *r, const char *what, asker *page, const char *name)
{
    asked a = { page, name };
    if (recorded_case(r, "%s %s", what, name ? name : "-"))
        recorded_try(r, ask, &a);
}

static void write_mine(void)
{
    FILE *f = fopen("mine.yaml", "w");
    if (!f)
        abort();
    (void)fprintf(f,
                  "name: mine\ndefaults: %s\nquantizes: [Conv]\nrules:\n"
                  "  - id: rules-0\n    match: %s\n    set: %s\n%s",
                  defaults[0], matches[1], sets[3], reasons[0]);
    (void)fclose(f);
}

int main(int argc, char **argv)
{
    recorded r;
    recorded_begin(&r, argc, argv, "tests/data/recorded/pages.txt");
    recorded_enter(&r);
    write_mine();
    for (size_t i = 0; i < COUNT(topics); i++)
        try_page(&r, "list", qg_list, topics[i]);
    for (size_t i = 0; i < COUNT(targets); i++)
        try_page(&r, "target", qg_target_page, targets[i]);
    for (size_t i = 0; i < COUNT(profiles); i++)
        try_page(&r, "profile", qg_profile_page, profiles[i]);
    for (unsigned k = 0, step = recorded_step(&r);
         k < BACKENDS && !recorded_is_full(&r); k += step) {
        asked a = { qg_backend_page, "k.yaml" };
        if (!recorded_case(&r, "backend %u", k))
            continue;
        write_backend("k.yaml", k);
        recorded_try(&r, ask, &a);
    }
    return recorded_end(&r);
}
