#include "engine/config/pipeline_yaml.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"

enum { WHAT_TEXT = 128 }; /* room for "passes: <pass>"; longer names are cut */

static bool is_number(const qg_yaml *y)
{
    double x;
    return y->kind == QG_YAML_SCALAR && !y->quoted &&
           qg_num_parse_f64(y->text, strlen(y->text), &x);
}

/* A number, or yes and no for 1 and 0.  The kind is tested before reading, because a
 * failed attempt would record a message. */
static qg_status read_value(qg_ctx *ctx, const qg_yaml *y, const char *what,
                            double *out)
{
    bool yes = false;
    if (is_number(y))
        return qg_yaml_number(ctx, y, what, -1e30, 1e30, out);
    if (y->kind != QG_YAML_SCALAR)
        return qg_yaml_fail(ctx, y, what, "expected a number, yes or no");
    if (qg_yaml_bool(ctx, y, what, &yes) != QG_OK)
        return qg_yaml_fail(ctx, y, what,
                            y->quoted ? "the text '%s', expected a number, yes or no "
                                        "(true or false)"
                                      : "'%s', expected a number, yes or no",
                            y->text);
    *out = yes ? 1 : 0;
    return QG_OK;
}

qg_status qg_read_pass_settings(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                                const char *pass, qg_pass_settings *out)
{
    char what[WHAT_TEXT];
    (void)snprintf(what, sizeof what, "passes: %.100s", pass);
    qg_pass_setting s = { pass, "run", 0, y->file, y->line };
    if (y->kind == QG_YAML_SCALAR) {
        QG_TRY(read_value(ctx, y, what, &s.value));
        return qg_vec_push(ctx, a, out, s);
    }
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_fail(ctx, y, what, "expected yes, no or a map of parameters");
    for (size_t i = 0; i < y->n; i++) {
        s.param = y->key[i];
        s.line = y->item[i]->line;
        QG_TRY(read_value(ctx, y->item[i], what, &s.value));
        QG_TRY(qg_vec_push(ctx, a, out, s));
    }
    return QG_OK;
}

/* A word, or a map of one pass to its parameters. */
static qg_status read_step(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                           const char **name, qg_pass_settings *setting)
{
    if (y->kind != QG_YAML_MAP)
        return qg_yaml_text(ctx, y, "passes", name);
    if (y->n != 1)
        return qg_yaml_fail(ctx, y, "passes",
                            "a map of %zu passes, expected a single pass", y->n);
    *name = y->key[0];
    return qg_read_pass_settings(ctx, a, y->item[0], y->key[0], setting);
}

/* Pass names are not checked here: this room has no list of passes, the driver does. */
static qg_status read_steps(qg_ctx *ctx, qg_arena *a, const qg_yaml *y, qg_pipeline *p)
{
    if (y->kind != QG_YAML_LIST || y->n == 0)
        return qg_yaml_fail(ctx, y, "passes", "expected a list of passes");
    const char **name = QG_NEWN(a, y->n, const char *);
    uint32_t *line = QG_NEWN(a, y->n, uint32_t);
    if (!name || !line)
        return qg_nomem(ctx);
    for (size_t i = 0; i < y->n; i++) {
        line[i] = y->item[i]->line;
        QG_TRY(read_step(ctx, a, y->item[i], &name[i], &p->setting));
    }
    p->pass = name;
    p->line = line;
    p->n = y->n;
    return QG_OK;
}

qg_status qg_pipeline_load(qg_ctx *ctx, qg_arena *a, const char *name, qg_search search,
                           qg_pipeline *out)
{
    static const char *const keys[] = { "name", "why", "passes", NULL };
    qg_pipeline p = { 0 };
    const char *path;
    const qg_yaml *file, *y;
    qg_wanted w = { "pipeline", name, NULL, NULL, search };
    QG_TRY(qg_config_find(ctx, a, &w, &path));
    QG_TRY(qg_yaml_load(ctx, a, path, &file));
    QG_TRY(qg_yaml_keys(ctx, file, "pipeline", keys));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "name", &y));
    QG_TRY(qg_yaml_text(ctx, y, "name", &p.name));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "why", &y));
    QG_TRY(qg_yaml_text(ctx, y, "why", &p.why));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "passes", &y));
    QG_TRY(read_steps(ctx, a, y, &p));
    p.file = file->file;
    *out = p;
    return QG_OK;
}

void qg_pipeline_cut(qg_pipeline *p, size_t n)
{
    size_t kept = 0;
    assert(n <= p->n);
    p->n = n;
    for (size_t i = 0; i < p->setting.n; i++)
        for (size_t k = 0; k < n; k++)
            if (strcmp(p->setting.at[i].pass, p->pass[k]) == 0) {
                p->setting.at[kept++] = p->setting.at[i];
                break;
            }
    p->setting.n = kept;
}
