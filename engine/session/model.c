#include "engine/session/session.h"

#include "engine/core/hash.h"
#include "engine/core/num.h"
#include "engine/formats/formats.h"
#include "engine/onnx/export.h"

QG_OPTIONS_INIT(qg_model_options)

/* "name=1x3x224x224"; the name may hold '='. */
static qg_status parse_shape(qg_ctx *ctx, qg_arena *a, const char *text,
                             qg_fixed_shape *out)
{
    if (!text)
        return qg_fail(ctx, QG_ECONFIG, "shape: NULL, expected NAME=DIMxDIMx...");
    const char *equals = strrchr(text, '=');
    const char *p = equals ? equals + 1 : "";
    qg_fixed_shape s = {
        .input = equals ? qg_arena_strndup(a, text, (size_t)(equals - text)) : NULL
    };
    bool ok = equals && equals != text;
    while (ok && *p) {
        size_t n = strcspn(p, "x");
        ok = s.rank < QG_MAX_RANK && qg_num_parse_i64(p, n, &s.dim[s.rank++]) &&
             s.dim[s.rank - 1] > 0 && (p[n] == '\0' || p[n + 1] != '\0');
        p += n + (p[n] == 'x');
    }
    if (!ok || s.rank == 0)
        return qg_fail(ctx, QG_ECONFIG, "shape: '%s': expected NAME=DIMxDIMx...", text);
    *out = s;
    return s.input ? QG_OK : qg_nomem(ctx);
}

static qg_status parse_shapes(qg_ctx *ctx, const qg_model_options *o, qg_arena *a,
                              qg_fixed_shape **out)
{
    qg_fixed_shape *fixed = QG_NEWN(a, o->n_shape, qg_fixed_shape);
    if (!fixed)
        return qg_nomem(ctx);
    for (size_t i = 0; i < o->n_shape; i++)
        QG_TRY(parse_shape(ctx, a, o->shape[i], &fixed[i]));
    *out = fixed;
    return QG_OK;
}

/* Shapes are needed only while types are inferred. */
qg_status qg_model_make(qg_ctx *ctx, const qg_model_options *given,
                        qg_model_reader *read, const void *from, qg_model **out)
{
    qg_fixed_shape *fixed;
    qg_model_options o;
    QG_TRY(QG_OPTIONS_READ(ctx, qg_model_options, given, &o));
    qg_model *m = QG_NEW(ctx->arena, qg_model);
    qg_arena *scratch = m ? qg_arena_new(ctx->alloc) : NULL;
    if (!scratch)
        return qg_nomem(ctx);
    m->ctx = ctx;
    qg_status s = parse_shapes(ctx, &o, scratch, &fixed);
    if (s == QG_OK)
        s = read(m, from, fixed, o.n_shape);
    qg_arena_free(scratch);
    if (s != QG_OK) {
        qg_model_close(m);
        return s;
    }
    *out = m;
    return QG_OK;
}

static qg_status fill_manifest(qg_model *m, const qg_import *i)
{
    char hash[QG_HASH_TEXT];
    const char *path = i->model ? i->model : i->path;
    qg_manifest *f = &m->info.manifest;
    if (i->bytes)
        qg_hash_bytes(i->bytes, i->size, hash);
    else
        QG_TRY(qg_hash_file(m->ctx, path, hash));
    QG_TRY(qg_model_name(m, path, hash));
    f->tool = qg_arena_printf(m->graph->arena, "quantgraph %s", qg_version());
    if (!f->tool)
        return qg_nomem(m->ctx);
    f->model_file = qg_path_base(m->path);
    f->model_sha256 = m->sha256;
    return QG_OK;
}

qg_status qg_model_read_import(qg_model *m, qg_import *i, const char *format)
{
    QG_TRY(qg_format_import(i, format));
    m->graph = i->graph;
    m->quant = i->quant;
    m->info = i->info;
    return fill_manifest(m, i);
}

/* A file of another tool, whose shapes are all known.  Without a record it is a float
 * model. */
static qg_status read_format(qg_model *m, const qg_model_source *from,
                             const char *format, const qg_fixed_shape *shape, size_t n)
{
    qg_import i = {
        .ctx = m->ctx, .path = from->name, .bytes = from->bytes, .size = from->size
    };
    if (n)
        return qg_fail(m->ctx, QG_EUNSUPPORTED,
                       "shape: '%s': %s has its own shapes, expected none given",
                       shape[0].input, from->name);
    QG_TRY(qg_model_read_import(m, &i, format));
    if (m->quant->tqc.n == 0)
        m->quant = NULL;
    return QG_OK;
}

qg_status qg_model_read_source(qg_model *m, const void *from,
                               const qg_fixed_shape *shape, size_t n)
{
    const qg_model_source *s = from;
    const qg_format *format = qg_format_of_bytes(s->bytes, s->size);
    return qg_is_archive(s->bytes, s->size) ? qg_archive_read(m, s, shape, n)
           : format                         ? read_format(m, s, format->name, shape, n)
                                            : qg_model_read_bytes(m, s, shape, n);
}

/* The graph keeps the file mapped: its constants lie there. */
static qg_status read_archive(qg_model *m, const char *path, qg_file *f,
                              const qg_fixed_shape *shape, size_t n)
{
    qg_model_source from = { .name = path, .bytes = f->bytes, .size = f->size };
    QG_TRY(qg_archive_read(m, &from, shape, n));
    struct qg_graph_file *kept = QG_NEW(m->graph->arena, struct qg_graph_file);
    qg_file *file = QG_NEW(m->graph->arena, qg_file);
    if (!kept || !file)
        return qg_nomem(m->ctx);
    *file = *f;
    *f = (qg_file){ 0 };
    *kept = (struct qg_graph_file){ .next = m->graph->files, .file = file };
    m->graph->files = kept;
    return QG_OK;
}

/* A folder, an archive, a file that a format recognizes, or else an ONNX file. */
static qg_status read_path(qg_model *m, const void *from, const qg_fixed_shape *shape,
                           size_t n)
{
    const char *path = from;
    qg_file f;
    if (qg_is_directory(path))
        return qg_snapshot_read(m, path, shape, n);
    QG_TRY(qg_file_open(m->ctx, "import", path, SIZE_MAX / 2, &f));
    qg_model_source bytes = { .name = path, .bytes = f.bytes, .size = f.size };
    bool archive = qg_is_archive(f.bytes, f.size);
    const qg_format *format = qg_format_of_bytes(f.bytes, f.size);
    qg_status s = archive  ? read_archive(m, path, &f, shape, n)
                  : format ? read_format(m, &bytes, format->name, shape, n)
                           : QG_OK;
    qg_file_close(&f);
    return archive || format ? s : qg_model_read(m, path, shape, n);
}

qg_status qg_model_open(qg_ctx *ctx, const char *path, const qg_model_options *o,
                        qg_model **out)
{
    QG_TRY(qg_model_expect_path(ctx, "open", path));
    return qg_model_make(ctx, o, read_path, path, out);
}

void qg_model_close(qg_model *m)
{
    if (!m)
        return;
    qg_model_close(m->folded);
    qg_model_close(m->written);
    qg_graph_free(m->graph);
    m->folded = m->written = NULL;
    m->graph = NULL;
}

bool qg_model_is_quantized(const qg_model *m) { return m->quant != NULL; }

qg_status qg_model_export_onnx(qg_model *m, const char *path)
{
    QG_TRY(qg_model_expect_finished(m, "export"));
    QG_TRY(qg_model_expect_path(m->ctx, "export", path));
    const qg_export_options o = { .learned_alone = true };
    return qg_onnx_export(m->ctx, m->graph, path, &o);
}

qg_status qg_model_save(qg_model *m, const char *folder)
{
    QG_TRY(qg_model_expect_quantized(m, "save"));
    QG_TRY(qg_model_expect_path(m->ctx, "save", folder));
    return qg_snapshot_write(m, folder);
}
