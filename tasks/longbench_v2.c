/* SPDX-License-Identifier: GPL-3.0-or-later */
/* longbench_v2.c - LongBench v2 (arXiv:2412.15204), `longbench/v2[@L]`: 503 questions
 * with four choices on texts of 8k to 2M words.
 *
 * The official zero-shot prompt as one user turn; the context is what stands before and
 * in <text>, the question the rest. Fields lose their outer white space. The data set
 * `longbench_v2` is the published data.json, one list of records, or one a line.
 *
 * Official runs sample at temperature 0.1, here the answer is greedy. Official fields are
 * filled in one after the other, so a document that itself holds "$Q$" would be changed;
 * here no text is searched for marks. For an odd L the official tail is one token longer.
 * kvpress's template of its own and its substring test are not offered. */
#include "tasks/longbench.h"
#include "tasks/records.h"
#include "metrics/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char SET[] = "longbench_v2", FILE_NAME[] = "data.json";
enum { N_RECORDS = 503 };

struct v2 {
    struct kva_records records;
    char template_sha256[65];
};

/* Python's str.strip(). */
static void strip(const char **text, size_t *n)
{
    size_t k, end = 0;

    while (*n > 0 && kva_text_is_space(kva_text_decode(*text, *n, &k))) {
        *text += k;
        *n -= k;
    }
    for (size_t i = 0; i < *n; i += k)
        if (!kva_text_is_space(kva_text_decode(*text + i, *n - i, &k)))
            end = i + k;
    *n = end;
}

static enum kva_status field(const struct kva_record *rec, const char *key,
                             struct kva_arena *arena, const char **text, size_t *n,
                             struct kva_error *err)
{
    KVA_TRY(kva_record_text(rec, key, true, arena, text, n, err));
    strip(text, n);
    return KVA_OK;
}

/* Appends the tail with the question and the choices in place. */
static enum kva_status add_question(const struct kva_record *rec, struct kva_arena *arena,
                                    struct kva_buf *prompt, struct kva_error *err)
{
    static const char *const mark[] = {"$Q$", "$C_A$", "$C_B$", "$C_C$", "$C_D$"};
    static const char *const key[] = {"question", "choice_A", "choice_B", "choice_C",
                                      "choice_D"};
    const char *from = kva_longbench_v2_tail, *text;
    size_t n;

    for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++) {
        const char *at = strstr(from, mark[i]);

        KVA_TRY(field(rec, key[i], arena, &text, &n, err));
        if (memchr(text, '\0', n))
            return kva_record_fail(rec, err, "\"%s\" holds a NUL", key[i]);
        kva_buf_add(prompt, from, (size_t)(at - from));
        kva_buf_add(prompt, text, n);
        from = at + strlen(mark[i]);
    }
    kva_buf_puts(prompt, from);
    return kva_buf_status(prompt, err);
}

static enum kva_status get_answer(const struct kva_record *rec, struct kva_arena *arena,
                                  struct kva_item *item, struct kva_error *err)
{
    const char **answers = kva_arena_alloc(arena, 1, sizeof *answers), *gold;

    if (!answers)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    KVA_TRY(kva_record_text(rec, "answer", true, arena, &answers[0], NULL, err));
    if (strlen(answers[0]) != 1 || !strchr("ABCD", answers[0][0]))
        return kva_record_fail(rec, err, "\"answer\" is not A, B, C or D");
    item->answers = answers;
    item->n_answers = 1;
    gold = kva_arena_printf(arena, "The correct answer is (%s)", answers[0]);
    item->gold = gold ? kva_task_gold(arena, "", &gold, 1, "") : NULL;
    return item->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

static enum kva_status v2_item(const struct kva_task *task, int idx,
                               const struct kva_tok_api *tok, struct kva_arena *arena,
                               struct kva_item *item, struct kva_error *err)
{
    static const char *const labels[] = {"_id",        "domain", "sub_domain",
                                         "difficulty", "length", NULL};
    const struct v2 *s = task->state;
    struct kva_record rec;
    struct kva_buf prompt;
    const char *text;
    size_t n, n_context;
    enum kva_status rc;

    kva_buf_init(&prompt, 0);
    KVA_GO(kva_record_read(&s->records, (size_t)idx, &rec, err));
    KVA_GO(field(&rec, "context", arena, &text, &n, err));
    kva_buf_puts(&prompt, kva_longbench_v2_head);
    kva_buf_add(&prompt, text, n);
    n_context = prompt.len;
    KVA_GO(add_question(&rec, arena, &prompt, err));
    item->feed.suffix = "";
    item->answer_prefix = "";
    item->question =
        kva_arena_strndup(arena, prompt.data + n_context, prompt.len - n_context);
    if (!item->question) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
        goto out;
    }
    KVA_GO(kva_longbench_finish(task, tok, &prompt, n_context, arena, item, err));
    KVA_GO(get_answer(&rec, arena, item, err));
    KVA_GO(kva_record_labels(&rec, labels, NULL, arena, &item->labels, err));
out:
    kva_record_release(&rec);
    kva_buf_release(&prompt);
    return rc;
}

static enum kva_status v2_open(struct kva_task *task, const struct kva_task_request *req,
                               struct kva_error *err)
{
    static const char *const no_params[] = {NULL};
    struct kva_sha256 sha;
    uint8_t digest[32];
    struct v2 *s;

    if (req->n_params > 0)
        return kva_task_bad_param(req, req->param[0].key, no_params, err);
    if (strcmp(task->info.profile, "official") != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": LongBench v2 has the profile official only, not %s",
                        req->text, task->info.profile);
    s = kva_calloc(1, sizeof *s);
    task->name = kva_calloc(strlen(req->desc->name) + 1, 1);
    if (!s || !task->name) {
        free(s);
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    }
    memcpy(task->name, req->desc->name, strlen(req->desc->name));
    s->records.fd = -1;
    task->state = s;
    kva_sha256_init(&sha);
    kva_sha256_add(&sha, kva_longbench_v2_head, strlen(kva_longbench_v2_head) + 1);
    kva_sha256_add(&sha, kva_longbench_v2_tail, strlen(kva_longbench_v2_tail) + 1);
    kva_sha256_end(&sha, digest);
    kva_hex(digest, sizeof digest, s->template_sha256);
    KVA_TRY(kva_records_open(&s->records, req->opts, SET, FILE_NAME, err));
    task->info.domain = "four choices";
    task->info.binary = true;
    task->info.guess_floor = 0.25;
    task->info.n_available = (int64_t)s->records.n;
    return KVA_OK;
}

static void v2_close(void *state)
{
    struct v2 *s = state;

    kva_records_release(&s->records);
    free(s);
}

static int v2_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct v2 *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "max_length", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    bad |= kva_records_describe(&s->records, FILE_NAME, source);
    bad |=
        json_object_set_new(source, "complete", json_boolean(s->records.n == N_RECORDS));
    return bad;
}

const struct kva_family kva_family_longbench_v2 = {v2_open, v2_close, v2_item,
                                                   v2_describe};
