/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_spans.c - placement, tokens of spans, choice of distractors (tasks-ruler.md
 * 8, 12.3, 12.5). */
#include "tests/tasks/tasks_test.h"

static const char single[] =
    "A special magic number is hidden within the following text. Make sure "
    "to memorize it. I will quiz you about the number afterwards.\n";
static const char plural[] =
    "Some special magic numbers are hidden within the following text. Make "
    "sure to memorize it. I will quiz you about the numbers afterwards.\n";

static void sentence(const void *ctx, size_t i, const char **text, size_t *n)
{
    const struct kva_essay *e = ctx;

    *text = e->text.data + e->sentence[i].b0;
    *n = e->sentence[i].b1 - e->sentence[i].b0;
}

static void write_context(struct kva_draft *d, const char *head,
                          const struct kva_plant *plants, size_t n, bool keep_empty)
{
    struct kva_essay e;
    struct kva_error err = {0};
    struct kva_units units = {sentence, &e};

    assert_int_equal(kva_essay_open(&e, "embedded", &(struct kva_task_opts){0}, &err),
                     KVA_OK);
    kva_draft_init(d);
    kva_buf_puts(&d->text, head);
    assert_int_equal(kva_draft_place(d, &units, 12, plants, n, false, keep_empty, &err),
                     KVA_OK);
    kva_buf_putc(&d->text, '\n');
    kva_essay_release(&e);
}

static struct kva_plant needle(const char *text, const char *key, size_t place)
{
    struct kva_plant p = {
        .text = text, .queried = true, .role = "needle", .place = place};

    p.key.b0 = (size_t)(strstr(text, key) - text);
    p.key.b1 = p.key.b0 + strlen(key);
    p.value.b1 = strlen(text) - 1;
    p.value.b0 = p.value.b1 - 7;
    return p;
}

static void one_needle_and_its_distractor_stand_where_the_example_says(void **state)
{
    static const int sentences[12][2] = {{23, 29}, {29, 35},  {35, 41},   {41, 49},
                                         {49, 56}, {56, 63},  {73, 83},   {83, 91},
                                         {91, 98}, {98, 105}, {105, 118}, {118, 129}};
    static const char *const forbidden[] = {"amber-lantern", "4812907"};
    struct kva_plant plant =
        needle("One of the special magic numbers for amber-lantern is: 4812907.",
               "amber-lantern", (size_t)(12 * 0.51));
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_draft d;
    struct kva_span *s, unit;
    struct kva_span_job job = {.draft = &d,
                               .plants = &plant,
                               .n_plants = 1,
                               .forbidden = forbidden,
                               .n_forbidden = 2,
                               .stream = "kvaudit-D|demo|w1|0|42|0",
                               .guard = 4,
                               .tau = 1,
                               .n_distractors = 4};
    int32_t *begin, *end;
    size_t n;
    int n_spans;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(plant.place, 6);
    write_context(&d, single, &plant, 1, true);
    assert_int_equal(d.text.len, 710);
    assert_int_equal(kva_tok_ws.ranges(NULL, NULL, d.text.data, d.text.len, &arena,
                                       &begin, &end, &n, &err),
                     KVA_OK);
    assert_int_equal(n, 129);
    assert_int_equal(kva_spans_make(&job, begin, end, n, &arena, &s, &n_spans, &err),
                     KVA_OK);
    assert_string_equal(s[0].id, "E0");
    assert_range(s[0].b0, s[0].b1, 339, 402);
    assert_range(s[0].t0, s[0].t1, 63, 73);
    assert_int_equal(s[0].bucket, 5);
    assert_string_equal(s[1].id, "P0");
    assert_range(s[1].b0, s[1].b1, 394, 401);
    assert_range(s[1].t0, s[1].t1, 72, 73);
    assert_string_equal(s[2].id, "K0");
    assert_range(s[2].b0, s[2].b1, 376, 389);
    assert_range(s[2].t0, s[2].t1, 70, 71);
    for (size_t i = 0; i < 12; i++) {
        unit.b0 = d.unit[i].b0;
        unit.b1 = d.unit[i].b1;
        kva_span_locate(&unit, begin, end, n);
        assert_range(unit.t0, unit.t1, sentences[i][0], sentences[i][1]);
    }
    assert_string_equal(s[3].id, "D0");
    assert_string_equal(s[3].match, "E0");
    assert_range(s[3].t0, s[3].t1, 77, 87);
    assert_int_equal(s[3].bucket, 6);
    assert_int_equal(s[3].level, 3);
    assert_int_equal(s[3].guard, 4);
    assert_int_equal(s[3].dtok, 0);
    assert_int_equal(strncmp(d.text.data + s[3].b0,
                             "beside the scales in the shade. The ferry leaves when",
                             s[3].b1 - s[3].b0),
                     0);
    assert_int_equal(s[3].b1 - s[3].b0, 53);
    kva_draft_release(&d);
    kva_arena_release(&arena);
}

static void four_needles_keep_the_official_blanks(void **state)
{
    static const int bytes[4][2] = {{138, 201}, {302, 363}, {365, 427}, {843, 906}};
    static const int tokens[4][2] = {{23, 33}, {51, 61}, {61, 71}, {149, 159}};
    /* shuffled order, depths 100, 0, 26, 26: positions ascending 0 3 3 12 take them in
     * order */
    struct kva_plant plants[4] = {
        needle("One of the special magic numbers for amber-lantern is: 4812907.",
               "amber-lantern", (size_t)(12 * 0.0)),
        needle("One of the special magic numbers for quiet-anvil is: 7300215.",
               "quiet-anvil", (size_t)(12 * 0.26)),
        needle("One of the special magic numbers for brisk-meadow is: 1950448.",
               "brisk-meadow", (size_t)(12 * 0.26)),
        needle("One of the special magic numbers for plain-thimble is: 6624083.",
               "plain-thimble", 12),
    };
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_draft d;
    uint8_t digest[32];
    char hex[65];
    int32_t *begin, *end;
    size_t n;

    (void)state;
    kva_arena_init(&arena);
    write_context(&d, plural, plants, 4, true);
    assert_int_equal(d.text.len, 908);
    assert_int_equal(kva_tok_ws.ranges(NULL, NULL, d.text.data, d.text.len, &arena,
                                       &begin, &end, &n, &err),
                     KVA_OK);
    assert_int_equal(n, 159);
    for (int i = 0; i < 4; i++) {
        struct kva_span s = {.b0 = d.planted[i].b0, .b1 = d.planted[i].b1};

        kva_span_locate(&s, begin, end, n);
        assert_range(s.b0, s.b1, bytes[i][0], bytes[i][1]);
        assert_range(s.t0, s.t1, tokens[i][0], tokens[i][1]);
    }
    kva_sha256_of(d.text.data, d.text.len, digest);
    kva_hex(digest, sizeof digest, hex);
    assert_string_equal(
        hex, "e7b8985905fe6b84e7ecfe9e6e253b7b1e7873687219ca67372f59ca44d383ef");
    kva_draft_release(&d);
    kva_arena_release(&arena);
}

static void our_dialect_leaves_out_empty_pieces(void **state)
{
    struct kva_plant plants[3] = {
        needle("N one: 1111111.", "one", 0),
        needle("N two: 2222222.", "two", 0),
        needle("N ten: 3333333.", "ten", 12),
    };
    struct kva_draft d;

    (void)state;
    write_context(&d, "", plants, 3, false);
    assert_int_equal(
        strncmp(d.text.data, "N one: 1111111. N two: 2222222. The harbor", 42), 0);
    assert_null(strstr(d.text.data, "  "));
    assert_string_equal(d.text.data + d.text.len - 32,
                        "last boat returns. N ten: 3333333.\n" + 3);
    kva_draft_release(&d);
}

static void survival_is_counted_as_in_the_example(void **state)
{
    /* T = 129; head 0 keeps {0..3, 60..69, 120..128}, head 1 {0..3, 70..89} */
    static const int head[2][3][2] = {{{0, 4}, {60, 70}, {120, 129}},
                                      {{0, 4}, {70, 90}, {0, 0}}};
    static const size_t total[2] = {23, 24}, e[2] = {7, 3}, payload[2] = {0, 1},
                        d[2] = {0, 10};
    const struct kva_span E = {.t0 = 63, .t1 = 73}, P = {.t0 = 72, .t1 = 73},
                          D = {.t0 = 77, .t1 = 87};

    (void)state;
    for (int h = 0; h < 2; h++) {
        int32_t kept[64];
        size_t n = 0;

        for (int r = 0; r < 3; r++)
            for (int t = head[h][r][0]; t < head[h][r][1]; t++)
                kept[n++] = t;
        assert_int_equal(n, total[h]);
        assert_int_equal(kva_span_kept(&E, kept, n), e[h]);
        assert_int_equal(kva_span_kept(&P, kept, n), payload[h]);
        assert_int_equal(kva_span_kept(&D, kept, n), d[h]);
    }
}

static void a_span_owns_every_token_that_overlaps_it(void **state)
{
    /* a chat prefix of two tokens, then " One", " of", ".\n" */
    static const int32_t begin[] = {-2, -1, 0, 4, 7, 9}, end[] = {-1, 0, 4, 7, 9, 12};
    struct kva_span s = {.b0 = 1, .b1 = 8};

    (void)state;
    kva_span_locate(&s, begin, end, 6);
    assert_range(s.t0, s.t1, 2, 5);
    assert_true(s.depth == 2.0 / 6);
    s.b0 = 4;
    s.b1 = 7;
    kva_span_locate(&s, begin, end, 6);
    assert_range(s.t0, s.t1, 3, 4);
}

/* One E of n words at the front of `text`, one D with tau 0 and guard 2; its text. */
static const char *only_distractor(const char *text, size_t e_end,
                                   const char *const *forbidden, size_t n_forbidden,
                                   const int32_t *begin, const int32_t *end,
                                   size_t n_tokens)
{
    static char got[128];
    struct kva_plant plant = {.text = "", .role = "needle"};
    struct kva_slice planted = {0, e_end};
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_draft d;
    struct kva_span *s;
    struct kva_span_job job = {.draft = &d,
                               .plants = &plant,
                               .n_plants = 1,
                               .forbidden = forbidden,
                               .n_forbidden = n_forbidden,
                               .stream = "x",
                               .guard = 2,
                               .tau = 0,
                               .n_distractors = 1};
    int n;

    kva_arena_init(&arena);
    kva_draft_init(&d);
    kva_buf_puts(&d.text, text);
    d.hay = (struct kva_slice){0, d.text.len};
    d.planted = &planted;
    assert_int_equal(kva_spans_make(&job, begin, end, n_tokens, &arena, &s, &n, &err),
                     KVA_OK);
    got[0] = '\0';
    if (n == 2)
        snprintf(got, sizeof got, "%.*s", (int)(s[1].b1 - s[1].b0), text + s[1].b0);
    d.planted = NULL;
    kva_draft_release(&d);
    kva_arena_release(&arena);
    return got;
}

static void a_distractor_holds_no_key_value_number_or_uuid(void **state)
{
    /* the guard of 2 leaves the last two words as the only candidate */
    static const char *const row[][2] = {
        {"E e. f g 12345678 h", "12345678 h"},
        {"E e. f g 123456 h", "123456 h"},
        {"E e. f g 1234567 h", ""},
        {"E e. f g h (x1234567).", ""},
        {"E e. f g 0a1b2c3d-0000-4000-8000-00000000000F h", ""},
        {"E e. f g 0a1b2c3d-0000-4000-8000_00000000000F h",
         "0a1b2c3d-0000-4000-8000_00000000000F h"},
        {"E e. f g an AMBER-Lantern's", ""},
        {"E e. f g an AMBER-Lanter's", "an AMBER-Lanter's"},
        {"E e. f g i771 h", ""},
    };
    static const char *const forbidden[] = {"amber-lantern", "77"};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_error err = {0};
        struct kva_arena arena;
        int32_t *begin, *end;
        size_t n;

        kva_arena_init(&arena);
        kva_tok_ws.ranges(NULL, NULL, row[i][0], strlen(row[i][0]), &arena, &begin, &end,
                          &n, &err);
        assert_string_equal(only_distractor(row[i][0], 4, forbidden, 2, begin, end, n),
                            row[i][1]);
        kva_arena_release(&arena);
    }
}

static void a_distractor_cuts_no_token(void **state)
{
    /* words E ff gg aa bb cc dd; the token "bb c" reaches over a border */
    static const int32_t begin[] = {0, 2, 5, 8, 11, 15, 17},
                         end[] = {1, 4, 7, 10, 15, 16, 19};

    (void)state;
    for (int tries = 0; tries < 2; tries++) {
        const char *got =
            only_distractor(tries ? "E ff gg 99 bb cc dd" : "E ff gg aa bb cc 99", 1,
                            (const char *const[]){"99"}, 1, begin, end, 7);

        assert_string_equal(got, tries ? "dd" : "aa");
    }
    {
        /* words E f gg hh 99 bb; the token "99 b" reaches over the border before bb */
        static const int32_t b[] = {0, 2, 4, 7, 10, 14}, e[] = {1, 3, 6, 9, 14, 15};

        assert_string_equal(only_distractor("E f gg hh 99 bb", 3,
                                            (const char *const[]){"99"}, 1, b, e, 6),
                            "");
        assert_string_equal(only_distractor("E f gg hh ii bb", 3,
                                            (const char *const[]){"99"}, 1, b, e, 6),
                            "ii bb");
    }
}

/* Guard, disjointness, length, forbidden content and tokens of every distractor of many
 * items. */
static void distractors_obey_their_rules(void **state)
{
    static const char *const tasks[] = {"ruler/niah_multikey_1@700",
                                        "ruler/niah_single_1@600", "ruler/vt@900",
                                        "niah/needle:keys=2,values=2@900"};
    struct pairs pairs = {.lead = 7};
    const struct kva_tok_api api = pairs_api(&pairs);
    int made = 0;

    (void)state;
    for (size_t t = 0; t < sizeof tasks / sizeof tasks[0]; t++) {
        struct kva_task *task = open_task(tasks[t]);
        struct kva_arena arena;

        kva_arena_init(&arena);
        for (int idx = 0; idx < 12; idx++) {
            const struct kva_item it =
                item_of(task, idx, idx % 2 ? &api : &kva_tok_ws, &arena);

            for (int i = 0; i < it.n_spans; i++) {
                const struct kva_span *d = &it.spans[i], *e;

                if (d->kind != 'D')
                    continue;
                made++;
                e = span_named(&it, d->match);
                assert_int_equal(d->dtok, (d->t1 - d->t0) - (e->t1 - e->t0));
                assert_true(abs(d->dtok) <= 1);
                assert_true(d->guard >= 2 && d->guard <= 32 && d->level >= 1);
                assert_true(d->level > 2 || d->bucket == e->bucket);
                assert_true(d->level > 3 || abs(d->bucket - e->bucket) <= 1);
                for (int k = 0; k < it.n_spans; k++) {
                    const struct kva_span *o = &it.spans[k];
                    int gap = o->kind == 'E' ? d->guard : 0;

                    if (k != i && o->kind != 'P')
                        assert_true(d->t1 + gap <= o->t0 || o->t1 + gap <= d->t0);
                }
                for (int a = 0; a < it.n_answers; a++) {
                    char text[600];

                    snprintf(text, sizeof text, "%.*s", (int)(d->b1 - d->b0),
                             it.context + d->b0);
                    assert_null(strstr(text, it.answers[a]));
                }
            }
            kva_arena_reset(&arena);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_true(made > 4 * 12 * 4 * 3 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_needle_and_its_distractor_stand_where_the_example_says),
        TEST(four_needles_keep_the_official_blanks),
        TEST(our_dialect_leaves_out_empty_pieces),
        TEST(survival_is_counted_as_in_the_example),
        TEST(a_span_owns_every_token_that_overlaps_it),
        TEST(a_distractor_holds_no_key_value_number_or_uuid),
        TEST(a_distractor_cuts_no_token),
        TEST(distractors_obey_their_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
