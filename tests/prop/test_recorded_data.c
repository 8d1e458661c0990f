/* Samples from files of every kind, whole and damaged, for inputs of every type: as in
 * tests/data/recorded/data.txt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "engine/number/format.h"
#include "tests/support/recorded.h"

enum { CASES = 3000, RANK = 6, MOST = 4096 };

/* Dims of a network's first input; a dim of 0 is open. */
typedef struct input {
    const char *type, *dims; /* in text */
    int rank;
    int64_t dim[4];
} input;

static const input inputs[] = {
    {"f32",   "1,1,4,4", 4, { 1, 1, 4, 4 }},
    { "f32",  "N,3,4,4", 4, { 0, 3, 4, 4 }},
    { "f32",  "2,4",     2, { 2, 4 }      },
    { "i64",  "1,6",     2, { 1, 6 }      },
    { "u8",   "1,4,4,3", 4, { 1, 4, 4, 3 }},
    { "f16",  "1,8",     2, { 1, 8 }      },
    { "f32",  "6",       1, { 6 }         },
    { "bool", "1,4",     2, { 1, 4 }      },
    { "f64",  "1,3",     2, { 1, 3 }      },
    { "i8",   "N,M",     2, { 0, 0 }      },
    { "f32",  "1,3,H,W", 4, { 1, 3, 0, 0 }},
    { "i32",  "1,1,4,4", 4, { 1, 1, 4, 4 }},
};

static size_t count_of(const int64_t *dim, int rank)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    return n;
}

/* --- arrays --- */

/* An array in a file; number k of its type is value[k]. */
typedef struct array {
    const char *type; /* of numpy, without its order of bytes */
    int rank;
    int64_t dim[RANK];
    size_t n;
    double value[MOST];
} array;

static const char *const types[] = { "f4", "f4", "f4", "f8", "f2", "i1", "u1",
                                     "i2", "u2", "i4", "u4", "i8", "u8", "b1" };

/* Mostly as many samples as there are along the first axis, or one more axis. */
static void draw_dims(array *a, const input *in, qg_rng *rng)
{
    const int64_t samples = 1 + (int64_t)qg_rng_below(rng, 4);
    const unsigned form = (unsigned)qg_rng_below(rng, 10);
    a->rank = 0;
    if (form < 2)
        a->dim[a->rank++] = samples;
    for (int i = 0; i < in->rank; i++)
        a->dim[a->rank++] = in->dim[i] ? in->dim[i] : 1 + (int64_t)qg_rng_below(rng, 5);
    if (form > 2)
        a->dim[0] = in->dim[0] > 1 ? in->dim[0] * samples : samples;
    if (form == 8)
        a->dim[a->rank - 1]++;
    if (form == 9 && a->rank > 1)
        a->rank--;
    a->n = count_of(a->dim, a->rank);
}

static void draw_array(array *a, const input *in, qg_rng *rng)
{
    static const double odd[] = { NAN,   INFINITY, 0.5,   -1,    300, 70000,
                                  1e300, 16777217, -1e-9, 65519, 255, 1099511627777.0 };
    const bool plain = qg_rng_below(rng, 4) != 0;
    a->type = TURN(types, qg_rng_below(rng, 1000));
    draw_dims(a, in, rng);
    for (size_t i = 0; i < a->n; i++)
        a->value[i] = (double)qg_rng_below(rng, strcmp(in->type, "bool") ? 100 : 2);
    if (!plain && a->n > 0)
        a->value[qg_rng_below(rng, a->n)] = TURN(odd, qg_rng_below(rng, 1000));
}

/* The bytes of an element, least first; their number. */
static size_t element(const char *type, double x, unsigned char bytes[8])
{
    const size_t size = (size_t)(type[1] - '0');
    const double limited = isnan(x) ? 0 : x > 1e18 ? 1e18 : x < -1e18 ? -1e18 : x;
    uint64_t bits = (uint64_t)(int64_t)limited;
    const float narrow = (float)x;
    uint32_t of_narrow;
    memcpy(&of_narrow, &narrow, 4);
    if (type[0] == 'f' && size == 8)
        memcpy(&bits, &x, 8);
    else if (type[0] == 'f')
        bits = size == 4 ? of_narrow : qg_f32_to_f16(narrow);
    else if (type[0] == 'b')
        bits = x != 0;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    return size;
}

/* --- bytes of files --- */

typedef struct bytes {
    unsigned char at[1 << 17];
    size_t n;
} bytes;

static void add(bytes *b, const void *from, size_t n)
{
    if (b->n + n > sizeof b->at)
        abort();
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

static void add_number(bytes *b, uint64_t x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        add(b, &(unsigned char){ (unsigned char)(x >> 8 * i) }, 1);
}

static void add_elements(bytes *b, const array *a, bool big)
{
    for (size_t i = 0; i < a->n; i++) {
        unsigned char own[8], turned[8];
        const size_t size = element(a->type, a->value[i], own);
        for (size_t k = 0; k < size; k++)
            turned[k] = own[size - 1 - k];
        add(b, big ? turned : own, size);
    }
}

static void add_npy(bytes *b, const array *a, qg_rng *rng)
{
    char shape[128] = "", head[320];
    const bool big = qg_rng_below(rng, 8) == 0, columns = qg_rng_below(rng, 8) == 0;
    const unsigned version = qg_rng_below(rng, 6) ? 1 : 2;
    for (int i = 0; i < a->rank; i++)
        (void)snprintf(shape + strlen(shape), 24, i ? " %lld," : "%lld,",
                       (long long)a->dim[i]);
    (void)snprintf(head, sizeof head,
                   "{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s), }",
                   a->type[1] == '1' ? "|"
                   : big             ? ">"
                                     : "<",
                   a->type, columns ? "True" : "False", shape);
    const size_t length = strlen(head) + 1;
    add(b, "\x93NUMPY", 6);
    add_number(b, version, 2);
    add_number(b, length, version == 1 ? 2 : 4);
    add(b, head, length - 1);
    add(b, "\n", 1);
    add_elements(b, a, big);
}

/* --- archives --- */

typedef struct entry {
    const char *name;
    bytes data, packed;
    bool deflated;
    size_t at; /* of its header */
} entry;

/* `data` as it is stored. */
static void pack(entry *e)
{
    z_stream z = { .next_in = e->data.at,
                   .avail_in = (uInt)e->data.n,
                   .next_out = e->packed.at,
                   .avail_out = sizeof e->packed.at };
    e->packed.n = 0;
    if (!e->deflated) {
        add(&e->packed, e->data.at, e->data.n);
        return;
    }
    if (deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    e->packed.n = z.total_out;
    (void)deflateEnd(&z);
}

/* What local and central headers have in common. */
static void add_header(bytes *b, const entry *e)
{
    add_number(b, 20, 2);
    add_number(b, 0, 2);
    add_number(b, e->deflated ? 8 : 0, 2);
    add_number(b, 0, 4); /* time */
    add_number(b, crc32(0, e->data.at, (uInt)e->data.n), 4);
    add_number(b, e->packed.n, 4);
    add_number(b, e->data.n, 4);
    add_number(b, strlen(e->name), 2);
    add_number(b, 0, 2);
}

static void add_npz(bytes *b, entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pack(&e[i]);
        e[i].at = b->n;
        add_number(b, 0x04034b50, 4);
        add_header(b, &e[i]);
        add(b, e[i].name, strlen(e[i].name));
        add(b, e[i].packed.at, e[i].packed.n);
    }
    const size_t begin = b->n;
    for (size_t i = 0; i < n; i++) {
        add_number(b, 0x02014b50, 4);
        add_number(b, 20, 2);
        add_header(b, &e[i]);
        add_number(b, 0, 2 + 2 + 2);
        add_number(b, 0, 4);
        add_number(b, e[i].at, 4);
        add(b, e[i].name, strlen(e[i].name));
    }
    const size_t size = b->n - begin;
    add_number(b, 0x06054b50, 4);
    add_number(b, 0, 4);
    add_number(b, n, 2);
    add_number(b, n, 2);
    add_number(b, size, 4);
    add_number(b, begin, 4);
    add_number(b, 0, 2);
}

/* --- tensors of ONNX --- */

static void add_varint(bytes *b, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        add_number(b, (x & 127) | 128, 1);
    add_number(b, x, 1);
}

static void add_field(bytes *b, unsigned field, const void *data, size_t n)
{
    add_varint(b, field << 3 | 2);
    add_varint(b, n);
    add(b, data, n);
}

static unsigned onnx_type(const char *type)
{
    static const char *const name[] = { "f4", "u1", "i1", "u2", "i2", "i4", "i8",
                                        "",   "b1", "f2", "f8", "u4", "u8" };
    for (unsigned i = 0; i < COUNT(name); i++)
        if (strcmp(name[i], type) == 0)
            return i + 1;
    return 0;
}

static void add_pb(bytes *b, const array *a, qg_rng *rng)
{
    static bytes data;
    data.n = 0;
    for (int i = 0; i < a->rank; i++) {
        add_varint(b, 1 << 3);
        add_varint(b, (uint64_t)a->dim[i]);
    }
    add_varint(b, 2 << 3);
    add_varint(b, qg_rng_below(rng, 30) ? onnx_type(a->type) : qg_rng_below(rng, 30));
    if (qg_rng_below(rng, 3) == 0)
        add_field(b, 8, "x", 1);
    const bool wide = strcmp(a->type, "i8") == 0, real = strcmp(a->type, "f4") == 0;
    const bool narrow = strchr("iub", a->type[0]) && a->type[1] < '4';
    if (qg_rng_below(rng, 3) || !(wide || real || narrow)) {
        add_elements(&data, a, false);
        add_field(b, 9, data.at, data.n);
        return;
    }
    for (size_t i = 0; real && i < a->n; i++) {
        unsigned char own[8];
        add(&data, own, element("f4", a->value[i], own));
    }
    for (size_t i = 0; !real && i < a->n; i++)
        add_varint(&data, (uint64_t)(isfinite(a->value[i]) ? fabs(a->value[i]) : 7));
    add_field(b, real ? 4 : wide ? 7 : 5, data.at, data.n);
}

/* --- images --- */

static void add_image(bytes *b, qg_rng *rng)
{
    static const unsigned maxima[] = { 255, 255, 255, 15, 1, 200, 65535, 0 };
    static const char *const heads[] = { "P%c %u %u %u\n",
                                         "P%c\n# a comment\n%u %u\n%u\n",
                                         "P%c\n%u\n%u %u " };
    char head[64];
    const bool color = qg_rng_below(rng, 3) > 0;
    const unsigned width =
                       qg_rng_below(rng, 3) ? 4 : 1 + (unsigned)qg_rng_below(rng, 7),
                   height =
                       qg_rng_below(rng, 3) ? 4 : 1 + (unsigned)qg_rng_below(rng, 7),
                   maximum = TURN(maxima, qg_rng_below(rng, 1000));
    (void)snprintf(head, sizeof head, TURN(heads, qg_rng_below(rng, 1000)),
                   color ? '6' : '5', width, height, maximum);
    add(b, head, strlen(head));
    for (unsigned i = 0; i < width * height * (color ? 3 : 1); i++)
        add_number(b, qg_rng_below(rng, maximum > 255 ? 256 : maximum + 1),
                   maximum > 255 ? 2 : 1);
}

/* --- files --- */

static void damage(bytes *b, qg_rng *rng)
{
    if (b->n == 0)
        return;
    if (qg_rng_below(rng, 2))
        b->n = qg_rng_below(rng, b->n);
    else
        b->at[qg_rng_below(rng, b->n)] ^= (unsigned char)(1u << qg_rng_below(rng, 8));
}

static void write_file(const char *path, const bytes *b)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->at, 1, b->n, f) != b->n || fclose(f) != 0)
        abort();
}

/* Two or three arrays; "x" is that of the input, mostly. */
static bool fill_npz(bytes *b, array *a, const input *in, qg_rng *rng)
{
    static entry e[3];
    static const char *const names[] = { "x.npy", "k.npy", "x", "other.npy" };
    const size_t n = 1 + qg_rng_below(rng, 3);
    bool deflated = false;
    for (size_t i = 0; i < n; i++) {
        e[i].name = i < 2 && qg_rng_below(rng, 12) ? names[i] : TURN(names, i + 2);
        e[i].deflated = qg_rng_below(rng, 3) == 0;
        e[i].data.n = 0;
        deflated |= e[i].deflated;
        if (i > 0)
            draw_array(a, in, rng);
        add_npy(&e[i].data, a, rng);
    }
    add_npz(b, e, n);
    return deflated;
}

/* Writes "folder/nameX" of a drawn kind; returns the path. */
static const char *draw_file(const char *name, const input *in, qg_rng *rng)
{
    static const char *const suffixes[] = { "npy", "npy", "npz", "pb", "pgm",
                                            "ppm", "npy", "pb",  "txt" };
    static char path[128];
    static array a;
    static bytes b;
    const char *suffix = TURN(suffixes, qg_rng_below(rng, 1000));
    if (suffix[1] != 'n' && suffix[2] == 'm' && in->rank != 4 && qg_rng_below(rng, 8))
        suffix = "npy";
    bool packed = false; /* bytes that depend on the library */
    b.n = 0;
    draw_array(&a, in, rng);
    if (suffix[0] == 'p' && suffix[2] == 'm')
        add_image(&b, rng);
    else if (strcmp(suffix, "pb") == 0)
        add_pb(&b, &a, rng);
    else if (strcmp(suffix, "npz") == 0)
        packed = fill_npz(&b, &a, in, rng);
    else
        add_npy(&b, &a, rng);
    if (qg_rng_below(rng, 6) == 0 && !packed)
        damage(&b, rng);
    (void)snprintf(path, sizeof path, "%s.%s", name, suffix);
    write_file(path, &b);
    return path;
}

static void draw_folder(const input *in, qg_rng *rng)
{
    char name[32];
    const unsigned n = (unsigned)qg_rng_below(rng, 4);
    if (mkdir("data", 0700) != 0)
        abort();
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "data/%c%u", (int)('a' + (i * 5 + n) % 7), i);
        (void)draw_file(name, in, rng);
    }
}

static const char *draw_yaml(const input *in, qg_rng *rng)
{
    static const char *const settings[] = {
        "resize: [4, 4]\n",  "resize: [0, 4]\n", "colors: bgr\n",      "colors: rgb\n",
        "layout: nchw\n",    "layout: nhwc\n",   "layout: nwhc\n",     "mean: 127.5\n",
        "mean: [1, 2, 3]\n", "std: 2\n",         "std: [1, 2, 0.5]\n", "std: 0\n",
        "mean: [1, 2]\n",    "lossy: yes\n",     "lossy: no\n",        "size: 3\n",
        "resize: [9, 5]\n"
    };
    FILE *f = fopen("set.yaml", "w");
    const bool list = qg_rng_below(rng, 4) == 0;
    draw_folder(in, rng);
    if (!f)
        abort();
    (void)fputs(list ? "files: [data, data]\n" : "files: data\n", f);
    for (uint64_t n = qg_rng_below(rng, 4); n > 0; n--)
        (void)fputs(TURN(settings, qg_rng_below(rng, 1000)), f);
    if (fclose(f) != 0)
        abort();
    return "set.yaml";
}

/* --- cases --- */

typedef struct data_case {
    unsigned k;
    const input *in;
    const char *data;
} data_case;

static qg_status open_network(qg_ctx *ctx, const data_case *c, qg_model **m)
{
    char text[512];
    const bool two = c->k % 9 == 4;
    (void)snprintf(
        text, sizeof text,
        "graph \"g\" {\n  opset 17\n  x = input %s[%s]\n%s  y = Identity(x)\n%s"
        "  output y%s\n}\n",
        c->in->type, c->in->dims, two ? "  k = input f32[1,6]\n" : "",
        two ? "  z = Identity(k)\n" : "", two ? ", z" : "");
    return qg_model_open_text(ctx, text, strlen(text), m);
}

static void run(recorded *r, void *ud)
{
    const data_case *c = ud;
    qg_ctx *ctx = recorded_context(r);
    qg_model *m = NULL;
    qg_report *report = NULL;
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work = (qg_workload){ .data = c->data,
                            .jobs = c->k % 5 == 2 ? 3 : 1,
                            .samples = c->k % 4 == 3 ? 1 + c->k % 3 : 0,
                            .reference_kernels = true };
    qg_status s = open_network(ctx, c, &m);
    recorded_status(r, ctx, "open", s);
    if (s == QG_OK) {
        s = qg_model_run(m, &o, "out", &report);
        recorded_status(r, ctx, c->data, s);
        qg_report_free(report);
        recorded_files(r, "out");
    }
    qg_model_close(m);
    qg_close(ctx);
}

static void try_one(recorded *r, unsigned k)
{
    static const char *const others[] = { "random:3",   "random:0",          "random:x",
                                          "absent.npy", "random:4294967297", "." };
    qg_rng rng = { 30000 + k };
    data_case c = { k, &TURN(inputs, k), "data" };
    switch (k % 16) {
    case 3:
    case 7:
        draw_folder(c.in, &rng);
        break;
    case 5:
    case 11:
        c.data = draw_yaml(c.in, &rng);
        break;
    case 15:
        c.data = TURN(others, k / 16);
        break;
    default:
        c.data = draw_file("one", c.in, &rng);
    }
    recorded_try(r, run, &c);
    if (c.data[0] == 'o' || c.data[0] == 's')
        (void)remove(c.data);
    if (access("data", F_OK) == 0)
        (void)scratch_remove("data");
}

int main(int argc, char **argv)
{
    recorded r;
    recorded_begin(&r, argc, argv, "tests/data/recorded/data.txt");
    recorded_enter(&r);
    for (unsigned k = 0, step = recorded_step(&r); k < CASES && !recorded_is_full(&r);
         k += step)
        if (recorded_case(&r, "data %u", k))
            try_one(&r, k);
    return recorded_end(&r);
}
