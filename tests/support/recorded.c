#define _GNU_SOURCE /* vasprintf */
#include "tests/support/recorded.h"

#include <cJSON.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 12, MOST_OTHER = 10 };

void places_pause(bool pause) __attribute__((weak)); /* of places.h */

/* What JSON has before numbers that differ between runs and builds. */
static const char *const measured[] = { "\"ms\": ", "\"milliseconds\": ",
                                        "\"seconds\": ", "\"megabytes\": " };

static void stop(const char *what, const char *which)
{
    (void)fprintf(stderr, "%s: %s\n", which, what);
    exit(1);
}

/* The bytes of a file with a zero behind them; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    *size = 0;
    for (size_t space = 0; f && !feof(f);) {
        if (*size + 1 >= space) {
            space = space ? 2 * space : 4096;
            bytes = realloc(bytes, space);
            if (!bytes)
                stop("no memory", path);
        }
        *size += fread(bytes + *size, 1, space - *size - 1, f);
        bytes[*size] = 0;
    }
    if (f)
        (void)fclose(f);
    return bytes;
}

static void read_lines(recorded *r)
{
    size_t size;
    r->text = read_file(r->path, &size);
    if (!r->text)
        stop("cannot be read, expected what --write writes", r->path);
    for (char *line = strtok(r->text, "\n"); line; line = strtok(NULL, "\n")) {
        r->line = realloc(r->line, (r->n_line + 1) * sizeof *r->line);
        if (!r->line)
            stop("no memory", r->path);
        r->line[r->n_line++] = line;
    }
}

void recorded_begin(recorded *r, int argc, char **argv, const char *path)
{
    *r = (recorded){ .path = path };
    r->write = argc == 2 && strcmp(argv[1], "--write") == 0;
    r->show = argc == 3 && strcmp(argv[1], "--show") == 0 ? argv[2] : NULL;
    if (argc > 1 && !r->write && !r->show)
        stop("expected nothing, --write, or --show and the name of a case", argv[1]);
    if (!getcwd(r->root, sizeof r->root))
        stop("is not found", "the working directory");
    recorded_hide(r, r->root);
    recorded_hide(r, qg_version());
    if (recorded_places)
        return;
    if (!r->write)
        read_lines(r);
    else if (!(r->out = fopen(path, "w")))
        stop("cannot be written", path);
    else
        setlinebuf(r->out); /* the last line is near a crash */
}

void recorded_enter(recorded *r)
{
    scratch_memory(r->folder, "recorded");
    if (access(r->folder, F_OK) == 0) /* of a process that was killed */
        (void)scratch_remove(r->folder);
    if (mkdir(r->folder, 0700) != 0 || chdir(r->folder) != 0)
        stop("cannot be made", r->folder);
}

static void put_warning(void *ud, int level, const char *text)
{
    if (level == 0)
        recorded_print(ud, "warning: %s\n", text);
}

qg_ctx *recorded_context(recorded *r)
{
    qg_ctx *ctx;
    qg_open_options how;
    qg_open_options_init(&how, sizeof how);
    how.log = put_warning;
    how.log_ud = r;
    if (r->alloc)
        how.alloc = *r->alloc;
    recorded_pause(true);
    if (qg_open(&how, &ctx) != QG_OK)
        stop("no context", r->path);
    recorded_pause(false);
    return ctx;
}

void recorded_try(recorded *r, recorded_work *work, void *ud)
{
    if (recorded_places)
        recorded_places(r, work, ud);
    else
        work(r, ud);
}

void recorded_pause(bool pause)
{
    if (places_pause)
        places_pause(pause);
}

void recorded_hide(recorded *r, const char *text)
{
    if (r->n_hidden == RECORDED_HIDDEN)
        stop("too many texts to hide", text);
    r->hidden[r->n_hidden++] = text;
}

/* The recorded digest of a case, or NULL. */
static const char *recorded_digest(const recorded *r, const char *name)
{
    for (size_t k = 0; k < r->n_line; k++) { /* most often the next one */
        const char *line = r->line[(r->n_case + k) % r->n_line];
        if (strlen(line) > DIGITS && strcmp(line + DIGITS + 1, name) == 0)
            return line;
    }
    return NULL;
}

static void end_case(recorded *r)
{
    char text[QG_HASH_TEXT];
    if (!r->open)
        return;
    r->open = false;
    if (recorded_places)
        return;
    qg_hash_end(&r->hash, text);
    text[DIGITS] = 0;
    if (r->write)
        (void)fprintf(r->out, "%s %s\n", text, r->name);
    const char *known = recorded_digest(r, r->name);
    if (!r->write && !r->show && (!known || strncmp(known, text, DIGITS) != 0)) {
        r->n_other++;
        (void)fprintf(stderr, "FAILED %s: %s\n", r->name,
                      known ? "gives something else" : "is not recorded");
    }
    r->n_case++;
}

void recorded_rest(recorded *r) { end_case(r); }

unsigned recorded_step(recorded *r)
{
#ifdef __SANITIZE_ADDRESS__
    const bool slow = true;
#elif defined(__has_feature)
    const bool slow = __has_feature(address_sanitizer);
#else
    const bool slow = false;
#endif
    if (recorded_places)
        return getenv("QG_ALL") ? 1 : 48;
    r->part = slow && !r->write && !r->show && !getenv("QG_ALL");
    return r->part ? 4 : 1;
}

bool recorded_is_full(const recorded *r) { return r->n_other >= MOST_OTHER; }

bool recorded_case(recorded *r, const char *format, ...)
{
    va_list words;
    end_case(r);
    va_start(words, format);
    (void)vsnprintf(r->name, sizeof r->name, format, words);
    va_end(words);
    if (recorded_places)
        recorded_print(r, "%s\n", r->name);
    if (recorded_is_full(r) || (r->show && strcmp(r->show, r->name) != 0))
        return false;
    r->open = true;
    qg_hash_begin(&r->hash);
    return true;
}

int recorded_end(recorded *r)
{
    end_case(r);
    if (r->folder[0] && (chdir("/") != 0 || scratch_remove(r->folder) != 0))
        stop("cannot be removed", r->folder);
    if (r->out && fclose(r->out) != 0)
        stop("cannot be written", r->path);
    free(r->text);
    free(r->line);
    if (r->show)
        return r->n_case == 0;
    if (recorded_places)
        return 0; /* a complaint has ended the program */
    printf("%zu cases, %zu give something else than recorded\n", r->n_case, r->n_other);
    if (!r->write && !r->part && !recorded_is_full(r) && r->n_case != r->n_line)
        stop("has a line that is no case", r->path);
    return r->n_other > 0;
}

/* --- what is put into the case --- */

static void put_plain(recorded *r, const char *bytes, size_t size)
{
    for (size_t i = 0; recorded_places && i < size; i++)
        r->mixed = (r->mixed ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    if (!r->open)
        return;
    qg_hash_add(&r->hash, bytes, size);
    if (r->show)
        (void)fwrite(bytes, 1, size, stdout);
}

/* The length of a hidden text that these bytes begin with, or 0. */
static size_t hidden_at(const recorded *r, const char *bytes, size_t size)
{
    for (size_t k = 0; k < r->n_hidden; k++) {
        size_t n = strlen(r->hidden[k]);
        if (n > 0 && n <= size && memcmp(bytes, r->hidden[k], n) == 0)
            return n;
    }
    return 0;
}

void recorded_put(recorded *r, const void *bytes, size_t size)
{
    const char *at = bytes;
    size_t from = 0;
    for (size_t i = 0; i < size;) {
        size_t n = hidden_at(r, at + i, size - i);
        if (n == 0) {
            i++;
            continue;
        }
        put_plain(r, at + from, i - from);
        put_plain(r, "@", 1);
        from = i += n;
    }
    put_plain(r, at + from, size - from);
}

void recorded_print(recorded *r, const char *format, ...)
{
    va_list words;
    char *text;
    va_start(words, format);
    int n = vasprintf(&text, format, words);
    va_end(words);
    if (n < 0)
        stop("no memory", r->name);
    recorded_put(r, text, (size_t)n);
    free(text);
}

void recorded_status(recorded *r, qg_ctx *ctx, const char *what, qg_status s)
{
    recorded_print(r, "%s: %s%s%s\n", what, qg_status_name(s), s ? ": " : "",
                   s ? qg_ctx_message(ctx) : "");
    r->refused |= s == QG_ENOMEM;
    r->silent |= s != QG_OK && !*qg_ctx_message(ctx);
}

/* The first such number in a text, at its number, or NULL. */
static const char *measured_in(const char *text)
{
    const char *first = NULL;
    for (size_t k = 0; k < sizeof measured / sizeof *measured; k++) {
        const char *at = strstr(text, measured[k]);
        if (at && (!first || at + strlen(measured[k]) < first))
            first = at + strlen(measured[k]);
    }
    return first;
}

void recorded_report(recorded *r, qg_report *report)
{
    const char *text = report ? qg_report_json(report) : "no report\n", *number;
    r->refused |= !*text;
    for (; (number = measured_in(text));
         text = number + strspn(number, "0123456789.e+-"))
        recorded_put(r, text, (size_t)(number - text));
    recorded_put(r, text, strlen(text));
    if (report && !measured_in(qg_report_json(report))) /* a page has no such marks */
        for (int detail = QG_DETAIL_SHORT; detail < QG_NDETAIL; detail++) {
            const char *page = qg_report_page(report, (enum qg_detail)detail);
            recorded_put(r, page, strlen(page));
            r->refused |= !*page; /* made when it is asked for */
        }
    qg_report_free(report);
}

/* quant.json without its manifest: that has digests of files which any edit changes. */
static void put_quant_json(recorded *r, const char *bytes)
{
    cJSON *json = cJSON_Parse(bytes);
    cJSON_DeleteItemFromObject(json, "manifest");
    char *text = cJSON_Print(json);
    if (!text)
        stop("is no JSON", "quant.json");
    recorded_put(r, text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(json);
}

static void put_file(recorded *r, const char *path)
{
    size_t size;
    char *bytes = read_file(path, &size);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    recorded_print(r, "--- %s\n", path);
    if (bytes && strcmp(name, "quant.json") == 0)
        put_quant_json(r, bytes);
    else if (bytes)
        recorded_put(r, bytes, size);
    free(bytes);
}

void recorded_files(recorded *r, const char *path)
{
    struct dirent **entry;
    struct stat s;
    if (stat(path, &s) != 0) {
        recorded_print(r, "--- %s: none\n", path);
        return;
    }
    int n = S_ISDIR(s.st_mode) ? scandir(path, &entry, NULL, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        char below[4096];
        (void)snprintf(below, sizeof below, "%s/%s", path, entry[i]->d_name);
        if (strcmp(entry[i]->d_name, ".") != 0 && strcmp(entry[i]->d_name, "..") != 0)
            recorded_files(r, below);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    else
        put_file(r, path);
    (void)remove(path);
}
