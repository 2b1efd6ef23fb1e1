/* SPDX-License-Identifier: GPL-3.0-or-later */
/* main.c - finds the command, parses its options, runs it, yields the exit code. */
#include "runner/commands.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

/* Text made by `fill`, to stdout. */
static int print(void (*fill)(struct kva_buf *))
{
    struct kva_buf out;
    struct kva_error err = {0};
    enum kva_status rc;

    kva_buf_init(&out, 0);
    fill(&out);
    rc = kva_buf_status(&out, &err);
    if (rc == KVA_OK)
        rc = kva_command_out(out.data, out.len, &err);
    kva_buf_release(&out);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

static int print_help(const struct kva_command *cmd)
{
    struct kva_buf out;
    struct kva_error err = {0};
    enum kva_status rc;

    kva_buf_init(&out, 0);
    kva_options_help(cmd, &out);
    rc = kva_buf_status(&out, &err);
    if (rc == KVA_OK)
        rc = kva_command_out(out.data, out.len, &err);
    kva_buf_release(&out);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

static const struct kva_command *find(const char *name)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(c[i].name, name) == 0)
            return &c[i];
    return NULL;
}

static int unknown(const char *word)
{
    const char *known[32], *near;
    size_t n, k = 0;
    const struct kva_command *c = kva_commands(&n);

    for (size_t i = 0; i < n && k < 31; i++)
        known[k++] = c[i].name;
    known[k] = NULL;
    near = kva_nearest(word, known);
    if (near)
        fprintf(stderr, "kvaudit: unknown command '%s'; did you mean '%s'?\n", word,
                near);
    else
        fprintf(stderr, "kvaudit: unknown command '%s'; see 'kvaudit --help'\n", word);
    return 2;
}

static int run(int argc, char **argv)
{
    const struct kva_command *cmd;
    struct kva_error err = {0};
    const char *word = argc > 1 ? argv[1] : "";
    int n;

    if (argc < 2) {
        struct kva_buf out;

        kva_buf_init(&out, 0);
        kva_options_help(NULL, &out);
        fputs(out.data ? out.data : "", stderr);
        kva_buf_release(&out);
        return 2;
    }
    if (strcmp(word, "--version") == 0)
        return print(kva_version_text);
    if (strcmp(word, "--help-man") == 0 || strcmp(word, "help-man") == 0)
        return print(kva_options_man);
    if (strcmp(word, "--help-completion") == 0 || strcmp(word, "help-completion") == 0)
        return print(kva_options_completion);
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 ||
        strcmp(word, "help") == 0) {
        if (argc < 3)
            return print_help(NULL);
        cmd = find(argv[2]);
        return cmd ? print_help(cmd) : unknown(argv[2]);
    }
    if (word[0] == '-') {
        fprintf(stderr, "kvaudit: the command comes first: kvaudit COMMAND %s ...\n",
                word);
        return 2;
    }
    cmd = find(word);
    if (!cmd)
        return unknown(word);
    n = argc - 2;
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--version") == 0)
            return print(kva_version_text);
    if (kva_options_parse(cmd, &n, argv + 2, &err) != KVA_OK) {
        int code = kva_command_fail(&err);

        fprintf(stderr, "kvaudit: try 'kvaudit %s --help'\n", cmd->name);
        return code;
    }
    if (kva_common.help)
        return print_help(cmd);
    kva_log_set(kva_command_log, NULL,
                kva_common.quiet         ? KVA_LOG_ERROR
                : kva_common.verbose > 1 ? KVA_LOG_DEBUG
                : kva_common.verbose     ? KVA_LOG_INFO
                                         : KVA_LOG_WARN);
    return cmd->run(n, argv + 2);
}

int main(int argc, char **argv)
{
    int code;

    setlocale(LC_ALL, "C");
    code = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code != 3) { /* 3: it was said */
        fputs("kvaudit: cannot write to standard output\n", stderr);
        return code == 2 || code > 128 ? code : 3;
    }
    return code;
}
