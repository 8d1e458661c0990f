#include <string.h>

#include "engine/core/file.h"
#include "engine/webpage/webpage.h"

/* The template, and the place in it for the JSON; made by tools/embed.cmake. */
extern const char qg_page_template[];
static const char place[] = "@REPORT@";

/* The JSON with '<' escaped, which JSON has in texts only. */
static void put_json(FILE *f, const char *json)
{
    for (size_t n; *json; json += n) {
        n = strcspn(json, "<");
        (void)fwrite(json, 1, n, f);
        if (json[n] == '<') {
            (void)fputs("\\u003c", f);
            n++;
        }
    }
}

qg_status qg_page_write(qg_report *r, const char *path)
{
    qg_writer w;
    const char *json = qg_report_json(r), *at = strstr(qg_page_template, place);
    if (!*json || !at)
        return qg_nomem(r->ctx);
    QG_TRY(qg_writer_open(r->ctx, path, &w));
    (void)fwrite(qg_page_template, 1, (size_t)(at - qg_page_template), w.stream);
    put_json(w.stream, json);
    (void)fputs(at + sizeof place - 1, w.stream);
    return qg_writer_commit(&w);
}
