/* Decimal text of numbers and back, at the limits of each form. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/num.h"

/* Positional from 10^-5 to below 10^9, or as far as the digits go; always a float. */
static void texts_have_a_point_or_an_exponent(void **state)
{
    static const struct {
        double x;
        const char *text;
    } row[] = {
        {0,                        "0.0"                   },
        { -0.0,                    "-0.0"                  },
        { 1,                       "1.0"                   },
        { 10,                      "10.0"                  },
        { 1e8,                     "100000000.0"           },
        { 1e9,                     "1e9"                   },
        { 120000000,               "120000000.0"           },
        { 123456789,               "123456789.0"           },
        { 1234567891,              "1234567891.0"          },
        { 1.25e10,                 "1.25e10"               },
        { 12345678901,             "12345678901.0"         },
        { 0.5,                     "0.5"                   },
        { 12.5,                    "12.5"                  },
        { -123.25,                 "-123.25"               },
        { 0.01,                    "0.01"                  },
        { 0.00001,                 "0.00001"               },
        { 0.000025,                "0.000025"              },
        { 0.000001,                "1e-6"                  },
        { 0.0000025,               "2.5e-6"                },
        { -1e300,                  "-1e300"                },
        { 0.1,                     "0.1"                   },
        { 1.0 / 3,                 "0.3333333333333333"    },
        { 0.1 + 0.2,               "0.30000000000000004"   }, /* all 17 digits */
        { 0x1.fffffffffffffp+1023, "1.7976931348623157e308"},
        { 0x1p-1074,               "5e-324"                }
    };
    char text[QG_NUM_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_num_f64(text, row[i].x);
        assert_string_equal(text, row[i].text);
    }
    qg_num_f32(text, 0.1f);
    assert_string_equal(text, "0.1"); /* of a float, not of the double 0.1f */
    qg_num_f32(text, 16777217.0f);
    assert_string_equal(text, "16777216.0");
    qg_num_f32(text, 1.00000012f); /* all nine digits: 1 + 2^-23 */
    assert_string_equal(text, "1.0000001");
    qg_num_f32(text, 0x1.fffffep+127f);
    assert_string_equal(text, "3.4028235e38");
    qg_num_f32(text, -0x1p-149f);
    assert_string_equal(text, "-1e-45");
}

static void numbers_are_read(void **state)
{
    static const struct {
        const char *text;
        double x; /* NaN: no number */
    } row[] = {
        {"1",                   1     },
        { "-2.50",              -2.5  },
        { "+1",                 1     },
        { ".5",                 0.5   },
        { "5.",                 5     },
        { "1e2",                100   },
        { "1E+2",               100   },
        { "1e-2",               0.01  },
        { "12.5e1",             125   },
        { "0.125e3",            125   },
        { "-.5e1",              -5    },
        { "00012",              12    },
        { "",                   NAN   },
        { "-",                  NAN   },
        { ".",                  NAN   },
        { "e5",                 NAN   },
        { "1e",                 NAN   },
        { "1e ",                NAN   },
        { "1e 5",               NAN   },
        { "1e\t5",              NAN   },
        { "1e5x",               NAN   },
        { "1x",                 NAN   },
        { " 1",                 NAN   },
        { "1 ",                 NAN   },
        { "1..2",               NAN   },
        { "1.2.3",              NAN   },
        { "--1",                NAN   },
        { "nan",                NAN   },
        { "inf",                NAN   },
        { "1e999",              NAN   },
        { "-1e999",             NAN   },
        { "0x1",                NAN   },
        { "1/2",                NAN   },
        { "1:2",                NAN   },
        { "1e-999",             0     },
        { "1e000000000000005",  100000},
        { "1e0000000000000005", NAN   }
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double x = -7;
        bool ok = qg_num_parse_f64(row[i].text, strlen(row[i].text), &x);
        if (ok == (bool)isnan(row[i].x) || x != (ok ? row[i].x : -7))
            fail_msg("'%s': %d %.17g", row[i].text, ok, x);
    }
}

/* At most 127 characters; the text need not end there. */
static void long_numbers_are_read(void **state)
{
    char text[130];
    double x = 0;
    (void)state;
    memset(text, '0', sizeof text);
    text[0] = '-';
    text[126] = '7';
    assert_true(qg_num_parse_f64(text, 127, &x));
    assert_cmp_f64(x, ==, -7);
    assert_false(qg_num_parse_f64(text, 128, &x));
    assert_true(qg_num_parse_f64(text + 125, 2, &x));
    assert_cmp_f64(x, ==, 7);
}

static void integers_are_read(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t x;
    } row[] = {
        {"0",                                 true,  0        },
        { "9",                                true,  9        },
        { "-5",                               true,  -5       },
        { "007",                              true,  7        },
        { "9223372036854775807",              true,  INT64_MAX},
        { "-9223372036854775808",             true,  INT64_MIN},
        { "9223372036854775808",              false, 0        },
        { "-9223372036854775809",             false, 0        },
        { "",                                 false, 0        },
        { "-",                                false, 0        },
        { "+5",                               false, 0        },
        { " 5",                               false, 0        },
        { "5 ",                               false, 0        },
        { "5.",                               false, 0        },
        { "/",                                false, 0        },
        { ":",                                false, 0        },
        { "0x1",                              false, 0        },
        { "0000000000000000000000000000001",  true,  1        }, /* 31 */
        { "00000000000000000000000000000001", false, 0        }
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t x = -7;
        bool ok = qg_num_parse_i64(row[i].text, strlen(row[i].text), &x);
        if (ok != row[i].ok || x != (ok ? row[i].x : -7))
            fail_msg("'%s': %d %lld", row[i].text, ok, (long long)x);
    }
}

QG_TEST_MAIN(cmocka_unit_test(texts_have_a_point_or_an_exponent),
             cmocka_unit_test(numbers_are_read),
             cmocka_unit_test(long_numbers_are_read),
             cmocka_unit_test(integers_are_read))
