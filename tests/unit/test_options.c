/* Options of callers with other versions of the structs, and none at all, by every
 * function that takes options. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/api/qg.h"

/* The demo model twice, and what the verbs may write into. */
typedef struct fixture {
    qg_ctx *ctx;
    qg_model *plain, *quantized;
} fixture;

static const char MODEL[] = "configs/models/digits.onnx";
static const char DATA[] = "configs/data/digits_calib.npy";

static int setup(void **state)
{
    static fixture f;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = DATA;
    o.work.samples = 4;
    *state = &f;
    return qg_open(NULL, &f.ctx) || qg_model_open(f.ctx, MODEL, NULL, &f.plain) ||
           qg_model_open(f.ctx, MODEL, NULL, &f.quantized) ||
           qg_model_quantize(f.quantized, &o, NULL);
}

static int teardown(void **state)
{
    fixture *f = *state;
    qg_model_close(f->plain);
    qg_model_close(f->quantized);
    qg_close(f->ctx);
    return 0;
}

/* The init function and the call of a verb, with the type of its options left out. */
#define VERB(name, type, ...)                                                          \
    static void init_##name(void *o, size_t size) { type##_init(o, size); }            \
    static qg_status name(fixture *f, const void *o) { return __VA_ARGS__; }
VERB(quantize, qg_quantize_options, qg_model_quantize(f->plain, o, NULL))
VERB(derive, qg_quantize_options, qg_model_derive(f->plain, o, NULL))
VERB(export, qg_format_options, qg_model_export(f->quantized, o, "never.onnx", NULL))
VERB(import, qg_import_options, qg_model_import(f->ctx, "never", o, NULL, NULL))
VERB(collect, qg_stats_options, qg_model_collect(f->plain, o, "never.qgs", NULL))
VERB(run, qg_run_options, qg_model_run(f->quantized, o, NULL, NULL))
VERB(evaluate, qg_run_options, qg_model_evaluate(f->quantized, o, "never.npy", NULL))
VERB(analyse, qg_analyse_options, qg_model_analyse(f->quantized, o, NULL))
VERB(trace, qg_trace_options, qg_model_trace(f->quantized, o, "never.npz", NULL))
VERB(diverge, qg_diverge_options, qg_model_diverge(f->quantized, o, "never.npz", NULL))
VERB(fit, qg_diverge_options, qg_model_fit(f->quantized, o, "never.npz", NULL, NULL))
VERB(probe, qg_probe_options, qg_model_probe(f->quantized, o, "never.npy", NULL))
VERB(lint, qg_lint_options, qg_model_lint(f->quantized, o, NULL))
VERB(infer, qg_infer_options,
     qg_model_infer_backend(f->plain, o, "never.npz", NULL, NULL))
VERB(doctor, qg_doctor_options, qg_model_doctor(f->quantized, o, NULL))
VERB(sensitivity, qg_sensitivity_options, qg_model_sensitivity(f->quantized, o, NULL))
VERB(price, qg_price_options, qg_model_price(f->quantized, o, NULL))
VERB(search, qg_search_options, qg_model_search(f->quantized, o, NULL))
VERB(rules, qg_rules_options, qg_model_search_rules(f->plain, o, NULL))
VERB(compare, qg_compare_options, qg_model_compare(f->plain, o, NULL))
VERB(tensor, qg_quantize_tensor_options,
     qg_quantize_tensor(f->ctx, "tests/arrays/f4.npy", o, NULL))

VERB(operator, qg_operator, qg_add_operator(f->ctx, o))
VERB(pass, qg_host_pass, qg_add_pass(f->ctx, o))
VERB(observer, qg_host_observer, qg_add_observer(f->ctx, o))
VERB(quantizer, qg_host_quantizer, qg_add_quantizer(f->ctx, o))

static qg_status begin(fixture *f, const void *o, qg_session *run)
{
    qg_status s = qg_session_new(f->quantized, o, &run);
    qg_session_free(run);
    return s;
}
VERB(session, qg_session_options, begin(f, o, NULL))

static qg_status reopen(fixture *f, const void *o, qg_model *m)
{
    qg_status s = qg_model_open(f->ctx, MODEL, o, &m);
    qg_model_close(m);
    return s;
}
VERB(open_model, qg_model_options, reopen(f, o, NULL))

/* A context of its own, whose message goes with it. */
static qg_status another(const void *o, qg_ctx *ctx)
{
    qg_status s = qg_open(o, &ctx);
    qg_close(ctx);
    return s;
}
VERB(open_context, qg_open_options, f ? another(o, NULL) : QG_OK)
#undef VERB

static const struct verb {
    const char *name;
    size_t size;
    void (*init)(void *o, size_t size);
    qg_status (*call)(fixture *f, const void *o);
    bool works;       /* a workload is its first member */
    const char *bare; /* of the message without options; NULL: they do */
} verbs[] = {
#define VERB(type, name, ...)                                                          \
    {                                                                                  \
#type, sizeof(type), init_##name, name, __VA_ARGS__                            \
    }
    VERB(qg_open_options, open_context, false, NULL),
    VERB(qg_model_options, open_model, false, NULL),
    VERB(qg_quantize_options, quantize, true, "no backend given"),
    VERB(qg_quantize_options, derive, false, "stats: no file given"),
    VERB(qg_format_options, export, false, "export: no format"),
    VERB(qg_import_options, import, false, "import: no format"),
    VERB(qg_stats_options, collect, true, "data: none given"),
    VERB(qg_run_options, run, true, "data: none given"),
    VERB(qg_run_options, evaluate, true, "data: none given"),
    VERB(qg_analyse_options, analyse, true, "data: none given"),
    VERB(qg_trace_options, trace, true, "data: none given"),
    VERB(qg_diverge_options, diverge, true, "data: none given"),
    VERB(qg_diverge_options, fit, true, "data: none given"),
    VERB(qg_probe_options, probe, true, "between: none given"),
    VERB(qg_lint_options, lint, false, "lint: no target"),
    VERB(qg_infer_options, infer, true, "data: none given"),
    VERB(qg_doctor_options, doctor, true, "data: none given"),
    VERB(qg_sensitivity_options, sensitivity, true, "data: none given"),
    VERB(qg_price_options, price, true, "data: none given"),
    VERB(qg_search_options, search, true, "search: budget ''"),
    VERB(qg_rules_options, rules, true, "search: no backend given"),
    VERB(qg_compare_options, compare, true, "compare: no backend given"),
    VERB(qg_quantize_tensor_options, tensor, false, NULL),
    VERB(qg_session_options, session, false, NULL),
    VERB(qg_operator, operator, false, "add operator: name"),
    VERB(qg_host_pass, pass, false, "add pass: name"),
    VERB(qg_host_observer, observer, false, "add observer: name"),
    VERB(qg_host_quantizer, quantizer, false, "add quantizer: name"),
};
enum { N_VERB = sizeof verbs / sizeof verbs[0], EXTRA = 24 };

static void expect(const struct verb *v, fixture *f, const void *o, const char *text)
{
    qg_status s = v->call(f, o);
    if (s != (text ? QG_ECONFIG : QG_OK))
        fail_msg("%s: %s: %s", v->name, qg_status_name(s), qg_ctx_message(f->ctx));
    bool silent = v->call == open_context; /* no context, no message */
    if (text && !silent && !strstr(qg_ctx_message(f->ctx), text))
        fail_msg("%s: message '%s' lacks '%s'", v->name, qg_ctx_message(f->ctx), text);
}

/* A block of exactly this size, so that the sanitizer sees what goes beyond. */
static void *made(const struct verb *v, size_t size)
{
    char *o = malloc(size);
    assert_non_null(o);
    memset(o, 0x5a, size);
    v->init(o, size);
    return o;
}

static void none_is_defaults(void **state)
{
    for (size_t i = 0; i < N_VERB; i++)
        expect(&verbs[i], *state, NULL, verbs[i].bare);
}

/* Older callers have less of the struct, newer ones more. */
static void other_sizes(void **state)
{
    for (size_t i = 0; i < N_VERB; i++) {
        const struct verb *v = &verbs[i];
        for (size_t size = sizeof size; size <= v->size + EXTRA; size += 8) {
            void *o = made(v, size);
            expect(v, *state, o, v->bare);
            free(o);
        }
    }
}

static void a_field_from_the_future(void **state)
{
    for (size_t i = 0; i < N_VERB; i++) {
        char text[200], *o = made(&verbs[i], verbs[i].size + EXTRA);
        o[verbs[i].size + EXTRA - 1] = 1;
        snprintf(text, sizeof text,
                 "options: %s: a field after byte %zu is set, expected the fields of "
                 "version",
                 verbs[i].name, verbs[i].size);
        expect(&verbs[i], *state, o, text);
        free(o);
    }
}

static void sizes_that_were_never_set(void **state)
{
    static const size_t wrong[] = { 0, 1, sizeof(size_t) - 1, (1 << 16) + 1, SIZE_MAX };
    for (size_t i = 0; i < N_VERB; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            char text[200], *o = made(&verbs[i], verbs[i].size);
            memcpy(o, &wrong[k], sizeof wrong[k]);
            snprintf(text, sizeof text,
                     "options: %s: size %zu, expected that of the struct: call %s_init",
                     verbs[i].name, wrong[k], verbs[i].name);
            expect(&verbs[i], *state, o, text);
            free(o);
        }
}

/* Structs inside of others cannot grow. */
static void reserved_members(void **state)
{
    static const int x = 0;
    fixture *f = *state;
    for (size_t i = 0; i < N_VERB; i++)
        if (verbs[i].works) {
            qg_analyse_options *o = made(&verbs[i], verbs[i].size);
            o->work.reserved[3] = &x;
            expect(&verbs[i], f, o,
                   "options: qg_workload: reserved[3] is set, expected NULL");
            free(o);
        }
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.proposal.reserved[0] = &x;
    assert_fails(f->ctx, qg_model_sensitivity(f->quantized, &o, NULL), QG_ECONFIG,
                 "options: qg_proposal_options: reserved[0] is set, expected NULL");
}

static void init_stays_within_its_size(void **state)
{
    (void)state;
    size_t room[1] = { 7 };
    qg_run_options_init((qg_run_options *)(void *)room, 0);
    assert_int_equal(room[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(none_is_defaults),
                                        cmocka_unit_test(other_sizes),
                                        cmocka_unit_test(a_field_from_the_future),
                                        cmocka_unit_test(reserved_members),
                                        cmocka_unit_test(sizes_that_were_never_set),
                                        cmocka_unit_test(init_stays_within_its_size) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
