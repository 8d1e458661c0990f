#include "tests/support/networks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/chain_graph.h"
#include "tests/support/random_graph.h"

static void stop(const char *where, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", where, what);
    exit(1);
}

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        stop(text, "no memory");
    return copy;
}

/* How many graphs have this case, whose name may occur again in its file. */
static unsigned number_of(const networks *all, const char *name)
{
    unsigned met = 1;
    for (size_t i = 0, n = strlen(name); i < all->n; i++)
        met += strncmp(all->at[i].name, name, n) == 0 &&
               (!all->at[i].name[n] || all->at[i].name[n] == '#');
    return met;
}

static void append(networks *all, const char *name, const char *text)
{
    char own[4200];
    unsigned number = number_of(all, name);
    (void)snprintf(own, sizeof own, number > 1 ? "%s#%u" : "%s", name, number);
    network *grown = realloc(all->at, (all->n + 1) * sizeof *grown);
    if (!grown)
        stop(name, "no memory");
    all->at = grown;
    all->at[all->n++] = (network){ copy_of(own), copy_of(text) };
}

/* The graphs of the cases of a file: from a line "graph" on to a line "}". */
static void take_file(networks *all, const char *folder, const char *file)
{
    char path[512], line[4096], name[4096] = "", *text = NULL;
    size_t size = 0;
    FILE *text_stream = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (!f)
        stop(path, "cannot be read");
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "case ", 5) == 0)
            (void)snprintf(name, sizeof name, "%s: %.*s", file,
                           (int)strcspn(line + 5, "\n"), line + 5);
        if (!text_stream && strncmp(line, "graph", 5) == 0)
            text_stream = open_memstream(&text, &size);
        if (!text_stream)
            continue;
        (void)fputs(line, text_stream);
        if (line[0] != '}')
            continue;
        (void)fclose(text_stream);
        append(all, name, text);
        free(text);
        text_stream = NULL;
    }
    (void)fclose(f);
}

void networks_of_folder(networks *all, const char *folder)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, NULL, alphasort);
    if (n < 0)
        stop(folder, "cannot be read");
    for (int i = 0; i < n; i++) {
        const char *ending = strrchr(entry[i]->d_name, '.');
        if (ending && strcmp(ending, ".qgt") == 0)
            take_file(all, folder, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
}

void networks_random(networks *all, unsigned first, unsigned n)
{
    for (unsigned seed = first; seed < first + n; seed++) {
        char name[32], text[QG_RANDOM_GRAPH_TEXT];
        (void)snprintf(name, sizeof name, "random %u", seed);
        random_graph(seed, text);
        append(all, name, text);
    }
}

void networks_chains(networks *all, unsigned first, unsigned n)
{
    for (unsigned seed = first; seed < first + n; seed++) {
        char name[32], text[CHAIN_GRAPH_TEXT];
        (void)snprintf(name, sizeof name, "chain %u", seed);
        chain_graph(seed, text);
        append(all, name, text);
    }
}

void networks_free(networks *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->at[i].name);
        free(all->at[i].text);
    }
    free(all->at);
}
