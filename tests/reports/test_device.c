/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_device.c - what tests/device/run.sh wrote, read strictly and shown: shares of the
 * card's ceilings, targets of stage K7 (kernels.md 9), the memory witness. */
#include "tests/reports/tables.h"

#define HEAD                                                                             \
    "{\"schema\":\"kvaudit/device-1\",\"program\":\"kvaudit 9.9\",\"date\":"             \
    "\"2026-11-30T03:20:00Z\",\"seconds\":200,\"parts\":["
#define TAIL "]}"
#define PART_OF(name, status, why, lines)                                                \
    "{\"part\":\"" name "\",\"status\":\"" status                                        \
    "\",\"exit\":0,\"seconds\":3.1,\"limit\":40,\"why\":\"" why "\",\"lines\":[" lines   \
    "]}"
#define CARD_LINE(name)                                                                  \
    "{\"device\":\"" name "\",\"capability\":\"9.0\",\"processors\":132,\"memory\":"     \
    "150000000000,\"free\":1,\"l2\":62914560,\"driver\":13000,\"runtime\":12080}"
#define RATES                                                                            \
    ",{\"yardstick\":\"copy\",\"rate\":4e12,\"bytes\":1},"                               \
    "{\"yardstick\":\"bf16\",\"rate\":8e14,\"side\":8192}"
#define CARD(name) PART_OF("device", "ok", "", CARD_LINE(name) RATES)
#define MODEL_OF(shape, layers, backend, numerics)                                       \
    "{\"model\":{\"shape\":\"" shape "\",\"layers\":" layers ",\"backend\":\"" backend   \
    "\",\"numerics\":\"" numerics                                                        \
    "\",\"isa\":\"sm_90\",\"seed\":1,\"weights\":15e9,\"seconds\":2.1}}"
#define MODEL MODEL_OF("llama-3.1-8b", "32", "cuda", "bf16")
#define TIME_OF(name, tokens, entries, s, bytes, flop)                                   \
    ",{\"measure\":\"" name "\",\"tokens\":" tokens ",\"entries\":" entries              \
    ",\"sessions\":1,\"seconds\":" s ",\"bytes\":" bytes ",\"flop\":" flop "}"
#define MEMORY_OF(which, held, committed)                                                \
    ",{\"memory\":\"" which "\",\"tokens\":32768,\"held\":" held                         \
    ",\"committed\":" committed ",\"alloc\":1,\"live\":1}"
#define SYNTHETIC(lines) PART_OF("synthetic", "ok", "", lines)
#define TEST_LINE(name, failed, code)                                                    \
    "{\"test\":\"" name "\",\"passed\":7,\"failed\":" failed                             \
    ",\"skipped\":0,\"exit\":" code ",\"ms\":3}"

static struct kva_device_result res;

static struct kva_report *build(const char *json)
{
    struct kva_report *r = NULL;
    struct kva_error err = {0};

    if (kva_device_report(json, json ? strlen(json) : 0, "d.json", NULL, &res, &r,
                          &err) != KVA_OK)
        fail_msg("%s", err.text);
    return r;
}

/* What is wrong with a file. */
static const char *refused(const char *json)
{
    static struct kva_error err;
    struct kva_report *r = NULL;

    err = (struct kva_error){0};
    assert_int_equal(
        kva_device_report(json, strlen(json), "d.json", NULL, &res, &r, &err),
        KVA_EFORMAT);
    assert_null(r);
    return err.text;
}

static int row_of(const struct kva_tab *t, const char *name, int tokens)
{
    assert_non_null(t);
    for (int k = 0; k < t->n_row; k++)
        if (strcmp(word(t, k, t->col[0].id), name) == 0 &&
            (!tokens || number(t, k, "tokens") == tokens))
            return k;
    fail_msg("%s has no row %s", t->id, name);
    return 0;
}

static void nothing_measured_is_said_of_every_figure(void **state)
{
    struct kva_report *r = build(NULL);
    const struct kva_tab *t = tab(r, "device-times");

    (void)state;
    assert_int_equal(res.n_met, 0);
    assert_int_equal(res.n_missing, 5);
    assert_string_equal(word(tab(r, "device-card"), 0, "card"), "not measured");
    assert_int_equal(tab(r, "device-parts")->n_row, 6);
    assert_int_equal(t->n_row, 15);
    for (int k = 0; k < t->n_row; k++) {
        assert_true(isnan(number(t, k, "time")));
        assert_string_equal(word(t, k, "time"), "not measured");
    }
    for (int k = 0; k < 5; k++)
        assert_string_equal(word(tab(r, "device-targets"), k, "verdict"), "not measured");
    kva_report_free(r);
}

static void a_share_is_the_time_at_the_measured_ceilings(void **state)
{
    /* 16e9 bytes at 4e12 a second: 4 ms of 10; 8e14 FLOP: one second of four */
    struct kva_report *r = build(HEAD CARD("NVIDIA H200") "," SYNTHETIC(
        MODEL TIME_OF("decode", "32768", "32768", "0.01", "16e9", "0")
            TIME_OF("prefill", "32768", "32768", "4.0", "1", "8e14")
                TIME_OF("mine", "7", "7", "1", "4e12", "8e14")) TAIL);
    const struct kva_tab *t = tab(r, "device-times");
    int k = row_of(t, "decode", 32768);

    (void)state;
    assert_true(fabs(number(t, k, "share") - 0.4) < 1e-12);
    assert_true(fabs(number(t, k, "floor") - 4) < 1e-9);
    assert_string_equal(word(t, k, "bound"), "memory");
    assert_string_equal(word(t, k, "target"), ">= 35 %");
    assert_string_equal(word(t, k, "verdict"), "met");
    k = row_of(t, "prefill", 32768);
    assert_true(fabs(number(t, k, "share") - 0.25) < 1e-12);
    assert_string_equal(word(t, k, "bound"), "product");
    assert_string_equal(word(t, k, "target"), "<= 3.7 s");
    assert_string_equal(word(t, k, "verdict"), "missed");
    assert_string_equal(word(t, row_of(t, "decode, evicted", 4096), "verdict"),
                        "not measured");
    /* what nobody looks for is shown all the same */
    assert_int_equal(t->n_row, 16);
    assert_string_equal(word(t, row_of(t, "mine", 7), "verdict"), "");
    /* one decode was measured, three were not: no verdict on all of them */
    t = tab(r, "device-targets");
    assert_string_equal(word(t, 3, "verdict"), "not measured");
    assert_string_equal(word(t, 2, "verdict"), "missed");
    assert_int_equal(res.n_missed, 1);
    kva_report_free(r);
}

static void another_card_is_judged_by_its_own_ceilings(void **state)
{
    struct kva_report *r = build(HEAD CARD("NVIDIA A100") "," SYNTHETIC(
        MODEL TIME_OF("prefill", "32768", "32768", "4.0", "1", "8e14")) TAIL);
    const struct kva_tab *t = tab(r, "device-times");
    int k = row_of(t, "prefill", 32768);

    (void)state;
    assert_string_equal(word(t, k, "target"), ">= 25 %");
    assert_string_equal(word(t, k, "verdict"), "met");
    kva_report_free(r);
}

static void a_smaller_model_meets_no_target(void **state)
{
    struct kva_report *r = build(HEAD CARD("NVIDIA H200") "," SYNTHETIC(
        MODEL_OF("llama-3.1-8b", "8", "cuda", "bf16")
            TIME_OF("prefill", "32768", "32768", "1.0", "1", "2e14")) TAIL);
    const struct kva_tab *t = tab(r, "device-times");

    (void)state;
    assert_string_equal(word(t, row_of(t, "prefill", 32768), "verdict"), "another model");
    assert_true(noted(t, "8 layers"));
    assert_int_equal(res.n_met, 0);
    kva_report_free(r);
}

static void times_of_the_processor_have_no_share(void **state)
{
    struct kva_report *r = build(HEAD CARD("NVIDIA H200") "," SYNTHETIC(
        MODEL_OF("llama-3.1-8b", "32", "cpu", "bf16")
            TIME_OF("decode", "32768", "32768", "0.01", "16e9", "0")
                MEMORY_OF("full", "8e9", "4e9") MEMORY_OF("evicted", "5e9", "1e9")) TAIL);
    const struct kva_tab *t = tab(r, "device-times");
    int k = row_of(t, "decode", 32768);

    (void)state;
    assert_true(isnan(number(t, k, "share")));
    assert_string_equal(word(t, k, "verdict"), "not measured");
    assert_string_equal(word(tab(r, "device-memory"), 0, "verdict"), "not the card's");
    assert_int_equal(res.n_met, 0);
    kva_report_free(r);
}

static void memory_is_witnessed_within_two_percent(void **state)
{
    /* 2 % of 4e9 are 80e6: 79 MB off are allowed, 81 MB are not */
    struct kva_report *r = build(HEAD SYNTHETIC(
        MODEL MEMORY_OF("weights", "2e9", "0") MEMORY_OF("full", "8e9", "4e9")
            MEMORY_OF("evicted", "5.079e9", "1e9") MEMORY_OF("full", "8e9", "4e9")
                MEMORY_OF("evicted", "4.919e9", "1e9")) TAIL);
    const struct kva_tab *t = tab(r, "device-memory");

    (void)state;
    assert_int_equal(t->n_row, 2);
    assert_true(fabs(number(t, 0, "off") + 79e6) < 1);
    assert_string_equal(word(t, 0, "verdict"), "met");
    assert_true(fabs(number(t, 1, "off") - 81e6) < 1);
    assert_string_equal(word(t, 1, "verdict"), "missed");
    assert_string_equal(word(tab(r, "device-targets"), 4, "verdict"), "missed");
    kva_report_free(r);
}

static void tests_are_added_up_and_findings_counted(void **state)
{
    struct kva_report *r = build(HEAD PART_OF(
        "parity", "ok", "",
        TEST_LINE("a", "0", "0") "," TEST_LINE(
            "b", "0",
            "0")) "," PART_OF("sanitizer", "failed", "status 1",
                              "{\"tool\":\"memcheck\"}," TEST_LINE(
                                  "a", "0",
                                  "0") ",{\"tool\":\"racecheck\"}," TEST_LINE("a", "0",
                                                                              "9")) TAIL);
    const struct kva_tab *t = tab(r, "device-targets");

    (void)state;
    assert_string_equal(word(t, 0, "measured"),
                        "14 passed, 0 failed, 0 skipped in 2 programs");
    assert_string_equal(word(t, 0, "verdict"), "met");
    assert_string_equal(word(t, 1, "measured"), "1 of 2 programs with findings");
    assert_string_equal(word(t, 1, "verdict"), "missed");
    kva_report_free(r);
}

static void a_file_of_another_shape_is_refused_with_its_place(void **state)
{
    (void)state;
    assert_string_equal(refused(HEAD "{]"),
                        "d.json:1:108: string or '}' expected near ']'");
    assert_non_null(strstr(refused("[1]"), "d.json: the schema is \"\""));
    assert_non_null(strstr(refused("{\"schema\":\"kvaudit/device-2\"}"),
                           "the schema is \"kvaudit/device-2\""));
    assert_string_equal(refused("{\"schema\":\"kvaudit/device-1\",\"program\":\"x\"}"),
                        "d.json: \"date\" is missing");
    assert_string_equal(refused(HEAD "7" TAIL),
                        "d.json: parts[0]: an object is wanted here");
    assert_string_equal(refused(HEAD PART_OF("devise", "ok", "", "") TAIL),
                        "d.json: parts[0]: unknown part \"devise\"");
    assert_string_equal(refused(HEAD PART_OF("device", "fine", "", "") TAIL),
                        "d.json: parts[0]: unknown status \"fine\"");
    assert_string_equal(refused(HEAD PART_OF("parity", "ok", "", "") "," PART_OF(
                            "parity", "ok", "", "") TAIL),
                        "d.json: parts[1]: the part \"parity\" is here twice");
    assert_string_equal(
        refused(HEAD PART_OF("device", "ok", "", "{\"a\":1}") TAIL),
        "d.json: parts[0].lines[0]: no such line is known of the part \"device\"");
    assert_string_equal(refused(HEAD PART_OF(
                            "device", "ok", "",
                            CARD_LINE("x") ",{\"yardstick\":\"copy\",\"rate\":-1}") TAIL),
                        "d.json: parts[0].lines[1]: \"rate\" is negative");
    assert_string_equal(
        refused(HEAD PART_OF("device", "ok", "",
                             "{\"yardstick\":\"copy\",\"rate\":1,\"x\\u001b\":1}") TAIL),
        "d.json: parts[0].lines[0]: unknown key \"x\xef\xbf\xbd\"");
    assert_string_equal(
        refused(HEAD SYNTHETIC("{\"memory\":\"full\",\"tokens\":1,\"held\":1,"
                               "\"committed\":1,\"alloc\":1,\"live\":1}") TAIL),
        "d.json: parts[0].lines[0]: a figure before its model");
    assert_string_equal(
        refused(HEAD SYNTHETIC(MODEL TIME_OF("decode", "1.5", "1", "1", "1", "1")) TAIL),
        "d.json: parts[0].lines[1]: \"tokens\" is no count");
    assert_string_equal(
        refused(HEAD SYNTHETIC(MODEL TIME_OF("decode", "1", "1", "1", "1", "1")
                                   TIME_OF("decode", "1", "1", "2", "1", "1")) TAIL),
        "d.json: parts[0].lines[2]: \"decode\" of 1 tokens is here twice");
}

static void a_number_that_was_none_is_not_measured(void **state)
{
    struct kva_report *r = build(HEAD PART_OF(
        "golden", "failed", "status 1",
        "{\"golden\":\"m\",\"tokens\":200,\"off_ref\":null,\"off_f32\":0.5}") TAIL);

    (void)state;
    assert_string_equal(
        word(tab(r, "device-parts"), 2, "says"),
        "m: 200 tokens, largest difference of -log p not measured to ref, 0.5 to f32");
    assert_true(noted(tab(r, "device-parts"), "golden: status 1"));
    kva_report_free(r);
}

static void hostile_names_are_escaped(void **state)
{
    struct kva_report *r = build(HEAD CARD("<script>|\\u001b[31m\\u009b&") "," PART_OF(
        "parity", "failed", "<img src=x>`|\\n=1+1", "") TAIL);
    struct kva_buf out;

    (void)state;
    for (int how = 0; how < 6; how++) {
        static enum kva_status (*const render[])(const struct kva_report *,
                                                 struct kva_buf *, struct kva_error *) = {
            kva_report_text, kva_report_json, kva_report_csv, kva_report_markdown,
            kva_report_latex};

        kva_buf_init(&out, 0);
        assert_int_equal(how < 5 ? render[how](r, &out, NULL)
                                 : kva_report_html(r, NULL, &out, NULL),
                         KVA_OK);
        assert_null(strchr(out.data, '\x1b'));
        assert_null(strstr(out.data, "\xc2\x9b"));
        if (how == 3 || how == 5) {
            assert_null(strstr(out.data, "<script>|"));
            assert_null(strstr(out.data, "<img src"));
            assert_non_null(strstr(out.data, "&lt;img src=x&gt;"));
        }
        if (how == 3)
            assert_non_null(strstr(out.data, "&lt;script&gt;\\|"));
        kva_buf_release(&out);
    }
    kva_report_free(r);
}

static void every_failed_allocation_is_told(void **state)
{
    const char *json = HEAD CARD("NVIDIA H200") "," SYNTHETIC(
        MODEL TIME_OF("decode", "32768", "32768", "0.01", "16e9", "0")
            MEMORY_OF("full", "8e9", "4e9") MEMORY_OF(
                "evicted", "5e9", "1e9")) "," PART_OF("parity", "failed", "status 1",
                                                      TEST_LINE("a", "1", "1")) TAIL;
    enum kva_status rc = KVA_ENOMEM;
    long n = 0;

    (void)state;
    while (rc != KVA_OK) {
        struct kva_report *r = NULL;
        struct kva_error err = {0};

        kva_alloc_fail_at(++n);
        rc = kva_device_report(json, strlen(json), "d.json", NULL, &res, &r, &err);
        kva_alloc_fail_at(0);
        if (rc == KVA_OK)
            kva_report_free(r);
        else
            assert_null(r);
        assert_true(rc == KVA_OK || (rc == KVA_ENOMEM && err.text[0]));
    }
    assert_true(n > 10);
}

/* Anchors of the page's contents exist. */
static void the_page_has_no_dangling_links(void **state)
{
    struct kva_report *r = build(HEAD CARD("NVIDIA H200") TAIL);
    struct kva_buf out;

    (void)state;
    kva_buf_init(&out, 0);
    assert_int_equal(kva_report_html(r, NULL, &out, NULL), KVA_OK);
    for (const char *p = out.data; (p = strstr(p, "href=\"#")); p++) {
        char id[64], want[80];
        size_t n = strcspn(p + 7, "\"");

        assert_true(n < sizeof id);
        memcpy(id, p + 7, n);
        id[n] = 0;
        (void)snprintf(want, sizeof want, "id=\"%s\"", id);
        if (!strstr(out.data, want))
            fail_msg("#%s is nowhere", id);
    }
    assert_non_null(strstr(out.data, "Memory given back by an eviction"));
    kva_buf_release(&out);
    kva_report_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_measured_is_said_of_every_figure),
        cmocka_unit_test(a_share_is_the_time_at_the_measured_ceilings),
        cmocka_unit_test(another_card_is_judged_by_its_own_ceilings),
        cmocka_unit_test(a_smaller_model_meets_no_target),
        cmocka_unit_test(times_of_the_processor_have_no_share),
        cmocka_unit_test(memory_is_witnessed_within_two_percent),
        cmocka_unit_test(tests_are_added_up_and_findings_counted),
        cmocka_unit_test(a_file_of_another_shape_is_refused_with_its_place),
        cmocka_unit_test(a_number_that_was_none_is_not_measured),
        cmocka_unit_test(hostile_names_are_escaped),
        cmocka_unit_test(every_failed_allocation_is_told),
        cmocka_unit_test(the_page_has_no_dangling_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
