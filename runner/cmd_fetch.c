/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_fetch.c - `kvaudit fetch WHAT...`: models by name, addresses, hub files and
 * manifests of them, checked before they count. */
#include "runner/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int offline, list, unpinned, http, stall, max_wait;
    const char *dest, *sha256, *progress;
} opt = {.stall = 30, .max_wait = 60};

const struct kva_opt *kva_cmd_fetch_options(void)
{
    static const struct kva_opt table[] = {
        {"dest", 0, KVA_OPT_STR, &opt.dest, "DIR",
         "put files there too (models by name: only there)", 0, 0},
        {"sha256", 0, KVA_OPT_STR, &opt.sha256, "HEX",
         "what the one file given by address must hash to", 0, 0},
        {"offline", 0, KVA_OPT_FLAG, &opt.offline, NULL,
         "open no connection: check what is here, name what is missing", 0, 0},
        {"allow-unpinned", 0, KVA_OPT_FLAG, &opt.unpinned, NULL,
         "take files without a SHA-256 as they come", 0, 0},
        {"allow-http", 0, KVA_OPT_FLAG, &opt.http, NULL,
         "take files over http from other machines too", 0, 0},
        {"list", 0, KVA_OPT_FLAG, &opt.list, NULL, "what is known and what is here", 0,
         0},
        {"progress", 0, KVA_OPT_STR, &opt.progress, "MODE", "auto, bar, plain or none", 0,
         0},
        {"stall", 0, KVA_OPT_INT, &opt.stall, "SECONDS",
         "break off and resume a transfer below 1 KiB/s for so long (default 30)", 1,
         3600},
        {"max-wait", 0, KVA_OPT_INT, &opt.max_wait, "SECONDS",
         "longest pause between two tries that no server asked for (default 60)", 0,
         3600},
        {0},
    };

    return table;
}

/* ---- what to fetch ---- */

struct want {
    const struct kva_model_entry *model; /* NULL: the item */
    struct kva_fetch_item item;
    const char *base; /* what item.dest stands on; NULL: the cache alone */
};
struct wants {
    const struct kva_model_entry *known;
    size_t n_known;
    struct want *v;
    int n;
    struct kva_arena arena;
};

static const struct kva_model_entry *find(const struct wants *w, const char *name)
{
    for (size_t i = 0; i < w->n_known; i++)
        if (strcmp(w->known[i].name, name) == 0)
            return &w->known[i];
    return NULL;
}

static enum kva_status unknown(const struct wants *w, const char *name,
                               struct kva_error *err)
{
    const char *names[64], *near;
    size_t k = 0;

    for (; k < w->n_known && k < 63; k++)
        names[k] = w->known[k].name;
    names[k] = NULL;
    near = kva_nearest(name, names);
    if (near)
        return KVA_FAIL(err, KVA_EINVALID, "unknown model '%s'; did you mean '%s'?", name,
                        near);
    return KVA_FAIL(err, KVA_EINVALID,
                    "unknown model '%s'; 'kvaudit fetch' lists what is known", name);
}

static struct want *add(struct wants *w, struct kva_error *err)
{
    struct want *grown = kva_realloc(w->v, (size_t)w->n + 1, sizeof w->v[0]);

    if (!grown) {
        KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        return NULL;
    }
    w->v = grown;
    memset(&w->v[w->n], 0, sizeof w->v[0]);
    return &w->v[w->n++];
}

static enum kva_status add_manifest(struct wants *w, const char *path,
                                    struct kva_error *err)
{
    struct kva_buf text, report;
    struct kva_fetch_item *items;
    const char *slash = strrchr(path, '/');
    char *dir = slash ? kva_arena_strndup(&w->arena, path, (size_t)(slash - path) + 1)
                      : kva_arena_strdup(&w->arena, "./");
    enum kva_status rc;
    int n;

    kva_buf_init(&text, 0);
    kva_buf_init(&report, 0);
    if (!dir)
        KVA_GO(KVA_FAIL(err, KVA_ENOMEM, "out of memory"));
    KVA_GO(kva_read_file(path, 16 << 20, &text, err));
    KVA_GO(kva_fetch_manifest(text.data ? text.data : "", text.len, path,
                              opt.unpinned != 0, &w->arena, &items, &n, &report, err));
    for (int i = 0; i < n; i++) {
        struct want *one = add(w, err);

        if (!one) {
            rc = KVA_ENOMEM;
            goto out;
        }
        one->item = items[i];
        one->base = opt.dest ? opt.dest : items[i].dest ? dir : NULL;
    }
out:
    if (report.len > 0)
        fputs(report.data, stderr);
    kva_buf_release(&text);
    kva_buf_release(&report);
    return rc;
}

static enum kva_status add_address(struct wants *w, const char *word,
                                   struct kva_error *err)
{
    struct want *one = add(w, err);
    char *sha = NULL;

    if (!one)
        return KVA_ENOMEM;
    KVA_TRY(kva_fetch_word(word, &w->arena, &one->item, err));
    one->base = opt.dest;
    if (opt.sha256) {
        sha = kva_arena_strdup(&w->arena, opt.sha256);
        if (!sha)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        for (char *p = sha; *p; p++)
            *p = *p >= 'A' && *p <= 'F' ? (char)(*p + 32) : *p;
        if (strlen(sha) != 64 || !kva_hash_name(sha))
            return KVA_FAIL(err, KVA_EINVALID, "--sha256 wants 64 hex digits");
    } else if (!opt.unpinned) {
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s: give --sha256, or --allow-unpinned to take it as it comes",
                        one->item.name);
    }
    one->item.sha256 = sha;
    return KVA_OK;
}

static enum kva_status add_word(struct wants *w, const char *word, struct kva_error *err)
{
    size_t n = strlen(word);
    const struct kva_model_entry *m = find(w, word);
    struct want *one;

    if (kva_fetch_is_address(word))
        return add_address(w, word, err);
    if (!m && ((n > 5 && strcmp(word + n - 5, ".json") == 0) || strchr(word, '/')))
        return add_manifest(w, word, err);
    if (!m)
        return unknown(w, word, err);
    one = add(w, err);
    if (!one)
        return KVA_ENOMEM;
    one->model = m;
    return KVA_OK;
}

/* The place below want.base; NULL: the cache's name for it. */
static const char *place_of(const struct kva_fetch_item *it)
{
    return it->dest ? it->dest : it->path;
}

/* Two different files for one place: the second would silently replace the first. */
static enum kva_status check_places(const struct wants *w, struct kva_error *err)
{
    struct kva_map seen;
    struct kva_buf at;
    enum kva_status rc = KVA_OK;

    kva_map_init(&seen);
    kva_buf_init(&at, 1 << 16);
    for (int i = 0; i < w->n; i++) {
        const struct want *one = &w->v[i];
        const struct kva_fetch_item *it = &one->item, *other;
        int64_t k = i;

        if (one->model || !one->base || !place_of(it))
            continue;
        at.len = 0;
        kva_buf_printf(&at, "%s/%s", one->base, place_of(it));
        KVA_GO(kva_buf_status(&at, err));
        if (!kva_map_get(&seen, at.data, at.len, &k))
            KVA_GO(kva_map_put(&seen, at.data, at.len, i, NULL, err));
        other = &w->v[k].item;
        if (k != i &&
            (!it->sha256 || !other->sha256 || strcmp(it->sha256, other->sha256) != 0)) {
            rc = KVA_FAIL(err, KVA_EINVALID, "%s and %s would both be %s", other->name,
                          it->name, at.data);
            goto out;
        }
    }
out:
    kva_map_release(&seen);
    kva_buf_release(&at);
    return rc;
}

/* ---- output ---- */

static enum kva_status emit(const char *key, json_t *list, struct kva_error *err)
{
    json_t *o = json_pack("{s:s, s:O}", "schema", "kvaudit.fetch/1", key, list);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    enum kva_status rc;

    json_decref(o);
    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    rc = kva_command_out(text, strlen(text), err);
    if (rc == KVA_OK)
        rc = kva_command_out("\n", 1, err);
    free(text);
    return rc;
}

static enum kva_status model_path(const struct kva_model_entry *e, struct kva_buf *out,
                                  struct kva_error *err)
{
    if (!opt.dest)
        return kva_models_path(e, out, err);
    kva_buf_printf(out, "%s/%s", opt.dest, e->file);
    return kva_buf_status(out, err);
}

static enum kva_status list(const struct kva_model_entry *e, size_t n,
                            struct kva_error *err)
{
    json_t *items = json_array();
    enum kva_status rc = KVA_OK;

    for (size_t i = 0; i < n && rc == KVA_OK; i++) {
        struct kva_buf path;
        bool here;

        kva_buf_init(&path, 1 << 16);
        rc = model_path(&e[i], &path, err);
        here = rc == KVA_OK && access(path.data, R_OK) == 0;
        json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:I}", "name", e[i].name,
                                               "status", here ? "present" : "missing",
                                               "path", path.data ? path.data : "",
                                               "bytes", (json_int_t)e[i].bytes));
        if (!kva_common.json)
            printf("%-16s %-8s %7.1f MB  %s\n", e[i].name, here ? "present" : "missing",
                   (double)e[i].bytes / 1e6,
                   e[i].licence ? e[i].licence : "licence unknown");
        kva_buf_release(&path);
    }
    if (rc == KVA_OK && kva_common.json)
        rc = emit("models", items, err);
    json_decref(items);
    return rc;
}

/* ---- fetching ---- */

static enum kva_status fetch_item(const struct want *w, const struct kva_fetch_opts *o,
                                  struct kva_buf *path, const char **status,
                                  struct kva_error *err)
{
    const struct kva_fetch_item *it = &w->item;
    struct kva_buf cached;
    const char *dest = place_of(it);
    enum kva_status rc;

    kva_buf_init(&cached, 1 << 16);
    KVA_GO(kva_fetch_file(it, o, &cached, status, err));
    if (!w->base) {
        kva_buf_puts(path, cached.data);
        goto out;
    }
    if (!dest) { /* an address of a manifest that names no place */
        dest = strrchr(cached.data, '/') + 1;
    }
    kva_buf_printf(path, "%s%s%s", w->base,
                   w->base[strlen(w->base) - 1] == '/' ? "" : "/", dest);
    KVA_GO(kva_buf_status(path, err));
    rc = kva_fetch_place(cached.data, path->data, err);
out:
    kva_buf_release(&cached);
    return rc;
}

/* Every one is tried; the exit code is the first failure's. */
static int fetch_all(const struct wants *w, const struct kva_fetch_opts *o)
{
    json_t *done = json_array();
    struct kva_error err = {0};
    int code = 0;

    for (int i = 0; i < w->n && !kva_interrupted; i++) {
        const struct want *one = &w->v[i];
        const char *name = one->model ? one->model->name : one->item.name;
        const char *status = "failed";
        struct kva_error bad = {0};
        struct kva_buf path;
        enum kva_status rc;

        kva_buf_init(&path, 1 << 16);
        if (one->model) {
            rc = model_path(one->model, &path, &bad);
            if (rc == KVA_OK)
                rc = kva_fetch_model(one->model, path.data, o, &status, &bad);
        } else {
            rc = fetch_item(one, o, &path, &status, &bad);
        }
        if (rc != KVA_OK) {
            int failed = kva_command_fail(&bad);

            code = code ? code : failed;
        } else if (!kva_common.json) {
            printf("%s %s %s\n", name, status, path.data);
        }
        json_array_append_new(done, json_pack("{s:s, s:s, s:s}", "name", name, "status",
                                              rc == KVA_OK ? status : "failed", "path",
                                              path.data ? path.data : ""));
        kva_buf_release(&path);
    }
    if (kva_common.json && emit("files", done, &err) != KVA_OK && !code)
        code = kva_command_fail(&err);
    json_decref(done);
    return code;
}

static int fetch(struct wants *w, int argc, char **argv)
{
    struct kva_fetch_opts o = {.offline = opt.offline || kva_fetch_offline(),
                               .allow_http = opt.http != 0,
                               .stall_s = opt.stall,
                               .max_wait_s = opt.max_wait,
                               .progress = opt.progress ? opt.progress : "auto"};
    struct kva_error err = {0};

    for (int i = 0; i < argc; i++)
        if (add_word(w, argv[i], &err) != KVA_OK)
            return kva_command_fail(&err);
    if (check_places(w, &err) != KVA_OK)
        return kva_command_fail(&err);
    kva_command_signals();
    return fetch_all(w, &o);
}

int kva_cmd_fetch(int argc, char **argv)
{
    struct wants w = {0};
    struct kva_error err = {0};
    int code;

    if (opt.progress && !kva_fetch_progress_known(opt.progress))
        return kva_command_usage("fetch", "--progress is auto, bar, plain or none");
    if (opt.sha256 && (argc != 1 || !kva_fetch_is_address(argv[0])))
        return kva_command_usage("fetch", "--sha256 goes with one address");
    if (opt.dest && !opt.dest[0])
        return kva_command_usage("fetch", "--dest wants a directory");
    if (kva_models_known(&w.known, &w.n_known, &err) != KVA_OK)
        return kva_command_fail(&err);
    if (argc == 0 || opt.list)
        return list(w.known, w.n_known, &err) == KVA_OK ? 0 : kva_command_fail(&err);
    kva_arena_init(&w.arena);
    code = fetch(&w, argc, argv);
    kva_arena_release(&w.arena);
    free(w.v);
    return code;
}
