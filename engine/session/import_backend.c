/* import_backend.c -- configurations of other tools as backend files. */
#include "engine/session/session.h"
#include "engine/report/report.h"
#include "engine/core/file.h"
#include "engine/core/reads.h"
#include "engine/formats/config_format.h"

enum { MOST_BYTES = 1 << 24 }; /* shipped configurations have a few thousand */

/* "configs/my-npu.yaml" -> "my-npu" */
static const char *backend_name(qg_arena *a, const char *path)
{
    const char *base = qg_path_base(path);
    size_t n = strlen(base);
    return qg_arena_strndup(a, base, qg_path_ends_in(base, ".yaml") ? n - 5 : n);
}

static qg_status describe(const qg_config_result *result, const char *backend,
                          qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_add(r, "backend", qg_cell_text(backend)));
    QG_TRY(qg_report_add(r, "rules", qg_cell_count(result->rules)));
    QG_TRY(qg_report_add(r, "fusions", qg_cell_count(result->fusions)));
    QG_TRY(qg_report_table(r, "not_carried_over", "what", &t));
    for (size_t i = 0; i < result->note.n; i++)
        QG_TRY(qg_table_add(r, t, qg_cell_text(result->note.at[i])));
    return QG_OK;
}

qg_status qg_import_backend(qg_ctx *ctx, const char *path, const char *format,
                            const char *output, qg_report **report)
{
    const qg_json *root;
    const qg_config_format *from;
    qg_config_result result;
    qg_report *r;
    QG_TRY(qg_config_format_named(ctx, format, &from));
    qg_reads_forget(ctx);
    const char *name = backend_name(ctx->arena, output);
    if (!name)
        return qg_nomem(ctx);
    QG_TRY(qg_json_read(ctx, ctx->arena, path, MOST_BYTES, &root));
    QG_TRY(from->convert(ctx, ctx->arena, root,
                         (qg_config_labels){ name, qg_path_base(path) }, &result));
    QG_TRY(qg_file_write(ctx, output, result.yaml, result.size));
    if (!report)
        return QG_OK;
    QG_TRY(qg_report_new(ctx, "import-backend", &r));
    return qg_report_end(describe(&result, name, r), r, report);
}
