/* Random networks of random backends under the rules of every target: what must hold of
 * all reports.
 *
 *     fates      the counts of nodes are those of the table nodes; of floats there are
 *                more there, which compute shapes or conditions
 *     findings   errors, warnings and notes add up to `found`, and to the rows of the
 *                table findings, as the column findings of the table rules does
 *     places     a finding names a node, an endpoint or nothing
 *     files      with SARIF and a patch the report is the same, and the patch quantizes
 *     again      a second report is the first one
 *
 * test_lint [N [SEED]]: N networks from SEED on; a failure prints seed, backend, target
 * and the network. */
#include "tests/support/models.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config/search.h"
#include "engine/core/rng.h"
#include "tests/support/random_graph.h"
#include "tests/support/scratch.h"

static size_t n_networks = 40;
static uint64_t first_seed = 1;
static size_t n_found, n_mended, n_integer; /* over all reports */

typedef struct trial {
    uint64_t seed;
    qg_ctx *ctx;
    char text[QG_RANDOM_GRAPH_TEXT];
    const char *backend, *target;
    char sarif[SCRATCH_PATH], patch[SCRATCH_PATH];
} trial;

static void complain(const trial *t, const char *what)
{
    print_error("%s\n", t->text);
    fail_msg("seed %" PRIu64 ", backend %s, target %s: %s: %s", t->seed, t->backend,
             t->target ? t->target : "none", what, qg_ctx_message(t->ctx));
}

#define must(t, holds)                                                                 \
    do {                                                                               \
        if (!(holds))                                                                  \
            complain((t), #holds);                                                     \
    } while (0)

static const char **names_in(trial *t, const char *folder, size_t *n)
{
    const char **name;
    must(t, qg_config_names(t->ctx, t->ctx->arena,
                            (qg_search){ .dir = &folder, .n = 1 }, &name, n) == QG_OK);
    return name;
}

/* policy: NULL for none. */
static qg_model *quantized(trial *t, const char *policy)
{
    qg_model *m;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = t->backend;
    o.policy = policy ? &policy : NULL;
    o.n_policy = policy != NULL;
    o.work = (qg_workload){ .data = "random:2", .jobs = 1 };
    must(t, qg_model_open_text(t->ctx, t->text, strlen(t->text), &m) == QG_OK);
    must(t, qg_model_quantize(m, &o, NULL) == QG_OK);
    return m;
}

static size_t fact(const trial *t, const qg_report *r, const char *name)
{
    double x = 0;
    if (!qg_report_number(r, name, &x))
        complain(t, name);
    return (size_t)x;
}

/* Of the table nodes, those of one of two fates. */
static size_t rows_with(const qg_table *nodes, const char *fate, const char * or)
{
    size_t n = 0;
    for (size_t i = 0; i < qg_table_rows(nodes); i++) {
        const char *own = qg_table_cell(nodes, i, "fate")->text;
        n += strcmp(own, fate) == 0 || strcmp(own, or) == 0;
    }
    return n;
}

static void check_counts(const trial *t, const qg_report *r)
{
    const qg_table *findings = qg_report_table_named(r, "findings"),
                   *rules = qg_report_table_named(r, "rules"),
                   *nodes = qg_report_table_named(r, "nodes");
    const size_t found = fact(t, r, "found"), integer = fact(t, r, "integer_kernels");
    size_t by_rule = 0;
    for (size_t i = 0; i < qg_table_rows(rules); i++)
        by_rule += (size_t)qg_table_cell(rules, i, "findings")->number;
    must(t, integer == rows_with(nodes, "integer", "integer"));
    must(t, fact(t, r, "moves_of_codes") == rows_with(nodes, "moves", "moves"));
    must(t, fact(t, r, "fused_nodes") == rows_with(nodes, "fused", "fused"));
    must(t, fact(t, r, "other_kernels") == rows_with(nodes, "other", "other"));
    must(t, fact(t, r, "float_nodes") <= rows_with(nodes, "blocked", "none"));
    must(t,
         fact(t, r, "errors") + fact(t, r, "warnings") + fact(t, r, "notes") == found);
    must(t, qg_table_rows(findings) == found && by_rule == found);
    must(t, fact(t, r, "integer_compute_nodes") <= fact(t, r, "compute_nodes"));
    n_found += found;
    n_integer += integer;
}

/* A finding is at a node of the network or at an endpoint of one. */
static void check_places(const trial *t, const qg_report *r)
{
    const qg_table *findings = qg_report_table_named(r, "findings"),
                   *nodes = qg_report_table_named(r, "nodes");
    for (size_t i = 0; i < qg_table_rows(findings); i++) {
        const qg_cell *where = qg_table_cell(findings, i, "where");
        bool known = where->kind == QG_CELL_NONE;
        for (size_t k = 0; !known && k < qg_table_rows(nodes); k++) {
            const char *name = qg_table_cell(nodes, k, "node")->text;
            const size_t n = strlen(name);
            known = strncmp(where->text, name, n) == 0 &&
                    (!where->text[n] || where->text[n] == '.');
        }
        must(t, known);
    }
}

static qg_report *lint(trial *t, qg_model *m, bool files)
{
    qg_report *r = NULL;
    qg_lint_options o;
    qg_lint_options_init(&o, sizeof o);
    o.target = t->target;
    o.sarif = files ? t->sarif : NULL;
    o.patch = files ? t->patch : NULL;
    must(t, qg_model_lint(m, &o, &r) == QG_OK);
    return r;
}

/* The files, and the network quantized with the patch. */
static void check_files(trial *t, qg_model *m, const qg_report *first)
{
    qg_report *r = lint(t, m, true);
    must(t, fact(t, r, "found") == fact(t, first, "found"));
    must(t, fact(t, r, "mended_by_patch") <= fact(t, r, "found"));
    n_mended += fact(t, r, "mended_by_patch");
    qg_report_free(r);
    qg_model *again = quantized(t, t->patch);
    r = lint(t, again, false);
    check_counts(t, r);
    qg_report_free(r);
    qg_model_close(again);
    (void)remove(t->sarif);
    (void)remove(t->patch);
}

static void check_target(trial *t, qg_model *m, bool files)
{
    qg_report *r = lint(t, m, false), *again = lint(t, m, false);
    check_counts(t, r);
    check_places(t, r);
    must(t, strcmp(qg_report_json(r), qg_report_json(again)) == 0);
    qg_report_free(again);
    if (files)
        check_files(t, m, r);
    qg_report_free(r);
}

static void try_one(uint64_t seed)
{
    trial t = { .seed = seed };
    size_t backends, targets;
    qg_rng rng = { seed ^ 0x11a7 };
    assert_int_equal(qg_open(NULL, &t.ctx), QG_OK);
    t.ctx->config_dir = QG_CONFIG_DIR;
    (void)scratch_path(t.sarif, "lint.sarif");
    (void)scratch_path(t.patch, "lint.yaml");
    random_graph(seed, t.text);
    const char **backend = names_in(&t, "configs/backends", &backends);
    const char **target = names_in(&t, "configs/lint", &targets);
    t.backend = backend[qg_rng_below(&rng, backends)];
    qg_model *m = quantized(&t, NULL);
    const size_t with_files = qg_rng_below(&rng, targets);
    for (size_t i = 0; i < targets; i++) {
        t.target = target[i];
        if (strcmp(t.target, "common") != 0) /* a parent */
            check_target(&t, m, i == with_files);
    }
    qg_model_close(m);
    qg_close(t.ctx);
}

static void random_networks(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_networks; i++)
        try_one(first_seed + i);
    print_message("%zu networks: %zu findings, %zu mended, %zu integer kernels\n",
                  n_networks, n_found, n_mended, n_integer);
    assert_cmp_int(n_found, >, n_networks);
    assert_cmp_int(n_mended, >, 0);
    assert_cmp_int(n_integer, >, n_networks);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_networks) };
    if (argc > 1)
        n_networks = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
