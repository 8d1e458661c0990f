/* The verbs for quantizing, files, lint and runs on a network around each operator of
 * tests/ops: as in tests/data/recorded/operators.txt.
 *
 *     x -> [Add of a constant] -> the operator, other operands constant -> [Relu] */
#include <stdlib.h>
#include <string.h>

#include "engine/core/file.h"
#include "ops/families.h"
#include "tests/support/case_runner.h"
#include "tests/support/session_trial.h"

/* Operators with that many operands or outputs have repetitions of the same kind. */
enum { SLOTS = 16 };

typedef struct walk {
    recorded *r;
    const char *file;
    unsigned k, number, step; /* of all cases, and of the file */
} walk;

/* A case, and whether its operator stands between others. */
typedef struct around {
    const op_case *c;
    bool between, two; /* the second operand of floats is computed as well */
} around;

static const char *const in_name[SLOTS] = { "i0",  "i1",  "i2",  "i3", "i4",  "i5",
                                            "i6",  "i7",  "i8",  "i9", "i10", "i11",
                                            "i12", "i13", "i14", "i15" };
static const char *const out_name[SLOTS] = { "o0",  "o1",  "o2",  "o3", "o4",  "o5",
                                             "o6",  "o7",  "o8",  "o9", "o10", "o11",
                                             "o12", "o13", "o14", "o15" };

static qg_status add_node(qg_model *m, const char *op, const char *a, const char *b,
                          const char *to)
{
    const char *in[2] = { a, b };
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = op;
    o.in = in;
    o.n_in = b ? 2 : 1;
    o.out = &to;
    o.n_out = 1;
    return qg_model_add_node(m, &o, NULL);
}

/* An input of the network under this name, or through a sum with a constant. */
static qg_status add_input(qg_model *m, const around *a, const qg_tensor *t,
                           const char *name)
{
    float half[] = { 0.5f };
    qg_tensor scalar;
    char input[16], factor[16];
    if (!a->between || t->dtype != QG_F32)
        return qg_model_add_input(m, name, t->dtype, t->rank, t->dim);
    (void)snprintf(input, sizeof input, "x_%s", name);
    (void)snprintf(factor, sizeof factor, "f_%s", name);
    qg_tensor_init(&scalar, QG_F32, 0, NULL);
    scalar.data = half;
    QG_TRY(qg_model_add_input(m, input, t->dtype, t->rank, t->dim));
    QG_TRY(qg_model_add_constant(m, factor, &scalar, false));
    return add_node(m, "Add", input, factor, name);
}

static qg_attribute attribute_of(const qg_attr *a)
{
    static const enum qg_attribute_kind kind[] = {
        [QG_ATTR_INT] = QG_ATTRIBUTE_INT,
        [QG_ATTR_FLOAT] = QG_ATTRIBUTE_FLOAT,
        [QG_ATTR_STRING] = QG_ATTRIBUTE_STRING,
        [QG_ATTR_INTS] = QG_ATTRIBUTE_INTS,
        [QG_ATTR_FLOATS] = QG_ATTRIBUTE_FLOATS,
        [QG_ATTR_TENSOR] = QG_ATTRIBUTE_TENSOR,
        [QG_ATTR_STRINGS] = QG_ATTRIBUTE_STRINGS,
    };
    qg_attribute made = { .name = a->name, .kind = kind[a->type], .count = a->count };
    made.ints = a->ints; /* all members are pointers */
    return made;
}

/* Floats, or without any the type of the first operand. */
static qg_dtype type_of_inputs(const op_case *c)
{
    qg_dtype first = QG_NODTYPE;
    for (size_t i = c->n_in; i-- > 0;)
        first = c->in[i] && first != QG_F32 ? c->in[i]->dtype : first;
    return first;
}

static qg_status add_case(qg_model *m, const around *a)
{
    const op_case *c = a->c;
    const char *in[SLOTS], *out[SLOTS];
    qg_attribute attribute[CASE_ATTRS];
    const qg_dtype input_type = type_of_inputs(c);
    unsigned inputs = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        const qg_tensor *t = c->in[i];
        bool computed = t && t->dtype == input_type && inputs < (a->two ? 2 : 1);
        in[i] = t ? in_name[i] : NULL;
        inputs += computed;
        if (computed)
            QG_TRY(add_input(m, a, t, in[i]));
        else if (t)
            QG_TRY(qg_model_add_constant(m, in[i], t, false));
    }
    for (size_t i = 0; i < c->n_attr; i++)
        attribute[i] = attribute_of(&c->attr[i]);
    size_t n_out = c->n_out ? c->n_out : 1;
    for (size_t i = 0; i < n_out; i++)
        out[i] = c->n_out && !c->out[i].tensor ? NULL : out_name[i];
    qg_node_options o;
    qg_node_options_init(&o, sizeof o);
    o.op = c->name;
    o.domain = c->domain;
    o.in = in;
    o.n_in = c->n_in;
    o.out = out;
    o.n_out = n_out;
    o.attribute = attribute;
    o.n_attribute = c->n_attr;
    QG_TRY(qg_model_add_node(m, &o, NULL));
    for (size_t i = 0; i < n_out; i++) {
        bool relu = a->between && i == 0 && c->n_out && out[0] &&
                    c->out[0].tensor->dtype == QG_F32;
        if (relu)
            QG_TRY(add_node(m, "Relu", out[i], NULL, "y"));
        if (out[i])
            QG_TRY(qg_model_add_output(m, relu ? "y" : out[i]));
    }
    return qg_model_finish(m);
}

static qg_status open_case(qg_ctx *ctx, const void *source, qg_model **m)
{
    const around *a = source;
    bool onnx = !a->c->domain || !*a->c->domain;
    QG_TRY(qg_model_new(ctx, "case", onnx ? a->c->opset : 17, m));
    if (!onnx)
        QG_TRY(qg_model_import_opset(*m, a->c->domain, a->c->opset));
    return add_case(*m, a);
}

static void try_one(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    char name[RECORDED_NAME];
    walk *w = ud;
    unsigned k = w->k++, number = w->number++;
    const around a = { c, k % 2 != 0, k % 3 == 0 };
    (void)ctx;
    (void)scratch;
    (void)snprintf(name, sizeof name, "%s %u %s", w->file, number, c->name);
    if (k % w->step || recorded_is_full(w->r) || c->n_in > SLOTS || c->n_out > SLOTS)
        return;
    session_trial(w->r, name, k,
                  TRIAL_QUANTIZE | TRIAL_LINT | TRIAL_FORMATS | TRIAL_RUNS |
                      (k % 7 ? 0 : TRIAL_RECORDS),
                  open_case, &a);
}

int main(int argc, char **argv)
{
    recorded r;
    const char **name;
    size_t n;
    char root[4096];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    recorded_begin(&r, argc, argv, "tests/data/recorded/operators.txt");
    walk w = { .r = &r, .step = recorded_step(&r) };
    if (!ctx || !realpath("tests/ops", root) ||
        qg_directory_list(ctx, ctx->arena, root, &name, &n) != QG_OK)
        return 1;
    recorded_enter(&r);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(name[i]);
        if (length < 5 || strcmp(name[i] + length - 5, ".case") != 0)
            continue;
        w.file = name[i];
        w.number = 0;
        if (visit_case_file(qg_alloc_libc, &qg_ops_registry,
                            qg_path_join(ctx->arena, root, name[i]), try_one,
                            &w) != QG_OK)
            return 1;
    }
    qg_ctx_free(ctx);
    return recorded_end(&r);
}
