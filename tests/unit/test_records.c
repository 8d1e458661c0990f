/* Records of nodes, values and endpoints: what the host reads is what quant.json
 * says. */
#include "tests/support/models.h"
#include "tests/support/scratch.h"

#include "engine/core/json.h"

static const char *const MODELS[] = { "configs/models/digits.onnx",
                                      "tests/models/mnist-8.onnx",
                                      "tests/models/conv_relu.onnx" };
static const char *const BACKENDS[] = { "trt-int8", "tflite-int8", "trt-fp8",
                                        "openvino-int8", "ncnn-int8" };

/* --- the JSON beside the record --- */

static const qg_json *member(const qg_json *o, const char *key)
{
    const qg_json *v = qg_json_get(o, key);
    if (!v)
        fail_msg("quant.json lacks %s", key);
    return v;
}

static void assert_text(const qg_json *o, const char *key, const char *have)
{
    const qg_json *v = member(o, key);
    if (v->type == QG_JSON_NULL)
        assert_null(have);
    else
        assert_string_equal(v->text, have);
}

static void assert_count(const qg_json *o, const char *key, double have)
{
    const qg_json *v = member(o, key);
    assert_cmp_f64(v->type == QG_JSON_NULL ? 0 : v->number, ==, have);
}

static void assert_scheme(const qg_json *o, const qg_scheme *s)
{
    const qg_json *policy = member(o, "policy"), *range = member(o, "range");
    uint32_t bits = 0;
    for (size_t i = 0; i < policy->count; i++)
        bits |= qg_policy_bit_named(policy->item[i].text);
    assert_int_equal(bits, s->policy);
    assert_count(o, "bits", s->bits);
    assert_count(o, "exponent_bits", s->exponent_bits);
    assert_cmp_f64(range->item[0].number, ==, (double)s->qmin);
    assert_cmp_f64(range->item[1].number, ==, (double)s->qmax);
    assert_text(o, "rounding", qg_rounding_name((qg_rounding)s->rounding));
    if (s->axis >= 0)
        assert_count(o, "axis", s->axis);
    else
        assert_int_equal(member(o, "axis")->type, QG_JSON_NULL);
    assert_count(o, "block", s->block);
}

static void assert_parameters(const qg_json *o, const qg_tqc_record *r)
{
    const qg_json *scale = member(o, "scale"), *offset = member(o, "offset");
    if (scale->type == QG_JSON_NULL) {
        assert_int_equal(r->n_param, 0);
        return;
    }
    assert_int_equal(r->n_param, scale->count);
    for (size_t i = 0; i < r->n_param; i++) {
        assert_cmp_f64((float)scale->item[i].number, ==, r->scale[i]);
        assert_cmp_f64(offset->item[i].number, ==, r->offset[i]);
    }
}

static uint32_t id_of(const qg_tqc *t)
{
    qg_tqc_record r = { .size = sizeof r };
    qg_tqc_get(t, &r);
    return r.id;
}

static void assert_lenders(const qg_json *o, const qg_tqc_record *r)
{
    const qg_json *from = qg_json_get(o, "derived_from");
    assert_int_equal(from != NULL, r->derive != QG_DERIVE_NONE);
    for (size_t i = 0; from && i < from->count; i++)
        assert_cmp_f64(from->item[i].number, ==, id_of(r->lender[i]));
}

static void assert_tqc(const qg_model *m, const qg_json *o, size_t i)
{
    char name[512];
    qg_tqc_record r = { .size = sizeof r };
    qg_node_record n = { .size = sizeof n };
    qg_value_record v = { .size = sizeof v };
    qg_tqc_get(qg_model_tqc(m, i), &r);
    qg_node_get(r.node, &n);
    qg_value_get(r.value, &v);
    assert_int_equal(r.id, i);
    assert_count(o, "id", r.id);
    assert_text(o, "node", n.name);
    (void)snprintf(name, sizeof name, "%s.%s", n.name, member(o, "slot")->text);
    assert_string_equal(r.name, name);
    assert_ptr_equal(qg_model_find_tqc(m, name), qg_model_tqc(m, i));
    assert_ptr_equal(r.is_output ? qg_node_output_tqc(r.node, r.slot)
                                 : qg_node_input_tqc(r.node, r.slot),
                     qg_model_tqc(m, i));
    assert_text(o, "value", v.name);
    assert_text(o, "state", qg_tqc_state_name(r.state));
    assert_scheme(o, &r.scheme);
    assert_text(o, "observer", r.observer);
    assert_parameters(o, &r);
    assert_count(o, "dominator", id_of(r.dominator));
    assert_lenders(o, &r);
    assert_text(o, "rule", r.rule);
    assert_text(o, "why", r.why);
}

static void assert_value(const qg_model *m, const qg_json *name, const qg_value *v)
{
    if (!v) {
        assert_string_equal(name->text, "");
        return;
    }
    qg_value_record r = { .size = sizeof r };
    qg_value_get(v, &r);
    assert_string_equal(name->text, r.name);
    assert_ptr_equal(qg_model_find_value(m, r.name), v);
    assert_ptr_equal(qg_model_value(m, r.id), v);
}

static void assert_node(const qg_model *m, const qg_json *o, size_t i)
{
    qg_node_record r = { .size = sizeof r };
    const qg_node *n = qg_model_node(m, i);
    qg_node_get(n, &r);
    assert_int_equal(r.id, i);
    assert_ptr_equal(qg_model_find_node(m, r.name), n);
    assert_text(o, "name", r.name);
    assert_text(o, "op", r.op);
    assert_text(o, "platform", r.platform);
    assert_text(o, "reason", r.reason);
    assert_int_equal(r.n_in, member(o, "inputs")->count);
    assert_int_equal(r.n_out, member(o, "outputs")->count);
    for (size_t k = 0; k < r.n_in; k++)
        assert_value(m, &member(o, "inputs")->item[k], qg_node_input(n, k));
    for (size_t k = 0; k < r.n_out; k++)
        assert_value(m, &member(o, "outputs")->item[k], qg_node_output(n, k));
    assert_null(qg_node_input(n, r.n_in));
    assert_null(qg_node_output_tqc(n, r.n_out));
}

static void assert_groups(const qg_model *m, const qg_json *list)
{
    assert_int_equal(qg_model_group_count(m), list->count);
    for (size_t i = 0; i < list->count; i++) {
        const qg_json *members = member(&list->item[i], "members");
        const qg_tqc *root = qg_model_group(m, i);
        assert_count(&list->item[i], "root", id_of(root));
        for (size_t k = 0; k < members->count; k++)
            assert_cmp_f64(members->item[k].number, ==, id_of(qg_tqc_member(root, k)));
        assert_null(qg_tqc_member(root, members->count));
    }
    assert_null(qg_model_group(m, list->count));
}

/* Change k of an endpoint is its k-th line of the journal. */
static void assert_journal(const qg_model *m, const qg_json *list)
{
    size_t *seen = calloc(qg_model_tqc_count(m), sizeof *seen);
    for (size_t i = 0; i < list->count; i++) {
        const qg_json *o = &list->item[i];
        size_t id = (size_t)member(o, "tqc")->number;
        qg_change_record c = { .size = sizeof c };
        assert_true(qg_model_change(m, qg_model_tqc(m, id), seen[id]++, &c));
        assert_text(o, "field", c.field);
        assert_text(o, "old", c.old_value);
        assert_text(o, "new", c.new_value);
        assert_text(o, "by", c.by);
    }
    for (size_t id = 0; id < qg_model_tqc_count(m); id++) {
        qg_change_record c = { .size = sizeof c };
        assert_false(qg_model_change(m, qg_model_tqc(m, id), seen[id], &c));
    }
    free(seen);
}

static void assert_records(qg_ctx *ctx, const qg_model *m, const char *folder)
{
    const qg_json *root;
    const char *path = qg_path_join(ctx->arena, folder, "quant.json");
    assert_ok(ctx, qg_json_read(ctx, ctx->arena, path, SIZE_MAX, &root));
    assert_int_equal(qg_model_node_count(m), member(root, "nodes")->count);
    assert_int_equal(qg_model_tqc_count(m), member(root, "tqcs")->count);
    for (size_t i = 0; i < qg_model_node_count(m); i++)
        assert_node(m, &member(root, "nodes")->item[i], i);
    for (size_t i = 0; i < qg_model_tqc_count(m); i++)
        assert_tqc(m, &member(root, "tqcs")->item[i], i);
    assert_groups(m, member(root, "groups"));
    assert_journal(m, member(root, "journal"));
    assert_null(qg_model_node(m, qg_model_node_count(m)));
    assert_null(qg_model_tqc(m, qg_model_tqc_count(m)));
}

static void records_are_those_of_quant_json(void **state)
{
    qg_ctx *ctx = *state;
    char scratch[SCRATCH_PATH];
    const char *folder = scratch_path(scratch, "records");
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        for (size_t b = 0; b < sizeof BACKENDS / sizeof *BACKENDS; b++) {
            qg_model *m = quantized_model(ctx, MODELS[i], BACKENDS[b]);
            assert_ok(ctx, qg_model_save(m, folder));
            assert_records(ctx, m, folder);
            qg_model_close(m);
            m = open_model(ctx, folder);
            assert_records(ctx, m, folder);
            qg_model_close(m);
            assert_int_equal(scratch_remove(folder), 0);
        }
}

/* --- graphs --- */

static void a_float_model_has_no_endpoints(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = open_model(ctx, MODELS[2]);
    assert_int_equal(qg_model_tqc_count(m), 0);
    assert_int_equal(qg_model_group_count(m), 0);
    assert_null(qg_model_tqc(m, 0));
    assert_null(qg_model_group(m, 0));
    assert_null(qg_model_find_tqc(m, "conv.in0"));
    assert_null(qg_node_input_tqc(qg_model_node(m, 0), 0));
    qg_node_record r = { .size = sizeof r };
    qg_node_get(qg_model_node(m, 0), &r);
    assert_string_equal(r.platform, "none");
    assert_null(r.reason);
    qg_model_close(m);
}

/* Every use of every value is the input slot of a node that reads it. */
static void consumers_read_the_value(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = open_model(ctx, MODELS[0]);
    size_t read = 0, slots = 0;
    for (size_t i = 0; i < qg_model_value_count(m); i++) {
        uint32_t slot;
        qg_value *v = qg_model_value(m, i);
        qg_value_record r = { .size = sizeof r };
        qg_value_get(v, &r);
        for (size_t k = 0; k < r.n_consumer; k++, read++) {
            const qg_node *n = qg_value_consumer(v, k, &slot);
            assert_ptr_equal(qg_node_input(n, slot), v);
        }
        assert_null(qg_value_consumer(v, r.n_consumer, NULL));
        if (r.producer)
            assert_ptr_equal(qg_node_output(r.producer, r.producer_slot), v);
        assert_int_equal(r.constant != NULL, !r.producer && !r.is_input);
    }
    for (size_t i = 0; i < qg_model_node_count(m); i++)
        for (size_t k = 0; k < 8; k++)
            slots += qg_node_input(qg_model_node(m, i), k) != NULL;
    assert_cmp_int(read, ==, slots);
    qg_model_close(m);
}

static void nodes_tell_operator_and_attributes(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = open_model(ctx, MODELS[0]);
    const int64_t *ints;
    const float *floats;
    size_t n;
    qg_node *conv = qg_model_node(m, 0);
    qg_node_record r = { .size = sizeof r };
    qg_value_record image = { .size = sizeof image };
    qg_node_get(conv, &r);
    assert_string_equal(r.op, "Conv");
    assert_string_equal(r.domain, "");
    assert_int_equal(r.opset, 13);
    assert_true(qg_node_has_trait(conv, "compute"));
    assert_false(qg_node_has_trait(conv, "activation"));
    assert_false(qg_node_has_trait(conv, "no trait"));
    assert_int_equal(qg_node_input_role(conv, 0), 'd');
    assert_int_equal(qg_node_input_role(conv, 1), 'w');
    assert_int_equal(qg_node_input_role(conv, 2), 'b');
    assert_true(qg_node_ints(conv, "pads", &ints, &n));
    assert_int_equal(n, 4);
    assert_false(qg_node_floats(conv, "pads", &floats, &n));
    assert_false(qg_node_ints(conv, "no attribute", &ints, &n));
    assert_int_equal(qg_model_input_count(m), 1);
    assert_int_equal(qg_model_output_count(m), 1);
    assert_null(qg_model_input(m, 1));
    assert_null(qg_model_output(m, 1));
    qg_value_get(qg_model_input(m, 0), &image);
    assert_string_equal(image.name, "image");
    assert_int_equal(image.type, QG_F32);
    assert_int_equal(image.rank, 4);
    assert_int_equal(image.dim[2], 8);
    assert_true(image.is_input);
    assert_null(image.constant);
    qg_model_close(m);
}

/* --- records of other versions --- */

/* Nothing is written behind the size, and what we do not have becomes zero. */
static void records_are_as_long_as_they_say(void **state)
{
    qg_ctx *ctx = *state;
    qg_model *m = open_model(ctx, MODELS[0]);
    struct {
        qg_node_record r;
        uint64_t newer[2];
    } large;
    qg_node_record small;
    memset(&large, 0xaa, sizeof large);
    large.r.size = sizeof large.r + sizeof large.newer[0];
    qg_node_get(qg_model_node(m, 0), &large.r);
    assert_string_equal(large.r.op, "Conv");
    assert_int_equal(large.newer[0], 0);
    assert_int_equal(large.newer[1], UINT64_C(0xaaaaaaaaaaaaaaaa));
    memset(&small, 0xaa, sizeof small);
    small.size = offsetof(qg_node_record, op);
    qg_node_get(qg_model_node(m, 0), &small);
    assert_non_null(small.name);
    assert_int_equal(small.size, offsetof(qg_node_record, op));
    assert_int_equal((uintptr_t)small.op, UINT64_C(0xaaaaaaaaaaaaaaaa));
    qg_model_close(m);
}

QG_TEST_MAIN(WITH_LIBRARY(records_are_those_of_quant_json),
             WITH_LIBRARY(a_float_model_has_no_endpoints),
             WITH_LIBRARY(consumers_read_the_value),
             WITH_LIBRARY(nodes_tell_operator_and_attributes),
             WITH_LIBRARY(records_are_as_long_as_they_say))
