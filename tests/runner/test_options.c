/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_options.c - one table drives parsing, help, manual and completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int force, jobs, twice;
    const char *label;
    struct kva_opt_list only;
} opt;

static const struct kva_opt *options(void)
{
    static const struct kva_opt table[] = {
        {"force", 'f', KVA_OPT_FLAG, &opt.force, NULL, "do it", 0, 0},
        {"jobs", 'j', KVA_OPT_INT, &opt.jobs, "N", "workers", 1, 64},
        {"label", 0, KVA_OPT_STR, &opt.label, "TEXT", "a name", 0, 0},
        {"only", 0, KVA_OPT_LIST, &opt.only, "GLOB", "which", 0, 0},
        {"twice", 0, KVA_OPT_FLAG, &opt.twice, NULL, "with --force or --label: again", 0,
         0},
        {0},
    };

    return table;
}

static const struct kva_command CMD = {"try",           "THING", "tries",
                                       "Why it tries.", options, NULL};

static int reset(void **state)
{
    (void)state;
    free((void *)opt.only.v);
    free((void *)kva_common.db.v);
    memset(&opt, 0, sizeof opt);
    memset(&kva_common, 0, sizeof kva_common);
    return 0;
}

/* Parses a NULL-terminated argument list; the positional ones end up first. */
static enum kva_status parse(char **argv, int *n, struct kva_error *err)
{
    memset(err, 0, sizeof *err);
    for (*n = 0; argv[*n]; ++*n)
        ;
    return kva_options_parse(&CMD, n, argv, err);
}

static void refuses(const char *const *args, const char *message)
{
    char *argv[16];
    struct kva_error err;
    int n = 0;

    for (; args[n]; n++)
        argv[n] = strdup(args[n]);
    argv[n] = NULL;
    assert_int_equal(parse(argv, &n, &err), KVA_EINVALID);
    assert_string_equal(err.text, message);
    assert_int_equal(kva_status_exit(err.code), 2);
    for (int i = 0; argv[i]; i++)
        free(argv[i]);
    reset(NULL);
}

static void options_and_positional_arguments_mix(void **state)
{
    char a0[] = "suite.json", a1[] = "-f", a2[] = "--jobs=3", a3[] = "--only",
         a4[] = "a=b", a5[] = "second", a6[] = "--only=c", a7[] = "--label", a8[] = "-x";
    char *argv[] = {a0, a1, a2, a3, a4, a5, a6, a7, a8, NULL};
    struct kva_error err;
    int n;

    (void)state;
    assert_int_equal(parse(argv, &n, &err), KVA_OK);
    assert_int_equal(n, 2);
    assert_string_equal(argv[0], "suite.json");
    assert_string_equal(argv[1], "second");
    assert_int_equal(opt.force, 1);
    assert_int_equal(opt.jobs, 3);
    assert_string_equal(opt.label, "-x");
    assert_int_equal(opt.only.n, 2);
    assert_string_equal(opt.only.v[0], "a=b");
    assert_string_equal(opt.only.v[1], "c");
}

static void letters_cluster_and_take_values(void **state)
{
    char a0[] = "-fqvvj12", a1[] = "-", a2[] = "-j", a3[] = "7", a4[] = "--",
         a5[] = "--force";
    char *argv[] = {a0, a1, a2, a3, a4, a5, NULL};
    struct kva_error err;
    int n;

    (void)state;
    assert_int_equal(parse(argv, &n, &err), KVA_OK);
    assert_int_equal(n, 2);
    assert_string_equal(argv[0], "-");
    assert_string_equal(argv[1], "--force");
    assert_int_equal(opt.force, 1);
    assert_int_equal(opt.jobs, 7);
    assert_int_equal(kva_common.quiet, 1);
    assert_int_equal(kva_common.verbose, 2);
}

static void wrong_options_are_named_with_the_nearest_known_one(void **state)
{
    (void)state;
    refuses((const char *const[]){"--job", "3", NULL},
            "unknown option --job; did you mean --jobs?");
    refuses((const char *const[]){"--jsn", NULL},
            "unknown option --jsn; did you mean --json?");
    refuses((const char *const[]){"--frobnicate=3", NULL}, "unknown option --frobnicate");
    refuses((const char *const[]){"-z", NULL}, "unknown option -z");
    refuses((const char *const[]){"--jobs", NULL}, "--jobs needs a value: --jobs N");
    refuses((const char *const[]){"-j", NULL}, "-j needs a value: -j N");
    refuses((const char *const[]){"--force=1", NULL}, "--force takes no value");
    refuses((const char *const[]){"--jobs=65", NULL},
            "--jobs wants a whole number in 1..64, not '65'");
    refuses((const char *const[]){"--jobs=3x", NULL},
            "--jobs wants a whole number in 1..64, not '3x'");
}

static void an_option_that_goes_with_others_needs_one_of_them(void **state)
{
    char a0[] = "--twice", a1[] = "--force", a2[] = "--label=x", a3[] = "--help";
    char *with[][3] = {{a0, a1, NULL}, {a2, a0, NULL}, {a0, a3, NULL}};
    struct kva_error err;
    int n;

    (void)state;
    refuses((const char *const[]){"--twice", NULL},
            "--twice goes with --force or --label");
    refuses((const char *const[]){"--twice", "--jobs", "3", "--only", "force", NULL},
            "--twice goes with --force or --label");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parse(with[i], &n, &err), KVA_OK);
        reset(NULL);
    }
}

static void what_options_go_with_are_options(void **state)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);
    int rules = 0;

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (const struct kva_opt *o = c[i].options(); o->name; o++) {
            const char *p = o->help, *end = strchr(p, ':');

            if (strncmp(p, "with --", 7) != 0 || !end)
                continue;
            rules++;
            while ((p = strstr(p, "--")) && p < end) {
                const struct kva_opt *other = c[i].options();
                size_t len = strcspn(p += 2, " :");

                while (other->name &&
                       (strlen(other->name) != len || strncmp(other->name, p, len) != 0))
                    other++;
                if (!other->name)
                    fail_msg("kvaudit %s --%s goes with --%.*s?", c[i].name, o->name,
                             (int)len, p);
            }
        }
    assert_true(rules > 10);
}

static void database_is_flag_then_environment_then_default(void **state)
{
    char a0[] = "--db", a1[] = "x.db", a2[] = "--db=y.db";
    char *argv[] = {a0, a1, a2, NULL};
    struct kva_error err;
    int n;

    (void)state;
    unsetenv("KVAUDIT_DB");
    assert_string_equal(kva_db_default(), "./kvaudit.db");
    setenv("KVAUDIT_DB", "/e.db", 1);
    assert_string_equal(kva_db_default(), "/e.db");
    assert_int_equal(parse(argv, &n, &err), KVA_OK);
    assert_string_equal(kva_db_default(), "x.db");
    assert_int_equal(kva_common.db.n, 2);
    unsetenv("KVAUDIT_DB");
}

static void help_shows_every_option_within_80_columns(void **state)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        struct kva_buf b;
        char name[80];

        kva_buf_init(&b, 0);
        kva_options_help(&c[i], &b);
        for (const struct kva_opt *o = c[i].options(); o->name; o++) {
            snprintf(name, sizeof name, "--%s", o->name);
            assert_non_null(strstr(b.data, name));
        }
        for (char *p = b.data; *p; p += strcspn(p, "\n"), p += *p == '\n') {
            size_t len = strcspn(p, "\n");

            if (len > 79 || (len && p[len - 1] == ' '))
                fail_msg("kvaudit %s --help: bad line '%.*s'", c[i].name, (int)len, p);
        }
        kva_buf_release(&b);
    }
}

static void every_command_is_shown_everywhere(void **state)
{
    void (*const printers[])(struct kva_buf *) = {kva_options_man,
                                                  kva_options_completion};
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        struct kva_buf b;
        char line[80];

        kva_buf_init(&b, 0);
        kva_options_help(NULL, &b);
        (void)snprintf(line, sizeof line, "\n  %s", c[i].name);
        assert_non_null(strstr(b.data, line));
        kva_buf_release(&b);
        for (int k = 0; k < 2; k++) {
            kva_buf_init(&b, 0);
            printers[k](&b);
            assert_non_null(strstr(b.data, c[i].name));
            kva_buf_release(&b);
        }
    }
}

/* What a reader of the page sees: escapes and fonts gone. */
static void read_roff(const char *s, struct kva_buf *out)
{
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] == 'f')
            s += 2;
        else if (s[0] == '\\' && s[1] == '&')
            s++;
        else if (s[0] == '\\' && s[1] == 'e')
            kva_buf_putc(out, *s++);
        else if (s[0] != '\\')
            kva_buf_putc(out, *s);
    }
}

/* Finds the text behind *at and moves there. */
static void goes_on_with(const char **at, const char *text)
{
    const char *found = strstr(*at, text);

    if (!found)
        fail_msg("the manual lacks '%s' behind '%.60s'", text, *at);
    *at = found + strlen(text);
}

static void the_manual_says_what_help_says(void **state)
{
    struct kva_buf roff, page;
    const char *at;
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    (void)state;
    kva_buf_init(&roff, 0);
    kva_buf_init(&page, 0);
    kva_options_man(&roff);
    read_roff(roff.data, &page);
    at = page.data;
    for (size_t i = 0; i < n; i++) {
        char line[160];

        snprintf(line, sizeof line, "\n.SS kvaudit %s %s\n%s.\n", c[i].name, c[i].args,
                 c[i].summary);
        goes_on_with(&at, line);
        for (const struct kva_opt *o = c[i].options(); o->name; o++) {
            snprintf(line, sizeof line, "--%s%s%s\n", o->name, o->arg ? " " : "",
                     o->arg ? o->arg : "");
            goes_on_with(&at, line);
            if (strncmp(at, o->help, strlen(o->help)) != 0)
                fail_msg("the manual says '%.40s' of kvaudit %s --%s", at, c[i].name,
                         o->name);
        }
    }
    kva_buf_release(&roff);
    kva_buf_release(&page);
}

static void roff_escapes_what_it_would_read_as_markup(void **state)
{
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    kva_options_man(&b);
    assert_non_null(strstr(b.data, ".TH KVAUDIT 1"));
    assert_non_null(strstr(b.data, "\\-\\-dry\\-run"));
    assert_non_null(strstr(b.data, ".SH EXIT STATUS"));
    assert_null(strstr(b.data, "\n.kv"));
    kva_buf_release(&b);
}

static void tables_have_no_name_or_letter_twice(void **state)
{
    size_t n;
    const struct kva_command *c = kva_commands(&n);

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (const struct kva_opt *a = c[i].options(); a->name; a++) {
            assert_non_null(a->help);
            assert_true((a->type == KVA_OPT_FLAG) == (a->arg == NULL));
            assert_false(a->letter && strchr("qvh", a->letter));
            for (const struct kva_opt *b = a + 1; b->name; b++) {
                assert_string_not_equal(a->name, b->name);
                assert_false(a->letter && a->letter == b->letter);
            }
        }
}

/* A command that tells how it is resumed repeats what was given and nothing else. */
static void words_repeat_what_was_given(void **state)
{
    static const char *const none[] = {NULL}, *const label[] = {"label", NULL};
    char a0[] = "--jobs=3", a1[] = "-f", a2[] = "--label=a b", a3[] = "--only=x";
    char *argv[] = {a0, a1, a2, a3, NULL};
    struct kva_error err;
    struct kva_buf b;
    size_t n;
    const struct kva_command *c = kva_commands(&n);
    int k;

    (void)state;
    kva_buf_init(&b, 0);
    kva_options_words(options(), none, &b);
    for (size_t i = 0; i < n; i++) /* no option of a table looks given at the start */
        if (strcmp(c[i].name, "run") == 0 || strcmp(c[i].name, "audit") == 0)
            kva_options_words(c[i].options(), none, &b);
    assert_int_equal(b.len, 0);
    assert_int_equal(parse(argv, &k, &err), KVA_OK);
    kva_options_words(options(), label, &b);
    assert_string_equal(b.data, " --force --jobs 3 --only x");
    kva_buf_release(&b);
    opt.force = 0;
    opt.only.n = 0;
    opt.jobs = 0; /* below the least */
    kva_options_words(options(), none, &b);
    assert_string_equal(b.data, " --label 'a b'");
    kva_buf_release(&b);
    reset(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_and_positional_arguments_mix, reset),
        cmocka_unit_test_setup(letters_cluster_and_take_values, reset),
        cmocka_unit_test_setup(wrong_options_are_named_with_the_nearest_known_one, reset),
        cmocka_unit_test_setup(an_option_that_goes_with_others_needs_one_of_them, reset),
        cmocka_unit_test(what_options_go_with_are_options),
        cmocka_unit_test_setup(database_is_flag_then_environment_then_default, reset),
        cmocka_unit_test_setup(help_shows_every_option_within_80_columns, reset),
        cmocka_unit_test(every_command_is_shown_everywhere),
        cmocka_unit_test(the_manual_says_what_help_says),
        cmocka_unit_test(roff_escapes_what_it_would_read_as_markup),
        cmocka_unit_test(tables_have_no_name_or_letter_twice),
        cmocka_unit_test_setup(words_repeat_what_was_given, reset),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    reset(NULL);
    return failed;
}
