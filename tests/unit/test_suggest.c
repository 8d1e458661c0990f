/* 'Did you mean': which words are near, and which is nearest. */
#include "tests/support/test.h"

#include "engine/core/suggest.h"

/* Candidates are words between blanks; the answer has both that are named. */
static void the_nearest_word_is_named(void **state)
{
    static const struct {
        const char *word, *candidates, *answer;
    } row[] = {
        {"slto",       "slot",             "slot"            }, /* a swap */
        { "slt",       "slot",             "slot"            }, /* an insertion */
        { "sloot",     "slot",             "slot"            }, /* a deletion */
        { "slat",      "slot",             "slot"            }, /* another letter */
        { "slat",      "shot",             ""                }, /* two edits */
        { "abcxx",     "abcde",            ""                }, /* of five */
        { "abcdxx",    "abcdef",           "abcdef"          }, /* six: two */
        { "abcxxx",    "abcdef",           ""                },
        { "abcdefxxx", "abcdefghi",        "abcdefghi"       },
        { "abcdexxxx", "abcdefghi",        ""                },
        { "ba",        "ab",               "ab"              },
        { "axb",       "axc axb",          "axb"             },
        { "axd",       "axc axb",          "axc"             }, /* the first */
        { "SLOT",      "slot",             "slot"            }, /* a part */
        { "SLot",      "slot",             "slot"            },
        { "SLat",      "slot",             ""                }, /* two edits */
        { "Slot",      "slat slot",        "slot"            }, /* half of one */
        { "trt",       "trx trt-int8",     "trt-int8"        },
        { "trt",       "trt-int8 trt",     "trt"             },
        { "TRT",       "x-trt trt-int8",   "x-trt trt-int8"  },
        { "tr",        "tr-int8",          ""                }, /* too short */
        { "trt",       "trtx-int8",        ""                },
        { "vnni",      "arm ort-x86-vnni", "ort-x86-vnni"    },
        { "arm-vnni",  "ort-arm-x86-vnni", "ort-arm-x86-vnni"},
        { "vnni-arm",  "ort-arm-x86-vnni", ""                }, /* order */
        { "arm-x86",   "ort-arm-vnni",     ""                },
        { "vnn",       "ort-vnni",         ""                }, /* a whole part */
        { "trt-int8",  "trt",              "trt"             }, /* it goes on */
        { "trt-int8",  "tr",               ""                },
        { "none",      "",                 ""                },
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char list[64], *rest = list, have[64] = "";
        (void)snprintf(list, sizeof list, "%s", row[i].candidates);
        qg_suggest s = qg_suggest_for(row[i].word);
        for (char *w = strtok_r(list, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
            qg_suggest_try(&s, w);
        (void)snprintf(have, sizeof have, "%s%s%s", s.best ? s.best : "",
                       s.also ? " " : "", s.also ? s.also : "");
        if (strcmp(have, row[i].answer) != 0)
            fail_msg("'%s': '%s', expected '%s'", row[i].word, have, row[i].answer);
    }
}

static void answers_are_quoted(void **state)
{
    char text[QG_SUGGEST_TEXT];
    qg_suggest s = qg_suggest_for("vnni");
    (void)state;
    assert_string_equal(qg_suggest_text(&s, text), "");
    qg_suggest_try(&s, "a-vnni");
    assert_string_equal(qg_suggest_text(&s, text), ", did you mean 'a-vnni'");
    qg_suggest_try(&s, "b-vnni");
    assert_string_equal(qg_suggest_text(&s, text),
                        ", did you mean 'a-vnni' or 'b-vnni'");
}

/* 63 letters are compared, 64 are not. */
static void long_words_are_never_near(void **state)
{
    char word[65], candidate[65], text[QG_SUGGEST_TEXT];
    (void)state;
    for (size_t n = 62; n <= 64; n++) {
        memset(word, 'a', sizeof word);
        memset(candidate, 'a', sizeof candidate);
        word[n] = candidate[n] = '\0';
        word[0] = 'b';
        qg_suggest s = qg_suggest_for(word);
        qg_suggest_try(&s, candidate);
        assert_int_equal(s.best != NULL, n < 64);
        if (s.best)
            assert_int_equal(s.edits, 2);
        (void)qg_suggest_text(&s, text);
        candidate[n - 1] = '\0'; /* one is short enough */
        s = qg_suggest_for(candidate);
        qg_suggest_try(&s, word);
        assert_int_equal(s.best != NULL, n < 64);
    }
}

QG_TEST_MAIN(cmocka_unit_test(the_nearest_word_is_named),
             cmocka_unit_test(answers_are_quoted),
             cmocka_unit_test(long_words_are_never_near))
