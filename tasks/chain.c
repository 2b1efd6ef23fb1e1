/* SPDX-License-Identifier: GPL-3.0-or-later */
/* chain.c - chains of variables for variable tracking (RULER, scripts/data/synthetic). */
#include "tasks/chain.h"

#include <stdio.h>
#include <string.h>

enum { NAMES = KVA_CHAIN_NAMES };

const char kva_chain_instruction[] =
    "Memorize and track the chain(s) of variable assignment hidden "
    "in the following text.\n\n";
static const char question[] =
    "Question: Find all variables that are assigned the value %d in the text above. ";
static const char prefix[] =
    "Answer: According to the chain(s) of variable assignment in the text above, %d "
    "variables are assigned the value %d, they are: ";

void kva_chain_hash(char sha256[65])
{
    struct kva_sha256 h;
    uint8_t digest[32];

    kva_sha256_init(&h);
    kva_sha256_add(&h, kva_chain_instruction, sizeof kva_chain_instruction);
    kva_sha256_add(&h, question, sizeof question);
    kva_sha256_add(&h, prefix, sizeof prefix);
    kva_sha256_add(&h, kva_noise_line, strlen(kva_noise_line));
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, sha256);
}

static bool is_taken(const char *name, const struct kva_chain *c, int n_names,
                     const struct kva_chain *others, int n_others)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(c->name[i], name) == 0)
            return true;
    for (int k = 0; k < n_others; k++)
        for (int i = 0; i < NAMES; i++)
            if (strcmp(others[k].name[i], name) == 0)
                return true;
    return false;
}

static bool is_taken_value(int value, const struct kva_chain *others, int n_others)
{
    for (int k = 0; k < n_others; k++)
        if (others[k].value == value)
            return true;
    return false;
}

void kva_chain_draw(struct kva_chain *c, struct kva_rng *rng, int letters, int idx,
                    const struct kva_chain *others, int n_others)
{
    for (int i = 0; i < NAMES; i++)
        do {
            for (int k = 0; k < letters; k++)
                c->name[i][k] = (char)('A' + kva_rng_below(rng, 26));
            c->name[i][letters] = '\0';
        } while (is_taken(c->name[i], c, i, others, n_others));
    do {
        c->value = 10000 + (int)kva_rng_below(rng, 90000);
    } while (is_taken_value(c->value, others, n_others));
    for (int j = 0; j < NAMES; j++)
        c->plant[j].u = kva_place_draw(rng, idx, j, NAMES);
    kva_plants_arrange(c->plant, NAMES, 1, true);
    for (int j = 0; j < NAMES; j++) {
        struct kva_plant *p = &c->plant[j];
        size_t n = strlen(c->name[j]);

        if (j == 0)
            snprintf(c->statement[j], sizeof c->statement[j], "VAR %s = %d", c->name[j],
                     c->value);
        else /* the official text has this blank at the end */
            snprintf(c->statement[j], sizeof c->statement[j], "VAR %s = VAR %s ",
                     c->name[j], c->name[j - 1]);
        p->text = c->statement[j];
        p->role = "link";
        p->queried = true;
        p->value = (struct kva_slice){4, 4 + n};
        p->key = (struct kva_slice){7 + n, strlen(c->statement[j]) - (j > 0)};
    }
}

enum kva_status kva_chain_place(struct kva_draft *d, struct kva_plant *plants,
                                size_t n_plants, size_t n, struct kva_error *err)
{
    static const struct kva_units units = {kva_noise_unit, NULL};

    kva_plants_arrange(plants, n_plants, n, true);
    KVA_TRY(kva_draft_place(d, &units, n, plants, n_plants, true, false, err));
    for (size_t j = 0; j < n_plants; j++)
        if (d->text.data[d->planted[j].b1 - 1] == ' ')
            d->planted[j].b1--; /* the blank is no evidence */
    kva_buf_putc(&d->text, '\n');
    return kva_buf_status(&d->text, err);
}

const char *kva_chain_question(const struct kva_chain *c, struct kva_arena *arena)
{
    return kva_arena_printf(arena, question, c->value);
}

const char *kva_chain_prefix(const struct kva_chain *c, struct kva_arena *arena)
{
    return kva_arena_printf(arena, prefix, NAMES, c->value);
}

enum kva_status kva_chain_example(const struct kva_task *task, int idx,
                                  const struct kva_chain *others, int n_others,
                                  struct kva_arena *arena, const char **out,
                                  struct kva_error *err)
{
    struct kva_rng rng = kva_task_stream(task, idx, "|hay");
    struct kva_chain *c = kva_arena_alloc(arena, 1, sizeof *c);
    struct kva_draft d;
    enum kva_status rc;

    if (!c)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    kva_chain_draw(c, &rng, 3, idx, others, n_others);
    kva_buf_puts(&d.text, kva_chain_instruction);
    KVA_GO(kva_chain_place(&d, c->plant, NAMES, KVA_CHAIN_EXAMPLE_LINES, err));
    kva_buf_printf(&d.text, question, c->value);
    kva_buf_printf(&d.text, prefix, NAMES, c->value);
    for (int j = 0; j < NAMES; j++)
        kva_buf_printf(&d.text, " %s", c->name[j]);
    kva_buf_puts(&d.text, "\n\n");
    KVA_GO(kva_buf_status(&d.text, err));
    *out = kva_arena_strdup(arena, d.text.data);
    if (!*out)
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
out:
    kva_draft_release(&d);
    return rc;
}

void kva_chain_open(struct kva_draft *d, const char *example)
{
    d->example = kva_draft_add(d, example, strlen(example));
    d->example.b1 -= 2; /* the blank line is no part of it */
    kva_buf_puts(&d->text, kva_chain_instruction);
}
