/* What other programs read from the tables of verbs and options: completion for shells,
 * and the manual page. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Text in single quotes of a shell: `quote` stands for a quote inside of them, and a
 * backslash is put before each character of `escaped`. */
static void put_quoted(const char *text, const char *quote, const char *escaped)
{
    for (; *text; text++)
        if (*text == '\'')
            (void)fputs(quote, stdout);
        else
            (void)printf("%s%c", strchr(escaped, *text) ? "\\" : "", *text);
}

static size_t choices(const cli_option *o)
{
    size_t n = 0;
    while (n < sizeof o->choice / sizeof o->choice[0] && o->choice[n])
        n++;
    return n;
}

static void put_choices(const cli_option *o)
{
    for (size_t i = 0; i < choices(o); i++)
        (void)printf("%s%s", i ? " " : "", o->choice[i]);
}

/* --- bash: files where nothing else is known --- */

static void bash_verb(const cli_verb *v)
{
    for (int id = 0; id < CLI_N_OPTION; id++) {
        const cli_option *o = &cli_options[id];
        if (!cli_use_of(v, id) || !choices(o))
            continue;
        (void)printf("    %s:--%s) words='", v->name, o->name);
        put_choices(o);
        (void)fputs("' ;;\n", stdout);
    }
    (void)printf("    %s:*) [[ $cur != -* ]] || words='", v->name);
    for (int id = 0; id < CLI_N_OPTION; id++) {
        const cli_option *o = &cli_options[id];
        if (cli_use_of(v, id))
            (void)printf("--%s ", o->name);
    }
    (void)fputs("' ;;\n", stdout);
}

static void bash(void)
{
    (void)fputs("# made by `qg completion bash`\n_qg() {\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
                "    local prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
                "    case $COMP_CWORD:${COMP_WORDS[1]}:$prev in\n    1:*) words='",
                stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++)
        (void)printf("%s ", v->name);
    (void)fputs("' ;;\n    *) case ${COMP_WORDS[1]}:$prev in\n", stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++)
        bash_verb(v);
    (void)fputs("    esac ;;\n    esac\n"
                "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                "}\ncomplete -o default -F _qg qg\n",
                stdout);
}

/* --- zsh --- */

static void zsh_value(const cli_option *o)
{
    if (!o->argument)
        return;
    (void)putchar(':');
    put_quoted(o->argument, "'\\''", "[]:\\");
    if (!choices(o)) {
        (void)fputs(":_files", stdout);
        return;
    }
    (void)fputs(":(", stdout);
    put_choices(o);
    (void)putchar(')');
}

static void zsh_option(const cli_option *o)
{
    const char *repeats = o->kind == CLI_TEXTS || o->kind == CLI_COUNT ? "*" : "";
    (void)printf(" \\\n      '%s--%s%s[", repeats, o->name, o->argument ? "=" : "");
    put_quoted(o->help, "'\\''", "[]\\");
    (void)putchar(']');
    zsh_value(o);
    (void)putchar('\'');
    if (!o->letter)
        return;
    (void)printf(" \\\n      '%s-%c%s[", repeats, o->letter, o->argument ? "+" : "");
    put_quoted(o->help, "'\\''", "[]\\");
    (void)putchar(']');
    zsh_value(o);
    (void)putchar('\'');
}

static void zsh(void)
{
    (void)fputs("#compdef qg\n# made by `qg completion zsh`\n_qg() {\n"
                "  local -a verbs=(\n",
                stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++) {
        (void)printf("    '%s:", v->name);
        put_quoted(v->summary, "'\\''", ":\\");
        (void)fputs("'\n", stdout);
    }
    (void)fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n"
                "    return\n  fi\n  local verb=$words[2]\n"
                "  shift words\n  (( CURRENT-- ))\n  case $verb in\n",
                stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++) {
        (void)printf("  %s)\n    _arguments", v->name);
        for (int id = 0; id < CLI_N_OPTION; id++)
            if (cli_use_of(v, id))
                zsh_option(&cli_options[id]);
        (void)fputs(" \\\n      '*:file:_files' ;;\n", stdout);
    }
    (void)fputs("  esac\n}\n_qg \"$@\"\n", stdout);
}

/* --- fish --- */

static void fish_option(const cli_verb *v, const cli_option *o)
{
    (void)printf("complete -c qg -n '__fish_seen_subcommand_from %s' -l %s", v->name,
                 o->name);
    if (o->letter)
        (void)printf(" -s %c", o->letter);
    if (choices(o)) {
        (void)fputs(" -x -a '", stdout);
        put_choices(o);
        (void)putchar('\'');
    } else if (o->argument)
        (void)fputs(" -r", stdout);
    (void)fputs(" -d '", stdout);
    put_quoted(o->help, "\\'", "\\");
    (void)fputs("'\n", stdout);
}

static void fish(void)
{
    (void)fputs("# made by `qg completion fish`\n", stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++) {
        (void)printf("complete -c qg -n __fish_use_subcommand -f -a %s -d '", v->name);
        put_quoted(v->summary, "\\'", "\\");
        (void)fputs("'\n", stdout);
        for (int id = 0; id < CLI_N_OPTION; id++)
            if (cli_use_of(v, id))
                fish_option(v, &cli_options[id]);
    }
}

/* --- the manual page, in the macros of man(7) --- */

/* Hyphens that can be copied; a line never begins with a request. */
static void put_roff(const char *text)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\''))
            (void)fputs("\\&", stdout);
        start = *text == '\n';
        if (*text == '\\')
            (void)fputs("\\e", stdout);
        else if (*text == '-')
            (void)fputs("\\-", stdout);
        else
            (void)putchar(*text);
    }
}

static void man_option(const cli_option *o)
{
    (void)fputs(".TP\n", stdout);
    if (o->letter)
        (void)printf("\\fB\\-%c\\fR, ", o->letter);
    (void)fputs("\\fB\\-\\-", stdout);
    put_roff(o->name);
    (void)fputs("\\fR", stdout);
    if (o->argument) {
        (void)fputs(" \\fI", stdout);
        put_roff(o->argument);
        (void)fputs("\\fR", stdout);
    }
    (void)putchar('\n');
    put_roff(o->help);
    (void)putchar('\n');
}

static void man_verb(const cli_verb *v)
{
    (void)fputs(".SS \"qg ", stdout);
    put_roff(v->name);
    (void)printf("%s%s\"\n", *v->files ? " " : "", v->files);
    put_roff(v->summary);
    (void)fputs(".\n", stdout);
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_use_of(v, id) && !cli_options[id].common)
            man_option(&cli_options[id]);
    (void)fputs(".PP\n.nf\n", stdout);
    if (v->about) {
        put_roff(v->about);
        (void)fputs("\n\n", stdout);
    }
    (void)fputs("Example: ", stdout);
    put_roff(v->example);
    (void)fputs("\n.fi\n", stdout);
}

static void man(void)
{
    (void)printf(".\\\" made by `qg completion man`\n.TH QG 1 \"\" \"qg %s\"\n"
                 ".SH NAME\nqg \\- simulates a network as quantized by a backend\n"
                 ".SH SYNOPSIS\n.B qg\n.I VERB\n[options] [files]\n"
                 ".SH COMMON OPTIONS\n",
                 qg_version());
    for (int id = 0; id < CLI_N_OPTION; id++)
        if (cli_options[id].common)
            man_option(&cli_options[id]);
    (void)fputs(".SH VERBS\n", stdout);
    for (const cli_verb *v = cli_verbs; v->name; v++)
        man_verb(v);
    (void)fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 3 differences or "
                "findings, 130 interrupted, 143 terminated.\n"
                "Diverge and conformance: 1 differences or failed tests, 4 failed.\n"
                "Wrong usage is an unknown verb, option or word of those that the help "
                "of an option lists; a name that qg list shows (backend, observer, "
                "format, quirk, profile) is looked up, and fails with 1.\n",
                stdout);
}

int cli_completion(const cli_call *c)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } form[] = {
        {"bash",  bash},
        { "zsh",  zsh },
        { "fish", fish},
        { "man",  man },
    };
    const char *word = c->args->file.at[0];
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++)
        if (strcmp(word, form[i].name) == 0) {
            form[i].print();
            return CLI_OK;
        }
    return cli_usage(c->verb, "'%s': expected bash, zsh, fish or man", word);
}
