/* Pages and JSON of reports: how each kind of cell is shown, widths, what is wrapped
 * and what a hostile text becomes. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/report/report.h"

static qg_report *new_report(qg_ctx *ctx)
{
    qg_report *r;
    assert_ok(ctx, qg_report_new(ctx, "test", &r));
    return r;
}

/* A page with the cell as its only fact, "f". */
static void assert_shown(qg_ctx *ctx, qg_cell c, const char *page, const char *json)
{
    char want[512];
    qg_report *r = new_report(ctx);
    assert_ok(ctx, qg_report_add(r, "f", c));
    (void)snprintf(want, sizeof want, "f  %s\n", page);
    assert_string_equal(qg_report_text(r), want);
    (void)snprintf(want, sizeof want, "{\n  \"report\": \"test\",\n  \"f\": %s\n}\n",
                   json);
    assert_string_equal(qg_report_json(r), want);
    qg_report_free(r);
}

static void numbers_are_short_for_people(void **state)
{
    qg_ctx *ctx = *state;
    assert_shown(ctx, qg_cell_number(0.123456), "0.1235", "0.123456");
    assert_shown(ctx, qg_cell_number(1234567), "1.235e+06", "1234567.0");
    assert_shown(ctx, qg_cell_number(1), "1", "1.0");
    assert_shown(ctx, qg_cell_number(0), "0", "0.0");
    assert_shown(ctx, qg_cell_number(0.9999999), "0.9999999", "0.9999999");
    assert_shown(ctx, qg_cell_number(-0.99999), "-0.99999", "-0.99999");
    assert_shown(ctx, qg_cell_number(1.00012), "1.00012", "1.00012");
    assert_shown(ctx, qg_cell_number(0.99951), "0.99951", "0.99951");
    assert_shown(ctx, qg_cell_number(0.999489), "0.9995", "0.999489"); /* far enough */
    assert_shown(ctx, qg_cell_number(-NAN), "nan", "null");
    assert_shown(ctx, qg_cell_number(INFINITY), "inf", "null");
    assert_shown(ctx, qg_cell_count(1000000), "1000000", "1000000");
    assert_shown(ctx, qg_cell_percent(0.5), "50.00 %", "0.5");
    assert_shown(ctx, qg_cell_percent(0.001), "0.10 %", "0.001");
    assert_shown(ctx, qg_cell_percent(0.0009), "0.09000 %", "0.0009");
    assert_shown(ctx, qg_cell_percent(-0.0005), "-0.05000 %", "-0.0005");
    assert_shown(ctx, qg_cell_percent(0), "0.00 %", "0.0");
    assert_shown(ctx, qg_cell_percent(-NAN), "nan %", "null");
    assert_shown(ctx, qg_cell_bool(true), "yes", "true");
    assert_shown(ctx, qg_cell_bool(false), "no", "false");
    assert_shown(ctx, (qg_cell){ 0 }, "-", "null");
}

static void lists_are_cut_after_three(void **state)
{
    static const float x[] = { 0.2F, 0.1F, 0.4F, 0.3F }, odd[] = { -NAN, INFINITY };
    static const float falling[] = { 5, 4, 3, 2, 1 };
    static const int32_t k[] = { -3, 7, 9, -5 };
    qg_ctx *ctx = *state;
    assert_shown(ctx, qg_cell_floats(x, 0), "none", "[]");
    assert_shown(ctx, qg_cell_floats(x, 1), "0.2", "[0.2]");
    assert_shown(ctx, qg_cell_floats(x, 3), "0.2, 0.1, 0.4", "[0.2, 0.1, 0.4]");
    assert_shown(ctx, qg_cell_floats(x, 4), "4 values from 0.1 to 0.4",
                 "[0.2, 0.1, 0.4, 0.3]");
    assert_shown(ctx, qg_cell_floats(falling, 5), "5 values from 1.0 to 5.0",
                 "[5.0, 4.0, 3.0, 2.0, 1.0]");
    assert_shown(ctx, qg_cell_floats(odd, 2), "nan, inf", "[null, null]");
    assert_shown(ctx, (qg_cell){ .kind = QG_CELL_INTS, .ints = k, .n = 2 }, "-3, 7",
                 "[-3, 7]");
    assert_shown(ctx, (qg_cell){ .kind = QG_CELL_INTS, .ints = k, .n = 4 },
                 "4 values from -5 to 9", "[-3, 7, 9, -5]");
}

static void names_are_cut_after_three(void **state)
{
    qg_ctx *ctx = *state;
    char names[128], want[256], json[256];
    assert_shown(ctx, qg_cell_names("a, b", 2), "a, b", "\"a, b\"");
    assert_shown(ctx, qg_cell_names("a, b, c, d", 4), "a, b, c, d", "\"a, b, c, d\"");
    assert_shown(ctx, qg_cell_names("a, b, c, d, e", 5), "a, b, c and 2 more",
                 "\"a, b, c, d, e\"");
    assert_shown(ctx, qg_cell_names("", 0), "-", "null");
    assert_shown(ctx, qg_cell_text("a, b, c, d, e"), "a, b, c, d, e",
                 "\"a, b, c, d, e\"");
    for (int n = 80; n <= 81; n++) { /* of the first three: at most 80 bytes */
        (void)snprintf(names, sizeof names, "a, b, %0*d, d, e", n - 6, 0);
        (void)snprintf(want, sizeof want, "%.*s and 2 more", n, names);
        (void)snprintf(json, sizeof json, "\"%s\"", names);
        if (n == 80) {
            char page[256]; /* it is wrapped before "more" */
            (void)snprintf(page, sizeof page, "%.*s and\n   2 more", n, names);
            assert_shown(ctx, qg_cell_names(names, 5), page, json);
        } else {
            (void)snprintf(want, sizeof want, "a, b,\n   %0*d, d,\n   e", n - 6, 0);
            qg_report *r = new_report(ctx);
            assert_ok(ctx, qg_report_add(r, "f", qg_cell_names(names, 5)));
            assert_null(strstr(qg_report_text(r), "more"));
            qg_report_free(r);
        }
    }
}

/* 88 columns: three before the text here.  A character of several bytes takes one. */
static void texts_are_wrapped(void **state)
{
    qg_ctx *ctx = *state;
    for (int n = 79; n <= 80; n++) {
        char text[128], want[160];
        qg_report *r = new_report(ctx);
        (void)snprintf(text, sizeof text, "%0*d  \xc3\xa9\xc3\xa9 end", n, 0);
        assert_ok(ctx, qg_report_add(r, "f", qg_cell_text(text)));
        /* n, a space, two, a space, three: 85 is all that there is room for */
        (void)snprintf(want, sizeof want, "f  %0*d \xc3\xa9\xc3\xa9%send\n", n, 0,
                       n == 78 ? " " : "\n   ");
        assert_string_equal(qg_report_text(r), want);
        qg_report_free(r);
    }
    char text[128], want[160];
    qg_report *r = new_report(ctx);
    (void)snprintf(text, sizeof text, "%078d \xc3\xa9\xc3\xa9 end", 0);
    assert_ok(ctx, qg_report_add(r, "f", qg_cell_text(text)));
    (void)snprintf(want, sizeof want, "f  %s\n", text);
    assert_string_equal(qg_report_text(r), want);
    qg_report_free(r);
}

/* Control characters, what reorders a line and bytes that are not UTF-8. */
static void hostile_texts_are_made_harmless(void **state)
{
    static const struct {
        const char *text, *shown;
    } row[] = {
        {"a\nb",              "a?b"             },
        { "\x1f!",            "?!"              },
        { "~\x7f",            "~?"              },
        { "\xc2\x80",         "??"              },
        { "\xc2\x9f",         "??"              },
        { "\xc2\xa0",         "\xc2\xa0"        },
        { "\xe2\x80\x8d",     "\xe2\x80\x8d"    },
        { "\xe2\x80\x8e",     "???"             },
        { "\xe2\x80\x8f",     "???"             },
        { "\xe2\x80\x90",     "\xe2\x80\x90"    },
        { "\xe2\x80\xa7",     "\xe2\x80\xa7"    },
        { "\xe2\x80\xa8",     "???"             },
        { "\xe2\x80\xae",     "???"             },
        { "\xe2\x80\xaf",     "\xe2\x80\xaf"    },
        { "\xe2\x81\xa5",     "\xe2\x81\xa5"    },
        { "\xe2\x81\xa6",     "???"             },
        { "\xe2\x81\xa9",     "???"             },
        { "\xe2\x81\xaa",     "\xe2\x81\xaa"    },
        { "\xff.\xc3",        "?.?"             },
        { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_report *r = new_report(ctx);
        assert_ok(ctx, qg_report_add(r, "f", qg_cell_text(row[i].text)));
        assert_ok(ctx, qg_report_addf(r, "g", "%s", row[i].text));
        assert_string_equal(qg_report_fact(r, "f")->text, row[i].shown);
        assert_string_equal(qg_report_fact(r, "g")->text, row[i].shown);
        qg_report_free(r);
    }
    qg_report *r = new_report(ctx);
    assert_ok(ctx, qg_report_add(r, "p",
                                 qg_cell_page("a\n\x01"
                                              "b")));
    assert_ok(ctx, qg_report_addf(r, "n", "%f", -NAN));
    assert_string_equal(qg_report_text(r), "a\n?b\nn  nan\n");
    qg_report_free(r);
}

/* --- tables --- */

static void columns_are_aligned(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx);
    qg_table *t;
    assert_ok(ctx, qg_report_table(r, "empty", "a", &t));
    assert_ok(ctx, qg_report_add(r, "long_name", qg_cell_count(1)));
    assert_ok(ctx, qg_report_add(r, "a", qg_cell_text("")));
    assert_ok(ctx, qg_report_table(r, "out_puts", "na_me size text", &t));
    assert_ok(ctx, qg_table_cells(r, t,
                                  qg_cell_text("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                                               "\xc3\xa9\xc3\xa9"),
                                  qg_cell_count(7), qg_cell_text("x")));
    assert_ok(ctx, qg_table_cells(r, t, qg_cell_text("b"), qg_cell_count(12345),
                                  (qg_cell){ 0 }));
    assert_ok(ctx, qg_report_table(r, "next", "n", &t));
    assert_ok(ctx, qg_table_addf(r, t, "%d", 1));
    assert_ok(ctx, qg_report_add(r, "behind", qg_cell_bool(true)));
    assert_string_equal(qg_report_text(r),
                        "empty: none\n"
                        "\n"
                        "long name  1\n"
                        "a\n"
                        "\n"
                        "out puts\n"
                        "  na me    size  text\n"
                        "  \xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9      7  x\n"
                        "  b       12345  -\n"
                        "\n"
                        "next\n"
                        "  n\n"
                        "  1\n"
                        "\n"
                        "behind     yes\n");
    assert_non_null(
        strstr(qg_report_json(r),
               "\"out_puts\": [\n"
               "    {\"na_me\": \"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
               "\xc3\xa9\", \"size\": 7, \"text\": \"x\"},\n"
               "    {\"na_me\": \"b\", \"size\": 12345, \"text\": null}\n"));
    qg_report_free(r);
}

static void records_are_paragraphs(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx);
    qg_table *t;
    assert_ok(ctx, qg_report_table(r, "rows", "name kind long_name", &t));
    t->records = true;
    assert_ok(ctx, qg_table_cells(r, t, qg_cell_text("a"), qg_cell_count(1),
                                  qg_cell_text("x")));
    assert_ok(ctx, qg_table_cells(r, t, qg_cell_text("b"), qg_cell_count(2),
                                  qg_cell_text("")));
    assert_string_equal(qg_report_text(r), "rows\n"
                                           "  a\n"
                                           "    kind       1\n"
                                           "    long name  x\n"
                                           "  b\n"
                                           "    kind       2\n"
                                           "    long name\n");
    qg_report_free(r);
}

/* Rows with the same first and last cell are one paragraph; others stay columns. */
static void sentences_are_said_once(void **state)
{
    static const char *const row[][4] = {
        {"a",  "1",  "one", "why"  },
        { "b", "2",  "two", "so"   },
        { "a", "33", "x",   "why"  },
        { "a", "4",  "y",   "other"},
        { "c", "5",  "z",   "why"  }
    };
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx);
    qg_table *t;
    assert_ok(ctx, qg_report_table(r, "rows", "name v unit why", &t));
    t->sentences = true;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (size_t k = 0; k < 4; k++)
            assert_ok(ctx, qg_table_add(r, t, qg_cell_text(row[i][k])));
    assert_string_equal(qg_report_text(r), "rows\n"
                                           "  name  v  unit  why\n"
                                           "  b     2  two   so\n"
                                           "  a     4  y     other\n"
                                           "  c     5  z     why\n"
                                           "  a\n"
                                           "    why\n"
                                           "      1   one\n"
                                           "      33  x\n");
    qg_report_free(r);
}

static void pages_leave_details_out(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx);
    assert_ok(ctx, qg_report_add(r, "a", qg_cell_count(1)));
    assert_ok(ctx, qg_report_add_quiet(r, "quite_long", qg_cell_count(2)));
    assert_ok(ctx, qg_report_add(r, "cc", qg_cell_count(3)));
    qg_report_detail(r, QG_DETAIL_VERBOSE);
    assert_string_equal(qg_report_page(r, QG_DETAIL_SHORT), "a  1\n");
    assert_string_equal(qg_report_page(r, QG_DETAIL_VERBOSE), "a   1\ncc  3\n");
    assert_string_equal(qg_report_page(r, QG_DETAIL_ALL),
                        "a           1\nquite long  2\ncc          3\n");
    assert_ptr_equal(qg_report_text(r), qg_report_page(r, QG_DETAIL_SHORT));
    qg_report_free(r);
}

/* --- from report to report --- */

static void reports_adopt_from_others(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx), *from = new_report(ctx);
    qg_table *t;
    double x = 7;
    assert_ok(ctx, qg_report_add(from, "share", qg_cell_percent(0.5)));
    assert_ok(ctx, qg_report_add(from, "word", qg_cell_text("w")));
    assert_ok(ctx, qg_report_table(from, "rows", "name n", &t));
    t->records = true;
    assert_ok(ctx, qg_table_cells(from, t, qg_cell_text("a"), qg_cell_count(3)));
    assert_ok(ctx, qg_report_adopt(r, from, "share", "part"));
    assert_ok(ctx, qg_report_adopt(r, from, "rows", "list"));
    assert_ok(ctx, qg_report_adopt(r, from, "none", "nothing"));
    assert_false(qg_report_number(from, "word", &x));
    assert_false(qg_report_number(from, "rows", &x));
    assert_false(qg_report_number(from, "none", &x));
    assert_cmp_f64(x, ==, 7);
    assert_true(qg_report_number(from, "share", &x));
    assert_cmp_f64(x, ==, 0.5);
    qg_report_free(from);
    assert_string_equal(qg_report_text(r), "part  50.00 %\n\nlist\n  a\n    n  3\n");
    assert_null(qg_report_fact(r, "nothing"));
    qg_report_free(r);
    assert_int_equal(qg_report_end(QG_EMODEL, new_report(ctx), &from), QG_EMODEL);
    assert_int_equal(qg_report_end(QG_OK, new_report(ctx), NULL), QG_OK);
}

static void files_of_the_tool_are_named_alike(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r = new_report(ctx);
    qg_table *t;
    assert_ok(ctx, qg_report_table(r, "rows", "place", &t));
    assert_ok(ctx, qg_table_place(r, t, "/c/a.yaml", 1)); /* no folder is known */
    ctx->config_dir = "/c";
    assert_ok(ctx, qg_table_place(r, t, "/c/a.yaml", 2));
    assert_ok(ctx, qg_table_place(r, t, "/cc/a.yaml", 3));
    assert_ok(ctx, qg_table_place(r, t, "/b/a.yaml", 4));
    ctx->config_dir = "";
    assert_ok(ctx, qg_table_place(r, t, "/c/a.yaml", 5));
    assert_string_equal(qg_report_text(r),
                        "rows\n  place\n  /c/a.yaml:1\n  configs/a.yaml:2\n"
                        "  /cc/a.yaml:3\n  /b/a.yaml:4\n  /c/a.yaml:5\n");
    qg_report_free(r);
}

QG_TEST_MAIN(WITH_CTX(numbers_are_short_for_people),
             WITH_CTX(lists_are_cut_after_three), WITH_CTX(names_are_cut_after_three),
             WITH_CTX(texts_are_wrapped), WITH_CTX(hostile_texts_are_made_harmless),
             WITH_CTX(columns_are_aligned), WITH_CTX(records_are_paragraphs),
             WITH_CTX(sentences_are_said_once), WITH_CTX(pages_leave_details_out),
             WITH_CTX(reports_adopt_from_others),
             WITH_CTX(files_of_the_tool_are_named_alike))
