/* The numbers of a report as bars, as wide as the terminal: --plot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

/* 80 columns where stdout is no terminal.  A histogram has at most MOST_ROWS bars. */
enum {
    COLUMNS = 80,
    NARROWEST = 40,
    WIDEST = 400,
    LABEL = 32,
    VALUE = 12,
    MOST_ROWS = 32
};

/* Tables that have a picture; `folded`: rows are neighbouring bins, which are added. */
static const struct {
    const char *table, *label, *number;
    bool folded;
} picture[] = {
    {"bins",    "from",  "count",   true },
    { "errors", "name",  "error",   false},
    { "causes", "cause", "removes", false},
};

static size_t columns(void)
{
    struct winsize w;
    size_t n = COLUMNS;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
        n = w.ws_col;
    return n < NARROWEST ? NARROWEST : n > WIDEST ? WIDEST : n;
}

/* The end of a long name tells names apart. */
static void print_label(const qg_cell *c)
{
    char number[VALUE + 1];
    const char *text = number;
    if (c->kind == QG_CELL_TEXT)
        text = c->text;
    else
        (void)snprintf(number, sizeof number, "%.4g", c->number);
    size_t n = strlen(text), cut = n > LABEL ? n - LABEL : 0;
    while (cut && ((unsigned char)text[cut] & 0xC0) == 0x80)
        cut++;
    cli_print(stdout, text + cut);
    for (size_t shown = n - cut; shown < LABEL; shown++)
        (void)putchar(' ');
}

/* Bars below zero are of '-'.  Any number that is not zero has a mark. */
static void print_bar(const qg_cell *label, double x, bool share, double most)
{
    char bar[WIDEST + 1];
    size_t room = columns() - LABEL - VALUE - 4;
    double part = most > 0 && isfinite(x) ? fabs(x) / most : 0;
    size_t n = (size_t)(part * (double)room);
    n += (double)n < part * (double)room; /* rounded up, without the library of math */
    n = n > room ? room : n;
    memset(bar, x < 0 ? '-' : '#', n);
    bar[n] = '\0';
    print_label(label);
    if (share)
        (void)printf(" %*.4g %%%s%s\n", VALUE - 2, 100 * x, n ? " " : "", bar);
    else
        (void)printf(" %*.4g%s%s\n", VALUE, x, n ? " " : "", bar);
}

/* The sum of `each` rows from i on. */
static double sum_of(const qg_table *t, size_t i, size_t each, const char *number)
{
    double sum = 0;
    for (size_t k = i; k < i + each && k < qg_table_rows(t); k++)
        sum += qg_table_cell(t, k, number)->number;
    return sum;
}

static void plot(const qg_table *t, const char *label, const char *number, bool folded)
{
    size_t n = qg_table_rows(t);
    size_t each = folded ? (n + MOST_ROWS - 1) / MOST_ROWS : 1;
    double most = 0;
    for (size_t i = 0; i < n; i += each) {
        const double x = fabs(sum_of(t, i, each, number));
        most = x > most ? x : most;
    }
    for (size_t i = 0; i < n; i += each)
        print_bar(qg_table_cell(t, i, label), sum_of(t, i, each, number),
                  qg_table_cell(t, i, number)->kind == QG_CELL_PERCENT, most);
}

void cli_plot(const qg_report *r)
{
    for (size_t k = 0; k < sizeof picture / sizeof picture[0]; k++) {
        const qg_table *t = qg_report_table_named(r, picture[k].table);
        if (!qg_table_rows(t) || !qg_table_cell(t, 0, picture[k].number))
            continue;
        (void)putchar('\n');
        plot(t, picture[k].label, picture[k].number, picture[k].folded);
        return;
    }
}
