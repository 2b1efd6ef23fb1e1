/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kva.c - status and error, memory, text, hashes, random numbers, files. */
#include "kva.h"

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- status and error (style.md 5) ---- */

static void the_first_failure_wins_and_context_is_prepended(void **state)
{
    struct kva_error err = {0};
    int i = 3;

    (void)state;
    assert_int_equal(
        KVA_FAIL(&err, KVA_EFORMAT, "tensor %d: offset past the end of the file", i),
        KVA_EFORMAT);
    kva_context(&err, "loading %s", "a.gguf");
    assert_string_equal(err.text,
                        "loading a.gguf: tensor 3: offset past the end of the file");
    assert_int_equal(kva_status_exit(err.code), 3);
    assert_string_equal(err.file, "tests/kva/test_kva.c");
    assert_true(err.line > 0);
    assert_int_equal(KVA_FAIL(&err, KVA_EINVALID, "something else"), KVA_EINVALID);
    assert_int_equal(err.code, KVA_EFORMAT);
    assert_string_equal(err.text,
                        "loading a.gguf: tensor 3: offset past the end of the file");
}

static void a_null_error_gives_the_same_code(void **state)
{
    (void)state;
    assert_int_equal(KVA_FAIL(NULL, KVA_EFORMAT, "x %d", 1), KVA_EFORMAT);
    kva_context(NULL, "nothing");
}

static void context_without_a_failure_changes_nothing(void **state)
{
    struct kva_error err = {0};

    (void)state;
    kva_context(&err, "loading");
    assert_int_equal(err.code, KVA_OK);
    assert_string_equal(err.text, "");
}

static void error_texts_stay_one_line_and_are_cut_at_the_end(void **state)
{
    struct kva_error err = {0};
    char big[2000];

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    big[5] = '\n';
    KVA_FAIL(&err, KVA_EIO, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_null(strchr(err.text, '\n'));
    kva_context(&err, "reading");
    assert_memory_equal(err.text, "reading: xxxxx x", 16);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    kva_context(&err, "%s", big);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void every_status_has_name_text_and_exit_code(void **state)
{
    (void)state;
    assert_string_equal(kva_status_name(KVA_OK), "OK");
    assert_int_equal(kva_status_exit(KVA_OK), 0);
    assert_string_equal(kva_status_name(KVA_ENOMEM), "ENOMEM");
    assert_string_equal(kva_status_text(KVA_ENOMEM), "out of memory");
    assert_int_equal(kva_status_exit(KVA_EINVALID), 2);
    assert_int_equal(kva_status_exit(KVA_ENO), 1);
    assert_int_equal(kva_status_exit(KVA_ECONFLICT), 4);
    assert_int_equal(kva_status_exit(KVA_EMISSING), 5);
    assert_int_equal(kva_status_exit(KVA_ETOOL), 6);
    assert_int_equal(kva_status_exit(KVA_EINTERRUPTED), 130);
    assert_string_equal(kva_status_name((enum kva_status)99), "E?");
}

static enum kva_status tried(enum kva_status s)
{
    KVA_TRY(s);
    return KVA_ENO;
}

static enum kva_status gone(enum kva_status s, int *cleaned)
{
    enum kva_status rc;

    KVA_GO(s);
    rc = KVA_ENO;
out:
    ++*cleaned;
    return rc;
}

static void try_returns_and_go_cleans_up(void **state)
{
    int cleaned = 0;

    (void)state;
    assert_int_equal(tried(KVA_EIO), KVA_EIO);
    assert_int_equal(tried(KVA_OK), KVA_ENO);
    assert_int_equal(gone(KVA_EIO, &cleaned), KVA_EIO);
    assert_int_equal(gone(KVA_OK, &cleaned), KVA_ENO);
    assert_int_equal(cleaned, 2);
}

/* ---- memory ---- */

static void the_nth_allocation_fails_once(void **state)
{
    void *p[4];

    (void)state;
    kva_alloc_fail_at(3);
    p[0] = kva_calloc(1, 8);
    p[1] = kva_aligned(8);
    p[2] = kva_realloc(NULL, 1, 8);
    p[3] = kva_calloc(1, 8);
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_null(p[2]);
    assert_non_null(p[3]);
    for (int i = 0; i < 4; i++)
        free(p[i]);
    kva_alloc_fail_at(1);
    kva_alloc_fail_at(0);
    p[0] = kva_calloc(0, 8);
    assert_non_null(p[0]);
    free(p[0]);
}

static void allocation_sizes_do_not_overflow(void **state)
{
    (void)state;
    assert_null(kva_realloc(NULL, SIZE_MAX / 2, 4));
    assert_null(kva_aligned(SIZE_MAX - 3));
}

static void aligned_memory_is_zero_and_on_64_bytes(void **state)
{
    unsigned char *p = kva_aligned(1000);

    (void)state;
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    free(p);
}

static void arena_memory_is_zeroed_also_after_reset(void **state)
{
    struct kva_arena a;
    char *p;

    (void)state;
    kva_arena_init(&a);
    for (int round = 0; round < 3; round++) {
        for (size_t n = 1; n < 5000; n += 37) {
            p = kva_arena_alloc(&a, n, 1);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(p[i], 0);
            memset(p, 0xa5, n);
        }
        assert_true(a.used_bytes >= 4963 * 68);
        kva_arena_reset(&a);
        assert_int_equal(a.used_bytes, 0);
    }
    assert_true(a.peak_bytes >= 4963 * 68 && a.peak_bytes < 5000 * 70);
    assert_string_equal(kva_arena_strdup(&a, "abc"), "abc");
    assert_string_equal(kva_arena_strndup(&a, "abc", 2), "ab");
    assert_string_equal(kva_arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    assert_null(kva_arena_alloc(&a, SIZE_MAX / 2, 4));
    kva_arena_release(&a);
}

static void arena_out_of_memory_is_null(void **state)
{
    struct kva_arena a;

    (void)state;
    kva_arena_init(&a);
    kva_alloc_fail_at(1);
    assert_null(kva_arena_strdup(&a, "abc"));
    assert_non_null(kva_arena_strdup(&a, "abc"));
    kva_arena_release(&a);
}

static void buf_is_a_string_from_the_start(void **state)
{
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    assert_string_equal(b.data, "");
    kva_buf_puts(&b, "ab");
    kva_buf_putc(&b, 'c');
    kva_buf_printf(&b, "%03d", 7);
    kva_buf_add(&b, "\0x", 2);
    assert_int_equal(b.len, 8);
    assert_memory_equal(b.data, "abc007\0x", 9);
    kva_buf_release(&b);
    assert_string_equal(b.data, "");
    kva_buf_release(&b);
}

static void buf_stops_at_its_ceiling_and_stays_failed(void **state)
{
    struct kva_buf b;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&b, 10);
    kva_buf_puts(&b, "0123456789");
    assert_int_equal(kva_buf_status(&b, &err), KVA_OK);
    assert_true(b.cap <= 11);
    kva_buf_putc(&b, 'x');
    assert_true(b.failed);
    assert_string_equal(b.data, "0123456789");
    kva_buf_add(&b, "", 0);
    assert_int_equal(kva_buf_status(&b, &err), KVA_ENOMEM);
    assert_int_equal(err.code, KVA_ENOMEM);
    kva_buf_release(&b);
    kva_buf_printf(&b, "%s", "0123456789x");
    assert_true(b.failed);
    kva_buf_release(&b);
}

static void buf_survives_a_failed_allocation(void **state)
{
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    kva_buf_puts(&b, "kept");
    kva_alloc_fail_at(1);
    kva_buf_printf(&b, "%1000d", 1);
    assert_true(b.failed);
    assert_string_equal(b.data, "kept");
    kva_buf_release(&b);
}

static void map_finds_what_was_put(void **state)
{
    struct kva_map m;
    int64_t v;
    bool fresh;

    (void)state;
    kva_map_init(&m);
    assert_false(kva_map_get(&m, "a", 1, &v));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 20000; i++) {
            char key[16];
            int n = snprintf(key, sizeof key, "%d", i);

            assert_int_equal(kva_map_put(&m, key, (size_t)n, i + round, &fresh, NULL),
                             KVA_OK);
            assert_int_equal(fresh, round == 0);
        }
    assert_int_equal(m.count, 20000);
    assert_true(kva_map_get(&m, "19999", 5, &v));
    assert_int_equal(v, 20000);
    assert_false(kva_map_get(&m, "1999", 5, &v)); /* the NUL belongs to the key here */
    assert_false(kva_map_get(&m, "20000", 5, NULL));
    assert_int_equal(kva_map_put(&m, NULL, 0, -5, NULL, NULL), KVA_OK);
    assert_true(kva_map_get(&m, "", 0, &v));
    assert_int_equal(v, -5);
    kva_map_release(&m);
}

static void map_reports_failed_allocations_and_stays_whole(void **state)
{
    struct kva_map m;
    int64_t v;

    (void)state;
    kva_map_init(&m);
    for (long at = 1; at <= 2; at++) {
        struct kva_error err = {0};

        kva_alloc_fail_at(at);
        assert_int_equal(kva_map_put(&m, "k", 1, 1, NULL, &err), KVA_ENOMEM);
        assert_false(kva_map_get(&m, "k", 1, &v));
        assert_int_equal(m.count, 0);
    }
    kva_alloc_fail_at(0);
    assert_int_equal(kva_map_put(&m, "k", 1, 7, NULL, NULL), KVA_OK);
    assert_true(kva_map_get(&m, "k", 1, &v));
    assert_int_equal(v, 7);
    kva_map_release(&m);
}

/* ---- hashes and random numbers ---- */

static void fnv_and_mix_give_the_vectors_of_the_documents(void **state)
{
    const double u[4] = {0.6365312337875366, -0.44955432415008545, 0.898058295249939,
                         -0.6448071002960205};
    uint64_t h = kva_fnv1a64_str("blk.0.attn_q.weight");

    (void)state;
    assert_true(kva_fnv1a64_str("") == 0xcbf29ce484222325ULL);
    assert_true(kva_fnv1a64_str("a") == 0xaf63dc4c8601ec8cULL);
    assert_true(kva_fnv1a64_more(kva_fnv1a64("blk.0.", 6), "attn_q.weight", 13) == h);
    assert_true(h == 0xb2d88a5454e26c3bULL);
    assert_true(kva_mix64(h) == 0xd179db19133e6a5dULL);
    for (uint64_t i = 0; i < 4; i++)
        assert_true((double)(kva_mix64(h + i) >> 40) / 8388608.0 - 1.0 == u[i]);
    assert_true(kva_fnv1a64_str("retrieval.code") == 0xb39259081b38b99eULL);
    assert_true(kva_fnv1a64_str("retrieval.norm") == 0x8f4b90a9fbcd35edULL);
    assert_true(kva_mix64(kva_fnv1a64_str("retrieval.code") + 256) ==
                0xe5ec55f84aa12516ULL);
    h = kva_fnv1a64_str("retrieval.code");
    assert_true(kva_mix64(h + 32767) == 0x3cefce567a075b93ULL);
}

static void splitmix_gives_the_vectors_of_the_documents(void **state)
{
    const uint64_t below[8] = {7, 1, 2, 3, 0, 8, 2, 8};
    struct kva_rng r = {0};

    (void)state;
    assert_true(kva_rng_next(&r) == 0xE220A8397B1DCDAFULL);
    assert_true(kva_rng_next(&r) == 0x6E789E6AA1B965F4ULL);
    assert_true(kva_rng_next(&r) == 0x06C45D188009454FULL);
    r.x = 42;
    for (int i = 0; i < 8; i++)
        assert_true(kva_rng_below(&r, 10) == below[i]);
    r.x = 0;
    assert_true(kva_rng_unit(&r) ==
                (double)(0xE220A8397B1DCDAFULL >> 11) / 9007199254740992.0);
    for (int i = 0; i < 1000; i++)
        assert_true(kva_rng_below(&r, 1) == 0);
    /* rejection: with n just above 2^63 about half of the draws are refused, none is too
     * large */
    for (int i = 0; i < 1000; i++)
        assert_true(kva_rng_below(&r, (1ULL << 63) + 1) <= 1ULL << 63);
}

static void sha256_is(const void *bytes, size_t n, const char *want)
{
    uint8_t sum[32];
    char hex[65];

    kva_sha256_of(bytes, n, sum);
    kva_hex(sum, 32, hex);
    assert_string_equal(hex, want);
}

static void sha256_gives_the_fips_vectors(void **state)
{
    (void)state;
    sha256_is("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_is("abc", 3,
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_of_a_million_letters_in_odd_pieces(void **state)
{
    struct kva_sha256 h;
    uint8_t sum[32];
    char a[1000], hex[65];
    size_t left = 1000000, piece = 1;

    (void)state;
    memset(a, 'a', sizeof a);
    kva_sha256_init(&h);
    for (; left; piece = piece * 7 % 997) {
        size_t n = piece < left ? piece : left;

        kva_sha256_add(&h, a, n);
        left -= n;
    }
    kva_sha256_end(&h, sum);
    kva_hex(sum, 32, hex);
    assert_string_equal(
        hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha1_is(const void *bytes, size_t n, const char *want)
{
    struct kva_sha1 h;
    uint8_t sum[20];
    char hex[41];

    kva_sha1_init(&h);
    kva_sha1_add(&h, bytes, n / 2);
    kva_sha1_add(&h, (const char *)bytes + n / 2, n - n / 2);
    kva_sha1_end(&h, sum);
    kva_hex(sum, 20, hex);
    assert_string_equal(hex, want);
}

static void sha1_gives_the_fips_vectors_and_ids_of_git(void **state)
{
    static char a[1000000];

    (void)state;
    sha1_is("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_is("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(a, 'a', sizeof a);
    sha1_is(a, sizeof a, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    /* `git hash-object` of an empty file and of "hello world\n" */
    sha1_is("blob 0\0", 7, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    sha1_is("blob 12\0hello world\n", 20, "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
}

/* ---- text ---- */

static void utf8_lengths(void **state)
{
    (void)state;
    assert_int_equal(kva_utf8_len("a", 1), 1);
    assert_int_equal(kva_utf8_len("\xc3\xa9", 2), 2);
    assert_int_equal(kva_utf8_len("\xe2\x82\xac", 3), 3);
    assert_int_equal(kva_utf8_len("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(kva_utf8_len("\xf4\x8f\xbf\xbf", 4), 4);
    assert_int_equal(kva_utf8_len("", 0), 0);
    assert_int_equal(kva_utf8_len("\xc3", 1), 0);             /* cut */
    assert_int_equal(kva_utf8_len("\xc0\xaf", 2), 0);         /* overlong */
    assert_int_equal(kva_utf8_len("\xe0\x80\xaf", 3), 0);     /* overlong */
    assert_int_equal(kva_utf8_len("\xed\xa0\x80", 3), 0);     /* surrogate */
    assert_int_equal(kva_utf8_len("\xf4\x90\x80\x80", 4), 0); /* above U+10FFFF */
    assert_int_equal(kva_utf8_len("\x80", 1), 0);
    assert_int_equal(kva_utf8_columns("a\xc3\xa9\xf0\x9f\x98\x80"), 3);
    assert_int_equal(kva_utf8_columns(NULL), 0);
}

static void cleans(const char *in, const char *want, size_t count)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    assert_int_equal(kva_utf8_clean(in, strlen(in), &b), count);
    assert_string_equal(b.data, want);
    kva_buf_release(&b);
}

#define R "\xef\xbf\xbd"
static void each_maximal_invalid_subsequence_becomes_one_mark(void **state)
{
    (void)state;
    cleans("", "", 0);
    cleans("caf\xc3\xa9", "caf\xc3\xa9", 0);
    cleans("a\xe2\x82", "a" R, 1);
    cleans("a\xe2\x82z", "a" R "z", 1);
    /* the example of Unicode 15, table 3-8 and the ones beside it */
    cleans("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A", 8);
    cleans("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A", 8);
    cleans("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B", 7);
    cleans("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A", 4);
}

static void edit_distances(void **state)
{
    (void)state;
    assert_int_equal(kva_edit_distance("", ""), 0);
    assert_int_equal(kva_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(kva_edit_distance("sitting", "kitten"), 3);
    assert_int_equal(kva_edit_distance("snapkv", "snapk"), 1);
    assert_int_equal(kva_edit_distance("", "123456789"), 9);
    assert_int_equal(kva_edit_distance("", "1234567890"), 10);
    assert_int_equal(kva_edit_distance("abcdefghijkl", "mnopqrstuvwx"), 10);
    assert_int_equal(
        kva_edit_distance("abcdefghijklmnopqrstuvwxyz", "bcdefghijklmnopqrstuvwxyza"), 2);
}

/* The full table, to compare the banded version with. */
static int plain_distance(const char *a, const char *b)
{
    int d[32][32], n = (int)strlen(a), m = (int)strlen(b);

    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            int best;

            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            d[i][j] = best;
        }
    return d[n][m] < 10 ? d[n][m] : 10;
}

static void banded_distance_equals_the_full_table(void **state)
{
    struct kva_rng r = {11};

    (void)state;
    for (int t = 0; t < 20000; t++) {
        char a[24], b[24];
        size_t n = kva_rng_below(&r, 23), m = kva_rng_below(&r, 23);

        for (size_t i = 0; i < n; i++)
            a[i] = (char)('a' + kva_rng_below(&r, 3));
        for (size_t i = 0; i < m; i++)
            b[i] = (char)('a' + kva_rng_below(&r, 3));
        a[n] = b[m] = '\0';
        assert_int_equal(kva_edit_distance(a, b), plain_distance(a, b));
    }
}

static void the_nearest_word_is_found_or_none(void **state)
{
    const char *words[] = {"report", "compare", "run", "repair", NULL};

    (void)state;
    assert_string_equal(kva_nearest("repotr", words), "report");
    assert_string_equal(kva_nearest("runn", words), "run");
    assert_string_equal(kva_nearest("compare", words), "compare");
    assert_null(kva_nearest("x", words));
    assert_null(kva_nearest("zzz", words));
    assert_null(kva_nearest("", words));
}

static void numbers_are_read_whole_or_not_at_all(void **state)
{
    int64_t i = 5;
    double d = 5;

    (void)state;
    assert_true(kva_parse_i64("-42", &i));
    assert_int_equal(i, -42);
    assert_true(kva_parse_i64("9223372036854775807", &i));
    assert_true(i == INT64_MAX);
    assert_false(kva_parse_i64("9223372036854775808", &i));
    assert_false(kva_parse_i64("", &i));
    assert_false(kva_parse_i64("-", &i));
    assert_false(kva_parse_i64(" 1", &i));
    assert_false(kva_parse_i64("1 ", &i));
    assert_false(kva_parse_i64("0x10", &i));
    assert_true(kva_parse_f64("2.5e-1", &d));
    assert_true(d == 0.25);
    assert_true(kva_parse_f64("-3", &d));
    assert_false(kva_parse_f64("1e999", &d));
    assert_false(kva_parse_f64("nan", &d));
    assert_false(kva_parse_f64("inf", &d));
    assert_false(kva_parse_f64("0x1p3", &d));
    assert_false(kva_parse_f64("", &d));
    assert_false(kva_parse_f64("1,5", &d));
    assert_false(kva_parse_f64("1.5.", &d));
    assert_false(kva_parse_f64("e", &d));
    assert_true(d == -3);
}

/* ---- files: in a fresh directory that each test removes ---- */

static char dir[] = "/tmp/kva-test-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* fails, and so does the test, when anything was left behind */
}

static const char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void reads_back(const char *path, const char *want)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    assert_int_equal(kva_read_file(path, 1 << 20, &b, NULL), KVA_OK);
    assert_string_equal(b.data, want);
    kva_buf_release(&b);
}

static void a_file_is_written_replaced_and_read(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(kva_write_file(in_dir("f"), "", 0, NULL), KVA_OK);
    reads_back(in_dir("f"), "");
    assert_int_equal(kva_write_file(in_dir("f"), "one", 3, NULL), KVA_OK);
    reads_back(in_dir("f"), "one");
    assert_int_equal(chmod(in_dir("f"), 0600), 0);
    assert_int_equal(kva_write_file(in_dir("f"), "two", 3, NULL), KVA_OK);
    reads_back(in_dir("f"), "two");
    assert_int_equal(stat(in_dir("f"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(unlink(in_dir("f")), 0);
}

static void the_old_file_survives_a_full_disk_and_a_failed_allocation(void **state)
{
    struct rlimit old, tiny;
    struct kva_error err = {0};
    char *big = calloc(1, 100000);
    enum kva_status rc;

    (void)state;
    assert_int_equal(kva_write_file(in_dir("f"), "old", 3, NULL), KVA_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tiny = old;
    tiny.rlim_cur = 5000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
    rc = kva_write_file(in_dir("f"), big, 100000, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rc, KVA_EIO);
    assert_non_null(strstr(err.text, "/f: File too large"));
    reads_back(in_dir("f"), "old");
    kva_alloc_fail_at(1);
    assert_int_equal(kva_write_file(in_dir("f"), "new", 3, NULL), KVA_ENOMEM);
    kva_alloc_fail_at(0);
    reads_back(in_dir("f"), "old");
    assert_int_equal(unlink(in_dir("f")), 0);
    free(big);
}

static void a_write_over_a_directory_fails_and_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("d"), 0777), 0);
    assert_int_equal(kva_write_file(in_dir("d"), "x", 1, NULL), KVA_EIO);
    assert_int_equal(rmdir(in_dir("d")), 0);
    assert_int_equal(kva_write_file(in_dir("none/f"), "x", 1, NULL), KVA_EIO);
}

static void reading_names_the_file_and_obeys_the_ceiling(void **state)
{
    struct kva_error err = {0};
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    assert_int_equal(kva_read_file(in_dir("none"), 0, &b, &err), KVA_EIO);
    assert_non_null(strstr(err.text, "/none: No such file"));
    assert_int_equal(kva_write_file(in_dir("f"), "0123456789", 10, NULL), KVA_OK);
    assert_int_equal(kva_read_file(in_dir("f"), 10, &b, NULL), KVA_OK);
    kva_buf_release(&b);
    assert_int_equal(kva_read_file(in_dir("f"), 9, &b, NULL), KVA_EFORMAT);
    assert_int_equal(kva_read_file(dir, 9, &b, NULL), KVA_EIO);
    for (long at = 1; at <= 2; at++) {
        kva_buf_release(&b);
        kva_alloc_fail_at(at);
        assert_int_equal(kva_read_file(in_dir("f"), 0, &b, NULL), KVA_ENOMEM);
    }
    kva_alloc_fail_at(0);
    kva_buf_release(&b);
    assert_int_equal(unlink(in_dir("f")), 0);
}

static void directories_are_made_with_their_parents(void **state)
{
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_mkdirs(in_dir("a/b//c/"), NULL), KVA_OK);
    assert_int_equal(kva_mkdirs(in_dir("a/b/c"), NULL), KVA_OK);
    assert_int_equal(kva_write_file(in_dir("a/f"), "x", 1, NULL), KVA_OK);
    assert_int_equal(kva_mkdirs(in_dir("a/f"), &err), KVA_EIO);
    assert_int_equal(kva_mkdirs(in_dir("a/f/g"), NULL), KVA_EIO);
    assert_int_equal(unlink(in_dir("a/f")), 0);
    assert_int_equal(rmdir(in_dir("a/b/c")), 0);
    assert_int_equal(rmdir(in_dir("a/b")), 0);
    assert_int_equal(rmdir(in_dir("a")), 0);
}

static void cache_is(const char *want)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    assert_int_equal(kva_cache_dir(&b, NULL), KVA_OK);
    assert_string_equal(b.data, want);
    kva_buf_release(&b);
}

static void the_cache_directory_follows_the_environment(void **state)
{
    struct kva_buf b;

    (void)state;
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("KVAUDIT_CACHE", "c", 1);
    cache_is("c");
    unsetenv("KVAUDIT_CACHE");
    cache_is("/x/kvaudit");
    setenv("XDG_CACHE_HOME", "relative", 1);
    cache_is("/h/.cache/kvaudit");
    unsetenv("HOME");
    kva_buf_init(&b, 0);
    assert_int_equal(kva_cache_dir(&b, NULL), KVA_EINVALID);
}

/* ---- log ---- */

static char logged[64];

static void to_buffer(enum kva_log_level level, const char *text, void *ctx)
{
    snprintf(logged, sizeof logged, "%s%d:%s", (const char *)ctx, (int)level, text);
}

static void the_log_passes_its_level_and_nothing_above(void **state)
{
    char who[] = "w";

    (void)state;
    kva_log_set(to_buffer, who, KVA_LOG_INFO);
    kva_log(KVA_LOG_INFO, "n = %d", 3);
    assert_string_equal(logged, "w2:n = 3");
    kva_log(KVA_LOG_DEBUG, "no");
    assert_string_equal(logged, "w2:n = 3");
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
}

static void clocks_go_forward(void **state)
{
    uint64_t a = kva_now_ns(), c = kva_cpu_ns();

    (void)state;
    while (kva_cpu_ns() == c)
        continue;
    assert_true(kva_now_ns() > a);
    assert_true(kva_wall_ms() > 1700000000000);
    assert_int_equal(kva_interrupted, 0);
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_wins_and_context_is_prepended),
        cmocka_unit_test(a_null_error_gives_the_same_code),
        cmocka_unit_test(context_without_a_failure_changes_nothing),
        cmocka_unit_test(error_texts_stay_one_line_and_are_cut_at_the_end),
        cmocka_unit_test(every_status_has_name_text_and_exit_code),
        cmocka_unit_test(try_returns_and_go_cleans_up),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(allocation_sizes_do_not_overflow),
        cmocka_unit_test(aligned_memory_is_zero_and_on_64_bytes),
        cmocka_unit_test(arena_memory_is_zeroed_also_after_reset),
        cmocka_unit_test(arena_out_of_memory_is_null),
        cmocka_unit_test(buf_is_a_string_from_the_start),
        cmocka_unit_test(buf_stops_at_its_ceiling_and_stays_failed),
        cmocka_unit_test(buf_survives_a_failed_allocation),
        cmocka_unit_test(map_finds_what_was_put),
        cmocka_unit_test(map_reports_failed_allocations_and_stays_whole),
        cmocka_unit_test(fnv_and_mix_give_the_vectors_of_the_documents),
        cmocka_unit_test(splitmix_gives_the_vectors_of_the_documents),
        cmocka_unit_test(sha256_gives_the_fips_vectors),
        cmocka_unit_test(sha256_of_a_million_letters_in_odd_pieces),
        cmocka_unit_test(sha1_gives_the_fips_vectors_and_ids_of_git),
        cmocka_unit_test(utf8_lengths),
        cmocka_unit_test(each_maximal_invalid_subsequence_becomes_one_mark),
        cmocka_unit_test(edit_distances),
        cmocka_unit_test(banded_distance_equals_the_full_table),
        cmocka_unit_test(the_nearest_word_is_found_or_none),
        cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
        FILE_TEST(a_file_is_written_replaced_and_read),
        FILE_TEST(the_old_file_survives_a_full_disk_and_a_failed_allocation),
        FILE_TEST(a_write_over_a_directory_fails_and_leaves_nothing),
        FILE_TEST(reading_names_the_file_and_obeys_the_ceiling),
        FILE_TEST(directories_are_made_with_their_parents),
        cmocka_unit_test(the_cache_directory_follows_the_environment),
        cmocka_unit_test(the_log_passes_its_level_and_nothing_above),
        cmocka_unit_test(clocks_go_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
