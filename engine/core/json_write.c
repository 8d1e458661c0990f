#include "engine/core/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/core/num.h"

enum { WIDTH = 88 };

static struct qg_json_level *top(qg_json_writer *w) { return &w->level[w->depth]; }

static void raw(qg_json_writer *w, const char *text)
{
    size_t n = strlen(text);
    (void)fwrite(text, 1, n, w->stream);
    w->column += n;
}

/* And the indentation of the next line. */
static void new_line(qg_json_writer *w)
{
    (void)putc('\n', w->stream);
    for (unsigned i = 0; i < 2 * w->depth; i++)
        (void)putc(' ', w->stream);
    w->column = 2 * w->depth;
}

size_t qg_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    static const struct {
        unsigned char mask, lead, n;
        uint32_t least;
    } forms[] = {
        {0x80,  0x00, 1, 0      },
        { 0xe0, 0xc0, 2, 0x80   },
        { 0xf0, 0xe0, 3, 0x800  },
        { 0xf8, 0xf0, 4, 0x10000}
    };
    for (size_t f = 0; f < 4; f++) {
        if ((s[0] & forms[f].mask) != forms[f].lead)
            continue;
        uint32_t code = s[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (s[i] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code < 0xe000;
        return code < forms[f].least || code > 0x10ffff || surrogate ? 0 : forms[f].n;
    }
    return 0;
}

static bool is_utf8(const char *text)
{
    for (size_t n; *text; text += n) {
        n = qg_utf8_length(text);
        if (n == 0)
            return false;
    }
    return true;
}

/* The character as JSON text writes it; returns its length. */
static size_t escaped(char c, char out[8])
{
    const char *plain = strchr("\"\"\\\\\nn\tt\rr\bb\ff", c);
    if ((unsigned char)c >= 0x20 && c != '"' && c != '\\') {
        out[0] = c;
        out[1] = '\0';
        return 1;
    }
    return (size_t)(plain ? snprintf(out, 8, "\\%c", plain[1])
                          : snprintf(out, 8, "\\u%04x", (unsigned char)c));
}

static void quoted(qg_json_writer *w, const char *text)
{
    char one[8];
    raw(w, "\"");
    for (; *text; text++) {
        (void)escaped(*text, one);
        raw(w, one);
    }
    raw(w, "\"");
}

/* Writes the values of a held array: on this line when `closed` and they fit. */
static void release(qg_json_writer *w, bool closed)
{
    struct qg_json_level *l = top(w);
    const char *end = w->held + w->n_held;
    l->waiting = false;
    for (const char *v = w->held; v < end; v += strlen(v) + 1) {
        bool first = v == w->held;
        if (closed)
            raw(w, first ? "" : ", ");
        else if (first)
            new_line(w);
        else
            raw(w, w->column + strlen(v) + 3 > WIDTH ? "," : ", ");
        if (!closed && !first && w->column + strlen(v) + 2 > WIDTH)
            new_line(w);
        raw(w, v);
    }
    w->n_held = 0;
}

/* Comma, line break and key before a value that is not held. */
static void before(qg_json_writer *w, const char *key, bool plain, size_t length)
{
    struct qg_json_level *l = top(w);
    if (l->waiting)
        release(w, false);
    assert(w->depth == 0 || (key != NULL) == (l->close == '}'));
    bool fill = l->close == ']' && plain && l->count && !l->line &&
                w->column + length + 3 <= WIDTH;
    if (l->count)
        raw(w, l->line || fill ? ", " : ",");
    if (w->depth && !l->line && !fill)
        new_line(w);
    l->count++;
    if (key) {
        quoted(w, key);
        raw(w, ": ");
    }
}

/* Whether nothing may be written any more: now or since an earlier failure. */
static bool refused(qg_json_writer *w, const char *key, const char *text)
{
    if (w->status == QG_OK && ((key && !is_utf8(key)) || (text && !is_utf8(text))))
        w->status = qg_fail(w->ctx, QG_EDATA, "json: '%.60s' is not UTF-8",
                            text && !is_utf8(text) ? text : key);
    return w->status != QG_OK;
}

/* A number, true, false, null or short text, as it is in the file. */
static void plain(qg_json_writer *w, const char *key, const char *text)
{
    size_t n = strlen(text) + 1;
    struct qg_json_level *l = top(w);
    if (refused(w, key, NULL))
        return;
    bool fits = w->column + w->n_held + l->count + n + 2 < WIDTH;
    if (l->waiting && fits && w->n_held + n <= sizeof w->held) {
        memcpy(w->held + w->n_held, text, n);
        w->n_held += n;
        l->count++;
        return;
    }
    before(w, key, true, n - 1);
    raw(w, text);
}

/* An array holds its values back until it is clear how many lines it takes. */
static void open_level(qg_json_writer *w, const char *key, const char *bracket,
                       bool line)
{
    if (refused(w, key, NULL))
        return;
    before(w, key, false, 0);
    line = line || top(w)->line;
    raw(w, bracket);
    assert(w->depth < QG_JSON_DEPTH);
    w->depth++;
    *top(w) = (struct qg_json_level){ .close = *bracket == '{' ? '}' : ']',
                                      .line = line,
                                      .waiting = *bracket == '[' && !line };
}

void qg_json_begin(qg_json_writer *w, qg_ctx *ctx, FILE *stream)
{
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    w->stream = stream;
}

void qg_json_put_object(qg_json_writer *w, const char *key)
{
    open_level(w, key, "{", false);
}

void qg_json_put_object_line(qg_json_writer *w, const char *key)
{
    open_level(w, key, "{", true);
}

void qg_json_put_array(qg_json_writer *w, const char *key)
{
    open_level(w, key, "[", false);
}

void qg_json_put_end(qg_json_writer *w)
{
    if (w->status)
        return;
    struct qg_json_level l = *top(w);
    assert(w->depth);
    if (l.waiting)
        release(w, true);
    w->depth--;
    if (l.count && !l.line && !l.waiting)
        new_line(w);
    raw(w, l.close == '}' ? "}" : "]");
}

void qg_json_put_text(qg_json_writer *w, const char *key, const char *text)
{
    char small[WIDTH + 8] = "\"";
    size_t n = 1;
    if (refused(w, key, text))
        return;
    for (const char *at = text; *at && n < WIDTH; at++)
        n += escaped(*at, small + n);
    if (n < WIDTH) {
        memcpy(small + n, "\"", 2);
        plain(w, key, small);
        return;
    }
    before(w, key, true, WIDTH);
    quoted(w, text);
}

void qg_json_put_int(qg_json_writer *w, const char *key, int64_t x)
{
    char text[QG_NUM_TEXT];
    (void)snprintf(text, sizeof text, "%" PRId64, x);
    plain(w, key, text);
}

static bool finite_or_refused(qg_json_writer *w, const char *key, double x)
{
    if (isfinite(x))
        return true;
    if (w->status == QG_OK)
        w->status =
            qg_fail(w->ctx, QG_ENUMERIC, "json: '%.60s' is %s, expected a number",
                    key ? key : "an element", isnan(x) ? "NaN" : "infinite");
    return false;
}

void qg_json_put_f32(qg_json_writer *w, const char *key, float x)
{
    char text[QG_NUM_TEXT];
    if (!finite_or_refused(w, key, (double)x))
        return;
    qg_num_f32(text, x);
    plain(w, key, text);
}

void qg_json_put_f64(qg_json_writer *w, const char *key, double x)
{
    char text[QG_NUM_TEXT];
    if (!finite_or_refused(w, key, x))
        return;
    qg_num_f64(text, x);
    plain(w, key, text);
}

void qg_json_put_bool(qg_json_writer *w, const char *key, bool x)
{
    plain(w, key, x ? "true" : "false");
}

void qg_json_put_null(qg_json_writer *w, const char *key) { plain(w, key, "null"); }

qg_status qg_json_done(qg_json_writer *w)
{
    assert(w->status || w->depth == 0);
    if (w->status == QG_OK)
        (void)putc('\n', w->stream);
    return w->status;
}
