#include "tests/support/qgt_runner.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "engine/exec/drive.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/override.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/config/profile_yaml.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "engine/lower/program.h"
#include "engine/quant/quirk.h"
#include "engine/quant/tqc_text.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "tests/support/test.h"

typedef struct runner {
    const char *path;
    char *next;          /* unread text */
    int line, case_line; /* of the last line read, of its case */
    qg_ctx *ctx;
    qg_graph *graph, *original;
    qg_backend *backend;
    qg_pass_env env;
    qg_feed feed;
    char fails[256]; /* "QG_ECONFIG text", "" */
    jmp_buf next_case;
    int failed; /* cases */
} runner;

/* Reports a failure and continues with the next case. */
#define broken(r, ...)                                                                 \
    do {                                                                               \
        print_error("%s:%d: ", (r)->path, (r)->line);                                  \
        print_error(__VA_ARGS__);                                                      \
        print_error(" (case at line %d)\n", (r)->case_line);                           \
        longjmp((r)->next_case, 1);                                                    \
    } while (0)
#define must(r, expr)                                                                  \
    do {                                                                               \
        if ((expr) != QG_OK)                                                           \
            broken(r, "%s", qg_ctx_message((r)->ctx));                                 \
    } while (0)

/* The next line without its end and surrounding blanks; NULL at the end. */
static char *read_line(runner *r, bool trim)
{
    char *at = r->next;
    if (!*at)
        return NULL;
    char *end = at + strcspn(at, "\n");
    r->next = *end ? end + 1 : end;
    *end = 0;
    r->line++;
    while (end > at && end[-1] == ' ')
        *--end = 0;
    return trim ? at + strspn(at, " ") : at;
}

/* Lines up to "end", each trimmed, joined with newlines. */
static char *read_block(runner *r)
{
    char *text = qg_arena_strdup(r->ctx->arena, ""), *line;
    while ((line = read_line(r, true)) && strcmp(line, "end") != 0)
        if (*line && *line != '#')
            text = qg_arena_printf(r->ctx->arena, "%s%s\n", text, line);
    return text;
}

static void expect_block(runner *r, const char *got)
{
    int line = r->line;
    const char *want = read_block(r);
    char *trimmed = qg_arena_strdup(r->ctx->arena, ""), *copy;
    copy = qg_arena_strdup(r->ctx->arena, got);
    for (char *s = strtok(copy, "\n"); s; s = strtok(NULL, "\n"))
        trimmed = qg_arena_printf(r->ctx->arena, "%s%s\n", trimmed, s + strspn(s, " "));
    if (strcmp(want, trimmed) != 0) {
        print_error("%s:%d: expected\n%sgot\n%s", r->path, line, want, trimmed);
        broken(r, "blocks differ");
    }
}

/* --- graph and data --- */

static void parse_graph(runner *r, const char *text, qg_graph **out)
{
    qg_text_source source = { .name = r->path, .text = text, .size = strlen(text) };
    must(r, qg_text_parse(r->ctx, &source, out));
}

/* Blank lines are prepended, so that the parser counts the lines of the file. */
static void read_graph(runner *r, char *first)
{
    char *blank = QG_NEWN(r->ctx->arena, r->line, char), *line;
    memset(blank, '\n', (size_t)r->line - 1);
    char *text = qg_arena_printf(r->ctx->arena, "%s%s\n", blank, first);
    bool closed = first[strlen(first) - 1] == '}';
    while (!closed && (line = read_line(r, false))) {
        text = qg_arena_printf(r->ctx->arena, "%s%s\n", text, line);
        closed = strcmp(line, "}") == 0;
    }
    parse_graph(r, text, &r->graph);
    parse_graph(r, text, &r->original);
    r->env = (qg_pass_env){ .ctx = r->ctx, .graph = r->graph };
}

/* Sample k of input i: uniform in [-1, 1), with a separate seed. */
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_graph *g = ud;
    for (size_t i = 0; i < g->input.n; i++) {
        qg_rng rng = { 1 + 1000 * sample + i };
        qg_tensor *t = QG_NEW(a, qg_tensor);
        *t = g->input.at[i]->type;
        for (int32_t d = 0; d < t->rank; d++)
            t->dim[d] = t->dim[d] < 0 ? 1 : t->dim[d];
        QG_TRY(qg_tensor_alloc(ctx, a, t));
        for (int64_t k = 0; k < qg_tensor_count(t); k++)
            t->f32[k] = qg_rng_range(&rng, -1, 1);
        in[i] = t;
    }
    return QG_OK;
}

/* Output 0 of a graph for sample 0, copied to the heap. */
static float *run_float(runner *r, qg_graph *g, int64_t *count)
{
    qg_plan *plan;
    qg_run *run;
    qg_plan_options o = { .mode = QG_MODE_FLOAT };
    const qg_tensor *in[8];
    must(r, qg_plan_new(r->ctx, g, &o, &plan));
    must(r, qg_run_new(r->ctx, plan, &run));
    must(r, fetch(g, r->ctx, r->ctx->arena, 0, in));
    must(r, qg_run_execute(run, in, NULL, 0, 0));
    const qg_tensor *y = qg_run_output(run, 0);
    *count = qg_tensor_count(y);
    float *copy = malloc((size_t)*count * sizeof *copy);
    memcpy(copy, y->f32, (size_t)*count * sizeof *copy);
    qg_run_free(run);
    qg_plan_free(plan);
    return copy;
}

static void expect_same(runner *r, double tolerance)
{
    int64_t n, m;
    float *a = run_float(r, r->original, &n), *b = run_float(r, r->graph, &m);
    if (n != m)
        broken(r, "%d outputs, were %d", (int)m, (int)n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance))
            broken(r, "output %d is %g, was %g", (int)i, (double)b[i], (double)a[i]);
    free(a);
    free(b);
}

/* --- directives --- */

/* Like strtok, but requires a word. */
static char *next_word(runner *r, char *text, const char *ends)
{
    char *found = strtok(text, ends);
    if (!found)
        broken(r, "the line ends early");
    return found;
}

static void use_backend(runner *r, const char *name)
{
    const char *dir = QG_CONFIG_DIR "/backends";
    must(r, qg_backend_load(r->ctx, r->ctx->arena, name,
                            (qg_search){ .dir = &dir, .n = 1 }, &r->backend));
    r->env.backend = r->backend;
}

static void add_quirks(runner *r, char *names)
{
    for (char *s = strtok(names, ", "); s; s = strtok(NULL, ", ")) {
        uint64_t mask;
        must(r, qg_quirk_named(r->ctx, s, &mask));
        must(r, qg_backend_quirks(r->ctx, r->ctx->arena, mask, r->backend));
        if (r->env.quant)
            r->env.quant->quirks |= mask;
    }
}

/* Options of the backend after those that are there, without those for passes that are
 * not run here. */
static void choose_settings(runner *r, const char *const *name, size_t n)
{
    const qg_pass_settings *all = &r->backend->setting;
    size_t before = r->env.options.n_setting;
    qg_pass_setting *s = QG_NEWN(r->ctx->arena, before + all->n, qg_pass_setting);
    if (before)
        memcpy(s, r->env.options.setting, before * sizeof *s);
    r->env.options.setting = s;
    for (size_t i = 0; i < all->n; i++) {
        bool runs = !qg_pass_find(qg_passes, all->at[i].pass);
        for (size_t k = 0; k < n; k++)
            runs |= strcmp(name[k], all->at[i].pass) == 0;
        if (runs)
            s[r->env.options.n_setting++] = all->at[i];
    }
}

/* The outcome of a run or lowering, which `fails` may have announced; true: it
 * succeeded. */
static bool succeeded(runner *r, qg_status s)
{
    if (!r->fails[0]) {
        must(r, s);
        return true;
    }
    char *text = strchr(r->fails, ' ');
    if (!text)
        broken(r, "fails %s, expected a status and a text", r->fails);
    *text++ = 0;
    if (strcmp(qg_status_name(s), r->fails) != 0 ||
        !strstr(qg_ctx_message(r->ctx), text))
        broken(r, "%s: %s", qg_status_name(s), qg_ctx_message(r->ctx));
    r->fails[0] = 0;
    return false;
}

static void run_passes(runner *r, const char *const *name, size_t n)
{
    if (r->backend)
        choose_settings(r, name, n);
    (void)succeeded(r, qg_pass_run_all(&r->env, qg_passes, name, n));
    r->env.options.n_setting = 0;
}

static void run_named(runner *r, char *names)
{
    const char *name[32];
    size_t n = 0;
    for (char *s = strtok(names, " "); s && n < 32; s = strtok(NULL, " "))
        name[n++] = s;
    run_passes(r, name, n);
}

static void quantize(runner *r)
{
    const char *dir = QG_CONFIG_DIR "/pipelines";
    qg_pipeline p;
    must(r, qg_pipeline_load(r->ctx, r->ctx->arena, "default",
                             (qg_search){ .dir = &dir, .n = 1 }, &p));
    r->env.options.setting = p.setting.at;
    r->env.options.n_setting = p.setting.n;
    run_passes(r, p.pass, p.n);
}

/* --- lowering --- */

static const char *names_of(runner *r, qg_value *const *v, uint32_t n)
{
    const char *text = "";
    for (uint32_t k = 0; k < n; k++)
        text = qg_arena_printf(r->ctx->arena, "%s%s%s", text, k ? ", " : "",
                               v[k] ? v[k]->name : "_");
    return text;
}

static const char *line_of(runner *r, const qg_node *n)
{
    const char *row = "", *limits = "";
    int64_t low, high;
    must(r, qg_attr_string(r->ctx, n, "row", "", &row));
    must(r, qg_attr_int(r->ctx, n, "out0_low", 0, &low));
    must(r, qg_attr_int(r->ctx, n, "out0_high", 0, &high));
    if (low != high)
        limits = qg_arena_printf(r->ctx->arena, " [%d, %d]", (int)low, (int)high);
    return qg_arena_printf(r->ctx->arena, "%s %s = %s(%s)%s%s%s",
                           names_of(r, n->out, n->n_out),
                           qg_dtype_name(n->out[0]->type.dtype), n->op->name,
                           names_of(r, n->in, n->n_in), *row ? " " : "", row, limits);
}

/* Constants that stand for results of the graph, element by element. */
static const char *constants_of(runner *r, const qg_program *p)
{
    const char *text = "";
    for (size_t i = 0; i < p->graph->value.n; i++) {
        const qg_value *v = p->graph->value.at[i], *of;
        const qg_tensor *t = v->constant;
        if (!t || t->dtype != QG_F32 || !(of = qg_graph_value(p->from, v->name)) ||
            of->constant)
            continue;
        text = qg_arena_printf(r->ctx->arena, "%s%s =", text, v->name);
        for (int64_t k = 0; k < qg_tensor_count(t); k++)
            text = qg_arena_printf(r->ctx->arena, "%s %g", text, (double)t->f32[k]);
        text = qg_arena_printf(r->ctx->arena, "%s\n", text);
    }
    return text;
}

static const char *program_text(runner *r, const qg_program *p)
{
    const char *text = constants_of(r, p);
    for (size_t i = 0; i < p->graph->node.n; i++)
        text = qg_arena_printf(r->ctx->arena, "%s%s\n", text,
                               line_of(r, p->graph->node.at[i]));
    for (size_t i = 0; i < p->from->node.n; i++) {
        const qg_program_node *n = &p->node[i];
        text = qg_arena_printf(r->ctx->arena, "%s%s %s%s%s%s%s\n", text,
                               p->from->node.at[i]->name, qg_lowered_name(n->how),
                               *n->row ? " " : "", n->row, *n->why ? ": " : "", n->why);
    }
    return text;
}

static void expect_program(runner *r, char *words)
{
    const char *dir = QG_CONFIG_DIR "/profiles", *name = next_word(r, words, " "), *w;
    qg_lower_options o = { 0 };
    const qg_profile *profile;
    qg_program *p = NULL;
    while ((w = strtok(NULL, " "))) {
        o.codes |= strcmp(w, "codes") == 0;
        o.require_integer |= strcmp(w, "require-integer") == 0;
        o.float_inputs |= strcmp(w, "float-inputs") == 0;
    }
    must(r, qg_profile_load(r->ctx, r->ctx->arena, name,
                            (qg_search){ .dir = &dir, .n = 1 }, &profile));
    if (!r->env.quant) /* a graph of a file, without records */
        must(r, qg_infer(r->graph, NULL, 0));
    if (!succeeded(r, qg_lower_program(r->graph, profile, &o, &p)))
        return;
    const char *text = program_text(r, p);
    qg_program_free(p);
    expect_block(r, text);
}

static qg_tqc *endpoint(runner *r, const char *name)
{
    qg_tqc *t = r->env.quant ? qg_tqc_named(r->env.quant->graph, name) : NULL;
    if (!t)
        broken(r, "no endpoint '%s'", name);
    return t;
}

static void set_scale(runner *r, char *words)
{
    qg_tqc *t = endpoint(r, next_word(r, words, " "));
    float scale = strtof(next_word(r, NULL, " "), NULL);
    char *last = strtok(NULL, " ");
    int32_t offset = last ? atoi(last) : 0;
    r->env.quant->author = "test";
    must(r, qg_tqc_set_param(r->env.quant, t, 1, &scale, &offset));
    must(r, qg_tqc_set_state(r->env.quant, t, QG_TQC_ACTIVATED));
}

static void expect_tqcs(runner *r, const char *detail)
{
    char *text;
    enum qg_tqc_detail d = strcmp(detail, "full") == 0    ? QG_TQC_FULL
                           : strcmp(detail, "brief") == 0 ? QG_TQC_BRIEF
                                                          : QG_TQC_STATES;
    must(r, qg_quant_text(r->env.quant, d, r->ctx->arena, &text));
    expect_block(r, text);
}

static void expect_platforms(runner *r)
{
    static const char *const word[] = { "none", "quantized", "fp32", "soi" };
    char *text = qg_arena_strdup(r->ctx->arena, "");
    for (size_t i = 0; i < r->graph->node.n; i++) {
        const qg_node *n = r->graph->node.at[i];
        text = qg_arena_printf(r->ctx->arena, "%s%s %s: %s\n", text, n->name,
                               word[n->platform], n->reason);
    }
    expect_block(r, text);
}

static const qg_coverage *coverage(runner *r, const char *pattern)
{
    for (size_t i = 0; i < r->env.coverage.n; i++)
        if (strcmp(r->env.coverage.at[i].pattern, pattern) == 0)
            return &r->env.coverage.at[i];
    broken(r, "pattern '%s' was never reported", pattern);
    return NULL;
}

static void expect_near(runner *r, char *words)
{
    const qg_coverage *c = coverage(r, next_word(r, words, " "));
    const char *node = next_word(r, NULL, " "), *text = next_word(r, NULL, "");
    for (size_t i = 0; i < c->near_miss.n; i++)
        if (strcmp(c->near_miss.at[i].node, node) == 0 &&
            strstr(c->near_miss.at[i].condition, text))
            return;
    for (size_t i = 0; i < c->near_miss.n; i++)
        print_error("near miss: %s %s\n", c->near_miss.at[i].node,
                    c->near_miss.at[i].condition);
    broken(r, "no such near miss");
}

static void directive(runner *r, char *word, char *rest)
{
    if (strcmp(word, "backend") == 0)
        use_backend(r, rest);
    else if (strcmp(word, "set") == 0)
        must(r, qg_backend_set(r->ctx, r->ctx->arena, rest, r->backend));
    else if (strcmp(word, "quirks") == 0)
        add_quirks(r, rest);
    else if (strcmp(word, "dispatcher") == 0)
        r->env.options.dispatcher = rest;
    else if (strcmp(word, "observer") == 0)
        r->env.options.observer = rest;
    else if (strcmp(word, "samples") == 0) {
        r->feed = (qg_feed){ .n = (size_t)atoi(rest), .fetch = fetch, .ud = r->graph };
        r->env.feed = &r->feed;
    } else if (strcmp(word, "run") == 0)
        run_named(r, rest);
    else if (strcmp(word, "quantize") == 0)
        quantize(r);
    else if (strcmp(word, "lower") == 0)
        expect_program(r, rest);
    else if (strcmp(word, "fails") == 0)
        (void)snprintf(r->fails, sizeof r->fails, "%s", rest);
    else if (strcmp(word, "scale") == 0)
        set_scale(r, rest);
    else if (strcmp(word, "expect") == 0)
        expect_tqcs(r, rest);
    else if (strcmp(word, "platforms") == 0)
        expect_platforms(r);
    else if (strcmp(word, "near") == 0)
        expect_near(r, rest);
    else if (strcmp(word, "same") == 0)
        expect_same(r, strtod(rest, NULL));
    else if (strcmp(word, "changed") == 0) {
        if (r->env.changed != (uint32_t)atoi(rest))
            broken(r, "%u changes, expected %s", r->env.changed, rest);
    } else if (strcmp(word, "matched") == 0) {
        const qg_coverage *c = coverage(r, next_word(r, rest, " "));
        const char *n = next_word(r, NULL, " ");
        if (c->matched != (uint32_t)atoi(n))
            broken(r, "matched %u, expected %s", c->matched, n);
    } else if (strcmp(word, "nodes") == 0) {
        char *text;
        size_t size;
        must(r, qg_text_print(r->graph, NULL, r->ctx->arena, &text, &size));
        expect_block(r, text);
    } else
        broken(r, "unknown directive '%s'", word);
}

static void close_case(runner *r)
{
    if (r->fails[0]) {
        print_error("%s:%d: nothing failed: %s\n", r->path, r->case_line, r->fails);
        r->failed++;
        r->fails[0] = 0;
    }
    qg_graph_free(r->graph);
    qg_graph_free(r->original);
    qg_ctx_free(r->ctx);
    r->graph = r->original = NULL;
    r->backend = NULL;
    r->ctx = NULL;
}

static void open_case(runner *r)
{
    if (r->ctx)
        close_case(r);
    r->case_line = r->line;
    r->ctx = qg_ctx_new(qg_alloc_libc);
    r->ctx->registry = &qg_ops_registry;
    r->ctx->config_dir = QG_CONFIG_DIR;
    r->feed = (qg_feed){ 0 };
}

static void skip_case(runner *r)
{
    while (*r->next && strncmp(r->next, "case ", 5) != 0)
        (void)read_line(r, true);
    r->failed++;
    r->fails[0] = 0;
}

static void run_line(runner *r, char *line)
{
    char *rest = line + strcspn(line, " ");
    if (!*line || *line == '#')
        return;
    if (strncmp(line, "case ", 5) == 0) {
        open_case(r);
    } else if (strncmp(line, "graph", 5) == 0) {
        read_graph(r, line);
    } else {
        if (*rest)
            *rest++ = 0;
        directive(r, line, rest);
    }
}

int run_qgt_file(const char *path)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    runner *r = calloc(1, sizeof *r);
    size_t size;
    char *line;
    r->path = path;
    assert_ok(ctx,
              qg_file_text(ctx, ctx->arena, (qg_file_request){ "read", path, 1 << 20 },
                           &r->next, &size));
    if (setjmp(r->next_case))
        skip_case(r);
    while ((line = read_line(r, true)))
        run_line(r, line);
    if (r->ctx)
        close_case(r);
    int failed = r->failed;
    free(r);
    qg_ctx_free(ctx);
    return failed;
}

void assert_qgt_folder(const char *folder)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n, run = 0;
    int failed = 0;
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, folder, &name, &n));
    for (size_t i = 0; i < n; i++)
        if (strstr(name[i], ".qgt")) {
            failed += run_qgt_file(qg_path_join(ctx->arena, folder, name[i]));
            run++;
        }
    assert_cmp_int(run, >, 0);
    assert_int_equal(failed, 0);
    qg_ctx_free(ctx);
}
