/* Quantsim configurations: what they become, and what is refused with which words. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "engine/formats/aimet/config.h"
#include "engine/config/backend_yaml.h"
#include "ops/families.h"

static const char *const good =
    "{\"defaults\": {\"ops\": {\"is_output_quantized\": \"True\"},"
    " \"params\": {\"is_quantized\": \"True\", \"is_symmetric\": \"True\"},"
    " \"strict_symmetric\": true, \"per_channel_quantization\": \"True\","
    " \"hw_version\": \"V\\\"9\\u00e9\"},"
    " \"params\": {\"bias\": {\"is_quantized\": \"False\"}},"
    " \"op_type\": {%s}, \"supergroups\": [%s],"
    " \"model_input\": {\"is_input_quantized\": \"True\"}, \"model_output\": {}}";

static qg_ctx *open_ctx(void)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    ctx->registry = &qg_ops_registry;
    ctx->config_dir = QG_CONFIG_DIR;
    return ctx;
}

static qg_status convert(qg_ctx *ctx, const char *text, qg_config_result *out)
{
    const qg_json *root;
    qg_json_source from = { "q.json", text, strlen(text) };
    QG_TRY(qg_json_parse(ctx, ctx->arena, &from, &root));
    return qg_aimet_config(ctx, ctx->arena, root,
                           (qg_config_labels){ "x", "a \"q\".json" }, out);
}

/* Through a file, as a user would. */
static void load(qg_ctx *ctx, const qg_config_result *r, qg_backend **out)
{
    char path[] = "/tmp/qg_aimet_XXXXXX.yaml";
    close(mkstemps(path, 5));
    assert_ok(ctx, qg_file_write(ctx, path, r->yaml, r->size));
    assert_ok(ctx, qg_backend_load(ctx, ctx->arena, path, (qg_search){ 0 }, out));
    unlink(path);
}

static const qg_rule *rule_named(const qg_backend *b, const char *id)
{
    for (size_t i = 0; i < b->rule.n; i++)
        if (strcmp(b->rule.at[i].origin.id, id) == 0)
            return &b->rule.at[i];
    return NULL;
}

static void a_configuration_becomes_a_backend(void **state)
{
    (void)state;
    qg_ctx *ctx = open_ctx();
    qg_config_result r;
    qg_backend *b;
    const char *text = qg_arena_printf(
        ctx->arena, good,
        "\"Softmax\": {\"encoding_constraints\": {\"min\": 0.0, \"max\": 1.0}},"
        "\"Tanh\": {\"encoding_constraints\": {\"min\": -1, \"max\": 1}},"
        "\"Squeeze\": {\"is_output_quantized\": \"False\"},"
        "\"Gemm\": {\"per_channel_quantization\": false,"
        " \"params\": {\"bias\": {\"is_quantized\": \"True\"}}},"
        "\"Add\": {\"is_symmetric\": \"True\", \"is_input_quantized\": \"True\"},"
        "\"PRelu\": {\"params\": {\"weight\": {\"is_quantized\": \"False\"}}}",
        "{\"op_list\": [\"Conv\", \"Add\", \"Relu\"]}");
    assert_ok(ctx, convert(ctx, text, &r));
    assert_int_equal(r.note.n, 0);
    load(ctx, &r, &b);
    assert_string_equal(b->name, "x");
    assert_string_equal(b->title,
                        "AIMET quantsim configuration a ?q?.json, hardware V?9??");
    assert_int_equal(b->defaults.scheme.qmax, 255);
    const qg_rule *w = rule_named(b, "weights"),
                  *soft = rule_named(b, "op-Softmax-range");
    assert_int_equal(w->set.scheme.qmin, -127);
    assert_true(w->set.scheme.policy & QG_PER_CHANNEL);
    assert_string_equal(w->origin.source, "a ?q?.json: defaults.params");
    assert_float_equal(soft->set.observer.value[QG_PARAM_STEP], 1.0 / 255, 0);
    assert_float_equal(soft->set.observer.value[QG_PARAM_ZERO], 1, 0);
    const qg_rule *whole = rule_named(b, "weights-whole"); /* LSTM and its kin */
    assert_true(whole->set.scheme.policy & QG_PER_TENSOR);
    assert_int_equal(whole->set.scheme.qmin, -127);
    const qg_rule *tanh_rule = rule_named(b, "op-Tanh-range");
    assert_float_equal(tanh_rule->set.observer.value[QG_PARAM_STEP], 2.0 / 255, 0);
    assert_float_equal(tanh_rule->set.observer.value[QG_PARAM_ZERO], 129, 0);
    assert_int_equal(rule_named(b, "op-Squeeze-output")->set.state, QG_TQC_FP32);
    assert_int_equal(rule_named(b, "params-bias")->set.state, QG_TQC_FP32);
    assert_int_equal(rule_named(b, "op-Gemm-bias")->set.state, QG_TQC_INITIAL);
    assert_true(rule_named(b, "op-Gemm-per-channel")->set.scheme.policy &
                QG_PER_TENSOR);
    assert_int_equal(rule_named(b, "op-Add-output")->set.scheme.qmax, 127);
    assert_int_equal(rule_named(b, "op-Add-input")->set.state, QG_TQC_INITIAL);
    assert_int_equal(rule_named(b, "op-PRelu-weight")->set.state, QG_TQC_FP32);
    assert_non_null(rule_named(b, "network-inputs"));
    assert_int_equal(b->fusion.n, 1);
    assert_int_equal(b->fusion.at[0].n_silence, 2);
    assert_int_equal(b->rule.n, r.rules);
    qg_ctx_free(ctx);
}

static void what_has_no_counterpart_is_told(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *ops, *groups, *told;
    } row[] = {
        {"\"Upsampel\": {}", "",
         "op_type: unknown operator 'Upsampel', left out" },
        { "", "{\"op_list\": [\"Conv\", \"Reluu\"]}",
         "supergroups[0]: unknown operator 'Reluu', left out" },
        { "\"Relu\": {\"params\": {\"weight\": {}}}", "",
         "op_type.Relu.params.weight: Relu has no such input, left out"},
        { "\"Conv\": {\"params\": {\"gain\": {}}}", "",
         "op_type.Conv.params.gain: Conv has no such input, left out" },
        { "\"Conv\": {\"supported_kernels\": []}", "",
         "op_type.Conv.supported_kernels: widths by operator" },
        { "\"Softmax\": {\"encoding_constraints\": {\"min\": 0}}", "",
         "op_type.Softmax.encoding_constraints: a min without a max, left out" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        qg_ctx *ctx = open_ctx();
        qg_config_result r;
        qg_backend *b;
        assert_ok(ctx,
                  convert(ctx,
                          qg_arena_printf(ctx->arena, good, row[i].ops, row[i].groups),
                          &r));
        assert_int_equal(r.note.n, 1);
        assert_memory_equal(r.note.at[0], row[i].told, strlen(row[i].told));
        load(ctx, &r, &b);
        qg_ctx_free(ctx);
    }
}

static void faults_are_named_with_their_place(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct {
        const char *ops, *groups, *message;
    } row[] = {
        {"\"Conv\": {\"is_output_quantised\": \"True\"}", "",
         "read q.json: op_type.Conv.is_output_quantised: unknown key, did you mean "
          "'is_output_quantized'" },
        { "\"Conv\": {\"is_output_quantized\": \"yes\"}", "",
         "op_type.Conv.is_output_quantized: expected \"True\" or \"False\"" },
        { "\"Conv\": 3", "", "op_type.Conv: expected an object" },
        { "\"Conv\": {\"params\": {\"bias\": 1}}", "",
         "op_type.Conv.params.bias: expected an object" },
        { "\"Softmax\": {\"encoding_constraints\": {\"min\": 1, \"max\": 0}}", "",
         "min 1 and max 0, expected a range that contains 0" },
        { "\"Softmax\": {\"encoding_constraints\": {\"max\": 0}}", "", "min" },
        { "", "{\"op_list\": [\"Conv\"]}", "op_list: 1 operators, expected 2 to 16"},
        { "", "7", "supergroups[0]: expected an object" },
        { "", "{\"op_list\": [\"Conv\", 7]}", "op_list[1]" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        qg_ctx *ctx = open_ctx();
        qg_config_result r = { 0 };
        assert_fails(
            ctx,
            convert(ctx, qg_arena_printf(ctx->arena, good, row[i].ops, row[i].groups),
                    &r),
            QG_EPARSE, row[i].message);
        assert_null(r.yaml);
        qg_ctx_free(ctx);
    }
}

static void other_documents_are_refused(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const text[][2] = {
        {"[]", "expected the object of a quantsim configuration"},
        { "{}", "defaults" },
        { "{\"defaults\": {}}", "params" },
        { "{\"version\": \"0.6.1\", \"activation_encodings\": {}}",
         "version: unknown key" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        qg_ctx *ctx = open_ctx();
        qg_config_result r;
        assert_fails(ctx, convert(ctx, text[i][0], &r), QG_EPARSE, text[i][1]);
        qg_ctx_free(ctx);
    }
    qg_ctx *ctx = open_ctx();
    qg_config_result r;
    qg_json root = { .type = QG_JSON_OBJECT };
    assert_fails(
        ctx,
        qg_aimet_config(ctx, ctx->arena, &root, (qg_config_labels){ "a b", "q" }, &r),
        QG_ECONFIG, "name 'a b', expected letters, digits");
    qg_ctx_free(ctx);
}

/* A real file with bytes changed: refused, or made into a backend that loads. */
static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    qg_ctx *ctx = open_ctx();
    char *text;
    size_t size;
    qg_rng rng = { 11 };
    assert_ok(ctx, qg_file_text(ctx, ctx->arena,
                                (qg_file_request){ "read", "tests/data/aimet/htp.json",
                                                   1 << 20 },
                                &text, &size));
    for (int round = 0; round < 300; round++) {
        qg_ctx *own = open_ctx();
        qg_config_result r;
        qg_backend *b;
        char *copy = qg_arena_strndup(own->arena, text, size);
        for (int k = 0; k < 1 + round % 3; k++)
            copy[qg_rng_below(&rng, size)] = (char)(32 + qg_rng_below(&rng, 95));
        if (convert(own, copy, &r) == QG_OK)
            load(own, &r, &b);
        qg_ctx_free(own);
    }
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(a_configuration_becomes_a_backend),
             cmocka_unit_test(what_has_no_counterpart_is_told),
             cmocka_unit_test(faults_are_named_with_their_place),
             cmocka_unit_test(other_documents_are_refused),
             cmocka_unit_test(damaged_files_do_no_harm))
