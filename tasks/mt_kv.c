/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt_kv.c - mt/kv: values of a JSON object of uuids, as SCBench's Retr.KV
 * (tasks-ruler.md 10.1, 10.2).
 *
 *     Extract the value corresponding to the specified key in the JSON object below.
 *
 *     {"uuid": "uuid", "uuid": "uuid", ...}
 *
 * Draws, from the context's stream: key and value of the pair that each question asks
 * for, then its place (before pair floor(u (n + 1)), deciles balanced over the contexts).
 * The other pairs come from the stream "...|hay", pair i from its draws 4 i to 4 i + 3,
 * so that any pair is at hand and n pairs are a prefix of n + 1. 122 random bits are not
 * compared for equality. Evidence is the pair without its comma; distractors are other
 * pairs. An answer picked among the values is right once in as many as there are. */
#include "tasks/mt.h"
#include "tasks/needles.h"

#include <stdlib.h>
#include <string.h>

static const char instruction[] =
    "Extract the value corresponding to the specified key in the JSON object below.\n\n";
static const char question[] =
    "Key: \"%.36s\"\nThe value associated with the specified key is: ";
enum {
    PAIR = 2 * KVA_UUID + 7, /* "key": "value", */
    KEY_AT = 1,
    VALUE_AT = KVA_UUID + 5
};

struct state {
    struct kva_mt mt;
};

static enum kva_status kv_open(struct kva_task *task, const struct kva_task_request *req,
                               struct kva_error *err)
{
    static const char *const texts[] = {instruction, question};
    struct state *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->mt = (struct kva_mt){.param = {{"turns", &s->mt.turns, 1, KVA_TURNS_MAX, 5}},
                            .n_params = 1};
    KVA_TRY(kva_mt_open(task, req, &s->mt, err));
    kva_mt_hash(&s->mt, texts, 2);
    task->info.domain = "retrieval";
    task->info.binary = task->info.has_depth = true;
    return KVA_OK;
}

static void write_pair(struct kva_rng *rng, char out[PAIR + 1])
{
    memset(out, 0, PAIR + 1);
    out[0] = out[KEY_AT + KVA_UUID] = out[VALUE_AT - 1] = out[PAIR - 2] = '"';
    out[KEY_AT + KVA_UUID + 1] = ':';
    out[KEY_AT + KVA_UUID + 2] = ' ';
    out[PAIR - 1] = ',';
    kva_uuid_write(rng, out + KEY_AT);
    kva_uuid_write(rng, out + VALUE_AT);
}

struct plan {
    char *scratch;      /* the pair last asked for */
    struct kva_rng hay; /* at pair 0 */
    char pair[KVA_TURNS_MAX][PAIR + 1];
    struct kva_plant plant[KVA_TURNS_MAX];
    size_t n_plants;
};

static void hay_unit(const void *ctx, size_t i, const char **text, size_t *n)
{
    const struct plan *p = ctx;
    struct kva_rng rng = {p->hay.x + 4 * i * 0x9e3779b97f4a7c15ULL};

    write_pair(&rng, p->scratch);
    *text = p->scratch;
    *n = PAIR;
}

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;
    struct kva_units units = {hay_unit, p};

    kva_plants_arrange(p->plant, p->n_plants, n, true);
    kva_buf_puts(&d->text, instruction);
    kva_buf_putc(&d->text, '{');
    KVA_TRY(kva_draft_place(d, &units, n, p->plant, p->n_plants, false, false, err));
    KVA_TRY(kva_buf_status(&d->text, err));
    d->text.len--; /* no comma behind the last pair */
    d->hay.b1--;
    if (d->unit[n - 1].b1 > d->hay.b1)
        d->unit[n - 1].b1--;
    for (size_t j = 0; j < p->n_plants; j++)
        d->planted[j].b1--;
    kva_buf_putc(&d->text, '}');
    return kva_buf_status(&d->text, err);
}

static enum kva_status draw(const struct kva_task *task, struct plan *p,
                            const struct kva_item *item, struct kva_item *turns,
                            struct kva_arena *arena, struct kva_error *err)
{
    const struct state *s = task->state;
    int context = kva_mt_context(&s->mt, item), n = s->mt.turns;
    struct kva_rng rng = kva_task_stream(task, context, "");

    p->hay = kva_task_stream(task, context, "|hay");
    p->scratch = kva_arena_alloc(arena, 1, PAIR + 1);
    p->n_plants = (size_t)n;
    for (int t = 0; t < n; t++) {
        const char **answer = kva_arena_alloc(arena, 1, sizeof *answer);

        write_pair(&rng, p->pair[t]);
        p->plant[t] = (struct kva_plant){
            .text = p->pair[t],
            .role = "pair",
            .queried = t == kva_mt_turn(&s->mt, item),
            .key = {KEY_AT, KEY_AT + KVA_UUID},
            .value = {VALUE_AT, VALUE_AT + KVA_UUID},
            .u = kva_place_draw(&rng, context, t, n),
        };
        if (!p->scratch || !answer)
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
        *answer = kva_arena_strndup(arena, p->pair[t] + VALUE_AT, KVA_UUID);
        if (!*answer)
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
        KVA_TRY(kva_mt_ask(task, &turns[t],
                           kva_arena_printf(arena, question, p->pair[t] + KEY_AT), "",
                           answer, 1, "", arena, err));
    }
    return KVA_OK;
}

/* All values but the one that is asked for. */
static enum kva_status add_decoys(const struct plan *p, size_t n_hay,
                                  const struct kva_item *turns, int n_turns,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    size_t most = n_hay + (size_t)n_turns;
    const char **decoys = kva_arena_alloc(arena, most, sizeof *decoys);
    char *text = kva_arena_alloc(arena, n_hay, KVA_UUID + 1);

    if (!decoys || !text)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    for (int t = 0; t < n_turns; t++)
        if (t != item->turn)
            decoys[item->n_decoys++] = turns[t].answers[0];
    for (size_t i = 0; i < n_hay; i++, text += KVA_UUID + 1) {
        const char *pair;
        size_t n;

        hay_unit(p, i, &pair, &n);
        memcpy(text, pair + VALUE_AT, KVA_UUID);
        decoys[item->n_decoys++] = text;
    }
    item->decoys = decoys;
    return KVA_OK;
}

static enum kva_status kv_item(const struct kva_task *task, int idx,
                               const struct kva_tok_api *tok, struct kva_arena *arena,
                               struct kva_item *item, struct kva_error *err)
{
    const struct state *s = task->state;
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    struct kva_item *turns = kva_mt_turns(&s->mt, item, arena);
    const char *forbidden[2 * KVA_TURNS_MAX];
    struct kva_span_job job = {.forbidden = forbidden, .whole_units = true};
    struct kva_fit fit = {.build = build, .ctx = p, .n_max = (size_t)task->info.ctx};
    struct kva_draft d;
    enum kva_status rc;

    if (!p || !turns)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    KVA_GO(draw(task, p, item, turns, arena, err));
    job.plants = p->plant;
    job.n_plants = p->n_plants;
    for (int t = 0; t < s->mt.turns; t++) {
        char *key = kva_arena_strndup(arena, p->pair[t] + KEY_AT, KVA_UUID);

        if (!key) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
            goto out;
        }
        forbidden[job.n_forbidden++] = key;
        forbidden[job.n_forbidden++] = turns[t].answers[0];
    }
    KVA_GO(kva_mt_finish(task, &s->mt, turns, &fit, &d, &job, tok, arena, item, err));
    item->guess_floor = 1.0 / (double)(fit.n_units + p->n_plants);
    rc = add_decoys(p, fit.n_units, turns, s->mt.turns, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

static int kv_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct state *s = task->state;

    (void)source;
    return kva_mt_describe(task, &s->mt, gen);
}

const struct kva_family kva_family_mt_kv = {kv_open, free, kv_item, kv_describe};
