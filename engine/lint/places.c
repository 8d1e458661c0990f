/* places.c -- findings in files: a snapshot's quant.json is text, and has lines of its
 * own for each node and each record. */
#include "engine/lint/lint.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/core/file.h"
#include "engine/core/json.h"

/* An URI reference (RFC 3986): a relative path as it is, an absolute one as file:// */
static const char *uri_of(const qg_lint *l, const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~/";
    static const char digit[] = "0123456789ABCDEF";
    const char *scheme = *path == '/' ? "file://" : "";
    char *uri = QG_NEWN(l->arena, strlen(scheme) + 3 * strlen(path) + 1, char);
    if (!uri)
        return NULL;
    char *to = uri + strlen(scheme);
    memcpy(uri, scheme, strlen(scheme));
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        if (strchr(plain, *p)) {
            *to++ = (char)*p;
        } else {
            *to++ = '%';
            *to++ = digit[*p >> 4];
            *to++ = digit[*p & 15];
        }
    }
    *to = '\0';
    return uri;
}

/* NULL when the array has another number of elements. */
static qg_status lines_of(const qg_lint *l, const qg_json_source *from, const char *key,
                          size_t n, const uint32_t **out)
{
    uint32_t *line = QG_NEWN(l->arena, n, uint32_t);
    if (!line)
        return qg_nomem(l->ctx);
    *out = qg_json_lines(from, key, line, n) == n ? line : NULL;
    return QG_OK;
}

static qg_status find_lines(const qg_lint *l, const char *path, qg_lint_places *out)
{
    qg_file f;
    QG_TRY(qg_file_open(l->ctx, "lint", path, SIZE_MAX, &f));
    qg_json_source from = { path, (const char *)f.bytes, f.size };
    qg_status s = lines_of(l, &from, "nodes", l->graph->node.n, &out->node_line);
    if (s == QG_OK)
        s = lines_of(l, &from, "tqcs", l->quant->tqc.n, &out->tqc_line);
    qg_file_close(&f);
    return s;
}

qg_status qg_lint_find_places(const qg_lint *l, qg_lint_places *out)
{
    struct stat st;
    *out = (qg_lint_places){ 0 };
    if (!l->path)
        return QG_OK;
    if (stat(l->path, &st) != 0) /* bytes have names that are no file's */
        return errno != EIO
                   ? QG_OK
                   : qg_fail(l->ctx, QG_EIO, "lint: %s: %s", l->path, strerror(errno));
    bool folder = S_ISDIR(st.st_mode);
    const char *path = folder ? qg_path_join(l->arena, l->path, "quant.json") : l->path;
    out->uri = path ? uri_of(l, path) : NULL;
    if (!out->uri)
        return qg_nomem(l->ctx);
    return folder ? find_lines(l, path, out) : QG_OK;
}
