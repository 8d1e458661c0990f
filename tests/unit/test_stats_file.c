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

#define T(f) cmocka_unit_test_setup_teardown(f, open_context, close_context)

QG_TEST_MAIN(T(what_is_read_is_what_was_written),
             T(shards_through_files_give_the_same_bytes), T(damage_is_found),
             T(wrong_shapes_are_named), T(forgeries_do_no_harm),
             T(a_file_is_whole_or_not_there))
