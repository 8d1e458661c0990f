/* Every .qgt file in tests/lower. */
#include "tests/support/test.h"

#include "tests/support/qgt_runner.h"

static void every_file_holds(void **state)
{
    (void)state;
    assert_qgt_folder("tests/lower");
}

QG_TEST_MAIN(cmocka_unit_test(every_file_holds))
