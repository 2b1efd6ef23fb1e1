/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry_models.c - the models known by name: configs/models.json, carried inside the
 * program (assembler's .incbin), and where their files lie. */
#include "runner/commands.h"
#include "runner/plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__asm__(".section .rodata\n"
        "kva_models_json:\n"
        ".incbin \"configs/models.json\"\n"
        "kva_models_json_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const char kva_models_json[], kva_models_json_end[];

static struct {
    bool read;
    struct kva_model_entry *entries;
    size_t n;
    json_t *root; /* the strings live here */
    struct kva_arena arena;
} known;

static const char *text_of(json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* "kind": "pypi" comes in packages, "url" and "hf" as manifests describe a file. */
static enum kva_status read_item(struct kva_model_entry *e, json_t *o,
                                 struct kva_error *err)
{
    static const char *const keys[] = {"url",    "hf",    "rev",     "path",
                                       "sha256", "bytes", "licence", NULL};
    json_t *item = json_object();
    enum kva_status rc;

    for (int i = 0; keys[i]; i++)
        if (json_object_get(o, keys[i]))
            json_object_set(item, keys[i], json_object_get(o, keys[i]));
    rc = kva_fetch_entry(item, false, &known.arena, &e->item, NULL, err);
    json_decref(item);
    kva_context(err, "models.json: %s", e->name ? e->name : "?");
    return rc;
}

static enum kva_status read_entry(json_t *o, struct kva_model_entry *e,
                                  struct kva_error *err)
{
    json_t *parts = json_object_get(o, "parts");
    bool pypi = text_of(o, "kind") && strcmp(text_of(o, "kind"), "pypi") == 0;
    size_t n = !pypi ? 0 : parts ? json_array_size(parts) : 1;
    struct kva_model_part *p = kva_calloc(n + 1, sizeof p[0]);

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    e->name = text_of(o, "name");
    e->kind = text_of(o, "kind");
    e->file = text_of(o, "file");
    e->sha256 = text_of(o, "sha256");
    e->licence = text_of(o, "licence");
    e->chat = text_of(o, "chat");
    e->note = text_of(o, "note");
    e->bytes = json_integer_value(json_object_get(o, "bytes"));
    e->parts = p;
    e->n_parts = (int)n;
    for (size_t i = 0; i < n; i++) {
        json_t *from = parts ? json_array_get(parts, i) : o;

        p[i].package = text_of(from, "package");
        p[i].version = text_of(from, "version");
        p[i].member = text_of(from, "member");
        if (!p[i].package || !p[i].version || !p[i].member)
            return KVA_FAIL(err, KVA_EFORMAT,
                            "models.json: %s: package, version or member missing",
                            e->name ? e->name : "?");
    }
    if (!e->name || !e->kind || !e->file || !e->sha256 || strlen(e->sha256) != 64 ||
        e->bytes < 1)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "models.json: %s: name, kind, file, bytes or sha256 missing",
                        e->name ? e->name : "?");
    return pypi ? KVA_OK : read_item(e, o, err);
}

static void forget(void)
{
    for (size_t i = 0; known.entries && i <= known.n; i++)
        free(known.entries[i].parts);
    free(known.entries);
    json_decref(known.root);
    kva_arena_release(&known.arena);
    known.entries = NULL;
    known.root = NULL;
    known.n = 0;
}

static enum kva_status read_manifest(struct kva_error *err)
{
    json_t *list;
    json_error_t je;

    kva_arena_init(&known.arena);
    known.root =
        json_loadb(kva_models_json, (size_t)(kva_models_json_end - kva_models_json),
                   JSON_REJECT_DUPLICATES, &je);
    if (!known.root)
        return KVA_FAIL(err, KVA_EFORMAT, "models.json:%d:%d: %s", je.line, je.column,
                        je.text);
    list = json_object_get(known.root, "models");
    known.entries = kva_calloc(json_array_size(list) + 1, sizeof known.entries[0]);
    if (!known.entries)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (; known.n < json_array_size(list); known.n++)
        KVA_TRY(read_entry(json_array_get(list, known.n), &known.entries[known.n], err));
    return KVA_OK;
}

enum kva_status kva_models_known(const struct kva_model_entry **entries, size_t *n,
                                 struct kva_error *err)
{
    if (!known.read) {
        enum kva_status rc = read_manifest(err);

        if (rc != KVA_OK) {
            forget();
            return rc;
        }
        known.read = true;
    }
    *entries = known.entries;
    *n = known.n;
    return KVA_OK;
}

enum kva_status kva_models_path(const struct kva_model_entry *e, struct kva_buf *out,
                                struct kva_error *err)
{
    KVA_TRY(kva_cache_dir(out, err));
    kva_buf_printf(out, "/models/%s", e->file);
    return kva_buf_status(out, err);
}

static enum kva_status unknown(const char *id, const struct kva_model_entry *e, size_t n,
                               struct kva_error *err)
{
    const char *names[64], *near;
    size_t k = 0;

    for (; k < n && k < 60; k++)
        names[k] = e[k].name;
    names[k++] = "builtin:retrieval";
    names[k++] = "builtin:tiny-llama";
    names[k] = NULL;
    near = kva_nearest(id, names);
    if (near)
        return KVA_FAIL(err, KVA_EINVALID, "unknown model '%s'; did you mean '%s'?", id,
                        near);
    return KVA_FAIL(
        err, KVA_EINVALID,
        "unknown model '%s'; see 'kvaudit list models', or give the path of a GGUF file",
        id);
}

static bool is_path(const char *id)
{
    size_t n = strlen(id);

    return strchr(id, '/') || (n > 5 && strcmp(id + n - 5, ".gguf") == 0);
}

enum kva_status kva_models_resolve(const char *id, const char *dir, char **path,
                                   char **chat, struct kva_arena *arena,
                                   struct kva_error *err)
{
    const struct kva_model_entry *e;
    size_t n;
    char *at;

    *path = NULL;
    KVA_TRY(kva_models_known(&e, &n, err));
    if (strncmp(id, "builtin:", 8) == 0) {
        if (strcmp(id, "builtin:retrieval") != 0 && strcmp(id, "builtin:tiny-llama") != 0)
            return unknown(id, e, n, err);
        *path = kva_arena_strdup(arena, id);
        return *path ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        struct kva_buf file;
        enum kva_status rc;

        if (strcmp(e[i].name, id) != 0)
            continue;
        kva_buf_init(&file, 0);
        rc = kva_models_path(&e[i], &file, err);
        at = rc == KVA_OK ? kva_arena_strdup(arena, file.data) : NULL;
        kva_buf_release(&file);
        KVA_TRY(rc);
        if (!at)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        if (chat && e[i].chat)
            *chat = kva_arena_strdup(arena, e[i].chat);
        if (access(at, R_OK) != 0)
            return KVA_FAIL(err, KVA_EIO,
                            "model %s is not at %s; 'kvaudit fetch %s' brings it", id, at,
                            id);
        *path = at;
        return KVA_OK;
    }
    if (!is_path(id))
        return unknown(id, e, n, err);
    at = id[0] == '/' || !dir || !dir[0] ? kva_arena_strdup(arena, id)
                                         : kva_arena_printf(arena, "%s/%s", dir, id);
    if (!at)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    if (access(at, R_OK) != 0)
        return KVA_FAIL(err, KVA_EIO, "model file %s is missing or not readable", at);
    *path = at;
    return KVA_OK;
}
