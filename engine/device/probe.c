/* probe.c -- qg_model_probe: inputs on which two profiles compute different codes.
 *
 * The program of the first profile stands for the device; the second one computes every
 * node on the first one's values, so that each node that differs does so by itself.
 * Each sample begins with random codes of the input's grid, or with a given sample, and
 * is changed in places as long as more nodes differ: first nodes on which no earlier
 * sample differs. */
#include <math.h>
#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/core/rng.h"
#include "engine/data/npz.h"
#include "engine/device/profiles.h"
#include "engine/session/session.h"

QG_OPTIONS_INIT(qg_probe_options)

/* Samples unless the options give a number, and inputs that are measured for each. */
enum { SAMPLES = 8, TRIES = 48 };

/* A value that both programs store alike. */
typedef struct common {
    const qg_value *value;      /* of the model */
    const qg_value *at[2];      /* of the programs */
    uint64_t elements, samples; /* that differ, over the samples that were kept */
} common;

/* How good a sample is: compared member by member. */
typedef struct score {
    size_t fresh, nodes; /* values that differ: in no earlier sample, and in all */
    uint64_t elements;
} score;

typedef struct search {
    qg_ctx *ctx;
    qg_model *m;
    const qg_probe_options *o;
    qg_arena *arena;
    qg_executable exe[2];
    bool equal; /* the two programs */
    qg_plan *plan[2];
    qg_run *run[2];
    common *value;
    size_t n_value;
    uint32_t *keep;   /* [n_value] of the first program */
    uint32_t *index;  /* [values of the second program] into value, or QG_NONE */
    uint64_t *differ; /* [n_value] elements, of the sample that ran last */
    qg_api_feed feed; /* given samples; n 0: none */
    qg_rng rng;
    qg_tensor *sample;      /* [inputs] on trial */
    qg_tensor *best;        /* [inputs] */
    const qg_tensor **view; /* [inputs] of sample */
    qg_tensor *all;         /* [inputs] of the file: samples first */
    size_t n;               /* samples to make */
} search;

/* --- comparing --- */

/* A value of the second program: counts elements that differ from the first
 * program's and then writes the first's over it, so that later nodes read what the
 * first computed. `value` can have other strides; codes are compared as numbers. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    search *s = ud;
    const qg_value *v = at->endpoint.is_output ? qg_endpoint_value(at->endpoint) : NULL;
    uint32_t k = v ? s->index[v->id] : QG_NONE;
    (void)ctx, (void)sample;
    if (k == QG_NONE)
        return QG_OK;
    const qg_tensor *first = qg_run_kept(s->run[0], k);
    qg_tensor plain = *value;
    qg_arena *a = qg_arena_new(ctx->alloc);
    if (!a)
        return qg_nomem(ctx);
    plain.data = NULL;
    qg_tensor_set_plain(&plain);
    qg_status status = qg_tensor_alloc(ctx, a, &plain);
    if (status == QG_OK) {
        qg_tensor_copy(value, &plain);
        for (int64_t i = 0; i < qg_tensor_count(first); i++)
            s->differ[k] += qg_tensor_f64(&plain, i) != qg_tensor_f64(first, i);
        qg_tensor_copy(first, value);
    }
    qg_arena_free(a);
    return status;
}

/* Both programs on s->view.  The first runs before the second, whose hook reads the
 * values that the first has kept. */
static qg_status measure(search *s, score *out)
{
    qg_hook hook = { see, s };
    *out = (score){ 0, 0, 0 };
    memset(s->differ, 0, s->n_value * sizeof *s->differ);
    QG_TRY(qg_run_execute(s->run[0], s->view, NULL, 0, 0));
    QG_TRY(qg_run_execute(s->run[1], s->view, &hook, 1, 0));
    for (size_t i = 0; i < s->n_value; i++) {
        out->nodes += s->differ[i] > 0;
        out->fresh += s->differ[i] > 0 && !s->value[i].samples;
        out->elements += s->differ[i];
    }
    return QG_OK;
}

static bool better(const score *a, const score *b)
{
    return a->fresh != b->fresh   ? a->fresh > b->fresh
           : a->nodes != b->nodes ? a->nodes > b->nodes
                                  : a->elements > b->elements;
}

/* --- samples --- */

static void put(qg_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case QG_F32:
        t->f32[i] = (float)x;
        break;
    case QG_I8:
        t->i8[i] = (int8_t)x;
        break;
    case QG_U8:
        t->u8[i] = (uint8_t)x;
        break;
    case QG_I16:
        t->i16[i] = (int16_t)x;
        break;
    case QG_U16:
        t->u16[i] = (uint16_t)x;
        break;
    case QG_I32:
        t->i32[i] = (int32_t)x;
        break;
    default:
        t->i64[i] = (int64_t)x;
        break;
    }
}

/* A code of the input's grid, as the input takes it.  part, in (0, 1], limits the
 * range around the zero point: small sums reach no clamp and show other roundings.
 * An input without codes: a float in [0, 1), or 0 or 1. */
static double draw(search *s, size_t input, double part)
{
    const qg_value *v = s->exe[0].model->graph->input.at[input];
    const qg_stored *g = &s->exe[0].program->stored[v->id];
    bool floats = s->sample[input].dtype == QG_F32;
    if (!g->codes)
        return floats ? (double)qg_rng_float(&s->rng)
                      : (double)qg_rng_below(&s->rng, 2);
    double low = g->zero[0] + (g->low - g->zero[0]) * part;
    double high = g->zero[0] + (g->high - g->zero[0]) * part;
    double q = floor(low + (high - low + 1) * (double)qg_rng_float(&s->rng));
    q = fmin(q, g->high);
    return floats ? (q - g->zero[0]) * (double)g->scale[0] : q;
}

/* A given sample, or (which is not below their number) random codes. */
static qg_status begin_sample(search *s, size_t which)
{
    static const double parts[] = { 1, 0.5, 0.25, 0.1 };
    size_t n = s->exe[0].graph->input.n;
    if (which < s->feed.feed.n) {
        const qg_tensor **in = QG_NEWN(s->arena, n, const qg_tensor *);
        if (!in)
            return qg_nomem(s->ctx);
        QG_TRY(s->feed.feed.fetch(s->feed.feed.ud, s->ctx, s->arena, which, in));
        for (size_t k = 0; k < n; k++)
            qg_tensor_copy(in[k], &s->sample[k]);
        return QG_OK;
    }
    double part = parts[qg_rng_below(&s->rng, sizeof parts / sizeof *parts)];
    for (size_t k = 0; k < n; k++)
        for (int64_t i = 0; i < qg_tensor_count(&s->sample[k]); i++)
            put(&s->sample[k], i, draw(s, k, part));
    return QG_OK;
}

/* Other codes at a few places of the best sample. */
static void change_sample(search *s)
{
    for (size_t k = 0; k < s->exe[0].graph->input.n; k++) {
        uint64_t n = (uint64_t)qg_tensor_count(&s->sample[k]);
        uint64_t places = 1 + qg_rng_below(&s->rng, n / 8 + 1);
        qg_tensor_copy(&s->best[k], &s->sample[k]);
        for (uint64_t i = 0; i < places; i++) {
            const double x = draw(s, k, 1); /* arguments have no order */
            put(&s->sample[k], (int64_t)qg_rng_below(&s->rng, n), x);
        }
    }
}

static void keep_best(search *s)
{
    for (size_t k = 0; k < s->exe[0].graph->input.n; k++)
        qg_tensor_copy(&s->sample[k], &s->best[k]);
}

/* A third of the tries are new beginnings, the others changes of the best: a search
 * uphill, without a guarantee.  A sample is kept even when nothing differs.  The
 * best is measured again, because s->differ is of the try that ran last. */
static qg_status find_sample(search *s, size_t which)
{
    score best = { 0, 0, 0 }, now;
    for (size_t i = 0; i < TRIES; i++) {
        if (i < TRIES / 3)
            QG_TRY(begin_sample(s, i ? SIZE_MAX : which));
        else
            change_sample(s);
        QG_TRY(measure(s, &now));
        if (i && !better(&now, &best))
            continue;
        best = now;
        keep_best(s);
    }
    for (size_t k = 0; k < s->exe[0].graph->input.n; k++) {
        qg_tensor place = s->best[k];
        size_t bytes;
        QG_TRY(qg_tensor_bytes(s->ctx, "probe", &place, &bytes));
        place.data = s->all[k].u8 + which * bytes;
        qg_tensor_copy(&s->best[k], &s->sample[k]);
        qg_tensor_copy(&s->best[k], &place);
    }
    QG_TRY(measure(s, &now));
    for (size_t i = 0; i < s->n_value; i++) {
        s->value[i].elements += s->differ[i];
        s->value[i].samples += s->differ[i] > 0;
    }
    return QG_OK;
}

/* --- programs --- */

static qg_status split(search *s, char **first, char **second)
{
    char *comma;
    const char *between = s->o->between;
    if (!between)
        return qg_fail(
            s->ctx, QG_ECONFIG,
            "probe: between: none given, expected two profiles or backends, P1,P2");
    *first = qg_arena_strdup(s->arena, between);
    if (!*first)
        return qg_nomem(s->ctx);
    comma = strchr(*first, ',');
    if (!comma || comma == *first || !comma[1] || strchr(comma + 1, ','))
        return qg_fail(
            s->ctx, QG_ECONFIG,
            "probe: between '%.100s': expected two profiles or backends, P1,P2",
            between);
    *comma = 0;
    *second = comma + 1;
    if (strcmp(*first, *second) == 0)
        return qg_fail(s->ctx, QG_ECONFIG,
                       "probe: between '%.100s': one profile twice, expected two",
                       between);
    return QG_OK;
}

/* A profile, or a backend, which stands for its profile. */
static qg_status profile_of(search *s, const char *word, const char **name)
{
    const qg_profile *p;
    qg_backend *b;
    qg_search profiles, backends;
    QG_TRY(qg_config_search(s->ctx, s->arena, "profiles", &profiles));
    QG_TRY(qg_config_search(s->ctx, s->arena, "backends", &backends));
    *name = word;
    qg_status status = qg_profile_load(s->ctx, s->arena, word, profiles, &p);
    if (status == QG_OK || qg_is_nomem(status))
        return status;
    status = qg_backend_load(s->ctx, s->arena, word, backends, &b);
    if (qg_is_nomem(status))
        return status;
    if (status != QG_OK) /* the message about profiles */
        return qg_profile_load(s->ctx, s->arena, word, profiles, &p);
    *name = b->profile;
    return b->profile ? QG_OK
                      : qg_fail(s->ctx, QG_ECONFIG,
                                "probe: between '%.100s': backend %s has no profile, "
                                "expected a profile or a backend with one",
                                s->o->between, word);
}

/* Equal programs compute the same on every input. */
static qg_status compare_programs(search *s)
{
    char key[2][QG_HASH_TEXT];
    const char *name = s->exe[0].program->profile->name;
    for (int i = 0; i < 2; i++)
        QG_TRY(qg_fit_key(s->ctx, s->exe[i].graph, key[i]));
    s->equal = strcmp(key[0], key[1]) == 0;
    if (s->equal && strcmp(name, s->exe[1].program->profile->name) == 0)
        return qg_fail(s->ctx, QG_ECONFIG,
                       "probe: between '%.100s': both are profile %s, expected two",
                       s->o->between, name);
    return QG_OK;
}

static qg_status open_programs(search *s)
{
    char *name[2];
    QG_TRY(split(s, &name[0], &name[1]));
    for (int i = 0; i < 2; i++) {
        qg_mode_request r = { .mode = qg_run_mode_name(QG_RUN_INTEGER) };
        QG_TRY(profile_of(s, name[i], &r.profile));
        QG_TRY(qg_executable_make(s->m, &r, &s->exe[i]));
    }
    return compare_programs(s);
}

/* Values that both store as codes of one type, and compute. */
static qg_status list_values(search *s)
{
    const qg_graph *g = s->exe[0].model->graph, *to = s->exe[1].graph;
    const qg_program *a = s->exe[0].program, *b = s->exe[1].program;
    s->value = QG_NEWN(s->arena, g->value.n, common);
    s->keep = QG_NEWN(s->arena, g->value.n, uint32_t);
    s->index = QG_NEWN(s->arena, to->value.n, uint32_t);
    s->differ = QG_NEWN(s->arena, g->value.n, uint64_t);
    if (!s->value || !s->keep || !s->index || !s->differ)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < to->value.n; i++)
        s->index[i] = QG_NONE;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *x = a->value[i], *y = b->value[i];
        if (!x || !y || !x->def || !y->def || !a->stored[i].codes ||
            x->type.dtype != y->type.dtype || !qg_same_dims(&x->type, &y->type) ||
            s->index[y->id] != QG_NONE)
            continue;
        s->index[y->id] = (uint32_t)s->n_value;
        s->keep[s->n_value] = x->id;
        s->value[s->n_value++] = (common){
            .value = g->value.at[i], .at = {x, y}
        };
    }
    if (s->n_value)
        return QG_OK;
    return qg_fail(s->ctx, QG_EUNSUPPORTED,
                   "probe: profiles %s and %s have no stored value in common, expected "
                   "codes of one type",
                   a->profile->name, b->profile->name);
}

/* The first plan keeps the common values.  In the second they are watched and
 * written at the outputs of their nodes; endpoints of a node are its inputs, then
 * its outputs. */
static qg_status make_plans(search *s)
{
    const qg_graph *g = s->exe[1].graph;
    const uint8_t **write = QG_NEWN(s->arena, g->node.n, const uint8_t *);
    uint8_t *watch = QG_NEWN(s->arena, g->node.n, uint8_t);
    if (!write || !watch)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < s->n_value; i++) {
        const qg_value *v = s->value[i].at[1];
        const qg_node *n = v->def;
        uint8_t *at = (uint8_t *)write[n->id];
        if (!at)
            at = QG_NEWN(s->arena, qg_node_endpoints(n), uint8_t);
        if (!at)
            return qg_nomem(s->ctx);
        at[n->n_in + v->def_slot] = 1;
        write[n->id] = at;
        watch[n->id] = 1;
    }
    bool reference = s->o->work.reference_kernels;
    qg_plan_options first = { .keep = s->keep,
                              .n_keep = s->n_value,
                              .reference = reference };
    qg_plan_options second = { .watch = watch, .write = write, .reference = reference };
    QG_TRY(qg_plan_new(s->ctx, s->exe[0].graph, &first, &s->plan[0]));
    QG_TRY(qg_plan_new(s->ctx, g, &second, &s->plan[1]));
    QG_TRY(qg_run_new(s->ctx, s->plan[0], &s->run[0]));
    return qg_run_new(s->ctx, s->plan[1], &s->run[1]);
}

/* Room for the samples of one input; an axis for them goes before its dims. */
static qg_status stack_samples(search *s, size_t input)
{
    const qg_tensor *t = &s->sample[input];
    int64_t dim[QG_MAX_RANK] = { (int64_t)s->n };
    if (t->rank == QG_MAX_RANK)
        return qg_fail(s->ctx, QG_EUNSUPPORTED,
                       "probe: input '%s' has %d dims, expected at most %d",
                       s->exe[0].graph->input.at[input]->name, (int)t->rank,
                       QG_MAX_RANK - 1);
    for (int32_t i = 0; i < t->rank; i++)
        dim[i + 1] = t->dim[i];
    qg_tensor_init(&s->all[input], t->dtype, t->rank + 1, dim);
    return qg_tensor_alloc(s->ctx, s->arena, &s->all[input]);
}

static qg_status make_samples(search *s)
{
    const qg_graph *g = s->exe[0].graph;
    size_t n = g->input.n;
    s->sample = QG_NEWN(s->arena, n, qg_tensor);
    s->best = QG_NEWN(s->arena, n, qg_tensor);
    s->view = QG_NEWN(s->arena, n, const qg_tensor *);
    s->all = QG_NEWN(s->arena, n, qg_tensor);
    if (!s->sample || !s->best || !s->view || !s->all)
        return qg_nomem(s->ctx);
    for (size_t k = 0; k < n; k++) {
        s->sample[k] = g->input.at[k]->type;
        if (!qg_tensor_known(&s->sample[k]))
            return qg_fail(s->ctx, QG_EUNSUPPORTED,
                           "probe: the shape of input '%s' is not known, expected "
                           "--shape",
                           g->input.at[k]->name);
        QG_TRY(qg_tensor_alloc(s->ctx, s->arena, &s->sample[k]));
        s->best[k] = s->sample[k];
        s->best[k].data = NULL;
        QG_TRY(qg_tensor_alloc(s->ctx, s->arena, &s->best[k]));
        s->view[k] = &s->sample[k];
        QG_TRY(stack_samples(s, k));
    }
    return qg_workload_has_samples(&s->o->work)
               ? qg_executable_feed(&s->exe[0], &s->o->work, &s->feed)
               : QG_OK;
}

/* --- the file and the report --- */

/* An array alone has no name, so several inputs need an archive. */
static qg_status check_path(const search *s, const char *path)
{
    size_t inputs = s->exe[0].graph->input.n;
    if (qg_path_ends_in(path, ".npz") || (inputs == 1 && qg_path_ends_in(path, ".npy")))
        return QG_OK;
    return qg_fail(s->ctx, QG_EUNSUPPORTED,
                   "probe: write %.200s: samples of %zu input%s, expected a name that "
                   "ends in %s",
                   path, inputs, inputs == 1 ? "" : "s",
                   inputs == 1 ? ".npy or .npz" : ".npz");
}

/* Arrays have the names of the model's inputs. */
static qg_status write(search *s, const char *path)
{
    const qg_graph *g = s->exe[0].model->graph;
    qg_npz_writer w;
    if (!qg_path_ends_in(path, ".npz"))
        return qg_npy_save(s->ctx, path, &s->all[0]);
    QG_TRY(qg_npz_create(s->ctx, path, false, &w));
    qg_status status = QG_OK;
    for (size_t k = 0; k < g->input.n && status == QG_OK; k++)
        status = qg_npz_add(&w, g->input.at[k]->name, &s->all[k]);
    if (status == QG_OK)
        status = qg_npz_commit(&w);
    qg_npz_abandon(&w);
    return status;
}

static qg_status fill(const search *s, const char *path, size_t samples, qg_report *r)
{
    qg_table *t;
    size_t told = 0;
    for (size_t i = 0; i < s->n_value; i++)
        told += s->value[i].samples > 0;
    QG_TRY(qg_report_add(r, "between", qg_cell_text(s->o->between)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(samples)));
    QG_TRY(qg_report_add(r, "values", qg_cell_count(s->n_value)));
    QG_TRY(qg_report_add(r, "told_apart", qg_cell_count(told)));
    if (told)
        QG_TRY(qg_report_add(r, "verdict", qg_cell_text("told apart")));
    else if (s->equal)
        QG_TRY(qg_report_add(r, "verdict",
                             qg_cell_text("the same arithmetic on this network: no "
                                          "input tells them apart")));
    else
        QG_TRY(qg_report_addf(r, "verdict",
                              "not told apart by %zu inputs, which proves nothing: try "
                              "other samples (-d) or another seed",
                              samples * TRIES));
    QG_TRY(qg_report_add(r, "written", qg_cell_text(path)));
    QG_TRY(qg_report_table(r, "nodes", "node value elements samples", &t));
    for (size_t i = 0; i < s->n_value; i++) {
        const common *c = &s->value[i];
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(c->value->def ? c->value->def->name : "input"),
            qg_cell_text(c->value->name), qg_cell_count((size_t)c->elements),
            qg_cell_count((size_t)c->samples)));
    }
    return QG_OK;
}

static qg_status run(search *s, const char *path, qg_report **out)
{
    size_t n = s->n = s->o->work.samples ? s->o->work.samples : SAMPLES;
    qg_report *r;
    QG_TRY(open_programs(s));
    QG_TRY(make_samples(s));
    QG_TRY(check_path(s, path));
    QG_TRY(list_values(s));
    QG_TRY(make_plans(s));
    for (size_t i = 0; i < n; i++) {
        QG_TRY(qg_ctx_step(s->ctx, &s->o->work.progress, "probe", i, n));
        QG_TRY(find_sample(s, i));
    }
    QG_TRY(write(s, path));
    if (!out)
        return QG_OK;
    QG_TRY(qg_report_new(s->ctx, "probe", &r));
    return qg_report_end(fill(s, path, n, r), r, out);
}

qg_status qg_model_probe(qg_model *m, const qg_probe_options *given, const char *path,
                         qg_report **report)
{
    qg_probe_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_probe_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    search s = { .ctx = m->ctx, .m = m, .o = &o, .rng = { o.seed ? o.seed : 1 } };
    s.arena = qg_arena_new(m->ctx->alloc);
    qg_status status = s.arena ? run(&s, path, report) : qg_nomem(m->ctx);
    for (int i = 0; i < 2; i++) {
        qg_run_free(s.run[i]);
        qg_plan_free(s.plan[i]);
        if (s.exe[i].model)
            qg_executable_free(&s.exe[i]);
    }
    qg_feed_close(&s.feed);
    qg_arena_free(s.arena);
    return status;
}
