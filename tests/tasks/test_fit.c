/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_fit.c - the search for the largest haystack: right, and in few counts. */
#include "tests/tasks/tasks_test.h"

static const char line[] = "nine bytes";

/* Units of one to seven repeats of nine bytes, so that the estimate is never exact. */
static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    size_t *builds = ctx;

    ++*builds;
    if (d->cap_units < n) {
        d->unit = kva_realloc(d->unit, n, sizeof *d->unit);
        assert_non_null(d->unit);
        d->cap_units = n;
    }
    kva_buf_puts(&d->text, "head ");
    d->hay.b0 = d->text.len;
    d->n_units = 0;
    for (size_t i = 0; i < n; i++) {
        size_t b0 = d->text.len;

        for (size_t k = 0; k <= i * 5 % 7; k++)
            kva_buf_puts(&d->text, line);
        d->unit[d->n_units++] = (struct kva_slice){b0, d->text.len};
        kva_buf_putc(&d->text, ' ');
    }
    d->hay.b1 = d->text.len;
    return kva_buf_status(&d->text, err);
}

static int64_t total_of(const struct kva_tok_api *tok, size_t n)
{
    struct kva_error err = {0};
    size_t builds = 0, a, b;
    struct kva_draft d;

    kva_draft_init(&d);
    assert_int_equal(build(&builds, n, &d, &err), KVA_OK);
    tok->count(tok->ctx, NULL, d.text.data, d.text.len, "q", " a", &a, &b, &err);
    kva_draft_release(&d);
    return (int64_t)(a + b) + 30;
}

static void the_result_is_the_largest_that_fits_for_every_tokenizer(void **state)
{
    static const int lengths[] = {40, 60, 77, 100, 333, 1000, 5000, 40000};
    struct pairs pairs = {.lead = 4};
    const struct kva_tok_api api = pairs_api(&pairs);
    const struct kva_tok_api *const toks[] = {&kva_tok_ws, &kva_tok_by, &api};
    int found = 0;

    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            size_t builds = 0;
            struct kva_fit fit = {.task = "demo",
                                  .question = "q",
                                  .answer_prefix = " a",
                                  .limit = lengths[l],
                                  .max_new_tokens = 30,
                                  .n_max = 3000,
                                  .build = build,
                                  .ctx = &builds};
            struct kva_error err = {0};
            struct kva_draft d;

            kva_draft_init(&d);
            if (total_of(toks[t], 1) > lengths[l]) {
                char want[100];

                assert_int_equal(kva_fit_draft(&fit, toks[t], &d, &err), KVA_EINVALID);
                snprintf(
                    want, sizeof want,
                    "task demo does not fit in %d with tokenizer %s (needs at least %d)",
                    lengths[l], toks[t]->id, (int)total_of(toks[t], 1));
                assert_string_equal(err.text, want);
                kva_draft_release(&d);
                continue;
            }
            assert_int_equal(kva_fit_draft(&fit, toks[t], &d, &err), KVA_OK);
            found++;
            assert_int_equal(d.n_units, fit.n_units);
            assert_true(total_of(toks[t], fit.n_units) <= lengths[l]);
            assert_true(fit.n_units == 3000 ||
                        total_of(toks[t], fit.n_units + 1) > lengths[l]);
            assert_int_equal(fit.n_context + fit.n_question + 30,
                             total_of(toks[t], fit.n_units));
            if (fit.n_counts > 12)
                fail_msg("%d counts for %s at %d", fit.n_counts, toks[t]->id, lengths[l]);
            kva_draft_release(&d);
        }
    assert_true(found >= 20);
}

static void an_item_tokenizes_its_context_two_or_three_times(void **state)
{
    static const char *const text[] = {"ruler/niah_single_1", "ruler/niah_single_2",
                                       "ruler/vt", "niah/needle:keys=4@1024"};

    double sum = 0;

    (void)state;
    for (size_t t = 0; t < 4; t++) {
        struct kva_task *task = open_task(text[t]);
        struct kva_arena arena;
        size_t contexts = 0, bytes = 0;
        int most = 0;

        kva_arena_init(&arena);
        for (int idx = 0; idx < 10; idx++) {
            struct pairs pairs = {.lead = 20};
            const struct kva_tok_api api = pairs_api(&pairs);
            struct kva_item it = item_of(task, idx, &api, &arena);

            contexts += it.context_len;
            bytes += pairs.bytes;
            most = pairs.calls > most ? pairs.calls : most;
            kva_arena_reset(&arena);
        }
        sum += (double)bytes / (double)contexts;
        if (2 * bytes > 7 * contexts || most > 6)
            fail_msg("%s: %.2f contexts an item, up to %d calls", text[t],
                     (double)bytes / (double)contexts, most);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_true(sum / 4 < 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_result_is_the_largest_that_fits_for_every_tokenizer),
        TEST(an_item_tokenizes_its_context_two_or_three_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
