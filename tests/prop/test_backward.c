/* Gradients of operators against differences of the operator in double precision, on
 * the cases of tests/ops with changed numbers.  Operators that compute float64 in
 * float32 are linear (then a wide difference is exact) or are defined here. */
#include <math.h>
#include <stdlib.h>

#include "engine/core/file.h"
#include "engine/core/folder.h"
#include "engine/core/rng.h"
#include "ops/families.h"
#include "tests/support/case_runner.h"
#include "tests/support/recurrent.h"
#include "tests/support/test.h"

enum { MOST_OPS = 512, MOST_ELEMENTS = 40, TURNS = 4 };

typedef struct counted {
    const qg_op *op; /* a row: an operator from one opset to another */
    size_t cases, elements, wrong;
} counted;

typedef struct backwards {
    qg_rng rng;
    counted op[MOST_OPS];
    size_t n_op;
    double worst;
} backwards;

/* --- tensors --------------------------------------------------------------------- */

static double uniform(qg_rng *r, double low, double high)
{
    return low + (high - low) * (double)qg_rng_below(r, 1u << 30) / (double)(1u << 30);
}

static qg_tensor *like(qg_ctx *ctx, const qg_tensor *t, qg_dtype d)
{
    qg_tensor *n = QG_NEW(ctx->arena, qg_tensor);
    assert_non_null(n);
    qg_tensor_init(n, d, t->rank, t->dim);
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, n));
    return n;
}

/* Away from corners and ties, near the numbers of the case. */
static const qg_tensor *moved(qg_ctx *ctx, qg_rng *r, const qg_tensor *t)
{
    qg_tensor *n = like(ctx, t, QG_F32);
    for (int64_t i = 0; i < qg_tensor_count(t); i++) {
        const float x = isfinite(t->f32[i]) && fabsf(t->f32[i]) < 1e6f ? t->f32[i] : 1;
        n->f32[i] = x + (float)uniform(r, -0.2, 0.2) * (1 + fabsf(x));
    }
    return n;
}

static const qg_tensor *wide(qg_ctx *ctx, const qg_tensor *t)
{
    qg_tensor *n = like(ctx, t, QG_F64);
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        n->f64[i] = (double)t->f32[i];
    return n;
}

static double at(const qg_tensor *t, int64_t i)
{
    return t->dtype == QG_F32 ? (double)t->f32[i] : t->f64[i];
}

static void set(const qg_tensor *t, int64_t i, double v)
{
    if (t->dtype == QG_F32)
        t->f32[i] = (float)v;
    else
        t->f64[i] = v;
}

/* --- normalizations in double ---------------------------------------------------- */

/* Element i of x belongs to row i / n of the rows that are normalized together. */
typedef struct rows {
    int64_t n;
    bool centred;
    double epsilon;
} rows;

static double normal(const qg_tensor *x, const rows *r, int64_t i)
{
    double sum = 0, squares = 0;
    const int64_t first = i / r->n * r->n;
    for (int64_t j = first; r->centred && j < first + r->n; j++)
        sum += at(x, j);
    const double mean = sum / (double)r->n;
    for (int64_t j = first; j < first + r->n; j++)
        squares += (at(x, j) - mean) * (at(x, j) - mean);
    return (at(x, i) - mean) / sqrt(squares / (double)r->n + r->epsilon);
}

static double attribute(const op_case *c, const char *name, double preset)
{
    for (size_t i = 0; i < c->n_attr; i++)
        if (strcmp(c->attr[i].name, name) == 0)
            return c->attr[i].type == QG_ATTR_INT ? (double)c->attr[i].ints[0]
                                                  : (double)c->attr[i].floats[0];
    return preset;
}

static bool is_rms(const char *name)
{
    return strcmp(name, "RMSNormalization") == 0 ||
           strcmp(name, "SimplifiedLayerNormalization") == 0;
}

/* Element of scale or bias for element i of x; per channel, per group or (Layer, RMS)
 * broadcast from the right. */
static double parameter(const op_case *c, const qg_tensor *t, int64_t i)
{
    const qg_tensor *x = c->in[0];
    const int64_t space = x->rank > 2 ? qg_dims_product(x, 2, x->rank) : 1;
    if (!t)
        return 0;
    if (strcmp(c->name, "LayerNormalization") && !is_rms(c->name)) {
        const int64_t channels = x->rank > 1 ? x->dim[1] : 1;
        return at(t, i / space % channels * qg_tensor_count(t) / channels);
    }
    int64_t index = 0, step = 1;
    for (int32_t k = 0; k < x->rank; k++) {
        const int32_t a = t->rank - 1 - k;
        const int64_t extent = x->dim[x->rank - 1 - k], place = i % extent;
        i /= extent;
        if (a < 0)
            break;
        index += t->dim[a] == 1 ? 0 : place * step;
        step *= t->dim[a];
    }
    return at(t, index);
}

/* y[i]; NAN: not one of these operators. */
static double defined(const op_case *c, int64_t i)
{
    const qg_tensor *x = c->in[0];
    const int64_t space = x->rank > 2 ? qg_dims_product(x, 2, x->rank) : 1;
    rows r = { space, true, attribute(c, "epsilon", (double)1e-5f) };
    if (strcmp(c->name, "BatchNormalization") == 0) {
        if (attribute(c, "training_mode", 0) != 0)
            return NAN;
        return (at(x, i) - parameter(c, c->in[3], i)) /
                   sqrt(parameter(c, c->in[4], i) + r.epsilon) *
                   parameter(c, c->in[1], i) +
               parameter(c, c->in[2], i);
    }
    int64_t axis = (int64_t)attribute(c, "axis", -1);
    axis = axis < 0 ? axis + x->rank : axis;
    if (strcmp(c->name, "GroupNormalization") == 0)
        r.n = x->dim[1] / (int64_t)attribute(c, "num_groups", 1) * space;
    else if (strcmp(c->name, "InstanceNormalization") != 0)
        r.n = qg_dims_product(x, (int32_t)axis, x->rank);
    r.centred = !is_rms(c->name);
    return normal(x, &r, i) * parameter(c, c->in[1], i) +
           (c->n_in > 2 ? parameter(c, c->in[2], i) : 0);
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static bool is_normalization(const char *name)
{
    static const char *const names[] = { "BatchNormalization",
                                         "InstanceNormalization",
                                         "GroupNormalization",
                                         "LayerNormalization",
                                         "RMSNormalization",
                                         "SimplifiedLayerNormalization",
                                         NULL };
    return is_one_of(name, names);
}

static bool is_linear(const char *name)
{
    static const char *const names[] = { "Resize", "Upsample", NULL };
    return is_one_of(name, names);
}

/* --- losses ---------------------------------------------------------------------- */

/* sum of g y over all float outputs; NAN when the case cannot run so. */
static double loss(const op_case *c, qg_ctx *ctx, qg_arena *scratch,
                   const qg_tensor *const *g)
{
    case_attempt a;
    double sum = 0;
    if (is_normalization(c->name)) {
        for (int64_t i = 0; i < qg_tensor_count(c->in[0]); i++)
            sum += (double)g[0]->f32[i] * defined(c, i);
        return sum;
    }
    if (is_recurrent(c->name))
        return recurrent_loss(c, g);
    const bool ran = attempt_case(c, ctx, scratch, &a) == QG_OK;
    for (size_t o = 0; ran && o < a.call.n_out; o++)
        for (int64_t i = 0; g[o] && a.out[o] && i < qg_tensor_count(g[o]); i++)
            sum += (double)g[o]->f32[i] * at(a.out[o], i);
    qg_graph_free(a.g);
    qg_arena_reset(scratch);
    return ran ? sum : NAN;
}

static double difference(const op_case *c, size_t slot, int64_t i, qg_ctx *ctx,
                         qg_arena *scratch, const qg_tensor *const *g)
{
    const double step = is_linear(c->name) ? 0.5 : 1e-6;
    const double x = at(c->in[slot], i);
    set(c->in[slot], i, x + step);
    const double above = loss(c, ctx, scratch, g);
    set(c->in[slot], i, x - step);
    const double below = loss(c, ctx, scratch, g);
    set(c->in[slot], i, x);
    return (above - below) / (2 * step);
}

/* --- one case -------------------------------------------------------------------- */

static counted *count_of(backwards *b, const qg_op *op)
{
    for (size_t i = 0; i < b->n_op; i++)
        if (b->op[i].op == op)
            return &b->op[i];
    assert_cmp_int(b->n_op, <, MOST_OPS);
    b->op[b->n_op] = (counted){ .op = op };
    return &b->op[b->n_op++];
}

/* The tensors of a case, and the same in double. */
typedef struct trial {
    op_case narrow, as_double;
    const qg_tensor *g[CASE_SLOTS]; /* of the outputs */
    qg_tensor *got[CASE_SLOTS];     /* of the inputs; NULL: not wanted */
} trial;

static void compare(backwards *b, const trial *t, qg_ctx *ctx, qg_arena *scratch)
{
    const op_case *c = &t->narrow;
    counted *count =
        count_of(b, qg_op_find(ctx->registry, c->domain, c->name, c->opset));
    count->cases++;
    for (size_t s = 0; s < c->n_in; s++)
        for (int64_t i = 0; t->got[s] && i < qg_tensor_count(t->got[s]); i++) {
            if (i > MOST_ELEMENTS && qg_rng_below(&b->rng, 8))
                continue;
            const double got = (double)t->got[s]->f32[i];
            const double want = difference(&t->as_double, s, i, ctx, scratch, t->g);
            const double d = fabs(got - want) / (1 + fabs(want));
            if (!isfinite(want))
                continue;
            count->elements++;
            b->worst = d > b->worst ? d : b->worst;
            if (d <= 1e-5)
                continue;
            count->wrong++;
            (void)fprintf(stderr,
                          "%s:%d: %s: input %zu [%lld]: gradient %.9g, expected %.9g\n",
                          c->path, c->line, c->name, s, (long long)i, got, want);
        }
}

static bool runs_in_float32(const op_case *c)
{
    bool any = false;
    for (size_t i = 0; i < c->n_in; i++) {
        const qg_dtype d = c->in[i] ? c->in[i]->dtype : QG_I64;
        any |= d == QG_F32 && qg_tensor_count(c->in[i]) > 0;
        if (d != QG_F32 && d != QG_I64 && d != QG_I32 && d != QG_BOOL)
            return false;
    }
    return any && !c->status;
}

/* Inputs that carry a gradient: floats that are no shape or scale list. */
static bool wanted(const qg_op *op, const op_case *c, size_t s)
{
    return c->in[s] && c->in[s]->dtype == QG_F32 && qg_op_in_role(op, s) != 's' &&
           !(strcmp(c->name, "Dropout") == 0 && s > 0);
}

/* Changed numbers, and the same in double. */
static void prepare(backwards *b, const op_case *c, const qg_op *op, qg_ctx *ctx,
                    trial *t)
{
    *t = (trial){ .narrow = *c, .as_double = *c };
    for (size_t s = 0; s < c->n_in; s++) {
        if (wanted(op, c, s)) {
            t->narrow.in[s] = moved(ctx, &b->rng, c->in[s]);
            t->got[s] = like(ctx, c->in[s], QG_F32);
        }
        const qg_tensor *x = t->narrow.in[s];
        const bool widened = x && x->dtype == QG_F32 && !is_linear(c->name) &&
                             qg_op_in_role(op, s) != 's';
        t->as_double.in[s] = widened ? wide(ctx, x) : x;
    }
}

static void examine(backwards *b, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    const qg_op *op = qg_op_find(ctx->registry, c->domain, c->name, c->opset);
    trial t;
    case_attempt a;
    if (!op || !op->backward || !runs_in_float32(c))
        return;
    prepare(b, c, op, ctx, &t);
    const qg_status ran = attempt_case(&t.narrow, ctx, scratch, &a);
    for (size_t o = 0; ran == QG_OK && o < a.call.n_out; o++)
        if (a.out[o] && a.out[o]->dtype == QG_F32) {
            qg_tensor *random = like(ctx, a.out[o], QG_F32);
            for (int64_t i = 0; i < qg_tensor_count(random); i++)
                random->f32[i] = (float)uniform(&b->rng, -1, 1);
            t.g[o] = random;
        }
    a.call.in = t.narrow.in;
    if (t.g[0] && op->backward(&(qg_backward){ &a.call, t.g, t.got }) == QG_OK)
        compare(b, &t, ctx, scratch);
    qg_graph_free(a.g);
    qg_arena_reset(scratch);
}

/* At its opset, and at others of the operator that no case has tested so far. */
static void visit(void *ud, const op_case *c, qg_ctx *ctx, qg_arena *scratch)
{
    backwards *b = ud;
    const qg_op *own = qg_op_find(ctx->registry, c->domain, c->name, c->opset);
    examine(b, c, ctx, scratch);
    for (const qg_op *op = own ? qg_op_next(ctx->registry, c->name, 0) : NULL; op;
         op = qg_op_next(ctx->registry, c->name, op->since)) {
        op_case other = *c;
        other.opset = op->since;
        if (!c->domain && op->backward && count_of(b, op)->elements == 0)
            examine(b, &other, ctx, scratch);
    }
}

/* --- all ------------------------------------------------------------------------- */

static void every_gradient_is_that_of_differences(void **state)
{
    qg_ctx *ctx = *state;
    const char **name;
    size_t n, elements = 0, wrong = 0, missing = 0;
    backwards b = { .rng = { 20 } };
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, "tests/ops", &name, &n));
    for (size_t i = 0; i < TURNS * n; i++)
        assert_int_equal(
            visit_case_file(qg_alloc_libc, &qg_ops_registry,
                            qg_path_join(ctx->arena, "tests/ops", name[i % n]), visit,
                            &b),
            QG_OK);
    for (size_t i = 0; i < b.n_op; i++)
        elements += b.op[i].elements, wrong += b.op[i].wrong;
    printf("%zu operators, %zu elements, largest difference %.2g\n", b.n_op, elements,
           b.worst);
    for (size_t f = 0; f < qg_ops_registry.n_family; f++)
        for (const qg_op *op = qg_ops_registry.family[f]; op->name; op++)
            if (op->backward && count_of(&b, op)->elements == 0) {
                print_error("%s %d: no case of tests/ops tests its gradient\n",
                            op->name, (int)op->since);
                missing++;
            }
    assert_cmp_int(missing, ==, 0);
    assert_cmp_int(wrong, ==, 0);
}

/* An operator that has a gradient has it at every opset. */
static void no_opset_lacks_a_gradient(void **state)
{
    (void)state;
    for (size_t f = 0; f < qg_ops_registry.n_family; f++) {
        const qg_op *family = qg_ops_registry.family[f];
        for (const qg_op *op = family; op->name; op++)
            for (const qg_op *other = family; other->name && !op->backward; other++)
                if (other->backward && strcmp(op->name, other->name) == 0)
                    fail_msg("%s %d: no gradient, expected one as at %d", op->name,
                             (int)op->since, (int)other->since);
    }
}

QG_TEST_MAIN(WITH_CTX(every_gradient_is_that_of_differences),
             cmocka_unit_test(no_opset_lacks_a_gradient))
