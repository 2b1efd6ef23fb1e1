/* SPDX-License-Identifier: GPL-3.0-or-later */
/* digest.c - identity of methods, tasks and cells: SHA-256 of canonical JSON
 * (reports.md 3.2, rulings R24, R25).
 *
 * Whatever can change a generated token is in the cell's digest: model bytes, method with
 * the versions of its parts, task with tokenizer and template, budget, schedule,
 * numerics, sampling, seed, the engine's semantics. Metrics, the numbers of samples and
 * of draws, and the machine are not. */
#include "runner/digest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Canonical text into the arena and its SHA-256; consumes `o`. */
static enum kva_status seal(json_t *o, struct kva_arena *arena, char **text,
                            uint8_t digest[32], struct kva_error *err)
{
    char *dump = o ? json_dumps(o, JSON_COMPACT) : NULL;
    struct kva_buf canon;
    enum kva_status rc;

    json_decref(o);
    if (!dump)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    kva_buf_init(&canon, 0);
    KVA_GO(kva_json_canonical(dump, &canon, err));
    KVA_GO(kva_buf_status(&canon, err));
    kva_sha256_of(canon.data, canon.len, digest);
    if (text) {
        *text = kva_arena_strndup(arena, canon.data, canon.len);
        if (!*text)
            rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    }
out:
    free(dump);
    kva_buf_release(&canon);
    return rc;
}

static json_t *hex(const uint8_t digest[32])
{
    char text[65];

    kva_hex(digest, 32, text);
    return json_string(text);
}

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *params_json(const struct kva_param *table, const struct kva_params *p)
{
    json_t *o = json_object();

    for (int i = 0; table && table[i].name; i++) {
        double v = p->value[i];

        if (table[i].type == KVA_PARAM_CHOICE)
            json_object_set_new(o, table[i].name, json_string(table[i].choices[(int)v]));
        else if (table[i].type == KVA_PARAM_INT)
            json_object_set_new(o, table[i].name, json_integer((json_int_t)v));
        else
            json_object_set_new(o, table[i].name, json_real(v));
    }
    return o;
}

enum kva_status kva_digest_method(const struct kva_method *m, struct kva_arena *arena,
                                  char **params, uint8_t digest[32],
                                  struct kva_error *err)
{
    json_t *o = json_object(), *p = json_object();
    uint8_t unused[32];
    enum kva_status rc;

    json_object_set_new(o, "method", json_string(m->spec));
    if (m->scorer) {
        json_object_set_new(o, "scorer_version", json_integer(m->scorer->version));
        json_object_set_new(o, "allocator_version", json_integer(m->allocator->version));
        json_object_set_new(p, m->scorer->name,
                            params_json(m->scorer->params, &m->scorer_params));
        json_object_set_new(p, m->allocator->name,
                            params_json(m->allocator->params, &m->allocator_params));
    }
    rc = seal(p, arena, params, unused, err);
    if (rc != KVA_OK) {
        json_decref(o);
        return rc;
    }
    return seal(o, arena, NULL, digest, err);
}

enum kva_status kva_digest_task(const struct kva_task *task, const struct kva_model *m,
                                struct kva_arena *arena, char **gen_json,
                                uint8_t digest[32], struct kva_error *err)
{
    const struct kva_task_info *info = kva_task_info(task);
    const char *gen = kva_task_gen_json(task, arena);
    json_t *o = gen ? json_loads(gen, 0, NULL) : NULL, *whole;
    uint8_t tok[32];
    enum kva_status rc;

    if (!o)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s/%s: no generator description",
                        info->suite, info->name);
    kva_tokenizer_sha256(kva_model_tokenizer(m), tok);
    json_object_set_new(o, "tokenizer", hex(tok));
    json_object_set_new(o, "chat", json_string(kva_model_chat(m)->family));
    json_object_set_new(o, "max_new_tokens", json_integer(info->max_new_tokens));
    rc = seal(json_incref(o), arena, gen_json, digest, err);
    if (rc != KVA_OK) {
        json_decref(o);
        return rc;
    }
    whole = json_object();
    json_object_set_new(whole, "suite", json_string(info->suite));
    /* own samples are their bytes, however their path is spelled */
    if (strcmp(info->suite, "jsonl") != 0)
        json_object_set_new(whole, "name", json_string(info->name));
    json_object_set_new(whole, "generator", o);
    return seal(whole, arena, NULL, digest, err);
}

static json_t *budget_json(const struct kva_budget *b)
{
    static const char *const kinds[] = {"dense", "keep_bp", "tokens", "bytes"};
    json_t *o = json_object();

    json_object_set_new(o, "kind", json_string(kinds[b->kind]));
    if (b->kind != KVA_BUDGET_DENSE)
        json_object_set_new(o, "value", json_integer(b->value));
    return o;
}

/* Keys of ruling R25; what this version does not have yet is null, so that a later value
 * is another cell. */
enum kva_status kva_digest_cell(struct kva_cell *c, const uint8_t model[32],
                                const uint8_t task[32], const char *chat,
                                struct kva_arena *arena, struct kva_error *err)
{
    static const char *const loose[] = {"budget",   "budget_ref", "enforce", "method",
                                        "schedule", "visibility", NULL};
    json_t *o = json_object();
    char schedule[48], sampling[KVA_SAMPLING_TEXT];
    enum kva_status rc;

    kva_schedule_text(&c->schedule, schedule);
    kva_sampling_text(&c->sampling, sampling);
    json_object_set_new(o, "budget", budget_json(&c->budget));
    json_object_set_new(o, "budget_ref", json_null());
    json_object_set_new(o, "chat", text_or_null(chat));
    json_object_set_new(o, "date", json_null());
    json_object_set_new(o, "enforce", json_string(kva_enforce_name(c->enforce)));
    json_object_set_new(o, "harmony_final", json_null());
    json_object_set_new(o, "kv", json_string(c->kv == KVA_F32 ? "f32" : "f16"));
    json_object_set_new(o, "literal", json_null());
    json_object_set_new(o, "method", hex(c->method_digest));
    json_object_set_new(o, "model", hex(model));
    json_object_set_new(o, "numerics", json_string(c->numerics));
    json_object_set_new(o, "sampling", json_string(sampling));
    json_object_set_new(o, "schedule", json_string(schedule));
    json_object_set_new(o, "seed", json_integer((json_int_t)c->seed));
    json_object_set_new(o, "semantics", json_integer(KVA_SEMANTICS));
    json_object_set_new(o, "task", hex(task));
    json_object_set_new(o, "thinking", json_null());
    json_object_set_new(o, "visibility", json_string(kva_visibility_name(c->visibility)));
    rc = seal(json_incref(o), arena, &c->spec_json, c->digest, err);
    if (rc != KVA_OK) {
        json_decref(o);
        return rc;
    }
    for (int i = 0; loose[i]; i++)
        json_object_del(o, loose[i]);
    return seal(o, arena, NULL, c->dense_key, err);
}
