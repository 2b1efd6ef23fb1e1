/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sample.c - `report --sample`: the prompt regenerated and checked, every answer, what
 * stayed.
 *
 * Prompts are not stored. The suite of the run that holds the sample is planned again,
 * the item is made again, and its digest must equal the stored one: what is shown is what
 * was fed. */
#include "runner/sample.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/commands.h"
#include "runner/exec.h"
#include "runner/plan.h"

#define STRIP 72 /* columns of the kept strip */

static void label_of(const struct kva_data *d, const struct kva_data_sample *s, char *out,
                     size_t n)
{
    const struct kva_data_task *t = &d->tasks[s->task];

    if (t->ctx > 0)
        snprintf(out, n, "%s/%s@%d#%d", t->suite, t->name, t->ctx, s->idx);
    else
        snprintf(out, n, "%s/%s#%d", t->suite, t->name, s->idx);
}

static enum kva_status find_sample(const char *id, const struct kva_data *d, int *found,
                                   struct kva_error *err)
{
    int n = 0;

    for (int i = 0; i < d->n_samples; i++) {
        char label[512], hex[65];

        label_of(d, &d->samples[i], label, sizeof label);
        kva_hex(d->samples[i].digest, 32, hex);
        if (strcmp(label, id) == 0 ||
            (strlen(id) >= 8 && strncmp(hex, id, strlen(id)) == 0)) {
            *found = i;
            n++;
        }
    }
    if (n == 1)
        return KVA_OK;
    if (n > 1)
        return KVA_FAIL(err, KVA_EINVALID, "%d samples match %s; give the digest", n, id);
    if (d->n_samples > 0) {
        char label[512];

        label_of(d, &d->samples[0], label, sizeof label);
        return KVA_FAIL(err, KVA_EINVALID,
                        "no sample %s; write TASK#INDEX, such as %s, or its digest", id,
                        label);
    }
    return KVA_FAIL(err, KVA_EMISSING, "the database holds no samples");
}

/* ---- the prompt, made again ---- */

static bool unit_of(const struct kva_plan *p, const struct kva_data_task *task, int idx,
                    int *unit, int *question)
{
    for (int u = 0; u < p->n_units; u++) {
        const struct kva_unit *un = &p->units[u];

        if (memcmp(p->tasks[un->task].digest, task->digest, 32) != 0)
            continue;
        for (int q = 0; q < un->n_idx; q++)
            if (un->idx[q] == idx) {
                *unit = u;
                *question = q;
                return true;
            }
    }
    return false;
}

/* Where relative paths of the run's suite started. */
static void suite_dir(const struct kva_data_run *run, char *out, size_t n)
{
    static const char key[] = "--suite-dir=";
    json_t *argv = json_loads(run->argv_json != NULL ? run->argv_json : "[]", 0, NULL),
           *arg;
    size_t i;

    snprintf(out, n, ".");
    json_array_foreach(argv, i, arg)
    {
        if (json_is_string(arg) &&
            strncmp(json_string_value(arg), key, sizeof key - 1) == 0)
            snprintf(out, n, "%s", json_string_value(arg) + sizeof key - 1);
    }
    json_decref(argv);
}

static enum kva_status remake(const struct kva_data *d, const struct kva_data_sample *s,
                              struct kva_arena *arena, struct kva_item *item,
                              struct kva_sample_row *row, bool *made,
                              struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    *made = false;
    for (int r = d->n_runs - 1; r >= 0 && !*made && rc == KVA_OK; r--) {
        struct kva_suite_opts none = {0};
        struct kva_suite suite = {0};
        struct kva_plan plan = {0};
        struct kva_buf report;
        struct kva_error why = {0};
        int unit = 0, question = 0;
        char dir[PATH_MAX];

        kva_buf_init(&report, 0);
        suite_dir(&d->runs[r], dir, sizeof dir);
        if (kva_suite_parse(d->runs[r].config_json, "stored suite", dir, &none, &suite,
                            &report, &why) == KVA_OK &&
            kva_plan_new(&suite, NULL, 1, &plan, &why) == KVA_OK &&
            unit_of(&plan, &d->tasks[s->task], s->idx, &unit, &question)) {
            rc = kva_exec_sample(&plan, unit, question, arena, item, row, err);
            *made = rc == KVA_OK;
        } else if (why.code != KVA_OK) {
            kva_log(KVA_LOG_WARN, "run %s cannot be planned again: %s", d->runs[r].uuid,
                    why.text);
        }
        kva_buf_release(&report);
        kva_plan_release(&plan);
        kva_suite_release(&suite);
    }
    return rc;
}

static void print_prompt(const struct kva_item *it, const struct kva_sample_row *row)
{
    json_t *meta = json_loads(row->meta_json != NULL ? row->meta_json : "{}", 0, NULL),
           *span;
    size_t i;

    printf("\n--- context, %zu tokens\n%s\n", it->n_context,
           it->context != NULL ? it->context : "(given as token ids)");
    printf("\n--- question and answer prefix, %zu tokens with the chat template\n%s|%s\n",
           it->n_question, it->question != NULL ? it->question : "",
           it->answer_prefix != NULL ? it->answer_prefix : "");
    printf("\n--- references\n");
    for (int a = 0; a < it->n_answers; a++)
        printf("%s\n", it->answers[a]);
    json_array_foreach(json_object_get(meta, "spans"), i, span)
    {
        json_t *byte = json_object_get(span, "byte"), *tok = json_object_get(span, "tok");
        int b0 = (int)json_integer_value(json_array_get(byte, 0));
        int b1 = (int)json_integer_value(json_array_get(byte, 1));

        if (i == 0)
            printf("\n--- spans (E evidence, P its payload, D matched distractor)\n");
        printf("%-4s tokens %4d-%-4d %.*s\n",
               json_string_value(json_object_get(span, "id")),
               (int)json_integer_value(json_array_get(tok, 0)),
               (int)json_integer_value(json_array_get(tok, 1)),
               it->context != NULL ? b1 - b0 : 0,
               it->context != NULL ? it->context + b0 : "");
    }
    json_decref(meta);
}

/* ---- what stayed ---- */

/* One character a column: the share of (layer, KV head) pairs that hold the column's
 * tokens. */
static bool print_strip(struct kva_db *db, const struct kva_data_outcome *o, int layers)
{
    static const char shade[] = " .:-=+*#%@";
    double share[STRIP] = {0}, count[STRIP] = {0};
    int heads = 0, n = 0;

    for (int l = 0; l < layers; l++) {
        struct kva_buf bits;

        kva_buf_init(&bits, 0);
        if (!kva_db_kept_bits(db, o->outcome_id, l, &heads, &n, &bits)) {
            kva_buf_release(&bits);
            return false;
        }
        for (int h = 0; h < heads; h++)
            for (int t = 0; t < n; t++) {
                const uint8_t *row =
                    (const uint8_t *)bits.data + (size_t)h * (((size_t)n + 7) / 8);
                int col = (int)((int64_t)t * STRIP / n);

                share[col] += (row[t / 8] >> (t % 8)) & 1;
                count[col] += 1;
            }
        kva_buf_release(&bits);
    }
    printf("    [");
    for (int c = 0; c < STRIP; c++) {
        int level = count[c] > 0 ? (int)(share[c] / count[c] * 9 + 0.5) : 0;

        putchar(shade[level]);
    }
    printf("] kept, oldest token left\n");
    return true;
}

static void print_outcome(struct kva_db *db, const struct kva_data *d,
                          const struct kva_data_outcome *o)
{
    const struct kva_data_cell *c = &d->cells[o->cell];
    struct kva_error err = {0};
    struct kva_buf text;

    printf("\n%s, %s %.4g, %s, %s, %s", c->method, c->budget_kind, c->budget, c->schedule,
           c->enforce, c->visibility);
    if (strcmp(c->numerics, "f32") != 0)
        printf(", numerics %s", c->numerics);
    printf("\n");
    if (strcmp(o->status, "ok") != 0) {
        printf("    %s: %s\n", o->status, o->error != NULL ? o->error : "");
        return;
    }
    kva_buf_init(&text, 0);
    if (kva_db_generation(db, o->outcome_id, &text, &err) == KVA_OK)
        printf("    answer \"%s\" (%s)\n", text.data != NULL ? text.data : "",
               o->stop != NULL ? o->stop : "");
    kva_buf_release(&text);
    printf("    score %.3f", o->score);
    if (o->gold_nll == o->gold_nll)
        printf(", %.4f nats a gold token", o->gold_nll);
    if (o->has_memory)
        printf(", %lld of %lld bytes live", (long long)o->memory.kv_live_bytes,
               (long long)o->memory.kv_dense_bytes);
    if (o->span_e == o->span_e)
        printf(", evidence kept %.0f %%", o->span_e * 100);
    if (o->span_payload == o->span_payload)
        printf(", payload %.0f %%", o->span_payload * 100);
    if (o->span_d == o->span_d)
        printf(", distractor %.0f %%", o->span_d * 100);
    printf("\n");
    (void)print_strip(db, o, d->models[c->model].n_layer);
}

enum kva_status kva_cmd_report_sample(const char *id, struct kva_db *const *dbs,
                                      int n_dbs, const struct kva_data *data,
                                      struct kva_error *err)
{
    struct kva_item item = {0};
    struct kva_sample_row row = {0};
    struct kva_arena arena;
    char label[512], hex[65];
    bool made = false;
    int s = 0;
    enum kva_status rc;

    kva_arena_init(&arena);
    KVA_GO(find_sample(id, data, &s, err));
    label_of(data, &data->samples[s], label, sizeof label);
    kva_hex(data->samples[s].digest, 32, hex);
    printf("sample %s, digest %.16s\n", label, hex);
    KVA_GO(remake(data, &data->samples[s], &arena, &item, &row, &made, err));
    if (!made)
        printf("the prompt could not be made again here (model file or data missing)\n");
    else if (memcmp(row.digest, data->samples[s].digest, 32) != 0)
        rc = KVA_FAIL(err, KVA_ECONFLICT,
                      "the prompt made again differs from the one that was measured");
    else
        print_prompt(&item, &row);
    if (rc != KVA_OK)
        goto out;
    printf("\n--- answers\n");
    for (int i = 0; i < data->n_outcomes; i++)
        if (data->outcomes[i].sample == s && data->outcomes[i].db < n_dbs)
            print_outcome(dbs[data->outcomes[i].db], data, &data->outcomes[i]);
out:
    kva_sample_row_release(&row);
    kva_arena_release(&arena);
    return rc;
}
