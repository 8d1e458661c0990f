/* onnx_mutator.c -- edits fields of ONNX models instead of bytes, so that libFuzzer
 * reaches what lies behind the parser: run.sh links it to the fuzzers of ONNX files.
 *
 * An input that is a ModelProto is unpacked, one to four of its fields are changed, and
 * it is packed again; any other input is left to libFuzzer's own mutations.  A change
 * takes a message anywhere in the model and one of its fields: a number becomes another
 * one of a kind that breaks programs, a text becomes another text of the model or the
 * name of an operator, a list loses, repeats or swaps elements, a message is replaced
 * by another of its type. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "engine/core/ctx.h"
#include "engine/core/rng.h"
#include "engine/onnx/wire.h"
#include "onnx.pb-c.h"
#include "ops/families.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed);

enum {
    MOST_MESSAGES = 4096, /* that are candidates for an edit */
    MOST_TEXTS = 2048,
    BYTES = 16 << 20, /* of the unpacked model and all edits */
};

/* A model that is edited, with what edits draw from. */
typedef struct edit {
    qg_rng rng;
    ProtobufCMessage *message[MOST_MESSAGES];
    size_t n_message;
    char *text[MOST_TEXTS];
    size_t n_text;
    size_t used; /* of block, all memory of the model */
    _Alignas(16) char block[BYTES];
} edit;

static void *take(void *data, size_t size)
{
    edit *e = data;
    size_t n = (size + 15) & ~(size_t)15;
    if (size > BYTES || n > BYTES - e->used)
        return NULL;
    e->used += n;
    return e->block + e->used - n;
}

static void leave(void *data, void *pointer)
{
    (void)data; /* the block is freed as a whole */
    (void)pointer;
}

static size_t below(edit *e, size_t n) { return (size_t)qg_rng_below(&e->rng, n); }

/* --- what the model contains --- */

static const void *child_message(const void *kind, unsigned field)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(kind, field);
    return f && f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
}

static void *member(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (char *)m + f->offset;
}

/* Whether the field is another one of its oneof than that which is set. */
static bool is_other(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
           *(uint32_t *)((char *)m + f->quantifier_offset) != f->id;
}

/* The elements of a field: those of a list, the only one, or none. */
static size_t elements(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                       void ***out)
{
    if (f->label != PROTOBUF_C_LABEL_REPEATED) {
        *out = member(m, f);
        return **out ? 1 : 0;
    }
    *out = *(void ***)member(m, f);
    return *(size_t *)((char *)m + f->quantifier_offset);
}

static void visit(edit *e, ProtobufCMessage *m)
{
    if (e->n_message == MOST_MESSAGES)
        return;
    e->message[e->n_message++] = m;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        bool text = f->type == PROTOBUF_C_TYPE_STRING;
        void **element;
        if ((!text && f->type != PROTOBUF_C_TYPE_MESSAGE) || is_other(m, f))
            continue;
        size_t n = elements(m, f, &element);
        for (size_t k = 0; k < n; k++)
            if (!text)
                visit(e, element[k]);
            else if (e->n_text < MOST_TEXTS)
                e->text[e->n_text++] = element[k];
    }
}

/* --- edits of one field --- */

static int64_t some_integer(edit *e, int64_t old)
{
    static const int64_t special[] = { 0,         1,         -1,        2,
                                       7,         255,       256,       65536,
                                       INT32_MAX, INT32_MIN, 1LL << 32, INT64_MAX,
                                       INT64_MIN, 1LL << 62, -2,        1000000 };
    switch (below(e, 3)) {
    case 0:
        return special[below(e, sizeof special / sizeof special[0])];
    case 1:
        return (int64_t)((uint64_t)old + below(e, 5) - 2);
    default:
        return (int64_t)below(e, 32);
    }
}

static double some_number(edit *e, double old)
{
    static const double special[] = { 0,      -0.0,    1,   -1,    1e-45, 1e-7,
                                      3.4e38, -3.4e38, 0.5, 127.5, 1e10 };
    size_t n = sizeof special / sizeof special[0], k = below(e, n + 5);
    if (k < n)
        return special[k];
    return k == n ? NAN : k == n + 1 ? INFINITY : k == n + 2 ? -INFINITY : old * 1.5;
}

/* Another text of the model, or the name of an operator. */
static char *some_text(edit *e)
{
    static char empty[] = "";
    const qg_registry *r = &qg_ops_registry;
    if (e->n_text && below(e, 3))
        return e->text[below(e, e->n_text)];
    const qg_op *op = r->family[below(e, r->n_family)];
    size_t n = 0;
    while (op[n].name)
        n++;
    return below(e, 8) ? (char *)op[below(e, n)].name : empty;
}

static void edit_scalar(edit *e, const ProtobufCFieldDescriptor *f, void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        *(int32_t *)at = (int32_t)some_integer(e, *(int32_t *)at);
        return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(int64_t *)at = some_integer(e, *(int64_t *)at);
        return;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)at = (float)some_number(e, *(float *)at);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = some_number(e, *(double *)at);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at ^= 1;
        return;
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = some_text(e);
        return;
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData *b = at;
        if (b->len)
            b->len = LLVMFuzzerMutate(b->data, b->len, b->len);
        return;
    }
    case PROTOBUF_C_TYPE_MESSAGE: /* another of its type, perhaps one of its parents:
                                     packing that never ends is refused by size */
        return;
    }
}

static size_t width(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* A list with one element more, fewer, or in another place. */
static void edit_list(edit *e, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    size_t *n = (size_t *)((char *)m + f->quantifier_offset), w = width(f->type);
    char **list = member(m, f), *element = *list;
    if (*n == 0)
        return;
    size_t i = below(e, *n), k = below(e, *n);
    char swap[sizeof(ProtobufCBinaryData)];
    switch (below(e, 4)) {
    case 0: /* one fewer */
        memmove(element + i * w, element + (i + 1) * w, (*n - i - 1) * w);
        --*n;
        return;
    case 1: /* one twice */
        if (!(*list = take(e, (*n + 1) * w))) {
            *list = element;
            return;
        }
        memcpy(*list, element, *n * w);
        memcpy(*list + *n * w, element + i * w, w);
        ++*n;
        return;
    case 2:
        memcpy(swap, element + i * w, w);
        memmove(element + i * w, element + k * w, w);
        memcpy(element + k * w, swap, w);
        return;
    default:
        edit_scalar(e, f, element + i * w);
    }
}

/* A copy of another message of this type; NULL: there is none. */
static ProtobufCMessage *some_message(edit *e, const ProtobufCMessageDescriptor *type)
{
    ProtobufCAllocator memory = { take, leave, e };
    for (int tries = 0; tries < 64; tries++) {
        ProtobufCMessage *m = e->message[below(e, e->n_message)];
        if (m->descriptor != type)
            continue;
        size_t n = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = take(e, n + 1);
        if (!bytes)
            return NULL;
        protobuf_c_message_pack(m, bytes);
        return protobuf_c_message_unpack(type, &memory, n, bytes);
    }
    return NULL;
}

static void edit_message_field(edit *e, ProtobufCMessage *m,
                               const ProtobufCFieldDescriptor *f)
{
    void **element;
    size_t n = elements(m, f, &element);
    bool list = f->label == PROTOBUF_C_LABEL_REPEATED;
    if (list && below(e, 2)) {
        edit_list(e, m, f);
        return;
    }
    ProtobufCMessage *other = some_message(e, f->descriptor);
    if (n && other)
        element[below(e, n)] = other;
    else if (!list)
        *element = other;
}

/* An optional field there or not there: its flag, or NULL. */
static void edit_presence(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return; /* `member` is of one type at a time */
    if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
        *(void **)member(m, f) = NULL;
    else if (f->quantifier_offset)
        *(protobuf_c_boolean *)((char *)m + f->quantifier_offset) ^= 1;
}

static void edit_once(edit *e)
{
    ProtobufCMessage *m = e->message[below(e, e->n_message)];
    if (!m->descriptor->n_fields)
        return;
    const ProtobufCFieldDescriptor *f =
        &m->descriptor->fields[below(e, m->descriptor->n_fields)];
    if (is_other(m, f))
        return;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        edit_message_field(e, m, f);
    else if (f->label == PROTOBUF_C_LABEL_REPEATED)
        edit_list(e, m, f);
    else if (below(e, 8) == 0)
        edit_presence(m, f);
    else
        edit_scalar(e, f, member(m, f));
}

/* --- the model --- */

/* Depth and counts are bounded as by the importer, before the recursive parser runs. */
static bool well_formed(const uint8_t *data, size_t size)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_wire wire = { .name = "mutator",
                           .bytes = data,
                           .size = size,
                           .kind = &onnx__model_proto__descriptor,
                           .child = child_message,
                           .is_block = NULL,
                           .is_text = NULL };
    const unsigned char *bytes;
    size_t n;
    bool ok = ctx && qg_wire_strip(ctx, &wire, ctx->arena, &bytes, &n) == QG_OK;
    qg_ctx_free(ctx);
    return ok;
}

/* The new size; 0: not a model, or nothing came of the edits. */
static size_t mutate(edit *e, uint8_t *data, size_t size, size_t max_size)
{
    ProtobufCAllocator memory = { take, leave, e };
    ProtobufCMessage *model =
        well_formed(data, size)
            ? protobuf_c_message_unpack(&onnx__model_proto__descriptor, &memory, size,
                                        data)
            : NULL;
    if (!model)
        return 0;
    visit(e, model);
    for (size_t n = 1 + below(e, 4); n > 0; n--)
        edit_once(e);
    size = protobuf_c_message_get_packed_size(model);
    return size <= max_size ? protobuf_c_message_pack(model, data) : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned seed)
{
    static edit e;
    e.rng = (qg_rng){ seed };
    e.n_message = e.n_text = e.used = 0;
    size_t n = 0;
    if (below(&e, 8)) /* one in eight by bytes, as without this file */
        n = mutate(&e, data, size, max_size);
    return n ? n : LLVMFuzzerMutate(data, size, max_size);
}
