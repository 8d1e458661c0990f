/* Statistics as bytes: there and back, damaged in every place. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/core/rng.h"
#include "engine/core/hash.h"
#include "engine/snapshot/stats_file.h"

enum { N = 3 * 40 };

static int open_context(void **state)
{
    *state = qg_ctx_new(qg_alloc_libc);
    return *state ? 0 : -1;
}

static int close_context(void **state)
{
    qg_ctx_free(*state);
    return 0;
}

static void see(qg_ctx *ctx, qg_stats_value *v, uint64_t sample, qg_rng *rng)
{
    const int64_t dim[] = { 1, 3, N / 3 };
    float data[N];
    qg_tensor x;
    qg_stats_seen seen;
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    qg_tensor_init(&x, QG_F32, 3, dim);
    x.f32 = data;
    for (size_t i = 0; i < N; i++)
        data[i] = i % 9 == 0 ? 0 : i == 17 ? NAN : qg_rng_range(rng, -2, 1);
    assert_ok(ctx, qg_stats_look(ctx, v, &x, scratch, &seen));
    assert_ok(ctx, qg_stats_add(ctx, v, sample, &seen, scratch));
    qg_arena_free(scratch);
}

/* Four values that hold all, some or nothing, the last one never seen. */
static qg_stats *make(qg_ctx *ctx, uint64_t first, uint64_t end)
{
    const int64_t dim[] = { 1, 3, N / 3 };
    static const unsigned holds[] = { QG_STATS_MOMENTS | QG_STATS_HISTOGRAM |
                                          QG_STATS_BY_CHANNEL,
                                      QG_STATS_MOMENTS | QG_STATS_HISTOGRAM, 0,
                                      QG_STATS_HISTOGRAM };
    static const char *const name[] = { "a", "b", "c", "never" };
    qg_stats *s;
    qg_tensor type;
    qg_tensor_init(&type, QG_F32, 3, dim);
    assert_ok(ctx, qg_stats_new(ctx, &s));
    s->manifest = (qg_stats_manifest){ "m", "g", "p", "k", "d", "h" };
    for (int k = 0; k < 4; k++) {
        qg_stats_value *v;
        qg_rng rng = { 31 + (uint64_t)k };
        assert_ok(ctx,
                  qg_stats_add_value(s, name[k], &type, k == 2 ? -1 : 1, holds[k], &v));
        for (uint64_t i = 0; k < 3 && i < end; i++) {
            qg_rng own = { qg_rng_next(&rng) };
            if (i >= first)
                see(ctx, v, i, &own);
        }
    }
    assert_ok(ctx, qg_stats_mark(s, first, end));
    return s;
}

static unsigned char *encode(qg_ctx *ctx, const qg_stats *s, size_t *size)
{
    unsigned char *bytes = NULL;
    assert_ok(ctx, qg_stats_encode(ctx, s, ctx->arena, &bytes, size));
    return bytes;
}

static void what_is_read_is_what_was_written(void **state)
{
    qg_ctx *ctx = *state;
    size_t n, m;
    qg_stats *s = make(ctx, 3, 30), *t;
    unsigned char *bytes = encode(ctx, s, &n);
    qg_stats_source from = { "x.qgs", bytes, n };
    assert_ok(ctx, qg_stats_decode(ctx, &from, &t));
    unsigned char *again = encode(ctx, t, &m);
    assert_int_equal(n, m);
    assert_memory_equal(bytes, again, n);
    assert_string_equal(t->manifest.preprocessing, "p");
    assert_int_equal(t->value.n, 4);
    const qg_stats_channel *a = &s->value.at[0]->channel[1];
    const qg_stats_channel *b = &t->value.at[0]->channel[1];
    assert_memory_equal(&a->sum, &b->sum, sizeof a->sum);
    assert_memory_equal(&a->square, &b->square, sizeof a->square);
    assert_cmp_f64(a->low, ==, b->low);
    assert_int_equal(a->nans, b->nans);
    assert_int_equal(a->zeros, b->zeros);
    qg_stats_free(s);
    qg_stats_free(t);
}

/* Shards that went through files, in any order, give the bytes of one run. */
static void shards_through_files_give_the_same_bytes(void **state)
{
    qg_ctx *ctx = *state;
    static const uint64_t cut[] = { 0, 7, 20, 45 };
    static const int order[][3] = {
        {0,  1, 2},
        { 2, 1, 0},
        { 1, 2, 0}
    };
    size_t n, m;
    qg_stats *all = make(ctx, 0, 45);
    unsigned char *want = encode(ctx, all, &n);
    for (int k = 0; k < 3; k++) {
        qg_stats *part[3];
        for (int i = 0; i < 3; i++) {
            size_t size;
            qg_stats *s = make(ctx, cut[i], cut[i + 1]);
            unsigned char *bytes = encode(ctx, s, &size);
            qg_stats_source from = { "shard", bytes, size };
            assert_ok(ctx, qg_stats_decode(ctx, &from, &part[i]));
            qg_stats_free(s);
        }
        qg_stats *first = part[order[k][0]];
        assert_ok(ctx, qg_stats_merge(first, part[order[k][1]], "a", "b"));
        assert_ok(ctx, qg_stats_merge(first, part[order[k][2]], "a", "b"));
        unsigned char *bytes = encode(ctx, first, &m);
        assert_int_equal(n, m);
        assert_memory_equal(bytes, want, n);
        for (int i = 0; i < 3; i++)
            qg_stats_free(part[i]);
    }
    qg_stats_free(all);
}

static void damage_is_found(void **state)
{
    qg_ctx *ctx = *state;
    size_t n;
    qg_stats *s = make(ctx, 0, 2), *t;
    unsigned char *bytes = encode(ctx, s, &n);
    qg_stats_source from = { "x.qgs", bytes, n };
    for (size_t i = 0; i < n; i++) { /* every length, every byte */
        from.size = i;
        assert_int_not_equal(qg_stats_decode(ctx, &from, &t), QG_OK);
    }
    from.size = n;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 4;
        assert_int_not_equal(qg_stats_decode(ctx, &from, &t), QG_OK);
        bytes[i] ^= 4;
    }
    bytes[20] ^= 1;
    assert_fails(ctx, qg_stats_decode(ctx, &from, &t), QG_EPARSE,
                 "statistics: x.qgs: is damaged: its checksum differs");
    bytes[20] ^= 1;
    bytes[8] = 3;
    assert_fails(ctx, qg_stats_decode(ctx, &from, &t), QG_EUNSUPPORTED,
                 "statistics: x.qgs: version 3, expected 1 or 2");
    bytes[0] = 'Q';
    assert_fails(ctx, qg_stats_decode(ctx, &from, &t), QG_EPARSE, "no statistics");
    qg_stats_free(s);
}

/* Behind the name of a value: axis + 1, channels, contents.  Values "a" (axis 1, three
 * channels) and "c" (no axis). */
static void wrong_shapes_are_named(void **state)
{
    static const struct {
        const char *name;
        size_t field;
        unsigned char value;
        const char *text;
    } wrong[] = {
        {"\1a",  0, QG_MAX_RANK + 1, "an invalid axis"         },
        { "\1a", 1, 0,               "channels that do not fit"},
        { "\1a", 1, 127,             "channels that do not fit"},
        { "\1a", 2, 8,               "unknown contents"        },
        { "\1c", 1, 2,               "channels that do not fit"},
    };
    qg_ctx *ctx = *state;
    char hash[QG_HASH_TEXT];
    size_t n;
    qg_stats *s = make(ctx, 0, 0), *t;
    unsigned char *bytes = encode(ctx, s, &n);
    const size_t content = n - (QG_HASH_TEXT - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        unsigned char *at = bytes;
        while (memcmp(at, wrong[i].name, 2) != 0)
            assert_cmp_int(++at - bytes, <, content - 1);
        at += 2 + wrong[i].field;
        const unsigned char was = *at;
        *at = wrong[i].value;
        qg_hash_bytes(bytes, content, hash);
        memcpy(bytes + content, hash, QG_HASH_TEXT - 1);
        qg_stats_source from = { "forged", bytes, n };
        assert_fails(ctx, qg_stats_decode(ctx, &from, &t), QG_EPARSE, wrong[i].text);
        *at = was;
    }
    qg_stats_free(s);
}

/* Any change with a checksum that fits: refused, or as good as any file. */
static void forgeries_do_no_harm(void **state)
{
    enum { ROUNDS = 3000 };
    qg_ctx *ctx = *state;
    size_t n, m, good = 0;
    qg_rng rng = { 8 };
    qg_stats *s = make(ctx, 0, 2), *t;
    unsigned char *bytes = encode(ctx, s, &n), *copy = malloc(n);
    const size_t hash = QG_HASH_TEXT - 1;
    for (int round = 0; round < ROUNDS; round++) {
        char text[QG_HASH_TEXT];
        size_t at = 12 + qg_rng_below(&rng, n - hash - 12);
        memcpy(copy, bytes, n);
        copy[at] ^= (unsigned char)(1 << qg_rng_below(&rng, 8));
        qg_hash_bytes(copy, n - hash, text);
        memcpy(copy + n - hash, text, hash);
        qg_stats_source from = { "forged", copy, n };
        if (qg_stats_decode(ctx, &from, &t) != QG_OK)
            continue;
        good++;
        qg_arena *a = qg_arena_new(qg_alloc_libc);
        unsigned char *again;
        assert_ok(ctx, qg_stats_encode(ctx, t, a, &again, &m));
        qg_arena_free(a);
        qg_stats_free(t);
    }
    assert_cmp_int(good, >, 0);
    assert_cmp_int(good, <, ROUNDS);
    free(copy);
    qg_stats_free(s);
}

static void a_file_is_whole_or_not_there(void **state)
{
    qg_ctx *ctx = *state;
    char path[] = "/tmp/qg_stats_XXXXXX";
    qg_stats *s = make(ctx, 0, 3), *t;
    int fd = mkstemp(path);
    assert_cmp_int(fd, >=, 0);
    assert_int_equal(close(fd), 0);
    assert_ok(ctx, qg_stats_save(ctx, s, path));
    assert_ok(ctx, qg_stats_load(ctx, path, &t));
    assert_int_equal(qg_stats_samples(t), 3);
    assert_fails(ctx, qg_stats_load(ctx, "/nowhere/x.qgs", &t), QG_EIO,
                 "/nowhere/x.qgs");
    (void)unlink(path);
    qg_stats_free(s);
    qg_stats_free(t);
}

/* Files by hand, byte for byte as stats_file.h has them: what is read gives the same
 * bytes again, and each limit is that which stands there. */
typedef struct forged {
    const char *bytes; /* behind six empty texts */
    size_t n;
    const char *why; /* NULL: it is read */
    unsigned char version;
} forged;

/* clang-format off */
#define BYTES(text) text, sizeof text - 1
#define READ(text) { BYTES(text), NULL, 1 }
#define NOT(text, why) { BYTES(text), why, 1 }
#define MAX9 "\xff\xff\xff\xff\xff\xff\xff\xff\xff"
#define NOTHING "\0\0\x80\x7f\0\0\x80\xff" /* +inf, -inf */
#define ONE "\0\0\x80\x3f"
#define ZERO "\0\0\0\0"
#define NAN_ "\0\0\xc0\x7f"
#define EMPTY NOTHING "\0\0"
#define REST15 EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY \
    EMPTY EMPTY EMPTY
#define ALL16 EMPTY REST15
#define V(holds) "\0\1\1v\0\1" holds /* no samples; one value, without an axis */
#define MOST "\xff\xff\xff\xff\xff\x1f" /* 2^40 - 1 */
#define OVER "\x80\x80\x80\x80\x80\x20" /* 2^40 */
#define LONG "a number that is too long"
#define FEWER "fewer counts than elements"
static const forged files[] = {
    READ("\0\0"),
    NOT("\0\0x", "data after the last value"), NOT("\0",
      "the file ends within a number"),
    NOT("", "the file ends within a number"), NOT("\x80",
      "the file ends within a number"),
    /* Numbers: no byte too many, 64 bits. */
    NOT("\x80\0\0", LONG), NOT("\1" MAX9 "\0\1\0", LONG), NOT("\1" MAX9 "\2\1\0", LONG),
    NOT("\1" MAX9 "\x81\1\0", LONG), NOT("\1" MAX9 "\1\1\0", "an invalid sample"),
    NOT("\1" MAX9 "\1\0\0", "adjacent ranges of samples"),
    READ("\1\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\1\0"),
    NOT("\1\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\2\0", "an invalid sample"),
    NOT("\2\0\1" MAX9 "\1\1\0", "an invalid sample"),
    /* Ranges: with gaps between them, none empty. */
    READ("\1\0\1\0"), READ("\1\5\x80\1\0"), READ("\2\0\1\1\1\0"), READ("\2\3\7\2\1\0"),
    NOT("\1\0\0\0", "adjacent ranges of samples"),
    NOT("\2\0\1\0\1\0", "adjacent ranges of samples"),
    NOT("\2\0\1\1\0\0", "adjacent ranges of samples"),
    NOT("\3\0\1\1\1\0", "the file ends within a number"),
    NOT("\4\0\1\1\1\0", "more ranges than there are"),
    NOT("\0\x81\x80\4", "too many values"),
    NOT("\0\x80\x80\4", "the file ends within a number"),
    NOT("\0\1\3v", "the file ends within a text"), NOT("\0\1\1\0\0\1\0",
      "a zero byte in a"),
    /* Shapes. */
    READ(V("\0") NOTHING "\0\0\0\0" ALL16),
    NOT(V("\x8") NOTHING "\0\0\0\0" ALL16, "unknown contents"),
    NOT("\0\1\1v\0\0\0" NOTHING "\0\0\0\0" ALL16, "channels that do not fit"),
    NOT("\0\1\1v\0\2\0" NOTHING "\0\0\0\0" NOTHING "\0\0\0\0" ALL16,
        "channels that do not fit"),
    READ("\0\1\1v\1\2\0" NOTHING "\0\0\0\0" NOTHING "\0\0\0\0" ALL16),
    READ("\0\1\1v\x8\1\0" NOTHING "\0\0\0\0" ALL16),
    NOT("\0\1\1v\x9\1\0" NOTHING "\0\0\0\0" ALL16, "an invalid axis"),
    NOT("\0\1\1v\1\2\0" NOTHING "\0\0\0\0" NOTHING "\0\0\0",
      "channels that do not fit"),
    NOT("\0\1\1v\1\2\0" NOTHING "\0\0\0\0" NOTHING "\0\0\0\0",
      "the file ends within a word"),
    NOT("\0\1\1v\1\x81\x80\x40\0", "too many channels"),
    NOT("\0\1\1v\1\x80\x80\x40\0", "channels that do not fit"),
    /* Extremes: finite and in order, or none of no elements. */
    READ(V("\0") ONE ONE "\1\0\0\0" ONE ONE "\1\0" REST15),
    READ(V("\0") ZERO ONE "\3\2\0\0" ZERO ONE "\2\1" ZERO ONE "\1\1"
         EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY EMPTY
          EMPTY),
    NOT(V("\0") ONE ZERO "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") NAN_ ONE "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") ONE NAN_ "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") "\0\0\x80\x7f" ONE "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") ONE "\0\0\x80\x7f" "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") "\0\0\x80\xff" ONE "\1\0\0\0" ALL16, "invalid extremes"),
    NOT(V("\0") ONE ONE "\0\0\0\0" ALL16, "extremes without elements"),
    NOT(V("\0") NOTHING "\1\0\0\0" ALL16, "extremes without elements"),
    NOT(V("\0") ONE ONE "\1\0\0\0" NOTHING "\1\0" REST15, "extremes without elements"),
    NOT(V("\0") ONE ONE "\1\0\0\0" ONE ONE "\0\0" REST15, "extremes without elements"),
    /* Counts, and those of the parts. */
    READ(V("\0") ZERO ZERO "\1\1\0\0" ZERO ZERO "\1\1" REST15),
    NOT(V("\0") ZERO ZERO "\1\2\0\0" ZERO ZERO "\1\1" REST15,
      "more zeros than elements"),
    READ(V("\0") ONE ONE MOST "\0\0\0" ONE ONE MOST "\0" REST15),
    NOT(V("\0") ONE ONE OVER "\0\0\0" ALL16, "a count too large"),
    READ(V("\0") NOTHING "\0\0" MOST "\0" ALL16),
    NOT(V("\0") NOTHING "\0\0" OVER "\0" ALL16, "a count too large"),
    READ(V("\0") NOTHING "\0\0\5\0" ALL16),
    { BYTES(V("\0") NOTHING "\0\0\0" MOST "\0" ALL16), NULL, 2 },
    { BYTES(V("\0") NOTHING "\0\0\0" OVER "\0" ALL16), "a count too large", 2 },
    { BYTES(V("\0") NOTHING "\0\0\0\2\2" ALL16), NULL, 2 },
    { BYTES(V("\0") NOTHING "\0\0\0\2\0" ALL16), NULL, 2 },
    { BYTES(V("\0") NOTHING "\0\0\0\2\3" ALL16), "more +inf than infinities", 2 },
    NOT(V("\0") ONE ONE "\2\0\0\0" ONE ONE "\1\0" REST15, FEWER),
    NOT(V("\0") ONE ONE "\1\0\0\0" ONE ONE "\2\0" REST15, "more counts than elements"),
    NOT(V("\0") ONE ONE "\1\0\0\0" ONE ONE "\1\1" REST15, "more zeros than elements"),
    NOT(V("\0") ZERO ONE "\2\2\0\0" ZERO ZERO "\1\2" REST15,
      "more zeros than elements"),
    NOT(V("\0") ZERO ONE "\1\1\0\0" ZERO ONE "\1\0" REST15, FEWER),
    /* Sums of ten words: the sign goes on behind those that are there. */
    READ(V("\1") ONE ONE "\1\0\0\0" "\0\1\1\0\0\0\0\0\0\0" "\0\0" ONE ONE "\1\0"
      REST15),
    READ(V("\1") ONE ONE "\1\0\0\0" "\0\1\xff\xff\xff\xff\xff\xff\xff\xff" "\0\0"
         ONE ONE "\1\0" REST15),
    READ(V("\1") ONE ONE "\1\0\0\0" "\0\2\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\0" "\0\0"
         ONE ONE "\1\0" REST15),
    READ(V("\1") ONE ONE "\1\0\0\0" "\x9\1\0\0\0\0\0\0\0\x80" "\x9\1\1\0\0\0\0\0\0\0"
         ONE ONE "\1\0" REST15),
    NOT(V("\1") ONE ONE "\1\0\0\0" "\xb\0" "\0\0" ONE ONE "\1\0" REST15,
        "a sum that is too long"),
    NOT(V("\1") ONE ONE "\1\0\0\0" "\x9\2" "\0\0" ONE ONE "\1\0" REST15,
        "a sum that is too long"),
    /* Bins: as many counts as elements. */
    READ(V("\4") ONE ONE "\1\0\0\0" "\0\0\1\1" ONE ONE "\1\0" REST15),
    READ(V("\4") ONE ONE "\3\0\0\0" "\5\1\2\1\2" ONE ONE "\3\0" REST15),
    NOT(V("\4") ONE ONE "\1\0\0\0" "\0\0\1\2" ONE ONE "\1\0" REST15,
        "more counts than elements"),
    NOT(V("\4") ONE ONE "\2\0\0\0" "\0\0\1\1" ONE ONE "\2\0" REST15, FEWER),
    NOT(V("\4") ZERO ONE "\1\1\0\0" "\0\0\1\1" ZERO ONE "\1\1" REST15, FEWER),
    NOT(V("\4") ONE ONE "\1\0\0\0" "\xff\xff\1\0\1\1" ONE ONE "\1\0" REST15,
        "an exponent too large"),
    NOT(V("\4") ONE ONE "\1\0\0\0" "\0\x80\x10\1\1" ONE ONE "\1\0" REST15,
        "a bin that does not exist"), /* bin 2048 of 2048 */
    READ(V("\4") ONE ONE "\1\0\0\0" "\0\xff\xf\1\1" ONE ONE "\1\0" REST15),
    NOT(V("\4") ONE ONE "\1\0\0\0" "\0\xff\xff\x7f\1\1" ONE ONE "\1\0" REST15,
        "a bin that does not exist"),
};
/* clang-format on */

static void each_limit_is_exact(void **state)
{
    qg_ctx *ctx = *state;
    unsigned char bytes[512] = "qgstats\n";
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const forged *f = &files[i];
        qg_stats *s;
        size_t n = 18 + f->n, size;
        char hash[QG_HASH_TEXT];
        assert_cmp_int(n + QG_HASH_TEXT, <, sizeof bytes);
        memcpy(bytes + 8, (unsigned char[10]){ f->version }, 10);
        memcpy(bytes + 18, f->bytes, f->n);
        qg_hash_bytes(bytes, n, hash);
        memcpy(bytes + n, hash, QG_HASH_TEXT - 1);
        qg_stats_source from = { "forged", bytes, n + QG_HASH_TEXT - 1 };
        qg_status got = qg_stats_decode(ctx, &from, &s);
        if (got != (f->why ? QG_EPARSE : QG_OK) ||
            (f->why && !strstr(qg_ctx_message(ctx), f->why)))
            fail_msg("file %zu: '%s', expected '%s'", i, qg_ctx_message(ctx),
                     f->why ? f->why : "no message");
        if (f->why)
            continue;
        assert_true(qg_stats_is_file(bytes, 8));
        assert_false(qg_stats_is_file(bytes, 7));
        assert_false(qg_stats_is_file(bytes + 1, 8));
        unsigned char *again = encode(ctx, s, &size);
        if (size != from.size || memcmp(again, bytes, size) != 0)
            fail_msg("file %zu: other bytes when it is written again", i);
        qg_stats_free(s);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_context, close_context)

QG_TEST_MAIN(T(what_is_read_is_what_was_written),
             T(shards_through_files_give_the_same_bytes), T(damage_is_found),
             T(wrong_shapes_are_named), T(forgeries_do_no_harm), T(each_limit_is_exact),
             T(a_file_is_whole_or_not_there))
