/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qa.h - a question among numbered documents, whatever the documents are (qa.c,
 * qa_synth.c). */
#ifndef KVA_TASKS_QA_H
#define KVA_TASKS_QA_H

#include "tasks/internal.h"

enum { KVA_QA_FACTS_MAX = 32, KVA_QA_GOLD_MAX = 32 };

/* Evidence: bytes of a gold document, in it the payload (empty: none). */
struct kva_qa_evidence {
    int gold;
    struct kva_slice at, value; /* both in the document */
};
/* What an item is made of. Gold document j stands at place floor(u[j] n) of n documents;
 * the others, of which the first ones are taken, in the order of their keys. */
struct kva_qa_plan {
    const char *gold[KVA_QA_GOLD_MAX];
    double u[KVA_QA_GOLD_MAX];
    int n_gold;
    struct kva_qa_evidence fact[KVA_QA_FACTS_MAX];
    int n_facts;
    /* Text of the i-th document that is not gold, i < n_others; asked for ascending. */
    enum kva_status (*other)(void *ctx, size_t i, const char **text,
                             struct kva_error *err);
    void *ctx;
    size_t n_others;
    bool uninstructed;
    size_t n_used; /* out: others in the context */
    /* ---- kept by qa.c ---- */
    struct kva_rng rng; /* in: "...|hay", one key for every other document */
    struct kva_qa_doc {
        double key;
        const char *text;
        size_t number; /* among the others; SIZE_MAX: gold */
        int gold;      /* or -1 */
    } * doc;
    size_t n_docs, cap_docs; /* others that have a key */
};
/* SHA-256 of the templates. */
void kva_qa_templates_sha256(char hex[65]);
/* Question and prefix, gold text, context, spans. item->answers are set; the plan's
 * memory is released. `forbidden`: what no distractor may hold. */
enum kva_status kva_qa_item(const struct kva_task *task, struct kva_qa_plan *plan,
                            const char *query, const char *const *forbidden,
                            size_t n_forbidden, const struct kva_tok_api *tok,
                            struct kva_arena *arena, struct kva_item *item,
                            struct kva_error *err);
/* Place of gold document j of m of sample idx, in [0, 1): deciles are balanced over idx.
 */
double kva_qa_place(struct kva_rng *rng, int idx, int j, int m);

#endif
