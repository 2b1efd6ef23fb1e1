/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_spec.c - methods and schedules as text: canonical form, aliases, refusals. */
#include "tests/methods/methods_test.h"

static void check(const char *text, struct kva_schedule s, const char *canonical)
{
    struct kva_method m = parse(text, s), again;

    assert_string_equal(m.spec, canonical);
    again = parse(m.spec, s); /* canonical text is a fixed point */
    assert_string_equal(again.spec, canonical);
    assert_string_equal(again.scorer_spec, m.scorer_spec);
}

static void canonical_text_spells_every_parameter_sorted(void **state)
{
    (void)state;
    check("snapkv", ONESHOT,
          "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,window=64+uniform");
    check("snapkv:window=32,sinks=4+uniform", ONESHOT,
          "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=4,window=32+uniform");
    check("snapkv+adakv", ONESHOT,
          "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,window=64"
          "+adakv:alpha=0.2,compat=0,norm=none");
    check("keydiff+global:norm=z,floor=32", BLOCK128,
          "keydiff:recent=0,sinks=0+global:floor=32,norm=z");
    check("streaming", ONESHOT, "streaming:rotate=0,sinks=4+uniform");
    check("random", ONESHOT, "random:recent=0,seed=0,sinks=0+uniform");
    check("knorm", ONESHOT, "knorm:recent=0,sinks=0+uniform");
    check("valuediff", BLOCK128, "valuediff:recent=0,sinks=0+uniform");
    check("qfilter:filter=a/b.json", ONESHOT,
          "qfilter:filter=a/b.json,recent=0,sinks=0+uniform");
    check("streaming+file:profile=x", ONESHOT,
          "streaming:rotate=0,sinks=4+file:as=budgets,profile=x");
}

static void defaults_follow_the_schedule(void **state)
{
    const struct kva_schedule decode = {KVA_BLOCK, 128, 1};

    (void)state;
    check("tova", ONESHOT, "tova:protect_last=1,recent=0,sinks=0+uniform");
    check("tova", decode, "tova:protect_last=0,recent=0,sinks=0+uniform");
    check("tova:protect_last=1", BLOCK128,
          "tova:protect_last=1,recent=0,sinks=0+uniform");
}

static void aliases_expand_before_storing(void **state)
{
    (void)state;
    check("snapkv32", ONESHOT,
          "snapkv:group=after,kernel=7,pool=max,recent=0,sinks=0,window=32+uniform");
    check("snapkv32:pool=avg", ONESHOT,
          "snapkv:group=after,kernel=7,pool=avg,recent=0,sinks=0,window=32+uniform");
    check("adakv", ONESHOT,
          "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,window=64"
          "+adakv:alpha=0.2,compat=0,norm=none");
    check("adakv:alpha=0.5", ONESHOT,
          "snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,window=64"
          "+adakv:alpha=0.5,compat=0,norm=none");
}

static void numbers_are_written_in_their_shortest_form(void **state)
{
    (void)state;
    check("snapkv+adakv:alpha=0.20000", ONESHOT, parse("snapkv+adakv", ONESHOT).spec);
    check("snapkv+adakv:alpha=1e+0", ONESHOT,
          parse("snapkv+adakv:alpha=1", ONESHOT).spec);
    check("random+pyramid:beta=2e1", ONESHOT,
          "random:recent=0,seed=0,sinks=0+pyramid:beta=20,compat=0,window=64");
    check("snapkv:window=064", ONESHOT, parse("snapkv", ONESHOT).spec);
}

static void the_full_cache_and_the_blind_run_take_nothing(void **state)
{
    struct kva_method m = parse("dense", ONESHOT);
    int window = 9;

    (void)state;
    assert_true(m.dense && !m.blind && m.scorer == NULL && m.allocator == NULL);
    assert_string_equal(m.spec, "dense");
    assert_int_equal(kva_method_needs(&m, &window), 0);
    assert_int_equal(window, 0);
    m = parse("blind", ONESHOT);
    assert_true(m.blind && !m.dense);
}

static void needs_and_windows_are_those_of_the_scorer(void **state)
{
    struct kva_method m = parse("snapkv:window=12+adakv", ONESHOT);
    int window;

    (void)state;
    assert_int_equal(kva_method_needs(&m, &window), KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES);
    assert_int_equal(window, 12);
    m = parse("tova", ONESHOT);
    assert_int_equal(kva_method_needs(&m, &window), KVA_NEEDS_KEYS | KVA_NEEDS_QUERIES);
    assert_int_equal(window, 1);
    m = parse("valuediff", ONESHOT);
    assert_int_equal(kva_method_needs(&m, &window), KVA_NEEDS_VALUES);
    assert_int_equal(window, 0);
}

static void refused_methods_say_why(void **state)
{
    const struct {
        const char *text, *error;
    } rows[] = {
        {"snapk", "unknown method \"snapk\"; did you mean \"snapkv\"?"},
        {"keydif:recent=1", "unknown method \"keydif\"; did you mean \"keydiff\"?"},
        {"zzzzzzzzz", "unknown method \"zzzzzzzzz\""},
        {"", "a method is scorer[:key=value,...][+allocator[...]]"},
        {"snapkv+", "a method is scorer[:key=value,...][+allocator[...]]"},
        {"snapkv+adaky",
         "unknown allocator or wrapper \"adaky\"; did you mean \"adakv\"?"},
        {"adakv+global", "two allocators, adakv and global"},
        {"snapkv:windw=3", "snapkv has no parameter \"windw\"; did you mean \"window\"?"},
        {"knorm:zzz=3", "knorm has no parameter \"zzz\"; it has recent, sinks"},
        {"knorm+uniform:floor=3", "uniform has no parameters, got \"floor\""},
        {"snapkv:window=0",
         "snapkv: window must be a whole number from 1 to 4096, got \"0\""},
        {"snapkv:window=6.5",
         "snapkv: window must be a whole number from 1 to 4096, got \"6.5\""},
        {"snapkv:kernel=4", "snapkv: kernel must be odd, got \"4\""},
        {"snapkv:pool=mean", "snapkv: pool must be one of avg, max, got \"mean\""},
        {"snapkv+adakv:alpha=1.5",
         "adakv: alpha must be a number from 0 to 1, got \"1.5\""},
        {"snapkv+adakv:alpha=nan",
         "adakv: alpha must be a number from 0 to 1, got \"nan\""},
        {"snapkv:window=3,window=4", "snapkv: window is given twice"},
        {"snapkv:window", "snapkv: expected parameter=value, got \"window\""},
        {"snapkv:", "snapkv: expected parameter=value, got \"\""},
        {"snapkv:window=3,", "snapkv: expected parameter=value, got \"\""},
        {"dense+adakv", "\"dense\" takes no parameters and no allocator"},
        {"blind:x=1", "\"blind\" takes no parameters and no allocator"},
        {"keydiff+global",
         "keydiff+global: scores of keydiff have no common unit across layers; "
         "give global a norm (norm=z)"},
        {"knorm+global",
         "knorm+global: scores of knorm have no common unit across layers; give "
         "global a norm (norm=z)"},
        {"valuediff+global",
         "valuediff+global: scores of valuediff have no common unit across "
         "layers; give global a norm (norm=z or norm=cell_sum)"},
        {"knorm+adakv:norm=cell_sum",
         "knorm+adakv: norm=cell_sum divides by a sum of scores and "
         "knorm has negative ones; use norm=z"},
        {"streaming+adakv",
         "streaming+adakv: streaming keeps the same positions in every KV head, "
         "there is nothing to compare; use uniform"},
        {"streaming+global:norm=z",
         "streaming+global: streaming keeps the same positions in every "
         "KV head, there is nothing to compare; use uniform"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kva_method m;
        struct kva_error err = {0};

        assert_int_equal(kva_method_parse(rows[i].text, &ONESHOT, &m, &err),
                         KVA_EINVALID);
        assert_string_equal(err.text, rows[i].error);
    }
}

static void pairs_with_a_common_unit_are_accepted(void **state)
{
    const char *const rows[] = {"snapkv+global",
                                "tova+adakv",
                                "random+global",
                                "knorm+adakv",
                                "keydiff+adakv",
                                "valuediff+adakv",
                                "valuediff+global:norm=cell_sum",
                                "keydiff+global:norm=z"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        parse(rows[i], ONESHOT);
}

static void schedules_round_trip(void **state)
{
    const char *const rows[] = {"oneshot",
                                "block:128",
                                "oneshot+decode:1",
                                "layerwise",
                                "chunked:2048+decode:2",
                                "block:64+decode:16"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kva_schedule s;
        char out[48];

        assert_ok(kva_schedule_parse(rows[i], &s, &test_error));
        kva_schedule_text(&s, out);
        assert_string_equal(out, rows[i]);
    }
    {
        struct kva_schedule s;

        assert_ok(kva_schedule_parse("block:128+decode:4", &s, &test_error));
        assert_int_equal(s.kind, KVA_BLOCK);
        assert_int_equal(s.block, 128);
        assert_int_equal(s.decode, 4);
    }
}

static void refused_schedules_say_why(void **state)
{
    const struct {
        const char *text, *error;
    } rows[] = {
        {"oneshut",
         "unknown schedule \"oneshut\"; did you mean \"oneshot\"? known are oneshot, "
         "layerwise, block:N and chunked:N, each with an optional +decode:N"},
        {"oneshot:3",
         "unknown schedule \"oneshot:3\"; did you mean \"oneshot\"? known are oneshot, "
         "layerwise, block:N and chunked:N, each with an optional +decode:N"},
        {"block", "schedule \"block\" needs block:N with N from 1 to 1048576"},
        {"block:0", "schedule \"block:0\" needs block:N with N from 1 to 1048576"},
        {"block:1x", "schedule \"block:1x\" needs block:N with N from 1 to 1048576"},
        {"oneshot+decode:0",
         "schedule \"decode:0\" needs decode:N with N from 1 to 1048576"},
        {"oneshot+x", "schedule \"oneshot+x\": only decode:N may follow the \"+\""},
        {"layerwise:2",
         "unknown schedule \"layerwise:2\"; did you mean \"layerwise\"? known are "
         "oneshot, layerwise, block:N and chunked:N, each with an optional +decode:N"},
        {"chunked", "schedule \"chunked\" needs chunked:N with N from 1 to 1048576"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kva_schedule s;
        struct kva_error err = {0};

        assert_int_equal(kva_schedule_parse(rows[i].text, &s, &err), KVA_EINVALID);
        assert_string_equal(err.text, rows[i].error);
    }
}

static void a_text_of_any_length_is_refused_politely(void **state)
{
    char text[2000];
    struct kva_method m;
    struct kva_error err = {0};

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(kva_method_parse(text, &ONESHOT, &m, &err), KVA_EINVALID);
    text[500] = '\0';
    err = (struct kva_error){0};
    assert_int_equal(kva_method_parse(text, &ONESHOT, &m, &err), KVA_EINVALID);
    parse(
        "snapkv:recent=1048576,sinks=1048576,window=4096,group=before,kernel=255+global:"
        "floor=1048576,norm=cell_sum",
        ONESHOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_spells_every_parameter_sorted),
        cmocka_unit_test(defaults_follow_the_schedule),
        cmocka_unit_test(aliases_expand_before_storing),
        cmocka_unit_test(numbers_are_written_in_their_shortest_form),
        cmocka_unit_test(the_full_cache_and_the_blind_run_take_nothing),
        cmocka_unit_test(needs_and_windows_are_those_of_the_scorer),
        cmocka_unit_test(refused_methods_say_why),
        cmocka_unit_test(pairs_with_a_common_unit_are_accepted),
        cmocka_unit_test(schedules_round_trip),
        cmocka_unit_test(refused_schedules_say_why),
        cmocka_unit_test(a_text_of_any_length_is_refused_politely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
