/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qa_data.h - SQuAD v2 and HotpotQA files as documents and questions, the way RULER reads
 * them.
 *
 * SQuAD: documents are the paragraphs, questions the answerable ones in file order, gold
 * the question's paragraph, `more` the other paragraphs of its article in article order.
 * HotpotQA: a document is title, line feed, sentences glued together; gold are the
 * documents of the question, in its order; no `more`. */
#ifndef KVA_TASKS_QA_DATA_H
#define KVA_TASKS_QA_DATA_H

#include "tasks/internal.h"

/* A sentence that supports the answer: bytes of document gold[gold], blanks at its ends
 * left out. */
struct kva_qa_fact {
    int gold;
    struct kva_slice at;
};
struct kva_qa_question {
    const char *text;
    const char *const *answers; /* SQuAD: of every annotator, repetitions kept */
    int n_answers;
    const int *gold, *more; /* numbers of documents */
    int n_gold, n_more;
    size_t
        answer_start; /* SQuAD: of answers[0], byte in document gold[0]; else SIZE_MAX */
    const struct kva_qa_fact *facts; /* HotpotQA, in file order; facts that name a title
                                      * or sentence the question does not have are left
                                      * out and counted in kva_qa.n_bad_facts */
    int n_facts;
};
struct kva_qa {
    struct kva_arena arena;
    const char **doc; /* distinct, sorted by byte (Python's order of code points) */
    size_t n_docs;
    struct kva_qa_question *question;
    size_t n_questions;
    size_t n_bad_facts;
    char sha256[65]; /* of the file */
};

/* The user's data `squad` or `hotpot` (kva_data_find), or with `mini` the miniature set
 * the program carries. KVA_EIO without the file, KVA_EFORMAT with file, place in it and
 * reason. */
enum kva_status kva_qa_open(struct kva_qa *qa, bool hotpot,
                            const struct kva_task_opts *opts, bool mini,
                            struct kva_error *err);
void kva_qa_release(struct kva_qa *qa);

#endif
