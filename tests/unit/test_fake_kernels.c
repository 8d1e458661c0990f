/* Kernels against the definition; tests/programs/kernels.c does the same on more values
 * and on the optimized build. */
#include "tests/support/test.h"

#include "tests/support/kernel_check.h"

static kernel_check k;

static void every_float16_value(void **state)
{
    (void)state;
    k = (kernel_check){ .rng = { 1 } };
    if (!check_every_half(&k))
        fail_msg("%s", k.failure);
}

static void a_million_bit_patterns(void **state)
{
    (void)state;
    k = (kernel_check){ .rng = { 2 } };
    for (uint64_t round = 0; round < 1000000 / CHUNK + 1; round++)
        if (!check_chunk(&k, round))
            fail_msg("seed 2: %s", k.failure);
}

/* A check that could not fail would be worth nothing. */
static void a_wrong_result_is_found(void **state)
{
    (void)state;
    k = (kernel_check){ .n = 3 };
    memcpy(k.want, (float[]){ 1, NAN, 0 }, 12);
    memcpy(k.got, (float[]){ 1, float_of_bits(0x7fc00001), 0 }, 12);
    for (int i = 3; i < 11; i++)
        k.got[i] = 7;
    check_compare(&k, 0, "test", "");
    assert_string_equal(k.failure, "");
    k.got[2] = -0.0f;
    check_compare(&k, 0, "test", "t");
    assert_non_null(strstr(k.failure, "plain C test"));
    k.failure[0] = '\0';
    k.got[2] = 0;
    k.got[3] = 8;
    check_compare(&k, 0, "test", "t");
    assert_non_null(strstr(k.failure, "writes past the end"));
}

static void rows_are_ordered_and_one_is_best(void **state)
{
    (void)state;
    size_t n;
    const qg_fake_row *const *row = qg_fake_rows(&n);
    assert_cmp_int(n, >=, 1);
    assert_true(row[0]->supported());
    const qg_fake_row *best = qg_fake_row_best();
    assert_true(best->supported());
    for (size_t i = n; i-- > 0 && row[i] != best;)
        assert_false(row[i]->supported());
}

QG_TEST_MAIN(cmocka_unit_test(every_float16_value),
             cmocka_unit_test(a_million_bit_patterns),
             cmocka_unit_test(a_wrong_result_is_found),
             cmocka_unit_test(rows_are_ordered_and_one_is_best))
