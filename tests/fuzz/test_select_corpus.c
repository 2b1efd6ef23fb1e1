/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_select_corpus.c - selectors of cells: a stored corpus and seeded edits.
 *
 * Whatever is accepted keeps every byte of its values, means itself, and can be applied
 * to data; every refusal says why. A file of tests/fuzz/select holds one text a line. */
#include "tests/fuzz/fuzz.h"

#include "runner/select.h"

static const char *const words[] = {
    "model=",  "method=", "task=",  "budget=",   "enforce=",    "schedule=", "kv=",
    "suite=",  "db=",     "run=",   "numerics=", "visibility=", "snapkv",    "tova",
    "+adakv",  "window=", "=",      ",",         ":",           "*",         "[",
    "[!a-",    "?",       "last",   "dense",     "blind",       "10%",       "keep=0.1",
    "tokens2", "@512",    "ruler/", "block:128", "\xff",        "\\",        NULL};

/* A database of one cell and one run. */
static const struct kva_data *one_cell(void)
{
    static char model[] = "toy", suite[] = "ruler", task[] = "vt", kind[] = "keep";
    static char method[] = "tova:protect_last=1,recent=0,sinks=0+uniform";
    static char one[] = "oneshot", phys[] = "physical", vis[] = "agnostic", f[] = "f32";
    static char uuid[] = "00000000-0000-4000-8000-000000000001", label[] = "nightly";
    static struct kva_data_model m = {.name = model};
    static struct kva_data_task t = {.suite = suite, .name = task, .ctx = 512};
    static struct kva_data_run r = {.uuid = uuid, .label = label};
    static struct kva_data_cell c = {.method = method,
                                     .budget_kind = kind,
                                     .budget = 0.1,
                                     .schedule = one,
                                     .enforce = phys,
                                     .visibility = vis,
                                     .numerics = f,
                                     .kv = f};
    static struct kva_data d = {.models = &m,
                                .n_models = 1,
                                .tasks = &t,
                                .n_tasks = 1,
                                .cells = &c,
                                .n_cells = 1,
                                .runs = &r,
                                .n_runs = 1};

    return &d;
}

/* True when accepted. `text` is a block of its own, so that a read past it is noticed. */
static bool try_text(const void *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct kva_select s;
    struct kva_error err = {0};
    enum kva_status rc;
    bool cell[1], run[1];

    assert_non_null(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    rc = kva_select_parse(text, &s, &err);
    if (rc == KVA_OK) {
        assert_true(s.n >= 1 && s.n <= KVA_SELECT_MAX);
        assert_string_equal(s.text, text);
        for (int i = 0; i < s.n; i++) {
            assert_true(s.term[i].value[0] != 0);
            assert_non_null(strstr(text, s.term[i].value));
            assert_true(s.named & 1u << s.term[i].key);
        }
        for (int k = 0; k < KVA_SELECT_KEYS; k++)
            assert_true(kva_select_same(&s, &s, (enum kva_select_key)k));
        rc = kva_select_apply(&s, one_cell(), cell, run, &err);
        assert_true(rc == KVA_OK || rc == KVA_EMISSING);
        if (rc != KVA_OK)
            fuzz_refusal(text, rc, &err);
        rc = KVA_OK;
    } else {
        assert_int_equal(rc, KVA_EINVALID);
        fuzz_refusal(text, rc, &err);
    }
    kva_select_release(&s);
    free(text);
    return rc == KVA_OK;
}

static void every_stored_line_is_accepted_or_refused_as_its_file_says(void **state)
{
    struct fuzz_corpus c;

    (void)state;
    fuzz_load(&c, "tests/fuzz/select");
    for (int i = 0; i < c.n; i++) {
        const char *p = c.file[i].bytes.data, *end = p + c.file[i].bytes.len;

        while (p < end) {
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            size_t n = (size_t)((stop ? stop : end) - p);

            if (try_text(p, n) != c.file[i].ok)
                fail_msg("%s: \"%.*s\" is %s", c.file[i].name, (int)n, p,
                         c.file[i].ok ? "refused" : "accepted");
            p += n + 1;
        }
    }
    assert_false(try_text("", 0));
    fuzz_free(&c);
}

static void edited_texts_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20261129};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/select");
    for (; fuzz_goes_on(tries, 100000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        size_t from = (size_t)kva_rng_below(&r, f->bytes.len), n;
        const char *stop;

        while (from > 0 && f->bytes.data[from - 1] != '\n')
            from--;
        stop = memchr(f->bytes.data + from, '\n', f->bytes.len - from);
        n = stop ? (size_t)(stop - f->bytes.data) - from : f->bytes.len - from;
        memcpy(b, f->bytes.data + from, n);
        n = fuzz_edit(&r, b, n, words);
        accepted += try_text(b, n);
    }
    print_message("%ld texts, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

static void a_method_is_its_parts_and_the_parameters_written(void **state)
{
    static const char snap[] =
        "snapkv:group=after,kernel=7,pool=max,recent=0,sinks=0,window=32+uniform";
    static const struct {
        const char *text;
        bool same;
    } c[] = {{"snapkv", true},
             {"snapkv32", true},
             {"snapkv:window=32", true},
             {"snapkv:window=64", false},
             {"snapkv:pool=avg", false},
             {"snapkv+adakv", false},
             {"snapkv+uniform", true},
             {"snapkv*", true},
             {"*window=32", true},
             {"snap", false},
             {"tova", false},
             {"dense", false}};

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        if (kva_select_method(c[i].text, snap, "oneshot") != c[i].same)
            fail_msg("%s", c[i].text);
    assert_true(kva_select_method("dense", "dense", "oneshot"));
    assert_true(kva_select_method("snapkv+adakv:alpha=0.5",
                                  "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,"
                                  "window=64+adakv:alpha=0.5,compat=0,norm=none",
                                  "oneshot"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_line_is_accepted_or_refused_as_its_file_says),
        cmocka_unit_test(edited_texts_are_handled),
        cmocka_unit_test(a_method_is_its_parts_and_the_parameters_written),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
