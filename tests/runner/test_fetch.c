/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_fetch.c - response headers, pauses, addresses, manifests, secrets. What a transfer
 * does with a server is tests/cli/fetch_http.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHA "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

static void feed(struct kva_http_head *h, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n") + 1;

        kva_http_header(h, text, n);
        text += n;
    }
}

static void ranges_are_read_or_absent(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t first, last, total;
    } c[] = {
        {"bytes 0-9/10", true, 0, 9, 10},
        {"bytes 500-999/8000", true, 500, 999, 8000},
        {"Bytes 5-5/6", true, 5, 5, 6},
        {"bytes 0-9/*", true, 0, 9, -1},
        {"bytes */47", true, -1, -1, 47},
        {"bytes */*", false, -1, -1, -1},
        {"bytes 9-0/10", false, -1, -1, -1},
        {"bytes 0-10/10", false, -1, -1, -1},
        {"bytes -5/10", false, -1, -1, -1},
        {"bytes 0-9/10x", false, -1, -1, -1},
        {"bytes 0-9", false, -1, -1, -1},
        {"items 0-9/10", false, -1, -1, -1},
        {"bytes 0-99999999999999999999/1", false, -1, -1, -1},
        {"", false, -1, -1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        int64_t first, last, total;

        if (kva_http_range(c[i].text, &first, &last, &total) != c[i].ok ||
            first != c[i].first || last != c[i].last || total != c[i].total)
            fail_msg("'%s': %lld-%lld/%lld", c[i].text, (long long)first, (long long)last,
                     (long long)total);
    }
}

static void only_strong_tags_resume(void **state)
{
    (void)state;
    assert_true(kva_http_strong("\"abc\""));
    assert_false(kva_http_strong("W/\"abc\""));
    assert_false(kva_http_strong("\"\""));
    assert_false(kva_http_strong("abc"));
    assert_false(kva_http_strong("\"a\"b\""));
    assert_false(kva_http_strong("\"a\r\nX: y\""));
    assert_false(kva_http_strong(""));
}

static void a_status_line_starts_over_but_the_hub_is_remembered(void **state)
{
    struct kva_http_head h;

    (void)state;
    kva_http_head_init(&h);
    feed(&h,
         "HTTP/2 302\r\nX-Repo-Commit: 0123456789abcdef0123456789abcdef01234567\r\n"
         "ETag: \"redirect\"\r\nx-linked-etag: \"" SHA "\"\r\nX-Linked-Size: 98362432\r\n"
         "Location: https://cdn/x\r\ncontent-length: 7\r\n\r\n");
    assert_int_equal(h.status, 302);
    assert_string_equal(h.location, "https://cdn/x");
    assert_string_equal(h.hub_etag, SHA);
    assert_true(h.hub_size == 98362432);
    feed(&h, "HTTP/1.1 206 Partial Content\r\nETag: \"store\"\r\nContent-Length: 10\r\n"
             "Content-Range: bytes 10-19/20\r\n\r\n");
    assert_int_equal(h.status, 206);
    assert_string_equal(h.etag, "\"store\"");
    assert_string_equal(h.location, "");
    assert_true(h.first == 10 && h.last == 19 && h.total == 20 && h.length == 10);
    assert_string_equal(h.hub_etag, SHA);
    assert_string_equal(h.hub_commit, "0123456789abcdef0123456789abcdef01234567");
}

static void a_small_hub_file_is_named_by_its_own_tag(void **state)
{
    struct kva_http_head h;

    (void)state;
    kva_http_head_init(&h);
    feed(&h, "HTTP/1.1 200 OK\r\nETag: W/\"3b18e512dba79e4c8300dd08aeb37f8e728b8dad\"\r\n"
             "X-Repo-Commit: main\r\nContent-Length: 12\r\n\r\n");
    assert_string_equal(h.hub_etag, "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
    assert_true(h.hub_size == 12);
}

static void malformed_headers_are_absent(void **state)
{
    struct kva_http_head h;
    char longer[600];

    (void)state;
    kva_http_head_init(&h);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    feed(&h, "HTTP/1.1 twenty\r\nContent-Length: -5\r\nContent-Range: x\r\nno colon\r\n");
    assert_int_equal(h.status, 0);
    assert_true(h.length == -1 && h.first == -1);
    kva_http_header(&h, "ETag: \"a\0b\"", 11);
    assert_string_equal(h.etag, "");
    {
        char line[700];

        snprintf(line, sizeof line, "ETag: \"%s\"\n", longer);
        feed(&h, line);
    }
    assert_string_equal(h.etag, "");
}

static void pauses_double_and_the_server_may_ask_for_more(void **state)
{
    (void)state;
    assert_true(kva_http_wait(0, 60, 0.5, 0) == 1.0);
    assert_true(kva_http_wait(3, 60, 0.5, 0) == 8.0);
    assert_true(kva_http_wait(5, 60, 0.0, 0) == 16.0);
    assert_true(kva_http_wait(6, 60, 0.5, 0) == 60.0);
    assert_true(kva_http_wait(500, 60, 0.5, 0) == 60.0);
    assert_true(kva_http_wait(2, 0, 0.5, 0) == 0.0);
    assert_true(kva_http_wait(0, 60, 0.5, 20) == 20.0);
    assert_true(kva_http_wait(0, 60, 0.5, 100000) == 300.0);
    assert_true(kva_http_wait(6, 60, 0.5, 20) == 60.0);
}

static void words_become_items_or_reasons(void **state)
{
    static const struct {
        const char *word, *repo, *rev, *path, *dest;
    } c[] = {
        {"hf:org/repo/a.gguf", "org/repo", "main", "a.gguf", "a.gguf"},
        {"hf:org/repo@v1/sub/a.gguf", "org/repo", "v1", "sub/a.gguf", "a.gguf"},
        {"hf:org/repo@refs%2Fpr%2f3/a", "org/repo", "refs/pr/3", "a", "a"},
        {"hf:datasets/org/repo/a", "datasets/org/repo", "main", "a", "a"},
        {"https://x.y/a/b.bin?download=1#z", NULL, NULL, NULL, "b.bin"},
        {"https://x.y", NULL, NULL, NULL, "download"},
        {"https://x.y/", NULL, NULL, NULL, "download"},
        {"https://x.y/a/..", NULL, NULL, NULL, "download"},
    };
    static const char *const bad[] = {"hf:",
                                      "hf:org",
                                      "hf:org/repo",
                                      "hf:org/repo/",
                                      "hf:org/repo/../x",
                                      "hf:org/repo@/x",
                                      "hf:org/repo@../x",
                                      "hf:../repo/x",
                                      "hf:org/re po/x",
                                      "hf:org/a--b/x",
                                      "hf:/org/x/y",
                                      "hf:org/repo/a//b",
                                      "hf:datasets/org/repo",
                                      "ftp://x/y",
                                      "file:///x",
                                      "https://",
                                      "https://x y",
                                      "://"};

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct kva_fetch_item it;
        struct kva_arena a;

        kva_arena_init(&a);
        assert_int_equal(kva_fetch_word(c[i].word, &a, &it, NULL), KVA_OK);
        assert_string_equal(it.dest, c[i].dest);
        if (c[i].repo) {
            assert_string_equal(it.repo, c[i].repo);
            assert_string_equal(it.rev, c[i].rev);
            assert_string_equal(it.path, c[i].path);
        } else {
            assert_string_equal(it.url, c[i].word);
        }
        kva_arena_release(&a);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kva_fetch_item it;
        struct kva_error err = {0};
        struct kva_arena a;

        kva_arena_init(&a);
        if (kva_fetch_word(bad[i], &a, &it, &err) != KVA_EINVALID || !err.text[0])
            fail_msg("%s", bad[i]);
        kva_arena_release(&a);
    }
}

static void manifest_is(const char *files, bool unpinned, const char *complaint)
{
    struct kva_fetch_item *items;
    struct kva_arena a;
    struct kva_buf text, report;
    struct kva_error err = {0};
    int n;

    kva_arena_init(&a);
    kva_buf_init(&text, 0);
    kva_buf_init(&report, 0);
    kva_buf_printf(&text, "{\"schema\": \"kvaudit.files/1\",\n \"files\": %s}", files);
    if (kva_fetch_manifest(text.data, text.len, "m", unpinned, &a, &items, &n, &report,
                           &err) == KVA_OK) {
        if (complaint)
            fail_msg("accepted: %s", files);
    } else if (!complaint) {
        fail_msg("refused: %s: %s", files, report.data ? report.data : err.text);
    } else if (!report.data || strcmp(report.data, complaint) != 0) {
        fail_msg("%s: '%s', not '%s'", files, report.data ? report.data : "", complaint);
    }
    kva_arena_release(&a);
    kva_buf_release(&text);
    kva_buf_release(&report);
}

static void manifests_are_taken_or_refused_with_the_place(void **state)
{
    (void)state;
    manifest_is("[]", false, NULL);
    manifest_is("[{\"url\": \"https://a/b\", \"sha256\": \"" SHA "\", \"bytes\": 7, "
                "\"licence\": \"CC0\", \"dest\": \"x/y\"}]",
                false, NULL);
    manifest_is("[{\"hf\": \"org/repo\", \"rev\": \"v1\", \"path\": \"a/b\", \"sha256\": "
                "\"" SHA "\"}]",
                false, NULL);
    manifest_is("[{\"url\": \"https://a/b\"}]", true, NULL);
    manifest_is("[{\"url\": \"https://a/b\"}]", false,
                "m:2:12: /files/0: no sha256: nothing would tell a changed file "
                "(--allow-unpinned takes it as it comes)\n");
    manifest_is("[{\"sha256\": \"" SHA "\"}]", false,
                "m:2:12: /files/0: one of url and hf is wanted\n");
    manifest_is("[{\"url\": \"https://a/b\", \"hf\": \"o/r\"}]", true,
                "m:2:12: /files/0: one of url and hf is wanted\n");
    manifest_is("[{\"url\": \"https://a/b\", \"rev\": \"x\"}]", true,
                "m:2:42: /files/0/rev: rev and path go with hf\n");
    manifest_is("[{\"hf\": \"org\", \"path\": \"x\"}]", true,
                "m:2:19: /files/0/hf: not ORG/REPO\n");
    manifest_is("[{\"url\": \"https://a/b\", \"dest\": \"/etc/x\"}]", true,
                "m:2:43: /files/0/dest: not a relative path that stays below where it "
                "starts\n");
    manifest_is("[{\"url\": \"https://a/b\", \"bytes\": 1.5}]", true,
                "m:2:44: /files/0/bytes: bytes must be a whole number, 0 or more\n");
    manifest_is("[{\"url\": \"https://a/b\", \"sha256\": \"ABC\"}]", true,
                "m:2:45: /files/0/sha256: sha256 must be 64 lower-case hex digits\n");
    manifest_is("3", true, "m:1:1: /: \"files\", a list, is expected\n");
}

static void hidden_is(const char *text, const char *want)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    kva_secret_hide(text, &b);
    assert_string_equal(b.data ? b.data : "", want);
    kva_buf_release(&b);
}

static void secrets_are_hidden_and_nothing_else(void **state)
{
    (void)state;
    hidden_is("", "");
    hidden_is("the token abc-own-token-123 is set", "the token hf_*** is set");
    hidden_is("Bearer hf_ABCDEFGHIJKLMNOP.", "Bearer hf_***.");
    hidden_is("hf_short and xhf_ABCDEFGHIJKLMNOP", "hf_short and xhf_ABCDEFGHIJKLMNOP");
    hidden_is("https://me:word@host/p@q", "https://***@host/p@q");
    hidden_is("https://host/p?a=1&token=T0&b=2", "https://host/p?a=1&token=***&b=2");
    hidden_is("https://h/p?sig=S&X-Amz-Signature=Z#f",
              "https://h/p?sig=***&X-Amz-Signature=***#f");
    hidden_is("{\"url\":\"https://h/p?TOKEN=x\",\"n\":1}",
              "{\"url\":\"https://h/p?TOKEN=***\",\"n\":1}");
    hidden_is("method=snapkv:window=32+critical&n=3 ?x=1",
              "method=snapkv:window=32+critical&n=3 ?x=1");
    hidden_is("mail me@host, a://b", "mail me@host, a://b");
}

static void hashes_are_remembered_until_the_file_changes(void **state)
{
    char dir[] = "/tmp/kva-fetch-XXXXXX", file[64], cmd[64];
    struct kva_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("KVAUDIT_CACHE", dir, 1), 0);
    snprintf(file, sizeof file, "%s/f", dir);
    assert_int_equal(kva_write_file(file, "hello world\n", 12, NULL), KVA_OK);
    assert_int_equal(kva_fetch_verify(file, 12, NULL,
                                      "3b18e512dba79e4c8300dd08aeb37f8e728b8dad", &err),
                     KVA_OK);
    assert_int_equal(
        kva_fetch_verify(
            file, -1, "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447",
            NULL, &err),
        KVA_OK);
    assert_int_equal(kva_fetch_verify(file, 13, NULL, NULL, NULL), KVA_EFORMAT);
    assert_int_equal(kva_fetch_verify(file, 12, SHA, NULL, NULL), KVA_EFORMAT);
    /* a remembered hash is believed while inode, size and time are the same */
    kva_fetch_remember(file, SHA, "");
    assert_int_equal(kva_fetch_verify(file, 12, SHA, NULL, NULL), KVA_OK);
    assert_int_equal(kva_write_file(file, "hello world\n", 12, NULL), KVA_OK);
    assert_int_equal(kva_fetch_verify(file, 12, SHA, NULL, NULL), KVA_EFORMAT);
    assert_int_equal(kva_fetch_verify(dir, -1, NULL, NULL, NULL), KVA_EFORMAT);
    unlink(file);
    assert_int_equal(kva_fetch_verify(file, -1, NULL, NULL, NULL), KVA_EIO);
    snprintf(cmd, sizeof cmd, "%s/verified", dir);
    rmdir(cmd);
}

static void hub_places_follow_the_documented_order(void **state)
{
    struct kva_buf b;
    char commit[41];

    (void)state;
    kva_buf_init(&b, 0);
    setenv("HOME", "/h", 1);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(kva_hub_root(&b, NULL), KVA_OK);
    assert_string_equal(b.data, "/h/.cache/huggingface/hub");
    b.len = 0;
    setenv("XDG_CACHE_HOME", "/x", 1);
    assert_int_equal(kva_hub_root(&b, NULL), KVA_OK);
    assert_string_equal(b.data, "/x/huggingface/hub");
    b.len = 0;
    setenv("HF_HOME", "/f", 1);
    assert_int_equal(kva_hub_root(&b, NULL), KVA_OK);
    assert_string_equal(b.data, "/f/hub");
    b.len = 0;
    setenv("HF_HUB_CACHE", "/c", 1);
    assert_int_equal(kva_hub_root(&b, NULL), KVA_OK);
    assert_string_equal(b.data, "/c");
    b.len = 0;
    assert_int_equal(kva_hub_folder("org/repo", &b, NULL), KVA_OK);
    assert_string_equal(b.data, "models--org--repo");
    b.len = 0;
    assert_int_equal(kva_hub_folder("datasets/org/repo", &b, NULL), KVA_OK);
    assert_string_equal(b.data, "datasets--org--repo");
    assert_true(kva_hub_commit("/c", "0123456789abcdef0123456789abcdef01234567", commit));
    assert_false(kva_hub_commit("/nowhere", "main", commit));
    kva_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_read_or_absent),
        cmocka_unit_test(only_strong_tags_resume),
        cmocka_unit_test(a_status_line_starts_over_but_the_hub_is_remembered),
        cmocka_unit_test(a_small_hub_file_is_named_by_its_own_tag),
        cmocka_unit_test(malformed_headers_are_absent),
        cmocka_unit_test(pauses_double_and_the_server_may_ask_for_more),
        cmocka_unit_test(words_become_items_or_reasons),
        cmocka_unit_test(manifests_are_taken_or_refused_with_the_place),
        cmocka_unit_test(secrets_are_hidden_and_nothing_else),
        cmocka_unit_test(hashes_are_remembered_until_the_file_changes),
        cmocka_unit_test(hub_places_follow_the_documented_order),
    };

    setenv("HF_TOKEN", "abc-own-token-123", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
