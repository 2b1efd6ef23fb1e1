/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_manifest_corpus.c - manifests of files and response headers: a stored corpus and
 * seeded edits.
 *
 * Whatever is accepted stays inside the directories it is put into and has its hash;
 * every refusal says where and why. Headers of any bytes end in a state that is in range.
 */
#include "tests/fuzz/fuzz.h"

#include "runner/fetch.h"

static const char *const words[] = {
    "url",     "hf",       "rev", "path",     "sha256", "bytes", "dest",
    "licence", "https://", "../", "/",        "..",     "@",     "datasets/",
    "\\u0000", "\\u002f",  "%2F", "org/repo", "{",      "null",  NULL};

/* No component that leads upwards or nowhere. */
static void stays_inside(const char *path)
{
    assert_true(path[0] != '/' && path[0] != '\0');
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");

        if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
            fail_msg("accepted: %s", path);
        p += n;
        if (*p && !*++p)
            fail_msg("accepted: %s", path);
    }
}

static bool try_manifest(const void *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct kva_fetch_item *items;
    struct kva_arena a;
    struct kva_buf report;
    struct kva_error err = {0};
    enum kva_status rc;
    int count;

    assert_non_null(text);
    memcpy(text, bytes, n);
    kva_arena_init(&a);
    kva_buf_init(&report, 0);
    rc = kva_fetch_manifest(text, n, "m", false, &a, &items, &count, &report, &err);
    if (rc == KVA_OK) {
        assert_true(report.len == 0);
        for (int i = 0; i < count; i++) {
            const struct kva_fetch_item *it = &items[i];

            assert_true(!it->url != !it->repo);
            assert_int_equal(strlen(it->sha256), 64);
            assert_true(it->bytes >= -1);
            if (it->dest)
                stays_inside(it->dest);
            if (it->repo) {
                stays_inside(it->repo);
                stays_inside(it->path);
                stays_inside(it->rev);
            }
        }
    } else {
        assert_int_equal(rc, KVA_EINVALID);
        fuzz_refusal("manifest", rc, &err);
        assert_true(report.len > 0);
    }
    kva_buf_release(&report);
    kva_arena_release(&a);
    free(text);
    return rc == KVA_OK;
}

static void every_stored_manifest_is_accepted_or_refused_as_its_name_says(void **state)
{
    struct fuzz_corpus c;

    (void)state;
    fuzz_load(&c, "tests/fuzz/manifest");
    for (int i = 0; i < c.n; i++)
        if (try_manifest(c.file[i].bytes.data, c.file[i].bytes.len) != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
    assert_false(try_manifest("", 0));
    fuzz_free(&c);
}

static void edited_manifests_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20261129};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/manifest");
    for (; fuzz_goes_on(tries, 40000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        size_t n = f->bytes.len;

        memcpy(b, f->bytes.data, n);
        accepted += try_manifest(b, fuzz_edit(&r, b, n, words));
    }
    print_message("%ld manifests, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

static void edited_headers_and_texts_are_handled(void **state)
{
    static const char *const terms[] = {"HTTP/1.1 206 Partial Content\r\n",
                                        "Content-Range: bytes 0-9/10\r\n",
                                        "ETag: \"a\"\r\n",
                                        "X-Repo-Commit: abc\r\n",
                                        "X-Linked-Etag: W/\"b\"\r\n",
                                        "Location: https://a/b?token=c\r\n",
                                        "Content-Length: 7\r\n",
                                        "\r\n",
                                        "hf_ABCDEFGHIJ",
                                        "://a:b@c?sig=d",
                                        NULL};
    struct kva_rng r = {7};
    uint64_t begin = kva_now_ns();
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    for (long tries = 0; fuzz_goes_on(tries, 40000, begin); tries++) {
        struct kva_http_head h;
        struct kva_buf hidden;
        size_t n = 1;
        char *text;

        b[0] = '\n';
        for (int i = 0; i < 6; i++) {
            const char *t = terms[kva_rng_below(&r, 10)];

            n = fuzz_splice(b, n, n, 0, t, strlen(t));
        }
        n = fuzz_edit(&r, b, n, terms);
        kva_http_head_init(&h);
        for (size_t at = 0; at < n;) {
            const uint8_t *stop = memchr(b + at, '\n', n - at);
            size_t len = stop ? (size_t)(stop - b) - at + 1 : n - at;
            char *line = malloc(len + 1);

            memcpy(line, b + at, len);
            kva_http_header(&h, line, len);
            free(line);
            at += len;
        }
        assert_true(h.status == 0 || (h.status >= 100 && h.status <= 999));
        assert_true(h.length >= -1 && h.total >= -1 && h.first >= -1 &&
                    h.last >= h.first);
        text = malloc(n + 1);
        memcpy(text, b, n);
        text[n] = '\0';
        kva_buf_init(&hidden, 0);
        kva_secret_hide(text, &hidden);
        if (hidden.data && strstr(hidden.data, "?token=c"))
            fail_msg("%s", hidden.data);
        kva_buf_release(&hidden);
        free(text);
    }
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_manifest_is_accepted_or_refused_as_its_name_says),
        cmocka_unit_test(edited_manifests_are_handled),
        cmocka_unit_test(edited_headers_and_texts_are_handled),
    };

    unsetenv("HF_TOKEN");
    setenv("HF_TOKEN_PATH", "/nowhere", 1);
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
