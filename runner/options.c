/* SPDX-License-Identifier: GPL-3.0-or-later */
/* options.c - parses a command line by its command's table. What the tables print is in
 * options_print.c. */
#include "runner/options_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kva_common kva_common;

static const struct kva_opt COMMON[] = {
    {"db", 0, KVA_OPT_LIST, &kva_common.db, "FILE",
     "database; repeatable where several are read (default $KVAUDIT_DB, else "
     "./kvaudit.db)",
     0, 0},
    {"json", 0, KVA_OPT_FLAG, &kva_common.json, NULL,
     "one JSON object on standard output, numbers unrounded", 0, 0},
    {"quiet", 'q', KVA_OPT_FLAG, &kva_common.quiet, NULL, "errors only", 0, 0},
    {"verbose", 'v', KVA_OPT_FLAG, &kva_common.verbose, NULL,
     "more detail; twice: debugging", 0, 0},
    {"no-color", 0, KVA_OPT_FLAG, &kva_common.no_color, NULL,
     "no colour (also with NO_COLOR set, or without a terminal)", 0, 0},
    {"help", 'h', KVA_OPT_FLAG, &kva_common.help, NULL, "this text", 0, 0},
    {"version", 0, KVA_OPT_FLAG, &kva_common.help, NULL,
     "version, commit, backends and libraries", 0, 0},
    {0},
};

const struct kva_opt *kva_options_common(void)
{
    return COMMON;
}

static const struct kva_opt *by_name(const struct kva_opt *table, const char *name,
                                     size_t n)
{
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
            return table;
    return NULL;
}

static const struct kva_opt *by_letter(const struct kva_opt *table, char letter)
{
    for (; table->name; table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static enum kva_status unknown_option(const struct kva_command *cmd, const char *arg,
                                      struct kva_error *err)
{
    const char *words[64], *near;
    char name[64];
    int n = 0;

    for (const struct kva_opt *o = cmd->options(); o->name && n < 50; o++)
        words[n++] = o->name;
    for (const struct kva_opt *o = COMMON; o->name && n < 63; o++)
        words[n++] = o->name;
    words[n] = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
    near = arg[0] == '-' && arg[1] == '-' ? kva_nearest(name + 2, words) : NULL;
    if (near)
        return KVA_FAIL(err, KVA_EINVALID, "unknown option %s; did you mean --%s?", name,
                        near);
    return KVA_FAIL(err, KVA_EINVALID, "unknown option %s", name);
}

static enum kva_status assign(const struct kva_opt *o, const char *value,
                              struct kva_error *err)
{
    int64_t v;

    switch (o->type) {
    case KVA_OPT_FLAG:
        ++*(int *)o->where;
        return KVA_OK;
    case KVA_OPT_INT:
        if (!kva_parse_i64(value, &v) || v < o->min || v > o->max)
            return KVA_FAIL(err, KVA_EINVALID,
                            "--%s wants a whole number in %lld..%lld, not '%s'", o->name,
                            (long long)o->min, (long long)o->max, value);
        *(int *)o->where = (int)v;
        return KVA_OK;
    case KVA_OPT_STR:
    case KVA_OPT_WORD:
        *(const char **)o->where = value;
        return KVA_OK;
    case KVA_OPT_LIST: {
        struct kva_opt_list *list = o->where;
        const char **grown =
            kva_realloc((void *)list->v, (size_t)list->n + 1, sizeof list->v[0]);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        list->v = grown;
        list->v[list->n++] = value;
        return KVA_OK;
    }
    }
    return KVA_OK;
}

/* One argument that starts with a single '-': a run of letters, the last of which may
 * take a value (attached or the next argument). *used: extra arguments taken. */
static enum kva_status parse_letters(const struct kva_command *cmd, char **arg, int left,
                                     int *used, struct kva_error *err)
{
    for (const char *p = arg[0] + 1; *p; p++) {
        const struct kva_opt *o = by_letter(cmd->options(), *p);

        if (!o)
            o = by_letter(COMMON, *p);
        if (!o)
            return unknown_option(cmd, arg[0], err);
        if (o->type == KVA_OPT_FLAG) {
            KVA_TRY(assign(o, NULL, err));
            continue;
        }
        if (p[1])
            return assign(o, p + 1, err);
        if (left < 1)
            return KVA_FAIL(err, KVA_EINVALID, "-%c needs a value: -%c %s", *p, *p,
                            o->arg);
        *used = 1;
        return assign(o, arg[1], err);
    }
    return KVA_OK;
}

static enum kva_status parse_long(const struct kva_command *cmd, char **arg, int left,
                                  int *used, struct kva_error *err)
{
    const char *name = arg[0] + 2, *eq = strchr(name, '=');
    size_t n = eq ? (size_t)(eq - name) : strlen(name);
    const struct kva_opt *o = by_name(cmd->options(), name, n);

    if (!o)
        o = by_name(COMMON, name, n);
    if (!o)
        return unknown_option(cmd, arg[0], err);
    if (o->type == KVA_OPT_FLAG) {
        if (eq)
            return KVA_FAIL(err, KVA_EINVALID, "--%s takes no value", o->name);
        return assign(o, NULL, err);
    }
    if (eq)
        return assign(o, eq + 1, err);
    if (o->type == KVA_OPT_WORD && (left < 1 || arg[1][0] == '-'))
        return assign(o, "", err);
    if (left < 1)
        return KVA_FAIL(err, KVA_EINVALID, "--%s needs a value: --%s %s", o->name,
                        o->name, o->arg);
    *used = 1;
    return assign(o, arg[1], err);
}

bool kva_option_given(const struct kva_opt *o)
{
    switch (o->type) {
    case KVA_OPT_FLAG:
        return *(int *)o->where > 0;
    case KVA_OPT_INT:
        return *(int *)o->where >= o->min;
    case KVA_OPT_LIST:
        return ((struct kva_opt_list *)o->where)->n > 0;
    default:
        return *(const char **)o->where != NULL;
    }
}

/* Refuses options whose help begins "with --A: " where no such A was given. */
static enum kva_status check_company(const struct kva_opt *table, struct kva_error *err)
{
    for (const struct kva_opt *o = table; o->name; o++) {
        size_t n = strncmp(o->help, "with --", 7) == 0 ? strcspn(o->help, ":") : 0;
        const char *name = o->help, *colon = o->help + n;
        bool met = n == 0 || !kva_option_given(o);

        while (!met && (name = strstr(name, "--")) != NULL && name < colon) {
            const struct kva_opt *other;

            name += 2;
            other = by_name(table, name, strcspn(name, " :"));
            met = other != NULL && kva_option_given(other);
        }
        if (!met)
            return KVA_FAIL(err, KVA_EINVALID, "--%s goes %.*s", o->name, (int)n,
                            o->help);
    }
    return KVA_OK;
}

enum kva_status kva_options_parse(const struct kva_command *cmd, int *argc, char **argv,
                                  struct kva_error *err)
{
    int n_pos = 0;
    bool only_pos = false;

    for (int i = 0; i < *argc; i++) {
        char *a = argv[i];
        int used = 0;

        if (only_pos || a[0] != '-' || a[1] == '\0') {
            argv[n_pos++] = a;
        } else if (strcmp(a, "--") == 0) {
            only_pos = true;
        } else if (a[1] == '-') {
            KVA_TRY(parse_long(cmd, argv + i, *argc - i - 1, &used, err));
        } else {
            KVA_TRY(parse_letters(cmd, argv + i, *argc - i - 1, &used, err));
        }
        i += used;
    }
    *argc = n_pos;
    return kva_common.help ? KVA_OK : check_company(cmd->options(), err);
}

const char *kva_db_default(void)
{
    const char *env = getenv("KVAUDIT_DB");

    if (kva_common.db.n)
        return kva_common.db.v[0];
    return env && env[0] ? env : "./kvaudit.db";
}
