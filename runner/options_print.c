/* SPDX-License-Identifier: GPL-3.0-or-later */
/* options_print.c - help, manual page and bash completion from the same tables. */
#include "runner/options_internal.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} ENVIRONMENT[] = {
    {"KVAUDIT_DB", "database when --db is not given"},
    {"KVAUDIT_CACHE",
     "where fetched models live (else $XDG_CACHE_HOME/kvaudit, ~/.cache/kvaudit)"},
    {"KVAUDIT_JOBS", "worker processes when --jobs is not given"},
    {"KVAUDIT_THREADS", "threads inside one step when --threads is not given"},
    {"KVAUDIT_CPU",
     "scalar, avx2 or avx512: which instructions run; never changes a number"},
    {"KVAUDIT_GRAPHS",
     "0: with --backend cuda, no replayed steps; never changes a number"},
    {"KVAUDIT_OFFLINE", "1: fetch opens no connection (HF_HUB_OFFLINE too)"},
    {"HF_TOKEN",
     "token for hub files (else the file HF_TOKEN_PATH, $HF_HOME/token); never shown"},
    {"HF_HUB_CACHE",
     "where hub files live (else $HF_HOME/hub, ~/.cache/huggingface/hub)"},
    {"HF_ENDPOINT", "another hub than https://huggingface.co"},
    {"SSL_CERT_FILE", "certificates to trust instead of the system's"},
    {"NO_COLOR", "set and not empty: no colour, no live progress line"},
    {"TERM", "dumb or unset: no live progress line; nor with CI set"},
    {"SOURCE_DATE_EPOCH",
     "seconds since 1970 in the place of a report's date and the gate's clock"},
    {"GITHUB_STEP_SUMMARY", "file that compare --gate --github adds its summary to"},
    {"TMPDIR", "where compare --bisect-step measures (else /tmp)"},
};
#define N_ENV (sizeof ENVIRONMENT / sizeof ENVIRONMENT[0])

static const struct {
    const char *code, *text;
} EXITS[] = {
    {"0", "done"},
    {"1", "done, and the answer is no"},
    {"2", "wrong usage or configuration"},
    {"3", "could not: file, network, database, model"},
    {"4", "conflicting results or damaged database"},
    {"5", "cells failed, are missing or cannot be decided"},
    {"6", "a required program is missing"},
    {"130, 143", "interrupted; what was finished is stored, the same command resumes"},
};
#define N_EXITS (sizeof EXITS / sizeof EXITS[0])

/* "-q, --quiet" or "    --jobs N" */
static void option_name(const struct kva_opt *o, char *out, size_t n)
{
    char letter[8] = "    ";

    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, n, "%s--%s%s%s", letter, o->name, o->arg ? " " : "",
             o->arg ? o->arg : "");
}

/* Words of `text` behind column `indent`, broken before column 80; the first line goes on
 * where the cursor (column `at`) is. */
static void wrap(struct kva_buf *out, const char *text, int indent, int at)
{
    bool blank = false; /* owed before the next word of the line */

    while (*text) {
        size_t n = strcspn(text, " \n");

        if (blank && at + 1 + (int)n > 79) {
            kva_buf_printf(out, "\n%*s", indent, "");
            at = indent;
        } else if (blank) {
            kva_buf_putc(out, ' ');
            at++;
        }
        kva_buf_add(out, text, n);
        at += (int)n;
        text += n;
        blank = *text == ' ';
        if (text[0] == '\n' && text[1] == '\n') {
            kva_buf_printf(out, "\n\n%*s", indent, "");
            at = indent;
            text++;
        }
        text += *text != '\0';
    }
    kva_buf_putc(out, '\n');
}

static void print_table(const struct kva_opt *o, struct kva_buf *out)
{
    enum { COLUMN = 26 };

    for (; o->name; o++) {
        char name[64];
        int len;

        option_name(o, name, sizeof name);
        len = (int)strlen(name);
        kva_buf_printf(out, "  %s", name);
        if (len + 2 >= COLUMN)
            kva_buf_printf(out, "\n%*s", COLUMN, "");
        else
            kva_buf_printf(out, "%*s", COLUMN - len - 2, "");
        wrap(out, o->help, COLUMN, COLUMN);
    }
}

static void overview(struct kva_buf *out)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    kva_buf_puts(
        out, "kvaudit measures KV-cache eviction: what is kept, what it costs, what it "
             "breaks.\n\nusage: kvaudit COMMAND [ARGUMENTS] [OPTIONS]\n\ncommands:\n");
    for (size_t i = 0; i < n; i++) {
        char name[64];

        snprintf(name, sizeof name, "%s %s", c[i].name, c[i].args);
        kva_buf_printf(out, "  %-20s %s\n", name, c[i].summary);
    }
    kva_buf_puts(out, "\noptions of every command:\n");
    print_table(kva_options_common(), out);
    kva_buf_puts(out, "\n'kvaudit COMMAND --help' has the rest.\n");
}

void kva_options_help(const struct kva_command *cmd, struct kva_buf *out)
{
    if (!cmd) {
        overview(out);
        return;
    }
    kva_buf_printf(out, "usage: kvaudit %s%s%s [OPTIONS]\n\n%s\n", cmd->name,
                   cmd->args[0] ? " " : "", cmd->args, cmd->summary);
    if (cmd->details) {
        kva_buf_putc(out, '\n');
        wrap(out, cmd->details, 0, 0);
    }
    if (cmd->options()->name) {
        kva_buf_puts(out, "\noptions:\n");
        print_table(cmd->options(), out);
    }
    kva_buf_puts(out, "\noptions of every command:\n");
    print_table(kva_options_common(), out);
}

/* ---- manual page ---- */

/* Text with what roff would read as markup escaped; `-` becomes a real minus. */
static void roff_text(struct kva_buf *out, const char *s)
{
    bool line_start = true;

    for (; *s; s++) {
        if (line_start && (*s == '.' || *s == '\''))
            kva_buf_puts(out, "\\&");
        line_start = false;
        if (*s == '-')
            kva_buf_puts(out, "\\-");
        else if (*s == '\\')
            kva_buf_puts(out, "\\e");
        else if (s[0] == '\n' && s[1] == '\n') {
            kva_buf_puts(out, "\n.PP\n");
            s++;
            line_start = true;
        } else {
            kva_buf_putc(out, *s);
            line_start = *s == '\n';
        }
    }
}

static void roff_options(struct kva_buf *out, const struct kva_opt *o)
{
    for (; o->name; o++) {
        kva_buf_puts(out, ".TP\n.B ");
        if (o->letter)
            kva_buf_printf(out, "\\-%c, ", o->letter);
        kva_buf_puts(out, "\\-\\-");
        roff_text(out, o->name);
        if (o->arg) {
            kva_buf_puts(out, " \\fI");
            roff_text(out, o->arg);
            kva_buf_puts(out, "\\fR");
        }
        kva_buf_putc(out, '\n');
        roff_text(out, o->help);
        kva_buf_putc(out, '\n');
    }
}

static void roff_pair(struct kva_buf *out, const char *name, const char *text)
{
    kva_buf_puts(out, ".TP\n.B ");
    roff_text(out, name);
    kva_buf_putc(out, '\n');
    roff_text(out, text);
    kva_buf_putc(out, '\n');
}

void kva_options_man(struct kva_buf *out)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    kva_buf_printf(out, ".TH KVAUDIT 1 \"\" \"kvaudit %s\" \"User Commands\"\n",
                   KVA_VERSION);
    kva_buf_puts(out, ".SH NAME\nkvaudit \\- measure and audit KV\\-cache eviction\n"
                      ".SH SYNOPSIS\n.B kvaudit\n.I COMMAND\n[ARGUMENTS] [OPTIONS]\n"
                      ".SH DESCRIPTION\n");
    roff_text(
        out,
        "kvaudit runs models, eviction methods, budgets and tasks against each other "
        "on an inference core in which evicted entries are really freed, stores every "
        "outcome, and reports what the numbers support.");
    kva_buf_puts(out, "\n.SH COMMANDS\n");
    for (size_t i = 0; i < n; i++) {
        kva_buf_printf(out, ".SS kvaudit %s ", c[i].name);
        roff_text(out, c[i].args);
        kva_buf_putc(out, '\n');
        roff_text(out, c[i].summary);
        kva_buf_puts(out, ".\n");
        if (c[i].details) {
            kva_buf_puts(out, ".PP\n");
            roff_text(out, c[i].details);
            kva_buf_putc(out, '\n');
        }
        roff_options(out, c[i].options());
    }
    kva_buf_puts(out, ".SH OPTIONS OF EVERY COMMAND\n");
    roff_options(out, kva_options_common());
    kva_buf_puts(out, ".SH ENVIRONMENT\n");
    for (size_t i = 0; i < N_ENV; i++)
        roff_pair(out, ENVIRONMENT[i].name, ENVIRONMENT[i].text);
    kva_buf_puts(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < N_EXITS; i++)
        roff_pair(out, EXITS[i].code, EXITS[i].text);
}

/* ---- bash completion ---- */

static void completion_words(struct kva_buf *out, const struct kva_opt *o)
{
    for (; o->name; o++)
        kva_buf_printf(out, " --%s", o->name);
}

void kva_options_completion(struct kva_buf *out)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    kva_buf_puts(out, "# bash completion of kvaudit\n_kvaudit()\n{\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
                      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    for (size_t i = 0; i < n; i++)
        kva_buf_printf(out, "%s ", c[i].name);
    kva_buf_puts(out, "--help --version\"\n    else\n        case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < n; i++) {
        kva_buf_printf(out, "        %s) words=\"", c[i].name);
        if (strcmp(c[i].name, "list") == 0)
            kva_buf_puts(out, "models methods tasks metrics views runs");
        completion_words(out, c[i].options());
        completion_words(out, kva_options_common());
        kva_buf_puts(out, "\" ;;\n");
    }
    kva_buf_puts(
        out,
        "        esac\n    fi\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
        "complete -F _kvaudit kvaudit\n");
}
