/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shell_words.c - options as they were given, as words of a POSIX shell: for the command
 * that resumes a run, and for job scripts.
 *
 * Control characters are written as $'\012' (POSIX.1-2024; bash): a word stays on its
 * line, so that none can end a here-document of a job script or move a terminal's
 * cursor. */
#include "runner/options.h"

#include <string.h>

void kva_shell_quote(const char *word, struct kva_buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./=:,@%+-";

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        kva_buf_puts(out, word);
        return;
    }
    kva_buf_putc(out, '\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            kva_buf_puts(out, "'\\''");
        else if ((unsigned char)*word < 0x20 || *word == 0x7f)
            kva_buf_printf(out, "'$'\\%03o''", (unsigned)*word);
        else
            kva_buf_putc(out, *word);
    }
    kva_buf_putc(out, '\'');
}

static void word(const struct kva_opt *o, const char *value, struct kva_buf *out)
{
    kva_buf_printf(out, " --%s", o->name);
    if (value != NULL) {
        kva_buf_putc(out, ' ');
        kva_shell_quote(value, out);
    }
}

static bool among(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

void kva_options_words(const struct kva_opt *table, const char *const *except,
                       struct kva_buf *out)
{
    for (const struct kva_opt *o = table; o->name != NULL; o++) {
        const struct kva_opt_list *list = o->where;

        if (among(o->name, except) || !kva_option_given(o))
            continue;
        if (o->type == KVA_OPT_FLAG)
            word(o, NULL, out);
        else if (o->type == KVA_OPT_INT)
            kva_buf_printf(out, " --%s %d", o->name, *(int *)o->where);
        else if (o->type != KVA_OPT_LIST)
            word(o, *(const char **)o->where, out);
        else
            for (int i = 0; i < list->n; i++)
                word(o, list->v[i], out);
    }
}
