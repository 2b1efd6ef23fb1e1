/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_manifest.c - what to fetch, from a JSON file or a word of the command line. Paths
 * come from outside: none may leave the directory it is put into. */
#include "runner/commands.h"
#include "runner/fetch.h"
#include "runner/jsonpos.h"

#include <string.h>
#include <strings.h>

/* ---- checks ---- */

/* A relative path that stays below where it starts. */
static bool is_inside(const char *path)
{
    const char *p = path;

    if (strlen(path) > 1024)
        return false;
    for (;;) {
        size_t n = strcspn(p, "/");

        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)p[i] < ' ' || p[i] == 127)
                return false;
        if (!p[n])
            return true;
        p += n + 1;
    }
}

static bool is_repo(const char *repo)
{
    static const char name[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    const char *p = strncmp(repo, "datasets/", 9) == 0 ? repo + 9 : repo;
    size_t n = strspn(p, name);

    return is_inside(repo) && n > 0 && p[n] == '/' && p[n + 1] && !strstr(p, "--") &&
           p[n + 1 + strspn(p + n + 1, name)] == '\0';
}

static bool is_sha256(const char *s)
{
    return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static bool is_url(const char *s)
{
    size_t n = strlen(s);

    if (n > 4000 ||
        (strncasecmp(s, "https://", 8) != 0 && strncasecmp(s, "http://", 7) != 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || s[i] == 127)
            return false;
    return strchr(s, ':')[3] != '\0';
}

/* The last piece of an address without its parameters; "download" when there is none. */
static char *base_name(const char *url, struct kva_arena *arena)
{
    const char *p = strstr(url, "://"), *last;
    size_t n;

    p = p ? p + 3 : url;
    n = strcspn(p, "?#");
    last = p;
    for (size_t i = 0; i < n; i++)
        if (p[i] == '/')
            last = p + i + 1;
    n -= (size_t)(last - p);
    if (n == 0 || last == p || *last == '.')
        return kva_arena_strdup(arena, "download");
    return kva_arena_strndup(arena, last, n);
}

static enum kva_status finish(struct kva_fetch_item *it, struct kva_arena *arena,
                              struct kva_error *err)
{
    struct kva_buf name;
    enum kva_status rc;

    kva_buf_init(&name, 1 << 16);
    if (it->url) {
        kva_secret_hide(it->url, &name);
    } else {
        if (!it->rev)
            it->rev = "main";
        kva_buf_printf(&name, "hf:%s@%s/%s", it->repo, it->rev, it->path);
    }
    rc = kva_buf_status(&name, err);
    it->name = rc == KVA_OK ? kva_arena_strdup(arena, name.data) : NULL;
    kva_buf_release(&name);
    if (rc == KVA_OK && !it->name)
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    return rc;
}

/* ---- words ---- */

bool kva_fetch_is_address(const char *word)
{
    return strncmp(word, "hf:", 3) == 0 || strstr(word, "://");
}

/* A revision such as refs/pr/1 is written with %2F, else its end could not be told. */
static char *plain_slashes(char *rev)
{
    char *out = rev;

    for (const char *p = rev; *p; out++) {
        bool slash = strncasecmp(p, "%2F", 3) == 0;

        *out = slash ? '/' : *p;
        p += slash ? 3 : 1;
    }
    *out = '\0';
    return rev;
}

static enum kva_status hub_word(const char *word, struct kva_arena *arena,
                                struct kva_fetch_item *it, struct kva_error *err)
{
    const char *p = word + 3, *end;
    char *repo, *at;

    end = strncmp(p, "datasets/", 9) == 0 ? p + 9 : p;
    for (int slashes = 0; *end; end++)
        if (*end == '/' && ++slashes == 2)
            break;
    repo = kva_arena_strndup(arena, p, (size_t)(end - p));
    it->path = kva_arena_strdup(arena, *end ? end + 1 : "");
    if (!repo || !it->path)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    at = strchr(repo, '@');
    if (at) {
        *at = '\0';
        it->rev = plain_slashes(at + 1);
    }
    it->repo = repo;
    if (!is_repo(repo) || !is_inside(it->path) || (it->rev && !is_inside(it->rev)))
        return KVA_FAIL(err, KVA_EINVALID,
                        "'%s' is not hf:ORG/REPO[@REVISION]/PATH (data sets: "
                        "hf:datasets/ORG/REPO/PATH)",
                        word);
    it->dest = strrchr(it->path, '/') ? strrchr(it->path, '/') + 1 : it->path;
    return finish(it, arena, err);
}

enum kva_status kva_fetch_word(const char *word, struct kva_arena *arena,
                               struct kva_fetch_item *it, struct kva_error *err)
{
    memset(it, 0, sizeof *it);
    it->bytes = -1;
    if (strncmp(word, "hf:", 3) == 0)
        return hub_word(word, arena, it, err);
    if (!is_url(word))
        return KVA_FAIL(err, KVA_EINVALID, "'%s' is not an https address", word);
    it->url = kva_arena_strdup(arena, word);
    it->dest = base_name(word, arena);
    if (!it->url || !it->dest)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    return finish(it, arena, err);
}

/* ---- manifest ---- */

static const char *const KEYS[] = {"url",   "hf",      "rev",  "path", "sha256",
                                   "bytes", "licence", "dest", NULL};

static enum kva_status read_text(const json_t *o, const char *key,
                                 struct kva_arena *arena, const char **out,
                                 const char **where, struct kva_error *err)
{
    const json_t *v = json_object_get(o, key);
    const char *s = json_string_value(v);

    if (!v)
        return KVA_OK;
    *where = key;
    if (!s || !*s || strlen(s) != json_string_length(v))
        return KVA_FAIL(err, KVA_EINVALID, "%s must be a text", key);
    *out = kva_arena_strdup(arena, s);
    return *out ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "out of memory");
}

static enum kva_status check_entry(struct kva_fetch_item *it, bool unpinned,
                                   const char **key, struct kva_error *err)
{
    *key = NULL;
    if (!it->url == !it->repo)
        return KVA_FAIL(err, KVA_EINVALID, "one of url and hf is wanted");
    *key = it->url ? "rev" : "path";
    if (it->url && (it->rev || it->path))
        return KVA_FAIL(err, KVA_EINVALID, "rev and path go with hf");
    if (it->repo && !it->path)
        return KVA_FAIL(err, KVA_EINVALID, "hf wants a path");
    *key = it->url ? "url" : "hf";
    if (it->url && !is_url(it->url))
        return KVA_FAIL(err, KVA_EINVALID, "not an https address");
    if (it->repo && !is_repo(it->repo))
        return KVA_FAIL(err, KVA_EINVALID, "not ORG/REPO");
    *key = "path";
    if (it->path && !is_inside(it->path))
        return KVA_FAIL(err, KVA_EINVALID, "not a relative path inside the repository");
    *key = "rev";
    if (it->rev && !is_inside(it->rev))
        return KVA_FAIL(err, KVA_EINVALID, "not a revision");
    *key = "dest";
    if (it->dest && !is_inside(it->dest))
        return KVA_FAIL(err, KVA_EINVALID,
                        "not a relative path that stays below where it starts");
    *key = "sha256";
    if (it->sha256 && !is_sha256(it->sha256))
        return KVA_FAIL(err, KVA_EINVALID, "sha256 must be 64 lower-case hex digits");
    if (!it->sha256 && !unpinned) {
        *key = NULL;
        return KVA_FAIL(err, KVA_EINVALID,
                        "no sha256: nothing would tell a changed file "
                        "(--allow-unpinned takes it as it comes)");
    }
    return KVA_OK;
}

enum kva_status kva_fetch_entry(const json_t *o, bool unpinned, struct kva_arena *arena,
                                struct kva_fetch_item *it, const char **key,
                                struct kva_error *err)
{
    const char *none, **where = key ? key : &none, *name;
    const json_t *v;

    memset(it, 0, sizeof *it);
    it->bytes = -1;
    *where = NULL;
    if (!json_is_object(o))
        return KVA_FAIL(err, KVA_EINVALID, "must be an object");
    json_object_foreach((json_t *)(uintptr_t)o, name, v)
    {
        const char *near = kva_nearest(name, KEYS);
        bool known = false;

        for (int i = 0; KEYS[i]; i++)
            known = known || strcmp(KEYS[i], name) == 0;
        *where = name;
        if (!known)
            return KVA_FAIL(err, KVA_EINVALID, "unknown key '%.60s'%s%s%s", name,
                            near ? "; did you mean '" : "", near ? near : "",
                            near ? "'?" : "");
    }
    KVA_TRY(read_text(o, "url", arena, &it->url, where, err));
    KVA_TRY(read_text(o, "hf", arena, &it->repo, where, err));
    KVA_TRY(read_text(o, "rev", arena, &it->rev, where, err));
    KVA_TRY(read_text(o, "path", arena, &it->path, where, err));
    KVA_TRY(read_text(o, "sha256", arena, &it->sha256, where, err));
    KVA_TRY(read_text(o, "licence", arena, &it->licence, where, err));
    KVA_TRY(read_text(o, "dest", arena, &it->dest, where, err));
    v = json_object_get(o, "bytes");
    if (v) {
        *where = "bytes";
        it->bytes = json_integer_value(v);
        if (!json_is_integer(v) || it->bytes < 0)
            return KVA_FAIL(err, KVA_EINVALID, "bytes must be a whole number, 0 or more");
    }
    KVA_TRY(check_entry(it, unpinned, where, err));
    *where = NULL;
    return finish(it, arena, err);
}

struct reading {
    const char *name;
    struct kva_jsonpos pos;
    struct kva_buf *report;
    int bad;
};

static void complain(struct reading *r, const char *pointer, const char *message)
{
    struct kva_jsonpos_at at = kva_jsonpos_find(&r->pos, pointer);

    kva_buf_printf(r->report, "%s:%d:%d: %s: %s\n", r->name, at.line, at.col,
                   pointer[0] ? pointer : "/", message);
    r->bad++;
}

static enum kva_status read_files(struct reading *r, const json_t *list, bool unpinned,
                                  struct kva_arena *arena, struct kva_fetch_item *items,
                                  struct kva_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct kva_error one = {0};
        const char *key;
        char pointer[160];
        enum kva_status rc = kva_fetch_entry(json_array_get(list, i), unpinned, arena,
                                             &items[i], &key, &one);

        if (rc == KVA_EINVALID) {
            snprintf(pointer, sizeof pointer, "/files/%zu%s%.60s", i, key ? "/" : "",
                     key ? key : "");
            complain(r, pointer, one.text);
        } else if (rc != KVA_OK) {
            return KVA_FAIL(err, rc, "%s", one.text);
        }
    }
    return KVA_OK;
}

static void read_root(struct reading *r, const json_t *root)
{
    static const char *const keys[] = {"schema", "files", "note", NULL};
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *name;
    const json_t *v;

    if (!schema || strcmp(schema, "kvaudit.files/1") != 0)
        complain(r, schema ? "/schema" : "",
                 "\"schema\": \"kvaudit.files/1\" is expected");
    json_object_foreach((json_t *)(uintptr_t)root, name, v)
    {
        bool known = false;
        char text[160];

        for (int i = 0; keys[i]; i++)
            known = known || strcmp(keys[i], name) == 0;
        snprintf(text, sizeof text, "unknown key '%.60s'", name);
        if (!known)
            complain(r, "", text);
    }
    for (size_t i = 0; i < r->pos.n_dups; i++) {
        char text[160];

        snprintf(text, sizeof text, "%.100s is there twice", r->pos.dups[i].pointer);
        complain(r, r->pos.dups[i].pointer, text);
    }
    if (!json_is_array(json_object_get(root, "files")))
        complain(r, "", "\"files\", a list, is expected");
}

enum kva_status kva_fetch_manifest(const char *text, size_t n, const char *name,
                                   bool unpinned, struct kva_arena *arena,
                                   struct kva_fetch_item **items, int *n_items,
                                   struct kva_buf *report, struct kva_error *err)
{
    struct reading r = {.name = name, .report = report};
    json_error_t je;
    json_t *root = json_loadb(text, n, 0, &je), *list;
    enum kva_status rc = KVA_OK;

    *items = NULL;
    *n_items = 0;
    if (!root) {
        kva_buf_printf(report, "%s:%d:%d: %s\n", name, je.line, je.column, je.text);
        return KVA_FAIL(err, KVA_EINVALID, "%s is not JSON", name);
    }
    KVA_GO(kva_jsonpos_scan(text, n, &r.pos, err));
    if (json_is_object(root))
        read_root(&r, root);
    else
        complain(&r, "", "an object is expected");
    list = json_object_get(root, "files");
    *items = kva_arena_alloc(arena, json_array_size(list) + 1, sizeof **items);
    if (!*items)
        KVA_GO(KVA_FAIL(err, KVA_ENOMEM, "out of memory"));
    KVA_GO(read_files(&r, list, unpinned, arena, *items, err));
    *n_items = (int)json_array_size(list);
    if (r.bad)
        rc = KVA_FAIL(err, KVA_EINVALID, "%s: %d error%s", name, r.bad,
                      r.bad == 1 ? "" : "s");
out:
    kva_jsonpos_release(&r.pos);
    json_decref(root);
    return rc;
}
