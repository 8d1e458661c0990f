/* pack.c -- tables, vectors and references, appended to one block of bytes that grows.
 *
 * Each function that appends takes the position of the reference to be filled in,
 * rather than returning its own position: parents come before children.  After a
 * failure all of them do nothing; only qg_tflite_pack turns it into a status.  A
 * reference is a position in the block, never a pointer, since the block moves when it
 * grows. */
#include "engine/formats/tflite/pack.h"

#include <assert.h>
#include <string.h>

enum { FIRST_ROOM = 1 << 16, MOST_FIELDS = 8, MOST_OLD = 127 };

/* Bytes that grow; the first failure is kept. */
typedef struct sink {
    qg_ctx *ctx;
    qg_arena *arena;
    unsigned char *at;
    size_t n, room;
    bool failed, too_large;
} sink;

/* One field of a table: 1 or 4 bytes, little-endian; size 0: absent. */
typedef struct field {
    unsigned size;
    int64_t value;
} field;

#define BYTE(x)                                                                        \
    {                                                                                  \
        1, (x)                                                                         \
    }
#define INT(x)                                                                         \
    {                                                                                  \
        4, (x)                                                                         \
    }
#define LATER                                                                          \
    {                                                                                  \
        4, 0                                                                           \
    } /* a reference, filled in by refer */
#define ABSENT                                                                         \
    {                                                                                  \
        0, 0                                                                           \
    }

/* --- bytes --- */

static unsigned char *grow(sink *s, size_t more)
{
    s->too_large |= more > INT32_MAX || s->n + more > INT32_MAX;
    s->failed |= s->too_large;
    if (s->failed)
        return NULL;
    if (s->n + more > s->room) {
        size_t room = s->room ? s->room : FIRST_ROOM;
        while (room < s->n + more)
            room *= 2;
        unsigned char *at = qg_arena_get(s->arena, room, 1);
        s->failed = !at;
        if (!at)
            return NULL;
        if (s->n)
            memcpy(at, s->at, s->n);
        s->at = at;
        s->room = room;
    }
    unsigned char *to = s->at + s->n;
    memset(to, 0, more);
    s->n += more;
    return to;
}

/* The next byte but `ahead` has an address that is a multiple of `to`. */
static void align(sink *s, size_t to, size_t ahead)
{
    (void)grow(s, (to - (s->n + ahead) % to) % to);
}

static void put(unsigned char *to, unsigned size, int64_t value)
{
    for (unsigned i = 0; i < size; i++)
        to[i] = (unsigned char)((uint64_t)value >> (8 * i));
}

static void add(sink *s, unsigned size, int64_t value)
{
    unsigned char *to = grow(s, size);
    if (to)
        put(to, size, value);
}

/* The reference at `from` leads to the next byte. */
static void refer(sink *s, size_t from)
{
    if (!s->failed)
        put(s->at + from, 4, (int64_t)(s->n - from));
}

/* --- tables and vectors --- */

/* A table behind its vtable; its own position replaces the reference at `from`.
 * where [n]: positions of the fields. */
static void add_table(sink *s, size_t from, const field *f, size_t n, size_t *where)
{
    size_t at = 4, offset[MOST_FIELDS] = { 0 };
    assert(n <= MOST_FIELDS);
    for (unsigned size = 4; size > 0; size /= 2) /* large ones first: no gaps */
        for (size_t i = 0; i < n; i++)
            if (f[i].size == size) {
                offset[i] = at;
                at += size;
            }
    align(s, 4, 4 + 2 * n);
    add(s, 2, (int64_t)(4 + 2 * n));
    add(s, 2, (int64_t)at);
    for (size_t i = 0; i < n; i++)
        add(s, 2, (int64_t)offset[i]);
    size_t table = s->n;
    refer(s, from);
    add(s, 4, (int64_t)(4 + 2 * n)); /* back to the vtable */
    (void)grow(s, at - 4);
    for (size_t i = 0; i < n; i++) {
        where[i] = table + offset[i];
        if (!s->failed)
            put(s->at + where[i], f[i].size, f[i].value);
    }
}

/* A vector of n elements of `size` bytes, its first element aligned. */
static void begin_vector(sink *s, size_t from, uint32_t n, size_t aligned)
{
    align(s, aligned, 4);
    refer(s, from);
    add(s, 4, n);
}

static void add_bytes(sink *s, size_t from, const void *x, size_t n, size_t aligned)
{
    begin_vector(s, from, (uint32_t)n, aligned);
    unsigned char *to = grow(s, n);
    if (to && n)
        memcpy(to, x, n);
}

static void add_text(sink *s, size_t from, const char *text)
{
    add_bytes(s, from, text, strlen(text), 4);
    add(s, 1, 0);
}

static void add_ints(sink *s, size_t from, const int32_t *x, uint32_t n)
{
    begin_vector(s, from, n, 4);
    for (uint32_t i = 0; i < n; i++)
        add(s, 4, x[i]);
}

/* A vector of n references; the position of the first. */
static size_t add_references(sink *s, size_t from, uint32_t n)
{
    begin_vector(s, from, n, 4);
    size_t at = s->n;
    (void)grow(s, 4 * (size_t)n);
    return at;
}

static int64_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* --- operators --- */

static size_t copy_fields(field *to, const field *from, size_t n)
{
    memcpy(to, from, n * sizeof *to);
    return n;
}
#define FIELDS(...)                                                                    \
    copy_fields(f, (const field[]){ __VA_ARGS__ },                                     \
                sizeof((const field[]){ __VA_ARGS__ }) / sizeof(field))

static size_t window_fields(const qg_tflite_options *o, field f[MOST_FIELDS])
{
    switch (o->kind) {
    case QG_TFLITE_OPTIONS_CONV:
        return FIELDS(BYTE(o->padding), INT(o->stride_w), INT(o->stride_h),
                      BYTE(o->activation), INT(o->dilation_w), INT(o->dilation_h));
    case QG_TFLITE_OPTIONS_DEPTHWISE:
        return FIELDS(BYTE(o->padding), INT(o->stride_w), INT(o->stride_h),
                      INT(o->multiplier), BYTE(o->activation), INT(o->dilation_w),
                      INT(o->dilation_h));
    case QG_TFLITE_OPTIONS_POOL:
        return FIELDS(BYTE(o->padding), INT(o->stride_w), INT(o->stride_h),
                      INT(o->filter_w), INT(o->filter_h), BYTE(o->activation));
    case QG_TFLITE_OPTIONS_TRANSPOSE_CONV:
        return FIELDS(BYTE(o->padding), INT(o->stride_w), INT(o->stride_h),
                      BYTE(o->activation));
    default:
        return 0;
    }
}

static size_t move_fields(const qg_tflite_options *o, field f[MOST_FIELDS])
{
    switch (o->kind) {
    case QG_TFLITE_OPTIONS_CONCAT:
        return FIELDS(INT(o->axis), BYTE(o->activation));
    case QG_TFLITE_OPTIONS_GATHER:
        return FIELDS(INT(o->axis), INT(o->batch_dims));
    case QG_TFLITE_OPTIONS_STRIDED_SLICE:
        return FIELDS(INT(o->begin_mask), INT(o->end_mask), INT(o->ellipsis_mask),
                      INT(o->new_axis_mask), INT(o->shrink_axis_mask), BYTE(o->offset));
    case QG_TFLITE_OPTIONS_SPLIT:
    case QG_TFLITE_OPTIONS_SPLIT_V:
        return FIELDS(INT(o->parts));
    case QG_TFLITE_OPTIONS_PACK:
    case QG_TFLITE_OPTIONS_UNPACK:
        return FIELDS(INT(o->parts), INT(o->axis));
    case QG_TFLITE_OPTIONS_RESIZE_BILINEAR:
        return FIELDS(ABSENT, ABSENT, BYTE(o->align_corners), BYTE(o->half_pixel));
    case QG_TFLITE_OPTIONS_RESIZE_NEAREST:
        return FIELDS(BYTE(o->align_corners), BYTE(o->half_pixel));
    default:
        return window_fields(o, f);
    }
}

/* The table of options; 0 fields: an operator without one. */
static size_t option_fields(const qg_tflite_options *o, field f[MOST_FIELDS])
{
    switch (o->kind) {
    case QG_TFLITE_OPTIONS_ADD:
    case QG_TFLITE_OPTIONS_MUL:
    case QG_TFLITE_OPTIONS_SUB:
    case QG_TFLITE_OPTIONS_DIV:
        return FIELDS(BYTE(o->activation));
    case QG_TFLITE_OPTIONS_DENSE:
        return FIELDS(BYTE(o->activation), BYTE(o->format), BYTE(o->keep_dims));
    case QG_TFLITE_OPTIONS_SOFTMAX:
    case QG_TFLITE_OPTIONS_LEAKY_RELU:
        return FIELDS(INT(bits_of(o->factor)));
    case QG_TFLITE_OPTIONS_GELU:
        return FIELDS(BYTE(o->approximate));
    case QG_TFLITE_OPTIONS_REDUCER:
        return FIELDS(BYTE(o->keep_dims));
    case QG_TFLITE_OPTIONS_BATCH_MATMUL:
        return FIELDS(BYTE(o->adj_x), BYTE(o->adj_y));
    default:
        return move_fields(o, f);
    }
}

static void add_operator(sink *s, size_t from, const qg_tflite_operator *op,
                         uint32_t code)
{
    field options[MOST_FIELDS];
    size_t n = option_fields(&op->options, options), where[5], inner[MOST_FIELDS];
    const field f[] = { INT(code), LATER, LATER, BYTE(n ? op->options.kind : 0),
                        LATER };
    assert(n || op->options.kind == QG_TFLITE_OPTIONS_NONE);
    add_table(s, from, f, n ? 5 : 3, where);
    add_ints(s, where[1], op->in, op->n_in);
    add_ints(s, where[2], op->out, op->n_out);
    if (n)
        add_table(s, where[4], options, n, inner);
}

/* --- tensors --- */

static void add_quantization(sink *s, size_t from, const qg_tflite_tensor *t)
{
    const field f[] = { ABSENT, ABSENT, LATER, LATER, ABSENT, ABSENT, INT(t->axis) };
    size_t where[7];
    assert(t->n_zero == t->n_scale && t->zero);
    add_table(s, from, f, 7, where);
    begin_vector(s, where[2], t->n_scale, 4);
    for (uint32_t i = 0; i < t->n_scale; i++)
        add(s, 4, bits_of(t->scale[i]));
    begin_vector(s, where[3], t->n_zero, 8);
    unsigned char *to = grow(s, 8 * (size_t)t->n_zero);
    if (to)
        memcpy(to, t->zero, 8 * (size_t)t->n_zero);
}

static void add_tensor(sink *s, size_t from, const qg_tflite_tensor *t, uint32_t buffer)
{
    const field f[] = { LATER, BYTE(t->type), INT(buffer), LATER, LATER };
    size_t where[5];
    add_table(s, from, f, t->n_scale ? 5 : 4, where);
    add_ints(s, where[0], t->dim, t->rank);
    add_text(s, where[3], t->name);
    if (t->n_scale)
        add_quantization(s, where[4], t);
}

/* --- the file --- */

/* Position of a code in the list of those before; n when it is new. */
static uint32_t code_index(const int32_t *codes, uint32_t n, int32_t code)
{
    uint32_t i = 0;
    while (i < n && codes[i] != code)
        i++;
    return i;
}

/* Kernels are registered from version 1 on (register_ref.cc), but for this one; types
 * decide what they compute, not the version. */
static int32_t version_of(int32_t code)
{
    enum { BROADCAST_TO = 130 };
    return code == BROADCAST_TO ? 2 : 1;
}

static void add_codes(sink *s, size_t from, const int32_t *codes, uint32_t n)
{
    size_t at = add_references(s, from, n), where[4];
    for (uint32_t i = 0; i < n; i++) {
        const field f[] = { BYTE(codes[i] < MOST_OLD ? codes[i] : MOST_OLD), ABSENT,
                            INT(version_of(codes[i])), INT(codes[i]) };
        add_table(s, at + 4 * (size_t)i, f, 4, where);
    }
}

static void add_subgraph(sink *s, size_t from, const qg_tflite_file *file,
                         const int32_t *codes, uint32_t n_codes)
{
    const field f[] = { LATER, LATER, LATER, LATER, LATER };
    size_t where[5], at;
    uint32_t buffer = 1;
    add_table(s, from, f, 5, where);
    at = add_references(s, where[0], file->n_tensor);
    for (uint32_t i = 0; i < file->n_tensor; i++) {
        const qg_tflite_tensor *t = &file->tensor[i];
        add_tensor(s, at + 4 * (size_t)i, t, t->data ? buffer : 0);
        buffer += t->data != NULL;
    }
    add_ints(s, where[1], file->input, file->n_input);
    add_ints(s, where[2], file->output, file->n_output);
    at = add_references(s, where[3], file->n_op);
    for (uint32_t i = 0; i < file->n_op; i++)
        add_operator(s, at + 4 * (size_t)i, &file->op[i],
                     code_index(codes, n_codes, file->op[i].code));
    add_text(s, where[4], "main");
}

static void add_buffers(sink *s, size_t from, const qg_tflite_file *file)
{
    const field f[] = { LATER };
    uint32_t n = 1;
    size_t at, where[1];
    for (uint32_t i = 0; i < file->n_tensor; i++)
        n += file->tensor[i].data != NULL;
    at = add_references(s, from, n);
    add_table(s, at, NULL, 0, where);
    for (uint32_t i = 0; i < file->n_tensor; i++) {
        const qg_tflite_tensor *t = &file->tensor[i];
        if (!t->data)
            continue;
        at += 4;
        add_table(s, at, f, 1, where);
        add_bytes(s, where[0], t->data, t->size, 16);
    }
}

qg_status qg_tflite_pack(qg_ctx *ctx, qg_arena *a, const qg_tflite_file *f,
                         const char *description, const unsigned char **bytes,
                         size_t *size)
{
    static const unsigned char begin[8] = { 0, 0, 0, 0, 'T', 'F', 'L', '3' };
    const field model[] = { INT(f->version), LATER, LATER, LATER, LATER };
    sink s = { .ctx = ctx, .arena = a };
    int32_t *codes = QG_NEWN(a, f->n_op, int32_t);
    uint32_t n = 0;
    size_t where[5];
    if (!codes)
        return qg_nomem(ctx);
    for (uint32_t i = 0; i < f->n_op; i++)
        if (code_index(codes, n, f->op[i].code) == n)
            codes[n++] = f->op[i].code;
    unsigned char *to = grow(&s, sizeof begin);
    if (to)
        memcpy(to, begin, sizeof begin);
    add_table(&s, 0, model, 5, where);
    add_codes(&s, where[1], codes, n);
    size_t at = add_references(&s, where[2], 1);
    add_subgraph(&s, at, f, codes, n);
    add_text(&s, where[3], description);
    add_buffers(&s, where[4], f);
    *bytes = s.at;
    *size = s.n;
    if (s.too_large)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "export: the file exceeds 2 GB, expected a smaller model");
    return s.failed ? qg_nomem(ctx) : QG_OK;
}
