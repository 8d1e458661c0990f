/* Every member of the JSON files and every line of the YAML files that are read:
 * absent, null, of another type, out of range.  The file is read, or refused with a
 * message; what the format requires is refused. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"

#include <sys/stat.h>

#include "engine/api/qg.h"

static char folder[SCRATCH_PATH];

static const char *in_folder(const char *name)
{
    static char path[4][SCRATCH_PATH + 64];
    static unsigned turn;
    char *p = path[turn++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* A kind of file. */
typedef struct kind {
    const char *from; /* a file of the checkout; NULL: it is there */
    const char *file; /* in the folder of the test */
    qg_status (*read)(qg_ctx *ctx);
    long least; /* of changes that are refused */
} kind;

/* --- readers --- */

static qg_status read_snapshot(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_status s = qg_model_open(ctx, in_folder("snap"), NULL, &m);
    qg_model_close(m);
    return s;
}

static qg_status import(qg_ctx *ctx, const char *path, const char *format,
                        const char *model, qg_model **m)
{
    qg_import_options o;
    qg_import_options_init(&o, sizeof o);
    o.format = format;
    o.model = model;
    return qg_model_import(ctx, path, &o, m, NULL);
}

static qg_status read_ppq(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_status s =
        import(ctx, in_folder("ppq.json"), "ppq-json", in_folder("ppq.onnx"), &m);
    qg_model_close(m);
    return s;
}

static qg_status read_aimet(qg_ctx *ctx)
{
    return qg_import_backend(ctx, in_folder("aimet.json"), "aimet",
                             in_folder("made.yaml"), NULL);
}

static qg_status read_encodings(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_status s =
        import(ctx, in_folder("made.encodings"), "aimet", in_folder("made.onnx"), &m);
    qg_model_close(m);
    return s;
}

static qg_status read_ranges(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_status s = import(ctx, in_folder("ranges.json"), "tensorrt-json",
                         in_folder("ranges.onnx"), &m);
    qg_model_close(m);
    return s;
}

static qg_status read_target(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_lint_options o;
    qg_lint_options_init(&o, sizeof o);
    o.target = in_folder("target.yaml");
    QG_TRY(qg_model_open(ctx, in_folder("whole"), NULL, &m));
    qg_status s = qg_model_lint(m, &o, &r);
    qg_report_free(r);
    qg_model_close(m);
    return s;
}

static qg_status read_trace(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_diverge_options o;
    qg_diverge_options_init(&o, sizeof o);
    o.work = (qg_workload){ .data = "random:1", .jobs = 1 };
    QG_TRY(qg_model_open(ctx, in_folder("whole"), NULL, &m));
    qg_status s = qg_model_diverge(m, &o, in_folder("trace"), &r);
    qg_report_free(r);
    qg_model_close(m);
    return s;
}

static qg_status read_backend(qg_ctx *ctx)
{
    qg_report *r = NULL;
    qg_status s = qg_backend_page(ctx, in_folder("backend.yaml"), &r);
    qg_report_free(r);
    return s;
}

static qg_status read_profile(qg_ctx *ctx)
{
    qg_report *r = NULL;
    qg_status s = qg_profile_page(ctx, in_folder("profile.yaml"), &r);
    qg_report_free(r);
    return s;
}

static qg_status read_images(qg_ctx *ctx)
{
    static const char text[] = "graph \"g\" {\n  opset 17\n  x = input f32[1,1,2,3]\n"
                               "  y = Relu(x)\n  output y\n}\n";
    qg_model *m = NULL;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = (qg_workload){ .data = in_folder("images.yaml"), .jobs = 1 };
    QG_TRY(qg_model_open_text(ctx, text, sizeof text - 1, &m));
    qg_status s = qg_model_run(m, &o, NULL, NULL);
    qg_model_close(m);
    return s;
}

/* --- files --- */

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long n = ftell(f);
    char *text = calloc(1, (size_t)n + 1);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    (void)fclose(f);
    return text;
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* What may be said of a file that is there: not that memory is at fault. */
static bool may_be(qg_status s)
{
    return s != QG_ENOMEM && s != QG_ECANCELED && s != QG_EMEMORY;
}

/* Reads the file with these contents; true: it is refused. */
static bool refused(const kind *k, const char *text, const char *what)
{
    qg_ctx *ctx = NULL;
    put_text(in_folder(k->file), text);
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    qg_status s = k->read(ctx);
    if (s != QG_OK && (!may_be(s) || strlen(qg_ctx_message(ctx)) < 12))
        fail_msg("%s: %s: %s: '%s'", k->file, what, qg_status_name(s),
                 qg_ctx_message(ctx));
    qg_close(ctx);
    return s != QG_OK;
}

/* n bytes at `from` become `value`. */
static bool try_piece(const kind *k, const char *text, const char *from, size_t n,
                      const char *value)
{
    size_t at = (size_t)(from - text);
    char *changed = malloc(strlen(text) + strlen(value) + 1), what[64];
    assert_non_null(changed);
    memcpy(changed, text, at);
    (void)sprintf(changed + at, "%s%s", value, from + n);
    (void)snprintf(what, sizeof what, "byte %zu is now '%s'", at, value);
    bool no = refused(k, changed, what);
    free(changed);
    return no;
}

/* The length of a value: up to a comma, a bracket or the end of the line outside of its
 * own brackets. */
static size_t value_length(const char *from)
{
    size_t n = 0;
    bool quoted = false;
    for (int depth = 0; from[n]; n++) {
        quoted ^= from[n] == '"' && (n == 0 || from[n - 1] != '\\');
        if (quoted)
            continue;
        depth +=
            (from[n] == '[' || from[n] == '{') - (from[n] == ']' || from[n] == '}');
        if (depth < 0 || (depth == 0 && strchr(",\n", from[n])))
            break;
    }
    return n;
}

typedef struct counts {
    long tried, refused;
    size_t colons;
} counts;

/* One value of so many is tried after a colon, another one after the next; QG_ALL=1:
 * all. */
static size_t stride(void) { return getenv("QG_ALL") ? 1 : 6; }

/* Other values after a colon, in turn. */
static void try_value(const kind *k, const char *text, const char *from, counts *c)
{
    static const char *const json[] = {
        "null",   "true", "-1",   "1e300",     "0.5",         "{}", "[]",
        "[null]", "\"\"", "[[]]", "\"other\"", "[-1, 1e300]", "7",  "[\"a\", \"b\"]"
    };
    static const char *const yaml[] = { "",   "~",  "-1", "1e300",  "x",
                                        "[]", "{}", "7",  "[x, 1]", "{x: 1}" };
    bool is_json = *text == '{';
    size_t n = is_json ? sizeof json / sizeof json[0] : sizeof yaml / sizeof yaml[0];
    for (size_t i = c->colons++ % stride(); i < n; i += stride(), c->tried++)
        c->refused +=
            try_piece(k, text, from, value_length(from), is_json ? json[i] : yaml[i]);
}

/* Whether the name that ends before this colon was met less than twice before it. */
static bool is_early(const char *text, const char *colon)
{
    const char *from = colon - 1;
    int met = 0;
    while (from > text && from[-1] != '"' && from[-1] != '\n')
        from--;
    size_t n = (size_t)(colon - from) + 1;
    for (const char *p = text; p < from; p++)
        met += memcmp(p, from, n) == 0;
    return met < 2;
}

/* Each member of a JSON file without its name, then with other values. */
static counts try_json(const kind *k, const char *text)
{
    counts c = { 0 };
    for (const char *p = text + 1; *p; p++)
        if (p[0] == ':' && p[-1] == '"' && is_early(text, p)) {
            c.refused += try_piece(k, text, p - 1, 0, "x");
            c.tried++;
            try_value(k, text, p + 1 + strspn(p + 1, " "), &c);
        }
    return c;
}

/* Each line of a YAML file absent, then its values. */
static counts try_yaml(const kind *k, const char *text)
{
    counts c = { 0 };
    for (const char *line = text; *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        bool comment = line[strspn(line, " ")] == '#';
        c.refused += !comment && n && try_piece(k, text, line, n, "");
        c.tried++;
        for (const char *p = line; !comment && p < line + n; p++)
            if (p[0] == ':' && p[1] == ' ')
                try_value(k, text, p + 2, &c);
        line += n;
    }
    return c;
}

static void every_field(void **state)
{
    /* clang-format off */
    static const kind kinds[] = {
        { NULL, "snap/quant.json", read_snapshot, 1000 },
        { NULL, "ppq.json", read_ppq, 500 },
        { "tests/data/aimet/htp.json", "aimet.json", read_aimet, 500 },
        { NULL, "trace/trace.json", read_trace, 150 },
        { "configs/backends/tflite-int8.yaml", "backend.yaml", read_backend, 500 },
        { "configs/backends/ncnn-int8.yaml", "backend.yaml", read_backend, 100 },
        { NULL, "made.encodings", read_encodings, 100 },
        { NULL, "ranges.json", read_ranges, 5 },
        { "configs/lint/xnnpack.yaml", "target.yaml", read_target, 100 },
        { "configs/profiles/tflite-xnnpack.yaml", "profile.yaml", read_profile, 500 },
        { "tests/arrays/images.yaml", "images.yaml", read_images, 30 },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const kind *k = &kinds[i];
        char *text = text_of(k->from ? k->from : in_folder(k->file));
        if (refused(k, text, "unchanged"))
            fail_msg("%s: refused as it is", k->file);
        counts c = *text == '{' ? try_json(k, text) : try_yaml(k, text);
        printf("%s: %ld changes, %ld refused\n", k->file, c.tried, c.refused);
        assert_cmp_int(c.refused * (long)stride(), >=, k->least);
        put_text(in_folder(k->file), text);
        free(text);
    }
}

/* --- their originals --- */

static void quantize_and_save(qg_ctx *ctx)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    qg_format_options f;
    qg_trace_options t;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "tflite-int8";
    o.work = (qg_workload){ .data = "random:1", .jobs = 1 };
    assert_ok(ctx, qg_model_open(ctx, "tests/models/conv_relu.onnx", NULL, &m));
    assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    assert_ok(ctx, qg_model_save(m, in_folder("snap")));
    assert_ok(ctx, qg_model_save(m, in_folder("whole")));
    qg_format_options_init(&f, sizeof f);
    f.format = "ppq-json";
    assert_ok(ctx, qg_model_export(m, &f, in_folder("ppq.json"), NULL));
    f.format = "aimet";
    assert_ok(ctx, qg_model_export(m, &f, in_folder("made.encodings"), NULL));
    f.format = "tensorrt-json";
    assert_ok(ctx, qg_model_export(m, &f, in_folder("ranges.json"), NULL));
    qg_trace_options_init(&t, sizeof t);
    t.work = o.work;
    assert_ok(ctx, qg_model_trace(m, &t, in_folder("trace"), NULL));
    qg_model_close(m);
}

static int set_up(void **state)
{
    qg_ctx *ctx = NULL;
    (void)state;
    assert_int_equal(mkdir(scratch_path(folder, "fields"), 0700), 0);
    assert_int_equal(mkdir(in_folder("images"), 0700), 0);
    for (const char *name = "a.png\0c.png\0"; *name; name += strlen(name) + 1) {
        char command[2 * SCRATCH_PATH];
        (void)snprintf(command, sizeof command, "cp tests/arrays/images/%s %s/images",
                       name, folder);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    quantize_and_save(ctx);
    qg_close(ctx);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_field) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
