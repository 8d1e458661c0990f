/* diff.c -- two models or snapshots: nodes and constants by name, TQCs by node name and
 * slot. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "engine/core/num.h"
#include "engine/report/describe.h"
#include "engine/ir/text.h"
#include "engine/quant/metric.h"
#include "engine/quant/quantizer.h"

typedef struct diff {
    qg_ctx *ctx;
    const qg_model *a, *b;
    qg_report *r;
    qg_table *nodes, *constants, *endpoints, *scales;
    size_t only_a, only_b, changed_nodes, changed_constants;
    size_t common, changed_endpoints, changed_scales, regrouped;
    double largest; /* relative difference of scales */
} diff;

/* A row "what, field, first, second"; NULL: absent. */
static qg_status differ(diff *d, qg_table *t, const char *what, const char *field,
                        const char *const text[2])
{
    return qg_table_cells(d->r, t, qg_cell_text(what), qg_cell_text(field),
                          qg_cell_text(text[0]), qg_cell_text(text[1]));
}

#define TWO(first, second) ((const char *const[2]){ (first), (second) })

/* One row when the texts differ; counts it. */
static qg_status compare(diff *d, qg_table *t, const char *what, const char *field,
                         const char *const text[2], size_t *rows)
{
    const char *first = text[0] ? text[0] : "-", *second = text[1] ? text[1] : "-";
    if (strcmp(first, second) == 0)
        return QG_OK;
    ++*rows;
    return differ(d, t, what, field, TWO(first, second));
}

/* --- nodes --- */

static const char *names_text(qg_arena *a, qg_value *const *v, uint32_t n)
{
    const char *text = "";
    for (uint32_t i = 0; i < n && text; i++)
        text =
            qg_arena_printf(a, "%s%s%s", text, i ? ", " : "", v[i] ? v[i]->name : "-");
    return text;
}

static size_t element_size(qg_attr_type t)
{
    switch (t) {
    case QG_ATTR_FLOAT:
    case QG_ATTR_FLOATS:
        return sizeof(float);
    case QG_ATTR_INT:
    case QG_ATTR_INTS:
        return sizeof(int64_t);
    default:
        return 0;
    }
}

/* Tensors and bodies count as equal here: the text form of the whole graph, with hashes
 * of constants, sees them. */
static bool same_attribute(const qg_attr *a, const qg_attr *b)
{
    if (!a || !b || a->type != b->type || a->count != b->count)
        return a == b;
    if (a->type == QG_ATTR_STRING || a->type == QG_ATTR_STRINGS) {
        for (size_t i = 0; i < a->count; i++)
            if (strcmp(a->strings[i], b->strings[i]) != 0)
                return false;
        return true;
    }
    size_t bytes = a->count * element_size(a->type);
    return bytes == 0 || memcmp(a->ints, b->ints, bytes) == 0;
}

enum { ATTRIBUTE_TEXT = 96 };

static const char *attribute_text(const qg_attr *a, char text[ATTRIBUTE_TEXT])
{
    int used = 0;
    if (!a)
        return NULL;
    (void)snprintf(text, ATTRIBUTE_TEXT, "%s[%zu]", qg_attr_type_name(a->type),
                   a->count);
    for (size_t i = 0; i < a->count && used < ATTRIBUTE_TEXT - 1; i++) {
        size_t room = (size_t)(ATTRIBUTE_TEXT - used);
        const char *comma = i ? ", " : "";
        char *at = text + used;
        if (a->type == QG_ATTR_INT || a->type == QG_ATTR_INTS)
            used += snprintf(at, room, "%s%" PRId64, comma, a->ints[i]);
        else if (a->type == QG_ATTR_FLOAT || a->type == QG_ATTR_FLOATS)
            used += snprintf(at, room, "%s%.9g", comma, (double)a->floats[i]);
        else if (a->type == QG_ATTR_STRING || a->type == QG_ATTR_STRINGS)
            used += snprintf(at, room, "%s%s", comma, a->strings[i]);
    }
    if (a->type == QG_ATTR_FLOAT || a->type == QG_ATTR_FLOATS)
        qg_num_unsign_nan(text);
    return text;
}

static qg_status compare_attribute(diff *d, const qg_node *a, const qg_node *b,
                                   const char *name, size_t *rows)
{
    char first[ATTRIBUTE_TEXT], second[ATTRIBUTE_TEXT];
    const qg_attr *x = qg_attr_find(a, name), *y = qg_attr_find(b, name);
    if (same_attribute(x, y))
        return QG_OK;
    ++*rows;
    return differ(d, d->nodes, a->name, name,
                  TWO(attribute_text(x, first), attribute_text(y, second)));
}

static qg_status compare_node(diff *d, const qg_node *a, const qg_node *b)
{
    size_t rows = 0;
    qg_arena *arena = d->r->arena;
    const char *in[2] = { names_text(arena, a->in, a->n_in),
                          names_text(arena, b->in, b->n_in) };
    const char *out[2] = { names_text(arena, a->out, a->n_out),
                           names_text(arena, b->out, b->n_out) };
    if (!in[0] || !in[1] || !out[0] || !out[1])
        return qg_nomem(d->ctx);
    qg_table *t = d->nodes;
    QG_TRY(compare(d, t, a->name, "operator", TWO(a->op->name, b->op->name), &rows));
    QG_TRY(compare(d, t, a->name, "platform",
                   TWO(qg_platform_name(a->platform), qg_platform_name(b->platform)),
                   &rows));
    QG_TRY(compare(d, t, a->name, "inputs", in, &rows));
    QG_TRY(compare(d, t, a->name, "outputs", out, &rows));
    for (size_t i = 0; i < a->n_attr; i++)
        QG_TRY(compare_attribute(d, a, b, a->attr[i].name, &rows));
    for (size_t i = 0; i < b->n_attr; i++)
        if (!qg_attr_find(a, b->attr[i].name))
            QG_TRY(compare_attribute(d, a, b, b->attr[i].name, &rows));
    d->changed_nodes += rows != 0;
    return QG_OK;
}

static qg_status compare_nodes(diff *d)
{
    const qg_graph *a = d->a->graph, *b = d->b->graph;
    for (size_t i = 0; i < a->node.n; i++) {
        const qg_node *n = a->node.at[i], *other = qg_graph_node(b, n->name);
        d->only_a += !other;
        QG_TRY(other ? compare_node(d, n, other)
                     : differ(d, d->nodes, n->name, "node", TWO(n->op->name, NULL)));
    }
    for (size_t i = 0; i < b->node.n; i++) {
        const qg_node *n = b->node.at[i];
        if (qg_graph_node(a, n->name))
            continue;
        d->only_b++;
        QG_TRY(differ(d, d->nodes, n->name, "node", TWO(NULL, n->op->name)));
    }
    return QG_OK;
}

/* --- constants --- */

static size_t changed_elements(const qg_tensor *a, const qg_tensor *b)
{
    const size_t size = qg_dtype_bits(a->dtype) / 8, n = (size_t)qg_tensor_count(a);
    const char *x = a->data, *y = b->data;
    size_t changed = 0;
    for (size_t i = 0; i < n; i++)
        changed += memcmp(x + i * size, y + i * size, size) != 0;
    return changed;
}

/* |b - a| / |a|, of float32; NULL cells elsewhere and where a is 0. */
static qg_cell relative_change(const qg_tensor *a, const qg_tensor *b)
{
    qg_error e = { 0 };
    if (a->dtype != QG_F32)
        return qg_cell_text(NULL);
    qg_error_add(&e, a->f32, b->f32, (size_t)qg_tensor_count(a));
    const double nsr = qg_error_nsr(&e);
    return qg_cell_percent(sqrt(nsr));
}

/* Of the same type and size in both; others are in the nodes, or have other readers. */
static qg_status compare_constants(diff *d)
{
    const qg_graph *a = d->a->graph, *b = d->b->graph;
    for (size_t i = 0; i < a->value.n; i++) {
        const qg_value *v = a->value.at[i], *w = qg_graph_value(b, v->name);
        const qg_tensor *x = v->constant, *y = w ? w->constant : NULL;
        if (!x || !y || x->dtype != y->dtype || qg_dtype_bits(x->dtype) < 8 ||
            !qg_same_dims(x, y))
            continue;
        const size_t changed = changed_elements(x, y);
        if (!changed)
            continue;
        d->changed_constants++;
        QG_TRY(qg_table_cells(d->r, d->constants, qg_cell_text(v->name),
                              qg_cell_count((size_t)qg_tensor_count(x)),
                              qg_cell_count(changed), relative_change(x, y)));
    }
    return QG_OK;
}

/* Whether everything in the text form is equal but for platforms, which are columns of
 * their own, and their reasons, which name the backend; *structure: but for the
 * elements of constants as well. */
static qg_status same_graphs(diff *d, bool *same, bool *structure)
{
    char a[QG_FINGERPRINT_TEXT], b[QG_FINGERPRINT_TEXT];
    QG_TRY(qg_graph_fingerprint(d->a->graph, d->r->arena, a));
    QG_TRY(qg_graph_fingerprint(d->b->graph, d->r->arena, b));
    *same = strcmp(a, b) == 0;
    QG_TRY(qg_graph_structure(d->a->graph, d->r->arena, a));
    QG_TRY(qg_graph_structure(d->b->graph, d->r->arena, b));
    *structure = strcmp(a, b) == 0;
    return QG_OK;
}

/* --- TQCs --- */

static const qg_tqc *counterpart(const qg_model *m, const qg_tqc *t)
{
    const qg_node *n = qg_graph_node(m->graph, t->node->name);
    return n ? qg_endpoint_tqc((qg_endpoint){ n, t->slot, t->is_output }) : NULL;
}

static const char *rule_of(const qg_model *m, const qg_tqc *t)
{
    return t->rule == QG_NONE ? "defaults"
                              : m->quant->backend->rule.at[t->rule].origin.id;
}

/* Largest |b - a| / |a| over the scales; -1 when their numbers differ. */
static double scale_difference(const qg_qparam *a, const qg_qparam *b)
{
    double largest = 0;
    if (a->n != b->n)
        return -1;
    for (size_t i = 0; i < a->n; i++) {
        double x = (double)a->scale[i], y = (double)b->scale[i];
        largest = fmax(largest, fabs(y - x) / fabs(x));
    }
    return largest;
}

static size_t offset_changes(const qg_qparam *a, const qg_qparam *b)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        n += (a->offset ? a->offset[i] : 0) != (b->offset ? b->offset[i] : 0);
    return n;
}

/* Of calibrated endpoints; the state shows that an endpoint has no scale. */
static qg_status compare_params(diff *d, const char *at, const qg_tqc *a,
                                const qg_tqc *b)
{
    qg_qparam p = qg_tqc_param(a), q = qg_tqc_param(b);
    double relative = scale_difference(&p, &q);
    size_t offsets = offset_changes(&p, &q);
    qg_table *t = d->scales;
    if (p.n == 0 || q.n == 0 || (relative == 0 && offsets == 0))
        return QG_OK;
    d->changed_scales++;
    d->largest = fmax(d->largest, relative);
    return qg_table_cells(d->r, t, qg_cell_text(at),
                          relative < 0 ? (qg_cell){ 0 } : qg_cell_percent(relative),
                          qg_cell_floats(p.scale, p.n), qg_cell_floats(q.scale, q.n),
                          qg_cell_count(offsets));
}

/* One word per field, for comparison; NULL: the scheme has no such field. */
#define WORD(...)                                                                      \
    ((void)snprintf(text, QG_SCHEME_TEXT, __VA_ARGS__), (const char *)text)

static const char *field_bits(const qg_scheme *s, char *text)
{
    return WORD("%d", s->bits);
}

static const char *field_exponent(const qg_scheme *s, char *text)
{
    return s->exponent_bits ? WORD("%d", s->exponent_bits) : NULL;
}

static const char *field_range(const qg_scheme *s, char *text)
{
    return WORD("[%" PRId64 ", %" PRId64 "]", s->qmin, s->qmax);
}

static const char *field_rounding(const qg_scheme *s, char *text)
{
    return WORD("%s", qg_rounding_name((qg_rounding)s->rounding));
}

static const char *field_nan(const qg_scheme *s, char *text)
{
    return WORD("%s", qg_nan_name((qg_nan)s->nan));
}

static const char *field_policy(const qg_scheme *s, char *text)
{
    return qg_policy_text(s->policy, text);
}

static const char *field_axis(const qg_scheme *s, char *text)
{
    return s->axis >= 0 ? WORD("%d", s->axis) : NULL;
}

static const char *field_block(const qg_scheme *s, char *text)
{
    return s->block ? WORD("%" PRId32, s->block) : NULL;
}

static qg_status compare_scheme(diff *d, const char *at, const qg_scheme *a,
                                const qg_scheme *b, size_t *rows)
{
    static const struct {
        const char *name;
        const char *(*text)(const qg_scheme *s, char *text);
    } field[] = {
        {"policy",         field_policy  },
        { "bits",          field_bits    },
        { "exponent_bits", field_exponent},
        { "range",         field_range   },
        { "rounding",      field_rounding},
        { "nan",           field_nan     },
        { "axis",          field_axis    },
        { "block",         field_block   },
    };
    char first[QG_SCHEME_TEXT], second[QG_SCHEME_TEXT];
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++)
        QG_TRY(compare(d, d->endpoints, at, field[i].name,
                       TWO(field[i].text(a, first), field[i].text(b, second)), rows));
    return QG_OK;
}

static qg_status compare_tqc(diff *d, const qg_tqc *a, const qg_tqc *b)
{
    size_t rows = 0;
    char at[QG_ENDPOINT_TEXT], first[QG_ENDPOINT_TEXT], second[QG_ENDPOINT_TEXT];
    qg_table *t = d->endpoints;
    (void)qg_tqc_text(a, at);
    QG_TRY(compare(d, t, at, "state",
                   TWO(qg_tqc_state_name(a->state), qg_tqc_state_name(b->state)),
                   &rows));
    QG_TRY(compare_scheme(d, at, &a->scheme, &b->scheme, &rows));
    QG_TRY(
        compare(d, t, at, "observer", TWO(a->observer.name, b->observer.name), &rows));
    QG_TRY(compare(d, t, at, "quantizer", TWO(qg_tqc_quantizer(a), qg_tqc_quantizer(b)),
                   &rows));
    QG_TRY(compare(
        d, t, at, "visibility",
        TWO(qg_visibility_name(a->visibility), qg_visibility_name(b->visibility)),
        &rows));
    QG_TRY(compare(d, t, at, "rule", TWO(rule_of(d->a, a), rule_of(d->b, b)), &rows));
    size_t before = rows;
    QG_TRY(compare(
        d, t, at, "dominator",
        TWO(qg_tqc_text(qg_tqc_root(a), first), qg_tqc_text(qg_tqc_root(b), second)),
        &rows));
    d->regrouped += rows != before;
    d->changed_endpoints += rows != 0;
    return compare_params(d, at, a, b);
}

static qg_status lonely_tqc(diff *d, const qg_tqc *t, bool first)
{
    char at[QG_ENDPOINT_TEXT];
    const char *state = qg_tqc_state_name(t->state);
    d->changed_endpoints++;
    return differ(d, d->endpoints, qg_tqc_text(t, at), "endpoint",
                  TWO(first ? state : NULL, first ? NULL : state));
}

static qg_status compare_tqcs(diff *d)
{
    const qg_quant *a = d->a->quant, *b = d->b->quant;
    for (size_t i = 0; a && i < a->tqc.n; i++) {
        const qg_tqc *t = a->tqc.at[i], *other = counterpart(d->b, t);
        d->common += other != NULL;
        QG_TRY(other ? compare_tqc(d, t, other) : lonely_tqc(d, t, true));
    }
    for (size_t i = 0; b && i < b->tqc.n; i++)
        if (!counterpart(d->a, b->tqc.at[i]))
            QG_TRY(lonely_tqc(d, b->tqc.at[i], false));
    return QG_OK;
}

/* --- the report --- */

enum { N_TABLE = 4 };

static qg_status tables(diff *d)
{
    QG_TRY(qg_report_table(d->r, "nodes", "node field first second", &d->nodes));
    QG_TRY(qg_report_table(d->r, "constants", "constant elements changed difference",
                           &d->constants));
    QG_TRY(qg_report_table(d->r, "endpoints", "endpoint field first second",
                           &d->endpoints));
    QG_TRY(qg_report_table(d->r, "scales",
                           "endpoint difference first second offsets_changed",
                           &d->scales));
    QG_TRY(compare_nodes(d));
    QG_TRY(compare_constants(d));
    return compare_tqcs(d);
}

/* Of a difference that no table has. */
static const char *note_of(const diff *d, bool same, bool structure, bool listed)
{
    if (!structure && !listed)
        return "nodes are equal; types, bodies or opsets differ: compare `qg dump` of "
               "both";
    if (structure && !same && !d->changed_constants)
        return "constants of bodies, or of less than a byte, differ: compare `qg dump` "
               "of both";
    return NULL;
}

/* Where structures differ, constants are those that both have. */
static qg_status facts(diff *d, bool same, bool structure)
{
    qg_report *r = d->r;
    bool listed = d->only_a || d->only_b || d->changed_nodes;
    const char *note = note_of(d, same, structure, listed);
    bool tqcs = d->changed_endpoints || d->changed_scales;
    QG_TRY(qg_report_add(r, "first", qg_cell_text(d->a->path)));
    QG_TRY(qg_report_add(r, "second", qg_cell_text(d->b->path)));
    QG_TRY(qg_report_add(r, "identical", qg_cell_bool(same && !listed && !tqcs)));
    QG_TRY(qg_report_add(r, "same_structure", qg_cell_bool(structure && !listed)));
    QG_TRY(qg_report_add(r, "same_constants",
                         qg_cell_bool(!d->changed_constants && (same || !structure))));
    if (note)
        QG_TRY(qg_report_add(r, "note", qg_cell_text(note)));
    QG_TRY(qg_report_add(r, "nodes_only_in_first", qg_cell_count(d->only_a)));
    QG_TRY(qg_report_add(r, "nodes_only_in_second", qg_cell_count(d->only_b)));
    QG_TRY(qg_report_add(r, "nodes_changed", qg_cell_count(d->changed_nodes)));
    QG_TRY(qg_report_add(r, "constants_changed", qg_cell_count(d->changed_constants)));
    QG_TRY(qg_report_add(r, "endpoints_in_both", qg_cell_count(d->common)));
    QG_TRY(qg_report_add(r, "endpoints_changed", qg_cell_count(d->changed_endpoints)));
    QG_TRY(qg_report_add(r, "dominators_changed", qg_cell_count(d->regrouped)));
    QG_TRY(qg_report_add(r, "scales_changed", qg_cell_count(d->changed_scales)));
    return qg_report_add(r, "largest_scale_difference", qg_cell_percent(d->largest));
}

/* The tables are filled first, because the facts count their rows; people read the
 * facts first. */
static void tables_last(qg_report *r)
{
    qg_fact table[N_TABLE];
    assert(r->fact.n >= N_TABLE);
    memcpy(table, r->fact.at, sizeof table);
    memmove(r->fact.at, r->fact.at + N_TABLE, (r->fact.n - N_TABLE) * sizeof *table);
    memcpy(r->fact.at + r->fact.n - N_TABLE, table, sizeof table);
}

static qg_status run(diff *d)
{
    bool same, structure;
    QG_TRY(same_graphs(d, &same, &structure));
    QG_TRY(tables(d));
    QG_TRY(facts(d, same, structure));
    tables_last(d->r);
    return QG_OK;
}

qg_status qg_model_diff(qg_model *a, qg_model *b, qg_report **report)
{
    assert(a->ctx == b->ctx);
    qg_report *r;
    QG_TRY(qg_model_expect_finished(a, "diff"));
    QG_TRY(qg_model_expect_finished(b, "diff"));
    QG_TRY(qg_report_new(a->ctx, "diff", &r));
    diff d = { .ctx = a->ctx, .a = a, .b = b, .r = r };
    return qg_report_end(run(&d), r, report);
}
